"""Connections between graphs that run one after another: outputs that are inputs of later graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from udogen.runtime import arguments

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo


class Stage(Protocol):
    """A graph of a chain: a `Graph` or a `GraphInfo`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Its inputs."""
        ...

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Its outputs."""
        ...


@dataclass(frozen=True)
class Connection:
    """An output of one graph, and the inputs of later graphs that read it: (stage, tensor).

    `print(connection.name, connection.nbytes)`
    """

    source: int
    output: TensorInfo
    targets: tuple[tuple[int, TensorInfo], ...]

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self.output.nbytes

    @property
    def name(self) -> str:
        """The output's name with the number of its stage."""
        return f"{self.source}.{self.output.name}"


@dataclass(frozen=True)
class OuterTensor:
    """An input or output of a chain that its caller gives or gets; inputs of one name and kind are one."""

    name: str
    info: TensorInfo
    ends: tuple[tuple[int, str], ...]  # (stage, tensor)


def find_connections(
    stages: Sequence[Stage],
    *,
    links: Mapping[str, str] | None = None,
    apart: Collection[tuple[int, str]] = (),
    names: Sequence[str] = (),
) -> tuple[Connection, ...]:
    """Connect each input to the nearest earlier output of its name; other inputs come from outside.

    `links` maps inputs to outputs of other names: {"hidden": "hidden_out"} for every stage that has that input, or
    {"3.hidden": "1.hidden_out"} for one of them.  `apart` are tensors to leave out: (stage, name).
    Errors have the `names` of stages, or else their numbers.

    `connections = find_connections(stages, links={"hidden": "hidden_out"})`
    """
    given, places = dict(links or {}), names or [f"stage {number}" for number in range(len(stages))]
    used, faults = set[str](), []
    found: dict[tuple[int, str], list[tuple[int, TensorInfo]]] = {}
    for number, stage in enumerate(stages):
        for tensor in stage.inputs:
            if (number, tensor.name) in apart:
                continue
            key = f"{number}.{tensor.name}"
            key = key if key in given else tensor.name
            source = _source(stages[:number], given.get(key, tensor.name), apart)
            if key in given:
                used.add(key)
                if source is None and number > 0:
                    why = _missing(stages[:number], given[key], apart)
                    faults.append(f"input `{tensor.name}` of {places[number]}: {why} `{given[key]}`")
            if source is None:
                continue
            output = _tensor(stages[source[0]].outputs, source[1])
            first = f"output `{output.name}` of {places[source[0]]} (graph `{stages[source[0]].name}`)"
            second = f"input `{tensor.name}` of {places[number]} (graph `{stage.name}`)"
            faults += _mismatch(first, output, second, tensor)
            found.setdefault(source, []).append((number, tensor))
    faults += [f"there is no input `{name}`" for name in given if name not in used]
    if faults:
        raise arguments.faulty(
            faults,
            "links are wrong",
            before="the graphs cannot be connected: ",
            hint='links are {"input": "output"}, or {"stage.input": "stage.output"} with numbers of stages from 0 on',
        )
    return tuple(
        Connection(stage, _tensor(stages[stage].outputs, name), tuple(found[stage, name]))
        for stage, name in sorted(found)
    )


def _missing(before: Sequence[Stage], output: str, apart: Collection[tuple[int, str]]) -> str:
    is_state = any(_has(stage, output) and (number, output) in apart for number, stage in enumerate(before))
    return "a state has the output" if is_state else "nothing before it has an output"


def links_of(stages: Sequence[Stage], links: Mapping[str, str]) -> dict[str, str]:
    """Those links of a whole model whose input one of these stages has."""
    known = {each.name for stage in stages for each in stage.inputs}
    known |= {f"{number}.{each.name}" for number, stage in enumerate(stages) for each in stage.inputs}
    return {reads: writes for reads, writes in links.items() if reads in known}


def _source(before: Sequence[Stage], wanted: str, apart: Collection[tuple[int, str]]) -> tuple[int, str] | None:
    """The nearest stage that writes it, and its name there."""
    number, _, name = wanted.partition(".")
    if number.isdigit() and int(number) < len(before) and _has(before[int(number)], name):
        return int(number), name
    for index in range(len(before) - 1, -1, -1):
        if _has(before[index], wanted) and (index, wanted) not in apart:
            return index, wanted
    return None


def _has(stage: Stage, name: str) -> bool:
    return any(each.name == name for each in stage.outputs)


def _tensor(side: Sequence[TensorInfo], name: str) -> TensorInfo:
    return next(each for each in side if each.name == name)


def _mismatch(first: str, output: TensorInfo, second: str, tensor: TensorInfo) -> list[str]:
    """Why two tensors cannot share memory."""
    if (output.dtype, output.shape) != (tensor.dtype, tensor.shape):
        return [f"{first} is {output.dtype} {list(output.shape)}, {second} is {tensor.dtype} {list(tensor.shape)}"]
    if output.quant != tensor.quant:
        return [f"{first} and {second} have different quantizations"]
    return []


def outer_tensors(
    sides: Sequence[Sequence[TensorInfo]], inside: Collection[tuple[int, str]], *, shared: bool
) -> Iterator[OuterTensor]:
    """The tensors of some stages that are not inside: inputs of one name and kind are one, others `stage.name`."""
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
