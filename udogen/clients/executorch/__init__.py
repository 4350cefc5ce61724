"""ExecuTorch with our op packages: the options object that its lowering takes, and whether our ops were really lowered.

from udogen.clients.executorch import check_delegated, op_package_options

options = op_package_options(["out/LeakyReluPackage"], {"LeakyRelu": torch.ops.my_ops.leaky_relu.default})
spec = generate_qnn_executorch_compiler_spec(soc_model=..., backend_options=..., op_package_options=options)
edge = to_edge_transform_and_lower_to_qnn(model, inputs, spec)
check_delegated(edge, options)

And where ExecuTorch's own runtime runs it, on a PC: `with proving(options): method.execute([x])`.
"""

from __future__ import annotations

from udogen.clients.executorch.lowered import NotDelegated, check_delegated
from udogen.clients.executorch.options import op_package_options
from udogen.clients.executorch.proving import proving

__all__ = ["NotDelegated", "check_delegated", "op_package_options", "proving"]
