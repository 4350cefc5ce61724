"""The verbs for ONNX models: `udogen run model`, `udogen onnx schema`, `fuse` and `context`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen.cli import output
from udogen.cli.lazy import LazyGroup, NameChoice
from udogen.cli.options import (
    SECONDS,
    TOLERANCE,
    PathType,
    argument,
    json_option,
    option,
    pairs,
    same_options,
    sizes,
    verb,
)
from udogen.errors import UsageError, write_file

if TYPE_CHECKING:
    from udogen.onnx.network.compare import NetworkResult
    from udogen.opdef.model import OpPackage
    from udogen.verify.test_files.references import ReferenceFunction


@dataclass(frozen=True)
class RunModelOptions:
    """The options of the command line."""

    model: Path = argument(metavar="NET.onnx")
    packages: tuple[Path, ...] = option(
        "--package", metavar="DIR", help="A built op package with ops of the model; may repeat."
    )
    backend: str = option("--backend", type=NameChoice(["cpu", "htp"]), default="cpu", help="Default: cpu.")
    bits: str = option(
        "--bits",
        type=NameChoice(["float", "8"]),
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
        "--tolerance", type=TOLERANCE, metavar="X",
        help="The allowed error of a layer, as a fraction of the range of its output.",
    )  # fmt: skip
    until: str = option("--until", metavar="TENSOR", help="Only what this tensor needs.")
    output_dir: Path | None = option("--output-dir", metavar="DIR", help="Save outputs here, as .npy.")
    timeout: float | None = option("--timeout", type=SECONDS, metavar="SECONDS", help="The time limit of QNN.")
    as_json: bool = json_option()


@verb("model", RunModelOptions, short_help="Run a whole ONNX model and compare every tensor.")
def run_model(options: RunModelOptions) -> int:
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
        words = [word for word in sys.argv[1:] if word != "--json"]
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
        tests = [op for op in load_test_files(path).ops if op.reference]
        if not tests:
            raise UsageError(f"{path} names no reference", hint='reference = "reference.py:function" in its [[op]]')
        found.update({test.op: references.find(test.reference, test.folder) for test in tests})
    found.update({op: references.find(text, Path()) for op, text in pairs(options.references, "--reference")})
    return found


_CONFIGS = (".xml", ".json")


@dataclass(frozen=True)
class SchemaOptions:
    """The options of the command line."""

    source: Path = argument(metavar="MODEL|CONFIG")
    out: Path = option(
        "-o", "--output", required=True, type=PathType(path_type=Path, dir_okay=False), metavar="OUT",
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
def add_schemas(options: SchemaOptions) -> None:
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
    chosen = [op for package in packages for op in package.ops if not ops or op.name in ops]
    if not chosen:
        raise UsageError(f"{config} has no op {', '.join(ops)}", hint="leave --op out")
    name = options.domain or packages[0].domain or packages[0].name
    if out.exists() and out.samefile(config):
        raise UsageError(f"{out} is the config itself", hint="choose another name for the model")
    write_file(out, schema.library_of(chosen, name))
    return [f"{name}::{op.name}" for op in chosen]


def _add_to_model(options: SchemaOptions) -> tuple[list[str], list[str]]:
    """Write a model with schemas; returns the names of their ops, and notes."""
    from udogen.onnx.ort import schema

    packages = _load(options.configs)
    ops = [op for package in packages for op in package.ops]
    made = schema.add_schemas(options.source, options.out, options.ops, ops=ops, rules=options.rules)
    missing = [f"{text}; {schema.SHAPE_HINT}" for text in schema.without_shape(made)]
    return [str(op) for op in made.ops], [*made.notes, *missing]


def _files(_context: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[str, Path]:
    return {name: Path(file) for name, file in pairs(texts, "--feed")}


@dataclass(frozen=True)
class FuseArguments:
    """The options of the command line."""

    model: Path = argument(metavar="MODEL.onnx")
    nodes: str = option(
        "--nodes", required=True, metavar="A..B",
        help="The nodes: all on paths from A to B (names of nodes or tensors), or a list separated by commas.",
    )  # fmt: skip
    name: str = option("--name", required=True, metavar="NAME", help="The name of the new op.")
    out: Path | None = option("-o", metavar="DIR", help="The output folder (default: NAME).")
    feeds: Mapping[str, Path] = option(
        "--feed", multiple=True, metavar="NAME=FILE.npy", callback=_files,
        help="An input of the model; may repeat.  Others are random.",
    )  # fmt: skip
    dims: Mapping[str, int] = option(
        "--dim", multiple=True, metavar="NAME=SIZE", callback=lambda *given: sizes(given[2]),
        help="The size of an open dimension; may repeat.",
    )  # fmt: skip
    backends: tuple[str, ...] = option(
        "--backend", type=NameChoice(["cpu", "htp"]),
        help="The backend to compare the new model on; may repeat (default: both).",
    )  # fmt: skip
    no_run: bool = option("--no-run", help="Only write the files.")
    as_json: bool = json_option()


@verb("fuse", FuseArguments, short_help="Make one custom op from nodes of a model.")
def fuse(options: FuseArguments) -> int:
    """Example: udogen onnx fuse model.onnx --nodes conv_1..relu_1 --name ConvRelu

    Make one custom op from nodes of an ONNX model.

    Writes to DIR a config, a kernel in Python with a line for each node, the nodes alone as the reference, and test
    cases with the values of the model.  DIR also gets the model with the op in place of the nodes.  Then that model
    runs in ONNX Runtime with Qualcomm's provider, and is compared with the original.  The exit code is 6 if they
    differ, otherwise that of the backend that failed: 3 without a tool, 4 if it does not build, 5 if it does not run.
    """
    from udogen.onnx.fuse import run

    backends = () if options.no_run else options.backends or ("cpu", "htp")
    asked = same_options(run.FuseOptions, options, out=options.out or Path(options.name), backends=backends)
    fused = run.fuse(asked, output.print_note if not options.as_json else lambda _line: None)
    if options.as_json:
        output.print_json(run.as_json(fused))
    else:
        for line in run.lines(fused):
            output.print_result(line)
        output.print_next(f"`udogen test {shlex.quote(str(asked.out))}` compares the op alone, on every backend")
    return fused.exit_code


@dataclass(frozen=True)
class OnnxContextOptions:
    """The options of the command line."""

    binary: Path = argument(metavar="FILE.bin")
    out: Path = option(
        "-o", "--output", required=True, type=PathType(path_type=Path, dir_okay=False), metavar="MODEL.onnx",
        help="The model to write: beside the binary, or in a folder above it.",
    )  # fmt: skip
    graphs: tuple[str, ...] = option("--graph", metavar="NAME", help="Only this graph; may repeat.  Default: all.")
    embed: bool = option("--embed", help="Embed the binary in the model instead of naming its file.")
    as_json: bool = json_option()


@verb("context", OnnxContextOptions, short_help="Wrap a context binary in a model for ONNX Runtime.")
def context(options: OnnxContextOptions) -> None:
    """Example: udogen onnx context scale.bin -o scale.onnx

    Write an ONNX model with which ONNX Runtime restores and executes a context binary (EPContext).

    Names, types and shapes are those of the binary; with several graphs, tensors are called GRAPH/TENSOR.  ONNX
    Runtime needs the op packages of the binary: `udogen register`, or `udogen.onnx.ort.session`.
    """
    from udogen.onnx.ort import context_model

    made = context_model.write_model(options.binary, options.out, graphs=options.graphs, embed=options.embed)
    if options.as_json:
        output.print_json({"ok": True, **context_model.as_json(made)})
        return
    for graph, inputs, outputs in made.graphs:
        output.print_result(f"{options.out}: graph {graph.name}")
        for what, side in (("input", inputs), ("output", outputs)):
            for port in side:
                shape = "x".join(map(str, port.tensor.shape))
                output.print_result(f"  {what} {port.name}: {port.dtype} {shape}")
    if made.reference:
        output.print_note(f"  the model names {made.reference}, relative to its own folder: keep them together")
    model = shlex.quote(str(options.out))
    output.print_next(f"`udogen inspect {model}` shows it; udogen.onnx.ort.session opens it")


_LINE = "Prepare ONNX models for custom ops and context binaries."


@click.group("onnx", cls=LazyGroup, rows={}, path="onnx ", short_help=_LINE)
def onnx() -> None:
    """Example: udogen onnx schema scale/Scale.xml -o schemas.onnx

    Prepare ONNX models for custom ops and context binaries.
    """
