"""Code of the user that ends the program: an error with file and line, a bad exit code, and reports that name it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.making import LONG, ROOT, need_runtime
from tests.making import udogen as started
from tests.verify import toy

EXITS = {  # a line of Python, and its name in messages
    "exit-0": ("import sys; sys.exit(0)", "SystemExit: 0"),
    "exit-1": ("import sys; sys.exit(1)", "SystemExit: 1"),
    "exit-none": ("raise SystemExit", "SystemExit"),
    "argparse": ("import argparse; argparse.ArgumentParser().parse_args(['-x'])", "SystemExit: 2"),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "generator": ("raise GeneratorExit", "GeneratorExit"),
    "own": ("raise type('Own', (BaseException,), {})('mine')", "Own: mine"),
    "os": ("import os; os._exit(0)", "SystemExit: 0"),
    "error": ("raise ValueError('usual')", "usual"),
}
FUNCTION = "def scale(x, factor):\n    {}\n"
OP_TEST = (
    "from udogen.verify import op_test\n{}\n\n@op_test('Scale', config='../Toy.xml')\ndef scale(x, factor):\n    {}\n"
)
KERNEL = """import halide as hl
{}
def Scale(x, y, factor):
    {}
    i = hl.Var("i")
    y[i] = x[i] * factor
"""
HEAD = '[[op]]\nname = "Scale"\nconfig = "Toy.xml"\ndtype = "FLOAT_32"\nshape = "4"\n'
SURFACES: dict[str, tuple[str, str, int, int, str]] = {
    # the file, its text, the line that ends the program, the exit code, more of op_tests.toml
    "reference": ("reference.py", "{}", 1, 2, 'reference = "reference.py:scale"'),
    "reference-call": ("reference.py", FUNCTION, 2, 5, 'reference = "reference.py:scale"'),
    "other-reference": ("deep/other.py", "\n{}", 2, 2, 'reference = "deep/other.py:scale"'),
    "other-reference-call": ("deep/other.py", "\n" + FUNCTION, 3, 5, 'reference = "deep/other.py:scale"'),
    "tests": ("tests/test_ops.py", OP_TEST.format("{}", "return x"), 2, 2, ""),
    "tests-call": ("tests/test_ops.py", OP_TEST.format("pass", "{}"), 6, 5, ""),
    "rules": ("rules.py", "{}", 1, 5, 'rules = "rules.py"\nreference = "reference.py:scale"'),
    "rules-call": ("rules.py", "def Scale(op):\n    {}", 2, 5, 'rules = "rules.py"\nreference = "reference.py:scale"'),
    "kernel": (
        "python/Scale.py",
        KERNEL.format("{}", "pass"),
        2,
        4,
        'kernels = "python"\nreference = "reference.py:scale"',
    ),
    "kernel-call": (
        "python/Scale.py",
        KERNEL.format("pass", "{}"),
        4,
        4,
        'kernels = "python"\nreference = "reference.py:scale"',
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project whose package is built once."""
    return toy.write(tmp_path_factory.mktemp("exits"))


def written(folder: Path, surface: str, statement: str) -> str:
    """Write the test file and the file that ends the program; return the place to test."""
    name, text, _, _, more = SURFACES[surface]
    if "kernel" in surface:
        pytest.importorskip("halide", reason="pip install '.[kernels]'")
    shutil.rmtree(folder / "tests", ignore_errors=True)
    toy.write(folder, f"{HEAD}{more}\n")
    if surface.startswith("tests"):
        (folder / "op_tests.toml").unlink()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text.format(statement))
    if "rules" in surface:
        return "shapes"
    need_runtime("cpu")
    return "cpu"


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("kind", EXITS)
def test_exits_of_user_code_are_failures(folder: Path, surface: str, kind: str) -> None:
    name, _, line, code, _ = SURFACES[surface]
    statement, said = EXITS[kind]
    place = written(folder, surface, statement)
    junit = folder / "junit.xml"
    junit.unlink(missing_ok=True)
    done = udogen("test", folder, "--backend", place, "--junit", junit, "--json")
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (code, False), done.stdout
    for report in (done.stdout, junit.read_text()):
        assert f"{Path(name).name}:{line}" in report and said in report, report
    assert "internal" not in done.stdout


ENDS = {  # that nothing in the process can catch, and how the process ends
    "_exit": ("import ctypes; ctypes.CDLL(None)._exit(0)", "exit code 0"),
    "kill": ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    "abort": ("import os; os.abort()", "SIGABRT"),
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("kind", ENDS)
def test_an_end_that_cannot_be_caught_is_a_failure(folder: Path, surface: str, kind: str) -> None:
    name, _, line, _, _ = SURFACES[surface]
    statement, end = ENDS[kind]
    place, junit = written(folder, surface, statement), folder / "junit.xml"
    junit.unlink(missing_ok=True)
    done = started("test", folder, "--backend", place, "--junit", junit, "--json")
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (4 if "kernel" in surface else 5, False), done.stdout
    for report in (done.stdout, junit.read_text()):
        assert f"{Path(name).name}:{line}: it ended " in report and f"with {end}" in report, report
    assert "internal" not in done.stdout


LIBC = "import ctypes; ctypes.CDLL(None).exit(0)"
PLAIN, XDIST = "udogen with {}", "a worker of pytest-xdist"  # what has ended


@pytest.mark.parametrize(
    ("surface", "kind", "ended"),
    [
        ("reference", "_exit", PLAIN),
        ("reference-call", "kill", PLAIN),
        ("tests", "_exit", PLAIN),
        ("tests-call", "_exit", PLAIN),
        ("reference", "_exit", XDIST),
        ("tests-call", "kill", XDIST),
        ("reference-call", "exit", XDIST),
    ],
)
def test_an_end_of_pytest_is_a_failure(folder: Path, surface: str, kind: str, ended: str) -> None:
    (name, _, line, _, _), (statement, end) = SURFACES[surface], {**ENDS, "exit": (LIBC, "")}[kind]
    written(folder, surface, statement)
    said = f"{Path(name).name}:{line}: it ended {ended.format(end)}"
    fails_with(folder, said, *(["-n1"] if ended == XDIST else []))


def test_an_end_of_pytest_in_another_test_is_a_failure(folder: Path) -> None:
    written(folder, "tests", "def test_other():\n    import ctypes; ctypes.CDLL(None)._exit(0)")
    fails_with(folder, "a test of pytest: it ended udogen with exit code 0")


def fails_with(folder: Path, said: str, *options: str) -> None:
    junit = folder / "junit.xml"
    argv = [sys.executable, "-m", "pytest", "--udogen", "--udogen-backend", "cpu", "--junitxml", junit, "-q", *options]
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(argv, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stdout and said in junit.read_text()


@pytest.mark.parametrize("surface", SURFACES)
def test_exit_of_the_c_library_is_a_failure(folder: Path, surface: str) -> None:
    name, _, line, _, _ = SURFACES[surface]
    place, junit = written(folder, surface, LIBC), folder / "junit.xml"
    junit.unlink(missing_ok=True)
    done = started("test", folder, "--backend", place, "--junit", junit, "--json")
    code = 4 if "kernel" in surface else 5
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (code, False), done.stdout + done.stderr
    for report in (done.stdout, junit.read_text()):
        assert f"{Path(name).name}:{line}: it called `exit` of the C library" in report, report


PROGRAMS = {  # a statement that starts something that lasts, and the name of the process; empty if it is a thread
    "daemon": ("import subprocess; subprocess.run(['sh', '-c', '(setsid sleep {0} &)'])", "sleep {0}"),
    "child": ("import subprocess; subprocess.Popen(['sleep', '{0}'])", "sleep {0}"),
    "thread": ("import threading, time; threading.Thread(target=time.sleep, args=[{0}]).start()", ""),
}


@pytest.mark.parametrize("surface", ["reference-call", "tests", "rules-call", "kernel"])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_what_user_code_starts_ends_with_the_run(folder: Path, surface: str, kind: str) -> None:
    """It neither outlives the run nor delays its end; the pipes of its output are closed."""
    seconds = f"9{len(kind)}{len(surface)}{os.getpid()}"
    statement, named = (text.format(seconds) for text in PROGRAMS[kind])
    place = written(folder, surface, statement)
    started("test", folder, "--backend", place)
    running = [path.read_bytes().replace(b"\0", b" ").decode().strip() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not named or named not in running


@pytest.mark.parametrize("surface", SURFACES)
def test_the_terminal_shows_the_line(folder: Path, surface: str) -> None:
    name, _, line, code, _ = SURFACES[surface]
    done = udogen("test", folder, "--backend", written(folder, surface, "raise SystemExit(0)"))
    assert done.returncode == code
    assert f"{Path(name).name}:{line}" in done.stdout + done.stderr


RIGHT = f'{HEAD}reference = "reference.py:scale"\n'


@pytest.mark.parametrize(
    ("tests", "arguments", "code", "sentence"),
    [
        (HEAD, ("--backend", "cpu"), 2, "nothing was compared: 1 case without expected values"),
        (RIGHT, ("--backend", "cpu", "--on", "ssh:nobody@localhost:1"), 3, "nothing was compared: 1 case not run"),
        (
            RIGHT,
            ("--backend", "cpu", "--on", "ssh:nobody@localhost:1"),
            3,
            '"reason": "ssh does not reach the device: ssh: connect',
        ),
        (RIGHT.replace('"4"', '"0"'), ("--backend", "cpu"), 2, "nothing was compared: 1 case without expected values"),
        (RIGHT, ("--case", "Other"), 2, "no case of "),
        (RIGHT, ("--backend", "gpu"), 2, "no case of "),
        (RIGHT, ("--shard", "9/9", "--backend", "cpu"), 2, "part 9 of 9"),
        ("", (), 2, "1 error in the test file"),
    ],
    ids=["no-reference", "no-device", "reason", "empty-outputs", "pattern", "backend", "shard", "empty"],
)
def test_a_run_that_compares_nothing_is_not_green(
    folder: Path, tests: str, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    need_runtime("cpu")
    shutil.rmtree(folder / "tests", ignore_errors=True)
    toy.write(folder)
    (folder / "op_tests.toml").write_text(tests)
    done = udogen("test", folder, *arguments, "--junit", folder / "junit.xml", "--json")
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (code, False), done.stdout
    assert sentence in done.stdout
    assert 'errors="1"' in (folder / "junit.xml").read_text()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)], ids=["SIGINT", "SIGTERM"]
)
def test_signals_end_it(folder: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C is not an exception of the code that is running."""
    mark = folder / "begun"
    mark.unlink(missing_ok=True)
    written(folder, "reference-call", f"open({str(mark)!r}, 'w').close()\n    import time; time.sleep(60)")
    argv = [sys.executable, "-m", "udogen", "test", folder, "--backend", "cpu"]
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
        while not mark.exists() and running.poll() is None:
            time.sleep(0.05)
        running.send_signal(number)
        _, shown = running.communicate(timeout=LONG)
    assert running.returncode == code, shown
    assert "Error" not in shown and "raised" not in shown
