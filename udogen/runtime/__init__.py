"""Run ops in a real QNN runtime, each session in a child process of its own; and context binaries, in this process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from udogen.runtime.calls import (
    LogLine,
    OpCall,
    OpResult,
    PackageInfo,
    ParamArg,
    RuntimeInfo,
    TensorArg,
    Times,
)
from udogen.runtime.failures import OpCrashed, OpFailed, OpRefused, OpTimedOut, RegistrationFailed
from udogen.runtime.library import BACKENDS, RuntimeLibrary, find_runtime, interface_providers
from udogen.runtime.session import OpSession
from udogen.runtime.udo import (
    RegisteredOp,
    RegisteredParam,
    RegisteredTensor,
    Registration,
    RegistrationUnreadable,
    read_registration,
)
from udogen.runtime.udo_compare import OtherOps, OtherPackage
from udogen.runtime.udo_host import (
    CoreState,
    LibraryMissing,
    UdoPackage,
    WrongMachine,
    add_op_package,
)

if TYPE_CHECKING:
    from udogen.runtime.buffers.allocators import allocate
    from udogen.runtime.buffers.buffer import Buffer
    from udogen.runtime.buffers.domains import MemoryDomain, Role
    from udogen.runtime.buffers.plan import BufferPlan
    from udogen.runtime.contexts.binaries import StoredContext
    from udogen.runtime.contexts.context import Context
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.contexts.runtime import Runtime
    from udogen.runtime.sessions.pipeline import Pipeline
    from udogen.runtime.sessions.plan import SessionPlan
    from udogen.runtime.sessions.session import Session, Sessions

# Imported when they are first asked for: they need numpy, which who runs an op in a child does not.
_LATER = {
    "Buffer": "buffers.buffer",
    "BufferPlan": "buffers.plan",
    "Context": "contexts.context",
    "Graph": "contexts.graph",
    "MemoryDomain": "buffers.domains",
    "Pipeline": "sessions.pipeline",
    "Role": "buffers.domains",
    "Runtime": "contexts.runtime",
    "Session": "sessions.session",
    "SessionPlan": "sessions.plan",
    "Sessions": "sessions.session",
    "StoredContext": "contexts.binaries",
    "allocate": "buffers.allocators",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


__all__ = [
    "BACKENDS",
    "Buffer",
    "BufferPlan",
    "Context",
    "CoreState",
    "Graph",
    "LibraryMissing",
    "LogLine",
    "MemoryDomain",
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
    "find_runtime",
    "interface_providers",
    "read_registration",
]
