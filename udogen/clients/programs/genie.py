"""Genie, which runs language models from context binaries; it cannot register op packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen.clients.client import Client, ClientRule
from udogen.clients.package import Package


def _no_option(packages: Sequence[Package]) -> Iterator[str]:
    names = ", ".join(package.name for package in packages)
    yield f"its configuration has no key for op packages, and {names} cannot be registered with it"


CLIENT = Client(
    "genie",
    "Genie",
    "libGenie of SDK 2.47, which refuses every unknown key of the JSON configuration (measured)",
    (
        ClientRule(
            "no-option",
            _no_option,
            "an additional key fails with `Unknown QnnHtp config key` (-8); without the package a context binary "
            "with its ops is not restored (5005)",
            "run the context binaries with `udogen run context DIR --op-package LIB`, or from C++ (--client cpp)",
        ),
    ),
    lambda _packages: (),
)
