"""Conventions where there was a choice: slopes at bounds, seeds of one result, joins without an axis."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg
from tinygrad_seq.engine import ops
from tinygrad_seq.engine.numerics import LARGEST


def leaf(values: Any) -> tg.Tensor:
    return tg.Tensor(np.asarray(values, float), requires_grad=True)


CLIPS: dict[str, Callable[..., Any]] = {
    "tg.clip": tg.clip,
    "the method": lambda x, low, high: x.clip(low, high),
    "np.clip": lambda x, low, high: np.clip(x, low, high),
}


@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS)
def test_clip_has_slope_1_within_and_at_both_bounds(clip: Callable[..., Any]) -> None:
    x = leaf([-2.0, -1.0, 0.5, 3.0, 4.0])
    for y, slope in [
        (clip(x, -1.0, 3.0), [0.0, 1.0, 1.0, 1.0, 0.0]),
        (clip(x, None, 3.0), [1.0, 1.0, 1.0, 1.0, 0.0]),
        (clip(x, -1.0, None), [0.0, 1.0, 1.0, 1.0, 1.0]),
        (clip(x, 3.5, 0.25), [0.0, 0.0, 0.0, 0.0, 0.0]),  # NumPy takes the upper bound then
    ]:
        assert tg.grad(y, x, 1.0).tolist() == tg.grad(y, x, 1.0, create_graph=True).tolist() == slope
    np.testing.assert_array_equal(clip(x, 3.5, 0.25).data, np.clip(x.data, 3.5, 0.25))


def test_a_bound_that_is_a_tensor_gets_the_credit_of_what_it_replaced() -> None:
    x, low, high = leaf([0.0, 1.0, 2.0, 3.0]), leaf(1.0), leaf([2.5, 2.5, 2.0, 2.5])
    for g, right in zip(
        tg.grad(tg.clip(x, low, high), [x, low, high], [1.0, 2.0, 4.0, 8.0]),
        ([0.0, 2.0, 4.0, 0.0], 1.0, [0.0, 0.0, 0.0, 8.0]),
        strict=True,
    ):
        assert g.tolist() == right


def test_a_state_exactly_at_its_bound_keeps_its_credit() -> None:
    """f = o = 1, i = 0: the cell carries 3 on for ten steps, clipped at 3."""
    cell = tg.nn.LSTMCell(1, 1, rng=0, cell_clip=3.0)
    cell.A.data, cell.b.data = np.zeros(cell.A.shape), np.array([1000.0, -1000.0, 1000.0, 0.0])
    h, c = tg.Tensor(np.zeros(1)), (c0 := leaf([3.0]))
    for _ in range(10):
        h, (_, c) = cell(tg.Tensor(np.ones(1)), tg.nn.LSTMState(h, c))
    assert c.item() == 3 and tg.grad(c, c0).tolist() == [1.0]


def test_a_projection_exactly_at_its_bound_keeps_its_credit() -> None:
    cell = tg.nn.LSTMCell(1, 1, rng=0, projection=1, projection_clip=0.25)
    cell.A.data, cell.b.data = np.zeros(cell.A.shape), np.array([1000.0, -1000.0, 1000.0, 0.0])
    cell.P.data = np.array([[0.25]])
    h, _ = cell(tg.Tensor(np.ones(1)), tg.nn.LSTMState(np.zeros(1), np.full(1, 1000.0)))
    assert h.item() == 0.25 and tg.grad(h, cell.P).item() == 1


def test_one_result_in_a_list_takes_one_seed_in_a_list() -> None:
    x = leaf([1.0, 2.0])
    y, seed = x * 3.0, np.array([1.0, 10.0])
    for given in (seed, [seed], [tg.Tensor(seed)], [[1.0, 10.0]]):
        assert tg.grad([y], [x], seed=given)[0].tolist() == [3.0, 30.0]
    assert tg.grad([y, y], x, seed=[seed, seed]).tolist() == [6.0, 60.0]
    with pytest.raises(ValueError, match="needs its shape"):
        tg.grad([y], x, seed=[[1.0]])


def test_without_an_axis_the_parts_are_joined_flat() -> None:
    a, b = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf(5.0)
    for join in (tg.concat, tg.concatenate, np.concatenate):
        y = join([a, b], axis=None)
        assert y.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
        by_a, by_b = tg.grad(y, [a, b], [1.0, 2.0, 3.0, 4.0, 5.0])
        assert by_a.tolist() == [[1.0, 2.0], [3.0, 4.0]] and by_b == 5
    assert tg.concat([np.ones((1, 2)), np.zeros(1)], axis=None).tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("axes", [(-1, 0, 1), (1, 2, 0), (-2, -1, 0), [2, 0, 1], (0, 2, 1)])
def test_a_transposed_cube_sends_its_gradient_back_by_the_inverse(axes: Any) -> None:
    x, seed = leaf(np.zeros((3, 3, 3))), np.arange(27.0).reshape(3, 3, 3)
    right = np.zeros((3, 3, 3))
    right.transpose(axes)[...] = seed
    for g in (tg.grad(tg.transpose(x, axes), x, seed), tg.grad(ops.transpose(x, tuple(axes)), x, seed)):
        np.testing.assert_array_equal(g, right)
    if tuple(axes) == (-1, 0, 1):
        np.testing.assert_array_equal(right, seed.transpose(1, 2, 0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sigmoid_is_the_same_in_small_and_large_arrays_up_to_the_last_exponential(dtype: type) -> None:
    edge = LARGEST[np.dtype(dtype)]
    assert np.isfinite(np.exp(edge))
    for x in (-edge, np.nextafter(-edge, dtype(-np.inf))):
        small, large = tg.sigmoid(np.full(1, x)), tg.sigmoid(np.full(6000, x))
        assert small.dtype == dtype and small[0] == large[0] == large[-1]
    assert tg.sigmoid(np.array([-709.782712893384]))[0] == pytest.approx(5.56e-309, rel=1e-2)
