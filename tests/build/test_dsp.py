"""DSP packages for V65 and V66: libraries by zig, one for each op, and the calls of a Hexagon SDK 3.5."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.build import stand_ins
from tests.build.command_lines import GOLDEN, hexagon_clang_v66, recorded_commands
from tests.build.devices import CACHED, Elf, build, compiled
from tests.making import CONFIGS, ROOT, compiler, make, make_packages, open_package
from udogen import ToolMissing, backends
from udogen.backends import architectures, targets
from udogen.build import make as driver
from udogen.build import tools
from udogen.build.package import open_packages

DSP = architectures.of_backend("dsp")
SEVERAL = CONFIGS / "several.xml"
OPS = ("Scale", "Head", "Mirror")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return three skeletons, in a folder with a blank and a quote in its name."""
    [made] = make_packages([SEVERAL], tmp_path_factory.mktemp("dsp") / "it's here", chosen=["dsp"])
    return made.folder


def test_the_versions_before_v68_are_of_another_backend() -> None:
    assert list(DSP) == ["v65", "v66"]
    assert backends.ALL["dsp"].target_ids() == ("dsp_v65", "dsp_v66")
    assert not {"htp_v65", "htp_v66", "dsp_v68"} & set(targets.ALL)


@pytest.fixture(scope="module")
def built(folder: Path) -> Callable[[str], Path]:
    """Return the package with the libraries of a version, all up to date."""
    compiler("zig")

    @cache
    def of(name: str) -> Path:
        done = build(folder, f"dsp_{name}", "-j2", **CACHED)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == len(OPS)
        again = build(folder, f"dsp_{name}", **CACHED)
        assert compiled(again) == [] and again.stdout.count("(up to date)") == len(OPS)
        return folder

    return of


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", DSP)
def test_one_library_for_each_op_as_those_of_the_dsp_are(built: Callable[[str], Path], name: str, op: str) -> None:
    """Compare with SNPE's own libraries for V65 and V66 and their shells: all undefined symbols exist on the DSP."""
    library = f"libQnnSeveral{op}.so"
    elf = Elf(built(name) / "build" / f"hexagon-{name}" / library)
    assert (elf.machine, elf.kind, elf.flags) == ("EM_QDSP6", "ET_DYN", DSP[name].flags)
    assert elf.segments == [("PT_LOAD", 5), ("PT_LOAD", 6), ("PT_DYNAMIC", 6)]
    assert elf.tags[0x70000001] == 3, "DT_HEXAGON_VER"
    assert {"DT_INIT", "DT_FINI", "DT_HASH"} <= elf.tags.keys() and "DT_INIT_ARRAY" not in elf.tags
    assert elf.needed == [] and elf.soname == [library]
    assert elf.exported == {"SeveralInterfaceProvider", "SeveralExecutions", "SeveralCounted"}
    assert elf.undefined <= backends.ALL["dsp"].dsp_symbols


def test_by_hand_in_any_order_and_after_clean(built: Callable[[str], Path]) -> None:
    folder = built("v65")
    zig = shlex.join(tools.zig())
    assert make(folder, "clean").returncode == 0
    assert not list(folder.glob("build/*/*.so"))
    assert make(folder, "dsp_v66_Head", ZIG=zig).returncode == 0
    assert [each.name for each in folder.glob("build/*/*.so")] == ["libQnnSeveralHead.so"]
    assert make(folder, "dsp_v66", "dsp_v65", ZIG=zig, jobs=4).returncode == 0
    assert len(list(folder.glob("build/*/*.so"))) == len(DSP) * len(OPS)


def test_a_package_of_one_op_has_the_plain_name(tmp_path: Path) -> None:
    config = ROOT / "examples" / "add_sat_u8" / "AddSatU8.xml"
    [made] = make_packages([config], tmp_path, chosen=["dsp"])
    package = open_package(made.folder)
    assert {path.name for row in package.rows for path in package.artifacts(row)} == {"libQnnAddSatU8Package.so"}
    assert (made.folder / "src" / "AddSatU8PackageInterface.cpp").is_file()


# --- the Hexagon SDK ------------------------------------------------------------------------------------------


def choose(folder: Path, **env: Any) -> str:
    """Return the compiler that would be used, or the reason why none would be."""
    try:
        [step] = driver.plan(open_packages(folder)[0], ["dsp_v66"], toolchain="sdk", env=tools.Environment(**env))
    except ToolMissing as missing:
        return missing.details[0].removeprefix("sdk: ")
    return step.choice.title.partition(",")[0]


def test_which_sdk_and_which_tools(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    old = stand_ins.hexagon_sdk(tmp_path / "Hexagon_SDK" / "3.5.2", "8.3.07", log=log)
    new = stand_ins.hexagon_sdk(tmp_path / "Hexagon_SDK" / "4.2.0.2", "8.4.09", log=log)
    apart = stand_ins.hexagon_sdk(tmp_path / "apart", "8.3.05", log=log) / "tools/HEXAGON_Tools/8.3.05"
    both = {"hexagon_sdk_root": str(old), "hexagon_sdk4_root": str(new)}
    for env, expected in (
        ({}, "HEXAGON_SDK_ROOT is not set"),
        ({"hexagon_sdk_root": str(old)}, f"hexagon-clang++ 8.3.07 of {old}"),
        (both, f"hexagon-clang++ 8.3.07 of {old}"),
        ({"hexagon_sdk4_root": str(new)}, "HEXAGON_SDK_ROOT is not set"),
        (
            {"hexagon_sdk_root": str(new)},
            f"Hexagon tools 8.4.09 in {new} are of Hexagon SDK 4 or later: v66 needs 8.3 of SDK 3.5, and "
            "HEXAGON_SDK4_ROOT for the later one",
        ),
        ({"hexagon_sdk_root": str(new), "hexagon_sdk_roots": {"v66": str(old)}}, f"hexagon-clang++ 8.3.07 of {old}"),
        ({"hexagon_sdk_root": str(new), "hexagon_tools_root": str(apart)}, f"hexagon-clang++ 8.3.05 of {new}"),
    ):
        assert choose(folder, **env) == expected


def test_an_sdk_3_is_not_for_v68_and_later(tmp_path: Path) -> None:
    sdk = stand_ins.hexagon_sdk(tmp_path / "3.5.2", "8.3.07", log=tmp_path / "log")
    [made] = make_packages([ROOT / "examples" / "add_sat_u8" / "AddSatU8.xml"], tmp_path / "out", chosen=["htp"])
    with pytest.raises(ToolMissing) as caught:
        env = tools.Environment(hexagon_sdk_root=str(sdk))
        driver.plan(open_package(made.folder), ["htp_v68"], toolchain="sdk", env=env)
    assert "are of Hexagon SDK 3, for V65 and V66: v68 needs 8.4 or later" in caught.value.details[0]


def test_the_command_line_of_hexagon_clang(tmp_path: Path) -> None:
    recorded = hexagon_clang_v66(tmp_path)
    assert recorded.done.returncode == 0, recorded.done.stderr
    assert recorded_commands(recorded.log, tmp_path) == (GOLDEN / "hexagon-clang-v66.txt").read_text("utf-8")
    assert f"dsp_v66: sdk toolchain: hexagon-clang++ 8.3.07 of {recorded.sdk}" in recorded.done.stderr


def test_the_makefile_finds_the_sdk_by_itself(tmp_path: Path) -> None:
    recorded = hexagon_clang_v66(tmp_path)
    assert make(recorded.folder, "clean").returncode == 0
    recorded.log.unlink()
    done = make(recorded.folder, "dsp_v66", HEXAGON_SDK_ROOT=str(recorded.sdk))
    assert done.returncode == 0, done.stderr
    assert "-mv66" in recorded.log.read_text().splitlines()
    assert (recorded.folder / "build/hexagon-v66/libQnnAddSatU8Package.so").is_file()
