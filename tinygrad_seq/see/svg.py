"""A graph on a page: where everything stands, and the SVG of it.

What stands for a tensor or an edge says so, for a page that writes other numbers there: `data-node` and `data-edge` are
places in `graph.nodes` and `graph.edges`, and `data-cell` tells a text's content: `value 3` and `credit 3` of a node,
`use 0 2` what the uses of the first ledger give at step 2, `sum 0` what all of them do.
"""

from __future__ import annotations

import html
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import chain, count
from typing import Any

from ..engine.tensor import Tensor
from .graph import Edge, Graph, amount, printable, short

DECADES = 4  # how far below the largest credit an edge is still wider than a hairline
BOX, GAP, LANE, HEIGHT, TOP = 92, 40, 62, 46, 34  # of boxes: width, space beside, from row to row, height, first row
CREDIT, VALUE, CUT = "#d9721f", "#9aa5b1", "#c81e1e"
STYLE = f"""
text {{ font: 12px system-ui, sans-serif; fill: #1f2933; text-anchor: middle }}
.name {{ font-weight: 600; font-size: 13px }}
.credit {{ fill: #b3500f }}
.quiet {{ fill: #697586 }}
.left {{ text-anchor: start }}
.right {{ text-anchor: end }}
.box {{ fill: #fff; stroke: #7b8794 }}
.result {{ stroke: #1f2933; stroke-width: 2 }}
.held {{ stroke: {CUT}; stroke-dasharray: 5 3 }}
.column {{ fill: #f3f5f7 }}
.edge {{ fill: none; stroke: {CREDIT} }}
.value {{ stroke: {VALUE}; stroke-width: 1; stroke-dasharray: 2 4 }}
.head {{ fill: {CREDIT} }}
.value-head {{ fill: {VALUE} }}
.cut {{ stroke: {CUT}; stroke-width: 2; stroke-dasharray: 6 4 }}
"""
LEGEND = {
    "credit goes back": '<path class="edge" stroke-width="4" d="M{0} {1}h30"/>',
    "only the value goes on": '<path class="edge value" d="M{0} {1}h30"/>',
    "cut": '<path class="cut" d="M{0} {1}h30"/>',
    "held": '<rect class="box held" x="{0}" y="{2}" width="30" height="12" rx="3"/>',
}
NOTES = "Below a value its gradient. An edge is the wider the more credit it carries: counted in powers of ten."
NORMS = " Of arrays the ‖norm‖, and norms do not add up as the arrays do."


class Sheet:
    """Where everything stands on the page."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.results = graph, set(graph.flow.tape.results)
        labels = [graph.label(x) for x in (*graph.nodes, *graph.shared)]
        self.box = max(BOX, 14 + 8 * max(map(len, labels)))
        lane, column = self._lanes(), {x: c for c, members in graph.columns.items() for x in members}
        depth = dict.fromkeys(graph.nodes, 0)
        for e in sorted(graph.edges, key=lambda e: e.target._number):
            if column[e.source] == column[e.target]:
                depth[e.target] = max(depth[e.target], depth[e.source] + 1)
        # How far to the right in its column: the same at every step.
        alike = {x: (lane[x], column[x] if math.isinf(column[x]) else None) for x in graph.nodes}
        rank: dict[Any, int] = {}
        for x in graph.nodes:
            rank[alike[x]] = max(rank.get(alike[x], 0), depth[x])
        self.rank = {x: rank[alike[x]] for x in graph.nodes}
        self.column, self.left, self.right = column, dict[float, float](), dict[float, float]()
        right = 8.0
        if graph.ledgers and -math.inf not in graph.columns:
            right += self.box  # their names stand there
        for name, members in graph.columns.items():
            self.left[name] = right
            right += (1 + max(self.rank[x] for x in members)) * (self.box + GAP)
            self.right[name] = right
        self.end = right  # and there their sums, with what no step of the drawing gives
        if graph.ledgers:
            after = self.right[math.inf] - self.left[math.inf] if math.inf in graph.columns else 0.0
            self.end += max(0.0, (self.box + GAP if graph.steps is None else 220) - after)
        self.said = [said for said in LEGEND if said not in ("cut", "held")]
        self.said += ["cut"] * bool(self._boundaries()) + ["held"] * bool(graph.flow.holding & set(graph.nodes))
        arrays = any(x.size > 1 for x in (*graph.nodes, *graph.shared))
        self.notes = [NOTES + NORMS * arrays]
        if graph.steps is not None:
            self.notes.append(f"Of the steps only {graph.steps[0]} to {graph.steps[1]} are drawn.")
        self.width = max(self.end + 8, 20 + 6.2 * max(map(len, self.notes)))
        self.row = self._rows(lane, column)
        self.standing: dict[int, list[float]] = {}  # in each row, from left to right
        for x in sorted(graph.nodes, key=self.place):
            self.standing.setdefault(self.row[x], []).append(self.place(x)[0])
        self.bottom = TOP + LANE * (1 + max(self.row.values()))
        amounts = [amount(e.credit) for e in graph.edges if e.credit is not None]
        self.largest = max(filter(math.isfinite, amounts), default=0.0)

    def _lanes(self) -> dict[Tensor, Any]:
        """Equal names, and the same unnamed operations in the same order, share a lane."""
        lane: dict[Tensor, Any] = {}
        for members in self.graph.columns.values():
            times = Counter[Any]()
            for x in members:
                kind = (x.scope, x.name or x.operation)
                times[kind] += 1
                lane[x] = (*kind, times[kind])
        return lane

    def _rows(self, lane: dict[Tensor, Any], column: dict[Tensor, float]) -> dict[Tensor, int]:
        """A row for each lane of the steps; what stands before and after them, beside what it is connected with."""
        nodes = sorted(self.graph.nodes, key=lambda x: (x._operation is None, x._number))
        taken = {key: k for k, key in enumerate(dict.fromkeys(lane[x] for x in nodes if math.isfinite(column[x])))}
        row = {x: taken[lane[x]] for x in nodes if lane[x] in taken}
        used = {(column[x], self.rank[x], k) for x, k in row.items()}
        beside: dict[Tensor, list[Tensor]] = {}
        for e in self.graph.edges:
            beside.setdefault(e.target, []).append(e.source)
            beside.setdefault(e.source, []).append(e.target)
        for x in nodes:
            if x not in row:
                near = [row[y] for y in beside.get(x, ()) if y in row]
                free = (k for k in chain(near, count()) if (column[x], self.rank[x], k) not in used)
                row[x] = next(free)
                used.add((column[x], self.rank[x], row[x]))
        return row

    def place(self, x: Tensor) -> tuple[float, float]:
        left = self.left[self.column[x]] + GAP / 2
        return left + self.rank[x] * (self.box + GAP), TOP + LANE * self.row[x]

    def svg(self) -> str:
        edges, nodes = self.graph.edges, self.graph.nodes
        parts = [*self._columns(), *map(self._edge, count(), edges), *map(self._node, count(), nodes)]
        bottom = self.bottom + (24 + 22 * len(self.graph.ledgers) if self.graph.ledgers else 0)
        parts += [*self._ledger(), *self._cuts(), *self._legend(bottom + 18)]
        width, height = f"{self.width:.0f}", f"{bottom + 34 + 18 * len(self.notes):.0f}"
        # a page that this stands in has its own rules: these hold within
        style = "".join(f".unrolled {rule}\n" for rule in STYLE.strip().split("\n"))
        start = f'<svg xmlns="http://www.w3.org/2000/svg" class="unrolled" width="{width}" height="{height}" '
        return "\n".join([
            f'{start}viewBox="0 0 {width} {height}">', f"<style>\n{style}</style>",
            '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>", "",
        ])  # fmt: skip

    def _columns(self) -> Iterator[str]:
        for column, left in self.left.items():
            if math.isfinite(column):
                right = self.right[column]
                yield f'<rect class="column" data-step="{column}" x="{left + 2:.0f}" y="4" rx="6" '
                yield f'width="{right - left - 4:.0f}" height="{self.bottom - 10:.0f}"/>'
                yield f'<text class="quiet" x="{(left + right) / 2:.0f}" y="22">step {column}</text>'

    def _edge(self, k: int, e: Edge) -> str:
        """A path in the direction of what goes along it: credit back, or the value alone on."""
        (x1, y1), (x2, y2) = self.place(e.source), self.place(e.target)
        rise = 2 * HEIGHT / 3 + 10 if y1 == y2 and self._between(e, x1, x2) else 0.0  # over what stands there
        out, into = (1, 1) if x1 < x2 else (-1, -1) if x1 > x2 else (1, -1)  # to the right, or to the left
        ends = [(x1 + self.box * (out > 0), y1 + HEIGHT / 2), (x2 + self.box * (into < 0), y2 + HEIGHT / 2)]
        between = f"{self.graph.label(e.source)} → {self.graph.label(e.target)}"
        if not e.carries:
            said, tip = "the value crosses, the credit does not" if e.credit is None else "credit 0", 6
            look, head = 'class="edge value"', 'class="value-head"'
        else:
            ends.reverse()
            out, into = -into, -out
            share = self._share(amount(e.credit))
            strong = f'opacity="{0.35 + 0.65 * share:.2f}"'
            look, head = f'class="edge" stroke-width="{0.75 + 4.25 * share:.2f}" {strong}', f'class="head" {strong}'
            said, tip = f"credit {short(e.credit)}", 9
        (x1, y1), (x2, y2) = ends
        bend = max(GAP * 0.8, abs(x2 - x1) / 3)
        x3 = x2 - into * tip  # from here on the arrowhead
        path = f"M{x1:.0f} {y1:.0f}C{x1 + out * bend:.0f} {y1 - rise:.0f} "
        path += f"{x3 - into * bend:.0f} {y2 - rise:.0f} {x3:.0f} {y2:.0f}"
        arrow = f"M{x2:.0f} {y2:.0f}L{x3 - into:.0f} {y2 - tip / 1.8:.1f}V{y2 + tip / 1.8:.1f}z"
        title = f"<title>{html.escape(f'{between}: {said}')}</title>"
        return f'<g data-edge="{k}"><path d="{path}" {look}/><path d="{arrow}" {head}/>{title}</g>'

    def _between(self, e: Edge, x1: float, x2: float) -> bool:
        """Whether something stands in the row of an edge between its ends."""
        row = self.standing[self.row[e.source]]
        return row[bisect_right(row, min(x1, x2))] < max(x1, x2)

    def _share(self, amount: float) -> float:
        """How strong an edge looks: 1 for the largest credit, 0 for what is smaller by so many decades, or nothing."""
        if not math.isfinite(amount):
            return 1.0
        return max(1 + math.log10(amount / self.largest) / DECADES, 0.0) if amount else 0.0

    def _node(self, k: int, t: Tensor) -> str:
        x, y = self.place(t)
        result = " result" if t in self.results else " held" if t in self.graph.flow.holding else ""
        lines = [
            ('class="name"', self.graph.label(t)),
            (f'class="number" data-cell="value {k}"', short(t._array)),
            (f'class="credit" data-cell="credit {k}"', self.graph.gradient(t)),
        ]
        texts = [
            f'<text {kind} x="{x + self.box / 2:.0f}" y="{y + 15 + 13.5 * row:.1f}">{html.escape(text)}</text>'
            for row, (kind, text) in enumerate(lines)
        ]
        shape = f'<rect class="box{result}" x="{x:.0f}" y="{y:.0f}" width="{self.box}" height="{HEIGHT}" rx="5"/>'
        title = f"<title>{html.escape(f'{printable(t.label())}, shape {t.shape}')}</title>"
        return f'<g data-node="{k}">{shape}{"".join(texts)}{title}</g>'

    def _ledger(self) -> Iterator[str]:
        """For each shared tensor, what the uses of each step give, and the gradient that they add up to."""
        told = [
            self.graph.flow.uses(x).totals(lambda use: use.step if use.step in self.left else None, short)
            for x in self.graph.ledgers
        ]
        if self.graph.ledgers:
            elsewhere = ", + those at no step of the drawing" * any(None in by_step for by_step, _ in told)
            said = f"What the uses of each step give{elsewhere}"
            yield f'<text class="quiet left" x="12" y="{self.bottom + 16:.0f}">{said}</text>'
        for k, (x, (by_step, total)) in enumerate(zip(self.graph.ledgers, told, strict=True)):
            y = self.bottom + 38 + 22 * k
            yield f'<text class="name left" x="12" y="{y:.0f}">{html.escape(self.graph.label(x))}</text>'
            for step, left in self.left.items():
                if math.isfinite(step):
                    middle, text = (left + self.right[step]) / 2, by_step.get(step, "—")
                    cell = f'class="credit" data-cell="use {k} {step}"'
                    yield f'<text {cell} x="{middle:.0f}" y="{y:.0f}">{text}</text>'
            rest = f"+ {by_step[None]} " if None in by_step else ""
            cell = f'class="credit name right" data-cell="sum {k}"'
            yield f'<text {cell} x="{self.end - 4:.0f}" y="{y:.0f}">{rest}= {short(total)}</text>'

    def _cuts(self) -> list[str]:
        return [
            f'<line class="cut" x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{self.bottom:.0f}">'
            "<title>cut: the value crosses, the credit does not</title></line>"
            for x in self._boundaries()
        ]

    def _boundaries(self) -> list[float]:
        """Where the cuts between steps that are drawn lie."""
        return [self.left[after] for before, after in self.graph.flow.cut if {before, after} <= self.left.keys()]

    def _legend(self, y: float) -> Iterator[str]:
        x = 12
        for said in self.said:
            yield LEGEND[said].format(x, f"{y - 4:.0f}", f"{y - 10:.0f}")
            yield f'<text class="left" x="{x + 36}" y="{y:.0f}">{said}</text>'
            x += 52 + 7 * len(said)
        for k, note in enumerate(self.notes, start=1):
            yield f'<text class="quiet left" x="12" y="{y + 18 * k:.0f}">{note}</text>'
