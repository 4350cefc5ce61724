"""Names for what a model does not name: tensors by their place, by their weights, by the graph's own inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from udogen.opdef import names

# A word that a person chose: not `12`, `onnx::Conv_7`, `relu_3`, `t`.
_WORD = re.compile(r"[A-Za-z][A-Za-z_]*[A-Za-z]\Z|[a-z]\Z")
_LONGEST = 24


def word(value: str) -> str:
    """The last part of a value's name, where it is a word: `layer.0.weight` is a weight."""
    last = re.split(r"[/.:\\]", value.strip("/"))[-1]
    good = _WORD.match(last) and len(last) <= _LONGEST and not names.fault_of_tensor(last)
    return last if good else ""


def agreed(values: Iterable[str]) -> str:
    """The word that all uses have for a tensor; empty where they have none, or several."""
    words = {word(each) for each in values}
    return words.pop() if len(words) == 1 else ""


def distinct(wanted: Sequence[str], role: str, taken: set[str]) -> list[str]:
    """A name for each place: the wanted ones as long as they differ, otherwise `input`, or `input_0` and so on.

    `taken` holds the identifiers that are in use, and gets the new ones.
    """
    found: list[str] = []
    for place, name in enumerate(wanted):
        generic = role if len(wanted) == 1 else f"{role}_{place}"
        plain = name if name and not names.fault_of_tensor(name) else ""
        made = next(each for each in _tries(plain, generic) if names.identifier(each) not in taken)
        taken.add(names.identifier(made))
        found.append(made)
    return found


def _tries(name: str, generic: str) -> Iterable[str]:
    if name:
        yield name
    yield generic
    number = 2
    while True:
        yield f"{generic}_{number}"
        number += 1


def op_names(types: Sequence[tuple[str, str]]) -> list[str]:
    """A name of QNN for each (domain, type): the type, if it can be one and no other op has it."""
    found: list[str] = []
    for domain, name in types:
        made = names.suggestion(name)
        if made.lower() in {each.lower() for each in found}:
            made = names.suggestion(f"{domain}_{name}")
        while made.lower() in {each.lower() for each in found}:
            made = names.suggestion(f"{made}_2")
        found.append(made)
    return found


def package_name(stem: str) -> str:
    """A package named after a model's file: `yolo_v5` becomes YoloV5OpPackage."""
    words = [part for part in re.split(r"[^A-Za-z0-9]+", stem) if part]
    return names.suggestion("".join(part[0].upper() + part[1:] for part in words) + "OpPackage", "MyOpPackage")


def domain(name: str) -> str:
    """A Domain for the package: that of the op, where it has one."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name) else "custom"
