"""Wrong values for each parameter of every public function, class and method: udogen's own errors, or right calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import udogen
import udogen.runtime
import udogen.runtime.ops as ops
import udogen.runtime.quantization as quantization
from tests.contexts.stepping import SHAPE, array, binary, open_runtime
from tests.making import ONE_KERNEL, ONE_OP, ROOT, cpu_package, make_packages
from udogen import runtime as api
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE
from udogen.runtime.contexts import manifest

WRONG: list[Any] = [
    *(None, 5, -1, 2**70, 1.5, float("nan"), True, "", "x", "x\0", b"", b"x", object(), object),
    *([], [None], ["x"], (), (-1,), {}, {1: 2}, {"x": None}, np.zeros(2, np.complex128)),
]
# The other side of a protocol between objects of udogen; and what only ends things.
INTERNAL = {
    "GraphBuilder": {"constant", "find", "refusal"},
    "GraphDraft": {"check_outputs"},
    "OpSession": {"parallel"},
    "Runtime": {"abandon", "device", "disown", "forget", "check_process", "register_file"},
    "Context": {"abandon", "disown", "keep", "on_close"},
    "Graph": {"bind_both", "binding", "disown", "flip", "lend", "release"},
    "GraphHandle": {"call", "executor", "start"},
    "Buffer": {"attach", "attached", "hold", "reserve"},
    "BufferPart": {"attach"},
    "ManagedBuffer": {"attach"},
    "MemoryDomain": {"forget"},
}
SCALE = quantization.ScaleOffset(0.5, 0)


class World:
    """Open objects, and right arguments for each public name."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.numbers = count()
        self.built = built = cpu_package(ONE_OP, folder / "package", ONE_KERNEL)
        self.runtime = stack.enter_context(open_runtime("cpu", "emulator"))
        self.file = folder / "forward_0.bin"
        manifest.save(self.file, binary("cpu", "emulator"))
        self.graph = self.runtime.restore(self.file).graph("step")
        self.builder = stack.enter_context(udogen.GraphBuilder("cpu", runtime=self.runtime))
        self.draft = stack.enter_context(self.builder.graph("main", outputs=["end"]))
        tensor = self.draft.input("in", "FLOAT_32", SHAPE)
        self.draft.op("Relu", [tensor], "end", like=tensor)
        self.session = stack.enter_context(ops.OpSession(built.library, built.provider, timeout=60))
        self.package = udogen.open_packages(folder / "package")[0]
        self.case = udogen.Case("c", "Scale", {}, {})
        packages, findings = udogen.load_configs([ONE_OP])
        self.pool = api.Buffer("ashmem", 4096)
        ones = api.Tensor("X", "FLOAT_32", SHAPE, data=array(1))
        self.call = call = ops.OpCall("LeakyRelu", built.package, (ones,), (api.Tensor("Y", "FLOAT_32", SHAPE),))
        self.buffer = stack.enter_context(api.Buffer("memfd", 4096))
        self.domain = stack.enter_context(api.MemoryDomain(self.runtime))
        make_packages([ROOT / "tests/hexagon/Raw.xml"], folder / "dsp", chosen=["dsp"])
        self.dsp = udogen.open_packages(folder / "dsp")[0]
        self.role = api.Role(self.graph, "x", "input")
        htp = stack.enter_context(open_runtime("htp", "emulator"))
        self.deferred = htp.restore(binary("htp", "emulator"), deferred=True)
        self.made = self.runtime.new_context()
        self.handle = self.made.new_graph("new")
        ends = {"x": APP_WRITE, "y": APP_READ}
        x, y = (
            self.handle.add_tensor(api.Tensor(name, dtype="FLOAT_32", shape=SHAPE, role=role))
            for name, role in ends.items()
        )
        relu = api.OpConfig("node", package="qti.aisw", op_type="Relu", inputs=[x], outputs=[y])
        managed = self.domain.allocate([self.role])
        self.model = stack.enter_context(
            udogen.Model(api.ModelDescription((self.file,), backend="cpu", runtime="emulator"))
        )
        self.graph.bind({"x": array(1), "state": array(1), "next": array(1)})
        self.model.step(x=array(1), state=array(1), graph="step")
        self.objects = [
            *(self.builder, self.draft, self.session, self.runtime, self.graph.context, self.graph, self.model),
            *(self.buffer, self.buffer.part(), self.pool, api.Constants(self.pool), self.domain),
            *(managed, self.domain.pair([self.role]), self.package),
            *(api.StoredContext(self.file), quantization.RepackBuffer("Q4_0", (32, 32)), api.OpLibrary(built.library)),
            *(ops.HexagonSession(self.dsp), self.handle, built),
        ]
        self.right: Mapping[str, dict[str, Any]] = {
            "Case": {"name": "c", "op": "Scale", "inputs": {}, "expected": {}},
            "Example": {"config": ONE_OP, "kernels": folder, "cases": ()},
            "GenerateOptions": {},
            "GraphBuilder": {"backend": "cpu", "runtime": self.runtime},
            "Model": {"description": api.ModelDescription((self.file,), backend="cpu", runtime="emulator")},
            "Outcome": {"case": self.case, "backend": "cpu", "dtype": "FLOAT_32", "status": "passed"},
            "TestOptions": {},
            "Verdict": {"planned": 1},
            "build_package": {"package": self.package},
            "generate_packages": {
                "packages": packages,
                "options": udogen.GenerateOptions(folder / "generated", dry_run=True),
                "findings": findings,
            },
            "load_configs": {"paths": [ONE_OP]},
            "load_examples": {"folder": ONE_KERNEL.parent},
            "make_package": {"config": ONE_OP, "out": folder / "made", "backend": "cpu"},
            "open_packages": {"path": folder / "package"},
            "qnn_headers": {},
            "run_cases": {"built": built, "cases": []},
            "write_report": {"folder": folder, "outcomes": [], "file": folder / "report.html"},
            "AxisScaleOffset": {"axis": 0, "pairs": (SCALE,)},
            "BlockEncoding": {"block": (1, 2), "pairs": (SCALE,)},
            "BufferDesc": {},
            "BwAxisScaleOffset": {"bitwidth": 4, "axis": 0, "scales": (0.5,)},
            "BwScaleOffset": {"bitwidth": 4, "scale": 0.5},
            "Constants": {},
            "ContextOptions": {},
            "HexagonSession": {"folder": self.dsp},
            "MemoryDomain": {"owner": self.runtime},
            "ModelDescription": {"contexts": (self.file,)},
            "OpCall": {"op_type": "Scale", "package": "P", "inputs": (), "outputs": ()},
            "OpConfig": {"name": "n", "package": "qti.aisw", "op_type": "Relu"},
            "OpLibrary": {"path": built.library},
            "OpSession": {"library": built.library, "provider": built.provider},
            "RepackBuffer": {"kind": "Q4_0", "shape": (32, 32)},
            "Role": {"graph": self.graph, "tensor": "x", "usage": "input"},
            "Runtime": {"backend": "cpu", "runtime": "emulator"},
            "Scalar": {"name": "s", "dtype": "INT_32", "value": 1},
            "ScaleOffset": {"scale": 0.5},
            "StoredContext": {"shard": self.file, "guarded": False},
            "Tensor": {"name": "t", "dtype": "FLOAT_32", "shape": SHAPE, "role": APP_WRITE},
            "Buffer": {"kind": "client", "size": 64},
            "Buffer.mapped_to_hexagon": {},
            "Buffer.take": {"nbytes": 1},
            "Context.plan": {},
            "add_op_package": {"path": folder / "package"},
            "adsp_library_path": {"libraries": []},
            "dequantize": {"stored": np.zeros(2, np.uint8), "quant": SCALE},
            "dequantize_blocks": {"blocks": np.zeros((1, 18), np.uint8), "kind": "Q4_0"},
            "executions": {"library": built.library},
            "find_built": {"path": folder / "package"},
            "find_runtime": {"runtime": "emulator"},
            "find_source": {"path": folder / "package", "backend": "cpu"},
            "grid_of": {"low": -1.0, "high": 1.0, "dtype": "UFIXED_POINT_8"},
            "op_libraries": {"package": folder / "package"},
            "quantize": {"real": np.zeros(2), "quant": SCALE, "dtype": "u1"},
            "read_registration": {"path": built.library},
            "register_package": {"runtime": self.runtime, "package": folder / "package"},
            "shared_array": {"shape": SHAPE, "dtype": "f4"},
            "unrepack_rows": {"rows": np.zeros((1, 256), np.uint8), "kind": "Q4_0", "columns": 32},
            "GraphBuilder.graph": {"name": "other", "outputs": ["y"]},
            "GraphBuilder.save": {"path": folder / "saved.bin"},
            "GraphDraft.input": {"dtype": "FLOAT_32", "shape": SHAPE},
            "GraphDraft.weight": {"array": array(1)},
            "GraphDraft.op": {"op": "Relu", "inputs": [tensor], "like": tensor},
            "GraphDraft.ops": {"op": "Relu", "inputs": [tensor]},
            "Buffer.part": {},
            "BufferPair.bind": {"graph": self.graph, "reads": "x"},
            "BufferPair.copy_from": {"source": array(1)},
            "BufferPair.copy_to": {},
            "Built.check_op": {"name": "LeakyRelu"},
            "Built.op": {"name": "LeakyRelu", "backend": "cpu"},
            "Constants.refer": {"name": "c", "dtype": "FLOAT_32", "shape": SHAPE, "offset": 0},
            "Constants.tensor": {"name": "c", "dtype": "FLOAT_32", "shape": SHAPE, "data": array(1)},
            "Context.allocate_spill_fill": {},
            "Context.allocate_weights": {},
            "Context.finalize_graph": {"built": self.handle},
            "Context.give_spill_fill": {"buffer": self.buffer},
            "Context.give_weights": {"buffer": self.buffer},
            "Context.graph": {"name": "step"},
            "Context.idle": {"within": 0.0},
            "Context.new_graph": {"name": "another"},
            "Context.save": {"path": folder / "saved.bin"},
            "Graph.__call__": {"x": array(1), "state": array(1)},
            "Graph.array": {"name": "next"},
            "Graph.bind": {"places": {"x": array(1), "state": array(1), "next": array(1)}},
            "Graph.execute": {},
            "Graph.idle": {"within": 0.0},
            "Graph.shape": {"name": "x"},
            "Graph.unbind": {"names": []},
            "GraphHandle.add_node": {"op": relu},
            "GraphHandle.add_tensor": {"tensor": api.Tensor("z", dtype="FLOAT_32", shape=SHAPE, role=NATIVE)},
            "GraphHandle.execute": {"inputs": [], "outputs": []},
            "GraphHandle.finalize": {},
            "GraphHandle.of_role": {"role": APP_WRITE},
            "HexagonSession.run": {"call": call},
            "ManagedBuffer.copy_from": {"source": array(1)},
            "ManagedBuffer.copy_to": {},
            "MemoryDomain.allocate": {"roles": [self.role]},
            "MemoryDomain.pair": {"roles": [self.role]},
            "Model.inputs": {},
            "Model.origin": {"graph": "step", "output": "next"},
            "Model.outputs": {},
            "Model.profile_of": {"graph": "step"},
            "Model.real": {"name": "next", "stored": array(1)},
            "Model.step": {"x": array(1), "state": array(1)},
            "Model.step_async": {"x": array(1), "state": array(1)},
            "Model.tensors": {"graph": "step"},
            "OpSession.run": {"call": call},
            "PackageLibrary.artifact": {"folder": "x"},
            "PackageLibrary.artifacts": {"row": self.package.rows[0]},
            "PackageLibrary.changed_since": {"library": built.library},
            "PackageLibrary.goal": {"row": self.package.rows[0]},
            "RepackBuffer.dequantize": {},
            "RepackBuffer.get": {},
            "RepackBuffer.quantize": {"values": np.zeros((32, 32), np.float32)},
            "RepackBuffer.set": {"blocks": np.zeros((32, 18), np.uint8)},
            "Runtime.new_context": {},
            "Runtime.register": {"library": built.library},
            "Runtime.restore": {"binary": self.file},
            "Runtime.validate": {"op": relu},
            "OpSession.prepare": {"call": call},
        }

    def new_name(self, call: str) -> dict[str, Any]:
        """Return an argument that names what a draft does not have yet."""
        name = f"new{next(self.numbers)}"
        spec = api.Tensor(name, "FLOAT_32", SHAPE)
        names = {"op": {"output": name}, "ops": {"outputs": [spec]}, "input": {"name": name}, "weight": {"name": name}}
        return names.get(call.partition("GraphDraft.")[2], {})

    def calls(self) -> dict[str, Callable[..., Any]]:
        """Return every public function, constructor and method, by name."""
        found = {}
        for module in (udogen, udogen.runtime, ops, quantization):
            for name in module.__all__:
                value = getattr(module, name)
                if callable(value) and not (isinstance(value, type) and issubclass(value, BaseException)):
                    found[name] = value
        for each in self.objects:
            kind = type(each).__name__
            for name, member in vars(type(each)).items():
                left_out = name.startswith("_") or name in {"close", "drop", *INTERNAL.get(kind, ())}
                takes = inspect.isfunction(member) and len(inspect.signature(member).parameters) > 1
                if takes and (not left_out or name == "__call__"):
                    found[f"{kind}.{name}"] = getattr(each, name)
        for name in ("allocate_spill_fill", "allocate_weights", "give_spill_fill", "give_weights"):
            found[f"Context.{name}"] = getattr(self.deferred, name)
        found["Context.finalize_graph"] = self.made.finalize_graph
        return found

    def arguments(self, call: str) -> dict[str, Any]:
        """Return right arguments for a call."""
        return {**self.right[call], **self.new_name(call)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, tmp_path_factory.mktemp("world"))


# They come from others: runtimes make graphs and contexts, `open_packages` packages.
NOT_MADE = {"Context", "Graph", "GraphDraft", "Outcome", "PackageLibrary", "kernel"}


# Right calls that cannot be made in this world.
REFUSED_HERE = {
    **dict.fromkeys(("add_op_package", "op_libraries", "read_registration", "register_package"), "of other backends"),
    **dict.fromkeys(("GraphBuilder.graph", "GraphBuilder.save", "Context.save"), "a graph is not finished"),
    **dict.fromkeys(("GraphHandle.execute", "Context.finalize_graph"), "has no nodes yet"),
    "Context.give_weights": "needs none",
    "Buffer.mapped_to_hexagon": "there is none",
    "HexagonSession.run": "is another package",
}


# What they hold is checked with the tensor that has them (test_memory_arguments.py).
WITH_TENSORS = {"ScaleOffset", "AxisScaleOffset", "BwScaleOffset", "BwAxisScaleOffset", "BlockEncoding"}


def outcome(call: Callable[..., Any], given: Mapping[str, Any], *places: Any) -> str:
    """Return "refused", "accepted", or the other error."""
    try:
        made = call(*places, **given)
        if hasattr(made, "__enter__") and not hasattr(made, "close"):
            with made:
                pass
        if hasattr(made, "close") and not isinstance(made, api.Graph):
            made.close()
    except udogen.UdogenError as fault:
        if not fault.message or "bug in udogen" in fault.hint:
            return f"an internal error: {fault}"
        return "refused"
    except Exception as fault:
        return f"{type(fault).__name__}: {fault}"
    return "accepted"


# The values that a hint allows, by the words in it; other words are names of classes and types of numbers.
ALLOWED: Mapping[str, Any] = {
    "str": str,
    "Path": str,
    "PathArgument": str,
    "bytes": bytes,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "None": type(None),
    "tuple": (list, tuple),
    "Sequence": (list, tuple),
    "Iterable": (list, tuple),
    "Mapping": dict,
    "Arrays": dict,
    "Quants": dict,
    "Quantization": type(None),
    "Callable": type,
    "Say": type,
    "OnCase": type,
    "OnStep": type,
    "LogSink": type,
    "Number": (int, float),
    "Named": str,
}
ANY = {"Any", "Array"}  # the call itself checks them when they are used


def is_right(value: Any, annotation: Any) -> bool:
    """Whether a value has the type in the hint of a parameter."""
    words = set(
        re.findall(r"\w+", re.sub(r"(?<=\w)\[.*\]", "", str(getattr(annotation, "__forward_arg__", annotation))))
    )
    kinds = [ALLOWED[word] for word in words if word in ALLOWED]
    is_bool = isinstance(value, bool) and "bool" not in words
    is_nul = isinstance(value, str) and "\0" in value
    is_nan = isinstance(value, float) and value != value and not {"int", "Number"} & words
    known = any(isinstance(value, kind) for kind in kinds)
    return bool(words & ANY) or (known and not is_nul and not is_nan and not (is_bool and "Number" not in words))


def test_every_public_call_with_wrong_values(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = world.calls()
    assert sorted(calls.keys() - world.right.keys() - NOT_MADE) == []
    bad = []
    for name in sorted(calls.keys() - NOT_MADE):
        right = outcome(calls[name], world.arguments(name))
        if right not in ("accepted", "refused") or (right == "refused") != (name in REFUSED_HERE):
            bad.append(f"{name} with right values: {right}")
    for name in sorted(calls.keys() - NOT_MADE - WITH_TENSORS):
        parameters = inspect.signature(calls[name]).parameters.values()
        for parameter in parameters:
            for wrong in WRONG:
                given = world.arguments(name)
                if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                    how = outcome(calls[name], given, wrong)
                else:
                    how = outcome(calls[name], {**given, parameter.name: wrong})
                row = f"{name}({parameter.name}={wrong!r})"
                if how == "accepted" and not is_right(wrong, parameter.annotation):
                    bad.append(f"{row} is accepted; it is {parameter.annotation}")
                elif how not in ("accepted", "refused"):
                    bad.append(f"{row}: {how}")
    assert not bad, "\n" + "\n".join(bad)
    assert not [each for each in recwarn if each.category is RuntimeWarning]


def closed(made: Any) -> Any:
    """Return it, closed twice."""
    made.close()
    made.close()
    return made


def after_its_block(world: World) -> Any:
    """Return a finished draft and a tensor of it."""
    with world.builder.graph(f"g{next(world.numbers)}", outputs=["y"]) as draft:
        tensor = draft.input("x", "FLOAT_32", SHAPE)
        draft.op("Relu", [tensor], "y", like=tensor)
    return draft, tensor


def relu(draft: api.GraphDraft, tensor: api.Tensor) -> None:
    draft.op("Relu", [tensor], "z", like=tensor)


def other_graph(world: World, outputs: list[str]) -> Any:
    """Compose a graph whose outputs are not written by an op."""
    with world.builder.graph(f"g{next(world.numbers)}", outputs=outputs) as draft:
        tensor = draft.input("hidden", "FLOAT_32", SHAPE)
        draft.op("Relu", [tensor], "y", like=tensor)


def new_builder(world: World) -> Any:
    return udogen.GraphBuilder("cpu", runtime=world.runtime)


def new_session(world: World) -> Any:
    return ops.OpSession(world.built.library, world.built.provider, timeout=60)


def entered(made: Any) -> Any:
    with made:
        return made


ORDERS: dict[str, tuple[Callable[[World], Any], str]] = {  # a call in the wrong order, and a part of the error
    "run after close": (lambda it: closed(new_session(it)).run(it.call), "closed"),
    "run after with": (lambda it: entered(new_session(it)).run(it.call), "closed"),
    "prepare after close": (lambda it: closed(new_session(it)).prepare(it.call), "closed"),
    "enter after close": (lambda it: closed(new_session(it)).__enter__(), "closed"),
    "package before with": (lambda it: new_session(it).package, "not been started"),
    "runtime before with": (lambda it: new_session(it).runtime, "not been started"),
    "graph after close": (lambda it: closed(new_builder(it)).graph("a", ["y"]).__enter__(), "closed"),
    "save after close": (lambda it: closed(new_builder(it)).save("x.bin"), "closed"),
    "enter builder after close": (lambda it: closed(new_builder(it)).__enter__(), "closed"),
    "save without a graph": (lambda it: new_builder(it).save("x.bin"), "would have no graph"),
    "graph twice": (lambda it: it.builder.graph("main", ["y"]).__enter__(), "has a graph `main`"),
    "input after its block": (lambda it: after_its_block(it)[0].input("z", "FLOAT_32", SHAPE), "is finished"),
    "weight after its block": (lambda it: after_its_block(it)[0].weight("z", array(1)), "is finished"),
    "op after its block": (lambda it: relu(*after_its_block(it)), "is finished"),
    "a tensor of another graph": (lambda it: it.draft.op("Relu", [after_its_block(it)[1]], "o", shape=SHAPE), "`x`"),
    "a lost generator": (lambda it: list(map(it.draft.op, ["Relu"], ["q"], ["r"])), "`inputs`"),
    "an input as output": (lambda it: other_graph(it, ["y", "hidden"]), "`hidden` is an input of graph"),
    "an output of no op": (lambda it: other_graph(it, ["y", "z"]), "no op of graph"),
    "take after close": (lambda it: closed(api.Buffer("ashmem", 64)).take(1), "closed"),
    "constants of a closed pool": (
        lambda it: api.Constants(closed(api.Buffer("ashmem", 64)), threshold=0).tensor(
            "c", dtype="FLOAT_32", shape=SHAPE, data=array(1)
        ),
        "closed",
    ),
    "option of HTP": (lambda it: api.ContextOptions(htp={1: 1}), "`htp`"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_calls_in_the_wrong_order(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    call, part = ORDERS[name]
    with pytest.raises(udogen.UdogenError) as caught:
        call(world)
    assert part in caught.value.message and caught.value.hint
    assert not list(tmp_path.iterdir())
