"""Which usual mistake makes exactly this wrong gradient out of the right one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from ..engine.backward import collect, seeded, sweep
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of, record_of
from .measuring import Function, complex_slope, entry

FACTORS = {
    2.0: "counted twice (or the 2 of a square that a ½ should cancel)",
    0.5: "half of it is missing (one of two equal uses, or a ½ too many)",
}


def same(mine: Array, right: Array, tolerance: float) -> bool:
    """Equal as far as a wrong gradient can be recognised: within `tolerance` of the largest right entry."""
    if mine.shape != right.shape or not (np.isfinite(mine).all() and np.isfinite(right).all()):
        return False
    return bool((np.abs(mine - right) <= tolerance * np.abs(right).max(initial=0)).all())


def fitting(mine: Array, right: Array, tolerance: float = 1e-4) -> list[str]:
    """The usual mistakes that turn `right` into `mine`, the likeliest first; both arrays are whole gradients.

    >>> fitting(np.array([-1.0, 2.0]), np.array([1.0, -2.0]))
    ['the sign is turned round']
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
        yield "the sign is turned round"
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
        ", with the sign turned round" if factor < 0 else ""
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


def of_uses(mine: Array, contributions: list[tuple[str, Array]], tolerance: float = 1e-4) -> list[str]:
    """Whether a gradient that should be the sum of these contributions is that of some uses alone."""
    if len(contributions) < 2:
        return []
    arrays = [c for _, c in contributions]
    total = np.sum(arrays, axis=0)
    for k, (where, c) in enumerate(contributions):
        if same(mine, c, tolerance):
            which = {0: "first", len(arrays) - 1: "last"}.get(k, f"{k + 1}th")
            return [f"only the {which} of {len(arrays)} uses is counted ({where})"]
        if same(mine, total - c, tolerance):
            return [f"use {k + 1} of {len(arrays)} is missing ({where})"]
    return []


# With the function at hand --------------------------------------------------------------------------------------------


def explain(function: Function, arrays: Sequence[Array], k: int, mine: Array, right: Array) -> list[str]:
    """Which usual mistakes make `mine` out of `right`, the gradients of a function for its variable k."""
    cut = _cuts(function, arrays, k) if np.isfinite(mine).all() else []
    found = [*_uses(function, arrays, k, mine), *fitting(mine, right), *_slope_or_value(function, arrays, k, mine)]
    return list(dict.fromkeys([*cut, *found, *_broadcasts(function, arrays, k, mine)]))


def _uses(function: Function, arrays: Sequence[Array], k: int, mine: Array) -> list[str]:
    """Each edge into the variable read by itself, so that no addition can go wrong in this."""
    contributions = []
    with function.at(arrays) as variables:
        x = variables[k]
        results, seeds = function.recorded(function(variables))
        order = collect(results)
        edges = [(t, i) for t in order for i in record_of(t).needs if record_of(t).inputs[i] is x]
        for edge in edges if len(edges) <= 100 else []:

            def crosses(t: Tensor, i: int, edge: tuple[Tensor, int] = edge) -> bool:
                return record_of(t).inputs[i] is not x or (t is edge[0] and i == edge[1])

            alone = sweep(list(order), seeded(results, seeds), crosses)
            contributions.append((_where(edge[0]), np.asarray(alone.get(x, np.zeros(x.shape)))))
    return of_uses(mine, contributions)


def _where(t: Tensor) -> str:
    return f"{t.operation}" + ("" if t.step is None else f" at step {t.step}")


def _cuts(function: Function, arrays: Sequence[Array], k: int) -> list[str]:
    """Constants on the tape that change with the variable all the same: credit ends there."""
    moved = list(arrays)
    moved[k] = arrays[k] + 1e-3
    tapes = []
    for values in (arrays, moved):
        with function.at(values) as variables:
            results, _ = function.recorded(function(variables))
            tapes.append([(t, record_of(t)) for t in collect(results)])  # read while the leaves hold these values
    one, other = tapes
    if not one:
        return ["the result is a constant: it was computed from .data, from .detach() or under no_grad"]
    for (t, record), (_, after) in zip(one, other, strict=False):
        for i, x in enumerate(record.inputs):
            a, b = np.asarray(record.values[i]), np.asarray(after.values[i])
            if i not in record.needs and a.dtype.kind == "f" and a.shape == b.shape and not np.array_equal(a, b):
                what = x.label() if isinstance(x, Tensor) else "an array"
                return [
                    f"credit is cut: {what}, an input of {_where(t)}, is a constant on the tape, yet it changes with "
                    f"{function.labels[k]} (.detach(), .data or np.asarray?)"
                ]
    return []


def _slope_or_value(function: Function, arrays: Sequence[Array], k: int, mine: Array) -> list[str]:
    with function.at(arrays) as variables:
        ys = [(array_of(y), u) for y, u in zip(function(variables), function.cotangents, strict=True) if u is not None]
    if len(ys) != 1 or ys[0][0].shape != mine.shape:
        return []
    y, u = ys[0]
    if same(mine, u, 1e-6):
        return ["the slope is missing: g is passed on as it came"]
    return ["the output stands where its slope should: g·y"] if same(mine, u * y, 1e-6) else []


def _broadcasts(function: Function, arrays: Sequence[Array], k: int, mine: Array) -> list[str]:
    """Let every copy that broadcasting makes be an input of its own, and see which of them were counted."""
    shapes = [u.shape for u in function.cotangents if u is not None]
    if len(shapes) != 1 or shapes[0] == mine.shape or not np.isfinite(mine).all():
        return []
    shape = shapes[0]
    try:
        spread = np.broadcast_to(arrays[k], shape).copy()
        wider = [*arrays[:k], spread, *arrays[k + 1 :]]
        if (
            spread.size > 400
            or k >= len(arrays) - len(function.parameters)
            or not np.array_equal(function.weighed(wider)[0], function.weighed(arrays)[0])
        ):
            return []
        copies = np.array([complex_slope(function, wider, entry(wider, k, i)).value for i in np.ndindex(shape)])
    except Exception:  # the function does not take the wider input, or complex numbers
        return []
    extra = len(shape) - mine.ndim
    axes = (*range(extra), *(i + extra for i, n in enumerate(mine.shape) if n != shape[i + extra]))
    return of_broadcasting(mine, copies.reshape(shape), axes)
