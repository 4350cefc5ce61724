"""The description of a model (`model.toml`, or the same as JSON), and what is read of its contexts before they open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from udogen import backends
from udogen.backends import htp
from udogen.documents.document import Node, parse
from udogen.documents.typed import INVALID, Hint, between, one_of, read_keys, value_of
from udogen.errors import UdogenError, UsageError, read_plain, reading
from udogen.findings import ConfigError, Findings, Location
from udogen.qnn import socs
from udogen.runtime.arguments import PathArgument
from udogen.runtime.contexts.binaries import Shard, StoredContext, find_shards, head_of
from udogen.runtime.contexts.commands import OpLibrary, is_description, parse_package
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.library import KINDS
from udogen.runtime.models.wiring import Wiring, located, wire
from udogen.runtime.sessions import (
    DEFAULT_LIMIT,
    SessionPlan,
    SessionSpec,
    layer_of,
    parse_size,
    place_layers,
    sessions_of,
)

MEMORY = ("raw", "shared")
FILE = "model.toml"


# The values of a key; the first is its default.
CHOICES: Mapping[str, Sequence[str]] = {"backend": ("", *backends.RUNTIMES), "runtime": KINDS, "memory": MEMORY}


@dataclass(frozen=True)
class ModelDescription:
    """The contexts of a model, what they need, and how their tensors are linked.

    contexts: folders or files, in the order in which they run.  packages: op packages to register first.
    links: {input: output of an earlier context}, for tensors of different names; state: {input: output that is its next
    value}.
    graphs: what successive steps execute; the last one is repeated.  empty: all graphs of the contexts.
    sessions: their number; 0: as few as possible.  session_limit: bytes that one session may map.
    backend and runtime: "" and "auto" select those that made the binaries.
    memory of inputs and outputs: raw (the caller's arrays, unchanged) or shared (registered with each context).
    file and lines: the source of the description, for errors; a line for each key and each row of a table ("links.x").

    >>> ModelDescription(contexts=(Path("llm"),), links={"hidden": "hidden_out"}, state={"past_key": "key"})
    """

    contexts: tuple[Path, ...]
    packages: tuple[OpLibrary, ...] = ()
    backend: str = ""
    runtime: str = "auto"
    soc: int | str = ""
    graphs: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)
    sessions: int = 0
    session_limit: int = DEFAULT_LIMIT
    memory: str = "raw"
    file: Path | None = field(default=None, compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for what, choices in CHOICES.items():
            value = getattr(self, what)
            if value not in choices:
                raise UsageError(
                    f"the {what} of a model is {value!r}", hint=f"one of: {', '.join(filter(None, choices))}"
                )
        socs.number_of(self.soc)
        if self.sessions < 0 or self.session_limit < 1:
            raise UsageError(
                f"a model has {self.sessions} sessions of {self.session_limit} bytes",
                hint="sessions: 1 or more, or 0 for as few as are enough; session_limit: a size, as in 3.5GB",
            )

    def changed(self, changes: Mapping[str, Any]) -> ModelDescription:
        """The description with other values, which have no lines in the file."""
        lines = {key: line for key, line in self.lines.items() if key.partition(".")[0] not in changes}
        return replace(self, **changes, lines=lines)

    def place(self, key: str, row: str = "") -> Location:
        """The line of a key, or of a row of its table; without a file if it is in none."""
        line = self.lines.get(f"{key}.{row}") or self.lines.get(key)
        return Location(str(self.file), line) if line else Location("")

    @contextmanager
    def naming(self, key: str, row: str = "") -> Iterator[None]:
        """Add the line of a key, or of a row of it, to an error about its value."""
        try:
            yield
        except UdogenError as fault:
            fault.message = located(self.place(key, row), fault.message)
            raise

    def error(self, key: str, message: str, hint: str, details: Iterable[str] = ()) -> UsageError:
        """An error about a key, with its line."""
        return UsageError(located(self.place(key), message), hint=hint, details=details)


def read_description(path: Path) -> ModelDescription:
    """Read `model.toml` (or the same as JSON); paths in it are relative to its folder.

    >>> read_description(Path("llm/model.toml"))
    """
    with reading(path, hint="give model.toml, which names the context binaries of a model"):
        data = read_plain(path)
    findings = Findings()
    document = parse(data, str(path), findings)
    description = None if document is None else _description(document.top)
    if description is None or findings.all():  # warnings too: other programs refuse such JSON
        raise ConfigError(findings.all(), what="the model")
    return description


def _description(top: Node) -> ModelDescription | None:
    values = read_keys(top, _KEYS)
    if not values.get("contexts") and not top.document.findings.errors:
        path = ("contexts",) if ("contexts",) in top.document.lines else top.path
        top.document.error(path, "`contexts` names no file and no folder", 'contexts = ["."] is this folder')
    if top.document.findings.errors:
        return None
    lines = {".".join(map(str, path)): line for path, line in top.document.lines.items() if path}
    return ModelDescription(**values, file=Path(top.document.file), lines=lines)


def _existing(node: Node) -> Any:
    path = value_of(node, Path)
    if path is not INVALID and not path.exists():
        raise UsageError(f"there is no file or folder {path}", hint=f"paths are relative to {node.document.folder}")
    return path


def _package(node: Node) -> Any:
    text = value_of(node, str)
    if text is INVALID:
        return INVALID
    package = parse_package(text)
    return replace(package, path=_existing(Node(str(package.path), node.path, node.document)))


def _soc(node: Node) -> Any:
    soc = node.value if node.is_whole else value_of(node, str)
    return soc if soc is INVALID else soc and socs.number_of(soc)


def bytes_of(given: object, shown: str = "") -> int:
    """The bytes of a size: a number, or a string such as 3.5GB."""
    size = parse_size(given) if isinstance(given, str) else given
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UsageError(f"{shown or repr(given)} is not a size", hint='give bytes, or a string: "3.5GB", "2000MiB"')
    return size


def _size(node: Node) -> int:
    return bytes_of(node.value, node.shown)


_KEYS: Mapping[str, Hint] = {
    "contexts": tuple[Annotated[Path, _existing], ...],
    "packages": tuple[Annotated[OpLibrary, _package], ...],
    **{key: one_of(choices) for key, choices in CHOICES.items()},
    "soc": _soc,
    "graphs": tuple[str, ...],
    "links": Mapping[str, str],
    "state": Mapping[str, str],
    "sessions": between(int, 0, hint="give 1 or more, or 0 for as few as are enough"),
    "session_limit": _size,
}


def describe(source: PathArgument) -> ModelDescription:
    """The description behind a path: `model.toml`, a folder with one or with context binaries, or one binary."""
    path = Path(source)
    if path.is_dir() and (path / FILE).is_file():
        path = path / FILE
    return read_description(path) if is_description(path) else ModelDescription(contexts=(path,))


def shards_of(description: ModelDescription) -> tuple[Shard, ...]:
    """The context binaries of a model, in order; raises if one is missing."""
    with description.naming("contexts"):
        shards, notes = find_shards(description.contexts)
    missing = [note for note in notes if "missing" in note]
    if missing:
        message = f"a shard of the model is missing: {missing[0]}"
        raise description.error("contexts", message, "give all shards of the model, in order")
    return shards


def resolved(description: ModelDescription) -> ModelDescription:
    """The description with the backend and the runtime that made the binaries, unless it names others."""
    first = shards_of(description)[0]
    head = head_of(first.binary)
    maker = backends.by_number(head.backend_id)
    if maker is not None and description.backend not in ("", maker.id):
        message = f"{first.binary} was made for the backend {maker.id}, not {description.backend}"
        raise description.error("backend", message, f"use {maker.id}, or leave `backend` out")
    if head.emulator and description.runtime == "real":
        message = f"{first.binary} was made by udogen's emulator; no other runtime restores it"
        raise description.error("runtime", message, "use emulator, or leave `runtime` out")
    if not description.backend:
        if maker is None:  # binaries of Qualcomm have it only in their metadata
            with description.naming("contexts"), StoredContext(first, warn=False) as stored:
                maker = backends.by_number(stored.info.backend_id)
        description = replace(description, backend=maker.id if maker is not None else htp.BACKEND.id)
    if description.runtime == "auto" and head.emulator:
        description = replace(description, runtime="emulator")
    return description


# --- what is read before anything is restored -------------------------------------------------------------------------


@contextmanager
def planned(
    description: ModelDescription, runtime: Runtime, *, guarded: bool
) -> Iterator[tuple[Wiring, SessionPlan, dict[str, StoredContext]]]:
    """The wiring of a model, the session of each context, and its binaries; `guarded`: as of `StoredContext`."""
    with ExitStack() as stack:
        shards = shards_of(description)
        with description.naming("contexts"):
            stored = [stack.enter_context(StoredContext(shard, guarded=guarded, warn=guarded)) for shard in shards]
        wiring = _wired(description, stored)
        binaries = dict(zip(wiring.contexts, stored, strict=True))
        yield wiring, _sessions(description, wiring, binaries, runtime), binaries


def sharing_in(binaries: Mapping[str, StoredContext]) -> dict[str, str]:
    """What contexts store once for several of their graphs, by context."""
    return {name: stored.info.sharing for name, stored in binaries.items() if stored.info.sharing}


def _wired(description: ModelDescription, stored: Sequence[StoredContext]) -> Wiring:
    """The wiring of the contexts of a model."""
    return wire(
        [(context.name, context.info) for context in stored],
        graphs=description.graphs,
        links=description.links,
        state=description.state,
        place=description.place,
    )


def _sessions(
    description: ModelDescription, wiring: Wiring, binaries: Mapping[str, StoredContext], runtime: Runtime
) -> SessionPlan:
    """The session of each context of a model; raises if the sessions cannot map them."""
    states = {*wiring.state, *wiring.state.values()}
    layers = [layer_of(name, context.info, len(context.data), states) for name, context in binaries.items()]
    count = description.sessions
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = description.session_limit if runtime.backend == htp.BACKEND.id else memory
    specs: Sequence[SessionSpec] = ()
    try:
        specs = sessions_of(runtime, count, limit=limit)
        return place_layers(layers, specs, exactly=count)
    except UsageError as fault:
        key = "sessions" if count > min(len(layers), len(specs)) else "session_limit"
        raise description.error(key, fault.message, fault.hint, fault.details) from fault


def open_runtime(description: ModelDescription) -> Runtime:
    """The runtime of a model, with its op packages."""
    description = resolved(description)
    with ExitStack() as stack:
        runtime = stack.enter_context(Runtime(description.backend, runtime=description.runtime, soc=description.soc))
        for number, package in enumerate(description.packages):
            with description.naming("packages", str(number)):
                runtime.register(package.path, package.provider, package.target or None)
        stack.pop_all()
        return runtime
