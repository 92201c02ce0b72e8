"""The table of operations: the name, the forward function, and one local rate per input, side by side.

In a rule, g is the incoming gradient ȳ = ∂L/∂y, y the output, and then come the inputs. A rule is pure calculus: it
may return a contribution of the output's shape, and the engine sums it back over the axes along which the forward
pass broadcast the input. What can be made of these operations stands in `compositions` and has no rule of its own.
"""

# mypy: disable-error-code="has-type"
# (the rules name one another across the table)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import numerics
from .recording import Part, primitive
from .signatures import Axis

# Stands in an index for an array, which is an input of its own (a replay may bring another one).
ARRAY = "array"


def _fill(index: tuple[Any, ...], ids: tuple[Any, ...]) -> tuple[Any, ...]:
    rest = iter(ids)
    return tuple(next(rest) if place is ARRAY else place for place in index)


# Rates that need more than a line ------------------------------------------------------------------------------------


def _spread(g: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    """A reduction's gradient, given back to every entry that was reduced."""
    return broadcast_to(g if axis is None or keepdims or not x.ndim else expand_dims(g, axis), x.shape)


def _tie_share(g: Any, y: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Of max and min: the gradient, shared equally among the entries that tie."""
    ties = equal(x, y if axis is None or keepdims else expand_dims(y, axis))
    return where(ties, _spread(g, x, axis, keepdims) / sum(astype(ties, x.dtype), axis, True), 0.0)


def _larger(g: Any, a: Any, b: Any) -> Any:
    """Of maximum and minimum: the gradient where a > b, half of it where they tie."""
    return where(greater(a, b), g, where(equal(a, b), 0.5 * g, 0.0))


def _power_base(g: Any, y: Any, x: Any, p: Any) -> Any:
    if isinstance(p, (int, float)):
        return g * (p * power(x, p - 1)) if p else g * 0.0
    flat = equal(p, 0)  # x**0 is constant, also at x = 0
    return g * where(flat, 0.0, p * power(x, where(flat, 1.0, p - 1)))


def _matmul_left(g: Any, y: Any, a: Any, b: Any) -> Any:
    if b.ndim == 1:  # y has lost the columns
        return expand_dims(g, -1) * b
    if a.ndim == 1:  # y has lost the rows: a is one row
        return (expand_dims(g, -2) @ b.swapaxes(-1, -2)).reshape((*b.shape[:-2], len(a)))
    return g @ b.swapaxes(-1, -2)


def _matmul_right(g: Any, y: Any, a: Any, b: Any) -> Any:
    if a.ndim == 1:
        return a * g if b.ndim == 1 else expand_dims(a, -1) * expand_dims(g, -2)
    if b.ndim == 1:
        return a * expand_dims(g, -1)
    if b.ndim == 2 < a.ndim and b.size:  # one product over all rows, not one for each batch entry
        return a.reshape((-1, a.shape[-1])).swapaxes(0, 1) @ g.reshape((-1, g.shape[-1]))
    return a.swapaxes(-1, -2) @ g


def concat_places(parts: Sequence[Any], axis: int, ndim: int) -> list[Any]:
    """Where the parts of a concatenation stand in it, as indices."""
    before, start, places = (slice(None),) * (axis % ndim), 0, []
    for part in parts:
        stop = start + part.shape[axis]
        places.append((*before, slice(start, stop), ...))
        start = stop
    return places


def stack_places(parts: Sequence[Any], axis: int, ndim: int) -> list[Any]:
    """Where the parts of a stack stand in it, as indices."""
    return [(*(slice(None),) * (axis % ndim), i, ...) for i in range(len(parts))]


def _einsum_parts(g: Any, y: Any, *operands: Any, subscripts: str) -> list[Any]:
    inputs, output = subscripts.split("->")
    labels, contributions = inputs.split(","), []
    for k, (mine, x) in enumerate(zip(labels, operands, strict=True)):
        others = [output, *labels[:k], *labels[k + 1 :]]
        kept = "".join(label for label in mine if any(label in other for other in others))
        c = einsum_(g, *operands[:k], *operands[k + 1 :], subscripts=f"{','.join(others)}->{kept}")
        size = dict(zip(kept, c.shape, strict=True))
        c = c.reshape(tuple(size.get(label, 1) for label in mine))
        # what only x has, or the others have once, was summed or spread: it is given back to every entry
        shape = tuple(n if size.get(a, 1) == 1 else size[a] for a, n in zip(mine, x.shape, strict=True))
        contributions.append(broadcast_to(c, shape))
    return contributions


def _backward(x: Any, axis: int) -> Any:
    return x[(*(slice(None),) * (axis % x.ndim), slice(None, None, -1), ...)]


def _inverse(axes: Any) -> Any:
    return None if axes is None else tuple(np.argsort([axis % len(axes) for axis in axes]).tolist())


# The table -----------------------------------------------------------------------------------------------------------
# fmt: off
# ruff: noqa: E501

add         = primitive(np.add,              lambda g, y, a, b: g,      lambda g, y, a, b: g)
subtract    = primitive(np.subtract,         lambda g, y, a, b: g,      lambda g, y, a, b: -g)
multiply    = primitive(np.multiply,         lambda g, y, a, b: g * b,  lambda g, y, a, b: g * a)
divide      = primitive(np.divide,           lambda g, y, a, b: g / b,  lambda g, y, a, b: -(g * y) / b)
matmul      = primitive(np.matmul,           _matmul_left,              _matmul_right)
power       = primitive(np.power,            _power_base,               lambda g, y, x, p: g * y * astype(log(where(equal(x, 0), 1.0, x)), y.dtype))
maximum     = primitive(np.maximum,          lambda g, y, a, b: _larger(g, a, b),  lambda g, y, a, b: _larger(g, b, a))
minimum     = primitive(np.minimum,          lambda g, y, a, b: _larger(g, b, a),  lambda g, y, a, b: _larger(g, a, b))
where       = primitive(lambda c, a, b: np.where(c, a, b), None, lambda g, y, c, a, b: where(c, g, 0.0), lambda g, y, c, a, b: where(c, 0.0, g), name="where")

negative    = primitive(np.negative,         lambda g, y, x: -g)
exp         = primitive(np.exp,              lambda g, y, x: g * y)
expm1       = primitive(np.expm1,            lambda g, y, x: g * (y + 1))
log         = primitive(np.log,              lambda g, y, x: g / x)
log1p       = primitive(np.log1p,            lambda g, y, x: g / (1 + x))
sqrt        = primitive(np.sqrt,             lambda g, y, x: 0.5 * g / y)
square      = primitive(np.square,           lambda g, y, x: g * (2 * x))
abs         = primitive(np.absolute,         lambda g, y, x: g * sign(x), name="abs")
sign        = primitive(np.sign,             lambda g, y, x: g * 0.0)
sin         = primitive(np.sin,              lambda g, y, x: g * cos(x))
cos         = primitive(np.cos,              lambda g, y, x: -(g * sin(x)))
tanh        = primitive(np.tanh,             lambda g, y, x: g * (1 - y * y))
sigmoid     = primitive(numerics.sigmoid,    lambda g, y, x: g * (y * (1 - y)))
logsigmoid  = primitive(numerics.logsigmoid, lambda g, y, x: g * sigmoid(-x))
relu        = primitive(numerics.relu,       lambda g, y, x: g * greater(x, 0))

sum         = primitive(numerics.sum,        lambda g, y, x, axis=None, keepdims=False: _spread(g, x, axis, keepdims))
max         = primitive(numerics.max,        _tie_share)
min         = primitive(numerics.min,        _tie_share)
norm        = primitive(numerics.norm,       lambda g, y, x, axis=None, keepdims=False: x * _spread(g / where(equal(y, 0), 1.0, y), x, axis, keepdims))
logsumexp   = primitive(numerics.logsumexp,  lambda g, y, x, axis=-1, keepdims=False: softmax(x, axis) * _spread(g, x, axis, keepdims))
softmax     = primitive(numerics.softmax,    lambda g, y, x, axis=-1: y * (g - (g * y).sum(axis=axis, keepdims=True)))
log_softmax = primitive(numerics.log_softmax, lambda g, y, x, axis=-1: g - exp(y) * g.sum(axis=axis, keepdims=True))
cumsum_     = primitive(lambda x, axis: np.cumsum(x, axis), lambda g, y, x, axis: _backward(cumsum_(_backward(g, axis), axis), axis), name="cumsum")

# These move values about. What one takes from places, its adjoint puts there.
reshape     = primitive(lambda x, shape: np.reshape(x, shape), lambda g, y, x, shape: g.reshape(x.shape), name="reshape", view=True)
transpose   = primitive(lambda x, axes=None: np.transpose(x, axes), lambda g, y, x, axes=None: transpose(g, _inverse(axes)), name="transpose", view=True)
swapaxes    = primitive(lambda x, axis1, axis2: np.swapaxes(x, axis1, axis2), lambda g, y, x, axis1, axis2: g.swapaxes(axis1, axis2), name="swapaxes", view=True)
expand_dims = primitive(lambda x, axis: np.expand_dims(x, axis), lambda g, y, x, axis: g.reshape(x.shape), name="expand_dims", view=True)
squeeze     = primitive(lambda x, axis=None: np.squeeze(x, axis), lambda g, y, x, axis=None: g.reshape(x.shape), name="squeeze", view=True)
broadcast_to = primitive(lambda x, shape: np.broadcast_to(x, shape), lambda g, y, x, shape: g, name="broadcast_to")
detach      = primitive(lambda x: x, None, name="detach", view=True)
astype      = primitive(lambda x, dtype: np.asarray(x).astype(dtype), lambda g, y, x, dtype: g, name="astype")
getitem     = primitive(lambda x, index: x[index], lambda g, y, x, index: Part(g, index), name="getitem", view=True)
assemble    = primitive(numerics.assemble, every=lambda g, y, *values, indices, shape: [g[index] for index in indices])
gather      = primitive(lambda x, *ids, index: x[_fill(index, ids)], lambda g, y, x, *ids, index: scatter(g, *ids, index=index, shape=x.shape), name="gather")
scatter     = primitive(lambda x, *ids, index, shape, out=None: numerics.scatter(x, _fill(index, ids), shape, out), lambda g, y, x, *ids, index, shape: gather(g, *ids, index=index), name="scatter")
embedding   = primitive(numerics.rows, lambda g, y, table, ids: scatter(g, ids, index=(ARRAY,), shape=table.shape), None, name="embedding")
concat_     = primitive(lambda *parts, axis=0, out=None: np.concatenate(parts, axis, out), every=lambda g, y, *parts, axis=0: [g[place] for place in concat_places(parts, axis, y.ndim)], name="concat")
stack_      = primitive(lambda *parts, axis=0, out=None: np.stack(parts, axis, out), every=lambda g, y, *parts, axis=0: [g[place] for place in stack_places(parts, axis, y.ndim)], name="stack")
einsum_     = primitive(lambda *operands, subscripts: np.einsum(subscripts, *operands, optimize=len(operands) > 2), every=_einsum_parts, name="einsum")

# Comparisons carry no gradient.
equal, not_equal, less, less_equal, greater, greater_equal = (
    primitive(f, None, None) for f in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
)
