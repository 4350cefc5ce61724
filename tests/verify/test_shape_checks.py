"""The place `shapes` of `udogen test`: shape rules, the user's converter code and the reference, compared."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.making import ROOT

POOL = ROOT / "examples" / "max_pool"
RIGHT = """
  const auto size = static_cast<std::uint32_t>(op.number("size", 2));
  const auto stride = static_cast<std::uint32_t>(op.number("stride", 2));
  const auto windows = [=](std::uint32_t length) {
    std::uint32_t count = length > size ? (length - size + stride - 1) / stride + 1 : 1;
    return (count - 1) * stride >= length ? count - 1 : count;
  };
  op.setShape(0, {op.dim(0, 0), windows(op.dim(0, 1)), windows(op.dim(0, 2)), op.dim(0, 3)});
"""
MISSING = 'op.missing(0, "pooled");'


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example with its converter op package, which has no user code yet."""
    folder = tmp_path_factory.mktemp("pool") / "pool"
    shutil.copytree(POOL, folder)
    done = udogen("generate", folder / "MaxPool.xml", "--converter", "--backend", "cpu", "-o", folder / "made")
    assert done.returncode == 0, done.stderr
    file = folder / "op_tests.toml"
    key = 'rules = "rules.py"\nconverter = "made/MaxPoolPackage_Converter_Op_Package"\n'
    file.write_text(file.read_text().replace('rules = "rules.py"\n', key))
    return folder


def checked(pool: Path, code: str = MISSING, *, rules: str = "") -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """Run `udogen test --backend shapes` with this code in the converter op package; return it and its findings."""
    source = pool / "made/MaxPoolPackage_Converter_Op_Package/ConverterOpPackage/ConverterOpPackage.cpp"
    original = source.with_suffix(".original")
    if not original.exists():
        shutil.copy(source, original)
    source.write_text(original.read_text().replace(MISSING, code, 1))
    (pool / "rules.py").write_text(rules or (POOL / "rules.py").read_text())
    done = udogen("test", pool, "--backend", "shapes", "--json")
    found = json.loads(done.stdout)
    cases = found.get("cases", [])
    return done, {each["message"] for case in cases for each in case["findings"]}


def test_code_that_is_right_agrees_with_rules_and_reference(pool: Path) -> None:
    done, sentences = checked(pool, RIGHT)
    assert (done.returncode, sentences) == (0, set()), done.stdout
    assert json.loads(done.stdout)["counts"]["passed"] == 12


def test_code_that_rounds_down_is_found(pool: Path) -> None:
    halves = "op.dim(0, 1) / two, op.dim(0, 2) / two"
    code = f"const std::uint32_t two = 2;\n  op.setShape(0, {{op.dim(0, 0), {halves}, op.dim(0, 3)}});"
    done, sentences = checked(pool, code)
    assert done.returncode == 6
    assert "for `pooled` the converter library returns 2x3x4x4, the shape rule 2x4x5x4" in sentences


def test_a_rule_that_differs_from_the_reference_is_found(pool: Path) -> None:
    rules = (
        "def MaxPool(op):\n"
        "    batch, rows, columns, channels = op.image.shape\n"
        "    return {'pooled': [batch, max(rows // op.stride, 1), max(columns // op.stride, 1), channels]}\n"
    )
    done, sentences = checked(pool, RIGHT, rules=rules)
    assert done.returncode == 6
    assert "for `pooled` the shape rule returns 2x3x4x4, the reference 2x4x5x4" in sentences


def test_code_that_is_not_written_is_reported(pool: Path) -> None:
    done, sentences = checked(pool)
    assert done.returncode == 6
    assert sentences == {"the converter library has no result: MaxPoolShapeInference returned 1000"}


def test_code_that_crashes_ends_its_process_alone(pool: Path) -> None:
    done, _ = checked(pool, "*static_cast<volatile int*>(nullptr) = 1;")
    errors = {case["error"]["message"] for case in json.loads(done.stdout)["cases"]}
    assert done.returncode == 5
    assert errors == {"libConverterOpPackage.so ended its process (-11) when it was called for op `MaxPool`"}


def test_a_rule_that_raises_is_an_error_of_its_case(pool: Path) -> None:
    done, _ = checked(pool, RIGHT, rules="def MaxPool(op):\n    return {'pooled': op.imag.shape}\n")
    troubles = {case["error"]["message"] for case in json.loads(done.stdout)["cases"]}
    assert done.returncode == 5
    assert any("rules.py:2: AttributeError" in each and "did you mean `image`?" in each for each in troubles)


def test_a_rule_with_nothing_to_compare_it_with_has_not_passed(tmp_path: Path) -> None:
    for name in ("MaxPool.xml", "rules.py"):
        shutil.copy(POOL / name, tmp_path)
    lines = (POOL / "op_tests.toml").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("reference", "kernels"))]
    (tmp_path / "op_tests.toml").write_text("\n".join(kept))
    counts = json.loads(udogen("test", tmp_path, "--backend", "shapes", "--json").stdout)["counts"]
    assert counts["passed"] == 0 and counts["ran"] == 12


def test_a_folder_without_a_converter_package_is_refused(pool: Path, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for name in ("MaxPool.xml", "reference.py", "rules.py"):
        shutil.copy(POOL / name, tmp_path / "t")
    text = (POOL / "op_tests.toml").read_text().replace('kernels = "kernels"\n', 'converter = "."\n')
    (tmp_path / "t/op_tests.toml").write_text(text)
    done = udogen("test", tmp_path / "t", "--backend", "shapes")
    assert done.returncode == 5 and "contains no package that udogen generated" in done.stdout + done.stderr
