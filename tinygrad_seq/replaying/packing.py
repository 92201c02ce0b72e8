"""Products with a factor that is laid out once per run (`packed.c`), where a trial finds BLAS's bits in less time.

A weight is multiplied at every step, and BLAS rearranges it each time. And Σ u_tᵀ g_t is added up as it is computed,
without a place for each term.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.signatures import Array
from .compiling import SWITCH, Library, Unavailable, compiled
from .lowering import Lowering, Record, address
from .matmul import ROWS, TERMS, Call, filled

FLAGS = ("-ffp-contract=fast", "-mprefer-vector-width=512")  # a product and its addition are rounded once
COLUMNS = 32  # of a panel, as in packed.c
LONG = 128  # Σ u_tᵀ g_t: rows of a step, above which BLAS is as fast
# Terms of a sum after which BLAS begins another. 0: never. Known from some processors, then whatever else is usual.
PIECES = (0, 448, 384, 320, 512, 640, 768, 256, *range(128, 1040, 16))
ROUNDS = 7  # of measuring, of which the fastest counts
FASTER = 0.95
CLOCK = 2**17  # numbers that are multiplied between two looks at the clock, at least
USES = 4  # of a factor in a run: for fewer it does not pay to lay it out
# What else is among the numbers of a trial. Of infinities and NaNs one kind: which of two NaNs BLAS passes on, is open.
SPECIAL = ((), (0.0, -0.0, 1e30, 1e-30), (np.inf, 1.0), (np.nan, 1.0))


class Packing:
    """The products of a plan that are not BLAS's. `fixed`: the calls whose second factor changes between runs only."""

    def __init__(
        self, lowering: Lowering, library: Library, calls: Sequence[Call], fixed: set[int], dead: dict[int, Array]
    ) -> None:
        self._lowering, self._run, self._calls = lowering, library.functions.run, calls
        self._fixed, self._dead = fixed, dead
        self._panels: dict[Any, Array] = {}
        self._tried: dict[Any, int | None] = {}
        products = [calls[number][1][1] for number in fixed]
        self._uses = Counter((address(b), b.shape, b.strides) for b in products)
        try:
            if os.environ.get(SWITCH) == "blas":
                raise Unavailable(f"{SWITCH}=blas")
            self._own = compiled("packed.c", *FLAGS)
            self._same_order = self._tries_once()
        except Unavailable:
            self._same_order = False

    def records(self, number: int) -> tuple[list[Record], int]:
        """The records of a call, or of it and the next, and for how many calls they stand: none, where BLAS does it."""
        function, values = self._calls[number]
        if function is not np.matmul or not self._same_order or not all(map(_usual, values)):
            return [], 0
        a, b, out = values
        if out.strides[1] != out.itemsize:
            return [], 0
        if number in self._fixed:
            often = self._uses[address(b), b.shape, b.strides] >= USES
            most = self._piece(a, b, out, None) if often else None
            return ([], 0) if most is None else (self._by_panels(a, b, out, most), 1)
        total = self._added(number, out)
        if total is None or a.strides[0] != a.itemsize or a.shape[1] > LONG or b.shape[1] % COLUMNS:
            return [], 0
        most = self._piece(a, b, out, total) if b.strides[1] == b.itemsize else None
        return ([], 0) if most is None else ([self._record(a, b, total, b.strides[0] // 4, COLUMNS, most, True)], 2)

    def _tries_once(self) -> bool:
        """Whether BLAS adds in the order of packed.c at all: else no shape needs a trial."""
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((16, 64), np.float32), rng.standard_normal((64, 64), np.float32)
        return self._agrees(a, b, np.empty((16, 64), np.float32), None, 0)

    def _added(self, number: int, product: Array) -> Array | None:
        """To what the next call adds this product, in place, if nobody else reads the product."""
        if number + 1 not in self._dead or not _same(self._dead[number + 1], product):
            return None
        first, second, out = self._calls[number + 1][1]
        total = second if _same(first, product) else first
        a, b = self._calls[number][1][:2]
        apart = not any(np.may_share_memory(total, x) for x in (a, b, product))
        return total if _same(total, out) and apart and _usual(total) else None

    # Records

    def _record(self, a: Array, w: Array, out: Array, row: int, panel: int, most: int, add: bool) -> Record:
        dims = [*a.shape, out.shape[1], most]
        steps = [a.strides[0] // 4, a.strides[1] // 4, row, panel, out.strides[0] // 4, add]
        return self._lowering.record(self._own.address("product"), [a, w, out], [], dims, steps)

    def _packed(self, b: Array) -> tuple[Array, Record]:
        panels = self._lowering.empty((-(-b.shape[1] // COLUMNS), b.shape[0], COLUMNS), b.dtype)
        return panels, self._lowering.record(self._own.address("pack"), [b, panels], [], b.shape, b.strides)

    def _by_panels(self, a: Array, b: Array, out: Array, most: int) -> list[Record]:
        records, key = [], (address(b), b.shape, b.strides)
        if key not in self._panels:
            self._panels[key], laid_out = self._packed(b)
            records.append(laid_out)
        return [*records, self._record(a, self._panels[key], out, COLUMNS, COLUMNS * len(b), most, False)]

    # Trials

    def _piece(self, a: Array, b: Array, out: Array, total: Array | None) -> int | None:
        """After how many terms a sum is cut; None where BLAS computes other bits, or is as fast."""
        goal = out if total is None else total
        key = (*((x.shape, x.strides) for x in (a, b, out, goal)), total is None)
        if key not in self._tried:
            self._tried[key] = None
            for most in dict.fromkeys((*filter(None, self._tried.values()), *PIECES)):
                if most < a.shape[1] and self._agrees(a, b, out, total, most):
                    self._tried[key] = most if self._pays(a, b, out, total, most) else None
                    break
        return self._tried[key]

    def _agrees(self, a: Array, b: Array, out: Array, total: Array | None, most: int) -> bool:
        contest = _Contest(self, a, b, out, total, most)
        again = max(0, ROWS // len(a) - 1, TERMS // (out.size * a.shape[1]) - 1)  # as where columns are left out
        return all(contest.agrees(special) for special in (*SPECIAL, *((),) * min(again, ROWS)))

    def _pays(self, a: Array, b: Array, out: Array, total: Array | None, most: int) -> bool:
        contest = _Contest(self, a, b, out, total, most)
        contest.agrees(())
        return contest.times(0) < FASTER * contest.times(1)


class _Contest:
    """One product, or its addition to a total, by packed.c and by BLAS, on numbers that lie in memory as given."""

    def __init__(self, packing: Packing, a: Array, b: Array, out: Array, total: Array | None, most: int) -> None:
        self._rng = rng = np.random.default_rng(0)
        goal = out if total is None else total
        self._given = x, y = filled(a, rng), filled(b, rng)
        self._mine, self._right, product = filled(goal, rng), filled(goal, rng), filled(out, rng)
        lowering = packing._lowering
        if total is None:
            panels, laid_out = packing._packed(y)
            lowering.kept.pop()  # the panels are this contest's own
            self._before = _words([laid_out])
            mine = packing._record(x, panels, self._mine, COLUMNS, COLUMNS * len(y), most, False)
            theirs = lowering.matmul(x, y, self._right)
        else:
            panels, self._before = None, _words([])
            mine = packing._record(x, y, self._mine, y.strides[0] // 4, COLUMNS, most, True)
            theirs = [*lowering.matmul(x, y, product), *lowering.ufunc(np.add, self._right, product, self._right)]
        self._kept = product, panels
        self._ways = [mine], theirs
        self._often = max(1, CLOCK // (out.size * a.shape[1]))
        self._run = packing._run

    def agrees(self, special: Sequence[float]) -> bool:
        """Whether both give the same bits; with these among the numbers."""
        for x in self._given:
            x[...] = self._rng.standard_normal(x.shape)
            if special:
                x[...] = np.where(self._rng.random(x.shape) < 0.2, self._rng.choice(special, x.shape), x)
        self._mine[...] = self._right
        self._play(self._before)
        for records in self._ways:
            self._play(_words(records))
        return bool(self._mine.tobytes() == self._right.tobytes())

    def times(self, way: int) -> float:
        words, found = _words(self._ways[way] * self._often), []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            self._play(words)
            found.append(time.perf_counter() - start)
        return min(found)

    def _play(self, words: Array) -> None:
        flags = np.zeros(1, np.int64)
        self._run(address(words), 0, len(words), address(flags))


def _words(records: Sequence[Record]) -> Array:
    return np.array([word for record in records for word in record.words], np.int64)


def _usual(x: Any) -> bool:
    """A matrix of float32 whose rows and columns lie in whole numbers of numbers, forwards."""
    good = isinstance(x, np.ndarray) and x.ndim == 2 and x.size > 0 and x.dtype == np.float32 and x.flags.aligned
    return bool(good and min(x.strides) > 0 and not any(stride % 4 for stride in x.strides))


def _same(x: Array, y: Array) -> bool:
    return address(x) == address(y) and x.shape == y.shape and x.strides == y.strides
