"""A test run in the terminal: failures first, then the matrix, what did not run, and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from udogen.findings import wrapped
from udogen.tables import many, table
from udogen.verdict import LABELS, counted
from udogen.verify.baseline import Baseline, CostChange
from udogen.verify.report import text
from udogen.verify.results import BackendState, NetworkOutcome, Outcome, Spread, TensorResult, TestRun

Paint = Callable[[str, str], str]  # text, and `found`, `missing` or `wrong` -> the text in the colour of that state

_MOST_SHOWN = 10
_MOST_FINDINGS = 3
_MOST_OTHERS = 6
_MOST_LAYERS = 30


def _plain(word: str, _state: str) -> str:
    return word


def lines(run: TestRun, *, paint: Paint = _plain, costs: bool = False, width: int = 0) -> list[str]:
    """The whole run as lines and tables, at most `width` columns wide (0: no limit)."""
    shown = _failures(run.failure_groups, paint, width)
    if run.outcomes:
        shown += [*matrix(run, width), ""]
    shown += [line for network in run.networks for line in [*network_lines(network, paint), ""]]
    if costs:
        shown += [*cost_table(run, width), ""]
    shown += [line for index, state in enumerate(run.states) for line in _state(state, run.states[:index])]
    shown += [part for line in _skipped(run) for part in _wrapped(line, width)]
    shown += [paint(warning, "missing") for warning in (*run.warnings, *run.verdict.reasons, *run.not_executed)]
    return [*shown, "", paint(summary(run), "found" if run.verdict.ok else "wrong")]


def _failures(groups: Sequence[Sequence[Outcome]], paint: Paint, width: int) -> list[str]:
    """The first groups of failures, and the number of failures in the others."""
    shown = list[str]()
    for first, *others in groups[:_MOST_SHOWN]:
        shown += [part for line in failure(first, paint, others=others) for part in _wrapped(line, width)] + [""]
    if len(groups) > _MOST_SHOWN:
        left = sum(len(group) for group in groups[_MOST_SHOWN:])
        shown += [f"… and {left} more; --json, --junit and --html have all of them", ""]
    return shown


def _wrapped(line: str, width: int) -> list[str]:
    """The line, wrapped; continuation lines are indented."""
    if not width or len(line) <= width:
        return [line]
    start = len(line) - len(line.lstrip()) + 2
    return wrapped(line[:start], line[start:], width)


CHANGE_HEADS = ("op", "case", "type", "backend", "before", "now", "ratio")


def change_rows(changes: Sequence[CostChange]) -> list[tuple[str, ...]]:
    """The rows of a table of costs compared with earlier ones."""

    def cost(change: CostChange, value: float) -> str:
        return text.seconds(value) if change.what == "time" else f"{int(value):,} packets"

    return [
        (
            *(change.op, change.case, change.dtype, change.backend),
            *(cost(change, change.before), cost(change, change.now)),
            f"{change.ratio:.2f}x" + ("  WORSE" if change.worse else ""),
        )
        for change in changes
    ]


def changes(compared: Sequence[CostChange], run: TestRun, baseline: Baseline, width: int = 0) -> list[str]:
    """Costs of a run compared with those of an earlier one."""
    if not compared:
        return [f"{baseline.path} has none of these cases"]
    other = [f"  {name}: {then} before, {now} now" for name, then, now in baseline.differences(run)]
    note = ["", "measured in another environment, so times are hard to compare:", *other] if other else []
    return [*table(CHANGE_HEADS, change_rows(compared), width), *note]


def failure(outcome: Outcome, paint: Paint = _plain, *, others: Sequence[Outcome] = ()) -> list[str]:
    """One failed case: the wrong values, their errors, and the cause; `others` fail for the same reason."""
    case = outcome.case
    head = f"{case.op} on {outcome.backend}, {outcome.dtype}: {case.name}"
    word = {"failed": "WRONG", "error": "ERROR"}[outcome.status]
    shown = [f"{paint(word, 'wrong')} {head}"]
    for tensor in outcome.tensors:
        shown += [f"  {line}" for line in _difference(tensor, outcome)] if not tensor.passed else []
    if outcome.error is not None:
        shown += [f"  {outcome.error.message}", *(f"    {line}" for line in outcome.error.details[:_MOST_FINDINGS])]
        shown += [f"    = {outcome.error.hint}"] if outcome.error.hint else []
    for finding in outcome.findings[:_MOST_FINDINGS]:
        shown += [f"  {finding.kind}: {finding.message}"]
        shown += [f"    {line}" for line in finding.evidence.splitlines()]
        shown += [f"    = {finding.hint}"] if finding.hint else []
    if outcome.smallest is not None:
        shown.append(f"  smallest failing shape: {text.shapes(outcome.smallest)}")
    return [*shown, *_others(others, outcome)]


def _others(others: Sequence[Outcome], first: Outcome) -> list[str]:
    shown = [
        f"    {other.case.name}"
        + ("" if other.backend == first.backend else f", on {other.backend}")
        + ("" if other.dtype == first.dtype else f", {other.dtype}")
        + (
            f": {worst.wrong} of {worst.found.size}, error {text.largest_error(worst)}"
            if (worst := other.worst)
            else ""
        )
        for other in others[:_MOST_OTHERS]
    ]
    shown += [f"    … and {len(others) - _MOST_OTHERS} more"] if len(others) > _MOST_OTHERS else []
    return ["  same failure:", *shown] if shown else []


def _difference(tensor: TensorResult, outcome: Outcome) -> list[str]:
    """The largest error of an output, its first wrong value, and what that was computed from."""
    if tensor.found.shape != tensor.expected.shape:
        shapes = text.shape(tensor.found.shape), text.shape(tensor.expected.shape)
        return [f"{tensor.name}: has the shape {shapes[0]}, expected {shapes[1]}"]
    lines = [
        f"{tensor.name}: {tensor.wrong} of {tensor.found.size} values are wrong, "
        f"largest error {text.largest_error(tensor)} (allowed: {tensor.tolerance})"
    ]
    if tensor.first is not None:
        value, expected = tensor.found[tensor.first], tensor.expected[tensor.first]
        lines.append(f"  the first at {text.index_of('', tensor.first)}: {value:.7g}, expected {expected:.7g}")
        given = text.given_at(outcome, tensor, tensor.first)
        lines += [f"  computed from {given}"] if given else []
    return lines


def network_lines(outcome: NetworkOutcome, paint: Paint = _plain) -> list[str]:
    """A network: the error of each layer and the first wrong layer, or why it was not measured.

    If there are many layers, only the wrong ones are shown.
    """
    state = "found" if outcome.status == "passed" else "missing" if outcome.status == "skipped" else "wrong"
    head = f"network {outcome.title}: {paint(LABELS[outcome.status], state)}"
    if outcome.result is None:
        error = outcome.error
        hint = [f"    = {error.hint}"] if error and error.hint else []
        return [head, *([f"  {error.message}"] if error else []), *hint]
    layers = outcome.result.layers
    titles, *rows = outcome.result.lines()
    table, notes = rows[: len(layers)], rows[len(layers) + 1 :]
    if len(layers) > _MOST_LAYERS:
        table = [row for row, layer in zip(table, layers, strict=True) if layer.wrong][:_MOST_LAYERS]
    return [head, *(f"  {line}" for line in ([titles, *table, *notes] if table else notes))]


def matrix(run: TestRun, width: int = 0) -> list[str]:
    """A table of ops and data types by backend."""
    cells, backends = run.matrix(), run.backends()
    rows = []
    before = ""
    for op, dtype in run.rows():
        outcomes = [cells.get((op, backend, dtype), ()) for backend in backends]
        rows.append(("" if op == before else op, dtype, *map(_cell, outcomes)))
        before = op
    return table(("op", "type", *backends), rows, width)


def _cell(outcomes: Sequence[Outcome]) -> str:
    """One cell of the matrix."""
    counts = Counter(outcome.status for outcome in outcomes)
    bad = [counted(status, counts[status]) for status in ("failed", "error") if counts[status]]
    if bad:
        return ", ".join(bad) + (f" of {len(outcomes)}" if counts["failed"] + counts["error"] < len(outcomes) else "")
    rest = [counted(status, counts[status]) for status in ("passed", "ran", "skipped") if counts[status]]
    return ", ".join(rest) or "-"


def _state(state: BackendState, before: Sequence[BackendState]) -> list[str]:
    """Where cases ran, or why they did not; `before` are the states that are already printed."""
    if state.state == "ran":
        runtime = state.runtime
        if runtime is None:
            return [f"{state.backend}: {state.title}"]
        origin = ", udogen's own emulator" if runtime.emulator else ", Qualcomm's" if state.real else ""
        return [f"{state.backend}: {runtime.name}" + (f" ({runtime.build_id})" if runtime.build_id else "") + origin]
    cases = f" ({many(state.cases, 'case')})" if state.cases else ""
    if state.state == "skipped":
        return [f"{state.backend}: skipped ({'; '.join(filter(None, (state.reason, state.hint)))})"]
    head = f"{state.backend}: not run{cases}: {state.reason}"
    why = (state.reason, state.details)
    if same := next((earlier for earlier in before if state.cases and why == (earlier.reason, earlier.details)), None):
        return [f"{state.backend}: not run{cases}: as on {same.backend}"]
    return [head, *(f"    {line}" for line in state.details[:5]), *([f"    = {state.hint}"] if state.hint else [])]


def _skipped(run: TestRun) -> list[str]:
    """Why cases were skipped on backends that ran."""
    reasons: dict[str, list[Outcome]] = {}
    for outcome in run.outcomes:
        if outcome.status == "skipped" and outcome.error:
            reasons.setdefault(outcome.error.message, []).append(outcome)
    shown = [
        f"skipped on {', '.join(dict.fromkeys(skip.backend for skip in group))} ({many(len(group), 'case')}): {reason}"
        for reason, group in reasons.items()
    ]
    more = f"… and {len(shown) - _MOST_OTHERS} more reasons; --json, --junit and --html have all of them"
    return shown if len(shown) <= _MOST_OTHERS else [*shown[:_MOST_OTHERS], more]


def summary(run: TestRun) -> str:
    """The totals of a run, in one line."""
    return f"{run.verdict.sentence()} in {run.seconds:.1f} s"


COST_HEADS = (
    "op",
    "case",
    "type",
    "backend",
    "execute",
    "10 % … 90 %",
    "numpy",
    "built-in",
    "packets",
    "bytes",
    "ops/byte",
)


def cost_table(run: TestRun, width: int = 0) -> list[str]:
    """What each case costs."""
    rows = [
        cost_row(run.op(outcome), outcome) for outcome in run.outcomes if outcome.status in ("passed", "ran", "failed")
    ]
    return table(COST_HEADS, rows, width)


def cost_row(op: str, outcome: Outcome) -> tuple[str, ...]:
    """The costs of one case, as text."""
    cost = outcome.cost
    return (
        op,
        outcome.case.name,
        outcome.dtype,
        outcome.backend,
        _median(cost.execute),
        _range(cost.execute),
        _times(cost.execute, cost.numpy),
        _times(cost.execute, cost.builtin) if not cost.builtin_fault else "refused",
        "-" if cost.packets is None else f"{cost.packets:,}",
        f"{cost.bytes_moved:,}",
        "-" if cost.intensity is None else f"{cost.intensity:.2f}",
    )


def _median(spread: Spread | None) -> str:
    return "-" if spread is None else text.seconds(spread.median)


def _range(spread: Spread | None) -> str:
    return "-" if spread is None else f"{text.seconds(spread.low)} … {text.seconds(spread.high)}"


def _times(own: Spread | None, other: Spread | None) -> str:
    """The time of the other implementation, and its ratio to the time of the op."""
    if other is None:
        return "-"
    return text.seconds(other.median) + (f" ({other.median / own.median:.2g}x)" if own and own.median else "")
