"""What a replay cannot follow is refused while it is recorded; what it can comes out as in the function itself."""

import copy
import pickle

import numpy as np
import pytest

import tinygrad_seq as tg

from .test_recorder import bits, eager, replayed

W = tg.Tensor([2.0, -1.0, 3.0], requires_grad=True, name="w")
X = np.array([1.0, 2.0, 3.0])
FROZEN = "was read while a replay was recorded"


def same(function, parameters, *calls):
    """Whether all these calls of a replay give what the function itself gives, bit for bit."""
    step = tg.replay(function, check=1)
    for arguments in calls:
        assert replayed(step, arguments, parameters) == eager(function, map(tg.Tensor, arguments), parameters)


READINGS = {
    "a Jacobian": lambda x: tg.jacobian(W * x, W).sum(),
    "a flow": lambda x: tg.Tape((W * x).sum()).flow()[W],
    "a state": lambda x: tg.nn.Linear(1, 1, rng=0).state_dict() and NET.state_dict(),
    "a copy": lambda x: copy.deepcopy(x),
    "a pickle": lambda x: pickle.dumps(W),
    "a print": lambda x: repr(x),
    "a text": lambda x: f"{W * x}",
    "a formatted number": lambda x: f"{(W * x).sum():.3f}",
    "a gradient that was there before": lambda x: W.grad,
    "a Jacobian of a step": lambda x: tg.state_jacobian(tg.nn.RNNCell(1, 1, rng=0), np.ones(1), np.ones(1)),
    "a sorted list": lambda x: sorted([x[0], x[1]]),
    "a membership": lambda x: x[0] in [x[1]],
}
NET = tg.nn.Linear(3, 1, rng=0)


@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_a_value_read_by_another_way_would_be_frozen_and_is_refused(read):
    def function(x):
        read(x)
        return (W * x).sum()

    with pytest.raises(RuntimeError, match=FROZEN):
        tg.replay(function)(X)


SETTINGS = {
    "new data": lambda: setattr(W, "data", [1.0, 1.0, 1.0]),
    "new weights": lambda: NET.load_state_dict({}),
    "a gradient": lambda: setattr(W, "grad", None),
    "zero_grad": lambda: NET.zero_grad(),
}


@pytest.mark.parametrize("what", SETTINGS)
def test_what_a_step_sets_would_be_set_once_and_is_refused(what):
    state = NET.state_dict()

    def function(x):
        NET.load_state_dict(state) if what == "new weights" else SETTINGS[what]()
        return (W * x).sum()

    with pytest.raises(RuntimeError, match="was set while a replay was recorded"):
        tg.replay(function)(X)


def test_constants_made_in_the_step_may_be_read():
    same(lambda x: (W * x).sum() * tg.Tensor(3.0).item(), [W], (X,), (2 * X,))


def test_a_boolean_index_would_take_another_number_of_entries_next_time_and_is_refused():
    with pytest.raises(RuntimeError, match=r"indexed by the Boolean m .*tg\.where"):
        tg.replay(lambda x, m: (W * x)[m].sum())(X, np.array([True, True, True]))
    with pytest.raises(RuntimeError, match="indexed by the Boolean"):
        tg.replay(lambda x: (W * x)[x > 1].sum())(X)
    fixed = np.array([True, False, True])
    same(lambda x: (W * x)[fixed].sum(), [W], (X,), (2 * X,))


def test_an_operation_whose_shape_depends_on_the_numbers_is_not_spread_over_the_old_shape():
    positive = tg.primitive(lambda x: x[x > 0], lambda g, y, x: tg.where(x > 0, 1.0, 0.0) * g.sum(), name="positive")
    step = tg.replay(lambda x: positive(W * x).sum())
    step(X)
    W.grad = None
    with pytest.raises(tg.StaleReplayError, match=r"shape \(1,\) now and gave \(2,\)"):
        step(-X)
    assert W.grad is None


def test_a_replay_inside_a_replay_is_refused():
    inner = tg.replay(lambda x: (W * x).sum())
    with pytest.raises(RuntimeError, match="__wrapped__"):
        tg.replay(lambda x: inner(x) + (W * x).sum())(X)
    same(lambda x: inner.__wrapped__(x) + (W * x).sum(), [W], (X,), (2 * X,))


def test_gradients_without_a_graph_are_constants_in_a_replay_too():
    w = tg.Tensor(3.0, requires_grad=True)
    for graph in (False, True):
        same(lambda x, graph=graph: (w * x) ** 3 * tg.grad((w * x) ** 3, w, create_graph=graph), [w], (np.array(2.0),))
    same(lambda x: (w * x) ** 3 * tg.hvp((w * x) ** 3, w, 1.0), [w], (np.array(2.0),), (np.array(0.5),))
    v = tg.Tensor([1.0, 2.0], requires_grad=True)
    same(lambda x: (v * x).sum() + sum(tg.grad((v * v * x).sum(), [v, w]) and tg.grad((v * v * x).sum(), [v])).sum(),
         [v], (np.array(2.0),), (np.array(3.0),))  # fmt: skip


def test_an_operation_that_returns_its_input_for_some_numbers_is_not_taken_for_a_view():
    capped = tg.primitive(
        lambda x: x if x.max() < 10 else x / x.max() * 10,
        lambda g, y, x: g * tg.where(tg.max(x) < 10, 1.0, 10 / tg.max(x)), name="capped",
    )  # fmt: skip
    function = lambda x: (capped(W * x) * capped(W * x)).sum()
    step = tg.replay(function)
    for scale in (1.0, 5.0, 1.0, 7.0):
        assert step(X * scale).item() == function(tg.Tensor(X * scale)).item()


def test_a_graph_made_outside_keeps_its_values_where_it_is_detached_and_is_refused_where_it_is_not():
    w = tg.Tensor(2.0, requires_grad=True, name="w")
    h = (w * 3.0).named("h")
    same(lambda x: w * x * h.detach(), [w], (np.array(1.0),))
    step = tg.replay(lambda x: w * x * h.detach())
    step(np.array(1.0))
    w.data = 5.0
    assert step(np.array(1.0)).item() == 30.0
    with pytest.raises(RuntimeError, match="h was computed outside of the step"):
        tg.replay(lambda x: w * x * h)(np.array(1.0))


@pytest.mark.parametrize("kind", [tg.nn.RNN, tg.nn.LSTM, tg.nn.GRU])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "layers": 2}], ids=["", "both directions"])
def test_lengths_that_change_from_call_to_call_change_no_bit(kind, options):
    rng = np.random.default_rng(0)
    net = kind(2, 3, rng=0, dtype=np.float32, **options)

    def function(xs, lengths):
        outputs, _ = net(xs, lengths=lengths)
        return outputs.square().sum(), (outputs,)

    step = tg.replay(function, wrt=net, check=1)
    for _call in range(4):
        arguments = rng.standard_normal((5, 3, 2)).astype(np.float32), rng.integers(1, 6, 3)
        assert replayed(step, arguments, net.parameters()) == eager(
            function, map(tg.Tensor, arguments), net.parameters()
        )


def test_constant_arrays_among_the_parts_of_a_whole_are_no_obstacle():
    ones = np.ones(2)
    same(lambda x: tg.concat([W * x, ones]).square().sum(), [W], (X,), (2 * X,))
    same(lambda x: tg.stack([W * x, X, x]).square().sum(), [W], (X,), (2 * X,))
    same(lambda x: tg.pad(W * x, (1, 2), constant_values=3.0).square().sum(), [W], (X,), (2 * X,))
    same(lambda x: tg.stack([X, X]).sum() + (W * x).sum(), [W], (X,), (2 * X,))


def test_numbers_that_the_type_does_not_have_are_compared_with_as_without_a_replay():
    w = tg.Tensor(1.0, requires_grad=True)
    for compare in (lambda x: x > 300, lambda x: x == -1, lambda x: x < 256, lambda x: x != -1, lambda x: x >= 200):
        same(lambda x, compare=compare: tg.where(compare(x), w, 2.0 * w).sum(), [w],
             (np.array([1, 250], np.uint8),), (np.array([200, 3], np.uint8),))  # fmt: skip


def test_a_tensor_of_an_argument_passes_it_on():
    same(lambda x: (W * tg.Tensor(x)).sum(), [W], (X,), (2 * X,))
    same(lambda x: (W.detach() * tg.Tensor(x, dtype=np.float32)).sum() + W.sum(), [W], (X / 3,), (X / 7,))

    def penalty(x):  # of the slope along the input
        point = tg.Tensor(x, requires_grad=True, name="point")
        slope = tg.grad(((W * point) ** 3).sum(), point, create_graph=True)
        return (slope * slope).sum()

    same(penalty, [W], (X,), (2 * X,))
    with pytest.raises(TypeError, match="requires a gradient"):
        tg.replay(lambda x: (tg.Tensor(W) * x).sum() + W.sum())(X)
    with pytest.raises(TypeError, match="floating-point"):
        tg.replay(lambda i: W.sum() + tg.Tensor(i, requires_grad=True).sum())(np.array([1, 2]))


def test_the_refusal_of_a_value_says_how_a_mask_of_lengths_is_computed():
    def function(xs, lengths):
        mask = np.arange(3) < np.asarray(lengths)
        return (W * xs * mask).sum()

    with pytest.raises(RuntimeError, match=r"np\.arange\(T\)\[:, None\] < lengths"):
        tg.replay(function)(X, np.array(2))
    same(lambda xs, lengths: (W * xs * (np.arange(3)[:, None] < lengths)).sum(), [W],
         (X, np.array([1, 2, 3])), (X, np.array([3, 2, 1])))  # fmt: skip


def test_buffers_of_programs_that_are_dropped_go():
    w = tg.Tensor(np.ones(100), requires_grad=True)

    def function(x):
        for _ in range(5):
            x = tg.sin(w * x)
        return x.sum()

    step = tg.replay(function, programs=2)
    for n in (1, 2):
        step(np.ones((n, 100)))
    with pytest.warns(UserWarning, match="more than 2 signatures"):
        step(np.ones((3, 100)))
    for n in range(4, 40):
        step(np.ones((n, 100)))
    assert sum(map(len, step._arenas[0])) < 2.2 * step.program.stats()["bytes"]
    constant = tg.replay(function)
    for _ in range(5):  # recorded anew each time
        w.requires_grad = not w.requires_grad
        constant(np.ones((2, 100))) if w.requires_grad else None
    assert len(constant._recordings) == 1
    assert sum(map(len, constant._arenas[0])) < 1.2 * constant.program.stats()["bytes"]


def test_a_copied_replay_is_a_replay_of_the_copied_function():
    class Trainer:
        def __init__(self):
            self.net = tg.nn.Linear(3, 1, rng=0)
            self.step = tg.replay(self.loss, wrt=self.net)

        def loss(self, x):
            return self.net(x).sum()

    trainer = Trainer()
    first = trainer.step(X).item()
    other = copy.deepcopy(trainer)
    other.net.W.data = other.net.W.data * 2
    trainer.net.zero_grad()
    other.net.zero_grad()
    assert other.step(X).item() == pytest.approx(2 * first)
    assert other.net.W.grad is not None and trainer.net.W.grad is None
    step = tg.replay(lambda x: (W * x).sum(), wrt=[W], programs=3)
    step(X)
    for twin in (copy.copy(step), copy.deepcopy(step)):
        W.grad = None
        assert twin(X).item() == step(X).item() and W.grad.tolist() == (2 * X).tolist()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(step)


def test_draws_that_no_result_needs_are_made_all_the_same():
    def losses(wrap):
        w = tg.Tensor(np.ones(5), requires_grad=True)
        drop, other = tg.nn.Dropout(0.5, rng=1), tg.nn.Dropout(0.5, rng=None)
        other.rng = drop.rng  # one generator for both

        def function(x):
            other(x)
            return (drop(w * x) * np.arange(5.0)).sum()

        step = wrap(function)
        return [bits(step(np.ones(5)).data) for _ in range(4)], repr(drop.rng.bit_generator.state)

    assert losses(tg.replay) == losses(lambda function: lambda x: function(tg.Tensor(x)))
