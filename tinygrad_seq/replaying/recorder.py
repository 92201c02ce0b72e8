"""Replay: record a training step once, then play the same list of operations again on new numbers.

The first call with given shapes records the forward pass and, by differentiating it with `create_graph`, the
backward pass: one list of primitives. Its memory is planned once: views are made once and cost nothing, a buffer is
free again after its last reader, elementwise results go in place into an input that dies, and the gradient of a
slice is computed in its place in the whole. Later calls run the list. They compute what the function itself would
compute, bit for bit: the same operations in the same order on arrays of the same layout.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import html
import inspect
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from ..engine.arguments import whole_number
from ..engine.backward import collect, seeded, sweep_recorded, towards
from ..engine.context import CONTEXT, Trace
from ..engine.recording import Recording
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of, record_of
from ..engine.tree import accumulate, flattened, rebuilt
from ..nn.module import Module
from .matmul import stacked
from .native import Runner
from .planning import CollectorPaused, Plan, changes, recorded
from .reference import computed, difference, outcome_of
from .shards import Shards
from .source import Listing
from .staleness import StaleReplayError, Watch, position, put_back, same

P = ParamSpec("P")
R = TypeVar("R")

OFTEN = 10
ANEW = (
    "a replayed step was recorded anew at {} calls in a row, because what it can read changes each time ({}): pass "
    "what changes as an argument, as an array"
)
REMEDY = "Pass what changes as an argument: the page on replays lists what is watched"
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
        changing = functools.partial(changes, trace=trace)
        plan = Plan(operations, leaves, list(results.values()), arena, changing)
        self._calls, self._buffers, self.memory = plan.calls, plan.buffers, plan.memory
        self._results = [plan.place[y] for y in results.values()]
        self._inputs = [plan.place.get(x) for x in inputs]  # None: nothing depends on it
        given = set(inputs)
        self.leaves = [x for x in leaves if changing(x) and x not in given]
        self._sources = [(x, plan.place[x]) for x in self.leaves]
        self._listing = Listing(operations, leaves, inputs, parameters, results, gradient_of)
        elementwise = [t.size for t in operations if not record_of(t).operation.view and t.operation != "matmul"]
        products = [values for function, values in plan.calls if function is np.matmul]
        generators = {
            id(v): v for t in operations for v in record_of(t).options.values() if isinstance(v, np.random.Generator)
        }
        self._runner = Runner(plan, list(generators.values()), native)
        self._arithmetic = sum(elementwise) + sum(2 * out.size * a.shape[-1] for a, _, out in products)

    def run(self, arrays: Iterable[Any]) -> list[Array]:
        """The results for these inputs and for the parameters as they are now, in arrays of their own.

        The programs of one replay share their buffers: they run one at a time, as calls of the replay see to.
        """
        for place, array in zip(self._inputs, arrays, strict=True):
            if place is not None:
                np.copyto(place, array_of(array))
        for x, place in self._sources:  # read anew each time: optimisers rebind them
            np.copyto(place, array_of(x))
        self._runner.run()
        return [np.array(place) for place in self._results]

    def source(self) -> str:
        """The step as straight-line NumPy, forward and backward: pasted into Python, it computes the same."""
        return self._listing.source()

    __str__ = source

    def statements(self) -> list[str]:
        """Its constants and its operations, one by one."""
        return self._listing.statements()

    def _repr_html_(self) -> str:
        return f"<pre><code>{html.escape(self.source())}</code></pre>"

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


class Settings(NamedTuple):
    """How a function is replayed: what `replay` takes."""

    wrt: Any = None
    stack_steps: bool = False
    programs: int = 8
    native: bool | None = None
    gradients: bool = True
    check: int = 0
    shards: int = 1
    axes: Sequence[Any] | None = None


class Replay(Generic[P, R]):
    """A training step that is recorded at its first call and replayed afterwards; made by `tg.replay`.

    It is called as the function is, by position or by name. `program` is what ran last.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(3.0, requires_grad=True, name="w")
    >>> step = tg.replay(lambda x, scale=1.0: scale * w * x)
    >>> float(step(np.array(2.0))), float(step(x=np.array(2.0), scale=0.5))
    (6.0, 3.0)
    """

    def __init__(self, function: Callable[P, R], settings: Settings) -> None:
        _check(function, settings)
        functools.update_wrapper(self, function)
        self._function, self._settings = function, settings
        self._recordings: OrderedDict[Any, _Recording | Shards] = OrderedDict()
        self._arenas: list[list[Array]] = [[] for _ in range(settings.shards)]  # the buffers of all programs
        self._calls = 0
        self._anew = 0  # how often in a row it was recorded anew
        self._warned: set[str] = set()
        self._lock = threading.RLock()

    def __call__(self, *arguments: P.args, **options: P.kwargs) -> R:
        if CONTEXT.get().tracing:
            raise RuntimeError(
                f"{self!r} was called while another replay was recorded, whose way back would end here: call the "
                "function itself in it, step.__wrapped__(...)"
            )
        arrays: list[Any] = []
        signature = flattened((arguments, options), arrays)
        if any(isinstance(x, Tensor) and x.requires_grad for x in arrays):
            raise ValueError("a replayed step takes arrays and constants; detach a carried state: tg.detach(state)")
        with self._lock:
            self._calls += 1
            recording = self._up_to_date(signature)
            if recording is None:
                recording = self._recorded_anew(signature, arrays, arguments, options)
                values, recording.first = recording.first, []  # which nobody asks for again
            elif self._settings.check and self._calls % self._settings.check == 0:
                values = self._checked(recording, signature, arrays)
            else:
                values = recording.play(arrays)
            return recording.delivered(values)

    def __repr__(self) -> str:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        return f"Replay({name}, {len(self._recordings)} programs recorded)"

    @property
    def program(self) -> Program:
        """The program that ran last (of a batch in shards: that of its first part). RuntimeError before the first
        call."""
        if not self._recordings:
            raise RuntimeError("a replay has no program before its first call")
        return next(reversed(self._recordings.values())).program

    def _up_to_date(self, signature: Any) -> _Recording | Shards | None:
        """The recording for this signature, if there is one, and nothing has changed that it took for granted."""
        recording = self._recordings.get(signature)
        if recording is None:
            return None
        if changed := recording.outdated():
            self._anew += 1
            if self._anew == OFTEN:
                self._warn(ANEW.format(OFTEN, changed))
            self._recordings.clear()
            self._forget_buffers()
            return None
        self._anew = 0
        self._recordings.move_to_end(signature)
        return recording

    def _recorded_anew(self, signature: Any, arrays: list[Any], arguments: Any, options: Any) -> _Recording | Shards:
        if len(self._recordings) == self._settings.programs:
            self._warn(CHANGING.format(self._settings.programs))
            self._recordings.popitem(last=False)
            self._forget_buffers()
        recording: _Recording | Shards
        try:
            if self._settings.shards == 1:
                recording = self._recorded(signature, arrays, self._arenas[0])
            else:
                axes = _axes_of(self._function, self._settings.axes, arguments, options)
                arenas = iter(self._arenas)
                recording = Shards(
                    lambda signature, arrays: self._recorded(signature, arrays, next(arenas)),
                    signature, arrays, axes, self._settings.shards,
                    lambda parameters: self._computed(signature, arrays, parameters),
                )  # fmt: skip
        except BaseException:
            self._forget_buffers()
            raise
        self._recordings[signature] = recording
        return recording

    def _recorded(self, signature: Any, arrays: list[Any], arena: list[Array]) -> _Recording:
        with CollectorPaused():
            return _Recording(self._function, signature, arrays, self._settings, arena)

    def _computed(self, signature: Any, arrays: Iterable[Any], parameters: Sequence[Tensor]) -> list[Array]:
        return computed(self._function, signature, arrays, parameters, self._settings.gradients)

    def _checked(self, recording: _Recording | Shards, signature: Any, arrays: list[Any]) -> list[Array]:
        """The results of a replay, if the function itself gives the same ones from the same random numbers."""
        generators = recording.generators
        starts = [position(g) for g in generators]
        values = recording.play(arrays)
        ends = [position(g) for g in generators]
        exact = not self._settings.stack_steps and isinstance(recording, _Recording)
        put_back(generators, starts)
        reference = self._computed(signature, arrays, recording.parameters)
        fault = difference(recording.names, values, reference, exact, recording.gradients)
        if fault is None and not same(ends, [position(g) for g in generators]):
            fault = "its generators stand elsewhere than after the function itself"
        if fault is None:
            return values
        put_back(generators, starts)
        told = self._first_difference(recording, signature, arrays)
        put_back(generators, ends)
        raise StaleReplayError(f"the replay is out of date: {fault} of the function itself. {told}")

    def _first_difference(self, recording: _Recording | Shards, signature: Any, arrays: list[Any]) -> str:
        """The first operation that is another one if the step is recorded now, in words."""
        if isinstance(recording, Shards):
            return "Record it without shards to see which operation differs"
        try:
            now = self._recorded(signature, arrays, []).program.statements()
        except Exception as error:
            return f"Recorded now, it fails: {error}"
        for old, new in zip_longest(recording.program.statements(), now, fillvalue="(nothing)"):
            if old != new:
                return f"The first operation that differs was recorded as {_brief(old)}, now {_brief(new)}. {REMEDY}"
        return "Recorded now, its operations are the same: what the function gives is not settled by what it reads"

    def _warn(self, text: str) -> None:
        """Say something once."""
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, stacklevel=4)

    def _forget_buffers(self) -> None:
        """Let go of the buffers that no program uses any more."""
        used = {id(buffer) for recording in self._recordings.values() for buffer in recording.memory}
        for arena in self._arenas:
            arena[:] = [buffer for buffer in arena if id(buffer) in used]

    def __copy__(self) -> Replay[P, R]:
        """A replay of the same function, with nothing recorded."""
        return Replay(self._function, self._settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Replay[P, R]:
        """A replay of the copied function, with nothing recorded. Python copies methods and partials with the objects
        that they belong to; functions it does not copy, and then `wrt` stays what it was too."""
        function, settings = copy.deepcopy(self._function, memo), self._settings
        if function is not self._function:
            settings = settings._replace(wrt=copy.deepcopy(settings.wrt, memo))
        return Replay(function, settings)

    def __reduce__(self) -> Any:
        raise TypeError("a replay cannot be pickled: save the weights (tg.save), and make the replay of them again")


class _Recording:
    """A program, with what is needed to deliver its results and to see that it is out of date."""

    def __init__(
        self, function: Callable[..., Any], signature: Any, arrays: list[Any], settings: Settings, arena: list[Array]
    ) -> None:
        inputs = [Tensor(array_of(x)) for x in arrays]
        arguments, options = rebuilt(signature, iter(inputs))
        _name_inputs(function, arguments, options)
        trace = Trace()
        self._watch = Watch(function, settings.wrt)
        self.parameters: list[Tensor] = []
        gradient_of: dict[Tensor, Tensor] = {}
        with Recording(lambda context: context._replace(recording=True, tracing=trace)):
            with self._watch:
                result = function(*arguments, **options)
            loss, tensors, self._arrangement, self._apart = outcome_of(result, settings.gradients)
            results: dict[str, Tensor] = {}
            if loss is not None:
                results["loss"] = loss
                _refuse_outside(loss, trace)
                self.parameters = _parameters_of(loss, settings.wrt, trace)
                watched = self._watch if self._watch.sees_rules(collect([loss])) else contextlib.nullcontext()
                with watched:
                    gradients, gradient_of = _gradients_of(loss, self.parameters, settings.stack_steps)
                results |= {f"gradient{k}": g for k, g in enumerate(gradients)}
            kind = "result" if loss is None else "extra"
            results |= {f"{kind}{k}": x for k, x in enumerate(tensors, start=1)}
        self.first = [np.array(array_of(y)) for y in results.values()]
        self.program = Program(inputs, self.parameters, results, gradient_of, trace, arena, settings.native)
        self._watch.close(self.program.leaves, trace.draws)
        self.draws = bool(trace.draws)
        trace.draws.clear()  # which hold all that was recorded
        self.memory, self.generators = self.program.memory, self._watch.generators
        of = [f"the gradient of {x.label()}" for x in self.parameters]
        self.gradients = slice(len(results) - len(tensors) - len(of), len(results) - len(tensors))
        self.names = [*["loss"] * (loss is not None), *of, *(f"{kind} {k}" for k in range(1, len(tensors) + 1))]

    def outdated(self) -> str:
        """What has changed that the recording took for granted, in words."""
        return self._watch.what() if self._watch.changed() else ""

    def play(self, arrays: Sequence[Any]) -> list[Array]:
        """The loss, the gradients of the parameters and the other results, for these arguments."""
        return self.program.run(arrays)

    def delivered(self, values: list[Array]) -> Any:
        """Add the gradients to the parameters; return the loss, and the extras if there are any, as constants."""
        for x, g in zip(self.parameters, values[self.gradients], strict=True):
            accumulate(x, g, own=True)
        others = rebuilt(self._arrangement, iter([Tensor(value) for value in values[self.gradients.stop :]]))
        if self.gradients.start == 0:  # there is no loss
            return others
        loss = Tensor(values[0])
        return (loss, *others) if self._apart else loss if others is None else (loss, others)


def _check(function: Any, settings: Settings) -> None:
    """ValueError if a replay cannot be made so."""
    if not callable(function) or settings.programs < 1:
        raise ValueError(f"replay takes a function and keeps programs >= 1, got {function!r} and {settings.programs}")
    whole_number("tg.replay", "check", settings.check, 0)
    whole_number("tg.replay", "shards", settings.shards, 1)
    if (settings.shards > 1) is not (settings.axes is not None):
        raise ValueError(
            "shards are parts of the batch: tg.replay(..., shards=2, axes=(1, 0)) says for each argument along which "
            "axis its rows stand (None: every part gets all of it)"
        )
    if not settings.gradients and (settings.wrt is not None or settings.stack_steps):
        raise ValueError("gradients=False plays a forward pass alone: wrt and stack_steps are of the way back")


def _name_inputs(function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Arguments are called as the function calls them."""
    names = [*_parameter_names(function, len(arguments)), *options]
    for name, argument in zip(names, (*arguments, *options.values()), strict=True):
        parts: list[Tensor] = []
        flattened(argument, parts)
        for k, x in enumerate(parts, start=1):
            x.named(name if len(parts) == 1 else f"{name}_{k}")


def _parameter_names(function: Callable[..., Any], n: int) -> list[str]:
    named = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    return (named + [f"input{k}" for k in range(len(named) + 1, n + 1)])[:n]


def _axes_of(function: Callable[..., Any], axes: Any, arguments: Any, options: Mapping[str, Any]) -> list[int | None]:
    """For each array among the arguments, along which axis its rows stand."""
    given = dict(
        zip([*_parameter_names(function, len(arguments)), *options], (*arguments, *options.values()), strict=True)
    )
    order = [*(name for name in _parameter_names(function, len(axes)) if name in given)]
    order += [name for name in given if name not in order]
    if len(order) != len(axes):
        raise ValueError(f"axes needs an entry for each argument ({', '.join(order)}), got {axes!r}")
    chosen = dict(zip(order, axes, strict=True))
    found: list[int | None] = []
    for name, value in given.items():
        parts: list[Any] = []
        flattened(value, parts)
        for x in parts:
            axis = chosen[name]
            if axis is not None and not -x.ndim <= axis < x.ndim:
                raise ValueError(f"{name} has shape {x.shape} and no axis {axis}: its entry of axes may be None")
            found.append(None if axis is None else axis % x.ndim)
    return found


def _refuse_outside(loss: Tensor, trace: Trace) -> None:
    """RuntimeError where the way back would leave the step."""
    for t in collect([loss]):
        if t.where.tracing is not trace:
            raise RuntimeError(
                f"{t.label()} was computed outside of the step and requires a gradient: a replay cannot go back beyond "
                "the step. Compute it inside, or pass it as an argument, detached"
            )


def _parameters_of(loss: Tensor, wrt: Any, trace: Trace) -> list[Tensor]:
    """The tensors whose gradients are wanted: those given, or else the leaves that backward reaches."""
    if wrt is not None:
        return list(dict.fromkeys(wrt.parameters() if isinstance(wrt, Module) else wrt))
    on_the_way = [record_of(t) for t in collect([loss])]
    reached = {loss, *(record.inputs[i] for record in on_the_way for i in record.needs)}
    leaves = recorded([loss], trace)[1]
    return [x for x in leaves if changes(x, trace) and x.requires_grad and x in reached]


def _gradients_of(
    loss: Tensor, parameters: Sequence[Tensor], stack_steps: bool
) -> tuple[list[Tensor], dict[Tensor, Tensor]]:
    """The gradients of the parameters, recorded, and for every gradient on the way the tensor that it belongs to."""
    order, crosses = towards([loss], parameters)
    arrived = sweep_recorded(order, seeded([loss], None, graph=True), crosses)
    rows: dict[Any, Tensor] = {}
    gradients = []
    for x in parameters:
        g = arrived[x] if x in arrived else Tensor(np.zeros(x.shape, x.dtype))
        arrived[x] = stacked(g, rows) if stack_steps else g
        gradients.append(arrived[x])
    return gradients, {g: x for x, g in arrived.items()}


def _brief(statement: str) -> str:
    return f"`{statement}`" if len(statement) < 120 else f"`{statement[:117]}...`"


@overload
def replay(
    function: Callable[P, R],
    *,
    wrt: Any = None,
    stack_steps: bool = False,
    programs: int = 8,
    native: bool | None = None,
    gradients: bool = True,
    check: int = 0,
    shards: int = 1,
    axes: Sequence[Any] | None = None,
) -> Replay[P, R]: ...
@overload
def replay(
    function: None = None,
    *,
    wrt: Any = None,
    stack_steps: bool = False,
    programs: int = 8,
    native: bool | None = None,
    gradients: bool = True,
    check: int = 0,
    shards: int = 1,
    axes: Sequence[Any] | None = None,
) -> Callable[[Callable[P, R]], Replay[P, R]]: ...
def replay(
    function: Callable[..., Any] | None = None,
    *,
    wrt: Any = None,
    stack_steps: bool = False,
    programs: int = 8,
    native: bool | None = None,
    gradients: bool = True,
    check: int = 0,
    shards: int = 1,
    axes: Sequence[Any] | None = None,
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

    `check=n`: every n-th call is also computed without the recording, and compared byte by byte; where they differ,
    StaleReplayError names the first result and the first operation. check=1 while a step is developed and in tests.
    `gradients=False`: a forward pass alone, which returns any tensors. `stack_steps=True`: where a weight was used at
    every step, its gradient is one product of all steps' rows instead of one for each step, which is faster and equal
    to rounding, not bit for bit. `shards=n, axes=(1, 0, ...)`: n parts of the batch in n threads, divided along these
    axes of the arguments (None: all of it), for a loss that is a sum over rows; losses and gradients are added in the
    parts' order. With either, `check` allows differences of the square root of the number format's epsilon.

    `native`: from the second call on, the operations run without the interpreter, from a few lines of C that are
    compiled then, where a C compiler is found (True: RuntimeError with the reason where none is; False: never).

    What cannot be replayed is refused while recording (RuntimeError): a value that Python reads (`float`, `bool`,
    `.item()`, `.data`, ...), a clock, numbers drawn outside of tensor operations. What the function reads beside its
    arguments is looked at at every call: names, attributes, entries of lists and dicts, arrays. Where anything has
    changed, the step is recorded anew. The page on replays has the list.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(3.0, requires_grad=True, name="w")
    >>> step = tg.replay(lambda x: (w * x) ** 2, check=1)
    >>> [float(step(np.array(x))) for x in (1.0, 2.0)], w.grad
    ([9.0, 36.0], array(30.))
    """
    settings = Settings(wrt, stack_steps, programs, native, gradients, check, shards, axes)
    return functools.partial(Replay, settings=settings) if function is None else Replay(function, settings)
