"""Half floats on Hexagon: the C++ of kernels runs on this machine, with a model of the instructions of HVX."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.random_kernels import config, definition
from tests.making import ROOT, compiler
from udogen import resources
from udogen.kernels.objects import PythonKernels, compile_kernels, compile_texts

pytest.importorskip("halide", reason="pip install '.[kernels]'")

MODEL = Path(__file__).with_name("hvx_floats.hpp")
HEADERS = [f"-I{resources.templates() / folder}" for folder in ("kernels", "qnn/shared/support")]
HEAD = """import halide as hl

from udogen.kernels import Rows

k = hl.Var("k")

"""
# Op -> its function, and the same in numpy.
OPS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "Elements": (
        "def Elements(x, y):\n    y[k] = hl.select(x[k] > 2.0, x[k] * 0.75, x[k])",
        lambda x: np.where(x > 2.0, x * np.float32(0.75), x),
    ),
    "InRows": (
        "def InRows(x: Rows, y: Rows):\n    whole = hl.cast(hl.Float(32), hl.cast(hl.Int(32), x[k]))\n"
        "    y[k] = hl.floor(x[k]) + whole * x.max() + x.mean()",
        lambda x: np.floor(x) + np.trunc(x) * x.max(-1, keepdims=True) + x.mean(-1, keepdims=True, dtype=np.float32),
    ),
}
# Version -> its instructions, and the packets for 64 elements at most.
VERSIONS = {
    "v73": (r"vmpy\(v\d+\.hf,|\.hf = v\d+:\d+\.qf32", 16),
    "v79": (r"\.sf = vcvt\(v\d+\.hf\)|\.hf = vcvt\(v\d+\.sf", 9),
}


def project(op: str, folder: Path) -> tuple[PythonKernels, Path]:
    """A package of one op, and its kernel."""
    file, xml = folder / f"{op}.py", folder / "Halves.xml"
    xml.write_text(config("Halves", [definition(op, {"x": "FLOAT_16"}, {"y": "FLOAT_16"})]))
    file.write_text(HEAD + OPS[op][0] + "\n")
    return PythonKernels("Halves", folder, "htp", "qnn", (xml,), (file,)), file


class Dimension(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int32) for name in ("min", "extent", "stride", "flags"))


class Buffer(ctypes.Structure):
    _fields_ = (
        *(("device", ctypes.c_uint64), ("interface", ctypes.c_void_p), ("host", ctypes.c_void_p)),
        *(("flags", ctypes.c_uint64), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)),
        *(("dimensions", ctypes.c_int32), ("dim", ctypes.POINTER(Dimension)), ("padding", ctypes.c_void_p)),
    )


def buffer(array: Any) -> Buffer:
    """An array as the functions of Halide take it."""
    rows = [Dimension(0, size, stride // 2, 0) for size, stride in zip(array.shape, array.strides, strict=True)]
    dims = (Dimension * len(rows))(*reversed(rows))
    return Buffer(0, None, array.ctypes.data, 0, 1, 16, 1, len(rows), dims, None)


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang/__init__.py").touch()
    (tmp_path / "ziglang/__main__.py").write_text("raise SystemExit('it is broken')")
    monkeypatch.setattr(resources, "cache_dir", lambda name: tmp_path / name)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', ROOT)}")
    kernels, file = project("Elements", tmp_path)
    steps: list[str] = []
    compile_kernels(kernels, ["hexagon-v73"], steps.append, 1)
    assert [step for step in steps if "broken" in step] == [
        f"INTEGERS Halves_Elements_f16{end} on hexagon-v73, which has half floats: it is broken"
        for end in ("", "_aligned")
    ]
    assert {path.suffix for path in file.with_suffix(".halide").joinpath("hexagon-v73").iterdir()} == {"", ".o"}


def place(halves: Any) -> Any:
    """The place of each number among all half floats; that of zero is 0."""
    size = (halves.view(np.uint16) & 0x7FFF).astype(int)
    return np.where(np.signbit(halves), -size, size)


@pytest.fixture(scope="module", params=OPS)
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Mapping[str, Path]]:
    """An op, and the folders of what it is compiled to for versions of Hexagon."""
    folder, op = tmp_path_factory.mktemp("halves"), request.param
    kernels, file = project(op, folder)
    made = {}
    for version in VERSIONS:
        made[version] = folder / version
        made[version].mkdir()
        report = compile_texts(kernels, file, f"hexagon-{version}", made[version])
        assert not report.converted and not report.scalar
    return op, made


def test_each_version_has_its_own_instructions(texts: tuple[str, Mapping[str, Path]]) -> None:
    op, made = texts
    for version, folder in made.items():
        code = (folder / f"Halves_{op}_f16.s").read_text()
        assert {name for name, (each, _) in VERSIONS.items() if re.search(each, code)} == {version}
        blocks = [block.partition(":endloop0") for block in re.split(r"^\.L\w+:", code, flags=re.MULTILINE)]
        stores = {block: len(re.findall(r"vmemu?\(.*\) = ", block)) for block, end, _ in blocks if end}
        main = max(stores, key=lambda block: stores[block])
        packets = main.count("{") / stores[main]
        print(f"\n{op} for {version}: {packets} packets for 64 half floats")
        assert op == "InRows" or packets <= VERSIONS[version][1]


@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_with_a_model_of_the_instructions(
    version: str, texts: tuple[str, Mapping[str, Path]], tmp_path: Path
) -> None:
    """All half floats, and rows that are longer and shorter than vectors."""
    op, made = texts
    source = made[version] / f"Halves_{op}_f16.cpp"
    text, library = source.read_text(), tmp_path / "library.so"
    errors = dict.fromkeys(re.findall(r"\bhalide_error_\w+(?=\()", text.rpartition("HALIDE_FUNCTION_ATTRS")[2]))
    stubs = "".join(f'extern "C" int {name}() {{ return -1; }}\n' for name in errors)
    (tmp_path / "stubs.cpp").write_text(stubs)
    argv = [*shlex.split(compiler("zig")), "-shared", "-fPIC", "-O1", "-w", *HEADERS, f"-D__HVX_ARCH__={version[1:]}"]
    argv += ["-include", str(MODEL), str(source), "-x", "c++", str(tmp_path / "stubs.cpp"), "-o", str(library)]
    subprocess.run(argv, check=True)
    function = ctypes.CDLL(str(library))[f"Halves_{op}_f16"]
    bits = np.arange(1 << 16, dtype=np.uint16)
    every = bits[(bits & 0x7FF8 != 0x7C00) | (bits & 7 == 0)].view(np.float16)  # all but seven kinds of NaN
    usual = np.random.default_rng(0).normal(size=(7, 1000)).astype(np.float16)
    for x in [every] if op == "Elements" else [usual[:, :size].copy() for size in (5, 64, 127, 300, 1000)]:
        y = np.empty_like(x)
        assert function(None, ctypes.byref(buffer(x)), ctypes.byref(buffer(y))) == 0
        with np.errstate(all="ignore"):
            expected = OPS[op][1](x.astype(np.float32)).astype(np.float16)
        assert np.array_equal(np.isnan(y), np.isnan(expected))
        # Qfloat does not round to even what is halfway between two numbers.
        limit = 0 if version == "v79" and op == "Elements" else 1
        assert np.abs(place(y) - place(expected))[~np.isnan(y)].max() <= limit
