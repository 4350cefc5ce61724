"""RepackedMatMul in numpy, from the blocks of ggml; run as a program, it writes the weights of op_tests.toml."""

from pathlib import Path

import numpy as np

from udogen.runtime.quantization import RepackBuffer, dequantize_blocks, unrepack_rows

KINDS = {4: "Q4_0", 8: "Q8_0"}


def repacked_matmul(x, weights, bits):
    kind = KINDS[int(bits)]
    rows = np.asarray(weights, np.uint8).reshape(-1, weights.shape[-1])
    real = dequantize_blocks(unrepack_rows(rows, kind, x.shape[-1]), kind).astype(np.float64)
    return x @ real.T


if __name__ == "__main__":
    for kind in KINDS.values():
        for columns in (32, 160, 512):
            buffer = RepackBuffer(kind, (6, columns))
            buffer.quantize(np.random.default_rng(columns).normal(size=(6, columns)))
            np.save(Path(__file__).parent / "values" / f"{kind}_{columns}.npy", buffer.data)
