"""float16 has 11 bits: a sum of ones stops at 2048, and 65504 is the largest number. So what adds up many numbers does
so in float32 and rounds once; and no square of a usual number overflows or underflows in any dtype."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg
from tinygrad_seq.engine import ops

HALF = np.float16
MANY = 4096  # more ones than a float16 sum can count


def leaf(values: Any, dtype: Any = HALF, name: str | None = None) -> tg.Tensor:
    return tg.Tensor(np.asarray(values, dtype), requires_grad=True, name=name)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, HALF)


def all_gradients(loss: tg.Tensor, w: tg.Tensor) -> list[np.ndarray]:
    """The gradient of w as every way of asking gives it."""
    recorded = tg.grad(loss, w, create_graph=True).data
    read = tg.Tape(loss).flow()
    found = [tg.grad(loss, w), recorded, read[w], read.uses(w).total()]
    loss.backward()
    return [*found, w.grad]


# Sums of contributions -----------------------------------------------------------------------------------------------

SUMS: dict[str, Callable[[tg.Tensor], tg.Tensor]] = {  # w has two entries: NumPy adds up a single column in float32
    "over the rows that a bias was spread to": lambda w: (ones(MANY, 2) + w).sum(),
    "over the rows that a factor was spread to": lambda w: (ones(MANY, 2) * w).sum(),
    "over the rows of a product": lambda w: (ones(MANY, 1) @ w.reshape(1, 2)).sum(),
    "over a batch of products": lambda w: (ones(MANY, 1, 1) @ w.reshape(1, 1, 2)).sum(),
    "over an axis of einsum": lambda w: tg.einsum("ti,i->t", ones(MANY, 2), w).sum(),
    "over two axes of einsum": lambda w: tg.einsum("ti,ij->tj", ones(MANY, 1), w.reshape(1, 2)).sum(),
    "over what it was broadcast to": lambda w: tg.broadcast_to(w, (MANY, 2)).sum(),
    "over an entry that is taken many times": lambda w: w.reshape(1, 2)[np.zeros(MANY, int)].sum(),
    "over an embedded row": lambda w: tg.embedding(w.reshape(1, 2), np.zeros(MANY, int)).sum(),
    "over the sums that it is part of": lambda w: (
        tg.concat([w.reshape(1, 2), np.zeros((MANY - 1, 2), HALF)]).cumsum(0).sum()
    ),
    "over its uses": lambda w: tg.stack([w * 1.0 for _ in range(MANY)]).sum(),
    "over the uses of a part": lambda w: tg.stack([part[:2] for part in [w] * MANY]).sum(),
    "over its uses and those of a part": lambda w: tg.stack(
        [x for _ in range(MANY // 2) for x in (w[:2], w * 1.0)]
    ).sum(),
}


@pytest.mark.parametrize("of", SUMS.values(), ids=SUMS)
def test_thousands_of_contributions_are_all_counted(of: Callable[[tg.Tensor], tg.Tensor]) -> None:
    w = leaf([1.0, 1.0], name="w")
    for g in all_gradients(of(w), w):
        assert g.dtype == HALF and g.tolist() == [MANY, MANY]


def test_contributions_are_rounded_once_and_alike_in_every_reading() -> None:
    rng = np.random.default_rng(0)
    w = leaf(rng.normal(size=(3, 2)), name="w")
    parts = [(w * rng.normal(size=(3, 2)).astype(HALF)).sum() + w[k % 3].sum() * 0.3 for k in range(50)]
    loss = tg.stack(parts).sum()
    first, *others = all_gradients(loss, w)
    assert all(g.dtype == HALF and np.array_equal(g, first) for g in others)


def test_two_seeds_of_one_tensor_and_a_released_pass_are_settled_in_its_dtype() -> None:
    w = leaf([1.0, 2.0])
    y = w * 2.0
    assert tg.grad([y, y], w, seed=[0.5, 0.25]).dtype == HALF
    assert tg.Tape(y, y).flow([1.0, 1.0])[y].dtype == HALF
    (y.sum() + w.sum() + w[0]).backward()
    assert w.grad.tolist() == [4.0, 3.0] and w.grad.dtype == HALF


def test_a_bias_and_a_table_learn_from_every_row() -> None:
    layer = tg.nn.Linear(1, 2, dtype=HALF, rng=0)
    layer(ones(MANY, 1)).sum().backward()
    assert layer.b.grad.tolist() == [MANY, MANY]
    table = tg.nn.Embedding(2, 1, dtype=HALF, rng=0)
    table(np.zeros(MANY, int)).sum().backward()
    assert table.table.grad.tolist() == [[MANY], [0.0]]


def test_the_bias_of_an_lstm_learns_from_every_row() -> None:
    cell = tg.nn.LSTMCell(1, 1, dtype=HALF, rng=0)
    rows = 8192
    cell(tg.Tensor(ones(rows, 1)), cell.initial_state((rows,)))[0].sum().backward()
    wide = tg.nn.LSTMCell(1, 1, dtype=np.float32, rng=0)
    wide.A.data, wide.b.data = cell.A.data.astype(np.float32), cell.b.data.astype(np.float32)
    wide(tg.Tensor(np.ones((rows, 1), np.float32)), wide.initial_state((rows,)))[0].sum().backward()
    np.testing.assert_allclose(cell.b.grad, wide.b.grad, rtol=2e-3)
    assert cell.b.grad[1] > 300


def test_a_replay_of_float16_gives_the_bits_of_the_function() -> None:
    rng = np.random.default_rng(0)
    net = tg.nn.LSTM(2, 3, dtype=HALF, rng=0)
    head = tg.nn.Linear(3, 4, dtype=HALF, rng=1)
    xs, targets = rng.normal(size=(6, 5, 2)).astype(HALF), rng.integers(0, 4, (6, 5))

    def loss_of(xs: Any, targets: Any) -> tg.Tensor:
        return tg.nn.cross_entropy(head(net(xs)[0]), targets)

    parameters = [*net.parameters(), *head.parameters()]
    loss_of(tg.Tensor(xs), targets).backward()
    right = [x.grad for x in parameters]
    step = tg.replay(loss_of, wrt=parameters)
    for _ in range(2):
        for x in parameters:
            x.zero_grad()
        step(xs, targets)
        assert all(np.array_equal(x.grad, g) for x, g in zip(parameters, right, strict=True))
    namespace: dict[str, Any] = {}
    exec(step.program.source(), namespace)
    _, *gradients = namespace["step"](xs, targets, *(x.data for x in step.program.parameters))
    for x, g in zip(step.program.parameters, gradients, strict=True):
        assert g.dtype == HALF and np.array_equal(g, x.grad)


# Totals of the forward pass ------------------------------------------------------------------------------------------


def test_means_are_numpys_and_the_softmax_family_sums_to_one() -> None:
    x = tg.Tensor(ones(MANY, 2))
    assert x.mean(0).tolist() == np.mean(x.data, 0).tolist() == [1.0, 1.0]
    assert x.softmax(0).data.astype(float).sum(0).tolist() == [1.0, 1.0]
    assert (x * 0.0).logsumexp(0).tolist() == [HALF(np.log(MANY))] * 2
    assert x.log_softmax(0).data[0].tolist() == [HALF(-np.log(MANY))] * 2


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_variance_and_deviation_are_those_of_the_numbers(axis: int | None) -> None:
    values = (np.arange(MANY * 2) % 7).reshape(MANY, 2).astype(HALF)
    for mine, numpys in ((tg.var, np.var), (tg.std, np.std), (tg.norm, np.linalg.norm)):
        right = numpys(values.astype(float), axis=axis)
        assert mine(tg.Tensor(values), axis).dtype == HALF
        np.testing.assert_allclose(mine(tg.Tensor(values), axis).data, right, rtol=1e-3)


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "min", "cumsum"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_reduction_that_numpy_has_is_numpys_bit_for_bit(reduction: str, axis: int | None) -> None:
    values = np.random.default_rng(1).uniform(0.5, 1.5, (300, 5)).astype(HALF)
    mine, numpys = (getattr(package, reduction) for package in (tg, np))
    np.testing.assert_array_equal(mine(tg.Tensor(values), axis=axis).data, numpys(values, axis=axis))


def test_more_ties_than_float16_can_count_share_the_gradient() -> None:
    x = leaf(np.ones(70000))
    for y in (x.max(), x.min()):
        share = tg.grad(y, x)
        assert share.dtype == HALF and np.array_equal(share, np.full(70000, HALF(1 / 70000)))
    assert x.mean().item() == 1 and tg.grad(x.mean(), x)[0] == HALF(1 / 70000)


def test_the_softmaxs_gradient_sums_many_small_products() -> None:
    x, seed = leaf(np.zeros(MANY)), ones(MANY)
    assert not tg.grad(x.softmax(), x, seed).any()
    chosen = np.zeros(MANY, HALF)
    chosen[0] = 1
    assert tg.grad(x.log_softmax(), x, chosen)[1] == pytest.approx(-1 / MANY, rel=5e-3)
    assert tg.grad(x.logsumexp(), x)[0] == HALF(1 / MANY)


@pytest.mark.filterwarnings("error")
def test_losses_of_more_entries_than_float16_can_count() -> None:
    logits = leaf(np.zeros((70000, 2)))
    loss = tg.nn.cross_entropy(logits, np.zeros(70000, int))
    assert loss.item() == HALF(np.log(2)) and tg.grad(loss, logits)[0, 1] == HALF(0.5 / 70000)
    half = np.arange(70000) % 2
    ignoring = tg.nn.cross_entropy(logits, half, ignore_index=1)
    assert ignoring.item() == HALF(np.log(2)) and tg.grad(ignoring, logits)[1].tolist() == [0, 0]
    assert tg.nn.cross_entropy(tg.Tensor(np.zeros((1, 70000), HALF)), [0]).item() == HALF(np.log(70000))
    flat = leaf(np.full(70000, 3.0))
    assert tg.nn.mse(flat, np.zeros(70000, HALF)).item() == 9
    assert tg.nn.bce_with_logits(leaf(np.zeros(70000)), np.ones(70000, HALF)).item() == HALF(np.log(2))


# Squares that overflow or underflow ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("dtype", "size", "eps"),
    [(HALF, 300.0, 1e-5), (HALF, 6e4, 0.0), (HALF, 1e-7, 0.0), (np.float32, 1e20, 1e-5), (np.float32, 3e38, 0.0),
     (np.float32, 1e-30, 0.0), (np.float32, 1e-44, 0.0), (np.float64, 1e200, 1e-5), (np.float64, 1e-200, 0.0)],
)  # fmt: skip
def test_a_row_is_normalised_whatever_its_size(dtype: type, size: float, eps: float) -> None:
    layer = tg.nn.LayerNorm(2, eps=eps, dtype=dtype)
    x = leaf([[size, -size], [1.0, 3.0]], dtype)
    y = layer(x)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.data, [[1.0, -1.0], [-1.0, 1.0]], rtol=2e-3 if dtype == HALF else 1e-4)
    g = tg.grad(y, layer.gain, np.asarray([[1.0, 2.0], [0.0, 0.0]], dtype))
    np.testing.assert_allclose(g, [1.0, -2.0], rtol=2e-3)


def test_a_row_far_below_eps_keeps_its_digits() -> None:
    y = tg.nn.LayerNorm(2, dtype=np.float32)(np.array([1e-30, -1e-30], np.float32))
    np.testing.assert_allclose(y.data, np.array([1e-30, -1e-30]) / np.sqrt(1e-5), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layer_norm_of_usual_numbers_keeps_its_bits(dtype: type) -> None:
    x = tg.Tensor(np.random.default_rng(0).normal(size=(5, 8)).astype(dtype))
    centred = x - x.mean(-1, keepdims=True)
    scale = (centred.square().mean(-1, keepdims=True) + 1e-5).sqrt()
    np.testing.assert_array_equal(tg.nn.LayerNorm(8, dtype=dtype)(x).data, (centred / scale).data)


def test_the_power_of_two_of_a_row_is_one_in_the_usual_range() -> None:
    x = np.array([[1e-3, 5.0], [1e30, -3.0], [0.0, 0.0], [1e-30, 0.0], [np.inf, 1.0]], np.float32)
    assert ops.unit(x).tolist() == [[1.0], [2.0**99], [1.0], [2.0**-100], [1.0]]
    assert ops.unit(x[3:4], least=1e-3).tolist() == [[1.0]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("real", [None, [[True, False], [True, True], [False, True]]])
def test_a_layer_of_zeros_is_normalised_to_zeros(real: Any) -> None:
    mix = tg.nn.ScalarMix(2, layer_norm=True, dtype=HALF)
    assert not mix(np.zeros((2, 3, 2, 4), HALF), real).data.any()


def test_a_layer_of_large_numbers_is_normalised_in_float16() -> None:
    layers = np.random.default_rng(0).normal(size=(2, 3, 2, 4)) * 300
    mix = tg.nn.ScalarMix(2, layer_norm=True, dtype=HALF)
    wide = tg.nn.ScalarMix(2, layer_norm=True)
    np.testing.assert_allclose(mix(layers.astype(HALF)).data, wide(layers).data, atol=4e-3)
    assert mix(layers.astype(HALF)).dtype == HALF
