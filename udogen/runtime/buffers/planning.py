"""The buffer planner: which tensors share bytes, where and when each is stored; and the allocated buffers of a plan."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from udogen.errors import RunFailed, UsageError
from udogen.qnn.handles import ION, Closing, run_all
from udogen.qnn.system import GraphInfo, TensorInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE, MOST_BYTES, byte_size
from udogen.runtime.buffers.buffer import RAW, SHARED_BUFFER, Buffer, BufferPart
from udogen.runtime.buffers.memory import (
    ALLOCATORS,
    AllocatorChoice,
    align_up,
    allocate,
    check_alignment,
    shared_allocator,
)
from udogen.runtime.buffers.plan import BufferPlan, PlannedBuffer, PlannedStep, PlannedTensor

if TYPE_CHECKING:
    from udogen.runtime.contexts.graph import Graph


class ExecutionStep(NamedTuple):
    """One execution of a graph of a shard; a list of them is the order of a run.

    `ExecutionStep(0, context.info.graph("step"))`
    """

    shard: int
    graph: GraphInfo


class Endpoint(NamedTuple):
    """A tensor of a graph, by names: `Endpoint(0, "step", "key")`."""

    shard: int
    graph: str
    tensor: str

    def __str__(self) -> str:
        return f"`{self.tensor}` of graph `{self.graph}` (shard {self.shard})"


class Link(NamedTuple):
    """Two tensors that share their bytes: an output and the input it becomes, or two inputs.

    With `in_place` a graph may write these bytes while it reads them, as with a cache that it appends to.

    `Link(Endpoint(0, "step", "key"), Endpoint(0, "step", "past_key"))`
    """

    source: Endpoint
    target: Endpoint
    in_place: bool = False


def chain_links(steps: Sequence[ExecutionStep], names: Mapping[str, str]) -> list[Link]:
    """Links from outputs of each shard to inputs of the same graph in the next shard: {output: input}.

    `links = chain_links(steps, {"hidden_out": "hidden"})`
    """
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


def state_links(steps: Sequence[ExecutionStep], names: Mapping[str, str], *, in_place: bool = True) -> list[Link]:
    """Links from outputs of any graph of a shard to inputs of all graphs of it: {output: input}.

    `links = state_links(steps, {"key": "past_key"})`
    """
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


class TensorUse(NamedTuple):
    """An input or output of a graph, and the steps that execute it."""

    shard: int
    graph: str
    role: str
    info: TensorInfo
    steps: tuple[int, ...]

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.shard, self.graph, self.info.name)


@dataclass(frozen=True)
class PlannedValue:
    """Bytes that one or more tensors are bound to, in use from step `first` to step `last`, both included."""

    uses: tuple[TensorUse, ...]
    nbytes: int
    first: int
    last: int

    @property
    def shards(self) -> tuple[int, ...]:
        return tuple(sorted({use.shard for use in self.uses}))

    @property
    def dtype(self) -> str:
        return self.uses[0].info.dtype

    def meets(self, other: PlannedValue) -> bool:
        """Whether both are in use in some step."""
        return self.first <= other.last and other.first <= self.last


def resolve_values(steps: Sequence[ExecutionStep], links: Iterable[Link], *, stepwise: bool) -> list[PlannedValue]:
    """The values of a run, in the order of their first use; all faults of steps and links are reported together.

    A value is in use from the first step that has it to the last.  Values from outside are in use from the start, and
    values that no step reads until the end.  With `stepwise`, inputs are filled just before their graph runs, and
    outputs are read just after.
    """
    uses = _uses(steps)
    groups, wrong = _joined(uses, links)
    faults = [*(fault for use in uses if (fault := _fault_of(use))), *wrong]
    if faults:
        raise UsageError(
            "these tensors cannot be planned",
            details=faults,
            hint="correct the metadata of the graphs, or the links between them",
        )
    return [_value(group, len(steps), stepwise=stepwise) for group in groups]


def _graphs(steps: Sequence[ExecutionStep]) -> dict[tuple[int, str], GraphInfo]:
    return {(step.shard, step.graph.name): step.graph for step in steps}


def _has(tensors: Sequence[TensorInfo], name: str) -> bool:
    return any(tensor.name == name for tensor in tensors)


def _uses(steps: Sequence[ExecutionStep]) -> list[TensorUse]:
    executed: dict[tuple[int, str], list[int]] = {}
    for index, step in enumerate(steps):
        executed.setdefault((step.shard, step.graph.name), []).append(index)
    uses = []
    for (shard, name), graph in _graphs(steps).items():
        for role, tensors in ((APP_WRITE, graph.inputs), (APP_READ, graph.outputs)):
            uses += [TensorUse(shard, name, role, info, tuple(executed[shard, name])) for info in tensors]
    return uses


def _fault_of(use: TensorUse) -> str:
    if any(not isinstance(size, int) or size <= 0 for size in use.info.shape):
        return f"{use.endpoint} has the shape {list(use.info.shape)}: every dimension is 1 or more"
    try:
        nbytes = byte_size(use.info.dtype, use.info.shape)
    except RunFailed as problem:
        return f"{use.endpoint}: {problem.message}"
    return f"{use.endpoint} takes no bytes" if nbytes == 0 else ""


def _joined(uses: list[TensorUse], links: Iterable[Link]) -> tuple[list[list[TensorUse]], list[str]]:
    """The uses, grouped by the links that connect them, and the faults of links."""
    faults: list[str] = []
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
            join_plans = sorted(group_of[one] + group_of[other])
            group_of.update(dict.fromkeys(join_plans, join_plans))
    groups = {id(group): group for group in group_of.values()}.values()
    for group in groups:
        faults += _overwritten([(uses[index], index in may_be_in_place) for index in group])
    return [[uses[index] for index in group] for group in sorted(groups)], faults


def _place(places: Mapping[Endpoint, Mapping[str, int]], end: Endpoint, role: str) -> int | None:
    """The index of a tensor; if an input and an output have its name, the index of the one with this role."""
    found = places.get(end, {})
    return found.get(role, next(iter(found.values()), None))


def _link_fault(uses: list[TensorUse], link: Link, ends: list[int | None]) -> str:
    for end, index in zip(link[:2], ends, strict=True):
        if index is None:
            there = [use.info.name for use in uses if (use.shard, use.graph) == (end.shard, end.graph)]
            return f"there is no tensor {end}; that graph has: {', '.join(there) or 'nothing that is executed'}"
    source, target = (uses[index] for index in ends if index is not None)
    try:
        sizes = [byte_size(use.info.dtype, use.info.shape) for use in (source, target)]
    except RunFailed:
        return ""  # reported for the tensor
    if source.info.dtype != target.info.dtype or sizes[0] != sizes[1]:
        return (
            f"{link.source} is {source.info.dtype} {list(source.info.shape)}, "
            f"{link.target} is {target.info.dtype} {list(target.info.shape)}: they cannot be the same bytes"
        )
    return ""


def _overwritten(group: list[tuple[TensorUse, bool]]) -> list[str]:
    """The faults of graphs that would overwrite what they read, without `in_place`."""
    return [
        f"{reads.endpoint} and `{writes.info.name}` would be the same bytes, which the graph reads and writes at once: "
        "set in_place if it appends to them, else use two buffers in turn"
        for reads, may_read in group
        for writes, may_write in group
        if (reads.shard, reads.graph) == (writes.shard, writes.graph)
        and (reads.role, writes.role) == (APP_WRITE, APP_READ)
        and not (may_read and may_write)
    ]


def _value(group: list[TensorUse], steps: int, *, stepwise: bool) -> PlannedValue:
    reads = [step for use in group if use.role == APP_WRITE for step in use.steps]
    writes = [step for use in group if use.role == APP_READ for step in use.steps]
    begins, ends = min(reads + writes), max(reads + writes)
    if reads and writes and min(reads) <= min(writes):  # a run starts with what the previous run left
        begins, ends = 0, steps - 1
    elif not stepwise:
        begins = begins if writes else 0
        ends = steps - 1 if writes and max(writes) >= max(reads, default=-1) else ends
    return PlannedValue(tuple(group), group[0].info.nbytes, begins, ends)


LARGEST_BUFFER = 2**63 - 1


@dataclass(frozen=True)
class BufferOptions:
    """How buffers are planned.

    packed: many tensors in one buffer (SHARED_BUFFER if shared), instead of one buffer for each (ION).
    shared: registered memory with a descriptor, instead of client memory of this process.
    reuse: tensors whose lifetimes do not overlap may share bytes.
    stepwise: inputs are filled just before their graph runs, outputs read just after it; more bytes can be shared.
    memory: name of an allocator; empty: chosen for this machine.

    `BufferOptions(alignment=128, packed=True, reuse=True)`
    """

    alignment: int = 64
    packed: bool = False
    shared: bool = False
    reuse: bool = False
    stepwise: bool = False
    memory: str = ""


def plan_buffers(steps: Sequence[ExecutionStep], options: BufferOptions, links: Iterable[Link] = ()) -> BufferPlan:
    """Plan a buffer and an offset for each tensor of these graphs.

    `plan = plan_buffers([ExecutionStep(0, graph.info)], BufferOptions(packed=True))`
    """
    check_alignment(options.alignment)
    choice = _allocator(options)
    values = resolve_values(steps, links, stepwise=options.stepwise)
    _check_sizes(values, options)
    blocks = _blocks(values, options)
    names = _names(blocks, options)
    places = {
        id(value): (name, offset) for name, block in zip(names, blocks, strict=True) for value, offset in block.rows
    }
    return BufferPlan(
        steps=tuple(PlannedStep(step.shard, step.graph.name) for step in steps),
        buffers=tuple(
            PlannedBuffer(name, align_up(block.end, options.alignment), options.alignment, choice.allocator)
            for name, block in zip(names, blocks, strict=True)
        ),
        tensors=tuple(_tensors(values, places, options)),
        why=choice.why,
    )


@dataclass
class _Block:
    """A buffer being planned: its values, by offset."""

    rows: list[tuple[PlannedValue, int]]

    @property
    def end(self) -> int:
        return max(offset + value.nbytes for value, offset in self.rows)


def _allocator(options: BufferOptions) -> AllocatorChoice:
    if not options.memory:
        return shared_allocator() if options.shared else AllocatorChoice("client", "used by this process only")
    row = ALLOCATORS.get(options.memory)
    if row is None or row.shared != options.shared:
        fitting = [name for name, each in ALLOCATORS.items() if each.shared == options.shared]
        kind = "shared" if options.shared else "raw"
        raise UsageError(f"{kind} buffers cannot be of `{options.memory}` memory", hint=f"one of: {', '.join(fitting)}")
    return AllocatorChoice(options.memory, "requested")


def _check_sizes(values: list[PlannedValue], options: BufferOptions) -> None:
    largest = LARGEST_BUFFER if options.shared else MOST_BYTES
    large = [f"{value.uses[0].endpoint} has {value.nbytes} bytes" for value in values if value.nbytes > largest]
    total = sum(align_up(value.nbytes, options.alignment) for value in values)
    if large and not options.shared:
        raise UsageError(
            f"raw buffers of tensors end at {MOST_BYTES} bytes (QNN counts them with 32 bits)",
            details=large,
            hint="bind these tensors to shared memory, or split them",
        )
    if total > LARGEST_BUFFER:
        raise UsageError(
            f"these tensors take {total} bytes, a process has at most {LARGEST_BUFFER}",
            details=large,
            hint="check the dimensions in the metadata",
        )


def _blocks(values: list[PlannedValue], options: BufferOptions) -> list[_Block]:
    if not options.packed:
        return _separate(values, options)
    groups: dict[tuple[int, ...], list[PlannedValue]] = {}
    for value in values:
        # A context maps the whole shared buffer, so tensors of other shards are placed in other buffers.
        groups.setdefault(value.shards if options.shared else (), []).append(value)
    return [_packed(group, options) for group in groups.values()]


def _packed(values: list[PlannedValue], options: BufferOptions) -> _Block:
    block = _Block([])
    if not options.reuse:
        end = 0
        for value in values:
            block.rows.append((value, end))
            end = align_up(end + value.nbytes, options.alignment)
        return block
    for value in sorted(values, key=lambda each: -each.nbytes):  # the largest first: they are hardest to place
        insort(block.rows, (value, _lowest(block, value, options)), key=_offset)
    return block


def _offset(row: tuple[PlannedValue, int]) -> int:
    return row[1]


def _lowest(block: _Block, value: PlannedValue, options: BufferOptions) -> int:
    """The lowest offset whose range holds no value in use at the same time."""
    offset = 0
    while True:
        for other, begin in block.rows:
            apart = offset >= begin + other.nbytes or offset + value.nbytes <= begin
            if value.meets(other) and not apart:
                offset = align_up(begin + other.nbytes, options.alignment)
        taken = [other for other, begin in block.rows if begin == offset and _clash(value, other, options)]
        if not taken:
            return offset
        offset += options.alignment


def _clash(value: PlannedValue, other: PlannedValue, options: BufferOptions) -> bool:
    """Whether a context would register one range of a shared buffer with two data types."""
    return options.shared and value.dtype != other.dtype and bool(set(value.shards) & set(other.shards))


def _separate(values: list[PlannedValue], options: BufferOptions) -> list[_Block]:
    if not options.reuse:
        return [_Block([(value, 0)]) for value in values]
    blocks: list[_Block] = []
    for value in sorted(values, key=lambda each: -each.nbytes):
        fitting = (
            block
            for block in blocks
            if not any(value.meets(other) or _clash(value, other, options) for other, _ in block.rows)
        )
        block = next(fitting, None)
        if block is None:
            block = _Block([])
            blocks.append(block)
        block.rows.append((value, 0))
    return blocks


def _names(blocks: list[_Block], options: BufferOptions) -> list[str]:
    """Unique names of buffers, made from the tensors or shards that use them."""
    names: dict[str, None] = {}
    for block in blocks:
        first = block.rows[0][0]
        use = first.uses[0]
        if not options.packed:
            name = f"{use.shard}.{use.graph}.{use.info.name}"
        elif options.shared:
            name = "shard " + "+".join(str(shard) for shard in first.shards)
        else:
            name = "all"
        number = 1
        while (unique := name if number == 1 else f"{name} #{number}") in names:
            number += 1
        names[unique] = None
    return list(names)


def _tensors(
    values: list[PlannedValue], places: dict[int, tuple[str, int]], options: BufferOptions
) -> Iterable[PlannedTensor]:
    bound = (SHARED_BUFFER if options.packed else ION) if options.shared else RAW
    for number, value in enumerate(values):
        buffer, offset = places[id(value)]
        for use in value.uses:
            yield PlannedTensor(
                value=number,
                buffer=buffer,
                shard=use.shard,
                graph=use.graph,
                tensor=use.info.name,
                role=use.role,
                dtype=use.info.dtype,
                shape=use.info.shape,
                offset=offset,
                nbytes=value.nbytes,
                first=value.first,
                last=value.last,
                bound=bound,
            )


class PlannedBuffers(Closing):
    """The allocated buffers of a plan; a context manager.

    `close` unbinds and deregisters the tensors, last to first, and frees the memory; contexts may be closed before or
    after it.

    `PlannedBuffers(plan).bind(graph)`
    """

    def __init__(self, plan: BufferPlan) -> None:
        self.plan = plan
        self.buffers: dict[str, Buffer] = {}
        self._largest: dict[tuple[int, str, int], PlannedTensor] = {}
        for row in plan.tensors:
            place = (row.shard, row.buffer, row.offset)
            if place not in self._largest or self._largest[place].nbytes < row.nbytes:
                self._largest[place] = row
        with ExitStack() as stack:
            for each in plan.buffers:
                made = allocate(each.allocator, each.size, alignment=each.alignment, name=each.name)
                self.buffers[each.name] = stack.enter_context(made)
            stack.pop_all()

    def part(self, shard: int, graph: str, tensor: str) -> BufferPart:
        """The buffer range of one tensor."""
        for row in self.plan.of(shard, graph):
            if row.tensor == tensor:
                return self._part(row)
        raise RunFailed(
            f"the plan has no tensor `{tensor}` of graph `{graph}` (shard {shard})",
            hint="plan the buffers of all graphs that are executed",
        )

    def bind(self, graph: Graph, *, shard: int = 0) -> None:
        """Bind all tensors of a graph as planned; on an error none is bound."""
        names = {info.name for info in (*graph.inputs, *graph.outputs)}
        sides = ((APP_WRITE, graph.inputs), (APP_READ, graph.outputs))
        infos = {(role, info.name): info for role, side in sides for info in side}
        rows = [row for row in self.plan.of(shard, graph.name) if (row.role, row.tensor) in infos]
        if missing := names - {row.tensor for row in rows}:
            raise RunFailed(
                f"the plan has no buffer for {', '.join(f'`{name}`' for name in sorted(missing))} of graph "
                f"`{graph.name}` (shard {shard})",
                hint="plan the graphs of this context",
            )
        with graph.context.registrations.all_or_none():
            made = {row.tensor: self._part(row).attach(graph, infos[row.role, row.tensor], row.role) for row in rows}
        graph.bind(made)

    def close(self) -> None:
        """Unbind, deregister and free everything, then raise the first error, if any; a second call does nothing."""
        run_all(buffer.close for buffer in reversed(self.buffers.values()))

    def _part(self, row: PlannedTensor) -> BufferPart:
        largest = self._largest[row.shard, row.buffer, row.offset]
        known = None if row.bound == RAW else (largest.dtype, largest.shape)
        return BufferPart(self.buffers[row.buffer], row.offset, row.nbytes, row.bound, known)
