"""What one backend contributes to a package folder: what all backends have in common in saying it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from udogen.backends import architectures, op_tables
from udogen.backends.plan import PROVIDER, Part, PlannedFile, Source
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.names import cpp_string

_SHARED = (
    "makefiles/linux.mk",
    "src/utils/BackendUtils.hpp",
    "src/utils/BackendUtils.cpp",
    "src/utils/Executions.hpp",
    "src/utils/Executions.cpp",
    "src/utils/Values.hpp",
)
# Of a kernel in Python: how the folder ends that `udogen build` compiles it into, and the C++ there that calls it.
KERNEL_FOLDER, KERNEL_INCLUDE = ".halide", "kernel.inc"
# Of backends whose kernels are `udo::Status execute(const Args&)`; each has a BackendTensor.hpp of its own.
VIEWS = "src/utils/CustomOpUtils.hpp"
FOR_PYTHON = ("src/utils/Halide.hpp", "src/utils/Halide.cpp")  # what kernels in Python need


class Placement:
    """Where a layout puts the files of a backend; an empty path drops one.  Here: where the QNN layout has them."""

    has_cl_files = True  # kernels for the GPU are files of their own, not texts in C++

    def own(self, path: str) -> str:
        """Where a file of this backend goes."""
        return path

    def shared(self, path: str) -> str:
        """Where a file goes that is the same for every backend."""
        return path


QNN = Placement()


@dataclass(frozen=True)
class Contents:
    """The files of one backend, and the libraries that are made of them."""

    parts: tuple[Part, ...]
    files: tuple[PlannedFile, ...]


@dataclass(frozen=True)
class BackendFolder:
    """In what the folders of the backends differ; `{package}` is replaced by the package's name."""

    backend: str
    library: str
    targets: tuple[str, ...]
    headers: tuple[str, ...]  # of QNN
    templates: Mapping[str, str]  # file -> template in the backend's folder of templates/qnn
    copies: tuple[str, ...]  # files there
    shared: tuple[str, ...]  # files below templates/qnn/shared
    api: str = ""  # where a backend has several interfaces: which one
    template_folder: str = ""  # where that is not the backend's name
    # File -> template, for each op; `{op}` is replaced by its name.
    op_templates: Mapping[str, str] = field(
        default_factory=lambda: {"include/ops/{op}.hpp": "../shared/include/ops/Op.hpp.mako"}
    )
    kernel: str = "../shared/src/ops/Op.cpp.mako"  # the skeleton of a kernel
    for_python: tuple[str, ...] = FOR_PYTHON  # files below templates/qnn/shared for kernels in Python
    glue: str = ""  # the header between the tables and a kernel
    hooks: bool = False  # whether kernels may define `hooks`
    data: Mapping[str, Any] = field(default_factory=dict)  # more that its templates know
    view: Callable[[op_tables.OpNames, Op], op_tables.OpNames] = lambda view, _op: view  # more that they know of an op


class PackageView(NamedTuple):
    """A package as its templates see it."""

    name: str
    literal: str
    provider: str


class HexagonBuild(NamedTuple):
    """A version of Hexagon, as Makefiles name it."""

    name: str
    variable: str  # how the names of its make variables end
    sdk: str
    tools: str
    qurt: str
    usual: bool  # of the groups of targets; others are made where they are named


def architectures_of(backend: str) -> list[HexagonBuild]:
    """The versions of Hexagon that a backend runs on."""
    return [
        HexagonBuild(arch.name, arch.variable, arch.releases[0].sdk, arch.releases[0].tools, arch.qurt, arch.open)
        for arch in architectures.of_backend(backend).values()
    ]


def _shared_files(folder: BackendFolder, headers: Sequence[str], *, in_python: bool) -> list[PlannedFile]:
    """The files of a folder that are the same for every backend; `in_python`: there are kernels in Python."""
    paths = (*_SHARED, *folder.shared, *(folder.for_python if in_python else ()), *headers)
    files = [PlannedFile(path, copy=f"qnn/shared/{path}") for path in paths]
    return files + [PlannedFile(f"include/QNN/{path}", copy=f"headers:{path}") for path in folder.headers]


def _placed(own: Sequence[PlannedFile], shared: Sequence[PlannedFile], place: Placement) -> list[PlannedFile]:
    """The files where the layout puts them, sorted; without those that it drops."""
    files = [replace(file, path=place.own(file.path)) for file in own]
    files += [replace(file, path=place.shared(file.path)) for file in shared]
    return sorted((file for file in files if file.path), key=lambda file: file.path)


def contents(
    package: OpPackage, source: Source, folder: BackendFolder, dialect: op_tables.Dialect, place: Placement = QNN
) -> Contents:
    """What a backend contributes to the folder of one package."""
    provider = f"{package.name}{PROVIDER}"
    shared = {
        "package": PackageView(package.name, cpp_string(package.name), provider),
        "config": source.label,
    }
    ops = [
        folder.view(replace(view, kernel=place.own(view.kernel), header=place.own(view.header)), op)
        for view, op in zip(op_tables.ops(package, dialect), package.ops, strict=True)
    ]
    everything = {
        **shared,
        **folder.data,
        "ops": ops,
        "tables": [table for op in ops for table in op.tables],
        "defaults": [default for op in ops for default in op.defaults],
        "count": len(ops),
    }
    own = f"qnn/{folder.template_folder or folder.backend}"
    files = [
        PlannedFile(path.format(package=package.name), template=f"{own}/{template}", data=everything)
        for path, template in folder.templates.items()
    ]
    files += [PlannedFile(path, copy=f"{own}/{path}") for path in folder.copies]
    finished = source.kernels.get(folder.backend, {})
    headers = source.headers.get(folder.backend, ())
    shared_files = _shared_files(folder, headers, in_python=any(f"{op.name}.py" in finished for op in ops))
    everything["sources"] = sorted(file.path for file in (*files, *shared_files) if _is_compiled(file.path))
    for op in ops:
        data = {**shared, "op": op, "glue": folder.glue, "has_hooks": folder.hooks}
        files += _op_files(op.name, folder, own, finished, data)
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


def _op_files(
    op: str, folder: BackendFolder, own: str, finished: Mapping[str, bytes], data: Mapping[str, Any]
) -> list[PlannedFile]:
    """The files of one op: what is generated for it, and its kernel, in Python, finished or as a skeleton."""
    generated = [
        PlannedFile(path.format(op=op), template=f"{own}/{template}", data=data)
        for path, template in folder.op_templates.items()
    ]
    in_python, ready = finished.get(f"{op}.py"), finished.get(op)
    kernel = f"src/ops/{op}.cpp"
    if in_python is not None:
        headers = [PurePosixPath(each).name for each in folder.for_python if each.endswith(".hpp")]
        names = {**data, "source": f"{op}.py", "include": f"{op}{KERNEL_FOLDER}/{KERNEL_INCLUDE}", "headers": headers}
        calls = PlannedFile(kernel, template="qnn/shared/src/ops/Op.halide.cpp.mako", data=names)
        return [*generated, calls, PlannedFile(f"src/ops/{op}.py", content=in_python, user_owned=True)]
    skeleton = f"{own}/{folder.kernel}" if ready is None else ""
    return [*generated, PlannedFile(kernel, template=skeleton, data=data, content=ready, user_owned=True)]


def _is_compiled(path: str) -> bool:
    """Whether it is a source of each target; those of the rules of make are of some targets only."""
    return path.endswith(".cpp") and "makefiles/" not in path


def _versions(backend: str, package: OpPackage) -> tuple[str, ...]:
    """The versions of Hexagon that a config names, of those that this backend runs on."""
    named = {version for op in package.ops for version in op.dsp_archs}
    return tuple(version for version in architectures.of_backend(backend) if version in named)
