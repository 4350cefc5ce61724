"""The parsed headers are cached, found again and replaced if the cache is damaged; a cache folder is not required."""

from __future__ import annotations

from pathlib import Path

import pytest

from udogen.qnn import abi


def test_a_second_process_would_find_what_the_first_made(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert abi.ffi.__wrapped__().sizeof("Qnn_Tensor_t") == 144
    (made,) = cache.glob("*.py")
    monkeypatch.setattr(abi, "_write", lambda *_: pytest.fail("made again"))
    assert abi.ffi.__wrapped__().sizeof("Qnn_Tensor_t") == 144
    assert made.suffix == ".py"


def test_a_broken_file_is_made_again(cache: Path) -> None:
    abi.ffi.__wrapped__()
    (made,) = cache.glob("*.py")
    made.write_text("cut off here = (")
    assert abi.ffi.__wrapped__().sizeof("Qnn_Param_t") == 160


def test_without_a_writable_cache_the_headers_are_parsed_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert abi.ffi.__wrapped__().sizeof("Qnn_OpConfig_t") == 80


def test_blocks_inside_a_hidden_block_are_hidden_too_and_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["#ifdef __cplusplus", "hidden;", "#if 1", "hidden;", "#endif", "hidden;", "#endif", "int seen;"]
    (tmp_path / "Nested.h").write_text("\n".join(lines))
    monkeypatch.setattr(abi.resources, "qnn_headers", lambda: tmp_path)
    assert abi.declarations(abi.Headers(roots=("Nested.h",))).strip() == "int seen;"
