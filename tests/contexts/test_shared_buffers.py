"""Shared buffers of plans on the HTP emulator (no Qualcomm library registers memory on a PC): bound by handle,
registered once, deregistered last to first on every path."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.contexts.adding import NBYTES, SHAPE, X, expected, run
from tests.contexts.conftest import nothing_left, refuses
from tests.contexts.stepping import array, binary
from tests.making import need_runtime
from udogen import GraphBuilder, RunFailed, UsageError
from udogen.qnn.handles import DMA_BUF, ION
from udogen.runtime import Buffer, Context, QnnError, Runtime
from udogen.runtime.buffers import buffer as buffer_module
from udogen.runtime.buffers.buffer import BufferPart
from udogen.runtime.buffers.plan import BufferPlan, PlannedBuffers, plan_buffers


@pytest.fixture
def context(htp: Runtime, stored: bytes) -> Iterator[Context]:
    with htp.restore(stored, name="adds") as restored:
        yield restored


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    with nothing_left():
        yield
    assert not buffer_module._entries


def plan_of(context: Context, *, shared: bool = True, packed: bool = False) -> BufferPlan:
    return plan_buffers(0, context.info.graphs, shared=shared, packed=packed)


# --- correct use ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_graphs_run_in_the_buffers_of_any_plan(context: Context, shared: bool, packed: bool) -> None:
    with PlannedBuffers(plan_of(context, shared=shared, packed=packed)) as buffers:
        for name in ("one", "two"):
            buffers.bind(context.graph(name))
        for factor in (1, 2):
            for name in ("one", "two"):
                graph = context.graph(name)
                graph.array("x")[:] = factor * X
                graph.execute()
                np.testing.assert_array_equal(graph.array("y"), expected(factor * X))
        assert all(context.graph(name).copied == 0 for name in ("one", "two"))
        assert len(context.registrations) == (4 if shared else 0)


def test_graphs_of_two_contexts_share_bytes(htp: Runtime, stored: bytes) -> None:
    """An output is the input of the next context, and a graph writes what it read."""
    with htp.restore(stored) as one, htp.restore(stored) as two, Buffer("memfd", 4096) as buffer:
        first, second = one.graph("one"), two.graph("two")
        first.bind({"x": buffer.part(1024), "y": buffer.part(0)})
        second.bind({"x": buffer.part(0), "y": buffer.part(0)})
        first.array("x")[:] = X
        first.execute()
        wanted = expected(X)
        for _ in range(5):
            second.execute()
            wanted = expected(wanted)
        np.testing.assert_array_equal(second.array("y"), wanted)
        assert (len(one.registrations), len(two.registrations)) == (2, 1)
        first.unbind()
        second.unbind()


@pytest.mark.parametrize("how", [ION, DMA_BUF])
def test_a_buffer_is_registered_as_the_kind_that_is_named(context: Context, how: str) -> None:
    with Buffer("memfd", 4096) as given, Buffer("memfd", 4096) as made:
        context.graph("one").bind({"x": BufferPart(given, 0, 4096, how), "y": made})
        context.graph("one").array("x")[:] = X
        context.graph("one").execute()
        np.testing.assert_array_equal(np.frombuffer(made.view, np.float32)[:48], expected(X).ravel())


def test_a_part_of_a_file_is_registered_from_where_it_begins(context: Context) -> None:
    with (
        Buffer("memfd", 3 * 4096) as file,
        Buffer("file", 4096, fd=file.descriptor(), offset=4096) as pool,
    ):
        context.graph("one").bind({"x": pool, "y": pool.part(1024)})
        inside = np.frombuffer(file.view, np.float32)[1024:2048]
        inside[:48] = X.ravel()
        context.graph("one").execute()
        np.testing.assert_array_equal(inside[256 : 256 + 48], expected(X).ravel())
        context.close()
        del inside


def test_a_call_with_arrays_works_beside_bound_memory(context: Context) -> None:
    with PlannedBuffers(plan_of(context)) as buffers:
        buffers.bind(context.graph("one"))
        out = np.empty(SHAPE, np.float32)
        context.graph("one")({"x": X}, out={"y": out})
        np.testing.assert_array_equal(out, expected(X))
        context.graph("one").array("x")[:] = 0
        context.graph("one").execute()
        np.testing.assert_array_equal(context.graph("one").array("y"), expected(0 * X))


# --- the order of closing -------------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return registrations and deregistrations in their order, by number; `calls.fails` makes one fail."""
    log: list[str] = []
    made: list[Any] = []

    class Spied(buffer_module.MemoryHandle):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            if failing and len(made) + 1 == failing[0]:
                raise QnnError("memRegister", 8003)
            super().__init__(*args, **kwargs)
            made.append(self)
            log.append(f"+{made.index(self) + 1}")

        def close(self) -> None:
            if self.raw is not None:
                log.append(f"-{made.index(self) + 1}")
            super().close()

    monkeypatch.setattr(buffer_module, "MemoryHandle", Spied)
    failing.clear()
    return log


failing: list[int] = []


@pytest.mark.parametrize("first", ["buffers", "context"])
@pytest.mark.parametrize("packed", [True, False])
def test_the_last_registration_is_the_first_to_end(
    htp: Runtime, stored: bytes, calls: list[str], packed: bool, first: str
) -> None:
    context = htp.restore(stored)
    buffers = PlannedBuffers(plan_of(context, packed=packed))
    for graph in context.graphs.values():
        buffers.bind(graph)
    for buffer in (buffers, context) if first == "buffers" else (context, buffers):
        buffer.close()
        buffer.close()
    assert calls == ["+1", "+2", "+3", "+4", "-4", "-3", "-2", "-1"]


@pytest.mark.parametrize("fails", [1, 2, 3, 4])
@pytest.mark.parametrize("packed", [True, False])
def test_a_registration_that_fails_takes_back_those_before_it(
    context: Context, calls: list[str], packed: bool, fails: int
) -> None:
    """Graph `one` has the first two, graph `two` the others: buffers that were bound before stay bound."""
    failing.append(fails)
    with PlannedBuffers(plan_of(context, packed=packed)) as buffers:
        with pytest.raises(QnnError) as caught:
            for name in ("one", "two"):
                buffers.bind(context.graph(name))
        assert caught.value.code == 8003
        stays = 0 if fails <= 2 else 2
        assert len(context.registrations) == len(buffer_module._entries) == stays
        assert [call for call in calls if call[0] == "-"] == [f"-{each}" for each in range(fails - 1, stays, -1)]
        failing.clear()
        np.testing.assert_array_equal(run(context, "one"), expected(X))
        for name in ("one", "two"):
            buffers.bind(context.graph(name))
            context.graph(name).execute()


def test_a_plan_that_cannot_be_allocated_leaves_nothing(context: Context) -> None:
    plan = plan_of(context)
    large = plan.buffers[-1].__class__("huge", 2**62, 64, "memfd")
    with pytest.raises(RunFailed) as caught:
        PlannedBuffers(plan.__class__((*plan.buffers, large), plan.tensors, plan.why))
    assert caught.value.message.startswith(f"buffer `huge` cannot be allocated: {2**62} bytes of memfd memory: ")


def test_a_context_is_closed_while_another_thread_binds(htp: Runtime, stored: bytes) -> None:
    """No deadlock: the call that comes too late is reported."""
    context = htp.restore(stored, name="adds")
    graph, messages, binding = context.graph("one"), [], threading.Event()

    class Slow:
        def attach(self, graph: Any, info: Any, role: str) -> Any:
            binding.set()
            time.sleep(0.3)  # the context starts to close, and waits for this graph
            return buffer.attach(graph, info, role)

    def bind() -> None:
        try:
            graph.bind({"x": Slow()})
        except RunFailed as problem:
            messages.append(problem.message)

    with Buffer("memfd", 4096) as buffer:
        thread = threading.Thread(target=bind, daemon=True)
        thread.start()
        binding.wait()
        closing = threading.Thread(target=context.close, daemon=True)
        closing.start()
        for each in (thread, closing):
            each.join(timeout=20)
            assert not each.is_alive()
        assert messages == ["context adds is closed"]


# --- errors ------------------------------------------------------------------------------------------------


def test_a_buffer_that_is_closed_is_unbound_and_deregistered(context: Context, htp_log: list[str]) -> None:
    graph, buffer = context.graph("one"), Buffer("memfd", 4096, name="kv")
    graph.bind({"x": buffer, "y": np.zeros_like(X)})
    graph.execute()
    refuses(
        lambda: context.registrations.release(buffer),
        "buffer `kv` cannot be deregistered: tensors of context adds are bound to it",
    )
    buffer.close()
    assert len(context.registrations) == 0
    refuses(graph.execute, "graph `one` has no memory for `x`: buffer `kv` was closed")
    np.testing.assert_array_equal(graph(x=X), {})  # `y` is still bound
    graph.bind({"x": X.copy()})
    graph.execute()


@pytest.mark.parametrize("kind", ["client", "memfd"])
def test_a_buffer_is_bound_unbound_and_left_inside_its_context(context: Context, kind: str) -> None:
    graph = context.graph("one")
    for unbinds in (True, False):
        with Buffer(kind, 4096, name="kv") as given, Buffer(kind, 4096) as made:
            graph.bind({"x": given, "y": made})
            graph.array("x")[:] = X
            graph.execute()
            np.testing.assert_array_equal(graph.array("y"), expected(X))
            if unbinds:
                graph.unbind()
                assert len(context.registrations) == 0 and not given.held_by
        refuses(
            graph.execute,
            "graph `one` has no memory for `y`, `x`"
            + ("" if unbinds else f": buffer `{made.name}` was closed; buffer `kv` was closed"),
        )


def test_a_place_that_another_tensor_lies_in_stays_registered(context: Context) -> None:
    one, two = context.graph("one"), context.graph("two")
    with Buffer("memfd", 4096) as both:
        for graph in (one, two):
            graph.bind({"x": both, "y": np.zeros_like(X)})
        one.unbind(["x"])
        assert len(context.registrations) == 1
        two.execute()
        two.unbind()
        assert len(context.registrations) == 0


def test_a_descriptor_that_was_closed_behind_our_back(context: Context) -> None:
    graph = context.graph("one")
    with Buffer("memfd", 4096, name="kv") as buffer:
        fd = buffer.descriptor()
        os.close(fd)
        for place in (buffer, buffer.part(64)):
            refuses(
                lambda place=place: graph.bind({"x": place}),
                f"file descriptor {fd} of buffer `kv` was closed outside of udogen",
            )
        with open("/dev/null") as other:  # reuses the number
            assert other.fileno() == fd
            refuses(
                lambda: graph.bind({"x": buffer}),
                f"file descriptor {fd} of buffer `kv` refers to another file now: it was closed, "
                "and its number was reused",
            )
            buffer.close()
            os.fstat(fd)  # still open: udogen no longer owned it


def test_a_descriptor_that_was_closed_while_it_was_registered(context: Context) -> None:
    """The runtime has mapped it: bound buffers still work, and closing leaves nothing open."""
    graph = context.graph("one")
    with Buffer("memfd", 4096) as given, Buffer("client", 4096) as made:
        graph.bind({"x": given, "y": made})
        os.close(given.descriptor())
        graph.array("x")[:] = X
        graph.execute()
        np.testing.assert_array_equal(graph.array("y"), expected(X))
        context.close()


def test_one_descriptor_is_not_registered_in_two_ways(context: Context) -> None:
    graph = context.graph("one")
    with Buffer("memfd", 4096, name="kv") as buffer:
        graph.bind({"x": buffer})
        refuses(
            lambda: graph.bind({"y": buffer.part(1024)}),
            "buffer `kv` is registered as the buffer of one tensor (ION) with context adds: "
            "it cannot also be a buffer of several tensors (SHARED_BUFFER)",
        )
        again = os.dup(buffer.descriptor())  # another number for the same memory
        with Buffer("file", 4096, fd=again, name="again") as pool:
            refuses(
                lambda: graph.bind({"y": pool.part(1024)}),
                "buffer `again` is registered as the buffer of one tensor (ION) with context adds: "
                "it cannot also be a buffer of several tensors (SHARED_BUFFER)",
            )
        os.close(again)
        context.close()


def test_one_place_is_not_two_types(context: Context) -> None:
    with Buffer("memfd", 4096, name="kv") as buffer:
        known = context.registrations
        known.register(buffer, how="SHARED_BUFFER", dtype="FLOAT_32", shape=(4,), offset=64)
        known.register(buffer, how="SHARED_BUFFER", dtype="FLOAT_32", shape=(2, 2), offset=64)
        assert len(known) == 1
        for dtype, shape in (("FLOAT_32", (5,)), ("INT_32", (4,))):
            refuses(
                lambda dtype=dtype, shape=shape: known.register(
                    buffer, how="SHARED_BUFFER", dtype=dtype, shape=shape, offset=64
                ),
                "byte 64 of buffer `kv` is registered with context adds for 16 bytes of FLOAT_32: "
                f"it cannot also be {dtype} {list(shape)}",
            )
        context.close()


@pytest.mark.parametrize("offset", [None, 0, 64])
def test_the_same_memory_by_another_descriptor(context: Context, offset: int | None) -> None:
    """Another descriptor of it, which the runtime treats as different memory."""
    graph = context.graph("one")
    with (
        Buffer("memfd", 4096, name="kv") as buffer,
        Buffer("file", 4096, fd=buffer.descriptor(), name="again") as pool,
    ):
        graph.bind({"x": buffer if offset is None else buffer.part(offset)})
        refuses(
            lambda: graph.bind({"y": pool if offset is None else pool.part(offset)}),
            f"byte {offset or 0} of buffer `again` is registered with context adds already, as buffer `kv`",
        )
        context.close()


@pytest.mark.parametrize(
    ("offset", "nbytes", "message"),
    [
        (-64, None, "bytes -64 to 4096 are not in buffer `kv`, which has 4096"),
        (4096, None, "bytes 4096 to 4096 are not in buffer `kv`, which has 4096"),
        (64, 4096, "bytes 64 to 4160 are not in buffer `kv`, which has 4096"),
        (2**64, 64, f"bytes {2**64} to {2**64 + 64} are not in buffer `kv`, which has 4096"),
    ],
)
def test_parts_that_are_not_in_the_buffer(offset: int, nbytes: int | None, message: str) -> None:
    with Buffer("memfd", 4096, name="kv") as buffer:
        refuses(lambda: buffer.part(offset, nbytes), message, error=UsageError)


@pytest.mark.parametrize("kind", ["client", "memfd"])
def test_memory_that_is_too_small(context: Context, kind: str) -> None:
    with Buffer(kind, NBYTES - 1, name="kv") as buffer:
        message = (
            f"tensor `x` (FLOAT_32 [1, 2, 3, 8]) needs {NBYTES} bytes, byte 0 of buffer `kv` is followed by "
            f"{NBYTES - 1}"
        )
        refuses(lambda: context.graph("one").bind({"x": buffer}), message)
        refuses(lambda: context.graph("one").bind({"x": buffer.part(0)}), message)
        message = message.replace("byte 0", "byte 64").replace(f"by {NBYTES - 1}", f"by {NBYTES - 65}")
        refuses(lambda: context.graph("one").bind({"x": buffer.part(64)}), message)
    assert len(context.registrations) == 0


def test_memory_and_plans_that_do_not_fit(context: Context) -> None:
    graph, closed = context.graph("one"), Buffer("memfd", 4096, name="kv")
    part = closed.part(64)
    closed.close()
    for place in (closed, part):
        refuses(lambda place=place: graph.bind({"x": place}), "buffer `kv` is closed")
    with Buffer("memfd", 4096, name="kv") as buffer:
        refuses(
            lambda: graph.bind({"x": buffer.part(64, how="ION")}),
            "byte 64 of buffer `kv` cannot be registered as ION memory, which begins with its descriptor",
        )
        for_reading = os.open(f"/proc/self/fd/{buffer.descriptor()}", os.O_RDONLY)
        with Buffer("file", 4096, fd=for_reading, name="constants") as pool:
            os.close(for_reading)
            message = "output `y` cannot be bound to buffer `constants`, which is read-only"
            refuses(lambda: graph.bind({"y": pool}), message)
    with plan_buffers(0, context.info.graphs[:1], shared=True).allocate() as buffers:
        message = "the plan has no buffer for `x`, `y` of graph `two` (shard 0)"
        refuses(lambda: buffers.bind(context.graph("two")), message)
        context.close()
        refuses(lambda: buffers.bind(graph), "context adds is closed")


@pytest.fixture(scope="module", params=["cpu", "htp"])
def real(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """Opened before a test checks for leaks: output of libQnnHtp goes through a pipe that stays open."""
    need_runtime(request.param)
    with Runtime(request.param, runtime="real") as runtime:
        yield runtime


def test_libraries_of_a_pc_register_nothing_and_report_it(real: Runtime) -> None:
    """The real libQnnCpu.so and libQnnHtp.so; they run the same plan with raw buffers."""
    with real.restore(relu(real)) as context:
        with PlannedBuffers(plan_of(context)) as buffers:
            message = f"{real.path.name} registers no shared memory on this machine: it returned 1000 (not supported)"
            refuses(lambda: buffers.bind(context.graph("relu")), message)
            assert not buffer_module._entries
        with PlannedBuffers(plan_of(context, shared=False, packed=True)) as buffers:
            graph = context.graph("relu")
            buffers.bind(graph)
            graph.array("x")[:] = X - 20
            graph.execute()
            np.testing.assert_allclose(graph.array("y"), np.maximum(X - 20, 0), atol=0.02)


def relu(runtime: Runtime) -> bytes:
    with GraphBuilder(runtime.backend, runtime=runtime) as builder:
        with builder.graph("relu", outputs=["y"]) as graph:
            x = graph.input("x", "FLOAT_32", SHAPE)
            graph.op("Relu", [x], "y", like=x)
        return builder.context.binary()


def test_memory_of_somebody_else_is_bound_without_a_copy() -> None:
    """A descriptor of a camera: mapped here, registered for the context, and seen by the next execution."""
    frame = os.memfd_create("camera")
    os.ftruncate(frame, 2 * 4096)
    with Runtime("htp", runtime="emulator") as runtime, runtime.restore(binary("htp", "emulator")) as context:
        step = context.graph("step")
        with Buffer("file", 4096, fd=frame, offset=4096) as pool:
            os.close(frame)
            step.bind({"x": pool})
            for value in (3, 5):
                pool.view[: array(1).nbytes] = array(value).tobytes()
                assert (step(state=array(1))["next"] == value + 1).all()
            assert step.copied == 0 and len(context.registrations) == 1
        assert len(context.registrations) == 0
