"""Bugs that people make, planted one by one: which tool catches each, and what it says. The docs carry this table."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tinygrad_seq as tg
from tinygrad_seq.engine import backward
from tinygrad_seq.testing import check_cell, check_grads, check_primitive

rng = np.random.default_rng(0)
X, Y = rng.uniform(0.3, 1.5, (2, 3, 3)) * rng.choice((-1.0, 1.0), (2, 3, 3))
SYMMETRIC = X + X.T


class Bug(NamedTuple):
    tool: str
    says: str
    plant: Any  # called with pytest's monkeypatch, runs the tool on the bug


BUGS: dict[str, Bug] = {}


def bug(name, tool, says):
    def add(plant):
        BUGS[name] = Bug(tool, says, plant)
        return plant

    return add


def by_rules(name, tool, says, operation, *inputs, **options):
    """A bug in the rules of an operation."""
    run = {"check_grads": check_grads, "check_primitive": check_primitive}[tool]
    BUGS[name] = Bug(tool, says, lambda _: run(operation, *inputs, **options))


def times(g, y, a, b):
    return g * b


def softplus_slope(g, y, x):
    return g * (1 - 1 / (1 + np.exp(x))) if isinstance(x, np.ndarray) else g * (1 - 1 / (1 + tg.exp(x)))


def adds_into_g(g, y, x):
    g += x - x
    g *= 1 - y * y
    return g


def halves_y(g, y, x):
    y *= 0.5
    return g * (1 - 4 * y * y)


def doubled_in_place(x):
    x *= 2
    return x


def overwritten_rows(g, y, table, ids):
    whole = np.zeros(table.shape, table.dtype)
    whole[ids] = g
    return whole


def embedded(table):
    rows = tg.primitive(lambda table, ids: table[ids], overwritten_rows, None, name="rows")
    return rows(table, np.array([0, 2, 2]))


def spread_over_columns(g, y, x):
    return tg.broadcast_to(g, x.shape)


P = tg.primitive
by_rules("the sign", "check_grads", "the sign is reversed",
         P(np.cos, lambda g, y, x: g * tg.sin(x)), X)  # fmt: skip
by_rules("the 2 of a square forgotten", "check_grads", "0.5 times the right gradient: half is missing",
         P(np.square, lambda g, y, x: g * x), X)  # fmt: skip
by_rules("a mean's gradient not divided", "check_grads", "9 times the right gradient: counted 9 times",
         P(lambda x: x.mean(), lambda g, y, x: tg.broadcast_to(g, x.shape), name="mean"), X)  # fmt: skip
by_rules("one row instead of the sum over a broadcast axis", "check_grads",
         "the sum over the broadcast axes (0,) is missing: only the first entry is counted",
         P(np.multiply, times, lambda g, y, a, b: (g * a)[0]), X, Y[0])  # fmt: skip
by_rules("the mean over a broadcast axis instead of the sum", "check_grads",
         "averaged over 3 where contributions are summed",
         P(np.add, lambda g, y, a, b: g, lambda g, y, a, b: g.sum(0) / 3), X, Y[0])  # fmt: skip
by_rules("σ instead of σ′", "check_grads", "the output stands where its slope should",
         P(tg.sigmoid.forward, lambda g, y, x: g * y, name="sigmoid"), X)  # fmt: skip
by_rules("an activation's slope forgotten", "check_grads", "the slope is missing",
         P(np.tanh, lambda g, y, x: g), X)  # fmt: skip
by_rules("a missing transpose, with symmetric matrices at hand", "check_grads",
         "right at the data that were given and wrong a little aside",
         P(np.matmul, lambda g, y, a, b: g @ b.swapaxes(-1, -2), lambda g, y, a, b: a @ g),
         SYMMETRIC, X)  # fmt: skip
by_rules("the wrong axis on a square array", "check_grads", "transposed",
         P(lambda x: x.sum(1), spread_over_columns, name="row_sums"), X)  # fmt: skip
by_rules("a softmax without gradient (a seed of ones accepts it)", "check_grads", "zero everywhere",
         P(tg.softmax.forward, lambda g, y, x: g * 0.0, name="softmax"), X)  # fmt: skip
by_rules("repeated rows overwritten instead of added", "check_grads", "all of them at index 2 of axis 0",
         embedded, X)  # fmt: skip
by_rules("a rule that accumulates into g", "check_primitive", "writes into an array that is not its own",
         P(np.tanh, adds_into_g), X)  # fmt: skip
by_rules("a rule that changes the saved output", "check_grads", "two backward passes of tanh give two gradients",
         P(np.tanh, halves_y), X)  # fmt: skip
by_rules("an input changed in place", "check_grads", "changed input 0 in place",
         P(doubled_in_place, lambda g, y, x: 2 * g), X)  # fmt: skip
by_rules("a float64 constant in the forward function", "check_grads", "gives dtype float64",
         P(lambda x: x * np.float64(2), lambda g, y, x: 2 * g, name="double"), X.astype(np.float32))  # fmt: skip
by_rules("a float64 constant in a rule", "check_primitive", "gives dtype float64",
         P(np.square, lambda g, y, x: g * x * np.float64(2)), X)  # fmt: skip
by_rules("ties that each take the whole gradient", "check_grads",
         "are ties shared so that the shares add up to the whole?",
         P(np.max, lambda g, y, x: g * (x == y), name="max"), [2.0, 1.0, 2.0], kinks=True)  # fmt: skip
by_rules("digits lost to cancellation in float32", "check_grads", "loses its digits in float32",
         P(lambda x: np.log1p(np.exp(x)), softplus_slope, name="softplus"),
         np.array([-13.0, -12.5], np.float32))  # fmt: skip
by_rules("a rule that clips g", "check_primitive", "not linear in g",
         P(np.square, lambda g, y, x: 2 * x * tg.clip(g, -1.6, 1.6)), X)  # fmt: skip
by_rules("a second derivative that is not there", "check_grads", "the gradient of the gradient of tanh is wrong",
         P(np.tanh, lambda g, y, x: g * (1 - (y * y if isinstance(y, np.ndarray) else y.data**2))),
         X, order=2)  # fmt: skip
by_rules("other numbers on tensors than on arrays", "check_grads",
         "gives something else on tensors (create_graph=True) than on arrays",
         P(np.exp, lambda g, y, x: g * y if isinstance(y, np.ndarray) else g * x), X, order=2)  # fmt: skip
by_rules("a rule that only runs on arrays", "check_grads", "numpy.float_power has no rule for tensors",
         P(np.tanh, lambda g, y, x: g * np.float_power(np.cosh(x), -2)), X, order=2)  # fmt: skip
by_rules("data taken out of the graph", "check_grads",
         "the result is a constant: it was computed from .data, from .detach() or under no_grad",
         lambda x: tg.Tensor(np.tanh(x.data)), X)  # fmt: skip


# Through time --------------------------------------------------------------------------------------------------------


def recurrence(w):
    """Three uses of one weight."""
    h = tg.Tensor(0.3)
    for t in (1, 2, 3):
        with tg.step(t):
            h = tg.tanh(w * h + 0.5)
    return h


def wrong_sweep(keep):
    """A backward pass that does not add: what `keep` makes of an old and a new contribution stays."""

    def sweep(order, arrived, crosses=None, release=False):
        while order:
            t = order.pop()
            g = arrived.get(t)
            for i in t._needs if g is not None else ():
                if crosses is None or crosses(t, i):
                    x = t._inputs[i]
                    c = backward.fitted(t._operation.rules[i](g, t._array, *t._arrays, **t._options), x, t)
                    arrived[x] = keep(arrived.get(x), c)
        return arrived

    return sweep


@bug(
    "contributions overwritten instead of added",
    "check_grads",
    "only the first of 3 uses is counted (multiply at step 1)",
)
def overwritten(monkeypatch):
    monkeypatch.setattr(backward, "sweep", wrong_sweep(lambda old, new: new))
    check_grads(recurrence, 0.8)


@bug("only the last use counted", "check_grads", "only the last of 3 uses is counted (multiply at step 3)")
def last_use(monkeypatch):
    monkeypatch.setattr(backward, "sweep", wrong_sweep(lambda old, new: new if old is None else old))
    check_grads(recurrence, 0.8)


class OwnCell(tg.nn.Module):
    """A right cell of one's own, for the wrong ones to differ from."""

    def __init__(self, m, d, rng=None):
        rng = np.random.default_rng(rng)
        self.W = tg.Tensor(rng.standard_normal((m, d)), requires_grad=True, name="W")
        self.U = tg.Tensor(rng.standard_normal((d, d)), requires_grad=True, name="U")
        self.b = tg.Tensor(rng.standard_normal(d), requires_grad=True, name="b")

    def initial_state(self, batch_shape=()):
        return tg.Tensor(np.zeros((*batch_shape, len(self.U))))

    def __call__(self, x, h):
        h = tg.tanh(x @ self.W + h @ self.U + self.b)
        return h, h


class Forgetful(OwnCell):
    def __call__(self, x, h):
        return super().__call__(x, h.detach())


class Remembering(OwnCell):
    last = 0.0

    def __call__(self, x, h):
        h, _ = super().__call__(x, h + self.last)
        self.last = 0.1 * h.data.sum()
        return h, h


class BatchNormalised(OwnCell):
    def __call__(self, x, h):
        h, _ = super().__call__(x, h)
        h = h - h.mean(0, keepdims=True)
        return h, h


class Numbered(OwnCell):
    def __call__(self, x, h):
        h, _ = super().__call__(x, h)
        h = h * np.linspace(0.5, 1.0, h.shape[-1])
        return h, h


class Unsaved(OwnCell):
    def __init__(self, m, d, rng=None):
        super().__init__(m, d, rng)
        self.scale = 1 + np.random.default_rng(rng).uniform()

    def __call__(self, x, h):
        h, _ = super().__call__(x * self.scale, h)
        return h, h


class Branching(OwnCell):
    def __call__(self, x, h):
        h, _ = super().__call__(x if x.sum().item() < 1e9 else -x, h)
        return h, h


class Untied(OwnCell):
    """The output is not what the next step reads: the state is a copy out of the graph, restored by a shortcut."""

    def __call__(self, x, h):
        h, _ = super().__call__(x, h)
        return h, tg.Tensor(h.data) + 0.0 * h


for name, cell, says in (
    ("a cell that detaches its state", Forgetful, "credit is cut"),
    ("a state with the right value and no credit", Untied, "credit is cut"),
    ("a cell that remembers in an attribute", Remembering, "not a pure function"),
    ("rows of a batch that see each other", BatchNormalised, "the law of rows"),
    ("hidden units that are told apart", Numbered, "the law of units"),
    ("a constant that is not saved", Unsaved, "the law of saving"),
    ("a branch on a number, which a replay cannot follow", Branching, "was read while a replay was recorded"),
):
    BUGS[name] = Bug("check_cell", says, lambda _, cell=cell: check_cell(cell))


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught_and_explained(name, monkeypatch):
    with pytest.raises((AssertionError, ValueError, TypeError, RuntimeError)) as caught:
        BUGS[name].plant(monkeypatch)
    assert BUGS[name].says in str(caught.value)


def test_the_right_versions_pass():
    check_primitive(P(np.tanh, lambda g, y, x: g * (1 - y * y)), X)
    check_primitive(P(np.multiply, times, lambda g, y, a, b: g * a), X, Y[0])
    check_grads(recurrence, 0.8, order=2)
    check_cell(OwnCell)


def test_a_seed_of_ones_accepts_a_softmax_without_gradient():
    """Which is why cotangents are random: the right gradient of a softmax's sum is 0 as well."""
    x = tg.Tensor(X, requires_grad=True)
    assert np.abs(tg.grad(tg.softmax(x).sum(), x)).max() < 1e-15


def test_symmetric_data_accept_a_missing_transpose():
    wrong = P(np.matmul, lambda g, y, a, b: g @ b.swapaxes(-1, -2), lambda g, y, a, b: a @ g)
    a, x = tg.Tensor(SYMMETRIC), tg.Tensor(X, requires_grad=True)
    np.testing.assert_allclose(tg.grad(wrong(a, x), x, Y), tg.grad(a @ x, x, Y), rtol=1e-12)


def test_the_docs_say_what_catches_what():
    text = Path(__file__).parents[2].joinpath("docs", "testing.md").read_text(encoding="utf-8")
    rows = [f"| {name} | `{planted.tool}` | {planted.says} |" for name, planted in BUGS.items()]
    assert "\n".join(rows) in text
    with pytest.raises(AssertionError) as caught:
        check_grads(
            P(np.multiply, lambda g, y, x, w: g * w, lambda g, y, x, w: (g * x)[0], name="weigh"),
            np.array([[1.0, -2.0, 0.5], [0.3, 0.8, -1.1]]), np.array([2.0, -0.5, 1.5]),
        )  # fmt: skip
    assert f"```text\n{caught.value}\n```" in text
