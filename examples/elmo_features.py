"""Features for every word of a text, from published ELMo weights.

    python examples/elmo_features.py --options options.json --weights weights.hdf5 --text FILE
    python examples/elmo_features.py              the same with a small model, which examples/elmo.py trains and exports

The text has one sentence on a line, its words separated by spaces. The features go to an .npz: `layers` (layers, words,
2d), the `word` and the number of the `sentence` of each. For one word it is shown which words in their sentences are
nearest to it, layer by layer. Layer 0 reads characters and no sentence: to it, a word is the same wherever it stands.

HDF5 files need the extra: pip install 'tinygrad-seq[elmo]'. The same arrays in an .npz need nothing.
"""

import argparse
import os
import runpy
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import tinygrad_seq as tg

EPOCHS = 2  # of the small model


def small_model(folder):
    """Options, weights and a text: a biLM that has read Python's manual twice, in the published format."""
    elmo = runpy.run_path(str(Path(__file__).with_name("elmo.py")))
    text = [sentence.words for sentence in elmo["read_manual"]()]
    options, weights = elmo["export"](folder, text, EPOCHS)
    return options, weights, text


def read_text(path):
    lines = (line.split() for line in Path(path).read_text(encoding="utf-8").splitlines())
    return [words for words in lines if words]


def features(bilm, text, batch):
    """(layers, words, 2d) in the order of the text, batches of sentences of like length at a time."""
    starts = np.cumsum([0, *map(len, text)])
    found = np.empty((bilm.depth, starts[-1], 2 * bilm.width), bilm.dtype)
    order = sorted(range(len(text)), key=lambda k: len(text[k]))
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        layers = bilm.layers([text[k] for k in part]).data
        for b, k in enumerate(part):
            found[:, starts[k] : starts[k + 1]] = layers[:, : len(text[k]), b]
    return found


def nearest(rows, i, count):
    """The rows that are nearest to row i, by the cosine around the mean of all rows, and these cosines."""
    rows = rows - rows.mean(0)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit[i]
    order = np.argsort(-cosines, kind="stable")
    order = order[order != i][:count]
    return order, cosines[order]


def context(text, sentence, starts, i):
    """A word with the words around it."""
    words, k = text[sentence[i]], i - starts[sentence[i]]
    return " ".join([*words[max(k - 4, 0) : k], f"[{words[k]}]", *words[k + 1 : k + 5]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--options", metavar="FILE", help="options.json of a released model")
    parser.add_argument("--weights", metavar="FILE", help="its weights, HDF5 or .npz")
    parser.add_argument("--text", metavar="FILE", help="one sentence on a line, words separated by spaces")
    parser.add_argument("--out", metavar="FILE", default="features.npz", help="where the features go (features.npz)")
    parser.add_argument("--word", help="whose neighbours to show; a frequent one if not given")
    parser.add_argument("--batch", type=int, default=32, metavar="N")
    given = parser.parse_args()
    if (given.options is None) != (given.weights is None):
        parser.error("--options and --weights belong together")

    with tempfile.TemporaryDirectory() as folder:
        options, weights, text = given.options, given.weights, None
        if weights is None:
            options, weights, text = small_model(folder)
            text = text[:400]
        start = time.perf_counter()
        bilm = tg.nn.BiLM.published(options, weights)
        size = sum(x.size for x in bilm.tensors().values())
        print(f"{size / 1e6:.2f} million parameters, loaded in {time.perf_counter() - start:.2f} s")
    if given.text is not None:
        text = read_text(given.text)
    if not text:
        parser.error("a text with words is needed: --text FILE")

    bilm.freeze()  # no graph is built
    start = time.process_time()
    layers = features(bilm, text, given.batch)
    seconds = time.process_time() - start
    sentence = np.repeat(np.arange(len(text)), list(map(len, text)))
    word = np.array([word for words in text for word in words])
    print(f"{len(text)} sentences, {len(word)} words: {len(word) / max(seconds, 1e-9):,.0f} words per CPU second")
    np.savez(given.out, layers=layers, word=word, sentence=sentence)
    print(f"{given.out}: layers {layers.shape}, word, sentence")

    counts = Counter(word.tolist())
    chosen = given.word or (
        "for" if given.text is None else max(counts, key=lambda word: (len(word) > 3, counts[word]))
    )
    mine = np.flatnonzero(word == chosen)
    if not len(mine):
        parser.error(f"the text has no word {chosen!r}")
    starts = np.searchsorted(sentence, np.arange(len(text)))
    print(f"\nNearest to\n        {context(text, sentence, starts, mine[0])}")
    for k, rows in enumerate(layers):
        print(f"by layer {k}" + (", which reads the word alone" if k == 0 else ""))
        for i, cosine in zip(*nearest(rows, mine[0], 4), strict=True):
            print(f"  {cosine:.3f}  {context(text, sentence, starts, i)}")

    static = layers[0, mine]
    assert np.allclose(static, static[0], rtol=0, atol=1e-5), "a word is one to the static layer"
    if len(mine) > 1:
        apart = [float(np.abs(rows[mine] - rows[mine[0]]).max()) for rows in layers]
        told = ", ".join(f"{x:.3f}" for x in apart)
        print(f"\nHow far apart the {len(mine)} rows of {chosen!r} are at most, layer by layer: {told}")
        assert min(apart[1:]) > 100 * apart[0] or len({text[k] for k in sentence[mine]}) == 1


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(f"elmo_features: {error}") from None
