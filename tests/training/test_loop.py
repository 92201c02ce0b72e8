"""The training loop: it does what one writes by hand, can be stopped and resumed at any update, and says what broke."""

import functools
import io
import os
import signal
import threading

import numpy as np
import pytest

import tinygrad_seq as tg


class Model(tg.nn.Module):
    def __init__(self, seed=0, dropout=0.3):
        rng = np.random.default_rng(seed)
        self.recurrent = tg.nn.GRU(2, 4, layers=2, dropout=dropout, rng=rng)
        self.readout = tg.nn.Linear(4, 1, rng=rng)

    def step(self, xs, targets, state):
        outputs, state = self.recurrent(xs, state)
        return tg.nn.mse(self.readout(outputs[-1]), targets), state


def batches(seed=5):
    """A stream drawn from one generator, without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield tg.data.adding_problem(rng, 6, 3)


def batch_number(update):
    """The same kind of batches, as a function of the number of updates made before."""
    return tg.data.adding_problem(100 + update, 6, 3)


def trained(updates, model=None, stream=batches, **options):
    model = model or Model()
    optimiser = tg.optim.Adam(model.parameters(), lr=tg.optim.cosine(0.05, 8))
    source = stream if stream is batch_number else stream()
    run = tg.fit(
        model.step, source, optimiser, state=model.recurrent.initial_state((3,)), model=model, updates=updates,
        clip=0.5, **options,
    )  # fmt: skip
    return run, {**model.state_dict(), **optimiser.state_dict()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].tobytes() == b[name].tobytes(), name


def test_fit_does_what_one_writes_by_hand_bit_for_bit():
    run, fitted = trained(4)
    model = Model()
    optimiser = tg.optim.Adam(model.parameters(), lr=tg.optim.cosine(0.05, 8))
    stream, state, losses = batches(), model.recurrent.initial_state((3,)), []
    for _ in range(4):
        loss, state = model.step(*next(stream), state)
        loss.backward()
        state = tg.detach(state)
        tg.optim.clip_grad_norm(model.parameters(), 0.5)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert run.losses == losses and run.updates == 4 and not run.interrupted
    assert run.state[1][0].data.tobytes() == state[1][0].data.tobytes() and not run.state[1][0].requires_grad
    assert_same(fitted, {**model.state_dict(), **optimiser.state_dict()})


@pytest.mark.parametrize("stream", [batches, batch_number])
@pytest.mark.parametrize("stopped", range(7))
def test_a_run_resumed_after_any_update_goes_on_bitwise(stopped, stream, tmp_path):
    path = tmp_path / "run.npz"
    whole, expected = trained(6, stream=stream)
    first, _ = trained(stopped, stream=stream, checkpoint=path, every=2)
    second, resumed = trained(6, Model(seed=9), stream, checkpoint=path, resume=True, every=4)
    if stopped == 0:
        assert first.losses == []
        assert second.losses != whole.losses  # nothing was saved, so there is nothing to resume: another start
    else:
        assert first.losses + second.losses == whole.losses
        assert_same(resumed, expected)


def test_training_by_replay_differs_in_no_bit_dropout_and_resumption_included(tmp_path):
    run, expected = trained(6)
    replayed, mine = trained(6, replay=True)
    assert replayed.losses == run.losses
    assert_same(mine, expected)
    path = tmp_path / "run.npz"
    trained(3, checkpoint=path, replay=True)
    assert_same(trained(6, checkpoint=path, resume=True, replay=True)[1], expected)


def test_by_replay_parameters_get_the_gradients_that_they_get_without():
    def run(replay):
        w, unused, frozen, other = (tg.Tensor(2.0, requires_grad=True, name=name) for name in "wufo")
        optimiser = tg.optim.AdamW([w, unused, frozen], lr=0.1, weight_decay=0.5)
        frozen.requires_grad = False
        run = tg.fit(lambda x: w * frozen * other * x + unused.detach(), [1.0, 2.0], optimiser, replay=replay)
        return run.losses, w.item(), unused.item(), frozen.item(), unused.grad, frozen.grad, other.grad.item()

    assert run(True) == run(False)
    assert run(True)[2:6] == (2.0, 2.0, None, None)  # what gets no gradient does not decay


@pytest.mark.filterwarnings("ignore:(divide|invalid).*:RuntimeWarning")
@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("function", [tg.log, tg.sqrt])  # of -1 no number; of 0 a number without a slope
def test_gradients_that_an_error_left_are_not_counted_in_the_next_run(function, replay):
    w = tg.Tensor(1.0, requires_grad=True)
    optimiser = tg.optim.SGD([w], lr=0.5)
    with pytest.raises(FloatingPointError, match="update 1"):
        tg.fit(lambda x: function(w * x), [-1.0 if function is tg.log else 0.0], optimiser, replay=replay)
    tg.fit(lambda x: w * x, [1.0], optimiser, replay=replay)
    assert w.item() == 0.5


@pytest.mark.filterwarnings("ignore:invalid.*:RuntimeWarning")
def test_a_step_that_wraps_another_function_is_made_once_more_itself():
    w = tg.Tensor(1.0, requires_grad=True)

    def scaled(x, scale):
        return tg.log(w * x * scale)

    @functools.wraps(scaled)
    def step(x):
        return scaled(x, -1.0)

    with pytest.raises(FloatingPointError, match="the first value that is not finite is the result of log"):
        tg.fit(step, [1.0], tg.optim.SGD([w], lr=0.5))


def test_a_step_under_replay_is_taken_as_it_is():
    def run(wrap, **options):
        model = Model(dropout=0.0)
        optimiser = tg.optim.Adam(model.parameters(), lr=0.01)
        step, start = wrap(model), model.recurrent.initial_state((3,))
        return step, tg.fit(step, batches(), optimiser, state=start, updates=5, clip=0.5, **options).losses

    _, expected = run(lambda model: model.step)
    for options in ({}, {"replay": True}):
        step, losses = run(lambda model: tg.replay(model.step, wrt=model.parameters()), **options)
        assert losses == expected
        assert step.program.stats()["operations"] > 0


def test_a_step_that_cannot_be_replayed_is_refused_before_anything_is_updated():
    w = tg.Tensor(1.0, requires_grad=True, name="w")
    with pytest.raises(RuntimeError, match="w"):
        tg.fit(lambda x: w * x if w > 0 else -w * x, [np.ones(())], tg.optim.SGD([w], 1.0), replay=True)
    assert w.item() == 1.0 and w.grad is None


def test_it_ends_with_the_batches_or_with_the_updates():
    w = tg.Tensor(1.0, requires_grad=True)
    five = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert tg.fit(lambda x: w * x, five, tg.optim.SGD([w], 0.0)).losses == five
    assert tg.fit(lambda x: w * x, five, tg.optim.SGD([w], 0.0), updates=2).losses == five[:2]
    assert tg.fit(lambda x: w * x, five, tg.optim.SGD([w], 0.0), updates=0).losses == []


def test_evaluation_records_nothing_and_comes_at_every_so_many_updates_and_at_the_end():
    w = tg.Tensor(1.0, requires_grad=True)
    run = tg.fit(
        lambda x: w * x, [1.0] * 5, tg.optim.SGD([w], 0.5), evaluate=lambda: ((w * 2).requires_grad, w.item()), every=2
    )
    assert run.evaluations == [(2, (False, 0.0)), (4, (False, -1.0)), (5, (False, -1.5))]


def test_it_ends_when_the_evaluation_is_good_enough():
    w = tg.Tensor(1.0, requires_grad=True)
    run = tg.fit(
        lambda x: w * x, lambda update: 1.0, tg.optim.SGD([w], 0.5),
        evaluate=w.item, until=lambda value: value < 0, every=2,
    )  # fmt: skip
    assert run.evaluations == [(2, 0.0), (4, -1.0)] and run.updates == 4 and not run.interrupted


# --- stopping


def test_ctrl_c_finishes_the_update_saves_and_can_be_resumed_bitwise(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    path, expected = tmp_path / "run.npz", trained(6)[1]
    model = Model()
    step, calls = model.step, []

    def interrupted_step(*batch):
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return step(*batch)

    model.step = interrupted_step
    run, _ = trained(6, model, checkpoint=path)
    assert run.interrupted and run.updates == 3 and len(calls) == 3
    assert signal.getsignal(signal.SIGINT) is before
    _, resumed = trained(6, Model(seed=4), checkpoint=path, resume=True)
    assert_same(resumed, expected)


def test_a_second_ctrl_c_breaks_in():
    before = signal.getsignal(signal.SIGINT)
    with tg.interruptible() as stopped:
        assert not stopped()
        os.kill(os.getpid(), signal.SIGINT)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_fit_runs_in_a_thread_too():
    w = tg.Tensor(1.0, requires_grad=True)
    runs = []
    thread = threading.Thread(
        target=lambda: runs.append(tg.fit(lambda x: w * x, [1.0], tg.optim.SGD([w], 0.5)).updates)
    )
    thread.start(), thread.join()
    assert runs == [1] and w.item() == 0.5


# --- progress


def test_it_is_quiet_where_nobody_looks_and_tells_where_one_asks(capsys):
    trained(3)
    assert capsys.readouterr() == ("", "")
    trained(3, show=True, every=2, evaluate=lambda: 0.25)
    out, err = capsys.readouterr()
    assert out == ""
    first, last = err.splitlines()
    assert first.startswith("update 2 of 3   loss ") and last.startswith("update 3 of 3   loss ")
    assert "evaluation 0.25" in first and "updates per second" in first and last.endswith("0 s left")


# --- what broke


def unrolled(w, xs, f):
    h = tg.Tensor(0.0)
    for t, x in enumerate(xs, start=1):
        with tg.step(t):
            h = f(w * h, x).named("h")
    return h


@pytest.mark.parametrize(
    ("f", "xs", "message"),
    [
        (lambda a, x: (a + x).exp(), [1.0, 800.0, -1e9, 0.0],
         r"update 2: the loss is inf; the first value that is not finite is h at step 2"),
        (lambda a, x: tg.sqrt(a * x), [1.0, 1.0, 1.0, 1.0],
         r"update 2: the gradient of parameter w is not finite; nothing was clipped; on the way back the "
         r"gradient is first not finite at .* at step 4"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:(divide|invalid|overflow).*:RuntimeWarning")
def test_what_is_not_finite_is_named_with_its_step_and_nothing_is_updated(f, xs, message):
    v, w = tg.Tensor(1.0, requires_grad=True, name="v"), tg.Tensor(1.0, requires_grad=True, name="w")
    optimiser = tg.optim.Adam([v, w], lr=0.125)

    def step(good, bad):
        return v * w * good if good.size else unrolled(w, bad, f)

    good, bad = (np.array(2.0), np.zeros(0)), (np.zeros(0), np.array(xs))
    with pytest.raises(FloatingPointError, match=message):
        tg.fit(step, [good, bad, good], optimiser)
    assert optimiser.updates == 1 and v.item() == w.item() == pytest.approx(0.875)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"every": 0}, ValueError, "fit needs every as a whole number >= 1, got 0"),
        ({"accumulate": 1.5}, ValueError, "fit needs accumulate as a whole number >= 1, got 1.5"),
        ({"patience": 1}, ValueError, "for patience a validate"),
        ({"patience": 0, "validate": float}, ValueError, "fit needs patience as a whole number >= 1, got 0"),
        ({"rows": lambda x: -1}, ValueError, r"rows\(\*batch\) says how much a batch counts, .* got -1.0"),
        ({"state": lambda n: None}, ValueError, r"state\(0\) the state that the first batch begins with, got None"),
        ({"optimiser": []}, TypeError, "an optimiser, or a list of optimisers, got a list of none"),
        ({"optimiser": [tg.Tensor(1.0)]}, TypeError, "got a list of Tensor"),
        ({"resume": True}, ValueError, "a checkpoint to resume from"),
        ({"until": bool}, ValueError, "for until an evaluate"),
        ({"step": lambda x: tg.Tensor(x)}, ValueError, "is a constant: nothing that it was computed from requires"),
        ({"step": lambda x: tg.Tensor(np.nan)}, FloatingPointError, "update 1: the loss is nan"),
        ({"step": lambda x: None}, TypeError, r"without state= returns its loss, or \(loss, figures\).*got NoneType"),
        ({"step": lambda x: (tg.Tensor(1.0), 2.0)}, TypeError, r"figures a dict of numbers.*got Tensor, float"),
        ({"step": lambda x: (tg.Tensor(1.0), {"loss": 1})}, TypeError, r"none called loss; got Tensor, dict"),
        (
            {"step": lambda x, s: tg.Tensor(x), "state": 1.0},
            TypeError,
            r"with state= returns \(loss, state\), or .*figures",
        ),
        (
            {"step": lambda x: (tg.Tensor(1.0, requires_grad=True), {"a": [1, 2]})},
            TypeError,
            "figures are single numbers",
        ),
        ({"clip": -1.0}, ValueError, "max_norm >= 0"),
    ],
)
def test_bad_input_is_refused(options, error, message):
    w = tg.Tensor(1.0, requires_grad=True)
    with pytest.raises(error, match=message):
        tg.fit(**{"step": lambda x: w * x, "batches": [1.0], "optimiser": tg.optim.SGD([w], 0.1)} | options)
    assert w.item() == 1.0


def test_a_loss_that_reaches_no_parameter_is_refused():
    w, v = (tg.Tensor(1.0, requires_grad=True, name=name) for name in "wv")
    for step in (lambda x: w * x, tg.replay(lambda x: w * x)):
        with pytest.raises(ValueError, match=r"the loss reaches no parameter of the optimiser, .* it has v"):
            tg.fit(step, [1.0], tg.optim.SGD([v], 0.1))
    w.requires_grad = False
    with pytest.raises(ValueError, match="reaches no parameter"):
        tg.fit(lambda x: w * v.detach() * x + tg.Tensor(1.0, requires_grad=True), [1.0], tg.optim.SGD([v], 0.1))


@pytest.mark.parametrize("nothing", [None, ()])
def test_a_batch_that_is_nothing_is_a_batch(nothing):
    w = tg.Tensor(1.0, requires_grad=True)
    run = tg.fit(lambda *batch: w * (2.0 if batch == (None,) else 3.0), [nothing] * 3, tg.optim.SGD([w], 0.0))
    assert run.losses == [2.0 if nothing is None else 3.0] * 3
    with pytest.raises(TypeError):
        tg.fit(lambda x: w * x, [1.0, None], tg.optim.SGD([w], 0.0))


SENTENCES = [["the", "cat"], ["a", "dog", "ran"]]


def stateful_bilm(seed):
    vocabulary = tg.nn.Vocabulary.of(SENTENCES)
    encoder = tg.nn.WordEncoder(vocabulary, 4, rng=seed)
    return tg.nn.BiLM(encoder, vocabulary, hidden=4, layers=2, dropout=0.2, stateful=True, rng=seed)


@pytest.mark.parametrize("given", [False, True])
def test_a_stateful_model_that_is_resumed_goes_on_bitwise(given, tmp_path):
    def run(bilm, updates, **options):
        optimiser = tg.optim.Adam(bilm, lr=0.05)
        options |= {"model": bilm} if given else {}
        losses = tg.fit(bilm.loss, [(SENTENCES,)] * 4, optimiser, updates=updates, **options).losses
        return losses, bilm.state_dict(), optimiser.state_dict()

    losses, weights, memory = run(stateful_bilm(0), 4)
    first, *_ = run(stateful_bilm(0), 2, checkpoint=tmp_path / "run.npz")
    second, *resumed = run(stateful_bilm(9), 4, checkpoint=tmp_path / "run.npz", resume=True)
    assert first + second == losses
    assert_same(resumed[0] | resumed[1], weights | memory)


def test_weights_that_are_kept_by_name_are_resumed_in_any_order(tmp_path):
    a, b = (tg.Tensor(1.0, requires_grad=True, name=name) for name in "ab")
    path, step = tmp_path / "run.npz", lambda x: 10.0 * a * x + b * x
    tg.fit(step, [1.0], tg.optim.SGD([a, b], 1.0, momentum=0.9), checkpoint=path)
    a.data = b.data = 7.0
    tg.fit(step, [1.0] * 2, tg.optim.SGD([b, a], 1.0, momentum=0.9), checkpoint=path, resume=True)
    np.testing.assert_allclose([a.item(), b.item()], [-28.0, -1.9], rtol=1e-15)


def test_a_run_of_version_0_1_is_resumed(tmp_path):
    """Its file kept the weights and Adam's memory by place."""
    path, w = tmp_path / "run.npz", tg.Tensor([5.0], requires_grad=True, name="w")
    old = {"updates": 1, "0.t": 1, "0.m": np.array([0.1]), "0.v": np.array([0.001])}
    tg.save(path, model=[np.array([2.0])], optimiser=old, update=1)
    optimiser = tg.optim.Adam([w], lr=0.5)
    run = tg.fit(lambda x: (w * x).sum(), [1.0, 1.0], optimiser, checkpoint=path, resume=True)
    assert run.updates == 2 and optimiser.memory["w"]["t"] == 2 and w.item() == pytest.approx(1.5)


# --- figures, accumulation, validation


class Reader(tg.nn.Module):
    """A classifier with dropout that reads sequences, and tells how many it gets right."""

    def __init__(self, seed=0, m=2):
        rng = np.random.default_rng(seed)
        self.recurrent = tg.nn.GRU(m, 4, rng=rng)
        self.drop = tg.nn.Dropout(0.25, rng=rng)
        self.readout = tg.nn.Linear(4, 1, rng=rng)

    def step(self, xs, targets, state):
        outputs, state = self.recurrent(xs, state)
        found = self.readout(self.drop(outputs[-1]))
        near = (found.detach() - targets).abs().mean()
        return tg.nn.mse(found, targets), state, {"distance": near, "spread": (found * found).mean()}

    def error(self):
        """On held-out sequences, without dropout."""
        self.eval()
        xs, targets = tg.data.adding_problem(77, 6, 20)
        found = tg.nn.mse(self.readout(self.drop(self.recurrent(xs)[0][-1])), targets).item()
        self.train()
        return {"error": found, "root": found**0.5}


def reader_run(updates, seed=0, path=None, stop_at=None, **options):
    """A run with everything that there is; `stop_at` ends it by Ctrl-C after that update."""
    reader = Reader(seed)
    optimiser = tg.optim.Adam([{"parameters": reader.recurrent}, {"parameters": reader.readout, "lr": 0.1}], lr=0.05)
    start = reader.recurrent.initial_state((3,))

    def on_update(update, figures):
        assert set(figures) == {"loss", "distance", "spread"} and reader.readout.W.grad is not None
        if update == stop_at:
            os.kill(os.getpid(), signal.SIGINT)

    run = tg.fit(
        reader.step, batches(), optimiser, updates=updates, clip=0.5, accumulate=2, rows=lambda xs, targets: len(xs),
        validate=reader.error, on_update=on_update, every=2, checkpoint=path, resume=path is not None,
        state=lambda n: start if n % 5 == 0 else None, **options,
    )  # fmt: skip
    return run, {**reader.state_dict(), **optimiser.state_dict()}


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("stopped", range(1, 9))
def test_a_run_with_everything_that_is_stopped_anywhere_goes_on_bitwise(replay, stopped, tmp_path):
    whole, expected = reader_run(9, patience=3, replay=replay)
    path = tmp_path / "run.npz"
    first, _ = reader_run(9, path=path, stop_at=stopped, patience=3, replay=replay)
    second, resumed = reader_run(9, 99, path, patience=3, replay=replay)
    assert first.interrupted or first.updates == whole.updates
    assert first.losses + second.losses == whole.losses and first.figures + second.figures == whole.figures
    assert (second.rows, second.best, second.updates) == (whole.rows, whole.best, whole.updates)
    assert_same(resumed, expected)


def test_replayed_figures_and_accumulation_are_the_same_to_the_bit():
    (eager, one), (replayed, other) = reader_run(6), reader_run(6, replay=True)
    assert (eager.rows, eager.figures, eager.losses) == (replayed.rows, replayed.figures, replayed.losses)
    assert_same(one, other)


def test_rows_are_means_over_what_was_trained_on_and_can_be_written(tmp_path):
    w = tg.Tensor(1.0, requires_grad=True)
    data = [(np.full(n, x),) for n, x in ((1, 4.0), (3, 2.0), (2, 1.0))]

    def step(xs):
        return (w * xs).mean(), {"first": xs[0], "count": float(len(xs))}

    run = tg.fit(step, data, tg.optim.SGD([w], 0.0), rows=len, every=2, validate=lambda: 0.5, evaluate=lambda: "good")
    assert run.rows == [
        {"update": 2, "loss": 2.5, "first": 2.5, "count": 2.5, "validation": 0.5},
        {"update": 3, "loss": 1.0, "first": 1.0, "count": 2.0, "validation": 0.5},
    ]
    assert run.losses == [4.0, 2.0, 1.0] and run.figures[1] == {"first": 2.0, "count": 3.0}
    assert run.best == (2, 0.5) and run.evaluations == [(2, "good"), (3, "good")]
    run.to_csv(tmp_path / "run.csv")
    assert (tmp_path / "run.csv").read_text() == (
        "update,loss,first,count,validation\n2,2.5,2.5,2.5,0.5\n3,1,1,2,0.5\n"
    )
    assert run.table().column("loss") == (2.5, 1.0)


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("sizes", [(4, 4), (1, 5, 2), (3,)])
def test_accumulated_batches_are_one_batch(sizes, replay):
    """To rounding; and one batch alone to the bit."""
    rng = np.random.default_rng(0)
    xs, ys = rng.standard_normal((sum(sizes), 3)), rng.standard_normal((sum(sizes), 2))
    cuts = np.cumsum(sizes)[:-1]
    small = list(zip(np.split(xs, cuts), np.split(ys, cuts), strict=True))

    def run(data, accumulate):
        line = tg.nn.Linear(3, 2, rng=1)
        seen = []
        done = tg.fit(
            lambda x, y: tg.nn.mse(line(x), y), data, tg.optim.SGD(line, 0.5), accumulate=accumulate,
            rows=lambda x, y: len(x), on_update=lambda *_: seen.append(line.W.grad), replay=replay,
        )  # fmt: skip
        return done.losses, seen[0], line.W.data

    losses, gradient, W = run(small, 3)
    right, expected, after = run([(xs, ys)], 1)
    np.testing.assert_allclose(losses, right, rtol=1e-13)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(W, after, rtol=1e-12)
    if len(sizes) == 1:
        assert gradient.tobytes() == expected.tobytes()


def test_batches_that_are_a_function_get_the_number_of_batches_before():
    asked, w = [], tg.Tensor(1.0, requires_grad=True)
    tg.fit(lambda x: w * x, lambda n: asked.append(n) or 1.0, tg.optim.SGD([w], 0.1), updates=2, accumulate=3)
    assert asked == list(range(6))


def test_when_patience_is_over_training_ends_and_the_best_weights_are_back():
    w, found = tg.Tensor(10.0, requires_grad=True), iter([5.0, 3.0, float("nan"), 3.0, 9.0, 1.0])
    kept = []

    def validate():
        kept.append(w.item())
        return next(found)

    run = tg.fit(lambda x: w * x, lambda n: 1.0, tg.optim.SGD([w], 1.0), validate=validate, patience=3, every=2)
    assert run.updates == 10 and run.best == (4, 3.0) and not run.interrupted
    assert w.item() == kept[1] == 6.0 and len(kept) == 5


def test_without_patience_the_last_weights_stay():
    w = tg.Tensor(10.0, requires_grad=True)
    run = tg.fit(lambda x: w * x, [1.0] * 3, tg.optim.SGD([w], 1.0), validate=lambda: -w.item(), every=1)
    assert w.item() == 7.0 and run.best == (1, -9.0)


@pytest.mark.parametrize(("validate", "got"), [(lambda: None, "None"), (dict, "{}"), (lambda: "good", "'good'")])
def test_a_validation_that_is_no_number_is_refused(validate, got):
    w = tg.Tensor(1.0, requires_grad=True)
    with pytest.raises(TypeError, match=f"validate returns a number, or a dict of numbers .* got {got}"):
        tg.fit(lambda x: w * x, [1.0], tg.optim.SGD([w], 0.1), validate=validate)


def test_a_state_that_is_a_function_begins_anew_where_it_says_so():
    w, begun = tg.Tensor(1.0, requires_grad=True), []

    def step(x, h):
        begun.append(h.item() if isinstance(h, tg.Tensor) else h)
        return w * x, tg.Tensor(begun[-1] + 1.0)

    run = tg.fit(step, [1.0] * 7, tg.optim.SGD([w], 0.1), state=lambda n: 0.0 if n % 3 == 0 else None)
    assert begun == [0, 1, 2, 0, 1, 2, 0] and run.state.item() == 1.0


def test_several_optimisers_make_a_step_each_and_share_nothing(tmp_path):
    def run(updates, **options):
        a, b = (tg.Tensor(1.0, requires_grad=True, name=name) for name in "ab")
        optimisers = [tg.optim.SGD([a], 0.5, momentum=0.9), tg.optim.Adam([b], 0.1)]
        tg.fit(lambda x: a * x + b * b * x, [1.0] * 4, optimisers, updates=updates, **options)
        return a.item(), b.item(), optimisers[0].memory, optimisers[1].memory

    expected = run(4)
    run(2, checkpoint=tmp_path / "run.npz")
    assert run(4, checkpoint=tmp_path / "run.npz", resume=True) == expected and expected[0] != 1.0 != expected[1]
    w = tg.Tensor(1.0, requires_grad=True, name="w")
    v = tg.Tensor(1.0, requires_grad=True, name="v")
    with pytest.raises(ValueError, match="a parameter belongs to one optimiser"):
        tg.fit(lambda x: w * x, [1.0], [tg.optim.SGD([w], 0.1), tg.optim.Adam([w])])
    with pytest.raises(ValueError, match=r"reaches no parameter of the optimiser, .* it has v"):
        tg.fit(lambda x: w * x, [1.0], [tg.optim.SGD([w], 0.1), tg.optim.Adam([v])])
    with (
        pytest.raises(FloatingPointError, match=r"gradient of parameter 1\.v is not finite"),
        np.errstate(all="ignore"),
    ):
        tg.fit(lambda x: w * x + tg.sqrt(v - 1.0), [1.0], [tg.optim.SGD([w], 0.1), tg.optim.Adam([v])])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_one_line_is_rewritten_and_elsewhere_each_report_has_one(monkeypatch):
    w = tg.Tensor(1.0, requires_grad=True)

    def shown(stream, **options):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("COLUMNS", "60")
        found = iter([0.25, 0.125, 10.0])
        tg.fit(lambda x: (w * x, {"twice": 2 * x}), [1.0] * 5, tg.optim.SGD([w], 0.0), every=2,
               validate=lambda: next(found), **options)  # fmt: skip
        return stream.getvalue()

    text = shown(Terminal())
    assert text.count("\n") == 1 and text.endswith("\n") and max(map(len, text.strip().split("\r"))) <= 59
    assert [line.split("   ")[:4] for line in text.strip("\r\n").split("\r")] == [
        ["update 2 of 5", "loss 1", "twice 2", "validation 0.25"],
        ["update 4 of 5", "loss 1", "twice 2", "validation 0.125"],
        ["update 5 of 5", "loss 1", "twice 2", "validation 10"],
    ]
    assert shown(Terminal(), show=False) == shown(io.StringIO()) == ""
    assert [line[:13] for line in shown(io.StringIO(), show=True).splitlines()] == [
        f"update {n} of 5" for n in (2, 4, 5)
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, '{"batches": -1, "rows": [], "window": {}, "best": null, "waited": 0}',
             '{"batches": 1, "rows": [{"a": "b"}], "window": {}, "best": null, "waited": 0}'],
)  # fmt: skip
def test_a_progress_that_no_run_wrote_is_refused_and_nothing_is_filled(text, tmp_path):
    w = tg.Tensor(1.0, requires_grad=True, name="w")
    optimiser, path = tg.optim.SGD([w], 0.5), tmp_path / "run.npz"
    tg.save(path, model={"w": np.array(7.0)}, optimiser=optimiser, update=1, progress=text)
    with pytest.raises(ValueError, match="this is not the progress of a run"):
        tg.fit(lambda x: w * x, [1.0] * 2, optimiser, checkpoint=path, resume=True)
    tg.save(path, model={"w": np.array(7.0)}, optimiser=optimiser)
    with pytest.raises(ValueError, match=r"is no checkpoint of tg\.fit"):
        tg.fit(lambda x: w * x, [1.0] * 2, optimiser, checkpoint=path, resume=True)
    assert w.item() == 1.0
