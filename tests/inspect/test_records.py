"""The kernel records of QHPI packages, read by a library of udogen that replaces the runtime."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from toys import Make

from udogen import resources
from udogen.build import elf
from udogen.errors import RunFailed
from udogen.runtime.failures import OlderRecords
from udogen.runtime.package_queries import read_records
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


def test_every_field_of_the_records(make: Make) -> None:
    records = read_records(make("-DQHPI"), [NAME])
    usual = {"type": "QUInt8", "layout": "Flat4", "storage": "Direct", "memory": "DDR_OR_TCM"}
    odd = {"type": "Any_Element_Type", "layout": "Crouton_16", "storage": "Indirect", "memory": "TCM_Only"}
    unknown = {"type": "99", "layout": "98", "storage": "97", "memory": "96"}
    empty = {"sync_block_size": 0, "precomputed_data_size": 0, "reserved": False}
    assert (records.returned, records.package) == ("Toy", "Toy")
    assert json.loads(json.dumps(records.ops)) == [
        {
            "name": "Toy::Copy",
            "hooks": ["late_rewrite"],
            "tiled_output": None,
            "reserved": False,
            "kernels": [
                {
                    **empty,
                    "function": "copy_u8",
                    "inputs": [usual],
                    "outputs": [usual],
                    "resources": ["hvx"],
                    "flags": [],
                    "hooks": ["cost_function"],
                },
                {
                    **empty,
                    "function": "copy_any",
                    "inputs": [odd, unknown],
                    "outputs": [usual],
                    "resources": ["hvx", "hmx"],
                    "flags": ["multithreaded", "variable_outputs"],
                    "hooks": ["predicate"],
                    "sync_block_size": 64,
                },
            ],
        }
    ]


def test_a_package_that_misses_functions_can_be_read_too(make: Make) -> None:
    library = make("-DQHPI", "-DUNKNOWN_FUNCTION")
    assert read_records(library, [NAME, "qhpi_of_tomorrow"]).package == "Toy"
    with pytest.raises(RunFailed, match=r"cannot be loaded: .*undefined symbol: qhpi_of_tomorrow"):
        read_records(library, [NAME])


def test_a_package_that_binds_its_functions_late(make: Make) -> None:
    for flag in ("-Wl,-z,lazy", "-Wl,-z,now"):
        assert read_records(make("-DQHPI", flag), [NAME]).package == "Toy"


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


def test_records_of_an_older_sdk(make: Make, tmp_path: Path) -> None:
    """Without the reserved pointers."""
    headers = Path(shutil.copytree(resources.qnn_headers(), tmp_path / "include"))
    header = headers / "HTP" / "core" / "qhpi.h"
    old = header.read_text().replace("  void* reserved[4];\n", "")
    header.write_text(old)
    assert old.count("reserved[") == 0
    library = make("-DQHPI", "-include", str(header))
    with pytest.raises(OlderRecords, match=r"are those of an SDK before 2\.47"):
        read_records(library, [NAME])
    assert read_records(make("-DQHPI"), [NAME]).package == "Toy"
