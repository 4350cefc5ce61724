"""A tensor with some of its rows replaced; if several replace the same row, the last one counts."""

import halide as hl

from udogen.kernels import Whole


def ScatterND(data: Whole(2), indices: Whole(2), updates: Whole(2), output: Whole(2)):
    d, n, r = hl.Var("d"), hl.Var("n"), hl.RDom([(0, indices.extent(1))])
    output[d, n] = data[d, n]
    output[d, hl.clamp(indices[0, r.x], 0, data.extent(1) - 1)] = updates[d, r.x]


def schedule(machine, output):
    if machine.gpu:  # a thread for each column, which iterates over the rows
        first, again, (d, n) = output.func, output.func.update(0), output.indices
        first.reorder(n, d).gpu_tile(d, hl.Var(), hl.Var(), machine.vector, hl.TailStrategy.GuardWithIf)
        again.reorder(first.rvars()[0], d).gpu_tile(d, hl.Var(), hl.Var(), machine.vector, hl.TailStrategy.GuardWithIf)
    return machine.gpu
