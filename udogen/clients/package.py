"""One package, and its libraries for the platform where a client runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from udogen import backends
from udogen.backends import architectures, targets
from udogen.build.package import PackageLibrary
from udogen.errors import UsageError
from udogen.opdef.model import Op

PC, ANDROID, LINUX = "pc", "android", "linux"  # systems
# Version of Hexagon -> the backend whose packages clients register there.
_VERSIONS = {row.name: row.backend for row in architectures.ALL.values() if backends.ALL[row.backend].two_halves}
DEVICE_FOLDER = "/data/local/tmp/udogen"


@dataclass(frozen=True)
class PackageOptions:
    """Which libraries of packages a user requests."""

    target: str = ""  # a make target, a backend, or a Hexagon version
    android: bool = False
    ops: tuple[str, ...] = ()
    folder: str = ""  # on the device


@dataclass(frozen=True)
class Platform:
    """Where the client runs."""

    system: str  # PC, ANDROID or LINUX
    backend: str = ""  # empty: the only backend of the package
    arch: str = ""  # Hexagon version

    @property
    def is_device(self) -> bool:
        """True unless it is this machine."""
        return self.system != PC


@dataclass(frozen=True)
class Library:
    """One library of a package."""

    file: Path  # on this machine
    path: str  # what the client opens; for Hexagon only the file name, which the DSP's loader searches for
    name: str  # the file name where the client runs
    target: str = ""  # argument of backendRegisterOpPackage: CPU or HTP; empty if none is needed
    hexagon: bool = False


@dataclass(frozen=True)
class Package:
    """One package on one platform."""

    name: str
    provider: str
    backend: str
    ops: tuple[str, ...]
    libraries: tuple[Library, ...]
    platform: Platform
    folder: str  # on the device; empty on this machine
    built: PackageLibrary | None = None  # the generated package, if udogen generated it
    models: tuple[Op, ...] = ()  # the ops of its config, with the rules of this backend applied
    registration: Path | None = None  # SNPE's registration library

    @property
    def library(self) -> Library:
        """The library that the client's own process opens."""
        return next(each for each in self.libraries if not each.hexagon)

    @property
    def hexagon(self) -> Library | None:
        """The library for the DSP."""
        return next((each for each in self.libraries if each.hexagon), None)

    @property
    def host_library(self) -> Path | None:
        """The library for x86-64, with which a PC prepares graphs for a device; None if it is not built."""
        if not self.platform.is_device:
            return self.library.file
        if self.built is None:
            return None
        rows = [row for row in self.built.rows if row.native and row.backend == self.backend]
        files = [each for row in rows for each in self.built.artifacts(row)]
        return next((each.resolve() for each in files if each.is_file()), None)

    @property
    def registration_path(self) -> str:
        """The absolute path of SNPE's registration library, where the program runs; empty if there is none."""
        if self.registration is None:
            return ""
        return f"{self.folder}/{self.registration.name}" if self.platform.is_device else str(self.registration)

    @property
    def config(self) -> Path | None:
        """The XML config of the package; None if it has none."""
        return next((each for each in self.built.configs if each.suffix == ".xml"), None) if self.built else None


def platform_of(options: PackageOptions) -> Platform:
    """The platform that --target and --android select."""
    device = ANDROID if options.android else LINUX
    name = options.target.lower()
    if not name:
        if options.android:
            raise UsageError("--android needs --target", hint="--target cpu_android, gpu_android, or v75 for HTP")
        return Platform(PC)
    if name in backends.RUNTIMES:
        return Platform(device, name) if options.android else Platform(PC, name)
    version = re.fullmatch(r"(?:htp_|dsp_)?(v\d+)", name)
    if version and version[1] in _VERSIONS:
        return Platform(device, _VERSIONS[version[1]], version[1])
    row = targets.ALL.get(name) or targets.UDO.get(name)
    if row is None or row.backend not in backends.RUNTIMES:
        known = ", ".join([*backends.RUNTIMES, "cpu_android", "gpu_android", *_VERSIONS])
        raise UsageError(f"--target {options.target}: unknown target", hint=f"one of {known}")
    if backends.ALL[row.backend].two_halves and not row.native:
        raise UsageError(
            f"--target {options.target} is one half of what HTP needs on a device",
            hint="name its Hexagon version (--target v75): the ARM library is included",
        )
    if row.native:
        return Platform(PC, row.backend)
    return Platform(ANDROID if row.for_android else LINUX, row.backend)
