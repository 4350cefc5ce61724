"""How quickly the pure part starts (`make bench`); each number is a ratio to the unavoidable time.

Packages are generated into memory: creating a file takes up to half a millisecond on a shared disk; 50 ops have 180.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.clock import python, ratio
from tests.generate.fifty import config
from tests.making import ONE_KERNEL, ONE_OP, make_packages

pytestmark = pytest.mark.bench

IMPORTS = python("-c", "import lxml.etree, mako.lookup")


@pytest.fixture
def out() -> Iterator[Path]:
    in_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as folder:
        yield Path(folder) / "out"


def test_generate_of_one_op_against_the_imports_of_its_libraries(out: Path) -> None:
    """The target is 1.5; the vendor's generator needs 2.2."""
    generate = python("-m", "udogen", "generate", str(ONE_OP), "-o", str(out))
    one, imports, found = ratio(generate, IMPORTS, before=lambda: shutil.rmtree(out, ignore_errors=True))
    print(f"\ngenerate, one op: {one * 1e3:.0f} ms, imports {imports * 1e3:.0f} ms, ratio {found:.2f} (aim 1.5)")
    assert found < 1.7


def test_generate_of_fifty_ops_against_one(tmp_path: Path, out: Path) -> None:
    """The target is 1.3; the vendor's generator needs 1.8."""
    argv = []
    for count in (50, 1):
        (tmp_path / f"{count}.xml").write_text(config(count), "utf-8")
        argv.append(python("-m", "udogen", "generate", str(tmp_path / f"{count}.xml"), "-o", str(out)))
    many, one, found = ratio(*argv, before=lambda: shutil.rmtree(out, ignore_errors=True))
    print(f"\ngenerate: 50 ops {many * 1e3:.0f} ms, one op {one * 1e3:.0f} ms, ratio {found:.2f} (aim 1.3)")
    assert found < 1.5


def test_version_against_an_empty_python() -> None:
    version, click, found = ratio(python("-m", "udogen", "--version"), python("-c", "import click"))
    print(f"\n--version: {version * 1e3:.0f} ms, `import click` {click * 1e3:.0f} ms, ratio {found:.2f}")
    assert found < 2


def test_the_first_number_of_a_kernel_against_its_imports(tmp_path: Path) -> None:
    kernels = pytest.importorskip("tests.kernels.test_kernel_function")
    (tmp_path / "Scale.py").write_text(kernels.HEAD + kernels.KERNELS["Scale"] + kernels.TAIL)
    imports = python("-c", "import halide, numpy, udogen.kernels.math")
    first, least, found = ratio(python(str(tmp_path / "Scale.py")), imports, rounds=7)
    print(f"\nfirst number of a kernel: {first * 1e3:.0f} ms, imports {least * 1e3:.0f} ms, ratio {found:.2f}")
    assert found < 10


def test_an_unchanged_build_against_make_alone(tmp_path: Path) -> None:
    """make itself detects what is up to date; udogen only adds its start-up time."""
    [made] = make_packages([ONE_OP], tmp_path, chosen=["cpu"], kernels=ONE_KERNEL)
    ours = python("-m", "udogen", "build", "-C", str(made.folder))
    mine, theirs, found = ratio(ours, ["make", "-s", "-C", str(made.folder), "cpu_x86"])
    print(f"\nunchanged build: {mine * 1e3:.0f} ms, make {theirs * 1e3:.0f} ms, ratio {found:.2f}")
    assert found < 10
