"""Contexts restored from binaries, whose graphs are executed in this process."""
