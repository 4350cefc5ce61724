"""Documents: the line of every key and value, faults of the text, and values as type hints name them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udogen.documents.document import Document, parse
from udogen.documents.typed import between, instance, one_of
from udogen.findings import Findings
from udogen.resources import toml_text


def faults(text: str | bytes, name: str) -> list[tuple[int, str]]:
    """The line and the message of each problem of a text."""
    findings = Findings()
    parse(text.encode() if isinstance(text, str) else text, name, findings)
    return [(each.location.line, each.message) for each in findings.all()]


def document(text: str, name: str) -> Document:
    findings = Findings()
    found = parse(text.encode(), name, findings)
    assert found is not None and not findings.all(), findings.all()
    return found


def test_lines_of_toml() -> None:
    text = """\
a = [ # [[op]]
  "[[op]]", 'b = 1',
]
[[op]]
  name = "x"   # case
[[op.case]]
shape = { a = 1, b = [
  1, 1979-05-27 07:32:00, 2] }
"odd \\u006bey" = \"\"\"
[[op]]
\"\"\"\"\"
[[op]]
[[op.case]]
[[op.case]]
[op.case.quant]
x . low = 1
"""
    found = document(text, "x.toml")
    assert " ".join(f"{'.'.join(map(str, path))}={line}" for path, line in found.lines.items()) == (
        "a=1 a.0=2 a.1=2 op=4 op.0=4 op.0.name=5 op.0.case=6 op.0.case.0=6 op.0.case.0.shape=7 op.0.case.0.shape.a=7 "
        "op.0.case.0.shape.b=7 op.0.case.0.shape.b.0=8 op.0.case.0.shape.b.1=8 op.0.case.0.shape.b.2=8 "
        "op.0.case.0.odd key=9 op.1=12 op.1.case=13 op.1.case.0=13 op.1.case.1=14 op.1.case.1.quant=15 "
        "op.1.case.1.quant.x=16 op.1.case.1.quant.x.low=16"
    )
    assert found.place(("op", 1, "case", 1, "seed")).line == 14


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8) | st.sampled_from(
    ["[[op]]", '"', "'", "#", "a = 1"]
)
VALUES = st.recursive(
    st.integers(-(1 << 40), 1 << 40) | st.booleans() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


def paths_in(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for key, inner in rows for each in paths_in(inner, (*path, key)))]


def toml_of(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_text(key)} = {toml_of(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(toml_of, value)) + "]"
    return toml_text(value) if isinstance(value, str) else str(value).lower()


@given(st.dictionaries(TEXTS, VALUES, max_size=3))
def test_every_value_has_a_line_in_both_languages(value: dict[str, Any]) -> None:
    toml = "".join(f"{toml_text(key)} = {toml_of(each)}\n" for key, each in value.items())
    for found in (document(toml, "x.toml"), document(json.dumps(value, indent=1, ensure_ascii=False), "x.json")):
        assert found.value == value
        assert {path for path in found.lines if path} == {path for path in paths_in(value) if path}
        for path in found.lines:
            if path and isinstance(path[-1], str) and path[-1].isalnum():
                text = toml if found.file == "x.toml" else json.dumps(value, indent=1, ensure_ascii=False)
                assert path[-1] in text.split("\n")[found.lines[path] - 1]


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("x.toml", "a = 1\nb = \n", 2, "invalid TOML: invalid value"),
        ("x.toml", "a = 1\na = 2\n", 2, "invalid TOML: cannot overwrite a value"),
        ("x.toml", "[[op]", 1, "invalid TOML: "),
        ("x.toml", "a = 1\nb = '''", 2, "invalid TOML: "),
        ("x.toml", "a = 1\nb = " + "[" * 60 + "]" * 60, 2, "nested more than 48 levels deep"),
        ("x.toml", "b = 2\na = [\n" + "[" * 100_000, 3, "nested more than 48 levels deep"),
        ("x.toml", "[" + "a." * 1000 + "b]", 1, "nested more than 48 levels deep"),
        ("x.toml", "b = 2\na = -1" + "0" * 5000, 2, "this number has more than 400 digits"),
        ("x.toml", "b = 2\na = 0x1" + "0" * 5000, 2, "this number has more than 400 digits"),
        ("x.toml", "b = 2\na = 1." + "0" * 5000, 2, "this number has more than 400 digits"),
        ("x.toml", b"# one\n# two \xff\n", 2, "byte 12 of the file is not UTF-8"),
        ("x.json", "", 1, "the file is empty"),
        ("x.json", '{\n"a": NaN}', 2, "invalid JSON: 'NaN}'"),
        ("x.json", '{\n"a": 1e999}', 2, "this number is too large: 1e999"),
        ("x.json", '{"a": 1,\n"a": 2}', 2, "the key `a` occurs twice"),
        ("x.json", "[" * 100_000, 1, "nested more than 48 levels deep"),
        ("x.json", '{"a":\n "\0"}', 2, "unexpected NUL byte"),
    ],
)
def test_faults_of_a_text_have_a_line(name: str, text: str | bytes, line: int, message: str) -> None:
    [fault] = faults(text, name)
    assert fault[0] == line and fault[1].startswith(message)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_accepted(encoding: str) -> None:
    for name, text in (("x.json", '{"ä": 1}'), ("x.toml", '"ä" = 1\r\n')):
        found = parse(text.encode(encoding), name, Findings())
        assert found is not None and found.value == {"ä": 1} and found.lines[("ä",)] == 1


@dataclass(frozen=True)
class Leaf:
    size: int
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Tree:
    name: str
    leaves: tuple[Leaf, ...] = ()
    sizes: Mapping[str, float] | None = None
    file: Path = Path()
    many: Annotated[int, between(int, 1, 9)] = 1
    colour: Annotated[str, one_of(["red", "green"])] = "red"
    whole: bool = False


def test_values_become_what_type_hints_name() -> None:
    text = 'name = "x"\nfile = "y"\nmany = 9\nsizes = {a = 1, b = 2.5}\nleaves = [{size = 1}, {size = 2, kind = "b"}]\n'
    expected = Tree("x", (Leaf(1), Leaf(2, "b")), {"a": 1.0, "b": 2.5}, Path("dir/y"), 9)
    assert instance(document(text, "dir/x.toml").top, Tree) == expected


def test_all_faults_of_values_are_reported_with_line_and_hint() -> None:
    text = """\
nam = 3
leaves = [
  {size = true},
  {size = 99999999999999999999, kind = "c"},
  {},
  3]
sizes = {a = "b"}
file = 3
many = 10
colour = "gren"
whole = "yes"
"""
    found = document(text, "x.toml")
    assert instance(found.top, Tree) is None
    assert [f"{each.location.line}: {each.message} ({each.hint})" for each in found.findings.all()] == [
        "0: `name` is missing (`nam` exists; did you mean `name`?)",
        "1: `nam` is not a known key (did you mean `name`?)",
        "3: `size` must be an integer, not true (write it without quotes)",
        "4: `size`: 99999999999999999999 does not fit into 64 bits (give a smaller number)",
        "4: `kind`: 'c' is not allowed (one of: a, b)",
        "5: `size` is missing (add `size`)",
        "6: `leaves` must be an object, not 3 (write it in braces: {…})",
        '7: `a` must be a number, not \'b\' (write it without quotes)',
        "8: `file` must be a path, not 3 (relative to the folder of this file)",
        "9: `many`: 10 is out of range: 1 to 9 ()",
        "10: `colour`: 'gren' is not allowed (did you mean `green`?)",
        "11: `whole` must be true or false, not 'yes' (write it without quotes)",
    ]  # fmt: skip
