"""Cases -> op_tests.toml, in the words of `udogen test`."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence

from udogen.init.draft import CaseTensor, DraftCase, clean
from udogen.opdef.model import Op, OpPackage, Value

NAME = "op_tests.toml"
_WIDTH = 110
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def text(
    package: OpPackage, cases: Sequence[DraftCase], *, config: str, references: Mapping[str, str], about: str
) -> str:
    """The test file; `references` are those that are known, by op."""
    lines = [*_comment(about), f"config = {_string(config)}"]
    for op in package.ops:
        lines += ["", *_op(op, [each for each in cases if each.op == op.name], references.get(op.name, ""))]
    return "\n".join(lines) + "\n"


def _op(op: Op, cases: Sequence[DraftCase], reference: str) -> Iterator[str]:
    yield "[[op]]"
    yield f"name = {_string(op.name)}"
    if reference:
        yield f"reference = {_string(reference)}"
    else:
        yield from _comment(
            "Nothing to hold its numbers against yet, so cases only show that it runs. Write a function in numpy, "
            "which takes the inputs in their order and the parameters by name, and name it here:"
        )
        yield f'# reference = "reference.py:{op.name.lower()}"'
    for case in cases:
        yield ""
        yield "[[op.case]]"
        yield f"name = {_string(case.name)}"
        if case.note:
            yield from _comment(clean(case.note))
        yield from _case(op, case)


def _case(op: Op, case: DraftCase) -> Iterator[str]:
    several = {tensor.name for tensor in (*op.inputs, *op.outputs) if tensor.repeated}
    tensors = {**case.inputs, **case.outputs}
    counts: dict[str, int] = {}
    for name in case.inputs:
        if _whole(name, several) in several:
            counts[_whole(name, several)] = counts.get(_whole(name, several), 0) + 1
    if counts:
        yield f"count = {_table({name: str(number) for name, number in counts.items()})}"
    if case.backends:
        yield f"backends = {_value(case.backends)}"
    shapes = {name: _string("x".join(map(str, each.shape))) for name, each in tensors.items()}
    yield f"shape = {_table(shapes)}"
    kinds = {_whole(name, several): _string(each.dtype) for name, each in tensors.items()}
    yield f"dtype = {_table(kinds)}"
    quants = {name: _quant(each.quant) for name, each in tensors.items() if each.quant}
    if quants:
        yield f"quant = {_table(quants)}"
    values = {name: _numbers(each) for name, each in case.inputs.items() if each.values is not None}
    if values:
        yield f"values = {_table(values)}"
    if case.params:
        yield f"params = {_table({name: _value(each) for name, each in case.params.items()})}"


def _whole(name: str, several: Collection[str]) -> str:
    """`x` of `x.0`, a part of a repeated tensor."""
    head = name.rpartition(".")[0]
    return head if head in several else name


def _table(rows: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{_key(name)} = {value}" for name, value in rows.items()) + " }"


def _quant(quant: tuple[float, int]) -> str:
    return f"{{ scale = {_value(quant[0])}, offset = {quant[1]} }}"


def _numbers(tensor: CaseTensor) -> str:
    assert tensor.values is not None
    return _value(tensor.values.reshape(tensor.shape).tolist())


def _value(value: Value | object) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    return repr(value)  # `inf` and `nan` are TOML too, and so is 1e-06


def _key(name: str) -> str:
    return name if _BARE.match(name) else _string(name)


def _string(text: str) -> str:
    """A TOML string: that of JSON, but for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(sentence: str) -> Iterator[str]:
    for row in textwrap.wrap(sentence, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield f"# {row}"
