"""Ops without faults, in the real libQnnCpu."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from probe import PROVIDER, X, call, result, tensor

from udogen import RunFailed, UsageError
from udogen.runtime import Tensor
from udogen.runtime.op.calls import param_of
from udogen.runtime.ops import OpSession


def printed(session: OpSession, op_call: object) -> list[str]:
    """Return the package's own log lines of a call."""
    return [line.text for line in session.run(op_call).logs if line.source == "package"]  # type: ignore[arg-type]


def test_an_op_runs(session: OpSession) -> None:
    answer = session.run(call("AddOne", params=(param_of("step", 2.5, "FLOAT_32"),), loops=5))
    np.testing.assert_array_equal(answer.outputs["y"], X + 2.5)
    assert 0 < answer.times.execute < 1
    assert answer.runtime.name == "CPU_QTI_AISW"
    assert answer.runtime.build_id.startswith("v2.")
    assert session.package.name == "Probe" and "AddOne" in session.package.operations


def test_one_worker_serves_many_calls(session: OpSession) -> None:
    session.run(call("AddOne"))
    pid = session.pid
    for step in range(20):
        answer = session.run(call("AddOne", params=(param_of("step", step, "INT_32"),)))
        np.testing.assert_array_equal(answer.outputs["y"], X + step)
    assert session.pid == pid


@pytest.mark.parametrize(
    ("dtype", "numpy"),
    [
        ("UINT_8", "u1"),
        ("INT_8", "i1"),
        ("BOOL_8", "?"),
        ("UFIXED_POINT_8", "u1"),
        ("QNN_DATATYPE_UINT_8", "u1"),
    ],
)
def test_types_of_one_byte(session: OpSession, dtype: str, numpy: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(numpy)
    quant = (0.5, -3) if "FIXED" in dtype else None
    answer = session.run(
        call("CopyBytes", (tensor(array=array, dtype=dtype, quant=quant),), (result(dtype=dtype, quant=quant),))
    )
    np.testing.assert_array_equal(answer.outputs["y"], array)
    assert answer.outputs["y"].dtype == array.dtype


def test_tensors_of_rank_0_and_without_elements(session: OpSession) -> None:
    scalar = session.run(call("AddOne", (tensor(array=np.float32(4).reshape(())),), (result(shape=()),)))
    assert scalar.outputs["y"].shape == ()
    assert scalar.outputs["y"] == 5
    empty = np.zeros((0, 3), np.float32)
    assert session.run(call("AddOne", (tensor(array=empty),), (result(shape=(0, 3)),))).outputs["y"].size == 0


def test_arrays_that_are_not_contiguous(session: OpSession) -> None:
    answer = session.run(call("AddOne", (tensor(array=X.T),), (result(shape=(3, 2)),)))
    np.testing.assert_array_equal(answer.outputs["y"], X.T + 1)


def test_params_of_every_kind_arrive(session: OpSession) -> None:
    scalars = {
        "INT_8": -5, "INT_16": -300, "INT_32": -70000, "INT_64": -(1 << 40), "UINT_8": 250, "UINT_16": 65000,
        "UINT_32": 4_000_000_000, "UINT_64": 1 << 40, "FLOAT_32": 1.5, "FLOAT_64": 2.25, "BOOL_8": True,
    }  # fmt: skip
    params = tuple(param_of(dtype, value, dtype) for dtype, value in scalars.items())
    text = param_of("mode", "héllo", "STRING")
    table = param_of("table", np.array([7, 8, 9], np.uint32), "UINT_32")
    lines = printed(session, call("Dump", params=(*params, text, table)))
    for phase in ("create", "execute"):
        for dtype, value in scalars.items():
            assert f"{phase} param {dtype} scalar={float(value):.17g}" in lines
        assert f"{phase} param mode string=héllo" in lines
        assert f"{phase} param table first=7" in lines


def test_static_inputs_have_their_data_at_create_and_others_at_execute(session: OpSession) -> None:
    lines = printed(session, call("Dump", (tensor("x"), tensor("w", role="STATIC"))))
    created, executed = (
        [line for line in lines if line.startswith(f"{phase} input")] for phase in ("create", "execute")
    )
    assert ["data=yes" in line for line in created] == [False, True]
    assert ["data=yes" in line for line in executed] == [True, True]


def test_an_omitted_input_keeps_its_place_and_has_no_data(session: OpSession) -> None:
    omitted = Tensor("bias", "FLOAT_32", (3,), role="NULL")
    lines = printed(session, call("Dump", (tensor("x"), omitted, tensor("z"))))
    assert any(line.startswith("validate input 1 kind=5") for line in lines)
    executed = [line for line in lines if line.startswith("execute input")]
    assert ["data=yes" in line for line in executed] == [True, False, True]


def test_validate_runs_once_and_names_may_repeat(session: OpSession) -> None:
    lines = printed(session, call("Dump", (tensor("x"), tensor("x"))))
    assert sum(line.startswith("validate node") for line in lines) == 1


def test_chatter_on_stdout_goes_nowhere(session: OpSession, capfd: pytest.CaptureFixture[str]) -> None:
    session.run(call("Chatter", loops=3))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("seconds", [1e10, float("inf")])
def test_a_timeout_of_centuries(probe: Path, seconds: float) -> None:
    with OpSession(probe, PROVIDER, timeout=seconds) as session:
        session.run(call("AddOne"))


def test_phases_are_announced(probe: Path) -> None:
    phases: list[str] = []
    with OpSession(probe, PROVIDER, timeout=20, on_phase=phases.append) as session:
        session.run(call("AddOne"))
    assert phases[:2] == ["load the runtime", "load the op package"]
    assert phases.index("add the node") < phases.index("finalize") < phases.index("execute")


@pytest.mark.parametrize(
    ("broken", "match"),
    [
        (tensor(array=X.astype(np.float64)), "its array is float64"),
        (Tensor("x", "FLOAT_32", (2, 4), data=X), r"tensor `x` is FLOAT_32 \[2, 4\]"),
        (Tensor("x", "FLOAT_32", (2, 3)), "has no data"),
        (Tensor("x", "BFLOAT_16", (2, 3), data=X), "of which udogen cannot make a tensor"),
        (Tensor("x", "FLOAT_32", (2, 3), data=X.tolist()), "`x` is given a list"),  # type: ignore[arg-type]
        (tensor(array=np.ma.masked_array(X, X > 2)), "`x` is given a masked array"),
        (tensor(array=X.astype(">f4")), "its array is >f4"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_call(session: OpSession, broken: Tensor, match: str) -> None:
    with pytest.raises((RunFailed, UsageError), match=match):
        session.run(call("AddOne", (broken,)))
    assert session.run(call("AddOne")).outputs["y"][0, 0] == 1


@pytest.mark.parametrize("value", [None, [1, 2], 2j, np.array(None)], ids=str)
def test_a_scalar_is_a_number_or_a_text(session: OpSession, value: object) -> None:
    with pytest.raises(UsageError, match="Scalar: `value` is "):
        session.run(call("AddOne", params=(param_of("step", value, "INT_32"),)))  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers(session: OpSession) -> None:
    shape = tuple(np.array(X.shape))
    given = tensor(array=X.astype(np.uint8), dtype="UFIXED_POINT_8", quant=(np.float32(0.5), np.int64(-3)))
    answer = session.run(
        call("CopyBytes", (replace(given, shape=shape),), (replace(given, name="y", data=None),), loops=np.int64(2))
    )
    np.testing.assert_array_equal(answer.outputs["y"], X.astype(np.uint8))
    with pytest.raises(UsageError, match=r"Tensor: `quant` is a float: 0\.5"):
        session.run(call("CopyBytes", (replace(given, quant=0.5),)))
    with pytest.raises(UsageError, match=r"OpCall: `loops` is a float: 2\.5"):
        session.run(call("AddOne", loops=2.5))


def test_a_call_from_another_thread_waits_until_the_first_one_is_over(probe: Path) -> None:
    """While the first call is in progress, the second one does not start."""
    heard: list[str] = []
    other: list[threading.Thread] = []
    second = threading.Event()
    answers = {}

    def run(name: str, step: int) -> None:
        answers[name] = session.run(call("AddOne", params=(param_of("step", step, "INT_32"),)))

    def on_phase(phase: str) -> None:
        name = threading.current_thread().name
        heard.append(name)
        if name == "second":
            second.set()
        elif name == "first" and phase == "finalize":
            other.append(threading.Thread(target=run, args=("second", 7), name="second"))
            other[0].start()
            assert not second.wait(0.5)

    with OpSession(probe, PROVIDER, timeout=20, on_phase=on_phase) as session:
        first = threading.Thread(target=run, args=("first", 3), name="first")
        first.start()
        first.join()
        other[0].join()
    calls = [name for name in heard if name in ("first", "second")]
    assert calls == sorted(calls)
    np.testing.assert_array_equal(answers["first"].outputs["y"], X + 3)
    np.testing.assert_array_equal(answers["second"].outputs["y"], X + 7)
