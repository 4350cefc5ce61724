=== python python
from executorch.backends.qualcomm.serialization.qc_schema import (
    QnnExecuTorchOpPackageInfo,
    QnnExecuTorchOpPackageOptions,
    QnnExecuTorchOpPackagePlatform,
    QnnExecuTorchOpPackageTarget,
)

op_package_options = QnnExecuTorchOpPackageOptions(
    op_package_infos=[
% for info in infos:
        QnnExecuTorchOpPackageInfo(
            op_package_name=${info.package.python},
            op_package_path=${info.path.python},
            interface_provider=${info.provider.python},
            target=QnnExecuTorchOpPackageTarget.${info.target},
            custom_op_name=${info.torch_name.python},
            qnn_op_type_name=${info.op.python},
            platform=QnnExecuTorchOpPackagePlatform.${info.platform},
        ),
% endfor
    ]
)
# custom_op_name is str() of the operator in your model; pass op_package_options to
# build_executorch_binary, or to generate_qnn_executorch_compiler_spec.

=== builder python
% if config:
import torch
from executorch.backends.qualcomm.custom_op.interface import QnnCustomOpPackageBuilder
from executorch.backends.qualcomm.serialization.qc_schema import (
    QnnExecuTorchOpPackagePlatform,
    QnnExecuTorchOpPackageTarget,
)

builder = QnnCustomOpPackageBuilder(
    xml_path=${config.python},
    torch_op_name_map={${names}},
    interface_provider=${provider.python},
)
% for library in libraries:
builder.register_implementation(
    target=QnnExecuTorchOpPackageTarget.${library.target},
    platform=QnnExecuTorchOpPackagePlatform.${library.platform},
    op_package_path=${library.path.python},
)
% endfor
op_package_options = builder.get_op_package_options()
% endif
