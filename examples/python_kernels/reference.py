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
