"""The layouts of package folders; `ALL` is the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

from udogen.backends.plan import Plan, Source
from udogen.opdef.model import OpPackage


class Layout(NamedTuple):
    """A layout, and the module that plans it, which is imported on use."""

    title: str
    module: str

    def plan(self, by_backend: Mapping[str, OpPackage], source: Source) -> Sequence[Plan]:
        """The plans of a package."""
        found: Sequence[Plan] = import_module(f"{__name__}.{self.module}").plan(by_backend, source)
        return found


ALL = {
    "snpe": Layout("one UDO package: a registration library, and a library per core", "snpe"),
    "qnn": Layout("one package folder per backend, as qnn-op-package-generator lays it out", "qnn"),
}
