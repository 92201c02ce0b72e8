"""What Python's operators, the methods, and NumPy's own functions mean on a tensor: one table, attached here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import compositions, numpy_functions, ops
from .arguments import indices_from, warn_caller
from .backward import backward
from .context import CONTEXT, readable
from .signatures import Primitive
from .tensor import Tensor

Function = Callable[..., Any]


def _index(x: Tensor, index: Any) -> Any:
    key = index if type(index) is tuple else (index,)
    ids, dots = [], False
    for place in key:
        kind = type(place)
        if place is Ellipsis:
            dots = True
        elif not (kind is int or kind is slice or place is None or isinstance(place, np.integer)):
            ids.append(place if isinstance(place, Tensor) else indices_from(place, "an index"))
            if isinstance(place, Tensor) and place.dtype.kind == "b" and CONTEXT.get().tracing:
                raise RuntimeError(
                    f"{x.label()} was indexed by the Boolean {place.label()} while a replay was recorded: how many "
                    "entries that takes changes from call to call. Keep the shape: tg.where(mask, x, 0.0)"
                )
    if not ids:
        return ops.getitem(x, index=key if dots else (*key, ...))
    basic = (int, slice, np.integer, type(None), type(...))
    template = tuple(p if isinstance(p, basic) and not isinstance(p, bool) else ops.ARRAY for p in key)
    return ops.gather(x, *ids, index=template)


def _iterate(x: Tensor) -> Iterator[Tensor]:
    if x.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return (x[i] for i in range(len(x)))


def _flipped(operation: Function) -> Function:
    return lambda a, b: operation(b, a)


def _plain_unless_traced(operation: Function) -> Function:
    """A comparison is a plain Boolean array; while a replay is recorded it stays a tensor, so that it is replayed."""

    def compare(*inputs: Any) -> Any:
        try:
            result = operation(*inputs)
        except TypeError:
            if operation not in (ops.equal, ops.not_equal) or not any(isinstance(x, (str, bytes)) for x in inputs):
                raise
            return np.full(np.broadcast_shapes(*map(np.shape, inputs)), operation is ops.not_equal)  # x == "a"
        return result if CONTEXT.get().tracing or not isinstance(result, Tensor) else result._array

    return compare


def _decides(operation: Any) -> bool:
    """Whether it is a comparison or logic, which carry no gradient."""
    return isinstance(getattr(operation, "forward", None), np.ufunc) and not any(operation.rules)


def _equality(operation: Function, of_texts: bool) -> Function:
    """== and !=: no number equals a text, and NumPy's arrays say so, entry by entry."""
    compare = _plain_unless_traced(operation)

    def equality(a: Any, b: Any) -> Any:
        if not isinstance(b, (Tensor, int, float)) and np.asarray(b).dtype.kind in "US":
            return np.full(np.broadcast_shapes(a.shape, np.shape(b)), of_texts)
        return compare(a, b)

    return equality


def _leaving(convert: Function) -> Function:
    """float(x), int(x) and complex(x), and so math.exp(x) and array[i] = x: the number, without its history."""

    def number(x: Tensor) -> Any:
        value = convert(x.data)
        if x.requires_grad:
            warn_caller(LEAVING)
        return value

    return number


LEAVING = (
    "a tensor that requires a gradient was turned into a Python number, and the graph is left here: nothing flows back "
    "from it. Write .item() where that is meant; else stay with tensors: tg.exp(x) for math.exp(x), tg.stack of a list "
    "for numbers put into an array"
)


def _shaped(operation: Function) -> Function:
    """Shapes and axes may be given one by one, or as one tuple."""
    return lambda x, *sizes, **options: operation(
        x, *(sizes if len(sizes) == 1 and not isinstance(sizes[0], int) else [sizes or None]), **options
    )


def _repr(x: Tensor) -> str:
    parts = [np.array2string(readable(x), separator=", ", prefix="Tensor(")]
    if x.dtype not in (np.float64, np.int64, np.bool_):
        parts.append(f"dtype={x.dtype}")
    if x.requires_grad:
        parts.append("requires_grad=True" if x.operation is None else f"operation={x.operation}")
    if x.name is not None:
        parts.append(f"name={x.name!r}")
    return f"Tensor({', '.join(parts)})"


def _format(x: Tensor, specification: str) -> str:
    """A 0-d tensor formats as its number, so that f"{loss:.4f}" is what one expects."""
    if not specification:
        return repr(x)
    if x.ndim:
        raise TypeError(f"the format {specification!r} is for numbers; {x.label()} has shape {x.shape}")
    return format(x.data.item(), specification)


def _item(x: Tensor) -> Any:
    if x.size != 1:
        raise ValueError(
            f"item() is for one number, and {x.label()} has shape {x.shape}: reduce it (.sum(), .mean()), index it, or "
            "take all of it with .tolist()"
        )
    return x.data.item()


def _ufunc(x: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    return numpy_functions.call_ufunc(Tensor.numpy_functions, ufunc, method, inputs, options)


def _function(x: Tensor, function: Any, types: Any, args: Any, options: Any) -> Any:
    operation = Tensor.numpy_functions.get(function)
    if operation is None:
        raise numpy_functions.refused(numpy_functions.name_of(function))
    return numpy_functions.call(function, operation, args, options)


def _power(x: Any, p: Any, modulo: Any = None) -> Any:
    if modulo is not None:
        raise TypeError("pow(x, p, modulo) is for Python's integers; write x ** p % modulo")
    square = type(p) in (int, float) and p == 2
    # integers to the power 2.0 are floats
    return ops.square(x) if square and (type(p) is int or x.dtype.kind in "fc") else ops.power(x, p)


COMPARISONS: dict[str, Primitive] = {
    "__lt__": ops.less, "__le__": ops.less_equal, "__gt__": ops.greater, "__ge__": ops.greater_equal,
    "__eq__": ops.equal, "__ne__": ops.not_equal,
}  # fmt: skip
ARITHMETIC: dict[str, Function] = {
    "add": ops.add, "sub": ops.subtract, "mul": ops.multiply, "truediv": ops.divide, "matmul": ops.matmul,
    "floordiv": ops.floor_divide, "mod": ops.mod, "divmod": numpy_functions.divmod,
}  # fmt: skip
LOGIC: dict[str, Primitive] = {"and": ops.bitwise_and, "or": ops.bitwise_or, "xor": ops.bitwise_xor}
PROTOCOLS: dict[str, Function] = {
    "__neg__": ops.negative, "__pos__": lambda x: x, "__abs__": ops.abs, "__getitem__": _index, "__iter__": _iterate,
    "__len__": lambda x: len(x._array), "__bool__": lambda x: bool(x.data), "__float__": _leaving(float),
    "__int__": _leaving(int), "__complex__": _leaving(complex), "__repr__": _repr,
    "__format__": _format, "__index__": lambda x: x.data.__index__(), "__array_ufunc__": _ufunc,
    "__array_function__": _function, "__pow__": _power, "__rpow__": _flipped(ops.power),
    "__invert__": _plain_unless_traced(ops.bitwise_not),
}  # fmt: skip
for _name, _operation in ARITHMETIC.items():
    PROTOCOLS |= {f"__{_name}__": _operation, f"__r{_name}__": _flipped(_operation)}
for _name, _operation in LOGIC.items():
    _operation = _plain_unless_traced(_operation)
    PROTOCOLS |= {f"__{_name}__": _operation, f"__r{_name}__": _flipped(_operation)}
PROTOCOLS |= {_name: _plain_unless_traced(_operation) for _name, _operation in COMPARISONS.items()}
PROTOCOLS |= {"__eq__": _equality(ops.equal, False), "__ne__": _equality(ops.not_equal, True)}
_ROWS = (*ops.TABLE, *compositions.TABLE)
METHODS: dict[str, Any] = {row.operation.__name__: row.operation for row in _ROWS if row.method} | {
    "reshape": _shaped(numpy_functions.reshaped), "transpose": _shaped(compositions.transpose),
    "T": property(ops.transpose), "mT": property(numpy_functions.matrix_transpose),
    "flatten": lambda x, order="C": numpy_functions.ravel(x, order), "item": _item,
    "tolist": lambda x: x.data.tolist(), "backward": backward,
}  # fmt: skip
for _function_of in (np.all, np.any, np.argmax, np.argmin, np.argsort, np.nonzero, np.searchsorted):
    METHODS[_function_of.__name__] = numpy_functions.without_gradient(_function_of)
NUMPY_FUNCTIONS: dict[Any, Function] = {
    function: _plain_unless_traced(row.operation) if _decides(row.operation) else row.operation
    for row in _ROWS
    for function in row.numpy
}
NUMPY_FUNCTIONS |= numpy_functions.ALIASES
NUMPY_FUNCTIONS |= {
    function: numpy_functions.without_gradient(function)
    for function in (*numpy_functions.PLAIN, *numpy_functions.OF_SHAPE)
}


def attach() -> None:
    """Give tensors their operators and methods, and NumPy's functions their meaning on tensors."""
    for name, operation in (PROTOCOLS | METHODS).items():
        setattr(Tensor, name, operation)
    Tensor.numpy_functions = NUMPY_FUNCTIONS
