"""Faults that people reported against other frameworks, restated, with the right values: one case each.

The name of a case is its number in the collection that the values were computed for: broadcasting (BR), graphs (GR),
aliasing (AL), products (MM), dtypes (DT), indices (IX), shapes (SH), numerics (NU), softmax (SM), Python (PY),
embeddings (RD).
"""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg

inf = np.inf


def leaf(values: Any, dtype: Any = np.float64) -> tg.Tensor:
    return tg.Tensor(values, requires_grad=True, dtype=dtype)


def count(*shape: int) -> Any:
    """1, 2, 3, … in this shape."""
    return np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)


# A loss of some leaves, and the gradient of each ---------------------------------------------------------------------

CASES: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "a column times a row": (
        lambda a, b: (a * b).sum(),
        [count(4, 1), count(1, 4)],
        [np.full((4, 1), 10.0), np.full((1, 4), 10.0)],
    ),
    "two arrays that stretch each other": (
        lambda x, y: (x * y).sum(),
        [count(2, 1, 3), count(4, 1)],
        [np.full((2, 1, 3), 10.0), np.full((4, 1), 21.0)],
    ),
    "a number times a matrix": (lambda s, y: (s * y).sum(), [3.0, count(2, 2)], [10.0, np.full((2, 2), 3.0)]),
    "a vector under a matrix": (
        lambda a, b: (a / b).sum(),
        [np.stack([count(4)] * 2), count(4)],
        [1 / np.stack([count(4)] * 2), [-2.0, -1.0, -2 / 3, -0.5]],
    ),
    "an axis of length 0": (
        lambda z, b: (z + b[:, None]).sum(),
        [np.zeros((4, 0)), count(4)],
        [np.zeros((4, 0)), np.zeros(4)],
    ),
    "graph, two readers": (lambda x: 2 * (y := 3 * x) + 5 * y, [2.0], [21.0]),
    "graph, sum with itself": (lambda a: (b := a + a) + b, [1.0], [4.0]),
    "one leaf by three routes": (lambda x: x * (x * 1) + x**2 * 1 + x * (x * 1), [1.0], [6.0]),
    "a constant stacked with an entry": (
        lambda x: (x**2).sum() + (tg.stack([tg.Tensor(5.0), x[1]]) ** 2).sum(),
        [[1.0, 2.0]],
        [[2.0, 8.0]],
    ),
    "matmul, vectors": (lambda a, b: a @ b, [count(3), [4.0, 0.5, 7.0]], [[4.0, 0.5, 7.0], count(3)]),
    "matmul, vector with itself": (lambda b: b @ b, [count(3)], [[2.0, 4.0, 6.0]]),
    "a batch of matrices times a matrix": (
        lambda a, b: (a @ b).sum(),
        [count(2, 2, 2), [[9.0, 10.0], [11.0, 12.0]]],
        [np.full((2, 2, 2), [19.0, 23.0]), [[16.0, 16.0], [20.0, 20.0]]],
    ),
    "matmul, vector and batch": (
        lambda k, b: (k @ b).sum(),
        [[1.0, 10.0, 100.0], count(4, 3, 2)],
        [count(4, 3, 2).sum((0, 2)), np.broadcast_to([[1.0], [10.0], [100.0]], (4, 3, 2))],
    ),
    "dtype, python scalars": (lambda x: (x * 2.0 + 1 - 0.5).sum() / 2, [np.float32([1, 2])], [np.float32([1, 1])]),
    "an entry read twice": (lambda x: x[[0, 0]].sum(), [[1.0]], [[2.0]]),
    "a mask beside the whole": (
        lambda x: x[np.array([True, False, True])].sum() + x.sum(),
        [count(3)],
        [[2.0, 1.0, 2.0]],
    ),
    "index, reversed": (lambda x: (count(5) * x[::-1]).sum(), [count(5)], [[5.0, 4.0, 3.0, 2.0, 1.0]]),
    "index, long step": (lambda x: x[1:3:4].sum(), [count(5)], [[0.0, 1.0, 0.0, 0.0, 0.0]]),
    "index, long step back": (lambda x: x[4:0:-5].sum(), [count(5)], [[0.0, 0.0, 0.0, 0.0, 1.0]]),
    "a tensor joined with itself": (
        lambda x: (tg.concat([x, x], axis=-1) * [1.0, 2.0, 3.0, 4.0]).sum(),
        [count(2, 2)],
        [[[4.0, 6.0], [4.0, 6.0]]],
    ),
    "a join with nothing": (
        lambda x, z: tg.concat([x, z]).sum(),
        [count(2, 5), np.zeros((0, 5))],
        [np.ones((2, 5)), np.zeros((0, 5))],
    ),
    "reduction, square": (
        lambda x: (np.array([1.0, 10.0, 100.0]) * x.sum(1)).sum(),
        [count(3, 3)],
        [[[1.0] * 3, [10.0] * 3, [100.0] * 3]],
    ),
    "reduction, cube": (
        lambda x: (np.array([1.0, 10.0, 100.0]) * x.mean((0, -1))).sum(),
        [count(3, 3, 3)],
        [np.broadcast_to([[1 / 9], [10 / 9], [100 / 9]], (3, 3, 3))],
    ),
    "empty, sum": (lambda x: x.sum(), [np.zeros((2, 0))], [np.zeros((2, 0))]),
    "a tie of max": (tg.max, [[2.0, 2.0, 1.0]], [[0.5, 0.5, 0.0]]),
    "tie, with itself": (lambda x: tg.maximum(x, x), [0.7], [1.0]),
    "tie, relu at 0": (tg.relu, [0.0], [0.0]),
    "tie, tie with a constant": (lambda x: tg.maximum(x, 0.0), [0.0], [0.5]),
    "kink, abs": (tg.abs, [0.0], [0.0]),
    "kink, norm": (tg.norm, [[0.0, 0.0]], [[0.0, 0.0]]),
    "kink, std": (tg.std, [[3.0, 3.0, 3.0]], [[0.0, 0.0, 0.0]]),
    "power, tensor exponent": (lambda a, b: (a**b).sum(), [[0.0, 2.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 2 * np.log(2)]]),
    "power, base 0": (lambda a: (a ** np.array([2.0, 1.0, 0.0])).sum(), [[0.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]),
    "power, plain exponents": (lambda a: a**2 + a**1 + a**0, [0.0], [1.0]),
    "negative base, square": (lambda a: a**2, [-2.0], [-4.0]),
    "negative base, cube": (lambda a: a**3, [-2.0], [12.0]),
    "negative base, exponents in an array": (
        lambda a: (a ** np.array([2.0, 3.0])).sum(),
        [[-2.0, -2.0]],
        [[-4.0, 12.0]],
    ),
    "where, double where": (
        lambda x: tg.where((ok := x >= 0), x, tg.sqrt(tg.where(ok, 1.0, -x))).sum(),
        [[1.0, -1.0]],
        [[1.0, -0.5]],
    ),
    "a product with a zero": (tg.prod, [[2.0, 0.0, 3.0]], [[0.0, 6.0, 0.0]]),
    "prod, two zeros": (tg.prod, [[0.0, 2.0, 0.0]], [[0.0, 0.0, 0.0]]),
    "cross-entropy of a certain wrong class": (lambda x: tg.nn.cross_entropy(x, 0), [[0.0, 1000.0]], [[-1.0, 1.0]]),
    "cross-entropy, masked": (
        lambda x: tg.nn.cross_entropy(x, 0),
        [[0.0, 1.0, -inf]],
        [[-0.7310585786, 0.7310585786, 0.0]],
    ),
    "fully masked, logsumexp": (tg.logsumexp, [[-inf, -inf]], [[0.0, 0.0]]),
    "fully masked, softmax": (
        lambda x: (tg.softmax(x) * [[1.0, 10.0], [1.0, 10.0]]).sum(),
        [[[-inf, -inf], [0.0, 0.0]]],
        [[[0.0, 0.0], [-2.25, 2.25]]],
    ),
    "rows of a table read again": (
        lambda table: (
            (tg.embedding(table, [1, 1, 2, 0]) * np.array([[1.0], [10.0], [100.0], [1000.0]]))
            * np.array([[1.0], [1.0], [1.0], [0.0]])
        ).sum(),
        [np.eye(4)],
        [np.broadcast_to([[0.0], [11.0], [100.0], [0.0]], (4, 4))],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_gradient(case: str) -> None:
    loss, values, right = CASES[case]
    leaves = [leaf(value, getattr(value, "dtype", np.float64)) for value in values]
    loss(*leaves).backward()
    for x, expected in zip(leaves, right, strict=True):
        assert x.grad.shape == x.shape and x.grad.dtype == x.dtype
        np.testing.assert_allclose(x.grad, expected, rtol=1e-10)
        np.testing.assert_array_equal(tg.grad(loss(*leaves), x, create_graph=True).data, x.grad)


# Broadcasting --------------------------------------------------------------------------------------------------------


def test_the_sum_of_nothing_is_0() -> None:
    assert (leaf(np.zeros((4, 0))) + leaf(count(4))[:, None]).sum().item() == 0


def test_a_seed_has_the_shape_of_the_result_or_none() -> None:
    x = leaf(count(2, 3), np.float32)
    (x * 1.0).backward(1)
    assert x.grad.tolist() == [[1.0] * 3] * 2 and x.grad.dtype == np.float32
    for shape in [(3,), (1, 2, 3), (1,)]:
        with pytest.raises(ValueError, match="seed"):
            (x * 1.0).backward(np.ones(shape))
    (x * 1.0).backward(count(2, 3))  # float64
    assert x.grad.tolist() == (1 + count(2, 3)).tolist() and x.grad.dtype == np.float32


# Graphs --------------------------------------------------------------------------------------------------------------


def test_a_second_backward_adds_as_much_again_or_raises() -> None:
    for retained in (True, False):
        a, b, d = leaf(3.0), leaf(2.0), leaf(1.0)
        e = (a + b) * d
        e.backward(retain_graph=retained)
        if retained:
            e.backward()
            assert (a.grad, d.grad) == (2, 10)
        else:
            with pytest.raises(tg.TapeReleasedError):
                e.backward()
            assert (a.grad, d.grad) == (1, 5)


def test_results_that_depend_on_each_other() -> None:
    x = leaf(2.0)
    y = x**2
    z = y**3
    assert tg.grad([y, z], x).item() == tg.grad([z, y], x).item() == 196
    assert tg.Tape(y, z).flow()[x].item() == 196


def test_depth() -> None:
    y = x = leaf(1.0)
    for _ in range(20_000):
        y = y + 1e-4 * y
    assert repr(y).startswith("Tensor(7.388")
    y.backward()
    assert x.grad.item() == pytest.approx(7.388317279514934, rel=1e-12)


@pytest.mark.parametrize("backward", [False, True], ids=["unread", "read"])
def test_no_reference_cycle(backward: bool) -> None:
    gc.disable()
    try:
        x = leaf(1.0)
        y = 2 * x
        z = y**2
        if backward:
            z.backward()
        watched = weakref.ref(y)
        del y, z
        assert watched() is None
    finally:
        gc.enable()


# Aliasing ------------------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_sum_is_an_array_of_its_own() -> None:
    x = leaf([1.0, 2.0])
    (x.sum() + (x**2).sum()).backward()
    assert x.grad.tolist() == [3.0, 5.0]
    x.grad[0] = 0
    assert x.grad.tolist() == [0.0, 5.0]
    y = leaf([1.0, 2.0])
    y.sum().backward()
    y.grad[0] = 0
    assert y.grad.tolist() == [0.0, 1.0]


def test_a_saved_value_is_not_overwritten() -> None:
    x = leaf(count(3))
    b = tg.sigmoid(x)
    with pytest.raises(ValueError, match="read-only"):
        b.data[1] = 2
    b.sum().backward()
    np.testing.assert_allclose(x.grad, [0.19661193, 0.10499359, 0.04517666], atol=1e-8)


def test_what_detach_shares_is_not_written_to() -> None:
    x = leaf(count(3))
    o = tg.sigmoid(x)
    with pytest.raises(ValueError, match="read-only"):
        o.detach().data[:] = 0
    with pytest.raises(TypeError, match="immutable"):
        o.detach()[:] = 0
    o.sum().backward()
    np.testing.assert_allclose(x.grad, [0.19661193, 0.10499359, 0.04517666], atol=1e-8)


def test_a_leaf_that_is_updated_between_forward_and_backward() -> None:
    w, x = leaf([2.0]), leaf([3.0])
    y = (w * x).sum()
    with pytest.raises(ValueError, match="read-only"):
        w.data[0] = 100
    w.data = np.array([100.0])
    y.backward()
    assert x.grad.tolist() == [2.0] and w.grad.tolist() == [3.0]


def test_items_are_not_assigned() -> None:
    with pytest.raises(TypeError, match=r"tg\.stack"):
        leaf([1.0, 2.0])[0] = 5.0


# Products ------------------------------------------------------------------------------------------------------------


def test_a_matrix_and_a_vector() -> None:
    A, b, g = leaf(count(3, 3)), leaf(count(3)), np.array([1.0, 10.0, 100.0])
    dA, db = tg.grad(A @ b, [A, b], g)
    assert dA.tolist() == np.outer(g, count(3)).tolist() and db.tolist() == [741.0, 852.0, 963.0]
    dA, db = tg.grad(b @ A, [A, b], g)
    assert dA.tolist() == np.outer(count(3), g).tolist() and db.tolist() == [321.0, 654.0, 987.0]


def test_batches_that_broadcast() -> None:
    rng = np.random.default_rng(0)
    a, b = (leaf(rng.integers(-3, 4, shape)) for shape in [(2, 1, 2, 3), (1, 3, 3, 2)])
    g = rng.integers(-3, 4, (2, 3, 2, 2)).astype(float)
    da, db = tg.grad(a @ b, [a, b], g)
    np.testing.assert_array_equal(da, np.einsum("xyij,ykj->xik", g, b.data[0])[:, None])
    np.testing.assert_array_equal(db, np.einsum("xyij,xik->ykj", g, a.data[:, 0])[None])


# dtypes --------------------------------------------------------------------------------------------------------------


def test_an_integer_leaf_has_no_gradient() -> None:
    with pytest.raises(TypeError, match="int64"):
        tg.Tensor([1, 2, 3], requires_grad=True)


def test_python_numbers_are_weak_and_numpy_numbers_are_not() -> None:
    x = leaf(count(2), np.float32)
    assert (x * 2.0).dtype == sum([x[0], x[1]]).dtype == np.float32
    assert (x * np.float64(2.0)).dtype == np.float64
    (x * np.float64(2.0)).sum().backward()
    assert x.grad.dtype == np.float32


@pytest.mark.parametrize(
    ("operation", "value", "gradient"),
    [
        (lambda arr, x: arr * x, [4.0, 10.0, 18.0], [1.0, 2.0, 3.0]),
        (lambda arr, x: arr - x, [-3.0, -3.0, -3.0], [-1.0, -1.0, -1.0]),
        (lambda arr, x: arr / x, [1 / 4, 2 / 5, 1 / 2], [-1 / 16, -2 / 25, -3 / 36]),
        (lambda arr, x: arr @ x, 32.0, [1.0, 2.0, 3.0]),
        (lambda arr, x: arr**x, [1.0, 32.0, 729.0], [0.0, 32 * np.log(2), 729 * np.log(3)]),
        (lambda arr, x: np.float64(2) - x, [-2.0, -3.0, -4.0], [-1.0, -1.0, -1.0]),
    ],
    ids=["multiply", "subtract", "divide", "matmul", "power", "numpy-number"],
)
def test_an_array_on_the_left(operation: Callable[[Any, Any], Any], value: Any, gradient: Any) -> None:
    x = leaf([4.0, 5.0, 6.0])
    y = operation(count(3), x)
    assert type(y) is tg.Tensor and y.dtype == np.float64
    np.testing.assert_allclose(y.data, value)
    np.testing.assert_allclose(tg.grad(y, x, 1.0), gradient)


def test_numpys_functions_keep_the_graph_or_refuse() -> None:
    x, array = leaf(count(3)), count(3)
    assert tg.grad(np.multiply(x, x), x, 1.0).tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(TypeError, match="no rule for tensors"):
        array += x
    assert array.tolist() == [1.0, 2.0, 3.0]


# Indices -------------------------------------------------------------------------------------------------------------


def test_advanced_indices_that_a_slice_splits() -> None:
    X, W, right = leaf(count(2, 3, 4)), count(3, 3), np.zeros((2, 3, 4))
    picked = X[[0, 1, 1], :, [3, 0, 0]]
    np.add.at(right, ([0, 1, 1], slice(None), [3, 0, 0]), W)
    gradient = tg.grad(picked, X, W)
    np.testing.assert_array_equal(gradient, right)
    assert gradient[1, :, 0].tolist() == [11.0, 13.0, 15.0]


def test_an_assignment_to_places_that_repeat_is_no_operation() -> None:
    z = leaf(np.zeros((5, 2)))
    with pytest.raises(TypeError, match="immutable"):
        z[[0] * 5] = np.arange(10.0).reshape(5, 2)


@pytest.mark.parametrize("ids", [[-1], [7], [0, 3], [1, -3]])
def test_an_id_out_of_range_is_no_row(ids: list[int]) -> None:
    table = leaf(np.eye(3))
    for look_up in (lambda: tg.embedding(table, ids), lambda: tg.nn.Embedding(3, 2, rng=0)(ids)):
        with pytest.raises(IndexError, match=r"ids lie in 0\.\.2"):
            look_up()
    assert table[-1].tolist() == [0.0, 0.0, 1.0]


def test_the_mean_of_nothing_is_nan_with_a_warning_and_no_crash() -> None:
    with pytest.warns(RuntimeWarning, match="invalid value"):
        assert np.isnan(leaf(np.zeros(0)).mean().item())
    with pytest.warns(RuntimeWarning):
        assert leaf(np.zeros((2, 0))).mean(axis=1).shape == (2,)


# Numerics ------------------------------------------------------------------------------------------------------------


def test_a_square_root_as_a_power_is_infinitely_steep_at_0() -> None:
    x = leaf([0.0, 4.0])
    for y in (x**0.5, x ** np.array([0.5, 0.5])):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            assert tg.grad(y, x, 1.0).tolist() == [inf, 0.25]


def test_a_branch_that_was_not_taken_needs_a_safe_input_as_the_reference_says() -> None:
    x = leaf(100.0)
    assert tg.grad(tg.where(x > 0, 0.0, tg.exp(x)), x).item() == 0
    for loss in (lambda x: tg.where(x >= 0, x, tg.sqrt(-x)), lambda x: tg.where(x > 0, 0.0, tg.exp(x * 1e10))):
        x = leaf(1.0)
        with pytest.warns(RuntimeWarning):
            assert np.isnan(tg.grad(loss(x), x))
    assert "0·inf is nan" in str(tg.where.__doc__) and "second where" in str(tg.where.__doc__)


def test_saturated_logits() -> None:
    x = leaf([-50.0, 50.0, 1000.0, -1000.0])
    losses = tg.nn.bce_with_logits(x, [1.0, 0.0, 1.0, 0.0], reduction="none")
    np.testing.assert_allclose(losses.data, [50.0, 50.0, 0.0, 0.0], rtol=1e-15)
    np.testing.assert_allclose(tg.grad(losses, x, 1.0), [-1.0, 1.0, 0.0, 0.0], rtol=1e-15)


# Softmax and its family ----------------------------------------------------------------------------------------------


def test_sigmoid_at_1000() -> None:
    x = leaf([-1000.0, -100.0, 0.0, 100.0, 1000.0])
    y = tg.sigmoid(x)
    np.testing.assert_allclose(y.data, [0.0, 3.720075976020836e-44, 0.5, 1.0, 1.0], rtol=1e-14)
    np.testing.assert_allclose(tg.grad(y, x, 1.0), [0.0, 3.720075976020836e-44, 0.25, 0.0, 0.0], rtol=1e-14, atol=4e-44)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sigmoid_of_the_same_number_is_the_same_in_small_and_large_arrays(dtype: type) -> None:
    edge = -np.log(np.finfo(dtype).max)
    for x in (np.nextafter(edge, dtype(0)), edge, np.nextafter(edge, dtype(-np.inf))):
        small, large = (tg.sigmoid(np.full(n, x, dtype)) for n in (10, 10_000))
        assert {*small.tolist()} == {*large.tolist()}, x


def test_a_row_that_is_masked_out_leaves_the_others_finite() -> None:
    x = leaf([[-inf, -inf, -inf], [0.0, 1.0, -inf]])
    assert tg.softmax(x).tolist()[0] == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(tg.softmax(x).data[1], [0.2689414214, 0.7310585786, 0.0])
    assert tg.logsumexp(x).tolist()[0] == -inf and np.isfinite(tg.logsumexp(x).data[1])
    weights = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    for operation in (tg.softmax, tg.logsumexp):
        y = operation(x)
        gradient = tg.grad(y, x, weights if y.ndim == 2 else 1.0)
        assert gradient[0].tolist() == [0.0, 0.0, 0.0] and np.isfinite(gradient).all() and gradient[1].any()


def test_ignored_targets_do_not_count() -> None:
    x = leaf([[1.0, 2.0, 3.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    loss = tg.nn.cross_entropy(x, [0, -100, 2], ignore_index=-100)
    assert loss.item() == pytest.approx(1.7531091266, abs=1e-9)
    right = [[-0.45498471, 0.12236424, 0.33262048], [0.0, 0.0, 0.0], [0.16666667, 0.16666667, -0.33333333]]
    np.testing.assert_allclose(tg.grad(loss, x), right, atol=1e-8)
    nothing = tg.nn.cross_entropy(x, [1, 1, 1], ignore_index=1)
    assert nothing.item() == 0 and not tg.grad(nothing, x).any()


@pytest.mark.parametrize("operation", [tg.softmax, lambda x: tg.exp(tg.log_softmax(x))], ids=["softmax", "log_softmax"])
def test_the_default_axis_is_the_last(operation: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(operation(leaf(np.zeros((2, 3, 4)))).sum(-1).data, np.ones((2, 3)), rtol=1e-15)
    np.testing.assert_allclose(operation(leaf([0.0, 0.0])).data, [0.5, 0.5], rtol=1e-15)


# Python --------------------------------------------------------------------------------------------------------------


def test_tensors_are_keys_although_equality_is_elementwise() -> None:
    t, other = leaf([1.0, 2.0]), leaf([1.0, 3.0])
    assert {t: "t", other: "other"}[t] == "t" and t in {t} and other not in {t}
    assert t in [t] and len(dict.fromkeys([t, other, t])) == 2
    (t * other).sum().backward()
    optimiser = tg.optim.SGD([t, other], lr=1.0)
    optimiser.step()
    assert t.tolist() == [0.0, -1.0] and other.tolist() == [0.0, 1.0]


def test_only_one_number_is_a_number_and_none_is_a_sequence() -> None:
    number = leaf(2.0)
    for question in (list, sum, len, tuple):
        with pytest.raises(TypeError):
            question(number)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tg.Tensor([1.0, 0.0]))
    with pytest.raises(TypeError):
        float(leaf([1.0, 2.0]))
    assert bool(number) and number.item() == 2 and sum(leaf([1.0, 2.0])).item() == 3


def test_a_padding_row_is_zero_and_gets_no_gradient() -> None:
    table = tg.nn.Embedding(4, 2, padding=0, rng=0)
    seeds = np.array([[1.0], [10.0], [100.0], [1000.0]]) * [1.0, 1.0]
    table([1, 1, 2, 0]).backward(seeds)
    assert table.table.grad[:, 0].tolist() == [0.0, 11.0, 100.0, 0.0]
    assert table([0]).tolist() == [[0.0, 0.0]]
