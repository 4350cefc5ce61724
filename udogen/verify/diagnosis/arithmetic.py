"""Wrong values: parameters that are ignored, factors, sums in too few bits, nothing computed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from math import e, log, log2, log10, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.verify.cases import Arrays
from udogen.verify.diagnosis.positions import is_axis
from udogen.verify.diagnosis.wrong_output import OBSERVED, PATTERN, Clue, Params, WrongOutput, clue
from udogen.verify.tolerances import differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

# --- parameters --------------------------------------------------------------------------------------


def missing_param(output: WrongOutput) -> Iterator[Clue]:
    """A parameter that does not reach the kernel: its default, 0 or 1 is used, or it has no effect."""
    case = output.case
    for name, value in case.params.items():
        without = {other: each for other, each in case.params.items() if other != name}
        guesses: list[tuple[str, Params]] = [("its default is used", without)]
        if name in output.defaults:
            guesses.append((f"its default, {output.defaults[name]}, is used", {**without, name: output.defaults[name]}))
        if isinstance(value, int | float | np.number) and not is_axis(name):  # 0 and 1 are axes like others
            guesses += [(f"{each} is used", {**without, name: type(value)(each)}) for each in (0, 1) if each != value]
        if isinstance(value, float) and value != int(value):
            guesses.append(("it is cut off to an integer", {**without, name: float(int(value))}))
        for how, params in guesses:
            if count := output.explains(output.predict(params=params)):
                yield clue("missing-param", param=name, value=value, how=how, evidence=output.confirmed(count))
                break
        else:
            yield from _without_effect(output, name, value)


def _without_effect(output: WrongOutput, name: str, value: object) -> Iterator[Clue]:
    """A parameter without effect: for another value the result of the reference changes, that of the op does not."""
    case = output.case
    if output.varies or isinstance(value, bool | str) or not isinstance(value, int | float | np.number):
        return
    other = {**case.params, name: value + 1 if isinstance(value, int | np.integer) else 2 * value + 1}
    predicted = output.predict(params=other)
    if predicted is None or not output.exceeds(differences(predicted, output.expected), output.expected).any():
        return
    before, after = output.rerun(), output.rerun(params=other)
    if before is not None and after is not None and before.tobytes() == after.tobytes():
        evidence = f"the op returns the same for {value} and for {other[name]}"
        yield clue("missing-param.no-effect", param=name, evidence=evidence, strength=OBSERVED)


def swapped_params(output: WrongOutput) -> Iterator[Clue]:
    """Two parameters that are exchanged."""
    case = output.case
    params = {**output.defaults, **case.params}
    for one, other in combinations(params, 2):
        if type(params[one]) is type(params[other]):
            exchanged = output.predict(params={**case.params, one: params[other], other: params[one]})
            yield from output.clues_of("swapped-params", exchanged, one=one, other=other)


# --- factors -----------------------------------------------------------------------------------------

_CONSTANTS = {
    "2": 2.0, "1/2": 0.5, "-1": -1.0, "pi": pi, "1/pi": 1 / pi, "e": e, "ln 2": log(2), "log2 e": log2(e),
    "ln 10": log(10), "log10 e": log10(e), "sqrt 2": sqrt(2), "sqrt 1/2": sqrt(0.5), "255": 255.0, "1/255": 1 / 255,
}  # fmt: skip


def factor(output: WrongOutput) -> Iterator[Clue]:
    """All elements are off by one meaningful factor or summand."""
    if output.is_integer or output.found.dtype.kind != "f":
        return
    found, expected = output.found.astype(np.float64), output.expected.astype(np.float64)
    known = np.isfinite(found) & np.isfinite(expected) & ~output.explained
    large = known & (np.abs(expected) >= np.abs(expected[known]).max(initial=0.0) / 4) & (expected != 0)
    if large.sum() < 4:
        return
    by = float(np.median(found[large] / expected[large]))
    near = max(1e-5, 2 * float(np.finfo(output.found.dtype).eps))
    for name, value in _meanings(output).items():
        if abs(by - value) > near * abs(value):
            continue
        if count := output.explains(_as(output, expected * value)):
            yield clue("factor", factor=name, evidence=f"found / expected is {by:.6g}; {output.confirmed(count)}")
            return
    plus = float(np.median((found - expected)[large]))
    for name, number in {**output.defaults, **output.case.params}.items():
        if isinstance(number, int | float) and number and abs(abs(plus) - abs(number)) <= 1e-3 * abs(number):
            value = float(np.copysign(number, plus))
            because = f"found - expected is {plus:.6g}; "
            predicted = _as(output, expected + value)
            yield from output.clues_of("factor.summand", predicted, because=because, value=f"{value:g}", param=name)


def _meanings(output: WrongOutput) -> dict[str, float]:
    """Factors with a meaning: constants, and those derived from lengths of axes."""
    found = dict(_CONSTANTS)
    shapes = {array.shape for array in output.case.inputs.values()}
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


def _as(output: WrongOutput, values: Array) -> Array:
    return values.astype(output.found.dtype)


# --- nothing is computed -----------------------------------------------------------------------------


def copy(output: WrongOutput) -> Iterator[Clue]:
    """The output is a copy of an input, or all zeros."""
    for name, array in output.case.inputs.items():
        if array.size != output.found.size or array.dtype != output.found.dtype:
            continue
        if count := output.explains(array.reshape(output.found.shape)):
            evidence = f"{count} of {output.found.size} elements show it"
            yield clue("copy", output=output.name, input=name, evidence=evidence)
    if not output.found.any() and np.unique(output.expected[output.wrong]).size >= 4:
        yield clue(
            "copy.zero",
            output=output.name,
            evidence=f"all {output.found.size} elements",
            strength=PATTERN,
        )


# --- sums in half precision -------------------------------------------------------------------------------------------


_SHORTEST = 32
_HALF = 2.0**-11  # the largest relative error of half precision
_FAR = 0.5  # larger relative errors are not due to low precision
_ORDERS = 6  # orders in which the same numbers are summed, as one order could be accurate by luck


def half_sums(output: WrongOutput) -> Iterator[Clue]:
    """Sums in 16 bits: the error is of that size, and grows with the number of summands."""
    if output.found.dtype.kind != "f" or output.varies or not np.isfinite(output.error).all():
        return
    inputs = output.case.inputs
    floats = {name: in_half_precision(array) for name, array in inputs.items() if array.dtype.kind == "f"}
    predicted = output.predict(inputs=floats) if floats else None
    if (count := output.explains(predicted)) and predicted is not None:
        evidence = f"summed one after the other in half precision, {output.confirmed(count)}"
        yield clue("half-sums", evidence=evidence)
    elif grown := _growth(output, None if predicted is None else _size(differences(predicted, output.expected))):
        steps = ", ".join(f"{error:.1e} at {length}" for length, error in grown)
        evidence = f"the error is of the size of half precision, and grows with the length: {steps}"
        yield clue("half-sums", evidence=evidence, strength=OBSERVED)


def _growth(output: WrongOutput, predicted: float | None) -> list[tuple[int, float]]:
    """(length, relative error) as an axis grows; empty if the error does not grow."""
    size, off = _size(output.expected), _size(output.error)
    if not size or not _HALF / 16 <= off / size <= _FAR:
        return []
    extents = {extent for array in output.case.inputs.values() for extent in array.shape if extent >= _SHORTEST}
    for extent in sorted(extents, reverse=True):
        if _is_summed(output, extent) and (errors := _growing_errors(output, extent, off, predicted)):
            return list(zip(_lengths(extent), errors, strict=True))
    return []


def _growing_errors(output: WrongOutput, extent: int, off: float, predicted: float | None) -> list[float]:
    """The error at each length of an axis; empty if it does not grow."""
    random = np.random.default_rng(extent)
    # A repeated number is always rounded in the same direction, so its error grows fast.
    errors = _errors(output, extent, [np.full(extent, random.integers(extent)) for _ in range(_ORDERS)])
    if errors:
        return errors if _grows(errors, slope=0.6) else []
    # If that gives no result (equal numbers have no variance), use all numbers, in several orders.
    if not predicted or not 1 / 6 <= off / predicted <= 6:
        return []
    errors = _errors(output, extent, [random.permutation(extent) for _ in range(_ORDERS)])
    return errors if errors and _grows(errors, slope=0.35) else []


def _lengths(extent: int) -> list[int]:
    return [extent // part for part in (8, 4, 2, 1)]


def _is_summed(output: WrongOutput, extent: int) -> bool:
    """Whether the result changes if all axes of this length are cut in half."""
    half = np.arange(extent // 2)
    predicted = output.reference(inputs=_taken(output.case.inputs, extent, half), any_shape=True)
    [(_, whole)] = _taken({output.name: output.expected}, extent, half).items()
    if predicted is None:
        return False
    return predicted.shape != whole.shape or bool(
        output.exceeds(differences(output.store(predicted), whole), whole).any()
    )


def _errors(output: WrongOutput, extent: int, orders: list[Array]) -> list[float]:
    """The error at each length; empty if one of them is zero or cannot be measured."""
    found = [_error_of(output, extent, [order[:length] for order in orders]) for length in _lengths(extent)]
    known = [error for error in found if error]
    return known if len(known) == len(found) else []


def _grows(off: list[float], *, slope: float) -> bool:
    """Whether errors grow like a power of the length, starting near the error of half precision."""
    if not (_HALF / 16 <= off[-1] <= _FAR and off[0] >= _HALF / 32):
        return False
    found = float(np.polyfit(range(len(off)), np.log2(off), 1)[0])
    return found >= slope and off[-1] >= 2 * off[0] and all(after > 0.9 * before for before, after in pairwise(off))


def _size(values: Array) -> float:
    """The root mean square."""
    return float(np.sqrt(np.square(values.astype(np.float64)).mean()))


def _error_of(output: WrongOutput, extent: int, parts: list[Array]) -> float | None:
    """The root mean square error with only some elements of the axes of one length, in several orders."""
    squares = []
    for part in parts:
        error = _error(output, _cut(output.case.inputs, extent, part))
        if error is None:
            return None
        squares.append(error**2)
    return float(np.sqrt(np.mean(squares)))


def _cut(inputs: Arrays, extent: int, part: Array) -> Arrays:
    """Shorten axes of this length and scale one input up by as much, because errors may also grow with the results."""
    cut = _taken(inputs, extent, part)
    for name, array in cut.items():
        if extent in inputs[name].shape and array.dtype.kind == "f":
            cut[name] = array * array.dtype.type(extent // len(part))
            break
    return cut


def _taken(arrays: Arrays, extent: int, part: Array) -> dict[str, Array]:
    """The arrays with only these elements of each axis of this length."""
    taken = dict(arrays)
    for name, array in arrays.items():
        for along, each in enumerate(array.shape):
            if each == extent:
                taken[name] = taken[name].take(part, axis=along)
    return taken


def _error(output: WrongOutput, inputs: Arrays) -> float | None:
    """The error of the op, relative to the size of its results; None if it cannot be measured."""
    predicted = output.reference(inputs=inputs, any_shape=True)
    found = output.rerun(inputs=inputs)
    if predicted is None or found is None or found.shape != predicted.shape:
        return None
    expected = predicted.astype(np.float64)
    size = _size(expected) if expected.size else 0.0
    off = differences(found, expected)
    return _size(off) / size if size and np.isfinite(off).all() else None


# --- arrays that numpy sums in half precision -------------------------------------------------------------------------


_MOST = 1 << 22  # products of a matrix product that are in memory at once


def in_half_precision(array: Array) -> Array:
    """The same array, but numpy sums it sequentially in half precision."""
    return np.ascontiguousarray(array).view(_HalfSums)


class _HalfSums(np.ndarray[Any, np.dtype[Any]]):
    """An array with its own sums and matrix products; everything else is numpy's."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [each.view(np.ndarray) if isinstance(each, _HalfSums) else each for each in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple(each.view(np.ndarray) if isinstance(each, _HalfSums) else each
                                  for each in kwargs["out"])  # fmt: skip
        if method == "reduce" and ufunc is np.add and not kwargs.get("out"):
            result = _summed(plain[0], kwargs.get("axis", 0), bool(kwargs.get("keepdims")))
        elif method == "__call__" and ufunc is np.matmul and _fits(*plain[:2]):
            left, right = (np.asarray(each, np.float32) for each in plain[:2])
            result = _summed(left[..., :, :, None] * right[..., None, :, :], -2, False)
        else:
            result = getattr(ufunc, method)(*plain, **kwargs)
        return result.view(_HalfSums) if isinstance(result, np.ndarray) else result


def _fits(left: Any, right: Any) -> bool:
    a, b = np.shape(left), np.shape(right)
    return len(a) >= 2 and len(b) >= 2 and int(np.prod(a)) * b[-1] <= _MOST


def _summed(array: Array, axis: Any, keepdims: bool) -> Array:
    """The sequential sum along axes; each partial sum is rounded to half precision."""
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    last = sorted(each % array.ndim for each in axes) if array.ndim else []
    kept = [each for each in range(array.ndim) if each not in last]
    flat = array.transpose([*kept, *last]).reshape([array.shape[each] for each in kept] + [-1])
    if flat.shape[-1] == 0 or array.dtype.kind != "f":
        return np.asarray(array.sum(axis=axis, keepdims=keepdims))
    with np.errstate(over="ignore"):
        sums = np.add.accumulate(flat.astype(np.float16), axis=-1, dtype=np.float16)[..., -1].astype(np.float32)
    return sums.reshape([1 if each in last else array.shape[each] for each in range(array.ndim)]) if keepdims else sums
