"""`make` and `udogen build` in a UDO package: every documented target, in any order, by hand and through udogen."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from tests.build import stand_ins
from tests.build.command_lines import GOLDEN, recorded_commands, udo_android, udo_dsp
from tests.build.devices import EMPTY, Elf, build
from tests.command_line import udogen
from tests.making import make, make_packages
from tests.snpe.packages import X86, config, libraries, op, package, softmax
from udogen.backends.architectures import ALL
from udogen.build import tools

CPU, GPU, DSP, REG = (
    f"x86-64_linux_clang/libUdoSoftmaxUdoPackage{name}.so" for name in ("ImplCpu", "ImplGpu", "ImplDsp", "Reg")
)
# An empty X86_CXX on the command line of make would be a compiler without a name.
NOTHING = {name: "" for name in EMPTY if not name.endswith("_CXX")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the documentation's package, in a folder with a blank and a quote in its name."""
    return softmax(tmp_path / "it's here")


@pytest.mark.parametrize(
    ("targets", "made"),
    [
        (["reg_x86"], {REG}),
        (["cpu_x86"], {REG, CPU}),
        (["all_x86"], {REG, CPU}),
        (["gpu_x86"], {REG, GPU}),
        (["dsp_x86"], {REG, DSP}),
        (["dsp_x86", "cpu_x86", "reg_x86"], {REG, CPU, DSP}),
    ],
    ids=lambda value: " ".join(sorted(value)),
)
def test_what_a_target_makes(folder: Path, targets: list[str], made: set[str]) -> None:
    """By hand, and through udogen: the same libraries; the target of a core also makes its registration library."""
    by_hand = make(folder, *targets, **NOTHING)
    assert by_hand.returncode == 0 and not by_hand.stderr, by_hand.stderr
    assert libraries(folder) == made
    assert {Elf(path).machine for path in (folder / X86).iterdir()} == {"EM_X86_64"}
    assert make(folder, "clean").returncode == 0
    assert not (folder / "libs").exists() and not (folder / "obj").exists()
    done = build(folder, *targets)
    assert done.returncode == 0, done.stderr
    assert libraries(folder) == made


def test_a_folder_of_its_own_and_again_nothing_to_do(folder: Path) -> None:
    """`make -C jni/src/CPU`, twice: the second time nothing is compiled."""
    first = make(folder / "jni/src/CPU", "cpu_x86")
    assert first.returncode == 0 and "CXX jni/src/CPU/src/ops/Softmax.cpp" in first.stdout
    assert libraries(folder) == {CPU}
    assert "CXX" not in make(folder / "jni/src/CPU", "cpu_x86").stdout
    (folder / "jni/src/CPU/src/ops/Softmax.cpp").open("a").write("// changed\n")
    os.utime(folder / "jni/src/CPU/src/ops/Softmax.cpp", (978307200, 978307200))
    assert make(folder, "cpu_x86").stdout.count("CXX jni/src/CPU") == 1


def test_two_packages_beside_each_other(tmp_path: Path) -> None:
    path = config(tmp_path, package("One", op("A", "CPU")), package("Two", op("A", "CPU"), op("B", "CPU")))
    make_packages([path], tmp_path)
    done = udogen("build", "all_x86", "-C", tmp_path, env=EMPTY)
    assert done.returncode == 0, done.stderr
    for name in ("One", "Two"):
        assert libraries(tmp_path / name) == {f"x86-64_linux_clang/libUdo{name}{end}.so" for end in ("ImplCpu", "Reg")}


def test_flags_of_the_user_are_those_of_one_core(folder: Path) -> None:
    (folder / "jni/src/CPU/user.mk").write_text("EXTRA_CXXFLAGS := -DMINE=1\n")
    (folder / "jni/src/CPU/src/ops/Softmax.cpp").open("a").write("static_assert(MINE == 1);\n")
    done = make(folder, "cpu_x86")
    assert done.returncode != 0, "a variable of the command line wins over the file"
    done = udogen("build", "cpu_x86", "-C", folder, env=EMPTY)
    assert done.returncode == 0, done.stderr


def test_targets_of_cores_that_are_not_there(tmp_path: Path) -> None:
    [made] = make_packages([config(tmp_path, package("One", op("A", "CPU")))], tmp_path)
    done = build(made.folder, "gpu_android")
    assert done.returncode == 2
    assert "no package here has a target `gpu_android`" in done.stderr
    assert "No rule to make target 'gpu'" in make(made.folder, "gpu").stderr


@pytest.mark.parametrize("target", ["reg_android", "cpu_android", "gpu_android", "all_android", "all", "cpu"])
def test_android_without_the_ndk_reports_what_is_missing(folder: Path, target: str) -> None:
    done = build(folder, target)
    assert done.returncode == 3
    assert "ANDROID_NDK_ROOT is not set" in done.stderr and "install the Android NDK" in done.stderr
    by_hand = make(folder, target, **NOTHING)
    assert by_hand.returncode != 0
    assert "ANDROID_NDK_ROOT is not set" in by_hand.stderr and "install it" in by_hand.stderr


def test_the_command_lines_of_the_hexagon_sdk(tmp_path: Path) -> None:
    made = udo_dsp(tmp_path)
    assert made.done.returncode == 0, made.done.stderr
    assert recorded_commands(made.log, tmp_path) == (GOLDEN / "udo-dsp.txt").read_text()


def test_the_command_lines_for_android_and_what_they_leave_behind(tmp_path: Path) -> None:
    """libs/arm64-v8a has the libraries of each core, and the C++ library; ndk-build empties its own folders."""
    made = udo_android(tmp_path)
    assert made.done.returncode == 0, made.done.stderr
    linked = {word for word in made.log.read_text().split() if word.endswith("Prepare.so")}
    assert linked and all(word.endswith("libSnpeHtpPrepare.so") for word in linked), "SNPE has no libQnnHtpPrepare.so"
    assert recorded_commands(made.log, tmp_path) == (GOLDEN / "udo-android.txt").read_text()
    assert libraries(made.folder) == {
        "arm64-v8a/libc++_shared.so",
        *(f"arm64-v8a/libUdoSoftmaxUdoPackage{end}.so" for end in ("ImplCpu", "ImplGpu", "ImplDsp_AltPrep", "Reg")),
        "dsp_v68/libUdoSoftmaxUdoPackageImplDsp.so",
    }


def test_ndk_build_by_hand_in_parallel(folder: Path, tmp_path: Path) -> None:
    """The stand-in reads the generated Android.mk with GNU make: every source in it exists."""
    plain = tmp_path / "plain"
    shutil.copytree(folder, plain)
    ndk = stand_ins.ndk_build(tmp_path / "ndk", tmp_path / "log")
    done = make(plain, "reg_android", "cpu_android", "gpu_android", jobs=4, ANDROID_NDK_ROOT=str(ndk))
    assert done.returncode == 0, done.stderr
    assert len(libraries(plain)) == 4
    assert (tmp_path / "log").read_text().count("MODULE: ") == 3


def test_dsp_by_zig_for_every_architecture_of_the_config(tmp_path: Path) -> None:
    """`make dsp` by hand, without an SDK: V66 in dsp_v60, later versions in their own folders, the registration."""
    archs = ["v66", *(name for name, row in ALL.items() if row.backend == "htp" and row.open)]
    [made] = make_packages([config(tmp_path, package("Wide", op("A", "DSP", archs=archs)))], tmp_path)
    zig = shlex.join(tools.zig())  # the zig of this test run, not that of the python3 on PATH
    given = {"ZIG": zig, "AARCH64_CXX": f"{zig} c++ -target aarch64-linux-gnu.2.31", **NOTHING}
    done = make(made.folder, "dsp", "dsp_aarch64", **given)
    assert done.returncode == 0, done.stderr
    folders = {"dsp_v60": 0x66, **{f"dsp_{name}": ALL[name].flags for name in archs[1:]}}
    for name, flags in folders.items():
        library = Elf(made.folder / "libs" / name / "libUdoWideImplDsp.so")
        assert (library.machine, library.flags & 0xFF) == ("EM_QDSP6", flags)
    assert Elf(made.folder / "libs/aarch64-linux-gnu/libUdoWideReg.so").machine == "EM_AARCH64"
    prepares = Elf(made.folder / "libs/aarch64-linux-gnu/libUdoWideImplDsp_AltPrep.so")
    assert (prepares.machine, prepares.needed[0]) == ("EM_AARCH64", "libSnpeHtpPrepare.so")
    assert build(made.folder, "dsp").returncode == 0


def test_dsp_in_the_layout_of_qnn(tmp_path: Path) -> None:
    """The documented names have the same meaning in both layouts."""
    from udogen.build.make import plan
    from udogen.build.package import open_packages
    from udogen.build.tools import Environment

    path = config(tmp_path, package("Both", op("A", "CPU", "DSP", archs=["v66", "v73"])))
    make_packages([path], tmp_path, layout="qnn")
    named = {"cpu": ["cpu_x86"], "dsp": ["dsp"], "htp": ["dsp", "dsp_x86", "dsp_aarch64"]}
    steps = {
        (name, step.target.id)
        for folder in open_packages(tmp_path)
        for name in named[folder.backend]
        for step in plan(folder, [name], toolchain="open", env=Environment())
    }
    assert {id_ for name, id_ in steps if name == "dsp"} == {"dsp_v66", "htp_v73"}
    assert {("dsp_x86", "htp_x86"), ("dsp_aarch64", "htp_aarch64"), ("cpu_x86", "cpu_x86")} <= steps
