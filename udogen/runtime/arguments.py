"""Checks of arguments that the types of a public call do not show, and of calls in each step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from udogen.errors import UsageError, WrongType, kind_of

MOST, MOST_32 = 2**63 - 1, 2**32 - 1
PathArgument = str | os.PathLike[str]


def expect(value: object, kinds: type | tuple[type, ...], what: str, expected: str, *, hint: str = "") -> None:
    """Raise unless a value has one of these types; `expected` describes them: "a path", "a number of bytes"."""
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise WrongType(f"{what} is {kind_of(value)}", hint=hint or f"give {expected}")


def mapping(value: object, what: str, *, hint: str = "") -> Mapping[str, Any]:
    """Return the mapping; raise unless it is one and its keys are names."""
    expect(value, Mapping, what, "a dict", hint=hint)
    assert isinstance(value, Mapping)
    for key in value:
        expect(key, str, f"a key of {what}", "names (str)", hint=hint)
    return value


def whole(value: object, what: str, *, least: int = 0, most: int = MOST, hint: str = "") -> int:
    """Return the value as an int; raise unless it is an integer from `least` to `most`."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise WrongType(f"{what} is {kind_of(value)}", hint=hint or "give an integer")
    if not least <= number <= most:
        raise UsageError(f"{what} is {number}", hint=hint or f"give an integer from {least} to {most}")
    return number


def wholes(value: object, what: str) -> tuple[int, ...]:
    """Return a sequence of integers, such as a shape, as a tuple; raise for anything else."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise WrongType(f"{what} is {kind_of(value)}", hint="give integers in a list or tuple")
    return tuple(whole(item, f"a number of {what}", most=MOST_32) for item in value)


def array_type(value: Any, what: str, *, kinds: str = "biuf") -> Any:
    """The data type of numpy that a value names; raise unless its kind is one of these letters of numpy."""
    import numpy as np

    hint = "give the name of a type: " + ('"uint8"' if "f" not in kinds else '"float32"')
    try:
        dtype = np.dtype(value) if value is not None else None
    except (TypeError, ValueError):
        dtype = None
    if dtype is None or dtype.kind not in kinds or not dtype.itemsize:
        raise WrongType(f"{what} is {kind_of(value)}", hint=hint)
    return dtype


def faulty(faults: Sequence[str], several: str, *, hint: str) -> UsageError:
    """The error that reports one fault, or `2 SEVERAL` with the faults as details."""
    if len(faults) == 1:
        return UsageError(faults[0], hint=hint)
    return UsageError(f"{len(faults)} {several}", details=faults, hint=hint)
