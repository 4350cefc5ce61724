"""One library: read it, compare it with a runtime, register it in a child, and say what will become of it."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from pathlib import Path

from udogen.build import elf, tools
from udogen.build.package import PackageLibrary
from udogen.errors import RunFailed
from udogen.inspect import kinds, symbols
from udogen.inspect.rules import LIVE, STATIC, STOPS, UNKNOWN, VERDICTS, WARNS, Case, Finding, run
from udogen.inspect.symbols import resolve
from udogen.inspect.udo import UDO
from udogen.runtime.failures import OlderRecords, OpCrashed, OpTimedOut
from udogen.runtime.op.session import OpSession
from udogen.runtime.package_queries import read_records
from udogen.runtime.snpe.registration import read_registration
from udogen.runtime.worker import stub_library

_SECONDS = 30.0  # for a package that never comes back from registering


@dataclass(frozen=True)
class Inspected:
    """A library and the verdict on it; no case where the file is no ELF library."""

    path: Path
    case: Case | None
    findings: tuple[Finding, ...]
    target: str = ""  # of the package, where it is the library of one

    @property
    def is_package(self) -> bool:
        """False for a library that is none; true also for what is too broken to tell."""
        return self.case is None or self.case.facts.is_package or self.case.facts.is_registration

    @property
    def weight(self) -> str:
        """The worst weight of all findings."""
        weights = {finding.weight for finding in self.findings}
        return next((weight for weight in (STOPS, UNKNOWN, WARNS) if weight in weights), "")

    @property
    def verdict(self) -> str:
        """Will it register."""
        return VERDICTS[self.weight]


@dataclass(frozen=True)
class How:
    """What a person asked for: runtimes to compare with, and whether anything of the library may run."""

    against: tuple[Path, ...]
    env: tools.Environment
    register: bool = True


def inspect(
    path: Path, how: How, *, folder: PackageLibrary | None = None, target: str = "", choose: bool = False
) -> Inspected:
    """Inspect one library, of a target of a package if need be.

    `choose` takes of the runtimes that were given only those for the machine of the library.
    """
    try:
        found = elf.read(path)
    except elf.NotElf as fault:
        hint = fault.hint
        if path.suffix == ".bin":
            hint = "a context binary is no op package: restore it with `udogen run op … --context FILE`"
        return Inspected(path, None, (Finding("file", STOPS, fault.message, hint),), target)
    facts = kinds.look(found)
    backend = (folder.backend if folder else "") or facts.style.backend
    native = found.machine == platform.machine() and found.bits == 64
    runtime = symbols.NONE
    if facts.is_package:
        runtime = symbols.find(facts, how.against, backend=backend, env=how.env, choose=choose)
    fits = all(each.machine == found.machine for each in runtime.libraries)
    here = native and fits
    case = Case(
        facts=facts,
        reference=runtime,
        resolution=resolve(found, runtime if fits else symbols.NONE, native=here),
        native=here,
        folder=folder,
        provider=folder.provider if folder else next(iter(facts.providers), ""),
    )
    findings = run(STATIC, case)
    if how.register and here and facts.is_package and not any(each.weight in (STOPS, UNKNOWN) for each in findings):
        case = _register(case, backend)
        case = _record(case)
        findings += run(LIVE, case)
    if facts.is_registration:
        if how.register and here and not any(each.weight == STOPS for each in findings):
            case = _read(case)
        findings += run(UDO, case)
    return Inspected(path, case, tuple(findings), target)


def _register(case: Case, backend: str) -> Case:
    try:
        with OpSession(
            case.path, case.provider, backend=backend, runtime=case.reference.main.path, timeout=_SECONDS
        ) as session:
            return replace(case, registered=(session.package, session.runtime))
    except RunFailed as fault:
        return replace(case, failure=fault)


def _read(case: Case) -> Case:
    """What a registration library tells."""
    try:
        return replace(case, registration=read_registration(case.path, timeout=_SECONDS))
    except RunFailed as fault:
        return replace(case, failure=fault)


def _record(case: Case) -> Case:
    """The kernel records, which may also tell why the runtime refused, or crashed."""
    crashed = isinstance(case.failure, (OpCrashed, OpTimedOut))
    if case.facts.style.id != "qhpi" or case.facts.elf.machine != stub_library.MACHINE:
        return case
    undefined = [symbol.name for symbol in case.facts.elf.imports if symbol.name.startswith("qhpi_")]
    try:
        return replace(case, records=read_records(case.path, undefined, timeout=_SECONDS))
    except RunFailed as fault:
        if crashed and not isinstance(fault, OlderRecords):  # it is what is known already
            return case
        return replace(case, records_failure=fault)
