"""Plans from their JSON, and several as one: those of contexts that run one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from udogen.runtime.buffers.plan import BufferPlan, PlannedBuffer, PlannedStep, PlannedTensor


def plan_of(found: Mapping[str, Any]) -> BufferPlan:
    """The plan that `BufferPlan.as_json` wrote."""
    allocator = found["allocator"]
    return BufferPlan(
        steps=tuple(PlannedStep(row["shard"], row["graph"]) for row in found["steps"]),
        buffers=tuple(PlannedBuffer(**row) for row in found["buffers"]),
        tensors=tuple(_tensor(row) for row in found["tensors"]),
        why=allocator["why"],
    )


def _tensor(row: Mapping[str, Any]) -> PlannedTensor:
    rest = {name: value for name, value in row.items() if name not in ("lifetime", "shape")}
    first, last = row["lifetime"]
    return PlannedTensor(**rest, shape=tuple(row["shape"]), first=first, last=last)


def joined(plans: Sequence[BufferPlan]) -> BufferPlan:
    """All of them, one after the other: buffers are named after their shards, steps and values counted through."""
    steps: list[PlannedStep] = []
    buffers: list[PlannedBuffer] = []
    tensors: list[PlannedTensor] = []
    values = 0
    for plan in plans:
        taken = {row.name for row in buffers}
        names = {row.name: _free(row.name, plan, taken) for row in plan.buffers}
        buffers += [replace(row, name=names[row.name]) for row in plan.buffers]
        tensors += [
            replace(
                row,
                buffer=names[row.buffer],
                value=row.value + values,
                first=row.first + len(steps),
                last=row.last + len(steps),
            )
            for row in plan.tensors
        ]
        values = max((row.value for row in tensors), default=-1) + 1
        steps += plan.steps
    return BufferPlan(tuple(steps), tuple(buffers), tuple(tensors), plans[0].why if plans else "")


def _free(name: str, plan: BufferPlan, taken: set[str]) -> str:
    shards = "+".join(str(shard) for shard in dict.fromkeys(step.shard for step in plan.steps))
    return name if name not in taken and name != "all" else f"{name} of shard {shards}"
