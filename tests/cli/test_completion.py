"""Names on the command line: completion in shells, and suggestions for misspelt ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import command_line
from tests.making import ROOT, udogen

ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project with its packages."""
    folder = tmp_path_factory.mktemp("completion") / "scale"
    udogen("new", folder)
    udogen("generate", folder / "Scale.xml", "-o", folder)
    return folder


def printed(words: str, position: int, shell: str, folder: Path = ROOT) -> list[str]:
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(position), "_UDOGEN_COMPLETE": f"{shell}_complete"}
    main = "from udogen.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", main], env={**ENV, **variables}, capture_output=True, text=True, check=True, cwd=folder
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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("udogen build cpu_", {"cpu_x86", "cpu_android"}),
        ("udogen build -C ScaleOpPackageCpu cpu_x", {"cpu_x86"}),
        ("udogen register ScaleOpPackageHtp --target htp_v7", {"htp_v73", "htp_v75"}),
        ("udogen register ScaleOpPackageHtp --client sn", {"snpe-net-run"}),
        ("udogen generate Scale.xml --backend cpu,h", {"cpu,htp"}),
        ("udogen check Scale.xml --backend ht", {"htp"}),
        ("udogen test --backend cpu,hex", {"cpu,hexagon"}),
        ("udogen new mine --example leaky", {"leaky_relu"}),
        ("udogen test --case Scale/ed", {"Scale/edge??tails??3x64??factor=default"}),
        ("udogen run op ScaleOpPackageCpu S", {"Scale"}),
        ("udogen run op nothing S", set()),
    ],
)
def test_names_are_completed(words: str, expected: set[str], project: Path) -> None:
    done = printed(words, len(words.split()) - 1, "bash", project)
    assert (set(done) >= {f"plain,{name}" for name in expected}) if expected else not any(done)


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("tset", "test"),
        ("run opp", "op"),
        ("build cpu_x68", "cpu_x86"),
        ("test --backend cpuu", "cpu"),
        ("test --bakend cpu", "--backend"),
        ("generate Scale.xml --backend htpp", "htp"),
        ("check Scale.xml --backend cpuu", "cpu"),
        ("check Scal.xml", "Scale.xml"),
        ("generate Scale.xml --kernels kernls -o x", "kernels"),
        ("test ScaleOpPackageCp", "ScaleOpPackageCpu"),
        ("inspect ScaleOpPackageCp", "ScaleOpPackageCpu"),
        ("register ScaleOpPackageCp --client cpp", "ScaleOpPackageCpu"),
        ("register ScaleOpPackageCpu --client snpe-net-rn", "snpe-net-run"),
        ("register ScaleOpPackageHtp --client cpp --target htp_x68", "htp_x86"),
        ("script ScaleOpPackageCpu --client qnn-net-rn --model x -o x", "qnn-net-run"),
        ("run op ScaleOpPackageCp Scale --input x=2", "ScaleOpPackageCpu"),
        ("test --case Scale/egde", "Scale/edge"),
        ("test --case Scal3", "Scale"),
        ("new a --from-config Scal.xml", "Scale.xml"),
        ("convert Scal.xml --to json", "Scale.xml"),
        ("doctor --warm hexagn", "hexagon"),
        ("explain QNN_COMMON_ERROR_GENERL", "QNN_COMMON_ERROR_GENERAL"),
    ],
)
def test_the_nearest_name_is_suggested(words: str, near: str, project: Path) -> None:
    done = command_line.udogen(*words.split(), cwd=project)
    assert done.returncode and re.search(f"[Dd]id you mean (one of: )?.?{near}", done.stderr), done.stderr


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
