"""External weights and spill-fill buffers: each rule of Qualcomm's tutorial, broken and refused with a message.

On the HTP emulator, which has the same rules: calls that are refused here never reach it (its log stays empty).
rpcmem is a stand-in for libcdsprpc.so.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contexts import stepping
from tests.contexts.adding import ROW, X, binary, expected, run
from tests.contexts.conftest import nothing_left
from udogen import RunFailed
from udogen.qnn import abi
from udogen.runtime import Buffer, Context, ContextOptions, QnnError, Runtime
from udogen.runtime.buffers import buffer as buffer_module
from udogen.runtime.buffers import external
from udogen.runtime.buffers.buffer import SPILL_FILL, WEIGHTS
from udogen.runtime.buffers.external import (
    ExternalBuffer,
    ExternalSizes,
    allocate_external,
    external_sizes,
)
from udogen.runtime.contexts import manifest

PAGE = 4096
NEEDS = ExternalSizes(weights=256, spill=1024, alignment=PAGE)
register_weights, register_spill_fill = Context.give_weights, Context.give_spill_fill
GIVE = {WEIGHTS: register_weights, SPILL_FILL: register_spill_fill}
NAMES = {WEIGHTS: "external weights buffer", SPILL_FILL: "external spill-fill buffer"}
both = pytest.mark.parametrize("kind", [WEIGHTS, SPILL_FILL])


@pytest.fixture(autouse=True)
def nothing_stays(htp: Runtime) -> Iterator[None]:
    with nothing_left():
        yield
    assert not buffer_module._entries and not htp.contexts


@pytest.fixture
def buffer() -> Iterator[Buffer]:
    """A buffer that is large enough for all tests."""
    with Buffer("memfd", 4 * PAGE, name="b") as made:
        yield made


@pytest.fixture
def deferred(htp: Runtime, stored: bytes, buffer: Buffer) -> Iterator[Deferred]:
    """Restore contexts with deferred graphs, and close them at the end of the test, before the buffer."""
    made: list[Context] = []

    def restore(name: str = "m", **options: Any) -> Context:
        made.append(htp.restore(stored, name=name, options=ContextOptions(deferred=True, **options)))
        return made[-1]

    yield restore
    for context in reversed(made):
        context.close()


Deferred = Callable[..., Context]
Refused = Callable[[Callable[[], object], str], None]


@pytest.fixture
def refused(htp_log: list[str]) -> Refused:
    """Check that a call is refused with a message, before it reaches the runtime."""

    def check(call: Callable[[], object], message: str) -> None:
        htp_log.clear()
        with pytest.raises(RunFailed) as caught:
            call()
        assert not isinstance(caught.value, QnnError)
        assert caught.value.message == message and caught.value.hint
        assert not htp_log

    return check


# --- correct use ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [(), (WEIGHTS,), (SPILL_FILL,), (WEIGHTS, SPILL_FILL)])
def test_a_context_runs_in_the_buffers_that_it_is_given(htp: Runtime, stored: bytes, kinds: tuple[str, ...]) -> None:
    with htp.restore(stored, deferred=True) as context:
        assert external_sizes(context) == NEEDS
        buffers = {kind: allocate_external([context], kind) for kind in kinds}
        for kind, made in buffers.items():
            assert made is not None and made.size == NEEDS.of(kind) and made.kind == "memfd"
            GIVE[kind](context, made)
        context.finalize()
        for name in ("one", "two"):
            np.testing.assert_array_equal(run(context, name), expected(X))
        for kind, made in buffers.items():
            assert made is not None
            content = ROW if kind == WEIGHTS else X + ROW
            assert content.tobytes() in os.pread(made.descriptor(), made.size, 0)
    for made in buffers.values():
        assert made is not None
        made.close()


def test_contexts_share_a_spill_fill_buffer_of_the_largest(htp: Runtime, deferred: Deferred) -> None:
    small = deferred("small")
    with htp.restore(binary(htp, "big", shape=(1, 16, 16, 8)), name="big", deferred=True) as big:
        assert external_sizes(big).spill > external_sizes(small).spill
        shared = allocate_external([small, big], SPILL_FILL)
        assert shared is not None and shared.size == external_sizes(big).spill
        for context in (small, big):
            register_spill_fill(context, shared)
            context.finalize()
        assert small.turn is big.turn is not None
        x = np.ones((1, 16, 16, 8), np.float32)
        for _ in range(3):
            np.testing.assert_array_equal(run(small, "one"), expected(X))
            np.testing.assert_array_equal(run(big, "big", x), expected(x))
        small.close()
        with pytest.raises(RunFailed) as caught:
            _ = shared.view
        assert caught.value.message == (
            f"buffer `{shared.name}` belongs to QNN: it is the external spill-fill buffer of context big"
        )
        np.testing.assert_array_equal(run(big, "big", x), expected(x))
    assert len(shared.view) == shared.size
    shared.close()


def test_parts_of_one_descriptor(deferred: Deferred, buffer: Buffer) -> None:
    """The start is descriptor and offset together."""
    first, second = deferred("first"), deferred("second")
    register_weights(first, buffer, offset=3 * PAGE)
    # The file's second page through another mapping: its first byte is at 4096 of the descriptor.
    with Buffer("file", PAGE, fd=buffer.descriptor(), offset=PAGE, name="p") as pool:
        register_weights(second, pool)
        for context in (first, second):
            context.finalize()
            np.testing.assert_array_equal(run(context, "one"), expected(X))
        written = os.pread(buffer.descriptor(), 4 * PAGE, 0)
        assert [at for at in range(0, 4 * PAGE, PAGE) if ROW.tobytes() in written[at : at + PAGE]] == [PAGE, 3 * PAGE]
        second.close()


def test_one_buffer_is_changed_for_another_before_finalize(deferred: Deferred, buffer: Buffer) -> None:
    context = deferred()
    with Buffer("memfd", PAGE, name="first") as first:
        given = register_weights(context, first)
        assert first.held_by == ("context m, as external weights buffer",)
        given.close()
        given.close()
        assert not first.held_by and len(first.view) == PAGE
    register_weights(context, buffer)
    context.finalize()
    np.testing.assert_array_equal(run(context, "one"), expected(X))


@both
def test_buffers_are_let_go_of_with_their_context_and_not_before(
    htp: Runtime, stored: bytes, buffer: Buffer, refused: Refused, kind: str
) -> None:
    in_use = f"buffer `b` cannot be closed: it is in use by context m, as {NAMES[kind]}"
    needed = f"the {NAMES[kind]} `b` cannot be deregistered: context m is finalized and uses it"
    for finalized in (False, True, True):
        with htp.restore(stored, name="m", deferred=True) as context:
            given = GIVE[kind](context, buffer)
            refused(buffer.close, in_use)
            if finalized:
                context.finalize()
                refused(buffer.close, in_use)
                refused(given.close, needed)
                np.testing.assert_array_equal(run(context, "two"), expected(X))
        assert not buffer.held_by and not buffer_module._entries and len(buffer.view) == buffer.size


def test_the_binary_is_kept_until_the_context_is_finalized(htp: Runtime, tmp_path: Path, stored: bytes) -> None:
    """Restored from bytes without another reference, and from a file that is deleted."""
    manifest.save(tmp_path / "m.bin", stored)
    contexts = [htp.restore(bytes(bytearray(stored)), deferred=True), htp.restore(tmp_path / "m.bin", deferred=True)]
    (tmp_path / "m.bin").unlink()
    gc.collect()
    rubbish = [bytes(len(stored)) for _ in range(1000)]
    for context in contexts:
        context.finalize()
        np.testing.assert_array_equal(run(context, "one"), expected(X))
        context.close()
    assert rubbish


@pytest.mark.parametrize("asynchronous", [False, True])
def test_graphs_that_share_spill_memory_wait_for_each_other(
    deferred: Deferred, buffer: Buffer, htp_log: list[str], asynchronous: bool
) -> None:
    """The emulator refuses parallel executions (1005); two graphs of each of two contexts, as fast as possible."""
    contexts = deferred("first"), deferred("second")
    for context in contexts:
        register_spill_fill(context, buffer)
        context.finalize()
    htp_log.clear()
    faults: list[object] = []

    def work(context: Context, name: str) -> None:
        try:
            graph = context.graph(name)
            y = np.empty_like(X)
            graph.bind({"x": X, "y": y})
            for _ in range(300):
                y[:] = 0
                if asynchronous:
                    graph.execute_async().result()
                else:
                    graph.execute()
                if not np.array_equal(y, expected(X)):
                    faults.append("wrong numbers")
        except Exception as problem:
            faults.append(problem)

    threads = [threading.Thread(target=work, args=(each, name)) for each in contexts for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults and not htp_log


# --- the rules ------------------------------------------------------------------------------------------------------

UNALIGNED = (
    "the {} of context m cannot begin at byte %d of its descriptor: its start must be a multiple of 4096 "
    "(BUFFER_START_ALIGNMENT)"
)
EXCLUDED = "context m cannot have external buffers: they exclude %s"


@both
@pytest.mark.parametrize(
    ("before", "given", "message"),
    [
        (None, {"offset": 1}, UNALIGNED % 1),
        (None, {"offset": 64}, UNALIGNED % 64),
        (None, {"offset": PAGE + 2048}, UNALIGNED % (PAGE + 2048)),
        (None, {"features": ["udma64"]}, EXCLUDED % "udma64"),
        (None, {"features": ["securepd"]}, EXCLUDED % "securepd"),
        (None, {"features": ["graph switching"]}, EXCLUDED % "graph switching"),
        (None, {"features": ["secure"]}, "`secure` is not a known feature"),
        (Context.finalize, {}, "context m is finalized: external buffers are registered before that"),
        (Context.close, {}, "context m is closed"),
    ],
)
def test_what_is_refused(
    deferred: Deferred,
    buffer: Buffer,
    refused: Refused,
    kind: str,
    before: Callable[[Context], None] | None,
    given: dict[str, Any],
    message: str,
) -> None:
    context = deferred()
    if before:
        before(context)
    refused(lambda: GIVE[kind](context, buffer, **given), message.format(NAMES[kind]))


@both
def test_contexts_and_buffers_that_are_not_for_it(
    htp: Runtime, stored: bytes, deferred: Deferred, buffer: Buffer, refused: Refused, kind: str
) -> None:
    give, name = GIVE[kind], NAMES[kind]
    with Buffer("client", PAGE, name="c") as client, Buffer("memfd", PAGE, name="o") as other:
        message = f"buffer `c` cannot be an {name}: it is client memory, no DMA buffer"
        refused(lambda: give(deferred(), client), message)
        with Buffer("file", PAGE, fd=buffer.descriptor(), offset=64, name="p") as pool:
            refused(lambda: give(deferred(), pool), UNALIGNED.format(name) % 64)
        context = deferred()
        give(context, other)
        refused(lambda: give(context, buffer), f"context m already has an {name}")
        context.close()
    with htp.restore(stored, name="m") as context:
        message = "context m was not restored with deferred graphs: it has allocated its own memory"
        refused(lambda: give(context, buffer), message)
        context.graph("one").bind({"x": buffer})
        with Buffer("file", 4 * PAGE, fd=buffer.descriptor(), name="again") as pool:
            message = (
                "buffer `again` is registered as the buffer of one tensor (ION) with context m: "
                f"it cannot also be an {name}"
            )
            refused(lambda: give(deferred(), pool), message)
    with htp.new_context() as context:  # as one restored together with others from a list
        message = (
            "external buffers are for contexts that are restored from one binary (QnnContext_createFromBinary): "
            "context new was made in another way"
        )
        refused(lambda: give(context, buffer), message)


@both
def test_they_are_htps_and_androids(
    deferred: Deferred, buffer: Buffer, refused: Refused, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """And the emulator's, which replaces it."""
    context = deferred()
    with monkeypatch.context() as patch:
        patch.setattr(context.runtime, "emulator", False)
        message = "external buffers are supported on Android only, and this is not Android"
        refused(lambda: GIVE[kind](context, buffer), message)
    with (
        Runtime("cpu", runtime="emulator") as runtime,
        runtime.restore(stepping.binary("cpu", "emulator"), name="r") as other,
    ):
        message = f"external buffers are HTP's: context r is one of {runtime.name}"
        refused(lambda: GIVE[kind](other, buffer), message)


@both
def test_on_a_device_a_file_is_no_dma_buffer(
    deferred: Deferred, buffer: Buffer, refused: Refused, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """On the emulator, as if it were a device."""
    context = deferred()
    monkeypatch.setattr(context.runtime, "emulator", False)
    monkeypatch.setattr(sys, "getandroidapilevel", lambda: 34, raising=False)
    refused(
        lambda: GIVE[kind](context, buffer), f"buffer `b` cannot be an {NAMES[kind]}: it is memfd memory, no DMA buffer"
    )
    monkeypatch.setattr(external, "_DMA_FILES", ("/memfd:b",))  # the beginning of its link
    GIVE[kind](context, buffer)


@both
@pytest.mark.parametrize("offset", [0, PAGE])
def test_they_are_large_enough(deferred: Deferred, refused: Refused, kind: str, offset: int) -> None:
    needs = NEEDS.of(kind)
    with Buffer("memfd", offset + needs - 1, name="s") as small:
        refused(
            lambda: GIVE[kind](deferred(), small, offset=offset),
            f"the {NAMES[kind]} of context m needs {needs} bytes, buffer `s` has {needs - 1} from byte {offset} on",
        )
        refused(
            lambda: GIVE[kind](deferred(), small, offset=2 * PAGE),
            f"the {NAMES[kind]} of context m needs {needs} bytes, buffer `s` has 0 from byte 8192 on",
        )


@both
def test_their_descriptor_is_not_registered_with_fastrpc(
    deferred: Deferred, refused: Refused, device: object, kind: str
) -> None:
    with Buffer("rpcmem", PAGE, name="w") as made:
        context = deferred()
        with made.mapped_to_hexagon():
            refused(
                lambda: GIVE[kind](context, made),
                f"buffer `w` cannot be an {NAMES[kind]}: its descriptor is registered with fastrpc (fastrpc_mmap)",
            )
        given = GIVE[kind](context, made)
        with pytest.raises(RunFailed) as caught, made.mapped_to_hexagon():
            pass
        assert caught.value.message == "buffer `w` cannot be mapped by fastrpc_mmap: it belongs to QNN"
        given.close()


@both
def test_nobody_else_looks_into_them_or_writes(deferred: Deferred, buffer: Buffer, refused: Refused, kind: str) -> None:
    context = deferred()
    view = buffer.view
    refused(
        lambda: GIVE[kind](context, buffer),
        f"buffer `b` cannot become the {NAMES[kind]} of context m: arrays or views of its bytes are alive",
    )
    assert not buffer_module._entries and not buffer.held_by
    del view
    GIVE[kind](context, buffer)
    for _ in range(2):
        refused(lambda: buffer.view, f"buffer `b` belongs to QNN: it is the {NAMES[kind]} of context m")
        if context.deferred:
            context.finalize()


def test_spill_memory_is_shared_from_its_begin_or_not_at_all(
    deferred: Deferred, buffer: Buffer, refused: Refused
) -> None:
    register_spill_fill(deferred("first"), buffer)
    message = (
        "buffer `b` is a spill-fill buffer from byte 0 on for context first: one from byte 4096 on would overlap it"
    )
    refused(lambda: register_spill_fill(deferred("second"), buffer, offset=PAGE), message)


def test_every_context_has_weights_of_its_own(deferred: Deferred, buffer: Buffer, refused: Refused) -> None:
    first, second = deferred("first"), deferred("second")
    register_weights(first, buffer)
    message = "buffer `{}` holds the external weights of context first: each context needs its own"
    refused(lambda: register_weights(second, buffer), message.format("b"))
    with Buffer("file", PAGE, fd=buffer.descriptor(), offset=PAGE, name="again") as pool:
        refused(lambda: register_weights(second, pool), message.format("again"))


@both
def test_a_descriptor_is_for_one_purpose(deferred: Deferred, buffer: Buffer, refused: Refused, kind: str) -> None:
    context = deferred()
    GIVE[kind](context, buffer)
    other = SPILL_FILL if kind == WEIGHTS else WEIGHTS
    message = f"buffer `b` is registered as an {NAMES[kind]} with context m: it cannot also be an {NAMES[other]}"
    refused(lambda: GIVE[other](context, buffer, offset=2 * PAGE), message)
    context.finalize()
    graph = context.graph("one")
    # For tensors: the buffer itself is refused at once, another mapping of its descriptor is detected as well.
    refused(lambda: graph.bind({"x": buffer}), f"buffer `b` belongs to QNN: it is the {NAMES[kind]} of context m")
    with Buffer("file", PAGE, fd=buffer.descriptor(), offset=0, name="again") as pool:
        for place, what in (
            (pool, "the buffer of one tensor (ION)"),
            (pool.part(0), "a buffer of several tensors (SHARED_BUFFER)"),
        ):
            refused(
                lambda place=place: graph.bind({"x": place}),
                f"buffer `again` is registered as an {NAMES[kind]} with context m: it cannot also be {what}",
            )


def group() -> dict[str, Any]:
    return {"firstGroupHandle": abi.ffi().NULL, "maxSpillFillBuffer": 0}


@both
@pytest.mark.parametrize(
    ("feature", "options"),
    [
        ("REGISTER_MULTI_CONTEXTS", {"htp": {"REGISTER_MULTI_CONTEXTS": group()}}),
        ("REGISTER_CONCURRENT_RESOURCE_SHARING", {"htp": {"REGISTER_CONCURRENT_RESOURCE_SHARING": group()}}),
        ("udma64", {"htp": {"USE_EXTENDED_UDMA": 1}}),
        ("graph switching", {"memory_limit_hint": 64}),
        ("graph switching", {"persistent_binary": True}),
    ],
)
def test_options_that_do_not_go_together_with_them(
    deferred: Deferred, buffer: Buffer, refused: Refused, kind: str, feature: str, options: dict[str, Any]
) -> None:
    context = deferred(**options)
    refused(lambda: GIVE[kind](context, buffer), f"context m cannot have external buffers: they exclude {feature}")
    refused(
        lambda: allocate_external([context], kind), f"context m cannot have external buffers: they exclude {feature}"
    )
    context.finalize()
    np.testing.assert_array_equal(run(context, "one"), expected(X))


@both
def test_a_context_without_a_need_gets_none(
    deferred: Deferred, buffer: Buffer, refused: Refused, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    context = deferred()
    monkeypatch.setattr(external, "external_sizes", lambda *_args, **_named: ExternalSizes(0, 0, PAGE))
    assert allocate_external([context], kind) is None
    refused(lambda: GIVE[kind](context, buffer), f"context m needs no {NAMES[kind]}: it does not use one")


# --- when the runtime refuses -----------------------------------------------------------------------------------------


@both
def test_a_registration_that_fails_leaves_nothing(
    deferred: Deferred, buffer: Buffer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    context = deferred()

    def fail(*_args: object, **_named: object) -> None:
        raise QnnError("memRegister", 8003)

    with monkeypatch.context() as patch:
        patch.setattr(external, "register_external", fail)
        with pytest.raises(QnnError):
            GIVE[kind](context, buffer)
    assert (
        not buffer_module._entries and not buffer.held_by and len(buffer.view) == buffer.size and context.turn is None
    )
    assert isinstance(GIVE[kind](context, buffer), ExternalBuffer)


def test_a_context_that_cannot_be_finalized_gives_its_buffers_back(
    htp: Runtime, stored: bytes, buffer: Buffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with htp.restore(stored, name="m", deferred=True) as context:
        register_weights(context, buffer)
        with monkeypatch.context() as patch:
            patch.setattr(context.handle, "finalize", lambda: (_ for _ in ()).throw(QnnError("contextFinalize", 1002)))
            with pytest.raises(QnnError):
                context.finalize()
        assert context.deferred
    assert not buffer_module._entries and not buffer.held_by


# --- rpcmem -----------------------------------------------------------------------------------------------------------


def test_rpcmem_is_taken_where_it_is(deferred: Deferred, device: None) -> None:
    context = deferred()
    weights, spill = (allocate_external([context], kind) for kind in (WEIGHTS, SPILL_FILL))
    assert weights is not None and spill is not None and {weights.kind, spill.kind} == {"rpcmem"}
    register_weights(context, weights)
    register_spill_fill(context, spill)
    context.finalize()
    np.testing.assert_array_equal(run(context, "one"), expected(X))
    context.close()
    weights.close()
    spill.close()


@pytest.mark.parametrize("kind", [WEIGHTS, SPILL_FILL])
@pytest.mark.parametrize(("second", "apart"), [(36, True), (37, False), (163, False), (164, True)])
def test_registrations_may_touch_and_not_overlap(kind: str, second: int, apart: bool) -> None:
    """Two contexts in one file, byte by byte: the first has 64 bytes starting at byte 100."""
    with Buffer("memfd", 256, name="both") as buffer:
        leave = buffer_module.record_registration(buffer_module.RegisteredRange(kind, buffer, 100, 64, "one", 1))
        other = buffer_module.RegisteredRange(kind, buffer, second, 64, "two", 2)
        if apart:
            buffer_module.record_registration(other)()
        else:
            with pytest.raises(RunFailed):
                buffer_module.record_registration(other)
        leave()
