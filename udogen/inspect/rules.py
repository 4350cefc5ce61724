"""The rules of the verdict: each checks one thing, and reports faults and remedies.

A new rule is a function and its row in STATIC; in LIVE if the library must have run, in UDO for those of SNPE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from udogen import backends
from udogen.backends.backend import PROVIDER
from udogen.build.dwarf import demangled
from udogen.build.elf import version_key
from udogen.build.package import PackageLibrary
from udogen.build.sdks import QHPI_SINCE
from udogen.errors import LimitReached, RunFailed
from udogen.findings import Finding
from udogen.inspect.device import DeviceRegistration
from udogen.inspect.kinds import LibraryFacts
from udogen.inspect.symbols import ComparedRuntime, Resolution
from udogen.qnn import udo
from udogen.qnn.udo import Registration
from udogen.runtime.built import outdated
from udogen.runtime.library import RuntimeInfo
from udogen.runtime.op.calls import OpPackageInfo
from udogen.runtime.snpe import host as udo_host
from udogen.tables import many

NO_REFERENCE = "reference"  # the kind of the finding that no verdict is possible
SHOWN = 12
_NO_MEMORY = re.compile("failed to map segment|Cannot allocate memory|out of memory")  # of the loader, under ulimit -v


def _stops(kind: str, message: str, hint: str = "", details: Sequence[str] = ()) -> Finding:
    """Why a library will not register."""
    return Finding(message, hint, kind=kind, evidence="\n".join(details))


def _warns(kind: str, message: str, hint: str = "", details: Sequence[str] = ()) -> Finding:
    """What is probably a mistake in a library that registers."""
    return _stops(kind, message, hint, details)._replace(severity="warning")


def verdict_of(findings: Sequence[Finding], *, seen: bool) -> str:
    """The verdict, by the worst finding; `seen`: a runtime has registered or read the library."""
    if any(finding.is_error and finding.kind != NO_REFERENCE for finding in findings):
        return "will not register"
    if any(finding.is_error for finding in findings):
        return "cannot be judged"
    verdict = "will register" if seen else "should register"
    return f"{verdict}, but" if findings else verdict


@dataclass(frozen=True)
class LibraryEvidence:
    """All facts known about one library."""

    facts: LibraryFacts
    runtime: ComparedRuntime
    resolution: Resolution
    native: bool  # runs on this machine
    folder: PackageLibrary | None = None  # the package that it belongs to
    provider: str = ""
    registered: tuple[OpPackageInfo, RuntimeInfo] | None = None
    failure: RunFailed | None = None  # of registering
    device: DeviceRegistration | None = None  # in the library of a DSP
    registration: Registration | None = None  # the contents of a registration library of SNPE

    @property
    def path(self) -> Path:
        """The library."""
        return self.facts.elf.path


VerdictRule = Callable[[LibraryEvidence], Iterator[Finding]]


def _texts(fault: RunFailed) -> tuple[str, str, tuple[str, ...]]:
    return fault.message, fault.hint, fault.details


def run(rules: Sequence[VerdictRule], evidence: LibraryEvidence) -> list[Finding]:
    """The findings of these rules."""
    return [finding for rule in rules for finding in rule(evidence)]


def _kind(evidence: LibraryEvidence) -> Iterator[Finding]:
    library = evidence.facts.elf
    if library.kind != "shared library":
        hint = "link it with -shared (and compile with -fPIC)"
        yield _stops("kind", f"it is an {library.kind}, not a shared library".replace("an core", "a core"), hint)
    elif not evidence.facts.is_package and not evidence.facts.is_registration:
        yield _stops("kind", f"it is {evidence.facts.kind.words}", evidence.facts.kind.remedy)
    elif library.bits == 32 and library.machine != "hexagon":
        yield _stops("bits", "it is 32-bit; QNN runtimes are 64-bit", "compile without -m32, for a 64-bit ABI")


def _machine(evidence: LibraryEvidence) -> Iterator[Finding]:
    """The machine and the Hexagon version must be those of the runtime."""
    library = evidence.facts.elf
    if not evidence.facts.is_package or not evidence.runtime.libraries:
        return
    main = evidence.runtime.main
    if main.machine != library.machine:
        yield _stops(
            "machine",
            f"it is built for {library.processor}, {main.path.name} for {main.processor}",
            f"build the package for {main.processor}, or compare it with the runtime of its own machine",
        )
    elif main.arch and version_key(main.arch) < version_key(library.arch):
        yield _stops(
            "arch",
            f"it is built for Hexagon {library.arch}, {main.path.name} is for {main.arch}, which is older",
            f"build htp_{main.arch}",
        )
    elif main.arch and main.arch != library.arch:
        yield _warns(
            "arch",
            f"it is built for Hexagon {library.arch}, {main.path.name} is for {main.arch}",
            f"build htp_{main.arch}: one library per architecture is what the vendor documents",
        )


def _provider(evidence: LibraryEvidence) -> Iterator[Finding]:
    facts = evidence.facts
    if not facts.is_package:
        return
    if not facts.providers:
        yield _stops(
            "provider",
            f"it exports no interface provider (<Package>{PROVIDER})",
            'declare it extern "C" with default visibility; `nm -D --defined-only` shows what is exported',
        )
    elif evidence.folder is not None and evidence.folder.provider not in facts.providers:
        yield _stops(
            "provider",
            f"it exports {', '.join(facts.providers)}; package {evidence.folder.name} is registered "
            f"with {evidence.folder.provider}",
            "build it again: the library is not of this package, or of an older config",
        )
    elif len(facts.providers) > 1 and evidence.folder is None:
        yield _warns(
            "provider",
            f"it has several interface providers; {evidence.provider} was inspected",
            "name the one you mean where you register it",
        )


def _init(evidence: LibraryEvidence) -> Iterator[Finding]:
    kind = evidence.facts.kind
    if kind.init and kind.init not in evidence.facts.elf.exports:
        yield _stops(
            "init",
            f"it is an {kind.words}, but exports no {kind.init}, which HTP calls first",
            f'define {kind.init} as extern "C" with default visibility',
        )


def _backend(evidence: LibraryEvidence) -> Iterator[Finding]:
    there, own = evidence.runtime.backend, evidence.facts.kind.backend
    if not own or not there or there == own:
        return
    runtime = evidence.runtime.main.path.name
    if backends.ALL[own].calls_runtime:
        text, remedy = (
            f"its kernels are for {own.upper()}, {runtime} is the {there} backend",
            f"register it in {backends.RUNTIMES[own].library}",
        )
    else:
        text = f"it has no HTP part (neither qhpi_init nor op_pkg_init), {runtime} is HTP"
        remedy = "generate and build its HTP package (--backend htp), or use the runtime of its own backend"
    yield _stops("backend", text, remedy)


def _needed(evidence: LibraryEvidence) -> Iterator[Finding]:
    for name in evidence.resolution.absent if evidence.resolution.seen else ():
        where = "ADSP_LIBRARY_PATH" if evidence.facts.elf.machine == "hexagon" else "LD_LIBRARY_PATH"
        remedy = f"link without it; or push it to {where} on the device, and give it with a further --against"
        yield _stops("needed", f"it needs {name}, which the runtime does not need itself", remedy)


def _symbols(evidence: LibraryEvidence) -> Iterator[Finding]:
    if not evidence.facts.is_package or not evidence.resolution.seen or _wrong_runtime(evidence):
        return
    missing = evidence.resolution.missing
    if missing:
        shown = ", ".join(demangled(name) for name in missing[:SHOWN])
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        yield _stops(
            "symbols",
            f"{many(len(missing), 'undefined symbol')} found neither in {evidence.runtime.title} nor among those that "
            f"it uses: {shown}{more}",
            _remedy_of(evidence, missing),
        )


def _remedy_of(evidence: LibraryEvidence, missing: tuple[str, ...]) -> str:
    if any(name.startswith("qhpi_") for name in missing):
        return "use a runtime of a newer SDK, or do without these functions"
    if any("4hnnx" in name for name in missing):
        return "build it with the headers of the runtime's own SDK release"
    if evidence.resolution.wrapped:
        wrap = " ".join(f"-Wl,--wrap={name}" for name in evidence.resolution.wrapped)
        return f"the device has __wrap_{evidence.resolution.wrapped[0]}: link with {wrap}"
    return "avoid them, link them in, or give the library of the device that has them with a further --against"


def _wrong_runtime(evidence: LibraryEvidence) -> bool:
    """True if missing symbols would only repeat that it is the wrong runtime."""
    return any(finding.is_error for rule in (_kind, _machine, _backend) for finding in rule(evidence))


def _release(evidence: LibraryEvidence) -> Iterator[Finding]:
    built, there = evidence.facts.sdk.release, evidence.runtime.sdk
    if not there or _wrong_runtime(evidence):
        return
    if evidence.facts.kind.id == "qhpi" and version_key(there)[:2] < QHPI_SINCE:
        yield _stops(
            "release", f"it uses QHPI, and the runtime is of SDK {there}", "use a runtime of SDK 2.47 or later"
        )
    if evidence.facts.kind.id == "core" and not built:
        yield _warns(
            "release",
            f"it is in the C++ style and does not name the SDK of its headers; the runtime is of {there}",
            "build it with the headers of that release: another one registers, and crashes when a graph is finalized",
        )
    # `_` begins a number of the build farm; two builds of one release also differ, so the whole text is compared.
    if evidence.facts.kind.id == "core" and built and built.partition("_")[0] != there.partition("_")[0]:
        yield _stops(
            "release",
            f"it is built with the headers of SDK {built}, the runtime is of {there}",
            "build it with QNN_SDK_ROOT of the runtime's release, or use QHPI (--htp-api qhpi), which fits them all",
        )


def _reference(evidence: LibraryEvidence) -> Iterator[Finding]:
    """A verdict needs a runtime to compare with."""
    if evidence.facts.is_package and not evidence.runtime.libraries and not _wrong_runtime(evidence):
        yield _stops(NO_REFERENCE, "no runtime was found to compare it with", evidence.runtime.hint)


def _sources(evidence: LibraryEvidence) -> Iterator[Finding]:
    if evidence.folder is not None and (text := outdated(evidence.path, evidence.folder)):
        yield _warns("sources", text)


def _functions(evidence: LibraryEvidence) -> Iterator[Finding]:
    exports = evidence.facts.elf.exports
    missing = [name for name in udo.FUNCTIONS if name not in exports]
    if evidence.facts.is_registration and missing:
        remedy = "declare them with UDO_API; jni/src/reg has the required ones"
        yield _stops("functions", f"it exports no {', '.join(missing)}", remedy)


STATIC: tuple[VerdictRule, ...] = (
    _kind, _machine, _backend, _provider, _init, _release, _needed, _symbols, _reference, _sources, _functions,
)  # fmt: skip


# --- rules for a library that was registered or read -----------------------------------------------------------------


def _registering(evidence: LibraryEvidence) -> Iterator[Finding]:
    """A failure; a library is not judged by a limit of this machine."""
    failure = evidence.failure
    if failure is not None:
        text = "\n".join((failure.message, *failure.details))
        limit = isinstance(failure, LimitReached) or _NO_MEMORY.search(text)
        yield _stops(NO_REFERENCE if limit else "registering", *_texts(failure))


def _names(evidence: LibraryEvidence) -> Iterator[Finding]:
    if evidence.registered is None or not evidence.registered[0].name:
        return
    package, own = evidence.registered[0], evidence.provider.removesuffix(PROVIDER)
    if package.name != own:
        yield _warns(
            "names",
            f"the package calls itself {package.name}, its provider is {evidence.provider}",
            f"ONNX Runtime takes the name from the provider: call that {package.name}{PROVIDER}",
        )
    if evidence.folder is not None and (missing := sorted(set(evidence.folder.ops) - set(package.operations))):
        yield _warns(
            "names",
            f"the config has ops that the library lacks: {', '.join(missing)}",
            "build it again",
        )


def _on_device(evidence: LibraryEvidence) -> Iterator[Finding]:
    found = evidence.device
    if found is None:
        return
    if found.limit:
        remedy = "leave --device-library out, and compare it with --against"
        yield _stops(NO_REFERENCE, found.limit, remedy, found.log)
    if found.fault:
        yield _stops("device", found.fault, _remedy_on_device(found), found.log)


def _remedy_on_device(found: DeviceRegistration) -> str:
    if any("duplication" in line for line in found.refused):
        return "give each kernel of the package its own function_name"
    return "run the same code on this machine, under a debugger: udogen build htp_x86, udogen inspect"


def _registration(evidence: LibraryEvidence) -> Iterator[Finding]:
    if evidence.registration is None:
        return
    registration = evidence.registration
    if not registration.package:
        yield _stops("udo", "it names no package", "a network finds its ops by the name of their package")
    if not registration.ops:
        yield _stops("udo", "it has no op", "generate it again: the config has lost its ops")
    named = [core for core, _ in registration.libraries]
    for core in registration.cores:
        if core not in named:
            yield _stops("registration", f"it is for {core}, and names no library of it", "generate it again")
    if registration.api_version[:1] != (1,):
        version = ".".join(map(str, registration.api_version))
        yield _stops("udo", f"it is built with API {version} of UDO", "build it with headers of SNPE 2.x (1.6)")


def _libraries(evidence: LibraryEvidence) -> Iterator[Finding]:
    """The loader must find the libraries that it names; only a warning, because that depends on the machine."""
    if evidence.registration is None:
        return
    for core in udo_host.BACKENDS.values():
        if not evidence.registration.libraries_of(core):
            continue
        try:
            udo_host.implementation(evidence.registration, core)
        except RunFailed as fault:
            yield _warns("libraries", *_texts(fault))


LOADED: tuple[VerdictRule, ...] = (_registering, _names, _on_device, _registration, _libraries)
