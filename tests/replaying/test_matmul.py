"""Products that a replay computes faster: the same bits, or not faster."""

import numpy as np
import pytest

import tinygrad_seq as tg
from tests.replaying.test_recorder import eager, replayed
from tinygrad_seq.replaying import matmul

# Batch, inputs, units: where BLAS adds in one order whatever is read of a product, and where it does not.
SIZES = [(1, 30, 64), (2, 30, 64), (3, 1, 1), (5, 50, 100), (8, 64, 128), (16, 16, 32), (32, 16, 32), (64, 13, 17)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cell", [tg.nn.LSTM, tg.nn.GRU, tg.nn.RNN])
def test_faster_products_differ_in_no_bit(cell, size, dtype):
    B, m, d = size
    net, rng = cell(m, d, rng=0, dtype=dtype), np.random.default_rng(1)
    parameters = list(net.parameters())
    cotangent = rng.standard_normal((9, B, d)).astype(dtype)

    def loss_of(xs):
        return (net(xs)[0] * cotangent).sum()

    step = tg.replay(loss_of, wrt=net)
    for _ in range(3):
        xs = rng.standard_normal((9, B, m)).astype(dtype)
        assert replayed(step, (xs,), parameters) == eager(loss_of, (tg.Tensor(xs),), parameters)
        for x in parameters:  # what was laid out anew for one run is not left for the next
            x.data = x.data + rng.standard_normal(x.shape).astype(dtype) * dtype(0.1)


def recorded(read, rows=64, inner=128, columns=64):
    """The program of a loss that reads some of x A: whole numbers, so that the order of adding does not matter."""
    rng = np.random.default_rng(0)
    A = tg.Tensor(rng.integers(-9, 9, (inner, columns)) * 1.0, requires_grad=True, name="A")
    x = rng.integers(-9, 9, (rows, inner)) * 1.0
    step = tg.replay(lambda x: read(x @ A), wrt=[A])
    assert replayed(step, (x,), [A]) == eager(lambda x: read(x @ A), (tg.Tensor(x),), [A])
    return step.program


def computed(program):
    """The shapes that its products have."""
    return [values[2].shape for function, values in program._calls if function is np.matmul]


def test_of_a_product_the_columns_that_are_read_are_computed_and_no_others(monkeypatch):
    monkeypatch.setattr(matmul, "agree", lambda *_: True)
    assert (64, 16) in computed(recorded(lambda y: y[:, 32:48].sum()))
    assert (64, 16) in computed(recorded(lambda y: y[..., -16:].tanh().sum()))
    whole, part = recorded(lambda y: y.sum()), recorded(lambda y: y[:, :16].sum())
    assert part.stats()["arithmetic"] < whole.stats()["arithmetic"]


@pytest.mark.parametrize(
    "read",
    [
        lambda y: y[:, :16].sum() + y[0, 0],  # it is read elsewhere too
        lambda y: (y[:, :16].sum(), y),  # it is a result itself
        lambda y: y[:16].sum(),  # rows
        lambda y: y[:, ::2].sum(),  # not a range of columns
        lambda y: y[:, np.array([3, 1])].sum(),
        lambda y: y.T[:16].sum(),
    ],
)
def test_a_product_of_which_more_or_other_things_are_read_is_computed_whole(read, monkeypatch):
    monkeypatch.setattr(matmul, "agree", lambda *_: True)
    assert (64, 64) in computed(recorded(read))


def test_a_transpose_that_is_multiplied_at_every_step_is_laid_out_once_a_run(monkeypatch):
    monkeypatch.setattr(matmul, "agree", lambda *_: True)  # else it is for BLAS to say
    net = tg.nn.LSTM(16, 32, rng=0)
    step = tg.replay(lambda xs: net(xs)[0].square().sum(), wrt=net)
    step(np.ones((12, 16, 16)))
    calls = step.program._calls
    (copy,) = [values[0] for function, values in calls if function is np.copyto and values[0].shape == (128, 32)]
    backward = [values[1] for function, values in calls if function is np.matmul and values[0].shape == (16, 128)]
    assert len(backward) == 11  # nothing reads the gradient of the first step's state
    assert all(b is copy for b in backward)


def reluctant(a, b, out):
    """A BLAS that adds the other way round when it is given fewer columns than 20, or rows that lie closely."""
    usual = b.shape[-1] == 20 and b.strides[0] < b.strides[1]
    terms = a[:, :, None] * b[None]
    out[...] = (terms if usual else terms[:, ::-1]).cumsum(1)[:, -1]


def indifferent(a, b, out):
    out[...] = (a[:, :, None] * b[None]).cumsum(1)[:, -1]


@pytest.mark.parametrize("inner", [3, 50])
@pytest.mark.parametrize(("read", "copied"), [(slice(5, 9), False), (slice(None), True), (slice(0, 1), True)])
def test_the_trial_sees_another_order_of_adding(read, copied, inner):
    a, b, out = np.zeros((3, inner)), np.zeros((20, inner)).T, np.zeros((3, 20))
    assert matmul.agree(indifferent, a, b, out, read, copied)
    assert not matmul.agree(reluctant, a, b, out, read, copied)


def test_what_the_trial_refuses_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(matmul, "agree", lambda *_: False)
    net = tg.nn.LSTM(16, 32, rng=0)
    step = tg.replay(lambda xs: net(xs)[0].square().sum(), wrt=net)
    step(np.ones((9, 16, 16)))
    assert {shape for shape in computed(step.program) if shape[0] == 16} == {(16, 128), (16, 48)}
    assert not [1 for f, v in step.program._calls if f is np.copyto and v[0].shape == (128, 48)]


TURNED = [lambda w: w[:, ::-1], lambda w: w[::-1], lambda w: w.T[::-1], lambda w: w[::-1, ::-1].T]


@pytest.mark.parametrize("turned", TURNED)
@pytest.mark.parametrize(("rows", "units"), [(1, 130), (3, 80), (16, 40)])
def test_a_weight_that_is_read_backward_at_every_step_differs_in_no_bit(turned, rows, units):
    rng = np.random.default_rng(0)
    w = tg.Tensor(rng.standard_normal((units, units)), requires_grad=True)

    def loss_of(x):
        for _ in range(10):
            x = tg.tanh(x @ turned(w) * 0.1)
        return x.square().sum()

    step = tg.replay(loss_of)
    for _ in range(2):
        x = rng.standard_normal((rows, units))
        assert replayed(step, (x,), [w]) == eager(loss_of, (tg.Tensor(x),), [w])


@pytest.mark.parametrize(
    "joined",
    [
        lambda x, w: tg.stack([x @ w, tg.tanh(x) @ w], axis=-1),
        lambda x, w: (tg.tanh(x @ w)[:, ::2] @ w[:32]).square(),  # whose gradient stands at every other column
        lambda x, w: (tg.tanh(x @ w)[::-1] @ w).square(),
    ],
)
def test_no_product_is_written_where_blas_does_not_write(joined):
    rng = np.random.default_rng(0)
    w = tg.Tensor(rng.standard_normal((64, 64)), requires_grad=True)

    def loss_of(x):
        return tg.tanh(joined(x, w)).sum()

    step = tg.replay(loss_of)
    for _ in range(2):
        x = rng.standard_normal((8, 64))
        assert replayed(step, (x,), [w]) == eager(loss_of, (tg.Tensor(x),), [w])
    places = [values[2] for function, values in step.program._calls if function is np.matmul]
    assert len(places) >= 3
    for place in places:
        assert place.strides[1] == place.itemsize and place.strides[0] >= place.strides[1] * place.shape[1]


def test_stacked_products_may_have_constant_factors_and_a_swap_of_nothing():
    rng = np.random.default_rng(0)
    K, x = rng.standard_normal((4, 5)), rng.standard_normal((5, 5))
    w = tg.Tensor(rng.standard_normal((5, 5)), requires_grad=True)

    def constant(x):
        return tg.tanh(K @ w + x[:4]).sum() + tg.tanh((2.0 * K) @ w * x[:4]).sum()

    def swapped(x):
        terms = [tg.swapaxes(w @ (x * (t + 1.0)), 0, 0) * x[t] for t in range(3)]
        return tg.tanh(terms[0] + terms[1] * terms[2]).sum()

    for loss_of in (constant, swapped):
        tg.replay(loss_of, stack_steps=True)(x)
        (found, w.grad), expected = (w.grad, None), tg.grad(loss_of(tg.Tensor(x)), w)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_trial_sees_what_seldom_differs():
    def seldom(a, b, out):
        out[...] = (a[:, :, None] * b[None]).sum(1)
        if b.shape[-1] == 1:
            out[np.abs(a[:, 0]) < 1e-3] += 1e-9  # one of 1250 rows of normal numbers

    assert not matmul.agree(seldom, np.zeros((20, 3)), np.zeros((3, 9)), np.zeros((20, 9)), slice(4, 5), False)
