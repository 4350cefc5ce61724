"""Helpers of tests for SNPE registration libraries: the sources of the generator, and a compiler only."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from udogen import backends
from udogen.backends import reg
from udogen.backends.plan import PlannedFile, Source
from udogen.configs import resolve
from udogen.configs.load import load
from udogen.findings import Findings


def planned(config: Path, *, name: str = "") -> tuple[PlannedFile, ...]:
    """Return the files of the registration library of a config's (first) package, for every backend that it names."""
    packages, _ = load([config])
    package = next(each for each in packages if name in ("", each.name))
    named = [b for b in backends.ALL if any(b in backends.of_op(op, package) for op in package.ops)]
    cores = {backend: row.udo for backend, row in backends.ALL.items() if row.udo is not None}
    seen = [(cores[backend], resolve.for_backend(package, backend, Findings())) for backend in named]
    libraries = [(core.core, core.library.format(package.name)) for core, _ in seen]
    return reg.files(package, seen, Source({config.name: config.read_bytes()}), list(dict.fromkeys(libraries)))


def write(config: Path, folder: Path) -> Path:
    """Write those files to a folder."""
    return write_files(planned(config), folder)


def write_files(files: Sequence[PlannedFile], folder: Path) -> Path:
    """Write planned files to a folder."""
    for file in files:
        (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.path).write_bytes(file.render())
    return folder


def build(folder: Path, made: Path, *flags: str, compiler: Sequence[str] = ("g++",)) -> Path:
    """Build the library; the compiler is called in a form that ccache supports: in the folder, one file at a time."""
    if not shutil.which(compiler[0]):
        pytest.skip(f"{compiler[0]} is not installed")

    def run(*argv: str) -> None:
        done = subprocess.run([*compiler, *argv], cwd=folder, check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{shlex.join(argv)}\n{done.stderr}"

    objects = []
    for source in sorted(folder.glob("jni/src/*/*.cpp")):
        objects.append(str(made.with_name(f"{made.stem}.{source.parent.name}.{source.stem}.o")))
        how = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-Iinclude")
        run(*how, "-I.sdk/include", *flags, "-c", str(source.relative_to(folder)), "-o", objects[-1])
    run("-shared", *flags, *objects, "-o", str(made))
    return made
