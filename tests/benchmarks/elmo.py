"""ELMo: tokens per second in pretraining and as frozen features, beside the bare matrix products of the same network.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python tests/benchmarks/elmo.py

The products are those of one pretraining step (forward, and two on the way back for each), with random numbers of the
same shapes in float32; nothing else is computed. All are run in turn, round after round: the table shows median times
and the median ratio to the products of the same round. Below stands how much memory a step takes for sentences of
different lengths, and a pass over corpora of different sizes.
"""

import argparse
import os
import statistics
import time
import tracemalloc

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from interleaved import ratio

import tinygrad_seq as tg

SIZES = {  # width, hidden, words in the vocabulary, sentences, tokens in each
    "small": (16, 32, 200, 32, 8),
    "medium": (64, 128, 2250, 16, 20),
    "large": (128, 512, 5000, 32, 30),
}


def text_of(words, sentences, tokens, rng):
    """Sentences of words that are as unevenly frequent as those of a language (Zipf's law)."""
    letters = np.array(list("etaoinshrdlu"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(2, 11))) + str(k) for k in range(words)]
    frequency = 1 / np.arange(1, words + 1)
    drawn = rng.choice(words, (sentences, tokens), p=frequency / frequency.sum())
    return [[vocabulary[k] for k in row] for row in drawn], vocabulary


def build(width, hidden, words, sentences, tokens, rng):
    text, vocabulary = text_of(words, sentences, tokens, rng)
    encoder = tg.nn.CharEncoder(width, rng=rng, dtype=np.float32)
    bilm = tg.nn.BiLM(
        encoder, tg.nn.Vocabulary(vocabulary), hidden, projection=width, cell_clip=3.0, projection_clip=3.0,
        rng=rng, dtype=np.float32,
    )  # fmt: skip
    return bilm, text


def products(bilm, text):
    """The shapes (rows, inner, columns) of all products of a forward pass, and how often each is computed."""
    encoder = bilm.encoder
    ids, _ = encoder.spell([*tg.nn.Mark][:2] + sorted({word for sentence in text for word in sentence}))
    n, longest = ids.shape
    shapes = [
        (n * (longest - k + 1), *convolution.W.shape)
        for (k, _), convolution in zip(encoder.filters, encoder.convolutions, strict=True)
    ]
    for highway in encoder.highways:
        shapes += [(n, *highway.gate.W.shape), (n, *highway.transform.W.shape)]
    shapes.append((n, *encoder.projection.W.shape))
    found = [(shape, 1) for shape in shapes]
    steps = len(text[0]) + 1
    for net in (bilm.forward, bilm.backward):
        for (cell,) in net.cells:
            found += [((len(text), *cell.A.shape), steps), ((len(text), *cell.P.shape), steps)]
        found.append(((len(text) * steps, *bilm.softmax.W.shape), 1))
    return found


def bare(shapes, rng):
    """A function that computes these products and the two that each needs on the way back."""
    operands = []
    for (rows, inner, columns), times in shapes:
        x, W, g = (
            rng.standard_normal(shape, np.float32) for shape in ((rows, inner), (inner, columns), (rows, columns))
        )
        operands.append((x, W, g, times))

    def run():
        for x, W, g, times in operands:
            for _ in range(times):
                x @ W, g @ W.T, x.T @ g

    return run


def contestants(size, rng):
    bilm, text = build(*SIZES[size], rng)
    other, _ = build(*SIZES[size], rng)
    adam, elmo = tg.optim.Adam(bilm.parameters(), 1e-3), tg.nn.Elmo(other)
    replayed, (frame,) = tg.replay(bilm.loss, wrt=bilm), bilm.frames([text])

    def pretraining(gradients):
        adam.zero_grad()
        gradients()
        tg.optim.clip_grad_norm(adam.parameters, 5.0)
        adam.step()

    return {
        "bare products": bare(products(bilm, text), rng),
        "pretraining step": lambda: pretraining(lambda: bilm.loss(text).backward()),
        "the same, replayed": lambda: pretraining(lambda: replayed(frame)),
        "frozen features": lambda: elmo(text),
    }, sum(map(len, text))


def measure(size, rounds, rng):
    runs, tokens = contestants(size, rng)
    times = {name: [] for name in runs}
    for k in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if k:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    floor = times["bare products"]
    for name, mine in times.items():
        middle = statistics.median(mine)
        print(f"{size:<8}{name:<20}{1e3 * middle:>9.1f} ms{tokens / middle:>12,.0f}{ratio(mine, floor):>10.2f}")


def peak(run):
    tracemalloc.start()
    run()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 2**20


def memory(rng):
    bilm, _ = build(*SIZES["medium"], rng)
    vocabulary = [word for word in bilm.vocabulary.entries if isinstance(word, str)]
    print("\nPeak memory of a pretraining step, medium, 16 sentences")
    for tokens in (10, 20, 40, 80):
        text = [rng.choice(vocabulary, tokens).tolist() for _ in range(16)]
        print(f"  {tokens:>5} tokens each  {peak(lambda text=text: bilm.loss(text).backward()):>8.1f} MiB")
    print("Peak memory of the perplexity of a corpus, sentences of 20 tokens, 16 at a time")
    for sentences in (50, 100, 200):
        text = [rng.choice(vocabulary, 20).tolist() for _ in range(sentences)]
        print(f"  {sentences:>5} sentences    {peak(lambda text=text: bilm.perplexity(text, batch=16)):>8.1f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sizes", nargs="*", default=list(SIZES), help=f"any of {', '.join(SIZES)}")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print(f"{'size':<8}{'what':<20}{'median':>12}{'tokens/s':>12}{'ratio':>10}")
    for size in options.sizes:
        measure(size, options.rounds, rng)
    memory(rng)


if __name__ == "__main__":
    main()
