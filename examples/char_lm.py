"""Learn to write, one character at a time: a recurrent network, trained by truncated backpropagation through time.

    python examples/char_lm.py                       English prose that comes with Python, about half a minute
    python examples/char_lm.py --text FILE           any other text
    python examples/char_lm.py --cell gru --hidden 200 --updates 3000

The network reads the text in chunks of a few dozen characters and, at every character, says how likely each
character is to come next. Between chunks it keeps what it remembers (the state crosses) but not how it came to
remember it (`tg.detach`: the credit does not cross). That is all there is to truncated BPTT.

The last tenth of the text is held out. At the end stands how many bits the network needs for each character of it,
beside models that only count what followed the last one or two characters.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from math import log, log2
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

import tinygrad_seq as tg

LAYERS = {"rnn": tg.nn.RNN, "lstm": tg.nn.LSTM, "gru": tg.nn.GRU}


class CharacterModel(tg.nn.Module):
    """Characters (T, B) as numbers -> what comes next, logits (T, B, vocabulary), and the state at the end."""

    def __init__(self, cell, vocabulary, hidden, layers, rng):
        self.embed = tg.nn.Embedding(vocabulary, 32, rng=rng, dtype=np.float32)
        self.recurrent = LAYERS[cell](32, hidden, layers=layers, rng=rng, dtype=np.float32)
        self.readout = tg.nn.Linear(hidden, vocabulary, rng=rng, dtype=np.float32)

    def __call__(self, characters, state=None):
        outputs, state = self.recurrent(self.embed(characters), state)
        return self.readout(outputs), state

    def loss(self, inputs, targets, state=None):
        """Mean nats per character of one chunk (divide by ln 2 for bits), and the state to go on from."""
        logits, state = self(inputs, state)
        return tg.nn.cross_entropy(logits, targets), state


def train(model, chunks, options):
    """Truncated BPTT, chunk after chunk; Ctrl-C stops it early."""
    parameters = model.parameters()
    optimiser = tg.optim.Adam(parameters)
    characters, start, recent, update = options.chunk * options.batch, time.perf_counter(), [], 0
    state = None
    try:
        while update < options.updates:
            k = update % len(chunks.inputs)
            if k == 0:
                state = None  # the text begins anew
            loss, state = model.loss(chunks.inputs[k], chunks.targets[k], state)
            loss.backward()
            state = tg.detach(state)  # the values cross, the credit does not
            tg.optim.clip_grad_norm(parameters, 1.0)
            optimiser.lr = options.rate * (1 - update / options.updates)
            optimiser.step()
            optimiser.zero_grad()

            update += 1
            recent.append(loss.item() / log(2))
            if update % 100 == 0 or update == options.updates:
                seconds = time.perf_counter() - start
                print(
                    f"update {update:5} of {options.updates}   {np.mean(recent):.3f} bits per character   "
                    f"{update * characters / seconds:7,.0f} characters per second   "
                    f"{seconds / update * (options.updates - update):4.0f} s left",
                    flush=True,
                )
                recent = []
    except KeyboardInterrupt:
        print(f"\nstopped after {update} updates; this is what was learnt so far")


@tg.no_grad()
def bits_per_character(model, chunks):
    """-log2 of the probability that the model gave to each character, on average."""
    nats, state = [], None
    for inputs, targets in zip(chunks.inputs, chunks.targets, strict=True):
        loss, state = model.loss(inputs, targets, state)
        nats.append(loss.item())
    return np.mean(nats) / log(2)


@tg.no_grad()
def sample(model, vocabulary, start, length, rng):
    """Text that goes on from `start`: each character is drawn from what the model expects, and then read by it."""
    written, reading, state = list(start), [vocabulary.index(c) for c in start], None
    for _ in range(length):
        logits, state = model(np.array(reading), state)
        reading = [rng.choice(len(vocabulary), p=logits[-1].astype(np.float64).softmax().data)]
        written.append(vocabulary[reading[0]])
    return "".join(written)


def followers(text, context):
    """How often each character followed each string of `context` characters."""
    counts = defaultdict(Counter)
    for k in range(context, len(text)):
        counts[text[k - context : k]][text[k]] += 1
    return {before: (after, after.total(), len(after)) for before, after in counts.items()}


def count_models(text, split, vocabulary):
    """Bits per character of text[split:] for two models that count in text[:split], as a table of name -> bits.

    bigram, b the character before:                  p(c | b)  = (n(bc) + 1) / (n(b) + V)
    Witten-Bell, interpolated, s the context:        p(c | s) = (n(sc) + D(s) p(c | s')) / (n(s) + D(s))
    with s' one character shorter than s, D(s) the number of different characters that followed s, and 1/V below the
    empty context (Witten and Bell 1991; Chen and Goodman 1999, equation 17).
    """
    tables = [followers(text[:split], context) for context in range(3)]
    size, bits = len(vocabulary), Counter()
    for k in range(split, len(text)):
        c, p = text[k], 1 / size
        after, n, _ = tables[1].get(text[k - 1], (Counter(), 0, 0))
        bits["counts, one character of context"] -= log2((after[c] + 1) / (n + size))
        for context, table in enumerate(tables):
            after, n, different = table.get(text[k - context : k], (Counter(), 0, 1))
            p = (after[c] + different * p) / (n + different)
        bits["counts, two characters of context"] -= log2(p)
    return {name: total / (len(text) - split) for name, total in bits.items()}


def positive(argument):
    number = int(argument)
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number of at least 1, got {argument}")
    return number


def main():
    parser = argparse.ArgumentParser(description="Train a character-level recurrent language model and sample from it.")
    parser.add_argument("--text", type=Path, help="a text file in UTF-8 (default: Python's own manual)")
    parser.add_argument("--cell", choices=LAYERS, default="lstm")
    parser.add_argument("--layers", type=positive, default=1)
    parser.add_argument("--hidden", type=positive, default=128, help="units per layer")
    parser.add_argument("--chunk", type=positive, default=32, help="characters through which credit flows back")
    parser.add_argument("--batch", type=positive, default=64, help="places of the text that are read at once")
    parser.add_argument("--updates", type=positive, default=1200)
    parser.add_argument("--rate", type=float, default=5e-3, help="the learning rate to start from; it falls to 0")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    try:
        text = options.text.read_text("utf-8") if options.text else "\n".join(topics[key] for key in sorted(topics))
        split, vocabulary = int(0.9 * len(text)), "".join(sorted(set(text)))
        chunks = tg.data.text_chunks(text[:split], options.chunk, options.batch, vocabulary)
        # Read in a few rows at once, each from a state of zeros: the network starts a little colder than it must.
        held_out = tg.data.text_chunks(text[split:], 25, max(1, min(16, (len(text) - split) // 1000)), vocabulary)
    except (OSError, ValueError) as error:
        sys.exit(f"char_lm: {error}")
    print(f"{split:,} characters to learn from, {len(text) - split:,} held out; {len(vocabulary)} different ones")

    rng = np.random.default_rng(options.seed)
    model = CharacterModel(options.cell, len(vocabulary), options.hidden, options.layers, rng)
    print(f"{options.cell}, {sum(x.size for x in model.parameters()):,} parameters, seed {options.seed}")
    train(model, chunks, options)

    print("\nA sample:\n" + sample(model, vocabulary, text[0], 400, rng) + "\n")
    table = count_models(text, split, vocabulary)
    table[f"this {options.cell}"] = bits_per_character(model, held_out)
    print("Held-out bits per character")
    for name, bits in table.items():
        print(f"{bits:8.3f}   {name}")


if __name__ == "__main__":
    main()
