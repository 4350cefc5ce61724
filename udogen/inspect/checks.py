"""The rules of the verdict: each looks at one thing, and says what is wrong with it and what to do.

A new rule is a function and its row in STATIC; those that need the library to run are in live.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from udogen.build.demangle import demangled
from udogen.build.elf import version_key
from udogen.build.package import PROVIDER, PackageLibrary
from udogen.errors import RunFailed
from udogen.inspect.kinds import QHPI_SINCE, Facts
from udogen.inspect.symbols import Reference, Resolution
from udogen.runtime.op.calls import PackageInfo, RuntimeInfo
from udogen.runtime.package_queries import RecordsRead
from udogen.runtime.snpe.registration import Registration

STOPS, UNKNOWN, WARNS = "stops", "unknown", "warns"
# The verdict, by the worst finding.
VERDICTS = {
    STOPS: "will not register",
    UNKNOWN: "cannot be told",
    WARNS: "will register, but",
    "": "will register",
}
SHOWN = 12


class Finding(NamedTuple):
    """What one rule found."""

    rule: str
    weight: str
    message: str
    remedy: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """All that is known of one library."""

    facts: Facts
    reference: Reference
    resolution: Resolution
    native: bool  # runs on this machine
    folder: PackageLibrary | None = None  # whose library it is
    provider: str = ""
    registered: tuple[PackageInfo, RuntimeInfo] | None = None
    failure: RunFailed | None = None  # of registering
    records: RecordsRead | None = None
    records_failure: RunFailed | None = None
    registration: Registration | None = None  # what a registration library of SNPE tells

    @property
    def path(self) -> Path:
        """The library."""
        return self.facts.elf.path


Rule = Callable[[Case], Iterator[Finding]]


def run(rules: Sequence[Rule], case: Case) -> list[Finding]:
    """What these rules find."""
    return [finding for rule in rules for finding in rule(case)]


def _kind(case: Case) -> Iterator[Finding]:
    found = case.facts.elf
    if found.kind != "shared library":
        hint = "link it with -shared (and compile with -fPIC)"
        yield Finding("kind", STOPS, f"it is an {found.kind}, not a shared library".replace("an core", "a core"), hint)
    elif not case.facts.is_package and not case.facts.is_registration:
        yield Finding("kind", STOPS, f"it is {case.facts.style.words}", case.facts.style.remedy)
    elif found.bits == 32 and found.machine != "hexagon":
        yield Finding("bits", STOPS, "it is 32-bit; QNN runtimes are 64-bit", "compile without -m32, for a 64-bit ABI")


def _machine(case: Case) -> Iterator[Finding]:
    """Only an op package can be for the wrong machine, and only where it is compared with something."""
    found = case.facts.elf
    if not case.facts.is_package or not case.reference.libraries:
        return
    main = case.reference.main
    if main.machine != found.machine:
        yield Finding(
            "machine",
            STOPS,
            f"it is built for {found.processor}, {main.path.name} for {main.processor}",
            f"build the package for {main.processor}, or compare it with the runtime of its own machine",
        )
    elif main.arch and version_key(main.arch) < version_key(found.arch):
        yield Finding(
            "arch",
            STOPS,
            f"it is built for Hexagon {found.arch}, {main.path.name} is for {main.arch}, which is older",
            f"build htp_{main.arch}",
        )
    elif main.arch and main.arch != found.arch:
        yield Finding(
            "arch",
            WARNS,
            f"it is built for Hexagon {found.arch}, {main.path.name} is for {main.arch}",
            f"build htp_{main.arch}: one library per architecture is what the vendor documents",
        )


def _provider(case: Case) -> Iterator[Finding]:
    facts = case.facts
    if not facts.is_package:
        return
    if not facts.providers:
        yield Finding(
            "provider",
            STOPS,
            f"it exports no interface provider (<Package>{PROVIDER})",
            'declare it extern "C" with default visibility; `nm -D --defined-only` shows what is exported',
        )
    elif case.folder is not None and case.folder.provider not in facts.providers:
        yield Finding(
            "provider",
            STOPS,
            f"it exports {', '.join(facts.providers)}; package {case.folder.name} is registered "
            f"with {case.folder.provider}",
            "build it again: the library is not of this package, or of an older config",
        )
    elif len(facts.providers) > 1 and case.folder is None:
        yield Finding(
            "provider",
            WARNS,
            f"it has several interface providers; {case.provider} was looked at",
            "name the one you mean where you register it",
        )


def _init(case: Case) -> Iterator[Finding]:
    style = case.facts.style
    if style.init and style.init not in case.facts.elf.exports:
        yield Finding(
            "init",
            STOPS,
            f"it is an {style.words}, but exports no {style.init}, which HTP calls first of all",
            f'define {style.init} as extern "C" with default visibility',
        )


def _backend(case: Case) -> Iterator[Finding]:
    there, own = case.reference.backend, case.facts.style.backend
    if not own or not there or there == own:
        return
    runtime = case.reference.main.path.name
    if own == "htp":
        text, remedy = f"its kernels are for HTP, {runtime} is the {there} backend", "register it in libQnnHtp.so"
    else:
        text = f"it has no HTP part (neither qhpi_init nor op_pkg_init), {runtime} is HTP"
        remedy = "generate and build its HTP package (--backend htp), or use the runtime of its own backend"
    yield Finding("backend", STOPS, text, remedy)


def _needed(case: Case) -> Iterator[Finding]:
    if not case.resolution.seen and not case.native:
        return  # nothing is known of the device
    for name in case.resolution.absent:
        if case.native:
            text = f"it needs {name}, which the loader does not find"
            remedy = "install it, or put it beside the library and link with -Wl,-rpath,'$ORIGIN'"
        else:
            where = "ADSP_LIBRARY_PATH" if case.facts.elf.machine == "hexagon" else "LD_LIBRARY_PATH"
            text = f"it needs {name}, which the runtime does not need itself"
            remedy = f"link without it; or push it to {where} on the device, and give it with a further --against"
        yield Finding("needed", STOPS, text, remedy)


def _old(case: Case) -> Iterator[Finding]:
    for each in case.resolution.old:
        own = Path(each.by).name == case.path.name
        yield Finding(
            "old",
            STOPS,
            f"{'it' if own else each.by} needs {each.version}, which {each.library} here does not have",
            "build it on an older system or with the open toolchain (zig), or run it on a newer system",
        )
    if case.native or not case.reference.libraries:
        return
    have: dict[str, str] = {}
    for library in case.reference.libraries:
        for name, version in library.versions("GLIBC").items():
            have[name] = max(have.get(name, ""), version, key=version_key)
    for name, version in case.facts.elf.versions("GLIBC").items():
        if name in have and version_key(version) > version_key(have[name]):
            yield Finding(
                "old",
                WARNS,
                f"it needs {version} of {name}, the runtime only {have[name]}",
                "see that the device has it (ldd --version there)",
            )


def _symbols(case: Case) -> Iterator[Finding]:
    if not case.facts.is_package or not case.resolution.seen or _wrong_runtime(case):
        return
    missing = case.resolution.missing
    if missing:
        shown = ", ".join(demangled(name) for name in missing[:SHOWN])
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        where = case.reference.title if case.reference.libraries else "what it is linked with"
        yield Finding(
            "symbols",
            STOPS,
            f"{len(missing)} undefined symbol{'s' if len(missing) > 1 else ''} found neither in {where} nor "
            f"{'in what it needs' if case.native else 'among those that it uses'}: {shown}{more}",
            _remedy_of(case, missing),
        )


def _remedy_of(case: Case, missing: tuple[str, ...]) -> str:
    if any(name.startswith("qhpi_") for name in missing):
        return "use a runtime of a newer SDK, or do without these functions"
    if any("4hnnx" in name for name in missing):
        return "build it with the headers of the runtime's own SDK release"
    if case.native:
        return "link the library that has them (-l…), or define them"
    if case.resolution.wrapped:
        wrap = " ".join(f"-Wl,--wrap={name}" for name in case.resolution.wrapped)
        return f"the device has __wrap_{case.resolution.wrapped[0]}: link with {wrap}"
    return "avoid them, link them in, or give the library of the device that has them with a further --against"


def _wrong_runtime(case: Case) -> bool:
    """True where looking for symbols would only repeat that it is the wrong runtime."""
    return any(finding.weight == STOPS for rule in (_kind, _machine, _backend) for finding in rule(case))


def _release(case: Case) -> Iterator[Finding]:
    built, there = case.facts.sdk.release, case.reference.sdk
    if not there or _wrong_runtime(case):
        return
    if case.facts.style.id == "qhpi" and version_key(there)[:2] < QHPI_SINCE:
        yield Finding(
            "release", STOPS, f"it uses QHPI, and the runtime is of SDK {there}", "use a runtime of SDK 2.47 or later"
        )
    if case.facts.style.id == "core" and not built:
        yield Finding(
            "release",
            WARNS,
            f"it is in the C++ style and does not say which SDK its headers were of; the runtime is of {there}",
            "build it with the headers of that release: another one registers, and crashes when a graph is finalized",
        )
    # `_` begins a number of the build farm; two builds of one release differ, too, so the whole text counts.
    if case.facts.style.id == "core" and built and built.partition("_")[0] != there.partition("_")[0]:
        yield Finding(
            "release",
            STOPS,
            f"it is built with the headers of SDK {built}, the runtime is of {there}",
            "build it with QNN_SDK_ROOT of the runtime's release, or use QHPI (--htp-api qhpi), which fits them all",
        )


def _stack(case: Case) -> Iterator[Finding]:
    if case.facts.elf.executable_stack:
        yield Finding(
            "stack",
            WARNS,
            "it asks for an executable stack, which glibc 2.41 and later refuse to a library that is loaded late",
            "link with -Wl,-z,noexecstack; assembler files need a .note.GNU-stack section",
        )


def _reference(case: Case) -> Iterator[Finding]:
    """Without a runtime to compare with, nobody can say."""
    if case.facts.is_package and not case.reference.libraries and not _wrong_runtime(case):
        yield Finding("reference", UNKNOWN, "there is no runtime to compare it with", case.reference.hint)


STATIC: tuple[Rule, ...] = (
    _kind, _machine, _backend, _provider, _init, _release, _needed, _old, _symbols, _stack, _reference,
)  # fmt: skip
