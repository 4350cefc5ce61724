"""A session whose op packages are asked what they executed: that a node is placed there does not say that it ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from udogen.clients.package import Package
from udogen.runtime import execution_counts
from udogen.runtime.execution_counts import NotExecuted


@dataclass(frozen=True)
class OpProof:
    """How often one op was executed; `counted` says what that counts (`udogen.runtime.executions`)."""

    package: str
    op: str
    counted: str
    count: int


class ProvingSession:
    """An `InferenceSession`, with all that it has, and the counters of its packages.

    The counters are the process's: where another session has the same package, its executions are among them.
    """

    def __init__(self, session: Any, packages: Sequence[Package], *, stored: bool = False) -> None:
        self._session, self._stored = session, stored
        found = [
            (package, execution_counts.counted_package(package.library.file, package.provider)) for package in packages
        ]
        # A stored context does not tell which of the ops it has.
        self._counters = {
            (package.name, op): each.counters for package, each in found for op in (each.ops if stored else package.ops)
        }
        self._at_first = self._counts()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def proof(self) -> tuple[OpProof, ...]:
        """What each custom op of the model has counted since the session was made."""
        return self._since(self._at_first)

    def check(self) -> tuple[OpProof, ...]:
        """The same; raises `NotExecuted` where an op was not executed at all.

        Where the model is a stored context, only a package of which no op was executed is an error.
        """
        return self._checked(self.proof())

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Around calls of `run`: raises `NotExecuted` at the end, where an op was not executed in between."""
        before = self._counts()
        yield
        self._checked(self._since(before))

    def _counts(self) -> dict[tuple[str, str], int]:
        return {key: counters.of(key[1]) for key, counters in self._counters.items()}

    def _since(self, before: Mapping[tuple[str, str], int]) -> tuple[OpProof, ...]:
        return tuple(
            OpProof(*key, self._counters[key].counted, count - before[key]) for key, count in self._counts().items()
        )

    def _checked(self, rows: tuple[OpProof, ...]) -> tuple[OpProof, ...]:
        active = {row.package for row in rows if row.count and self._stored}
        idle = [row for row in rows if not row.count and row.package not in active]
        if not idle:
            return rows
        names = ", ".join(f"{row.op} of package {row.package}" for row in idle)
        raise NotExecuted(
            f"not executed by the session: {names}",
            hint="where `run` was called, QNN took another op than ours: look at the nodes of the graph it was given",
        )
