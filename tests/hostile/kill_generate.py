"""Kills `udogen generate` at random moments: a plain generate afterwards makes the right tree, with the user's edits.

    python -m tests.hostile.kill_generate [--kills 100] [--seed 1]

Each round uses one of two packages, a new one or one with edits in a kernel, a header and the Makefile; gives the
config more or fewer ops, starts to generate, ends that with SIGKILL, changes the config again and generates again.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.hostile.kill_build import end, main_of
from tests.making import ONE_OP, ROOT, make_packages
from tests.opdef.texts import op

_EDITS = {
    "src/ops/LeakyRelu.cpp": ("add code here", "add code here: my own words"),
    "include/ops/LeakyRelu.hpp": ("#pragma once\n", "#pragma once\n// my own line\n"),
    "Makefile": ("clean: clean_x86", "mine:\n\t@echo mine\nclean: clean_x86"),
}
_PACKAGE = "LeakyReluPackage"


def kill(scratch: Path, *, kills: int, chance: random.Random) -> Counter[str]:
    """Kill so many runs; count the results."""
    config = scratch / "LeakyRelu.xml"
    forms = [_config(count) for count in (0, 3, 6)]
    right: dict[tuple[str, bool], dict[str, bytes]] = {}
    for number, form in enumerate(forms):
        config.write_text(form)
        folder = scratch / f"right{number}"
        make_packages([config], folder)
        right[form, False] = snapshot(folder / _PACKAGE)
        shutil.rmtree(folder)
        config.write_text(forms[1])
        make_packages([config], folder)
        _edit(folder / _PACKAGE)
        config.write_text(form)
        make_packages([config], folder)
        right[form, True] = snapshot(folder / _PACKAGE)
    out = scratch / "out"
    begun = time.perf_counter()
    _generate(config, out).communicate()
    longest = time.perf_counter() - begun
    found: Counter[str] = Counter()
    while found["killed"] < kills:
        edited = chance.random() < 0.7
        shutil.rmtree(out, ignore_errors=True)
        if edited:
            config.write_text(forms[1])
            make_packages([config], out)
            _edit(out / _PACKAGE)
        config.write_text(chance.choice(forms[::2]))
        child = _generate(config, out)
        after = chance.uniform(0.3, 1.1) * longest  # before that Python starts, and nothing is written
        if chance.random() < 0.8:  # at a moment after the first write
            after = chance.uniform(0.0, 0.02)
            while child.poll() is None and not (out / _PACKAGE / ".udogen/next").exists():
                time.sleep(0.0005)
        found += end(child, after)
        found["killed while it wrote"] += (out / _PACKAGE / ".udogen/unfinished.json").exists()
        form = chance.choice(forms)
        config.write_text(form)
        again = _generate(config, out)
        printed = "".join(again.communicate())
        now = snapshot(out / _PACKAGE)
        lost = edited and not all(new.encode() in now.get(path, b"") for path, (_, new) in _EDITS.items())
        wrong = again.returncode != 0 or now != right[form, edited]
        found["LOST" if lost else "WRONG" if wrong else "right afterwards"] += 1
        if lost or wrong:
            differ = [
                path for path in now.keys() | right[form, edited] if now.get(path) != right[form, edited].get(path)
            ]
            print(f"killed after {after:.3f} s, then wrong: {differ[:5]} {printed}")
    return found


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file of a package."""
    files = (each for each in sorted(folder.rglob("*")) if each.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def _config(more: int) -> str:
    ops = "".join(op(name=f"More{number}") for number in range(more))
    return ONE_OP.read_text("utf-8").replace("  </OpDefList>", ops + "  </OpDefList>")


def _edit(package: Path) -> None:
    for path, (old, new) in _EDITS.items():
        text = (package / path).read_text("utf-8")
        assert old in text, path
        (package / path).write_text(text.replace(old, new, 1), "utf-8")


def _generate(config: Path, out: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "udogen", "generate", str(config), "-o", str(out)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


if __name__ == "__main__":
    sys.exit(main_of(__doc__, kill))
