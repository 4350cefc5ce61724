"""XML OpDef -> model.

The schema (schemas/OpDef.xsd, through lxml) defines which elements are allowed where; this reader checks their number
and their texts.  It continues after a fault, so that all are reported together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from lxml import etree

from udogen import resources
from udogen.backends import canonical, split_dsp
from udogen.errors import nearest
from udogen.findings import Findings, Location, decode
from udogen.opdef import datatypes, values
from udogen.opdef.model import (
    Constraint,
    Op,
    OpPackage,
    OpSupplement,
    Passage,
    QuantParam,
    Rank,
    Reference,
    Supplement,
    Tensor,
    TensorSupplement,
    Value,
)

_ROLES = {"Input": "input", "Output": "output", "Parameter": "param"}
# The largest real config known has 6,000 tags.  libxml2 needs quadratic time to locate errors.
_MOST = {"tags": (b"<", 100_000), "attributes": (b"=", 20_000)}
_LONG_TAG = re.compile(rb"<([A-Za-z]\w*)[^<>\n]*\n[^<>]*>")  # a start tag of several lines
_QUANT_SETTINGS = ("Symmetric", "Scale", "Offset", "Min", "Max", "IsMathInvariant")

Node = etree._Element


def read(data: bytes, file: str, findings: Findings) -> list[OpPackage]:
    """The package of an OpDefCollection; empty if the text is not XML."""
    root = _parse(data, file, findings)
    if root is None:
        return []
    places = _Places(file, data)
    _check(root, resources.schemas() / "OpDef.xsd", places.of, findings)
    if root.tag != "OpDefCollection":
        return []
    return [_XmlReader(places, findings).collection(root)]


def _parse(data: bytes, file: str, findings: Findings) -> Node | None:
    """The root element, without fetching or expanding anything."""
    text = data if b"\0" not in data[:4] else decode(data).encode("utf-8", "replace")
    if b"<!DOCTYPE" in text:
        _no_dtd(Location(file, text.count(b"\n", 0, text.find(b"<!DOCTYPE")) + 1), findings)
        return None
    for what, (mark, most) in _MOST.items():
        if (count := text.count(mark)) > most:
            findings.error(
                Location(file),
                f"the file has {count} {what}; a config has at most {most}",
                "a config describes ops and contains no data; is this the right file?",
            )
            return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as fault:
        findings.error(Location(file, getattr(fault, "lineno", None) or 0), *_explain_syntax(fault))
        return None
    if root.getroottree().docinfo.doctype:  # in another encoding than the search above expects
        _no_dtd(Location(file, 1), findings)
        return None
    return root


def _no_dtd(place: Location, findings: Findings) -> None:
    findings.error(
        place,
        "a config may not have a DTD or entities",
        "remove the <!DOCTYPE …> and write the text out; udogen never expands or fetches entities",
    )


class _Places:
    """The lines on which elements begin; libxml2 has those on which start tags end."""

    def __init__(self, file: str, data: bytes) -> None:
        self._file = file
        self._begins: dict[tuple[int, str], int] = {}
        at, line = 0, 1
        for match in _LONG_TAG.finditer(data):
            begin = line + data.count(b"\n", at, match.start())
            at, line = match.end(), begin + match[0].count(b"\n")
            self._begins[line, match[1].decode("ascii", "replace")] = begin

    def of(self, line: int, tag: str) -> Location:
        """The line where the tag begins that ends on this one."""
        return Location(self._file, self._begins.get((line, tag), line))


class _XmlReader:
    """Reads elements, and collects problems."""

    def __init__(self, places: _Places, findings: Findings) -> None:
        self._places = places
        self._problems = findings

    def collection(self, root: Node) -> OpPackage:
        lists = self._children(root, "OpDefList", at_least=1, at_most=1)
        ops = [self._op(node) for entry in lists for node in self._children(entry, "OpDef", at_least=1)]
        qhpi = root.get("UseQHPI")
        return OpPackage(
            name=root.get("PackageName", ""),
            domain=root.get("Domain", ""),
            version=root.get("Version", ""),
            use_qhpi=None if qhpi is None else values.parse_bool(qhpi),
            ops=tuple(ops),
            supplements=tuple(self._supplement(node) for node in root.findall("SupplementalOpDefList")),
            sources=(self._place(root).file,),
            language="xml",
            location=self._place(root),
        )

    def _op(self, node: Node) -> Op:
        backends, archs = split_dsp(text for element in node.findall("SupportedBackend") if (text := _text(element)))
        return Op(
            name=self._name(node),
            description=self._description(node),
            references=tuple(
                Reference(element.get("Source", ""), element.get("Url", ""), _text(element))
                for element in node.findall("Reference")
            ),
            inputs=tuple(self._tensor(element) for element in self._children(node, "Input", at_least=1)),
            outputs=tuple(self._tensor(element) for element in self._children(node, "Output", at_least=1)),
            params=tuple(self._tensor(element) for element in node.findall("Parameter")),
            use_default_translation=self._bool(node, "UseDefaultTranslation"),
            backends=backends,
            dsp_archs=archs,
            location=self._place(node),
        )

    def _tensor(self, node: Node) -> Tensor:
        role = _ROLES[str(node.tag)]
        name = self._name(node)
        types = self._datatypes(node, at_least=1)
        rank, layouts, shape_text = self._shape(node, name)
        enum = tuple(t for element in node.findall("Enumeration") for e in element.findall("Enum") if (t := _text(e)))
        mandatory = self._bool(node, "Mandatory")
        if mandatory is None and node.find("Mandatory") is None:
            self._problems.warn(
                self._place(node),
                f"`{name}` lacks Mandatory",
                "treated as <Mandatory>true</Mandatory>",
            )
        default, default_text = self._default(node, name, types, enum)
        dynamic = node.find("DynamicShape")
        return Tensor(
            name=name,
            role=role,
            datatypes=types,
            rank=rank,
            layout=layouts[0] if layouts else "",
            shape_text=shape_text,
            mandatory=mandatory is not False,
            default=default,
            default_text=default_text,
            repeated=bool(self._bool(node, "Repeated")),
            static=bool(self._bool(node, "IsStaticTensor")),
            enum=enum,
            constraints=self._constraints(node),
            description=self._description(node),
            quant=self._quant(node),
            dynamic_shape=None if dynamic is None else " ".join("".join(dynamic.itertext()).split()),
            location=self._place(node),
        )

    def _default(
        self, node: Node, name: str, types: tuple[datatypes.DataType, ...], enum: tuple[str, ...]
    ) -> tuple[Value | None, str]:
        nodes = self._children(node, "Default", at_most=1)
        text = _text(nodes[0]) if nodes else ""
        if not text:
            return None, ""
        if len(text) > values.LONGEST:
            self._problems.error(
                self._place(nodes[0]),
                f"the default of `{name}` has {len(text)} characters; the maximum is {values.LONGEST}",
                "store large data in the model, as a static input",
            )
            return None, ""
        value = values.parse_default(text, types, enum)
        if value is None:
            self._problems.warn(
                self._place(nodes[0]),
                f"the default of `{name}` is not a value: `{text[:60]}`",
                "it is stored as text; kernels see the parameter as absent",
            )
            return None, text
        return value, ""

    def _shape(self, node: Node, name: str) -> tuple[Rank, tuple[str, ...], str]:
        shapes = self._children(node, "Shape", at_most=1)
        if not shapes:
            self._problems.warn(self._place(node), f"`{name}` has no <Shape>", "treated as <Rank>ND</Rank>, any rank")
            return Rank(), (), ""
        ranks = self._children(shapes[0], "Rank", at_most=1)
        layouts = tuple(text for element in shapes[0].findall("Layout") if (text := _text(element)))
        if len(layouts) > 1:
            message = f"`{name}` has more than one layout: {', '.join(layouts)}"
            self._problems.warn(self._place(shapes[0]), message, f"{layouts[0]} is taken")
        text = " ".join(_text(element) for element in shapes[0].findall("Text"))
        return self._rank(ranks[0] if ranks else shapes[0], name, written=bool(ranks)), layouts, text

    def _rank(self, node: Node, name: str, *, written: bool) -> Rank:
        text = _text(node) if written else ""
        rank = values.parse_rank(text) if text else None
        usual = str(rank) == text.upper() and " " not in text
        if rank is None:
            self._problems.warn(
                self._place(node),
                f"the rank of `{name}` cannot be read: `{text}`" if text else f"the rank of `{name}` is missing",
                "treated as ND, any rank; the usual ranks are SCALAR, 0D, 1D … 5D and ND",
            )
        elif not usual:
            self._problems.warn(
                self._place(node),
                f"`{text}` is an unusual rank for `{name}`; read as {rank}",
                "Qualcomm's schema has SCALAR, 0D, 1D … 5D and ND",
            )
        return rank or Rank()

    def _datatypes(self, node: Node, *, at_least: int = 0) -> tuple[datatypes.DataType, ...]:
        types = []
        for element in self._children(node, "Datatype", at_least=at_least):
            known = datatypes.parse(_text(element))  # an unknown name was reported by the schema
            if known in types:
                self._problems.warn(self._place(element), f"{_text(element)} occurs twice", "remove one of them")
            elif known is not None:
                types.append(known)
        return tuple(types)

    def _constraints(self, node: Node) -> tuple[Constraint, ...]:
        constraints: list[Constraint] = []
        for element in node.findall("Constraint"):
            code = " ".join(_text(c) for c in element.findall("Code"))
            text = " ".join((element.text or "").split() + [w for c in element for w in (c.tail or "").split()])
            raw = (element.get("id") or "").strip()
            if not text and not code and not raw:
                continue  # the empty element of the documentation's own example
            number = self._constraint_id(raw, len(constraints), element)
            constraints.append(
                Constraint(number, (element.get("Type") or "").strip(), text, code, self._place(element))
            )
        return tuple(constraints)

    def _constraint_id(self, raw: str, position: int, node: Node) -> int:
        number = int(raw) if raw.lstrip("+-").isdecimal() and raw.isascii() and len(raw) < 10 else position
        if raw and str(number) != raw.lstrip("+"):
            message = f"the id of a constraint is an integer, not `{raw}`"
            self._problems.warn(self._place(node), message, f"treated as {number}")
        return number

    def _quant(self, node: Node) -> tuple[QuantParam, ...]:
        return tuple(
            QuantParam(
                encodings=tuple(_text(e) for e in element.findall("Encoding")),
                axes=tuple(_text(e) for e in element.findall("Axis")),
                settings=tuple((key, _text(e)) for key in _QUANT_SETTINGS for e in element.findall(key)),
            )
            for element in node.findall("QuantParam")
        )

    def _supplement(self, node: Node) -> Supplement:
        return Supplement(
            backend=canonical(node.get("Backend") or ""),
            runtime=(node.get("Runtime") or "").strip(),
            supported=tuple(_text(e) for element in node.findall("SupportedOps") for e in element.findall("OpName")),
            ops=tuple(
                OpSupplement(
                    name=self._name(element),
                    tensors=tuple(self._tensor_supplement(t) for t in element if t.tag in _ROLES),
                    location=self._place(element),
                )
                for element in node.findall("SupplementalOpDef")
            ),
            location=self._place(node),
        )

    def _tensor_supplement(self, node: Node) -> TensorSupplement:
        types = self._datatypes(node)
        shape = node.find("Shape")
        texts = (lambda tag: [t for e in shape.findall(tag) if (t := _text(e))]) if shape is not None else _nothing
        default = self._children(node, "Default", at_most=1)
        return TensorSupplement(
            name=self._name(node),
            role=_ROLES[str(node.tag)],
            datatypes=types,
            layouts=tuple(texts("Layout")),
            shape_text=" ".join(texts("Text")),
            default=values.parse_default(_text(default[0]), types) if default and _text(default[0]) else None,
            constraints=self._constraints(node),
            quant=self._quant(node),
            only_default=bool(self._bool(node, "OnlyDefaultSupported")),
            location=self._place(node),
        )

    def _description(self, node: Node) -> tuple[Passage, ...]:
        return tuple(passage for element in node.findall("Description") for passage in _passages(element))

    def _name(self, node: Node) -> str:
        nodes = self._children(node, "Name", at_most=1)  # the rules report a missing one
        return _text(nodes[0]) if nodes else ""

    def _bool(self, node: Node, tag: str) -> bool | None:
        nodes = self._children(node, tag, at_most=1)
        return values.parse_bool(_text(nodes[0])) if nodes else None

    def _children(self, node: Node, tag: str, *, at_least: int = 0, at_most: int = 0) -> list[Node]:
        """The children of this name; reports too few or too many."""
        children = node.findall(tag)
        if len(children) < at_least:
            misspelt = nearest(tag, sorted({str(each.tag) for each in node}), cutoff=0.75)
            if not misspelt:  # which the schema has reported
                self._problems.error(self._place(node), f"<{node.tag!s}> has no <{tag}>", f"add a <{tag}> element")
        for surplus in children[at_most:] if at_most else ():
            self._problems.error(self._place(surplus), f"<{node.tag!s}> has more than one <{tag}>", "keep one of them")
        return children

    def _place(self, node: Node) -> Location:
        return self._places.of(node.sourceline or 0, str(node.tag))


def _text(node: Node) -> str:
    """The text of an element with normalized white space."""
    return " ".join((node.text or "").split())


def _passages(node: Node) -> Iterator[Passage]:
    if node.text and node.text.strip():
        yield Passage(_text(node))
    for each in node:
        if each.tag in ("Content", "Code") and each.text and each.text.strip():
            yield Passage(_text(each), code=each.tag == "Code")


_nothing: Callable[[str], list[str]] = lambda _tag: []  # noqa: E731


# --- errors of XML and of OpDef.xsd as messages -----------------------------------------------------------------------

_MOST_FAULTS = 1000  # faults that are reported
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


def _explain_syntax(fault: Exception) -> tuple[str, str]:
    """Message and hint for text that is not XML."""
    text = str(getattr(fault, "msg", fault)).split(", line ")[0].strip()
    hint = next((hint for start, hint in _SYNTAX_HINTS if start in text), "check the tags near this line")
    return f"this is not well-formed XML: {text}", hint


def _check(root: Node, schema_file: Path, place: Callable[[int, str], Location], findings: Findings) -> None:
    """Validate the tree against the schema; every fault becomes a problem."""
    schema = _load(schema_file)
    if schema.validate(root):
        return
    for entry in islice(schema.error_log, _MOST_FAULTS):
        message, hint = _explain(entry, schema_file)
        if message:
            findings.error(place(entry.line, _element(entry)), message, hint)


@cache
def _load(schema_file: Path) -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(schema_file)))


def _element(entry: etree._LogEntry) -> str:
    return _first(r"Element '([^']*)'", entry.message)


def _allowed_elements(schema_file: Path, path: list[str]) -> list[str]:
    """The elements that the schema allows in the element at this path."""
    root = etree.parse(str(schema_file)).getroot()
    named = {(child.tag, child.get("name")): child for child in root}
    inside = [child for child in root if child.tag == f"{_XS}element"]
    for step in path:
        node = next((child for child in inside if child.get("name") == step), None)
        if node is None:
            return []
        node = named.get((f"{_XS}complexType", node.get("type")), node)
        inside = list(node.iter(f"{_XS}element"))
        for group in node.iter(f"{_XS}group"):
            inside = [*named[f"{_XS}group", group.get("ref")].iter(f"{_XS}element"), *inside]
    return list(dict.fromkeys(child.get("name") or "" for child in inside))


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
