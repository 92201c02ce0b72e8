"""Pages that are ready: the lessons of the texts, each a recorded program with its knobs."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.compositions import stack
from ..engine.ops import divide, log, sigmoid, tanh
from ..engine.recording import step
from ..engine.tensor import Tensor
from ..nn.cells import LSTMCell
from ..reading.tape import Tape
from .drawing import Drawing
from .graph import SUBSCRIPTS
from .page import Composition, Figure, Knob, chart, ledger, table, values
from .page_program import PageProgram
from .page_sentence import sentence


def leaf(value: Any, name: str) -> Tensor:
    return Tensor(value, requires_grad=True, dtype=np.float64, name=name)


def knob(label: str, low: float, high: float, *leaves: Tensor, entry: int = 0, switch: bool = False) -> Knob:
    """A knob that sets a leaf of the first figure, and one of each further figure."""
    return Knob(label, low, high, [(p, x, entry) for p, x in enumerate(leaves)], switch)


def drawn(loss: Tensor, *further: Tensor, drawing: bool = True) -> Figure:
    """A figure of a loss, and of what else is to be computed beside it."""
    program = PageProgram(Tape(loss, *further))
    return Figure(program, Drawing(Tape(loss).flow(), None, everything=False) if drawing else None)


def subscript(t: int) -> str:
    return str(t).translate(SUBSCRIPTS)


def side_by_side(*parts: str) -> str:
    return f'<div class="columns">{"".join(f"<section>{part}</section>" for part in parts)}</div>'


# One weight, three uses ----------------------------------------------------------------------------------------------


def three_uses() -> Composition:
    """Example 12.1: one weight, used three times; and what a small push of a state does to the loss."""
    w, h, xs, pushes = leaf(0.5, "w"), Tensor(0.0, name="h"), [], []
    states = []
    for t, value in enumerate((1.0, 0.0, 0.0), start=1):
        with step(t):
            x = leaf(value, "x")
            state = x + w * h
            if t > 1:
                pushes.append(leaf(0.0, "δ"))
                state = state + pushes[-1]
            h = state.named("h")
        xs.append(x)
        states.append(h)
    figure = drawn((0.5 * (h - 1.0) ** 2).named("L"))
    rows = [
        [f"added to {figure.program.label(states[k + 1])}", *figure.cells(delta, "value", "linear", "change", "left")]
        for k, delta in enumerate(pushes)
    ]  # fmt: skip
    push = table(
        "A push δ: what the gradient foretells, and what happens",
        ["", "δ", "gradient · δ", "change of L", "what is left"],
        rows,
    )
    figure.parts = [side_by_side(ledger(figure), values(figure), push)]
    return Composition(
        title="One weight, three uses",
        intro="h = x + w · h before, three times, and L = ½ (h₃ − 1)². The weight is used at every step, and its "
        "gradient is the sum of what the uses give: 0, −.375 and −.375 make −.75. Cut the credit between steps 2 and "
        "3, and −.375 is left, although every value stays. A push δ of h₃ changes L by −.75 δ, and by ½ δ² that the "
        "gradient does not foretell; a push of h₂ arrives at h₃ as w δ. One step at .1 takes w to .575 and the loss "
        "to .224.",
        figures=[figure],
        knobs=[
            knob("w", -2, 2, w),
            *(knob(f"x{subscript(t)}", -2, 2, x) for t, x in enumerate(xs, start=1)),
            *(knob(f"push δ{subscript(t)}", -2, 2, x) for t, x in enumerate(pushes, start=2)),
        ],
        cuts=[(1, 2), (2, 3)],
        holds=[("hold h₂", [states[1]])],
        update=[w],
        hidden="A gradient says what an infinitely small change does. The last column of the third table is what it "
        "leaves out; with more pushes at once, each row asks what happens if that one alone were not.",
    )


# The chain of tanh ---------------------------------------------------------------------------------------------------


def tanh_chain() -> Composition:
    """h = tanh(w · h before): the factor of a step is w times the slope of tanh there."""
    w, start = leaf(1.2, "w"), leaf(0.5, "h")
    states = [start]
    for t in range(1, 31):
        with step(t):
            states.append(tanh(w * states[-1]).named("h"))
    figure = drawn(states[-1], drawing=False)
    rows = [
        [f"{k} → {k - 1}", figure.cell("value", states[k]), figure.cell("rate", states[k], states[k - 1]),
         figure.cell("credit", states[k - 1])]
        for k in range(30, 0, -1)
    ]  # fmt: skip
    figure.parts = [
        side_by_side(
            chart(
                0,
                "What is left of the credit",
                "the step at which it has arrived, from h₀ to the last",
                ["credit of h"],
            ),
            table("Back along the chain", ["from → to", "h", "factor of the step", "credit that is left"], rows),
        )
    ]
    return Composition(
        title="A chain of tanh",
        intro="h = tanh(w · h before). Going back, each step multiplies the credit by w · (1 − h²): the weight times "
        "the slope of tanh where it stands. Large states are on the flat part, so credit can vanish although w > 1: "
        "the weight alone does not decide. The length says from which h the credit starts.",
        figures=[figure],
        knobs=[knob("w", -3, 3, w), knob("h₀", -2, 2, start)],
        seeds=[(f"{k} steps", states[k]) for k in range(1, 31)],
        seed_name="length",
        charts=[{"log": True, "low": -20, "lines": [{"p": 0, "tensors": states, "what": "credit"}]}],
        stepper=False,
        hidden="One unit. With more, the factor is a matrix, and directions fare differently. The chart ends at 1e-20.",
    )


# The LSTM cell -------------------------------------------------------------------------------------------------------


def lstm_cell() -> Composition:
    """One step of an LSTM of one unit: along the cell, and by the second route through h and the gates."""
    start, o_before, x = leaf(0.8, "c"), leaf(0.75, "o"), leaf(0.3, "x")
    biases = {name: leaf(1.0 if name == "f" else 0.0, f"b_{name}") for name in "fiog"}
    with step(1):
        c_before = (1.0 * start).named("c")
        h_before = (o_before * tanh(c_before)).named("h")
    with step(2):
        raw = {name: 0.5 * x + 0.5 * h_before + b for name, b in biases.items()}
        gates = {name: (tanh if name == "g" else sigmoid)(raw[name]).named(name) for name in "fiog"}
        c = (gates["f"] * c_before + gates["i"] * gates["g"]).named("c")
        h = (gates["o"] * tanh(c)).named("h")
    figure = drawn(c, h)  # asked of c: h is shown beside it
    rows = [
        ["direct (h held)", figure.cell("rate", c, c_before, h_before)],
        ["second, through h", figure.cell("route", h_before, c_before)],
        *([f"&emsp;of it by {name}", figure.cell("route", gates[name], c_before)] for name in "fig"),
    ]
    routes = table(
        "The ways from c back to the c before", ["", "∂c/∂c before"], rows, ["total", figure.cell("credit", c_before)]
    )
    shown = table(
        "Gates and states",
        ["", "value", "gradient of c"],
        [[f"{name}₂", *figure.cells(y, "value", "credit")] for name, y in [*gates.items(), ("c", c), ("h", h)]],
    )
    figure.parts = [side_by_side(routes, shown)]
    return Composition(
        title="An LSTM cell, and the two routes through it",
        intro="c = f · c before + i · g, and h = o · tanh(c). Along the cell, credit is multiplied by the forget gate "
        "and by nothing else. But h before came from c before as well, and every gate reads it: that is the second "
        "route, and it is the sum of what f, i and g send. Hold h, and the direct route alone is left.",
        figures=[figure],
        knobs=[
            *(knob(f"bias of {name}", -8, 8, b) for name, b in biases.items()),
            knob("x", -3, 3, x), knob("c before", -3, 3, start), knob("o before", 0, 1, o_before),
        ],
        holds=[("hold h₁", [h_before])],
        hidden="One unit, and all weights .5. The output gate o₂ gets no credit here, because the question is asked "
        "of c and not of h.",
    )  # fmt: skip


# One unit, twelve weights --------------------------------------------------------------------------------------------

INPUTS = (0, 1, 0, 0, 1, 1, 0, 1, 0)
# By gate: f, i, g, o, as the texts have them; W, U and b; then c and h at the start.
MACHINES: dict[str, tuple[Sequence[float], Sequence[float], Sequence[float], float, float]] = {
    "latch": ((-20, 20, 10, 0), (0, 0, 0, 0), (10, -10, 0, 10), 0, 0),
    "hold": ((0, 0, 0, 0), (0, 0, 0, 0), (7, -20, 0, 10), 1, 0),
    "count": ((0, 0, 10, 0), (0, 0, 0, 0), (20, 20, 0, 20), 0, 0),
    "toggle": ((-20, 20, 10, 0), (0, -40, 0, 0), (10, -10, 0, 10), 0, 0),
    "toggle, one sign wrong": ((-20, 20, 10, 0), (0, 40, 0, 0), (10, -10, 0, 10), 0, 0),
    "holds, but passes no credit": ((0, 20, 0, 0), (0, 40, 0, 0), (0, -10, 10, 10), 2, 0.964),
}


def one_unit() -> Composition:
    """An LSTM of one unit as a machine: latch, hold, count, toggle, with its twelve weights on sliders."""
    start = "toggle, one sign wrong"
    columns = {"f": 0, "i": 1, "o": 2, "g": 3}  # in the matrix A
    cell = LSTMCell(1, 1, rng=0)
    weights, recurrent, bias, c0, h0 = MACHINES[start]
    order = ["figo".index(name) for name in columns]
    cell.A.data = np.array([[weights[k] for k in order], [recurrent[k] for k in order]], float)
    cell.b.data = np.array([bias[k] for k in order], float)
    h, c = leaf([h0], "h"), leaf([c0], "c")
    first, cells, states, xs = c, [c], [h], []
    for t, value in enumerate(INPUTS, start=1):
        with step(t):
            xs.append(leaf([value], "x"))
            _, (h, c) = cell(xs[-1], (h, c))
        cells.append(c)
        states.append(h)
    figure = drawn((c * 1.0).sum().named("last c"), h.sum(), drawing=False)

    again, kept = [leaf([value], "x") for value in INPUTS], leaf([c0], "c")
    targets: dict[str, list[Tensor]] = {"hold": [kept * 1.0] * len(INPUTS)}
    for task, overlap in (("latch", 1.0), ("count", 0.0), ("toggle", 2.0)):  # or, plus, exclusive or
        a = kept * 1.0
        targets[task] = [a := a + x - overlap * a * x for x in again]
    ideal = drawn(stack([y for ys in targets.values() for y in ys]).sum(), drawing=False)

    rows = [
        [f"step {t}", '<td data-light="">—</td>', figure.cell("value", xs[t - 1]), '<td data-target="">—</td>',
         figure.cell("value", cells[t]), figure.cell("value", states[t]), figure.cell("rate", cells[t], cells[t - 1])]
        for t in range(1, len(INPUTS) + 1)
    ]  # fmt: skip
    figure.parts = [
        '<p id="light" aria-live="polite"></p>',
        table("Step by step", ["", "", "x", "c should be", "c", "h", "∂c/∂c before"], rows),
    ]
    entries = [(name, columns[name]) for name in "figo"]
    knobs = [
        *(knob(f"W {name}", -40, 40, cell.A, entry=place) for name, place in entries),
        *(knob(f"U {name}", -40, 40, cell.A, entry=4 + place) for name, place in entries),
        *(knob(f"b {name}", -40, 40, cell.b, entry=place) for name, place in entries),
        knob("c start", -3, 3, first, kept),
        knob("h start", -1, 1, states[0]),
        *(
            knob(f"x{subscript(t)}", 0, 1, x, y, switch=True)
            for t, (x, y) in enumerate(zip(xs, again, strict=True), start=1)
        ),
    ]
    says = {
        "latch": "Latch: 1 once an input was 1.",
        "hold": "Hold: what c was at the start, whatever comes in.",
        "count": "Count: how many inputs were 1.",
        "toggle": "Toggle: every 1 turns it over.",
    }
    presets = []
    for name, (ws, us, bs, at_start, h_start) in MACHINES.items():
        task = name if name in says else "toggle" if name.startswith("toggle") else "hold"
        settings = dict(enumerate([*ws, *us, *bs, at_start, h_start]))
        text = {
            start: "This one is to toggle, and one of the twelve has the wrong sign. Which?",
            "holds, but passes no credit": "c stays 2, whatever comes in, and yet each step halves the credit: what is "
            "lost by f = ½ is put in anew by i · g, which does not depend on how c was.",
        }.get(name, "")
        presets.append((name, {k: float(v) for k, v in settings.items()}, text, task))
    presets.sort(key=lambda preset: preset[0] != start)
    return Composition(
        title="One unit, twelve weights",
        intro="An LSTM of one unit is a small machine: f keeps or clears, i lets in, g says what, o shows. Turn the "
        "twelve weights, switch the inputs, and find the step at which it goes wrong (c off by .1 or more). The last "
        "column is what a step passes back: to hold a value is not to pass credit.",
        figures=[figure, ideal],
        knobs=knobs,
        presets=presets,
        tasks={
            task: (says[task], [((0, c), (1, y)) for c, y in zip(cells[1:], targets[task], strict=True)])
            for task in ("toggle", "latch", "hold", "count")
        },
        stepper=False,
        hidden="Gates here stand at 0 or 1, far out on the flat parts, where nothing can be learnt: weights like "
        "these are set by hand, and gradient descent would not find them from there.",
    )


# A row of forget gates -----------------------------------------------------------------------------------------------


def forget_row() -> Composition:
    """A row of forget values: their running product, and what each costs in steps at .99."""
    gates, c = [], leaf(1.0, "c")
    cells, costs = [c], []
    for t, value in enumerate((0.99, 0.99, 0.99, 0.5, 0.99, 0.99, 0.99, 0.99), start=1):
        with step(t):
            gates.append(leaf(value, "f"))
            cells.append((gates[-1] * cells[-1]).named("c"))
            costs.append(divide(log(gates[-1]), np.log(0.99)).named("cost"))
    figure = drawn((cells[-1] * 1.0).named("last c"), *costs)
    rows = [
        [f"step {t}", figure.cell("value", f), figure.cell("value", cells[t]), figure.cell("value", costs[t - 1]),
         figure.cell("credit", cells[t - 1])]
        for t, f in enumerate(gates, start=1)
    ]  # fmt: skip
    figure.parts = [
        side_by_side(
            table(
                "Step by step", ["", "f", "product so far", "costs as many steps at .99", "credit of c before"], rows
            ),
            chart(0, "The product so far", "steps", ["c"]),
        )
    ]
    return Composition(
        title="A row of forget gates",
        intro="c = f · c before, and nothing comes in: what is left of c, and of the credit going back, is the "
        "product of the gates. It is not their average that counts: one step at .5 costs as much as 69 steps at .99.",
        figures=[figure],
        knobs=[knob(f"f{subscript(t)}", 0, 1, f) for t, f in enumerate(gates, start=1)],
        charts=[{"log": False, "low": 0, "high": 1, "lines": [{"p": 0, "tensors": cells, "what": "value"}]}],
        stepper=False,
        hidden="Only the direct route: in a real cell credit goes back through h and the gates as well.",
    )


# Explosion -----------------------------------------------------------------------------------------------------------


def explosion() -> Composition:
    """w = 1.5 over 16 steps: the gradient, where one step of descent lands, and what clipping does."""
    w, h = leaf(1.5, "w"), Tensor(1.0, name="h")
    states = []
    for t in range(1, 17):
        with step(t):
            h = (w * h).named("h")
        states.append(h)
    figure = drawn((0.5 * (h - 1.0) ** 2).named("L"), drawing=False)
    figure.parts = [
        side_by_side(
            table(
                "Values and gradients",
                ["", "value", "gradient", "after the step"],
                [
                    [html.escape(figure.program.label(x)), *figure.cells(x, "value", "credit", "after")]
                    for x in (w, *states, figure.program.result)
                ],
            ),
            chart(0, "Value and credit at each step", "steps", ["h", "credit of h"]),
        )
    ]  # fmt: skip
    return Composition(
        title="A gradient that explodes",
        intro="h = w · h before, sixteen times from 1, with w = 1.5, and L = ½ (h₁₆ − 1)². Every step back multiplies "
        "by 1.5, so the gradient of w is 4,595,019, and one step at .1 throws w to −459,500. Clip its norm at 1 and "
        "the step is short, in the same direction. Where it vanishes (w = .5), clipping does nothing: there is "
        "nothing to shorten.",
        figures=[figure],
        knobs=[knob("w", -2, 2, w)],
        update=[w],
        clip=0.0,
        charts=[
            {"log": True, "low": -8, "first": 1, "lines": [
                {"p": 0, "tensors": states, "what": "value"}, {"p": 0, "tensors": states, "what": "credit"}
            ]}
        ],
        stepper=False,
        hidden="One weight. With more, clipping by the norm keeps the direction, and clipping each entry does not.",
    )  # fmt: skip


# Who survives --------------------------------------------------------------------------------------------------------

SEEDS, BEFORE, BACK = 8, 20, 100
DISTANCES = (10, 50, 100)


def survival() -> Composition:
    """What is left of a gradient after k steps: a tanh RNN whose recurrent matrix is ρ times orthogonal, and a cell."""
    rng = np.random.default_rng(0)
    units = 8
    rho, bias = leaf(1.0, "ρ"), leaf(3.0, "b_f")
    orthogonal = np.stack([np.linalg.qr(rng.standard_normal((units, units)))[0] for _ in range(SEEDS)]).round(6)
    xs = (0.5 * rng.standard_normal((BEFORE + BACK, SEEDS, 1, units))).round(3)
    asked = rng.standard_normal((SEEDS, 1, units))
    asked = (asked / np.linalg.norm(asked, axis=-1, keepdims=True)).round(6)
    weight, h = rho * orthogonal, Tensor(np.zeros((SEEDS, 1, units)), name="h")
    states = []
    for t, x in enumerate(xs, start=1):
        with step(t):
            h = tanh(x + h @ weight).named("h")
        states.append(h)
    bound = [rho * 0.0 + 1.0]
    for _ in range(BACK):
        bound.append(bound[-1] * rho)
    figure = drawn((h * asked).sum().named("asked"), bound[-1], drawing=False)
    f, c = sigmoid(bias).named("f"), leaf(1.0, "c")
    cells = [c]
    for t in range(1, BACK + 1):
        with step(t):
            cells.append((f * cells[-1]).named("c"))
    path = drawn(cells[-1], drawing=False)

    back = states[-1 : -BACK - 2 : -1]  # after 0, 1, 2 ... steps
    column = [f"left after {k}" for k in DISTANCES]
    rnn = [
        ["tanh RNN, the least", figure.cell("value", rho), *(figure.cell("low", back[k], SEEDS) for k in DISTANCES)],
        ["the most", figure.cell("value", rho), *(figure.cell("high", back[k], SEEDS) for k in DISTANCES)],
        ["bound ρᵏ", figure.cell("value", rho), *(figure.cell("value", bound[k]) for k in DISTANCES)],
    ]
    cell = [["LSTM, along the cell", path.cell("value", f), *(path.cell("credit", cells[BACK - k]) for k in DISTANCES)]]
    figure.parts = [
        chart(0, "What is left of a gradient", "steps back", ["tanh RNN, least to most", "LSTM cell path", "bound ρᵏ"]),
        table(f"{SEEDS} RNNs", ["", "factor per step", *column], rnn),
    ]
    path.parts = [table("An LSTM's cell path", ["", "factor per step", *column], cell)]
    return Composition(
        title="Who survives a hundred steps?",
        intro=f"{SEEDS} tanh RNNs of {units} units, each with a recurrent matrix ρ times an orthogonal one, so that "
        "every singular value is ρ. The bound ρᵏ leaves out the slopes of tanh, which are at most 1: what is left lies "
        "below it, often by far. At ρ = 2 some lose nearly all and others explode. Along the cell of an LSTM the "
        "factor is the forget gate, σ(b_f), and nothing else.",
        figures=[figure, path],
        knobs=[knob("ρ", 0, 2, rho), Knob("b_f", -2, 8, [(1, bias, 0)])],
        charts=[
            {"log": True, "low": -20, "high": 6, "lines": [
                {"p": 0, "tensors": back, "what": "credit", "rows": SEEDS},
                {"p": 1, "tensors": cells[::-1], "what": "credit"},
                {"p": 0, "tensors": bound, "what": "value"},
            ]}
        ],
        stepper=False,
        hidden=f"One scenario: inputs .5 · N(0, 1), {BEFORE} steps before the {BACK} that are gone back, and of each "
        "RNN the gradient of one random direction, not the largest singular value. The second route of the LSTM, "
        "through h and the gates, is not in the path.",
    )  # fmt: skip


# The two conventions of the GRU --------------------------------------------------------------------------------------


def gru() -> Composition:
    """One step of a GRU under both conventions of its update gate, side by side."""
    figures, knobs = [], {}
    for convention in ("keep", "write"):
        start = {"h before": 0.8, "z": 0.9, "r": 0.25, "input": 0.0, "weight": 1.0}
        leaves = {name: leaf(v, name) for name, v in start.items()}
        before, z, r, a, u = leaves.values()
        shown = (r * before).named("r · h before")
        g = tanh(a + u * shown).named("g")
        old, new = (z, 1.0 - z) if convention == "keep" else (1.0 - z, z)
        kept, written = (old * before).named("kept"), (new * g).named("written")
        figure = drawn((kept + written).named("h"), drawing=False)
        rule = "h = z · h before + (1 − z) · g" if convention == "keep" else "h = (1 − z) · h before + z · g"
        rows = [
            [name, *figure.cells(x, "value", "credit")]
            for name, x in [*leaves.items(), ("r · h before", shown), ("g", g), ("kept", kept), ("written", written)]
        ]
        figure.parts = [
            table(
                f"update={convention!r}: {rule}",
                ["", "value", "gradient of h"],
                rows,
                ["h", figure.cell("value", figure.program.result), ""],
            )
        ]
        figures.append(figure)
        knobs[convention] = leaves
    spans = {"h before": (-1, 1), "z": (0, 1), "r": (0, 1), "input": (-3, 3), "weight": (-3, 3)}
    return Composition(
        title="A GRU, and the two meanings of its update gate",
        intro="The same gate values, two conventions. On the left z keeps the old state (Cho 2014, and tg.nn.GRU's "
        "default), on the right z writes the new one. With z = .9 the left keeps .7397, and the right .2576. Negating "
        "the weights and the bias of z turns one into the other. The reset gate acts before the recurrent weight, on "
        "what the candidate sees of the old state.",
        figures=figures,
        knobs=[knob(name, *span, knobs["keep"][name], knobs["write"][name]) for name, span in spans.items()],
        stepper=False,
        hidden="The gates are given here; in a GRU they are computed from x and h before, and credit goes through "
        "them too. PyTorch and cuDNN let the reset gate act after the recurrent product.",
    )


READY: dict[str, tuple[str, Callable[[], Composition]]] = {
    "three-uses": ("one weight, three uses; a push of a state; one step of gradient descent", three_uses),
    "tanh-chain": ("credit along a chain of tanh, by weight and length", tanh_chain),
    "lstm-cell": ("an LSTM cell: the direct route and the second one, by gate", lstm_cell),
    "one-unit": ("an LSTM of one unit as latch, hold, count, toggle: find the wrong weight", one_unit),
    "forget-row": ("a row of forget gates, and what each costs", forget_row),
    "explosion": ("a gradient that explodes, and clipping", explosion),
    "survival": ("what is left of a gradient after a hundred steps: an RNN by ρ, an LSTM by its forget bias", survival),
    "gru": ("a GRU under both conventions of its update gate", gru),
    "sentence": ("a sentence read by a small trained network: which characters a prediction owes to which", sentence),
}
