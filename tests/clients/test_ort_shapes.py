"""Output shapes of custom nodes, the order of attributes, and ops that need no schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

import onnx

from tests import onnx_models
from tests.command_line import udogen
from tests.making import ROOT
from udogen.clients.package import LINUX, Package, Platform
from udogen.configs.load import load
from udogen.onnx.models.model import OpName
from udogen.onnx.models.reading import freeze, read_proto
from udogen.onnx.ort import preflight, schema
from udogen.onnx.ort.placement import of_model
from udogen.opdef.model import Op, Tensor

CONFIGS = [ROOT / "examples/leaky_relu/LeakyRelu.xml", ROOT / "examples/softmax/SoftmaxAxis.xml"]
POOL = ROOT / "examples/max_pool"


def model(path: Path, ops: list[str], *, shape: tuple[int, ...] = (2, 3), out: tuple[int, ...] = ()) -> Path:
    """Write a chain of these custom ops, without types of the tensors between them."""
    names = ["x", *(f"t{index}" for index in range(len(ops) - 1)), "y"]
    nodes = [
        onnx_models.node(op, names[index], names[index + 1], f"n{index}", domain="test") for index, op in enumerate(ops)
    ]
    return onnx_models.save(path, nodes, {"x": shape}, {"y": out or shape}, opset=21)


def ops_of_configs() -> list[Op]:
    return [op for package in load(CONFIGS)[0] for op in package.ops]


def op_of(name: str, params: str) -> Op:
    return Op(name, (), (), tuple(Tensor(each, "param", ()) for each in params.split()))


def shapes_in(path: Path) -> dict[str, tuple[Any, ...] | None]:
    return {name: each.shape for name, each in freeze(read_proto(path), "m").graph.types.items()}


def test_shapes_of_a_chain_come_from_the_constraints_of_configs(tmp_path: Path) -> None:
    """LeakyRelu, Softmax, LeakyRelu: without these shapes the provider logs `Cannot get shape`."""
    chain = model(tmp_path / "m.onnx", ["LeakyRelu", "Softmax", "LeakyRelu"])
    plain = schema.add_schemas(chain, tmp_path / "plain.onnx")
    assert schema.without_shape(plain) == [
        "the shape of tensor `t0`, an output of node `n0` of op LeakyRelu, is unknown",
        "the shape of tensor `t1`, an output of node `n1` of op Softmax, is unknown",
    ]
    made = schema.add_schemas(chain, tmp_path / "out.onnx", ops=ops_of_configs())
    assert not schema.without_shape(made)
    assert shapes_in(tmp_path / "out.onnx") == dict.fromkeys(("x", "t0", "t1", "y"), (2, 3))


def test_shapes_come_from_rules_in_python(tmp_path: Path) -> None:
    ops = ["MaxPool", "MaxPool", "LeakyRelu"]
    chain = model(tmp_path / "m.onnx", ops, shape=(1, 8, 8, 3), out=(1, 2, 2, 3))
    done = udogen(
        "onnx", "schema", chain, "-o", tmp_path / "out.onnx", "--op", "test::MaxPool", "--op", "LeakyRelu",
        "--config", POOL / "MaxPool.xml", "--config", CONFIGS[0], "--rules", POOL / "rules.py", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not [note for note in json.loads(done.stdout)["notes"] if "is unknown" in note]
    found = shapes_in(tmp_path / "out.onnx")
    assert (found["t0"], found["t1"]) == ((1, 4, 4, 3), (1, 2, 2, 3))


def test_a_tensor_of_unknown_shape_is_named(tmp_path: Path) -> None:
    chain = model(tmp_path / "m.onnx", ["MaxPool", "MaxPool"], shape=(1, 8, 8, 3), out=(1, 2, 2, 3))
    done = udogen(
        "onnx", "schema", chain, "-o", tmp_path / "out.onnx", "--op", "test::MaxPool", "--config", POOL / "MaxPool.xml"
    )
    assert done.returncode == 0, done.stderr
    assert (
        "the shape of tensor `t0`, an output of node `n0` of op MaxPool, is unknown; define it in the config"
        in done.stderr
    )


def test_why_a_node_is_not_placed_names_the_tensor(tmp_path: Path) -> None:
    package = Package("P", "PInterfaceProvider", "cpu", ("Odd",), (), Platform(LINUX, "cpu"), "")
    chain = freeze(read_proto(model(tmp_path / "m.onnx", ["Odd", "Odd"])), "m.onnx")
    [first, *_] = of_model(chain, [package], "cpu")
    assert first.message == (
        "node `n0` of op Odd: output t0 is ?, and its shape is unknown; QNN takes only fixed shapes"
    )
    assert "value_info" in first.hint and "--rules FILE.py" in first.hint


def test_rules_need_a_config(tmp_path: Path) -> None:
    chain = model(tmp_path / "m.onnx", ["MaxPool"])
    done = udogen("onnx", "schema", chain, "-o", tmp_path / "o.onnx", "--rules", POOL / "rules.py")
    assert (done.returncode, done.stderr) == (
        2,
        "error: --rules are read with the config of the op\n  = --config FILE.xml\n",
    )


# --- the order of attributes ------------------------------------------------------------------------------------


def with_attributes(path: Path) -> Path:
    """Write nodes in a graph and in the body of an If, with attributes in the order of onnx's helper."""

    def node(name: str, out: str) -> Any:
        return onnx_models.node("Mix", "x", out, name, domain="test", alpha=1.0, beta=2.0, gamma=[3.0, 4.0])

    body = onnx.helper.make_graph([node("inner", "z")], "body", [], [onnx.helper.make_tensor_value_info("z", 1, [2])])
    choice = onnx_models.node("If", "c", "w", then_branch=body, else_branch=body)
    nodes = [node("outer", "y"), onnx_models.node("LeakyRelu", "x", "v", alpha=0.5), choice]
    return onnx_models.save(path, nodes, {"x": [2], "c": []}, {"y": [2], "w": [2]}, types={"c": 9}, opset=21)


def names_of(graph: Any) -> list[list[str]]:
    names = []
    for node in graph.node:
        names.append([attribute.name for attribute in node.attribute])
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names += names_of(attribute.g)
    return names


def test_attributes_are_written_so_that_the_order_of_the_config_arrives(tmp_path: Path) -> None:
    path = with_attributes(tmp_path / "m.onnx")
    before = onnx.load(path)
    schema.add_schemas(path, tmp_path / "out.onnx", ["test::Mix"], ops=[op_of("Mix", "gamma alpha beta")])
    after = onnx.load(tmp_path / "out.onnx")
    own = ["beta", "alpha", "gamma"]
    assert names_of(after.graph) == [own, ["alpha"], ["else_branch", "then_branch"], own, own]
    for graph in (before.graph, after.graph):
        for node in (graph.node[0], *(attribute.g.node[0] for attribute in graph.node[2].attribute)):
            rows = sorted(node.attribute, key=lambda row: row.name)
            del node.attribute[:]
            node.attribute.extend(rows)
    assert list(before.graph.node) == list(after.graph.node)


def test_a_model_in_that_order_is_left_alone(tmp_path: Path) -> None:
    path = with_attributes(tmp_path / "m.onnx")
    for op in (op_of("Mix", "gamma beta alpha"), op_of("Other", "a b")):
        assert not schema.schemas_of(path, ["test::Mix"], ops=[op]).reordered


# --- ORT_QNN_CUSTOM_OP_DOMAINS ----------------------------------------------------------------------------------


def test_ops_that_the_provider_makes_known_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORT_QNN_CUSTOM_OP_DOMAINS", "test:LeakyRelu,Other; more : Third ;;broken")
    monkeypatch.setattr(preflight, "_installed", lambda _name: "2.6.0")
    assert preflight.ops_of_provider() == ()
    monkeypatch.setattr(preflight, "_installed", lambda _name: "2.7.0")
    known = preflight.ops_of_provider()
    assert known == (OpName("test", "LeakyRelu"), OpName("test", "Other"), OpName("more", "Third"))
    chain = model(tmp_path / "m.onnx", ["LeakyRelu", "Softmax"])
    found = schema.schemas_of(chain, ops=ops_of_configs(), known=known)
    assert (found.ops, found.custom) == (
        (OpName("test", "Softmax"),),
        (OpName("test", "LeakyRelu"), OpName("test", "Softmax")),
    )
    (tmp_path / "out.onnx").write_bytes(found.of(chain))
    assert shapes_in(tmp_path / "out.onnx")["t0"] == (2, 3)  # the provider does not infer these shapes, either
