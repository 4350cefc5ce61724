"""A graph of a restored context: bind its tensors once, or call it with arrays; nothing is copied that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.opdef.problems import nearest
from udogen.qnn import abi
from udogen.qnn.profile import Profile
from udogen.qnn.tensors import APP_READ, APP_WRITE

if TYPE_CHECKING:
    from udogen.qnn import context as qnn
    from udogen.qnn.system import GraphInfo, TensorInfo
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

    # --- bound once, executed often ---------------------------------------------------------------------------------

    def bind(self, places: Mapping[str, Any]) -> None:
        """Let tensors lie in arrays (of their type and shape) or in whatever has `attach`, until bound anew."""
        with self._lock:
            self._check_open()
            for name, place in places.items():
                self.slot(name).bind(self, place)
            self._look_at_slots()

    def unbind(self, names: Sequence[str] | None = None) -> None:
        """Let go of the memory of these tensors, or of all; they need some before the graph runs again."""
        with self._lock:
            for name in self._slots if names is None else names:
                self.slot(name).forget()
            self._look_at_slots()

    def _look_at_slots(self) -> None:
        every = (*self._ins, *self._outs)
        self._guarded = tuple(slot for slot in every if slot.guarded)
        self._ready = self._open and all(slot.bound for slot in every)

    def slot(self, name: str) -> Slot:
        """The place of one tensor in the graph's arguments."""
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
            raise RunFailed(
                f"graph `{self.name}` has no memory for {names}",
                hint="give an array for each input, or bind it",
            )

    def _check_open(self) -> None:
        if not self._open:
            raise RunFailed(f"graph `{self.name}` cannot be used: its context is closed", hint="use it before that")

    def close(self) -> None:
        """Wait for a running execution, and refuse further ones; its context calls this."""
        with self._lock:
            self._open = False
        self.unbind()
