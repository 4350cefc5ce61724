"""Context binaries for tests of stored contexts: two graphs of built-in ops, in any runtime."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tests.making import need_runtime
from udogen.qnn.handles import BackendHandle
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, QnnTensor
from udogen.runtime import OpConfig, StoredContext, find_runtime
from udogen.runtime.contexts import context_json, manifest
from udogen.runtime.quantization import ScaleOffset

GRAPHS = {"prefill_forward": (1, 4, 4, 8), "kv_forward": (1, 1, 1, 8)}
RUNTIMES = [("htp", "real"), ("cpu", "real"), ("htp", "emulator"), ("cpu", "emulator")]
QUANT = ScaleOffset(0.125, -128)


@cache
def binary(backend: str, kind: str) -> bytes:
    """Return a context with two graphs, each a chain of two Relus."""
    if kind == "real":
        need_runtime(backend)
    more: dict[str, Any] = {"dtype": "FLOAT_32"}
    if backend == "htp":
        more = {"dtype": "UFIXED_POINT_8", "quant": QUANT}
    with BackendHandle(Interface.load(find_runtime(backend, runtime=kind).path)) as made, made.context() as context:
        for name, shape in GRAPHS.items():
            graph = context.graph(name)
            x, m, y = (
                graph.add_tensor(QnnTensor(tensor, shape=shape, role=role, **more))
                for tensor, role in (("x", APP_WRITE), ("m", NATIVE), ("y", APP_READ))
            )
            for node, (source, target) in {"first": (x, m), "second": (m, y)}.items():
                made_of = {"inputs": [source], "outputs": [target]}
                graph.add_node(OpConfig(f"{name}_{node}", package="qti.aisw", op_type="Relu", **made_of))
            graph.finalize()
        return context.binary()


def store(
    folder: Path, *, name: str = "forward_0", backend: str = "htp", kind: str = "emulator", vouched: bool = True
) -> Path:
    """Write the binary to a file, with a manifest like `Context.save`, or without one like another program."""
    path = folder / f"{name}.bin"
    path.write_bytes(binary(backend, kind))
    if vouched:
        vouch(path)
    return path


def described(path: Path) -> dict[str, Any]:
    """Return the JSON of a binary, as plain values to be edited."""
    with StoredContext(path, guarded=False, warn=False, use_json=False) as stored:
        return context_json.info_fields(stored.info)


def describe(path: Path, edit: Callable[[dict[str, Any]], None] = lambda _info: None) -> Path:
    """Write the JSON next to a binary, edited."""
    data = described(path)
    edit(data)
    made = path.with_name(f"{path.stem}_json.json")
    made.write_text(json.dumps(data, indent=2), "utf-8")
    return made


def tensor_of(data: dict[str, Any], graph: int = 0, side: str = "graphInputs", index: int = 0) -> dict[str, Any]:
    """Return a tensor in such a JSON."""
    found: dict[str, Any] = data["info"]["graphs"][graph]["info"][side][index]["info"]
    return found


def vouch(path: Path) -> Path:
    """Write its manifest."""
    manifest.write(path, build_id="test")
    return manifest.path_of(path)
