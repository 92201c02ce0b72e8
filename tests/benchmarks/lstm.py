"""LSTM forward and backward: this package against hand-written NumPy, and against other frameworks if installed.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python tests/benchmarks/lstm.py

`replay` runs natively, with products that are packed where a trial finds the bits of BLAS in less time; `BLAS`: with
BLAS alone; `stacked`: with stack_steps=True; `list`: from Python. The kernel that BLAS chose is printed: under another
one the trial may find other bits, and `replay` is `replay, BLAS` then.

Everything does the same work, loss = sum(outputs * cotangent) and the gradients of A and b, in float32, and the
losses are compared. The contestants run in turn, round after round; the table shows the median time and the median
ratio to the floor of the same round, which holds when the machine's speed drifts.
"""

import argparse
import ctypes
import importlib.util
import os
import statistics
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import floor
import numpy as np
import planned_floor
from interleaved import ratio, rounds

import tinygrad_seq as tg

SIZES = {"small": (20, 1, 4, 8), "medium": (50, 16, 16, 32), "large": (100, 32, 64, 128), "wide": (50, 64, 256, 256)}


def ours(xs, A, b, h0, c0, cotangent):
    """The same step in three forms: bare operations, the layer, the layer replayed (natively and from a list)."""
    T, _, m = xs.shape
    d = h0.shape[1]
    weights = tg.Tensor(A, requires_grad=True), tg.Tensor(b, requires_grad=True)
    inputs, start, seed = tg.Tensor(xs), (tg.Tensor(h0), tg.Tensor(c0)), tg.Tensor(cotangent)

    def bare():
        joined, bias = weights
        h, c = start
        outputs = []
        for t in range(T):
            with tg.step(t + 1):
                a = tg.concat([inputs[t], h], -1) @ joined + bias
                s, g = a[..., : 3 * d].sigmoid(), a[..., 3 * d :].tanh()
                c = s[..., :d] * c + s[..., d : 2 * d] * g
                h = s[..., 2 * d :] * c.tanh()
                outputs.append(h)
        return (tg.stack(outputs) * seed).sum()

    net = tg.nn.LSTM(m, d, dtype=A.dtype)
    net.cells[0][0].A.data, net.cells[0][0].b.data = A, b
    state = [[tg.nn.LSTMState(*start)]]

    def loss_of(xs, h, c, cotangent):
        return (net(xs, [[tg.nn.LSTMState(h, c)]])[0] * cotangent).sum()

    parameters = net.parameters()  # collected once, as an optimiser does

    def backward(loss_of, parameters=parameters):
        for x in parameters:
            x.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    def replayed(step):
        for x in parameters:
            x.zero_grad()
        return step(xs, h0, c0, cotangent)

    def replay(switch="", **options):
        """A step that is recorded and has been made ready, with this setting of the switch."""
        step = tg.replay(loss_of, wrt=net, **options)
        os.environ["TINYGRAD_SEQ_NATIVE"] = switch
        for _ in range(2):
            replayed(step)
        os.environ["TINYGRAD_SEQ_NATIVE"] = ""
        return lambda: replayed(step)

    return {
        "operations": lambda: backward(bare, weights),
        "nn.LSTM": lambda: backward(lambda: (net(inputs, state)[0] * seed).sum()),
        "replay": replay(),
        "replay, BLAS": replay("blas"),
        "replay, stacked": replay(stack_steps=True),
        "replay, list": replay(native=False),
    }


def pytorch(xs, A, b, h0, c0, cotangent):
    import torch

    torch.set_num_threads(1)
    d = h0.shape[1]
    m = xs.shape[2]
    joined, bias = torch.tensor(A, requires_grad=True), torch.tensor(b, requires_grad=True)
    inputs, h0, c0, seed = (torch.tensor(x) for x in (xs, h0, c0, cotangent))
    # f, i, o, g to PyTorch's i, f, g, o
    f, i, o, g = np.split(A, 4, axis=1)
    bf, bi, bo, bg = np.split(b, 4)
    theirs = np.concatenate([i, f, g, o], 1).T
    layer, cell = torch.nn.LSTM(m, d), torch.nn.LSTMCell(m, d)
    with torch.no_grad():
        for module, suffix in ((layer, "_l0"), (cell, "")):
            getattr(module, f"weight_ih{suffix}").copy_(torch.tensor(theirs[:, :m].copy()))
            getattr(module, f"weight_hh{suffix}").copy_(torch.tensor(theirs[:, m:].copy()))
            getattr(module, f"bias_ih{suffix}").copy_(torch.tensor(np.concatenate([bi, bf, bg, bo])))
            getattr(module, f"bias_hh{suffix}").zero_()

    def unrolled():
        h, c = h0, c0
        outputs = []
        for x in inputs.unbind(0):
            a = torch.cat([x, h], -1) @ joined + bias
            f, i, o, g = a.chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return (torch.stack(outputs) * seed).sum()

    def cells():
        state, outputs = (h0, c0), []
        for x in inputs.unbind(0):
            state = cell(x, state)
            outputs.append(state[0])
        return (torch.stack(outputs) * seed).sum()

    def fused():
        return (layer(inputs, (h0[None], c0[None]))[0] * seed).sum()

    def run(loss_of):
        loss = loss_of()
        loss.backward()
        return loss.item()

    return {
        "torch unrolled": lambda: run(unrolled),
        "torch LSTMCell": lambda: run(cells),
        "torch nn.LSTM": lambda: run(fused),
    }


def traced(xs, A, b, h0, c0, cotangent, np_, sigmoid):
    """The loss in the NumPy of another framework."""
    d = h0.shape[1]

    def loss_of(A, b):
        h, c, outputs = h0, c0, []
        for x in xs:
            a = np_.concatenate([x, h], -1) @ A + b
            s, g = sigmoid(a[:, : 3 * d]), np_.tanh(a[:, 3 * d :])
            c = s[:, :d] * c + s[:, d : 2 * d] * g
            h = s[:, 2 * d :] * np_.tanh(c)
            outputs.append(h)
        return (np_.stack(outputs) * cotangent).sum()

    return loss_of


def jax(xs, A, b, h0, c0, cotangent):
    import jax
    import jax.numpy as jnp

    m, d = xs.shape[2], h0.shape[1]

    def scanned(A, b):
        """As its users write it: a compiled loop, the inputs' product before it."""

        def cell(state, projected):
            h, c = state
            a = projected + h @ A[m:]
            s, g = jax.nn.sigmoid(a[:, : 3 * d]), jnp.tanh(a[:, 3 * d :])
            c = s[:, :d] * c + s[:, d : 2 * d] * g
            h = s[:, 2 * d :] * jnp.tanh(c)
            return (h, c), h

        return (jax.lax.scan(cell, (h0, c0), xs @ A[:m] + b)[1] * cotangent).sum()

    losses = {"jax unrolled": traced(xs, A, b, h0, c0, cotangent, jnp, jax.nn.sigmoid), "jax scan": scanned}
    steps = {name: jax.jit(jax.value_and_grad(loss_of, (0, 1))) for name, loss_of in losses.items()}
    return {name: (lambda step=step: jax.block_until_ready(step(A, b))[0]) for name, step in steps.items()}


def autograd(xs, A, b, h0, c0, cotangent):
    import autograd.numpy as anp
    from autograd import value_and_grad

    loss_of = traced(xs, A, b, h0, c0, cotangent, anp, lambda a: 1 / (1 + anp.exp(-a)))
    step = value_and_grad(loss_of, (0, 1))
    return {"autograd": lambda: step(A, b)[0]}


def mygrad(xs, A, b, h0, c0, cotangent):
    import mygrad as mg
    from mygrad.nnet.activations import sigmoid

    def run():
        weights = mg.tensor(A), mg.tensor(b)
        loss = traced(xs, A, b, h0, c0, cotangent, mg, sigmoid)(*weights)
        loss.backward()
        return loss.item()

    return {"mygrad": run}


def kernel() -> str:
    """Which processor the BLAS of NumPy takes this one for, if it is OpenBLAS from a wheel."""
    for library in Path(np.__file__).parent.parent.glob("numpy.libs/*openblas*"):
        for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
            if hasattr(loaded := ctypes.CDLL(str(library)), name):
                told = getattr(loaded, name)
                told.restype = ctypes.c_char_p
                return told().decode()
    return "unknown"


OTHERS = {"torch": pytorch, "jax": jax, "autograd": autograd, "mygrad": mygrad}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=10.0, help="for each size")
    parser.add_argument("--against", nargs="*", choices=OTHERS, default=list(OTHERS), help="of those installed")
    options = parser.parse_args()
    print(f"NumPy {np.__version__}, kernel of BLAS: {kernel()}")
    for size in options.sizes:
        T, B, m, d = SIZES[size]
        rng = np.random.default_rng(0)

        def draw(*shape, rng=rng):
            return rng.standard_normal(shape).astype(np.float32)

        work = (
            draw(T, B, m),
            draw(m + d, 4 * d) / np.float32((m + d) ** 0.5),
            draw(4 * d),
            draw(B, d),
            draw(B, d),
            draw(T, B, d),
        )
        contestants = {"floor": lambda work=work: floor.lstm(*work)[0]}
        contestants["floor, planned"] = lambda work=work: planned_floor.lstm(*work)[0]
        contestants |= ours(*work)
        for package in filter(importlib.util.find_spec, options.against):
            contestants |= OTHERS[package](*work)
        results = {name: run() for name, run in contestants.items()}
        losses = {name: loss.item() if hasattr(loss, "item") else loss for name, loss in results.items()}
        for name, loss in losses.items():
            assert abs(loss - losses["floor"]) <= 1e-4 * T * B * d, (name, loss, losses["floor"])
        times = rounds(contestants, options.seconds)
        print(f"\n{size}: T={T} B={B} m={m} d={d}, float32, {len(times['floor'])} rounds")
        print(f"{'':16} {'median':>10} {'/ floor':>8}")
        for name, seconds in times.items():
            print(f"{name:16} {statistics.median(seconds) * 1e6:8.0f} µs {ratio(seconds, times['floor']):8.2f}")


if __name__ == "__main__":
    main()
