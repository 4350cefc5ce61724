"""What an op leaves behind, over many executions and many graphs, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen.runtime.op.commands import Growth, OpRepeated
from udogen.runtime.op.watch import HeapUse
from udogen.verify.results import Finding
from udogen.verify.safety.findings import Stacks, shown

EXECUTIONS, CYCLES = 1_000, 100
_HINT = {
    "executions": "free at the end of execute what it allocates; better, allocate nothing there",
    "cycles": "free in `free` what finalize keeps in the state, on every way on which finalize can end too",
}
_OF = {"executions": "executions of one graph", "cycles": "graphs, each made, executed once and freed"}


def leak_findings(repeated: OpRepeated, stacks: Stacks, *, op: str) -> tuple[Finding, ...]:
    """What grew from the first shot to the second and from there to the third, and so will grow on."""
    found: list[Finding] = []
    seen: set[str] = set()
    # What leaks in an execution does so in a cycle too.
    for kind, growth in (("executions", repeated.executions), ("cycles", repeated.cycles)):
        for key, finding in _grown(kind, growth, stacks, op):
            if key not in seen:
                found.append(finding)
            seen.add(key)
    return tuple(found)


def _grown(kind: str, growth: Growth, stacks: Stacks, op: str) -> Iterator[tuple[str, Finding]]:
    shots = [shot.heap for shot in growth.shots]
    times = f"{growth.times:,} {_OF[kind]}"
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
    files = [shot.files for shot in growth.shots]
    if files[0] < files[1] < files[2]:
        sentence = f"op `{op}` leaves files open: {files[2] - files[0]:,} more after {times}"
        yield "files", Finding("leak", sentence, f"open files: {_numbers(files)}", "close what the kernel opens")


def _live(shot: HeapUse, index: int) -> tuple[int, int]:
    """Sites keep their places from shot to shot."""
    return (shot.sites[index].live_count, shot.sites[index].live_bytes) if index < len(shot.sites) else (0, 0)


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(f"{value:,}" for value in values)
