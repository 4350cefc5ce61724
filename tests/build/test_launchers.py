"""Launchers in front of each compiler: the real ccache, and one that records its calls."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import stand_ins
from tests.build.devices import EMPTY, build, compiled, generated
from tests.making import ONE_KERNEL, ONE_OP, make, make_packages, udogen
from tests.snpe import packages as udo


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """Return a launcher that writes the program that it calls to `called`, next to itself."""
    return stand_ins.script(tmp_path / "launcher", 'echo "$1" >> "$(dirname "$0")/called"\nexec "$@"\n')


def called(launcher: Path) -> list[str]:
    """Return the compilers that it has called since the last time."""
    log = launcher.with_name("called")
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def cpu_package(work: Path) -> Path:
    """Return a package for the CPU, in a folder with a blank and a quote in its name."""
    [made] = make_packages([ONE_OP], work / "it's here", kernels=ONE_KERNEL)
    return made.folder


def hits_and_misses() -> tuple[int, int]:
    """Return the hits and misses of the ccache in `CCACHE_DIR`."""
    done = subprocess.run(["ccache", "--print-stats"], capture_output=True, text=True, check=True)
    counts = dict(line.split("\t") for line in done.stdout.splitlines())
    hits = int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])
    return hits, int(counts["cache_miss"])


@pytest.mark.parametrize("target", ["cpu_x86", "htp_v68"])
def test_a_build_in_another_folder_is_all_hits_of_ccache(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("ccache"):
        pytest.skip("ccache is not installed")
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "cache"))
    first, second = (
        cpu_package(tmp_path / each) if target == "cpu_x86" else generated(tmp_path / each) for each in "ab"
    )
    env = {"X86_CXX": "g++", "EXTRA_CXXFLAGS": "-O0"}
    done = build(first, target, "--launcher", "ccache", **env)
    assert done.returncode == 0, done.stderr
    assert ", by ccache" in done.stderr
    files = len(compiled(done))
    assert hits_and_misses() == (0, files)
    zig = shlex.join([sys.executable, "-m", "ziglang"])
    assert make(second, target, cxx="g++", flags="-O0", ZIG=zig, LAUNCHER="ccache").returncode == 0
    assert hits_and_misses() == (files, files)
    assert compiled(build(second, target, **env)) == []  # neither another launcher nor plain make rebuilds anything


def test_every_compiler_is_called_by_the_launcher(tmp_path: Path, launcher: Path) -> None:
    """The compilers of the Hexagon SDK and the NDK; by `udogen build`, by plain make, and by the environment."""
    log = tmp_path / "log"
    hexagon = stand_ins.hexagon_sdk(tmp_path / "the sdk", "8.6.02", log=log)
    env = {"HEXAGON_SDK_ROOT": str(hexagon), "ANDROID_NDK_ROOT": str(stand_ins.ndk(tmp_path / "the ndk", log))}
    folder = generated(tmp_path)
    done = build(folder, "htp_v73", "htp_android", "-j1", UDOGEN_LAUNCHER=str(launcher), **env)
    assert done.returncode == 0, done.stderr
    names = [Path(each).name for each in called(launcher)]
    files = len(compiled(done)) // 2
    assert names == ["hexagon-clang++"] * files + ["clang++"] * files
    for variable in ("LAUNCHER", "UDOGEN_LAUNCHER"):
        assert make(folder, "clean").returncode == 0
        by_hand = make(folder, "htp_android", **{**EMPTY, **env, variable: str(launcher)})
        assert by_hand.returncode == 0, by_hand.stderr
        assert len(called(launcher)) == files


@pytest.mark.parametrize("target", ["cpu_x86", "reg_x86", "dsp_x86"])
def test_libraries_of_udo_packages_too(tmp_path: Path, launcher: Path, target: str) -> None:
    done = build(udo.softmax(tmp_path / "package"), target, X86_CXX="clang++", UDOGEN_LAUNCHER=str(launcher))
    assert done.returncode == 0, done.stderr
    assert called(launcher) == ["clang++"] * len(compiled(done))


def test_ndk_build_has_it_as_ndk_ccache(tmp_path: Path, launcher: Path) -> None:
    log = tmp_path / "log"
    ndk = stand_ins.ndk_build(tmp_path / "ndk", log)
    folder = udo.softmax(tmp_path / "package")
    done = build(folder, "cpu_android", "--launcher", f"{launcher} -v", ANDROID_NDK_ROOT=str(ndk))
    assert done.returncode == 0, done.stderr
    assert f"NDK_CCACHE='{launcher}' '-v'" in log.read_text().splitlines()
    log.unlink()
    done = build(folder, "cpu_android", ANDROID_NDK_ROOT=str(ndk))  # another launcher rebuilds nothing
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    assert "-B" not in lines and not any(line.startswith("NDK_CCACHE") for line in lines)


def test_cmake_has_it_too(tmp_path: Path, launcher: Path) -> None:
    if not shutil.which("cmake"):
        pytest.skip("cmake is not installed")
    assert udogen("generate", ONE_OP, "--gen_cmakelists", "-o", tmp_path).returncode == 0
    folder, env = tmp_path / "LeakyReluPackage", {**os.environ, **EMPTY, "UDOGEN_LAUNCHER": str(launcher)}
    subprocess.run(["cmake", "--preset", "linux"], cwd=folder, env=env, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", "--preset", "linux"], cwd=folder, env=env, check=True, capture_output=True)
    assert len(called(launcher)) == len(list(folder.glob("obj/**/*.o")))


def test_distcc_is_given_nothing_that_zig_compiles(tmp_path: Path) -> None:
    distcc = stand_ins.script(tmp_path / "distcc", "exit 1\n")
    done = build(generated(tmp_path), "htp_v68", "--launcher", str(distcc))
    assert done.returncode == 0, done.stderr
    assert "locally: distcc cannot distribute zig" in done.stderr


def test_words_of_a_launcher_are_only_words(tmp_path: Path) -> None:
    folder = cpu_package(tmp_path)
    for text in ("ccache; touch here", "$(touch here)", "ccache `touch here`", "ccache 'a b'"):
        done = build(folder, "--launcher", text)
        assert (done.returncode, "only letters" in done.stderr) == (2, True)
        assert make(folder, "cpu_x86", UDOGEN_LAUNCHER=text).returncode != 0
    assert not (folder / "here").exists()
    done = build(folder, "--launcher", "no-such-launcher")
    assert done.returncode == 3
    assert "`no-such-launcher` (--launcher, UDOGEN_LAUNCHER) is not on PATH" in done.stderr
