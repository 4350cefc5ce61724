"""Helpers for tests of contexts, buffers and sessions."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import udogen
from tests.contexts.adding import binary
from tests.making import LONG, ROOT, need_runtime
from udogen import RunFailed, UdogenError
from udogen.runtime import Runtime
from udogen.runtime.buffers import memory

STAND_INS = Path(__file__).parent / "stand_ins"


def stand_in(folder: Path, source: str, library: str, *flags: str) -> Path:
    """Build a stand-in for a library that only devices have: it behaves like that library, and records its calls."""
    made = folder / library
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", str(made), str(STAND_INS / source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


def resources() -> tuple[list[str], int]:
    """Return the files that this process has open, and the number of its mappings of shared memory."""
    gc.collect()
    opened = []
    for name in os.listdir("/proc/self/fd"):
        try:
            opened.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # the descriptor of the listing itself
            continue
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sorted(opened), sum("memfd:" in line or "/dev/zero" in line for line in maps)


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that all files and mappings that are opened inside it are closed again."""
    before = resources()
    yield
    assert resources() == before


def run_json(verb: str, *arguments: object, code: int = 0) -> dict[str, Any]:
    """Return the output of `udogen run VERB --json`."""
    done = udogen("run", verb, *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def refused(message: str, *, error: type[UdogenError] = RunFailed, hint: str = "") -> Iterator[None]:
    """Check that the body raises this error."""
    with pytest.raises(error) as caught:
        yield
    assert caught.value.message == message
    assert not hint or caught.value.hint == hint


def refuses(call: Callable[[], object], message: str, *, hint: str = "", error: type[UdogenError] = RunFailed) -> None:
    """Check that a call raises this error."""
    with refused(message, error=error, hint=hint):
        call()


@pytest.fixture
def tidy() -> Iterator[None]:
    """Check that the test releases everything."""
    with nothing_left():
        yield


@pytest.fixture(scope="session")
def sharded_llm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`sharded_llm("real")`, `sharded_llm("emulator")`: examples/sharded_llm, built once."""

    @cache
    def build(kind: str) -> Path:
        if kind == "real":
            need_runtime("htp")
        out = tmp_path_factory.mktemp(f"llm-{kind}")
        argv = [sys.executable, ROOT / "examples/sharded_llm/build.py", "--out", out, "--runtime", kind]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG)
        assert done.returncode == 0, done.stderr[-3000:]
        return out

    return build


@pytest.fixture(scope="session")
def rpcmem_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in(tmp_path_factory.mktemp("device"), "cdsprpc.c", "libcdsprpc.so")


@pytest.fixture
def device(rpcmem_library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """A stand-in for libcdsprpc.so, as the library that `rpcmem` finds."""
    monkeypatch.setattr(memory, "open_rpcmem", lambda: memory.Rpcmem(str(rpcmem_library)))
    opened = ctypes.CDLL(str(rpcmem_library))
    opened.stand_in_log.restype = ctypes.c_char_p
    opened.stand_in_forget()
    yield opened
    opened.stand_in_limit(-1)
    opened.stand_in_blind(0)


def lines_of(device: ctypes.CDLL) -> list[str]:
    """The calls that a stand-in recorded."""
    calls: list[str] = device.stand_in_log().decode().splitlines()
    return calls


@pytest.fixture(scope="session")
def htp_log() -> list[str]:
    """The lines that the HTP emulator logs."""
    return []


@pytest.fixture(scope="session")
def htp(htp_log: list[str]) -> Iterator[Runtime]:
    """The HTP emulator in this process: on a PC it is the only runtime that registers shared memory."""
    with Runtime("htp", runtime="emulator", log=lambda _level, text: htp_log.append(text)) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def stored(htp: Runtime) -> bytes:
    """A binary with two graphs, `one` and `two`, that add a row of weights."""
    return binary(htp, "one", "two")
