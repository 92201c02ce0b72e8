"""A page to explore: the same recorded graph, asked where its credit may go."""

from __future__ import annotations

import html
import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..engine.tensor import Tensor
from ..reading.ledger import look
from ..reading.table import Table
from ..reading.tape import Flow, Tape
from .drawing import Drawing
from .graph import amount, printable

MOST = 24  # drawings on a page: each is as long as the sequence
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1f2933; background: #fff; margin: 1.5rem }}
.frame {{ overflow-x: auto }} .frame[hidden] {{ display: none }} .fit svg {{ max-width: 100%; height: auto }}
label {{ margin-right: 2rem }} input[type=range] {{ width: 16rem; vertical-align: middle }}
output {{ font-weight: 600 }} table {{ border-collapse: collapse; margin: 1rem 0 }}
th, td {{ padding: .2rem .8rem; border-bottom: 1px solid #cbd2d9; text-align: right }}
</style></head><body><main><h1>{title}</h1>
<p>The values were computed once, from left to right. What is asked here is where the credit may go back.
Wider is more; dotted is what only the value crosses.</p>
<p>{controls}
<label><input type="checkbox" id="fit" checked> fit into the window</label></p>
<div id="frames" class="fit">
{frames}
</div>
<script>
const [cut, hold, says] = ["#cut", "#hold", "output"].map((what) => document.querySelector(what));
function show() {{
  const k = cut ? +cut.value : 0, held = hold && hold.checked ? 1 : 0;
  for (const frame of document.querySelectorAll(".frame")) frame.hidden = frame.id !== `frame-${{held}}-${{k}}`;
  if (cut) says.textContent = {words}[k];
}}
for (const input of [cut, hold]) if (input) input.addEventListener("input", show);
document.querySelector("#fit").addEventListener("input", (event) =>
  document.querySelector("#frames").classList.toggle("fit", event.target.checked));
show();
</script></main></body></html>
"""


class Page:
    """A self-contained HTML page; `save(path)` writes it. Made by `tg.explore`.

    >>> Page("<!doctype html>").html()
    '<!doctype html>'
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def html(self) -> str:
        """The page as text."""
        return self._text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it, to be opened in a browser. It needs nothing else."""
        if Path(path).suffix not in (".html", ".htm"):
            raise ValueError(f"a page is saved as .html, got {os.fspath(path)!r}")
        Path(path).write_text(self._text, encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self._text)}" style="width:100%; height:42rem; border:0"></iframe>'

    def __repr__(self) -> str:
        return f"Page({len(self._text)} characters; .html() or .save(path))"


def explore(of: Tape | Tensor, hold: str | None = None, steps: tuple[int, int] | None = None) -> Page:
    """A page on which credit is cut between any two steps, by a slider, and the drawing and the gradients follow.

    `hold="h"` adds a switch: with it, the tensors of that name are constants at every step but the last, so that of
    an LSTM the cell path alone is left. `steps=(first, last)`: only these are drawn, and cuts are between them.

    >>> import tinygrad_seq as tg
    >>> w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    >>> for t in (1, 2, 3):
    ...     with tg.step(t):
    ...         h = (w * h).named("h")
    >>> page = tg.explore(h)
    >>> [line in page.html() for line in ("no cut", "cut between 1 and 2", "cut between 2 and 3")]
    [True, True, True]

    ValueError where there would be more than 24 drawings.
    """
    tape = Tape(of) if isinstance(of, Tensor) else of
    if not isinstance(tape, Tape):
        raise TypeError(f"explore takes a tape or a loss, got {type(of).__name__}: its cuts are asked on the page")
    within = [t for t in tape._steps if steps is None or steps[0] <= t <= steps[1]]
    cuts: list[list[tuple[int, int]]] = [[], *([boundary] for boundary in pairwise(within))]
    held: list[list[Tensor]] = [[]]
    if hold is not None:
        held.append(
            [x for x in tape.find(hold) if x.requires_grad and x.step is not None and x.step != tape._steps[-1]]
        )
        if not held[1]:
            raise ValueError(f"{hold!r} is computed at no step before the last, so there is nothing to hold")
    if len(cuts) * len(held) > MOST:
        raise ValueError(
            f"{len(cuts) * len(held)} drawings are too many for a page, which has at most {MOST}: say which steps, as "
            f"in steps=({within[0]}, {within[0] + MOST // len(held) - 1})"
        )
    whole = tape.flow()
    frames = [
        _frame(f"frame-{i}-{k}", tape.flow(cut=cut, holding=holding), whole, steps)
        for i, holding in enumerate(held)
        for k, cut in enumerate(cuts)
    ]
    words = ["no cut", *(f"cut between {a} and {b}" for ((a, b),) in cuts[1:])]
    controls = []
    if len(cuts) > 1:
        controls.append(
            f'<label>Credit <input type="range" id="cut" min="0" max="{len(cuts) - 1}" value="0"> '
            f"<output>no cut</output></label>"
        )
    if hold is not None:
        controls.append(
            f'<label><input type="checkbox" id="hold"> hold {html.escape(hold)}: no credit through it</label>'
        )
    title = f"Where the credit of {printable(tape.results[0].name or 'the result')} goes"
    return Page(
        PAGE.format(
            title=html.escape(title), controls="\n".join(controls), frames="\n".join(frames), words=json.dumps(words)
        )
    )


def _frame(name: str, flow: Flow, whole: Flow, steps: tuple[int, int] | None) -> str:
    drawing = Drawing(flow, steps, everything=False)
    with np.errstate(invalid="ignore"):  # inf - inf
        rows = [(drawing.label(x), look(whole[x]), look(flow[x]), amount(flow[x] - whole[x])) for x in drawing.ledgers]
    columns = ("", "whole gradient", "as asked", "size of the difference")
    table = Table(columns, rows, "Gradients (of arrays the norms)", precision=4).to_html() if rows else ""
    return f'<div class="frame" id="{name}"{"" if name == "frame-0-0" else " hidden"}>{drawing.svg()}{table}</div>'
