"""A flow, drawn: the unrolled graph, a column for each step, and where credit goes on it.

Values run from left to right, credit from right to left along the same edges. What has a name is drawn; what has
none lies on the edges between. Everything that a drawing says is read off the tape by the one backward pass.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Callable
from pathlib import Path

from ..engine.tensor import Tensor
from ..reading.tape import Flow, Tape
from .graph import Graph, short
from .svg import Sheet


class Drawing(Graph):
    """The graph of a flow: `nodes` (tensors), `edges`, and `shared`, the tensors that several steps read.

    `svg()`, `mermaid()` and `dot()` are texts; `save(path)` writes the one that the suffix names (.svg, .mmd, .dot).
    In a notebook it shows itself.

    >>> import tinygrad_seq as tg
    >>> x, k = tg.Tensor(2.0, requires_grad=True, name="x"), tg.Tensor(3.0, name="k")
    >>> for edge in tg.draw((k * x).named("y")).edges:
    ...     print(edge.source.name, edge.target.name, edge.credit)
    k y None
    x y 3.0
    """

    def svg(self) -> str:
        """The drawing as SVG: lanes for the names, columns for the steps, and below them what each step's uses of a
        shared tensor contribute to its gradient."""
        return Sheet(self).svg()

    def mermaid(self) -> str:
        """The graph as a Mermaid flowchart: thick where credit goes back, with how much, dotted where only the value
        goes on."""
        lines = ["flowchart LR"]
        ids = {x: f"n{k}" for k, x in enumerate(self.nodes)}
        for column, members in self.columns.items():
            lines += [f'  subgraph s{column}["step {column}"]'] if math.isfinite(column) else []
            for x in members:
                text = "<br>".join(map(html.escape, self.lines(x)))
                lines.append(f'    {ids[x]}["{text}"]')
            lines += ["  end"] if math.isfinite(column) else []
        for e in self.edges:
            arrow = f'== "{short(e.credit)}" ==>' if e.carries else "-.->"
            lines.append(f"  {ids[e.source]} {arrow} {ids[e.target]}")
        return "\n".join([*lines, ""])

    def dot(self) -> str:
        """The graph in Graphviz' language."""
        lines = ["digraph {", "  rankdir=LR; node [shape=box]"]
        ids = {x: f"n{k}" for k, x in enumerate(self.nodes)}
        for column, members in self.columns.items():
            lines += [f'  subgraph "cluster_{column}" {{ label="step {column}"'] if math.isfinite(column) else []
            for x in members:
                lines.append(f"    {ids[x]} [label={_quoted(chr(10).join(self.lines(x)))}]")
            lines += ["  }"] if math.isfinite(column) else []
        for e in self.edges:
            look = f"label={_quoted(short(e.credit))}" if e.carries else "style=dashed"
            lines.append(f"  {ids[e.source]} -> {ids[e.target]} [{look}]")
        return "\n".join([*lines, "}", ""])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as what the suffix says: .svg, .mmd or .dot. ValueError for another one."""
        forms: dict[str, Callable[[], str]] = {".svg": self.svg, ".mmd": self.mermaid, ".dot": self.dot}
        suffix = Path(path).suffix
        if suffix not in forms:
            raise ValueError(f"a drawing is saved as {', '.join(forms)}, got {os.fspath(path)!r}")
        Path(path).write_text(forms[suffix](), encoding="utf-8")

    def lines(self, x: Tensor) -> tuple[str, str, str]:
        """What is said of a tensor: its name, value and gradient."""
        return self.label(x), short(x._array), f"credit {self.gradient(x)}"

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"Drawing({len(self.nodes)} nodes, {len(self.edges)} edges; .svg(), .mermaid(), .dot() or .save(path))"


def draw(of: Flow | Tape | Tensor, steps: tuple[int, int] | None = None, everything: bool = False) -> Drawing:
    """Draw a flow, or that of a tape or of a loss: the unrolled graph, and where credit goes on it.

    Tensors with names are drawn, with their values and gradients (of arrays the norms); what has no name lies on the
    edges between, unless there are no names or `everything` is asked for. A solid edge carries credit back, the wider
    the more (by decades); a dotted one carries only its value: a cut, a held tensor or a constant stops the credit.
    `steps=(first, last)` leaves out the other steps. A tensor that several steps read, such as a weight, stands below
    with what the uses of each step give: its ledger.

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
    return Drawing(of, steps, everything)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
