"""How an operation is recorded, and what can be said about the recording.

`primitive` turns a pure forward function and one local rate per input into an operation. Called on arrays it is
the forward function and nothing else; called on tensors it wraps the result, and where some input requires a
gradient the result remembers what made it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import Token
from itertools import count
from typing import Any, cast

import numpy as np

from .signatures import Primitive, renamed
from .tensor import CONTEXT, Context, Tensor

# Bound once: these run at every operation.
_next_number = count(1).__next__
_context = CONTEXT.get
_new = Tensor.__new__


class Part:
    """A contribution to one place of a larger tensor, zero elsewhere: `whole[index] += value`.

    A rule may return it in place of an array of the input's shape. The engine adds parts into one buffer, so that
    reading T steps out of one sequence costs O(T) backward. `index` is basic and has an Ellipsis.

    >>> import tinygrad_seq as tg
    >>> first = tg.primitive(lambda x: x[0], lambda g, y, x: tg.Part(g, (0, ...)), name="first")
    >>> x = tg.Tensor([5.0, 6.0, 7.0], requires_grad=True)
    >>> first(x).backward()
    >>> x.grad.tolist()
    [1.0, 0.0, 0.0]
    """

    __slots__ = ("index", "value")

    def __init__(self, value: Any, index: Any) -> None:
        self.value, self.index = value, index


def primitive(
    forward: Callable[..., Any],
    *rules: Callable[..., Any] | None,
    name: str | None = None,
    every: Callable[..., Any] | None = None,
    view: bool = False,
) -> Primitive:
    """A differentiable operation from its forward function and one local rate (VJP rule) per input.

    A rule gets the incoming gradient g, the output y, the inputs, and the options by keyword; it returns the
    contribution to its input, ȳ·∂y/∂input, in the shape of the output or the input (the engine undoes
    broadcasting). Written with operators, methods and other primitives only, it runs on arrays and on tensors
    alike, which gives derivatives of any order. None for a rule: that input (a mask, an index) carries no gradient.

    `every` replaces the rules where the number of inputs is open, as in concat: called once, it returns one
    contribution per input. `view`: the values are only moved about, none is computed.

    >>> import tinygrad_seq as tg
    >>> softsign = tg.primitive(lambda x: x / (1 + abs(x)), lambda g, y, x: g / (1 + abs(x)) ** 2, name="softsign")
    >>> x = tg.Tensor(1.0, requires_grad=True)
    >>> softsign(x).backward()
    >>> x.grad
    array(0.25)
    """
    name = name or forward.__name__.strip("_")
    parameters = [] if isinstance(forward, np.ufunc) else list(inspect.signature(forward).parameters.values())
    arity = sys.maxsize if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(rules)
    if every is not None and arity != sys.maxsize:
        raise TypeError(f"{name}: `every` is the rule of a forward function that takes any number of inputs, *inputs")
    further = [p.name for p in parameters[arity:] if p.name != "out"]  # options may stand by position, as in NumPy
    constant = {i for i, rule in enumerate(rules) if rule is None}

    def operation(*inputs: Any, **options: Any) -> Any:
        if len(inputs) > arity:
            if len(inputs) > arity + len(further):
                raise TypeError(f"{name} takes {arity} inputs and the options {further}, got {len(inputs)} arguments")
            options.update(zip(further, inputs[arity:], strict=False))
            inputs = inputs[:arity]
        if options and "out" in options:
            raise TypeError(f"{name} never writes into an array (out=): its result is a new one")
        arrays, needs, i = [], [], 0
        tensors = foreign = False
        for x in inputs:
            if type(x) is Tensor or isinstance(x, Tensor):  # the first is the faster question
                tensors = True
                arrays.append(x._array)
                if x._requires:
                    needs.append(i)
            else:
                foreign = foreign or type(x) is not float
                arrays.append(x)
            i += 1  # noqa: SIM113 (enumerate costs more than adding does, and this runs at every operation)
        if foreign and tensors:  # the caller may still write to it: a gradient is that of the forward pass that made it
            inputs = tuple(np.array(x) if isinstance(x, (np.ndarray, list, tuple)) else x for x in inputs)
            arrays = [x._array if isinstance(x, Tensor) else x for x in inputs]
        try:
            array = forward(*arrays, **options)
        except (ValueError, TypeError, IndexError) as error:
            told = [("", a) for a in arrays] + [(f"{key}=", value) for key, value in options.items()]
            given = [key + (f"{a.shape} {a.dtype}" if hasattr(a, "dtype") else f"{a!r:.80}") for key, a in told]
            kind = TypeError if isinstance(error, TypeError) else type(error)  # NumPy's own kinds take no message
            raise kind(f"{name}({', '.join(given)}): {error}{renamed(error)}") from None
        if not tensors:
            return array

        context = _context()
        if needs and (constant or not context.recording):
            needs = [i for i in needs if i not in constant] if context.recording else []
        result = _new(Tensor)
        result._array = array if type(array) is np.ndarray else np.asarray(array)
        result.grad = result.name = None
        result._where = context
        result._number = _next_number()
        if foreign and result._array.dtype.hasobject:
            raise TypeError(f"{name} of {', '.join(type(x).__name__ for x in inputs)} gives objects, not numbers")
        if needs or context.tracing:
            result._operation, result._inputs, result._arrays = operation, inputs, arrays
            result._options, result._needs, result._requires = options, needs, bool(needs)
        else:
            result._operation = result._inputs = None
            result._requires = False
        return result

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = forward.__doc__
    operation.__dict__.update(forward=forward, rules=rules, every=every, view=view)
    return cast(Primitive, operation)


class Recording(ContextDecorator):
    """A change of the recording context: for a with block (reusable, nestable), or as a decorator."""

    def __init__(self, change: Callable[[Context], Context]) -> None:
        self._change = change
        self._tokens: list[Token[Context]] = []

    def __enter__(self) -> None:
        self._tokens.append(CONTEXT.set(self._change(CONTEXT.get())))

    def __exit__(self, *exception: object) -> None:
        CONTEXT.reset(self._tokens.pop())

    def _recreate_cm(self) -> Recording:  # one for each call of a decorated function: calls may overlap in threads
        return Recording(self._change)

    def __call__(self, function: Any) -> Any:
        in_pieces = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        if any(test(function) for test in in_pieces):
            raise TypeError(f"{function.__name__} runs in pieces, with other code between: use a with block inside it")
        return super().__call__(function)


def no_grad() -> Recording:
    """Record nothing within: a context manager, and a decorator with the same call.

    Nests, is restored on exceptions, and is kept apart per thread and per async task.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(2.0, requires_grad=True)
    >>> with tg.no_grad():
    ...     (w * w).requires_grad
    False
    """
    return Recording(lambda context: context._replace(recording=False))


def enable_grad() -> Recording:
    """Record again within a `no_grad` block.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(2.0, requires_grad=True)
    >>> with tg.no_grad(), tg.enable_grad():
    ...     (w * w).requires_grad
    True
    """
    return Recording(lambda context: context._replace(recording=True))


def step(t: int) -> Recording:
    """Everything computed within belongs to time step t, a whole number. Steps count from 1, as in the texts.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(2.0, requires_grad=True)
    >>> with tg.step(3):
    ...     h = (w * w).named("h")
    >>> h.step
    3
    """
    if isinstance(t, bool) or not isinstance(t, (int, np.integer)):
        raise TypeError(f"tg.step needs a whole number, got {t!r}")
    return Recording(lambda context: Context(context.recording, context.tracing, int(t), context.scope))


def scope(name: str) -> Recording:
    """Everything computed within belongs to this part of a model; scopes nest, as in `layer0.forward`.

    >>> import tinygrad_seq as tg
    >>> with tg.scope("layer0"), tg.scope("forward"):
    ...     tg.Tensor(1.0).scope
    'layer0.forward'
    """
    return Recording(lambda context: context._replace(scope=f"{context.scope}.{name}".strip(".")))
