"""qemu-hexagon: its version, and which HVX floating point it executes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from udogen import process, resources
from udogen.build import tools
from udogen.build.emulator import compile_or_fail, make_once
from udogen.build.zig_libraries import BASE, hexagon_flags
from udogen.errors import ToolMissing
from udogen.kernels.request import IEEE, QFLOAT

_VERSION = re.compile(r"version (\d+)\.(\d+)(\.\d+)*")


@dataclass(frozen=True)
class Qemu:
    """The installed QEMU."""

    path: str
    version: str

    @property
    def plugin_api(self) -> int:
        """The version of its plug-in interface."""
        return 1 if int(self.version.split(".")[0]) < 9 else 2


def find_qemu() -> Qemu:
    """qemu-hexagon, with its version."""
    return _with_version(
        tools.need("qemu-hexagon", why="to run kernels on the Hexagon instruction set", how="apt-get install qemu-user")
    )


@cache
def _with_version(path: str) -> Qemu:
    printed = process.run([path, "--version"], timeout=30).stdout
    match = _VERSION.search(printed)
    if match is None:
        raise ToolMissing(f"{path} prints no version", details=printed.splitlines()[:3], hint="reinstall qemu-user")
    return Qemu(path, match[0].removeprefix("version "))


@cache
def floats_of(qemu: Qemu) -> tuple[str, ...]:
    """The kinds of HVX floating point that a QEMU executes: it has run a program with an instruction of each, once."""
    source, stat = resources.emulator("hexagon") / "floats.c", os.stat(qemu.path)
    argv = [*tools.zig(), "cc", *hexagon_flags(BASE), "-static", "-nostdlib", "-O2", str(source)]
    known = (argv, qemu.path, stat.st_size, stat.st_mtime_ns, metadata.version("ziglang"))
    key = resources.content_key(source.read_bytes(), repr(known).encode())
    folder = resources.cache_dir("hexagon") / f"floats-{key}"

    def make(into: Path) -> None:
        for kind in (QFLOAT, IEEE):
            compile_or_fail([*argv, f"-D{kind.upper()}", "-o", kind], into, f"the probe for HVX floats ({kind})")
            command = [qemu.path, "-cpu", tools.QEMU_CPU, kind]
            if process.run(command, cwd=into, timeout=30, starting=process.Tied).returncode != 0:
                (into / kind).unlink()

    make_once(folder, make)
    return tuple(sorted(program.name for program in folder.iterdir()))
