"""The table of error codes and the enumerators of our headers say the same."""

from __future__ import annotations

from udogen.qnn import abi, codes


def enumerators() -> dict[str, int]:
    """Every enumerator of an `..._Error_t` type."""
    ffi = abi.ffi()
    names = [name for name in ffi.list_types()[0] if name.endswith("_Error_t")]
    return {enumerator: value for name in names for enumerator, value in ffi.typeof(name).relements.items()}


def test_every_enumerator_has_a_row_and_every_row_an_enumerator() -> None:
    rows = {name: row.code for row in codes.ALL for name in (row.name, *row.aliases)}
    declared = {**enumerators(), "QNN_SUCCESS": abi.ffi().integer_const("QNN_SUCCESS")}
    assert rows == declared


def test_no_number_and_no_name_twice() -> None:
    numbers = [row.code for row in codes.ALL]
    names = [name for row in codes.ALL for name in (row.name, *row.aliases)]
    assert len(set(numbers)) == len(numbers)
    assert len(set(names)) == len(names)


def test_describe() -> None:
    assert codes.describe(3110).name == "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"
    assert codes.describe(3110).remedy
    assert codes.describe(0x10000 + 4006).code == 4006
    assert codes.describe(77).name == "UNKNOWN_77"


def test_a_meaning_is_a_phrase() -> None:
    for row in codes.ALL:
        assert row.meaning
        assert not row.meaning.endswith(".")
        assert not row.remedy.endswith(".")
