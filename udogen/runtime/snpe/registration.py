"""A registration library of SNPE (libUdo<Package>Reg.so): what it has of its package, read in a child process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.build import elf
from udogen.errors import RunFailed
from udogen.qnn import udo
from udogen.runtime import arguments
from udogen.runtime.arguments import PathArgument
from udogen.runtime.failures import Situation
from udogen.runtime.library import check_loadable
from udogen.runtime.package_queries import ReadRegistration, RegistrationRead, ask

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class RegisteredTensor:
    """An input or an output, as SNPE gets it."""

    name: str
    layout: str  # NHWC, NCHW …; LAST where none is given
    types: Mapping[str, str]  # core -> FLOAT_32, UINT_8 …
    repeated: bool
    static: bool


@dataclass(frozen=True)
class RegisteredParam:
    """A parameter, with the value it has where a model gives none."""

    name: str
    kind: str  # scalar, tensor, string
    type: str
    value: float | int | str | None  # of a scalar or a text
    shape: Numbers  # of a tensor


@dataclass(frozen=True)
class RegisteredOp:
    """One operation."""

    type: str
    cores: tuple[str, ...]
    params: tuple[RegisteredParam, ...]
    inputs: tuple[RegisteredTensor, ...]
    outputs: tuple[RegisteredTensor, ...]
    calculates: Mapping[str, tuple[str, ...]]  # core -> the types in which its kernel calculates


@dataclass(frozen=True)
class Registration:
    """Everything that a registration library has."""

    path: Path
    package: str
    cores: tuple[str, ...]  # CPU, GPU, DSP
    libraries: tuple[tuple[str, str], ...]  # (core, file name)
    ops: tuple[RegisteredOp, ...]
    version: Numbers  # of the package
    api_version: Numbers

    def libraries_of(self, core: str) -> tuple[str, ...]:
        """The file names of a core's implementation libraries: DSP V65/V66 has one for each op, beside that of V68."""
        return tuple(name for each, name in self.libraries if each == core)

    def ops_of(self, core: str) -> tuple[RegisteredOp, ...]:
        """The operations for one core."""
        return tuple(op for op in self.ops if core in op.cores)


class RegistrationUnreadable(RunFailed):
    """A registration library that does not answer as SNPE expects it."""

    kind = "udo-registration"


def is_registration(path: Path) -> bool:
    """Whether a library exports what SNPE asks a registration library for."""
    try:
        return path.is_file() and udo.INFO in elf.read(path).exports
    except elf.NotElf:
        return False


def read_registration(path: PathArgument, *, timeout: float = 30.0) -> Registration:
    """What a registration library has; every way in which it may fail to is a `RunFailed`."""
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
    return _registration(path, ask(ReadRegistration(path.resolve()), RegistrationRead, situation, timeout).content)


def _registration(path: Path, content: Mapping[str, Any]) -> Registration:
    return Registration(
        path=path,
        package=content["package"],
        cores=tuple(content["cores"]),
        libraries=tuple((row["core"], row["name"]) for row in content["libraries"]),
        ops=tuple(
            RegisteredOp(
                type=op["type"],
                cores=tuple(op["cores"]),
                params=tuple(RegisteredParam(**{**each, "shape": tuple(each["shape"])}) for each in op["params"]),
                inputs=tuple(RegisteredTensor(**each) for each in op["inputs"]),
                outputs=tuple(RegisteredTensor(**each) for each in op["outputs"]),
                calculates={core: tuple(types) for core, types in op["calculates"].items()},
            )
            for op in content["ops"]
        ),
        version=tuple(content["version"]["library"]),
        api_version=tuple(content["version"]["api"]),
    )
