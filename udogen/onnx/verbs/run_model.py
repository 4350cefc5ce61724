"""`udogen run model`: a whole ONNX model on QNN with op packages, compared tensor by tensor."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen.cli import output
from udogen.cli.options import SECONDS, argument, json_option, option, pairs, verb
from udogen.errors import UsageError

if TYPE_CHECKING:
    from udogen.onnx.network.result import NetworkResult
    from udogen.verify.test_files.references import ReferenceFunction


@dataclass(frozen=True)
class RunModelOptions:
    """The options of the command line."""

    model: Path = argument(metavar="NET.onnx")
    packages: tuple[Path, ...] = option(
        "--package", metavar="DIR", help="A built op package with ops of the model; may repeat."
    )
    backend: str = option("--backend", type=click.Choice(["cpu", "htp"]), default="cpu", help="Default: cpu.")
    bits: str = option(
        "--bits",
        type=click.Choice(["float", "8"]),
        default="float",
        help="8: quantized to 8 bits, calibrated on the inputs.",
    )
    inputs: tuple[str, ...] = option(
        "--input", metavar="NAME=FILE.npy",
        help="An input: one sample, or several along an additional first axis; may repeat.  Others are random.",
    )  # fmt: skip
    references: tuple[str, ...] = option(
        "--reference", metavar="OP=FILE.py:FUNCTION",
        help="The reference of a custom op, as in test files; may repeat.",
    )  # fmt: skip
    tests: tuple[Path, ...] = option(
        "--tests", metavar="FILE", help="A test file (op_tests.toml), or its folder, with references; may repeat."
    )
    tolerance: float | None = option(
        "--tolerance", type=click.FloatRange(min=0), metavar="X",
        help="The allowed error of a layer, as a fraction of the range of its output.",
    )  # fmt: skip
    until: str = option("--until", metavar="TENSOR", help="Only what this tensor needs.")
    output_dir: Path | None = option("--output-dir", metavar="DIR", help="Save outputs here, as .npy.")
    timeout: float | None = option("--timeout", type=SECONDS, metavar="SECONDS", help="The time limit of QNN.")
    as_json: bool = json_option()


@verb("model", RunModelOptions, short_help="Run a whole ONNX model and compare every tensor.")
def command(options: RunModelOptions) -> int:
    """Example: udogen run model net.onnx --package out --tests scale

    Run a whole ONNX model in ONNX Runtime with Qualcomm's provider and your op packages.

    Every tensor is compared with ONNX Runtime's CPU, where custom ops run their references.  The table lists for each
    layer its own error (with its actual inputs) and the accumulated error; the exit code is 6 if a layer is
    wrong, and 2 if no node ran on QNN.
    """
    from udogen.runtime.contexts import arrays

    result = _run(options)
    for name, array in result.outputs.items() if options.output_dir else ():
        arrays.write(Path(options.output_dir or "", f"{arrays.file_name(name)}.npy"), array)
    if options.as_json:
        output.print_json(result.as_json())
    else:
        for line in result.lines():
            output.print_result(line)
        if not result.fault:
            _print_next(options)
    return result.verdict.exit_code


def _print_next(options: RunModelOptions) -> None:
    """Print the next step for a model that is right: quantize it, or use its packages in a program."""
    if options.bits == "float":
        words = [each for each in sys.argv[1:] if each != "--json"]
        output.print_next(f"`{shlex.join(['udogen', *words])} --bits 8` compares the quantized model")
    elif options.packages:
        packages = shlex.join(map(str, options.packages))
        output.print_next(
            f"`udogen register {packages} --client ort --target {options.backend}` prints what a program needs"
        )


def _run(options: RunModelOptions) -> NetworkResult:
    """Run the network, and compare its tensors."""
    from udogen.onnx.network.compare import run_network
    from udogen.onnx.network.execute import NetworkOptions

    return run_network(
        NetworkOptions(
            model=options.model,
            packages=options.packages,
            backend=options.backend,
            bits=options.bits,
            inputs={name: Path(file) for name, file in pairs(options.inputs, "--input")},
            references=_references(options),
            tolerance=options.tolerance,
            until=options.until,
            timeout=options.timeout,
        )
    )


def _references(options: RunModelOptions) -> dict[str, ReferenceFunction]:
    """The references of custom ops, by type."""
    from udogen.verify.test_files import references
    from udogen.verify.test_files.read import load_test_files

    found = {}
    for path in options.tests:
        tests = [each for each in load_test_files(path).ops if each.reference]
        if not tests:
            raise UsageError(f"{path} names no reference", hint='reference = "reference.py:function" in its [[op]]')
        found.update({each.op: references.find(each.reference, each.folder) for each in tests})
    found.update({op: references.find(text, Path()) for op, text in pairs(options.references, "--reference")})
    return found
