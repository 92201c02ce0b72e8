"""How an operation is recorded, and what can be said about the recording.

`primitive` turns a pure forward function and one local rate per input into an operation. Called on arrays it is
the forward function and nothing else; called on tensors it wraps the result, and where some input requires a
gradient the result remembers what made it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from contextvars import ContextVar
from itertools import count
from typing import Any, cast

import numpy as np

from .arguments import explained, operand, options_by_name, whole_number
from .context import CONTEXT, Context
from .signatures import Primitive
from .tensor import Tensor, array_of

# Which inputs carry a gradient; and no options. One object for all operations: what every operation holds by itself,
# Python's garbage collector looks at again and again.
NONE, FIRST, SECOND, BOTH = tuple[int, ...](), (0,), (1,), (0, 1)
NO_OPTIONS: dict[str, Any] = {}
UNCHANGING = (Tensor, int, float, complex, np.generic)  # what nobody can write to
# Bound once: these run at every operation.
next_number = count(1).__next__
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
    elementwise: bool | None = None,
    rate: str | Sequence[str] = (),
    code: str = "",
) -> Primitive:
    """A differentiable operation from its forward function and one local rate (VJP rule) per input.

    A rule gets the incoming gradient g, the output y, the inputs, and the options by keyword; it returns the
    contribution to its input, ȳ·∂y/∂input, in the shape of the output or the input (the engine undoes
    broadcasting). Written with operators, methods and other primitives only, it runs on arrays and on tensors
    alike, which gives derivatives of any order. None for a rule: that input (a mask, an index) carries no gradient.

    `every` replaces the rules where the number of inputs is open, as in concat: called once, it returns one
    contribution per input. `view`: the values are only moved about, none is computed. `elementwise`: each entry of the
    result depends on the entries in that place alone (known of NumPy's ufuncs).

    For readers: `rate` says in words what each rule multiplies by, one text for each input (the last one for all that
    follow). `code` is how a printed program spells the operation: a sign to stand between two inputs, or a template in
    which {0} is the first input, {all} all of them, and options stand by name.

    >>> import tinygrad_seq as tg
    >>> softsign = tg.primitive(lambda x: x / (1 + abs(x)), lambda g, y, x: g / (1 + abs(x)) ** 2, name="softsign")
    >>> x = tg.Tensor(1.0, requires_grad=True)
    >>> softsign(x).backward()
    >>> x.grad
    array(0.25)
    """
    name = name or forward.__name__.strip("_")
    ufunc = isinstance(forward, np.ufunc)
    parameters = [] if ufunc else list(inspect.signature(forward).parameters.values())
    arity = sys.maxsize if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(rules)
    if every is not None and arity != sys.maxsize:
        raise TypeError(f"{name}: `every` is the rule of a forward function that takes any number of inputs, *inputs")
    further = [p.name for p in parameters[arity:] if p.name != "out"]  # options may stand by position, as in NumPy
    constant = {i for i, rule in enumerate(rules) if rule is None}

    def operation(*inputs: Any, **options: Any) -> Any:
        if options or len(inputs) > arity:
            inputs, options = options_by_name(name, arity, further, inputs, options)
        foreign = False
        # The usual calls, of one or two tensors, by the shortest way: this runs at every operation.
        if len(inputs) == 2 and type(inputs[0]) is Tensor and type(inputs[1]) is Tensor:
            a, b = inputs
            values: tuple[Any, ...] = (a._array, b._array)
            needs = (BOTH if b._requires else FIRST) if a._requires else (SECOND if b._requires else NONE)
        elif len(inputs) == 1 and type(inputs[0]) is Tensor:
            values = (inputs[0]._array,)
            needs = FIRST if inputs[0]._requires else NONE
        else:
            inputs, values, needs, foreign = _read(name, inputs)
        try:
            array = forward(*values, **options)
        except (ValueError, TypeError, IndexError) as error:
            raise explained(error, name, arity, values, options) from None
        if needs is None:  # on arrays alone an operation is its forward function
            return array

        context = _context()
        if needs and (constant or not context.recording):
            needs = tuple([i for i in needs if i not in constant]) if context.recording else NONE
        result = _new(Tensor)
        result._array = array if type(array) is np.ndarray else np.asarray(array)
        if foreign and result._array.dtype.hasobject:
            raise TypeError(f"{name} of {', '.join(type(x).__name__ for x in inputs)} gives objects, not numbers")
        result._grad = result.name = None
        result._where = context
        result._number = next_number()
        if needs or context.tracing is not None:
            if options and context.tracing is not None:
                context.tracing.note(result, options)
            result._operation, result._inputs, result._arrays = operation, inputs, values
            result._options, result._needs, result._requires = options or NO_OPTIONS, needs, bool(needs)
        else:
            result._operation = result._inputs = None
            result._requires = False
        return result

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = forward.__doc__
    elementwise = (ufunc and getattr(forward, "signature", 0) is None) if elementwise is None else elementwise
    rates = (rate,) if isinstance(rate, str) else tuple(rate)
    facts = {"view": view, "elementwise": elementwise, "rate": rates, "code": code, "expand": None}
    operation.__dict__.update(forward=forward, rules=rules, every=every, **facts)
    return cast(Primitive, operation)


def _read(name: str, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], Any, bool]:
    """The inputs, their arrays, which of them require a gradient (None: there is no tensor), and whether some are
    neither tensor nor float. Arrays beside tensors are copied: the caller may still write to them, and a gradient is
    that of the forward pass that made it."""
    foreign = not all(isinstance(x, Tensor) or type(x) is float for x in inputs)
    if not any(isinstance(x, Tensor) for x in inputs):
        return inputs, inputs, None, foreign
    if foreign:
        inputs = tuple([x if isinstance(x, UNCHANGING) else operand(x, name) for x in inputs])
    needs = tuple([i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x._requires])
    return inputs, tuple([array_of(x) for x in inputs]), needs, foreign


# The blocks that are open, the innermost last, with the context before each. Every thread and every async task has its
# own, so that one `no_grad()` object can serve them all.
_ENTERED: ContextVar[tuple[tuple[Recording, Context], ...]] = ContextVar("tinygrad_seq blocks", default=())


class Recording(ContextDecorator):
    """A change of the recording context: for a with block (reusable, nestable), or as a decorator."""

    def __init__(self, change: Callable[[Context], Context]) -> None:
        self._change = change

    def __enter__(self) -> None:
        _ENTERED.set((*_ENTERED.get(), (self, CONTEXT.get())))
        CONTEXT.set(self._change(CONTEXT.get()))

    def __exit__(self, *exception: object) -> None:
        entered = list(_ENTERED.get())  # not always the last: generators can leave blocks in another order
        CONTEXT.set(entered.pop(-1 - [block for block, _ in reversed(entered)].index(self))[1])
        _ENTERED.set(tuple(entered))

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
    t = whole_number("tg.step", "t", t)
    return Recording(lambda context: Context(context.recording, context.tracing, t, context.scope))


def scope(name: str) -> Recording:
    """Everything computed within belongs to this part of a model; scopes nest, as in `layer0.forward`.

    >>> import tinygrad_seq as tg
    >>> with tg.scope("layer0"), tg.scope("forward"):
    ...     tg.Tensor(1.0).scope
    'layer0.forward'
    """
    return Recording(lambda context: context._replace(scope=f"{context.scope}.{name}".strip(".")))
