"""What a context binary says about itself, read with libQnnSystem.so: no backend, no op package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.errors import RunFailed
from udogen.opdef import datatypes
from udogen.qnn import abi
from udogen.qnn.interface import check, providers_of, text_of, version_text


@dataclass(frozen=True)
class TensorInfo:
    """A tensor at the edge of a stored graph."""

    id: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    scale_offset: tuple[float, int] | None


@dataclass(frozen=True)
class GraphInfo:
    """A stored graph."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


@dataclass(frozen=True)
class BinaryInfo:
    """A context binary."""

    backend_id: int
    build_id: str
    api_version: str
    backend_version: str
    soc: str
    graphs: tuple[GraphInfo, ...]


def binary_info(library: Path, binary: Any) -> BinaryInfo:
    """Read a context binary with the libQnnSystem.so given as `library`."""
    ffi = abi.ffi()
    table = _table(library)
    handle = ffi.new("QnnSystemContext_Handle_t *")
    check("systemContextCreate", table.systemContextCreate(handle))
    try:
        info, size = ffi.new("QnnSystemContext_BinaryInfo_t const **"), ffi.new("Qnn_ContextBinarySize_t *")
        room = ffi.from_buffer(binary)
        check(
            "systemContextGetBinaryInfo",
            table.systemContextGetBinaryInfo(handle[0], room, len(binary), info, size),
        )
        return _binary(info[0])
    finally:
        table.systemContextFree(handle[0])


def _table(library: Path) -> Any:
    for provider in providers_of(library, "QnnSystemInterface"):
        if provider.systemApiVersion.major == 1:
            return provider.v1
    raise RunFailed(
        f"{library.name} has no system interface of version 1", hint="use a runtime of a QNN SDK from 2.0 on"
    )


def _binary(info: Any) -> BinaryInfo:
    body = getattr(info, f"contextBinaryInfoV{_version(info.version, 'context binary')}")
    return BinaryInfo(
        backend_id=body.backendId,
        build_id=text_of(body.buildId),
        api_version=version_text(body.coreApiVersion),
        backend_version=version_text(body.backendApiVersion),
        soc=text_of(body.socVersion),
        graphs=tuple(_graph(body.graphs[index]) for index in range(body.numGraphs)),
    )


def _graph(info: Any) -> GraphInfo:
    body = getattr(info, f"graphInfoV{_version(info.version, 'graph')}")
    return GraphInfo(
        name=text_of(body.graphName),
        inputs=tuple(_tensor(body.graphInputs[index]) for index in range(body.numGraphInputs)),
        outputs=tuple(_tensor(body.graphOutputs[index]) for index in range(body.numGraphOutputs)),
    )


def _tensor(tensor: Any) -> TensorInfo:
    ffi = abi.ffi()
    body = tensor.v1 if tensor.version == ffi.integer_const("QNN_TENSOR_VERSION_1") else tensor.v2
    row = datatypes.by_code(body.dataType)
    params = body.quantizeParams
    simple = (
        params.encodingDefinition == ffi.integer_const("QNN_DEFINITION_DEFINED")
        and params.quantizationEncoding == ffi.integer_const("QNN_QUANTIZATION_ENCODING_SCALE_OFFSET")
    )  # fmt: skip
    encoding = params.scaleOffsetEncoding
    return TensorInfo(
        id=body.id,
        name=text_of(body.name),
        dtype=row.name if row else hex(body.dataType),
        shape=tuple(body.dimensions[axis] for axis in range(body.rank)),
        scale_offset=(encoding.scale, encoding.offset) if simple else None,
    )


def _version(number: int, what: str) -> int:
    if number not in (1, 2, 3):
        raise RunFailed(f"the description of a {what} has version {number}; known are 1 to 3")
    return number
