"""Published ELMo weights against the published equations, written here word by word in plain NumPy, and against the
activations that the published code has recorded (in the folder that ELMO_FIXTURE names)."""

import copy
import json
import os
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg

FIXTURE = Path(os.environ.get("ELMO_FIXTURE", ""))
recorded = pytest.mark.skipif(
    "ELMO_FIXTURE" not in os.environ,
    reason="set ELMO_FIXTURE to AllenNLP's folder of fixtures for ELMo (options.json, lm_weights.hdf5, sentences.json, "
    "lm_embeddings_0..2.hdf5, vocab_test.txt, elmo_token_embeddings.hdf5), and install the extra: "
    "pip install 'tinygrad-seq[elmo]'",
)

OPTIONS = {
    "lstm": {
        "use_skip_connections": True, "projection_dim": 3, "cell_clip": 0.4, "proj_clip": 0.3, "dim": 5, "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu", "filters": [[1, 2], [3, 4]], "n_highway": 2, "embedding": {"dim": 2},
        "n_characters": 262, "max_characters_per_token": 12,
    },
}  # fmt: skip
BATCHES = [
    [["the", "<S>", "schlüssel", ""], ["we"]],
    [["train"], ["é" * 30, "in"], ["</S>", "<UNK>", "models"]],
    [["the", "trains", "arrived"]],
    [["we"], ["x" * 9, "x" * 10, "x" * 11], ["<s>"], ["\ud800y"]],
]


def options(lstm=(), char_cnn=()):
    """The options above, with these changes; None takes an entry away."""
    changed = copy.deepcopy(OPTIONS)
    for section, changes in (("lstm", lstm), ("char_cnn", char_cnn)):
        changed[section] |= dict(changes)
        changed[section] = {key: value for key, value in changed[section].items() if value is not None}
    return changed


def random_weights(options, seed=0, dtype=np.float32):
    """Arrays by the names and shapes that the published code has for these options."""
    lstm, cnn = options["lstm"], options["char_cnn"]
    e, p, d = cnn["embedding"]["dim"], lstm["projection_dim"], lstm["dim"]
    channels = sum(count for _, count in cnn["filters"])
    shapes = {"char_embed": (261, e)}
    for i, (k, count) in enumerate(cnn["filters"]):
        shapes |= {f"CNN/W_cnn_{i}": (1, k, e, count), f"CNN/b_cnn_{i}": (count,)}
    for i in range(cnn.get("n_highway", 0)):
        for what in ("carry", "transform"):
            shapes |= {f"CNN_high_{i}/W_{what}": (channels, channels), f"CNN_high_{i}/b_{what}": (channels,)}
    if channels != p:
        shapes |= {"CNN_proj/W_proj": (channels, p), "CNN_proj/b_proj": (p,)}
    for k in range(2):
        for layer in range(lstm.get("n_layers", 1)):
            at = f"RNN_{k}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{at}/W_0": (2 * p, 4 * d), f"{at}/B": (4 * d,)}
            if d != p:
                shapes[f"{at}/W_P_0"] = (d, p)
    rng = np.random.default_rng(seed)
    return {name: (0.7 * rng.standard_normal(shape)).astype(dtype) for name, shape in shapes.items()}


# The published equations ---------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def row_of(word, options, w):
    """The token layer: a word of bytes, filled up, one window after the other."""
    cnn = options["char_cnn"]
    longest = cnn["max_characters_per_token"]
    if word in ("<S>", "</S>"):
        inner = [256 if word == "<S>" else 257]
    else:
        inner = list(word.encode("utf-8", "ignore")[: longest - 2])
    symbols = [258, *inner, 259]
    x = w["char_embed"][symbols + [260] * (longest - len(symbols))]
    found = []
    for i, (k, _) in enumerate(cnn["filters"]):
        W, b = w[f"CNN/W_cnn_{i}"][0], w[f"CNN/b_cnn_{i}"]
        found.append(np.max([np.einsum("ke,kec->c", x[p : p + k], W) + b for p in range(longest - k + 1)], axis=0))
    x = np.concatenate(found)
    x = np.tanh(x) if cnn["activation"] == "tanh" else np.maximum(x, 0)
    for i in range(cnn.get("n_highway", 0)):
        at = f"CNN_high_{i}"
        carry = sigmoid(x @ w[f"{at}/W_carry"] + w[f"{at}/b_carry"])
        x = carry * np.maximum(x @ w[f"{at}/W_transform"] + w[f"{at}/b_transform"], 0) + (1 - carry) * x
    return x @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"] if "CNN_proj/W_proj" in w else x


def layers_by_hand(batches, options, weights, stateful=False, marks=False):
    """For each batch, for each sentence the layers (layers + 1, N, 2d), as bilm-tf computes them."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    lstm, states = options["lstm"], {}
    bound = lambda x, key: x if lstm.get(key) is None else np.clip(x, -lstm[key], lstm[key])
    results = []
    for batch in batches:
        results.append([])
        states = states if stateful else {}
        for b, sentence in enumerate(batch):
            rows = np.array([row_of(word, options, w) for word in ["<S>", *sentence, "</S>"]])
            directions = []
            for k, order in enumerate((slice(None), slice(None, None, -1))):
                layers = [rows[order]]
                for layer in range(lstm.get("n_layers", 1)):
                    at = f"RNN_{k}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                    P = w.get(f"{at}/W_P_0", np.eye(lstm["dim"]))
                    h, c = states.get((b, k, layer), (np.zeros(P.shape[1]), np.zeros(lstm["dim"])))
                    outputs = []
                    for x in layers[-1]:
                        i, j, f, o = np.split(np.concatenate([x, h]) @ w[f"{at}/W_0"] + w[f"{at}/B"], 4)
                        c = bound(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), "cell_clip")
                        h = sigmoid(o) * np.tanh(c) @ P
                        h = bound(h, "proj_clip") if f"{at}/W_P_0" in w else h
                        outputs.append(h)
                    states[b, k, layer] = h, c
                    outputs = np.array(outputs)
                    layers.append(outputs + layers[-1] if layer and lstm["use_skip_connections"] else outputs)
                directions.append(np.array(layers)[:, order])
            whole = np.concatenate(directions, -1)
            results[-1].append(whole if marks else whole[:, 1:-1])
    return results


KINDS = {
    "the usual": options(),
    "one highway, tanh, three layers": options({"n_layers": 3}, {"n_highway": 1, "activation": "tanh"}),
    "no highway, no clips": options({"cell_clip": None, "proj_clip": None}, {"n_highway": None}),
    "no skip connections, one layer": options({"use_skip_connections": False, "n_layers": None}),
    "an encoder without a projection": options({"projection_dim": 6, "dim": 7}),
    "an LSTM without a projection": options({"dim": 3}),
}


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_published_weights_give_the_layers_of_the_published_equations(kind, stateful):
    """In batches of another size each, of words that are longer than a word may be, empty, and marks."""
    options = KINDS[kind]
    weights = random_weights(options)
    bilm = tg.nn.BiLM.published(options, weights, dtype=np.float64, stateful=stateful)
    for marks in (False, True):
        bilm.reset()
        right = layers_by_hand(BATCHES, options, weights, stateful, marks)
        for batch, expected in zip(BATCHES, right, strict=True):
            layers = bilm.layers(batch, marks).data
            for b, layers_of_one in enumerate(expected):
                N = layers_of_one.shape[1]
                np.testing.assert_allclose(layers[:, :N, b], layers_of_one, rtol=0, atol=1e-12)
                assert not layers[:, N:, b].any()


def test_the_values_of_a_small_model_stay_what_they_were():
    bilm = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS, seed=5), dtype=np.float64)
    found = bilm.layers([["we", "train", "schlüssel"]]).data[:, 1, 0]
    np.testing.assert_allclose(found, RECORDED, rtol=0, atol=1e-12)


RECORDED = [
    [0.10120387990470658, 0.6980126514483851, 2.904677460114393] * 2,
    [
        -0.28655108098572566,
        0.1350572909286352,
        -0.1625491600451075,
        0.1506455603256737,
        0.1237629928171636,
        -0.0908733626374015,
    ],
    [
        0.01344891901427434,
        -0.1555986701489164,
        -0.3823102397563809,
        0.2143277888437788,
        0.1153927135145693,
        -0.3908733626374015,
    ],
]


@given(length=st.integers(0, 60), first=st.sampled_from(["", "é", "x", "雨"]))
@settings(max_examples=20)
def test_a_long_word_is_cut_between_its_bytes(length, first):
    weights = random_weights(OPTIONS)
    encoder = tg.nn.BiLM.published(OPTIONS, weights, dtype=np.float64).encoder
    words = [first + "é" * length, (first + "a" * length), first * length]
    w = {name: array.astype(float) for name, array in weights.items()}
    np.testing.assert_allclose(encoder(words).data, [row_of(word, OPTIONS, w) for word in words], rtol=0, atol=1e-12)


def test_the_strings_of_the_marks_are_the_marks_and_no_other_string_is():
    encoder = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS)).encoder
    begin, end, unknown = encoder([*tg.nn.Mark]).data
    rows = encoder(["<S>", "</S>", "<UNK>", "<s>", "</s>"]).data
    np.testing.assert_allclose(rows[:3], [begin, end, unknown], rtol=0, atol=1e-6)
    assert np.abs(rows[3:] - rows[:2]).max(1).min() > 1e-3


def test_the_padding_of_a_word_learns_and_its_windows_count():
    encoder = tg.nn.CharEncoder(3, filters=((2, 40),), embedding=3, padded=True, longest=9, rng=0)
    encoder(["a"]).square().sum().backward()
    assert encoder.symbols.table.shape == (261, 3) and encoder.symbols.table.grad[0].any()


@given(words=st.lists(st.text(max_size=12), min_size=1, max_size=6), more=st.lists(st.text(max_size=70), max_size=4))
def test_a_row_does_not_depend_on_the_words_beside_it_though_all_are_filled_up(words, more):
    encoder = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS), dtype=np.float64).encoder
    together = encoder([*words, *more]).data
    for word, row in zip(words, together, strict=False):
        np.testing.assert_allclose(encoder([word]).data[0], row, rtol=0, atol=1e-12)


def test_gradients_are_those_of_all_windows_also_where_those_of_padding_win():
    """One window of padding stands for all; written out, they share what it gets."""
    rng = np.random.default_rng(4)
    encoder = tg.nn.CharEncoder(3, filters=((1, 4), (3, 5)), embedding=2, padded=True, longest=11, rng=rng)
    words, cotangent = ["a", "key", "", "x" * 30], rng.standard_normal((4, 3))
    ids, counts = encoder.spell(words)
    whole = np.zeros((4, 11), int)
    whole[:, : ids.shape[1]] = ids
    grads = [
        tg.grad((encoder.rows(symbols, counts) * cotangent).sum(), encoder.parameters()) for symbols in (ids, whole)
    ]
    assert encoder.spell(["key"])[0].shape[1] < 11
    for short, full in zip(*grads, strict=True):
        np.testing.assert_allclose(short, full, rtol=0, atol=1e-13)


def test_frames_of_published_weights_are_their_sentences():
    bilm = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS), dtype=np.float64)
    elmo = tg.nn.Elmo(bilm, [tg.nn.ScalarMix(3, norm) for norm in (False, "sentence", "batch")], keep_marks=True)
    for batch, frame in zip(BATCHES, bilm.frames(BATCHES, shapes=1), strict=True):
        for marks in (False, True):
            right, found = bilm.layers(batch, marks).data, bilm.layers(frame, marks).data
            _, T, B, _ = right.shape
            np.testing.assert_allclose(found[:, :T, :B], right, rtol=0, atol=1e-12)
            assert not found[:, T:].any() and not found[:, :, B:].any()
        for right, found in zip(elmo(batch), elmo(frame), strict=True):  # what fills up enters no mean and no variance
            T, B, _ = right.shape
            np.testing.assert_allclose(found.data[:T, :B], right.data, rtol=0, atol=1e-12)
            assert not found.data[T:].any() and not found.data[:, B:].any()


def test_a_stateful_frame_leaves_the_rows_that_only_fill_it_up_where_they_were():
    padded, right = (
        tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS), dtype=np.float64, stateful=True) for _ in range(2)
    )
    for batch, frame in zip(BATCHES, padded.frames(BATCHES, shapes=1), strict=True):
        expected, found = right.layers(batch).data, padded.layers(frame).data
        _, T, B, _ = expected.shape
        np.testing.assert_allclose(found[:, :T, :B], expected, rtol=0, atol=1e-12)


# With the recorded activations ---------------------------------------------------------------------------------------


def read(name):
    h5py = pytest.importorskip("h5py", reason="reading the fixture needs h5py: pip install 'tinygrad-seq[elmo]'")
    found = {}
    with h5py.File(FIXTURE / name, "r") as file:
        file.visititems(lambda path, item: found.update({path: item[...]} if isinstance(item, h5py.Dataset) else {}))
    return found


def recorded_batches():
    lists = json.loads((FIXTURE / "sentences.json").read_text(encoding="utf-8"))
    return [[text.split() for text in batch] for batch in zip(*lists, strict=True)]


@recorded
def test_thirty_sentences_have_the_recorded_activations():
    """The top layer as the original recorded it, batch after batch with the state carried on; all three layers as its
    equations have them."""
    batches, recordings = recorded_batches(), [read(f"lm_embeddings_{k}.hdf5") for k in range(3)]
    bilm = tg.nn.BiLM.published(FIXTURE / "options.json", FIXTURE / "lm_weights.hdf5", stateful=True)
    told = json.loads((FIXTURE / "options.json").read_text(encoding="utf-8"))
    by_hand = layers_by_hand(batches, told, read("lm_weights.hdf5"), stateful=True)
    for i, batch in enumerate(batches):
        layers = bilm.layers(batch).data
        for b, sentence in enumerate(batch):
            mine, top = layers[:, : len(sentence), b], recordings[b][str(i)]
            np.testing.assert_allclose(mine[-1], np.concatenate(top, -1), rtol=0, atol=2e-6)
            np.testing.assert_allclose(mine, by_hand[i][b], rtol=0, atol=2e-6)


@recorded
def test_every_word_has_its_recorded_row():
    words = (FIXTURE / "vocab_test.txt").read_text(encoding="utf-8").split("\n")
    rows = tg.nn.BiLM.published(FIXTURE / "options.json", FIXTURE / "lm_weights.hdf5").encoder(words).data
    assert len(words) == 458
    np.testing.assert_allclose(rows, read("elmo_token_embeddings.hdf5")["embedding"], rtol=0, atol=2e-6)


@recorded
def test_a_long_word_of_the_fixture_is_cut_between_its_bytes():
    told, w = json.loads((FIXTURE / "options.json").read_text(encoding="utf-8")), read("lm_weights.hdf5")
    encoder = tg.nn.BiLM.published(told, w).encoder
    words = ["", "é" * 24, "x" + "é" * 24, *("a" * n for n in range(46, 61)), *("b" * n + "é" for n in range(44, 52))]
    right = [row_of(word, told, {name: array.astype(float) for name, array in w.items()}) for word in words]
    np.testing.assert_allclose(encoder(words).data, right, rtol=0, atol=2e-6)


@recorded
def test_the_fixture_comes_back_to_the_last_bit():
    bilm = tg.nn.BiLM.published(FIXTURE / "options.json", FIXTURE / "lm_weights.hdf5")
    given, back = read("lm_weights.hdf5"), bilm.to_published()
    assert given.keys() == back.keys()
    assert all(given[name].tobytes() == array.tobytes() for name, array in back.items())
    assert bilm.published_options() == json.loads((FIXTURE / "options.json").read_text(encoding="utf-8"))


# In and out ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_published_weights_come_back_to_the_last_bit(kind, dtype):
    weights = random_weights(KINDS[kind], dtype=dtype)
    weights["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"][:] = np.linspace(-1.3, 1e-9, len(next(
        array for name, array in weights.items() if name.endswith("/B"))))  # fmt: skip
    bilm = tg.nn.BiLM.published(KINDS[kind], weights, dtype=dtype)
    back = bilm.to_published()
    assert weights.keys() == back.keys()
    assert all(weights[name].tobytes() == back[name].tobytes() for name in weights)
    again = tg.nn.BiLM.published(bilm.published_options(), back, dtype=dtype)
    for one, other in zip(bilm.tensors().values(), again.tensors().values(), strict=True):
        assert one.data.tobytes() == other.data.tobytes()


def test_weights_that_were_trained_on_leave_as_they_are_now():
    bilm = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS), vocabulary=tg.nn.Vocabulary(["we", "train"]), rng=0)
    tg.nn.Elmo(bilm, frozen=False)
    bilm.train()
    bilm.loss([["we", "train"]]).backward()
    tg.optim.SGD(bilm.parameters(), 0.1).step()
    again = tg.nn.BiLM.published(bilm.published_options(), bilm.to_published())
    for path, x in again.tensors().items():
        np.testing.assert_allclose(x.data, bilm.tensors()[path].data, rtol=0, atol=2**-24)
    np.testing.assert_allclose(again.layers([["we"]]).data, bilm.eval().layers([["we"]]).data, rtol=0, atol=1e-6)


def test_a_model_of_ones_own_leaves_in_the_published_format():
    vocabulary = tg.nn.Vocabulary(["we", "train", "models"])
    encoder = tg.nn.CharEncoder(4, filters=((2, 3), (3, 5)), embedding=3, highways=1, padded=True, rng=1)
    bilm = tg.nn.BiLM(encoder, vocabulary, hidden=6, layers=3, projection=4, cell_clip=2.0, rng=2)
    found = layers_by_hand([[["we", "train"]]], bilm.published_options(), bilm.to_published())[0][0]
    np.testing.assert_allclose(bilm.layers([["we", "train"]]).data[:, :, 0], found, rtol=0, atol=1e-12)


FOREIGN = {
    "a table of words": lambda v: tg.nn.BiLM(tg.nn.WordEncoder(v, 3, rng=0), v, hidden=3),
    "words that are not filled up": lambda v: tg.nn.BiLM(tg.nn.CharEncoder(3, rng=0), v, hidden=3),
    "a GRU": lambda v: tg.nn.BiLM(tg.nn.CharEncoder(3, padded=True, rng=0), v, hidden=3, cell="gru"),
    "a learned start": lambda v: tg.nn.BiLM(tg.nn.CharEncoder(3, padded=True, rng=0), v, hidden=3, learned_state=True),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_the_published_format_has_no_room_for_is_refused(what):
    bilm = FOREIGN[what](tg.nn.Vocabulary(["we"]))
    for leave in (bilm.to_published, bilm.published_options):
        with pytest.raises(ValueError, match="not of the published architecture"):
            leave()


# Files ---------------------------------------------------------------------------------------------------------------


def written(path, weights):
    if path.suffix == ".npz":
        np.savez(path, **weights)
    else:
        h5py = pytest.importorskip("h5py", reason="writing HDF5 needs h5py: pip install 'tinygrad-seq[elmo]'")
        with h5py.File(path, "w") as file:
            for name, array in weights.items():
                file[name] = array
    return path


@pytest.mark.parametrize("suffix", [".npz", ".hdf5"])
def test_a_file_holds_what_the_mapping_holds(suffix, tmp_path):
    weights = random_weights(OPTIONS)
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    path = written(tmp_path / f"weights{suffix}", weights)
    from_file = tg.nn.BiLM.published(str(tmp_path / "options.json"), path)
    assert not from_file.training and from_file.marks and not from_file.stateful
    for name, array in from_file.to_published().items():
        assert array.tobytes() == weights[name].tobytes()


def test_groups_may_be_mappings_of_their_own():
    weights = random_weights(OPTIONS)
    nested = {name: array for name, array in weights.items() if not name.startswith("CNN/")}
    nested["CNN"] = {name.removeprefix("CNN/"): array for name, array in weights.items() if name.startswith("CNN/")}
    back = tg.nn.BiLM.published(OPTIONS, nested).to_published()
    assert all(back[name].tobytes() == weights[name].tobytes() for name in weights)


B = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/B"
MISFITS = {
    "an array is missing": ({B: None}, f"missing {B}"),
    "an array is left over": ({"softmax/W": np.ones(3, np.float32)}, "unknown softmax/W"),
    "another shape": ({B: np.ones(21, np.float32)}, rf"{B}: needs \(20,\) of floats, got \(21,\) float32"),
    "a number for each": ({B: np.float32(1)}, r"got \(\) float32"),
    "whole numbers": ({B: np.ones(20, int)}, r"got \(20,\) int"),
    "text": ({B: np.array(["a"] * 20)}, r"got \(20,\) <U1"),
    "not a number": ({B: np.full(20, np.nan, np.float32)}, f"{B} has entries that are no finite float32"),
    "too large": ({"char_embed": np.full((261, 2), 1e300)}, "char_embed has entries that are no finite float32"),
    "symbols of training": ({"char_embed": np.ones((262, 2), np.float32)}, r"needs \(261, 2\)"),
}


@pytest.mark.parametrize("what", MISFITS)
@pytest.mark.filterwarnings("error")
def test_weights_that_do_not_fit_are_named(what, tmp_path):
    changes, message = MISFITS[what]
    weights = random_weights(OPTIONS) | changes
    weights = {name: array for name, array in weights.items() if array is not None}
    for source in (weights, written(tmp_path / "weights.npz", weights)):
        with pytest.raises(ValueError, match=message):
            tg.nn.BiLM.published(OPTIONS, source)


def test_all_that_does_not_fit_is_named_at_once():
    weights = random_weights(OPTIONS) | {"a": np.ones(1), "b": np.ones(1), B: np.ones(3)}
    del weights["char_embed"]
    with pytest.raises(ValueError, match=f"missing char_embed; unknown a; unknown b; {B}: needs"):
        tg.nn.BiLM.published(OPTIONS, weights)


@pytest.mark.parametrize("suffix", [".npz", ".hdf5"])
def test_a_damaged_file_is_named(suffix, tmp_path):
    path = written(tmp_path / f"weights{suffix}", random_weights(OPTIONS))
    whole = path.read_bytes()
    for kept in (20, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:kept])
        with pytest.raises(ValueError, match=rf"weights\{suffix} (is damaged|does not hold)"):
            tg.nn.BiLM.published(OPTIONS, path)


FILES = {
    "a pointer to a file": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 54\n",
    "an empty file": b"",
    "a pickle": b"\x80\x04K\x01.",
}


@pytest.mark.parametrize("what", FILES)
def test_a_foreign_file_is_named(what, tmp_path):
    path = tmp_path / "weights.hdf5"
    path.write_bytes(FILES[what])
    with pytest.raises(ValueError, match=r"weights\.hdf5 is neither HDF5 nor \.npz"):
        tg.nn.BiLM.published(OPTIONS, path)


def test_objects_in_an_npz_are_not_unpickled(tmp_path):
    weights = random_weights(OPTIONS) | {B: np.array([print], object)}
    path = tmp_path / "weights.npz"
    np.savez(path, **weights)
    with pytest.raises(ValueError, match=f"is damaged .*{B}"):
        tg.nn.BiLM.published(OPTIONS, path)


def test_an_hdf5_file_without_h5py_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    path = tmp_path / "weights.hdf5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n and so on")
    with pytest.raises(ImportError, match=r"pip install 'tinygrad-seq\[elmo\]'"):
        tg.nn.BiLM.published(OPTIONS, path)


BAD_OPTIONS = {
    "no characters": ({"lstm": OPTIONS["lstm"]}, "char_cnn"),
    "no section of numbers": (options() | {"lstm": 3}, "'lstm', got 3"),
    "one direction": (options() | {"bidirectional": False}, "two directions"),
    "another alphabet": (options(char_cnn={"n_characters": 300}), "261 or 262, got 300"),
    "another activation": (options(char_cnn={"activation": "gelu"}), "char_cnn.activation is one of 'relu', 'tanh'"),
    "no width": (options({"dim": None}), "lstm.dim is a whole number >= 1, got None"),
    "text for a number": (options({"projection_dim": "3"}), "lstm.projection_dim .* got '3'"),
    "half a layer": (options({"n_layers": 1.5}), "lstm.n_layers .* got 1.5"),
    "no bound": (options({"cell_clip": 0}), "lstm.cell_clip is a positive number, or null, got 0"),
    "skips unsaid": (options({"use_skip_connections": None}), "use_skip_connections is one of True, False, got None"),
    "filters of one number": (options(char_cnn={"filters": [3, 4]}), "pairs"),
    "filters of nothing": (options(char_cnn={"filters": []}), "pairs"),
    "a filter that is longer than a word": (options(char_cnn={"filters": [[13, 2], [1, 4]]}), "width 13"),
}


@pytest.mark.parametrize("what", BAD_OPTIONS)
def test_options_that_are_none_are_named(what, tmp_path):
    given, message = BAD_OPTIONS[what]
    with pytest.raises(ValueError, match=message):
        tg.nn.BiLM.published(given, random_weights(OPTIONS))
    path = tmp_path / "options.json"
    path.write_text(json.dumps(given))
    with pytest.raises(ValueError, match=message):
        tg.nn.BiLM.published(path, random_weights(OPTIONS))


def test_options_and_weights_of_another_kind_are_named(tmp_path):
    (tmp_path / "options.json").write_text("{")
    with pytest.raises(ValueError, match=r"options\.json is no JSON file"):
        tg.nn.BiLM.published(tmp_path / "options.json", {})
    with pytest.raises(TypeError, match="got list"):
        tg.nn.BiLM.published([], {})
    with pytest.raises(TypeError, match="got list"):
        tg.nn.BiLM.published(OPTIONS, [])
    for missing in ("no.json", "no.hdf5"):
        with pytest.raises(FileNotFoundError):
            tg.nn.BiLM.published(*((missing, {}) if missing.endswith("json") else (OPTIONS, tmp_path / missing)))


# Loading -------------------------------------------------------------------------------------------------------------

LARGER = options(
    {"projection_dim": 64, "dim": 512, "n_layers": 4}, {"filters": [[1, 64], [2, 128]], "embedding": {"dim": 8}}
)


def test_no_start_is_computed_that_the_weights_would_overwrite(monkeypatch):
    weights = random_weights(OPTIONS)
    monkeypatch.setattr(np.linalg, "qr", None)  # what an orthogonal start is made with
    tg.nn.BiLM.published(OPTIONS, weights)


@pytest.mark.parametrize("suffix", [".npz", ".hdf5"])
def test_loading_takes_little_more_memory_than_the_weights(suffix, tmp_path):
    weights = random_weights(LARGER)
    size = sum(array.nbytes for array in weights.values())
    path = written(tmp_path / f"weights{suffix}", weights)
    del weights
    tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS))  # what is imported late, is
    tracemalloc.start()
    bilm = tg.nn.BiLM.published(LARGER, path)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bilm.training is False and held < 1.05 * size and peak < 1.3 * size


# Without a softmax ---------------------------------------------------------------------------------------------------


def test_a_bilm_without_a_softmax_says_why_it_has_no_loss():
    bilm = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS))
    assert bilm.vocabulary is None and bilm.softmax is None
    (frame,) = bilm.frames([[["we"]]])
    for ask in (bilm.loss, bilm.losses, bilm.perplexity, lambda batch: bilm.loss(frame)):
        with pytest.raises(ValueError, match=r"has no softmax and predicts no word: .* vocabulary="):
            ask([["we"]])


def test_what_sees_what_is_told_without_a_softmax():
    seen = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS)).visibility([["we", "train"]])
    np.testing.assert_array_equal(seen.forward, np.tri(3, 4, dtype=bool))
    np.testing.assert_array_equal(seen.backward, ~np.tri(3, 4, dtype=bool))


def test_training_goes_on_with_a_softmax_that_is_drawn_or_given():
    vocabulary, weights = tg.nn.Vocabulary(["we", "train"]), random_weights(OPTIONS)
    softmax = tg.nn.Linear(3, 5, rng=0, dtype=np.float32)
    drawn = tg.nn.BiLM.published(OPTIONS, weights, vocabulary=vocabulary, rng=0)
    given = tg.nn.BiLM.published(OPTIONS, weights, vocabulary=vocabulary, softmax=softmax)
    assert given.softmax is softmax and drawn.softmax.W.data.any()
    assert drawn.loss([["we", "train"]]).item() == given.loss([["we", "train"]]).item()
    drawn.loss([["we", "train"]]).backward()
    assert all(x.grad is not None for x in drawn.parameters())
    with pytest.raises(ValueError, match=r"is Linear\(3, 5\), .* got one of \(3, 4\)"):
        tg.nn.BiLM.published(OPTIONS, weights, vocabulary=vocabulary, softmax=tg.nn.Linear(3, 4))
    with pytest.raises(ValueError, match="give vocabulary"):
        tg.nn.BiLM.published(OPTIONS, weights, softmax=softmax)
    with pytest.raises(TypeError, match="got list"):
        tg.nn.BiLM(tg.nn.CharEncoder(3), ["we"], hidden=3)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_reading_the_last_mark_changes_no_loss_and_no_feature_of_a_word(cell):
    vocabulary, batch = tg.nn.Vocabulary(["we", "train"]), [["we", "train", "we"], ["train"], []]
    one, other = (
        tg.nn.BiLM(tg.nn.WordEncoder(vocabulary, 3, rng=0), vocabulary, 3, cell=cell, marks=marks, rng=0)
        for marks in (False, True)
    )
    np.testing.assert_allclose(one.layers(batch).data, other.layers(batch).data, rtol=0, atol=1e-14)
    assert one.loss(batch).item() == pytest.approx(other.loss(batch).item(), rel=1e-14)
    for direction in (0, 1):
        np.testing.assert_array_equal(one.visibility(batch)[direction], other.visibility(batch)[direction])
    with pytest.raises(ValueError, match=r"BiLM\(marks=True\)"):
        one.layers(batch, marks=True)


def test_the_last_mark_is_read_only_where_something_depends_on_it(monkeypatch):
    bilm = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS))
    steps, read = [], type(bilm.forward).__call__
    monkeypatch.setattr(
        type(bilm.forward),
        "__call__",
        lambda net, xs, *rest, **more: steps.append(len(xs)) or read(net, xs, *rest, **more),
    )
    bilm.layers([["we", "train"]])
    bilm.layers([["we", "train"]], marks=True)
    bilm.stateful = True
    bilm.layers([["we", "train"]])
    assert steps == [3, 3, 4, 4, 4, 4]


# The mixture in its published senses ---------------------------------------------------------------------------------


def test_layer_norm_over_a_batch_counts_its_marks_or_its_words():
    batch = [["we", "train", "models"], ["the"]]
    bilm = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS), dtype=np.float64)
    layers = bilm.layers(batch, marks=True).data
    marks = np.arange(5)[:, None] < np.array([5, 3])
    words = (np.arange(5)[:, None] >= 1) & (np.arange(5)[:, None] < np.array([4, 2]))
    for name, counted in (("batch", marks), ("batch words", words)):
        right = np.zeros(layers.shape[1:])
        for layer in layers:
            entries = layer[counted]
            right[marks] += (layer[marks] - entries.mean()) / entries.std() / 3
        (kept,) = tg.nn.Elmo(bilm, layer_norm=name, keep_marks=True)(batch)
        np.testing.assert_allclose(kept.data, right, rtol=0, atol=1e-9)
        (found,) = tg.nn.Elmo(bilm, layer_norm=name)(batch)
        right[~words] = 0
        np.testing.assert_allclose(found.data, right[1:-1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("norm", [False, "sentence", "batch", "batch words"])
def test_marks_that_are_kept_change_nothing_at_the_words(norm):
    bilm = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS), dtype=np.float64)
    batch, words = [["we", "train", "models"], ["the"], []], [3, 1, 0]
    elmo, keeps = (tg.nn.Elmo(bilm, layer_norm=norm, keep_marks=keep) for keep in (False, True))
    for mixes in (elmo.mixes, keeps.mixes):
        mixes[0].weights.data = np.array([0.3, -0.2, 0.1])
    for remembered in (False, True):
        if remembered:
            elmo.remember(batch), keeps.remember(batch)
        (without,), (kept,) = elmo(batch), keeps(batch)
        assert without.shape == (3, 3, 6) and kept.shape == (5, 3, 6)
        assert elmo.layers(batch).shape == (3, 3, 3, 6) and keeps.layers(batch).shape == (3, 5, 3, 6)
        for b, N in enumerate(words):
            np.testing.assert_allclose(kept.data[1 : N + 1, b], without.data[:N, b], rtol=0, atol=1e-12)
            assert kept.data[[0, N + 1], b].all() and not kept.data[N + 2 :, b].any() and not without.data[N:, b].any()


def test_marks_are_kept_only_of_a_bilm_that_reads_them():
    vocabulary = tg.nn.Vocabulary(["we"])
    bilm = tg.nn.BiLM(tg.nn.WordEncoder(vocabulary, 3, rng=0), vocabulary, 3, rng=0)
    for wanted in ({"keep_marks": True}, {"layer_norm": "batch"}):
        with pytest.raises(ValueError, match=f"{next(iter(wanted))}=.* needs a biLM that reads the marks"):
            tg.nn.Elmo(bilm, **wanted)
    tg.nn.Elmo(bilm, layer_norm="batch words")([["we"]])
    with pytest.raises(ValueError, match="one of sentence, batch, batch words; got 'layer'"):
        tg.nn.ScalarMix(3, layer_norm="layer")


# Replayed ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("marks", [False, True])
def test_layers_of_frames_are_replayed_bit_for_bit_without_a_way_back(marks):
    bilm = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS)).freeze()
    step = tg.replay(lambda frame: bilm.layers(frame, marks), gradients=False, programs=2)
    for frame in bilm.frames([*BATCHES, *BATCHES], shapes=2):
        assert step(frame).data.tobytes() == bilm.layers(frame, marks).data.tobytes()


def test_replayed_layers_are_those_of_weights_that_were_loaded_since():
    bilm, other = (tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS, seed)).freeze() for seed in (0, 1))
    step, (frame,) = tg.replay(bilm.layers, gradients=False), bilm.frames(BATCHES[:1])
    before = step(frame).data
    bilm.load_state_dict(other.state_dict())
    assert np.abs(step(frame).data - before).max() > 1e-3
    np.testing.assert_array_equal(step(frame).data, other.layers(frame).data)


def test_a_stateful_bilm_refuses_to_be_replayed_for_its_layers():
    bilm = tg.nn.BiLM.published(OPTIONS, random_weights(OPTIONS), stateful=True).freeze()
    with pytest.raises(RuntimeError, match="stateful=False"):
        tg.replay(bilm.layers, gradients=False)(*bilm.frames(BATCHES[:1]))
