"""Graphs that run one after another, in any sessions; activations are in memory that both sessions map."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from udogen.errors import RunFailed, UsageError
from udogen.opdef.problems import suggestion
from udogen.qnn.handles import Closing
from udogen.runtime import arguments
from udogen.runtime.buffers.domains import INPUT, OUTPUT, BufferPair, ManagedBuffer, MemoryDomain, Role
from udogen.runtime.sessions.connections import Connection, find_connections, outer_tensors

if TYPE_CHECKING:
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.op.calls import Array


class Copies(NamedTuple):
    """Bytes that udogen copied, by kind; copies inside a runtime cannot be seen.

    `print(model.copied.state)`
    """

    input: int = 0  # arrays that are not contiguous
    output: int = 0  # always 0: graphs write into the returned arrays
    state: int = 0  # into and out of the state buffers
    activation: int = 0  # between graphs

    @property
    def total(self) -> int:
        """The sum of all kinds."""
        return sum(self)


class _Stage(NamedTuple):
    """A graph of a pipeline, with its outer inputs and outputs: tensor -> name in the pipeline."""

    number: int
    graph: Graph
    inputs: dict[str, str]
    outputs: dict[str, str]


class Pipeline(Closing):
    """Graphs that run one after another, callable as one function of arrays: `Pipeline([one, two], domain)(x=x)["y"]`.

    Outputs that are inputs of later stages (by name, or by `links` as in `find_connections`) are bound to buffers of
    the memory domain.  Tensors that are already bound, such as those of a state, stay bound.  `states` are pairs that
    are swapped after each execution.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        domain: MemoryDomain,
        *,
        links: Mapping[str, str] | None = None,
        states: Iterable[BufferPair] = (),
    ) -> None:
        _check(graphs, domain, links, states)
        self.buffers: dict[str, ManagedBuffer] = {}
        self.closed = False
        self.graphs, self.domain, self.states = tuple(graphs), domain, tuple(states)
        apart = {
            (number, tensor.name)
            for number, graph in enumerate(graphs)
            for tensor in (*graph.inputs, *graph.outputs)
            if graph.binding(tensor.name).bound
        }
        self.connections: tuple[Connection, ...] = find_connections(graphs, links=links, apart=apart)
        connected = {(connection.source, connection.output.name) for connection in self.connections}
        connected |= {(number, tensor.name) for connection in self.connections for number, tensor in connection.targets}
        self._inputs = self._outer("inputs", apart | connected)
        self._outputs = self._outer("outputs", apart | connected)
        self._lock = threading.Lock()
        self.executions = 0
        self.seconds: tuple[float, ...] = ()  # of each stage in the last execution
        try:
            for connection in self.connections:
                self._bind(connection)
        except BaseException:
            self.close()
            raise
        self._stages = [self._stage(number) for number in range(len(self.graphs))]
        self._before = self._counted()
        self.last = Copies()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of its inputs; stages with an input of the same name share the array."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of its outputs; `3.name` is that of stage 3 if several stages have an output of that name."""
        return tuple(self._outputs)

    @property
    def copied(self) -> Copies:
        """Bytes copied since the pipeline was made."""
        return _difference(self._counted(), self._before)

    def __call__(
        self, inputs: Mapping[str, Array] | None = None, /, *, out: Mapping[str, Array] | None = None, **named: Array
    ) -> dict[str, Array]:
        """Execute all graphs in order, then swap the states; returns outputs by name.  Executions take turns."""
        for each in (inputs, out):
            if each is not None and (each.__class__ is not dict or not all(isinstance(name, str) for name in each)):
                arguments.mapping(each, "the arrays of a pipeline", hint='give arrays in a dict: {"tensor": …}')
        given = {**(inputs or {}), **named}
        wanted = dict(out or {})
        if wanted or given.keys() != self._inputs.keys():
            self._check_names(given, wanted)
        with self._lock:
            if self.closed:
                raise RunFailed("the pipeline is closed", hint="use it inside its `with` block")
            before, seconds = self._counted(), []
            for stage in self._stages:
                began = perf_counter()
                self._run(stage, given, wanted)
                seconds.append(perf_counter() - began)
            for pair in self.states:
                pair.swap()
            self.executions, self.seconds = self.executions + 1, tuple(seconds)
            self.last = _difference(self._counted(), before)
        return wanted

    def close(self) -> None:
        """Wait for a running execution, then unbind and free the buffers between its graphs, but not the states."""
        with self._lock:
            self.closed = True
            for buffer in self.buffers.values():
                buffer.free()

    def __repr__(self) -> str:
        names = " -> ".join(f"{graph.name} ({graph.context.name})" for graph in self.graphs)
        return f"<Pipeline {names}: {'closed' if self.closed else f'{self.executions} executions'}>"

    def check_open(self) -> None:
        """Raise after it was closed."""
        if self.closed:
            raise RunFailed("the pipeline is closed", hint="make a new one from its graphs")

    def __del__(self) -> None:
        if not getattr(self, "closed", True):
            self.domain.drop(self.buffers.values())

    # --- one stage --------------------------------------------------------------------------------------------------

    def _stage(self, number: int) -> _Stage:
        return _Stage(
            number,
            self.graphs[number],
            {ends[number]: name for name, ends in self._inputs.items() if number in ends},
            {ends[number]: name for name, ends in self._outputs.items() if number in ends},
        )

    def _run(self, stage: _Stage, given: Mapping[str, Array], results: dict[str, Array]) -> None:
        arrays = {tensor: given[name] for tensor, name in stage.inputs.items()}
        into = {tensor: results[name] for tensor, name in stage.outputs.items() if name in results}
        graph = stage.graph
        try:
            made = graph(arrays, out=into)
        except RunFailed as problem:
            raise RunFailed(
                f"stage {stage.number} (graph `{graph.name}` in {graph.context.name}): {problem.message}",
                hint=problem.hint,
                details=problem.details,
            ) from problem
        for tensor, array in made.items():
            results[stage.outputs[tensor]] = array

    def _bind(self, connection: Connection) -> None:
        """Allocate a buffer for a connection and bind it in its graphs."""
        ends = [
            (connection.source, connection.output.name, OUTPUT),
            *((stage, each.name, INPUT) for stage, each in connection.targets),
        ]
        roles = [Role(self.graphs[stage], tensor, usage) for stage, tensor, usage in ends]
        self.buffers[connection.name] = buffer = self.domain.allocate(roles, name=connection.name)
        for role in roles:
            role.graph.bind({role.tensor: buffer})

    def _outer(self, side: str, inside: Collection[tuple[int, str]]) -> dict[str, dict[int, str]]:
        """Outer inputs or outputs: name -> tensor in each stage that has it."""
        sides = [getattr(graph, side) for graph in self.graphs]
        return {each.name: dict(each.ends) for each in outer_tensors(sides, inside, shared=side == "inputs")}

    def _check_names(self, given: Collection[str], wanted: Collection[str]) -> None:
        faults = [
            f"there is no input `{name}`{_near(name, self._inputs)}" for name in given if name not in self._inputs
        ]
        faults += [f"there is no array for input `{name}`" for name in self._inputs if name not in given]
        faults += [
            f"there is no output `{name}`{_near(name, self._outputs)}" for name in wanted if name not in self._outputs
        ]
        if faults:
            raise arguments.faulty(
                faults,
                "problems with the arrays of a pipeline",
                hint=f"inputs: {', '.join(self._inputs) or 'none'}; outputs: {', '.join(self._outputs) or 'none'}",
            )

    def _counted(self) -> Copies:
        states = [buffer for pair in self.states for buffer in (pair.reading, pair.writing)]
        return Copies(
            input=sum(graph.copied for graph in self.graphs),
            state=sum(buffer.copied for buffer in states),
            activation=sum(buffer.copied for buffer in self.buffers.values()),
        )


def _check(graphs: Any, domain: Any, links: Any, states: Any) -> None:
    hint = "give the graphs of the shards in order"
    if isinstance(graphs, (str, bytes)) or not isinstance(graphs, Sequence):
        raise UsageError(f"the graphs of a pipeline are {arguments.kind_of(graphs)}", hint=hint)
    if not graphs:
        raise UsageError("a pipeline needs at least one graph", hint=hint)
    for number, graph in enumerate(graphs):
        if not hasattr(graph, "binding") or isinstance(graph, type):
            raise UsageError(f"stage {number} of the pipeline is {arguments.kind_of(graph)}", hint=hint)
        graph.context.check_open()
    arguments.expect(domain, MemoryDomain, "the domain of a pipeline", "a MemoryDomain")
    if isinstance(states, BufferPair) or not isinstance(states, Iterable):
        raise UsageError(f"the states of a pipeline are {arguments.kind_of(states)}", hint="give pairs in a list")
    for state in states if isinstance(states, Collection) else ():
        arguments.expect(state, BufferPair, "a state of a pipeline", "pairs of a MemoryDomain (`pair`)")
    if links is not None:
        arguments.mapping(links, "the links", hint='give a dict: {"input": "output"}')


def _difference(after: Copies, before: Copies) -> Copies:
    return Copies(*(one - other for one, other in zip(after, before, strict=True)))


def _near(name: str, names: Collection[str]) -> str:
    found = suggestion(name, names)
    return found and f": {found}"
