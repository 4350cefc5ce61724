"""Misuse of the emulator's API answers the documented code, and never ends the process: one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import register

from udogen.qnn import abi
from udogen.qnn.backend import Backend, Context, Graph
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, STATIC, OpConfig, Tensor, tensor_array
from udogen.runtime.built import Built

FFI = abi.ffi()
NULL = FFI.NULL
STRANGE = FFI.cast("void *", 0x1234567)


class World:
    """Everything that a call may need, right as it is; each row spoils one thing."""

    def __init__(self, backend: Backend, package: Built) -> None:
        self.package = package
        self.backend = backend
        self.table = backend.interface._table
        register(backend, package)
        self.context: Context = backend.context()
        self.graph, self.x, self.y = self.make("ready")
        self.graph.finalize()
        self.open, self.x2, self.y2 = self.make("open")
        self.empty = self.context.graph("empty")
        self.binary = self.table_binary()
        self.out = FFI.new("void **")
        self.size = FFI.new("Qnn_ContextBinarySize_t *")
        self.room = FFI.new("char[]", 65536)

    def make(self, name: str) -> tuple[Graph, Tensor, Tensor]:
        graph = self.context.graph(name)
        x = graph.add_tensor(Tensor("x", dtype="FLOAT_32", shape=(4,), role=APP_WRITE))
        y = graph.add_tensor(Tensor("y", dtype="FLOAT_32", shape=(4,), role=APP_READ))
        graph.add_node(self.node(x, y))
        return graph, x, y

    def node(self, x: Tensor, y: Tensor, *, package: str = "", op: str = "LeakyRelu") -> OpConfig:
        return OpConfig("n", package=package or self.package.package, op_type=op, inputs=[x], outputs=[y])

    def table_binary(self) -> bytes:
        with self.backend.context() as context:
            graph = context.graph("kept")
            x = graph.add_tensor(Tensor("x", dtype="FLOAT_32", shape=(4,), role=APP_WRITE))
            y = graph.add_tensor(Tensor("y", dtype="FLOAT_32", shape=(4,), role=APP_READ))
            graph.add_node(self.node(x, y))
            graph.finalize()
            return context.binary()

    # --- calls with something wrong ---------------------------------------------------------------------------

    def add(self, graph: Any, op: OpConfig) -> int:
        entry = FFI.cast("udogen_TakesOpConfig", self.table.graphAddNode)
        return int(entry(graph, op.by_value()))

    def tensor(self, graph: Any, **wrong: Any) -> int:
        given = {"dtype": "FLOAT_32", "shape": (4,), "role": NATIVE, **wrong}
        changes = {key: given.pop(key) for key in list(given) if key not in ("dtype", "shape", "role", "data")}
        made = Tensor(changes.pop("name", "new"), **given)
        if "version" in changes:
            made.struct.version = changes.pop("version")
        for field, value in changes.items():
            setattr(made.struct.v1, field, value)
        return int(self.table.tensorCreateGraphTensor(graph, made.struct))

    def execute(self, graph: Any, x: Tensor, y: Tensor, *, ins: int = 1, outs: int = 1, bind: bool = True) -> int:
        if bind:
            x.bind(bytearray(16))
            y.bind(bytearray(16))
        inputs, outputs = tensor_array([x]), tensor_array([y])
        self.kept = (inputs, outputs)
        return int(self.table.graphExecute(graph, inputs, ins, outputs, outs, NULL, NULL))

    def small(self) -> int:
        self.x.bind(bytearray(16))
        self.y.bind(bytearray(16))
        self.y.struct.v1.clientBuf.dataSize = 15
        return self.execute(self.graph.raw, self.x, self.y, bind=False)

    def wrong_id(self) -> int:
        self.x.struct.v1.id = 77
        return self.execute(self.graph.raw, self.x, self.y)

    def freed(self) -> int:
        context = self.backend.context()
        raw = context.raw
        context.close()
        return int(self.table.contextFree(raw, NULL))

    def graph_of_freed(self) -> int:
        context = self.backend.context()
        graph = context.graph("g")
        context.close()
        return int(self.table.graphFinalize(graph.raw, NULL, NULL))

    def restore(self, binary: bytes) -> int:
        kept = FFI.new("char[]", binary)
        return int(self.table.contextCreateFromBinary(self.backend.raw, NULL, NULL, kept, len(binary), self.out, NULL))


Call = Callable[[World], int]
ROWS: list[tuple[str, int, Call]] = [
    # logs, backends, devices
    ("log level 0", 11003, lambda w: w.table.logCreate(NULL, 0, w.out)),
    ("log into NULL", 11003, lambda w: w.table.logCreate(NULL, 1, NULL)),
    ("strange log", 11004, lambda w: w.table.logFree(STRANGE)),
    ("level of a strange log", 11004, lambda w: w.table.logSetLogLevel(STRANGE, 1)),
    ("backend into NULL", 4004, lambda w: w.table.backendCreate(NULL, NULL, NULL)),
    ("backend with a strange log", 4011, lambda w: w.table.backendCreate(STRANGE, NULL, w.out)),
    ("strange backend", 4011, lambda w: w.table.backendFree(STRANGE)),
    ("NULL backend", 4011, lambda w: w.table.backendFree(NULL)),
    ("a context as a backend", 4011, lambda w: w.table.backendFree(w.context.raw)),
    ("no version wanted", 4004, lambda w: w.table.backendGetApiVersion(NULL)),
    ("no build id wanted", 4004, lambda w: w.table.backendGetBuildId(NULL)),
    ("package without a path", 4004, lambda w: w.table.backendRegisterOpPackage(w.backend.raw, NULL, b"P", NULL)),
    ("package without a provider", 4004, lambda w: w.table.backendRegisterOpPackage(w.backend.raw, b"/p", NULL, NULL)),
    ("package that is not there", 4005, lambda w: w.table.backendRegisterOpPackage(w.backend.raw, b"/p", b"P", NULL)),
    (
        "provider that is not there",
        4006,
        lambda w: w.table.backendRegisterOpPackage(w.backend.raw, str(w.package.library).encode(), b"P", NULL),
    ),
    (
        "package twice",
        4007,
        lambda w: w.table.backendRegisterOpPackage(
            w.backend.raw, str(w.package.library).encode(), w.package.provider.encode(), NULL
        ),
    ),
    (
        "package for HTP",
        4003,
        lambda w: w.table.backendRegisterOpPackage(
            w.backend.raw, str(w.package.library).encode(), w.package.provider.encode(), b"HTP"
        ),
    ),
    ("package of a strange backend", 4011, lambda w: w.table.backendRegisterOpPackage(STRANGE, b"/p", b"P", NULL)),
    ("operations into NULL", 4004, lambda w: w.table.backendGetSupportedOperations(w.backend.raw, NULL, NULL)),
    ("device into NULL", 1004, lambda w: w.table.deviceCreate(NULL, NULL, NULL)),
    ("strange device", 14000, lambda w: w.table.deviceFree(STRANGE)),
    ("infrastructure", 1000, lambda w: w.table.deviceGetInfrastructure(NULL)),
    ("platform into NULL", 1004, lambda w: w.table.deviceGetPlatformInfo(NULL, NULL)),
    # contexts
    ("context into NULL", 5000, lambda w: w.table.contextCreate(w.backend.raw, NULL, NULL, NULL)),
    ("context of a strange backend", 5002, lambda w: w.table.contextCreate(STRANGE, NULL, NULL, w.out)),
    ("context of a strange device", 5002, lambda w: w.table.contextCreate(w.backend.raw, STRANGE, NULL, w.out)),
    ("strange context", 5002, lambda w: w.table.contextFree(STRANGE, NULL)),
    ("context freed twice", 5002, World.freed),
    ("context with a strange profile", 5009, lambda w: w.table.contextFree(w.context.raw, STRANGE)),
    ("binary of an open graph", 5003, lambda w: w.table.contextGetBinarySize(w.context.raw, w.size)),
    ("size into NULL", 5000, lambda w: w.table.contextGetBinarySize(w.context.raw, NULL)),
    ("binary into NULL", 5000, lambda w: w.table.contextGetBinary(w.context.raw, NULL, 9, w.size)),
    ("size of a strange context", 5002, lambda w: w.table.contextGetBinarySize(STRANGE, w.size)),
    ("restore NULL", 5000, lambda w: w.table.contextCreateFromBinary(w.backend.raw, NULL, NULL, NULL, 9, w.out, NULL)),
    ("restore nothing", 5000, lambda w: w.restore(b"")),
    ("restore what is none", 5005, lambda w: w.restore(b"hello, this is no context binary of anybody")),
    ("restore half of one", 5005, lambda w: w.restore(w.binary[: len(w.binary) // 2])),
    ("restore a flipped byte", 5005, lambda w: w.restore(w.binary[:-9] + b"\xff" + w.binary[-8:])),
    ("restore another version", 5004, lambda w: w.restore(w.binary[:8] + b"\x63" + w.binary[9:])),
    ("restore another backend's", 5008, lambda w: w.restore(w.binary[:12] + b"\x63" + w.binary[13:])),
    # graphs
    ("graph into NULL", 6000, lambda w: w.table.graphCreate(w.context.raw, b"g", NULL, NULL)),
    ("graph without a name", 6003, lambda w: w.table.graphCreate(w.context.raw, NULL, NULL, w.out)),
    ("graph of a name that is taken", 6003, lambda w: w.table.graphCreate(w.context.raw, b"ready", NULL, w.out)),
    ("graph of a strange context", 6001, lambda w: w.table.graphCreate(STRANGE, b"g", NULL, w.out)),
    ("graph that is not there", 6002, lambda w: w.table.graphRetrieve(w.context.raw, b"nobody", w.out)),
    ("retrieve into NULL", 6000, lambda w: w.table.graphRetrieve(w.context.raw, b"ready", NULL)),
    ("finalize a strange graph", 6001, lambda w: w.table.graphFinalize(STRANGE, NULL, NULL)),
    ("finalize a graph of a freed context", 6001, World.graph_of_freed),
    ("finalize without nodes", 6022, lambda w: w.table.graphFinalize(w.empty.raw, NULL, NULL)),
    ("finalize twice", 6024, lambda w: w.table.graphFinalize(w.graph.raw, NULL, NULL)),
    ("finalize with a strange profile", 6006, lambda w: w.table.graphFinalize(w.open.raw, STRANGE, NULL)),
    ("node of a strange graph", 6001, lambda w: w.add(STRANGE, w.node(w.x2, w.y2))),
    ("node of a finalized graph", 6024, lambda w: w.add(w.graph.raw, w.node(w.x, w.y))),
    ("node of another package", 4005, lambda w: w.add(w.open.raw, w.node(w.x2, w.y2, package="Other"))),
    ("node of another op", 3110, lambda w: w.add(w.open.raw, w.node(w.x2, w.y2, op="Other"))),
    (
        "node of a tensor that is not there",
        6004,
        lambda w: w.add(w.open.raw, w.node(Tensor("z", dtype="FLOAT_32", shape=(4,), role=NATIVE), w.y2)),
    ),
    # tensors
    ("tensor of a strange graph", 7001, lambda w: w.tensor(STRANGE)),
    ("NULL tensor", 7004, lambda w: w.table.tensorCreateGraphTensor(w.open.raw, NULL)),
    ("tensor of version 9", 7004, lambda w: w.tensor(w.open.raw, version=9)),
    ("tensor of a name that is taken", 7003, lambda w: w.tensor(w.open.raw, name="x")),
    ("tensor without a name", 7004, lambda w: w.tensor(w.open.raw, name="")),
    ("tensor with a NULL name", 7004, lambda w: w.tensor(w.open.raw, name="n", dimensions=NULL)),
    ("tensor without a type", 7005, lambda w: w.tensor(w.open.raw, dataType=0x7FFFFFFF)),
    ("tensor of a strange role", 7005, lambda w: w.tensor(w.open.raw, type=77)),
    ("tensor in a strange format", 7005, lambda w: w.tensor(w.open.raw, dataFormat=1)),
    ("tensor of no elements", 7004, lambda w: w.tensor(w.open.raw, shape=(0,))),
    ("tensor beyond all memory", 7004, lambda w: w.tensor(w.open.raw, shape=(0xFFFFFFFF, 0xFFFFFFFF, 4))),
    ("static tensor without data", 7004, lambda w: w.tensor(w.open.raw, role=STATIC)),
    ("tensor of a context", 1000, lambda w: w.table.tensorCreateContextTensor(w.context.raw, w.x.struct)),
    ("tensor of a finalized graph", 6024, lambda w: w.tensor(w.graph.raw)),
    # executions
    ("execute a strange graph", 6001, lambda w: w.execute(STRANGE, w.x, w.y)),
    ("execute before finalize", 6023, lambda w: w.execute(w.open.raw, w.x2, w.y2)),
    ("execute without inputs", 6004, lambda w: w.execute(w.graph.raw, w.x, w.y, ins=0)),
    ("execute without outputs", 6004, lambda w: w.execute(w.graph.raw, w.x, w.y, outs=0)),
    ("execute without buffers", 6004, lambda w: w.execute(w.graph.raw, w.x, w.y, bind=False)),
    ("execute with a small buffer", 6004, World.small),
    ("execute with a wrong id", 6004, World.wrong_id),
    ("execute with NULL", 6004, lambda w: w.table.graphExecute(w.graph.raw, NULL, 1, NULL, 1, NULL, NULL)),
    # what there is not
    ("async", 1000, lambda w: w.table.graphExecuteAsync(w.graph.raw, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL)),
    ("subgraph", 1000, lambda w: w.table.graphCreateSubgraph(w.open.raw, b"g", w.out)),
    ("memory", 1000, lambda w: w.table.memRegister(w.context.raw, NULL, 0, w.out)),
    ("signal", 1000, lambda w: w.table.signalCreate(w.backend.raw, NULL, w.out)),
    ("profile into NULL", 1004, lambda w: w.table.profileCreate(w.backend.raw, 1, NULL)),
    ("profile of level 9", 1004, lambda w: w.table.profileCreate(w.backend.raw, 9, w.out)),
    ("strange profile", 12000, lambda w: w.table.profileFree(STRANGE)),
    ("strange event", 12000, lambda w: w.table.profileGetEventData(99999, FFI.new("QnnProfile_EventData_t *"))),
    ("text of no error", 10001, lambda w: w.table.errorGetMessage(77, FFI.new("char const **"))),
]


@pytest.fixture
def world(backend: Backend, leaky: Built) -> World:
    return World(backend, leaky)


@pytest.mark.parametrize("name", [row[0] for row in ROWS])
def test_misuse_answers_its_code(world: World, name: str) -> None:
    [(_, code, call)] = [row for row in ROWS if row[0] == name]
    assert int(call(world)) == code
    # And nothing is broken: what was right before is right still.
    world.x.struct.v1.id = 1
    assert world.execute(world.graph.raw, world.x, world.y) == 0
    world.context.close()


def test_every_function_of_the_table_is_there(interface: Interface) -> None:
    fields = [name for name, _ in FFI.typeof("QnnInterface_ImplementationV2_t").fields]
    assert [name for name in fields if not getattr(interface._table, name)] == []
