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
from udogen.inspect.rules import LOADED, NO_REFERENCE, STATIC, LibraryEvidence, run, verdict_of
from udogen.inspect.symbols import NO_RUNTIME, ComparedRuntime, find_compared, resolve
from udogen.qnn.udo import Registration
from udogen.runtime.op.session import OpSession
from udogen.runtime.package_queries import read_registration
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
    findings = run(STATIC, evidence)
    if not _kinds_of_errors(findings):
        if options.register:
            evidence = _loaded(evidence, backend, options)
        elif evidence.native:
            findings.append(Finding("it was not registered here (--no-register)", kind=NO_REFERENCE))
    return evidence, (*findings, *run(LOADED, evidence))


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


def _loaded(evidence: LibraryEvidence, backend: str, options: InspectOptions) -> LibraryEvidence:
    """The evidence after registering a package, or reading a registration library."""
    path, facts = evidence.path, evidence.facts
    if not evidence.native:
        dsp = facts.kind.id == "qhpi" and facts.elf.machine == "hexagon"
        if not dsp or options.device_library is None:
            return evidence
        return replace(evidence, device=device.register(facts.elf, evidence.runtime.main))
    try:
        if facts.is_registration:
            return replace(evidence, registration=read_registration(path, timeout=_SECONDS))
        with OpSession(
            path, evidence.provider, backend=backend, qnn_lib=evidence.runtime.main.path, timeout=_SECONDS
        ) as session:
            return replace(evidence, registered=(session.package, session.runtime))
    except RunFailed as fault:
        return replace(evidence, failure=fault)


# --- folders ---------------------------------------------------------------------------------------------------------


_LEFT_OUT = {"obj", ".udogen", ".git", ".venv"}
_MOST = 200  # libraries below a folder: more is not a folder of op packages


@dataclass(frozen=True)
class Inspection:
    """Everything that was inspected."""

    libraries: tuple[InspectedLibrary, ...]
    unbuilt: tuple[Path, ...] = ()  # folders of packages without a library

    @property
    def judged(self) -> tuple[InspectedLibrary, ...]:
        """The libraries that decide the exit code: in a folder with op packages, only those."""
        packages = tuple(library for library in self.libraries if library.is_package)
        return packages or self.libraries

    @property
    def verdict(self) -> Verdict:
        """Whether every library will register."""
        errors = [_kinds_of_errors(library.findings) for library in self.judged]
        unjudged, wrong = errors.count({NO_REFERENCE}), sum(bool(kinds - {NO_REFERENCE}) for kinds in errors)
        return Verdict(len(errors), errors.count(set()), error=wrong, absent=unjudged, needs_all=True, unit="library")


def inspect_all(
    path: Path, options: InspectOptions, *, on_library: Callable[[str], None] = lambda _name: None
) -> Inspection:
    """Inspect a library, or everything in a folder."""
    if not path.exists():
        hint = file_hint(path, "give a built library, or the folder of a package")
        raise UsageError(f"{path} does not exist", hint=hint)
    packages = _packages(path)
    owners = {
        library.resolve(): (package, row.id)
        for package in packages
        for row in package.rows
        for library in package.artifacts(row)
    }

    def one(library: Path) -> InspectedLibrary:
        on_library(library.name)
        folder, target = owners.get(library.resolve(), (None, ""))
        return inspect(library, options, folder=folder, target=target, choose=path.is_dir())

    libraries = _libraries(path, packages)
    built = {owners[library.resolve()][0].path for library in libraries if library.resolve() in owners}
    unbuilt = dict.fromkeys(package.path for package in packages if path.is_dir() and package.path not in built)
    return Inspection(tuple(one(library) for library in libraries), tuple(unbuilt))


def _packages(path: Path) -> list[PackageLibrary]:
    """The packages in a folder, or that of a library."""
    if not path.is_dir():
        package = package_of(path)
        return [package] if package is not None else []
    if not (path / MANIFEST).is_file() and not any(path.glob(f"*/{MANIFEST}")):
        return []
    # Converter packages are not registered.
    return [package for package in open_packages(path) if not package.kind.converter]


def _libraries(path: Path, packages: Sequence[PackageLibrary]) -> list[Path]:
    """A library, or all of a folder; raises for a folder without one."""
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    for here, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        found += [Path(here, name) for name in sorted(names) if name.endswith(".so") and Path(here, name).is_file()]
        if len(found) > _MOST:
            raise UsageError(f"{path} holds more than {_MOST} libraries", hint="give the folder of a package")
    if not found and packages:
        raise UsageError(f"{path}: no library is built", hint=f"udogen build -C {shlex.quote(str(path))}")
    if not found:
        raise UsageError(
            f"{path} holds neither a package that udogen generated nor a library (*.so)",
            hint="give a library, or the folder of a package",
        )
    return found


NARROWEST = 40  # columns
_LABEL = 12
_ASSUMED = 6  # names shown
_EVIDENCE = 8  # lines shown


def lines(inspection: Inspection, *, width: int) -> Iterator[str]:
    """The report, line by line."""
    judged = inspection.judged
    for library in judged:
        yield from _library_lines(library, max(width, NARROWEST))
    for library in inspection.libraries:
        if library not in judged and library.evidence is not None:
            yield f"{library.path}: {library.evidence.facts.kind.words}"
    for folder in inspection.unbuilt:
        yield f"{folder}: none of its libraries is built: udogen build -C {shlex.quote(str(folder))}"


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
    libraries = [_library_json(library) for library in inspection.libraries]
    return {"libraries": libraries, "unbuilt": [str(folder) for folder in inspection.unbuilt]}


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
