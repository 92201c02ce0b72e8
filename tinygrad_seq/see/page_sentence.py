"""A page of its own size: a sentence, read by a small trained network, and what a prediction owes to each character."""

from __future__ import annotations

import html
from itertools import pairwise
from typing import Any

import numpy as np

from ..data.text import text_chunks
from ..engine.compositions import stack
from ..engine.ops import embedding
from ..engine.recording import step
from ..engine.tensor import Tensor, array_of
from ..nn.cells import LSTMCell
from ..nn.layers import Embedding, Linear
from ..nn.loss import cross_entropy
from ..nn.unrolling import unroll
from ..optim.clipping import clip_grad_norm
from ..optim.optimisers import Adam
from ..reading.tape import Tape
from ..replaying.recorder import replay
from .page import Composition, Figure, table
from .page_program import PageProgram

HIDDEN, WIDTH, UPDATES = 24, 8, 500
# Each sentence ends as it began: who predicts the end must have kept the beginning.
PAIRS = (
    ("red", "blood"),
    ("blue", "water"),
    ("green", "grass"),
    ("white", "paper"),
    ("black", "night"),
    ("grey", "stone"),
)
SENTENCE = "blue is like water."


def trained(updates: int = UPDATES) -> tuple[str, Embedding, LSTMCell, Linear]:
    """A character model that has read the sentences for a few seconds; its weights are rounded to four digits."""
    rng = np.random.default_rng(0)
    order = rng.integers(len(PAIRS), size=400)
    text = "".join("{} is like {}. ".format(*PAIRS[k]) for k in order)
    chunks = text_chunks(text, chunk=64, batch=8)
    embed, cell = Embedding(len(chunks.vocabulary), WIDTH, rng=rng), LSTMCell(WIDTH, HIDDEN, forget_bias=3.0, rng=rng)
    readout = Linear(HIDDEN, len(chunks.vocabulary), rng=rng)
    parameters = [p for module in (embed, cell, readout) for p in module.parameters()]
    optimiser = Adam(parameters, lr=0.02)

    def loss_of(inputs: Any, targets: Any) -> Tensor:
        outputs, _ = unroll(cell, embed(inputs))
        return cross_entropy(readout(outputs), targets)

    learn = replay(loss_of, wrt=parameters)
    for k in range(updates):
        learn(chunks.inputs[k % len(chunks.inputs)], chunks.targets[k % len(chunks.targets)])
        clip_grad_norm(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad()
    for p in parameters:
        p.data = array_of(p).round(4)
    return chunks.vocabulary, embed, cell, readout


def sentence(updates: int = UPDATES) -> Composition:
    """Point at a character: the page shades those before it by how much its prediction depends on them."""
    vocabulary, embed, cell, readout = trained(updates)
    ids = [vocabulary.index(c) for c in SENTENCE]
    state: Any = cell.initial_state(())
    read, losses = [], []
    for t, (now, after) in enumerate(pairwise(ids), start=1):
        with step(t):
            read.append(embedding(embed.table, np.array(now)).named("x"))
            h, state = cell(read[-1], state)
            losses.append(cross_entropy(readout(h), np.array(after)).named("loss"))
    first = SENTENCE.index("water") - 1
    figure = Figure(PageProgram(Tape(stack(losses).sum().named("sum"))), asked=losses[first])
    place, last = figure.program.place, len(read)
    marks = []
    for k, c in enumerate(SENTENCE):
        seed = f' data-seed="{k - 1}" aria-label="{k + 1}: {html.escape(c)}"' if k else " disabled"
        shade = f' data-shade="{place[read[k]]}"' if k < last else ""
        marks.append(f'<button type="button"{seed}{shade}>{html.escape(c.replace(" ", "␣"))}</button>')
    rows = [
        [f"{k + 1}: {html.escape(SENTENCE[k])}", *figure.cells(read[k], "credit"), html.escape(SENTENCE[k + 1])]
        + figure.cells(losses[k], "value")
        for k in range(last)
    ]
    figure.parts = [
        f'<div class="sentence">{"".join(marks)}</div>',
        table(
            "Every character, what the chosen prediction owes it, and the next one",
            ["read", "credit of the chosen prediction", "next", "its loss"],
            rows,
        ),
    ]
    pairs = ", ".join(f"{a} … {b}" for a, b in PAIRS)
    return Composition(
        title="What a prediction owes to earlier characters",
        intro="A small LSTM has read such sentences for a few seconds: each ends as it began. Point at a character, "
        "or move the slider: the shading says how much the loss of predicting it depends on each character before, by "
        "the length of the gradient that arrives there. Most predictions owe all to their neighbours. The first "
        "letters of the last word can only be known from the first word.",
        figures=[figure],
        knobs=[],
        seeds=[(f"{k + 2}: {SENTENCE[k + 1]}", loss) for k, loss in enumerate(losses)],
        seed=first,
        seed_name="predicted character",
        stepper=False,
        hidden="A gradient says what an infinitely small change of a character's vector would do, not what another "
        f"character would have done. {HIDDEN} units, {updates} updates, six sentences: {pairs}.",
    )
