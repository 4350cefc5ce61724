"""The result of a network as text and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from udogen.tables import columns, many
from udogen.verify.network.compare import CPU, QNN, REFERENCE, LayerResult, NetworkResult
from udogen.verify.network.model import BITS_8

_MARKS = {QNN: "", CPU: "not on QNN", REFERENCE: "reference"}


def lines(result: NetworkResult) -> Iterator[str]:
    """The table of layers, and what follows from it."""
    head = ("layer", "op", "shape", "own error", *(("steps",) if result.bits == BITS_8 else ()), "error", "")
    rows = []
    for each in result.layers:
        steps = () if result.bits != BITS_8 else ("" if each.steps is None else f"{each.steps:.2f}",)
        shape = "x".join(map(str, each.shape)) or "scalar"
        mark = "wrong" if each.wrong else _MARKS[each.on]
        rows.append((each.tensor, each.op, shape, f"{each.own:.2g}", *steps, f"{each.error:.2g}", mark))
    yield from columns([head, *rows])
    yield ""
    yield from notes(result)


def notes(result: NetworkResult) -> Iterator[str]:
    """The conditions of the run, the nodes that did not run on QNN, and the verdict."""
    if result.random:
        yield f"random numbers: {', '.join(result.random)}"
    for each in result.assumed:
        yield f"open dimensions taken as 1: {each}"
    yield from _elsewhere_lines(result)
    yield verdict(result)
    bits = result.bits if result.bits != BITS_8 else "8 bits"
    yield f"{many(result.samples, 'sample')}, {bits} on {result.runtime}"


def elsewhere(result: NetworkResult) -> Iterator[tuple[str, str]]:
    """The nodes that did not run on QNN, and the reason, for each reason."""
    by_reason = defaultdict(list)
    for each in result.elsewhere:
        by_reason[each.reason].append(f"{each.node} ({each.op})")
    for reason, nodes in by_reason.items():
        yield ", ".join(nodes), reason.rstrip(".")


def _elsewhere_lines(result: NetworkResult) -> Iterator[str]:
    for nodes, reason in elsewhere(result):
        yield f"not on QNN: {nodes}: {reason}"


def verdict(result: NetworkResult) -> str:
    """Whether the tensors that QNN computed agree."""
    first, count, on_qnn = result.first_wrong, len(result.layers), result.on_qnn
    if first is not None:
        return (
            f"wrong: {sum(each.wrong for each in result.layers)} of {count} tensors; the first is `{first.tensor}` of "
            f"node `{first.node}` ({first.op}): {first.own:.2g} of its range{_stored(first)} off from its own inputs"
        )
    if result.fault:
        return result.fault
    which = f"all {count} tensors" if on_qnn == count else f"{on_qnn} of {count} tensors were computed on QNN, and they"
    return f"{which} agree with ONNX Runtime's CPU"


def _stored(layer: LayerResult) -> str:
    return "" if layer.steps is None else f" ({layer.steps:.2f} steps of 8 bits)"


def as_json(result: NetworkResult) -> dict[str, object]:
    """The result as `--json` prints it."""
    first = result.first_wrong
    return {
        "ok": not result.fault,
        "fault": result.fault,
        "runtime": result.runtime,
        "backend": result.backend,
        "bits": result.bits,
        "samples": result.samples,
        "seconds": result.seconds,
        "random": list(result.random),
        "assumed": list(result.assumed),
        "on_qnn": result.on_qnn,
        "elsewhere": [vars(each) for each in result.elsewhere],
        "layers": [vars(each) for each in result.layers],
        "first_wrong": None if first is None else first.tensor,
    }
