"""Whether a lowered call writes the bytes that the call itself writes: tried on random numbers, once for each kind.

Calls are of one kind where function, options, shapes, strides, types and overlap are the same. What the rules yield for
one of a kind then serves all, with other addresses in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine import numerics, ops
from ..engine.signatures import Array
from ..nn import loss, unrolling
from .compiling import Library, Unavailable
from .lowering import CLEARS, PLAIN, RULES, SUM, Lowering, Record, address
from .matmul import Call
from .planning import copied

POOL = 65_521  # random numbers, from which trials take theirs; a prime, so that no two rows are the same
# What else is among the numbers of a trial. NaNs of one sign at a time: which of two NaNs is passed on depends on where
# in memory they lie, with NumPy's own loops too.
SPECIAL = ((), (0.0, -0.0, np.inf, -np.inf, 1e-310, 1e-40, 1e30, 1e300, 1.0, -1.0), (np.nan, 0.0), (-np.nan, -0.0))
# Functions that add up; so many sums, with so many terms, are compared of them, and about so many numbers at most.
ADDING = {SUM, numerics.softmax, numerics.log_softmax, numerics.logsumexp}
SUMS, TERMS, NUMBERS = 64, 2**12, 2**20
MARGIN = 1024  # bytes around the arrays of a trial, which nobody may write to
# Whole numbers that the function takes: from, up to but without.
WHOLE: dict[Any, Callable[..., tuple[int, int]]] = {
    numerics.rows: lambda table, ids, **_: (0, len(table)),
    ops.gather.forward: lambda table, *ids, **_: (0, min(table.shape[: len(ids)], default=0)),
    ops.scatter.forward: lambda values, *ids, shape, **_: (0, min(shape[: len(ids)], default=0)),
    unrolling._checked_lengths.forward: lambda lengths, T, **_: (1, T + 1),
    loss._checked_classes.forward: lambda targets, k, **_: (0, k),
}


class Kind(NamedTuple):
    """A kind of call, lowered: the words of its records, and which of them count from the start of which group."""

    words: list[int]
    slots: list[tuple[int, int]]


# What is looked up of an array: the number of its shape, strides and type (0: no loop takes it), where it begins, the
# bytes from and up to which it reaches; and itself, so that it stays alive and no other has its id.
Seen = tuple[int, int, int, int, Array]


def opened(call: Call) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A planned call as the forward function, its inputs (with `out`, where it stands by position), and its options."""
    function, values = call
    if function is copied:
        forward, out, *inputs = values
        return forward.func, tuple(inputs), {**forward.keywords, "out": out}
    if isinstance(function, functools.partial):
        return function.func, values, function.keywords
    return function, values, {}


class Trials:
    def __init__(self, library: Library) -> None:
        self.lowering = Lowering(library)
        self._run, self._leaves_flags = library.functions.run, library.functions.leaves_flags
        self._kinds: dict[Any, Kind | None] = {}
        self._layouts: dict[Any, int] = {}  # their numbers, from 1
        self._seen: dict[int, Seen] = {}
        self.kept = self.lowering.kept

    def lowered(self, call: Call) -> tuple[Kind, list[int]] | None:
        """The records of a call, and where its groups of arrays begin; None where Python makes the call."""
        forward, values, options = opened(call)
        if not isinstance(forward, np.ufunc) and forward not in RULES:
            return None
        arrays: list[Array] = list(values)
        form = None
        if options or not all(type(x) is np.ndarray for x in values):
            arrays = []
            form = (_form(values, arrays), _form(options, arrays))
        known = self._seen
        seen = [known.get(id(x)) or self._look(x) for x in arrays]
        bases, places = _grouped(seen)
        key = (forward, form, *[layout for layout, *_ in seen], *places)
        if key not in self._kinds:
            self._kinds[key] = None
            if all(layout for layout, *_ in seen):
                spans = [0] * len(bases)
                for (_, _, _, high, _), (group, _) in zip(seen, places, strict=True):
                    spans[group] = max(spans[group], high - bases[group])
                for self.lowering.by_rows in (True, False):
                    self._kinds[key] = self._tried(call, arrays, places, spans)
                    if self._kinds[key] is not None:
                        break
        kind = self._kinds[key]
        return None if kind is None else (kind, bases)

    def _look(self, x: Array) -> Seen:
        begin = address(x)
        low = high = begin
        for n, stride in zip(x.shape, x.strides, strict=True):
            low, high = (low, high + (n - 1) * stride) if stride > 0 else (low + (n - 1) * stride, high)
        if not x.size:
            low, high = begin, begin - x.itemsize
        kind, layout = x.dtype, 0
        if x.flags.aligned and kind.isnative and kind.kind in "biuf" and kind.char != "g":
            layout = self._layouts.setdefault((x.shape, x.strides, kind.char), len(self._layouts) + 1)
        self._seen[id(x)] = found = (layout, begin, low, high + x.itemsize, x)
        return found

    def _tried(
        self, call: Call, arrays: Sequence[Array], places: Sequence[tuple[int, int]], spans: Sequence[int]
    ) -> Kind | None:
        types = {group: x.dtype for x, (group, _) in zip(arrays, places, strict=True)}
        if any(x.dtype != types[group] or at % x.itemsize for x, (group, at) in zip(arrays, places, strict=True)):
            return None
        forward, inputs, options = opened(call)
        mine, theirs = (
            [np.zeros((n + 2 * MARGIN) // types[g].itemsize, types[g]) for g, n in enumerate(spans)] for _ in range(2)
        )

        def laid(memory: list[Array]) -> Iterator[Array]:
            for x, (group, at) in zip(arrays, places, strict=True):
                yield np.ndarray(x.shape, x.dtype, memory[group].data, MARGIN + at, x.strides) if x.size else x

        whole = WHOLE[forward](*inputs, **options) if forward in WHOLE else (0, 5)
        try:
            own = laid(mine)
            inputs_, options_ = _rebuilt(inputs, own), _rebuilt(options, own)
            if isinstance(forward, np.ufunc):
                records = _of_ufunc(self.lowering, forward, *inputs_, **options_)
            else:
                records = RULES[forward](self.lowering, *inputs_, **options_)
            words = np.array([word for record in records for word in record.words], np.int64)
            rng = np.random.default_rng(0)
            again = ((),) * _repeated(forward, arrays)
            for special in (*SPECIAL, *again):
                for x, y in zip(mine, theirs, strict=True):
                    _random(x, rng, special, whole)
                    if forward is loss._checked_targets.forward:
                        x[...] = np.where(x > 0, 1, 0)
                    y[...] = x
                with np.errstate(all="ignore"):
                    _made(call[0] is copied, forward, inputs, options, laid(theirs))
                flags = np.zeros(1, np.int64)
                if self._run(address(words), 0, len(words), address(flags)) != len(words):
                    return None
                if any(x.tobytes() != y.tobytes() for x, y in zip(mine, theirs, strict=True)):
                    return None
            for record in records:
                own_words = np.array(record.words, np.int64)
                if record.words[0] == PLAIN and not self._leaves_flags(address(own_words)):
                    record.words[0] = CLEARS
        except Unavailable:
            raise
        except Exception:  # No, or whatever a rule stumbles over
            return None
        return _kind(records, [(address(x) + MARGIN, n) for x, n in zip(mine, spans, strict=True)])


def _grouped(seen: Sequence[Seen]) -> tuple[list[int], list[tuple[int, int]]]:
    """Where groups of arrays that reach into one another begin, and for each array its group and where it begins in it.
    Groups are numbered as their arrays come, not as they lie in memory: other calls of the kind may lie otherwise."""
    bases: list[int] = []
    ends: list[int] = []
    places: list[tuple[int, int]] = []
    for _, begin, low, high, _ in seen:
        met = [g for g, base in enumerate(bases) if low < ends[g] and base < high]
        if not met:
            met = [len(bases)]
            bases.append(low)
            ends.append(high)
        elif len(met) > 1 or low < bases[met[0]]:  # what was apart is one group, or begins before: all anew
            return _grouped_by_address(seen)
        elif high > ends[met[0]]:
            ends[met[0]] = high
        places.append((met[0], begin - bases[met[0]]))
    return bases, places


def _grouped_by_address(seen: Sequence[Seen]) -> tuple[list[int], list[tuple[int, int]]]:
    groups: list[tuple[int, int, list[int]]] = []  # from, to, the numbers of the arrays
    for i in sorted(range(len(seen)), key=lambda i: seen[i][2]):
        _, _, low, high, _ = seen[i]
        if groups and low < groups[-1][1]:
            start, end, members = groups.pop()
            groups.append((start, max(end, high), [*members, i]))
        else:
            groups.append((low, high, [i]))
    groups.sort(key=lambda group: min(group[2]))
    place = {i: (g, seen[i][1] - low) for g, (low, _, members) in enumerate(groups) for i in members}
    return [low for low, *_ in groups], [place[i] for i in range(len(seen))]


def _of_ufunc(lowering: Lowering, ufunc: np.ufunc, *values: Any, out: Any = None) -> list[Record]:
    return lowering.ufunc(ufunc, *values, *(() if out is None else (out,)))


def _form(x: Any, arrays: list[Array]) -> Any:
    """What a value is but for its arrays, which are listed."""
    if isinstance(x, np.ndarray):
        arrays.append(x)
        return None
    if isinstance(x, (tuple, list)):
        return tuple([_form(part, arrays) for part in x])
    if isinstance(x, dict):
        return tuple([(key, _form(part, arrays)) for key, part in x.items()])
    return type(x), repr(x)


def _rebuilt(x: Any, arrays: Iterator[Array]) -> Any:
    """The value again, of other arrays."""
    if isinstance(x, np.ndarray):
        return next(arrays)
    if isinstance(x, (tuple, list)):
        return type(x)([_rebuilt(part, arrays) for part in x])
    if isinstance(x, dict):
        return {key: _rebuilt(part, arrays) for key, part in x.items()}
    return x


def _repeated(forward: Any, arrays: Sequence[Array]) -> int:
    """How often more a call is tried that adds up: of few sums, or of few terms, all may come out the same by chance
    when they are added in another order."""
    if forward not in ADDING:
        return 0
    most, least = max(x.size for x in arrays), max(min(x.size for x in arrays), 1)
    return min(max(SUMS // least, TERMS // max(most, 1)), SUMS, 8 + NUMBERS // max(most, 1))


def _made(copies: bool, forward: Any, inputs: Any, options: Any, arrays: Iterator[Array]) -> None:
    """The call itself, on other arrays."""
    inputs, options = _rebuilt(inputs, arrays), _rebuilt(options, arrays)
    if copies:
        out = options.pop("out")
        np.copyto(out, forward(*inputs, **options))
    else:
        forward(*inputs, **options)


def _kind(records: Sequence[Record], memory: Sequence[tuple[int, int]]) -> Kind:
    """Records whose addresses in some group of arrays are counted from its start."""
    words: list[int] = []
    slots = []
    for record in records:
        start = len(words)
        words += record.words
        for i in record.addresses:
            for group, (begin, size) in enumerate(memory):
                if begin <= words[start + i] < begin + size:
                    words[start + i] -= begin
                    slots.append((start + i, group))
                    break
    return Kind(words, slots)


@functools.cache
def _pool(special: tuple[float, ...], dtype: np.dtype[Any]) -> Array:
    """Random numbers, twice over, so that they can be taken from anywhere."""
    rng = np.random.default_rng(0)
    pool = rng.standard_normal(POOL)
    if special:
        pool *= np.exp(rng.uniform(-40, 40, POOL))
        places = rng.random(POOL) < 0.4
        pool[places] = rng.choice(special, POOL)[places]
    with np.errstate(all="ignore"):
        return np.tile(pool.astype(dtype), 2)


def _random(x: Array, rng: np.random.Generator, special: tuple[float, ...], whole: tuple[int, int]) -> None:
    """Fill an array with random numbers of its type."""
    if x.dtype.kind == "b":
        x[...] = rng.random(len(x)) < 0.5
    elif x.dtype.kind in "iu":
        x[...] = rng.integers(*whole, len(x))
    else:
        start, pool = int(rng.integers(POOL)), _pool(special, x.dtype)
        for at in range(0, len(x), POOL):
            part = x[at : at + POOL]
            part[...] = pool[start : start + len(part)]
