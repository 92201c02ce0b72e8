"""A flow, drawn: the unrolled graph, a column for each step, and where credit goes on it.

Values run from left to right, credit from right to left along the same edges. What has a name is drawn; what has
none lies on the edges between. Everything that a drawing says is read off the tape by the one backward pass.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ..engine.tensor import Tensor
from ..reading.table import latex
from ..reading.tape import Flow, Tape
from .graph import FOLDS, Box, Graph, short
from .layout import HEIGHT, NARROWEST
from .svg import COLOURS, Sheet

WIDEST = 1600  # of a drawing, if nothing else is asked for


class Drawing(Graph):
    """The graph of a flow: `nodes` (tensors), `edges`, and `shared`, the tensors that several steps read.

    `svg()`, `mermaid()`, `dot()` and `to_tikz()` are texts; `save(path)` writes what the suffix names.
    In a notebook it shows itself.

    >>> import tinygrad_seq as tg
    >>> x, k = tg.Tensor(2.0, requires_grad=True, name="x"), tg.Tensor(3.0, name="k")
    >>> for edge in tg.draw((k * x).named("y")).edges:
    ...     print(edge.source.name, edge.target.name, edge.credit)
    k y None
    x y 3.0
    """

    def svg(self, theme: str | None = None) -> str:
        """The drawing as SVG: lanes for the names, columns for the steps, and below them what each step's uses of a
        shared tensor contribute to its gradient. Light or dark as the reader prefers, or by `theme` always the one."""
        if theme not in (None, *COLOURS):
            raise ValueError(f"a theme is 'light', 'dark' or None, as the reader prefers; got {theme!r}")
        return Sheet(self).svg(theme)

    def mermaid(self) -> str:
        """The graph as a Mermaid flowchart: thick where credit goes back, with how much, dotted where only the value
        goes on."""
        lines, steps = ["flowchart LR"], self.step_columns()
        ids = {x: f"n{k}" for k, x in enumerate(self.nodes)}
        for column, members in self.columns.items():
            lines += [f'  subgraph s{column}["step {column}"]'] if column in steps else []
            for x in members:
                text = "<br>".join(map(html.escape, self.lines(x)))
                lines.append(f'    {ids[x]}["{text}"]')
            lines += ["  end"] if column in steps else []
        for e in self.edges:
            arrow = f'== "{short(e.credit)}" ==>' if e.carries else "-.->"
            lines.append(f"  {ids[e.source]} {arrow} {ids[e.target]}")
        return "\n".join([*lines, ""])

    def dot(self) -> str:
        """The graph in Graphviz' language."""
        lines, steps = ["digraph {", "  rankdir=LR; node [shape=box]"], self.step_columns()
        ids = {x: f"n{k}" for k, x in enumerate(self.nodes)}
        for column, members in self.columns.items():
            lines += [f'  subgraph "cluster_{column}" {{ label="step {column}"'] if column in steps else []
            for x in members:
                lines.append(f"    {ids[x]} [label={_quoted(chr(10).join(self.lines(x)))}]")
            lines += ["  }"] if column in steps else []
        for e in self.edges:
            look = f"label={_quoted(short(e.credit))}" if e.carries else "style=dashed"
            lines.append(f"  {ids[e.source]} -> {ids[e.target]} [{look}]")
        return "\n".join([*lines, "}", ""])

    def to_tikz(self) -> str:
        """Boxes and edges as a tikzpicture, to be put into a LaTeX document that uses the package tikz."""
        sheet = Sheet(self)
        lines = [
            r"\begin{tikzpicture}[x=0.75pt, y=-0.75pt, rounded corners=4pt, font=\scriptsize,",
            rf"  box/.style={{draw, fill=white, minimum width={0.75 * sheet.box:.0f}pt, minimum height=36pt, "
            "inner sep=0pt, align=center},",
            r"  credit/.style={->, orange!70!black}, value/.style={->, gray, densely dotted}]",
        ]
        for way in sheet.ways:
            points, e = sheet.points(way), way.edge
            look = f"credit, line width={sheet.width_of(e):.2f}pt" if e.carries else "value"
            corners = " -- ".join(f"({x:.1f}, {y:.1f})" for x, y in (reversed(points) if e.carries else points))
            lines.append(rf"\draw[{look}] {corners};")
        for x in self.nodes:
            left, top = sheet.place(x)
            said = [self.short_label(x), self.value(x), self.gradient(x)]
            text = r"\\".join(rf"\strut {latex(line)}" for line in said if line)
            lines.append(rf"\node[box] at ({left + sheet.box / 2:.1f}, {top + HEIGHT / 2:.1f}) {{{text}}};")
        return "\n".join([*lines, r"\end{tikzpicture}", ""])

    def save(self, path: str | os.PathLike[str], theme: str | None = None) -> None:
        """Write it as what the suffix says: .svg, .png or .pdf (these two with cairosvg, the extra `pictures`), .mmd
        for Mermaid, .dot for Graphviz, .tex for TikZ.

        `theme`: "light" or "dark"; .svg asks the reader if it is not given, .png and .pdf are light. ValueError for
        another suffix; nothing is written then.
        """
        texts = {".svg": lambda: self.svg(theme), ".mmd": self.mermaid, ".dot": self.dot, ".tex": self.to_tikz}
        suffix = Path(path).suffix
        if suffix in (".png", ".pdf"):
            Path(path).write_bytes(_converted(self.svg(theme or "light"), suffix))
        elif suffix in texts:
            Path(path).write_text(texts[suffix](), encoding="utf-8")
        else:
            raise ValueError(f"a drawing is saved as {', '.join([*texts, '.png', '.pdf'])}, got {os.fspath(path)!r}")

    def lines(self, x: Box) -> tuple[str, str, str]:
        """What is said of a tensor: its name, value and gradient."""
        return self.label(x), self.value(x), f"credit {self.gradient(x)}"

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"Drawing({len(self.nodes)} nodes, {len(self.edges)} edges; .svg(), .mermaid(), .dot() or .save(path))"


def draw(
    of: Flow | Tape | Tensor,
    steps: tuple[int, int] | None = None,
    everything: bool = False,
    only: Sequence[str] | str | None = None,
    fold: str | None = "fit",
) -> Drawing:
    """Draw a flow, or that of a tape or of a loss: the unrolled graph, and where credit goes on it.

    Tensors with names are drawn, with their values and gradients (of arrays the norms); what has no name lies on the
    edges between, unless there are no names or `everything` is asked for. A solid edge carries credit back, the wider
    the more (by decades); a dotted one carries only its value: a cut, a held tensor or a constant stops the credit.
    A tensor that several steps read, such as a weight, stands below with what the uses of each step give: its ledger.

    `only=("c", "h")`: the tensors of these names. `steps=(first, last)` leaves out the other steps. What is not drawn
    is folded into the edges between what is, and they carry its credit, exactly. `fold`: "gates" draws only what goes
    on from a step or a layer to another one; "step" makes that one box for each step and layer; None draws all that
    was asked for, however wide. "fit", if nothing is said: as little of this as a width of 1,600 pixels needs, and of
    a long run the first steps, "…", and the last ones, with the size of the gradient at every step in a strip below.
    The drawing says what it has folded.

    TypeError for what is no flow, tape or loss; ValueError where a name of `only` is on no tensor of the tape, and for
    another `fold`; TapeReleasedError where a backward pass has released the tape.

    >>> import tinygrad_seq as tg
    >>> w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    >>> for t in (1, 2):
    ...     with tg.step(t):
    ...         h = (w * h).named("h")
    >>> print(tg.draw(tg.Tape(h).flow(cut=[(1, 2)])).mermaid())
    flowchart LR
        n0["h<br>1<br>credit —"]
      subgraph s1["step 1"]
        n1["h₁<br>0.5<br>credit —"]
      end
      subgraph s2["step 2"]
        n2["h₂<br>0.25<br>credit 1"]
      end
      n0 -.-> n1
      n1 -.-> n2
    <BLANKLINE>
    """
    if isinstance(of, Tensor):
        of = Tape(of)
    if isinstance(of, Tape):
        of = of.flow()
    if not isinstance(of, Flow):
        raise TypeError(f"draw takes a flow, a tape or a loss, got {type(of).__name__}")
    if fold not in FOLDS:
        raise ValueError(f"fold is one of {', '.join(map(repr, FOLDS))}; got {fold!r}")
    if fold != "fit" or everything:
        return Drawing(of, steps, everything, only, None if fold == "fit" else fold)
    for level in (None, "gates", "step"):
        drawing = Drawing(of, steps, everything, only, level)
        if _fits(drawing):
            break
    return drawing


def _fits(drawing: Drawing) -> bool:
    """Leave out as few steps as a drawing needs to be as wide as it may be; whether that leaves enough of them."""
    steps = [int(column) for column in drawing.columns if math.isfinite(column)]  # or places in a row
    if len(steps) * NARROWEST <= WIDEST and Sheet(drawing).width <= WIDEST:
        return True
    least = 3 if drawing.fold is None else 2
    if drawing.steps is not None or len(steps) < least + 2:
        return False

    def width(shown: int) -> float:
        first = shown // 2
        drawing.arrange((steps[first], steps[first - shown - 1]))
        return Sheet(drawing).width

    start = width(least)
    each = max(width(least + 1) - start, NARROWEST) if len(steps) > least + 2 else NARROWEST
    shown = min(least + max(int((WIDEST - start) / each), 0), len(steps) - 2)
    while shown > least and width(shown) > WIDEST:
        shown -= 1
    return width(shown) <= WIDEST


def _converted(svg: str, suffix: str) -> bytes:
    try:
        cairosvg = import_module("cairosvg")
    except (ImportError, OSError):  # the latter where the system has no cairo
        raise ImportError(
            f"{suffix} needs cairosvg: pip install 'tinygrad-seq[pictures]'; .svg needs nothing"
        ) from None
    convert = cairosvg.svg2png if suffix == ".png" else cairosvg.svg2pdf
    converted: bytes = convert(bytestring=svg.encode(), scale=2 if suffix == ".png" else 1)
    return converted


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
