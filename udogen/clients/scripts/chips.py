"""Which version of Hexagon a device has, by what it says of itself.

Android tells `ro.soc.model` (SM8550, from 12 on) and `ro.board.platform` (a code name); Linux tells
/sys/devices/soc0/machine and soc_id.  The numbers are those of Linux' include/dt-bindings/arm/qcom,ids.h, the versions
those of `udogen.qnn.socs` and of ExecuTorch's qc_schema.py (cff6f4dd32e6).
"""

from __future__ import annotations

from typing import NamedTuple

from udogen.qnn import socs


class Chip(NamedTuple):
    """One processor, under every name that a device may tell."""

    name: str
    arch: str
    code_names: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()


ROWS = (
    Chip("SM8350", "v68", ("lahaina",), (439,)),
    Chip("SC8280XP", "v68", (), (449,)),
    Chip("SA8295P", "v68", (), (460,)),
    Chip("SC7280", "v68", (), (487,)),
    Chip("QCM6490", "v68", (), (497,)),
    Chip("QCS6490", "v68", (), (498,)),
    Chip("SM8450", "v69", ("taro",), (457, 480, 482)),
    Chip("SM8475", "v69", ("cape",), (530, 531, 540)),
    Chip("SM8550", "v73", ("kalama",), (519,)),
    Chip("QCS8550", "v73", (), (603,)),
    Chip("QCM8550", "v73", (), (604,)),
    Chip("SA8255P", "v73", (), (532,)),
    Chip("SA8775P", "v73", (), (534,)),
    Chip("QCS9100", "v73", (), (667,)),
    Chip("QCS9075", "v73", (), (676,)),
    Chip("X1E80100", "v73", (), (555,)),
    Chip("SM8650", "v75", ("pineapple",), (557, 577)),
    Chip("SM8750", "v79", ("sun",), (618,)),
    Chip("SM8850", "v81", ("canoe",)),
)


def told() -> dict[str, str]:
    """What a device may tell, in capitals -> the version of Hexagon."""
    found = {row.name: row.arch for row in socs.ALL.values()}
    for chip in ROWS:
        found |= {name.upper(): chip.arch for name in (chip.name, *chip.code_names, *map(str, chip.ids))}
    return found
