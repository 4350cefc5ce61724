"""Random small graphs of custom ops through ONNX Runtime, compared with numpy.

    python -m tests.hostile.random_graphs [--count 300] [--seed 1] [--backend cpu] [--backend htp]

Each graph has two to five nodes of ops of several packages, two of them from the examples: chains and branches, one or
two inputs, parameters that are given, omitted or lists, shapes that change.  No graph declares the shapes between its
nodes.  Prints figures; exits with 1 if a number is wrong or a graph does not run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.making import LONG, ROOT, make, make_packages

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
    def tensor(kind: str, name: str, *, shape: str = "", constraint: str = "") -> str:
        text = f"<Text>{shape}</Text>" if shape else ""
        return (
            f"<{kind}><Name>{name}</Name>{constraint}<Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype>"
            f"<Shape><Rank>2D</Rank>{text}</Shape></{kind}>"
        )

    def param(name: str, default: object) -> str:
        rank = "1D" if isinstance(default, list) else "SCALAR"
        return (
            f"<Parameter><Name>{name}</Name><Mandatory>false</Mandatory><Datatype>FLOAT_32</Datatype>"
            f"<Shape><Rank>{rank}</Rank></Shape><Default>{default}</Default></Parameter>"
        )

    same = "" if op.shape or op.rules else '<Constraint id="0" Type="Shape">Same shape as the input x</Constraint>'
    parts = [tensor("Input", name, shape="[N, C]") for name in op.inputs]
    parts += [tensor("Output", "y", shape=op.shape, constraint=same)]
    parts += [param(name, default) for name, default in op.params.items()]
    backends = "".join(f"<SupportedBackend>{name.upper()}</SupportedBackend>" for name in BACKENDS)
    return (
        f'<OpDefCollection PackageName="{op.name}Random" Domain="{DOMAIN}" Version="1.0"><OpDefList><OpDef>'
        f"<Name>{op.name}</Name><Description><Content>Of a random graph.</Content></Description>"
        f"{''.join(parts)}{backends}</OpDef></OpDefList></OpDefCollection>\n"
    )


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

    @property
    def ops(self) -> tuple[str, ...]:
        """Return each op once."""
        return tuple(dict.fromkeys(step.op for step in self.steps))


_BY_NAME = {op.name: op for op in OPS}
_KNOWN = (*_BY_NAME, *EXAMPLES)


def draw(random: np.random.Generator, names: Sequence[str] = ()) -> Graph:
    """Draw a graph of two to five nodes of these ops, or of all; tensors that no node uses are its outputs."""
    shape = (int(random.integers(1, 6)), int(random.integers(1, 9)))
    feeds = {name: random.normal(size=shape).astype(np.float32) for name in ("a", "b")}
    values = dict(feeds)
    steps: list[Step] = []
    wanted = int(random.integers(2, 6))
    while len(steps) < wanted:
        name = str(random.choice(names or _KNOWN))
        taken = _choose(values, steps, len(_BY_NAME[name].inputs) if name in _BY_NAME else 1, random)
        if taken is None:
            continue
        defaults = _BY_NAME[name].params if name in _BY_NAME else EXAMPLES[name][3]
        reported = {each: _value(default, random) for each, default in defaults.items() if random.random() < 0.7}
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


def _value(default: object, random: np.random.Generator) -> object:
    if isinstance(default, list):
        return [float(each) for each in random.uniform(-0.5, 0.5, size=int(random.integers(1, 5))).round(3)]
    return round(float(random.uniform(-1.5, 1.5)), 3)


def write(graph: Graph, path: Path) -> Path:
    """Write the model; it does not declare the shapes between its nodes."""
    from onnx import TensorProto, helper

    def value(name: str, array: Array) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(array.shape))

    nodes = [
        helper.make_node(step.op, step.inputs, [step.output], name=step.output, domain=DOMAIN, **step.params)
        for step in graph.steps
    ]
    inputs, outputs = ([value(*row) for row in rows.items()] for rows in (graph.feeds, graph.expected))
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(helper.make_graph(nodes, "random", inputs, outputs), opset_imports=imports)
    model.ir_version = 10
    path.write_bytes(model.SerializeToString())
    return path


# --- runs ---------------------------------------------------------------------------------------------------


def run(folder: Path, backend: str, count: int, seed: int, names: Sequence[str] = ()) -> dict[str, Any]:
    """Run graphs in this process, and count the right ones."""
    from udogen.clients.ort import session
    from udogen.errors import UdogenError

    random = np.random.default_rng(seed)
    found: dict[str, Any] = {"graphs": 0, "nodes": 0, "outputs": 0, "largest": 0.0, "wrong": []}
    ops: Counter[str] = Counter()
    stems = {**{op.name: op.name for op in OPS}, **{name: Path(row[0]).stem for name, row in EXAMPLES.items()}}
    begun = time.perf_counter()
    for number in range(count):
        graph = draw(random, names)
        model = write(graph, folder / f"{backend}.onnx")
        chosen = [next((folder / backend / stems[op]).iterdir()) for op in graph.ops]
        rules = folder / "rules.py" if any(_BY_NAME[op].rules for op in graph.ops if op in _BY_NAME) else None
        reported = f"graph {number} of seed {seed}: " + "; ".join(
            f"{step.output} = {step.op}({', '.join([*step.inputs, *(f'{k}={v}' for k, v in step.params.items())])})"
            for step in graph.steps
        )
        try:
            made = session(model, chosen, backend=backend, rules=rules)
            outputs = made.run(list(graph.expected), dict(graph.feeds))
        except UdogenError as fault:
            found["wrong"].append(f"{reported}: {fault.message} {fault.details[:2]}")
            continue
        for (name, expected), array in zip(graph.expected.items(), outputs, strict=True):
            right = array.shape == expected.shape and np.allclose(array, expected, **TOLERANCE)
            if right:
                found["largest"] = max(found["largest"], float(np.abs(array - expected).max()))
            else:
                found["wrong"].append(f"{reported}: {name} is {array.ravel()[:6]}, not {expected.ravel()[:6]}")
            found["outputs"] += 1
        found["graphs"] += 1
        found["nodes"] += len(graph.steps)
        ops.update(step.op for step in graph.steps)
    return {**found, "ops": dict(ops), "seconds": round(time.perf_counter() - begun, 1)}


def run_apart(folder: Path, backend: str, count: int, seed: int, names: Sequence[str] = ()) -> dict[str, Any]:
    """Do the same in a separate process, so that a crash is seen."""
    argv = [sys.executable, "-m", "tests.hostile.random_graphs", "--child", str(folder), "--backend", backend]
    argv += ["--count", str(count), "--seed", str(seed), *(f"--op={name}" for name in names)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=LONG + 10 * count)
    if done.returncode not in (0, 1) or not done.stdout:
        return {"graphs": 0, "wrong": [f"the process ended with {done.returncode}: {done.stderr[-500:]}"]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> int:
    """Run graphs on each backend; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--op", action="append", choices=_KNOWN, help="only these; may repeat")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    backends = asked.backend or list(BACKENDS)
    if asked.child is not None:
        answer = run(asked.child, backends[0], asked.count, asked.seed, asked.op or ())
        print(json.dumps(answer))
        return 1 if answer["wrong"] else 0
    bad = 0
    with tempfile.TemporaryDirectory(prefix="random-graphs-") as scratch:
        folder = packages(Path(scratch), backends, asked.op or ())
        for backend in backends:
            answer = run_apart(folder, backend, asked.count, asked.seed, asked.op or ())
            wrong = answer.pop("wrong")
            bad += len(wrong)
            print(f"{backend}: {len(wrong)} wrong; {answer}")
            print("".join(f"  {line}\n" for line in wrong[:10]), end="")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
