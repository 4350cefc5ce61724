"""`udogen test` through ONNX Runtime with Qualcomm's provider: cpu-ort and htp-ort, on the real libraries."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.making import ROOT, need_runtime
from udogen import Outcome, TestOptions, ToolMissing
from udogen.backends import PLACES
from udogen.onnx.ort import preflight
from udogen.onnx.ort.op_session import OrtSession
from udogen.runtime import Tensor
from udogen.runtime.failures import NotExpressible
from udogen.runtime.op.calls import param_of
from udogen.runtime.ops import OpCall
from udogen.runtime.worker_process import WorkerSession
from udogen.verify import planning, test_run
from udogen.verify.packages import prepare
from udogen.verify.places import built_for
from udogen.verify.report import terminal
from udogen.verify.results import TestRun
from udogen.verify.test_files import configs
from udogen.verify.test_files.read import load_test_files

FOLDER = ROOT / "tests" / "verify" / "clients"
NEEDED = ("onnx", "onnxruntime", "onnxruntime_qnn")
pytestmark = pytest.mark.skipif(not all(map(importlib.util.find_spec, NEEDED)), reason=f"without {', '.join(NEEDED)}")
# ONNX Runtime's provider sends attributes in an arbitrary order, and packages over QHPI bind them by position.


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def run(work: Path) -> TestRun:
    for backend in ("cpu", "htp"):
        need_runtime(backend)
    options = TestOptions(backends=("cpu-ort", "htp-ort"), work=work)
    return test_run.run(planning.plan(load_test_files(FOLDER), options), options)


def of(run: TestRun, place: str, op: str) -> Mapping[str, Outcome]:
    return {
        outcome.case.name: outcome for outcome in run.outcomes if outcome.backend == place and outcome.case.op == op
    }


def test_the_runtime_is_named_as_qualcomms(run: TestRun) -> None:
    states = {state.backend: state for state in run.states}
    for place, library in (("cpu-ort", "libQnnCpu.so"), ("htp-ort", "libQnnHtp.so")):
        state = states[place]
        assert (state.state, state.real) == ("ran", True)
        assert state.runtime is not None and library in state.runtime.name and "onnxruntime 1." in state.runtime.name


CASES_OF_OURS = (
    "client: all parameters", "client: parameters as w, c, b, a", "client: parameters as b, c, w, a",
    "client: defaults", "client: without a", "client: without b", "client: without c",
    "client: chain of 2", "client: chain of 3",
)  # fmt: skip


@pytest.mark.parametrize("place", ["cpu-ort", "htp-ort"])
def test_parameters_and_chains(run: TestRun, place: str) -> None:
    """Each case was executed by the package: otherwise its proof would have made it an error."""
    found = of(run, place, "Mix")
    assert {name: found[name].status for name in CASES_OF_OURS} == dict.fromkeys(CASES_OF_OURS, "passed")
    assert all(each.tensors for each in found.values())
    assert not [
        outcome for outcome in run.outcomes if outcome.backend == place and outcome.error and "NotExec" in str(outcome)
    ]


def test_what_happens_in_the_client_is_a_verdict_and_the_others_run(run: TestRun) -> None:
    """A crash, the log of an op that fails, a refusal, a boolean, and what ONNX cannot express."""
    crash = "op `Fragile` crashed with SIGSEGV (segmentation fault) in phase `execute`"
    reason = "ONNX cannot express this call of op `Fragile`: parameter `text` is a STRING"
    wanted = {
        "good: 5": ("passed", None),
        "good: 2x2": ("passed", None),
        "crash: 2": ("error", crash),
        "failing: 2": ("error", "op `Fragile` failed when ONNX Runtime executed it: 12 is no good"),
        "refused: 2, limit=-1": ("passed", None),
        "truth: 2, flag=True": ("passed", None),
        "text: 2, text=hello": ("skipped", reason),
    }
    found = of(run, "cpu-ort", "Fragile")
    assert {name: (found[name].status, getattr(found[name].error, "message", None)) for name in wanted} == wanted
    assert [name for name, each in found.items() if each.status == "skipped"] == ["text: 2, text=hello"]
    assert found["failing: 2"].error and found["failing: 2"].error.kind == "op-failed"
    assert any(line.startswith("skipped on ") and line.endswith(reason) for line in terminal.lines(run))


def test_what_onnx_runtime_logs_of_an_error_is_plain_and_not_repeated(run: TestRun) -> None:
    for each in (outcome.error for outcome in run.outcomes if outcome.error):
        assert "\x1b" not in "".join(each.details)
        assert sum("Non-zero status" in line for line in each.details) <= 1


def test_a_missing_place_has_its_reason(monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
    def missing(_backend: str) -> None:
        raise ToolMissing("onnxruntime-qnn is not installed", hint="pip install it")

    monkeypatch.setattr(preflight, "check_releases", missing)
    options = TestOptions(backends=("cpu-ort",), work=work)
    found = test_run.run(planning.plan(load_test_files(FOLDER), options), options)
    [state] = found.states
    assert (state.state, state.reason, state.hint) == ("missing", "onnxruntime-qnn is not installed", "pip install it")
    assert not found.outcomes and not found.verdict.ok


def test_they_are_usual_places() -> None:
    """And they run the cases that a test file has for the backend itself."""
    for name, twin in (("cpu-ort", "cpu"), ("htp-ort", "htp")):
        assert PLACES[name].usual and PLACES[name].client and PLACES[name].twin == twin


# --- the session alone ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(run: TestRun, work: Path) -> OrtSession:
    suite, sources = configs.sources(load_test_files(FOLDER))
    source = sources[suite.ops[0].subject]
    place = PLACES["cpu-ort"]
    package = source.packages[0]
    prepare(source, package, place, ["Mix", "Fragile"], options=TestOptions(work=work))
    folder = next(each for each in work.glob("Clients-*/cpu/*") if (each / ".udogen").is_dir())
    return OrtSession(built_for(place, folder), backend="cpu")


X = np.arange(6, dtype=np.float32)


def call(op: str = "Fragile", x: np.ndarray = X, **params: float) -> OpCall:
    given = tuple(param_of(name, value, "FLOAT_32") for name, value in params.items())
    return OpCall(
        op, "ClientsPackage", (Tensor("x", "FLOAT_32", x.shape, data=x),), (Tensor("y", "FLOAT_32", x.shape),), given
    )


def test_prepared_calls_share_one_model(session: OrtSession, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [call("Mix", X + number, a=number, b=2, c=3) for number in range(5)]
    with session:
        requested: list[str] = []
        ask = WorkerSession.ask
        monkeypatch.setattr(
            WorkerSession,
            "ask",
            lambda self, asks, *rest: requested.append(type(asks).__name__) or ask(self, asks, *rest),
        )
        session.prepare([[each] for each in calls])
        for number, each in enumerate(calls):
            expected = 100 * number + 23 + (X + number) * np.resize([1, 2, 3], 6)
            assert np.allclose(session.run(each).outputs["y"], expected)
        assert requested == ["RunModel"]


def test_a_crash_among_prepared_calls_takes_only_itself(session: OrtSession) -> None:
    bad = np.float32([13, 1])
    calls = [call(x=X), call(x=bad), call(x=X + 1), call(x=X + 2)]
    with session:
        session.prepare([[each] for each in calls])
        for each, array in ((calls[0], X), (calls[2], X + 1), (calls[3], X + 2)):
            assert np.array_equal(session.run(each).outputs["y"], array)


def test_two_ops_of_one_package_are_no_chain(session: OrtSession) -> None:
    """ONNX Runtime registers a package once for each op, and the second time fails (4007)."""
    with session, pytest.raises(NotExpressible, match="ONNX Runtime takes one op of a package"):
        session.run_chain([call("Mix"), call("Fragile")])


def test_types_that_quantize_linear_does_not_make(session: OrtSession) -> None:
    wide = replace(call(), inputs=(Tensor("x", "UFIXED_POINT_32", (2,), data=np.uint32([1, 2]), quant=(0.5, 0)),))
    with session, pytest.raises(NotExpressible, match="UFIXED_POINT_32, and QuantizeLinear makes 8 and 16 bits"):
        session.run(wide)
