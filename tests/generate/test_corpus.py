"""Real configs, as written by their authors, become packages that compile without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import succeeds
from tests.making import COMPILERS, CORPUS, compiler, make


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not beside this checkout")
@pytest.mark.parametrize(
    "path", sorted(p for p in CORPUS.glob("*") if p.suffix in (".xml", ".json")), ids=lambda p: p.name
)
@pytest.mark.parametrize("name", COMPILERS)
def test_the_corpus_compiles_without_a_warning(path: Path, name: str, tmp_path: Path) -> None:
    cxx = compiler(name)
    succeeds("generate", path, "-o", tmp_path, "--backend", "cpu")
    [folder] = tmp_path.iterdir()
    done = make(folder, cxx=cxx)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
