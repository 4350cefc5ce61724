"""An inspection as text and as JSON (described in docs/inspect.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from udogen.build.dwarf import demangled
from udogen.findings import wrapped
from udogen.inspect.inspection import InspectedLibrary, InspectedPackage, Inspection
from udogen.inspect.rules import LibraryEvidence
from udogen.qnn.udo import Registration
from udogen.tables import many

NARROWEST = 40  # columns
_LABEL = 12
_ASSUMED = 6  # names shown
_DETAILS = 8
_MARKS = {"stops": "x", "unknown": "?", "warns": "!"}


def lines(found: Inspection, *, width: int) -> Iterator[str]:
    """The report, line by line."""
    width = max(width, NARROWEST)
    for package in found.packages:
        yield from _package(package, width)
    for each in found.others:
        if each in found.judged:
            yield from _library(each, width)
    for each in found.others:
        if each not in found.judged and each.evidence is not None:
            yield f"{each.path}: {each.evidence.facts.kind.words}"


def _package(found: InspectedPackage, width: int) -> Iterator[str]:
    folder = found.folder
    yield f"{folder.path}: {folder.backend} package {folder.name}, {many(len(folder.ops), 'op')}"
    for note in found.notes:
        yield from wrapped("  ! ", note, width)
    for each in found.not_built:
        yield f"  - {each.target} is not built: {each.command}"
    yield ""
    for built in found.built:
        yield from _library(built, width)


def _library(found: InspectedLibrary, width: int) -> Iterator[str]:
    target = f" ({found.target})" if found.target else ""
    yield f"{found.path}{target}: {found.verdict}"
    for finding in found.findings:
        yield from wrapped(f"  {_MARKS[finding.weight]} ", finding.message, width)
        if finding.remedy:
            yield from wrapped("    = ", finding.remedy, width)
        for detail in finding.details[:_DETAILS]:
            yield from wrapped("      ", detail.strip(), width)
    if found.evidence is not None:
        for label, text in _facts(found.evidence):
            yield from wrapped(f"  {label:<{_LABEL}}", text, width)
        yield from _kernels(found.evidence, width)
    yield ""


def _facts(evidence: LibraryEvidence) -> Iterator[tuple[str, str]]:
    facts, found = evidence.facts, evidence.facts.elf
    soname = f", soname {found.soname}" if found.soname and found.soname != found.path.name else ""
    yield "file", f"{found.bits}-bit {found.kind} for {found.processor}{soname}"
    if facts.is_package:
        yield "package", f"{facts.kind.words}, provider {', '.join(facts.providers) or 'none'}"
        yield "SDK", f"{facts.sdk.release} ({facts.sdk.source})" if facts.sdk.release else facts.sdk.source
    else:
        yield "is", facts.kind.words
    if found.needed:
        absent = evidence.resolution.absent if evidence.native or evidence.resolution.seen else ()
        yield "needs", ", ".join(f"{name} (not found)" if name in absent else name for name in found.needed)
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
    elif evidence.facts.is_package and evidence.failure is None:
        yield "registered", f"not tried{elsewhere}"
    if evidence.registration:
        yield from _registration_lines(evidence.registration)
    elif evidence.facts.is_registration and evidence.failure is None:
        yield "describes", f"not read{elsewhere}"


def _symbols(evidence: LibraryEvidence) -> str:
    found = evidence.resolution
    undefined = f"{found.undefined} undefined"
    if not found.seen:
        return f"{undefined}, not compared with a runtime"
    missing = f"{len(found.missing)} missing" if found.missing else "none missing"
    where = f" in {evidence.runtime.title}" if evidence.runtime.libraries else ""
    if not found.assumed:
        return f"{undefined}, {missing}{where}"
    names = [demangled(each) for each in found.assumed[:_ASSUMED]]
    names += ["…"] if len(found.assumed) > _ASSUMED else []
    return f"{undefined}, {missing}{where}, {len(found.assumed)} assumed ({', '.join(names)})"


def _kernels(evidence: LibraryEvidence, width: int) -> Iterator[str]:
    if evidence.records is None:
        return
    yield "  kernels"
    for op in evidence.records.ops:
        resources = dict.fromkeys(name for kernel in op["kernels"] for name in kernel["resources"])
        extra = ", ".join([*op["hooks"], *resources])
        title = f"{op['name']}: {many(len(op['kernels']), 'record')}"
        yield from wrapped("    ", f"{title}; {extra}" if extra else title, width)


def as_json(found: Inspection) -> dict[str, Any]:
    """Everything, as plain data."""
    return {
        "packages": [
            {
                "folder": str(each.folder.path),
                "package": each.folder.name,
                "backend": each.folder.backend,
                "ops": list(each.folder.ops),
                "notes": list(each.notes),
                "not_built": [
                    {"target": row.target, "library": str(row.library), "command": row.command}
                    for row in each.not_built
                ],
                "libraries": [_library_json(row) for row in each.built],
            }
            for each in found.packages
        ],
        "libraries": [_library_json(each) for each in found.others],
    }


def _library_json(found: InspectedLibrary) -> dict[str, Any]:
    return {
        "path": str(found.path),
        "target": found.target or None,
        "verdict": found.verdict,
        "findings": [each._asdict() for each in found.findings],
        **(_case_json(found.evidence) if found.evidence else {}),
    }


def _case_json(evidence: LibraryEvidence) -> dict[str, Any]:
    facts, found, resolution = evidence.facts, evidence.facts.elf, evidence.resolution
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
            "kind": found.kind,
            "machine": found.machine,
            "arch": found.arch or None,
            "bits": found.bits,
            "soname": found.soname or None,
            "needed": [{"name": each.name, "found": each.place or None} for each in resolution.needed],
            "runpath": list(found.runpath),
            "executable_stack": found.executable_stack,
        },
        "package": {
            "style": facts.kind.id,
            "backend": facts.kind.backend or None,
            "providers": list(facts.providers),
            "sdk": facts.sdk.release or None,
            "sdk_source": facts.sdk.source,
        },
        "against": {
            "libraries": [str(each.path) for each in evidence.runtime.libraries],
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
        "kernels": list(evidence.records.ops) if evidence.records else None,
        **(_registration_json(evidence.registration) if evidence.registration else {}),
    }


# --- registration libraries of SNPE ----------------------------------------------------------------------------------


def _registration_lines(found: Registration) -> Iterator[tuple[str, str]]:
    """(label, text) of its contents."""
    numbers = [".".join(map(str, version)) for version in (found.version, found.api_version)]
    yield "package", f"{found.package} {numbers[0]}, API {numbers[1]} of UDO"
    yield "libraries", ", ".join(f"{core} {name}" for core, name in found.libraries) or "none"
    yield "ops", ", ".join(f"{op.type} for {' '.join(op.cores)}" for op in found.ops)


def _registration_json(found: Registration) -> dict[str, Any]:
    libraries = [list(row) for row in found.libraries]
    return {"registration": {**asdict(found), "path": str(found.path), "libraries": libraries}}
