"""GPU packages without .cl files, as a layout may want them: the skeleton has the text of the kernel in C++."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.making import ROOT, compiler, make
from udogen.generate.backends import gpu
from udogen.generate.plan import Source
from udogen.generate.render import render
from udogen.opdef import resolve
from udogen.opdef.load import load
from udogen.opdef.problems import Problems


def test_a_skeleton_with_its_text_in_cpp_compiles(tmp_path: Path) -> None:
    [package], _ = load([ROOT / "tests/configs/Gpu.xml"])
    plan = gpu.plan(resolve.for_backend(package, "gpu", Problems()), Source(configs={}))
    texts = {gpu.KERNEL_TEXT.format(op=name) for name in plan.ops}
    files = [file for file in plan.files if file.path not in texts]
    assert len(files) == len(plan.files) - len(texts)
    files = [replace(file, template=gpu.TEXT_IN_CPP) if file.yours else file for file in files]
    for path, content in render(replace(plan, files=tuple(files))).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    assert "__kernel void Rows_kernel(" in (tmp_path / "src/ops/Rows.cpp").read_text()
    done = make(tmp_path, "gpu_x86", cxx=compiler("g++"))
    assert done.returncode == 0 and not done.stderr, done.stderr
