"""What is wrong with these numbers: how far they are off, the cause by name, and the smallest shape that shows it."""

from __future__ import annotations

from udogen.verify.diagnosis.again import Again
from udogen.verify.diagnosis.causes import CAUSES, diagnose
from udogen.verify.diagnosis.comparison import Bin, Comparison, Element, compare
from udogen.verify.diagnosis.evidence import POISON, Evidence, Reference, Rerun
from udogen.verify.diagnosis.explain import causes_of, smallest_of
from udogen.verify.diagnosis.shrinking import shrink

__all__ = [
    "CAUSES",
    "POISON",
    "Again",
    "Bin",
    "Comparison",
    "Element",
    "Evidence",
    "Reference",
    "Rerun",
    "causes_of",
    "compare",
    "diagnose",
    "shrink",
    "smallest_of",
]
