"""ELMo against an independent derivation: one sentence at a time, word by word, in plain NumPy."""

import gc
import math
import re
import runpy
import tracemalloc
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq.nn.elmo.encoder import FIRST_MARK, SYMBOLS
from tinygrad_seq.nn.elmo.sentences import by_length, placed
from tinygrad_seq.testing import check_grads

WORDS = ["the", "train", "arrived", "we", "models", "é", "in", "x" * 60]
SENTENCES = [["the", "train", "arrived"], ["we"], ["in", "the", "models", "we", "train", "x" * 60, "unheard"], []]
VOCABULARY = tg.nn.Vocabulary(WORDS)
CELLS = [
    {"cell": "lstm", "hidden": 7, "projection": 5, "cell_clip": 0.3, "projection_clip": 0.2},
    {"cell": "lstm", "hidden": 5, "residual": False, "layers": 3},
    {"cell": "gru", "hidden": 5, "layers": 1},
    {"cell": "rnn", "hidden": 5, "layers": 2},
]

sentences = st.lists(st.sampled_from([*WORDS, "unheard"]), min_size=1, max_size=7)


def a_bilm(encoder="chars", seed=0, dtype=np.float64, **options):
    rng = np.random.default_rng(seed)
    options = {"hidden": 5} | options
    if encoder == "chars":
        encoder = tg.nn.CharEncoder(5, filters=((1, 3), (3, 4)), embedding=3, highways=1, rng=rng, dtype=dtype)
    else:
        encoder = tg.nn.WordEncoder(VOCABULARY, 5, rng=rng, dtype=dtype)
    bilm = tg.nn.BiLM(encoder, VOCABULARY, rng=rng, dtype=dtype, **options)
    disturb(bilm, rng)
    return bilm


def disturb(module, rng):
    """No bias is 0, and no two gates are alike; the padding symbol stays 0."""
    for path, x in module.named_parameters().items():
        noise = 0.3 * rng.standard_normal(x.shape)
        if path.endswith("symbols.table"):
            noise[0] = 0
        x.data = (x.data + noise).astype(x.dtype)


# The row of a word ---------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def row_by_hand(encoder, word):
    """One word, one window, one filter at a time."""
    table = encoder.symbols.table.data
    inner = [FIRST_MARK + list(tg.nn.Mark).index(word)] if isinstance(word, tg.nn.Mark) else None
    inner = inner or [1 + byte for byte in word.encode()[: encoder.longest - 2]]
    symbols = np.array([table[i] for i in [257, *inner, 258]])
    found = []
    for (k, count), convolution in zip(encoder.filters, encoder.convolutions, strict=True):
        W, b = convolution.W.data.reshape(k, -1, count), convolution.b.data
        padded = np.vstack([symbols, np.zeros((max(k - len(symbols), 0), symbols.shape[1]))])
        for j in range(count):
            windows = [sum(padded[p + q] @ W[q, :, j] for q in range(k)) + b[j] for p in range(len(padded) - k + 1)]
            found.append(max(windows))
    x = np.maximum(found, 0)
    for layer in encoder.highways:
        gate = sigmoid(x @ layer.gate.W.data + layer.gate.b.data)
        x = gate * np.maximum(x @ layer.transform.W.data + layer.transform.b.data, 0) + (1 - gate) * x
    return x @ encoder.projection.W.data + encoder.projection.b.data


def test_convolution_maximum_highway_and_projection_are_the_equations():
    encoder = tg.nn.CharEncoder(4, filters=((1, 3), (2, 2), (5, 4)), embedding=3, highways=2, longest=9, rng=3)
    disturb(encoder, np.random.default_rng(1))
    words = ["a", "", "key", "schlüssel", "a" * 10_000, "<s>", *tg.nn.Mark, "\0", "雨"]
    rows = encoder(words).data
    for word, row in zip(words, rows, strict=True):
        np.testing.assert_allclose(row, row_by_hand(encoder, word), rtol=0, atol=1e-12)


def test_highway_carries_its_input_where_the_gate_is_shut_and_transforms_it_where_open():
    layer = tg.nn.Highway(3, rng=0)
    x = np.array([[0.5, -2.0, 1.0]])
    assert layer.gate.b.tolist() == [-2.0, -2.0, -2.0]
    layer.gate.b.data = np.full(3, -800.0)
    np.testing.assert_array_equal(layer(x).data, x)
    layer.gate.b.data = np.full(3, 800.0)
    np.testing.assert_array_equal(layer(x).data, np.maximum(x @ layer.transform.W.data + layer.transform.b.data, 0))


@pytest.mark.parametrize("kind", ["chars", "table"])
@given(words=st.lists(st.text(max_size=12), min_size=1, max_size=6), more=st.lists(st.text(max_size=70), max_size=4))
def test_a_row_does_not_depend_on_the_words_beside_it(kind, words, more):
    encoder = a_bilm(kind).encoder
    together = encoder([*words, *more]).data
    for word, row in zip(words, together, strict=False):
        np.testing.assert_allclose(encoder([word]).data[0], row, rtol=0, atol=1e-12)


@given(st.lists(st.text(max_size=30), min_size=2, max_size=5, unique=True))
def test_two_words_are_spelled_alike_only_if_they_are_one(words):
    encoder = tg.nn.CharEncoder(2, filters=((1, 1),), longest=122, rng=0)
    ids, counts = encoder.spell([*words, *tg.nn.Mark])
    assert len({tuple(row) for row in ids.tolist()}) == len(words) + len(tg.nn.Mark)
    for row, count in zip(ids, counts, strict=True):
        assert (row[:count] > 0).all()  # padding is no character, and no mark
        assert (row[count:] == 0).all()
    assert ids.max() < SYMBOLS


def test_half_a_character_and_any_other_string_is_a_word():
    rows = a_bilm().encoder(["\ud800", "\x00", "\n", "\U0001f40d"]).data
    assert np.isfinite(rows).all() and len(np.unique(rows.round(6), axis=0)) == 4


def test_the_padding_symbol_is_zero_and_learns_nothing():
    encoder = a_bilm().encoder
    encoder(["a", "longer"]).square().sum().backward()
    assert not encoder.symbols.table.grad[0].any()
    assert encoder.symbols.table.grad[257].any()


def test_unknown_words_share_a_row_of_the_table_and_have_one_each_from_characters():
    unheard = ["unheard", "of"]
    table, chars = a_bilm("table").encoder, a_bilm("chars").encoder
    first, second = table(unheard).data
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, table([tg.nn.Mark.UNKNOWN]).data[0])
    first, second = chars(unheard).data
    assert np.abs(first - second).max() > 1e-3


def test_vocabulary_orders_by_frequency_and_reads_back_what_it_wrote():
    vocabulary = tg.nn.Vocabulary.of([["b", "a", "b"], ["c", "a", "<s>", "d"]])
    assert vocabulary.words(range(8)) == ["<s>", "</s>", "<unk>", "a", "b", "<s>", "c", "d"]
    assert vocabulary.ids(["<s>", tg.nn.Mark.BEGIN, "z"]).tolist() == [5, 0, 2]
    assert tg.nn.Vocabulary.read(vocabulary.text).entries == vocabulary.entries
    assert "a" in vocabulary and "z" not in vocabulary
    assert len(tg.nn.Vocabulary.read("")) == 3


# Alignment -----------------------------------------------------------------------------------------------------------


def by_hand(bilm, sentence, residual=True):
    """(sum of -log p, forward and backward), and the features (layers + 1, N, 2d), word by word."""
    whole = [tg.nn.Mark.BEGIN, *sentence, tg.nn.Mark.END]
    losses, states = [], []
    for s, net in ((whole, bilm.forward), (whole[::-1], bilm.backward)):
        xs = bilm.encoder(s[:-1])
        layers = [xs]
        for number, (cell,) in enumerate(net.cells):
            state, outputs = cell.initial_state(), []
            for x in layers[-1]:
                h, state = cell(x, state)
                outputs.append(h)
            outputs = tg.stack(outputs)
            layers.append(outputs + layers[-1] if number and residual else outputs)
        logits = (layers[-1] @ bilm.softmax.W + bilm.softmax.b).data
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        losses.append(-logp[np.arange(len(s) - 1), bilm.vocabulary.ids(s[1:])].sum())
        states.append([layer.data for layer in layers])
    features = [np.hstack([forward[1:], backward[::-1][:-1]]) for forward, backward in zip(*states, strict=True)]
    return losses, np.array(features)


@pytest.mark.parametrize("options", CELLS)
@pytest.mark.parametrize("kind", ["chars", "table"])
def test_losses_and_features_are_those_of_the_equations_word_by_word(kind, options):
    bilm = a_bilm(kind, **options)
    right = [by_hand(bilm, sentence, options.get("residual", True)) for sentence in SENTENCES]
    targets = sum(len(sentence) + 1 for sentence in SENTENCES)
    expected = np.array([losses for losses, _ in right]).sum(0) / targets
    np.testing.assert_allclose([x.item() for x in bilm.losses(SENTENCES)], expected, rtol=1e-12)
    assert bilm.loss(SENTENCES).item() == pytest.approx(expected.mean(), rel=1e-12)
    np.testing.assert_allclose(bilm.perplexity(SENTENCES, batch=2), np.exp(expected), rtol=1e-12)
    layers = bilm.layers(SENTENCES).data
    assert layers.shape == (bilm.depth, 7, 4, 10)
    for b, (_, features) in enumerate(right):
        N = len(SENTENCES[b])
        np.testing.assert_allclose(layers[:, :N, b], features, rtol=0, atol=1e-12)
        assert not layers[:, N:, b].any()


def test_the_token_layer_stands_twice_side_by_side():
    bilm = a_bilm()
    first, second = np.split(bilm.layers([["we", "train"]]).data[0, :, 0], 2, axis=-1)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, bilm.encoder(["we", "train"]).data, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["chars", "table"])
@given(sentence=sentences, others=st.lists(sentences, min_size=1, max_size=3), place=st.integers(0, 3))
@settings(max_examples=15)
def test_a_sentence_is_read_the_same_alone_and_beside_others(kind, sentence, others, place):
    bilm = a_bilm(kind, hidden=6, projection=5)
    elmo = tg.nn.Elmo(bilm, layer_norm=True)
    elmo.mixes[0].weights.data = np.array([0.1, -0.4, 0.7])
    batch = [*others[:place], sentence, *others[place:]]
    b, N = min(place, len(others)), len(sentence)
    for function in (bilm.layers, lambda batch: elmo(batch)[0][None]):
        alone, beside = function([sentence]).data[:, :, 0], function(batch).data[:, :, b]
        np.testing.assert_allclose(beside[:, :N], alone, rtol=0, atol=1e-12)
        assert not beside[:, N:].any()
    counts = np.array([len(s) + 1 for s in batch])
    each = np.array([[x.item() for x in bilm.losses([s])] for s in batch])
    np.testing.assert_allclose([x.item() for x in bilm.losses(batch)], counts @ each / counts.sum(), rtol=1e-12)


def test_words_are_encoded_once_however_often_they_stand_in_the_batch():
    bilm, asked = a_bilm(), []
    encode = bilm.encoder
    bilm.encoder = lambda words: asked.append(list(words)) or encode(words)
    bilm.loss([["we", "train", "we"], ["train"] * 5])
    assert [sorted(map(str, words)) for words in asked] == [["Mark.BEGIN", "Mark.END", "train", "we"]]


@given(st.lists(sentences, max_size=9), st.integers(1, 4))
def test_groups_hold_every_sentence_once_with_like_lengths(corpus, batch):
    groups = by_length(corpus, batch)
    assert sorted(i for group in groups for i in group) == list(range(len(corpus)))
    lengths = [len(corpus[i]) for group in groups for i in group]
    assert lengths == sorted(lengths) and all(0 < len(group) <= batch for group in groups)


# Frames --------------------------------------------------------------------------------------------------------------


words = st.sampled_from([*WORDS, "unheard"]) | st.text(max_size=4)
ragged = st.lists(st.lists(words, max_size=5), min_size=1, max_size=3)
BATCHES = [SENTENCES, [["é"], []], [["we", "train", "the", "models"]] * 3, [["in"] * 9, ["unheard", "of"], ["the"]]]


def loss_and_gradients(bilm, batch):
    bilm.zero_grad()
    loss = bilm.loss(batch)
    loss.backward()
    return [loss.data, *(x.grad for x in bilm.parameters())]


def shape_of(frame):
    return [array.shape for array in (*frame.words, *frame.inputs, frame.lengths, frame.at, *frame.targets)]


@pytest.mark.parametrize("kind", ["chars", "table"])
@pytest.mark.parametrize("options", CELLS)
@given(batches=st.lists(ragged, min_size=1, max_size=4), shapes=st.integers(1, 3))
@settings(max_examples=10)
def test_a_padded_frame_has_the_losses_and_the_gradients_of_its_sentences(kind, options, batches, shapes):
    bilm = a_bilm(kind, **options)
    frames = bilm.frames(batches, shapes)
    assert len({str(shape_of(frame)) for frame in frames}) <= shapes
    for batch, frame in zip(batches, frames, strict=True):
        np.testing.assert_allclose(
            [x.item() for x in bilm.losses(frame)], [x.item() for x in bilm.losses(batch)], rtol=1e-12
        )
        for padded, right in zip(loss_and_gradients(bilm, frame), loss_and_gradients(bilm, batch), strict=True):
            np.testing.assert_allclose(padded, right, rtol=0, atol=1e-12 * (1 + np.abs(right).max()))


@pytest.mark.parametrize("kind", ["chars", "table"])
def test_with_a_shape_for_each_batch_no_frame_is_padded(kind):
    bilm = a_bilm(kind, dtype=np.float32)
    for batch, frame in zip(BATCHES, bilm.frames(BATCHES, shapes=9), strict=True):
        for a, b in zip(loss_and_gradients(bilm, frame), loss_and_gradients(bilm, batch), strict=True):
            np.testing.assert_array_equal(a, b)


def test_batches_of_like_length_share_a_shape():
    of_length = lambda n: [["we"] * n, ["the"]]
    shapes = [shape_of(frame) for frame in a_bilm("table").frames([of_length(n) for n in (9, 2, 8, 3)], shapes=2)]
    assert shapes[0] == shapes[2] and shapes[1] == shapes[3]
    assert shapes[1] == [(4,), (4, 2), (4, 2), (2,), (6,), (6,), (6,)]  # steps, and predictions that can count


@pytest.mark.parametrize("kind", ["chars", "table"])
@pytest.mark.parametrize("options", CELLS)
def test_whatever_stands_at_padding_reaches_no_loss_and_no_gradient(kind, options):
    bilm, rng = a_bilm(kind, **options), np.random.default_rng(3)
    for batch, frame in zip(BATCHES, bilm.frames(BATCHES, shapes=1), strict=True):
        right = loss_and_gradients(bilm, frame)
        first, count = frame.words[0], len(placed(batch)[0])
        assert len(first) > count or batch is SENTENCES
        for array in frame.words:
            array[count:] = rng.integers(0, first.max() + 1, array[count:].shape)
        lengths = np.full(len(frame.lengths), -1)
        lengths[: len(batch)] = [len(sentence) for sentence in batch]
        padding = np.arange(len(frame.inputs.forward))[:, None] > lengths
        for places in frame.inputs:
            places[padding] = rng.integers(0, len(first), padding.sum())
        assert padding.any()
        for a, b in zip(loss_and_gradients(bilm, frame), right, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["chars", "table"])
@pytest.mark.parametrize("options", CELLS)
def test_a_replayed_frame_differs_from_the_frame_in_no_bit(kind, options):
    eager, bilm = (a_bilm(kind, dtype=np.float32, dropout=0.3, **options) for _ in range(2))
    frames = bilm.frames(BATCHES, shapes=2)
    step, programs = tg.replay(bilm.loss, wrt=bilm, programs=2), set()
    optimisers = [tg.optim.SGD(model.parameters(), 0.1) for model in (eager, bilm)]
    for frame in frames * 2:  # the masks of a second round are others, and so are the weights
        bilm.zero_grad()
        loss = step(frame)
        right = loss_and_gradients(eager, frame)
        for a, b in zip([loss.data, *(x.grad for x in bilm.parameters())], right, strict=True):
            assert a.tobytes() == b.tobytes()
        programs.add(step.program)
        for optimiser in optimisers:
            optimiser.step()
    assert len(programs) == 2  # no batch was recorded anew


def test_nothing_that_was_computed_while_a_replay_was_recorded_is_kept():
    bilm = a_bilm()

    def computed():
        gc.collect()
        return sum(isinstance(x, tg.Tensor) and x.operation is not None for x in gc.get_objects())

    before = computed()
    step = tg.replay(bilm.loss, wrt=bilm)
    for frame in bilm.frames(BATCHES):
        step(frame)
    assert computed() == before


@pytest.mark.parametrize("frozen", [True, False])
def test_a_task_reads_a_frame_as_its_sentences_and_can_be_replayed(frozen):
    elmo, rng = tg.nn.Elmo(a_bilm(), layer_norm=True, frozen=frozen), np.random.default_rng(1)
    if frozen:
        elmo.remember([["we"]])

    def loss_of(frame, cotangent):
        return (elmo(frame)[0] * cotangent).sum()

    step = tg.replay(loss_of, wrt=elmo)
    for batch, frame in zip(BATCHES, elmo.bilm.frames(BATCHES, shapes=1), strict=True):
        for function in (elmo.bilm.layers, lambda batch: elmo(batch)[0][None]):
            padded, right = function(frame).data, function(batch).data
            _, T, B, _ = right.shape
            np.testing.assert_allclose(padded[:, :T, :B], right, rtol=0, atol=1e-12)
            assert not padded[:, T:].any() and not padded[:, :, B:].any()
        cotangent = rng.standard_normal(padded.shape[1:])
        elmo.zero_grad()
        loss, right = step(frame, cotangent), loss_of(frame, cotangent)
        assert loss.data.tobytes() == right.data.tobytes()
        read = [x for path, x in elmo.named_parameters().items() if "softmax" not in path]
        for x, g in zip(read, tg.grad(right, read), strict=True):
            assert x.grad.tobytes() == g.tobytes()


def test_a_stateful_model_goes_on_from_the_sentences_and_not_from_the_padding_of_a_frame():
    padded, right = (a_bilm(stateful=True, cell="gru") for _ in range(2))
    batches = [[["we", "train", "models"], ["the"]], [["in"], []], [["arrived"] * 6, ["é"]], [["the"], ["we"]]]
    for batch, frame in zip(batches, padded.frames(batches, shapes=1), strict=True):
        for a, b in zip(loss_and_gradients(padded, frame), loss_and_gradients(right, batch), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_a_stateful_model_is_not_replayed():
    bilm = a_bilm(stateful=True)
    (frame,) = bilm.frames([SENTENCES])
    step = tg.replay(bilm.loss, wrt=bilm)
    with pytest.raises(RuntimeError, match="stateful=False"):
        step(frame)
    assert bilm._carried is None
    bilm.stateful = False
    step(frame)
    bilm.stateful = True
    with pytest.raises(RuntimeError, match="stateful=False"):
        step(frame)


class Lengths:
    """An encoder of one's own: a word is a row times its length."""

    width = 5

    def __init__(self):
        self.row = tg.Tensor(np.linspace(-1, 1, 5), requires_grad=True)

    def spell(self, words):
        return (np.array([[0.1 * len(getattr(word, "value", word))] for word in words]),)

    def rows(self, lengths):
        return lengths * self.row

    def __call__(self, words):
        return self.rows(*self.spell(words))


def test_an_encoder_of_ones_own_makes_frames_if_it_has_both_halves():
    bilm = a_bilm()
    bilm.encoder = Lengths()
    for batch, frame in zip(BATCHES, bilm.frames(BATCHES, shapes=1), strict=True):
        assert bilm.loss(frame).item() == pytest.approx(bilm.loss(batch).item(), rel=1e-12)
    bilm.encoder = Given(["we"], 5)
    with pytest.raises(TypeError, match="Given the methods spell"):
        bilm.frames(BATCHES)


# Nothing sees its target ---------------------------------------------------------------------------------------------


def sensitivities(predictions, rows):
    """|∂prediction_k / ∂row_j|, summed: which prediction depends on which word, by differentiation."""
    seen = np.zeros((len(predictions), len(rows)))
    rng = np.random.default_rng(5)
    for k, prediction in enumerate(predictions):
        seed = rng.standard_normal(prediction.shape)
        for j, g in enumerate(tg.grad(prediction, rows, seed=seed)):
            seen[k, j] = np.abs(g).sum()
    return seen


class Given:
    """An encoder that gives every word of one sentence a row of its own that a gradient can be asked of."""

    def __init__(self, words, width):
        rng = np.random.default_rng(2)
        self.width = width
        self.rows = {word: tg.Tensor(rng.standard_normal(width), requires_grad=True) for word in words}

    def __call__(self, words):
        return tg.stack([self.rows[word] for word in words])


@pytest.mark.parametrize("options", CELLS)
def test_no_prediction_depends_on_its_target_or_on_what_lies_beyond(options):
    words = ["we", "train", "the", "models"]
    s = [tg.nn.Mark.BEGIN, *words, tg.nn.Mark.END]
    bilm = a_bilm(encoder="table", **options)
    bilm.encoder = Given(s, 5)
    read = bilm._read(*bilm._framed([words]), stateful=False)
    whole = [bilm.encoder.rows[word] for word in s]
    forward = sensitivities([read[0][-1][k] for k in range(5)], whole)  # reads s[k] last, predicts s[k + 1]
    backward = sensitivities([read[1][-1][k] for k in range(5)], whole)  # reads s[5 - k] last, predicts s[4 - k]
    for k in range(5):
        np.testing.assert_array_equal(forward[k] > 0, np.arange(6) < k + 1)
        np.testing.assert_array_equal(backward[k] > 0, np.arange(6) > 4 - k)


@pytest.mark.parametrize("kind", ["chars", "table"])
@pytest.mark.parametrize("options", CELLS)
def test_visibility_shows_the_words_before_or_the_words_after_of_the_same_sentence(kind, options):
    bilm = a_bilm(kind, stateful=True, dropout=0.5, **options).freeze()
    batch = [["we", "train", "we", "unheard"], ["the"], []]
    with tg.no_grad():
        forward, backward = bilm.visibility(batch)
    assert bilm._carried is None
    sentence = np.repeat([0, 1, 2], [6, 3, 2])  # of each column: a word, or a mark
    place = np.concatenate([np.arange(6), np.arange(3), np.arange(2)])
    same = sentence[:, None] == sentence
    np.testing.assert_array_equal(forward, (same & (place < place[:, None]))[place > 0])
    last = np.array([5, 2, 1])[sentence]
    np.testing.assert_array_equal(backward, (same & (place > place[:, None]))[place < last])
    assert forward.labels[0] == ("we", "train", "we", "unheard", "</s>", "the", "</s>", "</s>")
    assert backward.labels[0] == ("<s>", "we", "train", "we", "unheard", "<s>", "the", "<s>")
    assert backward.labels[1][:6] == ("<s>", "we", "train", "we", "unheard", "</s>")


class Leaky(tg.nn.Module):
    """What must not be done: the features of a bidirectional LSTM predict the next word."""

    def __init__(self, k, d, rng):
        self.rows = tg.nn.Embedding(k, d, rng=rng)
        self.net = tg.nn.LSTM(d, d, bidirectional=True, rng=rng)
        self.softmax = tg.nn.Linear(2 * d, k, rng=rng)

    def __call__(self, ids):
        return self.predict(self.rows(ids))

    def predict(self, rows):
        return self.softmax(self.net(rows)[0])


def test_a_planted_leak_is_seen_on_the_graph():
    rows = tg.Tensor(np.random.default_rng(1).standard_normal((5, 4)), requires_grad=True)
    predictions = Leaky(6, 4, rng=0).predict(rows)  # prediction k is that of word k + 1
    seen = tg.Tape(predictions).visibility(predictions, rows)
    assert np.asarray(seen)[np.arange(4), np.arange(1, 5)].all()  # every word sees itself


def test_a_planted_leak_falls_below_the_entropy_and_an_honest_model_does_not():
    rng = np.random.default_rng(0)
    corpus = [list(letters) for letters in product("ab", repeat=4)]  # every letter is a fair coin
    floor = math.exp(4 * math.log(2) / 5)
    vocabulary = tg.nn.Vocabulary(["a", "b"])
    bilm = tg.nn.BiLM(tg.nn.WordEncoder(vocabulary, 6, rng=rng), vocabulary, hidden=6, layers=1, rng=rng)
    words, places, _ = placed(corpus)
    ids = vocabulary.ids(words)[places]
    leaky = Leaky(len(vocabulary), 6, rng)
    honest, dishonest = (tg.optim.Adam(model.parameters(), 0.05) for model in (bilm, leaky))
    for _ in range(60):
        honest.zero_grad(), dishonest.zero_grad()
        bilm.loss(corpus).backward()
        loss = tg.nn.cross_entropy(leaky(ids[:-1]), ids[1:])
        loss.backward()
        honest.step(), dishonest.step()
    for perplexity in bilm.perplexity(corpus):
        assert floor - 1e-9 < perplexity < 1.05 * floor
    assert math.exp(loss.item()) < 0.8 * floor


@given(st.sets(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=6), st.integers(0, 99))
@settings(max_examples=20)
def test_perplexity_is_never_below_the_entropy_of_the_text(grammar, seed):
    corpus = [list(sentence) for sentence in sorted(grammar)]  # each as likely as any other
    floor = math.exp(len(corpus) * math.log(len(corpus)) / sum(len(s) + 1 for s in corpus))
    vocabulary = tg.nn.Vocabulary(["a", "b", "c"])
    encoder = tg.nn.WordEncoder(vocabulary, 4, rng=seed)
    bilm = tg.nn.BiLM(encoder, vocabulary, hidden=4, layers=1, cell="rnn", rng=seed)
    adam = tg.optim.Adam(bilm.parameters(), 0.1)
    for _ in range(8):
        bilm.zero_grad()
        bilm.loss(corpus).backward()
        adam.step()
    assert min(bilm.perplexity(corpus)) >= floor * (1 - 1e-12)


# The mixture ---------------------------------------------------------------------------------------------------------


def test_the_mixture_of_1_2_6_by_1_2_5_eighths_twice_over_is_8_75():
    mix = tg.nn.ScalarMix(3)
    mix.weights.data, mix.gamma.data = np.array([0.0, math.log(2), math.log(5)]), 2.0
    layers = np.array([1.0, 2.0, 6.0]).reshape(3, 1, 1)
    y = mix(layers)
    y.sum().backward()
    assert y.item() == pytest.approx(8.75, abs=1e-14)
    assert mix.gamma.grad == pytest.approx(4.375, abs=1e-14)
    np.testing.assert_allclose(mix.weights.grad, [-0.84375, -1.1875, 2.03125], rtol=0, atol=1e-14)
    assert mix.table().rows[1] == ("1", mix.weights.data[1], 0.25, mix.weights.grad[1])
    assert str(mix.table()).splitlines()[-1].split() == ["γ", "2", "—", "4.375"]
    mix.weights.data = np.zeros(3)
    assert mix(layers).item() == pytest.approx(6, abs=1e-14)
    assert mix.penalty().item() == 0


def test_a_mixture_starts_as_the_average_and_can_be_kept_to_it_or_to_one_layer():
    layers = np.random.default_rng(0).standard_normal((3, 4, 2, 5))
    np.testing.assert_allclose(tg.nn.ScalarMix(3)(layers).data, layers.mean(0), atol=1e-15)
    top, average = tg.nn.ScalarMix(3, use=[-1]), tg.nn.ScalarMix(3, learn=False)
    np.testing.assert_array_equal(top(layers).data, layers[2])
    np.testing.assert_allclose(average(layers).data, layers.mean(0), atol=1e-15)
    assert not average.parameters() and average.gamma.item() == 1  # γ is fixed, too
    assert top.table().rows[0] == ("2", 0.0, 1.0, None)
    pair = tg.nn.ScalarMix(3, use=[0, 2])
    pair.weights.data = np.log([1.0, 3.0])
    np.testing.assert_allclose(pair(layers).data, layers[0] / 4 + layers[2] * 3 / 4, atol=1e-15)


def test_the_penalty_draws_weights_to_the_average():
    mix = tg.nn.ScalarMix(2)
    mix.weights.data = np.array([1.5, -2.0])
    mix.penalty().backward()
    assert mix.weights.grad.tolist() == [3.0, -4.0]


def test_padding_does_not_enter_the_layer_norm():
    mix = tg.nn.ScalarMix(1, layer_norm=True)
    layers = np.array([[1.0, 3.0], [99.0, 99.0]]).reshape(1, 2, 1, 2)
    y = mix(layers, real=np.array([[True], [False]])).data
    np.testing.assert_allclose(y[:, 0], [[-1.0, 1.0], [0.0, 0.0]], rtol=0, atol=1e-11)
    layers = np.array([[1.0, 3.0], [99.0, np.nan]]).reshape(1, 2, 1, 2)
    np.testing.assert_array_equal(mix(layers, real=np.array([[True], [False]])).data, y)


def test_layer_norm_is_over_the_words_and_features_of_each_sentence():
    rng = np.random.default_rng(7)
    layers, lengths = rng.standard_normal((2, 4, 3, 5)) * 3 + 2, [4, 2, 3]
    mix = tg.nn.ScalarMix(2, layer_norm=True)
    mix.weights.data, mix.gamma.data = np.array([0.3, -0.8]), -1.5
    y = mix(layers, np.arange(4)[:, None] < np.array(lengths)).data
    share = np.exp([0.3, -0.8]) / np.exp([0.3, -0.8]).sum()
    for b, N in enumerate(lengths):
        parts = [(x[:N, b] - x[:N, b].mean()) / x[:N, b].std() for x in layers]
        np.testing.assert_allclose(y[:N, b], -1.5 * (share[0] * parts[0] + share[1] * parts[1]), atol=1e-10)
        assert not y[N:, b].any()


def test_empty_sentences_alone_have_losses_and_no_features():
    bilm = a_bilm()
    assert bilm.layers([[], []]).shape == (3, 0, 2, 10)
    assert tg.nn.Elmo(bilm, layer_norm=True)([[]])[0].shape == (0, 1, 10)
    np.testing.assert_allclose([x.item() for x in bilm.losses([[]])], by_hand(bilm, [])[0], rtol=1e-12)


def test_an_empty_sentence_beside_a_full_one_is_zeros_in_the_layer_norm():
    (y,) = tg.nn.Elmo(a_bilm(), layer_norm=True)([["we"], []])
    assert not y.data[:, 1].any() and y.data[:, 0].any() and np.isfinite(y.data).all()


# States --------------------------------------------------------------------------------------------------------------


def test_the_same_batch_twice_gives_the_same_result_unless_stateful():
    batch = [["we", "train"], ["the"]]
    bilm = a_bilm()
    first = bilm.layers(batch).data
    np.testing.assert_array_equal(bilm.layers(batch).data, first)
    bilm.stateful = True
    np.testing.assert_array_equal(bilm.layers(batch).data, first)
    assert np.abs(bilm.layers(batch).data - first)[1:].max() > 1e-3
    bilm.reset()
    np.testing.assert_array_equal(bilm.layers(batch).data, first)
    bilm.stateful = False
    np.testing.assert_array_equal(bilm.layers(batch).data, first)


def test_a_short_sentence_goes_on_from_its_own_end():
    together, alone = (a_bilm(stateful=True) for _ in range(2))
    together.layers([["we", "train", "models"], ["the"]])
    alone.layers([["the"]])
    beside = together.layers([["in"], ["arrived"]]).data[:, :, 1]
    np.testing.assert_allclose(beside, alone.layers([["arrived"]]).data[:, :, 0], rtol=0, atol=1e-12)


def test_a_stateful_model_starts_where_it_ended_and_credit_stays_behind():
    bilm = a_bilm(stateful=True)
    bilm.loss([["we"]]).backward()
    ends = [net(bilm.encoder(words), None)[1] for net, words in (
        (bilm.forward, [tg.nn.Mark.BEGIN, "we"]), (bilm.backward, [tg.nn.Mark.END, "we"]))]  # fmt: skip
    bilm.zero_grad()
    second = bilm.losses([["train"]])
    (second[0] + second[1]).backward()  # nothing of the first batch is on this tape: it has been released
    for k, (net, words) in enumerate((
        (bilm.forward, [tg.nn.Mark.BEGIN, "train", tg.nn.Mark.END]),
        (bilm.backward, [tg.nn.Mark.END, "train", tg.nn.Mark.BEGIN]),
    )):  # fmt: skip
        outputs, _ = net(bilm.encoder(words[:-1]), ends[k])
        right = tg.nn.cross_entropy(bilm.softmax(outputs), VOCABULARY.ids(words[1:]))
        assert second[k].item() == pytest.approx(right.item(), rel=1e-12)
    assert not any("_carried" in path for path in bilm.state_dict())
    with pytest.raises(ValueError, match="1 sentences of its last batch, got 2"):
        bilm.loss([["we"], ["train"]])


# Frozen --------------------------------------------------------------------------------------------------------------


def test_no_graph_is_built_through_a_frozen_bilm():
    bilm, batch = a_bilm(), [["we", "train", "the", "models"] * 10] * 8

    def kept(function):
        gc.collect()
        tracemalloc.start()
        result = function(batch)
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return result, memory

    _, with_graph = kept(bilm.layers)
    elmo = tg.nn.Elmo(bilm)
    layers, without = kept(elmo.layers)
    assert layers.operation is None and not layers.requires_grad
    assert without < 3 * layers.data.nbytes < with_graph / 5
    (features,) = elmo(batch)
    assert {x.name for x in tg.Tape(features.sum()).leaves if x.requires_grad} == {"s", "gamma"}
    assert elmo.parameters() == elmo.mixes[0].parameters()
    with pytest.raises(ValueError, match="does not require a gradient"):
        tg.grad(features.sum(), bilm.softmax.W)


def test_training_a_task_leaves_a_frozen_bilm_in_evaluation_mode():
    bilm = a_bilm(dropout=0.5)
    task = tg.nn.Module()
    task.elmo, task.readout = tg.nn.Elmo(bilm, mixes=2, dropout=0.5, rng=0), tg.nn.Linear(10, 2, rng=0)
    task.train()
    first, second = task.elmo([["we", "train"]])
    assert (first.data == 0).any() and not np.array_equal(first.data, second.data)  # the task's own dropout draws
    np.testing.assert_array_equal(task.elmo.layers([["we"]]).data, task.elmo.layers([["we"]]).data)


def test_an_elmo_can_be_thawed():
    elmo = tg.nn.Elmo(a_bilm())
    elmo.remember([["we"]])
    assert elmo.frozen and not elmo.layers([["we"]]).requires_grad
    elmo.bilm.freeze(False)
    assert not elmo.frozen and elmo.layers([["we"]]).requires_grad  # what was remembered carries no gradient


def test_an_unfrozen_elmo_sends_gradients_to_every_parameter_it_reads():
    bilm = a_bilm()
    elmo = tg.nn.Elmo(bilm, frozen=False)
    (elmo([["we", "train", "unheard"]])[0] * np.random.default_rng(0).standard_normal((3, 1, 10))).sum().backward()
    without = [path for path, x in elmo.named_parameters().items() if x.grad is None or not x.grad.any()]
    assert without == ["bilm.softmax.W", "bilm.softmax.b"]


def test_remembered_sentences_are_computed_once():
    corpus = [["we", "train"], ["the"], ["we", "train"], ["in", "the", "models"]]
    elmo = tg.nn.Elmo(a_bilm(dtype=np.float32), layer_norm=True)
    (right,) = elmo(corpus)
    elmo.remember(corpus, batch=2)
    elmo.bilm.encoder.spell = None  # whoever computes now, fails
    (found,) = elmo(corpus)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.data, right.data, rtol=0, atol=1e-5)
    with pytest.raises(TypeError):
        elmo([["unheard"]])
    elmo.forget()
    with pytest.raises(TypeError):
        elmo(corpus)
    del elmo.bilm.encoder.spell
    elmo(corpus)


def test_what_is_remembered_is_forgotten_when_the_weights_change():
    elmo, other = (tg.nn.Elmo(a_bilm(seed=seed)) for seed in (0, 1))
    corpus = [["we", "train"], ["the"]]
    elmo.remember(corpus)
    elmo.bilm.load_state_dict(other.bilm.state_dict())
    np.testing.assert_array_equal(elmo.layers(corpus).data, other.layers(corpus).data)
    elmo.remember(corpus)  # anew
    cell = elmo.bilm.backward.cells[0][0]
    cell.b.data = cell.b.data + 1
    np.testing.assert_array_equal(elmo.layers(corpus).data, elmo.bilm.layers(corpus).data)
    assert np.abs(elmo.layers(corpus).data - other.layers(corpus).data).max() > 1e-3
    elmo.remember(corpus)
    elmo.bilm.encoder = other.bilm.encoder
    elmo.bilm.encoder.projection.b.data = np.ones(5)
    np.testing.assert_array_equal(elmo.layers(corpus).data, elmo.bilm.layers(corpus).data)


@pytest.mark.parametrize("change", ["load", "data", "train"])
def test_what_was_remembered_is_forgotten_where_the_weights_have_changed(change):
    corpus = [["we", "train"], ["the"]]
    elmo, other = tg.nn.Elmo(a_bilm()), a_bilm()
    elmo.remember(corpus)
    softmax = elmo.bilm.softmax.W
    if change == "load":
        other.softmax.b.data = other.softmax.b.data + 1
        for x in other.tensors().values():
            x.data = x.data * 1.5
        elmo.bilm.load_state_dict(other.state_dict())
    elif change == "data":
        net = elmo.bilm.forward.cells[0][0]
        net.A.data = net.A.data * 2
    else:
        elmo.bilm.freeze(False)
        elmo.bilm.loss(corpus).backward()
        tg.optim.SGD(elmo.bilm, 0.5).step()
        elmo.bilm.freeze()
    (found,) = elmo(corpus)
    elmo.forget()
    (right,) = elmo(corpus)
    np.testing.assert_array_equal(found.data, right.data)
    assert softmax is elmo.bilm.softmax.W


def test_a_saved_bilm_gives_the_same_features_to_the_bit(tmp_path):
    bilm = a_bilm(dtype=np.float32)
    tg.save(tmp_path / "bilm.npz", bilm=bilm, words=bilm.vocabulary.text)
    vocabulary = tg.nn.Vocabulary.read(str(tg.load(tmp_path / "bilm.npz")["words"]))
    encoder = tg.nn.CharEncoder(5, filters=((1, 3), (3, 4)), embedding=3, highways=1, dtype=np.float32)
    other = tg.nn.BiLM(encoder, vocabulary, hidden=5, dtype=np.float32)
    tg.load(tmp_path / "bilm.npz", bilm=other, words="")
    np.testing.assert_array_equal(other.layers(SENTENCES).data, bilm.layers(SENTENCES).data)
    assert other.loss(SENTENCES).item() == bilm.loss(SENTENCES).item()


# The rest ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [CELLS[0], CELLS[2] | {"layers": 2}])
def test_gradients_through_the_whole_encoder(options):
    bilm = a_bilm(**options)
    elmo = tg.nn.Elmo(bilm, layer_norm=True, frozen=False)
    elmo.mixes[0].weights.data = np.array([0.2, -0.5, 0.4])
    batch = [["we", "train"], ["unheard"]]
    check_grads(lambda: (bilm.loss(batch), *elmo(batch)), parameters=elmo.parameters(), entries=4)


def test_float32_stays_float32():
    bilm = a_bilm(dtype=np.float32, dropout=0.2)
    loss = bilm.loss(SENTENCES)
    loss.backward()
    elmo = tg.nn.Elmo(bilm, layer_norm=True)
    assert loss.dtype == elmo(SENTENCES)[0].dtype == np.float32
    assert all(x.dtype == np.float32 for x in tg.Tape(a_bilm(dtype=np.float32, dropout=0.2).loss(SENTENCES)))


def test_dropout_draws_in_training_only_and_perplexity_restores_the_mode():
    bilm = a_bilm(dropout=0.5)
    batch = [["we", "train", "the", "models"]]
    assert bilm.loss(batch).item() != bilm.loss(batch).item()
    assert bilm.perplexity(batch) == bilm.perplexity(batch)
    assert bilm.training and bilm.dropout.training
    bilm.eval()
    assert bilm.loss(batch).item() == bilm.loss(batch).item()


def test_dropout_is_on_the_input_of_every_layer_and_of_the_softmax():
    bilm = a_bilm(dropout=1.0)
    layers = bilm.layers([["we", "train"], ["the", "in"]]).data
    assert layers[0].any() and (layers[0, :, 0] != layers[0, :, 1]).any()
    np.testing.assert_array_equal(layers[1:, :, 0], layers[1:, :, 1])  # no word has got through
    b = bilm.softmax.b.data
    right = np.log(np.exp(b).sum()) - b[VOCABULARY.ids(["we", tg.nn.Mark.END])].mean()
    assert bilm.losses([["we"]]).forward.item() == pytest.approx(right, rel=1e-12)


def test_equal_seeds_build_equal_models_with_distinct_directions():
    first, second = (a_bilm(seed=4).state_dict() for _ in range(2))
    assert all(np.array_equal(first[path], second[path]) for path in first)
    assert not np.array_equal(first["forward.cells.0.0.A"], first["backward.cells.0.0.A"])


def remembering(corpus):
    elmo = tg.nn.Elmo(a_bilm())
    elmo.remember(corpus)
    return elmo


def test_weights_stand_in_the_scope_of_their_direction_and_layer_as_activations_do():
    bilm = a_bilm()
    loss = bilm.loss([["we", "train"]])
    for name, net in (("forward", bilm.forward), ("backward", bilm.backward)):
        assert [cell.A.scope for (cell,) in net.cells] == [f"{name}.layer0", f"{name}.layer1"]
    assert {x.scope for x in tg.Tape(loss) if x.name == "h"} == {
        f"{name}.layer{k}" for name in ("forward", "backward") for k in (0, 1)
    }


BAD_INPUT = {
    "a sentence as a string": (lambda: a_bilm().loss(["the train"]), TypeError, "split it first"),
    "a batch as a string": (lambda: a_bilm().loss("the train"), TypeError, "list of sentences"),
    "no sentence": (lambda: a_bilm().layers([]), ValueError, "at least one sentence"),
    "ids for words": (lambda: a_bilm().loss([[1, 2]]), TypeError, "a word is a str"),
    "an id out of range": (lambda: VOCABULARY.words([11]), IndexError, r"0\.\.10"),
    "a word twice": (lambda: tg.nn.Vocabulary(["a", "a"]), ValueError, "more than once"),
    "a word of two lines": (lambda: tg.nn.Vocabulary(["a\nb"]), ValueError, "one line"),
    "a mix of too few": (lambda: tg.nn.ScalarMix(3)(np.ones((2, 4, 5))), ValueError, "takes 3 layers"),
    "a mask of another shape": (lambda: tg.nn.ScalarMix(1)(np.ones((1, 4, 5)), np.ones(3)), ValueError, r"\(4,\)"),
    "a mix of no layer": (lambda: tg.nn.ScalarMix(3, use=[]), ValueError, "at least one layer"),
    "a layer that is not there": (lambda: tg.nn.ScalarMix(3, use=[3]), IndexError, "out of range"),
    "mixes of another depth": (
        lambda: tg.nn.Elmo(a_bilm(), [tg.nn.ScalarMix(2)]), ValueError, "has 3 layers .* takes 2"),
    "widths that differ": (lambda: a_bilm(hidden=6), ValueError, "projection=5"),
    "a projected GRU": (lambda: a_bilm(cell="gru", projection=5), ValueError, "only the LSTM"),
    "a cell of another kind": (lambda: a_bilm(cell="transformer"), ValueError, "lstm, gru, rnn"),
    "a text for a vocabulary": (lambda: tg.nn.Vocabulary("the cat"), TypeError, "got the string 'the cat': split it"),
    "texts to count words in": (lambda: tg.nn.Vocabulary.of(["the cat"]), TypeError, "the string 'the cat'"),
    "a text to count words in": (lambda: tg.nn.Vocabulary.of("the cat"), TypeError, "the string 'the cat'"),
    "a long text": (lambda: tg.nn.Vocabulary.of(["a" * 999]), TypeError, "'a{40}'…: split it first"),
    "the numbers of a text": (lambda: VOCABULARY.ids("train"), TypeError, r"write \['train'\] for one word"),
    "the rows of a text": (lambda: a_bilm().encoder("key"), TypeError, "got the string 'key'"),
    "the rows of a text in a table": (lambda: a_bilm("table").encoder("key"), TypeError, "got the string 'key'"),
    "memory of texts": (lambda: tg.nn.Elmo(a_bilm()).remember(["ab"]), TypeError, "sentence 0 is a str: split it"),
    "texts beside a memory": (lambda: remembering([["a", "b"]])(["ab"]), TypeError, "sentence 0 is a str: split it"),
    "the perplexity of texts": (lambda: a_bilm().perplexity(["we train"]), TypeError, "sentence 0 is a str"),
    "an activation of another kind": (lambda: tg.nn.CharEncoder(3, activation="elu"), ValueError, "relu, tanh; got"),
    "filters for another width": (lambda: tg.nn.CharEncoder(3, projection=False), ValueError, "176; got 3"),
    "no filters": (lambda: tg.nn.CharEncoder(3, filters=()), ValueError, "filters"),
    "words without room": (lambda: tg.nn.CharEncoder(3, longest=2), ValueError, "needs longest .* >= 3, got 2"),
    "the perplexity of nothing": (lambda: a_bilm().perplexity([]), ValueError, "at least one sentence"),
    "frames of no batch": (lambda: a_bilm().frames([]), ValueError, "at least one batch"),
    "frames of no shape": (lambda: a_bilm().frames([[["we"]]], shapes=0), ValueError, "shapes=0"),
    "frames of a batch": (lambda: a_bilm().frames([["we", "train"]]), TypeError, "split it first"),
    "an empty batch size": (lambda: a_bilm().perplexity([["we"]], batch=0), ValueError, "at least one"),
    "memory of what changes": (lambda: tg.nn.Elmo(a_bilm(), frozen=False).remember([]), ValueError, "frozen"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_INPUT)
def test_bad_input_is_named(what):
    function, error, message = BAD_INPUT[what]
    with pytest.raises(error, match=message):
        function()


# The examples and the page -------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]


def test_every_block_of_the_page_on_elmo_shows_what_it_prints():
    page = (ROOT / "docs" / "elmo.md").read_text(encoding="utf-8")  # that it is true: see test_documentation
    assert page.count("\n```\n```text\n") == page.count("```python") > 6


def example(name):
    return SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / f"{name}.py")))


def test_nobody_can_beat_the_ceilings_of_the_two_senses():
    """By enumeration: what the commoner sense is, given what a reader has seen of a sentence."""
    senses = example("word_senses")
    asked = [row for row in senses.language() if row[0][row[1]] in senses.AMBIGUOUS]
    assert len({tuple(words) for words, *_ in senses.language()}) == 320

    def best(read):
        seen = defaultdict(Counter)
        for words, place, sense, _ in asked:
            seen[read(words, place)][sense] += 1
        return sum(max(counts.values()) for counts in seen.values()) / len(asked)

    assert best(lambda words, place: words[place]) == 0.5
    assert best(lambda words, place: tuple(words[: place + 1])) == 0.75
    assert best(lambda words, place: tuple(words[place:])) == 0.75
    assert best(lambda words, place: tuple(words)) == 1.0
    for first in (True, False):  # the halves share no clue, and every word has both senses equally often in each
        counts = Counter((words[place], sense) for words, place, sense, part in asked if part == first)
        assert set(counts.values()) == {8}


PAGE = """The "if" statement
******************

The "if" word, if marked, is code:

   if x:
       pass

* an item is English, for example *this* one;

   and this goes on, with "x in y" inside.

if_stmt ::= "if" suite

object.__len__(self)
"""


def test_the_marks_of_the_manual_become_labels_and_vanish():
    elmo = example("elmo")
    bodies = list(elmo.paragraphs(PAGE))
    assert bodies == [
        'The "if" statement',
        'The "if" word, if marked, is code:',
        "an item is English, for example this one;",
        'and this goes on, with "x in y" inside.',
    ]
    ((words, marked),) = elmo.sentences(bodies[3])
    assert words == ("and", "this", "goes", "on", ",", "with", "x", "in", "y", "inside", ".")
    assert [word for word, code in zip(words, marked, strict=True) if code] == ["x", "in", "y"]
    first, second = elmo.sentences('It is "so". Then not.')
    assert first == (("It", "is", "so", "."), (False, False, True, False))
    assert second[0] == ("Then", "not", ".")


def test_the_task_has_no_topic_on_both_sides_and_words_alone_say_nothing():
    elmo = example("elmo")
    manual = elmo.read_manual()
    assert not any('"' in word for sentence in manual for word in sentence.words)
    occurrences = elmo.find_occurrences(manual)
    fold = elmo.draw_folds(manual, occurrences, seed=1)
    assert set(fold) == {sentence.topic for sentence in manual}
    parts = [occurrences.code[[fold[t] == k for t in occurrences.topic.tolist()]].sum() for k in range(elmo.FOLDS)]
    assert min(parts) > 0.5 * max(parts)
    weights = elmo.balanced(occurrences, np.arange(len(occurrences.code)))
    assert weights.sum() == pytest.approx(1)
    for word in range(len(elmo.KEYWORDS)):
        mine = occurrences.word == word
        code, english = (weights[mine & (occurrences.code == reading)].sum() for reading in (True, False))
        assert code == pytest.approx(english)


def test_the_example_tells_a_keyword_from_a_word_where_the_sentence_does():
    elmo = example("elmo")
    rng = np.random.default_rng(0)
    code = np.tile([True, False], 60)
    topics, words = np.array(list("abcdef") * 20), np.repeat(np.arange(4), 30)
    occurrences = elmo.Occurrences(np.arange(120), np.zeros(120, int), words, topics, code)
    fold = {topic: k % elmo.FOLDS for k, topic in enumerate("abcdef")}
    told = rng.standard_normal((2, 120, 5)).astype(np.float32)
    told[1, :, 2] += np.where(code, 3, -3)
    untold = rng.standard_normal((2, 120, 5)).astype(np.float32)
    found, mix = elmo.out_of_fold(lambda x: x, [told] * elmo.FOLDS, occurrences, fold)
    assert found > 0.95 and mix.weights.data[1] > mix.weights.data[0]
    assert elmo.out_of_fold(lambda x: x, [untold] * elmo.FOLDS, occurrences, fold)[0] < 0.75


def test_the_example_learns_the_same_to_the_last_bit_with_and_without_replay(capsys):
    elmo = example("elmo")
    text = [sentence.words for sentence in elmo.read_manual()[:40]]
    (replayed, _), (unrolled, _) = (elmo.pretrain(text, seed=1, epochs=2, replay=replay) for replay in (True, False))
    again, once = replayed.state_dict(), unrolled.state_dict()
    assert all(again[path].tobytes() == once[path].tobytes() for path in once)
    first, second = capsys.readouterr().out.split("pretraining 1: ")[1:]
    assert re.findall("perplexity +[0-9.]+", first) == re.findall("perplexity +[0-9.]+", second)
    assert "times as fast" in first and "times as fast" not in second
