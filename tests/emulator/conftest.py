"""Packages for the tests, and the emulator's backends in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.making import KERNELS, ROOT, cpu_package, gpu_package, htp_package, need_opencl, need_runtime
from udogen.qnn.handles import BackendHandle, LogHandle
from udogen.qnn.interface import Interface
from udogen.runtime import find_runtime
from udogen.runtime.built import Built

EXAMPLE = ROOT / "examples" / "leaky_relu"


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A package with an op for each kind of kernel argument."""
    return gpu_package(
        ROOT / "tests/configs/Gpu.xml", tmp_path_factory.mktemp("kinds"), ROOT / "tests/emulator/kernels/gpu"
    )


@pytest.fixture(scope="session")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """LeakyRelu of the examples."""
    return gpu_package(EXAMPLE / "LeakyRelu.xml", tmp_path_factory.mktemp("leaky"), EXAMPLE / "kernels")


@pytest.fixture(scope="session")
def interface() -> Interface:
    """The emulator's table of functions."""
    need_opencl()
    return Interface.load(find_runtime("gpu", runtime="emulator").path)


@pytest.fixture
def log_lines() -> list[str]:
    """The log lines of the emulator and the packages."""
    return []


@pytest.fixture
def backend(interface: Interface, log_lines: list[str]) -> Iterator[BackendHandle]:
    """The backend, without a package."""
    with (
        LogHandle(interface, lambda _level, text: log_lines.append(text)) as log,
        BackendHandle(interface, log) as opened,
    ):
        yield opened


@pytest.fixture(scope="session")
def cpu_leaky(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """LeakyRelu of the examples, for CPU."""
    return cpu_package(EXAMPLE / "LeakyRelu.xml", tmp_path_factory.mktemp("cpu"), EXAMPLE / "kernels")


@pytest.fixture(scope="session")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Ops with a hook for each feature of QHPI; one library for all files, as a process registers each op only once."""
    return htp_package(ROOT / "tests/configs/Hooks.xml", tmp_path_factory.mktemp("hooks"), KERNELS / "hooks")


@pytest.fixture(scope="session")
def cpu_interface() -> Interface:
    """The table of functions of the CPU emulator."""
    return Interface.load(find_runtime("cpu", runtime="emulator").path)


@pytest.fixture(scope="session")
def real_interface() -> Interface:
    """The table of functions of libQnnCpu.so."""
    need_runtime("cpu")
    return Interface.load(find_runtime("cpu", runtime="real").path)


@pytest.fixture
def cpu(cpu_interface: Interface, log_lines: list[str]) -> Iterator[BackendHandle]:
    """The CPU emulator, without a package."""
    with (
        LogHandle(cpu_interface, lambda _level, text: log_lines.append(text)) as log,
        BackendHandle(cpu_interface, log) as opened,
    ):
        yield opened


@pytest.fixture
def real_cpu(real_interface: Interface) -> Iterator[BackendHandle]:
    """libQnnCpu, without a package."""
    with BackendHandle(real_interface) as opened:
        yield opened
