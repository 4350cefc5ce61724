"""Commands for the worker in which ONNX Runtime runs, and its replies (see `udogen.runtime.channel`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


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
