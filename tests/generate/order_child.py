"""Nodes of OrderPackage in a libQnnHtp, in a separate process: `order_child.py RUNTIME LIBRARY`; prints JSON.

A program that registers a package and ends in an error aborts, and the runtime writes to stdout: so not within pytest.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from udogen.qnn import abi
from udogen.qnn.handles import BackendHandle, LogHandle
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, STATIC, Param, QnnTensor
from udogen.runtime import OpConfig, QnnError, Scalar

INTERFACE, LIBRARY = Interface.load(Path(sys.argv[1])), Path(sys.argv[2])
types = {"i8": "INT_8", "u8": "UINT_8", "i16": "INT_16", "u16": "UINT_16", "i32": "INT_32", "u32": "UINT_32"}
types |= {f"w{name}": dtype for name, dtype in types.items()}
types |= {"t": "BOOL_8", "w": "INT_8", "wh": "FLOAT_16"}
NUMPY = {"INT_8": "i1", "UINT_8": "u1", "INT_16": "i2", "INT_32": "i4", "FLOAT_16": "f2", "FLOAT_32": "f4"}
ENDS = (("x", APP_WRITE), ("y", APP_READ))
lines: list[str] = []
kept: list[Any] = []
LOG = LogHandle(INTERFACE, lambda _level, text: lines.append(text), 2)

Node = tuple[str, Mapping[str, Any]]  # the op, and its parameters in the order in which they are passed


@contextmanager
def registered() -> Iterator[BackendHandle]:
    with BackendHandle(INTERFACE, LOG) as backend:
        backend.register(LIBRARY, "OrderPackageInterfaceProvider", None)
        yield backend


def param(graph: Any, node: str, name: str, value: Any) -> Param:
    is_tensor = isinstance(value, list)
    dtype = types.get(name, "FLOAT_32")
    if not is_tensor:
        return Scalar(name, dtype, value)
    data = bytearray(np.array(value, NUMPY[dtype]).tobytes())
    tensor_name = f"{name}_of_{node}"  # unique in a graph
    made = graph.add_tensor(QnnTensor(tensor_name, dtype=dtype, shape=(len(value),), role=STATIC, data=data))
    assert isinstance(made, QnnTensor)
    return made


def run(nodes: Sequence[Node], **how: Any) -> Any:
    """Return the output of each node; or the error, and the message of the package."""
    with registered() as backend:
        return run_with(backend, nodes, **how)


def node_of(
    name: str, op: str, given: Mapping[str, Any], graph: Any, x: list[QnnTensor], y: list[QnnTensor]
) -> OpConfig:
    params = [param(graph, name, each, value) for each, value in given.items()]
    node = OpConfig(name, package="OrderPackage", op_type=op, inputs=x, outputs=y, params=params)
    for index, each in enumerate(given):  # a tensor and its parameter have different names
        kept.append(abi.ffi().new("char[]", each.encode()))
        node.struct.v1.params[index].name = kept[-1]
    return node


def run_with(
    backend: BackendHandle,
    nodes: Sequence[Node],
    *,
    validate: bool = True,
    shape: tuple[int, ...] = (1, 1, 1, 13),
    fill: float = 0,
    distinct: bool = False,
) -> Any:
    lines.clear()
    try:
        with backend.context() as context:
            graph, outputs = context.graph("g"), []
            x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=shape, role=APP_WRITE))
            for number, (op, given) in enumerate(nodes):
                y = graph.add_tensor(QnnTensor(f"y{number}", dtype="FLOAT_32", shape=shape, role=APP_READ))
                node = node_of(f"n{number}", op, given, graph, [x], [y])
                if validate:
                    backend.validate(node)
                graph.add_node(node)
                outputs.append(y)
            graph.finalize()
            x.bind(bytearray(np.full(shape, fill, np.float32).tobytes()))
            rooms = [bytearray(x.nbytes) for _ in outputs]
            for y, room in zip(outputs, rooms, strict=True):
                y.bind(room)
            graph.execute([x], outputs)
            found = (np.frombuffer(room, np.float32) for room in rooms)
            return [(np.unique(each) if distinct else each).tolist() for each in found]
    except QnnError as fault:
        return {"error": fault.message, "logged": logged()}


def logged() -> str:
    """Return the message of the package."""
    return next((line for line in lines if line.startswith(("op ", "package "))), "\n".join(lines))


def refused(op: str, given: Mapping[str, Any] | Sequence[Scalar], inputs: int = 1) -> dict[str, Any]:
    lines.clear()
    with registered() as backend, backend.context() as context:
        graph = context.graph("g")
        x, y = (
            graph.add_tensor(QnnTensor(name, dtype="FLOAT_32", shape=(1, 1, 1, 13), role=role)) for name, role in ENDS
        )
        if isinstance(given, Mapping):
            node = node_of("n", op, given, graph, [x] * inputs, [y])
        else:
            node = OpConfig("n", package="OrderPackage", op_type=op, inputs=[x], outputs=[y], params=given)
        try:
            backend.validate(node)
        except QnnError as fault:
            return {"code": fault.code, "logged": logged()}
    return {}


def poly(order: str, **values: Any) -> Node:
    return "Poly", {name: values[name] for name in order}


def orders() -> Any:
    """Run all orders of four parameters in one graph; return the wrong results."""
    nodes, wanted = [], []
    every = ["".join(order) for order in permutations("abcd")]
    for number, order in enumerate([*every, "a", "ca", "da", "dca", "cda", "dba"]):
        values: dict[str, Any] = {"a": 1 + number, "b": 2 + number, "c": 3 + number, "d": [4 + number, 5 + number]}
        nodes.append(poly(order, **values))
        seen = {"b": 5, "c": 9, "d": [7, 8], **{name: values[name] for name in order}}
        wanted.append(1000 * seen["a"] + 100 * seen["b"] + 10 * seen["c"] + 2 * seen["d"][0] + seen["d"][1])
    found = run(nodes)
    return found if isinstance(found, dict) else [y[0] - want for y, want in zip(found, wanted, strict=True)]


KINDS = {"f": 1.5, "i8": -3, "u8": 250, "i16": -300, "u16": 65000, "i32": -70000, "u32": 4000000000, "t": True}
TENSORS = {"wi8": [1, -2], "wu8": [3, 254], "wi16": [4, -1000], "wi32": [5, -70000], "wh": [6.0, 0.5]}
EVERY = {**KINDS, **TENSORS}


def kinds(names: Sequence[str]) -> Any:
    found = run([("Kinds", {name: EVERY[name] for name in names})])
    return found if isinstance(found, dict) else found[0]


def threads() -> list[Any]:
    """Validate and prepare separate graphs in each thread, with other orders."""
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        order = ("abc", "cab", "bca", "cba")[number]
        values = {"a": 1 + number, "b": 20 + number, "c": 300 + number}
        with lock:
            found[number] = run_with(backend, [poly(order, **values)])[0][0] - (
                1000 * values["a"] + 100 * values["b"] + 10 * values["c"] + 22
            )

    lock = threading.Lock()  # libQnnHtp of x86 executes one graph at a time
    with registered() as backend:
        every = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for each in every:
            each.start()
        for each in every:
            each.join()
    return [found[number] for number in range(4)]


def memory() -> dict[str, Any]:
    """Validate many nodes, and one repeatedly; return how the memory grows, and the result of the first node."""
    with registered() as backend, backend.context() as context:
        graph = context.graph("g")
        x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=(1, 1, 1, 13), role=APP_WRITE))
        y = graph.add_tensor(QnnTensor("y", dtype="FLOAT_32", shape=(1, 1, 1, 13), role=APP_READ))

        given = [Scalar("b", "FLOAT_32", 0), Scalar("a", "FLOAT_32", 0)]
        node = OpConfig("n", package="OrderPackage", op_type="Poly", inputs=[x], outputs=[y], params=given)

        def validate(a: float, b: float) -> None:
            for index, value in enumerate((b, a)):
                node.struct.v1.params[index].scalarParam.floatValue = value
            backend.validate(node)

        for number in range(5000):
            validate(number, -1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(20000):
            validate(number % 7, -2)
            validate(number, -3)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"kilobytes": grown, "forgotten": run([poly("ba", a=1, b=-1)], validate=False)}


answers: dict[str, Any] = {}
answers["never validated"] = run([poly("abcd", a=1, b=2, c=3, d=[4, 5])] * 2, validate=False)
answers["warned"] = [line for line in lines if "was validated" in line]
answers["of other types"] = [
    run([poly(order, a=1, b=2, c=3, d=[4, 5])], validate=False)["logged"] for order in ("dabc", "abdc")
] + [run([("Kinds", {"i8": -3, **EVERY})], validate=False)["logged"]]
answers["orders"] = orders()
answers["kinds"] = [
    kinds(names)
    for names in (list(EVERY), list(EVERY)[::-1], sorted(EVERY), sorted(EVERY, key=lambda name: (name[-1], name)))
]
answers["defaults"] = [
    run([("Defaults", given)])
    for given in (
        {"last": 7.0},
        {"last": 7.0, "f": 2.5},
        {"last": 7.0, "w": [5, -6]},
        {"t": False, "u32": 3, "i8": -100},
        {},
    )
]
answers["two meanings"] = run([poly("ab", a=21, b=22), poly("ba", a=22, b=21)])
answers["one meaning"] = run([poly("ab", a=31, b=31), poly("ba", a=31, b=31)])
answers["one after the other"] = [run([poly("ba", a=41, b=42)]), run([poly("ab", a=42, b=41)])]
answers["not validated"] = run([poly("ab", a=61, b=62)], validate=False)
answers["rewritten"] = [
    run([("Rewritten", given)], fill=2)
    for given in ({"times": 3, "plus": 5}, {"plus": 7, "times": 11}, {"times": 13}, {"plus": 2.5, "times": 1.5})
]
tall = (1, 256, 256, 64)
answers["tiled"] = [
    found[0] if isinstance(found := run([("Scaled", given)], fill=2, shape=tall, distinct=True), list) else found
    for given in ({"times": 3, "plus": 5}, {"plus": 7, "times": 11}, {"times": 17})
]
answers["refused"] = {
    "missing": refused("Poly", {"b": 1}),
    "unknown": refused("Poly", {"a": 1, "alpha": 2}),
    "twice": refused("Poly", [Scalar("a", "FLOAT_32", 1)] * 2),
    "a tensor": refused("Poly", {"a": 1, "b": [2]}),
    "a scalar": refused("Poly", {"a": 1, "d": 2}),
    "another type": refused("Poly", [Scalar("a", "INT_32", 1)]),
    "no input": refused("Poly", {"a": 1}, inputs=0),
    "no such op": refused("Pole", {"a": 1}),
    "too large": refused("Kinds", [Scalar("u8", "INT_32", 256)]),
}
types |= dict.fromkeys((name for name in KINDS if name != "f"), "INT_32")
EVERY["u32"] = 5
answers["integers"] = kinds(sorted(EVERY))[:8]
answers["threads"] = threads()
answers["memory"] = memory()
print("\n" + json.dumps(answers))
with registered() as backend:  # an error, and then an end without another step
    run_with(backend, [poly("ab", a=21, b=22), poly("ba", a=22, b=21)])
