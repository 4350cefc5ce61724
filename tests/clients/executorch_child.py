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
from udogen.clients import programs
from udogen.clients.client import register
from udogen.clients.package import PackageOptions, find_packages

udogen.compat.qti.install()  # before the imports that import Qualcomm's generator

from executorch.backends.qualcomm.custom_op.interface import QnnCustomOpPackageBuilder  # noqa: E402
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


def printed(folder: Path, torch_op: Any) -> Any:
    """Return the options that `udogen register` prints, with the name of this operator."""
    setup = register(programs.ALL["executorch"], find_packages([folder], PackageOptions()), only="python")
    names: dict[str, Any] = {}
    exec(setup.snippets[0].text, names)
    for info in names["op_package_options"].op_package_infos:
        info.custom_op_name = str(torch_op)
    return names["op_package_options"]


def lower(name: str, net: torch.nn.Module, x: torch.Tensor, options: Any) -> None:
    htp = generate_htp_compiler_spec(use_fp16=True)
    spec = generate_qnn_executorch_compiler_spec(QcomChipset.SM8650, htp, op_package_options=options)
    edge = to_edge_transform_and_lower_to_qnn(net, (x,), spec)
    folder = FOLDER / name
    folder.mkdir()
    (folder / "model.pte").write_bytes(edge.to_executorch().buffer)
    dump_context_from_pte(str(folder / "model.pte"))
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "want.npy", net(x).detach().numpy())
    program = Runtime.get().load_program(folder / "model.pte")
    method = program.load_method("forward")
    np.save(folder / "runtime.npy", method.execute([x])[0].numpy())


def over_interface() -> Any:
    config = next((LEAKY / "LeakyReluPackage" / "config").glob("*.xml"))
    builder = QnnCustomOpPackageBuilder(str(config), {"LeakyRelu": leaky})
    library = LEAKY / "LeakyReluPackage" / "build" / "x86_64-linux-clang" / "libQnnLeakyReluPackage.so"
    builder.register_implementation(
        QnnExecuTorchOpPackageTarget.CPU, QnnExecuTorchOpPackagePlatform.X86_64, str(library)
    )
    return builder.get_op_package_options()


torch.manual_seed(2)
X, IMAGE = torch.linspace(-2, 2, 192).reshape(2, 3, 4, 8), torch.randn(1, 3, 16, 16)
CASES: dict[str, Callable[[str], None]] = {
    "alone": lambda name: lower(name, Calls(lambda x: leaky(x, 0.2)), X, printed(LEAKY, leaky)),
    "interface": lambda name: lower(name, Net().eval(), IMAGE, over_interface()),
    "scalars": lambda name: lower(name, Calls(lambda x: shift(x, 3, True)), X, printed(SHIFT, shift)),
    # What udogen's rules and notes warn of.
    "list": lambda name: lower(name, Calls(lambda x: lists(x, 3, True, [1, 2, 3])), X, printed(SHIFT, lists)),
    "order": lambda name: lower(name, Calls(lambda x: swapped(x, True, 3)), X, printed(SHIFT, swapped)),
}

replies = {}
for case, run in CASES.items():
    try:
        run(case)
        replies[case] = "fine"
    except Exception as fault:
        replies[case] = f"{type(fault).__name__}: {str(fault)[:500]}"
print(f"\nANSWERS {json.dumps(replies)}")
