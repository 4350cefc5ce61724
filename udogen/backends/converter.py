"""The converter op package: shapes and data types of outputs, for Qualcomm's converters.

The tree is that of Qualcomm's page "Create a QNN converter Op Package shared library"; files of an installed SDK are in
the hidden folder `.sdk`.
"""

from __future__ import annotations

from typing import NamedTuple

from udogen.backends.libraries import CONVERTER
from udogen.backends.op_tables import code
from udogen.backends.plan import Part, Plan, PlannedFile, Source
from udogen.findings import Findings
from udogen.opdef import shape_rules
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.opdef.names import cpp_comment, cpp_string

SUFFIX = "_Converter_Op_Package"
LIBRARY = "libConverterOpPackage.so"
_FOLDER = "ConverterOpPackage"
_HEADERS = ("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h")
_COPIES = (f"{_FOLDER}/Makefile.linux-x86_64", ".sdk/ConverterUtils.hpp")
_ANY = 0xFFFFFFFF


def plan(package: OpPackage, source: Source) -> Plan:
    """The package folder."""
    data = {
        "config": ", ".join(f".sdk/config/{name}" for name in source.configs),
        "package": package,
        "ops": [_view(op) for op in package.ops],
    }
    files = [
        PlannedFile("Makefile", template="converter/Makefile.mako", data=data),
        PlannedFile(f"{_FOLDER}/ConverterOpPackage.cpp", template=f"converter/{_FOLDER}.cpp.mako", data=data),
        *(PlannedFile(path, copy=f"converter/{path.removeprefix('.sdk/')}") for path in _COPIES),
        PlannedFile(".sdk/linux.mk", copy="qnn/shared/makefiles/linux.mk"),
        *(PlannedFile(f".sdk/QNN/{path}", copy=f"headers:{path}") for path in _HEADERS),
        *(PlannedFile(f".sdk/config/{name}", content=content) for name, content in source.configs.items()),
    ]
    part = Part(
        backend=CONVERTER.id,
        library=LIBRARY,
        provider="",
        ops=tuple(op.name for op in package.ops),
        targets=CONVERTER.target_ids(),
        sources=(f"{_FOLDER}/ConverterOpPackage.cpp",),
    )
    return Plan(
        package=package.name,
        backend=CONVERTER.id,
        layout="qnn",
        libraries=_FOLDER,
        configs=tuple(f".sdk/config/{name}" for name in source.configs),
        files=tuple(sorted(files, key=lambda file: file.path)),
        parts=(part,),
        folder=f"{package.name}{SUFFIX}",
    )


def warn_of_gaps(package: OpPackage, findings: Findings) -> None:
    """Warn of each shape and data type that the user must write, as the config does not give it."""
    for op in package.ops:
        for output in op.outputs:
            for what, function, known in (
                ("shape", "ShapeInference", shape_rules.shape(op, output)),
                ("data type", "DataTypeInference", shape_rules.datatype(op, output)),
            ):
                if known is None or output.repeated:
                    findings.warn(
                        output.location,
                        f"the config does not give the {what} of output `{output.name}` of `{op.name}` for converters",
                        f"write {op.name}{function} in ConverterOpPackage.cpp; until then it returns an error",
                    )


class _Step(NamedTuple):
    """The code for one output: a call, and its reason in the config."""

    comment: list[str]
    code: str


class _ConvertedOp(NamedTuple):
    name: str
    literal: str
    rule: str
    inputs: str
    outputs: str
    shapes: list[_Step]
    types: list[_Step]
    params: list[list[str]]  # one comment each


def _view(op: Op) -> _ConvertedOp:
    return _ConvertedOp(
        name=op.name,
        literal=cpp_string(op.name),
        rule="-" * max(4, 100 - len(op.name)),
        inputs=_count(op.inputs),
        outputs=_count(op.outputs),
        shapes=[_step(index, output, _shape(op, index, output)) for index, output in enumerate(op.outputs)],
        types=[_step(index, output, _type(op, index, output)) for index, output in enumerate(op.outputs)],
        params=[
            cpp_comment(f"parameter {cpp_string(param.name)}: {' or '.join(_types(param))}") for param in op.params
        ],
    )


def _types(tensor: Tensor) -> list[str]:
    return [datatype.name for datatype in tensor.datatypes]


def _count(tensors: tuple[Tensor, ...]) -> str:
    """The minimum and maximum number of tensors: those after the last mandatory one may be absent."""
    least = max([index + 1 for index, tensor in enumerate(tensors) if tensor.mandatory], default=0)
    most = _ANY if any(tensor.repeated for tensor in tensors) else len(tensors)
    return f"{{{least}, {'udo::any' if most == _ANY else most}}}"


def _step(index: int, output: Tensor, call: tuple[str, str] | None) -> _Step:
    if call is None or output.repeated:
        comment = "add code here, the config does not give it"
        statement = f"op.missing({index}, {cpp_string(output.name)});"
    else:
        comment, statement = call
    if not output.mandatory:
        statement = f"if (op.outputs() > {index}) {statement}"
    return _Step(cpp_comment(f"{output.name}: {comment}"), statement)


def _shape(op: Op, index: int, output: Tensor) -> tuple[str, str] | None:
    rule = shape_rules.shape(op, output)
    if isinstance(rule, shape_rules.SameAs):
        return rule.why, f"op.shapeLikeInput({index}, {rule.input});"
    if isinstance(rule, shape_rules.Extents):
        extents = [
            str(extent) if isinstance(extent, int) else f"op.dim({extent[0]}, {extent[1]})" for extent in rule.extents
        ]
        return rule.why, f"op.setShape({index}, {{{', '.join(extents)}}});"
    return None


def _type(op: Op, index: int, output: Tensor) -> tuple[str, str] | None:
    rule = shape_rules.datatype(op, output)
    if isinstance(rule, shape_rules.SameAs):
        return rule.why, f"op.typeLikeInput({index}, {rule.input});"
    if isinstance(rule, shape_rules.Only):
        return rule.why, f"op.setType({index}, {code(rule.datatype)});"
    return None
