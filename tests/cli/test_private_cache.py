"""The cache holds executable code: it is created for its owner only, and a cache of another user is not used."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.making import ONE_OP, make_packages, udogen
from udogen import UsageError, mako_templates, resources
from udogen.build import emulator
from udogen.qnn import abi


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "udogen"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_for_its_owner_alone(cache: Path) -> None:
    before = os.umask(0)
    try:
        assert resources.cache_dir("x") == cache / "x"
    finally:
        os.umask(before)
    assert (mode(cache), mode(cache.parent)) == (0o700, 0o700)


def test_one_that_others_can_read_becomes_private(cache: Path) -> None:
    cache.mkdir(parents=True, mode=0o755)
    resources.cache_dir("x")
    assert mode(cache) == 0o700


@pytest.mark.parametrize("bits", [0o777, 0o770, 0o1777, 0o702])
def test_one_that_others_can_write_is_refused(cache: Path, bits: int) -> None:
    cache.mkdir(parents=True)
    cache.chmod(bits)
    with pytest.raises(UsageError, match="can be written by others"):
        resources.cache_dir("x")
    with pytest.raises(UsageError, match="can be written by others"):
        emulator.build_watch()
    assert mode(cache) == bits


def test_one_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(parents=True)
    monkeypatch.setattr("os.geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        resources.cache_dir("x")
    cache.parent.chmod(0)
    done = udogen("doctor", "--json", env={"XDG_CACHE_HOME": str(cache.parent)})
    cache.parent.chmod(0o700)
    assert "internal" not in done.stderr


def test_what_can_do_without_it_does(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    mako_templates._lookup.cache_clear()
    try:
        assert make_packages([ONE_OP], tmp_path / "out")[0].rendered
        assert abi.ffi.__wrapped__().sizeof("Qnn_Tensor_t") == 144
    finally:
        mako_templates._lookup.cache_clear()
    assert list(cache.iterdir()) == []
    done = udogen("doctor", "--json", env={"XDG_CACHE_HOME": str(cache.parent)})
    assert "can be written by others" in done.stdout


def test_a_cache_that_cannot_be_written_costs_only_time(cache: Path, tmp_path: Path) -> None:
    assert abi.ffi.__wrapped__(abi.UDO).sizeof("SnpeUdo_String_t") == 8
    assert udogen("generate", ONE_OP, "-o", tmp_path / "first").returncode == 0
    kept = [*cache.glob("abi/*.py"), *cache.glob("templates/*/*.py")]
    assert len(kept) > 5
    for each in kept:  # reading or writing it fails, as on a full disk
        each.unlink()
        each.mkdir()
    assert abi.ffi.__wrapped__(abi.UDO).integer_const("API_VERSION_MAJOR") == 1
    done = udogen("generate", ONE_OP, "-o", tmp_path / "second")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("value", ["relative", "./here", "", "~/x"])
def test_a_relative_path_is_ignored(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert resources.cache_path() == tmp_path / "home" / ".cache" / "udogen"
    resources.cache_dir("x")
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_home_it_is_below_the_temporary_folder(home: str, tmp_path: Path) -> None:
    env = {"HOME": home, "XDG_CACHE_HOME": "", "TMPDIR": str(tmp_path)}
    cache = tmp_path / f"udogen-{os.geteuid()}"
    done = udogen("generate", ONE_OP, "-o", tmp_path / "out", env=env)
    assert done.returncode == 0 and done.stderr.count("warning: ") == done.stderr.count(str(cache)) == 1, done.stderr
    assert (cache / "udogen" / "templates").is_dir() and mode(cache) == 0o700
    cache.chmod(0o777)
    done = udogen("check", ONE_OP, env=env)
    assert (done.returncode, "can be written by others" in done.stderr) == (2, True)
