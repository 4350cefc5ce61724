"""Contexts restored from their binaries, and their graphs executed in this process."""
