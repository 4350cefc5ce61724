"""Integer attributes of ONNX nodes, which all arrive as INT_32, for parameters of every type of integers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime_qnn")

from tests import onnx_models
from tests.making import LONG, ROOT, make, make_packages, need_runtime
from tests.opdef.texts import collection, op, param, tensor
from udogen.runtime.built import find_built


class Kind(NamedTuple):
    """A type of parameters: values that it has, and one that it has not (None: each of 32 bits fits)."""

    dtype: str
    values: tuple[int, ...]
    wrong: int | None


KINDS = (
    Kind("INT_8", (-128, 127), 128),
    Kind("UINT_8", (0, 255), 256),
    Kind("INT_16", (-32768, 32767), -32769),
    Kind("UINT_16", (0, 65535), 65536),
    Kind("INT_32", (-(1 << 31), 1 << 30), None),
    Kind("UINT_32", (0, 1 << 30), -1),
    Kind("INT_64", (-(1 << 31), 1 << 30), None),
    Kind("BOOL_8", (0, 1), 2),
)
ENUM = Kind("UINT_32", (0, 2), 3)  # of three enumerators
BACKENDS = ("cpu", "htp")
CPU_LISTS = ("INT_8", "UINT_8", "INT_32", "UINT_32", "BOOL_8")  # that libQnnCpu passes
# libQnnHtp passes a tensor as it is, and no integers of 64 bits.
HTP_LISTS = ("INT_32", "UINT_32")
KERNEL = """#include "ops/Ints.hpp"
namespace ops::IntsPackage::Ints {
udo::Status execute(const Args& args) {
  float sum = 0.0f;
%s  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] + sum;
  return udo::ok;
}
}  // namespace ops::IntsPackage::Ints
"""


def params(backend: str) -> dict[str, tuple[Kind, bool]]:
    """Return each parameter of the op: its kind, and whether it is a list."""
    kinds = [kind for kind in KINDS if backend == "cpu" or kind.dtype != "INT_64"]
    found = {f"one_{kind.dtype.lower()}": (kind, False) for kind in kinds}
    lists = [kind for kind in kinds if backend == "htp" or kind.dtype in CPU_LISTS]
    found |= {f"list_{entry.dtype.lower()}": (entry, True) for entry in lists}
    return {**found, "enumerator": (ENUM, False)}


@pytest.fixture(scope="module", params=BACKENDS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return a backend, and the library of an op with a parameter of each kind; it adds their sum to its input."""
    backend = str(request.param)
    need_runtime(backend)
    out = tmp_path_factory.mktemp(backend)
    rows, sums = [], []
    for name, (kind, many) in params(backend).items():
        more = "<Enumeration><Enum>A</Enum><Enum>B</Enum><Enum>C</Enum></Enumeration>" if kind is ENUM else ""
        default = "[0]" if many else "0"
        rows.append(param(name, kind.dtype, rank="1D" if many else "SCALAR", default=default, more=more))
        if many and backend == "htp" and kind.dtype not in HTP_LISTS:
            continue
        each = f"for (std::size_t i = 0; i < args.{name}.size(); ++i) sum += static_cast<float>(args.{name}[i])"
        sums.append(f"  {each if many else f'sum += static_cast<float>(args.{name})'};\n")
    shape = '<Constraint id="0" Type="Shape">Same shape as the input x</Constraint>'
    ends = tensor("Input", "x", rank="1D") + tensor("Output", "y", rank="1D", more=shape)
    text = op("<Description><Content>A sum.</Content></Description>" + ends + "".join(rows), "Ints", backend.upper())
    (out / "Ints.xml").write_text(collection(text, name="IntsPackage"))
    (out / "kernels").mkdir()
    (out / "kernels" / "Ints.cpp").write_text(KERNEL % "".join(sums))
    [made] = make_packages([out / "Ints.xml"], out, chosen=[backend], kernels=out / "kernels", layout="qnn")
    done = make(made.folder, f"{backend}_x86")
    assert done.returncode == 0, done.stderr
    return backend, find_built(made.folder, backend=backend).library


def right(backend: str) -> list[tuple[str, Any, float]]:
    found: list[tuple[str, Any, float]] = []
    for name, (kind, many) in params(backend).items():
        if many and backend == "htp" and kind.dtype not in HTP_LISTS:
            continue
        values = [list(kind.values)] if many else kind.values
        found += [(name, value, float(np.sum(value, dtype=np.float32))) for value in values]
    return found


def wrong(backend: str) -> list[tuple[str, Any, str]]:
    found: list[tuple[str, Any, str]] = []
    for name, (kind, many) in params(backend).items():
        if many and backend == "htp" and kind.dtype not in HTP_LISTS:
            found.append((name, [1, 0], f"parameter `{name}` is INT_32 (0x0032); it must be {kind.dtype}"))
        elif kind is ENUM:
            found.append((name, 3, f"parameter `{name}` is 3; its enumeration has only 0 … 2"))
        elif kind.wrong is not None:
            value = [1, kind.wrong] if many else kind.wrong
            found.append((name, value, f"parameter `{name}` is {kind.wrong}, which does not fit into {kind.dtype}"))
    return found


X = np.float32([1, -2, 4])


def model(path: Path, attributes: list[tuple[str, Any]]) -> Path:
    """Write a model with a node for each attribute."""
    nodes = [
        onnx_models.node("Ints", "x", f"y{n}", f"n{n}", domain="tests", **{name: value})
        for n, (name, value) in enumerate(attributes)
    ]
    outputs = {node.output[0]: [3] for node in nodes}
    return onnx_models.save(path, nodes, {"x": [3]}, outputs, opset=21)


def run(way: str, backend: str, library: Path, *models: Path) -> tuple[list[Any], str]:
    """Return the outputs of each model, or its error, and what was printed."""
    folder = models[0].parent
    np.savez(folder / "x.npz", x=X)
    more = {"packages": [str(library)], "backend": backend, "inputs": str(folder / "x.npz"), "plain": way == "plain"}
    cases = {str(each): {"model": str(each), "outputs": f"{each}.npz", **more} for each in models}
    (folder / "cases.json").write_text(json.dumps(cases))
    argv = [sys.executable, str(ROOT / "tests/clients/ort_cases_child.py"), str(folder / "cases.json")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("{")]
    replies = json.loads(line).items()
    found = [np.load(f"{model}.npz")["y0"].tolist() if reply == ["y0"] else reply for model, reply in replies]
    return found, done.stdout + done.stderr


def test_a_value_that_fits_is_converted(built: tuple[str, Path], tmp_path: Path) -> None:
    backend, library = built
    rows = right(backend)
    # One node each: HTP knows a parameter by its value, and refuses a graph with one value of several parameters.
    models = [model(tmp_path / f"{n}.onnx", [(name, value)]) for n, (name, value, _) in enumerate(rows)]
    expected = [(X + np.float32(total)).tolist() for *_, total in rows]
    for way in ("plain", "session"):
        found, printed = run(way, backend, library, *models)
        assert found == expected, (way, rows, printed[-3000:])


def test_a_value_that_does_not_fit_is_refused_with_a_sentence(built: tuple[str, Path], tmp_path: Path) -> None:
    backend, library = built
    rows = wrong(backend)
    path = model(tmp_path / "m.onnx", [(name, value) for name, value, _ in rows])
    _, printed = run("plain", backend, library, path)
    for _, _, sentence in rows:
        assert f"op Ints: {sentence}" in printed, printed[-3000:]
    models = [model(tmp_path / f"{n}.onnx", [(name, value)]) for n, (name, value, _) in enumerate(rows)]
    replies, _ = run("session", backend, library, *models)
    for reply, (_, _, sentence) in zip(replies, rows, strict=True):
        before = sentence.replace("parameter `", "attribute ").replace("`", "")  # of a check before there is a session
        assert any(each in reply["message"] for each in (sentence, before)), reply
