"""Wrong values: parameters that are not read or exchanged, and factors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import log, sqrt

from udogen.verify.diagnosis.wrong_output import Cause, WrongOutput

_AXIS_WORDS = ("axis", "axes", "dim")


def is_axis(param: str) -> bool:
    """Whether a parameter names an axis."""
    return any(word in param.lower() for word in _AXIS_WORDS)


def missing(output: WrongOutput) -> Iterator[Cause]:
    """A parameter that does not reach the kernel, or with the wrong sign."""
    params = output.case.params
    for name, value in params.items():
        without = {other: each for other, each in params.items() if other != name}
        guesses: list[tuple[str, object]] = []
        if name in output.defaults:
            guesses.append((f"its default, {output.defaults[name]}, is used", output.defaults[name]))
        if isinstance(value, int | float) and not is_axis(name):  # an axis is tried as one
            kind = type(value)
            guesses += [(f"{each} is used", kind(each)) for each in (0, 1) if each != value]
            guesses += [("it has the wrong sign", kind(-value))] if value > 0 or kind is float else []
            guesses += [("it is cut off to an integer", kind(int(value)))] if value != int(value) else []
        yield Cause("missing-param", {"param": name, "value": value, "how": "its default is used"},
                    lambda it, params=without: it.predict(params=params))  # fmt: skip
        for how, other in guesses:
            yield Cause("missing-param", {"param": name, "value": value, "how": how},
                        lambda it, params={**without, name: other}: it.predict(params=params))  # fmt: skip


def swapped(output: WrongOutput) -> Iterator[Cause]:
    """Two parameters that are exchanged."""
    params = {**output.defaults, **output.case.params}
    for one, other in combinations(params, 2):
        if type(params[one]) is type(params[other]):
            exchanged = {**output.case.params, one: params[other], other: params[one]}
            yield Cause("swapped-params", {"one": one, "other": other},
                        lambda it, params=exchanged: it.predict(params=params))  # fmt: skip


def factor(output: WrongOutput) -> Iterator[Cause]:
    """All elements are off by one factor with a meaning: a constant, or derived from the length of an axis."""
    factors = {"2": 2.0, "1/2": 0.5, "-1": -1.0, "ln 2": log(2), "log2 e": 1 / log(2), "255": 255.0, "1/255": 1 / 255}
    for n in {extent for array in output.case.inputs.values() for extent in array.shape} - {0, 1}:
        factors |= {f"{n} (a length)": float(n), f"1/{n} (a length)": 1 / n, f"1/sqrt {n} (of a length)": 1 / sqrt(n)}
        factors |= {f"{n}/{n - 1} (n for n - 1)": n / (n - 1), f"{n - 1}/{n} (n - 1 for n)": (n - 1) / n}
    if output.found.dtype.kind == "f":
        for name, by in factors.items():
            yield Cause("factor", {"factor": name}, lambda it, by=by: [it.expected * it.found.dtype.type(by)])
