"""What is tested, made ready: packages generated from a config, and built, only what has changed."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from udogen import resources
from udogen.backends.backend import Place
from udogen.build import make, tools
from udogen.build.package import PackageLibrary, open_packages
from udogen.errors import RunFailed, UsageError
from udogen.generate.pipeline import HTP_APIS, GenerateOptions, generate, kernel_places
from udogen.opdef.model import OpPackage
from udogen.opdef.problems import Problems
from udogen.runtime.built import Built
from udogen.verify.places import built_for
from udogen.verify.suite.configs import Source

Step = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """How packages are made ready."""

    build: bool = True  # False: they are tested as they are
    work: Path | None = None  # where packages that are generated go; None: the cache
    jobs: int = 0


def ready(source: Source, package: OpPackage, place: Place, ops: Sequence[str], *, wish: Wish, on_step: Step) -> Built:
    """The built package for one place; raises where there is none, or it does not build."""
    if source.subject.config is None:
        folder = _there(source, package, place)
        if wish.build and not place.instructions:
            _build(folder, place, wish, on_step)
        return built_for(place, folder.path)
    work = _work(source, wish)
    with _alone(work):
        folder = _generated(source, package, place, ops, work)
        if wish.build and not place.instructions:
            _build(folder, place, wish, on_step)
    return built_for(place, folder.path)


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Two runs at once (pytest-xdist) must not make the same package at the same time."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / ".lock").open("w")
    except OSError as fault:
        raise UsageError(
            f"{work} cannot be written: {fault.strerror}", hint="set XDG_CACHE_HOME to another folder"
        ) from fault
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _there(source: Source, package: OpPackage, place: Place) -> PackageLibrary:
    """The folder of this package and backend among those that are there."""
    for each in source.folders:
        if (each.name, each.backend) == (package.name, place.config):
            return each
    have = ", ".join(dict.fromkeys(each.backend for each in source.folders))
    raise RunFailed(
        f"there is no package {package.name} for {place.config} here",
        hint=f"`udogen generate --backend {place.config}` makes one (there is one for {have})",
    )


def _generated(source: Source, package: OpPackage, place: Place, ops: Sequence[str], work: Path) -> PackageLibrary:
    subject, backend = source.subject, place.config
    assert subject.config is not None
    api = subject.htp_api or next(iter(HTP_APIS))
    places = kernel_places(subject.kernels or subject.config.parent / "kernels", backend, api)
    missing = [op for op in ops if not any((place / f"{op}.cpp").is_file() for place in places)]
    if missing:
        where = " or ".join(map(str, places))
        raise RunFailed(f"there is no kernel {missing[0]}.cpp in {where}", hint="write it, or leave this backend out")
    out = work / backend
    problems = Problems()  # warnings are what `udogen generate` and `udogen check` are for
    generate([package], GenerateOptions(out, backends=(backend,), kernels=subject.kernels, htp_api=api), problems)
    found = [each for each in open_packages(out) if (each.name, each.backend) == (package.name, backend)]
    if not found:
        raise UsageError(f"{subject.config} made no {backend} package", hint="see `udogen generate`")
    return found[0]


def _work(source: Source, wish: Wish) -> Path:
    """The same folder each time, so that only what changed is compiled."""
    subject = source.subject
    assert subject.config is not None
    parts = (subject.config.resolve(), subject.kernels.resolve() if subject.kernels else "", subject.htp_api)
    key = resources.content_key(*(str(each).encode("utf-8", "surrogateescape") for each in parts))
    return (wish.work or resources.cache_dir("test")) / f"{subject.config.stem}-{key}"


def _build(folder: PackageLibrary, place: Place, wish: Wish, on_step: Step) -> None:
    names = [row.id for row in folder.rows if row.native and row.backend == place.config]
    steps = make.plan(folder, names, toolchain="auto", env=tools.environment())
    make.build(folder, steps, jobs=wish.jobs, on_step=on_step)
