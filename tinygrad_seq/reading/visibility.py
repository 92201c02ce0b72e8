"""Who can depend on whom: reachability on a tape, exact about parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.backward import fitted, times_rates
from ..engine.recording import Part
from ..engine.signatures import Array
from ..engine.tensor import Tensor
from .table import Matrix

# A tensor on a tape, and the entries of it that are meant: all, or one step of a sequence.
Place = tuple[Tensor, tuple[Any, ...]]
# Marked entries of one tensor, and for which outputs they are asked about, a bit for each; by the pattern's bytes.
Patterns = dict[bytes, tuple[Array, int]]
# What every float is taken to be: where a rate vanishes by chance (at 0, at 1, at a half), it does not vanish here.
GENERIC = 0.618034


def each_of(x: Tensor) -> list[Place]:
    """The entries of x along its first axis, each for itself."""
    return [(x, (k, ...)) for k in range(len(x))] if x.ndim else [(x, (...,))]


def who_sees_whom(order: Sequence[Tensor], outputs: Sequence[Place], inputs: Sequence[Place]) -> Matrix:
    """Which output can depend on which input, by one walk back over the tape for all outputs.

    The walk carries patterns: at a tensor, which entries are asked about, and for which outputs. An input's entry is
    reached if the operation's local rate sends it anything from the marked entries of the result, with every float
    replaced by one generic number. So patterns depend on the graph, on indices and on masks, and not on the values
    that happened to be computed. What different outputs ask in the same way is asked once.
    """
    rng = np.random.default_rng(0)
    weights: dict[tuple[int, ...], Array] = {}  # no two equal, so that they do not cancel in a rate with differences
    generic: dict[tuple[tuple[int, ...], Any], Array] = {}

    def taken(a: Any) -> Any:
        if isinstance(a, (int, float)) and not isinstance(a, bool):
            return GENERIC  # a bound that all entries happen to lie beyond would hide them
        if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
            return a
        if (a.shape, a.dtype) not in generic:
            generic[a.shape, a.dtype] = np.full(a.shape, GENERIC, a.dtype)
        return generic[a.shape, a.dtype]

    leading = {x for x, _ in inputs}
    for t in order:
        if any(t._inputs[i] in leading for i in t._needs):
            leading.add(t)
    asked: dict[Tensor, Patterns] = {}
    for k, (y, index) in enumerate(outputs):
        pattern = np.zeros(y.shape, bool)
        pattern[index] = True
        _ask(asked.setdefault(y, {}), pattern, 1 << k)
    for t in reversed(order):
        places = [i for i in t._needs if t._inputs[i] in leading]
        if t not in asked or not places:
            continue
        if t.shape not in weights:
            weights[t.shape] = rng.uniform(0.5, 1.5, t.shape)
        y, values = taken(t._array), [taken(a) for a in t._arrays]
        for pattern, bits in _merged(asked[t], len(outputs)).values():
            with np.errstate(all="ignore"):  # the generic number may lie outside a function's domain: nan is a mark
                g = np.where(pattern, weights[t.shape], 0.0)
                sent = times_rates(g, t._operation, y, values, t._options, places)
            for i, c in zip(places, sent, strict=True):
                x = t._inputs[i]
                if type(c) is Part:
                    reached = np.zeros(x.shape, bool)
                    reached[c.index] = np.asarray(c.value) != 0
                else:
                    reached = fitted(np.asarray(c), x, t) != 0
                if reached.any():
                    _ask(asked.setdefault(x, {}), reached, bits)
    seen = np.zeros((len(outputs), len(inputs)), bool)
    for column, (x, index) in zip(seen.T, inputs, strict=True):
        for pattern, bits in asked.get(x, {}).values():
            if pattern[index].any():
                column |= [bool(bits >> k & 1) for k in range(len(outputs))]
    title = "Who sees whom: ● where the row can depend on the column"
    return Matrix(seen, map(called, outputs), map(called, inputs), title)


def _ask(patterns: Patterns, pattern: Array, bits: int) -> None:
    key = pattern.tobytes()
    patterns[key] = (pattern, bits | patterns[key][1] if key in patterns else bits)


def _merged(patterns: Patterns, outputs: int) -> Patterns:
    """The same questions in at most as many patterns as there are outputs."""
    if len(patterns) <= outputs:
        return patterns
    merged: Patterns = {}
    for k in range(outputs):
        own = [pattern for pattern, bits in patterns.values() if bits >> k & 1]
        if own:
            _ask(merged, np.logical_or.reduce(own), 1 << k)
    return merged


def called(place: Place) -> str:
    """A place in few letters: h3 for h at step 3, xs[0] for the first part of xs."""
    x, index = place
    name = x.name or x.label()
    if x.name and x.step is not None:
        name += f"{'@' * name[-1].isdigit()}{x.step}"
    return name if len(index) == 1 else f"{name}[{index[0]}]"
