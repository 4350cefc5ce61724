"""ExecuTorch: the printed code runs on ExecuTorch's own Python (from its wheel, without torch).

The second half runs where UDOGEN_TEST_EXECUTORCH names a Python with torch, executorch 1.5 and what udogen needs, and
is skipped elsewhere (torch is 0.5 GB): ExecuTorch's Qualcomm backend lowers models with a package of udogen on the real
libQnnHtp.so, its runtime runs them, and udogen executes the contexts in their .pte files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import wheels
from tests.clients.laying import AWKWARD, AWKWARD_FOLDER, PLAIN, lay
from tests.making import LONG, ROOT, htp_package, udogen
from udogen.clients import programs
from udogen.clients.client import register
from udogen.clients.package import PackageOptions, find_packages

# The printed code only needs a name of torch.
_TORCH = """
import sys, types
class Name:
    def __init__(self, text=""): self.text = text
    def __getattr__(self, name): return Name(f"{self.text}.{name}".lstrip("."))
    def __str__(self): return self.text
torch = types.ModuleType("torch")
torch.ops = Name()
sys.modules["torch"] = torch
"""


@pytest.mark.parametrize("options", [PackageOptions(), PackageOptions("v75", "android")], ids=["pc", "device"])
@pytest.mark.parametrize(("config", "folder"), [(PLAIN, "plain"), (AWKWARD, AWKWARD_FOLDER)], ids=["plain", "awkward"])
def test_the_code_we_print_makes_the_options(
    config: Path, folder: str, options: PackageOptions, tmp_path: Path
) -> None:
    """By hand, and through custom_op.interface, which reads the config through `udogen.compat.qti`."""
    out = lay(config, tmp_path / folder)
    packages = find_packages([out], options)
    setup = register(programs.ALL["executorch"], packages)
    by_hand, over_interface = (part.text for part in setup.snippets if part.kind in ("python", "builder"))
    program = tmp_path / "program.py"
    show = "print(op_package_options)\n"
    program.write_text(f"{_TORCH}\n{by_hand}\n{show}\n{over_interface}\n{show}", "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(wheels.executorch())])}
    done = subprocess.run(
        [sys.executable, "-m", "udogen.compat.qti", str(program)],
        cwd=tmp_path,
        env={**environment, "PYTHONIOENCODING": "utf-8:surrogateescape"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert sorted(_infos(first)) == sorted(_infos(second))  # its loops are nested the other way round
    assert len(_infos(first)) == (3 if options.system else 1) * len(packages[0].ops)
    assert done.stderr == "note: qti.aisw.op_package_generator is udogen's\n"


def _infos(text: str) -> list[str]:
    return [each.rstrip("), ]") for each in text.split("QnnExecuTorchOpPackageInfo(")[1:]]


# --- complete ExecuTorch ------------------------------------------------------------------------------

# ExecuTorch 1.5 passes the processor in a struct of SDK 2.37; of the libraries on PyPI, those of this wheel (SDK
# 2.49) read it there.
QNN = "onnxruntime-qnn==2.5.0"
_QNN_PARTS = (
    *(f"onnxruntime_qnn/{name}" for name in ("libQnnHtp.so", "libQnnSystem.so")),
    *(
        f"onnxruntime_qnn.libs/{name}"
        for name in ("libc++-71bc274c.so.1.0", "libc++abi-0539aa51.so.1.0", "libunwind-6b740a46.so.1.0")
    ),
)
SHIFT = Path(__file__).with_name("shift")
LEAKY_KERNELS = ROOT / "examples" / "leaky_relu" / "kernels"


def _python() -> str:
    """Return a Python with torch and ExecuTorch, or skip the test."""
    if not (given := os.environ.get("UDOGEN_TEST_EXECUTORCH")):
        pytest.skip("UDOGEN_TEST_EXECUTORCH names no Python with torch and executorch")
    return given


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the folder of the lowered models, and the result of each case."""
    python = _python()
    folder = tmp_path_factory.mktemp("executorch")
    htp_package(PLAIN, folder / "leaky", LEAKY_KERNELS)
    htp_package(SHIFT / "Shift.xml", folder / "shift", SHIFT / "kernels")
    paths = [str(_qnn() / "onnxruntime_qnn"), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {
        "PYTHONPATH": str(ROOT),
        "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
        "QNN_SDK_ROOT": "",  # or it would download an SDK
    }
    done = subprocess.run(
        [python, str(Path(__file__).with_name("executorch_child.py")), folder, folder / "leaky", folder / "shift"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert "\nANSWERS " in done.stdout, done.stderr[-3000:]
    return folder, json.loads(done.stdout.rpartition("\nANSWERS ")[2])


def _qnn() -> Path:
    return wheels.parts_of(QNN, "manylinux_2_35_x86_64", {part: part for part in _QNN_PARTS})


def _reply(folder: Path, case: str, library: str) -> np.ndarray[Any, Any]:
    """Return the output of the context in a .pte, executed in the real libQnnHtp.so."""
    [package] = (folder / library).rglob("libQnn*.so")
    out = folder / case / "out"
    done = udogen(
        "run", "context", folder / case / "forward_0.bin", "--op-package", package, "--soc", "SM8650",
        "--qnn-lib", _qnn() / "onnxruntime_qnn" / "libQnnHtp.so",
        "--input", f"input_0_x@0={folder / case / 'x.npy'}", "--output-dir", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [reply] = out.rglob("*.npy")
    return np.load(reply)


@pytest.mark.parametrize(("case", "library", "off"), [
    ("alone", "leaky", 2e-3),  # the graph has 16-bit floats
    ("interface", "leaky", 2e-3),
    ("scalars", "shift", 2e-2),
])  # fmt: skip
def test_a_model_with_our_op_is_lowered_and_run_and_its_numbers_are_right(
    lowered: tuple[Path, dict[str, str]], case: str, library: str, off: float
) -> None:
    folder, replies = lowered
    assert replies[case] == "fine"
    want = np.load(folder / case / "want.npy")
    np.testing.assert_allclose(np.load(folder / case / "runtime.npy"), want, rtol=0, atol=off)
    np.testing.assert_allclose(_reply(folder, case, library), want, rtol=0, atol=off)


@pytest.mark.parametrize(("case", "value"), [("list", 700.0 - 1400.0), ("order", -2.0)])
def test_what_our_rules_refuse_gives_wrong_numbers(
    lowered: tuple[Path, dict[str, str]], case: str, value: float
) -> None:
    """[1, 2, 3] arrives as [1, 0, 2]; (3, true) in another order as (1, true)."""
    folder, replies = lowered
    assert replies[case] == "fine"
    wrong = _reply(folder, case, "shift") - np.load(folder / case / "want.npy")
    np.testing.assert_allclose(wrong, np.full_like(wrong, value), atol=0.6)
