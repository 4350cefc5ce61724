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

__all__ = [
    "BACKENDS",
    "LogLine",
    "OpCall",
    "OpCrashed",
    "OpFailed",
    "OpRefused",
    "OpResult",
    "OpSession",
    "OpTimedOut",
    "PackageInfo",
    "ParamArg",
    "RegistrationFailed",
    "Runtime",
    "RuntimeInfo",
    "TensorArg",
    "Times",
    "find_runtime",
    "interface_providers",
]
