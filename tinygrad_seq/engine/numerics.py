"""Forward functions that NumPy does not have: pure NumPy, exact far out in the tails, quiet about it.

Real and complex numbers pass through alike (so that a complex step can check the rates), and the dtype is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Constants as arrays: NumPy would convert a Python number at every call. LARGEST: the largest numbers whose exp is
# finite, just below log(3.4028235e38) and log(1.7976931348623157e308).
INFINITY = np.asarray(np.inf, np.float16)
ONE = {np.dtype(t): np.ones((), t) for t in (np.float16, np.float32, np.float64, np.complex64, np.complex128)}
LARGEST = {np.dtype(t): np.asarray(x, t) for t, x in ((np.float32, 88.72283), (np.float64, 709.782712893384))}


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
    low = np.where(np.real(x) < 0, x, 0)
    return low - np.log1p(np.exp(np.where(np.real(x) < 0, x, -x)))


def peak(x: Any, axis: Any) -> Any:
    """The largest entry along axis, kept as an axis; 0 where it is not finite (a fully masked row)."""
    top = np.real(x).max(axis=axis, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(top), top, 0).astype(top.dtype)


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


def logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    top, rest = log_sum(floating(x), axis)
    return top + rest if keepdims else (top + rest).squeeze(axis)


def log_softmax(x: Any, axis: Any = -1, out: Any = None) -> Any:
    x = floating(x)
    out = np.empty_like(x) if out is None else out
    top, rest = log_sum(x, axis, out)
    np.subtract(x, top, out)
    return np.subtract(out, np.where(np.isneginf(np.real(rest)), 0, rest), out)


def norm(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    largest = np.abs(floating(x)).max(axis=axis, keepdims=True, initial=0)
    scale = np.where((largest > 0) & (largest < np.inf), largest, 1).astype(largest.dtype)
    scale = scale / (2 * np.frexp(scale)[0])  # a power of two: dividing by it rounds nothing
    unit = x / scale  # neither overflows nor underflows when squared
    total = np.sqrt((unit * unit).sum(axis=axis, keepdims=True)) * scale
    return total if keepdims else total.squeeze(axis)


def rows(table: Any, ids: Any) -> Any:
    if np.asarray(ids).dtype.kind not in "iu":
        raise TypeError(f"ids are whole numbers, got dtype {np.asarray(ids).dtype}")
    if np.size(ids) and (np.min(ids) < 0 or np.max(ids) >= len(table)):
        raise IndexError(f"ids lie in 0..{len(table) - 1}, got {np.min(ids)}..{np.max(ids)}")
    return table[ids]


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


def assemble(*values: Any, indices: Any, shape: Any, out: Any = None) -> Any:
    whole = zeros(shape, values[0].dtype, out)
    for value, index in zip(values, indices, strict=True):
        whole[index] += value
    return whole
