"""Builds packages through their own Makefiles, and shortens the output of compilers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from udogen import process, resources
from udogen.backends import common
from udogen.backends.backend import Target
from udogen.backends.targets import expand
from udogen.build import toolchains, tools, vectors, zig_libraries
from udogen.build.package import MEMORY, UNFINISHED, PackageLibrary, Say, no_say, open_locked
from udogen.build.toolchains import Choice
from udogen.build.vectors import Execution
from udogen.errors import BuildFailed, LimitReached, UsageError, limit_in

_FAULT = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>fatal error|error): (?P<text>.*)$"
)
_LINKER = re.compile(r"undefined (?:reference to|symbol:) [`']?(?P<symbol>[^'\n]+)")
# An object that was not made (`[obj/ops/Softmax.o] Error 1`), or that refers to a symbol that the linker misses.
_BROKEN = re.compile(
    r"(?P<unmade>\w+)\.o\] Error"
    r"|(?P<linked>\w+)\.(?:cpp|o)\b[^\n]*undefined reference"
    r"|referenced by (?:\S*/)?(?P<referring>\w+)\.(?:cpp|o)\b"
)
_FULL = re.compile(r"No space left on device")
_SHOWN = 5
_PROVE = "obj/prove.cpp"


@dataclass(frozen=True)
class Step:
    """One target, and its compiler."""

    target: Target
    choice: Choice
    artifact: Path
    preload: tuple[Path, ...] = ()  # libraries to preload into a program that uses this one: sanitizer runtimes

    def proving(self) -> Step:
        """The same step for a library that writes the number of executions of its ops to a file."""
        choice = self.choice._replace(variables=(*self.choice.variables, ("UDO_PROVE", _PROVE)))
        return replace(self, choice=choice)


@dataclass(frozen=True)
class Artifact:
    """A library that was built."""

    package: PackageLibrary
    step: Step
    compiled: tuple[str, ...]  # the sources that were compiled; empty if all was up to date
    vectors: tuple[Execution, ...] = ()  # its vector functions of kernels in Python, for Hexagon


def plan(package: PackageLibrary, names: Sequence[str], *, toolchain: str, env: tools.Environment) -> list[Step]:
    """The steps for these targets; raises before anything is built if one is impossible."""
    ndk = bool(env.android_ndk_root)
    targets = expand(tuple(names), package.targets, layout=package.layout, ndk=ndk, versions=package.versions)
    if isinstance(targets, str):
        raise UsageError(f"{package.name} has no target `{targets}`", hint="its targets: " + ", ".join(package.targets))
    steps: dict[Path, Step] = {}
    for target in targets:
        compiler = toolchains.choose_for(target, env, toolchain, kind=package.kind, api=package.api)
        choice = with_launcher(compiler, env)
        artifact = package.artifact(choice.folder or target.folder, target.ending)
        # With the NDK, htp_aarch64 and htp_android are the same library.
        steps.setdefault(artifact, Step(target, choice, artifact))
    return list(steps.values())


def with_launcher(choice: Choice, env: tools.Environment) -> Choice:
    """The choice with the launcher of the environment in front of its compiler."""
    words = tools.launcher(env)
    title = choice.title
    if words:
        by_zig = any(name == "ZIG" or "c++" in value.split()[1:] for name, value in choice.variables)
        sent = not (by_zig and "distcc" in (Path(word).name for word in words))
        title += f", by {' '.join(words)}" if sent else ", locally: distcc cannot distribute zig"
    return choice._replace(title=title, variables=(*choice.variables, ("LAUNCHER", " ".join(words))))


def build(
    package: PackageLibrary,
    steps: Sequence[Step],
    *,
    jobs: int = 0,
    on_step: Callable[[str], None] = lambda _line: None,
    say: Say = no_say,
) -> list[Artifact]:
    """Build every step; raises with the compilers' errors, those in the user's files first.

    The package is locked against `generate` and other builds; waiting for one is reported.
    """
    with ExitStack() as locks:
        locks.callback(os.close, open_locked(package.path, shared=True, say=say))
        locks.callback(os.close, open_locked(package.path / MEMORY, shared=False, say=say))
        if (package.path / UNFINISHED).exists():
            raise UsageError(
                f"{package.path} is incomplete: a `udogen generate` was interrupted",
                hint="generate it again with the same options; your edits are kept",
            )
        for left in (package.path / "obj").glob("**/*.o.tmp"):  # of a compiler that was killed
            left.unlink(missing_ok=True)
        return _build_all(package, steps, jobs, on_step)


def _build_all(
    package: PackageLibrary, steps: Sequence[Step], jobs: int, on_step: Callable[[str], None]
) -> list[Artifact]:
    make = tools.need("make", why="to build a package", how="install it: apt-get install make")
    cores = jobs or os.cpu_count() or 1
    machines = [
        dict(step.choice.variables).get("KERNEL_OBJECTS") or step.choice.folder or step.target.folder for step in steps
    ]
    executions = compile_python_kernels(package, machines, on_step, cores)
    # One make for each target, so that compilers' output can be attributed to targets; they share the cores.
    workers = min(cores, len(steps)) or 1
    share = max(1, cores // workers)
    several = len(steps) > 1
    _prepare_zig(steps)

    def build_step(step: Step) -> Artifact:
        label = f"{step.target.id}: " if several else ""
        return _build(make, package, step, share, lambda line: on_step(label + line))

    built = process.at_once([partial(build_step, step) for step in steps], workers)
    return [
        replace(result, vectors=executions.get(machine, ())) for result, machine in zip(built, machines, strict=True)
    ]


def _prepare_zig(steps: Sequence[Step]) -> None:
    """Compile zig's own libraries that these steps link, once for all."""
    commands = [value for step in steps for name, value in step.choice.variables if name.endswith("_CXX")]
    if any("-target aarch64" in command for command in commands):
        zig_libraries.AARCH64.ready()
    if any("ziglang c++" in command and "-target" not in command for command in commands):
        zig_libraries.X86_64.ready()


def compile_python_kernels(
    package: PackageLibrary, machines: Sequence[str], on_step: Callable[[str], None], jobs: int
) -> Mapping[str, tuple[Execution, ...]]:
    """Compile the kernels in Python of a package, if any, for targets, given as folder names.

    Returns the vector functions for Hexagon, by folder name.
    """
    call = f'{common.KERNEL_FOLDER}/{common.KERNEL_INCLUDE}"'.encode()
    calling = [path for source in package.sources if (path := package.path / source).with_suffix(".py").is_file()]
    files = sorted(path.with_suffix(".py") for path in calling if call in path.read_bytes())
    if not files:
        return {}
    from udogen.kernels import objects  # few packages have such kernels

    twins = vectors.compares_floats(machines)
    kernels = objects.PythonKernels(
        package.name, package.path, package.backend, package.layout, package.configs, tuple(files), twins
    )
    try:
        objects.compile_kernels(kernels, machines, on_step, jobs)
        return vectors.check(files, machines, on_step)
    except (UsageError, BuildFailed) as fault:
        ops = (file.stem for file in files if str(file) in fault.message)
        raise BuildFailed(fault.message, hint=fault.hint, details=fault.details, ops=ops) from fault


def build_package(
    package: PackageLibrary, *, toolchain: str = "auto", on_step: Callable[[str], None] = lambda _line: None
) -> list[Artifact]:
    """Build the targets that run on this machine: `build_package(package, on_step=print)`."""
    steps = plan(package, [], toolchain=toolchain, env=tools.environment())
    return build(package, steps, on_step=on_step)


def _build(make: str, package: PackageLibrary, step: Step, jobs: int, on_step: Callable[[str], None]) -> Artifact:
    compiled: list[str] = []
    if ("UDO_PROVE", _PROVE) in step.choice.variables:
        _ship_prove(package.path / _PROVE)

    def seen(line: str) -> None:
        if line.startswith("CXX "):
            compiled.append(line[4:])
        on_step(line)

    done = run_make(
        make, package, package.goal(step.target), *variables(step.choice.variables), jobs=jobs, on_step=seen
    )
    if done.returncode != 0 or not step.artifact.is_file():
        raise explain(done.stdout + done.stderr, package, step)
    return Artifact(package, step, tuple(compiled))


def _ship_prove(path: Path) -> None:
    """Write the source of a library that writes its counts: packages do not have it."""
    content = (resources.templates() / "qnn/shared/prove.cpp").read_bytes()
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def run_make(
    make: str, package: PackageLibrary, *arguments: str, jobs: int, on_step: Callable[[str], None]
) -> process.Completed:
    """Run the package's Makefile; `on_step` gets a line for each call of a compiler or linker."""
    # -Oline: concurrent output is not mixed within lines.
    options = ["--no-print-directory", "-k", "-Oline", f"-j{jobs}"]
    return process.run(
        [make, "-C", str(package.path), "-f", package.makefile, *options, *arguments],
        # MAKEFLAGS of an outer make would pass on its jobserver and options.
        env={"MAKEFLAGS": "", "MFLAGS": "", "MAKELEVEL": "", "LC_ALL": "C", process.SPARED: "1"},
        on_line=lambda line: on_step(line) if line.startswith(("CXX ", "LINK ")) else None,
        starting=process.Tied,
    )


def variables(values: Iterable[tuple[str, str]]) -> list[str]:
    """Variables as arguments of make, with dollars escaped."""
    return [f"{name}={value.replace('$', '$$')}" for name, value in values]


def explain(text: str, package: PackageLibrary, step: Step) -> BuildFailed | LimitReached:
    """The errors of the compilers with their lines, those in the user's files first."""
    if limit := limit_in(text.splitlines()):
        return limit
    log = package.path / "obj" / f"{step.target.id}.log"
    try:
        log.parent.mkdir(exist_ok=True)
        log.write_text(text, "utf-8")
        hint = f"full output of the compiler: {log}"
    except OSError:
        hint = ""
    if package.api == "qhpi" and "'hnnx'" in text:
        hint = (
            "functions of hnnx are only in headers of the QNN SDK: add `EXTRA_CXXFLAGS += -idirafter "
            f"<QNN SDK>/include/QNN -frtti` to user.mk; {hint}"
        )
    full = next((line for line in text.splitlines() if _FULL.search(line)), "")
    if full:
        hint = "free disk space"
    broken = {match[match.lastgroup or 0] for match in _BROKEN.finditer(text)}
    return BuildFailed(
        f"{step.target.id} of {package.name} failed to build ({step.choice.title})",
        details=[full] if full else _details(text.splitlines(), package),
        hint=hint,
        ops=(op for op in package.ops if op in broken),
    )


def _details(lines: Sequence[str], package: PackageLibrary) -> list[str]:
    """The first distinct errors with source excerpts; for a linker, undefined symbols; otherwise the last lines."""
    faults = [(index, match) for index, line in enumerate(lines) if (match := _FAULT.match(line))]
    faults.sort(key=lambda fault: (fault[1]["file"] not in package.user_owned, fault[0]))
    details: list[str] = []
    shown: set[str] = set()
    for index, match in faults:
        if match[0] in shown or len(shown) == _SHOWN:
            continue
        shown.add(match[0])
        details.append(f"{package.path / match['file']}:{match['line']}: {match['text']}")
        excerpt = lines[index + 1 : index + 3]  # the source line, and the marker below it
        details += [f"    {line}" for line in excerpt if "^" in excerpt[-1]]
    if not details:
        symbols = sorted({match["symbol"] for line in lines if (match := _LINKER.search(line))})
        details = [f"undefined symbol: {symbol}" for symbol in symbols[:_SHOWN]]
        details += [] if details else [line for line in lines if line.strip()][-_SHOWN:]
    more = len({match[0] for _, match in faults}) - len(shown)
    return [*details, f"… and {more} more"] if more > 0 else details
