"""The examples as Hexagon code: right, equal to Qualcomm's emulator, and HVX results equal to scalar ones."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.hexagon.running import Array, need_tools, on_hexagon, on_x86
from tests.making import ROOT, make_packages, make_well, need_runtime
from udogen import TestOptions
from udogen.runtime.built import Built, find_source
from udogen.runtime.hexagon.wire import KernelChoice
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import HexagonSession
from udogen.verify.runner import run_cases
from udogen.verify.test_files.expand import load_examples


@pytest.mark.parametrize("name", ["leaky_relu", "softmax"])
def test_the_examples_agree_with_numpy_and_with_qualcomms_emulator(name: str, tmp_path: Path) -> None:
    need_tools()
    need_runtime("htp")
    seen = set()
    for number, example in enumerate(load_examples(ROOT / "examples" / name)):
        cases = [case for case in example.cases if case.backend == "htp" and case.runs_on("hexagon")]
        if not cases:
            continue
        [made] = make_packages([example.config], tmp_path / str(number), chosen=["htp"], kernels=example.kernels)
        make_well(made.folder, "dsp_x86" if made.plan.layout == "snpe" else "htp_x86")
        built = find_source(made.folder, backend="htp")
        for outcome in run_cases(built, cases, backend="hexagon", options=TestOptions(loops=1)):
            assert outcome.passed, (outcome.case.name, outcome.max_error)
            version = "v68" if example.config.name == "Softmax_Htp.json" else "v73"  # it names only that one
            assert outcome.runtime.name.startswith(f"Hexagon {version} under qemu-hexagon ")
        for case in cases:
            shapes = {key: tuple(array.shape) for key, array in case.expected.items()}
            options = CallOptions(case.inputs, params=case.params, quants=case.quants, shapes=shapes)
            call = make_call(built.op(case.op, "htp"), built, case.op, options)
            mine, theirs = on_hexagon(built, call).outputs, on_x86(built, call).outputs
            for key, array in theirs.items():
                seen.add(str(array.dtype))
                if array.dtype.kind == "f":
                    np.testing.assert_allclose(mine[key], array, rtol=2e-3 if array.itemsize == 2 else 1e-6, atol=1e-7)
                else:
                    np.testing.assert_array_equal(mine[key], array)
    assert seen >= ({"float32", "float16", "uint8", "uint16"} if name == "leaky_relu" else {"uint8"})


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("hexagon", "--case", "Softmax/16"), 0, '"name": "Hexagon v68 under'),  # the config names only V68
        (("hexagon", "--case", "Softmax/16", "--arch", "v69"), 0, '"name": "Hexagon v69 under'),
        (("hexagon", "--arch", "v66"), 2, "--arch v66: no such place is tested"),
        (("cpu", "--arch", "v68"), 2, "only hexagon and dsp run code for a version of Hexagon"),
    ],
)
def test_a_package_runs_as_the_version_that_it_is_for(arguments: tuple[str, ...], code: int, said: str) -> None:
    need_tools()
    done = udogen("test", ROOT / "examples" / "softmax", "--json", "--backend", *arguments)
    assert done.returncode == code and said in done.stdout, done.stdout


def test_repacked_weights_on_hvx_are_those_of_numpy(tmp_path: Path) -> None:
    need_tools()
    [example] = [each for each in load_examples(ROOT / "examples" / "repacked_weights") if each.cases]
    [made] = make_packages([example.config], tmp_path, chosen=["htp"], kernels=example.kernels)
    cases = [case for case in example.cases if case.backend == "htp"]
    found = run_cases(find_source(made.folder, backend="htp"), cases, backend="hexagon", options=TestOptions(loops=1))
    assert len(found) == 7 and [each.case.name for each in found if not each.passed] == []


LENGTHS = [1, 2, 127, 128, 129, 255, 256, 257, 1000, 4095, 4096, 4097]


@pytest.fixture(scope="module")
def add_sat(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The example with an HVX kernel and a scalar one."""
    need_tools()
    [example] = load_examples(ROOT / "examples" / "add_sat_u8")
    out = tmp_path_factory.mktemp("add_sat")
    [made] = make_packages([example.config], out, chosen=["htp"], kernels=example.kernels)
    return find_source(made.folder, backend="htp")


def add_bytes(size: int) -> tuple[CallOptions, Array]:
    random = np.random.default_rng(size)
    a, b = (random.integers(0, 256, size).astype(np.uint8) for _ in "ab")
    return CallOptions({"a": a, "b": b}), np.minimum(a.astype(int) + b, 255).astype(np.uint8)


def same_at_every_length(built: Built, lengths: Sequence[int]) -> None:
    assert built.folder is not None
    op = built.op("AddSatU8", "htp")
    kernels = ("hvx", "main")
    sessions = {kernel: HexagonSession(built.folder, kernel=KernelChoice(kernel), timeout=60) for kernel in kernels}

    def check(kernel: str) -> None:
        for size in lengths:
            options, expected = add_bytes(size)
            result = sessions[kernel].run(make_call(op, built, "AddSatU8", options))
            assert result.kernel.endswith(f" on {kernel}")
            np.testing.assert_array_equal(result.outputs["sum"], expected)

    with ThreadPoolExecutor() as pool:  # a separate process for each run
        list(pool.map(check, sessions))


def test_add_sat_u8_is_the_same_on_hvx_and_scalar(add_sat: Built) -> None:
    same_at_every_length(add_sat, LENGTHS)
