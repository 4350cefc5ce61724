"""The ops and tensors of a config or a context binary, as lines of text and as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from udogen.opdef import values
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.tables import many, shape_text

_PLAIN = frozenset(" .,:;=()/-[]|+*_?")  # beside letters and digits; all else is a numbered entity in Mermaid text


@dataclass(frozen=True)
class ShownNode:
    """An op or a tensor: `kind` is op, custom, input, output or static."""

    id: str
    kind: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Edge:
    """From a producer to a consumer; the label is a tensor without a node."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True)
class Section:
    """A graph, or an op with its tensors."""

    title: str
    nodes: tuple[ShownNode, ...]
    edges: tuple[Edge, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class GraphView:
    """All sections of a file; `facts` are further fields of `--json`."""

    title: str
    description: str
    sections: tuple[Section, ...]
    facts: Mapping[str, object] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """A summary: sections with the number of their ops and tensors, and each custom op."""
        yield f"{self.title}: {self.description}"
        for section in self.sections:
            ops = [node for node in section.nodes if node.kind in ("op", "custom")]
            tensors = len(section.nodes) - len(ops)
            note = f"; {section.note}" if section.note else ""
            yield f"  {section.title}: {many(len(ops), 'op')}, {many(tensors, 'tensor')}{note}"
            yield from (f"    custom op {', '.join(node.lines)}" for node in ops if node.kind == "custom")

    def mermaid(self) -> Iterator[str]:
        """The flowchart in Mermaid's language, one line after the other."""
        yield "flowchart TD"
        for number, section in enumerate(self.sections):
            ids = {node.id: f"s{number}n{index}" for index, node in enumerate(section.nodes)}
            yield f'  subgraph s{number}["{_label([section.title])}"]'
            for node in section.nodes:
                opening, closing = ("[", "]") if node.kind in ("op", "custom") else ("([", "])")
                yield f'    {ids[node.id]}{opening}"{_label(node.lines)}"{closing}:::{node.kind}'
            for edge in section.edges:
                label = f'|"{_label([edge.label])}"|' if edge.label else ""
                yield f"    {ids[edge.source]} -->{label} {ids[edge.target]}"
            yield "  end"
        yield "  classDef custom stroke-width:4px"
        yield "  classDef static stroke-dasharray:4"

    def as_json(self) -> dict[str, object]:
        """The fields of `--json`."""
        sections = [asdict(section) for section in self.sections]
        return {"title": self.title, "description": self.description, **self.facts, "sections": sections}


def _label(lines: Sequence[str]) -> str:
    return "<br>".join("".join(_entity(char) for char in line) or "?" for line in lines)


def _entity(char: str) -> str:
    if char in _PLAIN or (char.isascii() and char.isalnum()):
        return char
    return f"#{ord(char)};" if char.isprintable() else "#65533;"


def shape_or_word(shape: Sequence[object] | None) -> str:
    """A shape as `1x3x8`, or words if it is unknown or a scalar."""
    return "of unknown shape" if shape is None else shape_text(shape) or "scalar"


def config_view(packages: Sequence[OpPackage], name: str) -> GraphView:
    """The ops of all packages with their tensors."""
    sections = tuple(_op_section(op, package) for package in packages for op in package.ops)
    ops = "1 op with its tensors." if len(sections) == 1 else f"{len(sections)} ops with their tensors."
    names = [package.name for package in packages]
    return GraphView(name, f"{', '.join(names)}: {ops}", sections, {"kind": "config", "packages": names})


def _op_section(op: Op, package: OpPackage) -> Section:
    rows = (op.name, " ".join(op.backends) or "no backend", *map(_param, op.params))
    sides = [
        ShownNode(
            f"{tensor.role} {tensor.name}",
            "static" if tensor.static else tensor.role,
            (tensor.name, *_facts(tensor, op, package)),
        )
        for tensor in (*op.inputs, *op.outputs)
    ]
    edges = [Edge(node.id, "op") if node.id.startswith("input ") else Edge("op", node.id) for node in sides]
    return Section(f"{package.name}::{op.name}", (ShownNode("op", "op", rows), *sides), tuple(edges))


def _param(param: Tensor) -> str:
    default = param.default_text if param.default is None else values.show(param.default)
    if isinstance(param.default, int) and 0 <= param.default < len(param.enum):
        default = param.enum[param.default]
    kind = "|".join(param.enum) if param.enum else _types(param)
    rank = "" if param.is_scalar else f" {param.rank}"
    return f"{param.name}: {kind}{rank}" + (f" = {default}" if default else "" if param.mandatory else " (optional)")


def _types(tensor: Tensor) -> str:
    return " ".join(row.name for row in tensor.datatypes) or "any type"


def _facts(tensor: Tensor, op: Op, package: OpPackage) -> tuple[str, ...]:
    types = [
        f"{supplement.backend}: {' '.join(row.name for row in entry.datatypes)}"
        for supplement in package.supplements
        for part in supplement.ops
        for entry in part.tensors
        if part.name == op.name and (entry.role, entry.name) == (tensor.role, tensor.name) and entry.datatypes
    ]
    flags = {"optional": not tensor.mandatory, "repeated": tensor.repeated, "constant": tensor.static}
    rank = str(tensor.rank) + (f" {tensor.layout}" if tensor.layout else "")
    shown = types if tensor.backend_specific and types else [_types(tensor)]
    return *shown, ", ".join([rank, *(word for word, holds in flags.items() if holds)])
