"""Op packages in all states, built quickly: for this machine with gcc, for others with zig's clang and lld."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from toys import Look, Make

from udogen import ToolMissing, resources
from udogen.build import tools
from udogen.build.tools import Environment
from udogen.inspect.inspection import InspectedLibrary, InspectOptions, inspect
from udogen.runtime import find_runtime

SOURCE = Path(__file__).with_name("package.c")


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Build a package for this machine, with these macros and flags."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")

    def build(*flags: str, name: str = "libToy.so", folder: Path | None = None) -> Path:
        made = (folder or tmp_path_factory.mktemp("toy")) / name
        argv = [
            "gcc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
            "-fPIC",
            "-fvisibility=hidden",
        ]
        argv += ["-shared", "-Wl,-z,noexecstack", f"-I{resources.qnn_headers()}", str(SOURCE), "-o", str(made), *flags]
        subprocess.run(argv, check=True)
        return made

    return build


@pytest.fixture(scope="session")
def make_for(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Build the same for another machine, without a C library: `hexagon v73`, `x86`."""
    zig = tools.zig()
    if not zig:
        pytest.skip("zig is not installed")

    def build(machine: str, *flags: str, name: str = "libToy.so", linked: tuple[str, ...] = ()) -> Path:
        folder = tmp_path_factory.mktemp("foreign")
        arch, _, version = machine.partition(" ")
        argv = [*zig, "cc", "-c", "-target", f"{arch}-freestanding", "-std=c11", "-fPIC", "-fvisibility=hidden", "-O1"]
        argv += [f"-mcpu=hexagon{version}"] if version else []
        argv += [f"-I{resources.qnn_headers()}", str(SOURCE), "-o", str(folder / "toy.o"), *flags]
        subprocess.run(argv, check=True)
        link = [*zig, "ld.lld", "-shared", "-z", "undefs", "-soname", name, str(folder / "toy.o"), *linked]
        subprocess.run([*link, "-o", str(folder / name)], check=True)
        return folder / name

    return build


@pytest.fixture(scope="session")
def look() -> Look:
    """Inspect a library, without the environment of this machine."""

    def run(path: Path, *against: Path, register: bool = False) -> InspectedLibrary:
        return inspect(path, InspectOptions(against, Environment(), register=register))

    return run


@pytest.fixture(scope="session")
def htp() -> Path:
    """Qualcomm's HTP runtime for this machine."""
    return _runtime("htp")


@pytest.fixture(scope="session")
def cpu() -> Path:
    """Qualcomm's CPU runtime for this machine."""
    return _runtime("cpu")


def _runtime(backend: str) -> Path:
    try:
        return find_runtime(backend).path
    except ToolMissing as missing:
        pytest.skip(f"{missing.message}: {missing.hint}")
