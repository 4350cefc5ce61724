"""Run ops in a real QNN runtime, each session in a child process of its own."""

from __future__ import annotations

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
from udogen.runtime.library import BACKENDS, Runtime, find_runtime, interface_providers
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

__all__ = [
    "BACKENDS",
    "CoreState",
    "LibraryMissing",
    "LogLine",
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
    "RegisteredOp",
    "RegisteredParam",
    "RegisteredTensor",
    "Registration",
    "RegistrationFailed",
    "RegistrationUnreadable",
    "Runtime",
    "RuntimeInfo",
    "TensorArg",
    "Times",
    "UdoPackage",
    "WrongMachine",
    "add_op_package",
    "find_runtime",
    "interface_providers",
    "read_registration",
]
