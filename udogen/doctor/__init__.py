"""Checks what this machine is ready for: tools, SDKs, variables, runtimes, emulators."""
