"""The pictures in the documents are those drawn from the current facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from tests.docs import report_picture
from tests.docs.page_pictures import PICTURES, pictures
from tests.making import ROOT
from udogen.cli.main import VERBS


@pytest.mark.parametrize("name", pictures())
def test_a_picture_is_drawn_and_shown(name: str) -> None:
    text = pictures()[name]
    assert (PICTURES / name).read_text("utf-8") == text, "make golden"
    etree.fromstring(text.encode())
    assert any(f"pictures/{name}" in page.read_text("utf-8") for page in Path(ROOT / "docs").glob("*.md"))


def test_arrows_are_verbs() -> None:
    page = etree.fromstring(pictures()["pipeline.svg"].encode())
    assert {each.text for each in page.iterfind(".//{*}text[@class='verb']")} <= set(VERBS)


def test_the_picture_of_the_report_can_be_taken() -> None:
    text, taken = report_picture.take()
    assert "the op works along axis 3 instead of axis 2" in text
    assert taken[:8] == report_picture.PICTURE.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
