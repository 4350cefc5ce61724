"""Quantization encodings of the API, written to C structs and read from them.

Names and layouts: `Qnn_QuantizeParams_t` of the public QNN API reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, cast

from udogen.errors import RunFailed
from udogen.qnn import abi

Keep = Callable[[Any], Any]  # keeps memory that a struct points to alive, and returns it
_PREFIX = "QNN_QUANTIZATION_ENCODING_"
_MOST = 1 << 24  # pairs of one tensor; more is a damaged file


@dataclass(frozen=True)
class ScaleOffset:
    """real = (stored + offset) * scale, for the whole tensor: `ScaleOffset(0.05, -128)`."""

    scale: float
    offset: int = 0


@dataclass(frozen=True)
class AxisScaleOffset:
    """real = (stored + offset) * scale, with one pair for each index along one axis.

    `AxisScaleOffset(0, (ScaleOffset(0.05, -128), ScaleOffset(0.1, -128)))`
    """

    axis: int
    pairs: tuple[ScaleOffset, ...]


@dataclass(frozen=True)
class BwScaleOffset:
    """`ScaleOffset` for numbers with fewer bits than their data type: `BwScaleOffset(4, 0.5, 0)`."""

    bitwidth: int
    scale: float
    offset: int = 0


@dataclass(frozen=True)
class BwAxisScaleOffset:
    """`AxisScaleOffset` for numbers with fewer bits than their data type; no offsets means all are 0.

    `BwAxisScaleOffset(4, 0, (0.5, 0.25), ())`
    """

    bitwidth: int
    axis: int
    scales: tuple[float, ...]
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class BlockEncoding:
    """One pair for each block of the tensor; `block` is the block's size along each axis.

    `BlockEncoding((1, 32), (ScaleOffset(0.05, 0), ScaleOffset(0.1, 0)))`
    """

    block: tuple[int, ...]
    pairs: tuple[ScaleOffset, ...]


@dataclass(frozen=True)
class BlockwiseExpansion:
    """One pair for each index along one axis, and a whole-number factor of the scale for each block.

    `isinstance(info.quant, BlockwiseExpansion)`
    """

    axis: int
    pairs: tuple[ScaleOffset, ...]
    blocks_per_axis: int
    scale_bitwidth: int
    block_scales: tuple[int, ...]
    scale_storage: int = 8  # bits in which each of them is stored


@dataclass(frozen=True)
class VectorEncoding:
    """Indices into a codebook of vectors, whose entries are quantized themselves.

    `isinstance(info.quant, VectorEncoding)`
    """

    codebook: BwAxisScaleOffset
    rows_per_block: int
    columns_per_block: int
    dimension: int
    stride: int
    index_bitwidth: int


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
    return "UNDEFINED" if quant is None else next(row.name for row in _ROWS if row.kind is type(quant))


def write(params: Any, quant: Quantization, *, keep: Keep) -> None:
    """Fill a `Qnn_QuantizeParams_t`; `keep` must keep what it points to alive as long as the struct."""
    ffi = abi.ffi()
    if isinstance(quant, OtherEncoding):
        raise RunFailed(
            f"a tensor cannot be given the encoding {quant.name}: udogen cannot write it",
            hint="one of: " + ", ".join(row.name for row in _ROWS),
        )
    defined = "UNDEFINED" if quant is None else "DEFINED"
    params.encodingDefinition = ffi.integer_const(f"QNN_DEFINITION_{defined}")
    params.quantizationEncoding = ffi.integer_const(_PREFIX + name_of(quant))
    for row in _ROWS:
        if row.kind is type(quant):
            row.write(params, quant, keep)


def read(params: Any, shape: Sequence[int]) -> Quantization:
    """Read the `Qnn_QuantizeParams_t` of a tensor of this shape."""
    ffi = abi.ffi()
    if params.encodingDefinition != ffi.integer_const("QNN_DEFINITION_DEFINED"):
        return None
    code = params.quantizationEncoding
    for row in _ROWS:
        if code == ffi.integer_const(_PREFIX + row.name):
            return row.read(params, tuple(shape))
    if code == ffi.integer_const(f"{_PREFIX}UNDEFINED"):
        return None
    name = next((name for name in _OTHERS if code == ffi.integer_const(_PREFIX + name)), hex(code))
    return OtherEncoding(name)


# --- one pair of functions for each encoding --------------------------------------------------------------------------


def _write_scale_offset(params: Any, quant: ScaleOffset, _keep: Keep) -> None:
    params.scaleOffsetEncoding.scale, params.scaleOffsetEncoding.offset = quant.scale, quant.offset


def _write_axis(params: Any, quant: AxisScaleOffset, keep: Keep) -> None:
    body = params.axisScaleOffsetEncoding
    body.axis, body.numScaleOffsets, body.scaleOffset = quant.axis, len(quant.pairs), _new_pairs(quant.pairs, keep)


def _read_axis(params: Any, _shape: tuple[int, ...]) -> AxisScaleOffset:
    body = params.axisScaleOffsetEncoding
    return AxisScaleOffset(body.axis, _pairs(body.scaleOffset, body.numScaleOffsets))


def _write_bw(params: Any, quant: BwScaleOffset, _keep: Keep) -> None:
    body = params.bwScaleOffsetEncoding
    body.bitwidth, body.scale, body.offset = quant.bitwidth, quant.scale, quant.offset


def _write_block(params: Any, quant: BlockEncoding, keep: Keep) -> None:
    params.blockEncoding.blockSize = keep(abi.ffi().new("uint32_t[]", list(quant.block)))
    params.blockEncoding.scaleOffset = _new_pairs(quant.pairs, keep)


def _read_block(params: Any, shape: tuple[int, ...]) -> BlockEncoding:
    """The struct has no counts: there are a size for each axis, and a pair for each block of the tensor."""
    body = params.blockEncoding
    block = tuple(_numbers(body.blockSize, len(shape)))
    count = prod(-(-size // max(step, 1)) for size, step in zip(shape, block, strict=False))
    return BlockEncoding(block, _pairs(body.scaleOffset, count))


def _write_expansion(params: Any, quant: BlockwiseExpansion, keep: Keep) -> None:
    ffi = abi.ffi()
    storage = {8: ("uint8_t[]", "blocksScale8"), 16: ("uint16_t[]", "blocksScale16")}.get(quant.scale_storage)
    if storage is None:
        raise RunFailed(f"scales of blocks are stored in 8 or 16 bits, not in {quant.scale_storage}")
    body = keep(ffi.new("Qnn_BlockwiseExpansion_t *"))
    body.axis, body.scaleOffsets = quant.axis, _new_pairs(quant.pairs, keep)
    body.numBlocksPerAxis, body.blockScaleBitwidth = quant.blocks_per_axis, quant.scale_bitwidth
    body.blockScaleStorageType = ffi.integer_const(f"{_STORAGE}{quant.scale_storage}")
    setattr(body, storage[1], keep(ffi.new(storage[0], list(quant.block_scales))))
    params.blockwiseExpansion = body


def _read_expansion(params: Any, shape: tuple[int, ...]) -> Quantization:
    """The struct has no counts: they follow from the tensor's size along the axis."""
    body = params.blockwiseExpansion
    if not body or not 0 <= body.axis < len(shape):
        return OtherEncoding("BLOCKWISE_EXPANSION")  # the number of entries is unknown
    wide = body.blockScaleStorageType == abi.ffi().integer_const(f"{_STORAGE}16")
    scales = body.blocksScale16 if wide else body.blocksScale8
    size = shape[body.axis]
    return BlockwiseExpansion(
        axis=body.axis,
        pairs=_pairs(body.scaleOffsets, size),
        blocks_per_axis=body.numBlocksPerAxis,
        scale_bitwidth=body.blockScaleBitwidth,
        block_scales=tuple(_numbers(scales, size * body.numBlocksPerAxis)),
        scale_storage=16 if wide else 8,
    )


_STORAGE = "QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_"


def _write_vector(params: Any, quant: VectorEncoding, keep: Keep) -> None:
    body = keep(abi.ffi().new("Qnn_VectorEncoding_t *"))
    _fill_bw_axis(body.bwAxisScaleOffset, quant.codebook, keep)
    body.rowsPerBlock, body.columnsPerBlock = quant.rows_per_block, quant.columns_per_block
    body.vectorDimension, body.vectorStride = quant.dimension, quant.stride
    body.indexBitwidth = quant.index_bitwidth
    params.vectorEncoding = body


def _read_vector(params: Any, _shape: tuple[int, ...]) -> Quantization:
    body = params.vectorEncoding
    if not body:
        return OtherEncoding("VECTOR")
    return VectorEncoding(
        codebook=_bw_axis(body.bwAxisScaleOffset),
        rows_per_block=body.rowsPerBlock,
        columns_per_block=body.columnsPerBlock,
        dimension=body.vectorDimension,
        stride=body.vectorStride,
        index_bitwidth=body.indexBitwidth,
    )


class _Encoding(NamedTuple):
    """One encoding of the API: a new row is a new encoding."""

    name: str
    kind: type
    write: Callable[[Any, Any, Keep], None]
    read: Callable[[Any, tuple[int, ...]], Quantization]


_ROWS = (
    _Encoding(
        "SCALE_OFFSET", ScaleOffset, _write_scale_offset, lambda params, _shape: _pair(params.scaleOffsetEncoding)
    ),
    _Encoding("AXIS_SCALE_OFFSET", AxisScaleOffset, _write_axis, _read_axis),
    _Encoding("BW_SCALE_OFFSET", BwScaleOffset, _write_bw, lambda params, _: _bw(params.bwScaleOffsetEncoding)),
    _Encoding(
        "BW_AXIS_SCALE_OFFSET",
        BwAxisScaleOffset,
        lambda params, quant, keep: _fill_bw_axis(params.bwAxisScaleOffsetEncoding, quant, keep),
        lambda params, _: _bw_axis(params.bwAxisScaleOffsetEncoding),
    ),
    _Encoding("BLOCK", BlockEncoding, _write_block, _read_block),
    _Encoding("BLOCKWISE_EXPANSION", BlockwiseExpansion, _write_expansion, _read_expansion),
    _Encoding("VECTOR", VectorEncoding, _write_vector, _read_vector),
)
_OTHERS = (
    "FLOAT_BLOCK",
    "BW_AXIS_SCALE_OFFSET_MAPPED",
    "BW_BLOCK_MAPPED",
    "BW_BLOCKWISE_EXPANSION_MAPPED",
    "BW_FLOAT_BLOCK",
)


# --- shared by several encodings --------------------------------------------------------------------------------------


def _fill_bw_axis(body: Any, quant: BwAxisScaleOffset, keep: Keep) -> None:
    ffi = abi.ffi()
    if quant.offsets and len(quant.offsets) != len(quant.scales):
        raise RunFailed(f"an encoding has {len(quant.scales)} scales and {len(quant.offsets)} offsets")
    body.bitwidth, body.axis, body.numElements = quant.bitwidth, quant.axis, len(quant.scales)
    body.scales = keep(ffi.new("float[]", list(quant.scales)))
    # libQnnHtp 2.47 crashes on a NULL, which QnnTypes.h allows.
    body.offsets = keep(ffi.new("int32_t[]", list(quant.offsets or [0] * len(quant.scales))))


def _bw_axis(body: Any) -> BwAxisScaleOffset:
    offsets = _numbers(body.offsets, body.numElements) if body.offsets else []
    offsets = offsets if any(offsets) else []
    return BwAxisScaleOffset(body.bitwidth, body.axis, tuple(_numbers(body.scales, body.numElements)), tuple(offsets))


def _new_pairs(pairs: Sequence[ScaleOffset], keep: Keep) -> Any:
    return keep(abi.ffi().new("Qnn_ScaleOffset_t[]", [(pair.scale, pair.offset) for pair in pairs]))


def _pair(body: Any) -> ScaleOffset:
    return ScaleOffset(body.scale, body.offset)


def _bw(body: Any) -> BwScaleOffset:
    return BwScaleOffset(body.bitwidth, body.scale, body.offset)


def _pairs(array: Any, count: int) -> tuple[ScaleOffset, ...]:
    return tuple(map(_pair, _numbers(array, count)))


def _numbers(array: Any, count: int) -> list[Any]:
    """The elements of a C array, if it can be one."""
    if count > _MOST or (count and not array):
        raise RunFailed(
            f"the quantization of a tensor has {count} entries" + ("" if array else ", but the array is NULL"),
            hint="its file is damaged, or of a release that udogen does not know",
        )
    return cast("list[Any]", abi.ffi().unpack(array, count)) if count else []
