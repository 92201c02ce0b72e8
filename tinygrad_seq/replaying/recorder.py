"""Replay: record a training step once, then play the same list of operations again on new numbers.

The first call with given shapes records the forward pass and, by differentiating it with `create_graph`, the
backward pass: one list of primitives. Its memory is planned once: views are made once and cost nothing, a buffer is
free again after its last reader, elementwise results go in place into an input that dies, and the gradient of a
slice is computed in its place in the whole. Later calls run the list. They compute what the function itself would
compute, bit for bit: the same operations in the same order on arrays of the same layout.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..engine.backward import collect, seeded, sweep_recorded, towards
from ..engine.context import CONTEXT, Trace
from ..engine.recording import Recording
from ..engine.signatures import Array
from ..engine.tensor import Tensor
from ..engine.tree import accumulate, flattened, rebuilt
from ..nn.module import Module
from .matmul import stacked
from .native import Runner
from .planning import CollectorPaused, Plan, changes, recorded
from .source import Listing
from .staleness import Watch

CHANGING = (
    "a replayed step has been called with more than {} signatures of shapes, dtypes and plain numbers, and the program "
    "that was not used for longest is dropped. To record costs several ordinary steps: pad to few shapes, pass numbers "
    "that change as arrays, or keep more with programs="
)


class Program:
    """One recorded step: the calls that run it in planned buffers. Printed, it is NumPy code.

    `parameters`: the tensors whose gradients it computes, in the order in which the code takes and returns them.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(3.0, requires_grad=True, name="w")
    >>> step = tg.replay(lambda x: (w * x) ** 2)
    >>> loss = step(np.array(2.0))
    >>> print(step.program.source().partition("def ")[2])
    step(x, w):
        v1 = w * x
        loss = np.square(v1)
        # The way back
        g_v1 = constant * (2 * v1)
        g_w = g_v1 * x
        return loss, g_w
    <BLANKLINE>
    """

    def __init__(
        self,
        inputs: Sequence[Tensor],
        parameters: Sequence[Tensor],
        results: dict[str, Tensor],
        gradient_of: dict[Tensor, Tensor],
        trace: Trace,
        arena: list[Array],
        native: bool | None = None,
    ) -> None:
        self.parameters = list(parameters)
        operations, leaves = recorded(results.values(), trace)
        plan = Plan(operations, leaves, list(results.values()), arena)
        self._calls, self._buffers, self.memory = plan.calls, plan.buffers, plan.memory
        self._results = [plan.place[y] for y in results.values()]
        self._inputs = [plan.place.get(x) for x in inputs]  # None: nothing depends on it
        given = set(inputs)
        self.leaves = [x for x in leaves if changes(x) and x not in given]
        self._sources = [(x, plan.place[x]) for x in self.leaves]
        self._listing = Listing(operations, leaves, inputs, parameters, results, gradient_of)
        elementwise = [t.size for t in operations if not t._operation.view and t.operation != "matmul"]
        products = [values for function, values in plan.calls if function is np.matmul]
        generators = {id(v): v for t in operations for v in t._options.values() if isinstance(v, np.random.Generator)}
        self._runner = Runner(plan, list(generators.values()), native)
        self._arithmetic = sum(elementwise) + sum(2 * out.size * a.shape[-1] for a, _, out in products)

    def run(self, arrays: Iterable[Any]) -> list[Array]:
        """The results for these inputs and for the parameters as they are now, in arrays of their own.

        The programs of one replay share their buffers: they run one at a time, as calls of the replay see to.
        """
        for place, array in zip(self._inputs, arrays, strict=True):
            if place is not None:
                np.copyto(place, array._array if isinstance(array, Tensor) else array)
        for x, place in self._sources:  # read anew each time: optimisers rebind them
            np.copyto(place, x._array)
        self._runner.run()
        return [np.array(place) for place in self._results]

    def source(self) -> str:
        """The step as straight-line NumPy, forward and backward: pasted into Python, it computes the same."""
        return self._listing.source()

    __str__ = source

    def stats(self) -> dict[str, Any]:
        """How many operations are called, how many buffers they need, of how many bytes, and the floating-point
        operations of one run (2·m·n·k for a product, one per entry otherwise). How it runs, known from the second call
        on: the calls that run natively and those made from Python, the compiler ("" where there is none, and `reason`
        says why), and the bytes that this takes beside the buffers."""
        return {
            "operations": len(self._calls),
            "buffers": len(self._buffers),
            "bytes": sum(buffer.nbytes for buffer in self._buffers),
            **self._runner.stats(),
            "arithmetic": int(self._arithmetic),
        }


class Replay:
    """A training step that is recorded at its first call and replayed afterwards; made by `tg.replay`.

    It is called as the function is, by position or by name. `program` is what ran last.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(3.0, requires_grad=True, name="w")
    >>> step = tg.replay(lambda x, scale=1.0: scale * w * x)
    >>> float(step(np.array(2.0))), float(step(x=np.array(2.0), scale=0.5))
    (6.0, 3.0)
    """

    def __init__(
        self, function: Callable[..., Any], wrt: Any, stack_steps: bool, programs: int, native: bool | None = None
    ) -> None:
        if not callable(function) or programs < 1:
            raise ValueError(f"replay takes a function and keeps programs >= 1, got {function!r} and {programs}")
        functools.update_wrapper(self, function)
        self._function, self._wrt, self._stack_steps, self._limit = function, wrt, stack_steps, programs
        self._native = native
        self._recordings: OrderedDict[Any, _Recording] = OrderedDict()
        self._arena: list[Array] = []  # the buffers of all programs
        self._warned = False
        self._lock = threading.RLock()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if CONTEXT.get().tracing:
            raise RuntimeError(
                f"{self!r} was called while another replay was recorded, whose way back would end here: call the "
                f"function itself in it, step.__wrapped__(...)"
            )
        arrays: list[Any] = []
        signature = flattened((arguments, options), arrays)
        if any(isinstance(x, Tensor) and x.requires_grad for x in arrays):
            raise ValueError("a replayed step takes arrays and constants; detach a carried state: tg.detach(state)")
        with self._lock:
            recording = self._recordings.get(signature)
            if recording is not None and recording.outdated():
                self._recordings.clear()
                self._forget_buffers()
                recording = None
            if recording is None:
                if len(self._recordings) == self._limit:
                    if not self._warned:
                        self._warned = True
                        warnings.warn(CHANGING.format(self._limit), stacklevel=2)
                    self._recordings.popitem(last=False)
                    self._forget_buffers()
                with CollectorPaused():
                    recording = _Recording(
                        self._function, signature, arrays, self._wrt, self._stack_steps, self._arena, self._native
                    )
                self._recordings[signature] = recording
                first, recording.first = recording.first, []  # which nobody asks for again
                return recording.delivered(first)
            self._recordings.move_to_end(signature)
            return recording.delivered(recording.program.run(arrays))

    def _forget_buffers(self) -> None:
        """Let go of the buffers that no program uses any more."""
        used = {id(buffer) for recording in self._recordings.values() for buffer in recording.program.memory}
        self._arena[:] = [buffer for buffer in self._arena if id(buffer) in used]

    def __copy__(self) -> Replay:
        """A replay of the same function, with nothing recorded."""
        return Replay(self._function, self._wrt, self._stack_steps, self._limit, self._native)

    def __deepcopy__(self, memo: dict[int, Any]) -> Replay:
        """A replay of the copied function, with nothing recorded. Python copies methods and partials with the objects
        that they belong to; functions it does not copy, and then `wrt` stays what it was too."""
        function = copy.deepcopy(self._function, memo)
        wrt = self._wrt if function is self._function else copy.deepcopy(self._wrt, memo)
        return Replay(function, wrt, self._stack_steps, self._limit, self._native)

    def __reduce__(self) -> Any:
        raise TypeError("a replay cannot be pickled: save the weights (tg.save), and make the replay of them again")

    def __repr__(self) -> str:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        return f"Replay({name}, {len(self._recordings)} programs recorded)"

    @property
    def program(self) -> Program:
        """The program that ran last. RuntimeError before the first call."""
        if not self._recordings:
            raise RuntimeError("a replay has no program before its first call")
        return next(reversed(self._recordings.values())).program


class _Recording:
    """A program, with what is needed to deliver its results and to see that it is out of date."""

    def __init__(
        self,
        function: Callable[..., Any],
        signature: Any,
        arrays: list[Any],
        wrt: Any,
        stack_steps: bool,
        arena: list[Array],
        native: bool | None,
    ) -> None:
        inputs = [Tensor(x._array if isinstance(x, Tensor) else x) for x in arrays]
        arguments, options = rebuilt(signature, iter(inputs))
        names = [*_parameter_names(function, len(arguments)), *options]
        for name, argument in zip(names, (*arguments, *options.values()), strict=True):
            parts: list[Tensor] = []
            flattened(argument, parts)
            for k, x in enumerate(parts, start=1):
                x.named(name if len(parts) == 1 else f"{name}_{k}")
        self._watch = Watch(function, wrt)
        trace = Trace()
        with Recording(lambda context: context._replace(recording=True, tracing=trace)):
            result = function(*arguments, **options)
            self._apart = isinstance(result, tuple) and len(result) == 3  # the extras stand beside one another
            loss, extras = _loss_and_extras((result[0], result[1:]) if self._apart else result)
            leaves: list[Any] = []
            self._extras = flattened(extras, leaves)
            for t in collect([loss]):
                if t.where.tracing is not trace:
                    raise RuntimeError(
                        f"{t.label()} was computed outside of the step and requires a gradient: a replay cannot go "
                        "back beyond the step. Compute it inside, or pass it as an argument, detached"
                    )
            if wrt is None:
                reached = {loss, *(t._inputs[i] for t in collect([loss]) for i in t._needs)}
                wrt = [x for x in recorded([loss], trace)[1] if changes(x) and x.requires_grad and x in reached]
            self._parameters = list(dict.fromkeys(wrt.parameters() if isinstance(wrt, Module) else wrt))
            order, crosses = towards([loss], self._parameters)
            arrived = sweep_recorded(order, seeded([loss], None, graph=True), crosses)
            for x in (*self._parameters, *leaves):
                if not isinstance(x, Tensor):
                    raise TypeError(f"a replayed step returns tensors, got {type(x).__name__} among its extras")
            results = {"loss": loss}
            rows: dict[Any, Tensor] = {}
            for k, x in enumerate(self._parameters):
                g = arrived[x] if x in arrived else Tensor(np.zeros(x.shape, x.dtype))
                arrived[x] = results[f"gradient{k}"] = stacked(g, rows) if stack_steps else g
        results |= {f"extra{k}": x for k, x in enumerate(leaves)}
        self.first = [np.array(y._array) for y in results.values()]
        gradient_of = {g: x for x, g in arrived.items()}
        self.program = Program(inputs, self._parameters, results, gradient_of, trace, arena, native)
        self._flags = [(x, x.requires_grad) for x in self.program.leaves]

    def outdated(self) -> bool:
        """Whether what the recording took for granted has changed."""
        return self._watch.changed() or any(x.requires_grad is not flag for x, flag in self._flags)

    def delivered(self, values: list[Array]) -> Any:
        """Add the gradients to the parameters; return the loss, and the extras if there are any, as constants."""
        n = len(self._parameters)
        for x, g in zip(self._parameters, values[1 : n + 1], strict=True):
            accumulate(x, g, own=True)
        loss = Tensor(values[0])
        extras = rebuilt(self._extras, iter([Tensor(value) for value in values[n + 1 :]]))
        return (loss, *extras) if self._apart else loss if extras is None else (loss, extras)


def _parameter_names(function: Callable[..., Any], n: int) -> list[str]:
    named = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    return (named + [f"input{k}" for k in range(len(named) + 1, n + 1)])[:n]


def _loss_and_extras(result: Any) -> tuple[Tensor, Any]:
    loss, extras = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(loss, Tensor) or loss.size != 1:
        given = f"shape {loss.shape}" if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(f"a replayed step returns a scalar loss, or (loss, extras); got {given}")
    return loss, extras


def replay(
    function: Callable[..., Any] | None = None,
    *,
    wrt: Any = None,
    stack_steps: bool = False,
    programs: int = 8,
    native: bool | None = None,
) -> Any:
    """A step that is recorded once and replayed: `step = tg.replay(loss_of_batch, wrt=net)`, or `@tg.replay`.

    `function` takes arrays (or nested tuples, lists and dicts of arrays) and returns a scalar loss, or (loss, extras)
    with extras such as a carried state, or (loss, state, figures) as `tg.fit` takes it. A call does what `loss =
    function(...); loss.backward()` does, bit for bit: it adds the gradients to the `grad` of the parameters, and
    returns the loss (and the extras) as constants.

    `wrt`: a module, or a list of tensors, whose gradients are wanted; None: all that backward reaches. Each
    signature of shapes, dtypes and plain numbers has a program of its own; `programs` are kept, the least recently
    used goes (with a warning the first time). Parameters are read at every call. Random operations draw anew from
    their generator. Calls from several threads wait for one another.

    `stack_steps=True`: where a weight was used at every step, its gradient is one product of all steps' rows instead of
    one for each step, which is faster and equal to rounding, not bit for bit.

    `native`: from the second call on, the operations run without the interpreter, from a few lines of C that are
    compiled then, where a C compiler is found (True: RuntimeError with the reason where none is; False: never).

    What cannot be replayed is a Python branch that reads a value: reading one (`float`, `bool`, `.item()`, `.data`)
    raises RuntimeError while recording. An array that changes from call to call must be an argument: another one is
    a constant, and so are numbers drawn outside tensor operations and what stands in lists and dicts. When a name that
    the function uses is bound to something else, or an attribute has changed (of a module that it reaches: any, such as
    its mode; of another object: one that the function or a function that it calls reads), the step is recorded anew.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(3.0, requires_grad=True, name="w")
    >>> step = tg.replay(lambda x: (w * x) ** 2)
    >>> [float(step(np.array(x))) for x in (1.0, 2.0)], w.grad
    ([9.0, 36.0], array(30.))
    """
    if function is None:
        return functools.partial(replay, wrt=wrt, stack_steps=stack_steps, programs=programs, native=native)
    return Replay(function, wrt, stack_steps, programs, native)
