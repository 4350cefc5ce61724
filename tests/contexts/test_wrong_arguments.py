"""Calls on closed objects are udogen's own errors, and wrong arguments have sentences (all: test_wrong_calls.py)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest

from tests.contexts.stepping import array, open_runtime
from tests.contexts.test_wrong_calls import INTERNAL, World, outcome
from udogen import GraphBuilder, UdogenError
from udogen.runtime import Buffer, ContextOptions, Role, StoredContext
from udogen.runtime.sessions import Layer, Session, SessionSpec


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, tmp_path_factory.mktemp("world"))


ANYTIME = {"Constants", "HexagonSession"}  # they may be entered again: there is nothing that stays open


@pytest.mark.parametrize("backwards", [False, True])
def test_every_call_on_closed_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool) -> None:
    """Closed in any order, twice: only `close` works, and does nothing."""
    monkeypatch.chdir(tmp_path)
    bad = []
    with suppress(UdogenError), ExitStack() as stack:  # a draft cannot be finished any more
        closed = World(stack, tmp_path / "world")
        objects = [each for each in closed.objects if hasattr(each, "close")][:: -1 if backwards else 1]
        for each in (*objects, *objects):
            each.close()
            bad += [] if repr(each) else [f"{type(each).__name__}.__repr__"]
        for each in objects:
            kind, kinds = type(each).__name__, [base.__name__ for base in type(each).__mro__]
            left_out = {"close"}.union(*(INTERNAL.get(base, ()) for base in kinds))
            for name, _ in inspect.getmembers(type(each), inspect.isfunction):
                if (name.startswith("_") and name != "__call__") or name in left_out:
                    continue
                given = [closed.right[f"{base}.{name}"] for base in kinds if f"{base}.{name}" in closed.right]
                how = outcome(getattr(each, name), given[0] if given else {})
                bad += [f"{kind}.{name}: {how}"] if how not in ("accepted", "refused") else []
            if hasattr(each, "__enter__") and kind not in ANYTIME and outcome(each.__enter__, {}) != "refused":
                bad.append(f"{kind}.__enter__")
        bad.append("all")
    assert bad == ["all"]


# --- regressions ------------------------------------------------------------------------------------------------------


def test_packages_are_registered_by_whatever_leads_to_them(world: World) -> None:
    package = world.built.library
    folder = package.parents[2]
    assert (folder / "src").is_dir()
    for given in (package, str(package), folder, str(folder), folder.parent):
        with open_runtime("cpu", "emulator") as runtime:
            runtime.register(given)
            assert len(runtime.executions()) == 1
            assert repr(runtime) == "<Runtime CPU_UDOGEN_EMULATOR (cpu, emulator): 0 contexts, 1 op packages>"


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda it: it.runtime.restore(None), "Runtime.restore: `binary` is None", "give "),
        (lambda it: it.runtime.restore("no.bin"), "no.bin cannot be read: No such file", "give the path of a context"),
        (
            lambda it: it.runtime.register(None),
            "Runtime.register: `library` is None",
            "give a str or a path",
        ),
        (lambda it: it.graph.context.graph(None), "Context.graph: `name` is None", "give a str"),
        (lambda it: it.graph.bind(None), "the argument of `bind` of graph `step` is None", "give a dict"),
        (lambda it: it.graph.bind({"x": None}), "tensor `x` cannot be bound to this None", "give a contiguous array"),
        (
            lambda it: it.graph.unbind("x"),
            "Graph.unbind: `names` is a str: 'x'",
            "give a str in a list",
        ),
        (
            lambda it: it.graph({"x": np.ma.masked_equal(array(1), 1), "state": array(1)}),
            "`x` is given a masked array, and runtimes have no masks",
            "replace the masked elements: array.filled(value)",
        ),
        (
            lambda _it: ContextOptions(htp={"SHARE_RESOURCE": 1}),
            "HTP has no context option `SHARE_RESOURCE`",
            "did you mean `SHARE_RESOURCES`?",
        ),
        (
            lambda it: it.runtime.restore(it.file, options={"deferred": True}),
            "Runtime.restore: `options` is a dict",
            "give a ContextOptions",
        ),
        (
            lambda it: it.domain.allocate([Role(it.graph, "state", "inptu")]),
            "`inptu` is not a usage",
            "did you mean `input`?",
        ),
    ],
)
def test_what_was_met(world: World, call: Callable[[World], object], message: str, hint: str) -> None:
    with pytest.raises(UdogenError) as caught:
        call(world)
    assert message in caught.value.message and hint in caught.value.hint


def test_paths_and_stored_contexts_are_restored(world: World) -> None:
    for given in (
        world.file,
        str(world.file),
        world.file.read_bytes(),
        bytearray(world.file.read_bytes()),
        StoredContext(world.file, guarded=False),
    ):
        with world.runtime.restore(given) as context:
            assert context.names == ("look", "step")
            assert context.name == ("(bytes)" if isinstance(given, (bytes, bytearray)) else str(world.file))


def test_what_objects_say_of_themselves(world: World) -> None:
    name = world.runtime.name
    context = world.runtime.restore(world.file, name="a")
    assert repr(context) == f"<Context a of {name}: look, step>"
    graph = context.graph("step")
    graph.bind({"x": array(1)})
    tensors = "state FLOAT_32 [1, 4, 8], x FLOAT_32 [1, 4, 8] (bound), next FLOAT_32 [1, 4, 8]"
    assert repr(graph) == f"<Graph step of context a: {tensors}>"
    assert repr(graph.binding("x")) == f"<TensorBinding of {graph.inputs[1]!r}: bound>"
    context.close()
    with GraphBuilder("cpu", runtime="emulator") as builder, builder.graph("g", outputs=["y"]) as draft:
        draft.op("Relu", [draft.input("x", "FLOAT_32", (4,))], "y", shape=(4,))
        assert repr(draft) == "<GraphDraft g: x, y>"
        assert repr(builder) == f"<GraphBuilder of {name}: no graphs>"
    with Session(world.runtime, SessionSpec("two", 0)) as session:
        session.open(Layer("b", 1), world.file)
        assert repr(session) == f"<Session two of {name}: 1 contexts, maps 1 bytes of 3337.86 MiB>"
    assert (
        repr(StoredContext(world.file, guarded=False)) == f"<StoredContext {world.file} (matches manifest): look, step>"
    )
    with Buffer("client", 64, name="b") as buffer:
        assert repr(buffer) == f"<Buffer b (client): 64 bytes at {buffer.address:#x}>"
    assert repr(buffer) == "<Buffer b (client): closed>"
    with world.runtime.restore(world.file, name="c") as context:
        look = context.graph("look")
    assert (repr(context), repr(look)) == (f"<Context c of {name}: closed>", "<Graph look of context c: closed>")
