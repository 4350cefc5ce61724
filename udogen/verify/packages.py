"""Packages of a test file, ready to run: generated from its config and built; only changes are compiled again."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from udogen import backends, resources
from udogen.backends.backend import Place
from udogen.build import make, tools
from udogen.build.package import PackageLibrary, open_packages
from udogen.clients.scripts.device_session import probe
from udogen.errors import RunFailed, UdogenError, UsageError, writing
from udogen.findings import Findings
from udogen.generate.kernel_files import HTP_APIS, in_kernel_sources, kernel_places
from udogen.generate.pipeline import GenerateOptions, generate
from udogen.opdef.model import OpPackage
from udogen.runtime.built import Built
from udogen.verify.options import TestOptions
from udogen.verify.places import built_for
from udogen.verify.test_files.configs import PackageSource

OnStep = Callable[[str], None]


def prepare(
    source: PackageSource,
    package: OpPackage,
    place: Place,
    ops: Sequence[str],
    *,
    options: TestOptions,
    on_step: OnStep = lambda _line: None,
) -> Built:
    """The built package for one place; raises if it does not exist or does not build."""

    def built(folder: PackageLibrary) -> Built:
        if options.build and not place.instructions:
            build(folder, place.config, device=place.device, jobs=options.jobs, on_step=on_step)
        return built_for(place, folder.path)

    subject = source.subject
    if subject.config is None:
        existing = _existing(source, package, place)
        if package in source.packages:
            return built(existing)
        work = _work(options, existing.path.name, existing.path.resolve(), *(op.name for op in package.ops))
        with _locked(work):
            return built(_with_ops(package, existing, work))
    parts = (subject.config.resolve(), subject.kernels.resolve() if subject.kernels else "", subject.htp_api)
    work = _work(options, subject.config.stem, *parts)
    with _locked(work):
        folder = _generated(source, package, place, ops, work)
        try:
            return built(folder)
        except UdogenError as fault:
            raise in_kernel_sources(fault, folder) from fault


def build(
    folder: PackageLibrary,
    backend: str,
    *,
    device: str = "",
    jobs: int = 0,
    on_step: OnStep = lambda _line: None,
) -> tuple[Path, ...]:
    """Build the libraries of a package for this machine, and for a device, and return them."""
    rows = [row for row in folder.rows if row.native and row.backend == backend]
    if device:
        facts = probe(device)
        rows += [row for row in folder.rows if row not in rows and facts.fits(row, backend)]
    steps = make.plan(folder, [row.id for row in rows], toolchain="auto", env=tools.environment())
    make.build(folder, steps, jobs=jobs, on_step=on_step)
    return tuple(path for row in rows for path in folder.artifacts(row))


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Lock the folder: parallel runs (pytest-xdist) must not make the same package at the same time."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / ".lock").open("w")
    except OSError as error:
        raise UsageError(
            f"{work} cannot be written: {error.strerror}", hint="set XDG_CACHE_HOME to another folder"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _existing(source: PackageSource, package: OpPackage, place: Place) -> PackageLibrary:
    """The folder of this package and backend."""
    for folder in source.folders:
        if (folder.name, folder.backend) == (package.name, place.config):
            return folder
    have = ", ".join(dict.fromkeys(folder.backend for folder in source.folders))
    raise RunFailed(
        f"there is no package {package.name} for {place.config} here",
        hint=f"`udogen generate --backend {place.config}` makes one (there is one for {have})",
    )


def _generated(
    source: PackageSource, package: OpPackage, place: Place, ops: Sequence[str], work: Path
) -> PackageLibrary:
    subject, backend = source.subject, place.config
    assert subject.config is not None
    places = _kernel_places(source, backend)
    names = list(places)
    missing = [
        op for op in ops if not any((folder / name.format(op)).is_file() for name in names for folder in places[name])
    ]
    if missing:
        where = " or ".join(map(str, places[names[0]]))
        raise RunFailed(f"there is no kernel {missing[0]}.cpp in {where}", hint="write it, or leave this backend out")
    key = resources.content_key(*(op.name.encode() for op in package.ops))
    out = work / (backend if package in source.packages else f"{backend}-{key}")  # without ops that do not compile
    findings = Findings()  # dropped: `udogen generate` and `udogen check` print warnings
    generate(
        [package], GenerateOptions(out, backends=(backend,), kernels=subject.kernels, htp_api=_api(source)), findings
    )
    libraries = [row for row in open_packages(out) if (row.name, row.backend) == (package.name, backend)]
    if not libraries:
        raise UsageError(f"{subject.config} made no {backend} package", hint="see `udogen generate`")
    return libraries[0]


def _api(source: PackageSource) -> str:
    return source.subject.htp_api or next(iter(HTP_APIS))


def _kernel_places(source: PackageSource, backend: str) -> dict[str, list[Path]]:
    """The folders of kernels, by pattern of the file names (`{}.cpp`, `{}.py`)."""
    assert source.subject.config is not None
    folder = source.subject.kernels or source.subject.config.parent / "kernels"
    names = [name for name in backends.ALL[backend].kernels if not name.endswith(".cl")]
    return {name: kernel_places(folder, backend, _api(source), name) for name in names}


def _work(options: TestOptions, name: str, *parts: object) -> Path:
    """The work folder for a package; always the same one, so that only changes are compiled."""
    key = resources.content_key(*(str(part).encode("utf-8", "surrogateescape") for part in parts))
    return (options.work or resources.cache_dir("test")) / f"{name}-{key}"


def _with_ops(package: OpPackage, existing: PackageLibrary, work: Path) -> PackageLibrary:
    """A copy of an existing package with only the ops that compile."""
    out = work / package.name
    built = shutil.ignore_patterns("obj", existing.libraries)
    with writing(out, hint="set XDG_CACHE_HOME to another folder"):
        shutil.copytree(existing.path, out, ignore=built, dirs_exist_ok=True)
    options = GenerateOptions(work, backends=(existing.backend,), layout=existing.layout, htp_api=existing.api)
    generate([package], options, Findings())
    return next(folder for folder in open_packages(out) if folder.backend == existing.backend)
