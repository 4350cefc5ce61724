"""More tensors of many types than HTP could have records for if each could have any type."""

import halide as hl


def Many(p, q, r, s, t, u, v, w, y):
    i = hl.Var("i")
    y[i] = p[i] + q[i] + r[i] + s[i] + t[i] + u[i] + v[i] + w[i]
