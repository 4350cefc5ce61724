"""The thin wrapper objects over a real libQnnCpu."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import need_runtime
from udogen import RunFailed
from udogen.qnn.handles import BackendHandle, LogHandle
from udogen.qnn.interface import VERBOSE, Interface
from udogen.qnn.tensors import APP_WRITE, QnnTensor, byte_size
from udogen.runtime import OpConfig, QnnError, Scalar


def test_the_name_and_version_of_the_library(interface: Interface) -> None:
    assert interface.name == "CPU_QTI_AISW"
    assert interface.api_version.startswith("2.") and interface.build_id().startswith("v2.")
    assert interface.supports("QNN_PROPERTY_BACKEND_SUPPORT_OP_PACKAGE")
    with BackendHandle(interface) as backend:
        assert any(operation.name == "Relu" for operation in backend.operations())


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
    assert (error.function, error.code, error.exit_code) == ("backendRegisterOpPackage", 4005, 5)
    assert "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND" in error.message and error.hint


def test_a_library_that_is_no_backend(tmp_path: Path) -> None:
    (tmp_path / "libQnnCpu.so").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(RunFailed, match="cannot be loaded"):
        Interface.load(tmp_path / "libQnnCpu.so")


def test_a_small_buffer_is_refused_before_the_runtime_overruns_it() -> None:
    tensor = QnnTensor("x", dtype="FLOAT_32", shape=(3,), role=APP_WRITE)
    with pytest.raises(RunFailed, match="needs 12 bytes, its buffer has 11"):
        tensor.bind(bytearray(11))


def test_byte_size() -> None:
    for dtype, shape, size in (
        ("FLOAT_32", (), 4), ("INT_8", (0, 5), 0), ("UFIXED_POINT_4", (3,), 2), ("QNN_DATATYPE_UINT_16", (2, 3), 12)
    ):  # fmt: skip
        assert byte_size(dtype, shape) == size


def test_a_param_out_of_its_type_is_refused() -> None:
    for dtype, value in (("UINT_8", 256), ("INT_8", 1.5), ("FLOAT_32", "text"), ("UINT_32", -1)):
        with pytest.raises(RunFailed, match="cannot be passed as"):
            OpConfig("n", package="P", op_type="Op", params=[Scalar("p", dtype, value)])
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
with Runtime({backend!r}, runtime="real"):
    import onnxruntime
    try:
        onnxruntime.InferenceSession(b"no model")
    except Exception as refused:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "refused\n", (done.returncode, done.stderr)
