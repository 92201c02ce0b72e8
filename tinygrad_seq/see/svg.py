"""A graph on a page: the SVG of it.

What stands for a tensor or an edge says so, for a page that writes other numbers there: `data-node` and `data-edge` are
places in `graph.nodes` and `graph.edges`, and `data-cell` tells a text's content: `value 3` and `credit 3` of a node,
`use 0 2` what the uses of the first ledger give at step 2, `sum 0` what all of them do.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np

from .graph import Box, Edge, Fold, Graph, amount, called, printable, short
from .layout import HEIGHT, Layout, Way

DECADES = 4  # how far below the largest credit an edge is still wider than a hairline
STRIP, BARS = 26, 240  # height of a row of the strip, and how many bars it has at most
# Every colour of a text or a line stands out from every ground by 4.5 to 1.
COLOURS = {
    "light": {
        "page": "#ffffff", "column": "#f2f4f7", "box": "#ffffff", "text": "#1f2933", "quiet": "#56616e",
        "frame": "#5f6b78", "credit": "#a84a0b", "value": "#5b6775", "cut": "#b3141c",
    },
    "dark": {
        "page": "#12161b", "column": "#1b2129", "box": "#12161b", "text": "#e6e9ed", "quiet": "#a3afbb",
        "frame": "#8693a0", "credit": "#f2a05e", "value": "#95a3b1", "cut": "#ff8a85",
    },
}  # fmt: skip
RULES = {
    "text": "font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: {text}; text-anchor: middle",
    ".name": "font-weight: 600; font-size: 13px",
    ".credit": "fill: {credit}",
    ".quiet": "fill: {quiet}",
    ".left": "text-anchor: start",
    ".right": "text-anchor: end",
    ".page": "fill: {page}",
    ".column": "fill: {column}",
    ".box": "fill: {box}; stroke: {frame}",
    ".result": "stroke: {text}; stroke-width: 2",
    ".held": "stroke: {cut}; stroke-dasharray: 5 3",
    ".edge": "fill: none; stroke: {credit}; stroke-linejoin: round",
    ".value": "stroke: {value}; stroke-width: 1.2; stroke-dasharray: 2 4",
    ".head": "fill: {credit}",
    ".value-head": "fill: {value}",
    ".cut": "stroke: {cut}; stroke-width: 2; stroke-dasharray: 6 4",
    ".several": "fill: none; stroke: {frame}; stroke-width: 1.5",
    ".bars": "fill: {credit}",
    ".axis": "stroke: {frame}",
}
LEGEND = {
    "credit goes back": '<path class="edge" stroke-width="4" d="M{0} {1}h30"/>',
    "only the value goes on": '<path class="edge value" d="M{0} {1}h30"/>',
    "cut": '<path class="cut" d="M{0} {1}h30"/>',
    "held": '<rect class="box held" x="{0}" y="{2}" width="30" height="12" rx="3"/>',
    "several, folded": '<rect class="box" x="{0}" y="{2}" width="30" height="12" rx="3"/>'
    '<path class="several" d="M{0} {1}m3 9h24"/>',
}
NOTES = "Below a value its gradient. An edge is the wider the more credit it carries: counted in powers of ten."
NORMS = " Of arrays the ‖norm‖, and norms do not add up as the arrays do."


def style(theme: str | None = None) -> str:
    """The rules, light and (where the reader prefers it) dark; a theme is one of the two, always.

    A page that a drawing stands in has its own rules: these hold within.
    """

    def rules(colours: dict[str, str], changed: bool = False) -> str:
        kept = {name: rule for name, rule in RULES.items() if not changed or "{" in rule}
        return "".join(f".unrolled {name} {{ {rule.format(**colours)} }}\n" for name, rule in kept.items())

    if theme is not None:
        return rules(COLOURS[theme])
    return rules(COLOURS["light"]) + f"@media (prefers-color-scheme: dark) {{\n{rules(COLOURS['dark'], True)}}}\n"


class Sheet(Layout):
    """The page: boxes and edges where the layout says, the ledger, the strip, the legend and the notes below."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.results = set(graph.flow.tape.results)
        steps = [x for x in self.left if math.isfinite(x)]
        if graph.ledgers:  # the sums stand at the end, with what no step of the drawing gives
            after = self.right[math.inf] - self.left[math.inf] if math.inf in self.left else 0.0
            self.end += max(0.0, (self.box + 36 if graph.steps is None else 220) - after) if steps else 0.0
        self.said = [said for said in LEGEND if said not in ("cut", "held", "several, folded")]
        self.said += ["cut"] * bool(self._boundaries()) + ["held"] * bool(graph.flow.holding & set(graph.nodes))
        self.said += ["several, folded"] * any(isinstance(x, Fold) for x in graph.nodes)
        arrays = any(isinstance(x, Fold) or x.size > 1 for x in (*graph.nodes, *graph.shared))
        self.notes = [NOTES + NORMS * arrays, *graph.said()]
        self.width = max(self.end + 8, 320)
        self.notes = [line for note in self.notes for line in _wrapped(note, int((self.width - 20) / 6.4))]
        amounts = [amount(e.credit) for e in graph.edges if e.credit is not None]
        self.largest = max(filter(math.isfinite, amounts), default=0.0)

    def svg(self, theme: str | None = None) -> str:
        """The drawing; `theme` "light" or "dark" for where the reader's preference cannot be asked."""
        graph = self.graph
        parts = [*self._columns(), *self._cuts(), *map(self._edge, count(), self.ways)]
        parts += map(self._node, count(), graph.nodes)
        bottom = self.bottom + (24 + 22 * len(graph.ledgers) if graph.ledgers else 0)
        parts += self._ledger()
        strip = self._strip(bottom + 14) if graph.left_out is not None and graph.stepped else []
        bottom += (26 + STRIP * (len(strip) - 1)) if strip else 0
        legend = list(self._legend(bottom + 18))
        rows = legend.pop()
        width, height = f"{math.ceil(self.width)}", f"{bottom + 16 + 18 * float(rows):.0f}"
        about = html.escape(printable(f"The unrolled graph of {', '.join(map(called, graph.flow.tape.results))}"))
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" class="unrolled" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="graphics-document document" aria-label="{about}">',
            f"<title>{about}</title>", f"<desc>{html.escape(' '.join(self.notes))}</desc>",
            f"<style>\n{style(theme)}</style>", '<rect class="page" width="100%" height="100%"/>',
            *parts, *strip, *legend, "</svg>", "",
        ])  # fmt: skip

    def _columns(self) -> Iterator[str]:
        for column, left in self.left.items():
            if math.isfinite(column) and self.graph.stepped:
                right, run = self.right[column], self.graph.left_out
                said = f"step {column}" if run is None or column != run[0] else "…"
                yield f'<rect class="column" data-step="{column}" x="{left + 2:.0f}" y="4" rx="6" '
                yield f'width="{right - left - 4:.0f}" height="{self.bottom - 10:.0f}"/>'
                yield f'<text class="quiet" x="{(left + right) / 2:.0f}" y="20">{said}</text>'
        for scope, row in self.bands:
            if scope:
                y = self.corridor[row] - 5
                yield f'<text class="name left" x="8" y="{y:.0f}">{html.escape(self.band(scope))}</text>'

    def _edge(self, k: int, way: Way) -> str:
        """A path in the direction of what goes along it: credit back, or the value alone on."""
        e, points = way.edge, self.points(way)
        between = f"{self.graph.label(e.source)} → {self.graph.label(e.target)}"
        if not e.carries:
            said, tip = "the value crosses, the credit does not" if e.credit is None else "credit 0", 6
            look, head = 'class="edge value"', 'class="value-head"'
        else:
            points.reverse()
            look, head = f'class="edge" stroke-width="{self.width_of(e):.2f}"', 'class="head"'
            said, tip = f"credit {short(e.credit)}", 8
        (x1, _), (x2, y2) = points[-2:]
        into = 1 if x2 > x1 else -1
        arrow = f"M{x2:.0f} {y2:.1f}L{x2 - into * tip:.0f} {y2 - tip / 1.8:.1f}V{y2 + tip / 1.8:.1f}z"
        points[-1] = (x2 - into * (tip - 1), y2)
        title = f"<title>{html.escape(f'{between}: {said}')}</title>"
        shape = f'<path d="{_rounded(points)}" {look}/><path d="{arrow}" {head}/>'
        return f'<g data-edge="{k}" role="graphics-symbol img">{title}{shape}</g>'

    def width_of(self, e: Edge) -> float:
        """How wide an edge is: the widest has the largest credit, a hairline what is smaller by so many decades."""
        size = amount(e.credit)
        share = 1.0 if not math.isfinite(size) else 1 + math.log10(size / self.largest) / DECADES if size else 0.0
        return 0.9 + 4.1 * max(share, 0.0)

    def _node(self, k: int, x: Box) -> str:
        left, top = self.place(x)
        kind = " result" if x in self.results else " held" if x in self.graph.flow.holding else ""
        if isinstance(x, Fold):
            about = f"{printable(called(x))}, {len(x.tensors)} tensors"
        else:
            about = f"{printable(x.label())}, shape {x.shape}"
        lines = [
            ('class="name"', self.graph.short_label(x)),
            (f'class="number" data-cell="value {k}"', self.graph.value(x)),
            (f'class="credit" data-cell="credit {k}"', self.graph.gradient(x)),
        ]
        lines = [line for line in lines if line[1]]
        start = top + HEIGHT / 2 + 4.5 - 6.75 * (len(lines) - 1)
        texts = "".join(
            f'<text {look} x="{left + self.box / 2:.0f}" y="{start + 13.5 * row:.1f}">{html.escape(text)}</text>'
            for row, (look, text) in enumerate(lines)
        )
        shape = f'<rect class="box{kind}" x="{left:.0f}" y="{top:.0f}" width="{self.box}" height="{HEIGHT}" rx="5"/>'
        if isinstance(x, Fold):
            shape += f'<path class="several" d="M{left + 4:.0f} {top + HEIGHT + 3:.1f}h{self.box - 8}"/>'
        title = f"<title>{html.escape(about)}</title>"
        return f'<g data-node="{k}" role="graphics-symbol img">{title}{shape}{texts}</g>'

    def _ledger(self) -> Iterator[str]:
        """For each shared tensor, what the uses of each step give, and the gradient that they add up to."""
        graph, run = self.graph, self.graph.left_out

        def column(use: Any) -> Any:
            if not graph.stepped or use.step is None:
                return None
            step = run[0] if run is not None and run[0] <= use.step <= run[1] else use.step
            return step if step in self.left else None

        told = [graph.flow.uses(x).totals(column, short) for x in graph.ledgers]
        if graph.ledgers:
            elsewhere = ", + those at no step of the drawing" * any(None in by_step for by_step, _ in told)
            said = f"What the uses of each step give{elsewhere}" if graph.stepped else "The gradient of what is shared"
            yield f'<text class="quiet left" x="8" y="{self.bottom + 16:.0f}">{said}</text>'
        for k, (x, (by_step, total)) in enumerate(zip(graph.ledgers, told, strict=True)):
            y = self.bottom + 38 + 22 * k
            yield f'<text class="name left" x="8" y="{y:.0f}">{html.escape(graph.ledger_label(x))}</text>'
            for step, left in self.left.items():
                if math.isfinite(step) and graph.stepped:
                    middle, text = (left + self.right[step]) / 2, by_step.get(step, "—")
                    cell = f'class="credit" data-cell="use {k} {step}"'
                    yield f'<text {cell} x="{middle:.0f}" y="{y:.0f}">{text}</text>'
            rest = f"+ {by_step[None]} " if None in by_step and graph.stepped else ""
            cell = f'class="credit name right" data-cell="sum {k}"'
            yield f'<text {cell} x="{self.end - 4:.0f}" y="{y:.0f}">{rest}= {short(total)}</text>'

    def _strip(self, top: float) -> list[str]:
        """How much credit came to each state, at every step: a row of bars for each, a decade as high as the next."""
        rows = self.graph.strip()
        if not rows:
            return []
        names = [self.band(f"{scope}.{name}" if scope else name) for scope, name, _ in rows]
        left = 20 + 8.2 * max(map(len, names))
        wide = self.width - left - 16
        first, last = rows[0][2][0][0], rows[0][2][-1][0]
        found = [
            f'<text class="quiet left" x="8" y="{top + 2:.0f}">The gradient at every step from {first} to {last}: '
            "the higher a bar, the more decades above the smallest</text>"
        ]
        for k, (name, (_, _, amounts)) in enumerate(zip(names, rows, strict=True)):
            base = top + 8 + STRIP * (k + 1)
            sizes = np.array([size for _, size in amounts])
            parts = np.array_split(sizes, min(len(sizes), BARS))
            bars = np.array([part[np.isfinite(part)].max(initial=0.0) for part in parts])
            with np.errstate(divide="ignore"):
                decades = np.log10(bars)
            seen = np.isfinite(decades)
            low, high = (decades[seen].min(), decades[seen].max()) if seen.any() else (0.0, 0.0)
            each = wide / len(bars)
            shapes = "".join(
                f"M{left + each * j:.1f} {base}h{max(each - 0.6, 0.5):.1f}v{-(2 + 16 * share):.1f}"
                f"h{-max(each - 0.6, 0.5):.1f}z"
                for j, share in enumerate((decades - low) / (high - low) if high > low else np.ones_like(decades))
                if seen[j]
            )
            about = f"{name}: {_told(sizes.min())} to {_told(sizes.max())}"
            found.append(
                f'<g role="graphics-symbol img"><title>{html.escape(about)}</title>'
                f'<text class="name left" x="8" y="{base - 2:.0f}">{html.escape(name)}</text>'
                f'<path class="axis" d="M{left:.0f} {base}h{wide:.0f}"/><path class="bars" d="{shapes}"/></g>'
            )
        return found

    def _cuts(self) -> list[str]:
        return [
            f'<line class="cut" x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{self.bottom:.0f}">'
            "<title>cut: the value crosses, the credit does not</title></line>"
            for x in self._boundaries()
        ]

    def _boundaries(self) -> list[float]:
        """Where the cuts between steps that are drawn lie."""
        run = self.graph.left_out
        shown = {step: step for step in self.left} | ({run[1]: run[0]} if run is not None else {})
        return [self.left[shown[b]] for a, b in self.graph.flow.cut if a in shown and b in shown]

    def _legend(self, y: float) -> Iterator[str]:
        """Its lines, and last how many there are."""
        x, rows = 12.0, 1
        for said in self.said:
            wide = 52 + 7 * len(said)
            if x + wide > self.width and x > 12:
                x, y, rows = 12.0, y + 18, rows + 1
            yield LEGEND[said].format(f"{x:.0f}", f"{y - 4:.0f}", f"{y - 10:.0f}")
            yield f'<text class="left" x="{x + 36:.0f}" y="{y:.0f}">{said}</text>'
            x += wide
        for k, note in enumerate(self.notes, start=1):
            yield f'<text class="quiet left" x="12" y="{y + 18 * k:.0f}">{html.escape(note)}</text>'
        yield str(rows + len(self.notes))


def _rounded(points: list[tuple[float, float]], radius: float = 7.0) -> str:
    """A path along the points, its corners rounded within the angle that they make."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x, y), (x1, y1) in zip(points, points[1:], points[2:], strict=False):
        before, after = math.dist((x0, y0), (x, y)), math.dist((x, y), (x1, y1))
        r = min(radius, before / 2, after / 2)
        if not r:
            continue
        a, b = r / before, r / after
        path += f"L{x + a * (x0 - x):.1f} {y + a * (y0 - y):.1f}Q{x:.1f} {y:.1f} {x + b * (x1 - x):.1f} "
        path += f"{y + b * (y1 - y):.1f}"
    return path + f"L{points[-1][0]:.1f} {points[-1][1]:.1f}"


def _wrapped(text: str, letters: int) -> Iterator[str]:
    """Lines of at most so many letters, broken between words."""
    line = ""
    for word in text.split():
        if line and len(line) + len(word) >= letters:
            yield line
            line = ""
        line += " " * bool(line) + word
    yield line


def _told(size: float) -> str:
    return f"{size:.3g}"
