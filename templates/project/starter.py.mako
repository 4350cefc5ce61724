"""${op} for CPU, HTP and DSP.  `python kernels/${op}.py` compares it with numpy on this machine."""

import halide as hl

import udogen


@udogen.kernel
def ${op}(x, y, factor=2.0):
    i = hl.Var("i")
    y[i] = factor * x[i]


def reference(x, factor=2.0):
    return factor * x


if __name__ == "__main__":
    print(${op}.test(reference).sentence())
