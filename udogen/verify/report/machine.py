"""Machine-readable reports of a test run: the JSON of `--json`, and JUnit XML, which every CI reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from udogen.errors import UdogenError
from udogen.verify.baseline import CostChange
from udogen.verify.report import terminal
from udogen.verify.report.text import written
from udogen.verify.results import ABSENT, BackendState, Cost, NetworkOutcome, Outcome, TensorResult, TestRun


def as_json(run: TestRun, changes: Sequence[CostChange] | None = None) -> dict[str, Any]:
    """The whole run, but only the first wrong element of arrays.  `changes` are costs compared with an earlier run."""
    compared = {} if changes is None else {"changes": [{**asdict(change), "ratio": change.ratio} for change in changes]}
    return {
        **run.verdict.as_json(),
        "folder": str(run.folder),
        "seconds": round(run.seconds, 3),
        "environment": dict(run.environment),
        "backends": [state_json(state) for state in run.states],
        "cases": [_outcome(outcome) for outcome in run.outcomes],
        "networks": [_network(network) for network in run.networks],
        "warnings": list(run.warnings),
        "unwritten": list(run.unwritten),
        "selection": run.selection and asdict(run.selection),
        **compared,
    }


def state_json(state: BackendState) -> dict[str, Any]:
    runtime = state.runtime
    about = runtime and {"name": runtime.name, "build_id": runtime.build_id, "path": runtime.path}
    row = {name: value for name, value in asdict(state).items() if name != "title"}
    return {**row, "details": list(state.details), "runtime": about}


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
        "tensors": [_tensor(tensor, outcome) for tensor in outcome.tensors],
        "message": _message(outcome),
        "text": terminal.failure(outcome) if outcome.status in ("failed", "error") else [],
        "error": asdict(outcome.error) if outcome.error else None,
        "findings": [finding.as_json() for finding in outcome.findings],
        "smallest": None
        if outcome.smallest is None
        else {name: list(array.shape) for name, array in outcome.smallest.inputs.items()},
        "cost": _cost(outcome.cost),
    }


_NETWORK_KEYS = ("runtime", "samples", "random", "assumed", "on_qnn", "elsewhere", "first_wrong", "fault")


def _network(outcome: NetworkOutcome) -> dict[str, Any]:
    result: dict[str, Any] = {} if outcome.result is None else outcome.result.as_json()
    return {
        "network": outcome.name,
        "backend": outcome.backend,
        "bits": outcome.bits,
        "status": outcome.status,
        "location": outcome.location,
        "seconds": round(outcome.seconds, 6),
        "text": terminal.network_lines(outcome),
        "error": asdict(outcome.error) if outcome.error else None,
        "layers": result.get("layers", []),
        **{name: result.get(name) for name in _NETWORK_KEYS},
    }


def _tensor(tensor: TensorResult, outcome: Outcome) -> dict[str, Any]:
    first = tensor.first
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.expected.shape),
        "tolerance": tensor.tolerance,
        "max_error": tensor.max_error,
        "worst": tensor.worst,
        "wrong": tensor.wrong,
        "first": None
        if first is None
        else {
            "at": list(first),
            "found": float(tensor.found[first]),
            "expected": float(tensor.expected[first]),
            "inputs": outcome.inputs_at(tensor, first),
        },
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {**asdict(cost), "intensity": cost.intensity}


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | list) else str(value)


# --- JUnit ------------------------------------------------------------------------------------------------------------


def junit(result: Mapping[str, Any]) -> str:
    """JUnit XML of a result: a suite for each backend; if none of its cases ran, the suite has one skipped case."""
    from lxml import etree

    tree: Any = etree
    root = tree.Element("testsuites", name="udogen test", time=f"{result['seconds']:.3f}")
    for state in result["backends"]:
        rows = [_of_case(case) for case in result["cases"] if case["backend"] == state["backend"]]
        if state["cases"] and (not rows or state["state"] in ABSENT):
            reason = f"{state['reason']} ({state['hint']})" if state["hint"] else state["reason"]
            tag = "error" if state["build_failed"] else "skipped"
            rows.append(_JUnitRow(state["backend"], f"{state['cases']} cases", 0.0, tag, reason))
        _add_suite(tree, root, state["backend"], rows)
    _add_suite(tree, root, "networks", [_of_network(network) for network in result["networks"]])
    vectors = [_JUnitRow("vectors", text, 0.0, "skipped", text) for text in result["not_executed"]]
    _add_suite(tree, root, "vectors for Hexagon", vectors)
    _add_suite(tree, root, "verdict", [_JUnitRow("verdict", text, 0.0, "error", text) for text in result["reasons"]])
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name)) for suite in root)))
    document: bytes = tree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return document.decode()


def junit_of_error(error: UdogenError) -> str:
    """JUnit XML of a run that an error ended before its first case."""
    from lxml import etree

    root = etree.Element("testsuites", name="udogen test", tests="1", errors="1")
    _add_suite(etree, root, "error", [_JUnitRow("udogen", "test", 0.0, "error", error.message, error.kind, str(error))])
    return etree.tostring(root, pretty_print=True, encoding="unicode")


class _JUnitRow(NamedTuple):
    """A test case, and the child element that contains its result."""

    classname: str
    name: str
    seconds: float
    tag: str = ""  # empty: it passed
    message: str = ""
    kind: str = ""
    text: str = ""


def _of_case(case: Mapping[str, Any]) -> _JUnitRow:
    row = _JUnitRow(f"{case['op']}.{case['backend']}", f"{case['case']} [{case['dtype']}]", case["seconds"])
    if case["status"] in ("skipped", "ran"):
        return row._replace(tag="skipped", message=case["message"])
    if case["status"] == "passed":
        return row
    tag, kind = ("failure", "wrong numbers") if case["status"] == "failed" else ("error", "error")
    kind = case["error"]["kind"] if case["error"] else kind
    return row._replace(tag=tag, kind=kind, message=case["message"], text="\n".join(case["text"]))


def _of_network(result: Mapping[str, Any]) -> _JUnitRow:
    name, error = f"{result['network']} [{result['bits']}]", result["error"]
    row = _JUnitRow(f"network.{result['backend']}", name, result["seconds"], text="\n".join(result["text"]))
    if result["status"] == "skipped":
        return row._replace(tag="skipped", message=error["message"], text="")
    if error:
        return row._replace(tag="error", kind=error["kind"], message=error["message"])
    if result["status"] == "failed":
        kind = "wrong numbers" if result["first_wrong"] else "nothing compared"
        return row._replace(tag="failure", kind=kind, message=result["fault"])
    return row._replace(tag="system-out")


def _add_suite(tree: Any, root: Any, name: str, rows: Sequence[_JUnitRow]) -> None:
    if not rows:
        return
    suite = tree.SubElement(root, "testsuite", name=written(name))
    for row in rows:
        case = tree.SubElement(
            suite, "testcase", classname=written(row.classname), name=written(row.name), time=f"{row.seconds:.6f}"
        )
        if row.tag:
            attributes = {"type": row.kind, "message": row.message}
            given = {key: written(value) for key, value in attributes.items() if value}
            element = tree.SubElement(case, row.tag, given)
            element.text = written(row.text) or None
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(row.tag == tag for row in rows)))
    suite.set("tests", str(len(rows)))
    suite.set("time", f"{sum(row.seconds for row in rows):.3f}")


def _message(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error.message
    if outcome.status == "ran":
        lacks = "its outputs have no elements" if outcome.tensors else "there is no reference"
        return f"it ran, and {lacks} to compare with"
    if outcome.status == "passed":
        return ""
    if outcome.findings:
        return outcome.findings[0].message
    worst = outcome.worst
    return f"{worst.wrong} of {worst.expected.size} numbers of {worst.name} are wrong" if worst else "wrong"
