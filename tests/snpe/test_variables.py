"""The variables of the UDO documentation: each works as documented, in plain make and through `udogen build`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.build import stand_ins
from tests.build.devices import build
from tests.making import make, make_packages
from tests.snpe.packages import X86, config, op, package, softmax, two_families
from udogen import resources

REG = f"{X86}/libUdoSoftmaxUdoPackageReg.so"


def snpe(root: Path) -> Path:
    """Return a folder with foreign SnpeUdo headers: udogen's, with a mark that the compiler can see."""
    shutil.copytree(resources.qnn_headers() / "SnpeUdo", root / "SnpeUdo")
    header = root / "SnpeUdo" / "UdoReg.h"
    header.write_text("#define FROM_THE_SDK 1\n" + header.read_text())
    return root


@pytest.mark.parametrize(
    ("variable", "below", "named"),
    [
        ("SNPE_UDO_ROOT", "include/SNPE", "include/SNPE/SnpeUdo"),  # the folder of the headers, as documented
        ("SNPE_UDO_ROOT", "include/SNPE", "include/SNPE"),
        ("SNPE_UDO_ROOT", "share/SnpeUdo/include", "share/SnpeUdo"),  # SDKs of 2020 to 2022
        ("SNPE_UDO_ROOT", "include/SNPE", "share/SNPE/SnpeUdo"),  # as in tutorials of SNPE
        ("SNPE_ROOT", "include/SNPE", "."),
        ("SNPE_ROOT", "share/SnpeUdo/include", "."),
    ],
)
def test_whose_headers_the_registration_library_has(variable: str, below: str, named: str, tmp_path: Path) -> None:
    sdk = tmp_path / "the sdk"
    snpe(sdk / below)
    (sdk / named).mkdir(parents=True, exist_ok=True)
    folder = softmax(tmp_path / "package")
    source = folder / "jni/src/reg/SoftmaxUdoPackageRegLib.cpp"
    source.write_text(source.read_text() + "\nstatic_assert(FROM_THE_SDK == 1);\n")
    value = str(sdk / named)
    assert make(folder, "reg_x86").returncode != 0, "ours have no such mark"
    assert make(folder, "reg_x86", **{variable: value}).returncode == 0
    shutil.rmtree(folder / "libs")
    done = build(folder, "reg_x86", **{variable: value})
    assert done.returncode == 0 and f"SnpeUdo headers of {sdk / named}" in done.stderr, done.stderr
    done = build(folder, "reg_x86", "--toolchain", "open", **{variable: value})
    assert done.returncode == 4, "the open toolchain takes our own headers, whatever is set"


def test_a_folder_without_headers_is_reported_before_anything_is_compiled(tmp_path: Path) -> None:
    folder = softmax(tmp_path)
    for variable in ("SNPE_UDO_ROOT", "SNPE_ROOT"):
        done = make(folder, "reg_x86", **{variable: str(tmp_path)})
        assert done.returncode != 0 and "CXX" not in done.stdout
        assert f"{variable} is {tmp_path}, which has no SnpeUdo/UdoReg.h" in done.stderr
    done = build(folder, "reg_x86", SNPE_UDO_ROOT=str(tmp_path))
    assert done.returncode == 3 and "CXX" not in done.stderr
    assert f"SNPE_UDO_ROOT is {tmp_path}, which has no SnpeUdo/UdoReg.h" in done.stderr


def test_the_config_names_the_headers_where_the_environment_does_not(tmp_path: Path) -> None:
    sdk = snpe(tmp_path / "sdk")
    path = config(tmp_path, package("One", op("A", "CPU"), SNPE_UDO_ROOT=str(sdk)))
    [made] = make_packages([path], tmp_path / "out")
    source = made.folder / "jni/src/reg/OneRegLib.cpp"
    source.write_text(source.read_text() + "\nstatic_assert(FROM_THE_SDK == 1);\n")
    assert make(made.folder, "reg_x86").returncode == 0
    assert build(made.folder, "reg_x86").returncode == 0


def hexagon(folder: Path, target: str, log: Path, **env: str) -> str:
    """Return the compiler that plain make calls for a DSP target, and whether the SDK's set-up variable is visible."""
    log.unlink(missing_ok=True)
    done = make(folder, target, jobs=1, **env)
    assert done.returncode == 0, done.stderr
    return log.read_text()


@pytest.fixture
def sdks(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return a package for V66 and V68, Hexagon SDK 3.5.2, and 4.2.0: their compilers log their name and version."""
    folder = two_families(tmp_path / "package")
    for name, version in (("sdk3", "8.3.07"), ("sdk4", "8.4.09")):
        stand_ins.script(
            tmp_path / name / "tools/HEXAGON_Tools" / version / "Tools/bin/hexagon-clang++",
            f"echo \"{name} {version} setup=$SDK_SETUP_ENV\" >> '{tmp_path}/log'\n"
            'while [ $# -gt 0 ]; do if [ "$1" = -o ]; then echo stand-in > "$2"; fi; shift; done\n',
        )
    return folder, tmp_path / "sdk3", tmp_path / "sdk4"


def test_hexagon_sdk_root_is_for_every_version_unless_sdk4_is_named(
    sdks: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    folder, old, new = sdks
    both = {"HEXAGON_SDK_ROOT": str(old), "HEXAGON_SDK4_ROOT": str(new)}
    for target, env, line in (
        ("dsp_v66", both, "sdk3 8.3.07 setup=Done"),
        ("dsp_v68", both, "sdk4 8.4.09 setup=Done"),
        ("dsp_v68", {"HEXAGON_SDK_ROOT": str(new)}, "sdk4 8.4.09 setup=Done"),
        ("dsp_v66", {"HEXAGON_SDK_ROOT": str(old), "SDK_SETUP_ENV": "Mine"}, "sdk3 8.3.07 setup=Mine"),
    ):
        assert set(hexagon(folder, target, tmp_path / "log", **env).splitlines()) == {line}
        make(folder, "clean")


def test_hexagon_tools_root_names_tools_that_are_not_in_the_sdk(sdks: tuple[Path, Path, Path], tmp_path: Path) -> None:
    folder, _, new = sdks
    elsewhere = tmp_path / "tools elsewhere" / "8.4.11"
    shutil.copytree(new / "tools/HEXAGON_Tools/8.4.09", elsewhere)
    empty = tmp_path / "empty"
    (empty / "incs").mkdir(parents=True)
    output = hexagon(
        folder, "dsp_v68", tmp_path / "log", HEXAGON_SDK_ROOT=str(empty), HEXAGON_TOOLS_ROOT=str(elsewhere)
    )
    assert "sdk4" in output
    done = build(folder, "dsp_v68", HEXAGON_SDK_ROOT=str(empty), HEXAGON_TOOLS_ROOT=str(elsewhere))
    assert done.returncode == 0 and "hexagon-clang++ 8.4.11" in done.stderr, done.stderr


def test_x86_cxx_is_the_compiler(tmp_path: Path) -> None:
    folder = softmax(tmp_path)
    compiler = stand_ins.script(tmp_path / "my g++", 'echo "called" >&2\nexec g++ "$@"\n')
    assert "called" in make(folder, "dsp_x86", cxx=f"'{compiler}'").stderr
    done = build(folder, "cpu_x86", X86_CXX="no-such-compiler")
    assert done.returncode == 3 and "X86_CXX names `no-such-compiler`" in done.stderr
