"""Connections between graphs that run one after another: outputs that are inputs of later graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from udogen.qnn.system import GraphInfo, TensorInfo


@dataclass(frozen=True)
class Connection:
    """An output of one graph, and the inputs of later graphs that read it: (stage, tensor)."""

    source: int
    output: TensorInfo
    targets: tuple[tuple[int, TensorInfo], ...]

    @property
    def name(self) -> str:
        """The output's name with the number of its stage."""
        return f"{self.source}.{self.output.name}"


MISSING, UNEQUAL, UNKNOWN = "missing", "unequal", "unknown"


class LinkFault(NamedTuple):
    """A fault of a connection: no such output, tensors that differ, no such input."""

    kind: str
    link: str  # "" for tensors of one name
    text: str


@dataclass(frozen=True)
class OuterTensor:
    """An input or output of a chain that its caller passes or receives; inputs of the same name and kind are one."""

    name: str
    info: TensorInfo
    ends: tuple[tuple[int, str], ...]  # (stage, tensor)


def connect(
    stages: Sequence[GraphInfo], *, links: Mapping[str, str], apart: Collection[tuple[int, str]], places: Sequence[str]
) -> tuple[tuple[Connection, ...], list[LinkFault]]:
    """Connect each input to the nearest earlier output of its name; other inputs come from outside.

    `links` maps inputs to outputs of other names: {"hidden": "hidden_out"} for every stage that has that input, or
    {"3.hidden": "1.hidden_out"} for one of them.  `apart` are tensors to leave out: (stage, name).
    Faults contain the `places` of stages.
    """
    used, faults = set[str](), list[LinkFault]()
    found: dict[tuple[int, str], list[tuple[int, TensorInfo]]] = {}
    for number, stage in enumerate(stages):
        for tensor in stage.inputs:
            if (number, tensor.name) in apart:
                continue
            of_one = f"{number}.{tensor.name}"
            key = of_one if of_one in links else tensor.name if tensor.name in links else ""
            wanted = links.get(key, tensor.name)
            source = _source(stages[:number], wanted, apart)
            used |= {key}
            if source is None:
                if key and (number > 0 or key == of_one):
                    why = _missing(stages[:number], wanted, apart)
                    text = f"input `{tensor.name}` of {places[number]}: {why} `{wanted}`"
                    faults.append(LinkFault(MISSING, key, text))
                continue
            output = _tensor(stages[source[0]].outputs, source[1])
            first = f"output `{output.name}` of {places[source[0]]} (graph `{stages[source[0]].name}`)"
            second = f"input `{tensor.name}` of {places[number]} (graph `{stage.name}`)"
            faults += [LinkFault(UNEQUAL, key, text) for text in _mismatch(first, output, second, tensor)]
            found.setdefault(source, []).append((number, tensor))
    faults += [LinkFault(UNKNOWN, key, f"there is no input `{key}`") for key in links if key not in used]
    made = tuple(
        Connection(stage, _tensor(stages[stage].outputs, name), tuple(found[stage, name]))
        for stage, name in sorted(found)
    )
    return made, faults


def _missing(before: Sequence[GraphInfo], output: str, apart: Collection[tuple[int, str]]) -> str:
    is_state = any(_has(stage, output) and (number, output) in apart for number, stage in enumerate(before))
    return "a state has the output" if is_state else "nothing before it has an output"


def links_of(stages: Sequence[GraphInfo], links: Mapping[str, str]) -> dict[str, str]:
    """The links of a whole model whose inputs are those of these stages."""
    known = {each.name for stage in stages for each in stage.inputs}
    known |= {f"{number}.{each.name}" for number, stage in enumerate(stages) for each in stage.inputs}
    return {reads: writes for reads, writes in links.items() if reads in known}


def _source(before: Sequence[GraphInfo], wanted: str, apart: Collection[tuple[int, str]]) -> tuple[int, str] | None:
    """The nearest earlier stage that writes an output, and the output's name there."""
    number, _, name = wanted.partition(".")
    if number.isdigit() and int(number) < len(before) and _has(before[int(number)], name):
        return int(number), name
    for index in range(len(before) - 1, -1, -1):
        if _has(before[index], wanted) and (index, wanted) not in apart:
            return index, wanted
    return None


def _has(stage: GraphInfo, name: str) -> bool:
    return any(each.name == name for each in stage.outputs)


def _tensor(side: Sequence[TensorInfo], name: str) -> TensorInfo:
    return next(each for each in side if each.name == name)


def _mismatch(first: str, output: TensorInfo, second: str, tensor: TensorInfo) -> list[str]:
    """Why two tensors cannot share memory."""
    if (output.dtype, output.shape) != (tensor.dtype, tensor.shape):
        return [f"{first} is {output.dtype} {list(output.shape)}, {second} is {tensor.dtype} {list(tensor.shape)}"]
    if output.quant != tensor.quant:
        return [f"{first} and {second} {different(output, tensor)}"]
    return []


def different(one: TensorInfo, other: TensorInfo) -> str:
    """A phrase that two quantizations differ, with their numbers if they are scale and offset."""
    pairs = [each.scale_offset for each in (one, other)]
    shown = " and ".join(f"scale {pair[0]:.9g}, offset {pair[1]}" for pair in pairs if pair)
    return "have different quantizations" + (f": {shown}" if all(pairs) else "")


def outer_tensors(
    sides: Sequence[Sequence[TensorInfo]], inside: Collection[tuple[int, str]], *, shared: bool
) -> Iterator[OuterTensor]:
    """The tensors of stages that are not in `inside`; equal inputs of one name are one, others are `stage.name`."""
    found: dict[str, list[tuple[int, TensorInfo]]] = {}
    for number, side in enumerate(sides):
        for tensor in side:
            if (number, tensor.name) not in inside:
                found.setdefault(tensor.name, []).append((number, tensor))
    for name, places in found.items():
        kinds = {(each.dtype, each.shape, each.quant) for _, each in places}
        if len(places) == 1 or (shared and len(kinds) == 1):
            yield OuterTensor(name, places[0][1], tuple((number, name) for number, _ in places))
        else:
            for number, each in places:
                yield OuterTensor(f"{number}.{name}", each, ((number, name),))
