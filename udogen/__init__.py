"""udogen generates op packages for every Qualcomm backend from one description of a custom op.

This is the Python API for descriptions, packages, tests and errors; that for runtimes is `udogen.runtime`.
docs/python.md describes every name, `__init__.pyi` lists them.  A module is imported on first use of one of its names.
"""

from __future__ import annotations

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    from udogen.public_names import load  # here, to keep `import udogen` cheap

    value = globals()[name] = load(__name__, __file__, name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__getattr__("__all__")]
