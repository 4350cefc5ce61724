"""A `BinaryInfo` as the JSON that qnn-context-binary-utility writes: what `context_json.read` reads back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from udogen.opdef import datatypes
from udogen.qnn.system import BinaryInfo, GraphInfo, HtpGraph, TensorInfo
from udogen.runtime.contexts.json_encodings import write_quantization
from udogen.runtime.contexts.json_words import FORMATS, HTP_KEYS


def text(info: BinaryInfo) -> str:
    """The JSON text of a description."""
    return json.dumps(dump(info), indent=2, ensure_ascii=False) + "\n"


def dump(info: BinaryInfo) -> dict[str, Any]:
    """The description as plain values, in the shape with an `info` inside each part."""
    made: dict[str, Any] = {
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
        made["socModel"] = info.soc_model
    if info.devices:
        rows = [{"deviceId": row.id, "deviceType": row.type, "numCores": row.cores} for row in info.devices]
        made["platformInfo"] = {"numHwDevices": len(rows), "hwDevices": rows}
    if info.arch:
        version = "QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_VERSION_V1"
        made["contextMetadata"] = {"version": version, "info": {"dspArch": int(info.arch.removeprefix("v"))}}
    return {"version": f"QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_{info.version}", "info": made}


def _graph(graph: GraphInfo, version: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "graphName": graph.name,
        "numGraphInputs": len(graph.inputs),
        "graphInputs": _tensors(graph.inputs),
        "numGraphOutputs": len(graph.outputs),
        "graphOutputs": _tensors(graph.outputs),
        "numUpdateableTensors": len(graph.updateable),
        "updateableTensors": _tensors(graph.updateable),
    }
    if graph.htp is not None:
        made["graphBlobInfo"] = _htp(graph.htp)
    return {"version": f"QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_{version}", "info": made}


def _htp(graph: HtpGraph) -> dict[str, Any]:
    return {
        "version": "QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V1",
        "info": {key: int(getattr(graph, field)) for key, field in HTP_KEYS},
    }


def _tensors(tensors: Sequence[TensorInfo]) -> list[dict[str, Any]]:
    return [_tensor(tensor) for tensor in tensors]


def _tensor(tensor: TensorInfo) -> dict[str, Any]:
    row = datatypes.parse(tensor.dtype)
    made: dict[str, Any] = {
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
        made["isDynamicDimensions"] = [int(each) for each in tensor.dynamic]
    return {"version": f"QNN_TENSOR_VERSION_{2 if tensor.dynamic else 1}", "info": made}


def _format(number: int) -> str | int:
    return f"QNN_TENSOR_DATA_FORMAT_{FORMATS[number]}" if number < len(FORMATS) else number
