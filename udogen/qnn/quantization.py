"""Quantization encodings of the API, written to C structs and read from them.

Names and layouts: `Qnn_QuantizeParams_t` of the public QNN API reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from math import prod
from numbers import Real
from typing import Any, NamedTuple, cast

from udogen.errors import RunFailed, UsageError
from udogen.qnn import abi

Keep = Callable[[Any], Any]  # keeps memory that a struct points to alive, and returns it
PREFIX = "QNN_QUANTIZATION_ENCODING_"
_MOST = 1 << 24  # pairs of one tensor; more is a damaged file


PAIRS, STORAGE, STORED, CODEBOOK = "Qnn_ScaleOffset_t[]", "storage", "stored[]", "codebook"


class EncodingField(NamedTuple):
    """A field of an encoding in JSON and in C: its name in JSON, its type in C, its name in C if that differs.

    STORAGE is the width of the numbers of STORED; CODEBOOK is the struct of a `BwAxisScaleOffset`.
    """

    key: str
    type: str
    in_c: str = ""

    @property
    def is_list(self) -> bool:
        """Whether it has several entries."""
        return self.type.endswith("[]")


def _c(key: str, kind: str, in_c: str = "") -> dict[str, EncodingField]:
    return {"c": EncodingField(key, kind, in_c)}


@dataclass(frozen=True)
class ScaleOffset:
    """real = (stored + offset) * scale, for the whole tensor: `ScaleOffset(0.05, -128)`."""

    scale: float = field(metadata=_c("scale", "float"))
    offset: int = field(default=0, metadata=_c("offset", "int32_t"))


@dataclass(frozen=True)
class AxisScaleOffset:
    """real = (stored + offset) * scale, with one pair for each index along one axis.

    `AxisScaleOffset(0, (ScaleOffset(0.05, -128), ScaleOffset(0.1, -128)))`
    """

    axis: int = field(metadata=_c("axis", "int32_t"))
    pairs: tuple[ScaleOffset, ...] = field(metadata=_c("scaleOffsets", PAIRS, "scaleOffset"))


@dataclass(frozen=True)
class BwScaleOffset:
    """`ScaleOffset` for numbers with fewer bits than their data type: `BwScaleOffset(4, 0.5, 0)`."""

    bitwidth: int = field(metadata=_c("bitwidth", "uint32_t"))
    scale: float = field(metadata=_c("scale", "float"))
    offset: int = field(default=0, metadata=_c("offset", "int32_t"))


@dataclass(frozen=True)
class BwAxisScaleOffset:
    """`AxisScaleOffset` for numbers with fewer bits than their data type; no offsets means all are 0.

    `BwAxisScaleOffset(4, 0, (0.5, 0.25), ())`
    """

    bitwidth: int = field(metadata=_c("bitwidth", "uint32_t"))
    axis: int = field(metadata=_c("axis", "int32_t"))
    scales: tuple[float, ...] = field(metadata=_c("scales", "float[]"))
    offsets: tuple[int, ...] = field(default=(), metadata=_c("offsets", "int32_t[]"))


@dataclass(frozen=True)
class BlockEncoding:
    """One pair for each block of the tensor; `block` is the block's size along each axis.

    `BlockEncoding((1, 32), (ScaleOffset(0.05, 0), ScaleOffset(0.1, 0)))`
    """

    block: tuple[int, ...] = field(metadata=_c("blockSize", "uint32_t[]"))
    pairs: tuple[ScaleOffset, ...] = field(metadata=_c("scaleOffsets", PAIRS, "scaleOffset"))


@dataclass(frozen=True)
class BlockwiseExpansion:
    """One pair for each index along one axis, and a whole-number factor of the scale for each block.

    `isinstance(info.quant, BlockwiseExpansion)`
    """

    axis: int = field(metadata=_c("axis", "int32_t"))
    pairs: tuple[ScaleOffset, ...] = field(metadata=_c("scaleOffsets", PAIRS))
    blocks_per_axis: int = field(metadata=_c("numBlocksPerAxis", "uint32_t"))
    scale_bitwidth: int = field(metadata=_c("blockScaleBitwidth", "uint32_t"))
    block_scales: tuple[int, ...] = field(metadata=_c("blocksScale", STORED))
    scale_storage: int = field(default=8, metadata=_c("blockScaleStorageType", STORAGE))  # bits of each block scale


@dataclass(frozen=True)
class VectorEncoding:
    """Indices into a codebook of vectors, whose entries are quantized themselves.

    `isinstance(info.quant, VectorEncoding)`
    """

    codebook: BwAxisScaleOffset = field(metadata=_c("bwAxisScaleOffset", CODEBOOK))
    rows_per_block: int = field(metadata=_c("rowsPerBlock", "uint32_t"))
    columns_per_block: int = field(metadata=_c("columnsPerBlock", "uint32_t"))
    dimension: int = field(metadata=_c("vectorDimension", "uint32_t"))
    stride: int = field(metadata=_c("vectorStride", "uint32_t"))
    index_bitwidth: int = field(metadata=_c("indexBitwidth", "uint32_t"))


@dataclass(frozen=True)
class OtherEncoding:
    """An encoding that udogen knows by name only."""

    name: str


Quantization = (
    ScaleOffset
    | AxisScaleOffset
    | BwScaleOffset
    | BwAxisScaleOffset
    | BlockEncoding
    | BlockwiseExpansion
    | VectorEncoding
    | OtherEncoding
    | None
)


def name_of(quant: Quantization) -> str:
    """The name of an encoding without its prefix: SCALE_OFFSET; UNDEFINED for None."""
    if isinstance(quant, OtherEncoding):
        return quant.name
    return "UNDEFINED" if quant is None else encoding_of(quant).name


@cache
def names() -> dict[int, str]:
    """The encodings of the API by their numbers, without prefix; UNDEFINED is one of them."""
    codes = abi.ffi().typeof("Qnn_QuantizationEncoding_t").elements
    return {code: name.removeprefix(PREFIX) for code, name in codes.items()}


class Encoding(NamedTuple):
    """One encoding of the API: a new row is a new encoding."""

    name: str
    kind: type
    member: str  # of Qnn_QuantizeParams_t
    key: str  # of its object in JSON
    flat: str  # keys of which one is in `quantizeParams` itself, if that object is missing
    entries: str = ""  # the field with the number of entries, before the first list
    struct: str = ""  # to which `member` points

    @property
    def fields(self) -> Sequence[tuple[str, EncodingField]]:
        """Its fields, in the order of the struct in C, each with its name in the dataclass."""
        return _fields(self.kind)


@cache
def _fields(kind: type) -> Sequence[tuple[str, EncodingField]]:
    rows = [(each.name, each.metadata["c"]) for each in fields(kind)]
    return sorted(rows, key=lambda row: row[1].type == STORED)  # after its STORAGE


ENCODINGS = (
    Encoding("SCALE_OFFSET", ScaleOffset, "scaleOffsetEncoding", "scaleOffset", "scale"),
    Encoding(
        *("AXIS_SCALE_OFFSET", AxisScaleOffset, "axisScaleOffsetEncoding", "axisScaleOffset", "scaleOffsets scales"),
        entries="numScaleOffsets",
    ),
    Encoding("BW_SCALE_OFFSET", BwScaleOffset, "bwScaleOffsetEncoding", "bwScaleOffset", "scale"),
    Encoding(
        *("BW_AXIS_SCALE_OFFSET", BwAxisScaleOffset, "bwAxisScaleOffsetEncoding", "bwAxisScaleOffset", "scales"),
        entries="numElements",
    ),
    Encoding("BLOCK", BlockEncoding, "blockEncoding", "blockEncoding", "blockSize"),
    Encoding(
        *("BLOCKWISE_EXPANSION", BlockwiseExpansion, "blockwiseExpansion", "blockwiseExpansion", "blocksScale"),
        struct="Qnn_BlockwiseExpansion_t",
    ),
    Encoding(
        *("VECTOR", VectorEncoding, "vectorEncoding", "vectorEncoding", "vectorDimension"),
        struct="Qnn_VectorEncoding_t",
    ),
)
OF_CODEBOOK = ENCODINGS[3]
_BY_NAME = {row.name: row for row in ENCODINGS}
STORAGE_PREFIX = "QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_"


def encoding_of(quant: Any) -> Encoding:
    """The row of an encoding."""
    return next(row for row in ENCODINGS if row.kind is type(quant))


# --- checked ----------------------------------------------------------------------------------------------------------

# The least and the largest number of a type in C; a scale is positive, and no denormal float.
_RANGES = {
    "float": (2.0**-126, (2 - 2**-23) * 2.0**127),
    "int32_t": (-(2**31), 2**31 - 1),
    "uint32_t": (0, 2**32 - 1),
    "stored": (0, 2**16 - 1),
    STORAGE: (8, 16),
}


def check(quant: Quantization, shape: Sequence[int], what: str, *, bits: int = 32) -> None:
    """Raise unless an encoding is valid for a tensor of this shape, with elements of so many bits."""
    for fault in _faults(quant, tuple(shape), bits):
        raise UsageError(
            f"the quantization of {what} is wrong: {fault}",
            hint="ScaleOffset(0.05, -128), or grid_of(-1, 1, TYPE); with an axis one pair for each index along it",
        )


def _faults(quant: Quantization, shape: tuple[int, ...] | None, bits: int) -> Iterator[str]:
    """The faults of an encoding; without a shape it is a part of another one."""
    if quant is None or isinstance(quant, OtherEncoding):  # which `write` refuses
        return
    if not isinstance(quant, tuple(row.kind for row in ENCODINGS)):
        yield f"it is a {type(quant).__name__}"
        return
    for name, each in encoding_of(quant).fields:
        value = getattr(quant, name)
        if each.is_list and (isinstance(value, str) or not isinstance(value, Iterable)):
            yield f"{name} is a {type(value).__name__}, not a list"
            return
        for entry in value if each.is_list else (value,):
            if each.type in (PAIRS, CODEBOOK):
                kind = ScaleOffset if each.type == PAIRS else BwAxisScaleOffset
                yield from _faults(entry, None, bits) if isinstance(entry, kind) else [f"{name} has {entry!r}"]
            else:
                yield from _number_fault(name, entry, each.type.removesuffix("[]"))
    yield from _size_faults(quant, shape, bits)


def _number_fault(name: str, value: Any, kind: str) -> Iterator[str]:
    least, most = _RANGES[kind]
    is_number = isinstance(value, Real) if kind == "float" else hasattr(value, "__index__")
    if isinstance(value, bool) or not is_number or not least <= value <= most or (kind == STORAGE and value % 8):
        yield f"{name} {value!r} is not {'a positive normal float32' if kind == 'float' else f'{least} to {most}'}"


def _size_faults(quant: Any, shape: tuple[int, ...] | None, bits: int) -> Iterator[str]:
    if not 0 < getattr(quant, "bitwidth", 1) <= bits:
        yield f"bitwidth {quant.bitwidth}: elements have {bits} bits"
    if isinstance(quant, BwAxisScaleOffset) and len(quant.offsets) not in (0, len(quant.scales)):
        yield f"it has {len(quant.scales)} scales and {len(quant.offsets)} offsets"
    axis = getattr(quant, "axis", None)
    if shape is None:
        return
    if isinstance(quant, BlockEncoding):
        if len(quant.block) != len(shape) or 0 in quant.block:
            yield f"block {list(quant.block)} does not divide the shape {list(shape)}"
        else:
            blocks = prod(-(-size // step) for size, step in zip(shape, quant.block, strict=True))
            yield from _count_fault("pairs", quant.pairs, blocks)
    elif axis is not None and not 0 <= axis < len(shape):
        yield f"axis {axis}: the tensor has {len(shape)} axes"
    elif axis is not None:
        name = "scales" if isinstance(quant, BwAxisScaleOffset) else "pairs"
        yield from _count_fault(name, getattr(quant, name), shape[axis])
        if isinstance(quant, BlockwiseExpansion):
            yield from _count_fault("block_scales", quant.block_scales, shape[axis] * quant.blocks_per_axis)


def _count_fault(name: str, found: Sequence[Any], wanted: int) -> Iterator[str]:
    if len(found) != wanted:
        yield f"{len(found)} {name}, the tensor needs {wanted}"


# --- written to C -----------------------------------------------------------------------------------------------------


def write(params: Any, quant: Quantization, *, keep: Keep) -> None:
    """Fill a `Qnn_QuantizeParams_t`; `keep` must keep what it points to alive as long as the struct."""
    ffi = abi.ffi()
    if isinstance(quant, OtherEncoding):
        raise RunFailed(
            f"a tensor cannot be given the encoding {quant.name}: udogen cannot write it",
            hint="one of: " + ", ".join(row.name for row in ENCODINGS),
        )
    defined = "UNDEFINED" if quant is None else "DEFINED"
    params.encodingDefinition = ffi.integer_const(f"QNN_DEFINITION_{defined}")
    params.quantizationEncoding = ffi.integer_const(PREFIX + name_of(quant))
    if quant is None:
        return
    row = encoding_of(quant)
    if row.struct:
        setattr(params, row.member, keep(ffi.new(f"{row.struct} *")))
    _fill(getattr(params, row.member), quant, keep)


def _fill(body: Any, quant: Any, keep: Keep) -> None:
    row = encoding_of(quant)
    if isinstance(quant, BwAxisScaleOffset):
        # libQnnHtp 2.47 crashes on a NULL, which QnnTypes.h allows.
        quant = replace(quant, offsets=quant.offsets or (0,) * len(quant.scales))
    for name, each in row.fields:
        value, member, kind = getattr(quant, name), each.in_c or each.key, each.type
        if kind == CODEBOOK:
            _fill(getattr(body, member), value, keep)
            continue
        if kind == STORAGE:
            value = abi.ffi().integer_const(f"{STORAGE_PREFIX}{value}")
        if kind == STORED:
            member, kind = f"{member}{quant.scale_storage}", f"uint{quant.scale_storage}_t[]"
        if each.is_list:
            if row.entries:
                setattr(body, row.entries, len(value))
            rows = [(pair.scale, pair.offset) for pair in value] if kind == PAIRS else list(value)
            value = keep(abi.ffi().new(kind, rows))
        setattr(body, member, value)


# --- read from C ------------------------------------------------------------------------------------------------------


def read(params: Any, shape: Sequence[int]) -> Quantization:
    """Read the `Qnn_QuantizeParams_t` of a tensor of this shape."""
    if params.encodingDefinition != abi.ffi().integer_const("QNN_DEFINITION_DEFINED"):
        return None
    code = int(params.quantizationEncoding)
    name = names().get(code, hex(code))
    row = _BY_NAME.get(name)
    if row is None:
        return None if name == "UNDEFINED" else OtherEncoding(name)
    body = getattr(params, row.member)
    if row.struct and not body:
        return OtherEncoding(name)
    if row.kind is BlockwiseExpansion and not 0 <= body.axis < len(shape):
        return OtherEncoding(name)  # the number of entries is unknown
    return cast("Quantization", _read(row, body, tuple(shape)))


def _read(row: Encoding, body: Any, shape: tuple[int, ...]) -> Any:
    found: dict[str, Any] = {}
    for name, each in row.fields:
        if each.type == CODEBOOK:
            found[name] = _read(OF_CODEBOOK, body.bwAxisScaleOffset, shape)
            continue
        member = f"{each.key}{found['scale_storage']}" if each.type == STORED else each.in_c or each.key
        value = getattr(body, member)
        if each.type == STORAGE:
            value = 16 if value == abi.ffi().integer_const(f"{STORAGE_PREFIX}16") else 8
        elif name == "offsets" and each.is_list:
            value = tuple(_entries(value, body.numElements)) if value else ()
            value = value if any(value) else ()
        elif each.is_list:
            value = tuple(_entries(value, _count(row, each, found, body, shape)))
        if each.type == PAIRS:
            value = tuple(ScaleOffset(pair.scale, pair.offset) for pair in value)
        found[name] = value
    return row.kind(**found)


def _count(row: Encoding, each: EncodingField, found: Mapping[str, Any], body: Any, shape: tuple[int, ...]) -> int:
    """How many entries a list has; structs of blocks have no counts, these follow from the tensor's shape."""
    if row.entries:
        return int(getattr(body, row.entries))
    if each.key == "blockSize":
        return len(shape)
    if row.kind is BlockEncoding:
        return prod(-(-size // max(step, 1)) for size, step in zip(shape, found["block"], strict=False))
    size = shape[int(body.axis)]
    return size * int(body.numBlocksPerAxis) if each.type == STORED else size


def _entries(array: Any, count: int) -> list[Any]:
    """The elements of a C array, if it can be one."""
    if count > _MOST or (count and not array):
        raise RunFailed(
            f"the quantization of a tensor has {count} entries" + ("" if array else ", but the array is NULL"),
            hint="make the file again: it is damaged, or of a release that udogen does not support",
        )
    return cast("list[Any]", abi.ffi().unpack(array, count)) if count else []
