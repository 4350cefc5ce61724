"""A made-up run with an example of everything: no backend is needed, and its numbers are the same on every machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.making import ROOT
from udogen import Case, Outcome, resources
from udogen.onnx.network.compare import Elsewhere, LayerResult, NetworkResult
from udogen.runtime.library import RuntimeInfo
from udogen.verify.baseline import Baseline, CostChange
from udogen.verify.report import page
from udogen.verify.results import (
    BackendState,
    CaseError,
    Cost,
    Finding,
    NetworkOutcome,
    Spread,
    Status,
    TensorResult,
    TestRun,
)
from udogen.verify.tolerances import Tolerance

Shape = tuple[int, ...]

CPU = RuntimeInfo("CPU_QTI_AISW", "v2.47.0.260601114230", "2.36.0", "1.1.0", "/opt/qnn/lib/libQnnCpu.so")
HTP = RuntimeInfo("HTP_QTI_AISW", "v2.47.0.260601114230", "2.36.0", "5.47.0", "/opt/qnn/lib/libQnnHtp.so")
GPU = RuntimeInfo("UDOGEN_GPU", "udogen", "2.36.0", "1.0.0", "/cache/libUdogenGpu.so", emulator=True)
QEMU = RuntimeInfo("Hexagon v73 under qemu-hexagon 7.2.22", "", "", "", "")
STATES = (
    BackendState("cpu", "Qualcomm's CPU runtime", "ran", real=True, runtime=CPU),
    BackendState("htp", "Qualcomm's HTP runtime", "ran", real=True, runtime=HTP),
    BackendState("gpu", "GPU: udogen's emulator on OpenCL where there is no Adreno", "ran", runtime=GPU),
    BackendState("hexagon", "HTP kernels as Hexagon code under qemu-hexagon", "ran", runtime=QEMU),
    BackendState(
        "dsp",
        "DSP V65/V66 kernels under qemu-hexagon",
        "unbuilt",
        "the package has no library for DSP: src/ops/Softmax.cpp does not compile",
        "mend the kernel, then `udogen build dsp_v66 -C out/SoftmaxPackageDsp`",
        ("Softmax.cpp:41:12: error: use of undeclared identifier 'exp2f_hvx'", "1 error generated."),
        cases=9,
    ),
    BackendState("cpu-emulator", "udogen's CPU emulator", "skipped", hint="enable with --backend cpu-emulator"),
)


def waves(shape: Shape, *, phase: float = 0.0, dtype: str = "float32") -> np.ndarray:
    """Return numbers between -1 and 1; adjacent ones always differ."""
    return np.sin(np.arange(np.prod(shape)) * 0.7 + phase).reshape(shape).astype(dtype)


def tensor_result(
    name: str,
    expected: np.ndarray,
    found: np.ndarray,
    *,
    allowed: Tolerance,
    dtype: str = "FLOAT_32",
    quant: tuple[float, int] | None = None,
) -> TensorResult:
    """Return an output with the runner's verdict."""
    dtype = "UFIXED_POINT_8" if quant else dtype
    return TensorResult.judged(name, dtype, expected=expected, found=found, tolerance=allowed, quant=quant)


FLOAT = Tolerance(1e-6, 1e-5)
STEP = Tolerance(1.0)


def outcome(
    name: str,
    *,
    expected: np.ndarray,
    found: np.ndarray | None = None,
    op: str = "Softmax",
    backend: str = "cpu",
    dtype: str = "FLOAT_32",
    allowed: Tolerance = FLOAT,
    quant: tuple[float, int] | None = None,
    status: Status | None = None,
    findings: tuple[Finding, ...] = (),
    error: CaseError | None = None,
    cost: Cost | None = None,
    **params: object,
) -> Outcome:
    """Return a case with one input and one output of one shape."""
    tensors = (
        () if found is None else (tensor_result("output", expected, found, allowed=allowed, dtype=dtype, quant=quant),)
    )
    case = Case(
        name,
        op,
        {"input": waves(expected.shape)},
        {"output": expected},
        params=params,
        quants={"output": quant} if quant else {},
        tolerance=allowed,
        dtypes={"output": dtype},
    )
    judged: Status = status or ("failed" if any(tensor.wrong for tensor in tensors) else "passed")
    runtime = {"cpu": CPU, "htp": HTP, "gpu": GPU}.get(backend)
    return Outcome(
        case,
        backend,
        dtype,
        judged,
        runtime=runtime,
        tensors=tensors,
        error=error,
        findings=findings,
        cost=cost or Cost(),
    )


def timed(microseconds: float, *, numpy: float = 9.0, moved: int = 12288) -> Cost:
    """Return the cost of a case on a host."""
    spread = Spread(microseconds * 1e-6, microseconds * 0.96e-6, microseconds * 1.3e-6, 2000)
    return Cost(spread, 2e-3, Spread(numpy * 1e-6, numpy * 1e-6, numpy * 1.1e-6, 1000), bytes_moved=moved)


LAYOUT = Finding(
    "the output is what comes out when the input is read as NCHW, and the config has NHWC",
    "read the channel as the last axis: input[((n * H + h) * W + w) * C + c]",
    kind="layout-swap",
    evidence="simulating this fault reproduces the output (1536 of 2048 elements)",
)
TAIL = Finding(
    "the last 8 elements of each row were not written",
    "let the loop after the vector loop run to the end: `for (; i < n; ++i)`",
    kind="unwritten-tail",
    evidence="they hold the byte that the memory had been filled with, and begin where 32 elements are full",
)
ROUNDING = Finding(
    "results are truncated where the nearest is expected",
    "add half a step before the conversion, or use lrintf",
    kind="rounding",
    evidence="truncating the results of the reference gives exactly what was found: 61 of 240 elements show it",
)


def layout_swap(name: str = "image 1x16x16x8", *, backend: str = "cpu", shape: Shape = (1, 16, 16, 8)) -> Outcome:
    """Return a case that reads NHWC as NCHW."""
    right = waves(shape)
    n, h, w, c = shape
    wrong = right.reshape(n, c, h, w).transpose(0, 2, 3, 1).copy()
    made = outcome(
        name,
        expected=right,
        found=wrong,
        backend=backend,
        findings=(LAYOUT,),
        cost=timed(6.2),
        axis=-1,
        beta=1.0,
    )
    return replace(made, smallest=outcome("", expected=waves((1, 1, 2, 2))).case)


def failures() -> list[Outcome]:
    """Return a failure of each kind."""
    tail = waves((3, 40), phase=0.3)
    unwritten = tail.copy()
    unwritten[:, 32:] = np.nan
    unwritten[0, 35] = 3e38
    steps = (np.arange(240) * 7 % 251).reshape(4, 60).astype(np.uint8)
    truncated = (steps - (np.arange(240) % 4 == 1).reshape(4, 60) * 2).astype(np.uint8)
    few = waves((2, 6), phase=1.0)
    near = few.copy()
    near[1, 2:4] += np.float32([0.02, -0.5])
    vector = waves((200,), phase=0.1)
    shifted = np.roll(vector, 1)
    return [
        layout_swap(),
        layout_swap("image 1x16x16x8", backend="gpu"),
        outcome("two rows", expected=few, found=near, backend="gpu", cost=timed(81.0), axis=-1),
        outcome("uneven rows 3x40", expected=tail, found=unwritten, findings=(TAIL,), backend="htp", axis=1),
        outcome(
            "every value",
            op="AddSat",
            expected=steps,
            found=truncated,
            dtype="UFIXED_POINT_8",
            quant=(0.0078125, -128),
            allowed=STEP,
            backend="htp",
            findings=(ROUNDING,),
        ),
        outcome("vector of 200", op="AddSat", expected=vector, found=shifted),
        outcome(
            "empty 0x4",
            expected=np.zeros((0, 4), np.float32),
            status="error",
            error=CaseError(
                "op-crashed",
                "op Softmax crashed with SIGSEGV (invalid memory) in execute",
                "build with `udogen build --sanitize address` and run it again: it shows the line",
                ("softmax_execute at src/ops/Softmax.cpp:58", "udo::dispatch at src/ops/Softmax.gen.cpp:31"),
            ),
        ),
    ]


def passing(count: int = 30) -> list[Outcome]:
    """Return cases that are right, or slightly inexact."""
    made = []
    for number in range(count):
        backend = ("cpu", "htp", "gpu", "hexagon")[number % 4]
        op, dtype = (("Softmax", "FLOAT_32"), ("AddSat", "UFIXED_POINT_8"))[number // 4 % 2]
        right = waves((2, 3 + number % 5), phase=number)
        found = right + np.float32(3e-7 if number % 3 else 0)
        cost = Cost(packets=1741 + number, bytes_moved=4096) if backend == "hexagon" else timed(1.9 + number % 7)
        name = f"normal {right.shape[0]}x{right.shape[1]} seed {number}"
        made.append(outcome(name, expected=right, found=found, op=op, dtype=dtype, backend=backend, cost=cost, axis=-1))
    made[0] = replace(
        made[0],
        cost=replace(
            timed(2.4, moved=65536),
            builtin=Spread(1.7e-6, 1.6e-6, 1.9e-6, 2000),
            builtin_name="qti.aisw::Softmax",
            operations=49152.0,
        ),
    )
    return made


def skipped() -> Outcome:
    """Return a case that cannot be run there."""
    why = CaseError("rank", "tensors of 5 axes do not exist there")
    return outcome("five axes", expected=waves((1, 2, 2, 2, 2)), backend="gpu", status="skipped", error=why)


def earlier() -> tuple[tuple[CostChange, ...], Baseline]:
    """Return the costs of an earlier run."""
    changes = (
        CostChange("Softmax", "normal 2x3 seed 0", "FLOAT_32", "cpu", "time", 1.6e-6, 2.4e-6, True),
        CostChange("Softmax", "normal 2x6 seed 3", "FLOAT_32", "hexagon", "packets", 1744, 1744, False),
        CostChange("AddSat", "normal 2x7 seed 4", "UFIXED_POINT_8", "cpu", "time", 6.1e-6, 5.9e-6, False),
    )
    return changes, Baseline(Path("costs.json"), {"Python": "3.12.1, numpy 2.3.5"}, {})


def networks() -> tuple[NetworkOutcome, ...]:
    """Return one that is right, one whose second layer is wrong, one that cannot be run."""
    right = tuple(
        LayerResult(f"node {number}", op, op.lower(), "FLOAT_32", (1, 8, 16), 1e-7, 2e-7, 0.1, wrong=False)
        for number, op in enumerate(("Conv", "Softmax", "Gemm"))
    )
    wrong = (right[0], replace(right[1], own=0.25, error=0.25, steps=None, wrong=True), replace(right[2], error=0.5))
    gone = Elsewhere("node 2", "Gemm", "Operators of type `Gemm` are not supported by QNN EP.")
    result = NetworkResult("onnxruntime 1.27.0 with libQnnCpu.so", "cpu", "8", 2, right, 0.1, (gone,), ("x",), {})
    error = CaseError("op-refused", "the op Softmax was refused", "see the log")
    return (
        NetworkOutcome("small", "cpu-ort", "8", "passed", "op_tests.toml:40", result, seconds=1.5),
        NetworkOutcome("small", "cpu-ort", "float", "failed", "op_tests.toml:40", replace(result, layers=wrong)),
        NetworkOutcome("small", "htp-ort", "8", "error", "op_tests.toml:40", error=error),
    )


def sample() -> TestRun:
    """Return a run with everything that a report can show."""
    unchecked = outcome("smoke", expected=waves((4, 4)), status="ran", backend="hexagon")
    return TestRun(
        Path("examples/softmax"),
        STATES,
        (*failures(), *passing(), skipped(), unchecked),
        seconds=4.21,
        environment=(
            ("udogen", "0.1.0"),
            ("machine", "x86_64, 2 cores, Some Processor"),
            ("Python", "3.11.2, numpy 2.3.5"),
        ),
        warnings=("op_tests.toml:31: the case `large` has no reference, so its numbers are not checked",),
        networks=networks(),
    )


GOLDEN = ROOT / "tests" / "golden" / "report" / "sample.html"


def rendered() -> str:
    """Return the sample's report, with the name of its style sheet instead of the text."""
    style = (resources.templates() / "report" / "report.css").read_text("utf-8").strip()
    text = page.render(sample(), *earlier())
    assert text.count(style) == 1
    return text.replace(style, "report.css")


def write_golden() -> None:
    """Write the current report of the sample."""
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(rendered(), "utf-8")
