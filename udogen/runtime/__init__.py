"""The Python API: runtimes, contexts and graphs in this process, memory, sessions; single ops in a child process.

Every name is described in docs/python.md and listed in `__init__.pyi`.  A module is imported when one of its names is
first used: restoring a context does not load what runs ops in a child, and running an op does not load numpy.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

_STUB = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_MODULES = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as", _STUB, re.MULTILINE)}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]


__all__ = sorted(_MODULES)  # noqa: PLE0605  (the stub has them literally)
