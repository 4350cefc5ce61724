"""The HTML report, parsed like in a browser: complete, self-contained, accessible, safe for any names."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays
from lxml import etree, html

from tests.making import ROOT
from tests.verify.report_sample import (
    FLOAT,
    GOLDEN,
    LAYOUT,
    STATES,
    STEP,
    earlier,
    failures,
    layout_swap,
    outcome,
    passing,
    rendered,
    sample,
    skipped,
    tensor_result,
    waves,
)
from udogen import Outcome, RunFailed
from udogen.verify.report import machine, page, terminal, text
from udogen.verify.report.machine import as_json
from udogen.verify.report.problems import ErrorBin, error_bins
from udogen.verify.results import BackendState, CaseError, Finding, Spread, TestRun

NASTY = "</script><img src=x onerror=alert(1)>\"'&`${x}`\x00\x1b\ud800"
READ = "</script><img src=x onerror=alert(1)>\"'&"  # the beginning of it, as users see it


def run_of(*outcomes: Outcome, states: tuple[BackendState, ...] = STATES) -> TestRun:
    return TestRun(Path("examples/softmax"), states, outcomes)


def read(run: TestRun) -> html.HtmlElement:
    return html.document_fromstring(page.render(run))


def text_of(element: etree._Element) -> str:
    """Return the visible text."""
    return " ".join(" ".join(element.itertext()).split())


@pytest.fixture(scope="module")
def report() -> html.HtmlElement:
    return html.document_fromstring(page.render(sample(), *earlier()))


# --- the file -------------------------------------------------------------------------------------


def test_the_sample_is_what_it_was() -> None:
    """`make golden` writes it; view it in a browser before you commit it."""
    assert rendered() == GOLDEN.read_text("utf-8")


def test_it_needs_nothing_else(report: html.HtmlElement) -> None:
    text = page.render(sample())
    assert "<script" not in text and "@import" not in text and "http:" not in text and "https:" not in text
    for element in report.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on"), (element.tag, name)
            if name in ("href", "src", "{http://www.w3.org/1999/xlink}href"):
                assert value.startswith(("#", "data:")), (element.tag, name, value)
    [policy] = report.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def named(each: Outcome, name: str) -> Outcome:
    return replace(each, case=replace(each.case, name=name))


def all_right() -> list[Outcome]:
    return [named(each, f"normal 1x16x16x8 seed {n}") for n in range(50) for each in passing(40)]


def all_wrong_for_one_cause() -> list[Outcome]:
    image = layout_swap(shape=(1, 64, 64, 96))
    return [named(image, f"image 64x64x96 number {n}") for n in range(2000)]


def all_wrong_for_many_causes() -> list[Outcome]:
    causes = [LAYOUT._replace(kind=f"cause-{n}", evidence="because " * 300) for n in range(500)]
    return [replace(each, findings=(cause,)) for cause in causes for each in failures()[:4]]


def all_crash() -> list[Outcome]:
    troubles = [CaseError(f"kind-{n}", "crashed " * 200, "do " * 400, ("at " * 300,) * 40) for n in range(2000)]
    return [replace(CRASH, error=trouble) for trouble in troubles]


@pytest.mark.parametrize("make", [all_right, all_wrong_for_one_cause, all_wrong_for_many_causes, all_crash])
def test_two_thousand_cases_are_less_than_3_mb(make: Callable[[], list[Outcome]]) -> None:
    outcomes = make()
    assert len(outcomes) == 2000
    assert len(page.render(run_of(*outcomes)).encode()) < 3_000_000


# --- accessibility --------------------------------------------------------------------------------


LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+):(#\w{6});", line))
    for line in (ROOT / "templates" / "report" / "report.css").read_text().splitlines()[:2]
)
STATUSES = ("passed", "failed", "error", "ran", "skipped")
TEXT, SHAPE = 4.5, 3.0  # the minimum contrast by WCAG 2.2 AA
PAIRS = (  # (a colour, its background)
    *((front, back, TEXT) for front in ("ink", "quiet", "link") for back in ("page", "card", "band")),
    *((front, f"{back}-band", TEXT) for back in STATUSES for front in (back, "ink", "quiet", "link")),
    *((front, back, TEXT) for front in STATUSES for back in ("page", "card")),
    *((front, back, SHAPE) for front in ("bar", "failed") for back in ("card", "bar-back")),
)


def luminance(colour: str) -> float:
    """Return the relative luminance, as WCAG defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(*colours: str) -> float:
    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast(colours: dict[str, str]) -> None:
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)  # an example of WCAG
    low = [pair for pair in PAIRS if contrast(colours[pair[0]], colours[pair[1]]) < pair[2]]
    assert low == []


def test_every_colour_is_one_of_the_palette() -> None:
    style = re.search(r"<style>(.*?)</style>", page.render(sample()), re.DOTALL)
    assert style
    used = set(re.findall(r"var\(--([\w-]+)\)", style[1]))
    assert used == LIGHT.keys() == DARK.keys()
    rules = style[1].split("}}\n", 1)[1]
    assert set(re.findall(r"#[0-9a-f]{3,6}\b", rules)) <= {"#fff"}  # for print


def test_it_can_be_read_without_eyes_and_mouse(report: html.HtmlElement) -> None:
    levels = [int(each.tag[1]) for each in report.xpath("//h1|//h2|//h3|//h4|//h5|//h6")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), "headings are in order"
    for table in report.xpath("//table"):
        heads = table.xpath("./thead/tr/th")
        assert heads and all(head.get("scope") == "col" for head in heads)
        for row in table.xpath("./tbody/tr"):
            assert row[0].tag == "th" and row[0].get("scope") == "row" and len(row) == len(heads), text_of(row)
    assert report.xpath("//table") and set(report.xpath("//svg/@aria-hidden")) == {"true"}
    assert len(report.xpath("//svg")) == len(report.xpath("//svg/@aria-hidden"))
    for each in report.xpath("//div[@class='scroll']|//pre"):
        assert each.get("tabindex") == "0" and each.get("role") == "group", "what scrolls can be reached with keys"
        assert each.get("aria-label") or each.get("aria-labelledby")
    for cell in report.xpath("//table[contains(@class, 'matrix')]//*[contains(@class, 'line ')]"):
        assert cell.xpath(".//use/@href") and text_of(cell), "no meaning is in colour alone"


def test_links_lead_somewhere_and_ids_are_unique(report: html.HtmlElement) -> None:
    ids = Counter(report.xpath("//@id"))
    assert set(ids.values()) == {1}
    assert {each[1:] for each in report.xpath("//a/@href|//use/@href")} <= set(ids)
    assert set(" ".join(report.xpath("//@aria-labelledby")).split()) <= set(ids)


# --- names ----------------------------------------------------------------------------------------


def test_names_of_any_letters() -> None:
    finding = Finding(NASTY, NASTY, kind=NASTY, evidence=NASTY)
    error = CaseError(NASTY, NASTY, NASTY, (NASTY,))
    bad = replace(layout_swap(), findings=(finding,), dtype=NASTY, backend=NASTY)
    name = NASTY.replace("\0", "")  # a public call with a NUL is refused
    named_so = {"name": name, "op": name, "params": {name: name}, "dtypes": {name: name}}
    case = replace(bad.case, inputs={name: waves((2,))}, quants={name: (1.0, 0)}, **named_so)  # type: ignore[arg-type]
    tensors = tuple(replace(tensor, name="output", tolerance=NASTY, unit=NASTY) for tensor in bad.tensors)
    bad = replace(bad, case=case, tensors=tensors, smallest=replace(bad.case, inputs={name: waves((1,))}))
    crash = replace(bad, status="error", tensors=(), findings=(), error=error)
    not_run = replace(crash, status="skipped")
    right = replace(bad, status="passed", findings=())
    cost = replace(passing(1)[0].cost, builtin_name=NASTY, packets=3, kernel=NASTY)
    right = replace(right, cost=cost)
    runtime = replace(STATES[0].runtime, name=NASTY, build_id=NASTY, path=NASTY, api_version=NASTY)  # type: ignore[type-var]
    states = (
        BackendState(NASTY, NASTY, "ran", runtime=runtime),  # type: ignore[arg-type]
        BackendState("x", NASTY, "missing", NASTY, NASTY, (NASTY,)),
    )
    run = TestRun(
        Path(name),
        states,
        (bad, crash, not_run, right, replace(right, status="ran"), *[bad] * 6),
        environment=((NASTY, NASTY),),
        warnings=(NASTY,),
    )
    text = page.render(run)
    text.encode()  # it contains no lone surrogate
    assert "\0" not in text and "\x1b" not in text
    report = html.document_fromstring(text)
    assert not report.xpath("//img|//script") and not report.xpath("//@onerror|//@onload")
    assert text_of(report).count(READ) > 30
    assert report.xpath("//code[text()='${x}']"), "what is in backticks is code, and is not evaluated"


def test_text_and_sentences() -> None:
    assert text.escape("<a href='x'>&\x07") == "&lt;a href=&#x27;x&#x27;&gt;&amp;\ufffd"
    assert text.rich("run `a < b` and <i>") == "run <code>a &lt; b</code> and &lt;i&gt;"
    assert text.escape("a\u202eb\u200bc") == "a\\u202eb\\u200bc"
    assert 'message="a\\u202eb\\u200bc\ufffd"' in machine.junit_of_error(RunFailed("a\u202eb\u200bc\x07"))
    assert text.escape(text.rich("`x`")) == "<code>x</code>"


# --- its content --------------------------------------------------------------------------------

RIGHT = outcome("right", expected=waves((2, 3)), found=waves((2, 3)))
WRONG = outcome("wrong", expected=waves((2, 3)), found=waves((2, 3)) + 1)
CRASH = failures()[6]
UNCHECKED = replace(RIGHT, status="ran", tensors=())


@pytest.mark.parametrize(
    ("outcomes", "kind", "sentence"),
    [
        ([], "skipped", "0 passed, 9 not run in 0.0 s"),
        ([skipped()], "skipped", "0 passed, 1 skipped, 9 not run in 0.0 s"),
        ([RIGHT, skipped()], "passed", "1 passed, 1 skipped, 9 not run in 0.0 s"),
        ([UNCHECKED], "ran", "0 passed, 1 not checked, 9 not run in 0.0 s"),
        ([RIGHT, WRONG, CRASH], "failed", "1 passed, 1 wrong, 1 error, 9 not run in 0.0 s"),
        ([CRASH], "error", "0 passed, 1 error, 9 not run in 0.0 s"),
    ],
)
def test_the_verdict(outcomes: list[Outcome], kind: str, sentence: str) -> None:
    run = run_of(*outcomes)
    assert page.headline(run) == (kind, sentence)
    assert text_of(read(run).xpath("//h1")[0]) == sentence


def test_what_is_wrong_comes_first_and_once_for_each_cause(report: html.HtmlElement) -> None:
    assert [text_of(each) for each in report.xpath("//h2")][:3] == ["Warnings", "Failures", "Op, data type and backend"]
    assert [(text_of(each[0]), text_of(each[1])) for each in report.xpath("//article")] == [
        ("Softmax on CPU and GPU: layout swap", "3 cases, FLOAT_32"),
        ("Softmax on HTP: unwritten tail", "1 case, FLOAT_32"),
        ("AddSat on HTP: rounding", "1 case, UFIXED_POINT_8"),
        ("AddSat on CPU: wrong numbers, cause not known", "1 case, FLOAT_32"),
        ("Softmax on CPU: crashed", "1 case, FLOAT_32"),
    ]


SHAPES = outcome("shape", expected=waves((2, 3)), found=waves((3, 2)))
HEAP = Finding(
    "execute allocates memory", "reserve it in prepare", kind="heap", evidence="std::vector at Softmax.cpp:31"
)
ONE_CASE: list[tuple[Outcome, str, str]] = [
    (SHAPES, "//article", "output should be 2x3, and is 3x2."),
    (replace(RIGHT, status="failed", findings=(HEAP,)), "//article/h3", "Softmax on CPU: heap"),
    (replace(RIGHT, status="failed", findings=(HEAP,)), "//article//summary", "CPU, FLOAT_32 heap"),
    (replace(RIGHT, status="failed", findings=(HEAP,)), "//article", "std::vector at Softmax.cpp:31"),
    (
        replace(RIGHT, case=replace(RIGHT.case, refusal=True), tensors=()),
        "//table[contains(@class, 'list')]/tbody/tr",
        "refused, as it must",
    ),
]


@pytest.mark.parametrize(("shown", "where", "words"), ONE_CASE)
def test_a_case_is_shown_as_what_it_is(shown: Outcome, where: str, words: str) -> None:
    report = read(run_of(shown))
    assert words in text_of(report.xpath(where)[0])
    assert shown is SHAPES or not report.xpath("//h5[text()='Errors by size']"), "the numbers are right"


def test_many_of_one_cause_are_one_block_and_a_table() -> None:
    outcomes = [layout_swap(f"number {n}") for n in range(9)]
    report = read(run_of(*outcomes))
    [article] = report.xpath("//article")
    assert [text_of(each) for each in article.xpath(".//h4")] == ["number 0", "8 more cases of this kind"]
    assert [bool(each.get("open") is not None) for each in article.xpath("./details")] == [True, False]
    rows = article.xpath(".//table[contains(@class, 'failing')]/tbody/tr")
    assert text_of(rows[0]) == (
        "number 1 CPU, FLOAT_32 2,046 of 2,048 (99 %) wrong, off by 1.999 output[0, 0, 0, 1] "
        "input = 0.6442, axis = -1, beta = 1 input 1x1x2x2"
    )
    assert [row.get("id") for row in rows] == [f"case-{n}" for n in range(1, 9)]


def test_folded_problems_show_their_sentence() -> None:
    """From the fourth cause on no case is open, so the cause is shown above."""
    causes = [replace(layout_swap(), findings=(LAYOUT._replace(kind=f"cause-{n}"),)) for n in range(5)]
    articles = read(run_of(*causes)).xpath("//article")
    assert [bool(article.xpath("./details[@open]")) for article in articles] == [True, True, True, False, False]
    sentences = [[text_of(each) for each in article.xpath("./p[@class='sentence']")] for article in articles]
    assert sentences == [[], [], [], [LAYOUT.message], [LAYOUT.message]]


def test_costs_that_were_not_measured_have_no_column() -> None:
    right = replace(RIGHT, cost=replace(RIGHT.cost, execute=Spread(1e-6, 1e-6, 1e-6, 5), bytes_moved=48))
    [table] = read(run_of(right)).xpath("//div[@aria-label='Costs']/table")
    heads = ["op", "case", "type", "backend", "execute", "10 % … 90 %", "bytes"]
    assert [text_of(each) for each in table.xpath("./thead/tr/th")] == heads
    assert not read(run_of(RIGHT)).xpath("//div[@aria-label='Costs']")


def test_right_numbers_that_cost_more_are_no_success() -> None:
    changes, baseline = earlier()
    report = html.document_fromstring(page.render(run_of(RIGHT), changes, baseline))
    assert text_of(report.xpath("//h1")[0]) == ("1 passed, 9 not run in 0.0 s; 1 cost more than in the earlier run")
    assert report.xpath("//h1/@class") == ["error"]
    nothing = html.document_fromstring(page.render(run_of(RIGHT), (), baseline))
    [section] = nothing.xpath("//section[@aria-labelledby='compared']")
    assert "costs.json : it has none of these cases." in text_of(section)


def test_ops_of_one_name_are_called_by_their_packages() -> None:
    run = run_of(*(replace(each, package=package) for package in ("A", "B") for each in (RIGHT, WRONG)))
    report = read(run)
    assert [text_of(each) for each in report.xpath("//h3")][:2] == [
        "A:: Softmax on CPU: wrong numbers, cause not known",
        "B:: Softmax on CPU: wrong numbers, cause not known",
    ]
    [table] = report.xpath("//table[contains(@class, 'matrix')]")
    assert [text_of(each) for each in table.xpath("./tbody/tr/th")] == ["A::Softmax", "B::Softmax"]


def test_every_case_is_listed(report: html.HtmlElement) -> None:
    rows = [text_of(row) for row in report.xpath("//div[@aria-label='All other cases']//tbody/tr")]
    assert len(rows) == 32
    assert rows[1] == "normal 2x4 seed 1 Softmax HTP, FLOAT_32 passed input 2x4 3.02e-7 2.9 µs"
    assert "five axes Softmax GPU, FLOAT_32 skipped input 1x2x2x2x2 tensors of 5 axes do not exist there" in rows
    assert "smoke Softmax Hexagon, FLOAT_32 not checked input 4x4" in rows


def test_reasons_of_skipped_cases_are_in_the_terminal() -> None:
    run = TestRun(Path("ops"), STATES, (RIGHT, skipped(), skipped()))
    assert "skipped on gpu (2 cases): tensors of 5 axes do not exist there" in terminal.lines(run)


def test_a_run_of_nothing() -> None:
    report = read(TestRun(Path(), (), ()))
    assert text_of(report.xpath("//h1")[0]) == "0 passed in 0.0 s"
    assert text_of(report.xpath("//section[@aria-labelledby='cases']")[0]) == "All other cases None."


@pytest.mark.parametrize(
    "found",
    [
        np.zeros(()),
        np.zeros((0, 3)),
        np.full((2, 3), np.nan),
        np.full((2, 3), np.inf),
        np.float16([1, 2, 65504]),
        np.float64([1e308, -1e308, 5e-324]),
        np.int64([2**62, -(2**62), 0]),
        np.uint32([2**32 - 1, 0, 1]),
        np.array([True, False, True]),
        np.zeros((2, 1, 1, 3, 1, 5), np.float32),
        np.zeros(5000, np.int8),
        np.zeros((1, 300, 1, 7), np.float32),
    ],
    ids=lambda array: f"{array.dtype}-{text.shape(array.shape)}",
)
def test_numbers_of_every_kind_can_be_shown(found: np.ndarray) -> None:
    expected = ~found if found.dtype == bool else np.ones_like(found)
    for allowed in (FLOAT, STEP):
        made = outcome("any", expected=expected, found=found, allowed=allowed, status="failed")
        assert "any" in text_of(read(run_of(made)))


def test_networks_have_their_layers_and_the_first_wrong_one(report: html.HtmlElement) -> None:
    [section] = report.xpath("//section[@aria-labelledby='networks']")
    cards = section.xpath("details")
    assert [(text_of(card.xpath("summary")[0]), "open" in card.attrib) for card in cards] == [
        ("small on CPU (ONNX Runtime), float wrong", True),
        ("small on HTP (ONNX Runtime), 8 bits error", True),
        ("small on CPU (ONNX Runtime), 8 bits passed", False),
    ]
    assert "conv" in text_of(cards[0]) and "node 1" in text_of(cards[0])
    assert "see the log" in text_of(cards[1])


def test_small_outputs_belong_to_the_cause_that_a_larger_one_shows() -> None:
    right, cause = np.zeros(64, "float32"), Finding("every element is off", kind="factor")
    made = [
        outcome("small", expected=right[:1], found=right[:1] + 1),
        outcome("large", expected=right, found=right + 1, findings=(cause,)),
        outcome("later", expected=right, found=right + 1),
    ]
    assert [[each.case.name for each in group] for group in run_of(*made).failure_groups] == [
        ["large", "small", "later"]
    ]
    unlike = outcome("undiagnosed", expected=right[:9], found=right[:9] + 1)
    assert len(run_of(unlike, *made).failure_groups) == 2


GIVEN = np.arange(24, dtype="float32").reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("shape", "first", "inputs", "shown"),
    [
        ((2, 3, 4), (1, 2, 3), {"x": GIVEN}, "x = 23, alpha = 0.5"),
        ((2, 3, 4), (1, 2, 3), {"x": GIVEN, "w": GIVEN[0, 0]}, "x = 23, w = 3, alpha = 0.5"),  # broadcast
        ((2, 3), (1, 2), {"x": GIVEN}, "x = [20, 21, 22, 23], alpha = 0.5"),  # reduced
        ((2,), (1,), {"x": GIVEN}, "x = [12, 13, 14, 15], alpha = 0.5"),  # the first of 12
        ((5,), (1,), {"x": GIVEN}, "x = [0, 1, 2, 3], alpha = 0.5"),  # no axis in common
        ((2,), (1,), {"x": GIVEN[:, 0, 0], "s": np.float32(7).reshape(())}, "x = 12, s = 7, alpha = 0.5"),
    ],
)
def test_the_first_wrong_element_is_shown_with_its_inputs(
    shape: tuple[int, ...], first: tuple[int, ...], inputs: dict[str, Any], shown: str
) -> None:
    right = np.zeros(shape, "float32")
    wrong = right.copy()
    wrong[first] = 1
    made = outcome("case", expected=right, found=wrong, alpha=0.5)
    made = replace(made, case=replace(made.case, inputs=inputs))
    assert f"    computed from {shown}" in terminal.failure(made)
    [case] = as_json(run_of(made))["cases"]
    assert case["tensors"][0]["first"]["inputs"].keys() == inputs.keys() and case["params"] == {"alpha": 0.5}
    assert json.loads(json.dumps(case)) == case
    [row] = read(run_of(made)).xpath("//div[@aria-label='The first wrong elements']//tbody/tr")
    assert text_of(row) == f"[{', '.join(map(str, first))}] 0 1 1 {shown}"


# --- errors by size -------------------------------------------------------------------------------


def bins_of(expected: Any, found: Any, allowed: Any = FLOAT) -> list[ErrorBin]:
    return error_bins(tensor_result("y", np.array(expected), np.array(found), allowed=allowed), allowed)


def test_errors_are_counted_by_power_of_ten() -> None:
    found = [1, 1 + 2e-6, 1.03, 1.05, np.nan, np.inf]
    bins = [("exact", 1, 0), ("≥ 1e-6", 1, 0), ("≥ 0.01", 2, 2), ("∞, NaN", 2, 2)]
    assert bins_of([1.0] * 6, found) == bins
    assert bins_of([10, 20, 30, 40], [10, 21, 29, 43], STEP) == [("exact", 1, 0), ("≥ 1", 3, 1)]
    assert [each.name for each in bins_of([1.0, 1.0], [1 + 1e-9, 1e30])] == ["1e+20", "≥ 1e+30"]


@given(arrays.arrays(np.float32, (5, 7)), arrays.arrays(np.float32, (5, 7)))
@pytest.mark.filterwarnings("ignore:overflow")
def test_every_element_is_in_one_bin(expected: np.ndarray, found: np.ndarray) -> None:
    bins = bins_of(expected, found)
    assert sum(each.elements for each in bins) == 35 and len(bins) <= 13
    assert sum(each.wrong for each in bins) == tensor_result("y", expected, found, allowed=FLOAT).wrong
