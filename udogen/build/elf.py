"""A library as the dynamic loader sees it: machine, needed libraries, exported and undefined symbols.

pyelftools reads the headers; symbol tables are unpacked here, because a runtime has thousands of symbols.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from udogen.backends import architectures
from udogen.errors import RunFailed

Image = mmap.mmap

MACHINES = {
    "EM_X86_64": "x86_64",
    "EM_AARCH64": "aarch64",
    "EM_QDSP6": "hexagon",
    "EM_ARM": "arm",
    "EM_386": "x86",
}

# e_flags of Hexagon: versions that udogen builds for, and others of LLVM's ELF.h; the small cores (t) have no HVX.
_HEXAGON = {row.flags: row.name for row in architectures.ALL.values()} | {
    0x60: "v60", 0x61: "v61", 0x62: "v62", 0x67: "v67", 0x8067: "v67t", 0x71: "v71", 0x8071: "v71t", 0x77: "v77",
    0x83: "v83",
}  # fmt: skip

# Kinds of files that are not ELF, by their first bytes.
_MAGIC = (
    (b"!<arch>\n", "a static archive (.a)"),
    (b"PK\x03\x04", "a zip archive (a wheel, perhaps, or an .aar)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"MZ", "a Windows library"),
    (b"\xcf\xfa\xed\xfe", "a macOS library"),
    (b"#!", "a script"),
    (b"version https://git-lfs", "a Git LFS pointer: its content was never fetched"),
    (b"/* GNU ld script", "a linker script"),
)

_KINDS = {"ET_DYN": "shared library", "ET_EXEC": "executable", "ET_REL": "object file", "ET_CORE": "core dump"}
_SYMBOL_TYPES = {0: "none", 1: "object", 2: "function", 6: "tls", 10: "function"}
_WEAK = 2
_RELEASE_BEGINS, _RELEASE = b"v2.", re.compile(rb"v2\.\d{1,3}\.\d{1,3}\.\d{6,14}(?:_\d+)?")
_PIE = 0x08000000  # of DT_FLAGS_1


class NotElf(RunFailed):
    """The file cannot be loaded; `what` is the reason in one word."""

    def __init__(self, what: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.what = what


class Symbol(NamedTuple):
    """A dynamic symbol."""

    name: str
    kind: str  # function, object, tls, none
    weak: bool
    address: int
    size: int
    version: str = ""  # of an undefined one: GLIBC_2.14
    origin: str = ""  # the library that must provide it


@dataclass(frozen=True)
class Elf:
    """A library as the loader sees it."""

    path: Path
    kind: str
    machine: str
    bits: int
    arch: str  # of Hexagon: v73
    soname: str
    needed: tuple[str, ...]
    runpath: tuple[str, ...]
    exports: Mapping[str, Symbol]
    imports: tuple[Symbol, ...]
    executable_stack: bool

    @property
    def processor(self) -> str:
        """The machine with its version: `hexagon v73`."""
        return f"{self.machine} {self.arch}".strip()

    def versions(self, prefix: str) -> dict[str, str]:
        """The highest version that is needed of each library, among versions that begin with `prefix_`."""
        newest: dict[str, str] = {}
        for symbol in self.imports:
            if symbol.version.startswith(f"{prefix}_"):
                newest[symbol.origin] = max(newest.get(symbol.origin, ""), symbol.version, key=version_key)
        return newest


def version_key(text: str) -> tuple[int, ...]:
    """GLIBC_2.34, or v2.47.0.260601, as numbers for comparison."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def read(path: Path) -> Elf:
    """Read a library; raises `NotElf` if the file is not a library, or is damaged."""
    if not path.exists():
        raise NotElf("missing", f"no file {path}", hint="build it first, or give its path")
    if not path.is_file():
        raise NotElf("no-file", f"{path} is not a file", hint="give a library or a folder")
    try:
        with path.open("rb") as stream:
            head = stream.read(64)
            if head[:4] != b"\x7fELF":
                raise _not_elf(path, head)
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as image:
                return _ElfReader(path, image).read()
    except OSError as problem:
        raise NotElf("unreadable", f"{path} cannot be read: {problem.strerror}") from problem
    except NotElf:
        raise
    except Exception as problem:  # pyelftools and struct raise anything for damaged files
        raise NotElf(
            "damaged",
            f"{path} is damaged: its ELF headers do not match its content ({type(problem).__name__})",
            hint="build or copy it again",
        ) from problem


def text_of(elf: Elf, name: str) -> str:
    """The text of an exported `const char name[]`, or empty."""
    symbol = elf.exports.get(name)
    if symbol is None:
        return ""
    with elf.path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as image:
        start = _ElfReader(elf.path, image).offset(symbol.address)
        content = image[start : start + min(symbol.size or 256, 256)] if start is not None else b""
    text = content.split(b"\0")[0]
    return text.decode("ascii") if text.isascii() and text.decode("ascii").isprintable() else ""


def sdk_releases(path: Path) -> list[str]:
    """The QNN SDK releases (v2.47.0.260601114230) that occur as text in a file."""
    releases: set[str] = set()
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as image:
        at = image.find(_RELEASE_BEGINS)  # ten times faster than the expression without it, in files of 100 MB
        while at >= 0:
            if match := _RELEASE.match(image, at):
                releases.add(match[0].decode())
            at = image.find(_RELEASE_BEGINS, at + 1)
    return sorted(releases, key=version_key)


def _not_elf(path: Path, head: bytes) -> NotElf:
    if not head:
        return NotElf("empty", f"{path} is empty", hint="build or copy it again")
    known = next((words for magic, words in _MAGIC if head.startswith(magic)), "")
    if not known:
        plain = all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head)
        known = "a text file" if plain else "unknown data"
    return NotElf(
        "not-elf",
        f"{path} is not a shared library (ELF): it is {known}",
        hint="give the .so file of the build",
    )


def _refuse_truncated(path: Path, image: Image) -> None:
    """Raise for a truncated file, which pyelftools cannot open."""
    wide, order = image[4] == 2, ">" if image[5] == 2 else "<"
    programs, sections = struct.unpack_from(order + ("QQ" if wide else "II"), image, 32 if wide else 28)
    program_size, program_count, size, count = struct.unpack_from(order + "HHHH", image, 54 if wide else 42)
    ends = [programs + program_size * program_count, sections + size * count]
    for at in range(programs, min(ends[0], len(image) - program_size + 1), program_size or 1):
        # Of each program header: offset and length of its segment in the file.
        offset = struct.unpack_from(order + ("Q" if wide else "I"), image, at + (8 if wide else 4))[0]
        length = struct.unpack_from(order + ("Q" if wide else "I"), image, at + (32 if wide else 16))[0]
        ends.append(offset + length)
    if max(ends) > len(image):
        raise NotElf(
            "truncated",
            f"{path} is truncated: it has {len(image):,} bytes of at least {max(ends):,}",
            hint="build or copy it again",
        )


class _ElfReader:
    """One pass over one image."""

    def __init__(self, path: Path, image: Image) -> None:
        from elftools.elf.elffile import ELFFile

        _refuse_truncated(path, image)
        self._path, self._image = path, image
        self._file = ELFFile(cast("IO[bytes]", image))
        self._bits, self._order = int(self._file.elfclass), "<" if self._file.little_endian else ">"
        self._loads = [segment.header for segment in self._file.iter_segments(type="PT_LOAD")]

    def read(self) -> Elf:
        header = self._file.header
        machine = MACHINES.get(str(header["e_machine"]), str(header["e_machine"]).removeprefix("EM_").lower())
        flags = int(header["e_flags"])
        dynamic: Any = next(iter(self._file.iter_segments(type="PT_DYNAMIC")), None)
        tags: list[Any] = list(dynamic.iter_tags()) if dynamic else []
        exports, imports = self._symbols(dynamic, tags)
        stack = next(iter(self._file.iter_segments(type="PT_GNU_STACK")), None)
        return Elf(
            path=self._path,
            kind=self._kind(str(header["e_type"]), tags),
            machine=machine,
            bits=self._bits,
            arch=_HEXAGON.get(flags & 0xFFFF, f"flags {flags:#x}") if machine == "hexagon" else "",
            soname=next((tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"), ""),
            needed=tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
            runpath=tuple(
                part
                for tag in tags
                if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH")
                for part in str(getattr(tag, "rpath", getattr(tag, "runpath", ""))).split(":")
            ),
            exports=exports,
            imports=imports,
            executable_stack=stack is not None and bool(stack["p_flags"] & 1),
        )

    def offset(self, address: int) -> int | None:
        """The offset of an address in the file."""
        for load in self._loads:
            if load["p_vaddr"] <= address < load["p_vaddr"] + load["p_filesz"]:
                return int(load["p_offset"] + address - load["p_vaddr"])
        return None

    def _kind(self, elf_type: str, tags: list[Any]) -> str:
        # A position independent executable is an ET_DYN too; so is libc.so, which also names an interpreter.
        if any(tag.entry.d_tag == "DT_FLAGS_1" and tag.entry.d_val & _PIE for tag in tags):
            return "executable"
        return _KINDS.get(elf_type, elf_type)

    def _symbols(self, dynamic: Any, tags: list[Any]) -> tuple[dict[str, Symbol], tuple[Symbol, ...]]:
        where = {str(tag.entry.d_tag): int(tag.entry.d_val) for tag in tags}
        if "DT_SYMTAB" not in where or "DT_STRTAB" not in where:
            return {}, ()
        table, texts = self.offset(where["DT_SYMTAB"]), self.offset(where["DT_STRTAB"])
        if table is None or texts is None:
            raise ValueError("the symbol table is outside of the file")
        strings = self._image[texts : texts + where.get("DT_STRSZ", 0)]
        layout = struct.Struct(self._order + ("IBBHQQ" if self._bits == 64 else "IIIBBH"))
        count = int(dynamic.num_symbols())
        raw = self._image[table : table + count * layout.size]
        versions = dict(self._needed_versions(where, strings))
        stamps = self._stamps(where, count)
        exports: dict[str, Symbol] = {}
        imports: list[Symbol] = []
        for index, row in enumerate(layout.iter_unpack(raw[: len(raw) // layout.size * layout.size])):
            if self._bits == 64:
                name, info, other, section, address, size = row
            else:
                name, address, size, info, other, section = row
            text = _text(strings, name)
            if not text or info >> 4 == 0 or other & 3 in (1, 2):  # local, internal or hidden
                continue
            weak, kind = info >> 4 == _WEAK, _SYMBOL_TYPES.get(info & 15, "none")
            if section:
                exports[text] = Symbol(text, kind, weak, address, size)
            else:
                version, origin = versions.get(stamps[index] & 0x7FFF if index < len(stamps) else 0, ("", ""))
                imports.append(Symbol(text, kind, weak, 0, 0, version, origin))
        return exports, tuple(sorted(imports))

    def _stamps(self, where: Mapping[str, int], count: int) -> tuple[int, ...]:
        """The version index of each symbol."""
        start = self.offset(where.get("DT_VERSYM", 0)) if "DT_VERSYM" in where else None
        if start is None:
            return ()
        raw = self._image[start : start + 2 * count]
        return struct.unpack(f"{self._order}{len(raw) // 2}H", raw[: len(raw) // 2 * 2])

    def _needed_versions(self, where: Mapping[str, int], strings: bytes) -> Iterator[tuple[int, tuple[str, str]]]:
        """(index, (version, library)) of every needed version (Verneed and Vernaux of the ELF gABI)."""
        at = self.offset(where.get("DT_VERNEED", 0)) if "DT_VERNEED" in where else None
        for _ in range(where.get("DT_VERNEEDNUM", 0)):
            if at is None:
                return
            _, count, file, first, following = struct.unpack_from(self._order + "HHIII", self._image, at)
            below = at + first
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from(self._order + "IHHII", self._image, below)
                yield index, (_text(strings, name), _text(strings, file))
                below += step
            at = at + following if following else None


def _text(strings: bytes, start: int) -> str:
    return strings[start : strings.find(b"\0", start)].decode("utf-8", "replace") if start < len(strings) else ""
