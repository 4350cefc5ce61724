"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from udogen.errors import UsageError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def configs(command: _Command) -> _Command:
    """CONFIG…, and the vendor tools' `-p/--config_path`, which may repeat."""
    command = click.option(
        "-p", "--config_path", "config_paths", multiple=True, type=click.Path(), metavar="FILE",
        help="A config, in the syntax of the vendor's tools; may repeat.",
    )(command)  # fmt: skip
    return click.argument("configs", nargs=-1, type=click.Path(), metavar="CONFIG...")(command)


def all_configs(configs: tuple[str, ...], config_paths: tuple[str, ...]) -> list[str]:
    """The configs of both options; at least one."""
    found = [*configs, *config_paths]
    if not found:
        raise UsageError("no config was given", hint="name an XML OpDef or a JSON UDO config; see --help")
    return found


def styles(command: _Command) -> _Command:
    """`--cpu-api`, `--gpu-api`, `--dsp-api`: in which style kernels are written."""
    for backend in ("dsp", "gpu", "cpu"):
        text = f"Kernel style for {backend}: args, or vendor (Qualcomm's generators); default: recognized."
        command = click.option(f"--{backend}-api", default="", metavar="NAME", help=text)(command)
    return command


strict = click.option("--strict", is_flag=True, help="Treat warnings as errors.")

runtime_kind = click.option(
    "--runtime",
    "kind",
    type=click.Choice(["auto", "real", "emulator"]),
    default="auto",
    help="Qualcomm's runtime, or udogen's emulator (default: the real one, if it can run on this machine).",
)


def split_names(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The names of an option that is repeated, or has several with commas."""
    return tuple(name for value in values for name in value.split(","))


def shape_of(name: str, text: str, option: str = "--shape") -> tuple[int, ...]:
    """The extents that an option gives to a tensor."""
    try:
        found = tuple(int(part) for part in text.replace(",", "x").split("x"))
    except ValueError:
        found = (0,)
    if any(extent < 1 for extent in found):
        raise UsageError(f"{option} {name}={text}: this is not a shape", hint=f"as in {option} {name}=1x2x3")
    return found


def pairs(texts: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """NAME=VALUE of an option that may repeat, no name twice."""
    found: dict[str, str] = {}
    for name, value in repeated_pairs(texts, option):
        if name in found:
            raise UsageError(f"{option}: `{name}` is given twice", hint="give it once")
        found[name] = value
    return list(found.items())


def sizes(texts: tuple[str, ...]) -> dict[str, int]:
    """The sizes that --dim gives to open dimensions."""
    found = {}
    for name, text in pairs(texts, "--dim"):
        if not text.isdecimal() or not 0 < int(text) < 1 << 24:
            raise UsageError(f"--dim {name}={text}: that is not a size", hint=f"as in --dim {name}=16")
        found[name] = int(text)
    return found


def repeated_pairs(texts: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """NAME=VALUE of an option that may repeat, also with the same name."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"{option} {text}: this is not NAME=VALUE", hint=f"as in {option} x=…")
        found.append((name, value))
    return found


def soc_of(text: str | None, backend: str) -> int:
    """The number of the processor that --soc names; 0 where it is not given."""
    from udogen import backends
    from udogen.qnn import socs

    if text is None:
        return 0
    if backend not in backends.ALL or not backends.ALL[backend].prepares_for_soc:
        raise UsageError(f"--soc is for --backend htp, not {backend}", hint="leave it out")
    model = socs.model_of(text)
    if model is None:
        raise UsageError(
            f"--soc {text}: unknown processor",
            hint=f"one of {', '.join(socs.ALL)}, its number, or a version of Hexagon (v75)",
        )
    return model


def prove_option(command: _Command) -> _Command:
    """--prove: parameter `prove`."""
    text = "Show the package's execution counts; exit code 6 if something else was executed."
    return click.option("--prove", is_flag=True, help=text)(command)
