"""Forward functions that NumPy does not have: pure NumPy, exact far out in the tails, quiet about it.

Real and complex numbers pass through alike (so that a complex step can check the rates), and the dtype is kept.
What adds up many float16 numbers does so in float32 and rounds once, at the end: `in_float32`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# Constants as arrays: NumPy would convert a Python number at every call. LARGEST: the largest numbers whose exp is
# finite, just below log(3.4028235e38) and log(1.7976931348623157e308).
INFINITY = np.asarray(np.inf, np.float16)
ONE = {np.dtype(t): np.ones((), t) for t in (np.float16, np.float32, np.float64, np.complex64, np.complex128)}
LARGEST = {np.dtype(t): np.asarray(x, t) for t, x in ((np.float32, 88.72283), (np.float64, 709.782712893384))}


# float16 has 11 bits: a sum of ones stops at 2048, and no number is above 65504. What adds up many numbers does so in
# float32, and rounds once, at the end.
HALF = np.dtype(np.float16)
SINGLE = np.dtype(np.float32)


def widened(x: Any) -> Any:
    """An array or a tensor to be added up: float16 as float32, everything else as it is."""
    return x.astype(SINGLE) if x.dtype == HALF else x


def rounded(x: Any, dtype: Any) -> Any:
    """An array or a tensor in the dtype that a result has."""
    return x if x.dtype == dtype else x.astype(dtype)


def settled(sums: Mapping[Any, Any]) -> dict[Any, Any]:
    """Sums that are complete, by what they belong to: each in its dtype."""
    return {x: rounded(total, x.dtype) for x, total in sums.items()}


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which computes in float32 where its first input is float16, and rounds at the end."""

    @functools.wraps(function)
    def computed(x: Any, *others: Any, out: Any = None, **options: Any) -> Any:
        if not isinstance(x, np.ndarray) or x.dtype != HALF:
            return function(x, *others, **options) if out is None else function(x, *others, out=out, **options)
        others = tuple([widened(y) if isinstance(y, np.ndarray) else y for y in others])
        with np.errstate(over="ignore"):  # what is too large for float16 is inf there
            result = function(x.astype(SINGLE), *others, **options).astype(HALF)
        if out is None:
            return result
        np.copyto(out, result)
        return out

    return computed


def floating(x: Any) -> Any:
    """x as an array of real or complex floats: what may be computed on in place."""
    x = np.asarray(x)
    return x if x.dtype.kind in "fc" else x * 1.0


def sigmoid(x: Any, out: Any = None) -> Any:
    """1 / (1 + exp(-x)): no other form keeps the digits of both tails."""
    e = quiet_exp(np.asarray(np.negative(floating(x), out)))
    np.add(e, ONE.get(e.dtype, 1), e)
    return np.reciprocal(e, e)


def quiet_exp(e: Any) -> Any:
    """exp(e) in place, inf where it overflows, without NumPy's warning: 1 / (1 + inf) is the right 0."""
    if masks(e):
        np.putmask(e, e > LARGEST[e.dtype], INFINITY)
        return np.exp(e, e)
    with np.errstate(over="ignore"):
        return np.exp(e, e)


def masks(e: Any) -> bool:
    """Whether to look where exp would overflow: silencing the warning costs as much as a few thousand exponentials."""
    return e.dtype in LARGEST and e.size < 5000


def relu(x: Any, out: Any = None) -> Any:
    return np.maximum(x, 0, out=out)


def elu(x: Any) -> Any:
    return np.where(np.real(x) > 0, x, np.expm1(np.where(np.real(x) > 0, 0, x)))


def clip(x: Any, low: Any, high: Any, out: Any = None) -> Any:
    return np.clip(x, low, high, out=out)


def sum(x: Any, axis: Any = None, keepdims: bool = False, out: Any = None) -> Any:
    return np.add.reduce(x, axis, out=out, keepdims=keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:  # given out=, NumPy < 2.2 errs on a reversed view
    return np.max(x, axis, None, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.min(x, axis, None, keepdims)


def logsigmoid(x: Any) -> Any:
    x = floating(x)
    low = np.where(np.real(x) < 0, x, 0)
    return low - np.log1p(np.exp(np.where(np.real(x) < 0, x, -x)))


def xlogy(x: Any, y: Any) -> Any:
    """x ln y, and 0 where x is 0, whatever y is."""
    nothing = np.equal(x, 0)
    return np.where(nothing, x * 0.0, x * np.log(np.where(nothing, 1, y)))


def weighted(x: Any, weight: Any) -> Any:
    """weight · x, and 0 where the weight is 0 and x is infinite."""
    with np.errstate(invalid="ignore"):
        product = np.multiply(weight, x)
    return np.where(np.equal(weight, 0) & np.isinf(x), 0, product).astype(product.dtype)


def unit(x: Any, axis: Any = -1, least: float = 0.0) -> Any:
    """For each row along axis a power of two to divide it by, so that its squares can be added up: 1 in the usual
    range, else that of its largest entry, and at least about `least`. Dividing by a power of two rounds nothing."""
    size = np.abs(x)
    largest = size.max(axis=axis, keepdims=True, initial=least)
    limits = np.finfo(size.dtype)
    small = np.ldexp(1.0, (limits.minexp + limits.nmant) // 2 + limits.nmant)
    far = (largest < small) | (largest > np.ldexp(1.0, limits.maxexp // 2 - 14))
    return np.where(far, power_of_two(largest), 1).astype(size.dtype)


def power_of_two(largest: Any) -> Any:
    """The largest power of two in each number; 1 where it is 0, infinite or NaN."""
    scale = np.where((largest > 0) & (largest < np.inf), largest, 1).astype(largest.dtype)
    return scale / (2 * np.frexp(scale)[0])


def peak(x: Any, axis: Any) -> Any:
    """The largest entry along axis, kept as an axis; 0 where it is not finite (a fully masked row)."""
    top = np.real(x).max(axis=axis, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(top), top, 0).astype(top.dtype)


@in_float32
def softmax(x: Any, axis: Any = -1, out: Any = None) -> Any:
    x = floating(x)
    e = np.asarray(np.subtract(x, peak(x, axis), out))
    np.exp(e, e)
    total = e.sum(axis=axis, keepdims=True)
    return np.divide(e, np.where(total == 0, 1, total), e)  # a fully masked row is zeros


def log_sum(x: Any, axis: Any, e: Any = None) -> tuple[Any, Any]:
    """(peak, log Σ exp(x − peak)), the largest term's 1 left to log1p: small sums keep their digits. `e`: where to
    compute the terms."""
    top = peak(x, axis)
    largest = np.real(x) == top
    e = np.asarray(np.subtract(x, top, e))
    np.exp(e, e)
    np.subtract(e, largest, e)  # the terms that tie for the largest, and their number, are counted apart
    others = largest.sum(axis=axis, keepdims=True, dtype=top.dtype) - 1
    with np.errstate(divide="ignore"):  # log 0 = -inf is the value of a fully masked row
        return top, np.log1p(e.sum(axis=axis, keepdims=True) + others)


@in_float32
def logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    top, rest = log_sum(floating(x), axis)
    return top + rest if keepdims else (top + rest).squeeze(axis)


@in_float32
def log_softmax(x: Any, axis: Any = -1, out: Any = None) -> Any:
    x = floating(x)
    out = np.empty_like(x) if out is None else out
    top, rest = log_sum(x, axis, out)
    np.subtract(x, top, out)
    return np.subtract(out, np.where(np.isneginf(np.real(rest)), 0, rest), out)


@in_float32
def norm(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    largest = np.abs(floating(x)).max(axis=axis, keepdims=True, initial=0)
    scale = power_of_two(largest)  # dividing by it rounds nothing
    part = x / scale  # neither overflows nor underflows when squared
    total = np.sqrt((part * part).sum(axis=axis, keepdims=True)) * scale
    return total if keepdims else total.squeeze(axis)


def rows(table: Any, ids: Any) -> Any:
    if np.asarray(ids).dtype.kind not in "iu":
        raise TypeError(f"ids are whole numbers, got dtype {np.asarray(ids).dtype}")
    if np.size(ids) and (np.min(ids) < 0 or np.max(ids) >= len(table)):
        raise IndexError(f"ids lie in 0..{len(table) - 1}, got {np.min(ids)}..{np.max(ids)}")
    return table[ids]


@in_float32
def scatter(values: Any, index: Any, shape: Any, out: Any = None) -> Any:
    """Zeros of this shape, to which the values are added at index; repeated places add up."""
    whole = zeros(shape, values.dtype, out)
    np.add.at(whole, index, values)
    return whole


def zeros(shape: Any, dtype: Any, out: Any = None) -> Any:
    if out is None:
        return np.zeros(shape, dtype)
    out.fill(0)
    return out


@in_float32
def assemble(*values: Any, indices: Any, shape: Any, out: Any = None) -> Any:
    whole = zeros(shape, values[0].dtype, out)
    for value, index in zip(values, indices, strict=True):
        whole[index] += value
    return whole
