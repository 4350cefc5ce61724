"""A run of tests as a terminal shows it: what failed first, then the matrix, what did not run, and the sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from udogen.verify.results import BackendState, Outcome, Spread, Status, TensorResult, TestRun

Paint = Callable[[str, str], str]  # a text, and `found`, `missing` or `wrong`: in the colour of what it says

_STATES: dict[Status, str] = {
    "passed": "found",
    "ran": "missing",
    "skipped": "missing",
    "failed": "wrong",
    "error": "wrong",
}
_MOST_SHOWN = 10
_MOST_FINDINGS = 3
_MOST_OTHERS = 6


def _plain(text: str, _state: str) -> str:
    return text


def lines(run: TestRun, *, paint: Paint = _plain, costs: bool = False) -> list[str]:
    """Everything, in the order in which a person wants it."""
    blocks = _alike(run.bad)
    told = [line for alike in blocks[:_MOST_SHOWN] for line in [*failure(alike[0], paint, others=alike[1:]), ""]]
    if len(blocks) > _MOST_SHOWN:
        left = sum(len(alike) for alike in blocks[_MOST_SHOWN:])
        told += [f"… and {left} more; --json, --junit and --html have all of them", ""]
    if run.outcomes:
        told += [*matrix(run, paint), ""]
    if costs:
        told += [*cost_table(run), ""]
    told += [line for state in run.states for line in _where(state)]
    told += [paint(warning, "missing") for warning in run.warnings]
    return [*told, "", paint(summary(run), "found" if run.passed else "wrong")]


def _alike(bad: Sequence[Outcome]) -> list[list[Outcome]]:
    """Cases of one op, place and data type that are wrong for the same reason, as far as that is known."""
    found: dict[tuple[object, ...], list[Outcome]] = {}
    for each in bad:
        reason = each.trouble.message if each.trouble else tuple(finding.cause for finding in each.findings)
        same = (each.package, each.case.op, each.backend, each.status, each.dtype if each.tensors else "")
        block = found.setdefault((*same, reason), [])
        # What nobody looked into goes to those of its kind that somebody did.
        block = next((found[key] for key in found if key[:-1] == same), block) if reason == () else block
        block.append(each)
    return [block for block in found.values() if block]


def failure(outcome: Outcome, paint: Paint = _plain, *, others: Sequence[Outcome] = ()) -> list[str]:
    """One case that is wrong: what, how far, and why; `others` are so for the same reason."""
    case = outcome.case
    head = f"{case.op} on {outcome.backend}, {outcome.dtype}: {case.name}"
    word = {"failed": "WRONG", "error": "ERROR"}[outcome.status]
    told = [f"{paint(word, 'wrong')} {head}"]
    for tensor in outcome.tensors:
        told += [f"  {line}" for line in _difference(tensor)] if not tensor.passed else []
    if outcome.trouble is not None:
        told += [f"  {outcome.trouble.message}", *(f"    {line}" for line in outcome.trouble.details[:_MOST_FINDINGS])]
        told += [f"    = {outcome.trouble.hint}"] if outcome.trouble.hint else []
    for finding in outcome.findings[:_MOST_FINDINGS]:
        told += [f"  {finding.cause}: {finding.sentence}"]
        told += [f"    {line}" for line in finding.evidence.splitlines()]
        told += [f"    = {finding.hint}"] if finding.hint else []
    if outcome.smallest is not None:
        told.append(f"  the smallest that fails so: {shapes_of(outcome)}")
    return [*told, *_others(others, outcome.dtype)]


def _others(others: Sequence[Outcome], dtype: str) -> list[str]:
    told = [
        f"    {each.case.name}"
        + ("" if each.dtype == dtype else f", {each.dtype}")
        + (f": {worst.wrong} of {worst.found.size}, by {_error(worst)}" if (worst := each.worst) else "")
        for each in others[:_MOST_OTHERS]
    ]
    told += [f"    … and {len(others) - _MOST_OTHERS} more"] if len(others) > _MOST_OTHERS else []
    return ["  so are:", *told] if told else []


def _difference(tensor: TensorResult) -> list[str]:
    """How far an output is off, and the first number that is."""
    if tensor.found.shape != tensor.expected.shape:
        return [f"{tensor.name}: has the shape {_shape(tensor.found.shape)}, expected {_shape(tensor.expected.shape)}"]
    total = tensor.found.size
    told = f"{tensor.name}: {tensor.wrong} of {total} numbers are wrong, the worst by {_error(tensor)}"
    told += f" (allowed: {tensor.tolerance})"
    if tensor.first is None:
        return [told]
    found, expected = tensor.found[tensor.first], tensor.expected[tensor.first]
    at = ", ".join(map(str, tensor.first))
    return [told, f"  the first at [{at}]: {found:.7g}, expected {expected:.7g}"]


def many(number: int, word: str) -> str:
    """`1 case`, `2 cases`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _error(tensor: TensorResult) -> str:
    """The largest difference, with its unit."""
    unit = f" {tensor.unit}{'' if tensor.max_error == 1 else 's'}" if tensor.unit else ""
    return f"{tensor.max_error:.3g}{unit}"


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def shapes_of(outcome: Outcome) -> str:
    """The shapes of the smallest case that fails."""
    case = outcome.smallest or outcome.case
    return ", ".join(f"{name} {_shape(array.shape)}" for name, array in case.inputs.items())


def matrix(run: TestRun, paint: Paint = _plain) -> list[str]:
    """Ops and their data types against backends."""
    cells, backends = run.matrix(), run.backends()
    found = list(dict.fromkeys((op, dtype) for op, _, dtype in cells))
    ops = list(dict.fromkeys(op for op, _ in found))
    rows = sorted(found, key=lambda row: ops.index(row[0]))
    head = ["op", "type", *backends]
    table: list[list[tuple[str, str]]] = [[(text, "") for text in head]]
    for number, (op, dtype) in enumerate(rows):
        shown = "" if number and rows[number - 1][0] == op else op
        table.append([(shown, ""), (dtype, ""), *(_cell(cells.get((op, each, dtype), ())) for each in backends)])
    widths = [max(len(row[column][0]) for row in table) for column in range(len(head))]
    made = []
    for row in table:
        padded = [paint(f"{text:<{width}}", state) for (text, state), width in zip(row, widths, strict=True)]
        made.append("  ".join(padded).rstrip())
    made.insert(1, "  ".join("-" * width for width in widths))
    return made


def _cell(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """One square of the matrix, and its state."""
    if not outcomes:
        return "-", ""
    counts = {status: sum(each.status == status for each in outcomes) for status in _STATES}
    words = {"failed": "wrong", "error": "without numbers", "skipped": "skipped", "ran": "ran", "passed": "ok"}
    bad = [f"{counts[status]} {words[status]}" for status in ("failed", "error") if counts[status]]
    if bad:
        return f"{', '.join(bad)} of {len(outcomes)}", "wrong"
    rest = [f"{counts[status]} {words[status]}" for status in ("passed", "ran", "skipped") if counts[status]]
    return ", ".join(rest), "found" if counts["passed"] else "missing"


def _where(state: BackendState) -> list[str]:
    """Where cases ran, or why they did not."""
    if state.state == "ran":
        runtime = state.runtime
        if runtime is None:
            return [f"{state.backend}: {state.title}"]
        ours = ", udogen's own emulator" if runtime.emulator else ", Qualcomm's" if state.real else ""
        return [f"{state.backend}: {runtime.name}" + (f" ({runtime.build_id})" if runtime.build_id else "") + ours]
    cases = f" ({many(state.cases, 'case')})" if state.cases else ""
    told = f"{state.backend}: not run{cases}: {state.reason}"
    if state.state == "left out":
        return [told + (f" ({state.hint})" if state.hint else "")]
    return [told, *(f"    {line}" for line in state.details[:5]), *([f"    = {state.hint}"] if state.hint else [])]


def summary(run: TestRun) -> str:
    """One line."""
    words = {"failed": "wrong", "error": "without numbers", "skipped": "skipped", "ran": "only run", "passed": "passed"}
    counts = [(words[status], run.count(status)) for status in ("passed", "ran", "failed", "error", "skipped")]
    told = [f"{number} {word}" for word, number in counts if number or word == "passed"]
    absent = sum(state.cases for state in run.states if state.state in ("missing", "unbuilt"))
    told += [f"{absent} not run"] if absent else []
    return f"{', '.join(told)} in {run.seconds:.1f} s"


def cost_table(run: TestRun) -> list[str]:
    """What each case costs."""
    head = (
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
    rows = [
        (
            run.op(each),
            each.case.name,
            each.dtype,
            each.backend,
            seconds(each.cost.execute),
            _range(each.cost.execute),
            _times(each.cost.execute, each.cost.numpy),
            _times(each.cost.execute, each.cost.builtin) if not each.cost.builtin_fault else "refused",
            "-" if each.cost.packets is None else f"{each.cost.packets:,}",
            f"{each.cost.bytes_moved:,}",
            "-" if each.cost.intensity is None else f"{each.cost.intensity:.2f}",
        )
        for each in run.outcomes
        if each.status in ("passed", "ran", "failed")
    ]
    return table(head, rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A plain table, as wide as its cells."""
    every = [list(head), *map(list, rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    every.insert(1, ["-" * width for width in widths])
    return ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in every]


def seconds(spread: Spread | None) -> str:
    """A time, short."""
    return "-" if spread is None else duration(spread.median)


def duration(value: float) -> str:
    """Seconds in the unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def _range(spread: Spread | None) -> str:
    return "-" if spread is None else f"{duration(spread.low)} … {duration(spread.high)}"


def _times(own: Spread | None, other: Spread | None) -> str:
    """The other's time, and how many times ours it is."""
    if other is None:
        return "-"
    return duration(other.median) + (f" ({other.median / own.median:.2g}x)" if own and own.median else "")
