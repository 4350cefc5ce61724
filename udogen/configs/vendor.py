"""What Qualcomm's generators refuse in a config: rules found by running them (data/vendor_generators.toml).

The `kind` of a finding is the generator that refuses; empty: both.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lxml import etree

from udogen import backends, resources
from udogen.configs.load import parse
from udogen.findings import Finding, Findings, Location
from udogen.opdef import values
from udogen.opdef.datatypes import ALL_VALID, BACKEND_SPECIFIC, BY_NAME
from udogen.opdef.model import Op, OpPackage, Tensor, TensorSupplement

QNN, SNPE = "qnn-op-package-generator", "snpe-udo-package-generator"
_NUMBERS = {"id": int, "Axis": int, "Min": int, "Max": int, "Scale": float, "Offset": float}
_TRUTHS = ("Mandatory", "Repeated", "IsStaticTensor", "OnlyDefaultSupported", "UseDefaultTranslation", "Symmetric",
           "IsMathInvariant")  # fmt: skip
_MARK = {"?": (0, 1), "+": (1, 0), "*": (0, 0)}  # least and most elements; 0: no limit


def facts() -> dict[str, Any]:
    """The table of what they accept."""
    return resources.facts("vendor_generators")


def refusals(data: bytes, file: str) -> dict[str, list[Finding]]:
    """What each generator refuses in a config, by the rules; the generator that is meant for its kind is the first."""
    refused = [*_of_text(data, file)]
    if not refused:
        packages = parse(data, file, Findings())
        refused = [finding for package in packages for finding in _of_package(package)]
    for_snpe = data.lstrip()[:1] != b"<" or b"DSP_V" in data
    tools = (SNPE, QNN) if for_snpe else (QNN, SNPE)
    return {tool: [finding for finding in refused if finding.kind in ("", tool)] for tool in tools}


def _of_text(data: bytes, file: str) -> Iterator[Finding]:
    """What they refuse before they read any op."""
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        try:
            root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))
        except (etree.XMLSyntaxError, ValueError) as fault:
            yield Finding(f"it is not well-formed XML: {fault}", location=Location(file))
            return
        yield from _of_element(root, file, supplemental=False)
        return
    try:
        body = json.loads(data)
    except ValueError as fault:
        line = getattr(fault, "lineno", 0)
        hint = "remove comments and trailing commas"
        yield Finding(f"it is not strict JSON: {fault}", hint, Location(file, line))
        return
    yield from _of_json(body, data.decode("utf-8", "replace"), file)


# --- XML --------------------------------------------------------------------------------------------------


def _of_element(node: etree._Element, file: str, *, supplemental: bool) -> Iterator[Finding]:
    """An element and all below it: attributes, order, number, values."""
    tag = str(node.tag)
    where = Location(file, node.sourceline or 0)
    supplemental = supplemental or tag == "SupplementalOpDef"
    own = facts()["supplemental"] if supplemental else {}
    row: Mapping[str, Any] = own.get(tag) or facts()["elements"].get(tag, {})
    for message, hint in (*_of_attributes(node, tag, row), *_of_content(node, tag, row.get("holds", "").split())):
        yield Finding(message, hint, where)
    for child in node:
        if isinstance(child.tag, str):
            yield from _of_element(child, file, supplemental=supplemental)


def _of_attributes(node: etree._Element, tag: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    must, may = row.get("must", []), row.get("may", [])
    for name in must:
        if name not in node.attrib:
            yield f"<{tag}> has no attribute `{name}`", f'add {name}="…"'
    for name in map(str, node.attrib):
        if name not in (*must, *may) and not name.startswith("{http://www.w3.org/2001/XMLSchema-instance}"):
            yield f"<{tag}> has the attribute `{name}`", "newer releases have it" if name == "UseQHPI" else "remove it"
    for name in ("id", "Type") if tag == "Constraint" else ():
        if name in node.attrib and (fault := _fault_of_value(name, str(node.get(name)))):
            yield f"{name} of a <Constraint> is `{str(node.get(name))[:60]}`", fault


def _of_content(node: etree._Element, tag: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The children and texts of an element that may contain `words`."""
    children = [child for child in node if isinstance(child.tag, str)]
    has_text = any(text and text.strip() for text in (node.text, *(child.tail for child in node)))
    if words:
        yield from _of_children(node, children, [word for word in words if word != "text"])
        if "text" not in words and has_text:
            yield f"<{tag}> contains text", "put it into <Content>" if tag == "Description" else "remove it"
    else:
        yield from _of_text_alone(node, tag, children, has_text=has_text)


def _of_text_alone(
    node: etree._Element, tag: str, children: Sequence[etree._Element], *, has_text: bool
) -> Iterator[tuple[str, str]]:
    """An element that contains text, or passages of a description."""
    if tag == "Description":
        if has_text or any(child.tag not in ("Content", "Code") for child in children):
            yield "a <Description> contains only <Content> and <Code>", "put the text into <Content>"
    elif children:
        yield f"<{tag}> contains elements", "it may contain only text"
    if fault := _fault_of_value(tag, node.text or ""):
        yield f"<{tag}> is `{(node.text or '')[:60]}`", fault


def _of_children(
    node: etree._Element, children: Sequence[etree._Element], words: Sequence[str]
) -> Iterator[tuple[str, str]]:
    order = [word.rstrip("?+*") for word in words]
    tags = [str(child.tag) for child in children]
    for name, word in zip(order, words, strict=True):
        least, most = _MARK.get(word[-1], (1, 1))
        if tags.count(name) < least:
            yield f"<{node.tag!s}> has no <{name}>", f"add <{name}>"
        if most and tags.count(name) > most:
            yield f"<{node.tag!s}> has {tags.count(name)} <{name}>", "keep one of them"
    for tag in dict.fromkeys(tags):
        if tag not in order:
            yield f"<{node.tag!s}> contains <{tag}>", _allowed(order)
    known = [order.index(tag) for tag in tags if tag in order]
    for before, after in pairwise(known):
        if after < before:
            yield f"<{order[after]}> comes after <{order[before]}>", "the order is " + ", ".join(order)
            return


def _fault_of_value(tag: str, text: str) -> str:
    """What a value must be, if it is not."""
    allowed = facts()["values"].get("truth" if tag in _TRUTHS else tag)
    if tag in _NUMBERS:
        try:
            _NUMBERS[tag](text.strip() or "0")
        except ValueError:
            return "it must be a number"
    if allowed is None:
        return ""
    plain = text.strip() if tag in _TRUTHS else text.removeprefix("QNN_DATATYPE_")
    if tag == "Datatype" and text == "QNN_DATATYPE_BACKEND_SPECIFIC":
        return "it must have no prefix"
    return "" if plain in allowed else "it must be " + ", ".join(allowed)


# --- JSON -------------------------------------------------------------------------------------------------


def _of_json(body: Any, text: str, file: str) -> Iterator[Finding]:
    """What their reader refuses of a config that udogen can read."""
    for package in body.values() if isinstance(body, dict) else ():
        for op in package.get("Operators", ()):
            for name, message, hint in _of_operator(op):
                at = text.find(f'"{name}"')
                line = text.count("\n", 0, at) + 1 if at >= 0 else 0
                yield Finding(message, hint, Location(file, line))


def _of_operator(op: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Of an operator: the name in question, the message, the hint."""
    known, versions = facts()["json"]["cores"], facts()["snpe"]["versions"]
    name, cores = op.get("type", ""), op.get("core_types") or ()
    if not cores:
        yield name, f"`{name}` has no core_types", 'add "core_types": ["CPU"]'
    for core in cores:
        if core not in known:
            dsp = 'write "DSP", with "dsp_arch_types": ["v68"]'
            yield name, f"the core_types of `{name}` name {core}", dsp if core == "HTP" else _allowed(known)
    for arch in op.get("dsp_arch_types", ()):
        if arch.upper() not in versions:
            hint = f"an unknown version becomes V65; {_allowed(versions)}"
            yield name, f"`{name}` has the DSP version {arch}", hint
    for key in ("inputs", "outputs", "scalar_params", "tensor_params"):
        for tensor in op.get(key, ()):
            label = tensor.get("name", "")
            for message, hint in _of_json_tensor(tensor, cores if key in ("inputs", "outputs") else None):
                yield label or name, f"`{label or key}` of `{name}`: {message}", hint


def _of_json_tensor(tensor: Mapping[str, Any], cores: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Message and hint for one tensor; `cores` of inputs and outputs."""
    table = facts()["json"]
    layout = tensor.get("tensor_layout", "NOT_YET_DEFINED")
    if layout not in table["layouts"]:
        yield f"tensor_layout is {layout}", _allowed(table["layouts"])
    elif layout in ("NHWC", "NCHW") and cores is not None:
        yield f"tensor_layout is {layout}, with which release {release()} fails: Cannot set __layout", "leave it out"
    per_core = tensor.get("per_core_data_types") if cores is not None else None
    types = [tensor.get("data_type", None if cores else "FLOAT_32")]
    if per_core is not None:
        types = [*per_core.values(), tensor.get("data_type", "FLOAT_32")]
        for core in per_core:
            if core not in (*table["cores"], "HTP"):
                yield f"per_core_data_types name {core}", _allowed(table["cores"])
        for core in cores or ():
            if core not in per_core:
                yield f"per_core_data_types have no {core}", "name a type for each of core_types"
    for name in types:
        if name not in table["types"]:
            yield f"the data type is {name}" if name else "it has no data type", _allowed(table["types"])


def _allowed(words: Sequence[str]) -> str:
    return "allowed: " + ", ".join(words)


# --- the model --------------------------------------------------------------------------------------------


def _of_package(package: OpPackage) -> Iterator[Finding]:
    """Rules for the model of a config."""
    if not re.fullmatch(r"[A-Za-z_]\w*", package.name, re.ASCII):
        yield Finding(f"`{package.name}` is not a C++ name", "letters, digits and _", package.location)
    named = _ops_by_backend(package)
    yield from _of_backends(package, named)
    defined = {op.name for op in package.ops}
    for supplement in package.supplements:
        for name in supplement.supported:
            if name not in defined:
                message = f"SupportedOps names `{name}`, which is not defined"
                yield Finding(message, "remove it", supplement.location)
    for op in package.ops:
        for tensor in op.tensors:
            for message, hint in _of_tensor(tensor):
                yield Finding(f"`{tensor.name}` of `{op.name}`: {message}", hint, tensor.location)
    for backend, ops in named.items():
        for op in ops:
            yield from _on_backend(op, backend, package)


def _ops_by_backend(package: OpPackage) -> dict[str, list[Op]]:
    """Name of a backend as Qualcomm's generators have it (`DSP_V68`) -> its ops."""
    ops: dict[str, list[Op]] = {}
    for op in package.ops:
        names, archs = backends.of_supplements(op, package)
        for name in names:
            for core in [f"DSP_{arch.upper()}" for arch in archs if name == "DSP"] or [name]:
                ops.setdefault(core, []).append(op)
    return ops


def _of_backends(package: OpPackage, named: Mapping[str, Sequence[Op]]) -> Iterator[Finding]:
    qnn, snpe = facts()["qnn"], facts()["snpe"]
    if len(named) > 1:
        what = f"the package is for {', '.join(named)}; release {release()} accepts one backend"
        hint = "give each backend its own config: `udogen convert --to xml --backend NAME`"
        yield Finding(what, hint, package.location, kind=QNN)
    versions = [f"DSP_{version}" for version in snpe["versions"]]
    for name, ops in named.items():
        if name not in qnn["backends"]:
            yield Finding(f"the backend {name}", _allowed(qnn["backends"]), ops[0].location, kind=QNN)
        if name not in (*snpe["backends"], *versions):
            known = _allowed((*snpe["backends"], *versions))
            yield Finding(f"the backend {name}", known, ops[0].location, kind=SNPE)


def release() -> str:
    """The release of the generators that were run."""
    return str(facts()["release"])


def _kind_of_default(tensor: Tensor) -> str:
    """How they read a default: text, truth, number or list."""
    text = (tensor.default_text if tensor.default is None else values.show(tensor.default)).replace(" ", "")
    if text.lower() in ("true", "false"):
        return "truth"
    try:
        float(text)
    except ValueError:
        pass
    else:
        return "number" if "." in text or "e" in text or re.fullmatch(r"[+-]?\d[\d_]*", text) else "none"
    if any(letter.isalpha() for letter in text):
        return "text"
    try:
        list(ast.literal_eval(text.replace("{", "[").replace("}", "]")))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return "text"
    return "list"


def _of_tensor(tensor: Tensor) -> Iterator[tuple[str, str]]:
    """Message and hint for a tensor, on every backend."""
    if tensor.rank.ranks == (0,) and tensor.layout:
        yield "it has the rank 0D and a layout", "remove the <Layout>"
    yield from _of_default(tensor)
    ids = [constraint.id for constraint in tensor.constraints]
    if len(set(ids)) < len(ids):
        yield "two of its constraints have the same id", "number them"


def _of_default(tensor: Tensor) -> Iterator[tuple[str, str]]:
    kind = _kind_of_default(tensor)
    has_default = bool(tensor.default_text) or tensor.default is not None
    implied = tensor.rank.scalar and (tensor.enum or BY_NAME["BOOL_8"] in tensor.datatypes)  # 0
    if tensor.role == "param" and not (tensor.mandatory or has_default or implied):
        yield "it is optional and has no default", "add a <Default>"
    if kind == "none":
        yield "the default is not a readable number", "write it with digits"
    if tensor.role == "param" and tensor.rank.scalar:
        yield from _of_scalar(tensor, kind, has_default=has_default)
    elif kind in ("truth", "number") and not (kind == "number" and tensor.rank.ranks == (0,)):
        yield "the default of a tensor is one value", "write it as a list: {…}"


def _of_scalar(tensor: Tensor, kind: str, *, has_default: bool) -> Iterator[tuple[str, str]]:
    types = {datatype.name for datatype in tensor.datatypes}
    if tensor.enum:
        yield from _of_enumeration(tensor, kind, has_default=has_default)
    elif "BOOL_8" in types:
        if len(types) > 1:
            yield "it may be BOOL_8 and another type", "keep one of them"
        if has_default and kind not in ("truth", "number"):
            yield "the default of a BOOL_8 is neither true nor false", "write true or false"
    elif kind in ("list", "truth"):
        yield "the default of a scalar is not a number", "write a number"


def _of_enumeration(tensor: Tensor, kind: str, *, has_default: bool) -> Iterator[tuple[str, str]]:
    if any(datatype.kind == "float" for datatype in tensor.datatypes):
        yield "it is an enumeration with a type of floats", "use UINT_32"
    if BY_NAME["BOOL_8"] in tensor.datatypes and len(tensor.enum) != 2:
        yield "it is BOOL_8 with other than two enumerators", "use UINT_32"
    if has_default and kind == "text" and tensor.default_text not in tensor.enum:
        yield "the default is not one of its enumerators", "name one of them"
    elif has_default and kind == "number" and not 0 <= float(str(tensor.default)) < len(tensor.enum):
        yield "the default is not one of its enumerators", "they count from 0"
    elif kind in ("list", "truth"):
        yield "the default of an enumeration is not a number", "name an enumerator"


def _on_backend(op: Op, backend: str, package: OpPackage) -> Iterator[Finding]:
    """What is refused of an op on one backend."""
    hexagon = backend in ("HTP", "HTP_FP16") or (backend.startswith("DSP_V") and int(backend[5:]) >= 68)
    extra = _supplements_of(op, backend, package)
    for tensor in op.tensors:
        own = extra.get((tensor.role, tensor.name))
        name = f"`{tensor.name}` of `{op.name}`"
        if own is None:
            is_open = bool({BACKEND_SPECIFIC, ALL_VALID} & {*tensor.datatypes})
        else:
            is_open = ALL_VALID in (*tensor.datatypes, *own.datatypes)
        if is_open:
            what = f"{name} is BACKEND_SPECIFIC, and no supplement for {backend} defines it"
            yield Finding(what, f'add <SupplementalOpDefList Backend="{backend}">', tensor.location)
        if own is not None and own.layouts[-1:] not in ((), ("UNDEFINED",)) and tensor.rank.ranks != (0,):
            what = f"{name} has a layout in the supplement of {backend}"
            yield Finding(what, "write the layout into the <OpDef>", own.location)
        for message, hint in _on_hexagon(tensor) if hexagon else ():
            yield Finding(f"{name} {message} on {backend}", hint, tensor.location)


def _supplements_of(op: Op, backend: str, package: OpPackage) -> dict[tuple[str, str], TensorSupplement]:
    return {
        (tensor.role, tensor.name): tensor
        for supplement in package.supplements
        if supplement.backend == backend or (package.language == "json" and backend.startswith(supplement.backend))
        for entry in supplement.ops
        if entry.name == op.name
        for tensor in entry.tensors
    }


def _on_hexagon(tensor: Tensor) -> Iterator[tuple[str, str]]:
    if tensor.role != "param":
        if tensor.repeated:
            yield "is repeated", ""
    elif isinstance(tensor.default, bool | int | float):
        first = tensor.datatypes[0].name
        if first not in facts()["defaults"]["htp"]:
            yield f"is {first} and has a default", "use FLOAT_32, UINT_32 or INT_32"
