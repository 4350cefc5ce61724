"""`udogen onnx-schema`: an ONNX model with schemas for its custom ops, or the schemas of a config."""

from __future__ import annotations

from pathlib import Path

import click

from udogen.cli import output

_CONFIGS = (".xml", ".json")


@click.command("onnx-schema")
@click.argument("source", type=click.Path(path_type=Path), metavar="MODEL|CONFIG")
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="OUT",
    help="The model to write.",
)  # fmt: skip
@click.option("--op", "ops", multiple=True, metavar="NAME", help="Only this op, DOMAIN::TYPE or TYPE; may repeat.")
@click.option(
    "--config", "configs", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Of a model: the config of its ops, which says the shapes of outputs; may repeat.",
)  # fmt: skip
@click.option(
    "--rules", type=click.Path(path_type=Path), metavar="FILE.py",
    help="Of a model: rules for these shapes, as for `udogen generate --rules`; needs --config.",
)  # fmt: skip
@click.option("--domain", default="", metavar="NAME", help="Of a config: the ops' domain (default: the config's).")
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
    """Give the custom ops of an ONNX model schemas, without which ONNX Runtime does not load it.

    They are model-local functions: they tell types and shapes, and fail where QNN does not take the op, instead of
    computing something else.  The shapes of what custom ops return, which QNN needs for a chain of them, are written
    where their configs (--config) or rules say them.  Of a CONFIG the functions alone are written, in a model without
    nodes.
    """
    from udogen.clients.ort import schema, shapes
    from udogen.configs.load import load
    from udogen.errors import UsageError, writing

    if rules is not None and not configs:
        raise UsageError("--rules are read with the config of the op", hint="--config FILE.xml")
    if source.suffix.lower() in _CONFIGS:
        if configs:
            raise UsageError(f"{source} is a config itself, and --config is for models", hint="leave --config out")
        packages, problems = load([source])
        output.print_problems(problems.warnings)
        found = [op for package in packages for op in package.ops if not ops or op.name in ops]
        if not found:
            raise UsageError(f"{source} has no op {', '.join(ops)}", hint="leave --op out")
        name = domain or packages[0].domain or packages[0].name
        if out.exists() and out.samefile(source):
            raise UsageError(f"{out} is the config itself", hint="write the model under another name")
        with writing(out):
            out.write_bytes(schema.library_of(found, name))
        written, notes = [f"{name}::{op.name}" for op in found], []
    else:
        if domain:
            raise UsageError("--domain is for configs", hint="nodes of a model have their domain")
        packages, problems = load(configs)
        output.print_problems(problems.warnings)
        made = schema.add_schemas(
            source,
            out,
            ops,
            outputs=shapes.of_configs(packages, rules),
            params=schema.params_of(op for package in packages for op in package.ops),
        )
        written = [str(op) for op in made.ops]
        lost = [f"{text}; {shapes.MORE}" for text in schema.without_shape(made)]
        notes = [*made.notes, *lost]
    if as_json:
        output.print_json({"ok": True, "written": str(out), "ops": written, "notes": notes})
        return
    output.print_result(f"{out}: {', '.join(written) or 'no op of it needs a schema'}")
    for note in notes:
        output.print_note(f"note: {note}")
