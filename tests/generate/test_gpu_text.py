"""GPU kernels without .cl files, as the layout `snpe` has them: the skeleton has the text of the kernel in C++."""

from __future__ import annotations

from pathlib import Path

from tests.making import ROOT, compiler, make, make_packages


def test_a_skeleton_with_its_text_in_cpp_compiles(tmp_path: Path) -> None:
    [made] = make_packages([ROOT / "tests/configs/Gpu.xml"], tmp_path, chosen=["gpu"], layout="snpe")
    assert not list(made.folder.rglob("jni/**/*.cl"))
    assert "__kernel void Rows_kernel(" in (made.folder / "jni/src/GPU/src/ops/Rows.cpp").read_text()
    done = make(made.folder, "gpu_x86", cxx=compiler("g++"))
    assert done.returncode == 0 and not done.stderr, done.stderr
