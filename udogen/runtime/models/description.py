"""The description of a model, as one value and as one file: `model.toml`, or the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from udogen import backends
from udogen.backends import htp
from udogen.documents.document import Node, parse
from udogen.documents.typed import INVALID, Hint, between, one_of, read_keys, value_of
from udogen.errors import UdogenError, UsageError, read_plain, reading, write_file
from udogen.findings import ConfigError, Findings
from udogen.resources import toml_text
from udogen.runtime import arguments
from udogen.runtime.arguments import PathArgument
from udogen.runtime.built import find_built
from udogen.runtime.contexts.binaries import Shard, StoredContext, find_shards, head_of
from udogen.runtime.contexts.commands import OpLibrary, is_description, parse_package
from udogen.runtime.library import KINDS
from udogen.runtime.models.wiring import Wiring, wire
from udogen.runtime.sessions import DEFAULT_LIMIT, parse_size

MEMORY = ("raw", "shared")
FILE = "model.toml"


# The values of a key; the first is its default.
CHOICES: Mapping[str, Sequence[str]] = {"backend": ("", *backends.RUNTIMES), "runtime": KINDS, "memory": MEMORY}


@dataclass(frozen=True)
class ModelDescription:
    """The contexts of a model, what they need, and how their tensors are linked.

    contexts: folders or files, in the order in which they run.  packages: op packages to register first.
    links: {input: output of an earlier context}; state: {input: output that is its next value}, as in
    `connections.connect`; None: proposed from names, types and shapes.
    graphs: what successive steps execute; the last one is repeated.  empty: all graphs of the contexts.
    sessions: their number; 0: as few as possible.  session_limit: bytes that one session may map.
    backend and runtime: "" and "auto" select those that made the binaries.
    memory of inputs and outputs: raw (the caller's arrays, unchanged) or shared (registered with each context).
    file and lines: the source of the description, for errors; a line for each key and each row of a table ("links.x").
    until: the last context that runs, by name or number.

    >>> ModelDescription(contexts=(Path("llm"),), links={"hidden": "hidden_out"}, state={"past_key": "key"})
    """

    contexts: tuple[Path, ...]
    packages: tuple[OpLibrary, ...] = ()
    backend: str = ""
    runtime: str = "auto"
    soc: str = ""
    graphs: tuple[str, ...] = ()
    links: Mapping[str, str] | None = None
    state: Mapping[str, str] | None = None
    sessions: int = 0
    session_limit: int = DEFAULT_LIMIT
    memory: str = "raw"
    until: str = ""
    file: Path | None = field(default=None, compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for what, choices in CHOICES.items():
            value = getattr(self, what)
            if value not in choices:
                raise UsageError(
                    f"the {what} of a model is {value!r}", hint=f"one of: {', '.join(filter(None, choices))}"
                )
        if self.sessions < 0 or self.session_limit < 1:
            raise UsageError(
                f"a model has {self.sessions} sessions of {self.session_limit} bytes",
                hint="sessions: 1 or more, or 0 for as few as are enough; session_limit: a size, as in 3.5GB",
            )

    def changed(self, changes: Mapping[str, Any]) -> ModelDescription:
        """The description with other values, which have no lines in the file."""
        lines = {key: line for key, line in self.lines.items() if key.partition(".")[0] not in changes}
        return replace(self, **changes, lines=lines)

    def place(self, key: str, name: str = "") -> str:
        """The start of an error about a key, or a row of its table: "model.toml:7: "; empty if it is in no file."""
        line = self.lines.get(f"{key}.{name}") or self.lines.get(key)
        return f"{self.file}:{line}: " if line else ""


def read_description(path: Path) -> ModelDescription:
    """Read `model.toml` (or the same as JSON); paths in it are relative to its folder.

    >>> read_description(Path("llm/model.toml"))
    """
    with reading(path, hint="`udogen new --from-contexts DIR` writes a first one"):
        data = read_plain(path)
    findings = Findings()
    found = parse(data, str(path), findings)
    description = None if found is None else _description(found.top)
    if description is None or findings.all():  # warnings too: other programs refuse such JSON
        raise ConfigError(findings.all(), what="the model")
    return description


def _description(top: Node) -> ModelDescription | None:
    values = read_keys(top, _KEYS)
    if not values.get("contexts") and not top.document.findings.errors:
        top.error("`contexts` names no file and no folder", 'contexts = ["."] is this folder')
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
    return text if text is INVALID else _beside(node, parse_package(text))


def _beside(node: Node, row: Any, field: str = "path") -> Any:
    """A value whose path is relative to the folder of the description."""
    path = _existing(Node(str(getattr(row, field)), node.path, node.document))
    return replace(row, **{field: path})


def _size(node: Node) -> int:
    size = node.value if node.is_whole else parse_size(node.value) if isinstance(node.value, str) else None
    if not size or size < 0:
        raise UsageError(f"{node.shown} is not a size", hint='give bytes, or a string: "3.5GB", "2000MiB"')
    return size


_KEYS: Mapping[str, Hint] = {
    "contexts": tuple[Annotated[Path, _existing], ...],
    "packages": tuple[Annotated[OpLibrary, _package], ...],
    **{key: one_of(choices) for key, choices in CHOICES.items()},
    "soc": str,
    "graphs": tuple[str, ...],
    "links": Mapping[str, str],
    "state": Mapping[str, str],
    "sessions": between(int, 0, hint="give 1 or more, or 0 for as few as are enough"),
    "session_limit": _size,
    "until": lambda node: str(node.value) if node.is_whole else value_of(node, str),
}


def describe(source: PathArgument) -> ModelDescription:
    """The description behind a path: `model.toml`, a folder with one or with context binaries, or one binary."""
    path = arguments.path(source, "the model", hint="give model.toml, or a folder of context binaries")
    if path.is_dir() and (path / FILE).is_file():
        path = path / FILE
    return read_description(path) if is_description(path) else ModelDescription(contexts=(path,))


def shards_of(description: ModelDescription) -> tuple[Shard, ...]:
    """The context binaries of a model, in order; raises if one is missing."""
    found = find_shards(description.contexts)
    missing = [note for note in found.notes if "missing" in note]
    if missing:
        raise UsageError(
            f"{description.place('contexts')}a shard of the model is missing: {missing[0]}",
            hint="give all shards of the model, in order",
        )
    return found.shards


def resolved(description: ModelDescription) -> ModelDescription:
    """The description with the backend and the runtime that made the binaries, unless it names others."""
    first = shards_of(description)[0]
    head = head_of(first.binary)
    if not description.backend:
        maker = backends.by_number(head.backend_id)
        if maker is None:  # binaries of Qualcomm have it only in their metadata
            with StoredContext(first, warn=False) as stored:
                maker = backends.by_number(stored.info.backend_id)
        description = replace(description, backend=maker.id if maker is not None else htp.BACKEND.id)
    if description.runtime == "auto" and head.emulator:
        description = replace(description, runtime="emulator")
    return description


def description_text(description: ModelDescription, *, folder: Path, comments: Mapping[str, str] | None = None) -> str:
    """A description as `model.toml`, with paths relative to its folder; `comments`: key -> line above it."""
    notes = comments or {}
    rows: list[str] = []

    def row(key: str, value: str) -> None:
        note(key)
        rows.append(f"{key} = {value}")

    def note(key: str) -> None:
        rows.extend(f"# {line}" for line in notes.get(key, "").splitlines())

    row("contexts", _list([_relative(each, folder) for each in description.contexts]))
    row("packages", _list([_package_text(each, folder) for each in description.packages]))
    for key in ("backend", "runtime", "soc"):
        if getattr(description, key):
            row(key, toml_text(getattr(description, key)))
    if description.graphs:
        row("graphs", _list(description.graphs))
    row("sessions", str(description.sessions))
    row("session_limit", str(description.session_limit))
    row("memory", toml_text(description.memory))
    if description.until:
        row("until", toml_text(description.until))
    for key, table in (("links", description.links), ("state", description.state)):
        if table is None:  # an empty table means that the model has none
            continue
        rows.append("")
        note(key)
        rows.append(f"[{key}]")
        rows.extend(f"{toml_text(name)} = {toml_text(other)}" for name, other in table.items())
    return "\n".join(rows) + "\n"


def write_description(path: Path, description: ModelDescription, comments: Mapping[str, str] | None = None) -> None:
    """Write `model.toml`; an existing file is never overwritten."""
    text = description_text(description, folder=path.parent, comments=comments)
    if path.exists():
        raise UsageError(f"{path} exists already", hint="choose another file with -o, or remove it")
    write_file(path, text)


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(toml_text, values))}]"


def _relative(path: Path, folder: Path) -> str:
    here, there = path.resolve(), folder.resolve()
    return here.relative_to(there).as_posix() if here.is_relative_to(there) else str(here)


def _package_text(package: OpLibrary, folder: Path) -> str:
    return ":".join(each for each in (_relative(package.path, folder), package.provider, package.target) if each)


# --- a first description ----------------------------------------------------------------------------------------------


def first_description(folder: Path, out: Path | None = None) -> tuple[Path, ModelDescription]:
    """Write a first DIR/model.toml (or `out`): links and state are proposed, op packages are searched for."""
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
        "sessions": "0: as few as are enough, at most one for each device; session_limit: bytes that one may map.",
        "memory": "raw: the caller's arrays as they are; shared: inputs and outputs in registered memory.",
        "links": "input = output of a context before it; proposed from names, types and shapes.",
        "state": "input = output that is its value in the next step; it stays on the device.\n"
        + "\n".join(f"{name}: {kind}" for name, kind in kinds.items()),
    }


def packages_in(folder: Path, backend: str) -> Iterator[OpLibrary]:
    """The generated and built op packages for a backend in a folder, for a first description."""
    for each in sorted(path for path in folder.iterdir() if path.is_dir()):
        try:
            built = find_built(each, backend=backend)
        except UdogenError:
            continue
        yield OpLibrary(built.folder.path if built.folder else each)
