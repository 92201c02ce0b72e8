"""The recorded program of a loss, written down for a page: forward, then backward, as lists of primitives.

The page's JavaScript knows no shapes and no calculus. Every array is a flat list of numbers; how an operation moves
values about, stretches them or sums them stands in an index map that is made here, with the operation's own forward
function applied to positions. The backward pass is written as a replay records it, by running the local rates on
tensors, with one difference: each operation keeps what it sends to each input apart. The page adds them up in the order
of the pass, so that it can leave out what a cut or a held tensor stops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..engine import ops
from ..engine.backward import fitted, times_rates, unchanged_inputs
from ..engine.context import Trace
from ..engine.recording import Part, Recording
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from ..nn import unrolling
from ..reading.tape import Tape
from .graph import SUBSCRIPTS, printable, short

# Computed entry by entry: the page has these under the same names.
ENTRY_BY_ENTRY = (
    ops.add, ops.subtract, ops.multiply, ops.divide, ops.power, ops.maximum, ops.minimum, ops.where, ops.negative,
    ops.exp, ops.expm1, ops.log, ops.log1p, ops.sqrt, ops.square, ops.abs, ops.sign, ops.sin, ops.cos, ops.tanh,
    ops.sigmoid, ops.logsigmoid, ops.relu, ops.equal, ops.not_equal, ops.less, ops.less_equal, ops.greater,
    ops.greater_equal, ops.clip_,
)  # fmt: skip
# Each entry of the result is one of the first input: their own forward functions say which.
MOVES = (
    ops.reshape, ops.transpose, ops.swapaxes, ops.expand_dims, ops.squeeze, ops.broadcast_to, ops.getitem, ops.gather,
    ops.embedding, ops.detach, ops.astype,
)  # fmt: skip
# Entries are taken together by groups along an axis: one number for each group, or one for each entry.
TO_ONE = (ops.sum, ops.max, ops.min, ops.norm, ops.logsumexp)
TO_EACH = (ops.softmax, ops.log_softmax, ops.cumsum_)
JOINS = (ops.concat_, ops.stack_, ops.assemble, ops.scatter)
PRODUCTS = (ops.matmul, ops.einsum_)
KNOWN = (*ENTRY_BY_ENTRY, *MOVES, *TO_ONE, *TO_EACH, *JOINS, *PRODUCTS)
# What layers do at padding is a choice: which input is taken there, and which elsewhere (None: zeros).
AT_PADDING = {unrolling._hold: (2, 1), unrolling._clear: (None, 1)}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class PageProgram:
    """A loss as a program of primitives: `data()` is what the page carries. Further results of the tape are computed,
    and receive no credit of their own.

    `tensors`: the leaves that require a gradient and all recorded tensors; the page calls them by their places here.
    Everything else that is computed has a slot. ValueError where the loss is no single number; TypeError where there
    is an operation that the page does not know.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(3.0, requires_grad=True, name="w")
    >>> data = PageProgram(tg.Tape(w * w)).data()
    >>> data["forward"], data["backward"][0][2]
    ([['multiply', 1, [0, 0]]], [['multiply', 3, [2, 0]], ['multiply', 4, [2, 0]]])
    """

    def __init__(self, tape: Tape) -> None:
        self.tape, self.result = tape, tape.results[0]
        if self.result.size != 1:
            raise ValueError(
                f"a page computes one loss, a single number; got {tape!r}: take .sum() or .mean() before it"
            )
        self._slots: dict[Any, int] = {}  # of tensors; of constants, by what they are
        self._kept: list[Any] = []  # constants that are known by their identity
        self._start: dict[int, list[Any]] = {}
        self._maps: dict[Any, int] = {}
        self._rates: dict[str, int] = {}
        self._into: list[Any] = []  # the list of operations that is being written
        self._count = 0
        self.narrow = False  # something was recorded in less than float64
        order = tape.recorded()
        self.tensors = [*(x for x in tape.leaves if x.requires_grad), *order]
        self.place = {x: k for k, x in enumerate(self.tensors)}
        self._arrays = {id(array_of(x)): x for x in self.tensors}
        tracing = Recording(lambda context: context._replace(recording=True, tracing=Trace()))
        with tracing, np.errstate(all="ignore"):  # the page computes what is not finite as well
            self._forward = self._written(lambda: [self._slot(t) for t in self.tensors])
            self._backward = [self._block(t) for t in reversed(order)]

    def data(self) -> dict[str, Any]:
        """The program, as JSON takes it."""
        return {
            "tensors": [[self._slots[x], x.step, self.label(x), self._equation(x)] for x in self.tensors],
            "result": self.place[self.result],
            "start": self._start,
            "slots": self._count,
            "maps": [list(key) for key in self._maps],
            "rates": list(self._rates),
            "copies": [k for k, x in enumerate(self.tensors) if _copies(x)],
            "forward": self._forward,
            "backward": self._backward,
        }  # fmt: skip

    def label(self, x: Any) -> str:
        """What the page calls a tensor: its name and step, h₂; without a name its place on the tape; or its value."""
        if not isinstance(x, Tensor) or (x.name is None and x not in self.place):
            return short(array_of(x))
        step = "" if x.step is None or not x.name else str(x.step).translate(SUBSCRIPTS)
        return printable(x.name or f"%{self.place[x] + 1}") + step

    def _equation(self, x: Tensor) -> str:
        if (record := x.record) is None:
            return ""
        inputs = [self.label(y) for y in record.inputs]
        sign = record.operation.code
        if len(inputs) == 2 and sign and "{" not in sign:
            return f"{inputs[0]} {sign} {inputs[1]}"
        return f"{x.operation}({', '.join(inputs)})"

    # What is computed ------------------------------------------------------------------------------------------------

    def _written(self, write: Callable[[], Any]) -> list[Any]:
        """The operations that are written meanwhile."""
        operations: list[Any] = []
        self._into = operations
        write()
        return operations

    def _block(self, t: Tensor) -> list[Any]:
        """What t does in the backward pass: its place, the slot in which its gradient is given, the operations that
        compute what it sends, and the edges: to whom, the slot, the map of a part, the local rate in words."""
        record = t.record
        assert record is not None
        g = Tensor(np.zeros(t.shape, t.dtype))
        self._slots[g] = place = self._new()
        sent = times_rates(g, record.operation, t, unchanged_inputs(t), record.options, record.needs)
        edges: list[Any] = []

        def write() -> None:
            for i, c in zip(record.needs, sent, strict=True):
                x = record.inputs[i]
                part = None
                if isinstance(c, Part):
                    positions = _positions(x)
                    part, c = self._map(positions[c.index], positions), c.value
                else:
                    c = fitted(c, x, t)
                edges.append([self.place[x], self._slot(c), part, self._rate(t, i)])

        return [self.place[t], place, self._written(write), edges]

    def _rate(self, t: Tensor, i: int) -> int:
        record = t.record
        assert record is not None
        rates = record.operation.rate
        return self._rates.setdefault(rates[min(i, len(rates) - 1)] if rates else "its local rate", len(self._rates))

    def _new(self) -> int:
        self._count += 1
        return self._count - 1

    def _slot(self, t: Any) -> int:
        """Where a value stands: what it is computed from is written before it."""
        if not isinstance(t, Tensor):
            return self._constant(t)
        waiting = [t]
        while waiting:
            x = waiting[-1]
            if x in self._slots:
                waiting.pop()
                continue
            record = x.record
            if record is None:
                self._slots[x] = self._leaf(x)
                continue
            before = [y for y in record.inputs if isinstance(y, Tensor) and y not in self._slots]
            if before:
                waiting += before
            else:
                self._slots[x] = self._operation(x)
        return self._slots[t]

    def _leaf(self, x: Tensor) -> int:
        if not x.requires_grad and (source := self._arrays.get(id(array_of(x)))) is not None:
            return self._slot(source)  # it was detached from what is on the tape: the value goes on
        slot = self._new()
        self._start[slot] = self._numbers(array_of(x), x.label())
        return slot

    def _constant(self, value: Any) -> int:
        array = np.asarray(value)
        key: Any = ("number", float(array)) if array.size == 1 and array.dtype.kind in "biuf" else id(value)
        key = (*key, math.copysign(1, key[1])) if isinstance(key, tuple) else key
        if key not in self._slots:
            self._kept.append(value)
            self._slots[key] = slot = self._new()
            self._start[slot] = self._numbers(array, "a constant")
        return self._slots[key]

    def _numbers(self, array: Array, label: str) -> list[Any]:
        """The entries, as JSON takes them: what is not finite is spelled."""
        if array.dtype.kind not in "biuf":
            raise TypeError(f"a page computes with real numbers; {printable(label)} has dtype {array.dtype}")
        self.narrow |= array.dtype.kind == "f" and array.dtype.itemsize < 8
        numbers: list[Any] = [
            int(v) if v == int(v) and abs(v) < 2**53 else v if math.isfinite(v) else 0.0
            for v in np.where(np.isfinite(array), array, 0).astype(np.float64).ravel().tolist()
        ]
        for k, v in enumerate(array.ravel().tolist()):
            if not math.isfinite(v):
                numbers[k] = "NaN" if v != v else "Infinity" if v > 0 else "-Infinity"
            elif v == 0 and math.copysign(1, v) < 0:
                numbers[k] = "-0"
        return numbers

    # How each operation is written -----------------------------------------------------------------------------------

    def _operation(self, t: Tensor) -> int:
        record = t.record
        assert record is not None
        operation, inputs, options = record.operation, record.inputs, record.options
        if operation in ENTRY_BY_ENTRY:
            return self._write(t.operation, [self._stretched(x, t.shape) for x in inputs])
        if operation in AT_PADDING:
            taken = [0.0 if k is None else inputs[k] for k in AT_PADDING[operation]]
            return self._write("where", [self._stretched(x, t.shape) for x in (inputs[0], *taken)])
        if operation in MOVES:
            return self._moved(inputs[0], operation, inputs[1:], options)
        if operation in TO_ONE or operation in TO_EACH:
            default = -1 if operation in (ops.logsumexp, ops.softmax, ops.log_softmax) else None
            groups, numbers = _groups(array_of(inputs[0]).shape, options.get("axis", default))
            name = "put" if operation is ops.sum else t.operation
            return self._write(name, [self._slot(inputs[0])], numbers.size, self._map(groups, numbers))
        if operation in JOINS:
            parts = inputs[:1] if operation is ops.scatter else inputs
            whole = _positions(t)
            places = [self._map(place, whole) for place in _places(operation, whole, record.values, options)]
            return self._write("put", [self._slot(x) for x in parts], t.size, *places)
        if operation in PRODUCTS:
            maps = [self._map(*index) for index in _product(operation, t, record.values, options)]
            return self._write("product", [self._slot(x) for x in inputs], t.size, *maps)
        known = ", ".join(sorted({f.__name__ for f in KNOWN}))
        raise TypeError(
            f"the page does not know the operation {t.operation!r}, which made {printable(t.label())}. Write it as a "
            f"composition of those that it knows: {known}"
        )

    def _write(self, name: Any, inputs: list[int], *further: Any) -> int:
        slot = self._new()
        self._into.append([name, slot, inputs, *further])
        return slot

    def _stretched(self, x: Any, shape: tuple[int, ...]) -> int:
        """The value in this shape. A single number needs no stretching."""
        array = array_of(x)
        if np.size(array) == 1 or np.shape(array) == shape:
            return self._slot(x)
        return self._moved(x, ops.broadcast_to, (), {"shape": shape})

    def _moved(self, x: Any, operation: Any, further: Iterable[Any], options: Mapping[str, Any]) -> int:
        slot = self._slot(x)
        if operation is ops.astype and np.dtype(options["dtype"]).kind in "iub":
            return self._write("integer" if np.dtype(options["dtype"]).kind != "b" else "truth", [slot])
        if operation in (ops.detach, ops.astype):
            return slot
        ids = []
        for y in further:
            if isinstance(y, Tensor) and (y.record is not None or y.requires_grad):
                raise TypeError(f"{printable(y.label())} says which entries are read, and a page cannot compute that")
            ids.append(array_of(y))
        positions = _positions(x)
        index = operation.forward(positions, *ids, **options)
        if index.size == positions.size and (index.size < 2 or np.array_equal(index.ravel(), positions.ravel())):
            return slot
        return self._write("take", [slot], index.size, self._map(index, positions))

    def _map(self, index: Array, positions: Array) -> int:
        """The number of an index map. A view of positions is told by where it starts, its lengths and strides."""
        key: tuple[Any, ...]
        if index.size and np.may_share_memory(index, positions):
            start = (index.__array_interface__["data"][0] - positions.__array_interface__["data"][0]) // 8
            axes = [(n, s // 8) for n, s in zip(index.shape, index.strides, strict=True) if n != 1]
            merged: list[tuple[int, int]] = []
            for n, s in axes:  # axes that follow on one another are one
                if merged and merged[-1][1] == n * s:
                    merged[-1] = (merged[-1][0] * n, s)
                else:
                    merged.append((n, s))
            key = ("strides", start, *(v for axis in merged for v in axis))
        else:
            key = ("list", *index.ravel().tolist())
        return self._maps.setdefault(key, len(self._maps))


def _copies(x: Tensor) -> bool:
    """Whether a tensor only moves values about, outside all steps: whoever reads it uses what it was made of."""
    record = x.record
    return record is not None and x.step is None and (record.operation.view or record.operation in JOINS)


def _positions(x: Any) -> Array:
    array = array_of(x)
    return np.arange(np.size(array), dtype=np.int64).reshape(np.shape(array))


def _groups(shape: tuple[int, ...], axis: Any) -> tuple[Array, Array]:
    """Of each entry, the number of its group along these axes; and the numbers of the groups."""
    axes = range(len(shape)) if axis is None else [a % len(shape) for a in ((axis,) if np.ndim(axis) == 0 else axis)]
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    numbers = np.arange(math.prod(kept), dtype=np.int64).reshape(kept)
    return np.broadcast_to(numbers, shape), numbers


def _places(operation: Any, whole: Array, values: Sequence[Any], options: Mapping[str, Any]) -> list[Array]:
    """Where each part goes in what is joined."""
    if operation is ops.scatter:
        ids = iter(values[1:])
        return [whole[tuple(next(ids) if place is ops.ARRAY else place for place in options["index"])]]
    if operation is ops.assemble:
        return [whole[index] for index in options["indices"]]
    places = ops.concat_places if operation is ops.concat_ else ops.stack_places
    return [whole[place] for place in places([np.asarray(v) for v in values], options.get("axis", 0), whole.ndim)]


def _product(operation: Any, t: Tensor, values: Sequence[Any], options: Mapping[str, Any]) -> list[tuple[Array, Array]]:
    """A sum of products: of each term, where it goes and where its factors stand, in views of positions."""
    if operation is ops.einsum_:
        inputs, output = options["subscripts"].split("->")
        labels = inputs.split(",")
    else:
        a, b = (np.ndim(v) for v in values)
        batch = LETTERS[3 : 3 + max(a, b, 2) - 2]
        labels = [batch[len(batch) - max(a - 2, 0) :] + "ab"[max(2 - a, 0) :], ""]
        labels[1] = batch[len(batch) - max(b - 2, 0) :] + "bc"[: min(b, 2)]
        output = batch + "a" * (a > 1) + "c" * (b > 1)
    shapes = [t.shape, *(np.shape(v) for v in values)]
    sizes: dict[str, int] = {}
    for names, shape in zip((output, *labels), shapes, strict=True):
        for name, n in zip(names, shape, strict=True):
            sizes[name] = n if sizes.get(name, 1) == 1 else sizes[name]
    full = tuple(sizes.values())
    maps = []
    for names, shape in zip((output, *labels), shapes, strict=True):
        positions = np.arange(math.prod(shape), dtype=np.int64)
        strides = dict.fromkeys(sizes, 0)
        for k, (name, n) in enumerate(zip(names, shape, strict=True)):
            strides[name] += math.prod(shape[k + 1 :]) * 8 if n > 1 else 0
        view = np.lib.stride_tricks.as_strided(positions, full, tuple(strides.values()), writeable=False)
        maps.append((view, positions))
    return maps
