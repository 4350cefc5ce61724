"""`snpe-udo-package-generator`: the vendor's name and flags for `udogen generate --layout snpe`."""

from __future__ import annotations

from pathlib import Path

import click

from udogen.cli import output, vendor
from udogen.cli.main import main as run

NAME = "snpe-udo-package-generator"


@click.command(NAME, context_settings=vendor.SETTINGS)
@vendor.options
@click.option("-c", "--ignore_includes", "without_headers", is_flag=True, hidden=True)
def command(
    configs: tuple[str, ...], out: Path | None, debug: bool, force: bool, cmake: bool, without_headers: bool
) -> None:
    """Generate UDO packages of SNPE, one folder for all cores.

    Without -o they go where UDO_PACKAGE_PATH of the config says, or here.  A package that is there is brought up to
    date, and what you wrote in it stays.
    """
    if without_headers:
        output.print_note("  --ignore_includes changes nothing: the package needs its headers, and brings its own")
    vendor.generate(configs, out, layout="snpe", force=force, debug=debug, cmake=cmake)


def main() -> None:
    """The console script."""
    run(command, NAME)
