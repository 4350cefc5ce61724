"""ScaleClamp in numpy, for the cases in op_tests.toml."""

import numpy as np


def scale_clamp(x, limit, gain):
    return np.minimum(x * gain, limit)
