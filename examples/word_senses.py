"""One word, two senses: what a language model of each direction, and a mixture of both, can know of it.

    python examples/word_senses.py               about a quarter of a minute

A "bat" sleeps or breaks, a "mouse" is fed or repaired. Eight such words stand in a small made-up language; in half of
its sentences the only clue to the sense comes before the word, in the other half it comes after. A biLM learns the
language without being told of senses. Then it is frozen, and a linear predictor has to say which sense a word has,
from what the biLM holds at that word. It is trained with one half of the clue words and tested with the other half:
that "stroked" is like "fed" can only have been learnt from the language.

All sentences of the language are known and equally likely, so that what nobody can beat is known exactly: the
perplexity (the language's entropy), and how often a reader of one side can be right.
"""

import math
import os
import time
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the products are small: two threads wait for each other

import numpy as np

import tinygrad_seq as tg

AMBIGUOUS = ["bat", "bug", "crane", "jaguar", "mouse", "python", "ram", "seal"]
CERTAIN = [["dog", "horse"], ["lamp", "phone"]]  # an animal always, a thing always
CLUES = {  # for an animal, for a thing; the first of each pair is what the task is trained with
    "DOES": [["slept", "drank"], ["rusted", "broke"]],
    "PLACE": [["forest", "river"], ["office", "garage"]],
    "PERSON": [["vet", "keeper"], ["clerk", "engineer"]],
    "DID": [["fed", "stroked"], ["sold", "repaired"]],
    "KIND": [["hungry", "wild"], ["electric", "cheap"]],
}
TEMPLATES = [  # the clue comes after the word in four of them, before it in the others
    "the WORD DOES today",
    "we saw the WORD that DOES",
    "again one WORD DOES",
    "one WORD is in the PLACE",
    "the PERSON saw the WORD",
    "they DID the WORD again",
    "look at this KIND WORD",
    "in the PLACE we saw one WORD",
]
SEEDS, UPDATES, BATCH, WIDTH = range(3), 600, 32, 16


def language():
    """Every sentence of it: (words, place of the noun, sense, whether its clue is one of the first)."""
    for template, sense, first in product(TEMPLATES, (0, 1), (True, False)):
        for noun in AMBIGUOUS + CERTAIN[sense]:
            clues = {clue: pairs[sense][0 if first else 1] for clue, pairs in CLUES.items()}
            words = [(clues | {"WORD": noun}).get(word, word) for word in template.split()]
            yield words, template.split().index("WORD"), sense, first


def pretrain(sentences, vocabulary, seed):
    """The biLM after its training, and what it was before."""
    rng = np.random.default_rng(seed)

    def new():
        encoder = tg.nn.WordEncoder(vocabulary, WIDTH, rng=seed)
        return tg.nn.BiLM(encoder, vocabulary, hidden=2 * WIDTH, projection=WIDTH, rng=seed)

    bilm, untrained = new(), new()
    adam = tg.optim.Adam(bilm.parameters(), 0.01)
    batches = [[sentences[i] for i in rng.integers(len(sentences), size=BATCH)] for _ in range(UPDATES)]
    step = tg.replay(bilm.loss, wrt=bilm)
    for update, frame in enumerate(bilm.frames(batches, shapes=1)):  # of one shape: its graph is recorded once
        adam.lr = 0.01 * (1 - update / UPDATES)
        adam.zero_grad()
        step(frame)
        tg.optim.clip_grad_norm(adam.parameters, 1.0)
        adam.step()
    return bilm, untrained


def accuracy(features, senses, first):
    """How often a linear predictor is right about sentences whose clue words it was not trained with."""
    right = []
    for train in (first, ~first):  # each half of the clues once
        mix = tg.nn.ScalarMix(len(features))
        predictor = tg.nn.Linear(features.shape[-1], 1, rng=0)
        xs, targets = tg.Tensor(features[:, train]), senses[train, None].astype(float)
        adam = tg.optim.Adam([*mix.parameters(), *predictor.parameters()], 0.03)
        for _ in range(150):
            adam.zero_grad()
            loss = tg.nn.bce_with_logits(predictor(mix(xs)), targets) + 1e-3 * predictor.W.square().sum()
            loss.backward()
            adam.step()
        answers = predictor(mix(features[:, ~train])).data[:, 0] > 0
        right.append(answers == senses[~train])
    return np.concatenate(right).mean()


def report(bilm, sentences, places, senses, first):
    """Accuracy by what of the biLM's layers the predictor may read."""
    bilm.freeze().eval()
    layers = bilm.layers(sentences).data[:, places, np.arange(len(sentences))]
    left, right = np.split(layers, 2, axis=-1)
    parts = {
        "static lookup (layer 0)": layers[:1],
        "forward only": left,
        "backward only": right,
        "layer 1": layers[1:2],
        "layer 2": layers[2:],
        "mixture of all layers": layers,
    }
    return {name: accuracy(part, senses, first) for name, part in parts.items()}


class Leaky(tg.nn.Module):
    """What must not be done: a bidirectional LSTM predicts the next word, which its backward half has read."""

    def __init__(self, words, rng):
        self.rows = tg.nn.Embedding(words, WIDTH, rng=rng)
        self.net = tg.nn.LSTM(WIDTH, WIDTH, bidirectional=True, rng=rng)
        self.softmax = tg.nn.Linear(2 * WIDTH, words, rng=rng)

    def predict(self, rows, lengths=None):
        outputs, _ = self.net(rows, lengths=lengths)
        return self.softmax(outputs)

    def loss(self, ids, lengths):
        targets = np.where(np.arange(len(ids) - 1)[:, None] < lengths, ids[1:], -1)
        return tg.nn.cross_entropy(self.predict(self.rows(ids[:-1]), lengths), targets, ignore_index=-1)


def train_leaky(sentences, vocabulary):
    """The leaky model after its training, and its perplexity."""
    marks = tg.nn.Mark
    whole = [vocabulary.ids([marks.BEGIN, *sentence, marks.END]) for sentence in sentences]
    ((ids, lengths, _),) = tg.data.batch_by_length(whole, batch=len(whole))
    rng = np.random.default_rng(0)
    leaky = Leaky(len(vocabulary), rng)
    adam = tg.optim.Adam(leaky.parameters(), 0.01)
    for _ in range(UPDATES // 2):
        rows = rng.integers(len(sentences), size=BATCH)
        adam.zero_grad()
        leaky.loss(ids[:, rows], lengths[rows] - 1).backward()
        adam.step()
    with tg.no_grad():
        return leaky, math.exp(leaky.loss(ids, lengths - 1).item())


def show_visibility(bilm, leaky, words):
    """Who sees whom, read off the graphs of both; asserts that the one is honest and the other is not."""
    forward, _ = bilm.visibility([words])
    print(f"\n{forward}")
    assert not np.triu(np.asarray(forward), 1).any()
    rows = tg.Tensor(np.zeros((len(words) + 1, WIDTH)), requires_grad=True, name="word")
    predictions = leaky.predict(rows).named("next")
    seen = tg.Tape(predictions).visibility(predictions, rows)
    print(f"\nA bidirectional LSTM as a language model: next[0] is to be word[1], and so on.\n{seen}")
    assert np.asarray(seen).all()


def main():
    start = time.perf_counter()
    sentences, places, senses, first = (list(column) for column in zip(*language(), strict=True))
    vocabulary = tg.nn.Vocabulary.of(sentences)
    assert len(set(map(tuple, sentences))) == len(sentences)
    floor = math.exp(math.log(len(sentences)) / np.mean([len(sentence) + 1 for sentence in sentences]))
    print(f"The language: {len(sentences)} sentences, all equally likely, of {len(vocabulary) - 3} words, such as")
    for k in (0, 169, 260):
        print(f"    {' '.join(sentences[k])}")
    print(
        f"Its entropy is ln {len(sentences)} = {math.log(len(sentences)):.3f} nats a sentence: perplexity {floor:.3f}."
    )

    asked = [k for k, words in enumerate(sentences) if words[places[k]] in AMBIGUOUS]
    chosen = (
        [sentences[k] for k in asked],
        *(np.array([column[k] for k in asked]) for column in (places, senses, first)),
    )
    table, controls = [], []
    for seed in SEEDS:
        bilm, untrained = pretrain(sentences, vocabulary, seed)
        perplexity = bilm.perplexity(sentences)
        print(f"seed {seed}: perplexity forward {perplexity.forward:.3f}, backward {perplexity.backward:.3f}")
        assert min(perplexity) >= floor, "below the entropy: a target is visible"
        table.append(report(bilm, *chosen))
        controls.append(report(untrained, *chosen))

    ceilings = [0.5, 0.75, 0.75, 1.0, 1.0, 1.0]
    print(f"\nWhich sense? Accuracy on {len(asked)} sentences with clue words that are new to the predictor,")
    print(f"mean and range over {len(table)} seeds (pretraining and untrained start).")
    print(f"{'what is read':<26}{'pretrained':>18}{'untrained':>20}{'at best':>10}")
    for name, ceiling in zip(table[0], ceilings, strict=True):
        cells = []
        for rows in (table, controls):
            values = [row[name] for row in rows]
            cells.append(f"{np.mean(values):.3f} [{min(values):.2f}, {max(values):.2f}]")
            assert max(values) <= ceiling
        print(f"{name:<26}{cells[0]:>20}{cells[1]:>20}{ceiling:>8}")

    leaky, perplexity = train_leaky(sentences, vocabulary)
    show_visibility(bilm, leaky, sentences[0])
    print(f"Its perplexity is {perplexity:.3f}, where {floor:.3f} is the least possible: it has read what it predicts.")
    assert perplexity < 0.5 * floor
    print(f"({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
