"""The documentation site: built with strict links, with every verb, public name and error code; it works offline."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import LONG, ROOT
from tests.verify.browser import browser
from udogen import error_tables
from udogen.cli.main import VERBS

pytest.importorskip("material", reason="pip install '.[docs]'")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", ROOT / "docs/site/mkdocs.yml", "-d", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text("utf-8").replace("<wbr>", "")


def test_the_reference_is_complete(site: Path) -> None:
    commands = text(site, "reference/cli")
    assert [verb for verb in VERBS if f'id="udogen-{verb}"' not in commands] == []
    for module, page in (("udogen", "udogen"), ("udogen.runtime", "runtime"), ("udogen.kernels", "kernels")):
        imported, found = importlib.import_module(module), text(site, f"reference/{page}")
        names = [name for name in getattr(imported, "__all__", ()) if callable(getattr(imported, name))]
        assert [name for name in names if f'id="{module}.{name}"' not in found] == []
    codes = text(site, "reference/errors")
    assert all(
        code.name in codes for interface in error_tables.INTERFACES for code in error_tables.interface(interface).codes
    )
    assert "dsp_arch_types" in text(site, "reference/fields") and "OpDefCollection" in text(site, "reference/fields")


def test_nothing_comes_from_the_network(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    loaded = ('src="http', 'rel="stylesheet" href="http', "url(http")
    assert [page.name for page in pages for each in loaded if each in page.read_text("utf-8")] == []
    assert (site / "search/search_index.js").is_file()


CUT = "[...document.querySelectorAll('pre > code')].filter((code) => code.scrollWidth > code.clientWidth + 1).length"


@pytest.mark.parametrize("width", [390, 1400])
def test_a_browser_shows_it(site: Path, width: int) -> None:
    with browser() as page:
        for name in ("index", "new", "reference/cli", "reference/runtime", "contexts", "verified"):
            page.open(site / f"{name}.html", width=width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is wider than the window"
            assert page.evaluate("document.querySelector('h1').innerText.length") > 0
            assert page.evaluate(CUT) == 0, f"{name} has code that is cut off"


def test_a_page_leads_to_the_next_and_names_are_broken_at_marks_only(site: Path) -> None:
    assert 'rel="next"' in text(site, "new") and 'rel="prev"' in text(site, "new")
    assert "<code>cpu_aarch64</code>" in text(site, "verified")
    assert "<code>QNN_<wbr>HTP_<wbr>MEM_<wbr>SHARED_<wbr>BUFFER</code>" in (site / "shared-buffers.html").read_text(
        "utf-8"
    )


def test_search_works_from_the_file_system(site: Path) -> None:
    with browser() as page:
        page.open(site / "index.html", width=390)
        page.evaluate("document.querySelector('[data-md-toggle=search]').click()")
        found = page.evaluate(
            """new Promise((found) => {
              const field = document.querySelector("input.md-search__input");
              field.focus();
              field.value = "ExecuTorch";
              field.dispatchEvent(new Event("input", {bubbles: true}));
              field.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true, key: "y"}));
              const until = Date.now() + 30000;
              const look = () => {
                const links = [...document.querySelectorAll(".md-search-result__link")].map((each) => each.href);
                if (links.length || Date.now() > until) found(links.join(" "));
                else setTimeout(look, 50);
              };
              look();
            })"""
        )
    assert "clients.html" in found
