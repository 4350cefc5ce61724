"""`udogen run context`: context binaries, restored and executed one after the other."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from udogen.cli import output
from udogen.cli.lazy import LazyChoice
from udogen.cli.options import pairs, prove_option, runtime_kind, soc_of
from udogen.errors import RunFailed, UdogenError, UsageError, VerificationFailed, writing

if TYPE_CHECKING:
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


@click.command("context")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="DIR|FILE|model.toml...")
@click.option("--ctx_dir", "folders", multiple=True, type=click.Path(path_type=Path), metavar="DIR", help="The same.")
@click.option("--graph", "graphs", multiple=True, metavar="NAME", help="Only this graph; may repeat (default: all).")
@click.option(
    "--op-package",
    "packages",
    multiple=True,
    metavar="LIB|DIR[:PROVIDER[:TARGET]]",
    help="Register this op package first, a library or the folder it was built in; may repeat.",
)
@click.option(
    "--link",
    "links",
    multiple=True,
    metavar="INPUT=OUTPUT",
    help="A model: this input is the output of a context before it; may repeat.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="INPUT=OUTPUT",
    help="A model: this output is the input's value in the next step, and stays on the device; may repeat.",
)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="A model: execute N steps.")
@click.option(
    "--feed",
    "feeds",
    multiple=True,
    metavar="NAME=FILE",
    help="A model: an input, TENSOR or GRAPH:TENSOR (.npy, raw bytes); one array for all steps, or one for each.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FILE.npz",
    help="A model: compare tensors (CONTEXT.TENSOR, one array or one for each step); the first that differs is named.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="X",
    help="How far they may be off: in stored steps, of floats as a part of the range (default: 0).",
)
@click.option("--until", default="", metavar="CONTEXT|K", help="A model: end each step with this context.")
@click.option(
    "--replace",
    "replaced",
    multiple=True,
    metavar="CONTEXT=FILE.py:FUNCTION",
    help="A model: compute a context by a Python function of (graph, inputs); may repeat.",
)
@click.option(
    "--shard-runtime",
    "shard_runtimes",
    multiple=True,
    metavar="CONTEXT=RUNTIME[:FILE]",
    help="A model: run a context in another runtime (emulator, cpu, htp …), from its binary for that; may repeat.",
)
@click.option("--dry-run", is_flag=True, help="A model: show how its contexts belong together; nothing is executed.")
@click.option("--backend", type=LazyChoice(_runtimes), help="Default: htp; of a model that of its binaries.")
@runtime_kind
@click.option("--qnn-lib", "--backend_so", "library", type=click.Path(path_type=Path), help="The runtime library.")
@click.option("--system_so", "system", type=click.Path(path_type=Path), help="libQnnSystem.so (default: beside it).")
@click.option("--soc", metavar="NAME", help="htp: the processor to restore for (SM8650, its number, v75).")
@click.option("--device", type=click.IntRange(min=0), metavar="N", help="htp: run on HTP<N> of the platform.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="An input (.npy, or raw bytes): TENSOR, GRAPH:TENSOR or CONTEXT:GRAPH:TENSOR.  Others are zeros.",
)
@click.option("--output-dir", type=click.Path(path_type=Path), metavar="DIR", help="Where outputs are saved, as .npy.")
@click.option(
    "--sessions",
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep all contexts restored, on N sessions (0: one for each device); the plan is shown.",
)
@click.option("--session-limit", metavar="SIZE", help="What a session may map: 3.5GB (the default), 2000MiB.")
@click.option("--align", type=int, default=_ALIGNMENT, metavar="N", help="Align each tensor to N bytes (default: 64).")
@click.option("--separate", is_flag=True, help="A buffer for each tensor, instead of one for all.")
@click.option("--shared", is_flag=True, help="Shared memory (rpcmem, memfd), bound by handle, instead of raw buffers.")
@click.option(
    "--bind-plan-out",
    "--bind_plan_out",
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write which tensor lies where, as JSON, and as a picture beside it (.svg).",
)
@click.option(
    "--log-level", "--log_level", "level", metavar="N", help="Show what the runtime logs: 1 (error) to 5 (debug)."
)
@click.option("--loops", type=click.IntRange(min=1), default=1, metavar="N", help="Execute each graph N times.")
@prove_option
@click.option("--profile", is_flag=True, help="Show what the runtime measures, of each op where it does.")
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="Write what the runtime measures as a trace that Perfetto opens.",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each context.")
@output.json_option
@click.pass_context
def command(click_context: click.Context, /, **given: Any) -> None:
    """Restore context binaries, execute their graphs, and free them again.

    In a DIR, `forward_<i>.bin` with `forward_<i>_json.json` beside it are taken in the order of their numbers, or else
    every .bin.  They run in a child process: one that fails is reported, and the others go on; the exit code is 5 then.

    With model.toml, --steps, --link, --state, --feed or --dry-run they run as one model: what a context writes is what
    the next one reads, and state stays on the device from step to step.
    """
    options = RunContextOptions(**given)
    if options.is_model:
        fault = _run_model(options)
        if fault:
            click_context.exit(fault.exit_code)
        return
    with _started("udogen.runtime.contexts.worker") as worker:
        done = _run(options, worker)
    fault = _unproved(done.results.values()) if options.prove else None
    wrong = _print(done, fault, options)
    if wrong or fault:
        click_context.exit(RunFailed.exit_code if wrong or not fault else fault.exit_code)


@dataclass(frozen=True)
class RunContextOptions:
    """The options of the command line."""

    paths: tuple[Path, ...]
    folders: tuple[Path, ...] = ()
    graphs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    steps: int | None = None
    feeds: tuple[str, ...] = ()
    against: Path | None = None
    tolerance: float = 0.0
    until: str = ""
    replaced: tuple[str, ...] = ()
    shard_runtimes: tuple[str, ...] = ()
    dry_run: bool = False
    backend: str | None = None
    kind: str = "auto"
    library: Path | None = None
    system: Path | None = None
    soc: str | None = None
    device: int | None = None
    inputs: tuple[str, ...] = ()
    output_dir: Path | None = None
    sessions: int | None = None
    session_limit: str | None = None
    align: int = _ALIGNMENT
    separate: bool = False
    shared: bool = False
    plan_file: Path | None = None
    level: str | None = None
    loops: int = 1
    prove: bool = False
    profile: bool = False
    trace_file: Path | None = None
    timeout: float | None = None
    as_json: bool = False

    @property
    def is_model(self) -> bool:
        """Whether the contexts are to run as one model."""
        from udogen.runtime.contexts.commands import is_description

        asked = self.links or self.states or self.steps or self.feeds or self.against or self.dry_run
        changed = self.until or self.replaced or self.shard_runtimes
        return bool(asked or changed) or any(is_description(each) for each in self.paths)


@dataclass(frozen=True)
class _ContextResult:
    """The result of one run."""

    jobs: list[Job]
    results: dict[int, Result]  # by the index of a job
    runtime: ContextsOpened
    placed: ContextsPlaced | None
    warnings: list[str]


@contextmanager
def _started(module: str) -> Iterator[WorkerProcess]:
    """A worker that imports what it needs while this process prepares its first command."""
    from udogen.runtime.worker_process import WorkerProcess

    worker = WorkerProcess(module)
    try:
        yield worker
    finally:
        if not worker.used:
            worker.end()


def run_steps(options: RunContextOptions, *, stop: bool = False) -> tuple[StepsRan, ContextsOpened]:
    """Run the contexts as one model: what came of its steps, and in which runtime."""
    with _started(_WORKER) as worker:
        return _steps(options, worker, stop)


def _steps(options: RunContextOptions, worker: WorkerProcess, stop: bool) -> tuple[StepsRan, ContextsOpened]:
    from udogen.runtime.contexts import manifest
    from udogen.runtime.contexts.runs import ContextSession
    from udogen.runtime.failures import Situation
    from udogen.runtime.models.commands import RunSteps, StepsRan
    from udogen.runtime.models.description import resolved, shards_of

    description = resolved(_description(options))
    how = replace(
        _run_options(replace(options, backend=description.backend, kind=description.runtime, packages=())),
        packages=tuple(_library(each, description.backend) for each in description.packages),
        soc=soc_of(description.soc or None, description.backend),
        prove=options.prove,
    )
    feeds = dict(pairs((*options.inputs, *options.feeds), "--feed"))
    if text := manifest.unverified([each.binary for each in shards_of(description)]):
        output.warn(text)
    command = RunSteps(
        description=description,
        steps=options.steps or (0 if stop else 1),
        feeds=feeds,
        output_dir=options.output_dir,
        dry_run=options.dry_run,
        against=options.against,
        profile=how.profile,
        tolerance=options.tolerance,
        stop=stop,
    )
    with (
        output.emulator_steps(how.backend, how.kind) as advance,
        ContextSession(how, worker=_WORKER, first=worker, on_step=advance, on_log=_log_printer(options)) as session,
    ):
        return session.ask(command, StepsRan, Situation("of these contexts", what="model")), session.runtime


def _run_model(options: RunContextOptions) -> UdogenError | None:
    """Run a model and print its steps; returns what is wrong: a difference, or op packages that counted nothing."""
    from udogen.runtime.contexts.profile import write_trace
    from udogen.runtime.execution_counts import sentences, summary, unproved
    from udogen.runtime.models.commands import model_lines

    ran, runtime = run_steps(options)
    counts = summary(list(ran.proof or ()))
    unproven = unproved(counts) if options.prove and not options.dry_run else None
    fault: UdogenError | None = unproven or difference(ran.first)
    if options.plan_file and ran.plan:
        _write_plans(options.plan_file, [ran.plan])
    if options.trace_file and ran.profiles:
        write_trace(options.trace_file, ran.profiles)
    if options.as_json:
        report = {**asdict(replace(ran, first=None)), "first": first_as_json(ran.first), "runtime": asdict(runtime)}
        report["bind_plan"] = str(options.plan_file or "") or None
        error = {"error": fault.as_json()} if fault else {}
        output.print_json({"ok": not fault, **{k: v for k, v in report.items() if k not in _PRINTED}, **error})
        return fault
    for line in (*model_lines(ran, f"{runtime.name} ({runtime.build_id})"), *sentences(counts)):
        output.print_result(line)
    if options.dry_run:
        output.print_next("the same with `--steps N` instead of `--dry-run` executes it")
    if fault:
        output.print_error(fault)
    return fault


def first_as_json(first: Divergence | None) -> dict[str, Any] | None:
    """The first tensor that differs, without its arrays."""
    if first is None:
        return None
    return {key: value for key, value in asdict(replace(first, arrays=())).items() if key != "arrays"}


def difference(first: Divergence | None) -> VerificationFailed | None:
    """The error of a model with a tensor that differs."""
    if first is None:
        return None
    return VerificationFailed(
        f"`{first.tensor}` is the first tensor that differs, in step {first.step}, by {first.apart:.3g} {first.unit}",
        hint=f"--replace {first.context}=FILE.py:FUNCTION, --shard-runtime {first.context}=RUNTIME:FILE: "
        "is the rest right then?  --tolerance X allows more",
    )


_WORKER = "udogen.runtime.models.worker"
_PRINTED = ("picture", "table", "memory", "plan")  # what of a model's report is for people, or in a file


def _description(options: RunContextOptions) -> ModelDescription:
    """The model that the command line describes: a file or folder, and what options say instead."""
    from udogen.runtime.contexts.commands import is_description, parse_package
    from udogen.runtime.models.description import ModelDescription, describe, parse_shard_runtime

    for option, used in (
        ("--loops", options.loops > 1),
        ("--separate", options.separate),
        ("--align", options.align != _ALIGNMENT),
        ("--device", options.device is not None),
    ):
        if used:
            raise UsageError(f"{option} is for contexts alone, not for a model", hint="leave it out; see --help")
    paths = [*options.paths, *options.folders]
    if not paths:
        raise UsageError("no model was given", hint="name model.toml, or a folder of context binaries; see --help")
    if len(paths) > 1 and any(is_description(each) for each in paths):
        raise UsageError("a description of a model stands alone", hint="leave out " + str(paths[-1]))
    found = describe(paths[0]) if len(paths) == 1 else ModelDescription(contexts=tuple(paths))
    given = {
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
        "replace": dict(pairs(options.replaced, "--replace")),
        "shard_runtimes": {
            name: parse_shard_runtime(text) for name, text in pairs(options.shard_runtimes, "--shard-runtime")
        },
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value}
    return replace(found, **changes)


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
    """The same, checked, as the runtime expects it."""
    from udogen.backends import htp
    from udogen.runtime.contexts.commands import RunOptions, parse_package

    backend = options.backend or htp.BACKEND.id
    if options.prove and not options.packages and not options.is_model:
        raise UsageError("--prove is about op packages, and none was given", hint="--op-package LIB registers one")
    if options.align != _ALIGNMENT:
        from udogen.runtime.buffers.memory import check_alignment  # 8 ms that few runs need

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
    """The contexts to run, in order; what is odd about a folder is printed."""
    from udogen.runtime.contexts.binaries import find_shards
    from udogen.runtime.contexts.runs import jobs_of

    if not paths:
        raise UsageError("no context was given", hint="name a folder of context binaries, or files; see --help")
    found = find_shards(paths)
    for each in found.notes:
        output.print_note(f"! {each}")
    return jobs_of(found.shards)


def _library(found: OpLibrary, backend: str) -> OpLibrary:
    """The library of an op package, which may be named by the folder that it was built in."""
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


def _write_plans(file: Path, rows: list[Any]) -> None:
    """The plans of all contexts as one, and its picture."""
    from udogen.runtime.buffers.picture import draw_plan
    from udogen.runtime.buffers.planning import join_plans, read_plan

    plan = join_plans([read_plan(row) for row in rows])
    for place, text in (
        (file, json.dumps(plan.as_json(), indent=2) + "\n"),
        (file.with_suffix(".svg"), draw_plan(plan, title=f"Buffers of {file.stem}")),
    ):
        with writing(place):
            place.write_text(text, "utf-8")


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
        error = {"error": fault.as_json()} if fault else {}
        output.print_json({"ok": not wrong and not fault, **report.as_json(rows, done.runtime), **about, **error})
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
