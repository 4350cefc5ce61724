"""The ops as one backend sees them: supplements merged, nothing left BACKEND_SPECIFIC."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from udogen.opdef import backends
from udogen.opdef.datatypes import ALL, ALL_VALID, BACKEND_SPECIFIC, BY_NAME, DataType
from udogen.opdef.model import Constraint, Op, OpPackage, Tensor, TensorSupplement
from udogen.opdef.problems import Location, Problems

_DELIVERED = {row.id: tuple(BY_NAME[name] for name in row.delivers) for row in backends.ALL.values() if row.delivers}


def for_backend(package: OpPackage, backend: str, problems: Problems, *, forced: bool = False) -> OpPackage:
    """The package with the ops that support `backend` (all of them where it is forced), resolved for it."""
    ops = [op for op in package.ops if forced or backend in backends.of_op(op, package)]
    supplements = backends.supplements_for(backend, package)
    resolved = []
    for op in ops:
        entries = {
            (tensor.role, tensor.name): tensor
            for supplement in supplements
            for entry in supplement.ops
            if entry.name == op.name
            for tensor in entry.tensors
        }
        resolved.append(_op(op, entries, backend, problems, forced=forced))
    return package.with_ops(tuple(resolved))


def _op(
    op: Op, entries: dict[tuple[str, str], TensorSupplement], backend: str, problems: Problems, *, forced: bool
) -> Op:
    def finish(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(
            _deliverable(_merge(tensor, entries.get((tensor.role, tensor.name))), op, backend, problems, forced=forced)
            for tensor in tensors
        )

    row = backends.ALL[backend]
    for tensor in (*op.inputs, *op.outputs):
        if tensor.repeated and not row.can_repeat:
            problems.error(
                tensor.location,
                f"`{tensor.name}` of `{op.name}` is repeated, which {row.title} cannot take",
                "operations with an unknown number of inputs or outputs do not exist on DSP and HTP",
            )
    return replace(op, inputs=finish(op.inputs), outputs=finish(op.outputs), params=finish(op.params))


def _merge(tensor: Tensor, extra: TensorSupplement | None) -> Tensor:
    if extra is None:
        return tensor
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


def _merge_constraints(ours: tuple[Constraint, ...], theirs: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    by_id = {constraint.id: constraint for constraint in (*ours, *theirs)}
    return tuple(by_id[number] for number in sorted(by_id))


def _deliverable(tensor: Tensor, op: Op, backend: str, problems: Problems, *, forced: bool) -> Tensor:
    """The tensor with the types that this backend's runtime really hands to an op."""
    if tensor.backend_specific:
        delivered = _DELIVERED.get(backend)
        if forced and delivered:  # a config for another backend: take what this one has
            return replace(tensor, datatypes=delivered)
        problems.error(
            tensor.location,
            f"the data type of `{tensor.name}` of `{op.name}` is BACKEND_SPECIFIC, and nothing says what it is on "
            f"{backend.upper()}",
            _supplement_hint(tensor, op, backend),
        )
        return tensor
    if tensor.is_scalar or backend not in _DELIVERED:
        expanded = tuple(d for d in ALL if d.kind != "string") if ALL_VALID in tensor.datatypes else tensor.datatypes
        return replace(tensor, datatypes=expanded)
    delivered = _DELIVERED[backend]
    if ALL_VALID in tensor.datatypes:
        return replace(tensor, datatypes=delivered)
    if all(datatype.kind == "string" for datatype in tensor.datatypes) and tensor.role == "param":
        return tensor
    kept = tuple(datatype for datatype in tensor.datatypes if datatype in delivered)
    lost = [datatype for datatype in tensor.datatypes if datatype not in delivered]
    if not kept:
        problems.error(
            tensor.location,
            f"`{tensor.name}` of `{op.name}` is {_list(lost)}, which the {backend.upper()} runtime never hands to an op",
            f"it delivers {_list(delivered)}; add one of them, for {backend.upper()} alone in a supplement",
        )
    elif lost:
        problems.warn(
            tensor.location,
            f"`{tensor.name}` of `{op.name}` may be {_list(lost)}, which the {backend.upper()} runtime never hands to an op",
            "the generated package refuses it with a message",
        )
    return replace(tensor, datatypes=kept or tensor.datatypes)


def unresolved(package: OpPackage, problems: Problems) -> None:
    """Warn of BACKEND_SPECIFIC that no supplement resolves, for every backend the config names."""
    for backend in backends.ALL:
        found = Problems()
        for_backend(package, backend, found)
        for problem in found.all():
            problems.warn(problem.location, problem.message, problem.hint)


def _supplement_hint(tensor: Tensor, op: Op, backend: str) -> str:
    return (
        f'add <SupplementalOpDefList Backend="{backend.upper()}"> with a <Datatype> for it, '
        "or per_core_data_types in JSON"
    )


def _list(found: Iterable[DataType]) -> str:
    return ", ".join(datatype.name for datatype in found)


__all__ = ["BACKEND_SPECIFIC", "Location", "for_backend", "unresolved"]
