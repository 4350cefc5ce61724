"""The inputs and outputs of an op over all its uses: which there are, which may be left out, which are any number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from udogen.init import naming
from udogen.opdef.onnx.uses import Argument, Use


@dataclass(frozen=True)
class Formal:
    """An input or output as its schema or function names it."""

    name: str
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True)
class Place:
    """One input or output: what stands there in each use, in the order of the uses."""

    name: str
    role: str
    arguments: tuple[tuple[Argument, ...], ...]  # none where it is left out, several where it is repeated
    mandatory: bool = True
    repeated: bool = False
    decide: str = ""  # why a person must look at it

    @property
    def all(self) -> tuple[Argument, ...]:
        """The arguments of all uses."""
        return tuple(each for use in self.arguments for each in use)


def places_of(uses: Sequence[Use], role: str, formals: Sequence[Formal], taken: set[str]) -> list[Place]:
    """The inputs (or outputs) of an op; `formals` is what its schema says of them, nothing where it has none."""
    sides = [use.inputs if role == "input" else use.outputs for use in uses]
    most = max((len(side) for side in sides), default=0)
    if formals:
        return _as_told(sides, role, formals, most, taken)
    start, decide = _repetition(sides) if role == "input" else (most, "")
    columns = [tuple(side[place : place + 1] for side in sides) for place in range(start)]
    if start < most:
        columns.append(tuple(side[start:] for side in sides))
    columns = [tuple(tuple(each for each in use if each.name) for use in column) for column in columns]
    wanted = [_wanted(column, role, repeated=place >= start) for place, column in enumerate(columns)]
    found = []
    for place, name in enumerate(naming.distinct(wanted, role, taken)):
        column, repeated = columns[place], place >= start
        mandatory = all(column) and (role == "input" or place == 0 or not _seldom(column))
        found.append(Place(name, role, column, mandatory, repeated, decide if repeated else ""))
    return _doubts(found, sides, decide if start >= most else "")


def _as_told(
    sides: Sequence[tuple[Argument, ...]], role: str, formals: Sequence[Formal], most: int, taken: set[str]
) -> list[Place]:
    """As the schema has them; those that no use has are left out where they are optional."""
    shown = [each for place, each in enumerate(formals) if place < most or not each.optional]
    found = []
    for place, name in enumerate(naming.distinct([each.name for each in shown], role, taken)):
        end = None if shown[place].repeated else place + 1
        column = tuple(tuple(each for each in side[place:end] if each.name) for side in sides)
        mandatory = not shown[place].optional and all(column)
        found.append(Place(name, role, column, mandatory, shown[place].repeated))
    return found


def _wanted(column: tuple[tuple[Argument, ...], ...], role: str, *, repeated: bool) -> str:
    """The name that the model suggests: of weights their own, of other values only what people see from outside."""
    arguments = [each for use in column for each in use]
    if repeated or not arguments:
        return role + "s" if repeated else ""
    speaking = all(each.static or each.outside for each in arguments)
    return naming.agreed(each.name for each in arguments) if speaking else ""


def _repetition(sides: Sequence[tuple[Argument, ...]]) -> tuple[int, str]:
    """From where on an input is any number of tensors, and why that is only likely.

    Uses of different length whose last inputs are all alike (type, rank, not constant) take any number of them, if
    even the shortest use has one, and the longest three.
    """
    counts = sorted({len(side) for side in sides})
    if len(counts) < 2:
        return (counts[0] if counts else 0), ""
    shortest, longest = counts[0], counts[-1]
    start = longest
    kind = _kind(max(sides, key=len)[-1])
    while start > 0 and all(_kind(side[start - 1]) == kind for side in sides if len(side) >= start):
        start -= 1
    told = " or ".join(str(count) for count in counts)
    if kind is not None and start < shortest and longest >= 3:
        return (
            start,
            f"uses have {told} inputs, alike from here on, so it is taken as repeated; or are the last ones optional?",
        )
    return longest, f"uses have {told} inputs, so the last ones are taken as optional; or is it one repeated input?"


def _kind(argument: Argument) -> tuple[str, int | None] | None:
    """What inputs of one kind have in common; none for what is constant or left out."""
    if not argument.name or argument.static:
        return None
    shape = argument.type.shape
    return argument.type.dtype, None if shape is None else len(shape)


def _seldom(column: tuple[tuple[Argument, ...], ...]) -> bool:
    return not all(column)


def _doubts(places: list[Place], sides: Sequence[tuple[Argument, ...]], decide: str) -> list[Place]:
    """What is said of places that only some uses have."""
    found = []
    for place in places:
        missing = sum(not use for use in place.arguments)
        if place.mandatory or not missing:
            found.append(place)
            continue
        told = decide or f"{missing} of {len(sides)} uses leave it out, so it is taken as optional"
        found.append(replace(place, decide=told if decide else place.decide))
    return found
