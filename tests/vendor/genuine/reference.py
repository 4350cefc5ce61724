"""What the ops of the genuine sources compute, in numpy."""

from __future__ import annotations

import numpy as np


def softmax(Placeholder: np.ndarray, **_params: object) -> np.ndarray:
    powers = np.exp(Placeholder - Placeholder.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
