"""Layer normalization of a sum of two or three tensors, and the sum."""

import halide as hl

from udogen.kernels import Rows


def SkipLayerNormalization(input: Rows, skip: Rows, gamma, beta, bias, output: Rows, sum: Rows, epsilon):
    def added(k):
        return input[k] + skip[k] if bias is None else input[k] + skip[k] + bias[k]

    k = hl.Var("k")
    mean = input.mean(added)
    variance = input.mean(lambda k: (added(k) - mean) * (added(k) - mean))
    scaled = (added(k) - mean) / hl.sqrt(variance + epsilon) * gamma[k]
    output[k] = scaled if beta is None else scaled + beta[k]
    sum[k] = added(k)
