"""The ops in numpy."""

import numpy as np


def skip_norm(x, skip):
    total = x + skip - (x + skip).mean(-1, keepdims=True)
    return total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5), total


def ranks(x):
    return x * 2, x.sum(axis=(0, 1))


def chain(x):
    a = x.cumsum(0)
    return a * 2 - x, a * 2, a


def many(p, q, r, s, t, u, v, w):
    return p + q + r + s + t + u + v + w


def kept(a, b):
    after = np.cumsum(b.reshape(-1)).reshape(b.shape)
    return ((after - b) & 255) + (after & 1023) * a, np.cumsum(a.reshape(-1)).reshape(a.shape)
