"""The seam: the core without udogen/onnx, and a place and a verb of another distribution."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.opdef.texts import collection, op, tensor
from tests.test_house import MODULES, PACKAGE, ROOT, imports, nodes, short

# Fast tests of the core that use most of its folders.
CORE_TESTS = ("verify/test_verdict.py", "cli/test_completion.py", "opdef/test_values.py", "backends")
PLUGIN = """
import click
import numpy as np
from udogen.backends.backend import Place, Program
from udogen.runtime.op.calls import OpResult, Times
from udogen.runtime.library import RuntimeInfo
from udogen.verify.places import ProgramSession

class Session(ProgramSession):
    runtime = RuntimeInfo("numpy", "", "", np.__version__, "")

    def run_chain(self, calls):
        [call] = calls
        return OpResult({"y": call.inputs[0].data * 2}, Times(0, 0, 0), self.runtime)

class Numpy(Program):
    def open(self, built, backend, timeout):
        return Session()

NUMPY = Place("numpy", "", "numpy", "client", (1, 2), "numpy", program=Numpy())

@click.command("hello", short_help="Say hello.")
def hello():
    click.echo("hello")
"""
POINTS = "[udogen.places]\nnumpy = my_plugin:NUMPY\n[udogen.verbs]\nhello = my_plugin:hello\ngone = my_plugin:GONE\n"
CONFIG = collection(op(tensor("Input", "x", rank="1D") + tensor("Output", "y", rank="1D"), "Twice"), name="P")
TESTS = 'config = "Twice.xml"\n[[op]]\nname = "Twice"\nreference = "reference.py:twice"\n[[op.case]]\nshape = "5"\n'


def run(*arguments: object, root: Path, more: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python on another copy of udogen, or with another folder to import from."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(root), more)))}
    argv = [sys.executable, *map(str, arguments)]
    return subprocess.run(argv, cwd=root, env=env, capture_output=True, text=True, timeout=600, check=False)


def test_the_core_never_imports_the_onnx_folder() -> None:
    core = [path for path in MODULES if short(path).split("/")[0] != "onnx"]
    found = [f"{short(path)}:{line}" for path in core for line, name in imports(path) if name.startswith("udogen.onnx")]
    texts = [
        short(path)
        for path in core
        for node in nodes(path)
        if isinstance(getattr(node, "value", None), str) and getattr(node, "value", "").startswith("udogen.onnx")
    ]
    assert not found and texts == ["plugins.py"], (found, texts)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project without udogen/onnx."""
    root = tmp_path_factory.mktemp("core")
    for name in ("tests", "templates", "schemas", "examples", "docs"):
        (root / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copytree(PACKAGE, root / "udogen", ignore=shutil.ignore_patterns("__pycache__", "onnx"))
    return root


def test_the_core_works_without_the_onnx_folder(core: Path) -> None:
    assert not (core / "udogen" / "onnx").exists()
    shown = run("-m", "udogen", "--help", root=core)
    assert shown.returncode == 0 and "onnx" not in shown.stdout, shown.stderr
    for words, text in {
        ("onnx",): "No such command 'onnx'",
        ("run", "model", "m.onnx"): "No such command 'model'",
        ("new", "X", "--from-onnx", "m.onnx"): "No such option",
        ("test", "examples/leaky_relu", "--backend", "cpu-ort"): "`cpu-ort`",
    }.items():
        refused = run("-m", "udogen", *words, root=core)
        assert refused.returncode == 2 and text in refused.stderr, (words, refused.stderr)
    code = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    done = run(
        "-c", code, "-q", "-p", "no:cacheprovider", *(f"tests/{core_test}" for core_test in CORE_TESTS), root=core
    )
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Return a folder with a plug-in, as `pip install --target` leaves it."""
    folder = tmp_path / "site"
    (folder / "my_plugin-1.0.dist-info").mkdir(parents=True)
    (folder / "my_plugin.py").write_text(PLUGIN)
    (folder / "my_plugin-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: my_plugin\nVersion: 1.0\n")
    (folder / "my_plugin-1.0.dist-info/entry_points.txt").write_text(POINTS)
    return folder


def test_a_stranger_adds_a_place_and_a_verb(plugin: Path, tmp_path: Path) -> None:
    assert "hello  Say hello." in run("-m", "udogen", "--help", root=ROOT, more=str(plugin)).stdout
    assert run("-m", "udogen", "hello", root=ROOT, more=str(plugin)).stdout == "hello\n"
    (tmp_path / "Twice.xml").write_text(CONFIG)
    (tmp_path / "op_tests.toml").write_text(TESTS)
    for factor, code in ((2, 0), (3, 6)):
        (tmp_path / "reference.py").write_text(f"def twice(x):\n    return {factor} * x\n")
        done = run("-m", "udogen", "test", tmp_path, "--backend", "numpy", root=ROOT, more=str(plugin))
        assert done.returncode == code and "numpy" in done.stdout, done.stdout + done.stderr


def test_a_plugin_that_cannot_be_loaded_is_a_sentence(plugin: Path) -> None:
    done = run("-m", "udogen", "gone", root=ROOT, more=str(plugin))
    assert done.returncode == 2 and "the plug-in `gone` (udogen.verbs) cannot be loaded" in done.stderr, done.stderr
