"""The training loop: it does what one writes by hand, can be stopped and resumed at any update, and says what broke."""

import functools
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
        ({"every": 0}, ValueError, "every >= 1, got 0"),
        ({"resume": True}, ValueError, "a checkpoint to resume from"),
        ({"until": bool}, ValueError, "for until an evaluate"),
        ({"step": lambda x: tg.Tensor(x)}, ValueError, "is a constant: nothing that it was computed from requires"),
        ({"step": lambda x: tg.Tensor(np.nan)}, FloatingPointError, "update 1: the loss is nan"),
        ({"step": lambda x: None}, TypeError, r"returns its loss as a tensor, or \(loss, state\); got NoneType"),
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
