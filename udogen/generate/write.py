"""Rendered files -> a package folder: writes only what changed, atomically, and loses no edits.

`.udogen/` in the package remembers what was generated last: manifest.json has a checksum of every file, which reveals
edits, and `last` has copies of the files that are merged if both sides changed them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from pathlib import PurePosixPath
from typing import NamedTuple

from udogen import __version__
from udogen.backends import vendor
from udogen.backends.plan import Part, Plan, PlannedFile
from udogen.build.package import MANIFEST, MEMORY, UNFINISHED, parse_manifest, read_parts
from udogen.errors import UdogenError, UsageError
from udogen.generate.folder import PackageFolder
from udogen.resources import content_key

_LAST = f"{MEMORY}/last"
_NEXT = f"{MEMORY}/next"


class Change(NamedTuple):
    """What writing does to one file."""

    path: str
    # created, updated, unchanged, kept (the user's), merged, conflict, replaced, removed, orphaned (edited, and no
    # longer generated)
    action: str
    before: bytes | None
    after: bytes | None
    note: str = ""
    beside: str = ""  # for a conflict or a replaced file: the path of the other version

    @property
    def writes(self) -> bool:
        """True if the file on disk changes."""
        return self.before != self.after


class Conflict(UdogenError):
    """Both sides changed the same lines; both versions are kept."""

    exit_code = 2
    kind = "conflict"


class Memory:
    """What was generated last: checksums in the manifest, and copies in `.udogen/last` of the files that are merged.

    Writing begins with copies in `.udogen/next` and `unfinished.json`, which has the new checksum of each file.  After
    an interrupted call, a file with this checksum counts as generated, not as edited.
    """

    def __init__(self, folder: PackageFolder) -> None:
        self._folder = folder
        self._stored = folder.read(MANIFEST)
        self.manifest = parse_manifest(self._stored, folder.path / MANIFEST)
        begun = folder.read(UNFINISHED)
        unfinished = parse_manifest(begun, folder.path / UNFINISHED)
        self.checksums = _checksums(self.manifest)
        self.skeletons = _listed(self.manifest, "skeletons")
        self.mergeable = _listed(self.manifest, "mergeable")
        self._is_unfinished = begun is not None
        self._begun: set[str] = set()
        self._written: set[str] = set()  # of those that the interrupted call began
        self._left: set[str] = set()  # files that are no longer merged
        if unfinished is not None:
            self._resume(unfinished)

    def _resume(self, unfinished: Mapping[str, object]) -> None:
        files, manifest = unfinished.get("files"), unfinished.get("manifest")
        new = manifest if isinstance(manifest, dict) else None
        checksums = _checksums(new)
        begun = {path: row for path, row in (files if isinstance(files, dict) else {}).items() if _is_below(path)}
        self._begun = set(begun)
        self._written = {path for path, row in begun.items() if path in checksums and self._is_written(row)}
        self.checksums |= {path: checksums[path] for path in self._written}
        self.skeletons = self.skeletons - self._written | _listed(new, "skeletons") & self._written
        self.mergeable |= _listed(new, "mergeable")
        self.manifest = self.manifest if new is None else new

    def is_last(self, path: str, content: bytes) -> bool:
        """Whether this content was last generated for this file."""
        return self.checksums.get(path) == content_key(content)

    def last(self, path: str) -> bytes | None:
        """The content that was last generated for this file; None without an exact copy."""
        if path not in self.checksums:
            return None
        content = self._folder.read(f"{_NEXT}/{path}") if path in self._written else None
        content = self._folder.read(f"{_LAST}/{path}") if content is None else content
        return content if content is not None and self.is_last(path, content) else None

    def begin(self, manifest: Mapping[str, object], rendered: Mapping[str, bytes], changes: Sequence[Change]) -> None:
        """Record what will be written, before the first file is written."""
        self.settle()
        if self.manifest is None:
            self._put_manifest({**manifest, "files": {}})
        mergeable, checksums = _listed(manifest, "mergeable"), _checksums(manifest)
        files = {}
        for change in changes:
            new = rendered.get(change.path)
            if new is None:
                continue
            differs = self.checksums.get(change.path) != checksums[change.path]
            if differs or change.writes:
                file, content = change.path, change.after
                if change.action == "conflict":
                    file, content = change.beside, new
                files[change.path] = [file, content_key(content or b"")]
            if change.path in mergeable and (differs or not self._folder.exists(f"{_LAST}/{change.path}")):
                self._folder.put(f"{_NEXT}/{change.path}", new)
                files.setdefault(change.path, [change.path, content_key(new)])
        if files or any(change.writes for change in changes):
            self._folder.put(UNFINISHED, json.dumps({"manifest": manifest, "files": files}).encode())
            self._is_unfinished = True
        self.manifest, self._begun, self._written = dict(manifest), set(files), set(files)
        self._left = self.mergeable - mergeable
        self.mergeable = mergeable

    def finish(self) -> None:
        """Record what was written."""
        for path in self._written:
            with suppress(FileNotFoundError):
                self._folder.move(f"{_NEXT}/{path}", f"{_LAST}/{path}")
        for path in self._left:
            self._folder.remove(f"{_LAST}/{path}")
        self._put_manifest(self.manifest or {})
        if self._is_unfinished:
            self._folder.remove(UNFINISHED)
            self._is_unfinished = False
        if self._folder.exists(_NEXT):
            self._folder.remove_tree(_NEXT)

    def settle(self) -> None:
        """Record what an interrupted call has written, and remove its leftovers."""
        self._folder.sweep(MANIFEST)  # left by a call that was killed before it began
        if self._is_unfinished:
            for path in self._begun:
                self._folder.sweep(path)
            known = {"files": self.checksums, "skeletons": sorted(self.skeletons), "mergeable": sorted(self.mergeable)}
            self.manifest = {**(self.manifest or {}), **known}
            self.finish()
        if self._folder.exists(_NEXT):
            self._folder.remove_tree(_NEXT)

    def _put_manifest(self, manifest: Mapping[str, object]) -> None:
        content = (json.dumps(manifest, indent=2) + "\n").encode()
        if content != self._stored:
            self._folder.put(MANIFEST, content)
            self._stored = content

    def _is_written(self, row: object) -> bool:
        match row:
            case [str(file), str(key)] if _is_below(file):
                content = self._folder.read(file)
                return content is not None and content_key(content) == key
        return False


def compare(folder: PackageFolder, memory: Memory, plan: Plan, rendered: Mapping[str, bytes]) -> list[Change]:
    """The effects of `write`, without writing; raises if `write` would fail."""
    _fits(folder, memory, plan)
    files = {file.path: file for file in plan.files}
    # A kernel that the user gave is not replaced by a skeleton.
    keep = _skeletons(plan) - memory.skeletons
    changes = [_change(folder, memory, files[path], new, keep=path in keep) for path, new in rendered.items()]
    gone = sorted(memory.checksums.keys() - rendered.keys())
    changes += [left for path in gone if (left := _leave(folder, memory, path))]
    for change in changes:
        if change.beside:
            folder.refuse_link(change.beside)
        if change.writes:
            folder.refuse_link(change.path)
    for file in plan.files:
        if file.merges:  # the path of its copy
            folder.refuse_link(f"{_LAST}/{file.path}")
    folder.refuse_link(_NEXT)
    folder.close_below()
    return changes


def all_new(rendered: Mapping[str, bytes]) -> list[Change]:
    """What `write` does in an empty folder."""
    return [Change(path, "created", None, new) for path, new in rendered.items()]


def write(
    folder: PackageFolder, memory: Memory, plan: Plan, rendered: Mapping[str, bytes], changes: Sequence[Change]
) -> None:
    """Carry out `changes`; in a conflict, the generated file is written next to the user's."""
    with folder.writing():
        memory.begin(_manifest(plan, rendered), rendered, changes)
        for change in changes:
            if change.action == "conflict":
                folder.put(change.beside, rendered[change.path])
            elif change.beside:
                folder.put(change.beside, change.before or b"")
            if change.after is None:
                folder.remove(change.path)
            elif change.writes:
                folder.put(change.path, change.after)
        memory.finish()


def diff(changes: list[Change]) -> str:
    """What `write` would change, as a unified diff."""
    import difflib

    out: list[str] = []
    for change in changes:
        if not change.writes:
            continue
        before = (change.before or b"").decode("utf-8", "replace").splitlines(True)
        after = (change.after or b"").decode("utf-8", "replace").splitlines(True)
        old = f"a/{change.path}" if change.before is not None else "/dev/null"
        new = f"b/{change.path}" if change.after is not None else "/dev/null"
        for line in difflib.unified_diff(before, after, old, new):
            out.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(out)


def _fits(folder: PackageFolder, memory: Memory, plan: Plan) -> None:
    """Raise for a folder with files that udogen did not write, or with another package."""
    manifest = memory.manifest
    if manifest is None:
        strangers = [file.path for file in plan.files if folder.exists(file.path)]
        if strangers:
            raise UsageError(
                f"{folder.path} contains files that udogen did not generate: {', '.join(strangers[:3])}"
                + (" …" if len(strangers) > 3 else ""),
                hint="move them away (-f moves the whole folder to <name>.bak-N), or choose another folder with -o",
            )
        return
    if (manifest.get("package"), manifest.get("backend")) != (plan.package, plan.backend):
        raise UsageError(
            f"{folder.path} contains the {manifest.get('backend')} package {manifest.get('package')}, "
            f"not the {plan.backend} package {plan.package}",
            hint="choose another folder with -o",
        )
    before = {part.backend: part.api for part in read_parts(manifest) if part.api}
    for part in plan.parts:
        api = before.get(part.backend, part.api)
        if api != part.api and not _kernels_have_style(folder, part):
            raise UsageError(
                f"{folder.path} is generated for {part.backend.upper()}'s interface `{api}`, not `{part.api}`, "
                "as are your kernels",
                hint=f"choose another folder with -o, or keep the interface with --htp-api {api}",
            )


def _kernels_have_style(folder: PackageFolder, part: Part) -> bool:
    """Whether the folder's kernels were replaced by kernels for the interface of `part`, which allows it to change."""
    kernels = [folder.read(path) for path in part.sources if PurePosixPath(path).parent.name == "ops"]
    return bool(kernels) and all(vendor.style(part.backend, text or b"") == part.api for text in kernels)


def _change(folder: PackageFolder, memory: Memory, file: PlannedFile, new: bytes, *, keep: bool) -> Change:
    path = file.path
    current = folder.read(path)
    if current is None:
        removed = "it was removed" if file.user_owned and path in memory.checksums else ""
        return Change(path, "created", None, new, removed)
    if current == new:
        return Change(path, "unchanged", current, current)
    if memory.is_last(path, current) and not keep:
        return Change(path, "updated", current, new)
    if file.replaces:
        old = next(name for name in _old_names(path) if folder.read(name) in (None, current))
        return Change(path, "replaced", current, new, f"the new kernel has another style; your old one is {old}", old)
    if file.user_owned:
        return Change(path, "kept", current, current, "yours")
    if memory.is_last(path, new):
        waits = f"; {_beside(path)} is still to be merged" if folder.exists(_beside(path)) else ""
        return Change(path, "kept", current, current, f"you edited it, and the generated file is the same{waits}")
    last = memory.last(path) if file.merges else None
    merged = None if last is None else merge(last, new, current)
    if merged is None:
        note = f"the generated one is {_beside(path)}; merge them, then remove it"
        return Change(path, "conflict", current, current, note, _beside(path))
    return Change(path, "merged", current, merged, "your edits and the generated ones")


def _leave(folder: PackageFolder, memory: Memory, path: str) -> Change | None:
    """The removal of a file that is no longer generated, unless the user edited it; None if it is gone."""
    current = folder.read(path)
    if current is None:
        return None
    if memory.is_last(path, current):
        return Change(path, "removed", current, None)
    return Change(path, "orphaned", current, current, "no longer generated; kept, as you edited it")


def _skeletons(plan: Plan) -> set[str]:
    return {file.path for file in plan.files if file.user_owned and file.template}


def _beside(path: str) -> str:
    """The path of a generated file that conflicts with the user's."""
    return f"{path}.udogen-new"


def _old_names(path: str) -> Iterator[str]:
    """Possible paths for the user's version of a file that is replaced."""
    yield f"{path}.udogen-old"
    yield from (f"{path}.udogen-old-{number}" for number in count(2))


def _checksums(manifest: Mapping[str, object] | None) -> dict[str, str]:
    checksums = (manifest or {}).get("files")
    rows = checksums.items() if isinstance(checksums, dict) else ()
    return {path: key for path, key in rows if _is_below(path) and isinstance(key, str)}


def _listed(manifest: Mapping[str, object] | None, key: str) -> set[str]:
    listed = (manifest or {}).get(key)
    return {path for path in listed if isinstance(path, str) and _is_below(path)} if isinstance(listed, list) else set()


def _is_below(path: str) -> bool:
    """Whether a path of a manifest is inside the package: manifests can be edited by hand."""
    return path.isprintable() and not {"..", ".", "", MEMORY} & set(path.split("/"))


def _manifest(plan: Plan, rendered: Mapping[str, bytes]) -> dict[str, object]:
    return {
        "udogen": __version__,
        "package": plan.package,
        "backend": plan.backend,
        "layout": plan.layout,
        "libraries": plan.libraries,
        "configs": list(plan.configs),
        "parts": [asdict(part) for part in plan.parts],
        "files": {path: content_key(rendered[path]) for path in sorted(rendered)},
        "mergeable": sorted(file.path for file in plan.files if file.merges),
        "user_owned": sorted(file.path for file in plan.files if file.user_owned),
        "skeletons": sorted(_skeletons(plan)),
    }


# --- three-way merge ---------------------------------------------------------------------------------------------


def merge(last: bytes, new: bytes, edited: bytes) -> bytes | None:
    """The user's version of a file merged with the new one; None if both changed the same lines."""
    try:
        base, new_lines, theirs = (version.decode("utf-8").splitlines(True) for version in (last, new, edited))
    except UnicodeDecodeError:
        return None
    out: list[str] = []
    at_base = at_new = at_theirs = 0
    for base_from, ours_from, theirs_from, length in _agreements(base, new_lines, theirs):
        chunk_base = base[at_base:base_from]
        chunk_new = new_lines[at_new:ours_from]
        chunk_theirs = theirs[at_theirs:theirs_from]
        if chunk_theirs not in (chunk_new, chunk_base) and chunk_new != chunk_base:
            return None
        out += chunk_theirs if chunk_new == chunk_base else chunk_new
        out += base[base_from : base_from + length]
        at_base, at_new, at_theirs = base_from + length, ours_from + length, theirs_from + length
    return "".join(out).encode("utf-8")


def _agreements(base: list[str], new_lines: list[str], theirs: list[str]) -> list[tuple[int, int, int, int]]:
    """Runs of base lines that both others contain: (base, new_lines, theirs, length), and an empty run at the end."""
    from difflib import SequenceMatcher  # rarely used

    in_new = SequenceMatcher(None, base, new_lines, autojunk=False).get_matching_blocks()
    in_theirs = SequenceMatcher(None, base, theirs, autojunk=False).get_matching_blocks()
    agreements = []
    first = second = 0
    while first < len(in_new) and second < len(in_theirs):
        a, b = in_new[first], in_theirs[second]
        start, end = max(a.a, b.a), min(a.a + a.size, b.a + b.size)
        if start < end:
            agreements.append((start, a.b + start - a.a, b.b + start - b.a, end - start))
        if a.a + a.size <= b.a + b.size:
            first += 1
        else:
            second += 1
    agreements.append((len(base), len(new_lines), len(theirs), 0))
    return agreements
