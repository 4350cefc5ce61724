"""File contents decide what is rebuilt, not timestamps; running a library whose source has changed prints a warning."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.build.devices import EMPTY
from tests.build.stand_ins import is_alive, qnn_sdk, script
from tests.build.test_building import KERNEL, LIBRARY, OURS, build, compiled
from tests.command_line import udogen
from tests.making import ONE_KERNEL, ONE_OP, compiler, make, make_packages, need_runtime, open_package
from udogen import process
from udogen.build import toolchains

LONG_AGO = (978307200, 978307200)
HEADER = "include/ops/LeakyRelu.hpp"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a built package, in a folder with a blank and a quote in its name."""
    [made] = make_packages([ONE_OP], tmp_path_factory.mktemp("contents") / "it's here", kernels=ONE_KERNEL)
    assert build(made.folder).returncode == 0
    return made.folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """Return a copy of it, with newer timestamps on all files, in any order."""
    return shutil.copytree(built, tmp_path / "copy", copy_function=shutil.copyfile)


def change(path: Path, text: str = "// more\n") -> None:
    """Change the content but keep an old timestamp, as `cp -p` and `rsync -t` do."""
    path.write_text(path.read_text() + text)
    os.utime(path, LONG_AGO)


def test_a_changed_file_with_an_old_time(folder: Path) -> None:
    assert compiled(build(folder)) == [], "copied, and nothing has changed"
    kept = (folder / KERNEL).read_text()
    change(folder / KERNEL)
    assert compiled(build(folder)) == [KERNEL]
    change(folder / HEADER)
    assert compiled(build(folder)) == sorted([KERNEL, "src/CpuCustomOpPackage.cpp"])
    assert compiled(build(folder)) == []
    (folder / KERNEL).write_text(kept)
    os.utime(folder / KERNEL, LONG_AGO)
    assert compiled(build(folder)) == [KERNEL]
    for path in (folder / KERNEL, folder / HEADER):
        os.utime(path)
    assert compiled(build(folder)) == [], "newer, and the same"


def test_a_clock_that_was_wrong(folder: Path) -> None:
    later = time.time() + 1e8
    for path in (folder / "obj").rglob("*"):
        os.utime(path, (later, later))
    os.utime(folder / LIBRARY, (later, later))
    change(folder / KERNEL, "int mark_of_the_change() { return 1; }\n")
    assert compiled(build(folder)) == [KERNEL]
    assert b"mark_of_the_change" in (folder / LIBRARY).read_bytes() or (folder / LIBRARY).stat().st_mtime < later


@pytest.mark.parametrize("what", ["library", "object", "no record", "empty record"])
def test_what_was_made_is_not_what_was_made(folder: Path, what: str) -> None:
    whole = (folder / LIBRARY).read_bytes()
    made, record = (
        folder / "obj/x86_64-linux-clang" / name for name in ("src/ops/LeakyRelu.o", "src/ops/LeakyRelu.o.sums")
    )
    recorded = record.read_text()
    if what == "library":
        (folder / LIBRARY).write_bytes(whole[:1000])
    elif what == "object":
        made.write_bytes(made.read_bytes()[:500])
    elif what == "no record":
        record.unlink()
    else:
        record.write_text("")
    done = build(folder)
    recompiled = [] if what == "library" else [KERNEL]
    assert compiled(done) == recompiled and "LINK" in done.stderr
    assert record.read_text() == recorded
    assert (folder / LIBRARY).read_bytes() == whole


def test_a_file_that_changes_while_it_is_compiled(folder: Path, tmp_path: Path) -> None:
    once = tmp_path / "once"
    late = script(
        tmp_path / "g++",
        f'g++ "$@" || exit\ncase "$*" in *-c*{KERNEL}*) [ -e {shlex.quote(str(once))} ] || '
        f"{{ touch {shlex.quote(str(once))}; echo '// late' >> {KERNEL}; touch -d 2001-01-01 {KERNEL}; }};; esac\n",
    )
    assert KERNEL in compiled(build(folder, X86_CXX=shlex.quote(str(late))))
    assert compiled(build(folder, X86_CXX=shlex.quote(str(late)))) == [KERNEL]
    assert compiled(build(folder, X86_CXX=shlex.quote(str(late)))) == []


def test_a_failed_build_keeps_what_it_compiled(folder: Path) -> None:
    kernel = (folder / KERNEL).read_text()
    shutil.rmtree(folder / "obj")
    change(folder / KERNEL, "an error\n")
    assert make(folder, "cpu_x86").returncode != 0, "-k: all others are compiled"
    (folder / KERNEL).write_text(kernel)
    change(folder / "src/udogen_cpu.cpp")
    again = [line for line in make(folder, "cpu_x86").stdout.splitlines() if line.startswith("CXX ")]
    assert sorted(again) == [f"CXX {KERNEL}", "CXX src/udogen_cpu.cpp"]


def test_plain_make_and_udogen_build_take_turns(folder: Path) -> None:
    """Each with the compiler that it finds itself."""
    first = make(folder, "cpu_x86")
    assert first.stdout.count("CXX") in (0, len(OURS))
    assert compiled(udogen("build", "-C", folder, env=EMPTY)) == []
    assert "CXX" not in make(folder, "cpu_x86").stdout
    assert make(folder, "cpu_x86", flags="-O1").stdout.count("CXX") == len(OURS)
    assert make(folder, "cpu_x86", flags="-O1").stdout.count("CXX") == 0
    change(folder / KERNEL)
    assert make(folder, "cpu_x86", flags="-O1").stdout.count("CXX") == 1
    assert compiled(udogen("build", "-C", folder, env=EMPTY)) == sorted(OURS), "other flags"


def test_headers_of_an_sdk_whose_path_has_a_blank(folder: Path, tmp_path: Path) -> None:
    root = qnn_sdk(tmp_path / "it's an sdk")
    assert compiled(build(folder, QNN_SDK_ROOT=str(root), X86_CXX="g++")) == sorted(OURS)
    assert compiled(build(folder, QNN_SDK_ROOT=str(root), X86_CXX="g++")) == []
    change(root / "include/QNN/CPU/QnnCpuOpPackage.h")
    assert compiled(build(folder, QNN_SDK_ROOT=str(root), X86_CXX="g++")) == sorted(OURS)


def test_ndk_build_compiles_everything_where_times_would_hide_a_change(tmp_path: Path) -> None:
    """A stand-in records whether it is called with -B; a real NDK is not available here."""
    [made] = make_packages([ONE_OP], tmp_path / "made", chosen=["cpu"], layout="snpe", kernels=ONE_KERNEL)
    folder, kernel = made.folder, made.folder / "jni/src/CPU/src/ops/LeakyRelu.cpp"
    script(
        tmp_path / "ndk/ndk-build",
        'case "$*" in *obj/cpu/*) echo "$*" > called;; esac\n'
        "for core in cpu reg; do mkdir -p obj/$core/android/libs/arm64-v8a obj/$core/android/local\n"
        "for name in ImplCpu Reg; do echo x > obj/$core/android/libs/arm64-v8a/libUdoLeakyReluPackage$name.so\n"
        "done; done\n",
    )

    def everything(**env: str) -> bool:
        done = build(folder, "cpu_android", ANDROID_NDK_ROOT=str(tmp_path / "ndk"), **env)
        assert done.returncode == 0, done.stderr
        return "-B" in (folder / "called").read_text().split()

    assert [everything(), everything()] == [False, False]
    kernel.write_text(kernel.read_text() + "\n")
    assert not everything(), "the new time says it"
    change(kernel)
    assert [everything(), everything()] == [True, False]
    assert [everything(EXTRA_CXXFLAGS="-O1"), everything(EXTRA_CXXFLAGS="-O1")] == [True, False]
    shutil.rmtree(folder / "jni/src/CPU/src/utils/CPU")
    assert everything(EXTRA_CXXFLAGS="-O1")


# --- running a library ----------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> list[str]:
    need_runtime("cpu")
    np.save(tmp_path / "x.npy", np.array([[1, -2]], np.float32))
    return ["LeakyRelu", "--input", f"input={tmp_path / 'x.npy'}"]


def test_run_op_reports_that_the_source_has_changed(folder: Path, run: list[str], tmp_path: Path) -> None:
    assert udogen("run", "op", folder, *run).stderr.startswith("next: ")
    change(folder / KERNEL)
    sentence = f"libLeakyReluPackage.so was built from another {KERNEL}; run `udogen build -C {folder}`"
    for path in (folder, folder / LIBRARY):
        done = udogen("run", "op", path, *run)
        assert (done.returncode, done.stderr.splitlines()[0]) == (0, f"warning: {sentence}")
    answer = json.loads(udogen("run", "op", folder, *run, "--json").stdout)
    assert answer["ok"] and answer["warnings"] == [sentence]
    change(folder / HEADER)
    assert f"another {KERNEL} and 1 more changed files" in udogen("run", "op", folder, *run).stderr
    assert build(folder).returncode == 0
    assert udogen("run", "op", folder, *run).stderr.startswith("next: ")
    assert "warnings" not in json.loads(udogen("run", "op", folder, *run, "--json").stdout)


def test_what_no_record_is_about(folder: Path) -> None:
    package = open_package(folder)
    change(folder / KERNEL)
    library = folder / LIBRARY
    assert package.changed_since(library) == [KERNEL]
    (folder / KERNEL).unlink()
    assert package.changed_since(library) == [KERNEL]
    library.write_bytes(library.read_bytes() + b"of somebody else")
    assert package.changed_since(library) == []
    library.unlink()
    assert package.changed_since(library) == []


def test_a_test_that_builds_nothing_is_no_test_of_changed_sources(tmp_path: Path) -> None:
    from tests.verify import toy
    from udogen import TestOptions
    from udogen.verify import planning, test_run
    from udogen.verify.test_files.read import load_test_files

    need_runtime("cpu")
    folder = toy.write(tmp_path / "toy", toy.RIGHT)

    def errors(*, build: bool) -> set[str]:
        options = TestOptions(backends=("cpu",), build=build, work=tmp_path / "work")
        run = test_run.run(planning.plan(load_test_files(folder), options), options)
        assert run.verdict.ok == (not run.bad)
        return {each.error.message for each in run.bad if each.error}

    assert errors(build=True) == set()
    change(next(folder.rglob("Scale.cpp")))
    [reported] = errors(build=False)
    assert "libToyPackage.so was built from another src/ops/Scale.cpp; run `udogen build" in reported
    assert errors(build=True) == set() == errors(build=False)


# --- what a build has started ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True])
def test_a_timeout_ends_what_the_program_has_started(tmp_path: Path, tied: bool) -> None:
    pids = tmp_path / "pids"
    argv = ["sh", "-c", f"sleep 60 >/dev/null 2>&1 & echo $! > {pids}; wait"]
    assert process.run(argv, timeout=2.0, starting=process.Tied if tied else None).timed_out
    for _ in range(100):
        if not is_alive(int(pids.read_text())):
            return
        time.sleep(0.05)
    raise AssertionError("what it started lives on")


def test_a_tied_program_is_as_any_other() -> None:
    argv = ["sh", "-c", 'cat; echo "$0 $1"; echo printed >&2; exit 3', "a b", "$x"]
    done, plain = process.run(argv, starting=process.Tied), process.run(argv)
    assert done == plain and (done.returncode, done.stdout, done.stderr) == (3, "a b $x\n", "printed\n")


def test_zig_by_the_name_that_make_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler("zig")
    chosen = Path(sys.executable)
    monkeypatch.setenv("PATH", str(script(tmp_path / "python3", "exit 1\n").parent))
    assert str(chosen) in toolchains.zig_command()
    monkeypatch.setenv("PATH", str(chosen.parent))
    if (chosen.parent / "python3").exists():
        assert toolchains.zig_command() == "python3 -m ziglang c++"
