"""Which language is this name from? A classifier that reads a line character by character, from both ends.

    python examples/names.py                                     names of three made languages, some seconds
    python examples/names.py --data FILE.csv                     your own lines: columns "text" and "label"
    python examples/names.py --data FILE.csv --text name --label origin --encoding latin-1

The made languages use the same letters equally often; what differs is their order: North begins its syllables with
two consonants, South ends them so, and Island never puts two together. Whoever only counts letters cannot tell North
from South. A recurrent network reads in order. At the end stands its error on names that it has never seen, beside
that of counting (naive Bayes) and of always giving the commonest answer, and a table of what it takes for what.
"""

import argparse
import csv
import os
import sys
from collections import Counter

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the products here are small

import numpy as np

import tinygrad_seq as tg

VOWELS, CONSONANTS = "aeiou", "bdfgklmnprst"


def made_names(count, rng):
    """Pairs (name, language)."""

    def letters(kinds):
        return "".join(rng.choice(list(VOWELS if kind == "v" else CONSONANTS)) for kind in kinds)

    patterns = {"North": ["ccv"], "South": ["vcc"], "Island": ["cv", "vc", "v"]}
    found = []
    for _ in range(count):
        language = str(rng.choice(list(patterns)))
        if language == "Island":
            name = letters("cv" * int(rng.integers(3, 5)))
        else:
            name = letters(patterns[language][0] * int(rng.integers(2, 4)))
        found.append((name, language))
    return found


def read_csv(path, text, label, encoding):
    """Pairs (text, label) from two columns of a file. Empty lines, and lines that lack one of the two, are passed over
    and counted."""
    try:
        with open(path, newline="", encoding=encoding) as file:
            reader = csv.DictReader(file)
            missing = [name for name in (text, label) if name not in (reader.fieldnames or [])]
            if missing:
                sys.exit(
                    f"{path} has no column {' and no column '.join(map(repr, missing))}; its first line names "
                    f"{', '.join(map(repr, reader.fieldnames or [])) or 'nothing'}. Choose with --text and --label"
                )
            rows = [((row[text] or "").strip(), (row[label] or "").strip()) for row in reader]
    except UnicodeDecodeError as error:
        sys.exit(f"{path} is not written in {encoding} ({error.reason} at byte {error.start}): try --encoding latin-1")
    except OSError as error:
        sys.exit(f"{path} cannot be read: {error.strerror}")
    whole = [(a, b) for a, b in rows if a and b]
    if len(whole) < len(rows):
        print(f"{len(rows) - len(whole)} of {len(rows)} lines lack a text or a label, and are passed over")
    if len({b for _, b in whole}) < 2 or len(whole) < 20:
        sys.exit(f"{path} has {len(whole)} whole lines with {len({b for _, b in whole})} labels: that is too little")
    return whole


class Reader(tg.nn.Module):
    """Characters (T, B) and lengths (B,) -> logits (B, labels), from what both directions hold in the end."""

    def __init__(self, characters, labels, hidden, rng):
        self.embed = tg.nn.Embedding(characters, 16, rng=rng, dtype=np.float32)
        self.recurrent = tg.nn.LSTM(16, hidden, bidirectional=True, rng=rng, dtype=np.float32)
        self.drop = tg.nn.Dropout(0.2, rng=rng)
        self.readout = tg.nn.Linear(2 * hidden, labels, rng=rng, dtype=np.float32)

    def __call__(self, characters, lengths):
        _, states = self.recurrent(self.embed(characters), lengths=lengths)
        forward, backward = states[-1]
        return self.readout(self.drop(tg.concat([forward.h, backward.h], axis=-1)))


def counted(train, test, labels):
    """The error of naive Bayes on how often each letter occurs, with one occurrence more of each."""
    letters = sorted({letter for text, _ in train for letter in text})
    occurs = {label: Counter(letters) for label in labels}
    for text, label in train:
        occurs[label].update(text)
    shares = Counter(label for _, label in train)
    scores = {
        label: {letter: np.log(n / occurs[label].total()) for letter, n in occurs[label].items()} for label in labels
    }

    def answer(text):
        return max(labels, key=lambda k: np.log(shares[k]) + sum(scores[k].get(letter, 0.0) for letter in text))

    return np.mean([answer(text) != label for text, label in test])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="a CSV file; without it, names are made")
    parser.add_argument("--text", default="text", help="the column with the lines")
    parser.add_argument("--label", default="label", help="the column with what they are")
    parser.add_argument("--encoding", default="utf-8-sig")
    parser.add_argument("--longest", type=int, default=30, help="characters that are read of a line")
    parser.add_argument("--hidden", type=int, default=24)
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    if options.data is None:
        pairs = made_names(1200, rng)
    else:
        pairs = read_csv(options.data, options.text, options.label, options.encoding)
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    labels = sorted({label for _, label in pairs})
    held = max(len(pairs) // 5, 1)
    test, look, train = pairs[:held], pairs[held : 2 * held], pairs[2 * held :]
    letters = tg.data.Vocabulary.of([list(text) for text, _ in train])  # what these lack is unknown

    def arrays(pairs):
        lines = [letters.ids(list(text[: options.longest])) for text, _ in pairs]
        characters, lengths = tg.data.padded(lines)
        whole = np.zeros((options.longest, len(lines)), int)  # one shape for all, so that a replay has one program
        whole[: len(characters)] = characters
        return whole, lengths, np.array([labels.index(label) for _, label in pairs])

    model = Reader(len(letters), len(labels), options.hidden, rng)
    characters, lengths, answers = arrays(train)
    looked = arrays(look)

    def batch(n):
        rows = np.random.default_rng([options.seed, n]).integers(0, len(train), 32)
        return characters[:, rows], lengths[rows], answers[rows]

    def loss(characters, lengths, labels):
        return tg.nn.cross_entropy(model(characters, lengths), labels)

    def validate():
        model.eval()
        error = np.mean(model(*looked[:2]).data.argmax(-1) != looked[2])
        model.train()
        return error

    run = tg.fit(
        loss, batch, tg.optim.Adam(model, lr=0.01), updates=options.updates, clip=1.0, model=model,
        replay=True, every=25, validate=validate, patience=4,
    )  # fmt: skip
    print(run.table())

    model.eval()
    *inputs, truth = arrays(test)
    found = model(*inputs).data.argmax(-1)
    error, by_counting = np.mean(found != truth), counted(train, test, labels)
    commonest = Counter(label for _, label in train).most_common(1)[0][0]
    always = np.mean([label != commonest for _, label in test])
    print(f"\nError on {len(test)} lines that were not trained on (weights of update {run.best[0]})")
    print(f"  always {commonest:<21}{always:8.1%}")
    print(f"  letters counted (naive Bayes){by_counting:7.1%}")
    print(f"  read in order, both ways    {error:8.1%}\n")

    table = np.zeros((len(labels), len(labels)), int)
    np.add.at(table, (truth, found), 1)
    print(tg.Matrix(table, labels, labels, title="What each line is (row), and what it is taken for (column)"))
    if options.data is None:
        assert error < 0.05 < 0.2 < by_counting < always
        print("\nCounting confuses North and South; reading in order does not.")


if __name__ == "__main__":
    main()
