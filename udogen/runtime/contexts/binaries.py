"""A stored context before it is restored: the file mapped, checked, and described by itself and by its JSON.

Where both describe it, the binary counts: it is what the runtime executes.  Differences are named tensor by tensor; a
JSON by which buffers would be too small for the binary is refused.
"""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from udogen.errors import RunFailed, ToolMissing
from udogen.qnn import heads, system
from udogen.qnn.handles import Closing
from udogen.qnn.system import BinaryInfo
from udogen.runtime import arguments
from udogen.runtime.arguments import PathArgument
from udogen.runtime.contexts import binary_info, context_json, manifest
from udogen.runtime.contexts.binaries import Shard, json_of
from udogen.runtime.contexts.context_json import ContextJson, Difference, compare, too_small
from udogen.runtime.contexts.manifest import ManifestCheck, mapped_file
from udogen.runtime.library import BACKENDS, find_runtime

BINARY, JSON = "binary", "json"


class StoredContext(Closing):
    """One context binary, ready to be restored; closed by `with` or `close`.

    `data` is the mapping, `info` what is in it (from `source`: BINARY, or JSON where no system library can be had),
    `verdict` what its manifest says, `description` its JSON and `differences` what the two disagree on.

    A file whose manifest matches is described in this process; of any other, `guarded` decides: True (the default) has
    it read in a child, which takes about 0.15 s and turns a crash of libQnnSystem into an error; False trusts it.
    Of a file without a manifest Python's `warnings` hear, unless `warn` is False.
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
            shard = arguments.path(shard, "the context binary", hint="give the path of a context binary")
            shard = Shard(shard, json_of(shard) if use_json else None)
        if system_library is not None:
            system_library = arguments.path(system_library, "the system library")
        self.shard, self.path, self.name = shard, shard.binary, shard.name
        self.verdict = _verdict(self.path, check_manifest)
        if warn and check_manifest and self.verdict.state == manifest.ABSENT:
            warnings.warn(manifest.unverified([self.path]), stacklevel=2)
        self.description: ContextJson | None = None
        self.differences: tuple[Difference, ...] = ()
        with ExitStack() as stack:
            self.data: mmap.mmap = stack.enter_context(mapped_file(self.path))
            head = heads.check(self.data, str(self.path))
            if shard.json is not None and use_json:
                self.description = context_json.read(shard.json)
            described = None
            try:
                library = system_library_of(head, given=system_library, on_step=on_step)
                described = self._described(library, trusted=self.verdict.good or not guarded)
            except ToolMissing:
                if self.description is None:
                    raise
            if described is not None and self.description is not None:
                self.differences = compare(self.description, described)
                too_small(self.description, described, self.path)
            self.source = BINARY if described is not None else JSON
            found = described or (self.description.info if self.description else None)
            assert found is not None
            self.info: BinaryInfo = found
            self._stack = stack.pop_all()

    def _described(self, library: Path, *, trusted: bool) -> BinaryInfo:
        if trusted:
            return system.binary_info(library, self.data, name=str(self.path))
        return binary_info.file_info(library, self.path)

    def __repr__(self) -> str:
        graphs = ", ".join(each.name for each in self.info.graphs)
        return f"<StoredContext {self.path} ({self.verdict.state} manifest): {graphs or 'no graphs'}>"

    def __enter__(self) -> StoredContext:
        if self.data.closed:
            raise RunFailed(f"{self.path} is closed", hint="open it anew: StoredContext(path)")
        return self

    def close(self) -> None:
        """Unmap the file."""
        self._stack.close()


def _verdict(path: Path, check: bool) -> ManifestCheck:
    binary_info.head_of(path)  # what is no file, or no context binary, is told in these words
    if not check:
        return ManifestCheck(manifest.ABSENT, "its manifest was not looked at")
    verdict = manifest.check(path)
    verdict.refuse()
    return verdict


def system_library_of(
    head: heads.Head, *, given: Path | None = None, on_step: Callable[[str], None] = lambda _line: None
) -> Path:
    """The libQnnSystem.so that reads a binary with this head: the one given, Qualcomm's, or our emulator's."""
    if given is not None:
        found = given / "libQnnSystem.so" if given.is_dir() else given
        if not found.is_file():
            raise ToolMissing(f"there is no QNN system library at {found}", hint="give the path of libQnnSystem.so")
        return found
    if head.emulator:
        backend = system.BACKENDS_BY_ID.get(head.backend_id)
        if backend is None:
            raise RunFailed(f"the emulator has no backend of number {head.backend_id}", hint="the file may be damaged")
        return find_runtime(backend, kind="emulator", on_step=on_step).system
    missing = None
    for backend in BACKENDS:
        try:
            library = find_runtime(backend, kind="real").system
        except ToolMissing as problem:
            missing = missing or problem
            continue
        if library.is_file():
            return library
    raise missing or ToolMissing("there is no libQnnSystem.so beside the QNN runtime", hint="set QNN_SDK_ROOT")
