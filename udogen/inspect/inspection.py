"""Inspects a library, or all libraries in a folder: reads, compares with a runtime, registers in a worker."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from udogen.build import elf, tools
from udogen.build.package import MANIFEST, PackageLibrary, open_packages, package_of
from udogen.errors import RunFailed, UsageError
from udogen.inspect import kinds
from udogen.inspect.kinds import LibraryFacts
from udogen.inspect.rules import LIVE, STATIC, STOPS, UDO, UNKNOWN, VERDICTS, WARNS, LibraryEvidence, RuleFinding, run
from udogen.inspect.symbols import NO_RUNTIME, ComparedRuntime, find_compared, resolve
from udogen.runtime.failures import OlderRecords, OpCrashed, OpTimedOut
from udogen.runtime.op.session import OpSession
from udogen.runtime.package_queries import read_records
from udogen.runtime.snpe.registration import read_registration
from udogen.runtime.worker.loaded_package import STUB_MACHINE

_SECONDS = 30.0  # for registering a package


@dataclass(frozen=True)
class InspectedLibrary:
    """A library and the verdict on it; without evidence if the file is not an ELF library."""

    path: Path
    evidence: LibraryEvidence | None
    findings: tuple[RuleFinding, ...]
    target: str = ""  # the target of the package, if it belongs to one

    @property
    def is_package(self) -> bool:
        """Whether it is an op package or registration library; true also if it is too broken to be read."""
        return self.evidence is None or self.evidence.facts.is_package or self.evidence.facts.is_registration

    @property
    def weight(self) -> str:
        """The worst weight of all findings."""
        weights = {finding.weight for finding in self.findings}
        return next((weight for weight in (STOPS, UNKNOWN, WARNS) if weight in weights), "")

    @property
    def verdict(self) -> str:
        """Whether it will register, as text."""
        return VERDICTS[self.weight]


@dataclass(frozen=True)
class InspectOptions:
    """Runtimes to compare with, and whether code of the library may run."""

    against: tuple[Path, ...]
    env: tools.Environment
    register: bool = True


_CONTEXT_HINT = "a context binary is not an op package: restore it with `udogen run op … --context FILE`"


def inspect(
    path: Path, options: InspectOptions, *, folder: PackageLibrary | None = None, target: str = "", choose: bool = False
) -> InspectedLibrary:
    """Inspect one library, optionally of a target of a package.

    `choose` uses only those given runtimes that are for the machine of the library.
    """
    try:
        found = elf.read(path)
    except elf.NotElf as fault:
        hint = _CONTEXT_HINT if path.suffix == ".bin" else fault.hint
        return InspectedLibrary(path, None, (RuleFinding("file", STOPS, fault.message, hint),), target)
    facts = kinds.identify(found)
    backend = (folder.backend if folder else "") or facts.kind.backend
    runtime = NO_RUNTIME
    if facts.is_package:
        runtime = find_compared(facts, options.against, backend=backend, env=options.env, choose=choose)
    evidence = _static_evidence(facts, runtime, folder)
    findings = run(STATIC, evidence)
    weights = {each.weight for each in findings}
    loadable = options.register and evidence.native and STOPS not in weights
    if facts.is_package and loadable and UNKNOWN not in weights:
        evidence = _record(_register(evidence, backend))
        findings += run(LIVE, evidence)
    if facts.is_registration:
        evidence = _read(evidence) if loadable else evidence
        findings += run(UDO, evidence)
    return InspectedLibrary(path, evidence, tuple(findings), target)


def _static_evidence(facts: LibraryFacts, runtime: ComparedRuntime, folder: PackageLibrary | None) -> LibraryEvidence:
    """The evidence without loading the library."""
    library = facts.elf
    fits = all(each.machine == library.machine for each in runtime.libraries)
    native = library.machine == platform.machine() and library.bits == 64 and fits
    return LibraryEvidence(
        facts=facts,
        runtime=runtime,
        resolution=resolve(library, runtime if fits else NO_RUNTIME, native=native),
        native=native,
        folder=folder,
        provider=folder.provider if folder else next(iter(facts.providers), ""),
    )


def _register(evidence: LibraryEvidence, backend: str) -> LibraryEvidence:
    try:
        with OpSession(
            evidence.path, evidence.provider, backend=backend, runtime=evidence.runtime.main.path, timeout=_SECONDS
        ) as session:
            return replace(evidence, registered=(session.package, session.runtime))
    except RunFailed as fault:
        return replace(evidence, failure=fault)


def _read(evidence: LibraryEvidence) -> LibraryEvidence:
    """Read a registration library."""
    try:
        return replace(evidence, registration=read_registration(evidence.path, timeout=_SECONDS))
    except RunFailed as fault:
        return replace(evidence, failure=fault)


def _record(evidence: LibraryEvidence) -> LibraryEvidence:
    """Read the kernel records, which may explain why the runtime refused or crashed."""
    crashed = isinstance(evidence.failure, (OpCrashed, OpTimedOut))
    if evidence.facts.kind.id != "qhpi" or evidence.facts.elf.machine != STUB_MACHINE:
        return evidence
    undefined = [symbol.name for symbol in evidence.facts.elf.imports if symbol.name.startswith("qhpi_")]
    try:
        return replace(evidence, records=read_records(evidence.path, undefined, timeout=_SECONDS))
    except RunFailed as fault:
        if crashed and not isinstance(fault, OlderRecords):  # a repetition of the same crash
            return evidence
        return replace(evidence, records_failure=fault)


# --- folders ---------------------------------------------------------------------------------------------------------


_SOURCES = ("src", "include", "config", "user.mk", "Makefile")
_LEFT_OUT = {"obj", ".udogen", ".git", ".venv"}
_MOST = 200  # libraries below a folder: more is not a folder of op packages


@dataclass(frozen=True)
class UnbuiltTarget:
    """A target whose library was not built."""

    target: str
    library: Path
    command: str


@dataclass(frozen=True)
class InspectedPackage:
    """A generated package: its built libraries, and the targets that are not built."""

    folder: PackageLibrary
    built: tuple[InspectedLibrary, ...]
    not_built: tuple[UnbuiltTarget, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """Everything that was inspected."""

    packages: tuple[InspectedPackage, ...]
    others: tuple[InspectedLibrary, ...]

    @property
    def judged(self) -> tuple[InspectedLibrary, ...]:
        """The libraries that decide the exit code: in a folder with op packages, only those."""
        packages = tuple(each for each in self.libraries if each.is_package)
        return packages or self.libraries

    @property
    def libraries(self) -> tuple[InspectedLibrary, ...]:
        """All libraries, those of packages first."""
        return (*(each for package in self.packages for each in package.built), *self.others)


def inspect_all(
    path: Path, options: InspectOptions, *, on_library: Callable[[str], None] = lambda _name: None
) -> Inspection:
    """Inspect a library, or everything in a folder."""
    if not path.exists():
        raise UsageError(f"{path} does not exist", hint="give a built library, or the folder of a package")
    if not path.is_dir():
        folder, target = _package_and_target(path)
        return Inspection((), (inspect(path, options, folder=folder, target=target),))
    packages = _packages(path)
    rest = _others(path, packages)
    if not packages and not rest:
        raise UsageError(
            f"{path} holds neither a package that udogen generated nor a library (*.so)",
            hint="give a library, or the folder of a package",
        )

    def one(library: Path, folder: PackageLibrary | None = None, target: str = "") -> InspectedLibrary:
        on_library(library.name)
        return inspect(library, options, folder=folder, target=target, choose=True)

    return Inspection(
        tuple(_package(each, one) for each in packages),
        tuple(one(each) for each in rest),
    )


def _packages(path: Path) -> list[PackageLibrary]:
    if not (path / MANIFEST).is_file() and not any(path.glob(f"*/{MANIFEST}")):
        return []
    # Converter packages are not registered.
    return [each for each in open_packages(path) if not each.kind.converter]


def _package(folder: PackageLibrary, one: Callable[[Path, PackageLibrary, str], InspectedLibrary]) -> InspectedPackage:
    built: list[InspectedLibrary] = []
    missing: list[UnbuiltTarget] = []
    for row in folder.rows:
        there = [library for library in folder.artifacts(row) if library.exists()]
        built += [one(library, folder, row.id) for library in there]
        if not there:
            command = f"udogen build {row.id} -C {shlex.quote(str(folder.path))}"
            missing.append(UnbuiltTarget(row.id, folder.artifacts(row)[0], command))
    return InspectedPackage(folder, tuple(built), tuple(missing), tuple(_notes(folder, built)))


def _notes(folder: PackageLibrary, built: Sequence[InspectedLibrary]) -> list[str]:
    notes = []
    usual = (folder.name, folder.name + folder.backend.capitalize())
    if folder.path.resolve().name not in usual:
        notes.append(
            f"the folder is called {folder.path.resolve().name}, the package {folder.name}: nodes and clients must "
            f"use {folder.name}"
        )
    files = [file for name in _SOURCES for file in _files(folder.path / name)]
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    for each in built:
        if newest and each.path.stat().st_mtime < newest.stat().st_mtime:
            notes.append(f"{each.target} is older than {newest.relative_to(folder.path)}: build it again")
    return notes


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]


def _others(path: Path, packages: Sequence[PackageLibrary]) -> list[Path]:
    """Libraries that do not belong to a target of a package."""
    known = {library.resolve() for folder in packages for row in folder.rows for library in folder.artifacts(row)}
    found: list[Path] = []
    for here, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        libraries = [Path(here, name) for name in sorted(names) if name.endswith(".so")]
        found += [each for each in libraries if each.is_file() and each.resolve() not in known]
        if len(found) > _MOST:
            raise UsageError(f"{path} holds more than {_MOST} libraries", hint="give the folder of a package")
    return found


def _package_and_target(library: Path) -> tuple[PackageLibrary | None, str]:
    """The package and the target of a library."""
    folder = package_of(library)
    if folder is not None:
        for row in folder.rows:
            if library.resolve() in [each.resolve() for each in folder.artifacts(row)]:
                return folder, row.id
    return None, ""
