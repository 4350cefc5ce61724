"""A kernel's file: its function, the lines that use tensors, the functions to compile, and what Halide gets of it."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import halide as hl

from udogen.errors import UsageError
from udogen.kernels import Autoschedule, Flat, Rows, View, Whole, hvx
from udogen.kernels.algorithm import TYPES, KernelTensor, RowLayout
from udogen.kernels.fixed import as_expr
from udogen.kernels.request import (
    RAN,
    RUNNING,
    KernelVariant,
    Request,
    TensorPort,
    type_combinations,
)
from udogen.kernels.scratch import places
from udogen.kernels.signature import called_while_loaded, line_of, view_of
from udogen.kernels.sums import Domain, Tiles
from udogen.python_files import load_module, words_of

SCALARS = {"f32": "Float", "i32": "Int"}
_UNBOUNDED = re.compile(r"Buffer (\w+)\S* may be accessed in an unbounded way")
_FUNCTION = re.compile(r"[Ff]unc(?:tion)? \"?([\w$]+)")
# Variables with these names become others: in a split loop, Halide takes them for names of its own, and loses elements.
TAKEN = frozenset(("s", "base", "min", "max", "extent", "loop_min", "loop_max", "loop_extent", "__outermost"))
BYTES, WORDS = "bytes", "words"  # kinds of tiles: those of HVX for bytes, and others
_STEPS = 4  # of a sum in words on HVX, in a loop: qfloat is converted after the last one
_MOST_OPTIONAL = 3  # optional tensors: functions are compiled with and without each
_USUAL = hl.Func, {name: getattr(hl, name) for name in ("sum", "product", "maximum", "minimum", "argmax", "argmin")}


class UncalledFunction:
    """What `@udogen.kernel` makes of a function where its file is only loaded: calls are refused.

    The class that runs kernels would take a sixth of a second to import, in each worker.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function

    def __call__(self, *_arrays: Any, **_named: Any) -> Any:
        raise called_while_loaded(self.__wrapped__)

    test = packets = package = __call__


class Kernel:
    """The function of a kernel's file; its arguments must be those of the op."""

    def __init__(self, request: Request, module: Any = None) -> None:
        """`module`: what the file defines, if it is loaded already; otherwise this process is a worker."""
        self.request, self._is_worker = request, module is None
        file = Path(request.file)
        self.functions: list[dict[str, Any]] = []  # those of vectors for Hexagon
        self.lines: dict[str, int] = {}  # where each Halide function was made
        self.uses: dict[str, dict[int, bool]] = {}  # the lines that use a tensor, and whether they compute the index
        self.names = _remember_lines(request, self.lines, self.use)  # of Halide, for `replaced`
        if module is None:
            for owner, name, value in self.names:
                setattr(owner, name, value)
            self._mark(RUNNING)
            module = load_module(file)
            self._mark(RAN)
        function, self.own_schedule = getattr(module, request.op, None), getattr(module, "schedule", None)
        self.autoschedule: Autoschedule | None = None
        if isinstance(self.own_schedule, Autoschedule):
            self.autoschedule, self.own_schedule = self.own_schedule, None
        if not callable(function):
            raise UsageError(
                f"{file}:1: it defines no function `{request.op}`", hint=f"write `def {request.op}(…):` for the op"
            )
        function = self.function = inspect.unwrap(function)
        self.where = f"{file}:{line_of(function)}"
        names = [port.name for port in request.tensors]
        views: dict[str, View] = dict.fromkeys(names, Flat())
        self.arguments: list[str] = []
        self.reads_outputs = False
        self.allocations: dict[str, int] = {}  # functions that allocate memory, and how often before all else
        self.converted: dict[str, str] = {}  # functions that calculate half floats with integers, and why
        self.untiled: dict[str, str] = {}  # functions without tiles whose small ones have others, and why
        self.first: Sequence[str] = ()  # the variables of the output that has tiles
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
            self._need(name, names)
            self._compare_default(name, parameter.default)
            self.arguments.append(name)
            if name in names and parameter.annotation is not inspect.Parameter.empty:
                views[name] = view_of(parameter.annotation, f"{self.where}: `{name}` of {request.op}()")
        self.views = [views[name] for name in names]
        self._check_views()

    def _check_views(self) -> None:
        """Raise unless the views fit the config, and all outputs are written."""
        request = self.request
        for view in self.views:
            if isinstance(view, Rows) and isinstance(view.axis, str) and view.axis not in request.scalars:
                raise UsageError(
                    f"{self.where}: Rows({view.axis!r}) names no scalar parameter of {request.op}",
                    hint="it has " + (", ".join(request.scalars) or "none"),
                )
        for port, view in zip(request.tensors, self.views, strict=True):
            if isinstance(view, Whole) and view.rank < port.rank:
                raise UsageError(
                    f"{self.where}: {request.op}() takes `{port.name}` as {view}, and the config has {port.rank}D",
                    hint=f"take it as Whole({port.rank}), or as Flat or Rows",
                )
            if port.is_output and port.name not in self.arguments:
                raise UsageError(
                    f"{self.where}: {request.op}() does not take the output `{port.name}`", hint="write to all outputs"
                )

    def _need(self, name: str, tensors: list[str]) -> None:
        """Raise unless a parameter of the function is one of the op's."""
        request = self.request
        if name in request.refused:
            raise UsageError(
                f"{self.where}: {request.op}() takes `{name}`, which is {request.refused[name]}",
                hint="write this kernel in C++, or remove the parameter: kernels in Python take tensors and numbers",
            )
        if name not in tensors and name not in request.scalars:
            known = ", ".join([*tensors, *request.scalars])
            raise UsageError(
                f"{self.where}: {request.op}() takes `{name}`, which the op does not have", hint=f"it has {known}"
            )

    def _compare_default(self, name: str, default: Any) -> None:
        """Raise if a parameter's default in the config is another one than in the function."""
        of_op = self.request.defaults.get(name)
        if of_op is not None and isinstance(default, bool | int | float) and float(default) != of_op:
            raise UsageError(
                f"{self.where}: `{name}` of {self.request.op}() is {default} by default, and {of_op:g} in the config",
                hint="write the same number in both: clients get that of the config",
            )

    def refuse_autoschedule(self, what: str) -> UsageError:
        """An error at the line with the `Autoschedule`."""
        assert self.autoschedule
        where = f"{self.request.file}:{self.autoschedule.line}"
        return UsageError(f"{where}: {self.autoschedule.name} {what}", hint="take out the line for the usual schedule")

    def use(self, tensor: str, indices: list[Any]) -> None:
        """Remember the line that reads or writes a tensor."""
        line, lines = line_in(self.request.file), self.uses.setdefault(tensor, {})
        lines[line] = lines.get(line, False) or any(_is_computed(index) for index in indices)

    def lines_of_tensors(self) -> dict[str, tuple[int, ...]]:
        """The lines that use each tensor."""
        names = (port.name for port in self.request.tensors)
        return {name: tuple(sorted(self.uses[name])) for name in names if name in self.uses}

    def line_of(self, fault: str) -> int:
        """The line of the tensor or function that an error from Halide names; 0 if unknown."""
        if named := _UNBOUNDED.search(fault):
            lines = self.uses.get(named[1], {})
            several = (lines, *self.uses.values())  # a function that reads the tensor may compute the index
            computed = (line for each in several for line, is_computed in each.items() if is_computed)
            return next(computed, next(iter(lines), 0))
        return next((line for name in _FUNCTION.findall(fault) if (line := self.lines.get(name, 0))), 0)

    @property
    def has_rows(self) -> bool:
        return any(isinstance(view, Rows) for view in self.views)

    @property
    def is_flat(self) -> bool:
        return all(isinstance(view, Flat) for view in self.views)

    def has_reals(self, variant: KernelVariant) -> bool:
        """Whether the function sees real numbers where integers are stored."""
        return any(port.real and kind for port, kind in zip(self.request.tensors, variant.types, strict=True))

    def types(self) -> list[tuple[str, ...]]:
        """The combinations of types in which tensors may be stored, with and without each optional one."""
        ports = self.request.tensors
        optional = [port.name for port in ports if port.optional and port.name in self.arguments]
        if len(optional) > _MOST_OPTIONAL:
            raise UsageError(
                f"{self.where}: {self.request.op}() takes {len(optional)} optional tensors: {', '.join(optional)}",
                hint=f"a kernel in Python takes {_MOST_OPTIONAL} at most: write this one in C++",
            )
        rows: dict[tuple[str, ...], None] = {}
        for given in product((True, False), repeat=len(optional)):
            absent = {name for name, is_given in zip(optional, given, strict=True) if not is_given}
            for types in type_combinations([port.types for port in ports]):
                row = ("" if port.name in absent else stored for port, stored in zip(ports, types, strict=True))
                rows[tuple(row)] = None
        return list(rows)

    def variants(self) -> list[KernelVariant]:
        """All functions to compile."""
        lasts = (True, False) if any(view.axis != -1 for view in self.views if isinstance(view, Rows)) else (True,)
        # Rows may begin at any address.
        aligned = (False, True) if self.request.machine.aligned and self.is_flat else (False,)
        variant = [KernelVariant(*variants) for variants in product(self.types(), lasts, aligned)]
        small = [
            replace(variant, small=True)
            for variant in variant
            if self.has_tiles or self.is_scheduled_by_halide(variant)
        ]
        return [*variant, *small]

    @cached_property
    def has_tiles(self) -> bool:
        """Whether functions have register tiles, so that small outputs have others: for sums, on every processor."""
        outputs = [port.is_output for port in self.request.tensors]
        is_own = self.own_schedule is not None or self.autoschedule is not None
        view = self.views[outputs.index(True)]
        if is_own or self.request.machine.gpu or sum(outputs) > 1 or not isinstance(view, Whole) or view.rank == 1:
            return False
        variant, target = KernelVariant(self.types()[0]), self.request.machine.target
        try:
            [plain] = algorithm_of(self, variant, Way(target, 1)).outputs
            self.first = [str(index) for index in plain.indices]
            tiles = Tiles(of_bytes=False, names=self.first)
            [made] = algorithm_of(self, variant, Way(target, 2), tiles=tiles).outputs
        except Exception:  # an error of the kernel itself is raised by the usual way, too
            return False
        is_same = [axis.name() for axis in made.func.args()] == [axis.name() for axis in plain.func.args()]
        return is_same and not self.reads_outputs and tiles.can_be_made(plain.func.args())

    def tile_kinds(self, variant: KernelVariant, way: Way) -> tuple[str, ...]:
        """The kinds of tiles that a function may have, the best one first."""
        machine, kinds = self.request.machine, {stored for stored in variant.types if stored}
        if variant.small or way.lanes == 1 or not self.has_tiles:
            return ()
        in_floats = not way.fixed and any(port.real or port.types[0] in ("f32", "f16") for port in self.request.tensors)
        if not machine.aligned or in_floats or kinds <= {"i32", "u32"}:
            return (WORDS,)
        return (BYTES, WORDS) if way.lanes >= machine.vector else ()

    def tiles(self, way: Way) -> Tiles:
        """Where the sums of a function go."""
        machine, of_bytes = self.request.machine, way.tiled == BYTES
        lanes = way.lanes if way.halves else machine.vector // 4
        return Tiles(of_bytes, self.first, lanes, _STEPS if machine.aligned and not of_bytes else 1, way.halves)

    def is_scheduled_by_halide(self, variant: KernelVariant) -> bool:
        """Whether the file's `Autoschedule` applies to this function."""
        machine = self.request.machine
        is_processor = not machine.aligned and not machine.gpu
        return self.autoschedule is not None and is_processor and variant.last and not variant.small

    def call(self, tensors: dict[str, Any], scalars: dict[str, Any]) -> None:
        """Let the function define the outputs; an absent optional tensor is None."""
        self._mark(RUNNING)
        with warnings.catch_warnings():
            # Of Halide, about each number like 0.1: kernels calculate in float32.
            warnings.filterwarnings("ignore", "The floating-point value .* will be interpreted as a float32")
            self.function(**{name: tensors.get(name, scalars.get(name)) for name in self.arguments})
        self._mark(RAN)

    def _mark(self, line: str) -> None:
        """Print, for the process that started this worker, that code of the user begins or has ended."""
        if self._is_worker:
            print(line, flush=True)

    def has_scheduled(self, place: RowLayout, tensors: dict[str, Any]) -> bool:
        """Run the file's own `schedule(machine, …)`; returns whether it made the vectors of all outputs."""
        if self.own_schedule is None or place.lanes == 1:
            return False
        names = list(inspect.signature(self.own_schedule).parameters)[1:]
        return bool(self.own_schedule(place.machine, **{name: tensors.get(name) for name in names}))


def is_elementwise(kernel: Kernel) -> bool:
    """Whether each element of the outputs depends only on elements of the inputs at the same index."""
    if any(not isinstance(view, Flat) for view in kernel.views):
        return False
    indices: list[Any] = []
    values: list[Any] = []

    class Element:
        def __init__(self, port: TensorPort) -> None:
            is_real = port.real or port.types[0] in ("f32", "f16")
            self.number = hl.Param(hl.Float(32) if is_real else TYPES[port.types[0]], port.name)

        def __getitem__(self, index: Any) -> hl.Expr:
            indices.append(index)
            return hl.Expr(self.number)

        def __setitem__(self, index: Any, value: Any) -> None:
            indices.append(index)
            values.append(value)

    kinds = {name: hl.Param(getattr(hl, SCALARS[kind])(32), name) for name, kind in kernel.request.scalars.items()}
    try:
        kernel.call({port.name: Element(port) for port in kernel.request.tensors}, kinds)
        for value in values:
            hl.Func("alone")[()] = value  # raises if the index is in it
    except Exception:
        return False
    return all(isinstance(index, hl.Var) and index.name() == indices[0].name() for index in indices)


@dataclass(frozen=True)
class Way:
    """How a function may be compiled."""

    target: str
    lanes: int
    fixed: bool = False
    auto: bool = False  # an autoscheduler makes the vectors
    tiled: str = ""  # the kind of register tiles that sums are in
    halves: bool = False  # zig compiles it, for half floats of Hexagon


@dataclass(frozen=True)
class Algorithm:
    """A function as Halide sees it: its tensors, and its scalar parameters."""

    place: RowLayout
    tensors: dict[str, KernelTensor]
    scalars: dict[str, Any]

    @property
    def inputs(self) -> list[KernelTensor]:
        return [tensor for tensor in self.tensors.values() if tensor.buffer is not None]

    @property
    def outputs(self) -> list[KernelTensor]:
        return [tensor for tensor in self.tensors.values() if tensor.func is not None]

    def arguments(self) -> list[Any]:
        """The arguments of the C function before the outputs."""
        quantized = [
            part for tensor in self.tensors.values() if tensor.is_quantized for part in (tensor.scale, tensor.offset)
        ]
        return [*(tensor.buffer for tensor in self.inputs), *self.scalars.values(), *quantized]

    def promise_bounds(self, *, aligned: bool) -> None:
        """Promise that buffers begin at 0, except rows of outputs, which threads share; if `aligned`, at vectors."""
        machine = self.place.machine
        buffers = [(each.buffer, each.buffer.dimensions()) for each in self.inputs]
        buffers += [(each.func.output_buffer(), each.func.dimensions() if machine.gpu else 1) for each in self.outputs]
        for buffer, axes in buffers:
            for axis in range(axes):
                buffer.dim(axis).set_min(0)
            if aligned:
                buffer.set_host_alignment(machine.vector)
        tiles = self.place.tiles
        loaded = [total.aligned for total in tiles.sums] + [line.aligned for line in tiles.lines] if tiles else []
        for tensor in loaded:
            if tensor is not None:
                tensor.promise_words()


def algorithm_of(
    kernel: Kernel, variant: KernelVariant, way: Way, *, careful: bool = False, tiles: Tiles | None = None
) -> Algorithm:
    """What the kernel's function defines for these types."""
    request, machine = kernel.request, kernel.request.machine
    if way.halves:
        machine = replace(machine, half_vectors=True)
    only_floats = machine.aligned and variant.last and {*variant.types} <= {"f32", ""}
    place = RowLayout(machine, way.lanes, variant.last, way.fixed, only_floats, used=kernel.use)
    place.tiles = tiles
    rows = zip(request.tensors, variant.types, kernel.views, strict=True)
    tensors = {port.name: KernelTensor(port, stored, view, place) for port, stored, view in rows if stored}
    scalars = {name: hl.Param(getattr(hl, SCALARS[kind])(32), name) for name, kind in request.scalars.items()}
    made = Algorithm(place, tensors, scalars)
    if tiles:
        tiles.rows = made.outputs[0].func.output_buffer().dim(1).extent()
        tiles.last = [made.outputs[0].func.output_buffer().dim(axis).max() for axis in range(2)]
    lengths = [tensor.buffer.dim(0).extent() for tensor in made.inputs] if careful else []
    data = {*tensors, *(name.partition("$")[0] for name in kernel.lines)}
    in_floats = machine.float_vectors and not way.fixed
    on_hvx = machine.aligned and way.lanes > 1
    with (
        hvx.operators(request.file, way.lanes, *lengths[:1], data=data, in_floats=in_floats)
        if on_hvx
        else nullcontext(),
        hvx.replaced([(hl, "RDom", partial(Domain, tiles))], request.file) if tiles else nullcontext(),
        hvx.replaced(hvx.casts(), request.file),
    ):
        _define_outputs(kernel, made)
    kernel.reads_outputs |= place.reads_outputs
    return made


def _define_outputs(kernel: Kernel, made: Algorithm) -> None:
    """Call the function once for each output."""
    places.append(made.place)
    try:
        for _ in made.outputs:
            made.place.begin()
            kernel.call(made.tensors, {name: hl.Expr(param) for name, param in made.scalars.items()})
    finally:
        places.pop()
    for tensor in made.outputs:
        if not tensor.func.defined():
            raise UsageError(f"{kernel.where}: {kernel.request.op}() writes nothing to `{tensor.name}`")


def line_in(file: str) -> int:
    """The innermost line of a file that is being executed; 0 if there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0


def _is_computed(index: Any) -> bool:
    """Whether an index is read or calculated, and not clamped."""
    text = str(as_expr(index))
    return re.search(r"\w\(", text) is not None and not text.startswith(("max(min(", "min(max("))


def _remember_lines(
    request: Request, lines: dict[str, int], use: Callable[[str, list[Any]], None]
) -> list[tuple[Any, str, Any]]:
    """Halide's variables, and its functions and reductions with names for which `lines` has the line of a file.

    `use` is called with each element of them that is read.  Those in a loop are allocated before all loops.
    """

    (usual, reductions), file, gpu = _USUAL, request.file, request.machine.gpu

    class Func(usual):  # type: ignore[misc, valid-type]  # Halide has no types
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            lines[self.name()] = line_in(file)

        def __getitem__(self, index: Any) -> Any:
            use(self.name(), list(index) if isinstance(index, tuple) else [index])
            return super().__getitem__(index)

        def compute_at(self, *level: Any) -> Any:
            placed = super().compute_at(*level)
            return placed if gpu or not line_in(file) else placed.hoist_storage_root()

    def named(reduction: Callable[..., Any], kind: str, *given: Any) -> Any:
        name = f"{kind}_{len(lines)}"
        lines[name] = line_in(file)
        return reduction(*given, name)

    def variable(self: Any, name: str | None = None, usual: Any = hl.Var.__init__) -> None:
        usual(self, *(() if name is None else (f"axis_{name.replace('_', '')}" if name in TAKEN else name,)))

    return [
        (hl, "Func", Func),
        (hl.Var, "__init__", variable),
        *((hl, kind, partial(named, reduction, kind)) for kind, reduction in reductions.items()),
    ]


def text_of(fault: BaseException) -> str:
    """The message of Halide or Python."""
    if not isinstance(fault, Exception):
        return words_of(fault)
    return str(fault).strip().removeprefix("Error:").strip() or "the compiler cannot make code of it"


def line_of_fault(fault: BaseException, file: str) -> str:
    """file:line of the innermost line of the kernel's file in a traceback."""
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == file]
    return f"{file}:{frames[-1].lineno}" if frames else ""
