"""The checks of a machine: programs, variables, runtimes, emulators, and what works with them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from udogen import backends, resources
from udogen.backends import targets
from udogen.backends.architectures import version as numbers
from udogen.backends.backend import Target
from udogen.build import sdks, tools
from udogen.build.sdks import Sdk
from udogen.build.toolchains import Choice
from udogen.doctor.model import FOUND, MISSING, UNSET, WRONG, CheckOutcome, Machine, MachineCheck, command
from udogen.errors import UdogenError, UsageError

GROUP = "SDKs and variables"
_QPM = "Qualcomm Package Manager, or Qualcomm's software center"

_Judge = Callable[[Machine, str], CheckOutcome]


def _look(machine: Machine, *, name: str, judge: _Judge) -> CheckOutcome:
    value = _value(machine.env, name)
    return judge(machine, value) if value else CheckOutcome(UNSET)


def _value(env: tools.Environment, name: str) -> str:
    """The value of a variable, by its name."""
    for prefix, by_version in (
        ("HEXAGON_SDK_ROOT_", env.hexagon_sdk_roots),
        ("HEXAGON_TOOLS_VERSION_", env.hexagon_tools_versions),
    ):
        if name.startswith(prefix):
            return by_version.get(name.removeprefix(prefix).lower(), "")
    return str(getattr(env, name.lower()))


def _wrong(value: str, fault: str, get: str = "", version: str = "") -> CheckOutcome:
    return CheckOutcome(WRONG, version, value, f"is {value}{fault}", get)


def _sdk(_machine: Machine, value: str, *, sdk: Sdk, least: int = 0) -> CheckOutcome:
    root = Path(value)
    fault = sdk.fault(root)
    if fault:
        return _wrong(value, f": {fault}", f"set it to the folder of the {sdk.title}")
    version = sdk.version(root)
    if least and version and numbers(version)[:1] < (least,):
        return _wrong(value, f": that is version {version}, and {least} or later is needed", version=version)
    old = sdk is sdks.QNN and sdks.has_no_qhpi(value)
    return CheckOutcome(FOUND, version, f"{value} (no QHPI)" if old else value)


def _udo_root(_machine: Machine, value: str) -> CheckOutcome:
    if sdks.udo_headers(Path(value)) is None:
        fault = ": it has no UdoBase.h, nor have SnpeUdo or include/SnpeUdo below it"
        return _wrong(value, fault, "set it to $SNPE_ROOT/include/SNPE/SnpeUdo, or unset it")
    return CheckOutcome(FOUND, "", value)


def _hexagon_sdk(machine: Machine, value: str, *, least: int = 0) -> CheckOutcome:
    found = _sdk(machine, value, sdk=sdks.HEXAGON, least=least)
    if found.state != FOUND:
        return found
    there = sdks.hexagon_tools(Path(value))
    if not there and not machine.env.hexagon_tools_root:
        message = f"is {value}: it has no {sdks.TOOLS}/*/{sdks.COMPILER}, and HEXAGON_TOOLS_ROOT is not set"
        return found._replace(state=WRONG, message=message, get="install the Hexagon tools into it")
    return found._replace(where=f"{value}, tools {', '.join(there)}" if there else value)


def _hexagon_tools(machine: Machine, value: str) -> CheckOutcome:
    root = Path(value)
    root = root.parent if root.name == "Tools" else root
    if not machine.program(str(root / sdks.COMPILER)):
        get = "set it to $HEXAGON_SDK_ROOT/tools/HEXAGON_Tools/<version>, or unset it"
        return _wrong(value, f": it has no {sdks.COMPILER}", get)
    known = sdks.known_to(root.name)
    return CheckOutcome(FOUND, root.name, f"{value}, for {known[0]} to {known[-1]}" if known else value)


def _setup_done(machine: Machine, value: str) -> CheckOutcome:
    if not machine.env.hexagon_sdk_root:
        get = "source setup_sdk_env.source of the Hexagon SDK again, or unset it"
        return _wrong(value, ", but HEXAGON_SDK_ROOT is not set", get)
    return CheckOutcome(FOUND, "", value)


def _folder_of_opencl(_machine: Machine, value: str) -> CheckOutcome:
    if not (Path(value) / "libOpenCL.so").is_file():
        return _wrong(value, ": it has no libOpenCL.so", "pull it from the device")
    return CheckOutcome(FOUND, "", value)


def _compiler(machine: Machine, value: str) -> CheckOutcome:
    words = command(value)
    if not machine.program(words[0]):
        message = f"names `{words[0]}`, which is not a program"
        return CheckOutcome(WRONG, "", value, message, "set it to an installed C++ compiler, or unset it")
    return CheckOutcome(FOUND, machine.version([*words, "--version"]), value)


def _launcher(machine: Machine, value: str) -> CheckOutcome:
    found = _compiler(machine, value)
    return found._replace(get="install it, or unset it") if found.state == WRONG else found


def _tools_version(_machine: Machine, value: str) -> CheckOutcome:
    if not numbers(value):
        return _wrong(value, ": that is not a version", "set it to one like 8.7.06, or unset it")
    return CheckOutcome(FOUND, value, "")


# Variable, purpose, how to get it, check.
_ROWS: tuple[tuple[str, str, str, _Judge], ...] = (
    ("QNN_SDK_ROOT", "QNN's headers and runtime, instead of udogen's", _QPM, partial(_sdk, sdk=sdks.QNN)),
    ("SNPE_ROOT", "SNPE's headers, converters and runtime", _QPM, partial(_sdk, sdk=sdks.SNPE)),
    ("SNPE_UDO_ROOT", "SNPE's UDO headers, instead of udogen's", "it is in the SNPE SDK", _udo_root),
    ("ANDROID_NDK_ROOT", "all Android targets", "NDK r26c: developer.android.com/ndk", partial(_sdk, sdk=sdks.NDK)),
    ("HEXAGON_SDK_ROOT", "hexagon-clang++ (SDK 3.5 for V65/V66)", _QPM, _hexagon_sdk),
    ("HEXAGON_SDK4_ROOT", "the SDK for V68 on, if the other is a 3.5", _QPM, partial(_hexagon_sdk, least=4)),
    ("HEXAGON_TOOLS_ROOT", "Hexagon tools outside of their SDK", "they are in the Hexagon SDK", _hexagon_tools),
    ("SDK_SETUP_ENV", "set by the Hexagon SDK's setup script", "source setup_sdk_env.source", _setup_done),
    ("CL_LIBRARY_PATH", "GPU libraries for Android", "the device's own libOpenCL.so", _folder_of_opencl),
    ("X86_CXX", "another compiler for x86-64", "", _compiler),
    ("AARCH64_CXX", "another compiler for aarch64 Linux", "", _compiler),
    ("UDOGEN_LAUNCHER", "ccache, sccache or distcc, at each compiler", "apt-get install ccache", _launcher),
)

_BY_VERSION: tuple[tuple[str, str, _Judge], ...] = (
    ("HEXAGON_SDK_ROOT_", "the Hexagon SDK for {} alone", _hexagon_sdk),
    ("HEXAGON_TOOLS_VERSION_", "the Hexagon tools for {} alone", _tools_version),
)


def _check(name: str, purpose: str, get: str, judge: _Judge) -> MachineCheck:
    return MachineCheck(name, GROUP, purpose, get, partial(_look, name=name, judge=judge))


VARIABLES = (
    *(_check(*row) for row in _ROWS),
    *(
        _check(name, purpose.format(name.removeprefix(prefix).lower()), "", judge)
        for prefix, purpose, judge in _BY_VERSION
        for name in tools.VARIABLES
        if name.startswith(prefix)
    ),
)

# Shown only if they are set: they are never required.
OF_ONE_VERSION = frozenset(row.id for row in VARIABLES[len(_ROWS) :])


PROGRAMS, RUNTIMES, WORKS = "Programs", "Runtimes and emulators", "What works here"


# --- programs -----------------------------------------------------------------------------------------------


def _program(name: str, purpose: str, get: str, *, flag: str = "--version", essential: bool = False) -> MachineCheck:
    return MachineCheck(name, PROGRAMS, purpose, get, partial(_find, name=name, flag=flag), essential)


def _find(machine: Machine, *, name: str, flag: str) -> CheckOutcome:
    path = machine.program(name)
    if not path:
        return CheckOutcome(MISSING, message="not on PATH")
    return CheckOutcome(FOUND, machine.version([path, flag]), path)


def _qemu_hexagon(machine: Machine) -> CheckOutcome:
    """Counting packets needs a QEMU with plug-ins; without them, it has no option `-plugin`."""
    found = _find(machine, name="qemu-hexagon", flag="--version")
    if found.state == FOUND and not machine.version([found.where, "-plugin", "none", "--version"]):
        return found._replace(where=f"{found.where} (no plug-ins, so no --count: the qemu-user of Debian has them)")
    return found


def _zig(machine: Machine) -> CheckOutcome:
    version = machine.wheel("ziglang")
    return (
        CheckOutcome(FOUND, version, "package ziglang") if version else CheckOutcome(MISSING, message="not installed")
    )


_PROGRAMS = (
    _program("make", "building packages", "apt-get install make", essential=True),
    _program("clang++", "x86-64, the usual compiler", "apt-get install clang"),
    _program("g++", "x86-64, without clang++", "apt-get install g++"),
    MachineCheck("zig", PROGRAMS, "Hexagon and aarch64 without an SDK", "pip install ziglang", _zig),
    _program("aarch64-linux-gnu-g++", "aarch64 Linux, without zig", "apt-get install g++-aarch64-linux-gnu"),
    _program("cmake", "packages generated with --gen_cmakelists", "pip install cmake, or apt-get install cmake"),
    _program("adb", "bringing libraries to a device", "apt-get install adb, or the Android platform tools"),
)


# --- runtimes, emulators, cache -----------------------------------------------------------------------------


def _runtime(machine: Machine, *, backend: str) -> CheckOutcome:
    found = machine.runtime(backend)
    if isinstance(found, UdogenError):
        return CheckOutcome(MISSING, message=found.message, get=found.hint)
    return CheckOutcome(FOUND, machine.release(found.path), f"{found.path.name}, {_origin(found.origin)}")


def _origin(origin: str) -> str:
    return "package onnxruntime-qnn" if origin == "onnxruntime_qnn" else origin


def _opencl(machine: Machine) -> CheckOutcome:
    if not machine.opencl:
        return CheckOutcome(MISSING, message="no OpenCL platform is registered")
    return CheckOutcome(FOUND, "", ", ".join(path.stem for path in machine.opencl))


def _cache(machine: Machine) -> CheckOutcome:
    try:
        resources.make_private(machine.cache)
        with tempfile.TemporaryFile(dir=machine.cache):
            return CheckOutcome(FOUND, "", str(machine.cache))
    except OSError as fault:
        message = f"{machine.cache} cannot be written: {fault.strerror or os.strerror(fault.errno or 0)}"
        return CheckOutcome(WRONG, "", str(machine.cache), message)
    except UsageError as fault:
        return CheckOutcome(WRONG, "", str(machine.cache), fault.message, fault.hint)


_RUNTIMES = (
    *(
        MachineCheck(
            f"{name} runtime",
            RUNTIMES,
            f"running {name} packages",
            "pip install onnxruntime-qnn==2.3.0, or set QNN_SDK_ROOT",
            partial(_runtime, backend=name),
            essential=row.essential,
        )
        for name, row in backends.RUNTIMES.items()
    ),
    MachineCheck(
        "qemu-hexagon", RUNTIMES, "running kernels as Hexagon code", "apt-get install qemu-user",
        _qemu_hexagon,
    ),
    MachineCheck(
        "qemu-aarch64", RUNTIMES, "running aarch64 programs", "apt-get install qemu-user libc6-arm64-cross",
        partial(_find, name="qemu-aarch64", flag="--version"),
    ),
    MachineCheck("OpenCL", RUNTIMES, "running GPU kernels here", "apt-get install pocl-opencl-icd", _opencl),
    MachineCheck(
        "cache", RUNTIMES, "libraries that are compiled once", "set XDG_CACHE_HOME to a writable folder", _cache
    ),
)  # fmt: skip


# --- what works ---------------------------------------------------------------------------------------------


def _builds(machine: Machine, *, target: Target) -> CheckOutcome:
    found = machine.choose(target)
    if isinstance(found, Choice):
        return CheckOutcome(FOUND, found.toolchain, _short(found.title))
    why = "; ".join(found.details) or found.message
    return CheckOutcome(MISSING, message=why, get=found.hint)


def _short(title: str) -> str:
    """The name of a compiler, without the path of its SDK."""
    first, _, rest = title.partition(", ")
    words = command(first)
    return ", ".join([" ".join([Path(words[0]).name, *words[1:]]) if words else first, *([rest] if rest else [])])


_ESSENTIAL = [name for name, row in backends.RUNTIMES.items() if row.essential]
_WORKS = tuple(
    MachineCheck(
        f"build {row.id}",
        WORKS,
        "",
        "",
        partial(_builds, target=row),
        essential=row.native and row.backend in _ESSENTIAL,
    )
    for row in targets.ALL.values()
)

ALL = (*_PROGRAMS, *VARIABLES, *_RUNTIMES, *_WORKS)
