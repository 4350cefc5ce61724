"""A first `model.toml` for a folder of context binaries: links and state are proposed, op packages looked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from udogen.backends import htp
from udogen.errors import UdogenError, UsageError
from udogen.runtime.built import find_built
from udogen.runtime.contexts.binaries import StoredContext
from udogen.runtime.contexts.commands import OpLibrary
from udogen.runtime.models.description import FILE, ModelDescription, resolved, shards_of, write_description
from udogen.runtime.models.wiring import Wiring, wire


def first_description(folder: Path, out: Path | None = None) -> tuple[Path, ModelDescription]:
    """Write it, DIR/model.toml unless `out` is given; an existing file is never overwritten."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", hint="give the folder of the context binaries")
    description = resolved(ModelDescription(contexts=(folder,)))
    file = out or folder / FILE
    with ExitStack() as stack:
        stored = [stack.enter_context(StoredContext(each, warn=False)) for each in shards_of(description)]
        wiring = wire([(each.name, each.info) for each in stored])
    found = replace(
        description,
        packages=tuple(packages_in(folder, description.backend or htp.BACKEND.id)),
        graphs=tuple(each.chain.name for each in wiring.chains),
        links=wiring.links,
        state=wiring.state,
    )
    write_description(file, found, _comments(found, wiring))
    return file, found


def _comments(found: ModelDescription, wiring: Wiring) -> dict[str, str]:
    none = "none was found; op packages that the contexts need: LIB|DIR[:PROVIDER[:TARGET]]"
    kinds = {each.key: f"{each.info.dtype} {list(each.info.shape)}" for each in wiring.states}
    return {
        "contexts": "The model, in the order in which its contexts run; paths are relative to this file.",
        "packages": "Op packages, registered first." if found.packages else none,
        "graphs": "What steps execute, one after the other; the last one is repeated.",
        "sessions": "0: as few as are enough; session_limit: bytes that one may map.",
        "memory": "raw: the caller's arrays as they are; shared: inputs and outputs in registered memory.",
        "links": "input = output of a context before it; proposed from names, types and shapes.",
        "state": "input = output that is its value in the next step; it stays on the device.\n"
        + "\n".join(f"{name}: {kind}" for name, kind in kinds.items()),
    }


def packages_in(folder: Path, backend: str) -> Iterator[OpLibrary]:
    """Op packages for a backend that lie in a folder, generated and built, for a first description."""
    for each in sorted(path for path in folder.iterdir() if path.is_dir()):
        try:
            built = find_built(each, backend=backend)
        except UdogenError:
            continue
        yield OpLibrary(built.folder.path if built.folder else each)
