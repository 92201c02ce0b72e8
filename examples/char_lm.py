"""Learn to write, one character at a time: a recurrent network, trained by truncated backpropagation through time.

    python examples/char_lm.py                       English prose that comes with Python, about half a minute
    python examples/char_lm.py --full                a larger network and more patience, a few minutes
    python examples/char_lm.py --text FILE           any other text
    python examples/char_lm.py --cell gru --layers 2 --checkpoint run.ckpt.npz      and again with --resume, to go on

The network reads the text in chunks of a few dozen characters and, at every character, says how likely each
character is to come next. Between chunks it keeps what it remembers (the state crosses) but not how it came to
remember it (`tg.detach`: the credit does not cross). That is all there is to truncated BPTT.

The last tenth of the text is held out. At the end stands how many bits the network needs for each character of it,
beside models that count what followed the last few characters. Ctrl-C ends the training with what was learnt so far.
"""

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from math import log, log2
from pathlib import Path
from pydoc_data.topics import topics

# The products here are small: a second thread gains little, and on a busy machine the two wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

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


def unrolled(model):
    """One step of training, up to the gradients: unroll the graph, walk it backward, let go of it."""

    def step(inputs, targets, state):
        loss, state = model.loss(inputs, targets, state)
        loss.backward()
        return loss, tg.detach(state)  # the values cross, the credit does not

    return step


def replayed(model):
    """The same step with the same numbers, to the last bit: the graph is recorded once and played again."""
    return tg.replay(model.loss, wrt=model)


def median_seconds(step, arguments):
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        step(*arguments)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def train(model, optimiser, chunks, options, progress):
    """Truncated BPTT, chunk after chunk, until there were enough updates or somebody presses Ctrl-C."""
    parameters, state, update = model.parameters(), progress["state"], progress["update"]
    step = replayed(model) if options.replay else unrolled(model)
    characters, start, before, recent = options.chunk * options.batch, time.perf_counter(), update, []
    stop = False
    with tg.interruptible() as stopped:
        while update < options.updates and not stop:
            k = update % len(chunks.inputs)
            if k == 0:  # the text begins anew
                state = model.recurrent.initial_state((options.batch,))
            loss, state = step(chunks.inputs[k], chunks.targets[k], state)
            tg.optim.clip_grad_norm(parameters, 1.0)
            optimiser.step()
            optimiser.zero_grad()

            update, stop = update + 1, stopped()
            recent.append(loss.item() / log(2))
            if update % 100 == 0 or update == options.updates or stop:
                progress |= {"state": state, "update": update}
                if options.checkpoint:
                    try:
                        tg.save(options.checkpoint, **progress)
                    except OSError as error:  # no reason to lose what was learnt
                        print(f"char_lm: {error}")
                seconds = (time.perf_counter() - start) / (update - before)  # for each update
                print(
                    f"update {update:5} of {options.updates}   {np.mean(recent):.3f} bits per character   "
                    f"{characters / seconds:7,.0f} characters per second   "
                    f"{seconds * (options.updates - update):4.0f} s left",
                    flush=True,
                )
                recent = []
        if stop:
            print(f"\nstopped after {update} updates; this is what was learnt so far")
    if options.replay:
        arguments = chunks.inputs[0], chunks.targets[0], state
        anew, again = median_seconds(unrolled(model), arguments), median_seconds(step, arguments)
        print(
            f"The graph was recorded once and replayed: {anew / again:.1f} times as fast as to unroll it for each chunk"
        )
        optimiser.zero_grad()


@tg.no_grad()
def bits_per_character(model, chunks):
    """-log2 of the probability that the model gave to each character, on average."""
    nats, state = [], None
    for inputs, targets in zip(chunks.inputs, chunks.targets, strict=True):
        loss, state = model.loss(inputs, targets, state)
        nats.append(loss.item())
    return np.mean(nats) / log(2)


@tg.no_grad()
def sample(model, vocabulary, start, length, temperature, rng):
    """Text that goes on from `start`: each character is drawn from what the model expects, and then read by it.

    A temperature below 1 keeps to what is likely, one above 1 dares more: p(c) ~ exp(logit / temperature).
    """
    written, reading, state = list(start), [vocabulary.index(c) for c in start], None
    for _ in range(length):
        logits, state = model(np.array(reading), state)
        expected = (logits[-1].astype(np.float64) / temperature).softmax().data
        reading = [rng.choice(len(vocabulary), p=expected)]
        written.append(vocabulary[reading[0]])
    return "".join(written)


def followers(text, context):
    """How often each character followed each string of `context` characters."""
    counts = defaultdict(Counter)
    for k in range(context, len(text)):
        counts[text[k - context : k]][text[k]] += 1
    return {before: (after, after.total(), len(after)) for before, after in counts.items()}


def count_models(text, split, vocabulary):
    """Bits per character of text[split:] for models that count in text[:split], as a table of name -> bits.

    bigram, b the character before:                  p(c | b)  = (n(bc) + 1) / (n(b) + V)
    Witten-Bell, interpolated, s the context:        p(c | s) = (n(sc) + D(s) p(c | s')) / (n(s) + D(s))
    with s' one character shorter than s, D(s) the number of different characters that followed s, and 1/V below the
    empty context (Witten and Bell 1991; Chen and Goodman 1999, equation 17).
    """
    tables = [followers(text[:split], context) for context in range(6)]
    bigram, witten_bell, nothing = 0.0, [0.0] * len(tables), (Counter(), 0, 0)
    for k in range(split, len(text)):
        c, p = text[k], 1 / len(vocabulary)
        after, n, _ = tables[1].get(text[k - 1], nothing)
        bigram -= log2((after[c] + 1) / (n + len(vocabulary)))
        for context, table in enumerate(tables):
            after, n, different = table.get(text[k - context : k], nothing)
            if n:  # else this context says no more than the shorter one
                p = (after[c] + different * p) / (n + different)
            witten_bell[context] -= log2(p)
    best = min(range(len(tables)), key=witten_bell.__getitem__)
    table = {"counts of pairs (bigram, add one)": bigram}
    table |= {f"counts after {n} characters (Witten-Bell)": witten_bell[n] for n in sorted({2, best})}
    return {name: bits / (len(text) - split) for name, bits in table.items()}


def positive(kind):
    def number(argument):
        value = kind(argument)
        if not 0 < value < float("inf"):
            raise ValueError
        return value

    number.__name__ = f"positive {kind.__name__}"
    return number


def main():
    parser = argparse.ArgumentParser(description="Train a character-level recurrent language model and sample from it.")
    parser.add_argument("--full", action="store_true", help="hidden 192, 3000 updates: a few minutes")
    parser.add_argument("--text", type=Path, help="a text file in UTF-8 (default: Python's own manual)")
    parser.add_argument("--cell", choices=LAYERS, default="lstm")
    parser.add_argument("--layers", type=positive(int), default=1)
    parser.add_argument("--hidden", type=positive(int), help="units per layer (default: 128)")
    parser.add_argument("--chunk", type=positive(int), default=32, help="characters through which credit flows back")
    parser.add_argument("--batch", type=positive(int), default=64, help="places of the text that are read at once")
    parser.add_argument("--updates", type=positive(int), help="(default: 1200)")
    parser.add_argument("--rate", type=positive(float), default=5e-3, help="the learning rate to start from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=positive(float), default=0.8, help="of the sample")
    parser.add_argument("--checkpoint", type=Path, help="a file to keep the run in, every 100 updates")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the checkpoint")
    parser.add_argument(
        "--replay",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="record the graph once: the same numbers, faster",
    )
    options = parser.parse_args()
    options.hidden = options.hidden or (192 if options.full else 128)
    options.updates = options.updates or (3000 if options.full else 1200)
    if options.resume and not options.checkpoint:
        parser.error("--resume needs the --checkpoint to go on from")

    try:
        text = options.text.read_text("utf-8") if options.text else "\n".join(topics[key] for key in sorted(topics))
        split, vocabulary = int(0.9 * len(text)), "".join(sorted(set(text)))
        chunks = tg.data.text_chunks(text[:split], options.chunk, options.batch, vocabulary)
        # Read in a few rows at once, each from a state of zeros: the network starts a little colder than it must.
        held_out = tg.data.text_chunks(text[split:], 25, max(1, min(16, (len(text) - split) // 1000)), vocabulary)

        rng = np.random.default_rng(options.seed)
        model = CharacterModel(options.cell, len(vocabulary), options.hidden, options.layers, rng)
        optimiser = tg.optim.Adam(model.parameters(), tg.optim.cosine(options.rate, options.updates))
        progress = {
            "model": model,
            "optimiser": optimiser,
            "state": model.recurrent.initial_state((options.batch,)),
            "rng": rng,
            "update": 0,
            "vocabulary": vocabulary,
        }
        if options.resume:
            progress = tg.load(options.checkpoint, **progress)
            if progress["vocabulary"] != vocabulary:
                raise ValueError(f"{options.checkpoint} is of a run on another text")
    except (OSError, ValueError) as error:
        sys.exit(f"char_lm: {error}")
    print(f"{split:,} characters to learn from, {len(text) - split:,} held out; {len(vocabulary)} different ones")
    print(f"{options.cell}, {sum(x.size for x in model.parameters()):,} parameters, seed {options.seed}")
    train(model, optimiser, chunks, options, progress)

    start = text[split:].lstrip()[:40]
    written = sample(model, vocabulary, start, 400, options.temperature, rng)
    print(f"\nA sample, which goes on after {len(start)} held-out characters:\n{written}\n")
    table = count_models(text, split, vocabulary)
    table[f"this {options.cell}"] = bits_per_character(model, held_out)
    print("Held-out bits per character")
    for name, bits in table.items():
        print(f"{bits:8.3f}   {name}")


if __name__ == "__main__":
    main()
