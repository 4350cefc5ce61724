"""What a JSON says of a context binary, held against what the binary says itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from udogen.errors import RunFailed
from udogen.qnn import quantization
from udogen.qnn.quantization import OtherEncoding, Quantization
from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo
from udogen.runtime.contexts.context_json import ContextJson


class Difference(NamedTuple):
    """One thing that the two say otherwise; `tensor` and `graph` are empty for what is of the whole file."""

    graph: str
    tensor: str
    field: str
    in_json: str
    in_binary: str

    @property
    def message(self) -> str:
        """A sentence."""
        what = f"tensor `{self.tensor}` of graph `{self.graph}`" if self.tensor else ""
        what = what or (f"graph `{self.graph}`" if self.graph else "the context")
        return f"{what}: {self.field} is {self.in_json} in the JSON, {self.in_binary} in the binary"


def compare(described: ContextJson, binary: BinaryInfo) -> tuple[Difference, ...]:
    """Every difference, in the order of the binary; the binary counts."""
    return tuple(_compare(described.info, binary))


def too_small(described: ContextJson, binary: BinaryInfo, path: Path) -> None:
    """Refuse a JSON by which a buffer would be smaller than what the binary reads or writes."""
    faults = []
    for graph, side, tensor in _tensors(binary):
        other = next((each for each in _side(described.info, graph, side) if each.name == tensor.name), None)
        if other is not None and other.nbytes < tensor.nbytes:
            faults.append(
                f"tensor `{tensor.name}` of graph `{graph}` takes {tensor.nbytes} bytes ({_shown(tensor)}), "
                f"by the JSON {other.nbytes} ({_shown(other)})"
            )
    strange = not _common(described.info, binary)
    if faults or strange:
        name = described.path.name
        raise RunFailed(
            f"{name} does not describe {path.name}: it has none of its graphs"
            if strange
            else f"{name} does not describe {path.name}: buffers made by it would be too small",
            details=faults,
            hint="is it the JSON of another shard? write it again with qnn-context-binary-utility, or remove it: "
            "the binary describes itself",
        )


def _common(one: BinaryInfo, other: BinaryInfo) -> bool:
    names = {graph.name for graph in one.graphs} & {graph.name for graph in other.graphs}
    return bool(names) or not other.graphs


def _compare(json: BinaryInfo, binary: BinaryInfo) -> Iterator[Difference]:
    for what, attribute in _WHOLE:
        said, is_ = getattr(json, attribute), getattr(binary, attribute)
        if said and is_ and said != is_:
            yield Difference("", "", what, str(said), str(is_))
    yield from _names("", "graphs", [g.name for g in json.graphs], [g.name for g in binary.graphs])
    by_name = {graph.name: graph for graph in json.graphs}
    for graph in binary.graphs:
        if graph.name in by_name:
            yield from _graphs(by_name[graph.name], graph)


_WHOLE = (
    ("backendId", "backend_id"),
    ("buildId", "build_id"),
    ("coreApiVersion", "api_version"),
    ("contextBlobSize", "blob_size"),
    ("socModel", "soc_model"),
    ("dspArch", "arch"),
)


def _names(graph: str, what: str, said: Sequence[str], there: Sequence[str]) -> Iterator[Difference]:
    if sorted(said) != sorted(there):
        yield Difference(graph, "", f"the list of {what}", _list(said), _list(there))


def _graphs(json: GraphInfo, binary: GraphInfo) -> Iterator[Difference]:
    for what, said, there in (
        ("inputs", json.inputs, binary.inputs),
        ("outputs", json.outputs, binary.outputs),
    ):
        yield from _names(binary.name, what, [each.name for each in said], [each.name for each in there])
        by_name = {each.name: each for each in said}
        for tensor in there:
            other = by_name.get(tensor.name)
            if other is not None:
                yield from _compare_tensors(binary.name, other, tensor)


def _compare_tensors(graph: str, json: TensorInfo, binary: TensorInfo) -> Iterator[Difference]:
    for what, field, show in _FIELDS:
        said, there = getattr(json, field), getattr(binary, field)
        if said != there:
            yield Difference(graph, binary.name, what, show(said), show(there))
    if not same_quantization(json.quant, binary.quant):
        yield Difference(graph, binary.name, "quantization", _quant(json.quant), _quant(binary.quant))


def same_quantization(one: Quantization, other: Quantization) -> bool:
    """Whether two are alike, as far as floats of 32 bits and their texts tell; one that was only named may be any."""
    if isinstance(one, OtherEncoding) or isinstance(other, OtherEncoding):
        return quantization.name_of(one) == quantization.name_of(other)
    return type(one) is type(other) and _close(_values(one), _values(other))


def _values(quant: Any) -> list[float]:
    if is_dataclass(quant):
        return [value for field in fields(quant) for value in _values(getattr(quant, field.name))]
    if isinstance(quant, tuple):
        return [len(quant), *(value for each in quant for value in _values(each))]
    return [] if quant is None else [quant]


def _close(one: Sequence[float], other: Sequence[float]) -> bool:
    return len(one) == len(other) and all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(one, other, strict=True))


def _shape(shape: tuple[int, ...]) -> str:
    return str(list(shape))


def _dynamic(flags: tuple[bool, ...]) -> str:
    return str([axis for axis, each in enumerate(flags) if each])


_FIELDS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("id", "id", str),
    ("dataType", "dtype", str),
    ("dimensions", "shape", _shape),
    ("type", "role", str),
    ("dataFormat", "data_format", str),
    ("the list of axes that may change", "dynamic", _dynamic),
)


def _quant(quant: Quantization) -> str:
    values = _values(quant)
    shown = ", ".join(f"{value:g}" for value in values[:4]) + (", …" if len(values) > 4 else "")
    return quantization.name_of(quant) + (f" ({shown})" if values and not isinstance(quant, OtherEncoding) else "")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "empty"


def _shown(tensor: TensorInfo) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"


def _tensors(info: BinaryInfo) -> Iterator[tuple[str, str, TensorInfo]]:
    for graph in info.graphs:
        yield from ((graph.name, "inputs", each) for each in graph.inputs)
        yield from ((graph.name, "outputs", each) for each in graph.outputs)


def _side(info: BinaryInfo, graph: str, side: str) -> tuple[TensorInfo, ...]:
    found = next((each for each in info.graphs if each.name == graph), None)
    return () if found is None else found.inputs if side == "inputs" else found.outputs
