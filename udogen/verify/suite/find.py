"""Which test files a folder has, and what they say together."""

from __future__ import annotations

from pathlib import Path

from udogen.errors import UsageError, read_plain
from udogen.opdef.problems import Problems
from udogen.verify.suite.model import Suite

NAME = "op_tests.toml"
_PATTERNS = (NAME, f"*.{NAME}", f"tests/{NAME}", f"tests/*.{NAME}")
_PYTHON = ("tests/test_*.py", "test_*.py")


def test_files(folder: Path) -> list[Path]:
    """The test files of a folder and of its `tests`: op_tests.toml, and Python files that use `op_test`."""
    declared = [path for pattern in _PATTERNS for path in sorted(folder.glob(pattern))]
    python = [path for pattern in _PYTHON for path in sorted(folder.glob(pattern)) if _uses_us(path)]
    return list(dict.fromkeys([*declared, *python]))


test_files.__test__ = False  # type: ignore[attr-defined]  # no test, though pytest would think so


def is_test_file(path: Path) -> bool:
    """Whether a file is one of ours, by its name and, where it is Python, by what it uses."""
    if path.name == NAME or path.name.endswith(f".{NAME}"):
        return True
    return path.suffix == ".py" and path.name.startswith("test_") and _uses_us(path)


def load_suite(path: Path) -> Suite:
    """What the test files of a folder say, or one file; raises with everything that is wrong in them."""
    from udogen.verify.suite.read import read_file

    if not path.exists():
        raise UsageError(f"there is no folder {path}", hint="give a folder with a test file, or a test file")
    folder = path if path.is_dir() else path.parent
    files = test_files(folder) if path.is_dir() else [path]
    if not files and (path / ".udogen").is_dir():  # a package: its tests lie beside it
        files = test_files(path.resolve().parent)
    if not files:
        raise UsageError(
            f"{path} has no test file ({NAME}, or tests/test_*.py that uses udogen.verify.op_test)",
            hint="`udogen generate CONFIG --tests` writes one to begin with",
        )
    problems = Problems()
    ops = []
    for file in files:
        if file.suffix == ".py":
            from udogen.verify.suite.python import read_python

            ops += read_python(file, problems)
        else:
            ops += read_file(file, problems)
    problems.stop_if_any(what="the test files" if len(files) > 1 else "the test file")
    return Suite(folder=folder, ops=tuple(ops), files=tuple(files))


def _uses_us(path: Path) -> bool:
    try:
        return b"import op_test" in read_plain(path)
    except OSError:
        return False
