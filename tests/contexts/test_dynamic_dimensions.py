"""Inputs whose size is given per call: bound once for the largest, executed smaller; runtimes that refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.making import need_runtime
from udogen import GraphBuilder, Model, RunFailed, UdogenError, UsageError
from udogen.runtime import Context, MemoryDomain, Role, Runtime, Tensor
from udogen.runtime.buffers.domains import INPUT, OUTPUT

LARGEST = (2, 8)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True), np.float32)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def store(file: Path, op: str, *, source: str = "x", made: str = "y", kind: str = "real") -> Path:
    """Store a context with one op, all of whose axes are open."""
    with GraphBuilder("cpu", runtime=kind) as builder:
        with builder.graph("g", outputs=[made]) as graph:
            x = graph.input(source, "FLOAT_32", LARGEST, dynamic=(True, True))
            if op == "Cast":
                graph.ops(op, [x], [Tensor(made, "INT_32", LARGEST, dynamic=(True, True))])
            elif op == "Transpose":
                output = Tensor(made, "FLOAT_32", LARGEST[::-1], dynamic=(True, True))
                graph.ops(op, [x], [output], params={"perm": [1, 0]})
            elif op == "ElementWiseAdd":
                graph.op(op, [x, graph.weight("one", np.ones((1, 1), np.float32))], made, like=x)
            else:
                graph.op(op, [x], made, like=x)
        builder.save(file)
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Softmax with both axes open."""
    need_runtime("cpu")
    return store(tmp_path_factory.mktemp("dynamic") / "dynamic.bin", "Softmax")


@pytest.fixture(scope="module")
def context(file: Path) -> Iterator[Context]:
    """The same context, restored."""
    with Runtime("cpu", runtime="real") as runtime, runtime.restore(file) as restored:
        yield restored


@pytest.mark.parametrize(
    ("kind", "op", "expected"),
    [
        ("real", "Softmax", softmax),
        ("real", "Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("real", "Cast", lambda x: x.astype(np.int32)),
        ("real", "Transpose", np.transpose),
        ("emulator", "Softmax", softmax),
        ("emulator", "Relu", lambda x: np.maximum(x, 0)),
        ("emulator", "Transpose", np.transpose),
        ("emulator", "ElementWiseAdd", lambda x: x + 1),
    ],
)
def test_ops_take_the_smallest_first(kind: str, op: str, expected: Callable[..., np.ndarray], tmp_path: Path) -> None:
    """libQnnCpu keeps the sizes of the first execution, so udogen first executes the largest one internally."""
    if kind == "real":
        need_runtime("cpu")
    binary = store(tmp_path / "op.bin", op, kind=kind)
    with Runtime("cpu", runtime=kind) as runtime, runtime.restore(binary) as restored:
        for shape in ((1, 3), (2, 8), (2, 5), (1, 8)):
            x = numbers(*shape)
            np.testing.assert_allclose(restored.graph("g")(x=x)["y"], expected(x), rtol=1e-5)


def test_a_runtime_that_executes_the_full_size_is_reported(tmp_path: Path) -> None:
    need_runtime("cpu")
    binary = store(tmp_path / "op.bin", "ElementWiseAdd")
    with Runtime("cpu", runtime="real") as runtime, runtime.restore(binary) as restored:
        x = numbers(1, 3)
        with pytest.warns(UserWarning, match=r"executed graph `g` at its largest size, though .* `x` \[1, 3\]"):
            found = restored.graph("g")(x=x)["y"]
        np.testing.assert_allclose(found.reshape(-1)[:3], (x + 1).reshape(-1))
    np.save(tmp_path / "x.npy", x)
    done = udogen("run", "context", binary, "--backend", "cpu", "--input", f"x={tmp_path / 'x.npy'}")
    assert "! CPU_QTI_AISW executed graph `g` at its largest size" in done.stdout, done.stdout + done.stderr


def test_the_command_line_takes_smaller_inputs(file: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x := numbers(1, 5))
    given = ("--backend", "cpu", "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out")
    done = udogen("run", "context", file, *given)
    assert "x: FLOAT_32 1x5 <-" in done.stdout and "y: FLOAT_32 1x5, " in done.stdout, done.stdout + done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out/dynamic/g/y.npy"), softmax(x), rtol=1e-5)
    np.save(tmp_path / "x.npy", numbers(3, 8))
    done = udogen("run", "context", file, *given)
    assert done.returncode == 5 and "input `x` has [1 to 2, 1 to 8]" in done.stdout


@pytest.mark.parametrize("kind", ["real", "emulator"])
def test_a_model_is_stepped_with_inputs_of_any_size(kind: str, tmp_path: Path) -> None:
    """Tensors between its contexts have the size of the step; a file has an array for each."""
    if kind == "real":
        need_runtime("cpu")
    store(tmp_path / "forward_0.bin", "Softmax", made="h", kind=kind)
    store(tmp_path / "forward_1.bin", "Softmax", source="h", kind=kind)
    given = [numbers(*shape) for shape in ((1, 3), (2, 8), (1, 5))]
    with Model.open(tmp_path) as model:
        for x in given:
            np.testing.assert_allclose(model.step(x=x)["y"], softmax(softmax(x)), rtol=1e-5)
            assert model.tensors("g")["forward_0.h"].shape == x.shape
        with pytest.raises(UdogenError, match=r"has \[1 to 2, 1 to 8\]"):
            model.step(x=numbers(3, 8))
    np.save(tmp_path / "x.npy", np.stack([given[0], given[0]]))
    done = udogen("run", "steps", tmp_path, "--steps", "2", "--feed", f"x={tmp_path / 'x.npy'}", "--json")
    assert [step["outputs"][0]["shape"] for step in json.loads(done.stdout)["steps"]] == [[1, 3], [1, 3]]
    numbers(1, 8).tofile(tmp_path / "x.raw")
    done = udogen("run", "steps", tmp_path, "--feed", f"x={tmp_path / 'x.raw'}")
    assert done.returncode == 2 and "x.raw has 32 bytes, input `x` (FLOAT_32 [2, 8]) has 64" in done.stderr
    done = udogen("run", "steps", tmp_path, "--dry-run")
    assert "    input   x FLOAT_32 [1 to 2, 1 to 8]" in done.stdout.splitlines()


def test_a_call_has_the_size_of_its_arrays(context: Context) -> None:
    graph = context.graph("g")
    assert [tensor.dynamic for tensor in (*graph.inputs, *graph.outputs)] == [(True, True)] * 2
    for shape in ((2, 8), (1, 3), (2, 5), (1, 8), (2, 8)):
        x = numbers(*shape)
        found = graph(x=x)["y"]
        assert found.shape == shape == graph.shape("y") == graph.shape("x")
        np.testing.assert_allclose(found, softmax(x), rtol=1e-5)
    given = np.empty(LARGEST, np.float32)
    found = graph(x=numbers(1, 3), out={"y": given})["y"]
    assert found.shape == (1, 3) and np.shares_memory(found, given)


def test_it_is_bound_once_for_the_largest_and_executed_smaller(context: Context) -> None:
    graph = context.graph("g")
    x, y = np.zeros(LARGEST, np.float32), np.empty(LARGEST, np.float32)
    graph.bind({"x": x, "y": y})
    for shape in ((1, 4), (2, 8), (2, 3)):
        given = numbers(*shape)
        x.reshape(-1)[: given.size] = given.reshape(-1)
        graph.execute({"x": shape})
        np.testing.assert_allclose(graph.array("y"), softmax(given), rtol=1e-5)
    graph.execute()
    assert graph.shape("y") == LARGEST, "no shape: the largest"
    for wrong in (("a", 8), 3, (1, -8)):
        with pytest.raises(UsageError, match="the shape of `x` is"):
            graph.execute({"x": wrong})
    graph.unbind()


def test_a_managed_buffer_hands_its_shape_on(context: Context) -> None:
    graph = context.graph("g")
    with MemoryDomain(context.runtime) as domain:
        first, second = (domain.allocate([Role(graph, "x", INPUT)]), domain.allocate([Role(graph, "y", OUTPUT)]))
        graph.bind({"x": first, "y": second})
        for shape in ((1, 5), (2, 8)):
            first.copy_from(numbers(*shape))
            graph.execute()
            assert second.shape == shape
            np.testing.assert_allclose(second.copy_to(), softmax(numbers(*shape)), rtol=1e-5)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda graph: graph(x=numbers(3, 8)), r"`x` is FLOAT_32 \[1 to 2, 1 to 8\], the shape is \[3, 8\]"),
        (lambda graph: graph(x=numbers(8)), r"the shape is \[8\]"),
        (lambda graph: graph(x=numbers(0, 8)), r"the shape is \[0, 8\]"),
        (lambda graph: graph(x=numbers(1, 3), out={"y": np.empty((1, 3), np.float32)}), r"its array is .* \[1, 3\]"),
        (lambda graph: graph(x=numbers(1, 3).astype("f8")), "its array is float64"),
    ],
)
def test_sizes_that_do_not_fit(context: Context, use: Callable[..., object], text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        use(context.graph("g"))
    assert caught.value.hint and "packed" not in caught.value.hint


def test_an_op_that_refuses_is_named() -> None:
    """And the process continues: libQnnCpu would end it when the graph is freed."""
    need_runtime("cpu")
    with (
        GraphBuilder("cpu", runtime="real") as builder,
        pytest.raises(RunFailed, match="support dynamic dimensions of op `Relu`: tensors `x`, `y` of graph `g`"),
        builder.graph("g", outputs=["y"]) as graph,
    ):
        x = graph.input("x", "FLOAT_32", (1, 8), dynamic=(False, True))
        graph.op("Relu", [x], "y", like=x)


@pytest.mark.parametrize("dynamic", [True, False])
def test_the_emulator_multiplies_and_joins_what_it_is_given(dynamic: bool, tmp_path: Path) -> None:
    """An output with fixed dimensions only accepts the largest size; the graph still works after the refusal."""
    w = numbers(8, 4)
    with GraphBuilder("cpu", runtime="emulator") as builder:
        with builder.graph("g", outputs=["y"]) as graph:
            x = graph.input("x", "FLOAT_32", (2, 8), dynamic=(True, False))
            [both] = graph.ops("Concat", [x, x], [Tensor("both", "FLOAT_32", (4, 8), dynamic=(True, False))],
                               params={"axis": 0})  # fmt: skip
            output = Tensor("y", "FLOAT_32", (4, 4), dynamic=(dynamic, False))
            graph.ops("MatMul", [both, graph.weight("w", w)], [output])
        builder.save(tmp_path / "g.bin")
    with Runtime("cpu", runtime="emulator") as runtime, runtime.restore(tmp_path / "g.bin") as restored:
        for shape in ((1, 8), (2, 8)):
            x = numbers(*shape)
            if not dynamic and shape == (1, 8):
                with pytest.raises(RunFailed, match="6036"):
                    restored.graph("g")(x=x)
            else:
                np.testing.assert_allclose(restored.graph("g")(x=x)["y"], np.concatenate([x, x]) @ w, rtol=1e-4)


@pytest.mark.parametrize(
    ("backend", "kind", "reason"),
    [("htp", "real", "Dynamic Tensor is not supported"), ("htp", "emulator", "has dynamic dimensions")],
)
def test_a_runtime_that_refuses_is_named(backend: str, kind: str, reason: str) -> None:
    if kind == "real":
        need_runtime(backend)
    with (
        GraphBuilder(backend, runtime=kind) as builder,
        pytest.raises(RunFailed) as caught,
        builder.graph("g", outputs=["y"]) as graph,
    ):
        graph.input("x", "FLOAT_32", (1, 8), dynamic=(False, True))
    assert "does not support dynamic dimensions at all: tensor `x` of graph `g`" in str(caught.value)
    assert backend.upper() in str(caught.value) and reason in "".join(caught.value.details)
