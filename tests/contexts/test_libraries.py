"""The libraries of an op package that each processor registers; those of devices are stand-ins, never loaded."""

from __future__ import annotations

import shlex
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.contexts.conftest import refused
from tests.contexts.stepping import open_runtime
from tests.making import ROOT, compiler, make_packages
from udogen import RunFailed, UdogenError, UsageError
from udogen.qnn.handles import DeviceInfo
from udogen.runtime import QnnError
from udogen.runtime.built import adsp_library_path, op_libraries, register_package

NAME = "libQnnLeakyReluPackage.so"
PROVIDER = "LeakyReluPackageInterfaceProvider"
MACHINES = {"x86_64": 62, "aarch64": 183, "hexagon": 164}
Put = Callable[..., Path]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return an empty shared library for this machine."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy.c").write_text("int toy;\n")
    command = [*shlex.split(compiler("g++")), "-shared", "-o", str(folder / "toy.so"), str(folder / "toy.c")]
    subprocess.run(command, check=True, timeout=60)
    return (folder / "toy.so").read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a generated package, with a blank in its name; nothing is built."""
    [made] = make_packages([ROOT / "examples/leaky_relu/LeakyRelu.xml"], tmp_path / "a b", chosen=["htp"])
    return made.folder


@pytest.fixture
def put(folder: Path, toy: bytes) -> Put:
    """Put a library into a folder of the package, with another machine in its header."""

    def lay(where: str, machine: str, version: int = 0) -> Path:
        file = folder / "build" / where / NAME
        file.parent.mkdir(parents=True)
        image = bytearray(toy)
        struct.pack_into("<H", image, 18, MACHINES[machine])
        struct.pack_into("<I", image, 48, version)
        file.write_bytes(image)
        return file

    return lay


def test_on_a_pc_there_is_one(folder: Path, put: Put) -> None:
    file = put("x86_64-linux-clang", "x86_64")
    found = op_libraries(folder, machine="x86_64", arch="v75")
    assert [
        (registration.library, registration.provider, registration.target) for registration in found.registrations
    ] == [(str(file), PROVIDER, None)]
    assert (found.package, found.arch, found.search) == ("LeakyReluPackage", "", ())


def test_on_a_pc_a_version_of_hexagon_names_those_of_a_device(folder: Path, put: Put) -> None:
    put("x86_64-linux-clang", "x86_64")
    arm, hexagon = put("aarch64-android", "aarch64"), put("hexagon-v75", "hexagon", 0x75)
    found = op_libraries(folder, arch="v75")
    assert [registration.file for registration in found.registrations] == [arm, hexagon] and found.arch == "v75"


@pytest.mark.parametrize("arch", [73, "73", "v73", "V73"])
def test_on_a_device_there_are_two(folder: Path, put: Put, arch: int | str) -> None:
    arm = put("aarch64-android", "aarch64")
    hexagon = put("hexagon-v73", "hexagon", 0x73)
    put("hexagon-v75", "hexagon", 0x75)
    found = op_libraries(folder, machine="aarch64", arch=arch, android=True)
    assert [
        (registration.library, registration.provider, registration.target, registration.file)
        for registration in found.registrations
    ] == [
        (str(arm), PROVIDER, "CPU", arm),
        (NAME, PROVIDER, "HTP", hexagon),
    ]
    assert (found.arch, found.search) == ("v73", (hexagon.parent,))


def test_android_and_linux_have_different_arm_libraries(folder: Path, put: Put) -> None:
    android, linux = put("aarch64-android", "aarch64"), put("aarch64-linux-gnu", "aarch64")
    put("hexagon-v81", "hexagon", 0x81)
    for is_android, file in ((True, android), (False, linux)):
        found = op_libraries(folder, machine="aarch64", arch=81, android=is_android)
        assert found.registrations[0].library == str(file)


ARM, V73, V79 = ("aarch64-linux-gnu", "aarch64"), ("hexagon-v73", "hexagon", 0x73), ("hexagon-v79", "hexagon", 0x79)
NO_VERSION = "the version of Hexagon is unknown: the device does not report it"
VERSIONS = "v68, v69, v73, v75, v79, v81, v85"
# The libraries that exist, the arguments, the error, and its hint or a part of it.
REFUSED = [
    (
        (ARM, V73, V79),
        {"machine": "aarch64", "arch": 75},
        "package LeakyReluPackage is not built for Hexagon v75 (it is for Hexagon v73, Hexagon v79)",
        "udogen build htp_v75 -C '{folder}'",
    ),
    (
        (ARM, V73),
        {"machine": "aarch64", "arch": 73, "android": True},
        "package LeakyReluPackage is not built for aarch64 Android",
        "udogen build htp_aarch64 -C '{folder}'",
    ),
    (
        (),
        {"machine": "x86_64"},
        "package LeakyReluPackage is not built for this PC",
        "udogen build htp_x86 -C '{folder}'",
    ),
    (
        (ARM, ("hexagon-v75", "hexagon", 0x68)),
        {"machine": "aarch64", "arch": 75},
        "{folder}/build/hexagon-v75/libQnnLeakyReluPackage.so is built for hexagon v68, hexagon v75 is needed",
        "",
    ),
    ((), {"machine": "riscv64"}, "HTP does not run on riscv64", ""),
    ((), {"machine": "aarch64", "arch": ""}, NO_VERSION, VERSIONS),
    ((), {"machine": "aarch64", "arch": 0}, NO_VERSION, VERSIONS),
    ((), {"machine": "aarch64", "arch": "v66"}, "there is no HTP on Hexagon v66", VERSIONS),
    ((), {"machine": "aarch64", "arch": 99}, "there is no HTP on Hexagon v99", VERSIONS),
]


@pytest.mark.parametrize(("libraries", "wanted", "message", "hint"), REFUSED)
def test_what_there_is_not_is_reported_with_the_remedy(
    folder: Path, put: Put, libraries: Sequence[tuple[Any, ...]], wanted: dict[str, Any], message: str, hint: str
) -> None:
    for library in libraries:
        put(*library)
    with pytest.raises(UdogenError) as caught:
        op_libraries(folder, **wanted)
    assert caught.value.exit_code == (5 if libraries or "built" in message else 2)
    assert caught.value.message == message.format(folder=folder)
    assert hint.format(folder=folder) in caught.value.hint


def test_what_the_hexagon_side_looks_through(folder: Path, put: Put, tmp_path: Path) -> None:
    put("aarch64-linux-gnu", "aarch64")
    hexagon = put("hexagon-v73", "hexagon", 0x73)
    found = op_libraries(folder, machine="aarch64", arch=73)
    assert adsp_library_path([found, found]) == str(hexagon.parent)
    assert adsp_library_path([found], "/vendor/dsp;/dsp") == f"{hexagon.parent};/vendor/dsp;/dsp"
    moved = folder.rename(tmp_path / "x;y")
    with refused(f"{moved}/build/hexagon-v73 cannot be in ADSP_LIBRARY_PATH: it contains `;`", error=UsageError):
        adsp_library_path([op_libraries(moved, machine="aarch64", arch=73)])


class Platform:
    """A runtime with devices of these versions that records what it registers."""

    def __init__(self, *versions: int) -> None:
        self.versions, self.registered = versions, list[tuple[str, str, str | None]]()

    def devices(self) -> list[DeviceInfo]:
        return [DeviceInfo(number, 0, version, 0, 1) for number, version in enumerate(self.versions)]

    def register(self, library: Path, provider: str, target: str | None) -> None:
        self.registered.append((str(library), provider, target))


def test_a_runtime_is_given_what_its_device_needs(folder: Path, put: Put) -> None:
    arm, _ = put("aarch64-linux-gnu", "aarch64"), put("hexagon-v79", "hexagon", 0x79)
    runtime = Platform(79, 79)
    register_package(runtime, folder, machine="aarch64")  # type: ignore[arg-type]
    assert runtime.registered == [(str(arm), PROVIDER, "CPU"), (NAME, PROVIDER, "HTP")]
    with refused("the devices of this platform are different versions of Hexagon: v73, v79", error=UsageError):
        register_package(Platform(73, 79), folder, machine="aarch64")  # type: ignore[arg-type]
    with refused("the version of Hexagon is unknown: the device does not report it", error=UsageError):
        register_package(Platform(), folder, machine="aarch64")  # type: ignore[arg-type]
    pc, file = Platform(73, 79), put("x86_64-linux-clang", "x86_64")
    register_package(pc, folder, machine="x86_64")  # type: ignore[arg-type]
    assert pc.registered == [(str(file), PROVIDER, None)]


@pytest.mark.parametrize("kind", ["real", "emulator"])
def test_a_pc_refuses_the_hexagon_library(kind: str) -> None:
    """The name reaches the runtime unchanged, which returns the error of libQnnHtp for target HTP on a PC."""
    with open_runtime("htp", kind) as runtime, pytest.raises(QnnError) as caught:
        runtime.register(Path("/nowhere/libQnnToy.so"), "ToyInterfaceProvider", "HTP")
    assert caught.value.code == 4003


def test_packages_as_the_udo_documentation_lays_them_out(tmp_path: Path, toy: bytes) -> None:
    [made, *_] = make_packages([ROOT / "examples/leaky_relu/LeakyRelu.xml"], tmp_path, chosen=["htp"], layout="snpe")
    with pytest.raises(RunFailed) as caught:
        op_libraries(made.folder, machine="x86_64")
    assert caught.value.hint == f"udogen build dsp_x86 -C {made.folder}"
