"""The machine as checks see it (tests use other machines), a check, and its result."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from udogen import backends, process, resources
from udogen.backends import targets
from udogen.backends.architectures import version as numbers
from udogen.backends.backend import Target
from udogen.build import elf, sdks, toolchains, tools
from udogen.build.sdks import Sdk
from udogen.build.toolchains import Choice
from udogen.errors import ToolMissing, UdogenError, UsageError
from udogen.runtime.library import RuntimeLibrary, find_runtime
from udogen.tables import table

_Answer = TypeVar("_Answer")

_SECONDS = 5.0  # for a program to print its version
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Machine:
    """A machine as checks see it."""

    env: tools.Environment
    program: Callable[[str], str]  # the path of a program; empty if missing
    version: Callable[[Sequence[str]], str]  # of a program; empty if it does not run
    wheel: Callable[[str], str]  # the version of an installed Python package; empty if missing
    choose: Callable[[Target], Choice | UdogenError]  # the toolchain for a target
    runtime: Callable[[str], RuntimeLibrary | UdogenError]  # of a backend
    release: Callable[[Path], str]  # the SDK release of a runtime library
    cache: Path
    opencl: tuple[Path, ...]  # the files that register OpenCL platforms


def this_machine() -> Machine:
    """This machine."""
    env = tools.environment()
    return Machine(
        env=env,
        program=tools.program,
        version=_version,
        wheel=_wheel,
        choose=lambda target: _or_fault(lambda: toolchains.choose(target, env)),
        runtime=lambda backend: _or_fault(lambda: find_runtime(backend, runtime="real", environment=env)),
        release=lambda path: ", ".join(text.removeprefix("v") for text in elf.sdk_releases(path)),
        cache=resources.cache_path(),
        opencl=tuple(sorted(Path("/etc/OpenCL/vendors").glob("*.icd"))),
    )


def _or_fault(ask: Callable[[], _Answer]) -> _Answer | UdogenError:
    try:
        return ask()
    except UdogenError as fault:
        return fault


def _version(argv: Sequence[str]) -> str:
    try:
        done = process.run(argv, timeout=_SECONDS)
    except OSError:
        return ""
    match = _VERSION.search(done.stdout or done.stderr) if done.returncode == 0 else None
    return match[0] if match else ""


def _wheel(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


FOUND, MISSING, WRONG, UNSET = "found", "missing", "wrong", "unset"
MARKS = {FOUND: "+", MISSING: "-", WRONG: "x", UNSET: "."}


class CheckOutcome(NamedTuple):
    """The outcome of a check."""

    state: str
    version: str = ""
    where: str = ""  # the path, or a description
    message: str = ""  # the problem
    get: str = ""  # the remedy, if it differs from `MachineCheck.get`


class MachineCheck(NamedTuple):
    """A check: what it looks for, why, and how to get it."""

    id: str
    group: str
    purpose: str
    get: str  # how to get it
    look: Callable[[Machine], CheckOutcome]
    essential: bool = False  # the open path does not work without it


class CheckResult(NamedTuple):
    """A check and its outcome: one row of the report."""

    check: MachineCheck
    outcome: CheckOutcome

    @property
    def fails(self) -> bool:
        """True if the open path does not work because of it."""
        return self.check.essential and self.outcome.state != FOUND

    @property
    def get(self) -> str:
        """How to get what is missing."""
        return self.outcome.get or self.check.get

    def as_json(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        check = {"id": self.check.id, "group": self.check.group, "essential": self.check.essential}
        return {**check, **self.outcome._asdict(), "needed_for": self.check.purpose, "get": self.get}

    @property
    def line(self) -> str:
        """Where it is; else the error, its purpose and how to get it."""
        if self.outcome.state == FOUND:
            return self.outcome.where
        if self.outcome.state == UNSET:
            return f"not set: {self.check.purpose}"
        return "; ".join(filter(None, (self.outcome.message, self.check.purpose, self.get)))


PROGRAMS, VARIABLES, RUNTIMES, WORKS = "Programs", "SDKs and variables", "Runtimes and emulators", "What works here"
_QPM = "Qualcomm Package Manager, or Qualcomm's software center"


# --- variables: the fault of a value, and the version that it names ------------------------------------


_OfValue = Callable[[Machine, str], str]  # a fault, or a version; empty: nothing is wrong, or it is not known


def _look(machine: Machine, *, name: str, fault: _OfValue, version: _OfValue) -> CheckOutcome:
    value = str(getattr(machine.env, name.lower()))
    if not value:
        return CheckOutcome(UNSET)
    if wrong := fault(machine, value):
        return CheckOutcome(WRONG, "", value, f"is {value}: {wrong}")
    return CheckOutcome(FOUND, version(machine, value), value)


def _udo_root(_machine: Machine, value: str) -> str:
    if sdks.udo_headers(Path(value)) is None:
        return "it has no UdoBase.h, nor have SnpeUdo or include/SnpeUdo below it"
    return ""


def _hexagon_sdk(machine: Machine, value: str, *, least: int = 0) -> str:
    root = Path(value)
    if fault := sdks.HEXAGON.fault(root):
        return fault
    version = sdks.HEXAGON.version(root)
    if least and version and numbers(version)[:1] < (least,):
        return f"that is version {version}, and {least} or later is needed"
    if not sdks.hexagon_tools(root) and not machine.env.hexagon_tools_root:
        return f"it has no {sdks.TOOLS}/*/{sdks.COMPILER}, and HEXAGON_TOOLS_ROOT is not set"
    return ""


def _tools_root(value: str) -> Path:
    root = Path(value)
    return root.parent if root.name == "Tools" else root


def _hexagon_tools(machine: Machine, value: str) -> str:
    return "" if machine.program(str(_tools_root(value) / sdks.COMPILER)) else f"it has no {sdks.COMPILER}"


def _words(text: str) -> list[str]:
    """The words of a user's command line; the whole text if its quotes are unbalanced."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _compiler(machine: Machine, value: str) -> str:
    name = _words(value)[0]
    return "" if machine.program(name) else f"`{name}` is not a program"


def _compiler_version(machine: Machine, value: str) -> str:
    return machine.version([*_words(value), "--version"])


def _variable(name: str, purpose: str, get: str, fault: _OfValue, version: _OfValue | None = None) -> MachineCheck:
    version = version or (lambda _machine, _value: "")
    return MachineCheck(name, VARIABLES, purpose, get, partial(_look, name=name, fault=fault, version=version))


def _sdk(name: str, purpose: str, get: str, sdk: Sdk, fault: _OfValue | None = None) -> MachineCheck:
    fault = fault or (lambda _machine, value: sdk.fault(Path(value)))
    return _variable(name, purpose, get, fault, lambda _machine, value: sdk.version(Path(value)))


_VARIABLES = (
    _sdk("QNN_SDK_ROOT", "QNN's headers and runtime, instead of udogen's", _QPM, sdks.QNN),
    _sdk("SNPE_ROOT", "SNPE's headers, converters and runtime", _QPM, sdks.SNPE),
    _variable("SNPE_UDO_ROOT", "SNPE's UDO headers, instead of udogen's", "$SNPE_ROOT/include/SNPE/SnpeUdo", _udo_root),
    _sdk("ANDROID_NDK_ROOT", "all Android targets", "NDK r26c: developer.android.com/ndk", sdks.NDK),
    _sdk("HEXAGON_SDK_ROOT", "hexagon-clang++ (SDK 3.5 for V65/V66)", _QPM, sdks.HEXAGON, _hexagon_sdk),
    _sdk(
        "HEXAGON_SDK4_ROOT", "the SDK for V68 on, if the other is a 3.5", _QPM, sdks.HEXAGON,
        partial(_hexagon_sdk, least=4),
    ),
    _variable(
        "HEXAGON_TOOLS_ROOT", "Hexagon tools outside of their SDK", "$HEXAGON_SDK_ROOT/tools/HEXAGON_Tools/<version>",
        _hexagon_tools,
        lambda _machine, value: _tools_root(value).name,
    ),
    _variable(
        "SDK_SETUP_ENV", "set by the Hexagon SDK's setup script", "source setup_sdk_env.source",
        lambda machine, _value: "" if machine.env.hexagon_sdk_root else "HEXAGON_SDK_ROOT is not set",
    ),
    _variable(
        "CL_LIBRARY_PATH", "GPU libraries for Android", "the device's own libOpenCL.so",
        lambda _machine, value: "" if (Path(value) / "libOpenCL.so").is_file() else "it has no libOpenCL.so",
    ),
    _variable("X86_CXX", "another compiler for x86-64", "", _compiler, _compiler_version),
    _variable("AARCH64_CXX", "another compiler for aarch64 Linux", "", _compiler, _compiler_version),
    _variable(
        "UDOGEN_LAUNCHER", "ccache, sccache or distcc, at each compiler", "apt-get install ccache",
        _compiler,
        _compiler_version,
    ),
)  # fmt: skip


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
    outcome = _find(machine, name="qemu-hexagon", flag="--version")
    if outcome.state == FOUND and not machine.version([outcome.where, "-plugin", "none", "--version"]):
        return outcome._replace(where=f"{outcome.where} (no plug-ins, so no --count: the qemu-user of Debian has them)")
    return outcome


def _zig(machine: Machine) -> CheckOutcome:
    if version := machine.wheel("ziglang"):
        return CheckOutcome(FOUND, version, "package ziglang")
    return CheckOutcome(MISSING, message="not installed")


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
    runtime = machine.runtime(backend)
    if isinstance(runtime, UdogenError):
        return CheckOutcome(MISSING, message=runtime.message, get=runtime.hint)
    return CheckOutcome(FOUND, machine.release(runtime.path), f"{runtime.path.name}, {runtime.origin}")


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


def _device_library(machine: Machine) -> CheckOutcome:
    """HTP libraries of DSPs are in a QNN SDK; a wheel for aarch64 has them, too, but is not installed here."""
    root = machine.env.qnn_sdk_root
    found = sorted(Path(root).glob("lib/hexagon-v*/unsigned/libQnnHtpV*Skel.so")) if root else []
    if not found:
        return CheckOutcome(MISSING, message="QNN_SDK_ROOT has none" if root else "QNN_SDK_ROOT is not set")
    if not machine.program("qemu-hexagon"):
        return CheckOutcome(
            MISSING, message="qemu-hexagon, which loads it, is not on PATH", get="apt-get install qemu-user"
        )
    return CheckOutcome(FOUND, machine.release(found[-1]), ", ".join(path.name for path in found))


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
        "device library", RUNTIMES, "registering Hexagon packages in a DSP's own library (inspect --device-library)",
        "or take libQnnHtpV73Skel.so from the wheel of onnxruntime-qnn for aarch64",
        _device_library,
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
    choice = machine.choose(target)
    if isinstance(choice, Choice):
        return CheckOutcome(FOUND, choice.toolchain, choice.title)
    why = "; ".join(choice.details) or choice.message
    return CheckOutcome(MISSING, message=why, get=choice.hint)


def _is_essential(row: Target) -> bool:
    runtime = backends.RUNTIMES.get(row.backend)
    return row.native and runtime is not None and runtime.essential


_WORKS = tuple(
    MachineCheck(f"build {row.id}", WORKS, "", "", partial(_builds, target=row), _is_essential(row))
    for row in targets.ALL.values()
)

ALL = (*_PROGRAMS, *_VARIABLES, *_RUNTIMES, *_WORKS)


_AT_ONCE = 8  # checks mostly wait for programs


def examine(machine: Machine) -> tuple[CheckResult, ...]:
    """Check the machine."""
    outcomes = process.at_once([partial(check.look, machine) for check in ALL], _AT_ONCE)
    return tuple(CheckResult(*row) for row in zip(ALL, outcomes, strict=True))


def exit_code(results: Sequence[CheckResult]) -> int:
    """0 if the open path works: generate, build for this machine, run in the CPU runtime."""
    return ToolMissing.exit_code if any(result.fails for result in results) else 0


def lines(
    results: Sequence[CheckResult], *, width: int, paint: Callable[[str, str], str] = lambda text, _state: text
) -> Iterator[str]:
    """The report, line by line; `paint` is called with a mark and its state."""
    states = {mark: state for state, mark in MARKS.items()}
    for title, group in groupby(results, key=lambda result: result.check.group):
        rows = [(f"{MARKS[row.outcome.state]} {row.check.id}", row.outcome.version, row.line) for row in group]
        for number, line in enumerate(table((title, "version", ""), rows, width)):
            mark = line[:1] if number > 1 else ""
            yield paint(mark, states[mark]) + line[1:] if mark in states else line
        yield ""
    if failing := ", ".join(result.check.id for result in results if result.fails):
        yield f"The open path does not work: see {failing} above."
    else:
        yield "The open path works: generate, build for this machine, run in the CPU runtime."
