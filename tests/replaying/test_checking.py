"""check=n: every n-th call is compared with the function itself, from the same random numbers, and touches nothing."""

import numpy as np
import pytest

import tinygrad_seq as tg
from tinygrad_seq.nn import elmo

X = np.array([1.0, 2.0])


def stale_step(w, **options):
    """A step that reads an array which is not watched, for it says that nobody writes to it."""
    state = np.ones(1)
    state.flags.writeable = False  # a promise that is not kept

    def function(x):
        return ((w * x) * state).sum()

    return tg.replay(function, **options), state


def break_promise(state):
    state.flags.writeable = True
    state[0] = 5.0
    state.flags.writeable = False


def test_a_stale_replay_is_told_with_the_result_and_the_operation_that_differ():
    w = tg.Tensor([1.0, 3.0], requires_grad=True, name="w")
    step, state = stale_step(w, check=1)
    assert [float(step(X)) for _ in range(3)] == [7.0] * 3
    break_promise(state)
    w.grad = None
    with pytest.raises(tg.StaleReplayError, match=r"loss is 7\.0 instead of 35\.0") as raised:
        step(X)
    assert "first operation that differs was recorded as `constant = np.full((2,), 1.0, np.float64)`" in str(
        raised.value
    )
    assert "now `constant = np.full((2,), 5.0, np.float64)`" in str(raised.value)
    assert w.grad is None


def test_every_nth_call_is_checked():
    w = tg.Tensor([1.0, 3.0], requires_grad=True)
    step, state = stale_step(w, check=4)
    step(X)
    break_promise(state)
    assert [float(step(X)) for _ in range(2)] == [7.0] * 2
    with pytest.raises(tg.StaleReplayError):
        step(X)


def test_a_check_draws_the_same_numbers_and_leaves_grad_and_generators_as_one_run_does():
    def run(check):
        w = tg.Tensor(np.ones(20), requires_grad=True)
        drop = tg.nn.Dropout(0.5, rng=7)
        step = tg.replay(lambda x: (drop(w * x) * np.arange(20.0)).sum(), check=check)
        losses = [float(step(np.ones(20))) for _ in range(5)]
        return losses, w.grad.tolist(), drop.rng.bit_generator.state

    assert run(0) == run(1) == run(3)


def test_a_check_allows_stacked_products_their_rounding_and_no_more():
    net, rng = tg.nn.LSTM(3, 8, rng=0, dtype=np.float32), np.random.default_rng(0)
    scale = np.ones(1, np.float32)
    scale.flags.writeable = False
    step = tg.replay(lambda xs: (net(xs)[0].square() * scale).sum(), wrt=net, stack_steps=True, check=1)
    for _ in range(4):
        step(rng.standard_normal((12, 5, 3)).astype(np.float32))
    scale.flags.writeable = True
    scale[0] = 1.01
    scale.flags.writeable = False
    with pytest.raises(tg.StaleReplayError, match="loss is"):
        step(rng.standard_normal((12, 5, 3)).astype(np.float32))


def test_a_forward_pass_alone_is_played_and_returns_what_the_function_returns():
    net, rng = tg.nn.GRU(3, 4, rng=0), np.random.default_rng(0)

    def outputs_of(xs):
        outputs, states = net(xs)
        return {"outputs": outputs, "last": states, "name": "gru", "input": xs}

    step = tg.replay(outputs_of, gradients=False, check=1)
    for _ in range(3):
        xs = rng.standard_normal((5, 2, 3))
        found, expected = step(xs), outputs_of(tg.Tensor(xs))
        assert found["name"] == "gru" and found["input"].data.tobytes() == xs.tobytes()
        assert found["outputs"].data.tobytes() == expected["outputs"].data.tobytes()
        assert found["last"][0][0].data.tobytes() == expected["last"][0][0].data.tobytes()
        assert not found["outputs"].requires_grad and net.parameters()[0].grad is None
        for x in net.parameters():
            x.data = x.data * 0.9
    assert "way back" not in str(step.program) and step.program.parameters == []
    one = tg.replay(lambda x: tg.tanh(x), gradients=False)
    assert one(X).tolist() == one(X).tolist() == np.tanh(X).tolist()


def test_the_layers_of_a_bilm_are_played_on_frames():
    sentences = [["we", "train", "models"], ["here"], ["the", "train", "arrived", "here"]]
    vocabulary = elmo.Vocabulary.of(sentences)
    bilm = elmo.BiLM(elmo.CharEncoder(4, rng=0), vocabulary, hidden=4, rng=0).eval()
    step = tg.replay(bilm.layers, gradients=False, check=1)
    frames = bilm.frames([sentences[:2], sentences[1:], sentences[:2]], shapes=2)
    for frame in (*frames, *frames):
        assert step(frame).data.tobytes() == bilm.layers(frame).data.tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check": -1}, "check"), ({"shards": 0, "axes": (0,)}, "shards"), ({"shards": 2}, "axes"),
        ({"axes": (0,)}, "axes"), ({"gradients": False, "wrt": []}, "forward pass alone"),
        ({"gradients": False, "stack_steps": True}, "forward pass alone"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused_when_the_replay_is_made(options, message):
    with pytest.raises(ValueError, match=message):
        tg.replay(lambda x: x.sum(), **options)


def test_results_that_are_no_tensors_are_refused():
    with pytest.raises(TypeError, match="returns tensors, got NoneType"):
        tg.replay(lambda x: None, gradients=False)(X)
    with pytest.raises(TypeError, match="ndarray among its results"):
        tg.replay(lambda x: (x, np.ones(2)), gradients=False)(X)
