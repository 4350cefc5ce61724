"""Which versions of Hexagon each release of the Hexagon tools compiles for.

From Qualcomm's table "Tools releases".  A release also stops to know old versions: 8.8 and later compile for nothing
before V68.
"""

from __future__ import annotations

from typing import NamedTuple

from udogen.backends.architectures import version

SOURCE = "Qualcomm 80-N3040-23, topic tools-releases"


class Tools(NamedTuple):
    """One release series of the tools."""

    series: tuple[int, int]
    versions: tuple[str, ...]


def _row(major: int, minor: int, versions: str) -> Tools:
    return Tools((major, minor), tuple(versions.split()))


ALL = (
    _row(8, 1, "v60 v62 v65"),
    _row(8, 2, "v60 v62 v65 v66"),
    _row(8, 3, "v60 v62 v65 v66 v67"),
    _row(8, 4, "v62 v65 v66 v67 v68"),
    _row(8, 5, "v65 v66 v67 v68 v69 v71"),
    _row(8, 6, "v65 v66 v67 v68 v69 v71 v73"),
    _row(8, 7, "v65 v66 v67 v68 v69 v71 v73 v75"),
    _row(8, 8, "v68 v69 v71 v73 v75 v79"),
    _row(19, 0, "v68 v69 v71 v73 v75 v77 v79 v81"),
)


def known_to(tools: str) -> tuple[str, ...]:
    """The versions of Hexagon that these tools (8.6.02) compile for; none where the table does not have them."""
    series = version(tools)[:2]
    return next((row.versions for row in ALL if row.series == series), ())
