"""What is preloaded into the process in which ops run, to see what a kernel does with memory; compiled on first use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from udogen import resources
from udogen.build import tools
from udogen.build.cached import compile_or_fail, make_once
from udogen.errors import ToolMissing

_FLAGS = ("-O2", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")


def build_watch() -> Path:
    """The library to preload: it interposes the heap, builds walls around copies of tensors, and tells of faults."""
    return _build("libUdogenWatch.so", "heap.c", "fence.c", "faults.c")


def build_loop() -> Path:
    """The library that executes graphs in several threads at once."""
    return _build("libUdogenLoop.so", "loop.c")


def _build(name: str, *sources: str) -> Path:
    """A library of ours; from the cache, where its sources and compiler are the same."""
    folder = resources.emulator("watch")
    argv = [*_compiler(), *_FLAGS, *(str(folder / source) for source in sources), "-o", name]
    read = [folder / "watch.h", *(folder / source for source in sources)]
    key = resources.content_key(*(path.read_bytes() for path in read), *(text.encode() for text in argv))
    room = resources.cache_dir("watch") / key
    make_once(room, lambda into: compile_or_fail(argv, into, f"{name}, which watches what kernels do,"))
    return room / name


def _compiler() -> Sequence[str]:
    found = next((path for name in ("cc", "gcc", "clang") if (path := tools.program(name))), "")
    if found:
        return (found,)
    zig = tools.zig()
    if not zig:
        raise ToolMissing(
            "there is no C compiler; what watches a kernel's memory is compiled on first use",
            hint="install gcc or clang, or `pip install ziglang`",
        )
    return (*zig, "cc")
