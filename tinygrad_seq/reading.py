"""Questions asked of a recorded tape: derivatives of any shape and order, and the gradient of everything on it.

A reading is pure: it changes no `grad`, releases nothing, and can be repeated with other questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from .signatures import Array
from .tape import collect, grad, on_tape, seeded, sweep, towards
from .tensor import Tensor


def jacobian(y: Tensor, x: Tensor, holding: Iterable[Tensor] = ()) -> Array:
    """∂y/∂x as an array of shape y.shape + x.shape; `holding` h: the partial derivative, not through h.

    One reading of the tape per entry of y.

    >>> import tinygrad_seq as tg
    >>> x = tg.Tensor([1.0, 2.0], requires_grad=True)
    >>> tg.jacobian(x * x, x)
    array([[2., 0.],
           [0., 4.]])
    """
    order, crosses = towards([y], [x], holding)
    rows = np.zeros((y.size, *x.shape), x.dtype)
    for k in range(y.size):
        seed = np.zeros(y.size, y.dtype)
        seed[k] = 1
        g = sweep(list(order), seeded([y], seed.reshape(y.shape)), crosses).get(x)
        if g is not None:
            rows[k] = g
    return rows.reshape(y.shape + x.shape)


def hvp(y: Tensor, x: Any, v: Any) -> Any:
    """The Hessian of the scalar y times v, ∂(∂y/∂x · v)/∂x, without ever forming the Hessian.

    x and v may be one tensor and one array, or sequences of both.

    >>> import tinygrad_seq as tg
    >>> x = tg.Tensor([1.0, 2.0], requires_grad=True)
    >>> tg.hvp((x**3).sum(), x, [1.0, 0.5])
    array([6., 6.])
    """
    xs, vs = ([x], [v]) if isinstance(x, Tensor) else (list(x), list(v))
    if y.size != 1:
        raise ValueError(f"hvp needs a scalar, got shape {y.shape}")
    firsts = grad(y, xs, create_graph=True)
    pairs = [(g, np.asarray(u)) for g, u in zip(firsts, vs, strict=True)]
    for xi, (g, u) in zip(xs, pairs, strict=True):
        if u.shape != g.shape:
            raise ValueError(f"v needs the shape {g.shape} of {xi.label()}, got {u.shape}")
    slopes = [(g * u).sum() for g, u in pairs if g._requires]
    seconds = grad(slopes, xs) if slopes else [np.zeros(xi.shape, xi.dtype) for xi in xs]
    return seconds[0] if isinstance(x, Tensor) else seconds


class Tape(Sequence[Tensor]):
    """All operations that the results depend on, in the order in which they were recorded: a view of the graph.

    A sequence of recorded tensors; `leaves` are the tensors that no operation made. Printed, one line per operation.

    >>> import tinygrad_seq as tg
    >>> w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    >>> for t in (1, 2):
    ...     with tg.step(t):
    ...         h = (w * h).named("h")
    >>> tape = tg.Tape(h)
    >>> print(tape)
    1  step 1  h = multiply(w, h)  0.5
    2  step 2  h = multiply(w, h)  0.25
    >>> tape.flow()[w], tape.flow()[tape.find("h", 1)]
    (array(1.), array(0.5))

    Raises ValueError without results and for a constant; TapeReleasedError where a backward pass has released it.
    """

    def __init__(self, *results: Tensor) -> None:
        if not results:
            raise ValueError("a tape is read back from a result: tg.Tape(loss)")
        seeded(results, [0] * len(results) if len(results) > 1 else 0)
        self.results = results
        self._order = collect(results)
        inputs = (x for t in self._order for x in t._inputs if isinstance(x, Tensor))
        self.leaves = list(dict.fromkeys(x for x in (*inputs, *results) if x._operation is None))
        self._members = {*self._order, *self.leaves}

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | Sequence[Tensor]:
        return self._order[index]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._order)

    def __contains__(self, x: object) -> bool:
        return isinstance(x, Tensor) and x in self._members

    def recorded(self) -> list[Tensor]:
        """The operations, to be read anew; TapeReleasedError if a backward pass has released them meanwhile."""
        return collect(self.results)

    def __str__(self) -> str:
        place = {t: f"%{k}" for k, t in enumerate(self, start=1)}
        rows = []
        for k, t in enumerate(self.recorded(), start=1):
            inputs = ", ".join(_called(x, place) if isinstance(x, Tensor) else _value(np.asarray(x)) for x in t._inputs)
            options = "".join(f", {key}={_option(value)}" for key, value in t._options.items())
            step = "" if t.step is None else f"step {t.step}"
            rows.append((str(k), step, f"{_called(t, place)} = {t.operation}({inputs}{options})", _value(t._array)))
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
        return "\n".join("  ".join(c.ljust(n) for c, n in zip(row, widths, strict=True) if n).rstrip() for row in rows)

    def find(self, name: str, step: int | None = None) -> Any:
        """The tensor of that name at that step; without a step, all tensors of that name in time order, as a list.

        A name under a scope is found by itself or with its scope (`layer0.forward.h`). ValueError where no tensor,
        or at one step more than one, has the name: it lists what there is.
        """
        named = [x for x in (*self.leaves, *self._order) if name in (x.name, f"{x.scope}.{x.name}")]
        if not named:
            names = sorted({x.name for x in self._members if x.name})
            raise ValueError(f"no tensor on this tape is named {name!r}; there are {names or 'no names: use .named()'}")
        if step is None:
            return sorted(named, key=lambda x: -1 if x.step is None else x.step)
        at_step = [x for x in named if x.step == step]
        if len(at_step) == 1:
            return at_step[0]
        if not at_step:
            steps = sorted({x.step for x in named if x.step is not None})
            raise ValueError(
                f"{name!r} is not at step {step}; it is at {f'steps {steps}' if steps else 'no step: use tg.step'}"
            )
        scopes = [f"{x.scope}.{x.name}" if x.scope else f"{x.operation}" for x in at_step]
        raise ValueError(f"{len(at_step)} tensors at step {step} are named {name!r}: {', '.join(scopes)}")

    def flow(self, seed: Any = None, holding: Iterable[Tensor] = (), cut: Iterable[tuple[int, int]] = ()) -> Flow:
        """One reading backward: the gradient of everything on the tape.

        `seed`: where the results are not scalars, what they start with (a sequence of seeds for several results).
        `holding`: tensors treated as constants, into which nothing flows. `cut=[(2, 3)]`: no credit crosses the
        boundary between steps 2 and 3, as if every tensor that crosses it had been detached.
        """
        return Flow(self, seed, holding, cut)


class Flow:
    """One backward reading of a tape: `flow[x]` is the gradient of any tensor x on it, an array of x's shape."""

    def __init__(self, tape: Tape, seed: Any, holding: Iterable[Tensor], cut: Iterable[tuple[int, int]]) -> None:
        self.tape = tape
        order = tape.recorded()
        self.holding = on_tape(holding, order)
        self.cut = tuple(cut)
        steps = sorted({t.step for t in tape if t.step is not None})
        for boundary in self.cut:
            if len(boundary) != 2 or boundary[1] != boundary[0] + 1 or not set(boundary) <= set(steps):
                raise ValueError(
                    f"a cut is a pair of neighbouring steps such as (2, 3), got {boundary!r}; this tape has "
                    + (f"steps {steps[0]} to {steps[-1]}" if steps else "no steps: label them with tg.step(t)")
                )
        self._crosses = self._may_cross if self.holding or self.cut else None
        self._arrived = sweep(order, seeded(tape.results, seed), self._crosses)

    def _may_cross(self, t: Tensor, i: int) -> bool:
        x = t._inputs[i]
        if x in self.holding:
            return False
        here, there = t.step, x.step
        return here is None or there is None or not any((here > a) != (there > a) for a, _ in self.cut)

    def _tensor(self, x: Tensor | str) -> Tensor:
        if isinstance(x, Tensor):
            return x
        found: list[Tensor] = self.tape.find(x)
        if len(found) > 1:
            raise ValueError(f"{len(found)} tensors are named {x!r}; say which with tape.find({x!r}, step)")
        return found[0]

    def __getitem__(self, x: Tensor | str) -> Array:
        x = self._tensor(x)
        if x not in self.tape:
            names = sorted({y.name for y in self.tape._members if y.name})
            raise ValueError(f"{x.label()} is not on this tape, whose named tensors are {names}")
        if not x.requires_grad:
            raise ValueError(f"{x.label()} is a constant, so no gradient was recorded for it: set requires_grad=True")
        g = self._arrived.get(x)
        array = np.zeros(x.shape, x.dtype) if g is None else np.asarray(g).view()
        array.flags.writeable = g is None
        return array


def _called(x: Tensor, place: dict[Tensor, str]) -> str:
    return x.name or place.get(x) or _value(x._array)


def _value(array: Array) -> str:
    """A number as short as it is exact; an array by its shape."""
    return repr(array.item()) if array.ndim == 0 else f"shape {array.shape}"


def _option(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_option(place) for place in value)}]"
    if isinstance(value, slice):
        return ":".join("" if n is None else str(n) for n in (value.start, value.stop))
    return "..." if value is Ellipsis else str(value)
