"""What udogen compiles on first use and caches: the emulator's backends, and libraries that are preloaded.

A folder of the cache is named by a checksum of its sources, and is complete or absent.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from udogen import backends, process, resources
from udogen.backends.backend import Emulator
from udogen.build import tools
from udogen.errors import BuildFailed, ToolMissing, UsageError


def compile_or_fail(argv: Sequence[str], folder: Path, what: str) -> None:
    """Compile udogen's sources; raises if that fails."""
    launcher = tools.launcher(tools.environment()) if "-c" in argv and "ziglang" not in argv else ()
    done = process.run([*launcher, *argv], cwd=folder, starting=process.Tied)
    if done.returncode != 0:
        printed = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise BuildFailed(f"{what} failed to build", details=printed[:20], hint=f"command: {shlex.join(argv)}")


def make_once(folder: Path, make: Callable[[Path], None]) -> None:
    """Make a folder of the cache atomically, even if other processes do so at the same time."""
    if folder.is_dir():
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(folder.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as fault:
        raise UsageError(
            f"cannot write to {folder.parent}: {fault.strerror}", hint="set XDG_CACHE_HOME to another folder"
        ) from fault
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as scratch:
        made = Path(scratch) / folder.name
        made.mkdir()
        make(made)
        try:
            made.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                shutil.copytree(made, folder)


def announce(title: str, seconds: int) -> None:
    """Print a line, even to a pipe, before a compilation that takes several seconds."""
    if seconds >= 5:
        print(f"  compiling {title}, once: about {seconds} s", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class KeptBuild:
    """A folder of the cache, and the function that compiles its contents."""

    folder: Path
    title: str
    seconds: int  # that compilation takes on two cores of 2.5 GHz
    make: Callable[[Path], None]

    @property
    def is_warm(self) -> bool:
        """True if it is already compiled."""
        return self.folder.is_dir()

    def ready(self) -> Path:
        """The folder; compiles its contents if necessary."""
        if not self.is_warm:
            announce(self.title, self.seconds)
            make_once(self.folder, self.make)
        return self.folder


def kept_build(
    folder: str,
    name: str,
    title: str,
    commands: Sequence[Sequence[object]],  # their sources as a Path
    *,
    headers: Iterable[Path] = (),
    seconds: int,
) -> KeptBuild:
    """How commands of a compiler are kept in a folder of the cache: by their words, and the contents of their files."""
    words = [word for argv in commands for word in argv]
    contents = (word.read_bytes() if isinstance(word, Path) else str(word).encode() for word in (*words, *headers))

    def make(into: Path) -> None:
        for argv in commands:
            compile_or_fail(list(map(str, argv)), into, title)

    key = resources.content_key(*contents)
    return KeptBuild(resources.cache_dir(folder) / f"{name}-{key}", title, seconds, make)


SYSTEM = "libQnnSystem.so"
_SHARED = ("core", "ops")  # folders that every backend needs in addition to its own
_SECONDS = 6  # for one of the three, on two cores: together they take 30 s of CPU time with clang++ 14
_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
_LINK = ("-shared", "-Wl,-z,defs", "-ldl", "-lpthread")


def find(backend: str) -> Emulator:
    """The emulator of a backend."""
    row = backends.ALL[backend].emulator if backend in backends.ALL else None
    if row is None:
        have = ", ".join(each.id for each in backends.ALL.values() if each.emulator)
        raise UsageError(f"the emulator has no `{backend}` backend", hint=f"it has {have}; leave --runtime out")
    return row


def build_backend(backend: str, *, on_step: Callable[[str], None] = lambda _line: None) -> Path:
    """The library of one backend of the emulator, from the cache if its sources and compiler are unchanged."""
    return backend_build(backend, on_step=on_step).ready() / find(backend).library


def backend_build(backend: str, *, on_step: Callable[[str], None] = lambda _line: None) -> KeptBuild:
    """How the library of one backend is built."""
    row = find(backend)
    folders, headers = _folders(backend), resources.qnn_headers()
    sources = sorted(path for folder in folders for path in folder.glob("*.cpp"))
    read = [*sources, *sorted([*(path for folder in folders for path in folder.glob("*.hpp")), *headers.rglob("*.h")])]
    cxx = _compiler()
    tables = row.tables()
    argv = [*cxx, *_FLAGS, "-I.", f"-I{headers}", *(f"-I{folder}" for folder in (folders[0].parent, *folders)), "-c"]
    texts = (*argv, *_LINK, *tables.values())
    key = resources.content_key(*(path.read_bytes() for path in read), *(text.encode() for text in texts))
    folder = resources.cache_dir("emulator") / f"{backend}-{key}"
    what = f"the {backend} emulator"

    def compile_one(folder: Path, into: Path) -> str:
        source = into / f"{folder.name}.cpp"
        source.write_text(unit(folder), "utf-8")
        compile_or_fail([*argv, source.name, "-o", f"{folder.name}.o"], into, what)
        source.unlink()
        on_step(f"CXX {folder.name}")
        return f"{folder.name}.o"

    def make(into: Path) -> None:
        _need_header(cxx, row, into, what)
        for name, text in tables.items():
            (into / name).write_text(text, "utf-8")
        objects = process.at_once([partial(compile_one, folder, into) for folder in folders], os.cpu_count() or 1)
        compile_or_fail([*cxx, *objects, *_LINK, "-o", row.library], into, what)
        (into / SYSTEM).symlink_to(row.library)  # it also describes context binaries
        for file in (*objects, *tables):
            (into / file).unlink()

    return KeptBuild(folder, what, _SECONDS, make)


def unit(folder: Path) -> str:
    """One source that includes all sources of a folder: separately, the headers would take most of the time."""
    return "".join(f'#include "{folder.name}/{source.name}"\n' for source in sorted(folder.glob("*.cpp")))


def steps(backend: str) -> int:
    """How many lines `build_backend` logs if it has to compile."""
    return len(_folders(backend))


def _folders(backend: str) -> list[Path]:
    return [resources.emulator(name) for name in (*_SHARED, backend)]


def _compiler() -> tuple[str, ...]:
    given = tools.environment().x86_cxx
    if given and not tools.missing_program(given):
        return tuple(shlex.split(given))
    return tools.host_compiler("c++", "the emulator is compiled on first use")


def _need_header(cxx: tuple[str, ...], row: Emulator, folder: Path, what: str) -> None:
    if not row.header:
        return
    probe = folder / "probe.cpp"
    probe.write_text(f"#include <{row.header}>\n", "utf-8")
    done = process.run([*cxx, "-fsyntax-only", str(probe)], cwd=folder)
    probe.unlink()
    if done.returncode != 0:
        raise ToolMissing(f"{what} needs the header {row.header}", hint=row.install)


_C_FLAGS = ("-O2", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
WATCH, LOOP = "libUdogenWatch.so", "libUdogenLoop.so"
_C_LIBRARIES = {WATCH: ("heap.c", "fence.c", "faults.c"), LOOP: ("loop.c",)}


def build_watch() -> Path:
    """The library to preload: it interposes the heap, guards copies of tensors, and reports faults."""
    return watch_build().ready() / WATCH


def build_loop() -> Path:
    """The library that executes graphs in several threads."""
    return watch_build().ready() / LOOP


def watch_build() -> KeptBuild:
    """The libraries in C, from the cache if their sources and compiler are unchanged."""
    folder = resources.emulator("watch")
    cc = tools.host_compiler("cc", "the libraries that watch kernels are compiled on first use")
    commands = [
        [*cc, *_C_FLAGS, *(folder / source for source in sources), "-o", name] for name, sources in _C_LIBRARIES.items()
    ]
    title, headers = "libraries that watch kernels and repeat graphs", sorted(folder.glob("*.h"))
    return kept_build("watch", "libraries", title, commands, headers=headers, seconds=4)
