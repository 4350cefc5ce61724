"""LiteRT's option for op packages, parsed by a model of LiteRT's own parser.

Source: LiteRT f67457790 (2026-08).  `AbslParseFlag` of qualcomm_flags.cc splits the flag,
litert_qualcomm_options.cc writes its five fields into a line of TOML, without escapes, litert_toml_parser.cc reads that
line back, and `ParseCustomOpPackageValue` splits it again, now in the plug-in.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.clients.broken_rules import toy
from udogen.clients import programs
from udogen.clients.client import Refused, register
from udogen.clients.package import Library

KEYS = ("name", "interface_provider", "compile_package_path", "dispatch_package_path", "target")
FLAG = "--qualcomm_custom_op_package="


class Invalid(Exception):
    """Raised for kLiteRtStatusErrorInvalidArgument."""


def fields_of(value: str) -> dict[str, str]:
    """Parse a value: pieces end with `;`, empty ones are skipped; a key ends at its first `:`; later keys win."""
    found = dict.fromkeys(KEYS, "")
    for piece in filter(None, value.split(";")):
        key, colon, text = piece.partition(":")
        if not colon or key not in KEYS:
            raise Invalid(piece)
        found[key] = text
    return found


def handed_on(fields: dict[str, str]) -> dict[str, str]:
    """Pass fields from the tool to the plug-in: lines `key = "value"`, read line by line, by the outermost quotes."""
    value = "".join(f"{key}:{fields[key]};" for key in KEYS)
    options = {}
    for line in f'log_level = 3\ncustom_op_package = "{value}"\n'.split("\n"):
        trimmed = line.strip(" \t\n\r")
        if trimmed.startswith("#") or "=" not in trimmed:
            continue
        key, _, text = trimmed.partition("=")
        text = text.strip(" \t\n\r")
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
            text = text[1:-1]
        options[key.strip(" \t\n\r")] = text
    return fields_of(options["custom_op_package"])


def flag_of(path: str) -> str:
    """Return the flag that a shell passes to LiteRT's tool."""
    library = Library(Path(path), path, "libToy.so")
    setup = register(programs.ALL["litert"], [toy(libraries=(library,))], only="flag")
    [word] = shlex.split(setup.snippets[0].text)
    assert word.startswith(FLAG)
    return word.removeprefix(FLAG)


@pytest.mark.parametrize(
    "path",
    [
        "/plain/libToy.so",
        "/a b/c:d/e=f/#g/libToy.so",
        "/it's/a \"name\"/$HOME/`x`/libToy.so",
        "/back\\slash/\\n/\\\"/libToy.so",
        "/name:x/target:GPU/libToy.so",
        "/ends in a blank /libToy.so ",
        "/käse/🎈/libToy.so",
        '/"/libToy.so"',
        "/'",
        "/\ttab\r/libToy.so",
    ],
)  # fmt: skip
def test_the_plug_in_reads_what_was_meant(path: str) -> None:
    fields = fields_of(flag_of(path))
    assert fields == handed_on(fields)
    assert fields == {
        "name": "Toy",
        "interface_provider": "ToyInterfaceProvider",
        "compile_package_path": path,
        "dispatch_package_path": path,
        "target": "CPU",  # on a PC: libQnnHtp.so of x86 refuses HTP
    }


@pytest.mark.parametrize("path", ["/a;b/libToy.so", "/a\nb/libToy.so", "/a\n#/x", "/;target:GPU"])
def test_what_is_refused_would_be_read_as_something_else(path: str) -> None:
    with pytest.raises(Refused) as caught:
        flag_of(path)
    assert "separators" in caught.value.rules
    message = "".join(f"{key}:{path if key.endswith('_path') else 'x'};" for key in KEYS)
    try:
        assert handed_on(fields_of(message))["compile_package_path"] != path
    except Invalid:
        pass


def test_the_parser_itself() -> None:
    """With the examples of LiteRT's own documents and tests."""
    shown = (
        "name:TestPackage;interface_provider:Provider;compile_package_path:a.so;dispatch_package_path:b.so;target:HTP"
    )
    assert fields_of(shown) == fields_of(shown + ";") == fields_of(f";;{shown};;")
    assert fields_of("")["name"] == ""
    assert fields_of("name:a;name:b")["name"] == "b"
    for odd in ("name", "name:a;junk", "nme:a", " name:a"):
        with pytest.raises(Invalid):
            fields_of(odd)
