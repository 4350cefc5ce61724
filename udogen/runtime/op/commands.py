"""Commands for the worker that runs ops, and its replies (see `udogen.runtime.channel`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.qnn.system import GraphInfo
from udogen.runtime.library import RuntimeLibrary
from udogen.runtime.op.calls import OpCall, OpPackageInfo, RuntimeInfo
from udogen.runtime.op.watch import HeapUse, Watch


@dataclass(frozen=True)
class OpenPackage:
    """Load a runtime, and register an op package in it."""

    runtime: RuntimeLibrary
    library: Path
    provider: str
    target: str | None
    soc: int
    delivers: tuple[str, ...] | None  # data types that the runtime passes to custom ops; None: all
    poison: int  # the byte that fills new memory of the heap
    built_for: str  # the SDK that the package is tied to; empty: not checked


@dataclass(frozen=True)
class PackageOpened:
    """The package and the runtime."""

    package: OpPackageInfo
    runtime: RuntimeInfo


@dataclass(frozen=True)
class RunOp:
    """Run one op in its own graph, made now or restored from a context binary."""

    call: OpCall
    watch: Watch


@dataclass(frozen=True)
class OpRan:
    """The result; times in seconds."""

    outputs: tuple[Any, ...]
    create: float
    finalize: float
    samples: tuple[float, ...]  # one for each execution
    execute: float  # their median
    heap: HeapUse | None
    counted: str  # what the package counts; empty if it has no counters
    counts: tuple[tuple[int, int], ...]  # (of the op, of all ops) before, when the graph was ready, after
    context: bytes | None


@dataclass(frozen=True)
class PrepareOp:
    """Make a graph of the op without executing it."""

    call: OpCall


@dataclass(frozen=True)
class OpPrepared:
    """Its context binary, and the description of its graph."""

    context: bytes
    graph: GraphInfo


@dataclass(frozen=True)
class RunOpTwice:
    """Execute two graphs of the op: each alone, then both at the same time."""

    call: OpCall
    executions: int
    seconds: float
    loop: Path  # the library that executes them (udogen.build.emulator.build_loop)


@dataclass(frozen=True)
class OpRanTwice:
    """The outputs of both graphs alone, then of both together."""

    outputs: tuple[tuple[Any, ...], ...]
