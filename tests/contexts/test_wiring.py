"""Which output is connected to which input, in a chain of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from udogen import UsageError
from udogen.qnn.system import BinaryInfo, GraphInfo
from udogen.qnn.tensors import QnnTensor
from udogen.runtime.models.wiring import Wiring, wire


def tensor(name: str) -> QnnTensor:
    return QnnTensor(name, "FLOAT_32", (1, 4))


def wired(graphs: Sequence[str], links: Mapping[str, str], state: Mapping[str, str]) -> Wiring:
    """Connect graphs that are written as `inputs -> outputs`."""
    infos = []
    for number, text in enumerate(graphs):
        inputs, outputs = (tuple(map(tensor, side.split())) for side in text.split("->"))
        infos.append((f"c{number}", BinaryInfo(3, "", "", "", "", (GraphInfo(f"g{number}", inputs, outputs),))))
    return wire(infos, links=links, state=state)


HIDDEN = ["hidden -> hidden_out"] * 3
STATEFUL = ["x s -> h s", "h s -> y s"]
CONNECTED = {
    "the nearest graph before": (["x mask -> h", "h mask -> h", "h mask -> y"], {}, {}, "0.h=1.h 1.h=2.h"),
    "several readers": (["x -> h rest", "h -> g", "g rest h -> y"], {}, {}, "0.h=1.h,2.h 0.rest=2.rest 1.g=2.g"),
    "other names": (HIDDEN, {}, {}, ""),
    "a link for all graphs": (HIDDEN, {"hidden": "hidden_out"}, {}, "0.hidden_out=1.hidden 1.hidden_out=2.hidden"),
    "a link for one graph": (HIDDEN, {"2.hidden": "0.hidden_out"}, {}, "0.hidden_out=2.hidden"),
    "no state": (STATEFUL, {}, {}, "0.h=1.h 0.s=1.s"),
    "a state": (STATEFUL, {}, {"s": "s"}, "0.h=1.h"),
}


@pytest.mark.parametrize("what", CONNECTED)
def test_connections(what: str) -> None:
    graphs, links, state, expected = CONNECTED[what]
    [chain] = wired(graphs, links, state).chains
    rows = [
        (connection.name, ",".join(f"{stage}.{info.name}" for stage, info in connection.targets))
        for connection in chain.connections
    ]
    assert " ".join(f"{source}={targets}" for source, targets in rows) == expected


FAULTY = {
    "the wrong order": (["x -> y", "x -> z"], {"x": "z"}, "input `x` of c1: nothing before it has an output `z`"),
    "nothing": (["x -> y", "z -> z"], {"x": "y"}, "link `x=y` connects nothing"),
}


@pytest.mark.parametrize("what", FAULTY)
def test_faults_of_connections(what: str) -> None:
    graphs, links, message = FAULTY[what]
    with pytest.raises(UsageError) as caught:
        wired(graphs, links, {})
    assert message in str(caught.value) and caught.value.hint


def test_faults_are_reported_together() -> None:
    with pytest.raises(UsageError, match="2 links and states are wrong") as caught:
        wired(["x -> y", "x -> z"], {"x": "nothing", "other": "y"}, {})
    assert [text.partition(":")[0] for text in caught.value.details] == ["link `x=nothing`", "link `other=y`"]
