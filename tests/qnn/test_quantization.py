"""Every quantization encoding, written into a C struct and read back; all numbers are exact floats."""

from __future__ import annotations

import gc
import mmap
from typing import Any

import pytest

from udogen import RunFailed, UsageError
from udogen.qnn import abi, quantization
from udogen.qnn.quantization import BlockwiseExpansion, OtherEncoding, Quantization, VectorEncoding
from udogen.qnn.tensors import APP_WRITE, QnnTensor
from udogen.runtime.quantization import AxisScaleOffset, BlockEncoding, BwAxisScaleOffset, BwScaleOffset, ScaleOffset

FFI = abi.ffi()
SHAPE = (4, 6)
PAIRS = tuple(ScaleOffset(2.0**-n, n - 2) for n in range(4))
BLOCKS = tuple(ScaleOffset(0.5 + n, -n) for n in range(6))
CODEBOOK = BwAxisScaleOffset(8, 1, (0.5, 0.25), (-1, 3))

ENCODINGS: dict[str, Quantization] = {
    "UNDEFINED": None,
    "SCALE_OFFSET": ScaleOffset(0.5, -128),
    "AXIS_SCALE_OFFSET": AxisScaleOffset(0, PAIRS),
    "BW_SCALE_OFFSET": BwScaleOffset(4, 0.125, -8),
    "BW_AXIS_SCALE_OFFSET": BwAxisScaleOffset(4, 0, (1.0, 0.5, 0.25, 2.0), (0, -1, -2, 3)),
    "BW_AXIS_SCALE_OFFSET without offsets": BwAxisScaleOffset(4, 0, (1.0, 0.5, 0.25, 2.0)),
    "BLOCK": BlockEncoding((2, 2), BLOCKS),
    "BLOCK that does not divide": BlockEncoding((3, 4), BLOCKS[:4]),
    "BLOCKWISE_EXPANSION": BlockwiseExpansion(0, PAIRS, 3, 4, tuple(range(1, 13))),
    "BLOCKWISE_EXPANSION in 16 bits": BlockwiseExpansion(1, BLOCKS, 2, 12, tuple(range(1000, 1012)), 16),
    "VECTOR": VectorEncoding(CODEBOOK, 2, 3, 4, 5, 6),
}


@pytest.mark.parametrize(("name", "quant"), ENCODINGS.items(), ids=list(ENCODINGS))
def test_round_trip(name: str, quant: Quantization) -> None:
    tensor = QnnTensor("t", dtype="UFIXED_POINT_8", shape=SHAPE, role=APP_WRITE, quant=quant)
    gc.collect()  # memory that is not kept alive would be reused now
    junk = [FFI.new("float[]", [7.0] * 12) for _ in range(200)]
    params = tensor.struct.v1.quantizeParams
    assert quantization.read(params, SHAPE) == quant
    assert quantization.name_of(quant) == name.split(maxsplit=1)[0]
    code = FFI.integer_const(f"QNN_QUANTIZATION_ENCODING_{name.split(maxsplit=1)[0]}")
    assert params.quantizationEncoding == code
    assert len(junk) == 200


@pytest.mark.parametrize("name", ["FLOAT_BLOCK", "BW_BLOCK_MAPPED", "BW_FLOAT_BLOCK"])
def test_what_is_not_taken_apart_is_named(name: str) -> None:
    params = FFI.new("Qnn_QuantizeParams_t *")
    params.encodingDefinition = 1
    params.quantizationEncoding = FFI.integer_const(f"QNN_QUANTIZATION_ENCODING_{name}")
    assert quantization.read(params, SHAPE) == OtherEncoding(name)
    with pytest.raises(RunFailed, match=f"cannot be given the encoding {name}"):
        quantization.write(params, OtherEncoding(name), keep=lambda thing: thing)


def test_a_number_of_a_newer_release_is_shown() -> None:
    params = FFI.new("Qnn_QuantizeParams_t *")
    params.encodingDefinition, params.quantizationEncoding = 1, 99
    assert quantization.read(params, SHAPE) == OtherEncoding("0x63")


@pytest.mark.parametrize(
    ("field", "count", "printed"),
    [
        ("axisScaleOffsetEncoding.numScaleOffsets", 1 << 30, "has 1073741824 entries"),
        ("axisScaleOffsetEncoding.numScaleOffsets", 3, "has 3 entries, but the array is NULL"),
    ],
)
def test_counts_that_cannot_be(field: str, count: int, printed: str) -> None:
    params: Any = FFI.new("Qnn_QuantizeParams_t *")
    params.encodingDefinition, params.quantizationEncoding = 1, 1
    place, name = field.split(".")
    setattr(getattr(params, place), name, count)
    with pytest.raises(RunFailed, match=printed):
        quantization.read(params, SHAPE)


def test_scales_and_offsets_of_different_number() -> None:
    with pytest.raises(UsageError, match="it has 2 scales and 1 offsets"):
        QnnTensor("t", dtype="INT_8", shape=(2,), role=APP_WRITE, quant=BwAxisScaleOffset(4, 0, (1.0, 2.0), (1,)))


def test_a_tensor_with_an_id_and_one_with_an_axis_that_changes() -> None:
    plain = QnnTensor("t", dtype="INT_8", shape=(2, 3), role=APP_WRITE, id=17)
    assert (plain.id, plain.struct.version) == (17, 1)
    changing = QnnTensor("t", dtype="INT_8", shape=(2, 3), role=APP_WRITE, id=18, dynamic=(False, True))
    assert (changing.id, changing.struct.version) == (18, 2)
    assert [changing.struct.v2.isDynamicDimensions[axis] for axis in range(2)] == [0, 1]


def test_a_client_buffer_has_32_bits() -> None:
    huge = QnnTensor("t", dtype="FLOAT_32", shape=(1 << 15, 1 << 15), role=APP_WRITE)
    assert huge.nbytes == 1 << 32
    untouched = mmap.mmap(-1, 1 << 32, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # only addresses, no memory yet
    with untouched, pytest.raises(RunFailed, match=r"needs 4294967296 bytes; a client buffer holds at most 4294967295"):
        huge.bind(untouched)
