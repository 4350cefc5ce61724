"""Inspects what was built: what it is, what it needs, and whether a runtime will take it."""
