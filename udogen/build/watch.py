"""What is preloaded into the process in which ops run, to see what a kernel does with memory; compiled on first use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from udogen import resources
from udogen.build import tools
from udogen.build.cached import compile_or_fail, make_once
from udogen.errors import ToolMissing

_NAME = "libUdogenWatch.so"
_FLAGS = ("-O2", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")


def build_watch() -> Path:
    """The library to preload; from the cache, where its sources and compiler are the same."""
    folder = resources.emulator("watch")
    argv = [*_compiler(), *_FLAGS, *(str(source) for source in sorted(folder.glob("*.c"))), "-o", _NAME]
    read = sorted(folder.glob("*.[ch]"))
    key = resources.content_key(*(path.read_bytes() for path in read), *(text.encode() for text in argv))
    room = resources.cache_dir("watch") / key
    make_once(room, lambda into: compile_or_fail(argv, into, "the library that watches the heap"))
    return room / _NAME


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
