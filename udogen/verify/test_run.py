"""A test run: every case in every place where it can run; missing places are reported with the reason."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from udogen import __version__, process
from udogen.backends import PLACES, architectures
from udogen.backends.backend import Place
from udogen.build import vectors
from udogen.build.package import open_packages
from udogen.build.zig_libraries import HEXAGON
from udogen.errors import BuildFailed, RunFailed, ToolMissing, UdogenError, UsageError
from udogen.findings import Finding
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.shape_rules import Given, Inferred, ShapeRules, load_shape_rules
from udogen.qnn.tensors import Scalar
from udogen.resources import content_key
from udogen.runtime.built import Built
from udogen.runtime.converter_host import ConverterCall, ConverterReply, ask_all
from udogen.runtime.failures import RegistrationFailed
from udogen.runtime.op.calls import OpCall, RuntimeInfo
from udogen.runtime.op.request import given_of, infer_outputs
from udogen.verify import packages
from udogen.verify.cases import Case, CaseError
from udogen.verify.options import TestOptions
from udogen.verify.places import HERE, SHAPES, check_available, on_device, place_of, runs_networks, runs_on_devices
from udogen.verify.results import (
    ABSENT,
    STATUSES,
    BackendState,
    NetworkOutcome,
    NetworkReport,
    Outcome,
    Selection,
    State,
    Status,
    TestRun,
    joined,
    nothing_compared,
)
from udogen.verify.runner import OnCase, OnStep, run_cases
from udogen.verify.safety.checks import unchecked
from udogen.verify.test_files import client_cases, configs, expand, references
from udogen.verify.test_files.model import NetworkTests, OpTests, Subject, TestFiles
from udogen.verify.test_files.references import ReferenceUnwritten

_SOURCES = (".cpp", ".hpp", ".cl", ".h", ".py", ".xml")  # of packages: other files may differ on each machine


@dataclass(frozen=True)
class Batch:
    """The cases of one package in one place."""

    place: Place
    source: configs.PackageSource
    package: OpPackage
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class NetworkJob:
    """One network in one place, in float or with 8 bits; `ops` are those that the network may contain."""

    tests: NetworkTests
    place: Place
    bits: str
    ops: tuple[tuple[OpTests, configs.PackageSource, OpPackage], ...]


@dataclass(frozen=True)
class TestPlan:
    """The cases and networks of a run."""

    __test__ = False  # pytest would collect it as a test class because of its name

    files: TestFiles
    batches: tuple[Batch, ...]
    skipped: tuple[BackendState, ...]
    networks: tuple[NetworkJob, ...] = ()
    unwritten: tuple[str, ...] = ()  # references that are not implemented yet; their cases are in no batch
    selection: Selection | None = None

    @property
    def total(self) -> int:
        """The number of cases; a case counts once for each place."""
        return sum(len(batch.cases) for batch in self.batches)


def _listed(options: TestOptions) -> str:
    return " or ".join(options.patterns)


def _skipped(place: Place, options: TestOptions, *, is_chosen: bool) -> BackendState:
    """The state of a place without a case."""
    if not is_chosen:
        return BackendState(place.id, place.title, "skipped", hint=f"enable with --backend {place.id}")
    reason = f"no case for it matches {_listed(options)}" if options.patterns else "no op or case is for this backend"
    return BackendState(place.id, place.title, "skipped", reason)


def _without_cold(batches: list[Batch]) -> tuple[list[Batch], list[BackendState]]:
    """The batches, without those that would first compile libraries for Hexagon, and the places left out."""
    others = [each for each in batches if not each.place.instructions]
    if not others or HEXAGON.is_warm:
        return batches, []
    return others, [_cold(place) for place in dict.fromkeys(each.place for each in batches) if place.instructions]


def _no_case(files: TestFiles, options: TestOptions) -> UsageError:
    """The error if no place has a case."""
    part, parts = options.shard
    why = f"matches {_listed(options)}" if options.patterns else "is for this"
    why = f"is left for part {part} of {parts}" if parts > 1 else why
    narrowed = options.patterns or options.backends or parts > 1
    hint = "`udogen test DIR` runs all of them" if narrowed else "see the test file"
    return UsageError(f"no case of {files.folder} {why}", hint=hint)


def plan(files: TestFiles, options: TestOptions) -> TestPlan:
    """Make the cases; raises with all problems in the test files."""
    _check_arch(options)
    files, sources = configs.sources(files)
    planner = _Planner(files, sources, options)
    networks = planner.network_jobs()
    batches, skipped = planner.batches({job.place for job in networks})
    if not batches and not networks:
        raise _no_case(files, options)
    batches, unwritten = _written(batches)
    if not batches and not networks:
        raise RunFailed(
            "nothing to compare with: write the reference first",
            hint="return the output from the inputs, which are numpy arrays; then run `udogen test` again",
            details=unwritten,
        )
    if not options.backends:
        batches, cold = _without_cold(batches)
        skipped += cold
    # Places that start immediately come first; others may have to compile an emulator, or libraries for Hexagon.
    batches.sort(key=lambda batch: (batch.place.instructions, batch.place.id == "gpu"))
    planned = sum(len(batch.cases) for batch in batches) + len(networks)
    selection = Selection(*options.shard, planner.digest(), planned)
    return TestPlan(files, tuple(batches), tuple(skipped), networks, unwritten, selection)


def _check_arch(options: TestOptions) -> None:
    """Raise unless a place that the user may have chosen runs code for the version of Hexagon."""
    places = [place_of(name) for name in options.backends] or list(PLACES.values())
    known = [arch for place in places if place.instructions for arch in architectures.of_backend(place.config)]
    if options.arch and options.arch not in known:
        hint = f"one of {', '.join(known)}" if known else "only hexagon and dsp run code for a version of Hexagon"
        raise UsageError(f"--arch {options.arch}: no such place is tested", hint=hint)


def _written(batches: Sequence[Batch]) -> tuple[list[Batch], tuple[str, ...]]:
    """The batches without cases whose reference is not implemented yet, and the messages of those references."""
    found: list[Batch] = []
    unwritten: dict[str, None] = {}
    for batch in batches:
        cases = []
        for case in batch.cases:
            if case.error is not None and case.error.kind == ReferenceUnwritten.kind:
                unwritten[case.error.message] = None
            else:
                cases.append(case)
        if cases:
            found.append(replace(batch, cases=tuple(cases)))
    return found, tuple(unwritten)


def _cold(place: Place) -> BackendState:
    """The state of a place that is skipped by default: its first run waits a minute or more for zig."""
    reason = f"cold: {HEXAGON.title} are compiled once, about {HEXAGON.seconds} s"
    hint = f"`udogen doctor --warm {HEXAGON.id}`, or --backend {place.id}"
    return BackendState(place.id, place.title, "skipped", reason, hint)


@dataclass(frozen=True)
class _Planner:
    """Makes the cases of test files, once for all places of a backend."""

    files: TestFiles
    sources: Mapping[Subject, configs.PackageSource]
    options: TestOptions
    _made: dict[tuple[int, str, bool], list[Case]] = field(default_factory=dict)
    _selected: list[str] = field(default_factory=list)  # the cases and networks of all parts

    @cached_property
    def _named(self) -> list[Place]:
        return [place_of(name) for name in dict.fromkeys(self.options.backends)]

    @property
    def _chosen(self) -> list[Place]:
        """The places that the user names; by default, all usual ones."""
        return self._named or [row for row in PLACES.values() if row.usual]

    @property
    def _is_here(self) -> bool:
        return HERE in (self.options.on or (HERE,))

    def _places(self) -> list[Place]:
        """The places of this machine, and those on devices: named by the user, or all usual ones that can run there."""
        devices = [device for device in dict.fromkeys(self.options.on) if device != HERE]
        bases = [place for place in self._named if not place.device]
        bases = bases or [row for row in PLACES.values() if row.usual and runs_on_devices(row)]
        return [
            *(PLACES.values() if self._is_here else ()),
            *(each for each in self._named if each.device),
            *(on_device(base, each) for each in devices for base in bases),
        ]

    def batches(self, busy: Collection[Place]) -> tuple[list[Batch], list[BackendState]]:
        """The cases in each place, and the places without any; those in `busy` run a network."""
        found: list[Batch] = []
        skipped = []
        for place in self._places():
            is_chosen = place in self._chosen or bool(place.device)
            own = self._batches_of(place) if is_chosen else []
            found += own
            if not own and place not in busy and (is_chosen or not self.options.backends):
                skipped.append(_skipped(place, self.options, is_chosen=is_chosen))
        if (self._is_here and not self.options.backends) or SHAPES in self._chosen:
            found += self._shape_batches()
        return found, skipped

    def _batches_of(self, place: Place) -> list[Batch]:
        """The cases for one place, by package."""
        found: dict[tuple[int, str], Batch] = {}
        for number, (tests, source, package) in enumerate(self._ops()):
            every = self._cases(number, tests, package, place.config or configs.backends_of(package, tests.op)[0])
            if place.client and place.config:
                every = [*every, *self._client_cases(number, tests, package, place)]
            every = [each for each in every if each.runs_on(place.base) and self._matches(each)]
            cases = self._of_shard(number, every, place)
            batch = found.setdefault((id(source), package.name), Batch(place, source, package, ()))
            found[id(source), package.name] = replace(batch, cases=(*batch.cases, *cases))
        return [batch for batch in found.values() if batch.cases]

    def _shape_batches(self) -> Iterator[Batch]:
        """The cases whose shapes are compared: those of one backend for each op."""
        for number, (tests, source, package) in enumerate(self._ops()):
            if tests.subject.rules or tests.subject.converter:
                every = self._cases(number, tests, package, configs.backends_of(package, tests.op)[0])
                every = [each for each in every if not each.refusal and self._matches(each)]
                cases = self._of_shard(number, every, SHAPES)
                if cases:
                    yield Batch(SHAPES, source, package, cases)

    def network_jobs(self) -> tuple[NetworkJob, ...]:
        """The networks to run in places of this machine; `--case` selects them as `network/NAME`."""
        part, parts = self.options.shard
        ops = tuple(self._ops())
        jobs = [
            (number, NetworkJob(tests, place, bits, ops))
            for number, tests in enumerate(self.files.networks)
            if self._selects("network", tests.name)
            for place in self._chosen
            if self._is_here and runs_networks(place) and place.config in tests.backends
            for bits in tests.bits
        ]
        sizes = {job.tests.model: os.path.getsize(job.tests.model) for _, job in jobs if job.tests.model.is_file()}
        self._selected.extend(
            f"{job.place.id} network {job.tests.name} {job.bits} {sizes.get(job.tests.model)}" for _, job in jobs
        )
        return tuple(job for number, job in jobs if number % parts == part - 1)

    def digest(self) -> str:
        """A key of the selected cases of all parts, of all sources, and of the version of udogen."""
        safety, found = self.options.safety, set(self.files.files)
        for tests in self.files.ops:
            subject = tests.subject
            found |= {each for each in (subject.config, subject.rules) if each}
            found.add(tests.folder / tests.reference.partition(":")[0])
            folders = [each.path for each in self.sources[subject].folders]
            if subject.config:
                folders = [subject.kernels or subject.config.parent / "kernels"]
            found.update(each for folder in folders for each in folder.rglob("*") if each.suffix in _SOURCES)
        contents = {
            each.name.encode() + b"\0" + each.read_bytes()
            for each in found
            if os.access(each, os.R_OK) and each.is_file()
        }
        checks = (safety.heap, safety.guard, [each.folder for each in safety.sanitize])
        facts = (__version__, self.options.arch, checks, sorted(self._selected))
        return content_key(repr(facts).encode(), *sorted(contents))

    def _ops(self) -> Iterator[tuple[OpTests, configs.PackageSource, OpPackage]]:
        for tests in self.files.ops:
            source = self.sources[tests.subject]
            package = source.package(tests.op)
            assert package is not None  # `configs.sources` has checked it
            yield tests, source, package

    def _cases(self, number: int, tests: OpTests, package: OpPackage, backend: str) -> list[Case]:
        key = (number, backend, False)
        if key not in self._made:
            self._made[key] = expand.cases_of(tests, package, backend)
        return self._made[key]

    def _client_cases(self, number: int, tests: OpTests, package: OpPackage, place: Place) -> list[Case]:
        key = (number, place.id, True)
        if key not in self._made:
            self._made[key] = client_cases.cases_of(tests, package, place)
        return self._made[key]

    def _of_shard(self, number: int, cases: Sequence[Case], place: Place) -> tuple[Case, ...]:
        """Ops are divided among shards, so that few machines build a package; if there are too few ops, cases are."""
        cold = " cold" * bool(place.instructions and not self.options.backends and not HEXAGON.is_warm)
        self._selected.extend(f"{place.id}{cold} {each.op} {each.name} {sorted(each.dtypes.items())}" for each in cases)
        part, parts = self.options.shard
        if len(self.files.ops) >= parts:
            return tuple(cases) if number % parts == part - 1 else ()
        return tuple(cases[part - 1 :: parts])

    def _matches(self, case: Case) -> bool:
        return self._selects(case.op, case.name)

    def _selects(self, op: str, name: str) -> bool:
        """Whether one of the patterns is a substring of `Op/name`, or a shell pattern that matches all of it."""
        text, patterns = f"{op}/{name}", self.options.patterns or ("",)
        return any(each in text or fnmatch(text, each) or fnmatch(name, each) for each in patterns)


def run(
    plan: TestPlan,
    options: TestOptions,
    *,
    on_batch: Callable[[Batch], None] = lambda _batch: None,
    on_case: OnCase = lambda _outcome: None,
    on_step: OnStep = lambda _line: None,
) -> TestRun:
    """Run what was planned; only an internal error, or an interrupt, ends it early.

    `on_batch` is called for each package and place before it is built and run, `on_step` for steps of compilers.
    """
    begun = time.perf_counter()
    by_device: dict[str, list[Batch]] = {}  # devices run in parallel, the batches of one device sequentially
    for batch in plan.batches:
        by_device.setdefault(batch.place.device, []).append(batch)
    runs = [partial(_run_batches, each, options, on_batch, on_case, on_step) for each in by_device.values()]
    results = [result for found in process.at_once(runs, len(runs)) for result in found]
    networks = tuple(_run_network(job, options, on_step) for job in plan.networks)
    states = joined([*plan.skipped, *(result.state for result in results)])
    warnings = [*unchecked(options.safety, (batch.place for batch in plan.batches))]
    warnings += [warning for result in results for warning in result.warnings]
    found = TestRun(
        folder=plan.files.folder,
        states=tuple(states[name] for name in dict.fromkeys((*PLACES, SHAPES.id, *states)) if name in states),
        outcomes=tuple(outcome for result in results for outcome in result.outcomes),
        seconds=time.perf_counter() - begun,
        environment=environment(),
        warnings=tuple(dict.fromkeys(warnings)),
        networks=networks,
        unwritten=plan.unwritten,
        selection=plan.selection,
        not_executed=tuple(dict.fromkeys(line for result in results for line in result.not_executed)),
    )
    counts: dict[str, int] = {status: found.count(status) for status in STATUSES}
    nothing = "" if found.unwritten or found.build_failed else nothing_compared(counts, found.absent)
    return replace(found, warnings=(*found.warnings, nothing)) if nothing else found


@dataclass(frozen=True)
class _BatchResult:
    state: BackendState
    outcomes: Sequence[Outcome] = ()
    warnings: tuple[str, ...] = ()
    not_executed: Sequence[str] = ()


def _run_batches(
    batches: Sequence[Batch],
    options: TestOptions,
    on_batch: Callable[[Batch], None],
    on_case: OnCase,
    on_step: OnStep,
) -> list[_BatchResult]:
    """Run batches sequentially; a missing place is not tried again."""
    missing: dict[str, BackendState] = {}
    found = []
    for batch in batches:
        if batch.place.id in missing:
            found.append(_BatchResult(replace(missing[batch.place.id], cases=len(batch.cases))))
            continue
        on_batch(batch)
        found.append(_run_batch(batch, options, on_case, on_step))
        if found[-1].state.state == "missing":
            missing[batch.place.id] = found[-1].state
    return found


def _run_batch(batch: Batch, options: TestOptions, on_case: OnCase, on_step: OnStep) -> _BatchResult:
    place, cases = batch.place, batch.cases
    if place is SHAPES:
        return _run_shapes(batch, options, on_case)
    ops = list(dict.fromkeys(case.op for case in cases))
    try:
        check_available(place, on_step)
        if place.config:
            built = packages.prepare(batch.source, batch.package, place, ops, options=options, on_step=on_step)
        else:
            built = Built(Path(), "", batch.package.name, None)
    except BuildFailed as error:
        return _run_others(batch, error, options, on_case, on_step)
    except UdogenError as error:
        return _not_run(batch, error)
    outdated = built.outdated if not options.build and not place.instructions else ""
    warnings = (outdated,) if outdated else ()
    try:
        found = run_cases(
            built, cases, backend=place.id, options=replace(options, explain=True), on_case=on_case, on_step=on_step
        )
    except BuildFailed as error:  # some places compile when they run
        return _run_others(batch, error, options, on_case, on_step)
    except ToolMissing as error:
        return replace(_not_run(batch, error), warnings=warnings)
    except RegistrationFailed as error:  # an error in the package: none of its cases has numbers
        state = BackendState(place.id, place.title, "ran", cases=len(cases))
        return _BatchResult(state, _all_errors(batch, error, on_case), warnings)
    executions = vectors.of_folder(built.folder.path, built.folder.sources) if built.folder else ()
    return _BatchResult(_ran(place, found), found, warnings, vectors.not_executed(executions))


def _run_others(
    batch: Batch, error: BuildFailed, options: TestOptions, on_case: OnCase, on_step: OnStep
) -> _BatchResult:
    """Run the ops that compile, in a separate package; the cases of the others are errors."""
    ops = tuple(op for op in batch.package.ops if op.name not in error.ops)
    broken = replace(batch, cases=tuple(case for case in batch.cases if case.op in error.ops))
    cases = tuple(case for case in batch.cases if case.op not in error.ops)
    if not cases or len(ops) == len(batch.package.ops):
        return _not_run(batch, error)
    on_step(f"without {', '.join(error.ops)}: {error.message}")
    found = _run_batch(replace(batch, package=batch.package.with_ops(ops), cases=cases), options, on_case, on_step)
    if found.state.state in ABSENT:  # report the first error, which is that of the whole package
        return _not_run(batch, error)
    warning = () if broken.cases else ("\n    ".join((error.message, *error.details)),)
    state = replace(found.state, cases=len(batch.cases), build_failed=True)
    outcomes = (*_all_errors(broken, error, on_case), *found.outcomes)
    return _BatchResult(state, outcomes, (*warning, *found.warnings), found.not_executed)


_NETWORK_TIMEOUT = 10  # times that of a case: all its layers are prepared and executed


def _run_network(job: NetworkJob, options: TestOptions, on_step: OnStep) -> NetworkOutcome:
    """Run one network with the packages and references of its custom ops; an error becomes its outcome."""
    tests, place, begun = job.tests, job.place, time.perf_counter()
    on_step(f"network {tests.name} on {place.id}")
    result: NetworkReport | None = None
    error = None
    status: Status = "passed"
    try:
        check_available(place, on_step)
        assert place.program is not None
        types = place.program.op_types(tests.model, tests.until)
        used = [row for row in job.ops if row[0].op in types]
        built = {}
        for _, source, package in used:
            ops = [each.op for each, _, other in used if other is package]
            if package.name not in built:
                built[package.name] = packages.prepare(source, package, place, ops, options=options, on_step=on_step)
        result = place.program.run_network(
            model=tests.model,
            packages=tuple(each.library for each in built.values()),
            backend=place.config,
            bits=job.bits,
            inputs=tests.inputs,
            references={row.op: references.find(row.reference, row.folder) for row, _, _ in used if row.reference},
            tolerance=tests.tolerance,
            until=tests.until,
            timeout=_NETWORK_TIMEOUT * options.timeout if options.timeout else None,
        )
        status = "failed" if result.fault else "passed"
    except UdogenError as problem:
        status = "skipped" if isinstance(problem, ToolMissing) else "error"
        error = CaseError.of(problem)
    seconds = time.perf_counter() - begun
    return NetworkOutcome(tests.name, place.id, job.bits, status, str(tests.location), result, error, seconds)


def _is_real(runtime: RuntimeInfo | None) -> bool:
    """Whether the runtime is Qualcomm's own library."""
    return runtime is not None and bool(runtime.build_id) and not runtime.emulator


def run_of(folder: Path, outcomes: Sequence[Outcome]) -> TestRun:
    """The outcomes of `run_cases` as a test run."""
    found: dict[str, list[Outcome]] = {}
    for each in outcomes:
        found.setdefault(each.backend, []).append(each)
    states = tuple(_ran(PLACES[name], own) for name, own in found.items())
    seconds = sum(each.seconds for each in outcomes)
    return TestRun(folder, states, tuple(outcomes), seconds, environment())


def _ran(place: Place, outcomes: Sequence[Outcome]) -> BackendState:
    """The state of a place where these cases ran."""
    runtime = next((each.runtime for each in outcomes if each.runtime), None)
    real = _is_real(runtime)
    return BackendState(place.id, place.title, "ran", real=real, runtime=runtime, cases=len(outcomes))


def _not_run(batch: Batch, error: UdogenError) -> _BatchResult:
    place = batch.place
    state: State = "missing" if isinstance(error, ToolMissing) else "unbuilt"
    why = BackendState(place.id, place.title, state, error.message, error.hint, error.details)
    return _BatchResult(replace(why, cases=len(batch.cases), build_failed=isinstance(error, BuildFailed)))


def _all_errors(batch: Batch, error: UdogenError, on_case: OnCase) -> list[Outcome]:
    found = []
    for case in batch.cases:
        found.append(
            Outcome(
                case=case,
                backend=batch.place.id,
                dtype=case.output_types,
                status="error",
                package=batch.package.name,
                error=CaseError.of(error),
            )
        )
        on_case(found[-1])
    return found


def environment() -> tuple[tuple[str, str], ...]:
    """The environment that numbers and times depend on."""
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


# --- the place `shapes`: compares shape rules, converter op package and reference; runs no op -------------------------


def _run_shapes(batch: Batch, options: TestOptions, on_case: OnCase) -> _BatchResult:
    try:
        found = _compare_shapes(batch.source.subject, batch.package, batch.cases, options)
    except (ToolMissing, BuildFailed) as error:
        return _not_run(batch, error)
    except UdogenError as error:
        found = _all_errors(batch, error, on_case)
    else:
        for each in found:
            on_case(each)
    return _BatchResult(BackendState(SHAPES.id, SHAPES.title, "ran", cases=len(found)), found)


def _compare_shapes(subject: Subject, package: OpPackage, cases: Sequence[Case], options: TestOptions) -> list[Outcome]:
    """Compare the shapes of every case without running an op; raises if the rules or the library cannot be loaded."""
    rules = load_shape_rules(subject.rules, package.ops) if subject.rules else None
    library = _library(subject.converter, options) if subject.converter else None
    built = Built(library or Path(), "", package.name, None)
    ops = {each.name: each for each in package.ops}
    outcomes = [_shape_outcome(case, package) for case in cases]
    calls: dict[int, OpCall] = {}
    for number, case in enumerate(cases):
        op = configs.op_for(package, case.op, case.backend)
        if case.error is None and op is not None:
            try:
                calls[number] = case.call(op, built, by_name=True)
            except UdogenError as error:
                outcomes[number] = replace(outcomes[number], error=CaseError.of(error))
    questions = [_question(each, ops[each.op_type]) for each in calls.values()]
    replies = ask_all(library, questions, timeout=options.timeout) if library else [None] * len(calls)
    for (number, call), reply in zip(calls.items(), replies, strict=True):
        outcome = replace(outcomes[number], dtype=" ".join({each.dtype for each in call.outputs}))
        try:
            outcomes[number] = _compared(outcome, call, reply, ops[call.op_type], rules)
        except UdogenError as error:
            outcomes[number] = replace(outcome, error=CaseError.of(error))
    return outcomes


def _shape_outcome(case: Case, package: OpPackage) -> Outcome:
    return Outcome(case=case, backend=SHAPES.id, dtype="", status="error", package=package.name, error=case.error)


def _library(path: Path, options: TestOptions) -> Path:
    if not path.is_dir():
        return path
    folder = next((each for each in open_packages(path) if each.kind.converter), None)
    if folder is None:
        raise UsageError(f"{path} is not a converter op package", hint="`udogen generate --converter` makes one")
    if options.build:
        return packages.build(folder, "converter", jobs=options.jobs)[0]
    return next(each for row in folder.rows if row.native for each in folder.artifacts(row))


def _question(call: OpCall, op: Op) -> ConverterCall:
    # A converter knows only the values of tensors that are static in the model.
    static = {each.name for each in op.inputs if each.static}
    inputs = [None if each.omitted else given_of(each, data=each.name in static) for each in call.inputs]
    params: dict[str, Scalar | Given] = {}
    for each in call.params:
        value = each.value
        params[each.name] = (
            Scalar(each.name, each.dtype, value) if isinstance(value, (bool, int, float, str)) else given_of(each)
        )
    return ConverterCall(call.op_type, inputs, params, len(call.outputs))


def _compared(
    outcome: Outcome, call: OpCall, reply: ConverterReply | None, op: Op, rules: ShapeRules | None
) -> Outcome:
    """The outcome of a case, with a finding for each difference; raises if its shape rule raises."""
    inferred = infer_outputs(rules, op, call.inputs, call.params, call.outputs) if rules else {}
    compared = 0
    findings: list[Finding] = []
    fault = reply.fault if reply else ""
    shapes, types = (reply.shapes, reply.dtypes) if reply and not fault else ((), ())
    for number, output in enumerate(call.outputs):
        rule, expected = inferred.get(output.name), outcome.case.expected.get(output.name)
        rows = {
            "the reference": None if expected is None else tuple(expected.shape),
            "the shape rule": rule.shape if rule else None,
            "the converter library": shapes[number] if shapes else None,
        }
        pairs = list(pairwise((source, shape) for source, shape in rows.items() if shape is not None))
        compared += len(pairs)
        findings += [_difference(output.name, *pair) for pair in pairs if pair[0][1] != pair[1][1]]
        if types:
            findings += _type_difference(call.op_type, output.name, types[number], rule)
    if fault:
        hint = "write it in ConverterOpPackage.cpp; the library prints its reason on stderr"
        findings.append(Finding(f"the converter library has no result: {fault}", hint, kind="converter"))
    status: Status = "failed" if findings else "passed" if compared else "ran"
    return replace(outcome, status=status, findings=tuple(findings))


def _type_difference(op: str, output: str, found: str | None, rule: Inferred | None) -> Iterator[Finding]:
    if rule and rule.dtype and found != rule.dtype:
        yield Finding(
            f"for `{output}` the converter library returns the type {found or 'unknown'}, "
            f"the config or its rule {rule.dtype}",
            f"see {op}DataTypeInference in ConverterOpPackage.cpp",
            kind="converter",
        )


def _difference(name: str, known: tuple[str, tuple[int, ...]], found: tuple[str, tuple[int, ...]]) -> Finding:
    (other, expected), (who, shape) = (
        (each, "x".join(map(str, extents)) or "a scalar") for each, extents in (known, found)
    )
    sentence = f"for `{name}` {who} returns {shape}, {other} {expected}"
    return Finding(sentence, "correct the one that is wrong", kind="shape")
