"""The connections of the graphs of a model, by links and state; nothing is restored.

Types and shapes of connected tensors are checked when a buffer is allocated for them (`buffers/domains.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from udogen.errors import UsageError, nearest
from udogen.findings import Location, suggestion
from udogen.qnn.system import BinaryInfo, GraphInfo
from udogen.qnn.tensors import QnnTensor
from udogen.runtime import arguments

_HINT = 'links and state are {"input": "output"}, for example {"hidden": "hidden_out"} or {"past_key": "key"}'
_TWICE = "leave out one of the two"
_ORDER = "contexts run in the order in which they are given, and read outputs of earlier ones"

End = tuple[int, str]  # a tensor of a chain: stage and name
Place = Callable[[str, str], Location]  # of a key of the description and a row of its table


@dataclass(frozen=True)
class Connection:
    """An output of one graph, and the inputs of later graphs that read it: (stage, tensor)."""

    source: int
    output: QnnTensor
    targets: tuple[tuple[int, QnnTensor], ...]

    @property
    def name(self) -> str:
        """The output's name with the number of its stage."""
        return f"{self.source}.{self.output.name}"


@dataclass(frozen=True)
class OuterTensor:
    """An input or output of a chain that its caller passes or receives; inputs of the same name and kind are one."""

    name: str
    info: QnnTensor
    ends: tuple[End, ...]


@dataclass(frozen=True)
class GraphChain:
    """The graphs that one step executes, in order (those of one name, in each context that has it), and their tensors.

    `inputs` and `outputs` are left to the caller.
    """

    name: str
    contexts: tuple[int, ...]
    stages: tuple[GraphInfo, ...]
    connections: tuple[Connection, ...] = ()
    inputs: tuple[OuterTensor, ...] = ()
    outputs: tuple[OuterTensor, ...] = ()


@dataclass(frozen=True)
class StateTensor:
    """A state in one context: in each chain the input that reads it and the output that writes it; "": none."""

    context: int
    key: str  # the input that reads it
    uses: Mapping[str, tuple[str, str]]  # chain -> (input, output)
    info: QnnTensor


@dataclass(frozen=True)
class Wiring:
    """A whole model: its chains and states."""

    contexts: tuple[str, ...]
    chains: tuple[GraphChain, ...]
    states: tuple[StateTensor, ...]
    links: Mapping[str, str]
    state: Mapping[str, str]

    def chain(self, name: str) -> GraphChain:
        """A chain by its name."""
        return next(chain for chain in self.chains if chain.name == name)


def wire(
    infos: Sequence[tuple[str, BinaryInfo]],
    *,
    graphs: Sequence[str] = (),
    links: Mapping[str, str],
    state: Mapping[str, str],
    place: Place = lambda _key, _row: Location(""),
) -> Wiring:
    """Connect the graphs of a model.

    `place` returns the file and the line of a row of `links` or `state`, or of `graphs`, for errors.

    `wiring = wire([("forward_0", info)], links={}, state={"past_key": "key"})`
    """
    chains = _chains([info for _, info in infos], graphs, place)
    wirer = _Wirer(tuple(name for name, _ in infos), links, state, place)
    wirer.check_names(chains)
    wirer.stop_if_any()
    states = tuple(wirer.states(chains))
    connected = tuple(wirer.connected(chain, states) for chain in chains)
    wirer.check_links()
    wirer.stop_if_any()
    return Wiring(wirer.names, connected, states, links, state)


def located(location: Location, message: str) -> str:
    """A message with the place that it is about, if that is in a file."""
    return f"{location}: {message}" if location.file else message


def _chains(infos: Sequence[BinaryInfo], wanted: Sequence[str], place: Place) -> list[GraphChain]:
    """The chains of some contexts: all, or those in `wanted` in that order."""
    known = {chain.name: chain for chain in _all_chains(infos)}
    strange = [name for name in wanted if name not in known]
    if strange or not known:
        message = f"the model has no graph `{strange[0]}`" if strange else "the contexts of the model have no graph"
        it_has = f"it has: {', '.join(known) or 'none'}"
        hint = suggestion(strange[0], known, it_has) if strange else it_has
        raise UsageError(located(place("graphs", ""), message), hint=hint)
    if wanted:
        return [known[name] for name in dict.fromkeys(wanted)]
    # Not all runtimes keep the order of graphs: sort by input size, so that a prompt comes before a token.
    return sorted(known.values(), key=lambda chain: -sum(tensor.nbytes for tensor in chain.stages[0].inputs))


def _all_chains(infos: Sequence[BinaryInfo]) -> Iterator[GraphChain]:
    if all(len(info.graphs) == 1 for info in infos):  # a single chain, regardless of their names
        stages = tuple(info.graphs[0] for info in infos)
        yield GraphChain(stages[0].name, tuple(range(len(infos))), stages)
        return
    for name in dict.fromkeys(graph.name for info in infos for graph in info.graphs):
        having = [number for number, info in enumerate(infos) if any(graph.name == name for graph in info.graphs)]
        yield GraphChain(name, tuple(having), tuple(infos[number].graph(name) for number in having))


class _Wirer:
    """Connects chains by links and state, and collects their errors."""

    def __init__(
        self, names: tuple[str, ...], links: Mapping[str, str], state: Mapping[str, str], place: Place
    ) -> None:
        self.names = names
        self._links, self._state, self._place = links, state, place
        self._faults: dict[str, str] = {}  # the sentence -> its hint
        self._used: set[str] = set()  # links that connect something, or have a fault already

    def _fault(self, key: str, row: str, message: str, hint: str) -> None:
        self._faults[located(self._place(key, row), message)] = hint

    def stop_if_any(self) -> None:
        """Raise if there are errors."""
        if self._faults:
            hints = {*self._faults.values()}
            hint = hints.pop() if len(hints) == 1 else _HINT
            raise arguments.faulty([*self._faults], "links and states are wrong", hint=hint)

    def check_names(self, chains: Sequence[GraphChain]) -> None:
        """Names must be those of tensors, and a tensor has one writer."""
        stages = [stage for chain in chains for stage in chain.stages]
        inputs = dict.fromkeys(tensor.name for stage in stages for tensor in stage.inputs)
        outputs = dict.fromkeys(tensor.name for stage in stages for tensor in stage.outputs)
        for reads, writes in self._links.items():
            self._check_name("links", reads, f"link `{reads}={writes}`", "input", _plain(reads), inputs)
            self._check_name("links", reads, f"link `{reads}={writes}`", "output", _plain(writes), outputs)
            if _plain(reads) in self._state:
                self._fault("links", reads, f"input `{reads}` has two writers: a link and a state", _TWICE)
        for reads, writes in self._state.items():
            self._check_name("state", reads, f"state `{reads}={writes}`", "input", reads, inputs)
            self._check_name("state", reads, f"state `{reads}={writes}`", "output", writes, outputs)
            first = next(other for other, output in self._state.items() if output == writes)
            if first != reads:
                text = f"output `{writes}` is the next value of the states `{first}` and `{reads}`"
                self._fault("state", reads, text, _TWICE)

    def _check_name(self, key: str, row: str, what: str, side: str, name: str, known: Collection[str]) -> None:
        if name not in known:
            near = nearest(name, known)
            guess = f": did you mean `{near}`?" if near else f"; they have: {', '.join(known) or 'none'}"
            self._fault(key, row, f"{what}: no graph has the {side} `{name}`{guess}", _HINT)

    def states(self, chains: Sequence[GraphChain]) -> Iterator[StateTensor]:
        """The states of each context."""
        for context in range(len(self.names)):
            here = {
                chain.name: chain.stages[chain.contexts.index(context)] for chain in chains if context in chain.contexts
            }
            yield from filter(None, (self._state_in(context, here, *row) for row in self._state.items()))

    def _state_in(self, context: int, here: Mapping[str, GraphInfo], reads: str, writes: str) -> StateTensor | None:
        """A state in the graphs of one context, by chain; None if they do not have it."""
        ends = {chain: (_named(stage.inputs, reads), _named(stage.outputs, writes)) for chain, stage in here.items()}
        tensors = [tensor for pair in ends.values() for tensor in pair if tensor is not None]
        if not tensors:
            return None
        if not any(written for _, written in ends.values()):
            text = f"state `{reads}` of context {self.names[context]} has no output: no graph there writes `{writes}`"
            self._fault("state", reads, text, _HINT)
        uses = {
            chain: (reads if read else "", writes if written else "")
            for chain, (read, written) in ends.items()
            if read or written
        }
        return StateTensor(context, reads, uses, tensors[0])

    def connected(self, chain: GraphChain, states: Iterable[StateTensor]) -> GraphChain:
        """A chain with its connections, and what is left to the caller."""
        stateful = {
            (chain.contexts.index(state.context), name)
            for state in states
            if state.context in chain.contexts
            for name in state.uses.get(chain.name, ())
        }
        connections = tuple(self._connections(chain, stateful))
        inside = {(connection.source, connection.output.name) for connection in connections} | stateful
        inside |= {(stage, tensor.name) for connection in connections for stage, tensor in connection.targets}
        inputs = tuple(_outer([stage.inputs for stage in chain.stages], inside, shared=True))
        outputs = tuple(_outer([stage.outputs for stage in chain.stages], inside, shared=False))
        return replace(chain, connections=connections, inputs=inputs, outputs=outputs)

    def _connections(self, chain: GraphChain, stateful: Collection[End]) -> Iterator[Connection]:
        """Connect each input to the nearest earlier output of its name; other inputs come from outside.

        Links map inputs to outputs of other names: {"hidden": "hidden_out"} for every stage that has that input, or
        {"3.hidden": "1.hidden_out"} for one of them.
        """
        readers: dict[End, list[tuple[int, QnnTensor]]] = {}
        for number, stage in enumerate(chain.stages):
            for tensor in stage.inputs:
                if (number, tensor.name) in stateful:
                    continue
                of_one = f"{number}.{tensor.name}"
                link = next((key for key in (of_one, tensor.name) if key in self._links), "")
                wanted = self._links.get(link, tensor.name)
                source = _source(chain.stages[:number], wanted, stateful)
                if source is not None:
                    self._used.add(link)
                    readers.setdefault(source, []).append((number, tensor))
                elif link and (number > 0 or link == of_one):
                    self._used.add(link)
                    reader = f"input `{tensor.name}` of {self.names[chain.contexts[number]]}"
                    text = f"graph `{chain.name}`: {reader}: nothing before it has an output `{wanted}`"
                    self._fault("links", link, text, _ORDER)
        for end in sorted(readers):
            output = _named(chain.stages[end[0]].outputs, end[1])
            assert output is not None
            yield Connection(end[0], output, tuple(readers[end]))

    def check_links(self) -> None:
        """Each link must connect something."""
        for reads, writes in self._links.items():
            if reads not in self._used:
                why = f"no context before one with that input writes `{writes}`"
                self._fault("links", reads, f"link `{reads}={writes}` connects nothing: {why}", _ORDER)


def _plain(name: str) -> str:
    """The name of a tensor without the number of its stage."""
    number, _, rest = name.partition(".")
    return rest if number.isdigit() and rest else name


def _named(side: Sequence[QnnTensor], name: str) -> QnnTensor | None:
    return next((tensor for tensor in side if tensor.name == name), None)


def _source(before: Sequence[GraphInfo], wanted: str, stateful: Collection[End]) -> End | None:
    """The nearest earlier stage that writes an output, and the output's name there."""
    number, _, name = wanted.partition(".")
    if number.isdigit() and int(number) < len(before) and _named(before[int(number)].outputs, name):
        return int(number), name
    ends = ((stage, wanted) for stage in range(len(before) - 1, -1, -1) if _named(before[stage].outputs, wanted))
    return next((end for end in ends if end not in stateful), None)


def _outer(sides: Sequence[Sequence[QnnTensor]], inside: Collection[End], *, shared: bool) -> Iterator[OuterTensor]:
    """The tensors of stages that are not in `inside`; equal inputs of one name are one, others are `stage.name`."""
    outside: dict[str, list[tuple[int, QnnTensor]]] = {}
    for stage, side in enumerate(sides):
        for tensor in side:
            if (stage, tensor.name) not in inside:
                outside.setdefault(tensor.name, []).append((stage, tensor))
    for name, ends in outside.items():
        kinds = [(tensor.dtype, tensor.shape, tensor.quant) for _, tensor in ends]
        if len(ends) == 1 or (shared and all(kind == kinds[0] for kind in kinds)):
            yield OuterTensor(name, ends[0][1], tuple((stage, name) for stage, _ in ends))
        else:
            for stage, tensor in ends:
                yield OuterTensor(f"{stage}.{name}", tensor, ((stage, name),))
