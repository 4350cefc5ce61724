"""Fixtures for the tests of scripts: the example built for this machine and for aarch64, context binaries, a model."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.command_line import udogen
from tests.making import LONG, ROOT, compiler, make_packages, need_runtime
from udogen import resources
from udogen.build import emulator

EXAMPLE = ROOT / "examples" / "leaky_relu"
X = np.random.default_rng(4).normal(size=(2, 3, 4)).astype(np.float32)
Y = np.where(X > 0, X, np.float32(0.5) * X).astype(np.float32)


class Made(NamedTuple):
    """Packages, and the files of one execution of them."""

    folder: Path  # of the packages, with a name that shells misread

    @property
    def base(self) -> Path:
        """The folder of the files."""
        return self.folder.parent

    def file(self, name: str) -> Path:
        """Return one of them."""
        return self.base / name

    @property
    def inputs(self) -> list[str]:
        """Return the options of a script for the input and its reference."""
        return ["--input", f"input={self.file('x.npy')}", "--reference", f"output={self.file('y.npy')}"]


def make_made(base: Path, *backends: str) -> Made:
    """Build the example for these backends, and write x.npy, y.npy."""
    made = Made(base / "it's $HOME")
    for backend in backends:
        [package] = make_packages(
            [EXAMPLE / "LeakyRelu.xml"], made.folder / backend, chosen=[backend], kernels=EXAMPLE / "kernels",
            layout="qnn",
        )  # fmt: skip
        assert udogen("build", "-C", package.folder, f"{backend}_x86").returncode == 0
    np.save(made.file("x.npy"), X)
    np.save(made.file("y.npy"), Y)
    return made


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return CPU and HTP, with a context binary of each real runtime: cpu.bin, htp.bin."""
    for backend in ("cpu", "htp"):
        need_runtime(backend)
    made = make_made(tmp_path_factory.mktemp("scripts"), "cpu", "htp")
    for backend in ("cpu", "htp"):
        save_context(made, backend, f"{backend}.bin")
    return made


def save_context(made: Made, backend: str, name: str, *more: str) -> None:
    """Save a context binary of one LeakyRelu."""
    arguments = ["--input", f"input={made.file('x.npy')}", "--param", "alpha=0.5", "--save-context", made.file(name)]
    done = udogen("run", "op", made.folder / backend, "LeakyRelu", "--backend", backend, *arguments, *more)
    assert done.returncode == 0, done.stderr


# --- aarch64 ----------------------------------------------------------------------------------------------------

QEMU_LIBRARIES = Path("/usr/aarch64-linux-gnu")


@pytest.fixture(scope="session")
def qemu() -> str:
    """Return the command that runs a program of aarch64 Linux here."""
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed: apt-get install qemu-user")
    if not (QEMU_LIBRARIES / "lib" / "ld-linux-aarch64.so.1").exists():
        pytest.skip("the C library of aarch64 is not installed: apt-get install libc6-arm64-cross")
    return f"qemu-aarch64 -L {QEMU_LIBRARIES}"


@pytest.fixture(scope="session")
def aarch64(tmp_path_factory: pytest.TempPathFactory, qemu: str) -> Made:
    """Return the example for CPU on aarch64, and emulator.bin, a context binary that the emulator restores there."""
    made = make_made(tmp_path_factory.mktemp("aarch64"), "cpu")
    save_context(made, "cpu", "emulator.bin", "--runtime", "emulator")
    done = udogen("build", "cpu_aarch64", "-C", made.folder / "cpu")
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="session")
def emulator64() -> Path:
    """Return a folder with udogen's CPU emulator for aarch64, named like Qualcomm's library, which is not public."""
    cxx = [*compiler("zig").split(), "-target", "aarch64-linux-gnu.2.31"]
    folders = [resources.emulator(name) for name in ("core", "ops", "cpu")]
    read = sorted(path for folder in folders for path in (*folder.glob("*.cpp"), *folder.glob("*.hpp")))
    flags = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", f"-I{resources.qnn_headers()}"]
    flags += [f"-I{folder}" for folder in (folders[0].parent, *folders)]
    key = resources.content_key(*(path.read_bytes() for path in read), *map(str.encode, flags))
    room = resources.cache_dir("tests") / f"emulator-aarch64-{key}"

    def build(into: Path) -> None:
        for each in folders:
            (into / f"{each.name}.cpp").write_text(emulator.unit(each), "utf-8")
        sources = [f"{folder.name}.cpp" for folder in folders]
        argv = [*cxx, *flags, *sources, "-shared", "-ldl", "-lpthread", "-o", "libQnnCpu.so"]
        subprocess.run(argv, cwd=into, check=True, timeout=LONG)

    emulator.make_once(room, build)
    return room
