"""Flips bits of context binaries and runs them through `udogen run context`: no error may be silent.

    python -m tests.hostile.flip_binaries [--flips 500] [--seed 1]

With a manifest every flip must be refused.  Without one the runtime decides; in any case a warning must have been
printed before, and udogen itself must end properly, with a result for each file.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tests.contexts.storing import GRAPHS, binary
from udogen.runtime.contexts import manifest

_BATCH = 25
_REFUSED, _SAME, _OTHER = "refused or failed", "the same numbers", "other numbers, with a warning"


def main() -> int:
    """Print the figures; return 1 if an error was silent."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--flips", type=int, default=500)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    chance = random.Random(given.seed)
    shares = [(backend, vouched) for backend in ("cpu", "htp") for vouched in (True, False)]
    wrong: list[str] = []
    for number, (backend, vouched) in enumerate(shares):
        count = given.flips * (number + 1) // len(shares) - given.flips * number // len(shares)
        found = flip(backend, count, vouched=vouched, chance=chance, wrong=wrong)
        figures = ", ".join(f"{found[kind]} {kind}" for kind in (_REFUSED, _SAME, _OTHER) if found[kind])
        print(f"{backend}, {'with a' if vouched else 'without'} manifest: {count} flips: {figures}", flush=True)
    print(f"{len(wrong)} silently wrong", *wrong[:10], sep="\n  ")
    return 1 if wrong else 0


def flip(backend: str, count: int, *, vouched: bool, chance: random.Random, wrong: list[str]) -> Counter[str]:
    """Count the results of so many flips; forbidden ones are added to `wrong`."""
    found: Counter[str] = Counter()
    whole = binary(backend, "real")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        inputs = []
        for name, shape in GRAPHS.items():
            stored = np.arange(np.prod(shape)).reshape(shape).astype(np.float32 if backend == "cpu" else np.uint8) + 1
            np.save(root / f"{name}.npy", stored)
            inputs += ["--input", f"{name}:x={root / name}.npy"]
        (root / "whole.bin").write_bytes(whole)
        manifest.write(root / "whole.bin")
        expected = _run(backend, [root / "whole.bin"], inputs, root / "expected", wrong)[0]
        assert expected["ok"], expected
        for begin in range(0, count, _BATCH):
            files = []
            for number in range(begin, min(begin + _BATCH, count)):
                bit = chance.randrange(len(whole) * 8)
                flipped = bytearray(whole)
                flipped[bit // 8] ^= 1 << bit % 8
                file = root / f"flip_{number}_bit_{bit}.bin"
                file.write_bytes(whole)
                if vouched:
                    manifest.write(file)
                file.write_bytes(flipped)
                files.append(file)
            for file, result in zip(files, _run(backend, files, inputs, root / "found", wrong), strict=True):
                kind = _REFUSED if not result["ok"] else _SAME if _numbers(result) == _numbers(expected) else _OTHER
                found[kind] += 1
                if vouched and kind != _REFUSED:
                    wrong.append(f"{backend}: {file.name} ran in spite of its manifest")
                file.unlink()
    return found


def _run(backend: str, files: list[Path], inputs: list[str], out: Path, wrong: list[str]) -> list[dict[str, Any]]:
    """Return the results of `udogen run context --json`, one for each file."""
    argv = [sys.executable, "-m", "udogen", "run", "context", *map(str, files), "--backend", backend, *inputs]
    argv += ["--runtime", "real", "--output-dir", str(out), "--timeout", "30", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
        results: list[dict[str, Any]] = answer["contexts"]
        assert len(results) == len(files) and done.returncode in (0, 5)
    except (ValueError, KeyError, AssertionError):
        wrong.append(f"udogen itself ended with {done.returncode}: {done.stderr[-300:]}{done.stdout[-300:]}")
        return [{"ok": False}] * len(files)
    bare = any(not manifest.path_of(file).is_file() for file in files)
    if bare != ("cannot be verified" in done.stderr and bool(answer["warnings"])):
        wrong.append(f"the warning is {'missing' if bare else 'wrong'} for {files[0].name}")
    return results


def _numbers(result: dict[str, Any]) -> list[Any]:
    return [
        np.load(output["file"]).tobytes()
        for graph in result["graphs"]
        for output in sorted(graph["outputs"], key=lambda each: str(each["name"]))
    ]


if __name__ == "__main__":
    sys.exit(main())
