"""Ten custom ops of public projects as kernels in Python; their references compared with other implementations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.command_line import udogen
from tests.making import ROOT, need_opencl, need_runtime
from tests.onnx_models import model
from udogen.python_files import load_module

OPS = ROOT / "tests" / "kernels" / "public"
RANDOM = np.random.default_rng(7)
REFERENCES = load_module(OPS / "reference.py")


def onnxruntime_results(op: str, domain: str, inputs: Mapping[str, Any], outputs: list[str], **attributes: Any) -> Any:
    """Return the results of ONNX Runtime's CPU for one node; inputs that are None are omitted."""
    given = {name: value for name, value in inputs.items() if value is not None}
    names = [name if name in given else "" for name in inputs]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in given.items()}
    shapes = {name: value.shape for name, value in given.items()}
    made = model([node], shapes, {}, opset=21, types=types)
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs if name)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, given)


def floats(*shape: int, low: float = -2, high: float = 2) -> Any:
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def test_skip_layer_normalization() -> None:
    given = {"x": floats(1, 4, 40), "skip": floats(1, 4, 40)} | {each: floats(40) for each in ("gamma", "beta", "bias")}
    for left_out in ((), ("bias",), ("beta", "bias")):
        inputs = {name: None if name in left_out else value for name, value in given.items()}
        expected = onnxruntime_results("SkipLayerNormalization", "com.microsoft", inputs, ["y", "", "", "sum"])
        for ours, theirs in zip(REFERENCES.skip_layer_normalization(*inputs.values()), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    angles = floats(9, 8)
    inputs = {
        "x": floats(2, 3, 5, 16), "ids": RANDOM.integers(0, 9, (2, 5)), "cos": np.cos(angles), "sin": np.sin(angles)
    }  # fmt: skip
    [expected] = onnxruntime_results("RotaryEmbedding", "com.microsoft", inputs, ["y"], interleaved=interleaved)
    ours = REFERENCES.rotary_embedding(*inputs.values(), interleaved=interleaved)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("queries", "past"), [(5, 0), (1, 8)])
def test_group_query_attention(queries: int, past: int) -> None:
    query, key, value = (floats(2, heads, queries, 16) for heads in (6, 2, 2))
    past_key, past_value = (floats(2, 2, past, 16) for _ in range(2))
    seqlens = np.full(2, past + queries - 1, np.int32)

    def flat(x: Any) -> Any:
        return x.transpose(0, 2, 1, 3).reshape(2, queries, -1)

    inputs = {
        "q": flat(query), "k": flat(key), "v": flat(value), "pk": past_key, "pv": past_value,
        "lengths": seqlens, "total": np.array([past + queries], np.int32),
    }  # fmt: skip
    [expected, *_] = onnxruntime_results(
        "GroupQueryAttention", "com.microsoft", inputs, ["y", "nk", "nv"], num_heads=6, kv_num_heads=2, scale=0.25
    )
    keys, values = np.concatenate([past_key, key], axis=2), np.concatenate([past_value, value], axis=2)
    ours = REFERENCES.group_query_attention(query, keys, values, seqlens)
    np.testing.assert_allclose(flat(ours), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("zeros", [True, False])
def test_mat_mul_n_bits(zeros: bool) -> None:
    packed, points = RANDOM.integers(0, 256, (7, 4, 16)).astype(np.uint8), RANDOM.integers(0, 256, (7, 2))
    scales, x = floats(7, 4, low=0.01, high=0.1), floats(3, 128)
    flat_points = points.astype(np.uint8).reshape(-1) if zeros else None
    inputs = {"A": x, "B": packed, "scales": scales.reshape(-1), "zero_points": flat_points}
    [expected] = onnxruntime_results("MatMulNBits", "com.microsoft", inputs, ["Y"], K=128, N=7, bits=4, block_size=32)
    ours = REFERENCES.mat_mul_n_bits(x, packed, scales, points if zeros else None)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-3)


def test_wkv() -> None:
    """Compared with the recurrence that calculates the sums of the definition."""
    w, u, k, v = -abs(floats(16)), floats(16), floats(2, 30, 16, low=-30, high=30), floats(2, 30, 16)
    total, weight = np.zeros((2, 2, 16))
    top = np.full((2, 16), -1e38)
    expected = np.empty_like(v)
    for t in range(30):
        new = np.maximum(top, u + k[:, t])
        old, now = np.exp(top - new), np.exp(u + k[:, t] - new)
        expected[:, t] = (old * total + now * v[:, t]) / (old * weight + now)
        new = np.maximum(w + top, k[:, t])
        old, now = np.exp(w + top - new), np.exp(k[:, t] - new)
        total, weight, top = old * total + now * v[:, t], old * weight + now, new
    np.testing.assert_allclose(REFERENCES.wkv(w, u, k, v), expected, rtol=1e-4, atol=1e-5)


def test_nms() -> None:
    boxes = np.load(OPS / "boxes.npy")
    for threshold in (0.25, 0.5):
        inputs = {
            "boxes": boxes[None], "scores": np.linspace(1, 0.1, len(boxes), dtype=np.float32)[None, None],
            "most": np.array([len(boxes)]), "iou": np.array([threshold], np.float32),
        }  # fmt: skip
        [chosen] = onnxruntime_results("NonMaxSuppression", "", inputs, ["chosen"])
        assert np.flatnonzero(REFERENCES.nms(boxes, threshold)).tolist() == sorted(chosen[:, 2].tolist())


@pytest.mark.parametrize("aligned", [0, 1])
def test_roi_align(aligned: int) -> None:
    rois = np.array([[0, 1, 1, 7, 6], [1, -3.5, 2, 4, 9], [1, 2.5, 3.5, 3, 3.75], [0, 8, 0, 14, 12]], np.float32)
    image = floats(2, 3, 9, 11)
    inputs = {"x": image, "rois": rois[:, 1:], "batch": rois[:, 0].astype(np.int64)}
    mode = "half_pixel" if aligned else "output_half_pixel"
    [expected] = onnxruntime_results(
        "RoiAlign", "", inputs, ["y"], spatial_scale=0.8, sampling_ratio=3, output_height=2, output_width=3,
        coordinate_transformation_mode=mode,
    )  # fmt: skip
    ours = REFERENCES.roi_align(image, rois, spatial_scale=0.8, sampling_ratio=3, aligned=aligned)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def onnx_results(op: str, inputs: Mapping[str, Any], **attributes: Any) -> Any:
    """Return the results of ONNX's own evaluator for one node."""
    from onnx.reference import ReferenceEvaluator

    shapes = {name: value.shape for name, value in inputs.items()}
    made = model([helper.make_node(op, list(inputs), ["y"], **attributes)], shapes, {"y": None}, opset=21)
    return ReferenceEvaluator(made).run(None, dict(inputs))[0]


def test_modulated_deform_conv2d() -> None:
    inputs = {
        "x": floats(1, 2, 7, 8), "weight": floats(3, 2, 3, 3), "offset": floats(1, 18, 4, 4), "bias": floats(3),
        "mask": floats(1, 9, 4, 4),
    }  # fmt: skip
    expected = onnx_results("DeformConv", inputs, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    ours = REFERENCES.modulated_deform_conv2d(
        *(inputs[each] for each in ("x", "offset", "mask", "weight", "bias")), stride=2, padding=1
    )
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_scatter_nd() -> None:
    inputs = {"data": floats(9, 5), "indices": np.array([[3], [7], [0], [3]]), "updates": floats(4, 5)}
    assert np.array_equal(REFERENCES.scatter_nd(*inputs.values()), onnx_results("ScatterND", inputs))


def test_the_table_has_the_lines_of_the_kernels() -> None:
    table = (ROOT / "docs" / "kernels-public.md").read_text()
    for kernel in (OPS / "kernels").glob("*.py"):
        lines = len([line for line in kernel.read_text().splitlines() if line.strip()])
        assert f"| `{kernel.stem}` | {lines} |" in table, (kernel.stem, lines)


@pytest.mark.parametrize("place", ["cpu", "gpu", "htp", "hexagon", "dsp", "cpu-ort", "htp-ort"])
def test_every_op(place: str) -> None:
    if place == "gpu":
        need_opencl()
    done = udogen("test", OPS, "--backend", place)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("op", ["MatMulNBits", "Wkv"])
def test_two_ops(op: str) -> None:
    need_runtime("cpu")
    done = udogen("test", OPS, "--backend", "cpu,htp", "--case", f"{op}/*")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rank_that_does_not_fit(tmp_path: Path) -> None:
    kernel = tmp_path / "RoIAlign.py"
    kernel.write_text((OPS / "kernels" / "RoIAlign.py").read_text().replace("input: Whole(4)", "input: Whole(2)"))
    done = udogen("inspect", kernel, "--config", OPS / "RoIAlign.xml", "--machine", "x86_64-linux-clang")
    assert done.returncode == 2, done.stdout
    assert "RoIAlign.py:9: RoIAlign() takes `input` as Whole(rank=2), and the config has 4D" in done.stderr
