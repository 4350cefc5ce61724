"""The place `shapes` of `udogen test`: shape rules, the user's converter code and the reference, compared."""

from __future__ import annotations

import json
import shutil
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


HALVES = "op.setShape(0, {op.dim(0, 0), op.dim(0, 1) / 2u, op.dim(0, 2) / 2u, op.dim(0, 3)});"
RULE = """def MaxPool(op):
    batch, rows, columns, channels = op.image.shape
    return {'pooled': [batch, max(rows // op.stride, 1), max(columns // op.stride, 1), channels]}
"""
SURFACES: dict[str, tuple[str, str, int, str]] = {
    # the code in the converter op package, the rules (empty: those of the example), the exit code, a message
    "all agree": (RIGHT, "", 0, ""),
    "code that rounds down": (
        HALVES, "", 6, "for `pooled` the converter library returns 2x3x4x4, the shape rule 2x4x5x4",
    ),
    "a rule that rounds down": (RIGHT, RULE, 6, "for `pooled` the shape rule returns 2x3x4x4, the reference 2x4x5x4"),
    "no code": (MISSING, "", 6, "the converter library has no result: MaxPoolShapeInference returned 1000"),
    "code that crashes": (
        "*static_cast<volatile int*>(nullptr) = 1;", "", 5,
        "libConverterOpPackage.so crashed with SIGSEGV (segmentation fault) in phase `MaxPoolShapeInference`",
    ),
    "a rule that raises": (RIGHT, "def MaxPool(op):\n    return op.imag.shape\n", 5, "did you mean `image`?"),
}  # fmt: skip


@pytest.mark.parametrize("name", SURFACES)
def test_what_differs_is_named(pool: Path, name: str) -> None:
    code, rules, exit_code, message = SURFACES[name]
    source = pool / "made/MaxPoolPackage_Converter_Op_Package/ConverterOpPackage/ConverterOpPackage.cpp"
    original = source.with_suffix(".original")
    if not original.exists():
        shutil.copy(source, original)
    source.write_text(original.read_text().replace(MISSING, code, 1))
    (pool / "rules.py").write_text(rules or (POOL / "rules.py").read_text())
    done = udogen("test", pool, "--backend", "shapes", "--json")
    result = json.loads(done.stdout)
    said = {each["message"] for case in result["cases"] for each in (*case["findings"], case["error"]) if each}
    assert done.returncode == exit_code and (result["counts"]["passed"] == 12) is not bool(message), done.stdout
    assert any(message in each for each in said) if message else said == set()
    assert "rule that raises" not in name or any("rules.py:2: AttributeError" in each for each in said)


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
