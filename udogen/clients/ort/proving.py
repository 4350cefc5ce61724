"""A session whose op packages are asked what they executed: that a node is placed there does not say that it ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from udogen.clients.package import Package
from udogen.runtime import proof
from udogen.runtime.proof import NotExecuted


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

    def __init__(self, session: Any, packages: Sequence[Package]) -> None:
        self._session = session
        found = [(package, proof.counted_package(package.library.file, package.provider)) for package in packages]
        self._counters = {(package.name, op): each.counters for package, each in found for op in package.ops}
        self._at_first = self._counts()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def proof(self) -> tuple[OpProof, ...]:
        """What each custom op of the model has counted since the session was made."""
        return self._since(self._at_first)

    def check(self) -> tuple[OpProof, ...]:
        """The same; raises `NotExecuted` where an op was not executed at all."""
        return _checked(self.proof())

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Around calls of `run`: raises `NotExecuted` at the end, where an op was not executed in between."""
        before = self._counts()
        yield
        _checked(self._since(before))

    def _counts(self) -> dict[tuple[str, str], int]:
        return {key: counters.of(key[1]) for key, counters in self._counters.items()}

    def _since(self, before: Mapping[tuple[str, str], int]) -> tuple[OpProof, ...]:
        return tuple(
            OpProof(*key, self._counters[key].counted, count - before[key]) for key, count in self._counts().items()
        )


def _checked(rows: tuple[OpProof, ...]) -> tuple[OpProof, ...]:
    idle = [row for row in rows if not row.count]
    if not idle:
        return rows
    names = ", ".join(f"{row.op} of package {row.package}" for row in idle)
    raise NotExecuted(
        f"not executed by the session: {names}",
        hint="where `run` was called, QNN took another op than ours: look at the nodes of the graph that it was given",
    )
