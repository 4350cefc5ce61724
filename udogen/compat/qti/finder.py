"""How `import qti.aisw.op_package_generator.generator` finds ours: finders at the end of `sys.meta_path`.

At the end, so that the vendor's module wins wherever there is one.  `qti` and `qti.aisw` are made only where nobody has
them, and stay open: a part of the SDK that comes onto `sys.path` later (ExecuTorch puts it there for its
`qti.aisw.converters`) is found in them.  No folder named `qti` is needed, which would hide or be hidden as a whole.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import cast

PARENTS = ("qti", "qti.aisw")
PACKAGE = "qti.aisw.op_package_generator"
MODULES = (PACKAGE, f"{PACKAGE}.generator")
OURS = "udogen.compat.qti.generator"

Tell = Callable[[str], object]


def _log(line: str) -> None:
    logging.getLogger("udogen.compat.qti").info(line)


class _Portions:
    """The folders that a package may have on `sys.path`, looked for anew at each import."""

    def __init__(self, parents: Callable[[], Iterable[str]], folder: str) -> None:
        self._parents, self._folder = parents, folder

    def __iter__(self) -> Iterator[str]:
        paths = (os.path.join(parent, self._folder) for parent in self._parents())
        return (path for path in paths if os.path.isdir(path))


class _Parents(MetaPathFinder):
    """`qti` and `qti.aisw`, which nobody else has."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in PARENTS:
            return None
        spec = ModuleSpec(name, None, is_package=True)  # no loader: a namespace package
        parents = (lambda: sys.path) if path is None else (lambda: path)
        spec.submodule_search_locations = cast(list[str], _Portions(parents, name.rpartition(".")[2]))
        return spec


class _Ours(MetaPathFinder):
    """The generator itself."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in MODULES:
            return ModuleSpec(name, _Loader(self._tell), origin=OURS, is_package=name == PACKAGE)
        if name.startswith(f"{PACKAGE}.") and _is_ours(sys.modules.get(PACKAGE)):
            raise ModuleNotFoundError(
                f"no module {name}: {PACKAGE} is udogen's, which has what ExecuTorch uses of it; for more, put "
                "$QNN_SDK_ROOT/lib/python on PYTHONPATH",
                name=name,
            )
        return None


class _Loader(Loader):
    """Our classes under the vendor's name."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == PACKAGE:
            self._tell(f"{PACKAGE} is udogen's")
            return
        ours = importlib.import_module(OURS)
        module.__dict__.update({name: getattr(ours, name) for name in ("QnnOpPackageGenerator", "PackageInfo")})


def install(*, replace: bool = False, tell: Tell = _log) -> None:
    """From now on the vendor's names find ours where the vendor's own are not there; with `replace`, always.

    `tell` gets a line when ours is really imported.  Called again it changes only which of the two comes first.
    """
    if replace:
        _forget(MODULES)
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, (_Ours, _Parents))]
    sys.meta_path.insert(0 if replace else len(sys.meta_path), _Ours(tell))
    sys.meta_path.append(_Parents())


def uninstall() -> None:
    """Undo `install`, and forget what was imported by it."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, (_Ours, _Parents))]
    _forget([name for name in MODULES if _is_ours(sys.modules.get(name))])
    _forget([name for name in reversed(PARENTS) if _is_open(sys.modules.get(name))])


def _forget(names: Iterable[str]) -> None:
    """Modules are also attributes of what they are in."""
    for name in names:
        sys.modules.pop(name, None)
        above, _, last = name.rpartition(".")
        vars(sys.modules.get(above, ModuleType(""))).pop(last, None)


def _is_ours(module: ModuleType | None) -> bool:
    return module is not None and isinstance(getattr(module.__spec__, "loader", None), _Loader)


def _is_open(module: ModuleType | None) -> bool:
    return module is not None and isinstance(getattr(module, "__path__", None), _Portions)
