"""HTP packages for devices: the Hexagon versions, and the calls of the SDKs for them (recorded by stand-ins)."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.build import stand_ins
from tests.build.command_lines import GOLDEN, hexagon_clang, ndk_clang, recorded_commands
from tests.build.devices import ALL, EMPTY, HEXAGON, LIBRARY, build, generated
from tests.making import open_package
from udogen import PackageLibrary, ToolMissing
from udogen.backends import architectures
from udogen.build import make as driver
from udogen.build import tools


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return generated(tmp_path)


@pytest.fixture
def package(folder: Path) -> PackageLibrary:
    return open_package(folder)


def planned(package: PackageLibrary, *names: str, toolchain: str = "auto", **env: Any) -> list[driver.Step]:
    return driver.plan(package, names, toolchain=toolchain, env=tools.Environment(**env))


# --- the table ----------------------------------------------------------------------------------------------


def test_versions_are_rows() -> None:
    assert list(ALL) == ["v68", "v69", "v73", "v75", "v79", "v81"]
    assert list(architectures.ALL) == ["v65", "v66", *ALL, "v85"]
    for row in architectures.ALL.values():
        assert row.flags == int(row.name[1:], 16)
        assert row.releases and all(architectures.version(r.tools) >= row.oldest_tools for r in row.releases)


def test_versions_are_compared_by_their_numbers() -> None:
    assert architectures.version("8.10.1") > architectures.version("8.9.03") > architectures.version("8.4.09")
    assert architectures.version("19.0.04") > architectures.version("8.8.06")
    assert architectures.version("latest") == ()


def test_what_a_group_means(package: PackageLibrary) -> None:
    everything = ["htp_x86", "htp_aarch64", *HEXAGON]
    for names, expected in (
        ((), ["htp_x86"]),
        (("htp",), everything),
        (("all",), everything),
        (("all_x86",), ["htp_x86"]),
        (("all_aarch64", "htp_v73"), ["htp_aarch64", "htp_v73"]),
    ):
        assert [step.target.id for step in planned(package, *names)] == expected


def test_the_makefile_knows_the_same_groups(folder: Path) -> None:
    """Check the targets of `make all` and other groups, with the rules of the targets left out."""
    for group, meant in (("all", ["x86_64", "aarch64", *ALL]), ("htp", ["x86_64", "aarch64", *ALL])):
        done = subprocess.run(
            ["make", "-s", "MAKE=echo", group], cwd=folder, env={**os.environ, **EMPTY}, capture_output=True, text=True
        )
        ran = done.stdout.splitlines()
        assert [next(word for word in meant if line.endswith(word)) for line in ran] == meant, done.stdout


# --- the Hexagon SDK ------------------------------------------------------------------------------------------


def test_zig_does_not_know_v85(package: PackageLibrary) -> None:
    with pytest.raises(ToolMissing) as caught:
        planned(package, "htp_v85")
    assert "open: zig does not support Hexagon v85" in caught.value.details
    assert "Hexagon SDK 6.5.0 with tools 21.0.03, and set HEXAGON_SDK_ROOT_V85" in caught.value.hint


def test_no_hexagon_sdk(package: PackageLibrary) -> None:
    with pytest.raises(ToolMissing) as caught:
        planned(package, "htp_v75", toolchain="sdk")
    assert caught.value.details == ("sdk: HEXAGON_SDK_ROOT is not set",)
    assert "Hexagon SDK 5.4.0 with tools 8.7.03 or 5.5.5 with tools 8.7.06" in caught.value.hint
    assert "HEXAGON_SDK_ROOT_V75" in caught.value.hint


def choose(package: PackageLibrary, name: str, **env: Any) -> str:
    """Return the compiler that would be used, without the temporary folder, or the reason why none would be."""
    try:
        [step] = planned(package, name, toolchain="sdk", **env)
    except ToolMissing as missing:
        return missing.details[0].removeprefix("sdk: ")
    return step.choice.title.partition(",")[0]


def test_which_sdk_and_which_tools(package: PackageLibrary, tmp_path: Path) -> None:
    log = tmp_path / "log"
    base = tmp_path / "Qualcomm"
    old = stand_ins.hexagon_sdk(base / "hexagon-sdk-4.2.0", "8.4.09", "8.4.12", log=log)
    middle = stand_ins.hexagon_sdk(base / "hexagon-sdk-5.4.0", "8.6.02", "8.7.03", log=log)
    new = stand_ins.hexagon_sdk(base / "hexagon-sdk-6.4.0", "19.0.04", "19.0.07", log=log)
    newest = stand_ins.hexagon_sdk(base / "hexagon-sdk-6.5.0", "21.0.03", log=log)
    own = stand_ins.hexagon_sdk(tmp_path / "elsewhere", "8.7.06", log=log)
    root = {"hexagon_sdk_root": str(new)}
    for name, env, expected in (
        ("htp_v68", root, f"hexagon-clang++ 8.4.09 of {old}"),  # next to HEXAGON_SDK_ROOT, as in the vendor's Makefiles
        ("htp_v73", root, f"hexagon-clang++ 8.6.02 of {middle}"),
        ("htp_v75", root, f"hexagon-clang++ 8.7.03 of {middle}"),
        ("htp_v81", root, f"hexagon-clang++ 19.0.04 of {new}"),
        ("htp_v79", root, f"hexagon-clang++ 19.0.04 of {new}"),  # no known SDK has this version: newer tools support it
        ("htp_v75", {"hexagon_sdk_roots": {"v75": str(own)}}, f"hexagon-clang++ 8.7.06 of {own}"),
        ("htp_v85", {"hexagon_sdk_roots": {"v85": str(newest)}}, f"hexagon-clang++ 21.0.03 of {newest}"),
        ("htp_v81", {**root, "hexagon_tools_versions": {"v81": "19.0.07"}}, f"hexagon-clang++ 19.0.07 of {new}"),
        (
            "htp_v73",
            {"hexagon_sdk_root": "/nowhere", "hexagon_sdk4_root": str(middle)},
            f"hexagon-clang++ 8.6.02 of {middle}",
        ),
        (
            "htp_v75",
            {"hexagon_sdk_root": str(old), "hexagon_tools_root": str(own / "tools/HEXAGON_Tools/8.7.06")},
            f"hexagon-clang++ 8.7.06 of {middle}",
        ),
        (
            "htp_v81",
            {"hexagon_sdk_root": str(own), "hexagon_tools_root": str(new / "tools/HEXAGON_Tools/19.0.07/Tools")},
            f"hexagon-clang++ 19.0.07 of {own}",
        ),
    ):  # fmt: skip
        assert choose(package, name, **env) == expected


def test_an_sdk_that_does_not_know_the_version(package: PackageLibrary, tmp_path: Path) -> None:
    root = stand_ins.hexagon_sdk(tmp_path / "sdk", "8.4.09", "8.5.08", log=tmp_path / "log")
    (tmp_path / "empty").mkdir()
    bare = tmp_path / "bare"
    (bare / "tools/HEXAGON_Tools/8.9.1").mkdir(parents=True)
    for env, expected in (
        (
            {"hexagon_sdk_root": str(root)},
            f"Hexagon tools 8.4.09, 8.5.08 in {root} do not support v73: it needs 8.6 or later",
        ),
        (
            {"hexagon_sdk_root": str(tmp_path / "empty")},
            f"HEXAGON_SDK_ROOT is {tmp_path / 'empty'}, which has no tools/HEXAGON_Tools",
        ),
        (
            {"hexagon_sdk_roots": {"v73": "/nowhere"}},
            "HEXAGON_SDK_ROOT_V73 is /nowhere, which has no tools/HEXAGON_Tools",
        ),
        ({"hexagon_sdk_root": str(bare)}, f"no hexagon-clang++ in {bare / 'tools/HEXAGON_Tools'}"),
        (
            {"hexagon_sdk_root": str(root), "hexagon_tools_versions": {"v73": "8.6.02"}},
            f"HEXAGON_TOOLS_VERSION_V73 is 8.6.02: no {root}/tools/HEXAGON_Tools/8.6.02/Tools/bin/hexagon-clang++",
        ),
    ):  # fmt: skip
        assert choose(package, "htp_v73", **env) == expected


def test_a_wrong_sdk_is_reported_before_anything_is_compiled(folder: Path, tmp_path: Path) -> None:
    root = stand_ins.hexagon_sdk(tmp_path / "sdk", "8.4.09", log=tmp_path / "log")
    done = build(folder, "htp_v68", "htp_v73", "--toolchain", "sdk", HEXAGON_SDK_ROOT=str(root))
    assert done.returncode == 3
    assert "do not support v73: it needs 8.6 or later" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "log").exists()


def test_the_command_lines_of_the_hexagon_sdk(tmp_path: Path) -> None:
    """Stand-ins record how they are called; by hand and through udogen alike."""
    folder, log, root, qnn, done = hexagon_clang(tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"htp_v73: sdk toolchain: hexagon-clang++ 8.6.02 of {root}, headers of {qnn}" in done.stderr
    lines = recorded_commands(log, tmp_path)
    assert lines == (GOLDEN / "hexagon-clang.txt").read_text(), "run `make golden` and look at the difference"

    assert subprocess.run(["make", "clean"], cwd=folder).returncode == 0
    env = {**os.environ, **EMPTY, "HEXAGON_SDK_ROOT": str(root.parent / "another"), "QNN_SDK_ROOT": str(qnn)}
    by_hand = subprocess.run(["make", "htp_v73"], cwd=folder, env=env, capture_output=True, text=True)
    assert by_hand.returncode == 0, by_hand.stderr
    assert recorded_commands(log, tmp_path) == lines, "hexagon-sdk-5.4.0 lies beside HEXAGON_SDK_ROOT"


def test_make_by_hand_reports_what_is_wrong_with_the_sdk(folder: Path) -> None:
    env = {**os.environ, **EMPTY, "HEXAGON_SDK_ROOT": "/nowhere"}
    done = subprocess.run(["make", "htp_v73"], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "set HEXAGON_SDK_ROOT_V73 and HEXAGON_TOOLS_VERSION_V73 to a Hexagon SDK for v73" in done.stderr


# --- aarch64 ----------------------------------------------------------------------------------------------------


def test_the_command_lines_of_the_ndk(tmp_path: Path) -> None:
    folder, log, root, _, done = ndk_clang(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{folder}/build/aarch64-android/{LIBRARY} (3 compiled)\n", "one library, not two"
    assert f"htp_aarch64: sdk toolchain: clang++ of {root}, udogen's own headers" in done.stderr
    assert recorded_commands(log, tmp_path) == (GOLDEN / "ndk-clang.txt").read_text(), "run `make golden`"


def test_android_needs_an_ndk(folder: Path) -> None:
    done = build(folder, "all_android")
    assert done.returncode == 3 and "htp_aarch64 builds for Linux" in done.stderr
    env = {**os.environ, **EMPTY}
    by_hand = subprocess.run(["make", "htp_android"], cwd=folder, env=env, capture_output=True, text=True)
    assert by_hand.returncode == 2 and "ANDROID_NDK_ROOT is not set" in by_hand.stderr


# --- several at once ----------------------------------------------------------------------------------------------


def test_an_interrupt_leaves_no_compiler_of_any_target_behind(folder: Path, tmp_path: Path) -> None:
    root, started = tmp_path / "sdk", tmp_path / "started"
    for version in ("8.4.09", "8.6.02"):
        stand_ins.slow(root / f"tools/HEXAGON_Tools/{version}/Tools/bin/hexagon-clang++", started)
    env = {**EMPTY, "HEXAGON_SDK_ROOT": str(root)}
    arguments = ["-C", str(folder), "htp_v68", "htp_v73", "-j2"]
    stand_ins.check_interrupt(arguments, started, count=2, number=signal.SIGTERM, **env)


def test_one_target_that_fails_among_several(folder: Path, tmp_path: Path) -> None:
    root = stand_ins.hexagon_sdk(tmp_path / "sdk", "8.6.02", log=tmp_path / "log")
    stand_ins.script(root / "tools/HEXAGON_Tools/8.4.09/Tools/bin/hexagon-clang++", "echo no such luck >&2; exit 1\n")
    done = build(folder, "htp_v73", "htp_v68", HEXAGON_SDK_ROOT=str(root))
    assert done.returncode == 4
    assert "error: htp_v68 of LeakyReluPackage failed to build" in done.stderr and "no such luck" in done.stderr
    assert (folder / "build/hexagon-v73" / LIBRARY).is_file()
