"""Frequent mistakes in kernels: the messages of Python, numpy and Halide, and the code that is right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from udogen.errors import UsageError
from udogen.kernels.kernel_file import line_of_fault, text_of

if TYPE_CHECKING:
    from udogen.kernels.kernel_file import Kernel

_MATH = "use hl.sqrt, hl.floor …, or exp, tanh, sigmoid of udogen.kernels.math"
_TENSOR = "(?:KernelTensor|ScratchTensor|Steps)"
# The text of an exception, the mistake, and the code that is right.
_MISTAKES = (
    (
        r"'[\w.]*Expr' object cannot be interpreted as an integer|'[\w.]*Expr' object is not iterable",
        "a length is not known until the op runs, so Python cannot count to it",
        "sum over a domain: r = hl.RDom([(0, x.extent(0))]), then total(r, x[r.x]); range() takes known numbers",
    ),
    (
        r"must be real number, not [\w.]*Expr|object can't be interpreted as .*Expr",
        "a function of the module `math` takes numbers, and an element has no number yet",
        _MATH,
    ),
    (
        r"loop of ufunc does not support argument \d of type [\w.]*(Expr|KernelTensor|Fixed)",
        "a function of numpy takes arrays, and an element has no number yet",
        _MATH,
    ),
    (
        rf"(unsupported operand type|bad operand type|not supported between).*{_TENSOR}"
        rf"|{_TENSOR}' object is not iterable",
        "a tensor has no arithmetic of its own, only its elements have",
        'write elements: i = hl.Var("i"), then y[i] = a[i] + b[i]',
    ),
    (
        r"cannot be converted to a bool",
        "a condition is not known until the op runs, so Python cannot decide by it",
        "use select(condition, a, b) of udogen.kernels.math, `&` for and, `|` for or, larger(a, b) for max",
    ),
    (
        r"argument must be a string.*Expr|doesn't define __(round|trunc|floor|ceil)__",
        "an element has no number yet, so Python cannot convert it",
        "use hl.i32(x), hl.f32(x), hl.round(x), hl.floor(x)",
    ),
    (
        r"list indices must be integers or slices, not [\w.]*Expr|only integers, slices .* are valid indices"
        r"|tuple indices must be integers",
        "an index into a list or an array is not known until the op runs",
        "make the table an input of the op, or choose with select",
    ),
    (
        r"bad operand type for abs\(\)",
        "abs() takes numbers, and an element has no number yet",
        "use absolute of udogen.kernels.math",
    ),
    (
        rf"{_TENSOR}' (has no len|object has no attribute)|object of type '{_TENSOR}' has no len",
        "a tensor in a kernel has only lengths, reductions and elements",
        "use x.size, or x.extent(axis), which counts axes from the last; elements are x[i]",
    ),
    (
        r"Expr' object has no attribute",
        "an element has no methods or attributes",
        "convert it with hl.f32(x) or hl.i32(x); functions are in udogen.kernels.math and halide",
    ),
    (
        r"incompatible (constructor|function) arguments",
        "Halide does not take a value of this kind here",
        "give numbers, elements and hl.Var: not arrays, lists, slices or whole tensors",
    ),
    (
        r"Implicit cast from float\d+ to int in argument",
        "an index is a float",
        "convert it: x[hl.i32(hl.floor(at))]; `/` of two integers is an integer",
    ),
    (
        r"^Undefined variable",
        "an element depends on a variable that is not an index of the output",
        "use the variables of y[…] = …, or sum over a domain: total(r, x[r.x])",
    ),
    (
        r"^name '(\w)' is not defined",
        "an index is not defined",
        'define it: i = hl.Var("i")',
    ),
    (
        r"Multiple reduction domains|Symbol .*not found",
        "a reduction of a row depends on a domain",
        "take the tensor as Whole, and sum over a second domain: total(s, select(x[s.x, n] > x[r.x, n], 1, 0))",
    ),
)


def refused(kernel: Kernel, fault: BaseException, usual: str) -> UsageError:
    """The error of Python, numpy or Halide about a kernel, with its line; `usual`: the hint if none is known."""
    request, text = kernel.request, text_of(fault)
    line = kernel.line_of(text)
    where = line_of_fault(fault, request.file) or (f"{request.file}:{line}" if line else kernel.where)
    for pattern, sentence, hint in _MISTAKES:
        if re.search(pattern, text):
            return UsageError(f"{where}: {sentence} ({text.splitlines()[0]})", hint=hint)
    if "unbounded" in text:
        usual = "limit the index: hl.clamp(index, 0, x.size - 1), or x.extent(axis) - 1"
    return UsageError(f"{where}: {text}", hint=usual)
