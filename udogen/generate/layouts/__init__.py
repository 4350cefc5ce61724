"""How a package folder looks, one module each; `ALL` is the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from udogen.generate.layouts import qnn
from udogen.generate.plan import Plan, Source
from udogen.opdef.model import OpPackage

Layout = Callable[[Mapping[str, OpPackage], Source], Sequence[Plan]]

ALL: dict[str, Layout] = {
    "qnn": qnn.plan,
}
