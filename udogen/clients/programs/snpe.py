"""SNPE's own programs: they take a registration library, and find the rest through the loader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from udogen.backends import cpu
from udogen.build.package import PackageLibrary, open_packages
from udogen.clients import rules
from udogen.clients.client import Client, Part, Rule
from udogen.clients.device import copying, dsp_path
from udogen.clients.package import ANDROID, Package
from udogen.clients.quoting import shell
from udogen.errors import UsageError

_MISSING = (
    "SNPE asks a registration library (libUdo<Package>Reg.so) what the package has; no other library answers (1106)"
)


def _no_registration(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        if package.registration is None:
            yield f"package {package.name} has no registration library: it is in the layout of QNN"


def _not_built(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        if package.registration is not None and not package.registration.is_file():
            yield f"there is no file {package.registration}"


def _commas(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        if package.registration is not None and "," in registration_path(package):
            yield f"the path {registration_path(package)} contains `,`"


def _no_cpu(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        parts = _parts(package)
        if parts and not any(each.backend == cpu.BACKEND.id for each in parts):
            yield f"package {package.name} has no CPU implementation"


def _on_a_device(packages: Sequence[Package]) -> Iterator[str]:
    if packages[0].place.device:
        yield "it runs on a PC with x86-64"


DSP_FOLDER = "dsp"
REGISTRATION = Rule("registration", _no_registration, _MISSING, "generate with --layout snpe, and give that folder")
BUILT = Rule(
    "built", _not_built, "the package cannot be registered (1106)", "build it: udogen build reg_x86 cpu_x86 -C DIR"
)
COMMAS = Rule(
    "separators", _commas, "a comma separates registration libraries", "move the package into a folder without it"
)


def registration_path(package: Package) -> str:
    """The absolute path, where the program runs."""
    assert package.registration is not None
    if package.place.device:
        return f"{package.folder}/{package.registration.name}"
    return str(package.registration)


def _parts(package: Package) -> list[PackageLibrary]:
    """All libraries of the generated package."""
    if package.built is None:
        return []
    try:
        return open_packages(package.built.path)
    except UsageError:
        return []


def implementations(package: Package) -> list[tuple[Path, bool]]:
    """(library, whether it is for Hexagon) of every implementation that is built for the place."""
    found: dict[Path, bool] = {}
    # Of one target for ARM the toolchain decides whether it is Android's or Linux's; the folder tells.
    folder = {"pc": "x86-64_linux_clang", ANDROID: "arm64-v8a", "linux": "aarch64-linux-gnu"}[package.place.system]
    for part in _parts(package):
        for row in part.rows:
            if not part.kind.runs_ops:
                continue
            hexagon = package.place.device and row.arch and row.arch == package.place.arch
            for file in part.artifacts(row):
                if file.is_file() and (hexagon or file.parent.name == folder):
                    found[file.resolve()] = bool(hexagon)
    return list(found.items())


def device_files(package: Package) -> list[tuple[Path, str]]:
    """The registration library and what it leads to, with their names in the folder of the package."""
    assert package.registration is not None
    # Hexagon's have the names of ARM's, and a folder of their own: SNPE looks for them by the registered name.
    found = [
        (file, f"{DSP_FOLDER}/{file.name}" if hexagon else file.name) for file, hexagon in implementations(package)
    ]
    return [(package.registration, package.registration.name), *found]


def device_setup(packages: Sequence[Package]) -> Iterator[Part]:
    """How the loaders find the implementation libraries."""
    if not packages[0].place.device:
        folders = dict.fromkeys(str(file.parent) for package in packages for file, _ in implementations(package))
        if folders:
            yield Part("environment", "sh", f"export LD_LIBRARY_PATH={shell(':'.join(folders))}:$LD_LIBRARY_PATH")
        return
    files = [(file, f"{package.folder}/{name}") for package in packages for file, name in device_files(package)]
    yield copying(files, android=packages[0].place.system == ANDROID)
    folders = dict.fromkeys(package.folder for package in packages)
    dsp = [f"{folder}/{DSP_FOLDER}" for folder in folders]
    yield Part(
        "environment",
        "sh",
        f"export LD_LIBRARY_PATH={shell(':'.join(folders))}:$LD_LIBRARY_PATH\n"
        f"export ADSP_LIBRARY_PATH={shell(dsp_path([*dsp, *folders], packages[0].place.system))}",
    )


def _option(packages: Sequence[Package]) -> str:
    return f"--udo_package_path {shell(','.join(registration_path(package) for package in packages))}"


def _tell_net_run(packages: Sequence[Package]) -> Iterator[Part]:
    yield Part("flag", "sh", _option(packages))
    yield Part("command", "sh", f"snpe-net-run --container model.dlc --input_list inputs.txt {_option(packages)}")
    yield from device_setup(packages)


def _tell_quantize(packages: Sequence[Package]) -> Iterator[Part]:
    option = _option(packages).replace(" ", "=", 1)
    yield Part("flag", "sh", option)
    yield Part(
        "command",
        "sh",
        f"snpe-dlc-quantize --input_dlc model.dlc --input_list inputs.txt --output_dlc quantized.dlc {option}",
    )
    yield from device_setup(packages)


NET_RUN = Client(
    "snpe-net-run",
    "snpe-net-run",
    "SNPE 2.25, docs: running_model_with_udo.html, tools_execution.html",
    (REGISTRATION, BUILT, COMMAS),
    lambda packages: list(_tell_net_run(packages)),
    lambda packages: ["the path is absolute, as SNPE wants it; implementation libraries are found by the loader"],
)
QUANTIZE = Client(
    "snpe-dlc-quantize",
    "snpe-dlc-quantize",
    "SNPE 2.25, docs: preparing_model_with_udo.html, tools_model_preparation.html",
    (
        Rule("pc", _on_a_device, "there is none for devices", "leave --target and --android out", "--device local"),
        REGISTRATION,
        BUILT,
        COMMAS,
        Rule(
            "cpu",
            _no_cpu,
            "it runs the network on the CPU to see its ranges: every UDO needs an implementation for the host's CPU",
            "generate for the CPU too (--backend cpu --backend htp), and build cpu_x86",
        ),
    ),
    lambda packages: list(_tell_quantize(packages)),
    lambda _packages: ["snpe-dlc-quant and snpe-dlc-graph-prepare take the same option"],
)


def all_libraries_of(package: Package) -> Sequence[Path]:
    """The registration library, and every implementation that is built for the place."""
    registration = [package.registration] if package.registration else []
    return [*registration, *(file for file, _ in implementations(package))]


__all__ = ["BUILT", "COMMAS", "NET_RUN", "QUANTIZE", "REGISTRATION", "all_libraries_of", "registration_path", "rules"]
