"""Runs a kernel in Python on arrays in this process, compiled by Halide for this machine when it is first called."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import halide as hl
import numpy as np

from udogen.errors import UdogenError, UsageError
from udogen.kernels import Rows, View, Whole, hvx
from udogen.kernels.algorithm import schedule
from udogen.kernels.kernel_file import TAKEN, Algorithm, Kernel, Way, algorithm_of
from udogen.kernels.mistakes import refused
from udogen.kernels.objects import PythonKernels, request_of
from udogen.kernels.request import MACHINES, KernelVariant
from udogen.kernels.signature import KernelSignature, Shape

_MACHINES = {"x86_64": "x86_64-linux-clang", "aarch64": "aarch64-linux-gnu"}
_OUTSIDE = re.compile(r"(?:Input|Output) buffer (\w+) is (accessed at \S+?), which is (.*)", re.DOTALL)

Values = Mapping[str, Any]


@dataclass(frozen=True)
class CompiledPipeline:
    """A kernel's function for some types."""

    made: Algorithm
    pipeline: Any
    target: Any


@dataclass
class JitKernel:
    """The functions of a kernel for this machine."""

    signature: KernelSignature
    function: Callable[..., Any]
    compiled: dict[KernelVariant, CompiledPipeline] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found, file = self.signature, Path(self.signature.file)
        machine = _MACHINES.get(platform.machine())
        if machine is None:
            raise UsageError(
                f"kernels in Python are not compiled for {platform.machine()}", hint=f"run on {' or '.join(_MACHINES)}"
            )
        kernels = PythonKernels("jit", file.parent, "cpu", "qnn", (), (file,))
        request = request_of(kernels, found.op, file, machine)
        self.request = replace(request, file=found.file, machine=MACHINES[machine])
        parts = {found.op.name: self.function, "schedule": self.function.__globals__.get("schedule")}
        self.kernel = Kernel(self.request, SimpleNamespace(**parts))

    def run(self, arrays: Values, types: Mapping[str, str], params: Values, quants: Values) -> None:
        """Run the function on inputs and outputs, stored as these types."""
        views = dict(zip(types, self.kernel.views, strict=True))
        axes = {name: _axis(view, params, arrays[name].ndim) for name, view in views.items() if name in arrays}
        last = all(axis in (None, arrays[name].ndim - 1) for name, axis in axes.items())
        variant = KernelVariant(tuple(stored if name in arrays else "" for name, stored in types.items()), last)
        if variant not in self.compiled:
            self.compiled[variant] = self._compile(variant)
        found = self.compiled[variant]
        for name, param in found.made.scalars.items():
            param.set(float(params[name]) if self.request.scalars[name] == "f32" else int(params[name]))
        for name, tensor in found.made.tensors.items():
            if tensor.is_quantized:
                tensor.scale.set(float(quants[name][0]))
                tensor.offset.set(int(quants[name][1]))
        buffers = {name: hl.Buffer(_seen(array, views[name], axes[name], last=last)) for name, array in arrays.items()}
        for each in found.made.inputs:
            each.buffer.set(buffers[each.name])
        try:
            found.pipeline.realize([buffers[each.name] for each in found.made.outputs], found.target)
        except hl.HalideError as fault:
            raise self._outside(str(fault)) from fault

    def _compile(self, variant: KernelVariant) -> CompiledPipeline:
        kernel, machine = self.kernel, self.request.machine
        target = hl.Target(f"{machine.target}-strict_float-jit")
        try:
            with hvx.replaced(kernel.names, self.request.file):
                made = algorithm_of(kernel, variant, Way(machine.target, machine.vector // 4))
                if any(axis.name() in TAKEN for each in made.outputs for axis in each.func.args()):
                    made = algorithm_of(kernel, variant, Way(machine.target, 1))  # made before, outside of functions
                own = kernel.has_scheduled(made.place, made.tensors)
            for tensor in made.outputs:
                schedule(tensor, made.place, own=own)
                for update in range(tensor.func.num_update_definitions()):
                    tensor.func.update(update).unscheduled()  # without a warning
            pipeline = hl.Pipeline([tensor.func for tensor in made.outputs])
            made.promise_bounds(aligned=False)
            pipeline.compile_jit(target)
        except UdogenError:
            raise
        except Exception as fault:
            raise refused(kernel, fault, f"while {self.request.op}() was compiled for this machine") from fault
        return CompiledPipeline(made, pipeline, target)

    def _outside(self, text: str) -> UsageError:
        found = _OUTSIDE.search(text)
        if found is None:
            return UsageError(f"{self.signature.where}: {text.strip().removeprefix('Error: ')}", hint="fix the kernel")
        lines = sorted(self.kernel.uses.get(found[1], {self.signature.line: False}))
        return UsageError(
            f"{self.signature.file}:{lines[0]}: `{found[1]}` is {found[2]}, which is {found[3].strip()}",
            hint='name axes of the same length, as in x: Rows(shape="n k"), gain: Flat("k"), or clamp the index',
        )


def _axis(view: View, params: Values, rank: int) -> int | None:
    """The axis of rows; None for other views."""
    if not isinstance(view, Rows):
        return None
    axis = int(params[view.axis] if isinstance(view.axis, str) else view.axis)
    if not -rank <= axis < max(rank, 1):
        raise UsageError(f"there is no axis {axis} in a tensor of {rank} axes", hint="-1 is the last one")
    return axis % max(rank, 1)


def _seen(array: Any, view: View, axis: int | None, *, last: bool) -> Any:
    """An array with the axes that Halide sees; outputs are written through it."""
    if array.dtype == np.float16:
        array = array.view(np.uint16)
    elif array.dtype == bool:
        array = array.view(np.uint8)
    shape: Shape = array.shape
    if isinstance(view, Whole):
        return array.reshape((1,) * (view.rank - array.ndim) + shape)
    if axis is None:
        return array.reshape(-1)
    length = shape[axis] if shape else 1
    return array.reshape(-1, length) if last else array.reshape(prod(shape[:axis]), length, prod(shape[axis + 1 :]))
