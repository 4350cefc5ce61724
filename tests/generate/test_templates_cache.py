"""Compiled templates are kept between runs, but never longer than the template they were made from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.making import ONE_OP, ROOT, make_packages
from udogen import mako_templates, resources

CONFIG = ONE_OP
MAKEFILE = "qnn/shared/Makefile.mako"


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a copy of the templates, with the timestamps of files in a wheel, and an empty cache."""
    copy = Path(shutil.copytree(ROOT / "templates", tmp_path / "templates"))
    monkeypatch.setattr(resources, "templates", lambda: copy)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mako_templates._lookup.cache_clear()
    for path in copy.rglob("*.mako"):
        os.utime(path, (1_580_601_600, 1_580_601_600))
    yield copy
    mako_templates._lookup.cache_clear()


def makefile(out: Path) -> str:
    mako_templates._lookup.cache_clear()  # like a new process
    [made] = make_packages([CONFIG], out)
    return made.rendered["Makefile"].decode("utf-8")


def test_a_template_that_changed_counts_at_once(templates: Path, tmp_path: Path) -> None:
    first = makefile(tmp_path / "a")
    text = (templates / MAKEFILE).read_text("utf-8").replace("# Flags and sources", "# My flags and sources")
    (templates / MAKEFILE).write_text(text, "utf-8")
    os.utime(templates / MAKEFILE, (1_580_601_600, 1_580_601_600))
    second = makefile(tmp_path / "b")
    assert second == first.replace("# Flags and sources", "# My flags and sources") != first


def test_compiled_templates_are_kept(templates: Path, tmp_path: Path) -> None:
    makefile(tmp_path / "a")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.py")}
    assert len(kept) == len({file.template for file in make_packages([CONFIG], tmp_path / "c")[0].plan.files} - {""})
    makefile(tmp_path / "b")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.py")} == kept


@pytest.mark.parametrize("place", ["/dev/null", "/proc/nowhere"])
def test_without_a_cache_it_works_too(
    templates: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    assert "cpu_x86" in makefile(tmp_path / "a")
