"""One weight, used three times: where its gradient comes from.

    python examples/one_weight_three_uses.py

A state reads three numbers, 1, 0, 0, and at each reading the old state is multiplied by the same weight w:

    h = x + w * h        w = 0.5, starting from h = 0

The last state should have been 1. Its error is one number, and w was used three times: what is w's gradient?
"""

import sys

import numpy as np

import tinygrad_seq as tg

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark

READINGS = [1.0, 0.0, 0.0]


def read(w, readings=READINGS, input_weight=1.0, start=0.0):
    """The loss after the last reading: the state is computed, and every operation is recorded."""
    h = start if isinstance(start, tg.Tensor) else tg.Tensor(start, name="h")
    for t, x in enumerate(readings, start=1):
        with tg.step(t):
            h = (input_weight * x + w * h).named("h")
    return (0.5 * (h - 1.0) ** 2).named("L")


print("1. Forward: what was recorded\n")
w = tg.Tensor(0.5, requires_grad=True, name="w")
loss = read(w)
tape = tg.Tape(loss)
print(tape)
assert [h.item() for h in tape.find("h")] == [0, 1, 0.5, 0.25]
assert loss.item() == 0.28125

print("\n2. Backward: the error at the last state is 0.25 - 1 = -0.75, and each step back multiplies it by w\n")
flow = tape.flow()
table = flow.table("h", "w")
print(table)
print("\nEach use contributes its loss rate times the state that w was multiplied with. The contributions add.")
assert table.column("∂L/∂h")[:3] == (-0.1875, -0.375, -0.75)
assert table.column("contribution to ∂L/∂w") == (0, -0.375, -0.375, -0.75)

print("\nTwo wrong ways to make one number of the three, and what the tape says to them:")
for wrong in (flow["w"] / 3, flow.uses("w")[-1].contribution):
    print(f"  {wrong}")
    for mistake in flow.diagnose("w", wrong):
        print(f"      {mistake}")
assert "0.333333 times the right gradient: averaged over 3 where contributions are summed" in flow.diagnose("w", -0.25)
assert "only the last of 3 uses is counted (multiply at step 3)" in flow.diagnose("w", -0.375)

loss.backward()  # the same pass, for its result only; the tape is released on the way
assert w.grad == flow["w"] == -0.75

print("\n3. Is -0.75 right? Two ways to know that have nothing to do with the tape\n")
# With these readings the last state is w², so L(w) = ½ (w² - 1)².
polynomial = 2 * 0.5 * (0.5**2 - 1)
small = 1e-6
difference = (read(0.5 + small).item() - read(0.5 - small).item()) / (2 * small)
print(f"  the polynomial's rate 2w(w^2 - 1)      {polynomial}")
print(f"  (L(w + 1e-6) - L(w - 1e-6)) / 2e-6     {difference:.9f}")
assert polynomial == -0.75
assert abs(difference + 0.75) < 1e-9

curvature = tg.hvp(read(w), w, 1.0)
print(f"  and its curvature 6w^2 - 2             {6 * 0.5**2 - 2}, from the tape {curvature}")
assert curvature == -0.5

print("\n4. The same reading backward has the gradient of everything else\n")
xs = [tg.Tensor(x, requires_grad=True, name="x") for x in READINGS]
v, h0 = tg.Tensor(1.0, requires_grad=True, name="v"), tg.Tensor(0.0, requires_grad=True, name="h0")
flow = tg.Tape(read(w, xs, v, h0)).flow()
print("  the readings          ", *(flow[x] for x in xs))
print("  their weight          ", flow["v"])
print("  the state at the start", flow["h0"])
assert [flow[x].item() for x in xs] == [-0.1875, -0.375, -0.75]
assert (flow["v"], flow["h0"]) == (-0.1875, -0.09375)

print("\n5. One step down: w is one number, so it is updated once\n")
rate = 0.1
w.data = w.data - rate * w.grad
new = read(w)
h3 = tg.Tape(new).find("h", 3)
print(f"  w = 0.5 - {rate} * (-0.75) = {w.item()}")
print(f"  the last state is now {h3.item():.6f}, and the loss fell from {loss.item()} to {new.item():.13f}")
assert w.item() == 0.575
assert np.isclose(h3.item(), 0.330625, rtol=1e-14)
assert np.isclose(new.item(), 0.2240314453125, rtol=1e-14)
