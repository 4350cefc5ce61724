"""Errors of DSP kernels and user errors: each has a one-sentence message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.dsp.conftest import SEVERAL
from tests.hexagon.running import on_hexagon
from tests.making import make_packages
from udogen import UdogenError
from udogen.configs import resolve
from udogen.configs.load import load
from udogen.findings import Findings
from udogen.runtime import failures
from udogen.runtime.built import Built
from udogen.runtime.op.request import CallOptions, make_call

BYTES = np.arange(12, dtype=np.uint8)
QUANTS = {"x": (1.0, 0), "y": (1.0, 0)}


def fault(built: Built, what: str, *, timeout: float = 60) -> list[str]:
    """Return the log of a run that succeeds."""
    call = make_call(
        built.op("Fault", "dsp"), built, "Fault", CallOptions({"x": BYTES}, params={"what": what}, quants=QUANTS)
    )
    result = on_hexagon(built, call, timeout=timeout)
    np.testing.assert_array_equal(result.outputs["y"], BYTES)
    return [line.text for line in result.logs]


@pytest.mark.parametrize(
    ("what", "kind", "sentence"),
    [
        ("fails", failures.OpFailed, "returned 4294967295 (UDO_UNKNOWN_ERROR) in phase `execute`: op Fault: number 7"),
        ("fails_in_worker", failures.OpFailed, "worker 1 is tired"),
        ("crashes", failures.OpCrashed, "segmentation fault"),
        ("overruns", failures.OpFailed, "wrote past the end of its output `y`"),
        ("throws", failures.OpCrashed, "threw a C++ exception (int)"),
        ("grows", failures.OpFailed, "cannot be larger than 12 along axis 3"),
    ],
)
def test_what_an_op_does_wrong_is_a_sentence(faults: Built, what: str, kind: type[UdogenError], sentence: str) -> None:
    with pytest.raises(kind) as caught:
        fault(faults, what)
    output = caught.value.message
    assert sentence.replace("op Fault: ", "") in output, output
    assert output.startswith("op `Fault`") or "Fault" in output


def test_an_op_that_never_comes_back_is_stopped(faults: Built) -> None:
    with pytest.raises(failures.OpTimedOut, match="did not return within 3 s in phase `execute`"):
        fault(faults, "hangs", timeout=3)


def test_a_kernel_that_uses_the_heap_is_reported(faults: Built) -> None:
    assert fault(faults, "nothing") == []
    [shown] = fault(faults, "uses_heap")
    assert shown == "executeOp used the heap 1 times, which the documentation forbids"


def test_what_prepare_refuses_is_a_sentence(several: Built) -> None:
    options = CallOptions({"x": np.ones(3, np.float32)}, params={"factor": 1.0, "mode": "never"})
    with pytest.raises(failures.OpFailed, match="in phase `execute`: mode `never` is refused"):
        on_hexagon(several, make_call(several.op("Scale", "dsp"), several, "Scale", options))


def test_a_skeleton_reports_that_it_is_one(tmp_path: Path) -> None:
    [made] = make_packages([SEVERAL], tmp_path, chosen=["dsp"])
    np.save(tmp_path / "x.npy", BYTES)
    done = udogen("run", "op", made.folder, "Mirror", "--backend", "dsp", "--input", f"x={tmp_path / 'x.npy'}")
    assert done.returncode == 5
    assert "3 (UDO_UNSUPPORTED_FEATURE)" in done.stderr
    assert "Mirror is not implemented: write execute" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--arch", "v73"), "DSP does not run on Hexagon `v73`"),
        (("--kernel", "main"), "--kernel means nothing with --backend dsp"),
        (("--soc", "v75"), "--soc means nothing with --backend dsp"),
    ],
)
def test_options_that_mean_nothing_there_are_refused(
    several: Built, tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    assert several.folder is not None
    np.save(tmp_path / "x.npy", BYTES)
    given = ("--input", f"x={tmp_path / 'x.npy'}", *options)
    done = udogen("run", "op", several.folder.path, "Mirror", "--backend", "dsp", *given)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr


def test_of_several_types_the_first_is_taken_and_reported(tmp_path: Path) -> None:
    config = tmp_path / "Two.xml"
    config.write_text(
        (SEVERAL).read_text().replace("<Datatype>UINT_8<", "<Datatype>FLOAT_32</Datatype><Datatype>UINT_8<")
    )
    found = Findings()
    [package], _ = load([config])
    mirror = resolve.for_backend(package, "dsp", found).ops[-1]
    assert [kind.name for kind in mirror.inputs[0].datatypes] == ["FLOAT_32"]
    assert any("on DSP it has one type" in finding.message for finding in found.all())
