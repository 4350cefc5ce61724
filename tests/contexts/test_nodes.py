"""Nodes that GraphBuilder refuses before they are added, right ones on every runtime, and names of data types."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contexts.conftest import need_runtime
from tests.making import ONE_KERNEL, ONE_OP, ROOT, cpu_package, htp_package
from udogen import GraphBuilder, UdogenError, UsageError, resources
from udogen.qnn.tensors import QnnTensor, byte_size
from udogen.runtime import Constants, Scalar
from udogen.runtime.quantization import grid_of, quantize

F, I32, U32, U8 = "FLOAT_32", "INT_32", "UINT_32", "UFIXED_POINT_8"
Tensor = tuple[Any, ...]  # data type, shape; a third entry makes it a constant
Node = tuple[str, Sequence[Tensor], Sequence[Tensor], Mapping[str, Any]]  # op, inputs, outputs, parameters

ROW, IMAGE, PADS = (F, (2, 8)), (F, (1, 8, 8, 4)), np.zeros((2, 2), np.uint32)
FILTER = {"stride": [1, 1], "pad_amount": PADS}
WINDOW = {"filter_size": [2, 2], "stride": [2, 2], "pad_amount": PADS, "rounding_mode": 0}
HALF, POOLED = (F, (1, 4, 4, 4)), (F, (1, 4, 4, 4))
CONV, SQUARE = [IMAGE, (F, (3, 3, 4, 5), 1)], (F, (3, 3))
NORM = [(F, (2, 8)), (F, (8,), 1), (F, (8,), 1)]
RANGES = np.array([[0, 2, 1], [0, 4, 1]], np.int32)

# At least one node for each op of udogen/data/built_in_params.toml; together they have all of its parameters.
RIGHT: Sequence[Node] = (
    *((op, [ROW], [(I32, (2, 1))], {"axis": 1, "keep_dims": True}) for op in ("Argmax", "Argmin")),
    ("BatchToSpace", [(F, (4, 4, 4, 4))], [IMAGE], {"block_size": [2, 2], "crops": PADS}),
    ("Cast", [ROW], [(I32, (2, 8))], {}),
    ("ChannelShuffle", [IMAGE], [IMAGE], {"num_groups": 2, "axis": 3}),
    ("Concat", [ROW, ROW], [(F, (2, 16))], {"axis": 1}),
    ("Conv2d", [IMAGE, (F, (3, 3, 4, 5), 1)], [(F, (1, 6, 6, 5))], {**FILTER, "group": 1, "dilation": [1, 1]}),
    ("CumulativeSum", [ROW], [ROW], {"axis": 1, "exclusive": False, "reverse": False}),
    ("DepthToSpace", [IMAGE], [(F, (1, 16, 16, 1))], {"block_size": [2, 2], "mode": 0}),
    ("DepthWiseConv2d", [IMAGE, (F, (3, 3, 1, 4), 1)], [(F, (1, 6, 6, 4))], {**FILTER, "dilation": [1, 1]}),
    ("Dequantize", [(U8, (2, 8))], [ROW], {}),
    *((f"ElementWise{op}", [ROW, ROW], [ROW], {}) for op in ("Add", "Divide", "Multiply", "Subtract")),
    ("ElementWiseAdd", [ROW, (F, (1,))], [ROW], {}),
    ("ElementWiseAdd", [(U8, (2, 8)), (U8, (2, 8))], [(U8, (2, 8))], {}),
    ("ElementWiseBinary", [ROW, ROW], [ROW], {"operation": 0}),
    ("ElementWiseNeuron", [ROW], [ROW], {"operation": 0, "alpha": 1.0}),
    ("ElementWiseNeuron", [ROW], [ROW], {"operation": 5, "min_value": 0.0, "max_value": 1.0}),
    ("ElementWiseNeuron", [ROW], [ROW], {"operation": 7, "beta": 1.0, "threshold": 20.0}),
    ("ElementWiseUnary", [ROW], [ROW], {"operation": 0}),
    ("Elu", [ROW], [ROW], {"alpha": 1.0}),
    ("ExpandDims", [ROW], [(F, (2, 1, 8))], {"axis": 1}),
    ("FullyConnected", [ROW, (F, (4, 8), 1)], [(F, (2, 4))], {"keep_dims": False}),
    ("Gather", [ROW, (I32, (1,), 1)], [(F, (1, 8))], {"axis": np.int32(0)}),
    ("GatherElements", [ROW, (U32, (2, 8), 1)], [ROW], {"axis": 0}),
    ("GatherNd", [ROW, (U32, (2, 1), 1)], [ROW], {"batch_dims": 0}),
    *((op, [ROW], [ROW], {}) for op in ("Gelu", "Relu", "Sigmoid", "Tanh")),
    ("GroupNorm", [IMAGE, (F, (4,), 1), (F, (4,), 1)], [IMAGE], {"epsilon": 1e-5, "group": 2}),
    (
        "InstanceNorm", [IMAGE, (F, (4,), 1), (F, (4,), 1)], [IMAGE],
        {"epsilon": 1e-5, "mode": 0, "normalize_variance": True, "region": 0},
    ),
    ("L2Norm", [ROW], [ROW], {"axis": 1, "epsilon": 1e-6}),
    ("LayerNorm", NORM, [ROW], {"epsilon": 1e-5, "axes": [1]}),
    ("LogSoftmax", [ROW], [ROW], {"axis": 1, "beta": 1.0}),
    ("Lrn", [IMAGE], [IMAGE], {"alpha": 1.0, "beta": 0.5, "bias": 1.0, "radius": np.int32(1), "region": 0}),
    ("MatMul", [(F, (2, 3)), (F, (4, 3))], [(F, (2, 4))], {"transpose_in0": False, "transpose_in1": True}),
    (
        "OneHot", [(I32, (2,))], [(F, (2, 8))],
        {"depth": 8, "axis": 1, "on_value": 1.0, "off_value": 0.0},
    ),
    ("Pack", [ROW, ROW], [(F, (2, 2, 8))], {"axis": 0}),
    ("Pad", [ROW], [ROW], {"scheme": 0, "pad_amount": PADS, "pad_constant_value": 0.0}),
    ("PoolAvg2d", [IMAGE], [POOLED], {**WINDOW, "count_pad_for_edges": False}),
    ("PoolMax2d", [IMAGE], [POOLED], WINDOW),
    ("Quantize", [ROW], [(U8, (2, 8))], {}),
    *(
        (f"Reduce{op}", [ROW], [(F, (2, 1))], {"axes": [1], "keep_dims": True})
        for op in ("Max", "Mean", "Min", "Sum")
    ),
    ("ReduceSum", [ROW], [(F, (2,))], {"axes": [1]}),
    ("ReluMinMax", [ROW], [ROW], {"min_value": 0.0, "max_value": 1.0}),
    ("Reshape", [ROW], [(F, (16,))], {}),
    (
        "ResizeBilinear", [IMAGE], [(F, (1, 16, 16, 4))],
        {"align_corners": False, "half_pixel_centers": True},
    ),
    ("RmsNorm", NORM, [ROW], {"epsilon": 1e-5, "axes": [1]}),
    ("Softmax", [ROW], [ROW], {"axis": 1, "beta": 1.0}),
    ("Softmax", [ROW], [ROW], {}),
    ("SpaceToBatch", [IMAGE], [(F, (4, 4, 4, 4))], {"block_size": [2, 2], "pad_amount": PADS}),
    ("SpaceToDepth", [IMAGE], [(F, (1, 4, 4, 16))], {"block_size": [2, 2], "mode": 0}),
    ("Split", [ROW], [(F, (2, 4)), (F, (2, 4))], {"axis": 1, "split_index": [4]}),
    (
        "StridedSlice", [ROW], [(F, (2, 4))],
        {"ranges": RANGES, "begin_mask": 0, "end_mask": 0, "shrink_axes": 0, "new_axes_mask": 0},
    ),
    ("Tile", [ROW], [(F, (4, 8))], {"multiples": [2, 1]}),
    ("TopK", [ROW], [(F, (2, 3)), (I32, (2, 3))], {"k": 3}),
    ("Transpose", [ROW], [(F, (8, 2))], {"perm": [1, 0]}),
    (
        "TransposeConv2d", [IMAGE, (F, (3, 3, 4, 5), 1)], [(F, (1, 10, 10, 5))],
        {**FILTER, "group": 1, "output_padding": [0, 0]},
    ),
    ("UnPack", [ROW], [(F, (8,)), (F, (8,))], {"axis": 0}),
)  # fmt: skip

# A fault, the node with it, and a part of the sentence or of its hint.
WRONG: Sequence[tuple[str, Node, str]] = (
    ("broadcast", ("ElementWiseAdd", [(F, (1, 8)), (F, (1, 4))], [(F, (1, 8))], {}), "cannot be broadcast"),
    ("another shape", ("Relu", [(F, (1, 8))], [(F, (1, 4))], {}), "mismatching dimension"),
    ("another rank", ("Relu", [(F, (1, 8))], [(F, (8,))], {}), "mismatching rank"),
    ("another type", ("Relu", [ROW], [(I32, (2, 8))], {}), "mismatching datatypes"),
    ("mixed types", ("ElementWiseAdd", [ROW, (U8, (2, 8))], [ROW], {}), "mismatching datatypes"),
    ("an input too few", ("ElementWiseAdd", [ROW], [ROW], {}), "Wrong number of Inputs 1"),
    ("an input too many", ("ElementWiseAdd", [ROW] * 3, [ROW], {}), "Wrong number of Inputs 3"),
    ("an output too many", ("Relu", [ROW], [ROW, ROW], {}), "Wrong number of Outputs 2"),
    ("inner sizes", ("MatMul", [(F, (2, 3)), (F, (4, 4))], [(F, (2, 4))], {}), "Inner dimension does not match"),
    ("elements", ("Reshape", [ROW], [(F, (15,))], {}), "does not match number of output elements 15"),
    ("shape of a window", ("Conv2d", CONV, [(F, (1, 7, 7, 5))], FILTER), "Expected 6 but got 7"),
    ("rank of an image", ("Conv2d", [(F, (8, 8, 4)), CONV[1]], [(F, (1, 6, 6, 5))], FILTER), "incorrect Rank 3"),
    ("shape of a sum", ("ReduceSum", [ROW], [(F, (2, 1))], {"axes": [1]}), "incorrect Rank 2"),
    ("shape by a parameter", ("Transpose", [ROW], [ROW], {"perm": [1, 0]}), "Expected 8 but got 2"),
    ("value of a parameter", ("Softmax", [ROW], [ROW], {"axis": 7}), "incorrect Value 7"),
    ("type of a parameter", ("Concat", [ROW, ROW], [(F, (2, 16))], {"axis": 1.0}), "incorrect Datatype 0x232"),
    ("type of a flag", ("MatMul", [SQUARE] * 2, [SQUARE], {"transpose_in1": 1}), "incorrect Datatype 0x132"),
    ("type of an array", ("StridedSlice", [ROW], [(F, (2, 4))], {"ranges": RANGES.view(np.uint32)}), "Datatype"),
    ("missing", ("Transpose", [ROW], [(F, (8, 2))], {}), "Wrong number of Parameters 0"),
    ("missing axes", ("ReduceSum", [ROW], [(F, (2,))], {}), "its parameter `axes` is missing"),
    ("axis for axes", ("ReduceSum", [ROW], [(F, (2,))], {"axis": [1]}), "its parameter `axes` is missing"),
    ("axes for axis", ("Softmax", [ROW], [ROW], {"axes": 1}), "did you mean `axis`?"),
    ("in2 for in1", ("MatMul", [SQUARE] * 2, [SQUARE], {"transpose_in2": True}), "did you mean `transpose_in1`?"),
    ("eps", ("LayerNorm", NORM, [ROW], {"axes": [1], "eps": 1e-5}), "did you mean `epsilon`?"),
    ("range", ("StridedSlice", [ROW], [(F, (2, 4))], {"range": RANGES}), "did you mean `ranges`?"),
    ("extra", ("ElementWiseAdd", [ROW, ROW], [ROW], {"axis": 1}), "it has: none"),
    ("extra beside a right one", ("Concat", [ROW, ROW], [(F, (4, 8))], {"axis": 0, "axes": 0}), "did you mean `axis`?"),
    ("no such op", ("Rellu", [ROW], [ROW], {}), "did you mean `Relu`?"),
)  # fmt: skip


class _Accepted(Exception):
    """Ends a graph, which is not to be finalized."""


def refusal(builder: GraphBuilder, number: int, node: Node) -> UdogenError | None:
    """Add a node to a new graph; return the error, or None if it is accepted."""
    op, inputs, outputs, params = node
    try:
        with builder.graph(f"g{number}", outputs=["y0"]) as graph:
            given = []
            for place, (dtype, shape, *constant) in enumerate(inputs):
                zeros = np.zeros(shape, {I32: np.int32, U32: np.uint32}.get(dtype, np.float32))
                name, quant = f"x{place}", grid_of(-1, 1, dtype) if dtype == U8 else None
                given.append(graph.weight(name, zeros) if constant else graph.input(name, dtype, shape, quant))
            made = [
                QnnTensor(f"y{place}", dtype, shape, grid_of(-1, 1, dtype) if dtype == U8 else None)
                for place, (dtype, shape, *_) in enumerate(outputs)
            ]
            graph.ops(op, given, made, params=params)
            raise _Accepted
    except _Accepted:
        return None
    except UdogenError as error:
        return error


@pytest.fixture(params=["cpu", "htp"])
def builder(request: pytest.FixtureRequest) -> Iterator[GraphBuilder]:
    """Return a builder with Qualcomm's library."""
    need_runtime(request.param)
    with GraphBuilder(request.param, runtime="real") as made:
        yield made


def test_right_nodes_are_accepted(builder: GraphBuilder) -> None:
    """Each op of the table of parameters is among them, with all of its parameters."""
    has = {each.name for each in builder.runtime.operations()}
    found = {(node[0], *node[3]): refusal(builder, number, node) for number, node in enumerate(RIGHT) if node[0] in has}
    assert not {node: str(error) for node, error in found.items() if error is not None}


def test_the_table_of_parameters_is_that_of_nodes_that_are_accepted() -> None:
    tried: dict[str, set[str]] = {}
    for op, _, _, params in RIGHT:
        tried.setdefault(op, set()).update(params)
    assert tried == {op: set(names.split()) for op, names in resources.facts("built_in_params").items()}


def test_wrong_nodes_are_refused(builder: GraphBuilder) -> None:
    found = {what: refusal(builder, number, node) for number, (what, node, _) in enumerate(WRONG)}
    accepted = [what for what, error in found.items() if error is None]
    assert not accepted
    for number, (what, node, text) in enumerate(WRONG):
        error = found[what]
        assert error is not None
        assert f"op `{node[0]}` of graph `g{number}` (output `y0`)" in error.message, what
        assert text in error.message + error.hint, (what, str(error))


def test_custom_ops_are_validated_and_each_of_two_builders_gets_the_log(tmp_path: Path) -> None:
    """A package has one log in a process; the second client must not take it from the first."""
    need_runtime("cpu")
    folder = cpu_package(ONE_OP, tmp_path, ONE_KERNEL).folder
    assert folder is not None
    logs: list[list[str]] = [[], []]
    with ExitStack() as stack:
        builders = [
            stack.enter_context(
                GraphBuilder(
                    "cpu", packages=[folder.path], runtime="real", log=lambda _, text, log=log: log.append(text)
                )
            )
            for log in logs
        ]
        for builder, log in zip(builders, logs, strict=True):
            assert refusal(builder, 0, ("LeakyRelu", [ROW], [ROW], {"alpha": 0.5})) is None
            error = refusal(builder, 1, ("LeakyRelu", [(I32, (2, 8))], [(I32, (2, 8))], {"alpha": 0.5}))
            assert error is not None and log and log[0] in str(error), (error, log)
            error = refusal(builder, 2, ("LeakyRelu", [ROW], [ROW], {"alfa": 0.5}))
            assert error is not None and error.hint == "did you mean `alpha`?"
            for each in logs:
                each.clear()


TYPES = {
    "FLOAT_32": ("float32", np.float32, np.dtype("f4"), "QNN_DATATYPE_FLOAT_32"),
    "FLOAT_64": ("float64", np.float64, float),
    "INT_32": ("int32", np.int32, np.dtype("int32")),
    "UINT_8": ("uint8", np.uint8, np.dtype("u1")),
    "BOOL_8": ("bool", np.bool_, bool),
}


@pytest.mark.parametrize(("name", "given"), [(name, each) for name, row in TYPES.items() for each in row], ids=str)
def test_a_type_is_named_as_in_qnn_or_in_numpy(name: str, given: object) -> None:
    for made in (
        QnnTensor("x", given, (1,)),
        Scalar("x", given, 1),
        QnnTensor("x", given, (1,)),
        QnnTensor("x", dtype=given, shape=(1,), role="NATIVE"),
        Constants().tensor("x", dtype=given, shape=(1,), data=bytes(8)[: byte_size(given, (1,))]),
    ):
        assert made.dtype == name


def test_a_type_of_numpy_with_a_quantization_is_fixed_point() -> None:
    grid = grid_of(-1, 1, np.uint8)
    assert grid == grid_of(-1, 1, "UFIXED_POINT_8") and quantize(np.ones(1), grid, "UFIXED_POINT_8").dtype == np.uint8
    with GraphBuilder("cpu", runtime="emulator") as builder, builder.graph("g", outputs=["y"]) as graph:
        x = graph.input("x", np.uint8, (1, 8), grid)
        w = graph.weight("w", np.ones((1, 8)), np.dtype("uint8"), grid)
        assert (x.dtype, w.dtype, graph.weight("v", np.ones(1, "f")).dtype) == (*["UFIXED_POINT_8"] * 2, "FLOAT_32")
        graph.op("ElementWiseAdd", [x, w], QnnTensor("y", np.uint8, (1, 8), grid))
    for wrong in (5, object(), None):
        with pytest.raises(UsageError, match="data type"):
            QnnTensor("x", wrong, (1,))


_PER_CHANNEL = """
import sys
import numpy as np
from udogen import GraphBuilder
from udogen.runtime.quantization import AxisScaleOffset, ScaleOffset
scales = AxisScaleOffset(3, tuple(ScaleOffset(0.1 * (channel + 1), 0) for channel in range(4)))
with GraphBuilder("htp", packages=[sys.argv[1]]) as builder, builder.graph("g", outputs=["y"]) as graph:
    x = graph.input("x", "UFIXED_POINT_8", (1, 2, 3, 4), quant=ScaleOffset(0.1, 0))
    weight = graph.weight("w", np.ones((1, 2, 3, 4), np.uint8), "UFIXED_POINT_8", quant=scales)
    graph.op("AddSatU8", [x, weight], "y", like=x)
"""


def test_weights_per_channel_for_a_custom_op_of_htp(tmp_path: Path) -> None:
    need_runtime("htp")
    example = ROOT / "examples" / "add_sat_u8"
    built = htp_package(example / "AddSatU8.xml", tmp_path, example / "kernels")
    # In a process of its own: this one may have the emulator's symbols.
    done = subprocess.run(
        [sys.executable, "-c", _PER_CHANNEL, str(built.library)], capture_output=True, text=True, check=False
    )
    assert "AddSatU8 does not support per-channel quant tensor" in done.stderr, done.stderr
