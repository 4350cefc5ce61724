"""Packages and mixed graphs in the CPU emulator: results as in libQnnCpu, and on GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from composing import Maker, X, mixed, mixed_in_numpy, register, run

from udogen import resources
from udogen.qnn import abi
from udogen.qnn.handles import BackendHandle
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, STATIC, QnnTensor
from udogen.runtime import QnnError, Scalar
from udogen.runtime.built import Built

FFI = abi.ffi()
NULL = FFI.NULL


@pytest.fixture
def both(cpu: BackendHandle, real_cpu: BackendHandle, cpu_leaky: Built, tmp_path: Path) -> list[BackendHandle]:
    """Return the emulator and libQnnCpu with the same package; a process registers a package file only once."""
    register(cpu, cpu_leaky)
    copied = shutil.copy(cpu_leaky.library, tmp_path)
    real_cpu.register(Path(copied), cpu_leaky.provider)
    return [cpu, real_cpu]


def test_mixed_graphs_agree_with_numpy_and_libqnncpu(both: list[BackendHandle], cpu_leaky: Built) -> None:
    found = []
    for backend in both:
        with backend.context() as context:
            make, x, y = mixed(context, cpu_leaky.package)
            make.graph.finalize()
            found.append(run(make.graph, {x: X}, y))
            assert np.abs(found[-1] - mixed_in_numpy(X)).max() <= 1e-6
    assert np.abs(found[0] - found[1]).max() <= 1e-6


@pytest.mark.parametrize("precision", ["", "FP16"])
def test_mixed_graphs_on_gpu(backend: BackendHandle, leaky: Built, precision: str) -> None:
    register(backend, leaky)
    with backend.context() as context:
        make = Maker(context)
        make.graph = context.graph("halves", precision=precision)
        x, y = make.tensor(APP_WRITE), make.tensor(APP_READ)
        first = make.node("Relu", [x], make.tensor(NATIVE))
        leaked = make.node("LeakyRelu", [first], make.tensor(NATIVE), package=leaky.package)
        make.node("ElementWiseAdd", [leaked, x], y)
        make.graph.finalize()
        expected = np.maximum(X, 0) + X
        assert np.abs(run(make.graph, {x: X}, y) - expected).max() <= (2e-3 if precision else 1e-6)


def test_images_reach_a_built_in_op(backend: BackendHandle, kinds: Built) -> None:
    register(backend, kinds)
    picture = X.reshape(1, 2, 3, 4)
    with backend.context() as context:
        make = Maker(context)
        x, y = make.tensor(APP_WRITE, picture.shape), make.tensor(APP_READ, picture.shape)
        between = make.node("Picture", [x], make.tensor(NATIVE, picture.shape), package=kinds.package)
        make.node("Relu", [between], y)
        make.graph.finalize()
        assert np.abs(run(make.graph, {x: picture}, y) - np.maximum(picture + 1, 0)).max() <= 1e-6


def test_a_type_that_reaches_no_op_is_refused(cpu: BackendHandle, log_lines: list[str], tmp_path: Path) -> None:
    built = foreign(tmp_path)
    cpu.register(built, "ForeignInterfaceProvider")
    with cpu.context() as context:
        make = Maker(context)
        x, y = make.tensor(APP_WRITE, dtype="FLOAT_16"), make.tensor(APP_READ, dtype="FLOAT_16")
        make.node("Copy", [x], y, package="Foreign")
        with pytest.raises(QnnError, match="6022"):
            make.graph.finalize()
    assert any("libQnnCpu passes no data of it to custom ops" in line for line in log_lines)


def foreign(folder: Path) -> Path:
    library, source = folder / "foreign.so", Path(__file__).with_name("foreign.cpp")
    argv = ["g++", "-std=c++17", "-shared", "-fPIC", f"-I{resources.qnn_headers()}", str(source), "-o", str(library)]
    subprocess.run(argv, check=True)
    return library


def test_a_foreign_package_sees_what_libqnncpu_shows_it(
    cpu: BackendHandle, real_cpu: BackendHandle, tmp_path: Path
) -> None:
    library, found = foreign(tmp_path), []
    x_data = np.zeros((2, 3), np.float32)
    for backend in (cpu, real_cpu):
        backend.register(library, "ForeignInterfaceProvider")
        with backend.context() as context:
            make = Maker(context)
            x, y = make.tensor(APP_WRITE, (2, 3)), make.tensor(APP_READ, (2, 3))
            table = QnnTensor(
                "table", dtype="FLOAT_32", shape=(2,), role=STATIC, data=bytearray(np.float32([3, 7]).tobytes())
            )
            make.graph.add_tensor(table)
            params = [Scalar("number", "INT_32", -5), Scalar("text", "STRING", "four"), table]
            make.node("Copy", [x], y, *params, package="Foreign")
            make.graph.finalize()
            found.append(run(make.graph, {x: x_data}, y).ravel().tolist())
    assert found[0] == found[1] == [3, 2, -5, 4, 7, 1]


def test_what_a_foreign_package_does_wrong(cpu: BackendHandle, log_lines: list[str], tmp_path: Path) -> None:
    library = foreign(tmp_path)
    for provider, code in (("Second", 4008), ("Hollow", 4008), ("Failing", 1100), ("No", 4006)):
        with pytest.raises(QnnError, match=str(code)):
            cpu.register(library, f"{provider}InterfaceProvider")
    assert any("has no freeOpImpl" in line for line in log_lines)
    cpu.register(library, "ForeignInterfaceProvider")
    for wrong, code, sentence in (("fail", 1100, "returned 1100"), ("beyond", 1100, "wrote past the end of tensor")):
        with cpu.context() as context:
            make = Maker(context)
            x, between, y = (make.tensor(role, (2, 3)) for role in (APP_WRITE, NATIVE, APP_READ))
            make.node("Copy", [x], between, Scalar(wrong, "INT_32", 1), package="Foreign")
            make.node("Relu", [between], y)
            make.graph.finalize()
            with pytest.raises(QnnError, match=str(code)):
                run(make.graph, {x: X[0, :2, :3]}, y)
        assert any(sentence in line for line in log_lines), log_lines
