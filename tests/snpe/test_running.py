"""The documentation's package, built by its own Makefile: libraries of its registration library run on every core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hexagon.running import need_tools, on_hexagon
from tests.making import make, make_packages, need_opencl, need_runtime
from tests.snpe.packages import KERNELS, SOFTMAX, X86
from udogen.runtime import Tensor
from udogen.runtime.built import find_built, find_source
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpCall, OpSession, add_op_package

SHAPE = (1, 4, 5, 6)
STEP = (0.05, -128)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package, with V66 in addition to V68, built for this machine."""
    out = tmp_path_factory.mktemp("running")
    config = out / SOFTMAX.name
    config.write_text(SOFTMAX.read_text().replace('"dsp_arch_types": ["v68"]', '"dsp_arch_types": ["v66", "v68"]'))
    [made] = make_packages([config], out, kernels=KERNELS)
    done = make(made.folder, "all_x86", "dsp_x86", "gpu_x86")
    assert done.returncode == 0, done.stderr
    return made.folder


def softmax(x: Any) -> Any:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def steps(stored: Any) -> Any:
    """Return softmax in steps of 1/256, for stored numbers of 8 bits."""
    return np.clip(np.rint(softmax((stored.astype(np.float32) + STEP[1]) * STEP[0]) * 256), 0, 255)


def fixed_point(session: OpSession, stored: Any) -> Any:
    inputs = (Tensor("Placeholder", "UFIXED_POINT_8", stored.shape, data=stored, quant=STEP),)
    outputs = (Tensor("Output", "UFIXED_POINT_8", stored.shape, quant=(1 / 256, 0)),)
    return session.run(OpCall("Softmax", "SoftmaxUdoPackage", inputs, outputs)).outputs["Output"]


def test_through_the_registration_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_runtime("cpu")
    need_runtime("htp")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder / X86))
    package = add_op_package(folder / X86 / "libUdoSoftmaxUdoPackageReg.so")
    assert {core.core: core.state for core in package.cores if core.core != "GPU"} == {
        "CPU": "registered",
        "DSP": "registered",
    }
    random = np.random.default_rng(11)
    x = random.standard_normal(SHAPE, dtype=np.float32)
    with package.open("CPU") as session:
        inputs = (Tensor("Placeholder", "FLOAT_32", SHAPE, data=x),)
        call = OpCall("Softmax", "SoftmaxUdoPackage", inputs, (Tensor("Output", "FLOAT_32", SHAPE),))
        np.testing.assert_allclose(session.run(call).outputs["Output"], softmax(x), atol=1e-6)
    stored = random.integers(0, 256, SHAPE, dtype=np.uint8)
    with package.open("DSP") as session:
        assert np.abs(fixed_point(session, stored).astype(int) - steps(stored)).max() <= 1


@pytest.mark.parametrize("backend", ["dsp", "htp"])
def test_both_families_of_the_dsp_as_hexagon_code(folder: Path, backend: str) -> None:
    need_tools()
    stored = np.random.default_rng(12).integers(0, 256, SHAPE, dtype=np.uint8)
    built = find_source(folder, backend=backend)
    options = CallOptions({"Placeholder": stored}, quants={"Placeholder": STEP, "Output": (1 / 256, 0)})
    result = on_hexagon(built, make_call(built.op("Softmax", backend), built, "Softmax", options))
    assert np.abs(result.outputs["Output"].astype(int) - steps(stored)).max() <= 1


def test_the_gpu_library_in_the_emulator(folder: Path) -> None:
    need_opencl()
    x = np.random.default_rng(13).standard_normal(SHAPE, dtype=np.float32)
    built = find_built(folder, backend="gpu")
    with OpSession(built.library, built.provider, backend="gpu", timeout=120) as session:
        call = make_call(built.op("Softmax", "gpu"), built, "Softmax", CallOptions({"Placeholder": x}))
        np.testing.assert_allclose(session.run(call).outputs["Output"], softmax(x), atol=1e-5)
