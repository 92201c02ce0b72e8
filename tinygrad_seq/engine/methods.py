"""What Python's operators, the methods, and NumPy's own functions mean on a tensor: one table, attached here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import compositions, ops
from .backward import backward
from .context import CONTEXT, readable
from .signatures import Axis, Primitive
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
            array = place if isinstance(place, Tensor) else np.asarray(place)
            ids.append(array if array.size or array.dtype.kind == "b" else array.astype(int))  # [] is an index too
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


def _compared(operation: Function) -> Function:
    """A comparison is a plain Boolean array; while a replay is recorded it stays a tensor, so that it is replayed."""

    def compare(a: Any, b: Any) -> Any:
        result = operation(a, b)
        return result if CONTEXT.get().tracing or not isinstance(result, Tensor) else result._array

    return compare


def _shaped(operation: Function) -> Function:
    """Shapes and axes may be given one by one, or as one tuple."""
    return lambda x, *sizes: operation(
        x, *(sizes if len(sizes) == 1 and not isinstance(sizes[0], int) else [sizes or None])
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


def _norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """numpy.linalg.norm, as far as it is the 2-norm."""
    axes = x.ndim if axis is None else len(axis) if isinstance(axis, tuple) else 1
    if ord not in (None, 2, "fro") or (ord == 2 and axes > 1):
        raise TypeError(f"numpy.linalg.norm with ord={ord!r} has no rule for tensors; the 2-norm of the entries has")
    return ops.norm(x, axis, keepdims)


def _ufunc(x: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    operation = Tensor.numpy_functions.get(ufunc)
    if operation is None or method != "__call__" or kwargs:
        name = ufunc.__name__ + ("" if method == "__call__" else "." + method)
        raise TypeError(
            f"numpy.{name}{f' with {sorted(kwargs)}' if kwargs else ''} has no rule for tensors (and never writes into "
            "one or into an array: every result is a new tensor). Use tinygrad_seq's operations, tg.primitive to add "
            "one, or .detach().data to leave the graph"
        )
    return operation(*inputs)


def _function(x: Tensor, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    operation = Tensor.numpy_functions.get(function)
    if operation is None:
        raise TypeError(
            f"numpy.{function.__name__} has no rule for tensors. Use tinygrad_seq's operations, tg.primitive to add "
            "one, or .detach().data to leave the graph"
        )
    return operation(*args, **kwargs)


COMPARISONS: dict[str, Primitive] = {
    "__lt__": ops.less, "__le__": ops.less_equal, "__gt__": ops.greater, "__ge__": ops.greater_equal,
    "__eq__": ops.equal, "__ne__": ops.not_equal,
}  # fmt: skip
ARITHMETIC: dict[str, Function] = {
    "add": ops.add, "sub": ops.subtract, "mul": ops.multiply, "truediv": ops.divide, "matmul": ops.matmul,
    "pow": lambda x, p: ops.square(x) if type(p) in (int, float) and p == 2 else ops.power(x, p),
}  # fmt: skip
PROTOCOLS: dict[str, Function] = {
    "__neg__": ops.negative, "__pos__": lambda x: x, "__abs__": ops.abs, "__getitem__": _index, "__iter__": _iterate,
    "__len__": lambda x: len(x._array), "__bool__": lambda x: bool(x.data), "__float__": lambda x: float(x.data),
    "__int__": lambda x: int(x.data), "__complex__": lambda x: complex(x.data), "__repr__": _repr,
    "__format__": _format, "__index__": lambda x: x.data.__index__(), "__array_ufunc__": _ufunc,
    "__array_function__": _function,
}  # fmt: skip
for _name, _operation in ARITHMETIC.items():
    PROTOCOLS |= {f"__{_name}__": _operation, f"__r{_name}__": _flipped(_operation)}
PROTOCOLS |= {_name: _compared(_operation) for _name, _operation in COMPARISONS.items()}
_ROWS = (*ops.TABLE, *compositions.TABLE)
METHODS: dict[str, Any] = {row.operation.__name__: row.operation for row in _ROWS if row.method} | {
    "reshape": _shaped(ops.reshape), "transpose": _shaped(compositions.transpose), "T": property(ops.transpose),
    "flatten": lambda x: ops.reshape(x, (-1,)), "item": _item, "tolist": lambda x: x.data.tolist(),
    "backward": backward,
}  # fmt: skip
NUMPY_FUNCTIONS: dict[Any, Function] = {function: row.operation for row in _ROWS for function in row.numpy}
NUMPY_FUNCTIONS |= {operation.forward: _compared(operation) for operation in COMPARISONS.values()}
NUMPY_FUNCTIONS[np.linalg.norm] = _norm


def attach() -> None:
    """Give tensors their operators and methods, and NumPy's functions their meaning on tensors."""
    for name, operation in (PROTOCOLS | METHODS).items():
        setattr(Tensor, name, operation)
    Tensor.numpy_functions = NUMPY_FUNCTIONS
