"""`udogen kernels`: what code kernels in Python become."""

from __future__ import annotations

from pathlib import Path

import click

from udogen.cli import options, output


@click.group("kernels")
def command() -> None:
    """Show what code kernels in Python become."""


@command.command("explain")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.configs
@click.option(
    "--machine", "machines", multiple=True, metavar="NAME", help="For this machine only: hexagon-v68; may repeat."
)
@click.option("--loops", "with_loops", is_flag=True, help="Print the loops of each function, too.")
@output.json_option
def explain(
    file: Path,
    configs: tuple[str, ...],
    config_paths: tuple[str, ...],
    machines: tuple[str, ...],
    with_loops: bool,
    as_json: bool,
) -> None:
    """Compile the kernel FILE of an op of CONFIGS, and show its functions for each machine.

    Whether they have vectors, and if not, why; their vector instructions by kind; their loops.
    """
    from udogen.kernels.explain import explain as codes_of

    codes = codes_of(file, [Path(each) for each in options.all_configs(configs, config_paths)], machines)
    if as_json:
        output.print_json({"ok": True, "functions": [vars(each) for each in codes]})
        return
    for code in codes:
        kinds = ", ".join(f"{count} {kind}" for kind, count in code.instructions.items())
        output.print_result(f"{code.machine}: {code.name}")
        output.print_result(f"  SCALAR: {code.scalar}" if code.scalar else f"  vector instructions: {kinds or 'none'}")
        for line in code.loops if with_loops else ():
            output.print_result(f"  {line}")
