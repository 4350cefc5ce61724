"""The three-way merge: the user's changes are always kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from udogen.generate import write

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "  }\n", "x = 1\n", "\n", "\x0c\n", "é\u2028\n"]), max_size=12)
TEXTS = st.builds(lambda lines, end: "".join(lines) + end, LINES, st.sampled_from(["", "end", "a"]))


def merge(last: str, new: str, edited: str) -> str | None:
    merged = write.merge(last.encode(), new.encode(), edited.encode())
    return None if merged is None else merged.decode()


@given(TEXTS, TEXTS)
def test_what_only_udogen_changed_is_taken(last: str, new: str) -> None:
    assert merge(last, new, last) == new


@given(TEXTS, TEXTS)
def test_what_only_the_user_changed_is_the_users(last: str, theirs: str) -> None:
    assert merge(last, last, theirs) == theirs


@given(TEXTS, TEXTS)
def test_what_both_changed_alike_is_that(last: str, both: str) -> None:
    assert merge(last, both, both) == both


@given(TEXTS, TEXTS, TEXTS)
def test_no_new_line_of_either_side_is_lost(last: str, new: str, theirs: str) -> None:
    merged = merge(last, new, theirs)
    if merged is None:
        return
    result, base = merged.splitlines(), last.splitlines()
    for side in (new.splitlines(), theirs.splitlines()):
        for line in set(side) - set(base):
            assert line in result


@given(TEXTS, TEXTS, TEXTS)
def test_the_sides_conflict_or_agree_whichever_comes_first(last: str, new: str, theirs: str) -> None:
    assert (merge(last, new, theirs) is None) == (merge(last, theirs, new) is None)


def test_the_same_lines_conflict() -> None:
    assert merge("a\nb\nc\n", "a\nours\nc\n", "a\ntheirs\nc\n") is None
    assert write.merge(b"a\n", b"b\n", b"\xff\n") is None, "not text"


def test_changes_of_different_lines_meet() -> None:
    assert merge("a\nb\nc\nd\n", "a\nb\nc\nD\ne\n", "A\nb\nc\nd\n") == "A\nb\nc\nD\ne\n"
