"""What NumPy's own functions mean on tensors, beyond those that stand in `ops` and `compositions` under their names.

Four tables: functions made of operations (`composed`), functions that only move values about (MOVES), functions that
have no gradient and give plain arrays and numbers (PLAIN), and those that are refused, with what to write instead
(INSTEAD). `call` reads the arguments as NumPy does, under every name that it gives them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import compositions, ops
from .compositions import (
    _along,
    _array,
    _axes,
    _count,
    composed,
    concat,
    cumprod,
    cumsum,
    dot,
    mean,
    moveaxis,
    moved,
    outer,
    prod,
    sort,
    split,
    take,
    take_along_axis,
    tensordot,
    transpose,
)  # fmt: skip
from .ops import broadcast_to, matmul, multiply, norm, reshape, sum, swapaxes, where
from .signatures import Axis
from .tensor import Tensor, array_of

Function = Callable[..., Any]

# Functions made of operations -----------------------------------------------------------------------------------------


@composed(numpy=np.ravel, method=True)
def ravel(x: Any, order: str = "C") -> Any:
    return reshaped(x, (-1,), order)


def reshaped(x: Any, shape: Any, order: str = "C", copy: Any = None) -> Any:
    """NumPy's reshape. Entries in Fortran's order are those of the transpose, in reverse."""
    x = _array(x)
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"reshape needs order 'C' or 'F', got {order!r}")
    if order != "F":
        return reshape(x, shape)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return transpose(reshape(transpose(x), shape[::-1]))


@composed(numpy=np.atleast_1d)
def atleast_1d(*xs: Any) -> Any:
    return _each(lambda x: x if x.ndim else reshape(x, (1,)), xs)


@composed(numpy=np.atleast_2d)
def atleast_2d(*xs: Any) -> Any:
    return _each(lambda x: x if x.ndim > 1 else reshape(x, (1, -1)), xs)


@composed(numpy=np.atleast_3d)
def atleast_3d(*xs: Any) -> Any:
    return _each(lambda x: x if x.ndim > 2 else x[..., None] if x.ndim == 2 else reshape(x, (1, -1, 1)), xs)


def _each(function: Function, xs: Sequence[Any]) -> Any:
    made = tuple(function(_array(x)) for x in xs)
    return made[0] if len(made) == 1 else made


@composed(numpy=np.broadcast_arrays)
def broadcast_arrays(*xs: Any) -> tuple[Any, ...]:
    shape = np.broadcast_shapes(*(_array(x).shape for x in xs))
    return tuple(broadcast_to(x, shape) for x in xs)


@composed(numpy=np.dstack)
def dstack(parts: Any) -> Any:
    return concat([atleast_3d(x) for x in parts], 2)


@composed(numpy=np.column_stack)
def column_stack(parts: Any) -> Any:
    return concat([x if x.ndim > 1 else reshape(x, (-1, 1)) for x in map(_array, parts)], 1)


@composed(numpy=np.append)
def append(x: Any, values: Any, axis: int | None = None) -> Any:
    return concat([_array(x), _array(values)], axis)


@composed(numpy=np.array_split)
def array_split(x: Any, sections: Any, axis: int = 0) -> list[Any]:
    if not isinstance(sections, (int, np.integer)):
        return split(x, sections, axis)
    sizes = [len(part) for part in np.array_split(np.empty(x.shape[axis]), sections)]
    return split(x, np.cumsum(sizes)[:-1].tolist(), axis)


@composed(numpy=np.ptp)
def ptp(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return ops.max(x, axis, keepdims) - ops.min(x, axis, keepdims)  # each shares its gradient among ties


@composed(numpy=np.average)
def average(x: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    x = _array(x)
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        total: Any = np.full(found.shape, float(_count(x, axis)), found.dtype)
    else:
        x, weights = _floating(x, np.mean), _floating(weights, np.mean)
        if weights.shape != x.shape:
            axes = _axes(x, axis)
            if axis is None or weights.shape != tuple(x.shape[i] for i in axes):
                raise ValueError(f"average over axis {axis} of shape {x.shape} has weights of shape {weights.shape}")
            order = sorted(range(len(axes)), key=axes.__getitem__)
            shape = tuple(n if i in axes else 1 for i, n in enumerate(x.shape))
            weights = broadcast_to(reshape(transpose(weights, order), shape), x.shape)
        total = sum(weights, axis, keepdims)
        if not np.all(array_of(total)):
            raise ZeroDivisionError("the weights of an average sum to 0")
        found = sum(x * weights, axis, keepdims) / total
    return (found, total) if returned else found


@composed(numpy=np.median)
def median(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    x = _array(x)
    axes = _axes(x, axis)
    rest = [i for i in range(x.ndim) if i not in axes]
    # the axes of the median become one, the last; entries that tie are in their order there
    ordered = sort(reshape(transpose(x, [*rest, *axes]), (*(x.shape[i] for i in rest), _count(x, axis))))
    n = ordered.shape[-1]
    if not n:
        return mean(x, axis, keepdims=keepdims)  # nan, with NumPy's warning
    middle = mean(ordered[..., (n - 1) // 2 : n // 2 + 1], -1)
    last = ordered[..., -1]  # nan is sorted to the end
    middle = where(ops.isnan(last), last, middle) if x.dtype.kind == "f" else middle
    return reshape(middle, tuple(1 if i in axes else n for i, n in enumerate(x.shape))) if keepdims else middle


@composed(numpy=np.diff)
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    x = _array(x)
    (i,) = _axes(x, axis)

    def end(values: Any) -> list[Any]:
        if values is None:
            return []
        values = _array(values)
        return [values if values.ndim else broadcast_to(values, (*x.shape[:i], 1, *x.shape[i + 1 :]))]

    parts = [*end(prepend), x, *end(append)]
    x = concat(parts, i) if len(parts) > 1 else x
    minus = ops.logical_xor if x.dtype.kind == "b" else ops.subtract
    for _ in range(n):
        x = minus(x[_along(i, slice(1, None))], x[_along(i, slice(None, -1))])
    return x


@composed(numpy=np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = _array(y)
    (i,) = _axes(y, axis)
    if x is not None:
        steps = diff(x, axis=axis if _array(x).ndim > 1 else -1)
        dx = steps if steps.ndim > 1 else reshape(steps, tuple(-1 if k == i else 1 for k in range(y.ndim)))
    return sum(dx * (y[_along(i, slice(1, None))] + y[_along(i, slice(None, -1))]) / 2.0, i)


@composed(numpy=np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if x.dtype.kind != "f":
        return x
    limits = np.finfo(x.dtype)
    x = where(ops.isnan(x), nan, x)
    x = where(ops.equal(x, np.inf), float(limits.max) if posinf is None else posinf, x)
    return where(ops.equal(x, -np.inf), float(limits.min) if neginf is None else neginf, x)


@composed(numpy=(np.round, np.around), method=True)
def round(x: Any, decimals: int = 0) -> Any:
    if x.dtype.kind in "iu":
        scaled = ops.rint(x / 10**-decimals) * 10**-decimals if decimals < 0 else x
        return ops.astype(scaled, x.dtype)
    if not decimals:
        return ops.rint(x)
    scale = 10.0 ** abs(decimals)
    return ops.rint(x * scale) / scale if decimals > 0 else ops.rint(x / scale) * scale


@composed(numpy=np.inner)
def inner(a: Any, b: Any) -> Any:
    a, b = _array(a), _array(b)
    return a * b if 0 in (a.ndim, b.ndim) else tensordot(a, b, (-1, -1))


@composed(numpy=np.vdot)
def vdot(a: Any, b: Any) -> Any:
    return dot(reshape(_array(a), (-1,)), reshape(_array(b), (-1,)))


@composed(numpy=np.vecdot)
def vecdot(a: Any, b: Any, axis: int = -1) -> Any:
    a, b = moveaxis(_array(a), axis, -1), moveaxis(_array(b), axis, -1)
    return reshape(matmul(a[..., None, :], b[..., None]), np.broadcast_shapes(a.shape, b.shape)[:-1])


@composed(numpy=np.kron)
def kron(a: Any, b: Any) -> Any:
    a, b = _array(a), _array(b)
    n = max(a.ndim, b.ndim)
    rows, columns = ((1,) * (n - x.ndim) + tuple(x.shape) for x in (a, b))
    wide = reshape(a, [size for k in rows for size in (k, 1)]) * reshape(b, [size for k in columns for size in (1, k)])
    return reshape(wide, [k * m for k, m in zip(rows, columns, strict=True)])


@composed(numpy=np.diagonal, method=True)
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return moved(np.diagonal, x, offset, axis1, axis2)


@composed(numpy=np.trace, method=True)
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return sum(diagonal(x, offset, axis1, axis2), -1)


@composed(numpy=np.cross)
def cross(a: Any, b: Any, axis: int = -1) -> Any:
    a, b = moveaxis(_array(a), axis, -1), moveaxis(_array(b), axis, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(f"cross takes vectors of 3 entries, got {a.shape[-1]} and {b.shape[-1]}")
    right = multiply(a[..., [1, 2, 0]], b[..., [2, 0, 1]]) - multiply(a[..., [2, 0, 1]], b[..., [1, 2, 0]])
    return moveaxis(right, -1, axis)


@composed(numpy=(np.divmod,))
def divmod(a: Any, b: Any) -> tuple[Any, Any]:
    return ops.floor_divide(a, b), ops.mod(a, b)


@composed(numpy=(np.positive, np.conjugate, np.real, np.copy))
def unchanged(x: Any, order: str = "K", subok: bool = False) -> Any:
    """A real tensor is its own conjugate and real part, and needs no copy, as nobody can write to it."""
    if x.dtype.kind == "c":
        raise TypeError("complex tensors only pass through the forward functions: take .data")
    return x


@composed(numpy=np.fabs)
def fabs(x: Any) -> Any:
    return ops.abs(_floating(x, np.fabs))


def _floating(x: Any, function: Function) -> Any:
    """Integers as the floats that a function of NumPy makes of them."""
    x = _array(x)
    return x if x.dtype.kind in "fc" else ops.astype(x, function(np.ones(1, x.dtype)).dtype)


def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged: `x.mT`."""
    if x.ndim < 2:
        raise ValueError(f"mT needs at least two axes, got shape {x.shape}")
    return swapaxes(x, -1, -2)


def _linalg_norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
    x = _floating(x, np.linalg.norm)
    axes = x.ndim if axis is None else len(axis) if isinstance(axis, tuple) else 1
    if ord in (None, "fro") or (ord == 2 and axes == 1):
        return norm(x, axis, keepdims)
    if axes == 1 and (ord == 1 or (ord == np.inf and not _count(x, axis))):
        return sum(ops.abs(x), axis, keepdims)
    if axes == 1 and ord in (np.inf, -np.inf):
        return (ops.max if ord > 0 else ops.min)(ops.abs(x), axis, keepdims)
    raise TypeError(
        f"numpy.linalg.norm with ord={ord!r} over {axes} axes has no rule for tensors; the 2-norm of the entries has, "
        "and for vectors 1, inf and -inf"
    )


def _extremes(function: np.ufunc, x: Any, axis: int = 0) -> Any:
    """Running maxima: each is read where it first stood, so that the first of several that tie gets the gradient."""
    x = _array(x)
    (i,), values = _axes(x, axis), plain(x)
    running = function.accumulate(values, i)
    fresh = np.ones(values.shape, bool)
    fresh[_along(i, slice(1, None))] = running[_along(i, slice(1, None))] != running[_along(i, slice(None, -1))]
    places = np.arange(values.shape[i]).reshape([-1 if k == i else 1 for k in range(values.ndim)])
    return take_along_axis(x, np.maximum.accumulate(np.where(fresh, places, 0), i), i)


# What a ufunc's methods are; those of one input and without a table are refused.
REDUCE: dict[np.ufunc, Function] = {
    np.add: ops.sum, np.multiply: prod, np.maximum: ops.max, np.minimum: ops.min,
    np.logaddexp: lambda x, **options: ops.logsumexp(_floating(x, np.exp), **options),
}  # fmt: skip
ACCUMULATE: dict[np.ufunc, Function] = {
    np.add: cumsum, np.multiply: cumprod, np.maximum: functools.partial(_extremes, np.maximum),
    np.minimum: functools.partial(_extremes, np.minimum),
}  # fmt: skip


def _outer(operation: Function, a: Any, b: Any) -> Any:
    a, b = _array(a), _array(b)
    return operation(reshape(a, (*a.shape, *(1,) * b.ndim)), b)


# Functions of NumPy that only move values about, and those that answer under a second name ---------------------------

MOVES = (
    np.rot90, np.fliplr, np.flipud, np.rollaxis, np.diagflat, np.delete, np.resize, np.hsplit, np.vsplit,
    np.dsplit, np.fft.fftshift, np.fft.ifftshift, np.lib.stride_tricks.sliding_window_view,
)  # fmt: skip
ALIASES: dict[Any, Function] = {
    np.reshape: reshaped, np.linalg.norm: _linalg_norm, np.linalg.vector_norm: _linalg_norm,
    np.linalg.matrix_norm: lambda x, keepdims=False: norm(x, (-2, -1), keepdims), np.linalg.matmul: matmul,
    np.linalg.outer: outer, np.linalg.tensordot: tensordot, np.linalg.vecdot: vecdot, np.linalg.cross: cross,
    np.linalg.trace: lambda x, offset=0: trace(x, offset, -2, -1),
    np.linalg.diagonal: lambda x, offset=0: diagonal(x, offset, -2, -1),
    np.linalg.matrix_transpose: matrix_transpose, np.linalg.multi_dot: lambda xs: functools.reduce(dot, xs),
    np.where: lambda condition, *values: where(condition, *values) if values else np.nonzero(plain(condition)),
    np.compress: lambda condition, x, axis=None: take(x, np.flatnonzero(plain(condition)), axis),
    np.extract: lambda condition, x: take(x, np.flatnonzero(plain(condition))),
}  # fmt: skip
_NEWER: dict[str, Function] = {  # than NumPy 2.0, or other names of others
    "matrix_transpose": matrix_transpose, "permute_dims": transpose, "astype": compositions.astype, "amax": ops.max,
    "amin": ops.min, "concat": concat, "cumulative_sum": cumsum, "cumulative_prod": cumprod,
}  # fmt: skip
for _name, _same in _NEWER.items():
    if hasattr(np, _name):
        ALIASES[getattr(np, _name)] = _same
ALIASES |= {function: functools.partial(moved, function) for function in MOVES}

# Functions without a gradient: plain arrays, numbers and texts --------------------------------------------------------

# These read no value, only shape and dtype, so that they may stand in a step that is recorded for replay.
OF_SHAPE = (
    np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.result_type, np.can_cast,
    np.min_scalar_type, np.common_type, np.iscomplexobj, np.isrealobj, np.diag_indices_from, np.tril_indices_from,
    np.triu_indices_from,
)  # fmt: skip
PLAIN = (
    np.argmax, np.argmin, np.argsort, np.argpartition, np.argwhere, np.nonzero, np.flatnonzero, np.count_nonzero,
    np.searchsorted, np.digitize, np.bincount, np.lexsort, np.unique, np.histogram, np.histogram_bin_edges, np.isin,
    np.intersect1d, np.union1d, np.setdiff1d, np.any, np.all, np.isclose, np.allclose, np.array_equal, np.array_equiv,
    np.isposinf, np.isneginf, np.isreal, np.iscomplex, np.imag, np.nanargmax, np.nanargmin, np.array2string,
    np.array_repr, np.array_str, np.shares_memory, np.may_share_memory,
)  # fmt: skip


def plain(value: Any) -> Any:
    """A tensor's values, refused while a replay is recorded, as `.data` is; also of those in a list or a tuple."""
    if isinstance(value, (list, tuple)):
        return type(value)(plain(part) for part in value)
    return value.data if isinstance(value, Tensor) else value


def without_gradient(function: Function) -> Function:
    """A function of NumPy on the values of tensors."""

    @functools.wraps(function)
    def call(*inputs: Any, **options: Any) -> Any:
        if function in OF_SHAPE:
            inputs = (array_of(inputs[0]), *inputs[1:]) if inputs else inputs
        return function(*plain(inputs), **{name: plain(value) for name, value in options.items()})

    return call


# What has no rule, and what to write instead ------------------------------------------------------------------------

DATA = "take .data, which has no gradient"
REMEDIES = {
    f"matmul and sums, or {DATA}": "linalg",
    f"matmul with the matrix of the transform, or {DATA}": "fft",
    "nest tg.where": "select piecewise",
    "nest tg.where, or index a tg.stack": "choose",
    "tg.where(mask, new, x): a tensor is immutable": "copyto put place putmask put_along_axis fill_diagonal",
    "tg.concat of the pieces": "insert block",
    "tg.sort(x, axis)": "partition",
    "tg.sort(x, axis), and index it": "quantile percentile",
    "products of slices, summed, or tg.einsum": "convolve correlate",
    f"weights times slices, or {DATA}": "interp",
    "np.diff(x, axis=axis)": "gradient ediff1d",
    "centred.T @ centred / (n - 1)": "cov corrcoef",
    "Horner's rule, y = y * x + c": "polyval",
    "tg.stack of powers": "vander",
    "tg.where(x > 0, 1.0, 0.0)": "heaviside",
    "tg.maximum(a, b)": "fmax",
    "tg.minimum(a, b)": "fmin",
    "x ** p": "float_power",
    "tg.sin(np.pi * x) / (np.pi * x), with tg.where at 0": "sinc",
    "np.trunc(x) and x - np.trunc(x)": "modf",
    "tg.mod(a, b), whose result has the sign of b": "fmod",
    "tg.where(np.isnan(x), 0.0, x), then the function without nan in its name": "nansum nanmean nanvar nanstd nanmax "
    "nanmin nanprod nancumsum nancumprod nanmedian nanquantile nanpercentile",
    "a loop, and tg.stack": "apply_along_axis",
    "axis=(…), a tuple of axes": "apply_over_axes",
    "x[:, None] and y[None, :], which broadcast": "meshgrid",
    "x[rows[:, None], columns]": "ix_",
    "tg.save(path, name=x)": "save savez savez_compressed",
    "np.savetxt(path, x.data)": "savetxt",
}
INSTEAD = {name: remedy for remedy, names in REMEDIES.items() for name in names.split()}
OPTIONS_INSTEAD = {
    "out": "the function without out=: an operation never writes into a tensor or an array, it gives a new one",
    "dtype": "x.astype(dtype)",
    "where": "tg.where(mask, x, 0.0), then the function without where=",
    "initial": "the function without initial=, then x + initial, tg.maximum(x, initial) and their like",
    "mode": "the default mode", "kind": "the default, a stable sort", "method": "the default method",
}  # fmt: skip


def refused(name: str, what: str = "") -> TypeError:
    """No rule for a function (numpy.linalg.det), or for an option of it (`what`)."""
    path = name.split(".")
    remedy = OPTIONS_INSTEAD.get(what) if what else next((INSTEAD[p] for p in reversed(path) if p in INSTEAD), None)
    given = f" with {what}=" if what else ""
    return TypeError(
        f"numpy.{name}{given} has no rule for tensors. Write instead: "
        + (remedy or f"tinygrad_seq's operations, tg.primitive to add one, or {DATA}")
    )


# How NumPy's arguments are read ---------------------------------------------------------------------------------------

# NumPy's names of what is called otherwise here; "dtype" is not among an operation's options: x is converted first.
NAMES = {"a_min": "low", "a_max": "high", "min": "low", "max": "high", "correction": "ddof", "indices_or_sections":
         "sections", "newshape": "shape", "path": ""}  # fmt: skip
IGNORED = {"order": ("C", "K", "A", None), "casting": ("same_kind", "unsafe"), "subok": (True, False), "kind": None,
           "stable": None, "copy": None, "optimize": None, "overwrite_input": None, "where": (True,),
           "keepdims": (False,)}  # fmt: skip


@functools.cache
def _parameters(function: Function) -> Any:
    """A function's signature; None where Python does not know it (functions in C)."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def name_of(function: Function) -> str:
    """linalg.det, add.reduce, sum."""
    module = getattr(function, "__module__", "numpy")  # a ufunc of NumPy 2.0 has none
    return f"{module}.{function.__name__}".removeprefix("numpy.")


def call(function: Function, operation: Function, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """One of NumPy's functions as one of ours: arguments under NumPy's names, defaults left out, `dtype` converted."""
    signature, given, rest = _parameters(function), list(args), dict(options)
    if signature is not None:
        given, rest = [], {}
        for name, value in signature.bind(*args, **options).arguments.items():
            parameter = signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                given += value
            elif parameter.kind is parameter.VAR_KEYWORD:
                rest |= value
            elif parameter.default is parameter.empty or parameter.kind is parameter.POSITIONAL_ONLY:
                given.append(value)
            elif value is not parameter.default:
                rest[name] = value
    if rest.pop("out", None) is not None:
        raise refused(name_of(function), "out")
    found = _parameters(getattr(operation, "forward", operation))  # of some of NumPy 2.0's own it is not known
    known = {} if found is None else found.parameters
    dtype = rest.pop("dtype", None) if found is not None and "dtype" not in known else None
    takes_any = found is None or any(p.kind is p.VAR_KEYWORD for p in known.values())
    for name in [name for name in rest if NAMES.get(name, name) not in known and not takes_any]:
        value = rest.pop(name)
        harmless = IGNORED.get(name, ())
        if not (harmless is None or any(value is one or (isinstance(value, str) and value == one) for one in harmless)):
            raise refused(name_of(function), name)
    rest = {NAMES.get(name, name): value for name, value in rest.items()}
    if dtype is not None and given and isinstance(given[0], (list, tuple)):
        return compositions.astype(operation(*given, **rest), dtype)
    if dtype is not None:
        given = [compositions.astype(_array(x), dtype) for x in given[:1]] + given[1:]
    return operation(*given, **rest)


def call_ufunc(table: Any, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """One of NumPy's ufuncs, or its reduce, accumulate or outer."""
    methods: dict[str, Any] = {"reduce": REDUCE, "accumulate": ACCUMULATE, "__call__": table, "outer": table}
    operation = methods.get(method, {}).get(ufunc)
    name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
    if operation is None or (method == "outer" and (ufunc.nin != 2 or ufunc.signature is not None)):
        raise refused(name)
    if any(array is not None for array in options.pop("out", ())):
        raise refused(name, "out")
    dtype = options.pop("dtype", None)
    axis = options.pop("axis", 0) if method in ("reduce", "accumulate") else None
    keepdims = options.pop("keepdims", False) if method == "reduce" else False
    for option, value in options.items():
        harmless = IGNORED.get(option, ())
        if not (harmless is None or any(value is one for one in harmless)):
            raise refused(name, option)
    if dtype is not None:
        inputs = [compositions.astype(_array(x), dtype) for x in inputs]
    if method == "outer":
        return _outer(operation, *inputs)
    if method == "reduce":
        return operation(_array(inputs[0]), axis=axis, keepdims=keepdims)
    return operation(_array(inputs[0]), axis=axis) if method == "accumulate" else operation(*inputs)
