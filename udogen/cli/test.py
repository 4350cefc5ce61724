"""`udogen test`: cases with their references, on every backend that can run here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from udogen.cli import options, output
from udogen.cli.safety_options import safety_options
from udogen.errors import BuildFailed, RunFailed, ToolMissing, UsageError, VerificationFailed, writing

if TYPE_CHECKING:
    from udogen.verify.baseline import Baseline
    from udogen.verify.results import Outcome, TestRun
    from udogen.verify.test_run import Batch, TestPlan

    Listeners = tuple[Callable[[Batch], None], Callable[[Outcome], None], Callable[[str], None]]


@dataclass(frozen=True)
class _Arguments:
    """What is tested, and where the results go."""

    paths: tuple[Path, ...]
    merge: bool
    cost: bool
    junit: Path | None
    html: Path | None
    save: Path | None
    compare: Path | None
    as_json: bool


def _taken(kind: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """The parameters that are fields of a dataclass; they are removed from the given ones."""
    return {field.name: given.pop(field.name) for field in fields(kind) if field.name in given}


def _shard(_context: click.Context, _param: click.Parameter, text: str) -> tuple[int, int]:
    number, slash, count = text.partition("/")
    found = (int(number), int(count)) if slash and number.isdecimal() and count.isdecimal() else (0, 0)
    if not 1 <= found[0] <= found[1]:
        raise UsageError(f"--shard {text}: this is not I/N", hint="as in --shard 1/4")
    return found


@click.command("test")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option(
    "--backend", "backends", multiple=True, metavar="NAME[,NAME]", callback=options.split_names,
    help="Only in these places: cpu, gpu, htp, hexagon, dsp, cpu-ort, htp-ort, cpu-emulator, htp-emulator, shapes.",
)  # fmt: skip
@click.option(
    "--on", "on", multiple=True, metavar="DEVICE",
    help="Run on this device: ssh:USER@HOST[:PORT], adb:SERIAL, or here (this machine); may repeat.",
)  # fmt: skip
@click.option("--shard", default="1/1", metavar="I/N", callback=_shard, help="Only part I of N, for N machines in CI.")
@click.option(
    "--merge", is_flag=True, help="Run nothing: merge results of --json, as in `udogen test --merge *.json`."
)  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep the files on the devices.")
@click.option(
    "--case", "pattern", default="", metavar="PATTERN", help="Only cases whose `Op/name` contains this; or *."
)
@click.option(
    "-j",
    "jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Parallel programs: compilers, QEMU (default: one per core).",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, metavar="SECONDS",
              help="Stop a case that takes longer.")  # fmt: skip
@click.option("--cost", is_flag=True, help="Measure times and packets more precisely, and show the cost of each case.")
@safety_options
@click.option(
    "--no-build",
    "build",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Test existing packages; build nothing.",
)
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Also write JUnit XML.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Also write an HTML report.")
@click.option(
    "--save-baseline", "save", type=click.Path(path_type=Path), metavar="FILE", help="Save the costs of this run."
)
@click.option(
    "--compare", type=click.Path(path_type=Path), metavar="FILE", help="Compare costs with those of an earlier run."
)
@output.json_option
def command(**given: Any) -> int:
    """Example: udogen test scale --backend cpu

    Run the tests in DIR: compare each op with its reference, on every backend that this machine can run.

    DIR has a test file (op_tests.toml, or tests/test_*.py) and either packages, or a config with kernels, from which
    packages are generated and built in a cache.  Rebuilds what changed; lists backends that cannot run.
    """
    from udogen.runtime.worker_process import check_memory

    check_memory()
    from udogen.verify import baseline, test_run
    from udogen.verify.options import SafetyOptions, TestOptions
    from udogen.verify.test_files.read import load_test_files

    arguments = _Arguments(**_taken(_Arguments, given))
    if arguments.merge:
        return _merge(arguments)
    if len(arguments.paths) > 1:
        raise UsageError(f"{len(arguments.paths)} folders are given", hint="test one after the other")
    safety = SafetyOptions.parse(**_taken(SafetyOptions, given))
    measure = bool(arguments.cost or arguments.save or arguments.compare)
    options = TestOptions(safety=safety, measure=measure, **{**given, "jobs": given["jobs"] or 0})
    options.safety.check_tools()
    _check_folders(arguments.junit, arguments.html, arguments.save)
    before = baseline.load(arguments.compare) if arguments.compare else None
    plan = test_run.plan(load_test_files(arguments.paths[0] if arguments.paths else Path()), options)
    for line in plan.unwritten:
        output.warn(line)
    with _progress(plan) as (on_batch, on_case, on_step):
        run = test_run.run(plan, options, on_batch=on_batch, on_case=on_case, on_step=on_step)
    if arguments.save:
        baseline.save(run, arguments.save)
    _report(run, arguments, before, costs=options.measure)
    if not arguments.as_json:
        _print_next(run, arguments)
    unbuilt = sum(each.error is not None and each.error.kind == BuildFailed.kind for each in run.outcomes)
    counts = {"failed": run.count("failed"), "error": run.count("error") - unbuilt + len(plan.unwritten)}
    return _exit_code(counts, build_failed=run.build_failed, ok=run.passed)


def _exit_code(counts: Mapping[str, int], *, build_failed: bool, ok: bool) -> int:
    """That of the worst result."""
    if counts["failed"]:
        return VerificationFailed.exit_code
    if counts["error"]:
        return RunFailed.exit_code
    return BuildFailed.exit_code if build_failed else 0 if ok else ToolMissing.exit_code


def _print_next(run: TestRun, arguments: _Arguments) -> None:
    """Print what to do with the result."""
    command = shlex.join(["udogen", "test", *(str(each) for each in arguments.paths[:1])])
    is_bad = run.count("failed") + run.count("error") > 0
    if is_bad and not arguments.html:
        output.print_next(f"`{command} --html report.html` shows where numbers are wrong")
    elif is_bad:
        output.print_next(f"open {arguments.html}")
    elif run.passed and not arguments.cost:
        output.print_next(f"`{command} --cost` measures times; `udogen register` prepares a program to use it")


def _report(run: TestRun, arguments: _Arguments, before: Baseline | None, *, costs: bool) -> None:
    """Write and print what the options ask for."""
    from udogen.verify import baseline
    from udogen.verify.report import machine, terminal

    changes = baseline.compare(run, before) if before else []
    if arguments.junit:
        with writing(arguments.junit):
            arguments.junit.write_text(machine.junit(machine.as_json(run)), "utf-8")
    if arguments.html:
        from udogen.verify.report import page

        page.write(run, arguments.html, changes, before)
    if arguments.as_json:
        output.print_json(machine.as_json(run, changes if before else None))
        return
    lines = terminal.lines(run, paint=output.paint, costs=costs, width=output.width())
    for line in [*lines, *(terminal.changes(changes, run, before, output.width()) if before else ())]:
        output.print_result(line)


def _merge(arguments: _Arguments) -> int:
    """Several results as one report."""
    from udogen.verify.report import machine

    if arguments.html or arguments.save or arguments.compare:
        raise UsageError("--merge makes --json and --junit: results have no arrays", hint="leave the others out")
    _check_folders(arguments.junit)
    if not arguments.paths:
        raise UsageError("--merge needs files", hint="udogen test --merge part-*.json")
    result = machine.merge([machine.read(path) for path in arguments.paths])
    if arguments.junit:
        with writing(arguments.junit):
            arguments.junit.write_text(machine.junit(result), "utf-8")
    if arguments.as_json:
        output.print_json(result)
    else:
        for line in machine.lines(result):
            output.print_result(line)
    build_failed = any(state["build_failed"] for state in result["backends"])
    unbuilt = sum((case["error"] or {}).get("kind") == BuildFailed.kind for case in result["cases"])
    counts = {**result["counts"], "error": result["counts"]["error"] - unbuilt}
    return _exit_code(counts, build_failed=build_failed, ok=result["ok"])


@contextmanager
def _progress(plan: TestPlan) -> Iterator[Listeners]:
    """A bar that counts cases on a terminal; otherwise a line for each package and place."""
    if not sys.stderr.isatty() or output.json_requested():
        from udogen.verify.report.text import many

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


def _check_folders(*files: Path | None) -> None:
    """Before a run that may take minutes, not after it."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise UsageError(
                f"cannot write {file}: there is no folder {file.parent}", hint="make it, or choose another"
            )
