"""The plan of a test run: every case and network in every place where it can run, and the places left out."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

from udogen import __version__
from udogen.backends import PLACES, architectures
from udogen.backends.backend import Place
from udogen.build.zig_libraries import HEXAGON
from udogen.errors import RunFailed, UdogenError, UsageError
from udogen.findings import suggestion
from udogen.opdef.model import OpPackage
from udogen.python_files import load_module, modules_below
from udogen.resources import content_key
from udogen.verify.cases import Case
from udogen.verify.options import TestOptions
from udogen.verify.places import HERE, SHAPES, on_device, place_of, runs_networks, runs_on_devices
from udogen.verify.results import BackendState, Selection
from udogen.verify.test_files import client_cases, configs, expand, read
from udogen.verify.test_files.model import GivenNumbers, NetworkTests, OpTests, Subject, TestFiles
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
    others = [batch for batch in batches if not batch.place.instructions]
    if not others or HEXAGON.is_warm:
        return batches, []
    return others, [_cold(place) for place in dict.fromkeys(batch.place for batch in batches) if place.instructions]


def _no_case(files: TestFiles, options: TestOptions) -> UsageError:
    """The error if no place has a case."""
    part, parts = options.shard
    why = f"matches {_listed(options)}" if options.patterns else "is for this"
    why = f"is left for part {part} of {parts}" if parts > 1 else why
    narrowed = options.patterns or options.backends or parts > 1
    hint = "`udogen test DIR` runs all of them" if narrowed else "see the test file"
    if options.patterns and (files.folder / read.FILE_NAME).is_file():
        known = {name.partition(end)[0] for name in expand.names(files.folder) for end in ("/", ",")}
        hint = suggestion(options.patterns[0], known, hint)
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
    batches.sort(key=lambda batch: (batch.place.instructions, batch.place.compiles))
    selection = Selection(*options.shard, planner.digest())
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
    written: list[Batch] = []
    messages: dict[str, None] = {}
    for batch in batches:
        cases = []
        for case in batch.cases:
            if case.error is not None and case.error.kind == ReferenceUnwritten.kind:
                messages[case.error.message] = None
            else:
                cases.append(case)
        if cases:
            written.append(replace(batch, cases=tuple(cases)))
    return written, tuple(messages)


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
    _cases_of_place: dict[tuple[int, str], list[Case]] = field(default_factory=dict)
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
            *(place for place in self._named if place.device),
            *(on_device(base, device) for device in devices for base in bases),
        ]

    def batches(self, busy: Collection[Place]) -> tuple[list[Batch], list[BackendState]]:
        """The cases in each place, and the places without any; those in `busy` run a network."""
        batches: list[Batch] = []
        skipped = []
        for place in self._places():
            is_chosen = place in self._chosen or bool(place.device)
            own = self._batches_of(place) if is_chosen else []
            batches += own
            if not own and place not in busy and (is_chosen or not self.options.backends):
                skipped.append(_skipped(place, self.options, is_chosen=is_chosen))
        if (self._is_here and not self.options.backends) or SHAPES in self._chosen:
            batches += self._shape_batches()
        return batches, skipped

    def _batches_of(self, place: Place) -> list[Batch]:
        """The cases for one place, by package."""
        batches: dict[tuple[int, str], Batch] = {}
        for number, (tests, source, package) in enumerate(self._ops()):
            every = self._cases(number, tests, package, place.config or configs.backends_of(package, tests.op)[0])
            if place.client and place.config:
                every = [*every, *self._cases(number, tests, package, place.config, client=place)]
            every = [case for case in every if case.runs_on(place.base) and self._selects(case.op, case.name)]
            cases = self._of_shard(number, every, place)
            batch = batches.setdefault((id(source), package.name), Batch(place, source, package, ()))
            batches[id(source), package.name] = replace(batch, cases=(*batch.cases, *cases))
        return [batch for batch in batches.values() if batch.cases]

    def _shape_batches(self) -> Iterator[Batch]:
        """The cases whose shapes are compared: those of one backend for each op."""
        for number, (tests, source, package) in enumerate(self._ops()):
            if tests.subject.rules or tests.subject.converter:
                every = self._cases(number, tests, package, configs.backends_of(package, tests.op)[0])
                every = [case for case in every if not case.refusal and self._selects(case.op, case.name)]
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
        safety, files = self.options.safety, set(self.files.files)
        bases = {self.files.folder}
        for tests in self.files.ops:
            reference = tests.folder / tests.reference.partition(":")[0]
            files |= {reference, *self._files_of(tests)}
            bases |= {tests.folder, reference.parent}
            if tests.subject.rules and any(row.startswith(SHAPES.id) for row in self._selected):
                with suppress(UdogenError):  # reported when the shapes are compared
                    load_module(tests.subject.rules)
        files.update(file for tests in self.files.networks for file in tests.inputs.values())
        files |= modules_below(bases)  # what references and rules import
        contents = {
            file.name.encode() + b"\0" + file.read_bytes()
            for file in files
            if os.access(file, os.R_OK) and file.is_file()
        }
        checks = (safety.heap, safety.guard, [variant.folder for variant in safety.sanitize])
        facts = (__version__, self.options.arch, checks, sorted(self._selected))
        return content_key(repr(facts).encode(), *sorted(contents))

    def _files_of(self, tests: OpTests) -> Iterator[Path]:
        """The config, rules, given numbers and sources of an op."""
        subject = tests.subject
        yield from (file for file in (subject.config, subject.rules) if file)
        fills = (fill for group in tests.groups for fills in group.values for fill in fills.values())
        yield from (fill.file for fill in fills if isinstance(fill, GivenNumbers) and fill.file)
        folders = [package.path for package in self.sources[subject].folders]
        if subject.config:
            folders = [subject.kernels or subject.config.parent / "kernels"]
        yield from (file for folder in folders for file in folder.rglob("*") if file.suffix in _SOURCES)

    def _ops(self) -> Iterator[tuple[OpTests, configs.PackageSource, OpPackage]]:
        for tests in self.files.ops:
            source = self.sources[tests.subject]
            package = source.package(tests.op)
            assert package is not None  # `configs.sources` has checked it
            yield tests, source, package

    def _cases(
        self, number: int, tests: OpTests, package: OpPackage, backend: str, *, client: Place | None = None
    ) -> list[Case]:
        """The cases of one op for a backend, or those that its client adds; made once."""
        key = (number, f"client {client.id}" if client else backend)
        if key not in self._cases_of_place:
            self._cases_of_place[key] = (
                client_cases.cases_of(tests, package, client) if client else expand.cases_of(tests, package, backend)
            )
        return self._cases_of_place[key]

    def _of_shard(self, number: int, cases: Sequence[Case], place: Place) -> tuple[Case, ...]:
        """Ops are divided among shards, so that few machines build a package; if there are too few ops, cases are."""
        cold = " cold" * bool(place.instructions and not self.options.backends and not HEXAGON.is_warm)
        self._selected.extend(f"{place.id}{cold} {case.op} {case.name} {sorted(case.dtypes.items())}" for case in cases)
        part, parts = self.options.shard
        if len(self.files.ops) >= parts:
            return tuple(cases) if number % parts == part - 1 else ()
        return tuple(cases[part - 1 :: parts])

    def _selects(self, op: str, name: str) -> bool:
        """Whether one of the patterns is a substring of `Op/name`, or a shell pattern that matches all of it."""
        text, patterns = f"{op}/{name}", self.options.patterns or ("",)
        return any(pattern in text or fnmatch(text, pattern) or fnmatch(name, pattern) for pattern in patterns)
