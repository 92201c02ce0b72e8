"""A planned call as records that C can play (`loops.c`), which write the same bytes.

Every ufunc of NumPy holds a table of inner loops, C functions `loop(arguments, dims, steps, data)`. A rule here says
with which loops, on which memory, in which order NumPy computes a call; what the rule yields is tried on random numbers
against the call itself, and is used only where every byte agrees.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine import numerics, ops
from ..engine.signatures import Array
from ..nn import loss, unrolling
from .compiling import Library, Unavailable
from .planning import emptied

PLAIN, ASKS, QUIET, CLEARS = range(4)  # the kinds of a record, as in loops.c
FLAGS = {"divide": 1, "over": 2, "under": 4, "invalid": 8}
MOST_ARGUMENTS, MOST_AXES = 8, 40
TILES = 8  # a transposed copy of a matrix has at least so many rows and columns, else no tile pays
ITEMS = (1, 2, 4, 8)  # the sizes of numbers that the copying loops know
EXACT = {np.add: "add", np.subtract: "subtract", np.multiply: "multiply"}  # IEEE 754 rounds these in one way only
OWN = {np.dtype(np.float32): "f", np.dtype(np.float64): "d"}
CASTS = {
    "?": {"f": "bool_f", "d": "bool_d", "l": "bool_l", "i": "bool_i"},
    "i": {"f": "i_f", "d": "i_d", "l": "i_l"},
    "l": {"f": "l_f", "d": "l_d"},
    "f": {"d": "f_d"},
    "d": {"f": "d_f"},
}

Axis = tuple[int, tuple[int, ...]]  # how many places, and the stride of each argument


class Record(NamedTuple):
    """The words of a record, and which of them are addresses of arguments."""

    words: list[int]
    addresses: range


# NumPy's loops -------------------------------------------------------------------------------------------------------


class Head(ctypes.Structure):
    """The first fields of PyUFuncObject, which NumPy's C interface makes public, behind the head of every object."""

    _fields_ = (
        ("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int), ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int), ("reserved", ctypes.c_int), ("name", ctypes.c_void_p), ("types", ctypes.c_void_p),
    )  # fmt: skip


def read(ufunc: np.ufunc, start: int) -> dict[str, tuple[int, int]]:
    """The inner loops of a ufunc, (function, data) by the types of the arguments as in `ufunc.types`. Unavailable where
    what stands behind `start` is not what Python says of the ufunc."""
    shifted = Unavailable(f"the struct of np.{ufunc.__name__} is not as NumPy's interface describes it")
    if type(ufunc).__basicsize__ < start + ctypes.sizeof(Head):
        raise shifted
    head = Head.from_address(id(ufunc) + start)
    said = (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes)
    if (head.nin, head.nout, head.nargs, head.ntypes) != said or not (head.types and head.functions and head.name):
        raise shifted
    types = [t.replace("->", "") for t in ufunc.types]
    numbers = bytes(np.dtype(character).num for t in types for character in t)
    if ctypes.string_at(head.types, len(numbers)) != numbers:
        raise shifted
    if ctypes.string_at(head.name, len(ufunc.__name__) + 1) != ufunc.__name__.encode() + b"\0":
        raise shifted
    found: dict[str, tuple[int, int]] = {}
    for i, t in enumerate(types):
        if head.functions[i]:
            found.setdefault(t, (head.functions[i] or 0, (head.data[i] or 0) if head.data else 0))
    return found


@functools.cache
def loops(ufunc: np.ufunc) -> dict[str, tuple[int, int]]:
    return read(ufunc, object.__basicsize__)


# Axes ----------------------------------------------------------------------------------------------------------------


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def axes(shape: Sequence[int], *strides: Sequence[int]) -> list[Axis]:
    """The axes of a loop over arrays of this shape, outermost first, in the order in which NumPy's iterator takes them:
    by their strides, in doubt as they stand; axes that lie closely are one."""
    order: list[int] = []  # innermost first
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            continue
        place = len(order)
        for k in reversed(range(len(order))):
            pairs = [(abs(s[order[k]]), abs(s[axis])) for s in strides if s[order[k]] and s[axis]]
            if pairs and any(inner <= outer for inner, outer in pairs):
                break
            if pairs:
                place = k
        order.insert(place, axis)
    found: list[Axis] = []
    for axis in reversed(order):
        n, own = shape[axis], tuple(s[axis] for s in strides)
        if found and all(outer == n * inner for outer, inner in zip(found[-1][1], own, strict=True)):
            found[-1] = found[-1][0] * n, own
        else:
            found.append((n, own))
    return found


def spread(array: Array, shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array over a shape to which it is broadcast."""
    return np.broadcast_to(array, tuple(shape)).strides


def apart(x: Array, out: Array) -> bool:
    """Whether x and out share no memory, or are the same place: NumPy then computes in place, without a copy."""
    if address(x) == address(out) and x.shape == out.shape and x.strides == out.strides and x.dtype == out.dtype:
        return True
    try:
        return not np.shares_memory(x, out, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return False


# Rules ---------------------------------------------------------------------------------------------------------------


class No(Exception):
    """A call that no rule covers: Python makes it."""


class Lowering:
    """The rules. Each is called as the planned call is, and yields records; `kept` holds the memory that they use
    beside the call's own."""

    def __init__(self, library: Library) -> None:
        self.by_rows = True
        self.kept: list[Array] = []
        self._own = functools.cache(library.address)

    # Records

    def record(
        self,
        function: int,
        arrays: Sequence[Array],
        outer: Sequence[Axis],
        dims: Sequence[int],
        steps: Sequence[int],
        data: int = 0,
        kind: int = PLAIN,
    ) -> Record:
        n, k = len(arrays), len(outer)
        if n > MOST_ARGUMENTS or k > MOST_AXES:
            raise No
        at_dims = 8 + n + k + k * n
        words = [kind, at_dims + len(dims) + len(steps), function, data, n, k, at_dims, at_dims + len(dims)]
        words += [address(x) for x in arrays]
        words += [count for count, _ in outer]
        words += [stride for _, strides in outer for stride in strides]
        return Record([*words, *dims, *steps], range(8, 8 + n))

    def over(
        self, loop: tuple[int, int], arrays: Sequence[Array], around: Sequence[Axis], kind: int = PLAIN
    ) -> list[Record]:
        """A loop along the innermost axis, called for each place of the others."""
        if any(stride < 0 for _, strides in around for stride in strides):
            raise No  # NumPy turns such axes round, or not
        count, steps = around[-1] if around else (1, (0,) * len(arrays))
        return [self.record(loop[0], arrays, around[:-1], [count], steps, loop[1], kind)]

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        self.kept.append(np.empty(tuple(shape), dtype))
        return self.kept[-1]

    def constant(self, value: Any, dtype: Any) -> Array:
        self.kept.append(np.array(value, dtype))
        return self.kept[-1]

    # Elementwise

    def ufunc(self, ufunc: np.ufunc, *values: Any, kind: int = PLAIN) -> list[Record]:
        *given, out = values
        if ufunc.nout != 1 or len(values) != ufunc.nargs or getattr(np, ufunc.__name__, None) is not ufunc:
            raise No
        arrays = [x for x in given if isinstance(x, np.ndarray)]
        inputs = [
            x if isinstance(x, np.ndarray) else self.constant(x, np.result_type(*(a.dtype for a in arrays), x))
            for x in given
        ]
        if not all(apart(x, out) for x in inputs):
            raise No
        if ufunc is np.matmul:
            return self.matmul(inputs[0], inputs[1], out)
        if ufunc.signature is not None:
            raise No
        if 0 in out.shape:
            return []
        records = []
        table = loops(ufunc)
        if "".join(x.dtype.char for x in (*inputs, out)) not in table:
            *types, made = ufunc.resolve_dtypes((*(x.dtype for x in inputs), None))
            if made != out.dtype:
                raise No
            for i, (x, dtype) in enumerate(zip(inputs, types, strict=True)):
                if x.dtype != dtype:
                    inputs[i] = self.empty(x.shape, dtype)
                    records += self.copy(inputs[i], x)
        loop = table.get("".join(x.dtype.char for x in (*inputs, out)))
        if loop is None:
            raise No
        around = axes(out.shape, *(spread(x, out.shape) for x in inputs), out.strides)
        return [*records, *(self.rows(ufunc, [*inputs, out], around) or self.over(loop, [*inputs, out], around, kind))]

    def rows(self, ufunc: np.ufunc, arrays: Sequence[Array], around: Sequence[Axis]) -> list[Record]:
        """Sums, differences and products of many short rows, without a call for each. (Of two NaNs, one is the result:
        which, NumPy's compiler decided. So where rows differ, it is done `by_rows` no more.)"""
        if not self.by_rows or ufunc not in EXACT or arrays[-1].dtype not in OWN or len(around) < 2:
            return []
        (rows, outer), (n, inner) = around[-2:]
        size = arrays[-1].itemsize
        if inner[2] != size or inner[0] not in (0, size) or inner[1] not in (0, size) or inner[:2] == (0, 0):
            return []
        function = self._own(f"{EXACT[ufunc]}_{OWN[arrays[-1].dtype]}")
        return [self.record(function, arrays, around[:-2], [n, rows], [*inner, *outer])]

    def quiet_exp(self, e: Array) -> list[Record]:
        return self.ufunc(np.exp, e, e, kind=QUIET + 4 * FLAGS["over"])

    def relu(self, x: Any, out: Any) -> list[Record]:
        return self.ufunc(np.maximum, x, 0, out)

    # Products

    def matmul(self, a: Array, b: Array, out: Array) -> list[Record]:
        loop = loops(np.matmul).get("".join(x.dtype.char for x in (a, b, out)))
        if loop is None or 0 in (*out.shape, *a.shape):
            raise No
        if b.ndim == 1:
            b, out = b[:, None], out[..., None]
        if a.ndim == 1:
            a, out = a[None], out[..., None, :]
        batch = out.shape[:-2]
        stacks = [spread(x, (*batch, *x.shape[-2:]))[:-2] for x in (a, b, out)]
        around = axes(batch, *stacks) or [(1, (0, 0, 0))]
        count, steps = around[-1]
        dims = [count, *a.shape[-2:], b.shape[-1]]
        core = [stride for x in (a, b, out) for stride in x.strides[-2:]]
        return [self.record(loop[0], [a, b, out], around[:-1], dims, [*steps, *core], loop[1])]

    # Values moved about

    def copy(self, out: Array, x: Any) -> list[Record]:
        source = x if isinstance(x, np.ndarray) else self.constant(x, out.dtype)
        if not apart(source, out) or out.dtype.itemsize not in ITEMS:
            raise No
        if 0 in out.shape:
            return []
        around = axes(out.shape, spread(source, out.shape), out.strides)
        if source.dtype != out.dtype:
            cast = CASTS.get(source.dtype.char, {}).get(out.dtype.char)
            if cast is None:
                raise No
            return self.over((self._own(f"cast_{cast}"), 0), [source, out], around)
        size, arrays = out.itemsize, [source, out]
        if around and around[-1][1] == (size, size):  # whole rows
            width = around.pop()[0] * size
            count, steps = around[-1] if around else (1, (0, 0))
            return [self.record(self._own("rows"), arrays, around[:-1], [count], steps, width)]
        *outer, (n, first), (k, second) = [(1, (0, 0)), (1, (0, 0)), *around][-max(len(around), 2) :]
        return [self.record(self._own("items"), arrays, outer, [n, k], [*first, *second], size)]

    def copyto(self, out: Array, x: Any, casting: str = "same_kind", where: Any = True) -> list[Record]:
        if where is True:
            return self.copy(out, x)
        source = x if isinstance(x, np.ndarray) else self.constant(x, out.dtype)
        if source.dtype != out.dtype and source.ndim:
            raise No
        records = []
        if source.dtype != out.dtype:
            source = self.empty((), out.dtype)
            records = self.copy(source, x)
        apart_ = apart(source, out) and isinstance(where, np.ndarray) and apart(where, out)
        if not apart_ or where.dtype != bool or out.itemsize not in ITEMS:
            raise No
        if 0 in out.shape:
            return []
        around = axes(out.shape, spread(where, out.shape), spread(source, out.shape), out.strides)
        return [*records, *self.over((self._own("masked"), out.itemsize), [where, source, out], around)]

    def emptied(self, out: Array) -> list[Record]:
        return self.copy(out, self.constant(0, out.dtype))

    def concatenate(self, parts: Sequence[Any], axis: int, out: Array) -> list[Record]:
        return self.joined(ops.concat_places(parts, axis, out.ndim), parts, out)

    def stack(self, parts: Sequence[Any], axis: int, out: Array) -> list[Record]:
        return self.joined(ops.stack_places(parts, axis, out.ndim), parts, out)

    def joined(self, places: Iterable[Any], parts: Sequence[Any], out: Array) -> list[Record]:
        return [record for place, x in zip(places, parts, strict=True) for record in self.copy(out[place], x)]

    def assemble(self, *values: Array, indices: Any, shape: Any, out: Array) -> list[Record]:
        records = self.emptied(out)
        for value, index in zip(values, indices, strict=True):
            records += self.ufunc(np.add, out[index], value, out[index])
        return records

    def replaced(self, padded: Array, x: Array, other: Any, out: Array) -> list[Record]:
        return [*self.copy(out, x), *self.copyto(out, other, where=padded)]

    def cleared(self, padded: Array, x: Array, out: Array) -> list[Record]:
        return self.replaced(padded, x, 0, out)

    # Reductions

    def reduce(self, ufunc: np.ufunc, x: Array, axis: Any, out: Array, start: Any) -> list[Record]:
        """As NumPy does it: `out` begins with the start (None: with the first along the axis), and the loop adds to it
        in place."""
        reduced = range(x.ndim) if axis is None else [k % x.ndim for k in ((axis,) if isinstance(axis, int) else axis)]
        loop = loops(ufunc).get(out.dtype.char * 3)
        if out.dtype.char == "e" or loop is None or not apart(x, out):
            raise No
        if x.dtype.kind == "b" and out.dtype.kind == "i":  # how many are true
            counted = self.empty(x.shape, out.dtype)
            return [*self.copy(counted, x), *self.reduce(ufunc, counted, axis, out, start)]
        if x.dtype != out.dtype:
            raise No
        kept = out.reshape([1 if k in reduced else n for k, n in enumerate(x.shape)])
        if out.size and not np.shares_memory(kept, out):
            raise No
        if start is None:
            if len(reduced) != 1:
                raise No
            along = (slice(None),) * reduced[0]
            begin = self.copy(kept, x[(*along, slice(0, 1))])
            x = x[(*along, slice(1, None))]
        else:
            begin = self.copy(kept, self.constant(start, out.dtype))
        if 0 in x.shape:
            return begin
        strides = spread(kept, x.shape)
        around = axes(x.shape, strides, x.strides)
        if any(mine == 0 for _, (_, mine) in around) or sum(whole == 0 for _, (whole, _) in around) > 1:
            raise No  # NumPy goes through a buffer
        places = [(n, (whole, mine, whole)) for n, (whole, mine) in around]
        arrays = [kept, x, kept]
        return [*begin, *(self.rows(ufunc, arrays, places) or self.over(loop, arrays, places))]

    def sum(
        self, x: Array, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False
    ) -> list[Record]:
        return self.reduce(np.add, x, axis, out, 0)

    def max(self, x: Array, axis: Any = None, keepdims: bool = False, *, out: Array) -> list[Record]:
        return self.reduce(np.maximum, x, axis, out, None)

    def min(self, x: Array, axis: Any = None, keepdims: bool = False, *, out: Array) -> list[Record]:
        return self.reduce(np.minimum, x, axis, out, None)

    # The softmax family, as numerics computes it

    def softmax(self, x: Array, axis: int = -1, *, out: Array) -> list[Record]:
        top, total, finite, none = self._per_row(x, axis, out)
        return [
            *self._peak(x, axis, top, finite),
            *self.ufunc(np.subtract, x, top, out),
            *self.ufunc(np.exp, out, out),
            *self.reduce(np.add, out, axis, total, 0),
            *self.ufunc(np.equal, total, self.constant(0, out.dtype), none),
            *self.copyto(total, self.constant(1, out.dtype), where=none),
            *self.ufunc(np.divide, out, total, out),
        ]

    def log_softmax(self, x: Array, axis: int = -1, *, out: Array) -> list[Record]:
        top, rest, finite, none = self._per_row(x, axis, out)
        return [
            *self._log_sum(x, axis, out, top, rest, finite),
            *self.ufunc(np.subtract, x, top, out),
            *self.ufunc(np.equal, rest, self.constant(-np.inf, out.dtype), none),
            *self.copyto(rest, self.constant(0, out.dtype), where=none),
            *self.ufunc(np.subtract, out, rest, out),
        ]

    def logsumexp(self, x: Array, axis: int = -1, keepdims: bool = False, *, out: Array) -> list[Record]:
        top, rest, finite, _ = self._per_row(x, axis, out)
        terms, whole = self.empty(x.shape, x.dtype), out if keepdims else np.expand_dims(out, axis)
        return [*self._log_sum(x, axis, terms, top, rest, finite), *self.ufunc(np.add, top, rest, whole)]

    def _log_sum(self, x: Array, axis: int, e: Array, top: Array, rest: Array, finite: Array) -> list[Record]:
        """`top`: the peak; `e`: the terms; `rest`: the logarithm of their sum, the largest term's 1 left to log1p."""
        others = self.empty(top.shape, e.dtype)
        ties, counted = self.empty(x.shape, bool), self.empty(x.shape, e.dtype)
        return [
            *self._peak(x, axis, top, finite),
            *self.ufunc(np.equal, x, top, ties),
            *self.ufunc(np.subtract, x, top, e),
            *self.ufunc(np.exp, e, e),
            *self.copy(counted, ties),
            *self.ufunc(np.subtract, e, counted, e),
            *self.reduce(np.add, counted, axis, others, 0),
            *self.ufunc(np.subtract, others, self.constant(1, e.dtype), others),
            *self.reduce(np.add, e, axis, rest, 0),
            *self.ufunc(np.add, rest, others, rest),
            *self.ufunc(np.log1p, rest, rest, kind=QUIET + 4 * FLAGS["divide"]),
        ]

    def logsigmoid(self, x: Array, out: Array) -> list[Record]:
        if x.dtype != out.dtype or x.dtype.kind != "f":
            raise No
        below, low, smaller = self.empty(x.shape, bool), *(self.empty(x.shape, x.dtype) for _ in range(2))
        return [
            *self.ufunc(np.less, x, self.constant(0, x.dtype), below),
            *self.emptied(low),
            *self.copyto(low, x, where=below),
            *self.ufunc(np.negative, x, smaller),
            *self.copyto(smaller, x, where=below),
            *self.ufunc(np.exp, smaller, smaller),
            *self.ufunc(np.log1p, smaller, smaller),
            *self.ufunc(np.subtract, low, smaller, out),
        ]

    def _per_row(self, x: Array, axis: int, out: Array) -> tuple[Array, ...]:
        if x.dtype.kind != "f" or x.dtype != out.dtype or not x.ndim or not isinstance(axis, int):
            raise No
        shape = [1 if k == axis % x.ndim else n for k, n in enumerate(x.shape)]
        return tuple([self.empty(shape, t) for t in (x.dtype, x.dtype, bool, bool)])

    def _peak(self, x: Array, axis: int, top: Array, finite: Array) -> list[Record]:
        largest = self.empty(top.shape, top.dtype)
        return [
            *self.reduce(np.maximum, x, axis, largest, -np.inf),
            *self.ufunc(np.isfinite, largest, finite),
            *self.emptied(top),
            *self.copyto(top, largest, where=finite),
        ]

    # Rows of a table, and what looks at whole numbers

    def take(self, table: Array, *ids: Array, index: Any = (ops.ARRAY,), out: Array) -> list[Record]:
        return [self._by_index("take", table, ids, index, out, table.itemsize)]

    def scatter(self, values: Array, *ids: Array, index: Any, shape: Any, out: Array) -> list[Record]:
        if out.dtype not in OWN or values.dtype != out.dtype:
            raise No
        return [*self.emptied(out), self._by_index(f"add_at_{OWN[out.dtype]}", out, ids, index, values, 1)]

    def _by_index(self, name: str, table: Array, ids: Sequence[Any], index: Any, entries: Array, size: int) -> Record:
        """Rows of a table, or of its second axis with two arrays of numbers; `size`: what a number of a row counts."""
        whole = all(isinstance(x, np.ndarray) and x.dtype.char in "il" and x.flags.c_contiguous for x in ids)
        alike = whole and len({(x.shape, x.dtype) for x in ids}) == 1 and len(ids) <= min(2, table.ndim)
        rows = table.shape[len(ids) :]
        lies_closely = np.lib.stride_tricks.as_strided(table, rows, table.strides[len(ids) :]).flags.c_contiguous
        if any(x is not ops.ARRAY for x in index) or not alike or not lies_closely or not entries.flags.c_contiguous:
            raise No
        if len(index) != len(ids) or not entries.size or entries.dtype != table.dtype:
            raise No
        n, width = ids[0].size, int(np.prod(rows, dtype=int))
        limits = [*table.shape[: len(ids)], 0][:2]
        step = ids[0].itemsize
        steps = [table.strides[0], step, width * table.itemsize, step, table.strides[1] if len(ids) == 2 else 0]
        arrays = [table, ids[0], entries, *ids[1:]]
        return self.record(self._own(name), arrays, [], [n, width * size, *limits], steps, step, ASKS)

    def checked(self, x: Array, low: int, high: int, ignored: int | None, out: Array) -> list[Record]:
        if x.dtype.char not in "il" or x.dtype != out.dtype or not (x.flags.c_contiguous and out.flags.c_contiguous):
            raise No
        dims = [x.size, low, high, ignored is not None, ignored or 0]
        return [self.record(self._own("checked"), [x, out], [], dims, [x.itemsize] * 2, x.itemsize, ASKS)]

    def lengths(self, lengths: Array, T: int, out: Array) -> list[Record]:
        return self.checked(lengths, 1, T, None, out)

    def classes(self, targets: Array, k: int, ignore_index: int | None, out: Array) -> list[Record]:
        return self.checked(targets, 0, k - 1, ignore_index, out)

    def probabilities(self, targets: Array, out: Array) -> list[Record]:
        if targets.dtype not in OWN or not targets.flags.c_contiguous:
            raise No
        check = self._own("probabilities")
        step = targets.itemsize
        return [
            self.record(check, [targets], [], [targets.size], [step], step, ASKS),
            *self.copy(out, targets),
        ]


SUM = np.add.reduce
RULES: dict[Any, Any] = {
    SUM: Lowering.sum,
    numerics.quiet_exp: Lowering.quiet_exp,
    numerics.relu: Lowering.relu,
    np.copyto: Lowering.copyto,
    emptied: Lowering.emptied,
    np.concatenate: Lowering.concatenate,
    np.stack: Lowering.stack,
    numerics.assemble: Lowering.assemble,
    numerics.max: Lowering.max,
    numerics.min: Lowering.min,
    numerics.softmax: Lowering.softmax,
    numerics.log_softmax: Lowering.log_softmax,
    numerics.logsumexp: Lowering.logsumexp,
    numerics.logsigmoid: Lowering.logsigmoid,
    numerics.rows: Lowering.take,
    ops.gather.forward: Lowering.take,
    ops.scatter.forward: Lowering.scatter,
    ops.astype.forward: lambda lowering, x, dtype, out: lowering.copy(out, x),
    ops.broadcast_to.forward: lambda lowering, x, shape, out: lowering.copy(out, x),
    unrolling._hold.forward: Lowering.replaced,
    unrolling._clear.forward: Lowering.cleared,
    unrolling._checked_lengths.forward: Lowering.lengths,
    loss._checked_classes.forward: Lowering.classes,
    loss._checked_targets.forward: Lowering.probabilities,
}
