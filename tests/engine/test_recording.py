"""How operations are recorded: primitives of one's own, no_grad, steps and scopes, threads and tasks."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg

# a·x³ with the rates 3a·x² and, for the constant a, none
cube = tg.primitive(lambda x, a=1.0: a * x**3, lambda g, y, x, a=1.0: g * (3 * a * x**2), name="cube")


def leaf(*values: float, name: str | None = None) -> tg.Tensor:
    return tg.Tensor(values[0] if len(values) == 1 else list(values), requires_grad=True, name=name)


# Primitives ----------------------------------------------------------------------------------------------------------


def test_a_primitive_of_your_own_is_an_operation_like_any_other() -> None:
    x = leaf(2.0)
    y = cube(x, a=5.0)
    assert y.item() == 40 and y.operation == "cube" and tg.grad(y, x).item() == 60
    second = tg.grad(tg.grad(y, x, create_graph=True), x)
    assert second.item() == 60
    assert cube(x, 5.0).item() == 40  # options may stand by position


def test_a_primitive_on_arrays_is_its_forward_function() -> None:
    result = cube(np.array([1.0, 2.0]))
    assert type(result) is np.ndarray and result.tolist() == [1.0, 8.0]
    assert cube(2.0) == 8.0 and type(cube(2.0)) is float
    assert tg.tanh(0.0) == 0.0


def test_contributions_are_summed_over_broadcast_axes_in_the_dtype_of_the_input() -> None:
    product = tg.primitive(np.multiply, lambda g, y, a, b: g * b, lambda g, y, a, b: g * a)
    a = tg.Tensor(np.ones((2, 1), np.float32), requires_grad=True)
    b = tg.Tensor(np.arange(12.0).reshape(2, 2, 3), requires_grad=True)
    y = product(a, b)
    assert y.operation == "multiply" and y.dtype == np.float64
    da, db = tg.grad(y, [a, b], 1.0)
    assert da.tolist() == [[24.0], [42.0]] and da.dtype == np.float32
    assert db.shape == (2, 2, 3) and db.dtype == np.float64


def test_an_input_without_a_rule_carries_no_gradient() -> None:
    masked = tg.primitive(lambda x, m: np.where(m, x, 0.0), lambda g, y, x, m: g * m, None, name="masked")
    x, m = leaf(1.0, 2.0), leaf(1.0, 0.0)
    y = masked(x, m)
    assert [g.tolist() for g in tg.grad(y, [x, m], [3.0, 5.0])] == [[3.0, 0.0], [0.0, 0.0]]
    assert not masked(tg.Tensor([1.0, 2.0]), m).requires_grad


def test_one_function_may_give_all_contributions() -> None:
    product = tg.primitive(
        lambda *xs: np.prod(np.stack(xs), 0), every=lambda g, y, *xs: [g * y / x for x in xs], name="product"
    )
    a, b, c = leaf(2.0), leaf(3.0), leaf(5.0)
    assert [g.item() for g in tg.grad(product(a, b, c), [c, a])] == [6.0, 15.0]
    assert product(a).item() == 2


def test_a_rule_may_contribute_to_one_place() -> None:
    row = tg.primitive(lambda x, i: x[i], lambda g, y, x, i: tg.Part(g, (i, ...)), name="row")
    x = tg.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = row(x, i=1) + row(x, i=1) * 10.0 + row(x, i=0)
    assert tg.grad(y, x, [1.0, 2.0]).tolist() == [[1.0, 2.0], [11.0, 22.0]]
    assert tg.grad(y, x, [1.0, 2.0], create_graph=True).tolist() == [[1.0, 2.0], [11.0, 22.0]]


def test_only_what_a_gradient_flows_through_is_recorded() -> None:
    x, c = leaf(2.0), tg.Tensor(3.0)
    assert not (c * 2.0).requires_grad and (c * 2.0).operation is None
    assert (x * c).requires_grad and (x * c).operation == "multiply"
    assert type(x > 1) is np.ndarray


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: tg.tanh(x, 1, 2), TypeError, r"tanh takes 1 inputs and the options \[\], got 3"),
        (lambda x: tg.sum(x, 0, True, 7), TypeError, r"the options \['axis', 'keepdims'\], got 4 arguments"),
        (lambda x: tg.tanh(x, axis=2), TypeError, r"tanh\(\(3,\) float64, axis=2\)"),
        (lambda x: tg.exp(x, out=np.zeros(3)), TypeError, r"exp never writes into an array \(out=\)"),
        (lambda x: tg.matmul(x, 2.0), ValueError, r"matmul\(\(3,\) float64, 2.0\)"),
        (lambda x: x + "one", TypeError, r"add\(\(3,\) float64, 'one'\): ufunc 'add'"),
        (lambda x: x + None, TypeError, r"add\(\(3,\) float64, None\)"),
        (lambda x: x + object(), TypeError, r"add\(\(3,\) float64, <object"),
        (lambda x: x + np.array([object()] * 3), TypeError, r"add\(\(3,\) float64, \(3,\) object\)"),
        (lambda x: x + tg.Tensor([1.0, 2.0]), ValueError, r"add\(\(3,\) float64, \(2,\) float64\).*broadcast"),
        (lambda x: x @ tg.Tensor([1.0, 2.0]), ValueError, r"matmul\(\(3,\) float64, \(2,\) float64\)"),
        (lambda x: tg.sum(x, axis=3), ValueError, r"sum\(\(3,\) float64, axis=3\).*out of bounds"),
        (lambda x: tg.reshape(x, (2, 2)), ValueError, r"reshape\(\(3,\) float64, shape=\(2, 2\)\)"),
        (lambda x: x[5], IndexError, r"getitem\(\(3,\) float64, index=\(5, Ellipsis\)\)"),
        (lambda x: x[[0, 5]], IndexError, r"gather\(\(3,\) float64, \(2,\) int64"),
        (lambda x: x[1.5], IndexError, "integer"),
        (lambda x: tg.stack([x, x[:2]]), ValueError, r"stack\(\(3,\) float64, \(2,\) float64, axis=0\)"),
        (lambda x: tg.concat([]), ValueError, "concat"),
        (lambda x: tg.embedding(x, [3]), IndexError, r"embedding.*ids lie in 0\.\.2, got 3\.\.3"),
        (lambda x: tg.embedding(x, [0.5]), TypeError, "embedding.*whole numbers, got dtype float64"),
        (lambda x: tg.einsum("ij,jk", x), ValueError, "'ij,jk' names 2 operands, got 1"),
        (lambda x: tg.einsum("ij->i", x), ValueError, r"einsum\(\(3,\) float64"),
        (lambda x: tg.split(x, 2), ValueError, "3 entries along axis 0 into 2 equal parts"),
        (lambda x: tg.mean(x, axis=1), ValueError, "axis 1 is out of bounds"),
        (lambda x: tg.prod(x, axis=1), ValueError, r"axis 1 is out of bounds for shape \(3,\)"),
        (lambda x: tg.var(x, ddof=3), ValueError, "3 entries need ddof below 3, got 3"),
        (lambda x: tg.pad(x, 1, mode="mean"), ValueError, "mode 'mean' has no rule"),
        (lambda x: tg.dot(x, np.zeros((1, 2, 2))), ValueError, r"axes \[0\] of shape \(3,\)"),
        (lambda x: tg.max(x[:0]), ValueError, r"max\(\(0,\) float64\)"),
    ],
)  # fmt: skip
def test_an_error_names_the_operation_and_what_it_was_given(
    call: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(error, match=message):
        call(x)
    assert x.grad is None


@pytest.mark.parametrize(
    ("constant", "change"),
    [
        (np.array([10.0, 20.0]), lambda c: c.fill(0.0)),
        ([10.0, 20.0], lambda c: c.clear()),
        (np.array([[10.0], [20.0]])[:, 0], lambda c: c.fill(np.nan)),
    ],
    ids=["array", "list", "view"],
)
def test_a_constant_that_is_changed_later_changes_no_gradient(constant: Any, change: Callable[[Any], None]) -> None:
    x = leaf(1.0, 2.0)
    y = x * constant
    change(constant)
    assert tg.grad(y, x, [1.0, 2.0]).tolist() == tg.grad(y, x, [1.0, 2.0], create_graph=True).tolist() == [10.0, 40.0]


def test_axes_that_are_changed_later_change_no_gradient() -> None:
    x, axes = tg.Tensor(np.zeros((2, 3, 4)), requires_grad=True), [2, 0, 1]
    y = tg.transpose(x, axes)
    axes.reverse()
    assert tg.grad(y, x, np.arange(24.0).reshape(4, 2, 3))[1, 2, 3] == 23


def test_indices_and_masks_that_are_changed_later_change_no_gradient() -> None:
    x, ids, mask = leaf(1.0, 2.0, 3.0), np.array([2, 0]), np.array([True, False, True])
    picked, masked, chosen = x[ids], x[mask], tg.where(mask, x, 0.0)
    ids[:], mask[:] = 1, False
    assert tg.grad(picked, x, [1.0, 10.0]).tolist() == [10.0, 0.0, 1.0]
    assert tg.grad(masked, x, [1.0, 10.0]).tolist() == [1.0, 0.0, 10.0]
    assert tg.grad(chosen, x, [1.0, 5.0, 10.0]).tolist() == [1.0, 0.0, 10.0]


# The recording context -----------------------------------------------------------------------------------------------


def recording() -> bool:
    return (leaf(1.0) * 2.0).requires_grad


def test_no_grad_nests_and_is_restored_after_an_exception() -> None:
    with tg.no_grad():
        with tg.no_grad():
            assert not recording()
        assert not recording()
        with tg.enable_grad():
            assert recording()
        with pytest.raises(KeyError), tg.enable_grad():
            raise KeyError
        assert not recording()
    assert recording()
    with pytest.raises(ZeroDivisionError), tg.no_grad():
        raise ZeroDivisionError
    assert recording()


def test_one_no_grad_may_be_entered_again() -> None:
    silent = tg.no_grad()
    with silent, silent:
        assert not recording()
    assert recording()
    with silent:
        assert not recording()
    assert recording()


def test_no_grad_decorates_functions_but_not_what_runs_in_pieces() -> None:
    @tg.no_grad()
    def quiet(depth: int) -> bool:
        return recording() or (depth > 0 and quiet(depth - 1))

    assert not quiet(3) and recording()

    def generator() -> Iterator[int]:
        yield 1

    async def coroutine() -> None: ...

    async def asynchronous_generator() -> Any:
        yield 1

    for function in (generator, coroutine, asynchronous_generator):
        with pytest.raises(TypeError, match=f"{function.__name__} runs in pieces.*with block"):
            tg.no_grad()(function)


def test_steps_and_scopes_label_what_is_made_within() -> None:
    w = leaf(2.0)
    with tg.scope("layer0"), tg.step(3):
        with tg.scope("forward"):
            h = w * w
        constant = tg.Tensor(1.0)
        with tg.step(np.int64(4)):
            later = w * h
    assert (h.step, h.scope) == (3, "layer0.forward")
    assert (constant.step, constant.scope) == (3, "layer0")
    assert later.step == 4 and type(later.step) is int
    assert (w.step, w.scope, (w * w).step) == (None, "", None)
    assert h.label() == "the result of multiply at step 3" and h.named("h").label() == "h at step 3"


@pytest.mark.parametrize("t", [1.0, True, np.True_, "1", None, np.array(1.0), np.array([1])])
def test_a_step_is_a_whole_number(t: Any) -> None:
    with pytest.raises(TypeError, match=r"tg\.step needs t as a whole number, got"):
        tg.step(t)


def test_a_step_is_left_after_an_exception_and_keeps_no_grad() -> None:
    with tg.no_grad():
        with tg.step(2):
            assert not recording()
        with pytest.raises(KeyError), tg.step(2):
            raise KeyError
        assert tg.Tensor(1.0).step is None


def test_threads_do_not_see_each_others_context() -> None:
    """Four threads and this one meet within their own blocks, and each finds its own."""
    meet, found = threading.Barrier(5), {}

    def work(t: int) -> None:
        with tg.step(t), tg.no_grad() if t % 2 else tg.enable_grad():
            meet.wait(10)
            y = leaf(1.0) * 2.0
            meet.wait(10)
            found[t] = (y.step, y.requires_grad)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    with tg.step(9):
        meet.wait(10)
        y = leaf(1.0) * 2.0
        meet.wait(10)
    for thread in threads:
        thread.join()
    assert found == {t: (t, t % 2 == 0) for t in range(4)} and (y.step, y.requires_grad) == (9, True)


def test_a_decorated_function_may_run_in_many_threads_at_once() -> None:
    meet, found = threading.Barrier(4), []

    @tg.no_grad()
    def quiet() -> bool:
        meet.wait(10)
        return recording()

    def work() -> None:
        found.append((quiet(), recording()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(False, True)] * 4


def test_one_no_grad_object_serves_many_threads_and_tasks_at_once() -> None:
    """They leave the block in the order in which they entered it, not the other way round."""
    block, meet, wrong = tg.no_grad(), threading.Barrier(8), []

    def work(k: int) -> None:
        try:
            for _ in range(20):
                with block:
                    meet.wait(10)
                    wrong.extend([k] * recording())
                    with block:
                        meet.wait(10)
                wrong.extend([k] * (not recording()))
        except Exception as error:
            meet.abort()
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []

    async def task(seconds: float) -> bool:
        with block:
            await asyncio.sleep(seconds)
        return recording()

    async def tasks() -> list[bool]:
        return await asyncio.gather(task(0.0), task(0.01), task(0.005))

    assert asyncio.run(tasks()) == [True] * 3


def test_blocks_that_are_left_in_another_order_give_back_what_was_before_each() -> None:
    def left() -> None:
        outer, inner = tg.step(1), tg.no_grad()
        outer.__enter__(), inner.__enter__()
        outer.__exit__(None, None, None)
        assert recording() and tg.Tensor(1.0).step is None
        inner.__exit__(None, None, None)
        assert recording() and tg.Tensor(1.0).step == 1
        with pytest.raises(ValueError):
            inner.__exit__(None, None, None)

    contextvars.copy_context().run(left)


def test_graphs_that_are_built_by_several_threads_are_in_order() -> None:
    """Numbers are given in the order of recording, whoever records."""
    w, results = leaf(0.5), []

    def work(n: int) -> None:
        h: Any = tg.Tensor(1.0)
        for _ in range(200):
            h = w * h + float(n)
        results.append((n, h))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loss: Any = 0.0
    for _, h in sorted(results, key=lambda pair: pair[0]):
        loss = loss + h
    loss.backward()
    assert w.grad == pytest.approx(4 * (0 + 1 + 2))  # h tends to n / (1 - w)


def test_tasks_do_not_see_each_others_context() -> None:
    async def work(t: int) -> tuple[Any, bool]:
        with tg.step(t), tg.no_grad() if t % 2 else tg.enable_grad():
            for _ in range(3):
                await asyncio.sleep(0)
            y = leaf(1.0) * 2.0
            return y.step, y.requires_grad

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(work(t) for t in range(4)))

    assert asyncio.run(all_of_them()) == [(t, t % 2 == 0) for t in range(4)]
    assert recording() and tg.Tensor(1.0).step is None


def test_a_rule_for_every_input_needs_a_forward_function_of_any_number_of_inputs():
    with pytest.raises(TypeError, match=r"both: `every` is the rule .* \*inputs"):
        tg.primitive(lambda a, b: a + b, every=lambda g, y, a, b: (g, g), name="both")


def test_an_array_among_the_options_is_told_by_its_shape() -> None:
    a, b = tg.Tensor(np.zeros(2)), tg.Tensor(np.zeros((3, 2)))
    with pytest.raises(TypeError, match=r"^squeeze\(.*axis=\(3, 2\) float64\): "):
        tg.squeeze(b, axis=b.data)
    with pytest.raises(TypeError, match=r"in one list: concat\(\[a, b\]\)"):
        tg.concat(b, b)
    with pytest.raises(ValueError, match=r"^sum\(\(2,\) float64, axis=3\): "):
        a.sum(axis=3)
