"""Checks of a kernel's safety: heap use during execution, out-of-bounds accesses, undefined behaviour, races."""
