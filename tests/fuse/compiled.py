"""Kernels of single nodes, compiled for x86-64 into one library by the worker of `udogen build`, and called from it."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from tests.onnx_models import model
from udogen.build import elf
from udogen.kernels import worker
from udogen.kernels.request import MACHINES, KernelVariant, Request, TensorPort
from udogen.onnx.fuse.subgraph import SourceModel
from udogen.onnx.fuse.write import FusedOp, fused_op, kernel_text, reference_model

MACHINE = MACHINES["x86_64-linux-clang"]
_STORED = {"float32": "f32", "int32": "i32", "uint8": "u8"}


@dataclass(frozen=True, eq=False)
class Node:
    """A node with its inputs; `constants` are part of the model, the others are computed."""

    op: str
    inputs: Sequence[Any]  # arrays; None for an omitted input
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Sequence[int] = ()
    opset: int = 17
    outputs: int = 1

    def source(self) -> SourceModel:
        """Return a model of this node alone."""
        names = [f"x{place}" if array is not None else "" for place, array in enumerate(self.inputs)]
        arrays = {name: np.asarray(array) for name, array in zip(names, self.inputs, strict=True) if name}
        fixed = {f"x{place}" for place in self.constants}
        outputs = [f"y{place}" for place in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, name="node", **self.attributes)
        inputs = {name: array.shape for name, array in arrays.items() if name not in fixed}
        types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()}
        constants = {name: arrays[name] for name in arrays if name in fixed}
        shapes, kinds = dict.fromkeys(outputs), types | dict.fromkeys(outputs, 0)
        made = model([node], inputs, shapes, constants, opset=self.opset, types=kinds, ir_version=8)
        return SourceModel(made, "node.onnx", {})

    def feeds(self) -> dict[str, Any]:
        """Return the computed inputs, by name."""
        rows = enumerate(self.inputs)
        return {f"x{n}": np.asarray(each) for n, each in rows if each is not None and n not in self.constants}


@dataclass(frozen=True)
class Compiled:
    """An op of one node, its reference, and the name of its function in the library."""

    op: FusedOp
    reference: bytes
    function: str


def compile_node(node: Node, name: str, folder: Path) -> Compiled:
    """Write the kernel of a node and compile it into an object file."""
    return compile_nodes(node.source(), "node", node.feeds(), name, folder)


def compile_nodes(source: SourceModel, nodes: str, feeds: Mapping[str, Any], name: str, folder: Path) -> Compiled:
    """Do the same for several nodes of a model."""
    op = fused_op(name, source.file, source.subgraph(source.select(nodes), feeds))
    file = folder / f"{name}.py"
    file.write_text(kernel_text(op))
    ports = [
        TensorPort(port.name, is_output, (_STORED[port.dtype],), False)
        for is_output, ports in ((False, op.inputs), (True, op.outputs))
        for port in ports
    ]
    request = Request(str(file), name, name, tuple(ports), {}, MACHINE)
    worker._run(request, folder)
    variant = KernelVariant(tuple(port.types[0] for port in ports))
    return Compiled(op, reference_model(op, source), variant.name(name))


def link(folder: Path) -> ctypes.CDLL:
    """Link all object files into one library; none of them may allocate heap memory."""
    library, errors = folder / "all.so", folder / "errors.c"
    objects = sorted(map(str, folder.glob("*.o")))
    subprocess.run(["g++", "-shared", "-o", str(library), *objects, "-Wl,--unresolved-symbols=ignore-all"], check=True)
    missing = sorted(each.name for each in elf.read(library).imports if each.name.startswith("halide_"))
    assert not {"halide_malloc", "halide_free"} & set(missing)
    errors.write_text("".join(f"int {name}(void) {{ return -1; }}\n" for name in missing))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(errors), *objects, "-lm"], check=True)
    return ctypes.CDLL(str(library))


class _Dim(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("min", "extent", "stride", "flags")]


class _Buffer(ctypes.Structure):
    """`halide_buffer_t`."""

    _fields_ = [
        ("device", ctypes.c_uint64),
        ("device_interface", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("dimensions", ctypes.c_int32),
        ("dim", ctypes.POINTER(_Dim)),
        ("padding", ctypes.c_void_p),
    ]


def _buffer(array: Any, flat: bool) -> tuple[_Buffer, Any]:
    shape = (array.size,) if flat else array.shape
    dims = (_Dim * len(shape))()
    stride = 1
    for place, extent in enumerate(reversed(shape)):
        dims[place] = _Dim(0, extent, stride, 0)
        stride *= extent
    code = {"i": 0, "u": 1, "f": 2}[array.dtype.kind]
    raw = _Buffer(0, None, array.ctypes.data, 0, code, array.itemsize * 8, 1, len(shape), dims, None)
    return raw, (array, dims)


def call(library: ctypes.CDLL, compiled: Compiled) -> dict[str, Any]:
    """Return the outputs of the op for the inputs of its node in the model."""
    op = compiled.op
    arrays = [np.ascontiguousarray(op.part.values[port.value].astype(port.dtype)) for port in op.inputs]
    outputs = {port.name: np.zeros(port.shape, port.dtype) for port in op.outputs}
    buffers = [_buffer(each, op.flat) for each in (*arrays, *outputs.values())]
    function = getattr(library, compiled.function)
    code = function(None, *(ctypes.byref(raw) for raw, _ in buffers))
    assert code == 0, (op.name, code)
    return outputs
