"""The worker in which ONNX Runtime runs models, so that a crash of an op ends only the worker."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from udogen.build import elf
from udogen.onnx.ort import open_session, placement, preflight
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
        """Command class -> function."""
        return {OpenOrt: self.open, RunModel: self.run, RunNetwork: self.run_network, Quit: self.quit}

    def open(self, command: OpenOrt) -> OrtOpened:
        """Import ONNX Runtime, and find Qualcomm's backend."""
        self._phase("import ONNX Runtime")
        if watch := getattr(ctypes.CDLL(None), "udogen_watch_faults", None):  # preloaded: a crash names its library
            watch()
        preflight.check_releases(command.backend)
        library = open_session.backend_library(command.backend)
        builds = elf.sdk_releases(library)
        name = f"{preflight.releases()} with {library.name}"
        return OrtOpened(name, builds[-1] if builds else "", preflight.releases(), str(library))

    def run(self, command: RunModel) -> ModelRan:
        """Execute a model `loops` times; the counts are those of the package, before and after."""
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
        ready = _counts(library, provider, command.op)
        hint = "see the kernel: this is its return value"
        try:
            for _ in range(command.loops):
                arrays = self._execute(self._session, command, command.inputs, f"op `{command.op}`", hint)
        except failures.OpFailed:
            self._drop()
            raise
        counters = _counters(library, provider)
        counts = (before, ready, _counts(library, provider, command.op))
        return ModelRan(arrays, counters.counted if counters else "", counts)

    def run_network(self, command: RunNetwork) -> NetworkRan:
        """Execute a whole model; it is an error if a custom node is not on QNN in its package."""
        self._drop()
        self._phase("make the session")
        made, on_qnn, reasons = open_session.placed_session(command.model, command.packages, command.backend)
        samples, seconds = [], []
        hint = "`udogen run op` with the shapes and parameters of a node shows more"
        for rows in command.samples:
            began = time.perf_counter()
            samples.append(self._execute(made, command, rows, command.model.name, hint))
            seconds.append(time.perf_counter() - began)
        elsewhere = placement.nodes_elsewhere(made)
        return NetworkRan(tuple(samples), tuple(seconds), elsewhere, tuple(sorted(on_qnn)), tuple(reasons.items()))

    def _execute(
        self, session: Any, command: RunModel | RunNetwork, inputs: Sequence[ArrayRow], what: str, hint: str
    ) -> tuple[ArrayRow, ...]:
        feeds = {row.name: row.array for row in inputs}
        self._phase("execute")
        try:
            found = session.run(list(command.outputs), feeds)
        except Exception as fault:  # pybind11 raises many kinds
            reason = " ".join(str(fault).split())[:300]
            raise failures.OpFailed(f"{what} failed when ONNX Runtime executed it: {reason}", hint=hint) from fault
        whole = (np.asarray(array, order="C") for array in found)  # ascontiguousarray gives a scalar an axis
        return tuple(ArrayRow.of(*row) for row in zip(command.outputs, whole, strict=True))

    def _opened(self, path: Path, command: RunModel) -> Any:
        try:
            return open_session.session(path, [command.library], backend=command.backend, ops=[command.op])
        except (placement.NotPlaced, placement.SessionFailed) as fault:
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
        gc.collect()  # frees what the session registered, before it is registered again


def _counters(library: Path, provider: str) -> execution_counts.Counters | None:
    try:
        return execution_counts.counters_of(library, provider)
    except OSError:  # no open session has loaded it
        return None


def _counts(library: Path, provider: str, op: str) -> tuple[int, int]:
    """How often the package executed this op, and all its ops."""
    counters = _counters(library, provider)
    return (counters.of(op), counters.total()) if counters else (0, 0)


def main() -> None:
    """Run models of cases."""
    serve(lambda parent: OrtWorker(parent).commands())


@dataclass(frozen=True)
class OpenOrt:
    """Import ONNX Runtime."""

    backend: str


@dataclass(frozen=True)
class OrtOpened:
    """Name and release of ONNX Runtime, and the backend library that its provider loads."""

    name: str
    build_id: str
    version: str
    path: str


@dataclass(frozen=True)
class ArrayRow:
    """An input or an output of a model."""

    name: str
    dtype: str  # numpy's name
    shape: tuple[int, ...]
    data: Any

    @classmethod
    def of(cls, name: str, array: Any) -> ArrayRow:
        """A row that can be sent."""
        return cls(name, str(array.dtype), array.shape, array)

    @property
    def array(self) -> Any:
        """The array of a row that was received."""
        return np.frombuffer(self.data.data, self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class RunModel:
    """Run a model whose nodes all have one op of a package."""

    backend: str
    library: Path
    provider: str
    op: str
    loops: int
    model: bytes
    inputs: tuple[ArrayRow, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class RunNetwork:
    """Run a whole model with some op packages, once for each sample of its inputs."""

    backend: str
    packages: tuple[Path, ...]
    model: Path
    samples: tuple[tuple[ArrayRow, ...], ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class NetworkRan:
    """The outputs for each sample, the seconds that each took, and the placement of the nodes."""

    samples: tuple[tuple[ArrayRow, ...], ...] = ()
    seconds: tuple[float, ...] = (0.0,)
    elsewhere: tuple[str, ...] = ()  # nodes that did not run on QNN
    on_qnn: tuple[str, ...] = ()  # nodes and tensors
    reasons: tuple[tuple[str, str], ...] = ()  # nodes that QNN's provider did not take, and why


@dataclass(frozen=True)
class ModelRan:
    """The outputs, and the package's counts of the op and of all ops: before, when the session was ready, and after."""

    outputs: tuple[ArrayRow, ...]
    counted: str
    counts: tuple[tuple[int, int], ...]
