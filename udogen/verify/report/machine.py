"""A test run for programs: the JSON of `--json`, and JUnit XML, which every CI reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from udogen.verify.baseline import CostChange
from udogen.verify.report import terminal
from udogen.verify.results import BackendState, Cost, Outcome, TensorResult, TestRun


def as_json(run: TestRun, changes: Sequence[CostChange] | None = None) -> dict[str, Any]:
    """The whole run; of arrays only the first wrong element.  `changes` of costs, if there is an earlier run."""
    compared = {} if changes is None else {"changes": [{**asdict(each), "ratio": each.ratio} for each in changes]}
    return {
        "ok": run.passed,
        "folder": str(run.folder),
        "seconds": round(run.seconds, 3),
        "counts": {status: run.count(status) for status in ("passed", "failed", "error", "skipped", "ran")},
        "environment": dict(run.environment),
        "backends": [_state(each) for each in run.states],
        "cases": [_outcome(each) for each in run.outcomes],
        "warnings": list(run.warnings),
        **compared,
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
        "error": asdict(outcome.error) if outcome.error else None,
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
    fields = {name: value for name, value in asdict(cost).items() if name != "functions"}
    return {**fields, "intensity": cost.intensity}


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | list) else str(value)


def _number(value: float) -> float | str:
    """JSON has neither infinities nor NaN."""
    return value if math.isfinite(value) else str(value)


# --- JUnit ------------------------------------------------------------------------------------------------------------


def junit(run: TestRun) -> str:
    """JUnit XML: a suite for each backend; cases of backends that did not run are skipped, with the reason."""
    from lxml import etree

    tree: Any = etree
    root = tree.Element("testsuites", name="udogen test", time=f"{run.seconds:.3f}")
    for state in run.states:
        outcomes = [each for each in run.outcomes if each.backend == state.backend]
        if not outcomes and not state.cases:
            continue
        suite = tree.SubElement(root, "testsuite", name=state.backend)
        for outcome in outcomes:
            _case(tree, suite, outcome)
        if not outcomes:
            _not_run(tree, suite, state)
        _count(suite)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name) or 0) for suite in root)))
    made: bytes = tree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return made.decode()


def _case(tree: Any, suite: Any, outcome: Outcome) -> None:
    case = outcome.case
    row = tree.SubElement(
        suite,
        "testcase",
        classname=f"{case.op}.{outcome.backend}",
        name=_clean(f"{case.name} [{outcome.dtype}]"),
        time=f"{outcome.seconds:.6f}",
    )
    if outcome.status in ("failed", "error"):
        tag, kind = ("failure", "wrong numbers") if outcome.status == "failed" else ("error", "error")
        kind = outcome.error.kind if outcome.error else kind
        made = tree.SubElement(row, tag, type=kind, message=_clean(_message(outcome)))
        made.text = _clean("\n".join(terminal.failure(outcome)))
    elif outcome.status in ("skipped", "ran"):
        reason = outcome.error.message if outcome.error else "it ran, and there is no reference to compare with"
        tree.SubElement(row, "skipped", message=_clean(reason))


def _message(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error.message
    if outcome.findings:
        return outcome.findings[0].sentence
    worst = outcome.worst
    return f"{worst.wrong} of {worst.expected.size} numbers of {worst.name} are wrong" if worst else "wrong"


def _not_run(tree: Any, suite: Any, state: BackendState) -> None:
    row = tree.SubElement(suite, "testcase", classname=state.backend, name=f"{state.cases} cases", time="0")
    tree.SubElement(row, "skipped", message=_clean(f"{state.reason} ({state.hint})" if state.hint else state.reason))


def _count(suite: Any) -> None:
    rows = list(suite)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(row.find(tag) is not None for row in rows)))
    suite.set("tests", str(len(rows)))
    suite.set("time", f"{sum(float(row.get('time')) for row in rows):.3f}")


def _clean(text: str) -> str:
    """XML 1.0 has no control characters."""
    return "".join(each if each in "\n\t" or each.isprintable() else "?" for each in text)
