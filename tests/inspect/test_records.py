"""The kernel records of QHPI packages, read by a library of udogen that replaces the runtime."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest
from toys import Make

from udogen import RunFailed
from udogen.build import elf
from udogen.runtime.package_queries import KernelTypes, read_records
from udogen.runtime.worker.loaded_package import STUB_MACHINE, STUB_SLOT, stub_library

pytestmark = pytest.mark.skipif(platform.machine() != STUB_MACHINE, reason="the stand-in is x86_64 code")
NAME = "qhpi_register_ops_v1"


def test_the_stand_in_is_a_library_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "stub_library.so"
    path.write_bytes(stub_library(NAME, ["qhpi_tensor_shape", "qhpi_op_name"]))
    found = elf.read(path)
    assert set(found.exports) == {STUB_SLOT, NAME, "qhpi_tensor_shape", "qhpi_op_name"}
    assert found.soname == "udogen-stub" and not found.executable_stack and not found.needed
    message = subprocess.run(["readelf", "-lWd", str(path)], capture_output=True, text=True, check=True)
    assert "Warning" not in message.stderr and "Error" not in message.stderr
    assert "R E" in message.stdout and "RWE" not in message.stdout


COPY = {"Toy::Copy": (KernelTypes(("QUInt8",), ("QUInt8",)), KernelTypes(("Any_Element_Type", "99"), ("QUInt8",)))}


def test_the_types_of_the_kernels(make: Make) -> None:
    assert read_records(make("-DQHPI"), [NAME]).ops == COPY


def test_a_package_that_misses_functions_can_be_read_too(make: Make) -> None:
    library = make("-DQHPI", "-DUNKNOWN_FUNCTION")
    assert read_records(library, [NAME, "qhpi_of_tomorrow"]).ops == COPY
    with pytest.raises(RunFailed, match=r"cannot be loaded: .*undefined symbol: qhpi_of_tomorrow"):
        read_records(library, [NAME])


def test_a_package_that_binds_its_functions_late(make: Make) -> None:
    for flag in ("-Wl,-z,lazy", "-Wl,-z,now"):
        assert read_records(make("-DQHPI", flag), [NAME]).ops == COPY


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("-DCRASHES", r"crashed with SIGSEGV .* in phase `register its kernels \(qhpi_init\)`"),
        ("-DTOO_MANY", r"records .* cannot be read: a record claims to have 2147483647 parts"),
    ],
)
def test_records_that_cannot_be_read(make: Make, flag: str, words: str) -> None:
    with pytest.raises(RunFailed, match=words):
        read_records(make("-DQHPI", flag), [NAME])
