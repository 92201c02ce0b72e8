"""Questions asked of a recorded tape: what is on it, and the gradient of everything on it.

A reading is pure: it changes no `grad`, releases nothing, and can be repeated with other questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, partial
from itertools import chain as chained
from itertools import pairwise
from operator import attrgetter
from typing import Any, overload

import numpy as np

from ..engine.backward import collect, on_tape, seeded, sweep
from ..engine.context import refuse_reading
from ..engine.ops import getitem
from ..engine.recompute import not_kept
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of, record_of
from . import mistakes
from .chain import Chain, chain, place_after
from .ledger import Entry, Ledger, Readers, Uses, contributions, digits, heading, look, readers, unwritable, whole
from .plots import plot_units
from .steps import Visit, shown, walk
from .table import Matrix, Table, aligned, shortened
from .visibility import Place, called, each_of, who_sees_whom


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

    `modules`: a module, or a dict of them by name, whose tensors are then found by their paths as well:
    `tg.Tape(loss, modules={"decoder": net}).flow()["decoder.readout.W"]`.

    Raises ValueError without results and for a constant; TapeReleasedError where a backward pass has released it.
    """

    def __init__(self, *results: Tensor, modules: Any = ()) -> None:
        if not results:
            raise ValueError("a tape is read back from a result: tg.Tape(loss)")
        if strangers := [type(y).__name__ for y in results if not isinstance(y, Tensor)]:
            raise TypeError(f"a tape is read back from tensors: tg.Tape(loss); got {', '.join(strangers)}")
        refuse_reading("a tape", results)
        seeded(results, [0] * len(results) if len(results) > 1 else 0)
        self.results = results
        self._order = collect(results)
        inputs = (x for t in self._order for x in record_of(t).inputs if isinstance(x, Tensor))
        self.leaves = list(dict.fromkeys(x for x in (*inputs, *results) if x.operation is None))
        self._members = {*self._order, *self.leaves}
        self._paths = _paths(modules)

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

    def kept(self) -> list[Tensor]:
        """The operations, for a question about each of them; RuntimeError where tg.recompute has not kept some."""
        order = self.recorded()
        if self._recomputes:
            raise not_kept()
        return order

    @cached_property
    def _recomputes(self) -> bool:
        return any(record_of(t).operation.expand for t in self.recorded())

    def __repr__(self) -> str:
        steps = f", steps {_spans(self._steps)}" if self._steps else ""
        return (
            f"Tape({', '.join(y.label() for y in self.results)}: {len(self)} operations{steps}; print it to read them)"
        )

    def __str__(self) -> str:
        rows = []
        for k, t in enumerate(self.recorded(), start=1):
            step = "" if t.step is None else f"step {t.step}"
            rows.append((str(k), step, self.written(t), _value(array_of(t))))
        return aligned(rows)

    def _repr_html_(self) -> str:
        rows = [
            (k, "" if t.step is None else t.step, self.written(t), _value(array_of(t)))
            for k, t in enumerate(self.recorded(), start=1)
        ]
        leaves = [("", "", self.called(x), _value(array_of(x))) for x in self.leaves if x.requires_grad]
        columns = ("", "step", "operation", "value or shape")
        title = f"A tape of {len(rows)} operations" + "; below, what requires a gradient" * bool(leaves)
        return Table(columns, shortened([*rows, *leaves], len(leaves)), title, len(leaves)).to_html()

    def plot(self, name: str, ax: Any = None, row: int = 0) -> Any:
        """A tensor of that name over time, a gate for example: a line for each unit, of many a row of colours for each.

        Of a batch, its `row`. On `ax` if it is given, else on new axes; returned are the axes. Needs matplotlib (the
        extra `plot`). ValueError where no step has the name, where one has it twice (say the scope, as in
        "layer0.forward.f"), and where the tensors differ in shape.
        """
        found = [x for x in self.find(name) if x.step is not None]
        shapes, scopes = {x.shape for x in found}, sorted({f"{x.scope}.{x.name}" for x in found})
        if not found:
            raise ValueError(f"{name!r} is at no step of this tape: label the steps with tg.step(t)")
        if len({x.step for x in found}) < len(found):
            raise ValueError(f"several tensors at a step are named {name!r}; say which with a scope: {scopes}")
        if len(shapes) > 1:
            raise ValueError(f"the tensors named {name!r} have the shapes {sorted(shapes)}; a plot needs one")
        values, said = np.stack([array_of(x) for x in found]), f"{name} at every step"
        if values.ndim > 2:
            values = values.reshape(len(found), -1, values.shape[-1])
            if not 0 <= row < values.shape[1]:
                raise ValueError(f"{name!r} has {values.shape[1]} rows, 0 to {values.shape[1] - 1}; got row={row}")
            said += f", row {row} of {values.shape[1]}"
            values = values[:, row]
        return plot_units(ax, [x.step for x in found if x.step is not None], values, name, said)

    def written(self, t: Tensor) -> str:
        """An operation as an equation: h = multiply(w, h)."""
        record = record_of(t)
        inputs = ", ".join(self.called(x) if isinstance(x, Tensor) else _value(np.asarray(x)) for x in record.inputs)
        options = "".join(f", {key}={_option(value)}" for key, value in record.options.items())
        return f"{self.called(t)} = {t.operation}({inputs}{options})"

    def called(self, x: Tensor) -> str:
        """How the prints call a tensor: by its name, else by its place on the tape, else by its value."""
        return x.name or (f"%{self._place[x]}" if x in self._place else _value(array_of(x)))

    @cached_property
    def _place(self) -> dict[Tensor, int]:
        return {t: k for k, t in enumerate(self, start=1)}

    @cached_property
    def _readers(self) -> Readers:
        return readers(self.kept())

    @property
    def _steps(self) -> list[int]:
        """The time steps that operations on this tape belong to, in order."""
        return sorted({t.step for t in self if t.step is not None})

    @property
    def _names(self) -> list[str]:
        """The names that tensors on this tape have."""
        return sorted({x.name for x in self._members if x.name})

    @overload
    def find(self, name: str, step: int) -> Tensor: ...
    @overload
    def find(self, name: str, step: None = None) -> list[Tensor]: ...
    def find(self, name: str, step: int | None = None) -> Any:
        """The tensor of that name at that step; without a step, all tensors of that name in time order, as a list.

        A name under a scope is found by itself or with its scope (`layer0.forward.h`). ValueError where no tensor,
        or at one step more than one, has the name: it lists what there is.
        """
        named = [x for x in (*self.leaves, *self._order) if name in (x.name, f"{x.scope}.{x.name}")]
        if name in self._paths:  # a path names one tensor
            named = [x for x in [self._paths[name]] if x in self]
        if not named:
            raise ValueError(
                f"no tensor on this tape is named {name!r}; there are {self._names or 'no names: use .named()'}"
            )
        if step is None:
            return sorted(named, key=lambda x: -1 if x.step is None else x.step)
        at_step = [x for x in named if x.step == step]
        if len(at_step) == 1:
            return at_step[0]
        if not at_step:
            steps = sorted({x.step for x in named if x.step is not None})
            where = f"steps {steps}" if steps else "no step: use `with tg.step(t):`"
            raise ValueError(f"{name!r} is not at step {step}; it is at {where}")
        scopes = sorted({f"{x.scope}.{x.name}" for x in at_step if x.scope})
        if len(scopes) == len(at_step):
            raise ValueError(f"{len(at_step)} tensors at step {step} are named {name!r}: say which, as {scopes}")
        raise ValueError(
            f"step {step} computed {name!r} {len(at_step)} times: `with tg.step(t):` belongs inside the loop, with "
            "another t each time; two parts of a model are kept apart by `with tg.scope(...)` around each call"
        )

    def flow(self, seed: Any = None, holding: Iterable[Tensor] = (), cut: Iterable[tuple[int, int]] = ()) -> Flow:
        """One reading backward: the gradient of everything on the tape.

        `seed`: where the results are not scalars, what they start with (a sequence of seeds for several results).
        `holding`: tensors, or names, treated as constants, into which nothing flows. `cut=[(2, 3)]`: no credit crosses
        the boundary between steps 2 and 3, as if every tensor that crosses it had been detached.
        """
        return Flow(self, seed, holding, cut)

    def visibility(self, outputs: Sequence[Tensor] | Tensor | str, inputs: Sequence[Tensor] | Tensor | str) -> Matrix:
        """Who can depend on whom: a Boolean matrix, a row for each output and a column for each input.

        Outputs and inputs are lists of tensors on the tape; or a name, for all tensors of that name in time order; or
        one tensor, for its entries along the first axis, each for itself. An output can depend on an input if credit
        can go from some entry of the one to some entry of the other. That is followed entry by entry, through slices,
        joins, products and sums alike, so what reads one step of a stacked sequence does not see the others. It is a
        matter of the graph, of indices and of Boolean masks; that a number is 0 hides nothing.

        >>> import tinygrad_seq as tg
        >>> xs = tg.Tensor([1.0, 2.0, 3.0], requires_grad=True, name="x")
        >>> print(tg.Tape(y := tg.cumsum(xs).named("y")).visibility(y, xs))
        Who sees whom: ● where the row can depend on the column
              x[0]  x[1]  x[2]
        ────  ────  ────  ────
        y[0]     ●     ·     ·
        y[1]     ●     ●     ·
        y[2]     ●     ●     ●
        """
        return who_sees_whom(self.kept(), self._places(outputs), self._places(inputs))

    def _is_read_step_by_step(self, x: Tensor) -> bool:
        reading = [record_of(t) for t, _ in self._readers.get(x, ())]
        return len(reading) > 1 and all(
            record.operation is getitem and isinstance(record.options["index"][0], int) for record in reading
        )

    def _places(self, what: Sequence[Tensor] | Tensor | str) -> list[Place]:
        if isinstance(what, Tensor):
            places = each_of(what)
        else:
            places = [(x, (...,)) for x in (self.find(what) if isinstance(what, str) else what)]
            if isinstance(what, str):
                places = [(x, index) for x, index in places if x.requires_grad]
                if len(places) == 1 and self._is_read_step_by_step(places[0][0]):
                    places = each_of(places[0][0])  # one tensor for the whole sequence
        for x, _ in places:
            if x not in self:
                raise ValueError(f"{x.label()} is not on this tape, whose named tensors are {self._names}")
            if not x.requires_grad:
                raise ValueError(f"{x.label()} is a constant, so nothing was recorded of it: set requires_grad=True")
        return places


class Flow:
    """One backward reading of a tape: `flow[x]` is the gradient of any tensor x on it, an array of x's shape.

    Where a method takes a tensor, its name will do if only one tensor on the tape has it. Printed, a flow is the
    backward pass, one line for each thing that an operation sends.

    >>> import tinygrad_seq as tg
    >>> w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(0.0, name="h")
    >>> for t, x in enumerate([1.0, 0.0, 0.0], start=1):
    ...     with tg.step(t):
    ...         h = (x + w * h).named("h")
    >>> flow = tg.Tape((0.5 * (h - 1.0) ** 2).named("L")).flow()
    >>> print(flow.table("h", "w"))
    Each use of w, and what it gives
    step  h before     h    ∂L/∂h  contribution to ∂L/∂w
    ────  ────────  ────  ───────  ─────────────────────
       1       0    1     -0.1875                  0
       2       1    0.5   -0.375                  -0.375
       3       0.5  0.25  -0.75                   -0.375
    ────  ────────  ────  ───────  ─────────────────────
     sum                  = ∂L/∂w                 -0.75
    """

    def __init__(self, tape: Tape, seed: Any, holding: Iterable[Tensor], cut: Iterable[tuple[int, int]]) -> None:
        self.tape = tape
        order = tape.recorded()
        named = [holding] if isinstance(holding, (Tensor, str)) else list(holding)
        found = [tape.find(x) if isinstance(x, str) else [x] for x in named]
        self.holding = on_tape([x for part in found for x in part], order)
        one = isinstance(cut, tuple) and len(cut) == 2 and not any(isinstance(part, Iterable) for part in cut)
        self.cut = tuple(map(self._boundary, [cut] if one or not isinstance(cut, Iterable) else cut))
        self._crosses = self._may_cross if self.holding or self.cut else None
        self._seeds = seeded(tape.results, seed)
        self._arrived = sweep(order, dict(self._seeds), self._crosses)

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self.tape._readers, self._arrived, self._seeds, self._crosses)

    def _with_cut(self, x: Tensor, before: int) -> Array:
        """The gradient of x in the same reading with one cut more, after this step."""
        arrived = sweep(
            self.tape.recorded(),
            dict(self._seeds),
            lambda t, i: self._may_cross(t, i) and not _apart(t, record_of(t).inputs[i], before),
        )
        return np.asarray(arrived.get(x, np.zeros(x.shape, x.dtype)))

    def _boundary(self, boundary: Any) -> tuple[int, int]:
        steps = self.tape._steps
        between = list(pairwise(steps))
        if self.tape._recomputes:  # the steps in between are on the tape when they are computed again
            between = [(t, t + 1) for t in range(1, steps[-1])] if steps else []
        if not isinstance(boundary, (tuple, list)) or tuple(boundary) not in between:
            raise ValueError(
                f"a boundary lies between two neighbouring steps, as in (2, 3); got {boundary!r}, and this tape has "
                + (f"steps {_spans(steps)}" if steps else "no steps: label them, `with tg.step(t):`")
            )
        return tuple(boundary)

    def _may_cross(self, t: Tensor, i: int) -> bool:
        x = record_of(t).inputs[i]
        held = x in self.holding or t in self.holding  # the latter where a result is held
        return not held and not any(_apart(t, x, before) for before, _ in self.cut)

    def _tensor(self, x: Tensor | str) -> Tensor:
        if isinstance(x, str):
            found: list[Tensor] = self.tape.find(x)
            places = sorted({f"{y.scope}.{y.name}" for y in found if y.scope})
            if len(places) > 1:
                raise ValueError(f"{len(found)} tensors are named {x!r}: say which, as one of {', '.join(places)}")
            if len(found) > 1 and all(y.record is None for y in found):  # parameters of several modules
                raise ValueError(
                    f"{len(found)} tensors are named {x!r}: pass the one that you mean, flow.uses(net.cells[0][0].A), "
                    "or its path, after tg.Tape(loss, modules={'net': net}): 'net.cells.0.0.A'"
                )
            if len(found) > 1:
                steps = [y.step for y in found if y.step is not None]
                where = f" (steps {_spans(steps)})" if steps else ""
                raise ValueError(f"{len(found)} tensors are named {x!r}{where}: say which with tape.find({x!r}, step)")
            x = found[0]
        if x not in self.tape:
            raise ValueError(f"{x.label()} is not on this tape, whose named tensors are {self.tape._names}")
        if not x.requires_grad:
            raise ValueError(f"{x.label()} is a constant, so no gradient was recorded for it: set requires_grad=True")
        return x

    def _states(self, name: str) -> tuple[Tensor | None, list[Tensor]]:
        """The start of a state, if it has the same name, and the state at each step, in the order of recording."""
        found = sorted(self.tape.find(name), key=_number)
        states = [x for x in found if x.step is not None and x.requires_grad and x.operation is not None]
        if not states:
            raise ValueError(f"{name!r} was computed at no step of this tape: label the steps with tg.step(t)")
        if len({x.step for x in states}) < len(states):
            scopes = sorted({f"{x.scope}.{x.name}" for x in states})
            raise ValueError(f"several tensors at a step are named {name!r}; say which with a scope: {scopes}")
        starts = [x for x in found if x.step is None and _number(x) < _number(states[0])]
        return starts[-1] if starts else None, states

    def _name(self, x: Tensor) -> str:
        """Its name, with its scope where that tells it from others on this tape."""
        scopes = {y.scope for y in self.tape._members if y.name == x.name}
        return f"{x.scope}.{x.name}" if x.name and len(scopes) > 1 else x.name or "it"

    def _rate(self, x: str) -> str:
        results = self.tape.results
        return f"∂{(results[0].name if len(results) == 1 else None) or 'L'}/∂{x}"

    def __getitem__(self, x: Tensor | str) -> Array:
        x = self._tensor(x)
        g = self._arrived.get(x)
        return unwritable(np.zeros(x.shape, x.dtype) if g is None else g)

    def uses(self, x: Tensor | str) -> Uses:
        """Every use of x that something was sent back from, in time order; `.total()` is `flow[x]`, bit for bit.

        Time order is step by step; the pass meets them the other way round, as recorded last to first, and each
        `use.arrival` tells when. Operations that only move values about (transpose, reshape, slices, concat, stack)
        are looked through, as far as the sum stays the same to the last bit: see `ledger.Ledger`.

        >>> import tinygrad_seq as tg
        >>> w = tg.Tensor(3.0, requires_grad=True, name="w")
        >>> [(use.argument, use.contribution.item()) for use in tg.Tape(w * w).flow().uses("w")]
        [(0, 3.0), (1, 3.0)]
        """
        return self._ledger.uses(self._tensor(x))

    def reach(self, x: Tensor | str) -> int | None:
        """The earliest step at whose uses of x any credit arrived; None if at no step.

        >>> import tinygrad_seq as tg
        >>> w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
        >>> for t in (1, 2, 3):
        ...     with tg.step(t):
        ...         h = (w * h).named("h")
        >>> tape = tg.Tape(h)
        >>> tape.flow().reach("w"), tape.flow(cut=[(1, 2)]).reach("w")
        (1, 2)
        """
        return min((use.step for use in self.uses(x) if use.step is not None and use.incoming.any()), default=None)

    def crossing(self, before: int, after: int) -> dict[Tensor, Array]:
        """The credit that crosses the boundary between two steps, for each tensor by which it does: what a cut stops.

        A tensor crosses if it belongs to a step on one side and is read at a step on the other. Its entry is the sum
        of what the reading operations sent it. For all x: flow[x] = cut flow[x] + what the credit that crossed gives
        when it is sent on from those tensors, `Tape(*tensors).flow(seed=credits)[x]` (on that tape with the same cut
        if credit crosses in both directions). For a tensor by which alone credit crosses, that is the entry itself.

        >>> import tinygrad_seq as tg
        >>> w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
        >>> for t in (1, 2, 3):
        ...     with tg.step(t):
        ...         h = (w * h).named("h")
        >>> {x.label(): credit.item() for x, credit in tg.Tape(h).flow().crossing(1, 2).items()}
        {'h at step 1': 0.25}
        """
        self._boundary((before, after))
        credit: dict[Tensor, Array] = {}
        for t in reversed(self.tape.kept()):
            record = record_of(t)
            places = [i for i in record.needs if _apart(t, record.inputs[i], before)]
            places = [i for i in places if self._crosses is None or self._crosses(t, i)]
            if not places or t not in self._arrived:
                continue
            for i, c in zip(places, contributions(t, self._arrived[t], places), strict=True):
                x = record_of(t).inputs[i]
                sent = np.array(whole(c, x, t))
                credit[x] = credit[x] + sent if x in credit else sent
        return {x: credit[x] for x in sorted(credit, key=_number)}

    def table(self, state: str, parameter: Tensor | str, entry: Entry = None, precision: int | None = None) -> Table:
        """Step by step: the state before, the state, its gradient, and what the uses of a parameter there contribute.

        The last row adds the contributions in the order of the pass, and says whether that is the gradient, bit for
        bit. Of arrays the table shows norms (six digits of them), or with `entry=(i, j)` that entry of the
        contributions. A dash stands where nothing arrived.
        """
        start, states = self._states(state)
        w = self._tensor(parameter)
        uses = self.uses(w)
        at = {x.step: (before, x) for before, x in zip((start, *states), states, strict=False)}
        rows: list[Any] = []
        contributed, total = uses.totals(attrgetter("step"), partial(look, entry=entry))
        for step in sorted({*at, *contributed}, key=lambda step: (step is None, step)):
            before, x = at.get(step, (None, None))
            rows.append((
                step,
                None if before is None else look(array_of(before)),
                None if x is None else look(array_of(x)),
                None if x is None or x not in self._arrived else look(self[x]),
                contributed.get(step),
            ))  # fmt: skip
        name = self._name(w)
        mark = "=" if total.tobytes() == self[w].tobytes() else "≠"
        kind = "‖sum‖" if entry is None and w.size > 1 else "sum"
        rows.append((kind, "", "", f"{mark} {heading(self._rate(name), w, entry)}", look(total, entry)))
        heads = [heading(text, states[0]) for text in (f"{state} before", state, self._rate(state))]
        columns = ("step", *heads, heading(f"contribution to {self._rate(name)}", w, entry))
        precision = digits(precision, states[0].size > 1 or (entry is None and w.size > 1))
        return Table(columns, rows, f"Each use of {name}, and what it gives", 1, precision)

    def chain(self, state: str, entry: Entry = None, precision: int | None = None) -> Chain:
        """Step by step back along a state: the factor by which a step multiplies the credit, and what is left of it.

        With J the Jacobian of a state by the state before: J (for more than one unit its norm), its largest singular
        value, the product of all J so far (its largest singular value), what is left of the length of the credit
        that the last state received, and the bound, the product of the largest singular values. With `entry=(i, j)`,
        that entry of J and of the product.

        A state that alone carries everything (RNN, GRU) leaves no other route: what is left stays within the bound.
        `flow.chain("h").plot()` draws what is left against the distance.

        An LSTM's c is half of its state. Credit goes back along h as well, and "left" counts it, but the product does
        not: it is the cell's own chain. With h held at all steps but the last (`holding=tape.find("h")[:-1]`), both are
        the direct path.

        >>> import tinygrad_seq as tg
        >>> w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
        >>> for t in (1, 2, 3):
        ...     with tg.step(t):
        ...         h = (w * h).named("h")
        >>> print(tg.Tape(h).flow().chain("h"))
        Credit going back along h
        from → to  ∂h/∂h before  product  left
        ─────────  ────────────  ───────  ────
        3 → 2               0.5     0.5   0.5
        2 → 1               0.5     0.25  0.25
        """
        start, states = self._states(state)
        if start is not None and start.requires_grad:
            states = [start, *states]
        if len(states) < 2:
            raise ValueError(
                f"a chain needs {state!r} at two steps at least; this tape has it at step {states[0].step}"
            )
        return chain(self.tape.kept(), states, self[states[-1]], self._crosses, entry, precision)

    def credit(self, losses: Sequence[Tensor] | str, x: Tensor | str, entry: Entry = None) -> Matrix:
        """What the loss of each step (rows) sends to the uses of x at each step (columns).

        `losses`: tensors on the tape, or their name. Each starts with the gradient that it has in this flow, and
        nothing goes on from one loss into another. For an x of one entry, or with `entry`, the sum of the matrix is
        the gradient, unless some of it passes by these losses; the title says so. Else it shows norms.

        >>> import tinygrad_seq as tg
        >>> w, h, total = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h"), 0.0
        >>> for t in (1, 2):
        ...     with tg.step(t):
        ...         h = (w * h).named("h")
        ...         total = total + (2.0 * h).named("loss")
        >>> print(tg.Tape(total).flow().credit("loss", "w"))
        What each loss sends to the uses of w at each step; the sum is ∂L/∂w
               step 1  step 2
        ─────  ──────  ──────
        loss1       2       0
        loss2       1       1
        """
        w = self._tensor(x)
        sources = [self._tensor(y) for y in (self.tape.find(losses) if isinstance(losses, str) else losses)]
        order = self.tape.recorded()
        ends = set(sources)
        steps = sorted({use.step for use in self.uses(w)}, key=lambda step: (step is None, step))

        def crosses(t: Tensor, i: int) -> bool:
            return record_of(t).inputs[i] not in ends and (self._crosses is None or self._crosses(t, i))

        matrix, total = np.zeros((len(sources), len(steps))), np.zeros(w.shape, w.dtype)
        for row, y in zip(matrix, sources, strict=True):
            if y not in self._arrived:
                continue
            seeds = {y: self._arrived[y]}
            behind = order[: place_after(order, y)]
            uses = Ledger(self.tape._readers, sweep(behind, dict(seeds), crosses), seeds, crosses).uses(w)
            contributed, subtotal = uses.totals(attrgetter("step"), partial(look, entry=entry))
            total = total + subtotal
            row[:] = [contributed.get(step, 0) for step in steps]
        whole_of_it = np.allclose(total, self[w], rtol=1e-5, atol=1e-6 * np.abs(self[w]).max(initial=0))
        name, norms = self._name(w), w.size != 1 and entry is None
        title = f"What each loss sends to the uses of {name} at each step" + ", norms" * norms
        adds_up = "the arrays, not their norms, add up to" if norms else "the sum is"
        title += f"; {adds_up} {self._rate(name)}" if whole_of_it else "; some credit passes by these losses"
        labels = [called((y, (...,))) for y in sources]
        return Matrix(matrix, labels, ["no step" if s is None else f"step {s}" for s in steps], title)

    def steps(self) -> Iterator[Visit]:
        """The backward pass, one operation at a time: what came in, the local rate, and what was sent where.

        >>> import tinygrad_seq as tg
        >>> x = tg.Tensor(3.0, requires_grad=True, name="x")
        >>> for visit in tg.Tape(-(x * x)).flow().steps():
        ...     print(visit.operation, visit.incoming, [(sent.factor, sent.rate) for sent in visit.sent])
        negative 1.0 [(-1.0, '-1')]
        multiply -1.0 [(3.0, 'the other factor'), (3.0, 'the other factor')]
        """
        return walk(self.tape.kept(), self._arrived, self._crosses)

    def __repr__(self) -> str:
        in_order = sorted(self.holding, key=lambda x: (x.name or "", -1 if x.step is None else x.step))
        held = f", holding {', '.join(x.label() for x in in_order)}" if self.holding else ""
        cut = f", cut at {', '.join(map(str, self.cut))}" if self.cut else ""
        return f"Flow({self.tape!r}{held}{cut})"

    def __str__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        table = self._table()
        return replace(table, rows=shortened(table.rows, table.foot)).to_html()

    def _table(self) -> Table:
        rows, arrays = list[Any](), False
        for visit in self.steps():
            arrays = arrays or visit.incoming.size > 1
            left: tuple[Any, ...] = (visit.step, self.tape.written(visit.tensor), shown(visit.incoming))
            for sent in visit.sent:
                rows.append((*left, sent.factor, sent.rate, shown(sent.contribution), self.tape.called(sent.to)))
                left = ("", "", "")
        leaves = [x for x in self.tape.leaves if x.requires_grad]
        foot = [("", f"gradient of {self.tape.called(x)}", shown(self[x]), "", "", "", "") for x in leaves]
        columns = ("step", "operation", "came in", "factor", "which is", "sent", "to")
        title = "The backward pass, from the last operation to the first"
        title += " (factor: of arrays the norm of what was sent / of what came in)" * arrays
        return Table(columns, [*rows, *foot], title, len(foot), 6)

    def diagnose(self, x: Tensor | str, claimed: Any, rtol: float | None = None) -> list[str]:
        """The usual mistakes that give exactly this wrong gradient of x on this tape, the simplest first.

        Known are: the sign, a multiple (counted twice, averaged), transposed, only one use counted, one use missing,
        the sum taken for the mean (and the mean for the sum), credit cut at a step, the slope of an activation
        forgotten or its value taken in its place, U in place of Uᵀ, what an earlier state owes counted again, no
        gradient at all. Several may fit, since they may give the same number. An empty list: none does.

        `rtol`: how near is equal, of the largest entry. If it is not given, numbers with few digits are taken for
        numbers by hand, and equal is what rounds to them (at least three digits count); others must agree to 1e-9
        (float32: 1e-4). One reading for each step. ValueError for another shape.

        >>> import tinygrad_seq as tg
        >>> w = tg.Tensor(3.0, requires_grad=True, name="w")
        >>> for mistake in tg.Tape(w * w).flow().diagnose("w", 3.0):
        ...     print(mistake)
        0.5 times the right gradient: half is missing (averaged over two, one of two uses, or a half too many)
        only the last of 2 uses is counted (multiply)
        only the first of 2 uses is counted (multiply)
        """
        w = self._tensor(x)
        if claimed is None:
            return [
                "there is no gradient: x.grad is None before backward, for a detached tensor, and for what is no leaf"
            ]
        gradient, claim = self[w], np.asarray(array_of(claimed))
        if claim.shape != gradient.shape:
            raise ValueError(
                f"{w.label()} and its gradient have shape {gradient.shape}, the claimed one has {claim.shape}: where "
                "the forward pass broadcast it, the gradient is summed back"
            )
        largest = np.abs(gradient).max(initial=0)
        if rtol is None:
            exact = 1e-4 if w.dtype.itemsize < 8 else 1e-9
            by_hand = rounding(claim)
        else:
            exact, by_hand = rtol, np.zeros(claim.shape)

        def fits(g: Array) -> bool:
            near = np.maximum(by_hand, exact * np.abs(g).max(initial=0))
            return bool((np.abs(claim - g) <= near).all())

        if fits(gradient):
            return ["nothing is wrong: this is the gradient"]
        order = self.tape.kept()
        uses = self.uses(w)
        where = [use.operation + ("" if use.step is None else f" at step {use.step}") for use in uses]
        cuts = (
            (f"the credit was cut between steps {a} and {b} (detached there)", self._with_cut(w, a))
            for a, b in pairwise(self.tape._steps)
            if (a, b) not in self.cut
        )
        reading = [
            (t, self._arrived[t]) for t, places in self.tape._readers.get(w, ()) if t in self._arrived and places
        ]
        candidates = chained(
            mistakes.of_uses([(at, use.contribution) for at, use in zip(where, uses, strict=True)]),
            cuts,
            mistakes.of_averages(order, gradient),
            mistakes.of_slopes(order, self._seeds, self._crosses, w),
            mistakes.of_transposes(order, self._seeds, self._crosses, w),
            mistakes.of_counting_again(order, reading, self._crosses, w),
        )
        tolerance = max(exact, 1e-4 if by_hand.any() else 0.0, float((by_hand / largest).max()) if largest else 0.0)
        return [*mistakes.of_numbers(claim, gradient, tolerance), *(said for said, wrong in candidates if fits(wrong))]


def _number(x: Tensor) -> int:
    """Its place in the order of recording; 0 for a leaf."""
    return 0 if x.record is None else x.record.number


def _paths(modules: Any) -> dict[str, Tensor]:
    """The tensors of a module by path, or of several with their names before it."""
    if hasattr(modules, "tensors"):
        return dict(modules.tensors())
    named = modules.items() if isinstance(modules, Mapping) else enumerate(modules)
    return {f"{name}.{path}": x for name, module in named for path, x in module.tensors().items()}


def rounding(claim: Array) -> Array:
    """How far numbers written with few digits may be from what they stand for: half a unit of the last digit, or of the
    third where there are fewer; 0 for numbers with more than six."""
    near = np.zeros(claim.shape)
    for index, value in np.ndenumerate(claim.astype(np.float64)):
        written = Decimal(repr(float(value))).normalize().as_tuple()
        if isinstance(written.exponent, int) and value and len(written.digits) <= 6:
            near[index] = 0.5 * 10.0 ** (written.exponent - max(3 - len(written.digits), 0))
    return near


def _apart(t: Tensor, x: Tensor, before: int) -> bool:
    """Whether a boundary lies between the steps that two tensors belong to."""
    here, there = t.step, x.step
    return here is not None and there is not None and (here > before) != (there > before)


def _spans(steps: Sequence[int]) -> str:
    """Whole numbers in few words: 1 to 5, 8."""
    ends = sorted(set(steps))
    cuts = [0, *(k for k in range(1, len(ends)) if ends[k] != ends[k - 1] + 1), len(ends)]
    runs = [ends[a:b] for a, b in pairwise(cuts)]
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def _value(array: Array) -> str:
    """A number as short as it is exact; an array by its shape."""
    if array.ndim:
        return f"shape {array.shape}"
    return str(array[()] + 0.0 if array.dtype.kind == "f" else array[()])  # -0.0 is 0.0


def _option(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_option(place) for place in value)}]"
    if isinstance(value, slice):
        return ":".join("" if n is None else str(n) for n in (value.start, value.stop))
    return "..." if value is Ellipsis else str(value)
