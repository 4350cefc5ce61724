"""Values in the JSON of a context binary: nodes with their line, names and codes, quantization."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from udogen.configs.json_text import Path
from udogen.opdef import datatypes
from udogen.opdef.problems import Location, Problems, nearest
from udogen.qnn import quantization
from udogen.qnn.quantization import (
    AxisScaleOffset,
    BlockEncoding,
    BlockwiseExpansion,
    BwAxisScaleOffset,
    BwScaleOffset,
    OtherEncoding,
    Quantization,
    ScaleOffset,
    VectorEncoding,
)
from udogen.qnn.system import HtpGraph

MISSING: Any = object()


class JsonProblems(NamedTuple):
    """Collects problems, with the line of each value."""

    problems: Problems
    place: Callable[[Path], Location]

    def error(self, path: Path, message: str, hint: str) -> None:
        """Report an error."""
        self.problems.error(self.place(path), message, hint)

    def warn(self, path: Path, message: str, hint: str) -> None:
        """Report a warning."""
        self.problems.warn(self.place(path), message, hint)


class JsonNode:
    """A value of a parsed JSON file, with its path; an object with an `info` has the keys of both."""

    __slots__ = ("_layers", "path", "value", "where")

    def __init__(self, value: Any, path: Path, where: JsonProblems) -> None:
        self.value, self.path, self.where = value, path, where
        self._layers: list[tuple[dict[str, Any], Path]] = []
        if isinstance(value, dict):
            inner = value.get("info")
            if isinstance(inner, dict):
                self._layers.append((inner, (*path, "info")))
            self._layers.append((value, path))

    @property
    def is_object(self) -> bool:
        """Whether it is an object."""
        return bool(self._layers) or isinstance(self.value, dict)

    @property
    def is_whole(self) -> bool:
        """Whether it is an integer; true and false are not."""
        return isinstance(self.value, int) and not isinstance(self.value, bool)

    @property
    def shown(self) -> str:
        """The value as messages show it."""
        if isinstance(self.value, (dict, list)):
            return "an object" if isinstance(self.value, dict) else f"a list of {len(self.value)}"
        text = repr(self.value) if isinstance(self.value, str) else {None: "null"}.get(self.value, str(self.value))
        return text if len(text) <= 60 else text[:59] + "…"

    def get(self, *keys: str) -> JsonNode | None:
        """The value of the first of these keys that exists and is not null."""
        for key in keys:
            for layer, path in self._layers:
                value = layer.get(key)
                if value is None and " " not in key:
                    value = layer.get(_spaced(key))  # some releases of the utility wrote `soc model`
                if value is not None:
                    return JsonNode(value, (*path, key), self.where)
        return None

    def path_of(self, *keys: str) -> Path:
        """The path of the first of these keys that exists; else its own path."""
        node = self.get(*keys)
        return self.path if node is None else node.path

    def items(self) -> Iterator[JsonNode]:
        """The elements of a list."""
        for index, value in enumerate(self.value):
            yield JsonNode(value, (*self.path, index), self.where)

    def text(self, *keys: str) -> str:
        """A string; empty by default."""
        node = self.get(*keys)
        if node is None:
            return ""
        if not isinstance(node.value, str):
            self.where.error(
                node.path, f"`{keys[0]}` is {node.shown}, not a text", "correct it, or write the file again"
            )
            return ""
        return node.value

    def whole(self, key: str, otherwise: int) -> int:
        """A whole number that is not negative."""
        node = self.get(key)
        if node is None:
            return otherwise
        if not node.is_whole or node.value < 0:
            self.where.error(
                node.path, f"`{key}` is {node.shown}, not an integer", "correct it, or write the file again"
            )
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
    """The data type of the same kind with so many bits; empty if there is none."""
    return next((each.name for each in datatypes.ALL if (each.kind, each.bits) == (row.kind, bits)), "")


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


_ROLES = ("APP_WRITE", "APP_READ", "APP_READWRITE", "NATIVE", "STATIC", "NULL")
_ALL_ROLES = (
    *_ROLES,
    *(f"UPDATEABLE_{name}" for name in ("STATIC", "NATIVE", "APP_WRITE", "APP_READ", "APP_READWRITE")),
    *(f"OPTIONAL_{name}" for name in ("APP_WRITE", "APP_READ", "APP_READWRITE")),
)  # in the order of their numbers


def role(value: Any) -> str:
    """The type of a tensor without prefix; empty if the name or number is unknown."""
    code = code_of(value)
    if code is not None:
        return _ALL_ROLES[code] if 0 <= code < len(_ALL_ROLES) else ""
    name = value.removeprefix("QNN_TENSOR_TYPE_") if isinstance(value, str) else ""
    return name if name in _ALL_ROLES else ""


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
    """3 of QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3; 1 without a number."""
    digits = text.rpartition("_")[2]
    return int(digits) if digits.isdigit() else 1


HTP_KEYS = (  # keys of graphBlobInfo and of graphBlobInfoV2, and the fields they are here
    ("spillFillBufferSize", "spill_fill"),
    ("vtcmSize", "vtcm"),
    ("optimizationLevel", "optimization"),
    ("htpDlbc", "dlbc"),
    ("numHvxThreads", "hvx_threads"),
    ("nativeKChannelSize", "native_k_channel"),
    ("nativeVChannelSize", "native_v_channel"),
    ("isSafeShareIO", "safe_to_share_io"),
    ("ioTensorSize", "io_tensors"),
    ("opDataSize", "op_data"),
    ("constSize", "constants"),
    ("ddrTensorSize", "ddr_tensors"),
    ("sharedWeightsSize", "shared_weights"),
)
_TRUTHS = {"dlbc", "safe_to_share_io"}


def htp_graph(row: JsonNode) -> HtpGraph | None:
    """HTP's properties of a graph; None if there are none."""
    blobs = [node for key in ("graphBlobInfo", "graphBlobInfoV2") if (node := row.get(key)) is not None]
    found: dict[str, Any] = {}
    for blob in blobs:
        for key, field in HTP_KEYS:
            if blob.is_object and blob.get(key) is not None:
                number = blob.whole(key, 0)
                found[field] = bool(number) if field in _TRUTHS else number
    if "vtcm" in found and found["vtcm"] <= 1 << 16:
        found["vtcm"] <<= 20  # the utility writes MiB
    return HtpGraph(**found) if found else None


_PREFIX = "QNN_QUANTIZATION_ENCODING_"
_CODES = (
    *("SCALE_OFFSET", "AXIS_SCALE_OFFSET", "BW_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET", "BLOCK", "BLOCKWISE_EXPANSION"),
    *("VECTOR", "FLOAT_BLOCK", "BW_AXIS_SCALE_OFFSET_MAPPED", "BW_BLOCK_MAPPED", "BW_BLOCKWISE_EXPANSION_MAPPED"),
    "BW_FLOAT_BLOCK",
)  # in the order of their numbers


def read_quantization(tensor: JsonNode, what: str) -> Quantization:
    """Read the quantization of a tensor; problems are reported with its line."""
    params = tensor.get("quantizeParams", "quantization", "quantizationParams")
    if params is None:
        return None
    if not params.is_object:
        params.where.error(params.path, f"{what}: its quantization is {params.shown}, not an object", _HINT)
        return None
    definition = params.get("definition", "encodingDefinition")
    if definition is not None and definition.value in ("QNN_DEFINITION_UNDEFINED", 0x7FFFFFFF):
        return None
    named = params.get("quantizationEncoding", "encoding")
    if named is None:
        return _scale_offset(params, what) if params.get("scale") is not None else None
    name = _name(named)
    if name == "UNDEFINED":
        return None
    if name not in _CODES:
        params.where.error(
            named.path, f"{what}: {named.shown} is not a quantization encoding", "such as " + _PREFIX + _CODES[0]
        )
        return None
    row = next((row for row in _ROWS if row.name == name), None)
    if row is None:
        return OtherEncoding(name)
    body = params.get(row.key)
    if body is None and params.get(*row.needs) is None:
        if name in _CODES[:4]:
            params.where.error(params.path, f"{what}: its encoding is {name}, but there is no `{row.key}`", _HINT)
        return OtherEncoding(name)  # the utility does not write all fields of the others
    return row.read(params if body is None else body, what)


def write_quantization(quant: Quantization) -> dict[str, Any]:
    """The object for a quantization, in the utility's shape."""
    name = quantization.name_of(quant)
    made: dict[str, Any] = {
        "definition": f"QNN_DEFINITION_{'UNDEFINED' if quant is None else 'DEFINED'}",
        "quantizationEncoding": name if name.startswith("0x") else _PREFIX + name,
    }
    row = next((row for row in _ROWS if row.kind is type(quant)), None)
    if row is not None:
        made[row.key] = row.write(quant)
    return made


_HINT = "correct it, or write the file again with qnn-context-binary-utility"


def _name(node: JsonNode) -> str:
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        return _CODES[value] if 0 <= value < len(_CODES) else "UNDEFINED" if value == 0x7FFFFFFF else str(value)
    return str(value).removeprefix(_PREFIX)


# --- one pair of functions for each encoding --------------------------------------------------------------------------


def _scale_offset(node: JsonNode, what: str) -> ScaleOffset:
    return ScaleOffset(_number(node, "scale", what), _integer(node, "offset", what))


def _write_scale_offset(quant: ScaleOffset) -> dict[str, Any]:
    return {"scale": quant.scale, "offset": quant.offset}


def _axis(node: JsonNode, what: str) -> AxisScaleOffset:
    listed = node.get("scaleOffsets", "scaleOffset")
    if listed is None and node.get("scales") is not None:
        scales, offsets = _numbers(node, "scales", what), _integers(node, "offsets", what)
        offsets = offsets or [0] * len(scales)
        pairs = tuple(ScaleOffset(scale, offset) for scale, offset in zip(scales, offsets, strict=False))
        _same_length(node, "offsets", len(scales), len(offsets), what)
    else:
        pairs = _pairs(node, what)
    _counted(node, "numScaleOffsets", len(pairs), what)
    return AxisScaleOffset(_integer(node, "axis", what), pairs)


def _write_axis(quant: AxisScaleOffset) -> dict[str, Any]:
    return {
        "axis": quant.axis,
        "numScaleOffsets": len(quant.pairs),
        "scaleOffsets": [_write_scale_offset(pair) for pair in quant.pairs],
    }


def _bw(node: JsonNode, what: str) -> BwScaleOffset:
    bits = _integer(node, "bitwidth", what)
    return BwScaleOffset(bits, _number(node, "scale", what), _integer(node, "offset", what))


def _write_bw(quant: BwScaleOffset) -> dict[str, Any]:
    return {"bitwidth": quant.bitwidth, "scale": quant.scale, "offset": quant.offset}


def _bw_axis(node: JsonNode, what: str) -> BwAxisScaleOffset:
    scales, offsets = _numbers(node, "scales", what), _integers(node, "offsets", what)
    _same_length(node, "offsets", len(scales), len(offsets) or len(scales), what)
    _counted(node, "numElements", len(scales), what)
    bits, axis = _integer(node, "bitwidth", what), _integer(node, "axis", what)
    return BwAxisScaleOffset(bits, axis, tuple(scales), tuple(offsets))


def _write_bw_axis(quant: BwAxisScaleOffset) -> dict[str, Any]:
    return {
        "bitwidth": quant.bitwidth,
        "axis": quant.axis,
        "numElements": len(quant.scales),
        "scales": list(quant.scales),
        "offsets": list(quant.offsets),
    }


def _block(node: JsonNode, what: str) -> BlockEncoding:
    return BlockEncoding(tuple(_integers(node, "blockSize", what)), _pairs(node, what))


def _write_block(quant: BlockEncoding) -> dict[str, Any]:
    return {"blockSize": list(quant.block), "scaleOffsets": [_write_scale_offset(pair) for pair in quant.pairs]}


def _expansion(node: JsonNode, what: str) -> BlockwiseExpansion:
    storage = node.get("blockScaleStorageType")
    return BlockwiseExpansion(
        axis=_integer(node, "axis", what),
        pairs=_pairs(node, what),
        blocks_per_axis=_integer(node, "numBlocksPerAxis", what),
        scale_bitwidth=_integer(node, "blockScaleBitwidth", what),
        block_scales=tuple(_integers(node, "blocksScale", what)),
        scale_storage=16 if storage is not None and str(storage.value).endswith("16") else 8,
    )


def _write_expansion(quant: BlockwiseExpansion) -> dict[str, Any]:
    return {
        "axis": quant.axis,
        "scaleOffsets": [_write_scale_offset(pair) for pair in quant.pairs],
        "numBlocksPerAxis": quant.blocks_per_axis,
        "blockScaleBitwidth": quant.scale_bitwidth,
        "blockScaleStorageType": f"QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_{quant.scale_storage}",
        "blocksScale": list(quant.block_scales),
    }


def _vector(node: JsonNode, what: str) -> Quantization:
    codebook = node.get("bwAxisScaleOffset")
    if codebook is None:
        node.where.error(node.path, f"{what}: its vectors have no `bwAxisScaleOffset`", _HINT)
        return OtherEncoding("VECTOR")
    return VectorEncoding(_bw_axis(codebook, what), *(_integer(node, key, what) for key in _VECTOR))


def _write_vector(quant: VectorEncoding) -> dict[str, Any]:
    numbers = (quant.rows_per_block, quant.columns_per_block, quant.dimension, quant.stride, quant.index_bitwidth)
    return {"bwAxisScaleOffset": _write_bw_axis(quant.codebook), **dict(zip(_VECTOR, numbers, strict=True))}


_VECTOR = ("rowsPerBlock", "columnsPerBlock", "vectorDimension", "vectorStride", "indexBitwidth")


class _JsonEncoding(NamedTuple):
    """One encoding: a new row is a new encoding."""

    name: str
    kind: type
    key: str  # of its object
    needs: tuple[str, ...]  # which of its keys stand in `quantizeParams` itself, in the flat shape
    read: Callable[[JsonNode, str], Quantization]
    write: Callable[[Any], Mapping[str, Any]]


_ROWS = (
    _JsonEncoding("SCALE_OFFSET", ScaleOffset, "scaleOffset", ("scale",), _scale_offset, _write_scale_offset),
    _JsonEncoding(
        "AXIS_SCALE_OFFSET", AxisScaleOffset, "axisScaleOffset", ("scaleOffsets", "scales"), _axis, _write_axis
    ),
    _JsonEncoding("BW_SCALE_OFFSET", BwScaleOffset, "bwScaleOffset", ("scale",), _bw, _write_bw),
    _JsonEncoding(
        "BW_AXIS_SCALE_OFFSET", BwAxisScaleOffset, "bwAxisScaleOffset", ("scales",), _bw_axis, _write_bw_axis
    ),
    _JsonEncoding("BLOCK", BlockEncoding, "blockEncoding", ("blockSize",), _block, _write_block),
    _JsonEncoding(
        "BLOCKWISE_EXPANSION", BlockwiseExpansion, "blockwiseExpansion", ("blocksScale",), _expansion, _write_expansion
    ),
    _JsonEncoding("VECTOR", VectorEncoding, "vectorEncoding", ("vectorDimension",), _vector, _write_vector),
)


# --- what several of them need ----------------------------------------------------------------------------------------


def _number(node: JsonNode, key: str, what: str) -> float:
    found = node.get(key)
    value = None if found is None else found.value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        shown = "missing" if found is None else found.shown
        node.where.error(node.path_of(key), f"{what}: `{key}` of its quantization is {shown}, not a number", _HINT)
        return 1.0
    return float(value)


def _integer(node: JsonNode, key: str, what: str) -> int:
    found = node.get(key)
    if found is None or not found.is_whole or not -(1 << 31) <= found.value < 1 << 32:
        shown = "missing" if found is None else found.shown
        node.where.error(node.path_of(key), f"{what}: `{key}` of its quantization is {shown}, not an integer", _HINT)
        return 0
    return int(found.value)


def _numbers(node: JsonNode, key: str, what: str) -> list[float]:
    values = _list(node, key, what)
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
        node.where.error(
            node.path_of(key), f"{what}: `{key}` of its quantization has a value that is not a number", _HINT
        )
        return []
    return [float(value) for value in values]


def _integers(node: JsonNode, key: str, what: str) -> list[int]:
    values = _list(node, key, what)
    if any(isinstance(value, bool) or not isinstance(value, int) for value in values):
        node.where.error(
            node.path_of(key), f"{what}: `{key}` of its quantization has a value that is not an integer", _HINT
        )
        return []
    return list(values)


def _pairs(node: JsonNode, what: str) -> tuple[ScaleOffset, ...]:
    listed = node.get("scaleOffsets", "scaleOffset")
    if listed is None or not isinstance(listed.value, list):
        node.where.error(node.path, f"{what}: its quantization has no list `scaleOffsets`", _HINT)
        return ()
    return tuple(_scale_offset(each, what) for each in listed.items())


def _list(node: JsonNode, key: str, what: str) -> list[Any]:
    found = node.get(key)
    if found is None:
        return []
    if not isinstance(found.value, list):
        node.where.error(found.path, f"{what}: `{key}` of its quantization is {found.shown}, not a list", _HINT)
        return []
    return found.value


def _counted(node: JsonNode, key: str, count: int, what: str) -> None:
    given = node.get(key)
    if given is not None and given.value != count:
        node.where.error(
            given.path, f"{what}: `{key}` of its quantization is {given.shown}, but there are {count}", _HINT
        )


def _same_length(node: JsonNode, key: str, wanted: int, has: int, what: str) -> None:
    if wanted != has:
        node.where.error(node.path_of(key), f"{what}: its quantization has {wanted} scales and {has} offsets", _HINT)
