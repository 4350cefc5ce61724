"""Parameters that are not read, or exchanged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from udogen.verify.diagnosis.wrong_output import Cause, WrongOutput

_AXIS_WORDS = ("axis", "axes", "dim")


def is_axis(param: str) -> bool:
    """Whether a parameter names an axis."""
    return any(word in param.lower() for word in _AXIS_WORDS)


def missing(output: WrongOutput) -> Iterator[Cause]:
    """A parameter that does not reach the kernel."""
    params = output.case.params
    for name, value in params.items():
        without = {other: each for other, each in params.items() if other != name}
        guesses: list[tuple[str, object]] = []
        if name in output.defaults:
            guesses.append((f"its default, {output.defaults[name]}, is used", output.defaults[name]))
        if isinstance(value, int | float) and not is_axis(name):  # an axis is tried as one
            guesses += [(f"{each} is used", type(value)(each)) for each in (0, 1) if each != value]
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
