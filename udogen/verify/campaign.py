"""A whole run: every case of a suite, in every place where it can run; what is not there is told, with the reason."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path

from udogen import __version__
from udogen.backends import PLACES
from udogen.backends.backend import Place
from udogen.errors import BuildFailed, ToolMissing, UdogenError, UsageError
from udogen.opdef.model import OpPackage
from udogen.runtime.failures import RegistrationFailed
from udogen.runtime.op.calls import RuntimeInfo
from udogen.verify import shapes
from udogen.verify.cases import Case
from udogen.verify.places import SHAPES, check_there, place_of
from udogen.verify.results import BackendState, Outcome, State, TestRun, Trouble
from udogen.verify.runner import OnCase, data_type, run_cases
from udogen.verify.safety.checks import NOTHING, Wanted
from udogen.verify.safety.outcomes import unchecked
from udogen.verify.suite import clients, configs, expand
from udogen.verify.suite.model import Subject, Suite
from udogen.verify.workshop import Wish, ready

Step = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What a person asked for."""

    backends: tuple[str, ...] = ()  # places; none: all but our emulators of what Qualcomm's own runs too
    pattern: str = ""
    jobs: int = 0  # compilers, and programs under QEMU, at once
    timeout: float = 60.0
    measure: bool = False
    wish: Wish = field(default_factory=Wish)
    safety: Wanted = NOTHING


@dataclass(frozen=True)
class Task:
    """The cases of one package in one place."""

    place: Place
    source: configs.Source
    package: OpPackage
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Program:
    """What a run will do, before it does it."""

    suite: Suite
    tasks: tuple[Task, ...]
    left_out: tuple[BackendState, ...]

    @property
    def total(self) -> int:
        """How many cases there are, each place counted."""
        return sum(len(task.cases) for task in self.tasks)


def plan(suite: Suite, options: Options) -> Program:
    """Make the cases; raises with everything that is wrong with the test file."""
    suite, known = configs.sources(suite)
    wanted = [place_of(name) for name in dict.fromkeys(options.backends)] or [
        row for row in PLACES.values() if row.usual
    ]
    made: dict[tuple[str | int, ...], list[Case]] = {}  # numbers are made once for all places of a backend
    tasks, left_out = [], []
    for place in PLACES.values():
        if place not in wanted and options.backends:
            continue
        if place not in wanted:
            hint = f"--backend {place.id}"
            left_out.append(BackendState(place.id, place.title, "left out", "nobody asked for it", hint))
            continue
        by_package: dict[tuple[int, str], tuple[configs.Source, OpPackage, list[Case]]] = {}
        for number, tests in enumerate(suite.ops):
            source = known[tests.subject]
            package = source.package(tests.op)
            assert package is not None  # held against the configs before
            key = (tests.op, place.config, number)
            if key not in made:
                made[key] = expand.cases_of(tests, package, place.config)
            every = made[key]
            if place.client:
                more = (*key, "client")
                if more not in made:
                    made[more] = clients.cases_of(tests, package, place.config)
                every = [*every, *made[more]]
            chosen = [each for each in every if each.runs_on(place.id) and _matches(each, options.pattern)]
            by_package.setdefault((id(source), package.name), (source, package, []))[2].extend(chosen)
        found = [Task(place, source, package, tuple(cases)) for source, package, cases in by_package.values() if cases]
        tasks += found
        if not found:
            left_out.append(BackendState(place.id, place.title, "left out", _why_no_case(options)))
    if not options.backends or SHAPES.id in options.backends:
        tasks += _shape_tasks(suite, known, made, options)
    if not tasks:
        raise UsageError(
            f"no case of {suite.folder} is {'called like ' + options.pattern if options.pattern else 'for this'}",
            hint="`udogen test DIR` runs all of them" if options.pattern or options.backends else "see the test file",
        )
    return Program(suite, tuple(tasks), tuple(left_out))


def _shape_tasks(
    suite: Suite,
    known: Mapping[Subject, configs.Source],
    made: dict[tuple[str | int, ...], list[Case]],
    options: Options,
) -> list[Task]:
    """The cases whose shapes are compared: of each op one backend's."""
    tasks = []
    for number, tests in enumerate(suite.ops):
        source = known[tests.subject]
        package = source.package(tests.op)
        if package is None or not (tests.subject.rules or tests.subject.converter):
            continue
        backend = configs.of_op_named(package, tests.op)[0]
        key = (tests.op, backend, number)
        if key not in made:
            made[key] = expand.cases_of(tests, package, backend)
        cases = tuple(each for each in made[key] if not each.refusal and _matches(each, options.pattern))
        if cases:
            tasks.append(Task(SHAPES, source, package, cases))
    return tasks


def _why_no_case(options: Options) -> str:
    return "no such case is for it" if options.pattern else "no case is for it"


def _matches(case: Case, pattern: str) -> bool:
    """A part of `Op/name`, or a pattern of the shell for the whole of it."""
    text = f"{case.op}/{case.name}"
    return pattern in text or fnmatch(text, pattern) or fnmatch(case.name, pattern)


def run(
    program: Program,
    options: Options,
    *,
    on_task: Callable[[Task], None] = lambda _task: None,
    on_case: OnCase = lambda _outcome: None,
    on_step: Step = lambda _line: None,
) -> TestRun:
    """Run what was planned; only a fault of udogen's own, or an interrupt, ends it early.

    `on_task` hears of each package and place before it is built and run, `on_step` of what compilers do.
    """
    begun = time.perf_counter()
    outcomes: list[Outcome] = []
    states: dict[str, BackendState] = {state.backend: state for state in program.left_out}
    missing: dict[str, BackendState] = {}
    warnings = list(unchecked(options.safety, (task.place for task in program.tasks)))
    for task in program.tasks:
        place = task.place
        if place.id in missing:
            states[place.id] = replace(missing[place.id], cases=states[place.id].cases + len(task.cases))
            continue
        on_task(task)
        state, found = _run_task(task, options, on_case, on_step, warnings)
        if state.state == "missing":
            missing[place.id] = state
        outcomes += found
        states[place.id] = _joined(states.get(place.id), state)
    return TestRun(
        folder=program.suite.folder,
        states=tuple(states[name] for name in (*PLACES, SHAPES.id) if name in states),
        outcomes=tuple(outcomes),
        seconds=time.perf_counter() - begun,
        environment=environment(),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _run_task(
    task: Task, options: Options, on_case: OnCase, on_step: Step, warnings: list[str]
) -> tuple[BackendState, list[Outcome]]:
    place, cases = task.place, task.cases
    if place is SHAPES:
        return _run_shapes(task, options, on_case)
    ops = list(dict.fromkeys(case.op for case in cases))
    try:
        check_there(place, on_step)
        built = ready(task.source, task.package, place, ops, wish=options.wish, on_step=on_step)
    except UdogenError as fault:
        return _not_run(place, fault, len(cases)), []
    if not options.wish.build and not place.instructions and built.outdated:
        warnings.append(built.outdated)
    try:
        found = run_cases(
            built,
            cases,
            backend=place.id,
            timeout=options.timeout,
            measure=options.measure,
            explain=True,
            safety=options.safety,
            jobs=options.jobs or os.cpu_count() or 1,
            on_case=on_case,
            on_step=on_step,
        )
    except (ToolMissing, BuildFailed) as fault:  # what is compiled when it runs
        return _not_run(place, fault, len(cases)), []
    except RegistrationFailed as fault:  # the package's own fault: none of its cases has numbers
        return BackendState(place.id, place.title, "ran", cases=len(cases)), _all_broken(task, fault, on_case)
    runtime = next((each.runtime for each in found if each.runtime), None)
    return (
        BackendState(place.id, place.title, "ran", real=is_real(runtime), runtime=runtime, cases=len(cases)),
        found,
    )


def _run_shapes(task: Task, options: Options, on_case: OnCase) -> tuple[BackendState, list[Outcome]]:
    try:
        found = shapes.run_cases(
            task.source.subject, task.package, task.cases, build=options.wish.build, timeout=options.timeout
        )
    except (ToolMissing, BuildFailed) as fault:
        return _not_run(SHAPES, fault, len(task.cases)), []
    except UdogenError as fault:
        found = _all_broken(task, fault, on_case)
    else:
        for each in found:
            on_case(each)
    return BackendState(SHAPES.id, SHAPES.title, "ran", cases=len(found)), found


def is_real(runtime: RuntimeInfo | None) -> bool:
    """Whether it was Qualcomm's own library."""
    return runtime is not None and bool(runtime.build_id) and not runtime.emulator


def _not_run(place: Place, fault: UdogenError, cases: int) -> BackendState:
    state: State = "missing" if isinstance(fault, ToolMissing) else "unbuilt"
    return BackendState(place.id, place.title, state, fault.message, fault.hint, fault.details, cases=cases)


def _all_broken(task: Task, fault: UdogenError, on_case: OnCase) -> list[Outcome]:
    trouble = Trouble(fault.kind, fault.message, fault.hint, fault.details)
    found = []
    for case in task.cases:
        found.append(
            Outcome(
                case=case,
                backend=task.place.id,
                dtype=data_type(case),
                status="error",
                package=task.package.name,
                trouble=trouble,
            )
        )
        on_case(found[-1])
    return found


_WEIGHT: Mapping[State, int] = {"left out": 0, "ran": 1, "missing": 2, "unbuilt": 3}


def _joined(before: BackendState | None, after: BackendState) -> BackendState:
    """What is told of a place in which several packages were to run: what went wrong, where anything did."""
    if before is None:
        return after
    worse = max(before, after, key=lambda state: _WEIGHT[state.state])
    runtime = before.runtime or after.runtime
    return replace(worse, cases=before.cases + after.cases, runtime=runtime, real=before.real or after.real)


def environment() -> tuple[tuple[str, str], ...]:
    """What numbers and times depend on."""
    import numpy as np

    return (
        ("udogen", __version__),
        ("machine", f"{platform.machine()}, {os.cpu_count()} cores, {_processor()}"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("Python", f"{platform.python_version()}, numpy {np.__version__}"),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"
