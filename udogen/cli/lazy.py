"""Parts of the command line that are imported on first use: the commands of a group, the choices of an option."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from udogen.errors import UdogenError
from udogen.plugins import load, names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """A group that imports a command on first use: --help must not import all verbs.

    `rows` maps a name to (module of udogen.cli, one line for --help).  The command of a module is called `command`;
    MODULE:NAME selects another one.  The verbs of plug-ins follow; `path` are the words before their names.
    """

    def __init__(
        self,
        *args: Any,
        rows: Mapping[str, tuple[str, str]],
        path: str = "",
        sections: Mapping[str, str] | None = None,  # title -> names, in the order of --help; default: one section
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._rows, self._path, self._sections = rows, path, sections or {"Commands": " ".join(rows)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return [*self._rows, *self._added()]

    def _added(self) -> list[str]:
        """The verbs of plug-ins."""
        added = [name.removeprefix(self._path) for name in names("verbs") if name.startswith(self._path)]
        return [name for name in added if " " not in name and name not in self._rows]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in self._rows:
            added: click.Command | None = load("verbs", f"{self._path}{cmd_name}")
            return added
        name, line = self._rows[cmd_name]
        module, _, attribute = name.partition(":")
        command: click.Command = getattr(importlib.import_module(f"udogen.cli.{module}"), attribute or "command")
        command.short_help = line  # shown by shell completion
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click, with the nearest name in the error."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as fault:
            near = _guess(args[0], self.list_commands(ctx))
            raise click.UsageError(f"{fault.message}  {near}".rstrip(), ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of --help."""
        added = [(name, self._line(ctx, name)) for name in self._added()]
        sections = {
            title: [(name, self._rows[name][1]) for name in names.split()] for title, names in self._sections.items()
        }
        if len(sections) == 1:
            next(iter(sections.values())).extend(added)
        elif added:
            sections["More"] = added
        for title, lines in sections.items():
            with formatter.section(title):
                formatter.write_dl(lines)

    def _line(self, ctx: click.Context, name: str) -> str:
        try:
            command = self.get_command(ctx, name)
        except UdogenError as error:
            return error.message
        return command.get_short_help_str(90) if command else ""


class NameChoice(click.ParamType):  # type: ignore[type-arg]
    """A choice among names, or among those that a function returns when the option is used or shown by --help."""

    name = "choice"

    def __init__(self, names: Iterable[str] | Callable[[], Iterable[str]]) -> None:
        self._names = names

    def _choice(self) -> click.Choice[str]:
        return click.Choice(list(self._names() if callable(self._names) else self._names))

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """As in `click.Choice`."""
        return self._choice().get_metavar(param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """As in `click.Choice`."""
        return self._choice().shell_complete(ctx, param, incomplete)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As in `click.Choice`, with the nearest name in the error."""
        choice = self._choice()
        try:
            return choice.convert(value, param, ctx)
        except click.BadParameter as fault:
            raise click.BadParameter(f"{fault.message}  {_guess(value, choice.choices)}".rstrip(), ctx, param) from None


def completed(names: Callable[[click.Context], Iterable[str]]) -> Callable[..., list[str]]:
    """The shell completion of an option or argument: a function returns its names.  Lists with commas are continued."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, word = incomplete.rpartition(",")
        try:
            return [f"{before}{comma}{name}" for name in names(ctx) if name.startswith(word)]
        except UdogenError:  # no package, or a faulty file
            return []

    return complete


def known_targets(ctx: click.Context) -> Iterable[str]:
    """The targets of the packages that a command line names, or of those in its folder."""
    from udogen.build.package import open_packages

    folders = ctx.params.get("paths") or [ctx.params.get("folder") or "."]
    return dict.fromkeys(
        target for path in folders for package in open_packages(Path(path)) for target in package.targets
    )


def _guess(word: str, names: Iterable[str]) -> str:
    from udogen.findings import suggestion  # only for an error

    near = suggestion(word, names)
    return near[:1].upper() + near[1:]
