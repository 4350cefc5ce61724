"""qnn-net-run, and qnn-context-binary-generator, which reads the same option with a field less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen import backends
from udogen.clients import rules
from udogen.clients.client import Client, Part
from udogen.clients.package import Library, Package
from udogen.clients.programs.parts import device_parts
from udogen.clients.quoting import shell

_SEPARATORS = "it takes the rest for another field: `Malformed opPackageString provided`, or a file that is not there"


def _entries(packages: Sequence[Package], *, targets: bool) -> str:
    return ",".join(
        ":".join([library.path, package.provider, *([library.target] if targets and library.target else [])])
        for package in packages
        for library in package.libraries
        if targets or not library.hexagon
    )


def _tell_net_run(packages: Sequence[Package]) -> Iterator[Part]:
    option = f"--op_packages {shell(_entries(packages, targets=True))}"
    backend = backends.RUNTIMES[packages[0].backend].library
    yield Part("flag", "sh", option)
    yield Part("command", "sh", f"qnn-net-run --backend {backend} --model model.so --input_list inputs.txt {option}")
    yield from device_parts(packages)


def _arm(package: Package) -> Sequence[Library]:
    return [package.library]


def _tell_generator(packages: Sequence[Package]) -> Iterator[Part]:
    option = f"--op_packages {shell(_entries(packages, targets=False))}"
    backend = backends.RUNTIMES[packages[0].backend].library
    yield Part("flag", "sh", option)
    yield Part(
        "command",
        "sh",
        f"qnn-context-binary-generator --backend {backend} --model model.so --binary_file model {option}",
    )
    yield from device_parts(packages)


NET_RUN = Client(
    "qnn-net-run",
    "qnn-net-run",
    "QNN SDK 2.25, docs/QNN/general/tools.html, and examples/QNN/SampleApp (registerOpPackages)",
    (rules.ONE_PLACE, rules.no_characters(":,", consequence=_SEPARATORS, libraries=rules.all_libraries)),
    lambda packages: list(_tell_net_run(packages)),
    lambda packages: (
        ["the ARM library prepares graphs; with --retrieve_context the Hexagon one alone would do"]
        if packages[0].hexagon
        else []
    ),
)
GENERATOR = Client(
    "qnn-context-binary-generator",
    "qnn-context-binary-generator",
    "QNN SDK 2.25, docs/QNN/general/tools.html: PATH:PROVIDER, without a target",
    (rules.ONE_PLACE, rules.no_characters(":,", consequence=_SEPARATORS, libraries=_arm)),
    lambda packages: list(_tell_generator(packages)),
    lambda packages: ["it prepares, it does not execute: the Hexagon library is registered where the binary runs"],
)
