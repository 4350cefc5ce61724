"""In the child: ask a registration library of SNPE what it has, and find libraries as the loader does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from udogen.errors import RunFailed
from udogen.qnn import abi, udo
from udogen.runtime.op.commands import LibraryLocated, LocateLibrary, ReadRegistration, RegistrationRead


def read(command: ReadRegistration, on_phase: Callable[[str], None]) -> RegistrationRead:
    """Everything that a registration library tells, as SNPE asks for it: init, version, info, terminate."""
    ffi = abi.ffi(abi.UDO)
    on_phase("load the registration library")
    try:
        library = udo.open_library(str(command.library))
    except OSError as problem:
        raise RunFailed(
            f"the registration library cannot be loaded: {problem}",
            hint="the libraries it is linked with must be found too",
        ) from problem
    _call(library, udo.INIT, on_phase)
    name = next((each for each in udo.VERSION if hasattr(library, each)), udo.VERSION[0])
    version = ffi.new("SnpeUdo_LibVersion_t **")
    _call(library, name, on_phase, version)
    info = ffi.new("SnpeUdo_RegInfo_t **")
    _call(library, udo.INFO, on_phase, info)
    on_phase("read what it tells")
    try:
        told = udo.version_of(version[0])
        found = udo.registration_of(info[0][0], told["api"])
    except (ValueError, RuntimeError) as problem:
        raise RunFailed(
            f"what the registration library tells cannot be read: {problem}",
            hint="build it with headers of SNPE 2.x (API 1.6 of SnpeUdo/UdoBase.h)",
        ) from problem
    found["version"] = told
    _call(library, udo.TERMINATE, on_phase)
    return RegistrationRead(found)


def _call(library: Any, name: str, on_phase: Callable[[str], None], answer: Any = None) -> None:
    """Call one of its functions; an error code, or an answer that is none, ends the reading."""
    on_phase(name)
    code = getattr(library, name)(*(() if answer is None else (answer,)))
    if code:
        raise RunFailed(f"{name} of the registration library answered {udo.error(code)}", hint=_HINT)
    if answer is not None and not answer[0]:
        raise RunFailed(f"{name} of the registration library answered no error, and no information", hint=_HINT)


_HINT = "see jni/src/reg: SNPE would refuse the package too"


def locate(command: LocateLibrary, on_phase: Callable[[str], None]) -> LibraryLocated:
    """Where the loader finds a library that is named without a folder."""
    on_phase("look for the library")
    ffi, name = abi.ffi(abi.UDO), command.name
    try:
        kept = ffi.dlopen(name, ffi.RTLD_LAZY)  # lazily: what only a runtime has is undefined here
    except OSError as problem:
        # A library that was found, and cannot be loaded for another reason, is named with its folder.
        text = str(problem).removeprefix(f"cannot load library '{name}': ")
        return LibraryLocated(text.partition(": ")[0] if text.startswith("/") else "")
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    found = {line.partition("/")[2] for line in maps.splitlines()}
    ffi.dlclose(kept)
    return LibraryLocated(next((f"/{each}" for each in sorted(found) if each.endswith(f"/{name}")), ""))
