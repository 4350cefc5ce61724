"""A verb's options are the fields of a dataclass, of which `verb` makes a command; also options that verbs share."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from udogen.cli.lazy import NameChoice
from udogen.errors import UsageError

_Options = TypeVar("_Options")


class PathType(click.Path):
    """The name of a file or folder; an empty one, as of a variable that is not set, is refused."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the name."""
        if value == "":
            self.fail("the name of a file or folder must not be empty", param, ctx)
        return super().convert(value, param, ctx)


class NumberType(click.FloatRange):
    """A number in a range; NaN and infinity are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


POSITIVE = click.IntRange(min=1)
JOBS = click.IntRange(min=1, max=512)  # make and the system do not run more programs at once
SECONDS = NumberType(min=0, min_open=True, max=10_000_000)  # timers overflow later
TOLERANCE = NumberType(min=0)
_TYPES: Mapping[str, Any] = {"bool": bool, "int": int, "Path": PathType(path_type=Path)}


def option(*flags: str, **settings: Any) -> Any:
    """A field that is an option; its annotation gives the type, and whether it may repeat (a tuple) or is a flag."""
    return field(metadata={"flags": flags, **settings})


def argument(**settings: Any) -> Any:
    """A field that is an argument; a tuple takes all remaining arguments."""
    return field(metadata=settings)


def verb(
    name: str, kind: type[_Options], **settings: Any
) -> Callable[[Callable[[_Options], int | None]], click.Command]:
    """A decorator: the command that calls the function with its options, a dataclass of `option` and `argument`."""

    def decorate(run: Callable[[_Options], int | None]) -> click.Command:
        def call(**given: Any) -> int | None:
            try:
                os.getcwd()
            except FileNotFoundError:
                raise UsageError(
                    "the current folder was deleted", hint="change to a folder that exists: cd …"
                ) from None
            return run(kind(**given))

        parameters = [_parameter(each) for each in fields(kind)]  # type: ignore[arg-type]
        return click.Command(name, callback=call, params=parameters, **{"help": run.__doc__, **settings})

    return decorate


def _parameter(of: Field[Any]) -> click.Parameter:
    """The parameter of click for a field."""
    settings = dict(of.metadata)
    flags = settings.pop("flags", ())
    kind = str(of.type).removeprefix("tuple[").partition(",")[0].partition(" |")[0]
    several = str(of.type).startswith("tuple[")
    if kind in _TYPES:
        settings.setdefault("type", _TYPES[kind])
    if not flags:
        return click.Argument([of.name], **{"nargs": -1 if several else 1, **settings})
    if kind == "bool":
        settings.setdefault("is_flag", True)
    if of.type == "str" and not settings.get("required"):
        settings.setdefault("default", "")
    return click.Option([of.name, *flags], **{"multiple": several, **settings})


def same_options(kind: Callable[..., _Options], options: object, **others: Any) -> _Options:
    """Options of another kind: shared fields from these options, then `others`; the rest as if it were not given."""
    known = getattr(kind, "_fields", ()) or [each.name for each in fields(kind)]  # type: ignore[arg-type]
    unset = {each.name: _unset(each) for each in fields(kind) if each.metadata} if is_dataclass(kind) else {}
    same = {name: getattr(options, name) for name in known if hasattr(options, name)}
    return kind(**{**unset, **same, **others})


def given(options: Any) -> dict[str, Any]:
    """The options on the command line: flag -> value."""
    values = {}
    for each in fields(options):
        flags = each.metadata.get("flags")
        if flags and (value := getattr(options, each.name)) != _unset(each):
            values[next((flag for flag in flags if flag.startswith("--")), flags[0])] = value
    return values


def _unset(of: Field[Any]) -> Any:
    """The value of a field whose option is not given."""
    kind = str(of.type)
    usual = () if kind.startswith("tuple[") else {"bool": False, "str": ""}.get(kind)
    return of.metadata.get("default", usual)


@dataclass(frozen=True)
class ConfigOptions:
    """CONFIG…, and the vendor tools' `-p/--config_path`, which may repeat."""

    configs: tuple[str, ...] = argument(type=PathType(), metavar="CONFIG...")
    config_paths: tuple[str, ...] = option(
        "-p", "--config_path", type=PathType(), metavar="FILE",
        help="A config, in the syntax of the vendor's tools; may repeat.",
    )  # fmt: skip

    @property
    def all_configs(self) -> list[str]:
        """The configs of both forms; an error if there are none."""
        found = [*self.configs, *self.config_paths]
        if not found:
            raise UsageError("no config was given", hint="name an XML OpDef or a JSON UDO config; see --help")
        return found


def json_option() -> Any:
    """--json."""
    return option("--json", help="Print the result as JSON.")


def strict_option() -> Any:
    """--strict."""
    return option("--strict", help="Treat warnings as errors.")


def runtime_option() -> Any:
    """--runtime."""
    return option(
        "--runtime",
        type=NameChoice(["auto", "real", "emulator"]),
        default="auto",
        help="Qualcomm's runtime, or udogen's emulator (default: the real one, if it can run on this machine).",
    )


def heap_option() -> Any:
    """--heap."""
    return option("--heap", help="Report heap use during execution, with function and line.")


def prove_option() -> Any:
    """--prove."""
    return option("--prove", help="Show the package's execution counts; exit code 6 if something else was executed.")


def level_option() -> Any:
    """--log-level."""
    return option(
        "--log-level", "--log_level", metavar="N", help="Show the runtime's log up to a level: 1 (error) to 5 (debug)."
    )


def profile_option() -> Any:
    """--profile."""
    return option("--profile", help="Show the runtime's measurements, per op if available.")


def trace_option() -> Any:
    """--trace."""
    return option("--trace", metavar="FILE.json", help="Write the runtime's measurements as a trace for Perfetto.")


def split_names(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The names of an option that may repeat, or list several names separated by commas."""
    return tuple(name for value in values for name in value.split(","))


def shape_of(name: str, text: str, option: str = "--shape") -> tuple[int, ...]:
    """The shape that an option gives to a tensor."""
    try:
        found = tuple(int(part) for part in text.replace(",", "x").split("x"))
    except ValueError:
        found = (0,)
    if any(extent < 1 for extent in found):
        raise UsageError(f"{option} {name}={text}: this is not a shape", hint=f"as in {option} {name}=1x2x3")
    return found


def pairs(texts: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """(NAME, VALUE) of an option that may repeat, but not with the same name."""
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
    """(NAME, VALUE) of an option that may repeat, even with the same name."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"{option} {text}: this is not NAME=VALUE", hint=f"as in {option} x=…")
        found.append((name, value))
    return found


def soc_of(text: str | None, backend: str) -> int:
    """The number of the processor that --soc names; 0 if it is not given."""
    from udogen import backends
    from udogen.qnn import socs

    if text is None:
        return 0
    if backend not in backends.ALL or not backends.ALL[backend].prepares_for_soc:
        raise UsageError(f"--soc is for --backend htp, not {backend}", hint="leave it out")
    return socs.number_of(text, "--soc")


def check_writable(*files: Path | None) -> None:
    """Raise if a file cannot be written; called before a run, which may take minutes."""
    for file in filter(None, files):
        folder = file.absolute().parent
        if not folder.is_dir():
            raise UsageError(
                f"cannot write {file}: there is no folder {file.parent}", hint="make it, or choose another"
            )
        if file.is_dir():
            raise UsageError(f"cannot write {file}: Is a directory", hint="choose another file")
        if not os.access(file if file.exists() else folder, os.W_OK):
            raise UsageError(f"cannot write {file}: Permission denied", hint="choose another file")
