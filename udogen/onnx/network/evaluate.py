"""Computes the expected tensors of a network."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import RunFailed, UsageError
from udogen.onnx.models.reading import taken_by
from udogen.onnx.network.model import STANDARD, Network, title
from udogen.onnx.network.quantize import is_fused
from udogen.verify.cases import Arrays
from udogen.verify.test_files.references import ReferenceFunction

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


class Evaluator:
    """Computes nodes one by one: ONNX ops with ONNX Runtime's CPU, custom ops with their references."""

    def __init__(
        self,
        network: Network,
        references: Mapping[str, ReferenceFunction],
        constants: Mapping[str, Array] | None = None,
        *,
        defaults: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        self._defaults = defaults or {}  # of parameters, by op
        self._constants = network.constants if constants is None else constants
        self.network, self._onnx, self._references = network, network.onnx, references
        self.nodes = network.nodes
        self._sessions: dict[int, tuple[Any, list[str]]] = {}
        missing = sorted({each.op_type for each in self.nodes if network.is_custom(each)} - references.keys())
        if missing:
            raise UsageError(
                f"there is no reference for the op{'s' * (len(missing) > 1)} {', '.join(missing)}",
                hint=f"--reference {missing[0]}=reference.py:function, or --tests op_tests.toml that names one",
            )
        self._runtime: Any = importlib.import_module("onnxruntime")

    def with_constants(self, constants: Mapping[str, Array]) -> Evaluator:
        """The same evaluator with other values of constants."""
        return Evaluator(self.network, self._references, constants, defaults=self._defaults)

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Every tensor of the network."""
        values: dict[str, Array] = dict(sample)
        for number in range(len(self.network.nodes)):
            values.update(self.node(number, values))
        return values

    def node(self, number: int, values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of one node from these tensors and the network's constants."""
        node = self.network.nodes[number]
        if self._is_custom(node):
            found = self._reference(node, {**self._constants, **values}, self._attributes(node))
            return {name: array.astype(np.float32) for name, array in found.items()}
        if number not in self._sessions:
            self._sessions[number] = self._session(node, values)
        session, names = self._sessions[number]
        outputs = [name for name in node.output if name]
        found = session.run(outputs, {name: values[name] for name in names})
        return dict(zip(outputs, found, strict=True))

    def fused(self, number: int, values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of a node, computed from unrounded outputs of the nodes before it."""
        inputs = {}
        for before, node in enumerate(self.nodes[:number]):
            if used := {*node.output} & {*self.nodes[number].input} - {""}:
                found = (self.fused if is_fused(node) else self.node)(before, values)
                inputs.update({name: found[name] for name in used})
        return self.node(number, {**values, **inputs})

    def _is_custom(self, node: Any) -> bool:
        return node.op_type in self._references and node.domain not in STANDARD

    def _attributes(self, node: Any) -> dict[str, object]:
        given = {each.name: _attribute(self._onnx, each) for each in node.attribute}
        return {**self._defaults.get(node.op_type, {}), **given} if self._is_custom(node) else given

    def _reference(self, node: Any, values: Arrays, params: Mapping[str, object]) -> dict[str, Array]:
        inputs = [np.asarray(values[name], np.float64) if name else None for name in node.input]
        found = self._references[node.op_type](inputs, params, [name for name in node.output if name])
        return {name: np.asarray(found[name], np.float64) for name in node.output if name}

    def _session(self, node: Any, values: Mapping[str, Array]) -> tuple[Any, list[str]]:
        helper, network = self._onnx.helper, self.network
        used = list(dict.fromkeys(taken_by(node)))
        names = [name for name in used if name not in self._constants]
        rows = [network.value_info(name, values[name]) for name in names]
        constant = [name for name in used if name in self._constants]
        constants = [self._onnx.numpy_helper.from_array(self._constants[name], name) for name in constant]
        outputs = [self._onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", rows, outputs, constants)
        model = helper.make_model(graph, opset_imports=network.model.opset_import)
        model.functions.extend(network.model.functions)
        model.ir_version = network.model.ir_version
        options = self._runtime.SessionOptions()
        options.graph_optimization_level = self._runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        try:
            made = self._runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        except Exception as fault:  # from pybind11, with a type for each kind of error
            raise RunFailed(
                f"ONNX Runtime's CPU cannot compute node `{title(node)}` ({node.op_type}): "
                + " ".join(str(fault).split())[:300],
                hint="check the model: `onnx.checker.check_model`",
            ) from fault
        return made, names


def _attribute(onnx: Any, attribute: Any) -> object:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
