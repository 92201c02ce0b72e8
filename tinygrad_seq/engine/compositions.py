"""Operations that are made of others: they have no rule of their own, and need none.

The names are NumPy's where NumPy has the function. Everything takes tensors or arrays. `composed` notes beside each
which function of NumPy it answers for, and whether it is a method of tensors.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from string import ascii_letters
from typing import Any

import numpy as np

from . import ops
from .ops import Row, logsigmoid, matmul, maximum, minimum, norm, reshape, square, squeeze, sum, swapaxes
from .signatures import AnyFunction, Axis, with_axis
from .tensor import Tensor

TABLE: list[Row] = []


def composed(numpy: Any = (), method: bool = False) -> Callable[[AnyFunction], AnyFunction]:
    """A composition: which functions of NumPy it answers for, and whether it is a method of tensors."""

    def add(function: AnyFunction) -> AnyFunction:
        function = with_axis(function)
        TABLE.append(Row(function, numpy if isinstance(numpy, tuple) else (numpy,), method))
        return function

    return add


def _axes(x: Any, axis: Axis) -> tuple[int, ...]:
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for i in axes:
        if not -x.ndim <= i < x.ndim:
            raise ValueError(f"axis {i} is out of bounds for shape {x.shape}")
    return tuple(i % x.ndim for i in axes)


def _along(axis: int, place: Any) -> tuple[Any, ...]:
    """The index that takes `place` along one axis and everything along the others."""
    return (*(slice(None),) * axis, place)


@composed()
def softplus(x: Any) -> Any:
    return 0.0 - logsigmoid(-x)  # which has no -0.0 far out on the left


@composed(numpy=np.clip, method=True)
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


@composed(numpy=np.mean, method=True)
def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return sum(x, axis, keepdims) / _count(x, axis)


@composed(numpy=np.var, method=True)
def var(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Any:
    return sum(square(x - mean(x, axis, True)), axis, keepdims) / _freedom(x, axis, ddof)


@composed(numpy=np.std, method=True)
def std(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Any:
    return norm(x - mean(x, axis, True), axis, keepdims) / _freedom(x, axis, ddof) ** 0.5


def _count(x: Any, axis: Axis) -> int:
    return math.prod(x.shape[i] for i in _axes(x, axis))


def _freedom(x: Any, axis: Axis, ddof: int) -> int:
    n = _count(x, axis)
    if n <= ddof:
        raise ValueError(f"var and std over {n} entries need ddof below {n}, got {ddof}")
    return n - ddof


@composed(numpy=np.prod, method=True)
def prod(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    axes = _axes(x, axis)
    for i in axes:  # halves are multiplied until one is left: no division, so a zero among the factors is no trouble
        x = swapaxes(x, i, 0)
        while len(x) > 1:
            half = len(x) // 2
            product = x[:half] * x[half : 2 * half]
            x = concat([product, x[2 * half :]]) if len(x) % 2 else product
        x = swapaxes(x if len(x) else sum(x, 0, True) + 1, i, 0)
    return x if keepdims else squeeze(x, axes)


@composed(numpy=np.cumsum, method=True)
def cumsum(x: Any, axis: int | None = None) -> Any:
    return ops.cumsum_(reshape(x, (-1,)) if axis is None else x, 0 if axis is None else axis)


@composed(numpy=np.transpose)
def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    return ops.transpose(x, None if axes is None else tuple(axes))  # a list might be changed before it is read again


@composed(numpy=np.flip)
def flip(x: Any, axis: Axis = None) -> Any:
    for i in _axes(x, axis):
        x = x[_along(i, slice(None, None, -1))]
    return x


@composed(numpy=np.concatenate)
def concat(parts: Sequence[Any], axis: int = 0) -> Any:
    return ops.concat_(*parts, axis=axis)


@composed(numpy=np.stack)
def stack(parts: Sequence[Any], axis: int = 0) -> Any:
    return ops.stack_(*parts, axis=axis)


@composed(numpy=np.split)
def split(x: Any, sections: int | Sequence[int], axis: int = 0) -> list[Any]:
    (i,) = _axes(x, axis)
    n = x.shape[i]
    if isinstance(sections, int):
        if sections < 1 or n % sections:
            raise ValueError(f"split cannot divide {n} entries along axis {axis} into {sections} equal parts")
        sections = range(n // sections, n, n // sections) if n else [0] * (sections - 1)
    return [x[_along(i, slice(start, stop))] for start, stop in pairwise([0, *sections, n])]


@composed(numpy=np.pad)
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: float = 0.0) -> Any:
    if mode != "constant":
        raise ValueError(f"pad fills with a constant; mode {mode!r} has no rule")
    for i, (before, after) in enumerate(np.broadcast_to(pad_width, (x.ndim, 2)).tolist()):
        sides = [np.full((*x.shape[:i], n, *x.shape[i + 1 :]), constant_values, x.dtype) for n in (before, after)]
        x = concat([sides[0], x, sides[1]], i) if before or after else x
    return x


@composed(numpy=np.take, method=True)
def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    return reshape(x, (-1,))[indices] if axis is None else x[_along(_axes(x, axis)[0], indices)]


@composed(numpy=np.dot, method=True)
def dot(a: Any, b: Any) -> Any:
    dimensions = [x.ndim if isinstance(x, Tensor) else np.ndim(x) for x in (a, b)]
    if builtins.max(dimensions) > 2:
        raise ValueError("dot takes numbers, vectors and matrices; matmul is for batches, einsum for the rest")
    return a * b if 0 in dimensions else matmul(a, b)


@composed(numpy=np.outer)
def outer(a: Any, b: Any) -> Any:
    return reshape(a, (-1, 1)) * reshape(b, (1, -1))


@composed(numpy=np.einsum)
def einsum(subscripts: str, *operands: Any) -> Any:
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    labels, xs = inputs.split(","), list(operands)
    if len(labels) != len(xs):
        raise ValueError(f"einsum {subscripts!r} names {len(labels)} operands, got {len(xs)}")
    unused = iter(sorted(set(ascii_letters) - set(subscripts)))
    # "..." stands for the axes that have no letter; the last ones of all operands are the same
    open_axes = [
        x.ndim - len(name.replace("...", "")) if "..." in name else 0 for x, name in zip(xs, labels, strict=True)
    ]
    batch = "".join(next(unused) for _ in range(builtins.max(open_axes)))
    labels = [name.replace("...", batch[len(batch) - n :]) for name, n in zip(labels, open_axes, strict=True)]
    if not arrow:
        letters = "".join(labels)
        output = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in batch))
    for k, name in enumerate(labels[: len(operands)]):  # a letter twice is the diagonal: a product with the identity
        for i, c in enumerate(name):
            if c in labels[k][:i]:
                new = next(unused)
                labels[k] = labels[k][:i] + new + labels[k][i + 1 :]
                labels.append(c + new)
                xs.append(np.eye(xs[k].shape[i], dtype=xs[k].dtype))
    return ops.einsum_(*xs, subscripts=f"{','.join(labels)}->{output.replace('...', batch)}")


@composed(method=True)
def astype(x: Any, dtype: Any) -> Any:
    gradient = np.dtype(dtype).kind == "f"
    return ops.astype(x if gradient or not isinstance(x, Tensor) else x.detach(), np.dtype(dtype))


@composed(method=True)
def detach(x: Tensor) -> Tensor:
    """The same values (shared, read-only) without the edge: the value crosses, the credit does not."""
    leaf = ops.detach(x)
    leaf.name = x.name
    return leaf
