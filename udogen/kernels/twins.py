"""Scalar twins of functions for Hexagon, with which udogen/build/vectors.py compares them when they are built."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import halide as hl

from udogen.kernels import hvx
from udogen.kernels.algorithm import KernelTensor, schedule
from udogen.kernels.fixed import Fixed, NotFixedError
from udogen.kernels.kernel_file import Algorithm, Kernel, Way, algorithm_of, line_in, text_of
from udogen.kernels.request import (
    COMPILING,
    SCALAR_UNDER_QEMU,
    TWINS,
    KernelVariant,
    Request,
)

FEATURES = "-no_runtime-no_bounds_query-user_context-strict_float"
# A twin answers which lengths its inputs need, and has no vectors.
TWIN = hl.Target("hexagon-32-noos-hvx-no_runtime-user_context-strict_float")


def or_why_not(kernel: Kernel, name: str, add: Callable[[], None]) -> None:
    """Add a function that can be executed, or the reason why there is none: the kernel is right in any case."""
    try:
        add()
    except (hl.HalideError, NotFixedError) as fault:
        kernel.functions.append({"name": name, "lines": {}, "why": f"it has no scalar twin: {text_of(fault)}"})


def add_twin(kernel: Kernel, variant: KernelVariant, way: Way, folder: Path) -> None:
    """Write the scalar twin of a function for Hexagon, which udogen/build/vectors.py compares it with."""
    request = kernel.request
    name, twin = variant.name(request.prefix), f"{replace(variant, aligned=False).name(request.prefix)}_twin"
    if way.lanes == 1:
        if request.machine.is_emulated:
            kernel.functions.append({"name": name, "lines": {}, "why": SCALAR_UNDER_QEMU})
        return
    with serial_vectors():
        with _watch_floats(request.file) as floats:
            made = algorithm_of(kernel, variant, way)
        own = kernel.has_scheduled(made.place, made.tensors)
        for tensor in made.outputs:
            schedule(tensor, replace(made.place, lanes=1), own=own)  # code for short rows would be the same
    row = {"name": name, "twin": twin, "aligned": variant.aligned, "arguments": _arguments(request, variant, made)}
    row["lines"] = {tensor.name: max(kernel.uses.get(tensor.name, {0: False})) for tensor in made.outputs}
    row["tiles"] = way.tiled
    in_floats = floats.calculates and request.machine.float_vectors and not way.fixed
    row["floats"] = "f16" if way.halves else "f32" * in_floats
    if twin in request.deaths:
        row["why"] = "the compiler crashed on its scalar twin"
    elif request.machine.float_twins or not row["floats"]:
        _write_usual(made, twin, folder)
    kernel.functions.append(row)
    if row["floats"] == "f32":
        or_why_not(kernel, f"{name}_integers", partial(_add_integers, kernel, variant, way, folder))


def _write_usual(made: Algorithm, twin: str, folder: Path) -> None:
    """Write the twin, which aligned functions share with others."""
    if (folder / TWINS / f"{twin}.o").exists():
        return
    print(f"{COMPILING}{twin}", flush=True)
    made.promise_bounds(aligned=False)
    pipeline = hl.Pipeline([tensor.func for tensor in made.outputs])
    write_twin(pipeline.compile_to_module(made.arguments(), twin, TWIN), folder, twin)


def _add_integers(kernel: Kernel, variant: KernelVariant, way: Way, folder: Path) -> None:
    """Write a function of the integers that a function in floats calculates, which QEMU can execute, and its twin."""
    request = kernel.request
    name = f"{variant.name(request.prefix)}_integers"
    if variant.aligned or name in request.deaths:
        return
    print(f"{COMPILING}{name}", flush=True)
    row: dict[str, Any] = {}
    for function, target in ((f"{name}_twin", TWIN), (name, hl.Target(way.target + FEATURES))):
        with serial_vectors() if target is TWIN else nullcontext():
            with _watch_floats(request.file) as floats:
                made = algorithm_of(kernel, variant, way)
            parts = [part for value, line in floats.integers.values() if (part := _part(made, value, line))]
            if not parts:
                return
            for func, _ in parts:
                wide = func.specialize(func.output_buffer().dim(0).extent() >= way.lanes)
                wide.vectorize(func.args()[0], way.lanes, hl.TailStrategy.ShiftInwards)
        made.promise_bounds(aligned=False)
        given = [argument for argument in _arguments(request, variant, made) if argument[0] != "output"]
        labels = [f"integer {n} of line {line}" for n, (_, line) in enumerate(parts, 1)]
        outputs = [
            ["output", label, _stored_as(func.type()), func.dimensions()]
            for label, (func, _) in zip(labels, parts, strict=True)
        ]
        row = {"name": name, "twin": f"{name}_twin", "aligned": False, "arguments": [*given, *outputs]}
        row["lines"] = {label: line for label, (_, line) in zip(labels, parts, strict=True)}
        module = hl.Pipeline([func for func, _ in parts]).compile_to_module(made.arguments(), function, target)
        write_twin(module, folder, function)
    kernel.functions.append(row)


def _part(made: Algorithm, value: Any, line: int) -> tuple[Any, int] | None:
    """A function of an integer at each index of an output, and its line; None if it belongs to a reduction."""
    if not any(re.search(rf"\b{tensor.name}(\$\d+)?_im\b", str(value)) for tensor in made.inputs):
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
            found.integers.setdefault(str(value), (value, line_in(file)))

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


def write_twin(module: Any, folder: Path, name: str) -> None:
    (folder / TWINS).mkdir(exist_ok=True)
    module.compile({hl.OutputFileType.object: str(folder / TWINS / f"{name}.o")})


@contextmanager
def serial_vectors() -> Iterator[None]:
    """Let schedules make loops where they would make vectors: the twin calculates the same in the same order."""

    def serial(stage: Any, var: Any, *split: Any) -> Any:
        if not split:
            return stage
        inner, factor, *tail = split if not isinstance(split[0], int) else (type(var)(), *split)
        return stage.split(var, var, inner, factor, *tail)

    with hvx.replaced([(kind, "vectorize", serial) for kind in (hl.Func, hl.Stage)], ""):
        yield


def _arguments(request: Request, variant: KernelVariant, made: Algorithm) -> list[list[Any]]:
    """The arguments of a function as rows: input or output, its type and rank; or a scalar with its default."""
    stored = {port.name: kind for port, kind in zip(request.tensors, variant.types, strict=True)}

    def tensor(each: KernelTensor) -> list[Any]:
        func = each.buffer or each.func
        return ["output" if each.func is not None else "input", each.name, stored[each.name], func.dimensions()]

    scalars = [["scalar", kind, request.defaults.get(name)] for name, kind in request.scalars.items()]
    steps = [["quantization", stored[each.name]] for each in made.tensors.values() if each.is_quantized]
    return [*map(tensor, made.inputs), *scalars, *steps, *map(tensor, made.outputs)]
