"""A step without its recording: what it returns, and whether a replay gives the same.

`tg.replay(..., check=n)` computes every n-th call this way too. Generators are put back to where they stood, so that
both draw the same numbers, and nobody's `grad` is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine.backward import collect, seeded, sweep
from ..engine.recording import enable_grad
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from ..engine.tree import flattened, rebuilt


class Outcome(NamedTuple):
    """What a step returns: the loss (None where no gradients are wanted), the other tensors, how they are arranged,
    and whether they stand beside the loss, (loss, extra, extra)."""

    loss: Tensor | None
    tensors: list[Tensor]
    arrangement: Any
    apart: bool


def outcome_of(result: Any, gradients: bool) -> Outcome:
    """What a step returned, if it may return that: a scalar loss, or (loss, extras); without gradients any tensors."""
    loss, others = None, result
    apart = gradients and isinstance(result, tuple) and len(result) == 3
    if apart:
        result = result[0], result[1:]
    if gradients:
        loss, others = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        if not isinstance(loss, Tensor) or loss.size != 1:
            given = f"shape {loss.shape}" if isinstance(loss, Tensor) else type(loss).__name__
            raise TypeError(
                f"a replayed step returns a scalar loss, or (loss, extras); got {given} (of a forward pass alone: "
                "gradients=False)"
            )
    tensors: list[Any] = []
    arrangement = flattened(others, tensors)
    if strangers := [type(x).__name__ for x in tensors if not isinstance(x, Tensor)]:
        raise TypeError(
            f"a replayed step returns tensors, got {strangers[0]} among its {'extras' if gradients else 'results'}"
        )
    if not gradients and not tensors:
        raise TypeError(f"a replayed step returns tensors, got {type(result).__name__}")
    return Outcome(loss, tensors, arrangement, apart)


def computed(
    function: Callable[..., Any], signature: Any, arrays: Iterable[Any], parameters: Sequence[Tensor], gradients: bool
) -> list[Array]:
    """What the function and an ordinary backward pass give: the loss, the gradients of the parameters, the extras."""
    with enable_grad():
        arguments, options = rebuilt(signature, iter([Tensor(array_of(x)) for x in arrays]))
        loss, tensors, *_ = outcome_of(function(*arguments, **options), gradients)
        values = [np.array(array_of(x)) for x in tensors]
        if loss is None:
            return values
        found = sweep(collect([loss]), seeded([loss], None), release=True)
        zeros = (np.zeros(x.shape, x.dtype) for x in parameters)
        return [
            np.array(array_of(loss)),
            *(found.get(x, zero) for x, zero in zip(parameters, zeros, strict=True)),
            *values,
        ]


def difference(
    names: Sequence[str], mine: Sequence[Array], reference: Sequence[Array], exact: bool, gradients: slice
) -> str | None:
    """The first result that differs and where, in words; None if there is none.

    Exact: in no byte. Else by at most the square root of the number format's epsilon times the largest entry of that
    result, of a gradient: of all gradients (1.5e-8 of it in float64, 3.5e-4 in float32).
    """
    largest = max((_largest(g) for g in reference[gradients]), default=0.0)
    for k, (name, x, y) in enumerate(zip(names, mine, reference, strict=True)):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            return f"{name} has shape {x.shape}, dtype {x.dtype} instead of {y.shape}, {y.dtype}"
        scale = largest if k in range(len(names))[gradients] else _largest(y)
        if not (x.tobytes() == y.tobytes() if exact else _close(x, y, scale)):
            differ = (
                _bytes_of(x) != _bytes_of(y) if exact else ~np.isclose(x, y, 0, _tolerance(y, scale), equal_nan=True)
            )
            place = tuple(int(i) for i in np.argwhere(differ)[0])
            return f"{name}{list(place) if place else ''} is {x[place].item()!r} instead of {y[place].item()!r}"
    return None


def _largest(x: Array) -> float:
    finite = np.abs(x[np.isfinite(x)]) if x.dtype.kind in "fc" else np.zeros(0)
    return float(finite.max(initial=0))


def _tolerance(x: Array, scale: float) -> float:
    return float(np.finfo(x.dtype).eps ** 0.5 * scale) if x.dtype.kind in "fc" else 0.0


def _close(x: Array, y: Array, scale: float) -> bool:
    return bool(np.allclose(x, y, 0, _tolerance(y, scale), equal_nan=True))


def _bytes_of(x: Array) -> Array:
    """The bytes of each entry, as one thing that can be compared."""
    return np.ascontiguousarray(x).view(f"V{x.dtype.itemsize}").reshape(x.shape)
