"""Resolves ops for one backend: supplements are merged, no type stays BACKEND_SPECIFIC."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from udogen import backends
from udogen.backends import architectures
from udogen.backends.backend import Backend
from udogen.configs import rules
from udogen.findings import Findings
from udogen.opdef import values
from udogen.opdef.datatypes import ALL, ALL_VALID, BY_NAME, DataType
from udogen.opdef.model import Constraint, Op, OpPackage, Tensor, TensorSupplement

_DELIVERED = {row.id: tuple(BY_NAME[name] for name in row.delivers) for row in backends.ALL.values() if row.delivers}
_PARAMS = {row.id: tuple(BY_NAME[name] for name in row.params) for row in backends.ALL.values() if row.params}

# A type that is not delivered -> one that is, with the same storage.
_STORED_ALIKE = {BY_NAME["UFIXED_POINT_32"]: BY_NAME["UINT_32"], BY_NAME["SFIXED_POINT_32"]: BY_NAME["INT_32"]}

_EVERY = tuple(row for row in ALL if row.kind != "string")
_FLOAT = (BY_NAME["FLOAT_32"],)
_HALVES = (BY_NAME["FLOAT_16"], BY_NAME["BFLOAT_16"])
_BYTES = (BY_NAME["UFIXED_POINT_8"], BY_NAME["UINT_8"])

# SNPE documents call activations of the DSP UINT_8 and UINT_16; in QNN they are fixed point.
_SNPE_ACTIVATIONS = {BY_NAME["UINT_8"]: BY_NAME["UFIXED_POINT_8"], BY_NAME["UINT_16"]: BY_NAME["UFIXED_POINT_16"]}

_Entries = dict[tuple[str, str], list[TensorSupplement]]


def for_backend(
    package: OpPackage, backend: str, findings: Findings, *, forced: bool = False, layout: str = ""
) -> OpPackage:
    """The package with the ops that support `backend` (all if `forced`), resolved for it.

    In the layout `snpe`, the default for JSON, data types follow the UDO documentation.
    """
    udo = (layout or backends.USUAL_LAYOUT[package.language]) == "snpe"
    ops = [op for op in package.ops if forced or backend in backends.of_op(op, package)]
    supplements = backends.supplements_for(backend, package)
    resolved = []
    for op in ops:
        entries: _Entries = {}
        for tensor in (
            t for supplement in supplements for entry in supplement.ops if entry.name == op.name for t in entry.tensors
        ):
            entries.setdefault((tensor.role, tensor.name), []).append(tensor)
        not_named = forced and backend not in backends.of_op(op, package)
        named, archs = backends.of_supplements(op, package)
        snpe = package.language == "json" and backends.ALL[backend].activations
        whole = replace(op, backends=named, dsp_archs=archs)
        resolved.append(_op(whole, entries, backend, findings, forced=not_named, snpe=snpe, udo=udo))
    return package.with_ops(tuple(resolved))


def _op(op: Op, entries: _Entries, backend: str, findings: Findings, *, forced: bool, snpe: bool, udo: bool) -> Op:
    row = backends.ALL[backend]
    refused: dict[str, list[Tensor]] = {}
    undefined: list[Tensor] = []

    def finish(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(finish_one(tensor) for tensor in tensors)

    def finish_one(tensor: Tensor) -> Tensor:
        merged = tensor
        for extra in entries.get((tensor.role, tensor.name), ()):
            merged = _merge(merged, extra)
        if merged.backend_specific and not forced:
            undefined.append(merged)
        if snpe and merged.role != "param":
            merged = _with_activations(merged)
        if udo or row.one_type:
            merged = _ignore(merged, op, backend, findings)
        done = _one_type(_deliverable(merged, op, backend, findings, refused), op, backend, findings)
        if udo and row.udo is not None and row.udo.floats_and_bytes and not done.is_scalar:
            done = _floats_and_bytes(done)
        if (done.datatypes, done.default) != (tensor.datatypes, tensor.default):
            done = _settle_default(done)
            rules.default_fits(done, op, findings)
        return done

    finished = replace(op, inputs=finish(op.inputs), outputs=finish(op.outputs), params=finish(op.params))
    finished = _given(finished, row)
    _takes(finished, row, findings)
    if not udo:
        _warn_of_scalars(finished, findings)
    _warn_of_types(op, row.id.upper(), undefined, refused, findings)
    return finished


def _warn_of_types(
    op: Op, core: str, undefined: list[Tensor], refused: dict[str, list[Tensor]], findings: Findings
) -> None:
    """Warn of tensors without a type for this backend, and of types that it never passes."""
    if undefined:
        findings.warn(
            undefined[0].location,
            f"{_names(undefined)} of `{op.name}`: BACKEND_SPECIFIC, which no supplement defines for {core}",
            f"treated as every type that it passes to an op; to choose, add "
            f'<SupplementalOpDefList Backend="{core}"> with a <Datatype>, or per_core_data_types in JSON',
        )
    for types, tensors in refused.items():
        findings.warn(
            tensors[0].location,
            f"{_names(tensors)} of `{op.name}` may be {types}, which the {core} runtime never passes to an op",
            "the generated package refuses it with a message",
        )


def _warn_of_scalars(op: Op, findings: Findings) -> None:
    """Warn of scalars that no client can pass, as `Qnn_Scalar_t` has no field for any of their types."""
    for param in op.params:
        if (
            param.is_scalar
            and param.datatypes
            and all(datatype.bits == 4 or datatype in _HALVES for datatype in param.datatypes)
        ):
            findings.warn(
                param.location,
                f"`{param.name}` of `{op.name}` is a scalar of {_list(param.datatypes)}, which QNN's API cannot pass",
                "declare it as FLOAT_32 or INT_32",
            )


def _given(op: Op, row: Backend) -> Op:
    """The op, with the optional inputs and outputs marked that this backend requires."""
    missing = row.ends(op) if row.ends is not None else frozenset()

    def mark(tensor: Tensor) -> Tensor:
        return replace(tensor, given=True) if tensor.optional and tensor.name not in missing else tensor

    return op if row.can_omit else replace(op, inputs=tuple(map(mark, op.inputs)), outputs=tuple(map(mark, op.outputs)))


def _takes(op: Op, row: Backend, findings: Findings) -> None:
    """Report what this backend does not support."""
    for tensor in (*op.inputs, *op.outputs):
        if tensor.repeated and not row.can_repeat:
            findings.error(
                tensor.location,
                f"`{tensor.name}` of `{op.name}` is repeated, which {row.title} does not support",
                "DSP and HTP have no operations with an unknown number of inputs or outputs",
            )
        if not tensor.given:
            continue
        hint = "; `udogen run op` passes its default" if tensor.default is not None else ""
        findings.warn(
            tensor.location,
            f"`{tensor.name}` of `{op.name}` is optional, which {row.title} does not support",
            f"clients must always pass it{hint}",
        )
    for param in op.params:
        if not row.has_texts and any(datatype.kind == "string" for datatype in param.datatypes):
            findings.error(
                param.location,
                f"parameter `{param.name}` of `{op.name}` is a string, which {row.title} does not support",
                "use a number with an <Enumeration>",
            )


def _merge(tensor: Tensor, extra: TensorSupplement) -> Tensor:
    return replace(
        tensor,
        datatypes=extra.datatypes or tensor.datatypes,
        layout=extra.layouts[0] if extra.layouts else tensor.layout,
        shape_text=extra.shape_text or tensor.shape_text,
        default=tensor.default if extra.default is None else extra.default,
        constraints=_merge_constraints(tensor.constraints, extra.constraints),
        quant=extra.quant or tensor.quant,
        only_default=extra.only_default or tensor.only_default,
    )


def _settle_default(tensor: Tensor) -> Tensor:
    """The default for the resolved type: text may be an enumerator, a whole float an integer."""
    default = tensor.default
    if isinstance(default, str):
        value = values.parse_default(default, tensor.datatypes, tensor.enum)
        return replace(tensor, default=value, default_text=default if value is None else "")
    return tensor if default is None else replace(tensor, default=values.fit(default, tensor.datatypes))


def _merge_constraints(own: tuple[Constraint, ...], other: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    by_id = {constraint.id: constraint for constraint in (*own, *other)}
    return tuple(by_id[number] for number in sorted(by_id))


def _with_activations(tensor: Tensor) -> Tensor:
    """The tensor with the fixed-point types first that unsigned ones mean for SNPE."""
    activations = tuple(_SNPE_ACTIVATIONS[row] for row in tensor.datatypes if row in _SNPE_ACTIVATIONS)
    return replace(tensor, datatypes=(*activations, *tensor.datatypes))


def _deliverable(tensor: Tensor, op: Op, backend: str, findings: Findings, refused: dict[str, list[Tensor]]) -> Tensor:
    """The tensor with the types that this backend's runtime passes to an op."""
    delivered = _delivered(tensor, backend)
    if tensor.backend_specific:
        return replace(tensor, datatypes=_DELIVERED.get(backend, _EVERY))
    if ALL_VALID in tensor.datatypes:
        return replace(tensor, datatypes=delivered)
    is_text = tensor.role == "param" and {datatype.kind for datatype in tensor.datatypes} == {"string"}
    if delivered is _EVERY or is_text:
        return tensor
    kept = tuple(datatype for datatype in tensor.datatypes if datatype in delivered)
    lost = [datatype for datatype in tensor.datatypes if datatype not in delivered]
    if not lost:
        return tensor
    what = f"`{tensor.name}` of `{op.name}` is {_list(lost)}, which the {backend.upper()} runtime never passes to an op"
    alike = tuple(dict.fromkeys(_STORED_ALIKE[datatype] for datatype in lost if datatype in _STORED_ALIKE))
    if not kept and alike:
        hint = f"treated as {_list(alike)}, which has the same storage; declare it so in the graph"
        findings.warn(tensor.location, what, hint)
        return replace(tensor, datatypes=alike)
    if not kept:
        hint = f"it delivers {_list(delivered)}; add one of them, for {backend.upper()} only in a supplement"
        findings.error(tensor.location, what, hint)
        return tensor
    refused.setdefault(_list(lost), []).append(tensor)
    return replace(tensor, datatypes=kept)


def _delivered(tensor: Tensor, backend: str) -> tuple[DataType, ...]:
    """The types that a runtime passes to an op."""
    if tensor.is_scalar:
        return _EVERY
    types = _DELIVERED.get(backend, _EVERY)
    return _PARAMS.get(backend, types) if tensor.role == "param" and backend in _DELIVERED else types


def _ignore(tensor: Tensor, op: Op, backend: str, findings: Findings) -> Tensor:
    """Replace types that this core lacks by those that it passes on, as the UDO documentation has it."""
    lost = [row for row in tensor.datatypes if not backends.delivers(backend, row, tensor)]
    udo = backends.ALL[backend].udo
    if udo is None or udo.instead is None:
        return tensor
    if not lost or len(lost) < len(tensor.datatypes) or lost[0].kind == "string" or lost[0] in _STORED_ALIKE:
        return tensor
    taken, core = [BY_NAME[name] for name in udo.instead(lost[0].kind)], backend.upper()
    findings.warn(
        tensor.location,
        f"`{tensor.name}` of `{op.name}` is {_list(lost)}, which {core} does not support: it is ignored",
        f"treated as {taken[0].name}, which {core} passes to an op; name the type for {core} in a supplement "
        "(per_core_data_types in JSON)",
    )
    return replace(tensor, datatypes=tuple(taken))


def _floats_and_bytes(tensor: Tensor) -> Tensor:
    """The CPU runs float and quantized models, and a UDO config names one of the types."""
    if tensor.datatypes == _FLOAT:
        return replace(tensor, converted=_BYTES[:1])
    if set(tensor.datatypes) <= set(_BYTES):
        return replace(tensor, datatypes=tuple(dict.fromkeys((*tensor.datatypes, _BYTES[0], *_FLOAT))))
    return tensor


def _one_type(tensor: Tensor, op: Op, backend: str, findings: Findings) -> Tensor:
    """The tensor with its first type, if a backend needs one before it has the graph."""
    if not backends.ALL[backend].one_type or tensor.role == "param":
        return tensor
    first, *others = tensor.datatypes
    alike = tuple(datatype for datatype in tensor.datatypes if datatype.c_type == first.c_type)
    if len(alike) <= len(others):
        name = "_".join([backend, *list(architectures.of_backend(backend))[-1:]]).upper()  # DSP_V66
        findings.warn(
            tensor.location,
            f"`{tensor.name}` of `{op.name}` may be {_list(tensor.datatypes)}; on {backend.upper()} it has one type",
            f"treated as {first.name}, the first; choose another in a supplement for {name}",
        )
    return replace(tensor, datatypes=alike)


def unresolved(package: OpPackage, findings: Findings) -> None:
    """Warn of BACKEND_SPECIFIC that no supplement resolves, for every backend the config names."""
    for backend in backends.ALL:
        found = Findings()
        for_backend(package, backend, found)
        for finding in found.all():
            findings.warn(finding.location, finding.message, finding.hint)


def _names(tensors: list[Tensor]) -> str:
    return ", ".join(f"`{tensor.name}`" for tensor in tensors[:6]) + (" …" if len(tensors) > 6 else "")


def _list(found: Iterable[DataType]) -> str:
    return ", ".join(datatype.name for datatype in found)
