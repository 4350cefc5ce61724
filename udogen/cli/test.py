"""`udogen test`: cases with their references, on every backend that can run here."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen.cli import output
from udogen.cli.lazy import completed
from udogen.cli.options import (
    JOBS,
    SECONDS,
    argument,
    check_writable,
    heap_option,
    json_option,
    option,
    same_options,
    split_names,
    verb,
)
from udogen.errors import UdogenError, UsageError, write_file
from udogen.tables import many

if TYPE_CHECKING:
    from udogen.verify.baseline import Baseline
    from udogen.verify.options import TestOptions
    from udogen.verify.planning import Batch, TestPlan
    from udogen.verify.results import Outcome, TestRun

    Listeners = tuple[Callable[[Batch], None], Callable[[Outcome], None], Callable[[str], None]]


def _shard(_context: click.Context, _param: click.Parameter, text: str) -> tuple[int, int]:
    number, slash, count = text.partition("/")
    found = (int(number), int(count)) if slash and number.isdecimal() and count.isdecimal() else (0, 0)
    if not 1 <= found[0] <= found[1]:
        raise UsageError(f"--shard {text}: this is not I/N", hint="as in --shard 1/4")
    return found


def _places(_context: click.Context) -> list[str]:
    from udogen.backends import PLACES
    from udogen.verify.places import SHAPES

    return [*PLACES, SHAPES.id]


def _cases(context: click.Context) -> list[str]:
    from udogen.verify.test_files.expand import names

    # As patterns: bash does not quote blanks, and fish cuts words at commas.
    found = names(next(iter(context.params.get("paths") or ()), Path()))
    return [re.sub(r"[^\w/=.+-]", "?", name) for name in found]


@dataclass(frozen=True)
class TestArguments:
    """The options of the command line."""

    __test__ = False  # pytest must not collect it as a test class

    paths: tuple[Path, ...] = argument(metavar="[DIR]")
    backends: tuple[str, ...] = option(
        "--backend", metavar="NAME[,NAME]", callback=split_names, shell_complete=completed(_places),
        help="Only in these places: cpu, gpu, htp, hexagon, dsp, cpu-ort, htp-ort, cpu-emulator, htp-emulator, shapes.",
    )  # fmt: skip
    on: tuple[str, ...] = option(
        "--on", metavar="DEVICE",
        help="Run on this device: ssh:USER@HOST[:PORT], adb, adb:SERIAL, or here (this machine); may repeat.",
    )  # fmt: skip
    shard: tuple[int, int] = option(
        "--shard", type=str, multiple=False, default="1/1", metavar="I/N", callback=_shard,
        help="Only part I of N, for N machines in CI.",
    )  # fmt: skip
    merge: bool = option("--merge", help="Run nothing: merge results of --json, as in `udogen test --merge *.json`.")
    patterns: tuple[str, ...] = option(
        "--case", metavar="PATTERN", shell_complete=completed(_cases),
        help="Only cases whose `Op/name` contains this; or *; may repeat.",
    )  # fmt: skip
    jobs: int | None = option(
        "-j", type=JOBS, metavar="N", help="Parallel programs: compilers, QEMU (default: one per core)."
    )
    timeout: float = option(
        "--timeout", type=SECONDS, default=60.0, metavar="SECONDS", help="Stop a case that takes longer."
    )
    arch: str = option(
        "--arch", metavar="vNN", help="hexagon, dsp: compile for this version (default: v73, v66, or the package's)."
    )
    cost: bool = option("--cost", help="Measure times and packets more precisely, and show the cost of each case.")
    heap: bool = heap_option()
    guard: bool = option("--guard", help="Report reads and writes outside of tensors, with guard pages.")
    sanitize: tuple[str, ...] = option(
        "--sanitize", metavar="NAME[,NAME]",
        help="Build and run with sanitizers: address, undefined, thread (two graphs at once); may repeat.",
    )  # fmt: skip
    build: bool = option(
        "--no-build", is_flag=True, flag_value=False, default=True, help="Test existing packages; build nothing."
    )
    junit: Path | None = option("--junit", metavar="FILE", help="Also write JUnit XML.")
    html: Path | None = option("--html", metavar="FILE", help="Also write an HTML report.")
    save: Path | None = option("--save-baseline", metavar="FILE", help="Save the costs of this run.")
    compare: Path | None = option("--compare", metavar="FILE", help="Compare costs with those of an earlier run.")
    as_json: bool = json_option()


@verb("test", TestArguments)
def command(arguments: TestArguments) -> int:
    """Example: udogen test scale --backend cpu

    Run the tests in DIR: compare each op with its reference, on every backend that this machine can run.

    DIR has a test file (op_tests.toml, or tests/test_*.py) and either packages, or a config with kernels, from which
    packages are generated and built in a cache.  Rebuilds what changed; lists backends that cannot run.
    """
    from udogen.runtime.worker_process import check_memory

    check_memory()
    from udogen.verify import baseline
    from udogen.verify.options import SafetyOptions, TestOptions

    if arguments.merge:
        return _merge(arguments)
    if len(arguments.paths) > 1:
        raise UsageError(f"{len(arguments.paths)} folders are given", hint="test one after the other")
    safety = SafetyOptions.parse(heap=arguments.heap, guard=arguments.guard, sanitize=arguments.sanitize)
    measure = bool(arguments.cost or arguments.save or arguments.compare)
    options = same_options(TestOptions, arguments, safety=safety, measure=measure, jobs=arguments.jobs or 0)
    options.safety.check_tools()
    check_writable(arguments.junit, arguments.html, arguments.save)
    before = baseline.load(arguments.compare) if arguments.compare else None
    with _supervised(arguments.junit):
        return _test(arguments, options, before)


def _test(arguments: TestArguments, options: TestOptions, before: Baseline | None) -> int:
    """Plan, run and report."""
    from udogen.verify import baseline, planning, test_run
    from udogen.verify.test_files.read import load_test_files

    with _reported(arguments.junit):
        plan = planning.plan(load_test_files(arguments.paths[0] if arguments.paths else Path()), options)
    for line in plan.unwritten:
        output.warn(line)
    with _progress(plan) as (on_batch, on_case, on_step):
        run = test_run.run(plan, options, on_batch=on_batch, on_case=on_case, on_step=on_step)
    if arguments.save:
        baseline.save(run, arguments.save)
    _report(run, arguments, before, costs=options.measure)
    if not arguments.as_json:
        _print_next(run, arguments)
    return run.verdict.exit_code


@contextmanager
def _supervised(junit: Path | None) -> Iterator[None]:
    """End the programs that references and test files start; report an `exit` of the C library in them."""
    from udogen import process, python_files

    def report(_place: str, fault: UdogenError) -> bool:
        _write_error(junit, fault)
        output.print_error(fault)
        return True

    python_files.on_exit.append(report)
    try:
        with process.leaving_none():
            yield
    finally:
        python_files.on_exit.remove(report)


@contextmanager
def _reported(junit: Path | None) -> Iterator[None]:
    """Let the JUnit file name an error that ends the run before its first case."""
    try:
        yield
    except UdogenError as fault:
        _write_error(junit, fault)
        raise


def _write_error(junit: Path | None, fault: UdogenError) -> None:
    from udogen.verify.report import machine

    if junit:
        write_file(junit, machine.junit_of_error(fault))


def _print_next(run: TestRun, arguments: TestArguments) -> None:
    """Print the next step after this result."""
    verdict = run.verdict
    folder = arguments.paths[0] if arguments.paths else Path()
    command = shlex.join(["udogen", *sys.argv[1:]])  # repeats this run
    if verdict.failed and arguments.html:
        output.print_next(f"open {arguments.html}")
    elif verdict.failed:
        output.print_next(f"`{command} --html report.html`")
    elif verdict.build_failed:
        output.print_next(f"fix the errors of the compiler, then `{command}`")
    elif verdict.findings:
        output.print_next(f"fix the warnings, then `{command}`")
    elif broken := next((outcome for outcome in run.outcomes if outcome.status == "error"), None):
        only = f" --case {shlex.quote(f'{broken.case.op}/{broken.case.name}')}" * (not arguments.patterns)
        output.print_next(f"fix the first error, then `{command}{only}`")
    elif not verdict.ok:
        output.print_next("`udogen doctor` lists what is missing" if verdict.absent else "give the op a reference")
    elif build := output.make_command("build", [folder]):
        measure = f"; `{command} --cost` measures times" * (not arguments.cost)
        output.print_next(f"`{build}` builds the packages{measure}")
    elif not arguments.cost:
        output.print_next(f"`{command} --cost` measures times")


def _report(run: TestRun, arguments: TestArguments, before: Baseline | None, *, costs: bool) -> None:
    """Write and print the reports that the options request."""
    from udogen.verify import baseline
    from udogen.verify.report import machine, terminal

    changes = baseline.compare(run, before) if before else []
    if arguments.junit:
        write_file(arguments.junit, machine.junit(machine.as_json(run)))
    if arguments.html:
        from udogen.verify.report import page

        page.write(run, arguments.html, changes, before)
    if arguments.as_json:
        output.print_json(machine.as_json(run, changes if before else None))
        return
    lines = terminal.lines(run, paint=output.paint, costs=costs, width=output.width())
    for line in [*lines, *(terminal.changes(changes, run, before, output.width()) if before else ())]:
        output.print_result(line)


def _merge(arguments: TestArguments) -> int:
    """Merge several results into one report; returns the exit code."""
    from udogen.verify.report import machine, merge

    if arguments.html or arguments.save or arguments.compare:
        raise UsageError("--merge makes --json and --junit: results have no arrays", hint="leave the others out")
    check_writable(arguments.junit)
    if not arguments.paths:
        raise UsageError("--merge needs files", hint="udogen test --merge part-*.json")
    result = merge.merge(arguments.paths)
    if arguments.junit:
        write_file(arguments.junit, machine.junit(result))
    if arguments.as_json:
        output.print_json(result)
    else:
        for line in merge.lines(result):
            output.print_result(line)
    return int(result["exit_code"])


@contextmanager
def _progress(plan: TestPlan) -> Iterator[Listeners]:
    """A bar that counts cases on a terminal; otherwise a line for each package and place."""
    if not sys.stderr.isatty() or output.json_requested():

        def on_batch(batch: Batch) -> None:
            if not output.json_requested():
                output.print_note(f"  {batch.package.name} on {batch.place.id}: {many(len(batch.cases), 'case')}")

        yield on_batch, lambda _outcome: None, lambda _step: None
        return
    with output.progress(str(plan.files.folder), total=plan.total) as advance:
        yield (
            lambda batch: advance(f"{batch.package.name} on {batch.place.id}", by=0),
            lambda outcome: advance(f"{outcome.backend} {outcome.case.op} {outcome.case.name}"),
            lambda step: advance(step, by=0),
        )
