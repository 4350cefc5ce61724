"""What our commands with the vendor's names have in common: its flags, said to `udogen generate`'s wing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from udogen import __version__
from udogen.cli import output

_Command = TypeVar("_Command", bound=Callable[..., Any])

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def options(command: _Command) -> _Command:
    """The flags that both of the vendor's generators know."""
    for decorate in (
        click.version_option(__version__, "--version", message="%(prog)s of udogen %(version)s"),
        click.option(
            "--gen_cmakelists", "cmake", is_flag=True, help="Write a CMakeLists.txt, which builds on Windows too."
        ),
        click.option(
            "-f", "--force-generation", "--force_generation", "force", is_flag=True,
            help="Begin anew. A package that is there is moved aside, to <name>.bak-N, and not deleted.",
        ),
        click.option(
            "-o", "--output_path", "out", type=click.Path(path_type=Path), metavar="DIR",
            help="Where the package folders go.",
        ),
        click.option("--debug", is_flag=True, help="Say what happens to each file."),
        click.option(
            "-p", "--config_path", "configs", multiple=True, required=True, type=click.Path(), metavar="FILE",
            help="A config, XML OpDef or JSON UDO; may repeat. Ops of one package name go to one package.",
        ),
    ):  # fmt: skip
        command = decorate(command)
    return command


def generate(
    configs: tuple[str, ...],
    out: Path | None,
    *,
    layout: str,
    force: bool,
    debug: bool,
    cmake: bool = False,
    converter: bool = False,
) -> None:
    """Generate in a layout, and say it."""
    from udogen.cli.generate import print_all
    from udogen.configs.load import load
    from udogen.generate import pipeline

    loaded, problems = load(configs)
    options = pipeline.GenerateOptions(out, layout=layout, force=force, converter=converter, cmake=cmake)
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
