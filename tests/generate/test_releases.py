"""One binary, five releases: the same HTP library, unchanged, in the HTP emulators of SDK 2.47 to 2.51."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.making import CONFIGS, LONG, make, make_packages
from udogen.runtime import OpSession
from udogen.runtime.built import Built, find_built
from udogen.runtime.request import Wishes, make_call

pytestmark = pytest.mark.slow

KERNELS = Path(__file__).parent / "kernels" / "both"
RELEASES = {"2.3.0": "v2.47", "2.4.0": "v2.48", "2.5.0": "v2.49", "2.6.0": "v2.50", "2.7.0": "v2.51"}
X = np.arange(-4, 20, dtype=np.float16).reshape(1, 2, 3, 4)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("releases")
    [made] = make_packages([CONFIGS / "both.xml"], folder, chosen=["htp"], kernels=KERNELS)
    done = make(made.folder, "htp_x86")
    assert done.returncode == 0, done.stderr
    return find_built(folder, backend="htp")


@pytest.mark.parametrize("release", RELEASES)
def test_the_same_library_in_this_release(release: str, built: Built, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path]
    done = subprocess.run(
        [*map(str, pip), f"onnxruntime-qnn=={release}"], capture_output=True, text=True, timeout=LONG, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"onnxruntime-qnn {release} cannot be had here: {done.stderr.strip().splitlines()[-1:]}")
    runtime = tmp_path / "onnxruntime_qnn" / "libQnnHtp.so"
    with OpSession(built.library, built.provider, backend="htp", runtime=runtime, timeout=60) as session:
        assert session.runtime.build_id.startswith(RELEASES[release])
        a, b = np.ones((1, 2, 2, 2), np.float32), np.array([7, 8, 9], np.int32)
        wishes = Wishes({"in[0]": a, "in[1]": b}, params={"mode": "FLOOR"}, shapes={"out[1]": (7,)})
        outputs = session.run(make_call(built.op("ScaleShift", "htp"), built, "ScaleShift", wishes)).outputs
        np.testing.assert_array_equal(outputs["out[0]"], a + 7)
        assert outputs["out[1]"].tolist() == [1.5, 2.5, 0, 1, 0, 0, 3]
        for dtype, tolerance in (("FLOAT_32", 0), ("FLOAT_16", 0)):
            wishes = Wishes({"x": X}, dtypes={"y": dtype})
            found = session.run(make_call(built.op("Mix", "htp"), built, "Mix", wishes)).outputs["y"]
            np.testing.assert_allclose(found.astype(np.float32), X.astype(np.float32), atol=tolerance)
