"""A buffer plan as SVG: the tensors of each buffer, one per line, with lifetime and place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from udogen.draw.diagram import LETTER, shorten
from udogen.draw.svg import document, line, text_of
from udogen.runtime.buffers.plan import BufferPlan, PlannedBuffer, PlannedTensor
from udogen.tables import many

_LINE, _HEAD, _MARGIN = 18, 34, 16  # heights of a tensor's line and of a buffer's headline; margin
_NAME, _WHEN, _WHERE = 56, 300, 300  # letters of a name; widths of the two drawings
_TICKS = 12  # the maximum of steps with a number, so that numbers do not touch
_GAP = 18

_LEFT = _MARGIN + int(_NAME * LETTER) + _GAP
_MIDDLE = _LEFT + _WHEN + _GAP
_RIGHT = _MIDDLE + _WHERE + _GAP
_WIDTH = _RIGHT + int(30 * LETTER) + _MARGIN

_STYLE = """
  :root { --paper: #ffffff; --ink: #1b1f24; --quiet: #59636e; --rule: #d1d9e0; --band: #f3f5f7;
          --write: #0969da; --read: #bc4c00; --both: #7a3fc4 }
  @media (prefers-color-scheme: dark) {
    :root { --paper: #0d1117; --ink: #e6edf3; --quiet: #9aa4af; --rule: #3d444d; --band: #161c24;
            --write: #539bf5; --read: #f0883e; --both: #b587f2 }
  }
  .band { fill: var(--band) }
  .rail { fill: none; stroke: var(--rule) }
  .write { fill: var(--write) }
  .read { fill: var(--read) }
  .both { fill: var(--both) }
"""
_ROLES = (("write", "input"), ("read", "output"), ("both", "shared with another tensor"))


def draw_plan(plan: BufferPlan, *, title: str = "Buffer plan") -> str:
    """Draw a plan as an SVG document, for light and dark, with text for screen readers.

    `Path("plan.svg").write_text(draw_plan(plan))`
    """
    described = (
        f"{many(len(plan.buffers), 'buffer')} of {_bytes(plan.size)} for {many(len(plan.tensors), 'tensor')} "
        f"in {many(len(plan.steps), 'execution')}. Each line is a tensor: name, lifetime in steps, place in its buffer."
    )
    return document(title, described, _WIDTH, _STYLE, _body(plan))


def _body(plan: BufferPlan) -> Iterator[str]:
    """The elements from top to bottom; the last item is the total height."""
    kind = f" of {plan.buffers[0].allocator} memory" if plan.buffers else ""
    shared = {value for value, uses in Counter(row.value for row in plan.tensors).items() if uses > 1}
    y = _MARGIN + 14
    yield line(_MARGIN, y, f"{_bytes(plan.size)} in {many(len(plan.buffers), 'buffer')}{kind}", "head")
    x: float = _LEFT
    for colour, meaning in _ROLES:
        yield f'<rect class="{colour}" x="{x:g}" y="{y - 9}" width="10" height="10"/>'
        yield line(x + 16, y, meaning)
        x += 16 + (len(meaning) + 3) * LETTER
    y += _LINE
    for x, meaning in ((_MARGIN, "shard graph.tensor"), (_LEFT, "alive in step"), (_MIDDLE, "place in its buffer")):
        yield line(x, y, meaning, "quiet")
    for buffer in plan.buffers:
        y += _HEAD
        rows = sorted(
            (row for row in plan.tensors if row.buffer == buffer.name), key=lambda row: (row.offset, row.first)
        )
        yield f'<g role="group" aria-label="{text_of(f"buffer {buffer.name}, {_bytes(buffer.size)}")}">'
        yield line(_MARGIN, y, shorten(f"{buffer.name}: {_bytes(buffer.size)}", _NAME), "head")
        yield from _axis(plan, y)
        yield line(_MIDDLE, y, "0", "quiet")
        yield line(_MIDDLE + _WHERE, y, _bytes(buffer.size), "quiet", "end")
        yield line(_RIGHT, y, "offset + bytes", "quiet")
        for index, row in enumerate(rows):
            y += _LINE
            if index % 2 == 0:
                wide = _WIDTH - 2 * _MARGIN + 12
                yield f'<rect class="band" x="{_MARGIN - 6}" y="{y - 13}" width="{wide}" height="{_LINE}"/>'
            yield from _tensor(plan, buffer, row, y, is_shared=row.value in shared)
        yield "</g>"
    yield str(y + _MARGIN)


def _axis(plan: BufferPlan, y: int) -> Iterator[str]:
    steps = max(len(plan.steps), 1)
    every = -(-steps // _TICKS)
    for step in range(0, steps, every):
        yield line(_LEFT + _WHEN * (step + 0.5) / steps, y, str(step), "quiet", "middle")


def _tensor(plan: BufferPlan, buffer: PlannedBuffer, row: PlannedTensor, y: int, *, is_shared: bool) -> Iterator[str]:
    steps = max(len(plan.steps), 1)
    name = f"{row.shard} {row.graph}.{row.tensor}"
    colour = "both" if is_shared else "write" if row.role == "APP_WRITE" else "read"
    when = (_LEFT + _WHEN * row.first / steps, _WHEN * (row.last - row.first + 1) / steps)
    where = (_MIDDLE + _WHERE * row.offset / buffer.size, _WHERE * row.nbytes / buffer.size)
    title = (
        f"{row.tensor} of graph {row.graph}, shard {row.shard}: {row.dtype} {list(row.shape)}, {row.role}, "
        f"{row.nbytes} bytes at offset {row.offset} of {row.buffer}, "
        f"steps {row.first} to {row.last}, bound as {row.bound}"
    )
    yield f"<g><title>{text_of(title)}</title>"
    yield line(_MARGIN, y, shorten(name, _NAME))
    for left, width, (begin, length) in ((_LEFT, _WHEN, when), (_MIDDLE, _WHERE, where)):
        thick = max(length, 2)  # small tensors stay visible
        from_x = min(begin, left + width - thick)
        yield f'<rect class="rail" x="{left}" y="{y - 9.5}" width="{width}" height="11"/>'
        yield f'<rect class="{colour}" x="{from_x:.2f}" y="{y - 9}" width="{thick:.2f}" height="10"/>'
    yield line(_RIGHT, y, f"{row.offset} + {row.nbytes}", "quiet")
    yield "</g>"


def _bytes(number: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= size:
            return f"{number / size:.4g} {unit}"
    return f"{number} bytes"
