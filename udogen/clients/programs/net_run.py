"""Programs of the QNN SDK: qnn-net-run, qnn-context-binary-generator, and Genie, which cannot register op packages."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from udogen import backends
from udogen.clients import rules
from udogen.clients.client import Client, Snippet
from udogen.clients.device import device_snippets
from udogen.clients.package import Package

_SEPARATORS = "it takes the rest as another field: `Malformed opPackageString provided`, or a missing file"


def _snippets(packages: Sequence[Package], program: str, arguments: str, *, targets: bool) -> Iterator[Snippet]:
    entries = ",".join(
        ":".join([library.path, package.provider, *([library.target] if targets and library.target else [])])
        for package in packages
        for library in package.libraries
        if targets or not library.hexagon
    )
    option = f"--op_packages {shlex.quote(entries)}"
    backend = backends.RUNTIMES[packages[0].backend].library
    yield Snippet("flag", "sh", option)
    yield Snippet("command", "sh", f"{program} --backend {backend} --model model.so {arguments} {option}")
    yield from device_snippets(packages)


NET_RUN = Client(
    "qnn-net-run",
    "qnn-net-run",
    "QNN SDK 2.25, docs/QNN/general/tools.html, and examples/QNN/SampleApp (registerOpPackages)",
    (rules.ONE_PLATFORM, rules.no_characters(":,", consequence=_SEPARATORS)),
    lambda packages: _snippets(packages, "qnn-net-run", "--input_list inputs.txt", targets=True),
    lambda packages: (
        ["the ARM library prepares graphs; with --retrieve_context the Hexagon one would be enough"]
        if packages[0].hexagon
        else []
    ),
)
GENERATOR = Client(
    "qnn-context-binary-generator",
    "qnn-context-binary-generator",
    "QNN SDK 2.25, docs/QNN/general/tools.html: PATH:PROVIDER, without a target",
    (rules.ONE_PLATFORM, rules.no_characters(":,", consequence=_SEPARATORS, libraries=lambda each: [each.library])),
    lambda packages: _snippets(packages, "qnn-context-binary-generator", "--binary_file model", targets=False),
    lambda packages: ["it only prepares: the Hexagon library is registered where the context binary runs"],
)
GENIE = Client(
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
