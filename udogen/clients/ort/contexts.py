"""Models of EPContext nodes before and after a session: does each name a binary that has what the model says?

ONNX Runtime compares tensors by their bytes alone: a model that says int8 of a uint8 tensor, or has inputs in another
order, runs, and is wrong.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from udogen.build import elf
from udogen.clients.ort import contexts
from udogen.clients.ort.contexts import ContextNode
from udogen.clients.ort.placement_reasons import Doubt
from udogen.clients.package import Package
from udogen.errors import UdogenError, UsageError
from udogen.opdef.onnx import reading
from udogen.opdef.onnx.from_proto import freeze
from udogen.opdef.onnx.model import ValueType
from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo
from udogen.runtime.contexts.manifest import mapped_file

_AGAIN = "write the model anew: udogen onnx-context FILE.bin -o MODEL.onnx"
_LONGEST = 255  # of a package's name
_LAST_WORD, _WORD = re.compile(rb"[A-Za-z_]\w*\Z"), re.compile(rb"[A-Za-z_]\w\w\w")
_SHORT = 4  # names of fewer letters come about by chance, in a gigabyte of weights
_QHPI = "qhpi_init"  # what an HTP package over QHPI exports; of other packages a context may not tell the names


@dataclass(frozen=True)
class Stored:
    """The EPContext nodes of a model, and whose ops their binaries name."""

    nodes: tuple[ContextNode, ...]
    names: frozenset[str]  # of packages whose kernels are in their binaries
    builds: tuple[str, ...] = ()  # the SDK releases that made them


def look(path: Path, nodes: Sequence[ContextNode], packages: Sequence[Package]) -> Stored:
    """Hold the EPContext nodes of a model against their binaries; every fault is told at once."""
    faults: list[tuple[str, str]] = []
    named: set[str] = set()
    builds: list[str] = []
    types = freeze(reading.read_proto(path), path.name).graph.types
    for each in nodes:
        if each.source.lower() not in contexts.SOURCES:
            faults.append((f"{_node(each)} is of `{each.source}`, not of QNN", "its execution provider is another one"))
    if not any(each.main for each in nodes):
        faults.append(("no EPContext node has main_context=1, and so none a context", _AGAIN))
    for main in (each for each in nodes if each.main):
        others = [each for each in nodes if not each.main]
        try:
            found = _binary(path, main)
        except UdogenError as fault:
            faults += [(fault.message, fault.hint), *((line, "") for line in fault.details)]
            continue
        named |= found.named
        builds.append(found.info.build_id)
        faults += contexts.faults_of(found.info, ())
        faults += (each for node in (main, *others) for each in _against(node, found.info, types, several=bool(others)))
    if not faults:
        faults += _useless(packages, named)
    if faults:
        first, *more = dict.fromkeys(faults)
        raise UsageError(f"{path}: {first[0]}", details=[text for text, _ in more], hint=first[1])
    return Stored(tuple(nodes), frozenset(named), tuple(builds))


def _useless(packages: Sequence[Package], named: set[str]) -> Iterator[tuple[str, str]]:
    for package in packages:
        if package.name not in named and _QHPI in elf.read(package.library.file).exports:
            yield (
                f"no context of the model has a kernel of package {package.name}",
                "leave the package out, or make the context with it",
            )


def registered(packages: Sequence[Package]) -> tuple[Package, ...]:
    """Each package under one op: that registers it, and a context has its ops whatever it is registered for."""
    return tuple(replace(each, ops=(each.ops or (each.name,))[:1], models=()) for each in packages)


def why_not(stored: Stored, packages: Sequence[Package], runtime: Path) -> list[Doubt]:
    """Why contexts may not be restored: packages that they seem to need and that are not given, a newer SDK."""
    lost = sorted(name for name in stored.names - {package.name for package in packages} if len(name) >= _SHORT)
    found = [
        Doubt(f"a context of the model has kernels of package {name}, which is not given", "give that package too")
        for name in lost
    ]
    newest = max(map(elf.version_key, elf.sdk_releases(runtime)), default=())
    for build in dict.fromkeys(stored.builds):
        if newest and elf.version_key(build) > newest:
            found.append(
                Doubt(
                    f"a context of the model is made by {build}, which is newer than {runtime.name} "
                    f"({elf.sdk_releases(runtime)[-1]})",
                    "make it with this release, or take a runtime at least as new",
                )
            )
    return found


# --- binaries ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    info: BinaryInfo
    named: set[str]


def _binary(model: Path, node: ContextNode) -> _Found:
    if node.data is None:
        return _described(_file(model, node))
    with tempfile.TemporaryDirectory(prefix="udogen-ort-") as folder:
        file = Path(folder, f"context of {_node(node)}".replace("/", " "))
        file.write_bytes(node.data)
        return _described(file)


def _file(model: Path, node: ContextNode) -> Path:
    """Where the file of a node is; ONNX Runtime's own rules for its name."""
    named = f"{_node(node)} names the file `{os.fsencode(node.file).decode('utf-8', 'replace')}`"
    if not node.file:
        raise UsageError(f"{_node(node)} names no file", hint=_AGAIN)
    if node.file.startswith("/") or ".." in node.file:
        raise UsageError(
            f"{named}: ONNX Runtime takes neither absolute paths nor any with `..`",
            hint="put the file beside the model, and name it so",
        )
    found = model.parent / node.file
    if not found.is_file():
        raise UsageError(f"{named}, and there is none at {found}", hint="keep the file and the model together")
    return found


def _described(file: Path) -> _Found:
    info = contexts.describe(file)
    with mapped_file(file) as data:
        return _Found(info, set(_packages_in(data)))


def _packages_in(data: mmap.mmap) -> Iterator[str]:
    """Kernels of op packages are in a binary by their names, PACKAGE::OP…; weights look like such a one by chance."""
    at = data.find(b"::")
    while at >= 0:
        begin = max(at - _LONGEST, 0)
        if (name := _LAST_WORD.search(data[begin:at])) and _WORD.match(data[at + 2 : at + 6]):
            yield name[0].decode()
        at = data.find(b"::", at + 2)


# --- the model against a binary -----------------------------------------------------------------------------


def _against(
    node: ContextNode, info: BinaryInfo, types: Mapping[str, ValueType], *, several: bool
) -> Iterator[tuple[str, str]]:
    there = {graph.name: graph for graph in info.graphs}
    graph = there.get(node.name)
    if graph is None and len(there) == 1 and not several:
        graph = next(iter(there.values()))  # the provider does not look at the name
    if graph is None:
        if node.main or not several:
            yield (
                f"{_node(node)} has the name of no graph of its context ({', '.join(there)})",
                "call it as the graph is called",
            )
        return
    for what, names, tensors in (("input", node.inputs, graph.inputs), ("output", node.outputs, graph.outputs)):
        # More inputs than the graph's are taken: some op of QNN did not need all of them.
        spare = what == "input" and {each.name for each in tensors} <= {
            node.overrides.get(name, name) for name in names
        }
        if len(names) != len(tensors) and not spare:
            yield f"{_node(node)} has {len(names)} {what}s, graph {graph.name} {len(tensors)}", _AGAIN
            continue
        yield from _tensors(node, graph, what, (names, tensors), types)


def _tensors(
    node: ContextNode,
    graph: GraphInfo,
    what: str,
    sides: tuple[Sequence[str], Sequence[TensorInfo]],
    types: Mapping[str, ValueType],
) -> Iterator[tuple[str, str]]:
    """Tensors are found by their names; where none is known, by their places."""
    names, tensors = sides
    by_name = {tensor.name: tensor for tensor in tensors}
    inner = {name: node.overrides.get(name, name) for name in names}
    lost = [name for name in names if inner[name] not in by_name]
    if len(lost) == len(names) == len(tensors) and not node.overrides:
        rows = list(zip(names, tensors, strict=True))
    elif lost and len(names) == len(tensors):
        yield f"{what} {lost[0]} of {_node(node)} is no {what} of graph {graph.name} ({', '.join(by_name)})", _AGAIN
        return
    else:
        rows = [(name, by_name[inner[name]]) for name in names if inner[name] in by_name]
    for name, tensor in rows:
        declared: ValueType = types.get(name, ValueType())
        stored = contexts.stored_type(tensor.dtype)
        if (declared.dtype and declared.dtype != _onnx_name(stored)) or (
            declared.shape is not None and declared.shape != tensor.shape
        ):
            shape = list(declared.shape) if declared.shape is not None else "?"
            yield (
                f"{what} {name} of {_node(node)} is {declared.dtype} {shape}; tensor {tensor.name} of graph "
                f"{graph.name} is {tensor.dtype} {list(tensor.shape)}",
                _AGAIN,
            )


def _onnx_name(stored: str) -> str:
    """FLOAT of float32."""
    import numpy as np

    if not stored:
        return ""
    number = reading.onnx_module("helper").np_dtype_to_tensor_dtype(np.dtype(stored))
    return str(reading.onnx_module().TensorProto.DataType.Name(number))


def _node(node: ContextNode) -> str:
    return f"EPContext node `{node.name or (node.outputs or ('',))[0]}`"
