"""Context binaries as files: found, mapped, checked, and described by their own metadata and by their JSON.

If both describe a binary, its own metadata takes precedence, as the runtime executes that.  Differences are reported
tensor by tensor; a JSON that would make buffers too small for the binary is an error.

A file that is not trusted is read in a worker.  libQnnSystem (2.47 to 2.51) trusts the offsets inside a file: of all
single flipped bits in the description of a binary, about two in a hundred end the process that reads it, and some keep
it busy forever.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from udogen import backends
from udogen.backends import by_number
from udogen.errors import RunFailed, ToolMissing
from udogen.qnn import heads, system
from udogen.qnn.handles import Closing
from udogen.qnn.heads import NoContextBinary
from udogen.qnn.system import BinaryInfo
from udogen.runtime import arguments
from udogen.runtime.arguments import PathArgument
from udogen.runtime.contexts import context_json, manifest
from udogen.runtime.contexts.context_json import ContextJson, compare, too_small
from udogen.runtime.contexts.manifest import ManifestCheck, mapped_file
from udogen.runtime.failures import OpCrashed, OpTimedOut, Situation, error_of
from udogen.runtime.library import find_runtime
from udogen.runtime.worker_process import WorkerSession

_SECONDS = 30.0
_AGAIN = "copy it again from where it was made, with the file of checksums beside it"


@dataclass(frozen=True)
class ReadBinary:
    """A command: describe a context binary with this libQnnSystem."""

    library: Path
    path: Path


def file_info(library: Path, path: Path, *, timeout: float = _SECONDS) -> BinaryInfo:
    """`system.file_info` in a worker: what would crash or hang this process becomes an error."""
    head_of(path)  # a check that starts no process
    worker = WorkerSession(__name__, explain=lambda _situation, failed: error_of(failed))
    try:
        return worker.start(ReadBinary(library, path), BinaryInfo, Situation(library.name, what="the library"), timeout)
    except OpTimedOut as fault:
        raise NoContextBinary(
            f"{path} is damaged: {library.name} did not finish reading it within {timeout:g} seconds", hint=_AGAIN
        ) from fault
    except OpCrashed as fault:
        raise NoContextBinary(f"{path} is damaged: {fault.message}", hint=_AGAIN) from fault
    finally:
        worker.drop()


def head_of(path: Path) -> heads.Head:
    """The head of a file; raises if it cannot be opened, or is clearly not a context binary."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise unreadable(path, OSError(0, "not a regular file"))
        with path.open("rb") as file:
            return heads.check_start(file.read(heads.LENGTH), os.fstat(file.fileno()).st_size, str(path))
    except OSError as fault:
        raise unreadable(path, fault) from fault


def unreadable(path: Path, fault: OSError) -> RunFailed:
    """The error for a file that cannot be opened."""
    if path.is_dir():
        return RunFailed(f"the context binary {path} is a folder", hint="give a file; `run context` takes folders too")
    return RunFailed(
        f"the context binary {path} cannot be read: {fault.strerror}", hint="give a file that exists and can be read"
    )


def main() -> None:
    """Run the worker."""
    from udogen.runtime.worker.serving import Commands, Parent, serve

    def commands(parent: Parent) -> Commands:
        def read(command: ReadBinary) -> BinaryInfo:
            parent.phase("read its description")
            return system.file_info(command.library, command.path)

        return {ReadBinary: read}

    serve(commands)


_BINARY = re.compile(r"forward_(\d+)\.bin")
_JSON = re.compile(r"forward_(\d+)(?:_json)?\.json")


@dataclass(frozen=True)
class Shard:
    """A context binary and the JSON that describes it, if any: `print(shard.binary, shard.json)`."""

    binary: Path
    json: Path | None = None
    number: int = 0  # its place among the shards that run
    name: str = ""  # by default that of the file: forward_0

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.binary.stem)


class FoundShards(NamedTuple):
    """Context binaries in the order in which they run, and notes about missing or left-out files."""

    shards: tuple[Shard, ...]
    notes: tuple[str, ...] = ()


def find_shards(paths: Sequence[Path]) -> FoundShards:
    """Find context binaries in folders and files, in the order in which they run.

    Equal names are prefixed with the folder, or else with a number.

    `shards = find_shards([Path("llm")])`
    """
    faults: list[str] = []
    notes: list[str] = []
    binaries: list[Path] = []
    for path in paths:
        if path.is_dir():
            binaries += _in_folder(path, faults, notes)
        elif path.exists():
            binaries.append(path)
        else:
            faults.append(f"there is no file or folder {path}")
    seen: set[Path] = set()
    for binary in binaries:
        if (real := binary.resolve()) in seen:
            faults.append(f"{binary} is given twice")
        seen.add(real)
    if faults:
        raise arguments.faulty(
            faults,
            "things are wrong with the context binaries",
            hint="give a folder of forward_<i>.bin and forward_<i>_json.json, or files *.bin",
        )
    rows = zip(binaries, _names(binaries), strict=True)
    shards = (Shard(binary, json_of(binary), number, name) for number, (binary, name) in enumerate(rows))
    return FoundShards(tuple(shards), tuple(notes))


def _names(binaries: Sequence[Path]) -> list[str]:
    times = Counter(binary.stem for binary in binaries)
    named = [binary.stem if times[binary.stem] == 1 else f"{binary.parent.name}_{binary.stem}" for binary in binaries]
    again = Counter(named)
    return [name if again[name] == 1 else f"{number}_{name}" for number, name in enumerate(named)]


def json_of(binary: Path) -> Path | None:
    """The JSON next to a binary: <name>_json.json, or <name>.json; None if neither exists."""
    places = (binary.with_name(f"{binary.stem}_json.json"), binary.with_name(f"{binary.stem}.json"))
    return next((place for place in places if place.is_file()), None)


def _in_folder(folder: Path, faults: list[str], notes: list[str]) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as fault:
        faults.append(f"the folder {folder} cannot be read: {fault.strerror}")
        return []
    binaries = [binary for binary in entries if binary.suffix == ".bin"]
    for binary in binaries:
        if not binary.is_file():
            faults.append(f"{binary} is {'a link to nothing' if binary.is_symlink() else 'not a file'}")
    numbered = [(index, binary) for binary in binaries if (index := _index(binary)) is not None]
    if not numbered:
        orphans = [entry.name for entry in entries if _JSON.fullmatch(entry.name)]
        if orphans:
            faults.append(f"{folder} has {_and(orphans)}, but no forward_<i>.bin")
        elif not binaries:
            faults.append(f"{folder} contains no context binary (*.bin)")
        return sorted(binaries, key=_naturally)
    by_index: dict[int, Path] = {}
    for index, binary in numbered:
        if index in by_index:
            faults.append(f"{by_index[index].name} and {binary.name} in {folder} have one number")
        by_index[index] = binary
    _odd(folder, entries, by_index, notes)
    return [by_index[index] for index in sorted(by_index)]


def _odd(folder: Path, entries: Iterable[Path], by_index: dict[int, Path], notes: list[str]) -> None:
    """Notes about gaps, JSON without a binary, and binaries that are not shards."""
    last = max(by_index)
    gaps = [f"forward_{index}.bin" for index in range(min(last, 10_000)) if index not in by_index]
    if gaps:
        notes.append(f"{folder}: {_and(gaps)} {'is' if len(gaps) == 1 else 'are'} missing before {by_index[last].name}")
    for entry in entries:
        described = _JSON.fullmatch(entry.name)
        if described and int(described[1]) not in by_index:
            notes.append(f"{entry} describes forward_{described[1]}.bin, which is not there")
        elif entry.suffix == ".bin" and not _BINARY.fullmatch(entry.name):
            notes.append(f"{entry} is left out: beside forward_<i>.bin other names are not shards")


def _index(path: Path) -> int | None:
    match = _BINARY.fullmatch(path.name)
    return int(match[1]) if match else None


def _naturally(path: Path) -> list[tuple[int, int, str]]:
    """The sort key that puts part_2 before part_10."""
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _and(names: Sequence[str]) -> str:
    shown = list(names[:8]) + (["…"] if len(names) > 8 else [])
    return ", ".join(shown[:-1]) + (f" and {shown[-1]}" if len(shown) > 1 else shown[-1])


BINARY, JSON = "binary", "json"


class StoredContext(Closing):
    """A context binary that is not restored yet: mapped, checked and described.

    `data` is the mapping and `info` its description, from `source`: BINARY, or JSON if the system library is missing.
    `verdict` is the result of its manifest check, `description` its JSON, `differences` those between both.

    A file whose manifest matches is described in this process.  Others are read in a child process if `guarded` (the
    default): that takes about 0.15 s and turns a crash of libQnnSystem into an error.
    A file without a manifest causes a warning (`warnings`), unless `warn` is False.

    `StoredContext("forward_0.bin").info.graphs`
    """

    def __init__(
        self,
        shard: Shard | PathArgument,
        *,
        system_library: PathArgument | None = None,
        use_json: bool = True,
        check_manifest: bool = True,
        guarded: bool = True,
        warn: bool = True,
        on_step: Callable[[str], None] = lambda _line: None,
    ) -> None:
        if not isinstance(shard, Shard):
            shard = Path(shard)
            shard = Shard(shard, json_of(shard) if use_json else None)
        given = None if system_library is None else Path(system_library)
        self.shard, self.path, self.name = shard, shard.binary, shard.name
        self.verdict = _verdict(self.path, check_manifest)
        if warn and check_manifest and self.verdict.state == manifest.ABSENT:
            warnings.warn(manifest.unverified([self.path]), stacklevel=2)
        self.description: ContextJson | None = None
        self.differences: tuple[str, ...] = ()
        with ExitStack() as stack:
            self.data: mmap.mmap = stack.enter_context(mapped_file(self.path))
            head = heads.check(self.data, str(self.path))
            if shard.json is not None and use_json:
                self.description = context_json.read(shard.json)
            try:
                library = system_library_of(head, given=given, on_step=on_step)
                self.info: BinaryInfo = self._described(library, trusted=self.verdict.good or not guarded)
                self.source = BINARY
            except ToolMissing:
                if self.description is None:
                    raise
                self.info, self.source = self.description.info, JSON
            if self.source == BINARY and self.description is not None:
                self.differences = compare(self.description, self.info)
                too_small(self.description, self.info, self.path)
            self._stack = stack.pop_all()

    def _described(self, library: Path, *, trusted: bool) -> BinaryInfo:
        if trusted:
            return system.binary_info(library, self.data, name=str(self.path))
        return file_info(library, self.path)

    def __repr__(self) -> str:
        graphs = ", ".join(graph.name for graph in self.info.graphs)
        return f"<StoredContext {self.path} ({self.verdict.state} manifest): {graphs or 'no graphs'}>"

    def check_open(self) -> None:
        """Raise after it was closed."""
        if self.data.closed:
            raise RunFailed(f"{self.path} is closed", hint="open it again: StoredContext(path)")

    def close(self) -> None:
        """Unmap the file."""
        self._stack.close()


def _verdict(path: Path, check: bool) -> ManifestCheck:
    head_of(path)  # raises unless it is a context binary
    if not check:
        return ManifestCheck(manifest.ABSENT, "its manifest was not checked")
    verdict = manifest.check(path)
    verdict.refuse()
    return verdict


def system_library_of(
    head: heads.Head, *, given: Path | None = None, on_step: Callable[[str], None] = lambda _line: None
) -> Path:
    """The libQnnSystem.so for a binary with this head: the given one, Qualcomm's, or the emulator's."""
    if given is not None:
        library = given / "libQnnSystem.so" if given.is_dir() else given
        if not library.is_file():
            raise ToolMissing(f"there is no QNN system library at {library}", hint="give the path of libQnnSystem.so")
        return library
    if head.emulator:
        backend = by_number(head.backend_id)
        if backend is None or backend.emulator is None:
            raise RunFailed(
                f"the emulator has no backend of number {head.backend_id}",
                hint="copy the file again from its source: it may be damaged",
            )
        return find_runtime(backend.id, runtime="emulator", on_step=on_step).system
    missing = None
    for name in backends.RUNTIMES:
        try:
            library = find_runtime(name, runtime="real").system
        except ToolMissing as problem:
            missing = missing or problem
            continue
        if library.is_file():
            return library
    raise missing or ToolMissing("there is no libQnnSystem.so beside the QNN runtime", hint="set QNN_SDK_ROOT")
