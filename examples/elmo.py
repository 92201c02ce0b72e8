"""Word or keyword? ELMo from characters to a task, on a text that comes with Python.

    python examples/elmo.py                       one pretraining, three seeds of the task: under three minutes
    python examples/elmo.py --pretrain-seeds 3    the table of docs/elmo.md
    python examples/elmo.py --unseen              pretrain for each fold, on the other topics only (five times as long)
    python examples/elmo.py --corpus FILE         pretrain on any other text
    python examples/elmo.py --export FOLDER       only pretrain, and write the biLM in ELMo's published format

Python's reference manual says "if" as an English word and as the keyword, and puts the keyword in quotation marks.
The marks are taken off, and what they said is the label: was this "if" code or English? "for", "in", "is", "with" and
some twenty others have both readings.

A biLM learns to predict the words of the manual from both sides, from their characters on. Then it is frozen, and a
linear predictor reads what its layers hold at such a word. It is compared with the same predictor on an untrained biLM:
the difference is what pretraining brings.
"""

import argparse
import importlib.util
import json
import math
import os
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the products are small: two threads wait for each other

import numpy as np

import tinygrad_seq as tg

sys.stdout.reconfigure(errors="replace")  # a terminal that has no σ shows a question mark

KEYWORDS = [
    "and", "as", "assert", "break", "case", "class", "continue", "else", "except", "finally", "for", "from", "global",
    "if", "import", "in", "is", "match", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
]  # fmt: skip
WIDTH, HIDDEN, BATCH, SHAPES, FOLDS = 64, 128, 16, 16, 5

# The text ------------------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"[^\W\d]\w*(?:’[a-z]+)?|\d+(?:\.\d+)*|\.\.\.|\S")
ITEM = re.compile(r"(\*|\d+\.|\(\d+\)|\[\d+\])\s+")
ENGLISH = re.compile(r"\b(the|a|an|of|is|are|to|that|this|in|for|be)\b", re.IGNORECASE)
NOTE = re.compile(r"Note|See also|Warning|Changed in|New in|Deprecated")
EMPHASIS = re.compile(r"(?<!\w)\*\*?([^*\s][^*]*)\*\*?(?!\w)")


class Sentence(NamedTuple):
    topic: str
    words: tuple[str, ...]
    marked: tuple[bool, ...]


def paragraphs(page):
    """The titles and English paragraphs of a page, without code blocks, grammar rules, signatures and tables."""
    indent, introduces, code = 0, False, None
    for block in re.split(r"\n[ \t]*\n", page):
        lines = [line for line in block.split("\n") if line.strip()]
        if not lines:
            continue
        here = len(lines[0]) - len(lines[0].lstrip())
        if code is not None and here >= code:
            continue
        item = ITEM.match(lines[0].strip())
        code = here if introduces and here == indent + 3 and not item else None  # a colon, and further in: a code block
        if code is not None:
            continue
        title = len(lines) == 2 and re.fullmatch(r"([*=\-~^+])\1+", lines[1].strip())
        body = " ".join(line.strip() for line in (lines[:1] if title else lines))
        indent = here + (item.end() if item else 0)
        introduces = body.endswith(":") and not NOTE.match(body)
        body = body[item.end() :] if item else body
        prose = re.sub('"[^"]*"', "", body)
        if not title and (len(body.split()) < 4 or not ENGLISH.search(prose)):
            continue
        if "::=" in body or ">>>" in body or body[0] in "|+" or body.count('"') % 2:
            continue
        yield EMPHASIS.sub(r"\1", body)


def sentences(body):
    """(words, which were between quotation marks) of each sentence; long ones are cut at a comma, or at 70 words."""
    words, marked = [], []
    for k, piece in enumerate(body.split('"')):
        found = TOKEN.findall(piece)
        words += found
        marked += [k % 2 == 1] * len(found)
    start = 0
    for i, word in enumerate(words):
        long, ends = i - start >= 40, word in ".!?:;" and not marked[i]
        last = i + 1 == len(words)
        if last or (ends and words[i + 1][0].isupper()) or (long and (ends or word == ",")) or i - start >= 69:
            yield tuple(words[start : i + 1]), tuple(marked[start : i + 1])
            start = i + 1


def read_manual():
    """Many topics repeat paragraphs of others: each paragraph counts once, for the shortest topic that has it."""
    seen, found = set(), []
    for topic in sorted(topics, key=lambda topic: (len(topics[topic]), topic)):
        for body in paragraphs(topics[topic]):
            if body not in seen:
                seen.add(body)
                found += [Sentence(topic, words, marked) for words, marked in sentences(body)]
    return found


def read_file(path):
    bodies = re.split(r"\n\s*\n", Path(path).read_text(encoding="utf-8"))
    return [words for body in bodies for words, _ in sentences(body.replace('"', " "))]


class Occurrences(NamedTuple):
    """Where the words with two readings stand."""

    sentence: np.ndarray
    place: np.ndarray
    word: np.ndarray
    topic: np.ndarray
    code: np.ndarray


def find_occurrences(manual):
    rows = [
        (k, i, KEYWORDS.index(word), sentence.topic, sentence.marked[i])
        for k, sentence in enumerate(manual)
        for i, word in enumerate(sentence.words)
        if word in KEYWORDS
    ]
    return Occurrences(*(np.array(column) for column in zip(*rows, strict=True)))


# Pretraining ---------------------------------------------------------------------------------------------------------


def new_bilm(vocabulary, seed, padded=False):
    rng = np.random.default_rng(seed)
    encoder = tg.nn.CharEncoder(WIDTH, padded=padded, rng=rng, dtype=np.float32)
    return tg.nn.BiLM(
        encoder, vocabulary, hidden=HIDDEN, projection=WIDTH, cell_clip=3.0, projection_clip=3.0, dropout=0.1,
        rng=rng, dtype=np.float32,
    )  # fmt: skip


def unrolled(bilm):
    """One step of training, up to the gradients: unroll the graph of a batch, and walk it backward."""

    def step(batch):
        loss = bilm.loss(batch)
        loss.backward()
        return loss

    return step


def speed_up(bilm, replayed, batches, frames):
    """How much faster a replayed step is than unrolling the sentences' own graph, without padding."""
    unroll, seconds = unrolled(bilm), np.zeros(2)
    for k in range(0, len(batches), 8):
        for way, step, batch in ((0, unroll, batches[k]), (1, replayed, frames[k])):
            start = time.perf_counter()
            step(batch)
            seconds[way] += time.perf_counter() - start
    return seconds[0] / seconds[1]


def pretrain(text, seed, epochs, replay, padded=False):
    """The biLM after its training, and what it was before; prints its perplexity as it goes."""
    rng = np.random.default_rng(seed)
    vocabulary = tg.nn.Vocabulary.of(text, least=2)
    bilm, untrained = (new_bilm(vocabulary, seed, padded) for _ in range(2))
    adam = tg.optim.Adam(bilm.parameters())
    order = np.argsort([len(words) for words in text], kind="stable")
    batches = [[text[i] for i in order[k : k + BATCH]] for k in range(0, len(order), BATCH)]  # of like length
    frames = bilm.frames(batches, SHAPES)  # a little padding, so that there are few graphs to record
    counts = [sum(len(words) + 1 for words in batch) for batch in batches]
    step = tg.replay(bilm.loss, wrt=bilm, programs=SHAPES) if replay else unrolled(bilm)
    print(f"pretraining {seed}: {len(text)} sentences, {sum(map(len, text))} tokens, {vocabulary}")
    start = time.perf_counter()
    for epoch in range(epochs):
        losses, drawn = [], rng.permutation(len(frames))
        for k in drawn:
            adam.lr = 0.003 * (1 - (epoch + len(losses) / len(frames)) / epochs)
            adam.zero_grad()
            losses.append(step(frames[k]).item())
            tg.optim.clip_grad_norm(adam.parameters, 5.0)
            adam.step()
        perplexity = math.exp(np.average(losses, weights=np.array(counts)[drawn]))
        print(f"  epoch {epoch + 1}: perplexity {perplexity:6.1f}   ({time.perf_counter() - start:.0f} s)", flush=True)
    if replay:
        ratio = speed_up(bilm, step, batches, frames)
        print(f"  each graph was recorded once and replayed: {ratio:.1f} times as fast as to unroll it for each batch")
    return bilm, untrained


def export(folder, text, epochs):
    """Pretrain a biLM whose words are filled up as the published code does it, and write it in the published format:
    options.json, and the weights as .npz, or as HDF5 where h5py is installed. Returns both paths."""
    bilm, _ = pretrain(text, seed=0, epochs=epochs, replay=True, padded=True)
    folder, arrays = Path(folder), bilm.to_published()
    folder.mkdir(parents=True, exist_ok=True)
    options, weights = folder / "options.json", folder / "weights.npz"
    options.write_text(json.dumps(bilm.published_options(), indent=2), encoding="utf-8")
    if importlib.util.find_spec("h5py"):
        import h5py

        weights = folder / "weights.hdf5"
        with h5py.File(weights, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    else:
        np.savez(weights, **arrays)
    again = tg.nn.BiLM.published(options, weights)
    assert np.array_equal(again.layers(text[:3]).data, bilm.eval().layers(text[:3]).data)
    print(f"{options} and {weights}: {len(arrays)} arrays, which give the same features again, bit for bit")
    return options, weights


def both_features(text, held_out, manual, occurrences, seed, options):
    """The features of a biLM that has read this text, and of one that has not."""
    models = pretrain(text, seed, options.epochs, options.replay)
    after, before = (model.perplexity(held_out or text) for model in models)
    where = "the topics held out" if held_out else "the same text"
    print(
        f"  perplexity on {where}, forward and backward: {before.forward:.0f} and {before.backward:.0f} before,", end=""
    )
    print(f" {after.forward:.1f} and {after.backward:.1f} after")
    assert max(after) < min(before)
    return tuple(features(model, manual, occurrences) for model in models)


# The task ------------------------------------------------------------------------------------------------------------


def balanced(occurrences, rows):
    """Weights that give code and English the same total for each word: then the word by itself says nothing."""
    weights = np.zeros(len(rows))
    for word in range(len(KEYWORDS)):
        mine = occurrences.word[rows] == word
        readings = [mine & (occurrences.code[rows] == code) for code in (True, False)]
        count = min(reading.sum() for reading in readings)
        for reading in readings:
            if count:
                weights[reading] = count / reading.sum()
    return weights / weights.sum()


def draw_folds(manual, occurrences, seed):
    """A fold for each topic, so that every fold has its share of the marked occurrences."""
    rng = np.random.default_rng(seed)
    marked = Counter(occurrences.topic[occurrences.code].tolist())
    total, fold = np.zeros(FOLDS), {}
    for topic in sorted(rng.permutation(sorted({s.topic for s in manual})).tolist(), key=lambda topic: -marked[topic]):
        fold[topic] = int(np.argmin(total))
        total[fold[topic]] += marked[topic] + rng.random()
    return fold


def features(bilm, manual, occurrences):
    """(layers, occurrences, 2d): what the frozen biLM holds at each of these words."""
    elmo = tg.nn.Elmo(bilm)
    elmo.remember([sentence.words for sentence in manual], batch=64)
    rows = defaultdict(list)
    for row, k in enumerate(occurrences.sentence):
        rows[k].append(row)
    found = np.empty((bilm.depth, len(occurrences.word), 2 * WIDTH), np.float32)
    for k, mine in rows.items():
        found[:, mine] = elmo.layers([manual[k].words]).data[:, occurrences.place[mine], 0]
    return found


def fit(layers, targets, weights):
    """A mixture of these layers (n, N, width) and a linear predictor on it, for targets with weights."""
    mix = tg.nn.ScalarMix(len(layers), dtype=np.float32)
    predictor = tg.nn.Linear(layers.shape[-1], 1, dtype=np.float32)
    predictor.W.data = np.zeros_like(predictor.W.data)  # a logistic regression needs no luck at the start
    xs, targets, weights = tg.Tensor(layers), targets[:, None].astype(np.float32), weights[:, None].astype(np.float32)
    adam = tg.optim.Adam([*mix.parameters(), *predictor.parameters()], 0.03)
    for _ in range(60):
        adam.zero_grad()
        losses = tg.nn.bce_with_logits(predictor(mix(xs)), targets, reduction="none")
        loss = (losses * weights).sum() + 0.01 * (predictor.W.square().sum() + mix.penalty())
        loss.backward()
        adam.step()
    return mix, predictor


def out_of_fold(part, layers, occurrences, fold):
    """How right the predictor is when it is tested on one fold after the other and trained on the rest; the mixture.

    `layers[k]` are the features to use when fold k is tested, and `part` takes from them what may be read.
    """
    mine = np.array([fold[topic] for topic in occurrences.topic.tolist()])
    scores = np.empty(len(mine))
    for k in range(FOLDS):
        x, train, test = part(layers[k]), np.flatnonzero(mine != k), np.flatnonzero(mine == k)
        weights = balanced(occurrences, train)
        train, weights = train[weights > 0], weights[weights > 0]
        mean, spread = x[:, train].mean(1, keepdims=True), x[:, train].std(1, keepdims=True) + 1e-6
        mix, predictor = fit((x[:, train] - mean) / spread, occurrences.code[train], weights)
        scores[test] = predictor(mix((x[:, test] - mean) / spread)).data[:, 0]
    return balanced(occurrences, np.arange(len(mine)))[(scores > 0) == occurrences.code].sum(), mix


PARTS = {
    "layer 0 (the word alone)": lambda layers: layers[:1],
    "forward only": lambda layers: layers[..., :WIDTH],
    "backward only": lambda layers: layers[..., WIDTH:],
    "layer 1": lambda layers: layers[1:2],
    "layer 2": lambda layers: layers[2:],
    "mixture of all layers": lambda layers: layers,
}


# The report ----------------------------------------------------------------------------------------------------------


def show(values):
    return f"{np.mean(values):.3f} [{min(values):.3f}, {max(values):.3f}]"


def compare(what, values, other, others, error):
    """Says whether one is better than the other by more than the seeds and the number of occurrences leave open."""
    gap = np.mean(values) - np.mean(others)
    apart = min(values) > max(others) or max(values) < min(others)
    verdict = "exceeds the seeds' spread" if apart else "is within the seeds' spread"
    if len(values) == 1:
        verdict = "one seed has no spread to compare it with"
    elif apart and abs(gap) < 2 * error:
        verdict += f", but not two standard errors ({2 * error:.3f}) of so few occurrences"
    print(f"  {what} {'+' if gap >= 0 else '−'}{abs(gap):.3f} over {other}: {verdict}")


def neighbours(layers, manual, occurrences, mix, word):
    """The nearest occurrences, by the cosine of the mixed layers, to one of this word as code and one as English."""
    mixed = mix((layers - layers.mean(1, keepdims=True)) / (layers.std(1, keepdims=True) + 1e-6)).data
    mixed = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)

    def context(row):
        words, i = manual[occurrences.sentence[row]].words, occurrences.place[row]
        around = [*words[max(i - 5, 0) : i], f"[{words[i]}]", *words[i + 1 : i + 6]]
        return f"{'code   ' if occurrences.code[row] else 'English'}  {' '.join(around)}"

    for code in (True, False):
        mine = np.flatnonzero((occurrences.word == KEYWORDS.index(word)) & (occurrences.code == code))
        row = mine[np.argmax(mixed[mine] @ mixed[mine].mean(0))]  # the most typical one
        near = np.argsort(-mixed @ mixed[row])
        near = [k for k in near if occurrences.sentence[k] != occurrences.sentence[row]][:4]
        print(f"  {context(row)}")
        for k in near:
            print(f"    {mixed[k] @ mixed[row]:.2f}  {context(k)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", metavar="FILE", help="pretrain on this text in place of the manual")
    parser.add_argument("--pretrain-seeds", type=int, default=1, metavar="N")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds of the task: other folds")
    parser.add_argument("--epochs", type=int, default=8, metavar="N")
    parser.add_argument("--unseen", action="store_true", help="pretrain for each fold on the other folds' topics only")
    parser.add_argument(
        "--replay",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="record each graph of the pretraining once: same numbers, faster",
    )
    parser.add_argument(
        "--export", metavar="FOLDER", help="only pretrain, and write the biLM in ELMo's published format"
    )
    options = parser.parse_args()
    begin = time.perf_counter()
    if options.export:
        text = read_file(options.corpus) if options.corpus else [sentence.words for sentence in read_manual()]
        export(options.export, text, options.epochs)
        return

    manual = read_manual()
    occurrences = find_occurrences(manual)
    code, n = occurrences.code.sum(), len(occurrences.code)
    print(f"The manual: {len(manual)} sentences, {sum(len(s.words) for s in manual)} tokens, {len(topics)} topics.")
    print(f"{n} words could be keywords, {code} of them are marked as code: always answering English is right")
    print(
        f"{1 - code / n:.1%} of the time. So for each word its two readings are given the same weight in what follows:"
    )
    print("neither a constant answer nor the word alone is worth more than .5, up to chance.\n")
    assert code > 200 and n > 10 * code

    table = np.eye(len(KEYWORDS), dtype=np.float32)[occurrences.word][None]  # a weight for each word, nothing else
    static, trained, control = [], defaultdict(list), defaultdict(list)
    for first in range(options.pretrain_seeds):
        if not options.unseen:
            text = read_file(options.corpus) if options.corpus else [sentence.words for sentence in manual]
            layers = [both_features(text, [], manual, occurrences, first, options)] * FOLDS
        for seed in range(100 * first, 100 * first + options.seeds):
            fold = draw_folds(manual, occurrences, seed)
            if options.unseen:
                layers = []
                for k in range(FOLDS):
                    text, held_out = ([s.words for s in manual if (fold[s.topic] == k) == out] for out in (False, True))
                    layers.append(both_features(text, held_out, manual, occurrences, first, options))
            static.append(out_of_fold(lambda x: x, [table] * FOLDS, occurrences, fold)[0])
            for name, part in PARTS.items():
                control[name].append(out_of_fold(part, [x for _, x in layers], occurrences, fold)[0])
                accuracy, learned = out_of_fold(part, [x for x, _ in layers], occurrences, fold)
                trained[name].append(accuracy)

    weights = balanced(occurrences, np.arange(n))
    best = np.mean(trained["mixture of all layers"])
    error = math.sqrt((weights**2).sum() * best * (1 - best))
    print("\nWord or keyword? Balanced accuracy, tested on topics that the predictor was not trained with, mean and")
    print(f"range over {len(static)} seeds; the number of occurrences leaves a standard error of {error:.3f}.")
    print(f"{'what is read':<28}{'pretrained':>22}{'untrained':>24}")
    print(f"{'nothing (majority class)':<28}{'0.500':>8}")
    print(f"{'static lookup':<28}{show(static):>22}")
    for name in PARTS:
        print(f"{name:<28}{show(trained[name]):>22}{show(control[name]):>24}")

    mixture = trained["mixture of all layers"]
    print("\nWhich differences can be believed?")
    compare("the mixture", mixture, "static lookup", static, error)
    compare("the mixture", mixture, "the untrained control", control["mixture of all layers"], error)
    for name in list(PARTS)[1:-1]:
        compare("the mixture", mixture, name, trained[name], error)
    compare("layer 1", trained["layer 1"], "layer 2", trained["layer 2"], error)

    print("\nThe mixture that the task learned (the last one):")
    print(learned.table())
    print('\nWho is near "for"? (cosine of the mixed layers)')
    neighbours(layers[-1][0], manual, occurrences, learned, "for")
    print(f"\n({time.perf_counter() - begin:.0f} s)")


if __name__ == "__main__":
    main()
