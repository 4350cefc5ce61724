"""The planner: tensors and wishes in, buffers and offsets out.  The same question has the same answer."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from udogen.errors import UsageError
from udogen.qnn.tensors import MOST_BYTES
from udogen.runtime.buffers.allocators import ALLOCATORS, Choice, align_up, check_alignment, shared_memory
from udogen.runtime.buffers.plan import (
    ION,
    RAW,
    SHARED_BUFFER,
    BufferPlan,
    PlannedBuffer,
    PlannedStep,
    PlannedTensor,
)
from udogen.runtime.buffers.values import Link, Step, Value, values_of

LARGEST_BUFFER = 2**63 - 1


@dataclass(frozen=True)
class Wishes:
    """How the buffers shall be.

    packed: many tensors in one buffer (SHARED_BUFFER where it is shared), instead of a buffer for each (ION).
    shared: memory with a descriptor, which tensors are bound to by handle, instead of raw memory of this process.
    reuse: tensors that are never alive together may share bytes.
    stepwise: inputs are filled just before their graph runs, outputs read just after it: more bytes can be shared.
    memory: an allocator by name; empty: the one that fits this machine.
    """

    alignment: int = 64
    packed: bool = False
    shared: bool = False
    reuse: bool = False
    stepwise: bool = False
    memory: str = ""


def plan_buffers(steps: Sequence[Step], wishes: Wishes, links: Iterable[Link] = ()) -> BufferPlan:
    """Give every tensor of these graphs its place."""
    check_alignment(wishes.alignment)
    choice = _allocator(wishes)
    values = values_of(steps, links, stepwise=wishes.stepwise)
    _check_sizes(values, wishes)
    blocks = _blocks(values, wishes)
    names = _names(blocks, wishes)
    places = {
        id(value): (name, offset) for name, block in zip(names, blocks, strict=True) for value, offset in block.rows
    }
    return BufferPlan(
        steps=tuple(PlannedStep(step.shard, step.graph.name) for step in steps),
        buffers=tuple(
            PlannedBuffer(name, align_up(block.end, wishes.alignment), wishes.alignment, choice.allocator)
            for name, block in zip(names, blocks, strict=True)
        ),
        tensors=tuple(_tensors(values, places, wishes)),
        why=choice.why,
    )


@dataclass
class _Block:
    """A buffer in the making: its values, by offset."""

    rows: list[tuple[Value, int]]

    @property
    def end(self) -> int:
        return max(offset + value.nbytes for value, offset in self.rows)


def _allocator(wishes: Wishes) -> Choice:
    if not wishes.memory:
        return shared_memory() if wishes.shared else Choice("client", "nobody but this process uses it")
    row = ALLOCATORS.get(wishes.memory)
    if row is None or row.shared != wishes.shared:
        fitting = [name for name, each in ALLOCATORS.items() if each.shared == wishes.shared]
        kind = "shared" if wishes.shared else "raw"
        raise UsageError(f"{kind} buffers cannot be of `{wishes.memory}` memory", hint=f"one of: {', '.join(fitting)}")
    return Choice(wishes.memory, "asked for")


def _check_sizes(values: list[Value], wishes: Wishes) -> None:
    largest = LARGEST_BUFFER if wishes.shared else MOST_BYTES
    large = [f"{value.uses[0].endpoint} has {value.nbytes} bytes" for value in values if value.nbytes > largest]
    total = sum(align_up(value.nbytes, wishes.alignment) for value in values)
    if large and not wishes.shared:
        raise UsageError(
            f"raw buffers of tensors end at {MOST_BYTES} bytes (QNN counts them with 32 bits)",
            details=large,
            hint="bind these tensors to shared memory, or cut them",
        )
    if total > LARGEST_BUFFER:
        raise UsageError(
            f"these tensors take {total} bytes, no process has more than {LARGEST_BUFFER}",
            details=large,
            hint="look for a wrong dimension in the metadata",
        )


def _blocks(values: list[Value], wishes: Wishes) -> list[_Block]:
    if not wishes.packed:
        return _separate(values, wishes)
    groups: dict[tuple[int, ...], list[Value]] = {}
    for value in values:
        # A context maps the whole of a shared buffer: what a shard does not use lies in another one.
        groups.setdefault(value.shards if wishes.shared else (), []).append(value)
    return [_packed(group, wishes) for group in groups.values()]


def _packed(values: list[Value], wishes: Wishes) -> _Block:
    block = _Block([])
    if not wishes.reuse:
        end = 0
        for value in values:
            block.rows.append((value, end))
            end = align_up(end + value.nbytes, wishes.alignment)
        return block
    for value in sorted(values, key=lambda each: -each.nbytes):  # the large ones first, as they fit worst
        insort(block.rows, (value, _lowest(block, value, wishes)), key=_offset)
    return block


def _offset(row: tuple[Value, int]) -> int:
    return row[1]


def _lowest(block: _Block, value: Value, wishes: Wishes) -> int:
    """The lowest offset at which nothing lies that is alive with it."""
    offset = 0
    while True:
        for other, begin in block.rows:
            apart = offset >= begin + other.nbytes or offset + value.nbytes <= begin
            if value.meets(other) and not apart:
                offset = align_up(begin + other.nbytes, wishes.alignment)
        taken = [other for other, begin in block.rows if begin == offset and _clash(value, other, wishes)]
        if not taken:
            return offset
        offset += wishes.alignment


def _clash(value: Value, other: Value, wishes: Wishes) -> bool:
    """Whether one context would have to register one place of a shared buffer with two data types."""
    return wishes.shared and value.dtype != other.dtype and bool(set(value.shards) & set(other.shards))


def _separate(values: list[Value], wishes: Wishes) -> list[_Block]:
    if not wishes.reuse:
        return [_Block([(value, 0)]) for value in values]
    blocks: list[_Block] = []
    for value in sorted(values, key=lambda each: -each.nbytes):
        fitting = (
            block
            for block in blocks
            if not any(value.meets(other) or _clash(value, other, wishes) for other, _ in block.rows)
        )
        block = next(fitting, None)
        if block is None:
            block = _Block([])
            blocks.append(block)
        block.rows.append((value, 0))
    return blocks


def _names(blocks: list[_Block], wishes: Wishes) -> list[str]:
    """A name for each, which says whose it is; none twice."""
    names: dict[str, None] = {}
    for block in blocks:
        first = block.rows[0][0]
        use = first.uses[0]
        if not wishes.packed:
            name = f"{use.shard}.{use.graph}.{use.info.name}"
        elif wishes.shared:
            name = "shard " + "+".join(str(shard) for shard in first.shards)
        else:
            name = "all"
        number = 1
        while (unique := name if number == 1 else f"{name} #{number}") in names:
            number += 1
        names[unique] = None
    return list(names)


def _tensors(values: list[Value], places: dict[int, tuple[str, int]], wishes: Wishes) -> Iterable[PlannedTensor]:
    bound = (SHARED_BUFFER if wishes.packed else ION) if wishes.shared else RAW
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
