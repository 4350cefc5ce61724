"""Errors of kernels under qemu-hexagon have a one-sentence message; and the command line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line import succeeds, udogen
from tests.hexagon.running import called, on_hexagon
from tests.making import CONFIGS, ROOT, make_packages, need_packets
from udogen import BuildFailed, RunFailed, ToolMissing, UsageError
from udogen.build import tools
from udogen.runtime import OpCrashed, OpFailed, OpRefused, OpTimedOut
from udogen.runtime.built import Built, find_source
from udogen.runtime.hexagon.wire import records
from udogen.runtime.ops import HexagonSession

WRONG = [
    (1, OpCrashed, r"op `Wrong` crashed with SIGSEGV \(segmentation fault\) in phase `execute`"),
    (2, OpTimedOut, "op `Wrong` did not return within 2 s in phase `execute`"),
    (3, OpFailed, r"op `Wrong` returned 2 \(QHPI_ErrorFatal\) in phase `execute`: the third way: 42"),
    (4, OpCrashed, r"op `Wrong` threw a C\+\+ exception \(std::out_of_range\) in phase `execute`"),
    (5, OpFailed, "cannot execute, most likely HVX floating point"),
    (6, OpFailed, r"wrote past the end of its output `y` \(8 bytes\): at byte 8, 4 in all"),
    (7, OpCrashed, "ended the process with exit code 3 in phase `execute`"),
    (9, OpFailed, r"wrote before the beginning of its output `y` \(8 bytes\): 4 bytes before it, 4 in all"),
]


@pytest.mark.parametrize(("how", "kind", "printed"), WRONG)
def test_what_goes_wrong_is_a_sentence(how: int, kind: type[RunFailed], printed: str, raw: Built) -> None:
    with pytest.raises(kind, match=printed) as shown:
        on_hexagon(raw, called(raw, "Wrong", np.array([how, 0], np.int32)), timeout=2)
    assert shown.value.exit_code == 5


def test_chatter_and_log_stay_apart_from_results(raw: Built) -> None:
    result = on_hexagon(raw, called(raw, "Wrong", np.array([8, 0], np.int32)))
    assert result.outputs["y"].tolist() == [8, 0]
    assert [(line.level, line.text, line.source) for line in result.logs] == [(3, "to the log", "package")]


def test_a_rank_or_a_name_that_is_not_there(raw: Built) -> None:
    with pytest.raises(OpRefused, match="rank 6"):
        on_hexagon(raw, called(raw, "Choosy", np.zeros((1,) * 6, np.int32)))
    with pytest.raises(OpRefused, match="has no op `Chosy`"):
        on_hexagon(raw, called(raw, "Chosy", np.zeros(1, np.int32)))


def test_an_answer_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    whole = bytes([1, 0, 0, 0, 2, 0, 0, 0]) + b"ab"
    assert list(records(whole * 2)) == [(1, b"ab")] * 2
    assert list(records(whole + whole[:-1])) == [(1, b"ab")]
    assert list(records(whole + b"\1")) == [(1, b"ab")]


def test_a_kernel_that_does_not_compile_and_a_package_without_qhpi(raw: Built, tmp_path: Path) -> None:
    assert raw.folder is not None
    shutil.copytree(raw.folder.path, tmp_path / "copy")
    folder = find_source(tmp_path / "copy", backend="htp").folder
    assert folder is not None
    (folder.path / "src" / "ops" / "Add.cpp").write_text("#error unfinished\n")
    with pytest.raises(BuildFailed, match="failed to build") as shown:
        HexagonSession(folder)
    assert "src/ops/Add.cpp:1: " in shown.value.details[0] and "unfinished" in shown.value.details[0]
    (folder.path / "src" / "ops" / "Add.cpp").write_text("")
    text = (folder.path / "src" / "RawInterface.cpp").read_text()
    (folder.path / "src" / "RawInterface.cpp").write_text(text.replace("qhpi_init", "another_name"))
    with pytest.raises(BuildFailed, match="has no qhpi_init: only QHPI packages"):
        HexagonSession(folder)


def test_user_mk_counts_here_too(raw: Built, tmp_path: Path) -> None:
    assert raw.folder is not None
    shutil.copytree(raw.folder.path, tmp_path / "copy")
    folder = find_source(tmp_path / "copy", backend="htp").folder
    assert folder is not None
    (folder.path / "user.mk").write_text("EXTRA_SOURCES := src/more.cpp\nEXTRA_LDFLAGS := -Wl,--no-such-option\n")
    (folder.path / "src" / "more.cpp").write_text("int more() { return 1; }\n")
    with pytest.raises(BuildFailed) as shown:
        HexagonSession(folder)
    assert "no-such-option" in "\n".join(shown.value.details)
    assert (folder.path / "obj" / "emulated-v73" / "src" / "more.o").is_file()


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def command(raw: Built, tmp_path: Path) -> list[Any]:
    assert raw.folder is not None
    np.save(tmp_path / "x.npy", np.arange(300).astype(np.uint8))
    both = ["--input", f"a={tmp_path / 'x.npy'}", "--input", f"b={tmp_path / 'x.npy'}"]
    return ["run", "op", raw.folder.path, "Add", *both]


def test_run_op(command: list[Any], tmp_path: Path) -> None:
    need_packets()
    done = succeeds(*command, "--backend", "hexagon", "--count", "--output", f"y={tmp_path / 'y.npy'}")
    head, output, total, *functions = done.stdout.splitlines()
    assert head.startswith("Raw::Add ran on Hexagon v73 under qemu-hexagon ")
    assert head.endswith("(kernel Add_main on main)") and "µs" not in head
    assert output.startswith("  y: uint8 300, 0 … 255 -> ")
    shares = re.fullmatch(
        r"  ([\d,]+) packets in one execution: ([\d,]+) in the kernel, ([\d,]+) in generated .*", total
    )
    whole, kernel, glue = (int(each.replace(",", "")) for each in shares.groups()) if shares else (0, 0, 0)
    assert whole == kernel + glue and kernel and glue, total
    assert functions
    x = np.arange(300).astype(np.uint8)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.minimum(x.astype(int) * 2, 255))
    shown = json.loads(
        udogen(*command, "--backend", "hexagon", "--count", "--kernel", "hvx", "--slices", 2, "--json").stdout
    )
    assert shown["kernel"] == "Add_hvx on hvx" and shown["backend"] == "hexagon"
    assert shown["packets"]["total"] == sum(each["packets"] for each in shown["packets"]["functions"])


def test_a_package_in_the_cxx_style_is_not_for_hexagon(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 4), np.float32))
    config = ROOT / "examples" / "leaky_relu" / "LeakyRelu.xml"
    made = udogen("generate", config, "--backend", "htp", "--htp-api", "core", "-o", tmp_path / "out")
    assert made.returncode == 0, made.stderr
    run = ["run", "op", tmp_path / "out", "LeakyRelu", "--input", f"input={tmp_path / 'x.npy'}"]
    done = udogen(*run, "--backend", "hexagon")
    assert done.returncode == 4 and "only QHPI packages run on qemu-hexagon" in done.stderr


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (("--backend", "htp", "--count"), "--count means nothing with --backend htp"),
        (("--backend", "cpu", "--arch", "v73"), "--arch means nothing with --backend cpu"),
        (("--backend", "hexagon", "--save-context", "x"), "--save-context means nothing with --backend hexagon"),
        (("--backend", "hexagon", "--qnn-lib", "x"), "--qnn-lib means nothing with --backend hexagon"),
        (("--backend", "hexagon", "--arch", "v67"), "no Hexagon `v67`"),
        (("--backend", "hexagon", "--slices", "0"), "--slices"),
    ],
)
def test_options_that_do_not_fit(options: tuple[str, ...], printed: str, command: list[Any]) -> None:
    done = udogen(*command, *options)
    assert done.returncode == 2 and printed in done.stderr


def test_a_cpu_package_is_not_for_hexagon(tmp_path: Path) -> None:
    [made] = make_packages([CONFIGS / "both.xml"], tmp_path, chosen=["cpu"])
    with pytest.raises(UsageError, match="no package for the htp backend"):
        find_source(made.folder, backend="htp")
    with pytest.raises(RunFailed, match="no generated package at"):
        find_source(tmp_path / "nowhere", backend="htp")


def test_tools_that_are_missing(raw: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    assert raw.folder is not None
    monkeypatch.setattr(tools, "zig", tuple)
    with pytest.raises(ToolMissing, match="zig is not installed"):
        HexagonSession(raw.folder)
    monkeypatch.setattr(tools, "program", lambda _name: "")
    with pytest.raises(ToolMissing, match="`qemu-hexagon` is not on PATH") as shown:
        HexagonSession(raw.folder)
    assert shown.value.hint == "apt-get install qemu-user" and shown.value.exit_code == 3
