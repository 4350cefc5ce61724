"""The file of a context binary, and its manifest: `forward_0.bin.udogen.json` next to `forward_0.bin`.

HTP does not notice flipped bytes in a binary.  The checksum protects against accidents (an interrupted copy, a disk, a
file of another build with the same name), not against attackers.  XXH3 takes 0.11 s for 1 GB (0.08 s for reading),
SHA-256 takes 0.67 s and BLAKE2b 1.3 s, on a processor with SHA instructions.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from udogen.errors import RunFailed, UsageError, open_plain, replace_file
from udogen.qnn import abi

SUFFIX = ".udogen.json"
_FORMAT = 1
_CHUNK = 1 << 20  # bytes read at once; mapped pages would count as memory of this process
_CHUNK_UNMAPPED = 16 << 20
_MOST = 1 << 20  # maximum bytes of a manifest

ABSENT, MATCHES, DIFFERS, BROKEN = "absent", "matches", "differs", "broken"


class Manifest(NamedTuple):
    """Size and checksum of a binary when it was written."""

    file: str
    size: int
    algorithm: str
    digest: str
    build_id: str = ""  # of the runtime that wrote it


class ManifestCheck(NamedTuple):
    """The result of comparing a binary with its manifest: ABSENT, MATCHES, DIFFERS or BROKEN, and a message."""

    state: str
    message: str
    manifest: Manifest | None = None

    @property
    def good(self) -> bool:
        """Whether the file matches its manifest."""
        return self.state == MATCHES

    def refuse(self) -> None:
        """Raise `RunFailed` if the file differs or the manifest is broken."""
        if self.state in (DIFFERS, BROKEN):
            raise RunFailed(self.message, hint=_HINTS[self.state])


_HINTS = {
    DIFFERS: "copy or make the binary again; if it is meant to be this one, write its checksums again: "
    "udogen inspect FILE.bin --write-manifest",
    BROKEN: "remove it, or write it again: udogen inspect FILE.bin --write-manifest",
}


def path_of(binary: Path) -> Path:
    """The path of a binary's manifest."""
    return binary.with_name(binary.name + SUFFIX)


def save(binary: Path, data: Any, *, build_id: str = "") -> Manifest:
    """Write a context binary and its manifest, each atomically."""
    path_of(binary).unlink(missing_ok=True)  # if this is interrupted, an old manifest would not match
    write_atomically(binary, data)
    return write(binary, build_id=build_id)


def write(binary: Path, *, build_id: str = "") -> Manifest:
    """Write the manifest of an existing binary."""
    size, digest = _measured(binary, _ALGORITHM)
    manifest = Manifest(binary.name, size, _ALGORITHM, digest, build_id)
    text = json.dumps({"udogen_manifest": _FORMAT, **manifest._asdict()}, indent=2) + "\n"
    write_atomically(path_of(binary), text.encode())
    return manifest


def check(binary: Path) -> ManifestCheck:
    """Compare a binary with the manifest next to it."""
    beside = path_of(binary)
    try:
        manifest = _read(beside)
    except FileNotFoundError:
        return ManifestCheck(ABSENT, f"there is no {beside.name} beside {binary.name}: its bytes cannot be verified")
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else str(fault)
        return ManifestCheck(BROKEN, f"the manifest {beside} cannot be used: {why}")
    try:
        return _compared(binary, beside, manifest)
    except OSError as fault:
        raise RunFailed(
            f"the context binary {binary} cannot be read: {fault.strerror}",
            hint="give a file that exists and can be read",
        ) from fault


def _compared(binary: Path, beside: Path, manifest: Manifest) -> ManifestCheck:
    size = binary.stat().st_size
    if size != manifest.size:
        message = f"{binary} is not the file that {beside.name} describes: it has {size} bytes, not {manifest.size}"
        return ManifestCheck(DIFFERS, message, manifest)
    size, digest = _measured(binary, manifest.algorithm)
    if digest != manifest.digest:
        message = (
            f"{binary} is not the file that {beside.name} describes: its {manifest.algorithm} is {digest}, "
            f"not {manifest.digest}, though it has as many bytes"
        )
        return ManifestCheck(DIFFERS, message, manifest)
    return ManifestCheck(MATCHES, f"{binary.name} matches {beside.name} ({manifest.algorithm} {digest})", manifest)


def unverified(binaries: Sequence[Path]) -> str:
    """A warning about binaries without a manifest; empty if all have one."""
    bare = [binary for binary in binaries if not path_of(binary).exists()]
    if not bare:
        return ""
    more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
    return (
        f"{bare[0]}{more} cannot be verified: no manifest is beside {'them' if more else 'it'}, and runtimes do not "
        "notice changed bytes; `udogen inspect FILE --write-manifest` writes one for a file that you trust"
    )


def write_atomically(path: Path, data: Any) -> None:
    """Write a file atomically."""
    if path.exists() and not path.is_file():
        raise RunFailed(f"{path} cannot be written: not a regular file", hint="choose another name")
    try:
        replace_file(path, data)
    except OSError as fault:
        raise RunFailed(
            f"{path} cannot be written: {fault.strerror}",
            hint="choose an existing, writable folder with enough space",
        ) from fault


def _read(path: Path) -> Manifest:
    with open_plain(path) as file:
        data = file.read(_MOST)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict) or document.get("udogen_manifest") != _FORMAT:
        raise ValueError(f"it is not a manifest of version {_FORMAT}")
    manifest = Manifest(**{key: document.get(key, "") for key in Manifest._fields})
    if not all(isinstance(value, int if key == "size" else str) for key, value in manifest._asdict().items()):
        raise ValueError("its values are not of their types")
    if manifest.algorithm not in _ALGORITHMS:
        raise ValueError(f"its checksum is of the kind `{manifest.algorithm[:40]}`; known are {', '.join(_ALGORITHMS)}")
    return manifest


def _measured(path: Path, algorithm: str) -> tuple[int, str]:
    """The size and the digest of a file, read through one small buffer."""
    state, chunk = _ALGORITHMS[algorithm](), bytearray(_CHUNK)
    view, size = memoryview(chunk), 0
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while count := file.readinto(chunk):
            state.update(view[:count])  # releases the interpreter's lock
            size += count
    return size, state.hexdigest()


def _xxh3() -> Any:
    import xxhash  # only needed for manifests

    return xxhash.xxh3_128()


def _sha256() -> Any:
    import hashlib

    return hashlib.sha256()


_ALGORITHM = "xxh3_128"
_ALGORITHMS: dict[str, Callable[[], Any]] = {_ALGORITHM: _xxh3, "sha256": _sha256}


@contextmanager
def mapped_file(path: Path) -> Iterator[mmap.mmap]:
    """Map a file for reading; it is unmapped at the end of `with`, or with the last reference to its memory.

    A large file is unmapped in a thread, which takes 40 ms for 1 GB.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as problem:
        raise RunFailed(
            f"{path} cannot be read: {problem.strerror}", hint="give the path of a context binary"
        ) from problem
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            raise RunFailed(f"{path} is not a file", hint="give the path of a context binary")
        if state.st_size == 0:
            raise RunFailed(
                f"{path} is empty", hint="write the context binary again: writing it seems to have been interrupted"
            )
        memory = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    finally:
        os.close(fd)
    try:
        yield memory
    finally:
        if len(memory) <= _CHUNK_UNMAPPED:
            _close(memory)
        else:
            threading.Thread(target=_unmap, args=(memory,)).start()


def _close(memory: mmap.mmap) -> None:
    with suppress(BufferError):  # the traceback of an error may refer to it; it is unmapped with that
        memory.close()


def _unmap(memory: mmap.mmap) -> None:
    """Unmap a file, after releasing its pages in parts, so that threads that allocate do not wait for all of it."""
    view = abi.ffi().from_buffer(memory)
    start, madvise = int(abi.ffi().cast("uintptr_t", view)), ctypes.CDLL(None).madvise
    for offset in range(0, len(memory), _CHUNK_UNMAPPED):
        size = min(_CHUNK_UNMAPPED, len(memory) - offset)
        madvise(ctypes.c_void_p(start + offset), ctypes.c_size_t(size), mmap.MADV_DONTNEED)
    abi.ffi().release(view)
    _close(memory)


def flat_view(binary: Any) -> Any:
    """A context binary in memory as flat bytes, without copying."""
    hint = "give the path of a context binary (a str or a Path), or its bytes"
    try:
        view = memoryview(binary)
    except ValueError as problem:  # a mapping that was closed
        raise UsageError(f"the context binary cannot be read: {problem}", hint=hint) from problem
    if not view.c_contiguous:
        raise UsageError("the context binary is not contiguous in its memory", hint=hint)
    return binary if view.format in ("B", "b", "c") and view.ndim == 1 else view.cast("B")
