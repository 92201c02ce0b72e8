"""Every property of the generated tasks, from the definitions in the papers; exact statistics; batches."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq.data import (
    REBER_SYMBOLS,
    TEMPORAL_ORDER_SYMBOLS,
    adding_problem,
    batch_by_length,
    embedded_reber,
    one_bit,
    temporal_order,
    text_chunks,
)

seeds = st.integers(0, 2**63)
batches = st.integers(1, 6)
# Statistics look at many draws, so fewer seeds of them.
statistics = settings(max_examples=settings().max_examples // 3)


def assert_mean(draws, expected, what):
    """The draws' mean is within six standard errors: a right generator fails once in 500 million times."""
    draws = np.asarray(draws, dtype=float)
    error = draws.std() / np.sqrt(draws.size)
    assert abs(draws.mean() - expected) <= 6 * error, f"{what}: {draws.mean()} ± {error} instead of {expected}"


# --- the adding problem


@given(seeds, st.integers(2, 40), batches)
def test_adding_problem_marks_one_value_in_each_half_and_asks_for_their_sum(seed, length, batch):
    xs, targets = adding_problem(seed, length, batch)
    assert xs.shape == (length, batch, 2) and xs.dtype == np.float64
    assert targets.shape == (batch, 1) and targets.dtype == np.float64
    values, markers = xs[..., 0], xs[..., 1]
    assert ((values >= 0) & (values < 1)).all()
    assert np.isin(markers, (0, 1)).all()
    for row in range(batch):
        first, second = np.flatnonzero(markers[:, row])
        assert first < length // 2 <= second
        assert targets[row, 0] == values[first, row] + values[second, row]


@statistics
@given(seeds)
def test_adding_problem_has_uniform_values_and_places_and_costs_one_sixth_to_guess(seed):
    length, batch = 7, 4000
    xs, targets = adding_problem(seed, length, batch)
    assert_mean(targets, 1, "mean target")
    assert_mean((targets - 1) ** 2, 1 / 6, "squared error of always answering 1")
    for lowest in (0.25, 0.5, 0.75):
        assert_mean(xs[..., 0] < lowest, lowest, f"share of values below {lowest}")
    for step in range(length):
        assert_mean(xs[step, :, 1], 1 / 3 if step < 3 else 1 / 4, f"share of markers at step {step + 1}")
    first, second = xs[:3, :, 1].argmax(0), xs[3:, :, 1].argmax(0)
    assert_mean((first - 1) * (second - 1.5), 0, "covariance of the two places")


# --- temporal order


@given(seeds, st.integers(4, 120), batches)
def test_temporal_order_hides_two_symbols_among_distractors_and_names_their_order(seed, length, batch):
    xs, classes = temporal_order(seed, length, batch)
    assert xs.shape == (length, batch, 8) and xs.dtype == np.float64
    assert classes.shape == (batch,) and classes.dtype == np.intp
    assert np.isin(xs, (0, 1)).all() and (xs.sum(-1) == 1).all()
    for row in range(batch):
        string = "".join(TEMPORAL_ORDER_SYMBOLS[i] for i in xs[:, row].argmax(-1))
        found = re.fullmatch("E[abcd]*([XY])[abcd]*([XY])[abcd]*B", string)
        assert found, string
        assert ["XX", "XY", "YX", "YY"][classes[row]] == found[1] + found[2]
        first, second = found.start(1), found.start(2)
        assert max(1, length // 10) <= first <= max(1, length // 5)
        assert length // 2 <= second <= 3 * length // 5


@statistics
@given(seeds)
def test_temporal_order_draws_classes_places_and_distractors_uniformly(seed):
    xs, classes = temporal_order(seed, 100, 3000)
    symbols = xs.argmax(-1)
    for label in range(4):
        assert_mean(classes == label, 1 / 4, f"share of class {label}")
    for place in range(10, 21):
        assert_mean(symbols[place] >= 4, 1 / 11, f"share of first symbols at {place}")
    for place in range(50, 61):
        assert_mean(symbols[place] >= 4, 1 / 11, f"share of second symbols at {place}")
    for distractor in range(4):
        assert_mean(symbols[70:99] == distractor, 1 / 4, f"share of {TEMPORAL_ORDER_SYMBOLS[distractor]}")


# --- one bit


@given(seeds, st.integers(1, 40), batches)
def test_one_bit_shows_the_bit_at_the_first_step_alone(seed, length, batch):
    xs, targets = one_bit(seed, length, batch)
    assert xs.shape == (length, batch, 2) and xs.dtype == np.float64
    assert targets.shape == (batch, 1) and targets.dtype == np.float64
    assert np.isin(targets, (0, 1)).all()
    assert (xs[0, :, 0] == np.where(targets[:, 0] == 1, 1, -1)).all()
    assert (xs[1:, :, 0] == 0).all()
    assert (xs[:, :, 1] != 0).all()


@statistics
@given(seeds)
def test_one_bit_is_fair_and_its_noise_standard_normal_and_without_a_hint(seed):
    xs, targets = one_bit(seed, 5, 4000)
    noise, sign = xs[:, :, 1], 2 * targets[:, 0] - 1
    assert_mean(targets, 1 / 2, "share of ones")
    assert_mean(noise, 0, "mean of the noise")
    assert_mean(noise**2, 1, "variance of the noise")
    assert_mean(noise**4, 3, "fourth moment of the noise")
    assert_mean(noise * sign, 0, "covariance of noise and bit")
    assert_mean(noise[1:] * noise[:-1], 0, "covariance of the noise of two steps")


# --- the embedded Reber grammar, as a regular expression derived from its graph by hand

LOOP = "(?:XT*VP)*(?:XT*VVE|SE)"
REBER = f"B(?:TS*X{LOOP}|PT*V(?:P{LOOP}|VE))"
EMBEDDED = re.compile(f"B(?:T{REBER}T|P{REBER}P)E")
INNER_ENDINGS = ["BTXSE", "TXSE", "XSE", "SE", "VVE", "VE", "E", ""]
ENDINGS = [inner + outer + "E" for inner in INNER_ENDINGS for outer in "TP"] + ["TBTXSETE", "E", ""]


def may_follow(prefix):
    """The symbols with which some ending completes the prefix to a string of the grammar."""
    return {s for s in REBER_SYMBOLS if any(EMBEDDED.fullmatch(prefix + s + end) for end in ENDINGS)}


@given(seeds, batches)
def test_embedded_reber_draws_strings_of_the_grammar_and_knows_what_may_follow(seed, batch):
    strings, xs, following, targets, lengths = embedded_reber(seed, batch)
    assert len(strings) == batch and lengths.shape == (batch,)
    steps = lengths.max()
    assert xs.shape == following.shape == (steps, batch, 7) and targets.shape == (steps, batch)
    assert xs.dtype == np.float64 and following.dtype == np.bool_ and targets.dtype == np.intp
    for row, string in enumerate(strings):
        assert EMBEDDED.fullmatch(string), string
        length = len(string) - 1
        assert lengths[row] == length
        for step in range(length):
            assert xs[step, row].tolist() == [float(s == string[step]) for s in REBER_SYMBOLS]
            allowed = {s for s, may in zip(REBER_SYMBOLS, following[step, row], strict=True) if may}
            assert allowed == may_follow(string[: step + 1]), string[: step + 1]
            assert REBER_SYMBOLS[targets[step, row]] == string[step + 1]
        assert (xs[length:, row] == 0).all()
        assert not following[length:, row].any()
        assert (targets[length:, row] == -1).all()


@statistics
@given(seeds)
def test_embedded_reber_takes_each_arc_of_a_fork_alike_often(seed):
    strings = embedded_reber(seed, 1000).strings
    assert_mean([len(string) for string in strings], 12, "length")
    assert min(len(string) for string in strings) == 9
    assert_mean([string[1] == "T" for string in strings], 1 / 2, "share of outer T")
    for shortest in ("BTBTXSETE", "BTBPVVETE", "BPBTXSEPE", "BPBPVVEPE"):
        assert_mean([string == shortest for string in strings], 1 / 16, f"share of {shortest}")
    for loop, chance in (("TS", 1 / 4), ("TSS", 1 / 8), ("PT", 1 / 4), ("PTT", 1 / 8)):
        inner = [string[3:].startswith(loop) for string in strings]
        assert_mean(inner, chance, f"share of inner strings that begin with {loop}")


# --- randomness


def global_state():
    kind, keys, position, *rest = np.random.get_state()  # noqa: NPY002 (to see that nobody touches it)
    return kind, keys.tolist(), position, rest


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: adding_problem(rng, 6, 3)[0],
        lambda rng: temporal_order(rng, 12, 3)[0],
        lambda rng: one_bit(rng, 6, 3)[0],
        lambda rng: np.array(embedded_reber(rng, 40).strings),
        lambda rng: np.concatenate([b.numbers for b in batch_by_length([[0]] * 40, 3, rng=rng)]),
    ],
    ids=["adding_problem", "temporal_order", "one_bit", "embedded_reber", "batch_by_length"],
)
@given(seed=seeds)
def test_a_seed_repeats_its_numbers_a_generator_moves_on_and_the_global_one_stands_still(draw, seed):
    before = global_state()
    once = draw(seed)
    assert np.array_equal(once, draw(seed))
    generator = np.random.default_rng(seed)
    assert np.array_equal(once, draw(generator))
    assert not np.array_equal(once, draw(generator))
    assert global_state() == before


# --- text


@given(st.text(min_size=2, max_size=200), st.integers(1, 12), batches)
def test_text_chunks_give_each_row_its_own_stream_that_goes_on_from_chunk_to_chunk(text, chunk, batch):
    text = text * (1 + chunk * batch // (len(text) - 1))
    inputs, targets, vocabulary = text_chunks(text, chunk, batch)
    count = len(inputs)
    assert inputs.shape == targets.shape == (count, chunk, batch)
    assert count * chunk * batch < len(text) <= (count + 1) * chunk * batch
    assert list(vocabulary) == sorted(set(text))
    stream = count * chunk
    for row in range(batch):
        start = row * stream
        read = "".join(vocabulary[i] for i in np.concatenate(inputs[:, :, row]))
        wanted = "".join(vocabulary[i] for i in np.concatenate(targets[:, :, row]))
        assert read == text[start : start + stream]
        assert wanted == text[start + 1 : start + stream + 1]


@given(st.text("abc", min_size=3), st.text("abcde", min_size=3))
def test_text_chunks_of_a_held_out_text_use_the_vocabulary_given(held_out, rest):
    vocabulary = "".join(sorted(set(held_out + rest), reverse=True))
    chunks = text_chunks(held_out, 1, 1, vocabulary)
    assert chunks.vocabulary == vocabulary
    assert "".join(vocabulary[i] for i in chunks.inputs.ravel()) == held_out[:-1]
    assert "".join(vocabulary[i] for i in chunks.targets.ravel()) == held_out[1:]


# --- batches

ragged = st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=30), seeds).map(
    lambda drawn: [
        np.random.default_rng([drawn[1], i]).standard_normal((length, 2)).astype(np.float32)
        for i, length in enumerate(drawn[0])
    ]
)


@given(ragged, st.integers(1, 7), st.none() | seeds)
def test_batch_by_length_gives_every_sequence_back_once_with_nothing_but_padding_beside_it(sequences, batch, rng):
    made = batch_by_length(sequences, batch, padding=-7.5, rng=rng)
    assert sorted(np.concatenate([b.numbers for b in made]).tolist()) == list(range(len(sequences)))
    sizes = sorted((len(b.numbers) for b in made), reverse=True)
    assert sizes == [min(batch, len(sequences) - start) for start in range(0, len(sequences), batch)]
    for xs, lengths, numbers in made:
        assert xs.shape == (lengths.max(), len(numbers), 2) and xs.dtype == np.float32
        for column, (length, number) in enumerate(zip(lengths, numbers, strict=True)):
            assert np.array_equal(xs[:length, column], sequences[number])
            assert (xs[length:, column] == -7.5).all()


@given(ragged, st.integers(1, 7), st.none() | seeds)
def test_batch_by_length_puts_like_lengths_together(sequences, batch, rng):
    made = batch_by_length(sequences, batch, rng=rng)
    in_order = sorted(made, key=lambda b: (b.lengths.min(), b.lengths.max()))
    assert np.concatenate([b.lengths for b in in_order]).tolist() == sorted(len(s) for s in sequences)


@given(ragged, st.integers(1, 7))
def test_batch_by_length_without_a_generator_keeps_the_order_of_lengths_and_of_equals(sequences, batch):
    numbers = np.concatenate([b.numbers for b in batch_by_length(sequences, batch)])
    assert numbers.tolist() == sorted(range(len(sequences)), key=lambda i: (len(sequences[i]), i))


@statistics
@given(seeds)
def test_batch_by_length_shuffles_equal_lengths_and_the_order_of_batches(seed):
    rng = np.random.default_rng(seed)
    sequences = [[0], [0], [0, 0], [0, 0]]
    drawn = [batch_by_length(sequences, 2, rng=rng) for _ in range(1000)]
    assert_mean([made[0].lengths[0] == 1 for made in drawn], 1 / 2, "share of short batches that come first")
    for length in (1, 2):
        firsts = [b.numbers[0] % 2 for made in drawn for b in made if b.lengths[0] == length]
        assert_mean(firsts, 1 / 2, f"share of batches of length {length} that begin with the later sequence")


def test_batch_by_length_lets_an_empty_list_have_no_say_in_the_dtype():
    (made,) = batch_by_length([[], [3, 1]], 2)
    assert made.xs.dtype == np.asarray([3]).dtype
    assert made.xs.tolist() == [[0, 3], [0, 1]] and made.lengths.tolist() == [0, 2]


@pytest.mark.parametrize("padding", [np.nan, -np.inf, 0.1])
def test_batch_by_length_takes_any_padding_that_the_dtype_holds_to_rounding(padding):
    (made,) = batch_by_length([np.ones(1, np.float32), np.ones(2, np.float32)], 2, padding=padding)
    np.testing.assert_array_equal(made.xs[1, 0], np.float32(padding))


def test_batch_by_length_does_not_share_memory_with_the_sequences():
    sequence = np.ones(3)
    (made,) = batch_by_length([sequence], 1)
    made.xs[:] = 5
    assert (sequence == 1).all()


# --- bad input


@pytest.mark.parametrize(
    ("call", "given_and_needed"),
    [
        (lambda: adding_problem(0, 1, 3), "adding_problem .* length .* >= 2, got 1"),
        (lambda: adding_problem(0, 10, 0), "batch .* >= 1, got 0"),
        (lambda: adding_problem(0, 10.0, 3), "length .* whole number .* got 10.0"),
        (lambda: adding_problem(0, 10, True), "batch .* whole number .* got True"),
        (lambda: adding_problem(None, 10, 3), "np.random.Generator or a seed .* got None"),
        (lambda: adding_problem(-1, 10, 3), "seed .* got -1"),
        (lambda: adding_problem(True, 10, 3), "seed .* got True"),
        (lambda: adding_problem(np.random, 10, 3), "np.random.Generator or a seed"),
        (lambda: temporal_order(0, 3, 3), "temporal_order .* length .* >= 4, got 3"),
        (lambda: temporal_order(0, 10, -1), "batch .* got -1"),
        (lambda: temporal_order("0", 10, 1), "temporal_order .* seed .* got '0'"),
        (lambda: one_bit(0, 0, 3), "one_bit .* length .* >= 1, got 0"),
        (lambda: one_bit(0, 3, "3"), "batch .* got '3'"),
        (lambda: one_bit(0.0, 3, 3), "one_bit .* seed .* got 0.0"),
        (lambda: embedded_reber(0, 0), "embedded_reber .* batch .* >= 1, got 0"),
        (lambda: embedded_reber(None, 1), "embedded_reber .* got None"),
        (
            lambda: text_chunks("abcd", 2, 2),
            "got 4 characters, and one chunk of 2 in each of 2 rows needs .* 5",
        ),
        (lambda: text_chunks("", 1, 1), "got 0 characters"),
        (lambda: text_chunks(b"abcdef", 1, 1), "got bytes, .* needs a str"),
        (lambda: text_chunks("abcdef", 0, 1), "chunk .* >= 1, got 0"),
        (lambda: text_chunks("abcdef", 1, 0), "batch .* >= 1, got 0"),
        (lambda: text_chunks("abcdef", 1, 1, "fed"), "'abc', which the given vocabulary lacks"),
        (lambda: text_chunks("aaa", 1, 1, "aba"), "distinct characters, got 'aba'"),
        (lambda: batch_by_length([], 2), "got no sequences"),
        (lambda: batch_by_length([[1]], 0), "batch .* >= 1, got 0"),
        (lambda: batch_by_length([[1], 2], 1), r"sequence 1 of shape \(\)"),
        (lambda: batch_by_length(["ab"], 1), "sequences of numbers"),
        (lambda: batch_by_length([[1], [[1], [2, 3]]], 1), "ragged sequence 1"),
        (
            lambda: batch_by_length([np.ones((2, 3)), np.ones((2, 4))], 1),
            r"\(2, 3\), sequence 1 has .* \(2, 4\)",
        ),
        (lambda: batch_by_length([[1]], 1, padding=0.5), "padding 0.5, which sequences of int"),
        (lambda: batch_by_length([[1]], 1, padding=np.nan), "padding nan"),
        (lambda: batch_by_length([[1.0]], 1, padding=[0, 0]), r"padding \[0, 0\]"),
        (
            lambda: batch_by_length([np.ones(2, np.uint8)], 1, padding=-1),
            "padding -1, which sequences of uint8",
        ),
        (lambda: batch_by_length([[1]], 1, rng="x"), "batch_by_length .* got 'x'"),
    ],
)
def test_bad_input_is_refused_by_name_of_what_was_given_and_what_is_needed(call, given_and_needed):
    with pytest.raises(ValueError, match=given_and_needed):
        call()


# --- padded and mask


rows_of = st.lists(st.lists(st.integers(-50, 50), max_size=6), min_size=1, max_size=5)


@given(rows_of, st.integers(-9, 9))
def test_what_is_padded_is_there_and_nothing_else(rows, fill):
    xs, lengths = tg.data.padded([np.array(row, int) for row in rows], fill=fill)
    real = tg.data.mask(lengths, len(xs))
    assert xs.shape == real.shape == (max(map(len, rows)), len(rows)) and lengths.tolist() == list(map(len, rows))
    for b, row in enumerate(rows):
        assert xs[: len(row), b].tolist() == row and real[:, b].sum() == len(row)
    assert (xs[~real] == fill).all() and np.array_equal(real, tg.data.mask(lengths))


@given(rows_of, st.data())
def test_sequences_that_go_together_stay_together(rows, data):
    others = [np.array([[x / 2, x] for x in row]).reshape(len(row), 2) for row in rows]
    xs, ys, lengths = tg.data.padded([np.array(row, int) for row in rows], others, fill=(0, np.nan))
    assert ys.shape == (*xs.shape, 2) and lengths.tolist() == list(map(len, rows))
    real = tg.data.mask(lengths)
    np.testing.assert_array_equal(ys[real][:, 1], xs[real])
    assert np.isnan(ys[~real]).all()


def test_a_mask_of_lengths_that_change_is_replayed():
    w = tg.Tensor(2.0, requires_grad=True)
    step = tg.replay(lambda xs, lengths: (w * xs * tg.data.mask(lengths, 4)).sum())
    assert [step(np.ones((4, 2)), np.array(lengths)).item() for lengths in ([4, 4], [1, 0], [2, 3])] == [16, 2, 10]


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: tg.data.padded(), ValueError, "padded got no sequences"),
        (lambda: tg.data.padded([]), ValueError, "padded got no sequences"),
        (lambda: tg.data.padded([[1]], [[1], [2]]), ValueError, "padded got 1 sequences first and 2 in list 1"),
        (lambda: tg.data.padded([[1], [2]], [[1], [2, 3]]), ValueError, "sequence 1 has 1 steps first and 2 in list 1"),
        (lambda: tg.data.padded([[1]], fill=(0, 1)), ValueError, "2 fills for 1 lists"),
        (lambda: tg.data.padded([["the", "cat"]]), ValueError, r"needs sequences of numbers.*vocabulary\.ids\(words\)"),
        (lambda: tg.data.padded([[1]], fill=0.5), ValueError, "padded got fill 0.5, which sequences of int64 cannot"),
        (lambda: tg.data.padded([[[1]], [[1, 2]]]), ValueError, "of one shape after the first axis"),
        (lambda: tg.data.mask([1.0]), TypeError, "mask needs lengths as whole numbers, got dtype float64"),
        (lambda: tg.data.mask([True]), TypeError, "got dtype bool"),
        (lambda: tg.data.mask([1, 5], 4), ValueError, r"lengths in 0\.\.4, the number of steps, got 1\.\.5"),
        (lambda: tg.data.mask([-1], 4), ValueError, r"got -1\.\.-1"),
        (lambda: tg.data.mask([1], -1), ValueError, "T as a whole number >= 0, got -1"),
        (lambda: tg.data.mask(tg.Tensor([1])), ValueError, "needs T"),
    ],
)
def test_what_cannot_be_padded_or_masked_is_refused(call, error, told):
    with pytest.raises(error, match=told):
        call()


def test_the_vocabulary_is_one_and_goes_with_any_model_that_holds_it(tmp_path):
    assert tg.data.Vocabulary is tg.nn.Vocabulary and tg.data.Mark is tg.nn.Mark

    class Tagger(tg.nn.Module):
        def __init__(self, words):
            self.words = tg.data.Vocabulary(words)
            self.table = tg.nn.Embedding(len(self.words), 2, rng=0)

    tg.save(tmp_path / "x.npz", model=Tagger(["a", "b"]))
    tg.load(tmp_path / "x.npz", model=Tagger(["a", "b"]))
    with pytest.raises(ValueError, match="model: its words has other words, or the same in another order"):
        tg.load(tmp_path / "x.npz", model=Tagger(["b", "a"]))
