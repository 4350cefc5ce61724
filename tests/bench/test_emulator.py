"""One execution of a trivial graph: udogen's CPU emulator compared with libQnnCpu, same client, same process."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.making import ROOT, cpu_package, need_runtime
from udogen.qnn.handles import BackendHandle
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor
from udogen.runtime import OpConfig, find_runtime
from udogen.runtime.built import Built

pytestmark = pytest.mark.bench

CALLS, ROUNDS = 1000, 51


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return the built LeakyRelu of the examples."""
    folder = ROOT / "examples" / "leaky_relu"
    return cpu_package(folder / "LeakyRelu.xml", tmp_path_factory.mktemp("leaky"), folder / "kernels")


def executor(stack: ExitStack, kind: str, package: Built | None, folder: Path) -> Callable[[], None]:
    """Return a function that runs an op on 8 floats: LeakyRelu of the package, or the backend's own Relu."""
    interface = Interface.load(find_runtime("cpu", runtime=kind).path)
    backend = stack.enter_context(BackendHandle(interface))
    if package is not None:  # a process can register a package file only once
        (folder / kind).mkdir()
        backend.register(Path(shutil.copy(package.library, folder / kind)), package.provider)
    context = stack.enter_context(backend.context())
    graph = context.graph("one")
    owner, op = ("qti.aisw", "Relu") if package is None else (package.package, "LeakyRelu")
    x, y = (
        graph.add_tensor(QnnTensor(n, dtype="FLOAT_32", shape=(8,), role=r))
        for n, r in (("x", APP_WRITE), ("y", APP_READ))
    )
    graph.add_node(OpConfig(op, package=owner, op_type=op, inputs=[x], outputs=[y], params=[]))
    graph.finalize()
    x.bind(bytearray(np.arange(-4, 4, dtype=np.float32).tobytes()))
    y.bind(room := bytearray(y.nbytes))
    run = graph.executor([x], [y])
    run()
    assert np.frombuffer(room, np.float32)[4:].tolist() == [0, 1, 2, 3]
    return run


def seconds(run: Callable[[], None]) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        run()
    return (time.perf_counter() - began) / CALLS


@pytest.mark.parametrize("own", [True, False], ids=["of_a_package", "built_in"])
def test_execute_of_one_op_against_libqnncpu(own: bool, leaky: Built, tmp_path: Path) -> None:
    """The target is a ratio of 2 for the op of a package; libQnnCpu's own ops start threads first."""
    need_runtime("cpu")
    with ExitStack() as stack:
        ours, theirs = (executor(stack, kind, leaky if own else None, tmp_path) for kind in ("emulator", "real"))
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)]
    mine, real = (statistics.median(column) for column in zip(*pairs, strict=True))
    what = "op of a package" if own else "built-in op"
    print(f"\nexecute, one {what}: {mine * 1e6:.2f} us, libQnnCpu {real * 1e6:.2f} us, ratio {mine / real:.2f} (aim 2)")
