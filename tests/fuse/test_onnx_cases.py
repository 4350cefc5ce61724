"""ONNX's test cases for its own ops: kernels of single nodes return the expected numbers of these cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("halide", reason="pip install '.[kernels]'")

from onnx import helper
from onnx.backend.test.case.node import collect_testcases

from tests.fuse.compiled import Compiled, Node, call, compile_node, link
from udogen import UdogenError
from udogen.onnx.fuse.ops import TABLE

pytestmark = pytest.mark.filterwarnings("ignore")  # of numpy and Halide, caused by the numbers in the cases
_EACH = 7  # of about 900 cases; a prime, so that each op has some
_NEWEST = 23  # the newest opset that ONNX Runtime 1.23 to 1.27 supports


def node_of(case: Any) -> Node | None:
    """Return the node of a case with a single node of a supported op and array inputs; its settings are constants."""
    [node, *others] = case.model.graph.node
    if others or node.op_type not in TABLE or node.domain or not all(node.output):
        return None
    arrays = dict(zip((tensor.name for tensor in case.model.graph.input), case.data_sets[0][0], strict=True))
    if not all(isinstance(array, np.ndarray | np.generic) for array in arrays.values()):
        return None
    settings = TABLE[node.op_type].settings
    constants = [at for at, name in enumerate(node.input) if name and at < len(settings) and settings[at]]
    inputs = [np.asarray(arrays[name]) if name else None for name in node.input]
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    opset = min(_NEWEST, *(each.version for each in case.model.opset_import if not each.domain), _NEWEST)
    return Node(node.op_type, inputs, attributes, constants, opset, len(node.output))


def compiled(folder: Path) -> Iterator[tuple[str, Compiled, list[Any]]]:
    """Yield every seventh case: its name, its kernel, and its results; without the refused ones."""
    for number, case in enumerate(collect_testcases(None)[::_EACH]):
        node = node_of(case)
        try:
            if node is not None:
                yield case.name, compile_node(node, f"op{number}", folder), list(case.data_sets[0][1])
        except UdogenError as refused:
            assert refused.message and refused.hint, case.name


def test_kernels_return_what_comes_with_the_cases(tmp_path: Path) -> None:
    made = list(compiled(tmp_path))
    assert len(made) > 60
    library, wrong = link(tmp_path), []
    for name, kernel, expected in made:
        for found, array in zip(call(library, kernel).values(), expected, strict=True):
            if not np.allclose(found.astype(np.float64), array.astype(np.float64), 1e-3, 1e-5, equal_nan=True):
                wrong.append(name)
    assert not wrong


def test_what_would_be_another_number_is_refused(tmp_path: Path) -> None:
    row = np.array([1, 2, 300], np.uint16)
    with pytest.raises(UdogenError, match="uint16 as int32"):
        compile_node(Node("BitwiseNot", [row], opset=18), "op", tmp_path)
    with pytest.raises(UdogenError, match="do not round numbers to FLOAT8E4M3FN"):
        compile_node(
            Node("Cast", [row.astype(np.float32)], {"to": onnx.TensorProto.FLOAT8E4M3FN}, opset=19), "op", tmp_path
        )
