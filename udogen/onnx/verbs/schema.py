"""`udogen onnx schema`: an ONNX model with schemas for its custom ops, or the schemas of a config."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen.cli import output
from udogen.cli.options import argument, json_option, option, verb
from udogen.errors import UsageError, write_file

if TYPE_CHECKING:
    from udogen.opdef.model import OpPackage

_CONFIGS = (".xml", ".json")


@dataclass(frozen=True)
class SchemaOptions:
    """The options of the command line."""

    source: Path = argument(metavar="MODEL|CONFIG")
    out: Path = option(
        "-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="OUT",
        help="The model to write.",
    )  # fmt: skip
    ops: tuple[str, ...] = option("--op", metavar="NAME", help="Only this op, DOMAIN::TYPE or TYPE; may repeat.")
    configs: tuple[Path, ...] = option(
        "--config", metavar="FILE",
        help="For a model: the config of its ops, which defines the shapes of outputs; may repeat.",
    )  # fmt: skip
    rules: Path | None = option(
        "--rules", metavar="FILE.py",
        help="For a model: rules for these shapes, as for `udogen run op --rules`; needs --config.",
    )  # fmt: skip
    domain: str = option("--domain", metavar="NAME", help="For a config: the ops' domain (default: the config's).")
    as_json: bool = json_option()


@verb("schema", SchemaOptions, short_help="Add schemas for custom ops to a model.")
def command(options: SchemaOptions) -> None:
    """Example: udogen onnx schema scale/Scale.xml -o schemas.onnx

    Add schemas for the custom ops of an ONNX model, without which ONNX Runtime does not load it.

    Schemas are model-local functions: they define types and shapes, and fail where QNN does not take the op, instead of
    computing something else.  The shapes of the outputs of custom ops, which QNN needs for a chain of them, are added
    where configs (--config) or rules define them.  For a CONFIG only the functions are written, in a model without
    nodes.
    """
    if options.rules is not None and not options.configs:
        raise UsageError("--rules are read with the config of the op", hint="--config FILE.xml")
    if options.source.suffix.lower() in _CONFIGS:
        if options.configs:
            raise UsageError(
                f"{options.source} is a config itself, and --config is for models", hint="leave --config out"
            )
        written = _write_library(options)
        notes: list[str] = []
    else:
        if options.domain:
            raise UsageError("--domain is for configs", hint="nodes of a model have their domain")
        written, notes = _add_to_model(options)
    if options.as_json:
        output.print_json({"ok": True, "written": str(options.out), "ops": written, "notes": notes})
        return
    output.print_result(f"{options.out}: {', '.join(written) or 'no op of it needs a schema'}")
    for note in notes:
        output.print_note(f"note: {note}")
    if options.out.suffix == ".onnx":
        output.print_next(f"`udogen inspect {shlex.quote(str(options.out))}` lists the ops and their tensors")


def _load(configs: Sequence[Path]) -> Sequence[OpPackage]:
    from udogen.configs.load import load

    packages, problems = load(configs)
    output.print_problems(problems.warnings)
    return packages


def _write_library(options: SchemaOptions) -> list[str]:
    """Write the schemas of a config; returns the names of their ops."""
    from udogen.onnx.ort import schema

    config, out, ops = options.source, options.out, options.ops
    packages = _load([config])
    found = [op for package in packages for op in package.ops if not ops or op.name in ops]
    if not found:
        raise UsageError(f"{config} has no op {', '.join(ops)}", hint="leave --op out")
    name = options.domain or packages[0].domain or packages[0].name
    if out.exists() and out.samefile(config):
        raise UsageError(f"{out} is the config itself", hint="choose another name for the model")
    write_file(out, schema.library_of(found, name))
    return [f"{name}::{op.name}" for op in found]


def _add_to_model(options: SchemaOptions) -> tuple[list[str], list[str]]:
    """Write a model with schemas; returns the names of their ops, and notes."""
    from udogen.onnx.ort import schema

    packages = _load(options.configs)
    made = schema.add_schemas(
        options.source,
        options.out,
        options.ops,
        outputs=schema.outputs_of_configs(packages, options.rules),
        params=schema.params_of(op for package in packages for op in package.ops),
    )
    missing = [f"{text}; {schema.SHAPE_HINT}" for text in schema.without_shape(made)]
    return [str(op) for op in made.ops], [*made.notes, *missing]
