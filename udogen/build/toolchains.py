"""The compilers that can build a target: SDKs and the NDK, as the vendor documents them, or open ones.

`ALL` lists the toolchains in the order in which `auto` tries them.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from udogen import backends, process
from udogen.backends import architectures
from udogen.backends.architectures import Architecture
from udogen.backends.backend import Kind, Target
from udogen.build import sdks, tools
from udogen.build.tools import Environment
from udogen.errors import ToolMissing, UsageError
from udogen.findings import Finding


class Choice(NamedTuple):
    """How a target is built: the variables for make."""

    toolchain: str
    title: str  # compiler and headers, as they are printed
    variables: tuple[tuple[str, str], ...]
    folder: str = ""  # for the library, if not the target's folder


@dataclass(frozen=True)
class Toolchain:
    """A toolchain."""

    name: str
    compilers: dict[str, str]  # `Target.compiler` -> its compiler, for the README
    choose: Callable[[Target, Environment], Choice | Finding]  # a finding: why it cannot build the target

    def compiler_of(self, target: Target) -> str:
        """The compiler for a target, for tables; `-` without one."""
        unknown = self.name == "open" and target.arch and not architectures.ALL[target.arch].open
        return "-" if unknown else self.compilers.get(target.compiler, "-")


def choose(target: Target, env: Environment, name: str = "auto") -> Choice:
    """The compiler for a target: of this toolchain, or of the first that fits."""
    if name != "auto" and name not in ALL:
        raise UsageError(f"no toolchain `{name}`", hint="choose auto, " + " or ".join(ALL))
    reasons: dict[str, Finding] = {}
    for toolchain in ALL.values() if name == "auto" else (ALL[name],):
        choice = toolchain.choose(target, env)
        if isinstance(choice, Choice):
            return choice
        reasons[toolchain.name] = choice
    *_, last = reasons.values()
    raise ToolMissing(
        f"no toolchain can build {target.id} ({target.machine})",
        details=[f"{each}: {reason.message}" for each, reason in reasons.items()],
        hint=last.hint,
    )


def choose_for(target: Target, env: Environment, name: str, *, kind: Kind, api: str) -> Choice:
    """The compiler for a target of a library of this kind and interface, which may need headers of an SDK."""
    choice = choose(target, env, name)
    if kind.registration:
        return _with_udo_headers(env, choice, own_headers=name == "open")
    return _with_core_headers(target, env, choice) if api == "core" else choice


def _headers(root: Path | None) -> str:
    return f"headers of {root}" if root else "udogen's own headers"


def _without_compiler(variable: str, command: str) -> Finding | None:
    """Why a variable set by the user does not name a compiler; None if it does, or if it is not set."""
    program = tools.missing_program(command)
    if not program:
        return None
    why = f"{variable} names `{program}`, but there is no such program"
    return Finding(why, f"set {variable} to an installed C++ compiler, or unset it")


# --- open: udogen's headers, and any C++ compiler of pip or a distribution -------------------------------------------

# Oldest glibc of the devices that the open toolchain builds for (Ubuntu 20.04 and later).
_AARCH64 = "aarch64-linux-gnu.2.31"


def _open(target: Target, env: Environment) -> Choice | Finding:
    """An open compiler for this target."""
    if target.compiler == "x86":
        if unfit := _without_compiler("X86_CXX", env.x86_cxx):
            return unfit
        compiler = env.x86_cxx or _first("clang++", "g++") or zig_command()
        if not compiler:
            return Finding("no C++ compiler found", "install clang or g++, or `pip install ziglang`")
        return _open_choice(compiler, "X86_CXX")
    if target.compiler in ("aarch64", "arm64"):
        if unfit := _without_compiler("AARCH64_CXX", env.aarch64_cxx):
            return unfit
        compiler = env.aarch64_cxx or zig_command(_AARCH64) or _first("aarch64-linux-gnu-g++")
        if not compiler:
            return Finding("no compiler for aarch64 found", "`pip install ziglang`, or set AARCH64_CXX")
        # With ANDROID_NDK_ROOT the Makefile would build for Android.
        return _open_choice(compiler, "AARCH64_CXX", ("ANDROID_NDK_ROOT", ""), folder=target.folders[-1])
    if target.compiler == "hexagon":
        return _open_hexagon(target)
    return Finding(
        f"no open compiler builds libraries for {target.machine}",
        f"install the Android NDK (r26c or later) and set ANDROID_NDK_ROOT; {target.backend}_aarch64 builds for Linux "
        "without it",
    )


def _open_hexagon(target: Target) -> Choice | Finding:
    command = tools.zig()
    arch = architectures.ALL[target.arch]
    if not arch.open:
        sdk = arch.releases[0]
        how = f"install Hexagon SDK {sdk.sdk} with tools {sdk.tools}, and set HEXAGON_SDK_ROOT_{arch.variable}"
        return Finding(f"zig does not support Hexagon {arch.name}", how)
    if not command:
        return Finding("zig is not installed", "`pip install ziglang`, or set HEXAGON_SDK_ROOT")
    # Empty variables on make's command line override those of the environment.
    empty = ("HEXAGON_SDK_ROOT", "HEXAGON_SDK4_ROOT", f"HEXAGON_SDK_ROOT_{target.arch.upper()}", "QNN_SDK_ROOT")
    variables = (("ZIG", _as_in_makefile(command)), *((name, "") for name in empty))
    return Choice("open", f"zig c++ for hexagon{target.arch}, udogen's own headers", variables)


def _open_choice(compiler: str, variable: str, *more: tuple[str, str], folder: str = "") -> Choice:
    title = compiler.replace(_as_in_makefile(tools.zig()), "zig") if tools.zig() else compiler
    # An empty QNN_SDK_ROOT on make's command line overrides one in the environment.
    return Choice("open", f"{title}, udogen's own headers", ((variable, compiler), ("QNN_SDK_ROOT", ""), *more), folder)


def _first(*names: str) -> str:
    # By name, as in the Makefile: plain make and `udogen build` then have the same command, and rebuild nothing.
    return next((name for name in names if tools.program(name)), "")


def _as_in_makefile(command: tuple[str, ...]) -> str:
    """The command of zig, with the Makefile's name for Python if that is the same Python."""
    python = tools.program("python3")
    same = python and Path(python).parent == Path(sys.executable).parent
    return shlex.join(["python3", *command[1:]] if same else command)


def zig_command(machine: str = "") -> str:
    """The command of zig as C++ compiler; empty if zig is not installed."""
    command = tools.zig()
    if not command:
        return ""
    return " ".join([_as_in_makefile(command), "c++", *(["-target", machine] if machine else [])])


# --- sdk: headers of the QNN SDK, clang for x86, the Android NDK and the Hexagon SDK for devices ---------------------

_NDK_CLANG = "toolchains/llvm/prebuilt/linux-x86_64/bin/clang++"
_OPENCL = "libOpenCL.so"
_GET_SDK = "install the Qualcomm AI Engine Direct SDK and set QNN_SDK_ROOT to its folder"


def _sdk(target: Target, env: Environment) -> Choice | Finding:
    """The SDK's compiler for this target."""
    root = tools.qnn_sdk(env)
    if target.compiler == "android":
        return _with_opencl(target, env, _ndk(env, root, "ndk-build"))
    if target.compiler == "ndk" or (target.compiler == "arm64" and env.android_ndk_root):
        return _with_opencl(target, env, _ndk(env, root, _NDK_CLANG))
    if target.compiler == "hexagon":
        return _hexagon_sdk(target, env, root)
    if root is None:
        return Finding("QNN_SDK_ROOT is not set", _GET_SDK)
    if target.compiler == "x86":
        if unfit := _without_compiler("X86_CXX", env.x86_cxx):
            return unfit
        compiler = env.x86_cxx or "clang++"
        if not env.x86_cxx and not tools.program("clang++"):
            return Finding("clang++ is not on PATH", "install clang, or set X86_CXX to a C++ compiler")
        return Choice("sdk", f"{compiler}, headers of {root}", (("QNN_SDK_ROOT", str(root)), ("X86_CXX", compiler)))
    if unfit := _without_compiler("AARCH64_CXX", env.aarch64_cxx):
        return unfit
    if env.aarch64_cxx:
        variables = (("QNN_SDK_ROOT", str(root)), ("AARCH64_CXX", env.aarch64_cxx), ("ANDROID_NDK_ROOT", ""))
        return Choice("sdk", f"{env.aarch64_cxx}, headers of {root}", variables, target.folders[-1])
    return Finding("AARCH64_CXX is not set", "set AARCH64_CXX to the device's cross compiler")


def _with_opencl(target: Target, env: Environment, found: Choice | Finding) -> Choice | Finding:
    """GPU packages whose sources call OpenCL link the device's libOpenCL.so, in CL_LIBRARY_PATH."""
    if isinstance(found, Finding) or not backends.KINDS[target.backend].opencl:
        return found
    if env.cl_library_path and not (Path(env.cl_library_path) / _OPENCL).is_file():
        return Finding(
            f"CL_LIBRARY_PATH is {env.cl_library_path}, which has no {_OPENCL}",
            f"set it to the folder of the device's {_OPENCL} (adb pull /vendor/lib64/{_OPENCL}), or unset it: "
            "a package needs it only if its own sources call OpenCL",
        )
    return found._replace(variables=(*found.variables, ("CL_LIBRARY_PATH", env.cl_library_path)))


def _ndk(env: Environment, root: Path | None, program: str) -> Choice | Finding:
    if not env.android_ndk_root:
        return Finding(
            "ANDROID_NDK_ROOT is not set", "install the Android NDK (r26c or later) and set ANDROID_NDK_ROOT"
        )
    if not (Path(env.android_ndk_root) / program).is_file():
        return Finding(
            f"ANDROID_NDK_ROOT is {env.android_ndk_root}, which has no {program}",
            f"set ANDROID_NDK_ROOT to the folder that contains {program}",
        )
    name = program.rpartition("/")[2]
    return Choice(
        "sdk",
        f"{name} of {env.android_ndk_root}, {_headers(root)}",
        (("ANDROID_NDK_ROOT", env.android_ndk_root), ("QNN_SDK_ROOT", str(root) if root else "")),
    )


def _hexagon_sdk(target: Target, env: Environment, qnn: Path | None) -> Choice | Finding:
    """hexagon-clang++ of a Hexagon SDK for this version, found as in the vendor's HTP Makefiles."""
    arch = architectures.ALL[target.arch]
    known = " or ".join(f"{release.sdk} with tools {release.tools}" for release in arch.releases)
    variable = f"HEXAGON_SDK_ROOT_{arch.variable}"
    get = f"install Hexagon SDK {known}, and set {variable} (or HEXAGON_SDK_ROOT, beside hexagon-sdk-<x.y.z>)"
    roots = list(_hexagon_roots(arch, env))
    if not roots:
        return Finding("HEXAGON_SDK_ROOT is not set", get)
    seen = []
    for name, root in roots:
        if not (root / sdks.TOOLS).is_dir() and not env.hexagon_tools_root:
            seen.append(f"{name} is {root}, which has no {sdks.TOOLS}")
            continue
        hexagon_tools = _hexagon_tools(arch, env, root)
        if isinstance(hexagon_tools, str):
            seen.append(hexagon_tools)
            continue
        variables = (
            (variable, str(root)),
            ("HEXAGON_CXX", shlex.quote(str(hexagon_tools / sdks.COMPILER))),
            ("QNN_SDK_ROOT", str(qnn) if qnn else ""),
        )
        return Choice("sdk", f"hexagon-clang++ {hexagon_tools.name} of {root}, {_headers(qnn)}", variables)
    return Finding("; ".join(dict.fromkeys(seen)), get)


def _hexagon_roots(arch: Architecture, env: Environment) -> Iterator[tuple[str, Path]]:
    """SDK folders for this version, with their variables: only its own variable, or the others and sibling folders."""
    if own := env.hexagon_sdk_roots.get(arch.name, ""):
        yield f"HEXAGON_SDK_ROOT_{arch.variable}", Path(own)
        return
    # HEXAGON_SDK4_ROOT is for V68 and later if HEXAGON_SDK_ROOT is an SDK 3, for V65 and V66.
    named = [("HEXAGON_SDK4_ROOT", env.hexagon_sdk4_root), ("HEXAGON_SDK_ROOT", env.hexagon_sdk_root)]
    named = named[1:] if arch.tools_before else named
    given = [(name, Path(value)) for name, value in named if value]
    for name, root in given:
        for release in arch.releases:
            sibling = root.parent / f"hexagon-sdk-{release.sdk}"
            if sibling != root and sibling.is_dir():
                yield f"hexagon-sdk-{release.sdk} beside {name}", sibling
    yield from given


def _hexagon_tools(arch: Architecture, env: Environment, root: Path) -> Path | str:
    """The folder of the tools to use; the reason if none of the installed ones supports this version."""
    chosen = env.hexagon_tools_versions.get(arch.name, "")
    if chosen:
        folder = root / sdks.TOOLS / chosen
        missing = f"HEXAGON_TOOLS_VERSION_{arch.variable} is {chosen}: no {folder / sdks.COMPILER}"
        return folder if _compiles(folder) else missing
    installed = [folder for folder in sorted((root / sdks.TOOLS).glob("*"), key=_age) if _compiles(folder)]
    if env.hexagon_tools_root:
        named = Path(env.hexagon_tools_root)
        named = named.parent if named.name == "Tools" else named
        installed = [named, *installed] if _compiles(named) else installed
    known = {release.tools for release in arch.releases}
    fitting = [folder for folder in installed if folder.name in known]
    fitting += [each for each in installed if _age(each)[:2] >= arch.oldest_tools and not _is_too_new(each, arch)]
    return fitting[0] if fitting else _why_no_tools(arch, root, installed)


def _why_no_tools(arch: Architecture, root: Path, installed: Sequence[Path]) -> str:
    """Why none of the installed tools supports a version of Hexagon."""
    if not installed:
        return f"no {sdks.COMPILER.name} in {root / sdks.TOOLS}"
    have = ", ".join(folder.name for folder in installed)
    least = ".".join(str(number) for number in arch.oldest_tools)
    if any(_is_too_new(folder, arch) for folder in installed):
        return (
            f"Hexagon tools {have} in {root} are of Hexagon SDK 4 or later: {arch.name} needs {least} of SDK 3.5, "
            "and HEXAGON_SDK4_ROOT for the later one"
        )
    if not arch.tools_before and all(_age(folder) < (8, 4) for folder in installed):
        return (
            f"Hexagon tools {have} in {root} are of Hexagon SDK 3, for V65 and V66: {arch.name} needs {least} or later"
        )
    return f"Hexagon tools {have} in {root} do not support {arch.name}: it needs {least} or later"


def _is_too_new(folder: Path, arch: Architecture) -> bool:
    return bool(arch.tools_before) and _age(folder)[:2] >= architectures.version(arch.tools_before)


def _compiles(folder: Path) -> bool:
    return bool(tools.program(str(folder / sdks.COMPILER)))


def _age(folder: Path) -> tuple[int, ...]:
    return architectures.version(folder.name)


ALL = {
    "sdk": Toolchain(
        "sdk",
        {
            "x86": "clang++",
            "aarch64": "`AARCH64_CXX`",
            "android": "`ndk-build`",
            "arm64": "clang++ of the NDK, `AARCH64_CXX`",
            "ndk": "clang++ of the NDK",
            "hexagon": "hexagon-clang++",
        },
        _sdk,
    ),
    "open": Toolchain(
        "open",
        {
            "x86": "clang++, g++, zig",
            "aarch64": "zig, aarch64-linux-gnu-g++",
            "arm64": "zig, aarch64-linux-gnu-g++ (Linux)",
            "hexagon": "zig",
        },
        _open,
    ),
}


# --- libraries that need headers of an SDK, with any compiler --------------------------------------------------------

_CORE_HEADER = "include/QNN/HTP/core/op_register_ext.h"
_LIBCXX = "-stdlib=libc++"
_UDO_HEADER = Path("SnpeUdo", "UdoReg.h")
# Folders of the header below the variables' folders, in SDKs of different years; as in the package's Makefile.
_UDO_FOLDERS = {
    "SNPE_UDO_ROOT": ("", "..", "include", "../../../include/SNPE"),  # the last for share/SNPE/SnpeUdo, as in tutorials
    "SNPE_ROOT": ("include/SNPE", "include", "share/SnpeUdo/include"),
}


def _with_udo_headers(env: Environment, found: Choice, *, own_headers: bool) -> Choice:
    """For a registration library: SnpeUdo headers of the SNPE SDK if set; `own_headers` selects udogen's."""
    named = {"SNPE_UDO_ROOT": env.snpe_udo_root, "SNPE_ROOT": env.snpe_root}
    variable = "" if own_headers else next((name for name, value in named.items() if value), "")
    empty = tuple((name, "") for name in named if name != variable)
    if not variable:
        # Empty variables on make's command line override those of the environment and of the config.
        given = empty if own_headers else ()
        return found._replace(variables=(*found.variables, *given))
    root = Path(named[variable])
    if not any((root / folder / _UDO_HEADER).is_file() for folder in _UDO_FOLDERS[variable]):
        raise ToolMissing(
            f"{variable} is {root}, which has no {_UDO_HEADER}",
            hint="set it to the folder of the SnpeUdo headers, or unset it to use udogen's own headers",
        )
    variables = (*found.variables, (variable, str(root)), *empty)
    return found._replace(title=f"{found.title.partition(',')[0]}, SnpeUdo headers of {root}", variables=variables)


def _with_core_headers(target: Target, env: Environment, found: Choice) -> Choice:
    """For HTP's C++ interface: headers of the QNN SDK, and on a PC libc++, which the SDK's classes use."""
    root = _core_sdk(target, env)
    variables = dict(found.variables)
    title = found.title
    if target.compiler == "x86":
        title, variables["X86_CXX"] = _with_libcxx(target, env)
    variables.update(QNN_SDK_ROOT=str(root), HEXAGON_TOOLS_ROOT=env.hexagon_tools_root)
    return found._replace(title=f"{title.partition(',')[0]}, headers of {root}", variables=tuple(variables.items()))


def _core_sdk(target: Target, env: Environment) -> Path:
    root = tools.qnn_sdk(env)
    hint = "set QNN_SDK_ROOT to the SDK of the release that the package is for; --htp-api qhpi needs none"
    if root is None:
        raise ToolMissing(
            f"{target.id} of a package generated with --htp-api core needs the headers of the QNN SDK, "
            "and QNN_SDK_ROOT is not set",
            hint=hint,
        )
    if not (root / _CORE_HEADER).is_file():
        raise ToolMissing(f"QNN_SDK_ROOT is {root}, which has no {_CORE_HEADER}", hint=hint)
    return root


def _with_libcxx(target: Target, env: Environment) -> tuple[str, str]:
    """A compiler with libc++: title, command."""
    if unfit := _without_compiler("X86_CXX", env.x86_cxx):
        raise ToolMissing(unfit.message, hint=unfit.hint)
    if env.x86_cxx:
        command = shlex.split(env.x86_cxx)
        if _has_libcxx(command):
            return env.x86_cxx, env.x86_cxx
        if _has_libcxx([*command, _LIBCXX]):
            return env.x86_cxx, f"{env.x86_cxx} {_LIBCXX}"
        raise ToolMissing(
            f"{target.id} needs a C++ compiler with libc++, the C++ library of the SDK, and X86_CXX "
            f"(`{env.x86_cxx}`) has none",
            hint="use clang++ with libc++-dev, or unset X86_CXX: zig has libc++ (pip install ziglang)",
        )
    clang = tools.program("clang++")
    if clang and _has_libcxx([clang, _LIBCXX]):
        return f"{clang} {_LIBCXX}", f"clang++ {_LIBCXX}"
    if tools.zig():
        return "zig", shlex.join([*tools.zig(), "c++"])
    raise ToolMissing(
        f"{target.id} needs a C++ compiler with libc++, the C++ library of the SDK",
        hint="`pip install ziglang`, or install clang with libc++-dev and libc++abi-dev",
    )


def _has_libcxx(command: list[str]) -> bool:
    asked = process.run([*command, "-x", "c++", "-dM", "-E", "-include", "cstddef", "/dev/null"], timeout=60)
    return asked.returncode == 0 and "_LIBCPP_VERSION" in asked.stdout
