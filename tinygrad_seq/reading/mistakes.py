"""The usual mistakes that people make when they derive a gradient by hand, and how to recognise them.

One catalogue for all: `Flow.diagnose` asks it of a tape, `testing.compare` of two arrays, `testing.check_grads` of a
function. A mistake is recognised by the number that it gives: each is said beside the wrong gradient that it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from ..engine.backward import Crosses, sweep, times_rates
from ..engine.ops import TABLE, concat_, divide, matmul, negative, sign, softmax, sum
from ..engine.signatures import Array
from ..engine.tensor import Tensor, record_of

FACTORS = {
    2.0: "counted twice (zero_grad forgotten, or a square's 2 left over)",
    0.5: "half is missing (averaged over two, one of two uses, or a half too many)",
}


def same(mine: Array, right: Array, tolerance: float) -> bool:
    """Equal as far as a wrong gradient can be recognised: within `tolerance` of the largest right entry."""
    if mine.shape != right.shape or not (np.isfinite(mine).all() and np.isfinite(right).all()):
        return False
    return bool((np.abs(mine - right) <= tolerance * np.abs(right).max(initial=0)).all())


def of_numbers(mine: Array, right: Array, tolerance: float = 1e-4) -> list[str]:
    """The usual mistakes that turn `right` into `mine`, the likeliest first; both arrays are whole gradients.

    >>> of_numbers(np.array([-1.0, 2.0]), np.array([1.0, -2.0]))
    ['the sign is reversed']
    """
    if not np.isfinite(mine).all():
        return ["it is not finite: 0/0, log 0 or an overflow inside a rule"]
    if mine.shape != right.shape:
        return _of_another_shape(mine, right, tolerance)
    if not np.abs(right).max(initial=0) or same(mine, right, tolerance):
        return []
    if not mine.any():
        return ["zero everywhere: credit never arrives"]
    return [*_multiples(mine, right, tolerance), *_rearranged(mine, right, tolerance)]


def _multiples(mine: Array, right: Array, tolerance: float) -> Iterable[str]:
    factor = float((mine * right).sum() / (right * right).sum())
    if not same(mine, factor * right, tolerance):
        return
    if abs(factor + 1) < tolerance:
        yield "the sign is reversed"
        return
    size = abs(factor)
    whole = round(size) if size > 1 else round(1 / size)
    if abs((size if size > 1 else 1 / size) - whole) > 10 * tolerance * whole:
        if mine.size > 1:  # one number is always a multiple of another
            yield f"{factor:.6g} times the right gradient"
        return
    known = float(whole) if size > 1 else 1 / whole
    said = FACTORS.get(known)
    if said is None:
        said = f"counted {whole} times" if size > 1 else f"averaged over {whole} where contributions are summed"
    yield f"{known * np.sign(factor):.6g} times the right gradient: {said}" + (
        ", with the sign reversed" if factor < 0 else ""
    )


def _rearranged(mine: Array, right: Array, tolerance: float) -> Iterable[str]:
    if not 2 <= mine.ndim == right.ndim <= 4:
        return
    for axes in permutations(range(mine.ndim)):
        if axes != tuple(range(mine.ndim)) and same(mine, right.transpose(axes), tolerance):
            last = (*range(mine.ndim - 2), mine.ndim - 1, mine.ndim - 2)
            yield "transposed" if axes == last else f"its axes are permuted: transpose{axes} of the right gradient"
            return


def _of_another_shape(mine: Array, right: Array, tolerance: float) -> list[str]:
    extra = mine.ndim - right.ndim
    if extra >= 0 and all(n in (1, m) for m, n in zip(mine.shape[extra:], right.shape, strict=True)):
        axes = (*range(extra), *(i + extra for i, n in enumerate(right.shape) if n != mine.shape[i + extra]))
        if same(mine.sum(axis=axes).reshape(right.shape), right, tolerance):
            return [f"the sum over the broadcast axes {axes} is missing"]
    if permuted := list(_rearranged(mine, right, tolerance)):
        return permuted
    return [f"it has shape {mine.shape} where the tensor has shape {right.shape}"]


def of_broadcasting(mine: Array, spread: Array, axes: tuple[int, ...], tolerance: float = 1e-4) -> list[str]:
    """What went wrong with the sum over the axes along which an input was broadcast.

    `spread`: what the gradient would be if every copy were an input of its own; the right gradient is its sum.
    """
    parts = {
        "only the first entry is counted": [slice(0, 1) if i in axes else slice(None) for i in range(spread.ndim)],
        "only the last entry is counted": [slice(-1, None) if i in axes else slice(None) for i in range(spread.ndim)],
    }
    found = [said for said, index in parts.items() if same(mine, spread[tuple(index)].reshape(mine.shape), tolerance)]
    if same(mine, spread.mean(axis=axes).reshape(mine.shape), tolerance):
        found.append("it is averaged")
    return [f"the sum over the broadcast axes {axes} is missing: {said}" for said in found]


# On a tape ------------------------------------------------------------------------------------------------------------

# Operations whose slope people forget: of one input, entry by entry, with a slope that depends on where one is.
ACTIVATIONS = {
    row.operation for row in TABLE if row.operation.elementwise and len(row.operation.rules) == 1
} - {negative, sign} | {softmax}  # fmt: skip


def of_uses(contributions: Sequence[tuple[str, Array]]) -> Iterator[tuple[str, Array]]:
    """One use of several counted alone, or left out; a contribution comes with where it was made."""
    n = len(contributions)
    if n < 2:
        return
    total = np.sum([c for _, c in contributions], axis=0)
    for k in (n - 1, *range(n - 1)):
        where, c = contributions[k]
        which = {0: f"the first of {n} uses", n - 1: f"the last of {n} uses"}.get(k, f"use {k + 1} of {n}")
        yield f"only {which} is counted ({where})", c
        if n > 2:
            yield f"{which} is missing ({where})", total - c


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


def of_transposes(
    order: Sequence[Tensor], seeds: Mapping[Tensor, Any], crosses: Crosses, w: Tensor
) -> Iterator[tuple[str, Array]]:
    """The flow once more, with the recurrent weights of every product not transposed on the way back."""
    widths = _recurrent_widths(order)

    def rates(g: Any, operation: Any, y: Any, values: Any, options: Any, places: Any) -> list[Any]:
        sent = times_rates(g, operation, y, values, options, places)
        if operation is matmul and 0 in places and values[1].shape in widths and np.ndim(g) == np.ndim(values[0]):
            d, b = widths[values[1].shape], values[1]
            blocks = range(0, b.shape[1], d)
            back = np.sum([g[..., k : k + d] @ b[-d:, k : k + d] for k in blocks], axis=0)
            sent[list(places).index(0)] = np.concatenate([sent[list(places).index(0)][..., :-d], back], -1)
        return sent

    if widths:
        g = sweep(list(order), dict(seeds), crosses, rates=rates).get(w)
        yield "U stands in place of its transpose", np.zeros(w.shape, w.dtype) if g is None else np.asarray(g)


def _recurrent_widths(order: Sequence[Tensor]) -> dict[tuple[int, ...], int]:
    """Of the matrices that multiply [x, h] or h, the width of h: their last rows, in square blocks."""
    found = {}
    for t in order:
        record = record_of(t)
        if record.operation is not matmul or record.values[1].ndim != 2:
            continue
        a, b = record.inputs[0], record.values[1]
        made = a.record if isinstance(a, Tensor) else None
        joined = made is not None and made.operation is concat_ and made.options.get("axis", 0) in (-1, t.ndim - 1)
        d = made.values[-1].shape[-1] if made is not None and joined else b.shape[0]
        if d > 1 and b.shape[1] % d == 0:
            found[b.shape] = d
    return found


def of_counting_again(
    order: Sequence[Tensor], uses: Sequence[tuple[Tensor, Array]], crosses: Crosses, w: Tensor
) -> Iterator[tuple[str, Array]]:
    """What earlier steps owe to w counted in each use as well, though the way back through the state brings it.

    `uses`: what reads w, with the credit that had arrived there. One sweep from all of them at once.
    """
    if len(uses) > 1:
        seeds: dict[Tensor, Any] = {}
        for t, g in uses:
            seeds.setdefault(t, np.array(g))
        again = sweep(list(order), seeds, crosses).get(w)
        if again is not None:
            yield "in each use, what the earlier state owes to it was counted again", np.asarray(again)
