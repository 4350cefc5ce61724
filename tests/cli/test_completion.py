"""Completion of the command line in shells, by what click generates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.making import ROOT

ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


def printed(words: str, position: int, shell: str) -> list[str]:
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(position), "_UDOGEN_COMPLETE": f"{shell}_complete"}
    main = "from udogen.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", main], env={**ENV, **variables}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "position", "expected"),
    [
        ("udogen gen", 1, {"generate"}),
        ("udogen run ", 2, {"op", "context"}),
        ("udogen generate --ba", 2, {"--backend"}),
    ],
)
def test_verbs_and_options_are_completed(words: str, position: int, expected: set[str]) -> None:
    assert {line.partition(",")[2] for line in printed(words, position, "bash")} >= expected


def test_zsh_shows_the_line_of_help() -> None:
    assert printed("udogen run ", 2, "zsh")[:3] == ["plain", "op", "Run one op of a built package."]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(shell: str) -> None:
    main = "from udogen.cli.main import main; main()"
    variables = {"_UDOGEN_COMPLETE": f"{shell}_source"}
    script = subprocess.run(
        [sys.executable, "-c", main], env={**ENV, **variables}, capture_output=True, text=True, check=True
    ).stdout
    assert "udogen" in script and "_UDOGEN_COMPLETE" in script
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
