"""The floor: forward and backward pass of recurrent layers as a careful person writes them in NumPy by hand.

No tape, no graph: the equations, their derivatives worked out on paper, and what makes NumPy fast.

- The inputs of all steps are projected in one product; the weights' gradients are one product at the end.
- The gates of a step are one product with the state. In the order f, i, o, g the sigmoid gates are one slab.
- A step's gates lie gate by gate, as (gates, rows, d), so that every gate and the slab are contiguous. The
  transposition happens inside an addition that is needed anyway, and inside a product on the way back.
- All buffers, and the views of each step into them, are made once per shape and kept. The last argument of a
  ufunc is the array that it writes to. Constants are arrays: NumPy converts a Python number at every call.
- Rows of different lengths are sorted by length and packed, so that no step computes padding: the rows alive
  at a step are the first `counts[step]` rows of the step before. The reverse direction reads rows packed from
  their own ends, and so runs through the same code.

Row vectors throughout: `u @ A + b` with u = concat([x, h]), time first. Every function returns the loss
sum(outputs * cotangent) and its gradients as new arrays. float32 and float64; the complex numbers of a
complex-step check pass through as well. A sigmoid is 1 / (1 + exp(-x)), which overflows with a warning where
x is below -88 in float32.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy import add, exp, multiply, negative, reciprocal, subtract, tanh

Array = np.ndarray[Any, np.dtype[Any]]
Weights = Sequence[Sequence[tuple[Array, Array]]]
KEPT = 8  # shapes whose buffers are kept


def by_gate(rows: Array, gates: int) -> Array:
    """View (rows, gates * d) as (gates, rows, d)."""
    return rows.reshape(len(rows), gates, -1).swapaxes(0, 1)


class PackedLSTM:
    """One LSTM layer in one direction, over packed rows; the buffers of its passes.

    With N = sum(counts) packed rows and B sequences: a = x A_x + h_prev A_h + b, split in f, i, o, g;
    c = σ(f) c_prev + σ(i) tanh(g), h = σ(o) tanh(c).
    """

    def __init__(self, counts: Sequence[int], batch: int, m: int, d: int, dtype: np.dtype[Any]) -> None:
        ends = np.cumsum([0, *counts])
        total = int(ends[-1])
        # State buffers hold the initial state first: the step's previous rows stand one step earlier in them.
        starts = [0, *(batch + ends)]
        self.batch, self.m = batch, m
        self.hidden = np.empty((batch + total, d), dtype)
        self.cell = np.empty((batch + total, d), dtype)
        self.squashed = np.empty((total, d), dtype)
        self.projected = np.empty((total, 4 * d), dtype)
        self.delta = np.empty((total, 4 * d), dtype)
        self.arriving = np.empty((total, d), dtype)
        self.recurrent = np.empty((batch, 4 * d), dtype)
        self.scratch = np.empty((batch, d), dtype)
        self.dh = np.empty((batch, d), dtype)
        self.dc = np.empty((batch, d), dtype)
        self.one = np.ones((), dtype)
        gates = np.empty(4 * total * d, dtype)
        flows = np.empty(3 * batch * d, dtype)
        slopes = np.empty(3 * batch * d, dtype)

        # Which row of the state buffers each packed row came from, for the weights' gradient.
        self.previous: Any = slice(0, total)
        if any(n < batch for n in counts):
            self.previous = np.concatenate([start + np.arange(n) for start, n in zip(starts, counts, strict=False)])
        self.forward_steps: list[tuple[Any, ...]] = []
        self.backward_steps: list[tuple[Any, ...]] = []
        for (lo, hi), start, n in zip(pairwise(ends), starts, counts, strict=False):
            gate = gates[4 * lo * d : 4 * hi * d].reshape(4, n, d)
            flow = flows[: 3 * n * d].reshape(3, n, d)
            slope = slopes[: 3 * n * d].reshape(3, n, d)
            h_prev, c_prev = self.hidden[start : start + n], self.cell[start : start + n]
            h, c = self.hidden[batch + lo : batch + hi], self.cell[batch + lo : batch + hi]
            s, delta = self.squashed[lo:hi], by_gate(self.delta[lo:hi], 4)
            p, r, k = self.projected[lo:hi], self.recurrent[:n], self.scratch[:n]
            self.forward_steps.append(
                (h_prev, r, by_gate(r, 4), by_gate(p, 4), gate, gate[:3], *gate, c_prev, c, s, h, k)
            )
            self.backward_steps.append(
                (self.arriving[lo:hi], gate[:3], *gate, c_prev, s, flow, *flow, slope,
                 self.delta[lo:hi], delta[:3], delta[3], self.dh[:n], self.dc[:n], k)
            )  # fmt: skip
        self.backward_steps.reverse()

    def forward(self, x: Array, A: Array, b: Array, h0: Array, c0: Array) -> Array:
        """The hidden rows (N, d) of the packed inputs x (N, m): a view, overwritten by the next call."""
        self.x, self.A, one = x, A, self.one
        A_h = A[self.m :]
        np.dot(x, A[: self.m], out=self.projected)
        add(self.projected, b, self.projected)
        self.hidden[: self.batch] = h0
        self.cell[: self.batch] = c0
        for h_prev, r, r_by_gate, p_by_gate, gate, slab, f, i, o, g, c_prev, c, s, h, k in self.forward_steps:
            h_prev.dot(A_h, r)
            add(r_by_gate, p_by_gate, gate)
            negative(slab, slab)
            exp(slab, slab)
            add(slab, one, slab)
            reciprocal(slab, slab)
            tanh(g, g)
            multiply(f, c_prev, c)
            multiply(i, g, k)
            add(c, k, c)
            tanh(c, s)
            multiply(o, s, h)
        return self.hidden[self.batch :]

    def backward(self, cotangent: Array, dx: bool) -> dict[str, Array]:
        """The gradients of sum(hidden rows * cotangent), dx (N, m) only if asked for."""
        m, one = self.m, self.one
        A_h_transposed = np.ascontiguousarray(self.A[m:].T)
        self.arriving[...] = cotangent
        self.dh[...] = 0
        self.dc[...] = 0
        for (arriving, slab, f, i, o, g, c_prev, s, flow, flow_f, flow_i, flow_o, slope,
             delta, delta_slab, delta_g, dh, dc, k) in self.backward_steps:  # fmt: skip
            add(dh, arriving, dh)
            # dc += dh * o * (1 - tanh(c)^2)
            multiply(s, s, k)
            subtract(one, k, k)
            multiply(k, o, k)
            multiply(k, dh, k)
            add(dc, k, dc)
            # the sigmoid gates: (dc * c_prev, dc * g, dh * tanh(c)) * gate * (1 - gate)
            multiply(dc, c_prev, flow_f)
            multiply(dc, g, flow_i)
            multiply(dh, s, flow_o)
            subtract(one, slab, slope)
            multiply(slope, slab, slope)
            multiply(flow, slope, delta_slab)
            # the candidate: dc * i * (1 - g^2)
            multiply(g, g, k)
            subtract(one, k, k)
            multiply(k, i, k)
            multiply(dc, k, delta_g)
            # what the step before receives
            delta.dot(A_h_transposed, dh)
            multiply(dc, f, dc)
        dA = np.empty_like(self.A)
        np.dot(self.x.T, self.delta, out=dA[:m])
        np.dot(self.hidden[self.previous].T, self.delta, out=dA[m:])
        grads = {"dA": dA, "db": self.delta.sum(0), "dh0": self.dh.copy(), "dc0": self.dc.copy()}
        if dx:
            grads["dx"] = np.dot(self.delta, self.A[:m].T)
        return grads


@lru_cache(KEPT)
def lstm_buffers(steps: int, batch: int, m: int, d: int, dtype: np.dtype[Any]) -> PackedLSTM:
    return PackedLSTM([batch] * steps, batch, m, d, dtype)


def lstm(
    xs: Array, A: Array, b: Array, h0: Array, c0: Array, cotangent: Array, dx: bool = False
) -> tuple[Any, dict[str, Array]]:
    """Loss and gradients of one LSTM layer, gates in the order f, i, o, g.

    xs (T, B, m), A (m + d, 4d), b (4d,), h0 and c0 (B, d), cotangent (T, B, d). Gradients: dA, db, dh0, dc0,
    and dx where asked for.
    """
    steps, batch, m = xs.shape
    layer = lstm_buffers(steps, batch, m, h0.shape[1], A.dtype)
    outputs = layer.forward(xs.reshape(-1, m), A, b, h0, c0)
    cotangent = cotangent.reshape(outputs.shape)
    grads = layer.backward(cotangent, dx)
    if dx:
        grads["dx"] = grads["dx"].reshape(xs.shape)
    return np.dot(outputs.ravel(), cotangent.ravel()), grads


class StackedGRU:
    """One GRU layer; the buffers of its passes.

    r, z = σ(x A_x + h_prev A_h + b), g = tanh(x W + (r * h_prev) U + b_g), h = z h_prev + (1 - z) g: the
    reset gate stands before the recurrent product, and z keeps the old state (Cho et al. 2014).
    """

    def __init__(self, steps: int, batch: int, m: int, d: int, dtype: np.dtype[Any]) -> None:
        total = steps * batch
        self.batch, self.m = batch, m
        self.hidden = np.empty((batch + total, d), dtype)
        self.reset = np.empty((total, d), dtype)
        self.difference = np.empty((total, d), dtype)
        self.candidate = np.empty((total, d), dtype)
        self.projected = np.empty((total, 2 * d), dtype)
        self.delta = np.empty((total, 2 * d), dtype)
        self.delta_candidate = np.empty((total, d), dtype)
        self.arriving = np.empty((total, d), dtype)
        self.recurrent = np.empty((batch, 2 * d), dtype)
        self.scratch, self.kept, self.dh = (np.empty((batch, d), dtype) for _ in range(3))
        self.flow, self.slope = (np.empty((2, batch, d), dtype) for _ in range(2))
        self.one = np.ones((), dtype)
        gates = np.empty((steps, 2, batch, d), dtype)

        self.forward_steps: list[tuple[Any, ...]] = []
        self.backward_steps: list[tuple[Any, ...]] = []
        for lo, gate in zip(range(0, total, batch), gates, strict=True):
            hi = lo + batch
            h_prev, h = self.hidden[lo:hi], self.hidden[hi : hi + batch]
            g, e, arriving = self.candidate[lo:hi], self.difference[lo:hi], self.arriving[lo:hi]
            p, delta, delta_g = self.projected[lo:hi], self.delta[lo:hi], self.delta_candidate[lo:hi]
            self.forward_steps.append((h_prev, by_gate(p, 2), gate, *gate, self.reset[lo:hi], g, e, h))
            self.backward_steps.append((arriving, h_prev, gate, *gate, g, e, delta_g, delta, by_gate(delta, 2)))
        self.backward_steps.reverse()

    def forward(self, x: Array, A: Array, b: Array, W: Array, U: Array, b_g: Array, h0: Array) -> Array:
        """The hidden rows (T * B, d) of the inputs x (T * B, m): a view, overwritten by the next call."""
        self.x, self.A, self.W, self.U = x, A, W, U
        one, recurrent, k = self.one, self.recurrent, self.scratch
        r_by_gate, A_h = by_gate(recurrent, 2), A[self.m :]
        np.dot(x, A[: self.m], out=self.projected)
        add(self.projected, b, self.projected)
        np.dot(x, W, out=self.candidate)
        add(self.candidate, b_g, self.candidate)
        self.hidden[: self.batch] = h0
        for h_prev, p_by_gate, gate, r, z, reset, g, e, h in self.forward_steps:
            h_prev.dot(A_h, recurrent)
            add(r_by_gate, p_by_gate, gate)
            negative(gate, gate)
            exp(gate, gate)
            add(gate, one, gate)
            reciprocal(gate, gate)
            multiply(r, h_prev, reset)
            reset.dot(U, k)
            add(g, k, g)
            tanh(g, g)
            # h = g + z * (h_prev - g)
            subtract(h_prev, g, e)
            multiply(z, e, h)
            add(h, g, h)
        return self.hidden[self.batch :]

    def backward(self, cotangent: Array, dx: bool) -> dict[str, Array]:
        """The gradients of sum(hidden rows * cotangent), dx (T * B, m) only if asked for."""
        m, one, dh, kept, k = self.m, self.one, self.dh, self.kept, self.scratch
        flow, slope = self.flow, self.slope
        flow_r, flow_z = flow
        A_h_transposed, U_transposed = np.ascontiguousarray(self.A[m:].T), np.ascontiguousarray(self.U.T)
        self.arriving[...] = cotangent
        dh[...] = 0
        for arriving, h_prev, gate, r, z, g, e, delta_g, delta, delta_by_gate in self.backward_steps:
            add(dh, arriving, dh)
            multiply(dh, z, kept)
            multiply(dh, e, flow_z)
            # the candidate: dh * (1 - z) * (1 - g^2)
            subtract(dh, kept, dh)
            multiply(g, g, k)
            subtract(one, k, k)
            multiply(dh, k, delta_g)
            # through r * h_prev
            delta_g.dot(U_transposed, k)
            multiply(k, h_prev, flow_r)
            multiply(k, r, k)
            add(kept, k, kept)
            # both gates: flow * gate * (1 - gate)
            subtract(one, gate, slope)
            multiply(slope, gate, slope)
            multiply(flow, slope, delta_by_gate)
            # what the step before receives
            delta.dot(A_h_transposed, dh)
            add(dh, kept, dh)
        dA = np.empty_like(self.A)
        np.dot(self.x.T, self.delta, out=dA[:m])
        np.dot(self.hidden[: len(self.x)].T, self.delta, out=dA[m:])
        grads = {
            "dA": dA,
            "db": self.delta.sum(0),
            "dW": np.dot(self.x.T, self.delta_candidate),
            "dU": np.dot(self.reset.T, self.delta_candidate),
            "db_g": self.delta_candidate.sum(0),
            "dh0": dh.copy(),
        }
        if dx:
            grads["dx"] = np.dot(self.delta, self.A[:m].T) + np.dot(self.delta_candidate, self.W.T)
        return grads


@lru_cache(KEPT)
def gru_buffers(steps: int, batch: int, m: int, d: int, dtype: np.dtype[Any]) -> StackedGRU:
    return StackedGRU(steps, batch, m, d, dtype)


def gru(
    xs: Array,
    A: Array,
    b: Array,
    W: Array,
    U: Array,
    b_g: Array,
    h0: Array,
    cotangent: Array,
    dx: bool = False,
) -> tuple[Any, dict[str, Array]]:
    """Loss and gradients of one GRU layer: reset before the recurrent product, z keeps the old state.

    xs (T, B, m), A (m + d, 2d) and b (2d,) for r, z; W (m, d), U (d, d) and b_g (d,) for the candidate;
    h0 (B, d), cotangent (T, B, d). Gradients: dA, db, dW, dU, db_g, dh0, and dx where asked for.
    """
    steps, batch, m = xs.shape
    layer = gru_buffers(steps, batch, m, h0.shape[1], A.dtype)
    outputs = layer.forward(xs.reshape(-1, m), A, b, W, U, b_g, h0)
    cotangent = cotangent.reshape(outputs.shape)
    grads = layer.backward(cotangent, dx)
    if dx:
        grads["dx"] = grads["dx"].reshape(xs.shape)
    return np.dot(outputs.ravel(), cotangent.ravel()), grads


class BiLSTM:
    """A stack of bidirectional LSTM layers over rows of given lengths; packing and the buffers of its passes.

    `rows` says which row of the (T * B, features) input stands where in the packed order of the forward
    direction. `mirror` leads from there to the packed order of the reverse direction, and back.
    """

    def __init__(self, steps: int, lengths: Sequence[int], m: int, d: int, layers: int, dtype: np.dtype[Any]) -> None:
        batch = len(lengths)
        length = np.asarray(lengths)
        self.order = np.argsort(-length, kind="stable")
        self.place = np.argsort(self.order)
        step, rank = np.nonzero(np.arange(steps)[:, None] < length[self.order])
        row = self.order[rank]
        counts = np.bincount(step).tolist()
        ends = np.cumsum([0, *counts])
        self.rows = step * batch + row
        self.mirror = ends[length[row] - 1 - step] + rank
        widths = [m] + [2 * d] * (layers - 1)
        self.layers = [[PackedLSTM(counts, batch, width, d, dtype) for _ in range(2)] for width in widths]
        self.joined = [np.empty((len(row), 2 * d), dtype) for _ in range(layers)]

    def forward(self, xs: Array, weights: Weights, h0: Array, c0: Array) -> Array:
        """The last layer's outputs (N, 2d) in the forward packed order."""
        x: Array = xs.reshape(-1, xs.shape[-1])[self.rows]
        h0, c0 = h0[:, :, self.order], c0[:, :, self.order]
        for layer, pair, joined, h, c in zip(self.layers, weights, self.joined, h0, c0, strict=True):
            d = h.shape[-1]
            joined[:, :d] = layer[0].forward(x, *pair[0], h[0], c[0])
            joined[:, d:] = layer[1].forward(x[self.mirror], *pair[1], h[1], c[1])[self.mirror]
            x = joined
        return x

    def backward(self, cotangent: Array, xs: Array, dx: bool) -> dict[str, Any]:
        """The gradients of sum(packed outputs * cotangent), shaped like what they belong to."""
        d = cotangent.shape[-1] // 2
        grads = []
        for number in reversed(range(len(self.layers))):
            asked = dx or number > 0
            there = self.layers[number][0].backward(cotangent[:, :d], asked)
            back = self.layers[number][1].backward(cotangent[self.mirror, d:], asked)
            grads.append((there, back))
            if asked:
                cotangent = there["dx"] + back["dx"][self.mirror]
        grads.reverse()
        found: dict[str, Any] = {"weights": [[(one["dA"], one["db"]) for one in pair] for pair in grads]}
        for name in ("dh0", "dc0"):
            found[name] = np.stack([np.stack([one[name][self.place] for one in pair]) for pair in grads])
        if dx:
            found["dx"] = np.zeros(xs.shape, cotangent.dtype)
            found["dx"].reshape(-1, xs.shape[-1])[self.rows] = cotangent
        return found


@lru_cache(KEPT)
def bilstm_buffers(steps: int, lengths: tuple[int, ...], m: int, d: int, layers: int, dtype: np.dtype[Any]) -> BiLSTM:
    return BiLSTM(steps, lengths, m, d, layers, dtype)


def bilstm(
    xs: Array,
    lengths: Sequence[int],
    weights: Weights,
    h0: Array,
    c0: Array,
    cotangent: Array,
    dx: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Loss and gradients of a bidirectional LSTM of len(weights) layers (two, in the benchmark) over lengths.

    xs (T, B, m), lengths (B,) from 0 to T, weights[layer][direction] = (A, b) with direction 0 forward and 1
    reverse, h0 and c0 (layers, 2, B, d), cotangent (T, B, 2d). Padding leaves the state untouched, its
    outputs are 0, and the reverse direction starts at each row's own last element. Gradients: weights (nested
    alike), dh0, dc0, and dx where asked for.
    """
    steps, batch, m = xs.shape
    net = bilstm_buffers(steps, tuple(int(n) for n in lengths), m, h0.shape[-1], len(weights), weights[0][0][0].dtype)
    outputs = net.forward(xs, weights, h0, c0)
    cotangent = cotangent.reshape(steps * batch, -1)[net.rows]
    return np.dot(outputs.ravel(), cotangent.ravel()), net.backward(cotangent, xs, dx)
