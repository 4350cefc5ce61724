"""The nodes of a model that are fused, their inputs and outputs, and the values that these have in the model."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.findings import suggestion, unknown
from udogen.onnx.fuse.ops import OF_SHAPES, row_of, title
from udogen.onnx.models.model import STANDARD
from udogen.onnx.models.reading import captured_by, cpu_session, graphs_of, onnx_module, read_whole, taken_by
from udogen.onnx.models.uses import RANDOM
from udogen.verify.test_files.values import load_array

if TYPE_CHECKING:
    from udogen.onnx.models.model import Array

_LARGEST = (1 << 31) - (1 << 20)  # bytes
_IMAGE, _PIXELS, _LENGTH = 4, 224, 16  # axes of images, and sizes in examples of --dim
_DIMS = "dimensions are named as in the model, or INPUT.AXIS"


@dataclass(frozen=True)
class Subgraph:
    """Nodes that become one op."""

    nodes: tuple[Any, ...]  # in order, without those that are constant
    inputs: tuple[str, ...]  # what the model calculates, then constants that are tensors
    outputs: tuple[str, ...]
    values: Mapping[str, Array]  # of all of them, in one run of the model
    static: frozenset[str]  # values that are the same in every run
    opset: int


@dataclass(frozen=True)
class _OpenAxis:
    """An axis of an input without a size in the model."""

    input: str
    axis: int
    rank: int
    name: str  # empty, if the dimension has none

    @property
    def dim(self) -> str:
        """Its name in --dim; some models call all their dimensions `?`."""
        return self.name if any(map(str.isalnum, self.name)) else f"{self.input}.{self.axis}"

    @property
    def example(self) -> int:
        """A size that is often right."""
        return 1 if self.axis == 0 else _PIXELS if self.rank == _IMAGE and self.axis > 1 else _LENGTH

    @property
    def fault(self) -> str:
        """The problem with it."""
        known = f", only the name {self.name}" if self.name else ""
        return f"axis {self.axis} of input `{self.input}` has no size{known}"


def read_source(path: Path, dims: Mapping[str, int]) -> SourceModel:
    """Read a model from a file."""
    model = read_whole(path)
    if sum(tensor.ByteSize() for tensor in model.graph.initializer) >= _LARGEST:
        raise UsageError(
            f"{path} has more than 2 GB of constants, which one file of ONNX cannot hold",
            hint="cut the part around the nodes out of it first: onnx.utils.extract_model",
        )
    return SourceModel(model, path.name, dims)


class SourceModel:
    """A model whose nodes are fused; its open dimensions have sizes."""

    def __init__(self, model: Any, file: str, dims: Mapping[str, int]) -> None:
        self.model, self.file, self.onnx = model, file, onnx_module()
        self.graph = self.model.graph
        self.nodes = list(self.graph.node)  # the same objects each time
        self.constants = {tensor.name for tensor in self.graph.initializer}
        self.inputs = [tensor for tensor in self.graph.input if tensor.name not in self.constants]
        self._fix(dims)
        self.opset = next((row.version for row in self.model.opset_import if row.domain in STANDARD), 1)
        self.makers = {name: node for node in self.nodes for name in node.output if name}
        self.static = self._static()

    def _fix(self, dims: Mapping[str, int]) -> None:
        """Give each open dimension its size; raises with all that have none, and with all unused --dim."""
        missing = []
        used = set()
        for value in self.inputs:
            shape = value.type.tensor_type.shape.dim
            for axis, dim in enumerate(shape):
                if dim.dim_value > 0:
                    continue
                names = (f"{value.name}.{axis}", dim.dim_param)
                if given := next((name for name in names if name in dims), ""):
                    used.add(given)
                    dim.dim_value = dims[given]
                else:
                    missing.append(_OpenAxis(value.name, axis, len(shape), dim.dim_param))
        self._refuse(missing, [name for name in dims if name not in used])
        for value in (*self.graph.value_info, *self.graph.output):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in dims:
                    dim.dim_value = dims[dim.dim_param]

    def _refuse(self, missing: Sequence[_OpenAxis], unused: Sequence[str]) -> None:
        """Raise for axes without a size, and for --dim that no input has."""
        by_name = {dim.dim: dim for dim in reversed(missing)}  # one example for axes of one name: the first
        first = [dim for dim in missing if by_name[dim.dim] is dim]
        faults = [f"{self.file}: {dim.fault}" for dim in first]
        faults += [f"--dim {name}: no input of {self.file} has this open dimension" for name in unused]
        if faults:
            more = " ".join(f"--dim {shlex.quote(f'{dim.dim}={dim.example}')}" for dim in first)
            hint = f"QNN takes models of fixed shapes: add {more}, or the sizes that you need" if first else _DIMS
            raise UsageError(faults[0], hint=hint, details=faults[1:])

    def _static(self) -> frozenset[str]:
        """Values that are the same in every run."""
        constant_names = set(self.constants)
        for node in self.nodes:
            fixed = node.op_type in OF_SHAPES and node.domain in STANDARD
            inner = list(captured_by(node))
            if node.op_type not in RANDOM and (
                fixed or all(name in constant_names for name in (*node.input, *inner) if name)
            ):
                constant_names |= {name for name in node.output if name}
        return frozenset(constant_names)

    # --- nodes ----------------------------------------------------------------------------------------------------

    def select(self, text: str) -> list[Any]:
        """The nodes of `A..B` (on all paths between), of a name, or of several of these separated by commas."""
        chosen: set[int] = set()
        for part in (each.strip() for each in text.split(",")):
            first, dots, last = part.partition("..")
            if not part or (dots and not (first and last)):
                raise UsageError(f"--nodes {text}: `{part}` names no nodes", hint="as in --nodes First..Last, or A,B,C")
            chosen |= self._between(first, last) if dots else {id(self._node(part))}
        nodes = [node for node in self.nodes if id(node) in chosen and not self.is_static(node)]
        if not nodes:
            raise UsageError(
                f"--nodes {text} selects nothing but constants", hint="choose nodes that calculate something"
            )
        self._check_convex(nodes)
        return nodes

    def is_static(self, node: Any) -> bool:
        """Whether the outputs of a node are the same in every run."""
        return all(name in self.static for name in node.output if name)

    def _node(self, name: str) -> Any:
        """A node by its name, or by the name of a tensor that it makes."""
        found = next((node for node in self.nodes if node.name == name), self.makers.get(name))
        if found is None:
            known = [name for node in self.nodes for name in (node.name, *node.output) if name]
            hint = suggestion(name, known, "`udogen inspect --mermaid` shows the names of nodes")
            raise UsageError(f"{self.file} has no node and no calculated tensor `{name}`", hint=hint)
        return found

    def _between(self, first: str, last: str) -> set[int]:
        """The nodes on all paths from one node to another; paths may also begin with a tensor that nodes take."""
        end = self._node(last)
        starts = self._starts(first, end)
        reached, names = set(starts), set[str]()
        for node in self.nodes:
            if id(node) in reached or names & {*taken_by(node)}:
                reached.add(id(node))
                names |= {name for name in node.output if name}
        needed, wanted = {id(end)}, set(taken_by(end))
        for node in reversed(self.nodes):
            if wanted & {*node.output}:
                needed.add(id(node))
                wanted |= set(taken_by(node))
        if not starts & needed:
            raise UsageError(
                f"{self.file}: no path leads from `{first}` to `{last}`",
                hint="name the node that comes first before `..`",
            )
        # A tensor may be taken by nodes that do not lead to the last one.
        return reached & needed

    def _starts(self, first: str, end: Any) -> set[int]:
        """The first nodes of paths from a node or tensor."""
        is_made = first in self.makers and all(node.name != first for node in self.nodes)
        takers: set[int] = set()
        if is_made or any(tensor.name == first for tensor in self.inputs):
            takers = {id(node) for node in self.nodes if first in node.input}
        if not takers:
            return {id(self._node(first))}
        return {id(end)} if is_made and self.makers[first] is end else takers

    def _check_convex(self, nodes: Sequence[Any]) -> None:
        """Raise if another node both needs the op and is needed by it."""
        inside = {id(node) for node in nodes}
        tainted: dict[str, Any] = {}  # values that other nodes made from the outputs of these
        for node in self.nodes:
            made_of = next((tainted[name] for name in taken_by(node) if name in tainted), None)
            if id(node) in inside:
                if made_of is not None:
                    raise UsageError(
                        f"{title(made_of)} takes a result of these nodes, and {title(node)} needs what it makes",
                        hint="choose it, too, or fewer nodes",
                    )
                continue
            takes = any(id(self.makers[name]) in inside for name in taken_by(node) if name in self.makers)
            if takes or made_of is not None:
                tainted |= {name: node if made_of is None else made_of for name in node.output if name}

    # --- values ---------------------------------------------------------------------------------------------------

    def feeds(self, files: Mapping[str, Path]) -> dict[str, Array]:
        """An array for each input: from a file, or random numbers."""
        known = [each.name for each in self.inputs]
        if strange := [name for name in files if name not in known]:
            raise unknown(f"{self.file} has no input", strange[0], known)
        numbers = np.random.default_rng(2026)
        arrays = {}
        for each in self.inputs:
            tensor = each.type.tensor_type
            dtype = self.onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            shape = tuple(dim.dim_value for dim in tensor.shape.dim)
            if each.name in files:
                arrays[each.name] = _load(files[each.name], each.name, dtype, shape)
            elif dtype.kind in "iub":
                arrays[each.name] = numbers.integers(0, 2, shape).astype(dtype)
            else:
                arrays[each.name] = numbers.normal(size=shape).astype(dtype)
        return arrays

    def run(self, feeds: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
        """These values, as ONNX Runtime's CPU calculates them without optimization."""
        made = self.onnx.ModelProto()
        made.CopyFrom(self.model)
        constants = {tensor.name: tensor for tensor in self.graph.initializer if tensor.name in names}
        known = {name: self.onnx.numpy_helper.to_array(tensor) for name, tensor in constants.items()}
        known |= {name: array for name, array in feeds.items() if name in names}
        wanted = [name for name in dict.fromkeys(names) if name not in known]
        del made.graph.output[:]
        made.graph.output.extend(self.onnx.ValueInfoProto(name=name) for name in wanted)
        if not wanted:
            return known
        hint = "fuse before other nodes become custom ops: ONNX Runtime must know each node, or the model its function"
        try:
            session = cpu_session(made)
            hint = "give inputs with --feed NAME=FILE.npy: they are random now"
            arrays = session.run(wanted, dict(feeds))
        except ToolMissing:
            raise
        except Exception as fault:  # pybind11 raises various kinds
            text = " ".join(str(fault).split())[:300]
            raise RunFailed(f"ONNX Runtime's CPU cannot run {self.file}: {text}", hint=hint) from fault
        return known | dict(zip(wanted, arrays, strict=True))

    def subgraph(self, nodes: Sequence[Any], feeds: Mapping[str, Array]) -> Subgraph:
        """The nodes with their inputs and outputs; raises if a node cannot be fused."""
        for node in nodes:
            if list(graphs_of(node)):
                raise UsageError(f"{title(node)} contains graphs", hint="choose nodes outside of it")
            row_of(node, self.opset)
        made = {name: node for node in nodes for name in node.output if name}
        taken = dict.fromkeys(name for node in nodes for name in node.input if name and name not in made)
        outputs = self._outputs(nodes, made)
        values = self.run(feeds, [*taken, *made])
        for name in (*taken, *made):
            self._check_value(name, values[name], made.get(name))
        fresh = tuple(name for name in taken if name not in self.static)
        tensors = tuple(name for name in taken if name in self.static)
        return Subgraph(tuple(nodes), (*fresh, *tensors), outputs, values, self.static, self.opset)

    def _outputs(self, nodes: Sequence[Any], made: Iterable[str]) -> tuple[str, ...]:
        """The outputs of nodes that the model returns, or that other nodes take."""
        inside = {id(node) for node in nodes}
        used = {name for node in self.nodes if id(node) not in inside for name in taken_by(node)}
        used |= {tensor.name for tensor in self.graph.output}
        return tuple(name for name in made if name in used)

    def _check_value(self, name: str, value: Array, node: Any) -> None:
        where = title(node) if node is not None else f"value `{name}`"
        if value is None or not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
            raise UsageError(f"{where}: `{name}` is not a tensor of numbers", hint="choose other nodes")
        if not value.size and name not in self.static:
            raise UsageError(f"{where}: `{name}` has no elements here", hint="give other --dim or --feed")


def _load(file: Path, name: str, dtype: Any, shape: tuple[int, ...]) -> Array:
    array = load_array(file)
    if array.shape != shape:
        raise UsageError(
            f"{file} has the shape {list(array.shape)}, input `{name}` has {list(shape)}", hint="give that one"
        )
    return np.ascontiguousarray(array.astype(dtype))
