"""`udogen run context`: context binaries, restored and executed one after the other."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from udogen.cli import output
from udogen.cli.lazy import NameChoice
from udogen.cli.options import (
    POSITIVE,
    SECONDS,
    argument,
    check_writable,
    json_option,
    level_option,
    option,
    pairs,
    profile_option,
    prove_option,
    runtime_option,
    soc_of,
    trace_option,
    verb,
)
from udogen.errors import RunFailed, UdogenError, UsageError, write_file

if TYPE_CHECKING:
    from udogen.runtime.buffers.plan import BufferPlan
    from udogen.runtime.channel import LogLine
    from udogen.runtime.contexts.binaries import Shard
    from udogen.runtime.contexts.commands import OpLibrary, RunOptions
    from udogen.runtime.contexts.report import Result
    from udogen.runtime.library import RuntimeInfo
    from udogen.runtime.worker_process import WorkerProcess


def _runtimes() -> Iterable[str]:
    from udogen.backends import RUNTIMES

    return RUNTIMES


_ALIGNMENT = 64  # bytes
_LEVELS = {"error": 1, "warn": 2, "info": 3, "verbose": 4, "debug": 5}  # QnnLog_Level_t


@dataclass(frozen=True)
class RunContextOptions:
    """The options of the command line."""

    paths: tuple[Path, ...] = argument(metavar="DIR|FILE...")
    folders: tuple[Path, ...] = option("--ctx_dir", metavar="DIR", help="The same as DIR.")
    graphs: tuple[str, ...] = option("--graph", metavar="NAME", help="Only this graph; may repeat (default: all).")
    packages: tuple[str, ...] = option(
        "--op-package", metavar="LIB|DIR[:PROVIDER[:TARGET]]",
        help="Register this op package first, a library or the folder it was built in; may repeat.",
    )  # fmt: skip
    backend: str | None = option("--backend", type=NameChoice(_runtimes), help="Default: htp.")
    runtime: str = runtime_option()
    qnn_lib: Path | None = option("--qnn-lib", "--backend_so", help="The runtime library.")
    system: Path | None = option("--system_so", help="libQnnSystem.so (default: beside the runtime).")
    soc: str | None = option(
        "--soc", metavar="NAME", help="htp: the processor to restore for (SM8650, its number, v75)."
    )
    device: int | None = option(
        "--device", type=click.IntRange(min=0), metavar="N", help="htp: run on HTP<N> of the platform."
    )
    inputs: tuple[str, ...] = option(
        "--input", metavar="NAME=FILE",
        help="An input (.npy, or raw bytes): TENSOR, GRAPH:TENSOR or CONTEXT:GRAPH:TENSOR.  Others are zeros.",
    )  # fmt: skip
    output_dir: Path | None = option("--output-dir", metavar="DIR", help="Save outputs here, as .npy.")
    align: int = option(
        "--align", type=int, default=_ALIGNMENT, metavar="N", help="Align each tensor to N bytes (default: 64)."
    )
    separate: bool = option("--separate", help="A buffer for each tensor, instead of one for all.")
    shared: bool = option("--shared", help="Shared memory (rpcmem, memfd), bound by handle, instead of raw buffers.")
    plan_file: Path | None = option(
        "--bind-plan-out", "--bind_plan_out", "--plan", metavar="FILE",
        help="Write the place of each tensor as JSON.",
    )  # fmt: skip
    level: str | None = level_option()
    loops: int = option("--loops", type=POSITIVE, default=1, metavar="N", help="Execute each graph N times.")
    prove: bool = prove_option()
    profile: bool = profile_option()
    trace_file: Path | None = trace_option()
    timeout: float | None = option("--timeout", type=SECONDS, metavar="SECONDS", help="The time limit of each context.")
    as_json: bool = json_option()


@verb("context", RunContextOptions)
def command(options: RunContextOptions) -> int:
    """Example: udogen run context scale.bin --op-package out

    Restore context binaries, execute their graphs, and free them again.

    In a DIR, files named `forward_<i>.bin`, each with `forward_<i>_json.json` beside it, run in the order of their
    numbers; without such files every .bin runs.  They run in a child process: if one fails, the others still run, and
    the exit code is 5.

    `udogen run steps` executes them as one model.
    """
    check_writable(options.plan_file, options.trace_file)
    with started("udogen.runtime.contexts.worker") as worker:
        done = _run(options, worker)
    fault = _unproved(done.results.values()) if options.prove else None
    wrong = _print(done, fault, options)
    return RunFailed.exit_code if wrong else fault.exit_code if fault else 0


@dataclass(frozen=True)
class _ContextResult:
    """The results of all contexts of a run."""

    shards: tuple[Shard, ...]
    results: dict[str, Result]  # by the name of a shard
    runtime: RuntimeInfo
    warnings: list[str]


@contextmanager
def started(module: str) -> Iterator[WorkerProcess]:
    """A worker that imports its modules while this process prepares its first command."""
    from udogen.runtime.worker_process import WorkerProcess

    # Otherwise OpenBLAS's threads spin for 45 ms when numpy is imported, and take a core away from restoring.
    worker = WorkerProcess(module, {"OPENBLAS_THREAD_TIMEOUT": "4"})
    try:
        yield worker
    finally:
        if not worker.used:
            worker.end()


def print_report(report: dict[str, Any], fault: UdogenError | None, *, wrong: bool = False) -> None:
    """Print a report, with the error of the whole run, if any."""
    output.print_json({"ok": not wrong and not fault, **report, **({"error": fault.as_json()} if fault else {})})


def log_printer(level: str | None) -> Callable[[LogLine], None] | None:
    """A function that prints lines of the log, if a level was given."""
    if level is None:
        return None
    return lambda line: output.print_note(f"[{line.source} {line.level}] {line.text}")


def _run(options: RunContextOptions, worker: WorkerProcess) -> _ContextResult:
    from udogen.runtime.contexts import manifest
    from udogen.runtime.contexts.runs import (
        ContextSession,
        check_names,
        describe_contexts,
        run_contexts,
    )

    how = _run_options(options)
    shards = _shards([*options.paths, *options.folders])
    warnings = [text for text in (manifest.unverified([shard.binary for shard in shards]),) if text]
    for text in warnings:
        output.warn(text)
    with (
        output.emulator_steps(how.backend, options.runtime) as advance,
        ContextSession(how, first=worker, on_step=advance, on_log=log_printer(options.level)) as session,
    ):
        described = list(describe_contexts(session, shards))
        known = [(shard, about) for shard, about in described if not isinstance(about, UdogenError)]
        check_names(known, how.inputs, options.graphs)
        results: dict[str, Result] = {shard.name: about for shard, about in described if isinstance(about, UdogenError)}
        ready = [shard for shard in shards if shard.name not in results]
        with output.progress("contexts", total=len(ready)) if len(ready) > 1 else _quiet() as step:
            for shard, result in run_contexts(session, ready, how, on_context=step):
                results[shard.name] = result
        runtime = session.runtime
    if options.plan_file:
        write_plans(options.plan_file, [each.plan for each in results.values() if not isinstance(each, UdogenError)])
    return _ContextResult(shards, results, runtime, warnings)


def _run_options(options: RunContextOptions) -> RunOptions:
    """The checked options in the form that the runtime expects."""
    from udogen.backends import htp
    from udogen.runtime.contexts.commands import RunOptions, parse_package

    backend = options.backend or htp.BACKEND.id
    if options.align != _ALIGNMENT:
        from udogen.runtime.buffers.memory import check_alignment  # takes 8 ms, and few runs need it

        check_alignment(options.align)
    return RunOptions(
        backend=backend,
        runtime=options.runtime,
        qnn_lib=options.qnn_lib,
        system=options.system,
        soc=soc_of(options.soc, backend),
        device=options.device,
        packages=tuple(library_of(parse_package(text), backend) for text in options.packages),
        log_level=log_level(options.level),
        graphs=options.graphs,
        inputs=dict(pairs(options.inputs, "--input")),
        output_dir=options.output_dir,
        loops=options.loops,
        profile=options.profile or options.trace_file is not None,
        prove=options.prove,
        alignment=options.align,
        packed=not options.separate,
        shared=options.shared,
        timeout=options.timeout,
    )


def _unproved(results: Iterable[Result]) -> UdogenError | None:
    from udogen.runtime.contexts.report import counts_of
    from udogen.runtime.execution_counts import unproved

    return unproved(counts_of(results))


def _shards(paths: list[Path]) -> tuple[Shard, ...]:
    """The contexts to run, in order; prints notes about oddities of a folder."""
    from udogen.runtime.contexts.binaries import find_shards
    from udogen.runtime.contexts.commands import is_description

    if not paths:
        raise UsageError("no context was given", hint="name a folder of context binaries, or files; see --help")
    if described := [path for path in paths if is_description(path)]:
        raise UsageError(f"{described[0]} describes a model", hint=f"`udogen run steps {described[0]}` executes it")
    found = find_shards(paths)
    for note in found.notes:
        output.print_note(f"! {note}")
    return found.shards


def library_of(found: OpLibrary, backend: str) -> OpLibrary:
    """The library of an op package, which may be named by the folder in which it was built."""
    from udogen.runtime.built import find_built, outdated
    from udogen.runtime.contexts.commands import OpLibrary

    path, provider = found.path, found.provider
    if path.is_dir():
        built = find_built(path, backend=backend, provider=provider)
        path, provider = built.library, built.provider
    if why := outdated(path):
        output.warn(why)
    return OpLibrary(path, provider, found.target)


def log_level(text: str | None) -> int:
    """The number of a log level."""
    if text is None:
        return _LEVELS["warn"]
    number = _LEVELS.get(text.lower(), int(text) if text.isdecimal() else -1)
    if not 0 <= number <= max(_LEVELS.values()):
        raise UsageError(f"--log-level {text}: there is no such level", hint="1 to 5, or " + ", ".join(_LEVELS))
    return max(number, 1)


@contextmanager
def _quiet() -> Iterator[Callable[[str], None]]:
    yield lambda _line: None


def write_plans(file: Path, plans: Sequence[BufferPlan]) -> None:
    """Write the plans of all contexts as one."""
    from udogen.runtime.buffers.plan import join_plans

    write_file(file, json.dumps(join_plans(plans).as_json(), indent=2) + "\n")


def _print(done: _ContextResult, fault: UdogenError | None, options: RunContextOptions) -> bool:
    """Print each result; returns whether something failed."""
    from udogen.runtime.contexts import report
    from udogen.runtime.contexts.report import write_trace

    rows = [(shard, done.results[shard.name]) for shard in done.shards]
    if options.trace_file:
        write_trace(options.trace_file, report.profiles_of(rows))
    wrong = any(report.went_wrong(result) for _, result in rows)
    if options.as_json:
        about = {
            "bind_plan": str(options.plan_file or "") or None,
            "warnings": done.warnings,
        }
        print_report({**report.as_json(rows, done.runtime), **about}, fault, wrong=wrong)
        return wrong
    for line in report.lines(rows, done.runtime):
        output.print_result(line)
    if fault:
        output.print_error(fault)
    elif len(rows) > 1 and not wrong:
        _print_steps(options)
    return wrong


def _print_steps(options: RunContextOptions) -> None:
    """Print the command for the contexts as one model, if they are in one file or folder."""
    if len(paths := [*options.paths, *options.folders]) == 1:
        words = shlex.join(
            [str(paths[0]), *(word for package in options.packages for word in ("--op-package", package))]
        )
        output.print_next(f"`udogen run steps {words} --dry-run` shows them as one model")
