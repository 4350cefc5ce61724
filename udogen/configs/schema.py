"""Errors of XML and of OpDef.xsd as messages: the element, what is allowed there, a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

from lxml import etree

from udogen.opdef import datatypes
from udogen.opdef.problems import Location, Problems, nearest

_MOST = 1000  # faults that are reported
_XS = "{http://www.w3.org/2001/XMLSchema}"
_CHOICES = {
    "Datatype": ("a data type", "FLOAT_32, UINT_8, FIXED_8, QNN_DATATYPE_UFIXED_POINT_8, BACKEND_SPECIFIC …"),
    "Layout": ("a layout", "NHWC, NHCW, NCHW, NDHWC, NCDHW, NONTRIVIAL, UNDEFINED, BACKEND_SPECIFIC"),
    "Encoding": ("an encoding", "SCALE_OFFSET, AXIS_SCALE_OFFSET, BW_SCALE_OFFSET, BW_AXIS_SCALE_OFFSET"),
}
_ROOT_HINTS = {
    "OpDefList": 'put it into <OpDefCollection PackageName="…" Domain="…" Version="…">: a package needs a name',
    "SupplementalOpDefSpecification": "this is about Qualcomm's own ops; for custom ops write an <OpDefCollection>",
    "SupplementalOpDefList": "put it into the <OpDefCollection> of its ops, after their <OpDefList>",
}
# Message of libxml2 -> remedy.
_SYNTAX_HINTS = (
    ("xmlParseEntityRef: no name", "write `&` as &amp;"),
    ("EntityRef: expecting ';'", "write `&` as &amp;"),
    ("Entity '", "XML defines only &amp; &lt; &gt; &quot; &apos;; write the character itself"),
    ("Opening and ending tag mismatch", "close each element with the name that opened it"),
    ("Premature end", "the file seems to be truncated"),
    ("AttValue", "an attribute's value needs double quotes, without a `<`"),
    ("redefined", "remove one of the two"),
    ("Extra content", "a config has one root element, <OpDefCollection>"),
    ("Unsupported encoding", 'save the file as UTF-8, and declare encoding="UTF-8"'),
    ("Invalid bytes in character encoding", 'save the file as UTF-8, and declare encoding="UTF-8"'),
    ("Char", "remove the character; XML cannot hold it"),
    ("Namespace prefix", "OpDef configs have no namespaces; remove the prefix"),
    ("depth", "a config is 8 levels deep; is this the right file?"),
)


def explain_syntax(fault: Exception) -> tuple[str, str]:
    """Message and hint for text that is not XML."""
    text = str(getattr(fault, "msg", fault)).split(", line ")[0].strip()
    hint = next((hint for start, hint in _SYNTAX_HINTS if start in text), "check the tags near this line")
    return f"this is not well-formed XML: {text}", hint


def check(root: etree._Element, schema_file: Path, place: Callable[[int, str], Location], problems: Problems) -> None:
    """Validate the tree against the schema; every fault becomes a problem."""
    schema = _load(schema_file)
    if schema.validate(root):
        return
    for entry in islice(schema.error_log, _MOST):
        message, hint = _explain(entry, schema_file)
        if message:
            problems.error(place(entry.line, _element(entry)), message, hint)


@cache
def _load(schema_file: Path) -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(schema_file)))


def _element(entry: etree._LogEntry) -> str:
    return _first(r"Element '([^']*)'", entry.message)


def _allowed_elements(schema_file: Path, path: list[str]) -> list[str]:
    """The elements that the schema allows in the element at this path."""
    root = etree.parse(str(schema_file)).getroot()
    named = {(each.tag, each.get("name")): each for each in root}
    inside = [each for each in root if each.tag == f"{_XS}element"]
    for step in path:
        node = next((each for each in inside if each.get("name") == step), None)
        if node is None:
            return []
        node = named.get((f"{_XS}complexType", node.get("type")), node)
        inside = list(node.iter(f"{_XS}element"))
        for group in node.iter(f"{_XS}group"):
            inside = [*named[f"{_XS}group", group.get("ref")].iter(f"{_XS}element"), *inside]
    return list(dict.fromkeys(each.get("name") or "" for each in inside))


def _explain_element(element: str, path: str, schema_file: Path) -> tuple[str, str]:
    """Message and hint for an element that is not allowed."""
    steps = [step.split("[")[0] for step in path.strip("/").split("/")]
    allowed = _allowed_elements(schema_file, steps[:-1])
    close = nearest(element, allowed)
    hint = "remove it"
    if allowed:
        hint = f"did you mean <{close}>?" if close else "allowed here: " + ", ".join(allowed)
    return f"<{element}> is not allowed in <{steps[-2] if len(steps) > 1 else '?'}>", hint


def _explain(entry: etree._LogEntry, schema_file: Path) -> tuple[str, str]:
    """Message and hint for a fault; empty if another message reports it."""
    kind, text = entry.type_name, entry.message
    element = _element(entry)
    attribute = _first(r"[Tt]he attribute '([^']*)'", text) or _first(r"attribute '([^']*)'", text)
    value = _first(r"The value '(.*?)'", text)
    if kind == "SCHEMAV_CVC_ELT_1":
        hint = _ROOT_HINTS.get(element, "an XML config begins with <OpDefCollection>")
        return f"the root element is <{element}>, not <OpDefCollection>", hint
    if kind == "SCHEMAV_ELEMENT_CONTENT":
        return _explain_element(element, entry.path or "", schema_file)
    if kind == "SCHEMAV_CVC_COMPLEX_TYPE_3_2_1":
        return f"<{element}> has no attribute `{attribute}`", "remove it, or correct its name"
    if kind == "SCHEMAV_CVC_COMPLEX_TYPE_4" and attribute in ("PackageName", "Backend"):
        return "", ""  # reported by the rules
    if kind == "SCHEMAV_CVC_COMPLEX_TYPE_4":
        return f"<{element}> is missing the attribute `{attribute}`", f'add {attribute}="…"'
    if kind == "SCHEMAV_CVC_COMPLEX_TYPE_2_3":
        return f"there is text in <{element}>, where only elements are allowed", "remove it, or put it into an element"
    if kind in ("SCHEMAV_CVC_PATTERN_VALID", "SCHEMAV_CVC_ENUMERATION_VALID"):
        return _explain_value(element, attribute if "attribute" in text else "", value)
    if kind in ("SCHEMAV_CVC_DATATYPE_VALID_1_2_1", "SCHEMAV_CVC_DATATYPE_VALID_1_2_3"):
        value = _first(r"'([^']*)' is not a valid value", text)
        return _explain_value(element, "", value) if element == "Datatype" else ("", "")
    return text, "see schemas/OpDef.xsd"


def _explain_value(element: str, attribute: str, value: str) -> tuple[str, str]:
    if attribute == "Type":
        return (
            f"`{value}` is not a type of a constraint",
            "may be: Number, Shape, Value, Datatype, Description, Dynamic_Shape",
        )
    if not value:
        return (
            f"<{element}> is empty",
            "write true or false" if element not in _CHOICES else f"may be: {_CHOICES[element][1]}",
        )
    if element in _CHOICES:
        what, choices = _CHOICES[element]
        known = datatypes.spellings() if element == "Datatype" else choices.split(", ")
        close = nearest(value, known, cutoff=0.75)
        return f"`{value}` is not {what}", f"did you mean {close}?" if close else f"may be: {choices}"
    return f"`{value}` is neither true nor false", "write true or false"


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else ""
