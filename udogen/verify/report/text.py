"""Numbers and names as text, and escaping for HTML."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from udogen.backends import PLACES
from udogen.findings import visible

if TYPE_CHECKING:
    from udogen.verify.cases import Case
    from udogen.verify.results import Outcome, TensorResult

_CODE = re.compile(r"`([^`\n]+)`")
_SOURCE = re.compile(r"(?<![\w/.&;])(/[\w./+-]+\.(?:cpp|hpp|cl|c|h|py|toml|xml|json))((?::\d+)*)")
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Html(str):
    """HTML whose parts are already escaped."""


def escape(raw: object) -> str:
    """Escape anything for elements and attributes of HTML and SVG (see `written`)."""
    return raw if isinstance(raw, Html) else html.escape(written(str(raw)), quote=True)


def written(raw: str) -> str:
    """Text for XML and HTML: what is not allowed there becomes U+FFFD; what readers obey or hide is spelled."""
    return visible(_UNWRITABLE.sub("\ufffd", raw))


def table(
    label: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    kind: str = "list stack",
    ids: Sequence[str] = (),
    styles: Mapping[str, str] | None = None,
) -> Html:
    """A scrollable table; `kind` is its CSS class, `styles` the classes of cells by column, `ids` the ids of rows."""
    columns = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    classes = {head: f' class="{style}"' for head, style in (styles or {}).items()}
    opened = [f'<td data-head="{escape(head)}"{classes.get(head, "")}>' for head in heads]  # shown on narrow screens
    lines = []
    for number, (first, *others) in enumerate(rows):
        cells = "".join(f"{tag}{escape(cell)}</td>" for tag, cell in zip(opened[1:], others, strict=True))
        tag = f'<tr id="{escape(ids[number])}">' if ids else "<tr>"
        lines.append(f'{tag}<th scope="row">{escape(first)}</th>{cells}</tr>\n')
    return Html(
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(label)}">\n<table class="{kind}">\n'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>\n{''.join(lines)}</tbody>\n</table>\n</div>"
    )


def rich(sentence: str) -> Html:
    """A sentence, with `backticks` as code, and links to source files on the machine of the run."""
    return Html(_SOURCE.sub(r'<a href="file://\1">\1\2</a>', _CODE.sub(r"<code>\1</code>", escape(sentence))))


def op_name(name: str) -> Html:
    """The name of an op; on a narrow screen the line may break after the package."""
    return Html(escape(name).replace("::", "::<wbr>"))


def backend(name: str) -> str:
    """The name of a backend in a heading."""
    base, _, device = name.partition("@")
    place = PLACES.get(base)
    heading = place.heading if place is not None else base.capitalize()
    return f"{heading} on {device}" if device else heading


def where(place: str, dtype: str) -> str:
    """A backend, with the data type if that is known."""
    return f"{backend(place)}, {dtype}" if dtype else backend(place)


def listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    every = list(dict.fromkeys(names))
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every)


def number(value: object, digits: int = 4) -> str:
    """A number, as short as possible."""
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10000 else str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return re.sub(r"e([-+])0+(?=\d)", lambda match: "e" + match[1].replace("+", ""), f"{value:.{digits}g}")


def seconds(value: float) -> str:
    """`1.94 µs`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def ratio(value: float) -> str:
    """`1.3x`, `0.08x`."""
    return f"{value:.2g}x" if value < 9.95 else f"{value:,.0f}x"


def share(part: int, whole: int) -> str:
    """`7 of 24 (29 %)`; a nonzero part is never rounded to 0 %, nor an incomplete one to 100 %."""
    if not whole:
        return "0"
    percent = 100 * part / whole
    shown = f"{percent:.2g}" if percent < 1 else f"{min(percent, 99):.0f}" if part < whole else "100"
    return f"{part:,} of {whole:,} ({shown} %)"


def with_unit(value: float, unit: str, digits: int = 4) -> str:
    """`2 steps`."""
    return f"{number(value, digits)} {unit}{'' if value == 1 else 's'}" if unit else number(value, digits)


def largest_error(tensor: TensorResult) -> str:
    """The largest difference, with its unit."""
    return with_unit(tensor.max_error, tensor.unit, 3)


def shape(extents: Sequence[int]) -> str:
    """`2x3x4`."""
    return "x".join(map(str, extents)) or "scalar"


def shapes(case: Case) -> str:
    """The inputs with their shapes."""
    return ", ".join(f"{name} {shape(array.shape)}" for name, array in case.inputs.items())


def value_of(param: object) -> str:
    """A parameter's value, not too long."""
    tolist = getattr(param, "tolist", None)
    plain = param if tolist is None else tolist()
    return cut(f"[{', '.join(map(number, plain))}]" if isinstance(plain, list) else number(plain), 80)


def given_at(outcome: Outcome, tensor: TensorResult, index: tuple[int, ...]) -> str:
    """The inputs at an element and the parameters: `x = 0.5, w = [1, 2, 3, 4], alpha = 0.1`."""
    given = {**outcome.inputs_at(tensor, index), **outcome.case.params}
    return cut(", ".join(f"{name} = {value_of(value)}" for name, value in given.items()), 400)


def cut(long: str, letters: int) -> str:
    """The text, truncated to this many letters."""
    return long if len(long) <= letters else long[: letters - 1] + "…"


def index_of(name: str, index: Sequence[int] | None) -> str:
    """`output[0, 1, 3]`."""
    return f"{name}[{', '.join(map(str, index))}]" if index is not None else name
