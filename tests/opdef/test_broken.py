"""Every broken config through the real command: its output, its cost, and that it leaves no files behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.opdef.broken_cases import CPU_SECONDS, GOLDEN, MADE, MEMORY, arguments, names, place, run

_WITHOUT_LINE = re.compile(r"the file (has \d+ (MB|tags|attributes)|is empty|cannot be read)|this is not a file")


def test_there_are_enough() -> None:
    assert len(names()) - len(MADE) > 100


def test_every_golden_text_has_its_case() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {f"{name}.txt" for name in names()}


@pytest.mark.parametrize("name", names())
def test_check(name: str, tmp_path: Path) -> None:
    folder = place(name, tmp_path)
    before = sorted(folder.rglob("*"))
    ran = run("check", name, *arguments(name), cwd=folder)
    assert ran.err == (GOLDEN / f"{name}.txt").read_text("utf-8"), "if the new text is better: make golden"
    assert (ran.code, ran.out) == (2, "")
    assert ran.cpu_seconds < CPU_SECONDS
    assert ran.memory < MEMORY
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", names())
def test_the_text_has_place_reason_and_remedy(name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text("utf-8")
    assert "Traceback" not in text
    assert all(len(line) < 420 for line in text.splitlines())
    faults = re.findall(rf"^{re.escape(name)}(:\d+)?: (?:error|warning): (.+)\n((?:  +.+\n)+)", text, re.MULTILINE)
    assert len(faults) == len(re.findall(rf"^{re.escape(name)}", text, re.MULTILINE)) > 0
    for line, message, below in faults:
        assert line or _WITHOUT_LINE.match(message)
        assert re.search(r"^ += \S", below, re.MULTILINE), f"{message}: no hint"
        assert bool(line) == bool(re.search(r"^ +\d+ \|", below, re.MULTILINE)), f"{message}: the line is not shown"
    assert re.search(r"^error: ([\d,]+ (error|warning)s?( and )?)+ in the config", text, re.MULTILINE)


# A few: both verbs load a config alike, and agree about all of them (test_same_verdicts.py).
@pytest.mark.parametrize("name", [name for name in names() if not name.startswith(("big_", "htp_", "strict_"))][::8])
def test_generate_writes_nothing(name: str, tmp_path: Path) -> None:
    folder = place(name, tmp_path)
    out = tmp_path / "out"
    ran = run("generate", name, "-o", str(out), "--backend", "cpu", cwd=folder)
    assert (ran.code, ran.out) == (2, "")
    assert not out.exists()
    assert ran.cpu_seconds < CPU_SECONDS
