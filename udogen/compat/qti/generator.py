"""What others use of the vendor's generator: configs are parsed, and tell the names of packages and of their ops.

The surface is the one that ExecuTorch 1.4 to 1.5.1 uses (backends/qualcomm/custom_op/interface.py), and nothing is
guessed beyond it: whatever else is asked for is an error that says so.  The ops are udogen's own model.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from udogen.opdef.problems import ConfigError, Problem, render, source_lines

if TYPE_CHECKING:
    from udogen.opdef.model import Op, OpPackage

Paths = Sequence["str | os.PathLike[str]"]


class ConfigRefused(ConfigError):
    """A config that cannot be used; as text it is all that is wrong, for it ends in a traceback that is not ours."""

    def __str__(self) -> str:
        return "\n".join([self.message, *map(_shown, self.problems)])


@dataclass(frozen=True)
class OperatorInfo:
    """One op of a package."""

    type_name: str
    model: Op  # all that its config says, as udogen has it

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
    """Reads configs; generating is what `udogen generate` does."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self.package_infos: list[PackageInfo] = []

    def parse_config(self, config_paths: Paths) -> None:
        """Read XML or JSON configs, beside those that were read before; ops of one package name go together."""
        from udogen.configs.load import load

        given = [config_paths] if isinstance(config_paths, str) else config_paths  # a text is a sequence, of letters
        paths = [*self._paths, *(os.fspath(each) for each in given)]
        try:
            packages, problems = load(paths)
        except ConfigError as fault:
            raise ConfigRefused(fault.problems) from None
        _warn(problems.warnings)
        self._paths = paths
        self.package_infos = [_info(each) for each in packages]

    def __getattr__(self, name: str) -> NoReturn:
        _unknown("generator", name)


def _info(package: OpPackage) -> PackageInfo:
    return PackageInfo(package.name, tuple(OperatorInfo(op.name, op) for op in package.ops), package)


def _warn(problems: Iterable[Problem]) -> None:
    for problem in problems:
        logging.getLogger("udogen.compat.qti").warning("%s", _shown(problem))


def _shown(problem: Problem) -> str:
    return render(problem, source_lines(problem.location.file))


def _unknown(what: str, name: str) -> NoReturn:
    if name.startswith("__"):  # Python itself looks for what a class may have
        raise AttributeError(name)
    raise AttributeError(
        f"udogen's {what} has no `{name}`: it answers to what ExecuTorch uses of qti.aisw.op_package_generator; "
        f"for more, put $QNN_SDK_ROOT/lib/python on PYTHONPATH, or read `.model`"
    )
