"""What went wrong: the usual mistakes that people make when they derive a gradient through time by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..engine.backward import Crosses, sweep
from ..engine.recording import primitive
from ..engine.signatures import Array
from ..engine.tensor import Tensor
from .ledger import Uses

ACTIVATIONS = ("tanh", "sigmoid", "relu", "softmax", "square")
# The two ways of getting an activation's rate wrong.
_forgotten = primitive(lambda x: x, lambda g, y, x: g, name="forgotten")
_value = primitive(lambda x: x, lambda g, y, x: g * y, name="value")


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
        if t.operation == "divide" and 1 not in t._needs and np.size(t._arrays[1]) == 1:
            means.add(float(np.asarray(t._arrays[1]).reshape(-1)[0]))
        elif t.operation == "sum" and t.size:
            sums.add(t._arrays[0].size / t.size)
    for n in sorted(means - {0.0, 1.0}):
        yield f"it is the gradient of the sum, not of the mean over {n:g}", gradient * n
    for n in sorted(sums - {0.0, 1.0}):
        yield f"it is the gradient of the mean over {n:g}, not of the sum", gradient / n


def of_slopes(
    order: Sequence[Tensor], seeds: Mapping[Tensor, Any], crosses: Crosses, w: Tensor
) -> Iterator[tuple[str, Array]]:
    """The flow once more, with the slope of one kind of activation left out, or its value taken in its place."""
    for name in ACTIVATIONS:
        if any(t.operation == name for t in order):
            yield f"the slope of {name} was forgotten", _with(order, seeds, crosses, w, name, _forgotten)
            if name in ("tanh", "sigmoid"):
                yield f"the value of {name} was taken for its slope", _with(order, seeds, crosses, w, name, _value)


def _with(
    order: Sequence[Tensor], seeds: Mapping[Tensor, Any], crosses: Crosses, w: Tensor, name: str, other: Any
) -> Array:
    """The gradient of w on a copy of the tape where every operation of this name has the rates of another."""
    copies: dict[Tensor, Tensor] = {}
    original: dict[Tensor, Tensor] = {}
    for t in order:
        copy = Tensor.__new__(Tensor)._become_leaf(t._array, t.name)
        copy._operation = other if t.operation == name else t._operation
        copy._inputs = tuple(copies.get(x, x) if isinstance(x, Tensor) else x for x in t._inputs)
        copy._arrays, copy._options, copy._needs = t._arrays, {} if t.operation == name else t._options, t._needs
        copies[t], original[copy] = copy, t
    arrived = sweep(
        list(copies.values()),
        {copies.get(y, y): g for y, g in seeds.items()},
        None if crosses is None else lambda t, i: crosses(original[t], i),
    )
    g = arrived.get(copies.get(w, w))
    return np.zeros(w.shape, w.dtype) if g is None else np.asarray(g)
