"""The floor: forward and backward pass of recurrent layers as a careful person writes them in NumPy by hand.

The inputs of all steps are projected in one product, the gates of a step are fused in one product (order f, i, o, g,
so that the three sigmoids are one slab), results go in place where that is easy, and the weights' gradients are one
product over all stacked steps at the end. `planned_floor` goes further, as few people would: every buffer and every
view is made ahead, once per shape, and no padding is computed. Arguments and results are the same in both.
"""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def lstm_forward(xs: Array, A: Array, b: Array, h0: Array, c0: Array) -> tuple[Array, Any]:
    """The outputs (T, B, d), and what the backward pass needs: xs (T, B, m), A (m + d, 4d) with the rows of x first."""
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
    return hs[1:], (xs, A, gates, hs, cs, tanh_cs)


def lstm_backward(saved: Any, cotangent: Array, dx: bool = False) -> dict[str, Array]:
    """The gradients of sum(outputs * cotangent), dx only if asked for."""
    xs, A, gates, hs, cs, tanh_cs = saved
    T, B, m = xs.shape
    d = hs.shape[-1]
    A_h = A[m:]
    deltas = np.empty_like(gates)
    dh, dc = np.zeros_like(hs[0]), np.zeros_like(cs[0])
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
    grads = {"dA": dA, "db": flat.sum(0), "dh0": dh, "dc0": dc}
    if dx:
        grads["dx"] = (flat @ A[:m].T).reshape(xs.shape)
    return grads


def lstm(xs: Array, A: Array, b: Array, h0: Array, c0: Array, cotangent: Array) -> tuple[Any, dict[str, Array]]:
    """Loss sum(outputs * cotangent) and gradients."""
    outputs, saved = lstm_forward(xs, A, b, h0, c0)
    return (outputs * cotangent).sum(), lstm_backward(saved, cotangent)


def gru(
    xs: Array, A: Array, b: Array, W: Array, U: Array, b_g: Array, h0: Array, cotangent: Array
) -> tuple[Any, dict[str, Array]]:
    """Loss and gradients: r, z from A (m + d, 2d), the candidate from x W + (r h) U + b_g; z keeps the old state."""
    T, B, m = xs.shape
    d = h0.shape[1]
    A_h, rows = A[m:], xs.reshape(T * B, m)
    gates = (rows @ A[:m] + b).reshape(T, B, 2 * d)
    candidates = (rows @ W + b_g).reshape(T, B, d)
    hs, resets = np.empty((T + 1, B, d), A.dtype), np.empty((T, B, d), A.dtype)
    hs[0] = h0
    for t in range(T):
        s, g, h = gates[t], candidates[t], hs[t]
        s += h @ A_h
        np.negative(s, out=s)
        np.exp(s, out=s)
        s += 1
        np.reciprocal(s, out=s)
        g += np.multiply(s[:, :d], h, out=resets[t]) @ U
        np.tanh(g, out=g)
        np.add(g, s[:, d:] * (h - g), out=hs[t + 1])

    deltas, deltas_g = np.empty_like(gates), np.empty_like(candidates)
    dh = np.zeros_like(h0)
    for t in reversed(range(T)):
        s, g, h, delta = gates[t], candidates[t], hs[t], deltas[t]
        r, z = s[:, :d], s[:, d:]
        dh = dh + cotangent[t]
        delta_g = np.multiply(dh * (1 - z), 1 - g * g, out=deltas_g[t])
        back = delta_g @ U.T
        np.multiply(back, h, out=delta[:, :d])
        np.multiply(dh, h - g, out=delta[:, d:])
        delta *= s * (1 - s)
        dh = dh * z + back * r + delta @ A_h.T
    flat, flat_g, before = deltas.reshape(T * B, 2 * d), deltas_g.reshape(T * B, d), hs[:-1].reshape(T * B, d)
    dA = np.concatenate([rows.T @ flat, before.T @ flat])
    grads = {"dA": dA, "db": flat.sum(0), "dh0": dh, "db_g": flat_g.sum(0)}
    return (hs[1:] * cotangent).sum(), grads | {"dW": rows.T @ flat_g, "dU": resets.reshape(T * B, d).T @ flat_g}


def bilstm(
    xs: Array, lengths: Array, weights: Any, h0: Array, c0: Array, cotangent: Array
) -> tuple[Any, dict[str, Any]]:
    """Loss and gradients of layers in both directions: weights[layer][direction] = (A, b), states (layers, 2, B, d).

    Padding stands at the end of a row, where nothing real reads on: only its outputs must be 0. For the other
    direction each row is turned round by itself.
    """
    T, B, _ = xs.shape
    steps = np.arange(T)[:, None]
    real = (steps < lengths)[..., None]
    turned = np.where(real[..., 0], lengths - 1 - steps, steps), np.arange(B)
    below, saved = xs, []
    for pair, h, c in zip(weights, h0, c0, strict=True):
        there, saved_there = lstm_forward(below, *pair[0], h[0], c[0])
        back, saved_back = lstm_forward(below[turned], *pair[1], h[1], c[1])
        below = np.concatenate([there, back[turned]], -1) * real
        saved.append((saved_there, saved_back))
    loss, d, grads = (below * cotangent).sum(), h0.shape[-1], []
    for k in reversed(range(len(saved))):
        cotangent = cotangent * real
        there = lstm_backward(saved[k][0], cotangent[..., :d], k > 0)
        back = lstm_backward(saved[k][1], cotangent[..., d:][turned], k > 0)
        grads.append(((there["dA"], there["db"]), (back["dA"], back["db"])))
        if k:
            cotangent = there["dx"] + back["dx"][turned]
    return loss, {"weights": grads[::-1]}
