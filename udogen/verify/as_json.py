"""A run of tests as `--json` prints it; arrays stay out, but for what tells a failure."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from udogen.verify.results import BackendState, Cost, Outcome, Spread, TensorResult, TestRun, Trouble


def answer(run: TestRun) -> dict[str, Any]:
    """The whole run."""
    return {
        "ok": run.passed,
        "folder": str(run.folder),
        "seconds": round(run.seconds, 3),
        "counts": {status: run.count(status) for status in ("passed", "failed", "error", "skipped", "ran")},
        "environment": dict(run.environment),
        "backends": [_state(each) for each in run.states],
        "cases": [_outcome(each) for each in run.outcomes],
        "warnings": list(run.warnings),
    }


def _state(state: BackendState) -> dict[str, Any]:
    runtime = state.runtime
    return {
        "backend": state.backend,
        "state": state.state,
        "reason": state.reason,
        "hint": state.hint,
        "details": list(state.details),
        "cases": state.cases,
        "real": state.real,
        "runtime": None
        if runtime is None
        else {"name": runtime.name, "build_id": runtime.build_id, "path": runtime.path},
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "op": case.op,
        "case": case.name,
        "backend": outcome.backend,
        "dtype": outcome.dtype,
        "status": outcome.status,
        "shapes": {name: list(array.shape) for name, array in case.inputs.items()},
        "params": {name: _plain(value) for name, value in case.params.items()},
        "location": case.origin.location if case.origin else "",
        "seconds": round(outcome.seconds, 6),
        "tensors": [_tensor(each) for each in outcome.tensors],
        "error": _trouble(outcome.trouble),
        "findings": [asdict(each) for each in outcome.findings],
        "smallest": None
        if outcome.smallest is None
        else {name: list(array.shape) for name, array in outcome.smallest.inputs.items()},
        "cost": _cost(outcome.cost),
    }


def _tensor(tensor: TensorResult) -> dict[str, Any]:
    first = tensor.first
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.expected.shape),
        "tolerance": tensor.tolerance,
        "max_error": _number(tensor.max_error),
        "worst": _number(tensor.worst),
        "wrong": tensor.wrong,
        "first": None
        if first is None
        else {
            "at": list(first),
            "found": _number(float(tensor.found[first])),
            "expected": _number(float(tensor.expected[first])),
        },
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "execute": _spread(cost.execute),
        "finalize": cost.finalize,
        "numpy": _spread(cost.numpy),
        "builtin": _spread(cost.builtin),
        "builtin_name": cost.builtin_name,
        "builtin_fault": cost.builtin_fault,
        "packets": cost.packets,
        "kernel": cost.kernel,
        "bytes_moved": cost.bytes_moved,
        "operations": cost.operations,
        "intensity": cost.intensity,
    }


def _spread(spread: Spread | None) -> dict[str, Any] | None:
    return None if spread is None else asdict(spread)


def _trouble(trouble: Trouble | None) -> dict[str, Any] | None:
    return None if trouble is None else {**asdict(trouble), "details": list(trouble.details)}


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | list) else str(value)


def _number(value: float) -> float | str:
    """JSON has neither infinities nor NaN."""
    return value if math.isfinite(value) else str(value)
