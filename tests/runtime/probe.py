"""Calls to the ops of probe_package.cpp."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from udogen.runtime import OpCall, ParamArg, TensorArg

PROVIDER = "ProbeInterfaceProvider"
Build = Callable[..., Path]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensor(name: str = "x", array: Any = X, dtype: str = "FLOAT_32", **more: Any) -> TensorArg:
    """Return an input."""
    return TensorArg(name, dtype, tuple(array.shape), array, **more)


def result(name: str = "y", shape: tuple[int, ...] = (2, 3), dtype: str = "FLOAT_32", **more: Any) -> TensorArg:
    """Return an output."""
    return TensorArg(name, dtype, shape, **more)


def call(
    op_type: str,
    inputs: tuple[TensorArg, ...] | None = None,
    outputs: tuple[TensorArg, ...] | None = None,
    params: tuple[ParamArg, ...] = (),
    *,
    package: str = "Probe",
    loops: int = 1,
) -> OpCall:
    """Return a call of an op of the probe package; by default with one FLOAT_32 tensor in and one out."""
    return OpCall(
        op_type=op_type,
        package=package,
        inputs=(tensor(),) if inputs is None else inputs,
        outputs=(result(),) if outputs is None else outputs,
        params=params,
        loops=loops,
    )


def alive(pid: int) -> bool:
    """Return whether a process still runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # before it is opened, or after
        return False
