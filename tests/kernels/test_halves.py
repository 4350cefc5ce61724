"""Half floats on Hexagon: the C++ of kernels runs on this machine, with a model of the instructions of HVX."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from itertools import product
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
MEMORY = """#include <stdlib.h>
extern "C" void *halide_malloc(void *, size_t size) { return aligned_alloc(128, (size + 127) / 128 * 128); }
extern "C" void halide_free(void *, void *memory) { free(memory); }
extern "C" void halide_error(void *, const char *) { abort(); }
"""
HEADERS = [f"-I{resources.templates() / folder}" for folder in ("kernels", "qnn/shared/support")]
HEAD = """import halide as hl

from udogen.kernels import Rows, Whole
from udogen.kernels.math import exp, scratch, tanh, total

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
# Exponentials in memory, of rows along the last axis and along another one.
OPS = OPS | {
    name: (
        f"def {name}(x: Rows({axis}), y: Rows({axis})):\n    top, powers = x.max(), scratch()\n"
        "    powers[k] = exp(x[k] - top)\n    y[k] = powers[k] / x.sum(lambda k: powers[k])",
        lambda x, axis=axis: (
            np.exp(x - x.max(axis, keepdims=True)) / np.exp(x - x.max(axis, keepdims=True)).sum(axis, keepdims=True)
        ),
    )
    for name, axis in (("Kept", -1), ("KeptInColumns", -2))
}
# Sums of products, in tiles: a factor of columns, and the product in numpy.
SUMS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "Products": ("x[n, r.x]", lambda x: x @ x),
    "OfLines": ("x[r.x, n]", lambda x: x @ x.T),
    "Squares": ("x[n, r.x] * x[n, r.x]", lambda x: x @ (x * x)),
    "Scaled": ("0.5 * x[n, r.x]", lambda x: x @ x * np.float32(0.5)),
}
OPS = OPS | {
    name: (
        f"def {name}(x: Whole(2), y: Whole(2)):\n    n, m, r = hl.Var('n'), hl.Var('m'), hl.RDom([(0, x.extent(0))])\n"
        f"    y[n, m] = total(r, x[r.x, m] * {factor})",
        product,
    )
    for name, (factor, product) in SUMS.items()
}
# In Halide, and in numpy; X is an element as FLOAT_32, s is a number.
EXPRESSIONS = [
    ("hl.select(~(X > 2.0), X, -X)", "np.where(x > 2, -x, x)"),
    ("hl.select((X > -1.0) & ~(X >= 1.0), X * X, 1.0)", "np.where((x > -1) & ~(x >= 1), x * x, 1)"),
    ("hl.select(~((X > 0.0) | (S > 1.0)), 3.0, X)", "np.where(x > 0, x, 3)"),
    ("hl.select(~((X > 0.0) & (S < 1.0)), 3.0, X)", "np.where(x > 0, x, 3)"),
    ("hl.select((X > 0.0) == (X < 1.0), 2.0, X)", "np.where((x > 0) == (x < 1), 2, x)"),
    ("hl.f32(X > 2.0) * X", "(x > 2) * x"),
    ("hl.f32(hl.i32(X > 2.0) + 1) * X", "((x > 2) + 1) * x"),
    ("hl.f32(hl.i32(hl.clamp(X, -100.0, 100.0)) >> 2)", "(np.clip(x, -100, 100).astype(int) >> 2) * 1.0"),
    ("hl.f32(hl.u8(hl.clamp(X, 0.0, 255.0)) ^ 7)", "(np.clip(x, 0, 255).astype(int) ^ 7) * 1.0"),
    ("hl.f32(hl.i16(hl.clamp(X, -99.0, 99.0)) / 3)", "(np.clip(x, -99, 99).astype(int) // 3) * 1.0"),
    ("hl.f32(hl.i8(hl.clamp(X, -99.0, 99.0)) % 5)", "(np.clip(x, -99, 99).astype(int) % 5) * 1.0"),
    ("hl.f32(hl.abs(hl.i32(hl.clamp(X, -9.0, 9.0))))", "np.abs(np.clip(x, -9, 9).astype(int)) * 1.0"),
    ("hl.min(hl.max(X, -2.5), 2.5) + hl.abs(X)", "np.clip(x, -2.5, 2.5) + np.abs(x)"),
    ("hl.ceil(X) - hl.trunc(X) + hl.round(X)", "np.ceil(x) - np.trunc(x) + np.rint(x)"),
    ("tanh(X) + hl.sqrt(hl.abs(X) + 1.0)", "np.tanh(x) + np.sqrt(np.abs(x) + 1)"),
    ("1.0 / (1.0 + exp(-X))", "1 / (1 + np.exp(-x))"),
]


# Those that integer code calculates: with bytes, conditions as numbers, or functions that the C++ lacks.
REFUSED = [f"Elements{n}" for n in (2, 3, 4, 5, 6, 8, 10, 13)]


def _evaluated(text: str) -> Callable[[Any], Any]:
    return lambda x: eval(text, {"np": np, "x": x.astype(np.float64)}).astype(np.float32)


OPS = OPS | {
    f"Elements{n}": (
        f"def Elements{n}(x, y):\n    X, S = hl.f32(x[k]), hl.f32(x.size > 0) * 0.5\n    y[k] = {halide}",
        _evaluated(numpy),
    )
    for n, (halide, numpy) in enumerate(EXPRESSIONS)
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


def loaded(source: str, version: str, folder: Path) -> ctypes.CDLL:
    """A library of the C++ of a kernel, with the model of the instructions."""
    errors = dict.fromkeys(re.findall(r"\bhalide_error_\w+(?=\()", source.rpartition("HALIDE_FUNCTION_ATTRS")[2]))
    texts = {
        "kernel": source,
        "stubs": MEMORY + "".join(f'extern "C" int {name}() {{ return -1; }}\n' for name in errors),
    }
    for name, text in texts.items():
        (folder / f"{name}.cpp").write_text(text)
    argv = [*shlex.split(compiler("zig")), "-shared", "-fPIC", "-O1", "-w", *HEADERS, f"-D__HVX_ARCH__={version[1:]}"]
    argv += ["-include", str(MODEL), *(f"{name}.cpp" for name in texts), "-o", "library.so"]
    subprocess.run(argv, check=True, cwd=folder)
    return ctypes.CDLL(str(folder / "library.so"))


@pytest.mark.parametrize("lines", [(), ("In file included from kernel.cpp:1:",)])
def test_without_a_compiler(lines: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "\n".join([*lines, "error: it is broken"]) if lines else "it is broken"
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang/__init__.py").touch()
    (tmp_path / "ziglang/__main__.py").write_text(f"raise SystemExit({said!r})")
    monkeypatch.setattr(resources, "cache_dir", lambda name: tmp_path / name)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', ROOT)}")
    kernels, file = project("Elements", tmp_path)
    steps: list[str] = []
    compile_kernels(kernels, ["hexagon-v73"], steps.append, 1)
    assert [step for step in steps if "broken" in step] == [
        f"INTEGERS Halves_Elements_f16{end} on hexagon-v73, which has half floats: {said.splitlines()[-1]}"
        for end in ("", "_aligned")
    ]
    assert {path.suffix for path in file.with_suffix(".halide").joinpath("hexagon-v73").iterdir()} == {"", ".o"}


def place(halves: Any) -> Any:
    """The place of each number among all half floats; that of zero is 0."""
    size = (halves.view(np.uint16) & 0x7FFF).astype(int)
    return np.where(np.signbit(halves), -size, size)


@pytest.fixture(scope="module")
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """An op, a version of Hexagon, and the folder of what the op is compiled to."""
    op, version = request.param
    folder = tmp_path_factory.mktemp("halves")
    kernels, file = project(op, folder)
    report = compile_texts(kernels, file, f"hexagon-{version}", folder)
    assert not (report.converted or report.scalar)
    return op, version, folder


@pytest.mark.parametrize("op", REFUSED)
def test_what_the_cpp_lacks_is_calculated_in_integers(op: str, tmp_path: Path) -> None:
    kernels, file = project(op, tmp_path)
    report = compile_texts(kernels, file, "hexagon-v79", tmp_path)
    assert set(report.converted) == {f"Halves_{op}_f16{end}" for end in ("", "_aligned")}
    assert not list(tmp_path.rglob("ieee"))


BOTH = [(op, version) for op in ("Elements", "InRows") for version in VERSIONS]
PRODUCTS = {("Products", "v73"): 3, ("Products", "v79"): 2, ("OfLines", "v79"): 2}
COMPILED = [*BOTH, ("Products", "v73"), ("OfLines", "v73"), ("Scaled", "v73")]
COMPILED += [(op, "v79") for op in OPS if op not in REFUSED and (op, "v79") not in COMPILED]


@pytest.mark.parametrize("texts", BOTH, indirect=True, ids="-".join)
def test_each_version_has_its_own_instructions(texts: tuple[str, str, Path]) -> None:
    op, version, folder = texts
    code = (folder / f"Halves_{op}_f16.s").read_text()
    assert {name for name, (each, _) in VERSIONS.items() if re.search(each, code)} == {version}
    blocks = [block.partition(":endloop0") for block in re.split(r"^\.L\w+:", code, flags=re.MULTILINE)]
    stores = {block: len(re.findall(r"vmemu?\(.*\) = ", block)) for block, end, _ in blocks if end}
    main = max(stores, key=lambda block: stores[block])
    packets = main.count("{") / stores[main]
    print(f"\n{op} for {version}: {packets} packets for 64 half floats")
    assert op != "Elements" or packets <= VERSIONS[version][1]


@pytest.mark.parametrize("texts", PRODUCTS, indirect=True, ids="-".join)
def test_sums_of_products_are_in_registers(texts: tuple[str, str, Path]) -> None:
    op, version, folder = texts
    code = (folder / f"Halves_{op}_f16.s").read_text()
    blocks = [block.partition(":endloop0")[0] for block in re.split(r"^\.L\w+:", code, flags=re.MULTILINE)]
    main = max(blocks, key=lambda block: block.count("vmpy("))
    packets = main.count("{") / main.count("vmpy(")
    print(f"\n{op} for {version}: {packets} packets for 64 products")
    assert packets <= PRODUCTS[op, version]
    assert not re.search(r"vmemu?\(r29.*\) = ", main)


ROWS = dict.fromkeys(SUMS, (1, 5, 6, 64))  # of the output
# Version -> the most packets for 32 products of one row, with lines of 64 and 128 half floats.
OF_ONE_ROW = {"v68": (5.2, 4.0), "v79": (3.6, 2.3)}


@pytest.mark.parametrize("texts", [("OfLines", version) for version in OF_ONE_ROW], indirect=True, ids="-".join)
def test_lines_are_interleaved_by_instructions(texts: tuple[str, str, Path]) -> None:
    """Packets of the blocks that multiply lines of one row, add lanes, and transpose lines for many rows."""
    op, version, folder = texts
    code = (folder / f"Halves_{op}_f16.s").read_text()
    found = {}  # products, instructions that interleave, whether it is a loop -> packets
    for block in re.split(r"^(?:\.L\w+:|// %bb)", code, flags=re.MULTILINE):
        body, end, _ = block.partition(":endloop0")
        found[body.count("vmpy("), len(re.findall(r"vshuff\(v\d+,", body)), bool(end)] = body.count("{\n")
    once = 4 * (found[8, 0, False] + found[0, 12, False]) + found[0, 4, False]
    lines = once, once + 4 * found[8, 0, True]
    packets = lines[0] / 64, lines[1] / 128
    transposed = (found[0, 12, True] / 8 + found[0, 24, True] / 16) / 2
    print(f"\n{op} for {version}: one row {packets[0]:.1f} and {packets[1]:.1f} packets for 32 products,", end=" ")
    print(f"transposed {transposed:.1f} for 32 half floats")
    assert all(a <= b for a, b in zip(packets, OF_ONE_ROW[version], strict=True)) and transposed <= 3.6


INTERLEAVED = """
template <class Element, int Many, int Part, size_t... At>
bool isRight(std::index_sequence<At...>) {
  constexpr size_t lanes = sizeof...(At);
  NativeVector<Element, lanes> from;
  for (size_t n = 0; n < lanes; ++n) from[n] = Element(n);
  const auto found = Ops<Element, lanes>::template shuffle<int(At % Many * Part + At / Many)...>(from);
  const auto expected = NativeVectorOps<Element, lanes>::template shuffle<int(At % Many * Part + At / Many)...>(from);
  return ((found[At] == expected[At]) && ...);
}
"""


@pytest.mark.parametrize("texts", [("OfLines", "v79")], indirect=True, ids="-".join)
def test_any_vectors_are_interleaved(texts: tuple[str, str, Path], tmp_path: Path) -> None:
    """Two to eight vectors with parts of registers, whole ones, and several."""
    op, version, folder = texts
    rows = product(("uint16_t", "float"), (2, 3, 4, 8), (1, 16, 32, 64, 96))
    calls = [f"isRight<{kind}, {many}, {part}>(std::make_index_sequence<{many * part}>())" for kind, many, part in rows]
    text = (folder / f"Halves_{op}_f16.cpp").read_text() + INTERLEAVED
    library = loaded(f'{text}extern "C" int areRight() {{ return {" && ".join(calls)}; }}\n', version, tmp_path)
    assert library.areRight()


@pytest.mark.parametrize("texts", COMPILED, indirect=True, ids="-".join)
def test_numbers_with_a_model_of_the_instructions(texts: tuple[str, str, Path], tmp_path: Path) -> None:
    """All half floats, and rows that are longer and shorter than vectors."""
    op, version, folder = texts
    strided = "_strided" * (op == "KeptInColumns")
    source = folder / f"Halves_{op}_f16{strided}.cpp"
    function = loaded(source.read_text(), version, tmp_path)[f"Halves_{op}_f16{strided}"]
    bits = np.arange(1 << 16, dtype=np.uint16)
    every = bits[(bits & 0x7FF8 != 0x7C00) | (bits & 7 == 0)].view(np.float16)  # all but seven kinds of NaN
    small = every[np.abs(every) < 200]
    usual = np.random.default_rng(0).normal(size=(7, 1000)).astype(np.float16)
    rows = [usual[:, :size].copy() for size in (5, 64, 127, 300, 1000)]
    columns = [np.moveaxis(row.reshape(1, 7, -1), 1, 2).copy() for row in rows] + [usual.reshape(2, 7, 500)]
    squares = [np.random.default_rng(1).normal(size=(size, size)).astype(np.float16) for size in (64, 70, 131)]
    given = {"Elements": [every], "InRows": rows, "Kept": rows, "KeptInColumns": columns}
    given |= dict.fromkeys(SUMS, squares)
    # Lines that are multiples of 64, longer, and shorter, for many rows and few.
    given["OfLines"] = squares + [np.resize(usual, (130, size)) for size in (40, 64, 128, 200)]
    for x, rows in [(x, rows) for x in given.get(op, [small, small[-100:].copy()]) for rows in ROWS.get(op, (None,))]:
        with np.errstate(all="ignore"):
            expected = OPS[op][1](x.astype(np.float32)).astype(np.float16)[:rows]
        y = np.empty_like(expected)
        assert function(None, ctypes.byref(buffer(x)), ctypes.byref(buffer(y))) == 0
        assert np.array_equal(np.isnan(y), np.isnan(expected))
        if op in SUMS:
            assert np.abs(y - expected).max() <= np.abs(expected).max() / 1024
            continue
        # Qfloat does not round to even what is halfway between two numbers.
        limit = 0 if version == "v79" and op == "Elements" else 1
        assert np.abs(place(y) - place(expected))[~np.isnan(y)].max() <= limit
