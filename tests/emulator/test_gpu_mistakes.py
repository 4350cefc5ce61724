"""Errors of GPU kernels are reported with their cause: compilers, arguments, stray writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.making import make_well
from udogen import PackageLibrary
from udogen.runtime.built import Built

X = np.ones((2, 3, 4), np.float32)
CL, CPP = "src/ops/LeakyRelu.cl", "src/ops/LeakyRelu.cpp"


@pytest.fixture
def package(leaky: Built, tmp_path: Path) -> PackageLibrary:
    """Return a separate package that a test may break."""
    assert leaky.folder is not None
    shutil.copytree(leaky.folder.path, tmp_path / "package")
    np.save(tmp_path / "x.npy", X)
    return leaky.folder


def change(file: str, old: str, new: str) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return do


MISTAKES = {
    "a typing error": (
        change(CL, "x = LOAD4(", "x = LAOD4("),
        f"op `LeakyRelu` does not compile: {CL}:5:22: use of undeclared identifier 'LAOD4'",
    ),
    "a tensor that there is not": (
        change(CL, "INPUT(input)", "INPUT(inptu)"),
        f"op `LeakyRelu` does not compile: {CL}:2:32: unknown type name 'udo_input_inptu'",
    ),
    "a number of another type": (
        change(CL, "const float alpha", "const int alpha"),
        "argument 2 `alpha` is int in OpenCL; the op passes float",
    ),
    "a number where a buffer belongs": (
        change(CPP, "kernel.read(args.input)", "kernel.value(1)"),
        "argument 0 `input` is float* in OpenCL; the op passes a number",
    ),
    "one argument too few": (change(CPP, "kernel.value(args.alpha);", ""), "takes 4 arguments, the op passes 3"),
    "a kernel of another name": (change(CL, "LeakyRelu_kernel", "other"), "has no such kernel: CL_INVALID_KERNEL_NAME"),
    "no text": (lambda folder: (folder / CL).unlink(), f"{CL} does not exist, and source() gave no text"),
    "a write past the end": (
        change(CL, "STORE4(output, i,", "STORE4(output, i + 6,"),
        "a kernel wrote past the end of tensor `output` (96 bytes): at byte 96, 96 in all",
    ),
    "a write before the beginning": (
        change(CL, "STORE4(output, i,", "STORE4(output, (int)i - 1,"),
        "a kernel wrote before the beginning of tensor `output` (96 bytes): 16 bytes before it, 16 in all",
    ),
    "a copy of what lies behind the input": (
        change(CL, "STORE4(output, i,", "STORE(output, i + 24, LOAD(input, i + 24));\n    STORE4(output, i,"),
        "a kernel wrote past the end of tensor `output` (96 bytes): at byte 96, 24 in all",
    ),
    "a write into the input": (
        change(CL, "STORE4(output, i,", "if (i == 1) ((__global float*)input)[2] = 9.0f;\n    STORE4(output, i,"),
        "a kernel wrote into tensor `input`, which it must not: at byte 10 of 96, 2 in all",
    ),
    "an output that is not written": (
        change(CL, "STORE4(output, i,", "if (i > 99) STORE4(output, i,"),
        "returned no error and wrote nothing to its output `output`",
    ),
    "a local size that does not divide": (
        change(CPP, "  return udo::ok;", "  kernel.localSize(5);\n  return udo::ok;"),
        "kernel LeakyRelu_kernel: local size 5 does not divide global size 6",
    ),
    "no global size": (
        change(CPP, "kernel.globalSize((args.input.size() + 3) / 4);", ""),
        "kernel LeakyRelu_kernel has no global size",
    ),
    "no kernel": (
        change(CPP, 'return setKernelInfo(args, operation.kernel("LeakyRelu_kernel"));', "return udo::ok;"),
        "asks for no kernel",
    ),
    "an exception": (
        change(CPP, "kernel.globalSize(", "throw 1;\n  kernel.globalSize("),
        "threw a C++ exception; a kernel must return an error instead",
    ),
    "two texts of one name": (
        change(
            CPP,
            'return setKernelInfo(args, operation.kernel("LeakyRelu_kernel"));',
            'operation.kernel("k").source("__kernel void k(void) {}").globalSize(1);\n'
            '  return setKernelInfo(args, operation.kernel("LeakyRelu_kernel"));',
        ),
        "",  # udogen gives each source a separate name
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported(package: PackageLibrary, tmp_path: Path, mistake: str) -> None:
    spoil, expected = MISTAKES[mistake]
    folder = tmp_path / "package"
    spoil(folder)
    make_well(folder, "gpu_x86", strict=False)
    ran = udogen("run", "op", folder, "LeakyRelu", "--backend", "gpu", "--input", f"input={tmp_path / 'x.npy'}")
    assert ran.returncode == (5 if expected else 0), ran.stderr
    assert expected in ran.stderr and "Traceback" not in ran.stderr


def test_the_real_runtime_is_not_taken_where_it_cannot_run(leaky: Built, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    given = ("--input", f"input={tmp_path / 'x.npy'}")
    real = udogen("run", "op", leaky.library, "LeakyRelu", "--backend", "gpu", "--runtime", "real", *given)
    assert real.returncode == 3 and "libQnnGpu.so does not run on x86_64" in real.stderr
    mine = udogen("run", "op", leaky.library, "LeakyRelu", "--backend", "gpu", *given)
    assert "ran on GPU_UDOGEN_EMULATOR (udogen's emulator on " in mine.stdout
