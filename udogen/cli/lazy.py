"""A group of commands; only the one that is called is imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
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
        module, _, attribute = self._rows[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"udogen.cli.{module}"), attribute or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of --help."""
        for title, names in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self._rows[name][1]) for name in names.split()])
