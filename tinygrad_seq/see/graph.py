"""The graph of a flow, as it is drawn: what has a name, what lies between, and what is folded into one box."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.backward import sweep
from ..engine.ops import concat_, getitem, stack_
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from ..reading.ledger import look
from ..reading.table import number
from ..reading.tape import Flow, Tape
from ..reading.visibility import who_sees_whom

SUBSCRIPTS = str.maketrans("-0123456789", "₋₀₁₂₃₄₅₆₇₈₉")
FOLDS = ("fit", "gates", "step", None)
LONGEST = 12  # letters of a label in a box


@dataclass(frozen=True, eq=False)
class Fold:
    """Tensors that are drawn as one box: a name at the steps that are left out, or all that a step carries on.

    `steps`: the first and the last of them (of columns, where nothing has a step: not `stepped`). `run`: whether it
    stands for steps that are left out. `step` is the first, and `name` and `scope` are theirs, as a tensor has them.
    """

    name: str
    scope: str
    steps: tuple[int, int]
    run: bool
    stepped: bool
    tensors: list[Tensor]

    @property
    def step(self) -> int | None:
        return self.steps[0] if self.stepped else None


Box = Tensor | Fold


@dataclass(frozen=True, eq=False)
class Edge:
    """`target` was computed from `source`, through nothing else that is drawn. `credit`: what goes back from the one to
    the other, None where a cut, a held tensor or a constant stops it. Of a fold it is that of all its tensors, joined
    in one row, in the order of the fold."""

    source: Any
    target: Any
    credit: Array | None

    @property
    def carries(self) -> bool:
        """Whether any credit goes back."""
        return self.credit is not None and bool(self.credit.any())


class Graph:
    """`nodes` (tensors, and folds of several) in `columns` (their steps), the `edges` between them, and what several
    steps read, `shared`; of these, `ledgers` are those that get a gradient."""

    def __init__(
        self,
        flow: Flow,
        steps: tuple[int, int] | None = None,
        everything: bool = False,
        only: Sequence[str] | str | None = None,
        fold: str | None = None,
    ) -> None:
        if steps is not None and (not isinstance(steps, (tuple, list)) or len(steps) != 2):
            raise ValueError(f"steps are the first and the last to draw, as in steps=(1, 4); got {steps!r}")
        if everything and (only is not None or fold in ("gates", "step")):
            raise ValueError("everything=True draws each operation: leave out only= and fold=, which draw less")
        self.flow, self.steps, self.fold = flow, steps, fold
        tape = flow.tape
        order, results = tape.recorded(), set(tape.results)
        names = None if only is None else (only,) if isinstance(only, str) else tuple(only)
        for name in names or ():
            tape.find(name)  # it lists what there is
        leaves, named = _drawn(tape, order, names, everything)
        self._records = {t: t.record for t in order}
        read_at: dict[Tensor, set[int | None]] = {}
        self._first_read: dict[Tensor, int] = {}
        for t, record in self._records.items():
            for x in record.inputs if record is not None else ():
                if isinstance(x, Tensor):
                    read_at.setdefault(x, set()).add(t.step)
                    self._first_read.setdefault(x, self.number(t))
        self.shared = [x for x in _leaves(tape) if len(read_at.get(x, ())) > 1]
        self.ledgers = [x for x in self.shared if x.requires_grad]
        shared = set(self.shared)
        drawn = [x for x in (*leaves, *named) if x not in shared]
        self._stops, self._known = {*leaves, *named}, dict[Tensor, dict[Tensor, Array | None]]()
        edges = [e for e in self._edges(order, self._stops) if e.source not in shared]
        if fold in ("gates", "step"):
            onward = [e.source for e in edges if (e.source.step, e.source.scope) != (e.target.step, e.target.scope)]
            lanes = {(x.scope, called(x)) for x in onward}
            drawn = [
                x for x in drawn
                if x.step is None or x in results or x not in self._records or (x.scope, called(x)) in lanes
            ]  # fmt: skip
            self._stops = {*shared, *drawn}
            edges = [e for e in self._edges(order, self._stops) if e.source not in shared]
        self.folded = sorted({x.name for x in order if x.name and x.step is not None} - {x.name for x in drawn})
        if steps is not None:
            drawn = [x for x in drawn if x.step is None or steps[0] <= x.step <= steps[1]]
        within = set(drawn)
        edges = [e for e in edges if e.source in within and e.target in within]
        joined = results.union(*((e.source, e.target) for e in edges))
        drawn = [x for x in drawn if x.step is not None or x in joined]
        if not drawn:
            raise ValueError(f"there is nothing to draw at steps {steps}: {tape!r}")
        self.stepped = any(x.step is not None for x in drawn)
        self._drawn, self._fine = drawn, edges
        self._column = self._columns(drawn, edges, read_at)
        self.arrange()

    def arrange(self, left_out: tuple[int, int] | None = None) -> None:
        """Put what is drawn into boxes and columns. `left_out`: the first and the last of a run of steps (where there
        are no steps, of columns) that is drawn as one column, "…"."""
        drawn = self._drawn
        self.left_out = left_out
        self._shown: list[Edge] | None
        self.at: dict[Box, float] = dict(self._column.items())
        self.lane = _lanes(drawn, self.at)
        boxes = self._boxes(drawn, self.fold == "step")
        self._pairs, self._shown = self._between(boxes), None
        ends = {x for pair in self._pairs for x in pair}
        self.nodes: list[Any] = [x for x in dict.fromkeys(boxes[x] for x in drawn) if self._stands(x, ends)]
        self.columns: dict[float, list[Box]] = {}
        for x in self.nodes:
            self.columns.setdefault(self.at[x], []).append(x)
        self.columns = dict(sorted(self.columns.items()))
        self._scopes: dict[str, set[str]] = {}
        for y in (*self.nodes, *self.shared):
            self._scopes.setdefault(called(y), set()).add(y.scope)

    def _stands(self, x: Box, ends: set[Any]) -> bool:
        """Whether a box is worth its place: what no step has and the run that is left out need an edge."""
        alone = math.isinf(self.at[x]) or self._hidden(x)
        return self.left_out is None or not alone or x in ends or x in self.flow.tape.results

    def _hidden(self, x: Box) -> bool:
        """Whether a box stands for steps that are left out."""
        return self.left_out is not None and self.left_out[0] <= self.at[x] <= self.left_out[1]

    def _columns(
        self, drawn: list[Tensor], edges: list[Edge], read_at: dict[Tensor, set[int | None]]
    ) -> dict[Tensor, float]:
        """Where each tensor stands: at its step; what belongs to none, before the steps if they read it or it was
        computed before them, else after them. Where nothing has a step, as far from the leaves as it was computed."""
        if not self.stepped:
            depth = dict.fromkeys(drawn, 0.0)
            for e in sorted(edges, key=lambda e: self.number(e.target)):
                depth[e.target] = max(depth[e.target], depth[e.source] + 1)
            reader: dict[Tensor, float] = {}
            for e in edges:
                if e.source not in self._records:  # a leaf stands just before its first reader
                    reader[e.source] = min(reader.get(e.source, math.inf), depth[e.target])
            return {x: reader[x] - 1 if x in reader else depth[x] for x in drawn}
        first = min((self.number(t) for t in self._records if t.step is not None), default=0)
        backward = _reversed(edges)

        def column(x: Tensor) -> float:
            if x.step is not None:
                return x.step
            if x in self._records:
                return -math.inf if self.number(x) < first else math.inf
            before = self._first_read.get(x, first) < first or any(step is not None for step in read_at.get(x, ()))
            return -math.inf if before and x.scope not in backward else math.inf

        return {x: column(x) for x in drawn}

    def _boxes(self, drawn: list[Tensor], by_step: bool) -> dict[Tensor, Box]:
        """What each tensor is drawn as: itself, or a fold of all that are drawn as one."""
        folds: dict[Any, list[Tensor]] = {}
        for x in drawn:
            if self._hidden(x):
                folds.setdefault((x.scope, "") if by_step else self.lane[x], []).append(x)
            elif by_step and x.step is not None and x in self._records:
                folds.setdefault((x.scope, x.step), []).append(x)
        boxes: dict[Tensor, Box] = {x: x for x in drawn}
        for key, tensors in folds.items():
            x, run = tensors[0], self._hidden(tensors[0])
            if len(tensors) > 1 or run:
                name = ", ".join(dict.fromkeys(map(called, tensors)))
                steps = self.left_out if run and self.left_out is not None else (int(self.at[x]), int(self.at[x]))
                box = Fold(name, x.scope, steps, run, self.stepped, tensors)
                self.at[box], self.lane[box] = steps[0], (x.scope, name, 1) if len(key) == 2 else self.lane[x]
                boxes |= dict.fromkeys(tensors, box)
        return boxes

    def _between(self, boxes: dict[Tensor, Box]) -> dict[tuple[Box, Box], list[Edge]]:
        """Which boxes have edges between them, and those of their tensors.

        What goes into a run of steps that are left out goes into the box of its own name there.
        """
        lane, folds = self.lane, {box for box in boxes.values() if isinstance(box, Fold)}
        runs = {key: box for box in folds if box.run for key in {lane[box], *(lane[t] for t in box.tensors)}}
        found: dict[tuple[Box, Box], list[Edge]] = {}
        for e in self._fine:
            source, target = boxes[e.source], boxes[e.target]
            if isinstance(target, Fold) and target.run:
                if isinstance(source, Fold) and source.run:
                    continue
                target = runs.get(lane[e.source], target)
            if source is not target:
                found.setdefault((source, target), []).append(e)
        return found

    @property
    def edges(self) -> list[Edge]:
        """The edges between what is drawn: what goes back to a tensor of the source is added up over the target's."""
        if self._shown is None:
            self._shown = []
            for (source, target), edges in self._pairs.items():
                sent: dict[Tensor, Array | None] = {}
                for e in edges:
                    credits = self._credits(e.target)
                    if e.source in credits:
                        old, new = sent.get(e.source), credits[e.source]
                        sent[e.source] = new if old is None else old if new is None else old + new
                if sent:
                    self._shown.append(Edge(source, target, _joined(source, sent)))
        return self._shown

    def number(self, x: Tensor) -> int:
        """Its place in the order of recording; 0 for a leaf."""
        record = self._records.get(x)
        return 0 if record is None else record.number

    def computed(self, x: Box) -> bool:
        """Whether an operation on the tape made it."""
        return isinstance(x, Fold) or x in self._records

    def label(self, x: Any) -> str:
        """The name of a tensor and its step, h₂; with its scope where that tells it from another."""
        name = called(x)
        if x.scope and len(self._scopes.get(name, ())) > 1:
            name = f"{x.scope}.{name}"
        return printable(name) + _subscript(x)

    def short_label(self, x: Any) -> str:
        """What stands in a box: the name and the step, without the scope, which the band has."""
        step = _subscript(x)
        return cut_short(printable(called(x)), max(LONGEST - len(step), 3)) + step

    def ledger_label(self, x: Any) -> str:
        """What stands before the ledger of a tensor: the name, and the scope where there are several."""
        name = printable(
            f"{x.scope}.{called(x)}" if x.scope and len({y.scope for y in self.ledgers}) > 1 else called(x)
        )
        return cut_short(name, 2 * LONGEST)

    def value(self, x: Box) -> str:
        """What is said of the value: the number, of an array its norm; of a run that is left out, nothing."""
        if isinstance(x, Tensor):
            return short(array_of(x))
        return "" if x.run else short(np.concatenate([array_of(t).ravel() for t in x.tensors]))

    def gradient(self, x: Box) -> str:
        """What is said of the gradient of a tensor: the number, of an array its norm, a dash where no credit came."""
        tensors = [x] if isinstance(x, Tensor) else x.tensors
        if isinstance(x, Fold) and x.run:
            return ""
        if not any(t in self.flow._arrived for t in tensors):
            return "—"
        return short(self.flow[tensors[0]] if len(tensors) == 1 else np.concatenate([self.credit(t) for t in tensors]))

    def credit(self, t: Tensor) -> Array:
        """The gradient as a row of numbers."""
        return self.flow[t].ravel() if t.requires_grad else np.zeros(t.size)

    def step_columns(self) -> list[float]:
        """The columns that are steps."""
        return [column for column in self.columns if self.stepped and math.isfinite(column)]

    def said(self) -> list[str]:
        """What is left out of the drawing, in sentences."""
        told, run = [], self.left_out
        if self.steps is not None:
            told.append(f"Of the steps only {self.steps[0]} to {self.steps[1]} are drawn.")
        if run is not None and self.stepped:
            told.append(f"Steps {run[0]} to {run[1]} are folded into the boxes under …, with all the credit of theirs.")
        elif run is not None:
            told.append("What lies between the first and the last is folded into the boxes with …")
        if self.fold == "step":
            told.append("What a layer carries on from a step is one box.")
        if self.folded:
            names = ", ".join(map(printable, self.folded[:12])) + ", …" * (len(self.folded) > 12)
            told.append(f"Folded into the edges, which carry their credit: {names}.")
        return told

    def strip(self) -> list[tuple[str, str, list[tuple[int, float]]]]:
        """For each name that goes on from step to step: scope, name, and the size of its gradient at every step."""
        onward = {self.lane[e.source] for e in self._fine if self._later(e)}
        found: dict[Any, list[tuple[int, float]]] = {}
        for x in self._drawn:
            if x.step is not None and self.lane[x] in onward and x in self._records:
                size = amount(self.flow[x]) if x in self.flow._arrived else 0.0
                found.setdefault(self.lane[x][:2], []).append((x.step, size))
        return [(scope, str(name), sorted(sizes)) for (scope, name), sizes in found.items()]

    def _later(self, e: Edge) -> bool:
        a, b = e.source.step, e.target.step
        return a is not None and b is not None and a != b and e.source.scope == e.target.scope

    def _edges(self, order: Sequence[Tensor], drawn: set[Tensor]) -> list[Edge]:
        """Between what is drawn, through what is not; their credit is asked for when they are to be seen."""
        return [Edge(x, t, None) for t in order if t in drawn for x in self._behind(t, drawn)[1]]

    def _credits(self, t: Tensor) -> dict[Tensor, Array | None]:
        """What goes back from t to each tensor behind it that is drawn, by a pass from t alone."""
        if t in self._known:
            return self._known[t]
        flow, arrived = self.flow, dict[Tensor, Any]()
        behind, sources, followed = self._behind(t, self._stops)
        if (g := flow._arrived.get(t)) is not None:

            def crosses(u: Tensor, i: int) -> bool:
                return (u, i) in followed and (flow._crosses is None or flow._crosses(u, i))

            arrived = sweep(list(behind), {t: np.array(g)}, crosses)
        # What reads a part of a joined sequence was not computed from the other parts.
        silent = [x for x in sources if x.requires_grad and (x not in arrived or not arrived[x].any())]
        seen_at_all = who_sees_whom(behind, [(t, (...,))], [(x, (...,)) for x in silent])
        unread = {x for x, read in zip(silent, seen_at_all[0], strict=True) if not read}
        sent = {x: np.array(arrived[x]) if x in arrived else None for x in sources if x not in unread}
        self._known[t] = sent
        return sent

    def _behind(self, t: Tensor, drawn: set[Tensor]) -> tuple[list[Tensor], list[Tensor], set[tuple[Tensor, int]]]:
        """The operations behind t up to what is drawn, as recorded; what is drawn there; the edges (operation, input).

        Of a sequence that was stacked from its steps, whoever reads step k is followed to step k alone: else a drawing
        of layers above one another would look at all steps from each.
        """
        waiting: list[tuple[Tensor, int | None]] = [(t, None)]  # k: only the k-th entry along the first axis is read
        seen: set[tuple[Tensor, int | None]] = {(t, None)}
        sources, followed = dict[Tensor, None](), set[tuple[Tensor, int]]()
        for u, k in waiting:  # the list grows as it is walked
            record = self._records[u]
            assert record is not None
            for i, part in _inputs(u, record, k):
                x = record.inputs[i]
                followed.add((u, i))
                if x in drawn:
                    sources[x] = None
                elif x in self._records and (x, part) not in seen:
                    seen.add((x, part))
                    waiting.append((x, part))
        behind = sorted({u for u, _ in waiting}, key=self.number)
        return behind, list(sources), followed


def _drawn(
    tape: Tape, order: Sequence[Tensor], only: tuple[str, ...] | None, everything: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """The leaves and the computed tensors to draw: what has a name; all, where there are no names."""
    results = set(tape.results)
    if only is not None:
        named = [t for t in order if _asked(t, only) or t in results]
        return [x for x in _leaves(tape) if _asked(x, only)], named
    named = [t for t in order if t.name or t in results]
    if everything or len(named) <= len(results):
        named = list(order)
    return _leaves(tape), named


def _leaves(tape: Tape) -> list[Tensor]:
    """Parameters, and constants that have a name; no masks, which say where to look and are not computed with."""
    return [x for x in tape.leaves if x.requires_grad or (x.name and x.dtype.kind != "b")]


def _asked(x: Tensor, only: tuple[str, ...]) -> bool:
    return x.name is not None and (x.name in only or f"{x.scope}.{x.name}" in only)


def _reversed(edges: Iterable[Edge]) -> set[str]:
    """The scopes in which values run from later steps to earlier ones."""
    onward = Counter[str]()
    for e in edges:
        a, b = e.source.step, e.target.step
        if a is not None and b is not None and e.source.scope == e.target.scope:
            onward[e.source.scope] += (b > a) - (b < a)
    return {scope for scope, steps in onward.items() if steps < 0}


def _lanes(drawn: Iterable[Tensor], at: dict[Box, float]) -> dict[Box, Any]:
    """Equal names, and the same unnamed operations in the same order, share a lane."""
    lane: dict[Box, Any] = {}
    times = Counter[Any]()
    for x in drawn:
        kind = (x.scope, called(x))
        times[at[x], kind] += 1
        lane[x] = (*kind, times[at[x], kind])
    return lane


def _joined(source: Box, sent: dict[Tensor, Array | None]) -> Array | None:
    if isinstance(source, Tensor):
        return sent[source]
    if all(credit is None for credit in sent.values()):
        return None
    parts = [sent.get(t) for t in source.tensors]
    return np.concatenate([
        np.zeros(t.size) if part is None else part.ravel() for t, part in zip(source.tensors, parts, strict=True)
    ])  # fmt: skip


def _inputs(u: Tensor, record: Any, k: int | None) -> Iterator[tuple[int, int | None]]:
    """The inputs of an operation that its k-th entry needs (all: None), and which of their entries."""
    operation, options = record.operation, record.options
    axis = options.get("axis", 0)
    if k is not None and operation is stack_ and axis == 0:
        yield from ((i, None) for i in range(k, k + 1) if isinstance(record.inputs[i], Tensor))
        return
    inputs = [(i, x) for i, x in enumerate(record.inputs) if isinstance(x, Tensor)]
    if operation is getitem and k is None:
        first = options["index"][0]
        k = range(len(inputs[0][1]))[first] if isinstance(first, int) else None
        yield inputs[0][0], k
    else:
        along = k is not None and (operation.elementwise or (operation is concat_ and axis % u.ndim != 0))
        for i, x in inputs:
            yield i, k if along and x.shape[:1] == u.shape[:1] and x.ndim == u.ndim else None


def called(x: Any) -> str:
    """What a box is called: its name, else the operation that made it, else what kind of leaf it is."""
    if isinstance(x, Fold):
        return x.name
    return x.name or x.operation or ("parameter" if x.requires_grad else "constant")


def _subscript(x: Any) -> str:
    if isinstance(x, Fold) and x.run:
        if not x.stepped:
            return " …"
        return f"{str(x.steps[0]).translate(SUBSCRIPTS)}…{str(x.steps[1]).translate(SUBSCRIPTS)}"
    return "" if x.step is None else str(x.step).translate(SUBSCRIPTS)


def cut_short(text: str, letters: int) -> str:
    """At most so many letters, the last one of a longer text being …"""
    return text if len(text) <= letters else text[: letters - 1] + "…"


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
