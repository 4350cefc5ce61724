"""The checks of a machine, as rows: programs, SDKs, variables, runtimes, emulators, and what works with them."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

from udogen import backends, resources
from udogen.backends import targets
from udogen.backends.backend import Target
from udogen.build.toolchains.choice import Choice
from udogen.doctor.checks import VARIABLES
from udogen.doctor.model import FOUND, MISSING, WRONG, Check, Found, Machine, command
from udogen.errors import UdogenError, UsageError

PROGRAMS, RUNTIMES, WORKS = "Programs", "Runtimes and emulators", "What works here"


# --- programs -----------------------------------------------------------------------------------------------


def _program(name: str, purpose: str, get: str, *, flag: str = "--version", essential: bool = False) -> Check:
    return Check(name, PROGRAMS, purpose, get, partial(_find, name=name, flag=flag), essential)


def _find(machine: Machine, *, name: str, flag: str) -> Found:
    path = machine.program(name)
    if not path:
        return Found(MISSING, message="not on PATH")
    return Found(FOUND, machine.version([path, flag]), path)


def _zig(machine: Machine) -> Found:
    version = machine.wheel("ziglang")
    return Found(FOUND, version, "package ziglang") if version else Found(MISSING, message="not installed")


_PROGRAMS = (
    _program("make", "building packages", "apt-get install make", essential=True),
    _program("clang++", "x86-64, the usual compiler", "apt-get install clang"),
    _program("g++", "x86-64, where there is no clang++", "apt-get install g++"),
    Check("zig", PROGRAMS, "Hexagon and aarch64 without an SDK", "pip install ziglang", _zig),
    _program("aarch64-linux-gnu-g++", "aarch64 Linux, where there is no zig", "apt-get install g++-aarch64-linux-gnu"),
    _program("cmake", "packages generated with --gen_cmakelists", "pip install cmake, or apt-get install cmake"),
    _program("adb", "bringing libraries to a device", "apt-get install adb, or the Android platform tools"),
)


# --- runtimes, emulators, cache -----------------------------------------------------------------------------


def _runtime(machine: Machine, *, backend: str) -> Found:
    found = machine.runtime(backend)
    if isinstance(found, UdogenError):
        return Found(MISSING, message=found.message, get=found.hint)
    return Found(FOUND, machine.release(found.path), f"{found.path.name}, {_origin(found.origin)}")


def _origin(origin: str) -> str:
    return "package onnxruntime-qnn" if origin == "onnxruntime_qnn" else origin


def _opencl(machine: Machine) -> Found:
    if not machine.opencl:
        return Found(MISSING, message="no OpenCL platform is registered")
    return Found(FOUND, "", ", ".join(path.stem for path in machine.opencl))


def _cache(machine: Machine) -> Found:
    try:
        resources.make_private(machine.cache)
        with tempfile.TemporaryFile(dir=machine.cache):
            return Found(FOUND, "", str(machine.cache))
    except OSError as fault:
        message = f"{machine.cache} cannot be written: {fault.strerror or os.strerror(fault.errno or 0)}"
        return Found(WRONG, "", str(machine.cache), message)
    except UsageError as fault:
        return Found(WRONG, "", str(machine.cache), fault.message, fault.hint)


_RUNTIMES = (
    *(
        Check(
            f"{name} runtime",
            RUNTIMES,
            f"running {name} packages",
            "pip install onnxruntime-qnn==2.3.0, or set QNN_SDK_ROOT",
            partial(_runtime, backend=name),
            essential=row.essential,
        )
        for name, row in backends.RUNTIMES.items()
    ),
    Check(
        "qemu-hexagon", RUNTIMES, "running kernels as Hexagon code", "apt-get install qemu-user",
        partial(_find, name="qemu-hexagon", flag="--version"),
    ),
    Check(
        "qemu-aarch64", RUNTIMES, "running what is built for aarch64", "apt-get install qemu-user libc6-arm64-cross",
        partial(_find, name="qemu-aarch64", flag="--version"),
    ),
    Check("OpenCL", RUNTIMES, "running GPU kernels here", "apt-get install pocl-opencl-icd", _opencl),
    Check(
        "cache", RUNTIMES, "what is compiled once and kept", "set XDG_CACHE_HOME to a writable folder", _cache
    ),
)  # fmt: skip


# --- what works ---------------------------------------------------------------------------------------------


def _builds(machine: Machine, *, target: Target) -> Found:
    found = machine.choose(target)
    if isinstance(found, Choice):
        return Found(FOUND, found.toolchain, _short(found.title))
    why = "; ".join(found.details) or found.message
    return Found(MISSING, message=why, get=found.hint)


def _short(title: str) -> str:
    """A compiler by its name, without the path of an SDK behind it."""
    first, _, rest = title.partition(", ")
    words = command(first)
    return ", ".join([" ".join([Path(words[0]).name, *words[1:]]) if words else first, *([rest] if rest else [])])


_ESSENTIAL = [name for name, row in backends.RUNTIMES.items() if row.essential]
_WORKS = tuple(
    Check(
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
