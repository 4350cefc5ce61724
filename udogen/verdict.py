"""Verdicts: what was planned, run and compared, and whether that is enough to be green."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from udogen.errors import BuildFailed, RunFailed, ToolMissing, UsageError, VerificationFailed
from udogen.findings import Finding
from udogen.tables import many

# passed: within the tolerance.  failed: wrong numbers.  error: no numbers (refused, crashed, too slow, or the
# reference failed).  skipped: not run.  ran: executed, but nothing to compare with.
# Neither of the last two is ever counted as passed.
Status = Literal["passed", "failed", "error", "skipped", "ran"]
STATUSES: tuple[Status, ...] = ("failed", "error", "skipped", "ran", "passed")  # most important first

LABELS: Mapping[Status, str] = {
    "passed": "passed",
    "ran": "not checked",
    "failed": "wrong",
    "error": "error",
    "skipped": "skipped",
}


def counted(status: Status, count: int) -> str:
    """`3 wrong`, `1 error`, `2 errors`."""
    return f"{count:,} {LABELS[status]}" + ("s" if status == "error" and count != 1 else "")


@dataclass(frozen=True)
class Verdict:
    """The counts of a run by status, and what else makes it red: `sys.exit(Verdict(2, passed=2).exit_code)`."""

    planned: int
    passed: int = 0
    failed: int = 0
    error: int = 0
    skipped: int = 0
    ran: int = 0
    absent: int = 0  # not run, because a runtime, a tool or a library is missing
    needs_all: bool = False  # what is absent makes it red, too
    unbuilt: int = 0  # of the errors: those whose package does not compile
    build_failed: bool = False  # a package does not compile, whether or not there is a case for it
    findings: tuple[Finding, ...] = ()  # what makes it red in addition to the counts
    not_executed: tuple[str, ...] = ()  # what was built and shipped, and could not be executed
    unit: str = "case"

    @classmethod
    def of(cls, rows: Iterable[tuple[Status, str]], *, planned: int, **more: Any) -> Verdict:
        """The verdict on rows, each with its status and the kind of its error."""
        every = list(rows)
        counts: dict[str, Any] = Counter(status for status, _ in every)
        unbuilt = sum(row == ("error", BuildFailed.kind) for row in every)
        return cls(planned, **counts, unbuilt=unbuilt, **more)

    @property
    def counts(self) -> dict[str, int]:
        """The counts by name."""
        names = ("planned", "passed", "failed", "error", "skipped", "ran", "absent", "unbuilt")
        return {name: getattr(self, name) for name in names}

    @property
    def unaccounted(self) -> int:
        """What was planned and has no row; negative if there are more rows than planned."""
        return self.planned - self.passed - self.failed - self.error - self.skipped - self.ran - self.absent

    @property
    def is_bad(self) -> bool:
        """Whether something is wrong, other than that nothing was compared."""
        return bool(self.failed or self.error or self.build_failed or self.findings or self.unaccounted)

    @property
    def ok(self) -> bool:
        """Whether something was compared, and everything that was planned is accounted for and not wrong."""
        return self.passed > 0 and not self.is_bad and not (self.needs_all and self.absent)

    @property
    def exit_code(self) -> int:
        """The exit code of the worst result."""
        if self.failed:
            return VerificationFailed.exit_code
        if self.error > self.unbuilt or self.findings or self.unaccounted:
            return RunFailed.exit_code
        if self.unbuilt or self.build_failed:
            return BuildFailed.exit_code
        return 0 if self.ok else ToolMissing.exit_code if self.absent else UsageError.exit_code

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is red, as far as no single row shows that."""
        found = [finding.message for finding in self.findings]
        if self.build_failed and not self.unbuilt:
            found.append("a package does not compile")
        if self.unaccounted:
            there = self.planned - self.unaccounted
            found.append(f"{many(self.planned, self.unit)} planned, and there are results of {there}")
        if not self.passed and not self.is_bad:
            why = {"without expected values": self.ran, "skipped": self.skipped, "not run": self.absent}
            rows = [f"{many(count, self.unit)} {words}" for words, count in why.items() if count]
            found.append("nothing was compared: " + (", ".join(rows) or f"no {self.unit}"))
        return tuple(found)

    def sentence(self) -> str:
        """The counts in one line: `3 passed, 1 wrong, 2 not run`."""
        counts = {status: getattr(self, status) for status in LABELS}
        parts = [counted(status, count) for status, count in counts.items() if count or status == "passed"]
        return ", ".join([*parts, *([f"{self.absent} not run"] if self.absent else [])])

    def as_json(self) -> dict[str, object]:
        """The verdict as `--json` prints it."""
        return {
            "ok": self.ok,
            "exit_code": self.exit_code,
            "sentence": self.sentence(),
            "counts": self.counts,
            "reasons": list(self.reasons),
            "not_executed": list(self.not_executed),
        }
