"""Which tensors are the same bytes, and from which execution to which they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from udogen.errors import RunFailed, UsageError
from udogen.qnn.system import GraphInfo, TensorInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE, byte_size


class Step(NamedTuple):
    """An execution of a graph of a shard (a context); a list of them is the order of a run."""

    shard: int
    graph: GraphInfo


class Endpoint(NamedTuple):
    """A tensor of a graph, by names."""

    shard: int
    graph: str
    tensor: str

    def __str__(self) -> str:
        return f"`{self.tensor}` of graph `{self.graph}` (shard {self.shard})"


class Link(NamedTuple):
    """Two tensors that shall be the same bytes: an output and the input that it becomes, or two inputs.

    `in_place` says that a graph may write these bytes while it reads them, as it is with a cache that it appends to.
    """

    source: Endpoint
    target: Endpoint
    in_place: bool = False


def chain(steps: Sequence[Step], names: Mapping[str, str]) -> list[Link]:
    """Links from outputs of a graph to inputs of the graph of its name in the next shard: {output: input}."""
    links = []
    graphs = _graphs(steps)
    shards = sorted({shard for shard, _ in graphs})
    for here, following in pairwise(shards):
        for (shard, name), graph in graphs.items():
            other = graphs.get((following, name))
            if shard != here or other is None:
                continue
            links += [
                Link(Endpoint(here, name, output), Endpoint(following, name, given))
                for output, given in names.items()
                if _has(graph.outputs, output) and _has(other.inputs, given)
            ]
    return links


def states(steps: Sequence[Step], names: Mapping[str, str], *, in_place: bool = True) -> list[Link]:
    """Links that make an output of any graph of a shard the input of all graphs of that shard: {output: input}."""
    links = []
    graphs = _graphs(steps)
    for (shard, writer), graph in graphs.items():
        for (other, reader), following in graphs.items():
            links += [
                Link(Endpoint(shard, writer, output), Endpoint(shard, reader, given), in_place)
                for output, given in names.items()
                if shard == other and _has(graph.outputs, output) and _has(following.inputs, given)
            ]
    return links


class Use(NamedTuple):
    """A tensor at the edge of a graph, and the steps that execute it."""

    shard: int
    graph: str
    role: str
    info: TensorInfo
    steps: tuple[int, ...]

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.shard, self.graph, self.info.name)


@dataclass(frozen=True)
class Value:
    """Bytes that one tensor or several are bound to; its own from step `first` to step `last`, both included."""

    uses: tuple[Use, ...]
    nbytes: int
    first: int
    last: int

    @property
    def shards(self) -> tuple[int, ...]:
        return tuple(sorted({use.shard for use in self.uses}))

    @property
    def dtype(self) -> str:
        return self.uses[0].info.dtype

    def meets(self, other: Value) -> bool:
        """Whether there is a step in which both are needed."""
        return self.first <= other.last and other.first <= self.last


def values_of(steps: Sequence[Step], links: Iterable[Link], *, stepwise: bool) -> list[Value]:
    """The values of a run, in the order of their first use; every fault of steps and links is told at once.

    A value is alive from the step that first has it to the step that last has it.  What comes from outside is there
    from the beginning, and what nobody reads stays to the end; unless `stepwise`: then inputs are filled just before
    their graph runs, and outputs are read just after.
    """
    faults: list[str] = []
    uses = _uses(steps, faults)
    groups = _joined(uses, links, faults)
    values = [_value(group, len(steps), stepwise=stepwise) for group in groups]
    if faults:
        raise UsageError(
            "these tensors cannot be planned",
            details=faults,
            hint="mend the metadata of the graphs, or the links between them",
        )
    return values


def _graphs(steps: Sequence[Step]) -> dict[tuple[int, str], GraphInfo]:
    return {(step.shard, step.graph.name): step.graph for step in steps}


def _has(tensors: Sequence[TensorInfo], name: str) -> bool:
    return any(tensor.name == name for tensor in tensors)


def _uses(steps: Sequence[Step], faults: list[str]) -> list[Use]:
    executed: dict[tuple[int, str], list[int]] = {}
    for index, step in enumerate(steps):
        executed.setdefault((step.shard, step.graph.name), []).append(index)
    uses = []
    for (shard, name), graph in _graphs(steps).items():
        for role, tensors in ((APP_WRITE, graph.inputs), (APP_READ, graph.outputs)):
            uses += [Use(shard, name, role, info, tuple(executed[shard, name])) for info in tensors]
    faults += [fault for use in uses if (fault := _fault_of(use))]
    return uses


def _fault_of(use: Use) -> str:
    if any(not isinstance(size, int) or size <= 0 for size in use.info.shape):
        return f"{use.endpoint} has the shape {list(use.info.shape)}: every dimension is 1 or more"
    try:
        nbytes = byte_size(use.info.dtype, use.info.shape)
    except RunFailed as problem:
        return f"{use.endpoint}: {problem.message}"
    return f"{use.endpoint} takes no bytes" if nbytes == 0 else ""


def _joined(uses: list[Use], links: Iterable[Link], faults: list[str]) -> list[list[Use]]:
    """Uses in groups: those that links connect, whichever way."""
    group_of: dict[int, list[int]] = {index: [index] for index in range(len(uses))}
    may_be_in_place: set[int] = set()
    places: dict[Endpoint, dict[str, int]] = {}
    for index, use in enumerate(uses):
        places.setdefault(use.endpoint, {})[use.role] = index
    for link in links:
        ends = [_place(places, end, role) for end, role in ((link.source, APP_READ), (link.target, APP_WRITE))]
        fault = _link_fault(uses, link, ends)
        if fault or None in ends:
            faults.append(fault)
            continue
        one, other = (end for end in ends if end is not None)
        if link.in_place:
            may_be_in_place |= {one, other}
        if group_of[one] is not group_of[other]:
            joined = sorted(group_of[one] + group_of[other])
            group_of.update(dict.fromkeys(joined, joined))
    groups = {id(group): group for group in group_of.values()}.values()
    for group in groups:
        faults += _overwritten([(uses[index], index in may_be_in_place) for index in group])
    return [[uses[index] for index in group] for group in sorted(groups)]


def _place(places: Mapping[Endpoint, Mapping[str, int]], end: Endpoint, role: str) -> int | None:
    """The tensor of this name; where a graph has an input and an output of one name, that of the role."""
    found = places.get(end, {})
    return found.get(role, next(iter(found.values()), None))


def _link_fault(uses: list[Use], link: Link, ends: list[int | None]) -> str:
    for end, index in zip(link[:2], ends, strict=True):
        if index is None:
            there = [use.info.name for use in uses if (use.shard, use.graph) == (end.shard, end.graph)]
            return f"there is no tensor {end}; that graph has: {', '.join(there) or 'nothing that is executed'}"
    source, target = (uses[index] for index in ends if index is not None)
    try:
        sizes = [byte_size(use.info.dtype, use.info.shape) for use in (source, target)]
    except RunFailed:
        return ""  # said of the tensor
    if source.info.dtype != target.info.dtype or sizes[0] != sizes[1]:
        return (
            f"{link.source} is {source.info.dtype} {list(source.info.shape)}, "
            f"{link.target} is {target.info.dtype} {list(target.info.shape)}: they cannot be the same bytes"
        )
    return ""


def _overwritten(group: list[tuple[Use, bool]]) -> list[str]:
    """A graph that would write what it reads, and nobody said that it may."""
    return [
        f"{reads.endpoint} and `{writes.info.name}` would be the same bytes, which the graph reads and writes at once: "
        "say in_place where it appends to them, else use two buffers in turn"
        for reads, may_read in group
        for writes, may_write in group
        if (reads.shard, reads.graph) == (writes.shard, writes.graph)
        and (reads.role, writes.role) == (APP_WRITE, APP_READ)
        and not (may_read and may_write)
    ]


def _value(group: list[Use], steps: int, *, stepwise: bool) -> Value:
    reads = [step for use in group if use.role == APP_WRITE for step in use.steps]
    writes = [step for use in group if use.role == APP_READ for step in use.steps]
    begins, ends = min(reads + writes), max(reads + writes)
    if reads and writes and min(reads) <= min(writes):  # what one run leaves is what the next one begins with
        begins, ends = 0, steps - 1
    elif not stepwise:
        begins = begins if writes else 0
        ends = steps - 1 if writes and max(writes) >= max(reads, default=-1) else ends
    info = group[0].info
    try:
        nbytes = byte_size(info.dtype, info.shape)
    except RunFailed:
        nbytes = 0  # told already
    return Value(tuple(group), nbytes, begins, ends)
