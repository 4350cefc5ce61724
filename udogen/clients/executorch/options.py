"""The options object of ExecuTorch's lowering, made of our packages, with torch's operators held against configs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from udogen.clients.client import Rule, check
from udogen.clients.package import Package, Wish, find_packages
from udogen.clients.programs.executorch import CLIENT, infos
from udogen.errors import ToolMissing
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op

# What it makes of an argument of torch, and so what the parameter must be able to take; whole numbers and truths share
# their 32 bits.  QNN_TENSOR_TYPE_MAP of builders/node_visitor.py.
_TAKES = {"float": "float", "int": "int", "bool": "int"}
_EITHER = "number"  # a Scalar is what the value is


def op_package_options(
    packages: Sequence[Path | str], torch_ops: Mapping[str, Any], *, target: str = "", folder: str = ""
) -> Any:
    """The `QnnExecuTorchOpPackageOptions` of built HTP packages, for `generate_qnn_executorch_compiler_spec`.

    `torch_ops` says which operator of the model is which op: {"LeakyRelu": torch.ops.my_ops.leaky_relu.default}, or the
    operator's name as a text.  `target` adds an Android device (v75), where the libraries shall lie in `folder`.

    ExecuTorch's rules are checked first, and that the operator's arguments are what the config says: what it would
    leave out, or compute wrongly without a word, is one error with all of that.
    """
    schema = _qc_schema()
    wish = Wish(target or "htp", android=bool(target), ops=tuple(torch_ops), folder=folder)
    chosen = find_packages([Path(each) for each in packages], wish)
    check(CLIENT._replace(rules=(*CLIENT.rules, *_torch_rules(torch_ops))), chosen)
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
    except Exception as fault:  # releases before 1.5 set up the SDK when they are imported, and raise what that raises
        raise ToolMissing(
            f"ExecuTorch's Qualcomm backend cannot be imported: {type(fault).__name__}: {fault}",
            hint="pip install executorch; before 1.5 it also needs torch and, in QNN_SDK_ROOT, an SDK",
        ) from fault


# --- the operator of torch, held against the config -----------------------------------------------------


def _torch_rules(torch_ops: Mapping[str, Any]) -> Iterator[Rule]:
    """Rules that need to know which operator an op stands for."""

    def row(id: str, broken: Any, consequence: str, remedy: str) -> Rule:
        def faults(packages: Sequence[Package]) -> Iterator[str]:
            for package in packages:
                for op in package.models:
                    if op.name in torch_ops and hasattr(torch_ops[op.name], "_schema"):
                        yield from broken(op, torch_ops[op.name])

        return Rule(id, faults, consequence, remedy)

    def no_overload(packages: Sequence[Package]) -> Iterator[str]:
        for name in {str(torch_ops[op]): op for package in packages for op in package.ops}:
            if name.count(".") != 2:
                yield f"`{name}` is not the name of one operator"

    yield Rule(
        "overload",
        no_overload,
        "it looks for nodes by their whole name, so none would be taken",
        "namespace.operator.overload: torch.ops.my_ops.leaky_relu.default",
    )
    yield row(
        "keyword-only",
        _keyword_only,
        "it hands on positional arguments alone, and a node that has others is left out",
        "put the argument before the `*` of the operator's schema",
    )
    yield row(
        "inputs", _inputs, "tensors become inputs in their order", "give operator and config the same tensors, in order"
    )
    yield row(
        "parameters",
        _parameters,
        "HTP takes parameters by their order, whatever they are called: the kernel gets another one's value",
        "give them the same names in the same order, in the schema of the operator and in the config",
    )
    yield row(
        "types",
        _types,
        "bits are handed on as they are, and of a list those of 64-bit numbers: the kernel reads other values",
        "float for FLOAT_32, int and bool for integers and BOOL_8; make a list an input, or scalars",
    )
    yield row("outputs", _outputs, "each becomes an output, in order", "give operator and config the same outputs")


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
        wanted = f"{least} to {len(op.inputs)}" if least < len(op.inputs) else f"{least}"
        yield f"{torch_op} has {_count(tensors, 'tensor')}, and op {op.name} {wanted}"


def _outputs(op: Op, torch_op: Any) -> Iterator[str]:
    returns = len(torch_op._schema.returns)
    if returns != len(op.outputs) and not any(each.repeated for each in op.outputs):
        yield f"{torch_op} returns {_count(returns, 'tensor')}, and op {op.name} has {len(op.outputs)}"


def _parameters(op: Op, torch_op: Any) -> Iterator[str]:
    given = [each.name for each in _arguments(torch_op, tensors=False)]
    wanted = [each.name for each in op.params]
    if given != wanted[: len(given)]:
        yield f"{torch_op} has the parameters {_listed(given)}, and op {op.name} {_listed(wanted)}"
        return
    for each in op.params[len(given) :]:  # without an argument it has the default of the config
        if each.required:
            yield f"{torch_op} has no argument for {each.name}, which op {op.name} must have"


def _types(op: Op, torch_op: Any) -> Iterator[str]:
    params = {each.name: each for each in op.params}
    for each in _arguments(torch_op, tensors=False):
        kind = str(each.type).removeprefix("Optional[")
        kind = kind if kind.startswith("List[") else kind.removesuffix("]")
        if kind.startswith("List["):
            yield f"argument {each.name} of {torch_op} is a list"
        elif each.name in params and not any(_taken(type, kind) for type in params[each.name].datatypes):
            types = " or ".join(type.name for type in params[each.name].datatypes)
            yield f"argument {each.name} of {torch_op} is of type {kind}, and parameter {each.name} {types}"


def _taken(datatype: DataType, kind: str) -> bool:
    return kind == _EITHER or (kind in _TAKES and (datatype.kind == "float") is (_TAKES[kind] == "float"))


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}" + ("" if number == 1 else "s")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "(none)"
