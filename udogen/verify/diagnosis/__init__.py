"""What is wrong with these numbers: how far they are off, the cause by name, and the smallest shape that shows it."""

from __future__ import annotations

from udogen.verify.diagnosis.again import Again
from udogen.verify.diagnosis.causes import CAUSES, diagnose
from udogen.verify.diagnosis.comparison import Bin, Comparison, Element, compare
from udogen.verify.diagnosis.evidence import Evidence, Reference, Rerun
from udogen.verify.diagnosis.shrinking import shrink

__all__ = [
    "CAUSES",
    "Again",
    "Bin",
    "Comparison",
    "Element",
    "Evidence",
    "Reference",
    "Rerun",
    "compare",
    "diagnose",
    "shrink",
]
