"""Kills `udogen build` at random moments: no child may survive, and a plain build afterwards makes the right library.

    python -m tests.hostile.kill_build [--kills 100] [--seed 1]

Each round writes another kernel with the time stamp of the first, starts a build, ends it with SIGKILL and
builds again: the library must return the numbers of this round's kernel.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.making import ONE_KERNEL, ONE_OP, ROOT, make_packages
from udogen.runtime import Tensor
from udogen.runtime.built import find_built
from udogen.runtime.ops import OpCall, OpSession

_KERNEL = """\
#include "ops/LeakyRelu.hpp"
namespace ops::LeakyReluPackage::LeakyRelu {
udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.input.size(); ++i) args.output.setReal(i, args.input.real(i) * ROUND);
  return udo::ok;
}
}  // namespace ops::LeakyReluPackage::LeakyRelu
"""
_TURN = "kill_build_turn"  # an environment variable that identifies the processes of a build


def kill(scratch: Path, *, kills: int, chance: random.Random) -> Counter[str]:
    """Kill so many builds; count the results."""
    found: Counter[str] = Counter()
    [made] = make_packages([ONE_OP], scratch, kernels=ONE_KERNEL)
    folder = made.folder
    begun = time.perf_counter()
    _build(folder, 0).communicate()
    longest = time.perf_counter() - begun
    turn = 0
    while found["killed"] < kills:
        turn += 1
        everything = chance.random() < 0.3
        found += _turn(folder, turn, chance.uniform(0.0, longest if everything else longest / 3), everything)
    return found


def main_of(title: str | None, kill: Callable[..., Counter[str]]) -> int:
    """Run the command line: print the figures; return 1 if one of them is bad, which is in capitals."""
    options = argparse.ArgumentParser(description=(title or "").partition("\n")[0])
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = kill(Path(scratch), kills=given.kills, chance=random.Random(given.seed))
    print(", ".join(f"{count} {what}" for what, count in sorted(found.items())))
    return 1 if any(what.isupper() for what in found) else 0


def end(child: subprocess.Popen[str], after: float) -> Counter[str]:
    """End a program with SIGKILL after so many seconds; count whether that was before its own end."""
    try:
        child.wait(after)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
    child.communicate()
    return Counter({"killed": 1} if child.returncode == -signal.SIGKILL else {"at its end before the kill": 1})


def _turn(folder: Path, turn: int, after: float, everything: bool) -> Counter[str]:
    kernel = folder / "src/ops/LeakyRelu.cpp"
    kernel.write_text(_KERNEL.replace("ROUND", f"{turn}.0f"))
    os.utime(kernel, (978307200, 978307200))
    if everything:  # otherwise only one file and the library
        header = folder / "include/udogen.hpp"
        header.write_text(header.read_text() + f"// {turn}\n")
    found = end(_build(folder, turn), after)
    time.sleep(0.2)
    for each in _alive(turn):
        print(f"round {turn}: lives on: {each}")
        found["LIVED ON"] += 1
    again = _build(folder, turn)
    out, err = again.communicate()
    right = again.returncode == 0 and _factor(folder) == turn
    if not right:
        print(f"round {turn}: killed after {after:.2f} s, then wrong: {out}{err}")
    found["right afterwards" if right else "WRONG"] += 1
    return found


def _build(folder: Path, turn: int) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "EXTRA_CXXFLAGS": "-O0", _TURN: f"turn{turn}."}
    argv = [sys.executable, "-m", "udogen", "build", "-C", str(folder), "cpu_x86"]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _alive(turn: int) -> list[str]:
    """Return the command lines of programs that this round's build has started, and that still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mark = f"{_TURN}=turn{turn}.".encode()
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200])
        except OSError:
            pass
    return found


def _factor(folder: Path) -> float:
    """Return the factor of the library."""
    built = find_built(folder, backend="cpu")
    one = np.ones((1, 2), np.float32)
    call = OpCall(
        op_type="LeakyRelu",
        package=built.package,
        inputs=(Tensor("input", "FLOAT_32", (1, 2), data=one),),
        outputs=(Tensor("output", "FLOAT_32", (1, 2)),),
    )
    with OpSession(built.library, built.provider, timeout=60) as session:
        return float(session.run(call).outputs["output"][0, 1])


if __name__ == "__main__":
    sys.exit(main_of(__doc__, kill))
