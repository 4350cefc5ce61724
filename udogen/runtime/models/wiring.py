"""The connections of the graphs of a model: checked, or proposed from names, types and shapes; nothing is restored."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from udogen.errors import UsageError
from udogen.findings import Finding, Location, nearest, suggestion
from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo
from udogen.runtime import arguments

_HINT = 'links and state are {"input": "output"}, as {"hidden": "hidden_out"}, {"past_key": "key"}'
_TWICE = "leave out one of the two"
_EQUAL = "both are the same memory: their types, shapes and quantizations must be equal"
_ORDER = "contexts run in the order in which they are given, and read outputs of earlier ones"

End = tuple[int, str]  # a tensor of a chain: stage and name
Place = Callable[[str, str], Location]  # of a key of the description and a row of its table


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


@dataclass(frozen=True)
class OuterTensor:
    """An input or output of a chain that its caller passes or receives; inputs of the same name and kind are one."""

    name: str
    info: TensorInfo
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
    info: TensorInfo


@dataclass(frozen=True)
class Wiring:
    """A whole model: chains, states, and readable lines for everything that was proposed rather than given.

    `print(wiring.links, wiring.proposed)`
    """

    contexts: tuple[str, ...]
    chains: tuple[GraphChain, ...]
    states: tuple[StateTensor, ...]
    links: Mapping[str, str]
    state: Mapping[str, str]
    proposed: tuple[str, ...] = ()

    def chain(self, name: str) -> GraphChain:
        """A chain by its name."""
        return next(chain for chain in self.chains if chain.name == name)


def wire(
    infos: Sequence[tuple[str, BinaryInfo]],
    *,
    graphs: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
    state: Mapping[str, str] | None = None,
    until: str = "",
    place: Place = lambda _key, _row: Location(""),
) -> Wiring:
    """Connect the graphs of a model; arguments that are None are proposed.  All faults are reported in one error.

    `until` is the last context, by name or number; later ones are checked and then omitted.
    `place` returns the file and the line of a row of `links` or `state`, or of `graphs` and `until`, for errors.

    `wiring = wire([("forward_0", info)], state={"past_key": "key"})`
    """
    names, chains = tuple(name for name, _ in infos), _chains([info for _, info in infos], graphs, place)
    proposed: list[str] = []
    if state is None:
        state = _proposed_state(chains)
        proposed += [f"state {reads} = {writes}" for reads, writes in state.items()]
    if links is None:
        links = _proposed_links(chains, state)
        proposed += [f"link {reads} = {writes}" for reads, writes in links.items()]
    states, faults = _states(chains, names, state, place)
    faults = [*_unknown(chains, links, state, place), *_two_writers(links, state, place), *faults]
    if not faults:
        chains, faults = _all_connected(chains, names, links, states, place)
    if faults:
        hints = {fault.hint for fault in faults}
        texts = [located(fault.location, fault.message) for fault in faults]
        raise arguments.faulty(texts, "links and states are wrong", hint=hints.pop() if len(hints) == 1 else _HINT)
    if until:
        last = _number_of(until, names, place("until", ""))
        names, states = names[: last + 1], [held for held in states if held.context <= last]
        chains, _ = _all_connected([*_cut(chains, last)], names, links, states, place)
    return Wiring(names, tuple(chains), tuple(states), links, state, tuple(proposed))


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


def _number_of(until: str, names: Sequence[str], location: Location) -> int:
    """The number of a context that is given by name, or by its number from 0."""
    if until in names:
        return names.index(until)
    if until.isdecimal() and int(until) < len(names):
        return int(until)
    raise UsageError(
        located(location, f"the model has no context `{until}` to end with"),
        hint=suggestion(until, names, f"contexts: {', '.join(names)}, or 0 to {len(names) - 1}"),
    )


def _cut(chains: Sequence[GraphChain], last: int) -> Iterator[GraphChain]:
    """The parts of chains up to a context."""
    for chain in chains:
        count = sum(context <= last for context in chain.contexts)
        if count:
            yield replace(chain, contexts=chain.contexts[:count], stages=chain.stages[:count])


# --- names and states -------------------------------------------------------------------------------------------------


def _unknown(
    chains: Sequence[GraphChain], links: Mapping[str, str], state: Mapping[str, str], place: Place
) -> Iterator[Finding]:
    """Names that no graph has, and states without an output that writes them."""
    stages = [stage for chain in chains for stage in chain.stages]
    inputs = dict.fromkeys(tensor.name for stage in stages for tensor in stage.inputs)
    outputs = dict.fromkeys(tensor.name for stage in stages for tensor in stage.outputs)
    for what, table, rows in (("link", "links", links), ("state", "state", state)):
        for reads, writes in rows.items():
            for name, known, side in ((reads, inputs, "input"), (writes, outputs, "output")):
                plain = _plain(name) if what == "link" else name
                if plain in known:
                    continue
                near = nearest(plain, known)
                guess = f": did you mean `{near}`?" if near else f"; they have: {', '.join(known) or 'none'}"
                why = f"{what} `{reads}` has no {side}" if side == "output" else f"{what} `{reads}={writes}`"
                message = f"{why}: no graph has the {side} `{plain}`{guess}"
                yield Finding(message, _HINT, place(table, reads))


def _two_writers(links: Mapping[str, str], state: Mapping[str, str], place: Place) -> Iterator[Finding]:
    """Tensors that a link and a state would write, and outputs that would be the next value of two states."""
    for reads in links:
        if _plain(reads) in state:
            text = (
                f"input `{reads}` has two writers: the link from `{links[reads]}` "
                f"and the state, whose next value is `{state[_plain(reads)]}`"
            )
            yield Finding(text, _TWICE, place("links", reads))
    for writes in dict.fromkeys(state.values()):
        readers = [reads for reads, other in state.items() if other == writes]
        if len(readers) > 1:
            names = " and ".join(f"`{reads}`" for reads in readers)
            text = f"output `{writes}` is the next value of the states {names}: it can be written to one of them only"
            yield Finding(text, _TWICE, place("state", readers[-1]))


def _plain(name: str) -> str:
    """The name of a tensor without the number of its stage."""
    number, _, rest = name.partition(".")
    return rest if number.isdigit() and rest else name


def _states(
    chains: Sequence[GraphChain], names: Sequence[str], state: Mapping[str, str], place: Place
) -> tuple[list[StateTensor], list[Finding]]:
    """The states of each context; states that no graph of their context writes, tensors that cannot be one state."""
    states, faults = list[StateTensor](), list[Finding]()
    outputs = {tensor.name for chain in chains for stage in chain.stages for tensor in stage.outputs}
    for context, context_name in enumerate(names):
        here = {
            chain.name: chain.stages[chain.contexts.index(context)] for chain in chains if context in chain.contexts
        }
        for reads, writes in state.items():
            uses = {
                chain: (reads * _has(stage.inputs, reads), writes * _has(stage.outputs, writes))
                for chain, stage in here.items()
                if _has(stage.inputs, reads) or _has(stage.outputs, writes)
            }
            if not uses:
                continue
            tensors = list(_tensors_of(here, uses))
            states.append(StateTensor(context, reads, uses, tensors[0][1]))
            messages = [(f"a state of context {context_name}: {why}", _EQUAL) for why in _unequal(tensors)]
            if writes in outputs and not any(written for _, written in uses.values()):
                text = f"state `{reads}` of context {context_name} has no output: no graph there writes `{writes}`"
                messages.insert(0, (text, _HINT))
            faults += [Finding(message, hint, place("state", reads)) for message, hint in messages]
    return states, faults


def _tensors_of(
    stages: Mapping[str, GraphInfo], uses: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[str, TensorInfo]]:
    """The tensors that a state has in the graphs of a context, each with its description."""
    for chain, (reads, writes) in uses.items():
        stage = stages[chain]
        for side, name in ((stage.inputs, reads), (stage.outputs, writes)):
            yield from ((f"`{name}` of graph `{stage.name}`", tensor) for tensor in side if tensor.name == name)


def _unequal(tensors: Sequence[tuple[str, TensorInfo]]) -> Iterator[str]:
    """Why tensors cannot share memory with the first."""
    return filter(None, (_mismatch(*tensors[0], *other) for other in tensors[1:]))


def _has(side: Sequence[TensorInfo], name: str) -> bool:
    return any(tensor.name == name for tensor in side)


def _mismatch(first: str, one: TensorInfo, second: str, other: TensorInfo) -> str:
    """Why two tensors cannot share memory; empty if they can."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{first} is {one.dtype} {list(one.shape)}, {second} is {other.dtype} {list(other.shape)}"
    if one.quant == other.quant:
        return ""
    pairs = [tensor.scale_offset for tensor in (one, other)]
    numbers = " and ".join(f"scale {pair[0]:.9g}, offset {pair[1]}" for pair in pairs if pair)
    return f"{first} and {second} have different quantizations" + (f": {numbers}" if all(pairs) else "")


# --- connections ------------------------------------------------------------------------------------------------------


def _all_connected(
    chains: Sequence[GraphChain],
    names: Sequence[str],
    links: Mapping[str, str],
    states: Sequence[StateTensor],
    place: Place,
) -> tuple[list[GraphChain], list[Finding]]:
    """All chains, and the faults of their links: tensors that differ, links that connect nothing."""
    connected, faults, faulty = list[GraphChain](), list[Finding](), set[str]()
    for chain in chains:
        whole, wrong = _connected(chain, names, links, states)
        connected.append(whole)
        for link, fault in wrong:
            faulty.add(link)
            location = place("links" if link else "contexts", link)
            faults.append(fault._replace(message=f"graph `{chain.name}`: {fault.message}", location=location))
    ends = {
        (tensor.name, connection.output.name)
        for chain in connected
        for connection in chain.connections
        for _, tensor in connection.targets
    }
    for reads, writes in links.items():
        if (_plain(reads), _plain(writes)) not in ends and reads not in faulty:
            text = f"link `{reads}={writes}` connects nothing: no context before one with that input writes `{writes}`"
            faults.append(Finding(text, _ORDER, place("links", reads)))
    return connected, faults


def _connected(
    chain: GraphChain, names: Sequence[str], links: Mapping[str, str], states: Sequence[StateTensor]
) -> tuple[GraphChain, list[tuple[str, Finding]]]:
    """A chain with its connections, and what is left to the caller; faults with their links."""
    stateful = {
        (chain.contexts.index(state.context), name)
        for state in states
        if state.context in chain.contexts
        for name in state.uses.get(chain.name, ())
    }
    connections, wrong = _connections(chain, links, stateful, [names[number] for number in chain.contexts])
    inside = {(connection.source, connection.output.name) for connection in connections} | stateful
    inside |= {(stage, tensor.name) for connection in connections for stage, tensor in connection.targets}
    inputs = tuple(_outer([stage.inputs for stage in chain.stages], inside, shared=True))
    outputs = tuple(_outer([stage.outputs for stage in chain.stages], inside, shared=False))
    return replace(chain, connections=connections, inputs=inputs, outputs=outputs), wrong


def _connections(
    chain: GraphChain, links: Mapping[str, str], apart: Collection[End], names: Sequence[str]
) -> tuple[tuple[Connection, ...], list[tuple[str, Finding]]]:
    """Connect each input to the nearest earlier output of its name; other inputs come from outside.

    `links` maps inputs to outputs of other names: {"hidden": "hidden_out"} for every stage that has that input, or
    {"3.hidden": "1.hidden_out"} for one of them.  `apart` are tensors to leave out.  Faults are returned with their
    links ("" for tensors of one name); they contain the `names` of the contexts.
    """
    readers: dict[End, list[tuple[int, TensorInfo]]] = {}
    faults: list[tuple[str, Finding]] = []
    for number, stage in enumerate(chain.stages):
        for tensor in stage.inputs:
            if (number, tensor.name) in apart:
                continue
            of_one = f"{number}.{tensor.name}"
            link = of_one if of_one in links else tensor.name if tensor.name in links else ""
            wanted = links.get(link, tensor.name)
            source = _source(chain.stages[:number], wanted, apart)
            if source is None:
                if link and (number > 0 or link == of_one):
                    is_state = any(
                        (end, wanted) in apart and _has(before.outputs, wanted)
                        for end, before in enumerate(chain.stages[:number])
                    )
                    why = "a state has the output" if is_state else "nothing before it has an output"
                    text = f"input `{tensor.name}` of {names[number]}: {why} `{wanted}`"
                    faults.append((link, Finding(text, _ORDER)))
                continue
            output = _written(chain, source)
            first = f"output `{output.name}` of {names[source[0]]} (graph `{chain.stages[source[0]].name}`)"
            second = f"input `{tensor.name}` of {names[number]} (graph `{stage.name}`)"
            if why := _mismatch(first, output, second, tensor):
                faults.append((link, Finding(why, _EQUAL)))
            readers.setdefault(source, []).append((number, tensor))
    return tuple(Connection(end[0], _written(chain, end), tuple(readers[end])) for end in sorted(readers)), faults


def _source(before: Sequence[GraphInfo], wanted: str, apart: Collection[End]) -> End | None:
    """The nearest earlier stage that writes an output, and the output's name there."""
    number, _, name = wanted.partition(".")
    if number.isdigit() and int(number) < len(before) and _has(before[int(number)].outputs, name):
        return int(number), name
    ends = ((stage, wanted) for stage in range(len(before) - 1, -1, -1) if _has(before[stage].outputs, wanted))
    return next((end for end in ends if end not in apart), None)


def _written(chain: GraphChain, end: End) -> TensorInfo:
    stage, name = end
    return next(tensor for tensor in chain.stages[stage].outputs if tensor.name == name)


def _outer(sides: Sequence[Sequence[TensorInfo]], inside: Collection[End], *, shared: bool) -> Iterator[OuterTensor]:
    """The tensors of stages that are not in `inside`; equal inputs of one name are one, others are `stage.name`."""
    outside: dict[str, list[tuple[int, TensorInfo]]] = {}
    for stage, side in enumerate(sides):
        for tensor in side:
            if (stage, tensor.name) not in inside:
                outside.setdefault(tensor.name, []).append((stage, tensor))
    for name, ends in outside.items():
        if len(ends) == 1 or (shared and all(_fits(ends[0][1], tensor) for _, tensor in ends)):
            yield OuterTensor(name, ends[0][1], tuple((stage, name) for stage, _ in ends))
        else:
            for stage, tensor in ends:
                yield OuterTensor(f"{stage}.{name}", tensor, ((stage, name),))


# --- proposals --------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SIDES = set("in out input output past present new next old prev previous last cur current updated".split())
_STATE = set("past present cache kv key keys value values state states memory history".split())


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name.replace("past_key_values", "past"))]


def _stem(name: str) -> list[str]:
    """The words of a name without those that mark a side: equal for past_key and key, for hidden and hidden_out."""
    return [word for word in _words(name) if word not in _SIDES]


def _fits(one: TensorInfo, other: TensorInfo) -> bool:
    return (one.dtype, one.shape, one.quant) == (other.dtype, other.shape, other.quant)


def _related(tensor: TensorInfo, others: Iterable[TensorInfo]) -> set[str]:
    """The names of tensors of the same type and shape with a related name."""
    return {other.name for other in others if _fits(tensor, other) and _stem(tensor.name) == _stem(other.name)}


def _proposed_state(chains: Sequence[GraphChain]) -> dict[str, str]:
    """Propose states: an input and an output of one graph with the same type and shape, named like a cache or state."""
    near: dict[str, set[str]] = {}
    for stage in (stage for chain in chains for stage in chain.stages):
        for tensor in stage.inputs:
            related = _related(tensor, stage.outputs)
            named = {name for name in related if _STATE & {*_words(tensor.name), *_words(name)}}
            near.setdefault(tensor.name, set()).update(named)
    chosen = _only(near)
    return {name: output for name, output in chosen.items() if list(chosen.values()).count(output) == 1}


def _proposed_links(chains: Sequence[GraphChain], state: Mapping[str, str]) -> dict[str, str]:
    """Propose links: an input and an output of the previous context with the same type and shape and related names.

    If no names are related: the only output and the only input of that type and shape.
    """
    near: dict[str, set[str]] = {}
    for before, stage in (pair for chain in chains for pair in pairwise(chain.stages)):
        outputs = [tensor for tensor in before.outputs if tensor.name not in state.values()]
        inputs = [tensor for tensor in stage.inputs if tensor.name not in state]
        if any(_has(outputs, tensor.name) for tensor in inputs):  # tensors of one name need no link
            inputs = [tensor for tensor in inputs if not _has(outputs, tensor.name)]
            outputs = [tensor for tensor in outputs if not _has(stage.inputs, tensor.name)]
        for tensor in inputs:
            near.setdefault(tensor.name, set()).update(_related(tensor, outputs) or _alone(tensor, inputs, outputs))
    return _only(near)


def _alone(tensor: TensorInfo, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> set[str]:
    """The only output of the type and shape of a tensor, if no other input has them."""
    fitting = {output.name for output in outputs if _fits(tensor, output)}
    return fitting if len(fitting) == 1 == sum(_fits(tensor, other) for other in inputs) else set()


def _only(near: Mapping[str, set[str]]) -> dict[str, str]:
    """The names that have one candidate, with that."""
    return {name: next(iter(outputs)) for name, outputs in near.items() if len(outputs) == 1}
