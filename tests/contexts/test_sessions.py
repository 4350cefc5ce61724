"""Sessions and pipelines on both emulators and both real libraries; three devices in a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.contexts.conftest import refused
from tests.contexts.stepping import BACKENDS, array, binary, open_runtime
from tests.making import ROOT
from udogen.errors import RunFailed, UsageError
from udogen.qnn.interface import QnnError
from udogen.qnn.system import binary_info
from udogen.runtime.buffers.domains import INPUT, OUTPUT, MemoryDomain, Role
from udogen.runtime.buffers.memory import allocate
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.sessions.pipeline import Copies, Pipeline
from udogen.runtime.sessions.placement import (
    MIB,
    Activation,
    Layer,
    SessionSpec,
    SizedShard,
    Sizes,
    layers_of,
    place_layers,
    session_specs,
)
from udogen.runtime.sessions.session import Session, Sessions, devices_of, sessions_of

LINKS = {"state": "next"}


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda row: f"{row[0]}-{row[1]}")
def everywhere(request: pytest.FixtureRequest) -> Iterator[tuple[Runtime, bytes]]:
    with open_runtime(*request.param) as runtime:
        yield runtime, binary(*request.param)


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with open_runtime("cpu", "emulator") as opened:
        yield opened


@pytest.fixture(scope="module")
def stored() -> bytes:
    return binary("cpu", "emulator")


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_contexts_are_counted_and_refused_beyond_the_limit(runtime: Runtime, stored: bytes) -> None:
    hidden = Activation("h", MIB)
    first = Layer("a", 10 * MIB, cache=2 * MIB, compute=MIB, activations=(hidden,))
    second = Layer("b", 5 * MIB, activations=(hidden,))
    with Session(runtime, SessionSpec("HTP0", 0, 20 * MIB)) as session:
        opened = session.open(first, stored)
        assert (session.sizes, session.free) == (Sizes(10 * MIB, 2 * MIB, 2 * MIB), 6 * MIB)
        session.open(second, stored)
        assert session.free == MIB  # `h` is mapped once
        with refused(
            "session HTP0 may map 20.00 MiB and maps 19.00 MiB: with context `c` it would be 21.00 MiB",
            hint="place layers on another session, or split the model into smaller shards",
        ):
            session.open(Layer("c", 2 * MIB), stored)
        assert len(session.contexts) == len(runtime.contexts) == 2
        opened.close()
        assert (len(session.contexts), session.free) == (1, 14 * MIB)
        session.open(Layer("c", 2 * MIB), stored)
        with refused("session HTP0 already has a context `b`", error=UsageError):
            session.open(second, stored)
    assert runtime.contexts == () and session.free == 20 * MIB


def test_buffers_take_from_what_the_plan_has_counted_for_them(runtime: Runtime, stored: bytes) -> None:
    with Session(runtime, SessionSpec("HTP0", 0, 1000)) as session:
        context = session.open(Layer("a", 700, cache=150), stored)
        step = context.graph("step")
        roles = [Role(step, "state", INPUT), Role(step, "next", OUTPUT)]
        with MemoryDomain(session) as domain:
            assert domain.name == "HTP0"
            first = domain.allocate(roles, name="k")  # 128 bytes
            assert session.sizes == Sizes(700, 150, 0)
            domain.allocate(roles, name="v")
            assert session.sizes == Sizes(700, 256, 0)
            with refused("session HTP0 may map 1000 bytes and maps 956 bytes: with buffer `w` it would be 1084 bytes"):
                domain.allocate(roles, name="w")
            first.free()
            assert session.sizes == Sizes(700, 150, 0)
            domain.allocate(roles, name="w")
        assert session.sizes == Sizes(700, 150, 0)


@pytest.mark.parametrize("owner", ["runtime", "session", "sessions"])
def test_the_limit_is_one_account_whoever_allocates(runtime: Runtime, stored: bytes, owner: str) -> None:
    """Every session that uses one end of a buffer maps it; the layers reserve nothing for it."""
    layers = [Layer("a", 800), Layer("b", 900)]
    plan = place_layers(layers, session_specs(2, limit=1000, devices=(0, 0)), exactly=2)
    with Sessions(runtime, plan, {"a": stored, "b": stored}) as sessions:
        first, second = sessions.sessions.values()
        one, two = (sessions.context(name).graph("step") for name in "ab")
        mine = {"runtime": runtime, "session": first, "sessions": sessions}[owner]
        with MemoryDomain(mine) as domain:
            kept = domain.allocate([Role(one, "next", OUTPUT)], name="h")  # 128 bytes
            assert (first.free, second.free) == (72, 100)
            with pytest.raises(RunFailed) as caught:
                domain.allocate([Role(one, "state", INPUT)], name="k")
            message = "session HTP0 may map 1000 bytes and maps 928 bytes: with buffer `k` it would be 1056 bytes"
            assert caught.value.message == message
            kept.free()
            if owner != "session":
                with pytest.raises(RunFailed) as caught:  # fits into the first one, not into the second
                    domain.allocate([Role(one, "next", OUTPUT), Role(two, "state", INPUT)], name="h")
                assert caught.value.message.startswith("session HTP1 may map 1000 bytes")
            assert (first.free, second.free) == (200, 100)


def test_registered_buffers_are_of_the_account_too() -> None:
    """Shared memory, regardless of how a context gets it; a buffer counts once for any number of tensors."""
    with open_runtime("htp", "emulator") as runtime, Session(runtime, SessionSpec("one", 0, 10_000)) as session:
        stored = binary("htp", "emulator")
        first, second = (session.open(Layer(name, 1000, compute=500), stored) for name in "ab")
        assert session.free == 7000
        with allocate("memfd", 4096, name="large") as buffer, allocate("memfd", 4096, name="larger") as other:
            for context in (first, second):
                context.graph("step").bind({"x": buffer.part(0), "state": buffer.part(1024)})
            assert session.free == 7000 - (4096 - 1000)  # the layers have reserved 1000 for tensors
            with refused(
                "session one may map 10000 bytes and maps 6096 bytes: with buffer `larger` it would be 10192 bytes"
            ):
                first.graph("look").bind({"a": other})
            for context in (first, second):
                assert session.free == 3904
                context.graph("step").unbind()
            assert session.free == 7000
            first.graph("look").bind({"a": other})
            with pytest.raises(RunFailed):
                second.graph("look").bind({"a": buffer})
            with allocate("memfd", 512) as small:
                second.graph("look").bind({"a": small})
                assert session.free == 3904 - 512
            assert session.free == 3904
        assert session.free == 7000


def test_threads_cannot_open_or_allocate_beyond_the_limit(runtime: Runtime, stored: bytes) -> None:
    """Simultaneous requests are counted one after another."""
    with Session(runtime, SessionSpec("one", 0, 1000)) as session, MemoryDomain(session) as domain:
        step = session.open(Layer("first", 1), stored).graph("step")

        def ask(number: int) -> None:
            start.wait()
            for call in (
                lambda: session.open(Layer(str(number), 200), stored),
                lambda: domain.allocate([Role(step, "next", OUTPUT)]),
            ):
                try:
                    call()
                except RunFailed:
                    refused.append(number)

        start, refused = threading.Barrier(8), list[int]()
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.free >= 0 and len(refused) >= 8


# --- closing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["closed", "dropped", "its domain closed"])
def test_a_pipeline_leaves_its_graphs_free_for_the_next_one(everywhere: tuple[Runtime, bytes], how: str) -> None:
    runtime, stored = everywhere
    with runtime.restore(stored) as one, runtime.restore(stored) as two:
        graphs = [one.graph("step"), two.graph("step")]
        for turn in range(3):
            with MemoryDomain(runtime) as domain:
                pipeline = Pipeline(graphs, domain, links=LINKS)
                assert pipeline.inputs == ("state", "x") and pipeline.outputs == ("next",)
                np.testing.assert_array_equal(pipeline(state=array(turn), x=array(1))["next"], array(turn + 2))
                if how == "closed":
                    pipeline.close()
                    with pytest.raises(RunFailed, match="the pipeline is closed"):
                        pipeline(state=array(turn), x=array(1))
                elif how == "dropped":
                    del pipeline
                if how != "its domain closed":
                    with pytest.raises(RunFailed, match=r"has no memory for `.*`: buffer `0\.next` was freed"):
                        graphs[0].execute()
                    with Pipeline(graphs, domain, links=LINKS) as again:
                        np.testing.assert_array_equal(again(state=array(1), x=array(1))["next"], array(3))
            with pytest.raises(RunFailed, match="graph `step` has no memory for") as caught:
                graphs[0].execute()
            assert "was freed" in caught.value.message or "was closed" in caught.value.message
            np.testing.assert_array_equal(graphs[0](state=array(1), x=array(1))["next"], array(2))


def test_the_domain_of_a_session_is_not_for_contexts_of_another(runtime: Runtime, stored: bytes) -> None:
    with Session(runtime, SessionSpec("HTP0", 0)) as first, Session(runtime, SessionSpec("HTP1", 0)) as second:
        mine = first.open(Layer("a", 1), stored, name="a").graph("step")
        other = second.open(Layer("b", 1), stored, name="b").graph("step")
        with MemoryDomain(first) as domain, MemoryDomain(second) as others:
            with refused("context b does not belong to memory domain `HTP0` of buffer `h`", error=UsageError):
                domain.allocate([Role(mine, "next", OUTPUT), Role(other, "state", INPUT)], name="h")
            token = domain.allocate([Role(mine, "next", OUTPUT)]).token
            with refused(f"token {token} is of memory domain `HTP0`, not of `HTP1`"):
                others.use(token)


def test_a_device_that_is_not_there() -> None:
    with open_runtime("htp", "emulator") as runtime:
        there = devices_of(runtime)
        assert [each.name for each in there][:1] == ["HTP0"] and there[0].arch
        with pytest.raises(UsageError) as caught:
            Session(runtime, SessionSpec("HTP7", 7))
        assert caught.value.message == "session HTP7 is to run on device 7, which does not exist"
        assert caught.value.hint.startswith("devices: 0 (HTP0)")


def test_the_number_of_a_device_reaches_the_backend() -> None:
    with open_runtime("htp", "emulator") as runtime:
        runtime.new_context(device=0).close()
        with pytest.raises(QnnError, match="HTP7 does not exist"):
            runtime.new_context(device=7)


def test_sessions_take_turns_with_the_devices(everywhere: tuple[Runtime, bytes]) -> None:
    runtime, stored = everywhere
    specs = sessions_of(runtime, 3, limit=5)
    count = max(1, len(devices_of(runtime)))
    assert [(each.name, each.device, each.limit) for each in specs] == [(f"HTP{i}", i % count, 5) for i in range(3)]
    with Session(runtime, sessions_of(runtime)[0]) as session:
        made = session.open(Layer("a", 1), stored).graph("step")
        np.testing.assert_array_equal(made(state=array(1), x=array(2))["next"], array(3))


# --- a model on several sessions --------------------------------------------------------------------------------------


def test_shards_on_sessions_as_one_function(everywhere: tuple[Runtime, bytes], tidy: None) -> None:
    """Four shards on three sessions: a chain of sums.  No data is copied between them."""
    runtime, stored = everywhere
    info = binary_info(runtime.system, stored)
    layers = layers_of([SizedShard(f"s{i}", info, len(stored)) for i in range(4)], links=LINKS)
    plan = place_layers(layers, session_specs(3, devices=(0, 0, 0)), exactly=3)
    assert [len(share.layers) for share in plan.shares] in ([2, 1, 1], [1, 2, 1], [1, 1, 2])
    assert len(plan.handovers) == 2
    with (
        Sessions(runtime, plan, {layer.name: stored for layer in layers}) as sessions,
        MemoryDomain(sessions) as domain,
        Pipeline(sessions.graphs("step"), domain, links=LINKS) as pipeline,
    ):
        assert (pipeline.inputs, pipeline.outputs) == (("state", "x"), ("next",))
        assert [connection.name for connection in pipeline.connections] == ["0.next", "1.next", "2.next"]
        for value in range(3):
            found = pipeline(state=array(value), x=array(2))
            np.testing.assert_array_equal(found["next"], array(value + 8))
            assert pipeline.last == Copies(0, 0, 0, 0)
        room = array(0)
        assert pipeline({"state": array(1), "x": array(1)}, out={"next": room})["next"] is room
        np.testing.assert_array_equal(room, array(5))
        pipeline(state=np.asfortranarray(np.ones((1, 4, 8), np.float32)), x=array(1))
        assert pipeline.last == Copies(input=128) and pipeline.last.total == 128
        assert (pipeline.executions, pipeline.copied) == (5, Copies(input=128))
        assert sessions.session_of(sessions.context("s0")).name == "HTP0"


def test_a_state_swaps_after_each_execution(everywhere: tuple[Runtime, bytes]) -> None:
    """Two shards with a state each, and a last one that reads the output of the first."""
    runtime, stored = everywhere
    with runtime.restore(stored) as one, runtime.restore(stored) as two, MemoryDomain(runtime) as domain:
        steps, states = [one.graph("step"), two.graph("step")], []
        for each in steps:
            states.append(domain.pair([Role(each, "state", INPUT), Role(each, "next", OUTPUT)]))
            states[-1].bind(each, reads="state", writes="next")
            states[-1].copy_from(array(0))
        with Pipeline(steps, domain, states=states) as pipeline:
            assert (pipeline.inputs, pipeline.outputs, pipeline.connections) == (("x",), (), ())
            for _ in range(5):
                assert pipeline(x=array(3)) == {}
            assert pipeline.copied == Copies()
            assert [float(each.copy_to().max()) for each in states] == [15, 15]
            assert pipeline.copied == Copies(state=256)
            pipeline(x=array(3))
            assert (pipeline.last, pipeline.copied) == (Copies(), Copies(state=256))


def test_threads_on_one_pipeline_take_turns(runtime: Runtime, stored: bytes) -> None:
    with runtime.restore(stored) as one, runtime.restore(stored) as two, MemoryDomain(runtime) as domain:
        wrong: list[object] = []
        with Pipeline([one.graph("step"), two.graph("step")], domain, links=LINKS) as pipeline:

            def work(value: int) -> None:
                for _ in range(200):
                    try:
                        found = pipeline(state=array(value), x=array(1))["next"]
                        if not np.array_equal(found, array(value + 2)):
                            wrong.append(found)
                    except Exception as problem:
                        wrong.append(problem)

            threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert not wrong and pipeline.executions == 800


def test_outputs_of_one_name_are_kept_apart(runtime: Runtime, stored: bytes) -> None:
    with runtime.restore(stored) as context, MemoryDomain(runtime) as domain:
        with Pipeline([context.graph("look"), context.graph("step")], domain) as pipeline:
            assert pipeline.outputs == ("seen", "next")
        with runtime.restore(stored) as other, Pipeline([context.graph("step"), other.graph("step")], domain) as two:
            assert (two.inputs, two.outputs) == (("state", "x"), ("0.next", "1.next"))
            found = two(state=array(1), x=array(1))
            np.testing.assert_array_equal(found["0.next"], found["1.next"])


def test_arrays_that_are_missing_or_too_many(runtime: Runtime, stored: bytes) -> None:
    with (
        runtime.restore(stored) as context,
        MemoryDomain(runtime) as domain,
        Pipeline([context.graph("step")], domain) as pipeline,
    ):
        with pytest.raises(UsageError) as caught:
            pipeline({"stat": array(1)}, x=array(1), out={"nxt": array(1)})
        assert caught.value.message == "3 problems with the arrays of a pipeline"
        assert list(caught.value.details) == [
            "there is no input `stat`: did you mean `state`?",
            "there is no array for input `state`",
            "there is no output `nxt`: did you mean `next`?",
        ]
        assert caught.value.hint == "inputs: state, x; outputs: next"
        with pytest.raises(RunFailed) as refusal:
            pipeline(state=array(1), x=array(1, (1, 4, 7)))
        assert refusal.value.message.startswith("stage 0 (graph `step` in (bytes)): tensor `x` is FLOAT_32")
    with refused("a pipeline needs at least one graph", error=UsageError):
        Pipeline([], domain)


def test_nothing_stays_open_when_one_shard_cannot_be_opened(runtime: Runtime, stored: bytes, tidy: None) -> None:
    layers = [Layer("a", 1), Layer("b", 1)]
    plan = place_layers(layers, session_specs(2, devices=(0, 0)), exactly=2)
    with refused("there is no context binary for `b`", error=UsageError):
        Sessions(runtime, plan, {"a": stored})
    with pytest.raises(RunFailed):
        Sessions(runtime, plan, {"a": stored, "b": stored[: len(stored) // 2]})
    assert runtime.contexts == ()


# --- sizes that the runtime reports -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["emulator", "real"])
def test_a_deferred_context_reports_what_it_needs(kind: str) -> None:
    with open_runtime("htp", kind) as runtime, runtime.restore(binary("htp", kind), deferred=True) as context:
        weights, spill = map(context.handle.property, ("WEIGHTS_BUFFER_SIZE", "MAX_SPILLFILL_BUFFER_SIZE"))
        if kind == "real":  # libQnnHtp 2.47 on a PC: 4 MiB for two graphs without weights
            assert (weights, spill) == (4 << 20, 0)
    with (
        open_runtime("cpu", "emulator") as runtime,
        runtime.restore(binary("cpu", "emulator")) as context,
        pytest.raises(QnnError),
    ):
        context.handle.property("WEIGHTS_BUFFER_SIZE")


# --- three devices ----------------------------------------------------------------------------------------------------


def test_three_sessions_on_three_devices(tmp_path: Path) -> None:
    """In a child: the emulator reads the number of devices once per process."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("three_sessions.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT), "UDOGEN_HTP_DEVICES": "SM8650,SM8550,SM8750x2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["devices"] == [["HTP0", 75, 1], ["HTP1", 73, 1], ["HTP2", 79, 2]]
    assert report["sessions"] == {"HTP0": [0, ["s0", "s1"]], "HTP1": [1, ["s2", "s3"]], "HTP2": [2, ["s4", "s5"]]}
    assert report["result"] == 13.0 and report["copied"] == 0 and report["registered"] == 10
