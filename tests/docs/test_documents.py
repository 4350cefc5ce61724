"""The documents are correct: commands run, generated parts match the registries, links have targets."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.docs import terminal_picture
from tests.docs.golden import FUSE, README, ROOT, VERIFIED, with_matrix, with_ops, with_support
from tests.making import need_packets
from udogen.backends import architectures
from udogen.build.tools import VARIABLES
from udogen.cli.main import VERBS
from udogen.qnn import socs

DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")]
)
# A block marked ```sh is run; ```sh setup installs software, as the CI run itself does.
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def run(script: str, folder: Path, installed: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of a document in an empty folder, with the installed wheel and without the checkout."""
    folder.mkdir(exist_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env |= {"PATH": f"{installed}:{os.environ['PATH']}", "VIRTUAL_ENV": str(installed.parent)}
    return subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if _BLOCK.search(d.read_text("utf-8")) and d != README], ids=name
)
def test_commands_run_as_written(document: Path, tmp_path: Path, installed: Path) -> None:
    script = "set -euo pipefail\n" + "".join(_BLOCK.findall(document.read_text("utf-8")))
    if " --count" in script:
        need_packets()
    if "examples" in document.parts:
        script = f"udogen new copy --example {document.parent.name}\ncd copy\n{script}"
    done = run(script, tmp_path / "empty", installed)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


def test_listings_in_cpp_are_those_of_the_program() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "examples" / "shared_buffers").iterdir())
    blocks = re.findall(
        r"^```cpp\n(.*?)^```", (ROOT / "docs/shared-buffers.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 6 and [block for block in blocks if block not in sources] == []


def masked(text: str) -> str:
    """Return the output of a command, without the numbers that differ from run to run."""
    return re.sub(r" +\d\.\de-\d+", " N", text)


def test_what_the_readme_shows_is_printed(tmp_path: Path, installed: Path) -> None:
    text = README.read_text("utf-8")
    [shown] = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    done = run("set -euo pipefail\n" + "".join(_BLOCK.findall(text)), tmp_path, installed)
    assert done.returncode == 0, done.stderr
    printed = masked(done.stdout).splitlines()
    assert [line for line in masked(shown).splitlines() if line not in printed] == []


def test_the_picture_of_the_readme_is_real() -> None:
    drawn = terminal_picture.draw(terminal_picture.transcript())
    assert terminal_picture.words(drawn) == terminal_picture.words(terminal_picture.PICTURE.read_text("utf-8"))


def test_the_matrix_is_the_registries() -> None:
    text = VERIFIED.read_text("utf-8")
    assert with_matrix(text) == text, "run `make golden`"


def test_the_table_of_support_is_the_registries() -> None:
    text = README.read_text("utf-8")
    assert with_support(text) == text, "run `make golden`"


def test_the_versions_of_hexagon_and_their_processors_are_listed() -> None:
    rows = [
        (
            arch.name.upper(),
            ", ".join(dict.fromkeys(release.sdk for release in arch.releases)),
            ", ".join(dict.fromkeys(release.tools for release in arch.releases)),
            " ".join(soc.name for soc in socs.ALL.values() if soc.arch == arch.name),
        )
        for arch in architectures.ALL.values()
    ]
    page = (ROOT / "docs" / "doctor.md").read_text()
    for row in rows:
        assert re.sub(" +", " ", f"| {' | '.join(row)} |") in page
    assert page.count("\n| V") == len(rows)


def test_the_ops_that_can_be_fused_are_listed() -> None:
    text = FUSE.read_text("utf-8")
    assert with_ops(text) == text, "run `make golden`"


def test_the_reference_names_every_verb() -> None:
    text = (ROOT / "docs" / "verbs.md").read_text("utf-8")
    assert [verb for verb in VERBS if f"`udogen {verb}" not in text] == []


def test_the_two_commands_are_on_the_first_screen() -> None:
    first = "\n".join(README.read_text("utf-8").splitlines()[:24])
    assert "make demo" in first and "make test" in first


def test_what_the_documents_import_exists() -> None:
    for document in DOCUMENTS:
        for module, names in re.findall(
            r"^ *from (udogen[\w.]*) import ([\w, ]+)", document.read_text("utf-8"), re.MULTILINE
        ):
            for each in names.replace(" ", "").split(","):
                assert hasattr(importlib.import_module(module), each), f"{name(document)}: {module} has no {each}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)\)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=name)
def test_pages_are_short(page: Path) -> None:
    if page.name != "python.md":  # a table with a row for each name
        assert len(page.read_text("utf-8").split()) <= 1200


def test_the_navigation_has_the_titles_of_all_pages() -> None:
    rows = re.findall(r"^ +- (.+): ([\w-]+\.md)$", (ROOT / "docs/site/mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {page: (ROOT / "docs" / page).read_text("utf-8").partition("\n")[0] for _, page in rows}
    assert sorted(pages) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
    assert [title for title, page in rows if pages[page] != f"# {title}" and page != "index.md"] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_are_called_after_what_they_lead_to(document: Path) -> None:
    assert re.findall(r"\[[\w/.-]+\.md\]\(", document.read_text("utf-8")) == []


def test_the_table_of_variables_is_complete_and_names_existing_tests() -> None:
    """Every variable that the code reads has a row, and every row names a test that exists."""
    rows = re.findall(
        r"^\| (`.*?) \|.*\| `(tests/\S+)::(\w+)` \|$", (ROOT / "docs/variables.md").read_text(), re.MULTILINE
    )
    named = {variable for cell, _, _ in rows for variable in re.findall(r"`(\w+)`", cell)}
    assert set(VARIABLES) - named == set()
    for _, file, test in rows:
        assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{file} has no {test}"


def test_what_udogen_prints_names_no_page() -> None:
    """A wheel has no pages: messages, tables and templates name files of packages and commands."""
    texts = {path: path.read_text("utf-8") for path in (ROOT / "udogen" / "data").rglob("*.toml")}
    texts |= {path: path.read_text("utf-8") for path in (ROOT / "templates").rglob("*") if path.is_file()}
    for path in (ROOT / "udogen").rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        literals = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in docstrings)
        texts[path] = "\n".join(node.value for node in literals if isinstance(node.value, str))
    assert [name(path) for path, text in texts.items() if re.search(r"\bdocs/[\w-]+\.md", text)] == []
