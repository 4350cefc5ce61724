"""The CPU time of a first use, with an empty home directory and no cache: `python -m tests.bench.first_use`."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.making import ROOT

USES = (("--backend", "cpu"), ("--backend", "cpu,htp"), ())


def seconds(home: Path, *options: str) -> float:
    """Return the CPU seconds of `udogen test` on a copy of an example, including all processes that it starts."""
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    environment.pop("XDG_CACHE_HOME", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "udogen", "test", "softmax", *options]
    subprocess.run(command, cwd=home, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    print("| options of `udogen test examples/softmax` | CPU seconds |\n|---|---|")
    for options in USES:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "examples" / "softmax", Path(folder) / "softmax")
            for again in ("", ", again"):
                title = f"`{' '.join(options)}`" if options else "none"
                print(f"| {title}{again} | {seconds(Path(folder), *options):.0f} |", flush=True)
