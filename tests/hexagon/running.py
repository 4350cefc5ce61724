"""Helpers that run a call as Hexagon code under qemu-hexagon, and in Qualcomm's HTP emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.making import need_packets, need_runtime
from udogen.build import tools
from udogen.runtime import Tensor
from udogen.runtime.built import Built, find_built
from udogen.runtime.op.calls import CallParam, OpResult
from udogen.runtime.ops import HexagonSession, OpCall, OpSession

Array = np.ndarray[Any, np.dtype[Any]]


def need_tools() -> None:
    if not tools.zig() or not tools.program("qemu-hexagon"):
        pytest.skip("zig or qemu-hexagon is not installed")


def on_hexagon(built: Built, call: OpCall, **options: Any) -> OpResult:
    assert built.folder is not None
    if options.get("count"):
        need_packets()
    with HexagonSession(built.folder, **{"timeout": 60, **options}) as session:
        return session.run(call)


def on_x86(built: Built, call: OpCall) -> OpResult:
    assert built.folder is not None
    need_runtime("htp")
    library = find_built(built.folder.path, backend="htp")
    with OpSession(library.library, library.provider, backend="htp", timeout=60) as session:
        return session.run(call)


def called(built: Built, op: str, *inputs: Array, params: tuple[CallParam, ...] = (), out: Any = None) -> OpCall:
    """Return a call of an op of Raw: INT_32 or UINT_8 tensors."""
    args = tuple(
        Tensor(f"x{i}", "INT_32" if each.dtype == np.int32 else "UINT_8", each.shape, data=each)
        for i, each in enumerate(inputs)
    )
    return OpCall(op, built.package, args, (Tensor("y", args[0].dtype, out or args[0].shape),), params)
