"""`udogen init`: a first config and test cases, from a model, from flags, or from questions."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from udogen import backends
from udogen.cli import output
from udogen.cli.options import pairs
from udogen.errors import UsageError

if TYPE_CHECKING:
    from udogen.init.draft import Draft


@click.command("init")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--from-onnx", "model", type=click.Path(path_type=Path), metavar="MODEL", help="Take the ops of a model.")
@click.option(
    "--from-contexts",
    "contexts",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Describe the model of a folder of context binaries: DIR/model.toml.",
)
@click.option("--op", "wanted", multiple=True, metavar="DOMAIN::TYPE", help="Only this op of the model; may repeat.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="The size of an open axis in the test cases.")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME:TYPE:RANK", help="An input, as x:FLOAT_32:4D; may repeat."
)
@click.option("--output", "outputs", multiple=True, metavar="NAME:TYPE:RANK", help="An output; may repeat.")
@click.option("--param", "params", multiple=True, metavar="NAME:TYPE=VALUE", help="A parameter, as axis:INT_32=-1.")
@click.option("--package", metavar="NAME", help="The name of the package.")
@click.option(
    "--backend", "chosen", multiple=True, type=click.Choice(list(backends.ALL)),
    help="For this backend; may repeat (default: cpu, and htp where it can take the op).",
)  # fmt: skip
@click.option(
    "-o", "out", type=click.Path(path_type=Path), metavar="FILE",
    help="The file to write: a config, .xml or .json (default: <package>.xml), or model.toml.",
)  # fmt: skip
@output.json_option
def command(**given: Any) -> None:
    """Write a config to start from, and test cases beside it.

    From a model: its custom ops, over all their uses, with the shapes of the model in the test cases; what the model
    leaves open becomes a comment in the config.  With NAME: the op that the flags describe, or that you describe
    when asked.  An existing file is never overwritten.
    """
    options = InitOptions(**given)
    if options.contexts is not None:
        of_onnx = (("--from-onnx", options.model), ("--op", options.wanted), ("--dim", options.dims))
        others = (*of_onnx, ("--package", options.package), *options.described)
        _refuse(others, "means nothing with --from-contexts", "leave it out")
        _from_contexts(options, options.contexts)
    elif options.model is not None:
        _refuse(options.described, "means nothing with --from-onnx", "the model defines its ops")
        _from_onnx(options, options.model)
    else:
        _refuse((("--op", options.wanted), ("--dim", options.dims)), "is for --from-onnx", "leave it out")
        _from_flags(options)


@dataclass(frozen=True)
class InitOptions:
    """The options of the command line."""

    name: str | None
    model: Path | None
    contexts: Path | None
    wanted: tuple[str, ...]
    dims: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: tuple[str, ...]
    package: str | None
    chosen: tuple[str, ...]
    out: Path | None
    as_json: bool

    @property
    def described(self) -> tuple[tuple[str, object], ...]:
        """The options that describe one op."""
        return ("--input", self.inputs), ("--output", self.outputs), ("--param", self.params), ("NAME", self.name)


def _refuse(options: Iterable[tuple[str, object]], why: str, hint: str) -> None:
    for option, value in options:
        if value:
            raise UsageError(f"{option} {why}", hint=hint)


def _from_contexts(options: InitOptions, folder: Path) -> None:
    from udogen.runtime.models.description import first_description

    file, found = first_description(folder, options.out)
    if options.as_json:
        files = [{"path": str(file), "action": "written"}]
        output.print_json({"ok": True, "files": files, "links": found.links, "state": found.state})
        return
    output.print_result(f"{file}: written")
    output.print_note(f"  udogen run context {file} --dry-run shows how its contexts belong together")


def _from_flags(options: InitOptions) -> None:
    from udogen.init import from_flags

    name, inputs, outputs, params = options.name or "", options.inputs, options.outputs, options.params
    chosen = options.chosen
    if not (name and inputs):
        if options.as_json or not (sys.stdin and sys.stdin.isatty()):
            raise UsageError(
                "the flags do not describe an op, and no terminal is open for questions",
                hint="udogen init NAME --input x:FLOAT_32:4D [--output …] [--param …], or --from-onnx MODEL",
            )
        answers = from_flags.interview(name, ask=_ask, log=output.print_note)
        name, inputs, outputs, params = answers.name, answers.inputs, answers.outputs, answers.params
        chosen = chosen or answers.chosen
    draft = from_flags.draft(
        name, inputs=inputs, outputs=outputs, params=params, package=options.package or "", chosen=chosen
    )
    _write(draft, options, source="")


def _ask(question: str, usual: str) -> str:
    answer: str = click.prompt(question, default=usual, show_default=bool(usual), err=True)
    return answer


def _dims(texts: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for name, text in pairs(texts, "--dim"):
        if not text.isdecimal() or not 0 < int(text) < 1 << 24:
            raise UsageError(f"--dim {name}={text}: that is not a size", hint=f"as in --dim {name}=16")
        found[name] = int(text)
    return found


def _from_onnx(options: InitOptions, model: Path) -> None:
    from udogen.init import from_onnx

    draft = from_onnx.draft(
        model,
        wanted=options.wanted,
        package=options.package or "",
        chosen=options.chosen,
        dims=_dims(options.dims),
    )
    _write(draft, options, source=model.name)


def _write(draft: Draft, options: InitOptions, *, source: str) -> None:
    from udogen.init import write

    written = write.write(draft, options.out or Path(f"{draft.package.name}.xml"), source=source)
    if options.as_json:
        output.print_json(
            {
                "ok": True,
                "package": draft.package.name,
                "ops": [op.name for op in draft.package.ops],
                "files": [{"path": str(path), "action": action} for path, action in written.files.items()],
                "decisions": [each.as_json() for each in draft.remarks if each.decide],
                "remarks": [each.as_json() for each in draft.remarks if not each.decide],
                "warnings": [problem.as_json() for problem in written.warnings],
            }
        )
        return
    output.print_problems(written.warnings)
    for path, action in written.files.items():
        output.print_result(f"{path}: {action}")
    for remark in draft.remarks:
        if remark.decide:
            output.print_note(f"  {'.'.join(remark.about) or draft.package.name}: {remark.sentence}")
