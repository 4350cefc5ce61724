import halide as hl
import numpy as np

import udogen
from udogen.kernels import Whole
from udogen.kernels.math import select, sigmoid, total


@udogen.kernel
def CausalConv(x: Whole("b t c"), w: Whole("s c"), y: Whole("b t c")):
    c, t, b, r = hl.Var("c"), hl.Var("t"), hl.Var("b"), hl.RDom([(0, w.extent(1))])
    past = select(t >= r.x, x[c, hl.clamp(t - r.x, 0, x.extent(1) - 1), b], 0.0)
    z = total(r, past * w[c, r.x])
    y[c, t, b] = z * sigmoid(z)


def reference(x, w):
    z = np.zeros_like(x)
    for s in range(len(w)):
        z[:, s:] += x[:, : x.shape[1] - s] * w[s]
    return z / (1 + np.exp(-z))


if __name__ == "__main__":
    print(CausalConv(np.ones((1, 4, 2)), np.ones((2, 2))))
    print(CausalConv.test(reference, tolerance={"float": "1e-5 + 1e-5 relative"}).sentence())
    CausalConv.package("conv")
