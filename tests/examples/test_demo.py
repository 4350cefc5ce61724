"""The examples: the demo ends with a report, its cases agree with numpy, and a wrong kernel is detected."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import LONG, ROOT, make_packages, need_runtime, udogen
from udogen import UsageError
from udogen.generate.kernel_files import kernel_places
from udogen.verify.test_files.expand import load_examples

FOLDERS = sorted(path.parent for path in (ROOT / "examples").glob("*/reference.py"))


def demo(examples: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, examples / "demo.py"],
        cwd=examples.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LONG,
    )


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Return a copy of the examples, so that the demo does not write into the checkout."""
    need_runtime("cpu")
    return Path(shutil.copytree(ROOT / "examples", tmp_path / "examples"))


def test_the_demo_ends_with_a_line_for_each_runtime_and_a_report(examples: Path) -> None:
    done = demo(examples)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, report, _ = [line for line in done.stdout.splitlines() if line.strip()]
    every = [case for folder in FOLDERS for example in load_examples(folder) for case in example.cases]
    assert len(lines) == 2
    for line, backend in zip(lines, ("cpu", "htp"), strict=True):
        count = sum(case.backend == backend and case.runs_on(backend) for case in every)
        shown = rf"{backend}: \d+ ops, {count} of {count} cases agree with numpy \({backend.upper()}_QTI_AISW v2\.\S+\)"
        assert re.fullmatch(shown, line), line
    page = Path(report.removeprefix("report: ")).read_text("utf-8")
    assert "LeakyRelu" in page and "HTP_QTI_AISW" in page


def test_a_wrong_kernel_is_found_out(examples: Path) -> None:
    kernel = examples / "leaky_relu" / "kernels" / "LeakyRelu.cpp"
    kernel.write_text(kernel.read_text().replace("x : alpha * x", "x : alpha * x + 0.001f"))
    for other in ("softmax", "python_kernels"):
        shutil.rmtree(examples / other)
    done = demo(examples)
    assert done.returncode == 6, done.stdout + done.stderr
    wrong = [line for line in done.stdout.splitlines() if line.endswith(" WRONG")]
    assert wrong and all(line.startswith("LeakyRelu on ") for line in wrong)
    assert "Traceback" not in done.stderr


def test_a_kernel_that_does_not_compile_is_reported(examples: Path) -> None:
    (examples / "leaky_relu" / "kernels" / "LeakyRelu.cpp").write_text("#error unfinished\n")
    done = demo(examples)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "src/ops/LeakyRelu.cpp:1: " in done.stderr and "unfinished" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_configs_of_examples_have_no_warning_and_convert(folder: Path) -> None:
    for example in load_examples(folder):
        done = udogen("check", example.config, "--backend", "cpu", "--json")
        assert done.returncode == 0, done.stdout
        assert json.loads(done.stdout)["warnings"] == []
        for backend, op in {(case.backend, case.op) for case in example.cases}:
            files = (f"{op}.cpp", f"{op}.py")
            assert any(
                (place / file).exists()
                for file in files
                for place in kernel_places(example.kernels, backend, "qhpi", file)
            )


def test_an_example_without_its_function(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no reference\.py"):
        load_examples(tmp_path)
    (tmp_path / "reference.py").write_text("examples = 5\n")
    with pytest.raises(UsageError, match="no function examples"):
        load_examples(tmp_path)


def test_packages_of_examples_are_generated_without_a_warning(tmp_path: Path) -> None:
    for folder in FOLDERS:
        for example in load_examples(folder):
            [made] = make_packages([example.config], tmp_path / folder.name, chosen=["cpu"], kernels=example.kernels)
            assert all(part.targets for part in made.plan.parts)
            shutil.rmtree(tmp_path / folder.name)
