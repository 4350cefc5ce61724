"""`qti.aisw.op_package_generator` without Qualcomm's SDK: `from qti.aisw… import QnnOpPackageGenerator` works.

ExecuTorch's `backends.qualcomm.custom_op.interface` imports it to read a package's config.  In your own program:

    import udogen.compat.qti
    udogen.compat.qti.install()

and for an unchanged program: `python -m udogen.compat.qti script.py arguments…`.  The vendor's module is used if it
is on `sys.path`, even if it is added later.

Finders are added at the end of `sys.meta_path`, so that the vendor's module comes first.  `qti` and `qti.aisw` are
namespace packages, created only if they do not exist, so parts of the SDK that are added to `sys.path` later are found
too (ExecuTorch adds its `qti.aisw.converters`).  No folder named `qti` is needed.

The generator has only what ExecuTorch 1.4 to 1.5.1 uses (backends/qualcomm/custom_op/interface.py); using anything
else raises an error that explains this.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, cast

from udogen.findings import ConfigError, Finding, render, source_lines

if TYPE_CHECKING:
    from udogen.opdef.model import Op, OpPackage

__all__ = ["OperatorInfo", "PackageInfo", "QnnOpPackageGenerator", "install"]

PARENTS = ("qti", "qti.aisw")
PACKAGE = "qti.aisw.op_package_generator"
MODULES = (PACKAGE, f"{PACKAGE}.generator")

Paths = Sequence["str | os.PathLike[str]"]
Log = Callable[[str], object]


# --- the generator --------------------------------------------------------------------------------------


class ConfigRefused(ConfigError):
    """A config with errors; its text lists every problem, because it is shown in another program's traceback."""

    def __str__(self) -> str:
        return "\n".join([self.message, *map(_shown, self.findings)])


@dataclass(frozen=True)
class OperatorInfo:
    """One op of a package."""

    type_name: str
    model: Op  # its whole config, as udogen's model

    def __getattr__(self, name: str) -> NoReturn:
        _unknown("operator", name)


@dataclass(frozen=True)
class PackageInfo:
    """One package of the configs."""

    name: str
    operators: tuple[OperatorInfo, ...]
    model: OpPackage

    def __getattr__(self, name: str) -> NoReturn:
        _unknown("package info", name)


class QnnOpPackageGenerator:
    """Reads configs; `udogen generate` generates packages."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self.package_infos: list[PackageInfo] = []

    def parse_config(self, config_paths: Paths) -> None:
        """Read XML or JSON configs, in addition to those read before; ops of one package name are merged."""
        from udogen.configs.load import load

        given = [config_paths] if isinstance(config_paths, str) else config_paths  # a string is a sequence, too
        paths = [*self._paths, *(os.fspath(each) for each in given)]
        try:
            packages, findings = load(paths)
        except ConfigError as fault:
            raise ConfigRefused(fault.findings) from None
        for finding in findings.warnings:
            _logger().warning("%s", _shown(finding))
        self._paths = paths
        self.package_infos = [
            PackageInfo(package.name, tuple(OperatorInfo(op.name, op) for op in package.ops), package)
            for package in packages
        ]

    def __getattr__(self, name: str) -> NoReturn:
        _unknown("generator", name)


def _logger() -> logging.Logger:
    return logging.getLogger("udogen.compat.qti")


def _shown(finding: Finding) -> str:
    return render(finding, source_lines(finding.location.file))


def _unknown(what: str, name: str) -> NoReturn:
    if name.startswith("__"):  # Python itself looks these up
        raise AttributeError(name)
    raise AttributeError(
        f"udogen's {what} has no `{name}`: it has what ExecuTorch uses of qti.aisw.op_package_generator; "
        f"for more, put $QNN_SDK_ROOT/lib/python on PYTHONPATH, or read `.model`"
    )


# --- how it is imported ---------------------------------------------------------------------------------


class _SearchPath:
    """The folders of a namespace package on `sys.path`, searched again at each import."""

    def __init__(self, parents: Callable[[], Iterable[str]], folder: str) -> None:
        self._parents, self._folder = parents, folder

    def __iter__(self) -> Iterator[str]:
        paths = (os.path.join(parent, self._folder) for parent in self._parents())
        return (path for path in paths if os.path.isdir(path))


class _ParentFinder(MetaPathFinder):
    """Finds `qti` and `qti.aisw` if they do not exist."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in PARENTS:
            return None
        spec = ModuleSpec(name, None, is_package=True)  # no loader: a namespace package
        parents = (lambda: sys.path) if path is None else (lambda: path)
        spec.submodule_search_locations = cast(list[str], _SearchPath(parents, name.rpartition(".")[2]))
        return spec


class _GeneratorFinder(MetaPathFinder, Loader):
    """Finds the generator, and puts the classes above into the vendor's modules."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in MODULES:
            return ModuleSpec(name, self, origin=__name__, is_package=name == PACKAGE)
        if name.startswith(f"{PACKAGE}.") and _is_generator(sys.modules.get(PACKAGE)):
            raise ModuleNotFoundError(
                f"no module {name}: {PACKAGE} is udogen's, which has what ExecuTorch uses of it; for more, put "
                "$QNN_SDK_ROOT/lib/python on PYTHONPATH",
                name=name,
            )
        return None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == PACKAGE:
            self._log(f"{PACKAGE} is udogen's")
        else:
            module.__dict__.update(QnnOpPackageGenerator=QnnOpPackageGenerator, PackageInfo=PackageInfo)


def install(*, log: Log = lambda line: _logger().info(line)) -> None:
    """Provide the vendor's modules if they are not installed; `log` gets a line when udogen's are imported."""
    if not any(isinstance(finder, _GeneratorFinder) for finder in sys.meta_path):
        sys.meta_path += [_GeneratorFinder(log), _ParentFinder()]


def _is_generator(module: ModuleType | None) -> bool:
    return module is not None and isinstance(getattr(module.__spec__, "loader", None), _GeneratorFinder)
