"""The layout of `qnn-op-package-generator`: one package folder per backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from udogen.generate import backends
from udogen.generate.plan import Plan, Source
from udogen.opdef.model import OpPackage


def plan(by_backend: Mapping[str, OpPackage], source: Source) -> Sequence[Plan]:
    """A plan for each backend of one package."""
    return [backends.ALL[backend](package, source) for backend, package in by_backend.items()]
