"""`udogen new`: a project works at once, or lists the files to write; nothing is overwritten."""

from __future__ import annotations

import filecmp
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.command_line import udogen
from tests.making import ROOT, need_runtime
from udogen import backends
from udogen.configs.load import load
from udogen.python_files import load_module
from udogen.verify.test_files import configs
from udogen.verify.test_files.read import load_test_files

LEAKY = ROOT / "examples" / "leaky_relu" / "LeakyRelu.xml"
AXIS = ROOT / "examples" / "softmax" / "Softmax_Htp.json"


def make(folder: Path, *goals: str) -> subprocess.CompletedProcess[str]:
    command = f"UDOGEN={sys.executable} -m udogen"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(["make", command, *goals], cwd=folder, env=env, capture_output=True, text=True)


def test_the_starter_passes_its_tests_and_runs(tmp_path: Path) -> None:
    need_runtime("cpu")
    folder = tmp_path / "my scale"
    done = udogen("new", folder)
    assert done.returncode == 0 and done.stderr == f"next: `cd '{folder}' && make test`\n", done.stderr
    done = udogen("test", folder, "--backend", "cpu")
    assert done.returncode == 0 and "18 passed" in done.stdout, done.stdout
    made = make(folder, "run")
    assert made.returncode == 0, made.stderr
    assert "MyScaleOpPackage::MyScale ran on CPU_QTI_AISW" in made.stdout and "y: float32 1x8x8x16" in made.stdout
    [register] = re.findall(r"^udogen (register .*)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert "MyScale" in udogen(*register.split(), cwd=folder).stdout
    assert {each["action"] for each in json.loads(udogen("new", folder, "--json").stdout)["files"]} == {"unchanged"}


def test_the_config_of_the_starter(tmp_path: Path) -> None:
    for options, supported in (([], ("cpu", "htp")), (["--backend", "gpu"], ("gpu",))):
        folder = tmp_path / f"leaky-{len(options)}_x"
        assert udogen("new", folder, *options).returncode == 0
        [package], problems = load([folder / f"Leaky{len(options)}X.xml"])
        assert problems.all() == () and package.name == f"Leaky{len(options)}XOpPackage"
        assert backends.of_op(package.ops[0], package) == supported


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new"], "error: the project has no name\n"),
        (["new", "--from-onnx", "m.onnx"], "error: the project has no name\n  = udogen new NAME --from-onnx m.onnx\n"),
        (["new", "p", "--op", "X", "--from-config", "c"], "error: --op means nothing with --from-config\n"),
        (["new", "p", "--from-config", "a", "--from-onnx", "b"], "error: --from-onnx and --from-config exclude"),
        (["new", "p", "--dim", "n=2"], "error: --dim is for --from-onnx\n"),
        (["new", "p", "--from-onnx", "m.onnx", "--dim", "n=x"], "error: --dim n=x: that is not a size\n"),
        (["new", "p", "--from-config", "c.xml", "--kernel", "python"], "error: a kernel of LeakyRelu in Python cannot"),
    ],
)
def test_misuse(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "c.xml").write_text(LEAKY.read_text().replace("<Name>input</Name>", "<Name>in[0]</Name>"))
    done = udogen(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(message), done.stderr


def test_a_starter_in_python_is_short_and_right(tmp_path: Path) -> None:
    pytest.importorskip("halide")
    need_runtime("cpu")
    assert udogen("new", tmp_path / "scale", "--kernel", "python").returncode == 0
    kernel = tmp_path / "scale" / "kernels" / "Scale.py"
    assert len([line for line in kernel.read_text().splitlines() if line]) <= 12
    alone = subprocess.run([sys.executable, kernel], capture_output=True, text=True, check=False)
    assert alone.returncode == 0 and alone.stdout.startswith("12 passed"), alone.stdout + alone.stderr
    load_module(kernel).Scale.package(str(tmp_path / "own"))
    own, made = ((tmp_path / name / "Scale.xml").read_text() for name in ("own", "scale"))
    without = re.compile(r"<Constraint.*?</Constraint>|\s+", re.DOTALL)  # of the shape of y, which flags cannot express
    assert without.sub("", own) == without.sub("", made)
    done = udogen("test", tmp_path / "scale", "--backend", "cpu", "--case", "*7*")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("example", sorted(path.parent.name for path in (ROOT / "examples").glob("*/README.md")))
def test_an_example_is_copied_whole_without_what_was_built(example: str, tmp_path: Path) -> None:
    done = udogen("new", tmp_path / "copy", "--example", example)
    assert done.returncode == 0 and done.stderr == f"next: read {tmp_path / 'copy' / 'README.md'}\n"
    source = ROOT / "examples" / example
    compared = filecmp.dircmp(source, tmp_path / "copy", ignore=["__pycache__", "out"])
    assert not (compared.left_only or compared.right_only or compared.diff_files) and "README.md" in compared.same_files
    assert not list((tmp_path / "copy").rglob("*.pyc"))
    assert udogen("new", tmp_path / "copy", "--example", example, "--kernel", "cpp").returncode == 2


@pytest.mark.parametrize("config", [LEAKY, AXIS], ids=lambda path: path.name)
def test_of_a_config_what_to_write_is_named_in_its_order(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    reply = json.loads(udogen("new", folder, "--from-config", config, "--json").stdout)
    [op] = reply["ops"]
    assert (folder / config.name).read_bytes() == config.read_bytes()
    assert reply["unwritten"][0].startswith("reference.py (") and reply["unwritten"][1] == f"kernels/{op}.cpp"
    done = udogen("test", folder)
    assert done.returncode == 5 and done.stdout == ""
    assert (
        "write the reference first" in done.stderr and f"{folder / 'reference.py'}:12: write what {op}" in done.stderr
    )
    kernel = folder / "kernels" / f"{op}.cpp"
    assert "// Write the kernel here.  args holds:\n  //   // " in kernel.read_text()
    assert f'"kernels/{op}.cpp"' in kernel.read_text()


def test_a_skeleton_suits_tensors_whose_type_depends_on_the_backend(tmp_path: Path) -> None:
    types = {"CPU": "FLOAT_32", "DSP": "UINT_8"}
    tensors = {
        side: [{"name": name, "per_core_data_types": types}] for side, name in (("inputs", "x"), ("outputs", "y"))
    }
    op = {"type": "Mix", "core_types": ["CPU", "DSP"], "dsp_arch_types": ["v68"], **tensors}
    package = {"Operators": [op], "UDO_PACKAGE_NAME": "MixPackage"}
    (tmp_path / "mix.json").write_text(json.dumps({"UdoPackage_0": package}))
    done = udogen("new", tmp_path / "mix", "--from-config", tmp_path / "mix.json")
    assert done.returncode == 0, done.stderr
    skeleton = (tmp_path / "mix" / "kernels" / "Mix.cpp").read_text()
    assert "  // real(i) and setReal(i, value) suit each backend; " in skeleton
    assert "args.y.setReal(i, args.x.real(i));" in skeleton


def test_each_op_of_a_model_has_a_package_and_all_have_one_test_file(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    model = tmp_path / "m.onnx"
    text = "g (float[2, 8] x) => (float[2, 8] y) { a = acme.First (x)  y = acme.Second (a) }"
    head = '<ir_version: 10, opset_import: ["": 20, "acme": 1]>\n'
    onnx.save(onnx.parser.parse_model(head + text), model)
    reply = json.loads(udogen("new", folder, "--from-onnx", model, "--json").stdout)
    assert reply["packages"] == [f"{op}OpPackage" for op in reply["ops"]] and len(reply["ops"]) == 2
    files, _ = configs.sources(load_test_files(folder))
    assert [(op.op, op.subject.config) for op in files.ops] == [(op, folder / f"{op}.xml") for op in reply["ops"]]
    readme = (folder / "README.md").read_text()
    assert all(f"out/{name}Htp" in readme for name in reply["packages"])
    assert "\nudogen run model ../m.onnx --package out --tests .\n" in readme
