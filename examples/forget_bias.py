"""Why a forget gate should begin open: one bit, kept through noise, for several forget biases.

    python examples/forget_bias.py            100 steps, one seed for each bias
    python examples/forget_bias.py --full     three seeds, and the update gate of a GRU too

The first step shows +1 or -1, then come 99 steps of noise, and at the end the network is asked which it was. Before
training the forget gates stand near σ(b), and each step back along the cell multiplies the gradient by its gate: after
99 steps about σ(b)^99 is left. Where that is next to nothing, the network cannot learn what to blame the first step
for. Two readings of the tape stand beside it: ∂L/∂c at step 1 over ∂L/∂c at step 100, along the cell alone (every
hidden state held constant) and by all routes. The other routes may carry much more, and teach nothing: they pass
through the noise. Learnt means 95 % right on sequences that were not trained on.
"""

import argparse
import os
import sys
import time
from itertools import product

# The products here are small: a second thread gains little, and on a busy machine the two wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import tinygrad_seq as tg

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark

STEPS, BATCH, HIDDEN, UPDATES = 100, 32, 32, 300
STATE = {"LSTM": "c", "GRU": "h"}  # what carries the memory, by its name on the tape


class Reader(tg.nn.Module):
    """One layer reads the noise; a linear one says, at the end, which bit it was."""

    def __init__(self, cell, bias, rng):
        if cell == "LSTM":
            self.recurrent = tg.nn.LSTM(2, HIDDEN, forget_bias=bias, rng=rng)
        else:
            self.recurrent = tg.nn.GRU(2, HIDDEN, update_bias=bias, rng=rng)
        self.readout = tg.nn.Linear(HIDDEN, 1, rng=rng)

    def __call__(self, xs):
        outputs, _ = self.recurrent(xs)
        return self.readout(outputs[-1])

    def loss(self, xs, targets):
        return tg.nn.bce_with_logits(self(xs), targets)


def arriving(net, state, xs, targets):
    """∂L/∂state at step 1 over the same at the last step: along the state alone, and by all routes."""
    tape = tg.Tape(net.loss(xs, targets))
    first, last = tape.find(state, 1), tape.find(state, STEPS)
    # Held are the states that the gates read, so that the gates are constants.
    routes = tape.flow(holding=tape.find("h")[:-1]) if state == "c" else None, tape.flow()
    return [np.linalg.norm(flow[first]) / np.linalg.norm(flow[last]) if flow else np.nan for flow in routes]


def learn(cell, bias, seed):
    """One row of the table."""
    net = Reader(cell, bias, np.random.default_rng([seed, 0]))
    data, test = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    xs, targets = tg.data.one_bit(test, STEPS, 512)
    measured = arriving(net, STATE[cell], xs, targets)
    run = tg.fit(
        tg.replay(net.loss, wrt=net),
        lambda update: tg.data.one_bit(data, STEPS, BATCH),
        tg.optim.Adam(net.parameters(), lr=0.01),
        clip=1.0,
        updates=UPDATES,
        every=25,
        evaluate=lambda: np.mean((net(xs).data > 0) == (targets > 0.5)),
        until=lambda right: right >= 0.95,
    )
    right = run.evaluations[-1][1]
    learnt = right >= 0.95
    updates = f"{run.updates}" if learnt else f"not in {run.updates}"
    expected = (1 + np.exp(-bias)) ** (1 - STEPS)
    alone, every = ("" if np.isnan(x) else f"{x:.1e}" for x in measured)
    print(f"  {bias:>4}{expected:>13.1e}{alone:>13}{every:>13}{seed:>6}{updates:>14}{right:>8.3f}", flush=True)
    return learnt


def main():
    parser = argparse.ArgumentParser(description="One bit through noise, for several forget biases.")
    parser.add_argument("--full", action="store_true", help="three seeds, and a GRU too")
    full = parser.parse_args().full
    start = time.perf_counter()
    sweeps = {"LSTM": (0, 1, 2, 3, 5)} | ({"GRU": (0, 1, 3)} if full else {})
    for cell, biases in sweeps.items():
        print(f"{cell}, one bit through {STEPS - 1} noisy steps; a guess is right 0.500 of the time")
        print(
            f"  bias{f'σ(b)^{STEPS - 1}':>13}{'cell alone':>13}{'all routes':>13}  seed{'learnt after':>14}{'right':>8}"
        )
        for bias, seed in product(biases, range(3 if full else 1)):
            learnt = learn(cell, bias, seed)
            assert learnt == (bias >= 2), f"{cell} with bias {bias}, seed {seed}: learnt is {learnt}"
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
