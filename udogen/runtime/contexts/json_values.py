"""Values in the JSON of a context binary: nodes with their lines, names and codes, quantization."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

from udogen.documents.document import Document, Node
from udogen.documents.json_text import Path
from udogen.errors import nearest
from udogen.opdef import datatypes
from udogen.qnn import quantization
from udogen.qnn.quantization import CODEBOOK, PAIRS, STORAGE, Encoding, OtherEncoding, Quantization, ScaleOffset
from udogen.qnn.system import HTP_KEYS, HtpGraph, htp_graph_of, roles

MISSING: Any = object()


class JsonNode(Node):
    """A value of the JSON of a binary; an object with an `info` has the keys of both."""

    __slots__ = ("_layers",)

    def __init__(self, value: Any, path: Path, document: Document) -> None:
        super().__init__(value, path, document)
        self._layers: list[tuple[dict[str, Any], Path]] = []
        if isinstance(value, dict):
            inner = value.get("info")
            if isinstance(inner, dict):
                self._layers.append((inner, (*path, "info")))
            self._layers.append((value, path))

    @property
    def is_object(self) -> bool:
        """Whether it is an object."""
        return bool(self._layers)

    def get(self, *keys: str) -> JsonNode | None:
        """The value of the first of these keys that exists and is not null."""
        for key in keys:
            for layer, path in self._layers:
                value = layer.get(key)
                if value is None and " " not in key:
                    value = layer.get(_spaced(key))  # some releases of the utility wrote `soc model`
                if value is not None:
                    return JsonNode(value, (*path, key), self.document)
        return None

    def at(self, key: str | int) -> JsonNode:
        """The value of a key or an index that exists."""
        return JsonNode(self.value[key], (*self.path, key), self.document)

    def items(self) -> Iterator[JsonNode]:
        """The elements of a list."""
        return (self.at(index) for index in range(len(self.value)))

    def text(self, *keys: str) -> str:
        """The string of a key; empty by default."""
        node = self.get(*keys)
        if node is None:
            return ""
        if not isinstance(node.value, str):
            node.error(f"`{keys[0]}` is {node.shown}, not a text", "correct it, or write the file again")
            return ""
        return node.value

    def whole(self, key: str, otherwise: int) -> int:
        """The non-negative integer of a key; `otherwise` if it is missing or invalid."""
        node = self.get(key)
        if node is None:
            return otherwise
        if not node.is_whole or node.value < 0:
            node.error(f"`{key}` is {node.shown}, not an integer", "correct it, or write the file again")
            return otherwise
        return int(node.value)


@cache
def _spaced(key: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in key)


def code_of(value: Any) -> int | None:
    """A JSON number, or a string with a number, as an integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value, 0) if isinstance(value, str) else None
    except ValueError:
        return None


def data_type(value: Any) -> datatypes.DataType | None:
    """The data type with this name or number; None if tensors have no such type."""
    code = code_of(value)
    row = datatypes.by_code(code) if code is not None else None
    if row is None and isinstance(value, str):
        row = datatypes.parse(value)
    return None if row is None or row.kind in ("special", "string") else row


def of_width(row: datatypes.DataType, bits: int) -> str:
    """The data type of the same kind with this many bits; empty if there is none."""
    return next((datatype.name for datatype in datatypes.ALL if (datatype.kind, datatype.bits) == (row.kind, bits)), "")


def type_hint(value: Any) -> str:
    """A hint for an unknown data type."""
    code = code_of(value)
    if code is not None:
        try:
            row = datatypes.by_code(int(str(code), 16))
        except ValueError:
            row = None
        return f"{row.name} is 0x{row.code:04x}, that is {row.code}" if row else "such as 1032 (0x0408, UFIXED_POINT_8)"
    near = nearest(str(value), datatypes.spellings())
    return f"did you mean {near}?" if near else "such as QNN_DATATYPE_UFIXED_POINT_8, or its code 1032 (0x0408)"


def role(value: Any) -> str:
    """The type of a tensor without prefix; empty if the name or number is unknown."""
    code, known = code_of(value), roles()
    name = value.removeprefix("QNN_TENSOR_TYPE_") if isinstance(value, str) else ""
    meaning = known.get(code, "") if code is not None else name if name in known.values() else ""
    return "" if meaning == "UNDEFINED" else meaning


FORMATS = ("FLAT_BUFFER", "SPARSE", "CODEBOOK", "MX", "UBWC_RGBA8888", "UBWC_NV12", "UBWC_NV12_Y", "UBWC_NV12_UV")


def data_format(row: JsonNode) -> int:
    """The data format of a tensor as a number; flat by default."""
    node = row.get("dataFormat")
    if node is None:
        return 0
    code = code_of(node.value)
    name = str(node.value).removeprefix("QNN_TENSOR_DATA_FORMAT_")
    return code if code is not None else FORMATS.index(name) if name in FORMATS else 0


def last_number(text: str) -> int:
    """The number at the end of a text, 3 for QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3; 1 if it has none."""
    digits = text.rpartition("_")[2]
    return int(digits) if digits.isdigit() else 1


def htp_graph(row: JsonNode) -> HtpGraph | None:
    """HTP's properties of a graph; None if there are none."""
    blobs = [node for key in ("graphBlobInfo", "graphBlobInfoV2") if (node := row.get(key)) is not None]
    pairs = ((blob, key) for blob in blobs for key in HTP_KEYS if blob.is_object and blob.get(key) is not None)
    fields = {key: blob.whole(key, 0) for blob, key in pairs}
    return htp_graph_of(fields) if fields else None


def read_quantization(tensor: JsonNode, what: str) -> Quantization:
    """Read the quantization of a tensor; problems are reported with its line."""
    params = tensor.get("quantizeParams", "quantization", "quantizationParams")
    if params is None:
        return None
    if not params.is_object:
        params.error(f"{what}: its quantization is {params.shown}, not an object", _HINT)
        return None
    definition = params.get("definition", "encodingDefinition")
    if definition is not None and definition.value in ("QNN_DEFINITION_UNDEFINED", 0x7FFFFFFF):
        return None
    rows = quantization.ENCODINGS
    named = params.get("quantizationEncoding", "encoding")
    if named is None:
        flat: Quantization = _encoding(rows[0], params, what) if params.get("scale") is not None else None
        return flat
    name = _name(named, what)
    row = next((row for row in rows if row.name == name), None)
    if row is None:
        return OtherEncoding(name) if name else None
    body = params.get(row.key)
    if body is None and params.get(*row.flat.split()) is None:
        if row in rows[:4]:  # the utility does not write all fields of the others
            params.error(f"{what}: its encoding is {name}, but there is no `{row.key}`", _HINT)
        return OtherEncoding(name)
    encoding: Quantization = _encoding(row, params if body is None else body, what)
    return encoding


def _name(node: JsonNode, what: str) -> str:
    """The encoding that a name or number means; empty if it is UNDEFINED, or unknown, which is reported."""
    names = quantization.names()
    name = str(node.value).removeprefix(quantization.PREFIX)
    if node.is_whole:
        name = names.get(node.value, name)
    if name not in names.values():
        first = quantization.PREFIX + quantization.ENCODINGS[0].name
        node.error(f"{what}: {node.shown} is not a quantization encoding", "such as " + first)
        return ""
    return "" if name == "UNDEFINED" else name


def write_quantization(quant: Quantization) -> dict[str, Any]:
    """The object for a quantization, in the utility's shape."""
    name = quantization.name_of(quant)
    fields: dict[str, Any] = {
        "definition": f"QNN_DEFINITION_{'UNDEFINED' if quant is None else 'DEFINED'}",
        "quantizationEncoding": name if name.startswith("0x") else quantization.PREFIX + name,
    }
    if quant is not None and not isinstance(quant, OtherEncoding):
        fields[quantization.encoding_of(quant).key] = _written(quant)
    return fields


_HINT = "correct it, or write the file again with qnn-context-binary-utility"


def _encoding(row: Encoding, node: JsonNode, what: str) -> Any:
    """The encoding in a node; invalid values are reported and replaced by defaults."""
    values: dict[str, Any] = {}
    for name, field in row.fields:
        if field.type == CODEBOOK:
            codebook = node.get(field.key)
            if codebook is None:
                node.error(f"{what}: its vectors have no `{field.key}`", _HINT)
                return OtherEncoding(row.name)
            values[name] = _encoding(quantization.OF_CODEBOOK, codebook, what)
        elif field.type == STORAGE:
            storage = node.get(field.key)
            values[name] = 16 if storage is not None and str(storage.value).endswith("16") else 8
        elif field.type == PAIRS:
            values[name] = _pairs(node, what)
        elif field.is_list:
            values[name] = tuple(_numbers(node, field.key, what, whole=field.type != "float[]"))
        else:
            values[name] = _number(node, field.key, what, whole=field.type != "float")
    if row is quantization.OF_CODEBOOK and values["offsets"]:
        _same_length(node, len(values["scales"]), len(values["offsets"]), what)
    if row.entries:
        _counted(node, row.entries, len(values.get("pairs", values.get("scales", ()))), what)
    return row.kind(**values)


def _written(quant: Any) -> dict[str, Any]:
    """The values of an encoding, in the order of its fields in C."""
    fields: dict[str, Any] = {}
    row = quantization.encoding_of(quant)
    for name, field in row.fields:
        value = getattr(quant, name)
        if field.is_list:
            if row.entries:
                fields.setdefault(row.entries, len(value))
            value = [_written(pair) for pair in value] if field.type == PAIRS else list(value)
        elif field.type == STORAGE:
            value = f"{quantization.STORAGE_PREFIX}{value}"
        fields[field.key] = _written(value) if field.type == CODEBOOK else value
    return fields


def _number(node: JsonNode, key: str, what: str, *, whole: bool = False) -> Any:
    """A number or, with `whole`, an integer of 32 bits."""
    number = node.get(key)
    if number is not None and whole and number.is_whole and -(1 << 31) <= number.value < 1 << 32:
        return int(number.value)
    if number is not None and not whole and number.is_number and math.isfinite(number.value):
        return float(number.value)
    shown, kind = "missing" if number is None else number.shown, "an integer" if whole else "a number"
    (number or node).error(f"{what}: `{key}` of its quantization is {shown}, not {kind}", _HINT)
    return 0 if whole else 1.0


def _numbers(node: JsonNode, key: str, what: str, *, whole: bool = False) -> list[Any]:
    """A list of numbers or, with `whole`, of integers."""
    numbers = node.get(key)
    if numbers is None:
        return []
    if not isinstance(numbers.value, list):
        numbers.error(f"{what}: `{key}` of its quantization is {numbers.shown}, not a list", _HINT)
        return []
    if not all(number.is_whole if whole else number.is_number for number in numbers.items()):
        kind = "an integer" if whole else "a number"
        numbers.error(f"{what}: `{key}` of its quantization has a value that is not {kind}", _HINT)
        return []
    return list(numbers.value) if whole else [float(value) for value in numbers.value]


def _pairs(node: JsonNode, what: str) -> tuple[ScaleOffset, ...]:
    listed = node.get("scaleOffsets", "scaleOffset")
    if listed is None and node.get("scales") is not None:
        scales, offsets = _numbers(node, "scales", what), _numbers(node, "offsets", what, whole=True)
        offsets = offsets or [0] * len(scales)
        _same_length(node, len(scales), len(offsets), what)
        return tuple(ScaleOffset(scale, offset) for scale, offset in zip(scales, offsets, strict=False))
    if listed is None or not isinstance(listed.value, list):
        node.error(f"{what}: its quantization has no list `scaleOffsets`", _HINT)
        return ()
    return tuple(_encoding(quantization.ENCODINGS[0], pair, what) for pair in listed.items())


def _counted(node: JsonNode, key: str, count: int, what: str) -> None:
    given = node.get(key)
    if given is not None and given.value != count:
        given.error(f"{what}: `{key}` of its quantization is {given.shown}, but there are {count}", _HINT)


def _same_length(node: JsonNode, scales: int, offsets: int, what: str) -> None:
    if scales != offsets:
        message = f"{what}: its quantization has {scales} scales and {offsets} offsets"
        (node.get("offsets") or node).error(message, _HINT)
