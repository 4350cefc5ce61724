"""`udogen run op`: one op of a built package in the real runtime."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen import backends
from udogen.build.package import open_packages
from udogen.cli import output
from udogen.cli.lazy import completed
from udogen.cli.options import (
    POSITIVE,
    SECONDS,
    argument,
    given,
    heap_option,
    json_option,
    option,
    pairs,
    prove_option,
    runtime_option,
    shape_of,
    soc_of,
    verb,
)
from udogen.errors import UsageError, VerificationFailed, read_plain, reading, writing
from udogen.opdef import datatypes

if TYPE_CHECKING:
    from udogen.findings import Finding
    from udogen.opdef.model import Op
    from udogen.runtime.built import Built
    from udogen.runtime.op.calls import Array, OpCall, OpResult, Packets

_SHOWN_FUNCTIONS = 8


def _ops(context: click.Context) -> list[str]:
    """The ops of the package that the command line names."""
    return [op for package in open_packages(Path(context.params["library"])) for op in package.ops]


@dataclass(frozen=True)
class RunOpOptions:
    """The options of the command line."""

    library: Path = argument()
    op: str = argument(shell_complete=completed(_ops))
    inputs: tuple[str, ...] = option(
        "--input", metavar="NAME=FILE.npy|2x3x4",
        help="An input, or its shape for random numbers; `NAME.0`, `NAME.1` … for a repeated input.",
    )  # fmt: skip
    params: tuple[str, ...] = option(
        "--param", metavar="NAME=VALUE", help="A parameter: 0.5, true, [1, 2], a string, or @FILE.npy."
    )
    outputs: tuple[str, ...] = option("--output", metavar="NAME=FILE.npy", help="Save an output.")
    quants: tuple[str, ...] = option(
        "--quant", metavar="NAME=SCALE,OFFSET", help="Quantization: real = SCALE * (stored + OFFSET)."
    )
    shapes: tuple[str, ...] = option(
        "--shape", metavar="NAME=2x3x4", help="The shape of an output (default: that of the first input)."
    )
    rules: Path | None = option(
        "--rules", metavar="FILE.py",
        help="Shape rules: Python functions, named like the ops, that return output shapes.",
    )  # fmt: skip
    dtypes: tuple[str, ...] = option(
        "--dtype", metavar="NAME=TYPE", help="The data type of a tensor or parameter, if several are possible."
    )
    backend: str = option(
        "--backend", metavar="NAME",
        help="cpu, gpu, htp, hexagon, dsp (default: the backend of LIBRARY; cpu if it has several).",
    )  # fmt: skip
    arch: str | None = option(
        "--arch", metavar="vNN", help="hexagon, dsp: compile for this version (v73, v66); htp: prepare for it."
    )
    kernel: str | None = option(
        "--kernel", metavar="NAME", help="hexagon: run the kernel with this name, or for this unit (main, hvx)."
    )
    slices: int | None = option(
        "--slices", type=click.IntRange(1, 64), metavar="N", help="hexagon: threads of a kernel with slices."
    )
    count: bool = option("--count", help="hexagon, dsp: count the packets of the kernel.")
    runtime: str = runtime_option()
    qnn_lib: Path | None = option(
        "--qnn-lib", metavar="PATH", help="The runtime library (default: QNN_SDK_ROOT, then the wheel)."
    )
    provider: str = option("--provider", metavar="SYMBOL", help="The interface provider (default: the only one).")
    loops: int = option(
        "--loops", type=POSITIVE, default=1, metavar="N", help="Execute N times; print the median time."
    )
    timeout: float | None = option("--timeout", type=SECONDS, metavar="SECONDS", help="Stop an op that takes longer.")
    target: str | None = option(
        "--target", metavar="NAME", help="The target to register for (default: none, which fits this machine)."
    )
    soc: str | None = option(
        "--soc", metavar="NAME",
        help="htp: the processor to prepare for: SM8650, its number, or a version of Hexagon (v75).",
    )  # fmt: skip
    save_context: Path | None = option("--save-context", metavar="FILE", help="Save the finalized graph to this file.")
    context: Path | None = option("--context", metavar="FILE", help="Restore a graph saved by --save-context.")
    heap: bool = heap_option()
    prove: bool = prove_option()
    force: bool = option("--force", help="Run a package that is built for another release of the SDK.")
    verbose: bool = option("-v", "--verbose", help="Show the log of the runtime and the package.")
    as_json: bool = json_option()

    @property
    def hexagon(self) -> bool:
        """Whether kernels are compiled for Hexagon and run under QEMU."""
        place = backends.PLACES.get(self.backend)
        return place is not None and place.instructions

    @property
    def config_backend(self) -> str:
        """The backend whose config and package are used."""
        place = backends.PLACES.get(self.backend)
        return place.config if place is not None else self.backend


@verb("op", RunOpOptions)
def command(options: RunOpOptions) -> int:
    """Example: udogen run op out Scale --backend htp --input x=2x3x4

    Register LIBRARY (a library, or the folder of a package), make a graph with the op OP, and execute it.

    The op runs in a child process: a crash becomes an error message.  The backends `hexagon` and `dsp` are not
    runtimes: they compile the HTP or DSP package in LIBRARY for the Hexagon instruction set, and run its kernel under
    qemu-hexagon.
    """
    from udogen.runtime.execution_counts import proved
    from udogen.verify.safety.findings import findings_of_run

    options = _checked(options)
    files = dict(pairs(options.outputs, "--output"))
    built = _built(options)
    warnings = [text for text in ("" if options.hexagon else built.outdated, _unverified(options.context)) if text]
    for text in warnings:
        output.warn(text)
    # Before any process is started, because names and values may be wrong.
    call = _call(built, options, files)
    result = _on_hexagon(built, call, options) if options.hexagon else _run(built, call, options)
    if options.prove:
        proved(result.proof, built.library)
    else:
        result = replace(result, proof=None)
    if options.verbose:
        for line in result.logs:
            output.print_note(f"[{line.source} {line.level}] {line.text}")
    if options.save_context is not None and result.context is not None:
        from udogen.runtime.contexts import manifest

        manifest.save(options.save_context, result.context, build_id=result.runtime.build_id)
    saved = {name: _save(files[name], array) for name, array in result.outputs.items() if name in files}
    findings = findings_of_run(built, result, options.op) if options.heap else None
    done = _OpResult(options, built, result, saved, findings, warnings)
    if options.as_json:
        output.print_json(_as_json(done))
    else:
        _print(done)
    return VerificationFailed.exit_code if findings else 0


@dataclass(frozen=True)
class _OpResult:
    """The result of one run, and how it was requested."""

    options: RunOpOptions
    built: Built
    result: OpResult
    saved: dict[str, str]  # output -> its file
    findings: Sequence[Finding] | None  # of the heap
    warnings: Sequence[str]


def _checked(options: RunOpOptions) -> RunOpOptions:
    """The options with their backend; an error if they do not fit together."""
    from udogen.runtime.built import backend_of

    options = replace(options, backend=options.backend or backend_of(options.library))
    backend = backends.ALL.get(options.backend)
    if backend is not None and backend.prepares_for_soc and options.arch is not None:
        if options.soc is not None:
            raise UsageError("--arch and --soc both name HTP's processor", hint="leave one of them out")
        options = replace(options, soc=options.arch, arch=None)
    _check_backend_options(options)
    return options


def _check_backend_options(options: RunOpOptions) -> None:
    """Raise for an option that the backend does not support."""
    from udogen.build import qemu_hexagon

    records = ("--kernel", "--slices")
    of_hexagon = ("--arch", "--count", *records)
    of_runtimes: tuple[str, ...] = (
        *("--qnn-lib", "--provider", "--target", "--soc", "--save-context", "--context"),
        *("--force", "--heap", "--prove", "--runtime"),
    )
    if options.hexagon and not qemu_hexagon.harness_of(options.config_backend).records:
        of_runtimes = (*of_runtimes, *records)
    asked = given(options)
    for flag in (each for each in (of_runtimes if options.hexagon else of_hexagon) if each in asked):
        hint = "only --backend hexagon has it" if flag in of_hexagon else "it has no Qualcomm runtime in it"
        raise UsageError(f"{flag} means nothing with --backend {options.backend}", hint=hint)


def _built(options: RunOpOptions) -> Built:
    from udogen.runtime.built import find_built, find_source

    if options.hexagon:
        return find_source(options.library, backend=options.config_backend)
    return find_built(options.library, backend=options.backend, provider=options.provider)


def _call(built: Built, options: RunOpOptions, files: Mapping[str, str]) -> OpCall:
    """The call; its names and values are compared with the config, if there is one."""
    from udogen.runtime.op.request import CallOptions, make_call
    from udogen.verify.test_files.values import load_array

    built.check_op(options.op)
    op = built.op(options.op, options.config_backend)
    asked = CallOptions(
        inputs={name: _input(name, text, op) for name, text in pairs(options.inputs, "--input")},
        params={
            name: load_array(Path(v[1:])) if v.startswith("@") else v for name, v in pairs(options.params, "--param")
        },
        quants={name: _quant(name, text) for name, text in pairs(options.quants, "--quant")},
        dtypes=dict(pairs(options.dtypes, "--dtype")),
        shapes={name: shape_of(name, text) for name, text in pairs(options.shapes, "--shape")},
        outputs=tuple(files),
        loops=options.loops,
        rules=options.rules,
    )
    call = make_call(op, built, options.op, asked)
    for tensor in (*call.inputs, *call.outputs):
        if tensor.name in asked.quants and not datatypes.BY_NAME[tensor.dtype].quantized:
            raise UsageError(
                f"--quant {tensor.name}: the tensor is {tensor.dtype}, which has no scale",
                hint=f"--dtype {tensor.name}=UFIXED_POINT_8, or leave it out",
            )
    return replace(call, context=_content(options.context), save_context=options.save_context is not None)


def _run(built: Built, call: OpCall, options: RunOpOptions) -> OpResult:
    """Run the call in a runtime."""
    from udogen.runtime.op.calls import POISON, refuse_unwritten
    from udogen.runtime.op.session import OpSession
    from udogen.runtime.op.watch import Watch
    from udogen.verify.safety.findings import preloaded

    if options.loops == 1 and not options.heap and options.save_context is None:
        call = replace(call, poison=POISON)
    with (
        output.emulator_steps(options.backend, options.runtime) as advance,
        OpSession(
            built.library,
            built.provider,
            backend=options.backend,
            runtime=options.runtime,
            qnn_lib=options.qnn_lib,
            on_step=advance,
            timeout=options.timeout,
            target=options.target,
            soc=soc_of(options.soc, options.backend),
            force=options.force,
            poison=call.poison,
            preload=preloaded(heap=options.heap),
        ) as session,
    ):
        result = session.run(call, Watch(heap=options.heap))
        # Timed, watched and saved graphs run without poison.
        refuse_unwritten(session.run, call, result if call.poison else None)
    return result


def _on_hexagon(built: Built, call: OpCall, options: RunOpOptions) -> OpResult:
    """Compile what has changed of the package for Hexagon, and run the call under QEMU."""
    from udogen.runtime.hexagon import session as hexagon
    from udogen.runtime.hexagon.wire import KernelChoice
    from udogen.runtime.op.calls import POISON, refuse_unwritten

    assert built.folder is not None
    with output.progress(f"{built.package} for Hexagon", total=len(built.folder.sources) + 1) as advance:
        session = hexagon.HexagonSession(
            built.folder,
            arch=options.arch or "",
            kernel=KernelChoice(options.kernel or "", options.slices or 1),
            count=options.count,
            timeout=options.timeout,
            on_step=advance,
        )
        result = session.run(replace(call, poison=POISON))
        refuse_unwritten(session.run, call, result)
        return result


def _as_json(done: _OpResult) -> dict[str, object]:
    result, options, findings = done.result, done.options, done.findings
    times, runtime = result.times, result.runtime
    about = {"name": runtime.name, "build_id": runtime.build_id, "path": runtime.path}
    return {
        "ok": not findings,
        "op": options.op,
        "package": done.built.package,
        "backend": options.backend,
        "runtime": {**about, **({"emulator": True} if runtime.emulator else {})},
        "outputs": {
            name: {
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                "file": done.saved.get(name),
                **({} if name in done.saved or array.size > 4096 else {"data": array.tolist()}),
            }
            for name, array in result.outputs.items()
        },
        "seconds": {"create": times.create, "finalize": times.finalize, "execute": times.execute},
        **({"kernel": result.kernel} if result.kernel else {}),
        **({"packets": _counted(result.packets)} if result.packets else {}),
        **({"proof": result.proof.as_json()} if result.proof else {}),
        **({"warnings": list(done.warnings)} if done.warnings else {}),
        **({"heap": [finding.as_json() for finding in findings]} if findings is not None else {}),
    }


def _print(done: _OpResult) -> None:
    result, times, runtime = done.result, done.result.times, done.result.runtime
    if runtime.build_id:
        took = f"({runtime.build_id}), {times.execute * 1e6:.1f} µs per execute"
    else:  # an emulator of the instruction set: its time is meaningless
        took = f"(kernel {result.kernel})"
    output.print_result(f"{done.built.package}::{done.options.op} ran on {runtime.name} {took}")
    for name, array in result.outputs.items():
        shape = "x".join(str(extent) for extent in array.shape) or "scalar"
        span = f", {array.min():.6g} … {array.max():.6g}" if array.size and array.dtype.kind in "fiub" else ""
        file = f" -> {done.saved[name]}" if name in done.saved else ""
        output.print_result(f"  {name}: {array.dtype} {shape}{span}{file}")
    if result.proof:
        output.print_result(f"  {result.proof.sentence}")
    if done.findings is not None and not done.findings:
        output.print_result("  the op does not use the heap while it executes")
    output.print_findings(done.findings or ())
    if result.packets:
        _print_packets(result.packets)
    if sys.stderr.isatty():
        _print_notes(done)
    _print_next(done)


def _print_notes(done: _OpResult) -> None:
    """Print what the time includes."""
    loops = done.options.loops
    if done.result.runtime.build_id:
        measured = f"median of {loops:,} executions" if loops > 1 else "first execution (--loops 100: median)"
        output.print_note(f"  time: {measured}, including the runtime's overhead")
        if (backend := backends.ALL.get(done.options.backend)) and backend.prepares_for_soc:
            output.print_note("  times in Qualcomm's emulator on a PC do not predict those on a device")


def _print_next(done: _OpResult) -> None:
    """Print the command that shows how a program uses the package."""
    path, backend, folder = shlex.quote(str(done.options.library)), done.options.backend, done.built.folder
    if done.options.hexagon or folder is None or folder.kind.registration:
        output.print_next(f"`udogen inspect {path}` checks what is built")
        return
    client = "ort" if f"{backend}-ort" in backends.PLACES and len(folder.ops) == 1 else "qnn-net-run"
    output.print_next(f"`udogen register {path} --client {client} --target {backend}` prints what a program needs")


def _print_packets(found: Packets) -> None:
    functions = found.functions
    glue = sum(packets for name, packets in functions if _is_glue(name))
    shares = f"{found.total - glue:,} in the kernel, {glue:,} in generated code and the C library"
    output.print_result(f"  {found.total:,} packets in one execution: {shares}")
    for function, packets in functions[:_SHOWN_FUNCTIONS]:
        output.print_result(f"  {packets:>15,}  {function if len(function) < 90 else function[:87] + '...'}")
    if len(functions) > _SHOWN_FUNCTIONS:
        rest = sum(packets for _, packets in functions[_SHOWN_FUNCTIONS:])
        output.print_result(f"  {rest:>15,}  in {len(functions) - _SHOWN_FUNCTIONS} more functions")


def _is_glue(function: str) -> bool:
    """Whether a function is generated, or part of the C library; not `Run`, because the kernel may be inlined there."""
    return re.match(r"(\w+ )?udo::(?!glue::Run)|(\w+ )?ops::\w+::\w+::Op::|(mem|str)\w+$|__", function) is not None


def _counted(packets: Packets) -> dict[str, object]:
    functions = [{"name": name, "packets": number} for name, number in packets.functions]
    return {"total": packets.total, "functions": functions}


def _unverified(context: Path | None) -> str:
    from udogen.runtime.contexts import manifest

    return manifest.unverified([context]) if context is not None and context.is_file() else ""


def _content(file: Path | None) -> bytes | None:
    from udogen.runtime.contexts import manifest

    if file is None:
        return None
    with reading(file, hint="give a file of --save-context"):
        manifest.check(file).refuse()
        return read_plain(file)


def _input(name: str, text: str, op: Op | None) -> Array:
    """The array in a file; for a shape, random numbers of the first type that the input accepts."""
    import numpy as np

    from udogen.verify.test_files.values import load_array

    if not text[:1].isdigit() or Path(text).suffix or Path(text).exists():
        return load_array(Path(text))
    shape = shape_of(name, text, "--input")
    known = [tensor for tensor in op.inputs if tensor.name in (name, name.rpartition(".")[0])] if op else []
    dtype = np.dtype((known[0].accepted[0].numpy if known else "") or "float32")
    random = np.random.default_rng(0)
    most = 2 if dtype.kind == "b" else 100
    found: Array = random.normal(size=shape) if dtype.kind == "f" else random.integers(0, most, shape)
    return found.astype(dtype)


def _save(file: str, array: Array) -> str:
    import numpy as np

    with writing(file), open(file, "wb") as stream:
        np.save(stream, array)
    return file


def _quant(name: str, text: str) -> tuple[float, int]:
    scale, _, offset = text.partition(",")
    try:
        found = (float(scale), int(offset or "0"))
    except ValueError:
        raise UsageError(f"--quant {name}={text}: this is not SCALE,OFFSET", hint="as in --quant x=0.05,-128") from None
    if not 0 < found[0] < float("inf"):
        raise UsageError(f"--quant {name}={text}: the scale must be positive", hint="as in --quant x=0.05,-128")
    if not -(1 << 31) <= found[1] < 1 << 31:
        raise UsageError(f"--quant {name}=…: the offset does not fit into 32 bits", hint="as in --quant x=0.05,-128")
    return found
