"""The connections of the graphs of a model: checked, or proposed from names, types and shapes; nothing is restored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from udogen.errors import UsageError
from udogen.findings import nearest, suggestion
from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo
from udogen.runtime import arguments
from udogen.runtime.models.connections import (
    MISSING,
    UNEQUAL,
    UNKNOWN,
    Connection,
    LinkFault,
    OuterTensor,
    connect,
    different,
    links_of,
    outer_tensors,
)

_HINT = 'links and state are {"input": "output"}, as {"hidden": "hidden_out"}, {"past_key": "key"}'
_TWICE = "leave out one of the two"
_EQUAL = "both are the same memory: their types, shapes and quantizations must be equal"
_ORDER = "contexts run in the order in which they are given, and read outputs of earlier ones"
_HINTS = {MISSING: _ORDER, UNEQUAL: _EQUAL, UNKNOWN: _HINT}


class _WiringFault(NamedTuple):
    """A fault, and the table and row that have it ("" if none does)."""

    table: str
    key: str
    text: str
    hint: str = _HINT


@dataclass(frozen=True)
class GraphChain:
    """The graphs that one step executes, in order: those of one name, in each context that has it."""

    name: str
    contexts: tuple[int, ...]
    stages: tuple[GraphInfo, ...]


@dataclass(frozen=True)
class StateTensor:
    """A state in one context: in each chain the input that reads it and the output that writes it; "": none."""

    context: int
    key: str  # the input that reads it
    uses: Mapping[str, tuple[str, str]]  # chain -> (input, output)
    info: TensorInfo


@dataclass(frozen=True)
class WiredChain:
    """A chain with the connections of its graphs, and the tensors that are left to the caller."""

    chain: GraphChain
    connections: tuple[Connection, ...]
    inputs: tuple[OuterTensor, ...]
    outputs: tuple[OuterTensor, ...]


@dataclass(frozen=True)
class Wiring:
    """A whole model: chains, states, and readable lines for everything that was proposed rather than given.

    `print(wiring.links, wiring.proposed)`
    """

    contexts: tuple[str, ...]
    chains: tuple[WiredChain, ...]
    states: tuple[StateTensor, ...]
    links: Mapping[str, str]
    state: Mapping[str, str]
    proposed: tuple[str, ...] = ()

    def chain(self, name: str) -> WiredChain:
        """A chain by its name."""
        return next(each for each in self.chains if each.chain.name == name)


def chains_of(
    infos: Sequence[tuple[str, BinaryInfo]], wanted: Sequence[str] = (), *, place: str = ""
) -> tuple[GraphChain, ...]:
    """The chains of some contexts (name, description): all, or those in `wanted` (given at `place`) in that order."""
    found = {each.name: each for each in _all_chains([info for _, info in infos])}
    strange = [name for name in wanted if name not in found]
    if strange or not found:
        near = nearest(strange[0], found) if strange else ""
        raise UsageError(
            f"{place}the model has no graph `{strange[0]}`" if strange else "the contexts of the model have no graph",
            hint=f"did you mean `{near}`?" if near else f"it has: {', '.join(found) or 'none'}",
        )
    if wanted:
        return tuple(found[name] for name in dict.fromkeys(wanted))
    # Not all runtimes keep the order of graphs: sort by input size, so that a prompt comes before a token.
    return tuple(sorted(found.values(), key=lambda chain: -sum(each.nbytes for each in chain.stages[0].inputs)))


def _all_chains(infos: Sequence[BinaryInfo]) -> Iterator[GraphChain]:
    if all(len(info.graphs) == 1 for info in infos):  # a single chain, regardless of their names
        stages = tuple(info.graphs[0] for info in infos)
        yield GraphChain(stages[0].name, tuple(range(len(infos))), stages)
        return
    for name in dict.fromkeys(graph.name for info in infos for graph in info.graphs):
        having = [number for number, info in enumerate(infos) if any(graph.name == name for graph in info.graphs)]
        yield GraphChain(name, tuple(having), tuple(infos[number].graph(name) for number in having))


def wire(
    infos: Sequence[tuple[str, BinaryInfo]],
    *,
    graphs: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
    state: Mapping[str, str] | None = None,
    until: str = "",
    place: Callable[[str, str], str] = lambda _table, _key: "",
) -> Wiring:
    """Connect the graphs of a model; arguments that are None are proposed.  All faults are reported in one error.

    `until` is the last context, by name or number; later ones are checked and then omitted.
    `place` returns the file and the line of a row of `links` or `state`, or of `graphs` and `until`, for errors.

    `wiring = wire([("forward_0", info)], state={"past_key": "key"})`
    """
    chains = chains_of(infos, graphs, place=place("graphs", ""))
    names = tuple(name for name, _ in infos)
    links, state, proposed = _with_proposals(chains, links, state)
    rows = [_uses_in(chains, context, *row) for context in range(len(names)) for row in state.items()]
    uses = [row for row in rows if row.uses]
    states = [row.state() for row in uses]
    faults = [*_unknown(chains, links, state), *_two_writers(links, state), *_wrong_states(chains, names, uses)]
    if not faults:
        wired, faults = _all_wired(chains, names, links, states)
    if faults:
        texts = [place(fault.table or "contexts", fault.key) + fault.text for fault in faults]
        hints = {fault.hint for fault in faults}
        raise arguments.faulty(texts, "links and states are wrong", hint=hints.pop() if len(hints) == 1 else _HINT)
    if until:
        last = _number_of(until, names, place("until", ""))
        names, states = names[: last + 1], [each for each in states if each.context <= last]
        wired, _ = _all_wired(tuple(_cut(chains, last)), names, links, states)
    return Wiring(names, tuple(wired), tuple(states), links, state, proposed)


def _with_proposals(
    chains: Sequence[GraphChain], links: Mapping[str, str] | None, state: Mapping[str, str] | None
) -> tuple[Mapping[str, str], Mapping[str, str], tuple[str, ...]]:
    """Links and state, proposed if they are None, and lines about the proposals."""
    proposed: list[str] = []
    if state is None:
        state = propose_state(chains)
        proposed += [f"state {reads} = {writes}" for reads, writes in state.items()]
    if links is None:
        links = propose_links(chains, state)
        proposed += [f"link {reads} = {writes}" for reads, writes in links.items()]
    return links, state, tuple(proposed)


def _number_of(until: str, names: Sequence[str], place: str) -> int:
    """The number of a context that is given by name, or by its number from 0."""
    if until in names:
        return names.index(until)
    if until.isdecimal() and int(until) < len(names):
        return int(until)
    raise UsageError(
        f"{place}the model has no context `{until}` to end with",
        hint=suggestion(until, names, f"contexts: {', '.join(names)}, or 0 to {len(names) - 1}"),
    )


def _cut(chains: Sequence[GraphChain], last: int) -> Iterator[GraphChain]:
    """The parts of chains up to a context."""
    for chain in chains:
        count = sum(context <= last for context in chain.contexts)
        if count:
            yield GraphChain(chain.name, chain.contexts[:count], chain.stages[:count])


# --- faults -----------------------------------------------------------------------------------------------------------


def _unknown(
    chains: Sequence[GraphChain], links: Mapping[str, str], state: Mapping[str, str]
) -> Iterator[_WiringFault]:
    """Names that no graph has, and states without an output that writes them."""
    stages = [stage for chain in chains for stage in chain.stages]
    inputs = dict.fromkeys(each.name for stage in stages for each in stage.inputs)
    outputs = dict.fromkeys(each.name for stage in stages for each in stage.outputs)
    for what, table, rows in (("link", "links", links), ("state", "state", state)):
        for reads, writes in rows.items():
            for name, known, side in ((reads, inputs, "input"), (writes, outputs, "output")):
                plain = _plain(name) if what == "link" else name
                if plain in known:
                    continue
                near = nearest(plain, known)
                guess = f": did you mean `{near}`?" if near else f"; they have: {', '.join(known) or 'none'}"
                why = f"{what} `{reads}` has no {side}" if side == "output" else f"{what} `{reads}={writes}`"
                yield _WiringFault(table, reads, f"{why}: no graph has the {side} `{plain}`{guess}")


def _two_writers(links: Mapping[str, str], state: Mapping[str, str]) -> Iterator[_WiringFault]:
    """Tensors that a link and a state would write, and outputs that would be the next value of two states."""
    for reads in links:
        if _plain(reads) in state:
            text = (
                f"input `{reads}` has two writers: the link from `{links[reads]}` "
                f"and the state, whose next value is `{state[_plain(reads)]}`"
            )
            yield _WiringFault("links", reads, text, _TWICE)
    for writes in dict.fromkeys(state.values()):
        readers = [reads for reads, other in state.items() if other == writes]
        if len(readers) > 1:
            names = " and ".join(f"`{each}`" for each in readers)
            text = f"output `{writes}` is the next value of the states {names}: it can be written to one of them only"
            yield _WiringFault("state", readers[-1], text, _TWICE)


def _plain(name: str) -> str:
    number, _, rest = name.partition(".")
    return rest if number.isdigit() and rest else name


class _StateUse(NamedTuple):
    """The tensors of one graph of a context for a state: the one that reads it, the one that writes it, or both."""

    chain: str
    graph: str
    read: TensorInfo | None
    written: TensorInfo | None

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two tensors, "" for a missing one."""
        return self.read.name if self.read else "", self.written.name if self.written else ""

    @property
    def tensors(self) -> list[TensorInfo]:
        """The tensors that exist of the two."""
        return [each for each in (self.read, self.written) if each]


class _StateUses(NamedTuple):
    """A state in one context, and the graphs there that read or write it."""

    context: int
    reads: str
    writes: str
    uses: tuple[_StateUse, ...]

    def state(self) -> StateTensor:
        """The state, with the names of its tensors in each chain."""
        names = {each.chain: each.names for each in self.uses}
        return StateTensor(self.context, self.reads, names, self.uses[0].tensors[0])


def _uses_in(chains: Sequence[GraphChain], context: int, reads: str, writes: str) -> _StateUses:
    found = []
    for chain in chains:
        if context in chain.contexts:
            stage = chain.stages[chain.contexts.index(context)]
            use = _StateUse(chain.name, stage.name, _tensor(stage.inputs, reads), _tensor(stage.outputs, writes))
            found += [use] if use.tensors else []
    return _StateUses(context, reads, writes, tuple(found))


def _wrong_states(
    chains: Sequence[GraphChain], names: Sequence[str], states: Sequence[_StateUses]
) -> Iterator[_WiringFault]:
    """States that a graph elsewhere writes, but none of their context; tensors that cannot be one state."""
    outputs = {each.name for chain in chains for stage in chain.stages for each in stage.outputs}
    for each in states:
        context = names[each.context]
        if each.writes in outputs and not any(use.written for use in each.uses):
            text = f"state `{each.reads}` of context {context} has no output: no graph there writes `{each.writes}`"
            yield _WiringFault("state", each.reads, text)
        (first, a), *others = [(use.graph, tensor) for use in each.uses for tensor in use.tensors]
        for second, b in others:
            what = f"`{a.name}` of graph `{first}`", f"`{b.name}` of graph `{second}`"
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                kinds = f"{a.dtype} {list(a.shape)}", f"{b.dtype} {list(b.shape)}"
                text = f"a state of context {context}: {what[0]} is {kinds[0]}, {what[1]} is {kinds[1]}"
                yield _WiringFault("state", each.reads, text, _EQUAL)
            elif a.quant != b.quant:
                text = f"a state of context {context}: {what[0]} and {what[1]} {different(a, b)}"
                yield _WiringFault("state", each.reads, text, _EQUAL)


def _tensor(side: Sequence[TensorInfo], name: str) -> TensorInfo | None:
    return next((each for each in side if each.name == name), None)


# --- connections ------------------------------------------------------------------------------------------------------


def _all_wired(
    chains: Sequence[GraphChain], names: Sequence[str], links: Mapping[str, str], states: Sequence[StateTensor]
) -> tuple[list[WiredChain], list[_WiringFault]]:
    """All chains, and the faults of their links: tensors that differ, links that connect nothing."""
    made, faults = list[WiredChain](), list[_WiringFault]()
    for chain in chains:
        wired, wrong = _wired(chain, names, links, states)
        made.append(wired)
        faults += [
            _WiringFault(
                "links" if each.link else "", each.link, f"graph `{chain.name}`: {each.text}", _HINTS[each.kind]
            )
            for each in wrong
        ]
    ends = {
        (tensor.name, each.output.name) for wired in made for each in wired.connections for _, tensor in each.targets
    }
    for reads, writes in links.items():
        if (_plain(reads), _plain(writes)) not in ends and reads not in {fault.key for fault in faults}:
            text = f"link `{reads}={writes}` connects nothing: no context before one with that input writes `{writes}`"
            faults.append(_WiringFault("links", reads, text, _ORDER))
    return made, faults


def _wired(
    chain: GraphChain, names: Sequence[str], links: Mapping[str, str], states: Sequence[StateTensor]
) -> tuple[WiredChain, list[LinkFault]]:
    places = [names[each] for each in chain.contexts]
    stateful = {
        (chain.contexts.index(each.context), name)
        for each in states
        if each.context in chain.contexts
        for name in each.uses.get(chain.name, ())
    }
    connections, faults = connect(chain.stages, links=links_of(chain.stages, links), apart=stateful, places=places)
    inside = {(each.source, each.output.name) for each in connections} | stateful
    inside |= {(stage, tensor.name) for each in connections for stage, tensor in each.targets}
    made = WiredChain(
        chain,
        connections,
        tuple(outer_tensors([stage.inputs for stage in chain.stages], inside, shared=True)),
        tuple(outer_tensors([stage.outputs for stage in chain.stages], inside, shared=False)),
    )
    return made, faults


# --- proposals --------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SIDES = set("in out input output past present new next old prev previous last cur current updated".split())
_STATE = set("past present cache kv key keys value values state states memory history".split())


def _words(name: str) -> list[str]:
    return [each.lower() for each in _WORD.findall(name.replace("past_key_values", "past"))]


def _stem(name: str) -> tuple[str, ...]:
    """The words of a name without those that mark a side: equal for past_key and key, for hidden and hidden_out."""
    return tuple(each for each in _words(name) if each not in _SIDES)


def _fits(one: TensorInfo, other: TensorInfo) -> bool:
    return (one.dtype, one.shape, one.quant) == (other.dtype, other.shape, other.quant)


def propose_state(chains: Sequence[GraphChain]) -> dict[str, str]:
    """Propose states: an input and an output of one graph with the same type and shape, named like a cache or state."""
    found: dict[str, set[str]] = {}
    for chain in chains:
        for stage in chain.stages:
            for tensor in stage.inputs:
                near = {
                    other.name
                    for other in stage.outputs
                    if _fits(tensor, other)
                    and _stem(tensor.name) == _stem(other.name)
                    and _STATE & {*_words(tensor.name), *_words(other.name)}
                }
                found.setdefault(tensor.name, set()).update(near)
    chosen = {name: min(outputs) for name, outputs in found.items() if len(outputs) == 1}
    return {name: output for name, output in chosen.items() if list(chosen.values()).count(output) == 1}


def propose_links(chains: Sequence[GraphChain], state: Mapping[str, str]) -> dict[str, str]:
    """Propose links: an input and an output of the previous context with the same type and shape and related names.

    If no names are related: the only output and the only input of that type and shape.
    """
    found: dict[str, set[str]] = {}
    for chain in chains:
        for before, stage in zip(chain.stages, chain.stages[1:], strict=False):
            for name, near in _links_between(before, stage, state):
                found.setdefault(name, set()).update(near)
    return {name: min(outputs) for name, outputs in found.items() if len(outputs) == 1}


def _links_between(before: GraphInfo, stage: GraphInfo, state: Mapping[str, str]) -> Iterator[tuple[str, set[str]]]:
    """The inputs of a graph, each with the outputs of the previous graph that it may be linked to."""
    outputs = [each for each in before.outputs if each.name not in state.values()]
    inputs = [each for each in stage.inputs if each.name not in state]
    if any(each.name == other.name for each in inputs for other in outputs):
        inputs = [each for each in inputs if each.name not in {other.name for other in outputs}]
        outputs = [each for each in outputs if each.name not in {other.name for other in stage.inputs}]
    for tensor in inputs:
        yield tensor.name, _sources_of(tensor, inputs, outputs)


def _sources_of(tensor: TensorInfo, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> set[str]:
    fitting = [each for each in outputs if _fits(tensor, each)]
    near = {each.name for each in fitting if _stem(each.name) == _stem(tensor.name)}
    if not near and len(fitting) == 1 and sum(_fits(fitting[0], each) for each in inputs) == 1:
        return {fitting[0].name}
    return near


# --- the picture ------------------------------------------------------------------------------------------------------


def picture(wiring: Wiring, sessions: Mapping[str, str] | None = None) -> Iterator[str]:
    """The plan of a model for a terminal: contexts from top to bottom, with inputs, outputs, links and state."""
    where = sessions or {}
    for number, wired in enumerate(wiring.chains):
        if number:
            yield ""
        chain = wired.chain
        yield f"{chain.name}: {len(chain.stages)} context{'s' * (len(chain.stages) != 1)}"
        for stage, context in enumerate(chain.contexts):
            name = wiring.contexts[context]
            yield f"  ┌─ {name}" + (f"  on {where[name]}" if name in where else "")
            yield from (f"  │ {line}" for line in _picture_of_stage(wiring, wired, stage))
            yield "  └─"


def _picture_of_stage(wiring: Wiring, wired: WiredChain, stage: int) -> Iterator[str]:
    """The tensors of a context: inputs, states, outputs, and those passed to other contexts."""
    chain = wired.chain
    given, got = (
        [each for each in side if stage in [end for end, _ in each.ends]] for side in (wired.inputs, wired.outputs)
    )
    yield from (f"─▶ {_shown(each.name, each.info)}" for each in given)
    for each in wiring.states:
        if each.context == chain.contexts[stage] and chain.name in each.uses:
            yield _picture_of_state(each, *each.uses[chain.name])
    yield from (f"◀─ {_shown(each.name, each.info)}" for each in got)
    for connection in wired.connections:
        if connection.source == stage:
            ends = ((wiring.contexts[chain.contexts[end]], tensor.name) for end, tensor in connection.targets)
            targets = ", ".join(f"{tensor} of {context}" for context, tensor in ends)
            yield f"─▼ {_shown(connection.output.name, connection.output)}  → {targets}"


def _picture_of_state(state: StateTensor, reads: str, writes: str) -> str:
    return f"↺  {_shown(reads or writes, state.info)}  state {reads or '(not read)'} = {writes or '(kept)'}"


def _shown(name: str, info: TensorInfo) -> str:
    return f"{name} {info.dtype} {info.sizes if any(info.dynamic) else 'x'.join(map(str, info.shape)) or 'scalar'}"
