"""What is neither array nor tensor nor number comes in by one door: copied, or refused where it would lose meaning."""

import array
import math
import runpy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg


def leaf(values: Any, dtype: Any = float) -> tg.Tensor:
    return tg.Tensor(np.asarray(values, dtype), requires_grad=True)


class Series:
    """Numbers of another library, which NumPy reads without a copy."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype, copy=True) if copy else self.values


class Annotated(np.ndarray):
    """An array of another kind."""


# Copies --------------------------------------------------------------------------------------------------------------

FOREIGN: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "a series": (lambda: Series(np.array([1.0, 2.0, 3.0])), lambda x: x.values.fill(9.0)),
    "an array of Python's": (lambda: array.array("d", [1.0, 2.0, 3.0]), lambda x: x.__setitem__(0, 9.0)),
    "a view of memory": (lambda: memoryview(np.array([1.0, 2.0, 3.0])), lambda x: x.__setitem__(0, 9.0)),
    "an array of another kind": (lambda: np.array([1.0, 2.0, 3.0]).view(Annotated), lambda x: x.fill(9.0)),
    "an array": (lambda: np.array([1.0, 2.0, 3.0]), lambda x: x.fill(9.0)),
    "a list": (lambda: [1.0, 2.0, 3.0], lambda x: x.__setitem__(0, 9.0)),
    "a range": (lambda: range(1, 4), lambda x: None),
}


@pytest.mark.parametrize(("make", "change"), FOREIGN.values(), ids=FOREIGN)
def test_what_is_changed_afterwards_was_copied(make: Callable[[], Any], change: Callable[[Any], None]) -> None:
    given, w = make(), leaf([1.0, 1.0, 1.0])
    loss, kept = tg.multiply(w, given).sum() + tg.maximum(given, w).sum() * 0.0, tg.Tensor(given)
    change(given)
    assert tg.grad(loss, w).tolist() == kept.tolist() == [1.0, 2.0, 3.0]
    assert type(tg.Tape(loss)[0].record.values[1]) is np.ndarray


# Refusals ------------------------------------------------------------------------------------------------------------

MASKED = np.ma.array([1.0, 99.0, 3.0], mask=[0, 1, 0])
WHOLE = np.ma.array([1, 0], mask=[0, 1])
ONES = np.ones((3, 2, 1))


@pytest.mark.parametrize(
    "use",
    [
        lambda: tg.Tensor(MASKED),
        lambda: tg.Tensor([MASKED, MASKED]),
        lambda: leaf([1.0, 2.0, 3.0]) * MASKED,
        lambda: tg.tanh(tg.Tensor([1.0, 2.0, 3.0]) + [MASKED]),
        lambda: setattr(leaf([1.0, 2.0, 3.0]), "data", MASKED),
        lambda: tg.grad(leaf([1.0, 2.0, 3.0]) * 2.0, leaf(1.0), MASKED),
        lambda: tg.Tensor([1.0, 2.0, 3.0])[WHOLE],
        lambda: tg.take(tg.Tensor([1.0, 2.0, 3.0]), WHOLE),
        lambda: tg.nn.mse([1.0, 2.0, 3.0], MASKED),
        lambda: tg.nn.bce_with_logits([1.0, 2.0], WHOLE),
        lambda: tg.nn.cross_entropy(np.zeros((2, 3)), WHOLE),
        lambda: tg.nn.Embedding(3, 2, rng=0)(WHOLE),
        lambda: tg.nn.Linear(3, 2, rng=0)(MASKED),
        lambda: tg.nn.unroll(tg.nn.RNNCell(1, 1, rng=0), ONES, lengths=np.ma.array([3, 9], mask=[0, 1])),
        lambda: tg.nn.LSTM(1, 1, rng=0)(np.ma.array(ONES, mask=ONES > 0)),
        lambda: tg.nn.ScalarMix(3)(ONES[..., None], np.ma.array(np.ones((2, 1), bool), mask=np.ones((2, 1), bool))),
        lambda: tg.replay(lambda x: (leaf(2.0) * x).sum())(MASKED),
    ],
)
def test_a_masked_array_is_refused_wherever_it_comes_in(use: Callable[[], Any]) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=r"masked array, whose mask would be lost.*filled|does not require"
    ):
        use()


def test_a_replay_refuses_a_masked_array_at_a_later_call_too() -> None:
    w = leaf(2.0)
    step = tg.replay(lambda x: (w * x).sum())
    step(np.ones(3))
    with pytest.raises(TypeError, match="a step was given a masked array"):
        step(MASKED)


def test_a_matrix_is_refused_because_its_star_is_another_product() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.asmatrix([[1.0, 2.0], [3.0, 4.0]])
    for use in (lambda: tg.Tensor(matrix), lambda: leaf([[1.0, 2.0]]) * matrix):
        with pytest.raises(TypeError, match="another product"):
            use()


@pytest.mark.parametrize("dtype", [str, object, "M8[s]", "S3", [("a", float)]])
def test_a_tensor_becomes_no_text_and_no_object(dtype: Any) -> None:
    for x in (tg.Tensor([1.0, 2.0]), np.ones(2)):
        with pytest.raises(TypeError, match="needs a dtype of numbers"):
            tg.astype(x, dtype)
    with pytest.raises(TypeError, match="needs a dtype of numbers"):
        tg.Tensor([1.0]).astype(dtype)


def test_objects_among_the_operands_are_refused() -> None:
    for other in ("a", None, object(), [None], {"a": 1}):
        with pytest.raises(TypeError):
            leaf([1.0]) * other


def test_no_number_equals_a_text() -> None:
    x = tg.Tensor([1.0, 2.0])
    for text in ("a", b"a", ["a", "b"], np.array(["1.0", "b"])):
        assert (x == text).tolist() == [False, False] and (x != text).tolist() == [True, True]
        assert type(x == text) is np.ndarray
    assert "a" not in [x[0]] and (x == [["a"], ["b"]]).shape == (2, 2)


# Whole numbers -------------------------------------------------------------------------------------------------------


def test_differences_of_small_integers_do_not_wrap() -> None:
    small = lambda *values: np.array(values, np.uint8)
    assert tg.nn.mse(small(200), small(100)).item() == 10000 and tg.nn.mse(small(0), small(16)).item() == 256
    assert tg.nn.mse(np.array([True]), np.array([False])).item() == 1
    assert tg.nn.bce_with_logits(small(3), small(0)).item() == pytest.approx(3 + np.log1p(np.exp(-3)))
    assert tg.logsigmoid(tg.Tensor(small(3))).item() == pytest.approx(-np.log1p(np.exp(-3)))
    assert tg.softplus(tg.Tensor(small(3))).item() == pytest.approx(3 + np.log1p(np.exp(-3)))
    assert tg.Tensor([2**62, 2**62]).mean().item() == 2.0**62 and tg.Tensor(small(250, 252)).var().item() == 1


@pytest.mark.parametrize("p", [2.0, 2, 3.0, 0.5, -1.0, True])
@pytest.mark.parametrize("values", [[4_000_000_000], np.uint8(16), np.array([5, 7], np.int16), 3.0])
def test_powers_of_whole_numbers_are_numpys(values: Any, p: float) -> None:
    right = np.asarray(values)
    with np.errstate(divide="ignore"):
        expected, found = right**p, tg.Tensor(values) ** p
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.data, expected)


@pytest.mark.parametrize(
    "values",
    [np.array([200, 2], np.uint8), np.array([10**6, 10**6], np.int32), np.array([[True, True], [True, False]]),
     np.array([2**40, 2]), np.zeros((0, 2), np.int16)],
)  # fmt: skip
@pytest.mark.parametrize("axis", [None, 0])
def test_products_of_whole_numbers_are_numpys(values: np.ndarray, axis: int | None) -> None:
    for x in (values, tg.Tensor(values)):
        found, right = tg.prod(x, axis), np.prod(values, axis)
        assert found.dtype == right.dtype
        np.testing.assert_array_equal(np.asarray(found), right)


def test_take_reads_indices_as_numpy_does() -> None:
    values = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x = leaf(values)
    for indices in ([True, False, True], (0, 2), 1, [[0], [1]], np.array([-1, 0], np.int8), tg.Tensor([1, 0])):
        plain = np.asarray(indices)
        np.testing.assert_array_equal(tg.take(x, indices).data, np.take(values, plain))
        np.testing.assert_array_equal(tg.take(x, indices, axis=1).data, np.take(values, plain, axis=1))
    assert tg.grad(tg.take(x, (0, 2), axis=1).sum(), x).tolist() == [[1.0, 0.0, 1.0]] * 2
    for wrong in (None, slice(2), 1.0, [0.0], "a", np.s_[0:2, 1]):
        with pytest.raises((TypeError, ValueError)):
            tg.take(x, wrong)


def test_an_empty_list_is_a_list_of_no_indices() -> None:
    table = tg.nn.Embedding(3, 2, padding=0, rng=0)
    assert table([]).shape == tg.nn.Embedding(3, 2, rng=0)([]).shape == (0, 2)
    loss = tg.nn.cross_entropy(leaf(np.zeros((0, 3))), [])
    assert loss.item() == 0 and tg.take(leaf([1.0]), []).shape == leaf([1.0])[[]].shape == (0,)


# Leaving the graph ---------------------------------------------------------------------------------------------------

DOORS: dict[str, Callable[[tg.Tensor], Any]] = {
    "float": float,
    "int": int,
    "complex": complex,
    "math": math.exp,
    "an entry of an array": lambda x: np.zeros(2).__setitem__(0, x),
    "fill": lambda x: np.zeros(2).fill(x),
    "a NumPy number": lambda x: np.float64(x),
    "the percent sign": lambda x: "%.2f" % x,  # noqa: UP031
}


@pytest.mark.parametrize("leave", DOORS.values(), ids=DOORS)
def test_leaving_the_graph_by_a_python_number_is_heard(leave: Callable[[tg.Tensor], Any]) -> None:
    w = leaf(0.5)
    for x in (w, w * 2.0):
        with pytest.warns(UserWarning, match=r"turned into a Python number.*\.item\(\)") as told:
            leave(x)
        assert [warning.filename for warning in told] == [__file__]


@pytest.mark.filterwarnings("error")
def test_what_says_that_it_leaves_the_graph_is_silent() -> None:
    w = leaf(0.5)
    y = w * 2.0
    assert y.item() == y.data == 1 and y.tolist() == 1 and y > 0 and bool(y == 1) and f"{y:.1f}" == "1.0" and repr(y)
    assert float(y.detach()) == int(tg.Tensor(1.0)) == math.sqrt(tg.Tensor(1.0)) == 1
    with tg.no_grad():
        assert float(w * 2.0) == 1


def test_each_place_that_leaves_the_graph_is_named_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import tinygrad_seq as tg\n"
        "w = tg.Tensor(2.0, requires_grad=True)\n"
        "for _ in range(3):\n"
        "    a = float(w)\n"
        "    b = float(w * 2.0)\n",
        encoding="utf-8",
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        runpy.run_path(str(script))
    assert [(Path(warning.filename).name, warning.lineno) for warning in told] == [("script.py", 4), ("script.py", 5)]


def test_a_half_detached_state_is_heard_at_the_line_that_carried_it() -> None:
    net = tg.nn.LSTM(1, 2, rng=0)
    xs = np.ones((2, 1, 1))
    for _ in range(2):  # at each place anew
        [[state]] = net(xs)[1]
        with pytest.warns(UserWarning, match="h was detached and its c was not") as told:
            net(xs, [[tg.nn.LSTMState(state.h.detach(), state.c)]])
        assert {warning.filename for warning in told} == {__file__}


# Names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: tg.where(x), r"^where takes 3 inputs, got 1$"),
        (lambda x: tg.tanh(), r"^tanh takes 1 input, got 0$"),
        (lambda x: tg.add(x), r"^add takes 2 inputs, got 1$"),
        (lambda x: tg.embedding(x), r"^embedding takes 2 inputs, got 1$"),
        (lambda x: tg.reshape(x), r"reshape\(\) missing .*'shape'"),
        (lambda x: tg.expand_dims(x), r"expand_dims\(\) missing .*'axis'"),
        (lambda x: x.swapaxes(0), r"swapaxes\(\) missing .*'axis2'"),
    ],
)
def test_an_operation_that_lacks_an_argument_speaks_in_its_own_name(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message) as told:
        call(leaf([1.0, 2.0]))
    assert "lambda" not in str(told.value)


def test_a_dtype_among_the_options_is_shown_as_one() -> None:
    with pytest.raises(TypeError) as told:
        tg.softmax(leaf([1.0]), dtype=np.float32)
    assert "attribute" not in str(told.value) and "float32" in str(told.value)


def test_a_name_is_a_text() -> None:
    for give in (lambda: tg.Tensor(1.0, name=3), lambda: leaf(1.0).named(3)):
        with pytest.raises(TypeError, match="name is a text, got 3"):
            give()


@pytest.mark.parametrize("width", [(3,), 0, 2.5])
def test_layer_norm_needs_a_whole_width(width: Any) -> None:
    with pytest.raises(ValueError, match=r"LayerNorm needs width .* whole number >= 1"):
        tg.nn.LayerNorm(width)
