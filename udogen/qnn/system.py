"""Reads the description inside a context binary with libQnnSystem.so, without backend, op packages or copies.

The library does not verify its input: a damaged file may crash it.  This module checks what it can; untrusted files are
read in a worker (`udogen.runtime.contexts.binaries`).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from udogen.errors import RunFailed
from udogen.opdef import datatypes
from udogen.qnn import abi, heads, quantization
from udogen.qnn.heads import NoContextBinary
from udogen.qnn.interface import QnnError, check, providers_of, text_of, version_text
from udogen.qnn.tensors import QnnTensor, described_tensor

_MOST = 1 << 16  # graphs of a binary, tensors of a graph: more is a damaged file
_MOST_AXES = 32


class HtpGraph(NamedTuple):
    """Properties of a graph prepared by HTP; sizes in bytes."""

    spill_fill: int = 0
    vtcm: int = 0
    optimization: int = 0
    dlbc: bool = False
    hvx_threads: int = 0
    # From SDK 2.4x on:
    native_k_channel: int = 0
    native_v_channel: int = 0
    safe_to_share_io: bool = False
    io_tensors: int = 0
    op_data: int = 0
    constants: int = 0
    ddr_tensors: int = 0
    shared_weights: int = 0


# Members of the graph's two blobs, which are also their keys in JSON.
_IN_FIRST = ("spillFillBufferSize", "vtcmSize", "optimizationLevel", "htpDlbc", "numHvxThreads")
_IN_SECOND = (
    *("nativeKChannelSize", "nativeVChannelSize", "isSafeShareIO", "ioTensorSize", "opDataSize", "constSize"),
    *("ddrTensorSize", "sharedWeightsSize"),
)
HTP_KEYS = dict(zip((*_IN_FIRST, *_IN_SECOND), HtpGraph._fields, strict=True))


class HardwareDevice(NamedTuple):
    """A device that a binary was prepared for."""

    id: int
    type: int
    cores: int


@dataclass(frozen=True)
class GraphInfo:
    """The description of a graph in a context binary: `print([tensor.name for tensor in graph.info.inputs])`."""

    name: str
    inputs: tuple[QnnTensor, ...]
    outputs: tuple[QnnTensor, ...]
    updateable: tuple[QnnTensor, ...] = ()
    htp: HtpGraph | None = None


@dataclass(frozen=True)
class BinaryInfo:
    """The description of a context binary: `print(context.info.build_id, context.info.soc)`."""

    backend_id: int
    build_id: str
    api_version: str
    backend_version: str
    soc: str
    graphs: tuple[GraphInfo, ...]
    version: int = 1  # of the description
    blob_version: str = ""
    blob_size: int = 0
    context_tensors: tuple[QnnTensor, ...] = ()
    arch: str = ""  # v73
    soc_model: int = 0
    devices: tuple[HardwareDevice, ...] = ()

    @property
    def sharing(self) -> str:
        """What HTP stores once for several graphs: "4,198,400 bytes of weights for prefill, decode"; "" if nothing."""
        sizes = {graph.name: graph.htp.shared_weights for graph in self.graphs if graph.htp}
        names = [name for name, size in sizes.items() if size]
        return f"{max(sizes.values()):,} bytes of weights for {', '.join(names)}" if names else ""

    def graph(self, name: str) -> GraphInfo:
        """A graph by its name."""
        for graph in self.graphs:
            if graph.name == name:
                return graph
        names = ", ".join(graph.name for graph in self.graphs) or "none"
        raise RunFailed(f"the context has no graph `{name}`", hint=f"it has: {names}")


def binary_info(library: Path, binary: Any, *, name: str = "the context binary") -> BinaryInfo:
    """Read a context binary with the libQnnSystem.so given as `library`.

    `binary` is any buffer, also a read-only mapping, and is not copied (only libraries that are too old to have
    systemContextGetMetaData get a copy if it is read-only).  `name` is what messages call it.
    """
    heads.check(binary, name)
    ffi = abi.ffi()
    table = _table(library)
    handle = ffi.new("QnnSystemContext_Handle_t *")
    check("systemContextCreate", table.systemContextCreate(handle))
    try:
        return _binary(_described(table, handle[0], binary), name)
    except QnnError as fault:
        raise NoContextBinary(
            f"{name} is not a context binary that {library.name} can read ({fault.function}: {fault.row.name})",
            hint="it may be damaged, or written by a newer release than that of the runtime",
        ) from fault
    finally:
        table.systemContextFree(handle[0])


def file_info(library: Path, path: Path) -> BinaryInfo:
    """Read a context binary from a mapped file; only the pages that are read are loaded."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise heads.empty(str(path))
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapping:  # old libraries write to it
            return binary_info(library, mapping, name=str(path))


def _table(library: Path) -> Any:
    for provider in providers_of(library, "QnnSystemInterface"):
        if provider.systemApiVersion.major == 1:
            return provider.v1
    raise RunFailed(
        f"{library.name} has no system interface of version 1", hint="use a runtime of a QNN SDK from 2.0 on"
    )


def _described(table: Any, handle: Any, binary: Any) -> Any:
    ffi = abi.ffi()
    info = ffi.new("QnnSystemContext_BinaryInfo_t const **")
    with memoryview(binary) as view:
        size, writable = view.nbytes, not view.readonly
    if table.systemContextGetMetaData:
        with ffi.from_buffer(binary) as held:
            code = table.systemContextGetMetaData(handle, ffi.cast("void const *", held), size, info)
        check("systemContextGetMetaData", code)
        return info[0]
    length = ffi.new("Qnn_ContextBinarySize_t *")
    with ffi.from_buffer(binary if writable else bytearray(binary)) as held:
        code = table.systemContextGetBinaryInfo(handle, ffi.cast("void *", held), size, info, length)
    check("systemContextGetBinaryInfo", code)
    return info[0]


def _binary(info: Any, name: str) -> BinaryInfo:
    version = _version(info.version, f"the description of {name}")
    body = getattr(info, f"contextBinaryInfoV{version}")
    _plausible(body.numGraphs, body.graphs, _MOST, f"{name}: graphs")
    graphs = [_graph(body.graphs[index], name) for index in range(body.numGraphs)]
    if version < 3:
        graphs = _with_spill_fill(graphs, body)
    return BinaryInfo(
        backend_id=body.backendId,
        build_id=text_of(body.buildId),
        api_version=version_text(body.coreApiVersion),
        backend_version=version_text(body.backendApiVersion),
        soc=text_of(body.socVersion),
        graphs=tuple(graphs),
        version=version,
        blob_version=version_text(body.contextBlobVersion),
        blob_size=body.contextBlobSize,
        context_tensors=_tensors(body.contextTensors, body.numContextTensors, f"{name}: context tensors"),
        arch=_arch(body) if version == 3 else "",
        soc_model=body.socModel if version == 3 else 0,
        devices=_devices(body.platformInfo, name) if version > 1 else (),
    )


def _graph(info: Any, binary: str) -> GraphInfo:
    version = _version(info.version, f"the description of a graph of {binary}")
    body = getattr(info, f"graphInfoV{version}")
    name = text_of(body.graphName)
    where = f"{binary}: graph `{name}`"
    updateable: tuple[QnnTensor, ...] = ()
    if version > 1:
        updateable = _tensors(body.updateableTensors, body.numUpdateableTensors, f"{where}: updateable tensors")
    return GraphInfo(
        name=name,
        inputs=_tensors(body.graphInputs, body.numGraphInputs, f"{where}: inputs"),
        outputs=_tensors(body.graphOutputs, body.numGraphOutputs, f"{where}: outputs"),
        updateable=updateable,
        htp=_htp_graph(body) if version == 3 else None,
    )


def _tensors(array: Any, count: int, what: str) -> tuple[QnnTensor, ...]:
    _plausible(count, array, _MOST, what)
    return tuple(_tensor(array[index], what) for index in range(count))


def _tensor(tensor: Any, what: str) -> QnnTensor:
    ffi = abi.ffi()
    second = tensor.version == ffi.integer_const("QNN_TENSOR_VERSION_2")
    body = tensor.v2 if second else tensor.v1
    name = text_of(body.name)
    _plausible(body.rank, body.dimensions, _MOST_AXES, f"{what}: axes of `{name}`")
    row = datatypes.by_code(body.dataType)
    shape = tuple(body.dimensions[axis] for axis in range(body.rank))
    dynamic: tuple[bool, ...] = ()
    if second and body.isDynamicDimensions:
        dynamic = tuple(bool(body.isDynamicDimensions[axis]) for axis in range(body.rank))
    return described_tensor(
        id=body.id,
        name=name,
        dtype=row.name if row else hex(body.dataType),
        shape=shape,
        quant=quantization.read(body.quantizeParams, shape),
        role=roles().get(body.type, hex(body.type)),
        dynamic=dynamic if any(dynamic) else (),
        data_format=body.dataFormat,
    )


def roles() -> dict[int, str]:
    """The types of tensors by their numbers, without prefix."""
    names = abi.ffi().typeof("Qnn_TensorType_t").elements
    return {code: name.removeprefix("QNN_TENSOR_TYPE_") for code, name in names.items()}


# --- HTP ----------------------------------------------------------------------------------------------------


def _htp_graph(body: Any) -> HtpGraph | None:
    """The blob of a graph: version 1, and if it is long enough, version 2 behind it."""
    ffi = abi.ffi()
    first = ffi.sizeof("QnnHtpSystemContext_GraphBlobInfo_t")
    both = first + ffi.sizeof("QnnHtpSystemContext_GraphBlobInfoV2_t")
    if not body.graphBlobInfo or body.graphBlobInfoSize < first:
        return None
    start = ffi.cast("QnnHtpSystemContext_GraphBlobInfo_t *", body.graphBlobInfo)
    if start.version != 1:
        return None
    numbers = _numbers(start.contextBinaryGraphBlobInfoV1, _IN_FIRST)
    if body.graphBlobInfoSize >= both:
        second = ffi.cast("QnnHtpSystemContext_GraphBlobInfoV2_t *", ffi.cast("char *", body.graphBlobInfo) + first)
        numbers |= _numbers(second, _IN_SECOND) if second.version == 2 else {}
    return htp_graph_of(numbers)


def _numbers(blob: Any, members: Sequence[str]) -> dict[str, int]:
    return {member: int(getattr(blob, member)) for member in members}


def htp_graph_of(numbers: Mapping[str, int]) -> HtpGraph:
    """Properties by the names of HTP_KEYS; the size of VTCM may be in MiB, as the header states, or in bytes."""
    found = {HTP_KEYS[key]: number for key, number in numbers.items()}
    if "vtcm" in found and found["vtcm"] <= 1 << 16:  # libQnnHtp 2.47 of x86-64 writes bytes
        found["vtcm"] <<= 20
    values: dict[str, Any] = {
        field: bool(number) if field in ("dlbc", "safe_to_share_io") else number for field, number in found.items()
    }
    return HtpGraph(**values)


def _with_spill_fill(graphs: list[GraphInfo], body: Any) -> list[GraphInfo]:
    """Older descriptions have one blob for all graphs: a row for each, with its number in the list of graphs."""
    ffi = abi.ffi()
    count = body.hwInfoBlobSize // ffi.sizeof("QnnHtpSystemContext_HwBlobInfo_t") if body.hwInfoBlob else 0
    rows = ffi.cast("QnnHtpSystemContext_HwBlobInfo_t *", body.hwInfoBlob)
    sizes = {}
    for index in range(min(count, _MOST)):
        if rows[index].version == 1:
            row = rows[index].contextBinaryHwInfoBlobV1_t
            sizes[row.graphListIndex] = row.spillFillBufferSize
    return [
        replace(graph, htp=HtpGraph(spill_fill=sizes[index])) if index in sizes else graph
        for index, graph in enumerate(graphs)
    ]


def _arch(body: Any) -> str:
    ffi = abi.ffi()
    if not body.contextMetadata or body.contextMetadataSize < ffi.sizeof("QnnHtpSystemContext_ContextBlobInfo_t"):
        return ""
    blob = ffi.cast("QnnHtpSystemContext_ContextBlobInfo_t *", body.contextMetadata)
    arch = blob.contextBinaryContextBlobInfoV1.dspArch
    return f"v{arch}" if blob.version == 1 and arch else ""


def _devices(platform: Any, name: str) -> tuple[HardwareDevice, ...]:
    if not platform or platform.version != 1:
        return ()
    count, array = platform.v1.numHwDevices, platform.v1.hwDevices
    _plausible(count, array, _MOST, f"{name}: devices")
    rows = (array[index].v1 for index in range(count))
    return tuple(HardwareDevice(row.deviceId, row.deviceType, row.numCores) for row in rows)


# --- checks of damaged files ------------------------------------------------------------------------------------------


def _plausible(count: int, array: Any, most: int, what: str) -> None:
    if count > most or (count and not array):
        missing = "" if array else ", but the array is NULL"
        raise NoContextBinary(f"{what} are {count}{missing}", hint="copy the file again from its source: it is damaged")


def _version(number: int, what: str) -> int:
    if number not in (1, 2, 3):
        raise RunFailed(
            f"{what} has version {number}; known are 1 to 3",
            hint="copy the file again, or update udogen: it is damaged, or newer than this udogen",
        )
    return int(number)
