"""Rules of outputs in Python: what is refused, in which words, with which line; what `infer` answers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.opdef.texts import collection, op, param, tensor
from udogen.errors import UsageError
from udogen.opdef.load import load
from udogen.opdef.model import OpPackage
from udogen.opdef.outputs import Answer, Given, infer, load_rules
from udogen.opdef.problems import Problem, Problems

CONFIG = collection(
    op(
        tensor("Input", "x", rank="4D")
        + tensor("Input", "bias", mandatory="false")
        + tensor("Output", "y", rank="4D")
        + param("stride", "INT_32", default="2")
        + param("scale", "FLOAT_32", default="0.5"),
        name="Pool",
    )
    + op(tensor("Input", "x") + tensor("Output", "many", more="<Repeated>true</Repeated>"), name="Split")
    + op(
        tensor("Input", "maybe", mandatory="false", more="<Repeated>true</Repeated>")
        + tensor("Input", "last", mandatory="false")
        + tensor("Output", "y", "INT_32"),
        name="Odd",
    )
)


@pytest.fixture
def package(tmp_path: Path) -> OpPackage:
    (tmp_path / "demo.xml").write_text(CONFIG)
    ([found], _) = load([tmp_path / "demo.xml"])
    return found


def told(text: str | bytes, package: OpPackage, folder: Path) -> list[Problem]:
    """Everything that is wrong with these rules."""
    file = folder / "rules.py"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    problems = Problems()
    load_rules(file, [package], problems)
    return [*problems.all()]


# What stands in `Pool`, with an answer behind it -> what is said, and what to do.
LINES = {
    "a = op.y.shape": ("an output has no .shape", "an output is only asked for in len(op.y) and `op.y is None`"),
    "a = op.strid": ("`Pool` has no input, parameter or output `strid`", "did you mean op.stride?"),
    "a = op['z']": ("`Pool` has no input, parameter or output `z`", "it has x, bias, stride, scale, y"),
    "a = op.x.rank": ("a tensor has no .rank", "write len(….shape)"),
    "a = op.x.shap": ("a tensor has no .shap", "did you mean .shape?"),
    "a = op.x[0]": ("a tensor has no items", "write its .shape[…]"),
    "a = op.x.shape + 1": ("one cannot calculate with a list of whole numbers", "write [a, b] + [c]"),
    "a = op.stride ** 2": ("rules have no operator **", "write a product"),
    "a = op.scale // 2": ("// is for whole numbers", "write math.floor(a / b)"),
    "a = True + 1": ("one cannot calculate with true or false", "write `1 if … else 0`"),
    "a = stride": ("there is no `stride` here", "give it a value before"),
    "a = op": ("the op itself cannot be kept under another name", "use it as it is"),
    "a = b = 1": ("one assignment gives one thing a value", "write two lines"),
    "a = 1\n    a = 0.5": ("`a` was a whole number, and is now a number with a fraction", "give it another name"),
    "if op.stride:\n        pass": (
        "a condition must be true or false, and this is a whole number",
        "write a comparison, as in … != 0",
    ),
    "if op.bias:\n        pass": ("a condition must be true or false, and this is a tensor", "write `is not None`"),
    "if op.stride > 1:\n        a = 1\n    b = a": ("`a` may have no value here", "give it one before, in every case"),
    "for i in range(3):\n        a = i\n    b = i": ("`i` may have no value here", "give it one before, in every case"),
    "while op.stride > 1:\n        pass": (
        "rules have no `while`",
        "write `for i in range(…)`: a rule must come to an end",
    ),
    "assert op.stride": ("rules have no `assert`", "write `if not …: raise ValueError('…')`"),
    "import os": ("rules have no `import`", "write `import math` at the top of the file"),
    "try:\n        pass\n    except ValueError:\n        pass": (
        "rules have no `try`",
        "look first whether it can be: `if …`",
    ),
    "a = lambda: 1": ("rules have no lambda", "write a function"),
    "a = [i for i in op.x.shape for j in op.x.shape]": (
        "a list may be made in one loop only",
        "write nested for loops",
    ),
    "a = (1, 2)": ("rules have no tuple here", "write a list: [a, b]"),
    "a = {1: 2}": ("rules have no dict here", "a dict only stands behind return, as in return {'y': shape}"),
    "a = [1, op.x]": ("a list holds things of one kind; here are a whole number and a tensor", "write two lists"),
    "a = len(op.x)": ("a tensor is no list", "its rank is len(….shape)"),
    "a = len(op.y)": ("the output `y` is not repeated", "it is one; of its shape this is the rule"),
    "a = leng(op.x.shape)": ("rules have no function leng", "did you mean len(…)?"),
    "a = sorted(op.x.shape)": ("rules have no function sorted", "write what you need of the order with min and max"),
    "a = math.ceil(0.5)": ("math.ceil is not known here", "write `import math` at the top of the file"),
    "a = range(3)": ("range(…) only stands in a loop", "write `for i in range(…)`, or [i for i in range(…)]"),
    "a = max(op.x.shape, key=abs)": ("arguments are given plainly, by their places", "write max(a, b)"),
    "a = __import__('os')": (
        "rules have no function __import__",
        "there are abs, enumerate, float, int, len, list, math.ceil, math.floor, math.prod, max, min, range, sum, zip",
    ),
    "op.x.shape.append(1)": ("append is for a list with a name", "write name.append(x)"),
    "a = op.x.shape\n    a.pop()": ("rules have no .pop(…) here", "write shape = shape[:-1]"),
    "a = [1]\n    b = a\n    b.append(2)": (
        "`b` may be a list that others have too",
        "write b = list(b) first, under a new name",
    ),
    "a = [1]\n    a += [2]": ("a list is not changed in this way", "write a = a + b, which makes a new one"),
    "a = op.x.dtype == 'FLOT_32'": ("`FLOT_32` is no data type", "did you mean FLOAT_32?"),
    "a = op.x.dtype < 'FLOAT_32'": ("a data type is neither less nor more than another", "write == or !="),
    "a = op.x.dtype == 1": ("a data type cannot be compared with a whole number", "compare what is of one kind"),
    "a = 99999999999999999999": ("this number is too large", "whole numbers of rules have 64 bits"),
    "a = op.x.shape is None": ("this is never None", "only what a model may leave out, and .data, can be None"),
    "Pool = 1": ("`Pool` means something else in this file", "give the variable another name"),
    "raise TypeError('no')": ("what is wrong is told by ValueError with a text", "write raise ValueError('…')"),
    "if op.stride > 9:\n        raise ValueError(f'{op.scale}')": (
        "a message does not show a number with a fraction",
        "it shows whole numbers, lists of them and texts, plainly",
    ),
    "if op.stride > 9:\n        raise ValueError('\\0')": (
        "this text has characters that no message can have",
        "write plain letters",
    ),
    "helper(1)": ("this has no effect", "give it a name: x = …"),
    "a = helper(1, 2)": ("`helper` takes 1 arguments, not 2", "it stands in line 1"),
    "a, b = helper(1), 2, 3": ("3 values for 2 names", "give each a value"),
    "for a, b in op.x.shape:\n        pass": (
        "the names of this loop do not fit what it goes over",
        "write `for x in …`",
    ),
    "def inner():\n        return 1": ("rules have no `def inside def`", "write it beside, not inside"),
    "break": ("this stands in no loop", "remove it"),
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_what_is_not_of_the_subset_is_told_with_its_line(line: str, package: OpPackage, tmp_path: Path) -> None:
    text = f"def helper(a):\n    return a + 1\n\n\ndef Pool(op):\n    {line}\n    return {{'y': op.x.shape}}\n"
    if "helper" not in line:
        text = text.replace("Pool(op):\n", "Pool(op):\n    one = helper(0)\n")
    found = told(text, package, tmp_path)
    assert LINES[line] in [(each.message, each.hint) for each in found], found
    first = next(each for each in found if (each.message, each.hint) == LINES[line])
    assert 6 <= first.location.line <= 9 and first.location.file == str(tmp_path / "rules.py")


FILES = {
    "def Pool(op):\n    return {'y': [1, 2, 3]}\n": (2, "this is a shape of rank 3; the config says 4D of `y`"),
    "def Pool(op):\n    return {'z': [1, 2, 3, 4]}\n": (2, "`Pool` has no output `z`"),
    "def Pool(op):\n    return {}\n": (2, "this says no shape of `y`"),
    "def Pool(op):\n    return op.x.shape\n": (2, "a rule answers with shapes by the name of the output"),
    "def Pool(op):\n    return {'y': 4}\n": (
        2,
        "the shape of `y` is a list of whole numbers, and this is a whole number",
    ),
    "def Pool(op):\n    return {'y': [0.5, 1, 1, 1]}\n": (
        2,
        "the shape of `y` is a list of whole numbers, and this is a list of numbers",
    ),
    "def Pool(op):\n    if op.stride > 1:\n        return {'y': op.x.shape}\n": (
        1,
        "`Pool` does not answer in every case",
    ),
    "def Pool(op):\n    return {'y': op.x.shape}\n    a = 1\n": (3, "this is never reached"),
    "def Pool(op):\n    return {'y': f(op)}\ndef f(op):\n    return g(op)\ndef g(op):\n    return f(op)\n": (
        6,
        "`f` calls itself (f -> g -> f)",
    ),
    "def Pool_dtypes(op):\n    return {'y': 'INT_32'}\n": (2, "the config does not allow `y` to be INT_32"),
    "def Pool_dtypes(op):\n    return {'y': [1]}\n": (
        2,
        "for `y` this must be a data type, and is a list of whole numbers",
    ),
    "def Split(op):\n    return {'many': op.x.shape}\n": (
        2,
        "the shape of `many` is a list with the shape of each, and this is a list of whole numbers",
    ),
    "def Odd(op):\n    return {'y': op.last.shape}\n": (
        2,
        "where `last` of `Odd` stands cannot be told: several before it may be there or not",
    ),
    "def Pol(op):\n    return {'y': op.x.shape}\n": (
        1,
        "the config has no op `Pol`, and no other function calls `Pol`",
    ),
    "def Pool(op, more):\n    return {'y': op.x.shape}\n": (1, "the rule `Pool` has 2 arguments"),
    "def Pool(op, *, more=1):\n    return {'y': op.x.shape}\n": (1, "`Pool` has other than plain arguments"),
    "@cached\ndef Pool(op):\n    return {'y': op.x.shape}\n": (2, "`Pool` has a decorator"),
    "def Pool(op):\n    return {'y': op.x.shape}\ndef Pool(op):\n    return {'y': op.x.shape}\n": (
        3,
        "`Pool` is defined twice",
    ),
    "import os\n": (1, "rules import nothing but math: they are translated, not run"),
    "from math import sin\n": (1, "`sin` of math is not for rules"),
    "print('hello')\n": (1, "this is neither a function nor a constant: print('hello')"),
    "async def Pool(op):\n    pass\n": (1, "this is neither a function nor a constant: async def Pool(op):"),
    "def len(a):\n    return 1\n": (1, "`len` is a word of Python's that rules use"),
    "def Pool(op):\n  return {'y': [1,\n": (2, "this is no Python: '[' was never closed"),
    "SIZE = 3\n": (0, "there is no rule in this file"),
    "": (0, "there is no rule in this file"),
}  # fmt: skip


@pytest.mark.parametrize("text", FILES)
def test_what_a_file_cannot_be(text: str, package: OpPackage, tmp_path: Path) -> None:
    assert FILES[text] in [(each.location.line, each.message) for each in told(text, package, tmp_path)]


@pytest.mark.parametrize("text", [b"\0", b"\xff\xfe\xfd", b"(" * 5000, b"x = " + b"-" * 100_000 + b"1\n"])
def test_what_is_no_python_is_told(text: bytes, package: OpPackage, tmp_path: Path) -> None:
    [first, *_] = told(text, package, tmp_path)
    assert first.message.startswith("this is no Python")


def test_deep_expressions_are_told_not_crashed_over(package: OpPackage, tmp_path: Path) -> None:
    for inner in ("1" + " + 1" * 20_000, "-" * 900 + "1", "[" * 90 + "1" + "]" * 90):
        found = told(f"def Pool(op):\n    return {{'y': [{inner}, 1, 1, 1]}}\n", package, tmp_path)
        assert "nested too deeply" in found[0].message or "no Python" in found[0].message


def test_helpers_that_call_helpers_are_checked_once(package: OpPackage, tmp_path: Path) -> None:
    steps = "".join(f"def f{i}(a):\n    return f{i + 1}(a) + f{i + 1}(a)\n" for i in range(60))
    began = time.monotonic()
    text = steps + "def f60(a):\n    return a\ndef Pool(op):\n    return {'y': [f0(1), 1, 1, 1]}\n"
    assert told(text, package, tmp_path) == []
    assert time.monotonic() - began < 5


def test_a_chain_of_too_many_helpers_is_told(package: OpPackage, tmp_path: Path) -> None:
    steps = "".join(f"def f{i}(a):\n    return f{i + 1}(a)\n" for i in range(900))
    text = f"{steps}def f900(a):\n    return a\ndef Pool(op):\n    return {{'y': [f0(1), 1, 1, 1]}}\n"
    [found] = told(text, package, tmp_path)
    assert found.message == "the functions that `Pool` calls call too many others"


def test_all_is_told_at_once(package: OpPackage, tmp_path: Path) -> None:
    found = told(
        "def Pool(op):\n    a = op.q\n    b = 1 ** 2\n    return {'z': [1]}\ndef Nope(op):\n    pass\n",
        package,
        tmp_path,
    )
    assert [each.location.line for each in found] == [2, 3, 4, 4, 5]


def test_a_file_that_is_no_file(tmp_path: Path, package: OpPackage) -> None:
    for path, words in ((tmp_path, "is not a file"), (tmp_path / "none.py", "cannot be read: No such file")):
        with pytest.raises(UsageError, match=words):
            load_rules(path, [package], Problems())
    (tmp_path / "huge.py").write_bytes(b"#" * (2 << 20))
    with pytest.raises(UsageError, match="has 2048 kB; rules have at most 1024 kB"):
        load_rules(tmp_path / "huge.py", [package], Problems())


# --- infer ------------------------------------------------------------------------------------------------


def test_infer_answers_for_each_output(package: OpPackage, tmp_path: Path) -> None:
    rules = (
        "def Pool(op):\n    return {'y': [1, 1, 1, int(op.x.shape[-1] * op.scale)]}\n"
        "def Split(op):\n    return {'many': [op.x.shape[1:] for i in range(len(op.many))]}\n"
    )
    (tmp_path / "rules.py").write_text(rules)
    problems = Problems()
    [found] = load_rules(tmp_path / "rules.py", [package], problems)
    assert not problems.all()
    assert infer(found, "Pool", {"x": Given((1, 2, 3, 8))}) == {"y": Answer((1, 1, 1, 4), "FLOAT_32")}
    many = infer(found, "Split", {"x": Given((4, 2))}, outputs={"many": 2})
    assert many == {"many.0": Answer((2,), "FLOAT_32"), "many.1": Answer((2,), "FLOAT_32")}
    with pytest.raises(UsageError, match="op `Pool` has no parameter `stribe`") as caught:
        infer(found, "Pool", {"x": Given((1,))}, {"stribe": 1})
    assert caught.value.hint == "did you mean `stride`?"
    with pytest.raises(UsageError, match="has no rule for op `Splt`"):
        infer(found, "Splt", {})
    with pytest.raises(UsageError, match="op `Pool` needs the input `x`"):
        infer(found, "Pool", {})


def test_nothing_of_a_file_is_run(package: OpPackage, tmp_path: Path) -> None:
    told(f"open({str(tmp_path / 'made')!r}, 'w')\ndef Pool(op):\n    return {{'y': op.x.shape}}\n", package, tmp_path)
    assert not (tmp_path / "made").exists()
