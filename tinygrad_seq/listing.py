"""A recorded step as straight-line NumPy: one line for each operation, named as its tensor is named.

What is printed is the derived program, forward and backward, in the order in which it runs. It can be pasted into
Python and executed.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import numerics
from .signatures import Array
from .tensor import Tensor

INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "matmul": "@", "power": "**"} | {
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
}  # fmt: skip
# How an operation is spelled whose forward function is neither NumPy's own nor one of numerics. {0} is its first
# input, {all} all of them; the options by name; {index} with the arrays that are inputs put into their places.
SPELLINGS = {
    "where": "np.where({all})", "sum": "np.add.reduce({0}, {axis}, keepdims={keepdims})",
    "max": "np.max({0}, {axis}, keepdims={keepdims})", "min": "np.min({0}, {axis}, keepdims={keepdims})",
    "cumsum": "np.cumsum({0}, {axis})", "reshape": "{0}.reshape({shape})", "transpose": "{0}.transpose({axes})",
    "swapaxes": "{0}.swapaxes({axis1}, {axis2})", "expand_dims": "np.expand_dims({0}, {axis})",
    "squeeze": "np.squeeze({0}, {axis})", "broadcast_to": "np.broadcast_to({0}, {shape})",
    "astype": "{0}.astype({dtype})", "getitem": "{0}[{index}]", "gather": "{0}[{index}]", "embedding": "rows({all})",
    "scatter": "scatter({0}, ({index},), {shape})", "concat": "np.concatenate([{all}], {axis})",
    "stack": "np.stack([{all}], {axis})", "einsum": "np.einsum({subscripts}, {all})", "relu": "np.maximum({0}, 0)",
}  # fmt: skip
DEFAULTS = {"axis": None, "keepdims": False, "axes": None}


class Line(NamedTuple):
    """One operation of a program: `symbol = operation(arguments)`, at a step."""

    symbol: str
    operation: Any
    arguments: list[str]
    options: Mapping[str, Any]
    step: int | None


class Listing:
    """The lines of a program, the symbols of its inputs, constants and results; `source()` is Python code."""

    def __init__(
        self,
        operations: Sequence[Tensor],
        leaves: Sequence[Tensor],
        inputs: Sequence[Tensor],
        parameters: Sequence[Tensor],
        results: Mapping[str, Tensor],
        gradient_of: Mapping[Tensor, Tensor],
    ) -> None:
        self._symbols: dict[Tensor, str] = {}
        self._taken: set[str] = set(dir(numerics)) | {"np"}
        self.inputs = [self._symbol(x, f"input{k}") for k, x in enumerate(inputs, start=1)]
        self.parameters = [self._symbol(x, f"parameter{k}") for k, x in enumerate(parameters, start=1)]
        self.constants: dict[str, Array] = {}
        for x in leaves:
            if x not in self._symbols:
                self.constants[self._symbol(x, "constant")] = x._array
        self.lines: list[Line] = []
        for t in operations:
            if t in gradient_of and gradient_of[t] in self._symbols:
                symbol = self._symbol(t, f"g_{self._symbols[gradient_of[t]]}")
            else:
                symbol = self._symbol(t, f"v{len(self.lines) + 1}")
            arguments = [self._argument(x, a) for x, a in zip(t._inputs, t._arrays, strict=True)]
            self.lines.append(Line(symbol, t._operation, arguments, t._options, t.step))
        self.results = {name: self._symbols[y] for name, y in results.items()}

    def _symbol(self, t: Tensor, otherwise: str) -> str:
        """The name of a tensor as an identifier, with its scope and step, that no other tensor has."""
        name = otherwise if t.name is None else ".".join(filter(None, (t.scope, t.name)))
        name = re.sub(r"\W+", "_", name) + ("" if t.step is None or t.name is None else str(t.step))
        if keyword.iskeyword(name) or not name.isidentifier():
            name = f"_{name}"
        symbol, k = name, 1
        while symbol in self._taken:
            symbol, k = f"{name}_{(k := k + 1)}", k
        self._taken.add(symbol)
        self._symbols[t] = symbol
        return symbol

    def _argument(self, x: Any, array: Any) -> str:
        if isinstance(x, Tensor):
            return self._symbols[x]
        if isinstance(array, np.ndarray):
            symbol = self._symbol(Tensor(array), "constant")
            self.constants[symbol] = array
            return symbol
        return repr(array)

    def source(self) -> str:
        """`def step(inputs, parameters): ... return results`, after the functions and constants that it needs."""
        body = [f"    {line.symbol} = {_spelled(line)}" for line in self.lines]
        width = max((len(text) for text in body), default=0) if body else 0
        body = [
            text if line.step is None else f"{text.ljust(min(width, 80))}  # step {line.step}"
            for text, line in zip(body, self.lines, strict=True)
        ]
        foreign = sorted({line.operation.__name__ for line in self.lines if _is_foreign(line.operation)})
        heads = ["import numpy as np"]
        heads += [f"# To be defined before this runs: {', '.join(foreign)}"] * bool(foreign)
        heads += [f"\n\n{text}" for text in _needed_functions("\n".join(body))]
        heads += ["\n"] + [f"{symbol} = {_literal(array)}" for symbol, array in self.constants.items()]
        results = ", ".join(self.results.values())
        return "\n".join(
            [*heads, "\n", f"def step({', '.join([*self.inputs, *self.parameters])}):", *body, f"    return {results}", ""]
        )


def _is_foreign(operation: Any) -> bool:
    name = operation.__name__
    return not (isinstance(operation.forward, np.ufunc) or name in SPELLINGS or hasattr(numerics, name))


def _spelled(line: Line) -> str:
    name, options = line.operation.__name__, {**DEFAULTS, **line.options}
    if name in INFIX:
        return f" {INFIX[name]} ".join(line.arguments)
    if name == "negative":
        return f"-{line.arguments[0]}"
    if name not in SPELLINGS:
        function = f"np.{line.operation.forward.__name__}" if isinstance(line.operation.forward, np.ufunc) else name
        further = [f"{key}={_code(value)}" for key, value in line.options.items()]
        return f"{function}({', '.join([*line.arguments, *further])})"
    ids = iter(line.arguments[1:])
    spelled = {key: _code(value) for key, value in options.items() if key != "index"}
    index = options.get("index")
    if isinstance(index, tuple):
        spelled["index"] = ", ".join(next(ids) if isinstance(place, str) else _code(place, True) for place in index)
        if len(index) == 1:
            spelled["index"] += "" if name == "scatter" else ","
    return SPELLINGS[name].format(*line.arguments, all=", ".join(line.arguments), **spelled)


def _code(value: Any, within_index: bool = False) -> str:
    """An option as code."""
    if isinstance(value, slice):
        if within_index:
            ends = ["" if end is None else str(end) for end in (value.start, value.stop)]
            return ":".join(ends + ([] if value.step is None else [str(value.step)]))
        return repr(value)
    if isinstance(value, (tuple, list)):
        inner = ", ".join(_code(part) for part in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.dtype):
        return f"np.{value.name}" if value.name != "bool" else "np.bool_"
    return "..." if value is Ellipsis else repr(value)


def _literal(array: Array) -> str:
    dtype = _code(array.dtype)
    if array.size and (array == array.flat[0]).all():
        return f"np.full({array.shape}, {array.flat[0].item()!r}, {dtype})"
    return f"np.array({array.tolist()!r}, {dtype})".replace("inf", "np.inf").replace("nan", "np.nan")


def _needed_functions(text: str) -> list[str]:
    """The source of those functions of numerics that a text calls, and of those that they call."""
    functions: dict[str, Callable[..., Any]] = dict(inspect.getmembers(numerics, inspect.isfunction))
    found: list[str] = []
    waiting = [text]
    while waiting:
        for name in re.findall(r"(?<![\w.])(\w+)\(", waiting.pop()):
            if name in functions and name not in found:
                found.append(name)
                waiting.append(inspect.getsource(functions[name]).partition("\n")[2])
    return [inspect.getsource(functions[name]).replace(": Any", "").replace(" -> Any", "") for name in sorted(found)]
