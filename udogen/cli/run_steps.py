"""`udogen run steps`: context binaries as one model, linked and with state, executed step by step."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.cli import output
from udogen.cli.options import (
    POSITIVE,
    SECONDS,
    TOLERANCE,
    argument,
    check_writable,
    json_option,
    level_option,
    option,
    pairs,
    profile_option,
    prove_option,
    soc_of,
    trace_option,
    verb,
)
from udogen.cli.run_context import library_of, log_level, log_printer, print_report, started, write_plans
from udogen.errors import UdogenError, UsageError, VerificationFailed

if TYPE_CHECKING:
    from udogen.runtime.library import RuntimeInfo
    from udogen.runtime.models.commands import ComparedTensor, StepsRan
    from udogen.runtime.models.description import ModelDescription


_WORKER = "udogen.runtime.models.worker"


@dataclass(frozen=True)
class RunStepsOptions:
    """The options of the command line."""

    path: Path = argument(metavar="model.toml|DIR|FILE")
    graphs: tuple[str, ...] = option(
        "--graph", metavar="NAME", help="The graphs of successive steps (default: as described); may repeat."
    )
    packages: tuple[str, ...] = option(
        "--op-package", metavar="LIB|DIR[:PROVIDER[:TARGET]]",
        help="Register these op packages, and not the described ones; may repeat.",
    )  # fmt: skip
    steps: int | None = option(
        "--steps", type=POSITIVE, metavar="N",
        help="Execute N steps (default: 1; with --against, one for each array in its file).",
    )  # fmt: skip
    dry_run: bool = option("--dry-run", help="Show links, state and sessions; execute nothing.")
    feeds: tuple[str, ...] = option(
        "--feed", metavar="NAME=FILE",
        help="An input, TENSOR or GRAPH:TENSOR (.npy, raw bytes); one array for all steps, or one for each.",
    )  # fmt: skip
    against: Path | None = option(
        "--against", metavar="FILE.npz",
        help="Compare tensors (CONTEXT.TENSOR, one array or one for each step); report the first difference.",
    )  # fmt: skip
    tolerance: float = option(
        "--tolerance", type=TOLERANCE, default=0.0, metavar="X",
        help="The allowed difference: in stored steps; for floats, a fraction of the range (default: 0).",
    )  # fmt: skip
    output_dir: Path | None = option("--output-dir", metavar="DIR", help="Save outputs here, as .npy.")
    plan_file: Path | None = option("--plan", metavar="FILE", help="Write the place of each tensor as JSON.")
    level: str | None = level_option()
    prove: bool = prove_option()
    profile: bool = profile_option()
    trace_file: Path | None = trace_option()
    timeout: float | None = option("--timeout", type=SECONDS, metavar="SECONDS", help="The time limit of all steps.")
    as_json: bool = json_option()


@verb("steps", RunStepsOptions)
def command(options: RunStepsOptions) -> int:
    """Example: udogen run steps scale.bin --op-package out

    Execute steps of a model that consists of context binaries.

    Each context reads the outputs of the one before it, and state stays on the device from step to step; model.toml
    names the links, state, packages and sessions.  Without one, tensors of equal names are linked.
    The exit code is 6 if a tensor differs from --against.
    """
    from udogen.runtime.execution_counts import summary, unproved

    if options.tolerance and not options.against:
        raise UsageError("--tolerance is for --against, which compares tensors", hint="give --against FILE.npz too")
    check_writable(options.plan_file, options.trace_file)
    ran, runtime = _run(options)
    counts = summary(list(ran.proof or ()))
    unproven = unproved(counts) if options.prove and not options.dry_run else None
    fault: UdogenError | None = unproven or _difference(ran.first)
    _write_files(options, ran)
    if options.as_json:
        print_report({**_as_json(ran, runtime), "bind_plan": str(options.plan_file or "") or None}, fault)
    else:
        _print(options, ran, runtime, counts, fault)
    if fault:
        return fault.exit_code
    return ran.verdict.exit_code if options.against and not options.dry_run else 0


def _write_files(options: RunStepsOptions, ran: StepsRan) -> None:
    from udogen.runtime.contexts.report import write_trace

    if options.plan_file and ran.plan:
        write_plans(options.plan_file, [ran.plan])
    if options.trace_file and ran.profiles:
        write_trace(options.trace_file, ran.profiles)


def _run(options: RunStepsOptions) -> tuple[StepsRan, RuntimeInfo]:
    with started(_WORKER) as worker:
        from udogen.runtime.contexts import manifest
        from udogen.runtime.contexts.commands import RunOptions
        from udogen.runtime.contexts.runs import ContextSession
        from udogen.runtime.failures import Situation
        from udogen.runtime.models.commands import RunSteps, StepsRan
        from udogen.runtime.models.description import resolved, shards_of

        description = resolved(_description(options))
        backend = description.backend
        how = RunOptions(
            backend=backend,
            runtime=description.runtime,
            soc=soc_of(str(description.soc) or None, backend),
            packages=tuple(library_of(package, backend) for package in description.packages),
            log_level=log_level(options.level),
            profile=options.profile or options.trace_file is not None,
            prove=options.prove,
            timeout=options.timeout,
        )
        if text := manifest.unverified([shard.binary for shard in shards_of(description)]):
            output.warn(text)
        command = RunSteps(
            description=description,
            steps=options.steps or 0,
            feeds=dict(pairs(options.feeds, "--feed")),
            output_dir=options.output_dir,
            dry_run=options.dry_run,
            against=options.against,
            profile=how.profile,
            tolerance=options.tolerance,
        )
        with (
            output.emulator_steps(how.backend, how.runtime) as advance,
            ContextSession(
                how, worker=_WORKER, first=worker, on_step=advance, on_log=log_printer(options.level)
            ) as session,
        ):
            return session.ask(command, StepsRan, Situation(str(options.path), what="model")), session.runtime


def _description(options: RunStepsOptions) -> ModelDescription:
    """The model of a file or folder, with the packages and graphs of the command line."""
    from udogen.runtime.contexts.commands import parse_package
    from udogen.runtime.models.description import describe

    changes = {"packages": tuple(map(parse_package, options.packages)), "graphs": options.graphs}
    return describe(options.path).changed({key: value for key, value in changes.items() if value})


def _difference(first: ComparedTensor | None) -> VerificationFailed | None:
    """The error for a model with a tensor that differs; None if none does."""
    if first is None:
        return None
    return VerificationFailed(
        f"`{first.tensor}` is the first tensor that differs, in step {first.step}, by {first.apart:.3g} {first.unit}",
        hint="--tolerance X allows more",
    )


def _as_json(ran: StepsRan, runtime: RuntimeInfo) -> dict[str, Any]:
    wiring, sessions = ran.wiring, ran.sessions
    found = {name: value for name, value in asdict(ran).items() if name not in ("wiring", "plan")}
    return {
        **found,
        "links": wiring.links,
        "state": wiring.state,
        "sessions": sessions.as_json(),
        "memory": ran.memory.as_json() if ran.memory else [],
        "first": asdict(ran.first) if ran.first else None,
        "runtime": asdict(runtime),
    }


def _print(
    options: RunStepsOptions,
    ran: StepsRan,
    runtime: RuntimeInfo,
    counts: Mapping[tuple[str, str, str], int],
    fault: UdogenError | None,
) -> None:
    from udogen.runtime.execution_counts import sentences
    from udogen.runtime.models.commands import model_lines

    for line in (*model_lines(ran, f"{runtime.name} ({runtime.build_id})"), *sentences(counts)):
        output.print_result(line)
    if options.dry_run:
        words = [word for word in sys.argv[1:] if word != "--dry-run"]
        output.print_next(f"`{shlex.join(['udogen', *words])}` executes it")
    if fault:
        output.print_error(fault)
