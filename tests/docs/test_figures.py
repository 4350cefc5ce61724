"""A section of a document with a measured number names the source that prints it, and that source exists."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_documents import DOCUMENTS, name
from tests.making import ROOT
from udogen.cli.main import VERBS

# tests/docs/test_documents.py runs code and checks its output.
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`(?!\.)", re.MULTILINE | re.DOTALL)
_MEASURED = re.compile(r"\d (?:µs|ms|s|packets)\b|CPU seconds")
_PRINTED = re.compile(r"[Pp]rinted\s+by\s+`([^`]+)`")
PAGES = [document for document in DOCUMENTS if document.name != "CONTRIBUTING.md"]


def sections(path: Path) -> Iterator[str]:
    return iter(re.split(r"^(?=#+ )", path.read_text("utf-8"), flags=re.MULTILINE))


def exists(source: str) -> bool:
    """Return whether this is a test or benchmark, a target of make, a module with a main program, or a verb."""
    path, _, test = source.partition("::")
    words = source.split()
    if path.startswith("tests/"):
        return (ROOT / path).is_file() and f"def {test}" in (ROOT / path).read_text("utf-8")
    if words[:2] == ["python", "-m"]:
        return importlib.util.find_spec(words[2]) is not None
    if words[0] == "make":
        return f"\n{words[1]}:" in (ROOT / "Makefile").read_text("utf-8")
    return words[0] == "udogen" and words[1] in VERBS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_measured_numbers_name_what_prints_them(page: Path) -> None:
    for section in sections(page):
        measured, sources = _MEASURED.findall(_CODE.sub("", section)), _PRINTED.findall(section)
        assert sources or not measured, f"{section.splitlines()[0]}: nothing is named that prints {measured}"
        assert [source for source in sources if not exists(source)] == []


def test_a_picture_has_the_numbers_of_its_table() -> None:
    picture = (ROOT / "docs" / "pictures" / "kernels.svg").read_text("utf-8")
    shown = re.findall(r"(\w+)[^:;>]*: ([\d,]+) and ([\d,]+)", picture)
    table = (ROOT / "docs" / "kernels-measured.md").read_text("utf-8")
    assert shown == re.findall(r"^\| (\w+)[^|]*, 8 bits \| [^|]* \| ([\d,]+) \| ([\d,]+) \|", table, re.MULTILINE)
