"""Drawings say what the tape says: every edge is a dependence, and the credit on the edges adds up to the gradient."""

import contextlib
import cProfile
import math
import pstats
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import tinygrad_seq as tg
from tinygrad_seq.see.layout import HEIGHT
from tinygrad_seq.see.svg import COLOURS, Sheet, style

DOCS = Path(__file__).parents[2] / "docs"


def three_uses():
    """The linear unit of the README."""
    w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(0.0, name="h")
    for t, x in enumerate([1.0, 0.0, 0.0], start=1):
        with tg.step(t):
            h = (x + w * h).named("h")
    return (0.5 * (h - 1.0) ** 2).named("L")


def lstm_of_one_unit():
    """The LSTM of docs/reading.md, of one unit over three steps."""
    cell = tg.nn.LSTMCell(1, 1, rng=0)
    _, state = tg.nn.unroll(cell, np.ones((3, 1)))
    return (0.5 * (state.h - 1.0) ** 2).sum().named("loss")


NETWORKS = [
    pytest.param(tg.nn.RNN(2, 3, rng=0), {}, id="RNN"),
    pytest.param(tg.nn.GRU(2, 3, layers=2, rng=0), {}, id="two layers of GRU"),
    pytest.param(tg.nn.LSTM(2, 3, bidirectional=True, rng=0), {}, id="LSTM in both directions"),
    pytest.param(tg.nn.LSTM(2, 3, rng=0), {"lengths": [4, 2]}, id="LSTM over lengths"),
]


def loss_of(net, options):
    outputs, _ = net(np.random.default_rng(1).standard_normal((4, 2, 2)), **options)
    return outputs.square().sum().named("L")


def incoming(drawing):
    """What the edges bring to each tensor."""
    total = {}
    for edge in drawing.edges:
        if edge.credit is not None:
            total[edge.source] = total.get(edge.source, 0.0) + edge.credit
    return total


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("cut", [[], [(2, 3)]])
@pytest.mark.parametrize(("net", "options"), NETWORKS)
def test_the_credit_on_the_edges_of_a_tensor_is_its_gradient(net, options, cut, everything):
    flow = tg.Tape(loss_of(net, options)).flow(cut=cut)
    drawing = tg.draw(flow, everything=everything)
    came = incoming(drawing)
    inner = [x for x in drawing.nodes if x.requires_grad and x.name != "L"]
    assert len(inner) >= 4
    for x in inner:
        np.testing.assert_allclose(came.get(x, np.zeros(x.shape)), flow[x], rtol=1e-12, atol=1e-15)
    assert set(net.parameters()) <= {*drawing.shared}


@given(
    recipe=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from("+*-/")), min_size=1, max_size=9),
    names=st.sets(st.integers(0, 9)),
)
def test_the_credit_adds_up_whatever_is_named(recipe, names):
    values = [tg.Tensor(1.5, requires_grad=True, name="a"), tg.Tensor(0.5, requires_grad=True)]
    for k, (i, j, sign) in enumerate(recipe):
        a, b = values[i % len(values)], values[j % len(values)]
        y = {"+": a + b, "*": a * b, "-": a - 0.5 * b, "/": a / (1.0 + b * b)}[sign]
        values.append(y.named(f"v{k}") if k in names else y)
    flow = tg.Tape(values[-1]).flow()
    drawing = tg.draw(flow)
    came = incoming(drawing)
    for x in drawing.nodes:
        if x is not values[-1]:
            np.testing.assert_allclose(came.get(x, 0.0), flow[x], rtol=1e-9, atol=1e-12)
    ElementTree.fromstring(drawing.svg())


def edges_between(drawing, before):
    """The credit of each edge from one side of a boundary to the other."""
    inner = [e for e in drawing.edges if e.source.step is not None and e.target.step is not None]
    return {(e.source.label(), e.target.label()): e.credit for e in inner if e.source.step <= before < e.target.step}


def test_over_a_cut_the_value_crosses_and_the_credit_does_not():
    tape = tg.Tape(lstm_of_one_unit())
    whole, cut = tg.draw(tape), tg.draw(tape.flow(cut=[(2, 3)]))
    crossing = edges_between(cut, 2)
    assert crossing.keys() == edges_between(whole, 2).keys() == {
        (f"{a} at step 2", f"{b} at step 3") for a, b in ["hf", "hi", "ho", "hg", "cc"]
    }  # fmt: skip
    assert all(credit is None for credit in crossing.values())
    assert all(credit is not None for credit in edges_between(whole, 2).values())
    svg = cut.svg()
    assert svg.count('<line class="cut"') == 1 and '<line class="cut"' not in whole.svg()
    # what lies before the cut gets no credit: all of its edges are dotted
    dotted = [e for e in cut.edges if e.credit is None]
    assert svg.count('class="edge value"/><path') == len(dotted) > len(crossing)


def test_a_tensor_held_and_a_constant_pass_on_values_only():
    x, k = tg.Tensor(2.0, requires_grad=True, name="x"), tg.Tensor(3.0, name="k")
    y = (x * k).named("y")
    tape = tg.Tape((y * x).named("z"))
    credit = {(e.source.name, e.target.name): e.credit for e in tg.draw(tape).edges}
    assert credit == {("x", "y"): 6.0, ("k", "y"): None, ("y", "z"): 2.0, ("x", "z"): 6.0}
    held = {(e.source.name, e.target.name): e.credit for e in tg.draw(tape.flow(holding=[y])).edges}
    assert held == {("x", "y"): None, ("k", "y"): None, ("y", "z"): None, ("x", "z"): 6.0}


def test_who_reads_one_step_of_a_stacked_sequence_is_not_joined_to_the_others():
    outputs, _ = tg.nn.GRU(2, 3, layers=2, rng=0)(np.ones((3, 2)))
    for flow in (
        tg.Tape(outputs[-1].sum().named("L")).flow(),
        tg.Tape(outputs[-1].sum().named("L")).flow(cut=[(1, 2)]),
    ):
        drawing = tg.draw(flow)
        across = [(e.source, e.target) for e in drawing.edges if e.source.scope != e.target.scope and e.target.scope]
        assert len(across) >= 9 and all(source.step == target.step for source, target in across)
        assert [e.source.step for e in drawing.edges if e.target.name == "L"] == [3]


def test_what_no_step_reads_stands_beside_the_loss_and_not_across_the_steps():
    rng = np.random.default_rng(0)
    net, head = tg.nn.GRU(2, 3, layers=2, rng=rng), tg.nn.Linear(3, 1, rng=rng)
    loss = head(net(np.ones((4, 2)))[0][-1]).sum().named("L")
    drawing = tg.draw(tg.Tape(loss).flow(cut=[(2, 3)]))
    place, (line,) = Sheet(drawing).place, Sheet(drawing)._boundaries()
    carrying = [e for e in drawing.edges if e.carries]
    assert {"W", "b"} <= {e.source.name for e in carrying}
    assert all(place(e.source)[0] > line for e in carrying)
    assert drawing.svg().count('class="edge" ') == len(carrying) + 1  # and the legend


def test_held_tensors_are_marked_and_the_steps_that_are_left_out_told():
    tape = tg.Tape(lstm_of_one_unit())
    held = tg.draw(tape.flow(holding=[h for h in tape.find("h") if h.step == 2]), steps=(2, 3)).svg()
    assert held.count('class="box held"') == 2  # and the legend
    assert "Of the steps only 2 to 3 are drawn." in held
    assert "held" not in re.sub(r"<style>.*</style>", "", tg.draw(tape).svg(), flags=re.DOTALL)
    for steps in ([1, 2, 3], 3, (1,)):
        with pytest.raises(ValueError, match=r"the first and the last to draw, as in steps=\(1, 4\); got"):
            tg.draw(tape, steps=steps)


def texts(svg):
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_a_drawing_shows_names_values_gradients_and_the_ledger():
    said = texts(tg.draw(three_uses()).svg())
    for text in ("h₁", "h₂", "h₃", "L", "step 1", "step 3", "-0.1875", "w", "= -0.75"):
        assert text in said, text
    assert said.count("-0.375") == 1 + 2  # ∂L/∂h₂, and two of the three uses of w
    assert (
        texts(tg.draw(tg.Tape(three_uses()).flow(cut=[(2, 3)])).svg()).count("—") == 3 + 2
    )  # three h without credit, two uses


@pytest.mark.parametrize(("net", "options"), NETWORKS)
def test_no_two_boxes_overlap_and_all_are_on_the_page(net, options):
    for everything in (False, True):
        drawing = tg.draw(loss_of(net, options), everything=everything)
        sheet = Sheet(drawing)
        places = [sheet.place(x) for x in drawing.nodes]
        for k, (x, y) in enumerate(places):
            assert x >= 0 and x + sheet.box <= sheet.width and y >= 0 and y + HEIGHT <= sheet.bottom
            assert all(abs(x - u) >= sheet.box or abs(y - v) >= HEIGHT for u, v in places[:k])
        svg = drawing.svg()
        assert ElementTree.fromstring(svg).get("width") == f"{sheet.width:.0f}" and "nan" not in svg


def steps_out_of_order():
    w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    for t in (3, 1, 2):
        with tg.step(t):
            h = (w * h).named("h")
    return (h * h).named("L")


def states_of_other_steps():
    """Losses that read states of later and of earlier steps, the last of them at a step as well."""
    w, h, states, total = tg.Tensor(0.5, requires_grad=True, name="weight of all"), tg.Tensor(1.0), [], 0.0
    for t in range(1, 5):
        with tg.step(t):
            h = (w * h).named("h")
        states.append(h)
    for t in range(1, 5):
        with tg.step(t):
            total = total + (states[4 - t] * states[t - 1]).named("loss")
    return total


GRAPHS = [
    pytest.param(steps_out_of_order, id="steps out of order"),
    pytest.param(states_of_other_steps, id="states of other steps"),
    pytest.param(three_uses, id="one weight"),
    *(pytest.param(lambda case=case: loss_of(*case.values), id=case.id) for case in NETWORKS),
]


def pieces_of(path):
    """The ends of a path; and around each of its lines and curves the smallest upright rectangle."""
    corners, found = [], []
    for kind, numbers in re.findall(r"([MLQV])([^MLQVz]*)", path):
        values = [*map(float, numbers.split())]
        pairs = [(corners[-1][0], *values)] if kind == "V" else [*zip(values[::2], values[1::2], strict=True)]
        if corners:
            found.append((*np.min([corners[-1], *pairs], 0), *np.max([corners[-1], *pairs], 0)))
        corners.append(pairs[-1])
    return corners[0], corners[-1], found


def test_a_path_is_read_as_it_is_drawn():
    assert pieces_of("M0 0L10 0Q20 0 20 10L20 30V5z") == (
        (0, 0), (20, 5), [(0, 0, 10, 0), (10, 0, 20, 10), (20, 10, 20, 30), (20, 5, 20, 30)],
    )  # fmt: skip


EVERY_KIND = [
    *GRAPHS,
    pytest.param(
        lambda: loss_of(tg.nn.LSTM(2, 3, layers=2, bidirectional=True, residual=False, rng=0), {}), id="biLSTM"
    ),
    pytest.param(lambda: loss_of(tg.nn.GRU(2, 3, reset="after", update="write", rng=0), {}), id="GRU, reset after"),
    pytest.param(lambda: loss_of(tg.nn.LSTM(2, 3, projection=2, cell_clip=3.0, rng=0), {}), id="LSTM with projection"),
    pytest.param(
        lambda: loss_of(tg.nn.LSTM(2, 3, forget_gate=False, layers=3, residual=True, rng=0), {}), id="carousel"
    ),
    pytest.param(lambda: loss_of(tg.nn.RNN(2, 3, bidirectional=True, rng=0), {"lengths": [4, 2]}), id="both, lengths"),
]


def long_run(net, T=40):
    outputs, _ = net(np.random.default_rng(1).standard_normal((T, 2, 2)))
    return outputs.square().sum().named("L")


def without_steps(n):
    w, h = tg.Tensor(0.9, requires_grad=True, name="w"), tg.Tensor(1.0, requires_grad=True, name="h")
    for _ in range(n):
        h = (w * h + 0.1).named("h")
    return h


LONG = [
    pytest.param(lambda: long_run(tg.nn.LSTM(2, 3, rng=0)), id="long LSTM"),
    pytest.param(lambda: long_run(tg.nn.GRU(2, 3, layers=2, bidirectional=True, rng=0)), id="long, two layers, both"),
    pytest.param(lambda: without_steps(40), id="without steps"),
]
QUESTIONS = [{}, {"everything": True}, {"fold": "gates"}, {"fold": "step"}, {"fold": None}, {"only": "h"}]


@pytest.mark.parametrize(
    ("graph", "question"),
    [
        pytest.param(*kind.values, question, id=f"{kind.id}, {question}")
        for kinds, questions in ((EVERY_KIND, QUESTIONS), (LONG, ({}, {"fold": "step"})))
        for kind in kinds
        for question in questions
    ],
)
def test_no_edge_crosses_a_box_and_each_joins_its_own_two(graph, question):
    loss = graph()
    drawing = tg.draw(loss, **question)
    svg = ElementTree.fromstring(drawing.svg())
    space = "{http://www.w3.org/2000/svg}"
    boxes, edges = {}, []
    for group in svg.iter(f"{space}g"):
        rects, title = group.findall(f"{space}rect"), group.find(f"{space}title").text
        if rects:
            x, y, w, h = (float(rects[0].get(key)) for key in ("x", "y", "width", "height"))
            boxes[len(boxes)] = (x, y, x + w, y + h)
        elif " → " in title:
            line, head = (path.get("d") for path in group.findall(f"{space}path"))
            edges.append((title, pieces_of(line), pieces_of(head)))
    assert len(boxes) == len(drawing.nodes) and len(edges) == len(drawing.edges)
    corners = np.array(list(boxes.values()))
    place = {id(x): corner for x, corner in zip(drawing.nodes, corners, strict=True)}
    own = {f"{drawing.label(e.source)} → {drawing.label(e.target)}": e for e in drawing.edges}
    for title, line, head in edges:
        low, high = np.split(np.array(line[2] + head[2])[:, None], 2, axis=2)
        within = (corners[:, :2] + 1 < high).all(2) & (low < corners[:, 2:] - 1).all(2)
        assert not within.any(), (title, np.argwhere(within)[:3])
        if len(own) == len(edges):
            e = own[title.rpartition(":")[0]]
            ends = {line[0], head[0]}  # where it comes from, and where the arrow points
            for x in (e.source, e.target):
                left, top, right, bottom = place[id(x)]
                assert any(
                    min(abs(px - left), abs(px - right)) < 1.5 and top <= py <= bottom for px, py in ends
                ), (title, ends, place[id(x)])  # fmt: skip


def any_graph(rng):
    """A graph of a few names and scopes, its steps in any order, some operations at none; and a cut, perhaps."""
    values = [tg.Tensor(1.5, requires_grad=True, name="a"), tg.Tensor(0.5, requires_grad=True)]
    values.append(tg.Tensor(0.3, name="k"))
    steps = rng.permutation(rng.integers(1, 25)) if rng.random() < 0.3 else np.arange(rng.integers(1, 25))
    for t in steps:
        label = tg.step(int(t)) if rng.random() < 0.8 else contextlib.nullcontext()
        with label, tg.scope(str(rng.choice(["", "s0", "s1"]))):
            for _ in range(rng.integers(1, 4)):
                a, b = (values[k] for k in rng.integers(max(0, len(values) - 8), len(values), 2))
                y = [a + b, a * b, a - 0.5 * b, tg.tanh(a) * b][rng.integers(4)]
                values.append(y.named(str(rng.choice(["h", "c", "f", "a"]))) if rng.random() < 0.6 else y)
    tape = tg.Tape(values[-1] + 0.1 * values[0])
    boundaries = list(pairwise(tape._steps))
    return tape.flow(cut=[boundaries[rng.integers(len(boundaries))]] if boundaries and rng.random() < 0.4 else [])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([{}, {"fold": "gates"}, {"fold": "step"}, {"fold": None}]))
def test_of_any_graph_no_edge_crosses_a_box_and_the_credit_adds_up(seed, question):
    flow = any_graph(np.random.default_rng(seed))
    drawing = tg.draw(flow, **question)
    sheet = Sheet(drawing)
    corners = np.array([sheet.place(x) for x in drawing.nodes])
    for way in sheet.ways:
        points = np.array(sheet.points(way))
        assert ((points[1:] == points[:-1]).any(1)).all()  # upright and level
        low, high = np.minimum(points[1:], points[:-1])[:, None], np.maximum(points[1:], points[:-1])[:, None]
        assert not ((corners + 1 < high).all(2) & (low < corners + [sheet.box - 1, HEIGHT - 1]).all(2)).any()
    assert question or sheet.width <= 1600
    came = incoming(drawing)
    alone = [x for x in drawing.nodes if isinstance(x, tg.Tensor) and x.requires_grad]
    for x in set(alone) - set(flow.tape.results):
        if question.get("fold") != "step" or x not in came:  # there, edges within a box are not drawn
            np.testing.assert_allclose(came.get(x, 0.0), flow[x], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("T", [1, 2, 3, 4, 5, 6, 7, 12, 60])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("both", [False, True])
def test_a_drawing_is_at_most_1600_pixels_wide_and_says_what_it_folded(T, layers, both):
    net = tg.nn.LSTM(2, 3, layers=layers, bidirectional=both, rng=0)
    drawing = tg.draw(long_run(net, T))
    assert float(ElementTree.fromstring(drawing.svg()).get("width")) <= 1600
    steps = {x.step for x in drawing.nodes if x.step is not None}
    said = " ".join(texts(drawing.svg()))
    assert {1, T} <= steps and (len(steps) == T or "are folded into the boxes under …" in said)
    assert ("Folded into the edges, which carry their credit: f, g, i, o." in said) == (
        "f" not in {x.name for x in drawing.nodes}
    )


@pytest.mark.parametrize("graph", [*EVERY_KIND, *LONG])
@pytest.mark.parametrize("question", [{}, {"fold": "gates"}, {"fold": "step"}, {"only": ("c", "h")}], ids=str)
def test_what_is_left_out_leaves_the_credit_on_the_edges(graph, question):
    loss = graph()
    if "only" in question:
        question = {"only": [name for name in ("c", "h") if name in tg.Tape(loss)._names]}
    drawing = tg.draw(loss, **question)
    flow, came = drawing.flow, {}
    for e in drawing.edges:
        if e.credit is not None:
            came[e.source] = came.get(e.source, 0.0) + np.asarray(e.credit).ravel()
    compared = 0
    for x in drawing.nodes:
        if not isinstance(x, tg.Tensor) or not x.requires_grad or x in set(flow.tape.results):
            continue
        if question.get("fold") != "step" or x not in came:  # there, edges within a box are not drawn
            np.testing.assert_allclose(came.get(x, np.zeros(x.size)), flow[x].ravel(), rtol=1e-9, atol=1e-12)
            compared += 1
    assert compared or question.get("fold") == "step"


def test_a_step_that_is_one_box_sends_what_its_tensors_send():
    loss = lstm_of_one_unit()
    drawing = tg.draw(loss, fold="step")
    flow = tg.Tape(loss).flow()
    one = {e.target.step: e for e in drawing.edges if e.source.name == "c, h"}
    assert [drawing.label(e.source) for e in one.values()] == ["c, h₁", "c, h₂", "c, h₃"]
    c, h = flow.tape.find("c", 1), flow.tape.find("h", 1)
    within = sum(e.credit for e in tg.draw(loss).edges if e.source is c and e.target in (h, flow.tape.find("o", 1)))
    np.testing.assert_allclose(one[2].credit, [(flow[c] - within).item(), flow[h].item()], rtol=1e-12)


def test_only_the_names_that_were_asked_for_are_drawn():
    loss = lstm_of_one_unit()
    assert {x.name for x in tg.draw(loss, only=("c", "h")).nodes} == {"c", "h", "loss"}
    assert {x.name for x in tg.draw(loss, only="c").nodes} == {"c", "loss"}
    with pytest.raises(ValueError, match=r"no tensor on this tape is named 'q'; there are"):
        tg.draw(loss, only=("c", "q"))
    with pytest.raises(ValueError, match=r"fold is one of 'fit', 'gates', 'step', None; got 'gate'"):
        tg.draw(loss, fold="gate")
    with pytest.raises(ValueError, match="everything=True draws each operation"):
        tg.draw(loss, everything=True, only="c")


def test_inputs_and_the_first_state_are_drawn_at_every_step():
    drawing = tg.draw(lstm_of_one_unit())
    inputs = {drawing.label(e.source): drawing.label(e.target) for e in drawing.edges if not e.source.requires_grad}
    assert set(inputs) == {"c", "[x, h]₁", "x₂", "x₃"}  # at the start nothing is recorded of the join of two constants
    named, _ = tg.nn.GRU(2, 3, rng=0)(tg.Tensor(np.ones((3, 2)), name="words"))
    assert {x.step for x in tg.draw(named.sum()).nodes if x.name == "words"} == {1, 2, 3}
    assert "[words, h]₁" in texts(tg.draw(named.sum()).svg())


def test_a_parameter_without_a_name_is_not_called_a_constant():
    p = tg.Tensor([1.0, 2.0], requires_grad=True)
    assert (
        "parameter" in texts(tg.draw((p * 2.0).sum().named("y")).svg())
        and "constant" not in tg.draw((p * 2.0).sum()).svg()
    )


def test_the_cell_is_drawn_as_in_textbooks():
    drawing = tg.draw(lstm_of_one_unit())
    sheet = Sheet(drawing)
    rows = {name: {sheet.place(x)[1] for x in drawing.nodes if x.name == name and x.step} for name in "figoch"}
    assert [len(found) for found in rows.values()] == [1] * 6
    heights = [found.pop() for found in rows.values()]
    assert heights == sorted(heights)  # gates above, the cell line, h below
    along = [way for way in sheet.ways if way.edge.source.name == way.edge.target.name == "c"]
    assert len(along) == 3 and all(len({y for _, y in sheet.points(way)}) == 1 for way in along)  # straight
    assert not any("layer" in text for text in texts(drawing.svg()))
    texts_of_two = texts(tg.draw(loss_of(tg.nn.RNN(2, 3, layers=2, rng=0), {})).svg())
    assert texts_of_two.count("layer0") == 1 and "h₂" in texts_of_two  # the scope once, for its band


def test_what_is_read_before_the_first_step_stands_before_it():
    table = tg.Tensor(np.ones((3, 2)), requires_grad=True, name="table")
    outputs, _ = tg.nn.LSTM(2, 3, rng=0)(tg.embedding(table, np.array([[0], [2]])))
    drawing = tg.draw(outputs.sum().named("L"))
    assert drawing.at[table] == -math.inf
    assert all(Sheet(drawing).place(table)[0] < Sheet(drawing).place(x)[0] for x in drawing.nodes if x.step)


@pytest.mark.parametrize("length", [1, 40, 400])
def test_long_names_are_cut_short_and_told_in_full_to_a_pointer(length):
    name, scope = "n" * length, "s" * length
    w, h = tg.Tensor(0.5, requires_grad=True, name=name), tg.Tensor(1.0, name=name)
    with tg.scope(scope):
        for t in range(1, 30):
            with tg.step(t):
                h = (w * h).named(name)
    svg = tg.draw((h * h).named(name)).svg()
    assert float(ElementTree.fromstring(svg).get("width")) <= 1600
    assert f"<title>{name} at step 29" in svg


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("question", [{}, {"fold": "gates"}, {"fold": "step"}, {"everything": True}], ids=str)
def test_what_is_no_number_is_drawn_in_every_way(number, question):
    w, h = tg.Tensor([number, 1.0], requires_grad=True, name="w"), tg.Tensor([1.0, 1.0], name="h")
    for t in range(1, 30):
        with tg.step(t), np.errstate(all="ignore"):
            c = (w * h).named("c")
            h = tg.tanh(c + h).named("h")
    with np.errstate(all="ignore"):
        svg = tg.draw(h.sum().named("L"), **question).svg()
    for element in ElementTree.fromstring(svg).iter():
        for key in ("d", "x", "y", "width", "height", "stroke-width"):
            assert not {"nan", "inf"} & set(re.findall("[a-z]+", element.get(key) or ""))


def test_the_strip_shows_the_gradient_at_every_step():
    drawing = tg.draw(long_run(tg.nn.RNN(2, 3, rng=0), 200))
    ((scope, name, sizes),) = drawing.strip()
    flow = drawing.flow
    assert (scope, name) == ("layer0", "h") and [step for step, _ in sizes] == list(range(1, 201))
    assert all(np.isclose(size, np.linalg.norm(flow[flow.tape.find("h", step)])) for step, size in sizes)
    assert "The gradient at every step from 1 to 200" in " ".join(texts(drawing.svg()))
    assert 'class="bars"' not in tg.draw(three_uses()).svg()


def contrast(a, b):
    """Of two colours, as WCAG 2.2 defines it."""

    def luminance(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_and_edges_stand_out_from_what_they_lie_on(theme):
    colours = COLOURS[theme]
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    for line in ("text", "quiet", "frame", "credit", "value", "cut"):
        for ground in ("page", "column", "box"):
            assert contrast(colours[line], colours[ground]) >= 4.5, (line, ground)
    assert "opacity" not in style()  # which would take it away again
    assert "@media (prefers-color-scheme: dark)" in tg.draw(three_uses()).svg()


def test_a_drawing_can_be_read_aloud():
    root = ElementTree.fromstring(tg.draw(three_uses()).svg())
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "graphics-document document" and root[0].tag == f"{space}title"
    assert root[0].text == root.get("aria-label") == "The unrolled graph of L"
    groups = list(root.iter(f"{space}g"))
    assert groups and all(g.get("role") and g[0].tag == f"{space}title" and g[0].text for g in groups)


ANY_NAME = st.text(st.characters(exclude_categories=()), min_size=1, max_size=12) | st.sampled_from([
    '"><script>alert(1)</script>', "a'b\\", "x]]>", "é→😀", "%%{init}%%", "end", "a;b", "{{x}}", "`a`",
    "--> b", "#quot;",
])  # fmt: skip


@given(ANY_NAME, ANY_NAME, ANY_NAME)
def test_names_are_spelled_out_in_every_language(a, b, scope):
    x = tg.Tensor(1.0, requires_grad=True, name=a)
    with tg.step(1), tg.scope(scope):
        y = (2.0 * x).named(b)
    drawing = tg.draw(y * y)
    root = ElementTree.fromstring(drawing.svg())
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg", "title", "desc", "style", "rect", "text", "path", "g", "line",
    }  # fmt: skip
    lines = drawing.mermaid().split("\n")
    assert len(lines) == 2 + len(drawing.nodes) + len(drawing.edges) + 2 * sum(map(math.isfinite, drawing.columns))
    assert all(line.count('"') % 2 == 0 and "<script" not in line for line in lines)
    dot = re.sub(r'"(?:[^"\\]|\\.)*"', '""', drawing.dot())  # without its strings
    assert re.fullmatch(r'[\w\s\[\]{}=;>",-]*', dot) and dot.count("{") == dot.count("}")


@pytest.mark.parametrize("graph", [*GRAPHS, lambda: tg.Tensor(1.0, requires_grad=True, name="x") * 2.0])
@pytest.mark.parametrize("cut", [False, True])
def test_no_two_texts_overlap_and_all_are_on_the_page(graph, cut):
    tape = tg.Tape(graph())
    steps = sorted({x.step for x in tape if x.step is not None})
    root = ElementTree.fromstring(tg.draw(tape.flow(cut=[tuple(steps[-2:])] if cut and steps else [])).svg())
    lines = {}
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        x, wide, look = float(element.get("x")), 6 * len(element.text), element.get("class").split()
        left = x if "left" in look else x - wide if "right" in look else x - wide / 2
        assert left >= 0 and left + wide <= float(root.get("width")), element.text
        lines.setdefault(float(element.get("y")), []).append((left, left + wide, element.text))
    for line in lines.values():
        line.sort()
        assert all(a[1] < b[0] for a, b in pairwise(line)), line


def test_the_ledger_of_a_drawing_leaves_no_use_out():
    w, h = tg.Tensor(2.0, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    for t in (1, 2):
        with tg.step(t):
            h = (w * h).named("h")
    tape = tg.Tape((w * h).named("L"))  # w³
    assert [text for text in texts(tg.draw(tape).svg()) if "4" in text][-3:] == ["4", "4", "+ 4 = 12"]
    assert "+ 8 = 12" in texts(tg.draw(tape, steps=(2, 2)).svg())
    assert "What the uses of each step give, + those at no step of the drawing" in texts(tg.draw(tape).svg())


def test_equal_names_stand_at_the_same_height_at_every_step():
    drawing = tg.draw(lstm_of_one_unit())
    sheet = Sheet(drawing)
    for name in "fiogch":
        places = [sheet.place(x) for x in drawing.nodes if x.name == name and x.step]
        assert len(places) == 3 and len({y for _, y in places}) == 1
        assert places[1][0] - places[0][0] == places[2][0] - places[1][0] > 0


def test_names_with_signs_of_the_language_are_spelled_out():
    x = tg.Tensor(1.0, requires_grad=True, name='a"b<br>&c\\d')
    drawing = tg.draw((2.0 * x).named("y]"))
    assert x.name in texts(drawing.svg())
    assert 'a&quot;b&lt;br&gt;&amp;c\\d<br>1<br>credit 2"]' in drawing.mermaid()
    assert '"a\\"b<br>&c\\\\d\\n1\\ncredit 2"' in drawing.dot()


def test_mermaid_and_dot_say_the_same_as_the_drawing():
    drawing = tg.draw(tg.Tape(lstm_of_one_unit()).flow(cut=[(1, 2)]))
    solid, dotted = (sum((e.credit is None) is none for e in drawing.edges) for none in (False, True))
    mermaid, dot = drawing.mermaid(), drawing.dot()
    assert (mermaid.count("==>"), mermaid.count("-.->")) == (solid, dotted)
    assert (dot.count("[label=") - len(drawing.nodes), dot.count("[style=dashed]")) == (solid, dotted)
    assert mermaid.count("subgraph") == dot.count("subgraph") == 3
    assert dot.count("{") == dot.count("}")


def test_a_graph_without_names_or_steps_is_drawn_whole():
    x = tg.Tensor([1.0, 2.0], requires_grad=True)
    drawing = tg.draw((x * x).sum())
    assert [t.operation for t in drawing.nodes] == [None, "multiply", "sum"]
    assert {"multiply", "sum", "‖2.236‖"} <= set(texts(drawing.svg()))
    assert "subgraph" not in drawing.mermaid()


def test_some_steps_of_many():
    tape = tg.Tape(tg.nn.RNN(1, 2, rng=0)(np.ones((6, 1)))[0].sum().named("L"))
    drawing = tg.draw(tape, steps=(2, 4))
    nodes = [(x.name, x.step) for x in drawing.nodes]
    assert nodes == [("x", 2), ("x", 3), ("x", 4), ("h", 2), ("h", 3), ("h", 4), ("L", None)]
    assert all(e.source.step in (2, 3, 4) for e in drawing.edges)
    states = tg.Tape(*[x for x in tg.Tape(three_uses()).find("h") if x.step == 3])
    with pytest.raises(ValueError, match=r"nothing to draw at steps \(8, 9\): .*steps 1"):
        tg.draw(states, steps=(8, 9))


@pytest.mark.parametrize(
    ("options", "steps"), [({}, 100), ({"layers": 2, "bidirectional": True}, 30)], ids=["one layer", "two layers"]
)
def test_a_long_graph_is_drawn_in_time_that_grows_with_its_length(options, steps):
    def calls(steps):
        loss = tg.nn.LSTM(1, 2, rng=0, **options)(np.ones((steps, 1)))[0].sum().named("L")
        with cProfile.Profile() as profile:
            tg.draw(loss).svg()
        return pstats.Stats(profile).total_calls

    assert calls(2 * steps) < 2.4 * calls(steps)


def test_what_is_not_finite_is_drawn_all_the_same():
    x = tg.Tensor(0.0, requires_grad=True, name="x")
    with np.errstate(all="ignore"):
        drawing = tg.draw(tg.log(x).named("y"))
        widths = [float(w) for w in re.findall(r'stroke-width="([^"]+)"', drawing.svg())]
    assert all(math.isfinite(width) for width in widths) and {"inf", "-inf"} <= set(texts(drawing.svg()))


@pytest.mark.parametrize(
    ("dtype", "size"), [(np.float16, 3e2), (np.float32, 3e30), (np.float64, 3e200), (float, 3e-200)]
)
def test_the_norm_of_large_and_of_small_arrays_is_said(dtype, size):
    x = tg.Tensor(np.array([1.0, 4 / 3], dtype), requires_grad=True, name="x")
    drawing = tg.draw((x * np.asarray(size, dtype)).named("y").sum())
    said = {tuple(x.split("‖")[1:2]) for x in texts(drawing.svg()) if "‖" in x}
    for length in (5 / 3 * size, 2**0.5 * size):
        assert any(math.isclose(float(text), length, rel_tol=1e-3) for (text,) in said if text != "norm")


def test_a_loss_that_nothing_has_made_is_drawn():
    assert {"w", "2", "1"} <= set(texts(tg.draw(tg.Tensor(2.0, requires_grad=True, name="w")).svg()))


def test_names_with_signs_that_no_page_takes_are_drawn_without_them():
    drawing = tg.draw((2.0 * tg.Tensor(1.0, requires_grad=True, name="a\x1bb\x0b\ud800c")).named("y\x00"))
    assert {"a b  c", "y "} <= set(texts(drawing.svg()))
    assert "a b  c" in drawing.mermaid() and "a b  c" in drawing.dot()


def test_steps_may_be_negative_or_very_large():
    w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    for t in (-2, 2**60 + 1):
        with tg.step(t):
            h = (w * h).named("h")
    drawing = tg.draw(h)
    assert {"step -2", f"step {2**60 + 1}"} <= set(texts(drawing.svg()))
    assert 'subgraph "cluster_-2" {' in drawing.dot()  # without the quotes it is no name in Graphviz' language
    assert f'["step {2**60 + 1}"]' in drawing.mermaid()


def test_what_stands_for_a_tensor_or_an_edge_says_which(tmp_path):
    drawing = tg.draw(three_uses())
    svg = drawing.svg()
    assert re.findall(r'data-node="(\d+)"', svg) == [str(k) for k in range(len(drawing.nodes))]
    assert re.findall(r'data-edge="(\d+)"', svg) == [str(k) for k in range(len(drawing.edges))]
    assert re.findall(r'data-step="(\d+)"', svg) == ["1", "2", "3"]
    cells = dict(re.findall(r'data-cell="([^"]+)"[^>]*>([^<]+)<', svg))
    for k, x in enumerate(drawing.nodes):
        assert [cells[f"value {k}"], f"credit {cells[f'credit {k}']}"] == list(drawing.lines(x)[1:])
    assert cells["use 0 3"] == "-0.375" and cells["sum 0"] == "= -0.75"


def test_save_writes_what_the_suffix_says(tmp_path):
    drawing = tg.draw(three_uses())
    texts = {".svg": drawing.svg(), ".mmd": drawing.mermaid(), ".dot": drawing.dot(), ".tex": drawing.to_tikz()}
    for suffix, text in texts.items():
        drawing.save(tmp_path / f"graph{suffix}")
        assert (tmp_path / f"graph{suffix}").read_text("utf-8") == text
    drawing.save(tmp_path / "graph.svg", theme="dark")
    assert COLOURS["dark"]["page"] in (tmp_path / "graph.svg").read_text("utf-8")
    with pytest.raises(ValueError, match=r"saved as .svg, .mmd, .dot, .tex, .png, .pdf, got 'graph.gif'"):
        drawing.save("graph.gif")
    with pytest.raises(ValueError, match="a theme is 'light', 'dark' or None"):
        drawing.svg("night")
    with pytest.raises(OSError):
        drawing.save(tmp_path / "nowhere" / "graph.svg")
    assert drawing._repr_svg_() == drawing.svg()
    assert repr(drawing) == "Drawing(5 nodes, 4 edges; .svg(), .mermaid(), .dot() or .save(path))"


@pytest.mark.parametrize("theme", [None, "light", "dark"])
@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_a_picture_is_saved_where_cairosvg_is_there(tmp_path, suffix, start, theme):
    pytest.importorskip("cairosvg", reason="pictures need the extra `pictures`")
    drawing = tg.draw(lstm_of_one_unit())
    drawing.save(tmp_path / f"graph{suffix}", theme=theme)
    assert (tmp_path / f"graph{suffix}").read_bytes().startswith(start)


@pytest.mark.parametrize("error", [ImportError, OSError])
def test_without_cairosvg_the_extra_is_named_and_nothing_is_written(tmp_path, monkeypatch, error):
    monkeypatch.setattr("tinygrad_seq.see.drawing.import_module", lambda name: (_ for _ in ()).throw(error(name)))
    with pytest.raises(ImportError, match=r"pip install 'tinygrad-seq\[pictures\]'; .svg needs nothing"):
        tg.draw(three_uses()).save(tmp_path / "graph.png")
    assert not list(tmp_path.iterdir())


def test_tikz_has_every_box_and_every_edge():
    drawing = tg.draw(tg.Tape(lstm_of_one_unit()).flow(cut=[(1, 2)]))
    text = drawing.to_tikz()
    assert text.count(r"\node[box]") == len(drawing.nodes)
    assert text.count(r"\draw[credit") == sum(e.carries for e in drawing.edges)
    assert text.count(r"\draw[value]") == sum(not e.carries for e in drawing.edges)
    assert text.count("{") == text.count("}") and r"\strut c$_1$" in text


def test_notebooks_show_tables_and_not_how_to_print_them():
    x = tg.Tensor(2.0, requires_grad=True, name="<x>")
    tape = tg.Tape((x * x).named("y"))
    for shown in (tape._repr_html_(), tape.flow()._repr_html_()):
        assert shown.startswith("<table>") and "&lt;x&gt;" in shown and "print it" not in shown
    step = tg.replay(lambda a: x * a * x)
    step(np.array(3.0))
    assert "<pre><code>" in step.program._repr_html_() and "return" in step.program._repr_html_()
    assert "<table>" in tape.visibility([tape[0]], [x])._repr_html_()
    long = tg.Tape(without_steps(200))
    assert "340 rows left out; print it to read all" in long._repr_html_()
    assert long._repr_html_().count("<tr>") == 1 + 30 + 1 + 30 + 2


def test_only_what_was_recorded_is_drawn():
    with pytest.raises(TypeError, match="a flow, a tape or a loss, got int"):
        tg.draw(3)
    loss = three_uses()
    loss.backward()
    with pytest.raises(tg.TapeReleasedError):
        tg.draw(loss)


@pytest.mark.parametrize(
    ("picture", "flow"),
    [
        ("one_weight.svg", lambda: tg.Tape(three_uses()).flow(cut=[(2, 3)])),
        ("lstm.svg", lambda: tg.Tape(lstm_of_one_unit()).flow()),
    ],
)
def test_the_pictures_of_the_documentation_are_what_is_drawn(picture, flow):
    assert (DOCS / picture).read_text("utf-8") == tg.draw(flow()).svg()
