"""`udogen script` for this machine: udogen's client with the real libQnnCpu and libQnnHtp."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.scripts.conftest import Made, Y
from tests.scripts.standing import run


def script(made: Made, out: Path, *arguments: object, backend: str = "cpu") -> Path:
    """Write a script for this machine."""
    model = ["--client", "cpp", "--model", made.file(f"{backend}.bin")]
    done = udogen("script", made.folder / backend, *model, "-o", out, *arguments)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_our_client_runs_in_the_real_runtime_and_the_numbers_are_right(
    made: Made, tmp_path: Path, backend: str
) -> None:
    """In a folder whose name two shells could misread."""
    folder = script(made, tmp_path / "a `b` & 'c' $d", *made.inputs, backend=backend)
    done = run(folder / "run.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "output: right, 24 values, the largest difference is 0\n" in done.stdout
    out = Path(done.stderr.splitlines()[-1].removeprefix("outputs are in "))
    assert out.parent == folder / "outputs"
    np.testing.assert_array_equal(np.fromfile(out / "out" / "output.raw", "<f4"), Y.ravel())
    assert not list((folder / ".run").glob("*/runs/*")), "the folder of the run is left behind"


@pytest.fixture(scope="module")
def wrong(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a script with a wrong reference."""
    base = tmp_path_factory.mktemp("wrong")
    bad = Y.copy()
    bad.reshape(-1)[[5, 7]] = Y.ravel()[5] + np.float32(0.25), np.nan
    np.save(base / "bad.npy", bad)
    files = ["--input", f"input={made.file('x.npy')}", "--reference", f"output={base / 'bad.npy'}"]
    return script(made, base / "out", *files, "--tolerance", "0.125")


def test_wrong_numbers_are_reported_and_end_with_6(wrong: Path) -> None:
    done = run(wrong / "run.py")
    assert done.returncode == 6, done.stdout + done.stderr
    is_, shall = Y.ravel()[5], Y.ravel()[5] + np.float32(0.25)
    assert done.stdout.splitlines()[-1] == (
        f"output: wrong, 2 of 24 values, the first is 5: {is_:.6g} instead of {shall:.6g}; "
        "the largest difference is 0.25"
    )


def _with_client(source: Path, folder: Path, text: str) -> Path:
    """Return a copy of a script, with a shell script as its client."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("outputs", ".run"))
    (folder / "bin/x86_64/udogen-client").write_text(f"#!/bin/sh\n{text}\n")
    return folder


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("float16", [1.5, -0.0, np.inf, np.nan, 6e-8], [1.5, 0, -np.inf, np.nan, 6e-8]),
        ("float32", [1e30, -np.inf, np.nan], [1e30, np.inf, np.nan]),
        ("float64", [1e300, 1.5], [1e300, 2.5]),
        ("int8", [-128, 127], [-128, 100]),
        ("int16", [-32768, 1], [32767, 1]),
        ("int32", [-(2**31), 1], [2**31 - 1, 1]),
        ("int64", [-(2**63), 2**53 + 1], [-(2**63), 2**53 + 64]),
        ("uint8", [0, 255], [0, 250]),
        ("uint16", [0, 65535], [0, 65530]),
        ("uint32", [0, 2**32 - 1], [0, 2**32 - 9]),
        ("uint64", [0, 2**64 - 1], [0, 2**63]),
    ],
)
def test_every_type_is_compared(tmp_path: Path, wrong: Path, dtype: str, good: list, bad: list) -> None:
    """Only the comparison of a script, with a client that copies its input."""
    copy = 'while [ "$1" != --output ]; do shift; done\ncp inputs/input.raw "$2/copy.raw"'
    folder = _with_client(wrong, tmp_path / "out", copy)
    plan = json.loads((folder / "plan.json").read_text())
    check = {**plan["checks"][0], "dtype": dtype, "absolute": 0.0, "relative": 0.0, "output": "copy.raw"}
    (folder / "plan.json").write_text(json.dumps({**plan, "checks": [check], "vendors": []}))
    for expected, values, code in ((good, good, 0), (good, bad, 6), ([], [], 6)):
        np.array(expected, dtype).tofile(folder / "references/output.raw")
        np.array(values, dtype).tofile(folder / "inputs/input.raw")
        done = run(folder / "run.py")
        assert done.returncode == code, (dtype, values, done.stdout, done.stderr)


# --- failures --------------------------------------------------------------------------------------------------------


def test_missing_vendor_files_are_reported_before_anything_runs(wrong: Path) -> None:
    """With a Python that cannot import a wheel of the runtime: -S omits site-packages."""
    argv = [sys.executable, "-I", "-S", str(wrong / "run.py")]
    done = subprocess.run(argv, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "error: the vendor's libQnnCpu.so: not on this machine",
        "  = set QNN_SDK_ROOT to the SDK, or UDOGEN_VENDOR_DIR to a folder that has them",
        "  = or put the Python first on PATH that has onnxruntime-qnn (2.3.0 has libQnnCpu.so)",
    ]


@pytest.mark.parametrize(
    ("arguments", "remote", "message"),
    [
        (["--nonsense"], "", "--nonsense"),
        ([], "here", "error: here/LeakyReluPackage-cpp is not an absolute path\n  = set UDOGEN_REMOTE to one\n"),
        (
            [],
            "/tmp/a:b",
            "error: the folder /tmp/a:b/LeakyReluPackage-cpp contains `:`, a separator of cpp or its loaders\n"
            "  = set UDOGEN_REMOTE to another folder\n",
        ),
        (["--out", "/usr"], "", "error: /usr is not empty\n  = choose another folder with --out\n"),
    ],
)
def test_misuse(wrong: Path, arguments: list[str], remote: str, message: str) -> None:
    done = run(wrong / "run.py", *arguments, UDOGEN_REMOTE=remote)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_crash_of_the_client_is_reported(wrong: Path, tmp_path: Path) -> None:
    crash = "echo Registration failed: 4006\nkill -SEGV $$"
    done = run(_with_client(wrong, tmp_path / "out", crash) / "run.py")
    assert done.returncode == 5
    log = tmp_path / "out/outputs/001/log.txt"
    assert f"error: cpp ended with 139\n  = udogen explain {log}\n" in done.stderr
    assert "Registration failed: 4006" in log.read_text()


def test_a_refusal_of_the_runtime_is_reported_by_udogens_client(made: Made, tmp_path: Path) -> None:
    """A context binary that is damaged."""
    out = script(made, tmp_path / "out", *made.inputs)
    next((out / "models").iterdir()).write_bytes(b"no context")
    done = run(out / "run.py")
    assert done.returncode == 5
    assert "udogen-client: contextCreateFromBinary failed with " in done.stdout
    assert "error: cpp ended with 1\n" in done.stderr
