"""One binary, five releases: the same HTP library, unchanged, in the HTP emulators of SDK 2.47 to 2.51."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.generate import test_order
from tests.making import CONFIGS, KERNELS, ROOT, htp_package
from tests.wheels import install
from udogen.build.elf import version_key
from udogen.runtime import find_runtime
from udogen.runtime.built import Built
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpSession

RELEASES = {"2.3.0": "v2.47", "2.4.0": "v2.48", "2.5.0": "v2.49", "2.6.0": "v2.50", "2.7.0": "v2.51"}
NEWEST = {"onnxruntime-qnn": max(RELEASES), "onnxruntime": "1.32.0"}  # tried: here, and in tests/clients/test_ort.py
X = np.arange(-4, 20, dtype=np.float16).reshape(1, 2, 3, 4)


HOOKED = ROOT / "tests" / "configs" / "Hooks.xml"
SM8650 = 57


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return htp_package(HOOKED, tmp_path_factory.mktemp("hooked"), KERNELS / "hooks")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return htp_package(CONFIGS / "both.xml", tmp_path_factory.mktemp("releases"), KERNELS / "both")


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return htp_package(test_order.CONFIG, tmp_path_factory.mktemp("ordered"), KERNELS / "order")


@pytest.fixture(scope="module")
def answers(ordered: Built) -> dict[str, Any]:
    """Return the results of parameters in every order, in the installed release."""
    return test_order.run(find_runtime("htp").path, ordered)


@pytest.mark.parametrize("wheel", NEWEST)
def test_no_release_is_untried(wheel: str) -> None:
    pip = [sys.executable, "-m", "pip", "index", "versions", wheel]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.skip(f"pip cannot list the versions of {wheel}: {done.stderr.strip().splitlines()[-1:]}")
    newest = done.stdout.partition("(")[2].partition(")")[0]
    tried = NEWEST[wheel]
    assert version_key(newest) <= version_key(tried), f"{wheel} {newest} is newer than {tried}: try it, add it here"


@pytest.mark.parametrize("release", RELEASES)
def test_the_same_libraries_in_this_release(
    release: str, built: Built, hooked: Built, ordered: Built, answers: dict[str, Any], tmp_path: Path
) -> None:
    runtime = install(f"onnxruntime-qnn=={release}", tmp_path) / "onnxruntime_qnn" / "libQnnHtp.so"
    with OpSession(built.library, built.provider, backend="htp", qnn_lib=runtime, timeout=60) as session:
        assert session.runtime.build_id.startswith(RELEASES[release])
        a, b = np.ones((1, 2, 2, 2), np.float32), np.array([7, 8, 9], np.int32)
        options = CallOptions({"in[0]": a, "in[1]": b}, params={"mode": "FLOOR"}, shapes={"out[1]": (7,)})
        outputs = session.run(make_call(built.op("ScaleShift", "htp"), built, "ScaleShift", options)).outputs
        np.testing.assert_array_equal(outputs["out[0]"], a + 7)
        assert outputs["out[1]"].tolist() == [1.5, 2.5, 0, 1, 0, 0, 3]
        for dtype, tolerance in (("FLOAT_32", 0), ("FLOAT_16", 0)):
            options = CallOptions({"x": X}, dtypes={"y": dtype})
            found = session.run(make_call(built.op("Mix", "htp"), built, "Mix", options)).outputs["y"]
            np.testing.assert_allclose(found.astype(np.float32), X.astype(np.float32), atol=tolerance)
    # With a processor set, HTP queries the cost of kernels; from 2.50 on it uses another query than before.
    with OpSession(hooked.library, hooked.provider, backend="htp", qnn_lib=runtime, timeout=60, soc=SM8650) as session:
        x = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
        for op, real in (("Chosen", np.ones_like(x)), ("Twice", x + 4), ("Late", x + 1), ("Sliced", x * 2)):
            found = session.run(make_call(hooked.op(op, "htp"), hooked, op, CallOptions({"x": x}))).outputs["y"]
            np.testing.assert_array_equal(found, real)
        large = np.ones((1, 256, 256, 64), np.float32)
        options = CallOptions({"x": large, "row": np.ones((1, 1, 1, 64), np.float32)})
        found = session.run(make_call(hooked.op("Tiled", "htp"), hooked, "Tiled", options)).outputs["y"]
        np.testing.assert_array_equal(found, np.full_like(large, 4))
        table = np.arange(64, dtype=np.uint8).reshape(1, 2, 4, 8)
        options = CallOptions({"x": table}, params={"power": 1}, quants={"x": (0.1, 0), "y": (0.1, 0)})
        found = session.run(make_call(hooked.op("Prepared", "htp"), hooked, "Prepared", options)).outputs["y"]
        np.testing.assert_array_equal(found, table)
    # Message by message; the values after the 7 numbers of Defaults are left over from other graphs.
    found, wanted = test_order.run(runtime, ordered), dict(answers)
    for each in (found, wanted):
        each["defaults"] = [row[0][:7] for row in each["defaults"]]
        each["memory"] = each["memory"]["forgotten"]
    assert found == wanted
