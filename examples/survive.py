"""Tasks that only a gradient that survives can teach: an RNN, an LSTM and a GRU side by side.

    python examples/survive.py              one seed, under two minutes
    python examples/survive.py --full       three seeds, more patience with the RNN, and the Reber grammar

adding            add the two marked numbers of a long sequence; solved at a mean squared error below 0.01
temporal order    say in which order two symbols came, among distractors; solved at 99 % right
embedded Reber    predict a string symbol by symbol, where the last but one repeats the second; solved when 97 % of the
                  strings are predicted wholly: at every step, the symbols that may come are ranked above all others

The RNN comes twice. With Glorot's start it is the plain network of the textbooks. With an orthogonal recurrent matrix,
which is what the layer begins with, the gradient is at least not shrunk by the matrix, and luck may do the rest.

Beside the number of updates stands how much of the gradient arrives at the first step, before and after training:
the norm of ∂L/∂x at step 1 over that at the last step, both read off the tape.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

# The products here are small: a second thread gains little, and on a busy machine the two wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import tinygrad_seq as tg

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark

CELLS = {"RNN": tg.nn.RNN, "RNN, orthogonal": tg.nn.RNN, "LSTM": tg.nn.LSTM, "GRU": tg.nn.GRU}
BATCH = 32


class Task(NamedTuple):
    name: str
    widths: tuple[int, int, int]  # of input, state and answer
    draw: Callable  # (rng, batch=) -> xs (T, B, m) and targets
    loss: Callable  # of answers and targets
    score: Callable  # of answers (an array) and targets
    solved: Callable  # whether a score is good enough
    patience: dict[str, int]  # updates that each kind of network is given
    each_step: bool = False  # answers at every step, not at the last one only


def squared_error(answers, targets):
    return np.mean((answers - targets) ** 2)


def share_right(answers, classes):
    return np.mean(answers.argmax(-1) == classes)


def reber(rng, batch):
    strings = tg.data.embedded_reber(rng, batch)
    return strings.xs, {"next": strings.targets, "may": strings.following}


def share_wholly_right(answers, truth):
    worst_that_may = np.where(truth["may"], answers, np.inf).min(-1)
    best_that_may_not = np.where(truth["may"], -np.inf, answers).max(-1)
    return np.mean(((worst_that_may > best_that_may_not) | (truth["next"] < 0)).all(0))


def reber_loss(answers, truth):
    return tg.nn.cross_entropy(answers, truth["next"], ignore_index=-1)


def tasks(full):
    def adding(length, patience):
        return Task(
            f"adding, {length} steps (mean squared error; always answering 1 has 0.167)", (2, 32, 1),
            partial(tg.data.adding_problem, length=length), tg.nn.mse, squared_error, lambda e: e < 0.01, patience,
        )  # fmt: skip

    yield adding(50, {"RNN": 3000 if full else 1000, "LSTM": 1200, "GRU": 600})
    yield adding(100, {"RNN": 3000 if full else 500, "LSTM": 1500, "GRU": 600})
    yield Task(
        "temporal order, 50 steps (share right; a guess has 0.25)", (8, 16, 4),
        partial(tg.data.temporal_order, length=50), tg.nn.cross_entropy, share_right, lambda s: s >= 0.99,
        {"RNN": 1500 if full else 500, "LSTM": 400, "GRU": 400},
    )  # fmt: skip
    if full:
        yield Task(
            "embedded Reber grammar (share of strings predicted wholly)", (7, 12, 7), reber, reber_loss,
            share_wholly_right, lambda s: s >= 0.97, {"RNN": 1500, "LSTM": 1500, "GRU": 1500}, each_step=True,
        )  # fmt: skip


class Reader(tg.nn.Module):
    """A recurrent layer reads the sequence; a linear one answers at its end (or at every step)."""

    def __init__(self, cell, task, rng):
        m, hidden, answers = task.widths
        self.recurrent = CELLS[cell](m, hidden, rng=rng)
        if cell == "RNN":
            self.recurrent.cells[0][0].set_gate("h", U=tg.nn.glorot(rng, hidden, hidden))
        self.readout = tg.nn.Linear(hidden, answers, rng=rng)
        self.each_step = task.each_step

    def __call__(self, xs):
        outputs, _ = self.recurrent(xs)
        return self.readout(outputs if self.each_step else outputs[-1])


def arriving(net, task, rng):
    """How much of the last step's gradient arrives at the first step."""
    xs, targets = task.draw(rng, batch=BATCH)
    xs = tg.Tensor(xs, requires_grad=True)
    flow = tg.Tape(task.loss(net(xs), targets)).flow()
    by_step = np.sqrt((flow[xs] ** 2).sum((1, 2)))
    return by_step[0] / by_step[-1]


def step_of(net, task, replay):
    """Loss and gradients of a batch: from a graph that is recorded once and replayed, or unrolled anew each time."""

    def loss_of(xs, targets):
        return task.loss(net(xs), targets)

    return tg.replay(loss_of, wrt=net, programs=32) if replay else loss_of


def speed_up(task):
    """How much faster a replayed step of an LSTM is, with the same numbers to the last bit."""
    rng = np.random.default_rng(0)
    net = Reader("LSTM", task, rng)
    batch, seconds = task.draw(rng, batch=BATCH), {True: [], False: []}
    steps = {replay: step_of(net, task, replay) for replay in seconds}
    for _ in range(8):
        for replay, step in steps.items():
            start = time.perf_counter()
            loss = step(*batch)
            if not replay:
                loss.backward()
            seconds[replay].append(time.perf_counter() - start)
    return np.median(seconds[False]) / np.median(seconds[True])


def learn(cell, task, seed, replay):
    """One row of the table: does this kind of network learn this task, and after how many updates?"""
    weights, data, test = (np.random.default_rng([seed, k]) for k in range(3))
    net = Reader(cell, task, weights)
    before = arriving(net, task, test)
    held_out, truth = task.draw(test, batch=512)
    run = tg.fit(
        step_of(net, task, replay),
        lambda update: task.draw(data, batch=BATCH),
        tg.optim.Adam(net.parameters(), lr=0.01),
        clip=1.0,
        updates=task.patience[cell.partition(",")[0]],
        every=25,
        evaluate=lambda: task.score(net(held_out).data, truth),
        until=task.solved,
    )
    score = run.evaluations[-1][1]
    updates = f"{run.updates}" if task.solved(score) else f"not in {run.updates}"
    reach = "" if task.each_step else f"{before:12.1e}{arriving(net, task, test):12.1e}"
    print(f"  {cell:<16}{seed:>4}{updates:>14}{score:>11.4f}{reach}", flush=True)
    return task.solved(score)


def main():
    parser = argparse.ArgumentParser(description="Long memories: what an RNN, an LSTM and a GRU can learn.")
    parser.add_argument("--full", action="store_true", help="three seeds, more patience, the Reber grammar")
    parser.add_argument(
        "--replay",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="record each graph once: same numbers, faster",
    )
    options = parser.parse_args()
    full = options.full
    start = time.perf_counter()
    for task in tasks(full):
        print(f"{task.name}\n  {'':<16}seed{'learnt after':>14}{'score':>11}", end="")
        print("" if task.each_step else f"{'before':>12}{'after':>12}   ∂L/∂x: step 1 / last step")
        for cell in CELLS:
            learnt = [learn(cell, task, seed, options.replay) for seed in range(3 if full else 1)]
            if cell in ("LSTM", "GRU"):
                assert all(learnt), f"{cell}, {task.name}: {learnt}"
            elif cell == "RNN" and not task.each_step:  # the Reber grammar is within its reach
                assert not any(learnt), f"{cell}, {task.name}: {learnt}"
    print(f"{time.perf_counter() - start:.0f} s")
    if options.replay:
        ratio = speed_up(next(tasks(full)))
        print(f"Each graph was recorded once and replayed: {ratio:.1f} times as fast for the LSTM over 50 steps")


if __name__ == "__main__":
    main()
