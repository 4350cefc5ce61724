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
        help="A config, as the vendor's tools take it; may repeat.",
    )(command)  # fmt: skip
    return click.argument("configs", nargs=-1, type=click.Path(), metavar="CONFIG...")(command)


def all_configs(configs: tuple[str, ...], config_paths: tuple[str, ...]) -> list[str]:
    """The configs of both spellings; at least one."""
    found = [*configs, *config_paths]
    if not found:
        raise UsageError("no config was given", hint="name an XML OpDef or a JSON UDO config; see --help")
    return found


strict = click.option("--strict", is_flag=True, help="Make warnings errors.")
