"""The backward pass: a pure reading of a recorded tape.

Inputs exist before outputs, so the order in which operations were recorded is a topological order of the
graph: no operation can come before one that it reads. The pass walks that order once, from the end. What
arrives at a tensor is complete when its turn comes, because everything that used it was recorded later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, overload

import numpy as np

from .context import CONTEXT, refuse_backward, refuse_reading
from .numerics import rounded, settled, widened
from .ops import assemble, astype, broadcast_to
from .recording import NONE, Part, enable_grad
from .signatures import Array
from .tensor import Tensor
from .tree import accumulate

Arrived = dict[Tensor, Any]  # what has arrived at each tensor so far
Crosses = Callable[[Tensor, int], bool] | None


def collect(results: Iterable[Tensor], after: int = 0) -> list[Tensor]:
    """All recorded tensors that the results depend on through differentiable edges, in order of recording; of those
    alone whose number is greater than `after`."""
    found = [y for y in dict.fromkeys(results) if y._operation is not None]
    seen = set(found)
    for t in found:  # the list grows as it is walked
        inputs = t._inputs
        if inputs is None:
            raise t.released()
        for i in t._needs:
            x = inputs[i]
            if x._operation is not None and x not in seen and x._number > after:
                seen.add(x)
                found.append(x)
    found.sort(key=attrgetter("_number"))
    return found


def times_rates(
    g: Any, operation: Any, y: Any, values: Sequence[Any], options: Mapping[str, Any], places: Sequence[int]
) -> list[Any]:
    """g times the local rates of an operation with respect to its inputs at these places."""
    if operation.every is not None:
        contributions = operation.every(g, y, *values, **options)
        return [contributions[i] for i in places]
    return [operation.rules[i](g, y, *values, **options) for i in places]


def sweep(
    order: list[Tensor], arrived: Arrived, crosses: Crosses = None, release: bool = False, rates: Any = times_rates
) -> Arrived:
    """Walk a tape backward on arrays (emptying the list) and return what arrived at each tensor; with `release`, at
    the leaves.

    `arrived` holds the seeds. Each operation sends g times its local rate to its inputs; `crosses(t, i)` says
    whether credit may pass from t to its input i. Sums are made in place, in buffers that nobody else sees; those of
    float16 in float32, and rounded when they are complete. `rates` stands in for `times_rates`, to ask what wrong rates
    would give.
    """
    refuse_reading("a gradient", order)
    own: dict[Tensor, bool] = {}  # these sums are buffers of our own; True where they began as zeros (no -0.0 in them)
    try:
        while order:
            t = order.pop()
            g = arrived.pop(t, None) if release else arrived.get(t)
            if g is not None:
                operation, y, values, options = t._operation, t._array, t._arrays, t._options
                g = g if g.dtype is y.dtype else rounded(g, y.dtype)  # a sum of float16, complete now
                needs = t._needs if crosses is None else [i for i in t._needs if crosses(t, i)]
                usual = operation.every is None and rates is times_rates  # asked one by one: this runs at every edge
                if not usual and operation.expand:  # other operations come in its place: see recompute
                    order += operation.expand(t, g, arrived)
                    needs = NONE
                elif not usual:
                    sent = iter(rates(g, operation, y, values, options, needs))
                for i in needs:
                    c = operation.rules[i](g, y, *values, **options) if usual else next(sent)
                    x = t._inputs[i]
                    if type(c) is Part:
                        add_part(c, x, arrived, own)
                        continue
                    if c.shape != x._array.shape or c.dtype is not x._array.dtype:
                        c = fitted(c, x, t)
                    old = arrived.get(x)
                    if old is None:
                        arrived[x] = c
                    elif x in own and old.strides == c.strides:
                        np.add(old, c, old)
                    else:
                        arrived[x] = total = widened(old) + c
                        if type(total) is np.ndarray:  # of 0-d arrays it is a number, which nobody can write to
                            own[x] = False
            if release:
                t._inputs = t._arrays = None
                own.pop(t, None)
    except (AttributeError, TypeError) as error:
        raise broken_rule(t, error) from error
    return settled(arrived)


def sweep_recorded(order: list[Tensor], arrived: Arrived, crosses: Crosses = None) -> Arrived:
    """The same pass on tensors, itself recorded, so that its gradients can be differentiated again.

    It adds in the same order and layout as `sweep`, bit for bit. Parts wait until something needs their sum. The
    caller restores the context: each rule runs at the step and scope of its operation.
    """
    parts: dict[Tensor, list[Part]] = {}

    def gathered(x: Tensor) -> Any:
        if waiting := parts.pop(x, None):
            values = [widened(part.value) for part in waiting]
            arrived[x] = assemble(*values, indices=[part.index for part in waiting], shape=x.shape)
        return arrived.get(x)

    tracing = CONTEXT.get().tracing
    try:
        while order:
            t = order.pop()
            g = gathered(t)
            if g is not None and t._operation.expand:
                order += t._operation.expand(t, g, arrived)
            if g is None or t._operation.expand:
                continue
            CONTEXT.set(t._where._replace(recording=True, tracing=tracing))
            needs = t._needs if crosses is None else [i for i in t._needs if crosses(t, i)]
            sent = times_rates(rounded(g, t.dtype), t._operation, t, unchanged_inputs(t), t._options, needs)
            for i, c in zip(needs, sent, strict=True):
                x = t._inputs[i]
                if type(c) is Part:
                    old = arrived.get(x)
                    parts.setdefault(x, [] if old is None else [Part(old, (...,))]).append(c)
                    continue
                if c.shape != x.shape or c.dtype is not x.dtype:
                    c = fitted(c, x, t)
                arrived[x] = widened(gathered(x)) + c if x in arrived or x in parts else c
    except (AttributeError, TypeError) as error:
        raise broken_rule(t, error) from error
    for x in list(parts):
        gathered(x)
    return settled(arrived)


def add_part(part: Part, x: Tensor, arrived: Arrived, own: dict[Tensor, bool]) -> None:
    """Add a contribution to one place of x, into a buffer of our own that began as zeros."""
    if not own.get(x):
        zeros = widened(np.zeros(x.shape, x.dtype))
        arrived[x], own[x] = np.add(zeros, arrived[x], zeros) if x in arrived else zeros, True
    place = arrived[x][part.index]
    np.add(place, part.value, place)


def broken_rule(t: Tensor, error: Exception) -> TypeError:
    return TypeError(f"backward at {t.label()}: {error} (rules take g, y, inputs; they return arrays)")


def unchanged_inputs(t: Tensor) -> tuple[Any, ...]:
    """The inputs of t, to be differentiated again: only if they still hold what t was computed from."""
    for x, array in zip(t._inputs, t._arrays, strict=True):
        if isinstance(x, Tensor) and x._array is not array:
            raise RuntimeError(f"{x.label()} was given new data after {t.label()} was computed: take gradients before")
    return tuple(t._inputs)


def fitted(c: Any, x: Tensor, t: Tensor) -> Any:
    """A contribution summed over the axes along which x was broadcast, in the dtype of x."""
    shape = x.shape
    if c.shape != shape:
        extra = c.ndim - len(shape)
        stretched = [i + extra for i, n in enumerate(shape) if n == 1 and c.shape[i + extra] != 1] if 1 in shape else []
        if extra < 0 or any(c.shape[i + extra] != n for i, n in enumerate(shape) if i + extra not in stretched):
            raise ValueError(f"a rule of {t.operation} returned shape {c.shape} for an input of shape {shape}")
        if c.size != x.size:
            c = widened(c).sum(axis=(*range(extra), *stretched))
        c = c.reshape(shape)
    if c.dtype != x.dtype:
        if c.dtype.kind == "c":
            raise TypeError(f"{t.operation} sends a complex gradient to {x.label()}; only real tensors have gradients")
        c = c.astype(x.dtype)
    return c


def seeded(results: Sequence[Tensor], seed: Any, graph: bool = False) -> Arrived:
    """The gradient that each result starts with: 1 for a scalar, else a seed of its shape (a number is spread)."""
    seeds = [seed] if len(results) == 1 else [None] * len(results) if seed is None else list(seed)
    if len(seeds) != len(results):
        raise ValueError(f"{len(results)} results need as many seeds, got {len(seeds)}")
    arrived: Arrived = {}
    for y, given in zip(results, seeds, strict=True):
        if not y._requires:
            raise ValueError(
                f"{y.label()} is a constant: nothing that it was computed from requires a gradient (or it was "
                "computed under no_grad, or detached, or by a replay). Set requires_grad=True on a leaf before all that"
            )
        if given is None and y.size != 1:
            raise ValueError(f"{y.label()} has shape {y.shape} and needs a seed of it, or .sum() or .mean() before it")
        values: Any = given if isinstance(given, Tensor) else Tensor(1 if given is None else given)
        if values.dtype.kind == "c":
            raise TypeError(f"the seed of {y.label()} needs real numbers, got dtype {values.dtype}")
        if values.ndim and values.shape != y.shape:
            raise ValueError(f"the seed of {y.label()} needs its shape {y.shape}, got {values.shape}")
        start = broadcast_to(astype(values if graph else values._array, y.dtype), y.shape)
        arrived[y] = widened(arrived[y]) + start if y in arrived else start
    return arrived


def backward(result: Tensor, seed: Any = None, retain_graph: bool = False) -> None:
    """Add the gradient of this tensor (with a seed: of Σ seed·tensor) to the `grad` of the leaves behind it.

    `grad` is an array of the leaf's own shape and dtype, writable, shared with nothing. The tape is released
    on the way: the arrays that it held are freed at once, and a second backward through it raises
    TapeReleasedError, unless `retain_graph=True`. ValueError where the tensor is a constant, where it is no
    scalar and has no seed, and where the seed has another shape; no `grad` is changed then.
    """
    arrived = seeded([result], seed)
    refuse_backward()
    leaves = sweep(collect([result]), arrived, release=not retain_graph)
    for x, g in leaves.items():
        if x._operation is None:
            accumulate(x, g)


# fmt: off
@overload
def grad(y: Tensor | Sequence[Tensor], xs: Tensor, seed: Any = None, create_graph: Literal[False] = False,
         holding: Iterable[Tensor] = ()) -> Array: ...
@overload
def grad(y: Tensor | Sequence[Tensor], xs: Sequence[Tensor], seed: Any = None, create_graph: Literal[False] = False,
         holding: Iterable[Tensor] = ()) -> list[Array]: ...
@overload
def grad(y: Tensor | Sequence[Tensor], xs: Tensor, seed: Any = None, *, create_graph: Literal[True],
         holding: Iterable[Tensor] = ()) -> Tensor: ...
@overload
def grad(y: Tensor | Sequence[Tensor], xs: Sequence[Tensor], seed: Any = None, *, create_graph: Literal[True],
         holding: Iterable[Tensor] = ()) -> list[Tensor]: ...
@overload
def grad(y: Tensor | Sequence[Tensor], xs: Any, seed: Any = None, create_graph: bool = False,
         holding: Iterable[Tensor] = ()) -> Any: ...
# fmt: on
def grad(y: Any, xs: Any, seed: Any = None, create_graph: bool = False, holding: Iterable[Tensor] = ()) -> Any:
    """∂y/∂x for each x (of Σ seed·y where y is no scalar), without touching any `grad` and releasing nothing.

    Given one tensor, returns one gradient; given a sequence, a list. The gradients are arrays, or with
    `create_graph=True` recorded tensors, which can be differentiated again. `holding`: tensors treated as
    constants (a partial derivative). Zeros where y does not depend on x; ValueError where x does not require a
    gradient.

    >>> import tinygrad_seq as tg
    >>> x = tg.Tensor(3.0, requires_grad=True)
    >>> first = tg.grad(x**3, x, create_graph=True)
    >>> first.item(), tg.grad(first, x).item()
    (27.0, 18.0)
    """
    ys = [y] if isinstance(y, Tensor) else list(y)
    seed = seed[0] if type(seed) is list and len(seed) == len(ys) == 1 and not isinstance(y, Tensor) else seed
    graph = create_graph or CONTEXT.get().tracing is not None  # a replay computes it anew
    wanted = [xs] if isinstance(xs, Tensor) else list(xs)
    order, crosses = towards(ys, wanted, holding)
    with enable_grad():
        arrived = (sweep_recorded if graph else sweep)(order, seeded(ys, seed, graph), crosses)
    found = [arrived.get(x, np.zeros(x.shape, x.dtype)) for x in wanted]
    gradients: list[Any] = [g if isinstance(g, Tensor) else Tensor(g) if graph else np.array(g) for g in found]
    if graph and not create_graph:  # arrays, where no replay is recorded: no credit goes back through them
        gradients = [g.detach() for g in gradients]
    return gradients[0] if isinstance(xs, Tensor) else gradients


def towards(
    ys: Sequence[Tensor], xs: Sequence[Tensor], holding: Iterable[Tensor] = ()
) -> tuple[list[Tensor], Callable[[Tensor, int], bool]]:
    """The part of the tape through which ys depend on xs, and which edges credit may pass on it."""
    if strangers := [type(x).__name__ for x in (*ys, *xs) if not isinstance(x, Tensor)]:
        raise TypeError(f"derivatives are taken of tensors, by tensors, got {', '.join(strangers)}")
    for x in xs:
        if not x._requires:
            raise ValueError(f"{x.label()} does not require a gradient, so nothing computed from it was recorded")
    tape = collect(ys)
    held, on_the_way, order = on_tape(holding, tape), set(xs), []
    for t in tape:
        if t not in held and any(t._inputs[i] in on_the_way and t._inputs[i] not in held for i in t._needs):
            on_the_way.add(t)
            order.append(t)
    last = tape[-1]._number if tape else 0  # what comes after was recorded by the pass itself
    return order, lambda t, i: (x := t._inputs[i]) not in held and (x in on_the_way or x._number > last)


def on_tape(holding: Iterable[Tensor], tape: Iterable[Tensor]) -> set[Tensor]:
    """The tensors to be held fixed, which must be on the tape: holding another one would say nothing."""
    held = set([holding] if isinstance(holding, Tensor) else holding)
    members = {x for t in tape for x in (t, *t._inputs) if isinstance(x, Tensor)} if held else held
    if strangers := [x.label() for x in held - members]:
        raise ValueError(f"holding {', '.join(strangers)}: not on this tape, so there is nothing to hold")
    return held
