"""Counts packets of a kernel in Python: executes each of its functions under `qemu-hexagon`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from udogen.configs.load import load
from udogen.errors import UsageError
from udogen.generate.pipeline import GenerateOptions, generate
from udogen.kernels.explain import FunctionCode
from udogen.opdef.datatypes import DataType, parse
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.problems import Problems
from udogen.runtime.built import Built, find_source
from udogen.runtime.hexagon.session import HexagonSession
from udogen.runtime.op.calls import Array
from udogen.runtime.op.request import CallOptions, make_call

_Shapes = Mapping[str, tuple[int, ...]]
_ARCHS = {"emulated-v68": "v68", "hexagon-v66": "v66"}  # of the machines whose code QEMU runs
_SCALES = {8: (0.05, -128), 16: (0.0002, -32000)}  # (scale, offset) of fixed point, by number of bits


@dataclass(frozen=True)
class PacketCount:
    """The packets of one execution."""

    machine: str
    types: Mapping[str, str]  # of each tensor, as configs name it
    functions: Mapping[str, int]  # by executed function of the kernel
    total: int  # including code around the functions


def count_packets(
    file: Path, configs: Sequence[Path], codes: Sequence[FunctionCode], shapes: _Shapes
) -> list[PacketCount]:
    """Execute each combination of types that QEMU can run, with random tensors of these shapes."""
    packages, problems = load(configs)
    package, op = next((each, op) for each in packages for op in each.ops if op.name == file.stem)
    missing = [each.name for each in op.inputs if each.mandatory and each.name not in shapes]
    if missing:
        raise UsageError(
            f"{op.name} is not executed: the shape of `{missing[0]}` is missing", hint="--shape NAME=2x3x4"
        )
    found: list[PacketCount] = []
    for machine, arch in _ARCHS.items():
        functions = [code for code in codes if code.machine == machine]
        if functions:
            with tempfile.TemporaryDirectory() as folder:
                built = _generated(Path(folder), file, package.with_ops((op,)), functions[0].backend, problems)
                found += _executed(built, op.name, machine, arch, functions, shapes)
    return found


def _generated(folder: Path, file: Path, package: OpPackage, backend: str, problems: Problems) -> Built:
    """Generate the package with this kernel."""
    kernels = folder / "kernels"
    kernels.mkdir()
    shutil.copy(file, kernels)
    options = GenerateOptions(folder / "out", backends=(backend,), kernels=kernels, layout="qnn")
    [made] = generate([package], options, problems)
    return find_source(made.folder, backend=backend)


def _executed(
    built: Built, name: str, machine: str, arch: str, functions: Sequence[FunctionCode], shapes: _Shapes
) -> Iterator[PacketCount]:
    """Execute once each combination of types that these functions are for."""
    op = built.op(name, functions[0].backend)
    assert built.folder is not None and op is not None
    session = HexagonSession(built.folder, arch=arch, count=True)
    names = {code.name for code in functions}
    for types in dict.fromkeys(tuple(code.types.items()) for code in functions):
        packets = session.run(make_call(op, built, name, _options(op, dict(types), shapes))).packets
        assert packets is not None
        executed = {name: count for name, count in packets.functions if name in names}
        yield PacketCount(machine, dict(types), executed, packets.total)


def _options(op: Op, types: Mapping[str, str], shapes: _Shapes) -> CallOptions:
    """Random inputs of these types."""
    tensors = {each.name: each for each in (*op.inputs, *op.outputs) if types.get(each.name)}
    rows = {name: parse(types[name]) for name in tensors}
    quantized = {name: row for name, row in rows.items() if row is not None and row.quantized}
    return CallOptions(
        inputs={each.name: _random(rows[each.name], shapes[each.name]) for each in op.inputs if each.name in rows},
        quants={name: _SCALES[row.bits] for name, row in quantized.items()},
        dtypes=dict(types),
        shapes={each.name: shapes[each.name] for each in op.outputs if each.name in shapes},
    )


def _random(row: DataType | None, shape: tuple[int, ...]) -> Array:
    assert row is not None
    random = np.random.default_rng(0)
    if row.kind == "float":
        return random.normal(size=shape).astype(row.numpy)
    if row.bits > 16:  # perhaps an index
        return np.zeros(shape, row.numpy)
    low, high = row.range() or (0, 1)
    return random.integers(low, high + 1, shape).astype(row.numpy)
