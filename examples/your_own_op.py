"""Your own operation and your own cell: write them, and let the tools say whether they are right.

    python examples/your_own_op.py          (the checks of the cell need hypothesis: the `test` extra)

An operation is a forward function and one local rate per input. A cell is its equations. Both are written here twice,
right and with a mistake that people make; the tools accept the one and explain the other.
"""

import sys

import numpy as np

import tinygrad_seq as tg
from tinygrad_seq.testing import check_cell, check_grads, check_primitive, compare

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark


def refused(check, *given, **options):
    """What a check has to say against something wrong."""
    try:
        check(*given, **options)
    except (AssertionError, ValueError) as error:
        print("  " + "\n  ".join(str(error).splitlines()))
        return error
    raise SystemExit("a mistake was not found")


print("1. softsign(x) = x / (1 + |x|), whose slope is 1 / (1 + |x|)²\n")

softsign = tg.primitive(
    lambda x: x / (1 + abs(x)),
    lambda g, y, x: g / (1 + abs(x)) ** 2,
    name="softsign",
)
found = check_primitive(softsign)
print(f"  {found}")
assert found.worst < 1e-9
# abs has a kink at 0, so complex numbers cannot measure it, and differences could not at 0 itself.
assert "central differences" in found.method

print("\n2. The same with the square forgotten\n")

forgot_square = tg.primitive(
    lambda x: x / (1 + abs(x)),
    lambda g, y, x: g / (1 + abs(x)),
    name="softsign",
)
error = refused(check_primitive, forgot_square)
assert error.variable == "input 0" and error.analytic != error.numeric
print("\n  At x = 1 alone, where 1 + |x| is 2, it has the size of a common mistake:\n")
assert "2 times the right gradient" in refused(check_primitive, forgot_square, [1.0]).mistakes[0]

print("\n3. A weight for every column: x · w, where w is broadcast over the rows\n")

weigh = tg.primitive(
    lambda x, w: x * w,
    lambda g, y, x, w: g * w,
    lambda g, y, x, w: (g * x)[0],  # the rows were to be summed (or left to the engine, which sums them)
    name="weigh",
)
rows, weights = np.array([[1.0, -2.0, 0.5], [0.3, 0.8, -1.1]]), np.array([2.0, -0.5, 1.5])
error = refused(check_primitive, weigh, rows, weights)
assert "the sum over the broadcast axes (0,) is missing: only the first entry is counted" in error.mistakes

right = tg.primitive(lambda x, w: x * w, lambda g, y, x, w: g * w, lambda g, y, x, w: g * x, name="weigh")
print(f"\n  with g * x for a rule: {check_primitive(right, rows, weights)}")


print("\n4. A cell with one gate, in its equations (the minimal gated unit, Zhou et al. 2016)\n")


class MinimalCell(tg.nn.Module):
    """f = σ([x, h] A + b)     g = tanh([x, f·h] W + c)     h = (1 - f)·h + f·g"""

    def __init__(self, m, d, rng=None):
        rng = np.random.default_rng(rng)
        self.A = tg.Tensor(rng.normal(0, 0.5, (m + d, d)), requires_grad=True, name="A")
        self.b = tg.Tensor(np.zeros(d), requires_grad=True, name="b")
        self.W = tg.Tensor(rng.normal(0, 0.5, (m + d, d)), requires_grad=True, name="W")
        self.c = tg.Tensor(np.zeros(d), requires_grad=True, name="c")

    def initial_state(self, batch_shape=()):
        return tg.Tensor(np.zeros((*batch_shape, len(self.b))), name="h")

    def __call__(self, x, h):
        f = tg.sigmoid(tg.concat([x, h], -1) @ self.A + self.b).named("f")
        g = tg.tanh(tg.concat([x, f * h], -1) @ self.W + self.c).named("g")
        h = ((1 - f) * h + f * g).named("h")
        return h, h


kept = check_cell(MinimalCell, examples=5)
print(f"  {kept}")
assert len(kept.kept) == 10 and not kept.left_out

print("\n5. The same with a state that was taken out of the graph\n")


class NoCredit(MinimalCell):
    def __call__(self, x, h):
        return super().__call__(x, h.detach())  # or h.data, or np.asarray: the value crosses, the credit does not


assert any("credit is cut" in fit for fit in refused(check_cell, NoCredit).mistakes)

print("\n6. The same with a memory of its own beside the state\n")


class Adapting(MinimalCell):
    shift = 0.0

    def __call__(self, x, h):
        h, _ = super().__call__(x - self.shift, h)
        self.shift = 0.1 * h.mean().item()
        return h, h


assert "not a pure function" in str(refused(check_cell, Adapting))

print("\n7. A right cell is used like those that are built in\n")

net = tg.nn.Stack([(MinimalCell(3, 4, rng=0), MinimalCell(3, 4, rng=1)), MinimalCell(8, 4, rng=2)])
xs = np.random.default_rng(0).normal(size=(5, 2, 3))
outputs, states = net(xs, lengths=[5, 3])
print(f"  two layers, the first in both directions: outputs {outputs.shape}")
print(f"  {check_grads(lambda xs: net(xs, lengths=[5, 3]), xs, parameters=net.parameters(), entries=8)}")
assert outputs.shape == (5, 2, 4) and not outputs.data[3:, 1].any()

print("\n8. And a gradient that you derived by hand can be compared with the right one\n")

w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(0.0)
for t, x in enumerate([1.0, 0.0, 0.0], start=1):
    with tg.step(t):
        h = (x + w * h).named("h")
flow = tg.Tape((0.5 * (h - 1.0) ** 2).named("L")).flow()
for mine in (-0.75, -0.375):
    answer = compare("w", mine, flow=flow)
    print(f"  mine is {mine}. {answer}".replace("\n", "\n  "))
    assert bool(answer) == (mine == -0.75)
