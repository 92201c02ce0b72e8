"""What went wrong: the usual mistakes that people make when they derive a gradient through time by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..engine.backward import Crosses, sweep, times_rates
from ..engine.ops import TABLE, divide, negative, sign, softmax, sum
from ..engine.signatures import Array
from ..engine.tensor import Tensor, record_of
from .ledger import Uses

# Operations whose slope people forget: of one input, entry by entry, with a slope that depends on where one is.
ACTIVATIONS = {
    row.operation for row in TABLE if row.operation.elementwise and len(row.operation.rules) == 1
} - {negative, sign} | {softmax}  # fmt: skip


def of_uses(uses: Uses, gradient: Array) -> Iterator[tuple[str, Array]]:
    """Mistakes in adding up, each with the gradient that it gives."""
    yield "the sign is the wrong way round", -gradient
    yield "everything was counted twice", 2 * gradient
    if gradient.ndim == 2 and gradient.shape[0] == gradient.shape[1]:
        yield "it is transposed", gradient.T
    if len(uses) < 2:
        return
    yield f"it was averaged over the {len(uses)} uses, which add", gradient / len(uses)
    last = len(uses) - 1
    for k in (last, *range(last)):
        use = uses[k]
        which = {0: "the first use", last: "the last use"}.get(k, f"use {k + 1} of {len(uses)}")
        which += "" if use.step is None else f" (step {use.step})"
        yield f"only {which} was counted", use.contribution
        if len(uses) > 2:
            yield f"{which} is missing", gradient - use.contribution


def of_averages(order: Sequence[Tensor], gradient: Array) -> Iterator[tuple[str, Array]]:
    """A sum taken for the mean, and the other way round, for every mean and sum on the tape."""
    means, sums = set(), set()
    for t in order:
        record = record_of(t)
        if record.operation is divide and 1 not in record.needs and np.size(record.values[1]) == 1:
            means.add(float(np.asarray(record.values[1]).reshape(-1)[0]))
        elif record.operation is sum and t.size:
            sums.add(record.values[0].size / t.size)
    for n in sorted(means - {0.0, 1.0}):
        yield f"it is the gradient of the sum, not of the mean over {n:g}", gradient * n
    for n in sorted(sums - {0.0, 1.0}):
        yield f"it is the gradient of the mean over {n:g}, not of the sum", gradient / n


def of_slopes(
    order: Sequence[Tensor], seeds: Mapping[Tensor, Any], crosses: Crosses, w: Tensor
) -> Iterator[tuple[str, Array]]:
    """The flow once more, with the slope of one kind of activation left out, or its value taken in its place."""

    def with_rate(activation: Any, wrong: Callable[[Any, Any], Any]) -> Array:
        def rates(g: Any, operation: Any, y: Any, *further: Any) -> list[Any]:
            return [wrong(g, y)] if operation is activation else times_rates(g, operation, y, *further)

        g = sweep(list(order), dict(seeds), crosses, rates=rates).get(w)
        return np.zeros(w.shape, w.dtype) if g is None else np.asarray(g)

    for operation in dict.fromkeys(record_of(t).operation for t in order):
        if operation in ACTIVATIONS:
            name = operation.__name__
            yield f"the slope of {name} was forgotten", with_rate(operation, lambda g, y: g)
            yield f"the value of {name} was taken for its slope", with_rate(operation, lambda g, y: g * y)
