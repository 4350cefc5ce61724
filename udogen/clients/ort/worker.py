"""The worker in which ONNX Runtime runs models of cases: what an op does to its process ends here."""

from __future__ import annotations

import gc
import hashlib
import tempfile
import time
from pathlib import Path
from typing import Any

from udogen.build import elf
from udogen.clients.ort import open_session, versions
from udogen.clients.ort.commands import (
    ArrayRow,
    ModelRan,
    NetworkRan,
    OpenOrt,
    OrtOpened,
    RunModel,
    RunNetwork,
)
from udogen.runtime import execution_counts, failures
from udogen.runtime.channel import Done, Quit
from udogen.runtime.worker.serving import Commands, Parent, serve


class OrtWorker:
    """ONNX Runtime with one package, and the session of the last model."""

    def __init__(self, parent: Parent) -> None:
        self._phase = parent.phase
        self._folder = tempfile.TemporaryDirectory(prefix="udogen-ort-cases-")
        self._session: Any = None
        self._key = b""

    def commands(self) -> Commands:
        """What it can be asked."""
        return {OpenOrt: self.open, RunModel: self.run, RunNetwork: self.run_network, Quit: self.quit}

    def open(self, command: OpenOrt) -> OrtOpened:
        """Import ONNX Runtime, and find Qualcomm's backend."""
        self._phase("import ONNX Runtime")
        versions.check(command.backend)
        library = open_session.backend_library(command.backend)
        builds = elf.sdk_releases(library)
        name = f"{versions.text()} with {library.name}"
        return OrtOpened(name, builds[-1] if builds else "", versions.text(), str(library))

    def run(self, command: RunModel) -> ModelRan:
        """Execute a model so many times; the counts are those of the package, before and after."""
        import numpy as np

        key = hashlib.sha256(command.model).digest()
        library, provider = command.library, command.provider
        before = _counts(library, provider, command.op) if key == self._key else None
        if before is None:
            self._drop()
            before = _counts(library, provider, command.op)
            self._phase("make the session")
            path = Path(self._folder.name, "case.onnx")
            path.write_bytes(command.model)
            self._session = self._opened(path, command)
            self._key = key
        feeds = {row.name: np.frombuffer(row.data.data, row.dtype).reshape(row.shape) for row in command.inputs}
        ready = _counts(library, provider, command.op)
        self._phase("execute")
        try:
            for _ in range(command.loops):
                found = self._session.run(list(command.outputs), feeds)
        except Exception as fault:  # of pybind11, by kind
            self._drop()
            raise failures.OpFailed(
                f"op `{command.op}` failed when ONNX Runtime executed it: {' '.join(str(fault).split())[:300]}",
                hint="see the kernel: its return value is passed on as it is",
            ) from fault
        rows = zip(command.outputs, map(np.ascontiguousarray, found), strict=True)
        return ModelRan(
            tuple(ArrayRow(name, str(each.dtype), each.shape, each) for name, each in rows),
            counters.counted if (counters := _counters(library, provider)) else "",
            (before, ready, _counts(library, provider, command.op)),
        )

    def run_network(self, command: RunNetwork) -> NetworkRan:
        """Execute a whole model; its custom nodes are on QNN, in their packages, or it is an error."""
        import numpy as np

        self._drop()
        self._phase("make the session")
        made = open_session.session(command.model, command.packages, backend=command.backend)
        samples, seconds = [], []
        for rows in command.samples:
            feeds = {row.name: np.frombuffer(row.data.data, row.dtype).reshape(row.shape) for row in rows}
            self._phase("execute")
            began = time.perf_counter()
            try:
                found = made.run(list(command.outputs), feeds)
            except Exception as fault:  # of pybind11, by kind
                raise failures.OpFailed(
                    f"ONNX Runtime could not execute {command.model.name}: {' '.join(str(fault).split())[:300]}",
                    hint="`udogen run op` with the shapes and parameters of a node shows more",
                ) from fault
            seconds.append(time.perf_counter() - began)
            outputs = zip(command.outputs, map(np.ascontiguousarray, found), strict=True)
            samples.append(tuple(ArrayRow(name, str(each.dtype), each.shape, each) for name, each in outputs))
        return NetworkRan(tuple(samples), tuple(seconds), open_session.nodes_elsewhere(made))

    def _opened(self, path: Path, command: RunModel) -> Any:
        try:
            return open_session.session(path, [command.library], backend=command.backend, ops=[command.op])
        except (open_session.NotPlaced, open_session.SessionFailed) as fault:
            if not fault.refused:
                raise
            raise failures.OpRefused(fault.message, hint=fault.hint, details=fault.details) from fault

    def quit(self, _command: Quit) -> Done:
        """End the sessions."""
        self._phase("end the sessions")
        self._drop()
        self._folder.cleanup()
        return Done()

    def _drop(self) -> None:
        self._session, self._key = None, b""
        gc.collect()  # what it registered is freed before it is registered again


def _counters(library: Path, provider: str) -> execution_counts.Counters | None:
    try:
        return execution_counts.counters_of(library, provider)
    except OSError:  # no session has loaded it, or the last one that did is gone
        return None


def _counts(library: Path, provider: str, op: str) -> tuple[int, int]:
    """How often the package executed this op, and all its ops."""
    found = _counters(library, provider)
    return (found.of(op), found.total()) if found else (0, 0)


def main() -> None:
    """Run models of cases."""
    serve(lambda parent: OrtWorker(parent).commands())
