"""`udogen init`: a first config and test cases, from a model, from flags, or from answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen import backends
from udogen.cli import options, output
from udogen.errors import UsageError

if TYPE_CHECKING:
    from udogen.init.draft import Draft


@click.command("init")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--from-onnx", "model", type=click.Path(path_type=Path), metavar="MODEL", help="Take the ops of a model.")
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
    help="The config to write, .xml or .json (default: <package>.xml).",
)  # fmt: skip
@output.json_option
def command(
    name: str | None,
    model: Path | None,
    wanted: tuple[str, ...],
    dims: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    params: tuple[str, ...],
    package: str | None,
    chosen: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Write a config to start from, and test cases beside it.

    From a model: its custom ops, over all their uses, with the shapes of the model in the test cases; what the model
    leaves open stands in the config as a comment.  With NAME: the op that the flags describe, or that you describe
    when asked.  A file that is there is never overwritten.
    """
    if model is not None:
        for option, given in (("--input", inputs), ("--output", outputs), ("--param", params), ("NAME", name)):
            if given:
                raise UsageError(f"{option} means nothing with --from-onnx", hint="the model says what its ops are")
        _from_onnx(model, wanted, _dims(dims), package or "", chosen, out, as_json=as_json)
        return
    for option, given in (("--op", wanted), ("--dim", dims)):
        if given:
            raise UsageError(f"{option} is for --from-onnx", hint="leave it out")
    _described(name or "", inputs, outputs, params, package or "", chosen, out, as_json=as_json)


def _described(
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    params: tuple[str, ...],
    package: str,
    chosen: tuple[str, ...],
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    from udogen.init import described, questions

    if not (name and inputs):
        if as_json or not (sys.stdin and sys.stdin.isatty()):
            raise UsageError(
                "nobody is there to be asked, and the flags do not describe an op",
                hint="udogen init NAME --input x:FLOAT_32:4D [--output …] [--param …], or --from-onnx MODEL",
            )
        said = questions.interview(name, ask=_ask, say=output.note)
        name, inputs, outputs, params = said.name, said.inputs, said.outputs, said.params
        chosen = chosen or said.chosen
    draft = described.draft(name, inputs=inputs, outputs=outputs, params=params, package=package, chosen=chosen)
    _write(draft, out, source="", as_json=as_json)


def _ask(question: str, usual: str) -> str:
    answer: str = click.prompt(question, default=usual, show_default=bool(usual), err=True)
    return answer


def _dims(texts: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for name, text in options.pairs(texts, "--dim"):
        if not text.isdecimal() or not 0 < int(text) < 1 << 24:
            raise UsageError(f"--dim {name}={text}: this is no size", hint=f"as in --dim {name}=16")
        found[name] = int(text)
    return found


def _from_onnx(
    model: Path,
    wanted: tuple[str, ...],
    dims: dict[str, int],
    package: str,
    chosen: tuple[str, ...],
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    from udogen.init import from_onnx

    draft = from_onnx.draft(model, wanted=wanted, package=package, chosen=chosen, dims=dims)
    _write(draft, out, source=model.name, as_json=as_json)


def _write(draft: Draft, out: Path | None, *, source: str, as_json: bool) -> None:
    from udogen.init import writing

    written = writing.write(draft, out or Path(f"{draft.package.name}.xml"), source=source)
    if as_json:
        output.answer(
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
    output.warnings(written.warnings)
    for path, action in written.files.items():
        output.say(f"{path}: {action}")
    for remark in draft.remarks:
        if remark.decide:
            output.note(f"  {'.'.join(remark.about) or draft.package.name}: {remark.sentence}")
