"""Variants of a build: with line numbers, or with sanitizers; each in a folder below that of the target."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from udogen import backends, process
from udogen.build import make, tools
from udogen.build.make import Step
from udogen.build.package import PackageLibrary
from udogen.errors import ToolMissing, UsageError


@dataclass(frozen=True)
class Sanitizer:
    """A sanitizer of compilers, and the runtime that it needs."""

    name: str
    flags: tuple[str, ...]
    gcc: str  # the runtime's file
    clang: str
    package: str  # the Debian package of gcc's runtime
    excludes: tuple[str, ...] = ()


_ADDRESS = Sanitizer(
    "address", ("-fsanitize=address",), "libasan.so", "libclang_rt.asan-x86_64.so", "libasan8", excludes=("thread",)
)
_UNDEFINED = Sanitizer(
    "undefined",
    # vptr would require the compiler's C++ library to be loaded first.
    ("-fsanitize=undefined", "-fno-sanitize=vptr"),
    "libubsan.so",
    "libclang_rt.ubsan_standalone-x86_64.so",
    "libubsan1",
)
_THREAD = Sanitizer(
    "thread", ("-fsanitize=thread",), "libtsan.so", "libclang_rt.tsan-x86_64.so", "libtsan2", excludes=("address",)
)
SANITIZERS = {row.name: row for row in (_ADDRESS, _UNDEFINED, _THREAD)}
_WITH_LINES = ("-g", "-fno-omit-frame-pointer")
_FAMILIES = ("clang++", "g++")


@dataclass(frozen=True)
class Variant:
    """A variant: sanitizers, or only line numbers."""

    sanitizers: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Its folder, below that of the target."""
        return "-".join(self.sanitizers) or "lines"

    @property
    def in_kernels(self) -> str:
        """The sanitizer that Halide also supports, for kernels in Python."""
        return next((name for name in self.sanitizers if name in (_ADDRESS.name, _THREAD.name)), "")

    @property
    def is_parallel(self) -> bool:
        """True if its findings need several graphs that run at the same time."""
        return _THREAD.name in self.sanitizers


class Compiler(NamedTuple):
    """A compiler, and its flags and libraries for a variant."""

    command: str
    flags: tuple[str, ...]
    preload: tuple[Path, ...]


def parse(text: str) -> Variant:
    """The variant of `--sanitize address,undefined`."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in SANITIZERS:
            raise UsageError(f"no sanitizer `{name}`", hint="one or several of " + ", ".join(SANITIZERS))
    for name in names:
        for other in SANITIZERS[name].excludes:
            if other in names:
                raise UsageError(
                    f"`{name}` and `{other}` exclude each other in one library",
                    hint=f"run them separately: --sanitize {name} --sanitize {other}",
                )
    return Variant(tuple(name for name in SANITIZERS if name in names))


def plan(
    package: PackageLibrary, names: Sequence[str], variant: Variant, *, toolchain: str, env: tools.Environment
) -> list[Step]:
    """The steps for these targets, which must run on this machine; without names, for all that do."""
    steps = make.plan(package, names, toolchain=toolchain, env=env)
    for step in steps:
        if not step.target.native:
            raise UsageError(
                f"{step.target.id} does not run on this machine, as sanitizers and line numbers require",
                hint="leave this target out",
            )
    return [_varied(package, step, variant, env) for step in steps]


def _varied(package: PackageLibrary, step: Step, variant: Variant, env: tools.Environment) -> Step:
    cxx, more, preload = need_compiler(variant, env, dict(step.choice.variables).get("X86_CXX", ""))
    folder = package.path.resolve()
    normal = step.artifact.resolve()
    artifact = normal.parent / variant.folder / normal.name
    values = dict(step.choice.variables)
    values.update(
        X86_CXX=cxx,
        LIBRARY=artifact.relative_to(folder).as_posix(),
        OBJ=f"obj/{normal.parent.name}/{variant.folder}-{package.backend}",
        CXXFLAGS=" ".join((*_WITH_LINES, *more)),
        LDFLAGS=" ".join(more),
        # Functions of a sanitizer remain undefined: its runtime is preloaded.
        **({"LINK_RULES": ""} if variant.sanitizers else {}),
    )
    if variant.in_kernels and not backends.KINDS[package.backend].opencl:
        values["KERNEL_OBJECTS"] = f"{step.choice.folder or step.target.folder}-{variant.in_kernels}"
    title = f"{_shown(cxx)}, {', '.join(variant.sanitizers) or 'with lines'}"
    choice = step.choice._replace(title=title, variables=tuple(values.items()))
    return Step(step.target, choice, artifact, preload)


def need_compiler(variant: Variant, env: tools.Environment, chosen: str = "") -> Compiler:
    """The usual compiler, or another one that can build the variant; otherwise raises with what to install."""
    if not variant.sanitizers:
        return Compiler(chosen, (), ())
    others = [] if env.x86_cxx else [path for name in _FAMILIES if (path := tools.program(name))]
    reasons = []
    for command in dict.fromkeys([chosen or env.x86_cxx, *others]):
        if not command or tools.missing_program(command):
            continue
        reason = _capable(command, variant)
        if isinstance(reason, Compiler):
            return reason
        reasons.append(f"{_shown(command)}: {reason}")
    apt = " ".join(["g++", *(SANITIZERS[name].package for name in variant.sanitizers)])
    raise ToolMissing(
        f"no installed compiler can build a library with the sanitizers {', '.join(variant.sanitizers)}",
        details=reasons,
        hint=f"apt-get install {apt}" + (", and unset X86_CXX or set it to g++" if env.x86_cxx else ""),
    )


@cache
def _capable(command: str, variant: Variant) -> Compiler | str:
    """This compiler with its flags for a variant; the reason if it cannot build it."""
    argv = shlex.split(command)
    if "ziglang" in argv or Path(argv[0]).name == "zig":
        return "zig has no sanitizer runtimes for libraries of other programs"
    macros = process.run([*argv, "-dM", "-E", "-x", "c++", "/dev/null"], timeout=60).stdout
    clang = "__clang__" in macros
    flags = tuple(flag for name in variant.sanitizers for flag in SANITIZERS[name].flags)
    runtimes = []
    for name in variant.sanitizers:
        row = SANITIZERS[name]
        if clang and name == "undefined" and len(variant.sanitizers) > 1:
            continue  # the runtimes of the others include it
        file = row.clang if clang else row.gcc
        printed = process.run([*argv, f"-print-file-name={file}"], timeout=60).stdout.strip()
        if not Path(printed).is_absolute() or not Path(printed).is_file():
            return f"{file}, the runtime of `{name}`, is missing"
        runtimes.append(Path(printed).resolve())
    started = process.run([sys.executable, "-c", ""], env=tools.preloading(runtimes), timeout=60)
    if started.returncode != 0:  # for example `thread` with clang 14
        return f"the runtime of `{','.join(variant.sanitizers)}` does not start in Python ({runtimes[-1]})"
    return Compiler(command, (*flags, *(("-shared-libsan",) if clang else ())), tuple(runtimes))


def _shown(command: str) -> str:
    zig = tools.zig()
    return command.replace(shlex.join(zig), "zig") if zig else command
