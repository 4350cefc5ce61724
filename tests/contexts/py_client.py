"""The counterpart of client.c in Python: `py_client.py RUNTIME BINARY TENSORS LOOPS OUT [LIBRARY PROVIDER]`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

begin = time.monotonic()

from udogen.backends import RUNTIMES  # noqa: E402
from udogen.runtime import Runtime  # noqa: E402


def status(name: str) -> int:
    """Return a number of /proc/self/status, in kB."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def best(run: Callable[[], object], loops: int) -> float:
    """Return the seconds of one call, in the best of ten rounds."""
    rounds = []
    for _ in range(10 if loops else 0):
        start = time.perf_counter()
        for _ in range(loops):
            run()
        rounds.append((time.perf_counter() - start) / loops)
    return min(rounds, default=-1.0)


def main() -> None:
    library, binary, listed, many, out, *package = sys.argv[1:]
    loops = int(many)
    name = Path(listed).read_text("utf-8").split(maxsplit=1)[0]
    backend = next(each for each in RUNTIMES if each in Path(library).name.lower())
    with Runtime(backend, qnn_lib=Path(library)) as runtime:
        if package:
            runtime.register(Path(package[0]), *package[1:])
        ready = time.monotonic()
        before = status("VmHWM")
        with runtime.restore(Path(binary)) as context:
            graph = context.graph(name)
            restored = time.monotonic()
            arrays = {tensor.name: graph.binding(tensor.name).empty() for tensor in graph.inputs}
            for array in arrays.values():
                array.fill(0)
            results = graph(arrays)
            first = time.monotonic()
            peak = status("VmHWM")
            called = best(lambda: graph(arrays, out=results), loops)
            graph.bind({**arrays, **results})
            measured = {
                "begin": begin,
                "ready": ready,
                "restored": restored,
                "first": first,
                "execute": best(graph.execute, loops),
                "called": called,
                "hwm_before": before,
                "hwm": peak,
                "hwm_end": status("VmHWM"),
            }
    Path(out).write_text(json.dumps(measured), "utf-8")


if __name__ == "__main__":
    main()
