"""Sequence to sequence with attention, written in operations: learn to say a word backwards.

    python examples/reverse.py                     made words, under a minute
    python examples/reverse.py --data FILE         your own: on each line an input, a TAB, and what is to be said

An encoder reads the input from both ends. A decoder says the output one character at a time; at each it looks at what
the encoder holds at every input character, weighs them by a softmax of products (attention), and reads their mean. In
training it is told the right last character (teacher forcing); afterwards it reads its own. Who looked where is
printed as a matrix: for a reversed word, the other diagonal.

At the end stands the error for each whole output, by the likeliest character each time (greedy) and by the likeliest of
several outputs kept in parallel (beam search), beside that of answering with the closest input that was trained on.
"""

import argparse
import difflib
import os
import sys
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the products here are small

import numpy as np

import tinygrad_seq as tg

END = 0  # begins an output, ends it, and stands at padding
LETTERS = "abcdefghij"


def made_pairs(count, rng):
    """Distinct words of 3 to 6 letters, and each backwards."""
    words = {"".join(rng.choice(list(LETTERS), size=rng.integers(3, 7))) for _ in range(2 * count)}
    return [(word, word[::-1]) for word in sorted(words)[:count]]


def read_pairs(path, encoding):
    """Pairs (input, output) from a file with both on each line, a TAB between."""
    try:
        with open(path, encoding=encoding) as file:
            lines = [line for line in file.read().splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        sys.exit(f"{path} is not written in {encoding} ({error.reason} at byte {error.start}): try --encoding latin-1")
    except OSError as error:
        sys.exit(f"{path} cannot be read: {error.strerror}")
    pairs = [tuple(line.split("\t")) for line in lines]
    if wrong := [line for line, pair in zip(lines, pairs, strict=True) if len(pair) != 2 or not all(pair)]:
        sys.exit(f"a line of {path} is an input, a TAB and an output; {len(wrong)} are not, the first is {wrong[0]!r}")
    if len(pairs) < 20:
        sys.exit(f"{path} has {len(pairs)} lines: that is too little")
    return pairs


class Memory(NamedTuple):
    """What the encoder holds: at each input character (T, B, d), and which of these are real (T, B, 1)."""

    held: tg.Tensor
    real: object


class Translator(tg.nn.Module):
    """Input characters (T, B) -> output characters, one after the other."""

    def __init__(self, inputs, outputs, d, rng):
        def table(n):
            return tg.nn.Embedding(n, 16, rng=rng, dtype=np.float32)

        self.read, self.said = table(inputs), table(outputs)
        self.encoder = tg.nn.GRU(16, d // 2, bidirectional=True, rng=rng, dtype=np.float32)
        self.cell = tg.nn.GRUCell(16 + d, d, rng=rng, dtype=np.float32)
        self.query = tg.nn.Linear(d, d, bias=False, rng=rng, dtype=np.float32)
        self.readout = tg.nn.Linear(2 * d, outputs, rng=rng, dtype=np.float32)

    def encode(self, xs, lengths):
        """The memory, and the decoder's first state: what both directions end with, and a first glance at nothing."""
        held, states = self.encoder(self.read(xs), lengths=lengths)
        h = tg.concat(list(states[-1]), axis=-1)
        return Memory(held, tg.data.mask(lengths, len(xs))[..., None]), (h, 0.0 * h)

    def attend(self, h, memory):
        """The mean of what is held, weighed by who answers the query; and the weights (T, B)."""
        scores = (memory.held * self.query(h)).sum(-1, keepdims=True)
        weights = tg.softmax(tg.where(memory.real, scores, -np.inf), axis=0)
        return (weights * memory.held).sum(0), weights[..., 0]

    def step(self, last, state, memory):
        """One character further: logits (B, outputs), the new state, and where it looked (T, B)."""
        h, glance = state
        h, _ = self.cell(tg.concat([self.said(last), glance], axis=-1), h)
        glance, weights = self.attend(h, memory)
        return self.readout(tg.concat([h, glance], axis=-1)), (h, glance), weights

    def loss(self, xs, lengths, ys, targets):
        """Mean -log p of each output character, told the ones before it. ys begins with END, targets ends with it."""
        memory, state = self.encode(xs, lengths)
        logits = []
        for t in range(len(ys)):
            with tg.step(t + 1):
                scores, state, _ = self.step(ys[t], state, memory)
            logits.append(scores)
        return tg.nn.cross_entropy(tg.stack(logits), targets, ignore_index=-1)

    def greedy(self, xs, lengths, longest):
        """Output characters (T, B) and their lengths, the likeliest each time, each row to its own end."""
        with tg.no_grad():
            memory, state = self.encode(xs, lengths)
            return tg.nn.generate(
                lambda last, state: self.step(last, state, memory)[:2],
                np.full(len(lengths), END), state, longest=longest, end=END,
            )  # fmt: skip

    def beam(self, xs, lengths, longest, width):
        """The likeliest of the outputs that are kept: `width` at each step, for one input (T, 1)."""
        with tg.no_grad():
            memory, (h, glance) = self.encode(np.repeat(xs, width, 1), np.repeat(lengths, width))
            state, said, scores = (h, glance), [()] * width, np.full(width, -np.inf)
            scores[0] = 0.0
            for _ in range(longest + 1):
                last = np.array([words[-1] if words else END for words in said])
                logits, state, _ = self.step(last, state, memory)
                over = np.array([bool(words) and words[-1] == END for words in said])
                log_p = tg.log_softmax(logits).data.astype(float)
                log_p[over] = -np.inf
                log_p[over, END] = 0.0  # what has ended stays as it is
                total = (scores[:, None] + log_p).ravel()
                best = np.argsort(-total, kind="stable")[:width]
                rows, symbols = np.divmod(best, log_p.shape[1])
                said = [said[r] if over[r] else (*said[r], int(k)) for r, k in zip(rows, symbols, strict=True)]
                state, scores = tuple(x[rows] for x in state), total[best]
                if all(words[-1] == END for words in said):
                    break
        return [k for k in said[0] if k != END]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", help="a file with an input, a TAB and an output on each line; without it, words are made"
    )
    parser.add_argument("--encoding", default="utf-8-sig")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--updates", type=int, default=900)
    parser.add_argument("--beam", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    pairs = made_pairs(1200, rng) if options.data is None else read_pairs(options.data, options.encoding)
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    held = max(min(len(pairs) // 6, 200), 1)
    test, train = pairs[:held], pairs[held:]
    reads, says = ("".join(sorted({c for pair in pairs for c in pair[k]})) for k in (0, 1))

    def arrays(pairs):
        """Inputs (T, B), lengths (B,), outputs after END (U, B), and what each is to be followed by, -1 at padding."""
        xs, lengths = tg.data.padded([np.array([1 + reads.index(c) for c in source]) for source, _ in pairs])
        outputs = [[1 + says.index(c) for c in target] for _, target in pairs]
        ys, targets, _ = tg.data.padded(
            [np.array([END, *ids]) for ids in outputs], [np.array([*ids, END]) for ids in outputs], fill=(END, -1)
        )
        return xs, lengths, ys, targets

    model = Translator(len(reads) + 1, len(says) + 1, options.units, rng)
    xs, lengths, ys, targets = arrays(train)
    longest = max(len(target) for _, target in pairs)

    def batch(n):
        rows = np.random.default_rng([options.seed, n]).integers(0, len(train), 32)
        return xs[:, rows], lengths[rows], ys[:, rows], targets[:, rows]

    rate = tg.optim.warm_up(tg.optim.cosine(0.01, options.updates, end=1e-4), 50)
    run = tg.fit(
        model.loss, batch, tg.optim.Adam(model, lr=rate), updates=options.updates, clip=1.0, replay=True,
        every=max(options.updates // 6, 1),
    )  # fmt: skip
    print(run.table())

    test_xs, test_lengths, *_ = arrays(test)
    made = model.greedy(test_xs, test_lengths, longest)
    greedy = ["".join(says[k - 1] for k in made.ids[:n, b]) for b, n in enumerate(made.lengths)]
    beam = [
        "".join(says[k - 1] for k in model.beam(test_xs[:, [b]], test_lengths[[b]], longest, options.beam))
        for b in range(len(test))
    ]
    known = dict(train)
    closest = [known[next(iter(difflib.get_close_matches(source, known, 1, 0.0)), train[0][0])] for source, _ in test]
    wrong = {
        "as the closest input trained on": closest,
        "greedy": greedy,
        f"beam search, {options.beam} kept": beam,
    }
    print(f"\nError for each of {len(test)} whole outputs that were not trained on")
    errors = [np.mean([a != b for a, (_, b) in zip(answers, test, strict=True)]) for answers in wrong.values()]
    for name, error in zip(wrong, errors, strict=True):
        print(f"  {name:<32}{error:7.1%}")

    source, target = max(test, key=lambda pair: len(pair[0]))
    one_x, one_length, *_ = arrays([(source, target)])
    with tg.no_grad():
        memory, state = model.encode(one_x, one_length)
        last, looked = END, []
        for letter in target:
            _, state, weights = model.step(np.array([last]), state, memory)
            looked.append(weights.data[:, 0])
            last = 1 + says.index(letter)
    title = f"Where it looks in {source} (column) when it says a letter of {target} (row)"
    print()
    print(tg.Matrix(np.round(np.array(looked, float), 2), list(target), list(source), title=title))
    if options.data is None:
        assert errors[1] < 0.05 and errors[2] < 0.05 and errors[0] > 0.9


if __name__ == "__main__":
    main()
