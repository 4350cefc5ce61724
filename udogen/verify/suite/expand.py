"""A test file and the configs -> cases: every combination of what a group lists, with numbers and their reference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from udogen.backends import PLACES
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.verify.cases import Case, Example
from udogen.verify.references import Reference, find
from udogen.verify.suite import configs, numbers
from udogen.verify.suite.model import EVERY, Given, Group, OpTests, Shape, Subject, Suite
from udogen.verify.values import Values

# Where a test file says no shape: odd lengths, what no vector length divides, and one of a usual network.
_USUAL_SHAPES: tuple[Shape, ...] = ((7,), (3, 5), (2, 5, 7), (1, 8, 8, 16), (1, 3, 5, 33), (2, 3, 4, 5, 6))
_OF_ANY_RANK: tuple[Shape, ...] = ((7,), (3, 5), (1, 8, 8, 16))
_TAILS = (1, 63, 64, 65, 127, 128, 129)  # elements: a vector of HVX has 128 of 8 bits, 64 of 16 bits
_DEFAULT = "default"  # the parameter is left out


@dataclass(frozen=True)
class Plan:
    """What one case is to be, before its numbers are made."""

    name: str
    op: Op
    group: Group
    types: Mapping[str, DataType]
    shapes: Mapping[str, Shape]  # of inputs, and of outputs that were named
    values: Mapping[str, Any]
    params: Mapping[str, object]
    seed: int


def cases_of(tests: OpTests, package: OpPackage, backend: str) -> list[Case]:
    """The cases of one op for one backend of configs."""
    op = configs.op_for(package, tests.op, backend)
    if op is None:
        return []
    reference = find(tests.reference, tests.folder) if tests.reference else None
    plans = plans_of(tests, package, backend, op)
    return _told_apart([_case(plan, tests, reference, backend, places) for plan, places in plans])


def plans_of(tests: OpTests, package: OpPackage, backend: str, op: Op) -> Iterator[tuple[Plan, tuple[str, ...]]]:
    """What the cases of one op are to be for one backend of configs, and where they run."""
    for group in tests.groups:
        places = _places(group, package, tests.op, backend)
        if places is not None:
            yield from ((plan, places) for plan in _plans(group, op, package))
            hexagon = tuple(row.id for row in PLACES.values() if row.instructions and row.config == backend)
            hexagon = tuple(each for each in hexagon if not places or each in places)
            yield from ((plan, hexagon) for plan in (_tails(group, op, package) if hexagon else ()))


def _places(group: Group, package: OpPackage, op: str, backend: str) -> tuple[str, ...] | None:
    """Where its cases run among the places of a backend's packages; none said: in all. None: nowhere."""
    if not group.backends:
        return () if backend in configs.of_op_named(package, op) else None
    named = tuple(name for name in group.backends if PLACES[name].config == backend)
    twins = tuple(row.id for row in PLACES.values() if row.twin in named)  # the same package, another host
    return tuple(dict.fromkeys((*named, *twins))) or None


def examples(suite: Suite) -> list[Example]:
    """What a folder's config and kernels are, with the cases of all backends; for those who build themselves."""
    suite, known = configs.sources(suite)
    found: dict[Subject, list[Case]] = {}
    for tests in suite.ops:
        package = known[tests.subject].package(tests.op)
        for backend in dict.fromkeys(row.config for row in PLACES.values()) if package else ():
            assert package is not None
            found.setdefault(tests.subject, []).extend(cases_of(tests, package, backend))
    return [
        Example(subject.config, subject.kernels, tuple(cases))
        for subject, cases in found.items()
        if subject.config is not None and subject.kernels is not None
    ]


def _plans(group: Group, op: Op, package: OpPackage) -> Iterator[Plan]:
    choices = group.dtypes or configs.default_types(op, package)
    params = list(_param_choices(op, group.params))
    combinations = itertools.product(choices, _filled(group, op), params, group.seeds)
    for choice, (shape, values), given, seed in combinations:
        types = configs.types_of(op, choice)
        if types is None:
            continue
        of_inputs = _shapes_of_inputs(op, group, shape, values)
        named = {each.name: shape[each.name] for each in op.outputs if each.name in shape}
        yield Plan(
            name=_title(group, of_inputs, given, values, seed),
            op=op,
            group=group,
            types=types,
            shapes={**of_inputs, **named},
            values=values,
            params=given,
            seed=seed,
        )


def _tails(group: Group, op: Op, package: OpPackage) -> Iterator[Plan]:
    """Rows around the length of HVX's vectors, for types of 8 and 16 bits; only with the first of all else it lists.

    HTP begins tensors at a multiple of 2,048 bytes (measured): what is not aligned are rows of such lengths.
    """
    values = group.values[0]
    if group.shapes or group.expect == "refusal" or any(isinstance(each, Given) for each in values.values()):
        return
    long = [shape for shape in usual_shapes(op) if shape]
    some = [*long[:1], *[shape for shape in long if len(shape) > 1][:1]]  # one row, and several
    shapes = dict.fromkeys((*shape[:-1], length) for shape in some for length in _TAILS)
    name = f"{group.name}, tails" if group.name else "tails"
    row = ({EVERY: shape} for shape in shapes)
    group = replace(group, name=name, shapes=tuple(row), values=(values,), seeds=group.seeds[:1])
    params: Mapping[str, object] | None = None
    for plan in _plans(group, op, package):
        params = plan.params if params is None else params
        small = any(row.bits in (8, 16) and row.kind != "float" for row in plan.types.values())
        if small and plan.params == params:
            yield plan


def _filled(group: Group, op: Op) -> Iterator[tuple[Mapping[str, Shape], Mapping[str, Any]]]:
    """Every shape with every way to fill it; numbers that are given bring their own."""
    for values in group.values:
        given = all(isinstance(values.get(each.name, values.get(EVERY)), Given) for each in op.inputs if each.mandatory)
        ours: list[dict[str, Shape]] = [{}] if given else [{EVERY: shape} for shape in usual_shapes(op)]
        yield from ((shape, values) for shape in group.shapes or ours)


def usual_shapes(op: Op) -> Sequence[Shape]:
    """Shapes for the ranks that the inputs of an op may have."""
    ranks = [set(each.rank.ranks) for each in op.inputs if each.rank.ranks]
    if not ranks:
        return _OF_ANY_RANK
    fitting = [shape for shape in _USUAL_SHAPES if all(len(shape) in each for each in ranks)]
    return fitting or [tuple(range(2, 2 + min(ranks[0])))]


def _shapes_of_inputs(op: Op, group: Group, said: Mapping[str, Shape], values: Mapping[str, Any]) -> dict[str, Shape]:
    """Each input that is there, with its shape: optional ones where the test file speaks of them."""
    found: dict[str, Shape] = {}
    for tensor in op.inputs:
        named = tensor.name in said or tensor.name in values or tensor.name in group.counts
        if not named and (tensor.only_default or not tensor.mandatory):
            continue
        for name in _parts(tensor, group):
            own = said.get(name, said.get(tensor.name))
            given = values.get(name, values.get(tensor.name, values.get(EVERY)))
            shape = own if own is not None else numbers.shape_of(given)
            found[name] = shape if shape is not None else _fitting(tensor, said.get(EVERY))
    return found


def _parts(tensor: Tensor, group: Group) -> list[str]:
    """The inputs that a repeated one stands for."""
    if not tensor.repeated:
        return [tensor.name]
    return [f"{tensor.name}.{number}" for number in range(group.counts.get(tensor.name, 2))]


def _fitting(tensor: Tensor, common: Shape | None) -> Shape:
    """The shape said of all inputs; where this one cannot have that rank, the last axes of it."""
    shape = common if common is not None else (3, 5)
    ranks = tensor.rank.ranks
    if not ranks or len(shape) in ranks:
        return shape
    rank = max((each for each in ranks if each < len(shape)), default=min(ranks))
    return shape[len(shape) - rank :] if rank < len(shape) else (1,) * (rank - len(shape)) + shape


def _param_choices(op: Op, said: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Every combination of the parameters' values."""
    names = list(said)
    lists = [_values_of(next(each for each in op.params if each.name == name), said[name]) for name in names]
    for combination in itertools.product(*lists):
        yield {name: value for name, value in zip(names, combination, strict=True) if value != _DEFAULT}


def _values_of(param: Tensor, raw: object) -> list[object]:
    """A list is one value where the parameter is a tensor of that depth, and several values otherwise."""
    if not isinstance(raw, list):
        return [raw]
    if param.is_scalar:
        return raw
    depths = param.rank.ranks or (_depth(raw),)
    return [raw] if _depth(raw) in depths else raw


def _depth(raw: object) -> int:
    return 1 + max((_depth(each) for each in raw), default=0) if isinstance(raw, list) else 0


def _title(group: Group, shapes: Mapping[str, Shape], params: Mapping[str, object], values: Any, seed: int) -> str:
    """What tells a case from the others of its op."""
    texts = dict.fromkeys("x".join(map(str, shape)) or "scalar" for shape in shapes.values())
    parts = [" and ".join(texts)]
    parts += [f"{name}={_short(value)}" for name, value in params.items()]
    parts += [f"{name}={_DEFAULT}" for name in group.params if name not in params]
    if len(group.values) > 1:
        parts += [f"{name} {each}".strip() for name, each in values.items()]
    parts += [f"seed {seed}"] if len(group.seeds) > 1 else []
    return (f"{group.name}: " if group.name else "") + ", ".join(parts)


def _short(value: object) -> str:
    text = str(value).replace(" ", "")
    return text if len(text) <= 24 else text[:23] + "…"


def _told_apart(cases: list[Case]) -> list[Case]:
    """Names that differ, for cases that differ in what their names do not say; other types are told by the type."""
    seen: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    found = []
    for case in cases:
        key = (case.name, tuple(case.dtypes.items()))
        seen[key] = seen.get(key, 0) + 1
        found.append(case if seen[key] == 1 else replace(case, name=f"{case.name} ({seen[key]})"))
    return found


def _case(
    plan: Plan, tests: OpTests, reference: Reference | None, backend: str, places: tuple[str, ...]
) -> Case:  # fmt: skip
    made = numbers.make(plan, reference, backend)
    return replace(
        made, places=places, operations=tests.operations, loops=tests.loops, builtin=tests.builtin
    )  # fmt: skip


def describe(values: Mapping[str, Values]) -> str:
    """How the inputs are filled, in words."""
    return ", ".join(f"{name or 'inputs'} {each}" for name, each in values.items())
