"""Misuse of the emulator's API returns the documented code, and never ends the process: one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from composing import register

from udogen.qnn import abi
from udogen.qnn.handles import BackendHandle, ContextHandle, GraphHandle
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, STATIC, QnnTensor, tensor_array
from udogen.runtime import OpConfig
from udogen.runtime.built import Built

FFI = abi.ffi()
NULL = FFI.NULL
STRANGE = FFI.cast("void *", 0x1234567)


class World:
    """Valid arguments for every call; each row breaks one of them."""

    def __init__(self, backend: BackendHandle, package: Built) -> None:
        self.package = package
        self.backend = backend
        self.table = backend.interface._table
        register(backend, package)
        self.context: ContextHandle = backend.context()
        self.graph, self.x, self.y = self.make("ready")
        self.graph.finalize()
        self.open, self.x2, self.y2 = self.make("open")
        self.empty = self.context.graph("empty")
        self.binary = self.table_binary()
        self.out = FFI.new("void **")
        self.size = FFI.new("Qnn_ContextBinarySize_t *")
        self.room = FFI.new("char[]", 65536)

    def make(self, name: str, context: ContextHandle | None = None) -> tuple[GraphHandle, QnnTensor, QnnTensor]:
        graph = (context or self.context).graph(name)
        x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=(4,), role=APP_WRITE))
        y = graph.add_tensor(QnnTensor("y", dtype="FLOAT_32", shape=(4,), role=APP_READ))
        graph.add_node(self.node(x, y))
        return graph, x, y

    def node(self, x: QnnTensor, y: QnnTensor, *, package: str = "", op: str = "LeakyRelu") -> OpConfig:
        return OpConfig("n", package=package or self.package.package, op_type=op, inputs=[x], outputs=[y])

    def table_binary(self) -> bytes:
        with self.backend.context() as context:
            self.make("kept", context)[0].finalize()
            return context.binary()

    def register(self, provider: str, target: bytes | None = None) -> int:
        given = (str(self.package.library).encode(), provider.encode(), NULL if target is None else target)
        return int(self.table.backendRegisterOpPackage(self.backend.raw, *given))

    # --- faulty calls -----------------------------------------------------------------------------------------

    def add(self, graph: Any, op: OpConfig) -> int:
        entry = FFI.cast("udogen_TakesOpConfig", self.table.graphAddNode)
        return int(entry(graph, op.by_value()))

    def tensor(self, graph: Any, **wrong: Any) -> int:
        given = {"dtype": "FLOAT_32", "shape": (4,), "role": NATIVE, **wrong}
        changes = {key: given.pop(key) for key in list(given) if key not in ("dtype", "shape", "role", "data")}
        made = QnnTensor(changes.pop("name", "new"), **given)
        if "version" in changes:
            made.struct.version = changes.pop("version")
        for field, value in changes.items():
            setattr(made.struct.v1, field, value)
        return int(self.table.tensorCreateGraphTensor(graph, made.struct))

    def execute(self, graph: Any, x: QnnTensor, y: QnnTensor, *, ins: int = 1, outs: int = 1, bind: bool = True) -> int:
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
    ("strange log", 11004, lambda w: w.table.logFree(STRANGE)),
    ("level of a strange log", 11004, lambda w: w.table.logSetLogLevel(STRANGE, 1)),
    ("backend with a strange log", 4011, lambda w: w.table.backendCreate(STRANGE, NULL, w.out)),
    ("strange backend", 4011, lambda w: w.table.backendFree(STRANGE)),
    ("a context as a backend", 4011, lambda w: w.table.backendFree(w.context.raw)),
    ("package that is not there", 4005, lambda w: w.table.backendRegisterOpPackage(w.backend.raw, b"/p", b"P", NULL)),
    ("provider that is not there", 4006, lambda w: w.register("P")),
    ("package twice", 4007, lambda w: w.register(w.package.provider)),
    ("package for HTP", 4003, lambda w: w.register(w.package.provider, b"HTP")),
    ("package of a strange backend", 4011, lambda w: w.table.backendRegisterOpPackage(STRANGE, b"/p", b"P", NULL)),
    ("strange device", 14000, lambda w: w.table.deviceFree(STRANGE)),
    # contexts
    ("context of a strange backend", 5002, lambda w: w.table.contextCreate(STRANGE, NULL, NULL, w.out)),
    ("context of a strange device", 5002, lambda w: w.table.contextCreate(w.backend.raw, STRANGE, NULL, w.out)),
    ("strange context", 5002, lambda w: w.table.contextFree(STRANGE, NULL)),
    ("context freed twice", 5002, World.freed),
    ("context with a strange profile", 5009, lambda w: w.table.contextFree(w.context.raw, STRANGE)),
    ("binary of an open graph", 5003, lambda w: w.table.contextGetBinarySize(w.context.raw, w.size)),
    ("size of a strange context", 5002, lambda w: w.table.contextGetBinarySize(STRANGE, w.size)),
    ("restore what is none", 5005, lambda w: w.restore(b"hello, this is not a context binary of anybody")),
    ("restore half of one", 5005, lambda w: w.restore(w.binary[: len(w.binary) // 2])),
    ("restore a flipped byte", 5005, lambda w: w.restore(w.binary[:-9] + b"\xff" + w.binary[-8:])),
    ("restore another version", 5004, lambda w: w.restore(w.binary[:8] + b"\x63" + w.binary[9:])),
    ("restore another backend's", 5008, lambda w: w.restore(w.binary[:12] + b"\x63" + w.binary[13:])),
    # graphs
    ("graph without a name", 6003, lambda w: w.table.graphCreate(w.context.raw, NULL, NULL, w.out)),
    ("graph of a name that is taken", 6003, lambda w: w.table.graphCreate(w.context.raw, b"ready", NULL, w.out)),
    ("graph of a strange context", 6001, lambda w: w.table.graphCreate(STRANGE, b"g", NULL, w.out)),
    ("graph that is not there", 6002, lambda w: w.table.graphRetrieve(w.context.raw, b"nobody", w.out)),
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
        lambda w: w.add(w.open.raw, w.node(QnnTensor("z", dtype="FLOAT_32", shape=(4,), role=NATIVE), w.y2)),
    ),
    # tensors
    ("tensor of a strange graph", 7001, lambda w: w.tensor(STRANGE)),
    ("tensor of version 9", 7004, lambda w: w.tensor(w.open.raw, version=9)),
    ("tensor of a name that is taken", 7003, lambda w: w.tensor(w.open.raw, name="x")),
    ("tensor without a name", 7004, lambda w: w.tensor(w.open.raw, name="")),
    ("tensor without a type", 7005, lambda w: w.tensor(w.open.raw, dataType=0x7FFFFFFF)),
    ("tensor of a strange role", 7005, lambda w: w.tensor(w.open.raw, type=77)),
    ("tensor in a strange format", 7005, lambda w: w.tensor(w.open.raw, dataFormat=1)),
    ("tensor of no elements", 7004, lambda w: w.tensor(w.open.raw, shape=(0,))),
    ("tensor beyond all memory", 7004, lambda w: w.tensor(w.open.raw, shape=(0xFFFFFFFF, 0xFFFFFFFF, 4))),
    ("static tensor without data", 7004, lambda w: w.tensor(w.open.raw, role=STATIC)),
    ("tensor of a finalized graph", 6024, lambda w: w.tensor(w.graph.raw)),
    # executions
    ("execute a strange graph", 6001, lambda w: w.execute(STRANGE, w.x, w.y)),
    ("execute before finalize", 6023, lambda w: w.execute(w.open.raw, w.x2, w.y2)),
    ("execute without inputs", 6004, lambda w: w.execute(w.graph.raw, w.x, w.y, ins=0)),
    ("execute without outputs", 6004, lambda w: w.execute(w.graph.raw, w.x, w.y, outs=0)),
    ("execute without buffers", 6004, lambda w: w.execute(w.graph.raw, w.x, w.y, bind=False)),
    ("execute with a small buffer", 6004, World.small),
    ("execute with a wrong id", 6004, World.wrong_id),
    # features that it does not have
    ("async of a strange graph", 6001, lambda w: w.table.graphExecuteAsync(STRANGE, *[NULL, 0] * 2, *[NULL] * 4)),
    ("async without inputs", 6004, lambda w: w.table.graphExecuteAsync(w.graph.raw, *[NULL, 0] * 2, *[NULL] * 4)),
    ("async before finalize", 6023, lambda w: w.table.graphExecuteAsync(w.open.raw, *[NULL, 0] * 2, *[NULL] * 4)),
    ("strange memory", 8001, lambda w: w.table.memDeRegister(FFI.new("void *[1]", [STRANGE]), 1)),
    ("finalize with a signal", 1000, lambda w: w.table.graphFinalize(w.open.raw, NULL, STRANGE)),
    ("properties of a strange context", 5002, lambda w: w.table.contextGetProperty(STRANGE, NULL)),
    ("profile of level 9", 1004, lambda w: w.table.profileCreate(w.backend.raw, 9, w.out)),
    ("strange profile", 12000, lambda w: w.table.profileFree(STRANGE)),
    ("strange event", 12000, lambda w: w.table.profileGetEventData(99999, FFI.new("QnnProfile_EventData_t *"))),
]


@pytest.fixture(params=["gpu", "cpu"])
def world(request: pytest.FixtureRequest) -> World:
    """For each backend: their common functions return the same codes."""
    gpu = request.param == "gpu"
    return World(
        request.getfixturevalue("backend" if gpu else "cpu"), request.getfixturevalue("leaky" if gpu else "cpu_leaky")
    )


@pytest.mark.parametrize("name", [row[0] for row in ROWS])
def test_misuse_returns_its_code(world: World, name: str) -> None:
    [(_, code, call)] = [row for row in ROWS if row[0] == name]
    assert int(call(world)) == code
    # The state is intact: calls that were valid before still succeed.
    world.x.struct.v1.id = 1
    assert world.execute(world.graph.raw, world.x, world.y) == 0
    world.context.close()


# The code of each function for empty arguments: NULL, 0 and empty structs.  It is 1000 for functions that no backend of
# the emulator has.
NOTHING = {
    **dict.fromkeys((name for name, _ in FFI.typeof("QnnInterface_ImplementationV2_t").fields), 1000),
    **dict.fromkeys(["backendCreate", "backendGetApiVersion", "backendGetBuildId"], 4004),
    **dict.fromkeys(["backendRegisterOpPackage", "backendGetSupportedOperations", "backendFree"], 4011),
    **dict.fromkeys(["backendValidateOpConfig"], 4011),
    **dict.fromkeys(["contextCreate", "contextGetBinarySize", "contextGetBinary", "contextCreateFromBinary"], 5000),
    **dict.fromkeys(["contextValidateBinary"], 5000),
    **dict.fromkeys(["contextSetConfig", "contextFree", "contextGetProperty"], 5002),
    **dict.fromkeys(["graphCreate", "graphRetrieve"], 6000),
    **dict.fromkeys(["graphSetConfig", "graphAddNode", "graphFinalize", "graphExecute", "graphExecuteAsync"], 6001),
    **dict.fromkeys(["tensorCreateGraphTensor"], 7001),
    **dict.fromkeys(["memRegister", "memDeRegister"], 8000),
    **dict.fromkeys(["logCreate"], 11003),
    **dict.fromkeys(["logSetLogLevel", "logFree"], 11004),
    **dict.fromkeys(["profileCreate", "profileGetExtendedEventData"], 1004),
    **dict.fromkeys(["profileGetEvents", "profileGetSubEvents", "profileGetEventData"], 12000),
    **dict.fromkeys(["profileFree"], 12000),
    **dict.fromkeys(["deviceGetPlatformInfo", "deviceFreePlatformInfo", "deviceCreate"], 1004),
    **dict.fromkeys(["deviceFree"], 14000),
    **dict.fromkeys(["backendSetConfig", "backendGetProperty"], 4003),
}


@pytest.mark.parametrize("backend_name", ["gpu", "cpu"])
def test_every_function_of_the_table_returns(request: pytest.FixtureRequest, backend_name: str) -> None:
    table: Any = request.getfixturevalue("interface" if backend_name == "gpu" else "cpu_interface")._table
    results = {}
    for name, field in FFI.typeof("QnnInterface_ImplementationV2_t").fields:
        kinds = field.type.args
        if any(kind.kind == "struct" for kind in kinds):  # by value: libffi needs another call (abi.py)
            entry = FFI.cast("udogen_TakesOpConfig", getattr(table, name))
            results[name] = int(entry(NULL, FFI.new("udogen_OpConfigByValue *")[0]))
            continue
        results[name] = int(
            getattr(table, name)(*[NULL if kind.kind in ("pointer", "function") else 0 for kind in kinds])
        )
    assert results == NOTHING
