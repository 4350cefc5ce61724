"""Findings of the safety checks of a kernel: stacks with lines, allocations, reports of sanitizers."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from udogen.build.dwarf import LineTable, SourceLine, readable
from udogen.build.emulator import build_watch
from udogen.findings import Finding
from udogen.runtime.built import Built
from udogen.runtime.failures import Frame
from udogen.runtime.op.calls import OpResult
from udogen.runtime.op.watch import HeapUse, Site
from udogen.tables import many

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
        self._lines = LineTable(library)
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
        places = self._lines.places(frame.offset) or (nameless,)
        return [(SourceLine(self._tidy(place.function), self.short(place.file), place.line), True) for place in places]

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
    "a kernel must not use the heap while it executes: an allocation takes an unbounded time, on DSP and HTP it may "
    "wait for the CPU, and when it fails the kernel cannot go on. Allocate in prepare; in execute use a "
    "std::array, or the memory of an output before it is filled"
)
_THREAD_LOCAL = "__tls_get_addr"
_HOW_TO_GET_LINES = "built without -g: `udogen build --lines` makes a library with line numbers"


def allocations(use: HeapUse, stacks: StackReader, *, op: str) -> tuple[Finding, ...]:
    """A finding for each line of the kernel that allocates, the one with most allocations first."""
    groups: dict[tuple[SourceLine | None, str], list[tuple[Site, StackSummary]]] = {}
    for site in use.sites:
        stack = stacks.summary(site.frames)
        if stack.in_generated_code and any(frame.symbol == _THREAD_LOCAL for frame in site.frames):
            continue  # the loader allocates thread-local variables once for each thread of the runtime
        groups.setdefault((stack.place, stack.through), []).append((site, stack))
    rows = [([site for site, _ in group], group[0][1]) for group in groups.values()]
    rows.sort(key=lambda row: -sum(site.count for site in row[0]))
    findings = [_finding(sites, stack, op, use.executions) for sites, stack in rows]
    if use.lost:
        text = f"op `{op}` allocates in more places than are kept: {use.lost} allocations are not listed"
        findings.append(Finding(text, _RULE, kind=_HEAP))
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


def _finding(sites: Sequence[Site], stack: StackSummary, op: str, executions: int) -> Finding:
    count, size = sum(site.count for site in sites), sum(site.bytes for site in sites)
    first, last = min(site.first for site in sites), max(site.last for site in sites)
    when = "in some executions"
    if executions > 1 and last == 0:
        when = "in its first execution"
    elif first == 0 and last == executions - 1 and count % executions == 0:
        when = "in each execution"
    times = "once" if count == 1 else f"{count:,} times"
    return Finding(
        f"op `{op}` allocates on the heap {when}: {times} in {many(executions, 'execution')} ({size:,} bytes), "
        f"in {stack.where}",
        _RULE,
        kind=_HEAP,
        evidence="\n".join([*_stack_lines(stack, sites[0].kind), *([] if stack.has_lines else [_HOW_TO_GET_LINES])]),
    )


# --- reports of sanitizers --------------------------------------------------------------------------------------------


_FRAME = re.compile(r"^\s+#\d+ .*\((?P<library>[^()]+)\+(?P<offset>0x[0-9a-f]+)\)")
_REPORT = re.compile(
    r"(?P<kind>ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error): (?P<what>.*?)( on | \(|$)"
)
_SHOWN_LINE = re.compile(r"of size \d+|is located \d+ bytes|runtime error")  # of a report, as evidence

RACE_HINT = "keep what an execution needs in the state of its own node, or on the stack; no globals, no statics"
# Kind of report -> cause, beginning of the sentence, remedy.
_CAUSES = {
    "ERROR: AddressSanitizer": (
        "out-of-bounds",
        "uses memory that is not its own",
        "let the kernel's loops end at the tensor's own dimensions",
    ),
    "runtime error": (
        "undefined-behaviour",
        "does what C++ does not define",
        "the result of such code is undefined: another compiler, such as the DSP's, may return something else",
    ),
    "WARNING: ThreadSanitizer": ("data-race", "collides with itself in another graph at the same time", RACE_HINT),
}


def sanitizer_reports(text: str, stacks: StackReader, *, op: str, library: Path) -> tuple[Finding, ...]:
    """The findings in the reports of one run that concern the op package."""
    lines = text.splitlines()
    begins = [(number, match) for number, line in enumerate(lines) if (match := _REPORT.search(line))]
    ends = [*(number for number, _ in begins[1:]), len(lines)]
    by_sentence: dict[str, Finding] = {}
    for (begin, match), end in zip(begins, ends, strict=False):  # without a report there is an end, and no beginning
        report = lines[begin:end]
        calls = list(_stacks(report[1:], library))
        cause, verb, hint = _CAUSES[match["kind"]]
        # The runtime is not instrumented: accesses under its own locks would be reported as races.
        if cause == "data-race" and (len(calls) < 2 or any(frames[0].library != str(library) for frames in calls[:2])):
            continue
        stack = stacks.summary(calls[0] if calls else ())
        evidence = [line.strip() for line in report if _SHOWN_LINE.search(line)][:_SHOWN]
        evidence += [f"called by {shown(place)}" for place in stack.calls[1:]]
        sentence = f"op `{op}` {verb}: {match['what']}, in {stack.where}"
        by_sentence.setdefault(sentence, Finding(sentence, hint, kind=cause, evidence="\n".join(evidence)))
    return tuple(by_sentence.values())


def _stacks(lines: Sequence[str], library: Path) -> Iterator[tuple[Frame, ...]]:
    """Each stack of a report, innermost frame first."""
    for is_frame, group in itertools.groupby((_FRAME.match(line) for line in lines), key=bool):
        if is_frame:
            yield tuple(_frame(match, library) for match in group if match)


def _frame(match: re.Match[str], library: Path) -> Frame:
    path = match["library"]  # ThreadSanitizer writes only the name
    return Frame(str(library) if Path(path).name == library.name else path, int(match["offset"], 16))
