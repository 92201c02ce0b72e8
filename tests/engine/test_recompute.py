"""Recomputed segments: the same gradients bit for bit, at a fraction of the memory, or a refusal that says why."""

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq.engine.tree import leaves

rng = np.random.default_rng(0)
XS, WEIGHTS = rng.standard_normal((13, 3, 4)), rng.standard_normal((13, 3, 10))


def gradients(net, xs, weights=WEIGHTS, **options):
    """The loss of a network over a sequence, and all its gradients, as bytes."""
    x = tg.Tensor(xs, requires_grad=True)
    outputs, states = net(x, **options)
    loss = (outputs * weights[..., : outputs.shape[-1]]).sum() + sum((s * s).sum() for s in leaves(states))
    loss.backward()
    found = [loss.data, x.grad, *(p.grad for p in net.parameters())]
    net.zero_grad()
    return [array.tobytes() for array in found]


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@given(
    k=st.integers(1, 15),
    bidirectional=st.booleans(),
    lengths=st.none() | st.lists(st.integers(1, 13), min_size=3, max_size=3),
    dropout=st.sampled_from([0.0, 0.4]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_a_recomputed_layer_has_other_gradients_than_the_layer_itself(kind, k, bidirectional, lengths, dropout, dtype):
    def made():
        return getattr(tg.nn, kind)(
            4, 5, layers=2, bidirectional=bidirectional, rng=1, dropout=dropout, recurrent_dropout=dropout, dtype=dtype
        )

    xs, weights = XS.astype(dtype), WEIGHTS.astype(dtype)
    assert gradients(made(), xs, weights, lengths=lengths) == gradients(
        made(), xs, weights, lengths=lengths, recompute=k
    )


def test_derivatives_of_second_order_and_partial_ones_are_wrong_through_a_recomputed_segment():
    cell = tg.nn.LSTMCell(4, 5, rng=0)
    found = []
    for k in (None, 4):
        x = tg.Tensor(XS[:, 0], requires_grad=True)
        outputs, _ = tg.nn.unroll(cell, x, recompute=k)
        loss = (outputs * outputs).sum()
        tape = tg.Tape(loss)
        found.append([
            tg.hvp(loss, x, XS[:, 1]), tg.grad(loss, cell.parameters()[0]), tape.flow()["A"],
            tape.flow(cut=[(6, 7)])[x], tg.jacobian(outputs[-1], x),
        ])  # fmt: skip
    for mine, right in zip(*found, strict=True):
        assert np.allclose(mine, right, rtol=1e-12, atol=1e-13)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found[0][1:4], found[1][1:4], strict=True))


def test_a_replay_of_recomputed_segments_computes_something_else():
    cell = tg.nn.GRUCell(4, 5, rng=0)

    def loss(xs, k=None):
        outputs, _ = tg.nn.unroll(cell, xs, recompute=k)
        return (outputs * outputs).mean()

    step = tg.replay(loss)
    for seed in range(3):
        xs = np.random.default_rng(seed).standard_normal((13, 2, 4))
        results = []
        for run in (lambda xs=xs: loss(tg.Tensor(xs)).backward(), lambda xs=xs: step(xs, k=4)):
            run()
            results.append([p.grad.tobytes() for p in cell.parameters()])
            cell.zero_grad()
        assert results[0] == results[1]


def test_a_replay_draws_other_numbers_when_a_segment_runs_again():
    found = []
    for wrap in (lambda f: f, tg.recompute):
        drop, w = tg.nn.Dropout(0.5, rng=7), tg.Tensor(np.ones(50), requires_grad=True, name="w")
        step = tg.replay(wrap(lambda x, drop=drop, w=w: tg.tanh(drop(w * x)).sum()))
        for x in (1.0, 2.0):
            step(np.array(x))
        found.append(w.grad.tobytes())
    assert found[0] == found[1]


def test_random_operations_draw_other_numbers_when_they_run_again_or_leave_their_generator_elsewhere():
    generators = [np.random.default_rng(7) for _ in range(2)]
    found = []
    for rng, wrap in zip(generators, (lambda f: f, tg.recompute), strict=True):
        drop, w = tg.nn.Dropout(0.5, rng=rng), tg.Tensor(np.ones(50), requires_grad=True)
        wrap(lambda x, drop=drop, w=w: drop(tg.tanh(drop(w * x))))(tg.Tensor(XS[0, 0, 0])).sum().backward()
        found.append((w.grad.tobytes(), rng.random()))
    assert found[0] == found[1]


def test_nested_segments_and_results_that_share_a_tensor_lose_credit():
    w = tg.Tensor(0.7, requires_grad=True)

    @tg.recompute
    def inner(x):
        return tg.tanh(w * x)

    @tg.recompute
    def outer(x, unused=None):
        y = inner(x) * w
        return {"y": y, "again": (y, [inner(y)]), "constant": tg.Tensor(1.0), "nothing": unused}

    def plain(x):
        y = tg.tanh(w * x) * w
        return y, tg.tanh(w * y)

    result = outer(tg.Tensor(1.3))
    assert result["y"] is result["again"][0]
    y, z = plain(tg.Tensor(1.3))
    mine, right = tg.grad(result["y"] * result["again"][1][0], w), tg.grad(y * z, w)
    assert mine.tobytes() == right.tobytes()
    assert tg.recompute(lambda x: x * 2.0)(tg.Tensor(3.0)).record is None  # nothing there requires a gradient


def test_the_inner_values_are_kept():
    cell, xs = tg.nn.RNNCell(8, 16, rng=0), np.ones((400, 8))

    def peak(k):
        gc.collect()
        tracemalloc.start()
        outputs, _ = tg.nn.unroll(cell, xs, recompute=k)
        outputs.sum().backward()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(20)
    assert peak(20) < peak(None) / 4


def test_what_cannot_be_computed_again_passes_for_the_same():
    w, seen = tg.Tensor(2.0, requires_grad=True, name="w"), []

    @tg.recompute
    def counting(x):
        seen.append(x)
        return w * x * float(len(seen))

    with pytest.raises(RuntimeError, match="gave other values when it ran again"):
        counting(tg.Tensor(1.0)).backward()
    assert w.grad is None
    square = tg.recompute(lambda: w * w)
    y = square()
    w.data = 3.0
    with pytest.raises(RuntimeError, match=r"w was given new data after tg\.recompute had read it"):
        y.backward()


@pytest.mark.parametrize(
    "question",
    [
        lambda tape: tape.flow().uses("w"),
        lambda tape: tape.flow().chain("h"),
        lambda tape: tape.flow().table("h", "w"),
        lambda tape: tape.flow().crossing(1, 2),
        lambda tape: list(tape.flow().steps()),
        lambda tape: tape.visibility("h", "w"),
    ],
)
def test_a_question_about_operations_that_are_not_kept_gets_an_answer(question):
    w = tg.Tensor(0.5, requires_grad=True, name="w")
    h = tg.Tensor(1.0)

    @tg.recompute
    def two(h, t):
        for step in (t, t + 1):
            with tg.step(step):
                h = (w * h).named("h")
        return h

    tape = tg.Tape(two(two(h, 1), 3))
    with pytest.raises(RuntimeError, match=r"inside tg\.recompute is not kept.*record without recompute"):
        question(tape)
    assert tape.flow()["w"] == 4 * 0.5**3


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "4"])
def test_a_segment_has_no_whole_number_of_steps(k):
    with pytest.raises(ValueError, match="recompute as a whole number >= 1"):
        tg.nn.unroll(tg.nn.RNNCell(4, 2), XS, recompute=k)
    with pytest.raises(ValueError, match="RNN needs recompute"):
        tg.nn.RNN(4, 2)(XS, recompute=k)
