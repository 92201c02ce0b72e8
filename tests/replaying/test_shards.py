"""Shards: parts of the batch in threads give what the whole gives, to rounding, and the same bits each time."""

import numpy as np
import pytest

import tinygrad_seq as tg


def network(dtype=np.float64):
    net, head = tg.nn.LSTM(3, 6, rng=0, dtype=dtype), tg.nn.Linear(6, 2, rng=1, dtype=dtype)

    def loss_of(xs, targets, state, rows):
        outputs, state = net(xs, state)
        losses = tg.logsumexp(head(outputs)) - (head(outputs) * (np.arange(2) == targets[..., None])).sum(axis=-1)
        return losses.sum() / rows, state

    return net, [*net.parameters(), *head.parameters()], loss_of


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("rows", [1, 2, 7, 8])
def test_the_parts_give_what_the_whole_gives_and_the_same_bits_each_time(n, rows):
    rng = np.random.default_rng(0)
    net, parameters, loss_of = network()
    step = tg.replay(loss_of, wrt=parameters, shards=n, axes=(1, 1, 0, None), check=1)
    whole = tg.replay(loss_of, wrt=parameters)
    state = net.initial_state((rows,))
    for _call in range(3):
        arguments = rng.standard_normal((4, rows, 3)), rng.integers(0, 2, (4, rows)), state, float(rows)
        found = []
        for played in (step, step, whole):
            for x in parameters:
                x.grad = None
            loss, after = played(*arguments)
            found.append([loss.data, *after[0][0], *(x.grad for x in parameters)])
        for one, again, reference in zip(*found, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(again).tobytes() or _call == 0
            np.testing.assert_allclose(one, reference, rtol=1e-12, atol=1e-13)
        state = after
        for x in parameters:
            x.data = x.data * 0.9


def test_a_mean_is_refused_and_the_sum_over_all_rows_is_named():
    net, parameters, _ = network()
    mean = lambda xs: net(xs)[0].square().mean()
    with pytest.raises(ValueError, match=r"loss is .* instead of .*losses\.sum\(\) / rows"):
        tg.replay(mean, shards=2, axes=(1,))(np.ones((4, 6, 3)))
    with pytest.raises(ValueError, match="penalty"):
        tg.replay(lambda xs: net(xs)[0].square().sum() + parameters[0].square().sum(), shards=2, axes=(1,))(
            np.ones((4, 6, 3))
        )


def test_random_draws_are_refused_and_masks_are_arguments():
    net = tg.nn.LSTM(3, 6, rng=0)
    drop = tg.nn.Dropout(0.5, rng=0)
    with pytest.raises(ValueError, match="draws no random numbers"):
        tg.replay(lambda xs: net(drop(xs))[0].square().sum(), shards=2, axes=(1,))(np.ones((4, 6, 3)))
    step = tg.replay(lambda xs, mask: net(xs * mask)[0].square().sum(), shards=2, axes=(1, 1), check=1)
    rng = np.random.default_rng(0)
    for _ in range(3):
        step(np.ones((4, 6, 3)), (rng.random((4, 6, 3)) > 0.5) * 2.0)


def test_arguments_that_are_no_parts_of_one_batch_are_refused():
    w = tg.Tensor(np.ones(3), requires_grad=True)
    function = lambda x, y: (w * x).sum() + (w * y).sum()
    with pytest.raises(ValueError, match=r"arguments have \[4, 6\] rows"):
        tg.replay(function, shards=2, axes=(0, 0))(np.ones((4, 3)), np.ones((6, 3)))
    with pytest.raises(ValueError, match=r"an entry for each argument \(x, y\)"):
        tg.replay(function, shards=2, axes=(0,))(np.ones((4, 3)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="no axis 2"):
        tg.replay(function, shards=2, axes=(0, 2))(np.ones((4, 3)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="a row for each row of the batch"):
        tg.replay(lambda x: ((w * x).sum(), w * 2.0), shards=2, axes=(0,))(np.ones((4, 3)))
    step = tg.replay(function, shards=2, axes=(0, 0), check=1)
    for _ in range(2):
        assert float(step(y=np.ones((4, 3)), x=np.ones((4, 3)))) == 24.0


def test_what_changes_is_noticed_in_every_part_and_an_error_reaches_the_caller():
    w = tg.Tensor(np.ones(3), requires_grad=True)
    scale = [1.0]
    table = tg.Tensor(np.ones((3, 2)), requires_grad=True)
    step = tg.replay(lambda ids: tg.embedding(table, ids).sum() * scale[0], shards=2, axes=(0,), check=1)
    assert [float(step(np.zeros(4, int))) for _ in range(2)] == [8.0, 8.0]
    scale[0] = 3.0
    assert [float(step(np.zeros(4, int))) for _ in range(2)] == [24.0, 24.0]
    table.grad = None
    with pytest.raises(IndexError, match="ids lie in"):
        step(np.array([0, 0, 0, 7]))
    assert table.grad is None and w.grad is None
    assert float(step(np.zeros(4, int))) == 24.0


def test_a_forward_pass_alone_is_played_in_parts():
    net, rng = tg.nn.LSTM(3, 6, rng=0), np.random.default_rng(0)
    step = tg.replay(lambda xs: net(xs), gradients=False, shards=2, axes=(1,), check=1)
    for _ in range(3):
        xs = rng.standard_normal((4, 6, 3))
        outputs, states = step(xs)
        expected, _ = net(xs)
        np.testing.assert_allclose(outputs.data, expected.data, rtol=1e-12)
        assert states[0][0].c.shape == (6, 6)
