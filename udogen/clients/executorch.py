"""ExecuTorch with op packages: options for lowering, checks that ops were lowered to QNN and ran.

from udogen.clients.executorch import check_delegated, op_package_options

options = op_package_options(["out/LeakyReluPackage"], {"LeakyRelu": torch.ops.my_ops.leaky_relu.default})
spec = generate_qnn_executorch_compiler_spec(soc_model=..., backend_options=..., op_package_options=options)
edge = to_edge_transform_and_lower_to_qnn(model, inputs, spec)
check_delegated(edge, options)

In ExecuTorch's own runtime on a PC: `with proving(options): method.execute([x])`.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from udogen.clients.client import ClientRule, check_rules
from udogen.clients.package import Package, PackageOptions, find_packages
from udogen.clients.programs.executorch import CLIENT, infos
from udogen.errors import RunFailed, ToolMissing
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op
from udogen.runtime import execution_counts
from udogen.runtime.execution_counts import NotExecuted
from udogen.tables import many

__all__ = ["NotDelegated", "check_delegated", "op_package_options", "proving"]

# Type of a torch argument -> kind of QNN data type; integers and booleans both have 32 bits.
# From QNN_TENSOR_TYPE_MAP of builders/node_visitor.py.
_KINDS = {"float": "float", "int": "int", "bool": "int"}
_ANY_NUMBER = "number"  # a Scalar has the type of its value


def op_package_options(
    packages: Sequence[Path | str], torch_ops: Mapping[str, Any], *, target: str = "", folder: str = ""
) -> Any:
    """The `QnnExecuTorchOpPackageOptions` of built HTP packages, for `generate_qnn_executorch_compiler_spec`.

    `torch_ops` maps each op to the operator in the model: {"LeakyRelu": torch.ops.my_ops.leaky_relu.default}, or to
    the operator's name.  `target` adds an Android device (v75), on which the libraries are in `folder`.

    ExecuTorch's rules are checked, and the schemas of the operators are compared with the configs: one error reports
    everything that ExecuTorch would leave out or silently compute wrongly.
    """
    schema = _qc_schema()
    options = PackageOptions(target or "htp", android=bool(target), ops=tuple(torch_ops), folder=folder)
    chosen = find_packages([Path(each) for each in packages], options)
    check_rules(CLIENT._replace(rules=(*CLIENT.rules, *_torch_rules(torch_ops))), chosen)
    return schema.QnnExecuTorchOpPackageOptions(
        op_package_infos=[
            schema.QnnExecuTorchOpPackageInfo(
                op_package_name=info.package.name,
                op_package_path=info.path,
                interface_provider=info.package.provider,
                target=schema.QnnExecuTorchOpPackageTarget[info.target],
                custom_op_name=str(torch_ops[info.op]),
                qnn_op_type_name=info.op,
                platform=schema.QnnExecuTorchOpPackagePlatform[info.platform],
            )
            for info in infos(chosen)
        ]
    )


def _qc_schema() -> Any:
    try:
        return importlib.import_module("executorch.backends.qualcomm.serialization.qc_schema")
    except Exception as fault:  # releases before 1.5 set up the SDK on import, which can raise any error
        raise ToolMissing(
            f"ExecuTorch's Qualcomm backend cannot be imported: {type(fault).__name__}: {fault}",
            hint="pip install executorch; before 1.5 it also needs torch and, in QNN_SDK_ROOT, an SDK",
        ) from fault


# --- the schema of a torch operator compared with the config ------------------------------------------


def _torch_rules(torch_ops: Mapping[str, Any]) -> Iterator[ClientRule]:
    """Rules that depend on the operator of each op."""

    def rule(id: str, faults_of: Callable[[Op, Any], Iterator[str]], consequence: str, remedy: str) -> ClientRule:
        def faults(packages: Sequence[Package]) -> Iterator[str]:
            for package in packages:
                for op in package.models:
                    if op.name in torch_ops and hasattr(torch_ops[op.name], "_schema"):
                        yield from faults_of(op, torch_ops[op.name])

        return ClientRule(id, faults, consequence, remedy)

    def no_overload(packages: Sequence[Package]) -> Iterator[str]:
        for name in {str(torch_ops[op]): op for package in packages for op in package.ops}:
            if name.count(".") != 2:
                yield f"`{name}` is not the name of one operator"

    yield ClientRule(
        "overload",
        no_overload,
        "it compares full names of operators, so it would find no node",
        "namespace.operator.overload: torch.ops.my_ops.leaky_relu.default",
    )
    yield rule(
        "keyword-only",
        _keyword_only,
        "it passes only positional arguments, and leaves out a node with others",
        "put the argument before the `*` of the operator's schema",
    )
    yield rule(
        "inputs", _inputs, "tensors become inputs in their order", "give operator and config the same tensors, in order"
    )
    yield rule(
        "parameters",
        _parameters,
        "HTP takes parameters by order, not by name: the kernel gets the value of another one",
        "give them the same names in the same order, in the schema of the operator and in the config",
    )
    yield rule(
        "types",
        _types,
        "it passes the bits unchanged, and lists as 64-bit numbers: the kernel reads other values",
        "float for FLOAT_32, int and bool for integers and BOOL_8; make a list an input, or scalars",
    )
    yield rule("outputs", _outputs, "each becomes an output, in order", "give operator and config the same outputs")


def _arguments(torch_op: Any, *, tensors: bool) -> list[Any]:
    return [each for each in torch_op._schema.arguments if ("Tensor" in str(each.type)) is tensors]


def _keyword_only(op: Op, torch_op: Any) -> Iterator[str]:
    for each in torch_op._schema.arguments:
        if each.kwarg_only:
            yield f"argument {each.name} of {torch_op} is keyword-only"


def _inputs(op: Op, torch_op: Any) -> Iterator[str]:
    tensors = len(_arguments(torch_op, tensors=True))
    least = sum(each.required for each in op.inputs)
    if not least <= tensors <= len(op.inputs) and not any(each.repeated for each in op.inputs):
        expected = f"{least} to {len(op.inputs)}" if least < len(op.inputs) else f"{least}"
        yield f"{torch_op} has {many(tensors, 'tensor')}, and op {op.name} {expected}"


def _outputs(op: Op, torch_op: Any) -> Iterator[str]:
    returns = len(torch_op._schema.returns)
    if returns != len(op.outputs) and not any(each.repeated for each in op.outputs):
        yield f"{torch_op} returns {many(returns, 'tensor')}, and op {op.name} has {len(op.outputs)}"


def _parameters(op: Op, torch_op: Any) -> Iterator[str]:
    given = [each.name for each in _arguments(torch_op, tensors=False)]
    expected = [each.name for each in op.params]
    if given != expected[: len(given)]:
        yield f"{torch_op} has the parameters {_listed(given)}, and op {op.name} {_listed(expected)}"
        return
    for each in op.params[len(given) :]:  # a parameter without an argument has the default of the config
        if each.required:
            yield f"{torch_op} has no argument for {each.name}, which op {op.name} requires"


def _types(op: Op, torch_op: Any) -> Iterator[str]:
    params = {each.name: each for each in op.params}
    for each in _arguments(torch_op, tensors=False):
        kind = str(each.type).removeprefix("Optional[")
        kind = kind if kind.startswith("List[") else kind.removesuffix("]")
        if kind.startswith("List["):
            yield f"argument {each.name} of {torch_op} is a list"
        elif each.name in params and not any(_accepts(type, kind) for type in params[each.name].datatypes):
            types = " or ".join(type.name for type in params[each.name].datatypes)
            yield f"argument {each.name} of {torch_op} is of type {kind}, and parameter {each.name} {types}"


def _accepts(datatype: DataType, kind: str) -> bool:
    return kind == _ANY_NUMBER or (kind in _KINDS and (datatype.kind == "float") is (_KINDS[kind] == "float"))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "(none)"


# --- what was lowered -----------------------------------------------------------------------------------


class NotDelegated(RunFailed):
    """A custom operator was not lowered to QNN, or not to its package."""

    kind = "executorch-not-delegated"


def check_delegated(program: Any, options: Any) -> None:
    """Raise if an op of the options was not lowered to QNN; ExecuTorch itself continues silently.

    `program` is the result of `to_edge_transform_and_lower_to_qnn`, or an `ExportedProgram`; `options` are those of
    `op_package_options`.  Ops are searched for in what QNN produced: a context binary or (online_prepare) a DLC.
    """
    programs = list(_programs(program))
    _check_left_over(programs, {info.custom_op_name for info in options.op_package_infos})
    blobs = [blob for each in programs for blob in _blobs_of_qnn(each)]
    expected = {info.custom_op_name: (info.op_package_name, info.qnn_op_type_name) for info in options.op_package_infos}
    missing = [
        f"{name} was not lowered as op {op} of package {package}"
        for name, (package, op) in expected.items()
        if not any(_has(blob, package, op) for blob in blobs)
    ]
    if missing:
        raise NotDelegated(
            missing[0],
            details=missing[1:],
            hint="the model does not have it, or it was replaced before: torch.export decomposes what is registered "
            "as CompositeImplicitAutograd, ExecuTorch's passes some built-in operators (aten.leaky_relu)",
        )


def _check_left_over(programs: Sequence[Any], names: set[str]) -> None:
    """Raise if a program still calls one of the operators."""
    left = Counter(
        name
        for each in programs
        for node in each.graph.nodes
        if node.op == "call_function" and (name := getattr(node.target, "__name__", "")) in names
    )
    if left:
        counts = ", ".join(f"{name} ({many(count, 'node')})" for name, count in sorted(left.items()))
        raise NotDelegated(
            f"not lowered to QNN: {counts}",
            details=["ExecuTorch leaves to other kernels what QNN does not take; a failed registration is only logged"],
            hint="lower it with generate_qnn_executorch_compiler_spec(..., debug=True), then `udogen explain LOG`",
        )


def _programs(program: Any) -> Iterator[Any]:
    if hasattr(program, "methods"):  # an EdgeProgramManager
        for name in sorted(program.methods):
            yield program.exported_program(name)
    else:
        yield program


def _blobs_of_qnn(program: Any) -> Iterator[bytes]:
    for module in program.graph_module.modules():
        if getattr(module, "backend_id", "") == "QnnBackend":
            yield module.processed_bytes


def _has(blob: bytes, package: str, op: str) -> bool:
    if f"{package}::".encode() in blob:  # a context binary has names of kernels, PACKAGE::OP or PACKAGE::OP_…
        return re.search(rf"\b{re.escape(package)}::{re.escape(op)}(?![A-Za-z0-9])".encode(), blob) is not None
    return all(re.search(rf"\b{re.escape(name)}\b".encode(), blob) for name in (package, op))  # a DLC separates them


# --- executions -----------------------------------------------------------------------------------------


@contextmanager
def proving(options: Any) -> Iterator[None]:
    """Wrap executions in this process: raise `NotExecuted` at the end if an op of the options was not executed.

    `options` are those of the lowering; load the method first, because that loads the packages:

        method = Runtime.get().load_program("model.pte").load_method("forward")
        with proving(options):
            method.execute([x])
    """
    found = {
        (info.op_package_name, info.qnn_op_type_name): execution_counts.demanded(
            info.op_package_path, info.interface_provider
        )
        for info in options.op_package_infos
        if info.platform.name == "X86_64"
    }
    before = {(package, op): counters.of(op) for (package, op), counters in found.items()}
    yield
    idle = [key for key, counters in found.items() if counters.of(key[1]) == before[key]]
    if idle:
        names = ", ".join(f"{op} of package {package}" for package, op in idle)
        raise NotExecuted(
            f"not executed by the program: {names}",
            hint="use `check_delegated` after lowering: if `execute` was called, the program does not contain the op",
        )
