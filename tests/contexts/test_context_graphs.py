"""Graphs of restored contexts, called with arrays and bound to memory: in Qualcomm's libraries and in the emulators."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.contexts.conftest import nothing_left
from tests.contexts.stepping import BACKENDS, SHAPE, array, binary, open_runtime
from tests.making import KERNELS, LONG, ROOT, htp_package, need_runtime
from udogen import RunFailed, UsageError
from udogen.errors import UnknownName
from udogen.qnn import abi
from udogen.runtime import Context, ContextOptions, QnnError, Runtime, Tensor
from udogen.runtime.contexts import manifest


@pytest.fixture(scope="module", params=BACKENDS, ids=["-".join(row) for row in BACKENDS])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    with open_runtime(*request.param) as opened:
        yield opened


def blob(runtime: Runtime) -> bytes:
    return binary(runtime.backend, "emulator" if runtime.emulator else "real")


@pytest.fixture
def context(runtime: Runtime) -> Iterator[Context]:
    with runtime.restore(blob(runtime), name="small") as restored:
        yield restored


@pytest.fixture
def emulated() -> Iterator[Context]:
    """On one backend: the behaviour of the Python code alone is the same on all."""
    with open_runtime("cpu", "emulator") as opened, opened.restore(binary("cpu", "emulator"), name="small") as restored:
        yield restored


# --- contents of a context ------------------------------------------------------------------------------------------


def test_graphs_by_name(context: Context) -> None:
    assert set(context.names) == {"step", "look"}
    assert tuple(context.graphs) == context.names
    assert context.graph("look") is context.graph("look")
    step = context.graph("step")
    assert [(tensor.name, tensor.dtype, tensor.shape) for tensor in (*step.inputs, *step.outputs)] == [
        ("state", "FLOAT_32", SHAPE),
        ("x", "FLOAT_32", SHAPE),
        ("next", "FLOAT_32", SHAPE),
    ]


def test_a_graph_that_is_not_there(emulated: Context) -> None:
    with pytest.raises(UnknownName, match="context small has no graph `stepp`") as caught:
        emulated.graph("stepp")
    assert caught.value.hint == "did you mean `step`?"


# --- called with arrays ---------------------------------------------------------------------------------------------


def test_a_call(context: Context) -> None:
    for _ in range(3):
        found = context.graph("step")(state=array(2), x=array(3))
        assert list(found) == ["next"]
        assert found["next"].dtype == np.float32
        assert np.array_equal(found["next"], array(5))


def test_a_call_writes_into_the_arrays_that_it_is_given(context: Context) -> None:
    into = array(0)
    found = context.graph("step")({"state": array(2), "x": array(3)}, out={"next": into})
    assert found["next"] is into
    assert np.array_equal(into, array(5))


def test_outputs_of_two_calls_are_two_arrays(emulated: Context) -> None:
    step = emulated.graph("step")
    first, second = step(state=array(1), x=array(1))["next"], step(state=array(2), x=array(2))["next"]
    assert np.array_equal(first, array(2))
    assert np.array_equal(second, array(4))


def test_what_fits_is_not_copied(emulated: Context) -> None:
    step, frozen = emulated.graph("step"), array(1)
    frozen.flags.writeable = False  # inputs may be read-only
    step({"state": frozen, "x": array(1)}, out={"next": array(0)})
    assert step.copied == 0


def test_what_is_not_contiguous_is_copied_and_counted(emulated: Context) -> None:
    step = emulated.graph("step")
    wide = np.zeros((*SHAPE[:-1], 2 * SHAPE[-1]), np.float32)
    wide[..., ::2] = 7
    assert np.array_equal(step(state=wide[..., ::2], x=array(1))["next"], array(8))
    assert step.copied == array(0).nbytes


FROZEN = array(0)
FROZEN.flags.writeable = False
GIVE_32 = "give an array of float32 with the shape [1, 4, 8]"
GIVE_ALL = "give an array for each input, or bind it"
REFUSED = [  # what differs from a correct call (None: not given), message, hint
    ({"state": array(1).astype("f8")}, "tensor `state` is FLOAT_32 [1, 4, 8], its array is float64 [1, 4, 8]", GIVE_32),
    ({"x": array(1, (1, 8, 4))}, "tensor `x` is FLOAT_32 [1, 4, 8], its array is float32 [1, 8, 4]", GIVE_32),
    ({"state": [1, 2]}, "`state` is given a list", "give a numpy array, or bind a buffer"),
    ({"x": None}, "graph `step` has no memory for `x`", GIVE_ALL),
    ({"state": None, "x": None}, "graph `step` has no memory for `state`, `x`", GIVE_ALL),
    ({"state": None, "stat": array(1)}, "graph `step` has no tensor `stat`", "did you mean `state`?"),
    ({"next": array(1)}, "`next` is an output of graph `step`", "give its array with out={…}"),
    ({"out": {"seen": array(1)}}, "graph `step` has no tensor `seen`", "it has: next, state, x"),
    (
        {"out": {"next": np.zeros((*SHAPE[:-1], 16), np.float32)[..., ::2]}},
        "the array for output `next` is not contiguous",
        "give one made by numpy.empty, or none at all",
    ),
    (
        {"out": {"next": FROZEN}},
        "the array for output `next` is read-only",
        "give one made by numpy.empty, or none at all",
    ),
]


@pytest.mark.parametrize(("changes", "message", "hint"), REFUSED)
def test_what_a_call_refuses(emulated: Context, changes: dict, message: str, hint: str) -> None:
    step = emulated.graph("step")
    given = {"state": array(1), "x": array(1), "out": None} | changes
    out = given.pop("out")
    kind = RunFailed if "no memory" in message else TypeError if "is given" in message else UsageError
    with pytest.raises(kind) as caught:
        step({name: each for name, each in given.items() if each is not None}, out=out)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert np.array_equal(step(state=array(1), x=array(1))["next"], array(2))  # the graph still works


# --- bound once -----------------------------------------------------------------------------------------------------


def test_bound_arrays(context: Context) -> None:
    step, state, x, following = context.graph("step"), array(1), array(2), array(0)
    step.bind({"state": state, "x": x, "next": following})
    step.execute()
    assert np.array_equal(following, array(3))
    state[...] = 10
    step.execute()
    assert np.array_equal(following, array(12))
    assert np.shares_memory(step.array("next"), following)


def test_a_call_of_what_is_bound_in_part(context: Context) -> None:
    step, following = context.graph("step"), array(0)
    step.bind({"state": array(1), "next": following})
    assert step(x=array(4)) == {}
    assert np.array_equal(following, array(5))
    # Arrays of a call are used for that call only.
    assert np.array_equal(step(state=array(20), x=array(4), out={"next": array(0)})["next"], array(24))
    step(x=array(6))
    assert np.array_equal(following, array(7))


def test_an_input_may_be_the_memory_of_an_output(context: Context) -> None:
    state = array(1)
    context.graph("step").bind({"state": state, "x": array(1), "next": state})
    for _ in range(3):
        context.graph("step").execute()
    assert np.array_equal(state, array(4))


def test_execute_needs_everything_bound(emulated: Context) -> None:
    step = emulated.graph("step")
    step.bind({"state": array(1), "x": array(1)})
    with pytest.raises(RunFailed, match=re.escape("graph `step` has no memory for `next`")):
        step.execute()
    step.bind({"next": array(0)})
    step.execute()
    step.unbind(["x"])
    with pytest.raises(RunFailed, match=re.escape("graph `step` has no memory for `x`")):
        step.execute()


def test_what_cannot_be_bound(emulated: Context) -> None:
    step = emulated.graph("step")
    for place, message in (
        (bytearray(100), "tensor `state` (FLOAT_32 [1, 4, 8]) needs 128 bytes, its memory has 100"),
        (array(1, (32,)), "tensor `state` is FLOAT_32 [1, 4, 8], its array is float32 [32]"),
        (7, "tensor `state` cannot be bound to this int: "),
    ):
        with pytest.raises(UsageError) as caught:
            step.bind({"state": place})
        assert caught.value.message.startswith(message)
    with pytest.raises(UsageError, match="tensor `next` cannot be bound to this bytes: "):
        step.bind({"next": bytes(128)})
    with pytest.raises(RunFailed, match="tensor `x` has no memory that can be shown"):
        step.array("x")


# --- closing --------------------------------------------------------------------------------------------------------


def test_after_the_end(runtime: Runtime) -> None:
    context = runtime.restore(blob(runtime), name="small")
    step = context.graph("step")
    step.bind({"state": array(1), "x": array(1), "next": array(0)})
    context.close()
    context.close()
    for use in (step.execute, lambda: step(state=array(1), x=array(1)), lambda: step.bind({"x": array(1)})):
        with pytest.raises(RunFailed, match="graph `step` cannot be used: its context is closed"):
            use()
    with pytest.raises(RunFailed, match="context small is closed"):
        context.graph("step")
    assert context not in runtime.contexts


def test_a_runtime_closes_what_is_open() -> None:
    with open_runtime("cpu", "emulator") as opened:
        first, second = (opened.restore(binary("cpu", "emulator")) for _ in range(2))
    for context in (first, second):
        with pytest.raises(RunFailed, match="is closed"):
            context.graph("step")
    with pytest.raises(RunFailed, match="the runtime is closed"):
        opened.restore(binary("cpu", "emulator"))


def test_from_a_file_nothing_is_left(runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "small.bin"
    manifest.save(file, blob(runtime))
    with runtime.restore(file):
        pass  # opens everything that a runtime opens only once
    with nothing_left():
        for _ in range(20):
            with runtime.restore(file) as context:
                context.graph("step")(state=array(1), x=array(1))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("no.bin", None, "cannot be read: No such file or directory"), ("folder", "folder", "is not a file")],
)
def test_files_that_are_none(emulated: Context, tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content == "folder":
        (tmp_path / name).mkdir()
    with nothing_left(), pytest.raises(RunFailed, match=message):
        emulated.runtime.restore(tmp_path / name)


def test_a_binary_of_another_maker_or_backend(emulated: Context) -> None:
    for backend, kind, message, hint in (
        ("htp", "emulator", "was made for the backend htp, not cpu", "use --backend htp"),
        ("cpu", "real", "was made by Qualcomm's runtime; CPU_UDOGEN_EMULATOR cannot restore it", "use --runtime real"),
    ):
        with pytest.raises(RunFailed, match=message) as caught:
            open_runtime(backend, kind).close()  # skips the test if it is not installed
            emulated.runtime.restore(binary(backend, kind))
        assert caught.value.hint == hint


def test_two_htp_runtimes_and_a_package(tmp_path: Path) -> None:
    """In a child: the library that is loaded first is used."""
    need_runtime("htp")
    package = htp_package(ROOT / "tests/configs/Faults.xml", tmp_path, KERNELS / "faults")
    program = f"""
from pathlib import Path
from udogen.runtime import Runtime
with Runtime("htp", runtime="emulator") as first, Runtime("htp", runtime="real") as second:
    first.register(Path({str(package.library)!r}))
    try:
        second.register(Path({str(package.library)!r}))
    except Exception as refusal:
        print(refusal)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert "cannot be registered in libQnnHtp.so: " in done.stdout
    assert "was loaded into this process first" in done.stdout


# --- threads --------------------------------------------------------------------------------------------------------


def test_threads_on_one_graph(context: Context) -> None:
    step, wrong = context.graph("step"), []

    def work(number: int) -> None:
        for turn in range(100):
            found = step(state=array(number), x=array(turn))["next"]
            if not np.array_equal(found, array(number + turn)):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_in_contexts_of_their_own(runtime: Runtime) -> None:
    wrong = []

    def work(number: int) -> None:
        with runtime.restore(blob(runtime)) as own:
            for turn in range(200):
                found = own.graph("look")(a=array(number), b=array(turn))["seen"]
                if not np.array_equal(found, array(number + turn)):
                    wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "it hangs"
    assert not wrong


def test_asynchronous_executions(context: Context) -> None:
    step, following = context.graph("step"), array(0)
    step.bind({"state": array(1), "x": array(1), "next": following})
    if not context.runtime.emulator:
        with pytest.raises(RunFailed, match="does not execute graphs asynchronously"):
            step.execute_async()
        step.execute()
        return
    for future in [step.execute_async() for _ in range(10)]:
        assert future.result(timeout=30) is None
    assert np.array_equal(following, array(2))
    step.execute()


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_libraries_have_no_tensors_that_a_graph_reads_and_writes(backend: str) -> None:
    """A state in one place would need one: so states are pairs of buffers."""
    need_runtime(backend)
    with Runtime(backend, runtime="real") as opened, opened.new_context() as context:
        state = Tensor("state", "FLOAT_32", (1, 8), role="APP_WRITE")
        state.struct.v1.type = abi.ffi().integer_const("QNN_TENSOR_TYPE_APP_READWRITE")
        with pytest.raises(QnnError, match="tensorCreateGraphTensor failed with 7004"):
            context.new_graph("step").add_tensor(state)


# --- options --------------------------------------------------------------------------------------------------------


def test_deferred_graphs() -> None:
    with open_runtime("htp", "emulator") as opened:
        with opened.restore(binary("htp", "emulator"), name="small", deferred=True) as context:
            with pytest.raises(RunFailed, match="the graphs of context small are deferred"):
                context.graph("step")
            context.finalize()
            assert np.array_equal(context.graph("step")(state=array(1), x=array(1))["next"], array(2))
            with pytest.raises(RunFailed, match="context small has its graphs already"):
                context.finalize()
        with opened.restore(binary("htp", "emulator")) as context, pytest.raises(RunFailed, match="already"):
            context.finalize()


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_some_graphs_only(backend: str) -> None:
    with (
        open_runtime(backend, "emulator") as opened,
        opened.restore(binary(backend, "emulator"), options=ContextOptions(graphs=("look",))) as context,
    ):
        assert np.array_equal(context.graph("look")(a=array(1), b=array(2))["seen"], array(3))
        with pytest.raises(QnnError, match="6035"):
            context.graph("step")(state=array(1), x=array(1))


def test_measures(context: Context, runtime: Runtime) -> None:
    with runtime.restore(blob(runtime), profile=True) as measured:
        measured.graph("step")(state=array(1), x=array(1))
        assert measured.profile is not None
        assert measured.profile.events()
