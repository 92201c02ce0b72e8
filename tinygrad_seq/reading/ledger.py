"""The ledger of a flow: which use of a tensor gave which part of its gradient.

A use is one appearance of a tensor as an input of one operation. The gradient of a shared parameter is the sum of
its uses' contributions, added in the order in which the backward pass meets them; the ledger keeps them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from ..engine.backward import Crosses, fitted, times_rates
from ..engine.numerics import norm, rounded, widened
from ..engine.ops import concat_, getitem, stack_
from ..engine.recording import Part
from ..engine.signatures import Array
from ..engine.tensor import Record, Tensor, array_of, record_of
from .table import Table

Readers = Mapping[Tensor, Sequence[tuple[Tensor, Sequence[int]]]]
Entry = tuple[int, ...] | int | None
JOINS = (concat_, stack_)


def readers(order: Sequence[Tensor]) -> Readers:
    """Of each tensor, the operations that read it, in the order of the pass, and the places where they do."""
    found: dict[Tensor, list[tuple[Tensor, list[int]]]] = {}
    for t in reversed(order):
        record = record_of(t)
        for i in record.needs:
            reading = found.setdefault(record.inputs[i], [])
            if reading and reading[-1][0] is t:
                reading[-1][1].append(i)
            else:
                reading.append((t, [i]))
    return found


def contributions(t: Tensor, g: Array, places: Sequence[int]) -> list[Any]:
    """What the pass sends from t to its inputs at these places when g has arrived: g times each local rate."""
    record = record_of(t)
    return times_rates(g, record.operation, array_of(t), record.values, record.options, places)


def whole(c: Any, x: Tensor, t: Tensor) -> Array:
    """A contribution of t to its input x as an array of the shape of x: a part stands in its place among zeros."""
    if type(c) is Part:
        array = np.zeros(x.shape, x.dtype)
        place = array[c.index]
        np.add(place, c.value, place)
        return array
    fit: Array = c if c.shape == x.shape and c.dtype == x.dtype else fitted(c, x, t)
    return fit


def unwritable(array: Any) -> Array:
    """A view that cannot be written to."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def look(array: Array, entry: Entry = None) -> Any:
    """One number to show of an array: its only entry, the entry asked for, or the norm."""
    if array.size == 1:
        return array.reshape(-1)[0]
    return float(norm(np.abs(array) * np.float64(1))) if entry is None else array[entry]


def heading(text: str, x: Any, entry: Entry = None) -> str:
    """What `look` shows of arrays such as x, as a heading."""
    if x.size == 1:
        return text
    return f"‖{text}‖" if entry is None else f"{text}[{', '.join(map(str, np.atleast_1d(entry)))}]"


def digits(precision: int | None, norms: bool) -> int | None:
    """The precision of a table: where it shows norms, which are never exact, six digits unless told."""
    return 6 if norms and precision is None else precision


@dataclass(frozen=True, eq=False)
class Use:
    """One appearance of a tensor as an input of one operation, and what the flow sent along that edge.

    `step`: the time step of the operation. `name`: of its result, or of the one named tensor that its result goes
    into. `operation` and `argument`: what read the tensor, and at which place (0 is the first). `incoming`: the
    gradient that had arrived at the operation's result. `contribution`: what it sent back, incoming times the local
    rate, in the shape of the tensor. `arrival`: when it arrived, counted from 0 along the backward pass.

    The seed of a tensor that is itself a result of the tape is its first use, with `operation="seed"`.

    >>> import tinygrad_seq as tg
    >>> w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    >>> for t in (1, 2):
    ...     with tg.step(t):
    ...         h = (w * h).named("h")
    >>> for use in tg.Tape(h).flow().uses("w"):  # h2 = w·h1, h1 = w·1
    ...     print(use, use.incoming, use.contribution)
    Use(step=1, name='h', operation='multiply', argument=0, arrival=1) 0.5 0.5
    Use(step=2, name='h', operation='multiply', argument=0, arrival=0) 1.0 0.5
    """

    step: int | None
    name: str | None
    operation: str
    argument: int | None
    incoming: Array = field(repr=False)
    arrival: int
    _number: int = field(repr=False)
    _rates: tuple[Callable[[Array], Array], ...] = field(repr=False)  # the operation's, then those of copies before it

    @property
    def contribution(self) -> Array:
        """What this use sent back: an array of the shape of the tensor that was used."""
        # Not kept: a thousand uses of a matrix would fill the memory with a thousand matrices.
        c = self.incoming
        for times_rate in self._rates:
            c = times_rate(c)
        return unwritable(c)


class Uses(list[Use]):
    """The uses of one tensor in time order: step by step, within a step as recorded, those outside any step last.

    `total()` is the sum of the contributions, added in the order of the pass: the gradient, bit for bit. Printed, it
    is a table.
    """

    def __init__(self, x: Tensor, found: Sequence[Use]) -> None:
        numbered = [replace(use, arrival=k) for k, use in enumerate(found)]
        super().__init__(sorted(numbered, key=lambda use: (use.step is None, use.step, use._number, use.arrival)))
        self.tensor = x

    def in_order_of_arrival(self) -> list[Use]:
        """As the backward pass meets them."""
        return sorted(self, key=attrgetter("arrival"))

    def total(self) -> Array:
        """The contributions, added in the order of the pass: the gradient."""
        return self.totals(attrgetter("arrival"), lambda c: None)[1]

    def totals(self, key: Callable[[Use], Any], finish: Callable[[Array], Any]) -> tuple[dict[Any, Any], Array]:
        """The sums of the uses that have a key in common, each finished as soon as it is complete; and the total."""
        left = Counter(map(key, self))
        open_sums: dict[Any, Array] = {}
        finished: dict[Any, Any] = {}
        total: Array | None = None
        dtype = self.tensor.dtype
        for use in self.in_order_of_arrival():
            c, k = widened(use.contribution), key(use)
            total = np.array(c) if total is None else np.add(total, c, total)
            part = c if k not in open_sums else open_sums[k] + c
            left[k] -= 1
            if left[k]:
                open_sums[k] = part
            else:
                finished[k] = finish(rounded(part, dtype))
                open_sums.pop(k, None)
        return finished, np.zeros(self.tensor.shape, dtype) if total is None else rounded(total, dtype)

    def table(self, entry: Entry = None, precision: int | None = None) -> Table:
        """A row for each use and one for the sum; of arrays the norm, or with `entry` that entry of a contribution."""
        arrays = [use.incoming for use in self if use.incoming.size != 1]
        contributed, total = self.totals(attrgetter("arrival"), partial(look, entry=entry))
        incoming = "‖incoming‖" if arrays else "incoming"
        return Table(
            ("step", "goes into", "operation", "argument", incoming, heading("contribution", self.tensor, entry)),
            [
                *((u.step, u.name, u.operation, u.argument, look(u.incoming), contributed[u.arrival]) for u in self),
                ("‖sum‖" if entry is None and self.tensor.size > 1 else "sum", "", "", "", "", look(total, entry)),
            ],
            f"Each use of {self.tensor.label()}",
            foot=1,
            precision=digits(precision, bool(arrays) or (entry is None and self.tensor.size > 1)),
        )

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().to_html()


class Ledger:
    """The uses of any tensor in one flow, kept apart.

    Operations that only move values about (transpose, reshape, slices, concat, stack) are looked through: what reads
    the moved values is the use. So a weight that enters through a transposed or joined copy, made once, still shows
    a use at each step. The contribution is then carried back by the rates of those operations. Adding contributions
    one by one must give the gradient bit for bit, and addition is not associative; so where several contributions
    were added up at the copy, and that sum was added to something else that had arrived at the tensor before, the
    copy counts as one use. What only touches other parts of a joined tensor is no use.
    """

    def __init__(
        self, read: Readers, arrived: Mapping[Tensor, Any], seeds: Mapping[Tensor, Array], crosses: Crosses
    ) -> None:
        self._readers, self._arrived, self._seeds, self._crosses = read, arrived, seeds, crosses
        self._names: dict[Tensor, str | None] = {}
        self._parts: dict[Tensor, Sequence[Any]] = {}

    def uses(self, x: Tensor) -> Uses:
        """Every use of x that something was sent back from."""
        followed = [_Followed(x, None)]
        for tensor in followed:  # the list grows as it is walked: copies, copies of copies
            for t, places in self._readings(tensor.x):
                for i in places if _moves(record_of(t)) else ():
                    moved = self._moved(t, i, tensor.mine)
                    if t.size and (moved is None or moved.any()):
                        copy = tensor.copies[t, i] = _Followed(t, moved)
                        followed.append(copy)
        for tensor in reversed(followed):  # a copy's uses before those of what it was copied from
            tensor.uses = self._gathered(tensor)
        return Uses(x, followed[0].uses)

    def _readings(self, x: Tensor) -> Iterator[tuple[Tensor, list[int]]]:
        """The operations that sent something back to x, in the order of the pass, and the places where they read it."""
        for t, places in self._readers.get(x, ()):
            sent = [i for i in places if self._crosses is None or self._crosses(t, i)]
            if sent and t in self._arrived:
                yield t, sent

    def _gathered(self, tensor: _Followed) -> list[Use]:
        """The uses of a tensor in the order of the pass, those of its copies among them."""
        x, found = tensor.x, list[Use]()
        covered = np.zeros(x.shape, bool)  # where something has arrived
        zeros = False
        if x in self._seeds:
            number = 0 if x.record is None else x.record.number
            found.append(Use(x.step, x.name, "seed", None, unwritable(self._seeds[x]), 0, number, ()))
            covered[...] = True
        for t, places in self._readings(x):
            record = record_of(t)
            index = record.options["index"] if record.operation is getitem else (...,)
            for i, times_rate in zip(places, self._times_rates(t, record, places), strict=True):
                if _moves(record):
                    uses = tensor.copies[t, i].uses if (t, i) in tensor.copies else []
                    if not uses:
                        zeros = True
                        continue
                    if len(uses) > 1 and covered[index].any():
                        uses = [self._use(t, record, i)]
                else:
                    uses = [self._use(t, record, i)]
                found += [replace(use, _rates=(*use._rates, times_rate)) for use in uses]
                covered[index] = True
        # Where zeros were sent as well, by copies of which only other parts are read, -0.0 has become 0.0.
        return [replace(use, _rates=(*use._rates, _unsigned)) for use in found] if zeros else found

    def _use(self, t: Tensor, record: Record, i: int) -> Use:
        g = unwritable(self._arrived[t])
        return Use(t.step, self._goes_into(t), record.operation.__name__, i, g, 0, record.number, ())

    def _times_rates(self, t: Tensor, record: Record, places: Sequence[int]) -> list[Callable[[Array], Array]]:
        """For each place, what turns a gradient of t into the contribution to that input.

        They hold on to the arrays, so that contributions can be read after a backward pass has released the tape.
        """
        if record.operation in JOINS:
            return [itemgetter(self._part(t, i)) for i in places]
        if record.operation.every is not None:  # called once for all inputs, and not once for each
            sent = zip(places, contributions(t, self._arrived[t], places), strict=True)
            return [partial(_first, whole(c, record.inputs[i], t)) for i, c in sent]
        return [partial(_contribution, t, record, i) for i in places]

    def _part(self, t: Tensor, i: int) -> Any:
        """Where the input i of a join stands in the result: its rule is asked which part it would take."""
        if t not in self._parts:
            record = record_of(t)
            self._parts[t] = times_rates(
                _Asked(), record.operation, array_of(t), record.values, record.options, range(len(record.inputs))
            )
        return self._parts[t][i]

    def _moved(self, t: Tensor, i: int, mine: Array | None) -> Array | None:
        """Which entries of the copy t come from the marked ones of its input i; None: all do."""
        record = record_of(t)
        if record.operation in JOINS:
            moved = np.zeros(t.shape, bool)
            moved[self._part(t, i)] = True if mine is None else mine
            return moved
        return None if mine is None else record.operation.forward(mine, **record.options)

    def _goes_into(self, t: Tensor) -> str | None:
        """The name of t, or of the one tensor made from it that has a name."""
        path = []
        while t.name is None and t not in self._names and len(self._readers.get(t, ())) == 1:
            path.append(t)
            t = self._readers[t][0][0]
        name = t.name or self._names.get(t)
        self._names |= dict.fromkeys(path, name)
        return name


@dataclass(eq=False)
class _Followed:
    """A tensor whose uses are looked for, or a copy of some of its entries.

    `mine` marks the entries that are followed (None: all); `copies` are made by the operations that only move values
    about, by operation and argument.
    """

    x: Tensor
    mine: Array | None
    copies: dict[tuple[Tensor, int], _Followed] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)


def _moves(record: Record) -> bool:
    """Whether an operation only moves values about, so that what reads its result is the use."""
    return record.operation in JOINS or (record.operation.view and len(record.inputs) == 1)


class _Asked:
    """In the place of a gradient: gives back the index of the part that it is asked for."""

    def __getitem__(self, index: Any) -> Any:
        return index


def _contribution(t: Tensor, record: Record, i: int, g: Array) -> Array:
    (c,) = times_rates(g, record.operation, array_of(t), record.values, record.options, [i])
    return whole(c, record.inputs[i], t)


def _first(c: Array, g: Array) -> Array:
    return c


def _unsigned(c: Array) -> Array:
    return c + 0.0
