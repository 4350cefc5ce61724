"""Parameters of HTP packages by name: in any order of the client, and omitted between others.

Each runtime runs all cases once, in a separate process (`order_child.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.making import KERNELS, LONG, ROOT, htp_package, udogen
from udogen import UsageError
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


def sentences(replies: list[Any]) -> list[str]:
    """Return the parameter that each message names, if it is about the type or size of one."""
    about = "has another type or number of elements than in the config"
    return [text.split("`")[1] for text in replies if about in text]


def first_seven(replies: list[Any]) -> list[Any]:
    """The values after the 7 numbers of Defaults are left over from other graphs."""
    return [found[0][:7] for found in replies]


def first(replies: list[Any]) -> list[Any]:
    return [found[0] for found in replies]


def is_not_validated(reply: dict[str, Any]) -> bool:
    return reply["logged"].startswith(NOT_VALIDATED) and f"({NAMES})" in reply["logged"]


def is_forgotten(reply: dict[str, Any]) -> bool:
    """4,096 nodes are remembered: one that was validated before them is refused, never confused with another."""
    return reply["kilobytes"] < 4096 and is_not_validated(reply["forgotten"])


TWO_MEANINGS = (
    "op Poly: two nodes have the same values for parameters in two orders, or for different parameters, so which is "
    f"which is not known; give all parameters in the order of the config: {NAMES}"
)
NO_NODE = f"op Poly: no node was validated, so parameters are taken in the order of the config: {NAMES}"
KINDS = [1.5, -3, 250, -300, 65000, -70000, 4e9, 1, -2, 254, -1000, -70000, 0.5]
# What a case of the child returns, how to read it, and what it must be.
EXPECTED: Sequence[tuple[str, Callable[[Any], Any], Any]] = (
    ("never validated", first, [1243, 1243]),  # the order of the config
    ("warned", list, [NO_NODE]),
    ("of other types", sentences, ["a", "c", "f"]),
    ("orders", list, [0] * 30),  # 24 orders of four parameters, and six nodes that omit some
    ("kinds", list, [KINDS] * 4),
    ("integers", list, [*KINDS[:6], 5, 1]),  # ONNX Runtime passes every integer as an INT_32
    (
        "defaults",
        first_seven,
        [
            [0.5, -3, 4e9, 1, 1, -2, 7],
            [2.5, -3, 4e9, 1, 1, -2, 7],
            [0.5, -3, 4e9, 1, 5, -6, 7],
            [0.5, -100, 3, 0, 1, -2, 9],
            [0.5, -3, 4e9, 1, 1, -2, 9],
        ],
    ),
    ("two meanings", lambda reply: ("error" in reply, reply["logged"]), (True, TWO_MEANINGS)),
    ("one meaning", first, [34212, 34212]),
    ("one after the other", lambda replies: [found[0][0] for found in replies], [45312, 46212]),
    ("not validated", is_not_validated, True),
    ("tiled", list, [[11], [29], [35]]),  # prepared kernels and tiles
    ("threads", list, [0] * 4),
    ("memory", is_forgotten, True),
)


@pytest.mark.parametrize(("case", "read", "expected"), EXPECTED, ids=[row[0] for row in EXPECTED])
def test_parameters_are_those_that_the_client_named(
    answers: dict[str, Any], case: str, read: Callable[[Any], Any], expected: Any
) -> None:
    assert read(answers[case]) == expected


@pytest.mark.parametrize("answers", ["real"], indirect=True)  # the emulator rewrites nothing
def test_rewrites_of_the_package_see_the_order_of_the_config(answers: dict[str, Any]) -> None:
    assert [found[0][0] for found in answers["rewritten"]] == [58, 214, 27, 15.25]


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


# --- udogen's own command line ----------------------------------------------------------------------------------


def test_what_is_missing_is_named_before_the_runtime_is_started(built: Built, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    given = ("run", "op", built.library.parent.parent.parent, "Poly", "--backend", "htp", "--input")
    done = udogen(*given, f"x={tmp_path}/x.npy", "--param", "b=1")
    assert done.returncode == 2
    assert "op `Poly` needs the parameter `a`" in done.stderr
    assert "--param a=VALUE" in done.stderr


def test_places_are_bound_by_names(built: Built) -> None:
    options = CallOptions({"x": np.zeros(3, np.float32)}, params={"c": 3, "a": 1})
    call = make_call(built.op("Poly", "htp"), built, "Poly", options)
    assert [(param.name, param.value) for param in call.params] == [("a", 1), ("b", 5), ("c", 3)]
    with pytest.raises(UsageError, match="needs the parameter `a`"):
        make_call(built.op("Poly", "htp"), built, "Poly", CallOptions({"x": np.zeros(3, np.float32)}, params={"c": 3}))
