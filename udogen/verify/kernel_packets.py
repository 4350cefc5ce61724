"""Counts packets of a kernel in Python: each of its functions that QEMU executes, on some inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen import resources
from udogen.build.package import no_say
from udogen.configs.load import load
from udogen.errors import UsageError
from udogen.generate.pipeline import GenerateOptions, generate
from udogen.kernels.request import type_combinations
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Tensor
from udogen.runtime.built import Built, find_source
from udogen.runtime.hexagon.session import HexagonSession
from udogen.runtime.op.request import CallOptions, make_call
from udogen.verify.test_files import values

if TYPE_CHECKING:
    from udogen.kernels.signature import Shape

_INDEX = values.Fill("integers", (0.0, 3.0))  # of integers of 32 bits, which may be indices
_RANGE = (-6.0, 6.0)  # of outputs in fixed point

Arrays = Mapping[str, Any]
Quants = Mapping[str, tuple[float, int]]
Types = Mapping[str, DataType]


@dataclass(frozen=True)
class KernelCall:
    """Arrays by name, of inputs that are present; parameters; the shapes of outputs, as far as known."""

    inputs: Arrays
    params: Mapping[str, Any]
    shapes: Mapping[str, Shape]


def type_rows(tensors: Sequence[Tensor]) -> list[dict[str, DataType]]:
    """The types of each function of a kernel: tensors that allow the same types have the same one."""
    rows = type_combinations([tensor.datatypes for tensor in tensors])
    return [dict(zip(_names(tensors), row, strict=True)) for row in rows]


def drawn(row: DataType, shape: Shape, random: Any) -> Any:
    """Random real numbers, or integers."""
    fill = _INDEX if row.integral and row.bits > 16 else values.default_fill(row)
    return values.draw(fill, dtype=row, shape=shape, random=random, quant=None)


def stored(arrays: Arrays, types: Types) -> tuple[dict[str, Any], dict[str, tuple[float, int]]]:
    """Real numbers as these types store them, and the scales and offsets of fixed point."""
    quants = {
        name: values.quant_for(*values.finite_range(array), types[name])
        for name, array in arrays.items()
        if types[name].quantized
    }
    return {name: values.store(array, types[name], quants.get(name)) for name, array in arrays.items()}, quants


def packets_of(
    file: Path,
    configs: Sequence[Path],
    call: KernelCall,
    *,
    arch: str = "",
    on_step: Callable[[str], None] = no_say,
) -> dict[str, int]:
    """The packets of the kernel in one execution under QEMU, by types; the op is named like the kernel's file.

    Functions of floats are left out: QEMU has no HVX floating point, and what runs there is not what a device gets.
    """
    built = _generated(file, configs)
    op = built.op(file.stem, "htp")
    assert op is not None and built.folder is not None
    rows = [
        row for row in type_rows([*op.inputs, *op.outputs]) if not any(each.kind == "float" for each in row.values())
    ]
    if not rows:
        raise UsageError(
            f"{file}: QEMU has no HVX floating point, so the packets of {op.name} in floats are not those of a device",
            hint='let a tensor be fixed point: types="FLOAT_32,UFIXED_POINT_8"',
        )
    session = HexagonSession(built.folder, arch=arch, count=True, on_step=on_step)
    found = {}
    for row in rows:
        arrays, quants = stored(call.inputs, row)
        quants |= {
            tensor.name: values.quant_for(*_RANGE, row[tensor.name])
            for tensor in op.outputs
            if row[tensor.name].quantized
        }
        name = ", ".join(dict.fromkeys(each.name for each in row.values()))
        on_step(f"QEMU {op.name} {name}")
        dtypes = {tensor: row[tensor].name for tensor in (*arrays, *_names(op.outputs))}
        options = CallOptions(arrays, call.params, quants, dtypes, call.shapes)
        packets = session.run(make_call(op, built, op.name, options)).packets
        assert packets is not None
        own = f"{built.package}_{op.name}_"
        found[name] = sum(count for function, count in packets.functions if function.startswith(own))
    return found


def of_shapes(file: Path, configs: Sequence[Path], shapes: Mapping[str, Shape]) -> KernelCall:
    """A call with random inputs of these shapes, which are those of all inputs, and maybe of outputs."""
    packages, _ = load(configs)
    op = next(each for package in packages for each in package.ops if each.name == file.stem)
    missing = [tensor.name for tensor in op.inputs if tensor.mandatory and tensor.name not in shapes]
    if missing:
        raise UsageError(f"the shape of `{missing[0]}` is missing", hint=f"--shape {missing[0]}=1x8x8x16")
    random = np.random.default_rng(0)
    inputs = {
        tensor.name: drawn(_drawable(tensor), shapes[tensor.name], random)
        for tensor in op.inputs
        if tensor.name in shapes
    }
    return KernelCall(inputs, {}, {name: shapes[name] for name in _names(op.outputs) if name in shapes})


def _drawable(tensor: Tensor) -> DataType:
    return next((datatype for datatype in tensor.datatypes if datatype.kind == "float"), tensor.datatypes[0])


def _names(tensors: Iterable[Tensor]) -> list[str]:
    return [tensor.name for tensor in tensors]


def _generated(file: Path, configs: Sequence[Path]) -> Built:
    """The package of the op for Hexagon, in the cache."""
    packages, findings = load(configs)
    package = next(each for each in packages if file.stem in [op.name for op in each.ops])
    key = resources.content_key(bytes(file.resolve()), *(path.read_bytes() for path in (file, *configs)))
    folder = resources.cache_dir("kernels") / f"packets-{key}"
    ops = tuple(op for op in package.ops if op.name == file.stem)
    options = GenerateOptions(folder, backends=("htp",), kernels=file.parent, layout="qnn")
    [made] = generate([package.with_ops(ops)], options, findings)
    return find_source(made.folder, backend="htp")
