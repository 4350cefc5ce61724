"""GPU packages: built for aarch64 by zig, for Android with a stand-in for ndk-build; the .cl files in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build.command_lines import GOLDEN, ndk_clang_gpu, recorded_commands
from tests.build.devices import EXAMPLE, Elf, build, compiled
from tests.making import compiler, make, make_packages
from udogen.build import tools
from udogen.build.package import open_packages

LIBRARY = "libLeakyReluPackage.so"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a GPU package in a folder with a blank and a quote in its name."""
    out = tmp_path / "it's here"
    [made] = make_packages([EXAMPLE / "LeakyRelu.xml"], out, chosen=["gpu"], kernels=EXAMPLE / "kernels")
    return made.folder


def test_the_command_line_for_android(tmp_path: Path) -> None:
    recorded = ndk_clang_gpu(tmp_path)
    assert recorded.done.returncode == 0, recorded.done.stderr
    assert recorded_commands(recorded.log, tmp_path) == (GOLDEN / "ndk-clang-gpu.txt").read_text()


def test_android_without_an_ndk_and_with_a_wrong_opencl(folder: Path, tmp_path: Path) -> None:
    done = build(folder, "gpu_android")
    assert done.returncode == 3 and "ANDROID_NDK_ROOT is not set" in done.stderr
    recorded = ndk_clang_gpu(tmp_path)
    wrong = build(folder, "gpu_android", ANDROID_NDK_ROOT=str(recorded.sdk), CL_LIBRARY_PATH=str(tmp_path))
    assert wrong.returncode == 3
    assert "CL_LIBRARY_PATH is" in wrong.stderr and "which has no libOpenCL.so" in wrong.stderr


def test_a_library_for_aarch64(folder: Path) -> None:
    if not tools.zig():
        pytest.skip("zig is not installed")
    done = build(folder, "gpu_aarch64")
    assert done.returncode == 0, done.stderr
    elf = Elf(folder / "libs/aarch64-linux-gnu" / LIBRARY)
    assert elf.machine == "EM_AARCH64"
    assert {"LeakyReluPackageInterfaceProvider", "QnnGpuOpPackage_getKernelBinary"} <= elf.exported
    assert not any(name.startswith("cl") and name[2:3].isupper() for name in elf.undefined)
    assert not any("OpenCL" in name for name in elf.needed)


@pytest.mark.parametrize("name", ["g++", "clang++"])
def test_the_text_of_the_kernel_is_in_the_library(folder: Path, name: str) -> None:
    kernel = folder / "src/ops/LeakyRelu.cl"
    # Bytes that break any string literal; clang's OpenCL accepts them in a comment.
    odd = '// )" R"( \\x41 \\ "quotes" %s ??/ äöü \x01\xff\n'.encode("latin-1")
    kernel.write_bytes(odd + kernel.read_bytes())
    done = make(folder, "gpu_x86", cxx=compiler(name))
    assert done.returncode == 0, done.stderr
    assert kernel.read_bytes() in (folder / "libs/x86_64-linux-clang" / LIBRARY).read_bytes()


def test_a_changed_kernel_makes_the_library_old(folder: Path) -> None:
    first = build(folder, "gpu_x86")
    assert first.returncode == 0 and "src/ops/LeakyRelu.cpp" in compiled(first)
    assert compiled(build(folder, "gpu_x86")) == []
    kernel = folder / "src/ops/LeakyRelu.cl"
    kernel.write_text(kernel.read_text() + "// more\n")
    os.utime(kernel, (978307200, 978307200))
    [package] = open_packages(folder)
    assert package.changed_since(folder / "libs/x86_64-linux-clang" / LIBRARY) == ["src/ops/LeakyRelu.cl"]
    assert compiled(build(folder, "gpu_x86")) == ["src/GpuCustomOpPackage.cpp"]
    kernel.unlink()
    assert compiled(build(folder, "gpu_x86")) == ["src/GpuCustomOpPackage.cpp"]


def test_targets_at_once(folder: Path) -> None:
    for _ in range(5):
        done = build(folder, "gpu_x86", "gpu_aarch64")
        assert done.returncode == 0, done.stderr
        assert {path.name for path in (folder / "obj/kernels").iterdir()} == {"LeakyRelu.cl.inc", "Prelude.cl.inc"}
        kernel = folder / "src/ops/LeakyRelu.cl"
        kernel.write_text(kernel.read_text() + "// more\n")
