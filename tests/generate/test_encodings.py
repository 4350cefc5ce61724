"""Encodings of fixed point: one for a whole tensor works; one that a kernel cannot see is refused, not ignored."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.making import cpu_package, gpu_package, htp_package, need_runtime
from udogen import GraphBuilder, RunFailed
from udogen.runtime import Tensor
from udogen.runtime.built import Built
from udogen.runtime.quantization import AxisScaleOffset, BwAxisScaleOffset, BwScaleOffset, ScaleOffset

LEAKY = Path(__file__).parents[2] / "examples" / "leaky_relu"
STORED = np.array([[10, 20, 30], [40, 50, 60]], np.uint8)
PACKAGES: dict[str, Callable[[Path, Path, Path], Built]] = {"cpu": cpu_package, "htp": htp_package, "gpu": gpu_package}
RUNTIMES = [("cpu", "real"), ("cpu", "emulator"), ("htp", "real"), ("htp", "emulator"), ("gpu", "emulator")]


def quarters(package: Path, backend: str, kind: str, encoding: Any) -> Any:
    """Return LeakyRelu of STORED, whose numbers are positive, or the message if it is refused."""
    try:
        with GraphBuilder(backend, runtime=kind, packages=[package]) as builder:
            with builder.graph("g", outputs=["y"]) as graph:
                x = graph.input("x", "UFIXED_POINT_8", STORED.shape, encoding)
                y = Tensor("y", "UFIXED_POINT_8", STORED.shape, ScaleOffset(0.25, 0))
                graph.ops("LeakyRelu", [x], [y], params={"alpha": 0.1})
            return np.asarray(builder.context.graph("g")(x=STORED)["y"])
    except RunFailed as refused:
        return str(refused)


@pytest.fixture(scope="module")
def package_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a backend's package, which is built once."""

    @cache
    def made(backend: str) -> Path:
        out = tmp_path_factory.mktemp("encodings")
        built = PACKAGES[backend](LEAKY / "LeakyRelu.xml", out, LEAKY / "kernels")
        return built.library.parents[2]

    return made


@pytest.fixture(scope="module", params=RUNTIMES, ids="-".join)
def returned(request: pytest.FixtureRequest, package_of: Callable[[str], Path]) -> Iterator[Callable[[Any], Any]]:
    """`quarters` in a separate process: the real HTP and the emulator cannot share one."""
    backend, kind = request.param
    if kind == "real":
        need_runtime(backend)
    package = package_of(backend)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as child:
        yield lambda encoding: child.submit(quarters, package, backend, kind, encoding).result(60)


@pytest.mark.parametrize("encoding", [ScaleOffset(0.5, -4), BwScaleOffset(8, 0.5, -4)])
def test_a_whole_tensor_has_one(returned: Callable[[Any], Any], encoding: Any) -> None:
    np.testing.assert_array_equal(returned(encoding), 2 * (STORED - 4))


@pytest.mark.parametrize(
    "encoding",
    [AxisScaleOffset(0, (ScaleOffset(0.5), ScaleOffset(0.25, -4))), BwAxisScaleOffset(8, 0, (0.5, 0.25), ())],
)
def test_one_of_each_channel_is_refused(returned: Callable[[Any], Any], encoding: Any) -> None:
    refusal = returned(encoding)
    assert isinstance(refusal, str) and ("per channel" in refusal or "per-channel" in refusal), refusal
