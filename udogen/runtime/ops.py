"""Single ops in a child process, and packages of SNPE; docs/python.md describes every name, `ops.pyi` lists them."""

from __future__ import annotations

from udogen.public_names import load


def __getattr__(name: str) -> object:
    found = globals()[name] = load(__name__, __file__, name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__getattr__("__all__")]
