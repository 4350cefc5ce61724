"""The worker that compiles a kernel for a machine: `python -m udogen.kernels.worker FOLDER`, with a request in FOLDER.

LLVM ends the process if it cannot select instructions, so each function's name is printed before it is compiled.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Any

import halide as hl

import udogen
from udogen.errors import BuildFailed, UdogenError, UsageError
from udogen.kernels import hvx
from udogen.kernels.algorithm import TYPES, schedule
from udogen.kernels.fixed import NotFixedError
from udogen.kernels.halves import TARGET, NotCompiledError, compile_floats, compile_halves
from udogen.kernels.kernel_file import (
    Algorithm,
    Kernel,
    UncalledFunction,
    Way,
    algorithm_of,
    is_elementwise,
    line_of_fault,
    text_of,
)
from udogen.kernels.mistakes import refused
from udogen.kernels.opencl import NotOnGpuError, launches
from udogen.kernels.request import (
    COMPILING,
    FUNCTIONS,
    MOST_MEMORY,
    MOST_SECONDS,
    PLACE,
    TWINS,
    KernelVariant,
    Launch,
    Report,
    Request,
    TargetMachine,
)
from udogen.kernels.sums import NotTiledError, tile
from udogen.kernels.twins import FEATURES, TWIN, add_twin, or_why_not, serial_vectors, write_twin
from udogen.python_files import on_exit, record_places, user_code

_FLOATS = re.compile(r"\bfloat\d+x\d")  # vectors, as Halide prints them
_TEXTS = {hl.OutputFileType.assembly: "s"}


def _ways(kernel: Kernel, variant: KernelVariant) -> list[Way]:
    """The ways to compile a function: the best one first, the last one without vectors."""
    machine = kernel.request.machine
    if machine.gpu:
        return [Way(machine.target, machine.vector)]
    if kernel.is_scheduled_by_halide(variant):
        return [Way(machine.target, 1, auto=True)]
    vectors = list(_vectors(kernel, variant))
    tiled = [replace(vector, tiled=kind) for vector in vectors[:1] for kind in kernel.tile_kinds(variant, vector)]
    if kernel.has_tiles and not variant.small and not tiled:
        kernel.untiled[variant.name(kernel.request.prefix)] = (
            "only sums of bytes, floats and 32-bit integers have tiles on Hexagon"
        )
    return [*tiled, *vectors, Way(machine.target, 1)]


def _in_halves(kernel: Kernel) -> Way:
    """Qfloat needs two registers at once to fill its packets; rows and lines are often shorter."""
    size = 1 if kernel.is_flat else TYPES["f16"].bytes()
    return Way(TARGET, kernel.request.machine.vector // size, halves=True)


def _vectors(kernel: Kernel, variant: KernelVariant) -> Iterator[Way]:
    """The ways with vectors: integers in place of reals if no tensor stores floats, then the longest first."""
    machine = kernel.request.machine
    kinds = {stored for stored in variant.types if stored}
    has_floats = not kinds.isdisjoint(("f32", "f16"))
    is_real = has_floats | kernel.has_reals(variant)
    if machine.halves and "f16" in kinds <= {"f16", "f32"}:
        yield _in_halves(kernel)
    smallest = min(TYPES[stored].bytes() for stored in kinds)
    if machine.integers and is_real and not has_floats:
        for size in (smallest, 4):
            yield Way(machine.integers, machine.vector // size, fixed=True)
    if is_real and not machine.float_vectors:
        return
    # LLVM cannot select instructions for all that Halide makes of long vectors; reducing rows by them takes minutes.
    longest = machine.vector // 4 * machine.partial if is_real and kernel.has_rows else machine.vector // smallest
    for lanes in dict.fromkeys((longest, machine.vector // 4)):
        yield Way(machine.target, lanes)


def _compile(kernel: Kernel, variant: KernelVariant, folder: Path) -> tuple[str, list[Launch]]:
    """Write the object file of a function; returns why it has no vectors (or ""), and what it launches."""
    request, machine = kernel.request, kernel.request.machine
    name, why = variant.name(request.prefix), "" if machine.float_vectors else "there are no vectors of floats"
    ways, deaths = _ways(kernel, variant), request.deaths.get(name, ())
    if deaths:
        why = f"the compiler {deaths[-1]}; keep parts of the kernel in memory with `scratch`, or divide the op"
    first = sum(way.halves for way in ways)  # zig, which does not end this process
    for way in ways[:first] + ways[first + len(deaths) :]:
        try:
            found = _compile_with(kernel, variant, way, folder)
        except (NotCompiledError, NotTiledError, NotFixedError, hl.HalideError) as fault:
            if way.halves and not line_of_fault(fault, request.file):
                kernel.converted[name] = text_of(fault).splitlines()[0]
            elif way.tiled:
                kernel.untiled.setdefault(name, text_of(fault).splitlines()[0])
            else:
                why = _why_not(kernel, name, way, fault) or why
        else:
            if way.tiled:
                kernel.untiled.pop(name, None)
            is_scalar = way.lanes == 1 and not way.auto
            if machine.aligned and not request.texts:
                or_why_not(kernel, name, partial(add_twin, kernel, variant, way, folder))
            return why if is_scalar else "", found
    raise _crash(kernel, variant, why)


def _crash(kernel: Kernel, variant: KernelVariant, why: str) -> Exception:
    """The error for a function that is compiled in no way."""
    name, machine = variant.name(kernel.request.prefix), kernel.request.machine
    if machine.gpu:
        return NotOnGpuError(why)
    if kernel.is_scheduled_by_halide(variant):
        return kernel.refuse_autoschedule(f"crashed, or the compiler crashed on its schedule for {name}")
    return UsageError(f"{kernel.where}: {name} is not compiled even without vectors: {why}", hint=machine.target)


def _why_not(kernel: Kernel, name: str, way: Way, fault: Exception) -> str:
    """Why this way does not compile (empty: the known reason remains); raises an error that every way has."""
    machine, line = kernel.request.machine, line_of_fault(fault, kernel.request.file)
    if isinstance(fault, NotFixedError):
        where = Path(line).name
        return (
            "" if machine.float_vectors else f"there are no vectors of floats, and {where}{': ' * bool(where)}{fault}"
        )
    if way.auto and not line:
        raise kernel.refuse_autoschedule(f"has no schedule for {name}: {text_of(fault)}") from fault
    is_wrong = machine.gpu and "unbounded" in str(fault)  # with any schedule
    if way.lanes == 1 or is_wrong or (line and not way.fixed):
        raise fault
    in_floats = not machine.float_vectors and "float32x" in str(fault)
    return "there are no vectors of floats, and it calculates in them" if in_floats else text_of(fault)


def _compile_with(
    kernel: Kernel, variant: KernelVariant, way: Way, folder: Path, *, careful: bool = False
) -> list[Launch]:
    """Write the object file of a function; returns the kernels that it launches on a GPU.

    `careful`: Halide does not know the ranges of numbers, because it compiled the usual way wrongly.
    """
    request, machine = kernel.request, kernel.request.machine
    name = variant.name(request.prefix)
    made = _tiled(kernel, variant, way) if way.tiled else _usual(kernel, variant, way, careful=careful)
    pipeline, target = hl.Pipeline([tensor.func for tensor in made.outputs]), hl.Target(way.target + FEATURES)
    if way.auto:
        _autoschedule(kernel, made, partial(pipeline.apply_autoscheduler, target))
    made.promise_bounds(aligned=variant.aligned)
    module = pipeline.compile_to_module(made.arguments(), name, target)
    loops = ""
    if machine.aligned and way.lanes > 1 and not way.halves:
        module.compile({hl.OutputFileType.stmt: str(folder / f"{name}.stmt")})
        loops = (folder / f"{name}.stmt").read_text("utf-8")
        if _is_wrong(loops, machine, way, careful=careful):
            return _compile_with(kernel, variant, way, folder, careful=True)
    if way.halves:
        compile_halves(module, folder / name, aligned=variant.aligned, texts=request.texts)
    elif not (_FLOATS.search(loops) and _compiled_floats(module, folder / name, texts=request.texts)):
        files = {hl.OutputFileType.object: "o"} | (_TEXTS if request.texts else {})
        files |= {hl.OutputFileType.device_code: "cl"} if machine.gpu else {}
        module.compile({kind: str(folder / f"{name}.{suffix}") for kind, suffix in files.items()})
    if machine.gpu:
        return _launches(request, made, folder / name)
    _look_at_memory(kernel, module, made, folder / f"{name}.o", way)
    return []


def _compiled_floats(module: Any, file: Path, *, texts: bool) -> bool:
    """Whether zig compiled a function in floats."""
    try:
        compile_floats(module, file, texts=texts)
    except NotCompiledError:
        return False
    return True


def _usual(kernel: Kernel, variant: KernelVariant, way: Way, *, careful: bool) -> Algorithm:
    """The function with the usual schedule, or that of its file."""
    made = algorithm_of(kernel, variant, way, careful=careful)
    own = not way.auto and kernel.has_scheduled(made.place, made.tensors)
    for tensor in made.outputs if not way.auto else ():
        schedule(tensor, made.place, own=own)
    return made


def _is_wrong(loops: str, machine: TargetMachine, way: Way, *, careful: bool) -> bool:
    """Whether Halide compiles these loops wrongly, and may not if it knows less; raises if there is no such hope."""
    if not machine.float_vectors and _FLOATS.search(loops):
        raise NotFixedError("it calculates in them")
    wrong = hvx.compiled_wrongly(loops)
    if wrong and way.tiled:
        raise NotTiledError(wrong)
    if wrong and careful:
        raise hl.HalideError(f"Halide compiles {wrong} wrongly for vectors of {way.lanes}")
    return bool(wrong)


def _tiled(kernel: Kernel, variant: KernelVariant, way: Way) -> Algorithm:
    """The function with its sums in register tiles."""
    machine, tiles = kernel.request.machine, kernel.tiles(way)
    try:
        made = algorithm_of(kernel, variant, way, tiles=tiles)
        [output] = made.outputs
        if not tiles.can_be_made(output.func.args()):
            raise NotTiledError("sums that vectors do not calculate")
        tile(output, tiles, machine.vector, way.lanes)
    except Exception as fault:  # an error of the kernel itself is raised by the usual way, too
        raise NotTiledError(str(fault)) from fault
    return made


def _launches(request: Request, made: Algorithm, compiled: Path) -> list[Launch]:
    """The OpenCL kernels that a compiled function launches."""
    symbols = set(compiled.with_name(f"{compiled.name}.o").read_bytes().split(b"\0"))
    if {b"halide_copy_to_host", b"halide_error_host_is_null"} & symbols:
        raise NotOnGpuError("its schedule leaves a part of it to the processor")
    by_name = {port.name: port for port in request.tensors}
    named = {(tensor.func or tensor.buffer).name(): by_name[tensor.name] for tensor in made.tensors.values()}
    return launches(compiled.with_name(f"{compiled.name}.cl").read_text("utf-8"), compiled.name, named)


def _look_at_memory(kernel: Kernel, module: Any, made: Algorithm, compiled: Path, way: Way) -> None:
    """Find what a function allocates; raises if it needs threads, which no library provides."""
    code = compiled.read_bytes()
    if b"halide_do_par_for" in code:
        if not way.auto:
            raise BuildFailed(f"{kernel.where}: {kernel.request.op} needs threads", hint="take out `parallel`")
        raise kernel.refuse_autoschedule("makes a schedule with threads of its own, which an op does not have")
    if b"halide_malloc" in code:
        text = compiled.with_suffix(".stmt")
        module.compile({hl.OutputFileType.stmt: str(text)})
        names = [each.buffer.name() for each in made.inputs]
        kernel.allocations[compiled.stem] = _allocations_at_start(text.read_text("utf-8"), names)


def _allocations_at_start(text: str, inputs: Sequence[str]) -> int:
    """The number of allocations, as Halide prints them, before anything is read; their sizes are positive.

    Allocations of constant size are on the stack up to 16 KB.
    """
    start = re.split(r"^ *(?:produce|for) ", text, maxsplit=1, flags=re.MULTILINE)[0]
    start = re.split(rf"\b(?:{'|'.join(map(re.escape, inputs))})\[", start, maxsplit=1)[0]
    count = 0
    for bits, size in re.findall(r"^ *allocate \S+?\[[a-z]+(\d+)\S* \* (.*)\](?! in )", start, re.MULTILINE):
        least, most = _range_of(size)
        if least <= 0:
            break
        count += most * int(bits) > 1 << 17
    return count


@dataclass
class _Range:
    """The smallest and the largest number that an expression may be."""

    low: float
    high: float

    def __add__(self, other: _Range) -> _Range:
        return _Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: _Range) -> _Range:
        return _Range(self.low - other.high, self.high - other.low)

    def __mul__(self, other: _Range) -> _Range:
        if min(self.low, other.low) < 0:
            return _Range(-inf, inf)
        return _Range(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: _Range) -> _Range:
        if min(self.low, other.low - 1) < 0:
            return _Range(-inf, inf)
        return _Range(self.low // other.high, self.high / other.low)


def _range_of(size: str) -> tuple[float, float]:
    """The smallest and the largest number of a size as Halide prints it, if no tensor is empty."""
    text = re.sub(r"[\w$]+\.extent\.\d\b(?!\.)", "extent", size)
    text = re.sub(r"[\w$]+\.min\.\d\b(?!\.)", "first", text)
    text = re.sub(r"-?\b\d+\b", r"number(\g<0>)", text)
    known = {
        "extent": _Range(1, inf), "first": _Range(0, inf), "number": lambda n: _Range(n, n),
        "max": lambda a, b: _Range(max(a.low, b.low), max(a.high, b.high)),
        "min": lambda a, b: _Range(min(a.low, b.low), min(a.high, b.high)),
    }  # fmt: skip
    try:
        found = eval(text, {"__builtins__": {}}, known)
    except Exception:  # other operators
        return -inf, inf
    return found.low, found.high


@cache
def _load_autoscheduler(name: str) -> None:
    [library] = Path(hl.__file__).parent.glob(f"lib*/libautoschedule_{name.lower()}.*")
    hl.load_plugin(str(library))


def _autoschedule(kernel: Kernel, made: Algorithm, apply: Callable[[Any], Any]) -> None:
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


def _compile_nothing(request: Request, folder: Path) -> None:
    """Replace the object files by one without references: make needs one."""
    for file in folder.glob("*.o"):
        file.unlink()
    nothing = hl.Func("nothing")
    nothing[hl.Var("i")] = hl.u8(0)
    name = f"{request.prefix}_nothing"
    target = hl.Target(request.machine.target.removesuffix("-opencl") + f"{FEATURES}-no_asserts")
    module = hl.Pipeline([nothing]).compile_to_module([], name, target)
    module.compile({hl.OutputFileType.object: str(folder / f"{name}.o")})


def _of_table(request: Request, variants: Sequence[KernelVariant]) -> list[KernelVariant]:
    """The functions of bytes that a table can replace: those with one input and one output."""
    if len(request.tensors) != 2 or request.machine.gpu:
        return []
    return [variant for variant in variants if set(variant.types) == {"u8"} and not variant.small]


def _table(kernel: Kernel, folder: Path, *, aligned: bool) -> None:
    """Write the function that looks bytes up in a table."""
    request = kernel.request
    name, twin = f"{request.prefix}_table{'_aligned' if aligned else ''}", f"{request.prefix}_table_twin"
    module = _table_module(request.machine, name, hl.Target(request.machine.target + FEATURES), aligned=aligned)
    files = {hl.OutputFileType.object: "o"} | (_TEXTS if request.texts else {})
    module.compile({kind: str(folder / f"{name}.{suffix}") for kind, suffix in files.items()})
    if request.machine.aligned and not request.texts:
        arguments = [["input", "codes", "u8", 1], ["input", "table", "u8", 1], ["output", "found", "u8", 1]]
        row = {"name": name, "twin": twin, "aligned": aligned, "arguments": arguments, "lines": {}}
        kernel.functions.append(row)
        with serial_vectors():
            write_twin(_table_module(request.machine, twin, TWIN, aligned=False), folder, twin)


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


def _limit() -> None:
    """End this process if the next function takes too much processor time, or memory; zig inherits the limits.

    Other processes affect neither.
    """
    for what, most in (
        (resource.RLIMIT_CPU, int(time.process_time()) + MOST_SECONDS),
        (resource.RLIMIT_DATA, MOST_MEMORY),
    ):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _run(request: Request, folder: Path, limit: Callable[[], None] = lambda: None) -> None:
    """Compile all functions of a kernel; `limit` is called before each."""
    limit()
    kernel = Kernel(request)
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
            why_not = f"{Path(line_of_fault(fault, request.file) or kernel.where).name}: {fault}"
            _compile_nothing(request, folder)
            break
        except (UdogenError, MemoryError):
            raise
        except BaseException as fault:  # an exit of the kernel too
            raise refused(kernel, fault, f"while {name} was compiled for {request.machine.target}") from fault
    elementwise = is_elementwise(kernel)
    of_table = _of_table(request, variants) if elementwise else []
    for variant in of_table:
        _compile_with(kernel, variant, Way(request.machine.target, 1), folder)  # it fills the table
        scalar.pop(variant.name(request.prefix), None)
        kernel.functions = [row for row in kernel.functions if row["name"] != variant.name(request.prefix)]
        _table(kernel, folder, aligned=variant.aligned)
    report = Report(
        tuple(variants),
        tuple(
            (type(each).__name__.lower(), getattr(each, "axis", getattr(each, "rank", None))) for each in kernel.views
        ),
        table=bool(of_table),
        elementwise=elementwise,
        in_one=kernel.reads_outputs and not elementwise,
        auto=kernel.autoschedule is not None and not request.machine.gpu,
        tiles=kernel.has_tiles,
        scalar=scalar,
        launches=tuple(found),
        not_on_gpu=why_not,
        lines=kernel.lines_of_tensors(),
        untiled=kernel.untiled,
        allocations=kernel.allocations,
        converted=kernel.converted,
    )
    (folder / "report.json").write_text(report.as_json(), "utf-8")
    if kernel.functions:
        (folder / TWINS).mkdir(exist_ok=True)
        (folder / TWINS / FUNCTIONS).write_text(json.dumps(kernel.functions), "utf-8")


def main() -> None:
    """Compile what is requested in a folder, into that folder; threads of the kernel end with this."""
    folder = Path(sys.argv[1])
    vars(udogen)["kernel"] = UncalledFunction
    try:
        code = _main(Request.of_json((folder / "request.json").read_text("utf-8")), folder)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _main(request: Request, folder: Path) -> int:
    def report(error: UdogenError) -> int:
        print(json.dumps(error.as_json()), file=sys.stderr)
        return error.exit_code

    # Without a place in the kernel it is LLVM, which ends the process if it cannot select instructions.
    on_exit.append(lambda place, fault: bool(place and report(BuildFailed(fault.message, hint=fault.hint))))
    record_places(folder / PLACE)
    try:
        with user_code(request.file):
            _run(request, folder, _limit)
    except Exception as fault:
        where = line_of_fault(fault, request.file)
        if isinstance(fault, MemoryError) or not (where or isinstance(fault, UdogenError)):
            raise
        if isinstance(fault, UdogenError):
            return report(fault)
        return report(UsageError(f"{where}: {text_of(fault)}", hint="fix the kernel"))
    return 0


if __name__ == "__main__":
    main()
