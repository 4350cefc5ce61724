"""ONNX models as networks: nodes in order, constants, inputs, and models made from them."""

from __future__ import annotations

import copy
import importlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.findings import suggestion, unknown
from udogen.onnx.models.model import STANDARD
from udogen.onnx.models.reading import cpu_session, graphs_of, read_whole, taken_by
from udogen.verify.cases import Arrays
from udogen.verify.test_files.references import ReferenceFunction
from udogen.verify.test_files.values import load_array

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

FLOAT, BITS_8 = "float", "8"
QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_TABLE = "the table of `udogen run model` has their names"


# Ops that a runtime may compute together with earlier ones, from inputs that are not rounded to 8 bits yet.
_FUSED = ("Relu", "Clip", "Concat")


class Samples(NamedTuple):
    """The inputs of a network."""

    rows: list[dict[str, Array]]
    random: tuple[str, ...]  # inputs that are random numbers
    assumed: tuple[str, ...]  # open dimensions of random inputs, taken as 1


class Network:
    """An ONNX model: its nodes in order, its constants, and models made from it."""

    def __init__(self, onnx: Any, path: Path, *, until: str = "", least_opset: int = 0) -> None:
        self.onnx, self.path = onnx, path
        self.model = read_whole(path)
        if any(opset.domain in STANDARD and opset.version < least_opset for opset in self.model.opset_import):
            self.model = _converted(self.model, least_opset, path)
        graph = self.model.graph
        self.constants: dict[str, Array] = {
            tensor.name: onnx.numpy_helper.to_array(tensor, base_dir=str(path.parent)) for tensor in graph.initializer
        }
        self.inputs = {tensor.name: tensor for tensor in graph.input if tensor.name not in self.constants}
        if until:
            self._cut(until)
        self.nodes = [each for each in graph.node if each.op_type != "Constant"]
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = _constant(onnx, node)
        self.outputs = [tensor.name for tensor in graph.output]
        declared = ((value.name, value.type.tensor_type.elem_type) for value in (*graph.value_info, *graph.output))
        self._types = {name: kind for name, kind in declared if kind}
        self._functions = {(function.domain, function.name) for function in self.model.functions}
        self._check()

    @property
    def computed(self) -> tuple[str, ...]:
        """Every tensor that a node computes."""
        return tuple(name for node in self.nodes for name in node.output if name)

    @property
    def observed(self) -> tuple[str, ...]:
        """Every tensor that QNN returns."""
        return tuple(name for name in self.computed if name not in self.hidden)

    @property
    def hidden(self) -> frozenset[str]:
        """The float tensors between stored ones, in a model that already contains QuantizeLinear and DequantizeLinear.

        Qualcomm's provider computes the nodes between them from stored to stored numbers.  If such a float tensor is
        also an output, that is prevented, or the execution ends with "Inconsistent output sizes" or a crash.
        """
        readers = self._readers()
        real = {name for node in self.nodes if node.op_type == DEQUANTIZE for name in node.output}
        stored_again = {
            name
            for node in self.nodes
            if real & {*node.input} or node.domain not in STANDARD
            for name in node.output
            if {reader.op_type for reader in readers[name]} == {QUANTIZE} and name not in self.outputs
        }
        return frozenset(real | stored_again)

    def dtype_of(self, name: str) -> Any:
        """The type that the model declares for an output of a custom op; otherwise float32."""
        return self.onnx.helper.tensor_dtype_to_np_dtype(self._types.get(name, self.onnx.TensorProto.FLOAT))

    def is_custom(self, node: Any) -> bool:
        """Whether the op of a node is neither an ONNX op nor a function of the model."""
        return node.domain not in STANDARD and (node.domain, node.op_type) not in self._functions

    def _inside(self, node: Any) -> Iterator[Any]:
        """The nodes in the bodies of a node or of the model function that it calls, recursively."""
        bodies = [*graphs_of(node)]
        bodies += [
            function
            for function in self.model.functions
            if (function.domain, function.name) == (node.domain, node.op_type)
        ]
        for body in bodies:
            for each in body.node:
                yield each
                yield from self._inside(each)

    def _readers(self) -> Mapping[str, list[Any]]:
        readers: dict[str, list[Any]] = defaultdict(list)
        for node in self.nodes:
            for name in taken_by(node):
                readers[name].append(node)
        return readers

    def _check(self) -> None:
        """Raise for nodes that Qualcomm's provider does not compute, or whose tensors it returns only in part."""
        readers = self._readers()
        for node in self.nodes:
            where = f"{self.path}: node `{title(node)}` ({node.op_type})"
            for inner in self._inside(node):
                if self.is_custom(inner):
                    raise UsageError(
                        f"{where} contains the custom node `{title(inner)}` ({inner.op_type}): only custom "
                        "nodes of the main graph can be run and compared",
                        hint="export the model without the control flow or the function, so that the node is outside",
                    )
            for name in node.output if self.is_custom(node) else ():
                quantizers = [reader for reader in readers[name] if reader.op_type == QUANTIZE]
                if quantizers and (len(readers[name]) > 1 or name in self.outputs):
                    raise UsageError(
                        f"{where}: its output `{name}` is quantized by node `{title(quantizers[0])}`, and is used "
                        "elsewhere, too: Qualcomm's provider has only the stored numbers of a custom op",
                        hint=f"use the output of DequantizeLinear in the other places, instead of `{name}`",
                    )

    def _cut(self, until: str) -> None:
        """Keep only the nodes that a tensor needs."""
        graph = self.model.graph
        known = {name for node in graph.node for name in node.output if name}
        if until not in known:
            raise UsageError(f"{self.path} computes no tensor `{until}`", hint=suggestion(until, known, _TABLE))
        needed, kept = {until}, []
        for node in reversed(graph.node):
            if needed & {*node.output}:
                kept.append(node)
                needed |= {*taken_by(node)}
        del graph.node[:]
        graph.node.extend(reversed(kept))
        del graph.output[:]
        graph.output.append(self.onnx.ValueInfoProto(name=until))
        used = [tensor for tensor in graph.input if tensor.name in needed]
        del graph.input[:]
        graph.input.extend(used)
        self.inputs = {name: tensor for name, tensor in self.inputs.items() if name in needed}

    def beginning(self, count: int) -> Network:
        """The network with only its first nodes."""
        made = copy.copy(self)
        made.nodes = self.nodes[:count]
        used = {name for node in made.nodes for name in taken_by(node)}
        made.model = self.onnx.ModelProto()
        made.model.CopyFrom(self.model)
        graph = made.model.graph
        constant = [node for node in self.model.graph.node if node.op_type == "Constant"]
        del graph.node[:]
        graph.node.extend([*constant, *made.nodes])
        made.inputs = {name: tensor for name, tensor in self.inputs.items() if name in used}
        del graph.input[:]
        graph.input.extend(made.inputs.values())
        return made

    def samples(self, files: Mapping[str, Path]) -> Samples:
        """The samples of the inputs; those without a file are random numbers."""
        if strange := [name for name in files if name not in self.inputs]:
            raise unknown(f"{self.path} has no input", strange[0], self.inputs)
        given = {name: self._load(name, file) for name, file in files.items()}
        counts = {len(rows) for rows in given.values() if len(rows) != 1}
        if len(counts) > 1:
            raise UsageError("the inputs have different numbers of samples", hint="give the same number for each")
        count = counts.pop() if counts else 1
        random, assumed = self._random(given, count)
        given |= random
        rows = [{name: rows[min(n, len(rows) - 1)] for name, rows in given.items()} for n in range(count)]
        return Samples(rows, tuple(random), tuple(assumed))

    def _random(self, given: Mapping[str, list[Array]], count: int) -> tuple[dict[str, list[Array]], list[str]]:
        """Random numbers for the inputs that are not given, and the names of those with assumed dimensions."""
        known = {
            dim.dim_param: size
            for name, rows in given.items()
            for dim, size in zip(self._dims(name), rows[0].shape, strict=True)
            if dim.dim_param
        }
        generator = np.random.default_rng(2026)
        random: dict[str, list[Array]] = {}
        assumed = []
        for name in self.inputs:
            if name in given:
                continue
            dims = self._dims(name)
            shape = [dim.dim_value or known.get(dim.dim_param, 1) for dim in dims]
            if any(not dim.dim_value and dim.dim_param not in known for dim in dims):
                assumed.append(f"{name} [{', '.join(_dim_text(dim, known) for dim in dims)}]")
            is_whole = self._dtype(name).kind in "iub"  # zeros and ones, which every index may be
            draw = partial(generator.integers, 0, 2, shape) if is_whole else partial(generator.normal, size=shape)
            random[name] = [np.asarray(draw(), self._dtype(name)) for _ in range(count)]
        return random, assumed

    def _dims(self, name: str) -> Sequence[Any]:
        dims: Sequence[Any] = self.inputs[name].type.tensor_type.shape.dim
        return dims

    def _dtype(self, name: str) -> Any:
        kind = self.inputs[name].type.tensor_type.elem_type
        try:
            return self.onnx.helper.tensor_dtype_to_np_dtype(kind)
        except KeyError:
            what = f"{self.path}: input `{name}` is not a tensor of a type of ONNX, but of type {kind}"
            raise UsageError(what, hint="make it a tensor, or export the model again") from None

    def _load(self, name: str, file: Path) -> list[Array]:
        array = load_array(file)
        shape = [dim.dim_value or None for dim in self._dims(name)]
        rows = [array] if array.ndim == len(shape) else list(array) if array.ndim == len(shape) + 1 else []
        fits = rows and all(want in (None, have) for have, want in zip(rows[0].shape, shape, strict=True))
        if not fits:
            shown = [size or "?" for size in shape]
            raise UsageError(
                f"{file} has the shape {list(array.shape)}, input `{name}` has {shown}",
                hint="give that shape, or several samples with a first axis more",
            )
        return [np.asarray(row, self._dtype(name), order="C") for row in rows]

    # --- models made from it ------------------------------------------------------------------------------------------

    def with_outputs(self, values: Mapping[str, Array]) -> Any:
        """The model with every tensor as an output, all shapes known, and nodes named after their first outputs."""
        made = self.onnx.ModelProto()
        made.CopyFrom(self.model)
        for value in made.graph.input:  # open dimensions are those of the samples
            if value.name in values:
                value.CopyFrom(self.value_info(value.name, values[value.name]))
        del made.graph.output[:]
        del made.graph.value_info[:]
        made.graph.output.extend(self.value_info(name, values[name]) for name in self.observed)
        made.graph.value_info.extend(self.value_info(name, values[name]) for name in self.hidden)
        made.graph.name = made.graph.name or "network"
        last = self.hidden - self._readers().keys()  # the provider fails with 6004 if no node reads these
        kept = [node for node in made.graph.node if last.isdisjoint(node.output)]
        for node in kept:
            node.name = first_output(node)
        del made.graph.node[:]
        made.graph.node.extend(kept)
        return made

    def value_info(self, name: str, value: Array) -> Any:
        """A tensor with the type and shape of a value."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        return self.onnx.helper.make_tensor_value_info(name, kind, value.shape)


def _converted(model: Any, opset: int, path: Path) -> Any:
    """The model, converted to a later opset, where the settings of some ops are passed differently."""
    try:
        return importlib.import_module("onnx.version_converter").convert_version(model, opset)
    except Exception as fault:  # from ONNX's C++ code, of any type
        raise UsageError(
            f"{path} cannot be converted to opset {opset}, which 8 bits need: {fault}",
            hint=f"export the model with opset {opset} or later",
        ) from fault


def _constant(onnx: Any, node: Any) -> Array:
    [attribute] = [each for each in node.attribute if each.name.startswith("value")]
    value = onnx.helper.get_attribute_value(attribute)
    array: Array = onnx.numpy_helper.to_array(value) if attribute.name == "value" else np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 and attribute.name != "value" else array


def _dim_text(dim: Any, known: Mapping[str, int]) -> str:
    return str(dim.dim_value) if dim.dim_value else f"{dim.dim_param or '?'}={known.get(dim.dim_param, 1)}"


def is_one_of(node: Any, ops: Sequence[str]) -> bool:
    """Whether a node is one of these ops of ONNX."""
    return node.domain in STANDARD and node.op_type in ops


def is_fused(node: Any) -> bool:
    """Whether a runtime may compute a node from inputs that are not rounded yet."""
    return is_one_of(node, _FUSED)


def title(node: Any) -> str:
    """The name of a node in messages."""
    return str(node.name or node.output[0])


def first_output(node: Any) -> str:
    """The first tensor that a node computes."""
    return str(next(filter(None, node.output)))


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
        missing = sorted({node.op_type for node in self.nodes if network.is_custom(node)} - references.keys())
        if missing:
            raise UsageError(
                f"there is no reference for the op{'s' * (len(missing) > 1)} {', '.join(missing)}",
                hint=f"--reference {missing[0]}=reference.py:function, or --tests op_tests.toml that names one",
            )

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
            arrays = self._reference(node, {**self._constants, **values}, self._attributes(node))
            return {name: array.astype(self.network.dtype_of(name)) for name, array in arrays.items()}
        if number not in self._sessions:
            self._sessions[number] = self._session(node, values)
        session, names = self._sessions[number]
        outputs = [name for name in node.output if name]
        arrays = session.run(outputs, {name: values[name] for name in names})
        return dict(zip(outputs, arrays, strict=True))

    def fused(self, number: int, values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of a node, computed from unrounded outputs of the nodes before it."""
        inputs = {}
        for before, node in enumerate(self.nodes[:number]):
            if used := {*node.output} & {*self.nodes[number].input} - {""}:
                arrays = (self.fused if is_fused(node) else self.node)(before, values)
                inputs.update({name: arrays[name] for name in used})
        return self.node(number, {**values, **inputs})

    def _is_custom(self, node: Any) -> bool:
        return node.op_type in self._references and node.domain not in STANDARD

    def _attributes(self, node: Any) -> dict[str, object]:
        given = {attribute.name: _attribute(self._onnx, attribute) for attribute in node.attribute}
        return {**self._defaults.get(node.op_type, {}), **given} if self._is_custom(node) else given

    def _reference(self, node: Any, values: Arrays, params: Mapping[str, object]) -> dict[str, Array]:
        inputs = [np.asarray(values[name], np.float64) if name else None for name in node.input]
        arrays = self._references[node.op_type](inputs, params, [name for name in node.output if name])
        return {name: np.asarray(arrays[name], np.float64) for name in node.output if name}

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
        try:
            made = cpu_session(model)
        except ToolMissing:
            raise
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
