"""udogen: from one description of a custom operation to op packages for every Qualcomm backend.

The Python API of descriptions, packages, tests and errors; `udogen.runtime` has runtimes.  docs/python.md describes
every name, `__init__.pyi` lists them.  A module is imported when one of its names is first used.
"""

from __future__ import annotations

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    from udogen.public_names import load  # `import udogen` is to cost nothing

    found = globals()[name] = load(__name__, __file__, name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__getattr__("__all__")]
