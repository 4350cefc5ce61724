"""Contexts: stored graphs, restored and executed."""
