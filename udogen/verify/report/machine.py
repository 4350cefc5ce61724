"""A test run for programs: the JSON of `--json`, and JUnit XML, which every CI reads."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from udogen.errors import UsageError, read_plain
from udogen.tables import table
from udogen.verify import network
from udogen.verify.baseline import CostChange
from udogen.verify.report import terminal
from udogen.verify.results import BackendState, Cost, NetworkOutcome, Outcome, State, TensorResult, TestRun


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
        "networks": [_network(each) for each in run.networks],
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
        "message": _message(outcome),
        "text": terminal.failure(outcome) if outcome.status in ("failed", "error") else [],
        "error": asdict(outcome.error) if outcome.error else None,
        "findings": [asdict(each) for each in outcome.findings],
        "smallest": None
        if outcome.smallest is None
        else {name: list(array.shape) for name, array in outcome.smallest.inputs.items()},
        "cost": _cost(outcome.cost),
    }


def _network(outcome: NetworkOutcome) -> dict[str, Any]:
    answer: dict[str, Any] = {} if outcome.result is None else network.as_json(outcome.result)
    return {
        "network": outcome.name,
        "backend": outcome.backend,
        "bits": outcome.bits,
        "status": outcome.status,
        "location": outcome.location,
        "seconds": round(outcome.seconds, 6),
        "text": terminal.network_lines(outcome),
        "error": asdict(outcome.error) if outcome.error else None,
        "layers": [_layer(each) for each in answer.get("layers", [])],
        **{name: answer.get(name) for name in ("runtime", "samples", "random", "elsewhere", "first_wrong")},
    }


def _layer(layer: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) if isinstance(value, float) else value for name, value in layer.items()}


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


def junit(answer: Mapping[str, Any]) -> str:
    """JUnit XML of an answer: a suite for each backend; where none of its cases ran, one that is skipped."""
    from lxml import etree

    tree: Any = etree
    root = tree.Element("testsuites", name="udogen test", time=f"{answer['seconds']:.3f}")
    for state in answer["backends"]:
        cases = [each for each in answer["cases"] if each["backend"] == state["backend"]]
        if not cases and not state["cases"]:
            continue
        suite = tree.SubElement(root, "testsuite", name=state["backend"])
        for case in cases:
            _case(tree, suite, case)
        if not cases:
            _not_run(tree, suite, state)
        _count(suite)
    if answer["networks"]:
        suite = tree.SubElement(root, "testsuite", name="networks")
        for each in answer["networks"]:
            _network_case(tree, suite, each)
        _count(suite)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name) or 0) for suite in root)))
    made: bytes = tree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return made.decode()


def _case(tree: Any, suite: Any, case: Mapping[str, Any]) -> None:
    row = tree.SubElement(
        suite,
        "testcase",
        classname=f"{case['op']}.{case['backend']}",
        name=_clean(f"{case['case']} [{case['dtype']}]"),
        time=f"{case['seconds']:.6f}",
    )
    if case["status"] in ("failed", "error"):
        tag, kind = ("failure", "wrong numbers") if case["status"] == "failed" else ("error", "error")
        kind = case["error"]["kind"] if case["error"] else kind
        made = tree.SubElement(row, tag, type=kind, message=_clean(case["message"]))
        made.text = _clean("\n".join(case["text"]))
    elif case["status"] in ("skipped", "ran"):
        tree.SubElement(row, "skipped", message=_clean(case["message"]))


def _network_case(tree: Any, suite: Any, answer: Mapping[str, Any]) -> None:
    row = tree.SubElement(
        suite,
        "testcase",
        classname=f"network.{answer['backend']}",
        name=_clean(f"{answer['network']} [{answer['bits']}]"),
        time=f"{answer['seconds']:.6f}",
    )
    error, lines = answer["error"], "\n".join(answer["text"])
    if answer["status"] == "skipped":
        tree.SubElement(row, "skipped", message=_clean(error["message"]))
    elif error:
        tree.SubElement(row, "error", type=error["kind"], message=_clean(error["message"])).text = _clean(lines)
    elif answer["status"] == "failed":
        message = f"the first wrong layer is {answer['first_wrong']}"
        tree.SubElement(row, "failure", type="wrong numbers", message=_clean(message)).text = _clean(lines)
    else:
        tree.SubElement(row, "system-out").text = _clean(lines)


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


def _not_run(tree: Any, suite: Any, state: Mapping[str, Any]) -> None:
    row = tree.SubElement(suite, "testcase", classname=state["backend"], name=f"{state['cases']} cases", time="0")
    reason = f"{state['reason']} ({state['hint']})" if state["hint"] else state["reason"]
    tree.SubElement(row, "skipped", message=_clean(reason))


def _count(suite: Any) -> None:
    rows = list(suite)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(row.find(tag) is not None for row in rows)))
    suite.set("tests", str(len(rows)))
    suite.set("time", f"{sum(float(row.get('time')) for row in rows):.3f}")


def _clean(text: str) -> str:
    """XML 1.0 has no control characters."""
    return "".join(each if each in "\n\t" or each.isprintable() else "?" for each in text)


# --- several runs -----------------------------------------------------------------------------------------------------

_WORST: Sequence[State] = ("skipped", "ran", "missing", "unbuilt")


def read(path: Path) -> dict[str, Any]:
    """An answer that `--json` printed."""
    try:
        found = json.loads(read_plain(path).decode("utf-8"))
        assert {"ok", "counts", "backends", "cases", "networks", "seconds", "environment"} <= found.keys()
    except OSError as fault:
        raise UsageError(
            f"{path} cannot be read: {fault.strerror}", hint="give what `udogen test --json` wrote"
        ) from fault
    except (ValueError, AssertionError, AttributeError) as fault:
        raise UsageError(
            f"{path} is not the JSON of a test run", hint="give what `udogen test --json` wrote"
        ) from fault
    answer: dict[str, Any] = found
    return answer


def _merged_states(found: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One state of each backend: the worst, with the cases of all."""
    states: dict[str, Mapping[str, Any]] = {}
    for state in found:
        before = states.setdefault(state["backend"], {**state, "cases": 0})
        worse = max(before, state, key=lambda each: _WORST.index(each["state"]))
        runtime, real = before["runtime"] or state["runtime"], before["real"] or state["real"]
        total = before["cases"] + state["cases"]
        states[state["backend"]] = {**worse, "cases": total, "runtime": runtime, "real": real}
    return list(states.values())


def _merged_environment(found: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Each version, or all of them where the machines differ."""
    names = dict.fromkeys(name for each in found for name in each)
    return {name: " | ".join(dict.fromkeys(each.get(name, "unknown") for each in found)) for name in names}


def merge(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answers of runs of parts, or on several machines, as one; they ran side by side, so the longest counts."""
    cases = [case for answer in answers for case in answer["cases"]]
    counts = {name: sum(answer["counts"][name] for answer in answers) for name in answers[0]["counts"]}
    return {
        "ok": bool(counts["passed"] + counts["ran"]) and not counts["failed"] + counts["error"],
        "folder": " ".join(dict.fromkeys(answer["folder"] for answer in answers)),
        "seconds": max(answer["seconds"] for answer in answers),
        "counts": counts,
        "environment": _merged_environment([answer["environment"] for answer in answers]),
        "backends": _merged_states(state for answer in answers for state in answer["backends"]),
        "cases": cases,
        "networks": [each for answer in answers for each in answer["networks"]],
        "warnings": list(dict.fromkeys(text for answer in answers for text in answer["warnings"])),
    }


def lines(answer: Mapping[str, Any]) -> list[str]:
    """An answer for the terminal: what failed, a row for each backend, the sum."""
    found = [line for each in (*answer["cases"], *answer["networks"]) for line in each["text"]]
    rows = []
    for state in answer["backends"]:
        statuses = [case["status"] for case in answer["cases"] if case["backend"] == state["backend"]]
        counts = [str(statuses.count(status)) for status in answer["counts"]]
        if statuses or state["cases"]:
            rows.append([state["backend"], state["state"], *counts])
    found += [*([""] if found else []), *table(["backend", "state", *answer["counts"]], rows), "", *answer["warnings"]]
    total = ", ".join(f"{number} {status}" for status, number in answer["counts"].items())
    return [*found, f"{total} in {answer['seconds']:.1f} s"]
