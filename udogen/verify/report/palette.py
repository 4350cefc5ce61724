"""The colours of the report: each with its name, in light and in dark, and what must be readable on what."""

from __future__ import annotations

from typing import NamedTuple


class Colour(NamedTuple):
    """A CSS variable."""

    name: str
    light: str
    dark: str


COLOURS = (
    Colour("page", "#f4f6f8", "#0e1216"),
    Colour("card", "#ffffff", "#171c22"),
    Colour("band", "#f0f3f6", "#1e252d"),
    Colour("ink", "#1a1f26", "#e8ecf1"),
    Colour("quiet", "#55606c", "#a5b0bb"),
    Colour("rule", "#d7dde4", "#303943"),
    Colour("edge", "#7b8794", "#6f7c89"),  # of what must be seen to be used: buttons, bars
    Colour("link", "#1f56c3", "#8db4ff"),
    Colour("passed", "#166b40", "#6ed7a0"),
    Colour("passed-band", "#e3f4ea", "#12291e"),
    Colour("failed", "#b1241c", "#ff9d94"),
    Colour("failed-band", "#fdeceb", "#381b1a"),
    Colour("error", "#8a4a00", "#f4b860"),
    Colour("error-band", "#fdf1df", "#332512"),
    Colour("ran", "#1f56c3", "#8db4ff"),
    Colour("ran-band", "#e6eefc", "#1a2740"),
    Colour("skipped", "#55606c", "#a5b0bb"),
    Colour("skipped-band", "#e9edf1", "#262e37"),
    Colour("bar", "#4a74d0", "#6f9af0"),
    Colour("bar-back", "#e3e8ef", "#2a323c"),
)


class Pair(NamedTuple):
    """What is drawn on what, and by which contrast at least (WCAG 2.2 AA: 4.5 for text, 3 for shapes)."""

    front: str
    back: str
    least: float


TEXT, SHAPE = 4.5, 3.0
_STATUSES = ("passed", "failed", "error", "ran", "skipped")
PAIRS = (
    *(Pair(text, back, TEXT) for text in ("ink", "quiet", "link") for back in ("page", "card", "band")),
    *(Pair(status, f"{status}-band", TEXT) for status in _STATUSES),
    *(Pair(text, f"{status}-band", TEXT) for text in ("ink", "quiet", "link") for status in _STATUSES),
    *(Pair(status, back, TEXT) for status in _STATUSES for back in ("page", "card")),
    *(Pair("edge", back, SHAPE) for back in ("page", "card")),
    *(Pair("bar", back, SHAPE) for back in ("card", "bar-back")),
    *(Pair("failed", back, SHAPE) for back in ("card", "bar-back")),
)

# From little to much, growing lighter all the way, so that it also tells without its hues; colour-blind people see it.
RAMP = (
    "#1d1147",
    "#3b1d6e",
    "#5b2a86",
    "#7c3a8c",
    "#9d4a87",
    "#bd5c7c",
    "#d8736c",
    "#ec905f",
    "#f7b25f",
    "#fbd477",
    "#fdf5b0",
)
# How far off: nothing, within what is allowed, and beyond it in steps.
OFF = ("#e8edf2", "#b9c7d6", "#f3b35c", "#e58432", "#cf5519", "#a92d0c", "#6e1206")


def style() -> str:
    """The colours as CSS: the reader's system chooses."""
    light = "".join(f"--{each.name}:{each.light};" for each in COLOURS)
    dark = "".join(f"--{each.name}:{each.dark};" for each in COLOURS)
    return f":root{{color-scheme:light dark;{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Their contrast, from 1 to 21, as WCAG defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """Black or white, whichever is easier to read on it."""
    return "#000000" if contrast("#000000", colour) >= contrast("#ffffff", colour) else "#ffffff"
