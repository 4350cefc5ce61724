"""GPU kernels without .cl files, as in layout `snpe`: the skeleton has the kernel source in C++."""

from __future__ import annotations

import re
from pathlib import Path

from tests.making import ROOT, make, make_packages
from tests.opdef.texts import Y, collection, op, tensor


def test_a_skeleton_with_its_text_in_cpp_compiles(tmp_path: Path) -> None:
    [made] = make_packages([ROOT / "tests/configs/Gpu.xml"], tmp_path, chosen=["gpu"], layout="snpe")
    assert not list(made.folder.rglob("jni/**/*.cl"))
    assert "__kernel void Rows_kernel(" in (made.folder / "jni/src/GPU/src/ops/Rows.cpp").read_text()
    done = make(made.folder, "gpu_x86")
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_no_argument_is_called_like_a_type_of_opencl(tmp_path: Path) -> None:
    vectors = [
        f"{sign}{kind}{length}"
        for sign, kinds in (("", ("char", "short", "int", "long", "float", "double", "half")), ("u", ("char", "int")))
        for kind in kinds
        for length in (2, 3, 4, 8, 16)
    ]
    (tmp_path / "Words.xml").write_text(
        collection(op("".join(tensor("Input", name) for name in vectors) + Y, backends="GPU"))
    )
    [made] = make_packages([tmp_path / "Words.xml"], tmp_path)
    text = (made.folder / "src/ops/Scale.cl").read_text()
    found = re.findall(r"INPUT\((\w+)\)", text.partition("__kernel")[2])
    assert found[: len(vectors)] == [f"{name}_" for name in vectors]
