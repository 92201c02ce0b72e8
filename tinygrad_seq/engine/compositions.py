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
from typing import Any, overload

import numpy as np

from . import ops
from .arguments import NUMBERS, indices_from
from .numerics import HALF, rounded, widened
from .ops import Row, logsigmoid, matmul, norm, reshape, square, squeeze, sum, swapaxes
from .signatures import AnyFunction, Arrays, Axis, with_answers
from .tensor import Tensor

TABLE: list[Row] = []


def composed(numpy: Any = (), method: bool = False) -> Callable[[AnyFunction], AnyFunction]:
    """A composition: which functions of NumPy it answers for, and whether it is a method of tensors."""

    def add(function: AnyFunction) -> AnyFunction:
        function = with_answers(function)
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
def softplus(x: Arrays) -> Arrays:
    return 0.0 - logsigmoid(0.0 - x)  # no -0.0 far out on the left; and -x of unsigned integers would wrap


@composed(numpy=np.clip, method=True)
def clip(x: Arrays, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Arrays:
    low, high = (low if min is None else min), (high if max is None else max)
    x = _array(x)
    if low is not None and high is not None:
        return ops.clip_(x, low, high)
    if x.dtype.kind == "f":
        return x if low is high else ops.clip_(x, -math.inf if low is None else low, math.inf if high is None else high)
    x = x if low is None else ops.maximum(x, low)  # an infinite bound would make floats of whole numbers
    return x if high is None else ops.minimum(x, high)


@composed(numpy=np.mean, method=True)
def mean(x: Arrays, axis: Axis = None, keepdims: bool = False) -> Arrays:
    return _as_given(sum(_floats(x), axis, keepdims) / _count(x, axis), x)


@composed(numpy=np.var, method=True)
def var(x: Arrays, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Arrays:
    wide = _floats(x)
    total = sum(square(wide - mean(wide, axis, keepdims=True)), axis, keepdims)
    return _as_given(total / _freedom(x, axis, ddof), x)


@composed(numpy=np.std, method=True)
def std(x: Arrays, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Arrays:
    wide = _floats(x)
    total = norm(wide - mean(wide, axis, keepdims=True), axis, keepdims)
    return _as_given(total / _freedom(x, axis, ddof) ** 0.5, x)


def _floats(x: Any) -> Any:
    """x to be averaged: integers as float64, whose sums do not wrap, and float16 as float32."""
    return ops.astype(x, np.dtype(float)) if x.dtype.kind in "biu" else widened(x)


def _as_given(y: Any, x: Any) -> Any:
    """An average of x, in float16 again if x is."""
    return rounded(y, HALF) if x.dtype == HALF else y


def _count(x: Any, axis: Axis) -> int:
    return math.prod(x.shape[i] for i in _axes(x, axis))


def _freedom(x: Any, axis: Axis, ddof: float) -> float:
    n = _count(x, axis)
    if n <= ddof:
        raise ValueError(f"var and std over {n} entries need ddof below {n}, got {ddof}")
    return n - ddof


@composed(numpy=np.prod, method=True)
def prod(x: Arrays, axis: Axis = None, keepdims: bool = False) -> Arrays:
    axes = _axes(x, axis)
    x = x if x.dtype.kind in "fc" else ops.astype(x, np.prod(np.zeros(0, x.dtype)).dtype)  # narrow integers would wrap
    for i in axes:  # halves are multiplied until one is left: no division, so a zero among the factors is no trouble
        x = swapaxes(x, i, 0)
        while len(x) > 1:
            half = len(x) // 2
            product = x[:half] * x[half : 2 * half]
            x = concat([product, x[2 * half :]]) if len(x) % 2 else product
        x = swapaxes(x if len(x) else sum(x, 0, True) + 1, i, 0)
    return x if keepdims else squeeze(x, axes)


@composed(numpy=np.cumsum, method=True)
def cumsum(x: Arrays, axis: int | None = None) -> Arrays:
    return ops.cumsum_(reshape(x, (-1,)) if axis is None else x, 0 if axis is None else axis)


@composed(numpy=np.cumprod, method=True)
def cumprod(x: Arrays, axis: int | None = None) -> Arrays:
    x = reshape(x, (-1,)) if axis is None else x
    (i,), done = _axes(x, 0 if axis is None else axis), 1
    x = x if x.dtype.kind in "fc" else ops.astype(x, np.cumprod(np.zeros(0, x.dtype)).dtype)
    while done < x.shape[i]:  # products of 1, 2, 4, … neighbours: no division, so a zero among them is no trouble
        front, back = x[_along(i, slice(None, done))], x[_along(i, slice(None, -done))]
        x, done = concat([front, x[_along(i, slice(done, None))] * back], i), 2 * done
    return x


@composed(numpy=np.transpose)
def transpose(x: Arrays, axes: Sequence[int] | None = None) -> Arrays:
    return ops.transpose(x, None if axes is None else tuple(axes))  # a list might be changed before it is read again


@composed(numpy=np.flip)
def flip(x: Arrays, axis: Axis = None) -> Arrays:
    for i in _axes(x, axis):
        x = x[_along(i, slice(None, None, -1))]
    return x


@overload
def concat(parts: Sequence[Tensor], axis: int | None = 0) -> Tensor: ...
@overload
def concat(parts: Sequence[Any], axis: int | None = 0) -> Any: ...
@composed(numpy=np.concatenate)
def concat(parts: Sequence[Any], axis: int | None = 0) -> Any:
    parts = _parts("concat", parts, axis)
    if axis is None:
        return ops.concat_(*(reshape(_array(part), (-1,)) for part in parts), axis=0)
    return ops.concat_(*parts, axis=axis)


@overload
def stack(parts: Sequence[Tensor], axis: int = 0) -> Tensor: ...
@overload
def stack(parts: Sequence[Any], axis: int = 0) -> Any: ...
@composed(numpy=np.stack)
def stack(parts: Sequence[Any], axis: int = 0) -> Any:
    return ops.stack_(*_parts("stack", parts, axis), axis=axis)


@overload
def vstack(parts: Sequence[Tensor]) -> Tensor: ...
@overload
def vstack(parts: Sequence[Any]) -> Any: ...
@composed(numpy=np.vstack)
def vstack(parts: Sequence[Any]) -> Any:
    return concat([x if x.ndim > 1 else reshape(x, (1, -1)) for x in map(_array, _parts("vstack", parts))])


@overload
def hstack(parts: Sequence[Tensor]) -> Tensor: ...
@overload
def hstack(parts: Sequence[Any]) -> Any: ...
@composed(numpy=np.hstack)
def hstack(parts: Sequence[Any]) -> Any:
    parts = [x if x.ndim else reshape(x, (1,)) for x in map(_array, _parts("hstack", parts))]
    return concat(parts, 0 if parts and parts[0].ndim == 1 else 1)


def _parts(name: str, parts: Any, axis: Any = 0) -> Any:
    if np.ndim(axis) or isinstance(axis, Tensor) or (isinstance(parts, Tensor) and not parts.ndim):
        raise TypeError(f"{name} takes the parts in one list: {name}([a, b])")
    return parts


def _array(x: Any) -> Any:
    return x if isinstance(x, (Tensor, np.ndarray)) else np.asarray(x)


@composed(numpy=np.split)
def split(x: Arrays, sections: int | Sequence[int], axis: int = 0) -> list[Arrays]:
    (i,) = _axes(x, axis)
    n = x.shape[i]
    if isinstance(sections, (int, np.integer)):
        if sections < 1 or n % sections:
            raise ValueError(f"split cannot divide {n} entries along axis {axis} into {sections} equal parts")
        sections = range(n // sections, n, n // sections) if n else [0] * (int(sections) - 1)
    return [x[_along(i, slice(start, stop))] for start, stop in pairwise([0, *sections, n])]


def moved(function: Callable[..., Any], x: Any, *args: Any, **options: Any) -> Any:
    """What a function of NumPy that only moves values about gives: it is asked where each one goes.

    It moves the places 1, 2, …; where it puts a 0 of its own, the result is 0.
    """
    if not isinstance(x, Tensor):
        return function(x, *args, **options)

    def read(places: Any) -> Any:
        if isinstance(places, (list, tuple)):
            return type(places)(read(part) for part in places)
        if x.size and places.all():
            return reshape(x, (-1,))[places - 1]
        zero = np.zeros(1, x.dtype)
        return concat([zero, reshape(x, (-1,))])[places]

    return read(function(np.arange(1, x.size + 1).reshape(x.shape), *args, **options))


@composed(numpy=np.repeat, method=True)
def repeat(x: Arrays, repeats: Any, axis: int | None = None) -> Arrays:
    return moved(np.repeat, x, repeats, axis)


@composed(numpy=np.tile)
def tile(x: Arrays, reps: Any) -> Arrays:
    return moved(np.tile, x, reps)


@composed(numpy=np.roll)
def roll(x: Arrays, shift: Any, axis: Axis = None) -> Arrays:
    return moved(np.roll, x, shift, axis)


@composed(numpy=np.diag)
def diag(x: Arrays, k: int = 0) -> Arrays:
    return moved(np.diag, x, k)


@composed(numpy=np.tril)
def tril(x: Arrays, k: int = 0) -> Arrays:
    return _triangle(np.tri, x, k)


@composed(numpy=np.triu)
def triu(x: Arrays, k: int = 0) -> Arrays:
    return _triangle(lambda n, m, k: ~np.tri(n, m, k - 1, bool), x, k)


def _triangle(places: Callable[..., Any], x: Any, k: int) -> Any:
    x = x if x.ndim > 1 else ops.broadcast_to(x, x.shape * 2)  # as NumPy takes a vector
    return ops.where(places(*x.shape[-2:], k).astype(bool), x, np.zeros((), x.dtype))


@composed(numpy=np.moveaxis)
def moveaxis(x: Arrays, source: int | Sequence[int], destination: int | Sequence[int]) -> Arrays:
    order = np.moveaxis(
        np.empty(range(x.ndim)), source, destination
    ).shape  # the lengths 0, 1, 2, … tell the axes apart
    return transpose(x, order)


@composed(numpy=np.sort)
def sort(x: Arrays, axis: int | None = -1) -> Arrays:
    x, axis = (reshape(x, (-1,)), 0) if axis is None else (x, axis)
    return take_along_axis(x, ops.argsort(x, axis=axis), axis)


@composed(numpy=np.take_along_axis)
def take_along_axis(x: Arrays, indices: Any, axis: int | None = -1) -> Arrays:
    x, axis = (reshape(x, (-1,)), 0) if axis is None else (x, axis)
    (i,), indices = _axes(x, axis), _array(indices)
    if indices.ndim != x.ndim:
        raise ValueError(f"take_along_axis needs indices with {x.ndim} axes as x has, got shape {indices.shape}")
    grid = np.ogrid[tuple(slice(n) for n in x.shape)]
    return x[(*grid[:i], indices, *grid[i + 1 :])]


@composed(numpy=np.pad)
def pad(x: Arrays, pad_width: Any, mode: str = "constant", constant_values: Any = 0.0) -> Arrays:
    if mode in ("edge", "reflect", "symmetric", "wrap"):
        return moved(np.pad, x, pad_width, mode)
    if mode != "constant":
        raise ValueError(f"pad fills with a constant, or with entries of x (edge, reflect, symmetric, wrap); mode "
                         f"{mode!r} has no rule")  # fmt: skip
    widths, values = (np.broadcast_to(pairs, (x.ndim, 2)).tolist() for pairs in (pad_width, constant_values))
    for i, (width, value) in enumerate(zip(widths, values, strict=True)):
        sides = [np.full((*x.shape[:i], n, *x.shape[i + 1 :]), v, x.dtype) for n, v in zip(width, value, strict=True)]
        x = concat([sides[0], x, sides[1]], i) if any(width) else x
    return x


@composed(numpy=np.take, method=True)
def take(x: Arrays, indices: Any, axis: int | None = None) -> Arrays:
    indices = indices if isinstance(indices, Tensor) else indices_from(indices, "take")
    if indices.dtype.kind not in "biu":
        raise TypeError(f"take needs whole numbers as indices, got dtype {indices.dtype}")
    indices = indices.astype(int) if indices.dtype.kind == "b" else indices  # 0 and 1, no mask: as NumPy's take
    return reshape(x, (-1,))[indices] if axis is None else x[_along(_axes(x, axis)[0], indices)]


@overload
def dot(a: Tensor, b: Any) -> Tensor: ...
@overload
def dot(a: Any, b: Tensor) -> Tensor: ...
@overload
def dot(a: Any, b: Any) -> Any: ...
@composed(numpy=np.dot, method=True)
def dot(a: Any, b: Any) -> Any:
    a, b = _array(a), _array(b)
    if 0 in (a.ndim, b.ndim):
        return a * b
    return matmul(a, b) if b.ndim < 3 and a.ndim < 3 else tensordot(a, b, (-1, builtins.max(b.ndim - 2, 0)))


@overload
def tensordot(a: Tensor, b: Any, axes: Any = 2) -> Tensor: ...
@overload
def tensordot(a: Any, b: Tensor, axes: Any = 2) -> Tensor: ...
@overload
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any: ...
@composed(numpy=np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = _array(a), _array(b)
    if isinstance(axes, (int, np.integer)):
        axes = range(a.ndim - axes, a.ndim), range(axes)
    left, right = (
        [place % builtins.max(x.ndim, 1) for place in ((end,) if isinstance(end, (int, np.integer)) else end)]
        for x, end in zip((a, b), axes, strict=True)
    )
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ValueError(f"tensordot sums axes {left} of shape {a.shape} with {right} of {b.shape}: lengths differ")
    rows, columns = ([i for i in range(x.ndim) if i not in ends] for x, ends in ((a, left), (b, right)))
    n = math.prod(a.shape[i] for i in left)
    shape = [a.shape[i] for i in rows], [b.shape[i] for i in columns]
    flat = matmul(
        reshape(transpose(a, rows + left), (math.prod(shape[0]), n)),
        reshape(transpose(b, right + columns), (n, math.prod(shape[1]))),
    )
    return reshape(flat, (*shape[0], *shape[1]))


@overload
def outer(a: Tensor, b: Any) -> Tensor: ...
@overload
def outer(a: Any, b: Tensor) -> Tensor: ...
@overload
def outer(a: Any, b: Any) -> Any: ...
@composed(numpy=np.outer)
def outer(a: Any, b: Any) -> Any:
    return reshape(a, (-1, 1)) * reshape(b, (1, -1))


@composed(numpy=np.einsum)
def einsum(subscripts: str, *operands: Any, optimize: Any = None) -> Any:
    if not isinstance(subscripts, str):
        subscripts, operands = _lettered(subscripts, *operands)
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


def _lettered(*operands: Any) -> tuple[str, tuple[Any, ...]]:
    """NumPy's other form, einsum(x, [0, 1], y, [1, 2], [0, 2]), in letters."""
    if len(operands) < 2 or any(isinstance(places, (str, Tensor)) for places in operands[1::2]):
        raise TypeError("einsum takes the subscripts first: einsum('ij,jk->ik', a, b)")
    written = ["".join("..." if i is ... else ascii_letters[i] for i in places) for places in operands[1::2]]
    output = operands[-1] if len(operands) % 2 else None
    arrow = "" if output is None else "->" + "".join("..." if i is ... else ascii_letters[i] for i in output)
    return ",".join(written) + arrow, operands[: len(operands) // 2 * 2 : 2]


@composed(method=True)
def astype(x: Arrays, dtype: Any) -> Arrays:
    dtype = np.dtype(dtype)
    if dtype.kind not in NUMBERS:
        raise TypeError(f"astype needs a dtype of numbers, got {dtype}")
    return ops.astype(x if dtype.kind == "f" or not isinstance(x, Tensor) else x.detach(), dtype)


@composed(method=True)
def detach(x: Tensor) -> Tensor:
    """The same values (shared, read-only) without the edge: the value crosses, the credit does not."""
    leaf = ops.detach(x)
    leaf.name = x.name
    return leaf
