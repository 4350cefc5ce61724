"""Other builds of a package, beside the normal one: with line numbers, or with a sanitizer in them.

A variant lies in a folder of its own below that of the target, so that what was built before stays.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from udogen import process
from udogen.build import make, tools
from udogen.build.make import Step
from udogen.build.package import PackageLibrary
from udogen.errors import ToolMissing, UsageError


@dataclass(frozen=True)
class Sanitizer:
    """What a compiler can put into a library to see what goes wrong, and the runtime that this needs."""

    name: str
    flags: tuple[str, ...]
    gcc: str  # the runtime's file
    clang: str
    package: str  # what brings gcc's, on Debian
    excludes: tuple[str, ...] = ()


_ADDRESS = Sanitizer(
    "address", ("-fsanitize=address",), "libasan.so", "libclang_rt.asan-x86_64.so", "libasan8", excludes=("thread",)
)
_UNDEFINED = Sanitizer(
    "undefined",
    # vptr would need the C++ library of the compiler in the process first; the runtime brings its own.
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
    """What is different: sanitizers, or line numbers alone."""

    sanitizers: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Where it lies, below the folder of the target."""
        return "-".join(self.sanitizers) or "lines"

    @property
    def is_parallel(self) -> bool:
        """What it looks for shows only where several graphs run at the same time."""
        return _THREAD.name in self.sanitizers


class Compiler(NamedTuple):
    """A compiler with what makes it build a variant."""

    command: str
    flags: tuple[str, ...]
    preload: tuple[Path, ...]


@dataclass(frozen=True)
class VariantStep:
    """How one target is built as a variant, and what the process must load first that runs it."""

    variant: Variant
    step: Step
    preload: tuple[Path, ...] = ()


def parse(text: str) -> Variant:
    """The variant of `--sanitize address,undefined`."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in SANITIZERS:
            raise UsageError(f"there is no sanitizer `{name}`", hint="one or several of " + ", ".join(SANITIZERS))
    for name in names:
        for other in SANITIZERS[name].excludes:
            if other in names:
                raise UsageError(
                    f"no compiler can put `{name}` and `{other}` into one library",
                    hint=f"build them one after the other: --sanitize {name} --sanitize {other}",
                )
    return Variant(tuple(name for name in SANITIZERS if name in names))


def plan(
    package: PackageLibrary, names: Sequence[str], variant: Variant, *, toolchain: str, env: tools.Environment
) -> list[VariantStep]:
    """The steps for these targets, which must run on this machine; without names all that do."""
    steps = make.plan(package, names, toolchain=toolchain, env=env)
    for step in steps:
        if not step.target.native:
            raise UsageError(
                f"{step.target.id} does not run on this machine: a library of it is not built with sanitizers or lines",
                hint="leave the target out, for those that do",
            )
    return [_varied(package, step, variant, env) for step in steps]


def steps(
    package: PackageLibrary,
    names: Sequence[str],
    wanted: Sequence[Variant],
    *,
    toolchain: str,
    env: tools.Environment,
) -> list[list[Step]]:
    """For each variant its steps, as `make.build` takes them: nothing is built before all are known to be possible."""
    planned = [plan(package, names, variant, toolchain=toolchain, env=env) for variant in wanted]
    return [[each.step for each in one] for one in planned]


def _varied(package: PackageLibrary, step: Step, variant: Variant, env: tools.Environment) -> VariantStep:
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
        # The functions of a sanitizer are those of the process, in which its runtime is loaded first.
        **({"LINK_RULES": ""} if variant.sanitizers else {}),
    )
    title = f"{_shown(cxx)}, {', '.join(variant.sanitizers) or 'with lines'}"
    choice = step.choice._replace(title=title, variables=tuple(values.items()))
    return VariantStep(variant, Step(step.target, choice, artifact), preload)


def need_compiler(variant: Variant, env: tools.Environment, chosen: str = "") -> Compiler:
    """The compiler that would be taken, or another that can do it; an error with what to install where none can."""
    if not variant.sanitizers:
        return Compiler(chosen, (), ())
    others = [] if env.x86_cxx else [path for name in _FAMILIES if (path := tools.program(name))]
    reasons = []
    for command in dict.fromkeys([chosen or env.x86_cxx, *others]):
        if not command or tools.missing_program(command):
            continue
        found = _capable(command, variant)
        if isinstance(found, Compiler):
            return found
        reasons.append(f"{_shown(command)}: {found}")
    apt = " ".join(["g++", *(SANITIZERS[name].package for name in variant.sanitizers)])
    raise ToolMissing(
        f"no compiler here can build a library with the sanitizers {', '.join(variant.sanitizers)}",
        details=reasons,
        hint=f"apt-get install {apt}" + (", and unset X86_CXX or set it to g++" if env.x86_cxx else ""),
    )


@cache
def _capable(command: str, variant: Variant) -> Compiler | str:
    """This compiler with what it needs for a variant; a sentence where it cannot."""
    argv = shlex.split(command)
    if "ziglang" in argv or Path(argv[0]).name == "zig":
        return "zig brings no runtime of a sanitizer that a library could use in another program"
    macros = process.run([*argv, "-dM", "-E", "-x", "c++", "/dev/null"], timeout=60).stdout
    clang = "__clang__" in macros
    flags = tuple(flag for name in variant.sanitizers for flag in SANITIZERS[name].flags)
    runtimes = []
    for name in variant.sanitizers:
        row = SANITIZERS[name]
        if clang and name == "undefined" and len(variant.sanitizers) > 1:
            continue  # the runtimes of the others have it in them
        file = row.clang if clang else row.gcc
        printed = process.run([*argv, f"-print-file-name={file}"], timeout=60).stdout.strip()
        if not Path(printed).is_absolute() or not Path(printed).is_file():
            return f"there is no {file}, the runtime of `{name}`"
        runtimes.append(Path(printed).resolve())
    started = process.run([sys.executable, "-c", ""], env=tools.preloading(runtimes), timeout=60)
    if started.returncode != 0:  # that of thread in clang 14, for one
        return f"the runtime of `{','.join(variant.sanitizers)}` does not start in Python ({runtimes[-1]})"
    return Compiler(command, (*flags, *(("-shared-libsan",) if clang else ())), tuple(runtimes))


def _shown(command: str) -> str:
    zig = tools.zig()
    return command.replace(shlex.join(zig), "zig") if zig else command
