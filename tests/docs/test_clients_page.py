"""Every client has its row and section or page, and `explain` recognizes every log line of its page."""

from __future__ import annotations

import re

import pytest

from tests.docs.golden import ROOT
from udogen.clients import explain, programs

PAGE = (ROOT / "docs" / "clients.md").read_text("utf-8")
LOGS = (ROOT / "docs" / "explain.md").read_text("utf-8")
SYMPTOMS = re.findall(r"^\| `([^`|]+)` \|", LOGS.split("## What goes wrong")[1], re.MULTILINE)


def test_every_client_has_a_row_that_leads_to_its_section() -> None:
    rows = dict(re.findall(r"^\| \[`([\w-]+)`\]\(([\w#.-]+)\) \|", PAGE, re.MULTILINE))
    assert sorted(rows) == sorted(programs.ALL)
    heads = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
    for client, target in rows.items():
        page = PAGE if target.startswith("#") else (ROOT / "docs" / target).read_text("utf-8")
        assert target[1:] in anchors or page is not PAGE
        assert f"--client {client}" in page


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_explain_knows_what_the_page_shows(symptom: str) -> None:
    known = list(explain.explain_line(symptom, []))
    assert known, "udogen explain would not find this line"
    assert any(each.causes or each.harmless for each in known)


def test_there_are_symptoms() -> None:
    assert len(SYMPTOMS) >= 25
