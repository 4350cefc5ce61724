"""soaking.py BACKEND KIND EXECUTIONS: executes and registers, and reports how memory and open files grow."""

from __future__ import annotations

import gc
import os
import sys
import threading

from tests.contexts.stepping import SHAPE, array, binary, open_runtime
from udogen import RunFailed
from udogen.qnn.handles import ION
from udogen.runtime import Buffer, Context

THREADS, CONTEXTS, STEPS = 4, 3, 10


def resident() -> int:
    """Return the bytes of this process that are resident in memory."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Soak:
    """The threads, and the errors that occur in them."""

    def __init__(self, contexts: list[Context]) -> None:
        self.contexts = contexts
        self.wrong: list[str] = []

    def work(self, number: int, times: int) -> None:
        """Execute all contexts in turn: called, bound, and called again."""
        x, following = array(number), array(0)
        for turn in range(times):
            step = self.contexts[(number + turn) % CONTEXTS].graph("step")
            state = array(turn % 1000)
            found = step({"state": state, "x": x}, out={"next": following})["next"]
            if found[0, 0, 0] != number + turn % 1000:
                self.wrong.append(f"{number} {turn}")

    def tenth(self, times: int) -> None:
        """Run a tenth of all executions, then registrations."""
        threads = [threading.Thread(target=self.work, args=(number, times)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            self.register()
            thread.join()

    def register(self) -> None:
        """Register memory with each context and release it; a backend without registration raises an error."""
        for context in self.contexts:
            with Buffer("memfd", 4096, name="soak") as buffer:
                try:
                    context.registrations.register(buffer, how=ION, dtype="FLOAT_32", shape=SHAPE, offset=0)
                except RunFailed:
                    assert not context.runtime.emulator


def main(backend: str, kind: str, executions: int) -> None:
    """Run ten tenths."""
    blob = binary(backend, kind)
    with open_runtime(backend, kind) as runtime:
        contexts = [runtime.restore(blob) for _ in range(CONTEXTS)]
        soak = Soak(contexts)
        done = 0
        for _ in range(STEPS):
            times = -(-executions // STEPS // THREADS)
            soak.tenth(times)
            done += times * THREADS
            gc.collect()
            print(f"soak {done} {resident()} {len(os.listdir('/proc/self/fd'))}", flush=True)
    assert not soak.wrong, soak.wrong[:10]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
