"""The layout of `qnn-op-package-generator`: one package folder per backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from udogen import backends
from udogen.backends.common import QNN
from udogen.backends.plan import Plan, PlannedFile, Source
from udogen.opdef.model import OpPackage


def plan(by_backend: Mapping[str, OpPackage], source: Source) -> Sequence[Plan]:
    """A plan for each backend of one package."""
    return [_plan(backend, package, source) for backend, package in by_backend.items()]


def _plan(backend: str, package: OpPackage, source: Source) -> Plan:
    made = backends.ALL[backend].contents(package, source, QNN)
    configs = [PlannedFile(f"config/{name}", content=content) for name, content in source.configs.items()]
    return Plan(
        package=package.name,
        backend=backend,
        layout="qnn",
        libraries=backends.ALL[backend].libraries,
        configs=tuple(file.path for file in configs),
        files=tuple(sorted((*made.files, *configs), key=lambda file: file.path)),
        parts=made.parts,
    )
