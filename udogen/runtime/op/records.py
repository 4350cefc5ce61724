"""The kernel records of a QHPI package, read in a child process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from udogen.errors import RunFailed
from udogen.runtime import failures
from udogen.runtime.child import Child, deadline_of
from udogen.runtime.wire import Garbled, Message


class OlderRecords(RunFailed):
    """A package was built with headers whose kernel records a runtime of today reads wrongly."""

    kind = "older-records"


class Records(NamedTuple):
    """What a package registers with HTP: its name, and its ops as the records say (see qnn/qhpi.py)."""

    returned: str  # by qhpi_init
    package: str  # as qhpi_register_ops_v1 was told; empty where it was never called
    ops: tuple[dict[str, Any], ...]


def read_records(library: Path, undefined: Sequence[str], *, timeout: float = 30.0) -> Records:
    """Run `qhpi_init` of a package with a runtime of ours that only listens; raises `RunFailed` where it cannot be.

    `undefined` are the symbols that neither the package nor the libraries it needs have.
    """
    order = {"do": "records", "library": str(library.resolve()), "answered": list(undefined)}
    answer = ask(order, library=str(library), timeout=timeout)
    calls = answer["calls"]
    package = calls[0]["package"] if calls else ""
    return Records(answer["returned"], package, tuple(op for call in calls for op in call["ops"]))


def ask(order: Message, *, library: str, timeout: float, what: str = "the op package") -> Message:
    """Let a child of its own load a library and answer one question about it; raises `RunFailed` where it cannot."""
    child, phase = Child(), failures.START
    deadline = deadline_of(timeout)

    def hear(told: Message) -> None:
        nonlocal phase
        phase = told.get("phase", phase)

    def scene() -> failures.Scene:
        return failures.Scene(library, phase, None, (), child.chatter(), what=what)

    try:
        message, _ = child.ask(order, deadline=deadline, hear=hear)
    except EOFError:
        returncode = child.end(grace=0.5)
        raise failures.of_death(scene(), returncode) from None
    except TimeoutError:
        child.end()
        raise failures.of_timeout(scene(), timeout) from None
    except Garbled as problem:
        child.end()
        raise failures.of_garbled(scene(), str(problem)) from None
    except BaseException:  # Ctrl-C: nothing may be left running
        child.end()
        raise
    child.end()
    if message["event"] == "failed":
        raise failures.of_message(scene(), message)
    return message
