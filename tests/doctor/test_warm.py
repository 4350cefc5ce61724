"""Caches that are compiled once: `doctor --warm`, and a test run without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.making import ROOT
from udogen import TestOptions
from udogen.build import zig_libraries
from udogen.verify import planning
from udogen.verify.test_files.read import load_test_files


def test_what_is_named_is_compiled_once(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    done = udogen("doctor", "--warm", "watch", env=env)
    assert (done.returncode, done.stdout.split(" in ")[0]) == (0, "watch: compiled")
    again = udogen("doctor", "--warm", "watch", "--json", env=env)
    [item] = json.loads(again.stdout)["items"]
    assert (item["id"], item["state"], item["seconds"]) == ("watch", "warm", 0.0)


def test_a_name_that_is_not_there() -> None:
    done = udogen("doctor", "--warm", "vulkan")
    assert done.returncode == 2
    assert "choose among hexagon, aarch64, x86_64, cpu-emulator" in done.stderr


def test_a_cold_hexagon_runs_only_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path))
    files = load_test_files(ROOT / "examples" / "leaky_relu")
    plan = planning.plan(files, TestOptions())
    [cold] = [state for state in plan.skipped if state.backend == "hexagon"]
    assert cold.reason.startswith("cold: ")
    assert "udogen doctor --warm hexagon" in cold.hint
    assert plan.batches[0].place.id == "cpu"
    assert all(batch.place.id != "hexagon" for batch in plan.batches)
    asked = planning.plan(files, TestOptions(backends=("hexagon",)))
    assert {batch.place.id for batch in asked.batches} == {"hexagon"}


def test_libraries_are_warm_as_long_as_all_of_them_are_in_zigs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(zig_libraries, "compile_or_fail", lambda *_: None)
    header = b"\x7fELF\2\1" + bytes(12) + (183).to_bytes(2, "little") + bytes(32)
    archives = [tmp_path / "zig" / "o" / name / name for name in sorted(zig_libraries.AARCH64.archives)]
    for archive in archives:
        zig_libraries.AARCH64.make()
        assert not zig_libraries.AARCH64.is_warm
        archive.parent.mkdir(parents=True)
        archive.write_bytes(b"!<arch>\n" + header)
    assert not zig_libraries.AARCH64.is_warm, "another zig made them"
    zig_libraries.AARCH64.make()
    assert zig_libraries.AARCH64.is_warm
    assert not zig_libraries.HEXAGON.is_warm
    with monkeypatch.context() as other:
        (tmp_path / "std.zig").touch()
        other.setattr(zig_libraries.tools, "zig_file", lambda: tmp_path / "std.zig")
        assert not zig_libraries.AARCH64.is_warm, "zig's cache does not know this zig"
    archives[0].unlink()
    assert not zig_libraries.AARCH64.is_warm
