"""The command line in this process, for tests of its output; `tests.making.udogen` starts a process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.making import ROOT
from udogen.cli import main as cli


def udogen(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    main: Callable[[], None] = cli.main,
) -> subprocess.CompletedProcess[str]:
    """Return the exit code and output of one call, without the output of programs that it starts.

    `main` is the entry point of the console script.
    """
    argv = ["udogen", *map(str, arguments)]
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True) for _ in range(2)]
    before = Path.cwd()
    code: object = 0
    with (
        open(os.devnull) as nothing,
        patch.dict(os.environ, env or {}),
        patch.multiple(sys, argv=argv, stdin=nothing, stdout=streams[0], stderr=streams[1]),
        patch.object(cli, "leave_threads"),  # would end this process
    ):
        os.chdir(cwd or ROOT)
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        finally:
            os.chdir(before)
    out, err = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in streams)  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(argv, code if isinstance(code, int) else 0, out, err)


def succeeds(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """The same for a call that must succeed."""
    done = udogen(*arguments, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
