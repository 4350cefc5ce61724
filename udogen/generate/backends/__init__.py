"""The backends we generate for, one module each; `ALL` is the registry."""

from __future__ import annotations

from collections.abc import Callable

from udogen.backends import cpu, dsp, gpu, htp
from udogen.backends.folder import Contents, Placement
from udogen.backends.plan import Source
from udogen.opdef.model import OpPackage

ALL: dict[str, Callable[[OpPackage, Source, Placement], Contents]] = {
    "cpu": cpu.contents,
    "gpu": gpu.contents,
    "htp": htp.contents,
    "dsp": dsp.contents,
}
