"""Names become identifiers, and any text becomes a C++ literal."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udogen.opdef import names

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NASTY = (
    'a"; system("x")//', "back\\slash", "line\nbreak", "\r\n", "\t", "??/", "%s%n", "\x00nul", "\x7f", "é", "日本語",
    "\U0001f600", "0123", "\\x41", "\\", '"', "'", "${x}", "$(x)", "*/", "// x", "#define x", 'R"(x)"', "1\x0123",
    "end\\\n", "",
)  # fmt: skip


@given(ANY_TEXT)
def test_an_identifier_is_one(text: str) -> None:
    made = names.identifier(text)
    assert IDENTIFIER.match(made)
    assert "__" not in made.rstrip("_")
    assert made not in names.RESERVED


@given(ANY_TEXT)
def test_a_suggestion_would_be_accepted(text: str) -> None:
    assert names.fault_of_symbol(names.suggestion(text)) is None


IDENTIFIERS = {
    "in[0]": "in_0", "in": "in", "out[12]": "out_12", "Placeholder:0": "Placeholder_0", "a/b.c-d e": "a_b_c_d_e",
    "0": "t_0", "3d": "t_3d", "__x__": "x", "a__b": "a_b", "default": "default_", "NULL": "NULL_",
    "INT_MAX": "INT_MAX_", "M_PI": "M_PI_", "Args": "Args_", "größe": "gr_e", "日本": "t_", "": "t_",
}  # fmt: skip
SYMBOLS = {
    **dict.fromkeys(("Softmax", "a", "A_1", "Conv2D", "x" * 128, "Default", "qnn"), ""),
    "": "is empty", "x" * 129: "129 characters", "a b": "' '", "a.b": "'.'", "1a": "begin with a letter",
    "_a": "begin with a letter", "a__b": "two underscores", "class": "word of C++", "a\n": "'\\n'",
    "\uff41": "'\uff41'",
}  # fmt: skip
GOOD_TENSORS = ("in[0]", "x", "0", "a b", "a.b:c/d-e", "f(x)", "x" * 128, "class")
BAD_TENSORS = ("", "x" * 129, "a;b", 'a"b', "a\nb", "a\\b", "é", "[]", "a\x00", "$x", "a`b")


def test_the_tables_of_names() -> None:
    assert {name: names.identifier(name) for name in IDENTIFIERS} == IDENTIFIERS
    for name, fault in SYMBOLS.items():
        found = names.fault_of_symbol(name)
        assert fault in (found or "") and bool(found) == bool(fault), (name, found)
    assert not [name for name in GOOD_TENSORS if names.fault_of_tensor(name)]
    assert not [name for name in BAD_TENSORS if not names.fault_of_tensor(name)]


@given(ANY_TEXT)
def test_a_literal_is_ascii_on_one_line_and_means_the_text(text: str) -> None:
    literal = names.cpp_string(text)
    assert re.fullmatch(r'"[ -~]*"', literal)
    assert _unescape(literal) == text.encode()


def _unescape(literal: str) -> bytes:
    parts = re.findall(rb"\\([0-7]{3})|\\(.)|([^\\]+)", literal[1:-1].encode())
    return b"".join(bytes([int(code, 8)]) if code else escaped or plain for code, escaped, plain in parts)


@pytest.mark.skipif(not shutil.which("g++"), reason="g++ is not installed")
def test_literals_mean_the_same_to_a_compiler(tmp_path: Path) -> None:
    comments = "\n".join(f"// {line}" for text in NASTY for line in names.cpp_comment(text))
    items = ",\n".join(f"{{{names.cpp_string(text)}, sizeof({names.cpp_string(text)}) - 1}}" for text in NASTY)
    source = tmp_path / "literals.cpp"
    source.write_text(
        f"#include <cstdio>\n{comments}\n"
        f"struct Text {{ const char* data; unsigned long size; }} texts[] = {{\n{items}}};\n"
        'int main() { for (auto& t : texts) { fwrite(t.data, 1, t.size, stdout); fputs("\\n--\\n", stdout); } }\n'
    )
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-trigraphs")
    argv = ["g++", *flags, str(source), "-o", str(tmp_path / "literals")]
    built = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    output = subprocess.run([str(tmp_path / "literals")], capture_output=True, check=True).stdout
    assert output == b"".join(text.encode() + b"\n--\n" for text in NASTY)


@given(ANY_TEXT)
def test_a_comment_cannot_end_early(text: str) -> None:
    for line in names.cpp_comment(text):
        assert line.isprintable() or not line
        assert not line.endswith("\\")
