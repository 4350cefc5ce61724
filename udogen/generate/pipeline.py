"""From packages to folders: choose backends, resolve, plan, render, compare, write."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from udogen import backends
from udogen.backends import USUAL_LAYOUT, converter, htp, of_op
from udogen.backends.plan import Plan, Source
from udogen.build import sdks, tools
from udogen.build.package import (
    Say,
    no_say,
    open_packages,
    read_manifest,
    read_parts,
)
from udogen.configs import resolve
from udogen.configs.load import load
from udogen.errors import UsageError
from udogen.findings import Findings, Location, suggestion
from udogen.generate import cmake, kernel_files, layouts
from udogen.generate.folder import PackageFolder, free_backup_name, opened
from udogen.generate.write import Change, Conflict, Memory, all_new, compare, write
from udogen.opdef.model import OpPackage
from udogen.opdef.names import make_path
from udogen.tables import many


class GenerateOptions(NamedTuple):
    """Options of `udogen generate`; udogen chooses values for empty fields.

    `GenerateOptions(Path("out"), backends=("htp",), kernels=Path("kernels"))`
    """

    out: Path | None = None  # for the package folders; None: the folder that the config names, or the current one
    backends: tuple[str, ...] = ()
    layout: str = ""
    kernels: Path | None = None  # a folder of finished kernels
    htp_api: str = ""
    strict: bool = False
    dry_run: bool = False
    force: bool = False  # move an existing folder aside first
    version_folders: bool = False  # layout snpe: a folder for each version of DSP; a package keeps existing ones
    converter: bool = False  # also generate the converter op package of each package
    cmake: bool = False  # a CMakeLists.txt next to the Makefile; a package keeps an existing one

    def check(self) -> None:
        """Raise for unknown names."""
        chosen: list[tuple[str, Sequence[str], Collection[str]]] = [
            ("backend", self.backends, backends.ALL),
            ("layout", [self.layout] if self.layout else [], layouts.ALL),
            ("interface of HTP", [self.htp_api] if self.htp_api else [], kernel_files.HTP_APIS),
        ]
        for what, given, known in chosen:
            for name in given:
                if name not in known:
                    raise UsageError(
                        f"udogen does not know the {what} `{name}`",
                        hint=suggestion(name, known, "known: " + ", ".join(known)),
                    )

    @property
    def api(self) -> str:
        """The interface of HTP."""
        return self.htp_api or next(iter(kernel_files.HTP_APIS))


class Generated(NamedTuple):
    """A package folder, and what is done to it."""

    folder: Path
    plan: Plan
    rendered: dict[str, bytes]
    changes: list[Change]
    backup: Path | None = None  # the new path of an existing folder
    vendor: Mapping[str, tuple[str, ...]] = {}  # backend -> ops whose kernels are in Qualcomm's style

    @property
    def conflicts(self) -> list[Change]:
        """Files in which udogen and the user changed the same lines."""
        return [change for change in self.changes if change.action == "conflict"]


class _Planned(NamedTuple):
    """A package folder before it is rendered."""

    path: Path
    plan: Plan
    label: str  # the configs, as generated files name them
    vendor: Mapping[str, tuple[str, ...]]  # backend -> ops whose kernels are in Qualcomm's style


def generate(
    packages: Sequence[OpPackage],
    options: GenerateOptions,
    findings: Findings,
    *,
    log: Say = no_say,
    before_writing: Callable[[], None] = lambda: None,
) -> list[Generated]:
    """Generate every package into its folder.  Everything is checked before anything is written.

    The folders are locked; `log` is called to report waiting for another udogen, `before_writing` when all problems
    are collected and nothing is written or moved.

    `folders = generate_packages(packages, options, findings)`
    """
    options.check()
    planned = _plan(packages, options, findings, log)
    before_writing()
    with _opened(planned, force=options.force, shared=options.dry_run, log=log) as folders:
        compared = [_compare(package, folders[package.path], options) for package in planned]
        for generated, memory in compared if not options.dry_run else ():
            folder = folders[generated.folder]
            if generated.backup is not None:
                folder.move_to_backup(generated.backup)
            write(folder, memory or Memory(folder), generated.plan, generated.rendered, generated.changes)
            if options.kernels is not None:
                below = os.path.relpath(os.path.realpath(options.kernels), os.path.realpath(generated.folder))
                folder.put(kernel_files.KERNELS, os.fsencode(below))
    return [generated for generated, _ in compared]


def _plan(packages: Sequence[OpPackage], options: GenerateOptions, findings: Findings, log: Say) -> list[_Planned]:
    """The folders of all packages; raises with all problems."""
    resolved = resolve_all(packages, findings, options)
    for package in packages if options.out is None else ():
        _warn_of_output_path(package, findings)
    if options.converter:
        for package in packages:
            converter.warn_of_gaps(package, findings)
    findings.stop_if_any(strict=options.strict)
    planned: list[_Planned] = []
    searched: dict[str, bool] = {}  # names of kernels below --kernels -> whether any were found
    for package, by_backend in resolved:
        own = options._replace(htp_api=_interface(options, package, by_backend, log))
        if own.api == "core":
            _warn_of_needed_inputs(by_backend, findings)
        given = kernel_files.given_kernels(package, by_backend, options.kernels, own.api, searched)
        source = Source(
            configs=_configs(package, findings),
            kernels=given,
            htp_api=own.api,
            version_folders=options.version_folders
            or _has_version_folders((options.out or Path(package.output_path or ".")) / package.name),
        )
        planned += _plan_package(package, by_backend, options, source)
    if options.kernels is not None and not any(searched.values()):
        findings.warn(
            Location(str(options.kernels)),
            "no kernels of these ops in this folder: all kernels are skeletons",
            "expected files: " + ", ".join(list(searched)[:6]) + (" …" if len(searched) > 6 else ""),
        )
    findings.stop_if_any(strict=options.strict)
    return planned


def _plan_package(
    package: OpPackage, by_backend: Mapping[str, OpPackage], options: GenerateOptions, source: Source
) -> list[_Planned]:
    """The folders of one package."""
    layout = layouts.ALL[options.layout or USUAL_LAYOUT[package.language]]
    out, alone = options.out or Path(package.output_path or "."), len(by_backend) == 1
    plans = layout.plan(by_backend, source)
    folders = (
        []
        if options.force
        else [(_folder(out, plan, alone=alone, chosen=bool(options.backends)), plan) for plan in plans]
    )
    old = kernel_files.kernels_in_folders(folders)
    source_in_python = replace(source, kernels=kernel_files.with_kernels_in_python(source, folders))
    styled = kernel_files.styled(source_in_python, old, by_backend, options.htp_api)
    if styled != source:
        source, plans = styled, layout.plan(by_backend, styled)
    if options.converter:
        plans.append(converter.plan(package, source))
    return [
        _Planned(
            _folder(out, plan, alone=alone, chosen=bool(options.backends)),
            plan,
            source.label,
            {part.backend: source.vendor[part.backend] for part in plan.parts if source.vendor.get(part.backend)},
        )
        for plan in plans
    ]


def _compare(planned: _Planned, folder: PackageFolder, options: GenerateOptions) -> tuple[Generated, Memory | None]:
    """The effects of writing a folder, and the folder's memory (None for a folder that is moved aside)."""
    exists = os.path.lexists(planned.path) and not folder.is_new()
    backup = free_backup_name(planned.path) if options.force and exists else None
    memory = None if backup else Memory(folder)
    keeps_cmake = not options.force and memory is not None and cmake.LISTS in memory.checksums
    plan = cmake.add(planned.plan, planned.label) if options.cmake or keeps_cmake else planned.plan
    rendered = plan.render()
    changes = all_new(rendered) if memory is None or folder.is_new() else compare(folder, memory, plan, rendered)
    return Generated(planned.path, plan, rendered, changes, backup, planned.vendor), memory


@contextmanager
def _opened(planned: Sequence[_Planned], *, force: bool, shared: bool, log: Say) -> Iterator[dict[Path, PackageFolder]]:
    """The folders, open and locked; in sorted order, which prevents deadlocks."""
    folders: dict[Path, tuple[PackageFolder, Plan]] = {}
    with ExitStack() as stack:
        for path, plan, *_ in sorted(planned, key=lambda planned_folder: os.path.realpath(planned_folder.path)):
            for twin, other in folders.values():
                if twin.path == path or twin.same_as(path):
                    raise UsageError(
                        f"{other.package} for {other.backend} and {plan.package} for {plan.backend} "
                        f"would both go to {path}",
                        hint="rename one of the packages, or generate them one by one with --backend",
                    )
            folders[path] = stack.enter_context(opened(path, shared=shared, may_be_file=force, log=log)), plan
        yield {path: folder for path, (folder, _) in folders.items()}


def resolve_all(
    packages: Sequence[OpPackage], findings: Findings, options: GenerateOptions
) -> list[tuple[OpPackage, dict[str, OpPackage]]]:
    """Each package, resolved for each of its backends; `udogen check` uses it to find the same problems."""
    resolved_packages = [(package, _resolve(package, options, findings)) for package in packages]
    for package, by_backend in resolved_packages:
        for wrong, message, hint in _doubts(package, by_backend, options.api):
            if wrong:
                findings.warn(package.location, message, hint)
    return resolved_packages


def _folder(out: Path, plan: Plan, *, alone: bool, chosen: bool) -> Path:
    """The folder of a package: its name; with the backend's suffix if a config has several folders."""
    if plan.folder:
        return out / plan.folder
    plain = out / plan.package
    if plan.backend not in backends.ALL:
        return plain
    suffixed = out / f"{plan.package}{backends.ALL[plan.backend].suffix}"
    usual, other = (plain, suffixed) if alone else (suffixed, plain)
    # A folder keeps its name when its config gains or loses a backend.
    mine, beside = (plan.package, plan.backend), _held(other)
    if beside == mine:
        return usual if _held(usual) == mine else other
    if not chosen or beside is not None:  # manifests are read once, where no backend is chosen
        return usual
    known = _held(usual)
    is_of_another = known is not None and known != mine and known[0] == plan.package and known[1] in backends.ALL
    return other if is_of_another else usual


def _interface(options: GenerateOptions, package: OpPackage, by_backend: Iterable[str], log: Say) -> str:
    """HTP's interface: as chosen, else that of the existing package, else one that the installed SDK supports."""
    if options.htp_api or not any(backends.ALL[backend].interfaces for backend in by_backend):
        return options.htp_api
    out = options.out or Path(package.output_path or ".")
    for folder in (out / package.name, out / f"{package.name}{htp.BACKEND.suffix}") if not options.force else ():
        manifest = read_manifest(folder) if os.path.isdir(folder) else None
        if known := next((part.api for part in read_parts(manifest or {}) if part.api), ""):
            return known
    root = tools.environment().qnn_sdk_root
    old = sdks.has_no_qhpi(root)
    if not old:
        return options.api
    if package.use_qhpi:
        log(f'  HTP: QHPI, because of UseQHPI="true"; works with SDK {sdks.usable_with("qhpi")}, not with {old}')
        return "qhpi"
    log(f"  HTP: the C++ interface (core), as SDK {old} in QNN_SDK_ROOT has no QHPI; --htp-api qhpi overrides this")
    log(f"  works with SDK {sdks.usable_with('core', old)}")
    return "core"


def _has_version_folders(folder: Path) -> bool:
    """Whether a UDO package has kernels in a folder for another version of DSP."""
    own = {Path(core.folder).name for backend in backends.ALL.values() if (core := backend.udo) is not None}
    folders = folder.glob(f"{layouts.VERSION_FOLDER}V*/src/ops") if os.path.isdir(folder) else ()
    return any(sources.parent.parent.name not in own for sources in folders)


def _held(folder: Path) -> tuple[object, object] | None:
    """The package in a folder and its backend."""
    try:
        manifest = read_manifest(folder) if folder.is_dir() else None
    except OSError:  # reported by the comparison
        return None
    return None if manifest is None else (manifest.get("package"), manifest.get("backend"))


def stop_on_conflict(generated: Sequence[Generated]) -> None:
    """Raise, with all files, if udogen and the user changed the same lines."""
    details = [
        f"{package.folder / change.path}: your version is kept; {change.note}"
        for package in generated
        for change in package.conflicts
    ]
    if details:
        raise Conflict(
            f"{many(len(details), 'file')} changed on both sides",
            hint="copy what you need from the .udogen-new file, then remove it",
            details=details,
        )


def _resolve(package: OpPackage, options: GenerateOptions, findings: Findings) -> dict[str, OpPackage]:
    """The package per backend: the chosen ones, or those of the config that udogen supports."""
    of_ops = {backend for op in package.ops for backend in of_op(op, package)}
    supported = [backend for backend in backends.ALL if backend in of_ops]
    wanted = list(dict.fromkeys(options.backends)) or supported
    if not wanted and not findings.errors:
        _refuse_backends(package, findings)
    by_backend = {
        backend: _resolve_one(package, backend, options, findings, forced=backend not in supported)
        for backend in wanted
    }
    if not options.backends and any(not faults.errors for _, faults in by_backend.values()):
        _drop_unsupported(package, by_backend, findings)
    for _, faults in by_backend.values():
        findings.extend(faults.all())
    return {backend: resolved for backend, (resolved, _) in by_backend.items()}


def _drop_unsupported(
    package: OpPackage, by_backend: dict[str, tuple[OpPackage, Findings]], findings: Findings
) -> None:
    """Remove backends that were not chosen and do not support the package; their errors become warnings."""
    for backend, (_, faults) in tuple(by_backend.items()):
        if not faults.errors:
            continue
        findings.extend(fault._replace(severity="warning") for fault in faults.all())
        findings.warn(
            package.location,
            f"`{package.name}` is not generated for {backend.upper()}, which does not support it: see its warnings",
            f"correct the config, or remove {backend.upper()} from it; --backend {backend} makes them errors",
        )
        del by_backend[backend]


def _refuse_backends(package: OpPackage, findings: Findings) -> None:
    named = sorted({name for op in package.ops for name in op.backends}) or ["no backend"]
    findings.error(
        package.location,
        f"`{package.name}` is for {', '.join(named)}, which udogen does not generate yet",
        f"--backend {' or --backend '.join(backends.ALL)} generates it for that backend anyway",
    )


def _resolve_one(
    package: OpPackage, backend: str, options: GenerateOptions, findings: Findings, *, forced: bool
) -> tuple[OpPackage, Findings]:
    """The package for one backend, and its problems there."""
    if forced:
        findings.warn(
            package.location,
            f"no op of `{package.name}` names the backend {backend.upper()}",
            f"all of them are generated for it, because of --backend {backend}",
        )
    faults = Findings()
    resolved = resolve.for_backend(package, backend, faults, forced=forced, layout=options.layout)
    return resolved, faults


def _doubts(package: OpPackage, by_backend: Mapping[str, OpPackage], api: str) -> Iterator[tuple[object, str, str]]:
    """(whether to warn, message, hint) for what a config requests and does not get."""
    rows = {backends.ALL[name]: resolved for name, resolved in by_backend.items()}
    yield (
        package.use_qhpi and api != "qhpi" and any(row.interfaces for row in rows),
        f'`{package.name}` has UseQHPI="true", but is generated for the C++ interface of HTP',
        f"because of --htp-api {api}",
    )
    yield (
        package.snpe_udo_root and not make_path(package.snpe_udo_root),
        f"SNPE_UDO_ROOT of `{package.name}` is left out of the Makefile: make would misread it",
        "set the environment variable SNPE_UDO_ROOT instead",
    )
    named = {name for op in package.ops for name in backends.of_supplements(op, package)[0]}
    others = ", ".join(sorted(named.intersection(backends.FOREIGN)))
    yield (
        rows and others,
        f"`{package.name}` is also for {others}, which udogen does not generate yet",
        f"it is generated for {', '.join(row.id for row in rows)}",
    )
    for row, resolved in rows.items():
        yield (
            row.library_per_op and len(resolved.ops) > 1,
            f"`{package.name}` has several ops for {row.title}, each in its own library: the DSP registers only the "
            "first library of a package's name",
            "to run them in one process, give each op its own package (UdoPackage_0, UdoPackage_1 …)",
        )


def _warn_of_needed_inputs(by_backend: Mapping[str, OpPackage], findings: Findings) -> None:
    """Warn of optional inputs, which the C++ interface of HTP requires."""
    for op in (op for name, resolved in by_backend.items() if backends.ALL[name].interfaces for op in resolved.ops):
        for tensor, needed in zip(op.inputs, op.with_all_inputs().inputs, strict=True):
            if needed.given and not tensor.given:
                findings.warn(
                    tensor.location,
                    f"`{tensor.name}` of `{op.name}` is optional, but the C++ interface of HTP requires it",
                    "--htp-api qhpi supports optional inputs",
                )


def _warn_of_output_path(package: OpPackage, findings: Findings) -> None:
    """Warn of a config that chooses a folder outside the current one."""
    folder = os.path.realpath(package.output_path)
    if package.output_path and not Path(folder).is_relative_to(os.path.realpath(".")):
        findings.warn(
            package.location,
            f"UDO_PACKAGE_PATH of `{package.name}` is outside the current folder: {folder}",
            "choose another folder with -o",
        )


def _configs(package: OpPackage, findings: Findings) -> dict[str, bytes]:
    """The config files to be copied into config/; files of the same name get a number."""
    configs: dict[str, bytes] = {}
    for source in package.sources:
        path = Path(source)
        name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in path.name).lstrip(".")
        number = 1
        unique = name or "config"
        while unique in configs:
            number += 1
            unique = f"{number}_{name}"
        content = findings.contents.get(source)
        configs[unique] = path.read_bytes() if content is None else content
    return configs


def make_package(
    config: str | Path,
    out: str | Path,
    *,
    backend: str,
    kernels: str | Path | None = None,
    on_step: Callable[[str], None] = lambda _line: None,
) -> Path:
    """Generate and build the package of a config for this machine: `make_package("Ops.xml", "out", backend="htp")`.

    Kernels are those in `kernels`, by default those next to the config.  Returns the package folder, which
    `Runtime.register`, `GraphBuilder` and `OpSession` take.
    """
    from udogen.build.make import build_package  # a sixth of the start-up of `udogen generate`, which builds nothing

    file = Path(config)
    folder = Path(kernels) if kernels is not None else file.parent / "kernels"
    packages, findings = load([file])
    options = GenerateOptions(Path(out), backends=(backend,), layout="qnn", kernels=folder if folder.is_dir() else None)
    [generated] = generate(packages, options, findings)
    [package] = open_packages(generated.folder)
    build_package(package, on_step=on_step)
    return package.path
