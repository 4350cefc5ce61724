"""Execution scripts: a folder that takes op packages to a device, runs a client there and compares its outputs."""
