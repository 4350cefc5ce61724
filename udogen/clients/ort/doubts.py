"""What ONNX Runtime does not say when it leaves a node out, or fails: what its QNN provider is never given, by its
rules, and why a package cannot be registered.  Asked for only then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from udogen import backends
from udogen.clients.ort import shapes
from udogen.clients.package import Package
from udogen.errors import UdogenError
from udogen.opdef.onnx.model import Graph, Model, Node, type_in, walk
from udogen.runtime.op.session import OpSession

_SECONDS = 30
_WIDE = ("INT64", "UINT64", "DOUBLE")
_NOT_REGISTERED = "ort-registration"  # the line of the log that says so (clients/errors/lines_of_ort.py)


class Doubt(NamedTuple):
    """Why it may be, and what to do."""

    text: str
    remedy: str


def of_model(model: Model, packages: Sequence[Package], backend: str) -> list[Doubt]:
    """What the provider does not take of the nodes of these packages, measured with onnxruntime-qnn 2.3.0."""
    ops = {op for package in packages for op in package.ops}
    found = (
        doubt for node, scopes in walk(model.graph) if node.op.type in ops for doubt in _of_node(node, scopes, backend)
    )
    return list(dict.fromkeys(found))


def _of_node(node: Node, scopes: tuple[Graph, ...], backend: str) -> Iterator[Doubt]:
    where = f"node `{node.name or node.outputs[0]}` of op {node.op.type}"
    if len(scopes) > 1:
        yield Doubt(
            f"{where} is in the body of another node (If, Loop, Scan), and QNN is given the main graph alone",
            "move the op out of the body, or unroll it",
        )
    for what, names in (("input", node.inputs), ("output", node.outputs)):
        for name in filter(None, names):
            known = type_in(name, scopes)
            shape = known.shape
            told = f"{where}: {what} {name} is {known.dtype or '?'}" + (
                f" {_shape(shape)}" if shape is not None else ""
            )
            if shape is None:
                yield Doubt(f"{told}, and nothing says its shape; QNN takes fixed shapes alone", shapes.MORE)
            if shape is not None and not all(isinstance(each, int) for each in shape):
                yield Doubt(
                    f"{told}; QNN takes fixed shapes alone",
                    "fix them: `python -m onnxruntime.tools.make_dynamic_shape_fixed`, or "
                    "SessionOptions.add_free_dimension_override_by_name",
                )
            if known.dtype in _WIDE and not backends.RUNTIMES[backend].wide_in_ort:
                yield Doubt(
                    f"{told}; {backend.upper()} hands 64 bits to no custom op", "cast it before, and back behind"
                )
            most = max(backends.RUNTIMES[backend].ranks)
            if shape is not None and len(shape) > most:
                yield Doubt(
                    f"{told}; {backend.upper()} takes {most} dimensions at most", "reshape it before, and back behind"
                )


def _shape(shape: Sequence[int | str | None] | None) -> str:
    return "" if shape is None else "[" + ", ".join("?" if each is None else str(each) for each in shape) + "]"


def of_packages(packages: Sequence[Package], logged: Collection[str], *, backend: str, runtime: Path) -> list[Doubt]:
    """Why a package is not registered, told by registering it in a child; only where that is what the log says.

    `logged` are the keys of the known lines of the log.
    """
    if _NOT_REGISTERED not in logged:
        return []
    found = []
    for package in packages:
        try:
            with OpSession(
                package.library.file, package.provider, backend=backend, runtime=runtime, timeout=_SECONDS
            ) as session:
                _ = session.package
        except UdogenError as reason:
            found += [Doubt(reason.message, reason.hint), *(Doubt(line, "") for line in reason.details)]
    return found
