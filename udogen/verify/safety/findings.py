"""Findings of the safety checks of a kernel: stacks with lines, allocations, leaks, reports of sanitizers."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from udogen.build.dwarf import Lines, SourceLine, readable
from udogen.build.emulator import build_watch
from udogen.runtime.built import Built
from udogen.runtime.channel import Region
from udogen.runtime.op.calls import OpResult
from udogen.runtime.op.commands import Growth, OpRepeated
from udogen.runtime.op.faults import Frame
from udogen.runtime.op.watch import HeapUse, Site
from udogen.verify.results import Finding

# --- stacks ---------------------------------------------------------------------------------------------------

# Functions of the compiler's libraries, not of the kernel: by name, or by file.
_STANDARD_NAME = re.compile(r"(std|__gnu_cxx|__cxxabiv1)::|operator (new|delete)\b|__")
_STANDARD_FILE = re.compile(r"/(include/c\+\+|libcxx(abi)?|bits|lib/clang|lib/gcc)/|^/usr/include/|/lib/std/")
# Code that udogen generates around a kernel: the dispatch, and the view of tensors.
_GENERATED = re.compile(r"(^|/)(src/utils/|include/ops/|include/udogen\.hpp|src/udogen_)")
_ALLOCATOR = re.compile(r", std::allocator<[^<>]*> ?>")
_SHOWN = 8


@dataclass(frozen=True)
class StackSummary:
    """The part of a stack that concerns the kernel."""

    place: SourceLine | None  # the innermost line of the kernel itself; None if no name is known
    through: str  # what that line called: `std::vector<float>::push_back`; empty if it allocates directly
    calls: tuple[SourceLine, ...]  # the kernel's functions, innermost first
    has_lines: bool
    in_generated_code: bool = False  # the innermost function of the package is generated, not the kernel's

    @property
    def where(self) -> str:
        """`keep` (src/ops/LeakyRelu.cpp:12)."""
        return shown(self.place) if self.place else "a function without a name"


def shown(place: SourceLine) -> str:
    """A source line, formatted for a sentence."""
    return f"`{place.function}` ({place.file}:{place.line})" if place.file else f"`{place.function}`"


class StackReader:
    """Reads stacks of one op package; use it as a context manager."""

    def __init__(self, library: Path, root: Path | None = None, *, package: str = "", op: str = "") -> None:
        self._lines = Lines(library)
        self._library = os.path.realpath(library)
        self._root = str(root.resolve()) if root else ""
        self._prefix = re.compile(
            rf"(ops::{re.escape(package)}::{re.escape(op)}::|\{{anonymous\}}::|\(anonymous namespace\)::)"
        )

    def __enter__(self) -> StackReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.__exit__()

    @property
    def has_lines(self) -> bool:
        """Whether the package was built with -g."""
        return self._lines.has_lines

    def summary(self, frames: Iterable[Frame]) -> StackSummary:
        """The summary of a stack, innermost frame first."""
        places = [(place, inside) for frame in frames for place, inside in self._places(frame)]
        package = [index for index, (_, inside) in enumerate(places) if inside]
        own = [index for index in package if not _is_standard(places[index][0])] or package
        kernel = [index for index in own if not _is_generated(places[index][0])] or own
        first = kernel[0] if kernel else len(places)
        calls = tuple(places[index][0] for index in kernel)
        return StackSummary(
            place=calls[0] if calls else None,
            through=places[first - 1][0].function if first else "",
            calls=calls[:_SHOWN],
            has_lines=self.has_lines,
            in_generated_code=bool(own) and _is_generated(places[own[0]][0]),
        )

    def _places(self, frame: Frame) -> list[tuple[SourceLine, bool]]:
        if os.path.realpath(frame.library) != self._library:
            return [(SourceLine(readable(frame.symbol), "", 0), False)] if frame.symbol else []
        nameless = SourceLine(f"{Path(self._library).name}+{frame.offset:#x}", "", 0)
        found = self._lines.places(frame.offset) or (nameless,)
        return [(SourceLine(self._tidy(place.function), self.short(place.file), place.line), True) for place in found]

    def _tidy(self, function: str) -> str:
        return _ALLOCATOR.sub(">", self._prefix.sub("", function))

    def short(self, file: str) -> str:
        """A file's path, relative to the package's folder."""
        return os.path.relpath(file, self._root) if self._root and file.startswith(self._root + os.sep) else file


def _is_generated(place: SourceLine) -> bool:
    return bool(_GENERATED.search(place.file)) or place.function.startswith("udo::")


def _is_standard(place: SourceLine) -> bool:
    return bool(_STANDARD_NAME.match(place.function) or _STANDARD_FILE.search(place.file))


# --- allocations while an op executes ---------------------------------------------------------------------------------


_HEAP = "heap-in-execute"
# The rule of Qualcomm's UDO pages, for every backend.
_RULE = (
    "a kernel must not use the heap while it executes: how long that takes has no bound, on DSP and HTP it may "
    "wait for the CPU, and when it fails the kernel cannot go on. Allocate in prepare; in execute use a "
    "std::array, or the memory of an output before it is filled"
)
_THREAD_LOCAL = "__tls_get_addr"
_HOW_TO_GET_LINES = "built without -g: `udogen build --lines` makes a library with line numbers"


def allocations(use: HeapUse, stacks: StackReader, *, op: str) -> tuple[Finding, ...]:
    """A finding for each line of the kernel that allocates, the one with most allocations first."""
    found: dict[tuple[object, ...], tuple[Site, StackSummary]] = {}
    for site in use.sites:
        stack = stacks.summary(site.frames)
        if stack.in_generated_code and any(frame.symbol == _THREAD_LOCAL for frame in site.frames):
            continue  # the loader allocates thread-local variables once for each thread of the runtime
        key = (stack.place, stack.through)
        found[key] = (_both(found[key][0], site), found[key][1]) if key in found else (site, stack)
    rows = sorted(found.values(), key=lambda row: -row[0].count)
    findings = [_finding(site, stack, op, use.executions) for site, stack in rows]
    if use.lost:
        findings.append(
            Finding(
                _HEAP,
                f"op `{op}` allocates in more places than are kept: {use.lost} allocations are not listed",
                hint=_RULE,
            )
        )
    return tuple(findings)


def preloaded(*, heap: bool) -> tuple[Path, ...]:
    """The libraries that a session must preload for `Watch(heap=True)`."""
    return (build_watch(),) if heap else ()


def findings_of_run(built: Built, result: OpResult, op: str) -> tuple[Finding, ...]:
    """The findings of a call that was run with `Watch(heap=True)`."""
    if result.heap is None:
        return ()
    root = built.folder.path if built.folder is not None else None
    with StackReader(built.library, root, package=built.package, op=op) as stacks:
        return allocations(result.heap, stacks, op=op)


def _stack_lines(stack: StackSummary, kind: str) -> list[str]:
    """Evidence: what allocated, then the kernel's functions, innermost first."""
    first = f"{kind}, by {stack.through}" if stack.through else kind
    return [first, *(f"called by {shown(place)}" for place in stack.calls)]


def _finding(site: Site, stack: StackSummary, op: str, executions: int) -> Finding:
    times = "once" if site.count == 1 else f"{site.count:,} times"
    return Finding(
        _HEAP,
        f"op `{op}` allocates on the heap {_when(site, executions)}: {times} in {executions:,} "
        f"execution{'s' * (executions != 1)} ({site.bytes:,} bytes), in {stack.where}",
        "\n".join([*_stack_lines(stack, site.kind), *([] if stack.has_lines else [_HOW_TO_GET_LINES])]),
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


# --- leaks ------------------------------------------------------------------------------------------------------------


EXECUTIONS, CYCLES = 1_000, 100
_HINT = {
    "executions": "free at the end of execute what it allocates; better, allocate nothing there",
    "cycles": "free what `prepare` allocates in the destructor of `State`, also if `prepare` returns an error",
}
_OF = {"executions": "executions of one graph", "cycles": "graphs, each made, executed once and freed"}


def leaks(repeated: OpRepeated, stacks: StackReader, *, op: str) -> tuple[Finding, ...]:
    """Findings for what grew from the first snapshot to the second, and again to the third."""
    found: list[Finding] = []
    seen: set[str] = set()
    # A leak in an execution is also a leak in a cycle; report it once.
    for kind, growth in (("executions", repeated.executions), ("cycles", repeated.cycles)):
        for key, finding in _grown(kind, growth, stacks, op):
            if key not in seen:
                found.append(finding)
            seen.add(key)
    return tuple(found)


def _grown(kind: str, growth: Growth, stacks: StackReader, op: str) -> Iterator[tuple[str, Finding]]:
    shots = [shot.heap for shot in growth.shots]
    times = f"{growth.times:,} {_OF[kind]}"
    for index, site in enumerate(shots[-1].sites):
        sizes = [_live(shot, index)[1] for shot in shots]
        if not sizes[0] < sizes[1] < sizes[2]:
            continue
        count = _live(shots[-1], index)[0] - _live(shots[0], index)[0]
        stack = stacks.summary(site.frames)
        lines = _stack_lines(stack, site.kind)
        sentence = (
            f"op `{op}` leaks: after {times}, {sizes[2] - sizes[0]:,} bytes in {count:,} allocations are still there, "
            f"of {stack.where}"
        )
        yield f"{stack.where} {stack.through}", Finding("leak", sentence, "\n".join(lines), _HINT[kind])
    files = [shot.files for shot in growth.shots]
    if files[0] < files[1] < files[2]:
        sentence = f"op `{op}` leaves files open: {files[2] - files[0]:,} more after {times}"
        yield "files", Finding("leak", sentence, f"open files: {_numbers(files)}", "close what the kernel opens")


def _live(shot: HeapUse, index: int) -> tuple[int, int]:
    """The live count and bytes of a site; a site has the same index in all snapshots."""
    return (shot.sites[index].live_count, shot.sites[index].live_bytes) if index < len(shot.sites) else (0, 0)


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(f"{value:,}" for value in values)


# --- reports of sanitizers --------------------------------------------------------------------------------------------


_FRAME = re.compile(r"^\s+#\d+ .*\((?P<library>[^()]+)\+(?P<offset>0x[0-9a-f]+)\)")
_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?P<what>[\w-]+)")
_ACCESS = re.compile(r"^(?P<how>READ|WRITE) of size (?P<size>\d+)")
# Older releases write `to the right of`, later ones `after`.
_REGION = re.compile(
    r"is located (?P<by>\d+) bytes (?P<side>to the right of|to the left of|after|before|inside of|inside) "
    r"(?P<size>\d+)-byte region \[0x(?P<begin>[0-9a-f]+),0x(?P<end>[0-9a-f]+)\)"
)
_UNDEFINED = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+): runtime error: (?P<what>.*)$")
_RACE_ACCESS = re.compile(r"^\s+(?P<previous>Previous )?(?:atomic )?(?P<how>[Rr]ead|[Ww]rite) of size (?P<size>\d+)")

RACE_HINT = "keep what an execution needs in the state of its own node, or on the stack; no globals, no statics"
_BOUNDS_HINT = "let the kernel's loops end at the tensor's own dimensions"


class SanitizedCall(NamedTuple):
    """The call that reports are about."""

    op: str
    library: Path
    regions: Sequence[Region]  # where the data of bound tensors was
    sizes: Mapping[str, int]  # bytes of each input, which a runtime may have copied


def sanitizer_reports(text: str, stacks: StackReader, call: SanitizedCall) -> tuple[Finding, ...]:
    """The findings in the reports of one run that concern the op package."""
    lines = text.splitlines()
    found = [*_addresses(lines, stacks, call), *_undefined(lines, stacks, call), *_races(lines, stacks, call)]
    return tuple({(each.cause, each.sentence): each for each in found}.values())


def _stack(lines: Sequence[str], begin: int, library: Path) -> tuple[Frame, ...]:
    """The first stack at or after this line, innermost frame first."""
    found: list[Frame] = []
    for line in lines[begin:]:
        match = _FRAME.match(line)
        if match is None:
            if found or not line.strip():
                break
            continue
        path = match["library"]  # ThreadSanitizer writes only the name
        path = str(library) if Path(path).name == library.name else path
        found.append(Frame(path, int(match["offset"], 16)))
    return tuple(found)


# --- address --------------------------------------------------------------------------------------------------


def _addresses(lines: Sequence[str], stacks: StackReader, call: SanitizedCall) -> Iterator[Finding]:
    for number, line in enumerate(lines):
        error = _ADDRESS.search(line)
        if error is None:
            continue
        rest = lines[number:]
        access = next((match for each in rest if (match := _ACCESS.match(each))), None)
        region = next((match for each in rest if (match := _REGION.search(each))), None)
        stack = stacks.summary(_stack(lines, number + 1, call.library))
        verb = {"READ": "read", "WRITE": "wrote"}[access["how"]] if access else "used"
        bytes_ = f"{access['size']} bytes" if access else "memory"
        where = _beside(region, call) if region else ""
        sentence = f"op `{call.op}` {verb} {bytes_} {where or '(' + error['what'] + ')'}"
        if not where and region:
            sentence += f", {region['by']} bytes {region['side']} an allocation of {region['size']} bytes"
        evidence = [f"AddressSanitizer: {error['what']}", *(f"in {shown(place)}" for place in stack.calls)]
        yield Finding("out-of-bounds", f"{sentence}, in {stack.where}", "\n".join(evidence), _BOUNDS_HINT)


def _beside(region: re.Match[str], call: SanitizedCall) -> str:
    """`past the end of its input x (96 bytes)`; empty if the allocation is not that of a tensor."""
    begin, size = int(region["begin"], 16), int(region["size"])
    name = next((f"its {region.role} `{region.name}`" for region in call.regions if region.address == begin), "")
    if not name:  # the runtime copies inputs into its own memory
        same = [name for name, nbytes in call.sizes.items() if nbytes == size]
        name = " or ".join(f"its input `{each}`" for each in same)
    if not name:
        return ""
    side = region["side"]
    if "inside" in side:
        return f"of {name} ({size} bytes) after it was freed"
    return (
        f"{'past the end' if side in ('to the right of', 'after') else 'before the beginning'} of {name} ({size} bytes)"
    )


# --- undefined ------------------------------------------------------------------------------------------------


def _undefined(lines: Sequence[str], stacks: StackReader, call: SanitizedCall) -> Iterator[Finding]:
    for number, line in enumerate(lines):
        match = _UNDEFINED.match(line)
        if match is None:
            continue
        stack = stacks.summary(_stack(lines, number + 1, call.library))
        function = f"`{stack.place.function}` " if stack.place else ""
        file = stacks.short(match["file"])
        yield Finding(
            "undefined-behaviour",
            f"op `{call.op}` does what C++ does not define: {match['what']}, in {function}({file}:{match['line']})",
            "\n".join([line, *(f"called by {shown(place)}" for place in stack.calls[1:])]),
            "a compiler may make anything of such code: another release, or the DSP's, may return something else",
        )


# --- thread ---------------------------------------------------------------------------------------------------


def _races(lines: Sequence[str], stacks: StackReader, call: SanitizedCall) -> Iterator[Finding]:
    begins = [number for number, line in enumerate(lines) if "WARNING: ThreadSanitizer: data race" in line]
    for begin, end in itertools.pairwise([*begins, len(lines)]):
        accesses = [
            (match["how"].lower(), _stack(lines, number + 1, call.library))
            for number in range(begin, end)
            if (match := _RACE_ACCESS.match(lines[number]))
        ]
        # The runtime is not instrumented: accesses under its own locks would be reported as races.
        if len(accesses) < 2 or any(not each or each[0].library != str(call.library) for _, each in accesses[:2]):
            continue
        (how, one), (other_how, other) = accesses[:2]
        first, second = stacks.summary(one), stacks.summary(other)
        yield Finding(
            "data-race",
            f"two graphs of op `{call.op}` collide when they run at the same time: one does a {how} in {first.where}, "
            f"the other a {other_how} of the same memory in {second.where}",
            "\n".join(
                line
                for word, stack in ((how, first), (other_how, second))
                for line in (f"{word}:", *(f"  in {shown(place)}" for place in stack.calls))
            ),
            RACE_HINT,
        )
