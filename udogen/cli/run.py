"""`udogen run op`: one op of a built package in the real runtime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from udogen.cli import output
from udogen.errors import UsageError

if TYPE_CHECKING:
    from udogen.runtime.calls import Array, OpResult


@click.group("run")
def command() -> None:
    """Run what was built in the real QNN runtime."""


@command.command("op")
@click.argument("library", type=click.Path(path_type=Path))
@click.argument("op")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE.npy",
    help="An input; `NAME.0`, `NAME.1` … for a repeated one.",
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter: 0.5, true, [1, 2], a text, or @FILE.npy.",
)
@click.option("--output", "outputs", multiple=True, metavar="NAME=FILE.npy", help="Where an output is saved.")
@click.option(
    "--quant",
    "quants",
    multiple=True,
    metavar="NAME=SCALE,OFFSET",
    help="Quantization: real = SCALE * (stored + OFFSET).",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=2x3x4",
    help="The shape of an output (default: that of the first input).",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    metavar="NAME=TYPE",
    help="The data type of a tensor or parameter, where several fit.",
)
@click.option("--backend", default="cpu", metavar="NAME", help="The backend to run on (cpu).")
@click.option(
    "--qnn-lib",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The runtime library (default: QNN_SDK_ROOT, then the wheel).",
)
@click.option("--provider", default="", metavar="SYMBOL", help="The interface provider (default: the only one).")
@click.option(
    "--loops", type=click.IntRange(min=1), default=1, metavar="N", help="Execute N times; the median time is told."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop an op that does not come back.",
)
@click.option("--save-context", type=click.Path(path_type=Path), metavar="FILE", help="Save the finalized graph here.")
@click.option("--context", type=click.Path(path_type=Path), metavar="FILE", help="Restore what --save-context saved.")
@click.option("--force", is_flag=True, help="Run a package that is built for another release of the SDK.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the runtime and the package log.")
@output.json_option
def run_op(
    library: Path,
    op: str,
    inputs: tuple[str, ...],
    params: tuple[str, ...],
    outputs: tuple[str, ...],
    quants: tuple[str, ...],
    shapes: tuple[str, ...],
    dtypes: tuple[str, ...],
    backend: str,
    qnn_lib: Path | None,
    provider: str,
    loops: int,
    timeout: float | None,
    save_context: Path | None,
    context: Path | None,
    force: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Register LIBRARY (a library, or the folder of a package), make a graph of the one op OP, and execute it.

    The op runs in a child process: whatever it does, you get a sentence.
    """
    from udogen.runtime.built import find_built
    from udogen.runtime.request import Wishes, make_call
    from udogen.runtime.session import OpSession

    files = dict(_pairs(outputs, "--output"))
    built = find_built(library, backend=backend, provider=provider)
    wishes = Wishes(
        inputs={name: _array(file) for name, file in _pairs(inputs, "--input")},
        params={name: _array(v[1:]) if v.startswith("@") else v for name, v in _pairs(params, "--param")},
        quants={name: _quant(name, text) for name, text in _pairs(quants, "--quant")},
        dtypes=dict(_pairs(dtypes, "--dtype")),
        shapes={name: _shape(name, text) for name, text in _pairs(shapes, "--shape")},
        outputs=tuple(files),
        loops=loops,
    )
    with OpSession(
        built.library, built.provider, backend=backend, runtime=qnn_lib, timeout=timeout, force=force
    ) as session:
        operations = session.package.operations
        known = built.op(op, backend) if op in operations or not operations else None
        call = make_call(known, built, op, wishes)
        call = replace(call, context=_content(context), save_context=save_context is not None)
        result = session.run(call)
    if verbose:
        for line in result.logs:
            output.note(f"[{line.source} {line.level}] {line.text}")
    if save_context is not None and result.context is not None:
        with _written(save_context) as stream:
            stream.write(result.context)
    saved = {name: _save(files[name], array) for name, array in result.outputs.items() if name in files}
    _tell(op, backend, built.package, result, saved, as_json=as_json)


def _tell(op: str, backend: str, package: str, result: OpResult, saved: dict[str, str], *, as_json: bool) -> None:
    times, runtime = result.times, result.runtime
    if as_json:
        output.answer(
            {
                "ok": True,
                "op": op,
                "package": package,
                "backend": backend,
                "runtime": {"name": runtime.name, "build_id": runtime.build_id, "path": runtime.path},
                "outputs": {
                    name: {
                        "dtype": str(array.dtype),
                        "shape": list(array.shape),
                        "file": saved.get(name),
                        **({} if name in saved or array.size > 4096 else {"data": array.tolist()}),
                    }
                    for name, array in result.outputs.items()
                },
                "seconds": {"create": times.create, "finalize": times.finalize, "execute": times.execute},
            }
        )
        return
    output.say(f"{package}::{op} ran on {runtime.name} ({runtime.build_id}), {times.execute * 1e6:.1f} µs per execute")
    for name, array in result.outputs.items():
        shape = "x".join(str(extent) for extent in array.shape) or "scalar"
        span = f", {array.min():.6g} … {array.max():.6g}" if array.size and array.dtype.kind in "fiub" else ""
        file = f" -> {saved[name]}" if name in saved else ""
        output.say(f"  {name}: {array.dtype} {shape}{span}{file}")


def _content(file: Path | None) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError as fault:
        raise UsageError(f"{file} cannot be read: {fault.strerror}", hint="give a file of --save-context") from fault


@contextmanager
def _written(file: Path | str) -> Iterator[IO[bytes]]:
    try:
        with open(file, "wb") as stream:
            yield stream
    except OSError as fault:
        raise UsageError(f"cannot write {file}: {fault.strerror}", hint="choose another file") from fault


def _pairs(texts: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"{option} {text}: this is not NAME=VALUE", hint=f"as in {option} x=…")
        if name in found:
            raise UsageError(f"{option}: `{name}` is given twice", hint="give it once")
        found[name] = value
    return list(found.items())


def _array(file: str) -> Array:
    import numpy as np

    try:
        array: Array = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
        raise UsageError(f"{file} is no array that numpy can load: {reason}", hint="save it with numpy.save") from fault
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{file} holds several arrays", hint="save one array with numpy.save")
    return array


def _save(file: str, array: Array) -> str:
    import numpy as np

    with _written(file) as stream:
        np.save(stream, array)
    return file


def _quant(name: str, text: str) -> tuple[float, int]:
    scale, _, offset = text.partition(",")
    try:
        found = (float(scale), int(offset or "0"))
    except ValueError:
        raise UsageError(f"--quant {name}={text}: this is not SCALE,OFFSET", hint="as in --quant x=0.05,-128") from None
    if not 0 < found[0] < float("inf"):
        raise UsageError(f"--quant {name}={text}: the scale must be positive", hint="as in --quant x=0.05,-128")
    return found


def _shape(name: str, text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.replace(",", "x").split("x"))
    except ValueError:
        found = (0,)
    if any(extent < 1 for extent in found):
        raise UsageError(f"--shape {name}={text}: this is no shape", hint="as in --shape y=1x2x3")
    return found
