"""The graph of a flow, as it is drawn: what has a name, and what lies between."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.backward import sweep
from ..engine.ops import concat_, getitem, stack_
from ..engine.signatures import Array
from ..engine.tensor import Tensor
from ..reading.ledger import look
from ..reading.table import number
from ..reading.tape import Flow
from ..reading.visibility import who_sees_whom

SUBSCRIPTS = str.maketrans("-0123456789", "₋₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True, eq=False)
class Edge:
    """`target` was computed from `source`, through nothing else that is drawn. `credit`: what goes back from the one to
    the other, None where a cut, a held tensor or a constant stops it."""

    source: Tensor
    target: Tensor
    credit: Array | None

    @property
    def carries(self) -> bool:
        """Whether any credit goes back."""
        return self.credit is not None and bool(self.credit.any())


class Graph:
    """`nodes` (tensors) in `columns` (their steps), the `edges` between them, and what several steps read, `shared`;
    of these, `ledgers` are those that get a gradient."""

    def __init__(self, flow: Flow, steps: tuple[int, int] | None, everything: bool) -> None:
        if steps is not None and (not isinstance(steps, (tuple, list)) or len(steps) != 2):
            raise ValueError(f"steps are the first and the last to draw, as in steps=(1, 4); got {steps!r}")
        self.flow, tape, self.steps = flow, flow.tape, steps
        order = tape.recorded()
        leaves, results = [x for x in tape.leaves if x.requires_grad or x.name], set(tape.results)
        named = [t for t in order if t.name or t in results]
        if everything or len(named) <= len(results):
            named = order
        read_at: dict[Tensor, set[int | None]] = {}
        for t in order:
            for x in t._inputs:
                if isinstance(x, Tensor):
                    read_at.setdefault(x, set()).add(t.step)
        self.shared = [x for x in leaves if len(read_at.get(x, ())) > 1]
        self.ledgers = [x for x in self.shared if x.requires_grad]
        edges = _edges(flow, [t for t in order if _within(t, steps)], {*leaves, *named})
        hidden = {*self.shared, *(x for x in (*leaves, *named) if not _within(x, steps))}
        self.edges = [e for e in edges if e.source not in hidden and e.target not in hidden]
        joined = results.union(*((e.source, e.target) for e in self.edges))
        self.nodes = [x for x in (*leaves, *named) if x not in hidden and (x.step is not None or x in joined)]
        self._scopes: dict[str, set[str]] = {}
        for x in (*self.nodes, *self.shared):
            self._scopes.setdefault(x.name or x.operation or "constant", set()).add(x.scope)
        if not self.nodes:
            raise ValueError(f"there is nothing to draw at steps {steps}: {tape!r}")
        first = next((t._number for t in order if t.step is not None), None)
        self.columns: dict[float, list[Tensor]] = {}
        for x in self.nodes:
            self.columns.setdefault(_column(x, first, read_at.get(x, set())), []).append(x)
        self.columns = dict(sorted(self.columns.items()))

    def label(self, x: Tensor) -> str:
        """The name of a tensor and its step, h₂; with its scope where that tells it from another."""
        name = x.name or x.operation or "constant"
        if x.scope and len(self._scopes[name]) > 1:
            name = f"{x.scope}.{name}"
        return printable(name) if x.step is None else printable(name) + str(x.step).translate(SUBSCRIPTS)

    def gradient(self, x: Tensor) -> str:
        """What is said of the gradient of a tensor: the number, of an array its norm, a dash where no credit came."""
        return short(self.flow[x]) if x in self.flow._arrived else "—"


def _column(x: Tensor, first: int | None, read_at: Set[int | None]) -> float:
    """Where a tensor stands: at its step; what belongs to none, before the steps if they read it or it was computed
    before them, else after them."""
    if x.step is not None:
        return x.step
    before = any(step is not None for step in read_at) if x._operation is None else first and x._number < first
    return -math.inf if before else math.inf


def _within(x: Tensor, steps: tuple[int, int] | None) -> bool:
    return steps is None or x.step is None or steps[0] <= x.step <= steps[1]


def _edges(flow: Flow, targets: Sequence[Tensor], drawn: set[Tensor]) -> list[Edge]:
    """Between what is drawn, through what is not; the credit of each by a pass from its target alone."""
    found = []
    for t in targets:
        if t not in drawn:
            continue
        behind, sources, followed = _behind(t, drawn)
        arrived: dict[Tensor, Any] = {}
        if (g := flow._arrived.get(t)) is not None:

            def crosses(u: Tensor, i: int, followed: set[tuple[Tensor, int]] = followed) -> bool:
                return (u, i) in followed and (flow._crosses is None or flow._crosses(u, i))

            arrived = sweep(list(behind), {t: np.array(g)}, crosses)
        # What reads a part of a joined sequence was not computed from the other parts.
        silent = [x for x in sources if x._requires and (x not in arrived or not arrived[x].any())]
        seen_at_all = who_sees_whom(behind, [(t, (...,))], [(x, (...,)) for x in silent])
        unread = {x for x, read in zip(silent, seen_at_all[0], strict=True) if not read}
        found += [Edge(x, t, np.array(arrived[x]) if x in arrived else None) for x in sources if x not in unread]
    return found


def _behind(t: Tensor, drawn: set[Tensor]) -> tuple[list[Tensor], list[Tensor], set[tuple[Tensor, int]]]:
    """The operations behind t up to what is drawn, as recorded; what is drawn there; the edges (operation, input).

    Of a sequence that was stacked from its steps, whoever reads step k is followed to step k alone: else a drawing of
    layers above one another would look at all steps from each.
    """
    waiting: list[tuple[Tensor, int | None]] = [(t, None)]  # k: only the k-th entry along the first axis is read
    seen: set[tuple[Tensor, int | None]] = {(t, None)}
    sources, followed = dict[Tensor, None](), set[tuple[Tensor, int]]()
    for u, k in waiting:  # the list grows as it is walked
        for i, part in _inputs(u, k):
            x = u._inputs[i]
            followed.add((u, i))
            if x in drawn:
                sources[x] = None
            elif x._operation is not None and (x, part) not in seen:
                seen.add((x, part))
                waiting.append((x, part))
    behind = sorted({u for u, _ in waiting}, key=lambda u: u._number)
    return behind, list(sources), followed


def _inputs(u: Tensor, k: int | None) -> Iterator[tuple[int, int | None]]:
    """The inputs of an operation that its k-th entry needs (all: None), and which of their entries."""
    inputs = [(i, x) for i, x in enumerate(u._inputs) if isinstance(x, Tensor)]
    axis = u._options.get("axis", 0)
    if u._operation is getitem and k is None:
        first = u._options["index"][0]
        k = range(len(inputs[0][1]))[first] if isinstance(first, int) else None
        yield inputs[0][0], k
    elif k is not None and u._operation is stack_ and axis == 0:
        yield from ((i, None) for i, _ in inputs if i == k)
    else:
        along = k is not None and (u._operation.elementwise or (u._operation is concat_ and axis % u.ndim != 0))
        for i, x in inputs:
            yield i, k if along and x.shape[:1] == u.shape[:1] and x.ndim == u.ndim else None


def printable(text: str) -> str:
    """A name without what no page takes, such as the signs that steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def amount(array: Any) -> float:
    """How much an array is: the absolute value of a number, else the norm."""
    return float(abs(look(np.asarray(array))))


def short(array: Any) -> str:
    """A number with four digits; of an array the norm."""
    value = look(np.asarray(array))
    text = f"{value:.4g}" if np.iscomplexobj(value) else number(float(value), 4)
    return text if np.size(array) == 1 else f"‖{text}‖"
