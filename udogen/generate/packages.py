"""The walk from packages to folders: choose backends, resolve, plan, render, compare, write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from udogen import backends
from udogen.backends import ALL as ALL_BACKENDS
from udogen.backends import USUAL_LAYOUT, converter, of_op
from udogen.backends.plan import Plan, Source
from udogen.build.package import Say, no_say, read_manifest
from udogen.configs import resolve
from udogen.errors import UsageError, read_plain
from udogen.generate import cmake, layouts, op_tests
from udogen.generate.folder import Folder, free_name, opened
from udogen.generate.write import Change, Conflict, Memory, all_new, compare, write
from udogen.opdef.model import OpPackage
from udogen.opdef.names import make_path
from udogen.opdef.problems import Location, Problems

# The interfaces of HTP, the usual one first, and the folder below --kernels where kernels for it are.
HTP_APIS = {"qhpi": "htp", "core": "htp_core"}
# Those of which one kernel may serve all: it is in the folder of kernels itself.
_ONE_KERNEL = ("cpu", "htp", "dsp")


@dataclass(frozen=True)
class Generated:
    """One package folder and what happens to it."""

    folder: Path
    plan: Plan
    rendered: dict[str, bytes]
    changes: list[Change]
    set_aside: Path | None = None  # where the folder that was there is now, if it had to give way

    @property
    def conflicts(self) -> list[Change]:
        """Files whose lines both sides changed."""
        return [change for change in self.changes if change.action == "conflict"]


def generate(
    packages: Sequence[OpPackage],
    out: Path | None,
    *,
    chosen: Sequence[str] = (),
    layout: str = "",
    kernels: Path | None = None,
    htp_api: str = "",
    problems: Problems,
    strict: bool = False,
    dry_run: bool = False,
    afresh: bool = False,
    for_converters: bool = False,
    with_cmake: bool = False,
    with_tests: bool = False,
    say: Say = no_say,
    before_writing: Callable[[], None] = lambda: None,
) -> list[Generated]:
    """Generate every package into its folder below `out`; everything is checked before the first byte is written.

    The folders are locked meanwhile; `say` is called where another udogen is waited for.

    `afresh`: a folder that is there is moved aside first, with all that is in it.
    `for_converters`: the converter op package of each package, too.
    `with_cmake`: a CMakeLists.txt beside the Makefile; who had one once keeps it.
    `with_tests`: tests will be written beside the packages; what hinders that is an error now.
    `before_writing` is called when all problems are collected, and nothing is written or moved.
    """
    for what, given, known in (
        ("backend", chosen, backends.ALL),
        ("layout", [layout] if layout else [], layouts.ALL),
        ("interface of HTP", [htp_api] if htp_api else [], HTP_APIS),
    ):
        for name in given:
            if name not in known:
                raise UsageError(f"udogen generates for no {what} `{name}` yet", hint="it knows " + ", ".join(known))
    api = htp_api or next(iter(HTP_APIS))
    wanted = resolve_all(packages, problems, chosen=chosen, htp_api=api, layout=layout)
    for package in packages if out is None else ():
        _warn_of_output_path(package, problems)
    for package in packages if for_converters else ():
        converter.warn_of_gaps(package, problems)
    problems.stop_if_any(strict=strict)
    from udogen.generate.render import render  # Mako is only paid for by configs that are right

    planned: list[tuple[Path, Plan, Source]] = []
    looked_for: dict[str, bool] = {}  # names of kernels below --kernels -> whether it has some
    for package, by_backend in wanted:
        alone = len(by_backend) == 1
        rooms = {backend: HTP_APIS[api] if backend == "htp" else backend for backend in by_backend}
        ready = {backend: _kernels(kernels, package, room, alone=alone) for backend, room in rooms.items()}
        looked_for |= {f"{room}/{op.name}.cpp": bool(ready[b]) for b, room in rooms.items() for op in by_backend[b].ops}
        source = Source(configs=_configs(package), kernels=ready, htp_api=api)
        plans = [*layouts.ALL[layout or USUAL_LAYOUT[package.language]].plan(by_backend, source)]
        for plan in [*plans, converter.plan(package, source)] if for_converters else plans:
            planned.append((_folder(out or Path(package.output_path or "."), plan, alone=alone), plan, source))
    if kernels is not None and not any(looked_for.values()):
        problems.warn(
            Location(str(kernels)),
            "it holds no kernel of these ops, so all of them are skeletons",
            "it may have " + ", ".join(list(looked_for)[:6]) + (" …" if len(looked_for) > 6 else ""),
        )
    problems.stop_if_any(strict=strict)
    before_writing()
    with _opened([(folder, plan) for folder, plan, _ in planned], afresh=afresh, shared=dry_run, say=say) as folders:
        found: list[Generated] = []
        for path, basic, source in planned:
            folder = folders[path]
            aside = free_name(path) if afresh and os.path.lexists(path) and not folder.is_new() else None
            memory = None if aside else Memory(folder)
            keeps_cmake = not afresh and memory is not None and cmake.LISTS in memory.files
            plan = cmake.add(basic, source.label) if with_cmake or keeps_cmake else basic
            rendered = render(plan)
            changes = compare(folder, memory, plan, rendered) if memory else all_new(rendered)
            found.append(Generated(path, plan, rendered, changes, aside))
        for base in {path.parent for path in folders} if with_tests else ():
            op_tests.refuse_links(base)
        for each in found if not dry_run else ():
            folder = folders[each.folder]
            if each.set_aside is not None:
                folder.move_aside(each.set_aside)
            write(folder, each.plan, each.rendered, each.changes)
    return found


@contextmanager
def _opened(
    planned: Sequence[tuple[Path, Plan]], *, afresh: bool, shared: bool, say: Say
) -> Iterator[dict[Path, Folder]]:
    """The folders, open and locked; in one order, so that no two calls wait for each other."""
    found: dict[Path, tuple[Folder, Plan]] = {}
    with ExitStack() as stack:
        for path, plan in sorted(planned, key=lambda each: os.path.realpath(each[0])):
            for twin, other in found.values():
                if twin.path == path or twin.same_as(path):
                    raise UsageError(
                        f"{other.package} for {other.backend} and {plan.package} for {plan.backend} "
                        f"would both go to {path}",
                        hint="rename one of the packages, or generate them one by one with --backend",
                    )
            found[path] = stack.enter_context(opened(path, shared=shared, may_be_file=afresh, say=say)), plan
        yield {path: folder for path, (folder, _) in found.items()}


def resolve_all(
    packages: Sequence[OpPackage],
    problems: Problems,
    *,
    chosen: Sequence[str] = (),
    htp_api: str = "",
    layout: str = "",
) -> list[tuple[OpPackage, dict[str, OpPackage]]]:
    """Each package, and what it is for each of its backends; `udogen check` finds the same problems by it."""
    found = [(package, _resolve(package, chosen, problems, layout)) for package in packages]
    for package, by_backend in found:
        if "htp" in by_backend:
            _warn_of_other_interface(package, htp_api or next(iter(HTP_APIS)), problems)
        _warn_of_dropped_path(package, problems)
        if "dsp" in by_backend and len(by_backend["dsp"].ops) > 1:
            _warn_of_several_dsp_ops(package, problems)
    return found


def _folder(out: Path, plan: Plan, *, alone: bool) -> Path:
    """The folder of a package: its name; with the backend behind it where a config has several folders."""
    if plan.folder:
        return out / plan.folder
    plain = out / plan.package
    if plan.backend not in ALL_BACKENDS:
        return plain
    suffixed = out / f"{plan.package}{ALL_BACKENDS[plan.backend].suffix}"
    usual = plain if alone else suffixed
    # A folder keeps its name when its config comes to name another backend, or one less.
    return next((each for each in (usual, plain, suffixed) if _holds(each, plan)), usual)


def _holds(folder: Path, plan: Plan) -> bool:
    try:
        manifest = read_manifest(folder) if folder.is_dir() else None
    except OSError:  # a path that cannot be: comparing says why
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
            hint="take what you want from the .udogen-new file, then remove it",
            details=details,
        )


def _resolve(package: OpPackage, chosen: Sequence[str], problems: Problems, layout: str) -> dict[str, OpPackage]:
    """The package per backend: those that were asked for, or those of the config that we can generate."""
    supported = [b for b in backends.ALL if any(b in of_op(op, package) for op in package.ops)]
    wanted = list(dict.fromkeys(chosen)) or supported
    if not wanted and not problems.errors:
        named = sorted({name for op in package.ops for name in op.backends}) or ["no backend"]
        problems.error(
            package.location,
            f"`{package.name}` is for {', '.join(named)}, which udogen does not generate yet",
            f"--backend {' or --backend '.join(backends.ALL)} generates it for that backend all the same",
        )
    by_backend = {}
    for backend in wanted:
        forced = backend not in supported
        if forced:
            problems.warn(
                package.location,
                f"no op of `{package.name}` names the backend {backend.upper()}",
                f"all of them are generated for it, because --backend {backend} says so",
            )
        by_backend[backend] = resolve.for_backend(package, backend, problems, forced=forced, layout=layout)
    return by_backend


def _warn_of_other_interface(package: OpPackage, api: str, problems: Problems) -> None:
    """Warn where the config asks for the other interface of HTP; the command line wins."""
    if package.use_qhpi and api != "qhpi":
        problems.warn(
            package.location,
            f'`{package.name}` says UseQHPI="true", and is generated for the C++ interface of HTP all the same',
            f"because --htp-api {api} says so",
        )


def _warn_of_several_dsp_ops(package: OpPackage, problems: Problems) -> None:
    """Warn of what the DSP of V65 and V66 does with several ops in one package."""
    problems.warn(
        package.location,
        f"`{package.name}` has several ops for DSP V65 or V66, where each has a library of its own: the DSP registers "
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
            "-o says where the package goes instead",
        )


def _configs(package: OpPackage) -> dict[str, bytes]:
    """The config files as they are copied into config/; files of one name are told apart by a number."""
    found: dict[str, bytes] = {}
    for source in package.sources:
        path = Path(source)
        name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in path.name).lstrip(".")
        number = 1
        unique = name or "config"
        while unique in found:
            number += 1
            unique = f"{number}_{name}"
        found[unique] = path.read_bytes()
    return found


def kernel_places(folder: Path, room: str) -> list[Path]:
    """Where kernels for this interface are looked for: what is special first, then what serves several backends."""
    return [folder / room, folder] if room in _ONE_KERNEL else [folder / room]


def _kernels(folder: Path | None, package: OpPackage, room: str, *, alone: bool) -> dict[str, bytes]:
    """Kernels that the user has already: <folder>/<room>/<Op>.cpp (gpu: and .cl), or <folder>/<Op>.cpp."""
    if folder is None:
        return {}
    if not folder.is_dir():
        raise UsageError(f"--kernels {folder} is no folder", hint="it must hold one <Op>.cpp per finished kernel")
    places = kernel_places(folder, room)
    if alone and not any((folder / each).is_dir() for each in (*backends.ALL, *HTP_APIS.values())):
        places.append(folder)
    # What is not C++ is known by its file name.
    wanted = {op.name: f"{op.name}.cpp" for op in package.ops}
    wanted |= {f"{op.name}.cl": f"{op.name}.cl" for op in package.ops if room == "gpu"}
    found = {
        key: next((p for each in places if os.path.lexists(p := each / name)), None) for key, name in wanted.items()
    }
    return {key: _kernel(path) for key, path in found.items() if path is not None}


def _kernel(path: Path) -> bytes:
    """A person's source; what is no file is not passed over, or they would get a skeleton without a word."""
    try:
        return read_plain(path)
    except OSError as fault:
        hint = "give a file with C++ (or, for a GPU, OpenCL C)"
        raise UsageError(f"the kernel {path} cannot be read: {fault.strerror}", hint=hint) from fault
