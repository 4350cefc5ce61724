"""Merges the results of parts of a run, or of several machines: the JSON of `--json` in, the same JSON out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from udogen.errors import UsageError, read_plain, reading
from udogen.resources import content_key
from udogen.runtime.op.calls import RuntimeInfo
from udogen.tables import table
from udogen.verify.report.machine import state_json
from udogen.verify.results import ABSENT, STATUSES, BackendState, State, joined, nothing_compared

Result = Mapping[str, Any]

_HINT = "give what `udogen test --json` wrote"


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(form: Any) -> dict[str, Any]:
    return {"anyOf": [{"type": "null"}, form]}


_TEXT, _FLAG = {"type": "string"}, {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 1 << 53}
_SECONDS = {**_COUNT, "type": "number"}
_ERROR = _object(kind=_TEXT, message=_TEXT)
_STATE = _object(
    backend=_TEXT,
    state={"enum": list(get_args(State))},
    reason=_TEXT,
    hint=_TEXT,
    details=_list(_TEXT),
    real=_FLAG,
    runtime=_or_null(_object(name=_TEXT, build_id=_TEXT, path=_TEXT)),
    cases=_COUNT,
    build_failed=_FLAG,
)
_ROW = {
    "backend": _TEXT,
    "status": {"enum": list(STATUSES)},
    "location": _TEXT,
    "seconds": _SECONDS,
    "text": _list(_TEXT),
    "error": _or_null(_ERROR),
}
_RESULT = _object(
    ok=_FLAG,
    folder=_TEXT,
    seconds=_SECONDS,
    counts=_object(**dict.fromkeys(STATUSES, _COUNT)),
    environment={"type": "object", "additionalProperties": _TEXT},
    backends=_list(_STATE),
    warnings=_list(_TEXT),
    unwritten=_list(_TEXT),
    not_executed=_list(_TEXT),
    cases=_list(_object(**_ROW, op=_TEXT, case=_TEXT, dtype=_TEXT, message=_TEXT)),
    networks=_list(_object(**_ROW, network=_TEXT, bits=_TEXT, first_wrong=_or_null(_TEXT))),
    selection=_object(part=_COUNT, parts=_COUNT, tests=_TEXT, planned=_COUNT),
)


@cache
def _checker() -> Callable[[Any], Any]:
    import fastjsonschema

    check: Callable[[Any], Any] = fastjsonschema.compile(_RESULT)
    return check


def _misfit(value: Any) -> str:
    """What in a result does not have its form; empty if it is right."""
    try:
        _checker()(value)
    except ValueError as fault:  # fastjsonschema.JsonSchemaValueException
        return str(fault).replace("data.", "", 1)
    return ""


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
        found = json.loads(data.decode("utf-8"), parse_constant=_not_finite)
        json.dumps(found, ensure_ascii=False).encode()  # raises for half a surrogate pair
    except (ValueError, RecursionError) as fault:
        raise UsageError(f"{path} is not the JSON of a test run", hint=_HINT) from fault
    if _is_error(found):
        raise UsageError(f"{path} is of a run that ended early: {found['error']['message']}", hint="repeat this run")
    misfit = _misfit(found) or next(_contradictions(found), "")
    if misfit:
        raise UsageError(f"{path} is not the JSON of a test run: {misfit}", hint=_HINT)
    result: Result = found
    return result


def _contradictions(result: Result) -> Iterator[str]:
    """Why the rows of a result do not account for all that was planned."""
    rows = [*result["cases"], *result["networks"]]
    for status, count in result["counts"].items():
        if status in STATUSES and (there := sum(row["status"] == status for row in rows)) != count:
            yield f"`counts.{status}` is {count}, and there are {there}"
    known = {state["backend"] for state in result["backends"]}
    for case in result["cases"]:
        if case["backend"] not in known:
            yield f"`backends` has no {case['backend']}"
        if case["status"] in ("error", "skipped") and case["error"] is None:
            yield f"`error` of {case['op']}/{case['case']} is missing"
    for row in result["networks"]:
        if row["status"] in ("error", "skipped") and row["error"] is None:
            yield f"`error` of the network {row['network']} is missing"
    planned, there = result["selection"]["planned"], len(rows) + _absent(result)
    if planned != there:
        yield f"{planned} cases were planned, and it has {there}"
    if not 1 <= result["selection"]["part"] <= result["selection"]["parts"]:
        yield f"it is part {result['selection']['part']} of {result['selection']['parts']}"


def _absent(result: Result) -> int:
    return sum(state["cases"] for state in result["backends"] if state["state"] in ABSENT)


def _check_complete(results: Mapping[Path, Result]) -> None:
    """Raise unless there is each part of each selection of tests, once."""
    groups: dict[tuple[str, int], dict[int, list[Path]]] = {}
    for path, result in results.items():
        chosen = result["selection"]
        groups.setdefault((chosen["tests"], chosen["parts"]), {}).setdefault(chosen["part"], []).append(path)
    faults = []
    for (_, parts), found in groups.items():
        of = f" of the tests of {next(iter(found.values()))[0]}" if len(groups) > 1 else ""
        missing = [f"{part}/{parts}" for part in range(1, min(parts, 99) + 1) if part not in found]
        faults += [f"missing{of}: part {', '.join(missing)}"] if missing else []
        twice = (paths for paths in found.values() if len(paths) > 1)
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
    counts = {name: sum(result["counts"][name] for result in results) for name in results[0]["counts"]}
    states = joined(map(_state_of, _rows(results, "backends"))).values()
    unwritten = list(dict.fromkeys(_rows(results, "unwritten")))
    is_bad = counts["failed"] + counts["error"] or unwritten or any(each.build_failed for each in states)
    chosen = [result["selection"] for result in results]
    merged = {
        "ok": all(result["ok"] for result in results) and counts["passed"] > 0 and not is_bad,
        "folder": " ".join(dict.fromkeys(result["folder"] for result in results)),
        "seconds": max(result["seconds"] for result in results),
        "counts": counts,
        "environment": _environment([result["environment"] for result in results]),
        "backends": [state_json(each) for each in states],
        "cases": _rows(results, "cases"),
        "networks": _rows(results, "networks"),
        "unwritten": unwritten,
        "not_executed": list(dict.fromkeys(_rows(results, "not_executed"))),
        "selection": {
            "part": 1,
            "parts": 1,
            "planned": sum(each["planned"] for each in chosen),
            "tests": content_key(*sorted({each["tests"].encode() for each in chosen})),
        },
    }
    parts = [f"{path} is not ok" for path, result in by_path.items() if not result["ok"]] if not is_bad else []
    nothing = "" if is_bad else nothing_compared(counts, _absent(merged))
    warnings = [*_rows(results, "warnings"), *parts, *([nothing] if nothing else [])]
    return {**merged, "warnings": list(dict.fromkeys(warnings))}


def _state_of(row: Mapping[str, Any]) -> BackendState:
    """The inverse of `state_json`."""
    runtime, details = row["runtime"], tuple(row["details"])
    found = RuntimeInfo(runtime["name"], runtime["build_id"], "", "", runtime["path"]) if runtime else None
    known = {name: row[name] for name in _STATE["properties"]}
    return BackendState(**{**known, "title": "", "details": details, "runtime": found})


def _environment(found: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The environment of all results; where the machines differ, all values are listed."""
    names = dict.fromkeys(name for each in found for name in each)
    return {name: " | ".join(dict.fromkeys(each.get(name, "unknown") for each in found)) for name in names}


def _rows(results: Sequence[Result], key: str) -> list[Any]:
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
        *(f"{state['backend']}: {state['reason']}" for state in result["backends"] if state["state"] in ABSENT),
        *result["warnings"],
        *result["unwritten"],
        *result["not_executed"],
    ]
    total = ", ".join(f"{number} {status}" for status, number in result["counts"].items())
    return [*found, f"{total} in {result['seconds']:.1f} s"]
