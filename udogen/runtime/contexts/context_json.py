"""The JSON that qnn-context-binary-utility writes for a context binary: read, written, compared with the binary.

Three forms are supported: with an `info` inside each binary, graph and tensor; flat, as newer releases write it (both
are JSON schemas inside libQnnSystem 2.47); and flat with shorter names (`inputs`, `dims`, `quantization`), as written
by programs that read such files.  All problems of a file are collected, each with its line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from udogen.documents.document import Document, parse
from udogen.errors import RunFailed, open_plain
from udogen.findings import Finding, Findings
from udogen.opdef import datatypes
from udogen.qnn import quantization
from udogen.qnn.quantization import OtherEncoding, Quantization
from udogen.qnn.system import HTP_KEYS, BinaryInfo, GraphInfo, HardwareDevice, HtpGraph
from udogen.qnn.tensors import MOST_BYTES, QnnTensor, described_tensor
from udogen.runtime.contexts.json_values import (
    FORMATS,
    MISSING,
    JsonNode,
    code_of,
    data_format,
    data_type,
    htp_graph,
    last_number,
    of_width,
    read_quantization,
    type_hint,
    write_quantization,
)
from udogen.runtime.contexts.json_values import role as role_of

_LARGEST_FILE = 256 << 20
_MOST_VALUES = 5_000_000
_MOST_DIM = (1 << 32) - 1


class ContextJson(NamedTuple):
    """A description read from JSON, with warnings."""

    path: Path
    info: BinaryInfo
    warnings: tuple[Finding, ...]


def read(path: Path) -> ContextJson:
    """Read such a file; raises `ConfigError` (exit code 2) with all problems of the file."""
    data, file, findings = _bytes(path), str(path), Findings()
    value, info = _quickly(data), None
    if value is not MISSING:
        info = _read_binary(Document(value, {}, file, findings))
    if info is None or findings.all():  # parse again with line numbers, which the fast parser lacks
        findings = Findings()
        document = parse(data, file, findings, most=_MOST_VALUES)
        if document is not None:
            info = _read_binary(document)
    findings.stop_if_any(what=path.name)
    assert info is not None
    return ContextJson(path, info, findings.warnings)


def _bytes(path: Path) -> bytes:
    try:
        with open_plain(path) as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as fault:
        raise RunFailed(
            f"the description {path} cannot be read: {fault.strerror}", hint="give a file that you may read"
        ) from fault
    if len(data) > _LARGEST_FILE:
        raise RunFailed(
            f"the description {path} is larger than {_LARGEST_FILE >> 20} MiB",
            hint="give the JSON that describes the binary; this may be the binary itself",
        )
    return data


def _quickly(data: bytes) -> Any:
    """The value of JSON text, parsed fast; MISSING if it is not valid or a key is repeated."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        by_key = dict(items)
        if len(by_key) != len(items):
            raise ValueError("a key is repeated")
        return by_key

    def constant(text: str) -> Any:
        raise ValueError(f"{text} is not JSON")

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError):
        return MISSING


def _read_binary(document: Document) -> BinaryInfo | None:
    top = JsonNode(document.value, (), document)
    if not top.is_object:
        top.error("this is not a description of a context binary: it is not an object", _MAKE)
        return None
    if top.get("graphs", "graphInputs", "inputs") is None:
        top.error("this is not a description of a context binary: it has no `graphs`", _MAKE)
        return None
    graphs = _read_graphs(top)
    tensors = _read_rows(top.get("contextTensors"), "contextTensors")
    arch = top.get("contextMetadata")
    arch = arch.get("dspArch") if arch is not None and arch.is_object else None
    return BinaryInfo(
        backend_id=top.whole("backendId", 0),
        build_id=top.text("buildId"),
        api_version=top.text("coreApiVersion"),
        backend_version=top.text("backendApiVersion"),
        soc=top.text("socVersion"),
        graphs=graphs,
        version=last_number(top.text("version")),
        blob_version=top.text("contextBlobVersion"),
        blob_size=top.whole("contextBlobSize", 0),
        context_tensors=tuple(_read_tensor(row, "") for row in tensors),
        arch=f"v{arch.value}" if arch is not None and arch.value else "",
        soc_model=top.whole("socModel", 0),
        devices=_read_devices(top),
    )


def _read_graphs(top: JsonNode) -> tuple[GraphInfo, ...]:
    listed = top.get("graphs")
    rows = [top] if listed is None else _read_rows(listed, "graphs")  # a single graph may be at the top level
    _counted(top, "numGraphs", rows, "graphs")
    graphs = [(row, graph) for row in rows if (graph := _read_graph(row)) is not None]
    if not rows and listed is not None:
        listed.error("there is no graph in it", _MAKE)
    _unique([(row, graph.name) for row, graph in graphs], "graphs", "the name")
    return tuple(graph for _, graph in graphs)


def _read_devices(top: JsonNode) -> tuple[HardwareDevice, ...]:
    platform = top.get("platformInfo")
    listed = platform.get("hwDevices") if platform is not None and platform.is_object else None
    if listed is None or not isinstance(listed.value, list):
        return ()
    rows = (row for row in listed.items() if row.is_object)
    return tuple(HardwareDevice(*(row.whole(key, 0) for key in _DEVICE)) for row in rows)


def _read_rows(node: JsonNode | None, what: str) -> list[JsonNode]:
    if node is None:
        return []
    if not isinstance(node.value, list):
        node.error(f"`{what}` is not a list", _MAKE)
        return []
    return list(node.items())


def _read_graph(row: JsonNode) -> GraphInfo | None:
    if not row.is_object:
        row.error(f"a graph is an object, not {row.shown}", _MAKE)
        return None
    name = row.text("graphName", "name")
    if not name:
        row.error("a graph has no name (`graphName`)", _MAKE)
    sides = []
    for keys, count, role in (
        (("graphInputs", "inputs"), "numGraphInputs", "APP_WRITE"),
        (("graphOutputs", "outputs"), "numGraphOutputs", "APP_READ"),
        (("updateableTensors",), "numUpdateableTensors", ""),
    ):
        listed = row.get(*keys)
        if listed is None and role:
            row.error(f"graph `{name}` has no `{keys[0]}`", _MAKE)
        rows = _read_rows(listed, keys[0])
        _counted(row, count, rows, f"{keys[0]} of graph `{name}`")
        tensors = [_read_tensor(tensor, role, name) for tensor in rows]
        for what, of in (("the name", [t.name for t in tensors]), ("the id", [str(t.id) for t in tensors])):
            _unique(list(zip(rows, of, strict=True)), f"{keys[0]} of graph `{name}`", what)
        sides.append(tuple(tensors))
    return GraphInfo(name, sides[0], sides[1], sides[2], htp_graph(row))


def _unique(rows: Sequence[tuple[JsonNode, str]], what: str, which: str) -> None:
    seen: set[str] = set()
    for row, key in rows:
        if key and key != "-1" and key in seen:
            row.error(f"two of the {what} have {which} `{key}`", "it must be unique")
        seen.add(key)


def _counted(row: JsonNode, key: str, rows: Sequence[JsonNode], what: str) -> None:
    given = row.get(key)
    if given is not None and given.value != len(rows):
        given.error(f"`{key}` is {given.shown}, but {what} are {len(rows)}", "was the file cut or edited?")


def _read_tensor(row: JsonNode, role: str, graph: str = "") -> QnnTensor:
    if not row.is_object:
        row.error(f"a tensor is an object, not {row.shown}", _MAKE)
        return _NONE
    name = row.text("name")
    what = f"tensor `{name}`" + (f" of graph `{graph}`" if graph else "")
    if not name:
        row.error("a tensor has no name" + (f" (in graph `{graph}`)" if graph else ""), _MAKE)
    shape = _read_shape(row, what)
    info = described_tensor(
        id=_read_id(row, what),
        name=name,
        dtype=_read_dtype(row, what),
        shape=shape,
        quant=read_quantization(row, what),
        role=_read_role(row, role, what),
        dynamic=_read_dynamic(row, shape, what),
        data_format=data_format(row),
    )
    _check_size(row, info, what)
    return info


def _read_id(row: JsonNode, what: str) -> int:
    node = row.get("id")
    if node is None:
        row.error(f"{what} has no `id`", "a graph knows its tensors by their ids")
        return -1
    if not node.is_whole or not 0 <= node.value < 1 << 32:
        node.error(f"{what}: its id is {node.shown}, not a 32-bit integer", _MAKE)
        return -1
    return int(node.value)


def _read_shape(row: JsonNode, what: str) -> tuple[int, ...]:
    """The shape of a tensor: `currentDimensions`, with which the graph runs, take precedence over `dimensions`."""
    by_key = {key: node for key in ("currentDimensions", "dimensions", "dims") if (node := row.get(key)) is not None}
    if not by_key:
        row.error(f"{what} has no `dimensions`", _MAKE)
        return ()
    shapes = {key: _read_dims(node, key, what) for key, node in by_key.items()}
    key, shape = next(iter(shapes.items()))
    for other, others in shapes.items():
        if len(others) != len(shape):
            by_key[other].error(
                f"{what}: `{other}` has {len(others)} axes, `{key}` has {len(shape)}",
                "the number of axes does not change",
            )
    rank = row.get("rank")
    if rank is not None and rank.value != len(shape):
        rank.error(f"{what}: its rank is {rank.shown}, but `{key}` has {len(shape)} axes", _MAKE)
    return shape


def _read_dims(node: JsonNode, key: str, what: str) -> tuple[int, ...]:
    if not isinstance(node.value, list):
        node.error(f"{what}: `{key}` is {node.shown}, not a list of integers", _MAKE)
        return ()
    for axis, extent in enumerate(node.items()):
        if not extent.is_whole:
            extent.error(f"{what}: axis {axis} of `{key}` is {extent.shown}, not an integer", _MAKE)
        elif not 0 < extent.value <= _MOST_DIM:
            why = "zero" if extent.value == 0 else "negative" if extent.value < 0 else "more than 32 bits hold"
            extent.error(f"{what}: axis {axis} of `{key}` is {extent.shown}: {why}", "no buffer has that size")
    return tuple(extent.value if extent.is_whole and 0 < extent.value <= _MOST_DIM else 1 for extent in node.items())


def _read_dtype(row: JsonNode, what: str) -> str:
    """The data type; if `bytesPerElement` differs, the type of the same kind with that size."""
    width = _read_width(row, what)
    node = row.get("dataType", "data_type")
    if node is None:
        row.error(f"{what} has no `dataType`", _MAKE)
        return "UINT_8"
    datatype = data_type(node.value)
    if datatype is None and width and code_of(node.value) is not None:
        taken = f"UINT_{width * 8}"
        why = f"data type {node.shown} is not known"
    elif datatype is None:
        node.error(f"{what}: {node.shown} is not a data type", type_hint(node.value))
        return "UINT_8"
    elif width in (0, datatype.bits / 8):
        return datatype.name
    else:
        taken = of_width(datatype, width * 8)
        why = f"`bytesPerElement` is {width}, but an element of {datatype.name} takes {_bits(datatype.bits)}"
        if not taken:
            (row.get("bytesPerElement") or row).error(f"{what}: {why}", _MAKE)
            return datatype.name
    node.warn(f"{what}: {why}; treated as {taken}", "`bytesPerElement` counts")
    return taken


def _read_width(row: JsonNode, what: str) -> int:
    node = row.get("bytesPerElement")
    if node is None:
        return 0
    if not node.is_whole or node.value not in (1, 2, 4, 8):
        node.error(f"{what}: `bytesPerElement` is {node.shown}", "it is 1, 2, 4 or 8")
        return 0
    return int(node.value)


def _read_role(row: JsonNode, role: str, what: str) -> str:
    node = row.get("type")
    if node is None:
        return role
    named = role_of(node.value)
    if not named:
        node.error(f"{what}: {node.shown} is not a type of a tensor", "such as QNN_TENSOR_TYPE_APP_WRITE")
    elif role and not named.endswith((role, "READWRITE")):
        side = "an input" if role == "APP_WRITE" else "an output"
        node.error(f"{what} is {side} by its place and {named} by its type", f"the type of {side} is {role}")
    return named


def _read_dynamic(row: JsonNode, shape: tuple[int, ...], what: str) -> tuple[bool, ...]:
    node = row.get("isDynamicDimensions")
    if node is None or not node.value:
        return ()
    flags = node.value
    if not isinstance(flags, list) or len(flags) != len(shape):
        node.error(f"{what}: `isDynamicDimensions` is {node.shown}, not one value for each axis", _MAKE)
        return ()
    return tuple(map(bool, flags)) if any(flags) else ()


def _check_size(row: JsonNode, info: QnnTensor, what: str) -> None:
    size = info.nbytes
    shape = " x ".join(map(str, info.shape))
    if size > MOST_BYTES:
        (row.get("currentDimensions", "dimensions", "dims") or row).error(
            f"{what}: {shape} elements of {info.dtype} are {size} bytes; a client buffer holds at most {MOST_BYTES}",
            "are these its dimensions?",
        )
    given = row.get("nbytes")
    if given is not None and given.value != size:
        given.warn(
            f"{what}: `nbytes` is {given.shown}, but {shape} elements of {info.dtype} are {size} bytes",
            f"{size} counts",
        )


_MAKE = "write it with `qnn-context-binary-utility --context_binary FILE.bin --json_file FILE.json`"
_NONE = described_tensor("", "UINT_8", (), id=-1)

_DEVICE = ("deviceId", "deviceType", "numCores")


def _bits(bits: int) -> str:
    return f"{bits // 8}" if bits % 8 == 0 else f"{bits} bits"


def info_json(info: BinaryInfo) -> str:
    """A description of a context binary as JSON, in the format of qnn-context-binary-utility.

    `Path("forward_0_json.json").write_text(info_json(context.info))`
    """
    return json.dumps(info_fields(info), indent=2, ensure_ascii=False) + "\n"


def info_fields(info: BinaryInfo) -> dict[str, Any]:
    """The description as plain values, in the form with an `info` inside each part."""
    members: dict[str, Any] = {
        "backendId": info.backend_id,
        "buildId": info.build_id,
        "coreApiVersion": info.api_version,
        "backendApiVersion": info.backend_version,
        "socVersion": info.soc,
        "contextBlobVersion": info.blob_version,
        "contextBlobSize": info.blob_size,
        "numContextTensors": len(info.context_tensors),
        "contextTensors": _tensors(info.context_tensors),
        "numGraphs": len(info.graphs),
        "graphs": [_graph(graph, info.version) for graph in info.graphs],
    }
    if info.version >= 3:
        members["socModel"] = info.soc_model
    if info.devices:
        rows = [{"deviceId": row.id, "deviceType": row.type, "numCores": row.cores} for row in info.devices]
        members["platformInfo"] = {"numHwDevices": len(rows), "hwDevices": rows}
    if info.arch:
        version = "QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_VERSION_V1"
        members["contextMetadata"] = {"version": version, "info": {"dspArch": int(info.arch.removeprefix("v"))}}
    return {"version": f"QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_{info.version}", "info": members}


def _graph(graph: GraphInfo, version: int) -> dict[str, Any]:
    members: dict[str, Any] = {
        "graphName": graph.name,
        "numGraphInputs": len(graph.inputs),
        "graphInputs": _tensors(graph.inputs),
        "numGraphOutputs": len(graph.outputs),
        "graphOutputs": _tensors(graph.outputs),
        "numUpdateableTensors": len(graph.updateable),
        "updateableTensors": _tensors(graph.updateable),
    }
    if graph.htp is not None:
        members["graphBlobInfo"] = _htp(graph.htp)
    return {"version": f"QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_{version}", "info": members}


def _htp(graph: HtpGraph) -> dict[str, Any]:
    return {
        "version": "QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V1",
        "info": {key: int(getattr(graph, field)) for key, field in HTP_KEYS.items()},
    }


def _tensors(tensors: Sequence[QnnTensor]) -> list[dict[str, Any]]:
    return [_tensor(tensor) for tensor in tensors]


def _tensor(tensor: QnnTensor) -> dict[str, Any]:
    row = datatypes.parse(tensor.dtype)
    members: dict[str, Any] = {
        "id": tensor.id,
        "name": tensor.name,
        "type": f"QNN_TENSOR_TYPE_{tensor.role}",
        "dataFormat": _format(tensor.data_format),
        "dataType": row.qnn if row else tensor.dtype,
        "rank": len(tensor.shape),
        "dimensions": list(tensor.shape),
        "memType": "QNN_TENSORMEMTYPE_RAW",
        "quantizeParams": write_quantization(tensor.quant),
    }
    if tensor.dynamic:
        members["isDynamicDimensions"] = [int(flag) for flag in tensor.dynamic]
    return {"version": f"QNN_TENSOR_VERSION_{2 if tensor.dynamic else 1}", "info": members}


def _format(number: int) -> str | int:
    return f"QNN_TENSOR_DATA_FORMAT_{FORMATS[number]}" if number < len(FORMATS) else number


def compare(described: ContextJson, binary: BinaryInfo) -> tuple[str, ...]:
    """All differences, as sentences in the order of the binary."""
    rows = _differences(described.info, binary)
    return tuple(f"{what}: {field} is {json} in the JSON, {other} in the binary" for what, field, json, other in rows)


def too_small(described: ContextJson, binary: BinaryInfo, path: Path) -> None:
    """Raise if buffers made from the JSON would be too small for the binary."""
    faults, in_json = [], _edges(described.info)
    for (graph, side, name), tensor in _edges(binary).items():
        other = in_json.get((graph, side, name), tensor)
        if other.nbytes < tensor.nbytes:
            faults.append(
                f"tensor `{name}` of graph `{graph}` takes {tensor.nbytes} bytes ({_shown(tensor)}), "
                f"by the JSON {other.nbytes} ({_shown(other)})"
            )
    unrelated = bool(binary.graphs) and not {graph.name for graph in described.info.graphs} & {
        graph.name for graph in binary.graphs
    }
    if faults or unrelated:
        why = "it has none of its graphs" if unrelated else "buffers made by it would be too small"
        raise RunFailed(
            f"{described.path.name} does not describe {path.name}: {why}",
            details=faults,
            hint="is it the JSON of another shard? write it again with qnn-context-binary-utility, or remove it: "
            "the binary describes itself",
        )


_Row = tuple[str, str, str, str]  # of what, which property, in the JSON, in the binary


def _differences(json: BinaryInfo, binary: BinaryInfo) -> Iterator[_Row]:
    for field, attribute in _WHOLE:
        in_json, in_binary = getattr(json, attribute), getattr(binary, attribute)
        if in_json and in_binary and in_json != in_binary:
            yield "the context", field, str(in_json), str(in_binary)
    yield from _lists("the context", "graphs", json.graphs, binary.graphs)
    by_name = {graph.name: graph for graph in json.graphs}
    for graph in binary.graphs:
        if other := by_name.get(graph.name):
            yield from _lists(f"graph `{graph.name}`", "inputs", other.inputs, graph.inputs)
            yield from _lists(f"graph `{graph.name}`", "outputs", other.outputs, graph.outputs)
    edges = _edges(json)
    for (name, side, tensor), in_file in _edges(binary).items():
        if described := edges.get((name, side, tensor)):
            yield from ((f"tensor `{tensor}` of graph `{name}`", *row) for row in _of_tensors(described, in_file))


_WHOLE = (
    ("backendId", "backend_id"),
    ("buildId", "build_id"),
    ("coreApiVersion", "api_version"),
    ("contextBlobSize", "blob_size"),
    ("socModel", "soc_model"),
    ("dspArch", "arch"),
)


def _lists(
    of: str, what: str, in_json: Sequence[GraphInfo | QnnTensor], in_binary: Sequence[GraphInfo | QnnTensor]
) -> Iterator[_Row]:
    names, others = ([row.name for row in rows] for rows in (in_json, in_binary))
    if sorted(names) != sorted(others):
        yield of, f"the list of {what}", ", ".join(names) or "empty", ", ".join(others) or "empty"


def _of_tensors(json: QnnTensor, binary: QnnTensor) -> Iterator[tuple[str, str, str]]:
    for what, field, show in _FIELDS:
        in_json, in_binary = getattr(json, field), getattr(binary, field)
        if in_json != in_binary:
            yield what, show(in_json), show(in_binary)
    if not same_quantization(json.quant, binary.quant):
        yield "quantization", describe_quantization(json.quant), describe_quantization(binary.quant)


def same_quantization(one: Quantization, other: Quantization) -> bool:
    """Whether two encodings are equal within the precision of a 32-bit float; `OtherEncoding` is compared by name."""
    if isinstance(one, OtherEncoding) or isinstance(other, OtherEncoding):
        return quantization.name_of(one) == quantization.name_of(other)
    return type(one) is type(other) and _close(_values(one), _values(other))


def describe_quantization(quant: Quantization) -> str:
    """An encoding in a few words: its name, and its first numbers."""
    values = _values(quant)
    shown = ", ".join(f"{value:g}" for value in values[:4]) + (", …" if len(values) > 4 else "")
    return quantization.name_of(quant) + (f" ({shown})" if values and not isinstance(quant, OtherEncoding) else "")


def _values(quant: Any) -> list[float]:
    if is_dataclass(quant):
        return [value for field in fields(quant) for value in _values(getattr(quant, field.name))]
    if isinstance(quant, tuple):
        return [len(quant), *(value for part in quant for value in _values(part))]
    return [] if quant is None else [quant]


def _close(one: Sequence[float], other: Sequence[float]) -> bool:
    return len(one) == len(other) and all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(one, other, strict=True))


def _dynamic(flags: tuple[bool, ...]) -> str:
    return str([axis for axis, flag in enumerate(flags) if flag])


_FIELDS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("id", "id", str),
    ("dataType", "dtype", str),
    ("dimensions", "shape", lambda shape: str(list(shape))),
    ("type", "role", str),
    ("dataFormat", "data_format", str),
    ("the list of axes that may change", "dynamic", _dynamic),
)


def _shown(tensor: QnnTensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"


def _edges(info: BinaryInfo) -> dict[tuple[str, str, str], QnnTensor]:
    """The inputs and outputs of all graphs, by graph, side and name."""
    return {
        (graph.name, side, tensor.name): tensor
        for graph in info.graphs
        for side, tensors in (("inputs", graph.inputs), ("outputs", graph.outputs))
        for tensor in tensors
    }
