"""A graph of a context: bind its tensors once, or call it with arrays; arrays that fit are not copied.

numpy is imported with the first array: the worker of `udogen run op` binds only memory.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from math import prod
from time import monotonic
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.opdef.problems import suggestion
from udogen.qnn import abi
from udogen.qnn.handles import GraphHandle, ProfileHandle
from udogen.qnn.system import GraphInfo, TensorInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE, MOST_BYTES, QnnTensor, byte_size
from udogen.runtime import arguments
from udogen.runtime.arguments import kind_of
from udogen.runtime.buffers.buffer import Access, Attachment, Bindable

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np

    from udogen.runtime.contexts.runtime import Context
    from udogen.runtime.op.calls import Array


class TensorBinding:
    """One tensor of a graph and the memory it is bound to: `graph.binding("x").info.shape`."""

    def __init__(self, info: TensorInfo, role: str, array: Any, index: int) -> None:
        ffi = abi.ffi()
        self.info, self.role = info, role
        self.nbytes = byte_size(info.dtype, info.shape)
        self._tensor = QnnTensor(
            info.name,
            dtype=info.dtype,
            shape=info.shape,
            role=role,
            quant=info.quant,
            id=info.id,
            dynamic=info.dynamic,
        )
        self.is_dynamic = any(info.dynamic)
        self._struct = ffi.addressof(array, index)
        ffi.memmove(self._struct, self._tensor.struct, ffi.sizeof("Qnn_Tensor_t"))
        body = self._struct.v1
        self._body, self._memory, self._dims = body, body.clientBuf, body.dimensions
        self._raw = ffi.integer_const("QNN_TENSORMEMTYPE_RAW")
        self._registered = ffi.integer_const("QNN_TENSORMEMTYPE_MEMHANDLE")
        self._from_buffer, self._null = ffi.from_buffer, ffi.NULL
        self._attachment: Attachment | None = None
        self._held: Any = None  # keeps the bound memory alive and in place
        self._borrowed: Any = None
        self._why = ""  # why its memory was freed

    @cached_property
    def _layout(self) -> tuple[type[Array], np.dtype[Any], tuple[int, ...]]:
        """The class, the type and the shape of its arrays."""
        import numpy as np

        from udogen.runtime.contexts.arrays import layout

        shape, dtype = layout(self.info)
        return np.ndarray, dtype, shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape in the last execution; its largest shape before the first one."""
        return tuple(self._dims[axis] for axis in range(len(self.info.shape))) if self.is_dynamic else self.info.shape

    def resize(self, shape: Sequence[int]) -> None:
        """Set the shape of the next execution; open dimensions may be smaller than their largest size."""
        if not self.info.takes(shape):
            raise RunFailed(
                f"tensor `{self.info.name}` is {self.info.dtype} {self.info.sizes}, the shape is {list(shape)}",
                hint="dimensions that its graph leaves open may be smaller"
                if self.is_dynamic
                else "none of its dimensions is open: give that shape",
            )
        for axis, size in enumerate(shape):
            self._dims[axis] = size

    def written(self, array: Array) -> Array:
        """The part of an array that an execution wrote: elements of a smaller shape are at its beginning."""
        shape = self.shape
        return array if shape == array.shape else array.reshape(-1)[: prod(shape)].reshape(shape)

    @property
    def bound(self) -> bool:
        """Whether it is bound to memory."""
        return self._attachment is not None and not self._attachment.ended

    @property
    def why(self) -> str:
        """Why its memory was freed; empty if it had none, or the caller unbound it."""
        return self._attachment.ended if self._attachment is not None else self._why

    @property
    def guarded(self) -> bool:
        """Whether its memory takes part in executions (`Attachment.access`)."""
        return self._attachment is not None and self._attachment.access is not None

    def bind(self, graph: Graph, place: Any) -> None:
        """Bind the tensor to memory; raises if that is too small, has another type, or is read-only for an output."""
        if hasattr(place, "attach") and not isinstance(place, type):
            found: Attachment = place.attach(graph, self.info, self.role)
        else:
            if hasattr(place, "__array_interface__"):
                self._check(place)
            found = Attachment(data=place)
        held = self._hold(found.data) if found.handle is None else None
        if self._attachment is not None:
            self._attachment.unbind = None
        self._attachment, self._held, self._why = found, held, ""
        found.unbind = partial(graph.release, self)
        self._restore()

    def array(self) -> Array:
        """The bound memory as an array."""
        found = self._attachment
        view = None if found is None else (found.view if found.view is not None else found.data)
        if view is None:
            raise RunFailed(
                f"tensor `{self.info.name}` has no memory that can be looked into",
                hint="bind it to an array or a buffer first",
            )
        import numpy as np

        _, dtype, shape = self._layout
        array: Array = np.frombuffer(view, np.uint8)[: self.nbytes].view(dtype).reshape(shape)
        return self.written(array) if self.is_dynamic and self.role == APP_READ else array

    @property
    def access(self) -> Access:
        """The access to its memory, if that takes part in executions."""
        assert self._attachment is not None and self._attachment.access is not None
        return self._attachment.access

    def borrow(self, array: Array, *, into: bool = False) -> int:
        """Bind the tensor to an array for one execution; returns the number of bytes that were copied for it."""
        copied, (kind, dtype, shape) = 0, self._layout
        if self.is_dynamic and not into and hasattr(array, "shape"):
            self.resize(array.shape)
            shape = array.shape
        if array.__class__ is not kind or array.dtype != dtype or array.shape != shape:
            self._check(array, shape)
        if self.is_dynamic and shape != self.info.shape:  # a runtime that executes the full size reads all of it
            largest = self.zeros()
            largest.reshape(-1)[: array.size] = array.reshape(-1)
            array, copied = largest, array.nbytes
        try:
            held = self._from_buffer(array, require_writable=into)
        except (BufferError, ValueError):
            if into:
                self._refuse_output(array)
            import numpy as np

            array = np.ascontiguousarray(array)
            held, copied = self._from_buffer(array), array.nbytes
        body = self._body
        body.memType = self._raw
        self._memory.data, self._memory.dataSize = held, self.nbytes
        self._borrowed = held
        return copied

    def empty(self) -> Array:
        """A new array for an output."""
        import numpy as np

        _, dtype, shape = self._layout
        return np.empty(shape, dtype)

    def zeros(self) -> Array:
        """A new array of zeros for an input."""
        import numpy as np

        _, dtype, shape = self._layout
        return np.zeros(shape, dtype)

    def end_borrowing(self) -> None:
        """Restore the bound memory after an execution on a borrowed array."""
        self._borrowed = None
        self._restore()

    def clear(self) -> Callable[[], None] | None:
        """Unbind the memory; returns the function to call after all tensors are unbound, or None."""
        found, self._attachment = self._attachment, None
        self._held = self._borrowed = None
        self._restore()
        if found is None:
            return None
        found.unbind, self._why = None, found.ended
        return found.unused

    def _restore(self) -> None:
        found = self._attachment
        if found is None:
            self._memory.data, self._memory.dataSize = self._null, 0
        elif found.data is None:
            self._body.memType, self._body.memHandle = self._registered, found.handle
        else:
            self._body.memType = self._raw
            self._memory.data, self._memory.dataSize = self._held, self.nbytes

    def _hold(self, data: Any) -> Any:
        """The memory as a cffi buffer; raises if it cannot hold the tensor."""
        if self.nbytes > MOST_BYTES:
            raise RunFailed(
                f"tensor `{self.info.name}` has {self.nbytes:,} bytes; client memory ends at 4 GiB",
                hint="bind it to registered memory, or split the tensor",
            )
        try:
            held = self._from_buffer(data, require_writable=self.role != APP_WRITE)
        except (BufferError, TypeError, ValueError) as problem:
            raise RunFailed(
                f"tensor `{self.info.name}` cannot lie in this {type(data).__name__}: {problem}",
                hint="give a contiguous array, a writable buffer, or memory of udogen (`udogen.runtime.allocate`)",
            ) from problem
        if len(held) < self.nbytes:
            raise RunFailed(
                f"tensor `{self.info.name}` ({self.info.dtype} {list(self.info.shape)}) needs {self.nbytes} bytes, "
                f"its memory has {len(held)}",
                hint="give it at least that many",
            )
        return held

    def _check(self, array: Any, shape: tuple[int, ...] | None = None) -> None:
        import numpy as np

        _, dtype, largest = self._layout
        shape = largest if shape is None else shape
        if not isinstance(array, np.ndarray):
            raise RunFailed(
                f"`{self.info.name}` is given {kind_of(array)}", hint="give a numpy array, or bind a buffer"
            )
        if isinstance(array, np.ma.MaskedArray):
            raise RunFailed(
                f"`{self.info.name}` is given a masked array, and runtimes have no masks",
                hint="replace the masked elements: array.filled(value)",
            )
        if array.dtype != dtype or array.shape != shape:
            raise RunFailed(
                f"tensor `{self.info.name}` is {self.info.dtype} {list(self.info.shape)}, "
                f"its array is {array.dtype} {list(array.shape)}",
                hint=f"give an array of {dtype} with the shape {list(shape)}"
                + (", its packed bytes" if prod(self.info.shape) != prod(shape) else ""),
            )

    def _refuse_output(self, array: Array) -> None:
        why = "is read-only" if not array.flags.writeable else "is not contiguous"
        raise RunFailed(
            f"the array for output `{self.info.name}` {why}", hint="give one made by numpy.empty, or none at all"
        )


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
        self.inputs: tuple[TensorInfo, ...] = info.inputs
        self.outputs: tuple[TensorInfo, ...] = info.outputs
        self.copied = 0  # bytes that calls have copied, because an array did not fit unchanged
        self._handle = handle
        arrays = [ffi.new("Qnn_Tensor_t[]", max(len(side), 1)) for side in (self.inputs, self.outputs)]
        self._ins = [TensorBinding(each, APP_WRITE, arrays[0], i) for i, each in enumerate(self.inputs)]
        self._outs = [TensorBinding(each, APP_READ, arrays[1], i) for i, each in enumerate(self.outputs)]
        self._dynamic = tuple(binding for binding in (*self._ins, *self._outs) if binding.is_dynamic)
        self._bindings = {binding.info.name: binding for binding in (*self._outs, *self._ins)}
        self._arrays = arrays
        self._call, self._args = handle.call(*arrays, counts=(len(self.inputs), len(self.outputs)), profile=profile)
        self._lock = handle.one_at_a_time
        self._guarded: tuple[TensorBinding, ...] = ()  # whose memory takes part in executions
        self._ready = False  # every tensor is bound
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
        arguments.mapping(places, f"what graph `{self.name}` is to be bound to", hint=hint)
        with self._lock:
            self._check_open()
            try:
                for name, place in places.items():
                    self.binding(name).bind(self, place)
            finally:
                self._update_state()

    def unbind(self, names: Sequence[str] | None = None) -> None:
        """Unbind these tensors, or all; they must be bound again before the graph runs.

        Shared memory that no tensor uses any more is deregistered.
        """
        if names is not None:
            arguments.names(names, f"what is to be unbound of graph `{self.name}`")
        with self._lock:
            graph = [self.binding(name) for name in (self._bindings if names is None else names)]
            unused = [end_hold for binding in graph if (end_hold := binding.clear()) is not None]
            self._update_state()
        for end_hold in dict.fromkeys(reversed(unused)):
            end_hold()

    def release(self, binding: TensorBinding) -> None:
        """Unbind memory that its owner frees, after a running execution."""
        with self._lock:
            if not binding.bound:
                binding.clear()
            self._update_state()

    def _update_state(self) -> None:
        every = (*self._ins, *self._outs)
        self._guarded = tuple(binding for binding in every if binding.guarded)
        self._ready = self._open and all(binding.bound for binding in every)

    def binding(self, name: str) -> TensorBinding:
        """One tensor and its binding."""
        arguments.expect(name, str, f"the name of a tensor of graph `{self.name}`", "its name")
        found = self._bindings.get(name)
        if found is None:
            raise RunFailed(
                f"graph `{self.name}` has no tensor `{name}`",
                hint=suggestion(name, self._bindings, f"it has: {', '.join(self._bindings)}"),
            )
        return found

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
        with self._lock:
            if not self._ready:
                self._refuse()
            if self._dynamic or shapes:
                self._execute_largest()
                self._size(shapes or {})
            began = monotonic()
            code = self._call(*self._args) if not self._guarded else self._call_guarded()
        if code:
            raise self._handle.interface.error("graphExecute", code, began)
        if self._dynamic:
            self._check_sizes()

    def execute_async(self) -> Future[None]:
        """Execute it on the bound memory without waiting for the end, only for an earlier execution of this graph."""
        from concurrent.futures import Future  # it imports logging: 5 ms that few programs need to spend

        future: Future[None] = Future()
        leaving, codes, began = ExitStack(), list[int](), monotonic()

        def done(code: int) -> None:
            codes.append(code)
            try:
                leaving.close()
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
            self._enter(leaving, codes)
            future.set_running_or_notify_cancel()
            self._handle.start(self._args, done)
        except BaseException:
            leaving.close()
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
    ) -> dict[str, Array]:
        """Execute it on these arrays; bound tensors need none.  Returns the outputs that are not bound, by name.

        Arrays have the stored types (integers for a fixed-point tensor); those of `out` are written to.
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
                if not self._ready and len(borrowed) < len(self._bindings):
                    self._refuse(borrowed)
                if len(results) > len(self._outs):
                    self.binding(next(name for name in results if name not in self._bindings))
                began = monotonic()
                code = self._call(*self._args) if not self._guarded else self._call_guarded(borrowed)
            finally:
                for binding in borrowed:
                    binding.end_borrowing()
        if code:
            raise self._handle.interface.error("graphExecute", code, began)
        if self._dynamic:
            self._check_sizes()
            return {name: self._bindings[name].written(array) for name, array in results.items()}
        return results

    def _check_names(self, arrays: Mapping[str, Array] | None) -> None:
        """Raise if this is not a mapping with names as keys; unknown names are reported when they are bound."""
        if arrays is not None and (arrays.__class__ is not dict or not self._bindings.keys() >= arrays.keys()):
            arguments.mapping(arrays, f"what graph `{self.name}` is given", hint='give arrays in a dict: {"tensor": …}')

    def _borrow(self, given: Mapping[str, Array], results: dict[str, Array], borrowed: list[TensorBinding]) -> None:
        """Bind tensors to the arrays of a call; outputs without an array get a new one in `results`."""
        for name, array in given.items():
            binding = self._bindings.get(name) or self.binding(name)
            if binding.role != APP_WRITE:
                raise RunFailed(f"`{name}` is an output of graph `{self.name}`", hint="give its array with out={…}")
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

    def _call_guarded(self, borrowed: Sequence[TensorBinding] = ()) -> int:
        codes: list[int] = []  # the code it returned, for `Access.end`
        with ExitStack() as leaving:
            self._enter(leaving, codes, borrowed)
            codes.append(self._call(*self._args))
            for binding in self._outs:
                if codes == [0] and binding.is_dynamic and binding.guarded and binding not in borrowed:
                    binding.access.announce(binding.shape)
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
                raise RunFailed(f"`{name}` is an output of graph `{self.name}`", hint="the runtime sizes outputs")
            self.binding(name).resize(arguments.wholes(shape, f"the shape of `{name}`"))
        for binding in self._dynamic:
            if binding.info.name not in shapes:
                binding.resize(binding.info.shape)

    def _check_sizes(self) -> None:
        """Warn if all outputs have the largest size although an input was smaller.

        libQnnCpu 2.47 executes some ops at the full size: elements beyond the given ones are computed too.
        """
        outputs = [each for each in self._outs if each.is_dynamic]
        smaller = [each for each in self._ins if each.shape != each.info.shape]
        if smaller and outputs and all(each.shape == each.info.shape for each in outputs):
            names = ", ".join(f"`{each.info.name}` {list(each.shape)}" for each in smaller)
            warnings.warn(
                f"{self.context.runtime.name} executed graph `{self.name}` at its largest size, though it was given "
                f"{names}: it may not size an op of it per call (docs/contexts.md)",
                stacklevel=3,
            )

    def _enter(self, leaving: ExitStack, codes: list[int], borrowed: Sequence[TensorBinding] = ()) -> None:
        for binding in self._guarded:
            if binding not in borrowed:
                access = binding.access
                access.begin()
                leaving.callback(access.end, codes)
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
        found = self._lock.acquire(timeout=within)
        if found:
            self._lock.release()
        return found

    def disown(self) -> None:
        """Disable it in a forked process, in which an execution of the parent never ends."""
        self._lock = threading.Lock()
        self._open = self._ready = False
