"""Finding the runtime, and refusing libraries with a message."""

from __future__ import annotations

import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from probe import Build

from udogen import RunFailed, ToolMissing, UsageError
from udogen.build.tools import Environment
from udogen.runtime import find_runtime, library
from udogen.runtime.library import interface_providers


def test_the_wheel_is_found_without_importing_it(build: Build) -> None:
    found = find_runtime("cpu", environment=Environment())
    assert found.origin == "onnxruntime_qnn"
    assert found.path.name == "libQnnCpu.so"
    assert found.system.is_file()


def test_an_explicit_path_then_the_sdk_then_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.uname", lambda: Mock(machine="x86_64"))
    folder = tmp_path / "lib" / "x86_64-linux-clang"
    folder.mkdir(parents=True)
    (folder / "libQnnCpu.so").touch()
    (tmp_path / "libQnnCpu.so").touch()
    sdk = find_runtime("cpu", environment=Environment(qnn_sdk_root=str(tmp_path)))
    assert not sdk.emulator and not find_runtime("cpu", qnn_lib=tmp_path).emulator
    assert (sdk.origin, sdk.path) == ("QNN_SDK_ROOT", folder / "libQnnCpu.so")
    assert find_runtime("cpu", qnn_lib=tmp_path).path == tmp_path / "libQnnCpu.so"
    assert find_runtime("cpu", qnn_lib=tmp_path / "libQnnCpu.so").origin == "given"


def test_no_runtime_is_a_missing_tool_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match=r"libQnnCpu\.so is not installed") as caught:
        find_runtime("cpu", environment=Environment(qnn_sdk_root="/no/sdk"))
    assert "pip install onnxruntime-qnn==2.3.0" in caught.value.hint
    assert any("/no/sdk/lib" in line for line in caught.value.details)


def test_a_given_runtime_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="no QNN runtime at"):
        find_runtime("cpu", qnn_lib=tmp_path)


def test_a_backend_without_runtime() -> None:
    with pytest.raises(UsageError, match="no runtime for backend `dsp`"):
        find_runtime("dsp")


def test_a_library_for_another_machine(probe: Path, tmp_path: Path) -> None:
    foreign = bytearray(probe.read_bytes())
    foreign[18:20] = (164).to_bytes(2, "little")  # e_machine: Hexagon
    (tmp_path / "libP.so").write_bytes(foreign)
    with pytest.raises(RunFailed, match="is built for hexagon, this machine is x86_64") as caught:
        library.check_loadable(tmp_path / "libP.so", "op package")
    assert "cpu_x86" in caught.value.hint


def test_a_missing_provider_names_those_that_are_there(probe: Path) -> None:
    assert interface_providers(probe) == ["ProbeInterfaceProvider"]
    with pytest.raises(RunFailed, match="does not export `OtherInterfaceProvider`") as caught:
        library.check_provider(probe, "OtherInterfaceProvider")
    assert "ProbeInterfaceProvider" in caught.value.hint


def test_providers_of_a_stripped_library(probe: Path, tmp_path: Path) -> None:
    subprocess.run(["strip", "-s", str(probe), "-o", str(tmp_path / "libP.so")], check=True)
    assert interface_providers(tmp_path / "libP.so") == ["ProbeInterfaceProvider"]
