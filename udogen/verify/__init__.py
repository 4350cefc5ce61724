"""Is this op right?  Cases with references in numpy, run on built packages wherever they run, compared, explained."""

from __future__ import annotations

from udogen.verify.marks import op_test

__all__ = ["op_test"]
