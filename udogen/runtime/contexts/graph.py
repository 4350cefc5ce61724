"""A graph of a restored context: bind its tensors once, or call it with arrays; nothing is copied that fits."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING

from udogen.errors import RunFailed
from udogen.opdef.problems import nearest
from udogen.qnn import abi
from udogen.qnn.profile import Profile
from udogen.qnn.tensors import APP_READ, APP_WRITE
from udogen.runtime import arguments

if TYPE_CHECKING:
    from udogen.qnn import context as qnn
    from udogen.qnn.system import GraphInfo, TensorInfo
    from udogen.runtime.buffers.attachment import Attachment, Bindable
    from udogen.runtime.contexts.context import Context
    from udogen.runtime.contexts.slots import Slot
    from udogen.runtime.op.calls import Array


class Graph:
    """One graph, ready to run.  Several threads may use it: its executions wait for each other."""

    def __init__(self, context: Context, low: qnn.Graph, info: GraphInfo, *, profile: Profile | None = None) -> None:
        from udogen.runtime.contexts import slots  # and numpy with it: both are there, imported meanwhile

        ffi = abi.ffi()
        self.context, self.info, self.name = context, info, info.name
        self.inputs: tuple[TensorInfo, ...] = info.inputs
        self.outputs: tuple[TensorInfo, ...] = info.outputs
        self.copied = 0  # bytes that calls have copied, because an array did not fit as it was
        self._low = low
        arrays = [ffi.new("Qnn_Tensor_t[]", max(len(side), 1)) for side in (self.inputs, self.outputs)]
        self._ins = [slots.Slot(each, APP_WRITE, arrays[0], i) for i, each in enumerate(self.inputs)]
        self._outs = [slots.Slot(each, APP_READ, arrays[1], i) for i, each in enumerate(self.outputs)]
        self._slots = {slot.info.name: slot for slot in (*self._outs, *self._ins)}
        self._arrays = arrays
        self._call, self._args = low.call(*arrays, counts=(len(self.inputs), len(self.outputs)), profile=profile)
        self._lock = low.one_at_a_time
        self._guarded: tuple[Slot, ...] = ()  # whose memory wants to know of each execution
        self._ready = False  # every tensor is bound
        self._open = True

    def __repr__(self) -> str:
        tensors = ", ".join(
            f"{slot.info.name} {slot.info.dtype} {list(slot.info.shape)}{' (bound)' if slot.bound else ''}"
            for slot in (*self._ins, *self._outs)
        )
        return f"<Graph {self.name} of context {self.context.name}: {tensors if self._open else 'closed'}>"

    # --- bound once, executed often ---------------------------------------------------------------------------------

    def bind(self, places: Mapping[str, Array | Bindable | bytearray | memoryview]) -> None:
        """Let tensors lie in arrays (of their type and shape) or in whatever has `attach`, until bound anew."""
        hint = 'give a dict: {"tensor": an array or a buffer}'
        arguments.mapping(places, f"what graph `{self.name}` is to be bound to", hint=hint)
        with self._lock:
            self._check_open()
            try:
                for name, place in places.items():
                    self.slot(name).bind(self, place)
            finally:
                self._look_at_slots()

    def unbind(self, names: Sequence[str] | None = None) -> None:
        """Let go of the memory of these tensors, or of all; they need some before the graph runs again.

        Registrations of shared memory that no tensor uses any more are undone.
        """
        if names is not None:
            arguments.names(names, f"what is to be unbound of graph `{self.name}`")
        with self._lock:
            slots = [self.slot(name) for name in (self._slots if names is None else names)]
            unused = [let_go for slot in slots if (let_go := slot.forget()) is not None]
            self._look_at_slots()
        for let_go in dict.fromkeys(reversed(unused)):
            let_go()

    def release(self, attached: Attachment, *, wait: bool = True) -> None:
        """Let go of memory that its owner gives back; without `wait`, not while the graph is running."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if attached.slot is not None:
                attached.slot.forget()
            self._look_at_slots()
        finally:
            self._lock.release()

    def _look_at_slots(self) -> None:
        every = (*self._ins, *self._outs)
        self._guarded = tuple(slot for slot in every if slot.guarded)
        self._ready = self._open and all(slot.bound for slot in every)

    def slot(self, name: str) -> Slot:
        """The place of one tensor in the graph's arguments."""
        arguments.expect(name, str, f"the name of a tensor of graph `{self.name}`", "its name")
        found = self._slots.get(name)
        if found is None:
            near = nearest(name, self._slots)
            raise RunFailed(
                f"graph `{self.name}` has no tensor `{name}`",
                hint=f"did you mean `{near}`?" if near else f"it has: {', '.join(self._slots)}",
            )
        return found

    def array(self, name: str) -> Array:
        """The bound memory of a tensor, as an array: written before an execution, read after it."""
        return self.slot(name).array()

    def execute(self) -> None:
        """Run it on what is bound."""
        with self._lock:
            if not self._ready:
                self._refuse()
            began = monotonic()
            code = self._call(*self._args) if not self._guarded else self._call_guarded()
        if code:
            raise self._low.interface.error("graphExecute", code, began)

    def execute_async(self) -> Future[None]:
        """Run it on what is bound, in the backend's own time; waits only for an earlier execution of this graph."""
        future: Future[None] = Future()
        leaving, codes, began = ExitStack(), list[int](), monotonic()

        def done(code: int) -> None:
            codes.append(code)
            try:
                leaving.close()
            finally:
                self._lock.release()
                if code:
                    future.set_exception(self._low.interface.error("graphExecuteAsync", code, began))
                else:
                    future.set_result(None)

        if not self.context.runtime.asynchronous:
            raise RunFailed(
                f"{self.context.runtime.name} does not execute graphs asynchronously",
                hint="call `execute` in a thread of your own",
            )
        self._lock.acquire()
        try:
            if not self._ready:
                self._refuse()
            self._enter(leaving, codes)
            future.set_running_or_notify_cancel()
            self._low.start(self._args, done)
        except BaseException:
            leaving.close()
            self._lock.release()
            raise
        return future

    def zeros(self) -> dict[str, Array]:
        """An array of zeros for each input that is not bound: something to call it with."""
        return {slot.info.name: slot.zeros() for slot in self._ins if not slot.bound}

    # --- called with arrays -----------------------------------------------------------------------------------------

    def __call__(
        self, inputs: Mapping[str, Array] | None = None, /, *, out: Mapping[str, Array] | None = None, **named: Array
    ) -> dict[str, Array]:
        """Run it on these arrays; what is bound needs none.  Returns the outputs that are not bound, by name.

        Arrays have the tensors' own types (a fixed-point tensor its stored integers); those of `out` are written to.
        """
        for each in (inputs, out):
            if each is not None and (each.__class__ is not dict or not self._slots.keys() >= each.keys()):
                arguments.mapping(
                    each, f"what graph `{self.name}` is given", hint='give arrays in a dict: {"tensor": …}'
                )
        given = {**inputs, **named} if inputs else named
        slots, results = self._slots, dict(out) if out else {}
        lent = []
        with self._lock:
            if not self._open:
                self._check_open()
            try:
                for name, array in given.items():
                    slot = slots.get(name) or self.slot(name)
                    if slot.role != APP_WRITE:
                        raise RunFailed(
                            f"`{name}` is an output of graph `{self.name}`", hint="give its array with out={…}"
                        )
                    lent.append(slot)
                    self.copied += slot.lend(array)
                for slot in self._outs:
                    wanted = results.get(slot.info.name)
                    if wanted is not None:
                        slot.lend(wanted, into=True)
                    elif slot.bound:
                        continue
                    else:
                        slot.lend(results.setdefault(slot.info.name, slot.empty()), into=True)
                    lent.append(slot)
                if not self._ready and len(lent) < len(slots):
                    self._refuse(lent)
                if out and len(results) > len(self._outs):
                    self.slot(next(name for name in results if name not in slots))
                began = monotonic()
                code = self._call(*self._args) if not self._guarded else self._call_guarded(lent)
            finally:
                for slot in lent:
                    slot.take_back()
        if code:
            raise self._low.interface.error("graphExecute", code, began)
        return results

    # --- around executions ------------------------------------------------------------------------------------------

    def _call_guarded(self, lent: Sequence[Slot] = ()) -> int:
        codes: list[int] = []  # how it ended, for those who are told when it has
        with ExitStack() as leaving:
            self._enter(leaving, codes, lent)
            codes.append(self._call(*self._args))
        return codes[0]

    def _enter(self, leaving: ExitStack, codes: list[int], lent: Sequence[Slot] = ()) -> None:
        for slot in self._guarded:
            if slot not in lent:
                leaving.callback(slot.enter().end, codes)

    def _refuse(self, lent: Sequence[Slot] = ()) -> None:
        self._check_open()
        missing = [slot for slot in self._slots.values() if not slot.bound and slot not in lent]
        if missing:
            names = ", ".join(f"`{slot.info.name}`" for slot in missing)
            why = dict.fromkeys(slot.why for slot in missing if slot.why)
            raise RunFailed(
                f"graph `{self.name}` has no memory for {names}" + (f": {'; '.join(why)}" if why else ""),
                hint="give an array for each input, or bind it",
            )

    def _check_open(self) -> None:
        if not self._open:
            self.context.runtime.check_process(f"graph `{self.name}`")
            raise RunFailed(f"graph `{self.name}` cannot be used: its context is closed", hint="use it before that")

    def close(self) -> None:
        """Wait for a running execution, and refuse further ones; its context calls this."""
        with self._lock:
            self._open = False
            for slot in self._slots.values():
                slot.forget()
            self._look_at_slots()

    def idle(self, within: float) -> bool:
        """Whether it ends what it is executing in so many seconds."""
        found = self._lock.acquire(timeout=within)
        if found:
            self._lock.release()
        return found

    def disown(self) -> None:
        """In a process that was forked: an execution that ran in the parent never ends here."""
        self._lock = threading.Lock()
        self._open = self._ready = False
