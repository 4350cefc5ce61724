"""Random small graphs of custom ops through ONNX Runtime, compared with numpy.

    python -m tests.hostile.random_graphs [--count 300] [--seed 1] [--backend cpu] [--backend htp] [--quantized]

Each graph has two to five nodes of ops of several packages, two of them from the examples: chains and branches, one or
two inputs, parameters that are given, omitted or lists, reals, integers of several types or enumerators, shapes that
change.  No graph declares the shapes between its nodes.  With --quantized, QuantizeLinear and DequantizeLinear are
between the nodes, some of which are ONNX's own; several nodes, or the graph's outputs, may share one.

Each graph runs in its own process, in a session of `udogen.onnx.ort`, and in one of ONNX Runtime alone with the
model that `udogen onnx schema` writes.  Prints figures; exits with 1 if a number is wrong or a graph does not run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.making import ROOT, make, make_packages
from tests.opdef import texts

BACKENDS = ("cpu", "htp")
DOMAIN = "random.graphs"
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
Array = Any


@dataclass(frozen=True)
class Op:
    """An op on rows and columns of floats: its config, its kernel, and its reference in numpy."""

    name: str
    body: str  # C++ of `execute`
    numpy: Callable[..., Array]
    inputs: tuple[str, ...] = ("x",)
    shape: str = ""  # of the output, in the names of the input's axes; empty: that of the input
    params: Mapping[str, object] = field(default_factory=dict)  # with their defaults; a list is a tensor
    types: Mapping[str, str] = field(default_factory=dict)  # of parameters that are not FLOAT_32; ENUM has three values
    quantized: bool = False  # also for UFIXED_POINT_8
    rules: str = ""  # if no config can express the shape


def _poly(x: Array, c: Sequence[float]) -> Array:
    return sum(np.float32(each) * x**power for power, each in enumerate(c))


_EACH = "for (std::size_t i = 0; i < args.y.size(); ++i) "
_COLUMNS = "std::size_t columns = 1; for (const auto extent : args.x.shape()) columns = extent;\n  "
OPS = (
    Op("Affine", _EACH + "args.y[i] = args.alpha * args.x[i] + args.beta;",
       lambda x, alpha, beta: np.float32(alpha) * x + np.float32(beta), params={"alpha": 2.0, "beta": -0.5}),
    Op("Lerp", _EACH + "args.y[i] = args.x[i] + args.weight * (args.z[i] - args.x[i]);",
       lambda x, z, weight: x + np.float32(weight) * (z - x), inputs=("x", "z"), params={"weight": 0.25}),
    Op("Least", _EACH + "args.y[i] = args.x[i] < args.z[i] ? args.x[i] : args.z[i];", np.minimum, inputs=("x", "z")),
    Op("Poly", _EACH + "{ float sum = 0.0f;\n"
       "    for (std::size_t k = args.c.size(); k-- > 0;) sum = sum * args.x[i] + args.c[k];\n    args.y[i] = sum; }",
       _poly, params={"c": [0.5, 0.25, -0.125]}),
    Op("Turn", _COLUMNS + "const std::size_t rows = args.x.size() / columns;\n  "
       + _EACH + "args.y[i] = args.x[(i % rows) * columns + i / rows];", np.transpose, shape="[C, N]"),
    Op("Total", _COLUMNS + _EACH + "{ float sum = 0.0f;\n"
       "    for (std::size_t k = 0; k < columns; ++k) sum += args.x[i * columns + k];\n    args.y[i] = sum; }",
       lambda x: x.sum(axis=1, keepdims=True), shape="[N, 1]"),
    Op("Twice", _COLUMNS + _EACH + "args.y[i] = args.x[i / (2 * columns) * columns + i % columns];",
       lambda x: np.concatenate([x, x], axis=1),
       rules="rows, columns = op.x.shape\n    return {'y': [rows, 2 * columns]}"),
    Op("Steps", _EACH + "args.y[i] = (args.flip ? -1.0f : 1.0f) * args.x[i] * args.gain "
       "+ static_cast<float>(args.up) - static_cast<float>(args.down);",
       lambda x, gain, flip, up, down: (-1 if flip else 1) * x * np.float32(gain) + np.float32(up) - np.float32(down),
       params={"gain": 0.5, "flip": 0, "up": 3, "down": 1},
       types={"flip": "BOOL_8", "up": "INT_16", "down": "UINT_32"}),
    Op("Kind", _EACH + "args.y[i] = static_cast<int>(args.kind) == 0 ? args.x[i] : static_cast<int>(args.kind) == 1 "
       "? -args.x[i] : args.x[i] * args.x[i];", lambda x, kind: (x, -x, x * x)[kind],
       params={"kind": 1}, types={"kind": "ENUM"}),
    Op("Weigh", _EACH + "args.y[i] = args.x[i] * static_cast<float>(args.w[i % args.w.size()]) "
       "/ static_cast<float>(args.by);",
       lambda x, w, by: x * np.resize(np.float32(w), x.shape) / np.float32(by),
       params={"w": [1, -2, 3], "by": 2}, types={"w": "INT_32", "by": "UINT_8"}),
    Op("Bend", _EACH + "{ const float x = args.x.real(i); args.y.setReal(i, x > 0 ? x : x / float(args.over)); }",
       lambda x, over: np.where(x > 0, x, x / np.float32(over)), params={"over": 2}, types={"over": "UINT_8"},
       quantized=True),
    Op("Blend", _EACH + "args.y.setReal(i, args.x.real(i) + (args.z.real(i) - args.x.real(i)) * 0.25f * "
       "float(args.quarters));", lambda x, z, quarters: x + (z - x) * np.float32(0.25 * quarters),
       inputs=("x", "z"), params={"quarters": 1}, types={"quarters": "INT_32"}, quantized=True),
)  # fmt: skip


def _softmax(x: Array) -> Array:
    made = np.exp(x - x.max(axis=1, keepdims=True))
    return made / made.sum(axis=1, keepdims=True)


# Those of the examples: name -> (config, kernels, numpy, parameters with their defaults).
EXAMPLES: Mapping[str, tuple[str, str, Callable[..., Array], Mapping[str, object]]] = {
    "LeakyRelu": (
        "leaky_relu/LeakyRelu.xml", "leaky_relu/kernels",
        lambda x, alpha: np.where(x > 0, x, np.float32(alpha) * x), {"alpha": 0.01},
    ),
    "Softmax": ("softmax/SoftmaxAxis.xml", "softmax/kernels/any_axis", _softmax, {}),
}  # fmt: skip


# --- packages -----------------------------------------------------------------------------------------------


def packages(folder: Path, backends: Sequence[str] = BACKENDS, names: Sequence[str] = ()) -> Path:
    """Build a package for each op and backend, as ONNX Runtime takes one op of each; and rules for their shapes."""
    ops = [op for op in OPS if not names or op.name in names]
    for op in ops:
        config = folder / f"{op.name}.xml"
        config.write_text(_config(op))
        for backend in backends:
            _write_kernel(op, backend, folder / op.name / backend)
    rules = [f"def {op.name}(op):\n    {op.rules}\n" for op in ops if op.rules]
    (folder / "rules.py").write_text("\n\n".join(rules))
    made = [(folder / f"{op.name}.xml", folder / op.name) for op in ops]
    examples = [row for name, row in EXAMPLES.items() if not names or name in names]
    made += [(ROOT / "examples" / config, ROOT / "examples" / kernels) for config, kernels, *_ in examples]
    for config, kernels in made:
        for backend in backends:
            [one] = make_packages(
                [config], folder / backend / config.stem, chosen=[backend], kernels=kernels, layout="qnn"
            )
            done = make(one.folder, f"{backend}_x86")
            assert done.returncode == 0, done.stderr
    return folder


def _config(op: Op) -> str:
    types = "FLOAT_32" + " UFIXED_POINT_8" * op.quantized
    same = "" if op.shape or op.rules else '<Constraint id="0" Type="Shape">Same shape as the input x</Constraint>'
    body = ""
    for tag, name, shape in (*(("Input", name, "[N, C]") for name in op.inputs), ("Output", "y", op.shape)):
        text = f"</Rank><Text>{shape}</Text>" if shape else "</Rank>"
        more = same if tag == "Output" else ""
        body += texts.tensor(tag, name, types, rank="2D", more=more).replace("</Rank>", text)
    for name, default in op.params.items():
        dtype = op.types.get(name, "FLOAT_32")
        more = "<Enumeration><Enum>A</Enum><Enum>B</Enum><Enum>C</Enum></Enumeration>" if dtype == "ENUM" else ""
        rank = "1D" if isinstance(default, list) else "SCALAR"
        body += texts.param(name, "UINT_32" if more else dtype, rank=rank, default=str(default), more=more)
    ops = texts.op(body, op.name, " ".join(BACKENDS).upper())
    return texts.collection(ops, name=f"{op.name}Random").replace('Domain="aisw"', f'Domain="{DOMAIN}"')


def _write_kernel(op: Op, backend: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / f"{op.name}.cpp").write_text(
        f'#include "ops/{op.name}.hpp"\n\nnamespace ops::{op.name}Random::{op.name} {{\n\n'
        f"udo::Status execute(const Args& args) {{\n  {op.body}\n  return udo::ok;\n}}\n\n"
        f"}}  // namespace ops::{op.name}Random::{op.name}\n"
    )


# --- graphs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A node: its inputs, its parameters, and its output."""

    op: str
    inputs: tuple[str, ...]
    params: Mapping[str, object]  # as given: some of them are omitted
    output: str


@dataclass(frozen=True)
class Graph:
    """A random graph with its inputs, and its outputs in numpy."""

    steps: tuple[Step, ...]
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array]
    slack: Mapping[str, float] = field(default_factory=dict)  # how far an output may be from it
    constants: Mapping[str, Array] = field(default_factory=dict)

    @property
    def ops(self) -> tuple[str, ...]:
        """Return each custom op once."""
        return tuple(dict.fromkeys(step.op for step in self.steps if step.op in _KNOWN))


_BY_NAME = {op.name: op for op in OPS}
_KNOWN = (*_BY_NAME, *EXAMPLES)


def draw(random: np.random.Generator) -> Graph:
    """Draw a graph of two to five nodes; tensors that no node uses are its outputs."""
    shape = (int(random.integers(1, 6)), int(random.integers(1, 9)))
    feeds = {name: random.normal(size=shape).astype(np.float32) for name in ("a", "b")}
    values = dict(feeds)
    steps: list[Step] = []
    wanted = int(random.integers(2, 6))
    while len(steps) < wanted:
        name = str(random.choice(_KNOWN))
        taken = _choose(values, steps, len(_BY_NAME[name].inputs) if name in _BY_NAME else 1, random)
        if taken is None:
            continue
        defaults = _BY_NAME[name].params if name in _BY_NAME else EXAMPLES[name][3]
        types = _BY_NAME[name].types if name in _BY_NAME else {}
        reported = {
            each: _value(default, random, types.get(each, ""))
            for each, default in defaults.items()
            if random.random() < 0.7
        }
        function = _BY_NAME[name].numpy if name in _BY_NAME else EXAMPLES[name][2]
        made = function(*(values[each] for each in taken), **{**defaults, **reported}).astype(np.float32)
        if made.size > 512 or np.abs(made).max() > 100:
            continue
        steps.append(Step(name, taken, reported, f"t{len(steps)}"))
        values[steps[-1].output] = made
    used = {name for step in steps for name in step.inputs}
    return Graph(
        tuple(steps),
        {name: array for name, array in feeds.items() if name in used},
        {step.output: values[step.output] for step in steps if step.output not in used},
    )


def _choose(
    values: Mapping[str, Array], steps: Sequence[Step], number: int, random: np.random.Generator
) -> tuple[str, ...] | None:
    """Choose tensors of one shape, preferably late ones, so that chains are formed."""
    names = list(values)
    first = steps[-1].output if steps and random.random() < 0.7 else str(random.choice(names))
    same = [name for name in names if values[name].shape == values[first].shape]
    return (first, *(str(random.choice(same)) for _ in range(number - 1))) if same else None


_SMALLEST = {"BOOL_8": 0, "ENUM": 0, "UINT_8": 1, "UINT_32": 0}
_LARGEST = {"BOOL_8": 1, "ENUM": 2}


def _value(default: object, random: np.random.Generator, dtype: str = "") -> object:
    if dtype:
        least, most = _SMALLEST.get(dtype, -4), _LARGEST.get(dtype, 4)
        count = int(random.integers(1, 5)) if isinstance(default, list) else None
        return random.integers(least, most + 1, size=count).tolist()
    if isinstance(default, list):
        return [float(each) for each in random.uniform(-0.5, 0.5, size=int(random.integers(1, 5))).round(3)]
    return round(float(random.uniform(-1.5, 1.5)), 3)


# --- graphs with 8 bits -------------------------------------------------------------------------------------

STEP, ZERO = 0.0625, 128
# ONNX's own ops, as libQnnCpu computes some others wrongly with 8 bits (Relu): inputs, numpy.
BUILT_IN: Mapping[str, tuple[int, Callable[..., Array]]] = {
    "Add": (2, np.add), "Sub": (2, np.subtract), "Mul": (2, np.multiply), "Neg": (1, np.negative),
}  # fmt: skip
QUANTIZED = ("Bend", "Blend", "LeakyRelu")
_MOST_SLACK = 6 * STEP


def _stored(real: Array) -> Array:
    return np.clip(np.rint(real / np.float32(STEP)) + ZERO, 0, 255).astype(np.uint8)


def _real(stored: Array) -> Array:
    return (stored.astype(np.float32) - ZERO) * np.float32(STEP)


class _Quantized:
    """A graph that is drawn: each tensor of floats is computed from 8 bits, and stored in 8 bits again."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.steps = random, list[Step]()
        shape = (int(random.integers(1, 6)), int(random.integers(1, 9)))
        self.feeds = {name: random.uniform(-6, 6, size=shape).astype(np.float32) for name in "ab"}
        self.constants: dict[str, Array] = {"k": random.integers(0, 256, size=shape).astype(np.uint8)}
        self.values: dict[str, Array] = {"k": _real(self.constants["k"])}  # of stored tensors
        self.slack, self.readers = {"k": 0.0}, dict[str, list[str]]()  # stored -> the DequantizeLinear of it
        self.fixed = {"k"}  # those that depend on no input
        self.used: set[str] = set()
        for name, array in self.feeds.items():
            self._store(name, array, 0.0, fixed=False)

    def _store(self, name: str, array: Array, slack: float, *, fixed: bool) -> None:
        stored = f"{name}8"
        self.steps.append(Step("QuantizeLinear", (name, "scale", "zero"), {}, stored))
        self.values[stored], self.slack[stored] = _real(_stored(array)), slack
        if fixed:
            self.fixed.add(stored)

    def _read(self, stored: str) -> str:
        """A new or an existing DequantizeLinear."""
        self.used.add(stored)
        names = self.readers.setdefault(stored, [])
        if names and self.random.random() < 0.7:
            return str(self.random.choice(names))
        names.append(f"{stored}r{len(names)}")
        self.steps.append(Step("DequantizeLinear", (stored, "scale", "zero"), {}, names[-1]))
        return names[-1]

    def add(self, op: str) -> bool:
        """Add a node; False if it would be too inexact."""
        random, custom = self.random, op in QUANTIZED
        count = BUILT_IN[op][0] if not custom else 2 if op == "Blend" else 1
        taken = [str(each) for each in random.choice(list(self.values), size=count)]
        # libQnnHtp executes a custom op of constants while it prepares the graph, and ends the process.
        fixed = self.fixed.issuperset(taken)
        if custom and fixed:
            return False
        defaults = EXAMPLES[op][3] if op in EXAMPLES else _BY_NAME[op].params if custom else {}
        params = {"LeakyRelu": {"alpha": 0.25}, "Bend": {"over": int(random.integers(1, 5))},
                  "Blend": {"quarters": int(random.integers(0, 5))}}.get(op, {})  # fmt: skip
        if random.random() < 0.3:
            params = {}
        function = BUILT_IN[op][1] if not custom else EXAMPLES[op][2] if op in EXAMPLES else _BY_NAME[op].numpy
        arrays, slacks = [self.values[each] for each in taken], [self.slack[each] for each in taken]
        if op == "Mul":
            largest = [float(np.abs(array).max()) for array in arrays]
            slack = largest[0] * slacks[1] + largest[1] * slacks[0] + slacks[0] * slacks[1]
        else:
            slack = sum(slacks)
        if slack + STEP > _MOST_SLACK:
            return False
        name = f"t{len(self.steps)}"
        self.steps.append(Step(op, tuple(self._read(each) for each in taken), params, name))
        self._store(name, function(*arrays, **{**defaults, **params}).astype(np.float32), slack + STEP, fixed=fixed)
        return True

    def graph(self) -> Graph:
        """The graph; tensors that no node reads are its outputs, and some others."""
        ends = {}
        for stored in [name for name in self.values if name not in self.constants and name not in self.fixed]:
            if stored not in self.used or self.random.random() < 0.2:
                ends[self._read(stored)] = stored
        used = {name for step in self.steps for name in step.inputs}
        return Graph(
            tuple(self.steps),
            {name: array for name, array in self.feeds.items() if name in used},
            {name: self.values[stored] for name, stored in ends.items()},
            {name: self.slack[stored] for name, stored in ends.items()},
            {"scale": np.float32(STEP), "zero": np.uint8(ZERO)}
            | {name: array for name, array in self.constants.items() if name in used},
        )


def draw_quantized(random: np.random.Generator) -> Graph:
    """Draw a graph of two to six nodes with 8 bits; at least one is custom."""
    drawn = _Quantized(random)
    wanted = int(random.integers(2, 7))
    added = 0
    while added < wanted:
        op = str(random.choice(QUANTIZED if added == 0 else [*QUANTIZED, *BUILT_IN]))
        added += drawn.add(op)
    return drawn.graph()


def write(graph: Graph, path: Path) -> Path:
    """Write the model; it does not declare the shapes between its nodes."""
    from onnx import TensorProto, helper, numpy_helper

    def value(name: str, array: Array) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(array.shape))

    nodes = [
        helper.make_node(
            step.op, step.inputs, [step.output], name=step.output, domain=DOMAIN * (step.op in _KNOWN), **step.params
        )
        for step in graph.steps
    ]
    inputs, outputs = ([value(*row) for row in rows.items()] for rows in (graph.feeds, graph.expected))
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    constants = [numpy_helper.from_array(array, name) for name, array in graph.constants.items()]
    model = helper.make_model(helper.make_graph(nodes, "random", inputs, outputs, constants), opset_imports=imports)
    model.ir_version = 10
    path.write_bytes(model.SerializeToString())
    return path


# --- runs ---------------------------------------------------------------------------------------------------


def plain_session(model: Path, packages: Sequence[Path | str], *, backend: str, rules: Path | None = None) -> Any:
    """Return a session of ONNX Runtime alone, of the model that `udogen onnx schema` writes."""
    import onnxruntime
    import onnxruntime_qnn

    from udogen.clients.package import PackageOptions, find_packages
    from udogen.onnx import client as ort_client
    from udogen.onnx.ort import schema

    found = find_packages([Path(package) for package in packages], PackageOptions(backend))
    made = model.with_suffix(".schema.onnx")
    made.write_bytes(schema.for_packages(model, found, rules).of(model))
    if not any(each.ep_name == "QNN" for each in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
    device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNN")
    options = onnxruntime.SessionOptions()
    library = getattr(onnxruntime_qnn, f"get_qnn_{backend}_path")()
    options.add_provider_for_devices([device], {"backend_path": library, "op_packages": ort_client.entries(found)})
    session = onnxruntime.InferenceSession(str(made), options)
    session.disable_fallback()
    return session


def _faults(graph: Graph, model: Path, packages: Sequence[Path], backend: str, rules: Path | None) -> list[str]:
    """Run a graph both ways; return the errors."""
    from udogen.onnx.ort import session

    faults = []
    for way in (session, plain_session):
        made = way(model, packages, backend=backend, rules=rules)
        outputs = made.run(list(graph.expected), dict(graph.feeds))
        for (name, expected), array in zip(graph.expected.items(), outputs, strict=True):
            slack = graph.slack.get(name, TOLERANCE["atol"])
            far = array.shape != expected.shape
            if far or not np.allclose(array, expected, rtol=TOLERANCE["rtol"], atol=slack + TOLERANCE["atol"]):
                faults.append(f"{way.__name__}: {name} is {array.ravel()[:6]}, not {expected.ravel()[:6]}")
    return faults


def _forked(function: Callable[[], list[str]]) -> list[str]:
    """The result of a function in a process of its own, or how that ended."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(120)
        try:
            found = function()
        except Exception as fault:  # of ONNX Runtime, or of udogen
            found = [f"{type(fault).__name__}: {fault} {getattr(fault, 'details', '')}"[:1000]]
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    answer: list[str] = json.loads(text) if status == 0 else [f"the process ended with {status}"]
    return answer


def run(folder: Path, backend: str, count: int, seed: int, *, quantized: bool) -> dict[str, Any]:
    """Run graphs, each in a forked process, and count the right ones."""
    import onnxruntime  # noqa: F401 - once, before the forks

    random = np.random.default_rng(seed)
    found: dict[str, Any] = {"graphs": 0, "nodes": 0, "outputs": 0, "wrong": []}
    ops: Counter[str] = Counter()
    stems = {**{op.name: op.name for op in OPS}, **{name: Path(row[0]).stem for name, row in EXAMPLES.items()}}
    begun = time.perf_counter()
    for number in range(count):
        graph = draw_quantized(random) if quantized else draw(random)
        model = write(graph, folder / f"{backend}.onnx")
        chosen = [next((folder / backend / stems[op]).iterdir()) for op in graph.ops]
        rules = folder / "rules.py" if any(_BY_NAME[op].rules for op in graph.ops if op in _BY_NAME) else None
        wrong = _forked(partial(_faults, graph, model, chosen, backend, rules))
        if wrong:
            shown = "; ".join(
                f"{step.output} = {step.op}({', '.join([*step.inputs, *(f'{k}={v}' for k, v in step.params.items())])})"
                for step in graph.steps
            )
            found["wrong"] += [f"graph {number} of seed {seed}: {shown}: {each}" for each in wrong]
            continue
        found["outputs"] += 2 * len(graph.expected)
        found["graphs"] += 1
        found["nodes"] += len(graph.steps)
        ops.update(step.op for step in graph.steps)
    return {**found, "ops": dict(ops), "seconds": round(time.perf_counter() - begun, 1)}


def main() -> int:
    """Run graphs on each backend; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--quantized", action="store_true", help="graphs with 8 bits")
    asked = parser.parse_args()
    backends = asked.backend or list(BACKENDS)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="random-graphs-") as scratch:
        folder = packages(Path(scratch), backends, QUANTIZED if asked.quantized else ())
        for backend in backends:
            answer = run(folder, backend, asked.count, asked.seed, quantized=asked.quantized)
            wrong = answer.pop("wrong")
            bad += len(wrong)
            print(f"{backend}: {len(wrong)} wrong; {answer}")
            print("".join(f"  {line}\n" for line in wrong[:10]), end="")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
