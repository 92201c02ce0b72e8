"""An LSTM with a pencil: every gate of three small cells, by hand, in operations, and from the layer.

    python examples/lstm_by_hand.py

One step of an LSTM keeps part of its cell, writes something new into it, and shows part of the result:

    f, i, o = σ(u A_f + b_f), σ(u A_i + b_i), σ(u A_o + b_o)     g = tanh(u A_g + b_g)     u = [x, h before]
    c = f · c before + i · g                                      h = o · tanh(c)
"""

import sys

import numpy as np

import tinygrad_seq as tg
from tinygrad_seq.nn import LSTMCell, LSTMState, unroll

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark


def bias(value, squash="sigmoid"):
    """The bias that gives a gate exactly this value when nothing else comes in."""
    return np.arctanh(value) if squash == "tanh" else np.log(value / (1 - value))


def gate_table(tape, steps, unit=0):
    """What one unit does at each step, read off the tape by name."""
    names = {"f": "f (keep)", "i": "i (write)", "g": "g (candidate)", "c": "c", "o": "o (expose)", "h": "h"}
    rows = [(head, *(tape.find(name, t).data[unit].item() for t in steps)) for name, head in names.items()]
    return tg.Table(("", *(f"step {t}" for t in steps)), rows)


print("1. One step with given gates: keep 0.9 of the cell, write 0.2 of the candidate 0.5, show 0.75\n")
cell = LSTMCell(0, 1)  # no inputs: the biases alone decide
for name, value in (("f", 0.9), ("i", 0.2), ("o", 0.75)):
    cell.set_gate(name, U=0.0, b=bias(value))
cell.set_gate("g", U=0.0, b=bias(0.5, "tanh"))
before = LSTMState(h=tg.Tensor([0.0]), c=tg.Tensor([0.8]))
h, (_, c) = cell(np.zeros(0), before)
print(f"  kept      0.9 · 0.8              = {0.9 * 0.8:.2f}")
print(f"  written   0.2 · 0.5              = {0.2 * 0.5:.2f}")
print(f"  the cell                         = {c.item():.2f}")
print(f"  shown     0.75 · tanh(0.82)      = {h.item()}")
assert np.isclose(c.item(), 0.82, rtol=1e-15)
assert np.isclose(h.item(), 0.5063024061289558, rtol=1e-15)

print("\n  Keep 0.5, write 0.25 of -0.4. Whether all of it is shown or nothing, the cell is the same:")
cell.set_gate("f", b=bias(0.5))
cell.set_gate("i", b=bias(0.25))
cell.set_gate("g", b=bias(-0.4, "tanh"))
for exposed, expected in ((np.inf, 0.2913126124515909), (-np.inf, 0.0)):
    cell.set_gate("o", b=exposed)
    h, (_, c) = cell(np.zeros(0), before)
    print(f"  o = {tg.sigmoid(exposed):.0f}     c = {c.item():.1f}     h = {h.item()}")
    assert np.isclose(c.item(), 0.3, rtol=1e-15)
    assert np.isclose(h.item(), expected, rtol=1e-15)

print("\n2. Three inputs, two units, every weight 0.1, forget bias 1: two steps from zero\n")
cell = LSTMCell(3, 2, forget_bias=1.0)
for name in cell.gates:
    cell.set_gate(name, W=0.1, U=0.1)
xs = tg.Tensor([[1.0, 0.5, -0.2], [0.8, -0.4, 0.9]], requires_grad=True)
outputs, (h, c) = unroll(cell, xs)
tape = tg.Tape(outputs.sum())
print(gate_table(tape, (1, 2)))
print("\n  All gates see the same sum, since all weights are the same; only f has a bias:")
sums = [0.1 * (xs.data[0].sum()), 0.1 * (xs.data[1].sum() + outputs.data[0].sum())]
print(f"  step 1: 0.1 · (1 + 0.5 - 0.2)                    = {sums[0]:.2f}")
print(f"  step 2: 0.1 · (0.8 - 0.4 + 0.9 + h + h of step 1) = {sums[1]:.17f}")
assert np.allclose(sums, [0.13, 0.13731839761027925], rtol=1e-15)
expected = {
    "f": (0.7558388990947971, 0.7571869534295608),
    "i": (0.5324543063873187, 0.5342757567047486),
    "o": (0.5324543063873187, 0.5342757567047486),
    "g": (0.12927258360605834, 0.13646175075034062),
    "c": (0.06883174383886047, 0.12502670355998372),
    "h": (0.036591988051396074, 0.06645284051692966),
}
for name, (first, second) in expected.items():
    assert np.allclose(tape.find(name, 1).data, first, rtol=1e-14)  # both units
    assert np.allclose(tape.find(name, 2).data, second, rtol=1e-14)

print("\n  The same in plain operations, gate by gate, with the weights that `cell.gate` reads:")
W, U, b = ({name: getattr(cell.gate(name), part) for name in cell.gates} for part in "WUb")
x, h, c = tg.Tensor(xs.data, requires_grad=True), np.zeros(2), np.zeros(2)
by_hand = []
for t in (0, 1):
    f, i, o = (tg.sigmoid(x[t] @ W[name] + h @ U[name] + b[name]) for name in "fio")
    g = tg.tanh(x[t] @ W["g"] + h @ U["g"] + b["g"])
    c = f * c + i * g
    h = o * tg.tanh(c)
    by_hand.append(h)
same = np.allclose(tg.stack(by_hand).data, outputs.data, rtol=1e-15)
one, other = tg.grad(outputs.sum(), xs), tg.grad(tg.stack(by_hand).sum(), x)
print(f"  the same h: {same}; the same gradient with respect to x: {np.allclose(one, other, rtol=1e-14)}")
assert same
assert np.allclose(one, other, rtol=1e-14)

print("\n3. One unit that stores a 1: forget and input bias 7, candidate weight 10; it reads 1, 0, 0, 0\n")
cell = LSTMCell(1, 1)
cell.set_gate("f", W=0.0, U=0.0, b=7.0)
cell.set_gate("i", W=0.0, U=0.0, b=7.0)
cell.set_gate("g", W=10.0, U=0.0, b=0.0)
cell.set_gate("o", W=0.0, U=0.0, b=0.0)
outputs, _ = unroll(cell, np.array([[1.0], [0.0], [0.0], [0.0]]))
tape = tg.Tape(outputs.sum())
print(gate_table(tape, (1, 2, 3, 4)))
stored = [tape.find("c", t).item() for t in (1, 2, 3, 4)]
assert np.allclose(stored, [0.9990889446870478, 0.9981787235106783, 0.9972693315923986, 0.9963607681767123], rtol=1e-14)
f = tape.find("f", 2).item()
print(f"\n  Each step keeps σ(7) = {f} of it. Powers of that:", *(f"{f**k:.16f}" for k in (2, 3, 4)))
assert np.isclose(f, 0.9990889488055994, rtol=1e-15)
assert np.allclose([f**2, f**3, f**4], [0.9981787276254777, 0.9972693357034491, 0.9963607722840174], rtol=1e-14)

rnn = tg.nn.RNNCell(1, 1)
rnn.set_gate("h", W=1.0, U=0.8)
faded = unroll(rnn, np.array([[1.0], [0.0], [0.0], [0.0]]))[0].data.ravel()
print("\n  A plain tanh unit with recurrent weight 0.8 reads the same, and it fades:", *(f"{h:.4f}" for h in faded))
assert np.allclose(faded, [0.7615941559557649, 0.5436167801938202, 0.4094026872592417, 0.3162925641545064], rtol=1e-14)
