"""`udogen bisect`: the first tensor of a model that differs from the expected one."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen.cli import output, run_context
from udogen.cli.options import POSITIVE, SECONDS, argument, json_option, option, runtime_kind, same_options, verb
from udogen.errors import UsageError, VerificationFailed
from udogen.onnx.verbs import run_model

if TYPE_CHECKING:
    from udogen.runtime.models.commands import Divergence
    from udogen.verify.results import Finding


@dataclass(frozen=True)
class BisectOptions:
    """The options of the command line."""

    paths: tuple[Path, ...] = argument(metavar="model.toml|DIR|NET.onnx")
    against: Path | None = option(
        "--against", metavar="FILE.npz",
        help="The expected tensors: CONTEXT.TENSOR, one array or one for each step.  Not for NET.onnx.",
    )  # fmt: skip
    feeds: tuple[str, ...] = option("--feed", metavar="NAME=FILE", help="An input of the model; may repeat.")
    steps: int | None = option(
        "--steps", type=POSITIVE, metavar="N", help="Execute N steps (default: one for each array in FILE.npz)."
    )
    graphs: tuple[str, ...] = option("--graph", metavar="NAME", help="Only this graph in each step; may repeat.")
    tolerance: float | None = option(
        "--tolerance", type=click.FloatRange(min=0), metavar="X", help="As in `run context` and `run model`."
    )
    until: str = option("--until", metavar="NAME", help="Stop after this context; for NET.onnx: after this tensor.")
    replaced: tuple[str, ...] = option(
        "--replace", metavar="NAME=BY", help="CONTEXT=FILE.py:FUNCTION; for NET.onnx: OP=reference.  May repeat."
    )
    shard_runtimes: tuple[str, ...] = option(
        "--shard-runtime", metavar="CONTEXT=RUNTIME[:FILE]", help="As in `run context`."
    )
    links: tuple[str, ...] = option("--link", metavar="INPUT=OUTPUT", help="As in `run context`.")
    states: tuple[str, ...] = option("--state", metavar="INPUT=OUTPUT", help="As in `run context`.")
    packages: tuple[str, ...] = option("--package", "--op-package", metavar="DIR|LIB", help="An op package.")
    references: tuple[str, ...] = option("--reference", metavar="OP=FILE.py:FUNCTION", help="As in `run model`.")
    tests: tuple[Path, ...] = option("--tests", metavar="FILE", help="As in `run model`.")
    bits: str = option("--bits", type=click.Choice(["float", "8"]), default="float", help="As in `run model`.")
    backend: str | None = option(
        "--backend", metavar="NAME", help="Default: the backend of the binaries; for NET.onnx: cpu."
    )
    kind: str = runtime_kind()
    timeout: float | None = option("--timeout", type=SECONDS, metavar="SECONDS", help="Stop after this time.")
    as_json: bool = json_option()


@verb("bisect", BisectOptions)
def command(options: BisectOptions) -> int:
    """Example: udogen bisect model.toml --against expected.npz

    Find the first tensor that differs, in the order of execution, step by step.

    A model of context binaries is compared with FILE.npz, up to the step with the first difference.  An ONNX model is
    compared with ONNX Runtime's CPU, where custom ops run their references.  Prints step, context (or node), tensor,
    size of the error, and the likely cause, if known.  The exit code is 6 if a tensor differs.
    """
    if not options.paths:
        raise UsageError("no model was given", hint="udogen bisect model.toml --against FILE.npz; see --help")
    is_network = any(each.suffix == ".onnx" for each in options.paths)
    is_different = _network(options) if is_network else _contexts(options)
    return VerificationFailed.exit_code if is_different else 0


def _contexts(options: BisectOptions) -> bool:
    """Compare a model of context binaries; returns whether a tensor differs."""
    if options.against is None:
        raise UsageError(
            "nothing to compare the model with",
            hint="give --against FILE.npz, written by numpy.savez: CONTEXT.TENSOR=array",
        )
    from udogen.runtime.models.commands import not_compared_lines, step_text

    how = same_options(run_context.RunContextOptions, options, tolerance=options.tolerance or 0.0)
    ran, runtime = run_context.run_steps(how, stop=True)
    findings = _findings(ran.first) if ran.first and not ran.first.reason else ()
    if options.as_json:
        output.print_json(
            {
                "ok": ran.first is None,
                "runtime": runtime.name,
                "compared": len(ran.compared),
                "not_compared": ran.not_compared,
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
        for line in not_compared_lines(ran):
            output.print_result(line)
        return False
    for line in ran.first.lines():
        output.print_result(line)
    _print_findings(findings)
    return True


def _network(options: BisectOptions) -> bool:
    """Compare an ONNX model; returns whether a layer is wrong."""
    if options.against is not None or options.shard_runtimes or len(options.paths) > 1:
        raise UsageError(
            "--against, --shard-runtime and several paths are for context binaries",
            hint="an ONNX model is compared with ONNX Runtime's CPU, op by op",
        )
    from udogen.onnx.network import compare, text

    how = same_options(
        run_model.RunModelOptions,
        options,
        model=options.paths[0],
        packages=tuple(map(Path, options.packages)),
        backend=options.backend or "cpu",
        inputs=options.feeds,
    )
    result = run_model.run_network(how)
    findings = compare.causes(result)
    if options.as_json:
        output.print_json({**text.as_json(result), "reasons": [each.__dict__ for each in findings]})
    else:
        for line in text.first_lines(result):
            output.print_result(line)
        _print_findings(findings)
        if not result.fault:
            run_model.print_next_when_right(how)
        elif result.first_wrong and result.first_wrong.op in run_model.references_of(how):
            replaced = shlex.quote(f"{result.first_wrong.op}=reference")
            command = shlex.join(["udogen", *sys.argv[1:]])
            output.print_next(f"fix its kernel; `{command} --replace {replaced}` finds wrong layers of other ops")
    return bool(result.fault)


def _findings(first: Divergence) -> tuple[Finding, ...]:
    """The causes that can be recognized from the numbers alone."""
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
