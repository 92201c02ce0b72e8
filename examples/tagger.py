"""A tag for every word: is "can" a verb or a noun here? A network that reads the sentence from both ends.

    python examples/tagger.py                       sentences of a made grammar, some seconds
    python examples/tagger.py --data FILE           your own: on each line a word and its tag, an empty line after
                                                    each sentence (CoNLL; further columns stand between them)

Sentences have different lengths: they are padded, `lengths` keeps the padding out of the recurrence, and -1 at the
padding's tags keeps it out of the loss (`ignore_index`). Many words of the made grammar are nouns in one place and
verbs in another. At the end stands the error for each word, beside that of giving every word its commonest tag.
"""

import argparse
import os
import sys
from collections import Counter, defaultdict

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the products here are small

import numpy as np

import tinygrad_seq as tg

BOTH = ["can", "fish", "watch", "ship", "plant", "fly", "train", "duck"]  # nouns and verbs
WORDS = {
    "DET": ["the", "a", "this", "every"],
    "ADJ": ["old", "small", "green", "quick"],
    "NOUN": [*BOTH, "sailor", "garden", "river"],
    "VERB": [*BOTH, "sees", "likes"],
    "PRON": ["they", "we", "you"],
    "AUX": ["will", "must", "may"],
}


def made_sentences(count, rng):
    """Lists of (word, tag)."""

    def noun_phrase():
        return ["DET", *["ADJ"] * int(rng.integers(0, 3)), "NOUN"]

    found = []
    for _ in range(count):
        start = ["PRON"] if rng.random() < 0.5 else noun_phrase()
        tags = [*start, *["AUX"] * int(rng.random() < 0.5), "VERB", *(noun_phrase() if rng.random() < 0.7 else [])]
        found.append([(str(rng.choice(WORDS[tag])), tag) for tag in tags])
    return found


def read_sentences(path, encoding):
    """Lists of (word, tag) from a file with a word, and last its tag, on each line, and empty lines between."""
    try:
        with open(path, encoding=encoding) as file:
            lines = file.read().splitlines()
    except UnicodeDecodeError as error:
        sys.exit(f"{path} is not written in {encoding} ({error.reason} at byte {error.start}): try --encoding latin-1")
    except OSError as error:
        sys.exit(f"{path} cannot be read: {error.strerror}")
    sentences = [[]]
    for number, line in enumerate(lines, start=1):
        parts = line.split()
        if len(parts) == 1:
            sys.exit(f"line {number} of {path} has a word and no tag: {line!r}")
        if parts:
            sentences[-1].append((parts[0], parts[-1]))
        elif sentences[-1]:
            sentences.append([])
    sentences = [sentence for sentence in sentences if sentence]
    if len(sentences) < 10:
        sys.exit(f"{path} has {len(sentences)} sentences: that is too little (an empty line ends a sentence)")
    return sentences


class Tagger(tg.nn.Module):
    """Words (T, B) and lengths (B,) -> logits (T, B, tags)."""

    def __init__(self, words, tags, hidden, rng):
        self.embed = tg.nn.Embedding(words, 24, rng=rng, dtype=np.float32)
        self.recurrent = tg.nn.GRU(24, hidden, bidirectional=True, rng=rng, dtype=np.float32)
        self.readout = tg.nn.Linear(2 * hidden, tags, rng=rng, dtype=np.float32)

    def __call__(self, words, lengths):
        outputs, _ = self.recurrent(self.embed(words), lengths=lengths)
        return self.readout(outputs)

    def loss(self, words, tags, lengths):
        return tg.nn.cross_entropy(self(words, lengths), tags, ignore_index=-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="a file with a word and a tag on each line; without it, sentences are made")
    parser.add_argument("--encoding", default="utf-8-sig")
    parser.add_argument("--hidden", type=int, default=24)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)

    if options.data is None:
        sentences = made_sentences(800, rng)
    else:
        sentences = read_sentences(options.data, options.encoding)
    sentences = [sentences[i] for i in rng.permutation(len(sentences))]
    held = max(len(sentences) // 5, 1)
    test, look, train = sentences[:held], sentences[held : 2 * held], sentences[2 * held :]
    tags = sorted({tag for sentence in sentences for _, tag in sentence})
    # Words that the training sentences lack are unknown. To know what that looks like, the network meets words that
    # occur there once as unknown ones too.
    vocabulary = tg.data.Vocabulary.of([[word for word, _ in sentence] for sentence in train], least=2)

    def arrays(sentences):
        """Words (T, B), tags (T, B) with -1 at padding, and lengths (B,)."""
        return tg.data.padded(
            [vocabulary.ids([word for word, _ in sentence]) for sentence in sentences],
            [np.array([tags.index(tag) for _, tag in sentence]) for sentence in sentences],
            fill=(0, -1),
        )

    model = Tagger(len(vocabulary), len(tags), options.hidden, rng)
    words, answers, lengths = arrays(train)

    def batch(n):
        rows = np.random.default_rng([options.seed, n]).integers(0, len(train), 16)
        return words[:, rows], answers[:, rows], lengths[rows]

    def error(arrays):
        words, answers, lengths = arrays
        with tg.no_grad():
            found = model(words, lengths).data.argmax(-1)
        real = tg.data.mask(lengths, len(words))
        return np.mean(found[real] != answers[real])

    looked = arrays(look)
    run = tg.fit(
        model.loss, batch, tg.optim.Adam(model, lr=0.01), updates=options.updates, clip=1.0, replay=True, every=25,
        validate=lambda: error(looked), patience=5,
    )  # fmt: skip
    print(run.table())

    counts, overall = defaultdict(Counter), Counter()
    for sentence in train:
        for word, tag in sentence:
            counts[word][tag] += 1
            overall[tag] += 1
    commonest = {word: tagged.most_common(1)[0][0] for word, tagged in counts.items()}
    fallback = overall.most_common(1)[0][0]
    pairs = [pair for sentence in test for pair in sentence]
    by_word = np.mean([commonest.get(word, fallback) != tag for word, tag in pairs])
    by_reading = error(arrays(test))
    print(f"\nError for each of {len(pairs)} words that were not trained on (weights of update {run.best[0]})")
    print(f"  every word its commonest tag{by_word:8.1%}")
    print(f"  read from both ends         {by_reading:8.1%}\n")

    for sentence in test[:3]:
        words, _, lengths = arrays([sentence])
        found = [tags[k] for k in model(words, lengths).data[:, 0].argmax(-1)]
        print("  ".join(f"{word}/{tag}" for (word, _), tag in zip(sentence, found, strict=True)))
    if options.data is None:
        assert by_reading < 0.02 < 0.1 < by_word
        print("\nThe same word is a noun after an article and a verb after a pronoun: its place tells, not the word.")


if __name__ == "__main__":
    main()
