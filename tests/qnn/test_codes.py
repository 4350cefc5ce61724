"""The table of error codes agrees with the enumerators of udogen's headers."""

from __future__ import annotations

from udogen.error_tables import describe, interface
from udogen.qnn import abi

ROWS = interface("qnn").codes
# Headers of a single backend, which udogen's headers leave out.
ELSEWHERE = ("QNN_SAVER_", "QNN_HTP_PERF_", "QNN_DSP_PERF_")


def enumerators() -> dict[str, int]:
    """Return every enumerator of an `..._Error_t` type."""
    ffi = abi.ffi()
    names = [name for name in ffi.list_types()[0] if name.endswith("_Error_t")]
    return {enumerator: value for name in names for enumerator, value in ffi.typeof(name).relements.items()}


def test_every_enumerator_has_a_row_and_every_row_an_enumerator() -> None:
    rows = {name: row.code for row in ROWS for name in (row.name, *row.aliases) if not name.startswith(ELSEWHERE)}
    declared = {**enumerators(), "QNN_SUCCESS": abi.ffi().integer_const("QNN_SUCCESS")}
    assert rows == declared


def test_describe() -> None:
    assert describe(3110).name == "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"
    assert describe(3110).remedy
    assert describe(0x10000 + 4006).code == 4006
    assert describe(77).name == "UNKNOWN_77"
