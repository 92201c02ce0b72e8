"""A recorded step as straight-line NumPy: one line for each operation, named as its tensor is named.

What is printed is the derived program, forward and backward, in the order in which it runs. It can be pasted into
Python and executed.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine import numerics
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of, record_of

SHORT = {"negative", "getitem", "reshape", "swapaxes", "transpose"}  # in the code, and a value in themselves
CALL = re.compile(r"(?<![\w.])(\w+)\(|^@(\w+)$", re.MULTILINE)  # of a function by its bare name, or as a decorator
COLUMN = 72  # where the steps stand
DEFAULTS = {"axis": None, "keepdims": False, "axes": None}


class Line(NamedTuple):
    """One operation of a program: `symbol = operation(arguments)`, at a step."""

    symbol: str
    operation: Any
    arguments: list[str]
    options: Mapping[str, Any]
    step: int | None
    unnamed: bool
    back: bool  # on the way back


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
                self.constants[self._symbol(x, "constant")] = array_of(x)
        self.lines: list[Line] = []
        self._half = any(t.dtype == numerics.HALF for t in operations)
        called = {y: name for name, y in results.items() if y not in gradient_of}
        forward = max(record.number for y in called if (record := y.record))
        for t in operations:
            if t in gradient_of and gradient_of[t] in self._symbols:
                symbol = self._symbol(t, f"g_{self._symbols[gradient_of[t]]}")
            else:
                symbol = self._symbol(t, called.get(t, f"v{len(self.lines) + 1}"))
            record = record_of(t)
            arguments = [self._argument(x, a) for x, a in zip(record.inputs, record.values, strict=True)]
            unnamed = symbol == f"v{len(self.lines) + 1}"
            back = record.number > forward
            self.lines.append(Line(symbol, record.operation, arguments, record.options, t.step, unnamed, back))
        self.results = {name: self._symbols[y] for name, y in results.items()}
        self._symbols.clear()  # its tensors hold every array that the recording computed

    def _symbol(self, t: Tensor, otherwise: str) -> str:
        """The name of a tensor as an identifier, with its scope and step, that no other tensor has."""
        name = otherwise
        if t.name is not None:
            step = "" if t.step is None else str(t.step)
            name = re.sub(r"\W+", "_", ".".join(filter(None, (t.scope, t.name)))) + step
            if keyword.iskeyword(name) or not name.isidentifier():
                name = f"_{name}"
        symbol, k = name, 1
        while symbol in self._taken:
            k += 1
            symbol = f"{name}_{k}"
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
        body, back = list[str](), False
        for line, text in self._statements():
            if line.back and not back:
                body.append("    # The way back")
                back = True
            said = f"{line.symbol} = {text}"
            body.append("    " + (said if line.step is None else f"{said.ljust(COLUMN)}  # step {line.step}"))
        functions = _functions_of((line.operation for line in self.lines), self._half)
        unknown = sorted({_called(line.operation) for line in self.lines if _is_unknown(line.operation)})
        heads = (
            ["import functools\n"] * self._half
            + ["import numpy as np"]
            + [f"# To be defined before this runs: {', '.join(unknown)}"] * bool(unknown)
        )
        heads += [f"\n\n{text}" for text in functions]
        heads += ["\n"] + [f"{symbol} = {_literal(array)}" for symbol, array in self.constants.items()]
        head = f"def step({', '.join([*self.inputs, *self.parameters])}):"
        return "\n".join([*heads, "\n", head, *body, f"    return {', '.join(self.results.values())}", ""])

    def statements(self) -> list[str]:
        """The constants and the operations, each as a line of code."""
        constants = [f"{symbol} = {_literal(array)}" for symbol, array in self.constants.items()]
        return [*constants, *(f"{line.symbol} = {text}" for line, text in self._statements())]

    def _statements(self) -> Iterator[tuple[Line, str]]:
        """A line and its expression: a value without a name that is read once stands where it is read."""
        reads = Counter(argument for line in self.lines for argument in line.arguments)
        reads.update(2 * list(self.results.values()))
        waiting: dict[str, str] = {}
        for line in self.lines:
            text = _spelled(line, [waiting.pop(argument, argument) for argument in line.arguments])
            name, infix = line.operation.__name__, _infix(line.operation)
            if reads[line.symbol] == 1 and line.unnamed and len(text) < 40 and (infix or name in SHORT):
                waiting[line.symbol] = f"({text})" if infix or name == "negative" else text
            else:
                yield line, text


def _bare(text: str) -> str:
    """An argument needs no brackets around the whole of it."""
    return text[1:-1] if text.startswith("(") and text.endswith(")") and _balanced(text[1:-1]) else text


def _balanced(text: str) -> bool:
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return False
    return depth == 0


def _called(operation: Any) -> str:
    """What a function is called in the code: by its own name, or if it has none by the operation's."""
    name = operation.forward.__name__
    return operation.__name__ if name == "<lambda>" else name


def _infix(operation: Any) -> bool:
    """Whether it is a sign between its two inputs."""
    return bool(operation.code) and "{" not in operation.code


def _is_unknown(operation: Any) -> bool:
    return not operation.code and operation.forward.__name__ == "<lambda>"


def _spelled(line: Line, arguments: list[str]) -> str:
    options, code = {**DEFAULTS, **line.options}, line.operation.code
    if _infix(line.operation):
        return f" {code} ".join(arguments)
    if not code:
        prefix = "np." if isinstance(line.operation.forward, np.ufunc) else ""
        further = [f"{key}={_code(value)}" for key, value in line.options.items()]
        return f"{prefix}{_called(line.operation)}({', '.join([*map(_bare, arguments), *further])})"
    ids = iter(arguments[1:])
    spelled = {key: _code(value) for key, value in options.items() if key != "index"}
    index = options.get("index")
    if isinstance(index, tuple):
        spelled["index"] = ", ".join(next(ids) if isinstance(place, str) else _code(place, True) for place in index)
        spelled["index"] += "," if len(index) == 1 and "{index}," not in code else ""
    return str(code).format(*arguments, all=", ".join(arguments), **spelled)


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


def _functions_of(operations: Iterable[Any], half: bool) -> list[str]:
    """The source of the forward functions that are called by name, and what they need from numerics; with what makes
    them compute in float32 where a value is float16."""
    known: dict[str, Callable[..., Any]] = dict(inspect.getmembers(numerics, inspect.isfunction))
    waiting: list[Callable[..., Any]] = []
    for operation in set(operations):
        called = [known[name] for name in _called_in(operation.code) if name in known]
        waiting += called if operation.code else [operation.forward]
    found: dict[str, str] = {}
    while waiting:
        function = waiting.pop()
        if inspect.isfunction(function) and function.__name__ not in ("<lambda>", *found):
            found[function.__name__] = source = _undecorated(inspect.getsource(function), half)
            waiting += [known[name] for name in _called_in(source) if name in known]
    constants = [
        ast.unparse(node)
        for node in ast.parse(inspect.getsource(numerics)).body
        if isinstance(node, ast.Assign) and any(ast.unparse(node.targets[0]) in source for source in found.values())
    ]
    return ["\n".join(constants)] * bool(constants) + [
        found[name] for name in sorted(found, key=lambda name: (name != numerics.in_float32.__name__, name))
    ]


def _called_in(source: str) -> list[str]:
    return [call or decorator for call, decorator in CALL.findall(source)]


def _undecorated(source: str, half: bool) -> str:
    """A function without annotations, and without its decorator where nothing is float16."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            node.decorator_list = node.decorator_list if half else []
        elif isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(tree)
