"""What is imported only when it is used: the commands of a group, the choices of an option."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """`rows` is name -> (module of udogen.cli, one line for --help), because --help must not import all verbs.

    The command of a module is called `command`, or named by MODULE:NAME.
    """

    def __init__(
        self,
        *args: Any,
        rows: Mapping[str, tuple[str, str]],
        sections: Mapping[str, str] | None = None,  # title -> names, in the order of --help; one of all without it
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._rows, self._sections = rows, sections or {"Commands": " ".join(rows)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return list(self._rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them, imported."""
        if cmd_name not in self._rows:
            return None
        name, line = self._rows[cmd_name]
        module, _, attribute = name.partition(":")
        command: click.Command = getattr(importlib.import_module(f"udogen.cli.{module}"), attribute or "command")
        command.short_help = line  # what completion shows
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of --help."""
        for title, names in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self._rows[name][1]) for name in names.split()])


class LazyChoice(click.ParamType):  # type: ignore[type-arg]
    """An option with one of these names, which are requested when it is given, or shown by --help."""

    name = "choice"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """As that of `click.Choice`."""
        return click.Choice(list(self._names())).get_metavar(param, ctx)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As that of `click.Choice`."""
        return click.Choice(list(self._names())).convert(value, param, ctx)
