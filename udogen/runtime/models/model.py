"""An open model: its contexts, restored on sessions and linked, and their state; executed step by step."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import RunFailed, UnknownName, UsageError, nearest
from udogen.findings import unknown
from udogen.qnn.handles import Closing
from udogen.runtime import arguments
from udogen.runtime.arguments import PathArgument
from udogen.runtime.buffers.domains import INPUT, OUTPUT, BufferPair, MemoryDomain, Role
from udogen.runtime.buffers.plan import BufferPlan, join_plans
from udogen.runtime.contexts.arrays import fits, given_value
from udogen.runtime.contexts.commands import parse_package
from udogen.runtime.contexts.report import GraphProfile, profile_row
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.models.chain import Chain, ChainState, MemoryBreakdown, MemoryRow, Timing, resident
from udogen.runtime.models.description import ModelDescription, bytes_of, describe, open_runtime, planned, sharing_in
from udogen.runtime.models.wiring import GraphChain, StateTensor
from udogen.runtime.sessions import Sessions

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from udogen.qnn.tensors import QnnTensor
    from udogen.runtime.contexts.graph import Graph, Outputs
    from udogen.runtime.op.calls import Array


class Model(Closing):
    """Context binaries as one model: `with Model.open("model.toml") as model: model.step(tokens=…)`.

    Each step executes the graphs of one name in every context, in order.  What a context passes to the next is in
    memory that they share; state stays in place, in pairs of buffers that are exchanged after each step.  Neither is
    copied.  A step that fails changes no state.  Several threads may use it: steps take turns.

    `model = Model.open("llm/model.toml")`
    """

    def __init__(
        self,
        description: ModelDescription,
        *,
        runtime: Runtime | None = None,
        profile: bool = False,
    ) -> None:
        """Open the described model; `runtime` is an open one of a worker, in which its packages are registered already.

        `profile`: the runtime measures executions (`profile_of`), which makes them slower.
        """
        self.description, self._resident = description, resident()
        self._lock, self._starting = threading.RLock(), threading.Lock()
        self._thread: ThreadPoolExecutor | None = None  # see `step_async`
        with ExitStack() as stack:
            here = runtime is None  # and not in a worker: untrusted binaries are read in a child process first
            self.runtime = runtime = runtime or stack.enter_context(open_runtime(description))
            with planned(description, runtime, guarded=here) as (self.wiring, self.session_plan, binaries):
                self.names, self.shared = self.wiring.contexts, sharing_in(binaries)
                self.sessions = stack.enter_context(Sessions(runtime, self.session_plan, binaries, profile=profile))
            self.domain = stack.enter_context(MemoryDomain(self.sessions, name="model"))
            self._pairs = [self._bind_state(state) for state in self.wiring.states]
            self._chains = {chain.name: self._open_chain(chain) for chain in self.wiring.chains}
            self._only = next(iter(self._chains.values())) if len(self._chains) == 1 else None
            if description.memory == "shared" and not self.domain.registers:
                library = runtime.path.name
                warnings.warn(f"{library} registers no shared memory here: its tensors are in raw memory", stacklevel=3)
            self.timings: dict[str, Timing] = {
                name: Timing(name, names=tuple(self.names[number] for number in chain.wired.contexts))
                for name, chain in self._chains.items()
            }
            self.closed, self.steps, self._copied_by_reset = False, 0, 0
            self.reset()
            self._stack = stack.pop_all()

    @classmethod
    def open(
        cls,
        source: PathArgument | ModelDescription,
        *,
        packages: Sequence[PathArgument] | None = None,
        sessions: int | None = None,
        session_limit: int | str | None = None,
        memory: str | None = None,
        profile: bool = False,
    ) -> Model:
        """Open a model: `Model.open("model.toml")`, or `Model.open("llm", sessions=3)`.

        `source` is a description, its file, a folder of context binaries (with or without a `model.toml`), or one
        binary.  `packages`, `sessions`, `session_limit` (3_000_000_000 or "3GB") and `memory` replace those of the
        description.  With `profile` the runtime measures each step: `model.profile_of("step")`.
        """
        description = source if isinstance(source, ModelDescription) else describe(source)
        given = {
            "packages": None if packages is None else tuple(parse_package(str(package)) for package in packages),
            "sessions": sessions,
            "session_limit": None if session_limit is None else bytes_of(session_limit),
            "memory": memory,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        return cls(description.changed(changes), profile=profile)

    # --- steps --------------------------------------------------------------------------------------------------------

    def step(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        graph: str = "",
        out: Mapping[str, Array] | None = None,
        **named: Any,
    ) -> Outputs:
        """Execute one step; returns its outputs by name, as stored: `model.step(hidden=x, position=3)`.

        Arrays are stored integers or, for fixed-point tensors, real numbers, which are quantized.  The real numbers of
        the outputs: `model.step(hidden=x).real["logits"]`.  `graph` may be left out if only one graph has inputs of
        these names and shapes.  `out`: arrays that outputs are written to.  An error leaves the state as it was.
        """
        if inputs is not None:
            arguments.mapping(inputs, "what a model is given", hint='give arrays in a dict: {"tensor": …}')
            named = {**inputs, **named}
        if out is not None:
            arguments.mapping(out, "the outputs of a step", hint='give arrays in a dict: {"tensor": …}')
        if graph.__class__ is not str:
            arguments.expect(graph, str, "the graph of a step", "its name")
        given = {name: np.asarray(value) for name, value in named.items()}
        with self._lock:
            if self.closed:
                self.check_open()
            chain = self._only if self._only is not None and not graph else self._chain_of(given, graph)
            if given.keys() != chain.inputs.keys():
                _check_inputs(chain, given)
            arrays = {name: chain.stored(name, array) for name, array in given.items()}
            began = perf_counter()
            try:
                outputs = chain.run(arrays, out or {})
            except RunFailed as fault:
                fault.details = (f"in step {self.steps} of the model, graph `{chain.name}`", *fault.details)
                raise
            self.steps += 1
            self.timings[chain.name].add(perf_counter() - began, chain.seconds)
            return outputs

    def step_async(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        graph: str = "",
        out: Mapping[str, Array] | None = None,
        **named: Any,
    ) -> Future[Outputs]:
        """`step` in a thread of the model, in the order of the calls: `model.step_async(hidden=x).result()`.

        The caller prepares the next step meanwhile, and leaves these arrays as they are until the result.
        """
        from concurrent.futures import ThreadPoolExecutor  # it imports logging: 5 ms that few programs need to spend

        with self._starting:
            self.check_open()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "udogen-model")
            return self._thread.submit(self.step, inputs, graph=graph, out=out, **named)

    def _chain_of(self, given: Mapping[str, Array], graph: str) -> Chain:
        if graph:
            if graph not in self._chains:
                raise unknown("the model has no graph", graph, self._chains)
            return self._chains[graph]
        fitting = [chain for chain in self._chains.values() if _takes(chain, given)]
        if len(fitting) == 1:
            return fitting[0]
        if len(self._chains) == 1:
            return next(iter(self._chains.values()))  # which reports the errors of the inputs
        raise UsageError(
            f"{'several' if fitting else 'none'} of the graphs of the model can take these inputs: "
            + (", ".join(f"`{chain.name}`" for chain in fitting) or ", ".join(given) or "none are given"),
            hint="name the graph: step(graph=…)"
            if fitting
            else "give the inputs of one of them; with step(graph=…) the error names the wrong one",
            details=[f"{chain.name} takes {_signature(chain.inputs)}" for chain in self._chains.values()],
        )

    def inputs(self, graph: str = "") -> dict[str, QnnTensor]:
        """The inputs of a step, by name: `model.inputs("kv_forward")["hidden"].shape`."""
        return dict(self._one(graph).inputs)

    def outputs(self, graph: str = "") -> dict[str, QnnTensor]:
        """The outputs of a step, by name."""
        return dict(self._one(graph).outputs)

    def _one(self, graph: str) -> Chain:
        return self._chain_of({}, graph or next(iter(self._chains)))

    @property
    def graphs(self) -> tuple[str, ...]:
        """The names of the graphs that a step can execute."""
        return tuple(self._chains)

    def tensors(self, graph: str) -> dict[str, Array]:
        """What the contexts wrote in the last step of a graph: `model.tensors("step")["forward_0.hidden_out"]`.

        These are copies, as stored, of the tensors that contexts pass on, of the state, and of what `step` returned.
        """
        with self._lock:
            self.check_open()
            chain = self._one(graph)
            tensors = {}
            for connection in chain.wired.connections:
                context = self.names[chain.wired.contexts[connection.source]]
                tensors[f"{context}.{connection.output.name}"] = chain.handed[connection.name].copy_to()
            for state, pair in zip(self.wiring.states, self._pairs, strict=True):
                written = state.uses.get(chain.name, ("", ""))[1]
                if written:
                    tensors[f"{self.names[state.context]}.{written}"] = pair.copy_to()
            return tensors | {self.origin(chain.name, name): array.copy() for name, array in chain.last.items()}

    def origin(self, graph: str, output: str) -> str:
        """The name of an output with its context: forward_7.logits."""
        chain = self._one(graph).wired
        if output not in (known := self.outputs(graph)):
            raise unknown("the model has no output", output, known)
        [(stage, tensor)] = next(outer.ends for outer in chain.outputs if outer.name == output)
        return f"{self.names[chain.contexts[stage]]}.{tensor}"

    def profile_of(self, graph: str) -> list[GraphProfile]:
        """The runtime's measurements of each context in the last step, if that executed this graph.

        For a model opened with `profile=True`: `model.profile_of("step")[0].events`.
        """
        self.check_open()
        chain, profiles = self._one(graph), []
        if not chain.seconds:
            raise UsageError(f"no step has executed graph `{chain.name}`", hint="call `step` first")
        for context, bound, seconds in zip(chain.wired.contexts, chain.graphs, chain.seconds, strict=True):
            measured = bound.context.profile.events() if bound.context.profile else []
            profiles.append(GraphProfile(self.names[context], bound.name, seconds, tuple(map(profile_row, measured))))
        return profiles

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, BufferPair]:
        """The state, by context and input: `model.state["forward_0.past_key"].copy_to()`."""
        rows = zip(self.wiring.states, self._pairs, strict=True)
        return {f"{self.names[state.context]}.{state.key}": pair for state, pair in rows}

    def reset(self) -> None:
        """Set all state to zero, for a new sequence: `model.reset()`."""
        with self._lock:
            self.check_open()
            before = self.domain.copied
            for state, pair in zip(self.wiring.states, self._pairs, strict=True):
                zero = self.sessions.context(self.names[state.context])
                graph, (reads, writes) = next(iter(state.uses.items()))
                empty = self._graph(zero, graph).binding(reads or writes).zeros()
                pair.copy_from(given_value(np.zeros(empty.shape), state.info) if state.info.quant else empty)
            self._copied_by_reset += self.domain.copied - before

    def _bind_state(self, state: StateTensor) -> BufferPair:
        """A pair of buffers for a state of one context, read and written by all its graphs."""
        context = self.sessions.context(self.names[state.context])
        bound = [(self._graph(context, name), reads, writes) for name, (reads, writes) in state.uses.items()]
        roles = [
            Role(graph, tensor, usage)
            for graph, reads, writes in bound
            for tensor, usage in ((reads, INPUT), (writes, OUTPUT))
            if tensor
        ]
        pair = self.domain.pair(roles, name=f"{self.names[state.context]}.{state.key}")
        for graph, reads, writes in bound:
            pair.bind(graph, reads=reads, writes=writes)
        return pair

    def _graph(self, context: Any, chain: str) -> Graph:
        """The graph of a chain in a context; contexts with a single graph may give it any name."""
        graph: Graph = context.graph(chain if chain in context.names else context.names[0])
        return graph

    def _open_chain(self, chain: GraphChain) -> Chain:
        graphs = [self._graph(self.sessions.context(self.names[number]), chain.name) for number in chain.contexts]
        states = [
            ChainState(chain.contexts.index(state.context), *state.uses[chain.name], pair)
            for state, pair in zip(self.wiring.states, self._pairs, strict=True)
            if chain.name in state.uses
        ]
        return Chain(chain, graphs, self.domain, states, shared=self.description.memory == "shared")

    # --- memory -------------------------------------------------------------------------------------------------------

    @property
    def memory(self) -> MemoryBreakdown:
        """The memory that each session maps and the host holds: `print(model.memory)`."""
        self.check_open()
        sessions = [
            MemoryRow(session.name, *session.sizes, session.limit) for session in self.sessions.sessions.values()
        ]
        # Memory that the runtime does not register is in this process, as are the arrays of the caller.
        arrays = sum(chain.array_bytes for chain in self._chains.values())
        state, here = sum(pair.reading.size for pair in self._pairs), self.domain.size
        if self.domain.registers:
            state = here = 0
        host = MemoryRow("host", 0, state, here - state + arrays)
        grown = resident() - self._resident - sum(row.used for row in (*sessions, host))
        return MemoryBreakdown((*sessions, replace(host, unaccounted=grown)))

    @property
    def copied(self) -> int:
        """Bytes that udogen copied: inputs that are not contiguous, inputs and outputs in shared memory, state by hand.

        What contexts pass on and what steps do with state is never copied.
        """
        graphs = {graph for chain in self._chains.values() for graph in chain.graphs}
        return sum(graph.copied for graph in graphs) + self.domain.copied - self._copied_by_reset

    @property
    def plan(self) -> BufferPlan:
        """The buffer of each tensor."""
        self.check_open()
        return join_plans([chain.plan() for chain in self._chains.values()])

    # --- closing ------------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise after it was closed."""
        if self.closed:
            raise RunFailed("the model is closed", hint="use it inside its `with` block, or open it again")

    def close(self) -> None:
        """Wait for a running step, then free everything, last to first; a second call does nothing."""
        with self._starting:
            self.closed = True
            if self._thread is not None:
                self._thread.shutdown(cancel_futures=True)
        with self._lock:
            self._stack.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.steps} steps"
        return f"<Model of {len(self.names)} contexts, graphs {', '.join(self._chains)}: {state}>"


def _takes(chain: Chain, given: Mapping[str, Array]) -> bool:
    if given.keys() != chain.inputs.keys():
        return False
    shapes = chain.layouts
    return all(
        array.shape == shapes[name][0] or array.size == 1 or fits(array.shape, chain.inputs[name])
        for name, array in given.items()
    )


def _check_inputs(chain: Chain, given: Mapping[str, Array]) -> None:
    faults = []
    linked = {tensor.name: source for source in chain.wired.connections for _, tensor in source.targets}
    for name in given:
        if name in chain.inputs:
            continue
        near = nearest(name, chain.inputs)
        why = f"it comes from `{linked[name].output.name}`" if name in linked else near and f"did you mean `{near}`?"
        if name in {state.reads for state in chain.states}:
            why = "it is a state, which the model keeps (model.state, model.reset)"
        faults.append(f"graph `{chain.name}` takes no input `{name}`" + (f": {why}" if why else ""))
    faults += [f"graph `{chain.name}` is given no input `{name}`" for name in chain.inputs if name not in given]
    if faults:
        hint = f"{chain.name} takes {_signature(chain.inputs)}"
        fault = arguments.faulty(faults, "things are wrong with the inputs of a step", hint=hint)
        raise UnknownName(fault.message, hint=hint, details=fault.details)


def _signature(tensors: Mapping[str, QnnTensor]) -> str:
    return ", ".join(f"{name} {info.dtype} {list(info.shape)}" for name, info in tensors.items()) or "nothing"
