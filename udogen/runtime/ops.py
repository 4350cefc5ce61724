"""Single ops in a child process, and packages of SNPE; docs/python.md describes every name, `ops.pyi` lists them."""

from __future__ import annotations

from udogen.public_names import lazy

__getattr__, __dir__ = lazy(__name__, __file__)
