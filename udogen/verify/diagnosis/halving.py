"""Arrays whose sums are kept in half precision: with them a reference answers what such a kernel would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_MOST = 1 << 22  # products of a matrix product that are held at once


def in_half_precision(array: Array) -> Array:
    """The same numbers; what numpy makes of them sums in half precision, one after the other."""
    return np.ascontiguousarray(array).view(_HalfSums)


class _HalfSums(np.ndarray[Any, np.dtype[Any]]):
    """An array that answers sums and products of matrices itself; everything else is as ever."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [each.view(np.ndarray) if isinstance(each, _HalfSums) else each for each in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple(each.view(np.ndarray) if isinstance(each, _HalfSums) else each
                                  for each in kwargs["out"])  # fmt: skip
        if method == "reduce" and ufunc is np.add and not kwargs.get("out"):
            answer = _summed(plain[0], kwargs.get("axis", 0), bool(kwargs.get("keepdims")))
        elif method == "__call__" and ufunc is np.matmul and _fits(*plain[:2]):
            left, right = (np.asarray(each, np.float32) for each in plain[:2])
            answer = _summed(left[..., :, :, None] * right[..., None, :, :], -2, False)
        else:
            answer = getattr(ufunc, method)(*plain, **kwargs)
        return answer.view(_HalfSums) if isinstance(answer, np.ndarray) else answer


def _fits(left: Any, right: Any) -> bool:
    a, b = np.shape(left), np.shape(right)
    return len(a) >= 2 and len(b) >= 2 and int(np.prod(a)) * b[-1] <= _MOST


def _summed(array: Array, axis: Any, keepdims: bool) -> Array:
    """One after the other, each sum rounded to half precision."""
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    last = sorted(each % array.ndim for each in axes) if array.ndim else []
    kept = [each for each in range(array.ndim) if each not in last]
    flat = array.transpose([*kept, *last]).reshape([array.shape[each] for each in kept] + [-1])
    if flat.shape[-1] == 0 or array.dtype.kind != "f":
        return np.asarray(array.sum(axis=axis, keepdims=keepdims))
    with np.errstate(over="ignore"):
        sums = np.add.accumulate(flat.astype(np.float16), axis=-1, dtype=np.float16)[..., -1].astype(np.float32)
    return sums.reshape([1 if each in last else array.shape[each] for each in range(array.ndim)]) if keepdims else sums
