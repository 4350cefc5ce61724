"""`qnn-op-package-generator`: the vendor's name and flags for `udogen generate --layout qnn`."""

from __future__ import annotations

from pathlib import Path

import click

from udogen.cli import vendor
from udogen.cli.main import main as run

NAME = "qnn-op-package-generator"


@click.command(NAME, context_settings=vendor.SETTINGS)
@vendor.options
@click.option(
    "-cop", "--converter_op_package", "converter", is_flag=True,
    help="Generate also the package that tells converters the shapes and types of outputs.",
)  # fmt: skip
def command(configs: tuple[str, ...], out: Path | None, debug: bool, force: bool, cmake: bool, converter: bool) -> None:
    """Generate QNN op packages, one folder per backend.

    Without -o they go beside the first config.  A package that is there is brought up to date, and what you wrote in
    it stays.
    """
    vendor.generate(
        configs,
        out or Path(configs[0]).parent,
        layout="qnn",
        force=force,
        debug=debug,
        cmake=cmake,
        converter=converter,
    )


def main() -> None:
    """The console script."""
    run(command, NAME)
