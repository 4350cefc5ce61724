"""Texts that represent values: booleans, ranks, defaults."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from udogen.opdef import values
from udogen.opdef.datatypes import ALL, BACKEND_SPECIFIC, BY_NAME, DataType
from udogen.opdef.model import Rank, Value

FLOAT, INT, BOOL, STRING = (BY_NAME[name] for name in ("FLOAT_32", "INT_32", "BOOL_8", "STRING"))
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False)
NUMBER_VALUES = st.recursive(NUMBERS, lambda part: st.lists(part, max_size=4).map(tuple), max_leaves=12)


def depth(value: Value) -> int:
    return 1 + max(map(depth, value), default=0) if isinstance(value, tuple) else 0


# --- booleans and ranks -----------------------------------------------------------------------------------

BOOLS = {
    **dict.fromkeys(("true", "True", " TRUE ", "1"), True), **dict.fromkeys(("false", "0"), False),
    **dict.fromkeys(("yes", "", "2"), None),
}  # fmt: skip
RANKS = {
    "SCALAR": "SCALAR", "scalar": "SCALAR", "0D": "0D", "1D": "1D", "4D": "4D", "5D": "5D", "ND": "ND", "nD": "ND",
    "N": "ND", "any": "ND", "4": "4D", "1D or 4D": "1D or 4D", "4D, 1D": "1D or 4D", "1D/4D": "1D or 4D",
    "1D|4D": "1D or 4D", "2D-4D": "2D or 3D or 4D", "2D..4D": "2D or 3D or 4D", "2 to 3D": "2D or 3D",
    "3D or 3D": "3D", "4-D": "4D", "1D or": "1D",
    **dict.fromkeys(("", "four", "4D-2D", "10D", "D", "-1D", "or", "1D and 4D", "4D tensor", ","), "None"),
}  # fmt: skip


def test_booleans_and_ranks() -> None:
    assert {text: values.parse_bool(text) for text in BOOLS} == BOOLS
    assert {text: str(values.parse_rank(text)) for text in RANKS} == RANKS


@given(st.sets(st.integers(0, 9)))
def test_a_rank_reads_back(ranks: set[int]) -> None:
    rank = Rank(tuple(sorted(ranks)))
    assert values.parse_rank(str(rank)) == rank


@given(st.text(max_size=40))
def test_any_text_is_a_rank_or_none(text: str) -> None:
    values.parse_rank(text)
    values.parse_bool(text)
    for types in ((), (FLOAT,), (INT,), (BOOL,), (STRING,), (BACKEND_SPECIFIC,), (INT, STRING)):
        values.parse_default(text, types, ("A", "B"))


# --- defaults ---------------------------------------------------------------------------------------------


NUMBER_TEXTS = {
    "1": 1, "-1": -1, "+1": 1, "0x10": 16, "007": 7, "1.5": 1.5, "1.": 1.0, ".5": 0.5, "1e-3": 1e-3, "1.5f": 1.5,
    "1f": 1.0, "inf": float("inf"), "-inf": float("-inf"), "9" * 41: float("9" * 41),
    "[1, 2]": (1, 2), "{1, 2}": (1, 2), "[[1, 2], [3, 4]]": ((1, 2), (3, 4)), "{{1},{2}}": ((1,), (2,)),
    "[1, 2,]": (1, 2), "[]": (), "{ }": (), "[ 1 ,2 ]": (1, 2),
    **dict.fromkeys(
        ("N-1", "same as in[0]", "{0,..,0}", "[1, 2", "1, 2]", "[1 2]", "[1}", "[,]", "[1,,2]", "1e400", "1_000", "--1",
         "1-1", "0x", "[a]", "[" * 9 + "]" * 9, "true"),
    ),
}  # fmt: skip
TYPED_TEXTS: tuple[tuple[str, tuple[DataType, ...], Value | None], ...] = (
    ("true", (BOOL,), True), ("0", (BOOL,), False), ("2", (BOOL,), 2), ("[true, False]", (BOOL,), (1, 0)),
    ("[true]", (INT,), None), ("1.0", (INT,), 1), ("[1.0, 2.5]", (INT,), (1, 2.5)), ("1.0", (INT, FLOAT), 1.0),
    ("abc", (STRING,), "abc"), ("12", (STRING,), "12"), ("[1]", (STRING,), "[1]"), ("abc", (BACKEND_SPECIFIC,), "abc"),
    ("12", (BACKEND_SPECIFIC,), 12), ("LINEAR", (INT,), 1), ("1", (INT,), 1), ("CUBIC", (INT,), None),
)  # fmt: skip


def test_texts_of_defaults() -> None:
    assert {text: values.parse_default(text, (FLOAT,)) for text in NUMBER_TEXTS} == NUMBER_TEXTS
    for text, types, value in TYPED_TEXTS:
        found = values.parse_default(text, types, ("NEAREST", "LINEAR"))
        assert (found, type(found)) == (value, type(value)), text


@given(NUMBER_VALUES)
def test_what_is_shown_reads_back(value: Value) -> None:
    again = values.parse_default(values.show(value), (FLOAT,))
    assert again == value if depth(value) <= 8 else again is None


@given(st.text(st.characters(categories=["L", "N", "P", "Z"]), min_size=1).map(str.strip).filter(bool))
def test_a_string_reads_back(text: str) -> None:
    assert values.parse_default(values.show(text), (STRING,)) == text


@given(NUMBER_VALUES)
def test_json_has_the_same_values(value: Value) -> None:
    def plain(part: Value) -> object:
        return [plain(each) for each in part] if isinstance(part, tuple) else part

    if depth(value) <= 8 and all(abs(leaf) != float("inf") for leaf in values.flatten(value)):  # type: ignore[arg-type]
        assert values.from_json(plain(value), (FLOAT,)) == value
    assert values.flatten(value) == values.flatten(tuple(values.flatten(value)))


def test_json_that_is_no_default() -> None:
    for raw in (None, {}, [None], ["1"], float("inf"), [float("nan")], [[[[[[[[[1]]]]]]]]]):
        assert values.from_json(raw, (FLOAT,)) is None, raw


# --- range checks -----------------------------------------------------------------------------------------

SCALAR = Rank(scalar=True)


FITTING: tuple[tuple[Value, str, Rank], ...] = (
    (1, "FLOAT_32", SCALAR), (1.5, "FLOAT_32", SCALAR), (float("inf"), "FLOAT_32", SCALAR), (255, "UINT_8", SCALAR),
    (-128, "INT_8", SCALAR), (True, "BOOL_8", SCALAR), (1, "BOOL_8", SCALAR), ("x", "STRING", SCALAR),
    ((1, 2), "INT_32", Rank((1,))), ((1, 2), "INT_32", Rank()), (((1,), (2,)), "INT_32", Rank((1, 2))),
    (7, "INT_32", Rank((1,))), ((), "INT_32", Rank((1,))), (255, "UFIXED_POINT_8", SCALAR),
    (1, "BACKEND_SPECIFIC", SCALAR), (65504, "FLOAT_16", SCALAR), ((1 << 64) - 1, "UINT_64", SCALAR),
)  # fmt: skip
UNFIT: tuple[tuple[Value, str, Rank, str], ...] = (
    (256, "UINT_8", SCALAR, "holds 0 … 255"), (-1, "UINT_32", SCALAR, "holds 0 …"), (2, "BOOL_8", SCALAR, "0 … 1"),
    (1.5, "INT_32", SCALAR, "integers"), ("x", "INT_32", SCALAR, "is text"), (1e39, "FLOAT_32", SCALAR, "FLOAT_32 hol"),
    (65505, "FLOAT_16", SCALAR, "FLOAT_16 holds"), (10**400, "FLOAT_64", SCALAR, "FLOAT_64 holds"),
    (256, "UFIXED_POINT_8", SCALAR, "holds 0 … 255"), (0.5, "SFIXED_POINT_8", SCALAR, "integers"),
    ((1, 2), "INT_32", SCALAR, "is a list"), ((1, 2), "INT_32", Rank((0,)), "is a list"),
    ((1, 2), "INT_32", Rank((2,)), "rank 1"), (((1, 2), (3,)), "INT_32", Rank(), "different length"),
    ((1, (2,)), "INT_32", Rank(), "different length"), ((1, 300), "UINT_8", Rank(), "is 300"),
    ("x", "INT_32", Rank((1,)), "has rank 0"),
)  # fmt: skip


def test_defaults_that_fit_and_that_do_not() -> None:
    for value, datatype, rank in FITTING:
        assert values.fault_of_default(value, BY_NAME[datatype], rank) is None, (value, datatype)
    for value, datatype, rank, fault in UNFIT:
        assert fault in (values.fault_of_default(value, BY_NAME[datatype], rank) or ""), (value, datatype)


@given(NUMBER_VALUES, st.sampled_from(ALL))
def test_every_fault_is_found_or_none(value: Value, datatype: DataType) -> None:
    fault = values.fault_of_default(values.fit(value, (datatype,)), datatype, Rank())
    span = datatype.range()
    if fault is None and span and datatype.kind != "string":
        assert all(
            isinstance(leaf, int) and span[0] <= leaf <= span[1]
            for leaf in values.flatten(values.fit(value, (datatype,)))
        )


def test_shape() -> None:
    assert [values.shape(value) for value in (1, (1, 2), ((1, 2, 3), (4, 5, 6)), ())] == [(), (2,), (2, 3), (0,)]


# --- data types -------------------------------------------------------------------------------------------
