"""A graph of a context: bind its tensors once, or call it with arrays; arrays that fit are not copied."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError
from udogen.findings import unknown
from udogen.qnn import abi
from udogen.qnn.handles import GraphHandle, ProfileHandle
from udogen.qnn.system import GraphInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor
from udogen.runtime import arguments
from udogen.runtime.buffers.buffer import Bindable
from udogen.runtime.contexts.binding import TensorBinding

if TYPE_CHECKING:
    from concurrent.futures import Future

    from udogen.runtime.buffers.domains import Access
    from udogen.runtime.contexts.context import Context
    from udogen.runtime.op.calls import Array


Lent = Sequence[tuple[TensorBinding, Any]]  # tensors, with an array for each


class Outputs(dict[str, Any]):
    """The outputs of an execution by name, as stored; `real` has their real numbers: `graph(x=x).real["y"]`."""

    __slots__ = ("_infos",)

    def __init__(self, stored: Mapping[str, Array], infos: Mapping[str, QnnTensor]) -> None:
        super().__init__(stored)
        self._infos = infos

    @property
    def real(self) -> dict[str, Array]:
        """The real numbers that the stored ones represent."""
        from udogen.runtime.contexts.arrays import dequantize  # with numpy

        return {name: dequantize(array, self._infos[name].quant) for name, array in self.items()}


class Graph:
    """An executable graph: bind its tensors once, or call it with arrays.

    Several threads may use it: its executions take turns.

    `outputs = context.graph("step")(x=x)`
    """

    def __init__(
        self, context: Context, handle: GraphHandle, info: GraphInfo, *, profile: ProfileHandle | None = None
    ) -> None:
        ffi = abi.ffi()
        self.context, self.info, self.name = context, info, info.name
        self.inputs: tuple[QnnTensor, ...] = info.inputs
        self.outputs: tuple[QnnTensor, ...] = info.outputs
        self.copied = 0  # bytes that calls have copied, because an array did not fit unchanged
        self._handle = handle
        arrays = [ffi.new("Qnn_Tensor_t[]", max(len(side), 1)) for side in (self.inputs, self.outputs)]
        self._ins = [TensorBinding(tensor, APP_WRITE, arrays[0], i) for i, tensor in enumerate(self.inputs)]
        self._outs = [TensorBinding(tensor, APP_READ, arrays[1], i) for i, tensor in enumerate(self.outputs)]
        self._dynamic = tuple(binding for binding in (*self._ins, *self._outs) if binding.is_dynamic)
        self._bindings = {binding.info.name: binding for binding in (*self._outs, *self._ins)}
        self._infos = {tensor.name: tensor for tensor in self.outputs}
        self._arrays = arrays
        self._call, self._args = handle.call(*arrays, counts=(len(self.inputs), len(self.outputs)), profile=profile)
        self._lock = handle.one_at_a_time
        self._guarded: tuple[TensorBinding, ...] = ()  # whose memory takes part in executions
        self._ready = False  # open, and every tensor is bound
        self._missing = {*self._ins, *self._outs}  # tensors that are not bound
        self._open = True
        self._executed = False  # at its largest size, if it has dynamic dimensions

    def __repr__(self) -> str:
        tensors = ", ".join(
            f"{binding.info.name} {binding.info.dtype} {list(binding.info.shape)}{' (bound)' if binding.bound else ''}"
            for binding in (*self._ins, *self._outs)
        )
        return f"<Graph {self.name} of context {self.context.name}: {tensors if self._open else 'closed'}>"

    # --- bound once, executed often ---------------------------------------------------------------------------------

    def bind(self, places: Mapping[str, Array | Bindable | bytearray | memoryview]) -> None:
        """Bind tensors to arrays (of their type and shape) or to anything with `attach`, until bound again."""
        hint = 'give a dict: {"tensor": an array or a buffer}'
        arguments.mapping(places, f"the argument of `bind` of graph `{self.name}`", hint=hint)
        with self._lock:
            self._check_open()
            try:
                for name, place in places.items():
                    self.binding(name).bind(self, place)
            finally:
                self._update_state()

    def bind_both(self, places: Mapping[str, tuple[Bindable, Bindable]]) -> tuple[TensorBinding, ...]:
        """Bind tensors to the first of two places each, which `flip` exchanges."""
        bindings = tuple(map(self.binding, places))
        with self._lock:
            self._check_open()
            try:
                for binding, (place, other) in zip(bindings, places.values(), strict=True):
                    binding.bind_both(self, place, other)
            finally:
                self._update_state()
        return bindings

    def flip(self, bindings: Sequence[TensorBinding]) -> bool:
        """Exchange the two places of tensors; False if one of them was freed or bound again meanwhile."""
        with self._lock:
            for binding in bindings:
                if not binding.flip():
                    return False
            return self._open

    def unbind(self, names: Sequence[str] | None = None) -> None:
        """Unbind these tensors, or all; they must be bound again before the graph runs.

        Shared memory that no tensor uses any more is deregistered.
        """
        with self._lock:
            graph = [self.binding(name) for name in (self._bindings if names is None else names)]
            parts = [part for binding in graph if (part := binding.clear()) is not None]
            self._update_state()
        if parts:
            self.context.registrations.release_unused(parts)

    def release(self, binding: TensorBinding) -> None:
        """Unbind memory that its owner frees, after a running execution."""
        with self._lock:
            if not binding.bound:
                binding.clear()
            self._update_state()

    def _update_state(self) -> None:
        every = (*self._ins, *self._outs)
        self._guarded = tuple(binding for binding in every if binding.guarded)
        self._missing = {binding for binding in every if not binding.bound}
        self._ready = self._open and not self._missing

    def binding(self, name: str) -> TensorBinding:
        """One tensor and its binding."""
        arguments.expect(name, str, f"the name of a tensor of graph `{self.name}`", "its name")
        binding = self._bindings.get(name)
        if binding is None:
            raise unknown(f"graph `{self.name}` has no tensor", name, self._bindings)
        return binding

    def array(self, name: str) -> Array:
        """The bound memory of a tensor as an array."""
        return self.binding(name).array()

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor in the last execution, where its graph leaves dimensions open: `graph.shape("y")`."""
        return self.binding(name).shape

    def execute(self, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        """Execute it on the bound memory.

        `shapes` are those of inputs with dynamic dimensions in this call: `graph.execute({"x": (1, 4)})`.  Other inputs
        have their largest shape.  The elements of a smaller shape are at the beginning of the bound memory.
        """
        if shapes is not None:
            arguments.mapping(shapes, f"the shapes of graph `{self.name}`", hint='give a dict: {"x": (1, 4)}')
        with self._lock:
            if not self._ready:
                self._refuse()
            if not self._dynamic and not shapes:
                self._run()
                return
            self._execute_largest()
            self._size(shapes or {})
            self._run()
        self._check_sizes()

    def execute_async(self) -> Future[None]:
        """Execute it on the bound memory without waiting for the end, only for an earlier execution of this graph."""
        from concurrent.futures import Future  # it imports logging: 5 ms that few programs need to spend

        future: Future[None] = Future()
        entered: list[Access] = []
        began = monotonic()

        def done(code: int) -> None:
            try:
                _leave(entered, [code])
            finally:
                self._lock.release()
                if code:
                    future.set_exception(self._handle.interface.error("graphExecuteAsync", code, began))
                else:
                    future.set_result(None)

        if not self.context.runtime.asynchronous:
            raise RunFailed(
                f"{self.context.runtime.name} does not execute graphs asynchronously",
                hint="call `execute` in another thread",
            )
        self._lock.acquire()
        try:
            if not self._ready:
                self._refuse()
            self._enter(entered)
            future.set_running_or_notify_cancel()
            self._handle.start(self._args, done)
        except BaseException:
            _leave(entered, [])
            self._lock.release()
            raise
        return future

    def prepared(self) -> tuple[Callable[..., int], tuple[Any, ...]]:
        """The C function that executes it on the bound memory, and its arguments, for calls without any checks."""
        with self._lock:
            if not self._ready:
                self._refuse()
        return self._call, self._args

    def zeros(self) -> dict[str, Array]:
        """An array of zeros for each input that is not bound."""
        return {binding.info.name: binding.zeros() for binding in self._ins if not binding.bound}

    # --- called with arrays -----------------------------------------------------------------------------------------

    def __call__(
        self, inputs: Mapping[str, Array] | None = None, /, *, out: Mapping[str, Array] | None = None, **named: Array
    ) -> Outputs:
        """Execute it on these arrays; bound tensors need none.  Returns the outputs that are not bound, by name.

        Arrays have the stored types (integers for a fixed-point tensor); those of `out` are written to.  The real
        numbers of the outputs: `graph(x=x).real["y"]`.
        """
        self._check_names(inputs)
        self._check_names(out)
        given = {**inputs, **named} if inputs else named
        results = dict(out) if out else {}
        borrowed: list[TensorBinding] = []
        with self._lock:
            if not self._open:
                self._check_open()
            if self._dynamic:
                self._execute_largest()
                self._size({})
            try:
                self._borrow(given, results, borrowed)
                if not self._missing.issubset(borrowed):
                    self._refuse(borrowed)
                if len(results) + len(given) > len(borrowed):
                    self._refuse_results(results)
                self._run(borrowed)
            finally:
                for binding in borrowed:
                    binding.end_borrowing()
        if self._dynamic:
            self._check_sizes()
            results = {name: self._bindings[name].written(array) for name, array in results.items()}
        return Outputs(results, self._infos)

    def lend(self, inputs: Lent, outputs: Lent) -> None:
        """Execute it on arrays for some tensors, which are as these store them; the others are bound."""
        borrowed = [binding for binding, _ in (*inputs, *outputs)]
        with self._lock:
            if not self._open or not self._missing.issubset(borrowed):
                self._refuse(borrowed)
            try:
                for binding, array in inputs:
                    self.copied += binding.lend(array)
                for binding, array in outputs:
                    binding.lend(array, into=True)
                self._run(borrowed)
            finally:
                for binding in borrowed:
                    binding.end_borrowing()

    def _refuse_results(self, results: Mapping[str, Array]) -> None:
        for name in results.keys() - {binding.info.name for binding in self._outs}:
            self.binding(name)
            raise UsageError(f"`{name}` is an input of graph `{self.name}`", hint="give its array without out={…}")

    def _check_names(self, arrays: Mapping[str, Array] | None) -> None:
        """Raise if this is not a mapping with names as keys; unknown names are reported when they are bound."""
        if arrays is not None and (arrays.__class__ is not dict or not self._bindings.keys() >= arrays.keys()):
            arguments.mapping(arrays, f"what graph `{self.name}` is given", hint='give arrays in a dict: {"tensor": …}')

    def _borrow(self, given: Mapping[str, Array], results: dict[str, Array], borrowed: list[TensorBinding]) -> None:
        """Bind tensors to the arrays of a call; outputs without an array get a new one in `results`."""
        for name, array in given.items():
            binding = self._bindings.get(name) or self.binding(name)
            if binding.role != APP_WRITE:
                raise UsageError(f"`{name}` is an output of graph `{self.name}`", hint="give its array with out={…}")
            borrowed.append(binding)
            self.copied += binding.borrow(array)
        for binding in self._outs:
            wanted = results.get(binding.info.name)
            if wanted is not None:
                binding.borrow(wanted, into=True)
            elif binding.bound:
                continue
            else:
                binding.borrow(results.setdefault(binding.info.name, binding.empty()), into=True)
            borrowed.append(binding)

    # --- around executions ------------------------------------------------------------------------------------------

    def _run(self, borrowed: Sequence[TensorBinding] = ()) -> None:
        """Execute it on the memory that its tensors are bound to, or have borrowed."""
        began = monotonic()
        code = self._call(*self._args) if not self._guarded else self._call_guarded(borrowed)
        if code:
            raise self._handle.interface.error("graphExecute", code, began)

    def _call_guarded(self, borrowed: Sequence[TensorBinding]) -> int:
        codes: list[int] = []  # the code it returned, for `Access.end`
        entered: list[Access] = []
        try:
            self._enter(entered, borrowed)
            codes.append(self._call(*self._args))
            for binding in self._dynamic:
                if codes == [0] and binding.role == APP_READ and binding.guarded and binding not in borrowed:
                    binding.access.announce(binding.shape)
        finally:
            _leave(entered, codes)
        return codes[0]

    def _execute_largest(self) -> None:
        """Execute a graph with dynamic dimensions on zeros of the largest size, before any other execution.

        libQnnCpu 2.47 allocates the memory between its ops in the first execution: a larger execution after it writes
        beyond that memory, and contextFree frees it twice if there was no execution.
        """
        if self._executed or self.context.runtime.emulator:
            return
        self._executed = True
        try:
            for binding in self._bindings.values():
                binding.borrow(binding.zeros(), into=binding.role != APP_WRITE)
            self._size({})
            self._call(*self._args)  # an error will show in the next execution
        finally:
            for binding in self._bindings.values():
                binding.end_borrowing()

    def _size(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Set the shapes of one execution; the default is the largest, until bound memory sets its own."""
        for name, shape in shapes.items():
            if self.binding(name).role != APP_WRITE:
                raise UsageError(f"`{name}` is an output of graph `{self.name}`", hint="the runtime sizes outputs")
            self.binding(name).resize(arguments.wholes(shape, f"the shape of `{name}`"))
        for binding in self._dynamic:
            if binding.info.name not in shapes:
                binding.resize(binding.info.shape)

    def _check_sizes(self) -> None:
        """Warn if all outputs have the largest size although an input was smaller.

        libQnnCpu 2.47 executes some ops at the full size: elements beyond the given ones are computed too.
        """
        outputs = [binding for binding in self._outs if binding.is_dynamic]
        smaller = [binding for binding in self._ins if binding.shape != binding.info.shape]
        if smaller and outputs and all(binding.shape == binding.info.shape for binding in outputs):
            names = ", ".join(f"`{binding.info.name}` {list(binding.shape)}" for binding in smaller)
            warnings.warn(
                f"{self.context.runtime.name} executed graph `{self.name}` at its largest size, though it was given "
                f"{names}: it may not size an op of it per call",
                stacklevel=3,
            )

    def _enter(self, entered: list[Access], borrowed: Sequence[TensorBinding] = ()) -> None:
        for binding in self._guarded:
            if binding not in borrowed:
                access = binding.access
                access.begin()
                entered.append(access)
                if binding.is_dynamic and (held := access.shape()) is not None:
                    binding.resize(held)

    def _refuse(self, borrowed: Sequence[TensorBinding] = ()) -> None:
        self._check_open()
        missing = [binding for binding in self._bindings.values() if not binding.bound and binding not in borrowed]
        if missing:
            names = ", ".join(f"`{binding.info.name}`" for binding in missing)
            why = dict.fromkeys(binding.why for binding in missing if binding.why)
            raise RunFailed(
                f"graph `{self.name}` has no memory for {names}" + (f": {'; '.join(why)}" if why else ""),
                hint="give an array for each input, or bind it",
            )

    def _check_open(self) -> None:
        if not self._open:
            self.context.runtime.check_process(f"graph `{self.name}`")
            raise RunFailed(f"graph `{self.name}` cannot be used: its context is closed", hint="use it before that")

    def close(self) -> None:
        """Wait for a running execution and refuse further ones, before the context is freed."""
        with self._lock:
            if self._dynamic and self._open:
                self._execute_largest()
            self._open = False
            for binding in self._bindings.values():
                binding.clear()
            self._update_state()

    def idle(self, within: float) -> bool:
        """Whether it is idle, or becomes so within this many seconds."""
        acquired = self._lock.acquire(timeout=within)
        if acquired:
            self._lock.release()
        return acquired

    def disown(self) -> None:
        """Disable it in a forked process, in which an execution of the parent never ends."""
        self._lock = threading.Lock()
        self._open = self._ready = False


def _leave(entered: Sequence[Access], codes: Sequence[int]) -> None:
    """End the accesses of an execution that returned these codes: none if it did not start."""
    for access in reversed(entered):
        access.end(codes)
