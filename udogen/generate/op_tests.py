"""First tests: a test file for `udogen test`, and skeletons of its references."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from udogen.backends.plan import PlannedFile
from udogen.build.package import Say, no_say
from udogen.errors import UsageError
from udogen.generate.folder import opened
from udogen.opdef.model import Op, OpPackage, Tensor, Value

FILE = "op_tests.toml"
REFERENCES = "op_reference.py"
_SHAPES = ((7,), (3, 5), (2, 5, 7), (1, 8, 8, 16), (2, 3, 4, 5, 6))
_OF_ANY_RANK = ("7", "3x5", "1x8x8x16")


def files(packages: Sequence[OpPackage], *, config: str = "") -> list[PlannedFile]:
    """Both files; `config` is named if no packages are beside them."""
    data = {
        "package": ", ".join(dict.fromkeys(each.name for each in packages)),
        "config": json.dumps(config, ensure_ascii=False) if config else "",
        "ops": [_view(op) for package in packages for op in package.ops],
    }
    return [
        PlannedFile(FILE, template="tests/op_tests.toml.mako", data=data, user_owned=True),
        PlannedFile(REFERENCES, template="tests/op_reference.py.mako", data=data, user_owned=True),
    ]


def write(packages: Sequence[OpPackage], folder: Path, *, config: str = "", log: Say = no_say) -> list[Path]:
    """Write the files that do not exist yet; return those."""
    from udogen.generate.render import render_file

    refuse_links(folder)
    with opened(folder, log=log) as target, target.writing():
        missing = [file for file in files(packages, config=config) if not target.exists(file.path)]
        for file in missing:
            target.put(file.path, render_file(file))
    return [folder / file.path for file in missing]


def refuse_links(folder: Path) -> None:
    """Raise for a broken link with the name of a file that would be written."""
    for name in (FILE, REFERENCES):
        path = folder / name
        if path.is_symlink() and not path.exists():
            raise UsageError(
                f"{path} is a link to {path.readlink()}, which does not exist",
                hint="remove the link, or create its target",
            )


class _TestedOp(NamedTuple):
    name: str
    plain: str
    function: str
    reference: str
    signature: str
    answer: str
    params: str
    shapes: str


def _view(op: Op) -> _TestedOp:
    function = snake_case(op.name)
    return _TestedOp(
        name=json.dumps(op.name),
        plain=op.name,
        function=function,
        reference=json.dumps(f"{REFERENCES}:{function}"),
        signature=_signature(op),
        answer=" and ".join(f"`{each.name}`" for each in op.outputs) or "nothing",
        params=", ".join(_param(each) for each in op.params),
        shapes=", ".join(json.dumps(shape) for shape in _shapes(op)),
    )


def snake_case(name: str) -> str:
    """`LeakyRelu` -> `leaky_relu`, `AddSatU8` -> `add_sat_u8`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return f"{words}_" if keyword.iskeyword(words) else words


def _signature(op: Op) -> str:
    """Inputs by position, parameters by name; `**params` if a name is not valid in Python."""
    inputs = [_identifier(each.name, f"input_{number}") for number, each in enumerate(op.inputs)]
    params = [each.name for each in op.params]
    named = all(each.isidentifier() and not keyword.iskeyword(each) and each not in inputs for each in params)
    return ", ".join([*inputs, *(params if named else ["**params"])])


def _identifier(name: str, otherwise: str) -> str:
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return plain if plain.isidentifier() and not keyword.iskeyword(plain) else otherwise


def _param(param: Tensor) -> str:
    """`axis = ["default", 0]`: the config's default, or a value that fits its type."""
    key = param.name if re.fullmatch(r"[A-Za-z0-9_-]+", param.name) else json.dumps(param.name)
    if param.default is not None:
        return f'{key} = "default"'
    value = _value(param)
    rank = 0 if param.is_scalar else max(1, min(param.rank.ranks or (1,)))
    return f"{key} = {'[' * rank}{value}{']' * rank}"


def _value(param: Tensor) -> str:
    if param.enum:
        return json.dumps(param.enum[0])
    kind = param.datatypes[0].kind
    ones: dict[str, Value] = {"float": 1.0, "bool": True, "string": "text"}
    return json.dumps(ones.get(kind, 1))


def _shapes(op: Op) -> list[str]:
    ranks = [set(each.rank.ranks) for each in op.inputs if each.rank.ranks]
    if not ranks:
        return list(_OF_ANY_RANK)
    return ["x".join(map(str, shape)) for shape in _SHAPES if all(len(shape) in each for each in ranks)]
