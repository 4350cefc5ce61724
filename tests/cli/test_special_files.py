"""Named pipes and devices: no verb waits for one, and none treats one as a regular file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import ONE_KERNEL, ONE_OP, ROOT, udogen
from udogen import UsageError
from udogen.cli.main import VERBS
from udogen.errors import open_plain, writing
from udogen.findings import Finding, Location, render, source_lines

# FIFO is replaced by a named pipe without a writer, ZERO by a link to /dev/zero, both with a suitable file name.
LINES = [
    "check FIFO.xml",
    "check ZERO.xml",
    "check FIFO.json --backend cpu",
    "convert FIFO.xml --to json",
    "convert CONFIG --to json -o FIFO.json",
    "inspect FIFO.xml",
    "inspect ZERO.onnx",
    "inspect FIFO.bin",
    "explain FIFO.log",
    "explain ZERO.log",
    "test FIFO.toml",
    "test tests",
    "generate FIFO.xml -o out",
    "generate CONFIG -o out --kernels kernels",
    "generate CONFIG -o out --kernels zeros",
    "generate CONFIG -o out --converter-op-package --rules FIFO.py",
    "new p --from-onnx FIFO.onnx",
    "new p --from-config FIFO.xml",
    "new p --from-package FIFO.xml",
    "new p --from-package kernels",
    "new adopted --from-package .",
    "inspect FIFO.so",
    "inspect ZERO.so",
    "inspect FIFO.bin",
    "inspect CONFIG --against FIFO.so",
    "register FIFO.so --client ort",
    "script FIFO.so --client qnn-net-run -o scripts",
    "onnx schema FIFO.onnx CONFIG",
    "onnx context FIFO.bin",
    "onnx fuse FIFO.onnx --nodes a..b --name Fused",
    "run model FIFO.onnx",
    "run steps FIFO.toml",
    "run steps FIFO.bin",
    "build -C FIFO.xml",
    "inspect FIFO.py --config CONFIG",
    "doctor FIFO.xml",
    "run op FIFO.so LeakyRelu",
    "run context FIFO.bin",
    "run context ZERO.bin",
    "run context folder",
]
_DRIVER = """
import importlib, os, sys
import numpy
from udogen.cli import main
for module, _ in main.VERBS.values():
    importlib.import_module("udogen.cli." + module.partition(":")[0])  # once, and not in each child
for number, line in enumerate(sys.argv[1].splitlines()):
    if not (child := os.fork()):
        sys.argv = ["udogen", *line.split()]
        main.main()
    print(f"=== {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])} {line}", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("xml", "json", "onnx", "bin", "log", "so", "toml", "py", "svg"):
        os.mkfifo(tmp_path / f"FIFO.{name}")
        (tmp_path / f"ZERO.{name}").symlink_to("/dev/zero")
    for name in ("kernels", "zeros", "tests", "folder"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "kernels" / "LeakyRelu.cpp")
    (tmp_path / "zeros" / "LeakyRelu.cpp").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "tests" / "test_x.py")
    os.mkfifo(tmp_path / "folder" / "forward_0.bin")
    shutil.copy(ONE_OP, tmp_path / "CONFIG")
    return tmp_path


def test_no_verb_waits_for_them(folder: Path) -> None:
    assert {line.split()[0] for line in LINES} == {*VERBS, "onnx"}
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, "\n".join(LINES)],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=240,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    ends = [row.removeprefix("=== ").partition(" ") for row in done.stdout.splitlines() if row.startswith("=== ")]
    assert [line for _, _, line in ends] == LINES
    assert "internal error" not in done.stderr, done.stderr
    harmless = ("doctor",)
    assert {line: code for code, _, line in ends if code not in "256" and not line.startswith(harmless)} == {}, ends
    assert not (folder / "out").exists()


def test_a_device_as_a_kernel_is_an_error_and_no_skeleton(folder: Path) -> None:
    done = udogen("generate", folder / "CONFIG", "-o", folder / "out", "--kernels", folder / "zeros")
    assert done.returncode == 2
    assert "LeakyRelu.cpp cannot be read: not a regular file" in done.stderr
    assert not (folder / "out").exists()


def test_kernels_of_which_none_fits(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "Other.cpp").write_text("int x;\n")
    given = ("generate", ONE_OP, "-o", tmp_path / "out", "--kernels")
    done = udogen(*given, tmp_path / "kernels")
    assert done.returncode == 0
    assert "warning: no kernels of these ops in this folder: all kernels are skeletons" in done.stderr
    assert "expected files: cpu/LeakyRelu.cpp" in done.stderr
    assert udogen(*given, tmp_path / "kernels", "--strict").returncode == 2
    assert "no kernels of these ops" not in udogen(*given, ONE_KERNEL).stderr


def test_a_log_can_come_through_a_pipe() -> None:
    line = "[ ERROR ] QnnBackend_registerOpPackage failed with 4005\n"
    done = subprocess.run(
        [sys.executable, "-m", "udogen", "explain", "/dev/stdin", "--json"],
        cwd=ROOT, input=line, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["errors"]


def test_the_line_of_a_problem_is_not_waited_for(folder: Path) -> None:
    """The path may have become another file since it was read."""
    assert source_lines(str(folder / "FIFO.xml")) is None
    assert "reported" in render(Finding("reported", location=Location("x", 3)), None)


def test_what_is_opened_is_a_file(folder: Path) -> None:
    for each, why in (
        ("FIFO.xml", "not a regular file"),
        ("ZERO.xml", "not a regular file"),
        ("tests", "Is a directory"),
    ):
        with pytest.raises(OSError, match=why):
            open_plain(folder / each)
    with open_plain(folder / "CONFIG") as file:
        assert file.read() == ONE_OP.read_bytes()
    with pytest.raises(UsageError, match="cannot write"), writing(folder / "FIFO.xml"):
        raise AssertionError("nobody reads from it")
