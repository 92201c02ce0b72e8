"""The table of operations: the name, the forward function, and one local rate per input, side by side.

In a rule, g is the incoming gradient ȳ = ∂L/∂y, y the output, and then come the inputs. A rule is pure calculus: it
may return a contribution of the output's shape, and the engine sums it back over the axes along which the forward
pass broadcast the input. What can be made of these operations stands in `compositions` and has no rule of its own.

A row says all that is known of an operation: `rate`, its local rates in words; `code`, how a printed program spells it;
`numpy`, the functions of NumPy that it answers for (a ufunc answers for itself); whether it is a `method` of tensors,
a `view`, and `elementwise`. What other modules know of operations is read off these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import numerics
from .numerics import widened
from .recording import Part, primitive
from .signatures import AlongAxis, Axis, Binary, Primitive, Reduction, Unary


class Row(NamedTuple):
    """An operation of the table, the functions of NumPy that it answers for, and whether it is a method of tensors."""

    operation: Any
    numpy: tuple[Callable[..., Any], ...]
    method: bool


TABLE: list[Row] = []


def row(*forward_and_rules: Any, numpy: Any = (), method: bool = False, **facts: Any) -> Any:
    """An operation of the table: see `primitive`."""
    operation = primitive(*forward_and_rules, **facts)
    answered = numpy if isinstance(numpy, tuple) else (numpy,)
    if isinstance(operation.forward, np.ufunc):
        answered = (operation.forward, *answered)
    TABLE.append(Row(operation, answered, method))
    return operation


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
    return where(ties, _spread(g, x, axis, keepdims) / sum(widened(astype(ties, x.dtype)), axis, True), 0.0)


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
        c = einsum_(g, *map(widened, (*operands[:k], *operands[k + 1 :])), subscripts=f"{','.join(others)}->{kept}")
        size = dict(zip(kept, c.shape, strict=True))
        c = c.reshape(tuple(size.get(label, 1) for label in mine))
        # what only x has, or the others have once, was summed or spread: it is given back to every entry
        shape = tuple(n if size.get(a, 1) == 1 else size[a] for a, n in zip(mine, x.shape, strict=True))
        contributions.append(broadcast_to(c, shape))
    return contributions


def _backward(x: Any, axis: int) -> Any:
    return x[(*(slice(None),) * (axis % x.ndim), slice(None, None, -1), ...)]


# The table -----------------------------------------------------------------------------------------------------------
# fmt: off

add: Binary = row(np.add,      lambda g, y, a, b: g,      lambda g, y, a, b: g,             rate="1",         code="+")
subtract: Binary = row(np.subtract, lambda g, y, a, b: g,      lambda g, y, a, b: -g,            rate=("1", "-1"),
        code="-")
multiply: Binary = row(np.multiply, lambda g, y, a, b: g * b,  lambda g, y, a, b: g * a,
        rate="the other factor",  code="*")
divide: Binary = row(np.divide,   lambda g, y, a, b: g / b,  lambda g, y, a, b: -(g * y) / b,
                     rate=("1 / divisor", "-y / divisor"), code="/")
matmul: Binary = row(np.matmul,   _matmul_left, _matmul_right, rate="the other matrix, transposed", code="@")
power: Binary = row(np.power,    _power_base,
                    lambda g, y, x, p: g * y * astype(log(where(equal(x, 0), 1.0, x)), y.dtype),
                    rate=("p x^(p-1)", "y log x"), code="**")
maximum: Binary = row(np.maximum,  lambda g, y, a, b: _larger(g, a, b), lambda g, y, a, b: _larger(g, b, a),
                      rate="1 where it is the larger, ½ in a tie")
minimum: Binary = row(np.minimum,  lambda g, y, a, b: _larger(g, b, a), lambda g, y, a, b: _larger(g, a, b),
                      rate="1 where it is the smaller, ½ in a tie")
clip_: Primitive = row(numerics.clip, lambda g, y, x, low, high: where(equal(x, y), g, 0.0),
                       lambda g, y, x, low, high: where(less(x, y), where(equal(y, low), g, 0.0), 0.0),
                       lambda g, y, x, low, high: where(  # whatever is neither x nor the lower bound
                           equal(x, y), 0.0, where(equal(y, low), where(greater(x, y), g, 0.0), g)),
                       name="clip", elementwise=True,
                       rate=("1 within the bounds", "1 where x is below it", "1 where x is above it"))
where: Primitive = row(lambda c, a, b: np.where(c, a, b), None,
                       lambda g, y, c, a, b: where(c, g, 0.0), lambda g, y, c, a, b: where(c, 0.0, g),
                       name="where", rate=("nothing", "1 where it was taken"), code="np.where({all})", numpy=np.where)

negative: Unary = row(np.negative, lambda g, y, x: -g,              rate="-1", code="-{0}")
exp: Unary      = row(np.exp,      lambda g, y, x: g * y,           rate="y", method=True)
expm1: Unary    = row(np.expm1,    lambda g, y, x: g * (y + 1),     rate="y + 1")
log: Unary      = row(np.log,      lambda g, y, x: g / x,           rate="1 / x", method=True)
log1p: Unary    = row(np.log1p,    lambda g, y, x: g / (1 + x),     rate="1 / (1 + x)")
sqrt: Unary     = row(np.sqrt,     lambda g, y, x: 0.5 * g / y,     rate="1 / (2 y)", method=True)
square: Unary   = row(np.square,   lambda g, y, x: g * (2 * x),     rate="2 x", method=True)
abs: Unary      = row(np.absolute, lambda g, y, x: g * sign(x),     rate="the sign of x", name="abs", method=True)
sign: Unary     = row(np.sign,     lambda g, y, x: g * 0.0,         rate="0")
sin: Unary      = row(np.sin,      lambda g, y, x: g * cos(x),      rate="cos x", method=True)
cos: Unary      = row(np.cos,      lambda g, y, x: -(g * sin(x)),   rate="-sin x", method=True)
tanh: Unary     = row(np.tanh,     lambda g, y, x: g * (1 - y * y), rate="1 - y²", method=True)
sigmoid: Unary = row(numerics.sigmoid, lambda g, y, x: g * (y * (1 - y)), rate="y (1 - y)", elementwise=True,
        method=True)
logsigmoid: Unary = row(numerics.logsigmoid, lambda g, y, x: g * sigmoid(-x), rate="sigmoid(-x)", elementwise=True)
relu: Unary = row(numerics.relu, lambda g, y, x: g * greater(x, 0), rate="1 where x > 0, else 0", elementwise=True,
                  code="np.maximum({0}, 0)", method=True)
elu: Unary = row(numerics.elu, lambda g, y, x: g * where(greater(x, 0), 1.0, y + 1), elementwise=True,
                 rate="1 where x > 0, else y + 1")

tan: Unary        = row(np.tan,        lambda g, y, x: g * (1 + y * y),                   rate="1 + y²")
arcsin: Unary     = row(np.arcsin,     lambda g, y, x: g / sqrt((1 - x) * (1 + x)),       rate="1 / √(1 - x²)")
arccos: Unary     = row(np.arccos,     lambda g, y, x: -(g / sqrt((1 - x) * (1 + x))),    rate="-1 / √(1 - x²)")
arctan: Unary     = row(np.arctan,     lambda g, y, x: g / (1 + x * x),                   rate="1 / (1 + x²)")
sinh: Unary       = row(np.sinh,       lambda g, y, x: g * cosh(x),                       rate="cosh x")
cosh: Unary       = row(np.cosh,       lambda g, y, x: g * sinh(x),                       rate="sinh x")
arcsinh: Unary    = row(np.arcsinh,    lambda g, y, x: g / hypot(x, 1.0),                 rate="1 / √(x² + 1)")
arccosh: Unary    = row(np.arccosh,    lambda g, y, x: g / (sqrt(x - 1) * sqrt(x + 1)),   rate="1 / √(x² - 1)")
arctanh: Unary    = row(np.arctanh,    lambda g, y, x: g / ((1 - x) * (1 + x)),           rate="1 / (1 - x²)")
exp2: Unary       = row(np.exp2,       lambda g, y, x: g * (y * float(np.log(2))),             rate="y log 2")
log2: Unary       = row(np.log2,       lambda g, y, x: g / (x * float(np.log(2))),             rate="1 / (x log 2)")
log10: Unary      = row(np.log10,      lambda g, y, x: g / (x * float(np.log(10))),            rate="1 / (x log 10)")
cbrt: Unary       = row(np.cbrt,       lambda g, y, x: g / (3 * y * y),                   rate="1 / (3 y²)")
reciprocal: Unary = row(np.reciprocal, lambda g, y, x: -(g * y * y),                      rate="-y²")
deg2rad: Unary    = row(np.deg2rad,    lambda g, y, x: g * (np.pi / 180), rate="π / 180", numpy=np.radians)
rad2deg: Unary    = row(np.rad2deg,    lambda g, y, x: g * (180 / np.pi), rate="180 / π", numpy=np.degrees)
floor: Unary      = row(np.floor,      lambda g, y, x: g * 0.0,                           rate="0")
ceil: Unary       = row(np.ceil,       lambda g, y, x: g * 0.0,                           rate="0")
trunc: Unary      = row(np.trunc,      lambda g, y, x: g * 0.0,                           rate="0")
rint: Unary       = row(np.rint,       lambda g, y, x: g * 0.0,                           rate="0")
hypot: Binary = row(np.hypot, lambda g, y, a, b: g * (a / where(equal(y, 0), 1.0, y)),
                    lambda g, y, a, b: g * (b / where(equal(y, 0), 1.0, y)), rate=("a / y", "b / y"))
arctan2: Binary = row(np.arctan2, lambda g, y, a, b: g * (b / hypot(a, b)) / hypot(a, b),
        lambda g, y, a, b: -(g * (a / hypot(a, b)) / hypot(a, b)), rate=("b / (a² + b²)", "-a / (a² + b²)"))
logaddexp: Binary = row(np.logaddexp, lambda g, y, a, b: g * exp(a - where(equal(y, -np.inf), 0.0, y)),
                        lambda g, y, a, b: g * exp(b - where(equal(y, -np.inf), 0.0, y)), rate="its share of the sum")
logaddexp2: Binary = row(np.logaddexp2, lambda g, y, a, b: g * exp2(a - where(equal(y, -np.inf), 0.0, y)),
                         lambda g, y, a, b: g * exp2(b - where(equal(y, -np.inf), 0.0, y)), rate="its share of the sum")
mod: Binary = row(np.remainder, lambda g, y, a, b: g, lambda g, y, a, b: -(g * floor_divide(a, b)), name="mod",
                  rate=("1", "-(a // b)"), code="%")
floor_divide: Binary = row(np.floor_divide, lambda g, y, a, b: g * 0.0, lambda g, y, a, b: g * 0.0, rate="0", code="//")
copysign: Binary = row(np.copysign, lambda g, y, a, b: g * (sign(a) * sign(y)), lambda g, y, a, b: g * 0.0,
                       rate=("the sign that was changed", "0"))

sum: Reduction = row(numerics.sum, lambda g, y, x, axis=None, keepdims=False: _spread(g, x, axis, keepdims),
        numpy=np.sum,
        rate="1, to every entry that was summed", code="np.add.reduce({0}, {axis}, keepdims={keepdims})",
        method=True)
max: Reduction = row(numerics.max, _tie_share, rate="1 at the largest, shared in a tie", numpy=np.max, method=True,
                     code="np.max({0}, {axis}, keepdims={keepdims})")
min: Reduction = row(numerics.min, _tie_share, rate="1 at the smallest, shared in a tie", numpy=np.min, method=True,
                     code="np.min({0}, {axis}, keepdims={keepdims})")
norm: Reduction = row(numerics.norm, lambda g, y, x, axis=None, keepdims=False:
                      x * _spread(g / where(equal(y, 0), 1.0, y), x, axis, keepdims), rate="x / y", method=True)
logsumexp: Reduction = row(numerics.logsumexp, lambda g, y, x, axis=-1, keepdims=False:
                           softmax(x, axis) * _spread(g, x, axis, keepdims), rate="softmax of x", method=True)
softmax: AlongAxis = row(numerics.softmax,
        lambda g, y, x, axis=-1: y * (g - (widened(g) * y).sum(axis=axis, keepdims=True)),
                         rate="y (1 - y) and -y y'", method=True)
log_softmax: AlongAxis = row(numerics.log_softmax,
        lambda g, y, x, axis=-1: g - exp(y) * widened(g).sum(axis=axis, keepdims=True),
        rate="1 - softmax of x", method=True)
xlogy: Binary = row(numerics.xlogy,
        lambda g, y, x, z: g * log(where(multiply(equal(x, 0), equal(z, 0)), 1.0, z)),
        lambda g, y, x, z: g * (x / where(equal(x, 0), 1.0, z)), rate=("ln z", "x / z"), elementwise=True)
weighted: Binary = row(numerics.weighted, lambda g, y, x, weight: g * weight,
        lambda g, y, x, weight: weighted(x, g), elementwise=True, rate=("the weight", "x"))
unit: Primitive = row(numerics.unit, None)
cumsum_: Primitive = row(lambda x, axis: np.cumsum(x, axis),
                         lambda g, y, x, axis: _backward(cumsum_(_backward(widened(g), axis), axis), axis),
                         name="cumsum", rate="1, to every entry before", code="np.cumsum({0}, {axis})")

# These move values about. What one takes from places, its adjoint puts there.
reshape: Primitive = row(lambda x, shape: np.reshape(x, shape), lambda g, y, x, shape: g.reshape(x.shape),
                         name="reshape", view=True, rate="1, moved back", code="{0}.reshape({shape})", numpy=np.reshape)
transpose: Primitive = row(lambda x, axes=None: np.transpose(x, axes),
                           lambda g, y, x, axes=None: transpose(
                             g, None if axes is None else tuple(np.argsort([i % len(axes) for i in axes]).tolist())),
                           name="transpose", view=True, rate="1, moved back", code="{0}.transpose({axes})")
swapaxes: Primitive = row(lambda x, axis1, axis2: np.swapaxes(x, axis1, axis2),
                          lambda g, y, x, axis1, axis2: g.swapaxes(axis1, axis2), numpy=np.swapaxes, method=True,
                          name="swapaxes", view=True, rate="1, moved back", code="{0}.swapaxes({axis1}, {axis2})")
expand_dims: Primitive = row(lambda x, axis: np.expand_dims(x, axis), lambda g, y, x, axis: g.reshape(x.shape),
                             name="expand_dims", view=True, rate="1, moved back", code="np.expand_dims({0}, {axis})",
                             numpy=np.expand_dims)
squeeze: AlongAxis = row(lambda x, axis=None: np.squeeze(x, axis), lambda g, y, x, axis=None: g.reshape(x.shape),
                         name="squeeze", view=True, rate="1, moved back", code="np.squeeze({0}, {axis})",
                         numpy=np.squeeze, method=True)
broadcast_to: Primitive = row(lambda x, shape: np.broadcast_to(x, shape), lambda g, y, x, shape: g,
        numpy=np.broadcast_to,
        name="broadcast_to", rate="1, summed over the copies", code="np.broadcast_to({0}, {shape})")
detach: Unary = row(lambda x: x, None, name="detach", view=True, code="{0}")
astype: Primitive = row(lambda x, dtype: np.asarray(x).astype(dtype), lambda g, y, x, dtype: g, name="astype", rate="1",
                        code="{0}.astype({dtype})")
getitem: Primitive = row(lambda x, index: x[index], lambda g, y, x, index: Part(g, index), name="getitem", view=True,
                         rate="1, to the part that was read", code="{0}[{index}]")
assemble: Primitive = row(numerics.assemble,
        every=lambda g, y, *values, indices, shape: [g[index] for index in indices],
        rate="1, its own part")
gather: Primitive = row(lambda x, *ids, index: x[_fill(index, ids)],
                        lambda g, y, x, *ids, index: scatter(g, *ids, index=index, shape=x.shape),
                        name="gather", rate="1, to where it was", code="{0}[{index}]")
scatter: Primitive = row(lambda x, *ids, index, shape, out=None: numerics.scatter(x, _fill(index, ids), shape, out=out),
                         lambda g, y, x, *ids, index, shape: gather(g, *ids, index=index),
                         name="scatter", rate="1, from where it went", code="scatter({0}, ({index},), {shape})")
embedding: Binary = row(numerics.rows,
        lambda g, y, table, ids: scatter(g, ids, index=(ARRAY,), shape=table.shape), None,
        name="embedding", rate="1, to the row that was read", code="rows({all})")
concat_: Primitive = row(lambda *parts, axis=0, out=None: np.concatenate(parts, axis, out),
                         every=lambda g, y, *parts, axis=0: [g[place] for place in concat_places(parts, axis, y.ndim)],
                         name="concat", rate="1, its own part", code="np.concatenate([{all}], {axis})")
stack_: Primitive = row(lambda *parts, axis=0, out=None: np.stack(parts, axis, out),
                        every=lambda g, y, *parts, axis=0: [g[place] for place in stack_places(parts, axis, y.ndim)],
                        name="stack", rate="1, its own part", code="np.stack([{all}], {axis})")
einsum_: Primitive = row(lambda *operands, subscripts: np.einsum(subscripts, *operands, optimize=len(operands) > 2),
        every=_einsum_parts, name="einsum", rate="the other factors", code="np.einsum({subscripts}, {all})")

argsort: AlongAxis = row(lambda x, axis=-1: np.argsort(x, axis, stable=True), None, name="argsort",
                         code="np.argsort({0}, {axis}, stable=True)")

# Comparisons and logic carry no gradient.
equal: Binary         = row(np.equal,         None, None, code="==")
not_equal: Binary     = row(np.not_equal,     None, None, code="!=")
less: Binary          = row(np.less,          None, None, code="<")
less_equal: Binary    = row(np.less_equal,    None, None, code="<=")
greater: Binary       = row(np.greater,       None, None, code=">")
greater_equal: Binary = row(np.greater_equal, None, None, code=">=")
isnan: Unary          = row(np.isnan,         None)
isfinite: Unary       = row(np.isfinite,      None)
isinf: Unary          = row(np.isinf,         None)
signbit: Unary        = row(np.signbit,       None)
logical_not: Unary    = row(np.logical_not,   None)
logical_and: Binary   = row(np.logical_and,   None, None)
logical_or: Binary    = row(np.logical_or,    None, None)
logical_xor: Binary   = row(np.logical_xor,   None, None)
bitwise_not: Unary    = row(np.invert,        None, name="bitwise_not", code="~{0}")
bitwise_and: Binary   = row(np.bitwise_and,   None, None, code="&")
bitwise_or: Binary    = row(np.bitwise_or,    None, None, code="|")
bitwise_xor: Binary   = row(np.bitwise_xor,   None, None, code="^")
