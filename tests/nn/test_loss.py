"""Losses, the softmax family, layer norm and embedding against values that PyTorch computed (tests/golden/losses.npz).

Then what PyTorch does not decide: the errors, the conventions, the second derivatives.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg

with np.load(Path(__file__).parents[1] / "golden" / "losses.npz") as file:
    GOLDEN = {key: file[key] for key in file.files}
CASES = sorted({key.partition("/")[0] for key in GOLDEN} - {"versions"})


def options(case: dict[str, Any]) -> dict[str, Any]:
    found = {"reduction": str(case["reduction"])}
    return found | {"ignore_index": int(case["ignore_index"])} if "ignore_index" in case else found


def layer_norm(case: dict[str, Any], leaves: dict[str, Any]) -> Any:
    layer = tg.nn.LayerNorm(leaves["x"].shape[-1], eps=float(case["eps"]), dtype=leaves["x"].dtype)
    layer.gain, layer.offset = leaves["weight"], leaves["bias"]
    return layer(leaves["x"])


def embedding(case: dict[str, Any], leaves: dict[str, Any]) -> Any:
    if "padding_idx" not in case:
        return tg.embedding(leaves["table"], case["ids"])
    layer = tg.nn.Embedding(*leaves["table"].shape, padding=int(case["padding_idx"]), rng=0)
    layer.table = leaves["table"]
    return layer(case["ids"])


OPERATIONS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "cross_entropy": lambda case, x: tg.nn.cross_entropy(x["logits"], case["target"], **options(case)),
    "bce_with_logits": lambda case, x: tg.nn.bce_with_logits(x["logits"], case["target"], **options(case)),
    "mse": lambda case, x: tg.nn.mse(x["prediction"], x["target"], **options(case)),
    "softmax": lambda case, x: tg.softmax(x["x"], axis=int(case["dim"])),
    "log_softmax": lambda case, x: tg.log_softmax(x["x"], axis=int(case["dim"])),
    "logsigmoid": lambda case, x: tg.logsigmoid(x["x"]),
    "softplus": lambda case, x: tg.softplus(x["x"]),
    "layer_norm": layer_norm,
    "embedding": embedding,
}


def close(found: Any, right: Any, dtype: Any) -> None:
    assert found.shape == right.shape and found.dtype == dtype
    if dtype == np.float32:
        np.testing.assert_allclose(found, right, rtol=3e-6, atol=1e-6)
    else:
        np.testing.assert_allclose(found, right, rtol=2e-14, atol=1e-15)  # PyTorch's own error, in the tails


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_are_pytorchs(name: str) -> None:
    case = {key.partition("/")[2]: array for key, array in GOLDEN.items() if key.startswith(f"{name}/")}
    dtype = np.float32 if name.endswith("f32") else np.float64
    inputs = [key.removeprefix("grad/") for key in case if key.startswith("grad/")]
    leaves = {key: tg.Tensor(case[key], requires_grad=True) for key in inputs}
    value = OPERATIONS[name.partition("-")[0]](case, leaves)
    close(value.data, case["value"], dtype)
    value.backward(case["cot/value"])
    for key, x in leaves.items():
        close(x.grad, case[f"grad/{key}"], dtype)


def test_every_recorded_case_is_one_of_ours() -> None:
    assert {name.partition("-")[0] for name in CASES} == set(OPERATIONS) and len(CASES) > 60


# Far out -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [-1000.0, -745.0, -100.0, -37.0, -1.0, 0.0, 1.0, 37.0, 100.0, 745.0, 1000.0])
def test_the_family_keeps_its_digits_in_both_tails(x: float) -> None:
    """Against the definitions in long double, taken where each of them loses nothing."""
    wide = np.longdouble(x)
    small = np.exp(-abs(wide))
    log_of_larger, log_of_smaller = -np.log1p(small), -abs(wide) - np.log1p(small)
    logsigmoid = log_of_smaller if x < 0 else log_of_larger
    softplus = -(log_of_larger if x < 0 else log_of_smaller)
    sigmoid = small / (1 + small) if x < 0 else 1 / (1 + small)
    for found, right in [
        (tg.logsigmoid(x), logsigmoid),
        (tg.softplus(x), softplus),
        (tg.sigmoid(x), sigmoid),
        (tg.softmax(np.array([x, 0.0]))[0], sigmoid),
        (tg.log_softmax(np.array([x, 0.0]))[0], logsigmoid),
        (tg.logsumexp(np.array([x, 0.0])), softplus),
        (tg.nn.bce_with_logits(tg.Tensor(x), 0.0).data, softplus),
        (tg.nn.cross_entropy(np.array([x, 0.0]), 0).data, -logsigmoid),
    ]:
        np.testing.assert_allclose(np.longdouble(found), right, rtol=4e-16, atol=5e-324)


def test_the_rates_in_the_tails_do_not_vanish_before_they_must() -> None:
    x = tg.Tensor([-300.0, 300.0], requires_grad=True)
    tail = np.exp(-300.0)
    np.testing.assert_allclose(tg.grad(tg.logsigmoid(x), x, 1.0), [1.0, tail], rtol=1e-14)
    np.testing.assert_allclose(tg.grad(tg.softplus(x), x, 1.0), [tail, 1.0], rtol=1e-14)
    rows = tg.Tensor([[0.0, -300.0]], requires_grad=True)
    np.testing.assert_allclose(tg.grad(tg.nn.cross_entropy(rows, [0]), rows)[0, 1], tail, rtol=1e-14)


@pytest.mark.parametrize("operation", [tg.softmax, tg.log_softmax, tg.logsumexp])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1, -1)])
def test_the_family_takes_any_axes(operation: Any, axis: Any) -> None:
    x = tg.Tensor(np.random.default_rng(0).uniform(-3, 3, (2, 3, 4)), requires_grad=True)
    weights = np.exp(x.data) / np.exp(x.data).sum(axis=axis, keepdims=True)
    total = np.log(np.exp(x.data).sum(axis=axis))
    right = {tg.softmax: weights, tg.log_softmax: np.log(weights), tg.logsumexp: total}[operation]
    y = operation(x, axis=axis)
    np.testing.assert_allclose(y.data, right, rtol=1e-13, atol=1e-14)
    seed = np.random.default_rng(1).uniform(-1, 1, y.shape)
    direction = np.random.default_rng(2).uniform(-1, 1, x.shape)
    moved = operation(x.data + 1e-100j * direction, axis=axis)
    np.testing.assert_allclose((tg.grad(y, x, seed) * direction).sum(), (moved.imag / 1e-100 * seed).sum(), rtol=1e-12)


def test_of_nothing_the_softmax_is_nothing_and_the_logsumexp_minus_infinity() -> None:
    x = tg.Tensor(np.zeros((2, 0)), requires_grad=True)
    assert tg.softmax(x).shape == tg.log_softmax(x).shape == (2, 0)
    assert tg.logsumexp(x).tolist() == [-np.inf, -np.inf] and tg.grad(tg.logsumexp(x), x, 1.0).shape == (2, 0)


def test_ties_for_the_largest_are_all_counted() -> None:
    assert tg.logsumexp(np.full(8, 1000.0)).item() == 1000 + np.log(8)
    assert tg.log_softmax(np.array([5.0, 5.0])).tolist() == [-np.log(2), -np.log(2)]


# Losses --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.nn.cross_entropy(np.zeros((2, 3)), [0, 3]), IndexError, r"classes lie in 0\.\.2, got 3"),
        (lambda: tg.nn.cross_entropy(np.zeros((2, 3)), [0, -1]), IndexError, r"classes lie in 0\.\.2, got -1"),
        (lambda: tg.nn.cross_entropy(np.zeros((2, 3)), [0, 1], ignore_index=1) + 0 * tg.nn.cross_entropy(
            np.zeros((2, 3)), [1, 7], ignore_index=1), IndexError, "got 7"),
        (lambda: tg.nn.cross_entropy(np.zeros((2, 3)), [0.0, 1.0]), TypeError, "integer .* float64 .*: take .*astype"),
        (lambda: tg.nn.cross_entropy(np.zeros((2, 3)), np.eye(3)[:2]), TypeError, "argmax.* of one-hot rows"),
        (lambda: tg.nn.bce_with_logits(np.zeros(2), [-1, 1]), ValueError, r"0\.\.1, got -1\.\.1: .*take labels > 0"),
        (lambda: tg.nn.cross_entropy(np.zeros((2, 3)), [0]), ValueError, r"shape \(2,\) for logits .*got \(1,\)"),
        (lambda: tg.nn.cross_entropy(np.zeros((2, 3)), [[0, 1]]), ValueError, r"one class for each row .*got \(1, 2\)"),
        (lambda: tg.nn.cross_entropy(0.0, 0), ValueError, "cross_entropy needs"),
        (lambda: tg.nn.cross_entropy(np.zeros((2, 3)), [0, 1], reduction="average"), ValueError, "'average'"),
        (lambda: tg.nn.bce_with_logits(np.zeros(2), np.zeros((2, 1))), ValueError, r"shape \(2,\), got \(2, 1\)"),
        (lambda: tg.nn.bce_with_logits([0.0], [1.0], reduction="sun"), ValueError, "'sun'"),
        (lambda: tg.nn.mse(np.zeros(2), 0.0), ValueError, r"target of the prediction's shape \(2,\), got \(\)"),
        (lambda: tg.nn.mse([0.0], [1.0], reduction=None), ValueError, "None"),
    ],
)  # fmt: skip
def test_a_loss_says_what_it_needs(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("ignore_index", [-100, 1, 99])
def test_ignored_targets_count_for_nothing_and_reductions_agree(ignore_index: int) -> None:
    rng = np.random.default_rng(0)
    logits, targets = tg.Tensor(rng.normal(size=(2, 4, 3)), requires_grad=True), rng.integers(0, 3, (2, 4))
    targets[:, 1] = ignore_index
    counted = targets != ignore_index
    each = tg.nn.cross_entropy(logits, targets, ignore_index, "none")
    right = -np.log(np.exp(logits.data) / np.exp(logits.data).sum(-1, keepdims=True))
    right = np.take_along_axis(right, np.where(counted, targets, 0)[..., None], -1)[..., 0] * counted
    np.testing.assert_allclose(each.data, right, rtol=1e-13)
    total = tg.nn.cross_entropy(logits, targets, ignore_index, "sum")
    mean = tg.nn.cross_entropy(logits, targets, ignore_index)
    np.testing.assert_allclose([total.item(), mean.item()], [right.sum(), right.sum() / counted.sum()], rtol=1e-13)
    gradient = tg.grad(mean, logits)
    assert not gradient[~counted].any() and gradient[counted].all()


def test_where_nothing_is_counted_the_loss_is_0_with_gradient_0() -> None:
    none, ignored = (tg.Tensor(np.ones(shape), requires_grad=True) for shape in [(0, 3), (1, 2)])
    for loss, logits in [
        (tg.nn.cross_entropy(none, np.zeros(0, int)), none),
        (tg.nn.bce_with_logits(none, np.zeros((0, 3))), none),
        (tg.nn.mse(none, np.zeros((0, 3))), none),
        (tg.nn.cross_entropy(ignored, [7], ignore_index=7), ignored),
    ]:
        gradient = tg.grad(loss, logits)
        assert loss.item() == 0 and gradient.shape == logits.shape and not gradient.any()


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: tg.nn.cross_entropy(x, [2, 0]),
        lambda x: tg.nn.cross_entropy(x, [2, 0], ignore_index=0),
        lambda x: tg.nn.bce_with_logits(x, [[0.0, 1.0, 0.25], [1.0, 0.5, 0.0]]),
        lambda x: tg.nn.mse(x, [[0.0, 1.0, 0.25], [1.0, 0.5, 0.0]]),
    ],
    ids=["cross_entropy", "ignored", "bce_with_logits", "mse"],
)
def test_a_loss_has_second_derivatives(loss: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(3)
    values, u = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    x = tg.Tensor(values, requires_grad=True)

    def slope(h: float) -> Any:
        moved = tg.Tensor(values + h * u, requires_grad=True)
        return tg.grad(loss(moved), moved)

    np.testing.assert_allclose(tg.hvp(loss(x), x, u), (slope(1e-5) - slope(-1e-5)) / 2e-5, rtol=1e-7, atol=1e-9)


def test_targets_that_are_changed_later_change_no_gradient() -> None:
    logits, targets = tg.Tensor([[1.0, 2.0, 4.0]], requires_grad=True), np.array([1])
    loss = tg.nn.cross_entropy(logits, targets)
    before = tg.grad(loss, logits)
    targets[0] = 2
    np.testing.assert_array_equal(tg.grad(loss, logits), before)


# At infinity ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_binary_cross_entropy_is_right_at_infinite_logits() -> None:
    each = tg.nn.bce_with_logits([-np.inf, np.inf, np.inf, -np.inf], [0.0, 1.0, 0.0, 1.0], reduction="none")
    assert each.tolist() == [0.0, 0.0, np.inf, np.inf]
    x = tg.Tensor([-np.inf, 2.0], requires_grad=True)
    loss = tg.nn.bce_with_logits(x, [0.0, 1.0], reduction="sum")
    assert loss.item() == pytest.approx(np.log1p(np.exp(-2)), rel=1e-12)
    right = [0.0, -1 / (1 + np.exp(2))]
    np.testing.assert_allclose(tg.grad(loss, x), right, rtol=1e-12)
    np.testing.assert_allclose(tg.grad(loss, x, create_graph=True).data, right, rtol=1e-12)
    both = tg.Tensor([np.inf, -np.inf], requires_grad=True)
    assert tg.grad(tg.nn.bce_with_logits(both, [0.0, 1.0], reduction="sum"), both).tolist() == [1.0, -1.0]


def test_binary_cross_entropy_of_soft_targets_passes_on_their_gradient() -> None:
    x, t = tg.Tensor([3.0, -2.0, 0.5], requires_grad=True), tg.Tensor([0.0, 1.0, 0.25], requires_grad=True)
    np.testing.assert_allclose(tg.grad(tg.nn.bce_with_logits(x, t, reduction="sum"), t), -x.data, rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_the_entropy_of_a_masked_softmax_has_gradient_0_where_it_is_masked() -> None:
    x = tg.Tensor([0.0, 0.0, -np.inf], requires_grad=True)
    p = x.softmax()
    entropy = tg.nn.entropy(p)
    assert entropy.item() == pytest.approx(np.log(2)) and tg.grad(entropy, x).tolist() == [0.0, 0.0, 0.0]
    other = tg.Tensor([[1.0, -0.5, -np.inf], [0.0, 2.0, 3.0]], requires_grad=True)
    p = other.softmax(0)
    q = np.array([[1 / (1 + np.exp(-1)), 1 / (1 + np.exp(2.5)), 0.0]])
    q = np.concatenate([q, 1 - q])
    right = -np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), 0).sum(0)
    np.testing.assert_allclose(tg.nn.entropy(p, axis=0).data, right, rtol=1e-12)
    assert np.isfinite(tg.grad(tg.nn.entropy(p, axis=0), other, [1.0, 2.0, 3.0])).all()
    assert tg.nn.entropy([1, 0]).item() == 0


@pytest.mark.filterwarnings("error")
def test_x_log_z_is_0_where_x_is_whatever_z_is() -> None:
    x, z = (tg.Tensor(v, requires_grad=True) for v in ([0.0, 0.0, 2.0], [0.0, 3.0, 4.0]))
    y = tg.xlogy(x, z)
    np.testing.assert_allclose(y.data, [0.0, 0.0, 2 * np.log(4)], rtol=1e-12)
    by_x, by_z = tg.grad(y, [x, z], 1.0)
    np.testing.assert_allclose(by_x, [0.0, np.log(3), np.log(4)], rtol=1e-12)
    assert by_z.tolist() == [0.0, 0.0, 0.5] and tg.xlogy(0.0, 0.0) == 0
