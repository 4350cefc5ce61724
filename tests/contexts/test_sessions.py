"""Sessions on the emulators and the real libraries: what they map, within limits; three devices in a child process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.contexts.conftest import refused
from tests.contexts.stepping import BACKENDS, array, binary, open_runtime
from tests.making import LONG, ROOT
from udogen import RunFailed, UsageError
from udogen.runtime import Buffer, MemoryDomain, QnnError, Role, Runtime
from udogen.runtime.buffers.domains import INPUT, OUTPUT
from udogen.runtime.sessions import (
    MIB,
    Layer,
    Session,
    Sessions,
    SessionSpec,
    Sizes,
    place_layers,
    sessions_of,
)


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with open_runtime("cpu", "emulator") as opened:
        yield opened


@pytest.fixture(scope="module")
def stored() -> bytes:
    return binary("cpu", "emulator")


def test_contexts_are_counted_and_refused_beyond_the_limit(runtime: Runtime, stored: bytes) -> None:
    with Session(runtime, SessionSpec("HTP0", 0, 20 * MIB)) as session:
        opened = session.open(Layer("a", 10 * MIB, cache=2 * MIB, compute=2 * MIB), stored)
        assert (session.sizes, session.free) == (Sizes(10 * MIB, 2 * MIB, 2 * MIB), 6 * MIB)
        session.open(Layer("b", 5 * MIB), stored)
        with refused(
            "session HTP0 may map 20.00 MiB and maps 19.00 MiB: with context `c` it would be 21.00 MiB",
            hint="place layers on another session, or split the model into smaller shards",
        ):
            session.open(Layer("c", 2 * MIB), stored)
        assert len(session.contexts) == len(runtime.contexts) == 2
        opened.close()
        assert (len(session.contexts), session.free) == (1, 15 * MIB)
        session.open(Layer("c", 2 * MIB), stored)
        with refused("session HTP0 already has a context `b`", error=UsageError):
            session.open(Layer("b", 5 * MIB), stored)
    assert runtime.contexts == () and session.free == 20 * MIB


@pytest.mark.parametrize("owner", ["runtime", "sessions"])
def test_managed_buffers_count_in_each_session_that_maps_them(runtime: Runtime, stored: bytes, owner: str) -> None:
    """What the layers have reserved for tensors is used first."""
    layers = [Layer("a", 750, compute=100), Layer("b", 900)]
    specs = [SessionSpec(name, 0, 1000) for name in ("HTP0", "HTP1")]
    with Sessions(runtime, place_layers(layers, specs, exactly=2), {"a": stored, "b": stored}) as sessions:
        first, second = sessions.sessions.values()
        one, two = (sessions.context(name).graph("step") for name in "ab")
        with MemoryDomain(runtime if owner == "runtime" else sessions) as domain:
            handed = domain.allocate([Role(one, "next", OUTPUT), Role(two, "x", INPUT)], name="h")  # 128 bytes
            one.bind({"next": handed})
            assert (first.free, second.free) == (150 - 28, 100)
            with refused("session HTP1 may map 1000 bytes and maps 900 bytes: with buffer `h` it would be 1028 bytes"):
                two.bind({"x": handed})
            with refused("session HTP0 may map 1000 bytes and maps 878 bytes: with buffer `k` it would be 1006 bytes"):
                one.bind({"state": domain.allocate([Role(one, "state", INPUT)], name="k")})
            handed.close()
            assert (first.free, second.free) == (150, 100)
        with pytest.raises(UsageError, match="does not belong to memory domain"), MemoryDomain(first) as mine:
            mine.allocate([Role(two, "next", OUTPUT)])


def test_registered_buffers_are_of_the_account_too() -> None:
    """Shared memory, regardless of how a context gets it; a buffer counts once for any number of tensors."""
    with open_runtime("htp", "emulator") as runtime, Session(runtime, SessionSpec("one", 0, 10_000)) as session:
        stored = binary("htp", "emulator")
        first, second = (session.open(Layer(name, 1000, compute=500), stored) for name in "ab")
        assert session.free == 7000
        with Buffer("memfd", 4096, name="large") as buffer, Buffer("memfd", 4096, name="larger") as other:
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
            with Buffer("memfd", 512) as small:
                second.graph("look").bind({"a": small})
                assert session.free == 3904 - 512
            assert session.free == 3904
        assert session.free == 7000


def test_threads_cannot_open_beyond_the_limit(runtime: Runtime, stored: bytes) -> None:
    """Simultaneous requests are counted one after another."""
    with Session(runtime, SessionSpec("one", 0, 1000)) as session:

        def ask(number: int) -> None:
            start.wait()
            try:
                session.open(Layer(str(number), 200), stored)
            except RunFailed:
                refusals.append(number)

        start, refusals = threading.Barrier(8), list[int]()
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (session.free, len(refusals)) == (0, 3)


@pytest.mark.parametrize(("backend", "kind"), BACKENDS)
def test_there_is_a_session_for_each_device_and_no_other(backend: str, kind: str) -> None:
    with open_runtime(backend, kind) as runtime:
        [spec] = sessions_of(runtime, limit=5)
        assert (spec.name, spec.device, spec.limit) == ("HTP0" if backend == "htp" else "CPU", 0, 5)
        has = re.escape(f"3 sessions are requested, but {runtime.path.name} has one session")
        with pytest.raises(UsageError, match=has) as refused_ones:
            sessions_of(runtime, 3)
        assert ("UDOGEN_HTP_DEVICES=" in refused_ones.value.hint) == ((backend, kind) == ("htp", "emulator"))
        with Session(runtime, sessions_of(runtime)[0]) as session:
            step = session.open(Layer("a", 1), binary(backend, kind)).graph("step")
            np.testing.assert_array_equal(step(state=array(1), x=array(2))["next"], array(3))


def test_nothing_stays_open_when_one_shard_cannot_be_opened(runtime: Runtime, stored: bytes, tidy: None) -> None:
    layers = [Layer("a", 1), Layer("b", 1)]
    plan = place_layers(layers, [SessionSpec(name, 0) for name in "ab"], exactly=2)
    with pytest.raises(RunFailed):
        Sessions(runtime, plan, {"a": stored, "b": stored[: len(stored) // 2]})
    assert runtime.contexts == ()


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


def test_a_model_on_three_devices(tmp_path: Path) -> None:
    """Six shards; in a child, as the emulator reads the number of devices once per process."""
    program = """
import json, sys
from pathlib import Path
from tests.contexts.stepping import array, binary
from udogen import Model
from udogen.runtime import ModelDescription, QnnError, Runtime
lines = []
folder = Path(sys.argv[1])
for number in range(6):
    (folder / f"forward_{number}.bin").write_bytes(binary("htp", "emulator"))
size = (folder / "forward_0.bin").stat().st_size
given = ModelDescription(
    contexts=(folder,), graphs=("step",), links={"state": "next"}, state={}, memory="raw", runtime="emulator",
    backend="htp",
)
runtime = Runtime("htp", runtime="emulator", log=lambda _, line: lines.append(line), log_level=3)
with runtime, Model(given.changed({"session_limit": 2 * size + 1000}), runtime=runtime) as model:
    found = model.step(state=array(1), x=array(2))["next"]
    report = {
        "sessions": [[row.session.name, row.session.device, list(row.layers)] for row in model.session_plan.shares],
        "archs": [session.device.arch for session in model.sessions.sessions.values()],
        "result": float(found.max()),
        "copied": model.copied,
        "holders": [len(buffer.held_by) for buffer in model.domain.buffers],
    }
    try:  # a handle of its own has the same process domain, which is full
        runtime.restore(folder / "forward_0.bin", device=1)
    except QnnError as error:
        report["full"] = [error.code, error.message]
report["handles"] = [line for line in lines if "device handles" in line]
print(json.dumps(report))
"""
    size = len(binary("htp", "emulator"))
    limit = {"UDOGEN_HTP_DEVICES": "SM8650,SM8550,SM8750x2", "UDOGEN_HTP_SESSION_LIMIT": str(2 * size + 1000)}
    env = {**os.environ, "PYTHONPATH": str(ROOT), **limit}
    argv = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "sessions": [[f"HTP{i}", i, [f"forward_{2 * i}", f"forward_{2 * i + 1}"]] for i in range(3)],
        "archs": [75, 73, 79],
        "result": 13.0,
        "copied": 0,
        "holders": [2] * 5,
        "full": [
            1002,
            "contextCreateFromBinary failed with 1002 (QNN_COMMON_ERROR_MEM_ALLOC): the process domain of HTP1 may map "
            f"{2 * size + 1000} bytes, with this context it would be {3 * size}",
        ],
        "handles": [f"HTP{i}: unsigned process domain, 1 device handles" for i in range(3)],
    }
