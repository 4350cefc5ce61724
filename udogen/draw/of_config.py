"""A config -> scene: each op with its inputs on the left and its outputs on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from udogen.draw.scene import Box, Row, Scene, Section, head, quiet
from udogen.opdef import values
from udogen.opdef.model import Op, OpPackage, Tensor


def scene(packages: Sequence[OpPackage], name: str) -> Scene:
    """The ops of all packages."""
    sections = tuple(_op(op, package) for package in packages for op in package.ops)
    count = len(sections)
    ops = "1 op with its tensors." if count == 1 else f"{count} ops with their tensors."
    told = f"{', '.join(package.name for package in packages)}: {ops}"
    return Scene(name, told, sections, {"kind": "config", "packages": [package.name for package in packages]})


def _op(op: Op, package: OpPackage) -> Section:
    rows = [head(op.name), quiet(" ".join(op.backends) or "no backend")]
    rows += [Row(_param(each)) for each in op.params]
    middle = Box("op", "op", tuple(rows), _told(op))
    sides = [*(_tensor(each, op, package) for each in (*op.inputs, *op.outputs))]
    edges = [(box.id, "op") if box.id.startswith("in ") else ("op", box.id) for box in sides]
    return Section(f"{package.name}::{op.name}", (middle, *sides), tuple(edges), sides=True)


def _told(op: Op) -> str:
    described = " ".join(passage.text for passage in op.description if not passage.code)
    return f"op {op.name}: {len(op.inputs)} in, {len(op.outputs)} out, {len(op.params)} parameters. {described}".strip()


def _param(param: Tensor) -> str:
    default = param.default_text if param.default is None else values.show(param.default)
    if isinstance(param.default, int) and 0 <= param.default < len(param.enum):
        default = param.enum[param.default]
    kind = "|".join(param.enum) if param.enum else _types(param)
    rank = "" if param.is_scalar else f" {param.rank}"
    return f"{param.name}: {kind}{rank}" + (f" = {default}" if default else "" if param.mandatory else " (optional)")


def _tensor(tensor: Tensor, op: Op, package: OpPackage) -> Box:
    rows = [head(tensor.name), quiet(_types(tensor)), quiet(", ".join([tensor.role, *_words(tensor)]))]
    said = [
        f"{each.backend}: {' '.join(row.name for row in entry.datatypes)}"
        for each in package.supplements
        for part in each.ops
        if part.name == op.name
        for entry in part.tensors
        if (entry.role, entry.name) == (tensor.role, tensor.name) and entry.datatypes
    ]
    if tensor.backend_specific and said:
        rows[1:2] = [quiet(text) for text in said]
    kind = "static" if tensor.static else tensor.role
    told = f"{tensor.role} {tensor.name}: {_types(tensor)}, {', '.join([*_words(tensor), *said])}"
    return Box(f"{'in' if tensor.role == 'input' else 'out'} {tensor.name}", kind, tuple(rows), told)


def _types(tensor: Tensor) -> str:
    return " ".join(row.name for row in tensor.datatypes) or "any type"


def _words(tensor: Tensor) -> Iterator[str]:
    yield str(tensor.rank) + (f" {tensor.layout}" if tensor.layout else "")
    if not tensor.mandatory:
        yield "optional"
    if tensor.repeated:
        yield "repeated"
    if tensor.static:
        yield "constant"
