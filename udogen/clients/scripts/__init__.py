"""Execution scripts: a runnable folder that takes op packages to a device, runs a client there and compares numbers."""
