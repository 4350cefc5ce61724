"""Rules that several clients have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from udogen.backends.plan import PROVIDER
from udogen.clients.client import Rule
from udogen.clients.package import ANDROID, LINUX, Library, Package

Broken = Callable[[Sequence[Package]], Iterator[str]]


def no_characters(characters: str, *, consequence: str, libraries: Callable[[Package], Sequence[Library]]) -> Rule:
    """Paths must not hold what the client separates its fields by."""

    def broken(packages: Sequence[Package]) -> Iterator[str]:
        for package in packages:
            for library in libraries(package):
                if odd := [char for char in characters if char in library.path]:
                    names = ["a new line" if char == "\n" else f"`{char}`" for char in odd]
                    yield f"the path {library.path} contains {' and '.join(names)}"

    return Rule("separators", broken, consequence, "move the package into a folder without them, or link to it")


def all_libraries(package: Package) -> Sequence[Library]:
    """Those that are registered in one place."""
    return package.libraries


def _not_named_alike(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        if package.provider != f"{package.name}{PROVIDER}":
            yield f"package {package.name} has the interface provider {package.provider}"


def named_alike(consequence: str) -> Rule:
    """The provider must be <package>InterfaceProvider."""
    return Rule("provider", _not_named_alike, consequence, f"name it <Package>{PROVIDER}, as generated packages do")


def _no_ops(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        if not package.ops:
            yield f"the ops of package {package.name} are not known: udogen did not generate it, and it was not asked"


OPS = Rule("ops", _no_ops, "it maps each op of a model to its package by name", "name them: --op NAME")


def only_backends(*backends: str, consequence: str) -> Rule:
    """Only packages for these backends."""

    def broken(packages: Sequence[Package]) -> Iterator[str]:
        for package in packages:
            if package.backend not in backends:
                yield f"package {package.name} is for {package.backend}"

    return Rule("backend", broken, consequence, f"choose with --target a package for {' or '.join(backends)}")


def _linux_device(packages: Sequence[Package]) -> Iterator[str]:
    if any(package.place.system == LINUX for package in packages):
        yield "this is a device with Linux"


def not_linux_devices(consequence: str) -> Rule:
    """Only PCs and Android."""
    script = "--device adb without --linux, for a device with Android"
    return Rule("platform", _linux_device, consequence, "--android, for a device with Android", script)


def _no_android(packages: Sequence[Package]) -> Iterator[str]:
    if any(package.place.system != ANDROID for package in packages):
        yield "it runs in Android apps alone"


def android_only(consequence: str, remedy: str) -> Rule:
    """Only Android."""
    return Rule("android", _no_android, consequence, remedy)


def _several(packages: Sequence[Package]) -> Iterator[str]:
    if len(packages) > 1:
        yield "it takes one package, and here are " + ", ".join(package.name for package in packages)


def one_package(consequence: str) -> Rule:
    """Only one at a time."""
    return Rule("one-package", _several, consequence, "generate one package of all ops: `udogen generate A.xml B.xml`")


def ops_once(consequence: str) -> Rule:
    """No op in two packages."""

    def broken(packages: Sequence[Package]) -> Iterator[str]:
        owners: dict[str, str] = {}
        for package in packages:
            for op in package.ops:
                if op in owners:
                    yield f"op {op} is in package {owners[op]} and in {package.name}"
                owners[op] = package.name

    return Rule("ops-once", broken, consequence, "leave one of the packages out, or choose ops with --op")


def of_one_place(packages: Sequence[Package]) -> Iterator[str]:
    """A sentence where packages are for different backends or places."""
    if len({(package.place.system, package.backend) for package in packages}) > 1:
        yield "these packages are for different backends or machines: " + ", ".join(
            f"{package.name} for {package.backend} of {package.place.system}" for package in packages
        )


ONE_PLACE = Rule("one-place", of_one_place, "one process has one backend", "register them in turn")
