"""What tests of contexts, buffers and sessions have in common."""

from __future__ import annotations

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
from tests.making import LONG, ROOT, need_runtime
from udogen.errors import RunFailed, UdogenError
from udogen.runtime.contexts.runtime import Runtime

STAND_INS = Path(__file__).parent / "stand_ins"


def stand_in(folder: Path, source: str, library: str, *flags: str) -> Path:
    """A library of a device that is not on a PC: one that behaves like it, and writes down what it was asked."""
    made = folder / library
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", str(made), str(STAND_INS / source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


def resources() -> tuple[list[str], int]:
    """The files that this process has open, and how many mappings of shared memory it has."""
    gc.collect()
    opened = []
    for name in os.listdir("/proc/self/fd"):
        try:
            opened.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # the one that lists the folder
            continue
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sorted(opened), sum("memfd:" in line or "/dev/zero" in line for line in maps)


@contextmanager
def nothing_left() -> Iterator[None]:
    """Inside it as many files and mappings are given back as are taken."""
    before = resources()
    yield
    assert resources() == before


def run_json(*arguments: object, code: int = 0) -> dict[str, Any]:
    """What `udogen run context --json` prints."""
    done = udogen("run", "context", *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def refused(message: str, *, error: type[UdogenError] = RunFailed, hint: str = "") -> Iterator[None]:
    """What is inside raises this error."""
    with pytest.raises(error) as caught:
        yield
    assert caught.value.message == message
    assert not hint or caught.value.hint == hint


@pytest.fixture
def tidy() -> Iterator[None]:
    """The test gives everything back."""
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
def htp_log() -> list[str]:
    """The lines that the HTP emulator has logged."""
    return []


@pytest.fixture(scope="session")
def htp(htp_log: list[str]) -> Iterator[Runtime]:
    """The HTP emulator in this process: what registers shared memory is not on a PC otherwise."""
    with Runtime("htp", kind="emulator", log=lambda _level, text: htp_log.append(text)) as runtime:
        yield runtime
