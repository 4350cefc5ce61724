"""The ops in numpy, for the cases in op_tests.toml."""

import numpy as np


def add_sat_u8(a, b):
    return np.minimum(a.astype(np.uint16) + b, 255).astype(np.uint8)


def leaky_relu(x, alpha=0.01):
    return np.where(x > 0, x, alpha * x)


def rms_norm(x, gain, epsilon=1e-6):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * gain


def softmax(x, axis=-1):
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def swi_glu(gate, up):
    return gate / (1 + np.exp(-gate)) * up


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, gain, bias, epsilon=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + epsilon) * gain + bias


def _windows(x, height, width, stride):
    found = np.lib.stride_tricks.sliding_window_view(x, (height, width), axis=(1, 2))
    return found[:, ::stride, ::stride]


def max_pool(x, size=2, stride=2):
    return _windows(x, size, size, stride).max(axis=(-2, -1))


def depthwise_conv(x, weights):
    windows = _windows(x, weights.shape[0], weights.shape[1], 1)
    return np.einsum("nhwcij,ijc->nhwc", windows, weights)


def gather_rows(table, ids):
    return table[np.clip(ids, 0, len(table) - 1)]


def rope(x, cosines, sines):
    low, high = np.split(x, 2, axis=-1)
    return np.concatenate([low * cosines - high * sines, high * cosines + low * sines], axis=-1)


def arg_max(x):
    return x.argmax(axis=-1, keepdims=True).astype(np.int32)


def top_k(x, k=3):
    order = np.argsort(-x, axis=-1, kind="stable")[:, :k]
    return order.astype(np.int32), np.take_along_axis(x, order, -1)


def grouped_conv(x, weights, groups=2):
    def group(number):
        inner, outer = (slice(number * size, (number + 1) * size) for size in sizes)
        return np.einsum("nhwcts,tsco->nhwo", windows[:, :, :, inner], weights[..., outer])

    windows = np.lib.stride_tricks.sliding_window_view(x, weights.shape[:2], axis=(1, 2))
    sizes = weights.shape[2], weights.shape[3] // groups
    return np.concatenate([group(number) for number in range(groups)], axis=-1)


def grid_sample(x, grid):
    _, height, width, _ = x.shape
    places = ((grid + 1) * [width, height] - 1) / 2
    image, y = np.arange(len(x))[:, None, None], 0
    for side in np.ndindex(2, 2):
        near = np.floor(places).astype(int) + side
        is_inside = ((near >= 0) & (near < [width, height])).all(axis=-1, keepdims=True)
        share = (1 - abs(places - near)).prod(axis=-1, keepdims=True) * is_inside
        y = y + share * x[image, near[..., 1].clip(0, height - 1), near[..., 0].clip(0, width - 1)]
    return y


def group_norm(x, gain, bias, groups=1, epsilon=1e-5):
    grouped = x.reshape(*x.shape[:3], groups, -1)
    mean = grouped.mean(axis=(1, 2, 4), keepdims=True)
    variance = ((grouped - mean) ** 2).mean(axis=(1, 2, 4), keepdims=True)
    return ((grouped - mean) / np.sqrt(variance + epsilon)).reshape(x.shape) * gain + bias


def mat_mul_q4(x, blocks):
    parts = blocks.reshape(len(blocks), -1, 18)
    numbers = np.concatenate([parts[..., 2:] & 15, parts[..., 2:] >> 4], axis=-1).astype(int) - 8
    weights = numbers * parts[..., :2].copy().view(np.float16).astype(np.float64)
    return x @ weights.reshape(len(blocks), -1).T


def mat_mul_q4_packed(x, pairs, scales):
    blocks = x.astype(np.float32).reshape(len(x), -1, 32)
    step = np.maximum(np.abs(blocks).max(-1, keepdims=True), np.float32(1e-30)) / np.float32(127)
    words = pairs.reshape(len(pairs), -1, 4)
    numbers = np.concatenate([words & 15, words >> 4], axis=-1).astype(int) - 8  # 8 of each column
    weights = numbers.transpose(0, 2, 1).reshape(len(scales), 32, -1) * scales[:, None].astype(np.float64)
    return np.einsum("mbk,bkn->mn", np.rint(blocks / step) * step.astype(np.float64), weights)


def masked_attention(query, key, value, mask, scale=1.0):
    scores = scale * np.einsum("hsd,htd->hst", query, key) + mask
    return np.einsum("hst,hte->hse", softmax(scores), value)


def fft(x):
    """The numbers after each step: transforms of each 1, 2, 4 … numbers that are far apart, side by side."""
    size, steps = x.shape[1], []
    for joined in range(size.bit_length()):
        many = size >> joined
        parts = (x[..., 0] + 1j * x[..., 1]).reshape(len(x), -1, many)
        found = np.fft.fft(parts, axis=1).reshape(len(x), -1)
        steps.append(np.stack([found.real, found.imag], axis=-1))
    return np.stack(steps), steps[-1]


def wkv(w, u, k, v):
    sums, top, y = np.zeros((len(k), 2, len(w))), np.full((len(k), len(w)), -1e38), np.empty_like(v)
    for t in range(k.shape[1]):
        for decay, bonus in ((0, u), (w, 0)):
            new = np.maximum(top + decay, k[:, t] + bonus)
            now = np.stack([v[:, t], np.ones_like(v[:, t])], axis=1) * np.exp(k[:, t] + bonus - new)[:, None]
            both = sums * np.exp(top + decay - new)[:, None] + now
            if decay is w:
                sums, top = both, new
            else:
                y[:, t] = both[:, 0] / both[:, 1]
    return y
