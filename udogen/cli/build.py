"""`udogen build`: package folder -> libraries."""

from __future__ import annotations

import shlex
import textwrap
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from udogen.backends.targets import ALL, GROUPS, UDO, expand
from udogen.build import elf, make, sdks, tools, variants
from udogen.build.make import Artifact, Step
from udogen.build.package import PackageLibrary, open_packages
from udogen.build.tools import Environment
from udogen.build.vectors import NO_QEMU, not_executed
from udogen.cli import output
from udogen.cli.lazy import NameChoice, completed, known_targets
from udogen.cli.options import JOBS, argument, json_option, option, verb
from udogen.configs.load import load
from udogen.errors import ToolMissing, UdogenError, UsageError
from udogen.findings import Finding, suggestion
from udogen.generate.kernel_files import in_kernel_sources, kernels_not_used


def _lines(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(names), 60, break_on_hyphens=False).replace("\n", "\n         ")


_HELP = f"""Example: udogen build -C out

Build targets of a package (default: those that run on this machine).

DIR may contain several packages; those that have the target are built.

\b
Targets: {_lines(ALL)}
Groups:  {_lines(GROUPS["qnn"])}

\b
In the layout snpe (a core's target also builds its registration library):
Targets: {_lines(UDO)}
Groups:  {_lines(name for name in GROUPS["snpe"] if name not in UDO)}
"""


@dataclass(frozen=True)
class BuildOptions:
    """The options of the command line."""

    names: tuple[str, ...] = argument(metavar="[TARGET...]", shell_complete=completed(known_targets))
    folder: Path = option("-C", default=Path(), metavar="DIR", help="The package folder (default: the current folder).")
    toolchain: str = option(
        "--toolchain", type=NameChoice(["auto", "sdk", "open"]), default="auto",
        help="sdk: the vendor's; open: zig, clang or g++ with udogen's own headers; "
        "auto: the SDK if it fits, else open.",
    )  # fmt: skip
    launcher: str | None = option(
        "--launcher", metavar="CMD",
        help="A program in front of each compiler: ccache, sccache, distcc (default: UDOGEN_LAUNCHER).",
    )  # fmt: skip
    jobs: int | None = option("-j", type=JOBS, metavar="N", help="Parallel compilers (default: one per core).")
    sanitize: tuple[str, ...] = option(
        "--sanitize", metavar="NAME[,NAME]",
        help="Build with sanitizers, in a folder below the normal library: address, undefined, thread; may repeat.",
    )  # fmt: skip
    lines: bool = option("--lines", help="Build with line numbers (-g), in a folder below the normal library.")
    prove: bool = option(
        "--prove",
        help="Build libraries that append the execution counts of their ops to the file UDOGEN_PROVE.",
    )  # fmt: skip
    as_json: bool = json_option()


@verb("build", BuildOptions, help=_HELP)
def command(options: BuildOptions) -> None:
    """Build targets of a package."""
    env = tools.environment(launcher=options.launcher)
    planned, left = _planned(options, env)
    warnings = [*_unused_kernels(package for package, _ in planned), *left]
    for line in left:
        output.warn(line)
    begun = time.perf_counter()
    built = [artifact for package, steps in planned for artifact in _build(package, steps, options.jobs or 0)]
    took = time.perf_counter() - begun
    unloadable = {id(library): found for library in built if (found := _unloadable(library, env))}
    for library in built:
        for finding in unloadable.get(id(library), ()):
            warnings.append(
                f"{library.step.artifact.name}: {finding.message} {finding.evidence.strip()} ({finding.hint})"
            )
            output.warn(warnings[-1])
    _print_built(built, took, warnings, as_json=options.as_json)
    _print_releases([library for library in built if id(library) not in unloadable], env.qnn_sdk_root)
    if not options.as_json:
        _print_next(built, options.folder)


def _build(package: PackageLibrary, steps: Sequence[Step], jobs: int) -> list[Artifact]:
    """Build targets of one package, with notes and progress."""
    for step in steps:
        output.print_note(f"{package.name}: {step.target.id}: {step.choice.toolchain} toolchain: {step.choice.title}")
    with output.progress(package.name, total=len(steps) * (len(package.sources) + 1)) as advance:
        try:
            return make.build(package, steps, jobs=jobs, on_step=advance, say=output.print_note)
        except UdogenError as fault:
            raise in_kernel_sources(fault, package) from fault


def _print_next(built: Sequence[Artifact], folder: Path) -> None:
    """Print the next step: how to run an op of what was built, or what to build for this machine."""
    if not built:
        have = dict.fromkeys(package.backend for package in open_packages(folder) if not package.kind.registration)
        here = shlex.quote(str(folder))
        output.print_next(f"`udogen build {' '.join(have)} -C {here}`, as no target here runs on this machine")
    for library in built:
        if library.step.target.id.endswith("_x86") and library.package.ops:
            print_run(library.package)
            return


def print_run(package: PackageLibrary) -> None:
    """Print how to run an op of a built package: with its project's make, or with inputs that fit its config."""
    from udogen.generate.op_tests import run_arguments

    run = output.make_command("run", package.path.resolve().parents[:2])
    ops = [op for config in load(package.configs)[0] for op in config.ops if op.name == package.ops[0]]
    if not run and ops:
        run = shlex.join(["udogen", *run_arguments(ops[0], str(package.path)), "--backend", package.backend])
    output.print_next(f"`{run}` runs an op" if run else f"`udogen inspect {shlex.quote(str(package.path))}`")


def _planned(options: BuildOptions, env: Environment) -> tuple[list[tuple[PackageLibrary, Sequence[Step]]], list[str]]:
    """The steps for each package, and for each variant of it; and the packages that lack an SDK.

    A lack is an error if targets were named, or if nothing else can be built.
    """
    chosen = [*([variants.Variant()] if options.lines else []), *(variants.parse(text) for text in options.sanitize)]
    planned: list[tuple[PackageLibrary, Sequence[Step]]] = []
    left: dict[PackageLibrary, ToolMissing] = {}
    for package, targets in _targets(options.names, open_packages(options.folder), ndk=bool(env.android_ndk_root)):
        try:
            found = [
                variants.plan(package, targets, variant, toolchain=options.toolchain, env=env) for variant in chosen
            ]
            found = found or [make.plan(package, targets, toolchain=options.toolchain, env=env)]
        except ToolMissing as missing:
            if options.names:
                raise
            left[package] = missing
            continue
        planned += [(package, [step.proving() for step in steps] if options.prove else steps) for steps in found]
    if left and not any(steps for _, steps in planned):
        raise next(iter(left.values()))
    return planned, [f"{each.path.name} is not built: {why.message} ({why.hint})" for each, why in left.items()]


def _unused_kernels(packages: Iterable[PackageLibrary]) -> list[str]:
    """Warn about kernels in the user's folder that differ from those that are built."""
    unused = list(dict.fromkeys(line for package in packages for line in kernels_not_used(package)))
    for line in unused:
        output.warn(line)
    return unused


def _print_built(built: Sequence[Artifact], took: float, warnings: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        output.print_json(
            {
                "ok": True,
                "warnings": list(warnings),
                "seconds": round(took, 3),
                "artifacts": [
                    {
                        "package": library.package.name,
                        "provider": library.package.provider,
                        "target": library.step.target.id,
                        "library": str(library.step.artifact),
                        "toolchain": library.step.choice.toolchain,
                        "compiler": library.step.choice.title,
                        "compiled": list(library.compiled),
                        "vectors": [one.as_json() for one in library.vectors],
                    }
                    for library in built
                ],
            }
        )
        return
    for library in built:
        state = f"{len(library.compiled)} compiled" if library.compiled else "up to date"
        output.print_result(f"{library.step.artifact} ({state})")
    executions = [one for library in built for one in library.vectors]
    for line in not_executed(executions):
        output.warn(line)
    if any(one.why_not == NO_QEMU for one in executions):
        output.print_note("  apt-get install qemu-user, and build again: vector functions are then executed")


def _print_releases(built: Sequence[Artifact], root: str) -> None:
    """Print the SDK releases that accept the packages for HTP; those for other backends work with any release."""
    for api in dict.fromkeys(library.package.api for library in built if library.package.api):
        release = sdks.QNN.version(Path(root)) if root else ""
        old = f", and not with QNN_SDK_ROOT, which is SDK {release}" if sdks.has_no_qhpi(root) and api != "core" else ""
        output.print_note(f"  usable with SDK {sdks.usable_with(api, release if api == 'core' else '')}{old}")


def _unloadable(built: Artifact, env: Environment) -> list[Finding]:
    """Why a library for HTP on this PC does not load, if it imports what neither a system library nor QHPI has."""
    from udogen.inspect.inspection import InspectOptions, inspect

    if built.package.api != "qhpi" or not built.step.target.id.endswith("_x86") or built.step.preload:
        return []  # with a sanitizer, the library to preload has symbols, too
    imports = [symbol for symbol in elf.read(built.step.artifact).imports if not symbol.weak]
    if all(symbol.version or symbol.name.startswith("qhpi_") for symbol in imports):  # no need to start the runtime
        return []
    inspected = inspect(built.step.artifact, InspectOptions((), env), folder=built.package)
    return [finding for finding in inspected.findings if finding.kind == "registering"]


def _targets(
    names: tuple[str, ...], found: list[PackageLibrary], *, ndk: bool
) -> list[tuple[PackageLibrary, tuple[str, ...]]]:
    """The targets for each package; if there are several packages, each gets those that it has."""
    if len(found) == 1 or not names:
        return [(package, names) for package in found]
    shares = [(package, tuple(name for name in names if _has(package, name, found, ndk=ndk))) for package in found]
    if unknown := [name for name in names if not any(name in targets for _, targets in shares)]:
        have = dict.fromkeys(target for package in found for target in package.targets)
        raise UsageError(
            f"no package here has a target `{unknown[0]}`",
            hint=suggestion(unknown[0], have, "they have " + ", ".join(have)),
        )
    return [(package, targets) for package, targets in shares if targets]


def _has(package: PackageLibrary, name: str, found: list[PackageLibrary], *, ndk: bool) -> bool:
    """Whether a package, one of those in `found`, has this target."""
    if isinstance(expand((name,), package.targets, layout=package.layout, ndk=ndk), str):
        return False
    if not package.kind.registration or name.startswith(("reg", "all")):
        return True
    # A core's target also makes the registration library, if a package for that core exists.
    cores = [each for each in found if each.path == package.path and not each.kind.registration]
    return any(_has(core, name, found, ndk=ndk) for core in cores)
