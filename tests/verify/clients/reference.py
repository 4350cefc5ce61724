"""The outputs of the ops of Clients.xml."""

import numpy as np


def mix(x, a, b, c, w):
    weights = np.resize(w, x.size).reshape(x.shape)
    return 100 * a + 10 * b + c + x * weights


def fragile(x, **_params):
    return x
