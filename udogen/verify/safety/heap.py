"""Who uses the heap while an op executes, as findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from udogen.build.emulator import build_watch
from udogen.runtime.built import Built
from udogen.runtime.op.calls import OpResult
from udogen.runtime.op.watch import HeapUse, Site
from udogen.verify.results import Finding
from udogen.verify.safety.stacks import Stacks, Story, shown

CAUSE = "heap-in-execute"
# The rule of Qualcomm's UDO pages, for every backend.
_RULE = (
    "a kernel must not use the heap while it executes: how long that takes has no bound, on DSP and HTP it may "
    "wait for the CPU, and when it fails nothing sensible can follow. Allocate in prepare; in execute take a "
    "std::array, or the room of an output before it is filled"
)
_THREAD_LOCAL = "__tls_get_addr"
_HOW_TO_GET_LINES = "built without -g: `udogen build --lines` makes a library that knows its lines"


def heap_findings(use: HeapUse, stacks: Stacks, *, op: str) -> tuple[Finding, ...]:
    """A finding for each line of the kernel that allocates, the one with most allocations first."""
    found: dict[tuple[object, ...], tuple[Site, Story]] = {}
    for site in use.sites:
        story = stacks.story(site.frames)
        if story.by_us and any(frame.symbol == _THREAD_LOCAL for frame in site.frames):
            continue  # what says which op is running, made by the loader once in each thread of the runtime
        key = (story.place, story.through)
        found[key] = (_both(found[key][0], site), found[key][1]) if key in found else (site, story)
    rows = sorted(found.values(), key=lambda row: -row[0].count)
    findings = [_finding(site, story, op, use.executions) for site, story in rows]
    if use.lost:
        findings.append(
            Finding(
                CAUSE,
                f"op `{op}` allocates in more places than are kept: {use.lost} allocations are not told of",
                hint=_RULE,
            )
        )
    return tuple(findings)


def preloaded(*, heap: bool) -> tuple[Path, ...]:
    """What a session must preload for it."""
    return (build_watch(),) if heap else ()


def findings_of_run(built: Built, result: OpResult, op: str) -> tuple[Finding, ...]:
    """The findings of a call that was run with `Watch(heap=True)`."""
    if result.heap is None:
        return ()
    root = built.folder.path if built.folder is not None else None
    with Stacks(built.library, root, package=built.package, op=op) as stacks:
        return heap_findings(result.heap, stacks, op=op)


def stack_lines(story: Story, kind: str) -> str:
    """The calls, as evidence: what allocated, then the kernel's functions outward."""
    first = f"{kind}, by {story.through}" if story.through else kind
    lines = [first, *(f"called by {shown(place)}" for place in story.calls)]
    return "\n".join([*lines, *([] if story.has_lines else [_HOW_TO_GET_LINES])])


def _finding(site: Site, story: Story, op: str, executions: int) -> Finding:
    times = "once" if site.count == 1 else f"{site.count:,} times"
    return Finding(
        CAUSE,
        f"op `{op}` allocates on the heap {_when(site, executions)}: {times} in {executions:,} "
        f"execution{'s' * (executions != 1)} ({site.bytes:,} bytes), in {story.where}",
        stack_lines(story, site.kind),
        _RULE,
    )


def _when(site: Site, executions: int) -> str:
    if executions > 1 and site.last == 0:
        return "in its first execution"
    if site.first == 0 and site.last == executions - 1 and site.count % executions == 0:
        return "in each execution"
    return "in some executions"


def _both(one: Site, other: Site) -> Site:
    return replace(
        one,
        **{name: getattr(one, name) + getattr(other, name) for name in ("count", "bytes", "live_count", "live_bytes")},
        first=min(one.first, other.first),
        last=max(one.last, other.last),
    )
