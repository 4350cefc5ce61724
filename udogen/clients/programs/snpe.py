"""SNPE's own programs: they accept a registration library; the loader finds its implementation libraries."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from udogen.backends import cpu
from udogen.build.package import PackageLibrary, open_packages
from udogen.clients import rules
from udogen.clients.client import Client, Snippet
from udogen.clients.device import copy_snippet, environment_snippet
from udogen.clients.package import ANDROID, Package
from udogen.clients.quoting import block
from udogen.errors import UsageError
from udogen.opdef.names import cpp_string

_MISSING = (
    "SNPE reads the contents of a package from its registration library (libUdo<Package>Reg.so), and takes no other "
    "library (1106)"
)


def _no_registration(package: Package) -> str:
    return "" if package.registration else f"package {package.name} has no registration library: it has the layout qnn"


def _not_built(package: Package) -> str:
    missing = package.registration is not None and not package.registration.is_file()
    return f"{package.registration} does not exist" if missing else ""


def _commas(package: Package) -> str:
    path = registration_path(package) if package.registration else ""
    return f"the path {path} contains `,`" if "," in path else ""


def _no_cpu(package: Package) -> str:
    backends = {each.backend for each in _parts(package)}
    return f"package {package.name} has no CPU implementation" if backends and cpu.BACKEND.id not in backends else ""


DSP_FOLDER = "dsp"
REGISTRATION = rules.each_package(
    "registration", _no_registration, _MISSING, "generate with --layout snpe, and give that folder"
)
BUILT = rules.each_package(
    "built", _not_built, "the package cannot be registered (1106)", "build it: udogen build reg_x86 cpu_x86 -C DIR"
)
COMMAS = rules.each_package(
    "separators", _commas, "a comma separates registration libraries", "move the package into a folder without it"
)


def registration_path(package: Package) -> str:
    """The absolute path of the registration library, where the program runs."""
    assert package.registration is not None
    if package.platform.is_device:
        return f"{package.folder}/{package.registration.name}"
    return str(package.registration)


def _parts(package: Package) -> list[PackageLibrary]:
    """All parts of the generated package."""
    if package.built is None:
        return []
    try:
        return open_packages(package.built.path)
    except UsageError:
        return []


def implementations(package: Package) -> list[tuple[Path, bool]]:
    """(library, whether it is for Hexagon) for every implementation that is built for the platform."""
    found: dict[Path, bool] = {}
    # The toolchain decides whether an ARM target is built for Android or Linux; the folder shows which.
    folder = {"pc": "x86-64_linux_clang", ANDROID: "arm64-v8a", "linux": "aarch64-linux-gnu"}[package.platform.system]
    for part in _parts(package):
        for row in part.rows:
            if not part.kind.runs_ops:
                continue
            hexagon = package.platform.is_device and row.arch and row.arch == package.platform.arch
            for file in part.artifacts(row):
                if file.is_file() and (hexagon or file.parent.name == folder):
                    found[file.resolve()] = bool(hexagon)
    return list(found.items())


def device_files(package: Package) -> list[tuple[Path, str]]:
    """The registration library and its implementations, with their names in the folder on the device."""
    assert package.registration is not None
    # Hexagon libraries need a separate folder: SNPE searches for them by the name of the ARM library.
    found = [
        (file, f"{DSP_FOLDER}/{file.name}" if hexagon else file.name) for file, hexagon in implementations(package)
    ]
    return [(package.registration, package.registration.name), *found]


def device_setup(packages: Sequence[Package]) -> Iterator[Snippet]:
    """Copy commands and environment, with which the loaders find the implementation libraries."""
    if not packages[0].platform.is_device:
        folders = dict.fromkeys(str(file.parent) for package in packages for file, _ in implementations(package))
        if folders:
            yield environment_snippet(list(folders), (), packages[0].platform.system)
        return
    files = [(file, f"{package.folder}/{name}") for package in packages for file, name in device_files(package)]
    yield copy_snippet(files, packages[0].platform.system)
    folders = dict.fromkeys(package.folder for package in packages)
    dsp_folders = [*(f"{folder}/{DSP_FOLDER}" for folder in folders), *folders]
    yield environment_snippet(list(folders), dsp_folders, packages[0].platform.system)


def _option(packages: Sequence[Package]) -> str:
    return f"--udo_package_path {shlex.quote(','.join(registration_path(package) for package in packages))}"


def _net_run(packages: Sequence[Package]) -> Iterator[Snippet]:
    yield Snippet("flag", "sh", _option(packages))
    yield Snippet("command", "sh", f"snpe-net-run --container model.dlc --input_list inputs.txt {_option(packages)}")
    yield _in_c(packages)
    yield from device_setup(packages)


def _in_c(packages: Sequence[Package]) -> Snippet:
    """The registration in the user's own program, with the C API."""
    rows = "\n".join(f"                  {cpp_string(registration_path(package))}," for package in packages)
    return Snippet(
        "c",
        "c",
        block(f"""
            #include "DlSystem/DlError.h"
            #include "SNPE/SNPEUtil.h"

            /* Once in each process, before the network is built; returns SNPE_SUCCESS, or the first code that is not.
               SNPEFactory.hpp compares with it; the comment in SNPEUtil.h calls 0 a failure. */
            int add_op_packages(void) {{
              static const char* const paths[] = {{
{rows}
              }};
              for (unsigned i = 0; i < sizeof paths / sizeof *paths; ++i) {{
                const int code = Snpe_Util_AddOpPackage(paths[i]);
                if (code != SNPE_SUCCESS) {{
                  return code;
                }}
              }}
              return SNPE_SUCCESS;
            }}
        """),
    )


def _quantize(packages: Sequence[Package]) -> Iterator[Snippet]:
    option = _option(packages).replace(" ", "=", 1)
    yield Snippet("flag", "sh", option)
    yield Snippet(
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
    _net_run,
    lambda packages: ["SNPE requires an absolute path; the loader finds the implementation libraries"],
)
QUANTIZE = Client(
    "snpe-dlc-quantize",
    "snpe-dlc-quantize",
    "SNPE 2.25, docs: preparing_model_with_udo.html, tools_model_preparation.html",
    (
        rules.each_package(
            "pc",
            lambda package: "it runs on a PC with x86-64" if package.platform.is_device else "",
            "it does not exist for devices",
            "leave --target and --android out",
        ),
        REGISTRATION,
        BUILT,
        COMMAS,
        rules.each_package(
            "cpu",
            _no_cpu,
            "it runs the network on the CPU to measure its ranges: every UDO needs a CPU implementation",
            "generate for the CPU too (--backend cpu --backend htp), and build cpu_x86",
        ),
    ),
    _quantize,
    lambda _packages: ["snpe-dlc-quant and snpe-dlc-graph-prepare take the same option"],
)


def all_libraries_of(package: Package) -> Sequence[Path]:
    """The registration library, and every implementation that is built for the platform."""
    registration = [package.registration] if package.registration else []
    return [*registration, *(file for file, _ in implementations(package))]
