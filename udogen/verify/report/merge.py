"""Merges the results of parts of a run, or of several machines: the JSON of `--json` in, the same JSON out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from udogen.documents.document import Document, Node
from udogen.documents.typed import INVALID, Hint, between, read_keys, require, value_of
from udogen.errors import UsageError, read_plain, reading
from udogen.findings import Findings
from udogen.resources import content_key
from udogen.runtime.library import RuntimeInfo
from udogen.tables import table
from udogen.verdict import LABELS, Status, Verdict
from udogen.verify.report.machine import state_json
from udogen.verify.results import ABSENT, BackendState, State, joined, verdict_of

Result = Mapping[str, Any]

_HINT = "give what `udogen test --json` wrote"


def _object(**keys: Hint) -> Hint:
    """A hint: an object that has these keys, and perhaps others."""

    def read(node: Node) -> Any:
        values = read_keys(node, keys, strict=False)
        for key in keys if isinstance(node.value, dict) else ():
            require(node, key, _HINT)
        return node.value if len(values) == len(keys) else INVALID

    return read


def _or_null(hint: Hint) -> Hint:
    return lambda node: None if node.value is None else value_of(node, hint)


_TEXTS = tuple[str, ...]
_COUNT, _SECONDS = between(int, 0, 1 << 53), between(float, 0, 1 << 53)
_ERROR = _or_null(_object(kind=str, message=str))
_STATE: dict[str, Hint] = {
    "backend": str,
    "state": State,
    "reason": str,
    "hint": str,
    "details": _TEXTS,
    "real": bool,
    "runtime": _or_null(_object(name=str, build_id=str, path=str)),
    "cases": _COUNT,
    "build_failed": bool,
}
_ROW: dict[str, Hint] = {
    "backend": str,
    "status": Status,
    "location": str,
    "seconds": _SECONDS,
    "text": _TEXTS,
    "error": _ERROR,
}
_CASE = _object(**_ROW, op=str, case=str, dtype=str, message=str)
_NETWORK = _object(**_ROW, network=str, bits=str, first_wrong=_or_null(str))
_RESULT = _object(
    ok=bool,
    folder=str,
    seconds=_SECONDS,
    counts=_object(**dict.fromkeys(Verdict(0).counts, _COUNT)),
    environment=Mapping[str, str],
    backends=tuple[Annotated[Any, _object(**_STATE)], ...],
    warnings=_TEXTS,
    unwritten=_TEXTS,
    not_executed=_TEXTS,
    cases=tuple[Annotated[Any, _CASE], ...],
    networks=tuple[Annotated[Any, _NETWORK], ...],
    selection=_object(part=_COUNT, parts=_COUNT, tests=str),
)


def _misfits(value: Any, path: Path) -> list[str]:
    """What in a result does not have its form."""
    findings = Findings()
    value_of(Document(value, {}, str(path), findings).top, _RESULT)
    return [finding.message for finding in findings.errors]


def _is_error(value: Any) -> bool:
    """Whether it is what a verb prints that ends with an error."""
    error = value.get("error") if isinstance(value, dict) else None
    return isinstance(error, dict) and isinstance(error.get("message"), str)


def _not_finite(name: str) -> None:
    raise ValueError(name)


def read(path: Path) -> Result:
    """Read a result that `--json` printed; raises unless it is complete, and its totals are those of its cases."""
    with reading(path, hint=_HINT):
        data = read_plain(path)
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_not_finite)
        json.dumps(value, ensure_ascii=False).encode()  # raises for half a surrogate pair
    except (ValueError, RecursionError) as fault:
        raise UsageError(f"{path} is not the JSON of a test run", hint=_HINT) from fault
    if _is_error(value):
        raise UsageError(f"{path} is of a run that ended early: {value['error']['message']}", hint="repeat this run")
    if misfits := _misfits(value, path) or list(_contradictions(value)):
        what, *others = misfits
        raise UsageError(f"{path} is not the JSON of a test run: {what}", details=others[:20], hint=_HINT)
    result: Result = value
    return result


def _verdict(results: Sequence[Result]) -> Verdict:
    """The verdict on the rows of some results; their own verdicts do not count."""
    rows = [*_rows(results, "cases"), *_rows(results, "networks")]
    return verdict_of(
        [(row["status"], row["error"]["kind"] if row["error"] else "") for row in rows],
        joined(map(_state_of, _rows(results, "backends"))).values(),
        planned=sum(result["counts"]["planned"] for result in results),
        unwritten=dict.fromkeys(_rows(results, "unwritten")),
        not_executed=tuple(dict.fromkeys(_rows(results, "not_executed"))),
    )


def _contradictions(result: Result) -> Iterator[str]:
    """Why the rows of a result do not account for all that was planned, or not for its own verdict."""
    verdict = _verdict([result])
    for name, count in verdict.counts.items():
        if result["counts"][name] != count:
            yield f"`counts.{name}` is {result['counts'][name]}, and there are {count}"
    if verdict.unaccounted:
        yield verdict.reasons[-1]
    if result["ok"] != verdict.ok:
        yield f"`ok` is {str(result['ok']).lower()}, and its rows are {verdict.sentence()}"
    known = {state["backend"] for state in result["backends"]}
    for case in result["cases"]:
        if case["backend"] not in known:
            yield f"`backends` has no {case['backend']}"
        if case["status"] in ("error", "skipped") and case["error"] is None:
            yield f"`error` of {case['op']}/{case['case']} is missing"
    for row in result["networks"]:
        if row["status"] in ("error", "skipped") and row["error"] is None:
            yield f"`error` of the network {row['network']} is missing"
    if not 1 <= result["selection"]["part"] <= result["selection"]["parts"]:
        yield f"it is part {result['selection']['part']} of {result['selection']['parts']}"


def _check_complete(results: Mapping[Path, Result]) -> None:
    """Raise unless there is each part of each selection of tests, once."""
    groups: dict[tuple[str, int], dict[int, list[Path]]] = {}
    for path, result in results.items():
        chosen = result["selection"]
        groups.setdefault((chosen["tests"], chosen["parts"]), {}).setdefault(chosen["part"], []).append(path)
    faults = []
    for (_, parts), by_part in groups.items():
        of = f" of the tests of {next(iter(by_part.values()))[0]}" if len(groups) > 1 else ""
        missing = [f"{part}/{parts}" for part in range(1, min(parts, 99) + 1) if part not in by_part]
        faults += [f"missing{of}: part {', '.join(missing)}"] if missing else []
        twice = (paths for paths in by_part.values() if len(paths) > 1)
        faults += [f"the same part twice: {', '.join(map(str, paths))}" for paths in twice]
    if faults:
        different = "; all parts need the same files, options, version of udogen" if len(groups) > 1 else ""
        raise UsageError(
            "these are not all parts of a run, each once", details=faults, hint=f"give each part once{different}"
        )


def merge(paths: Sequence[Path]) -> dict[str, Any]:
    """Merge the results of partial runs, or of several machines; they ran in parallel, so the longest time counts."""
    if len(set(paths)) < len(paths):
        raise UsageError("a file is given twice", hint="give each part once")
    by_path = {path: read(path) for path in paths}
    _check_complete(by_path)
    results = list(by_path.values())
    verdict = _verdict(results)
    if not verdict.is_bad and (idle := [path for path, result in by_path.items() if not result["ok"]]):
        faults = [f"{path}: {'; '.join(_verdict([by_path[path]]).reasons)}" for path in idle]
        raise UsageError(f"{idle[0]} is not ok", details=faults, hint="repeat this run where its places exist")
    return {
        **verdict.as_json(),
        "folder": " ".join(dict.fromkeys(result["folder"] for result in results)),
        "seconds": max(result["seconds"] for result in results),
        "environment": _environment([result["environment"] for result in results]),
        "backends": [state_json(state) for state in joined(map(_state_of, _rows(results, "backends"))).values()],
        "cases": _rows(results, "cases"),
        "networks": _rows(results, "networks"),
        "warnings": list(dict.fromkeys(_rows(results, "warnings"))),
        "unwritten": list(dict.fromkeys(_rows(results, "unwritten"))),
        "selection": {
            "part": 1,
            "parts": 1,
            "tests": content_key(*sorted({result["selection"]["tests"].encode() for result in results})),
        },
    }


def _state_of(row: Mapping[str, Any]) -> BackendState:
    """The inverse of `state_json`."""
    runtime, details = row["runtime"], tuple(row["details"])
    info = RuntimeInfo(runtime["name"], runtime["build_id"], "", "", runtime["path"]) if runtime else None
    known = {name: row[name] for name in _STATE}
    return BackendState(**{**known, "title": "", "details": details, "runtime": info})


def _environment(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The environment of all results; where the machines differ, all values are listed."""
    names = dict.fromkeys(name for environment in environments for name in environment)
    return {
        name: " | ".join(dict.fromkeys(environment.get(name, "unknown") for environment in environments))
        for name in names
    }


def _rows(results: Sequence[Result], key: str) -> list[Any]:
    """The rows of all results under a key."""
    return list(chain.from_iterable(result[key] for result in results))


def lines(result: Mapping[str, Any]) -> list[str]:
    """A result for the terminal: what failed, a row for each backend, the totals."""
    lines = [line for row in (*result["cases"], *result["networks"]) for line in row["text"]]
    rows = []
    for state in result["backends"]:
        statuses = [case["status"] for case in result["cases"] if case["backend"] == state["backend"]]
        counts = [str(statuses.count(status)) for status in LABELS]
        if statuses or state["cases"]:
            rows.append([state["backend"], state["state"], *counts])
    lines += [
        *([""] if lines else []),
        *table(["backend", "state", *LABELS], rows),
        "",
        *(f"{state['backend']}: {state['reason']}" for state in result["backends"] if state["state"] in ABSENT),
        *result["warnings"],
        *result["reasons"],
        *result["not_executed"],
    ]
    return [*lines, f"{result['sentence']} in {result['seconds']:.1f} s"]
