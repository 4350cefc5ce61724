"""Programs for qemu-hexagon: an HTP or DSP package for Hexagon, linked with udogen's harness; QEMU's plug-in."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from udogen import backends, process, resources
from udogen.backends import architectures
from udogen.backends.backend import Harness, Target
from udogen.build import tools
from udogen.build.emulator import KeptBuild, kept_build
from udogen.build.make import Step, compile_python_kernels, explain, run_make, variables
from udogen.build.package import PackageLibrary, open_locked
from udogen.build.qemu import Qemu
from udogen.build.toolchains import Choice
from udogen.build.zig_libraries import BASE, HEXAGON, hexagon_flags
from udogen.errors import BuildFailed, ToolMissing, UdogenError, UsageError

# With -fPIC, thread_local would otherwise need a dynamic loader.
_FLAGS = "-ftls-model=local-exec"

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def harness_of(backend: str) -> Harness:
    """The harness of a backend for qemu-hexagon."""
    harness = backends.ALL[backend].harness if backend in backends.ALL else None
    if harness is None:
        have = ", ".join(each.id for each in backends.ALL.values() if each.harness)
        raise UsageError(f"kernels for {backend} do not run on qemu-hexagon", hint=f"choose one for {have}")
    return harness


def arch_of(package: PackageLibrary) -> str:
    """The version of Hexagon to run a package as: the usual one, or the newest that it is built for."""
    usual, known = harness_of(package.backend).arch, [row.arch for row in package.rows if row.arch]
    return usual if usual in known or not known else known[-1]


def compiler(arch: str, language: str = "c++") -> tuple[str, ...]:
    """The compiler for one version of Hexagon, with HVX of 128 bytes."""
    if arch not in architectures.ALL:
        raise UsageError(f"no Hexagon `{arch}`", hint="one of " + ", ".join(architectures.ALL))
    if not architectures.ALL[arch].open:
        raise UsageError(f"zig does not support Hexagon {arch}", hint="run it as code for an older version")
    zig = tools.zig()
    if not zig:
        raise ToolMissing("zig is not installed; it is needed to compile for Hexagon", hint="pip install ziglang")
    return (*zig, language, *hexagon_flags(arch))


def build_program(
    package: PackageLibrary,
    arch: str,
    *,
    op: str = "",
    jobs: int = 0,
    on_step: Callable[[str], None] = lambda _line: None,
) -> Path:
    """Build the program of a package, or of one `op` if the backend has a library per op; compiles only changes."""
    if package.api == "core":
        raise _not_qhpi(package)
    backend, known = backends.ALL[package.backend], tuple(architectures.of_backend(package.backend))
    host = harness_of(package.backend)
    if arch not in known:
        why = f"{package.backend.upper()} does not run on" if arch in architectures.ALL else "no"
        raise UsageError(f"{why} Hexagon `{arch}`", hint="one of " + ", ".join(known))
    cxx = compiler(arch)
    make = tools.need("make", why="to build a package", how="install it: apt-get install make")
    if not _IDENTIFIER.match(package.provider):
        raise UsageError(f"the manifest of {package.path} was edited", hint="generate the package again")
    harness = _harness(host, package.provider)
    folder = f"obj/emulated-{arch}" + (f"/{op}" if backend.library_per_op else "")
    program = package.path.resolve() / folder / "program"
    link = [*tools.zig(), "c++", *HEXAGON.flags, *(f"-Wl,--wrap={name}" for name in host.wrapped), *map(str, harness)]
    values = {
        "TARGET": f"emulated-{arch}",
        "CXX": shlex.join(cxx),
        "CXXFLAGS": f"{host.flags} {_FLAGS}".strip(),
        "LIBRARY": f"{folder}/program",
        **({"OP": op, "OBJ": folder} if backend.library_per_op else {}),
        "QNN_SDK_ROOT": "",
        "LAUNCHER": " ".join(tools.launcher(tools.environment())),
        "LINK": shlex.join(link),
    }
    cores = jobs or os.cpu_count() or 1
    HEXAGON.ready()
    *others, linker = variables(values.items())
    compile_python_kernels(package, [f"emulated-{arch}"], on_step, cores)
    program.parent.mkdir(parents=True, exist_ok=True)
    locked = open_locked(program.parent, shared=False)  # several sessions may build it
    try:
        done = run_make(
            make,
            package,
            *("-f", str(resources.emulator("hexagon") / "program.mk"), "udogen_program"),
            *others,
            f"{linker} $(EXTRA_LDFLAGS)",
            jobs=cores,
            on_step=on_step,
        )
    finally:
        os.close(locked)
    if done.returncode != 0 or not program.is_file():
        raise _explain(done.stdout + done.stderr, package, arch, program)
    return program


def _explain(text: str, package: PackageLibrary, arch: str, program: Path) -> UdogenError:
    if "undefined symbol: qhpi_init" in text:
        return _not_qhpi(package)
    target = Target(
        f"hexagon_{arch}", package.backend, (program.parent.name,), f"Hexagon {arch} under QEMU", "hexagon", ""
    )
    choice = Choice("open", f"zig for Hexagon {arch}, udogen's own headers", ())
    return explain(text, package, Step(target, choice, program))


def _not_qhpi(package: PackageLibrary) -> BuildFailed:
    return BuildFailed(
        f"{package.name} has no qhpi_init: only QHPI packages run on qemu-hexagon",
        hint="generate it with --htp-api qhpi, in another folder",
    )


def _harness(host: Harness, provider: str) -> list[Path]:
    """The objects of the harness, compiled once for each provider name."""
    folder, headers = resources.emulator("hexagon"), resources.qnn_headers()
    argv = [*compiler(BASE, "cc"), "-O2", "-std=gnu11", "-Wall", "-Wextra", f"-I{headers}"]
    argv += [f"-DUDOGEN_PROVIDER={provider}", "-c"]
    read = sorted([*folder.glob("*.h"), *headers.rglob("*.h")])
    # One by one: a call of zig writes only one object.
    commands = [[*argv, folder / f"{name}.c", "-o", f"{name}.o"] for name in host.sources]
    title = "the harness for qemu-hexagon"
    kept = kept_build("hexagon", "harness", title, commands, headers=read, seconds=4).ready()
    return [kept / f"{name}.o" for name in host.sources]


def plugin_build(qemu: Qemu) -> KeptBuild:
    """How the plug-in is built; raises if this QEMU does not support plug-ins."""
    if "-plugin" not in process.run([qemu.path, "-help"], timeout=30).stdout:
        raise ToolMissing(
            f"{qemu.path} {qemu.version} was built without plug-ins, and only a plug-in counts packets",
            hint="use the qemu-user of Debian (Ubuntu 24.04's has none), or leave --count out",
        )
    source = resources.emulator("hexagon") / "count.c"
    host = tools.host_compiler("cc", "--count needs one")
    argv = [*host, "-O2", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", f"-DAPI={qemu.plugin_api}"]
    return kept_build("hexagon", "count", "the plug-in of QEMU", [[*argv, source, "-o", "count.so"]], seconds=1)
