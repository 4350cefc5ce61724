"""Inspects a library, or all libraries in a folder: reads, compares with a runtime, registers in a worker, reports."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from udogen.build import elf, tools
from udogen.build.dwarf import demangled
from udogen.build.package import MANIFEST, PackageLibrary, open_packages, package_of
from udogen.errors import RunFailed, UsageError, file_hint
from udogen.findings import Finding, wrapped
from udogen.inspect import device, kinds
from udogen.inspect.kinds import LibraryFacts
from udogen.inspect.rules import DEVICE, LIVE, NO_REFERENCE, STATIC, UDO, LibraryEvidence, run, verdict_of
from udogen.inspect.symbols import NO_RUNTIME, ComparedRuntime, find_compared, resolve
from udogen.qnn.udo import Registration
from udogen.runtime.built import outdated
from udogen.runtime.op.session import OpSession
from udogen.runtime.package_queries import read_registration
from udogen.tables import many
from udogen.verdict import Verdict

_SECONDS = 30.0  # for registering a package


@dataclass(frozen=True)
class InspectedLibrary:
    """A library and the verdict on it; without evidence if the file is not an ELF library."""

    path: Path
    evidence: LibraryEvidence | None
    findings: tuple[Finding, ...]
    target: str = ""  # the target of the package, if it belongs to one

    @property
    def is_package(self) -> bool:
        """Whether it is an op package or registration library; true also if it is too broken to be read."""
        return self.evidence is None or self.evidence.facts.is_package or self.evidence.facts.is_registration

    @property
    def verdict(self) -> str:
        """Whether it will register, as text; `should` unless a runtime has registered or read it."""
        seen = self.evidence is not None and (self.evidence.registered or self.evidence.registration)
        return verdict_of(self.findings, seen=bool(seen))


@dataclass(frozen=True)
class InspectOptions:
    """Runtimes to compare with, and whether code of the library may run."""

    against: tuple[Path, ...]
    env: tools.Environment
    register: bool = True
    device_library: Path | None = None  # of a DSP: packages for it are registered there, too

    @property
    def compared(self) -> tuple[Path, ...]:
        """All runtimes to compare with."""
        return (*([self.device_library] if self.device_library else []), *self.against)


_CONTEXT_HINT = "a context binary is not an op package: restore it with `udogen run op … --context FILE`"


def inspect(
    path: Path, options: InspectOptions, *, folder: PackageLibrary | None = None, target: str = "", choose: bool = False
) -> InspectedLibrary:
    """Inspect one library, optionally of a target of a package.

    `choose` uses only those given runtimes that are for the machine of the library.
    """
    try:
        library = elf.read(path)
    except elf.NotElf as fault:
        hint = _CONTEXT_HINT if path.suffix == ".bin" else fault.hint
        return InspectedLibrary(path, None, (Finding(fault.message, hint, kind="file"),), target)
    facts = kinds.identify(library)
    backend = (folder.backend if folder else "") or facts.kind.backend
    runtime = NO_RUNTIME
    if facts.is_package:
        runtime = find_compared(facts, options.compared, backend=backend, env=options.env, choose=choose)
    evidence, findings = _judged(_static_evidence(facts, runtime, folder), backend, options)
    return InspectedLibrary(path, evidence, findings, target)


def _judged(
    evidence: LibraryEvidence, backend: str, options: InspectOptions
) -> tuple[LibraryEvidence, tuple[Finding, ...]]:
    """The findings about a library, with the evidence of what was loaded for them."""
    facts = evidence.facts
    findings = run(STATIC, evidence)
    errors = _kinds_of_errors(findings)
    loadable = options.register and evidence.native and not errors - {NO_REFERENCE}
    if facts.is_package and loadable and not errors:
        evidence = _register(evidence, backend)
        findings += run(LIVE, evidence)
    if options.device_library and options.register and _fits(evidence) and not errors:
        evidence = replace(evidence, device=device.register(facts.elf, evidence.runtime.main))
        findings += run(DEVICE, evidence)
    if evidence.native and not options.register and not errors:
        findings.append(Finding("it was not registered here (--no-register)", kind=NO_REFERENCE))
    if not facts.is_registration:
        return evidence, tuple(findings)
    evidence = _read(evidence) if loadable else evidence
    return evidence, (*findings, *run(UDO, evidence))


def _kinds_of_errors(findings: Iterable[Finding]) -> set[str]:
    return {finding.kind for finding in findings if finding.is_error}


def _static_evidence(facts: LibraryFacts, runtime: ComparedRuntime, folder: PackageLibrary | None) -> LibraryEvidence:
    """The evidence without loading the library."""
    library = facts.elf
    fits = all(other.machine == library.machine for other in runtime.libraries)
    native = library.machine == platform.machine() and library.bits == 64 and fits
    return LibraryEvidence(
        facts=facts,
        runtime=runtime,
        resolution=resolve(library, runtime if fits and not native else NO_RUNTIME),
        native=native,
        folder=folder,
        provider=folder.provider if folder else next(iter(facts.providers), ""),
    )


def _fits(evidence: LibraryEvidence) -> bool:
    """Whether the package can be registered in the library of a DSP that it was compared with."""
    main = evidence.runtime.libraries[:1]
    return evidence.facts.kind.id == "qhpi" and bool(main) and main[0].machine == "hexagon"


def _register(evidence: LibraryEvidence, backend: str) -> LibraryEvidence:
    try:
        with OpSession(
            evidence.path, evidence.provider, backend=backend, qnn_lib=evidence.runtime.main.path, timeout=_SECONDS
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


# --- folders ---------------------------------------------------------------------------------------------------------


_LEFT_OUT = {"obj", ".udogen", ".git", ".venv"}
_MOST = 200  # libraries below a folder: more is not a folder of op packages


@dataclass(frozen=True)
class InspectedPackage:
    """A generated package and its built libraries."""

    folder: PackageLibrary
    built: tuple[InspectedLibrary, ...]
    notes: tuple[str, ...]  # sources that changed since


@dataclass(frozen=True)
class Inspection:
    """Everything that was inspected."""

    packages: tuple[InspectedPackage, ...]
    others: tuple[InspectedLibrary, ...]

    @property
    def judged(self) -> tuple[InspectedLibrary, ...]:
        """The libraries that decide the exit code: in a folder with op packages, only those."""
        packages = tuple(library for library in self.libraries if library.is_package)
        return packages or self.libraries

    @property
    def libraries(self) -> tuple[InspectedLibrary, ...]:
        """All libraries, those of packages first."""
        return (*(library for package in self.packages for library in package.built), *self.others)

    @property
    def verdict(self) -> Verdict:
        """Whether every library will register; packages of which nothing is built are skipped."""
        errors = [_kinds_of_errors(library.findings) for library in self.judged]
        unjudged, wrong = errors.count({NO_REFERENCE}), sum(bool(kinds - {NO_REFERENCE}) for kinds in errors)
        passed, idle = errors.count(set()), sum(not package.built for package in self.packages)
        planned = len(errors) + idle
        return Verdict(planned, passed, error=wrong, skipped=idle, absent=unjudged, needs_all=True, unit="library")


def inspect_all(
    path: Path, options: InspectOptions, *, on_library: Callable[[str], None] = lambda _name: None
) -> Inspection:
    """Inspect a library, or everything in a folder."""
    if not path.exists():
        hint = file_hint(path, "give a built library, or the folder of a package")
        raise UsageError(f"{path} does not exist", hint=hint)
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
        tuple(_package(package, one) for package in packages),
        tuple(one(library) for library in rest),
    )


def _packages(path: Path) -> list[PackageLibrary]:
    if not (path / MANIFEST).is_file() and not any(path.glob(f"*/{MANIFEST}")):
        return []
    # Converter packages are not registered.
    return [package for package in open_packages(path) if not package.kind.converter]


def _package(folder: PackageLibrary, one: Callable[[Path, PackageLibrary, str], InspectedLibrary]) -> InspectedPackage:
    there = [(library, row.id) for row in folder.rows for library in folder.artifacts(row) if library.exists()]
    notes = tuple(text for library, _ in there if (text := outdated(library, folder)))
    return InspectedPackage(folder, tuple(one(library, folder, target) for library, target in there), notes)


def _others(path: Path, packages: Sequence[PackageLibrary]) -> list[Path]:
    """Libraries that do not belong to a target of a package."""
    known = {library.resolve() for folder in packages for row in folder.rows for library in folder.artifacts(row)}
    others: list[Path] = []
    for here, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        libraries = [Path(here, name) for name in sorted(names) if name.endswith(".so")]
        others += [library for library in libraries if library.is_file() and library.resolve() not in known]
        if len(others) > _MOST:
            raise UsageError(f"{path} holds more than {_MOST} libraries", hint="give the folder of a package")
    return others


def _package_and_target(library: Path) -> tuple[PackageLibrary | None, str]:
    """The package and the target of a library."""
    folder = package_of(library)
    if folder is not None:
        for row in folder.rows:
            if library.resolve() in [artifact.resolve() for artifact in folder.artifacts(row)]:
                return folder, row.id
    return None, ""


NARROWEST = 40  # columns
_LABEL = 12
_ASSUMED = 6  # names shown
_EVIDENCE = 8  # lines shown


def lines(inspection: Inspection, *, width: int) -> Iterator[str]:
    """The report, line by line."""
    width = max(width, NARROWEST)
    for package in inspection.packages:
        yield from _package_lines(package, width)
    for library in inspection.others:
        if library in inspection.judged:
            yield from _library_lines(library, width)
    for library in inspection.others:
        if library not in inspection.judged and library.evidence is not None:
            yield f"{library.path}: {library.evidence.facts.kind.words}"


def _package_lines(inspected: InspectedPackage, width: int) -> Iterator[str]:
    folder = inspected.folder
    yield f"{folder.path}: {folder.backend} package {folder.name}, {many(len(folder.ops), 'op')}"
    for note in inspected.notes:
        yield from wrapped("  ! ", note, width)
    if not inspected.built:
        yield f"  none of its libraries is built: udogen build -C {shlex.quote(str(folder.path))}"
    yield ""
    for built in inspected.built:
        yield from _library_lines(built, width)


def _library_lines(inspected: InspectedLibrary, width: int) -> Iterator[str]:
    target = f" ({inspected.target})" if inspected.target else ""
    yield f"{inspected.path}{target}: {inspected.verdict}"
    for finding in inspected.findings:
        mark = "?" if finding.kind == NO_REFERENCE else "x" if finding.is_error else "!"
        yield from wrapped(f"  {mark} ", finding.message, width)
        if finding.hint:
            yield from wrapped("    = ", finding.hint, width)
        for line in finding.evidence.splitlines()[:_EVIDENCE]:
            yield from wrapped("      ", line.strip(), width)
    if inspected.evidence is not None:
        for label, text in _facts(inspected.evidence):
            yield from wrapped(f"  {label:<{_LABEL}}", text, width)
    yield ""


def _facts(evidence: LibraryEvidence) -> Iterator[tuple[str, str]]:
    facts, library = evidence.facts, evidence.facts.elf
    soname = f", soname {library.soname}" if library.soname and library.soname != library.path.name else ""
    yield "file", f"{library.bits}-bit {library.kind} for {library.processor}{soname}"
    if facts.is_package:
        yield "package", f"{facts.kind.words}, provider {', '.join(facts.providers) or 'none'}"
        yield "SDK", f"{facts.sdk.release} ({facts.sdk.source})" if facts.sdk.release else facts.sdk.source
    else:
        yield "is", facts.kind.words
    if library.needed:
        absent = evidence.resolution.absent if evidence.resolution.seen else ()
        yield "needs", ", ".join(f"{name} (not found)" if name in absent else name for name in library.needed)
    if facts.is_package:
        yield "symbols", _symbols(evidence)
    yield from _loaded_facts(evidence)


def _loaded_facts(evidence: LibraryEvidence) -> Iterator[tuple[str, str]]:
    """The results of registering the library, or of reading its registration."""
    elsewhere = "" if evidence.native else ": it is for another machine"
    if evidence.registered:
        package, runtime = evidence.registered
        yield "registered", f"as {package.name or '(no name)'} in {runtime.name} {runtime.build_id}"
        yield "ops", ", ".join(package.operations) or "none"
    elif evidence.device:
        fault = evidence.device.limit or evidence.device.fault
        yield "registered", "no" if fault else evidence.device.summary()
    elif evidence.facts.is_package and evidence.failure is None:
        yield "registered", f"not tried{elsewhere}"
    if evidence.registration:
        yield from _registration_lines(evidence.registration)
    elif evidence.facts.is_registration and evidence.failure is None:
        yield "describes", f"not read{elsewhere}"


def _symbols(evidence: LibraryEvidence) -> str:
    resolution = evidence.resolution
    undefined = f"{resolution.undefined} undefined"
    if evidence.native:
        return f"{undefined}, found when it was loaded" if evidence.registered else undefined
    if not resolution.seen:
        return f"{undefined}, not compared with a runtime"
    missing = f"{len(resolution.missing)} missing" if resolution.missing else "none missing"
    where = f" in {evidence.runtime.title}"
    if not resolution.assumed:
        return f"{undefined}, {missing}{where}"
    names = [demangled(name) for name in resolution.assumed[:_ASSUMED]]
    names += ["…"] if len(resolution.assumed) > _ASSUMED else []
    return f"{undefined}, {missing}{where}, {len(resolution.assumed)} assumed ({', '.join(names)})"


def as_json(inspection: Inspection) -> dict[str, Any]:
    """Everything, as plain data."""
    return {
        "packages": [
            {
                "folder": str(package.folder.path),
                "package": package.folder.name,
                "backend": package.folder.backend,
                "ops": list(package.folder.ops),
                "notes": list(package.notes),
                "libraries": [_library_json(row) for row in package.built],
            }
            for package in inspection.packages
        ],
        "libraries": [_library_json(library) for library in inspection.others],
    }


def _library_json(inspected: InspectedLibrary) -> dict[str, Any]:
    return {
        "path": str(inspected.path),
        "target": inspected.target or None,
        "verdict": inspected.verdict,
        "findings": [finding.as_json() for finding in inspected.findings],
        **(_case_json(inspected.evidence) if inspected.evidence else {}),
    }


def _case_json(evidence: LibraryEvidence) -> dict[str, Any]:
    facts, library, resolution = evidence.facts, evidence.facts.elf, evidence.resolution
    registered = None
    if evidence.registered:
        package, runtime = evidence.registered
        registered = {
            "package": package.name,
            "ops": list(package.operations),
            "runtime": runtime.name,
            "build_id": runtime.build_id,
            "path": runtime.path,
        }
    return {
        "file": {
            "kind": library.kind,
            "machine": library.machine,
            "arch": library.arch or None,
            "bits": library.bits,
            "soname": library.soname or None,
            "needed": [{"name": name, "found": path or None} for name, path in resolution.needed.items()],
            "runpath": list(library.runpath),
            "executable_stack": library.executable_stack,
        },
        "package": {
            "style": facts.kind.id,
            "backend": facts.kind.backend or None,
            "providers": list(facts.providers),
            "sdk": facts.sdk.release or None,
            "sdk_source": facts.sdk.source,
        },
        "against": {
            "libraries": [str(other.path) for other in evidence.runtime.libraries],
            "origin": evidence.runtime.origin or None,
            "sdk": evidence.runtime.sdk or None,
        },
        "symbols": {
            "undefined": resolution.undefined,
            "compared": resolution.seen,
            "missing": [{"name": name, "demangled": demangled(name)} for name in resolution.missing],
            "assumed": list(resolution.assumed),
        },
        "registered": registered,
        "device": _device_json(evidence.device) if evidence.device else None,
        **(_registration_json(evidence.registration) if evidence.registration else {}),
    }


def _device_json(found: device.DeviceRegistration) -> dict[str, Any]:
    return {
        "library": str(found.skel.path),
        "registered": not (found.limit or found.fault),
        "package": found.package,
        "ops": found.ops,
        "log": list(found.log),
    }


def _registration_lines(registration: Registration) -> Iterator[tuple[str, str]]:
    """(label, text) of the contents of a registration library."""
    numbers = [".".join(map(str, version)) for version in (registration.version, registration.api_version)]
    yield "package", f"{registration.package} {numbers[0]}, API {numbers[1]} of UDO"
    yield "libraries", ", ".join(f"{core} {name}" for core, name in registration.libraries) or "none"
    yield "ops", ", ".join(f"{op.type} for {' '.join(op.cores)}" for op in registration.ops)


def _registration_json(found: Registration) -> dict[str, Any]:
    libraries = [list(row) for row in found.libraries]
    return {"registration": {**asdict(found), "path": str(found.path), "libraries": libraries}}
