"""Who can depend on whom: reachability on a tape, exact about parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..engine.backward import fitted, times_rates
from ..engine.recording import Part
from ..engine.signatures import Array
from ..engine.tensor import Record, Tensor, array_of, record_of
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
    that happened to be computed. Outputs that ask about the same entries are asked about once.
    """
    asked: dict[Tensor, Patterns] = {}
    for k, (y, index) in enumerate(outputs):
        pattern = np.zeros(y.shape, bool)
        pattern[index] = True
        _ask(asked.setdefault(y, {}), pattern, 1 << k)
    leading = _leading_from(order, {x for x, _ in inputs})
    reach = _Reach()
    for t in reversed(order):
        record = record_of(t)
        places = [i for i in record.needs if record.inputs[i] in leading]
        if t in asked and places:
            for pattern, bits in _merged(asked[t], len(outputs)).values():
                for x, reached in reach.of(t, record, pattern, places):
                    _ask(asked.setdefault(x, {}), reached, bits)
    seen = np.zeros((len(outputs), len(inputs)), bool)
    for column, (x, index) in zip(seen.T, inputs, strict=True):
        for pattern, bits in asked.get(x, {}).values():
            if pattern[index].any():
                column |= [bool(bits >> k & 1) for k in range(len(outputs))]
    title = "Who sees whom: ● where the row can depend on the column"
    return Matrix(seen, map(called, outputs), map(called, inputs), title)


def _leading_from(order: Sequence[Tensor], sources: set[Tensor]) -> set[Tensor]:
    """The sources, and all that depends on them through differentiable edges."""
    found = set(sources)
    for t in order:
        record = record_of(t)
        if any(record.inputs[i] in found for i in record.needs):
            found.add(t)
    return found


class _Reach:
    """Which entries of its inputs an operation sends anything to, from marked entries of its result."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._weights: dict[tuple[int, ...], Array] = {}
        self._generic: dict[tuple[tuple[int, ...], Any], Array] = {}

    def of(self, t: Tensor, record: Record, pattern: Array, places: Sequence[int]) -> Iterator[tuple[Tensor, Array]]:
        """Each input at these places of which some entry is reached, with the entries that are."""
        y, values = self._taken(array_of(t)), [self._taken(value) for value in record.values]
        g = np.where(pattern, self._unequal(t.shape), 0.0)
        with np.errstate(all="ignore"):  # the generic number may lie outside a function's domain: nan is a mark
            sent = times_rates(g, record.operation, y, values, record.options, places)
        for i, c in zip(places, sent, strict=True):
            x = record.inputs[i]
            if type(c) is Part:
                reached = np.zeros(x.shape, bool)
                reached[c.index] = np.asarray(c.value) != 0
            else:
                reached = fitted(np.asarray(c), x, t) != 0
            if reached.any():
                yield x, reached

    def _unequal(self, shape: tuple[int, ...]) -> Array:
        """Weights of which no two are equal, so that they do not cancel in a rate with differences."""
        if shape not in self._weights:
            self._weights[shape] = self._rng.uniform(0.5, 1.5, shape)
        return self._weights[shape]

    def _taken(self, value: Any) -> Any:
        """What a value is taken to be: the generic number for every float, what it is for anything else."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return GENERIC  # a bound that all entries happen to lie beyond would hide them
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            return value
        key = value.shape, value.dtype
        if key not in self._generic:
            self._generic[key] = np.full(value.shape, GENERIC, value.dtype)
        return self._generic[key]


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
