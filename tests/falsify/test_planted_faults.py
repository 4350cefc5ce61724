"""Every surface, with a fault planted in it, ends red: the right exit code, and a sentence that names the place."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.clients.broken_rules import BROKEN
from tests.falsify import planted
from tests.falsify.commands import COMMANDS
from tests.falsify.planted import KINDS, LANGUAGES, Language, Planted, changed, report_of
from tests.making import udogen
from udogen import plugins
from udogen.backends import PLACES
from udogen.cli.main import RUNS, VERBS
from udogen.clients import programs


@pytest.fixture(scope="module", autouse=True)
def projects(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Set the folder of the right projects."""
    planted.set_base(tmp_path_factory.mktemp("right"))


KERNELS = [(language, kind) for language in LANGUAGES for kind in language.edits]
# Configs, models and results that users write or hand over.
FILES = (
    "config.xml", "config.json", "op_tests.toml", "reference.py", "model.toml", "context.json", "context binary",
    "model.onnx",
)  # fmt: skip


@pytest.mark.parametrize(("language", "kind"), KERNELS, ids=[f"{row.name}: {kind}" for row, kind in KERNELS])
def test_a_wrong_kernel_is_red_in_each_place(language: Language, kind: str, tmp_path: Path) -> None:
    folder = tmp_path / language.op
    shutil.copytree(language.project(), folder)
    for file, old, made in language.edits[kind]:
        changed(folder / file, old, made)
    report = report_of(folder, language.places, seconds=2 if kind == "hang" else 5)
    assert report["code"] in (4, 5, 6) and not report["ok"]
    for place in language.places:
        rows = [row for row in report["cases"] if row["backend"] == place and row["op"] == language.op]
        if not rows:  # its package does not compile
            state = next(state for state in report["backends"] if state["backend"] == place)
            assert state["state"] == "unbuilt" and language.op in json.dumps(state), state
        for row in rows:
            assert row["status"] in ("failed", "error"), f"{place}: {row['case']} is {row['status']}"
            said = "\n".join(row["text"])
            assert language.op in said and place in said, said


@pytest.mark.parametrize("row", COMMANDS, ids=[row.id for row in COMMANDS])
def test_a_command_is_red(row: Planted, tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    shutil.copytree(row.project(), folder, symlinks=True)
    command = row.plant(folder)
    done = udogen(*command, cwd=folder)
    printed = done.stdout + done.stderr
    assert done.returncode == row.code, printed
    assert "Traceback" not in printed and "internal error" not in printed
    for sentence in row.sentences:
        assert re.search(sentence, printed), printed
    again = udogen(*command, "--json", cwd=folder)
    assert again.returncode == row.code, again.stdout + again.stderr
    result = json.loads(again.stdout)
    assert result.get("ok") is not True and ("ok" in result or "error" in result)


def surfaces() -> set[str]:
    """Return every surface that can be green or red."""
    verbs = [*VERBS, *(f"run {name}" for name in RUNS), *plugins.names("verbs"), "test --merge"]
    groups = {name.split()[0] for name in verbs if " " in name} - {"test"}
    found = {f"verb {name}" for name in verbs if name not in groups}
    found |= {f"place {name}" for name in PLACES}
    found |= {f"client {name}" for name in programs.ALL}
    found |= {f"file {name}" for name in FILES}
    return found | {f"kernel {row.name}" for row in LANGUAGES}


def test_every_surface_has_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    covered = {surface for row in COMMANDS for surface in row.surfaces}
    covered |= {f"place {place}" for row in LANGUAGES for place in row.places} | {
        f"kernel {row.name}" for row in LANGUAGES
    }
    covered |= {f"client {client}" for client, *_ in BROKEN}  # each is tested in tests/clients/test_register.py
    assert surfaces() == covered
    assert {kind for _, kind in KERNELS} | {row.kind for row in COMMANDS} == set(KINDS)
    kernels = sum(len(language.places) for language, _ in KERNELS)
    with capsys.disabled():
        print(f"\n{kernels + len(COMMANDS) + len(BROKEN)} planted faults on {len(covered)} surfaces")
