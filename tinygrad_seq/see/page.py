"""A page that computes: the recorded program of a loss, its numbers on knobs, in one file that needs only a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.backward import grad
from ..engine.tensor import Tensor, array_of
from ..reading.ledger import look
from ..reading.table import number
from ..reading.tape import Tape
from .drawing import Drawing
from .graph import SUBSCRIPTS, printable
from .page_program import PageProgram

KNOBS = 24  # as many are made where none are asked for
FEW = 8  # of a leaf, where all leaves have more entries than that
MOST = 200  # knobs on a page
DRAWN = 12  # steps of a longer sequence that are drawn
DIGITS = 6
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{hash}'; \
style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head><body><main><h1>{title}</h1>
{body}
<p class="closing"><strong>What this picture does not show.</strong> {hidden}</p>
<script type="application/json" id="data">{data}</script>
<script>{script}</script></main></body></html>
"""
HIDDEN = (
    "The program is the one that was recorded: what was chosen by Python's if, by a comparison or a mask, and what was "
    "detached stays as it was. Of arrays the ‖norm‖ is shown, and norms do not add up as the arrays do."
)
NO_SCRIPT = (
    "<noscript><p>Scripts are off: the numbers are those of the recording, and the controls do nothing. A dash stands "
    "for what the page would compute.</p></noscript>"
)


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
        """Write it, to be opened in a browser. It needs nothing else. ValueError where the name is no page's."""
        if Path(path).suffix not in (".html", ".htm"):
            raise ValueError(f"a page is saved as .html, got {os.fspath(path)!r}")
        Path(path).write_text(self._text, encoding="utf-8", errors="replace")

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self._text)}" style="width:100%; height:42rem; border:0"></iframe>'

    def __repr__(self) -> str:
        return f"Page({len(self._text)} characters; .html() or .save(path))"


@dataclass
class Knob:
    """What a slider or, between 0 and 1, a switch sets: an entry of leaves, (figure, leaf, entry) each."""

    label: str
    low: float
    high: float
    places: list[tuple[int, Tensor, int]]
    switch: bool = False

    def value(self) -> float:
        _, x, entry = self.places[0]
        return float(array_of(x).reshape(-1)[entry])


@dataclass
class Figure:
    """A recorded program on a page, and what is shown of it: a drawing, and texts with cells that follow it."""

    program: PageProgram
    drawing: Drawing | None = None
    parts: list[str] = field(default_factory=list)
    asked: Tensor | None = None  # whose credit is shown at first; None: of the result

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):  # what is not finite is shown
            self._flow = Tape(self.program.result if self.asked is None else self.asked).flow()

    def cells(self, x: Tensor, *what: str) -> list[str]:
        """Cells that show different things of one tensor."""
        return [self.cell(each, x) for each in what]

    def cell(self, what: str, x: Tensor, *further: int | Tensor, tag: str = "td") -> str:
        """A cell that shows the value, the credit … of a tensor, with the number of the recording in it."""
        places = [self.program.place[x], *(self.program.place[y] if isinstance(y, Tensor) else y for y in further)]
        entry = further[0] if further and isinstance(further[0], int) else None
        shown: Any = {"value": array_of(x), "credit": self._flow._arrived.get(x)}.get(what)
        if what == "sum":
            shown = self._flow[x]
        if what in ("rate", "route") and isinstance(further[0], Tensor):
            seed = np.ones(x.shape) if what == "rate" else self._flow._arrived[x]
            shown = grad(x, further[0], seed, holding=[y for y in further[1:] if isinstance(y, Tensor)])
        if what in ("linear", "change", "left"):
            shown = 0.0
        if what in ("low", "high"):
            rows = np.linalg.norm(self._flow[x].reshape(further[0], -1), axis=1)
            shown, entry = rows.min() if what == "low" else rows.max(), None
        text = "—" if shown is None else said(shown, entry if what in ("value", "credit") else None)
        kind = ' class="credit"' if what in ("credit", "rate", "route") else ""
        return f'<{tag}{kind} data-cell="{what} {" ".join(map(str, places))}">{text}</{tag}>'


def said(array: Any, entry: int | None = None) -> str:
    """A number as the page shows it; of an array the norm."""
    array = np.asarray(array)
    if entry is not None:
        return number(float(array.reshape(-1)[entry]), DIGITS)
    text = number(float(look(array)), DIGITS)
    return text if array.size == 1 else f"‖{text}‖"


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], foot: Sequence[str] = ()) -> str:
    """A table of cells: its first column is of headings, and the texts that are no cells yet become such."""

    def row(cells: Sequence[str]) -> str:
        first, *rest = (cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in cells)
        return f'<tr><th scope="row">{first[4:-5]}</th>{"".join(rest)}</tr>'

    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in columns)
    body, end = "".join(map(row, rows)), f"<tfoot>{row(foot)}</tfoot>" if foot else ""
    return (
        f'<div class="frame long" tabindex="0" role="region" aria-label="{html.escape(caption)}"><table><caption>'
        f"{html.escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{end}</table></div>"
    )


def chart(k: int, title: str, across: str, names: Sequence[str]) -> str:
    """The place of a chart, which the script draws, with what its lines are."""
    keys = "".join(
        f'<span><span class="key line-{i}"></span>{html.escape(name)}</span>' for i, name in enumerate(names)
    )
    return (
        f'<h2>{html.escape(title)}</h2><div class="frame"><svg class="chart" viewBox="0 0 640 300" data-chart="{k}" '
        f'role="img" aria-label="{html.escape(title)}: the table has the numbers"></svg></div>'
        f'<p class="row">{keys}</p><p class="quiet">Across: {html.escape(across)}.</p>'
    )


@dataclass
class Composition:
    """All that a page is made of; `page()` puts it together."""

    title: str
    intro: str
    figures: list[Figure]
    knobs: list[Knob]
    cuts: list[tuple[int, int]] = field(default_factory=list)
    holds: list[tuple[str, list[Tensor]]] = field(default_factory=list)
    update: list[Tensor] = field(default_factory=list)
    rate: float = 0.1
    clip: float | None = None  # None: no control; 0: not clipped at first
    seeds: list[tuple[str, Tensor]] = field(default_factory=list)
    seed: int = -1  # the one to begin with
    seed_name: str = ""  # of the slider that chooses one; without, something else on the page does
    presets: Sequence[tuple[str, dict[int, float], str, str | None]] = ()
    tasks: dict[str, tuple[str, list[tuple[tuple[int, Tensor], tuple[int, Tensor]]]]] = field(default_factory=dict)
    charts: list[dict[str, Any]] = field(default_factory=list)
    stepper: bool = True
    hidden: str = HIDDEN
    closing: str = ""  # below the figures

    def page(self) -> Page:
        """The page as one text."""
        data = json.dumps(self._data(), separators=(",", ":"), allow_nan=False)
        for sign, spelled in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):  # no end of the script in it
            data = data.replace(sign, spelled)
        script = asset("page_program.js") + asset("page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        narrow = any(figure.program.narrow for figure in self.figures)
        hidden = self.hidden + " It was recorded in float32 or less; the page computes in float64." * narrow
        title = html.escape(printable(self.title))
        text = PAGE.format(
            hash=f"sha256-{digest}", title=title, style=asset("page.css"), body="\n".join(self._body()),
            hidden=hidden, data=data, script=script,
        )  # fmt: skip
        return Page(text)

    def _data(self) -> dict[str, Any]:
        place = [figure.program.place for figure in self.figures]

        def per_figure(tensors: Iterable[Tensor]) -> list[list[int]]:
            given = list(tensors)
            return [[there[x] for x in given if x in there] for there in place]

        knobs = [
            {
                "label": printable(k.label),
                "value": finite(k.value()),
                "places": [(p, place[p][x], e) for p, x, e in k.places],
            }
            for k in self.knobs
        ]
        rate = {"tensors": per_figure(self.update), "rate": self.rate, "clip": self.clip}
        return {
            "programs": [figure.program.data() for figure in self.figures],
            "knobs": knobs,
            "cuts": self.cuts,
            "holds": [{"label": printable(label), "tensors": per_figure(tensors)} for label, tensors in self.holds],
            "drawings": [_drawn(figure) for figure in self.figures],
            "update": rate if self.update else None,
            "seeds": [
                {"label": printable(label), "tensors": [there.get(x, figure.program.place[figure.program.result])
                 for there, figure in zip(place, self.figures, strict=True)]} for label, x in self.seeds
            ] or None,
            "seed": self.seed % len(self.seeds) if self.seeds else None,
            "presets": [{"label": a, "set": b, "says": c, "task": d} for a, b, c, d in self.presets] or None,
            "tasks": {
                name: {"says": says, "pairs": [[(p, place[p][x]), (q, place[q][y])] for (p, x), (q, y) in pairs]}
                for name, (says, pairs) in self.tasks.items()
            } or None,
            "task": next(iter(self.tasks), None),
            "charts": [
                each | {"lines": [line | {"tensors": [place[line["p"]][x] for x in line["tensors"]]} for line in lines]}
                for each in self.charts
                for lines in [each["lines"]]
            ],
        }  # fmt: skip

    def _body(self) -> Iterable[str]:
        yield f"<p>{self.intro}</p>{NO_SCRIPT}"
        if self.presets:
            labels = [label for label, *_ in self.presets]
            buttons = "".join(
                f'<button type="button" data-preset="{k}">{each}</button>' for k, each in enumerate(labels)
            )
            yield f'<div class="row controls">{buttons}</div>'
            yield f'<p class="preset-says" aria-live="polite">{self.presets[0][2]}</p>'
        numbered = list(enumerate(self.knobs))
        yield _group("Knobs", "knobs", [_slider(k, each) for k, each in numbered if not each.switch])
        boxes = [_box("knob", k, each.label) for k, each in numbered if each.switch]
        yield _group("Inputs: on is 1, off is 0", "row", boxes)
        if self.seeds and self.seed_name:
            last, first = len(self.seeds) - 1, self.seed % len(self.seeds)
            yield f'<p class="row controls"><label for="seed">{self.seed_name}</label>'
            yield f'<input type="range" id="seed" min="0" max="{last}" value="{first}" step="1">'
            yield f'<output class="seed-says" for="seed">{html.escape(printable(self.seeds[first][0]))}</output></p>'
        boxes = [_box("cut", k, f"{a} | {b}") for k, (a, b) in enumerate(self.cuts)]
        yield _group("Cut the credit between two steps: the value crosses, the credit does not", "row", boxes)
        boxes = [_box("hold", k, label) for k, (label, _) in enumerate(self.holds)]
        yield _group("Hold fixed: no credit goes through", "row", boxes)
        if self.update:
            yield from self._update()
        yield '<p class="row controls"><button type="button" id="reset">Everything as it was recorded</button></p>'
        if self.stepper:
            yield STEPPER
        yield '<div class="columns">'
        for p, figure in enumerate(self.figures):
            yield f'<section data-program="{p}">'
            if figure.drawing is not None:
                yield '<div class="frame picture" tabindex="0" role="region" aria-label="The unrolled graph">'
                yield f"{_renumbered(figure)}</div>"
            yield from figure.parts
            yield "</section>"
        yield f"</div>{self.closing}"

    def _update(self) -> Iterable[str]:
        names = ", ".join(dict.fromkeys(html.escape(printable(x.name or "it")) for x in self.update))
        figure = self.figures[0]
        clip = ""
        if self.clip is not None:
            clip = (
                '<label>clip the norm at (0: not) <input type="number" id="clip" min="0" step="any" '
                f'value="{self.clip}"></label><span>norm of the gradient: <output data-cell="norm 0">—</output></span>'
            )
        result = figure.program.result
        yield (
            f'<fieldset data-program="0"><legend>One step of gradient descent on {names}</legend><div class="row">'
            f'<label>learning rate <input type="number" id="rate" min="0" step="any" value="{self.rate}"></label>{clip}'
            f"<span>loss before: {figure.cell('value', result, tag='output')}</span>"
            f"<span>after: {figure.cell('after', result, tag='output')}</span>"
            '<button type="button" id="update">Take the step</button></div></fieldset>'
        )


STEPPER = """<fieldset id="stepper" tabindex="0"><legend>One operation at a time</legend><div class="row">
<button type="button" data-go="first" aria-label="To the first operation">|←</button>
<button type="button" data-go="-1">← back</button><button type="button" data-go="1">on →</button>
<button type="button" data-go="last" aria-label="To the last contribution">→|</button>
<button type="button" data-go="leave">show everything</button></div>
<p id="says" aria-live="polite">First every value, from left to right; then what each operation sends back.</p>
</fieldset>"""


def finite(v: float) -> float | str:
    """A number as JSON and JavaScript take it."""
    return v if math.isfinite(v) else 0.0


@cache
def asset(name: str) -> str:
    """A file beside this one, as text."""
    return Path(__file__).with_name(name).read_text("utf-8")


def _group(legend: str, kind: str, controls: list[str]) -> str:
    if not controls:
        return ""
    return f'<fieldset><legend>{legend}</legend><div class="{kind}">{"".join(controls)}</div></fieldset>'


def _box(what: str, k: int, label: str) -> str:
    return f'<label><input type="checkbox" data-{what}="{k}"> {html.escape(printable(label))}</label>'


def _slider(k: int, knob: Knob) -> str:
    label, low, high, v = html.escape(printable(knob.label)), knob.low, knob.high, knob.value()
    value = v if math.isfinite(v) else 0
    return (
        f'<div class="knob"><label for="knob-{k}">{label}</label>'
        f'<input type="range" id="knob-{k}" data-knob="{k}" min="{low!r}" max="{high!r}" step="any" value="{value!r}">'
        f'<input type="number" data-exact="{k}" step="any" value="{value!r}" aria-label="{label}, exactly"></div>'
    )


def _drawn(figure: Figure) -> dict[str, Any] | None:
    drawing, place = figure.drawing, figure.program.place
    if drawing is None:
        return None
    # What is not drawn goes into something that is: that is pointed at when the stepper comes to it.
    owners: dict[Tensor, Tensor] = {x: x for x in (*drawing.nodes, *drawing.shared)}
    for t in reversed(figure.program.tensors):
        owner = owners.setdefault(t, t)
        record = t.record
        for x in record.inputs if record is not None else ():
            if isinstance(x, Tensor):
                owners.setdefault(x, owner)
    return {
        "owners": [place.get(owners[x], -1) for x in figure.program.tensors],
        "nodes": [place.get(x, -1) for x in drawing.nodes],
        "shared": [place.get(x, -1) for x in drawing.shared],
        "edges": [(place.get(e.source, -1), place.get(e.target, -1)) for e in drawing.edges],
    }


def _renumbered(figure: Figure) -> str:
    """The drawing, with the places of the program in its cells; constants keep what they show."""
    drawing, place = figure.drawing, figure.program.place
    assert drawing is not None
    members = {"value": drawing.nodes, "credit": drawing.nodes, "use": drawing.ledgers, "sum": drawing.ledgers}

    def cell(found: re.Match[str]) -> str:
        x = members[found[1]][int(found[2])]
        return f'data-cell="{found[1]} {place[x]}' if x in place else f'data-constant="{found[1]}'

    return re.sub(r'data-cell="(\w+) (\d+)', cell, drawing.svg())


def explore(
    of: Tape | Tensor,
    knobs: Mapping[Any, tuple[float, float]] | Sequence[Any] | None = None,
    holding: Any = (),
    steps: tuple[int, int] | None = None,
    **asked: Any,
) -> Page:
    """A page that computes: its knobs are numbers of the recorded program, and all that it shows follows them at once.

    The page carries the program, forward and backward, and runs it: values, credit, the width of the edges, ledgers and
    tables. Credit can be cut between any two steps; the operations can be walked through one at a time; a step of
    gradient descent shows the loss before and after. It is one file, which needs a browser and nothing else.

    `knobs`: names of leaves (or leaves) that require a gradient, each with its range, as in `{"w": (-2, 2)}`; a list
    gives them ranges of its own choice, and without it all small leaves get a knob for each entry. `holding`: tensors,
    or names, that can be held fixed by a switch, so that no credit goes through them; a name stands for all tensors of
    that name but the one at the last step. `steps=(first, last)`: only these are drawn, else of a long sequence the
    last ones. Values agree with Python's to rounding: what was recorded in float32 is computed in float64.

    >>> import tinygrad_seq as tg
    >>> w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    >>> for t in (1, 2, 3):
    ...     with tg.step(t):
    ...         h = (w * h).named("h")
    >>> page = tg.explore(h, knobs={"w": (-2, 2)}, holding="h")
    >>> [text in page.html() for text in ('data-knob="0"', "1 | 2", "2 | 3", "hold h")]
    [True, True, True, True]

    TypeError where an operation is unknown to the page, which it names; ValueError for a knob that is no leaf, or does
    not require a gradient: what was computed from constants alone was not recorded.
    """
    if asked:
        wrong = next(iter(asked))
        remedy = f": say holding={asked[wrong]!r}" if wrong == "hold" else "; it takes knobs, holding and steps"
        raise TypeError(f"explore has no option {wrong!r}{remedy}")
    tape = Tape(of) if isinstance(of, Tensor) else of
    if not isinstance(tape, Tape):
        raise TypeError(f"explore takes a tape or a loss, got {type(of).__name__}: its cuts are asked on the page")
    if len(tape.results) > 1:
        raise ValueError(f"a page computes one loss, a single number; got {tape!r}: take their sum, or one of them")
    program = PageProgram(tape)
    if steps is None and len(tape._steps) > DRAWN:
        steps = (tape._steps[-DRAWN], tape._steps[-1])
    drawing = Drawing(tape.flow(), steps, everything=False)
    figure = Figure(program, drawing)
    figure.parts = ['<div class="columns">', ledger(figure), values(figure), "</div>"]
    within = [t for t in tape._steps if steps is None or steps[0] <= t <= steps[1]]
    leaves = [x for x in tape.leaves if x.requires_grad]
    shared = [x for x in drawing.ledgers if x in program.place] or leaves
    result = printable(tape.results[0].name or "the result")
    return Composition(
        title=f"Where the credit of {result} goes",
        intro="Turn a knob: the page computes the recorded program anew, forward and backward. In the drawing, below a "
        "value stands its gradient; an edge is the wider the more credit goes back along it.",
        figures=[figure],
        knobs=asked_knobs(tape, knobs),
        cuts=list(pairwise(within)),
        holds=asked_holds(tape, holding),
        update=shared,
    ).page()


def asked_knobs(tape: Tape, knobs: Any, figure: int = 0) -> list[Knob]:
    """A knob for each entry of the leaves that were asked for."""
    first: int | None = None  # entries of a leaf
    if knobs is None:
        chosen: list[tuple[Tensor, Any]] = []
        room = KNOBS
        leaves = [x for x in tape.leaves if x.requires_grad and x.size and np.isfinite(array_of(x)).all()]
        for x in sorted(leaves, key=lambda x: x.size):
            if x.size <= room:
                chosen.append((x, None))
                room -= x.size
        if leaves and not chosen:
            chosen, first = [(min(leaves, key=lambda x: x.size), None)], FEW
    else:
        given = [knobs] if isinstance(knobs, (str, Tensor)) else list(knobs)
        if strangers := [x for x in given if not isinstance(x, (str, Tensor))]:
            raise TypeError(f"knobs are names of leaves, or leaves, as in {{'w': (-2, 2)}}; got {strangers[0]!r}")
        pairs = [(x, knobs[x] if isinstance(knobs, Mapping) else None) for x in given]
        chosen = [(x, span) for name, span in pairs for x in (tape.find(name) if isinstance(name, str) else [name])]
    found = []
    for x, span in chosen:
        if x not in tape or x.record is not None:
            where = "it is not on this tape" if x not in tape else f"{x.operation} computed it"
            raise ValueError(
                f"a knob sets a leaf, and {printable(x.label())} is none: {where}. Leaves: {leaf_names(tape)}"
            )
        if not x.requires_grad:
            raise ValueError(
                f"a knob needs requires_grad=True, and {printable(x.label())} is a constant: what was computed from "
                "constants alone was not recorded, so the page could not compute it anew"
            )
        if not np.isfinite(array_of(x)).all():
            raise ValueError(f"a knob starts at a number, and {printable(x.label())} holds {said(array_of(x))}")
        for k, v in enumerate(array_of(x).reshape(-1)[:first].tolist()):
            index = "" if x.size == 1 else str(list(map(int, np.unravel_index(k, x.shape)))).replace(" ", "")
            step = "" if x.step is None or not x.name else str(x.step).translate(SUBSCRIPTS)
            low, high = _span(x, span, v)
            found.append(Knob(f"{x.name or 'leaf'}{step}{index}", low, high, [(figure, x, k)]))
    if len(found) > MOST:
        raise ValueError(f"{len(found)} knobs are too many for a page, which has at most {MOST}: choose with knobs=")
    return found


def _span(x: Tensor, span: Any, v: float) -> tuple[float, float]:
    if span is None:
        return v - max(1.0, abs(v)), v + max(1.0, abs(v))
    try:
        low, high = map(float, span)
    except (TypeError, ValueError):
        raise ValueError(f"the range of {printable(x.label())} is two numbers, as in (-2, 2); got {span!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"the range of {printable(x.label())} needs two finite numbers, the lower first; got {span!r}")
    return min(low, v), max(high, v)


def leaf_names(tape: Tape) -> str:
    """The leaves that a knob can set."""
    return ", ".join(sorted({printable(x.name or "an unnamed one") for x in tape.leaves if x.requires_grad})) or "none"


def asked_holds(tape: Tape, holding: Any) -> list[tuple[str, list[Tensor]]]:
    """A switch for each name, or for all tensors that were given."""
    given = [holding] if isinstance(holding, (str, Tensor)) else list(holding)
    holds: list[tuple[str, list[Tensor]]] = []
    for name in [x for x in given if isinstance(x, str)]:
        found = [x for x in tape.find(name) if x.requires_grad]
        if tape._steps and len(found) > 1:
            found = [x for x in found if x.step != tape._steps[-1]]
        if not found or found == [tape.results[0]]:
            raise ValueError(f"{name!r} is computed at no step before the last, so there is nothing to hold")
        holds.append((f"hold {name}", found))
    tensors = [x for x in given if not isinstance(x, str)]
    for x in tensors:
        if not isinstance(x, Tensor) or x not in tape or not x.requires_grad:
            what = printable(x.label()) if isinstance(x, Tensor) else f"{x!r}"
            raise ValueError(f"holding takes names or tensors on this tape that require a gradient; got {what}")
        holds.append((f"hold {x.label()}", [x]))
    return holds


def ledger(figure: Figure) -> str:
    """What the uses of each step give to what several steps read, and the sums."""
    drawing = figure.drawing
    assert drawing is not None
    shared = [x for x in drawing.ledgers if x in figure.program.place]
    if not shared:
        return ""
    told = [figure._flow.uses(x).totals(lambda use: use.step, said) for x in shared]
    steps = sorted({t for by_step, _ in told for t in by_step if t is not None})
    rows = [
        [f"step {t}", *(f'<td data-cell="use {figure.program.place[x]} {t}">{by_step.get(t, "—")}</td>'
         for x, (by_step, _) in zip(shared, told, strict=True))] for t in steps
    ]  # fmt: skip
    foot = ["sum = gradient", *(figure.cell("sum", x) for x in shared)]
    return table("What the uses of each step give", ["", *map(drawing.label, shared)], rows, foot)


def values(figure: Figure) -> str:
    """Every tensor of the drawing: its value, its gradient, and its value after a step of gradient descent."""
    drawing, place = figure.drawing, figure.program.place
    assert drawing is not None
    nodes = [x for x in (*drawing.shared, *drawing.nodes) if x in place]
    rows = [[html.escape(drawing.label(x)), *figure.cells(x, "value", "credit", "after")] for x in nodes]
    return table("Values and gradients", ["", "value", "gradient", "after the step"], rows)
