"""Runs the model: a prompt through prefill_forward, then token by token through kv_forward.

    run.py DIR [--prompt 25,45,15] [--tokens 8] [--memory shared|raw] [--sessions 3] [--json]

Nothing that stays inside the model is copied.  Caches lie in pairs of buffers of a memory domain, which change places
after each execution; hidden states in buffers that one shard writes and the next one reads; what the client writes and
reads (the first hidden state, the mask, the position, the logits) in one buffer that all contexts share.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from model import Array, Grid, Model, mask, padded, rounded
from network import KV, PREFILL, Sizes

from udogen import UdogenError
from udogen.runtime import (
    INPUT,
    OUTPUT,
    RAW,
    SHARED_BUFFER,
    BufferPair,
    BufferPart,
    Graph,
    MemoryDomain,
    Pipeline,
    Role,
    Runtime,
    ScaleOffset,
    Sessions,
    SizedShard,
    StoredContext,
    TensorInfo,
    align_up,
    allocate,
    find_shards,
    layers_of,
    place_layers,
    sessions_of,
    shared_allocator,
    table_lines,
)

CACHES = {"past_key": "key", "past_value": "value"}  # what a graph reads, and what it writes next
HANDED_ON = {"hidden": "hidden_out"}  # what a shard reads, and what the one before it has written
DEVICE = "SM8650"  # what each device of our emulator is


@dataclass(frozen=True)
class Copies:
    """Bytes that were copied on the way of some tokens."""

    state: int
    activations: int
    client: int  # written by the client into its own inputs; logits are read where they lie


class ShardedModel:
    """The shards of a folder, restored on sessions and bound; `forward` is all that is left to do."""

    def __init__(self, folder: Path, *, kind: str, memory: str = "", sessions: int = 1) -> None:
        about = json.loads((folder / "model.json").read_text("utf-8"))
        self.sizes = Sizes(**about["sizes"])
        with ExitStack() as stack:
            last = stack.enter_context(ExitStack())  # a buffer is closed after the contexts that know it
            self.runtime = stack.enter_context(Runtime("htp", kind=kind))
            package = about["op_package"]
            self.runtime.register(folder / package["library"], package["provider"])
            stored = [stack.enter_context(StoredContext(each)) for each in find_shards([folder]).shards]
            shards = [SizedShard(each.name, each.info, len(each.data)) for each in stored]
            layers = layers_of(shards, links=HANDED_ON, states=(*CACHES, *CACHES.values()))
            self.plan = place_layers(layers, sessions_of(self.runtime, sessions), exactly=sessions)
            binaries = {each.name: each.path for each in stored}
            self.sessions = stack.enter_context(Sessions(self.runtime, self.plan, binaries))
            self.graphs = {name: self.sessions.graphs(name) for name in self.sizes.graphs}
            self.memory = memory or ("shared" if self.runtime.emulator else "raw")
            domain = stack.enter_context(MemoryDomain(self.sessions, name="model"))
            self._states = self._bind_caches(domain)
            self._bind_client(last)
            self.pipelines = {
                name: stack.enter_context(Pipeline(graphs, domain, links=HANDED_ON, states=self._states))
                for name, graphs in self.graphs.items()
            }
            self._close = stack.pop_all().close

    # --- who lies where ---------------------------------------------------------------------------------------------

    def _bind_caches(self, domain: MemoryDomain) -> list[BufferPair]:
        """A pair of buffers for each cache of each shard, which both of its graphs read and write."""
        states = []
        for shard, graphs in enumerate(zip(*self.graphs.values(), strict=True)):
            for reads, writes in CACHES.items():
                roles = [Role(graph, name, how) for graph in graphs for name, how in ((reads, INPUT), (writes, OUTPUT))]
                pair = domain.pair(roles, name=f"{writes} of shard {shard}")
                for graph in graphs:
                    pair.bind(graph, reads=reads, writes=writes)
                states.append(pair)
        return states

    def _bind_client(self, last: ExitStack) -> None:
        """One buffer for what the client writes and reads; all shards have one mask and one position."""
        places: dict[tuple[str, str], list[tuple[Graph, TensorInfo]]] = {}
        for name, graphs in self.graphs.items():
            for shard, graph in enumerate(graphs):
                first, final = shard == 0, graph is graphs[-1]
                seen = {"hidden": first, "hidden_out": final, "mask": True, "position": True, "logits": final}
                for info in (*graph.inputs, *graph.outputs):
                    if seen.get(info.name):
                        places.setdefault((name, info.name), []).append((graph, info))
        offsets, end = [], 0
        for users in places.values():
            offsets.append(end)
            end = align_up(end + users[0][1].nbytes, 128)
        shared = self.memory == "shared"
        allocator = shared_allocator().allocator if shared else "client"
        buffer = last.enter_context(allocate(allocator, end, alignment=128, name="client"))
        self._places: dict[tuple[str, str], Array] = {}
        for offset, (where, users) in zip(offsets, places.items(), strict=True):
            part = BufferPart(buffer, offset, users[0][1].nbytes, SHARED_BUFFER if shared else RAW)
            for graph, info in users:
                graph.bind({info.name: part})
            self._places[where] = users[0][0].array(info.name)

    # --- what is done -----------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Empty caches, for a new text."""
        for pair in self._states:
            role = pair.reading.roles[0]
            zero = grid_of(role.graph, role.tensor).store(np.zeros(self.sizes.cache))
            pair.copy_from(zero)

    def forward(self, embedded: Array, position: int) -> Array:
        """A row of logits for each token, as they are stored: a view of the buffer, good until the next call."""
        name = KV if embedded.shape[1] == 1 else PREFILL
        grids = {tensor: grid_of(self.graphs[name][0], tensor) for tensor in ("hidden", "mask")}
        written = self._write(name, "hidden", grids["hidden"].store(embedded))
        written += self._write(name, "mask", grids["mask"].store(mask(self.sizes, embedded.shape[1], position)))
        written += self._write(name, "position", np.array([position], np.int32))
        pipeline = self.pipelines[name]
        pipeline()  # everything is bound
        self.copied = Copies(pipeline.last.state, pipeline.last.activation + pipeline.last.input, written)
        return self._places[name, "logits"][0]

    def _write(self, graph: str, tensor: str, value: Array) -> int:
        array = self._places[graph, tensor]
        array[...] = value
        return int(array.nbytes)

    def generate(self, model: Model, prompt: list[int], count: int) -> tuple[list[int], list[Copies]]:
        """The likeliest tokens after a prompt, and what was copied for each."""
        self.reset()
        tokens, position, row, made = padded(self.sizes, prompt), 0, len(prompt) - 1, list[int]()
        copies = []
        for _ in range(count):
            logits = self.forward(model.embed(tokens, position), position)
            made.append(int(logits[row].argmax()))
            copies.append(self.copied)
            position += row + 1
            tokens, row = made[-1:], 0
        return made, copies

    def close(self) -> None:
        """Free everything, last to first."""
        self._close()

    def __enter__(self) -> ShardedModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def grid_of(graph: Graph, tensor: str) -> Grid:
    """The grid of a tensor, as the context binary tells it."""
    info = graph.binding(tensor).info
    assert isinstance(info.quant, ScaleOffset)
    return Grid(info.quant.scale, info.quant.offset, 8 if info.dtype.endswith("_8") else 16)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="what build.py has made")
    parser.add_argument("--prompt", default="25,45,15,35,41,27", help="numbers of tokens, with commas")
    parser.add_argument("--tokens", type=int, default=8, help="how many to generate")
    parser.add_argument("--memory", choices=("shared", "raw"), default="", help="shared where the runtime takes it")
    parser.add_argument("--sessions", type=int, default=1, help="place the shards on so many sessions")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libQnnHtp writes to stdout, which is for results
    about = json.loads((given.folder / "model.json").read_text("utf-8"))
    prompt = [int(word) for word in given.prompt.split(",")]
    numpy_model = rounded(Sizes(**about["sizes"]), about["seed"])
    if given.sessions > 1 and about["runtime"] == "emulator":
        os.environ.setdefault("UDOGEN_HTP_DEVICES", ",".join([DEVICE] * given.sessions))
    kind, memory = about["runtime"], given.memory
    with ShardedModel(given.folder, kind=kind, memory=memory, sessions=given.sessions) as model:
        made, copies = model.generate(numpy_model, prompt, given.tokens)
        expected = numpy_model.generate(prompt, given.tokens)
        told = {
            "runtime": f"{model.runtime.name} ({model.runtime.build_id})",
            "memory": model.memory,
            "plan": model.plan.as_json(),
            "tokens": made,
            "numpy": expected,
            "copied_per_token": [asdict(each) for each in copies],
        }
    if given.json:
        print(json.dumps(told), file=answers)
    else:
        rows = [
            (str(token), str(each.state), str(each.activations), str(each.client))
            for token, each in zip(made, copies, strict=True)
        ]
        print(told["runtime"], f"{model.memory} memory", sep=", ", file=answers)
        print(*table_lines(model.plan), "", sep="\n", file=answers)
        for row in (("token", "state", "activations", "client"), *rows):
            print("  ".join(cell.ljust(11) for cell in row).rstrip(), file=answers)
        print("the tokens of the numpy model" if made == expected else f"numpy has {expected}", file=answers)
    answers.close()
    return 0 if made == expected else 6


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UdogenError as fault:
        print(f"error: {fault}", file=sys.stderr)
        sys.exit(fault.exit_code)
