"""Costs of an earlier run, for comparison with a later one: `--save-baseline`, `--compare`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen import __version__
from udogen.errors import UsageError, read_plain, reading, write_file
from udogen.resources import syntax_fault
from udogen.verify.results import Outcome, TestRun

_FORMAT = "udogen costs 1"
# A median is slower if it exceeds the earlier one by this factor and the ranges do not overlap: machines are noisy.
_SLOWER = 1.25
_MORE_PACKETS = 1.01


@dataclass(frozen=True)
class CostChange:
    """One cost in the earlier run and now."""

    op: str
    case: str
    dtype: str
    backend: str
    what: str  # `time` or `packets`
    before: float
    now: float
    worse: bool

    @property
    def ratio(self) -> float:
        """The cost now, relative to before."""
        return self.now / self.before if self.before else float("inf")


def save(run: TestRun, path: Path) -> None:
    """Write the costs of a run, sorted, so that a diff of two files shows what changed."""
    rows = {_key(outcome): _row(outcome) for outcome in run.outcomes if outcome.status in ("passed", "ran")}
    content = {
        "format": _FORMAT,
        "udogen": __version__,
        "environment": dict(run.environment),
        "runtimes": {
            state.backend: f"{state.runtime.name} {state.runtime.build_id}".strip()
            for state in run.states
            if state.runtime
        },
        "costs": dict(sorted(rows.items())),
    }
    write_file(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _key(outcome: Outcome) -> str:
    return " | ".join((outcome.package, outcome.case.op, outcome.case.name, outcome.dtype, outcome.backend))


def _row(outcome: Outcome) -> dict[str, Any]:
    cost = outcome.cost
    time = cost.execute
    return {
        **({"median": time.median, "low": time.low, "high": time.high} if time else {}),
        **({"packets": cost.packets} if cost.packets is not None else {}),
    }


@dataclass(frozen=True)
class Baseline:
    """The contents of a file of `save`."""

    path: Path
    environment: dict[str, str]
    costs: dict[str, dict[str, Any]]

    def differences(self, run: TestRun) -> list[tuple[str, str, str]]:
        """Differences of the environment as (name, then, now); they make times hard to compare."""
        then = self.environment
        return [(name, then[name], now) for name, now in run.environment if then.get(name, now) != now]


def load(path: Path) -> Baseline:
    """Read a file of `save`."""
    with reading(path, hint="--save-baseline writes one"):
        data = read_plain(path)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a file of --save-baseline: {syntax_fault(error)}", hint="--save-baseline writes one"
        ) from error
    if (
        not isinstance(document, dict)
        or document.get("format") != _FORMAT
        or not isinstance(document.get("costs"), dict)
    ):
        raise UsageError(f"{path} is not a file of --save-baseline", hint="--save-baseline writes one")
    costs = {key: row for key, row in document["costs"].items() if isinstance(row, dict)}
    return Baseline(path, dict(document.get("environment") or {}), costs)


def compare(run: TestRun, baseline: Baseline) -> list[CostChange]:
    """The costs that both runs have, the worst ratio first."""
    changes = []
    for outcome in run.outcomes:
        before, now = baseline.costs.get(_key(outcome)), _row(outcome)
        if before is None or outcome.status not in ("passed", "ran"):
            continue
        names = (outcome.case.op, outcome.case.name, outcome.dtype, outcome.backend)
        if "median" in before and "median" in now:
            slower = now["median"] > before["median"] * _SLOWER and now["low"] > before["high"]
            changes.append(CostChange(*names, "time", before["median"], now["median"], slower))
        if "packets" in before and "packets" in now:
            more = now["packets"] > before["packets"] * _MORE_PACKETS
            changes.append(CostChange(*names, "packets", before["packets"], now["packets"], more))
    return sorted(changes, key=lambda change: (not change.worse, -change.ratio))
