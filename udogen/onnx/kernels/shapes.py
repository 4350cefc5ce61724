"""ONNX's ops that move elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import halide as hl

from udogen.kernels.fixed import as_expr
from udogen.onnx.kernels.values import (
    ZERO,
    Axes,
    Index,
    Number,
    Value,
    as_value,
    axes_of,
    broadcast_shape,
    constant,
    spread,
    zero_of,
)


def within(position: Any, extent: int) -> Any:
    """A position that is known to be within the axis, though its expression does not show it."""
    return ZERO if extent == 1 else hl.unsafe_promise_clamped(position, 0, extent - 1)


def Reshape(x: Number, *, shape: Sequence[int]) -> Value:
    """Reshape to a shape without 0 and -1."""
    value = as_value(x)
    groups = _groups(value.shape, shape)

    def get(index: Index) -> Any:
        indices: list[Any] = [ZERO] * value.rank
        for before, after in groups:
            if len(before) == len(after) == 1:
                indices[before[0]] = index[after[0]]
                continue
            number: Any = ZERO
            for axis in after:
                number = number * shape[axis] + index[axis] if number is not ZERO else as_expr(index[axis])
            for place in reversed(range(len(before))):
                axis, extent = before[place], value.shape[before[place]]
                indices[axis] = within(number % extent if place else number, extent)
                number = number / extent
        return value.at(*indices)

    return Value(tuple(shape), get)


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of axes that are reshaped into each other: (before, after)."""
    groups = []
    i = j = 0
    while i < len(before) or j < len(after):
        left: list[int] = []
        right: list[int] = []
        a = b = 1
        while not left or not right or a != b:
            if i < len(before) and (not left or a <= b or j == len(after)):
                left.append(i)
                a *= before[i]
                i += 1
            elif j < len(after):
                right.append(j)
                b *= after[j]
                j += 1
            else:
                break
        groups.append((left, right))
    return groups


def Flatten(x: Number, *, axis: int = 1) -> Value:
    value = as_value(x)
    axis = axis + value.rank if axis < 0 else axis
    return Reshape(value, shape=(math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))


def Squeeze(x: Number, *, axes: Axes = None) -> Value:
    value = as_value(x)
    gone = [axis % value.rank for axis in axes] if axes else [n for n, size in enumerate(value.shape) if size == 1]
    kept = [axis for axis in range(value.rank) if axis not in gone]

    def get(index: Index) -> Any:
        full: list[Any] = [ZERO] * value.rank
        for axis, position in zip(kept, index, strict=True):
            full[axis] = position
        return value.at(*full)

    return Value(tuple(value.shape[axis] for axis in kept), get)


def Unsqueeze(x: Number, *, axes: Sequence[int]) -> Value:
    value = as_value(x)
    rank = value.rank + len(axes)
    new = {axis % rank for axis in axes}
    extents = iter(value.shape)
    shape = tuple(1 if axis in new else next(extents) for axis in range(rank))
    return Value(shape, lambda index: value.at(*(position for axis, position in enumerate(index) if axis not in new)))


def Transpose(x: Number, *, perm: Sequence[int] | None = None) -> Value:
    value = as_value(x)
    order = list(perm) if perm else list(reversed(range(value.rank)))

    def get(index: Index) -> Any:
        indices: list[Any] = [None] * value.rank
        for position, axis in zip(index, order, strict=True):
            indices[axis] = position
        return value.at(*indices)

    return Value(tuple(value.shape[axis] for axis in order), get)


def Expand(x: Number, *, shape: Sequence[int]) -> Value:
    value = as_value(x)
    return Value(broadcast_shape(value.shape, shape), lambda index: spread(value, index))


def Tile(x: Number, *, repeats: Sequence[int]) -> Value:
    value = as_value(x)
    shape = tuple(extent * times for extent, times in zip(value.shape, repeats, strict=True))

    def get(index: Index) -> Any:
        rows = zip(index, value.shape, repeats, strict=True)
        return value.at(
            *(position if times == 1 else within(position % extent, extent) for position, extent, times in rows)
        )

    return Value(shape, get)


def Concat(*x: Number, axis: int) -> Value:
    values = [as_value(operand) for operand in x]
    first = values[0]
    axis %= first.rank
    shape = list(first.shape)
    shape[axis] = sum(value.shape[axis] for value in values)

    def get(index: Index) -> Any:
        chosen, start = None, shape[axis]
        for value in reversed(values):
            start -= value.shape[axis]
            here = hl.clamp(index[axis] - start, 0, value.shape[axis] - 1)
            element = value.at(*index[:axis], here, *index[axis + 1 :])
            chosen = element if chosen is None else hl.select(index[axis] < start + value.shape[axis], element, chosen)
        return chosen

    return Value(tuple(shape), get)


def Split(x: Number, *, axis: int = 0, split: Sequence[int]) -> tuple[Value, ...]:
    value = as_value(x)
    ends = list(itertools.accumulate(split))
    return tuple(
        Slice(value, starts=(end - length,), ends=(end,), axes=(axis,)) for end, length in zip(ends, split, strict=True)
    )


def Slice(
    x: Number, *, starts: Sequence[int], ends: Sequence[int], axes: Axes = None, steps: Sequence[int] | None = None
) -> Value:
    value = as_value(x)
    ranges = [range(extent) for extent in value.shape]
    chosen = list(range(len(starts))) if axes is None else list(axes)
    for axis, start, end, step in zip(chosen, starts, ends, steps or [1] * len(starts), strict=True):
        extent = value.shape[axis]
        ranges[axis] = range(extent)[slice(start, None if step < 0 and end < -extent else end, step)]

    def get(index: Index) -> Any:
        rows = zip(index, ranges, value.shape, strict=True)
        return value.at(
            *(position if row == range(n) else position * row.step + row.start for position, row, n in rows)
        )

    return Value(tuple(len(each) for each in ranges), get)


def Pad(x: Number, *, pads: Sequence[int], mode: str = "constant", value: Any = None, axes: Axes = None) -> Value:
    source = as_value(x)
    chosen = axes_of(source, axes) if axes is None else [axis % source.rank for axis in axes]
    before, after = [0] * source.rank, [0] * source.rank
    for place, axis in enumerate(chosen):
        before[axis], after[axis] = pads[place], pads[place + len(chosen)]
    shape = tuple(map(sum, zip(before, source.shape, after, strict=True)))
    filling = as_value(value) if value is not None else constant(zero_of(source))

    def get(index: Index) -> Any:
        inside: Any = None
        indices = []
        for position, low, high, extent in zip(index, before, after, source.shape, strict=True):
            if low == high == 0:
                indices.append(position)
                continue
            place = position - low
            if mode == "reflect" and extent > 1:
                place = place % (2 * extent - 2)
                place = hl.select(place < extent, place, 2 * extent - 2 - place)
            elif mode == "wrap":
                place = place % extent
            elif mode == "constant":
                here = (place >= 0) & (place < extent)
                inside = here if inside is None else inside & here
            indices.append(hl.clamp(place, 0, extent - 1))
        element = source.at(*indices)
        return element if inside is None else hl.select(inside, element, filling.at())

    return Value(shape, get)


def _position(number: Any, extent: int) -> Any:
    """An index that was read from a tensor; a negative one counts from the end."""
    return hl.clamp(hl.select(number < 0, number + extent, number), 0, extent - 1)


def Gather(x: Number, indices: Number, *, axis: int = 0) -> Value:
    value, chosen = as_value(x), as_value(indices)
    axis %= value.rank

    def get(index: Index) -> Any:
        number = chosen.at(*index[axis : axis + chosen.rank])
        place = _position(number, value.shape[axis])
        return value.at(*index[:axis], place, *index[axis + chosen.rank :])

    return Value((*value.shape[:axis], *chosen.shape, *value.shape[axis + 1 :]), get)


def GatherElements(x: Number, indices: Number, *, axis: int = 0) -> Value:
    value, chosen = as_value(x), as_value(indices)
    axis %= value.rank

    def get(index: Index) -> Any:
        place = _position(chosen.at(*index), value.shape[axis])
        return value.at(*index[:axis], place, *index[axis + 1 :])

    return Value(chosen.shape, get)


def GatherND(x: Number, indices: Number, *, batch_dims: int = 0) -> Value:
    value, chosen = as_value(x), as_value(indices)
    count, rank = chosen.shape[-1], chosen.rank - 1

    def get(index: Index) -> Any:
        head, tail = index[:rank], index[rank:]
        numbers = [chosen.at(*head, hl.Expr(n)) for n in range(count)]
        places = [_position(number, value.shape[batch_dims + n]) for n, number in enumerate(numbers)]
        return value.at(*index[:batch_dims], *places, *tail)

    return Value((*chosen.shape[:-1], *value.shape[batch_dims + count :]), get)


def OneHot(indices: Number, values: Number, *, depth: float, axis: int = -1) -> Value:
    chosen, pair, depth = as_value(indices), as_value(values), int(depth)
    axis %= chosen.rank + 1

    def get(index: Index) -> Any:
        number = hl.cast(hl.Int(32), chosen.at(*index[:axis], *index[axis + 1 :]))
        hot = hl.select(number < 0, number + depth, number) == index[axis]
        return hl.select(hot, pair.at(hl.Expr(1)), pair.at(hl.Expr(0)))

    return Value((*chosen.shape[:axis], depth, *chosen.shape[axis:]), get)


def Trilu(x: Number, *, upper: int = 1, k: int = 0) -> Value:
    value = as_value(x)
    none = zero_of(value)

    def get(index: Index) -> Any:
        distance = index[-1] - index[-2]
        return hl.select(distance >= k if upper else distance <= k, value.at(*index), none)

    return Value(value.shape, get)


def DepthToSpace(x: Number, *, blocksize: int, mode: str = "DCR") -> Value:
    value = as_value(x)
    n, c, h, w = value.shape
    b = blocksize
    split = (n, b, b, c // b**2, h, w) if mode == "DCR" else (n, c // b**2, b, b, h, w)
    perm = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return Reshape(Transpose(Reshape(value, shape=split), perm=perm), shape=(n, c // b**2, h * b, w * b))


def SpaceToDepth(x: Number, *, blocksize: int) -> Value:
    value = as_value(x)
    n, c, h, w = value.shape
    b = blocksize
    split = Reshape(value, shape=(n, c, h // b, b, w // b, b))
    return Reshape(Transpose(split, perm=(0, 3, 5, 1, 2, 4)), shape=(n, c * b**2, h // b, w // b))
