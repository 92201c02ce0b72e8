"""Values that are not kept but computed again on the way back: time in exchange for memory.

What a function computed is forgotten as soon as it returns: on the tape stands one operation, with what the function
read as its inputs. When a backward pass comes to it, the function runs again, and the operations that it records are
put in its place on the tape. The pass goes on through them as if they had been there all along, so every sum is added
in the same order, and gradients are the same bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from .arguments import drawing
from .backward import Arrived, collect
from .context import CONTEXT
from .recording import Recording, next_number, primitive
from .signatures import Array
from .tensor import Tensor
from .tree import leaves, map_state

P = ParamSpec("P")
R = TypeVar("R")


def recompute(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose inner values are computed again on the way back instead of being kept.

    What PyTorch calls checkpoint, and JAX remat: memory for its inputs and results alone, for one more run in the
    backward pass. It takes and returns tensors, or tuples, lists and dicts of them. Gradients are bit for bit those of
    the function itself, of any order, and go to all that it read, parameters too. Random operations draw what they drew
    before, and their generators are left as they were.

    On the way back RuntimeError where the function no longer gives the same values (it must depend on its arguments, on
    tensors and on random operations alone), or where a parameter was given new data since. A flow, `tg.grad` and
    Jacobians read such a tape; its uses, chains and visibility are not kept, and are refused.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(0.5, requires_grad=True, name="w")
    >>> cube = tg.recompute(lambda x: w * x * x * x)
    >>> y = cube(tg.Tensor(2.0))
    >>> len(tg.Tape(y)), w.grad  # the segment and its result: four operations are not kept
    (2, None)
    >>> y.backward()
    >>> w.grad
    array(8.)
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        first = next_number()
        with drawing() as drawn:
            results = function(*arguments, **options)
        inside = _inside(results, first)
        replayed = CONTEXT.get().tracing is not None
        if not inside or (replayed and drawn):  # nothing requires a gradient; a replay would draw other numbers again
            return results
        made = set(inside)
        read = dict.fromkeys(x for t in inside for i in t._needs if (x := t._inputs[i]) not in made)
        ends = list(dict.fromkeys(y for y in leaves(results) if y in made))
        again = _Again(functools.partial(function, *arguments, **options), drawn, [y._array for y in ends])
        segment = _segment(*read, again=again)
        kept = {}
        for k, y in enumerate(ends):
            kept[y] = _result(segment, _constant(y), k=k)
            kept[y].name, kept[y]._where = y.name, y._where
        return cast(R, map_state(lambda y: kept.get(y, y) if isinstance(y, Tensor) else y, results))

    return call


class _Again(NamedTuple):
    """What is needed to run a function once more, and to see that it does the same."""

    function: Callable[[], Any]
    drawn: dict[np.random.Generator, Any]  # the generators that it drew from, and their states before
    values: list[Array]


def _inside(results: Any, first: int) -> list[Tensor]:
    """The operations behind these results that were recorded after the number `first`, in order."""
    return collect([y for y in leaves(results) if y._requires and y._number > first], first)


def _constant(y: Tensor) -> Tensor:
    """What stays of a result: its array, without what made it. While a replay is recorded, the result itself, which the
    replay computes."""
    return y if CONTEXT.get().tracing is not None else Tensor.__new__(Tensor)._become_leaf(y._array, None)


class _Credit(dict[int, Any]):
    """What has arrived at the results of a segment, by their number: stands in the place of a gradient."""

    shape, dtype = (), np.dtype(np.float64)
    __hash__ = object.__hash__  # type: ignore[assignment]  # by identity, as a tensor

    def __add__(self, other: _Credit) -> _Credit:
        return _Credit({**self, **other})


def not_kept() -> RuntimeError:
    """The error for a question about operations that are not kept."""
    return RuntimeError(
        "what was computed inside tg.recompute is not kept, so its uses cannot be told apart: ask for the flow, or "
        "record without recompute"
    )


def _refused(*_: Any, again: Any) -> Any:
    raise not_kept()


@contextmanager
def _put_back(drawn: dict[np.random.Generator, Any]) -> Iterator[None]:
    """The generators as they were before the first run; afterwards as they are now."""
    now = {rng: rng.bit_generator.state for rng in drawn}
    try:
        for rng, state in drawn.items():
            rng.bit_generator.state = state
        yield
    finally:
        for rng, state in now.items():
            rng.bit_generator.state = state


def _expanded(t: Tensor, credit: _Credit, arrived: Arrived) -> list[Tensor]:
    """The operations of a segment, recorded anew, with the credit of its results put where it belongs."""
    again: _Again = t._options["again"]
    for x, array in zip(t._inputs, t._arrays, strict=True):
        if x._array is not array:
            raise RuntimeError(
                f"{x.label()} was given new data after tg.recompute had read it: take gradients before that"
            )
    first, tracing = next_number(), CONTEXT.get().tracing
    with ExitStack() as stack:
        stack.enter_context(Recording(lambda context: t._where._replace(recording=True, tracing=tracing)))
        stack.enter_context(_put_back(again.drawn))
        results = again.function()
    inside = _inside(results, first)
    made = set(inside)
    ends = list(dict.fromkeys(y for y in leaves(results) if y in made))
    same = len(ends) == len(again.values) and all(
        np.array_equal(y._array, array, equal_nan=array.dtype.kind == "f")
        for y, array in zip(ends, again.values, strict=True)
    )
    if not same:
        raise RuntimeError(
            "a function inside tg.recompute gave other values when it ran again: it must depend on its arguments, on "
            "tensors and on random operations alone (not on numbers drawn or changed elsewhere)"
        )
    for k, g in credit.items():
        arrived[ends[k]] = g
    return inside


_segment = primitive(lambda *inputs, again: np.zeros(()), every=_refused, name="recompute")
_segment.expand = _expanded
_result = primitive(
    lambda segment, value, k: value, lambda g, y, segment, value, k: _Credit({k: g}), None, name="recomputed"
)
