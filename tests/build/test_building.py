"""`udogen build`, and plain make in a package folder: what is built and rebuilt, with which tools, and how it fails."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import devices, stand_ins
from tests.build.devices import CACHED, EMPTY, Elf
from tests.build.stand_ins import qnn_sdk
from tests.command_line import udogen
from tests.golden import EXPLANATIONS, explanations
from tests.making import CONFIGS, LONG, ONE_KERNEL, ONE_OP, ROOT, compiler, make, make_packages, open_package
from udogen import BuildFailed, PackageLibrary, ToolMissing
from udogen.build import make as driver
from udogen.build import tools
from udogen.build.package import open_packages

LIBRARY = "libs/x86_64-linux-clang/libLeakyReluPackage.so"
KERNEL = "src/ops/LeakyRelu.cpp"
OURS = (
    KERNEL, "src/CpuCustomOpPackage.cpp", "src/LeakyReluPackageInterface.cpp", "src/udogen_cpu.cpp"
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a package with a finished kernel, in a folder with a blank and a quote in its name."""
    [made] = make_packages([ONE_OP], tmp_path / "it's here", kernels=ONE_KERNEL)
    return made.folder


@pytest.fixture
def package(folder: Path) -> PackageLibrary:
    return open_package(folder)


def build(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `udogen build`, with clang++ unless another compiler is given, without the variables of the caller."""
    return udogen("build", "-C", folder, *arguments, env={**EMPTY, "X86_CXX": "clang++", **env})


def compiled(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the compiled sources, sorted."""
    return sorted(devices.compiled(done))


# --- what is rebuilt ----------------------------------------------------------------------------------------


def test_a_build_and_what_makes_it_old(folder: Path) -> None:
    first = build(folder)
    assert first.returncode == 0, first.stderr
    assert compiled(first) == sorted(OURS)
    assert first.stdout == f"{folder / LIBRARY} ({len(OURS)} compiled)\n"
    assert "cpu_x86: open toolchain: clang++, udogen's own headers" in first.stderr

    again = build(folder)
    assert (again.stdout, compiled(again)) == (f"{folder / LIBRARY} (up to date)\n", [])

    (folder / KERNEL).write_text((folder / KERNEL).read_text() + "\n")
    assert compiled(build(folder)) == [KERNEL]

    header = folder / "include/ops/LeakyRelu.hpp"
    header.write_text(header.read_text() + "\n")
    assert compiled(build(folder)) == sorted([KERNEL, "src/CpuCustomOpPackage.cpp"])

    assert compiled(build(folder, EXTRA_CXXFLAGS="-DX='a b'")) == sorted(OURS)
    assert compiled(build(folder, EXTRA_CXXFLAGS="-DX='a b'")) == []
    assert "LINK" in build(folder, EXTRA_CXXFLAGS="-DX='a b'", EXTRA_LDFLAGS="-Wl,--as-needed").stderr


def test_sources_and_flags_of_the_users_own(folder: Path) -> None:
    (folder / "user.mk").write_text("EXTRA_SOURCES := src/mine.cpp\nEXTRA_CXXFLAGS := -DFACTOR=2\n")
    (folder / "src/mine.cpp").write_text("int mine() { return FACTOR; }\n")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    assert "src/mine.cpp" in compiled(done)
    assert b"_Z4minev" in (folder / "obj/x86_64-linux-clang/src/mine.o").read_bytes()
    (folder / "user.mk").unlink()
    done = build(folder, EXTRA_CXXFLAGS="-DFACTOR=2")
    assert "LINK" in done.stderr, "a source fewer makes the library old"


def test_make_by_hand_and_clean(folder: Path) -> None:
    done = make(folder, "cpu_x86", cxx=compiler("g++"), jobs=4)
    assert done.returncode == 0, done.stderr
    assert (folder / LIBRARY).is_file()
    assert make(folder, "clean").returncode == 0
    assert not (folder / "libs/x86_64-linux-clang").exists() and not (folder / "obj/x86_64-linux-clang").exists()
    assert (folder / KERNEL).is_file()
    done = make(folder, "all_x86", cxx=compiler("clang++"))
    assert done.returncode == 0, done.stderr


def test_the_library_exports_its_provider_and_counters_alone(folder: Path) -> None:
    from udogen.build import elf
    from udogen.runtime.library import interface_providers

    assert build(folder).returncode == 0
    assert interface_providers(folder / LIBRARY) == ["LeakyReluPackageInterfaceProvider"]
    # All others come from templates of the standard library: weak symbols of C++.
    assert {name for name in elf.read(folder / LIBRARY).exports if name and not name.startswith("_")} == {
        f"LeakyReluPackage{name}" for name in ("InterfaceProvider", "Executions", "Counted", "Refusal")
    }


def test_json(folder: Path) -> None:
    done = build(folder, "--json")
    answer = json.loads(done.stdout)
    assert answer.keys() == {"ok", "seconds", "artifacts", "warnings"} and not answer["warnings"]
    [artifact] = answer["artifacts"]
    assert set(artifact) == set("package provider target library toolchain compiler compiled vectors".split())
    assert artifact["target"] == "cpu_x86" and artifact["library"] == str(folder / LIBRARY)
    assert sorted(artifact["compiled"]) == sorted(OURS)
    assert "CXX" not in done.stderr


# --- targets ------------------------------------------------------------------------------------------------


def planned(package: PackageLibrary, *names: str, toolchain: str = "auto", **env: str) -> list[driver.Step]:
    return driver.plan(package, names, toolchain=toolchain, env=tools.Environment(**env))


def test_targets_and_groups(package: PackageLibrary, tmp_path: Path) -> None:
    ndk = str(stand_ins.ndk(tmp_path / "ndk", tmp_path / "log"))
    for names, expected in (
        ((), ["cpu_x86"]),
        (("cpu_x86", "all_x86"), ["cpu_x86"]),
        (("cpu",), ["cpu_x86", "cpu_android"]),
        (("all",), ["cpu_x86", "cpu_android"]),
        (("all_android", "cpu_x86"), ["cpu_android", "cpu_x86"]),
        (("all_aarch64",), ["cpu_aarch64"]),
    ):
        assert [step.target.id for step in planned(package, *names, android_ndk_root=ndk)] == expected


@pytest.mark.parametrize("name", ["cpu_x87", "gpu_android", "", "../x", "clean"])
def test_a_target_that_is_not_there(folder: Path, name: str) -> None:
    done = build(folder, name)
    assert done.returncode == 2
    assert "its targets: cpu_x86, cpu_aarch64, cpu_android" in done.stderr


def test_a_folder_that_is_no_package(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode == 2
    assert "contains no package that udogen generated" in done.stderr


# --- toolchains ---------------------------------------------------------------------------------------------


def test_a_compiler_with_arguments(folder: Path) -> None:
    done = build(folder, X86_CXX="g++ -DMINE='1 2'")
    assert done.returncode == 0, done.stderr
    assert "-DMINE='1 2'" in (folder / "obj/x86_64-linux-clang/command").read_text()


def test_no_compiler_at_all(package: PackageLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "program", lambda _name: "")
    monkeypatch.setattr(tools, "zig", lambda: ())
    with pytest.raises(ToolMissing) as caught:
        planned(package)
    assert caught.value.details == ("sdk: QNN_SDK_ROOT is not set", "open: no C++ compiler found")
    assert "pip install ziglang" in caught.value.hint


def test_no_make(folder: Path, tmp_path: Path) -> None:
    done = build(folder, PATH=str(tmp_path), X86_CXX=shutil.which("g++") or "/usr/bin/g++")
    assert done.returncode == 3
    assert "`make` is not on PATH" in done.stderr and "apt-get install make" in done.stderr


def test_headers_of_an_sdk_are_used_and_named(folder: Path, tmp_path: Path) -> None:
    root = qnn_sdk(tmp_path / "the sdk")
    shutil.rmtree(folder / "include" / "QNN")
    clang = compiler("clang++")
    done = build(folder, QNN_SDK_ROOT=str(root), X86_CXX=clang)
    assert done.returncode == 0, done.stderr
    assert f"cpu_x86: sdk toolchain: {clang}, headers of {root}" in done.stderr
    assert build(folder, "--toolchain", "open", QNN_SDK_ROOT=str(root)).returncode == 4, "its own headers are gone"


NDK_CLANG = "toolchains/llvm/prebuilt/linux-x86_64/bin/clang++"


@pytest.mark.parametrize(
    ("arguments", "env", "code", "texts"),
    [
        ("", {"QNN_SDK_ROOT": "/nowhere"}, 3, ["/nowhere, which has no include/QNN/QnnInterface.h", "unset it"]),
        ("--toolchain sdk", {}, 3, ["sdk: QNN_SDK_ROOT is not set"]),
        ("--toolchain magic", {}, 2, ["'magic' is not one of"]),
        ("cpu_android", {}, 3, ["ANDROID_NDK_ROOT is not set", "install the Android NDK"]),
        ("cpu_android", {"ANDROID_NDK_ROOT": "/nowhere"}, 3, [f"which has no {NDK_CLANG}"]),
        ("", {"X86_CXX": "no-such-compiler"}, 3, ["X86_CXX names `no-such-compiler`", "no such program"]),
        ("cpu_aarch64", {"AARCH64_CXX": "no-such-compiler"}, 3, ["AARCH64_CXX names `no-such-compiler`"]),
        ("", {"X86_CXX": "/nowhere/g++ -O2"}, 3, ["X86_CXX names `/nowhere/g++`"]),
        ("", {"X86_CXX": "'unclosed"}, 3, ["X86_CXX names `'unclosed`"]),
    ],
)
def test_what_is_missing(folder: Path, arguments: str, env: dict[str, str], code: int, texts: list[str]) -> None:
    done = build(folder, *arguments.split(), **env)
    assert done.returncode == code, done.stderr
    assert [text for text in texts if text not in done.stderr] == []


def test_aarch64_linux_by_zig(folder: Path) -> None:
    compiler("zig")
    done = build(folder, "cpu_aarch64", **CACHED)
    assert done.returncode == 0, done.stderr
    assert "cpu_aarch64: open toolchain: zig c++ -target aarch64-linux-gnu" in done.stderr
    elf = Elf(folder / "libs/aarch64-linux-gnu/libLeakyReluPackage.so")
    assert (elf.machine, elf.kind) == ("EM_AARCH64", "ET_DYN")
    assert "LeakyReluPackageInterfaceProvider" in elf.exported


# --- failures -----------------------------------------------------------------------------------------------


def test_what_compilers_say_is_made_short() -> None:
    kept = {path.name.removesuffix(".shown.txt"): path.read_text("utf-8") for path in EXPLANATIONS.glob("*.shown.txt")}
    assert kept == explanations(), "run `make golden` and look at the difference"


@pytest.mark.parametrize("name", ["g++", "clang++"])
def test_a_compile_error_is_short_with_the_users_file_first(folder: Path, name: str) -> None:
    text = (folder / KERNEL).read_text().replace("return x > 0.0f ? x : alpha * x;", "return x > 0.0f ? x : beta * x;")
    (folder / KERNEL).write_text(text)
    utils = folder / "include/udogen.hpp"
    utils.write_text(utils.read_text() + "\nint of_ours = missing_of_ours;\n")
    done = build(folder, X86_CXX=compiler(name))
    assert done.returncode == 4
    lines = done.stderr.splitlines()
    printed = [line for line in lines if not line.startswith(("  CXX ", "LeakyReluPackage: cpu_x86:", "warning: "))]
    log = folder / "obj" / "cpu_x86.log"
    assert printed[0].startswith("error: cpu_x86 of LeakyReluPackage failed to build (")
    assert printed[1].startswith(f"  {folder / KERNEL}:8: ") and "beta" in printed[1]
    assert "float leaky(float x, float alpha)" in printed[2] and "^" in printed[3]
    assert printed[4].startswith(f"  {utils}:") and "missing_of_ours" in printed[4]
    assert printed[-1] == f"  = full output of the compiler: {log}"
    assert len(printed) == 8, "each fault once, though two files include the header"
    assert "beta" in log.read_text() and "missing_of_ours" in log.read_text()


@pytest.mark.parametrize("name", ["g++", "clang++", "zig"])
def test_a_linker_error_names_the_symbol(folder: Path, name: str) -> None:
    text = (folder / KERNEL).read_text()
    text = text.replace("namespace ops", "float nobody_has_this(float);\n\nnamespace ops", 1)
    (folder / KERNEL).write_text(text.replace("alpha * x;", "nobody_has_this(alpha) * x;", 1))
    done = build(folder, X86_CXX=compiler(name))
    assert done.returncode == 4
    assert "undefined symbol: nobody_has_this(float)" in done.stderr
    assert not (folder / LIBRARY).exists()


def test_errors_in_json(folder: Path) -> None:
    (folder / KERNEL).write_text("#error mine\n")
    done = build(folder, "--json")
    assert done.returncode == 4
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "build-failed"
    assert error["details"][0] == f"{folder / KERNEL}:1: mine"


@pytest.mark.parametrize(
    ("line", "ops"),
    [
        ("make: *** [Makefile:33: obj/x86_64-linux-clang/src/ops/LeakyRelu.o] Error 1", ("LeakyRelu",)),
        ("LeakyRelu.cpp:(.text+0x5): undefined reference to `helper()'", ("LeakyRelu",)),
        ("/x/src/ops/LeakyRelu.cpp:2: undefined reference to `helper()'", ("LeakyRelu",)),
        (">>> referenced by LeakyRelu.cpp:2 (/x/src/ops/LeakyRelu.cpp:2)", ("LeakyRelu",)),
        (">>>               obj/LeakyRelu.o:(go)", ()),
        ("make: *** [Makefile:33: obj/x86_64-linux-clang/src/Interface.o] Error 1", ()),
    ],
)
def test_an_error_knows_the_ops_that_do_not_compile(package: PackageLibrary, line: str, ops: tuple[str, ...]) -> None:
    assert driver.explain(f"{line}\n", package, planned(package)[0]).ops == ops


def test_many_errors_are_counted_not_shown(package: PackageLibrary) -> None:
    step = planned(package)[0]
    text = "".join(f"src/a.cpp:{line}:1: error: fault {line}\n" for line in range(1, 21))
    text += f"{KERNEL}:7:2: fatal error: nothing.h: No such file\n"
    fault = driver.explain(text, package, step)
    assert isinstance(fault, BuildFailed)
    assert fault.details[0] == f"{package.path / KERNEL}:7: nothing.h: No such file"
    assert fault.details[-1] == "… and 16 more"
    assert len(fault.details) == 6


def test_a_build_whose_log_cannot_be_written_still_reports_why(package: PackageLibrary) -> None:
    (package.path / "obj").write_text("a file")
    assert driver.explain("make: something odd\n", package, planned(package)[0]).details == ("make: something odd",)


def test_kernels_of_a_project_and_their_copies(tmp_path: Path) -> None:
    def run(verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**EMPTY, "X86_CXX": "clang++"}
        return udogen(verb, *arguments, cwd=tmp_path / "scale", env=env)

    def generated() -> str:
        return run("generate", "Scale.xml", "--kernels", "kernels", "-o", "out", "--backend", "cpu").stderr

    udogen("new", "scale", cwd=tmp_path)
    kernel, name = tmp_path / "scale" / "kernels" / "Scale.cpp", "out/ScaleOpPackage/src/ops/Scale.cpp"
    kernel.write_text(kernel.read_text() + "#error mine\n")
    assert "warning" not in generated()
    fault = run("build", "-C", "out")
    assert fault.returncode == 4 and "  kernels/Scale.cpp:13: " in fault.stderr and name not in fault.stderr
    kernel.write_text(kernel.read_text().replace("#error mine\n", ""))
    old = run("build", "-C", "out").stderr
    assert old.startswith(
        f"warning: {name}, which is built, is an old copy of kernels/Scale.cpp: run `udogen generate`"
    )
    assert "warning" not in generated()
    copy = tmp_path / "scale" / name
    copy.write_text(copy.read_text() + "#error in the copy\n")
    warning = f"warning: {name} was edited; it is built, and kernels/Scale.cpp is not.  Copy your edit to kernels/"
    assert generated().startswith(warning) and copy.read_text().endswith("#error in the copy\n")
    fault = run("build", "-C", "out")
    assert fault.stderr.startswith(warning) and f"  {name}:13: " in fault.stderr


def test_an_old_library_is_no_success(folder: Path) -> None:
    assert build(folder).returncode == 0
    (folder / KERNEL).write_text("#error mine\n")
    assert build(folder).returncode == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_leaves_no_compiler_behind(folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    slow = stand_ins.slow(tmp_path / "slow-cxx", tmp_path / "started")
    env = {**EMPTY, "X86_CXX": shlex.quote(str(slow))}
    stand_ins.check_interrupt(["-C", str(folder)], tmp_path / "started", count=1, number=number, **env)


def test_a_make_around_us_does_not_matter(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(f'all:\n\t+"{sys.executable}" -m udogen build -C "{folder}"\n')
    env = {**os.environ, **EMPTY, "X86_CXX": "clang++", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["make", "-j3", "-C", str(tmp_path)], env=env, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert "jobserver" not in done.stderr


def test_every_target_of_a_package_has_a_rule(tmp_path: Path) -> None:
    """For each backend in each layout; make only reads its files."""
    for name in ("both.xml", "gpu.xml", "several.xml", "udo.json"):
        made = make_packages([CONFIGS / name], tmp_path / name)
        for part in (each for package in made for each in open_packages(package.folder)):
            lines = make(part.path, "-npr", "clean", strict=False).stdout.splitlines()
            rules = {line.partition(":")[0] for line in lines}
            assert {row.id for row in part.rows} <= rules, (name, part.backend)
