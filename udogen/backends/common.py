"""The files that a backend contributes to a package folder: the part that all backends share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from udogen.backends import architectures, op_tables
from udogen.backends.backend import PROVIDER
from udogen.backends.plan import Part, PlannedFile, Source
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.names import cpp_string

_SHARED = ("makefiles/linux.mk",)
# The support library of a package: a header that kernels and tables include, and one source for each backend.
HEADER, SUPPORT = "include/udogen.hpp", "src/udogen_{backend}.cpp"
_ABOUT_HEADER = """\
// Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
//
// The support library: what kernels and the generated tables include.
#pragma once
"""
_ABOUT_SUPPORT = """\
// Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
//
// The support library: the functions that the runtime calls, and what they need.
#include "udogen.hpp"
"""
# For a kernel in Python: suffix of the folder that `udogen build` compiles it into; the C++ file there that calls it.
KERNEL_FOLDER, KERNEL_INCLUDE = ".halide", "kernel.inc"
MAKEFILE = {"Makefile": "../shared/Makefile.mako"}
FOR_PYTHON = ("shared/Halide.hpp", "shared/Halide.cpp")  # parts of the support library for kernels in Python


class Placement:
    """Where a layout puts the files of a backend; an empty path drops the file.  This class is for the layout qnn."""

    has_cl_files = True  # OpenCL kernels are files, not strings in C++

    def own(self, path: str) -> str:
        """The path of a file of this backend."""
        return path

    def shared(self, path: str) -> str:
        """The path of a file that is the same for all backends."""
        return path

    def forwarding(self) -> tuple[str, ...]:
        """Headers of the layout's documentation, which here only include the support library's."""
        return ()


QNN = Placement()


class Contents(NamedTuple):
    """The files of one backend, and the libraries that are built from them."""

    parts: tuple[Part, ...]
    files: tuple[PlannedFile, ...]


class BackendFolder(NamedTuple):
    """What is specific to the folder of a backend; `{package}` is replaced by the package's name."""

    backend: str
    library: str
    targets: tuple[str, ...]
    headers: tuple[str, ...]  # of QNN
    templates: Mapping[str, str]  # file -> template in the backend's folder of templates/qnn
    copies: tuple[str, ...]  # files copied from that folder
    shared: tuple[str, ...]  # files below templates/qnn/shared
    # The parts of the support library, which are joined in this order: `cpu/X` is templates/qnn/cpu/support/X.
    header: tuple[str, ...]
    support: tuple[str, ...]
    dialect: op_tables.Dialect = op_tables.USUAL
    api: str = ""  # the interface, if the backend has several
    template_folder: str = ""  # if its name is not the backend's
    # File -> template for each op; `{op}` is replaced by its name.
    op_templates: Mapping[str, str] = {"include/ops/{op}.hpp": "../shared/include/ops/Op.hpp.mako"}
    kernel: str = "../shared/src/ops/Op.cpp.mako"  # the skeleton of a kernel
    for_python: tuple[str, ...] = FOR_PYTHON  # parts of the support library for kernels in Python
    hooks: bool = False  # kernels may define `hooks`
    data: Mapping[str, Any] = {}  # additional data for its templates
    view: Callable[[op_tables.OpNames, Op], op_tables.OpNames] = lambda view, _op: view  # extends the view of an op

    @property
    def templates_below(self) -> str:
        """The folder of its templates."""
        return f"qnn/{self.template_folder or self.backend}"


class PackageView(NamedTuple):
    """A package as templates see it."""

    name: str
    literal: str
    provider: str


class HexagonBuild(NamedTuple):
    """A version of Hexagon, as Makefiles name it."""

    name: str
    variable: str  # the suffix of its make variables
    sdk: str
    tools: str
    qurt: str
    usual: bool  # part of the groups of targets


def architectures_of(backend: str) -> list[HexagonBuild]:
    """The versions of Hexagon that a backend runs on."""
    return [
        HexagonBuild(arch.name, arch.variable, arch.releases[0].sdk, arch.releases[0].tools, arch.qurt, arch.open)
        for arch in architectures.of_backend(backend).values()
    ]


def _shared_files(folder: BackendFolder, headers: Sequence[str]) -> list[PlannedFile]:
    """The files that are the same for all backends."""
    files = [PlannedFile(path, copy=f"qnn/shared/{path}") for path in (*_SHARED, *folder.shared, *headers)]
    return files + [PlannedFile(f"include/QNN/{path}", copy=f"headers:{path}") for path in folder.headers]


def _support_files(folder: BackendFolder, ops: Sequence[op_tables.OpNames], *, in_python: bool) -> list[PlannedFile]:
    """The support library; `in_python`: the package has kernels in Python."""
    more = folder.for_python if in_python else ()
    if any(table.type == "OnlyValue" for op in ops for table in op.tables):
        more = ("shared/OnlyValues.cpp", *more)
    headers = (*folder.header, *(part for part in more if part.endswith(".hpp")))
    sources = (*folder.support, *(part for part in more if part.endswith(".cpp")))
    return [
        PlannedFile(HEADER, joined=_parts(headers), head=_ABOUT_HEADER),
        PlannedFile(SUPPORT.format(backend=folder.backend), joined=_parts(sources), head=_ABOUT_SUPPORT),
    ]


def _parts(names: Sequence[str]) -> tuple[str, ...]:
    """The templates of parts of the support library."""
    return tuple(f"qnn/{name.replace('/', '/support/')}" for name in names)


def _placed(own: Sequence[PlannedFile], shared: Sequence[PlannedFile], place: Placement) -> list[PlannedFile]:
    """The files at their paths in the layout, sorted, without those that it drops."""
    files = [file._replace(path=place.own(file.path)) for file in own]
    files += [file._replace(path=place.shared(file.path)) for file in shared]
    return sorted((file for file in files if file.path), key=lambda file: file.path)


def contents(package: OpPackage, source: Source, folder: BackendFolder, place: Placement = QNN) -> Contents:
    """What a backend contributes to the folder of one package."""
    provider = f"{package.name}{PROVIDER}"
    shared = {
        "package": PackageView(package.name, cpp_string(package.name), provider),
        "config": source.label,
    }
    ops = _views(package, folder, place)
    vendor_ops = source.vendor.get(folder.backend, ())
    everything = {
        **shared,
        **folder.data,
        "backend": folder.backend,
        "ops": ops,
        "vendor_ops": [op for op in ops if op.name in vendor_ops],
        "tables": list(chain.from_iterable(op.tables for op in ops)),
        "defaults": list(chain.from_iterable(op.defaults for op in ops)),
    }
    files = [
        PlannedFile(path.format(package=package.name), template=f"{folder.templates_below}/{template}", data=everything)
        for path, template in folder.templates.items()
    ]
    files += [PlannedFile(path, copy=f"{folder.templates_below}/{path}") for path in folder.copies]
    finished = source.kernels.get(folder.backend, {})
    shared_files = _shared_files(folder, source.headers.get(folder.backend, ()))
    files += _support_files(folder, ops, in_python=any(f"{op.name}.py" in finished for op in ops))
    named = {file.path for file in files}
    files += [PlannedFile(path, copy="snpe/forwarding.hpp") for path in place.forwarding() if path not in named]
    everything["sources"] = sorted(file.path for file in (*files, *shared_files) if _is_compiled(file.path))
    for op in ops:
        files += _op_files(op.name, folder, source, {**shared, "op": op, "has_hooks": folder.hooks})
    placed = _placed(files, shared_files, place)
    part = Part(
        backend=folder.backend,
        library=folder.library.format(package=package.name),
        provider=provider,
        ops=tuple(op.name for op in package.ops),
        targets=folder.targets,
        api=folder.api,
        versions=_versions(folder.backend, package),
        sources=tuple(file.path for file in placed if _is_compiled(file.path)),
    )
    return Contents((part,), tuple(placed))


def _views(package: OpPackage, folder: BackendFolder, place: Placement) -> list[op_tables.OpNames]:
    """The ops as templates see them, with paths of the layout."""
    placed = (
        replace(
            view,
            kernel=place.own(view.kernel),
            header=place.own(view.header),
            kernel_text=place.own(f"src/ops/{view.name}.cl"),
        )
        for view in op_tables.ops(package, folder.dialect)
    )
    return [folder.view(*pair) for pair in zip(placed, package.ops, strict=True)]


def _op_files(op: str, folder: BackendFolder, source: Source, data: Mapping[str, Any]) -> list[PlannedFile]:
    """The files of one op: what is generated for it, and its kernel: in Python, finished, or a skeleton."""
    generated = [
        PlannedFile(path.format(op=op), template=f"{folder.templates_below}/{template}", data=data)
        for path, template in folder.op_templates.items()
    ]
    finished = source.kernels.get(folder.backend, {})
    replaces = op in source.restyled.get(folder.backend, ())
    in_python, ready = finished.get(f"{op}.py"), finished.get(op)
    path = f"src/ops/{op}.cpp"
    if in_python is not None:
        names = {**data, "source": f"{op}.py", "include": f"{op}{KERNEL_FOLDER}/{KERNEL_INCLUDE}"}
        calls = PlannedFile(path, template="qnn/shared/src/ops/Op.halide.cpp.mako", data=names)
        kernel = PlannedFile(f"src/ops/{op}.py", content=in_python, user_owned=True, replaces=replaces)
        return [*generated, calls, kernel]
    template = "" if ready is not None else f"{folder.templates_below}/{folder.kernel}"
    if template and op in source.vendor.get(folder.backend, ()):  # a kernel that the package already has
        template = "qnn/shared/src/ops/VendorOp.cpp.mako"
    kernel = PlannedFile(path, template=template, data=data, content=ready, user_owned=True, replaces=replaces)
    return [*generated, kernel]


def _is_compiled(path: str) -> bool:
    """Whether a file is a source of all targets; sources in `makefiles` are only for some."""
    return path.endswith(".cpp") and "makefiles/" not in path


def _versions(backend: str, package: OpPackage) -> tuple[str, ...]:
    """The versions of Hexagon that the config names and this backend runs on."""
    named = {version for op in package.ops for version in op.dsp_archs}
    return tuple(version for version in architectures.of_backend(backend) if version in named)
