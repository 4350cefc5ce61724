"""Rules that several clients share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from udogen.backends.backend import PROVIDER
from udogen.clients.client import ClientRule
from udogen.clients.package import LINUX, Library, Package
from udogen.opdef.model import Op, Tensor


def each_package(id: str, fault: Callable[[Package], str], consequence: str, remedy: str) -> ClientRule:
    """A rule that is checked for each package; `fault` returns a sentence, or an empty string."""
    return ClientRule(id, lambda packages: filter(None, map(fault, packages)), consequence, remedy)


def params_of(packages: Sequence[Package], *, mandatory: bool = True) -> Iterator[tuple[Op, Tensor]]:
    """(op, parameter) for the mandatory or optional parameters of the ops that are registered."""
    for package in packages:
        for op in package.models:
            if op.name in package.ops:
                yield from ((op, param) for param in op.params if param.mandatory is mandatory)


def each_param(id: str, fault: Callable[[Tensor], str], consequence: str, remedy: str) -> ClientRule:
    """A rule for mandatory parameters; `fault` returns the end of a sentence, or an empty string."""

    def faults(packages: Sequence[Package]) -> Iterator[str]:
        for op, param in params_of(packages):
            if why := fault(param):
                yield f"parameter {param.name} of op {op.name} {why}"

    return ClientRule(id, faults, consequence, remedy)


def no_characters(
    characters: str,
    *,
    consequence: str,
    libraries: Callable[[Package], Sequence[Library]] = lambda each: each.libraries,
) -> ClientRule:
    """Paths must not contain the separators of the client's option."""

    def faults(packages: Sequence[Package]) -> Iterator[str]:
        for package in packages:
            for library in libraries(package):
                if odd := [char for char in characters if char in library.path]:
                    names = ["a new line" if char == "\n" else f"`{char}`" for char in odd]
                    yield f"the path {library.path} contains {' and '.join(names)}"

    return ClientRule("separators", faults, consequence, "move the package into a folder without them, or link to it")


def standard_provider(consequence: str) -> ClientRule:
    """The interface provider must be <Package>InterfaceProvider."""

    def fault(package: Package) -> str:
        standard = package.provider == f"{package.name}{PROVIDER}"
        return "" if standard else f"package {package.name} has the interface provider {package.provider}"

    return each_package("provider", fault, consequence, f"name it <Package>{PROVIDER}, as generated packages do")


OPS = each_package(
    "ops",
    lambda package: (
        ""
        if package.ops
        else f"the ops of package {package.name} are unknown: udogen did not generate it, and cannot load it here"
    ),
    "it maps each op of a model to its package by name",
    "name them: --op NAME",
)


def only_backends(*backends: str, consequence: str) -> ClientRule:
    """Only packages for these backends."""
    return each_package(
        "backend",
        lambda package: "" if package.backend in backends else f"package {package.name} is for {package.backend}",
        consequence,
        f"choose with --target a package for {' or '.join(backends)}",
    )


def not_linux_devices(consequence: str) -> ClientRule:
    """Only PCs and Android."""
    return each_package(
        "platform",
        lambda package: "this is a device with Linux" if package.platform.system == LINUX else "",
        consequence,
        "--android, for a device with Android",
    )


def host_library(consequence: str) -> ClientRule:
    """A package for a device must be built for x86-64 too, where models are prepared."""
    return each_package(
        "host-library",
        lambda package: "" if package.host_library else f"package {package.name} has no library for x86-64",
        consequence,
        "build it: udogen build htp_x86 -C DIR",
    )


def one_package(consequence: str) -> ClientRule:
    """Only one package at a time."""

    def faults(packages: Sequence[Package]) -> Iterator[str]:
        if len(packages) > 1:
            yield f"it takes one package, not {len(packages)}: " + ", ".join(package.name for package in packages)

    return ClientRule(
        "one-package", faults, consequence, "generate one package of all ops: `udogen generate A.xml B.xml`"
    )


def ops_once(consequence: str) -> ClientRule:
    """No op in two packages."""

    def faults(packages: Sequence[Package]) -> Iterator[str]:
        owners: dict[str, str] = {}
        for package in packages:
            for op in package.ops:
                if op in owners:
                    yield f"op {op} is in package {owners[op]} and in {package.name}"
                owners[op] = package.name

    return ClientRule("ops-once", faults, consequence, "leave one of the packages out, or choose ops with --op")


def _several_platforms(packages: Sequence[Package]) -> Iterator[str]:
    if len({(package.platform.system, package.backend) for package in packages}) > 1:
        yield "these packages are for different backends or machines: " + ", ".join(
            f"{package.name} for {package.backend} of {package.platform.system}" for package in packages
        )


ONE_PLATFORM = ClientRule("one-platform", _several_platforms, "one process has one backend", "register them in turn")
