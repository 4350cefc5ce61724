"""Every surface, with a fault planted in it, ends red: the right exit code, and a sentence that names the place."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.falsify import planted
from tests.falsify.planted import KINDS, LANGUAGES, Language, changed, tested


@pytest.fixture(scope="module", autouse=True)
def projects(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Set the folder of the right projects."""
    planted.set_base(tmp_path_factory.mktemp("right"))


KERNELS = [(language, kind) for language in LANGUAGES for kind in language.edits]


@pytest.mark.parametrize(("language", "kind"), KERNELS, ids=[f"{row.name}: {kind}" for row, kind in KERNELS])
def test_a_wrong_kernel_is_red_in_each_place(language: Language, kind: str, tmp_path: Path) -> None:
    assert kind in KINDS
    folder = tmp_path / language.op
    shutil.copytree(language.project(), folder)
    for file, old, made in language.edits[kind]:
        changed(folder / file, old, made)
    report = tested(folder)
    assert report["code"] in (4, 5, 6) and not report["ok"]
    for place in language.places:
        rows = [row for row in report["cases"] if row["backend"] == place and row["op"] == language.op]
        assert rows, f"nothing ran on {place}"
        for row in rows:
            assert row["status"] in ("failed", "error"), f"{place}: {row['case']} is {row['status']}"
            said = "\n".join(row["text"])
            assert language.op in said and place in said, said
