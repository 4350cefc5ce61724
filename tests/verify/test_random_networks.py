"""Random networks through `udogen run model`: green with right kernels, red at the op in which a fault is planted."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.command_line import udogen
from tests.making import ROOT, need_runtime
from tests.onnx_models import node, save

LEAKY = ROOT / "examples" / "leaky_relu"
RIGHT, WRONG = "return x > 0.0f ? x : alpha * x;", "return 0.9f * (x > 0.0f ? x : alpha * x) + 0.25f;"
UNARY = ("Relu", "Sigmoid", "Tanh", "Abs", "Softmax", "Transpose", "Identity", "Erf", "Flatten")
BINARY = ("Add", "Sub", "Mul", "Max", "Concat")
CUSTOM = ("LeakyRelu", "Steep")
PLACES = [("cpu", "float"), ("htp", "float"), ("htp", "8"), ("cpu", "8")]


@cache
def package(base: Path, backend: str, op: str, *, faulty: bool) -> Path:
    """Build LeakyRelu, or the same with another name, as it is or with a fault."""
    need_runtime(backend)
    folder = base / f"random-{backend}-{op}-{faulty}"
    (folder / "kernels").mkdir(parents=True)
    source = (LEAKY / "kernels" / "LeakyRelu.cpp").read_text("utf-8")
    assert source.count(RIGHT) == 1
    source = source.replace(RIGHT, WRONG) if faulty else source
    (folder / "kernels" / f"{op}.cpp").write_text(source.replace("LeakyRelu", op))
    (folder / f"{op}.xml").write_text((LEAKY / "LeakyRelu.xml").read_text("utf-8").replace("LeakyRelu", op))
    made = udogen(
        "generate", folder / f"{op}.xml", "--backend", backend, "--kernels", folder / "kernels", "-o", folder / "out"
    )
    assert made.returncode == 0, made.stderr
    built = udogen("build", f"{backend}_x86", "-C", folder / "out" / f"{op}Package")
    assert built.returncode == 0, built.stderr
    return folder / "out" / f"{op}Package"


def save_network(numbers: np.random.Generator, file: Path) -> set[str]:
    """Write a network of 3 to 10 nodes with one or two custom ops in chains and branches; return the custom ops."""
    shape = (int(numbers.integers(2, 9)), int(numbers.integers(2, 33)))
    shapes: dict[str, tuple[int, ...]] = {"x": shape}
    nodes, read = [], set()
    constants: dict[str, Any] = {}

    def add(op: str, given: list[str], made: tuple[int, ...], **attributes: Any) -> None:
        name = f"t{len(nodes)}"
        nodes.append(node(op, " ".join(given), name, f"{op}_{name}", **attributes))
        shapes[name] = made
        read.update(given)

    def random_tensor() -> str:
        return str(numbers.choice([*shapes][-3:]))

    count = int(numbers.integers(3, 11))
    places = {int(each) for each in numbers.choice(count, size=int(numbers.integers(1, 3)), replace=False)}
    for number in range(count):
        one = random_tensor()
        own = shapes[one]
        kind = numbers.random()
        if number in places:
            op, slope = str(numbers.choice(CUSTOM)), float(numbers.uniform(0.1, 0.5))
            add(op, [one], own, domain="example", alpha=slope)
        elif kind < 0.2:
            weights = numbers.normal(size=(own[1], int(numbers.integers(2, 17)))).astype("f") / np.sqrt(own[1])
            constants[f"w{number}"] = weights.astype("f")
            add("MatMul", [one, f"w{number}"], (own[0], weights.shape[1]))
        elif kind < 0.5:
            op = str(numbers.choice(BINARY))
            other = next((each for each in reversed(shapes) if shapes[each] == own and each != one), one)
            add(
                op,
                [one, other],
                (own[0], own[1] * 2) if op == "Concat" else own,
                **({"axis": 1} if op == "Concat" else {}),
            )
        else:
            op = str(numbers.choice(UNARY))
            add(op, [one], own[::-1] if op == "Transpose" else own)
    ends = [name for name in shapes if name not in read]
    save(file, nodes, {"x": shapes["x"]}, {name: shapes[name] for name in ends}, constants)
    np.save(file.with_suffix(".npy"), (numbers.normal(size=(2, *shape)) * 2).astype("f"))
    return {each.op_type for each in nodes} & {*CUSTOM}


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_get_the_right_verdict(
    seed: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A third of them has a fault in one op."""
    numbers = np.random.default_rng(seed)
    backend, bits = PLACES[seed % len(PLACES)]
    used = save_network(numbers, tmp_path / "net.onnx")
    faulty = str(numbers.choice(sorted(used))) if seed % 3 == 2 else ""
    words: list[object] = ["--backend", backend, "--bits", bits, "--input", f"x={tmp_path / 'net.npy'}"]
    for op in sorted(used):
        words += ["--package", package(tmp_path_factory.getbasetemp(), backend, op, faulty=op == faulty)]
        words += ["--reference", f"{op}={LEAKY / 'reference.py'}:leaky_relu"]
    done = udogen("run", "model", tmp_path / "net.onnx", *words, "--json")
    if (backend, bits, done.returncode) == ("htp", "float", 5):  # also without custom ops, in a plain session
        message = json.loads(done.stdout)["error"]["message"]
        assert "1002" in message and not any(f"({op})" in message for op in CUSTOM), message
        return
    assert done.returncode == (6 if faulty else 0), done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert {each["op"] for each in found["layers"] if each["wrong"]} == ({faulty} if faulty else set()), found
    gone = {each["node"] for each in found["elsewhere"]}
    assert gone == {each["node"] for each in found["layers"] if each["on"] == "cpu"}
    assert all(each["on"] == "qnn" for each in found["layers"] if each["op"] in CUSTOM)
