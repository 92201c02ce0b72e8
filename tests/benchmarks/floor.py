"""The floor: an LSTM's forward and backward pass as a careful person writes it in NumPy by hand.

The inputs of all steps are projected in one product, the gates of a step are fused in one product (order f, i, o, g,
so that the three sigmoids are one slab), results go in place where that is easy, and the weights' gradients are one
product over all stacked steps at the end. `planned_floor` goes further, as few people would: every buffer and every
view is made ahead, once per shape.
"""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def lstm(xs: Array, A: Array, b: Array, h0: Array, c0: Array, cotangent: Array) -> tuple[Any, dict[str, Array]]:
    """Loss sum(outputs * cotangent) and gradients: xs (T, B, m), A (m + d, 4d) with the rows of x first, b (4d,)."""
    T, B, m = xs.shape
    d = h0.shape[1]
    A_x, A_h = A[:m], A[m:]
    gates = (xs.reshape(T * B, m) @ A_x + b).reshape(T, B, 4 * d)
    hs, cs = np.empty((T + 1, B, d), A.dtype), np.empty((T + 1, B, d), A.dtype)
    tanh_cs = np.empty((T, B, d), A.dtype)
    hs[0], cs[0] = h0, c0
    for t in range(T):
        a = gates[t]
        a += hs[t] @ A_h
        s, g = a[:, : 3 * d], a[:, 3 * d :]
        np.negative(s, out=s)
        np.exp(s, out=s)
        s += 1
        np.reciprocal(s, out=s)
        np.tanh(g, out=g)
        c = np.multiply(s[:, :d], cs[t], out=cs[t + 1])
        c += s[:, d : 2 * d] * g
        tanh_c = np.tanh(c, out=tanh_cs[t])
        np.multiply(s[:, 2 * d :], tanh_c, out=hs[t + 1])

    deltas = np.empty_like(gates)
    dh, dc = np.zeros_like(h0), np.zeros_like(c0)
    for t in reversed(range(T)):
        a, delta, tanh_c = gates[t], deltas[t], tanh_cs[t]
        s, g = a[:, : 3 * d], a[:, 3 * d :]
        f, i, o = s[:, :d], s[:, d : 2 * d], s[:, 2 * d :]
        dh = dh + cotangent[t]
        dc = dc + dh * o * (1 - tanh_c * tanh_c)
        np.multiply(dc, cs[t], out=delta[:, :d])
        np.multiply(dc, g, out=delta[:, d : 2 * d])
        np.multiply(dh, tanh_c, out=delta[:, 2 * d : 3 * d])
        delta[:, : 3 * d] *= s * (1 - s)
        np.multiply(dc * i, 1 - g * g, out=delta[:, 3 * d :])
        dh = delta @ A_h.T
        dc = dc * f
    flat = deltas.reshape(T * B, 4 * d)
    dA = np.concatenate([xs.reshape(T * B, m).T @ flat, hs[:-1].reshape(T * B, d).T @ flat])
    return (hs[1:] * cotangent).sum(), {"dA": dA, "db": flat.sum(0), "dh0": dh, "dc0": dc}
