"""Contexts whose graphs a function computes instead of the runtime: a Python reference, or another runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.opdef.problems import suggestion
from udogen.qnn import abi
from udogen.qnn.handles import ContextHandle, GraphHandle, ProfileHandle
from udogen.qnn.interface import Interface
from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

Compute = Callable[[str, Mapping[str, "Array"]], Mapping[str, "Array"]]  # (graph, its inputs) -> its outputs, as stored


@dataclass(frozen=True)
class ComputedContext:
    """Restored by `Runtime.restore` in place of a binary: a description, and the function that computes its graphs."""

    name: str
    info: BinaryInfo
    compute: Compute


class ComputedHandle(ContextHandle):
    """The handle of a computed context, which does not exist in the runtime."""

    def __init__(self, interface: Interface, computed: ComputedContext) -> None:
        super().__init__(interface, object())
        self._computed = computed

    def close(self) -> None:
        """Forget it; the runtime has nothing to free."""
        self.raw = None

    def retrieve(self, name: str) -> GraphHandle:
        """A graph that the function computes."""
        return _ComputedGraph(self.interface, self._computed, self._computed.info.graph(name))

    def binary(self) -> bytes:
        """Always raises: there is no binary."""
        raise RunFailed(
            f"context {self._computed.name} is computed by a function: it has no binary", hint="save the original"
        )


class _ComputedGraph(GraphHandle):
    def __init__(self, interface: Interface, computed: ComputedContext, info: GraphInfo) -> None:
        super().__init__(interface, None, info.name)
        self._computed, self._info = computed, info

    def call(
        self, inputs: Any, outputs: Any, *, counts: tuple[int, int], profile: ProfileHandle | None = None
    ) -> tuple[Callable[..., int], tuple[Any, ...]]:
        """The function that executes the graph, and its arguments."""
        return self._execute, (inputs, outputs)

    def start(self, args: Any, done: Callable[[int], None]) -> None:
        """Always raises: it cannot be executed asynchronously."""
        raise RunFailed(
            f"graph `{self.name}` is computed by a function: not asynchronously", hint="call `execute` instead"
        )

    def _execute(self, inputs: Any, outputs: Any) -> int:
        import numpy as np

        given = {info.name: _array(inputs[index], info) for index, info in enumerate(self._info.inputs)}
        made = self._computed.compute(self.name, given)
        for index, info in enumerate(self._info.outputs):
            if info.name not in made:
                raise RunFailed(
                    f"what computes graph `{self.name}` of {self._computed.name} returns no `{info.name}`",
                    hint=suggestion(info.name, made, f"it returns: {', '.join(made) or 'nothing'}"),
                )
            shape = made[info.name].shape
            if any(info.dynamic) and info.takes(shape):
                for axis, size in enumerate(shape):
                    outputs[index].v1.dimensions[axis] = size
            np.copyto(_array(outputs[index], info), made[info.name], casting="no")
        return 0


def _array(tensor: Any, info: TensorInfo) -> Array:
    """The memory that a tensor is bound to."""
    import numpy as np  # not needed by runtimes that only restore binaries

    from udogen.runtime.contexts.arrays import layout

    shape, dtype = layout(info)
    if any(info.dynamic):
        shape = tuple(tensor.v1.dimensions[axis] for axis in range(len(info.shape)))
    memory = abi.ffi().buffer(tensor.v1.clientBuf.data, prod(shape) * dtype.itemsize)
    found: Array = np.frombuffer(memory, dtype).reshape(shape)
    return found
