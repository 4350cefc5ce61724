"""A run of tests as JUnit's XML, which every CI reads: a suite for each backend, a case for each case."""

from __future__ import annotations

from typing import Any

from udogen.verify import terminal
from udogen.verify.results import BackendState, Outcome, TestRun


def text(run: TestRun) -> str:
    """The file; cases of backends that are not there are skipped, with the reason."""
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
            _absent(tree, suite, state)
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
    told = _clean("\n".join(terminal.failure(outcome))) if outcome.status in ("failed", "error") else ""
    if outcome.status == "failed":
        tree.SubElement(row, "failure", type="wrong numbers", message=_clean(_short(outcome))).text = told
    elif outcome.status == "error":
        kind = outcome.trouble.kind if outcome.trouble else "error"
        tree.SubElement(row, "error", type=kind, message=_clean(_short(outcome))).text = told
    elif outcome.status in ("skipped", "ran"):
        why = outcome.trouble.message if outcome.trouble else "it ran, and there is no reference to hold it against"
        tree.SubElement(row, "skipped", message=_clean(why))


def _short(outcome: Outcome) -> str:
    if outcome.trouble is not None:
        return outcome.trouble.message
    if outcome.findings:
        return outcome.findings[0].sentence
    worst = outcome.worst
    return f"{worst.wrong} of {worst.expected.size} numbers of {worst.name} are wrong" if worst else "wrong"


def _absent(tree: Any, suite: Any, state: BackendState) -> None:
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
