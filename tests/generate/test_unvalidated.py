"""CPU packages under clients that need not validate: many nodes that validateOpConfig never saw, also in threads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.generate.test_package_cpp import compiled
from tests.making import LONG, make_packages

HERE = Path(__file__).parent
KERNEL = """\
#include "ops/Affine.hpp"
namespace ops::Unvalidated::Affine {
udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.x.size(); ++i) {
    args.y[i] = args.x.real(i) * args.factor + (args.bias ? args.bias[0] : 0.0f);
  }
  return udo::ok;
}
}  // namespace ops::Unvalidated::Affine
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package and its client in one program, with ThreadSanitizer."""
    root = tmp_path_factory.mktemp("unvalidated")
    (root / "kernels").mkdir()
    (root / "kernels/Affine.cpp").write_text(KERNEL)
    [made] = make_packages([HERE / "Unvalidated.xml"], root / "out", kernels=root / "kernels")
    sources = sorted(str(path.relative_to(made.folder)) for path in (made.folder / "src").rglob("*.cpp"))
    text = (HERE / "unvalidated.cpp").read_text()
    return compiled(made.folder, text, "include include/QNN", sources, "-fsanitize=thread")


@pytest.mark.parametrize("how", ["never", "many", "asked", "threads"])
def test_a_client_that_validates(host: Path, how: str) -> None:
    done = subprocess.run([host, how], capture_output=True, text=True, timeout=LONG)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["fine"]), done.stdout + done.stderr
    assert "data race" not in done.stderr
