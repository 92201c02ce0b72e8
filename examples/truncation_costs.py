"""What truncated backpropagation through time saves, and what it costs.

    python examples/truncation_costs.py            chunks of 5, 10, 25 and all 50 steps, one seed
    python examples/truncation_costs.py --full     three seeds, and more patience with the truncated ones

An LSTM reads a bit at step 1 and noise for 49 steps, and is asked for the bit at the end. Cut in chunks of k steps, the
state is carried from chunk to chunk (`tg.detach`: the value crosses, the credit does not). Then only the last k steps
can be blamed for a wrong answer, and the step that should have stored the bit never is. With long chunks it may be
learnt all the same, late and by luck: where a trace of the bit happens to get through the untrained cell, the last
steps can learn to make more of it.

The table shows both sides: the operations that the tape holds at once, the earliest step that gets credit, and the
updates until 99 % of new sequences are answered rightly.
"""

import argparse
import os
import time

# The products here are small: a second thread gains little, and on a busy machine the two wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import tinygrad_seq as tg

STEPS, BATCH, HIDDEN = 50, 32, 32


class Reader(tg.nn.Module):
    """An LSTM reads the sequence in chunks of k steps; a linear layer says, at the end, which bit it was."""

    def __init__(self, rng):
        self.lstm = tg.nn.LSTM(2, HIDDEN, forget_bias=1.0, rng=rng)
        self.readout = tg.nn.Linear(HIDDEN, 1, rng=rng)

    def __call__(self, xs, k=STEPS):
        state = None
        for chunk in tg.nn.chunks(xs, k):
            outputs, state = self.lstm(chunk, tg.detach(state))
        return self.readout(outputs[-1])

    def loss(self, xs, targets, k=STEPS):
        return tg.nn.bce_with_logits(self(xs, k), targets)


def same_question_twice(net, xs, targets, k):
    """Truncated BPTT is a full tape, read with a cut: no credit crosses from step T - k + 1 into step T - k."""
    A = net.lstm.cells[0][0].A
    detached = tg.grad(net.loss(xs, targets, k), A)
    cut = tg.Tape(net.loss(xs, targets)).flow(cut=[(STEPS - k, STEPS - k + 1)])[A]
    np.testing.assert_array_equal(detached, cut)


def reaches_back_to(tape, xs):
    """The earliest step that gets credit, counted over the whole sequence."""
    credit = np.abs(tape.flow()[xs]).sum((1, 2))
    return 1 + int(np.flatnonzero(credit)[0])


def learn(k, seed, updates):
    """One row of the table."""
    net = Reader(np.random.default_rng([seed, 0]))
    data, test = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    xs, targets = tg.data.one_bit(test, STEPS, 512)
    if k < STEPS:
        same_question_twice(net, xs, targets, k)
    watched = tg.Tensor(xs, requires_grad=True)
    tape = tg.Tape(net.loss(watched, targets, k))
    run = tg.fit(
        lambda xs, targets: net.loss(xs, targets, k),
        lambda update: tg.data.one_bit(data, STEPS, BATCH),
        tg.optim.Adam(net.parameters(), lr=0.01),
        clip=1.0,
        updates=updates,
        every=25,
        evaluate=lambda: np.mean((net(xs).data > 0) == (targets > 0.5)),
        until=lambda right: right >= 0.99,
    )
    right = run.evaluations[-1][1]
    learnt = right >= 0.99
    after = f"{run.updates}" if learnt else f"not in {run.updates}"
    print(f"{k:>8}{len(tape):>12}{reaches_back_to(tape, watched):>14}{seed:>6}{after:>14}{right:>8.3f}", flush=True)
    return learnt


def main():
    parser = argparse.ArgumentParser(description="Full against truncated backpropagation through time.")
    parser.add_argument("--full", action="store_true", help="three seeds, 600 updates")
    full = parser.parse_args().full
    start = time.perf_counter()
    print(f"One bit, recalled after {STEPS - 1} noisy steps; a guess is right 0.500 of the time")
    print("   chunk  operations  credit from  seed  learnt after   right")
    for k in (5, 10, 25, STEPS):
        for seed in range(3 if full else 1):
            learnt = learn(k, seed, 600 if full else 200)
            if k != 25:  # on the border: luck decides
                assert learnt == (k == STEPS), f"chunks of {k}, seed {seed}: learnt is {learnt}"
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
