"""ONNX's sums of products, convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import halide as hl

from udogen.onnx.kernels.elementwise import Abs, Add, Div, Mul, Pow, Sqrt
from udogen.onnx.kernels.reductions import ReduceMax, ReduceMean, ReduceSum, by_channel
from udogen.onnx.kernels.shapes import Squeeze, Transpose, Unsqueeze, within
from udogen.onnx.kernels.values import ZERO, Index, Number, Value, as_value, broadcast_shape, fold_over, is_int, zero_of


def MatMul(a: Number, b: Number) -> Value:
    left, right = as_value(a), as_value(b)
    of_row, of_column = left.rank == 1, right.rank == 1
    left = Unsqueeze(left, axes=(0,)) if of_row else left
    right = Unsqueeze(right, axes=(1,)) if of_column else right
    batch = broadcast_shape(left.shape[:-2], right.shape[:-2])
    zero = zero_of(left)

    def row(value: Value, index: Index, *last: Any) -> Any:
        own = index[len(batch) - (value.rank - 2) : len(batch)]
        places = (ZERO if extent == 1 else position for position, extent in zip(own, value.shape[:-2], strict=True))
        return value.at(*places, *last)

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        i, j, k = index[-2], index[-1], place[0]
        return [so_far[0] + row(left, index, i, k) * row(right, index, k, j)]

    product = fold_over("MatMul", (*batch, left.shape[-2], right.shape[-1]), [left.shape[-1]], [zero], step)
    gone = [axis for axis, is_gone in ((-2, of_row), (-1, of_column)) if is_gone]
    return Squeeze(product, axes=gone) if gone else product


def Gemm(
    a: Number,
    b: Number,
    c: Number | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    product = MatMul(Transpose(a) if transA else a, Transpose(b) if transB else b)
    product = product if alpha == 1.0 else Mul(product, alpha)
    return product if c is None else Add(product, c if beta == 1.0 else Mul(c, beta))


def _padding(
    auto_pad: str,
    pads: Sequence[int] | None,
    extents: Sequence[int],
    spans: Sequence[int],
    strides: Sequence[int],
    *,
    pools: bool,
) -> tuple[list[int], list[int]]:
    """The number of elements before and after each axis; for pooling, it may be negative."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        rows = zip(extents, spans, strides, strict=True)
        whole = [(math.ceil(n / stride) - 1) * stride + span - n for n, span, stride in rows]
        whole = whole if pools else [max(width, 0) for width in whole]
        # Rounded towards zero, as in ONNX Runtime.
        first = [int((width + (auto_pad == "SAME_LOWER")) / 2) for width in whole]
        return first, [width - before for width, before in zip(whole, first, strict=True)]
    count = len(extents)
    given = list(pads) if pads and auto_pad != "VALID" else [0] * (2 * count)
    return given[:count], given[count:]


def _taps(value: Value, head: Index, places: Sequence[Any], outside: Any) -> Any:
    """An element of an image; outside the image, another number."""
    inside: Any = None
    indices = []
    for (place, may_miss), extent in zip(places, value.shape[len(head) :], strict=True):
        here = (place >= 0) & (place < extent)
        inside = (here if inside is None else inside & here) if may_miss else inside
        indices.append(hl.clamp(place, 0, extent - 1) if may_miss else place)
    element = value.at(*head, *indices)
    return element if inside is None else hl.select(inside, element, outside)


@dataclass(frozen=True)
class _Window:
    """How a window moves over an image."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    image: tuple[int, ...]
    shape: tuple[int, ...]  # of the output

    def places(self, index: Index, place: Index) -> list[tuple[Any, bool]]:
        """Where each axis of the image is read, and whether that may be outside the image."""
        rows = zip(
            index, place, self.strides, self.dilations, self.before, self.kernel, self.shape, self.image, strict=True
        )
        return [
            (i * stride + k * dilation - low, low > 0 or (size - 1) * stride + (span - 1) * dilation - low >= extent)
            for i, k, stride, dilation, low, span, size, extent in rows
        ]


def _window(
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int = 0,
    *,
    pools: bool = True,
) -> _Window:
    strides, dilations = strides or [1] * len(kernel), dilations or [1] * len(kernel)
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    # For pooling, ONNX Runtime calculates padding without dilations.
    before, after = _padding(auto_pad, pads, image, kernel if pools else spans, strides, pools=pools)
    shape = []
    for extent, span, stride, low, high in zip(image, spans, strides, before, after, strict=True):
        room = extent + low + high - span
        steps = math.ceil(room / stride) if ceil_mode else room // stride
        if ceil_mode and steps * stride >= extent + low:
            steps -= 1
        shape.append(steps + 1)
    rows = (kernel, strides, dilations, before, after, image, shape)
    return _Window(*(tuple(row) for row in rows))


Lengths = Sequence[int] | None


def Conv(
    x: Number, w: Number, bias: Number | None = None, *, group: int = 1, strides: Lengths = None, pads: Lengths = None,
    dilations: Lengths = None, auto_pad: str = "NOTSET", kernel_shape: Lengths = None,
) -> Value:  # fmt: skip
    value, filters = as_value(x), as_value(w)
    count, depth = filters.shape[:2]
    window = _window(value.shape[2:], filters.shape[2:], strides, dilations, pads, auto_pad, pools=False)

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        n, m, *rest = index
        first = 0 if group == 1 else m if depth == 1 and count == group else within(m / (count // group), group) * depth
        channel = place[0] if group == 1 else first if depth == 1 else first + place[0]
        taken = _taps(value, (n, channel), window.places(tuple(rest), place[1:]), hl.f32(0.0))
        return [so_far[0] + taken * filters.at(m, *place)]

    sums = fold_over("Conv", (value.shape[0], count, *window.shape), (depth, *window.kernel), [hl.f32(0.0)], step)
    return sums if bias is None else Add(sums, by_channel(bias, value.rank))


def ConvTranspose(
    x: Number, w: Number, bias: Number | None = None, *, strides: Lengths = None, pads: Lengths = None,
    dilations: Lengths = None, output_padding: Lengths = None, kernel_shape: Lengths = None,
) -> Value:  # fmt: skip
    value, filters = as_value(x), as_value(w)
    axes = value.rank - 2
    strides, dilations, pads = strides or [1] * axes, dilations or [1] * axes, pads or [0] * (2 * axes)
    depth, count, *kernel = filters.shape
    extra = output_padding or [0] * axes
    image = value.shape[2:]
    shape = [
        (image[n] - 1) * strides[n] + (kernel[n] - 1) * dilations[n] + 1 + extra[n] - pads[n] - pads[n + axes]
        for n in range(axes)
    ]

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        n, m, *rest = index
        inside: Any = None
        indices = []
        for axis, (position, k) in enumerate(zip(rest, place[1:], strict=True)):
            numerator = position + pads[axis] - k * dilations[axis]
            here = (numerator % strides[axis] == 0) & (numerator >= 0) & (numerator < image[axis] * strides[axis])
            inside = here if inside is None else inside & here
            indices.append(hl.clamp(numerator / strides[axis], 0, image[axis] - 1))
        product = value.at(n, place[0], *indices) * filters.at(place[0], m, *place[1:])
        return [so_far[0] + hl.select(inside, product, hl.f32(0.0))]

    whole = (value.shape[0], count, *shape)
    sums = fold_over("ConvTranspose", whole, (depth, *kernel), [hl.f32(0.0)], step)
    return sums if bias is None else Add(sums, by_channel(bias, value.rank))


# --- pooling ----------------------------------------------------------------------------------------------------------


def _pooled(op: str, x: Value, window: _Window, start: Any, outside: Any, both: Callable[[Any, Any], Any]) -> Value:
    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        return [both(so_far[0], _taps(x, index[:2], window.places(index[2:], place), outside))]

    return fold_over(op, (*x.shape[:2], *window.shape), window.kernel, [start], step)


def MaxPool(
    x: Number, *, kernel_shape: Sequence[int], strides: Lengths = None, pads: Lengths = None, dilations: Lengths = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0,
) -> Value:  # fmt: skip
    value = as_value(x)
    window = _window(value.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    least = hl.Expr(-(2**31)) if is_int(value) else hl.f32(float("-inf"))
    return _pooled("MaxPool", value, window, least, least, hl.max)


def _counts(x: Value, window: _Window, include: int) -> Value:
    """The number of elements in each window: of the image, or of the image with its padding."""
    low = window.before if include else (0,) * len(window.kernel)
    high = window.after if include else low
    ones = Value((1, 1, *window.image), lambda _: hl.f32(1.0))

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        inside: Any = hl.Expr(True)
        for (position, _), below, above, extent in zip(
            window.places(index[2:], place), low, high, window.image, strict=True
        ):
            inside = inside & (position >= -below) & (position < extent + above)
        return [so_far[0] + hl.select(inside, hl.f32(1.0), hl.f32(0.0))]

    return fold_over("AveragePool", (*ones.shape[:2], *window.shape), window.kernel, [hl.f32(0.0)], step)


def AveragePool(
    x: Number, *, kernel_shape: Sequence[int], strides: Lengths = None, pads: Lengths = None, dilations: Lengths = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
) -> Value:  # fmt: skip
    value = as_value(x)
    window = _window(value.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    total = _pooled("AveragePool", value, window, hl.f32(0.0), hl.f32(0.0), lambda a, b: a + b)
    if not any(may_miss for _, may_miss in window.places((ZERO,) * len(window.kernel), (ZERO,) * len(window.kernel))):
        return Mul(total, 1.0 / math.prod(window.kernel))
    return Div(total, _counts(value, window, count_include_pad))


def LpPool(
    x: Number, *, kernel_shape: Sequence[int], p: int = 2, strides: Lengths = None, pads: Lengths = None,
    dilations: Lengths = None, auto_pad: str = "NOTSET", ceil_mode: int = 0,
) -> Value:  # fmt: skip
    value = as_value(x)
    window = _window(value.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return _root(_pooled("LpPool", _power(value, p), window, hl.f32(0.0), hl.f32(0.0), lambda a, b: a + b), p)


def _power(x: Value, p: int) -> Value:
    return Abs(x) if p == 1 else Pow(Abs(x), p)


def _root(x: Value, p: int) -> Value:
    return x if p == 1 else Sqrt(x) if p == 2 else Pow(x, 1.0 / p)


def GlobalMaxPool(x: Number) -> Value:
    value = as_value(x)
    return ReduceMax(value, axes=range(2, value.rank))


def GlobalAveragePool(x: Number) -> Value:
    value = as_value(x)
    return ReduceMean(value, axes=range(2, value.rank))


def GlobalLpPool(x: Number, *, p: int = 2) -> Value:
    value = as_value(x)
    return _root(ReduceSum(_power(value, p), axes=range(2, value.rank)), p)
