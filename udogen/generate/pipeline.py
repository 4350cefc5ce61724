"""The walk from packages to folders: choose backends, resolve, plan, render, compare, write."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from udogen import backends
from udogen.backends import USUAL_LAYOUT, converter, htp, htp_core, of_op, vendor
from udogen.backends.plan import Plan, Source
from udogen.build import sdks, tools
from udogen.build.package import Say, no_say, read_manifest, read_parts
from udogen.configs import resolve
from udogen.errors import UsageError, read_plain
from udogen.generate import cmake, layouts
from udogen.generate.folder import PackageFolder, free_backup_name, opened
from udogen.generate.layouts.snpe import VERSION_FOLDER
from udogen.generate.write import Change, Conflict, Memory, all_new, compare, write
from udogen.opdef.model import OpPackage
from udogen.opdef.names import make_path
from udogen.opdef.problems import Location, Problems

# The interfaces of HTP, the usual one first, and the folder below --kernels where kernels for it are.
HTP_APIS = htp.BACKEND.interfaces


class GenerateOptions(NamedTuple):
    """What a user asks of `udogen generate`; empty fields are for udogen to choose."""

    out: Path | None = None  # where the package folders go; None: where the config puts them, or here
    backends: tuple[str, ...] = ()
    layout: str = ""
    kernels: Path | None = None  # a folder of finished kernels
    htp_api: str = ""
    # The style of kernels, of `vendor.APIS`; empty: their text says it.
    cpu_api: str = ""
    gpu_api: str = ""
    dsp_api: str = ""
    strict: bool = False
    dry_run: bool = False
    force: bool = False  # move a folder that exists aside first, with all that is in it
    version_folders: bool = False  # a folder for each version of DSP (layout snpe); a package keeps those that it has
    converter: bool = False  # the converter op package of each package, too
    cmake: bool = False  # a CMakeLists.txt beside the Makefile; a package that had one once keeps it
    tests: bool = False  # tests will be written beside the packages; what prevents that is an error now

    def check(self) -> None:
        """Raise where a name is not known."""
        chosen: list[tuple[str, Sequence[str], Collection[str]]] = [
            ("backend", self.backends, backends.ALL),
            ("layout", [self.layout] if self.layout else [], layouts.ALL),
            ("interface of HTP", [self.htp_api] if self.htp_api else [], HTP_APIS),
            *(("style of kernels", [api] if api else [], vendor.APIS) for api in self.styles.values()),
        ]
        for what, given, known in chosen:
            for name in given:
                if name not in known:
                    raise UsageError(
                        f"udogen generates for no {what} `{name}` yet", hint="it knows " + ", ".join(known)
                    )

    @property
    def styles(self) -> dict[str, str]:
        """The style of kernels that is asked for, of each backend that has several."""
        return {"cpu": self.cpu_api, "gpu": self.gpu_api, "dsp": self.dsp_api}

    @property
    def api(self) -> str:
        """The interface of HTP that is generated for."""
        return self.htp_api or next(iter(HTP_APIS))


class Generated(NamedTuple):
    """One package folder and what happens to it."""

    folder: Path
    plan: Plan
    rendered: dict[str, bytes]
    changes: list[Change]
    backup: Path | None = None  # where the folder that was there is moved to
    vendor: Mapping[str, tuple[str, ...]] = {}  # backend -> ops whose kernels are in Qualcomm's style

    @property
    def conflicts(self) -> list[Change]:
        """Files whose lines both sides changed."""
        return [change for change in self.changes if change.action == "conflict"]


class _Planned(NamedTuple):
    """A package folder before anything is rendered."""

    path: Path
    plan: Plan
    label: str  # how generated files name their config
    vendor: Mapping[str, tuple[str, ...]]  # backend -> ops whose kernels are in Qualcomm's style


def generate(
    packages: Sequence[OpPackage],
    options: GenerateOptions,
    problems: Problems,
    *,
    log: Say = no_say,
    before_writing: Callable[[], None] = lambda: None,
) -> list[Generated]:
    """Generate every package into its folder; everything is checked before the first byte is written.

    The folders are locked meanwhile; `log` is called where another udogen is waited for, `before_writing` when all
    problems are collected and nothing is written or moved.
    """
    options.check()
    planned = _plan(packages, options, problems, log)
    before_writing()
    with _opened(planned, force=options.force, shared=options.dry_run, log=log) as folders:
        found = [_compare(each, folders[each.path], options) for each in planned]
        if options.tests:
            from udogen.generate import op_tests  # few ask for them

            for base in {path.parent for path in folders}:
                op_tests.refuse_links(base)
        for each, memory in found if not options.dry_run else ():
            folder = folders[each.folder]
            if each.backup is not None:
                folder.move_to_backup(each.backup)
            write(folder, memory or Memory(folder), each.plan, each.rendered, each.changes)
    return [each for each, _ in found]


def _plan(packages: Sequence[OpPackage], options: GenerateOptions, problems: Problems, log: Say) -> list[_Planned]:
    """The folders of all packages; raises with all that is wrong."""
    resolved = resolve_all(packages, problems, options)
    for package in packages if options.out is None else ():
        _warn_of_output_path(package, problems)
    if options.converter:
        for package in packages:
            converter.warn_of_gaps(package, problems)
    problems.stop_if_any(strict=options.strict)
    planned: list[_Planned] = []
    searched: dict[str, bool] = {}  # names of kernels below --kernels -> whether it has some
    for package, by_backend in resolved:
        own = options._replace(htp_api=_interface(options, package, by_backend, log))
        if own.api == "core":
            _warn_of_needed_inputs(by_backend, problems)
        kernels = _kernels(package, by_backend, own, searched)
        source = Source(
            configs=_configs(package, problems),
            kernels=kernels,
            htp_api=own.api,
            version_folders=options.version_folders
            or _has_version_folders((options.out or Path(package.output_path or ".")) / package.name),
        )
        planned += _plan_package(package, by_backend, options, source)
    if options.kernels is not None and not any(searched.values()):
        problems.warn(
            Location(str(options.kernels)),
            "it holds no kernel of these ops, so all of them are skeletons",
            "it may have " + ", ".join(list(searched)[:6]) + (" …" if len(searched) > 6 else ""),
        )
    problems.stop_if_any(strict=options.strict)
    return planned


def _plan_package(
    package: OpPackage, by_backend: Mapping[str, OpPackage], options: GenerateOptions, source: Source
) -> list[_Planned]:
    """The folders of one package."""
    layout = layouts.ALL[options.layout or USUAL_LAYOUT[package.language]]
    out, alone = options.out or Path(package.output_path or "."), len(by_backend) == 1
    plans = [*layout.plan(by_backend, source)]
    folders = [] if options.force else [(_folder(out, plan, alone=alone), plan) for plan in plans]
    kernels = _kernels_in_python(source, folders)
    texts = _texts(kernels, folders)
    in_vendor_style = _vendor_style(by_backend, texts, options)
    headers = {backend: vendor.hexagon_headers(texts.get(backend, {}).values()) for backend in ("htp", "dsp")}
    if kernels != source.kernels or in_vendor_style or any(headers.values()):
        core = any(vendor.is_core_style(texts["htp"][op]) for op in in_vendor_style.get("htp", ()))
        api = "core" if core else source.htp_api
        source = replace(source, kernels=kernels, vendor=in_vendor_style, headers=headers, htp_api=api)
        plans = [*layout.plan(by_backend, source)]
    if options.converter:
        plans.append(converter.plan(package, source))
    return [
        _Planned(
            _folder(out, plan, alone=alone),
            plan,
            source.label,
            {part.backend: source.vendor[part.backend] for part in plan.parts if source.vendor.get(part.backend)},
        )
        for plan in plans
    ]


def _compare(planned: _Planned, folder: PackageFolder, options: GenerateOptions) -> tuple[Generated, Memory | None]:
    """What writing a folder does, and what is remembered of it; of a folder that is moved aside nothing."""
    from udogen.generate.render import render  # Mako is only paid for by configs that are right

    exists = os.path.lexists(planned.path) and not folder.is_new()
    backup = free_backup_name(planned.path) if options.force and exists else None
    memory = None if backup else Memory(folder)
    keeps_cmake = not options.force and memory is not None and cmake.LISTS in memory.checksums
    plan = cmake.add(planned.plan, planned.label) if options.cmake or keeps_cmake else planned.plan
    rendered = render(plan)
    changes = compare(folder, memory, plan, rendered) if memory else all_new(rendered)
    return Generated(planned.path, plan, rendered, changes, backup, planned.vendor), memory


@contextmanager
def _opened(planned: Sequence[_Planned], *, force: bool, shared: bool, log: Say) -> Iterator[dict[Path, PackageFolder]]:
    """The folders, open and locked; in one order, so that no two calls wait for each other."""
    found: dict[Path, tuple[PackageFolder, Plan]] = {}
    with ExitStack() as stack:
        for path, plan, *_ in sorted(planned, key=lambda each: os.path.realpath(each.path)):
            for twin, other in found.values():
                if twin.path == path or twin.same_as(path):
                    raise UsageError(
                        f"{other.package} for {other.backend} and {plan.package} for {plan.backend} "
                        f"would both go to {path}",
                        hint="rename one of the packages, or generate them one by one with --backend",
                    )
            found[path] = stack.enter_context(opened(path, shared=shared, may_be_file=force, log=log)), plan
        yield {path: folder for path, (folder, _) in found.items()}


def resolve_all(
    packages: Sequence[OpPackage], problems: Problems, options: GenerateOptions
) -> list[tuple[OpPackage, dict[str, OpPackage]]]:
    """Each package, and what it is for each of its backends; `udogen check` finds the same problems by it."""
    found = [(package, _resolve(package, options, problems)) for package in packages]
    for package, by_backend in found:
        if any(backends.ALL[each].interfaces for each in by_backend):
            _warn_of_other_interface(package, options.api, problems)
        _warn_of_dropped_path(package, problems)
        for backend, each in by_backend.items():
            if backends.ALL[backend].library_per_op and len(each.ops) > 1:
                _warn_of_several_libraries(package, backends.ALL[backend].title, problems)
    return found


def _folder(out: Path, plan: Plan, *, alone: bool) -> Path:
    """The folder of a package: its name; with the backend behind it where a config has several folders."""
    if plan.folder:
        return out / plan.folder
    plain = out / plan.package
    if plan.backend not in backends.ALL:
        return plain
    suffixed = out / f"{plan.package}{backends.ALL[plan.backend].suffix}"
    usual, other = (plain, suffixed) if alone else (suffixed, plain)
    # A folder keeps its name when its config comes to name another backend, or one less.
    return other if _holds(other, plan) and not _holds(usual, plan) else usual


def _interface(options: GenerateOptions, package: OpPackage, by_backend: Iterable[str], log: Say) -> str:
    """HTP's interface: as chosen, as the package has it already, or the one that the SDK at hand knows."""
    if options.htp_api or not any(backends.ALL[each].interfaces for each in by_backend):
        return options.htp_api
    out = options.out or Path(package.output_path or ".")
    for folder in (out / package.name, out / f"{package.name}{htp.BACKEND.suffix}") if not options.force else ():
        found = read_manifest(folder) if os.path.isdir(folder) else None
        if known := next((part.api for part in read_parts(found or {}) if part.api), ""):
            return known
    root = tools.environment().qnn_sdk_root
    old = sdks.has_no_qhpi(root)
    if not old:
        return options.api
    if package.use_qhpi:
        log(f'  HTP: QHPI, because of UseQHPI="true"; it is usable with SDK {sdks.usable_with("qhpi")}, not with {old}')
        return "qhpi"
    log(f"  HTP: the C++ interface (core), for SDK {old} in QNN_SDK_ROOT has no QHPI; --htp-api qhpi takes that one")
    log(f"  usable with SDK {sdks.usable_with('core', old)}")
    return "core"


def _has_version_folders(folder: Path) -> bool:
    """Whether a package of UDO has kernels in a folder for a further version of DSP."""
    own = {_last(core.folder) for each in backends.ALL.values() if (core := each.udo) is not None}
    found = folder.glob(f"{VERSION_FOLDER}V*/src/ops") if os.path.isdir(folder) else ()
    return any(_last(each.parent.parent) not in own for each in found)


def _last(path: str | Path) -> str:
    return os.path.basename(path)


def _holds(folder: Path, plan: Plan) -> bool:
    try:
        manifest = read_manifest(folder) if folder.is_dir() else None
    except OSError:  # an impossible path: the comparison reports why
        return False
    return manifest is not None and (manifest.get("package"), manifest.get("backend")) == (plan.package, plan.backend)


def stop_on_conflict(found: Sequence[Generated]) -> None:
    """Raise, with every file, where both the user and we changed the same lines."""
    details = [
        f"{each.folder / change.path}: yours is kept; {change.note}" for each in found for change in each.conflicts
    ]
    if details:
        raise Conflict(
            f"{len(details)} file{'s' if len(details) > 1 else ''} changed on both sides",
            hint="take over what you need from the .udogen-new file, then remove it",
            details=details,
        )


def _resolve(package: OpPackage, options: GenerateOptions, problems: Problems) -> dict[str, OpPackage]:
    """The package per backend: those that were asked for, or those of the config that we can generate."""
    supported = [b for b in backends.ALL if any(b in of_op(op, package) for op in package.ops)]
    wanted = list(dict.fromkeys(options.backends)) or supported
    if not wanted and not problems.errors:
        named = sorted({name for op in package.ops for name in op.backends}) or ["no backend"]
        problems.error(
            package.location,
            f"`{package.name}` is for {', '.join(named)}, which udogen does not generate yet",
            f"--backend {' or --backend '.join(backends.ALL)} generates it for that backend all the same",
        )
    by_backend: dict[str, OpPackage] = {}
    limits: dict[str, Problems] = {}
    for backend in wanted:
        forced = backend not in supported
        if forced:
            problems.warn(
                package.location,
                f"no op of `{package.name}` names the backend {backend.upper()}",
                f"all of them are generated for it, because of --backend {backend}",
            )
        found = Problems()
        by_backend[backend] = resolve.for_backend(package, backend, found, forced=forced, layout=options.layout)
        if found.errors:
            limits[backend] = found
        else:
            problems.extend(found.all())
    alone = not options.backends and len(limits) < len(by_backend)
    for backend, found in limits.items():
        if not alone:
            problems.extend(found.all())
            continue
        for each in found.all():
            problems.warn(each.location, each.message, each.hint)
        del by_backend[backend]
        problems.warn(
            package.location,
            f"`{package.name}` is not generated for {backend.upper()}, which cannot take it: see the warnings for it",
            f"mend the config, or take {backend.upper()} out of it; --backend {backend} makes them errors",
        )
    return by_backend


def _warn_of_other_interface(package: OpPackage, api: str, problems: Problems) -> None:
    """Warn where the config asks for the other interface of HTP; the command line wins."""
    if package.use_qhpi and api != "qhpi":
        problems.warn(
            package.location,
            f'`{package.name}` has UseQHPI="true", but is generated for the C++ interface of HTP',
            f"because of --htp-api {api}",
        )


def _warn_of_needed_inputs(by_backend: Mapping[str, OpPackage], problems: Problems) -> None:
    """Warn of optional inputs that the C++ interface of HTP needs even so."""
    for op in (op for name, each in by_backend.items() if backends.ALL[name].interfaces for op in each.ops):
        for tensor, needed in zip(op.inputs, htp_core.needs_all(op).inputs, strict=True):
            if needed.given and not tensor.given:
                problems.warn(
                    tensor.location,
                    f"`{tensor.name}` of `{op.name}` is optional, which the C++ interface of HTP does not know",
                    "there a client must always give it; --htp-api qhpi knows it",
                )


def _warn_of_several_libraries(package: OpPackage, title: str, problems: Problems) -> None:
    """Warn of what a backend does with several ops in one package, where each has a library."""
    problems.warn(
        package.location,
        f"`{package.name}` has several ops for {title}, where each has a library of its own: the DSP registers "
        "only the first library of a package's name",
        "give each op a package of its own (UdoPackage_0, UdoPackage_1 …) where they shall run in one process",
    )


def _warn_of_dropped_path(package: OpPackage, problems: Problems) -> None:
    """Warn of a path in the config that is dropped, for it would be something else in a Makefile."""
    if package.snpe_udo_root and not make_path(package.snpe_udo_root):
        problems.warn(
            package.location,
            f"SNPE_UDO_ROOT of `{package.name}` is not written into a Makefile: make would read something else in it",
            "set the environment variable SNPE_UDO_ROOT instead",
        )


def _warn_of_output_path(package: OpPackage, problems: Problems) -> None:
    """Warn of a config that chooses a folder which is not below the current one."""
    folder = os.path.realpath(package.output_path)
    if package.output_path and not Path(folder).is_relative_to(os.path.realpath(".")):
        problems.warn(
            package.location,
            f"UDO_PACKAGE_PATH of `{package.name}` leads outside the current folder: to {folder}",
            "-o chooses another folder",
        )


def _configs(package: OpPackage, problems: Problems) -> dict[str, bytes]:
    """The config files as they are copied into config/; files of the same name get a number."""
    found: dict[str, bytes] = {}
    for source in package.sources:
        path = Path(source)
        name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in path.name).lstrip(".")
        number = 1
        unique = name or "config"
        while unique in found:
            number += 1
            unique = f"{number}_{name}"
        content = problems.contents.get(source)
        found[unique] = path.read_bytes() if content is None else content
    return found


def _kernels(
    package: OpPackage, by_backend: Mapping[str, OpPackage], options: GenerateOptions, searched: dict[str, bool]
) -> dict[str, dict[str, bytes]]:
    """The user's finished kernels by backend; notes in `searched` which files could have been some."""
    found = {}
    for backend, resolved in by_backend.items():
        below = backends.ALL[backend].kernels_folder(options.api)
        found[backend] = _kernels_of(backend, options, package, alone=len(by_backend) == 1)
        searched |= {f"{below}/{op.name}.cpp": bool(found[backend]) for op in resolved.ops}
    return found


def _kernels_in_python(source: Source, plans: Iterable[tuple[Path, Plan]]) -> dict[str, dict[str, bytes]]:
    """The user's kernels, with those in Python that lie in the folders already, where no others are given."""
    found = {backend: dict(kernels) for backend, kernels in source.kernels.items()}
    for folder, plan in plans:
        for part in plan.parts:
            given = found.setdefault(part.backend, {})
            for path in (Path(each).with_suffix(".py") for each in part.sources):
                if not given.keys() & {path.stem, path.name} and os.path.isfile(folder / path):
                    given[path.name] = _kernel(folder / path)
    return found


def _texts(
    kernels: Mapping[str, Mapping[str, bytes]], folders: Iterable[tuple[Path, Plan]]
) -> dict[str, dict[str, bytes]]:
    """Backend -> op -> its kernel: the one in the folder, or the given."""
    texts = {backend: dict(given) for backend, given in kernels.items()}
    for folder, plan in folders:
        for part in plan.parts:
            for path in (Path(each) for each in part.sources):
                if path.parent.name == "ops" and os.path.isfile(folder / path):
                    texts.setdefault(part.backend, {})[path.stem] = _kernel(folder / path)
    return texts


def _vendor_style(
    by_backend: Mapping[str, OpPackage], texts: Mapping[str, Mapping[str, bytes]], options: GenerateOptions
) -> dict[str, tuple[str, ...]]:
    """The ops whose kernels are in Qualcomm's style: as asked for, or as their texts are."""
    found = {}
    for_htp = texts.get("htp", {}) if "htp" in by_backend else {}
    core = tuple(op for op, text in for_htp.items() if vendor.is_core_style(text))
    own = tuple(op for op, text in for_htp.items() if vendor.is_qhpi_style(text))
    if (core and not options.htp_api) or (own and options.api == "qhpi"):
        found["htp"] = core or own
    for backend in vendor.BACKENDS:
        style, names = options.styles[backend], [op.name for op in getattr(by_backend.get(backend), "ops", ())]
        known = [name for name in names if vendor.is_vendor_style(backend, texts.get(backend, {}).get(name, b""))]
        skeletons = [name for name in names if name not in texts.get(backend, {})] if style == "vendor" else []
        if style != "args" and (known or skeletons):
            found[backend] = tuple(name for name in names if name in known or name in skeletons)
    return found


def kernel_places(folder: Path, backend: str, api: str, name: str) -> list[Path]:
    """Where a file of a kernel is looked for: what is special first, then what serves several backends."""
    row = backends.ALL[backend]
    below = row.kernels_folder(api)
    own = [folder / below, folder / below.upper()]  # the second: as Qualcomm's samples call them
    return [*own, folder] if name.endswith(row.common_kernels) and below == row.id else own


def _kernels_of(backend: str, options: GenerateOptions, package: OpPackage, *, alone: bool) -> dict[str, bytes]:
    """<folder>/<backend>/<Op>.cpp (gpu: and .cl), or <folder>/<Op>.cpp."""
    folder = options.kernels
    if folder is None:
        return {}
    if not folder.is_dir():
        raise UsageError(f"--kernels {folder} is no folder", hint="it must hold one <Op>.cpp per finished kernel")
    has_folders = any((folder / each).is_dir() for each in (*backends.ALL, *HTP_APIS.values()))
    usual = [folder] if alone and not has_folders else []
    chosen: dict[str, Path] = {}
    for name in (pattern.format(op.name) for op in package.ops for pattern in backends.ALL[backend].kernels):
        places = [*kernel_places(folder, backend, options.api, name), *usual]
        path = next((p for each in places if os.path.lexists(p := each / name)), None)
        if path is not None:
            chosen[name.removesuffix(".cpp")] = path  # what is not C++ has the name of its file
    for name in [op.name for op in package.ops if f"{op.name}.py" in chosen]:
        # Of a kernel in C++ or OpenCL and one in Python the more special one counts, then C++.
        others = {each for each in (name, f"{name}.cl") if each in chosen}
        is_special = chosen[f"{name}.py"].parent != folder and all(chosen[each].parent == folder for each in others)
        for each in others if is_special else {f"{name}.py"} if others else ():
            del chosen[each]
    return {key: _kernel(path) for key, path in chosen.items()}


def _kernel(path: Path) -> bytes:
    """A person's source; what is no file is not passed over, or they would get a skeleton without a word."""
    try:
        return read_plain(path)
    except OSError as fault:
        hint = "give a file with C++ (or, for a GPU, OpenCL C)"
        raise UsageError(f"the kernel {path} cannot be read: {fault.strerror}", hint=hint) from fault
