"""Who can depend on whom: reachability on a tape, exact about parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .ledger import times_rates
from .primitive import Part
from .signatures import Array
from .table import Matrix
from .tape import fitted
from .tensor import Tensor

# A tensor on a tape, and the entries of it that are meant: all, or one step of a sequence.
Place = tuple[Tensor, tuple[Any, ...]]
# What every float is taken to be: where a rate vanishes by chance (at 0, at 1, at a half), it does not vanish here.
GENERIC = 0.618034


def each_of(x: Tensor) -> list[Place]:
    """The entries of x along its first axis, each for itself."""
    return [(x, (k, ...)) for k in range(len(x))] if x.ndim else [(x, (...,))]


def who_sees_whom(order: Sequence[Tensor], outputs: Sequence[Place], inputs: Sequence[Place]) -> Matrix:
    """Which output can depend on which input: one pass over the tape for each output.

    A pass goes from operation to operation and marks entries. An input's entry is marked if the operation's local
    rate sends it anything from the marked entries of the result, with every float replaced by one generic number. So
    the marks depend on the graph, on indices and on masks, and not on the values that happened to be computed.
    """
    rng = np.random.default_rng(0)
    weights: dict[tuple[int, ...], Array] = {}  # no two equal, so that they do not cancel in a rate with differences
    generic: dict[tuple[tuple[int, ...], Any], Array] = {}

    def taken(a: Any) -> Any:
        if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
            return a
        if (a.shape, a.dtype) not in generic:
            generic[a.shape, a.dtype] = np.full(a.shape, GENERIC, a.dtype)
        return generic[a.shape, a.dtype]

    seen = np.zeros((len(outputs), len(inputs)), bool)
    for row, (y, index) in zip(seen, outputs, strict=True):
        marks = {y: np.zeros(y.shape, bool)}
        marks[y][index] = True
        for t in reversed(order):
            if t not in marks:
                continue
            if t.shape not in weights:
                weights[t.shape] = rng.uniform(0.5, 1.5, t.shape)
            g = np.where(marks[t], weights[t.shape], 0.0)
            with np.errstate(all="ignore"):  # the generic number may lie outside a function's domain: nan is a mark
                values = [taken(a) for a in t._arrays]
                sent = times_rates(g, t._operation, taken(t._array), values, t._options, t._needs)
            for i, c in zip(t._needs, sent, strict=True):
                x = t._inputs[i]
                mark = marks.setdefault(x, np.zeros(x.shape, bool))
                if type(c) is Part:
                    mark[c.index] |= np.asarray(c.value) != 0
                else:
                    mark |= fitted(np.asarray(c), x, t) != 0
        row[:] = [x in marks and bool(marks[x][place].any()) for x, place in inputs]
    title = "Who sees whom: ● where the row can depend on the column"
    return Matrix(seen, map(called, outputs), map(called, inputs), title)


def called(place: Place) -> str:
    """A place in few letters: h3 for h at step 3, xs[0] for the first part of xs."""
    x, index = place
    name = x.name or x.label()
    if x.name and x.step is not None:
        name += f"{'@' * name[-1].isdigit()}{x.step}"
    return name if len(index) == 1 else f"{name}[{index[0]}]"
