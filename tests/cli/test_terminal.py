"""Names and texts from outside reach a terminal without control sequences: in every verb, and in JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from tests.making import ONE_OP, ROOT, at_terminal, on_terminal, udogen
from udogen.cli import output
from udogen.cli.main import cli
from udogen.findings import visible

# Escape, bell, return, DEL, C1 (CSI) as a character and as a byte, a writing direction, a line break, markup.
EVIL = "e\x1b]0;owned\x07\x1b[2J\r\x7f\N{CONTROL SEQUENCE INTRODUCER}2J\udc9b\u202egnp\n[red]"
OBEYED = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
CONTROLS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|\r(?=\x1b)")  # colours, and rich's bars


def harmless(message: str) -> bool:
    """Return whether it has only text, line ends, and udogen's own colours and bars."""
    text = CONTROLS.sub("", message).replace("\r\n", "\n")
    found = OBEYED.search(text) or "\r" in text
    assert not found, (found, message)
    return True


def name(folder: Path, suffix: str) -> bytes:
    return os.fsencode(folder / f"{EVIL}{suffix}")


VERBS_TRIED: dict[str, Sequence[Sequence[object]]] = {
    "new": [
        ["new", ".new", "--from-onnx", ".onnx"],
        ["new", ".new", "--from-config", ".bad.xml"],
        ["new", ".new", "--from-package", ".txt"],
        ["new", "--from-package", ".missing"],
    ],
    "check": [["check", ".xml"], ["check", ".missing"], ["check", ".bad.xml"], ["check", ".txt"]],
    "convert": [["convert", ".xml", "--to", "json"], ["convert", ".text.xml", "--to", "xml"]],
    "generate": [["generate", ".xml", "-o", ".out"], ["generate", ".bad.xml", "-o", ".out"]],
    "build": [["build", "-C", ".out"], ["build", "-C", ".missing"]],
    "inspect": [["inspect", each] for each in (".txt", ".missing", ".xml", ".bad.xml", ".onnx")],
    "doctor": [],  # see below for variables of the environment
    "register": [["register", ".txt", "--client", "ort"], ["register", ".missing", "--client", "cpp"]],
    "script": [["script", ".missing", "--client", "qnn-net-run", "--model", ".txt", "-o", ".scripts"]],
    "onnx": [["onnx", "schema", ".onnx", ".missing"], ["onnx", "context", ".txt"]],
    "explain": [["explain", ".txt"], ["explain", ".log"], ["explain", EVIL.replace("\udc9b", "")]],
    "test": [["test", ".missing"], ["test", ".out"]],
    "run": [
        *(["run", "op", ".txt", "Op"], ["run", "context", ".txt"], ["run", "context", ".missing"]),
        *(["run", "model", ".onnx"], ["run", "model", ".missing"]),
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("evil")
    text = ONE_OP.read_text("utf-8")
    for suffix, content in {
        ".xml": text.encode(),
        ".text.xml": text.replace("where x is", "where \u009b2J \u202e x is").encode(),
        ".bad.xml": text.replace("FLOAT_32", "FLOAT_\u009b32\u202e", 1).encode(),
        ".txt": b"\x1b[2J\x9b2J text\n",
        ".log": b"\x1b]0;x\x07 [ ERROR ] \xc2\x9b2J Failed to register op package \x1b[2J\n",
        ".onnx": b"\x08\x07 no model",
    }.items():
        Path(os.fsdecode(name(made, suffix))).write_bytes(content)
    return made


def test_every_verb_is_tried() -> None:
    assert set(VERBS_TRIED) == set(cli.list_commands(click.Context(cli)))


_DRIVER = """
import json, os, sys
from udogen.cli import main, output
for number, (verb, argv) in enumerate(json.loads(os.environ["LINES"])):
    print(f"=== {verb} {number}", flush=True)
    if not (child := os.fork()):
        sys.argv = ["udogen", *argv]
        main.main()
    print(f"=== ended with {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)
"""


def test_every_verb_on_a_terminal(folder: Path) -> None:
    lines = [
        (verb, [os.fsdecode(name(folder, each)) if str(each).startswith(".") else str(each) for each in line])
        for verb, tries in VERBS_TRIED.items()
        for line in tries
    ]
    code, message = at_terminal([sys.executable, "-c", _DRIVER], LINES=json.dumps(lines))
    assert code == 0
    parts = message.split("=== ended with ")
    assert len(parts) == len(lines) + 1, message
    for (verb, line), part in zip(lines, parts, strict=False):
        assert len(part.partition(f"=== {verb} ")[2].splitlines()) > 1, (line, "printed nothing")
        assert harmless(part), line
        assert "internal error" not in part and "Traceback" not in part, part


def test_variables_of_the_environment() -> None:
    assert harmless(on_terminal("doctor", QNN_SDK_ROOT="/x/\x1b[2J\N{CONTROL SEQUENCE INTRODUCER}2J", NO_COLOR="")[1])


def test_json_has_the_same_with_escapes(folder: Path) -> None:
    config = name(folder, ".text.xml")
    code, message = on_terminal("convert", config, "--to", "xml", "--json")
    assert code == 0 and harmless(message)
    reply = json.loads(message)
    assert "\u009b2J \u202e x is" in reply["text"]
    bad = name(folder, ".bad.xml")
    [finding, *_] = json.loads(on_terminal("check", bad, "--json")[1])["error"]["findings"]
    assert os.fsencode(finding["file"]) == bad


@pytest.mark.parametrize("language", ["xml", "json"])
def test_a_config_as_the_result_is_the_same_config(language: str, folder: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.xml"
    shutil.copy(name(folder, ".text.xml"), plain)
    shown, kept = tmp_path / f"shown.{language}", tmp_path / f"kept.{language}"
    done = udogen("convert", plain, "--to", language)
    assert harmless(done.stdout)
    shown.write_text(done.stdout, "utf-8")
    assert udogen("convert", plain, "--to", language, "-o", kept).returncode == 0
    first, second = (udogen("convert", each, "--to", "json", "--json") for each in (shown, kept))
    assert json.loads(first.stdout)["text"] == json.loads(second.stdout)["text"]


def test_what_is_spelled() -> None:
    assert visible("a\tb\nc ü → 漢字") == "a\tb\nc ü → 漢字"
    assert visible("\x1b\x9b\u202e\udcff\ud800\U000e0041") == r"\x1b\x9b\u202e\xff\ud800\U000e0041"
    assert json.loads(output.json_text('"\x7f\x9b\u202e\U000e0041"')) == "\x7f\x9b\u202e\U000e0041"


def test_one_function_writes_to_the_terminal() -> None:
    writes = re.compile(r"click\.(echo|secho)\(|\bprint\(|sys\.std(out|err)\.write")
    for path in (ROOT / "udogen" / "cli").glob("*.py"):
        if path.name != "output.py":
            assert not writes.search(path.read_text("utf-8")), path


def test_messages_fit_and_commands_stay_whole(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "udogen", "run", "op", str(tmp_path), "Nothing"]
    code, message = at_terminal(program, COLUMNS="22")
    lines = CONTROLS.sub("", message).replace("\r\n", "\n").splitlines()
    assert code == 2 and "  = run" in lines and "    `udogen generate`" in lines
    assert all(len(line) <= 22 or str(tmp_path) in line for line in lines)
