"""Calls to the ops of probe_package.cpp."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from udogen.runtime import Tensor
from udogen.runtime.op.calls import CallParam
from udogen.runtime.ops import OpCall

PROVIDER = "ProbeInterfaceProvider"
Build = Callable[..., Path]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensor(name: str = "x", array: Any = X, dtype: str = "FLOAT_32", **more: Any) -> Tensor:
    """Return an input."""
    return Tensor(name, dtype, tuple(array.shape), data=array, **more)


def result(name: str = "y", shape: tuple[int, ...] = (2, 3), dtype: str = "FLOAT_32", **more: Any) -> Tensor:
    """Return an output."""
    return Tensor(name, dtype, shape, **more)


def call(
    op_type: str,
    inputs: tuple[Tensor, ...] | None = None,
    outputs: tuple[Tensor, ...] | None = None,
    params: tuple[CallParam, ...] = (),
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
