"""Numbers that are wrong by themselves: parameters that do not arrive, factors, nothing computed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import e, log, log2, log10, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np

from udogen.verify.diagnosis.evidence import PATTERN, SEEN, Clue, Params, Suspect, clue, proof
from udogen.verify.diagnosis.positions import is_axis
from udogen.verify.tolerances import differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

# --- parameters --------------------------------------------------------------------------------------

_PARAM_HINT = "compare the name in the kernel with the config's, and its type: a number may come as another type"


def missing_param(suspect: Suspect) -> Iterator[Clue]:
    """A parameter that does not arrive: its default is used, 0 or 1, or it changes nothing."""
    case = suspect.evidence
    for name, value in case.params.items():
        without = {other: each for other, each in case.params.items() if other != name}
        guesses: list[tuple[str, Params]] = [("its default is used", without)]
        if name in case.defaults:
            guesses.append((f"its default, {case.defaults[name]}, is used", {**without, name: case.defaults[name]}))
        if isinstance(value, int | float | np.number) and not is_axis(name):  # 0 and 1 are axes like others
            guesses += [(f"{each} is used", {**without, name: type(value)(each)}) for each in (0, 1) if each != value]
        if isinstance(value, float) and value != int(value):
            guesses.append(("it is cut off to a whole number", {**without, name: float(int(value))}))
        for how, params in guesses:
            if count := suspect.explains(suspect.ask(params=params)):
                yield _missing(name, f"the parameter `{name}` ({value}) does not arrive: {how}", proof(count, suspect))
                break
        else:
            yield from _without_effect(suspect, name, value)


def _without_effect(suspect: Suspect, name: str, value: object) -> Iterator[Clue]:
    """Given another value the reference answers something else, and the op does not."""
    case = suspect.evidence
    if suspect.unsteady or isinstance(value, bool | str) or not isinstance(value, int | float | np.number):
        return
    other = {**case.params, name: value + 1 if isinstance(value, int | np.integer) else 2 * value + 1}
    answer = suspect.ask(params=other)
    if answer is None or not suspect.beyond(differences(answer, suspect.expected), suspect.expected).any():
        return
    before, after = suspect.run(), suspect.run(params=other)
    if before is not None and after is not None and before.tobytes() == after.tobytes():
        sentence = f"the parameter `{name}` has no effect"
        yield _missing(name, sentence, f"the op answers the same for {value} and for {other[name]}", strength=SEEN)


def _missing(name: str, sentence: str, evidence: str, strength: int = 2) -> Clue:
    return clue("missing-param", sentence, evidence=evidence, hint=_PARAM_HINT, strength=strength)


def swapped_params(suspect: Suspect) -> Iterator[Clue]:
    """Two parameters, each taken for the other."""
    case = suspect.evidence
    params = {**case.defaults, **case.params}
    for one, other in combinations(params, 2):
        if type(params[one]) is type(params[other]):
            exchanged = {**case.params, one: params[other], other: params[one]}
            if count := suspect.explains(suspect.ask(params=exchanged)):
                yield clue(
                    "swapped-params",
                    f"the parameters `{one}` and `{other}` are exchanged",
                    evidence=proof(count, suspect),
                    hint="take parameters by their names",
                )


# --- factors -----------------------------------------------------------------------------------------

_CONSTANTS = {
    "2": 2.0, "1/2": 0.5, "-1": -1.0, "pi": pi, "1/pi": 1 / pi, "e": e, "ln 2": log(2), "log2 e": log2(e),
    "ln 10": log(10), "log10 e": log10(e), "sqrt 2": sqrt(2), "sqrt 1/2": sqrt(0.5), "255": 255.0, "1/255": 1 / 255,
}  # fmt: skip


def factor(suspect: Suspect) -> Iterator[Clue]:
    """Everything is off by one factor, or by one summand, that has a meaning."""
    if suspect.whole or suspect.found.dtype.kind != "f":
        return
    found, expected = suspect.found.astype(np.float64), suspect.expected.astype(np.float64)
    known = np.isfinite(found) & np.isfinite(expected) & ~suspect.settled
    large = known & (np.abs(expected) >= np.abs(expected[known]).max(initial=0.0) / 4) & (expected != 0)
    if large.sum() < 4:
        return
    by = float(np.median(found[large] / expected[large]))
    near = max(1e-5, 2 * float(np.finfo(suspect.found.dtype).eps))
    for name, value in _meanings(suspect).items():
        if abs(by - value) > near * abs(value):
            continue
        if count := suspect.explains(_as(suspect, expected * value)):
            yield clue(
                "factor",
                f"every element is {name} times what it should be",
                evidence=f"found / expected is {by:.6g}; {proof(count, suspect)}",
                hint="look for a division (by a length, by a square root) that is missing or done twice",
            )
            return
    plus = float(np.median((found - expected)[large]))
    for name, number in {**suspect.evidence.defaults, **suspect.evidence.params}.items():
        if isinstance(number, int | float) and number and abs(abs(plus) - abs(number)) <= 1e-3 * abs(number):
            value = float(np.copysign(number, plus))
            if count := suspect.explains(_as(suspect, expected + value)):
                yield clue(
                    "factor",
                    f"every element is off by {value:g}, which is the parameter `{name}`",
                    evidence=f"found - expected is {plus:.6g}; {proof(count, suspect)}",
                    hint="see where the parameter is added",
                )


def _meanings(suspect: Suspect) -> dict[str, float]:
    """The factors that have a meaning: constants, and what lengths of axes make."""
    found = dict(_CONSTANTS)
    shapes = {array.shape for array in suspect.evidence.inputs.values()}
    products = {int(np.prod(part)) for shape in shapes for size in (1, 2) for part in combinations(shape, size)}
    lengths = sorted({*products, *(int(np.prod(shape)) for shape in shapes)} - {0, 1})
    for n in lengths:
        for name, value in (
            (f"{n} (a length)", n), (f"1/{n} (a length)", 1 / n), (f"sqrt {n} (of a length)", sqrt(n)),
            (f"1/sqrt {n} (of a length)", 1 / sqrt(n)), (f"{n}/{n - 1} (n for n - 1)", n / (n - 1)),
            (f"{n - 1}/{n} (n - 1 for n)", (n - 1) / n),
        ):  # fmt: skip
            found.setdefault(name, float(value))
    return found


def _as(suspect: Suspect, values: Array) -> Array:
    return values.astype(suspect.found.dtype)


# --- nothing was computed ----------------------------------------------------------------------------


def copy(suspect: Suspect) -> Iterator[Clue]:
    """The output is one of the inputs, or zeros."""
    for name, array in suspect.evidence.inputs.items():
        if array.size != suspect.found.size or array.dtype != suspect.found.dtype:
            continue
        if count := suspect.explains(array.reshape(suspect.found.shape)):
            yield clue(
                "copy",
                f"the output `{suspect.name}` is a copy of the input `{name}`",
                evidence=f"{count} of {suspect.found.size} elements tell",
                hint="does the kernel compute in place, or leave early?",
            )
    if not suspect.found.any() and np.unique(suspect.expected[suspect.wrong]).size >= 4:
        yield clue(
            "copy",
            f"the output `{suspect.name}` is 0 everywhere",
            evidence=f"all {suspect.found.size} elements",
            hint="is the kernel reached, and does it write to the output that it is given?",
            strength=PATTERN,
        )
