"""Kernels with one fault each, in the real libQnnCpu and in Qualcomm's HTP emulator: the cause is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hexagon.running import need_tools
from tests.making import cpu_package, htp_package, make_packages, need_runtime
from tests.verify.faults import Fault, faults
from udogen import Case
from udogen.runtime import OpFailed
from udogen.runtime.built import Built, find_source
from udogen.runtime.op.calls import POISON
from udogen.runtime.ops import HexagonSession, OpSession
from udogen.verify.cases import Origin
from udogen.verify.diagnosis.causes import diagnose
from udogen.verify.diagnosis.wrong_output import FailedCase, OpRerun, store
from udogen.verify.tolerances import Tolerance, judge

HERE = Path(__file__).parent / "faulty"
FAULTS = {fault.op: fault for fault in faults()}
ON_HTP = [op for op, fault in FAULTS.items() if "htp" in fault.backends]
Opened = tuple[Built, OpSession] | tuple[Built, HexagonSession]


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    need_runtime("cpu")
    built = cpu_package(HERE / "Faulty.xml", tmp_path_factory.mktemp("cpu"), HERE / "kernels")
    with OpSession(built.library, built.provider, timeout=60) as session:
        yield built, session


@pytest.fixture(scope="module")
def on_htp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    built = htp_package(HERE / "Faulty.xml", tmp_path_factory.mktemp("htp"), HERE / "kernels")
    with OpSession(built.library, built.provider, backend="htp", timeout=60) as session:
        yield built, session


def evidence_of(fault: Fault, opened: Opened, backend: str) -> FailedCase:
    """Return the evidence of a runner: outputs are poisoned, so that an unwritten element does not look like a zero."""
    built, session = opened
    outputs = fault.outputs(fault.inputs, fault.params, fault.quants)["y"]
    expected = {"y": store(outputs, np.dtype(fault.dtype), fault.quants.get("y"))}
    op = built.op(fault.op, backend)
    assert op is not None
    case = Case(
        "fault",
        fault.op,
        fault.inputs,
        expected,
        fault.params,
        fault.quants,
        fault.tolerance,
        origin=Origin(lambda _shapes: None, fault.outputs, lambda: None),
    )
    rerun = OpRerun(session, built, op, case)
    rerun(poison=POISON)  # as in a test run, which executes each case several times
    return FailedCase(
        case,
        rerun(poison=POISON),
        defaults={param.name: param.default for param in op.params if param.default is not None},
        rerun=rerun,
    )


def check(fault: Fault, evidence: FailedCase) -> None:
    assert judge(evidence.found["y"], evidence.case.expected["y"], fault.tolerance).wrong, "the fault does not show"
    findings = diagnose(evidence)
    print(*findings, sep="\n")
    assert [finding.kind for finding in findings][:1] == ([fault.cause] if fault.cause else [])
    assert len(findings) <= 3


@pytest.mark.parametrize("op", FAULTS)
def test_on_the_cpu(op: str, on_cpu: Opened) -> None:
    check(FAULTS[op], evidence_of(FAULTS[op], on_cpu, "cpu"))


@pytest.mark.parametrize("op", ON_HTP)
def test_on_htp(op: str, on_htp: Opened) -> None:
    check(FAULTS[op], evidence_of(FAULTS[op], on_htp, "htp"))


# `how` of LeaveState -> what it changes; flags of exceptions that were raised are not a state.
STATES = {0: "", 1: "the rounding mode", 2: "flush to zero", 3: "denormals are zero", 4: "the exception masks",
          5: "the precision of the x87", 6: "the rounding mode, the rounding mode of the x87", 7: ""}  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_an_op_that_leaves_another_floating_point_state_is_named(backend: str, request: pytest.FixtureRequest) -> None:
    """On HTP, whose own threads execute ops, the package finds out; on CPU the worker."""
    opened = request.getfixturevalue(f"on_{backend}")
    for how, what in STATES.items():
        if what:
            with pytest.raises(OpFailed) as raised:
                leave_state(opened, backend, how)
            assert "changed the floating-point state of its thread and left it so" in raised.value.message
            assert "op `LeaveState`" in raised.value.message
            assert backend == "htp" or raised.value.message.endswith(f": {what}")
        for _ in range(4):  # each thread of HTP
            assert leave_state(opened, backend, 0) == _DEFAULT, f"{what} was left"


_DEFAULT = 0x1F80 >> 6


def leave_state(opened: Opened, backend: str, how: int) -> int:
    """Return the state in which the op was called."""
    built, session = opened
    x = np.arange(8, dtype=np.uint8)
    case = Case("state", "LeaveState", {"x": x}, {"y": x}, {"how": how})
    return int(session.run(case.call(built.op("LeaveState", backend), built)).outputs["y"][0])


def test_a_right_kernel_has_no_cause(on_cpu: Opened) -> None:
    x: Any = np.random.default_rng(1).normal(size=(4, 5, 6)).astype(np.float32)
    evidence = evidence_of(Fault("Right", "", np.tanh, {"x": x}), on_cpu, "cpu")
    assert not judge(evidence.found["y"], evidence.case.expected["y"], Tolerance(1e-5)).wrong
    assert diagnose(evidence) == ()


@pytest.fixture(scope="module")
def on_hexagon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Built, HexagonSession]]:
    need_tools()
    [made] = make_packages(
        [HERE / "Faulty.xml"],
        tmp_path_factory.mktemp("hexagon"),
        chosen=["htp"],
        kernels=HERE / "kernels",
        layout="qnn",
    )
    built = find_source(made.folder, backend="htp")
    assert built.folder is not None
    with HexagonSession(built.folder, timeout=60) as session:
        yield built, session


@pytest.mark.parametrize("op", ["InvertBytes", "Relu"])
def test_on_hexagon(op: str, on_hexagon: tuple[Built, HexagonSession]) -> None:
    """The instruction set under QEMU; kernels that skip an incomplete vector are most common there."""
    check(FAULTS[op], evidence_of(FAULTS[op], on_hexagon, "htp"))
