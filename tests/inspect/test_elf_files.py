"""Reading ELF files: the same results as pyelftools and the compiler, quickly, and without a crash for any file."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from toys import Look, Make, shown

from udogen.build import elf


def test_the_symbols_are_those_that_pyelftools_sees(make: Make, make_for: Make) -> None:
    for path in (make("-DQHPI", "-DNEEDS_MALLOC", "-lm"), make_for("hexagon v73", "-DQHPI", "-DNEEDS_HAP")):
        found = elf.read(path)
        with path.open("rb") as stream:
            dynamic = next(ELFFile(stream).iter_segments(type="PT_DYNAMIC"))
            rows = [row for row in dynamic.iter_symbols() if row.name]
        assert set(found.exports) == {row.name for row in rows if row["st_shndx"] != "SHN_UNDEF"}
        assert [row.name for row in found.imports] == sorted(row.name for row in rows if row["st_shndx"] == "SHN_UNDEF")
        weak = {row.name for row in rows if row["st_shndx"] == "SHN_UNDEF" and row["st_info"]["bind"] == "STB_WEAK"}
        assert {row.name for row in found.imports if row.weak} == weak


def test_versions_of_the_c_library(make: Make) -> None:
    found = elf.read(make("-DNEEDS_MALLOC"))
    [malloc] = [row for row in found.imports if row.name == "malloc"]
    assert (malloc.version, malloc.origin) == ("GLIBC_2.2.5", "libc.so.6")
    assert found.versions("GLIBC")["libc.so.6"].startswith("GLIBC_2.")
    assert elf.version_key("GLIBC_2.34") > elf.version_key("GLIBC_2.4")


@pytest.mark.parametrize("version", ["v65", "v66", "v68", "v69", "v73", "v75", "v79", "v81"])
def test_the_version_of_hexagon(make_for: Make, version: str) -> None:
    found = elf.read(make_for(f"hexagon {version}", "-DQHPI"))
    assert (found.machine, found.arch, found.bits) == ("hexagon", version, 32)
    assert found.processor == f"hexagon {version}"
    assert found.soname == "libToy.so"


def test_an_exported_text(make: Make, make_for: Make) -> None:
    for path in (make('-DBUILD_ID="v2.43.0.26"'), make_for("hexagon v75", '-DBUILD_ID="v2.43.0.26"')):
        assert elf.text_of(elf.read(path), "udogen_qnn_sdk_build_id") == "v2.43.0.26"
        assert elf.text_of(elf.read(path), "something_else") == ""


def test_a_whole_runtime_is_read_in_a_moment(htp: Path) -> None:
    started = time.process_time()
    found = elf.read(htp)
    took = time.process_time() - started
    assert len(found.exports) > 5000 and "qhpi_register_ops_v1" in found.exports
    assert took < 0.5  # 0.02 s; pyelftools alone needs 0.8
    [release] = elf.sdk_releases(htp)
    assert release.startswith("v2.")


BROKEN = {
    "empty": (b"", "is empty"),
    "text": (b"void f();\n", "it is a text file"),
    "script": (b"#!/bin/sh\n", "it is a script"),
    "archive": (b"!<arch>\n/      ", "it is a static archive"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "wheel": (b"PK\x03\x04" + bytes(60), "zip archive"),
    "data": (bytes(range(200)), "it is unknown data"),
    "head": (b"\x7fELF", "is damaged"),
    "zeros": (b"\x7fELF" + bytes(500), "is damaged"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_no_library(name: str, look: Look, tmp_path: Path) -> None:
    content, words = BROKEN[name]
    (tmp_path / "lib.so").write_bytes(content)
    found = look(tmp_path / "lib.so")
    assert found.verdict == "will not register"
    assert words in shown(found)


def test_a_context_binary_is_recognized(look: Look, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes(range(200)))
    assert "a context binary is not an op package" in shown(look(tmp_path / "model.bin"))


def test_a_file_that_is_cut_off_at_any_place(make: Make, look: Look, tmp_path: Path) -> None:
    whole = make("-DQHPI").read_bytes()
    cut = tmp_path / "lib.so"
    for length in [4, 5, 20, 52, 63, 64, 100, *range(120, len(whole), len(whole) // 40), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        found = look(cut)
        assert found.evidence is None, length
        assert "is truncated: it has" in shown(found) or length < 64


def test_flipped_bytes_never_end_in_a_traceback(make: Make, make_for: Make, look: Look, tmp_path: Path) -> None:
    dice = random.Random(3)
    for path in (make("-DQHPI"), make_for("hexagon v73", "-DQHPI")):
        whole = path.read_bytes()
        for _ in range(150):
            damaged = bytearray(whole)
            for _ in range(dice.randint(1, 8)):
                damaged[dice.randrange(4, dice.choice((64, 1000, len(whole))))] = dice.randrange(256)
            (tmp_path / "lib.so").write_bytes(damaged)
            try:
                elf.read(tmp_path / "lib.so")
            except elf.NotElf as fault:
                assert (fault.message and "damaged" in fault.message + fault.what) or fault.what == "truncated"
            assert look(tmp_path / "lib.so").verdict


def test_an_executable_an_object_and_a_32_bit_library(make: Make, make_for: Make, look: Look, tmp_path: Path) -> None:
    assert "it is an executable, not a shared library" in shown(look(Path("/bin/ls")))
    source = tmp_path / "x.c"
    source.write_text("int x(void) { return 1; }\n")
    subprocess.run(["gcc", "-c", str(source), "-o", str(tmp_path / "x.o")], check=True)
    assert "it is an object file, not a shared library" in shown(look(tmp_path / "x.o"))
    assert shown(look(make_for("x86", "-DQHPI"))).startswith("error: it is 32-bit")
