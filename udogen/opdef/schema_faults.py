"""Faults against OpDef.xsd, in words a person can use: which element, what may stand there, what to do."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from lxml import etree

from udogen.opdef.problems import Location, Problems, nearest

_EXPECTED = re.compile(r"Expected is (?:one of )?\( (.*) \)")
_CHOICES = {
    "Datatype": ("a data type", "FLOAT_32, UINT_8, FIXED_8, QNN_DATATYPE_UFIXED_POINT_8, BACKEND_SPECIFIC …"),
    "Layout": ("a layout", "NHWC, NHCW, NCHW, NDHWC, NCDHW, NONTRIVIAL, UNDEFINED, BACKEND_SPECIFIC"),
    "Encoding": ("an encoding", "SCALE_OFFSET, AXIS_SCALE_OFFSET, BW_SCALE_OFFSET, BW_AXIS_SCALE_OFFSET"),
}


def check(root: etree._Element, schema_file: Path, file: str, problems: Problems) -> None:
    """Hold the tree against the schema; every fault becomes a problem."""
    schema = _load(schema_file)
    if schema.validate(root):
        return
    told: set[tuple[int, str]] = set()
    for entry in schema.error_log:
        message, hint = _explain(entry)
        if message and (entry.line, message) not in told:
            told.add((entry.line, message))
            problems.error(Location(file, entry.line), message, hint)


@cache
def _load(schema_file: Path) -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(schema_file)))


def _explain(entry: etree._LogEntry) -> tuple[str, str]:
    """Message and hint of one fault; an empty message where another fault says the same."""
    kind, text = entry.type_name, entry.message
    element = _first(r"Element '([^']*)'", text)
    attribute = _first(r"[Tt]he attribute '([^']*)'", text) or _first(r"attribute '([^']*)'", text)
    value = _first(r"The value '(.*?)'", text)
    if kind == "SCHEMAV_CVC_ELT_1":
        return f"the root element is <{element}>, not <OpDefCollection>", "an OpDef config begins with <OpDefCollection>"
    if kind == "SCHEMAV_ELEMENT_CONTENT":
        allowed = [name.strip() for name in (_first(_EXPECTED, text) or "").split(",") if name.strip()]
        parent = (entry.path or "").rstrip("/").split("/")[-2:-1]
        inside = f" in <{parent[0].split('[')[0]}>" if parent and parent[0] not in ("", "*") else ""
        close = nearest(element, allowed)
        hint = f"did you mean <{close}>?" if close else "may stand here: " + ", ".join(allowed)
        return f"<{element}> is not allowed{inside}", hint
    if kind == "SCHEMAV_CVC_COMPLEX_TYPE_3_2_1":
        return f"<{element}> has no attribute `{attribute}`", "remove it, or correct its name"
    if kind == "SCHEMAV_CVC_COMPLEX_TYPE_4":
        return f"<{element}> lacks the attribute `{attribute}`", f'add {attribute}="…"'
    if kind == "SCHEMAV_CVC_COMPLEX_TYPE_2_3":
        return f"text stands in <{element}>, where only elements may stand", "remove it, or put it into an element"
    if kind in ("SCHEMAV_CVC_PATTERN_VALID", "SCHEMAV_CVC_ENUMERATION_VALID"):
        return _explain_value(element, attribute if "attribute" in text else "", value)
    if kind in ("SCHEMAV_CVC_DATATYPE_VALID_1_2_1", "SCHEMAV_CVC_DATATYPE_VALID_1_2_3"):
        value = _first(r"'([^']*)' is not a valid value", text)
        if element == "Datatype":
            return _explain_value(element, "", value)
        return "", ""
    return text, "see schemas/OpDef.xsd"


def _explain_value(element: str, attribute: str, value: str) -> tuple[str, str]:
    if attribute == "Type":
        return (
            f"`{value}` is no type of a constraint",
            "may be: Number, Shape, Value, Datatype, Description, Dynamic_Shape",
        )
    if element in _CHOICES:
        what, choices = _CHOICES[element]
        return f"`{value}` is not {what}", f"may be: {choices}"
    return f"`{value}` is neither true nor false", "write true or false"


def _first(pattern: str | re.Pattern[str], text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else ""
