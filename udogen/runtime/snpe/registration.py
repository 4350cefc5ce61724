"""Reads a registration library of SNPE (libUdo<Package>Reg.so) in a child process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from udogen.build import elf
from udogen.errors import RunFailed
from udogen.qnn import udo
from udogen.qnn.udo import Registration
from udogen.runtime import arguments
from udogen.runtime.arguments import PathArgument
from udogen.runtime.failures import Situation
from udogen.runtime.library import check_loadable
from udogen.runtime.package_queries import ReadRegistration, ask


class RegistrationUnreadable(RunFailed):
    """A registration library lacks functions that SNPE calls.

    `except RegistrationUnreadable as error: print(error)`
    """

    kind = "udo-registration"


def is_registration(path: Path) -> bool:
    """Whether a library exports the functions of a registration library."""
    try:
        return path.is_file() and udo.INFO in elf.read(path).exports
    except elf.NotElf:
        return False


def read_registration(path: PathArgument, *, timeout: float = 30.0) -> Registration:
    """Read a registration library; every failure is a `RunFailed`.

    `registration = read_registration("libUdoMyPackageReg.so")`
    """
    path = arguments.path(path, "the registration library")
    check_loadable(path, "registration library")
    exports = elf.read(path).exports
    wanted = [name for name in udo.FUNCTIONS if name != udo.VERSION[0]]
    wanted += [] if any(name in exports for name in udo.VERSION) else [udo.VERSION[0]]
    if missing := [name for name in wanted if name not in exports]:
        several = len(missing) == len(wanted)
        text = "no function of a registration library" if several else f"no {', '.join(missing)}"
        raise RegistrationUnreadable(
            f"{path} exports {text}",
            hint="give the registration library, libUdo<Package>Reg.so" if several else "declare it with UDO_API",
        )
    situation = Situation(str(path), what="the registration library")
    return replace(ask(ReadRegistration(path.resolve()), Registration, situation, timeout), path=path)
