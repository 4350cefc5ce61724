"""zig's C and C++ libraries for a machine, which zig compiles at the first link and caches."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from udogen import process, resources
from udogen.build import tools
from udogen.build.emulator import announce, compile_or_fail
from udogen.errors import ToolMissing

_ELF = b"\x7fELF"
_PROBES = (
    ("cc", "probe.c", "int main(void) { return 0; }\n"),
    ("c++", "probe.cpp", "#include <string>\nstd::string text;\nint main() { return 0; }\n"),
)


@dataclass(frozen=True)
class ZigLibraries:
    """The libraries for one machine."""

    id: str
    title: str
    flags: tuple[str, ...]  # of `zig c++`, for a link that needs all of them; without -O2 more would be needed
    machine: tuple[int, int]  # in their ELF headers: e_machine, e_flags
    archives: frozenset[str]
    seconds: int  # on two cores of 2.5 GHz: half of the CPU time (111 s, 40 s, 40 s with zig 0.17.1)

    @property
    def is_warm(self) -> bool:
        """True if they are in zig's cache, compiled by this zig: a copy of its files compiles them again."""
        try:
            known = self._record().read_text("utf-8").splitlines()
        except (OSError, ValueError):
            known = []
        return {Path(archive).name for archive in known} == self.archives and all(map(os.path.isfile, known))

    def _record(self) -> Path:
        """The file with the paths of the archives; zig's cache recognizes zig's sources by their inodes."""
        stat = tools.zig_file().stat()
        key = f"{tools.zig_cache()} {stat.st_dev} {stat.st_ino}"
        return resources.cache_dir("zig-libraries") / f"{self.id}-{resources.content_key(key.encode())}"

    def _are_in(self, archive: Path) -> bool:
        try:
            with archive.open("rb") as file:
                head = file.read(1 << 20)
        except OSError:
            return False
        start = head.find(_ELF)
        header = head[start : start + 52]
        flags = 36 if header[4:5] == b"\1" else 48
        return start >= 0 and self.machine == tuple(
            int.from_bytes(header[at : at + size], "little") for at, size in ((18, 2), (flags, 4))
        )

    def ready(self) -> None:
        """Compile them if they are not cached, and announce it."""
        if not self.is_warm:
            announce(self.title, self.seconds)
            self.make()

    def make(self) -> None:
        """Compile them."""
        zig = tools.zig()
        if not zig:
            raise ToolMissing(f"zig is not installed; it compiles {self.title}", hint="pip install ziglang")
        with tempfile.TemporaryDirectory(prefix="udogen-") as scratch:
            folder = Path(scratch)

            def link(language: str, name: str, text: str) -> None:
                (folder / name).write_text(text, "utf-8")
                compile_or_fail([*zig, language, *self.flags, name, "-o", f"{name}.out"], folder, self.title)

            # One zig process compiles one file at a time; two processes share what they have compiled.
            process.at_once([partial(link, *probe) for probe in _PROBES], os.cpu_count() or 1)
        newest: dict[str, Path] = {}
        for path in sorted(tools.zig_cache().glob("o/*/lib*.a"), key=lambda each: each.stat().st_mtime):
            if path.name in self.archives and self._are_in(path):
                newest[path.name] = path
        with contextlib.suppress(OSError):  # if it cannot be written, each call compiles a probe
            self._record().parent.mkdir(exist_ok=True)
            self._record().write_text("\n".join(map(str, newest.values())), "utf-8")


def hexagon_flags(arch: str) -> tuple[str, ...]:
    """Flags of zig for one version of Hexagon, with HVX of 128 bytes."""
    return ("-target", "hexagon-linux-musl", f"-mcpu=hexagon{arch}+hvx{arch}+hvx_length128b")


# The Hexagon version of the harness under QEMU and of its libraries: it runs with kernels of all later versions.
BASE = "v68"

HEXAGON = ZigLibraries(
    "hexagon",
    "zig's C and C++ libraries for Hexagon v68",
    (*hexagon_flags(BASE), "-static", "-O2"),
    (164, 0x68),
    frozenset(("libc.a", "libc++.a", "libc++abi.a", "libcompiler_rt.a", "libunwind.a")),
    60,
)
AARCH64 = ZigLibraries(
    "aarch64",
    "zig's C and C++ libraries for aarch64 Linux",
    ("-target", "aarch64-linux-gnu.2.31", "-shared", "-fPIC", "-O2"),
    (183, 0),
    frozenset(("libc++.a", "libc++abi.a", "libcompiler_rt.a", "libunwind.a")),
    20,
)
X86_64 = ZigLibraries(
    "x86_64",
    "zig's C and C++ libraries for x86_64",
    ("-shared", "-fPIC", "-O2"),
    (62, 0),
    frozenset(("libc++.a", "libc++abi.a", "libcompiler_rt.a", "libunwind.a")),
    20,
)
ALL = (HEXAGON, AARCH64, X86_64)
