"""The wheel, built from the sdist, works in a clean venv outside the checkout."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.making import ROOT, run_outside
from udogen.resources import pip_install


def test_wheel_holds_what_udogen_reads_at_run_time(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "udogen/py.typed" in names
    for source, inside in (
        ("templates", "udogen/data/templates"),
        ("schemas", "udogen/data/schemas"),
        ("examples", "udogen/data/examples"),
        ("udogen/qnn/include", "udogen/qnn/include"),
        ("udogen/emulator", "udogen/emulator"),
    ):
        wanted = {
            f"{inside}/{path.relative_to(ROOT / source).as_posix()}"
            for path in (ROOT / source).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert wanted <= names, sorted(wanted - names)


def test_wheel_holds_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top.split("-")[0] for top in tops} == {"udogen"}


def test_udogen_works_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    where = run_outside(installed / "python", "-c", "import udogen; print(udogen.__file__)", cwd=tmp_path)
    assert Path(where).is_relative_to(installed.parent)

    version = run_outside(installed / "python", "-c", "import udogen; print(udogen.__version__)", cwd=tmp_path).strip()
    assert version in run_outside(installed / "udogen", "--version", cwd=tmp_path)

    run_outside(installed / "udogen", "new", "softmax", "--example", "softmax", cwd=tmp_path)
    assert "created" in run_outside(installed / "udogen", "new", "scale", cwd=tmp_path)
    run_outside(installed / "udogen", "check", "scale/Scale.xml", cwd=tmp_path)
    assert "18 passed" in run_outside(installed / "udogen", "test", "scale", "--backend", "cpu", cwd=tmp_path)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'udogen[run]'"),  # from an index
        ({"url": "file:///a%20b/udogen", "dir_info": {}}, "pip install '/a b/udogen[run]'"),
        ({"url": "file:///src/udogen", "dir_info": {"editable": True}}, "pip install -e '/src/udogen[run]'"),
        (
            {"url": "file:///w/udogen-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install '/w/udogen-0.1.0-py3-none-any.whl[run]'",
        ),
        (
            {"url": "https://host/udogen.whl", "archive_info": {}},
            "pip install 'udogen[run] @ https://host/udogen.whl'",
        ),
    ],
)
def test_a_message_installs_extras_as_udogen_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, object] | None, command: str
) -> None:
    installed = tmp_path / "udogen-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: udogen\nVersion: 0.1.0\n")
    if origin:
        (installed / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(tmp_path)
    assert pip_install("run") == command
