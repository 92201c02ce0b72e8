"""Distance multiplies: a signal is changed by a factor at every step that it crosses.

    python examples/distance_multiplies.py

Credit goes back through time one step after the other, and each step multiplies it. Everything below is read off
recorded graphs; nothing is computed beside them but the powers that it is compared with.
"""

import sys
from math import log

import numpy as np

import tinygrad_seq as tg

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark

T = 16
DISTANCES = (0, 1, 2, 4, 8, 16)


def states(factor, rate=lambda a: a, start=1.0):
    """The states h at steps 0..T of h <- rate(factor * h)."""
    h = tg.Tensor(start, requires_grad=True, name="h")
    found = [h]
    for t in range(1, T + 1):
        with tg.step(t):
            h = rate(factor * h).named("h")
        found.append(h)
    return found


print("1. What is left of a signal that crosses so many edges\n")
shrinking, growing = states(0.5), states(1.5)
table = tg.Table(
    ("distance", "factor 0.5", "factor 1.5"),
    [(k, *(tg.jacobian(h[T], h[T - k]) if k else 1.0 for h in (shrinking, growing))) for k in DISTANCES],
)
print(table)
assert table.column("factor 0.5") == tuple(0.5**k for k in DISTANCES)
assert table.column("factor 1.5") == tuple(1.5**k for k in DISTANCES)
assert table.rows[-1] == (16, 0.0000152587890625, 656.8408355712891)

print("\nAn error of 2 at the last state arrives four steps before as", end=" ")
arrived = [tg.Tape(h[T]).flow(seed=2.0)[h[T - 4]].item() for h in (shrinking, growing)]
print(*arrived, sep=" or as ")
assert arrived == [0.125, 10.125]

print("\n2. The activation has a say: where tanh is flat, little gets through\n")
rows = []
for a in (0.0, 0.5, 1.0, 2.0, 4.0):
    x = tg.Tensor(a, requires_grad=True)
    rows.append((a, tg.tanh(x).item(), tg.grad(tg.tanh(x), x).item()))
print(tg.Table(("a", "tanh a", "slope"), rows))
assert rows[3][1:] == (0.9640275800758169, 0.07065082485316443)

print("\nSo a weight of 1.5 need not make anything grow. The same 16 steps with h <- tanh(1.5 h), from h = 0.1:\n")
squashed = states(1.5, tg.tanh, start=0.1)
chain = tg.Tape(squashed[T]).flow().chain("h", precision=4)
print(chain)
factors = chain.column("∂h/∂h before")
assert factors[-1] > 1 > factors[0]  # near 0 it grows; where the state has become large, it shrinks
assert np.isclose(chain.column("product")[-1], tg.jacobian(squashed[T], squashed[0]), rtol=1e-12)

print("\n3. Clipping limits what has grown. It does not bring back what has vanished\n")
rows = []
for factor in (0.5, 1.5):
    # Each reading has a weight v of its own, so that early and late ones have gradients of their own.
    vs = [tg.Tensor(0.1, requires_grad=True, name="v") for _ in range(T)]
    h = tg.Tensor(0.0)
    for t, v in enumerate(vs, start=1):
        with tg.step(t):
            h = v + factor * h
    h.backward()
    before = [v.grad.item() for v in vs]
    tg.optim.clip_grad_norm(vs, 1.0)
    after = [v.grad.item() for v in vs]
    rows += [(f"{factor}, step {t}", before[t - 1], after[t - 1], after[t - 1] / after[T - 1]) for t in (1, 8, 16)]
    assert np.isclose(np.linalg.norm(after), 1)
    assert np.isclose(after[0] / after[-1], before[0] / before[-1], rtol=1e-12)
print(tg.Table(("factor", "gradient", "clipped to length 1", "beside the last"), rows, precision=3))
print("\nThe lengths are 1 now. How an early step compares with the last one is as it was.")

print("\n4. A gate near 1 is gentler, and still a product: an LSTM's cell, along its own path\n")
rows = []
for gate, steps in ((0.5, 8), (0.9, 8), (0.99, 100)):
    cell = tg.nn.LSTMCell(1, 1, forget_bias=log(gate / (1 - gate)), rng=0)
    cell.set_gate("f", W=0.0, U=0.0)
    c0 = tg.Tensor([1.0], requires_grad=True, name="c")
    _, (_, c) = tg.nn.unroll(cell, np.zeros((steps, 1)), tg.nn.LSTMState(tg.Tensor([0.0]), c0))
    tape = tg.Tape(c)
    kept = tg.jacobian(c, c0, holding=tape.find("h")).item()
    rows.append((gate, steps, kept))
    assert np.isclose(kept, gate**steps, rtol=1e-12)
print(tg.Table(("forget gate", "steps", "left"), rows, precision=12))
assert np.allclose([left for *_, left in rows[1:]], [0.43046721, 0.3660323412732292], rtol=1e-12)
