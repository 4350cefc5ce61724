"""The GPU kernels of the examples in the emulator on OpenCL: floats, halves and fixed point, compared with numpy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.making import ROOT, gpu_package
from udogen import TestOptions
from udogen.verify.runner import run_cases
from udogen.verify.test_files.expand import load_examples


@pytest.mark.parametrize("name", ["leaky_relu", "softmax"])
def test_the_examples_agree_with_numpy(name: str, tmp_path: Path) -> None:
    types = set()
    for example in load_examples(ROOT / "examples" / name):
        cases = [case for case in example.cases if case.backend == "gpu" and case.runs_on("gpu")]
        built = gpu_package(example.config, tmp_path, example.kernels)
        outcomes = run_cases(built, cases, backend="gpu", options=TestOptions(loops=2))
        assert [(outcome.case.name, outcome.max_error) for outcome in outcomes if not outcome.passed] == []
        assert {outcome.runtime.name for outcome in outcomes} == {"GPU_UDOGEN_EMULATOR"}
        assert all(outcome.runtime.emulator for outcome in outcomes)
        types |= {str(array.dtype) for case in cases for array in case.inputs.values()}
    assert types >= {"float32", "float16"}
