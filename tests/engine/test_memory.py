"""What is kept, how long, and that it goes at once: by reference counting, without recursion, without cycles."""

import copy
import gc
import pickle
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg

CHAIN = 100_000


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    """Nothing here may wait for the garbage collector, and nothing may be left to it."""
    gc.collect()
    gc.disable()
    yield
    left = gc.collect()
    gc.enable()
    assert left == 0


def traced(f: Callable[[], Any]) -> tuple[Any, int]:
    """What f returns, and how many bytes more are in use while that is held."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    result = f()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return result, after - before


def breaks(g: Any, y: Any, x: Any) -> Any:
    raise ArithmeticError


fragile = tg.primitive(lambda x: x * 1.0, breaks, name="fragile")


def unrolled(steps: int, entries: int = 4) -> tuple[tg.Tensor, list[Any], tg.Tensor]:
    """A leaf, weak references to the states and to their arrays, and the loss."""
    w = tg.Tensor(np.linspace(0.1, 0.9, entries), requires_grad=True)
    h: Any = tg.Tensor(np.ones(entries))
    watched = []
    for t in range(1, steps + 1):
        with tg.step(t):
            h = tg.tanh(w * h + 1.0)
        watched += [weakref.ref(h), weakref.ref(h.data.base)]
    return w, watched, (h * h).sum()


def alive(watched: list[Any]) -> int:
    return sum(reference() is not None for reference in watched)


# Release -------------------------------------------------------------------------------------------------------------


def test_a_graph_dies_with_its_loss() -> None:
    _w, watched, loss = unrolled(5)
    assert alive(watched) == 10
    del loss
    assert alive(watched) == 0


def test_after_backward_the_interior_is_gone_although_the_loss_is_held() -> None:
    w, watched, loss = unrolled(5)
    loss.backward()
    assert alive(watched) == 0
    assert loss.item() > 0 and w.grad is not None


def test_after_backward_a_result_does_not_even_hold_the_arrays_it_was_computed_from() -> None:
    h = tg.Tensor(np.ones(3), requires_grad=True) * 2.0
    watched, loss = [weakref.ref(h.data.base)], h.sum()
    del h
    assert alive(watched) == 1
    loss.backward()
    assert alive(watched) == 0 and loss.item() == 6


def test_a_retained_graph_stays_until_it_is_let_go() -> None:
    _w, watched, loss = unrolled(5)
    loss.backward(retain_graph=True)
    assert alive(watched) == 10
    del loss
    assert alive(watched) == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda w, loss: tg.grad(loss, w),
        lambda w, loss: tg.grad(loss, w, create_graph=True),
        lambda w, loss: tg.hvp(loss, w, np.ones(4)),
        lambda w, loss: tg.jacobian(loss, w),
        lambda w, loss: tg.Tape(loss),
        lambda w, loss: tg.Tape(loss).flow(),
        lambda w, loss: str(tg.Tape(loss)),
    ],
    ids=["grad", "create_graph", "hvp", "jacobian", "tape", "flow", "print"],
)
def test_a_reading_keeps_the_graph_no_longer_than_it_is_held(read: Callable[[Any, Any], Any]) -> None:
    w, watched, loss = unrolled(5)
    answer = read(w, loss)
    assert alive(watched) == 10
    del answer, loss
    assert alive(watched) == 0


@pytest.mark.parametrize("fails", ["backward twice", "wrong seed", "failing rule"])
def test_an_error_in_the_backward_pass_keeps_nothing(fails: str) -> None:
    w, watched, loss = unrolled(5)
    if fails == "failing rule":
        loss = fragile(loss)
    if fails == "backward twice":
        loss.backward()
    with pytest.raises((tg.TapeReleasedError, ValueError, ArithmeticError)):
        loss.backward([1.0, 2.0] if fails == "wrong seed" else None)
    assert w.grad is None or fails == "backward twice"
    del loss
    assert alive(watched) == 0


def test_nothing_is_kept_under_no_grad_or_of_constants_or_behind_detach() -> None:
    with tg.no_grad():
        *_, watched, _loss = unrolled(5)
    assert alive(watched) == 0
    constant = tg.Tensor([1.0, 2.0])
    product = constant * 2.0
    watched = [weakref.ref(product)]
    further = product + 1.0
    del product
    assert alive(watched) == 0 and not further.requires_grad
    w, watched, _loss = unrolled(1)
    h = tg.tanh(w)
    watched = [weakref.ref(h)]
    state = h.detach()
    del h
    assert alive(watched) == 0 and state.shape == (4,)


def test_a_copy_keeps_no_graph() -> None:
    w, watched, loss = unrolled(5)
    copies = [copy.copy(loss), copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))]
    del loss
    assert alive(watched) == 0 and len({float(x) for x in copies}) == 1 and w.grad is None


def test_the_memory_of_the_states_falls_during_the_backward_pass() -> None:
    """2 MB of states; the pass itself may not need as much again."""

    def build() -> Any:
        return unrolled(100, entries=2_500)

    (w, _watched, loss), held = traced(build)
    assert held > 2 * 100 * 2_500 * 8  # w * h + 1 and tanh of it, at the least
    tracemalloc.start()
    loss.backward()
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * 2_500 * 8 and now < 3 * 2_500 * 8
    assert w.grad is not None


def test_memory_grows_linearly_with_the_steps() -> None:
    unrolled(2)  # what is made once
    (_, first), (_, second), (_, third) = (traced(lambda n=n: unrolled(n)) for n in (200, 400, 600))
    assert abs((third - second) - (second - first)) < 0.05 * second


def test_a_carried_state_that_is_detached_keeps_the_graph_of_one_chunk() -> None:
    w, h = tg.Tensor(0.5, requires_grad=True), tg.Tensor(0.0)
    sizes = []
    for _ in range(20):
        h = h.detach()
        for _ in range(3):
            h = tg.tanh(w * h + 1.0)
        sizes.append(len(tg.Tape(h)))
        (h * h).backward()
    assert sizes == [9] * 20


# Depth ---------------------------------------------------------------------------------------------------------------

LINKS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda y, x: y + x,
    "getitem": lambda y, x: tg.expand_dims(y, 0)[0],
    "stack": lambda y, x: tg.stack([y, x])[..., 0],
    "where": lambda y, x: tg.where(True, y, x),
    "einsum": lambda y, x: tg.einsum(",->", y, x),
}


def chain(link: Callable[[Any, Any], Any], length: int) -> tuple[tg.Tensor, tg.Tensor]:
    y = x = tg.Tensor(1.0, requires_grad=True)
    for _ in range(length):
        y = link(y, x)
    return x, y


def test_a_chain_of_a_hundred_thousand_operations_is_read_printed_copied_and_freed() -> None:
    x, y = chain(LINKS["add"], CHAIN)
    assert repr(y) == f"Tensor({CHAIN + 1}., operation=add)"
    assert tg.grad(y, x) == CHAIN + 1
    tape = tg.Tape(y)
    assert len(tape) == CHAIN and tape.flow()[x] == CHAIN + 1
    assert str(tape).count("\n") == CHAIN - 1
    assert copy.deepcopy(y).item() == pickle.loads(pickle.dumps(y)).item() == CHAIN + 1
    del tape
    y.backward()
    assert x.grad == CHAIN + 1


@pytest.mark.parametrize("link", LINKS)
def test_a_long_chain_is_freed_without_recursion(link: str) -> None:
    """A deep recursion in C would not raise, but crash."""
    _x, y = chain(LINKS[link], CHAIN if link == "add" else CHAIN // 5)
    watched = [weakref.ref(y)]
    del y
    assert alive(watched) == 0


def test_a_long_chain_is_freed_by_a_thread_with_a_small_stack() -> None:
    """2 MB, a quarter of what Linux gives: Python 3.13 nests deallocations ten thousand deep before it unwinds them."""
    graphs = [chain(LINKS["add"], CHAIN), chain(LINKS["stack"], CHAIN // 5)]
    watched = [weakref.ref(y) for _, y in graphs]
    before = threading.stack_size(2 * 1024 * 1024)
    try:
        thread = threading.Thread(target=graphs.clear)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert alive(watched) == 0


def test_a_long_create_graph_pass_can_be_read_again_and_freed() -> None:
    x, y = chain(lambda y, x: y * x, CHAIN // 5)
    slope = tg.grad(y, x, create_graph=True)
    n = CHAIN // 5 + 1
    assert slope.item() == n and tg.grad(slope, x).item() == n * (n - 1)
    watched = [weakref.ref(slope)]
    del slope
    assert alive(watched) == 0
