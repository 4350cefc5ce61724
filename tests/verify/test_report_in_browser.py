"""The report in Chromium: on a phone and on a wide screen, in light and dark mode; skipped if none is installed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.verify.browser import Page, browser
from tests.verify.report_sample import failures, sample
from udogen.verify.report import page

WIDTHS = (360, 800, 1400)
LONG = "a_name_without_any_place_to_break_" * 6

_LEAVES = """
[...document.querySelectorAll('body *')]
  .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .filter(e => !e.closest('.scroll') && !e.closest('pre') && !e.closest('.symbols'))
  .map(e => e.outerHTML.slice(0, 120))
"""
_CONTRAST = """
(() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if (colour.length == 3 || colour[3] == 1) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll('body *:not(svg *)')) {
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()) || !e.getClientRects().length) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(e.outerHTML.slice(0, 100));
  }
  return bad;
})()
"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def shown(tab: Page, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Show the sample, with names of extreme length."""
    run = sample()
    long = [replace(each, case=replace(each.case, name=LONG, op=LONG)) for each in failures()]
    states = tuple(replace(state, title=LONG, reason=LONG, hint=LONG) for state in run.states)
    environment = ((LONG, LONG),)
    run = replace(run, outcomes=(*run.outcomes, *long), states=states, environment=environment, folder=Path(LONG))
    file = tmp_path_factory.mktemp("long") / "report.html"
    file.write_text(page.render(run), "utf-8")
    tab.open(file, width=1400)
    return tab


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen(shown: Page, width: int, folded: bool) -> None:
    shown.look(width=width, dark=False)
    shown.evaluate(f"document.querySelectorAll('details').forEach(d => d.open = {str(not folded).lower()})")
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.evaluate(_LEAVES) == []


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read_on_what_is_behind_it(shown: Page, dark: bool) -> None:
    shown.look(width=1400, dark=dark)
    shown.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert shown.evaluate(_CONTRAST) == []


def test_a_link_of_the_matrix_opens_its_case(shown: Page) -> None:
    shown.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
    shown.evaluate("document.querySelector('.matrix a.failed').click()")
    assert shown.evaluate("document.querySelector(location.hash).closest('details').open")
