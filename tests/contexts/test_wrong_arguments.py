"""Calls on closed objects are udogen's own errors, and wrong arguments have sentences (all: test_wrong_calls.py)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contexts.stepping import SHAPE, array, binary, open_runtime
from tests.making import ONE_KERNEL, ONE_OP, cpu_package
from udogen import GraphBuilder
from udogen.errors import RunFailed, UdogenError
from udogen.qnn.handles import ContextOptions
from udogen.qnn.interface import QnnError
from udogen.runtime import Buffer, MemoryDomain, Role, Runtime, StoredContext, find_runtime
from udogen.runtime.contexts import manifest
from udogen.runtime.library import interface_providers
from udogen.runtime.ops import add_op_package, executions, read_registration
from udogen.runtime.sessions import Layer, Session, SessionSpec

# Methods that callers do not use: the other side of a protocol between objects of udogen.
INTERNAL = {
    "Runtime": {"forget", "disown", "check_process", "device", "register_file", "validate"},
    "Context": {"disown", "idle", "on_close", "keep"},
    "Graph": {"bind_both", "disown", "flip", "idle", "lend", "release"},
    "MemoryDomain": {"forget"},
    "Buffer": {"attach", "attached", "hold", "reserve"},
    "ManagedBuffer": {"attach", "attached", "hold", "reserve"},
}


class World:
    """One open object of each kind, recreated for each call that may change them."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self.runtime, blob = runtime, binary("cpu", "emulator")
        self.file = folder / "forward_0.bin"
        manifest.save(self.file, blob)
        self.context = runtime.restore(blob, name="a")
        self.graph = self.context.graph("step")
        self.domain = MemoryDomain(runtime)
        self.roles = [Role(self.graph, "state", "input"), Role(self.graph, "next", "output")]
        self.managed, self.pair = self.domain.allocate(self.roles), self.domain.pair(self.roles)
        self.buffer = Buffer("memfd", 4096)
        self.stored = StoredContext(self.file, guarded=False)

    def objects(self) -> list[Any]:
        return [
            *(self.runtime, self.context, self.graph, self.domain, self.managed, self.pair, self.buffer, self.stored),
        ]

    def calls(self) -> dict[str, Callable[..., Any]]:
        """Return every public method and constructor, by name."""
        found: dict[str, Callable[..., Any]] = {}
        for each in self.objects():
            kind = type(each).__name__
            for name in dir(type(each)):
                left_out = name.startswith("_") or name in {*INTERNAL.get(kind, ()), "close"}
                if inspect.isfunction(getattr(type(each), name)) and not left_out:
                    found[f"{kind}.{name}"] = getattr(each, name)
        found["Graph.__call__"] = self.graph.__call__
        makers = (Runtime, Buffer, MemoryDomain, StoredContext)
        functions = (find_runtime, interface_providers, executions, read_registration, add_op_package)
        found |= {function.__name__: function for function in (*makers, *functions)}
        return found

    def right(self, name: str) -> dict[str, Any]:
        """Return valid arguments for the parameters of these names."""
        known: dict[str, Any] = {
            "name": "step",
            "places": {"x": array(1)},
            "inputs": {},
            "binary": self.file,
            "library": self.file,
            "runtime": self.runtime,
            "owner": self.runtime,
            "roles": self.roles,
            "source": array(1),
            "target": array(1),
            "graph": self.graph,
            "built": self.graph._handle,
            "context": self.context,
            "buffer": self.buffer,
            "shard": self.file,
            "path": self.file,
            "kind": "client",
            "size": 64,
            "nbytes": 1,
            "fd": 0,
            "dtype": "FLOAT_32",
            "shape": SHAPE,
            "backend": "cpu",
        }
        return known | {
            "Runtime": {"kind": "emulator"},
            "find_runtime": {"kind": "emulator"},
            "StoredContext": {"guarded": False},
        }.get(name, {})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_runtime("cpu", "emulator") as runtime:
        made = World(runtime, tmp_path_factory.mktemp("world"))
        with made.domain, made.buffer:
            yield made


def escapes(call: Callable[..., Any], given: dict[str, Any]) -> str:
    """Return an exception that is not one of udogen's; empty if there is none."""
    try:
        made = call(**given)
        if hasattr(made, "close"):
            made.close()
    except UdogenError as problem:
        assert problem.message and (problem.hint or isinstance(problem, QnnError)), (given, problem.message)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def test_every_call_on_closed_objects(tmp_path: Path) -> None:
    """Closed in any order, twice: only `close` works, and does nothing."""
    for turn in range(2):
        with open_runtime("cpu", "emulator") as runtime:
            closed = World(runtime, tmp_path)
            objects = closed.objects() if turn else closed.objects()[::-1]
            for each in (*objects, *objects):
                each.close()
                assert repr(each)
            found = []
            for name, call in closed.calls().items():
                known = {**closed.right(name), "dimensions": None}
                given = {
                    parameter.name: known[parameter.name]
                    for parameter in inspect.signature(call).parameters.values()
                    if parameter.default is parameter.empty and parameter.name in known
                }
                if problem := escapes(call, given):
                    found.append(f"{name}: {problem}")
            assert not found, "\n" + "\n".join(found)
            for entered in objects:
                if hasattr(entered, "__enter__"):
                    with pytest.raises(RunFailed):
                        entered.__enter__()


# --- regressions ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpu_package(ONE_OP, tmp_path_factory.mktemp("package"), ONE_KERNEL).library


def test_packages_are_registered_by_whatever_leads_to_them(package: Path) -> None:
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
        (lambda it: it.context.graph(None), "Context.graph: `name` is None", "give a str"),
        (lambda it: it.graph.bind(None), "what graph `step` is to be bound to is None", "give a dict"),
        (lambda it: it.graph.bind({"x": None}), "tensor `x` cannot lie in this NoneType", "give a contiguous array"),
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
        world.stored,
    ):
        with world.runtime.restore(given) as context:
            assert context.names == ("look", "step")
            assert context.name == ("(bytes)" if isinstance(given, (bytes, bytearray)) else str(world.file))


def test_what_objects_say_of_themselves(world: World) -> None:
    name = world.runtime.name
    assert repr(world.context) == f"<Context a of {name}: look, step>"
    graph = world.context.graph("step")
    graph.unbind()
    graph.bind({"x": array(1)})
    tensors = "state FLOAT_32 [1, 4, 8], x FLOAT_32 [1, 4, 8] (bound), next FLOAT_32 [1, 4, 8]"
    assert repr(graph) == f"<Graph step of context a: {tensors}>"
    assert repr(graph.binding("x")) == f"<TensorBinding of {graph.inputs[1]!r}: bound>"
    graph.unbind()
    with GraphBuilder("cpu", runtime="emulator") as builder, builder.graph("g", outputs=["y"]) as draft:
        draft.op("Relu", [draft.input("x", "FLOAT_32", (4,))], "y", shape=(4,))
        assert repr(draft) == "<GraphDraft g: x, y>"
        assert repr(builder) == f"<GraphBuilder of {name}: no graphs>"
    with Session(world.runtime, SessionSpec("two", 0)) as session:
        session.open(Layer("b", 1), world.file)
        assert repr(session) == f"<Session two of {name}: 1 contexts, maps 1 bytes of 3337.86 MiB>"
    assert repr(world.stored) == f"<StoredContext {world.file} (matches manifest): look, step>"
    with Buffer("client", 64, name="b") as buffer:
        assert repr(buffer) == f"<Buffer b (client): 64 bytes at {buffer.address:#x}>"
    assert repr(buffer) == "<Buffer b (client): closed>"
    with world.runtime.restore(world.file, name="c") as context:
        look = context.graph("look")
    assert (repr(context), repr(look)) == (f"<Context c of {name}: closed>", "<Graph look of context c: closed>")
