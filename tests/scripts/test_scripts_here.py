"""`udogen script --device local`: udogen's client and ONNX Runtime with the real libQnnCpu and libQnnHtp."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.scripts.conftest import Made, X, Y
from tests.scripts.standing import run


def script(made: Made, out: Path, *arguments: object, client: str = "cpp", backend: str = "cpu") -> Path:
    """Write a script for this machine."""
    done = udogen("script", made.folder / backend, "--client", client, "--device", "local", "-o", out, *arguments)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module", params=["cpu", "htp"])
def scripted(request: pytest.FixtureRequest, made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return udogen's client, in a folder whose name two shells could misread."""
    backend = request.param
    out = tmp_path_factory.mktemp(backend) / "a `b` & 'c' $d"
    arguments = ["--context", made.file(f"{backend}.bin"), *made.inputs, "--prove"]
    return script(made, out, *arguments, backend=backend)


def test_our_client_runs_in_the_real_runtime_and_the_numbers_are_right(scripted: Path) -> None:
    done = run(scripted / "run.py")
    assert done.returncode == 0, done.stdout + done.stderr
    where = "HTP0" if "htp" in str(scripted.parent) else "CPU0"
    assert f"{where} sample 0 output: right, 24 values, the largest difference is 0\n" in done.stdout
    assert f"{where}: LeakyReluPackage::LeakyRelu ran in the package's kernel, counted " in done.stdout
    out = Path(done.stderr.splitlines()[-1].removeprefix("outputs are in "))
    assert out.parent == scripted / "outputs"
    np.testing.assert_array_equal(np.fromfile(out / where / "Result_0" / "output.raw", "<f4"), Y.ravel())
    assert not list((scripted / ".run").glob("*/runs/*")), "the folder of the run is left behind"


# --- several samples, wrong numbers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wrong(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return two samples, the second with a wrong reference."""
    base = tmp_path_factory.mktemp("wrong")
    for name, array in (("x1", -X), ("y1", np.where(X < 0, -X, np.float32(-0.5) * X)), ("bad", Y.copy())):
        if name == "bad":
            array.reshape(-1)[5] += 0.25
            array.reshape(-1)[7] = np.nan
        np.save(base / f"{name}.npy", array)
    arguments = ["--input", f"input={base / 'x1.npy'}", "--input", f"input={made.file('x.npy')}"]
    arguments += ["--reference", f"output={base / 'y1.npy'}", "--reference", f"output={base / 'bad.npy'}"]
    return script(made, base / "out", "--context", made.file("cpu.bin"), *arguments, "--tolerance", "0.125,1e-3")


def test_wrong_numbers_are_reported_and_end_with_6(wrong: Path) -> None:
    done = run(wrong / "run.py")
    assert done.returncode == 6, done.stdout + done.stderr
    first, second = done.stdout.splitlines()[-2:]
    assert first == "CPU0 sample 0 output: right, 24 values, the largest difference is 0"
    is_, shall = Y.ravel()[5], Y.ravel()[5] + np.float32(0.25)
    assert second == (
        f"CPU0 sample 1 output: wrong, 2 of 24 values, the first is 5: {is_:.6g} instead of {shall:.6g}; "
        "the largest difference is 0.25"
    )


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
    folder = tmp_path / "out"
    _copying(wrong, folder)
    plan = json.loads((folder / "plan.json").read_text())
    check = {**plan["checks"][0], "dtype": dtype, "absolute": 0.0, "relative": 0.0, "output": "copy.raw"}
    (folder / "plan.json").write_text(json.dumps({**plan, "checks": [check], "vendors": []}))
    for expected, values, code in ((good, good, 0), (good, bad, 6), ([], [], 6)):
        np.array(expected, dtype).tofile(folder / "references/0/output.raw")
        np.array(values, dtype).tofile(folder / "inputs/0/input.raw")
        done = run(folder / "run.py")
        assert done.returncode == code, (dtype, values, done.stdout, done.stderr)


def _copying(source: Path, folder: Path) -> None:
    import shutil

    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("outputs", ".run"))
    client = folder / "bin/x86_64/udogen-client"
    client.write_text('#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done\ncp inputs/0/input.raw "$2/copy.raw"\n')


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
    ("arguments", "code", "message"),
    [
        (["--nonsense"], 2, "--nonsense"),
        (["--devices", "0"], 2, "error: --devices 0: not a number\n  = as in --devices 2\n"),
        (
            ["--devices", "2"],
            2,
            "error: cpp runs on one device: cpu is one device\n  = leave --devices out\n",
        ),
        (["--remote", "here"], 2, "error: here is not an absolute path\n  = --remote /data/local/tmp/udogen\n"),
        (
            ["--remote", "/tmp/a:b"],
            2,
            "error: the folder /tmp/a:b/LeakyReluPackage-cpp contains `:`, a separator of cpp or its loaders\n"
            "  = move it with --remote (UDOGEN_REMOTE)\n",
        ),
        (["--out", "/usr"], 2, "error: /usr is not empty\n  = choose another folder with --out\n"),
    ],
)
def test_misuse(wrong: Path, arguments: list[str], code: int, message: str) -> None:
    done = run(wrong / "run.py", *arguments)
    assert done.returncode == code
    assert message in done.stderr


def test_a_crash_of_the_client_is_reported(wrong: Path, tmp_path: Path) -> None:
    _copying(wrong, tmp_path / "out")
    (tmp_path / "out/bin/x86_64/udogen-client").write_text("#!/bin/sh\necho Registration failed: 4006\nkill -SEGV $$\n")
    done = run(tmp_path / "out" / "run.py")
    assert done.returncode == 5
    assert "error: cpp ended with 139 on CPU0\n" in done.stderr
    log = tmp_path / "out/outputs/001/log.txt"
    assert f"  = udogen explain {log}\n" in done.stderr
    assert "Registration failed: 4006" in log.read_text()


def test_a_refusal_of_the_runtime_is_reported_by_udogens_client(made: Made, wrong: Path, tmp_path: Path) -> None:
    """A context of HTP and a device that does not exist; libQnnHtp itself crashes after that."""
    out = script(made, tmp_path / "out", "--context", made.file("htp.bin"), *made.inputs, backend="htp")
    text = (out / "device.sh").read_text()
    (out / "device.sh").write_text(text.replace(" --output ", " --device 7 --output "))
    done = run(out / "run.py")
    assert done.returncode == 5
    assert "udogen-client: deviceCreate failed with 14001" in done.stdout
    assert "error: cpp ended with 1 on HTP0\n" in done.stderr
