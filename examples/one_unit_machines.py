"""One LSTM unit, twelve weights: a latch, a memory, a counter and a toggle, written by hand.

    python examples/one_unit_machines.py

A unit has four gates, and each gate has three numbers: W for the input, U for the old state h, and the bias b.
Setting them by hand shows what a unit can do before any training, and what a plain tanh unit can never do.
"""

import sys

import numpy as np

import tinygrad_seq as tg
from tinygrad_seq.nn import LSTMCell, LSTMState, RNNCell, unroll

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark


def machine(W, U, b):
    """A unit from its twelve weights, each for f (keep), i (write), g (what is written), o (expose)."""
    cell = LSTMCell(1, 1)
    for gate, w, u, bias in zip("figo", W, U, b, strict=True):
        cell.set_gate(gate, W=w, U=u, b=bias)
    return cell


def run(cell, xs, c=0.0, h=0.0):
    """The unit reads xs: the tape of that."""
    start = LSTMState(tg.Tensor([h], name="h"), tg.Tensor([c], requires_grad=True, name="c"))
    outputs, (_, end) = unroll(cell, np.array(xs, float)[:, None], start)
    return tg.Tape(outputs.sum() + end.sum())


def show(tape, xs, columns):
    """What the unit did at each step, read off the tape by name."""
    steps = range(1, len(xs) + 1)
    rows = [(t, x, *(tape.find(name, t).item() for name in columns)) for t, x in zip(steps, xs, strict=True)]
    table = tg.Table(("step", "x", *columns.values()), rows, precision=6)
    print(table)
    return table


print("1. A latch: keep, until an input comes; then forget and write 1\n")
latch = machine(W=(-20, 20, 10, 0), U=(0, 0, 0, 0), b=(10, -10, 0, 10))
xs = [0, 1, 0, 0, 1, 1, 0, 0]
table = show(run(latch, xs), xs, {"f": "f (keep)", "i": "i (write)", "g": "g", "c": "c"})
assert np.allclose(table.column("c"), [0, 0.999955, 0.999909, 0.999864, 1, 1, 0.999955, 0.999909], atol=6e-7)

print("\n2. A memory: it starts with 1, keeps σ(7) of it at each step, and no input can get in\n")
hold = machine(W=(0, 0, 0, 0), U=(0, 0, 0, 0), b=(7, -20, 0, 10))
xs = [3, -8, 0, 1]
table = show(run(hold, xs, c=1.0), xs, {"f": "f (keep)", "i": "i (write)", "c": "c"})
assert np.allclose(table.column("c"), [0.999089, 0.998179, 0.997269, 0.996361], atol=6e-7)

print("\n3. A counter: keep everything, write everything; g is what comes in, squashed to -1, 0 or 1\n")
count = machine(W=(0, 0, 10, 0), U=(0, 0, 0, 0), b=(20, 20, 0, 20))
xs = [1, 0, 1, 1, 0, 1, 1, 0, 1, -1, -1]
table = show(run(count, xs), xs, {"g": "g", "c": "c", "h": "h = tanh(c)"})
print("The cell counts on; h, which is squashed, soon cannot tell five from six.")
assert np.allclose(table.column("c"), [1, 1, 2, 3, 3, 4, 5, 5, 6, 5, 4], atol=1e-6)

print("\n4. A toggle: an input turns it on if it is off, and off if it is on\n")
toggle = machine(W=(-20, 20, 10, 0), U=(0, -40, 0, 0), b=(10, -10, 0, 10))
xs = [0, 1, 0, 0, 1, 1, 0, 1, 0]
table = show(run(toggle, xs), xs, {"f": "f (keep)", "i": "i (write)", "g": "g", "c": "c", "h": "h"})
print("An input always empties the cell (f = 0). Whether it writes is up to the old h: i = σ(20 x - 40 h - 10).")
assert np.allclose(table.column("h"), [0, 0.7615, 0.7615, 0.7615, 0, 0.7615, 0.7615, 0, 0], atol=1e-4)

print("\n5. A tanh unit, h = tanh(v x + w h + b), cannot toggle\n")
print("Read the slope ∂h/∂h before off the tape, at both inputs and from both states:")
rows = []
for w in (3.0, -3.0):
    cell = RNNCell(1, 1)
    cell.set_gate("h", W=2.0, U=w)
    slopes = []
    for x in (0.0, 1.0):
        for before in (-0.5, 0.5):
            start = tg.Tensor([before], requires_grad=True)
            h, _ = cell([x], start)
            slopes.append(tg.jacobian(h, start).item())
    rows.append((w, *slopes))
    assert all(np.sign(slope) == np.sign(w) for slope in slopes)
print(tg.Table(("w", "x=0, h=-0.5", "x=0, h=0.5", "x=1, h=-0.5", "x=1, h=0.5"), rows, precision=4))
print("It is w (1 - h²), and has the sign of w whatever comes in. But a toggle must keep the order of its two states")
print("at x = 0 and swap them at x = 1: one rising, one falling. No choice of v, w and b does both.\n")

grid = np.linspace(-8, 8, 41)
v, w, b = (values.ravel() for values in np.meshgrid(grid, grid, grid))


def solved(xs, targets):
    """How many of the units on the grid have every h at a 1 above every h at a 0 (or below)."""
    h, states = tg.Tensor(np.zeros(v.size)), []
    for x in xs:
        h = tg.tanh(v * x + w * h + b)
        states.append(h.data)
    ones, zeros = (np.array([h for h, y in zip(states, targets, strict=True) if y == wanted]) for wanted in (1, 0))
    return int(((ones.min(0) > zeros.max(0)) | (ones.max(0) < zeros.min(0))).sum())


latches = solved([0, 1, 0, 0, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1, 1])
toggles = solved([0, 1, 0, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 1, 1, 0, 0])
print(f"Tried out on a grid of {v.size} units: {latches} latch, {toggles} toggle.")
assert latches > 0
assert toggles == 0

print("\n6. Holding a value is not passing its credit\n")
keeper = machine(W=(0, 20, 0, 0), U=(0, 40, 0, 0), b=(0, -10, 10, 10))
steps = 1000
tape = run(keeper, [0.0] * steps, c=2.0, h=np.tanh(2.0))
c1000, c999, c0 = tape.find("c", steps), tape.find("c", steps - 1), tape.find("c", 1)
rate = tg.jacobian(c1000, c999).item()
print(f"This unit holds c = {c1000.item():.6f} for {steps} steps. It forgets half of it each time (f = σ(0) = 0.5)")
print("and writes 1 anew, because h tells it that there was something. What arrives is a new value, not the old one:")
print(f"  ∂c/∂c before    = {rate:.6f}")
print(f"  over 100 steps  = {tg.jacobian(tape.find('c', 101), c0).item():.3g}")
memory = run(hold, [0.0] * 101, c=1.0)
kept = tg.jacobian(memory.find("c", 101), memory.find("c", 1)).item()
print(f"  the memory of 2 = {kept:.6f}")
print("A loss at the end would tell this unit almost nothing about what it stored, although it stored it well.")
assert abs(c1000.item() - 2) < 1e-3
assert abs(rate - 0.5) < 1e-3
assert np.isclose(kept, 0.9990889488055994**100, rtol=1e-12)
