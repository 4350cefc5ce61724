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
    return x * cosines + np.concatenate([-high, low], axis=-1) * sines


def arg_max(x):
    return x.argmax(axis=-1, keepdims=True).astype(np.int32)
