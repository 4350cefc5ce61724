"""The worker that compiles a kernel for a machine: `python -m udogen.kernels.worker FOLDER`, with a request in FOLDER.

LLVM ends the process if it cannot select instructions, so each function's name is printed before it is compiled.
"""

from __future__ import annotations

import inspect
import json
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import halide as hl

from udogen.errors import BuildFailed, UdogenError, UsageError
from udogen.kernels import Autoschedule, Flat, Rows, View, Whole, hvx
from udogen.kernels.algorithm import TYPES, KernelTensor, RowLayout, as_expr, schedule
from udogen.kernels.fixed import Fixed, NotFixedError
from udogen.kernels.opencl import NotOnGpuError, launches
from udogen.kernels.request import (
    COMPILING,
    FUNCTIONS,
    MOST_SECONDS,
    NO_FLOATS,
    SCALAR_UNDER_QEMU,
    TWINS,
    KernelVariant,
    Launch,
    Report,
    Request,
    TargetMachine,
    TensorPort,
    type_combinations,
)
from udogen.python_files import load_module, user_code, words_of

_FEATURES = "-no_runtime-no_bounds_query-user_context-strict_float"
# A twin answers which lengths its inputs need, and has no vectors.
_TWIN = hl.Target("hexagon-32-noos-hvx-no_runtime-user_context-strict_float")
_TEXTS = {hl.OutputFileType.stmt: "stmt", hl.OutputFileType.assembly: "s"}
_SCALARS = {"f32": "Float", "i32": "Int"}
_UNBOUNDED = re.compile(r"Buffer (\w+)\S* may be accessed in an unbounded way")
_FUNCTION = re.compile(r"[Ff]unc(?:tion)? \"?([\w$]+)")
_MOST_OPTIONAL = 3  # optional tensors: functions are compiled with and without each
_REDUCTIONS = ("sum", "product", "maximum", "minimum", "argmax", "argmin")
# What a package library does not have: its own heap and threads.
_MISSING = {b"halide_malloc": "memory", b"halide_do_par_for": "threads"}


class _Kernel:
    """The function of a kernel's file; its arguments must be those of the op."""

    def __init__(self, request: Request) -> None:
        self.request = request
        file = Path(request.file)
        self.functions: list[dict[str, Any]] = []  # those of vectors for Hexagon
        self.lines: dict[str, int] = {}  # where each Halide function was made
        self.uses: dict[str, dict[int, bool]] = {}  # the lines that use a tensor, and whether they compute the index
        _remember_lines(request.file, self.lines, self.use)
        module = load_module(file)
        found, self.own_schedule = getattr(module, request.op, None), getattr(module, "schedule", None)
        self.autoschedule: Autoschedule | None = None
        if isinstance(self.own_schedule, Autoschedule):
            self.autoschedule, self.own_schedule = self.own_schedule, None
        if not callable(found):
            raise UsageError(
                f"{file}:1: it defines no function `{request.op}`", hint=f"write `def {request.op}(…):` for the op"
            )
        self.function = found
        self.where = f"{file}:{found.__code__.co_firstlineno}"
        names = [port.name for port in request.tensors]
        views: dict[str, View] = dict.fromkeys(names, Flat())
        self.names = []
        self.reads_outputs = False
        for name, parameter in inspect.signature(found, eval_str=True).parameters.items():
            self._need(name, names)
            self.names.append(name)
            if name in names and parameter.annotation is not inspect.Parameter.empty:
                views[name] = self._view(name, parameter.annotation)
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
            if port.is_output and port.name not in self.names:
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

    def _view(self, name: str, annotation: Any) -> View:
        view = annotation() if isinstance(annotation, type) else annotation
        if not isinstance(view, View):
            raise UsageError(
                f"{self.where}: `{name}` of {self.request.op}() is annotated with {view!r}, which is not a view",
                hint="use Flat, Rows or Whole of udogen.kernels",
            )
        return view

    def refuse_autoschedule(self, what: str) -> UsageError:
        """An error at the line with the `Autoschedule`."""
        assert self.autoschedule
        where = f"{self.request.file}:{self.autoschedule.line}"
        return UsageError(f"{where}: {self.autoschedule.name} {what}", hint="take out the line for the usual schedule")

    def use(self, tensor: str, indices: list[Any]) -> None:
        """Remember the line that reads or writes a tensor."""
        line, lines = _line_in(self.request.file), self.uses.setdefault(tensor, {})
        lines[line] = lines.get(line, False) or any(_is_computed(each) for each in indices)

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

    def types(self) -> list[tuple[str, ...]]:
        """The combinations of types in which tensors may be stored, with and without each optional one."""
        ports = self.request.tensors
        optional = [port.name for port in ports if port.optional and port.name in self.names]
        if len(optional) > _MOST_OPTIONAL:
            raise UsageError(
                f"{self.where}: {self.request.op}() takes {len(optional)} optional tensors: {', '.join(optional)}",
                hint=f"a kernel in Python takes {_MOST_OPTIONAL} at most: write this one in C++",
            )
        found: dict[tuple[str, ...], None] = {}
        for given in product((True, False), repeat=len(optional)):
            absent = {name for name, is_given in zip(optional, given, strict=True) if not is_given}
            for types in type_combinations(ports):
                row = ("" if port.name in absent else stored for port, stored in zip(ports, types, strict=True))
                found[tuple(row)] = None
        return list(found)

    def variants(self) -> list[KernelVariant]:
        """All functions to compile."""
        lasts = (True, False) if any(view.axis != -1 for view in self.views if isinstance(view, Rows)) else (True,)
        flat = all(isinstance(view, Flat) for view in self.views)  # rows may begin at any address
        aligned = (False, True) if self.request.machine.aligned and flat else (False,)
        found = [KernelVariant(*each) for each in product(self.types(), lasts, aligned)]
        return [*found, *(replace(each, small=True) for each in found if self.is_scheduled_by_halide(each))]

    def is_scheduled_by_halide(self, variant: KernelVariant) -> bool:
        """Whether the file's `Autoschedule` applies to this function."""
        machine = self.request.machine
        is_processor = not machine.aligned and not machine.gpu
        return self.autoschedule is not None and is_processor and variant.last and not variant.small

    def call(self, tensors: dict[str, Any], scalars: dict[str, Any]) -> None:
        """Let the function define the outputs; an absent optional tensor is None."""
        self.function(**{name: tensors.get(name, scalars.get(name)) for name in self.names})

    def has_scheduled(self, place: RowLayout, tensors: dict[str, Any]) -> bool:
        """Run the file's own `schedule(machine, …)`; returns whether it made the vectors of all outputs."""
        if self.own_schedule is None or place.lanes == 1:
            return False
        names = list(inspect.signature(self.own_schedule).parameters)[1:]
        return bool(self.own_schedule(place.machine, **{name: tensors.get(name) for name in names}))


@dataclass(frozen=True)
class _Way:
    """How a function may be compiled."""

    target: str
    lanes: int
    fixed: bool = False
    auto: bool = False  # an autoscheduler makes the vectors


def _ways(kernel: _Kernel, variant: KernelVariant) -> list[_Way]:
    """The ways to compile a function: the best one first, the last one without vectors."""
    machine = kernel.request.machine
    if machine.gpu:
        return [_Way(machine.target, machine.vector)]
    if kernel.is_scheduled_by_halide(variant):
        return [_Way(machine.target, 1, auto=True)]
    return [*_vectors(kernel, variant), _Way(machine.target, 1)]


def _vectors(kernel: _Kernel, variant: KernelVariant) -> Iterator[_Way]:
    """The ways with vectors: integers in place of reals if no tensor stores floats, then the longest first."""
    machine = kernel.request.machine
    of_tensors = [each for each in zip(kernel.request.tensors, variant.types, strict=True) if each[1]]
    has_floats = any(stored in ("f32", "f16") for _, stored in of_tensors)
    is_real = has_floats or any(port.real for port, _ in of_tensors)
    smallest = min(TYPES[stored].bytes() for _, stored in of_tensors)
    if machine.integers and is_real and not has_floats:
        for size in (smallest, 4):
            yield _Way(machine.integers, machine.vector // size, fixed=True)
    if is_real and not machine.float_vectors:
        return
    # LLVM cannot select instructions for all that Halide makes of long vectors; reducing rows by them takes minutes.
    longest = machine.vector // 4 * machine.partial if is_real and kernel.has_rows else machine.vector // smallest
    for lanes in dict.fromkeys((longest, machine.vector // 4)):
        yield _Way(machine.target, lanes)


def _compile(kernel: _Kernel, variant: KernelVariant, folder: Path) -> tuple[str, list[Launch]]:
    """Write the object file of a function; returns why it has no vectors (or ""), and what it launches."""
    request, machine = kernel.request, kernel.request.machine
    name, why = variant.name(request.prefix), "" if machine.float_vectors else "there are no vectors of floats"
    for way in _ways(kernel, variant)[request.deaths.count(name) :]:
        try:
            found = _compile_with(kernel, variant, way, folder)
        except (NotFixedError, hl.HalideError) as fault:
            why = _why_not(kernel, name, way, fault) or why
        else:
            is_scalar = way.lanes == 1 and not way.auto
            if machine.aligned and not request.texts:
                _or_why_not(kernel, name, partial(_add_twin, kernel, variant, way, folder))
            return (why or "the compiler died of its vectors") if is_scalar else "", found
    if machine.gpu:
        raise NotOnGpuError(why or "the compiler died of it")
    if kernel.is_scheduled_by_halide(variant):
        raise kernel.refuse_autoschedule(f"died, or the compiler died of its schedule for {name}")
    raise UsageError(f"{kernel.where}: the compiler died of {name} even without vectors", hint=request.machine.target)


def _or_why_not(kernel: _Kernel, name: str, add: Callable[[], None]) -> None:
    """Add a function that can be executed, or the reason why there is none: the kernel is right in any case."""
    try:
        add()
    except (hl.HalideError, NotFixedError) as fault:
        kernel.functions.append({"name": name, "lines": {}, "why": f"it has no scalar twin: {_text(fault)}"})


def _add_twin(kernel: _Kernel, variant: KernelVariant, way: _Way, folder: Path) -> None:
    """Write the scalar twin of a function for Hexagon, which udogen/build/vectors.py compares it with."""
    request = kernel.request
    name, twin = variant.name(request.prefix), f"{replace(variant, aligned=False).name(request.prefix)}_twin"
    if way.lanes == 1:
        if request.machine.is_emulated:
            kernel.functions.append({"name": name, "lines": {}, "why": SCALAR_UNDER_QEMU})
        return
    with _serial_vectors():
        with _watch_floats(request.file) as floats:
            made = _algorithm(kernel, variant, way)
        own = kernel.has_scheduled(made.place, made.tensors)
        for each in made.outputs:
            schedule(each, made.place, own=own)
    row = {"name": name, "twin": twin, "aligned": variant.aligned, "arguments": _arguments(request, variant, made)}
    row["lines"] = {each.name: max(kernel.uses.get(each.name, {0: False})) for each in made.outputs}
    if floats.calculates and request.machine.float_vectors and not way.fixed:
        kernel.functions.append({**row, "why": NO_FLOATS})
        integers = partial(_add_integers, kernel, variant, way, folder)
        _or_why_not(kernel, f"{name}_integers", integers)
        return
    if twin in request.deaths:
        kernel.functions.append({**row, "why": "the compiler died of its scalar twin"})
        return
    kernel.functions.append(row)
    if (folder / TWINS / f"{twin}.o").exists():
        return
    print(f"{COMPILING}{twin}", flush=True)
    made.promise_bounds(aligned=False)
    pipeline = hl.Pipeline([each.func for each in made.outputs])
    _write_twin(pipeline.compile_to_module(made.arguments(), twin, _TWIN), folder, twin)


def _add_integers(kernel: _Kernel, variant: KernelVariant, way: _Way, folder: Path) -> None:
    """Write a function of the integers that a function in floats calculates, which QEMU can execute, and its twin."""
    request = kernel.request
    name = f"{variant.name(request.prefix)}_integers"
    if variant.aligned or name in request.deaths:
        return
    print(f"{COMPILING}{name}", flush=True)
    row: dict[str, Any] = {}
    for function, target in ((f"{name}_twin", _TWIN), (name, hl.Target(way.target + _FEATURES))):
        with _serial_vectors() if target is _TWIN else nullcontext():
            with _watch_floats(request.file) as found:
                made = _algorithm(kernel, variant, way)
            parts = [part for value, line in found.integers.values() if (part := _part(made, value, line))]
            if not parts:
                return
            for func, _ in parts:
                wide = func.specialize(func.output_buffer().dim(0).extent() >= way.lanes)
                wide.vectorize(func.args()[0], way.lanes, hl.TailStrategy.ShiftInwards)
        made.promise_bounds(aligned=False)
        given = [each for each in _arguments(request, variant, made) if each[0] != "output"]
        labels = [f"integer {n} of line {line}" for n, (_, line) in enumerate(parts, 1)]
        outputs = [
            ["output", label, _stored_as(func.type()), func.dimensions()]
            for label, (func, _) in zip(labels, parts, strict=True)
        ]
        row = {"name": name, "twin": f"{name}_twin", "aligned": False, "arguments": [*given, *outputs]}
        row["lines"] = {label: line for label, (_, line) in zip(labels, parts, strict=True)}
        module = hl.Pipeline([func for func, _ in parts]).compile_to_module(made.arguments(), function, target)
        _write_twin(module, folder, function)
    kernel.functions.append(row)


def _part(made: _Algorithm, value: Any, line: int) -> tuple[Any, int] | None:
    """A function of an integer at each index of an output, and its line; None if it belongs to a reduction."""
    if not any(re.search(rf"\b{each.name}(\$\d+)?_im\b", str(value)) for each in made.inputs):
        return None
    for output in made.outputs:
        func = hl.Func(f"integer_{line}")
        try:
            func[tuple(output.func.args())] = value
        except hl.HalideError:
            continue
        func.output_buffer().dim(0).set_min(0)
        return func, line
    return None


def _stored_as(kind: Any) -> str:
    return f"{'i' if kind.is_int() else 'u'}{kind.bits()}"


@dataclass
class _Floats:
    """What a kernel does with floats."""

    integers: dict[str, tuple[Any, int]] = field(default_factory=dict)  # converted to floats; with their lines
    calculates: bool = False


@contextmanager
def _watch_floats(file: str) -> Iterator[_Floats]:
    """Collect the integers that a kernel converts to floats, and whether it calculates in them."""
    found = _Floats()
    operators = [f"__{side}{name}__" for name in ("add", "sub", "mul", "truediv") for side in ("", "r")]
    cast, f32 = hl.cast, hl.f32

    def look(value: Any) -> None:
        is_number = isinstance(value, hl.Expr) and not isinstance(value, Fixed)
        if is_number and not value.type().is_float() and value.type().bits() > 1:
            found.integers.setdefault(str(value), (value, _line_in(file)))

    def casts(kind: Any, value: Any) -> Any:
        if kind == hl.Float(32):
            look(value)
        return cast(kind, value)

    def operator(name: str) -> tuple[Any, str, Any]:
        usual = getattr(hl.Expr, name)

        def operate(a: Any, b: Any) -> Any:
            made = usual(a, b)
            if isinstance(made, hl.Expr) and made.type().is_float():
                look(a)
                look(b)
                found.calculates |= "_im" in str(made)
            return made

        return hl.Expr, name, operate

    def to_f32(value: Any) -> Any:
        look(value)
        return f32(value)

    with hvx.replaced([(hl, "cast", casts), (hl, "f32", to_f32), *map(operator, operators)], file):
        yield found


def _write_twin(module: Any, folder: Path, name: str) -> None:
    (folder / TWINS).mkdir(exist_ok=True)
    module.compile({hl.OutputFileType.object: str(folder / TWINS / f"{name}.o")})


@contextmanager
def _serial_vectors() -> Iterator[None]:
    """Let schedules make loops where they would make vectors: the twin calculates the same in the same order."""

    def serial(stage: Any, var: Any, *split: Any) -> Any:
        if not split:
            return stage
        inner, factor, *tail = split if not isinstance(split[0], int) else (type(var)(), *split)
        return stage.split(var, var, inner, factor, *tail)

    with hvx.replaced([(kind, "vectorize", serial) for kind in (hl.Func, hl.Stage)], ""):
        yield


def _arguments(request: Request, variant: KernelVariant, made: _Algorithm) -> list[list[Any]]:
    """The arguments of a function as rows: input or output, its type and rank; or a scalar with its default."""
    stored = {port.name: each for port, each in zip(request.tensors, variant.types, strict=True)}

    def tensor(each: KernelTensor) -> list[Any]:
        func = each.buffer or each.func
        return ["output" if each.func is not None else "input", each.name, stored[each.name], func.dimensions()]

    scalars = [["scalar", kind, request.defaults.get(name)] for name, kind in request.scalars.items()]
    steps = [["quantization", stored[each.name]] for each in made.tensors.values() if each.is_quantized]
    return [*map(tensor, made.inputs), *scalars, *steps, *map(tensor, made.outputs)]


def _why_not(kernel: _Kernel, name: str, way: _Way, fault: Exception) -> str:
    """Why this way does not compile (empty: the known reason remains); raises an error that every way has."""
    machine, line = kernel.request.machine, _line(fault, kernel.request.file)
    if isinstance(fault, NotFixedError):
        where = Path(line).name
        return (
            "" if machine.float_vectors else f"there are no vectors of floats, and {where}{': ' * bool(where)}{fault}"
        )
    if way.auto and not line:
        raise kernel.refuse_autoschedule(f"has no schedule for {name}: {_text(fault)}") from fault
    is_wrong = machine.gpu and "unbounded" in str(fault)  # with any schedule
    if way.lanes == 1 or is_wrong or (line and not way.fixed):
        raise fault
    in_floats = not machine.float_vectors and "float32x" in str(fault)
    return "there are no vectors of floats, and it calculates in them" if in_floats else _text(fault)


def _compile_with(
    kernel: _Kernel, variant: KernelVariant, way: _Way, folder: Path, *, careful: bool = False
) -> list[Launch]:
    """Write the object file of a function; returns the kernels that it launches on a GPU.

    `careful`: Halide does not know the ranges of numbers, because it compiled the usual way wrongly.
    """
    request, machine = kernel.request, kernel.request.machine
    name = variant.name(request.prefix)
    made = _algorithm(kernel, variant, way, careful=careful)
    pipeline, target = hl.Pipeline([each.func for each in made.outputs]), hl.Target(way.target + _FEATURES)
    if way.auto:
        _autoschedule(kernel, made, partial(pipeline.apply_autoscheduler, target))
    else:
        own = kernel.has_scheduled(made.place, made.tensors)
        for each in made.outputs:
            schedule(each, made.place, own=own)
    made.promise_bounds(aligned=variant.aligned)
    module = pipeline.compile_to_module(made.arguments(), name, target)
    on_hvx = machine.aligned and way.lanes > 1
    files = {hl.OutputFileType.object: "o"} | (_TEXTS if request.texts else {})
    files |= {hl.OutputFileType.stmt: "stmt"} if on_hvx else {}
    files |= {hl.OutputFileType.device_code: "cl"} if machine.gpu else {}
    module.compile({kind: str(folder / f"{name}.{suffix}") for kind, suffix in files.items()})
    if on_hvx:
        text = (folder / f"{name}.stmt").read_text("utf-8")
        if not machine.float_vectors and re.search(r"\bfloat\d+x\d", text):
            raise NotFixedError("it calculates in them")
        if wrong := hvx.compiled_wrongly(text):
            if careful:
                raise hl.HalideError(f"Halide compiles {wrong} wrongly for vectors of {way.lanes}")
            return _compile_with(kernel, variant, way, folder, careful=True)
    if machine.gpu:
        return _launches(request, made, folder / name)
    _refuse_missing(kernel, module, folder / f"{name}.o", auto=way.auto)
    return []


@dataclass(frozen=True)
class _Algorithm:
    """A function as Halide sees it: its tensors, and its scalar parameters."""

    place: RowLayout
    tensors: dict[str, KernelTensor]
    scalars: dict[str, Any]

    @property
    def inputs(self) -> list[KernelTensor]:
        return [each for each in self.tensors.values() if each.buffer is not None]

    @property
    def outputs(self) -> list[KernelTensor]:
        return [each for each in self.tensors.values() if each.func is not None]

    def arguments(self) -> list[Any]:
        """The arguments of the C function before the outputs."""
        quantized = [part for each in self.tensors.values() if each.is_quantized for part in (each.scale, each.offset)]
        return [*(each.buffer for each in self.inputs), *self.scalars.values(), *quantized]

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


def _algorithm(kernel: _Kernel, variant: KernelVariant, way: _Way, *, careful: bool = False) -> _Algorithm:
    """What the kernel's function defines for these types."""
    request, machine = kernel.request, kernel.request.machine
    place = RowLayout(machine, way.lanes, variant.last, way.fixed, used=kernel.use)
    rows = zip(request.tensors, variant.types, kernel.views, strict=True)
    tensors = {port.name: KernelTensor(port, stored, view, place) for port, stored, view in rows if stored}
    scalars = {each: hl.Param(getattr(hl, _SCALARS[kind])(32), each) for each, kind in request.scalars.items()}
    made = _Algorithm(place, tensors, scalars)
    lengths = [each.buffer.dim(0).extent() for each in made.inputs] if careful else []
    data = {*tensors, *(name.partition("$")[0] for name in kernel.lines)}
    in_floats = machine.float_vectors and not way.fixed
    on_hvx = machine.aligned and way.lanes > 1
    with (
        hvx.operators(request.file, way.lanes, *lengths[:1], data=data, in_floats=in_floats)
        if on_hvx
        else nullcontext()
    ):
        for _ in made.outputs:
            place.begin()
            kernel.call(tensors, {name: hl.Expr(param) for name, param in scalars.items()})
    for each in made.outputs:
        if not each.func.defined():
            raise UsageError(f"{kernel.where}: {request.op}() writes nothing to `{each.name}`")
    kernel.reads_outputs |= place.reads_outputs
    return made


def _launches(request: Request, made: _Algorithm, compiled: Path) -> list[Launch]:
    """The OpenCL kernels that a compiled function launches."""
    symbols = set(compiled.with_name(f"{compiled.name}.o").read_bytes().split(b"\0"))
    if {b"halide_copy_to_host", b"halide_error_host_is_null"} & symbols:
        raise NotOnGpuError("its schedule leaves a part of it to the processor")
    by_name = {port.name: port for port in request.tensors}
    named = {(each.func or each.buffer).name(): by_name[each.name] for each in made.tensors.values()}
    return launches(compiled.with_name(f"{compiled.name}.cl").read_text("utf-8"), compiled.name, named)


def _refuse_missing(kernel: _Kernel, module: Any, compiled: Path, *, auto: bool) -> None:
    """Raise if a function needs what no library provides; the error names the part of the kernel that needs it."""
    request = kernel.request
    missing = [need for name, need in _MISSING.items() if name in compiled.read_bytes()]
    if not missing:
        return
    if auto:
        raise kernel.refuse_autoschedule(f"makes a schedule with {missing[0]} of its own, which an op does not have")
    text = compiled.with_suffix(".stmt")
    module.compile({hl.OutputFileType.stmt: str(text)})
    # Allocations of constant size are on the stack up to 16 KB.
    parts = re.findall(r"^ *allocate (\S+?)\[[a-z]+(\d+)\S* \* (.*)\](?! in )", text.read_text("utf-8"), re.MULTILINE)
    named = next((name for name, bits, size in parts if not size.isdigit() or int(size) * int(bits) > 1 << 17), "")
    line = kernel.lines.get(named, 0)
    raise BuildFailed(
        f"{f'{request.file}:{line}' if line else kernel.where}: {f'`{named}`' if named else request.op} needs "
        f"{missing[0]} of a size that is only known when {request.op} runs",
        hint="let it be calculated where it is used, for a known number of elements: `compute_at` an inner loop of the "
        "output (`reorder` its loops, if need be), or a Python function that returns the expression (no compute_root)",
    )


@cache
def _load_autoscheduler(name: str) -> None:
    [library] = Path(hl.__file__).parent.glob(f"lib*/libautoschedule_{name.lower()}.*")
    hl.load_plugin(str(library))


def _autoschedule(kernel: _Kernel, made: _Algorithm, apply: Callable[[Any], Any]) -> None:
    """Let Halide schedule a function for the sizes given in the file."""
    auto = kernel.autoschedule
    assert auto
    for name in auto.sizes:
        if name not in made.tensors and name not in made.scalars:
            raise kernel.refuse_autoschedule(f"is given a size of `{name}`, which the op does not have")
    for name, tensor in made.tensors.items():
        shape = auto.sizes.get(name)
        if not isinstance(shape, tuple):
            raise kernel.refuse_autoschedule(f"needs a typical shape of `{name}`: {name}=(…, …)")
        for axis, extent in enumerate(tensor.lengths(shape)):
            (tensor.func.output_buffer() if tensor.buffer is None else tensor.buffer).dim(axis).set_estimate(0, extent)
        tensor.scale.set_estimate(1.0)
        tensor.offset.set_estimate(0)
    for name, param in made.scalars.items():
        size = auto.sizes.get(name, 0)
        if isinstance(size, tuple):
            raise kernel.refuse_autoschedule(f"needs a typical number of `{name}`, not a shape")
        param.set_estimate(size if kernel.request.scalars[name] == "f32" else int(size))
    _load_autoscheduler(auto.name)
    apply(hl.AutoschedulerParams(auto.name, {"parallelism": "1"}))


def _line_in(file: str) -> int:
    """The innermost line of a file that is being executed; 0 if there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0


def _is_computed(index: Any) -> bool:
    """Whether an index is read or calculated, and not clamped."""
    text = str(as_expr(index))
    return re.search(r"\w\(", text) is not None and not text.startswith(("max(min(", "min(max("))


def _remember_lines(file: str, lines: dict[str, int], use: Callable[[str, list[Any]], None]) -> None:
    """Give Halide's functions, including those of reductions, names for which `lines` has the line of a file.

    `use` is called with each element of them that is read.
    """

    class Func(hl.Func):  # type: ignore[misc]  # Halide has no types
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            lines[self.name()] = _line_in(file)

        def __getitem__(self, index: Any) -> Any:
            use(self.name(), list(index) if isinstance(index, tuple) else [index])
            return super().__getitem__(index)

    def named(reduction: Callable[..., Any], kind: str, *given: Any) -> Any:
        name = f"{kind}_{len(lines)}"
        lines[name] = _line_in(file)
        return reduction(*given, name)

    hl.Func = Func
    for kind in _REDUCTIONS:
        setattr(hl, kind, partial(named, getattr(hl, kind), kind))


def _compile_nothing(request: Request, folder: Path) -> None:
    """Replace the object files by one without references: make needs one."""
    for each in folder.glob("*.o"):
        each.unlink()
    nothing = hl.Func("nothing")
    nothing[hl.Var("i")] = hl.u8(0)
    name = f"{request.prefix}_nothing"
    target = hl.Target(request.machine.target.removesuffix("-opencl") + f"{_FEATURES}-no_asserts")
    module = hl.Pipeline([nothing]).compile_to_module([], name, target)
    module.compile({hl.OutputFileType.object: str(folder / f"{name}.o")})


def _is_elementwise(kernel: _Kernel) -> bool:
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

    kinds = {each: hl.Param(getattr(hl, _SCALARS[kind])(32), each) for each, kind in kernel.request.scalars.items()}
    try:
        kernel.call({port.name: Element(port) for port in kernel.request.tensors}, kinds)
        for value in values:
            hl.Func("alone")[()] = value  # raises if the index is in it
    except Exception:
        return False
    return all(isinstance(each, hl.Var) and each.name() == indices[0].name() for each in indices)


def _of_table(request: Request, variants: Sequence[KernelVariant]) -> list[KernelVariant]:
    """The functions of bytes that a table can replace: those with one input and one output."""
    if len(request.tensors) != 2 or request.machine.gpu:
        return []
    return [each for each in variants if set(each.types) == {"u8"} and not each.small]


def _table(kernel: _Kernel, folder: Path, *, aligned: bool) -> None:
    """Write the function that looks bytes up in a table."""
    request = kernel.request
    name, twin = f"{request.prefix}_table{'_aligned' if aligned else ''}", f"{request.prefix}_table_twin"
    module = _table_module(request.machine, name, hl.Target(request.machine.target + _FEATURES), aligned=aligned)
    files = {hl.OutputFileType.object: "o"} | (_TEXTS if request.texts else {})
    module.compile({kind: str(folder / f"{name}.{suffix}") for kind, suffix in files.items()})
    if request.machine.aligned and not request.texts:
        arguments = [["input", "codes", "u8", 1], ["input", "table", "u8", 1], ["output", "found", "u8", 1]]
        row = {"name": name, "twin": twin, "aligned": aligned, "arguments": arguments, "lines": {}}
        kernel.functions.append(row)
        with _serial_vectors():
            _write_twin(_table_module(request.machine, twin, _TWIN, aligned=False), folder, twin)


def _table_module(machine: TargetMachine, name: str, target: Any, *, aligned: bool) -> Any:
    codes, table = hl.ImageParam(hl.UInt(8), 1, "codes"), hl.ImageParam(hl.UInt(8), 1, "table")
    i, found = hl.Var("i"), hl.Func("found")
    found[i] = table[hl.cast(hl.Int(32), codes[i])]
    for buffer in (codes, table, found.output_buffer()):
        buffer.dim(0).set_min(0)
        if aligned and buffer is not table:
            buffer.set_host_alignment(machine.vector)
    table.dim(0).set_extent(256)
    lanes = machine.vector if machine.aligned else 16
    wide = found.specialize(codes.dim(0).extent() >= lanes)
    wide.vectorize(i, lanes, hl.TailStrategy.ShiftInwards) if machine.aligned else wide.unroll(i, 8)
    return hl.Pipeline([found]).compile_to_module([codes, table], name, target)


def _limit_time() -> None:
    """End this process if the next function takes too much processor time, which other processes do not affect."""
    ends, hard = int(time.process_time()) + MOST_SECONDS, resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (ends if hard == resource.RLIM_INFINITY else min(ends, hard), hard))


def _run(request: Request, folder: Path, limit: Callable[[], None] = lambda: None) -> None:
    """Compile all functions of a kernel; `limit` is called before each."""
    limit()
    kernel = _Kernel(request)
    variants = kernel.variants()
    scalar: dict[str, str] = {}
    found: list[Launch] = []
    why_not = ""
    for variant in variants:
        name = variant.name(request.prefix)
        print(f"{COMPILING}{name}", flush=True)
        limit()
        try:
            why, launched = _compile(kernel, variant, folder)
            found += launched
            if why:
                scalar[name] = why
        except NotOnGpuError as fault:
            why_not = f"{Path(_line(fault, request.file) or kernel.where).name}: {fault}"
            _compile_nothing(request, folder)
            break
        except UdogenError:
            raise
        except BaseException as fault:  # an exit of the kernel too
            raise _refused(kernel, name, fault) from fault
    elementwise = _is_elementwise(kernel)
    of_table = _of_table(request, variants) if elementwise else []
    for variant in of_table:
        _compile_with(kernel, variant, _Way(request.machine.target, 1), folder)  # it fills the table
        scalar.pop(variant.name(request.prefix), None)
        kernel.functions = [row for row in kernel.functions if row["name"] != variant.name(request.prefix)]
        _table(kernel, folder, aligned=variant.aligned)
    views = tuple(
        (type(view).__name__.lower(), getattr(view, "axis", getattr(view, "rank", None))) for view in kernel.views
    )
    in_one = kernel.reads_outputs and not elementwise
    auto = kernel.autoschedule is not None and not request.machine.gpu
    names = [port.name for port in request.tensors]
    lines = {name: tuple(sorted(kernel.uses[name])) for name in names if name in kernel.uses}
    report = Report(
        tuple(variants), views, bool(of_table), elementwise, in_one, auto, scalar, tuple(found), why_not, lines
    )
    (folder / "report.json").write_text(report.as_json(), "utf-8")
    if kernel.functions:
        (folder / TWINS).mkdir(exist_ok=True)
        (folder / TWINS / FUNCTIONS).write_text(json.dumps(kernel.functions), "utf-8")


def _refused(kernel: _Kernel, function: str, fault: BaseException) -> UsageError:
    """The error of Halide or Python about a function, with the line of the kernel."""
    request, text = kernel.request, _text(fault)
    line = kernel.line_of(text)
    where = _line(fault, request.file) or (f"{request.file}:{line}" if line else kernel.where)
    hint = f"while {function} was compiled for {request.machine.target}"
    if "unbounded" in text:
        hint = "limit the index: hl.clamp(index, 0, x.size - 1), or x.extent(axis) - 1"
    return UsageError(f"{where}: {text}", hint=hint)


def _text(fault: BaseException) -> str:
    """The message of Halide or Python."""
    if not isinstance(fault, Exception):
        return words_of(fault)
    return str(fault).strip().removeprefix("Error:").strip() or "the compiler cannot make code of it"


def _line(fault: BaseException, file: str) -> str:
    """file:line of the innermost line of the kernel's file in a traceback."""
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == file]
    return f"{file}:{frames[-1].lineno}" if frames else ""


def main() -> None:
    """Compile what is requested in a folder, into that folder."""
    folder = Path(sys.argv[1])
    request = Request.of_json((folder / "request.json").read_text("utf-8"))
    try:
        with user_code():
            _run(request, folder, _limit_time)
    except Exception as fault:
        where = _line(fault, request.file)
        if not where and not isinstance(fault, UdogenError):
            raise
        error = (
            fault if isinstance(fault, UdogenError) else UsageError(f"{where}: {_text(fault)}", hint="fix the kernel")
        )
        print(json.dumps(error.as_json()), file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
