"""Parameters of HTP packages by name: in any order of the client, and omitted between others.

Each runtime runs all cases once, in a separate process (`order_child.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.making import KERNELS, LONG, ROOT, htp_package, udogen
from udogen.errors import RunFailed
from udogen.runtime import find_runtime
from udogen.runtime.built import Built
from udogen.runtime.op.request import CallOptions, make_call

NOT_VALIDATED = "op Poly: a node was not validated before its graph is finalized, and others were, so the order of its "
NAMES = "a, b, c, d"
CONFIG = ROOT / "tests" / "configs" / "Order.xml"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return htp_package(CONFIG, tmp_path_factory.mktemp("order"), KERNELS / "order")


def run(runtime: Path, built: Built) -> dict[str, Any]:
    child = Path(__file__).with_name("order_child.py")
    argv = [sys.executable, str(child), str(runtime), str(built.library)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    # The output of the runtime may come before it or after it.
    [result] = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    found: dict[str, Any] = json.loads(result)
    return found


@pytest.fixture(scope="module", params=["real", "emulator"])
def answers(request: pytest.FixtureRequest, built: Built) -> dict[str, Any]:
    return run(find_runtime("htp", runtime=str(request.param)).path, built)


def test_a_client_that_never_validates_gives_the_order_of_the_config(answers: dict[str, Any]) -> None:
    assert [found[0] for found in answers["never validated"]] == [1243, 1243]
    assert answers["warned"] == [
        f"op Poly: no node was validated, so parameters are taken in the order of the config: {NAMES}"
    ]


def test_a_client_that_never_validates_gives_types_of_the_config(answers: dict[str, Any]) -> None:
    names = [text.split("`")[1] for text in answers["of other types"]]
    assert names == ["a", "c", "f"]
    assert all(
        "has another type or number of elements than in the config" in text for text in answers["of other types"]
    )


def test_every_order_in_one_graph(answers: dict[str, Any]) -> None:
    """24 orders of four parameters, and six nodes that omit some."""
    assert answers["orders"] == [0] * 30


def test_parameters_of_every_type_are_found(answers: dict[str, Any]) -> None:
    right = [1.5, -3, 250, -300, 65000, -70000, 4e9, 1, -2, 254, -1000, -70000, 0.5]
    assert answers["kinds"] == [right] * 4


def test_what_is_left_out_before_others_takes_its_default(answers: dict[str, Any]) -> None:
    assert [found[0][:7] for found in answers["defaults"]] == [
        [0.5, -3, 4e9, 1, 1, -2, 7],
        [2.5, -3, 4e9, 1, 1, -2, 7],
        [0.5, -3, 4e9, 1, 5, -6, 7],
        [0.5, -100, 3, 0, 1, -2, 9],
        [0.5, -3, 4e9, 1, 1, -2, 9],
    ]


def test_two_meanings_of_one_node_are_refused(answers: dict[str, Any]) -> None:
    assert "error" in answers["two meanings"]
    assert answers["two meanings"]["logged"] == (
        "op Poly: two nodes have the same values for parameters in two orders, so which is which is not known; "
        f"give the parameters in the order of the config: {NAMES}"
    )
    assert [found[0] for found in answers["one meaning"]] == [34212, 34212]


def test_a_later_session_may_have_another_order(answers: dict[str, Any]) -> None:
    assert [found[0][0] for found in answers["one after the other"]] == [45312, 46212]


def test_a_node_that_was_not_validated_is_refused_where_others_were(answers: dict[str, Any]) -> None:
    assert answers["not validated"]["logged"].startswith(NOT_VALIDATED)
    assert f"({NAMES})" in answers["not validated"]["logged"]


@pytest.mark.parametrize("answers", ["real"], indirect=True)  # the emulator rewrites nothing
def test_rewrites_of_the_package_see_the_order_of_the_config(answers: dict[str, Any]) -> None:
    assert [found[0][0] for found in answers["rewritten"]] == [58, 214, 27, 15.25]


def test_prepared_kernels_and_tiles_get_them_too(answers: dict[str, Any]) -> None:
    assert answers["tiled"] == [[11], [29], [35]]


@pytest.mark.parametrize(
    ("case", "logged"),
    [
        ("missing", "op Poly: lacks the mandatory parameter `a`"),
        ("unknown", "op Poly: has no parameter `alpha`"),
        ("twice", "op Poly: parameter `a` is given twice"),
        ("a tensor", "op Poly: parameter `b` must be a scalar"),
        ("a scalar", "op Poly: parameter `d` must be a tensor"),
        ("another type", "op Poly: parameter `a` is INT_32 (0x0032); it must be FLOAT_32"),
        ("no input", "op Poly: has 0 inputs; it must have 1: `x` is missing"),
        ("no such op", "package OrderPackage has no op `Pole`; it has Poly, Kinds, Defaults, Rewritten, Scaled"),
        ("too large", "op Kinds: parameter `u8` is 256, which does not fit into UINT_8"),
    ],
)
def test_validation_reports_what_is_wrong(answers: dict[str, Any], case: str, logged: str) -> None:
    assert answers["refused"][case] == {"code": 3110, "logged": logged}


def test_an_integer_of_another_type_is_taken_where_it_fits(answers: dict[str, Any]) -> None:
    """ONNX Runtime passes every integer as an INT_32."""
    assert answers["integers"] == [1.5, -3, 250, -300, 65000, -70000, 5, 1]


def test_threads(answers: dict[str, Any]) -> None:
    assert answers["threads"] == [0] * 4


def test_what_is_remembered_is_bounded(answers: dict[str, Any]) -> None:
    """4,096 nodes: one that was validated before them is refused, never confused with another."""
    assert answers["memory"]["kilobytes"] < 4096
    assert answers["memory"]["forgotten"]["logged"].startswith(NOT_VALIDATED)


# --- udogen's own command line ----------------------------------------------------------------------------------


def test_what_is_missing_is_named_before_the_runtime_is_started(built: Built, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    given = ("run", "op", built.library.parent.parent.parent, "Poly", "--backend", "htp", "--input")
    done = udogen(*given, f"x={tmp_path}/x.npy", "--param", "b=1")
    assert done.returncode == 5
    assert "op `Poly` needs the parameter `a`" in done.stderr
    assert "--param a=VALUE" in done.stderr


def test_places_are_bound_by_names(built: Built) -> None:
    options = CallOptions({"x": np.zeros(3, np.float32)}, params={"c": 3, "a": 1})
    call = make_call(built.op("Poly", "htp"), built, "Poly", options)
    assert [(param.name, param.value) for param in call.params] == [("a", 1), ("b", 5), ("c", 3)]
    with pytest.raises(RunFailed, match="needs the parameter `a`"):
        make_call(built.op("Poly", "htp"), built, "Poly", CallOptions({"x": np.zeros(3, np.float32)}, params={"c": 3}))
