"""`qnn-op-package-generator` and `snpe-udo-package-generator`: `udogen generate` with the vendor's names and flags."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from udogen import __version__
from udogen.cli import output
from udogen.cli.main import main
from udogen.errors import UsageError

_Command = TypeVar("_Command", bound=Callable[..., Any])

QNN, SNPE = "qnn-op-package-generator", "snpe-udo-package-generator"
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def _shared_options(command: _Command) -> _Command:
    """The flags of both generators."""
    for decorate in (
        click.version_option(__version__, "--version", message="%(prog)s of udogen %(version)s"),
        click.option(
            "--gen_cmakelists", "cmake", is_flag=True, help="Write a CMakeLists.txt, which builds on Windows too."
        ),
        click.option(
            "-f", "--force-generation", "--force_generation", "force", is_flag=True,
            help="Replace an existing package, which is moved to <name>.bak-N, not deleted.",
        ),
        click.option(
            "-o", "--output_path", "out", type=click.Path(path_type=Path), metavar="DIR",
            help="Where the package folders go.",
        ),
        click.option(
            "--htp_api", "htp_api", default="", metavar="NAME",
            help="HTP's interface: qhpi (C, SDK 2.47 and later), or core (C++, tied to the SDK of its headers).",
        ),
        click.option("--debug", is_flag=True, help="Print what happens to each file."),
        click.option(
            "-p", "--config_path", "configs", multiple=True, required=True, type=click.Path(), metavar="FILE",
            help="A config, XML OpDef or JSON UDO; may repeat. Ops of one package name go to one package.",
        ),
    ):  # fmt: skip
        command = decorate(command)
    return command


def _generate(configs: tuple[str, ...], *, debug: bool, **chosen: Any) -> None:
    """Generate with what was chosen (fields of `GenerateOptions`), and print what was done."""
    from udogen.cli.generate import print_all
    from udogen.configs.load import load
    from udogen.generate import pipeline

    _check_variables(configs)
    loaded, problems = load(configs)
    options = pipeline.GenerateOptions(**chosen)
    found = pipeline.generate(
        loaded,
        options,
        problems,
        log=output.print_note,
        before_writing=lambda: output.print_problems(problems.warnings),
    )
    for each in found if debug else ():
        for change in each.changes:
            output.print_note(f"  {change.action:<9} {each.folder / change.path}")
    print_all(found, options)
    pipeline.stop_on_conflict(found)


def _check_variables(configs: tuple[str, ...]) -> None:
    """Raise for what the shell makes of `$SNPE_ROOT/examples/…` where the variable is not set."""
    for path in configs:
        if path.startswith("/examples/") and not os.path.exists(path):
            variable = "QNN_SDK_ROOT" if path.startswith("/examples/QNN/") else "SNPE_ROOT"
            raise UsageError(
                f"{path} does not exist: is {variable} set?",
                hint=f"set {variable} to that SDK, or name a config of yours: `udogen new NAME` makes one",
            )


@click.command(QNN, context_settings=_SETTINGS)
@_shared_options
@click.option(
    "-cop", "--converter_op_package", "converter", is_flag=True,
    help="Also generate the package from which converters get the shapes and types of outputs.",
)  # fmt: skip
def qnn_generator(configs: tuple[str, ...], out: Path | None, debug: bool, **chosen: Any) -> None:
    """Generate QNN op packages, one folder per backend.

    Without -o they go beside the first config.  An existing package is updated, and what you wrote in it
    stays.
    """
    _generate(configs, debug=debug, out=out or Path(configs[0]).parent, layout="qnn", **chosen)


@click.command(SNPE, context_settings=_SETTINGS)
@_shared_options
@click.option(
    "--dsp_folders", "version_folders", is_flag=True,
    help="A folder for each version of DSP (DSP_V68, DSP_V69 …), as Qualcomm's release 2.25 makes them.",
)  # fmt: skip
@click.option("-c", "--ignore_includes", "without_headers", is_flag=True, hidden=True)
def snpe_generator(configs: tuple[str, ...], debug: bool, without_headers: bool, **chosen: Any) -> None:
    """Generate UDO packages of SNPE, one folder for all cores.

    Without -o they go to the config's UDO_PACKAGE_PATH, or here.  An existing package is updated, and
    what you wrote in it stays.
    """
    if without_headers:
        output.print_note("  --ignore_includes changes nothing: the package needs its headers, and contains them")
    _generate(configs, debug=debug, layout="snpe", **chosen)


def qnn_main() -> None:
    """The console script qnn-op-package-generator."""
    main(qnn_generator, QNN)


def snpe_main() -> None:
    """The console script snpe-udo-package-generator."""
    main(snpe_generator, SNPE)
