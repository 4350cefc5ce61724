"""The ops in numpy."""

import numpy as np


def int_mat_mul(a, b):
    return a.astype(np.int64) @ b.astype(np.int64)


def part_of_lines(a, b):
    return int_mat_mul(a[:, 1:], b[1:])


def mat_mul(a, b):
    return a @ b


def linear(a, b):
    return a @ b.T


def conv(x, weights):
    high, wide = weights.shape[:2]
    down, across = x.shape[1] - high + 1, x.shape[2] - wide + 1
    return sum(x[:, i : i + down, j : j + across] @ weights[i, j] for i in range(high) for j in range(wide))


def add(a, b):
    return a + b


def multiply(a, b):
    return a * b


def box(x):
    return (box_of_words(x) + 4) // 9


def box_of_words(x):
    return sum(np.roll(x.astype(np.int64), (-i, -j), (0, 1)) for i in range(3) for j in range(3))[:-2, :-2]


def scores(query, key, value):
    found = query.astype(np.int64) @ key.transpose(0, 2, 1)
    return found @ value + found.max(-1, keepdims=True)


def block_sums(x, words, factors):
    numbers, weights = (each.astype(np.uint8).view(np.int8).astype(np.int64) for each in (x, words))
    weights = weights.reshape(len(words), -1, 4).transpose(0, 2, 1).reshape(len(factors), 32, -1)
    return np.einsum("mbk,bkn,bn->mn", numbers.reshape(len(x), -1, 32), weights, factors.astype(np.int64))
