"""The open way: our own headers, and any C++ compiler that pip or a distribution brings."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from udogen.backends import architectures
from udogen.backends.backend import Target
from udogen.build import tools
from udogen.build.toolchains.choice import Choice, Unfit, without_compiler
from udogen.build.tools import Environment

COMPILERS = {
    "x86": "clang++, g++, zig",
    "aarch64": "zig, aarch64-linux-gnu-g++",
    "arm64": "zig, aarch64-linux-gnu-g++ (Linux)",
    "hexagon": "zig",
}

# Oldest glibc of the devices that the open toolchain builds for (Ubuntu 20.04 and later).
_AARCH64 = "aarch64-linux-gnu.2.31"


def choose(target: Target, env: Environment) -> Choice | Unfit:
    """An open compiler for this target."""
    if target.compiler == "x86":
        if unfit := without_compiler("open", "X86_CXX", env.x86_cxx):
            return unfit
        compiler = env.x86_cxx or _first("clang++", "g++") or _zig()
        if not compiler:
            return Unfit("open", "there is no C++ compiler", "install clang or g++, or `pip install ziglang`")
        return _choice(compiler, "X86_CXX")
    if target.compiler in ("aarch64", "arm64"):
        if unfit := without_compiler("open", "AARCH64_CXX", env.aarch64_cxx):
            return unfit
        compiler = env.aarch64_cxx or _zig(_AARCH64) or _first("aarch64-linux-gnu-g++")
        if not compiler:
            return Unfit("open", "there is no compiler for aarch64", "`pip install ziglang`, or set AARCH64_CXX")
        # With ANDROID_NDK_ROOT the Makefile would build for Android.
        return _choice(compiler, "AARCH64_CXX", ("ANDROID_NDK_ROOT", ""), folder=target.folders[-1])
    if target.compiler == "hexagon":
        return _hexagon(target)
    return Unfit(
        "open",
        f"no open compiler makes libraries for {target.machine}",
        f"install the Android NDK (r26c or later) and set ANDROID_NDK_ROOT; {target.backend}_aarch64 builds for Linux "
        "without it",
    )


def _hexagon(target: Target) -> Choice | Unfit:
    command = tools.zig()
    arch = architectures.ALL[target.arch]
    if not arch.open:
        sdk = arch.releases[0]
        how = f"install Hexagon SDK {sdk.sdk} with tools {sdk.tools}, and set HEXAGON_SDK_ROOT_{arch.variable}"
        return Unfit("open", f"zig does not know Hexagon {arch.name}", how)
    if not command:
        return Unfit("open", "zig is not installed", "`pip install ziglang`, or set HEXAGON_SDK_ROOT")
    # Empty variables on make's command line win over those of the environment.
    empty = ("HEXAGON_SDK_ROOT", "HEXAGON_SDK4_ROOT", f"HEXAGON_SDK_ROOT_{target.arch.upper()}", "QNN_SDK_ROOT")
    variables = (("ZIG", _in_venv(command)), *((name, "") for name in empty))
    return Choice("open", f"zig c++ for hexagon{target.arch}, udogen's own headers", variables)


def _choice(compiler: str, variable: str, *more: tuple[str, str], folder: str = "") -> Choice:
    title = compiler.replace(_in_venv(tools.zig()), "zig") if tools.zig() else compiler
    # An empty QNN_SDK_ROOT on make's command line wins over one in the environment.
    return Choice("open", f"{title}, udogen's own headers", ((variable, compiler), ("QNN_SDK_ROOT", ""), *more), folder)


def _first(*names: str) -> str:
    # By the name, as the Makefile finds it: plain make and `udogen build` have one command, and compile nothing anew.
    return next((name for name in names if tools.program(name)), "")


def _in_venv(command: tuple[str, ...]) -> str:
    """The command of zig, with the name of Python that the Makefile uses where that is the same Python."""
    found = tools.program("python3")
    same = found and Path(found).parent == Path(sys.executable).parent
    return shlex.join(["python3", *command[1:]] if same else command)


def _zig(machine: str = "") -> str:
    command = tools.zig()
    if not command:
        return ""
    return " ".join([_in_venv(command), "c++", *(["-target", machine] if machine else [])])
