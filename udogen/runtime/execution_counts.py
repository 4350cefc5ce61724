"""Proof that kernels ran: a runtime may execute another op of the same name without an error.

Generated packages count the executions of each op (templates/qnn/shared/support/Executions.hpp); the counts are read
in the process that executes the ops.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from udogen.backends.backend import PROVIDER
from udogen.errors import RunFailed, VerificationFailed
from udogen.runtime.arguments import PathArgument
from udogen.runtime.library import interface_providers
from udogen.runtime.worker.loaded_package import LoadedPackage

VARIABLE = "UDOGEN_PROVE"  # the file to which a package appends its counts when it ends in another process
_UNKNOWN = (1 << 64) - 1
# What a package counts -> singular and plural.
_WORDS = {
    "executions": ("execution", "executions"),
    "calls": ("kernel call", "kernel calls"),
    "nodes": ("node made", "nodes made"),  # the GPU backend runs the kernels of a node itself
}
_OTHERS = ("count", "counts")


class NotExecuted(VerificationFailed):
    """A graph ran, but the package's kernel of an op in it did not: `except NotExecuted as error: print(error)`."""

    kind = "not-executed"


class NoCounter(RunFailed):
    """A package does not count its executions: `except NoCounter as error: print(error)`."""

    kind = "no-counter"


class Rise(NamedTuple):
    """A count before the graph was made, when it was ready, and after its executions."""

    before: int
    ready: int
    after: int

    @property
    def total(self) -> int:
        """The increase from first to last."""
        return self.after - self.before


@dataclass(frozen=True)
class Proof:
    """The counts of a package while a graph with one of its ops was made and executed.

    `print(result.proof.sentence)`
    """

    package: str
    op: str
    counted: str  # executions; calls (HTP: one for each tile and slice); nodes (GPU: when the graph is made)
    loops: int
    of_op: Rise
    of_package: Rise  # of all its ops

    @property
    def executed(self) -> bool:
        """Whether the kernel, or the ops with which a rewrite of the package replaced it, ran in each execution."""
        if self.of_op.ready > self.of_op.before:  # while the graph was prepared
            return True
        return self.of_package.after - self.of_package.ready >= self.loops

    @property
    def sentence(self) -> str:
        """The proof as a sentence."""
        if self.counted == "calls" and self.of_op.ready > self.of_op.before and self.of_op.after == self.of_op.ready:
            why = "its own rewrite replaced the node, or HTP computed it as a constant"
            others = amount(self.of_package.after - self.of_package.ready, self.counted)
            return f"{self.op}: taken by {self.package} when the graph was prepared: {why}; then {others} of its ops"
        if not self.of_op.total and self.of_package.total:
            words = amount(self.of_package.total, self.counted)
            return f"{self.op}: its node became other ops of {self.package}, {words}"
        return (
            f"{self.op}: {amount(self.of_op.total, self.counted)} in {self.package} "
            f"({self.of_op.before} before, {self.of_op.after} after)"
        )

    def check(self) -> None:
        """Raise if the kernel was not executed."""
        if self.executed:
            return
        raised = self.of_package.after - self.of_package.ready
        what = f"only {amount(raised, self.counted)}" if raised else f"no {one(self.counted)}"
        raise NotExecuted(
            f"op `{self.op}` was not executed by package {self.package}: the graph ran "
            f"{'once' if self.loops == 1 else f'{self.loops} times'}, and the package counted {what}",
            hint=HINT,
        )

    def as_json(self) -> dict[str, Any]:
        """The proof as `--json` prints it."""
        return {
            "package": self.package,
            "op": self.op,
            "counted": self.counted,
            "executed": self.executed,
            **self.of_op._asdict(),
            "count": self.of_op.total,
        }


HINT = (
    "the runtime took another op of that name, such as its own, or a rewrite of the package replaced it: look at the "
    "nodes' package in the graph"
)


def one(counted: str) -> str:
    """The singular of what is counted: `execution`."""
    return _WORDS.get(counted, _OTHERS)[0]


def amount(number: int, counted: str) -> str:
    """A count with its unit: `3 executions`."""
    return f"{number:,} {_WORDS.get(counted, _OTHERS)[number != 1]}"


class Counters:
    """The counters of an op package that is loaded in this process."""

    def __init__(self, count: Any, counted: Any) -> None:
        count.argtypes, count.restype = [ctypes.c_char_p], ctypes.c_uint64
        counted.argtypes, counted.restype = [], ctypes.c_char_p
        self._count = count
        self.counted: str = (counted() or b"").decode("utf-8", "replace")

    def of(self, op: str) -> int:
        """How often this op was executed; 0 for an unknown op."""
        number = int(self._count(op.encode()))
        return 0 if number == _UNKNOWN else number

    def total(self) -> int:
        """How often all ops of the package together were executed."""
        return int(self._count(None))


def counters_of(library: Path | str, provider: str) -> Counters | None:
    """The counters of a library that this process has loaded, or None; OSError if it is not loaded."""

    name = provider.removesuffix(PROVIDER)
    loaded = ctypes.CDLL(str(library), mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
    try:
        return Counters(loaded[f"{name}Executions"], loaded[f"{name}Counted"])
    except AttributeError:
        return None


def no_counter(library: Path | str) -> NoCounter:
    """The error for a package without counters."""
    return NoCounter(
        f"the op package {library} does not count its executions: it was built by an older udogen, or is not udogen's",
        hint="run `udogen generate` again, which keeps your kernels, then `udogen build`",
    )


def proved(proof: Proof | None, library: Path) -> None:
    """Raise unless the proof shows that the kernel was executed; None: the package has no counter."""
    if proof is None:
        raise no_counter(library)
    proof.check()


class CountedPackage(NamedTuple):
    """An op package that is loaded in this process, and counts its executions."""

    name: str
    ops: tuple[str, ...]
    counters: Counters

    def counts(self) -> dict[str, int]:
        """Op -> executions since the library was loaded."""
        return {op: self.counters.of(op) for op in self.ops}

    def rows(self, before: Mapping[str, int]) -> list[dict[str, Any]]:
        """The increase for each op, as `--json` prints it."""
        now = self.counts()
        return [
            {"package": self.name, "op": op, "counted": self.counters.counted, "count": now[op] - before[op]}
            for op in self.ops
        ]


def counted_package(library: Path | str, provider: str = "") -> CountedPackage:
    """The counters of a package with its ops; raises `NoCounter` if it has none or is not loaded."""

    provider = provider or next(iter(interface_providers(Path(library))), "")
    try:
        counters = counters_of(library, provider)
    except OSError as fault:
        raise NoCounter(
            f"the op package {library} is not loaded in this process, so its counts cannot be read",
            hint=f"if it runs in another process, set {VARIABLE}=FILE there",
        ) from fault
    if counters is None:
        raise no_counter(library)
    name, ops = LoadedPackage(str(library), provider).info()
    return CountedPackage(name, tuple(ops), counters)


def executions(library: PathArgument, provider: str = "") -> Mapping[str, int]:
    """How often each op of a package was executed in this process, since its library was loaded.

    On HTP the calls of its kernels are counted, one for each tile and slice; on GPU the nodes of graphs that were made
    of its kernels.  `provider` is its interface provider, needed if it exports several.

    `executions("libPackage.so")["LeakyRelu"]`
    """
    return counted_package(Path(library), provider).counts()


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], int]:
    """The sums of rows of several runs: (package, op, what is counted) -> count."""
    sums: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = (row["package"], row["op"], row["counted"])
        sums[key] = sums.get(key, 0) + row["count"]
    return sums


def sentences(sums: Mapping[tuple[str, str, str], int]) -> list[str]:
    """A line for each op."""
    return [
        f"{op}: {amount(count, counted) if count else f'no {one(counted)}'} in {package}"
        for (package, op, counted), count in sums.items()
    ]


def unproved(sums: Mapping[tuple[str, str, str], int]) -> NotExecuted | None:
    """The error that names packages none of whose ops were executed; None if all were used."""
    totals: dict[str, int] = {}
    for (package, _, _), count in sums.items():
        totals[package] = totals.get(package, 0) + count
    idle = [package for package, count in totals.items() if not count]
    if not idle:
        return None
    return NotExecuted(
        f"no op of {' and '.join(f'package {name}' for name in idle)} was executed, although the graphs ran",
        hint=f"the graphs have no node of it, or {HINT}",
    )
