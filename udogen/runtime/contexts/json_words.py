"""The names and numbers that the JSON of a context binary uses for types, roles and formats."""

from __future__ import annotations

from typing import Any

from udogen.opdef import datatypes
from udogen.opdef.problems import nearest
from udogen.qnn.system import HtpGraph
from udogen.runtime.contexts.json_nodes import Node


def code_of(value: Any) -> int | None:
    """The number that a JSON value is, or is the text of."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value, 0) if isinstance(value, str) else None
    except ValueError:
        return None


def data_type(value: Any) -> datatypes.DataType | None:
    """The data type with this name or number; None where there is none that a tensor can have."""
    code = code_of(value)
    row = datatypes.by_code(code) if code is not None else None
    if row is None and isinstance(value, str):
        row = datatypes.parse(value)
    return None if row is None or row.kind in ("special", "string") else row


def of_width(row: datatypes.DataType, bits: int) -> str:
    """The data type of the same kind with so many bits; empty where there is none."""
    return next((each.name for each in datatypes.ALL if (each.kind, each.bits) == (row.kind, bits)), "")


def type_hint(value: Any) -> str:
    """What to write instead of something that is no data type."""
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
    """The type of a tensor without prefix; empty where there is none of this name or number."""
    code = code_of(value)
    if code is not None:
        return _ALL_ROLES[code] if 0 <= code < len(_ALL_ROLES) else ""
    name = value.removeprefix("QNN_TENSOR_TYPE_") if isinstance(value, str) else ""
    return name if name in _ALL_ROLES else ""


FORMATS = ("FLAT_BUFFER", "SPARSE", "CODEBOOK", "MX", "UBWC_RGBA8888", "UBWC_NV12", "UBWC_NV12_Y", "UBWC_NV12_UV")


def data_format(row: Node) -> int:
    """How the data of a tensor lies in memory, as a number; flat where nothing is said."""
    node = row.get("dataFormat")
    if node is None:
        return 0
    code = code_of(node.value)
    name = str(node.value).removeprefix("QNN_TENSOR_DATA_FORMAT_")
    return code if code is not None else FORMATS.index(name) if name in FORMATS else 0


def last_number(text: str) -> int:
    """3 of QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3; 1 where there is no number."""
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


def htp_graph(row: Node) -> HtpGraph | None:
    """What HTP says of a graph; None where nothing is told."""
    blobs = [node for key in ("graphBlobInfo", "graphBlobInfoV2") if (node := row.get(key)) is not None]
    found: dict[str, Any] = {}
    for blob in blobs:
        for key, field in HTP_KEYS:
            if blob.is_object and blob.get(key) is not None:
                number = blob.whole(key, 0)
                found[field] = bool(number) if field in _TRUTHS else number
    if "vtcm" in found and found["vtcm"] <= 1 << 16:
        found["vtcm"] <<= 20  # the utility tells MiB where the binary does
    return HtpGraph(**found) if found else None
