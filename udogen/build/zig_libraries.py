"""zig's C and C++ libraries for a machine, which zig compiles at the first link and caches."""

from __future__ import annotations

import contextlib
import os.path
import tempfile
from dataclasses import dataclass
from pathlib import Path

from udogen import resources
from udogen.build import tools
from udogen.build.emulator import announce, compile_or_fail
from udogen.errors import ToolMissing

_ELF = b"\x7fELF"


@dataclass(frozen=True)
class ZigLibraries:
    """The libraries for one machine."""

    id: str
    title: str
    flags: tuple[str, ...]  # of `zig c++`, for a link that needs all of them
    machine: tuple[int, int]  # in their ELF headers: e_machine, e_flags
    archives: frozenset[str]
    seconds: int  # on two cores of 2.5 GHz: half of the CPU time (199 s, 77 s, 76 s with zig 0.17.1)

    @property
    def is_warm(self) -> bool:
        """They are in zig's cache: those that were found last time, or others, after a search of all of it."""
        cache = tools.zig_cache()
        found_before = resources.cache_dir("zig-libraries") / f"{self.id}-{resources.content_key(bytes(cache))}"
        try:
            known = found_before.read_text("utf-8").splitlines()
        except (OSError, ValueError):
            known = []
        if {Path(each).name for each in known} == self.archives and all(map(os.path.isfile, known)):
            return True
        found: dict[str, str] = {}
        for path in cache.glob("o/*/lib*.a"):
            if path.name in self.archives and path.name not in found and self._are_in(path):
                found[path.name] = str(path)
                if len(found) == len(self.archives):
                    with contextlib.suppress(OSError):  # if it cannot be written, each call searches
                        found_before.parent.mkdir(exist_ok=True)
                        found_before.write_text("\n".join(found.values()), "utf-8")
                    return True
        return False

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

    def announce(self) -> None:
        """Print a line if they are about to be compiled."""
        if not self.is_warm:
            announce(self.title, self.seconds)

    def make(self) -> None:
        """Compile them."""
        zig = tools.zig()
        if not zig:
            raise ToolMissing(f"zig is not installed; it compiles {self.title}", hint="pip install ziglang")
        with tempfile.TemporaryDirectory(prefix="udogen-") as scratch:
            folder = Path(scratch)
            (folder / "probe.cpp").write_text(
                "#include <string>\nstd::string text;\nint main() { return 0; }\n", "utf-8"
            )
            compile_or_fail([*zig, "c++", *self.flags, "probe.cpp", "-o", "probe"], folder, self.title)


def hexagon_flags(arch: str) -> tuple[str, ...]:
    """Flags of zig for one version of Hexagon, with HVX of 128 bytes."""
    return ("-target", "hexagon-linux-musl", f"-mcpu=hexagon{arch}+hvx{arch}+hvx_length128b")


# The version of the harness under QEMU and its libraries: it runs with kernels of all later versions.
BASE = "v68"

HEXAGON = ZigLibraries(
    "hexagon",
    "zig's C and C++ libraries for Hexagon v68",
    (*hexagon_flags(BASE), "-static"),
    (164, 0x68),
    frozenset(("libc.a", "libc++.a", "libc++abi.a", "libcompiler_rt.a", "libunwind.a")),
    100,
)
AARCH64 = ZigLibraries(
    "aarch64",
    "zig's C and C++ libraries for aarch64 Linux",
    ("-target", "aarch64-linux-gnu.2.31", "-shared", "-fPIC"),
    (183, 0),
    frozenset(("libc++.a", "libc++abi.a", "libcompiler_rt.a", "libunwind.a")),
    40,
)
X86_64 = ZigLibraries(
    "x86_64",
    "zig's C and C++ libraries for x86_64",
    ("-shared", "-fPIC"),
    (62, 0),
    frozenset(("libc++.a", "libc++abi.a", "libcompiler_rt.a", "libunwind.a")),
    40,
)
ALL = (HEXAGON, AARCH64, X86_64)
