"""First tests: a test file for `udogen test`, and skeletons of its references."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from udogen.backends.plan import PlannedFile
from udogen.build.package import Say, no_say
from udogen.generate.folder import opened
from udogen.opdef.model import Op, OpPackage, Tensor, Value
from udogen.resources import toml_text

FILE = "op_tests.toml"
REFERENCES = "reference.py"
_SHAPES = ((7,), (3, 5), (2, 5, 7), (1, 8, 8, 16), (2, 3, 4, 5, 6))
_OF_ANY_RANK = ("7", "3x5", "1x8x8x16")


@dataclass(frozen=True)
class KnownTests:
    """What is known about the tests of one op."""

    config: str = ""  # set if no packages are next to the test file
    reference: str = ""  # as named in test files; empty: a function that the user must write
    cases: str = ""  # in TOML; empty: cases that fit the config
    body: str = ""  # of that function, if it is finished


def files(packages: Sequence[OpPackage], known: Mapping[str, KnownTests]) -> list[PlannedFile]:
    """The test file and, if an op has no reference, the file of references."""
    ops = [_view(op, known.get(op.name, KnownTests())) for package in packages for op in package.ops]
    configs = list(dict.fromkeys(op.config for op in ops))
    ops = [op._replace(config="") for op in ops] if len(configs) == 1 else ops
    data = {
        "package": ", ".join(dict.fromkeys(package.name for package in packages)),
        "config": configs[0] if len(configs) == 1 else "",
        "ops": ops,
        "unwritten": [op for op in ops if op.is_own],
    }
    planned = [PlannedFile(FILE, template="tests/op_tests.toml.mako", data=data, user_owned=True)]
    if data["unwritten"]:
        planned.append(PlannedFile(REFERENCES, template="tests/reference.py.mako", data=data, user_owned=True))
    return planned


def write(
    packages: Sequence[OpPackage], folder: Path, known: Mapping[str, KnownTests], *, log: Say = no_say
) -> list[Path]:
    """Write the files that do not exist yet; others are unchanged.  Returns what was written."""

    with opened(folder, log=log) as there, there.writing():
        missing = [file for file in files(packages, known) if not there.exists(file.path)]
        for file in missing:
            there.put(file.path, file.render())
    return [folder / file.path for file in missing]


class _TestedOp(NamedTuple):
    name: str
    config: str
    function: str
    reference: str
    is_own: bool  # its reference is a function of the file of references
    signature: str
    body: str
    params: str
    shapes: str
    cases: str


def run_arguments(op: Op, folder: str, shapes: Mapping[str, Sequence[int]] | None = None) -> list[str]:
    """The arguments of `udogen` for one execution of an op on random numbers, with these or fitting shapes."""
    words, usual = ["run", "op", folder, op.name], shapes_of(op.inputs)
    for tensor in op.inputs:
        if shapes and tensor.name in shapes:
            words += ["--input", f"{tensor.name}={'x'.join(map(str, shapes[tensor.name]))}"]
        elif tensor.mandatory:
            words += ["--input", f"{tensor.name}={(usual or shapes_of([tensor]) or ['1'])[-1]}"]
    for param in op.params:
        if param.mandatory and param.default is None:
            words += ["--param", f"{param.name}={example_value(param)}"]
    return words


def _view(op: Op, known: KnownTests) -> _TestedOp:
    function = snake_case(op.name)
    answer = " and ".join(f"`{output.name}`" for output in op.outputs) or "nothing"
    todo = f'raise NotImplementedError("write what {op.name} computes, and return {answer}")'
    return _TestedOp(
        name=toml_text(op.name),
        config=toml_text(known.config) if known.config else "",
        function=function,
        reference=toml_text(known.reference or f"{REFERENCES}:{function}"),
        is_own=not known.reference,
        signature=_signature(op),
        body=known.body or todo,
        params=", ".join(_param(param) for param in op.params),
        shapes=", ".join(json.dumps(shape) for shape in shapes_of(op.inputs)),
        cases=known.cases,
    )


def snake_case(name: str) -> str:
    """`LeakyRelu` -> `leaky_relu`, `AddSatU8` -> `add_sat_u8`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return f"{words}_" if keyword.iskeyword(words) else words


def _signature(op: Op) -> str:
    """Inputs by position, parameters by name; `**params` if a name is not valid in Python."""
    inputs = [_identifier(tensor.name, f"input_{number}") for number, tensor in enumerate(op.inputs)]
    params = [param.name for param in op.params]
    named = all(name.isidentifier() and not keyword.iskeyword(name) and name not in inputs for name in params)
    return ", ".join([*inputs, *(params if named else ["**params"])])


def _identifier(name: str, otherwise: str) -> str:
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return plain if plain.isidentifier() and not keyword.iskeyword(plain) else otherwise


def _param(param: Tensor) -> str:
    """`axis = ["default", 0]`: the config's default, or a value that fits its type."""
    key = param.name if re.fullmatch(r"[A-Za-z0-9_-]+", param.name) else toml_text(param.name)
    if param.default is not None:
        return f'{key} = "default"'
    return f"{key} = {example_value(param)}"


def example_value(param: Tensor) -> str:
    """A value that fits its type and rank, in TOML and JSON."""
    rank = 0 if param.is_scalar else max(1, min(param.rank.ranks or (1,)))
    return f"{'[' * rank}{_element(param)}{']' * rank}"


def _element(param: Tensor) -> str:
    if param.enum:
        return json.dumps(param.enum[0])
    kind = param.datatypes[0].kind
    ones: dict[str, Value] = {"float": 1.0, "bool": True, "string": "text"}
    return json.dumps(ones.get(kind, 1))


def shapes_of(tensors: Sequence[Tensor]) -> list[str]:
    """Shapes that the ranks of all tensors allow."""
    ranks = [set(tensor.rank.ranks) for tensor in tensors if tensor.rank.ranks]
    if not ranks:
        return list(_OF_ANY_RANK)
    return ["x".join(map(str, shape)) for shape in _SHAPES if all(len(shape) in allowed for allowed in ranks)]
