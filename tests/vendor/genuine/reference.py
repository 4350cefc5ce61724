"""What the ops of the genuine sources compute, in numpy."""

import numpy as np


def softmax(x, **_):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def relu(x):
    return np.maximum(x, 0)


def argmax(x):
    return x.argmax(axis=-1, keepdims=True).astype(np.uint32)


def conv(x, weight, bias, group=1, pads=(0, 0), strides=(1, 1), dilations=(1, 1), kernel_shape=(1,)):
    """NHWC and HWIO, of one group."""
    (top, left), (down, right) = (int(n) for n in pads), (int(n) for n in strides)
    height, width, _, count = weight.shape
    padded = np.pad(x, ((0, 0), (top, top), (left, left), (0, 0)))
    rows = (padded.shape[1] - height) // down + 1
    columns = (padded.shape[2] - width) // right + 1
    out = np.zeros((x.shape[0], rows, columns, count), np.float64)
    for r in range(rows):
        for c in range(columns):
            window = padded[:, r * down : r * down + height, c * right : c * right + width, :]
            out[:, r, c] = np.tensordot(window, weight, 3) + bias
    return out


def selu(x):
    """That of the sample in quic/qidk: of what lies below the largest number of a row."""
    below = x - x.max(axis=-1, keepdims=True)
    return np.where(below < 0, 1.05070098 * 1.67326324 * (np.exp(below) - 1), 0)


def wkv6(k, v, r, state_in, tf, td):
    heads, size, _ = state_in.shape
    k, v, r, td = (np.asarray(each, np.float64).reshape(-1, heads, size) for each in (k, v, r, td))
    state, first = np.asarray(state_in, np.float64), np.asarray(tf, np.float64).reshape(heads, size)
    out = np.zeros_like(k)
    for t in range(len(k)):
        product = k[t][:, :, None] * v[t][:, None, :]
        out[t] = (r[t][:, :, None] * (product * first[:, :, None] + state)).sum(axis=1)
        state = state * td[t][:, :, None] + product
    return out.reshape(-1, 1, size), state
