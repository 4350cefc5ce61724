"""The source line and function of an address in a library, from its debug information (-g), with inlined calls.

Also the names of C++ functions as they are written in source."""

from __future__ import annotations

import ctypes
import os
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple


class SourceLine(NamedTuple):
    """A line of source; without -g, `line` is 0 and `file` is empty."""

    function: str
    file: str
    line: int


class LineTable:
    """The source lines of one library; a context manager."""

    def __init__(self, library: Path) -> None:
        from elftools.elf.elffile import ELFFile

        self._stream: IO[bytes] = library.open("rb")
        self._elf: Any = ELFFile(self._stream)
        self._dwarf: Any = (
            self._elf.get_dwarf_info() if self._elf.get_section_by_name(".debug_info") is not None else None
        )
        self._programs: dict[int, list[tuple[int, int, str, int]]] = {}
        self._known: dict[int, tuple[SourceLine, ...]] = {}
        self._symbols: tuple[list[int], list[tuple[int, str]]] | None = None

    def __enter__(self) -> LineTable:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    @property
    def has_lines(self) -> bool:
        """Whether it was built with -g."""
        return self._dwarf is not None

    def places(self, address: int) -> tuple[SourceLine, ...]:
        """The function at an address, and those that it is inlined into, innermost first; empty if unknown."""
        if address not in self._known:
            lines = tuple(self._of_unit(address)) if self._dwarf is not None else ()
            self._known[address] = lines or self._of_symbol(address)
        return self._known[address]

    # --- with -g ------------------------------------------------------------------------------------------------

    def _of_unit(self, address: int) -> list[SourceLine]:
        unit = next((unit for unit in self._dwarf.iter_CUs() if self._covers(unit.get_top_DIE(), address)), None)
        if unit is None:
            return []
        file, line = self._line(unit, address)
        lines = []
        for die in reversed(self._functions(unit.get_top_DIE(), address)):  # the innermost first
            lines.append(SourceLine(_name(die), file, line))
            if die.tag == "DW_TAG_inlined_subroutine":
                number = _value(die, "DW_AT_call_file")
                file, line = self._files(unit).get(number, ""), _value(die, "DW_AT_call_line")
        return lines

    def _functions(self, die: Any, address: int) -> list[Any]:
        """The functions around an address, outermost first."""
        for child in die.iter_children():
            if child.tag in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine", "DW_TAG_lexical_block"):
                if self._covers(child, address):
                    own = [] if child.tag == "DW_TAG_lexical_block" else [child]
                    return [*own, *self._functions(child, address)]
            elif child.tag == "DW_TAG_namespace" and (inside := self._functions(child, address)):
                return inside
        return []

    def _covers(self, die: Any, address: int) -> bool:
        low, high = die.attributes.get("DW_AT_low_pc"), die.attributes.get("DW_AT_high_pc")
        if low is not None and high is not None:
            end = high.value if high.form == "DW_FORM_addr" else low.value + high.value
            return bool(low.value <= address < end)
        ranges = die.attributes.get("DW_AT_ranges")
        if ranges is None:
            return False
        top = die.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
        base = top.value if top is not None else 0
        for entry in self._dwarf.range_lists().get_range_list_at_offset(ranges.value, cu=die.cu):
            if hasattr(entry, "base_address"):
                base = entry.base_address
                continue
            shift = 0 if getattr(entry, "is_absolute", False) else base
            if entry.begin_offset + shift <= address < entry.end_offset + shift:
                return True
        return False

    def _line(self, unit: Any, address: int) -> tuple[str, int]:
        if unit.cu_offset not in self._programs:
            self._programs[unit.cu_offset] = list(self._rows(unit))
        for begin, end, file, line in self._programs[unit.cu_offset]:
            if begin <= address < end:
                return file, line
        return "", 0

    def _rows(self, unit: Any) -> Iterator[tuple[int, int, str, int]]:
        program, files = self._dwarf.line_program_for_CU(unit), self._files(unit)
        before = None
        for entry in program.get_entries() if program is not None else ():
            state = entry.state
            if state is None:
                continue
            if before is not None and state.address > before.address:
                yield before.address, state.address, files.get(before.file, ""), before.line
            before = None if state.end_sequence else state

    def _files(self, unit: Any) -> dict[int, str]:
        program = self._dwarf.line_program_for_CU(unit)
        if program is None:
            return {}
        first = 0 if program.header.version >= 5 else 1
        folder = _text(unit.get_top_DIE(), "DW_AT_comp_dir")
        folders = [_decoded(each) for each in program.header.get("include_directory", [])]
        if first:
            folders = [folder, *folders]
        files = {}
        for number, row in enumerate(program.header.get("file_entry", []), first):
            place = folders[row.dir_index] if row.dir_index < len(folders) else ""
            files[number] = os.path.normpath(os.path.join(folder, place, _decoded(row.name)))
        return files

    # --- without ------------------------------------------------------------------------------------------------

    def _of_symbol(self, address: int) -> tuple[SourceLine, ...]:
        if self._symbols is None:
            table = self._elf.get_section_by_name(".symtab") or self._elf.get_section_by_name(".dynsym")
            rows = [(s["st_value"], s["st_size"], s.name) for s in table.iter_symbols()] if table is not None else []
            rows = sorted(row for row in rows if row[0] and row[1])
            self._symbols = [row[0] for row in rows], [(row[0] + row[1], row[2]) for row in rows]
        starts, rest = self._symbols
        index = bisect_right(starts, address) - 1
        if index < 0 or address >= rest[index][0]:
            return ()
        return (SourceLine(readable(rest[index][1]), "", 0),)


def readable(name: str) -> str:
    """A demangled name without its arguments; unchanged if this machine cannot demangle it."""
    written = demangled(name)
    return name if written == name else _without_arguments(written)


def _without_arguments(text: str) -> str:
    """`a::b` of `a::b(int, std::vector<int>)`, also with `(anonymous namespace)`."""
    kept = text.replace("(anonymous namespace)", "{anonymous}")
    return kept.partition("(")[0] or text


def _name(die: Any) -> str:
    """The full name of a function, without its arguments."""
    for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
        while link in die.attributes:
            die = die.get_DIE_from_attribute(link)
    parts = [_text(die, "DW_AT_name") or "?"]
    parent = die.get_parent()
    while parent is not None and parent.tag in _SCOPES:
        parts.append(_text(parent, "DW_AT_name") or "{anonymous}")
        parent = parent.get_parent()
    return "::".join(reversed(parts))


_SCOPES = {"DW_TAG_namespace", "DW_TAG_class_type", "DW_TAG_structure_type", "DW_TAG_union_type"}


def _value(die: Any, name: str) -> int:
    attribute = die.attributes.get(name)
    return int(attribute.value) if attribute is not None else 0


def _text(die: Any, name: str) -> str:
    attribute = die.attributes.get(name)
    return _decoded(attribute.value) if attribute is not None else ""


def _decoded(text: Any) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


# --- names of C++ ------------------------------------------------------------------------------------------


def demangled(name: str) -> str:
    """A demangled C++ name, by this machine's C++ library; the name itself if that fails."""
    library = _cxx_library() if name.startswith("_Z") else None
    if library is None:
        return name
    status = ctypes.c_int(-1)
    text = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value or not text:
        return name
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))


@cache
def _cxx_library() -> ctypes.CDLL | None:
    for name in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.__cxa_demangle.restype = ctypes.c_void_p
        return library
    return None
