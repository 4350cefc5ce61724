"""LiteRT's own compiler with Qualcomm's plug-in: a custom op becomes a context binary, which then computes right."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.clients import litert_model
from tests.command_line import udogen
from tests.making import LONG, ROOT, make_packages, make_well
from tests.wheels import install, parts_of

TOOL, PLUGIN, SCHEMA = (
    "tools/apply_plugin_main",
    "vendors/qualcomm/compiler/libLiteRtCompilerPlugin_Qualcomm.so",
    "schema_py_generated.py",
)
RUNTIME = "onnxruntime-qnn==2.7.0"  # 2.3.0 has a libQnnSystem.so that is too old for the plug-in
CONTEXT = bytes.fromhex("00000002000000030000000000000001")  # how a context binary begins


@pytest.fixture(scope="module")
def litert() -> Path:
    parts = {f"ai_edge_litert/{part}": part for part in (TOOL, PLUGIN, SCHEMA)}
    folder = parts_of("ai-edge-litert==2.3.0", "manylinux_2_27_x86_64", parts)
    (folder / TOOL).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def qnn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return QNN's libraries, and a libQnnLpai.so: the plug-in is linked with it, and no wheel has it."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    libraries = install(RUNTIME, tmp_path_factory.mktemp("qnn")) / "onnxruntime_qnn"
    empty = ["gcc", "-shared", "-x", "c", "/dev/null", "-o", str(libraries / "libQnnLpai.so")]
    subprocess.run(empty, check=True)
    return libraries


def test_a_custom_op_through_the_plug_in(litert: Path, qnn: Path, tmp_path: Path) -> None:
    example = ROOT / "examples" / "leaky_relu"
    [made] = make_packages([example / "LeakyRelu.xml"], tmp_path, chosen=["htp"], kernels=example / "kernels")
    make_well(made.folder, "htp_x86")
    flag = udogen("register", made.folder, "--client", "litert", "--target", "htp", "--only", "flag").stdout
    model, compiled = tmp_path / "in.tflite", tmp_path / "out.tflite"
    litert_model.main(str(litert / SCHEMA), str(model))
    argv = [str(litert / TOOL), "--cmd=apply", f"--model={model}", f"--o={compiled}", "--soc_manufacturer=Qualcomm"]
    argv += ["--soc_model=SM8650", f"--libs={(litert / PLUGIN).parent}", "--err=--", *shlex.split(flag)]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(qnn)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    content = compiled.read_bytes()
    context = tmp_path / "context.bin"
    context.write_bytes(content[content.index(CONTEXT) :])
    x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    np.save(tmp_path / "x.npy", x)
    run = udogen(
        "run", "context", context, "--op-package", made.folder, "--qnn-lib", qnn / "libQnnHtp.so", "--soc", "SM8650",
        "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out",
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    [y] = (tmp_path / "out").rglob("y.npy")
    np.testing.assert_array_equal(np.load(y), np.where(x > 0, x, np.float32(0.25) * x))
