"""The backends we generate for, one module each; `ALL` is the registry."""

from __future__ import annotations

from collections.abc import Callable

from udogen.generate.backends import cpu, gpu, htp
from udogen.generate.plan import Plan, Source
from udogen.opdef.model import OpPackage

Planner = Callable[[OpPackage, Source], Plan]

ALL: dict[str, Planner] = {
    "cpu": cpu.plan,
    "gpu": gpu.plan,
    "htp": htp.plan,
}
