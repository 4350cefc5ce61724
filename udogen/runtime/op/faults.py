"""Accesses of a kernel to memory that is not its own, as reported by the worker (udogen/emulator/watch/faults.c)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from udogen.runtime.channel import Region
from udogen.tables import many

_FAULT, _FRAME, _REGION = "udogen-fault ", "udogen-frame ", "udogen-region "
_NEAR = 1 << 20  # bytes; an access farther away from a tensor is unrelated to it


PAST, BEFORE, INTO = PLACES = ("past the end of", "before the beginning of", "into")
LOOPS_END = "let the kernel's loops and vector stores end at the tensor's own size"
OUTPUTS_ALONE = "write to outputs alone; another op may read the same input"


class Frame(NamedTuple):
    """A place in a library, as an offset in the file's addresses."""

    library: str
    offset: int
    symbol: str = ""  # a dynamic symbol; empty if there is none


@dataclass(frozen=True)
class Stray:
    """An access of an op to memory that is not its own: outside a tensor, or a write to a read-only one."""

    how: str  # wrote, read, reached
    where: str  # one of PLACES
    role: str  # input, output, parameter; `memory` of the op that is not a tensor
    name: str
    size: int  # bytes
    offset: int  # of the first such byte, after the beginning of the data or before it
    count: int = 0  # bytes, if they can be counted

    def sentence(self, subject: str) -> str:
        """The access as a sentence."""
        name = f"its {self.name}" if self.role == "memory" else f"its {self.role} `{self.name}`"
        if self.where == INTO:
            text = f"{name}, which it must not: at byte {self.offset} of {self.size}"
        elif self.where == BEFORE:
            text = f"{name} ({self.size} bytes): {many(self.offset, 'byte')} before it"
        else:
            text = f"{name} ({self.size} bytes): at byte {self.offset}"
        return f"{subject} {self.how} {self.where} {text}" + (f", {self.count} in all" if self.count else "")

    @property
    def hint(self) -> str:
        """A hint for fixing the op."""
        return OUTPUTS_ALONE if self.where == INTO else LOOPS_END


class Copy(NamedTuple):
    """A runtime's copy of a tensor, between guard pages."""

    address: int
    size: int
    number: int  # of the tensor, if it is recognized by its content; otherwise -1


@dataclass(frozen=True)
class Fault:
    """One access that raised a signal."""

    how: str  # read, write, unknown
    address: int
    frames: tuple[Frame, ...]  # innermost first
    copies: tuple[Copy, ...] = ()

    def sentence(self, subject: str, regions: Sequence[Region]) -> str:
        """A sentence that names the nearest tensor; empty if none is near."""
        regions = [*(region for region in regions if region.address), *self._copied(regions)]
        verb = {"read": "read", "write": "wrote"}.get(self.how, "reached")
        near = min(regions, key=self._distance, default=None)
        if near is None or self._distance(near) >= _NEAR:
            return ""
        begin, size = near.address, near.size
        where = BEFORE if self.address < begin else INTO if self.address < begin + size else PAST
        return Stray(verb, where, near.role, near.name, size, abs(self.address - begin)).sentence(subject)

    def _copied(self, regions: Sequence[Region]) -> Iterator[Region]:
        """The copies as regions, named after the tensors of the same content or size."""
        fenced = [region for region in regions if region.number >= 0]
        for copy in self.copies:
            same = [region for region in fenced if region.size == copy.size]
            meant = [region for region in same if region.number == copy.number] or same
            name = "` or `".join(region.name for region in meant)
            yield Region(name, "input", copy.size, copy.address)

    def _distance(self, region: Region) -> int:
        begin, size = region.address, region.size
        if self.address < begin:
            return begin - self.address
        return max(0, self.address - (begin + size - 1))


def fault_of(lines: Sequence[str]) -> Fault | None:
    """The fault that a worker reported on its stderr, or None."""
    reports = [line for line in lines if line.startswith(_FAULT)]
    if not reports:
        return None
    try:
        _, _, how, address = reports[-1].split()
        frames = [line.removeprefix(_FRAME).partition(" ") for line in lines if line.startswith(_FRAME)]
        regions = [line.split()[1:] for line in lines if line.startswith(_REGION)]
        return Fault(
            how,
            int(address, 16),
            tuple(Frame(library, int(offset, 16)) for offset, _, library in frames),
            tuple(Copy(int(begin, 16), int(size), int(number)) for begin, size, number in regions),
        )
    except ValueError:  # cut off, or written by the op itself
        return None


def without_faults(lines: Sequence[str]) -> list[str]:
    """The lines without reports of faults."""
    return [line for line in lines if not line.startswith((_FAULT, _FRAME, _REGION))]
