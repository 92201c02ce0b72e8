"""Which usual mistake makes exactly this wrong gradient of a function: the catalogue, with the function at hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engine.backward import collect, seeded, sweep
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of, record_of
from ..reading.mistakes import of_broadcasting, of_numbers, of_uses, same
from .measuring import Function, complex_slope, entry


def explain(function: Function, arrays: Sequence[Array], k: int, mine: Array, right: Array) -> list[str]:
    """Which usual mistakes make `mine` out of `right`, the gradients of a function for its variable k."""
    cut = _cuts(function, arrays, k) if np.isfinite(mine).all() else []
    found = [*_uses(function, arrays, k, mine), *of_numbers(mine, right), *_slope_or_value(function, arrays, k, mine)]
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
    return [said for said, wrong in of_uses(contributions) if same(mine, wrong, 1e-4)][:1]


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
