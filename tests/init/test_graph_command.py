"""`udogen inspect` of configs, models and contexts: results and Mermaid text."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import onnx
import pytest

from tests.command_line import udogen
from tests.init import models
from tests.making import ROOT
from tests.onnx_models import model, node
from udogen.inspect.graph import Edge, GraphView, Section, ShownNode
from udogen.onnx.models.load import load_model
from udogen.onnx.source import onnx_view

SOFTMAX = ROOT / "examples" / "softmax" / "SoftmaxAxis.xml"


def test_a_config() -> None:
    done = udogen("inspect", SOFTMAX)
    assert done.returncode == 0 and done.stderr.startswith("next: "), done.stderr
    assert done.stdout == (
        "SoftmaxAxis.xml: SoftmaxAxisPackage: 1 op with its tensors.\n  SoftmaxAxisPackage::Softmax: 1 op, 2 tensors\n"
    )
    view = json.loads(udogen("inspect", SOFTMAX, "--json").stdout)
    assert view["kind"] == "config" and "mermaid" not in view
    [section] = view["sections"]
    types = ["CPU: FLOAT_32", "GPU: FLOAT_32 FLOAT_16", "HTP: FLOAT_32 FLOAT_16 UFIXED_POINT_8"]
    assert [(node["id"], node["kind"], node["lines"]) for node in section["nodes"]] == [
        ("op", "op", ["Softmax", "CPU GPU HTP", "axis: INT_32 = -1"]),
        ("input input", "input", ["input", *types, "ND"]),
        ("output output", "output", ["output", *types, "ND"]),
    ]
    edges = [(edge["source"], edge["target"]) for edge in section["edges"]]
    assert edges == [("input input", "op"), ("op", "output output")]


def test_mermaid_of_a_config() -> None:
    done = udogen("inspect", SOFTMAX, "--mermaid")
    assert (
        done.stdout
        == """flowchart TD
  subgraph s0["SoftmaxAxisPackage::Softmax"]
    s0n0["Softmax<br>CPU GPU HTP<br>axis: INT_32 = -1"]:::op
    s0n1(["input<br>CPU: FLOAT_32<br>GPU: FLOAT_32 FLOAT_16<br>HTP: FLOAT_32 FLOAT_16 UFIXED_POINT_8<br>ND"]):::input
    s0n2(["output<br>CPU: FLOAT_32<br>GPU: FLOAT_32 FLOAT_16<br>HTP: FLOAT_32 FLOAT_16 UFIXED_POINT_8<br>ND"]):::output
    s0n1 --> s0n0
    s0n0 --> s0n2
  end
  classDef custom stroke-width:4px
  classDef static stroke-dasharray:4
"""
    )


def test_no_name_of_a_model_is_mermaid_or_html() -> None:
    """Names are quoted, and numbered entities but for letters, digits and plain punctuation."""
    names = ['x"]', "<b>", "a\nb", "\u202eevil", "end", "&lt;", "#35;", "é", ""]
    nodes = tuple(ShownNode(name, "op", (name,)) for name in names)
    edges = tuple(Edge(names[0], name, name) for name in names)
    text = list(GraphView("t", "", (Section('"', nodes, edges),)).mermaid())
    plain = re.compile(r'[ \w.,:;=()/\[\]|+*?#>"<-]*', re.ASCII)
    assert all(plain.fullmatch(line) for line in text), text
    assert 's0n0["x#34;]"]:::op' in text[2] and "#8238;" not in "".join(text) and len(text) == 2 + 2 * len(names) + 3


def test_a_model_with_its_custom_ops_marked(tmp_path: Path) -> None:
    path = models.save("subgraphs", tmp_path)
    done = udogen("inspect", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "subgraphs.onnx: 7 nodes, 2 of custom ops: acme::Decay.\n"
        "  loops: 2 ops, 5 tensors\n"
        "  body of Loop y: 2 ops, 5 tensors\n"
        "    custom op acme::Decay, rate = 0.5\n"
        "  then_branch of If z: 1 op, 2 tensors\n"
        "    custom op acme::Decay, rate = 0.25\n"
        "  else_branch of If z: 1 op, 2 tensors\n"
    )
    assert json.loads(udogen("inspect", path, "--json").stdout)["custom"] == [{"op": "acme::Decay", "uses": 2}]
    plain = tmp_path / "without_suffix"
    shutil.copy(path, plain)
    assert udogen("inspect", plain).stdout.startswith("without_suffix: 7 nodes")


def chain(length: int, custom: int) -> onnx.ModelProto:
    nodes = [
        node("Blur" if n == custom else "Relu", f"v{n}", f"v{n + 1}", domain="acme" if n == custom else "")
        for n in range(length)
    ]
    return model(nodes, {"v0": [4]}, {f"v{length}": [4]})


def test_of_a_large_graph_what_is_near_custom_ops(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(chain(400, 200), path)
    [section] = onnx_view(load_model(path)).sections
    assert section.note == "7 of 400 nodes, those near custom ops"
    ops = [node.lines[0] for node in section.nodes if node.kind in ("op", "custom")]
    assert ops == ["Relu", "Relu", "Relu", "acme::Blur", "Relu", "Relu", "Relu"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.xml"], "error: none.xml cannot be read: No such file or directory\n"),
        ([".", "--mermaid"], "error: . cannot be read: Is a directory\n"),
    ],
)
def test_misuse(arguments: list[object], message: str, tmp_path: Path) -> None:
    done = udogen("inspect", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(message), done.stderr


def test_a_broken_config_is_reported_with_its_line(tmp_path: Path) -> None:
    config = tmp_path / "c.xml"
    config.write_text(SOFTMAX.read_text().replace("<Default>-1</Default>", "<Default>1.5</Default>"))
    done = udogen("inspect", config)
    assert done.returncode == 2 and f"{config}:26: error: the default of `axis`" in done.stderr
