"""Where the values of a recorded step live: the list of calls that compute them in buffers planned once.

Views cost nothing, a buffer is free again after its last reader, elementwise results go over an input that dies, and
parts are computed in their places in a whole. Each call computes what its operation computes, on arrays that lie in
memory as they did when the step was recorded; how a product is computed faster, see `matmul`.
"""

from __future__ import annotations

import bisect
import functools
import gc
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..engine import numerics
from ..engine.context import Trace
from ..engine.ops import (
    add,
    assemble,
    broadcast_to,
    concat_,
    concat_places,
    matmul,
    sigmoid,
    stack_,
    stack_places,
    sum,
    where,
)
from ..engine.signatures import Array
from ..engine.tensor import Record, Tensor, array_of
from .matmul import Call, Products
from .staleness import StaleReplayError


def changes(leaf: Tensor, trace: Trace | None) -> bool:
    """Whether a leaf may hold other numbers at the next run: not a constant that was made while it was recorded."""
    return leaf.operation is None and (leaf.where.tracing is not trace or trace is None or leaf.requires_grad)


def recorded(results: Iterable[Tensor], trace: Trace | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """The operations to run, in order, and the values that they start from.

    What depends on constants alone has been computed by the recording, and what was computed outside of the recording
    is a constant; only random draws are made anew, each of them, for the generator goes on.
    """
    found = list(dict.fromkeys([*results, *(trace.draws if trace else ())]))
    seen = set(found)
    records: dict[Tensor, Record] = {}  # of what was computed within the recording
    for t in found:  # the list grows as it is walked
        record = t.record if t.where.tracing is trace else None
        if record is not None:
            records[t] = record
            for x in record.inputs:
                if isinstance(x, Tensor) and x not in seen:
                    seen.add(x)
                    found.append(x)
    alive = {t for t in found if changes(t, trace)}
    operations = []
    for t in sorted(records, key=lambda t: records[t].number):
        _, inputs, _, options, *_ = records[t]
        draws = any(isinstance(v, np.random.Generator) for v in options.values())
        if draws or any(isinstance(x, Tensor) and x in alive for x in inputs):
            alive.add(t)
            operations.append(t)
    read = {x for t in operations for x in records[t].inputs if isinstance(x, Tensor)}.union(results)
    computed = set(operations)
    found.sort(key=lambda t: records[t].number if t in records else 0)
    return operations, [t for t in found if t in read and t not in computed]


class CollectorPaused:
    """Python's garbage collector waits meanwhile: what is made for a long sequence it would look at again and again,
    and find that it stays."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *exception: object) -> None:
        if self._was_on:
            gc.enable()


class Plan:
    """Where every value lives, and the calls that compute it there.

    A value's root is the value in whose buffer it lives: itself; for a view, the root of what it views; for a part
    that is computed in its place in a whole (an assembled gradient, a concatenation, a stack), the root of the whole.
    Leaves have no root: nothing may be written over them.
    """

    def __init__(
        self,
        operations: list[Tensor],
        leaves: list[Tensor],
        results: Sequence[Tensor],
        arena: list[Array],
        changing: Callable[[Tensor], bool],
    ) -> None:
        self.place: dict[Tensor, Array] = {}
        self.calls: list[Call] = []
        self.fixed: set[int] = set()  # products among the calls whose second factor changes between runs only
        self.dead: dict[int, Array] = {}  # by number of a sum among the calls: the product that it is the last to read
        self.buffers: list[Array] = []
        self.memory: list[Array] = []  # whole, as the arena knows them
        self._arena = arena
        self._idle = sorted(arena, key=len)  # buffers of other programs that this one does not use yet
        self._bytes: dict[Tensor, Array] = {}  # of each root that is alive
        self._free: dict[int, list[Array]] = {}  # buffers that nobody reads any more, by size
        for x in leaves:
            self.place[x] = array_of(x)
            if changing(x):
                self.place[x] = _laid_out(self._taken(self.place[x].nbytes), self.place[x])
        self._records = {t: record for t in operations if (record := t.record) is not None}
        self._viewed = {t: base for t, record in self._records.items() if (base := viewed(t, record)) is not None}
        self._claims: dict[Tensor, tuple[Tensor, Any]] = {}  # part: the whole, and its place in it
        self._parts: dict[Tensor, list[tuple[Tensor, Any, bool]]] = {}  # of a whole: part, place, computed there?
        self._claim_places(operations, results)
        self._products = Products(self._records, results)
        self._root: dict[Tensor, Tensor] = {}
        for t in reversed(operations):  # wholes before their parts
            if t not in self._viewed:
                self._root[t] = self._root[self._claims[t][0]] if t in self._claims else t
        for t, x in self._viewed.items():
            if x in self._root:
                self._root[t] = self._root[x]
        last: dict[Tensor, float] = {}
        inputs = [[x for x in self._records[t].inputs if isinstance(x, Tensor) and x in self._root] for t in operations]
        for k, read in enumerate(inputs):
            for x in read:
                last[self._root[x]] = k
        last |= {self._root[y]: math.inf for y in results if y in self._root}
        for k, (t, read) in enumerate(zip(operations, inputs, strict=True)):
            self._compute(t, [x for x in read if last[self._root[x]] == k])
        self.buffers += self._products.copies

    def _claim_places(self, operations: list[Tensor], results: Sequence[Tensor]) -> None:
        """Let parts be computed in their places: where nobody else reads them, or they look the same to everybody."""
        readers: dict[Tensor, int] = dict.fromkeys(results, 1)
        for t in operations:
            for x in self._records[t].inputs:
                if isinstance(x, Tensor):
                    readers[x] = readers.get(x, 0) + 1
        computed = set(operations).difference(self._viewed)
        for whole in operations:
            indices = places_in(whole, self._records[whole])
            if indices is None:
                continue
            self._parts[whole] = []
            for part, index in zip(self._records[whole].inputs, indices, strict=True):
                claimed = (
                    isinstance(part, Tensor)
                    and part in computed
                    and part not in self._claims
                    and part.dtype == whole.dtype
                    and (readers[part] == 1 or _layout(array_of(part)) == _layout(array_of(whole)[index]))
                )
                if claimed:
                    self._claims[part] = whole, index
                self._parts[whole].append((part, index, claimed))

    def _compute(self, t: Tensor, dying: list[Tensor]) -> None:
        """Give t a place, add the calls that fill it, and free what t was the last to read."""
        operation: Any
        operation, inputs, given, options, *_ = self._records[t]
        values = [self.place[x] if isinstance(x, Tensor) else a for x, a in zip(inputs, given, strict=True)]
        taken = None
        if t in self._viewed:
            self.place[t] = operation.forward(*values, **options)
        else:
            taken = self._taken_over(t, dying)
            out = self._located(t)
            parts = self._parts.get(t, ())
            if (operation is assemble and parts) or any(claimed for _, _, claimed in parts):
                for value, (_, index, claimed) in zip(values, parts, strict=True):
                    if not claimed:
                        self.calls.append((np.copyto, (out[index], value)))
                if operation is assemble:  # a sum that began at zero has no -0.0
                    self.calls.append((np.add, (out, np.zeros((), out.dtype), out)))
            elif operation is matmul:
                b = inputs[1]
                fixed = not isinstance(b, Tensor) or b not in self._root
                calls = self._products.calls(t, values[0], values[1], out, fixed)
                self.fixed.update(k for k, call in enumerate(calls, len(self.calls)) if fixed and call[0] is np.matmul)
                self.calls += calls
            elif operation in DIRECT:
                self.calls += DIRECT[operation](values, out, **options)
            elif isinstance(operation.forward, np.ufunc) and operation.forward not in (np.maximum, np.minimum):
                self.calls.append((operation.forward, (*_as_arrays(operation, values), out)))  # `out` by its position
            elif writes(operation):
                self.calls.append((functools.partial(operation.forward, out=out, **options), tuple(values)))
            else:
                forward: Any = functools.partial(operation.forward, **options)
                forward.__name__ = operation.__name__
                self.calls.append((copied, (forward, out, *values)))
        for root in dict.fromkeys(self._root[x] for x in dying):
            if root is not taken:
                if operation is add and self._records[root].operation is matmul and any(root is x for x in inputs):
                    self.dead[len(self.calls) - 1] = self.place[root]
                buffer = self._bytes.pop(root)
                self._free.setdefault(buffer.nbytes, []).append(buffer)

    def _taken_over(self, t: Tensor, dying: list[Tensor]) -> Tensor | None:
        """A dying input over which t may be written, whose place it then has."""
        if t not in self._claims and self._records[t].operation.elementwise:
            for x in dying:
                if self._root[x] is x and _layout(self.place[x]) == _layout(array_of(t)):
                    self.place[t], self._bytes[t] = self.place[x], self._bytes.pop(x)
                    return x
        return None

    def _located(self, t: Tensor) -> Array:
        """The place of t: in its whole, or in a buffer of its own, which is made at the first look."""
        if t not in self.place:
            if t in self._claims:
                whole, index = self._claims[t]
                self.place[t] = self._located(whole)[index]
            else:
                self.place[t] = self._new_buffer(t)
            if self._records[t].operation is assemble and t in self._parts and not _covered(t, self._records[t]):
                self.calls.append((emptied, (self.place[t],)))
        return self.place[t]

    def _new_buffer(self, t: Tensor) -> Array:
        """A buffer laid out in memory as t was when it was recorded: another layout could round otherwise."""
        array = array_of(t)
        waiting = self._free.get(array.nbytes) or [self._taken(array.nbytes)]
        self._bytes[t] = waiting.pop()
        return _laid_out(self._bytes[t], array)

    def _taken(self, n: int) -> Array:
        """A new buffer of n bytes: one that another program uses, if it is not much larger, for they run in turn."""
        k = bisect.bisect_left(self._idle, n, key=len)
        if k < len(self._idle) and len(self._idle[k]) <= 2 * n:
            buffer = self._idle.pop(k)
        else:
            buffer = np.empty(n, np.uint8)
            self._arena.append(buffer)
        self.memory.append(buffer)
        self.buffers.append(buffer[:n])
        return self.buffers[-1]


def _laid_out(buffer: Array, array: Array) -> Array:
    """A buffer as an array of this shape and dtype whose axes follow one another in memory as those of `array` do."""
    if array.flags.c_contiguous:
        return buffer.view(array.dtype).reshape(array.shape)
    axes = sorted(range(array.ndim), key=lambda i: -abs(array.strides[i]))
    shaped = buffer.view(array.dtype).reshape([array.shape[i] for i in axes])
    return shaped.transpose(np.argsort(axes).tolist())


def places_in(whole: Tensor, record: Record) -> list[Any] | None:
    """Where the inputs of a concatenation, a stack or an assembled gradient stand in it; None where some overlap."""
    operation, _, values, options, *_ = record
    if operation is stack_ or operation is concat_:
        places = stack_places if operation is stack_ else concat_places
        return places(values, options.get("axis", 0), whole.ndim)
    return options["indices"] if operation is assemble and _times_written(whole, record).max(initial=0) < 2 else None


def _covered(whole: Tensor, record: Record) -> bool:
    return bool(_times_written(whole, record).all())


def _times_written(whole: Tensor, record: Record) -> Array:
    times = np.zeros(whole.shape, np.int16)
    for index in record.options["indices"]:
        times[index] += 1
    return times


def viewed(t: Tensor, record: Record) -> Tensor | None:
    """The input whose memory t shares, if it is a view of one: of an operation that is none by its nature, the result
    may be its input for some numbers and not for others."""
    if not (record.operation.view or record.operation is broadcast_to):
        return None
    inputs = [x for x in record.inputs if isinstance(x, Tensor)]
    shared = len(inputs) == 1 and np.may_share_memory(array_of(t), array_of(inputs[0]))
    return inputs[0] if shared else None


def _layout(array: Array) -> tuple[Any, ...]:
    return array.shape, array.strides, array.dtype


@functools.cache
def writes(operation: Any) -> bool:
    """Whether an operation can be told where to write: its forward function is a ufunc, or has a parameter `out`."""
    forward = operation.forward
    return isinstance(forward, np.ufunc) or "out" in inspect.signature(forward).parameters


def _sigmoid_calls(values: list[Any], out: Array) -> list[Call]:
    one = numerics.ONE[out.dtype] if out.dtype in numerics.ONE else np.ones((), out.dtype)
    return [
        (np.negative, (values[0], out)),
        (numerics.quiet_exp, (out,)),
        (np.add, (out, one, out)),
        (np.reciprocal, (out, out)),
    ]


def _where_calls(values: list[Any], out: Array) -> list[Call]:
    condition, a, b = values
    if np.asarray(condition).dtype != bool:
        return [(copied, (functools.partial(np.where), out, condition, a, b))]
    return [(np.copyto, (out, b)), (np.copyto, (out, a, "same_kind", condition))]


# The same computations as the forward functions make, without a Python function around them.
DIRECT: dict[Any, Callable[..., list[Call]]] = {
    sigmoid: _sigmoid_calls,
    where: _where_calls,
    sum: lambda values, out, axis=None, keepdims=False: [(np.add.reduce, (values[0], axis, None, out, keepdims))],
    concat_: lambda values, out, axis=0: [(np.concatenate, (values, axis, out))],
    stack_: lambda values, out, axis=0: [(np.stack, (values, axis, out))],
}


def copied(forward: Callable[..., Any], out: Array, *values: Any) -> None:
    result = forward(*values)
    if np.shape(result) != out.shape:
        name = getattr(forward, "__name__", "an operation")
        raise StaleReplayError(
            f"{name} gives shape {np.shape(result)} now and gave {out.shape} when the replay was recorded: "
            "an operation whose result has another shape for other numbers cannot be replayed"
        )
    np.copyto(out, result)


def emptied(out: Array) -> None:
    out.fill(0)


def _as_arrays(operation: Any, values: list[Any]) -> list[Any]:
    """Python numbers as arrays of the type that they take on: NumPy would convert them at every run."""
    if operation.forward is np.power:  # whose result depends on how the exponent is given
        return values
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    try:
        return [np.asarray(v, np.result_type(*arrays, v)) if isinstance(v, (int, float)) else v for v in values]
    except OverflowError:  # a comparison with a number that the type does not have
        return values
