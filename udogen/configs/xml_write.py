"""Model -> XML OpDef, with a warning of what XML cannot store."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from xml.sax.saxutils import escape, quoteattr

from udogen.findings import Findings
from udogen.opdef import values
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import (
    Constraint,
    Op,
    OpPackage,
    OpSupplement,
    Passage,
    QuantParam,
    Supplement,
    Tensor,
    TensorSupplement,
)

_TAGS = {"input": "Input", "output": "Output", "param": "Parameter"}
_WIDTH = 100  # of comments
_LAYOUTS = ("NHWC", "NDHWC", "NONTRIVIAL", "UNDEFINED", "BACKEND_SPECIFIC")  # of Qualcomm's schema, release 2.25

# Comments before the package (), an op (its name,), or a tensor of it (both names).
Comments = Mapping[tuple[str, ...], Sequence[str]]


def write(package: OpPackage, findings: Findings, comments: Comments | None = None) -> str:
    """The OpDefCollection of one package, in the form that Qualcomm's generators accept."""
    _warn_of_losses(package, findings)
    package = _for_qualcomm(package, findings)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', *_collection(package, comments or {})]
    return "\n".join(lines) + "\n"


def _warn_of_losses(package: OpPackage, findings: Findings) -> None:
    lost = [
        f"{what} of `{package.name}` ({remedy})"
        for what, value, remedy in (
            ("UDO_PACKAGE_PATH", package.output_path, "use -o"),
            ("SNPE_UDO_ROOT", package.snpe_udo_root, "set the variable"),
        )
        if value
    ]
    for op in package.ops:
        if op.dsp_archs and "DSP" not in op.backends:
            lost.append(f"dsp_arch_types of `{op.name}` without DSP in core_types")
        for tensor in op.tensors:
            for what, exists in (
                ("quantization_mode", tensor.quantization_mode),
                ("static", tensor.static and tensor.role != "input"),
                ("repeated", tensor.repeated and tensor.role == "param"),
            ):
                if exists:
                    lost.append(f"{what} of `{tensor.name}` of `{op.name}`")
    if lost:
        number = f"{len(lost)} item{'s' * (len(lost) > 1)}"
        findings.warn(package.location, f"XML OpDef cannot store {number}: {'; '.join(lost)}")


def _for_qualcomm(package: OpPackage, findings: Findings) -> OpPackage:
    """The package as Qualcomm's conversion of JSON writes it: a domain, known layouts, a supplement per DSP version."""
    if package.language == "json":
        ops = tuple(_known_layouts(op, findings) for op in package.ops)
        package = replace(package, domain=package.domain or "aisw", version=package.version or "1.0.0", ops=ops)
    by_name = {op.name: op for op in package.ops}
    found: list[Supplement] = []
    for supplement in package.supplements:
        found += _by_version(supplement, by_name) if supplement.backend == "DSP" else [supplement]
    if package.language == "json":
        found = [replace(each, supported=tuple(dict.fromkeys(op.name for op in each.ops))) for each in found]
    return replace(package, supplements=tuple(map(_with_ops, filter(lambda each: each.ops or each.supported, found))))


def _known_layouts(op: Op, findings: Findings) -> Op:
    def known(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(
            replace(each, layout="NONTRIVIAL") if each.layout and each.layout not in _LAYOUTS else each
            for each in tensors
        )

    for tensor in op.tensors:
        if tensor.layout and tensor.layout not in _LAYOUTS:
            what = f"the layout {tensor.layout} of `{tensor.name}` of `{op.name}` is written as NONTRIVIAL"
            findings.warn(tensor.location, what, "Qualcomm's XML schema does not have it")
    return replace(op, inputs=known(op.inputs), outputs=known(op.outputs), params=known(op.params))


def _by_version(supplement: Supplement, ops: Mapping[str, Op]) -> list[Supplement]:
    """The supplement for DSP, once for each version that its ops name, or for DSP without one."""

    def versions(name: str) -> list[str]:
        return [f"DSP_{arch.upper()}" for arch in (ops[name].dsp_archs if name in ops else ())] or ["DSP"]

    named = [*(each.name for each in supplement.ops), *supplement.supported]
    return [
        replace(
            supplement,
            backend=backend,
            ops=tuple(each for each in supplement.ops if backend in versions(each.name)),
            supported=tuple(name for name in supplement.supported if backend in versions(name)),
        )
        for backend in dict.fromkeys(version for name in named for version in versions(name))
    ]


def _with_ops(supplement: Supplement) -> Supplement:
    """The supplement with at least one entry, as Qualcomm's schema requires."""
    return supplement if supplement.ops else replace(supplement, ops=(OpSupplement(supplement.supported[0], ()),))


def _collection(package: OpPackage, comments: Comments) -> Iterator[str]:
    yield from _comments(comments.get((), ()))
    qhpi = "" if package.use_qhpi is None else f' UseQHPI="{_truth(package.use_qhpi)}"'
    yield (
        f"<OpDefCollection PackageName={quoteattr(package.name)} Domain={quoteattr(package.domain)} "
        f"Version={quoteattr(package.version)}{qhpi}>"
    )
    yield "  <OpDefList>"
    for op in package.ops:
        yield from _indent(_op(op, comments), 4)
    yield "  </OpDefList>"
    for supplement in package.supplements:
        yield from _indent(_supplement(supplement), 2)
    yield "</OpDefCollection>"


def _op(op: Op, comments: Comments) -> Iterator[str]:
    yield from _comments(comments.get((op.name,), ()))
    yield "<OpDef>"
    yield f"  <Name>{escape(op.name)}</Name>"
    yield from _indent(_description(op.description) if op.description else iter(["<Description/>"]), 2)
    for each in op.references:
        yield f"  <Reference Source={quoteattr(each.source)} Url={quoteattr(each.url)}>{escape(each.text)}</Reference>"
    for tensor in op.tensors:
        yield from _indent(_comments(comments.get((op.name, tensor.name), ())), 2)
        yield from _indent(_tensor(tensor), 2)
    if op.use_default_translation is not None:
        yield f"  <UseDefaultTranslation>{_truth(op.use_default_translation)}</UseDefaultTranslation>"
    for backend in op.backends:
        archs = op.dsp_archs if backend == "DSP" else ()
        for name in [f"DSP_{arch.upper()}" for arch in archs] or [backend]:
            yield f"  <SupportedBackend>{escape(name)}</SupportedBackend>"
    yield "</OpDef>"


def _tensor(tensor: Tensor) -> Iterator[str]:
    tag = _TAGS[tensor.role]
    yield f"<{tag}>"
    yield f"  <Name>{escape(tensor.name)}</Name>"
    yield from _indent(_description(tensor.description), 2)
    yield from _indent(_constraints(tensor.constraints), 2)
    yield f"  <Mandatory>{_truth(tensor.mandatory)}</Mandatory>"
    yield from _indent(_datatypes(tensor.datatypes), 2)
    yield from _indent(_quant(tensor.quant), 2)
    yield "  <Shape>"
    yield f"    <Rank>{tensor.rank}</Rank>"
    yield from _indent(_optional("Layout", tensor.layout), 4)
    yield from _indent(_optional("Text", tensor.shape_text), 4)
    yield "  </Shape>"
    default = tensor.default_text if tensor.default is None else values.show(tensor.default)
    yield from _indent(_optional("Default", default), 2)
    if tensor.repeated and tensor.role != "param":
        yield "  <Repeated>true</Repeated>"
    if tensor.dynamic_shape is not None:
        yield f"  <DynamicShape><Text>{escape(tensor.dynamic_shape)}</Text></DynamicShape>"
    if tensor.static and tensor.role == "input":
        yield "  <IsStaticTensor>true</IsStaticTensor>"
    if tensor.enum:
        items = "".join(f"<Enum>{escape(item)}</Enum>" for item in tensor.enum)
        yield f"  <Enumeration>{items}</Enumeration>"
    yield f"</{tag}>"


def _supplement(supplement: Supplement) -> Iterator[str]:
    runtime = f" Runtime={quoteattr(supplement.runtime)}" if supplement.runtime else ""
    yield f"<SupplementalOpDefList Backend={quoteattr(supplement.backend)}{runtime}>"
    if supplement.supported:
        yield "  <SupportedOps>"
        for name in supplement.supported:
            yield f"    <OpName>{escape(name)}</OpName>"
        yield "  </SupportedOps>"
    for op in supplement.ops:
        yield "  <SupplementalOpDef>"
        yield f"    <Name>{escape(op.name)}</Name>"
        for tensor in op.tensors:
            yield from _indent(_tensor_supplement(tensor), 4)
        yield "  </SupplementalOpDef>"
    yield "</SupplementalOpDefList>"


def _tensor_supplement(tensor: TensorSupplement) -> Iterator[str]:
    tag = _TAGS[tensor.role]
    yield f"<{tag}>"
    yield f"  <Name>{escape(tensor.name)}</Name>"
    yield from _indent(_constraints(tensor.constraints), 2)
    yield from _indent(_datatypes(tensor.datatypes), 2)
    yield from _indent(_quant(tensor.quant), 2)
    if tensor.layouts or tensor.shape_text:
        yield "  <Shape>"
        for layout in tensor.layouts:
            yield f"    <Layout>{escape(layout)}</Layout>"
        yield from _indent(_optional("Text", tensor.shape_text), 4)
        yield "  </Shape>"
    if tensor.default is not None:
        yield f"  <Default>{escape(values.show(tensor.default))}</Default>"
    if tensor.only_default:
        yield "  <OnlyDefaultSupported>true</OnlyDefaultSupported>"
    yield f"</{tag}>"


def _description(passages: tuple[Passage, ...]) -> Iterator[str]:
    if passages:
        yield "<Description>"
        for passage in passages:
            tag = "Code" if passage.code else "Content"
            yield f"  <{tag}>{escape(passage.text)}</{tag}>"
        yield "</Description>"


def _constraints(constraints: tuple[Constraint, ...]) -> Iterator[str]:
    for each in constraints:
        code = f"<Code>{escape(each.code)}</Code>" if each.code else ""
        yield f'<Constraint id="{each.id}" Type={quoteattr(each.type)}>{escape(each.text)}{code}</Constraint>'


def _datatypes(datatypes: tuple[DataType, ...]) -> Iterator[str]:
    for datatype in datatypes:
        yield f"<Datatype>{datatype.qnn}</Datatype>"


def _quant(quant: tuple[QuantParam, ...]) -> Iterator[str]:
    for each in quant:
        yield "<QuantParam>"
        for encoding in each.encodings:
            yield f"  <Encoding>{escape(encoding)}</Encoding>"
        for axis in each.axes:
            yield f"  <Axis>{escape(axis)}</Axis>"
        for key, text in each.settings:
            yield f"  <{key}>{escape(text)}</{key}>"
        yield "</QuantParam>"


def _comments(sentences: Sequence[str]) -> Iterator[str]:
    for sentence in sentences:
        plain = re.sub("-(?=-)", "- ", sentence)  # two hyphens would end the comment
        rows = textwrap.wrap(plain, _WIDTH, break_long_words=False, break_on_hyphens=False)
        yield from (f"{'<!--' if row is rows[0] else '    '} {row}" for row in rows[:-1])
        yield f"{'<!--' if len(rows) == 1 else '    '} {rows[-1]} -->"


def _optional(tag: str, text: str) -> Iterator[str]:
    if text:
        yield f"<{tag}>{escape(text)}</{tag}>"


def _indent(lines: Iterator[str], width: int) -> Iterator[str]:
    return (" " * width + line for line in lines)


def _truth(value: bool) -> str:
    return "true" if value else "false"
