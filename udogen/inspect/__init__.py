"""Inspects built libraries and context binaries, and whether a runtime accepts them."""
