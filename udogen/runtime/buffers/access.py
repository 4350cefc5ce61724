"""Who uses a piece of memory: any number of readers, or one writer alone; nobody waits, others are refused."""

from __future__ import annotations

import threading

from udogen.errors import RunFailed

_PAIR = "a graph that reads and writes one state needs a pair of buffers"


class Access:
    """The users of one buffer, by what they call themselves."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()  # held by the callers of everything below
        self._readers: list[str] = []
        self._writer = ""

    @property
    def writer(self) -> str:
        """Who is writing it; empty where nobody is."""
        return self._writer

    @property
    def in_use(self) -> bool:
        """Whether anybody is using it."""
        return bool(self._writer or self._readers)

    def read(self, who: str) -> None:
        """Begin to read it."""
        if self._writer:
            raise RunFailed(
                f"buffer `{self.name}` cannot be read as {who}: {self._writer} is writing it",
                hint=f"wait for that execution; {_PAIR}",
            )
        self._readers.append(who)

    def write(self, who: str) -> None:
        """Begin to write it."""
        if self._writer:
            raise RunFailed(
                f"buffer `{self.name}` cannot be written as {who}: {self._writer} is writing it",
                hint="wait for that execution, or give each a buffer of its own",
            )
        if self._readers:
            raise RunFailed(
                f"buffer `{self.name}` cannot be written as {who}: {self._readers[0]} is reading it",
                hint=f"wait for that execution; {_PAIR}",
            )
        self._writer = who

    def end_reading(self, who: str) -> None:
        """One reader has done."""
        self._readers.remove(who)

    def end_writing(self) -> None:
        """The writer has done."""
        self._writer = ""
