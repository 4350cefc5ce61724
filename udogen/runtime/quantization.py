"""Quantization: encodings, numbers stored and meant, blocks; docs/python.md describes every name."""

from __future__ import annotations

from udogen.public_names import lazy

__getattr__, __dir__ = lazy(__name__, __file__)
