"""Why gradients survive in an LSTM: two routes back along the cell, and what the direct one does not promise.

    python examples/two_routes.py

How much does the cell or state at one step depend on the one before? Each answer below is a Jacobian read off a
recorded graph, beside the formula that it must agree with.
"""

import sys
from math import log

import numpy as np

import tinygrad_seq as tg

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark

READINGS = np.array([[1.0], [0.0], [0.0], [0.0]])


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def bias(gate):
    """The bias that gives a gate this value."""
    return log(gate / (1 - gate))


def cell_path(cell, xs):
    """What is left after 1, 2, 3 ... steps back along the cell alone: h is held fixed at every step."""
    start = tg.nn.LSTMState(tg.Tensor([0.0], name="h"), tg.Tensor([0.5], requires_grad=True, name="c"))
    _, (_, c) = tg.nn.unroll(cell, xs, start)
    tape = tg.Tape(c)
    return tape.flow(holding=tape.find("h")).chain("c").column("product")


def constant_gates(**gates):
    """An LSTM of one unit whose gates have these values whatever it reads."""
    cell = tg.nn.LSTMCell(1, 1, rng=0)
    for name, value in gates.items():
        cell.set_gate(name, W=0.0, U=0.0, b=bias(value))
    return cell


print("1. A plain RNN, h = tanh(x + 0.8 h), reads 1, 0, 0, 0: one step back, and the next, and the next\n")
rnn = tg.nn.RNNCell(1, 1)
rnn.set_gate("h", W=1.0, U=0.8)
xs = tg.Tensor(READINGS, requires_grad=True, name="x")
outputs, h4 = tg.nn.unroll(rnn, xs)
tape = tg.Tape(h4)
chain = tape.flow().chain("h")
print("the states:", *outputs.data.ravel(), "\n")
print(chain)
gone = 1 - chain.column("left")[-1]
print(
    f"\nAfter three steps {gone:.0%} of the signal is gone. What is left at the first reading, a fourth step back, is"
)
print(f"{tape.flow()[xs][0, 0]:.6f}. Each factor is 0.8 (1 - h^2) with the h of the later step, so")
print("that of the states 2, 3 and 4 the largest, 0.54 at step 2, has the smallest factor: tanh is flat there.")
assert np.allclose(
    outputs.data.ravel(), [0.7615941559557649, 0.5436167801938202, 0.4094026872592417, 0.3162925641545064], rtol=1e-15
)
assert np.allclose(chain.column("∂h/∂h before"), [0.719967211088454, 0.6659115517319293, 0.563584637033363], rtol=1e-15)
assert np.allclose(chain.column("product")[1:], [0.4794344827320219, 0.27020190893180474], rtol=1e-15)
assert np.isclose(tape.flow()[xs][0, 0], 0.11347786880648775, rtol=1e-14)

print("\n2. An LSTM that reads the same: forget and input bias 7, candidate weight 10, nothing reads h\n")
lstm = tg.nn.LSTMCell(1, 1, rng=0)
lstm.set_gate("f", W=0.0, U=0.0, b=7.0)
lstm.set_gate("i", W=0.0, U=0.0, b=7.0)
lstm.set_gate("g", W=10.0, U=0.0, b=0.0)
lstm.set_gate("o", U=0.0)
_, (_, c4) = tg.nn.unroll(lstm, READINGS)
tape = tg.Tape(c4)
cells, hiddens = [tape.find("c", t) for t in (1, 2, 3, 4)], [x for x in tape.find("h") if x.step]
chain = tape.flow().chain("c")
print("the cells:", *(c.item() for c in cells), "\n")
print(chain)
direct, total = tg.jacobian(c4, cells[0], holding=hiddens).item(), tg.jacobian(c4, cells[0]).item()
print(f"\nfrom c4 to c1: {direct} along the cell, {total} altogether. The other route is {total - direct}.")
assert np.allclose(
    [c.item() for c in cells],
    [0.9990889446870478, 0.9981787235106783, 0.9972693315923986, 0.9963607681767123],
    rtol=1e-15,
)
f = sigmoid(7.0)
assert f == 0.9990889488055994
assert np.allclose([f**2, f**3, f**4], [0.9981787276254777, 0.9972693357034491, 0.9963607722840174], rtol=1e-15)
assert np.isclose(direct, 0.9972693357034491, rtol=1e-15)
assert total == direct

print("\n3. Many steps: a product of numbers near 1, and how near decides\n")
path = cell_path(constant_gates(f=0.97), np.zeros((50, 1)))
kept = [path[k - 1] for k in (10, 50)]
linear = tg.nn.RNNCell(1, 1, activation="linear")
linear.set_gate("h", W=0.0, U=0.8)
start = tg.Tensor([1.0], requires_grad=True)
faded = [tg.jacobian(tg.nn.unroll(linear, np.zeros((k, 1)), start)[1], start).item() for k in (10, 50)]
print(tg.Table(("", "after 10", "after 50"), [("a gate of 0.97", *kept), ("a factor of 0.8", *faded)], precision=4))
assert np.allclose(kept, [0.7374241268949281, 0.2180653753474073], rtol=1e-12)
assert np.allclose(faded, [0.1073741824, 1.4272476927e-5], rtol=1e-9)

KNOWN = {  # b_f: what is left after 10, 50 and 100 steps, and after how many steps half is left
    0: (9.766e-4, 8.88e-16, 7.89e-31, 1.0), 1: (0.0436, 1.58e-7, 2.48e-14, 2.2), 2: (0.2810, 1.75e-3, 3.07e-6, 5.5),
    3: (0.61516, 0.0880925, 0.00776029, 14.3), 5: (0.93505, 0.71479, 0.51092, 103), 7: (0.99093, 0.95545, 0.91288, 760),
}  # fmt: skip
rows = []
for b, known in KNOWN.items():
    cell = tg.nn.LSTMCell(1, 1, forget_bias=float(b), rng=0)
    cell.set_gate("f", W=0.0, U=0.0)
    path = cell_path(cell, np.zeros((100, 1)))
    left = [path[k - 1] for k in (1, 10, 50, 100)]
    half_life = log(0.5) / log(left[0])
    rows.append((b, *left, half_life))
    assert np.allclose(left[1:], known[:3], rtol=5e-3, atol=0)
    assert abs(half_life - known[3]) < (0.5 if half_life > 100 else 0.05)
print()
print(tg.Table(("forget bias", "per step", "after 10", "after 50", "after 100", "half-life"), rows, precision=4))

print("\n4. The second route: the cell also shows itself as h, and the next gates read h\n")
cell = tg.nn.LSTMCell(1, 1)
for gate in "fiog":
    cell.set_gate(gate, W=0.5, U=0.5)
c_prev = tg.Tensor([0.8], requires_grad=True, name="c")
h_prev = 0.75 * tg.tanh(c_prev)  # the output gate before was 0.75
_, (_, c) = cell([0.3], tg.nn.LSTMState(h_prev, c_prev))
direct = tg.jacobian(c, c_prev, holding=[h_prev]).item()
total = tg.jacobian(c, c_prev).item()
blocks = tg.state_jacobian(cell, [0.3], tg.nn.LSTMState(h_prev, c_prev))
print(blocks)
second = blocks["c", "h"].item() * 0.75 * (1 - np.tanh(0.8) ** 2)
print(f"\n  {'direct, the forget gate':<56}{direct}")
print(f"  {'by way of h: dc/dh * o before * (1 - tanh^2 c before)':<56}{second:.16f}")
print(f"  {'both, the total derivative':<56}{total}")
assert np.isclose(direct, 0.8020273451, atol=1e-10)
assert np.isclose(second, 0.1531600922, atol=1e-10)
assert np.isclose(total, 0.9551874373425185, rtol=1e-14)
assert np.isclose(direct + second, total, rtol=1e-14)
assert blocks["c", "c"].item() == direct

print("\n5. The same with four units and three steps: the direct route is the product of the gates, entry by entry\n")
rng = np.random.default_rng(5)
cell = tg.nn.LSTMCell(2, 4, rng=rng)
cell.set_gate("g", U=1.5 * rng.standard_normal((4, 4)))
_, (_, c4) = tg.nn.unroll(cell, rng.standard_normal((4, 2)))
tape = tg.Tape(c4)
c1, hiddens = tape.find("c", 1), [x for x in tape.find("h") if x.step]
direct, total = tg.jacobian(c4, c1, holding=hiddens), tg.jacobian(c4, c1)
f4, f3, f2 = (tape.find("f", t).data for t in (4, 3, 2))
print("f4 f3 f2          ", f4 * f3 * f2)
print("the direct route  ", np.diagonal(direct), "and nothing off the diagonal\n")
assert (direct == np.diag(f4 * f3 * f2)).all()  # bit for bit
loss_rate = rng.standard_normal(4)
print("Along the cell, with h held:\n")
print(tape.flow(loss_rate, holding=hiddens).chain("c", precision=4))
print("\nAltogether:\n")
print(tape.flow(loss_rate).chain("c", precision=4))
print(f"\nThe largest singular value from c4 to c1 is {np.linalg.norm(direct, 2):.4f} along the cell and", end=" ")
print(f"{np.linalg.norm(total, 2):.4f} altogether:")
print("the other routes are full matrices, made of the U, and do as an RNN's do. (The product of the one-step factors")
print("is not the whole of it either: credit that stays in h for a step comes back into c one step further on.)")
assert np.linalg.norm(total, 2) > np.linalg.norm(direct, 2)

one_step, (c_prev, h_prev) = tape.find("c", 2), (tape.find("c", 1), tape.find("h", 1))
o = tape.find("o", 1).data
by_h = tg.jacobian(one_step, h_prev) * (o * (1 - np.tanh(c_prev.data) ** 2))
assert np.allclose(tg.jacobian(one_step, c_prev), np.diag(f2) + by_h, rtol=1e-12)

print("\n6. What the cell path does not promise\n")
carousel = tg.nn.LSTMCell(1, 1, forget_gate=False, rng=0)
exact = cell_path(carousel, np.ones((100, 1)))[-1]
print(
    f"  Without a forget gate (1997) the factor is exactly 1: after 100 steps {exact:g}. With one, it fades by design."
)
assert exact == 1

cell = constant_gates(f=0.99)
cell.set_gate("f", W=-bias(0.99))  # x = 1 opens the gate half
uneven = cell_path(cell, np.array([[0.0], [0.0], [1.0], [0.0]]))[-1]
print(f"  One forgetful step outweighs many: gates 0.99, 0.99, 0.5, 0.99 leave {uneven:.7f}. The one at 0.5 costs as")
print(f"  much as {log(0.5) / log(0.99):.0f} at 0.99.")
assert np.isclose(uneven, 0.4851495, rtol=1e-12)
assert round(log(0.5) / log(0.99)) == 69

print(
    "  And for matrices, eigenvalues say nothing about the first steps: both are 0.5 here, and singular values count."
)
W = np.array([[0.5, 10.0], [0.0, 0.5]])
linear = tg.nn.RNNCell(1, 2, activation="linear")
linear.set_gate("h", W=0.0, U=W.T)  # row vectors: h = h_prev U, so ∂h/∂h_prev = Uᵀ
start = tg.Tensor([1.0, 1.0], requires_grad=True, name="h")
norms = []
for k in (1, 3, 10):
    _, h = tg.nn.unroll(linear, np.zeros((k, 1)), start)
    norms.append(np.linalg.norm(tg.jacobian(h, start), 2))
print("  largest singular value after 1, 3 and 10 steps:", *(f"{norm:.4f}" for norm in norms))
assert np.allclose(norms[1:], [7.5021, 0.1953], atol=5e-5)
