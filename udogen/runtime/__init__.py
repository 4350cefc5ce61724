"""The Python API: runtimes, contexts and graphs in this process, memory, sessions; single ops in a child process.

Every name is described in docs/python.md.  A module is imported when one of its names is first used, so that restoring
a context does not load what runs ops in a child, and running an op does not load numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from udogen.qnn.handles import ContextOptions, DeviceInfo, GraphHandle, ProfileEvent
    from udogen.qnn.interface import QnnError
    from udogen.qnn.quantization import (
        AxisScaleOffset,
        BlockEncoding,
        BlockwiseExpansion,
        BwAxisScaleOffset,
        BwScaleOffset,
        ScaleOffset,
        VectorEncoding,
    )
    from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo
    from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, STATIC, OpConfig, Param, QnnTensor, Scalar, TensorParam
    from udogen.runtime.buffers.block_weights import (
        RepackBuffer,
        dequantize_blocks,
        quantize_blocks,
        repack_rows,
        unrepack_rows,
    )
    from udogen.runtime.buffers.buffer import ION, RAW, SHARED_BUFFER, SPILL_FILL, WEIGHTS, Buffer, BufferPart
    from udogen.runtime.buffers.domains import INPUT, OUTPUT, BufferDesc, BufferPair, ManagedBuffer, MemoryDomain, Role
    from udogen.runtime.buffers.external import (
        ExternalBuffer,
        ExternalSizes,
        allocate_external,
    )
    from udogen.runtime.buffers.memory import align_up, allocate, mapped_to_hexagon, shared_allocator
    from udogen.runtime.buffers.picture import draw_plan
    from udogen.runtime.buffers.planning import (
        BufferOptions,
        BufferPlan,
        Endpoint,
        ExecutionStep,
        Link,
        PlannedBuffers,
        chain_links,
        plan_buffers,
        state_links,
    )
    from udogen.runtime.buffers.pools import Constants, FileRange, ImageLayout, Pool, open_pool
    from udogen.runtime.built import Built, find_built, find_source
    from udogen.runtime.channel import LogLine, shared_array
    from udogen.runtime.contexts.arrays import dequantize, grid_of, quantize
    from udogen.runtime.contexts.binaries import Shard, StoredContext, find_shards
    from udogen.runtime.contexts.builder import GraphDraft, TensorSpec
    from udogen.runtime.contexts.commands import OpLibrary
    from udogen.runtime.contexts.context_json import info_json
    from udogen.runtime.contexts.graph import Graph, TensorBinding
    from udogen.runtime.contexts.runtime import Context, Runtime
    from udogen.runtime.execution_counts import NoCounter, NotExecuted, Proof, executions
    from udogen.runtime.failures import OpCrashed, OpFailed, OpRefused, OpTimedOut, RegistrationFailed
    from udogen.runtime.hexagon.session import HexagonSession
    from udogen.runtime.library import RuntimeLibrary, find_runtime, interface_providers
    from udogen.runtime.models.description import ModelDescription, read_description, write_description
    from udogen.runtime.models.model import MemoryBreakdown, MemoryRow, Timing
    from udogen.runtime.models.wiring import Wiring, wire
    from udogen.runtime.op.calls import OpCall, OpPackageInfo, OpResult, ParamArg, RuntimeInfo, TensorArg, Times
    from udogen.runtime.op.session import OpSession
    from udogen.runtime.sessions.connections import Connection, find_connections
    from udogen.runtime.sessions.libraries import OpLibraries, adsp_library_path, op_libraries, register_package
    from udogen.runtime.sessions.pipeline import Copies, Pipeline
    from udogen.runtime.sessions.placement import (
        Activation,
        Layer,
        SessionPlan,
        SessionSpec,
        SizedShard,
        layers_of,
        place_layers,
        session_specs,
        table_lines,
    )
    from udogen.runtime.sessions.session import Session, Sessions, devices_of, sessions_of
    from udogen.runtime.snpe.host import (
        CoreState,
        LibraryMissing,
        OtherOps,
        OtherPackage,
        UdoPackage,
        WrongMachine,
        add_op_package,
    )
    from udogen.runtime.snpe.registration import (
        RegisteredOp,
        RegisteredParam,
        RegisteredTensor,
        Registration,
        RegistrationUnreadable,
        read_registration,
    )

_NAMES = {
    "udogen.runtime.contexts.runtime": "Context Runtime",
    "udogen.runtime.contexts.graph": "Graph TensorBinding",
    "udogen.runtime.contexts.binaries": "Shard StoredContext find_shards",
    "udogen.runtime.contexts.commands": "OpLibrary",
    "udogen.runtime.contexts.context_json": "info_json",
    "udogen.qnn.handles": "ContextOptions DeviceInfo GraphHandle ProfileEvent",
    "udogen.qnn.interface": "QnnError",
    "udogen.qnn.system": "BinaryInfo GraphInfo TensorInfo",
    "udogen.runtime.library": "RuntimeLibrary find_runtime interface_providers",
    "udogen.runtime.built": "Built find_built find_source",
    "udogen.qnn.tensors": "APP_READ APP_WRITE NATIVE OpConfig Param STATIC Scalar QnnTensor TensorParam",
    "udogen.qnn.quantization": (
        "AxisScaleOffset BlockEncoding BlockwiseExpansion BwAxisScaleOffset BwScaleOffset ScaleOffset VectorEncoding"
    ),
    "udogen.runtime.buffers.memory": "align_up allocate mapped_to_hexagon shared_allocator",
    "udogen.runtime.buffers.buffer": "Buffer BufferPart ION RAW SHARED_BUFFER SPILL_FILL WEIGHTS",
    "udogen.runtime.buffers.pools": "Constants FileRange ImageLayout Pool open_pool",
    "udogen.runtime.buffers.external": ("ExternalBuffer ExternalSizes allocate_external"),
    "udogen.runtime.buffers.planning": (
        "BufferOptions BufferPlan Endpoint ExecutionStep Link PlannedBuffers chain_links plan_buffers state_links"
    ),
    "udogen.runtime.buffers.picture": "draw_plan",
    "udogen.runtime.buffers.domains": "BufferDesc BufferPair INPUT ManagedBuffer MemoryDomain OUTPUT Role",
    "udogen.runtime.buffers.block_weights": (
        "RepackBuffer dequantize_blocks quantize_blocks repack_rows unrepack_rows"
    ),
    "udogen.runtime.sessions.placement": (
        "Activation Layer SessionPlan SessionSpec SizedShard layers_of place_layers session_specs table_lines"
    ),
    "udogen.runtime.sessions.session": "Session Sessions devices_of sessions_of",
    "udogen.runtime.sessions.pipeline": "Copies Pipeline",
    "udogen.runtime.sessions.connections": "Connection find_connections",
    "udogen.runtime.sessions.libraries": "OpLibraries adsp_library_path op_libraries register_package",
    "udogen.runtime.contexts.arrays": "dequantize grid_of quantize",
    "udogen.runtime.contexts.builder": "GraphDraft TensorSpec",
    "udogen.runtime.models.description": "ModelDescription read_description write_description",
    "udogen.runtime.models.model": "MemoryBreakdown MemoryRow Timing",
    "udogen.runtime.models.wiring": "Wiring wire",
    "udogen.runtime.op.session": "OpSession",
    "udogen.runtime.channel": "LogLine shared_array",
    "udogen.runtime.op.calls": "OpCall OpResult OpPackageInfo ParamArg RuntimeInfo TensorArg Times",
    "udogen.runtime.failures": "OpCrashed OpFailed OpRefused OpTimedOut RegistrationFailed",
    "udogen.runtime.hexagon.session": "HexagonSession",
    "udogen.runtime.execution_counts": "NoCounter NotExecuted Proof executions",
    "udogen.runtime.snpe.host": (
        "CoreState LibraryMissing OtherOps OtherPackage UdoPackage WrongMachine add_op_package"
    ),
    "udogen.runtime.snpe.registration": (
        "RegisteredOp RegisteredParam RegisteredTensor Registration RegistrationUnreadable read_registration"
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]


__all__ = [
    "APP_READ",
    "APP_WRITE",
    "INPUT",
    "ION",
    "NATIVE",
    "OUTPUT",
    "RAW",
    "SHARED_BUFFER",
    "SPILL_FILL",
    "STATIC",
    "WEIGHTS",
    "Activation",
    "AxisScaleOffset",
    "BinaryInfo",
    "BlockEncoding",
    "BlockwiseExpansion",
    "Buffer",
    "BufferDesc",
    "BufferOptions",
    "BufferPair",
    "BufferPart",
    "BufferPlan",
    "Built",
    "BwAxisScaleOffset",
    "BwScaleOffset",
    "Connection",
    "Constants",
    "Context",
    "ContextOptions",
    "Copies",
    "CoreState",
    "DeviceInfo",
    "Endpoint",
    "ExecutionStep",
    "ExternalBuffer",
    "ExternalSizes",
    "FileRange",
    "Graph",
    "GraphDraft",
    "GraphHandle",
    "GraphInfo",
    "HexagonSession",
    "ImageLayout",
    "Layer",
    "LibraryMissing",
    "Link",
    "LogLine",
    "ManagedBuffer",
    "MemoryBreakdown",
    "MemoryDomain",
    "MemoryRow",
    "ModelDescription",
    "NoCounter",
    "NotExecuted",
    "OpCall",
    "OpConfig",
    "OpCrashed",
    "OpFailed",
    "OpLibraries",
    "OpLibrary",
    "OpPackageInfo",
    "OpRefused",
    "OpResult",
    "OpSession",
    "OpTimedOut",
    "OtherOps",
    "OtherPackage",
    "Param",
    "ParamArg",
    "Pipeline",
    "PlannedBuffers",
    "Pool",
    "ProfileEvent",
    "Proof",
    "QnnError",
    "QnnTensor",
    "RegisteredOp",
    "RegisteredParam",
    "RegisteredTensor",
    "Registration",
    "RegistrationFailed",
    "RegistrationUnreadable",
    "RepackBuffer",
    "Role",
    "Runtime",
    "RuntimeInfo",
    "RuntimeLibrary",
    "Scalar",
    "ScaleOffset",
    "Session",
    "SessionPlan",
    "SessionSpec",
    "Sessions",
    "Shard",
    "SizedShard",
    "StoredContext",
    "TensorArg",
    "TensorBinding",
    "TensorInfo",
    "TensorParam",
    "TensorSpec",
    "Times",
    "Timing",
    "UdoPackage",
    "VectorEncoding",
    "Wiring",
    "WrongMachine",
    "add_op_package",
    "adsp_library_path",
    "align_up",
    "allocate",
    "allocate_external",
    "chain_links",
    "dequantize",
    "dequantize_blocks",
    "devices_of",
    "draw_plan",
    "executions",
    "find_built",
    "find_connections",
    "find_runtime",
    "find_shards",
    "find_source",
    "grid_of",
    "info_json",
    "interface_providers",
    "layers_of",
    "mapped_to_hexagon",
    "op_libraries",
    "open_pool",
    "place_layers",
    "plan_buffers",
    "quantize",
    "quantize_blocks",
    "read_description",
    "read_registration",
    "register_package",
    "repack_rows",
    "session_specs",
    "sessions_of",
    "shared_allocator",
    "shared_array",
    "state_links",
    "table_lines",
    "unrepack_rows",
    "wire",
    "write_description",
]
