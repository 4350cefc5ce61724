"""What QEMU's plug-in counted, as functions: addresses of the program, looked up in its symbols."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Any

from udogen.build.demangle import demangled
from udogen.errors import RunFailed
from udogen.runtime.op.calls import Packets

_BEGIN, _END = "udogen_count_begin", "udogen_count_end"
_OURS = {_BEGIN, _END, "udogen_call_kernel"}  # around the kernel, not of it


class Symbols:
    """The functions of a program."""

    def __init__(self, program: Path) -> None:
        from elftools.elf.elffile import ELFFile

        with program.open("rb") as stream:
            table: Any = ELFFile(stream).get_section_by_name(".symtab")
            found = [(s["st_value"], s.name) for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"]
        found.sort()
        self._starts = [start for start, _ in found]
        self._names = [name for _, name in found]

    def marks(self) -> tuple[int, int]:
        """Where counting begins and ends."""
        return self._starts[self._names.index(_BEGIN)], self._starts[self._names.index(_END)]

    def name(self, address: int) -> str:
        """The function that an address is in."""
        index = bisect_right(self._starts, address) - 1
        return self._names[index] if index >= 0 else "?"


def read(file: Path, symbols: Symbols) -> Packets:
    """The plug-in's file: a line for each block of code, and a last line that shows that it is whole."""
    lines = file.read_text().splitlines() if file.is_file() else []
    if not lines or lines.pop() != "end":
        raise RunFailed("QEMU's plug-in counted nothing", hint="does qemu-hexagon know -plugin? Debian's 7.2 does")
    counted: Counter[str] = Counter()
    for line in lines:
        address, packets = line.split()
        counted[symbols.name(int(address, 16))] += int(packets)
    functions = [(demangled(name), packets) for name, packets in counted.items() if name not in _OURS]
    functions.sort(key=lambda pair: (-pair[1], pair[0]))
    return Packets(sum(packets for _, packets in functions), tuple(functions))
