"""The variables of the vendor's documentation: what each means, and whether what it names is that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from udogen.backends.architectures import version as numbers
from udogen.build import sdks, tools
from udogen.build.sdks import Sdk
from udogen.doctor.model import FOUND, UNSET, WRONG, Check, Found, Machine, command

GROUP = "SDKs and variables"
_QPM = "Qualcomm Package Manager, or Qualcomm's software center"

_Judge = Callable[[Machine, str], Found]


def _look(machine: Machine, *, name: str, judge: _Judge) -> Found:
    value = _value(machine.env, name)
    return judge(machine, value) if value else Found(UNSET)


def _value(env: tools.Environment, name: str) -> str:
    """What an environment says of a variable, by the variable's name."""
    for prefix, by_version in (
        ("HEXAGON_SDK_ROOT_", env.hexagon_sdk_roots),
        ("HEXAGON_TOOLS_VERSION_", env.hexagon_tools_versions),
    ):
        if name.startswith(prefix):
            return by_version.get(name.removeprefix(prefix).lower(), "")
    return str(getattr(env, name.lower()))


def _sdk(_machine: Machine, value: str, *, sdk: Sdk, least: int = 0, get: str = "") -> Found:
    root = Path(value)
    fault = sdk.fault(root)
    if fault:
        return Found(WRONG, "", value, f"is {value}: {fault}", get or f"set it to the folder of the {sdk.title}")
    version = sdk.version(root)
    if least and version and numbers(version)[:1] < (least,):
        return Found(WRONG, version, value, f"is {value}: that is version {version}, and {least} or later is needed")
    return Found(FOUND, version, value)


def _udo_root(_machine: Machine, value: str) -> Found:
    if sdks.udo_headers(Path(value)) is None:
        message = f"is {value}: there is no UdoBase.h in it, nor in SnpeUdo or include/SnpeUdo below it"
        return Found(WRONG, "", value, message, "set it to $SNPE_ROOT/include/SNPE/SnpeUdo, or unset it")
    return Found(FOUND, "", value)


def _hexagon_sdk(machine: Machine, value: str, *, least: int = 0) -> Found:
    found = _sdk(machine, value, sdk=sdks.HEXAGON, least=least)
    if found.state != FOUND:
        return found
    there = sdks.hexagon_tools(Path(value))
    if not there and not machine.env.hexagon_tools_root:
        message = f"is {value}: there is no {sdks.TOOLS}/*/{sdks.COMPILER} in it, and HEXAGON_TOOLS_ROOT is not set"
        return found._replace(state=WRONG, message=message, get="install the Hexagon tools into it")
    return found._replace(where=f"{value}, tools {', '.join(there)}" if there else value)


def _hexagon_tools(machine: Machine, value: str) -> Found:
    root = Path(value)
    root = root.parent if root.name == "Tools" else root
    if not machine.program(str(root / sdks.COMPILER)):
        message = f"is {value}: there is no {sdks.COMPILER} in it"
        get = "set it to $HEXAGON_SDK_ROOT/tools/HEXAGON_Tools/<version>, or unset it"
        return Found(WRONG, "", value, message, get)
    known = sdks.known_to(root.name)
    return Found(FOUND, root.name, f"{value}, for {known[0]} to {known[-1]}" if known else value)


def _setup_done(machine: Machine, value: str) -> Found:
    if not machine.env.hexagon_sdk_root:
        message = f"is {value}, but HEXAGON_SDK_ROOT is not set"
        return Found(WRONG, "", value, message, "source setup_sdk_env.source of the Hexagon SDK again, or unset it")
    return Found(FOUND, "", value)


def _folder_of_opencl(_machine: Machine, value: str) -> Found:
    if not (Path(value) / "libOpenCL.so").is_file():
        return Found(WRONG, "", value, f"is {value}: there is no libOpenCL.so in it", "pull it from the device")
    return Found(FOUND, "", value)


def _compiler(machine: Machine, value: str) -> Found:
    words = command(value)
    if not machine.program(words[0]):
        message = f"names `{words[0]}`, but there is no such program"
        return Found(WRONG, "", value, message, "set it to a C++ compiler that is there, or unset it")
    return Found(FOUND, machine.version([*words, "--version"]), value)


def _tools_version(_machine: Machine, value: str) -> Found:
    if not numbers(value):
        return Found(WRONG, "", value, f"is {value}: that is no version", "set it to one like 8.7.06, or unset it")
    return Found(FOUND, value, "")


# Variable, what it is for, how to get what it shall name, what judges it.
_ROWS: tuple[tuple[str, str, str, _Judge], ...] = (
    ("QNN_SDK_ROOT", "QNN's headers and runtime, instead of ours", _QPM, partial(_sdk, sdk=sdks.QNN)),
    ("SNPE_ROOT", "SNPE's headers, converters and runtime", _QPM, partial(_sdk, sdk=sdks.SNPE)),
    ("SNPE_UDO_ROOT", "SNPE's UDO headers, instead of ours", "it is in the SNPE SDK", _udo_root),
    ("ANDROID_NDK_ROOT", "all Android targets", "NDK r26c: developer.android.com/ndk", partial(_sdk, sdk=sdks.NDK)),
    ("HEXAGON_SDK_ROOT", "hexagon-clang++ (SDK 3.5 for V65/V66)", _QPM, _hexagon_sdk),
    ("HEXAGON_SDK4_ROOT", "the SDK for V68 on, if the other is a 3.5", _QPM, partial(_hexagon_sdk, least=4)),
    ("HEXAGON_TOOLS_ROOT", "Hexagon tools outside of their SDK", "they are in the Hexagon SDK", _hexagon_tools),
    ("SDK_SETUP_ENV", "set by the Hexagon SDK's setup script", "source setup_sdk_env.source", _setup_done),
    ("CL_LIBRARY_PATH", "GPU libraries for Android", "the device's own libOpenCL.so", _folder_of_opencl),
    ("X86_CXX", "another compiler for x86-64", "", _compiler),
    ("AARCH64_CXX", "another compiler for aarch64 Linux", "", _compiler),
)

_BY_VERSION: tuple[tuple[str, str, _Judge], ...] = (
    ("HEXAGON_SDK_ROOT_", "the Hexagon SDK for {} alone", _hexagon_sdk),
    ("HEXAGON_TOOLS_VERSION_", "the Hexagon tools for {} alone", _tools_version),
)


def _check(name: str, purpose: str, get: str, judge: _Judge) -> Check:
    return Check(name, GROUP, purpose, get, partial(_look, name=name, judge=judge))


VARIABLES = (
    *(_check(*row) for row in _ROWS),
    *(
        _check(name, purpose.format(name.removeprefix(prefix).lower()), "", judge)
        for prefix, purpose, judge in _BY_VERSION
        for name in tools.VARIABLES
        if name.startswith(prefix)
    ),
)

# Shown only where they are set: nobody needs them.
OF_ONE_VERSION = frozenset(row.id for row in VARIABLES[len(_ROWS) :])
