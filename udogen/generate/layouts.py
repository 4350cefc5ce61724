"""The layouts of package folders; `ALL` is the registry.

`qnn` is that of `qnn-op-package-generator`: one package folder for each backend.

`snpe` is that of the UDO documentation: one folder, with a registration library and a library for each core.  It has
exactly the files of the page "Creating a UDO Package".  Files that such packages take from installed SDKs (headers,
helper sources, rules of make) are in one hidden folder; files shared by several cores exist once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from udogen import backends
from udogen.backends import reg, targets
from udogen.backends.backend import Backend, Kind, Target, UdoCore
from udogen.backends.common import QNN, SUPPORT, Contents, HexagonBuild, Placement, architectures_of
from udogen.backends.libraries import REGISTRATION
from udogen.backends.plan import Part, Plan, PlannedFile, Source
from udogen.errors import UsageError
from udogen.opdef import names
from udogen.opdef.model import OpPackage

_SDK = ".sdk"
VERSION_FOLDER = "jni/src/DSP_"  # for one version of DSP, as in Qualcomm's generators since about 2.20
# Files that this layout replaces.
_REPLACED = ("Makefile", "makefiles/linux.mk")


def _core(kind: str) -> UdoCore:
    core = backends.KINDS[kind].udo
    if core is None:
        raise UsageError(f"the UDO documentation has no {kind} backend", hint="generate it with --layout qnn")
    return core


class _CoreFolder(NamedTuple):
    """A core's folder, and what is built from it."""

    backend: str
    core: UdoCore
    targets: tuple[Target, ...]
    package: OpPackage  # as resolved for this backend


class _CorePlacement(Placement):
    """Where a core's files are: those of the documentation in its folder, others hidden, shared ones only once."""

    has_cl_files = False  # the documentation has none

    def __init__(self, folder: _CoreFolder, package: Iterable[_CoreFolder]) -> None:
        self._core, self._hidden = folder.core, f"{_SDK}/{folder.backend}"
        self._support = SUPPORT.format(backend=folder.backend)
        self._package = [core_folder.core for core_folder in package]

    def own(self, path: str) -> str:
        if path in _REPLACED:
            return ""
        if path == "makefiles/htp_core.mk":
            return f"{self._hidden}/htp_core.mk"
        if path.startswith("makefiles/"):
            return f"{_SDK}/{path}"
        if path == self._support and self._core.support:
            return f"{self._core.folder}/{self._core.support}"
        shown = path in self._core.shows or path.startswith("src/ops/") or path.endswith("Interface.cpp")
        return f"{self._core.folder if shown else self._hidden}/{path}"

    def forwarding(self) -> tuple[str, ...]:
        return tuple(path for path in self._core.shows if path.endswith(".hpp"))

    def shared(self, path: str) -> str:
        if path in _REPLACED:
            return ""
        shown_by = next((core.folder for core in self._package if path in core.shows), _SDK)
        return f"{shown_by}/{path}"


class _Goal(NamedTuple):
    """One goal of a core's Makefile."""

    name: str
    needs: str = ""  # other goals, if it has no rule
    rules: str = ""  # its Makefile
    variables: tuple[str, ...] = ()  # for that Makefile
    by_ndk_build: bool = False


class _OpSources(NamedTuple):
    """The sources of one op, if each op has a library."""

    op: str
    sources: str


class _CoreView(NamedTuple):
    """A core as the templates of its Makefiles see it."""

    backend: str
    folder: str
    hidden: str
    library: str
    module: str
    link: str
    runtime: str
    sources: tuple[str, ...]
    op_sources: tuple[_OpSources, ...]
    include_folders: tuple[str, ...]
    android: bool
    own_makefile: bool
    build_files: str  # the folder of Android.mk and Application.mk
    kernels: tuple[str, ...]
    registers: bool
    udo_root: str
    api: str
    architectures: tuple[HexagonBuild, ...]
    goals: tuple[_Goal, ...]
    first: str


class _RootTarget(NamedTuple):
    """A target of the package's own Makefile."""

    name: str
    gap: str  # aligns the comments
    makes: str
    makefile: str
    first: str  # targets that are made before it


class _Group(NamedTuple):
    name: str
    members: str


def _plan_qnn(by_backend: Mapping[str, OpPackage], source: Source) -> list[Plan]:
    plans = []
    for backend, package in by_backend.items():
        contents = backends.ALL[backend].contents(package, source, QNN)
        configs = _configs(source)
        plans.append(
            Plan(
                package=package.name,
                backend=backend,
                layout="qnn",
                libraries=backends.ALL[backend].libraries,
                configs=tuple(file.path for file in configs),
                files=tuple(sorted((*contents.files, *configs), key=lambda file: file.path)),
                parts=contents.parts,
            )
        )
    return plans


def _configs(source: Source) -> list[PlannedFile]:
    return [PlannedFile(f"config/{name}", content=content) for name, content in source.configs.items()]


def _plan_snpe(by_backend: Mapping[str, OpPackage], source: Source) -> list[Plan]:
    package = next(iter(by_backend.values()))
    folders = [folder for name in by_backend for folder in _folders(name, by_backend[name], source)]
    contents = [
        backends.ALL[folder.backend].contents(folder.package, source, _CorePlacement(folder, folders))
        for folder in folders
    ]
    parts = [_parts(*pair) for pair in zip(folders, contents, strict=True)]
    libraries = dict.fromkeys(
        (folder.core.core, part.library) for folder, own in zip(folders, parts, strict=True) for part in own
    )
    registration = _registration(package, by_backend, source, list(libraries))
    contents.append(registration)
    parts.append((_reg_part(package, registration, chain.from_iterable(parts)),))
    folders.append(_CoreFolder(REGISTRATION.id, _core(REGISTRATION.id), (), package))
    cores = [_core_view(*of_core) for of_core in zip(folders, parts, contents, strict=True)]
    configs = _configs(source)
    planned = chain(*(of_core.files for of_core in contents), _build_files(package, source, cores), configs)
    files = {file.path: file for file in planned}  # cores share some
    return [
        Plan(
            package=package.name,
            backend="udo",
            layout="snpe",
            libraries="libs",
            configs=tuple(file.path for file in configs),
            files=tuple(files[path] for path in sorted(files)),
            parts=tuple(chain(*parts)),
        )
    ]


def _registration(
    package: OpPackage, by_backend: Mapping[str, OpPackage], source: Source, libraries: Sequence[tuple[str, str]]
) -> Contents:
    """The registration library of the package."""
    seen = [(_core(name), by_backend[name]) for name in backends.ALL if name in by_backend]
    return Contents((), reg.files(package, seen, source, libraries))


def _build_files(package: OpPackage, source: Source, cores: Sequence[_CoreView]) -> list[PlannedFile]:
    """The Makefiles of the package and of its cores."""
    data = {
        "package": package,
        "config": source.label,
        "reg": next(core for core in cores if core.registers),
        "folders": [core.folder for core in cores if core.android and not core.registers],
        **_root(cores),
    }
    return [*_root_files(data), *chain(*(_core_files(core, data) for core in cores))]


# --- the libraries -------------------------------------------------------------------------------------------------


def _parts(folder: _CoreFolder, contents: Contents) -> tuple[Part, ...]:
    """The libraries of a core, named as in the documentation: with the op's name if each op has its own."""
    return tuple(
        replace(
            part,
            library=folder.core.library.format(f"{folder.package.name}{part.op}"),
            targets=tuple(row.id for row in folder.targets),
            makefile=f"{folder.core.folder}/Makefile",
        )
        for part in contents.parts
    )


def _reg_part(package: OpPackage, contents: Contents, parts: Iterable[Part]) -> Part:
    return Part(
        backend=REGISTRATION.id,
        library=_core(REGISTRATION.id).library.format(package.name),
        provider="",
        ops=tuple(dict.fromkeys(op for part in parts for op in part.ops)),
        targets=REGISTRATION.target_ids("snpe"),
        makefile=f"{_core(REGISTRATION.id).folder}/Makefile",
        sources=tuple(file.path for file in contents.files if file.path.endswith(".cpp")),
    )


def _folders(backend: str, package: OpPackage, source: Source) -> list[_CoreFolder]:
    """The folders of a core: one, or one for each version of DSP that the config names (or for all versions)."""
    rows, core = backends.ALL[backend].udo_targets, _core(backend)
    named = {arch for op in package.ops for arch in op.dsp_archs}
    versions = [row for row in rows if row.arch in named] or [row for row in rows if row.arch and row.usual]
    others = tuple(row for row in rows if not row.arch)
    if source.version_folders and versions:
        own = [core._replace(folder=f"{VERSION_FOLDER}{row.arch.upper()}") for row in versions]
        return [
            _CoreFolder(backend, of_version, (*(others if of_version is own[0] else ()), row), package)
            for of_version, row in zip(own, versions, strict=True)
        ]
    if core.one_library:
        versions = versions[:1]  # the library for the oldest version runs on the others
    return [_CoreFolder(backend, core, (*others, *versions), package)]


# --- views for templates ----------------------------------------------------------------------------------------------


def _core_view(folder: _CoreFolder, parts: Sequence[Part], contents: Contents) -> _CoreView:
    backend, core, _, package = folder
    kind, part = backends.KINDS[backend], parts[0]
    hidden = f"{_SDK}/{backend}"
    rows = [targets.UDO[name] for name in part.targets]
    of_all = [path for path in part.sources if all(path in library.sources for library in parts)]
    return _CoreView(
        backend=backend,
        folder=core.folder,
        hidden=hidden,
        library=part.library,
        module=part.library.removeprefix("lib").removesuffix(".so"),
        link=core.link,
        runtime=core.loaded_with,
        sources=tuple(of_all),
        op_sources=tuple(
            _OpSources(library.op, " ".join(path for path in library.sources if path not in of_all))
            for library in parts
            if library.op
        ),
        include_folders=_include_folders(kind, core, hidden, contents),
        android=core.android,
        own_makefile=core.own_makefile,
        build_files="jni" if kind.registration else f"{core.folder}/makefiles",
        kernels=_kernels(kind, core, part, hidden),
        registers=kind.registration,
        udo_root=names.make_path(package.snpe_udo_root) if kind.registration else "",
        api=f"{hidden}/htp_core.mk" if part.api == "core" else "",
        architectures=tuple(arch for arch in architectures_of(backend) if arch.name in [row.arch for row in rows]),
        goals=tuple(goal for row in rows for goal in _goals(row, core, parts)),
        first=rows[0].id,
    )


def _include_folders(kind: Kind, core: UdoCore, hidden: str, contents: Contents) -> tuple[str, ...]:
    """A core's include folders: its own, the hidden ones, and those of other cores with shared files."""
    if kind.registration:
        return ("include", "include/utils")
    others = (backend.udo.folder for backend in backends.ALL.values() if backend.udo is not None)
    roots = dict.fromkeys((core.folder, hidden, _SDK, *others))
    folders = [
        f"{root}/{below}" for root in roots for below in ("include", "src/utils") if f"{root}/{below}" != _HEADERS
    ]
    return tuple(folder for folder in folders if any(file.path.startswith(f"{folder}/") for file in contents.files))


_HEADERS = f"{_SDK}/include"  # of QNN and SNPE, searched after those of an installed SDK


def _kernels(kind: Kind, core: UdoCore, part: Part, hidden: str) -> tuple[str, ...]:
    """OpenCL files that are built into a library; the user's may be missing."""
    texts = kind.kernel_texts if isinstance(kind, Backend) else ()
    paths = (text.format(utils=hidden, folder=core.folder, op=op) for text in texts for op in part.ops)
    return tuple(dict.fromkeys(paths))


def _goals(row: Target, core: UdoCore, parts: Sequence[Part]) -> list[_Goal]:
    """The goals of a core's Makefile for one target; one for each op if each op has a library."""
    if not parts[0].op:
        return [_goal(row, row.id, core, parts[0])]
    goals = [_goal(row, f"{row.id}_{part.op}", core, part) for part in parts]
    return [_Goal(row.id, needs="".join(f" {goal.name}" for goal in goals)), *goals]


def _goal(row: Target, name: str, core: UdoCore, part: Part) -> _Goal:
    rules, variables = f"{_SDK}/makefiles", []
    if row.arch:
        rules += "/Makefile.hexagon"
        variables += [f"HEXAGON={row.arch}", f"LAYOUT_HEXAGON={row.folder}"]
        if part.op:
            variables += [f"LIBRARY_NAME={part.library}", f'LAYOUT_OBJ="$(LAYOUT_OBJ)/{part.op}"']
            variables += [f'SOURCES="$(SOURCES) $(SOURCES_{part.op})"']
    elif row.compiler == "x86":
        own = core.own_makefile
        rules = f"{core.folder}/makefiles/Makefile.linux-x86_64" if own else "common.mk FOR=x86_64"
    elif row.compiler == "aarch64":
        rules = "common.mk FOR=aarch64"
    elif row.compiler == "arm64":
        rules = "common.mk FOR=$(if $(ANDROID_NDK_ROOT),android,aarch64)"
        variables += [f"LIBRARY_NAME={part.library.removesuffix('.so')}{row.ending}.so"]
    else:
        return _Goal(name, by_ndk_build=True)
    return _Goal(name, rules=rules, variables=tuple(variables))


def _groups(offered: Mapping[str, _CoreView]) -> list[_Group]:
    """The documented groups of targets for which the package has cores."""
    listed = []
    for name, targets_of in targets.GROUPS["snpe"].items():
        members = [_DEVICE.get(member, member) for member in targets_of if member in offered or member in _DEVICE]
        own = [member for member in members if not member.startswith(("reg_", "$"))]
        if name not in offered and name != "all" and (own or name.startswith(("reg", "all"))):
            listed.append(_Group(name, " ".join(members)))
    return listed


def _root(cores: Sequence[_CoreView]) -> dict[str, object]:
    """The targets of the package's Makefile: the documented ones for which it has cores."""
    offered = {goal.name: core for core in cores for goal in core.goals if goal.name in targets.UDO}
    groups = targets.GROUPS["snpe"]
    wide = max(len(name) for name in offered) + 2
    lines = []
    for name, core in offered.items():
        row = targets.UDO[name]
        first = [_DEVICE.get(member, member) for member in groups.get(name, ()) if member != name]
        libraries = [f"libs/{folder}/{core.library.removesuffix('.so')}{row.ending}.so" for folder in row.folders]
        gap = " " * (wide - len(name))
        lines.append(_RootTarget(name, gap, " or ".join(libraries), f"{core.folder}/Makefile", " ".join(first)))
    listed = _groups(offered)
    return {"targets": lines, "groups": listed, "names": " ".join([*offered, *(group.name for group in listed)])}


_DEVICE = {"reg_device": "$(REG_DEVICE)"}  # make chooses it


def _root_files(data: Mapping[str, object]) -> list[PlannedFile]:
    shared = "qnn/shared/makefiles"
    return [
        PlannedFile("Makefile", template="snpe/Makefile.mako", data=data),
        PlannedFile("common.mk", copy=f"{shared}/linux.mk"),
        PlannedFile("jni/Android.mk", template="snpe/jni/Android.mk.mako", data=data),
        PlannedFile("jni/Application.mk", copy=f"{shared}/Application.mk"),
        PlannedFile(f"{_SDK}/makefiles/ndk.mk", copy=f"{shared}/ndk.mk"),
    ]


def _core_files(core: _CoreView, data: Mapping[str, object]) -> list[PlannedFile]:
    known = {**data, "core": core}
    files = [PlannedFile(f"{core.folder}/Makefile", template="snpe/core/Makefile.mako", data=known)]
    if core.android and not core.registers:
        files += [
            PlannedFile(f"{core.build_files}/Android.mk", template="snpe/core/Android.mk.mako", data=known),
            PlannedFile(f"{core.build_files}/Application.mk", copy="qnn/shared/makefiles/Application.mk"),
        ]
    if core.own_makefile:
        path = "makefiles/Makefile.linux-x86_64"
        files.append(PlannedFile(f"{core.folder}/{path}", copy="snpe/core/Makefile.linux-x86_64"))
    return files


class Layout(NamedTuple):
    """A layout."""

    title: str
    plan: Callable[[Mapping[str, OpPackage], Source], list[Plan]]  # the folders of a package, resolved by backend


ALL = {
    "snpe": Layout("one UDO package: a registration library, and a library per core", _plan_snpe),
    "qnn": Layout("one package folder per backend, as qnn-op-package-generator lays it out", _plan_qnn),
}
