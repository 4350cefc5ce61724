"""Helpers of tests for packages and golden files: the command line in a child, generation here, compilers by name."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from udogen import GenerateOptions, PackageLibrary, RunFailed, ToolMissing, UdogenError, resources
from udogen.build import qemu_hexagon, tools
from udogen.build.package import open_packages
from udogen.build.qemu import find_qemu
from udogen.configs.load import load
from udogen.generate.pipeline import Generated, generate
from udogen.runtime import find_runtime
from udogen.runtime.built import Built, find_built
from udogen.runtime.ops import OpSession

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "tests" / "golden" / "configs"
KERNELS = ROOT / "tests" / "generate" / "kernels"
ONE_OP = ROOT / "tests" / "configs" / "LeakyRelu.xml"  # the example, for CPU only
ONE_KERNEL = ROOT / "examples" / "leaky_relu" / "kernels"
CORPUS = ROOT.parent / "shared" / "corpus"

COMPILERS = ("g++", "clang++", "zig")
LONG = 600  # seconds: a cold cache of zig alone takes more than a minute


def udogen(
    *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = LONG
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a separate process."""
    return subprocess.run(
        [sys.executable, "-m", "udogen", *map(str, arguments)],
        cwd=cwd or ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=timeout,
    )


def run_outside(*argv: str | Path, cwd: Path) -> str:
    """Run a program without the checkout in its environment, and return its stdout."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def open_package(folder: Path) -> PackageLibrary:
    """Return the only library of a package."""
    [library] = open_packages(folder)
    return library


def make_packages(
    configs: Sequence[Path],
    out: Path,
    *,
    chosen: Sequence[str] = (),
    kernels: Path | None = None,
    htp_api: str = "",
    layout: str = "",
) -> list[Generated]:
    """Generate in this process."""
    packages, problems = load(configs)
    options = GenerateOptions(out, backends=tuple(chosen), layout=layout, kernels=kernels, htp_api=htp_api)
    return generate(packages, options, problems)


def compiler(name: str) -> str:
    """Return the command of a compiler in the form that make takes; skip the test if it is not installed.

    By name, as udogen finds it: ccache treats the two as one compiler.
    """
    if not (tools.zig() if name == "zig" else shutil.which(name)):
        pytest.skip(f"{name} is not installed")
    return shlex.join([*tools.zig(), "c++"]) if name == "zig" else name


def make(
    folder: Path, *targets: str, cxx: str = "", flags: str = "", strict: bool = True, jobs: int = 2, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run plain `make` in a package folder, as a user would; if `strict`, check that the compiler prints no warning.

    Without -Werror, so that ccache shares the objects with `udogen build`.
    """
    given = {"EXTRA_CXXFLAGS": flags, **({"X86_CXX": cxx} if cxx else {}), **variables}
    done = subprocess.run(
        ["make", "-k", f"-j{jobs}", *(targets or ("cpu_x86",)), *(f"{name}={value}" for name, value in given.items())],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    if strict and "warning:" in done.stderr:
        done.returncode = done.returncode or 2
    return done


def make_well(folder: Path, *targets: str, **more: Any) -> None:
    """The same where nothing may fail."""
    done = make(folder, *targets, **more)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def refused(*texts: str, kind: type[UdogenError] = RunFailed) -> Iterator[pytest.ExceptionInfo[UdogenError]]:
    """Check that the block raises this error, with these texts in its message or its details."""
    with pytest.raises(kind) as caught:
        yield caught
    output = "\n".join([caught.value.message, *caught.value.details])
    assert all(text in output for text in texts), output


def need_runtime(backend: str) -> None:
    """Skip the test if Qualcomm's runtime of this backend is not installed."""
    try:
        find_runtime(backend)
    except ToolMissing as problem:
        pytest.skip(f"{problem.message}: {problem.hint}")


def need_packets() -> None:
    """Skip the test if qemu-hexagon has no plug-in support, like that of Ubuntu 24.04."""
    try:
        qemu_hexagon.plugin_build(find_qemu())
    except ToolMissing as problem:
        pytest.skip(f"{problem.message}: {problem.hint}")


def htp_package(config: Path, out: Path, kernels: Path) -> Built:
    """Return an HTP package with finished kernels, built for this machine; skip if its runtime is not installed."""
    need_runtime("htp")
    [made] = make_packages([config], out, chosen=["htp"], kernels=kernels, layout="qnn")
    make_well(made.folder, "htp_x86")
    return find_built(made.folder, backend="htp")


def need_opencl() -> None:
    """Skip the test if OpenCL is not installed, which the GPU emulator needs."""
    import ctypes

    try:
        ctypes.CDLL("libOpenCL.so.1")
    except OSError as problem:
        pytest.skip(f"{problem}: apt-get install ocl-icd-libopencl1 pocl-opencl-icd opencl-headers")


def cpu_package(config: Path, out: Path, kernels: Path | None = None, layout: str = "qnn") -> Built:
    """Return a CPU package, built for this machine; the default layout is that of its config's language."""
    [made] = make_packages([config], out, chosen=["cpu"], kernels=kernels, layout=layout)
    make_well(made.folder, "cpu_x86")
    return find_built(made.folder, backend="cpu")


def gpu_package(config: Path, out: Path, kernels: Path | None = None, layout: str = "") -> Built:
    """Return a GPU package, built for the emulator."""
    need_opencl()
    [made] = make_packages([config], out, chosen=["gpu"], kernels=kernels, layout=layout)
    make_well(made.folder, "gpu_x86")
    return find_built(made.folder, backend="gpu")


_sessions: dict[tuple[Path, int, str, str], OpSession] = {}


def op_session(built: Built, backend: str = "cpu", kind: str = "auto") -> OpSession:
    """Return a session with a package, shared by all tests of a file: most of a call's time is a worker's start."""
    key = (built.library, built.library.stat().st_mtime_ns, backend, kind)
    if key not in _sessions:
        session = OpSession(built.library, built.provider, backend=backend, runtime=kind, timeout=60)
        _sessions[key] = session.__enter__()
    return _sessions[key]


def close_op_sessions() -> None:
    """Close all sessions; `tests/conftest.py` calls it at the end of each file."""
    while _sessions:
        _sessions.popitem()[1].close()


@contextmanager
def same_folder(name: str) -> Iterator[Path]:
    """Yield an empty folder with the same path in each run: only then does ccache find objects compiled with -g.

    Each of several simultaneous runs gets a separate folder.
    """
    base = resources.cache_path().parent / "udogen-tests" / "packages"
    base.mkdir(parents=True, exist_ok=True)
    for number in count():
        with (base / f"{name}-{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            folder = base / f"{name}-{number}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            yield folder
            shutil.rmtree(folder)
            return


def rewrite(folder: Path, goldens: Callable[[Path], Mapping[str, str]]) -> None:
    """Rewrite a folder of golden files with the current result of `goldens`, which gets a temporary folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with tempfile.TemporaryDirectory() as base:
        for name, content in goldens(Path(base)).items():
            (folder / name).write_text(content, "utf-8")


def on_terminal(*arguments: object, **env: str) -> tuple[int, str]:
    """Run the command line with a terminal as stdout and stderr."""
    named = (argument if isinstance(argument, bytes) else str(argument) for argument in arguments)
    return at_terminal([sys.executable, "-m", "udogen", *named], **env)


def at_terminal(argv: Sequence[str | bytes], **env: str) -> tuple[int, str]:
    """Run a program with a terminal as stdout and stderr; its output must be UTF-8."""
    try:
        here, there = pty.openpty()
    except OSError as fault:  # a container without /dev/pts
        pytest.skip(f"no terminal can be had here: {fault}")
    child = subprocess.Popen(
        argv,
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=there, stderr=there, close_fds=True,
        env={**{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CI")}, "TERM": "xterm", "COLUMNS": "120",
             "PYTHONPATH": str(ROOT), **env},
    )  # fmt: skip
    os.close(there)
    printed = b""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([here], [], [], 0.2)[0]:
            try:
                chunk = os.read(here, 65536)
            except OSError:
                break
            if not chunk:
                break
            printed += chunk
        elif child.poll() is not None:
            break
    os.close(here)
    return child.wait(timeout=30), printed.decode("utf-8")
