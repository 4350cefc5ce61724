"""The draft of a config and its test cases: a package, remarks (comments in the config), cases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from udogen import backends
from udogen.opdef.model import OpPackage

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

USUAL_BACKENDS = tuple(each.id for each in backends.ALL.values() if each.usual)  # if none is chosen
TODO = "TODO: "


def obstacle(backend: str, *, repeated: str, text: str) -> str:
    """Why a backend does not support this repeated tensor or text parameter (none: ""); empty if it does."""
    row = backends.ALL[backend]
    if repeated and not row.can_repeat:
        return f"{row.title} is left out, as `{repeated}` is repeated, which it cannot take"
    if text and not row.has_texts:
        return f"{row.title} is left out, as `{text}` is a text, which it cannot take"
    return ""


def clean(text: str) -> str:
    """A text with names from a model, made printable for text files."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def camel_case(text: str) -> str:
    """`leaky_relu` as LeakyRelu."""
    return "".join(part[0].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text) if part)


@dataclass(frozen=True)
class Remark:
    """A sentence about the package, an op, or a tensor of it (`about` is (), (op,) or (op, tensor))."""

    about: tuple[str, ...]
    sentence: str
    decide: bool = False  # the model leaves it open, so the user must decide

    def __str__(self) -> str:
        return clean(TODO + self.sentence if self.decide else self.sentence)

    def as_json(self) -> dict[str, object]:
        """The remark as `--json` prints it."""
        return {"about": list(self.about), "decide": self.decide, "sentence": clean(self.sentence)}


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


@dataclass(frozen=True)
class Draft:
    """A package that is not yet written."""

    package: OpPackage
    remarks: tuple[Remark, ...] = ()
    cases: tuple[DraftCase, ...] = ()
    references: Mapping[str, str] = field(default_factory=dict)  # by op, as written in test files
    files: Mapping[str, bytes] = field(default_factory=dict)  # files that the references need, by name
