"""What AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer write (unsymbolized), as findings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from udogen.runtime.channel import Region
from udogen.runtime.op.calls import OpCall
from udogen.runtime.op.faults import Frame
from udogen.verify.results import Finding
from udogen.verify.safety.findings import Stacks, shown

_FRAME = re.compile(r"^\s+#\d+ .*\((?P<library>[^()]+)\+(?P<offset>0x[0-9a-f]+)\)")
_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?P<what>[\w-]+)")
_ACCESS = re.compile(r"^(?P<how>READ|WRITE) of size (?P<size>\d+)")
# Older releases say `to the right of`, later ones `after`.
_REGION = re.compile(
    r"is located (?P<by>\d+) bytes (?P<side>to the right of|to the left of|after|before|inside of|inside) "
    r"(?P<size>\d+)-byte region \[0x(?P<begin>[0-9a-f]+),0x(?P<end>[0-9a-f]+)\)"
)
_UNDEFINED = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+): runtime error: (?P<what>.*)$")
_RACE_ACCESS = re.compile(r"^\s+(?P<previous>Previous )?(?:atomic )?(?P<how>[Rr]ead|[Ww]rite) of size (?P<size>\d+)")

RACE_HINT = "keep what an execution needs in the state of its own node, or on the stack; no globals, no statics"
_BOUNDS_HINT = "let the kernel's loops end at the tensor's own dimensions"


class Context(NamedTuple):
    """What a report is about."""

    op: str
    library: Path
    call: OpCall
    regions: Sequence[Region]  # where the tensors' data lay that we bound
    sizes: Mapping[str, int]  # bytes of each input, which a runtime may have copied


def findings_of(text: str, stacks: Stacks, about: Context) -> tuple[Finding, ...]:
    """Everything that one run's reports say of the op package."""
    lines = text.splitlines()
    found = [*_addresses(lines, stacks, about), *_undefined(lines, stacks, about), *_races(lines, stacks, about)]
    return tuple({(each.cause, each.sentence): each for each in found}.values())


def _stack(lines: Sequence[str], begin: int, library: Path) -> tuple[Frame, ...]:
    """The frames that begin in this line or one of the next, innermost first."""
    found: list[Frame] = []
    for line in lines[begin:]:
        match = _FRAME.match(line)
        if match is None:
            if found or not line.strip():
                break
            continue
        path = match["library"]  # ThreadSanitizer tells the name alone
        path = str(library) if Path(path).name == library.name else path
        found.append(Frame(path, int(match["offset"], 16)))
    return tuple(found)


# --- address --------------------------------------------------------------------------------------------------


def _addresses(lines: Sequence[str], stacks: Stacks, about: Context) -> Iterator[Finding]:
    for number, line in enumerate(lines):
        error = _ADDRESS.search(line)
        if error is None:
            continue
        rest = lines[number:]
        access = next((match for each in rest if (match := _ACCESS.match(each))), None)
        region = next((match for each in rest if (match := _REGION.search(each))), None)
        story = stacks.story(_stack(lines, number + 1, about.library))
        verb = {"READ": "read", "WRITE": "wrote"}[access["how"]] if access else "used"
        bytes_ = f"{access['size']} bytes" if access else "memory"
        where = _beside(region, about) if region else ""
        said = f"op `{about.op}` {verb} {bytes_} {where or '(' + error['what'] + ')'}"
        if not where and region:
            said += f", {region['by']} bytes {region['side']} an allocation of {region['size']} bytes"
        evidence = [f"AddressSanitizer: {error['what']}", *(f"in {shown(place)}" for place in story.calls)]
        yield Finding("out-of-bounds", f"{said}, in {story.where}", "\n".join(evidence), _BOUNDS_HINT)


def _beside(region: re.Match[str], about: Context) -> str:
    """Past the end of its input `x` (96 bytes); empty where the allocation is no tensor's."""
    begin, size = int(region["begin"], 16), int(region["size"])
    name = next((f"its {region.role} `{region.name}`" for region in about.regions if region.address == begin), "")
    if not name:  # the runtime copies inputs into memory of its own
        same = [name for name, nbytes in about.sizes.items() if nbytes == size]
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


def _undefined(lines: Sequence[str], stacks: Stacks, about: Context) -> Iterator[Finding]:
    for number, line in enumerate(lines):
        match = _UNDEFINED.match(line)
        if match is None:
            continue
        story = stacks.story(_stack(lines, number + 1, about.library))
        function = f"`{story.place.function}` " if story.place else ""
        file = stacks.short(match["file"])
        yield Finding(
            "undefined-behaviour",
            f"op `{about.op}` does what C++ does not define: {match['what']}, in {function}({file}:{match['line']})",
            "\n".join([line, *(f"called by {shown(place)}" for place in story.calls[1:])]),
            "a compiler may make anything of such code: another release, or the DSP's, will answer something else",
        )


# --- thread ---------------------------------------------------------------------------------------------------


def _races(lines: Sequence[str], stacks: Stacks, about: Context) -> Iterator[Finding]:
    begins = [number for number, line in enumerate(lines) if "WARNING: ThreadSanitizer: data race" in line]
    for begin, end in itertools.pairwise([*begins, len(lines)]):
        accesses = [
            (match["how"].lower(), _stack(lines, number + 1, about.library))
            for number in range(begin, end)
            if (match := _RACE_ACCESS.match(lines[number]))
        ]
        # The runtime is not instrumented: what it does with locks of its own would only seem to be a race.
        if len(accesses) < 2 or any(not each or each[0].library != str(about.library) for _, each in accesses[:2]):
            continue
        (how, one), (other_how, other) = accesses[:2]
        first, second = stacks.story(one), stacks.story(other)
        yield Finding(
            "data-race",
            f"two graphs of op `{about.op}` collide when they run at the same time: one does a {how} in {first.where}, "
            f"the other a {other_how} of the same memory in {second.where}",
            "\n".join(
                line
                for word, story in ((how, first), (other_how, second))
                for line in (f"{word}:", *(f"  in {shown(place)}" for place in story.calls))
            ),
            RACE_HINT,
        )
