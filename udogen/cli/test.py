"""`udogen test`: cases with their references, on every backend that is there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen.cli import output
from udogen.cli.safety_options import safety_options
from udogen.errors import RunFailed, ToolMissing, UsageError, VerificationFailed, writing

if TYPE_CHECKING:
    from udogen.verify.results import Outcome, TestRun
    from udogen.verify.test_run import Program, Task

    Listeners = tuple[Callable[[Task], None], Callable[[Outcome], None], Callable[[str], None]]


@click.command("test")
@click.argument("folder", type=click.Path(path_type=Path), default=Path(), metavar="[DIR]")
@click.option(
    "--backend", "backends", multiple=True, metavar="NAME",
    help="Only here: cpu, htp, hexagon, gpu, dsp, cpu-ort, htp-ort, cpu-emulator, htp-emulator, shapes; may repeat.",
)  # fmt: skip
@click.option(
    "--case", "pattern", default="", metavar="PATTERN", help="Only cases whose `Op/name` has this in it, or *."
)
@click.option(
    "-j",
    "jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Programs at once: compilers, QEMU (default: all cores).",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, metavar="SECONDS",
              help="Stop a case that does not come back.")  # fmt: skip
@click.option("--cost", is_flag=True, help="Measure times and packets with care, and show what each case costs.")
@safety_options
@click.option("--no-build", is_flag=True, help="Test packages as they are; build nothing.")
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the results as JUnit XML, too.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a report for people, too.")
@click.option(
    "--save-baseline", "save", type=click.Path(path_type=Path), metavar="FILE", help="Keep the costs of this run."
)
@click.option(
    "--compare", type=click.Path(path_type=Path), metavar="FILE", help="Compare costs with those of an earlier run."
)
@output.json_option
def command(
    folder: Path,
    backends: tuple[str, ...],
    pattern: str,
    jobs: int | None,
    timeout: float,
    cost: bool,
    heap: bool,
    guard: bool,
    leaks: bool,
    sanitize: tuple[str, ...],
    no_build: bool,
    junit: Path | None,
    html: Path | None,
    save: Path | None,
    compare: Path | None,
    as_json: bool,
) -> int:
    """Run the tests in DIR: hold an op against its reference, on every backend that is there.

    DIR holds a test file (op_tests.toml, or tests/test_*.py) and either packages or a config with kernels; of those,
    packages are generated and built in a cache first.  What changed is built; what is not there is said.
    """
    from udogen.runtime.worker_process import check_memory

    check_memory()
    from udogen.verify import baseline, test_run
    from udogen.verify.packages import Wish
    from udogen.verify.report import machine as telling
    from udogen.verify.report import terminal
    from udogen.verify.safety import checks
    from udogen.verify.test_files.read import load_test_files

    safety = checks.wanted_of(heap=heap, guard=guard, leaks=leaks, sanitize=sanitize)
    checks.need_tools(safety)
    options = test_run.Options(
        backends=backends,
        pattern=pattern,
        jobs=jobs or 0,
        timeout=timeout,
        measure=bool(cost or save or compare),
        safety=safety,
        wish=Wish(build=not no_build, jobs=jobs or 0),
    )
    _check_folders(junit, html, save)
    before = baseline.load(compare) if compare else None
    program = test_run.plan(load_test_files(folder), options)
    with _progress(program) as (on_task, on_case, on_step):
        run = test_run.run(program, options, on_task=on_task, on_case=on_case, on_step=on_step)
    changes = baseline.compare(run, before) if before else []
    if save:
        baseline.save(run, save)
    if junit:
        _write_junit(run, junit)
    if html:
        from udogen.verify.report.page import write

        write(run, html, changes, before)
    if as_json:
        from dataclasses import asdict

        compared = {"changes": [{**asdict(each), "ratio": each.ratio} for each in changes]} if before else {}
        output.print_json({**telling.answer(run), **compared})
    else:
        for line in terminal.lines(run, paint=output.paint, costs=options.measure):
            output.print_result(line)
        for line in baseline.lines(changes, run, before) if before else ():
            output.print_result(line)
    if run.count("failed"):
        return VerificationFailed.exit_code
    return RunFailed.exit_code if run.bad else 0 if run.passed else ToolMissing.exit_code


@contextmanager
def _progress(program: Program) -> Iterator[Listeners]:
    """A bar that counts cases while a person watches; otherwise a line for each package and place."""
    from udogen.verify.report.terminal import many

    if not sys.stderr.isatty() or output.json_requested():

        def tell(task: Task) -> None:
            if not output.json_requested():
                output.print_note(f"  {task.package.name} on {task.place.id}: {many(len(task.cases), 'case')}")

        yield tell, lambda _outcome: None, lambda _step: None
        return
    with output.progress(str(program.suite.folder), total=program.total) as advance:
        yield (
            lambda task: advance(f"{task.package.name} on {task.place.id}", by=0),
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


def _write_junit(run: TestRun, path: Path) -> None:
    from udogen.verify.report.machine import text

    with writing(path):
        path.write_text(text(run), "utf-8")
