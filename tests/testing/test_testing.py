"""The tools themselves: right gradients pass, wrong ones do not, and what is not the gradient's fault is said so."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq import testing
from tinygrad_seq.engine import compositions, ops
from tinygrad_seq.testing import (
    NotDifferentiableError,
    NotPureError,
    WrongGradientError,
    check_cell,
    check_grads,
    check_primitive,
    compare,
    mistakes,
    profiles,
    strategies,
)

seeds = st.integers(0, 2**32 - 1)
X = np.random.default_rng(0).uniform(0.3, 1.5, (3, 3)) * [[1, -1, 1], [-1, 1, 1], [1, 1, -1]]
softsign = tg.primitive(lambda x: x / (1 + abs(x)), lambda g, y, x: g / (1 + abs(x)) ** 2, name="softsign")


def scaled(operation, factor):
    """The operation with wrong rules."""
    rules = [rule and (lambda *a, rule=rule, **o: factor * rule(*a, **o)) for rule in operation.rules]
    return tg.primitive(operation.forward, *rules, name=operation.__name__)


# check_grads ---------------------------------------------------------------------------------------------------------


@given(strategies.programs(max_operations=10), seeds)
def test_right_programs_pass_whatever_their_graph(program, seed):
    check_grads(program, *program.inputs, rng=seed)


@settings(max_examples=max(1, settings().max_examples // 4))
@given(strategies.programs(max_operations=6, dtypes=[np.float64]), seeds)
def test_right_programs_pass_to_order_three(program, seed):
    checked = check_grads(program, *program.inputs, order=3, rng=seed)
    assert checked.method == "complex step" and checked.worst < 1e-9


@given(seeds, st.sampled_from([0.99, 1.01, -1.0, 0.5]), st.sampled_from([np.float64, np.float32]))
def test_a_wrong_rule_deep_in_a_function_does_not_pass(seed, factor, dtype):
    wrong = scaled(tg.tanh, factor)
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((2, 3)).astype(dtype), rng.standard_normal((3, 2)).astype(dtype)
    check_grads(lambda x, w: tg.softmax(tg.tanh(x @ w) @ w.T), x, w, rng=seed)
    with pytest.raises(WrongGradientError):
        check_grads(lambda x, w: tg.softmax(wrong(x @ w) @ w.T), x, w, rng=seed)


@pytest.mark.parametrize(
    ("f", "method"),
    [
        (tg.tanh, "complex step"),
        (tg.norm, "complex step"),
        (tg.abs, "central differences"),
        (softsign, "central differences"),
    ],
)
def test_the_method_is_chosen_and_reported_and_can_be_forced(f, method):
    checked = check_grads(f, X)
    assert checked.method == method and checked.entries == X.size and method in str(checked)
    assert checked.worst < (1e-13 if method == "complex step" else 1e-9)
    assert check_grads(f, X, method="central").method == "central differences"
    if method == "complex step":
        assert check_grads(f, X, method="complex").method == method


def test_the_message_shows_the_worst_entry_and_what_fits():
    wrong = tg.primitive(np.sin, lambda g, y, x: -g * tg.cos(x))
    with pytest.raises(WrongGradientError) as caught:
        check_grads(wrong, [0.5, 1.0])
    error, lines = caught.value, str(caught.value).splitlines()
    assert lines[0] == "the gradient of sin is wrong for input 0, shape (2,)"
    assert lines[1].startswith(f"  worst entry {list(error.index)}: analytic {error.analytic:.12g}, numeric ")
    assert lines[1].endswith("relative error 2")
    assert lines[2] == "  2 of 2 entries differ (complex step, tolerance 1e-10)"
    assert lines[3] == "  it looks like: the sign is reversed"
    assert error.variable == "input 0" and error.mistakes == ["the sign is reversed"]
    assert error.analytic == pytest.approx(-error.numeric)


def test_outputs_may_be_nested_and_every_one_counts():
    def f(x, wrong=tg.tanh):
        return {"a": (x * 2, [wrong(x)]), "b": tg.nn.LSTMState(x.sum(), x[0])}

    check_grads(f, X, order=2)
    with pytest.raises(WrongGradientError):
        check_grads(partial(f, wrong=scaled(tg.tanh, 1.01)), X)


def test_whole_numbers_among_the_outputs_are_passed_over():
    check_grads(lambda x: (tg.tanh(x), tg.Tensor(np.argmax(x.data))), X)
    with pytest.raises(TypeError, match="no floating-point tensor"):
        check_grads(lambda x: tg.Tensor([1, 2]), X)


def test_parameters_of_a_module_are_checked_and_left_as_they_were():
    net = tg.nn.Linear(3, 2, rng=0)
    before, values = net.W.data, X.copy()
    net.W.grad = np.full((3, 2), 7.0)
    checked = check_grads(net, X, order=2)
    assert checked.entries > net.W.size + net.b.size + X.size
    assert net.W.data is not before and np.shares_memory(net.W.data, before)
    assert (net.W.grad == 7).all() and (values == X).all()

    class Wrong(tg.nn.Linear):
        def __call__(self, x):
            return x @ self.W.detach() + self.b

    with pytest.raises(WrongGradientError, match="wrong for W, shape"):
        check_grads(Wrong(3, 2, rng=0), X)
    with pytest.raises(WrongGradientError, match="W, an input of matmul, is a constant on the tape"):
        check_grads(Wrong(3, 2, rng=0), X)


def test_parameters_that_a_function_closes_over_are_given():
    w = tg.Tensor(X, requires_grad=True, name="w")
    with pytest.raises(WrongGradientError, match="wrong for w, shape"):
        check_grads(lambda x: x * scaled(tg.square, 1.01)(w), X.T, parameters=[w])
    assert check_grads(lambda x: x * w, X.T, parameters=[w]).entries == 18


def test_an_entry_that_was_not_compared_by_itself_is_found_along_a_direction():
    def one_wrong(g, y, x):
        weights = np.ones(x.shape)
        weights[71] = 1.05
        return g * 2 * x * weights

    x = np.random.default_rng(0).uniform(0.5, 1.5, 200)
    with pytest.raises(WrongGradientError, match=r"worst entry \[71\]"):
        check_grads(tg.primitive(np.square, one_wrong), x, entries=3)
    assert check_grads(tg.square, x, entries=3).entries == 3


def test_the_global_generator_is_not_touched_and_the_same_seed_gives_the_same_check():
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert check_grads(tg.softmax, X, rng=3) == check_grads(tg.softmax, X, rng=3)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: check_grads(lambda x: None, X), TypeError, "returned None"),
        (lambda: check_grads(lambda x: x.sum().item(), X), TypeError, "returned float where Tensors are needed"),
        (lambda: check_grads(lambda x: {"y": [x, x.data]}, X), TypeError, r"ndarray at \['y'\]\[1\]"),
        (lambda: check_grads(tg.tanh, [1, 2]), TypeError, "input 0 has dtype int64.*Write 1.0 for 1"),
        (lambda: check_grads(tg.multiply, X, X > 0), TypeError, "input 1 has dtype bool"),
        (lambda: check_grads(tg.tanh, X + 0j), TypeError, "input 0 has dtype complex128"),
        (lambda: check_grads(lambda: tg.Tensor(1.0)), TypeError, "needs inputs"),
        (lambda: check_grads(tg.tanh, X, method="exact"), ValueError, "method is"),
        (lambda: check_grads(tg.tanh, X, order=0), ValueError, "order >= 1"),
        (lambda: check_grads(tg.log, -X), NotDifferentiableError, "not finite"),
        (
            lambda: check_grads(tg.sqrt, [0.0, 1.0]),
            NotDifferentiableError,
            r"sqrt is not differentiable at input 0 \[0\]",
        ),
        (lambda: check_primitive(tg.clip, X), TypeError, "not made by tg.primitive"),
        (lambda: check_primitive(tg.matmul), TypeError, "give check_primitive some that it takes"),
        (lambda: compare("w", X), ValueError, "a reference or a flow"),
    ],
)
def test_bad_input_is_explained(call, error, message):
    with pytest.raises(error, match=message):
        call()


# TE2 to TE7 of the cases that were reported elsewhere ----------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-7, 1e-3, 1.0, 1e6])
def test_a_zero_gradient_of_something_tiny_does_not_pass(scale):
    wrong = tg.primitive(lambda x: scale * x, lambda g, y, x: g * 0.0, name="tiny")
    with pytest.raises(WrongGradientError, match="zero everywhere"):
        check_grads(wrong, X)
    check_grads(lambda x: scale * x, X, order=2)


@pytest.mark.parametrize("operation", [tg.exp, tg.sin, tg.tanh, tg.softmax, tg.logsumexp], ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_right_gradients_pass_in_low_precision_and_wrong_ones_do_not(operation, dtype):
    check_grads(operation, X.astype(dtype), order=2)
    with pytest.raises(WrongGradientError):
        check_grads(scaled(operation, 1.01), X.astype(dtype))


@pytest.mark.parametrize("distance", [1e-9, 1e-6, 1e-3])
def test_a_kink_nearby_is_no_fault(distance):
    check_grads(tg.abs, [distance, -distance, 1.0])
    check_grads(tg.relu, [distance, -distance, 1.0])
    check_grads(tg.maximum, [0.5, 1.0], [0.5 + distance, 1.0 - distance])
    with pytest.raises(WrongGradientError):
        check_grads(scaled(tg.abs, 1.01), [distance])


@pytest.mark.parametrize(
    "function", [tg.sign, lambda x: tg.where(x > 0.0, x + 1.0, x), lambda x: x * tg.sign(x + 0.0) * 0.0 + tg.sign(x)]
)
def test_a_jump_is_no_wrong_gradient(function):
    at = np.array([0.0, 0.7])
    with pytest.raises(NotDifferentiableError, match=r"\[0\] = 0: it jumps there, the gradient says"):
        check_grads(function, at)
    check_grads(function, at, kinks=True)
    check_grads(function, at + 0.1)
    steep = lambda x: tg.tanh(1e4 * x) * 1e-3  # no jump, and wrong by a tenth
    wrong = tg.primitive(lambda x: np.tanh(1e4 * x), lambda g, y, x: 0.9e4 * g * (1 - y * y), name="steep")
    check_grads(steep, np.array([0.0, 1e-5]))
    with pytest.raises(WrongGradientError):
        check_grads(wrong, np.array([0.0, 1e-5]), kinks=True)


def test_at_a_kink_the_gradient_is_not_blamed():
    with pytest.raises(NotDifferentiableError, match=r"slope is .* on the left and .* on the right, the gradient says"):
        check_grads(tg.relu, [0.0, 1.0])
    check_grads(tg.relu, [0.0, 1.0], kinks=True)
    check_grads(tg.abs, [0.0, 1.0])  # 0 lies in the middle, where central differences put it


@pytest.mark.parametrize("kinks", [False, True])
def test_at_a_kink_what_is_no_slope_on_any_side_does_not_pass(kinks):
    with pytest.raises(WrongGradientError):
        check_grads(tg.primitive(tg.relu.forward, lambda g, y, x: 1.5 * g), [0.0], kinks=kinks)


def test_inputs_that_share_memory_are_copied():
    repeated = np.broadcast_to(np.array([0.7]), (2,))
    check_grads(lambda x: x * np.array([1.0, 2.0]), repeated)
    check_grads(lambda a, b: a * a * b, X, X)
    x = tg.Tensor(X, requires_grad=True)
    check_grads(lambda a, b: a * tg.tanh(b), x, x)
    assert x.grad is None


def test_a_function_that_is_not_pure_is_not_blamed_on_its_gradient():
    rng, memory = np.random.default_rng(0), [0.0]

    def remembers(x):
        memory[0] = h = tg.tanh(x + memory[0]).detach().data
        return tg.tanh(x + h)

    for f in (lambda x: x * rng.random(), remembers, lambda x: x * (len(memory), memory.append(0))[0]):
        with pytest.raises(NotPureError, match=r"not a pure function.*not to blame"):
            check_grads(f, X)
    with pytest.raises(TypeError, match="returned bool"):
        check_grads(lambda x: False, X)


def test_the_strategies_draw_numbers_that_make_no_false_alarm():
    @given(strategies.arrays(elements=strategies.numbers()), strategies.arrays((3, 2), distinct=True))
    def checked(x, y):
        sizes = np.abs(x)
        assert ((sizes >= 1e-3) & (sizes <= 4)).all() and (x == x.astype(np.float32)).all()
        gaps = np.abs(np.subtract.outer(y.ravel(), y.ravel()))
        assert gaps[~np.eye(y.size, dtype=bool)].min() >= 0.125 and np.abs(y).min() > 0.04

    checked()
    quick = settings(max_examples=500, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    for shape in ((), (0,), (2,)):
        find(strategies.arrays(), lambda x, shape=shape: x.shape == shape, settings=quick)
    find(strategies.broadcastable(2), lambda pair: 0 in pair[0] and pair[0] != pair[1], settings=quick)
    find(strategies.broadcastable(2), lambda pair: () in pair and any(map(len, pair)), settings=quick)


def test_the_profiles_have_no_deadline_and_thorough_tries_far_more():
    assert profiles.PROFILES.keys() == {"dev", "ci", "thorough", "debug"}
    assert profiles.PROFILES["thorough"]["max_examples"] >= 20 * profiles.PROFILES["dev"]["max_examples"]
    assert profiles.COMMON["deadline"] is None and profiles.COMMON["database"] is None
    assert settings().deadline is None and settings().database is None


# check_primitive -----------------------------------------------------------------------------------------------------


def test_the_right_softsign_passes_without_any_input():
    checked = check_primitive(softsign)
    assert checked.entries > 6 and "central differences" in checked.method


@pytest.mark.parametrize("broken", ["row", "column", "0-d"])
def test_a_rule_that_is_wrong_for_one_kind_of_broadcasting_does_not_pass(broken):
    def wrong(g, y, a, b):
        kind = {(3,): "row", (2, 1): "column", (): "0-d"}.get(b.shape)
        return g * a * (1.01 if kind == broken else 1)

    a, b = X[:2], X[1:]
    with pytest.raises(WrongGradientError):
        check_primitive(tg.primitive(np.multiply, lambda g, y, a, b: g * b, wrong), a, b)
    check_primitive(tg.primitive(np.multiply, lambda g, y, a, b: g * b, wrong), a, b, broadcast=False)


def test_parts_masks_and_indices_are_taken_as_they_are():
    check_primitive(ops.getitem, X, index=(1, ...))
    check_primitive(tg.where, X > 0, X, X.T)
    check_primitive(tg.embedding, X, np.array([[0, 2], [2, 2]]))
    check_primitive(ops.concat_, X, X[:1], axis=0)
    with pytest.raises(WrongGradientError):
        check_primitive(
            tg.primitive(lambda x, index: x[index], lambda g, y, x, index: tg.Part(2 * g, index), name="part"),
            X,
            index=(1, ...),
        )


def test_a_rule_of_another_shape_is_refused_by_the_engine():
    wrong = tg.primitive(np.multiply, lambda g, y, a, b: g * b, lambda g, y, a, b: (g * a).sum(0))
    with pytest.raises(ValueError, match=r"a rule of multiply returned shape \(3,\) for an input of shape \(2, 3\)"):
        check_primitive(wrong, X[:2], X[1:])


# What fits -----------------------------------------------------------------------------------------------------------


@given(strategies.arrays(strategies.shapes(min_dims=2, min_side=2), distinct=True), st.data())
def test_every_known_mistake_is_recognised_and_a_right_gradient_is_not_suspected(right, data):
    last = right.swapaxes(-1, -2)
    made = {
        "the sign is reversed": -right,
        "2 times the right gradient: counted twice": 2 * right,
        "0.5 times the right gradient": right / 2,
        "0.25 times the right gradient: averaged over 4": right / 4,
        "-3 times the right gradient: counted 3 times": -3 * right,
        "1.01 times the right gradient": 1.01 * right,
        "zero everywhere": 0 * right,
        "transposed": last,
        "not finite": np.where(right == right.max(), np.nan, right),
    }
    assert mistakes.of_numbers(right, right) == []
    name = data.draw(st.sampled_from(sorted(made)))
    if not (name == "transposed" and np.array_equal(last, right)):
        assert any(name in said for said in mistakes.of_numbers(made[name], right))
    noise = np.random.default_rng(0).uniform(0.5, 2, right.shape)
    assert mistakes.of_numbers(right * noise, right) == []


def test_a_missing_sum_shows_in_the_shape():
    whole = np.arange(12.0).reshape(3, 4)
    assert mistakes.of_numbers(whole, whole.sum(0)) == ["the sum over the broadcast axes (0,) is missing"]
    assert mistakes.of_numbers(whole, whole.sum(1, keepdims=True)) == [
        "the sum over the broadcast axes (1,) is missing"
    ]
    assert mistakes.of_numbers(whole.T, whole) == ["transposed"]
    assert mistakes.of_numbers(whole, np.ones(5)) == ["it has shape (3, 4) where the tensor has shape (5,)"]


def test_uses_that_were_left_out_are_named():
    parts = [("step 1", np.array([1.0, 2.0])), ("step 2", np.array([0.5, -1.0])), ("step 3", np.array([3.0, 0.25]))]
    total = sum(c for _, c in parts)
    wrong = dict(mistakes.of_uses(parts))
    assert (wrong["only the last of 3 uses is counted (step 3)"] == parts[2][1]).all()
    assert (wrong["only the first of 3 uses is counted (step 1)"] == parts[0][1]).all()
    assert (wrong["use 2 of 3 is missing (step 2)"] == total - parts[1][1]).all()
    assert len(wrong) == 6 and not dict(mistakes.of_uses(parts[:1]))


# compare -------------------------------------------------------------------------------------------------------------


def test_compare_tells_exact_from_near_from_wrong():
    right = np.array([[1.0, 2.0], [3.0, 4.0]])
    near = right.copy()
    near[1, 0] += 1e-12
    far = right.T
    exact, rounding, wrong = (compare("w", mine, right) for mine in (right.copy(), near, far))
    assert exact and exact.exact and str(exact) == "w: exact"
    assert rounding and not rounding.exact and str(rounding).startswith("w: equal to rounding; farthest off 3")
    assert not wrong and wrong.mistakes == ["transposed"] and wrong.worst in ((0, 1), (1, 0))
    assert "wrong; farthest off" in str(wrong) and "it looks like: transposed" in str(wrong)
    assert not compare("w", right.sum(0), right) and not compare("w", [np.nan, 1.0], [1.0, 1.0])
    assert compare("w", right.astype(np.float32) * np.float32(1 + 1e-6), right)
    assert compare("none", np.zeros((0, 2)), np.zeros((0, 2))).exact


def test_compare_asks_the_flow_which_mistake_was_made_on_its_tape():
    w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(0.0)
    for t, x in enumerate([1.0, 0.0, 0.0], start=1):
        with tg.step(t):
            h = (x + w * h).named("h")
    flow = tg.Tape(0.5 * (h - 1.0) ** 2).flow()
    assert compare("w", -0.75, flow=flow).exact and compare("w", -0.75, flow["w"], flow)
    last = compare("w", -0.375, flow=flow)
    assert not last and any("only the last of 3 uses" in said for said in last.mistakes)
    assert last.mistakes == flow.diagnose("w", -0.375)


# check_cell ----------------------------------------------------------------------------------------------------------


class Peephole(tg.nn.Module):
    """A cell of one's own in ten lines: gates that look at c (Gers and Schmidhuber 2000)."""

    def __init__(self, m, d, rng=None):
        rng = np.random.default_rng(rng)
        self.A = tg.Tensor(rng.normal(0, 0.5, (m + d, 4 * d)), requires_grad=True, name="A")
        self.p = [tg.Tensor(rng.normal(0, 0.5, d), requires_grad=True, name=f"p_{gate}") for gate in "fio"]

    def initial_state(self, batch_shape=()):
        zeros = np.zeros((*batch_shape, len(self.p[0])))
        return {"h": tg.Tensor(zeros), "c": tg.Tensor(zeros)}

    def __call__(self, x, state):
        h, c = state["h"], state["c"]
        f, i, o, g = tg.split(tg.concat([x, h], -1) @ self.A, 4, -1)
        c = tg.sigmoid(f + self.p[0] * c) * c + tg.sigmoid(i + self.p[1] * c) * tg.tanh(g)
        h = tg.sigmoid(o + self.p[2] * c) * tg.tanh(c)
        return h, {"h": h, "c": c}


class Coupled:
    """No module, joined the other way round, [h, x], two outputs as a nested state; keeps 1 - f."""

    def __init__(self, m, d):
        rng = np.random.default_rng(m + 10 * d)
        self.A = tg.Tensor(rng.normal(0, 0.5, (d + m, 2 * d)), requires_grad=True, name="A")

    def initial_state(self, batch_shape=()):
        return (tg.Tensor(np.zeros((*batch_shape, self.A.shape[1] // 2))),)

    def __call__(self, x, state):
        f, g = tg.split(tg.concat([state[0], x], -1) @ self.A, 2, -1)
        h = tg.sigmoid(f) * state[0] + (1 - tg.sigmoid(f)) * tg.tanh(g)
        return h, (h,)


CELLS = {
    "RNN": tg.nn.RNNCell,
    "RNN relu": partial(tg.nn.RNNCell, activation="relu"),
    "RNN linear, learned start": partial(tg.nn.RNNCell, activation="linear", learned_state=True),
    "LSTM": tg.nn.LSTMCell,
    "LSTM of 1997": partial(tg.nn.LSTMCell, forget_gate=False),
    "LSTM, learned start": partial(tg.nn.LSTMCell, learned_state=True, forget_bias=2.0),
    "LSTM, projection": partial(tg.nn.LSTMCell, projection=2),
    "LSTM, clips": partial(tg.nn.LSTMCell, projection=2, cell_clip=0.5, projection_clip=0.2),
    **{
        f"GRU {update}, {reset}": partial(tg.nn.GRUCell, update=update, reset=reset)
        for update in ("keep", "write")
        for reset in ("before", "after")
    },
    "GRU, learned start": partial(tg.nn.GRUCell, learned_state=True),
    "peephole": Peephole,
    "coupled": Coupled,
    "one LSTM": tg.nn.LSTMCell(2, 2, rng=0),
    "one GRU in float32": tg.nn.GRUCell(1, 2, rng=0, dtype=np.float32),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_right_cell_keeps_every_law(name):
    checked = check_cell(CELLS[name])
    assert checked.examples >= 1
    assert len(checked.kept) + len(checked.left_out) == 10 and "gradient" in checked.kept
    assert checked.left_out == ({"saving": "it is no tg.nn.Module"} if name == "coupled" else {})
    assert "keeps" in str(checked)


@settings(max_examples=max(1, settings().max_examples // 4))
@given(strategies.cells(), strategies.sequences(lengths=True), seeds)
def test_drawn_cells_run_over_drawn_sequences(cell, sequence, seed):
    xs, lengths = sequence
    xs = np.resize(xs, (*xs.shape[:2], cell.m))
    outputs, _ = tg.nn.unroll(cell, xs, lengths=lengths)
    assert outputs.shape == (*xs.shape[:2], cell.hidden) and np.isfinite(outputs.data).all()
    assert (lengths >= 1).all() and (lengths <= len(xs)).all() and lengths.shape == (xs.shape[1],)


def test_a_cell_is_left_as_it_was():
    cell = tg.nn.LSTMCell(2, 3, rng=0)
    before = cell.state_dict()
    cell.A.grad = np.ones(cell.A.shape)
    check_cell(cell, examples=3)
    assert all((value == before[name]).all() for name, value in cell.state_dict().items())
    assert (cell.A.grad == 1).all() and cell.b.grad is None


def test_a_law_can_be_skipped_and_says_so():
    class Numbered(tg.nn.RNNCell):
        def __call__(self, x, state, mask=None):
            h, _ = super().__call__(x, state, mask)
            h = h * np.linspace(0.5, 1.0, h.shape[-1])
            return h, h

    with pytest.raises(testing.BrokenLawError) as caught:
        check_cell(Numbered)
    assert caught.value.law == "units"
    checked = check_cell(Numbered, skip={"units"}, examples=3)
    assert checked.left_out == {"units": "skipped"} and "left out: units (skipped)" in str(checked)


@pytest.mark.parametrize(
    ("cell", "options", "error", "message"),
    [
        (tg.nn.RNNCell, {"skip": ["magic"]}, ValueError, "the laws are gradient, .*no magic"),
        (3, {}, TypeError, "needs a cell"),
        (lambda m, d: 3, {}, TypeError, "the factory gave int, which lacks initial_state"),
        (Coupled(2, 3), {}, TypeError, "say how wide the inputs of Coupled are"),
        (Coupled(2, 3), {"width": 5}, ValueError, "matmul"),
    ],
)
def test_what_is_no_cell_is_explained(cell, options, error, message):
    with pytest.raises(error, match=message):
        check_cell(cell, **options)


def test_an_instance_that_does_not_tell_its_width_can_be_checked():
    assert "carrying" in check_cell(Coupled(2, 3), width=2, examples=3).kept


# Layers --------------------------------------------------------------------------------------------------------------


def layer(f, *shapes, parameters=()):
    return f, shapes, list(parameters)


def with_lengths(net):
    return lambda xs: net(xs, lengths=[3, 1])


embedding = tg.nn.Embedding(4, 3, padding=0, rng=0)
STACKS = {kind.__name__: kind(2, 3, layers=2, bidirectional=True, rng=0) for kind in (tg.nn.RNN, tg.nn.LSTM, tg.nn.GRU)}
LAYERS = {
    "Linear": layer(tg.nn.Linear(3, 2, rng=0), (2, 3)),
    "LayerNorm": layer(tg.nn.LayerNorm(3), (2, 3)),
    "Embedding": layer(lambda: embedding([[1, 2], [2, 3]]), parameters=[embedding.table]),
    "Dropout in eval mode": layer(tg.nn.Dropout(0.5).eval(), (2, 3)),
    "Highway": layer(tg.nn.Highway(3, rng=0), (2, 3)),
    "ScalarMix": layer(tg.nn.ScalarMix(2), (2, 4, 1, 3)),
    "cross_entropy": layer(lambda x: tg.nn.cross_entropy(x, [1, -1, 0], ignore_index=-1), (3, 4)),
    "bce_with_logits": layer(lambda x: tg.nn.bce_with_logits(x, [[1.0, 0.0, 0.3]]), (1, 3)),
    "mse": layer(tg.nn.mse, (2, 3), (2, 3)),
    **{name: layer(with_lengths(net), (3, 2, 2), parameters=net.parameters()) for name, net in STACKS.items()},
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_has_the_right_gradient(name):
    f, shapes, parameters = LAYERS[name]
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-1.5, 1.5, shape) for shape in shapes]
    small = name not in STACKS
    checked = check_grads(f, *inputs, order=2 if small else 1, parameters=parameters or None, entries=8, rng=2)
    assert checked.worst < 1e-9


def test_dropout_in_training_mode_is_not_blamed_on_its_gradient():
    with pytest.raises(NotPureError, match="draw random numbers outside"):
        check_grads(tg.nn.Dropout(0.5, rng=0), X)


# strategies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operation",
    [ops.add, ops.where, ops.matmul, ops.tanh, compositions.dot, compositions.outer, compositions.concat,
     compositions.stack, compositions.clip],
    ids=lambda op: op.__name__,
)  # fmt: skip
def test_the_drawn_shapes_are_taken_by_the_operation(operation):
    @given(strategies.shapes_for(operation))
    def checked(shapes):
        inputs = [np.ones(shape) for shape in shapes]
        y = operation(inputs) if operation in (compositions.concat, compositions.stack) else operation(*inputs)
        assert np.asarray(y).dtype == np.float64

    checked()


def test_shapes_for_an_open_number_of_inputs_are_refused():
    with pytest.raises(TypeError, match="broadcastable"):
        strategies.shapes_for(ops.einsum_)


@given(strategies.programs(max_operations=15, kinks=True))
def test_programs_give_the_same_on_arrays_and_tensors_and_print_every_operation(program):
    xs = [tg.Tensor(a, requires_grad=True) for a in program.inputs]
    for y, a in zip(program(*xs), program(*program.inputs), strict=True):
        np.testing.assert_array_equal(y.data, a)
        assert y.dtype == program.inputs[0].dtype and np.abs(a).max(initial=0) <= 8
    loss = program.loss(*xs)
    assert loss.shape == () and loss.dtype == xs[0].dtype
    lines = str(program).splitlines()
    assert len(lines) == len(xs) + len(program.lines) and repr(program).count("\n") == len(lines) + 1
    loss.backward()
    assert any(x.grad is not None for x in xs)


def test_programs_share_nodes_and_have_0d_and_empty_values():
    quick = settings(max_examples=2000, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    drawn = strategies.programs()

    def shares(program):
        operands = [i for _, given, _ in program.lines for i in set(given)]
        return any(operands.count(i) > 1 for i in operands if i >= len(program.inputs))

    find(drawn, shares, settings=quick)
    find(drawn, lambda p: any(a.size == 0 for a in p.inputs), settings=quick)
    find(drawn, lambda p: any(a.ndim == 0 for a in p.inputs), settings=quick)
    for dtype in (np.float32, np.float64):
        find(drawn, lambda p, dtype=dtype: p.inputs[0].dtype == dtype, settings=quick)


def test_hypothesis_knows_how_to_draw_a_tensor():
    testing.register()

    @given(st.from_type(tg.Tensor))
    def checked(x):
        assert isinstance(x, tg.Tensor) and x.requires_grad and x.dtype == np.float64

    checked()


class EchoState:
    """A reservoir: its weights are fixed, and it has no parameters."""

    def __init__(self, m, d, rng=None):
        rng = np.random.default_rng(rng)
        self.W, self.U = (tg.Tensor(rng.normal(size=shape) / 2) for shape in ((m, d), (d, d)))

    def initial_state(self, batch_shape):
        return tg.Tensor(np.zeros((*batch_shape, self.U.shape[0])))

    def __call__(self, x, h):
        h = tg.tanh(x @ self.W + h @ self.U)
        return h, h


def test_a_cell_of_fixed_weights_keeps_the_law_of_units_and_no_law_of_parameters():
    checked = check_cell(EchoState, examples=10)
    assert "units" in checked.kept and checked.left_out["crossing"] == "the cell has no parameters"


WITHOUT_HYPOTHESIS = """
import sys
sys.modules["hypothesis"] = None
import tinygrad_seq as tg
from tinygrad_seq import testing
print(testing.check_grads(tg.tanh, [0.5]).method, testing.check_primitive(tg.tanh).entries > 0)
for name in ("strategies", "check_cell", "profiles"):
    try:
        getattr(testing, name)
    except ImportError as error:
        print(error)
try:
    testing.nothing
except AttributeError as error:
    print(error)
"""


def test_without_hypothesis_the_rest_works_and_the_message_names_the_extra():
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_HYPOTHESIS], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [
        "complex step True",
        "tinygrad_seq.testing.strategies needs hypothesis: pip install 'tinygrad-seq[test]'",
        "check_cell needs hypothesis: pip install 'tinygrad-seq[test]'",
        "the profiles need hypothesis: pip install 'tinygrad-seq[test]'",
        "module 'tinygrad_seq.testing' has no attribute 'nothing'",
    ]
