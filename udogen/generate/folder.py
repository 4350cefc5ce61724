"""A package folder that is open for writing: locked, and without access to files outside of it.

Every path is walked from a descriptor of the folder, directory by directory, without following links.  The folder
itself and those above it may be links.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from udogen.build.package import BACKUP, MEMORY, Say, no_say, open_locked
from udogen.errors import UsageError, open_plain

_HINT = "choose another folder with -o"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WAITING = ".udogen-tmp"  # a file that is being written; one per folder, as only one process writes


class PackageFolder:
    """A package folder, or a new one; see `opened`."""

    def __init__(self, path: Path, log: Say) -> None:
        self.path = path
        self._log = log
        self._descriptor: int | None = None
        self._below: dict[str, int] = {}  # descriptors of folders in it; see `close_below`
        self._made: list[Path] = []  # folders that were created for the lock

    def open(self, *, shared: bool = False) -> None:
        """Create the folder if it is missing, and lock it; waits for other calls of udogen."""
        self._refuse_file_above()
        while self._descriptor is None:
            with self._usable("look into" if shared else "write into"):
                if not shared:
                    self._make()
                try:
                    self._descriptor = open_locked(self.path, shared=shared, say=self._log)
                except FileNotFoundError:
                    if shared:
                        return

    def close(self) -> None:
        """Unlock the folder; remove folders that were created and are still empty."""
        if self._descriptor is None:
            return
        try:
            with suppress(OSError):  # not empty
                for folder in self._made:
                    folder.rmdir()
        finally:
            self.close_below()
            os.close(self._descriptor)
            self._descriptor = None

    def close_below(self) -> None:
        """Close the descriptors of folders in it, which are kept open so that each folder is walked only once."""
        for descriptor in self._below.values():
            os.close(descriptor)
        self._below.clear()

    def same_as(self, other: Path) -> bool:
        """Whether another path leads to this folder."""
        try:
            return self._descriptor is not None and os.path.samestat(os.fstat(self._descriptor), other.stat())
        except OSError:
            return False

    def is_new(self) -> bool:
        """Whether it did not exist before."""
        return self.path in self._made

    def move_to_backup(self, to: Path) -> None:
        """Move the folder with its content, and continue with an empty one."""
        empty = self.path.with_name(f".{self.path.name}{_WAITING}")
        self.close_below()
        with self.writing():
            self._made = [self.path]
            empty.mkdir(exist_ok=True)
            locked = open_locked(empty, shared=False)  # before other processes find it
        try:
            self.path.rename(to)
            empty.rename(self.path)
        except OSError as fault:
            os.close(locked)
            empty.rmdir()
            raise UsageError(
                f"cannot move {self.path} aside: {fault.strerror}", hint=f"move it yourself, or {_HINT}"
            ) from fault
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = locked

    def read(self, path: str) -> bytes | None:
        """The content of a file, or None.  The user's files may be links, those in `.udogen` may not."""
        try:
            parent, name = self._parent(path)
            if path.startswith(f"{MEMORY}/"):
                self._refuse_link(parent, name, path)
            with open_plain(name, at=parent) as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as fault:
            raise UsageError(f"cannot read {self.path / path}: {fault.strerror}", hint="move it away") from fault

    def exists(self, path: str) -> bool:
        """Whether this name exists, even as a broken link."""
        try:
            return _has(*self._parent(path))
        except FileNotFoundError:
            return False

    def refuse_link(self, path: str) -> None:
        """Raise if this is a link: writing would replace it."""
        with suppress(FileNotFoundError):
            self._refuse_link(*self._parent(path), path)

    def put(self, path: str, content: bytes) -> None:
        """Write a file atomically, if it differs."""
        parent, name = self._parent(path, make=True)
        if self._refuse_link(parent, name, path) and self.read(path) == content:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            waiting = os.open(_WAITING, flags, 0o666, dir_fd=parent)
        except FileExistsError:  # left by a call that was killed
            os.unlink(_WAITING, dir_fd=parent)
            waiting = os.open(_WAITING, flags, 0o666, dir_fd=parent)
        try:
            with open(waiting, "wb") as file:
                file.write(content)
            os.replace(_WAITING, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(_WAITING, dir_fd=parent)
            raise

    def move(self, path: str, to: str) -> None:
        """Rename a file, replacing an existing one."""
        parent, name = self._parent(path)
        parent_to, name_to = self._parent(to, make=True)
        os.replace(name, name_to, src_dir_fd=parent, dst_dir_fd=parent_to)

    def remove(self, path: str) -> None:
        """Remove a file or a link, and folders that become empty."""
        with suppress(FileNotFoundError):
            parent, name = self._parent(path)
            os.unlink(name, dir_fd=parent)
        self._prune(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder of `.udogen` with its content; links are removed, not followed."""
        with suppress(FileNotFoundError):
            top, _ = self._parent(f"{path}/.")
            for _, folders, files, parent in os.fwalk(".", topdown=False, dir_fd=top):
                for name in files:
                    os.unlink(name, dir_fd=parent)
                for name in folders:
                    try:
                        os.rmdir(name, dir_fd=parent)
                    except NotADirectoryError:  # a link to a folder
                        os.unlink(name, dir_fd=parent)
            self.close_below()
            parent, name = self._parent(path)
            os.rmdir(name, dir_fd=parent)

    def sweep(self, path: str) -> None:
        """Remove what a killed call left while it was writing this file."""
        with suppress(FileNotFoundError):
            parent, _ = self._parent(path)
            os.unlink(_WAITING, dir_fd=parent)

    def _parent(self, path: str, *, make: bool = False) -> tuple[int, str]:
        """A descriptor of a file's folder, and the file's name."""
        above, _, name = path.rpartition("/")
        if self._descriptor is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not above:
            return self._descriptor, name
        if above not in self._below:
            parent, folder = self._parent(above, make=make)
            try:
                if make and not _has(parent, folder):
                    os.mkdir(folder, dir_fd=parent)
                self._below[above] = os.open(folder, _DIRECTORY, dir_fd=parent)
            except NotADirectoryError as fault:
                self._refuse_link(parent, folder, above)
                raise UsageError(
                    f"{self.path / above} is not a folder, but {path} must be in it",
                    hint="move it away, and generate again",
                ) from fault
        return self._below[above], name

    def _refuse_link(self, parent: int, name: str, path: str) -> bool:
        """Whether the path exists; raises if it is a link."""
        try:
            target = os.readlink(name, dir_fd=parent)
        except OSError as fault:
            if fault.errno in (errno.EINVAL, errno.ENOENT):  # not a link, or missing
                return fault.errno == errno.EINVAL
            raise
        raise UsageError(
            f"{self.path / path} is a link to {target}: udogen neither follows nor replaces links in a package",
            hint="replace the link by the file or folder, or remove it; the package folder itself may be a link",
        )

    def _prune(self, path: str) -> None:
        with suppress(OSError):  # not empty
            while "/" in path:
                path = path.rpartition("/")[0]
                parent, name = self._parent(path)
                os.rmdir(name, dir_fd=parent)
                self.close_below()

    def _make(self) -> None:
        missing = []
        for folder in (self.path, *self.path.parents):
            if os.path.lexists(folder):
                break
            missing.append(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        self._made = [*missing, *self._made]

    def _refuse_file_above(self) -> None:
        with self._usable("look into"):
            above = (folder for folder in (self.path, *self.path.parents) if folder.exists() and not folder.is_dir())
            file = next(above, None)
        if file is not None:
            raise UsageError(f"{file} is a file, not a folder", hint=_HINT)

    @contextmanager
    def _usable(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            raise UsageError(f"cannot {verb} {self.path}: {fault.strerror}", hint=_HINT) from fault

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A context for writing into the folder: system errors become user errors."""
        with self._usable("write into"):
            yield
        self.close_below()


def _has(parent: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def opened(
    path: Path, *, shared: bool = False, may_be_file: bool = False, log: Say = no_say
) -> Iterator[PackageFolder]:
    """A folder, open and locked; `shared`: only for reading, and not created.

    `may_be_file`: the path may be a file, which will be moved aside.
    """
    folder = PackageFolder(path, log)
    try:
        if not (may_be_file and os.path.lexists(path) and not path.is_dir()):
            folder.open(shared=shared)
        yield folder
    finally:
        folder.close()


def free_backup_name(folder: Path) -> Path:
    """A free name for moving this folder aside: `<name>.bak-1` …"""
    for number in count(1):
        backup = folder.with_name(f"{folder.name}{BACKUP}{number}")
        if not os.path.lexists(backup):
            return backup
    raise AssertionError("numbers do not end")
