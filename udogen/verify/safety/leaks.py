"""What an op leaves behind, over many executions and many graphs, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from udogen.runtime.op.watch import HeapUse, of_message
from udogen.verify.results import Finding
from udogen.verify.safety.stacks import Stacks, shown

EXECUTIONS, CYCLES = 1_000, 100
_HINT = {
    "executions": "free at the end of execute what it allocates; better, allocate nothing there",
    "cycles": "free in the destructor of State what prepare keeps in it, also where prepare ends with an error",
}
_OF = {"executions": "executions of one graph", "cycles": "graphs, each made, executed once and freed"}


def leak_findings(told: Mapping[str, Any], stacks: Stacks, *, op: str) -> tuple[Finding, ...]:
    """What grew from the first shot to the second and from there to the third, and so will grow on."""
    found: list[Finding] = []
    seen: set[str] = set()
    for kind in ("executions", "cycles"):  # what leaks in an execution does so in a cycle too: told once
        for key, finding in _grown(kind, told[kind], stacks, op):
            if key not in seen:
                found.append(finding)
            seen.add(key)
    return tuple(found)


def _grown(kind: str, told: Mapping[str, Any], stacks: Stacks, op: str) -> Iterator[tuple[str, Finding]]:
    shots = [of_message(shot["heap"]) for shot in told["shots"]]
    times = f"{told['times']:,} {_OF[kind]}"
    for index, site in enumerate(shots[-1].sites):
        sizes = [_live(shot, index)[1] for shot in shots]
        if not sizes[0] < sizes[1] < sizes[2]:
            continue
        count = _live(shots[-1], index)[0] - _live(shots[0], index)[0]
        story = stacks.story(site.frames)
        lines = [f"{site.kind}, by {story.through}" if story.through else site.kind]
        lines += [f"called by {shown(place)}" for place in story.calls]
        sentence = (
            f"op `{op}` leaks: after {times}, {sizes[2] - sizes[0]:,} bytes in {count:,} allocations are still there, "
            f"of {story.where}"
        )
        yield f"{story.where} {story.through}", Finding("leak", sentence, "\n".join(lines), _HINT[kind])
    files = [int(shot["files"]) for shot in told["shots"]]
    if files[0] < files[1] < files[2]:
        sentence = f"op `{op}` leaves files open: {files[2] - files[0]:,} more after {times}"
        yield "files", Finding("leak", sentence, f"open files: {_numbers(files)}", "close what the kernel opens")


def _live(shot: HeapUse, index: int) -> tuple[int, int]:
    """Sites keep their places from shot to shot."""
    return (shot.sites[index].live_count, shot.sites[index].live_bytes) if index < len(shot.sites) else (0, 0)


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(f"{value:,}" for value in values)
