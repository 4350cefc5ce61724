"""`qnn-op-package-generator` and `snpe-udo-package-generator`: `udogen generate` with the vendor's names and flags."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click

from udogen import __version__
from udogen.cli import output
from udogen.cli.generate import print_all
from udogen.cli.main import main
from udogen.cli.options import PathType, option, same_options, verb
from udogen.configs.load import load
from udogen.errors import UsageError
from udogen.generate import pipeline

QNN, SNPE = "qnn-op-package-generator", "snpe-udo-package-generator"
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_version = click.version_option(__version__, "--version", message="%(prog)s of udogen %(version)s")


@dataclass(frozen=True)
class VendorOptions:
    """The flags of both generators."""

    configs: tuple[str, ...] = option(
        "-p", "--config_path", required=True, type=PathType(), metavar="FILE",
        help="A config, XML OpDef or JSON UDO; may repeat. Ops of one package name go to one package.",
    )  # fmt: skip
    debug: bool = option("--debug", help="Print what happens to each file.")
    htp_api: str = option(
        "--htp_api", metavar="NAME",
        help="HTP's interface: qhpi (C, SDK 2.47 and later), or core (C++, tied to the SDK of its headers).",
    )  # fmt: skip
    out: Path | None = option("-o", "--output_path", metavar="DIR", help="Where the package folders go.")
    force: bool = option(
        "-f", "--force-generation", "--force_generation",
        help="Replace an existing package, which is moved to <name>.bak-N, not deleted.",
    )  # fmt: skip
    cmake: bool = option("--gen_cmakelists", help="Write a CMakeLists.txt, which builds on Windows too.")


def _generate(options: VendorOptions, layout: str, out: Path | None) -> None:
    """Generate packages in a layout, and print the changes."""
    _check_variables(options.configs)
    loaded, problems = load(options.configs)
    asked = same_options(pipeline.GenerateOptions, options, layout=layout, out=out)
    found = pipeline.generate(
        loaded,
        asked,
        problems,
        log=output.print_note,
        before_writing=lambda: output.print_problems(problems.warnings),
    )
    for each in found if options.debug else ():
        for change in each.changes:
            output.print_note(f"  {change.action:<9} {each.folder / change.path}")
    print_all(found, asked)
    pipeline.stop_on_conflict(found)


def _check_variables(configs: tuple[str, ...]) -> None:
    """Raise for a path that the shell has made of `$SNPE_ROOT/examples/…` because the variable is not set."""
    for path in configs:
        if path.startswith("/examples/") and not os.path.exists(path):
            variable = "QNN_SDK_ROOT" if path.startswith("/examples/QNN/") else "SNPE_ROOT"
            raise UsageError(
                f"{path} does not exist: is {variable} set?",
                hint=f"set {variable} to that SDK, or name a config of yours: `udogen new NAME` makes one",
            )


@dataclass(frozen=True)
class QnnOptions(VendorOptions):
    """The flags of qnn-op-package-generator."""

    converter: bool = option(
        "-cop", "--converter_op_package",
        help="Also generate the package from which converters get the shapes and types of outputs.",
    )  # fmt: skip


@_version
@verb(QNN, QnnOptions, context_settings=_SETTINGS)
def qnn_generator(options: QnnOptions) -> None:
    """Generate QNN op packages, one folder per backend.

    Without -o they go beside the first config.  An existing package is updated, and what you wrote in it
    stays.
    """
    _generate(options, "qnn", options.out or Path(options.configs[0]).parent)


@dataclass(frozen=True)
class SnpeOptions(VendorOptions):
    """The flags of snpe-udo-package-generator."""

    version_folders: bool = option(
        "--dsp_folders",
        help="A folder for each version of DSP (DSP_V68, DSP_V69 …), as Qualcomm's release 2.25 makes them.",
    )  # fmt: skip
    without_headers: bool = option("-c", "--ignore_includes", hidden=True)


@_version
@verb(SNPE, SnpeOptions, context_settings=_SETTINGS)
def snpe_generator(options: SnpeOptions) -> None:
    """Generate UDO packages of SNPE, one folder for all cores.

    Without -o they go to the config's UDO_PACKAGE_PATH, or here.  An existing package is updated, and
    what you wrote in it stays.
    """
    if options.without_headers:
        output.print_note("  --ignore_includes changes nothing: the package needs its headers, and contains them")
    _generate(options, "snpe", options.out)


def qnn_main() -> None:
    """The entry point of the console script qnn-op-package-generator."""
    main(qnn_generator, QNN)


def snpe_main() -> None:
    """The entry point of the console script snpe-udo-package-generator."""
    main(snpe_generator, SNPE)
