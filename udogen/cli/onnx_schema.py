"""`udogen onnx schema`: an ONNX model with schemas for its custom ops, or the schemas of a config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen.cli import output
from udogen.errors import UsageError, writing

if TYPE_CHECKING:
    from udogen.opdef.model import OpPackage

_CONFIGS = (".xml", ".json")


@click.command("schema")
@click.argument("source", type=click.Path(path_type=Path), metavar="MODEL|CONFIG")
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="OUT",
    help="The model to write.",
)  # fmt: skip
@click.option("--op", "ops", multiple=True, metavar="NAME", help="Only this op, DOMAIN::TYPE or TYPE; may repeat.")
@click.option(
    "--config", "configs", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="For a model: the config of its ops, which defines the shapes of outputs; may repeat.",
)  # fmt: skip
@click.option(
    "--rules", type=click.Path(path_type=Path), metavar="FILE.py",
    help="For a model: rules for these shapes, as for `udogen run op --rules`; needs --config.",
)  # fmt: skip
@click.option("--domain", default="", metavar="NAME", help="For a config: the ops' domain (default: the config's).")
@output.json_option
def command(
    source: Path,
    out: Path,
    ops: tuple[str, ...],
    configs: tuple[Path, ...],
    rules: Path | None,
    domain: str,
    as_json: bool,
) -> None:
    """Example: udogen onnx schema scale/Scale.xml -o schemas.onnx

    Add schemas for the custom ops of an ONNX model, without which ONNX Runtime does not load it.

    Schemas are model-local functions: they define types and shapes, and fail where QNN does not take the op, instead of
    computing something else.  The shapes of the outputs of custom ops, which QNN needs for a chain of them, are added
    where configs (--config) or rules define them.  For a CONFIG only the functions are written, in a model without
    nodes.
    """
    if rules is not None and not configs:
        raise UsageError("--rules are read with the config of the op", hint="--config FILE.xml")
    if source.suffix.lower() in _CONFIGS:
        if configs:
            raise UsageError(f"{source} is a config itself, and --config is for models", hint="leave --config out")
        written = _write_library(source, out, ops, domain)
        notes: list[str] = []
    else:
        if domain:
            raise UsageError("--domain is for configs", hint="nodes of a model have their domain")
        written, notes = _add_to_model(source, out, ops, configs, rules)
    if as_json:
        output.print_json({"ok": True, "written": str(out), "ops": written, "notes": notes})
        return
    output.print_result(f"{out}: {', '.join(written) or 'no op of it needs a schema'}")
    for note in notes:
        output.print_note(f"note: {note}")


def _load(configs: Sequence[Path]) -> Sequence[OpPackage]:
    from udogen.configs.load import load

    packages, problems = load(configs)
    output.print_problems(problems.warnings)
    return packages


def _write_library(config: Path, out: Path, ops: Sequence[str], domain: str) -> list[str]:
    """Write the schemas of a config; their names."""
    from udogen.clients.ort import schema

    packages = _load([config])
    found = [op for package in packages for op in package.ops if not ops or op.name in ops]
    if not found:
        raise UsageError(f"{config} has no op {', '.join(ops)}", hint="leave --op out")
    name = domain or packages[0].domain or packages[0].name
    if out.exists() and out.samefile(config):
        raise UsageError(f"{out} is the config itself", hint="choose another name for the model")
    with writing(out):
        out.write_bytes(schema.library_of(found, name))
    return [f"{name}::{op.name}" for op in found]


def _add_to_model(
    model: Path, out: Path, ops: Sequence[str], configs: Sequence[Path], rules: Path | None
) -> tuple[list[str], list[str]]:
    """Write a model with schemas; their names, and notes."""
    from udogen.clients.ort import schema

    packages = _load(configs)
    made = schema.add_schemas(
        model,
        out,
        ops,
        outputs=schema.outputs_of_configs(packages, rules),
        params=schema.params_of(op for package in packages for op in package.ops),
    )
    missing = [f"{text}; {schema.SHAPE_HINT}" for text in schema.without_shape(made)]
    return [str(op) for op in made.ops], [*made.notes, *missing]
