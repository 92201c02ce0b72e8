"""What a person holds: construction, immutability, operators, NumPy's functions, dtypes, truth, copies."""

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg
from tinygrad_seq.help.reference import REFERENCE


def leaf(values: Any, dtype: Any = None, name: str | None = None) -> tg.Tensor:
    return tg.Tensor(values, requires_grad=True, dtype=dtype, name=name)


def data(*shape: int, dtype: Any = np.float64) -> Any:
    """Asymmetric positive numbers, none twice."""
    return (
        (np.arange(math.prod(shape)) * 0.37 % 1 + 0.5 + np.arange(math.prod(shape)) / 100).reshape(shape).astype(dtype)
    )


# Construction --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (1.0, np.float64),
        (1, np.int64),
        (True, np.bool_),
        (1j, np.complex128),
        ([1, 2.0], np.float64),
        (np.float32(1), np.float32),
        (np.arange(3, dtype=np.int8), np.int8),
        (np.ones((2, 0), np.float16), np.float16),
    ],
)
def test_a_tensor_takes_the_dtype_that_numpy_gives(given: Any, dtype: Any) -> None:
    x = tg.Tensor(given)
    assert x.dtype == dtype and (x.shape, x.ndim, x.size) == (np.shape(given), np.ndim(given), np.size(given))
    assert not x.requires_grad and x.grad is None and x.name is None and x.operation is None and x.step is None
    assert tg.Tensor(given, dtype=np.complex128).dtype == np.complex128


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: leaf(1), TypeError, "floating-point numbers, got dtype int64"),
        (lambda: leaf([True]), TypeError, "floating-point numbers, got dtype bool"),
        (lambda: leaf(1j), TypeError, "floating-point numbers, got dtype complex128"),
        (lambda: tg.Tensor([[1.0], [1.0, 2.0]]), ValueError, "rectangular array"),
        (lambda: tg.Tensor([object()]), TypeError, "needs numbers; list gives dtype object"),
        (lambda: tg.Tensor(None), TypeError, "needs numbers; NoneType gives dtype object"),
        (lambda: tg.Tensor("one"), TypeError, "needs numbers; str gives dtype <U3"),
        (lambda: tg.Tensor({1.0}), TypeError, "needs numbers; set gives dtype object"),
        (lambda: tg.Tensor(1.0, dtype=object), TypeError, "dtype object"),
        (lambda: tg.Tensor(np.datetime64("2020-01-01")), TypeError, "dtype datetime64"),
        (lambda: tg.Tensor([leaf(1.0, name="x")]), TypeError, "array of x, which requires a gradient"),
    ],
)
def test_what_is_no_number_makes_no_tensor(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_requires_grad_is_set_on_leaves_of_floats() -> None:
    x = tg.Tensor(1.0)
    x.requires_grad = True
    assert x.requires_grad and (x * 2).requires_grad
    y = (x * 2).named("y")
    with pytest.raises(ValueError, match=r"y was computed; requires_grad is set on leaves.*\.detach\(\)"):
        y.requires_grad = False
    x.requires_grad = False
    assert not (x * 2).requires_grad and y.requires_grad
    ids = tg.Tensor([1, 2])
    with pytest.raises(TypeError, match="int64"):
        ids.requires_grad = True
    ids.requires_grad = False


# Nothing is written to -----------------------------------------------------------------------------------------------


def test_a_leaf_copies_what_it_is_given() -> None:
    given = np.array([1.0, 2.0])
    x = leaf(given)
    y = x * x
    given[0] = 100
    assert x.tolist() == [1.0, 2.0] and tg.grad(y, x, 1.0).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 2.0, lambda x: x.detach(), lambda x: x[1:]])
def test_data_is_read_only(make: Callable[[Any], Any]) -> None:
    y = make(leaf([1.0, 2.0]))
    before = y.tolist()
    with pytest.raises(ValueError, match="read-only"):
        y.data[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(y.detach())[...] = 5
    assert y.tolist() == before


@pytest.mark.parametrize("index", [0, slice(None), [0], (..., 1)])
def test_an_item_cannot_be_assigned(index: Any) -> None:
    x = leaf([1.0, 2.0], name="x")
    with pytest.raises(TypeError, match=r"immutable: x\[.*Collect the parts in a list, then tg\.stack"):
        x[index] = 5.0
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("change", [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow])
def test_an_operator_with_equals_makes_a_new_tensor(change: Callable[[Any, Any], Any]) -> None:
    x = leaf([1.0, 2.0])
    y = change(x, 3.0)
    assert y is not x and x.tolist() == [1.0, 2.0] and y.requires_grad


def test_data_of_a_leaf_can_be_rebound_and_recorded_graphs_stay_what_they_were() -> None:
    x, new = leaf([1.0, 2.0], name="x"), np.array([10.0, 20.0])
    y = x * x
    x.data = new
    new[0] = 0
    assert x.tolist() == [10.0, 20.0] and y.tolist() == [1.0, 4.0]
    y.backward(1.0)
    assert x.grad.tolist() == [2.0, 4.0]
    (x * x).backward(1.0)
    assert x.grad.tolist() == [22.0, 44.0]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (np.zeros(3), r"x holds shape \(2,\), dtype float64.*shape \(3,\)"),
        (np.zeros((1, 2)), r"rebound to shape \(1, 2\)"),
        (0.0, r"rebound to shape \(\)"),
        (np.zeros(2, np.float32), "dtype float32"),
        ([1, 2], "dtype int64"),
    ],
)
def test_data_of_another_shape_or_dtype_is_not_bound(new: Any, message: str) -> None:
    x = leaf([1.0, 2.0], name="x")
    with pytest.raises(ValueError, match=message):
        x.data = new
    assert x.tolist() == [1.0, 2.0]


def test_data_of_a_result_cannot_be_rebound() -> None:
    y = (leaf([1.0, 2.0]) * 2.0).named("y")
    with pytest.raises(ValueError, match=r"y was computed; only a leaf's data can be rebound.*\.detach\(\)"):
        y.data = np.zeros(2)


def test_a_grad_is_writable_and_shared_with_nothing() -> None:
    a, b = leaf(np.ones((2, 3), np.float32)), leaf(np.ones((2, 3), np.float32))
    seed = np.ones((2, 3), np.float32)
    y = a + b + a.T.reshape(2, 3)
    y.backward(seed, retain_graph=True)
    arrays = [a.grad, b.grad, seed, a.data, b.data, y.data, tg.grad(y, b, seed)]
    for k, first in enumerate(arrays):
        assert not any(np.shares_memory(first, second) for second in arrays[k + 1 :])
    assert a.grad.dtype == np.float32 and a.grad.shape == (2, 3) and type(a.grad) is np.ndarray
    kept = a.grad
    a.grad[0, 0] = 100
    y.backward(seed)
    assert kept[0, 0] == 100 and a.grad[0, 0] == 102 and b.grad.tolist() == [[2.0] * 3] * 2


def test_a_grad_of_a_number_is_an_array() -> None:
    x = leaf(2.0)
    for _ in range(2):
        (x * x).backward()
        assert type(x.grad) is np.ndarray and x.grad.shape == ()


def test_detach_shares_the_values_and_drops_the_edge() -> None:
    x = leaf([1.0, 2.0])
    y = (x * 3.0).named("y")
    z = y.detach()
    assert np.shares_memory(z.data, y.data) and z.tolist() == [3.0, 6.0] and z.name == "y"
    assert not z.requires_grad and z.operation is None
    assert tg.grad(y * z, x, 1.0).tolist() == [9.0, 18.0]
    assert not tg.detach((y, [y]))[1][0].requires_grad


# Operators and methods -----------------------------------------------------------------------------------------------

OPERATORS: dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] = {
    operator.add: tg.add,
    operator.sub: tg.subtract,
    operator.mul: tg.multiply,
    operator.truediv: tg.divide,
    operator.pow: tg.power,
    operator.matmul: tg.matmul,
}


@pytest.mark.parametrize("operation", OPERATORS, ids=lambda f: f.__name__)
def test_an_operator_is_its_operation_from_both_sides(operation: Callable[[Any, Any], Any]) -> None:
    function = OPERATORS[operation]
    a, b, seed = leaf(data(3, 3)), leaf(data(3, 3)[::-1]), data(3, 3)[:, ::-1]
    right = [function(a, b), *tg.grad(function(a, b), [a, b], seed)]
    for left, other in [(a, b), (a.data, b), (a, b.data)]:
        y = operation(left, other)
        assert type(y) is tg.Tensor and y.requires_grad
        np.testing.assert_allclose(y.data, right[0].data, rtol=1e-15)
        for x, gradient in zip((a, b), right[1:], strict=True):
            if x is left or x is other:
                np.testing.assert_allclose(tg.grad(y, x, seed), gradient, rtol=1e-14)
    if operation is not operator.matmul:
        for number in (2.0, 2, np.float64(2.0)):
            np.testing.assert_allclose(operation(number, b).data, function(2.0, b).data)
            np.testing.assert_allclose(operation(a, number).data, function(a, 2.0).data)
            assert operation(number, b).requires_grad and operation(a, number).requires_grad


def test_signs_and_absolute_values() -> None:
    x = leaf([-2.0, 3.0])
    assert (-x).tolist() == [2.0, -3.0] and (+x).tolist() == [-2.0, 3.0] and abs(x).tolist() == [2.0, 3.0]
    assert tg.grad(-x + abs(x), x, [1.0, 10.0]).tolist() == [-2.0, 0.0]


def test_a_power_with_a_plain_exponent_is_numpys_own_bit_for_bit() -> None:
    x = data(50)
    for p in (2, 2.0, 3, 1.5, -1, 0):
        assert (leaf(x) ** p).data.tobytes() == (np.square(x) if p == 2 else np.power(x, p)).tobytes()


@pytest.mark.parametrize("name", ["__iadd__", "__imod__", "__lshift__", "__iand__"])
def test_an_operator_without_a_rule_is_no_operator(name: str) -> None:
    assert not hasattr(tg.Tensor, name)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 0), (0, 4)),
        ((2, 0, 3), (3, 4)),
        ((0, 2, 3), (3, 4)),
        ((2, 3, 4), (4, 0)),
        ((1, 0, 1), (1, 0)),
        ((0,), (0,)),
    ],
)
def test_products_of_nothing_have_gradients_of_their_inputs_shapes(a: Any, b: Any) -> None:
    left, right = leaf(data(*a)), leaf(data(*b))
    y = left @ right
    assert y.shape == (data(*a) @ data(*b)).shape and not y.data.any()
    for x, gradient in zip((left, right), tg.grad(y, [left, right], data(*y.shape)), strict=True):
        assert gradient.shape == x.shape and not gradient.any()


def test_a_product_with_a_list_is_a_product() -> None:
    assert tg.dot(leaf([1.0, 2.0]), [3.0, 4.0]).item() == tg.dot([3.0, 4.0], leaf([1.0, 2.0])).item() == 11
    assert (leaf([1.0, 2.0]) @ [3.0, 4.0]).item() == 11


def test_einsum_spreads_axes_of_length_1_and_sums_their_gradients_back() -> None:
    a, b = leaf([[1.0], [2.0]]), leaf([1.0, 10.0, 100.0])
    y = tg.einsum("ij,j->i", a, b)
    assert y.tolist() == [111.0, 222.0]
    assert [g.tolist() for g in tg.grad(y, [a, b], [1.0, 0.5])] == [[[111.0], [55.5]], [2.0, 2.0, 2.0]]


def test_an_empty_mask_and_an_empty_list_pick_nothing() -> None:
    x = leaf(np.zeros((0, 3)))
    assert x[np.zeros((0, 3), bool)].shape == (0,) and x[np.zeros(0, bool)].shape == (0, 3)
    y = leaf(data(2, 3))
    assert y[[]].shape == (0, 3) and y[np.zeros((2, 3), bool)].shape == (0,) and y[..., []].shape == (2, 0)
    assert not tg.grad(y[[]], y, 1.0).any()


METHODS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "T": (lambda x: x.T, tg.transpose),
    "abs": (lambda x: x.abs(), tg.abs),
    "astype": (lambda x: x.astype(np.float32), lambda x: tg.astype(x, np.float32)),
    "clip": (lambda x: x.clip(0.6, 1.0), lambda x: tg.clip(x, 0.6, 1.0)),
    "cos": (lambda x: x.cos(), tg.cos),
    "cumsum": (lambda x: x.cumsum(1), lambda x: tg.cumsum(x, axis=1)),
    "dot": (lambda x: x.dot(data(3)), lambda x: tg.dot(x, data(3))),
    "exp": (lambda x: x.exp(), tg.exp),
    "flatten": (lambda x: x.flatten(), lambda x: tg.reshape(x, (-1,))),
    "log": (lambda x: x.log(), tg.log),
    "log_softmax": (lambda x: x.log_softmax(0), lambda x: tg.log_softmax(x, axis=0)),
    "logsumexp": (lambda x: x.logsumexp(0, True), lambda x: tg.logsumexp(x, axis=0, keepdims=True)),
    "max": (lambda x: x.max(0), lambda x: tg.max(x, axis=0)),
    "mean": (lambda x: x.mean(0, True), lambda x: tg.mean(x, axis=0, keepdims=True)),
    "min": (lambda x: x.min(), tg.min),
    "norm": (lambda x: x.norm(1), lambda x: tg.norm(x, axis=1)),
    "prod": (lambda x: x.prod(-1), lambda x: tg.prod(x, axis=-1)),
    "relu": (lambda x: x.relu(), tg.relu),
    "reshape": (lambda x: x.reshape(3, -1), lambda x: tg.reshape(x, (3, -1))),
    "sigmoid": (lambda x: x.sigmoid(), tg.sigmoid),
    "sin": (lambda x: x.sin(), tg.sin),
    "softmax": (lambda x: x.softmax(), tg.softmax),
    "sqrt": (lambda x: x.sqrt(), tg.sqrt),
    "square": (lambda x: x.square(), tg.square),
    "squeeze": (lambda x: x[:1].squeeze(0), lambda x: tg.squeeze(x[:1], axis=0)),
    "std": (lambda x: x.std(0, ddof=1), lambda x: tg.std(x, axis=0, ddof=1)),
    "sum": (lambda x: x.sum((0, 1)), tg.sum),
    "swapaxes": (lambda x: x.swapaxes(0, -1), lambda x: tg.swapaxes(x, 0, -1)),
    "take": (lambda x: x.take([1, 1], 0), lambda x: tg.take(x, [1, 1], axis=0)),
    "tanh": (lambda x: x.tanh(), tg.tanh),
    "transpose": (lambda x: x.transpose(1, 0), lambda x: tg.transpose(x, (1, 0))),
    "var": (lambda x: x.var(0, ddof=1), lambda x: tg.var(x, axis=0, ddof=1)),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_its_operation(name: str) -> None:
    method, function = METHODS[name]
    x = leaf(data(2, 3))
    y, z = method(x), function(x)
    assert y.shape == z.shape and y.dtype == z.dtype and y.data.tobytes() == z.data.tobytes()
    seed = data(*y.shape)
    assert tg.grad(y, x, seed).tobytes() == tg.grad(z, x, seed).tobytes()


def test_shapes_and_axes_may_be_given_one_by_one_or_as_a_tuple() -> None:
    x = leaf(data(2, 3, 4))
    assert x.reshape(6, 4).shape == x.reshape((6, 4)).shape == x.reshape(-1, 4).shape == (6, 4)
    assert x.reshape(-1).shape == x.reshape(np.int64(24)).shape == x.flatten().shape == (24,)
    assert x.transpose(2, 0, 1).shape == x.transpose((2, 0, 1)).shape == (4, 2, 3)
    assert x.transpose().shape == x.T.shape == (4, 3, 2)
    assert x.transpose(-1, 0, 1).shape == (4, 2, 3)
    assert tg.grad(x.transpose(2, 0, 1), x, data(4, 2, 3)).tolist() == data(4, 2, 3).transpose(1, 2, 0).tolist()


# NumPy's functions ---------------------------------------------------------------------------------------------------

TWO = [np.add, np.subtract, np.multiply, np.divide, np.power, np.maximum, np.minimum, np.matmul, np.dot, np.outer]
COMPARISONS = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]


@pytest.mark.parametrize("function", TWO, ids=lambda f: f.__name__)
def test_a_numpy_function_takes_tensors_and_arrays_on_either_side(function: Any) -> None:
    a, b = leaf(data(3, 3)), leaf(data(3, 3)[::-1] + 0.1)
    operation = {np.dot: tg.dot, np.outer: tg.outer}.get(function) or getattr(tg, function.__name__)
    for left, right in [(a, b), (a, b.data), (a.data, b)]:
        y = function(left, right)
        assert type(y) is tg.Tensor
        np.testing.assert_allclose(y.data, function(a.data, b.data), rtol=1e-14)
        for x in {left, right} if isinstance(left, tg.Tensor) and isinstance(right, tg.Tensor) else set():
            seed = data(*y.shape)
            assert tg.grad(y, x, seed).tobytes() == tg.grad(operation(left, right), x, seed).tobytes()


@pytest.mark.parametrize("function", COMPARISONS, ids=lambda f: f.__name__)
def test_a_comparison_is_a_plain_boolean_array_on_either_side(function: Any) -> None:
    a, b = leaf([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])
    sign = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
    plain = {"a": a.data, "b": b}
    for left, right in [("a", "b"), ("b", "a"), ("a", "2.0"), ("2.0", "a")]:
        expression = f"{left} {sign[function.__name__]} {right}"
        found = eval(expression, {"a": a, "b": b})
        assert type(found) is np.ndarray and found.dtype == bool
        assert found.tolist() == eval(expression, plain).tolist()
    assert type(function(a, b)) is np.ndarray and function(a, b).tolist() == function(a.data, b).tolist()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: np.spacing(x), "numpy.spacing"),
        (lambda x: np.linalg.det(x), r"numpy\.linalg\.det .*take \.data"),
        (lambda x: np.nansum(x), "numpy.nansum .*tg.where"),
        (lambda x: np.subtract.reduce(x), "numpy.subtract.reduce"),
        (lambda x: np.add(x, x, out=np.zeros(3)), "numpy.add with out=.*never writes"),
        (lambda x: np.sum(x, out=np.zeros(())), "numpy.sum with out=.*never writes"),
        (lambda x: np.exp(x, where=[True, False, True]), "numpy.exp with where=.*tg.where"),
        (lambda x: np.sum(x, initial=1.0), "numpy.sum with initial="),
        (lambda x: np.linalg.norm(x, 3), "numpy.linalg.norm with ord=3"),
        (lambda x: np.fft.fft(x), "fft has no rule"),
    ],
)
def test_a_numpy_function_without_a_rule_says_so(call: Callable[[Any], Any], name: str) -> None:
    with pytest.raises(TypeError, match=name):
        call(leaf(data(3)))


@pytest.mark.parametrize(
    "operation", [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow, operator.imatmul]
)
def test_an_array_never_takes_up_a_tensor_in_place(operation: Callable[[Any, Any], Any]) -> None:
    array, x = data(3, 3), leaf(data(3, 3))
    with pytest.raises(TypeError, match="never writes"):
        operation(array, x)
    with pytest.raises(TypeError, match="array of an unnamed tensor, which requires a gradient"):
        array[...] = x
    assert array.tolist() == data(3, 3).tolist()


@pytest.mark.parametrize(
    "convert", [np.asarray, np.array, lambda x: np.array([x, x]), np.asanyarray, np.ascontiguousarray]
)
def test_nothing_leaves_the_graph_silently(convert: Callable[[Any], Any]) -> None:
    x = leaf([1.0, 2.0], name="w")
    with pytest.raises(TypeError, match=r"array of w, which requires a gradient.*\.detach\(\) or \.data"):
        convert(x)
    assert convert(x.detach()).shape[-1] == 2


# dtypes --------------------------------------------------------------------------------------------------------------

IN_FLOAT32: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + 1 + 2.0,
    "subtract": lambda x: 1 - x - 2.0,
    "multiply": lambda x: 2.0 * x * 3,
    "divide": lambda x: 1 / x / 2.0,
    "negative": lambda x: -x,
    "power": lambda x: x**2 + x**0.5 + x**-1 + 2.0**x + x**x,
    "matmul": lambda x: x @ x.T,
    "dot": lambda x: tg.dot(x, x.T),
    "outer": lambda x: tg.outer(x, x),
    "einsum": lambda x: tg.einsum("ij,kj->ik", x, x) + tg.einsum("ii->", x @ x.T),
    "maximum": lambda x: tg.maximum(x, 1.0) + tg.maximum(x, 1),
    "minimum": lambda x: tg.minimum(x, 1.0),
    "where": lambda x: tg.where(x > 1, x, 0.0),
    "clip": lambda x: tg.clip(x, 0.7, 1.0),
    "concat": lambda x: tg.concat([x, x]),
    "concatenate": lambda x: tg.concatenate([x, x]),
    "stack": lambda x: tg.stack([x, x]),
    "split": lambda x: tg.split(x, 2)[0],
    "embedding": lambda x: tg.embedding(x, [1, 0, 1]),
    "take": lambda x: tg.take(x, [1, 1]),
    "pad": lambda x: tg.pad(x, 1, constant_values=0.5),
    "reshape": lambda x: tg.reshape(x, (-1,)),
    "swapaxes": lambda x: tg.swapaxes(x, 0, 1),
    "expand_dims": lambda x: tg.expand_dims(x, 0),
    "broadcast_to": lambda x: tg.broadcast_to(x, (4, *x.shape)),
    "astype": lambda x: tg.astype(tg.astype(x, np.float64) * 1.5, np.float32),
    "sum": lambda x: tg.sum(x) + tg.sum(x, axis=0),
    "mean": lambda x: tg.mean(x) + tg.mean(x, axis=0),
    "var": lambda x: tg.var(x) + tg.var(x, axis=0),
    "std": lambda x: tg.std(x) + tg.std(x, axis=0, ddof=1),
    "max": lambda x: tg.max(x) + tg.max(x, axis=0),
    "min": lambda x: tg.min(x) + tg.min(x, axis=0),
    "prod": lambda x: tg.prod(x) + tg.prod(x, axis=0),
    "norm": lambda x: tg.norm(x) + tg.norm(x, axis=0),
    "logsumexp": lambda x: tg.logsumexp(x) + tg.logsumexp(x, axis=None),
    "arcsin": lambda x: tg.arcsin(0.1 * x),
    "arccos": lambda x: tg.arccos(0.1 * x),
    "arctanh": lambda x: tg.arctanh(0.1 * x),
    "arccosh": lambda x: tg.arccosh(x + 1.5),
    "arctan2": lambda x: tg.arctan2(x, 2.0) + tg.arctan2(1, x),
    "hypot": lambda x: tg.hypot(x, 2.0),
    "logaddexp": lambda x: tg.logaddexp(x, 2 * x),
    "mod": lambda x: tg.mod(x, 0.7) + 3 % x,
    "copysign": lambda x: tg.copysign(x, -1.0),
    "tensordot": lambda x: tg.tensordot(x, x.T, 1),
    "moveaxis": lambda x: tg.moveaxis(x, 0, 1),
    "repeat": lambda x: tg.repeat(x, 2, axis=0),
    "tile": lambda x: tg.tile(x, 2),
    "roll": lambda x: tg.roll(x, 1, axis=1),
    "take_along_axis": lambda x: tg.take_along_axis(x, np.zeros((2, 1), int), axis=1),
    "xlogy": lambda x: tg.xlogy(x, x),
}


@pytest.mark.parametrize("shape", [(2, 3), (2, 0)], ids=["full", "empty"])
@pytest.mark.parametrize("name", [*REFERENCE, "concatenate", "getitem", "index"])
def test_float32_stays_float32_forward_and_back(name: str, shape: tuple[int, ...]) -> None:
    further = {"getitem": lambda x: x[0] + x[:, None, 0] if x.size else x[0], "index": lambda x: x[[0, 0]]}
    operation = (IN_FLOAT32 | further).get(name) or getattr(tg, name)
    if shape == (2, 0) and name in ("max", "min", "mean", "var", "std", "take", "split", "take_along_axis"):
        shape = (2, 1)  # these have no answer for nothing
    x = leaf(data(*shape, dtype=np.float32))
    y = operation(x)
    assert y.dtype == np.float32 and y.shape == operation(x.data.astype(np.float64)).shape
    seed = data(*y.shape)  # float64: converted
    assert tg.grad(y, x, seed).dtype == np.float32
    again = tg.grad(y, x, seed, create_graph=True)
    recorded = tg.Tape(y, again) if again.requires_grad else tg.Tape(y)
    assert again.dtype == np.float32 and (name == "astype" or all(t.dtype == np.float32 for t in recorded))
    y.backward(seed)
    assert x.grad.dtype == np.float32


def test_numpy_numbers_promote_as_numpy_does_and_the_grad_stays_float32() -> None:
    x = leaf(data(3, dtype=np.float32))
    for other, dtype in [(np.float64(2.0), np.float64), (data(3), np.float64), (np.float32(2.0), np.float32)]:
        y = x * other
        assert y.dtype == dtype and tg.grad(y, x, 1.0).dtype == np.float32
    assert sum([x[0], x[1]]).dtype == np.float32
    assert (x * tg.Tensor([1, 2, 3])).dtype == np.float64


def test_complex_numbers_pass_through_forwards() -> None:
    """Which is how a complex step finds the slope: tanh at 0.5, say."""
    x = tg.Tensor(0.5 + 1e-100j)
    y = tg.tanh(x) * tg.sigmoid(x) + tg.softmax(tg.stack([x, 2 * x]))[0]
    assert y.dtype == np.complex128 and not y.requires_grad
    w = leaf(0.5)
    z = tg.tanh(w) * tg.sigmoid(w) + tg.softmax(tg.stack([w, 2 * w]))[0]
    assert tg.grad(z, w).item() == pytest.approx(y.data.imag / 1e-100, rel=1e-14)


# Truth, numbers, sequences -------------------------------------------------------------------------------------------


def test_one_number_is_a_number() -> None:
    x = tg.Tensor(2.5)
    assert (float(x), int(x), bool(x), complex(x), x.item()) == (2.5, 2, True, 2.5 + 0j, 2.5)
    assert type(x.item()) is float and not bool(tg.Tensor(0.0)) and math.sqrt(tg.Tensor(4.0)) == 2
    assert [10, 20, 30][tg.Tensor(1)] == 20 and tg.Tensor([[7.0]]).item() == 7 and bool(tg.Tensor([[1.0]]))


@pytest.mark.parametrize(
    ("question", "error"),
    [
        (lambda: bool(tg.Tensor([1.0, 0.0])), ValueError),
        (lambda: bool(tg.Tensor([])), (ValueError, DeprecationWarning)),  # NumPy 2.0 and 2.1 warn
        (lambda: float(tg.Tensor([1.0, 2.0])), TypeError),
        (lambda: int(tg.Tensor([1.0, 2.0])), TypeError),
        (lambda: tg.Tensor([1.0, 2.0]).item(), ValueError),
        (lambda: [1, 2, 3][tg.Tensor(1.0)], TypeError),
        (lambda: len(tg.Tensor(1.0)), TypeError),
        (lambda: list(tg.Tensor(1.0)), TypeError),
        (lambda: iter(tg.Tensor(1.0)), TypeError),
    ],
)
def test_what_is_not_one_number_or_no_sequence_is_not_taken_for_it(question: Callable[[], Any], error: Any) -> None:
    with pytest.raises(error):
        question()


def test_a_tensor_is_a_sequence_of_its_rows() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert len(x) == 3 and [row.tolist() for row in x] == x.tolist()
    first, *_, last = x
    assert tg.grad((last * 2.0).sum() + first[1], x).tolist() == [[0.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
    assert [row.tolist() for row in reversed(x)] == x.tolist()[::-1] and len(tg.Tensor(np.zeros((0, 2)))) == 0


def test_tensors_are_told_apart_by_identity() -> None:
    a, b = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    assert len({a, b, a}) == 2 and {a: 1, b: 2}[b] == 2 and hash(a) != hash(b)
    assert (a == b).tolist() == [True, True] and (a != b).tolist() == [False, False]
    assert a in [a] and (a == a.data).all()
    assert [g[0].item() for g in tg.grad((a * 2.0 + b * 3.0)[0], [b, a])] == [3.0, 2.0]


# Copies and pictures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_a_leaf_of_its_own(again: Callable[[Any], Any]) -> None:
    x = leaf(np.ones(2, np.float32), name="x")
    (x * 3.0).backward(1.0)
    y = again(x)
    assert (y.tolist(), y.dtype, y.name, y.requires_grad, y.grad.tolist()) == ([1, 1], x.dtype, "x", True, [3, 3])
    y.grad[0] = 100
    y.data = np.zeros(2, np.float32)
    assert x.grad.tolist() == [3, 3] and x.tolist() == [1, 1]
    z = again(x * 2.0)
    assert z.tolist() == [2, 2] and not z.requires_grad and z.operation is None and z.grad is None


def test_a_deep_copy_keeps_ties() -> None:
    x = leaf(1.0)
    one, other, third = copy.deepcopy([x, x, leaf(1.0)])
    assert one is other and one is not x and third is not one


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (tg.Tensor(1.0), "Tensor(1.)"),
        (tg.Tensor([1, 2], name="ids"), "Tensor([1, 2], name='ids')"),
        (tg.Tensor([1.5], dtype=np.float32), "Tensor([1.5], dtype=float32)"),
        (leaf(0.5, name="w"), "Tensor(0.5, requires_grad=True, name='w')"),
        (leaf(0.5) * 2.0, "Tensor(1., operation=multiply)"),
        (tg.Tensor([[1.0, 2.0], [3.0, 4.0]]), "Tensor([[1., 2.],\n        [3., 4.]])"),
        (tg.Tensor(np.zeros((0, 3))), "Tensor([])"),
    ],
)
def test_a_tensor_prints_what_a_person_asks_for(x: tg.Tensor, text: str) -> None:
    assert repr(x) == str(x) == text


def test_a_tensor_is_called_by_its_name_else_by_what_made_it() -> None:
    x = leaf(1.0)
    assert x.label() == "an unnamed tensor" and x.named("w") is x and x.label() == "w"
    with tg.step(2):
        y = x * 2.0
    assert y.label() == "the result of multiply at step 2" and y.named("h").label() == "h at step 2"


def test_a_number_among_tensors_formats_as_the_number():
    w = tg.Tensor(1 / 3, requires_grad=True)
    assert f"{w * 2:.3f}" == "0.667"
    assert f"{w}" == repr(w)
    with pytest.raises(TypeError, match=r"has shape \(2,\)"):
        f"{tg.Tensor([1.0, 2.0]):.3f}"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda w: tg.jacobian(lambda x: x, w), "by tensors, got function"),
        (lambda w: tg.grad(w * w, np.ones(2)), "by tensors, got float64"),
        (lambda w: tg.Tape(3.0), r"tg\.Tape\(loss\); got float"),
        (lambda w: tg.nn.LSTM(2, 3, num_layers=2), "LSTM has no option num_layers; it has layers, .* time first"),
        (lambda w: type("Net", (tg.nn.Module,), {})()(w), "Net does not say what it computes: define __call__"),
    ],
    ids=["a function", "an array", "a number", "another framework's option", "a module without __call__"],
)
def test_what_users_of_other_frameworks_try_first_gets_an_answer(wrong, message):
    with pytest.raises(TypeError, match=message):
        wrong(tg.Tensor(2.0, requires_grad=True))


def test_item_of_more_than_one_entry_names_the_tensor_and_its_shape() -> None:
    for x in (tg.Tensor(np.zeros((2, 1)), name="w"), tg.Tensor(np.zeros((0, 3)), name="w")):
        with pytest.raises(ValueError, match=rf"w has shape \({x.shape[0]}, {x.shape[1]}\).*sum.*tolist"):
            x.item()
    assert tg.Tensor([[2.5]]).item() == 2.5
