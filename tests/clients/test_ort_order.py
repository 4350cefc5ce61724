"""Parameters of an op through the real ONNX Runtime: right for any order of a node's attributes.

ONNX Runtime's provider sends them in the order of its own hash table; HTP passes them to a kernel without names.
No part of udogen is involved except the package.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.making import KERNELS, LONG, ROOT, make, make_packages, need_runtime
from udogen.runtime import find_runtime
from udogen.runtime.built import find_built

NEEDED = ("onnx", "onnxruntime", "onnxruntime_qnn")
pytestmark = pytest.mark.skipif(not all(map(importlib.util.find_spec, NEEDED)), reason=f"without {', '.join(NEEDED)}")

ORDER = ROOT / "tests" / "configs" / "Order.xml"
Attributes = list[tuple[str, Any]]


class Ran(NamedTuple):
    reply: Any
    log: str


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Return the runtime and the package of each backend."""
    need_runtime("cpu")
    need_runtime("htp")
    out = tmp_path_factory.mktemp("order")
    for made in make_packages([ORDER], out, kernels=KERNELS / "order"):
        done = make(made.folder, f"{made.plan.backend}_x86")
        assert done.returncode == 0, done.stderr
    return {each: (find_runtime(each).path, find_built(out, backend=each).library) for each in ("cpu", "htp")}


@pytest.fixture(params=["cpu", "htp"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(paths: tuple[Path, Path], model: Path, nodes: list[Attributes] | None, *more: Path) -> Ran:
    if nodes is not None:
        Path(f"{model}.json").write_text(json.dumps(nodes), "utf-8")
    child = Path(__file__).with_name("ort_order_child.py")
    argv = [sys.executable, *map(str, (child, *paths, model, *more))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    # libQnnHtp prints its own lines, also at the end.
    [reply] = [line.removeprefix("reply ") for line in done.stdout.splitlines() if line.startswith("reply ")]
    return Ran(json.loads(reply), done.stdout + done.stderr)


def wanted(attributes: Attributes) -> float:
    seen = {"b": 5.0, "c": 9.0, "d": [7.0, 8.0], **dict(attributes)}
    return float(1000 * seen["a"] + 100 * seen["b"] + 10 * seen["c"] + 2 * seen["d"][0] + seen["d"][1])


def every_order() -> list[Attributes]:
    """Return all orders of four parameters of one type, and nodes that omit one, at the end or before others."""
    nodes = []
    for number, names in enumerate([*permutations("abcd"), "a", "ac", "ca", "da", "dca", "cda", "bda"]):
        values = {"a": 1.0 + number, "b": 2.0 + number, "c": 30.0 + number, "d": [4.0 + number, 50.0]}
        nodes.append([(name, values[name]) for name in names])
    return nodes


def test_every_order_in_one_model_and_from_its_stored_context(
    libraries: dict[str, tuple[Path, Path]], backend: str, tmp_path: Path
) -> None:
    nodes, stored = every_order(), tmp_path / "stored.onnx"
    right = {f"y{number}": wanted(attributes) for number, attributes in enumerate(nodes)}
    more = [stored] if backend == "htp" else []  # ONNX Runtime cannot store contexts of the CPU
    assert run(libraries[backend], tmp_path / "m.onnx", nodes, *more).reply == right
    if more:
        assert len(list(tmp_path.glob("*.bin"))) == 1
        assert run(libraries[backend], stored, None).reply == right


def test_each_order_in_a_model_of_its_own(
    libraries: dict[str, tuple[Path, Path]], backend: str, tmp_path: Path
) -> None:
    for names in ("abcd", "dcba", "cadb"):
        node = [(name, {"a": 1.0, "b": 2.0, "c": 3.0, "d": [4.0, 5.0]}[name]) for name in names]
        assert run(libraries[backend], tmp_path / f"{names}.onnx", [node]).reply == {"y0": 1243.0}


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ([("b", 1.0)], "op Poly: lacks the mandatory parameter `a`"),
        ([("a", 1.0), ("alpha", 1.0)], "op Poly: has no parameter `alpha`"),
        ([("a", 1.0), ("d", 1.0)], "op Poly: parameter `d` must be a tensor"),
        ([("a", [1.0, 2.0])], "op Poly: parameter `a` must be a scalar"),
        ([("a", 1)], "op Poly: parameter `a` is INT_32 (0x0032); it must be FLOAT_32"),
    ],
    ids=["missing", "unknown", "scalar", "tensor", "type"],
)
def test_what_the_op_does_not_take_is_refused_with_a_sentence(
    libraries: dict[str, tuple[Path, Path]], backend: str, node: Attributes, message: str, tmp_path: Path
) -> None:
    assert message in run(libraries[backend], tmp_path / "m.onnx", [node]).log


def test_two_meanings_of_the_same_values_are_refused(libraries: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    """HTP gives a kernel only values; to its graph these two nodes are the same."""
    orders = ["".join(names) for names in permutations("abc")]
    nodes = [list(zip(names, (1.0, 2.0, 3.0), strict=True)) for names in orders]
    found = run(libraries["htp"], tmp_path / "m.onnx", nodes)
    assert isinstance(found.reply, str)
    assert "op Poly: two nodes have the same values for parameters in two orders" in found.log
    assert run(libraries["cpu"], tmp_path / "m.onnx", nodes).reply == {
        f"y{number}": wanted(node) for number, node in enumerate(nodes)
    }
