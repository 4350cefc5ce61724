"""Machine-readable reports of a test run: the JSON of `--json`, and JUnit XML, which every CI reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from udogen.errors import UsageError, read_plain, reading
from udogen.runtime.op.calls import RuntimeInfo
from udogen.tables import table
from udogen.verify.baseline import CostChange
from udogen.verify.network import text as network_text
from udogen.verify.report import terminal
from udogen.verify.results import ABSENT, BackendState, Cost, NetworkOutcome, Outcome, TensorResult, TestRun, joined


def as_json(run: TestRun, changes: Sequence[CostChange] | None = None) -> dict[str, Any]:
    """The whole run, but only the first wrong element of arrays.  `changes` are costs compared with an earlier run."""
    compared = {} if changes is None else {"changes": [{**asdict(each), "ratio": each.ratio} for each in changes]}
    return {
        "ok": run.passed,
        "folder": str(run.folder),
        "seconds": round(run.seconds, 3),
        "counts": {status: run.count(status) for status in ("passed", "failed", "error", "skipped", "ran")},
        "environment": dict(run.environment),
        "backends": [_state(each) for each in run.states],
        "cases": [_outcome(each) for each in run.outcomes],
        "networks": [_network(each) for each in run.networks],
        "warnings": list(run.warnings),
        "unwritten": list(run.unwritten),
        **compared,
    }


def _state(state: BackendState) -> dict[str, Any]:
    runtime = state.runtime
    about = runtime and {"name": runtime.name, "build_id": runtime.build_id, "path": runtime.path}
    found = {name: value for name, value in asdict(state).items() if name != "title"}
    return {**found, "details": list(state.details), "runtime": about}


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
        "message": _message(outcome),
        "text": terminal.failure(outcome) if outcome.status in ("failed", "error") else [],
        "error": asdict(outcome.error) if outcome.error else None,
        "findings": [asdict(each) for each in outcome.findings],
        "smallest": None
        if outcome.smallest is None
        else {name: list(array.shape) for name, array in outcome.smallest.inputs.items()},
        "cost": _cost(outcome.cost),
    }


_NETWORK_KEYS = ("runtime", "samples", "random", "assumed", "on_qnn", "elsewhere", "first_wrong", "fault")


def _network(outcome: NetworkOutcome) -> dict[str, Any]:
    result: dict[str, Any] = {} if outcome.result is None else network_text.as_json(outcome.result)
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


def _tensor(tensor: TensorResult) -> dict[str, Any]:
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
        },
    }


def _cost(cost: Cost) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(cost).items() if name != "functions"}
    return {**fields, "intensity": cost.intensity}


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | list) else str(value)


# --- JUnit ------------------------------------------------------------------------------------------------------------


def junit(result: Mapping[str, Any]) -> str:
    """JUnit XML of a result: a suite for each backend; if none of its cases ran, the suite has one skipped case."""
    from lxml import etree

    tree: Any = etree
    root = tree.Element("testsuites", name="udogen test", time=f"{result['seconds']:.3f}")
    for state in result["backends"]:
        rows = [_of_case(each) for each in result["cases"] if each["backend"] == state["backend"]]
        if state["cases"] and (not rows or state["state"] in ABSENT):
            reason = f"{state['reason']} ({state['hint']})" if state["hint"] else state["reason"]
            rows.append(_JUnitRow(state["backend"], f"{state['cases']} cases", 0.0, "skipped", reason))
        _add_suite(tree, root, state["backend"], rows)
    _add_suite(tree, root, "networks", [_of_network(each) for each in result["networks"]])
    unwritten = [_JUnitRow("references", text, 0.0, "error", text) for text in result["unwritten"]]
    _add_suite(tree, root, "references", unwritten)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name)) for suite in root)))
    made: bytes = tree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return made.decode()


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
    suite = tree.SubElement(root, "testsuite", name=name)
    for row in rows:
        case = tree.SubElement(
            suite, "testcase", classname=row.classname, name=_clean(row.name), time=f"{row.seconds:.6f}"
        )
        if row.tag:
            found = {"type": row.kind, "message": _clean(row.message)}
            made = tree.SubElement(case, row.tag, {key: value for key, value in found.items() if value})
            made.text = _clean(row.text) or None
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(row.tag == tag for row in rows)))
    suite.set("tests", str(len(rows)))
    suite.set("time", f"{sum(row.seconds for row in rows):.3f}")


def _message(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error.message
    if outcome.status == "ran":
        return "it ran, and there is no reference to compare with"
    if outcome.status == "passed":
        return ""
    if outcome.findings:
        return outcome.findings[0].sentence
    worst = outcome.worst
    return f"{worst.wrong} of {worst.expected.size} numbers of {worst.name} are wrong" if worst else "wrong"


def _clean(text: str) -> str:
    """Replace control characters, which XML 1.0 does not allow."""
    return "".join(each if each in "\n\t" or each.isprintable() else "?" for each in text)


# --- several runs -----------------------------------------------------------------------------------------------------

_KEYS = {"folder", "counts", "backends", "cases", "networks", "seconds", "environment", "warnings", "unwritten"}


def read(path: Path) -> dict[str, Any]:
    """Read a result that `--json` printed."""
    hint = "give what `udogen test --json` wrote"
    with reading(path, hint=hint):
        data = read_plain(path)
    try:
        found: dict[str, Any] = json.loads(data.decode("utf-8"))
        assert found.keys() >= _KEYS
    except (ValueError, AssertionError, AttributeError) as fault:
        raise UsageError(f"{path} is not the JSON of a test run", hint=hint) from fault
    return found


def _state_of(row: Mapping[str, Any]) -> BackendState:
    """The inverse of `_state`."""
    runtime, details = row["runtime"], tuple(row["details"])
    found = RuntimeInfo(runtime["name"], runtime["build_id"], "", "", runtime["path"]) if runtime else None
    return BackendState(**{**row, "title": "", "details": details, "runtime": found})


def _merged_environment(found: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The environment of all results; where the machines differ, all values are listed."""
    names = dict.fromkeys(name for each in found for name in each)
    return {name: " | ".join(dict.fromkeys(each.get(name, "unknown") for each in found)) for name in names}


def merge(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the results of partial runs, or of several machines; they ran in parallel, so the longest time counts."""
    counts = {name: sum(result["counts"][name] for result in results) for name in results[0]["counts"]}
    states = joined(map(_state_of, _rows(results, "backends"))).values()
    unwritten = list(dict.fromkeys(_rows(results, "unwritten")))
    is_bad = counts["failed"] + counts["error"] or unwritten or any(each.build_failed for each in states)
    return {
        "ok": bool(counts["passed"] + counts["ran"]) and not is_bad,
        "folder": " ".join(dict.fromkeys(result["folder"] for result in results)),
        "seconds": max(result["seconds"] for result in results),
        "counts": counts,
        "environment": _merged_environment([result["environment"] for result in results]),
        "backends": [_state(each) for each in states],
        "cases": _rows(results, "cases"),
        "networks": _rows(results, "networks"),
        "warnings": list(dict.fromkeys(_rows(results, "warnings"))),
        "unwritten": unwritten,
    }


def _rows(results: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """The rows of all results under a key."""
    return list(chain.from_iterable(result[key] for result in results))


def lines(result: Mapping[str, Any]) -> list[str]:
    """A result for the terminal: what failed, a row for each backend, the totals."""
    found = [line for each in (*result["cases"], *result["networks"]) for line in each["text"]]
    rows = []
    for state in result["backends"]:
        statuses = [case["status"] for case in result["cases"] if case["backend"] == state["backend"]]
        counts = [str(statuses.count(status)) for status in result["counts"]]
        if statuses or state["cases"]:
            rows.append([state["backend"], state["state"], *counts])
    found += [
        *([""] if found else []),
        *table(["backend", "state", *result["counts"]], rows),
        "",
        *result["warnings"],
        *result["unwritten"],
    ]
    total = ", ".join(f"{number} {status}" for status, number in result["counts"].items())
    return [*found, f"{total} in {result['seconds']:.1f} s"]
