"""Genie, which runs language models from context binaries; it cannot register op packages."""

from __future__ import annotations

from udogen.clients import rules
from udogen.clients.client import Client

CLIENT = Client(
    "genie",
    "Genie",
    "libGenie of SDK 2.47, which refuses every unknown key of the JSON configuration (measured)",
    (
        rules.each_package(
            "no-option",
            lambda package: (
                f"its configuration has no key for op packages, and {package.name} cannot be registered with it"
            ),
            "an additional key fails with `Unknown QnnHtp config key` (-8); without the package a context binary "
            "with its ops is not restored (5005)",
            "run the context binaries with `udogen run context DIR --op-package LIB`, or from C++ (--client cpp)",
        ),
    ),
    lambda _packages: (),
)
