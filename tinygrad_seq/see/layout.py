"""Where everything stands on the page, and which way each edge takes, so that none runs through a box.

Boxes stand in a grid: columns (for each step one for each rank, from left to right as values go) and rows (a lane for
each name, lanes of one scope together in a band). Between the columns lie channels, between the rows corridors, and no
box is in either. An edge leaves its box into the channel beside it, goes up or down there, along a corridor or a free
row, up or down again in the channel of the other box, and in. Edges that start in one box share their way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .graph import LONGEST, Box, Edge, Graph, cut_short, printable

WIDE, HEIGHT, TOP, MARGIN = 86, 48, 32, 8  # a box at least so wide, and so high; above the rows; at the sides
APART, PORTS = 7, 6  # lines beside one another, and where they enter a box
NARROWEST = WIDE + 30  # a column of boxes with the channel beside it
BAND = 20  # the line with the name of a scope


@dataclass(eq=False)
class Way:
    """Which way an edge takes. `leave` and `enter`: the channels; `along`: the row or the corridor between them."""

    edge: Edge
    leave: int
    enter: int
    along: tuple[str, int] | None = None
    key: Hashable = None  # ways with the same key may lie on one another


class Layout:
    """The places of a graph's boxes and the points of its edges."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        labels = [graph.short_label(x) for x in graph.nodes]
        texts = [text for x in graph.nodes for text in (graph.value(x), graph.gradient(x))]
        self.box = max(WIDE, *(14 + 8 * len(text) for text in labels), *(10 + 7 * len(text) for text in texts))
        self.mirrored = self._mirrored()
        self.rank = self._ranks()
        self._grid_columns()
        self._grid_rows()
        taken: dict[tuple[int, int], Hashable] = {}
        self.ways = [self._way(e, taken) for e in graph.edges]
        self._heights()
        self._ports()
        self._widths()

    # The grid ---------------------------------------------------------------------------------------------------------

    def _mirrored(self) -> set[str]:
        """The bands in which values go from later steps to earlier ones, so that they are drawn from right to left."""
        onward: dict[str, int] = defaultdict(int)
        for e in self.graph.edges:
            a, b = self.graph.at[e.source], self.graph.at[e.target]
            if math.isfinite(a) and math.isfinite(b) and e.source.scope == e.target.scope:
                onward[e.source.scope] += (b > a) - (b < a)
        return {scope for scope, steps in onward.items() if steps < 0}

    def _is_mirrored(self, x: Box) -> bool:
        return math.isfinite(self.graph.at[x]) and x.scope in self.mirrored

    def _ranks(self) -> dict[Box, int]:
        """How far along its column a box stands: behind what it is computed from; a lane the same at every step."""
        graph = self.graph
        at, nodes = graph.at, graph.nodes
        order = {x: k for k, x in enumerate(nodes)}
        depth = dict.fromkeys(nodes, 0)
        near = [e for e in graph.edges if at[e.source] == at[e.target]]
        near = [e for e in near if math.isinf(at[e.source]) or e.source.scope == e.target.scope]
        for e in sorted(near, key=lambda e: order[e.target]):
            if graph.computed(e.source) or math.isinf(at[e.source]):
                depth[e.target] = max(depth[e.target], depth[e.source] + 1)
        if not graph.stepped:
            return dict.fromkeys(nodes, 0)
        alike = {x: (graph.lane[x], at[x] if math.isinf(at[x]) else None) for x in nodes}
        rank: dict[Any, int] = {}
        for x in nodes:
            rank[alike[x]] = max(rank.get(alike[x], 0), depth[x])
        first_reader: dict[Box, int] = {}
        for e in near:  # a leaf stands with its first reader, before it if no step has them
            if not graph.computed(e.source):
                place = rank[alike[e.target]] - math.isinf(at[e.source])
                first_reader[e.source] = min(first_reader.get(e.source, place), place)
        found = {x: max(first_reader.get(x, rank[alike[x]]), 0) for x in nodes}
        for x in nodes:
            if self._run(x):
                found[x] = 0
        last: dict[str, int] = {}
        for x in nodes:
            last[x.scope] = max(last.get(x.scope, 0), found[x])
        return {x: last[x.scope] - r if self._is_mirrored(x) and not self._run(x) else r for x, r in found.items()}

    def _run(self, x: Box) -> bool:
        return bool(getattr(x, "run", False))

    def _grid_columns(self) -> None:
        """The columns of the grid: (step, rank), and where each step's begin."""
        graph = self.graph
        many: dict[float, int] = {}
        for name, members in graph.columns.items():
            many[name] = 1 + max(self.rank[x] for x in members)
        steps = [c for c in graph.columns if math.isfinite(c) and (graph.left_out is None or c != graph.left_out[0])]
        most = max((many[c] for c in steps), default=1)
        many |= dict.fromkeys(steps, most)
        self.start: dict[float, int] = {}
        self.kinds: list[tuple[Any, int]] = []  # alike columns have channels of the same width
        for name in graph.columns:
            self.start[name] = len(self.kinds)
            self.kinds += [("step" if name in steps else name, k) for k in range(many[name])]
        self.column = {x: self.start[graph.at[x]] + self.rank[x] for x in graph.nodes}

    def _grid_rows(self) -> None:
        """A row for each lane of the steps, those of one scope together; what no step has, beside what it joins."""
        graph = self.graph
        inner = [x for x in graph.nodes if math.isfinite(graph.at[x])]
        place = {x: k for k, x in enumerate(graph.nodes)}
        recorded: dict[str, int] = {}
        for x in inner:
            if graph.computed(x):
                recorded.setdefault(x.scope, place[x])
        scopes = sorted({x.scope for x in inner}, key=lambda scope: recorded.get(scope, -1))
        goes_to: dict[Any, tuple[int, int, int]] = {}
        for k, e in enumerate(graph.edges):
            a, b = e.source, e.target
            if graph.at[a] == graph.at[b] and a.scope == b.scope and math.isfinite(graph.at[a]):
                here = (abs(self.rank[b] - self.rank[a]), place[b] * graph.computed(b), k)
                goes_to[graph.lane[a]] = min(goes_to.get(graph.lane[a], here), here)
        self.bands: list[tuple[str, int]] = []  # a scope, and its first row
        self.row: dict[Box, int] = {}
        rows = 0
        for scope in scopes:
            members = [x for x in inner if x.scope == scope]
            mirror = -1 if scope in self.mirrored else 1
            lanes = {graph.lane[x]: x for x in reversed(members) if not self._run(x)}
            lanes |= {graph.lane[x]: x for x in members if graph.lane[x] not in lanes}
            ordered = sorted(
                lanes.items(),
                key=lambda item: (
                    graph.computed(item[1]), mirror * self.rank[item[1]], *goes_to.get(item[0], (9**9, 0, 0)),
                    place[item[1]],
                ),
            )  # fmt: skip
            self.bands.append((scope, rows))
            shared: list[tuple[set[float], int]] = []  # rows of leaves: those that are never at one step share a row
            row_of = {}
            for lane, x in ordered:
                columns = {graph.at[y] for y in members if graph.lane[y] == lane}
                free = next((one for one in shared if not one[0] & columns), None)
                if not graph.computed(x) and free is not None:
                    free[0].update(columns)
                    row_of[lane] = free[1]
                    continue
                row_of[lane] = rows
                if not graph.computed(x):
                    shared.append((columns, rows))
                rows += 1
            self.row |= {x: row_of[graph.lane[x]] for x in members}
        self.occupied = {(self.column[x], r): x for x, r in self.row.items()}
        beside: dict[Box, list[Box]] = {}
        for e in graph.edges:
            beside.setdefault(e.target, []).append(e.source)
            beside.setdefault(e.source, []).append(e.target)
        outer = [x for x in graph.nodes if x not in self.row]
        for x in sorted(outer, key=lambda x: (not graph.computed(x), place[x])):
            near = [self.row[y] for y in beside.get(x, ()) if y in self.row]
            best = near[-1] if graph.computed(x) and near else near[0] if near else 0
            r = next(
                r for d in range(len(graph.nodes) + rows + 1) for r in (best + d, best - d)
                if r >= 0 and (self.column[x], r) not in self.occupied
            )  # fmt: skip
            self.row[x], self.occupied[self.column[x], r] = r, x
        self.rows = 1 + max(self.row.values())

    # The ways ---------------------------------------------------------------------------------------------------------

    def _way(self, e: Edge, taken: dict[tuple[int, int], Hashable]) -> Way:
        """`taken`: whose edges run through which free cells (row, column); nobody else's may."""
        a, b = self.column[e.source], self.column[e.target]
        inputs = not self.graph.computed(e.source) and math.isfinite(self.graph.at[e.source]) and self.graph.stepped
        right = not self._is_mirrored(e.source)
        if inputs:  # stands above its reader: to the side where that is entered
            right = self._is_mirrored(e.target)
        elif math.isinf(self.graph.at[e.source]):
            right = a <= b
        way = Way(e, a + right, b + self._is_mirrored(e.target))
        last = math.isinf(self.graph.at[e.target])
        way.key = ("into", id(e.target)) if last else ("from", id(e.source))
        if way.leave == way.enter:
            return way
        r, q = self.row[e.source], self.row[e.target]
        between = range(min(way.leave, way.enter), max(way.leave, way.enter))
        choices: list[tuple[float, float, tuple[str, int]]]
        choices = [(abs(r - q), 0, ("row", r)), (abs(r - q), 1, ("row", q))]
        free = [c for c in choices if not any((k, c[2][1]) in self.occupied for k in between)]
        free = [c for c in free if all(taken.get((c[2][1], k), way.key) == way.key for k in between)]
        low, high = min(r, q), max(r, q)
        free += [
            (abs(r - k + 0.5) + abs(q - k + 0.5) + 0.1, abs((q if last else r) - k + 0.5), ("corridor", k))
            for k in range(low, high + 2)
        ]  # fmt: skip
        way.along = min(free)[2]
        if way.along[0] == "row":
            for k in between:
                taken[way.along[1], k] = way.key
        return way

    def _heights(self) -> None:
        """How many lines lie in each corridor, and so where each row stands."""
        spans = [
            (way.along[1], way.key, min(way.leave, way.enter), max(way.leave, way.enter), 1)
            for way in self.ways if way.along is not None and way.along[0] == "corridor"
        ]  # fmt: skip
        self.track, many = _tracks(spans)
        named = {row for scope, row in self.bands if scope}
        y, self.y, self.corridor = float(TOP), [], []
        for k in range(self.rows + 1):
            y += BAND * (k in named)
            self.corridor.append(y)
            y += max(14 if k else 6, 6 + APART * (1 + many.get(k, 0)) if many.get(k, 0) else 0)
            self.y.append(y)
            y += HEIGHT
        self.bottom = self.corridor[-1] + max(10, 4 + APART * (1 + many.get(self.rows, 0)))

    def _height(self, way: Way) -> float | None:
        """How high the line between the two channels lies; None in a row, whose port decides."""
        if way.along is None or way.along[0] == "row":
            return None
        k = way.along[1]
        return self.corridor[k] + 4 + APART * (1 + self.track[k, way.key])

    def _ports(self) -> None:
        """Where each edge enters its box: those from above above, those along the row in the middle, then the rest."""
        into: dict[Box, list[tuple[float, Way]]] = {}
        for way in self.ways:
            r, q = self.row[way.edge.source], self.row[way.edge.target]
            height = self._height(way)
            comes = q if way.along == ("row", q) and r == q else r if way.along in (None, ("row", q)) else way.along[1]
            place = self.y[comes] + HEIGHT / 2 if height is None else height
            into.setdefault(way.edge.target, []).append((place, way))
        self.port: dict[Way, float] = {}
        for x, ways in into.items():
            middle = self.y[self.row[x]] + HEIGHT / 2
            keys: dict[tuple[bool, Hashable], list[tuple[float, Way]]] = {}
            for place, way in ways:
                keys.setdefault((way.enter > self.column[x], way.key), []).append((place, way))
            for side in (False, True):
                groups = [(min(p for p, _ in group), group) for (s, _), group in keys.items() if s == side]
                above = sorted((g for g in groups if g[0] < middle - 1), key=lambda g: -g[0])
                below = sorted((g for g in groups if g[0] > middle + 1), key=lambda g: g[0])
                straight = len(above) + len(below) < len(groups)
                if not straight and len(groups) == 1:
                    above, below, straight = [], [], True
                room = min(PORTS, (HEIGHT / 2 - 5) / max(len(above), len(below), 1))
                shift = 0 if straight else 0.5
                for sign, those in ((-1, above), (1, below)):
                    for k, (_, group) in enumerate(those, start=1):
                        self.port |= {way: middle + sign * room * (k - shift) for _, way in group}
                self.port |= {w: middle for _, group in groups for _, w in group if w not in self.port}

    def _widths(self) -> None:
        """How many lines lie in each channel, and so where each column stands."""
        self.lines: dict[Way, list[tuple[int, float, float]]] = {}  # in which channel, from where to where
        spans: list[tuple[int, Hashable, float, float, int]] = []
        for way in self.ways:
            out = self.y[self.row[way.edge.source]] + HEIGHT / 2
            port, height = self.port[way], self._height(way)
            if way.along is None:
                parts = [(way.leave, out, port)]
            else:
                run = height if height is not None else port if way.along[1] == self.row[way.edge.target] else out
                parts = [(way.leave, out, run), (way.enter, run, port)]
            self.lines[way] = parts
            onward = -1 if self._is_mirrored(way.edge.target) else 1
            spans += [(k, way.key, min(a, b), max(a, b), onward) for k, a, b in parts if a != b]
        self.beam, many = _tracks(spans)
        self.many = many
        widest: dict[Any, int] = {}
        for k, kind in enumerate([*self.kinds, ("end", 0)]):
            widest[kind] = max(widest.get(kind, 0), many.get(k, 0))
        names = [self.graph.ledger_label(x) for x in self.graph.ledgers] + [self.band(scope) for scope, _ in self.bands]
        aside = math.ceil(max((8.2 * len(name) for name in names), default=0))
        x, self.x, self.channel = float(MARGIN), [], []
        for k, kind in enumerate([*self.kinds, ("end", 0)]):
            self.channel.append(x)
            last = k == len(self.kinds)
            x += max(8 if last else 30, 14 + APART * (1 + widest[kind]) if widest[kind] else 0)
            if k == 0 and -math.inf not in self.graph.columns:
                x += aside  # the names of the ledger stand there
            if not last:
                self.x.append(x)
                x += self.box
                if -math.inf in self.graph.columns and k + 1 == self.start.get(self._second(), -1):
                    x = max(x, MARGIN + aside)
        self.end = x
        self.left = {name: self.channel[k] + 7 * (k > 0) for name, k in self.start.items()}
        if -math.inf not in self.left:
            self.left[next(iter(self.left))] += aside
        ends = [*list(self.left.values())[1:], self.channel[-1] + 7]
        self.right = dict(zip(self.left, ends, strict=True))

    def band(self, scope: str) -> str:
        """The name of a band."""
        return cut_short(printable(scope), 2 * LONGEST)

    def _second(self) -> float:
        names = list(self.start)
        return names[1] if len(names) > 1 else math.inf

    def place(self, x: Box) -> tuple[float, float]:
        """The upper left corner of a box."""
        return self.x[self.column[x]], self.y[self.row[x]]

    def points(self, way: Way) -> list[tuple[float, float]]:
        """The corners of an edge, from the box that it leaves to the one that it enters."""
        (x1, y1), (x2, _) = self.place(way.edge.source), self.place(way.edge.target)
        found = [(x1 + self.box * (way.leave > self.column[way.edge.source]), y1 + HEIGHT / 2)]
        for k, a, b in self.lines[way]:
            if a != b:
                x = self._beam(k, way.key)
                found += [(x, a), (x, b)]
        found.append((x2 + self.box * (way.enter > self.column[way.edge.target]), self.port[way]))
        corners = [p for p, q in pairwise(found) if p != q] + [found[-1]]
        return [
            p for k, p in enumerate(corners)
            if not 0 < k < len(corners) - 1 or not corners[k - 1][1] == p[1] == corners[k + 1][1]
        ]  # fmt: skip

    def _beam(self, k: int, key: Hashable) -> float:
        """Where in a channel a line goes up and down."""
        right = self.x[k] if k < len(self.x) else self.end
        left = self.x[k - 1] + self.box if k else self.channel[0]
        n, track = self.many[k], self.beam[k, key]
        step = min(APART, (right - left - 12) / (n + 1))
        return (left + right) / 2 + step * (track - (n - 1) / 2)


def _tracks(spans: Iterable[tuple[int, Hashable, float, float, int]]) -> tuple[dict[Any, int], dict[int, int]]:
    """In each channel or corridor a track for each key, another one where the spans of two keys would touch.

    The longer a span, the farther its track in the direction of the edges, which keeps lines from crossing. Returned
    are the track of each (channel, key), and how many tracks a channel has.
    """
    channels: dict[int, dict[Hashable, tuple[float, float]]] = {}
    direction: dict[int, int] = defaultdict(int)
    for k, key, low, high, onward in spans:
        a, b = channels.setdefault(k, {}).get(key, (low, high))
        channels[k][key] = min(a, low), max(b, high)
        direction[k] += onward
    track: dict[Any, int] = {}
    many: dict[int, int] = {}
    for k, keys in channels.items():
        taken: list[list[tuple[float, float]]] = []
        for key, (low, high) in sorted(keys.items(), key=lambda item: item[1][1] - item[1][0]):
            free = (n for n, others in enumerate(taken) if all(high < a or b < low for a, b in others))
            track[k, key] = n = next(free, len(taken))
            if n == len(taken):
                taken.append([])
            taken[n].append((low, high))
        many[k] = len(taken)
    for k, key in track:
        if direction[k] < 0:
            track[k, key] = many[k] - 1 - track[k, key]
    return track, many
