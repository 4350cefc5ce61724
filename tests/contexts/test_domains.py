"""Memory domains on both emulators and both real libraries: correct use, and every rule of NNAPI's page broken once."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.contexts.conftest import refuses, resources
from tests.contexts.stepping import BACKENDS, SHAPE, array, binary, open_runtime
from udogen import RunFailed, UsageError
from udogen.qnn.handles import MemoryHandle
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor
from udogen.runtime import Buffer, BufferDesc, Graph, MemoryDomain, QnnError, Role, Runtime
from udogen.runtime.buffers.buffer import Attachment
from udogen.runtime.buffers.domains import INPUT, OUTPUT, Access, ManagedBuffer
from udogen.runtime.quantization import ScaleOffset

BYTES = 4 * 8 * 4


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda row: f"{row[0]}-{row[1]}")
def everywhere(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """Every backend: on the emulators memory is registered, on the real libraries of a PC it is passed unregistered."""
    with open_runtime(*request.param) as runtime:
        kept = [runtime.restore(binary(*request.param), name=name) for name in ("first", "second")]
        yield runtime
        del kept


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    """The runtime for broken rules: one backend is enough, because they are checked before a backend is called."""
    with open_runtime("cpu", "emulator") as opened:
        kept = [opened.restore(binary("cpu", "emulator"), name=name) for name in ("first", "second")]
        yield opened
        del kept


@pytest.fixture
def domain(runtime: Runtime) -> Iterator[MemoryDomain]:
    with MemoryDomain(runtime, name="states") as opened:
        yield opened


def graph(runtime: Runtime, name: str, context: int = 0) -> Graph:
    return runtime.contexts[context].graph(name)


def state_roles(runtime: Runtime, context: int = 0) -> list[Role]:
    step = graph(runtime, "step", context)
    return [Role(step, "state", INPUT), Role(step, "next", OUTPUT)]


def unused(buffer: ManagedBuffer) -> None:
    """Check that no execution and no copy uses a buffer."""
    access = Access(buffer, "test", writes=True)
    access.begin()
    access.end([])


# --- purpose ----------------------------------------------------------------------------------------------------------


def test_a_state_passes_through_executions_graphs_and_contexts_without_a_copy(everywhere: Runtime) -> None:
    first, second = graph(everywhere, "step"), graph(everywhere, "step", 1)
    with MemoryDomain(everywhere) as domain:
        state = domain.pair([*state_roles(everywhere), *state_roles(everywhere, 1)], name="state")
        for each in (first, second):
            state.bind(each, reads="state", writes="next")
            each.bind({"x": array(1)})
        state.copy_from(array(10))
        for turn in range(6):
            (first, second)[turn % 2].execute()
            state.swap()
        assert domain.copied == BYTES  # bytes that udogen itself copied
        np.testing.assert_array_equal(state.copy_to(), array(16))


def test_an_output_is_the_input_of_another_shard(everywhere: Runtime) -> None:
    step, look = graph(everywhere, "step"), graph(everywhere, "look", 1)
    with MemoryDomain(everywhere) as domain:
        handed = domain.allocate([Role(step, "next", OUTPUT), Role(look, "a", INPUT), Role(look, "b", INPUT)])
        step.bind({"next": handed})
        look.bind({"a": handed, "b": handed})  # two readers in one execution
        for turn in range(3):
            assert step(state=array(turn), x=array(5)) == {}
            np.testing.assert_array_equal(look()["seen"], array(2 * (turn + 5)))
        assert domain.copied == 0


def test_registered_where_the_backend_registers_memory(everywhere: Runtime) -> None:
    step = graph(everywhere, "step")
    with MemoryDomain(everywhere) as domain:
        made = domain.allocate(state_roles(everywhere))
        there = made.attach(step, step.inputs[0], APP_WRITE)
        assert (there.part is not None, there.data is None) == (everywhere.emulator, everywhere.emulator)
        assert domain.registers is everywhere.emulator
        assert made.attach(step, step.outputs[0], APP_READ).part is there.part
        assert made.attach(step, step.inputs[0], APP_WRITE) is there


# --- description and roles --------------------------------------------------------------------------------------------


def info(
    name: str,
    shape: tuple[int, ...],
    dtype: str = "FLOAT_32",
    *,
    dynamic: tuple[bool, ...] = (),
    quant: ScaleOffset | None = None,
) -> QnnTensor:
    """Return a tensor, optionally with dimensions that an execution may change."""
    return QnnTensor(name, dtype, shape, quant, dynamic=dynamic)


class PlayingContext:
    """A fake context; it registers any memory."""

    name = "c"
    session = None
    closed = False
    registers = True

    @property
    def registrations(self) -> SimpleNamespace:
        memory = SimpleNamespace(handle=1)
        return SimpleNamespace(register=lambda *_given, **_more: SimpleNamespace(memory=memory))


class Playing:
    """A fake graph, for tensors that a backend cannot have."""

    def __init__(self, name: str, inputs: list[QnnTensor], outputs: list[QnnTensor]) -> None:
        self.name, self.inputs, self.outputs = name, tuple(inputs), tuple(outputs)
        self.context = PlayingContext()


Playing.__name__ = "Graph"  # known by its name


def playing(*graphs: Playing) -> MemoryDomain:
    runtime: Any = type("Runtime", (SimpleNamespace,), {})  # known by its name
    return MemoryDomain(runtime(contexts=[each.context for each in graphs]), name="d")


def roles(*graphs: Playing) -> list[Role]:
    return [
        Role(each, info.name, usage)
        for each in graphs
        for usage, side in ((INPUT, each.inputs), (OUTPUT, each.outputs))
        for info in side
    ]


def test_type_and_shape_follow_from_all_that_is_known() -> None:
    writes = Playing("w", [], [info("y", (1, 16, 64), dynamic=(False, True, False))])
    reads = Playing("r", [info("x", (1, 8, 64), dynamic=(False, True, True))], [])
    with playing(writes, reads) as domain:
        found = domain.allocate(roles(writes, reads))
        assert (found.dims, found.shape, found.size) == ((1, None, 64), None, 16 * 64 * 4)
        found = domain.allocate(roles(writes, reads), BufferDesc((0, 8, 0)))
        assert (found.dims, found.shape) == ((1, 8, 64), (1, 8, 64))
        assert domain.allocate(roles(writes), BufferDesc(dtype="FLOAT_32")).dtype == "FLOAT_32"
        assert domain.size == (16 * 64 + 8 * 64 + 16 * 64) * 4
        for unknown_rank in (None, ()):
            assert domain.allocate(roles(writes, reads), BufferDesc(unknown_rank)).dims == (1, None, 64)


WRITES, READS = "output `y` of graph `w` in c", "input `x` of graph `r` in c"


@pytest.mark.parametrize(
    ("tensor", "desc", "fault"),
    [
        (info("x", (1, 8)), BufferDesc(), f"dimension 1 is 4 in {WRITES}, 8 in {READS}"),
        (info("x", (1, 4, 1)), BufferDesc(), f"{WRITES} has 2 dimensions, {READS} has 3"),
        (info("x", (1, 4), "INT_32"), BufferDesc(), f"{WRITES} is FLOAT_32, {READS} is INT_32"),
        (
            info("x", (1, 4), quant=ScaleOffset(0.5, 0)),
            BufferDesc(),
            f"{WRITES} and {READS} have different quantizations: a copy would be needed",
        ),
        (
            info("x", (1, 2), dynamic=(False, True)),
            BufferDesc(),
            f"dimension 1 is 4 in {WRITES}, at most 2 in {READS}",
        ),
        (info("x", (1, 4)), BufferDesc((1, 5)), f"dimension 1 is 5 in the description, 4 in {WRITES}"),
        (info("x", (1, 4)), BufferDesc((4,)), f"the description has 1 dimensions, {WRITES} has 2"),
        (info("x", (1, 4)), BufferDesc(dtype="INT_8"), f"the description has INT_8, {WRITES} is FLOAT_32"),
    ],
)
def test_contradictions_are_named(tensor: QnnTensor, desc: BufferDesc, fault: str) -> None:
    writes, reads = Playing("w", [], [info("y", (1, 4))]), Playing("r", [tensor], [])
    with playing(writes, reads) as domain:
        refuses(
            lambda: domain.allocate(roles(writes, reads), desc),
            f"the buffer cannot be allocated: {fault}",
            hint="a buffer has one type, one quantization and one shape for all its roles; use two buffers and copy",
            error=UsageError,
        )
        assert domain.buffers == ()


def test_roles_that_are_none(runtime: Runtime, domain: MemoryDomain) -> None:
    step = graph(runtime, "step")
    cannot = "the buffer cannot be allocated: "
    for wanted, fault in (
        ([], "it has no role: name the inputs and outputs it will be used as"),
        ([Role(step, "next", INPUT)], "there is no input `next` of graph `step` in first: its inputs are `state`, `x`"),
        ([Role(step, "x", "both")], "`both` is not a usage: input or output"),
        ([Role(step, "x", INPUT)] * 2, "input `x` of graph `step` in first is named twice"),
    ):
        refuses(lambda wanted=wanted: domain.allocate(wanted), cannot + fault, error=UsageError)  # type: ignore[misc]


# --- only the permitted use -------------------------------------------------------------------------------------------


def test_a_use_that_is_no_role(runtime: Runtime, domain: MemoryDomain) -> None:
    made = domain.allocate(state_roles(runtime))
    with pytest.raises(UsageError) as caught:
        graph(runtime, "look").bind({"a": made})
    assert caught.value.message == "buffer `state` may not be input `a` of graph `look` in first"
    assert caught.value.hint == "allocate it with this role too"
    assert list(caught.value.details) == [
        "it was allocated as input `state` of graph `step` in first",
        "it was allocated as output `next` of graph `step` in first",
    ]
    message = "buffer `state` may not be input `state` of graph `step` in second"  # the same names, another graph
    refuses(lambda: graph(runtime, "step", 1).bind({"state": made}), message, error=UsageError)
    step = graph(runtime, "step")
    made = domain.allocate([Role(step, "state", INPUT)])
    message = "buffer `state` may not be output `next` of graph `step` in first"
    refuses(lambda: step.bind({"next": made}), message, error=UsageError)


def test_a_context_of_somebody_else(runtime: Runtime, domain: MemoryDomain) -> None:
    with open_runtime("cpu", "emulator") as other:
        context = other.restore(binary("cpu", "emulator"), name="other")
        foreign = context.graph("step")
        hint = "allocate it in the domain of the session that runs this context"
        message = "context other does not belong to memory domain `states` of buffer `state`"
        refuses(lambda: domain.allocate([Role(foreign, "state", INPUT)]), message, hint=hint, error=UsageError)
        made = domain.allocate(state_roles(runtime))
        message = "buffer `state` may not be input `state` of graph `step` in other"
        refuses(lambda: foreign.bind({"state": made}), message, error=UsageError)


# --- other processes --------------------------------------------------------------------------------------------------


def test_after_a_fork_everything_is_refused(runtime: Runtime, domain: MemoryDomain) -> None:
    """The child ends at once: its exit code reports the errors that it saw."""
    step = graph(runtime, "step")
    made = domain.allocate(state_roles(runtime), name="kept")
    made.copy_from(array(1))
    there = made.attach(step, step.inputs[0], APP_WRITE)
    parent, roles = os.getpid(), state_roles(runtime)
    child = os.fork()
    if child == 0:
        heard = 0
        for call, start in (
            (
                lambda: there.access and there.access.begin(),
                f"memory domain `states` was made in process {parent}, this is ",
            ),
            (made.copy_to, f"memory domain `states` was made in process {parent}, this is "),
            (lambda: domain.allocate(roles), f"memory domain `states` was made in process {parent}, "),
        ):
            try:
                call()  # type: ignore[operator]
            except RunFailed as refusal:
                heard += refusal.message.startswith(start)
        os._exit(heard)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    np.testing.assert_array_equal(made.copy_to(), array(1))


# --- closing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", ["the domain", "the buffers"])
def test_what_is_closed_is_unbound_and_refused(runtime: Runtime, ends: str) -> None:
    step = graph(runtime, "step")
    domain = MemoryDomain(runtime, name="states")
    made = domain.pair(state_roles(runtime), name="kept")
    made.copy_from(array(1))
    made.bind(step, reads="state", writes="next")
    (domain if ends == "the domain" else made).close()
    refuses(lambda: step(x=array(1)), "graph `step` has no memory for `state`: buffer `kept.0` was closed")
    refuses(lambda: step.bind({"state": made.reading}), "buffer `kept.0` is closed")
    refuses(made.copy_to, "buffer `kept.0` is closed")
    made.close()
    domain.close()
    refuses(lambda: domain.allocate(state_roles(runtime)), "memory domain `states` is closed")


def test_the_memory_of_a_freed_buffer_goes_though_somebody_has_the_buffer(everywhere: Runtime, tidy: None) -> None:
    step = graph(everywhere, "step")
    before = resources()
    with MemoryDomain(everywhere) as domain:
        made = domain.allocate([Role(step, "state", INPUT)])
        step.bind({"state": made})
        assert resources() != before
        made.close()
        assert resources() == before
        assert made.nbytes


def test_a_context_may_be_closed_before_its_buffers(runtime: Runtime, domain: MemoryDomain) -> None:
    with runtime.restore(binary("cpu", "emulator"), name="third") as context:
        step = context.graph("step")
        made = domain.pair([Role(step, "state", INPUT), Role(step, "next", OUTPUT)])
        made.bind(step, reads="state", writes="next")
        made.copy_from(array(1))
        step(x=array(2))
    np.testing.assert_array_equal(made.writing.copy_to(), array(3))
    made.close()


# --- readers and writers ----------------------------------------------------------------------------------------------


@pytest.fixture
def made(runtime: Runtime, domain: MemoryDomain) -> ManagedBuffer:
    found = domain.allocate([*state_roles(runtime), *state_roles(runtime, 1)], name="kept")
    found.copy_from(array(1))
    return found


def ends(runtime: Runtime, made: ManagedBuffer, context: int = 0) -> tuple[Any, Any]:
    step = graph(runtime, "step", context)
    return made.attach(step, step.inputs[0], APP_WRITE), made.attach(step, step.outputs[0], APP_READ)


def test_several_may_read_at_a_time(runtime: Runtime, made: ManagedBuffer) -> None:
    first, second = ends(runtime, made)[0], ends(runtime, made, 1)[0]
    first.access.begin()
    first.access.begin()
    second.access.begin()
    np.testing.assert_array_equal(made.copy_to(), array(1))
    for each in (first, second, first):
        each.access.end([0])
    made.copy_from(array(2))


def test_a_writer_is_alone(runtime: Runtime, made: ManagedBuffer) -> None:
    (reads, writes), (others, other) = ends(runtime, made), ends(runtime, made, 1)
    writes.access.begin()
    writing = "output `next` of graph `step` in first is writing it"
    hint = "wait for that execution; a graph that reads and writes one state needs a BufferPair"
    for call, who in (
        (others.access.begin, "read as input `state` of graph `step` in second"),
        (made.copy_to, "read as copy_to"),
    ):
        refuses(call, f"buffer `kept` cannot be {who}: {writing}", hint=hint)
    for call, who in (
        (other.access.begin, "written as output `next` of graph `step` in second"),
        (lambda: made.copy_from(array(3)), "written as copy_from"),
    ):
        refuses(
            call, f"buffer `kept` cannot be {who}: {writing}",
            hint="wait for that execution, or give each its own buffer",
        )  # fmt: skip
    writes.access.end([0])
    reads.access.begin()
    reading = "input `state` of graph `step` in first is reading it"
    for call, who in (
        (other.access.begin, "output `next` of graph `step` in second"),
        (lambda: made.copy_from(array(3)), "copy_from"),
    ):
        refuses(call, f"buffer `kept` cannot be written as {who}: {reading}", hint=hint)
    reads.access.end([0])


def test_one_execution_does_not_read_and_write_one_buffer(everywhere: Runtime) -> None:
    step = graph(everywhere, "step")
    with MemoryDomain(everywhere) as domain:
        made = domain.allocate(state_roles(everywhere), name="kept")
        made.copy_from(array(1))
        step.bind({"state": made, "next": made})
        refuses(
            lambda: step(x=array(1)),
            "buffer `kept` cannot be written as output `next` of graph `step` in first: "
            "input `state` of graph `step` in first is reading it",
            hint="wait for that execution; a graph that reads and writes one state needs a BufferPair",
        )
        np.testing.assert_array_equal(made.copy_to(), array(1))  # the previous user has left
        step.bind({"state": array(0), "next": array(0)})


def test_what_was_never_written_is_not_read(runtime: Runtime, domain: MemoryDomain) -> None:
    step = graph(runtime, "step")
    made = domain.pair(state_roles(runtime), name="kept")
    made.bind(step, reads="state", writes="next")
    hint = "write it with `copy_from`, or execute a graph that writes it"
    nothing = "input `state` of graph `step` in first: it was never written"
    refuses(lambda: step(x=array(1)), f"buffer `kept.0` cannot be read as {nothing}", hint=hint)
    refuses(made.copy_to, "buffer `kept.0` cannot be read as copy_to: it was never written", hint=hint)
    made.copy_from(array(1))
    step(x=array(1))
    made.swap()
    step(x=array(1))


class Gone:
    """Memory that is deregistered while a graph is bound to it."""

    def __init__(self, runtime: Runtime) -> None:
        with Buffer("memfd", BYTES) as buffer:
            context = runtime.contexts[0]
            memory = MemoryHandle(context.handle, buffer.descriptor(), dtype="FLOAT_32", shape=SHAPE)
            self.memory = SimpleNamespace(handle=memory.handle)
            memory.close()

    def attach(self, *_given: object) -> Attachment:
        return Attachment(part=self)


def test_nobody_relies_on_what_a_failed_execution_has_written(runtime: Runtime, domain: MemoryDomain) -> None:
    step = graph(runtime, "step")
    made = domain.allocate(state_roles(runtime), name="kept")
    made.copy_from(array(1))
    step.bind({"next": made, "x": Gone(runtime), "state": array(1)})
    with pytest.raises(QnnError):
        step.execute()
    unused(made)
    refuses(made.copy_to, "buffer `kept` cannot be read as copy_to: it was never written")
    step.bind({"x": array(1)})
    step.execute()
    np.testing.assert_array_equal(made.copy_to(), array(2))


def test_an_execution_that_is_refused_leaves_everything_as_it_was(runtime: Runtime, domain: MemoryDomain) -> None:
    step = graph(runtime, "step")
    made, busy = (domain.allocate(state_roles(runtime), name=name) for name in ("kept", "busy"))
    made.copy_from(array(1))
    writing = busy.attach(graph(runtime, "step"), step.outputs[0], APP_READ)
    assert writing.access
    writing.access.begin()
    step.bind({"state": busy, "next": made, "x": array(1)})
    refuses(
        step.execute,
        "buffer `busy` cannot be read as input `state` of graph `step` in first: "
        "output `next` of graph `step` in first is writing it",
    )
    writing.access.end([1])
    step.bind({"state": made, "next": busy})
    reading = busy.attach(step, step.inputs[0], APP_WRITE)
    busy.copy_from(array(7))
    assert reading.access
    reading.access.begin()
    refuses(
        step.execute,
        "buffer `busy` cannot be written as output `next` of graph `step` in first: "
        "input `state` of graph `step` in first is reading it",
    )
    reading.access.end([0])
    np.testing.assert_array_equal(made.copy_to(), array(1))
    np.testing.assert_array_equal(busy.copy_to(), array(7))
    unused(made)
    unused(busy)


def test_executions_in_the_backends_own_time(runtime: Runtime, domain: MemoryDomain) -> None:
    step = graph(runtime, "step")
    state = domain.pair(state_roles(runtime))
    state.bind(step, reads="state", writes="next")
    state.copy_from(array(0))
    step.bind({"x": array(2)})
    for _ in range(5):
        step.execute_async().result(10)
        state.swap()
    np.testing.assert_array_equal(state.copy_to(), array(10))
    step.bind({"x": Gone(runtime)})
    with pytest.raises(QnnError):
        step.execute_async().result(10)
    unused(state.writing)
    unused(state.reading)


def test_threads_that_read_and_write_are_refused_and_never_hang(everywhere: Runtime) -> None:
    """Four threads over two contexts: results are right, failures are reported, and all threads end."""
    steps, looks = ([graph(everywhere, name, i) for i in (0, 1)] for name in ("step", "look"))
    wrong: list[object] = []
    refusals: set[str] = set()
    with MemoryDomain(everywhere) as domain, ExitStack() as undo:
        uses = [Role(step, "next", OUTPUT) for step in steps]
        uses += [Role(look, tensor, INPUT) for look in looks for tensor in ("a", "b")]
        made = domain.allocate(uses, name="kept")
        made.copy_from(array(2))
        for step in steps:
            step.bind({"next": made})
            undo.callback(step.bind, {"next": array(0)})
        for look in looks:
            look.bind({"a": made, "b": made})
            undo.callback(look.bind, {"a": array(0), "b": array(0)})

        def work(run: Callable[[], dict[str, np.ndarray]]) -> None:
            for _ in range(400):
                try:
                    found = run()
                    if found and not np.array_equal(found["seen"], array(4)):
                        wrong.append(found)
                except RunFailed as refusal:
                    refusals.add(refusal.message.split(" as ")[0])
                except Exception as problem:
                    wrong.append(problem)

        calls = [lambda each=step: each(state=array(1), x=array(1)) for step in steps]
        calls += [lambda each=look: each() for look in looks]
        threads = [threading.Thread(target=work, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert not wrong
        assert refusals <= {"buffer `kept` cannot be read", "buffer `kept` cannot be written"}
        unused(made)
        np.testing.assert_array_equal(made.copy_to(), array(2))


# --- dimensions that are left open ------------------------------------------------------------------------------------


@pytest.fixture
def sequence() -> Iterator[tuple[ManagedBuffer, Any, Any]]:
    """A buffer whose middle dimension is open up to 16, its writer, and its reader, which only accepts 4."""
    writes = Playing("w", [], [info("y", (1, 16, 2), dynamic=(False, True, False))])
    reads = Playing("r", [info("x", (1, 16, 2), dynamic=(False, True, False))], [])
    with playing(writes, reads) as domain:
        made = domain.allocate(roles(writes, reads), name="seq")
        yield (
            made,
            made.attach(writes, writes.outputs[0], APP_READ),  # type: ignore[arg-type]
            made.attach(reads, reads.inputs[0], APP_WRITE),  # type: ignore[arg-type]
        )


def test_an_output_sets_the_dimensions_an_input_finds_them_fixed(sequence: tuple[ManagedBuffer, Any, Any]) -> None:
    made, writes, reads = sequence
    assert (made.shape, made.nbytes) == (None, 0)
    for length in (4, 16, 1):  # the same buffer, with another shape in each execution
        writes.access.begin()
        writes.access.announce((1, length, 2))
        writes.access.end([0])
        assert (made.shape, made.nbytes) == ((1, length, 2), length * 8)
        reads.access.begin()
        assert made.shape == (1, length, 2)
        reads.access.end([0])
    writes.access.begin()
    assert made.shape is None
    writes.access.end([0])
    assert made.shape == (1, 16, 2)  # not announced: the maximum


def test_a_reader_of_another_shape() -> None:
    writes = Playing("w", [], [info("y", (1, 16), dynamic=(False, True))])
    fixed = Playing("r", [info("x", (1, 16), dynamic=(False, True))], [])
    with playing(writes, fixed) as domain:
        made = domain.allocate(roles(writes, fixed), name="seq")
        reads = made.attach(fixed, info("x", (1, 4)), APP_WRITE)  # type: ignore[arg-type]
        made.copy_from(np.zeros((1, 8), np.float32))
        assert reads.access
        refuses(
            reads.access.begin,
            "buffer `seq` cannot be read as input `x` of graph `r` in c: it holds [1, 8], the tensor is [1, 4]",
            hint="write it by an output of that shape first",
        )
        unused(made)


def test_copies_set_the_shape_too(sequence: tuple[ManagedBuffer, Any, Any]) -> None:
    made, _, _ = sequence
    made.copy_from(np.ones((1, 3, 2), np.float32))
    assert made.copy_to().shape == (1, 3, 2)
    refuses(
        lambda: made.copy_from(bytes(40)),
        "the source is bytes, which have no shape; buffer `seq` has [1, 1 to 16, 2]",
        error=UsageError,
    )
    made.copy_from(np.ones((1, 3, 2), np.float32))
    target = np.zeros((1, 5, 2), np.float32)
    message = "buffer `seq` has 24 bytes, the memory to copy from or to has 40"
    refuses(lambda: made.copy_to(target), message, error=UsageError)


# --- copied in and out ------------------------------------------------------------------------------------------------


def test_arrays_in_and_out(runtime: Runtime, made: ManagedBuffer) -> None:
    values = np.arange(32, dtype=np.float32).reshape(SHAPE)
    made.copy_from(values)
    np.testing.assert_array_equal(made.copy_to(), values)
    target = np.zeros_like(values)
    assert made.copy_to(target) is target
    np.testing.assert_array_equal(target, values)
    made.copy_from(np.asfortranarray(values))
    np.testing.assert_array_equal(made.copy_to(), values)
    assert made.domain.copied == 6 * BYTES  # including the copy by the fixture


def test_what_cannot_be_copied(runtime: Runtime, made: ManagedBuffer) -> None:
    locked = array(1)
    locked.flags.writeable = False
    for call, message in (
        (lambda: made.copy_from(array(1, (1, 4, 9))),
         "the source has the shape [1, 4, 9]; buffer `kept` has [1, 4, 8]"),
        (lambda: made.copy_from(np.zeros(SHAPE)), "buffer `kept` is FLOAT_32, the array is float64"),
        (lambda: made.copy_from(bytes(127)),
         "buffer `kept` has 128 bytes, the memory to copy from or to has 127"),
        (lambda: made.copy_to(bytearray(129)), "buffer `kept` has 128 bytes, the memory to copy from or to has 129"),
        (lambda: made.copy_to(locked), "buffer `kept` cannot be copied there: it is read-only"),
        (lambda: made.copy_to(np.zeros((8, 4, 1), np.float32).T),
         "buffer `kept` cannot be copied there: it is not contiguous"),
        (lambda: made.copy_from(7), "a int cannot be copied from or to buffer `kept`"),
    ):  # fmt: skip
        refuses(call, message, error=UsageError)
    np.testing.assert_array_equal(made.copy_to(), array(1))
    unused(made)


def test_pools_in_and_out(made: ManagedBuffer, tidy: None) -> None:
    values = np.arange(32, dtype=np.float32).reshape(SHAPE)
    with Buffer("ashmem", 4096) as pool:
        pool.view[64 : 64 + BYTES] = values.tobytes()
        made.copy_from(pool.part(64, BYTES))
        np.testing.assert_array_equal(made.copy_to(), values)
        made.copy_from(array(5))
        part = pool.part(256, BYTES)
        assert made.copy_to(part) is part
        assert bytes(pool.view[256 : 256 + BYTES]) == array(5).tobytes()
        message = "buffer `kept` has 128 bytes, the memory to copy from or to has 4096"
        refuses(lambda: made.copy_from(pool), message, error=UsageError)
        pool.kind = "hardware_buffer"  # a PC has none
        message = "buffer `kept` is not copied from or to a hardware_buffer: its layout is the graphics driver's"
        for call, place in product((made.copy_from, made.copy_to), (pool, part)):
            refuses(partial(call, place), message, error=UsageError)


# --- with contexts that are opened and closed -------------------------------------------------------------------------


def test_a_context_forgets_memory_that_was_deregistered(runtime: Runtime) -> None:
    with runtime.restore(binary("cpu", "emulator")) as context, MemoryDomain(runtime) as domain:
        step = context.graph("step")
        for _ in range(50):
            with domain.allocate([Role(step, "state", INPUT)]) as made:
                step.bind({"state": made})
                assert len(context.registrations) == 1
        assert len(context.registrations) == 0
        step.unbind()


def test_buffers_domains_and_contexts_may_end_while_graphs_run(runtime: Runtime, tidy: None) -> None:
    """A thread executes until it is refused; nothing crashes, hangs or leaks."""
    for turn in range(30):
        context = runtime.restore(binary("cpu", "emulator"), name="ending")
        step, domain = context.graph("step"), MemoryDomain(runtime, name="ending")
        state = domain.pair([Role(step, "state", INPUT), Role(step, "next", OUTPUT)], name="kept")
        state.bind(step, reads="state", writes="next")
        state.copy_from(array(1))
        messages: list[str] = []
        running = threading.Event()

        def work(step: Graph = step, messages: list[str] = messages, running: threading.Event = running) -> None:
            while not messages:
                try:
                    step(x=array(1))
                    running.set()
                except RunFailed as refusal:
                    messages.append(refusal.message)

        thread = threading.Thread(target=work)
        thread.start()
        assert running.wait(10)
        (state.close, domain.close, context.close)[turn % 3]()
        thread.join(10)
        assert not thread.is_alive()
        assert re.fullmatch(
            r"buffer `kept\.[01]` is closed"
            r"|graph `step` has no memory for (`next`|`state`|`next`, `state`): .* was closed"
            r"|graph `step` cannot be used: its context is closed",
            messages[0],
        ), messages
        domain.close()
        context.close()


def test_a_pair_is_swapped_however_its_tensors_were_unbound_meanwhile() -> None:
    with open_runtime("htp", "emulator") as runtime, runtime.restore(binary("htp", "emulator")) as context:
        step = context.graph("step")
        with MemoryDomain(runtime) as domain:
            pair = domain.pair([Role(step, "state", INPUT), Role(step, "next", OUTPUT)], name="kept")
            pair.bind(step, reads="state", writes="next")
            pair.copy_from(array(0))
            for number in range(1, 8):
                step(x=array(1))
                if number in (3, 4, 6):
                    step.unbind(["state"])
                pair.swap()
                assert (pair.copy_to() == number).all()
            assert step.binding("state").bound and step.binding("next").bound
            pair.reading.close()
            with pytest.raises(RunFailed, match="has no memory for `state`: buffer `kept"):
                step(x=array(1))
