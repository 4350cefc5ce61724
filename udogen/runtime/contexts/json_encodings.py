"""Quantization in the JSON of a context binary, both ways.

The simple encodings and those of axes have the shape of qnn-context-binary-utility; for blocks and vectors, of which no
file of its could be seen, the names are those of the C structs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
from udogen.runtime.contexts.json_nodes import Node

_PREFIX = "QNN_QUANTIZATION_ENCODING_"
_CODES = (
    *("SCALE_OFFSET", "AXIS_SCALE_OFFSET", "BW_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET", "BLOCK", "BLOCKWISE_EXPANSION"),
    *("VECTOR", "FLOAT_BLOCK", "BW_AXIS_SCALE_OFFSET_MAPPED", "BW_BLOCK_MAPPED", "BW_BLOCKWISE_EXPANSION_MAPPED"),
    "BW_FLOAT_BLOCK",
)  # in the order of their numbers


def read_quantization(tensor: Node, what: str) -> Quantization:
    """The quantization of a tensor; problems are told at its place."""
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
            named.path, f"{what}: {named.shown} is no quantization encoding", "such as " + _PREFIX + _CODES[0]
        )
        return None
    row = next((row for row in _ROWS if row.name == name), None)
    if row is None:
        return OtherEncoding(name)
    body = params.get(row.key)
    if body is None and params.get(*row.needs) is None:
        if name in _CODES[:4]:
            params.where.error(params.path, f"{what}: its encoding is {name}, but there is no `{row.key}`", _HINT)
        return OtherEncoding(name)  # the utility does not tell everything of the others
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


_HINT = "mend it, or write the file again with qnn-context-binary-utility"


def _name(node: Node) -> str:
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        return _CODES[value] if 0 <= value < len(_CODES) else "UNDEFINED" if value == 0x7FFFFFFF else str(value)
    return str(value).removeprefix(_PREFIX)


# --- one pair of functions for each encoding --------------------------------------------------------------------------


def _scale_offset(node: Node, what: str) -> ScaleOffset:
    return ScaleOffset(_number(node, "scale", what), _integer(node, "offset", what))


def _write_scale_offset(quant: ScaleOffset) -> dict[str, Any]:
    return {"scale": quant.scale, "offset": quant.offset}


def _axis(node: Node, what: str) -> AxisScaleOffset:
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


def _bw(node: Node, what: str) -> BwScaleOffset:
    bits = _integer(node, "bitwidth", what)
    return BwScaleOffset(bits, _number(node, "scale", what), _integer(node, "offset", what))


def _write_bw(quant: BwScaleOffset) -> dict[str, Any]:
    return {"bitwidth": quant.bitwidth, "scale": quant.scale, "offset": quant.offset}


def _bw_axis(node: Node, what: str) -> BwAxisScaleOffset:
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


def _block(node: Node, what: str) -> BlockEncoding:
    return BlockEncoding(tuple(_integers(node, "blockSize", what)), _pairs(node, what))


def _write_block(quant: BlockEncoding) -> dict[str, Any]:
    return {"blockSize": list(quant.block), "scaleOffsets": [_write_scale_offset(pair) for pair in quant.pairs]}


def _expansion(node: Node, what: str) -> BlockwiseExpansion:
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


def _vector(node: Node, what: str) -> Quantization:
    codebook = node.get("bwAxisScaleOffset")
    if codebook is None:
        node.where.error(node.path, f"{what}: its vectors have no `bwAxisScaleOffset`", _HINT)
        return OtherEncoding("VECTOR")
    return VectorEncoding(_bw_axis(codebook, what), *(_integer(node, key, what) for key in _VECTOR))


def _write_vector(quant: VectorEncoding) -> dict[str, Any]:
    numbers = (quant.rows_per_block, quant.columns_per_block, quant.dimension, quant.stride, quant.index_bitwidth)
    return {"bwAxisScaleOffset": _write_bw_axis(quant.codebook), **dict(zip(_VECTOR, numbers, strict=True))}


_VECTOR = ("rowsPerBlock", "columnsPerBlock", "vectorDimension", "vectorStride", "indexBitwidth")


class _Row(NamedTuple):
    """One encoding: a new row is a new encoding."""

    name: str
    kind: type
    key: str  # of its object
    needs: tuple[str, ...]  # which of its keys stand in `quantizeParams` itself, in the flat shape
    read: Callable[[Node, str], Quantization]
    write: Callable[[Any], Mapping[str, Any]]


_ROWS = (
    _Row("SCALE_OFFSET", ScaleOffset, "scaleOffset", ("scale",), _scale_offset, _write_scale_offset),
    _Row("AXIS_SCALE_OFFSET", AxisScaleOffset, "axisScaleOffset", ("scaleOffsets", "scales"), _axis, _write_axis),
    _Row("BW_SCALE_OFFSET", BwScaleOffset, "bwScaleOffset", ("scale",), _bw, _write_bw),
    _Row("BW_AXIS_SCALE_OFFSET", BwAxisScaleOffset, "bwAxisScaleOffset", ("scales",), _bw_axis, _write_bw_axis),
    _Row("BLOCK", BlockEncoding, "blockEncoding", ("blockSize",), _block, _write_block),
    _Row(
        "BLOCKWISE_EXPANSION", BlockwiseExpansion, "blockwiseExpansion", ("blocksScale",), _expansion, _write_expansion
    ),
    _Row("VECTOR", VectorEncoding, "vectorEncoding", ("vectorDimension",), _vector, _write_vector),
)


# --- what several of them need ----------------------------------------------------------------------------------------


def _number(node: Node, key: str, what: str) -> float:
    found = node.get(key)
    value = None if found is None else found.value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        shown = "missing" if found is None else found.shown
        node.where.error(node.path_of(key), f"{what}: `{key}` of its quantization is {shown}, not a number", _HINT)
        return 1.0
    return float(value)


def _integer(node: Node, key: str, what: str) -> int:
    found = node.get(key)
    if found is None or not found.is_whole or not -(1 << 31) <= found.value < 1 << 32:
        shown = "missing" if found is None else found.shown
        node.where.error(
            node.path_of(key), f"{what}: `{key}` of its quantization is {shown}, not a whole number", _HINT
        )
        return 0
    return int(found.value)


def _numbers(node: Node, key: str, what: str) -> list[float]:
    values = _list(node, key, what)
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
        node.where.error(node.path_of(key), f"{what}: `{key}` of its quantization has what is no number", _HINT)
        return []
    return [float(value) for value in values]


def _integers(node: Node, key: str, what: str) -> list[int]:
    values = _list(node, key, what)
    if any(isinstance(value, bool) or not isinstance(value, int) for value in values):
        node.where.error(node.path_of(key), f"{what}: `{key}` of its quantization has what is no whole number", _HINT)
        return []
    return list(values)


def _pairs(node: Node, what: str) -> tuple[ScaleOffset, ...]:
    listed = node.get("scaleOffsets", "scaleOffset")
    if listed is None or not isinstance(listed.value, list):
        node.where.error(node.path, f"{what}: its quantization has no list `scaleOffsets`", _HINT)
        return ()
    return tuple(_scale_offset(each, what) for each in listed.items())


def _list(node: Node, key: str, what: str) -> list[Any]:
    found = node.get(key)
    if found is None:
        return []
    if not isinstance(found.value, list):
        node.where.error(found.path, f"{what}: `{key}` of its quantization is {found.shown}, not a list", _HINT)
        return []
    return found.value


def _counted(node: Node, key: str, count: int, what: str) -> None:
    said = node.get(key)
    if said is not None and said.value != count:
        node.where.error(
            said.path, f"{what}: `{key}` of its quantization is {said.shown}, but there are {count}", _HINT
        )


def _same_length(node: Node, key: str, wanted: int, has: int, what: str) -> None:
    if wanted != has:
        node.where.error(node.path_of(key), f"{what}: its quantization has {wanted} scales and {has} offsets", _HINT)
