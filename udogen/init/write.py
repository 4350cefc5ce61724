"""A draft -> a config and op_tests.toml -> files: all of them or none, and no existing file is overwritten."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from udogen.configs import json_read, json_write, resolve, rules, xml_read, xml_write
from udogen.errors import UsageError, writing
from udogen.init.draft import CaseTensor, Draft, DraftCase, Remark, clean
from udogen.opdef.model import Op, OpPackage, Value
from udogen.opdef.problems import Problem, Problems


@dataclass(frozen=True)
class Written:
    """The action for each file, and warnings of the config's reader."""

    files: Mapping[Path, str]
    warnings: tuple[Problem, ...]


LANGUAGES = {".xml": "xml", ".json": "json"}


def write(draft: Draft, out: Path, *, source: str) -> Written:
    """The config, its test cases beside it, and what their references need; `source` is what they came from."""
    language = language_of(out)
    text, lost = config_text(draft, language)
    package, warnings = check(text, language, str(out))
    files = {out: text.encode()}
    if draft.cases:
        about = (
            f"Cases of {source}: `udogen test` runs them. An axis that the model leaves open has a chosen size "
            "(--dim NAME=SIZE sets another)."
        )
        cases = cases_text(package, draft.cases, config=out.name, references=draft.references, about=about)
        files[out.parent / CASES_FILE] = cases.encode()
    files |= {out.parent / name: data for name, data in draft.files.items()}
    return Written(save(files), (*lost, *warnings))


def language_of(path: Path) -> str:
    """The config language that a file's name asks for."""
    found = LANGUAGES.get(path.suffix.lower())
    if found is None:
        raise UsageError(f"{path} has neither of the suffixes of a config", hint="a config ends in .xml or .json")
    return found


def config_text(draft: Draft, language: str) -> tuple[str, tuple[Problem, ...]]:
    """The config, and what its language cannot express; JSON has no comments, so remarks are not in it."""
    problems = Problems()
    if language == "json":
        text = json_write.write([draft.package], problems)
    else:
        text = xml_write.write(draft.package, problems, comments(draft.remarks))
    return text, problems.warnings


def comments(remarks: Sequence[Remark]) -> Mapping[tuple[str, ...], Sequence[str]]:
    """Remarks by their subject, decisions last."""
    found: dict[tuple[str, ...], list[str]] = {}
    for each in sorted(remarks, key=lambda row: row.decide):
        found.setdefault(each.about, []).append(str(each))
    return found


def check(text: str, language: str, file: str) -> tuple[OpPackage, tuple[Problem, ...]]:
    """Read a config as `udogen check` does; an error would be a fault of udogen."""
    problems = Problems()
    reader = json_read.read if language == "json" else xml_read.read
    packages = reader(text.encode(), file, problems)
    for package in packages:
        rules.check(package, problems)
        unresolved = Problems()
        resolve.unresolved(package, unresolved)
        problems.extend(unresolved.all())
    problems.stop_if_any(what="the config that was made; its names or types come from the model")
    return packages[0], problems.warnings


def save(files: Mapping[Path, bytes]) -> Mapping[Path, str]:
    """Write new files: path -> `created` or `unchanged`; an existing file with other content is an error."""
    there = {path: path.read_bytes() for path in files if path.is_file()}
    other = [path for path in files if path.exists() and there.get(path) != files[path]]
    if other:
        raise UsageError(
            f"{other[0]} exists and is different; nothing was written",
            hint="nothing is overwritten: choose another name, or remove it",
            details=[f"{path} too" for path in other[1:]],
        )
    for path, data in files.items():
        if path not in there:
            _create(path, data)
    return {path: "unchanged" if path in there else "created" for path in files}


def _create(path: Path, data: bytes) -> None:
    with writing(path, hint="choose another place"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)


# --- op_tests.toml ---------------------------------------------------------------------------------------------------


CASES_FILE = "op_tests.toml"
_WIDTH = 110
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def cases_text(
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
            "Nothing to compare its numbers with yet, so cases only show that it runs. Write a function in numpy, "
            "which takes the inputs in their order and the parameters by name, and name it here:"
        )
        yield f'# reference = "reference.py:{op.name.lower()}"'
    if cases:
        yield ""
        yield case_lines(op, cases)


def case_lines(op: Op, cases: Sequence[DraftCase]) -> str:
    """The cases of one op, as its tables in the test file."""
    blocks = []
    for case in cases:
        note = _comment(clean(case.note)) if case.note else ()
        blocks.append("\n".join(["[[op.case]]", f"name = {_string(case.name)}", *note, *_case(op, case)]))
    return "\n\n".join(blocks)


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
    """A TOML string: as in JSON, with DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(sentence: str) -> Iterator[str]:
    for row in textwrap.wrap(sentence, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield f"# {row}"
