"""Execution scripts: a folder that copies op packages to a device, runs a client there and compares its outputs."""
