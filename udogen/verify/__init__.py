"""Is this op right?  Cases with references in numpy, run on a built package, compared."""
