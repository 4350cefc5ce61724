"""ExecuTorch in a separate process: `executorch_child.py FOLDER LEAKY SHIFT`; prints the result of each case.

The arguments are the output folder, and folders of packages.  Each model goes through ExecuTorch's Qualcomm
partitioner on the libQnnHtp.so of LD_LIBRARY_PATH, and is run by ExecuTorch's runtime, whose QNN delegate registers the
package again.  FOLDER/<case> then has x.npy, want.npy, runtime.npy and the context, forward_0.bin.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.library import Library, impl

import udogen.compat.qti
from udogen.clients.executorch import check_delegated, op_package_options, proving
from udogen.errors import UdogenError
from udogen.runtime.execution_counts import NotExecuted

udogen.compat.qti.install()  # before the imports that import Qualcomm's generator

from executorch.backends.qualcomm.custom_op.annotator import CustomOpsQuantAnnotator, IOQuantConfig  # noqa: E402
from executorch.backends.qualcomm.custom_op.interface import QnnCustomOpPackageBuilder  # noqa: E402
from executorch.backends.qualcomm.export_utils import QuantDtype, make_quantizer  # noqa: E402
from executorch.backends.qualcomm.quantizer.qconfig import get_ptq_per_channel_quant_config  # noqa: E402
from executorch.backends.qualcomm.serialization.qc_schema import (  # noqa: E402
    QcomChipset,
    QnnExecuTorchOpPackagePlatform,
    QnnExecuTorchOpPackageTarget,
)
from executorch.backends.qualcomm.utils.utils import (  # noqa: E402
    dump_context_from_pte,
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from executorch.runtime import Runtime  # noqa: E402
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e  # noqa: E402

FOLDER, LEAKY, SHIFT = map(Path, sys.argv[1:4])
OPS = Library("demo", "DEF")


def operator(schema: str, run: Callable[..., torch.Tensor], key: str = "CompositeExplicitAutograd") -> Any:
    OPS.define(schema)
    name = schema.partition("(")[0]
    impl(OPS, name, dispatch_key=key)(run)
    return getattr(torch.ops.demo, name).default


def _shift(x: torch.Tensor, by: int, more: bool, each: Any = ()) -> torch.Tensor:
    return x + by + (10.0 if more else 0.0) + sum(100.0 * (i + 1) * one for i, one in enumerate(each))


def _leaky(x: torch.Tensor, alpha: float = 0.01) -> torch.Tensor:
    return torch.where(x > 0, x, x * alpha)


leaky = operator("leaky(Tensor input, float alpha=0.01) -> Tensor", _leaky)
apart = operator("apart(Tensor input, float alpha=0.01) -> Tensor", _leaky, "CompositeImplicitAutograd")
shift = operator("shift(Tensor input, int by, bool more) -> Tensor", _shift)
lists = operator("lists(Tensor input, int by, bool more, int[] each) -> Tensor", _shift)
swapped = operator("swapped(Tensor input, bool more, int by) -> Tensor", lambda x, more, by: _shift(x, by, more))


class Net(torch.nn.Module):
    """Convolution, custom op, convolution: the tensors of the convolutions have another layout."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(leaky(self.first(x), 0.2))


class Calls(torch.nn.Module):
    """A module that returns the output of a function."""

    def __init__(self, message: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.message = message

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.message(x) + 1


def quantized(net: torch.nn.Module, x: torch.Tensor) -> torch.nn.Module:
    """Return the net quantized with the annotator of ExecuTorch's custom-op interface, as in its example."""
    q = get_ptq_per_channel_quant_config()
    annotator = CustomOpsQuantAnnotator()
    annotator.register_annotation(leaky, IOQuantConfig({0: q.input_activation}, {0: q.output_activation}))
    quantizer = make_quantizer(
        quant_dtype=QuantDtype.use_8a8w, custom_annotations=(annotator.build_annotation_fn(),), soc_model="SM8650"
    )
    prepared = prepare_pt2e(torch.export.export(net, (x,), strict=True).module(), quantizer)
    prepared(x)
    return convert_pt2e(prepared)


def lower(name: str, net: torch.nn.Module, x: torch.Tensor, options: Any, *, fp16: bool = True) -> None:
    htp = generate_htp_compiler_spec(use_fp16=fp16)
    spec = generate_qnn_executorch_compiler_spec(QcomChipset.SM8650, htp, op_package_options=options)
    edge = to_edge_transform_and_lower_to_qnn(net, (x,), spec)
    check_delegated(edge, options)
    folder = FOLDER / name
    folder.mkdir()
    (folder / "model.pte").write_bytes(edge.to_executorch().buffer)
    dump_context_from_pte(str(folder / "model.pte"))
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "want.npy", net(x).detach().numpy())
    program = Runtime.get().load_program(folder / "model.pte")
    method = program.load_method("forward")
    with proving(options):
        reply = method.execute([x])[0]
    np.save(folder / "runtime.npy", reply.numpy())
    try:
        with proving(options):
            pass
    except NotExecuted:
        return
    raise AssertionError("nothing was executed, and that is a proof")


def over_interface() -> Any:
    config = next((LEAKY / "LeakyReluPackage" / "config").glob("*.xml"))
    builder = QnnCustomOpPackageBuilder(str(config), {"LeakyRelu": leaky})
    library = LEAKY / "LeakyReluPackage" / "build" / "x86_64-linux-clang" / "libQnnLeakyReluPackage.so"
    builder.register_implementation(
        QnnExecuTorchOpPackageTarget.CPU, QnnExecuTorchOpPackagePlatform.X86_64, str(library)
    )
    return builder.get_op_package_options()


def without_library(options: Any) -> Any:
    options.op_package_infos[0].op_package_path = "/nowhere/lib.so"
    return options


torch.manual_seed(2)
X, IMAGE = torch.linspace(-2, 2, 192).reshape(2, 3, 4, 8), torch.randn(1, 3, 16, 16)
of_leaky = {"LeakyRelu": leaky}
CASES: dict[str, Callable[[str], None]] = {
    "alone": lambda name: lower(name, Calls(lambda x: leaky(x, 0.2)), X, op_package_options([LEAKY], of_leaky)),
    "interface": lambda name: lower(name, Net().eval(), IMAGE, over_interface()),
    "quantized": lambda name: lower(
        name, quantized(Net().eval(), IMAGE), IMAGE, op_package_options([LEAKY], of_leaky), fp16=False
    ),
    "scalars": lambda name: lower(
        name, Calls(lambda x: shift(x, 3, True)), X, op_package_options([SHIFT], {"Shift": shift})
    ),
    # Cases that udogen's rules refuse, with the rules bypassed: the rules state the consequences.
    "list": lambda name: lower(
        name, Calls(lambda x: lists(x, 3, True, [1, 2, 3])), X, op_package_options([SHIFT], {"Shift": str(lists)})
    ),
    "order": lambda name: lower(
        name, Calls(lambda x: swapped(x, True, 3)), X, op_package_options([SHIFT], {"Shift": str(swapped)})
    ),
    "left out": lambda name: lower(name, Calls(leaky), X, op_package_options([LEAKY], of_leaky)),
    "no library": lambda name: lower(
        name, Calls(lambda x: leaky(x, 0.2)), X, without_library(op_package_options([LEAKY], of_leaky))
    ),
    "taken apart": lambda name: lower(
        name, Calls(lambda x: apart(x, 0.2)), X, op_package_options([LEAKY], {"LeakyRelu": apart})
    ),
    "built in": lambda name: lower(
        name, torch.nn.LeakyReLU(0.2), X, op_package_options([LEAKY], {"LeakyRelu": "aten.leaky_relu.default"})
    ),
    "refused": lambda _: op_package_options([SHIFT], {"Shift": lists}),
}

replies = {}
for case, run in CASES.items():
    try:
        run(case)
        replies[case] = "fine"
    except UdogenError as fault:
        replies[case] = f"{type(fault).__name__}: {fault.message}"
    except Exception as fault:
        replies[case] = f"{type(fault).__name__}: {str(fault)[:500]}"
print(f"\nANSWERS {json.dumps(replies)}")
