"""`udogen doctor --list`: the contents of the registries, as text and as JSON."""

from __future__ import annotations

import json

import pytest

from tests.command_line import udogen
from udogen.backends import architectures, targets

KEYS = {
    "targets": ("target", {*targets.ALL, *targets.UDO}),
    "archs": ("arch", set(architectures.ALL)),
}


@pytest.mark.parametrize("what", KEYS)
def test_every_row_of_a_registry_is_listed(what: str) -> None:
    key, names = KEYS[what]
    message = udogen("doctor", "--list", what)
    assert message.returncode == 0 and message.stderr == ""
    head, rule, *rows = message.stdout.splitlines()
    assert head.split()[0] == key and set(rule) == {"-", " "}
    assert {row.split()[0] for row in rows} == names
    reply = json.loads(udogen("doctor", "--list", what, "--json").stdout)
    assert reply["ok"] and {row[key] for row in reply[what]} == names
    assert len(reply[what]) == len(rows)


def test_the_processors_of_a_version_of_hexagon() -> None:
    rows = {row["arch"]: row for row in json.loads(udogen("doctor", "--list", "archs", "--json").stdout)["archs"]}
    assert "SM8650" in rows["v75"]["processors"].split()
    assert rows["v73"]["e_flags"] == "0x73" and "5.4.0 with tools 8.6.02" in rows["v73"]["hexagon sdk"]


def test_a_registry_that_there_is_not() -> None:
    done = udogen("doctor", "--list", "phones")
    assert done.returncode == 2 and "targets" in done.stderr
