"""Run ops in a real QNN runtime, each session in a child process of its own; and context binaries, in this process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from udogen.runtime.buffers.buffer import Buffer
    from udogen.runtime.buffers.domains import MemoryDomain, Role
    from udogen.runtime.buffers.memory import allocate
    from udogen.runtime.buffers.planning import BufferPlan
    from udogen.runtime.channel import LogLine, shared_array
    from udogen.runtime.contexts.binaries import StoredContext
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.contexts.runtime import Context, Runtime
    from udogen.runtime.execution_counts import NoCounter, NotExecuted, Proof, executions
    from udogen.runtime.failures import OpCrashed, OpFailed, OpRefused, OpTimedOut, RegistrationFailed
    from udogen.runtime.hexagon.session import HexagonSession
    from udogen.runtime.library import BACKENDS, RuntimeLibrary, find_runtime, interface_providers
    from udogen.runtime.op.calls import (
        OpCall,
        OpResult,
        PackageInfo,
        ParamArg,
        RuntimeInfo,
        TensorArg,
        Times,
    )
    from udogen.runtime.op.session import OpSession
    from udogen.runtime.sessions.pipeline import Pipeline
    from udogen.runtime.sessions.placement import SessionPlan
    from udogen.runtime.sessions.session import Session, Sessions
    from udogen.runtime.snpe.compare import OtherOps, OtherPackage
    from udogen.runtime.snpe.host import (
        CoreState,
        LibraryMissing,
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

# Imported when one of its names is first asked for: who restores a context does not wait for what runs ops in a child,
# and who runs an op not for numpy.
_MODULES = {
    "buffers.allocators": "allocate",
    "buffers.buffer": "Buffer",
    "buffers.domains": "MemoryDomain Role",
    "buffers.plan": "BufferPlan",
    "contexts.binaries": "StoredContext",
    "contexts.context": "Context",
    "contexts.graph": "Graph",
    "contexts.runtime": "Runtime",
    "failures": "OpCrashed OpFailed OpRefused OpTimedOut RegistrationFailed",
    "hexagon.session": "HexagonSession",
    "library": "BACKENDS RuntimeLibrary find_runtime interface_providers",
    "channel": "LogLine shared_array",
    "op.calls": "OpCall OpResult PackageInfo ParamArg RuntimeInfo TensorArg Times",
    "op.session": "OpSession",
    "execution_counts": "NoCounter NotExecuted Proof executions",
    "sessions.pipeline": "Pipeline",
    "sessions.plan": "SessionPlan",
    "sessions.session": "Session Sessions",
    "snpe.compare": "OtherOps OtherPackage",
    "snpe.host": "CoreState LibraryMissing UdoPackage WrongMachine add_op_package",
    "snpe.registration": "RegisteredOp RegisteredParam RegisteredTensor Registration RegistrationUnreadable"
    " read_registration",
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


__all__ = [
    "BACKENDS",
    "Buffer",
    "BufferPlan",
    "Context",
    "CoreState",
    "Graph",
    "HexagonSession",
    "LibraryMissing",
    "LogLine",
    "MemoryDomain",
    "NoCounter",
    "NotExecuted",
    "OpCall",
    "OpCrashed",
    "OpFailed",
    "OpRefused",
    "OpResult",
    "OpSession",
    "OpTimedOut",
    "OtherOps",
    "OtherPackage",
    "PackageInfo",
    "ParamArg",
    "Pipeline",
    "Proof",
    "RegisteredOp",
    "RegisteredParam",
    "RegisteredTensor",
    "Registration",
    "RegistrationFailed",
    "RegistrationUnreadable",
    "Role",
    "Runtime",
    "RuntimeInfo",
    "RuntimeLibrary",
    "Session",
    "SessionPlan",
    "Sessions",
    "StoredContext",
    "TensorArg",
    "Times",
    "UdoPackage",
    "WrongMachine",
    "add_op_package",
    "allocate",
    "executions",
    "find_runtime",
    "interface_providers",
    "read_registration",
    "shared_array",
]
