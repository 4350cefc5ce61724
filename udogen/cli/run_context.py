"""`udogen run context`: context binaries, restored and executed one after the other."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from udogen.cli import output
from udogen.cli.lazy import LazyChoice
from udogen.cli.options import (
    POSITIVE,
    SECONDS,
    argument,
    check_writable,
    given,
    json_option,
    option,
    pairs,
    prove_option,
    runtime_kind,
    soc_of,
    verb,
)
from udogen.errors import RunFailed, UdogenError, UsageError, VerificationFailed, write_file

if TYPE_CHECKING:
    from udogen.runtime.buffers.plan import BufferPlan
    from udogen.runtime.channel import LogLine
    from udogen.runtime.contexts.commands import ContextsOpened, ContextsPlaced, Job, OpLibrary, RunOptions
    from udogen.runtime.contexts.report import Result
    from udogen.runtime.models.commands import Divergence, StepsRan
    from udogen.runtime.models.description import ModelDescription
    from udogen.runtime.worker_process import WorkerProcess


def _runtimes() -> Iterable[str]:
    from udogen.backends import RUNTIMES

    return RUNTIMES


_ALIGNMENT = 64  # bytes
_LEVELS = {"error": 1, "warn": 2, "info": 3, "verbose": 4, "debug": 5}  # QnnLog_Level_t


@dataclass(frozen=True)
class RunContextOptions:
    """The options of the command line."""

    paths: tuple[Path, ...] = argument(metavar="DIR|FILE|model.toml...")
    folders: tuple[Path, ...] = option("--ctx_dir", metavar="DIR", help="The same as DIR.")
    graphs: tuple[str, ...] = option("--graph", metavar="NAME", help="Only this graph; may repeat (default: all).")
    packages: tuple[str, ...] = option(
        "--op-package", metavar="LIB|DIR[:PROVIDER[:TARGET]]",
        help="Register this op package first, a library or the folder it was built in; may repeat.",
    )  # fmt: skip
    links: tuple[str, ...] = option(
        "--link", metavar="INPUT=OUTPUT", help="A model: this input is an output of an earlier context; may repeat."
    )
    states: tuple[str, ...] = option(
        "--state", metavar="INPUT=OUTPUT",
        help="A model: this output becomes the input of the next step, and stays on the device; may repeat.",
    )  # fmt: skip
    steps: int | None = option("--steps", type=POSITIVE, metavar="N", help="A model: execute N steps.")
    feeds: tuple[str, ...] = option(
        "--feed", metavar="NAME=FILE",
        help="A model: an input, TENSOR or GRAPH:TENSOR (.npy, raw bytes); one array for all steps, or one for each.",
    )  # fmt: skip
    against: Path | None = option(
        "--against", metavar="FILE.npz",
        help="A model: compare tensors (CONTEXT.TENSOR, one array or one for each step); report the first difference.",
    )  # fmt: skip
    tolerance: float = option(
        "--tolerance", type=click.FloatRange(min=0), default=0.0, metavar="X",
        help="The allowed difference: in stored steps; for floats, a fraction of the range (default: 0).",
    )  # fmt: skip
    until: str = option("--until", metavar="CONTEXT|K", help="A model: end each step with this context.")
    dry_run: bool = option("--dry-run", help="A model: show links and state; execute nothing.")
    backend: str | None = option(
        "--backend", type=LazyChoice(_runtimes), help="Default: htp; for a model: the backend of its binaries."
    )
    kind: str = runtime_kind()
    library: Path | None = option("--qnn-lib", "--backend_so", help="The runtime library.")
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
    sessions: int | None = option(
        "--sessions", type=click.IntRange(min=0), metavar="N",
        help="Keep all contexts restored, on N sessions (0: one for each device), and show the plan.",
    )  # fmt: skip
    session_limit: str | None = option(
        "--session-limit", metavar="SIZE", help="The memory limit of a session: 3.5GB (the default), 2000MiB."
    )
    align: int = option(
        "--align", type=int, default=_ALIGNMENT, metavar="N", help="Align each tensor to N bytes (default: 64)."
    )
    separate: bool = option("--separate", help="A buffer for each tensor, instead of one for all.")
    shared: bool = option("--shared", help="Shared memory (rpcmem, memfd), bound by handle, instead of raw buffers.")
    plan_file: Path | None = option(
        "--bind-plan-out", "--bind_plan_out", "--plan", metavar="FILE",
        help="Write the place of each tensor as JSON.",
    )  # fmt: skip
    level: str | None = option(
        "--log-level", "--log_level", metavar="N", help="Show the runtime's log up to a level: 1 (error) to 5 (debug)."
    )
    loops: int = option("--loops", type=POSITIVE, default=1, metavar="N", help="Execute each graph N times.")
    prove: bool = prove_option()
    profile: bool = option("--profile", help="Show the runtime's measurements, per op if available.")
    trace_file: Path | None = option(
        "--trace", metavar="FILE.json", help="Write the runtime's measurements as a trace for Perfetto."
    )
    timeout: float | None = option("--timeout", type=SECONDS, metavar="SECONDS", help="The time limit of each context.")
    as_json: bool = json_option()

    @property
    def is_model(self) -> bool:
        """Whether the contexts run as one model."""
        from udogen.runtime.contexts.commands import is_description

        asked = self.links or self.states or self.steps or self.feeds or self.against or self.dry_run
        return bool(asked or self.until) or any(is_description(each) for each in self.paths)


@verb("context", RunContextOptions)
def command(options: RunContextOptions) -> int:
    """Example: udogen run context scale.bin --op-package out

    Restore context binaries, execute their graphs, and free them again.

    In a DIR, files named `forward_<i>.bin`, each with `forward_<i>_json.json` beside it, run in the order of their
    numbers; without such files every .bin runs.  They run in a child process: if one fails, the others still run, and
    the exit code is 5.

    With model.toml, --steps, --link, --state, --feed or --dry-run they run as one model: each context reads the outputs
    of the one before it, and state stays on the device from step to step.
    """
    if options.tolerance and not options.against:
        raise UsageError("--tolerance is for --against, which compares tensors", hint="give --against FILE.npz too")
    check_writable(options.plan_file, options.trace_file)
    if options.is_model:
        fault = _run_model(options)
        return fault.exit_code if fault else 0
    with _started("udogen.runtime.contexts.worker") as worker:
        done = _run(options, worker)
    fault = _unproved(done.results.values()) if options.prove else None
    wrong = _print(done, fault, options)
    return RunFailed.exit_code if wrong else fault.exit_code if fault else 0


@dataclass(frozen=True)
class _ContextResult:
    """The results of all contexts of a run."""

    jobs: list[Job]
    results: dict[int, Result]  # by the index of a job
    runtime: ContextsOpened
    placed: ContextsPlaced | None
    warnings: list[str]


@contextmanager
def _started(module: str) -> Iterator[WorkerProcess]:
    """A worker that imports its modules while this process prepares its first command."""
    from udogen.runtime.worker_process import WorkerProcess

    # Otherwise OpenBLAS's threads spin for 45 ms when numpy is imported, and take a core away from restoring.
    worker = WorkerProcess(module, {"OPENBLAS_THREAD_TIMEOUT": "4"})
    try:
        yield worker
    finally:
        if not worker.used:
            worker.end()


def _steps(options: RunContextOptions, worker: WorkerProcess) -> tuple[StepsRan, ContextsOpened]:
    from udogen.runtime.contexts import manifest
    from udogen.runtime.contexts.runs import ContextSession
    from udogen.runtime.failures import Situation
    from udogen.runtime.models.commands import RunSteps, StepsRan
    from udogen.runtime.models.description import resolved, shards_of

    description = resolved(_description(options))
    alone = replace(options, packages=(), sessions=None, session_limit=None)
    how = replace(
        _run_options(replace(alone, backend=description.backend, kind=description.runtime)),
        packages=tuple(_library(each, description.backend) for each in description.packages),
        soc=soc_of(description.soc or None, description.backend),
        prove=options.prove,
    )
    feeds = dict(pairs((*options.inputs, *options.feeds), "--feed"))
    if text := manifest.unverified([each.binary for each in shards_of(description)]):
        output.warn(text)
    command = RunSteps(
        description=description,
        steps=options.steps or (0 if options.against else 1),
        feeds=feeds,
        output_dir=options.output_dir,
        dry_run=options.dry_run,
        against=options.against,
        profile=how.profile,
        tolerance=options.tolerance,
    )
    with (
        output.emulator_steps(how.backend, how.kind) as advance,
        ContextSession(how, worker=_WORKER, first=worker, on_step=advance, on_log=_log_printer(options)) as session,
    ):
        paths = " ".join(map(str, [*options.paths, *options.folders]))
        return session.ask(command, StepsRan, Situation(paths, what="model")), session.runtime


def _run_model(options: RunContextOptions) -> UdogenError | None:
    """Run a model and print its steps; returns an error for a difference, or op packages that counted nothing."""
    from udogen.runtime.contexts.profile import write_trace
    from udogen.runtime.execution_counts import summary, unproved

    with _started(_WORKER) as worker:
        ran, runtime = _steps(options, worker)
    counts = summary(list(ran.proof or ()))
    unproven = unproved(counts) if options.prove and not options.dry_run else None
    fault: UdogenError | None = unproven or _difference(ran.first)
    if options.plan_file and ran.plan:
        _write_plans(options.plan_file, [ran.plan])
    if options.trace_file and ran.profiles:
        write_trace(options.trace_file, ran.profiles)
    if options.as_json:
        _print_json({**_model_json(ran, runtime), "bind_plan": str(options.plan_file or "") or None}, fault)
    else:
        _print_model(options, ran, runtime, counts)
        if fault:
            output.print_error(fault)
    return fault


def _print_model(
    options: RunContextOptions, ran: StepsRan, runtime: ContextsOpened, counts: Mapping[tuple[str, str, str], int]
) -> None:
    from udogen.runtime.execution_counts import sentences
    from udogen.runtime.models.commands import model_lines

    for line in (*model_lines(ran, f"{runtime.name} ({runtime.build_id})"), *sentences(counts)):
        output.print_result(line)
    if options.dry_run:
        words = [each for each in sys.argv[1:] if each != "--dry-run"] + ([] if options.steps else ["--steps", "1"])
        output.print_next(f"`{shlex.join(['udogen', *words])}` executes it")


def _model_json(ran: StepsRan, runtime: ContextsOpened) -> dict[str, Any]:
    found = {name: value for name, value in asdict(replace(ran, plan=None)).items() if name not in _PRINTED}
    return {**found, "runtime": asdict(runtime)}


def _print_json(report: dict[str, Any], fault: UdogenError | None, *, wrong: bool = False) -> None:
    """Print a report, with the error of the whole run, if any."""
    output.print_json({"ok": not wrong and not fault, **report, **({"error": fault.as_json()} if fault else {})})


def _difference(first: Divergence | None) -> VerificationFailed | None:
    """The error for a model with a tensor that differs; None if none does."""
    if first is None:
        return None
    return VerificationFailed(
        f"`{first.tensor}` is the first tensor that differs, in step {first.step}, by {first.apart:.3g} {first.unit}",
        hint="--tolerance X allows more; `until` ends the model with an earlier context",
    )


_WORKER = "udogen.runtime.models.worker"
_PRINTED = ("picture", "table", "memory", "plan")  # parts of a model's report that are for people, or in a file


def _description(options: RunContextOptions) -> ModelDescription:
    """The model that the command line describes: a file or folder, and options that replace parts of it."""
    from udogen.runtime.contexts.commands import is_description
    from udogen.runtime.models.description import ModelDescription, describe

    asked = given(options)
    for flag in ("--loops", "--separate", "--align", "--device"):
        if flag in asked:
            raise UsageError(f"{flag} is for contexts alone, not for a model", hint="leave it out; see --help")
    paths = [*options.paths, *options.folders]
    if not paths:
        raise UsageError("no model was given", hint="name model.toml, or a folder of context binaries; see --help")
    if len(paths) > 1 and any(is_description(each) for each in paths):
        raise UsageError("a description of a model stands alone", hint="leave out " + str(paths[-1]))
    found = describe(paths[0]) if len(paths) == 1 else ModelDescription(contexts=tuple(paths))
    changes = _changes(options)
    return found.changed({key: value for key, value in changes.items() if value or (key == "sessions" and value == 0)})


def _changes(options: RunContextOptions) -> dict[str, Any]:
    """The fields of a description that options replace; an empty value replaces nothing."""
    from udogen.runtime.contexts.commands import parse_package

    return {
        "packages": tuple(map(parse_package, options.packages)),
        "links": dict(pairs(options.links, "--link")),
        "state": dict(pairs(options.states, "--state")),
        "graphs": options.graphs,
        "backend": options.backend,
        "runtime": options.kind if options.kind != "auto" else "",
        "soc": options.soc,
        "sessions": options.sessions,
        "session_limit": options.session_limit and _limit(options.session_limit, options.sessions or 0, None),
        "memory": "shared" if options.shared else "",
        "until": options.until,
    }


def _log_printer(options: RunContextOptions) -> Callable[[LogLine], None] | None:
    if options.level is None:
        return None
    return lambda line: output.print_note(f"[{line.source} {line.level}] {line.text}")


def _run(options: RunContextOptions, worker: WorkerProcess) -> _ContextResult:
    from udogen.runtime.contexts import manifest
    from udogen.runtime.contexts.runs import (
        ContextSession,
        check_names,
        describe_contexts,
        place_contexts,
        run_contexts,
    )

    how = _run_options(options)
    jobs = _jobs([*options.paths, *options.folders])
    warnings = [text for text in (manifest.unverified([job.binary for job in jobs]),) if text]
    for text in warnings:
        output.warn(text)
    with (
        output.emulator_steps(how.backend, options.kind) as advance,
        ContextSession(how, first=worker, on_step=advance, on_log=_log_printer(options)) as session,
    ):
        described = list(describe_contexts(session, jobs))
        known = [(job, about) for job, about in described if not isinstance(about, UdogenError)]
        check_names(known, how.inputs, options.graphs)
        results: dict[int, Result] = {job.index: about for job, about in described if isinstance(about, UdogenError)}
        ready = [job for job in jobs if job.index not in results]
        placed = place_contexts(session, ready, how) if options.sessions is not None and ready else None
        with output.progress("contexts", total=len(ready)) if len(ready) > 1 else _quiet() as step:
            devices = None if placed is None else placed.devices
            for job, result in run_contexts(session, ready, how, devices=devices, on_context=step):
                results[job.index] = result
        runtime = session.runtime
    if options.plan_file:
        _write_plans(options.plan_file, [each.plan for each in results.values() if not isinstance(each, UdogenError)])
    return _ContextResult(jobs, results, runtime, placed, warnings)


def _run_options(options: RunContextOptions) -> RunOptions:
    """The checked options in the form that the runtime expects."""
    from udogen.backends import htp
    from udogen.runtime.contexts.commands import RunOptions, parse_package

    backend = options.backend or htp.BACKEND.id
    if options.prove and not options.packages and not options.is_model:
        raise UsageError("--prove is about op packages, and none was given", hint="--op-package LIB registers one")
    if options.align != _ALIGNMENT:
        from udogen.runtime.buffers.memory import check_alignment  # takes 8 ms, and few runs need it

        check_alignment(options.align)
    return RunOptions(
        backend=backend,
        kind=options.kind,
        library=options.library,
        system=options.system,
        soc=soc_of(options.soc, backend),
        device=options.device,
        packages=tuple(_library(parse_package(text), backend) for text in options.packages),
        log_level=_level(options.level),
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
        sessions=options.sessions,
        limit=_limit(options.session_limit, options.sessions, options.device),
    )


def _unproved(results: Iterable[Result]) -> UdogenError | None:
    from udogen.runtime.contexts.report import counts_of
    from udogen.runtime.execution_counts import unproved

    return unproved(counts_of(results))


def _jobs(paths: list[Path]) -> list[Job]:
    """The contexts to run, in order; prints notes about oddities of a folder."""
    from udogen.runtime.contexts.binaries import find_shards
    from udogen.runtime.contexts.runs import jobs_of

    if not paths:
        raise UsageError("no context was given", hint="name a folder of context binaries, or files; see --help")
    found = find_shards(paths)
    for each in found.notes:
        output.print_note(f"! {each}")
    return jobs_of(found.shards)


def _library(found: OpLibrary, backend: str) -> OpLibrary:
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


def _level(text: str | None) -> int:
    if text is None:
        return _LEVELS["warn"]
    number = _LEVELS.get(text.lower(), int(text) if text.isdecimal() else -1)
    if not 0 <= number <= max(_LEVELS.values()):
        raise UsageError(f"--log-level {text}: there is no such level", hint="1 to 5, or " + ", ".join(_LEVELS))
    return max(number, 1)


def _limit(text: str | None, sessions: int | None, device: int | None) -> int:
    if sessions is None and text is None:
        return 0
    if sessions is not None and device is not None:
        raise UsageError("--device and --sessions both choose where contexts run", hint="leave one of them out")
    from udogen.runtime.sessions.placement import DEFAULT_LIMIT, parse_size

    if text is None:
        return DEFAULT_LIMIT
    if sessions is None:
        raise UsageError("--session-limit is for --sessions", hint="give --sessions N too")
    size = parse_size(text)
    if size is None:
        raise UsageError(f"--session-limit {text}: this is not a size", hint="as in 3.5GB, 2000MiB")
    return size


@contextmanager
def _quiet() -> Iterator[Callable[[str], None]]:
    yield lambda _line: None


def _write_plans(file: Path, plans: Sequence[BufferPlan]) -> None:
    """Write the plans of all contexts as one."""
    from udogen.runtime.buffers.plan import join_plans

    write_file(file, json.dumps(join_plans(plans).as_json(), indent=2) + "\n")


def _print(done: _ContextResult, fault: UdogenError | None, options: RunContextOptions) -> bool:
    """Print each result; returns whether something failed."""
    from udogen.runtime.contexts import report
    from udogen.runtime.contexts.profile import write_trace

    rows = [(job, done.results[job.index]) for job in done.jobs]
    if options.trace_file:
        write_trace(options.trace_file, report.profiles_of(rows))
    wrong = any(report.went_wrong(result) for _, result in rows)
    if options.as_json:
        about = {
            "bind_plan": str(options.plan_file or "") or None,
            "sessions": done.placed and done.placed.plan,
            "warnings": done.warnings,
        }
        _print_json({**report.as_json(rows, done.runtime), **about}, fault, wrong=wrong)
        return wrong
    for line in (*done.placed.table, "") if done.placed else ():
        output.print_result(line)
    for line in report.lines(rows, done.runtime):
        output.print_result(line)
    if fault:
        output.print_error(fault)
    elif len(rows) > 1 and not wrong:
        paths = shlex.join(map(str, (*options.paths, *options.folders)))
        packages = "".join(f" --op-package {shlex.quote(each)}" for each in options.packages)
        output.print_next(f"`udogen run context {paths}{packages} --dry-run` shows them as one model")
    return wrong
