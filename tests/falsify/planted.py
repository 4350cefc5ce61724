"""Faults that are planted in copies of right projects: each must end red, with the right exit code and its place.

A row has the surfaces that it tests (`place htp`, `verb check`, `client ort`, `file model.toml` …), the kind
of fault, and how to plant it.  A surface without a row fails `test_planted_faults.py`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.making import ROOT, udogen
from udogen.backends import PLACES

KINDS = (
    "wrong operator",
    "wrong constant",
    "off by one at the end",
    "unwritten output",
    "wrong last op",
    "dropped node",
    "exit",
    "crash",
    "hang",
    "stale library",
    "wrong package",
    "missing part",
    "other processor",
    "nothing compared",
    "malformed file",
)


@dataclass(frozen=True)
class Planted:
    """A fault: `plant` changes a copy of a right project, and returns the command that must notice it."""

    surfaces: tuple[str, ...]
    kind: str
    project: Callable[[], Path]  # a right one, made once
    plant: Callable[[Path], Sequence[object]]
    code: int
    sentences: tuple[str, ...]  # patterns that the output must match, with the place

    @property
    def id(self) -> str:
        """The name of the row."""
        return f"{', '.join(self.surfaces)}: {self.kind}"


def changed(path: Path, old: str, new: str) -> None:
    """Replace a text that the file contains."""
    text = path.read_text("utf-8")
    assert old in text, f"{path.name} has no {old!r}"
    path.write_text(text.replace(old, new), "utf-8")


# --- kernels, in each place --------------------------------------------------------------------------------------

CL = """__kernel void Planted_kernel(INPUT(x), OUTPUT(y), const float factor) {
  const uint i = get_global_id(0);
  STORE(y, i, factor * LOAD(x, i));
}
"""
TESTS = """config = "Planted.xml"

[[op]]
name = "Planted"
reference = "reference.py:planted"

[[op.case]]
shape = ["129"]
dtype = "FLOAT_32"
"""


@cache
def in_cpp() -> Path:
    """A project with a kernel in C++ for CPU, HTP and DSP, and one in OpenCL."""
    folder = new("--backend", "cpu", "--backend", "htp", "--backend", "gpu", "--backend", "dsp")
    (folder / "kernels" / "gpu" / "Planted.cl").write_text(CL)
    gpu = folder / "kernels" / "gpu" / "Planted.cpp"
    text = gpu.read_text()
    gpu.write_text(re.sub(r"  // Write the kernel here.*?\n}", "  return udo::ok;\n}", text, flags=re.DOTALL))
    (folder / "op_tests.toml").write_text(TESTS)
    return right(folder)


@cache
def in_python() -> Path:
    """A project with a kernel in Python."""
    folder = new("--kernel", "python", "--backend", "cpu", "--backend", "htp")
    (folder / "op_tests.toml").write_text(TESTS.replace("reference.py:planted", "kernels/Planted.py:reference"))
    return right(folder)


@cache
def with_hvx() -> Path:
    """The example with a kernel in HVX intrinsics, for the Hexagon of HTP alone."""
    folder = copied("add_sat_u8")
    tests = folder / "op_tests.toml"
    changed(tests, 'shape = ["1", "129", "1x8x8x16", "1x17x31x5"]', 'shape = ["1x17x31x5"]')
    return right(folder)


@cache
def in_vendor_style() -> Path:
    """The example with kernels in the style of Qualcomm's generators."""
    folder = copied("vendor_style")
    tests = folder / "op_tests.toml"
    tests.write_text(tests.read_text().split("[[op]]\n")[1].join(["[[op]]\n", ""]).replace('"1x4", "3x4", ', ""))
    return right(folder)


def base() -> Path:
    """A folder for projects, removed with the other folders of this test run."""
    assert _base, "set by the fixture `projects`"
    return _base[0]


_base: list[Path] = []


def set_base(folder: Path) -> None:
    """Set the folder of the projects."""
    _base[:] = [folder]


def new(*options: str) -> Path:
    """A new project, Planted: y = factor * x."""
    where = base() / f"{len(list(base().iterdir()))}"
    where.mkdir()
    done = udogen("new", "planted", *options, cwd=where)
    assert done.returncode == 0, done.stderr
    return where / "planted"


def copied(example: str) -> Path:
    """A copy of an example."""
    where = base() / example
    shutil.copytree(ROOT / "examples" / example, where, ignore=shutil.ignore_patterns("__pycache__"))
    return where


def right(folder: Path) -> Path:
    """The folder of a project, which passes its own tests in every place that it is for."""
    report = report_of(folder)
    assert report["ok"] and report["counts"]["passed"], json.dumps(report, indent=1)[-4000:]
    return folder


def report_of(folder: Path, places: Iterable[str] = PLACES, *, seconds: int = 5) -> dict[str, Any]:
    """The report of `udogen test` in these places, with its exit code."""
    done = udogen("test", folder, "--backend", ",".join(places), "--timeout", seconds, "--json")
    report: dict[str, Any] = json.loads(done.stdout)
    return {**report, "code": done.returncode, "stderr": done.stderr}


Edit = tuple[str, str, str]  # the file, a text in it, and what replaces the text


@dataclass(frozen=True)
class Language:
    """A language of kernels: a project, its op, the places where its kernel runs, and how to make it wrong."""

    name: str
    project: Callable[[], Path]
    op: str
    places: tuple[str, ...]
    edits: dict[str, tuple[Edit, ...]]


def _edits(
    file: str, rows: dict[str, tuple[str, str]], head: tuple[str, str] | None = None
) -> dict[str, tuple[Edit, ...]]:
    """One change for each kind of fault; `head` is made for `exit`, which needs a header."""
    edits = {}
    for kind, (old, made) in rows.items():
        more = ((file, *head),) if head and kind == "exit" else ()
        edits[kind] = (*more, (file, old, made))
    return edits


_CPP = {
    "wrong operator": ("args.factor * args.x.real(i)", "args.factor + args.x.real(i)"),
    "wrong constant": ("args.factor *", "1.001f * args.factor *"),
    "off by one at the end": ("i < args.y.size()", "i + 1 < args.y.size()"),
    "unwritten output": ("args.y.setReal(i, args.factor * args.x.real(i));", "(void)i;"),
    "exit": ("  for (", "  std::exit(0);\n  for ("),
    "crash": ("  for (", "  __builtin_trap();\n  for ("),
    "hang": ("  for (", "  for (volatile int on = 1; on;) {\n  }\n  for ("),
}
_HEADER = ('#include "ops/Planted.hpp"', '#include "ops/Planted.hpp"\n\n#include <cstdlib>')
_CL = {
    "wrong operator": ("factor * LOAD(x, i)", "factor + LOAD(x, i)"),
    "wrong constant": ("factor * LOAD", "1.001f * factor * LOAD"),
    "off by one at the end": ("  STORE(", "  if (i + 1 < get_global_size(0)) STORE("),
    "unwritten output": ("  STORE(y, i, factor * LOAD(x, i));\n", ""),
    "hang": ("  STORE(", "  for (volatile int on = 1; on;) {\n  }\n  STORE("),
}
_PYTHON = {
    "wrong operator": ("factor * x[i]", "factor + x[i]"),
    "wrong constant": ("factor * x[i]", "1.001 * factor * x[i]"),
    "off by one at the end": ("x[i]", "x[hl.min(i, 127)]"),
    "unwritten output": ("    y[i] = factor * x[i]\n", ""),
    "exit": ('    i = hl.Var("i")', '    raise SystemExit(0)\n    i = hl.Var("i")'),
}
_HVX = {
    "wrong operator": ("Q6_Vub_vadd_VubVub_sat", "Q6_Vub_vsub_VubVub_sat"),
    "unwritten output": ("to[i] = Q6_Vub_vadd_VubVub_sat(from[i], and_[i])", "(void)to"),
    "crash": ("  const std::size_t vectors =", "  __builtin_trap();\n  const std::size_t vectors ="),
}
_VENDOR = {
    "wrong operator": ("in[i] * factors", "in[i] + factors"),
    "wrong constant": ("out[i] = std::min(", "out[i] = 1.001f * std::min("),
    "off by one at the end": ("i < numTensorSize(x); i++", "i + 1 < numTensorSize(x); i++"),
    "unwritten output": ("out[i] = std::min(in[i] * factors[i % channels], limit);", "(void)out;"),
    "exit": ("  const float* in =", "  exit(0);\n  const float* in ="),
    "crash": ("  const float* in =", "  __builtin_trap();\n  const float* in ="),
}
HTP_PLACES = ("htp", "hexagon", "htp-emulator", "htp-ort")
LANGUAGES = (
    Language(
        "C++",
        in_cpp,
        "Planted",
        ("cpu", *HTP_PLACES, "dsp", "cpu-emulator", "cpu-ort"),
        _edits("kernels/Planted.cpp", _CPP, _HEADER),
    ),
    Language("OpenCL", in_cpp, "Planted", ("gpu",), _edits("kernels/gpu/Planted.cl", _CL)),
    Language(
        "Python",
        in_python,
        "Planted",
        ("cpu", *HTP_PLACES, "cpu-emulator", "cpu-ort"),
        _edits("kernels/Planted.py", _PYTHON),
    ),
    Language("HVX", with_hvx, "AddSatU8", ("hexagon",), _edits("kernels/htp/AddSatU8.cpp", _HVX)),
    Language("vendor style", in_vendor_style, "ScaleClamp", ("cpu",), _edits("kernels/cpu/ScaleClamp.cpp", _VENDOR)),
)


# --- verbs, files, clients ----------------------------------------------------------------------------------------


@cache
def built() -> Path:
    """The project in C++ with its packages for CPU and HTP, generated and built."""
    folder = base() / "built" / "planted"
    shutil.copytree(in_cpp(), folder)
    for backend in ("cpu", "htp"):
        rebuild(folder, backend)
    return folder


PACKAGES = {backend: f"out/{backend}/PlantedOpPackage" for backend in ("cpu", "htp")}


def rebuild(folder: Path, backend: str) -> None:
    """Generate and build the package of a backend."""
    generate = f"generate Planted.xml --kernels kernels --backend {backend} -o out/{backend} --layout qnn"
    for command in (generate, f"build {backend}_x86 -C {PACKAGES[backend]}"):
        done = udogen(*command.split(), cwd=folder)
        assert done.returncode == 0, done.stderr


@cache
def model() -> Path:
    """Two context binaries, y = (x + 1) + 2, with `model.toml`, and the tensors of a right step in right.npz."""
    import numpy as np

    from udogen import GraphBuilder, Model

    folder = base() / "contexts"
    folder.mkdir()
    for number, (given, made) in enumerate([("x", "hidden"), ("hidden", "y")]):
        with GraphBuilder("htp", runtime="emulator") as builder:
            with builder.graph("forward", outputs=[made]) as graph:
                x = graph.input(given, "FLOAT_32", (1, 8))
                added = graph.weight("added", np.full((1, 8), number + 1, np.float32))
                graph.op("ElementWiseAdd", [x, added], made, like=x)
            builder.save(folder / f"forward_{number}.bin")
    (folder / "model.toml").write_text('contexts = ["."]\nsessions = 0\n\n[links]\n')
    np.save(folder / "x.npy", np.arange(8, dtype=np.float32).reshape(1, 8))
    with Model.open(folder / "model.toml") as opened:
        opened.step(x=np.load(folder / "x.npy"))
        np.savez(folder / "right.npz", **opened.tensors("forward"))
    return folder


@cache
def network() -> Path:
    """The built project with net.onnx: Relu, Planted, Relu."""
    import numpy as np

    from tests.onnx_models import node, save

    folder = base() / "network" / "planted"
    shutil.copytree(built(), folder)
    nodes = [
        node("Relu", "x", "positive"),
        node("Planted", "positive", "scaled", domain="custom", factor=2.0),
        node("Relu", "scaled", "y"),
    ]
    save(folder / "net.onnx", nodes, {"x": [1, 8]}, {"y": [1, 8]})
    np.save(folder / "x.npy", np.arange(-4, 4, dtype=np.float32).reshape(1, 8))
    return folder


def changed_array(path: Path, name: str) -> None:
    """Add one to the last number of an array of an .npz file."""
    import numpy as np

    arrays = dict(np.load(path))
    arrays[name] = arrays[name].copy()
    arrays[name].reshape(-1)[-1] += 1
    np.savez(path, **arrays)


def emptied(path: Path) -> None:
    """Remove all arrays of an .npz file."""
    import numpy as np

    np.savez(path)


def flipped(path: Path) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def rebuilt(folder: Path, old: str, made: str) -> None:
    """Change the kernel of the built project, and build it for CPU."""
    changed(folder / "kernels" / "Planted.cpp", old, made)
    rebuild(folder, "cpu")


Plant = Callable[[Path], Sequence[object]]


def row(surfaces: str, kind: str, project: Callable[[], Path], plant: Plant, code: int, *sentences: str) -> Planted:
    """A row of the table; surfaces are separated by commas."""
    return Planted(tuple(surfaces.split(", ")), kind, project, plant, code, sentences)


def after(change: object, *command: object) -> Sequence[object]:
    """The command; the change was made when its arguments were evaluated."""
    del change
    return command


RUN = ("--input", "x=x.npy", "--package", PACKAGES["cpu"], "--tests", "op_tests.toml")
