"""Whether our ops are in what ExecuTorch lowered to QNN; it goes on without a word where they are not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from udogen.errors import RunFailed


class NotDelegated(RunFailed):
    """A custom operator is not where it should be: in what was lowered to QNN, in our package."""

    kind = "executorch-not-delegated"


def check_delegated(program: Any, options: Any) -> None:
    """Raise where an op of the options is not in what was lowered to QNN.

    `program` is what `to_edge_transform_and_lower_to_qnn` answers, or an `ExportedProgram`; `options` are those of
    `op_package_options`.  That an op is there is read in what QNN made, a context binary or (online_prepare) a DLC.
    """
    programs = list(_programs(program))
    names = {info.custom_op_name for info in options.op_package_infos}
    left = Counter(
        name
        for each in programs
        for node in each.graph.nodes
        if node.op == "call_function" and (name := getattr(node.target, "__name__", "")) in names
    )
    if left:
        counts = ", ".join(f"{name} ({count} node{'' if count == 1 else 's'})" for name, count in sorted(left.items()))
        raise NotDelegated(
            f"not lowered to QNN: {counts}",
            details=["ExecuTorch leaves to other kernels what QNN does not take; a failed registration is only logged"],
            hint="lower it with generate_qnn_executorch_compiler_spec(..., debug=True), then `udogen explain LOG`",
        )
    made = [blob for each in programs for blob in _made_by_qnn(each)]
    wanted = {info.custom_op_name: (info.op_package_name, info.qnn_op_type_name) for info in options.op_package_infos}
    lost = [
        f"{name} is not in what was lowered as op {op} of package {package}"
        for name, (package, op) in wanted.items()
        if not any(_has(blob, package, op) for blob in made)
    ]
    if lost:
        raise NotDelegated(
            lost[0],
            details=lost[1:],
            hint="the model does not have it, or it was replaced before: torch.export takes apart what is registered "
            "as CompositeImplicitAutograd, ExecuTorch's passes some built-in operators (aten.leaky_relu)",
        )


def _programs(program: Any) -> Iterator[Any]:
    if hasattr(program, "methods"):  # an EdgeProgramManager
        for name in sorted(program.methods):
            yield program.exported_program(name)
    else:
        yield program


def _made_by_qnn(program: Any) -> Iterator[bytes]:
    for module in program.graph_module.modules():
        if getattr(module, "backend_id", "") == "QnnBackend":
            yield module.processed_bytes


def _has(blob: bytes, package: str, op: str) -> bool:
    if f"{package}::".encode() in blob:  # a context binary names its kernels so, with more behind a `_`
        return re.search(rf"\b{re.escape(package)}::{re.escape(op)}(?![A-Za-z0-9])".encode(), blob) is not None
    return all(re.search(rf"\b{re.escape(name)}\b".encode(), blob) for name in (package, op))  # a DLC names them apart
