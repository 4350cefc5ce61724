"""The thin wrapper objects over a real libQnnCpu, with one of its own ops."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import need_runtime
from udogen.errors import RunFailed
from udogen.qnn import system
from udogen.qnn.handles import BackendHandle, ContextHandle, GraphHandle, LogHandle, ProfileHandle
from udogen.qnn.interface import VERBOSE, Interface, QnnError
from udogen.qnn.tensors import (
    APP_READ,
    APP_WRITE,
    OpConfig,
    QnnTensor,
    Scalar,
    byte_size,
)
from udogen.runtime.library import RuntimeLibrary

VALUES = (-1.5, 0.0, 2.5, -7.0)


def relu(context: ContextHandle) -> tuple[GraphHandle, QnnTensor, QnnTensor]:
    """Return a finalized graph with one Relu."""
    graph = context.graph("relu")
    x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=(2, 2), role=APP_WRITE))
    y = graph.add_tensor(QnnTensor("y", dtype="FLOAT_32", shape=(2, 2), role=APP_READ))
    graph.add_node(OpConfig("node", package="qti.aisw", op_type="Relu", inputs=[x], outputs=[y]))
    graph.finalize()
    return graph, x, y


def execute(graph: GraphHandle, x: QnnTensor, y: QnnTensor, profile: ProfileHandle | None = None) -> tuple[float, ...]:
    room = bytearray(y.nbytes)
    x.bind(bytearray(struct.pack("4f", *VALUES)))
    y.bind(room)
    graph.execute([x], [y], profile)
    return struct.unpack("4f", room)


def test_the_name_and_version_of_the_library(interface: Interface) -> None:
    assert interface.name == "CPU_QTI_AISW"
    assert interface.api_version.startswith("2.")
    assert interface.build_id().startswith("v2.")
    assert interface.supports("QNN_PROPERTY_BACKEND_SUPPORT_OP_PACKAGE")


def test_a_graph_runs_is_stored_described_and_restored(interface: Interface, cpu_runtime: RuntimeLibrary) -> None:
    with BackendHandle(interface) as backend:
        assert any(operation.name == "Relu" for operation in backend.operations())
        with backend.context() as context:
            graph, x, y = relu(context)
            assert execute(graph, x, y) == (0.0, 0.0, 2.5, 0.0)
            binary = context.binary()
        info = system.binary_info(cpu_runtime.system, binary)
        assert [graph.name for graph in info.graphs] == ["relu"]
        assert info.api_version == interface.api_version
        (stored_x,), (stored_y,) = info.graphs[0].inputs, info.graphs[0].outputs
        assert (stored_x.name, stored_x.dtype, stored_x.shape) == ("x", "FLOAT_32", (2, 2))
        with backend.restore(binary) as context:
            x.struct.v1.id, y.struct.v1.id = stored_x.id, stored_y.id
            assert execute(context.retrieve("relu"), x, y) == (0.0, 0.0, 2.5, 0.0)


def test_a_damaged_binary_is_an_error(cpu_runtime: RuntimeLibrary) -> None:
    with pytest.raises(RunFailed, match="the context binary is not a context binary that libQnnSystem"):
        system.binary_info(cpu_runtime.system, b"not a context binary, but long enough to be looked at" * 4)


def test_the_log_arrives_formatted(interface: Interface) -> None:
    lines: list[tuple[int, str]] = []
    with (
        LogHandle(interface, lambda level, text: lines.append((level, text)), VERBOSE) as log,
        BackendHandle(interface, log) as backend,
        pytest.raises(QnnError),
    ):
        backend.register(Path("/no/such/library.so"), "PInterfaceProvider")
    assert any("QnnBackend" in text for _, text in lines)
    assert any("/no/such/library.so" in text for level, text in lines if level == 1)
    assert not any("%" in text for _, text in lines)


def test_an_error_names_the_function_the_code_and_what_to_do(interface: Interface) -> None:
    with BackendHandle(interface) as backend, pytest.raises(QnnError) as caught:
        backend.register(Path("/no/such/library.so"), "PInterfaceProvider")
    error = caught.value
    assert (error.function, error.code) == ("backendRegisterOpPackage", 4005)
    assert "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND" in error.message
    assert error.hint
    assert error.exit_code == 5


def test_profile_events(interface: Interface) -> None:
    with (
        BackendHandle(interface) as backend,
        ProfileHandle(backend, detailed=True) as profile,
        backend.context() as context,
    ):
        graph, x, y = relu(context)
        execute(graph, x, y, profile)
        (event,) = profile.events()
        assert event.value > 0
        assert event.below


def test_a_library_that_is_no_backend(tmp_path: Path) -> None:
    (tmp_path / "libQnnCpu.so").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(RunFailed, match="cannot be loaded"):
        Interface.load(tmp_path / "libQnnCpu.so")


def test_a_small_buffer_is_refused_before_the_runtime_overruns_it() -> None:
    tensor = QnnTensor("x", dtype="FLOAT_32", shape=(3,), role=APP_WRITE)
    with pytest.raises(RunFailed, match="needs 12 bytes, its buffer has 11"):
        tensor.bind(bytearray(11))


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("FLOAT_32", (), 4),
        ("INT_8", (0, 5), 0),
        ("UFIXED_POINT_4", (3,), 2),
        ("QNN_DATATYPE_UINT_16", (2, 3), 12),
    ],
)
def test_byte_size(dtype: str, shape: tuple[int, ...], size: int) -> None:
    assert byte_size(dtype, shape) == size


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("UINT_8", 256), ("INT_8", 1.5), ("FLOAT_32", "text"), ("UINT_32", -1)],
)
def test_a_param_out_of_its_type_is_refused(dtype: str, value: int | float | str) -> None:
    with pytest.raises(RunFailed, match="cannot be passed as"):
        OpConfig("n", package="P", op_type="Op", params=[Scalar("p", dtype, value)])


def test_a_scalar_that_qnn_has_no_field_for() -> None:
    with pytest.raises(RunFailed, match="param `p`: QNN's API has no scalars of FLOAT_16") as caught:
        OpConfig("n", package="P", op_type="Op", params=[Scalar("p", "FLOAT_16", 1.0)])
    assert "declare it as FLOAT_32" in caught.value.hint


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_onnx_runtime_may_be_imported_after_a_runtime_is_open(backend: str) -> None:
    """Its exceptions end the process if the loader binds them to functions of Qualcomm's C++ library."""
    need_runtime(backend)
    pytest.importorskip("onnxruntime")
    program = f"""
from udogen.runtime import Runtime
with Runtime({backend!r}, kind="real"):
    import onnxruntime
    try:
        onnxruntime.InferenceSession(b"no model")
    except Exception as refused:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "refused\n", (done.returncode, done.stderr)
