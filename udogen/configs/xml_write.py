"""Model -> XML OpDef, with a warning of what XML cannot store."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from xml.sax.saxutils import escape, quoteattr

from udogen.findings import Findings
from udogen.opdef import values
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
    supplements: list[Supplement] = []
    for supplement in package.supplements:
        supplements += _by_version(supplement, by_name) if supplement.backend == "DSP" else [supplement]
    if package.language == "json":
        supplements = [
            replace(each, supported=tuple(dict.fromkeys(op.name for op in each.ops))) for each in supplements
        ]
    return replace(
        package, supplements=tuple(map(_with_ops, filter(lambda each: each.ops or each.supported, supplements)))
    )


def _known_layouts(op: Op, findings: Findings) -> Op:
    def known(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(
            replace(tensor, layout="NONTRIVIAL") if tensor.layout and tensor.layout not in _LAYOUTS else tensor
            for tensor in tensors
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

    named = [*(op.name for op in supplement.ops), *supplement.supported]
    return [
        replace(
            supplement,
            backend=backend,
            ops=tuple(op for op in supplement.ops if backend in versions(op.name)),
            supported=tuple(name for name in supplement.supported if backend in versions(name)),
        )
        for backend in dict.fromkeys(version for name in named for version in versions(name))
    ]


def _with_ops(supplement: Supplement) -> Supplement:
    """The supplement with at least one entry, as Qualcomm's schema requires."""
    return supplement if supplement.ops else replace(supplement, ops=(OpSupplement(supplement.supported[0], ()),))


def _collection(package: OpPackage, comments: Comments) -> Iterator[str]:
    yield from _comments(comments.get((), ()))
    named = {"PackageName": package.name, "Domain": package.domain, "Version": package.version}
    qhpi = {} if package.use_qhpi is None else {"UseQHPI": _truth(package.use_qhpi)}
    yield from _element(
        _head("OpDefCollection", **named, **qhpi),
        _element("OpDefList", *(_op(op, comments) for op in package.ops)),
        *map(_supplement, package.supplements),
    )


def _op(op: Op, comments: Comments) -> Iterator[str]:
    yield from _comments(comments.get((op.name,), ()))
    names = [f"DSP_{arch.upper()}" for arch in op.dsp_archs] or ["DSP"]
    translated = op.use_default_translation
    yield from _element(
        "OpDef",
        [_line("Name", op.name)],
        _description(op.description) if op.description else ["<Description/>"],
        (
            _line(_head("Reference", Source=reference.source, Url=reference.url), reference.text)
            for reference in op.references
        ),
        *(
            lines
            for tensor in op.tensors
            for lines in (_comments(comments.get((op.name, tensor.name), ())), _tensor(tensor))
        ),
        _lines("UseDefaultTranslation", "" if translated is None else _truth(translated)),
        *(_lines("SupportedBackend", *(names if backend == "DSP" else [backend])) for backend in op.backends),
    )


def _tensor(tensor: Tensor) -> Iterator[str]:
    dynamic = [] if tensor.dynamic_shape is None else [_line("Text", tensor.dynamic_shape)]
    return _element(
        _TAGS[tensor.role],
        [_line("Name", tensor.name)],
        _description(tensor.description),
        _constraints(tensor.constraints),
        [_line("Mandatory", _truth(tensor.mandatory))],
        _lines("Datatype", *(datatype.qnn for datatype in tensor.datatypes)),
        *map(_quant, tensor.quant),
        _element(
            "Shape",
            [_line("Rank", str(tensor.rank))],
            _lines("Layout", tensor.layout),
            _lines("Text", tensor.shape_text),
        ),
        _lines("Default", tensor.default_text if tensor.default is None else values.show(tensor.default)),
        _lines("Repeated", "true" if tensor.repeated and tensor.role != "param" else ""),
        [f"<DynamicShape>{text}</DynamicShape>" for text in dynamic],
        _lines("IsStaticTensor", "true" if tensor.static and tensor.role == "input" else ""),
        [f"<Enumeration>{''.join(_lines('Enum', *tensor.enum))}</Enumeration>"] if tensor.enum else [],
    )


def _supplement(supplement: Supplement) -> Iterator[str]:
    runtime = {"Runtime": supplement.runtime} if supplement.runtime else {}
    supported = _element("SupportedOps", [_line("OpName", name) for name in supplement.supported])
    return _element(
        _head("SupplementalOpDefList", Backend=supplement.backend, **runtime),
        supported if supplement.supported else [],
        *(
            _element("SupplementalOpDef", [_line("Name", op.name)], *map(_tensor_supplement, op.tensors))
            for op in supplement.ops
        ),
    )


def _tensor_supplement(tensor: TensorSupplement) -> Iterator[str]:
    shape = _element("Shape", _lines("Layout", *tensor.layouts), _lines("Text", tensor.shape_text))
    return _element(
        _TAGS[tensor.role],
        [_line("Name", tensor.name)],
        _constraints(tensor.constraints),
        _lines("Datatype", *(datatype.qnn for datatype in tensor.datatypes)),
        *map(_quant, tensor.quant),
        shape if tensor.layouts or tensor.shape_text else [],
        [] if tensor.default is None else [_line("Default", values.show(tensor.default))],
        _lines("OnlyDefaultSupported", "true" if tensor.only_default else ""),
    )


def _description(passages: tuple[Passage, ...]) -> Iterator[str]:
    lines = (_line("Code" if passage.code else "Content", passage.text) for passage in passages)
    return _element("Description", lines) if passages else iter(())


def _constraints(constraints: tuple[Constraint, ...]) -> Iterator[str]:
    for constraint in constraints:
        code = _line("Code", constraint.code) if constraint.code else ""
        head = _head("Constraint", id=str(constraint.id), Type=constraint.type)
        yield f"<{head}>{escape(constraint.text)}{code}</Constraint>"


def _quant(quant: QuantParam) -> Iterator[str]:
    return _element(
        "QuantParam",
        [_line("Encoding", encoding) for encoding in quant.encodings],
        [_line("Axis", axis) for axis in quant.axes],
        [_line(key, text) for key, text in quant.settings],
    )


def _comments(sentences: Sequence[str]) -> Iterator[str]:
    for sentence in sentences:
        plain = re.sub("-(?=-)", "- ", sentence)  # two hyphens would end the comment
        rows = textwrap.wrap(plain, _WIDTH, break_long_words=False, break_on_hyphens=False)
        yield from (f"{'<!--' if row is rows[0] else '    '} {row}" for row in rows[:-1])
        yield f"{'<!--' if len(rows) == 1 else '    '} {rows[-1]} -->"


# --- elements ---------------------------------------------------------------------------------------------------------


def _head(tag: str, **attributes: str) -> str:
    """A tag with its attributes."""
    return " ".join([tag, *(f"{name}={quoteattr(text)}" for name, text in attributes.items())])


def _element(head: str, *parts: Iterable[str]) -> Iterator[str]:
    """An element with indented lines in it."""
    yield f"<{head}>"
    for part in parts:
        yield from (f"  {line}" for line in part)
    yield f"</{head.partition(' ')[0]}>"


def _line(head: str, text: str) -> str:
    """An element that contains a text, which may be empty."""
    return f"<{head}>{escape(text)}</{head.partition(' ')[0]}>"


def _lines(tag: str, *texts: str) -> list[str]:
    """An element for each text that is not empty."""
    return [_line(tag, text) for text in texts if text]


def _truth(value: bool) -> str:
    return "true" if value else "false"
