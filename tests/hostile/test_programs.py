"""The programs of this folder that change files at random and end processes at random moments, with few tries."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.making import ROOT, need_runtime

PROGRAMS = (
    "fuzz_configs --count 800 --every 100 --compile 3",
    "kill_generate --kills 25",
    "kill_build --kills 12",
    "random_graphs --count 40",
    "random_graphs --count 40 --quantized",
)
# The progress messages of libQnnHtp.so.
_HTP_SAYS = re.compile(r"^((Starting|Completed) stage: .*|=+ DDR .*|\w+_bytes=\d+|)\n", re.MULTILINE)


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_wrong(program: str, print_figures: Callable[[str], None]) -> None:
    for backend in ("cpu", "htp"):
        need_runtime(backend)
    argv = [sys.executable, "-m", *f"tests.hostile.{program}".split()]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    print_figures(_HTP_SAYS.sub("", f"{program}: {done.stdout}"))
    assert done.returncode == 0, done.stdout + done.stderr
