"""Rendered files -> a package folder: only what changed, each file whole or not at all, nothing of the user's lost.

`.udogen/` in the package remembers what was generated last (manifest.json and a copy of every file), so that
regenerating can tell our lines from the user's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from udogen import __version__
from udogen.build.package import MANIFEST, MEMORY, read_manifest, read_parts
from udogen.errors import UdogenError, UsageError, read_plain
from udogen.generate.plan import Plan

_LAST = f"{MEMORY}/last"


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


def compare(folder: Path, plan: Plan, rendered: Mapping[str, bytes]) -> list[Change]:
    """What `write` would do; touches nothing."""
    try:
        _fits(folder, plan)
    except OSError as fault:
        raise UsageError(
            f"cannot look into {folder}: {fault.strerror}", hint="choose another folder with -o"
        ) from fault
    remembered = _remembered(folder)
    yours = {file.path for file in plan.files if file.yours}
    # A kernel that a person gave is not replaced by a skeleton.
    keep = _skeletons(plan) - _listed(folder, "skeletons")
    changes = [
        _change(
            folder,
            path,
            new,
            last=_last(folder, path) if path in remembered else None,
            yours=path in yours,
            keep=path in keep,
        )
        for path, new in rendered.items()
    ]
    changes += [left for path in sorted(remembered - rendered.keys()) if (left := _leave(folder, path))]
    return changes


def all_new(rendered: Mapping[str, bytes]) -> list[Change]:
    """What `write` does in a folder that is not there."""
    return [Change(path, "created", None, new) for path, new in rendered.items()]


def was_generated(folder: Path, path: str) -> bool:
    """Whether this file was among those that were generated last."""
    return path in _remembered(folder)


def write(folder: Path, plan: Plan, rendered: Mapping[str, bytes], changes: list[Change]) -> None:
    """Carry out `changes`; a conflict leaves the user's file and puts ours beside it."""
    try:
        if not (folder / MANIFEST).exists():  # first of all: what is written half can be generated again
            _put(folder / MANIFEST, _manifest(plan, files=()))
        for change in changes:
            target = folder / change.path
            if change.action == "conflict":
                _put(target.with_name(target.name + ".udogen-new"), rendered[change.path])
            elif change.after is None:
                if change.before is not None:
                    target.unlink()
                    _prune(target.parent, folder)
            elif change.writes:
                _put(target, change.after)
        _remember(folder, plan, rendered)
    except OSError as fault:
        raise UsageError(
            f"cannot write into {folder}: {fault.strerror}", hint="choose another folder with -o"
        ) from fault


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


def _fits(folder: Path, plan: Plan) -> None:
    """Refuse a folder that is not ours to write into."""
    file = next((each for each in (folder, *folder.parents) if each.exists() and not each.is_dir()), None)
    if file is not None:
        raise UsageError(f"{file} is a file, so no folder can be there", hint="choose another folder with -o")
    manifest = read_manifest(folder)
    if manifest is None:
        strangers = [path for path in (file.path for file in plan.files) if os.path.lexists(folder / path)]
        if strangers:
            raise UsageError(
                f"{folder} holds files that udogen did not generate: {', '.join(strangers[:3])}"
                + (" …" if len(strangers) > 3 else ""),
                hint="move them away, or choose another folder with -o; udogen overwrites nothing it did not write",
            )
        return
    if (manifest.get("package"), manifest.get("backend")) != (plan.package, plan.backend):
        raise UsageError(
            f"{folder} holds the {manifest.get('backend')} package {manifest.get('package')}, "
            f"not the {plan.backend} package {plan.package}",
            hint="choose another folder with -o",
        )
    old = next((part for part in read_parts(manifest) if part.backend == "htp"), None)
    new = plan.part("htp")
    api = old.api or "qhpi" if old else ""  # packages of older versions do not say it: they all were of the first
    if old and new and api != new.api:
        raise UsageError(
            f"{folder} is generated for HTP's interface `{api}`, not `{new.api}`, and your kernels are written for it",
            hint=f"choose another folder with -o, or go on with --htp-api {api}",
        )


def _change(folder: Path, path: str, new: bytes, *, last: bytes | None, yours: bool, keep: bool) -> Change:
    found = _read(folder / path)
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
        waits = f"; {path}.udogen-new still waits to be merged" if (folder / f"{path}.udogen-new").exists() else ""
        return Change(path, "kept", found, found, f"you changed it, and nothing new was generated{waits}")
    merged, conflict = _merge(last or b"", new, found)
    if conflict:
        return Change(path, "conflict", found, found, f"ours is {path}.udogen-new; merge them, then remove it")
    return Change(path, "merged", found, merged, "your changes and ours")


def _merge(last: bytes, new: bytes, found: bytes) -> tuple[bytes, bool]:
    from udogen.generate.merge import merge  # only where the user changed a generated file

    try:
        text, conflict = merge(last.decode("utf-8"), new.decode("utf-8"), found.decode("utf-8"))
    except UnicodeDecodeError:
        return b"", True
    return text.encode("utf-8"), conflict


def _leave(folder: Path, path: str) -> Change | None:
    """A file that is no longer generated goes, unless the user changed it; None where it is gone already."""
    found, last = _read(folder / path), _last(folder, path)
    if found is None:
        return None
    if found == last:
        return Change(path, "removed", found, None)
    return Change(path, "orphaned", found, found, "no longer generated, but you changed it: it stays")


def _skeletons(plan: Plan) -> set[str]:
    return {file.path for file in plan.files if file.yours and file.template}


def _remembered(folder: Path) -> set[str]:
    return _listed(folder, "files")


def _listed(folder: Path, key: str) -> set[str]:
    found = (read_manifest(folder) or {}).get(key)
    if not isinstance(found, list):
        return set()
    # A manifest is a file like any other: no path in it may lead out of the package.
    return {path for path in found if isinstance(path, str) and path.isprintable() and _is_below(path)}


def _is_below(path: str) -> bool:
    return not {"..", ".", "", MEMORY} & set(path.split("/"))


def _remember(folder: Path, plan: Plan, rendered: Mapping[str, bytes]) -> None:
    for path in _remembered(folder) - rendered.keys():
        gone = folder / _LAST / path
        if gone.is_file():
            gone.unlink()
            _prune(gone.parent, folder)
    for path, content in rendered.items():
        if _last(folder, path) != content:
            _put(folder / _LAST / path, content)
    _put(folder / MANIFEST, _manifest(plan, files=sorted(rendered)))


def _manifest(plan: Plan, *, files: Sequence[str]) -> bytes:
    manifest = {
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
    return (json.dumps(manifest, indent=2) + "\n").encode()


def _read(path: Path) -> bytes | None:
    try:
        return read_plain(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}", hint="move it away") from fault


def _last(folder: Path, path: str) -> bytes | None:
    return _read(folder / _LAST / path)


def _put(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and only where it differs."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        waiting.write_bytes(content)
        os.replace(waiting, path)
    finally:
        waiting.unlink(missing_ok=True)


def _prune(folder: Path, stop: Path) -> None:
    while folder != stop and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
