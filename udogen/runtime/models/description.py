"""The description of a model, as one value and as one file: `model.toml`, or the same as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from udogen import backends
from udogen.backends import htp
from udogen.errors import UdogenError, UsageError, open_plain, write_file
from udogen.opdef.problems import nearest
from udogen.resources import read_toml, toml_text
from udogen.runtime import arguments
from udogen.runtime.arguments import PathArgument
from udogen.runtime.built import find_built
from udogen.runtime.contexts.binaries import Shard, StoredContext, find_shards
from udogen.runtime.contexts.binary_info import head_of
from udogen.runtime.contexts.commands import OpLibrary, is_description, parse_package
from udogen.runtime.library import KINDS
from udogen.runtime.models.wiring import Wiring, wire
from udogen.runtime.sessions.placement import DEFAULT_LIMIT, parse_size

MEMORY = ("raw", "shared")
FILE = "model.toml"


# The values of a key; the first is its default.
CHOICES: Mapping[str, Sequence[str]] = {"backend": ("", *backends.RUNTIMES), "runtime": KINDS, "memory": MEMORY}


@dataclass(frozen=True)
class ModelDescription:
    """The contexts of a model, what they need, and how their tensors are linked.

    contexts: folders or files, in the order in which they run.  packages: op packages to register first.
    links: {input: output of an earlier context}; state: {input: output that is its next value}, as in
    `find_connections`; None: proposed from names, types and shapes.
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
    try:
        with open_plain(path) as stream:
            text = stream.read()
    except OSError as fault:
        raise UsageError(
            f"{path} cannot be read: {fault.strerror}", hint="`udogen new --from-contexts DIR` writes a first one"
        ) from fault
    try:
        found = json.loads(text) if path.suffix == ".json" else read_toml(text)
    except ValueError as fault:
        line, why = _line_of(str(fault))
        raise UsageError(
            f"{path}{line}: {why}", hint="see docs/models.md for what a description of a model has"
        ) from fault
    if not isinstance(found, dict):
        raise UsageError(f"{path} describes no model", hint="it has keys: contexts, links, state …")
    return _Reader(path, text.decode("utf-8")).read(found)


def _line_of(message: str) -> tuple[str, str]:
    """The line that an error of a parser names, as ":7", and the rest of its message."""
    place = re.search(r"\s*[:(]\s*(?:at )?line (\d+),? column (\d+)(?: \(char \d+\)|\))?", message)
    if place is None:
        return "", message
    return f":{place[1]}", message[: place.start()] + message[place.end() :] + f" (column {place[2]})"


# The header of a table in TOML, or a key (of TOML or JSON) and the brace that opens its table, or the end of a table.
_KEYS = re.compile(
    r"""^\s*\[\s*["']?(?P<table>[\w-]+)["']?\s*\]"""
    r"""|(?:^|[{,])\s*(?P<quote>["'])?(?P<key>(?(quote)[^"'\n]*|[^\s"'#={}:,\[\]]+))(?(quote)(?P=quote))\s*[=:]\s*(?P<open>\{)?"""
    r"""|(?P<close>\})""",
    re.MULTILINE,
)


def _lines_in(text: str) -> dict[str, int]:
    """The line of each key, and of each row of a table: {"contexts": 1, "links": 3, "links.hidden": 4}."""
    found: dict[str, int] = {}
    table = ""
    plain = re.sub(r"^[ \t]*#.*", "", text, flags=re.MULTILINE)
    for each in _KEYS.finditer(plain):
        key, line = each["key"], plain.count("\n", 0, each.end()) + 1
        if each["close"]:
            table = ""
        elif key is None:
            table = each["table"]
            found.setdefault(table, line)
        else:
            found.setdefault(f"{table}.{key}" if table else key, line)
            table = key if each["open"] else table
    return found


class _Reader:
    """Reads the values of a description; errors are collected, with their lines."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, _lines_in(text)
        self.faults: dict[str, str] = {}  # fault -> hint

    def read(self, found: Mapping[str, Any]) -> ModelDescription:
        known = [each.name for each in fields(ModelDescription) if each.name not in ("file", "lines")]
        for key in found:
            if key not in known:
                near = nearest(key, known)
                why = f"`{key}` is unknown" + (f": did you mean `{near}`?" if near else "")
                self._fault(key, why, hint=f"a description has: {', '.join(known)}")
        readers: Mapping[str, Callable[[str, Any], Any]] = {
            **dict.fromkeys(("contexts",), self._paths),
            **dict.fromkeys(("packages",), self._packages),
            **dict.fromkeys(("graphs",), self._names),
            **dict.fromkeys(("links", "state"), self._names_of_names),
            **dict.fromkeys(("sessions",), self._number),
            **dict.fromkeys(("session_limit",), self._size),
            **dict.fromkeys(("backend", "runtime", "soc", "memory"), self._choice),
            "until": lambda key, value: str(value) if type(value) is int else self._name(key, value),
        }
        values = {key: readers[key](key, value) for key, value in found.items() if key in known}
        if not values.get("contexts") and not self.faults:
            self._fault("contexts", "`contexts` names no file and no folder", hint='contexts = ["."] is this folder')
        if self.faults:
            first, hint = next(iter(self.faults.items()))
            several = f"{self.path}: {len(self.faults)} things are wrong with this model"
            raise UsageError(
                first if len(self.faults) == 1 else several,
                details=list(self.faults) if len(self.faults) > 1 else (),
                hint=hint if len(set(self.faults.values())) == 1 else "docs/models.md describes the keys",
            )
        return ModelDescription(**values, file=self.path, lines=self.lines)

    def _fault(self, key: str, text: str, *, name: str = "", hint: str) -> None:
        line = self.lines.get(f"{key}.{name}") or self.lines.get(key, 1)
        self.faults[f"{self.path}:{line}: {text}"] = hint

    def _missing(self, key: str, path: Path, what: str, *, name: str = "") -> None:
        if not path.exists():
            self._fault(key, f"there is no {what} {path}", name=name, hint=f"paths are relative to {self.path.parent}")

    def _name(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            self._fault(key, f"`{key}` is {value!r}, not a name", hint=f'give a string: {key} = "…"')
            return ""
        return value

    def _choice(self, key: str, value: Any) -> str:
        name, choices = self._name(key, value), CHOICES.get(key)
        if choices and name not in choices:
            self._fault(key, f"the {key} of a model is {name!r}", hint=f"one of: {', '.join(filter(None, choices))}")
            return choices[0]
        return name

    def _names(self, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            self._fault(key, f"`{key}` is {value!r}, not a list of names", hint=f'give a list: {key} = ["…"]')
            return ()
        return tuple(value)

    def _paths(self, key: str, value: Any) -> tuple[Path, ...]:
        found = tuple(self.path.parent / each for each in self._names(key, value))
        for each in found:
            self._missing(key, each, "file or folder")
        return found

    def _packages(self, key: str, value: Any) -> tuple[OpLibrary, ...]:
        rows = [parse_package(each) for each in self._names(key, value)]
        found = tuple(replace(row, path=self.path.parent / row.path) for row in rows)
        for each in found:
            self._missing(key, each.path, "op package")
        return found

    def _names_of_names(self, key: str, value: Any) -> Mapping[str, str]:
        hint = f'give a table: [{key}], and a row below it: name = "…"'
        if not isinstance(value, dict):
            self._fault(key, f"`{key}` is {value!r}, not a table", hint=hint)
            return {}
        for name, each in value.items():
            if not isinstance(each, str):
                self._fault(key, f"`{name}` of `{key}` is {each!r}, not a name", name=name, hint=hint)
        return {name: each for name, each in value.items() if isinstance(each, str)}

    def _number(self, key: str, value: Any) -> int:
        if type(value) is not int or value < 0:
            self._fault(
                key, f"`{key}` is {value!r}, not a number", hint="give 1 or more, or 0 for as few as are enough"
            )
            return 0
        return value

    def _size(self, key: str, value: Any) -> int:
        size = value if type(value) is int and value > 0 else parse_size(value) if isinstance(value, str) else None
        if size is None:
            self._fault(key, f"`{key}` is {value!r}, not a size", hint='give bytes, or a string: "3.5GB", "2000MiB"')
        return size or 1


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
