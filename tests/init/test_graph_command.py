"""`udogen inspect` of configs, models and contexts: results and pictures that a browser shows."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from lxml import etree
from onnx import TensorProto, helper

from tests.command_line import udogen
from tests.contexts import storing
from tests.init import models
from tests.init.test_pictures import check_document, hold
from tests.making import ROOT
from udogen.draw import sources, svg
from udogen.draw.layout import arrange
from udogen.opdef.onnx.load import load_model
from udogen.runtime.contexts.binaries import StoredContext

SOFTMAX = ROOT / "examples" / "softmax" / "SoftmaxAxis.xml"


def test_a_config(tmp_path: Path) -> None:
    picture = tmp_path / "deep" / "softmax.svg"
    done = udogen("inspect", SOFTMAX, "--svg", picture)
    assert done.returncode == 0 and done.stderr.startswith(f"{picture}: written\nnext: "), done.stderr
    assert done.stdout == (
        "SoftmaxAxis.xml: SoftmaxAxisPackage: 1 op with its tensors.\n  SoftmaxAxisPackage::Softmax: 1 op, 2 tensors\n"
    )
    check_document(picture.read_text())
    reply = json.loads(udogen("inspect", SOFTMAX, "--json").stdout)
    assert reply["kind"] == "config" and reply["svg"] is None
    [section] = reply["sections"]
    types = ["CPU: FLOAT_32", "GPU: FLOAT_32 FLOAT_16", "HTP: FLOAT_32 FLOAT_16 UFIXED_POINT_8"]
    assert [(box["id"], box["rows"]) for box in section["boxes"]] == [
        ("op", ["Softmax", "CPU GPU HTP", "axis: INT_32 = -1"]),
        ("in input", ["input", *types, "input, ND"]),
        ("out output", ["output", *types, "output, ND"]),
    ]
    assert section["edges"] == [["in input", "op"], ["op", "out output"]]


@pytest.mark.parametrize(("backend", "kind"), [("cpu", "real"), ("htp", "real")])
def test_a_context_binary(backend: str, kind: str, tmp_path: Path) -> None:
    """Stored by Qualcomm's runtime."""
    path = storing.store(tmp_path, backend=backend, kind=kind)
    with StoredContext(path) as stored:
        diagram = sources.context_diagram(stored.info, path.name)
    assert {section.title for section in diagram.sections} == {f"graph {name}" for name in storing.GRAPHS}
    for section in diagram.sections:
        hold(arrange(section))
    check_document(svg.draw(diagram))
    boxes = {row.text for section in diagram.sections for box in section.boxes for row in box.rows}
    dtype = "UFIXED_POINT_8" if backend == "htp" else "FLOAT_32"
    assert {f"input: {dtype} 1x4x4x8", f"output: {dtype} 1x1x1x8"} <= boxes
    done = udogen("inspect", path, "--svg", tmp_path / "c.svg", "--json")
    assert sorted(json.loads(done.stdout)["graphs"]) == sorted(storing.GRAPHS), done.stderr


def test_a_model_with_its_custom_ops_marked(tmp_path: Path) -> None:
    path = models.save("subgraphs", tmp_path)
    done = udogen("inspect", path, "--svg", tmp_path / "m.svg")
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
    done = udogen("inspect", path, "--op", "Relu", "--json")
    assert json.loads(done.stdout)["custom"] == [{"op": "Relu", "uses": 1}]
    plain = tmp_path / "without_suffix"
    shutil.copy(path, plain)
    assert udogen("inspect", plain).stdout.startswith("without_suffix: 7 nodes")


def chain(length: int, custom: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node(
            "Blur" if n == custom else "Relu", [f"v{n}"], [f"v{n + 1}"], domain="acme" if n == custom else ""
        )
        for n in range(length)
    ]
    rows = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in ("v0", f"v{length}")]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_model(helper.make_graph(nodes, "chain", *rows), opset_imports=imports)


def test_of_a_large_graph_what_is_near_custom_ops(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(chain(400, 200), path)
    [section] = sources.onnx_diagram(load_model(path)).sections
    assert section.note == "7 of 400 nodes: those at most 3 away from a custom op."
    assert [box.rows[0].text for box in section.boxes if box.kind in ("op", "custom")] == [
        "Relu", "Relu", "Relu", "Blur", "Relu", "Relu", "Relu",
    ]  # fmt: skip
    [whole] = sources.onnx_diagram(load_model(path), around=1000).sections
    assert len(whole.boxes) == 400 + 401
    hold(arrange(section))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.xml"], "error: none.xml cannot be read: No such file or directory\n"),
        ([".", "--svg", "x.svg"], "error: . cannot be read: Is a directory\n"),
        ([SOFTMAX, "--loops"], f"error: --loops is for kernels in Python; {SOFTMAX} is not one\n"),
        ([SOFTMAX, "--around", "2"], f"error: --around is for ONNX models; {SOFTMAX} is not one\n"),
        ([SOFTMAX, "--svg", SOFTMAX / "x.svg"], f"error: cannot write {SOFTMAX / 'x.svg'}: "),
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


def test_a_picture_is_not_written_over_its_source(tmp_path: Path) -> None:
    config = Path(shutil.copy(SOFTMAX, tmp_path))
    done = udogen("inspect", config, "--svg", config)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {config} exists and is not an SVG\n")
    assert config.read_bytes() == SOFTMAX.read_bytes()


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_a_browser_measures_no_text_outside_of_its_box(tmp_path: Path) -> None:
    """Chromium lays out the document with its own fonts, and reports the position of each text."""
    diagram = sources.onnx_diagram(load_model(models.save("torch_style", tmp_path)))
    script = """<script>addEventListener('load', () => {
      const wrong = [...document.querySelectorAll('g > rect')].filter((rect) => {
        const box = rect.getBBox();
        return [...rect.parentNode.querySelectorAll('text')].some((text) => {
          const each = text.getBBox();
          return each.x < box.x || each.x + each.width > box.x + box.width || each.y + each.height > box.y + box.height;
        });
      });
      document.body.dataset.wrong = wrong.length;
      document.body.dataset.boxes = document.querySelectorAll('g > rect').length;
    })</script>"""
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{svg.draw(diagram)}{script}</body>")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{page}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    body = etree.HTML(done.stdout).find(".//body")
    assert body is not None and body.get("data-wrong") == "0" and body.get("data-boxes") == "9"
