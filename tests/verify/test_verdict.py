"""Verdicts: green only with a comparison, and with nothing that is wrong or unaccounted."""

from __future__ import annotations

from typing import Any

import pytest

from udogen import BuildFailed, Verdict
from udogen.findings import Finding

BROKEN = Finding("reference.py:2: write it", kind="reference-unwritten")
VERDICTS: list[tuple[dict[str, Any], int, str]] = [
    # the counts, the exit code, the reasons
    ({"planned": 2, "passed": 2}, 0, ""),
    ({"planned": 4, "passed": 1, "skipped": 1, "ran": 1, "absent": 1}, 0, ""),
    ({"planned": 2, "passed": 1, "absent": 1, "needs_all": True}, 3, ""),
    ({"planned": 1, "passed": 1, "not_executed": ("P_Relu_f32",)}, 0, ""),
    ({"planned": 0}, 2, "nothing was compared: no case"),
    (
        {"planned": 3, "ran": 2, "skipped": 1},
        2,
        "nothing was compared: 2 cases without expected values, 1 case skipped",
    ),
    ({"planned": 1, "ran": 1, "unit": "tensor"}, 2, "nothing was compared: 1 tensor without expected values"),
    ({"planned": 3, "absent": 2, "skipped": 1}, 3, "nothing was compared: 1 case skipped, 2 cases not run"),
    ({"planned": 3, "passed": 1, "failed": 1, "error": 1}, 6, ""),
    ({"planned": 2, "passed": 1, "error": 1}, 5, ""),
    ({"planned": 2, "passed": 1, "error": 1, "unbuilt": 1, "build_failed": True}, 4, ""),
    ({"planned": 3, "passed": 1, "error": 2, "unbuilt": 1, "build_failed": True}, 5, ""),
    ({"planned": 1, "passed": 1, "build_failed": True}, 4, "a package does not compile"),
    ({"planned": 1, "passed": 1, "findings": (BROKEN,)}, 5, "reference.py:2: write it"),
    ({"planned": 2, "passed": 1}, 5, "2 cases planned, and there are results of 1"),
    ({"planned": 1, "passed": 2}, 5, "1 case planned, and there are results of 2"),
]


@pytest.mark.parametrize(("counts", "code", "reasons"), VERDICTS)
def test_exit_codes_and_reasons(counts: dict[str, Any], code: int, reasons: str) -> None:
    verdict = Verdict(**counts)
    assert (verdict.exit_code, "; ".join(verdict.reasons)) == (code, reasons)
    assert verdict.ok == (code == 0) == verdict.as_json()["ok"]


def test_rows_are_counted_by_status_and_kind() -> None:
    rows = [("passed", ""), ("error", BuildFailed.kind), ("error", "op-crashed"), ("failed", "")]
    verdict = Verdict.of(rows, planned=5, absent=1)  # type: ignore[arg-type]
    counts = {"planned": 5, "passed": 1, "failed": 1, "error": 2, "skipped": 0, "ran": 0, "absent": 1, "unbuilt": 1}
    assert verdict.counts == counts
    assert verdict.sentence() == "1 passed, 1 wrong, 2 errors, 1 not run" and not verdict.unaccounted
