"""The draft of a config and its test cases, and the files of it: all or none, nothing is overwritten."""

from __future__ import annotations

import os
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from udogen import backends
from udogen.configs import resolve, rules, xml_read, xml_write
from udogen.errors import UsageError, writing
from udogen.findings import Finding, Findings
from udogen.opdef.model import Op, OpPackage
from udogen.resources import toml_text

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


USUAL_BACKENDS = tuple(backend.id for backend in backends.ALL.values() if backend.usual)  # if none is chosen
TODO = "TODO: "


def clean(text: str) -> str:
    """A text with names from a model, made printable for text files."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def remark(about: tuple[str, ...], sentence: str, *, decide: bool = False) -> Finding:
    """A sentence about the package, an op, or a tensor of it; `decide`: the model leaves it open, the user decides."""
    return Finding(clean(sentence), severity="warning" if decide else "note", about=about)


@dataclass(frozen=True)
class CaseTensor:
    """A tensor of a case: its shape, its quantization if any, and its `values` if the model contains them."""

    shape: tuple[int, ...]
    dtype: str  # name in QNN
    quant: tuple[float, int] | None = None
    values: Array | None = None


@dataclass(frozen=True)
class DraftCase:
    """One run of an op, as in a model."""

    name: str
    op: str
    inputs: Mapping[str, CaseTensor]
    outputs: Mapping[str, CaseTensor]
    params: Mapping[str, object] = field(default_factory=dict)
    backends: tuple[str, ...] = ()  # where it can run; empty: everywhere
    note: str = ""
    tolerance: str | float | Mapping[str, object] | None = None  # None: the usual one


@dataclass(frozen=True)
class Draft:
    """A package with one op that is not yet written."""

    package: OpPackage
    remarks: tuple[Finding, ...] = ()
    cases: tuple[DraftCase, ...] = ()
    references: Mapping[str, str] = field(default_factory=dict)  # by op, as written in test files
    files: Mapping[str, bytes] = field(default_factory=dict)  # files that the references need, by name


# --- files -----------------------------------------------------------------------------------------------------------


def config_text(draft: Draft) -> tuple[str, tuple[Finding, ...]]:
    """The XML config with remarks as comments, and warnings about what XML cannot express."""
    findings = Findings()
    return xml_write.write(draft.package, findings, _comments(draft.remarks)), findings.warnings


def _comments(remarks: Sequence[Finding]) -> Mapping[tuple[str, ...], Sequence[str]]:
    """Remarks by subject; those that need a decision are last."""
    comments: dict[tuple[str, ...], list[str]] = {}
    for each in sorted(remarks, key=lambda row: row.severity == "warning"):
        comments.setdefault(each.about, []).append(TODO * (each.severity == "warning") + each.message)
    return comments


def check_config(text: str, file: str) -> tuple[OpPackage, tuple[Finding, ...]]:
    """Read an XML config as `udogen check` does; an error would be a bug in udogen."""
    findings = Findings()
    packages = xml_read.read(text.encode(), file, findings)
    for package in packages:
        rules.check(package, findings)
        unresolved = Findings()
        resolve.unresolved(package, unresolved)
        findings.extend(unresolved.all())
    findings.stop_if_any(what="the config that was made; its names or types come from the model")
    return packages[0], findings.warnings


def save(files: Mapping[Path, bytes]) -> Mapping[Path, str]:
    """Write new files: path -> `created` or `unchanged`; an existing file with other content is an error.

    If a file cannot be written, none is left.
    """
    there = {path: path.read_bytes() for path in files if path.is_file()}
    other = [path for path in files if path.exists() and there.get(path) != files[path]]
    if other:
        raise UsageError(
            f"{other[0]} exists and is different; nothing was written",
            hint="choose another name, or remove it: nothing is overwritten",
            details=[f"{path} too" for path in other[1:]],
        )
    made: list[Path] = []  # files and folders
    try:
        for path, data in files.items():
            if path not in there:
                _create(path, data, made)
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise
    return {path: "unchanged" if path in there else "created" for path in files}


def _create(path: Path, data: bytes, made: list[Path]) -> None:
    with writing(path, hint="choose another place"):
        for folder in reversed([parent for parent in path.parents if not os.path.lexists(parent)]):
            folder.mkdir()
            made.append(folder)
        with path.open("xb") as file:
            made.append(path)
            file.write(data)


# --- op_tests.toml ---------------------------------------------------------------------------------------------------


_WIDTH = 110
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def case_lines(op: Op, cases: Sequence[DraftCase]) -> str:
    """The cases of one op, as tables of a test file."""
    blocks = []
    for case in cases:
        note = _comment(clean(case.note)) if case.note else ()
        blocks.append("\n".join(["[[op.case]]", f"name = {toml_text(case.name)}", *note, *_case(op, case)]))
    return "\n\n".join(blocks)


def _case(op: Op, case: DraftCase) -> Iterator[str]:
    repeated = {tensor.name for tensor in (*op.inputs, *op.outputs) if tensor.repeated}
    tensors = {**case.inputs, **case.outputs}
    wholes = {name: _whole(name, repeated) for name in tensors}
    rows = {
        "count": Counter(wholes[name] for name in case.inputs if wholes[name] in repeated),
        "backends": case.backends,
        "shape": {name: "x".join(map(str, tensor.shape)) for name, tensor in tensors.items()},
        "dtype": {wholes[name]: tensor.dtype for name, tensor in tensors.items()},
        "quant": {
            name: {"scale": tensor.quant[0], "offset": tensor.quant[1]}
            for name, tensor in tensors.items()
            if tensor.quant
        },
        "values": {
            name: tensor.values.reshape(tensor.shape).tolist()
            for name, tensor in case.inputs.items()
            if tensor.values is not None
        },
        "tolerance": case.tolerance,
        "params": case.params,
    }
    yield from (f"{key} = {_value(row)}" for key, row in rows.items() if row not in (None, (), {}))


def _whole(name: str, repeated: Collection[str]) -> str:
    """`x` of `x.0`, a part of a repeated tensor."""
    head = name.rpartition(".")[0]
    return head if head in repeated else name


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        rows = (f"{name if _BARE.match(name) else toml_text(name)} = {_value(each)}" for name, each in value.items())
        return "{ " + ", ".join(rows) + " }"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_text(value)
    return repr(value)  # `inf`, `nan` and 1e-06 are also valid in TOML


def _comment(sentence: str) -> Iterator[str]:
    for row in textwrap.wrap(sentence, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield f"# {row}"
