"""How much a context maps, from what its binary and the runtime tell: layers that `place` can place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from udogen.qnn.interface import QnnError
from udogen.runtime.sessions.plan import Activation, Layer
from udogen.runtime.sessions.wires import Wire, find_wires

if TYPE_CHECKING:
    from udogen.qnn.context import Context
    from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo

STATES = ("past_*", "*_cache", "*_cache_in", "*_cache_out", "kv_*")


@dataclass(frozen=True)
class Shard:
    """One context binary of a model."""

    name: str
    info: BinaryInfo
    size: int  # of the file
    weights: int | None = None  # where the runtime tells
    spill_fill: int | None = None


def external_sizes(context: Context) -> tuple[int | None, int | None]:
    """What a deferred HTP context wants for weights and for spilling; None where it does not tell."""
    found: list[int | None] = []
    for name in ("WEIGHTS_BUFFER_SIZE", "MAX_SPILLFILL_BUFFER_SIZE"):
        try:
            found.append(context.property(name))
        except QnnError:
            found.append(None)
    return found[0], found[1]


def layers_of(
    shards: Sequence[Shard], *, links: Mapping[str, str] | None = None, states: Sequence[str] = STATES
) -> tuple[Layer, ...]:
    """The shards of a model as layers, in order.

    weights: what the runtime tells, else the size of the file, which is somewhat more.  cache: tensors, of both sides,
    whose names match `states`.  activations: what one shard hands to another, in graphs of the same name.  compute: all
    other tensors of the graph that has most of them, for graphs of a context run one after another.  spill-fill: what
    the runtime or the binary tells.
    """
    wires = _wires(shards, links or {})
    return tuple(_layer(number, shard, wires, states) for number, shard in enumerate(shards))


def _wires(shards: Sequence[Shard], links: Mapping[str, str]) -> dict[str, tuple[list[int], tuple[Wire, ...]]]:
    """By the name of the graph: the shards that have it, and what flows between them."""
    names = dict.fromkeys(graph.name for shard in shards for graph in shard.info.graphs)
    found = {}
    for name in names:
        having = [i for i, shard in enumerate(shards) if any(graph.name == name for graph in shard.info.graphs)]
        stages = [shards[i].info.graph(name) for i in having]
        here = {each.name for stage in stages for each in stage.inputs}
        found[name] = (having, find_wires(stages, links={a: b for a, b in links.items() if a in here}))
    return found


def _layer(
    number: int,
    shard: Shard,
    wires: Mapping[str, tuple[list[int], tuple[Wire, ...]]],
    states: Sequence[str],
) -> Layer:
    cache: dict[str, int] = {}
    activations: dict[str, int] = {}
    rest = []
    for graph in shard.info.graphs:
        handed, others = _handed(number, graph.name, wires), 0
        for key, tensor in _edges(graph):
            if key in handed:
                activations[f"{graph.name}:{handed[key]}"] = tensor.nbytes
            elif any(fnmatchcase(tensor.name, each) for each in states):
                cache[key] = max(cache.get(key, 0), tensor.nbytes)
            else:
                others += tensor.nbytes
        rest.append(others)
    told = max((graph.htp.spill_fill for graph in shard.info.graphs if graph.htp), default=0)
    return Layer(
        shard.name,
        weights=shard.size if shard.weights is None else shard.weights,
        cache=sum(cache.values()),
        compute=max(rest, default=0),
        spill_fill=told if shard.spill_fill is None else shard.spill_fill,
        activations=tuple(Activation(name, size) for name, size in sorted(activations.items())),
    )


def _handed(number: int, graph: str, wires: Mapping[str, tuple[list[int], tuple[Wire, ...]]]) -> dict[str, str]:
    """The edges of a shard's graph that another shard has too: edge -> what flows there."""
    having, found = wires[graph]
    here = having.index(number)
    handed = {f"out {wire.output.name}": wire.name for wire in found if wire.source == here}
    for wire in found:
        handed.update({f"in {tensor.name}": wire.name for target, tensor in wire.targets if target == here})
    return handed


def _edges(graph: GraphInfo) -> list[tuple[str, TensorInfo]]:
    return [
        *((f"in {each.name}", each) for each in graph.inputs),
        *((f"out {each.name}", each) for each in graph.outputs),
    ]
