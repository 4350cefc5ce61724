"""Which context binaries there are: folders of shards in the order of their numbers, or files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from udogen.errors import UsageError

_BINARY = re.compile(r"forward_(\d+)\.bin")
_JSON = re.compile(r"forward_(\d+)(?:_json)?\.json")


@dataclass(frozen=True)
class Shard:
    """A context binary, and the JSON that describes it, where there is one."""

    binary: Path
    json: Path | None = None
    index: int | None = None  # of forward_<index>.bin

    @property
    def name(self) -> str:
        """What people call it: forward_0."""
        return self.binary.stem


class Shards(NamedTuple):
    """What was found, in the order in which it runs, and what is odd about it."""

    shards: tuple[Shard, ...]
    notes: tuple[str, ...] = ()


def find_shards(paths: Sequence[Path]) -> Shards:
    """The binaries of folders and files; raises `UsageError` with everything that cannot be."""
    faults: list[str] = []
    notes: list[str] = []
    found: list[Shard] = []
    for path in paths:
        if path.is_dir():
            found += _in_folder(path, faults, notes)
        elif path.exists():
            found.append(Shard(path, json_of(path), _index(path)))
        else:
            faults.append(f"there is no file or folder {path}")
    seen: set[Path] = set()
    for shard in found:
        real = shard.binary.resolve()
        if real in seen:
            faults.append(f"{shard.binary} is given twice")
        seen.add(real)
    if faults:
        raise UsageError(
            faults[0] if len(faults) == 1 else f"{len(faults)} things are wrong with the context binaries",
            details=faults if len(faults) > 1 else (),
            hint="give a folder of forward_<i>.bin and forward_<i>_json.json, or files *.bin",
        )
    return Shards(tuple(found), tuple(notes))


def json_of(binary: Path) -> Path | None:
    """The JSON beside a binary: <name>_json.json, or <name>.json."""
    places = (binary.with_name(f"{binary.stem}_json.json"), binary.with_name(f"{binary.stem}.json"))
    return next((place for place in places if place.is_file()), None)


def _in_folder(folder: Path, faults: list[str], notes: list[str]) -> list[Shard]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as fault:
        faults.append(f"the folder {folder} cannot be read: {fault.strerror}")
        return []
    binaries = [each for each in entries if each.suffix == ".bin"]
    for each in binaries:
        if not each.is_file():
            faults.append(f"{each} is {'a link to nothing' if each.is_symlink() else 'no file'}")
    numbered = [each for each in binaries if _BINARY.fullmatch(each.name)]
    if not numbered:
        orphans = [each.name for each in entries if _JSON.fullmatch(each.name)]
        if orphans:
            faults.append(f"{folder} has {_and(orphans)}, but no forward_<i>.bin")
        elif not binaries:
            faults.append(f"{folder} holds no context binary (*.bin)")
        return [Shard(each, json_of(each)) for each in sorted(binaries, key=_naturally)]
    by_index: dict[int, Path] = {}
    for each in numbered:
        index = _index(each)
        assert index is not None
        if index in by_index:
            faults.append(f"{by_index[index].name} and {each.name} in {folder} have one number")
        by_index[index] = each
    _odd(folder, entries, by_index, notes)
    return [Shard(by_index[index], json_of(by_index[index]), index) for index in sorted(by_index)]


def _odd(folder: Path, entries: Iterable[Path], by_index: dict[int, Path], notes: list[str]) -> None:
    """Gaps, descriptions of nothing, and binaries that are not shards."""
    last = max(by_index)
    gaps = [f"forward_{index}.bin" for index in range(min(last, 10_000)) if index not in by_index]
    if gaps:
        notes.append(f"{folder}: {_and(gaps)} {'is' if len(gaps) == 1 else 'are'} missing before {by_index[last].name}")
    for each in entries:
        described = _JSON.fullmatch(each.name)
        if described and int(described[1]) not in by_index:
            notes.append(f"{each} describes forward_{described[1]}.bin, which is not there")
        elif each.suffix == ".bin" and not _BINARY.fullmatch(each.name):
            notes.append(f"{each} is left out: beside forward_<i>.bin other names are no shards")


def _index(path: Path) -> int | None:
    match = _BINARY.fullmatch(path.name)
    return int(match[1]) if match else None


def _naturally(path: Path) -> list[tuple[int, int, str]]:
    """part_2 comes before part_10."""
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _and(names: Sequence[str]) -> str:
    shown = list(names[:8]) + (["…"] if len(names) > 8 else [])
    return ", ".join(shown[:-1]) + (f" and {shown[-1]}" if len(shown) > 1 else shown[-1])
