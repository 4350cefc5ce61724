"""Rendered files -> a package folder: only what changed, each file whole or not at all, nothing of the user's lost.

`.udogen/` in the package remembers what was generated last (manifest.json and a copy of every file), so that
regenerating can tell our lines from the user's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from udogen import __version__
from udogen.backends.plan import Plan
from udogen.build.package import MANIFEST, MEMORY, UNFINISHED, parse_manifest, read_parts
from udogen.errors import UdogenError, UsageError
from udogen.generate.folder import Folder
from udogen.resources import content_key

_LAST = f"{MEMORY}/last"
_NEXT = f"{MEMORY}/next"


@dataclass(frozen=True)
class Change:
    """What writing does to one file."""

    path: str
    # created, updated, unchanged, kept (yours), merged, conflict, removed, orphaned (yours, no longer generated)
    action: str
    before: bytes | None
    after: bytes | None
    note: str = ""

    @property
    def writes(self) -> bool:
        """True where the file on disk changes."""
        return self.before != self.after


class Conflict(UdogenError):
    """Both sides changed the same lines; both versions are kept."""

    exit_code = 2
    kind = "conflict"


class Memory:
    """What was generated last, by the manifest and the copies in `.udogen/last`.

    Writing begins with copies in `.udogen/next` and `unfinished.json`, which names each file and what it will be.
    Where a call was interrupted, a file that is so already counts as generated: it is no change of the user's.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.manifest = parse_manifest(folder.read(MANIFEST), folder.path / MANIFEST)
        self.unfinished = parse_manifest(folder.read(UNFINISHED), folder.path / UNFINISHED)
        self.files = _listed(self.manifest, "files")
        self.skeletons = _listed(self.manifest, "skeletons")
        self.written: set[str] = set()  # of those that the interrupted call began
        self.begun: set[str] = set()
        if self.unfinished is not None:
            files = self.unfinished.get("files")
            begun = {path: row for path, row in (files if isinstance(files, dict) else {}).items() if _is_below(path)}
            self.begun = set(begun)
            self.written = {path for path, row in begun.items() if self._is_written(path, row)}
            manifest = self.unfinished.get("manifest")
            new = manifest if isinstance(manifest, dict) else None
            self.files |= self.written
            self.skeletons = self.skeletons - self.written | _listed(new, "skeletons") & self.written
            self.manifest = self.manifest if new is None else new

    def last(self, path: str) -> bytes | None:
        """What was generated last as this file."""
        if path not in self.files:
            return None
        found = self._folder.read(f"{_NEXT}/{path}") if path in self.written else None
        return self._folder.read(f"{_LAST}/{path}") if found is None else found

    def begin(self, manifest: Mapping[str, object], rendered: Mapping[str, bytes], changes: Sequence[Change]) -> None:
        """Before the first file is written: what is going to be written."""
        self.settle()
        if self.manifest is None:
            self._folder.put(MANIFEST, _as_json({**manifest, "files": []}))
        files = {}
        for change in changes:
            new = rendered.get(change.path)
            differs = new is not None and self._folder.read(f"{_LAST}/{change.path}") != new
            if new is not None and (differs or change.writes):
                proof = (_beside(change.path), new) if change.action == "conflict" else (change.path, change.after)
                files[change.path] = [proof[0], content_key(proof[1] or b"")]
            if new is not None and differs:
                self._folder.put(f"{_NEXT}/{change.path}", new)
        if files or any(change.writes for change in changes):
            self._folder.put(UNFINISHED, _as_json({"manifest": manifest, "files": files}))
        self.manifest, self.begun, self.written = dict(manifest), set(files), set(files)

    def finish(self, files: Iterable[str]) -> None:
        """Remember what was written; `files` are all that are generated now."""
        for path in self.written:
            with suppress(FileNotFoundError):
                self._folder.move(f"{_NEXT}/{path}", f"{_LAST}/{path}")
        for path in self.files - set(files):
            self._folder.remove(f"{_LAST}/{path}")
        self._folder.put(MANIFEST, _as_json({**(self.manifest or {}), "files": sorted(files)}))
        self._folder.remove(UNFINISHED)
        self._folder.remove_tree(_NEXT)

    def settle(self) -> None:
        """Remember what a call that was interrupted has written, and remove what it has left."""
        if self.unfinished is not None:
            for path in self.begun:
                self._folder.sweep(path)
            self.manifest = {**(self.manifest or {}), "skeletons": sorted(self.skeletons)}
            self.finish(self.files)
            self.unfinished = None
        self._folder.remove_tree(_NEXT)  # where it had not even begun

    def _is_written(self, path: str, row: object) -> bool:
        match row:
            case [str(proof), str(key)] if _is_below(proof):
                if not self._folder.exists(f"{_NEXT}/{path}"):  # it is in `last` already
                    return True
                found = self._folder.read(proof)
                return found is not None and content_key(found) == key
        return False


def compare(folder: Folder, memory: Memory, plan: Plan, rendered: Mapping[str, bytes]) -> list[Change]:
    """What `write` would do; touches nothing.  Raises where it could not be done."""
    _fits(folder, memory, plan)
    yours = {file.path for file in plan.files if file.yours}
    # A kernel that a person gave is not replaced by a skeleton.
    keep = _skeletons(plan) - memory.skeletons
    changes = [
        _change(folder, path, new, last=memory.last(path), yours=path in yours, keep=path in keep)
        for path, new in rendered.items()
    ]
    changes += [left for path in sorted(memory.files - rendered.keys()) if (left := _leave(folder, memory, path))]
    for change in changes:
        if change.action == "conflict":
            folder.refuse_link(_beside(change.path))
        elif change.writes:
            folder.refuse_link(change.path)
    for path in rendered:  # where copies will be
        folder.refuse_link(f"{_LAST}/{path}")
    folder.refuse_link(_NEXT)
    return changes


def all_new(rendered: Mapping[str, bytes]) -> list[Change]:
    """What `write` does in an empty folder."""
    return [Change(path, "created", None, new) for path, new in rendered.items()]


def write(folder: Folder, plan: Plan, rendered: Mapping[str, bytes], changes: list[Change]) -> None:
    """Carry out `changes`; a conflict leaves the user's file and puts ours beside it."""
    with folder.writing():
        memory = Memory(folder)
        memory.begin(_manifest(plan, files=sorted(rendered)), rendered, changes)
        for change in changes:
            if change.action == "conflict":
                folder.put(_beside(change.path), rendered[change.path])
            elif change.after is None:
                folder.remove(change.path)
            elif change.writes:
                folder.put(change.path, change.after)
        memory.finish(rendered)


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


def _fits(folder: Folder, memory: Memory, plan: Plan) -> None:
    """Refuse a folder that is not ours to write into."""
    manifest = memory.manifest
    if manifest is None:
        strangers = [file.path for file in plan.files if folder.exists(file.path)]
        if strangers:
            raise UsageError(
                f"{folder.path} holds files that udogen did not generate: {', '.join(strangers[:3])}"
                + (" …" if len(strangers) > 3 else ""),
                hint="move them away, or choose another folder with -o; udogen overwrites nothing it did not write",
            )
        return
    if (manifest.get("package"), manifest.get("backend")) != (plan.package, plan.backend):
        raise UsageError(
            f"{folder.path} holds the {manifest.get('backend')} package {manifest.get('package')}, "
            f"not the {plan.backend} package {plan.package}",
            hint="choose another folder with -o",
        )
    before = {part.backend: part.api for part in read_parts(manifest) if part.api}
    for part in plan.parts:
        api = before.get(part.backend, part.api)
        if api != part.api:
            raise UsageError(
                f"{folder.path} is generated for {part.backend.upper()}'s interface `{api}`, not `{part.api}`, "
                "and your kernels are written for it",
                hint=f"choose another folder with -o, or go on with --htp-api {api}",
            )


def _change(folder: Folder, path: str, new: bytes, *, last: bytes | None, yours: bool, keep: bool) -> Change:
    found = folder.read(path)
    if found is None:
        if yours and last is not None:
            return Change(path, "created", None, new, "it had been removed")
        return Change(path, "created", None, new)
    if found == new:
        return Change(path, "unchanged", found, found)
    if found == last and not keep:
        return Change(path, "updated", found, new)
    if yours:
        return Change(path, "kept", found, found, "yours")
    if last == new:
        waits = f"; {_beside(path)} still waits to be merged" if folder.exists(_beside(path)) else ""
        return Change(path, "kept", found, found, f"you changed it, and nothing new was generated{waits}")
    merged, conflict = _merge(last or b"", new, found)
    if conflict:
        return Change(path, "conflict", found, found, f"ours is {_beside(path)}; merge them, then remove it")
    return Change(path, "merged", found, merged, "your changes and ours")


def _merge(last: bytes, new: bytes, found: bytes) -> tuple[bytes, bool]:
    from udogen.generate.merge import merge  # only where the user changed a generated file

    try:
        text, conflict = merge(last.decode("utf-8"), new.decode("utf-8"), found.decode("utf-8"))
    except UnicodeDecodeError:
        return b"", True
    return text.encode("utf-8"), conflict


def _leave(folder: Folder, memory: Memory, path: str) -> Change | None:
    """A file that is no longer generated goes, unless the user changed it; None where it is gone already."""
    found, last = folder.read(path), memory.last(path)
    if found is None:
        return None
    if found == last:
        return Change(path, "removed", found, None)
    return Change(path, "orphaned", found, found, "no longer generated, but you changed it: it stays")


def _skeletons(plan: Plan) -> set[str]:
    return {file.path for file in plan.files if file.yours and file.template}


def _beside(path: str) -> str:
    """Where ours goes when it conflicts with the user's."""
    return f"{path}.udogen-new"


def _listed(manifest: Mapping[str, object] | None, key: str) -> set[str]:
    found = (manifest or {}).get(key)
    return {path for path in found if isinstance(path, str) and _is_below(path)} if isinstance(found, list) else set()


def _is_below(path: str) -> bool:
    """Whether a path leads to a file of the package: a manifest is a file like any other."""
    return path.isprintable() and not {"..", ".", "", MEMORY} & set(path.split("/"))


def _manifest(plan: Plan, *, files: Sequence[str]) -> dict[str, object]:
    return {
        "udogen": __version__,
        "package": plan.package,
        "backend": plan.backend,
        "layout": plan.layout,
        "libraries": plan.libraries,
        "configs": list(plan.configs),
        "parts": [asdict(part) for part in plan.parts],
        "files": list(files),
        "yours": sorted(file.path for file in plan.files if file.yours),
        "skeletons": sorted(_skeletons(plan)),
    }


def _as_json(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
