"""Kernels for DSP V65/V66 as Hexagon code under qemu-hexagon: right results, with every service of the DSP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hexagon.running import Array, need_tools, on_hexagon
from tests.making import ROOT, make_packages
from udogen import TestOptions
from udogen.runtime.built import Built, find_source
from udogen.runtime.op.calls import OpResult
from udogen.runtime.op.request import CallOptions, make_call
from udogen.verify.runner import run_cases
from udogen.verify.test_files.expand import load_examples


def run(built: Built, op: str, inputs: dict[str, Array], **options: Any) -> OpResult:
    how = {name: options.pop(name) for name in ("arch", "count") if name in options}
    call = make_call(built.op(op, "dsp"), built, op, CallOptions(inputs, **options))
    return on_hexagon(built, call, **how)


@pytest.mark.parametrize("name", ["softmax", "add_sat_u8"])
def test_the_examples_agree_with_numpy(name: str, tmp_path: Path) -> None:
    need_tools()
    ran = 0
    for number, example in enumerate(load_examples(ROOT / "examples" / name)):
        cases = [case for case in example.cases if case.backend == "dsp"]
        if not cases:
            continue
        [made] = make_packages([example.config], tmp_path / str(number), chosen=["dsp"], kernels=example.kernels)
        built = find_source(made.folder, backend="dsp")
        for outcome in run_cases(built, cases, backend="dsp", options=TestOptions(loops=1)):
            assert outcome.passed, (outcome.case.name, outcome.max_error)
            assert outcome.runtime.name.startswith(
                ("Hexagon v65 under qemu-hexagon ", "Hexagon v66 under qemu-hexagon ")
            )
            ran += 1
    assert ran >= 2


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"factor": 2.0}, lambda flat, shift: flat * 2 + shift),
        ({"factor": 2.0, "sign": "minus"}, lambda flat, shift: flat * -2 + shift),
        ({"factor": 1.5, "mode": "half"}, lambda flat, shift: (flat * 1.5 + shift) / 2),
    ],
)
def test_parameters_of_every_kind_reach_a_kernel_and_defaults_are_applied(
    several: Built, params: dict[str, object], expected: Any
) -> None:
    flat = X.reshape(-1)
    for given, shift in [({}, [1, -2, 3]), ({"shift": np.array([7, 9], np.int32)}, [7, 9])]:
        result = run(several, "Scale", {"x": X}, params={**params, **given})
        wanted = expected(flat, np.resize(np.array(shift, np.float32), flat.shape)).reshape(X.shape)
        np.testing.assert_array_equal(result.outputs["y"], wanted.astype(np.float32))
        assert not result.logs


def test_an_input_may_be_left_out(several: Built) -> None:
    bias = np.array([10, 20], np.float32)
    with_bias = run(several, "Scale", {"x": X, "bias": bias}, params={"factor": 1.0}).outputs["y"]
    without = run(several, "Scale", {"x": X}, params={"factor": 1.0}).outputs["y"]
    np.testing.assert_array_equal(with_bias - without, np.resize(bias, X.shape))


def test_an_op_makes_its_output_smaller_and_sets_its_range(several: Built) -> None:
    x = np.random.default_rng(1).integers(0, 256, (1, 6, 5, 3), dtype=np.uint8)
    result = run(several, "Head", {"x": x}, params={"rows": 2}, quants={"x": (0.5, -10), "y": (1.0, 0)})
    np.testing.assert_array_equal(result.outputs["y"], x[:, :2])
    assert [line.text for line in result.logs] == ["output 0 now represents -5 to 122.5"]


def test_worker_threads_run_at_once_and_share_vtcm(several: Built) -> None:
    for shape in [(5,), (3, 7, 11), (1, 16, 16, 32)]:
        x = np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8)
        result = run(several, "Mirror", {"x": x})
        np.testing.assert_array_equal(result.outputs["y"].reshape(-1), x.reshape(-1)[::-1])
        assert result.kernel == "Mirror::execute with 4 worker threads"


def test_packets_are_counted_in_all_workers(tmp_path: Path) -> None:
    need_tools()
    [example] = load_examples(ROOT / "examples" / "add_sat_u8")
    [made] = make_packages([example.config], tmp_path, chosen=["dsp"], kernels=example.kernels)
    built = find_source(made.folder, backend="dsp")
    totals = []
    for size in (1 << 16, 1 << 17):
        a = np.full(size, 200, np.uint8)
        packets = run(built, "AddSatU8", {"a": a, "b": a}, count=True).packets
        assert packets is not None
        totals.append(packets.total)
    # At most 16 packets per 128 bytes: HVX, in both threads, without the packets of waiting.
    assert 2 * (1 << 16) // 128 < totals[1] - totals[0] < 16 * (1 << 16) // 128, totals
