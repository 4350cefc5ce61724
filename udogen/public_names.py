"""The public names of a package: its `__init__.pyi` imports them, and a module is loaded when one of them is used."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

_IMPORT = re.compile(r"^from (\S+) import (\w+)( as \2)?$", re.MULTILINE)
_OTHER_NAME = re.compile(r"^(\w+) = (\w+)$", re.MULTILINE)


@cache
def _rows(init: str) -> Mapping[str, tuple[str, str]]:
    """Public name -> (module, name in it)."""
    stub = Path(init).with_suffix(".pyi").read_text("utf-8")
    rows = _IMPORT.findall(stub)
    modules = {name: module for module, name, _ in rows}
    renamed = {public: (modules[name], name) for public, name in _OTHER_NAME.findall(stub)}
    return {name: (module, name) for module, name, exported in rows if exported} | renamed


def load(package: str, init: str, name: str) -> object:
    """The value of a public name of the package with this `__init__.py`; for `__all__`, all public names."""
    rows = _rows(init)
    if name == "__all__":
        return sorted(rows)
    if name not in rows:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    from udogen.public_calls import check_classes, checked  # here, because importing a package loads nothing else

    module, own = rows[name]
    loaded = import_module(module)
    # Also the classes of what public functions return, which may be those of modules that this one has imported.
    for each in {each for each, _ in rows.values()} & sys.modules.keys():
        check_classes(sys.modules[each])
    return checked(getattr(loaded, own), name)


def lazy(module: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose public names are loaded when they are used."""

    def attribute(name: str) -> object:
        value = vars(sys.modules[module])[name] = load(module, file, name)
        return value

    def names() -> list[str]:
        return [*vars(sys.modules[module]), *load(module, file, "__all__")]  # type: ignore[misc]

    return attribute, names
