"""C++ of every generated package, called directly: stored values, and compilers that look for a kernel too early."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.making import ROOT, make_packages

STORED = """
#include <cstdio>
#include <cstdlib>
#include "udogen.hpp"

int main(int argc, char** argv) {
  for (int i = 1; i + 4 < argc; i += 5) {
    const udo::Quantization quantization = {std::strtof(argv[i + 1], nullptr), std::atoi(argv[i + 2])};
    const float real = std::strtof(argv[i], nullptr);
    std::printf("%d\\n", quantization.toStored(real, std::atoi(argv[i + 3]), std::atoi(argv[i + 4])));
  }
}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = ROOT / "examples" / "leaky_relu" / "LeakyRelu.xml"
    [made] = make_packages([config], tmp_path_factory.mktemp("made"), chosen=["cpu"], layout="qnn")
    return made.folder


def compiled(folder: Path, text: str, include: str, sources: Sequence[str] = (), *flags: str) -> Path:
    """Build a program of this text and of files in this folder, with one compiler call each, so that ccache works."""
    (folder / "main.cpp").write_text(text)
    objects = []
    for number, source in enumerate(("main.cpp", *sources)):
        objects.append(f"{number}.o")
        argv = ["g++", "-std=c++17", "-O1", *flags, *(f"-I{each}" for each in include.split()), "-c", source]
        run([*argv, "-o", objects[-1]], folder)
    run(["g++", *flags, *objects, "-o", "program", "-lpthread"], folder)
    return folder / "program"


def run(argv: Sequence[str], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_stored_is_the_nearest_value_in_the_range(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path, dirs_exist_ok=True)
    program = compiled(tmp_path, STORED, "include include/QNN")
    rows = []
    for (low, high), scale, offset in itertools.product(
        [(0, 255), (-128, 127), (0, 65535), (-32768, 32767)], [1.0, 0.25], [0, -7]
    ):
        for stored in (low - 300, low - 1, low, low + 1, (low + high) // 2, high - 1, high, high + 1, high + 300):
            for shift in (-0.25, 0.0, 0.25):
                rows.append(((stored + shift + offset) * scale, scale, offset, low, high))
    rows += [(real, 1.0, 0, -(2**31), 2**31 - 1) for real in (-3e9, -(2.0**31), -5.0, 5.0, 2.0**31, 3e9)]
    rows += [(real, 1.0, 0, 0, 255) for real in (float("inf"), float("-inf"), float("nan"), 0.5, 1.5, 254.5)]
    done = subprocess.run([program, *(repr(number) for row in rows for number in row)], capture_output=True, text=True)
    found = [int(line) for line in done.stdout.split()]

    def expected(real: float, scale: float, offset: int, low: int, high: int) -> int:
        if np.isnan(real):
            return low
        return int(np.clip(np.rint(np.float64(real) / scale) - offset, low, high))

    wrong = [(row, got) for row, got in zip(rows, found, strict=True) if got != expected(*row)]
    assert wrong == []


@pytest.mark.parametrize("early", [False, True])
def test_a_compiler_that_looks_for_the_kernel_too_early_refuses_it(package: Path, early: bool, tmp_path: Path) -> None:
    """A precompiled header, which Clang can instantiate at once: before it reads the file of the kernel."""
    clang = shutil.which("clang++") or pytest.skip("clang++ is not installed")
    flags = [clang, "-std=c++17", *(f"-I{package / each}" for each in ("include", "include/QNN"))]
    header = [*flags, "-x", "c++-header", *(["-fpch-instantiate-templates"] if early else [])]
    compiled_first = tmp_path / "op.pch"
    done = subprocess.run(
        [*header, package / "include" / "ops" / "LeakyRelu.hpp", "-o", compiled_first], capture_output=True, text=True
    )
    if early:
        assert done.returncode and "must define `udo::Status execute" in done.stderr, done.stderr
        return
    kernel = package / "src" / "ops" / "LeakyRelu.cpp"
    subprocess.run([*flags, "-include-pch", compiled_first, "-fsyntax-only", kernel], check=True)
