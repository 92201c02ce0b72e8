"""Truncated backpropagation through time: the value crosses, the credit does not.

    python examples/value_crosses_credit_does_not.py

A long sequence is read in chunks. The state at the end of one chunk is carried into the next, but the next chunk's
error is not traced back beyond its own beginning. Here is what that does to the one number of
one_weight_three_uses.py: h = x + w * h at x = 1, 0, 0 with w = 0.5, whose gradient is -0.75.
"""

import numpy as np

import tinygrad_seq as tg


def read(w, carry=lambda h: h):
    """The loss, with `carry` between the second reading and the third."""
    h = tg.Tensor(0.0, name="h")
    for t, x in enumerate([1.0, 0.0, 0.0], start=1):
        if t == 3:
            h = carry(h)
        with tg.step(t):
            h = (x + w * h).named("h")
    return (0.5 * (h - 1.0) ** 2).named("L")


w = tg.Tensor(0.5, requires_grad=True, name="w")
tape = tg.Tape(read(w))
full = tape.flow()

print("1. Three ways to truncate between steps 2 and 3\n")
cut = tape.flow(cut=[(2, 3)])
detached = tg.Tape(read(w, lambda h: h.detach()))
fresh = tg.Tape(read(w, lambda h: tg.Tensor(h.data)))
ways = tg.Table(
    ("way", "last state", "gradient of w", "reaches back to step"),
    [
        ("no truncation", tape.find("h", 3).item(), full["w"], full.reach("w")),
        (
            "h.detach() in the forward pass",
            detached.find("h", 3).item(),
            detached.flow()["w"],
            detached.flow().reach("w"),
        ),
        ("a new tensor with the values of h", fresh.find("h", 3).item(), fresh.flow()["w"], fresh.flow().reach("w")),
        ("tape.flow(cut=[(2, 3)]), afterwards", tape.find("h", 3).item(), cut["w"], cut.reach("w")),
    ],
)
print(ways)
print("\nThe last state is 0.25 in every row: the value crossed. The credit did not. The last way needs no second")
print("forward pass: the whole graph is there, and it is only asked another question.")
assert ways.column("last state") == (0.25,) * 4
assert ways.column("gradient of w") == (-0.75, -0.375, -0.375, -0.375)
assert ways.column("reaches back to step") == (1, 3, 3, 3)

print("\n2. Where the other half went\n")
print(cut.table("h", "w"))
((h2, credit),) = full.crossing(2, 3).items()
lost = tg.Tape(h2).flow(seed=credit)["w"]
print(f"\nThe cut stopped a credit of {credit} on its way into {h2.label()}. Sent on from there, it would have given")
print(f"{lost} to w:   {full['w']} (full) = {cut['w']} (cut) + {lost} (crossed)")
assert (credit, lost) == (-0.375, -0.375)
assert full["w"] == cut["w"] + lost

print("\n3. The number alone does not say what happened\n")
print(f"Somebody's program gives {cut['w']} for the gradient of w. On this tape, so do:")
for mistake in full.diagnose("w", cut["w"]):
    print(f"  {mistake}")
print("\nHere a truncation and a sum that was overwritten give the same number. To tell them apart, look at the uses.")
print("And if the omitted use at step 2 is put back:", -0.375 + -0.375, "and w becomes", 0.5 - 0.1 * (-0.375 + -0.375))
assert len(full.diagnose("w", -0.375)) == 6
assert full.uses("w")[1].contribution == -0.375
assert 0.5 - 0.1 * full["w"] == 0.575

print("\n4. How much a chunk of k steps sees: h <- w h from 0.9 with w = 0.2, loss h at step 3\n")
v, h = tg.Tensor(0.2, requires_grad=True, name="w"), tg.Tensor(0.9, name="h")
for t in (1, 2, 3):
    with tg.step(t):
        h = (v * h).named("h")
chunks = tg.Tape(h)
rows = [(k, chunks.flow(cut=[(3 - k, 4 - k)] if k < 3 else [])["w"]) for k in (1, 2, 3)]
print(tg.Table(("k", "gradient of w"), rows, precision=6))
assert np.allclose([g for _, g in rows], [0.036, 0.072, 0.108], rtol=1e-14)

print("\n5. With a loss at every step, truncation takes away a corner\n")
w = tg.Tensor(0.5, requires_grad=True, name="w")
h, losses = tg.Tensor(0.0, name="h"), []
for t, x in enumerate([1.0, 0.0, 0.0, 0.0], start=1):
    with tg.step(t):
        h = (x + w * h).named("h")
        losses.append((0.5 * (h - 1.0) ** 2).named("loss"))
tape = tg.Tape(losses[0] + losses[1] + losses[2] + losses[3])
full, cut = tape.flow(), tape.flow(cut=[(2, 3)])
everything, kept = full.credit("loss", "w"), cut.credit("loss", "w")
print(everything)
print(f"\nsum {everything.sum()}, the gradient {full['w']}\n")
print("With credit cut between steps 2 and 3:\n")
print(kept)
print(f"\nsum {kept.sum()}, the gradient {cut['w']}")
assert everything.sum() == full["w"]
assert kept.sum() == cut["w"]
assert not kept[2:, :2].any()
assert (kept[:2] == everything[:2]).all() and (kept[2:, 2:] == everything[2:, 2:]).all()

print("\n6. The same in a layer: an LSTM over 12 steps, loss at the last, cut at one boundary after the other\n")
rng = np.random.default_rng(3)
cell = tg.nn.LSTMCell(3, 8, rng=rng)
outputs, _ = tg.nn.unroll(cell, rng.standard_normal((12, 3)))
tape = tg.Tape((outputs[-1] * rng.standard_normal(8)).sum().named("L"))
full = tape.flow()
norm = np.linalg.norm(full[cell.A])
rows = []
for t in (11, 9, 6, 3, 1):
    flow = tape.flow(cut=[(t, t + 1)])
    off = np.linalg.norm(flow[cell.A] - full[cell.A]) / norm
    rows.append((f"{t} | {t + 1}", flow.reach(cell.A), 12 - t, off))
    assert flow.reach(cell.A) == t + 1
print(tg.Table(("cut", "reaches back to", "steps seen", "gradient off by"), rows, precision=3))
assert [row[3] for row in rows] == sorted((row[3] for row in rows), reverse=True)
