"""A model for `--client ort`, with all that it takes elsewhere: schemas of its custom ops, the files that it names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from udogen.clients.ort import asking, context_nodes, contexts, schema, shapes
from udogen.clients.package import Package
from udogen.clients.scripts.plan import File
from udogen.errors import UsageError


def prepared(
    path: Path, packages: Sequence[Package], rules: Path | None = None
) -> tuple[Path | bytes, tuple[File, ...]]:
    """What becomes of the model, and what must lie beside it: external data, context binaries."""
    if nodes := context_nodes.nodes_of(path):
        contexts.look(path, nodes, packages)
        return path, tuple(_beside(path, name) for name in dict.fromkeys(each.file for each in nodes if each.file))
    found = schema.for_packages(path, packages, rules)
    asking.check_model(found.model, packages)
    if lost := schema.without_shape(found):
        raise UsageError(f"{path}: {lost[0]}; QNN takes fixed shapes alone", details=lost[1:], hint=shapes.MORE)
    files = tuple(_beside(path, name) for name in found.external)
    return (found.of(path) if found.changes else path), files


def _beside(model: Path, name: str) -> File:
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise UsageError(
            f"{model} names the file {name}, which is not below its own folder",
            hint="keep all of the model in one folder",
        )
    file = model.parent / name
    if not file.is_file():
        raise UsageError(
            f"{model} names the file {name}, and there is none at {file}", hint="keep the file and the model together"
        )
    return File(f"models/{name}", name, file)
