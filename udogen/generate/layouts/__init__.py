"""How a package folder looks, one module each; `ALL` is the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from udogen.backends.plan import Plan, Source
from udogen.generate.layouts import qnn, snpe
from udogen.opdef.model import OpPackage


class Layout(NamedTuple):
    """One layout: what it is, and its plans of a package."""

    title: str
    plan: Callable[[Mapping[str, OpPackage], Source], Sequence[Plan]]


ALL = {
    "snpe": Layout("one UDO package: a registration library, and a library per core", snpe.plan),
    "qnn": Layout("one package folder per backend, as qnn-op-package-generator lays it out", qnn.plan),
}
