"""The op of a kernel's function: tensors with types and shapes, parameters with defaults."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Any

from udogen.errors import UsageError, nearest
from udogen.kernels import Flat, Rows, View, Whole
from udogen.opdef import datatypes
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Constraint, Op, Passage, Rank, Tensor

_REAL = "FLOAT_32,UFIXED_POINT_8"  # of tensors whose annotation has no types
_SCALARS = {bool: "BOOL_8", int: "INT_32", float: "FLOAT_32"}
_ANY = "..."
# Lengths of an axis that is the last one of a tensor, and of others; lengths around those of vectors.
_LONG, _SHORT = (1, 5, 37, 129, 260), (1, 2, 3, 4, 7)
_LENGTHS = (_SHORT, _LONG)  # by whether an axis is the last one of a tensor
_BEFORE = ((), (3,), (2, 3), (1, 4, 2))  # what `...` may be
_OF_RANK = {1: (7,), 2: (3, 37), 3: (2, 3, 37), 4: (1, 4, 3, 37)}
_ROUNDS = 400
_MOST_ELEMENTS = 1 << 18  # of a random tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class KernelSignature:
    """The op of a function, the views in which it takes tensors, and where it is."""

    op: Op
    views: Mapping[str, View]
    file: str
    line: int

    @property
    def where(self) -> str:
        """file:line of the function."""
        return f"{self.file}:{self.line}"

    @property
    def defaults(self) -> dict[str, Any]:
        """The parameters that have defaults."""
        return {param.name: param.default for param in self.op.params if param.default is not None}

    def axes(self, tensor: str) -> list[str]:
        """The axes in the annotation of a tensor, as texts; empty if it has none."""
        return self.views[tensor].shape.split()

    def sizes(self, shapes: Mapping[str, Shape], params: Mapping[str, Any]) -> dict[str, Any]:
        """The lengths of axes by name, from the shapes of inputs; raises if they do not fit together."""
        found: dict[str, Any] = dict(params)
        rows = [row for name, shape in shapes.items() for row in self._by_axis(name, shape)]
        for name, axis, length in sorted(rows, key=lambda row: not _is_name(row[1])):
            known = found.setdefault(axis, length) if _is_name(axis) else self._value(name, axis, found)
            if known != length:
                raise UsageError(
                    f"{self.where}: `{axis}` is {_words(known)}, and {_words(length)} in `{name}`",
                    hint=f"{self.op.name}() takes `{name}` as {' '.join(self.axes(name))}",
                )
        first = self.op.inputs[0].name
        if first in shapes and not self.axes(first):
            found.setdefault(_ANY, shapes[first][:-1])
        return found

    def shape(self, tensor: str, sizes: Mapping[str, Any], usual: Shape) -> Shape:
        """The shape of a tensor; `usual` if its annotation has none."""
        axes = self.axes(tensor)
        if not axes:
            view = self.views[tensor]
            if isinstance(view, Whole) and len(usual) > view.rank:
                raise self._refused(tensor, f"is taken as {view}, and has the shape {_words(usual)}")
            return usual
        if _ANY in axes and _ANY not in sizes:
            raise self._refused(tensor, f"is taken as {' '.join(axes)}, and no input has `...`")
        parts = [sizes[_ANY] if axis == _ANY else (self._value(tensor, axis, sizes),) for axis in axes]
        return tuple(chain.from_iterable(parts))

    def examples(self, count: int, sizes: Mapping[str, Any]) -> Iterator[dict[str, Shape]]:
        """Some shapes of all tensors, with these lengths of axes and numbers of parameters."""
        first = self.op.inputs[0].name
        last = {axes[-1] for view in self.views if (axes := self.axes(view))}
        names = dict.fromkeys(axis for view in self.views for axis in self.axes(view) if _is_name(axis))
        found: list[dict[str, Shape]] = []
        for turn in range(_ROUNDS):
            steps = (turn // (5**n if turn >= 5 else 1) + 2 * n for n in range(len(names)))
            lengths = {axis: _LENGTHS[axis in last][n % 5] for axis, n in zip(names, steps, strict=True)}
            usual = self._usual(first, turn)
            before = _BEFORE[turn % 4] if self.axes(first) else usual[:-1]
            known = {**lengths, _ANY: before, **self.defaults, **sizes}
            try:
                shapes = {name: self.shape(name, known, usual) for name in self.views}
            except UsageError:
                continue
            if shapes not in found and _is_small(shapes):
                found.append(shapes)
                yield shapes
            if len(found) == count:
                return
        if not found:
            raise UsageError(
                f"{self.where}: no lengths of axes were found that fit the shapes of {self.op.name}()",
                hint="give some of them: test(reference, k=64), with the name of an axis or parameter",
            )

    def _usual(self, first: str, turn: int) -> Shape:
        view = self.views[first]
        if isinstance(view, Whole):
            return (*_OF_RANK.get(view.rank, (1,) * view.rank)[:-1], _LONG[turn % 5])
        return (*_BEFORE[turn % 4], _LONG[turn % 5])

    def _by_axis(self, name: str, shape: Shape) -> Iterator[tuple[str, str, Any]]:
        """Name, axis and length for each axis of a tensor."""
        axes = self.axes(name)
        if not axes:
            return
        more = len(shape) - len(axes) + 1
        if (more < 0) if _ANY in axes else more != 1:
            raise self._refused(name, f"has the shape {_words(shape)}, and is taken as {' '.join(axes)}")
        at = axes.index(_ANY) if _ANY in axes else len(axes)
        yield from ((name, axis, length) for axis, length in zip(axes[:at], shape, strict=False))
        if at < len(axes):
            yield name, _ANY, shape[at : at + more]
            yield from ((name, *pair) for pair in zip(axes[at + 1 :], shape[at + more :], strict=True))

    def _value(self, tensor: str, axis: str, sizes: Mapping[str, Any]) -> int:
        """The length of an axis that is a name, a number or an expression."""
        try:
            value = eval(axis, {"__builtins__": {}}, dict(sizes))
        except NameError as fault:
            raise self._refused(tensor, f"has an axis `{axis}`, of which `{fault.name}` is unknown") from fault
        except (SyntaxError, TypeError, ValueError, ArithmeticError) as fault:
            raise self._refused(tensor, f"has an axis `{axis}`: {fault}") from fault
        if value != int(value):
            raise self._refused(tensor, f"has an axis `{axis}`, which is {value}")
        return int(value)

    def _refused(self, tensor: str, what: str) -> UsageError:
        hint = f'as in {tensor}: Whole("n k"), with names of axes of inputs, or give the shape: {tensor}=(2, 3)'
        return UsageError(f"{self.where}: `{tensor}` of {self.op.name}() {what}", hint=hint)


def _is_name(axis: str) -> bool:
    return axis.isidentifier() or axis == _ANY


def _is_small(shapes: Mapping[str, Shape]) -> bool:
    """Whether the tensors have elements, not too many, and at most four axes."""
    sizes = [prod(shape) for shape in shapes.values() if min(shape, default=1) >= 1 and len(shape) <= 4]
    return len(sizes) == len(shapes) and max(sizes) <= _MOST_ELEMENTS


def _words(length: int | Shape) -> str:
    return ("x".join(map(str, length)) or "no axis") if isinstance(length, tuple) else str(length)


# --- from a function -----------------------------------------------------------------------------------------------


def _unused(function: Callable[..., Any], given: inspect.Parameter, where: str) -> UsageError:
    """The error for an argument that is neither a tensor nor a parameter."""
    is_known, name = given.default is not given.empty and given.default is not None, given.name
    lack = f"a default that is not a number ({given.default!r})" if is_known else "neither a default nor a type"
    return UsageError(
        f"{where}: {function.__name__}() takes no element of `{name}`, which has {lack}",
        hint=f"a tensor has no arithmetic, only its elements have: {name}[i]; a parameter is {name}=1.0 or "
        f"{name}: float",
    )


def signature_of(function: Callable[..., Any]) -> KernelSignature:
    """The signature of a kernel's function: an argument with a default or a type of Python is a parameter.

    Other arguments are tensors; those that the function writes to are outputs.
    """
    file, line = function.__code__.co_filename, line_of(function)
    where = f"{file}:{line}"
    written, indexed = _uses(function, where)
    tensors, params, views = [], [], dict[str, View]()
    for name, given in inspect.signature(function, eval_str=True).parameters.items():
        if given.kind in (given.VAR_POSITIONAL, given.VAR_KEYWORD):
            raise UsageError(f"{where}: {function.__name__}() takes `*{name}`", hint="name each tensor and parameter")
        kind = given.annotation if given.annotation in _SCALARS else type(given.default)
        if kind in _SCALARS and name not in written:
            params.append(_param(name, kind, None if given.default is given.empty else given.default))
            continue
        if name not in indexed | written:
            raise _unused(function, given, where)
        views[name] = view_of(given.annotation, f"{where}: `{name}` of {function.__name__}()")
        tensors.append(_tensor(name, views[name], where, is_output=name in written, optional=given.default is None))
    outputs = tuple(tensor for tensor in tensors if tensor.role == "output")
    inputs = tuple(tensor for tensor in tensors if tensor.role == "input")
    if not outputs or not inputs:
        what = "writes to none of its tensors" if inputs else "writes to each of its tensors, and has no input"
        raise UsageError(
            f"{where}: {function.__name__}() {what}",
            hint="write each element of an output, and of no input: y[i] = x[i]",
        )
    outputs = tuple(replace(tensor, constraints=_same(tensor, inputs[0], views)) for tensor in outputs)
    about = inspect.getdoc(function)
    description = (Passage(about),) if about else ()
    op = Op(function.__name__, inputs, outputs, tuple(params), description)
    return KernelSignature(op, views, file, line)


def called_while_loaded(function: Callable[..., Any]) -> UsageError:
    """An error at the line of a kernel's file that calls the kernel while udogen loads the file."""
    file, frame = function.__code__.co_filename, sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_name, frame.f_code.co_filename) != ("<module>", file):
        frame = frame.f_back
    return UsageError(
        f"{file}:{frame.f_lineno}: {function.__name__}() is called while udogen loads the file",
        hint='put the call below `if __name__ == "__main__":`',
    )


def view_of(annotation: Any, what: str) -> View:
    """The view that an annotation of a tensor is."""
    if annotation is inspect.Parameter.empty:
        return Flat()
    view = annotation() if annotation in (Flat, Rows, Whole) else annotation
    if not isinstance(view, View):
        raise UsageError(
            f"{what} is annotated with {view!r}, which is not a view", hint="use Flat, Rows or Whole of udogen.kernels"
        )
    return view


def line_of(function: Callable[..., Any]) -> int:
    """The line of `def`, below decorators."""
    first, tree = function.__code__.co_firstlineno, _tree(function)
    return first + tree.body[0].lineno - 1 if tree else first


def _tree(function: Callable[..., Any]) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def _uses(function: Callable[..., Any], where: str) -> tuple[set[str], set[str]]:
    """The names whose elements a function writes, and those that it uses as tensors."""
    tree = _tree(function)
    if tree is None:
        raise UsageError(f"{where}: the text of {function.__name__}() is not known", hint="write it in a file")
    written, indexed = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.value, ast.Name):
            indexed.add(node.value.id)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                written.add(node.value.id)
        if isinstance(node, ast.Call | ast.Tuple | ast.List):  # a function of the kernel may take it
            given = (
                [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else node.elts
            )
            indexed |= {each.id for each in given if isinstance(each, ast.Name)}
    return written, indexed


def _param(name: str, kind: type, default: Any) -> Tensor:
    row = datatypes.BY_NAME[_SCALARS[kind]]
    return Tensor(name, "param", (row,), Rank(scalar=True), mandatory=default is None, default=default)


def _tensor(name: str, view: View, where: str, *, is_output: bool, optional: bool) -> Tensor:
    axes = view.shape.split()
    rank = len(axes) if axes and _ANY not in axes else view.rank if isinstance(view, Whole) else 0
    text = f"[{', '.join(axes)}]" if axes and all(re.fullmatch(r"\w+", axis) for axis in axes) else ""
    return Tensor(
        name,
        "output" if is_output else "input",
        _types(view.types or _REAL, name, where),
        Rank((rank,) if rank else ()),
        shape_text=text,
        mandatory=not optional,
    )


def _types(text: str, name: str, where: str) -> tuple[DataType, ...]:
    types = []
    for each in text.replace(",", " ").split():
        row = datatypes.parse(each)
        if row is None:
            close = nearest(each.upper(), datatypes.BY_NAME)
            raise UsageError(
                f"{where}: `{name}` has the type `{each}`, which QNN does not have",
                hint=f"did you mean {close}?" if close else "as in FLOAT_32, FLOAT_16, UFIXED_POINT_8, INT_32, UINT_8",
            )
        types.append(row)
    return tuple(types)


def _same(output: Tensor, first: Tensor, views: Mapping[str, View]) -> tuple[Constraint, ...]:
    """The constraint of an output that has the shape of the first input."""
    same = views[output.name].shape in ("", views[first.name].shape) and output.rank == first.rank
    return (Constraint(0, "Shape", f"Same shape as {first.name}"),) if same else ()
