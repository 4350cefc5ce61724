"""`udogen bisect`: the first tensor of a model that differs from what it should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from udogen.cli import output, run_context, run_model
from udogen.cli.options import runtime_kind
from udogen.errors import UsageError, VerificationFailed

if TYPE_CHECKING:
    from udogen.runtime.models.commands import Divergence
    from udogen.verify.results import Finding


@click.command("bisect")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="model.toml|DIR|NET.onnx")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FILE.npz",
    help="What tensors should be: CONTEXT.TENSOR, one array or one for each step.  Not for NET.onnx.",
)
@click.option("--feed", "feeds", multiple=True, metavar="NAME=FILE", help="An input of the model; may repeat.")
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Default: as many as FILE.npz has arrays for.")
@click.option("--graph", "graphs", multiple=True, metavar="NAME", help="What steps execute; may repeat.")
@click.option("--tolerance", type=click.FloatRange(min=0), metavar="X", help="As in `run context` and `run model`.")
@click.option("--until", default="", metavar="NAME", help="End with this context; of NET.onnx with this tensor.")
@click.option(
    "--replace",
    "replaced",
    multiple=True,
    metavar="NAME=BY",
    help="CONTEXT=FILE.py:FUNCTION; of NET.onnx OP=reference.  May repeat.",
)
@click.option("--shard-runtime", "shard_runtimes", multiple=True, metavar="CONTEXT=RUNTIME[:FILE]", help="May repeat.")
@click.option("--link", "links", multiple=True, metavar="INPUT=OUTPUT", help="As in `run context`.")
@click.option("--state", "states", multiple=True, metavar="INPUT=OUTPUT", help="As in `run context`.")
@click.option("--package", "--op-package", "packages", multiple=True, metavar="DIR|LIB", help="An op package.")
@click.option("--reference", "references", multiple=True, metavar="OP=FILE.py:FUNCTION", help="As in `run model`.")
@click.option("--tests", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="As in `run model`.")
@click.option("--bits", type=click.Choice(["float", "8"]), default="float", help="As in `run model`.")
@click.option("--backend", metavar="NAME", help="Default: that of the binaries; of NET.onnx cpu.")
@runtime_kind
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="A limit.")
@output.json_option
@click.pass_context
def command(click_context: click.Context, /, **given: Any) -> None:
    """Example: udogen bisect model.toml --against expected.npz

    Find the first tensor that differs, in the order of execution, step by step.

    A model of context binaries is compared with FILE.npz; it ends with the step that has the first difference.  An ONNX
    model is compared with ONNX Runtime's CPU, where custom ops are their references.  Prints step, context (or node),
    tensor, size of the error, and the most likely reason if one is known.  The exit code is 6 if a tensor differs.
    """
    if not given["paths"]:
        raise UsageError("no model was given", hint="udogen bisect model.toml --against FILE.npz; see --help")
    is_network = any(each.suffix == ".onnx" for each in given["paths"])
    if _network(given) if is_network else _contexts(given):
        click_context.exit(VerificationFailed.exit_code)


_Options = TypeVar("_Options")


def _options(kind: Callable[..., _Options], given: Mapping[str, Any], **others: Any) -> _Options:
    """The options of another verb: those that this command line has too, by their names."""
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{**{name: value for name, value in given.items() if name in known}, **others})


def _contexts(given: Mapping[str, Any]) -> bool:
    """A model of context binaries; whether a tensor differs."""
    if given["against"] is None:
        raise UsageError(
            "nothing to compare the model with",
            hint="give --against FILE.npz, written by numpy.savez: CONTEXT.TENSOR=array",
        )
    options = _options(run_context.RunContextOptions, given, tolerance=given["tolerance"] or 0.0)
    from udogen.runtime.models.commands import step_text

    ran, runtime = run_context.run_steps(options, stop=True)
    findings = _findings(ran.first) if ran.first and not ran.first.reason else ()
    if options.as_json:
        output.print_json(
            {
                "ok": ran.first is None,
                "runtime": runtime.name,
                "compared": len(ran.compared),
                "steps": len(ran.steps),
                "zeros": list(ran.zeros),
                "first": run_context.first_as_json(ran.first),
                "reasons": [each.__dict__ for each in findings],
            }
        )
        return ran.first is not None
    if ran.first is None:
        tensors = len({each.tensor for each in ran.compared})
        output.print_result(f"no difference: {tensors} tensors agree in {step_text(len(ran.steps))} on {runtime.name}")
        return False
    for line in ran.first.lines():
        output.print_result(line)
    _print_findings(findings)
    return True


def _network(given: Mapping[str, Any]) -> bool:
    """An ONNX model; whether a layer is wrong."""
    if given["against"] is not None or given["shard_runtimes"] or len(given["paths"]) > 1:
        raise UsageError(
            "--against, --shard-runtime and several paths are for context binaries",
            hint="an ONNX model is compared with ONNX Runtime's CPU, op by op",
        )
    from udogen.verify import network

    options = _options(
        run_model.RunModelOptions,
        given,
        model=given["paths"][0],
        packages=tuple(map(Path, given["packages"])),
        backend=given["backend"] or "cpu",
        inputs=given["feeds"],
    )
    result = run_model.run_network(options)
    findings = network.causes(result)
    if given["as_json"]:
        output.print_json({**network.as_json(result), "reasons": [each.__dict__ for each in findings]})
    else:
        for line in network.first_lines(result):
            output.print_result(line)
        _print_findings(findings)
    return result.first_wrong is not None


def _findings(first: Divergence) -> tuple[Finding, ...]:
    """Causes that the numbers themselves show."""
    import numpy as np

    from udogen.verify.cases import Case
    from udogen.verify.diagnosis.causes import diagnose
    from udogen.verify.diagnosis.wrong_output import FailedCase

    name = first.tensor.partition(".")[2]
    made, expected = (np.frombuffer(each.data.data, first.dtype).reshape(first.shape) for each in first.arrays)
    quants = {name: first.scale_offset} if first.scale_offset else {}
    return diagnose(FailedCase(Case(first.tensor, first.graph, {}, {name: expected}, quants=quants), {name: made}))


def _print_findings(findings: tuple[Finding, ...]) -> None:
    for each in findings:
        output.print_result(f"  likely reason: {each.sentence} ({each.evidence})")
        output.print_result(f"    {each.hint}")
