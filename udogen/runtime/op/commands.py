"""Commands for the worker in which ops run, and its answers (see `udogen.runtime.channel`)."""

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
    delivers: tuple[str, ...] | None  # data types that the runtime hands to custom ops; None: all
    poison: int  # the byte that memory of the heap holds when it is allocated
    built_for: str  # the SDK that the package is tied to; empty where it is not checked
    log_level: int
    runtime_log_level: int


@dataclass(frozen=True)
class PackageOpened:
    """What the package and the runtime are."""

    package: OpPackageInfo
    runtime: RuntimeInfo


@dataclass(frozen=True)
class RunOp:
    """Run one op in a graph of its own, made now or restored from a context binary."""

    call: OpCall
    watch: Watch


@dataclass(frozen=True)
class OpRan:
    """What came of it; times in seconds."""

    outputs: tuple[Any, ...]
    create: float
    finalize: float
    samples: tuple[float, ...]  # of the executions
    execute: float  # their median
    heap: HeapUse | None
    counted: str  # what the package counts; empty where it does not
    counts: tuple[tuple[int, int], ...]  # of the op and of all ops: before, when the graph was ready, after
    context: bytes | None


@dataclass(frozen=True)
class PrepareOp:
    """Make a graph of the op, and execute nothing."""

    call: OpCall


@dataclass(frozen=True)
class OpPrepared:
    """Its context binary, and what that has."""

    context: bytes
    graph: GraphInfo


@dataclass(frozen=True)
class RepeatOp:
    """Execute a graph of the op many times, and make and free as many graphs."""

    call: OpCall
    executions: int
    cycles: int


@dataclass(frozen=True)
class HeapShot:
    """What is in use after some turns."""

    heap: HeapUse
    files: int  # that are open


@dataclass(frozen=True)
class Growth:
    """Shots after some turns to warm up, after half of the others, and at the end."""

    times: int
    shots: tuple[HeapShot, ...]


@dataclass(frozen=True)
class OpRepeated:
    """What the op left behind."""

    executions: Growth
    cycles: Growth


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
