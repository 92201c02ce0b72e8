"""One name, four units: what z means in a GRU, and where r stands.

    python examples/gru_conventions.py

A GRU blends its old state with a candidate g. Texts and libraries agree on that much. They differ in two places:

    update="keep"      h = z · h before + (1 - z) · g          z keeps the old state (Cho et al. 2014)
    update="write"     h = (1 - z) · h before + z · g          z writes the candidate

    reset="before"     g = tanh(x W + (r · h before) U + b)            r acts before the recurrent product (Cho)
    reset="after"      g = tanh(x W + b + r · (h before U + b_u))      r acts after it (PyTorch, cuDNN)

A gate value means nothing before its equation has been read.
"""

import sys

import numpy as np

import tinygrad_seq as tg
from tinygrad_seq.nn import GRU, GRUCell, to_torch_state, unroll

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark

HEADER = {"keep": "z (keeps)", "write": "z (writes)"}


def bias(value):
    """The bias that gives a gate exactly this value when nothing else comes in."""
    return np.log(value / (1 - value))


print("1. The same gate values, and two answers: h before 0.8, z = 0.9, r = 0.25, the candidate reads r · h only\n")
rows = []
for update, expected in (("keep", 0.7397375320224905), ("write", 0.2576377882024136)):
    cell = GRUCell(0, 1, update=update)  # no inputs: the biases alone decide
    cell.set_gate("r", U=0.0, b=bias(0.25))
    cell.set_gate("z", U=0.0, b=bias(0.9))
    cell.set_gate("g", U=1.0)
    h, _ = cell(np.zeros(0), tg.Tensor([0.8]))
    g = tg.Tape(h).find("g")[0].item()
    formula = "0.9 · 0.8 + 0.1 · g" if update == "keep" else "0.1 · 0.8 + 0.9 · g"
    rows.append((update, HEADER[update], g, formula, h.item()))
    assert np.isclose(g, 0.197375320224904, rtol=1e-14)
    assert np.isclose(h.item(), expected, rtol=1e-14)
print(tg.Table(("update", "", "g = tanh(0.25 · 0.8)", "h", "is"), rows))

print("\n2. At the ends: with z = 1 and r = 0, what becomes of h before = 0.8?\n")
for update, said in (("keep", "all of it is kept"), ("write", "all of it is replaced, by a g that did not see it")):
    cell = GRUCell(0, 1, update=update)
    cell.set_gate("r", U=0.0, b=-np.inf)
    cell.set_gate("z", U=0.0, b=np.inf)
    cell.set_gate("g", U=1.0)
    h, _ = cell(np.zeros(0), tg.Tensor([0.8]))
    print(f'  update="{update}":'.ljust(20), f"h = {h.item()}, {said}")
    assert h.item() == (0.8 if update == "keep" else 0)
print("  r decides what the candidate sees. It resets nothing in h.")

print("\n3. r before or after the product: with one unit and no bias these are the same, with two they are not\n")


def two_units(**options):
    """The weights of a case that tells all conventions apart."""
    cell = GRUCell(1, 2, **options)
    cell.set_gate("r", W=[[1.0, -1.0]], U=[[0.2, -0.3], [0.1, 0.4]])
    cell.set_gate("z", W=[[0.5, 0.5]], U=[[0.1, 0.0], [0.0, 0.1]])
    cell.set_gate("g", W=[[1.0, 2.0]], U=[[0.5, 2.0], [-1.0, 0.25]])
    # The recurrent bias: r multiplies it where it can.
    cell.set_gate("g", **{"b_u" if cell.reset == "after" else "b": [0.1, -0.2]})
    return cell


expected = {
    ("keep", "after"): (0.93453847, -0.13781061),
    ("keep", "before"): (0.88964649, -0.06865136),
    ("write", "after"): (0.91594573, -0.09360521),
}
rows = []
for update in ("keep", "write"):
    for reset in ("before", "after"):
        cell = two_units(update=update, reset=reset)
        h, _ = cell([0.3], tg.Tensor([1.0, -1.0]))
        rows.append((update, reset, *h.data))
        if (update, reset) in expected:
            assert np.allclose(h.data, expected[update, reset], atol=5e-9)
print(tg.Table(("update", "reset", "h of unit 1", "h of unit 2"), rows, precision=8))
tape = tg.Tape(h)
print(f"\n  In all four, r = {tape.find('r')[0].data.round(8)} and z = {tape.find('z')[0].data.round(7)}.")
assert np.allclose(tape.find("r")[0].data, [0.59868766, 0.26894142], atol=5e-9)

print("\n4. From one update convention to the other: negate z's weights, since σ(-a) = 1 - σ(a)\n")
rng = np.random.default_rng(0)
keep, write = GRUCell(3, 4, update="keep", update_bias=1.0, rng=rng), GRUCell(3, 4, update="write", rng=rng)
write.load_state_dict(keep.state_dict())
W, U, b, _ = keep.gate("z")
write.set_gate("z", W=-W, U=-U, b=-b)
xs = rng.standard_normal((5, 3))
(kept, _), (written, _) = unroll(keep, xs), unroll(write, xs)
print(f"  {keep!r}\n  {write!r}  (with z's weights negated)")
print(f"  largest difference of their outputs over 5 steps: {abs(kept.data - written.data).max():.1e}\n")
assert np.allclose(kept.data, written.data, rtol=0, atol=1e-15)

rows = []
tapes = tg.Tape(kept), tg.Tape(written)
for t in range(1, 6):
    z = [tape.find("z", t).data[0] for tape in tapes]
    rows.append((t, *z, sum(z), kept.data[t - 1, 0]))
print(tg.Table(("step", *HEADER.values(), "sum", "h"), rows, "Unit 1, read off the two tapes", precision=6))
assert np.allclose([row[3] for row in rows], 1)

print("\nThe other difference cannot be converted: r before and r after the product are two functions. What PyTorch")
print('calls nn.GRU is update="keep", reset="after", with a bias of its own inside r:\n')
layer = GRU(3, 4, update="keep", reset="after", rng=rng)
for name, array in to_torch_state(layer).items():
    print(f"  {name:14} {array.shape}")
