"""From outputs to symbols: the last step of each row, drawing, generating, and what reads a table the other way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq import nn

seeds = st.integers(0, 1000)


# --- last


@given(seeds, st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_the_last_output_is_that_of_each_rows_own_last_step_and_so_is_its_gradient(seed, lengths):
    rng = np.random.default_rng(seed)
    net = nn.GRU(2, 3, layers=2, rng=seed)
    xs = rng.standard_normal((4, len(lengths), 2))
    outputs, states = net(xs, lengths=lengths)
    found = nn.last(outputs, lengths)
    np.testing.assert_array_equal(found.data, states[-1][0].data * (np.array(lengths) > 0)[:, None])
    raw = tg.Tensor(rng.standard_normal((4, len(lengths), 3)), requires_grad=True)
    weights = rng.standard_normal((len(lengths), 3))
    (nn.last(raw, lengths) * weights).sum().backward()
    expected = np.zeros(raw.shape)
    for b, n in enumerate(lengths):
        if n:
            expected[n - 1, b] = weights[b]
    np.testing.assert_array_equal(raw.grad, expected)


def test_the_last_output_is_replayed_with_the_lengths_of_each_call():
    cell = nn.LSTM(2, 3, rng=0)

    def step(xs, lengths):
        return nn.last(cell(xs, lengths=lengths)[0], lengths).square().sum()

    replayed, xs = tg.replay(step, wrt=cell), np.random.default_rng(0).standard_normal((5, 2, 2))
    for lengths in ([5, 1], [2, 4], [0, 3]):
        cell.zero_grad()
        loss = step(xs, np.array(lengths))
        loss.backward()
        eager = cell.cells[0][0].A.grad
        cell.zero_grad()
        assert replayed(xs, np.array(lengths)).item() == loss.item()
        assert cell.cells[0][0].A.grad.tobytes() == eager.tobytes()


def test_without_lengths_or_without_a_batch_it_is_the_last_step():
    xs = np.arange(6.0).reshape(3, 2)
    assert nn.last(xs).tolist() == [4.0, 5.0] and nn.last(xs, 2).tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("outputs", "lengths", "error", "told"),
    [
        (np.ones((3, 2, 1)), [1, 4], ValueError, r"lengths lie in 0\.\.3"),
        (np.ones((3, 2, 1)), [1.0, 2.0], TypeError, "whole numbers"),
        (np.ones((3, 2, 1)), [1], ValueError, r"shape \(2,\), got \(1,\)"),
        (np.ones((0, 2, 1)), [0, 0], ValueError, "outputs of at least one step"),
        (np.ones(3), None, ValueError, r"shape \(T, B, d\), got \(3,\)"),
    ],
)
def test_outputs_and_lengths_that_do_not_fit_are_refused(outputs, lengths, error, told):
    with pytest.raises(error, match=told):
        nn.last(outputs, lengths)


# --- sample


def test_classes_are_drawn_with_their_probabilities_also_at_other_temperatures():
    logits = np.array([0.5, -1.0, 2.0, -np.inf])
    for temperature in (0.5, 1.0, 3.0):
        drawn = nn.sample(np.tile(logits, (40_000, 1)), temperature, rng=0)
        p = np.exp(logits / temperature) / np.exp(logits / temperature).sum()
        counts = np.bincount(drawn, minlength=4)
        assert counts[3] == 0 and (abs(counts - 40_000 * p) < 5 * np.sqrt(40_000 * p * (1 - p) + 1)).all()


@given(seeds, st.integers(1, 6), st.floats(0, 10))
def test_only_the_likeliest_are_drawn_and_one_seed_draws_the_same(seed, top, temperature):
    logits = np.random.default_rng(seed).integers(-3, 4, (3, 2, 5)).astype(np.float32)
    ids = nn.sample(tg.Tensor(logits), temperature, rng=seed, top=top)
    assert ids.shape == (3, 2) and np.array_equal(ids, nn.sample(logits, temperature, rng=seed, top=top))
    for place in np.ndindex(3, 2):
        row = logits[place]
        assert (row > row[ids[place]]).sum() < top
        assert temperature or ids[place] == row.argmax()


@pytest.mark.filterwarnings("error")
def test_extreme_temperatures_and_logits_do_not_overflow():
    logits = np.array([[1e308, -1e308, 0.0], [-1e300, -1e305, -np.inf]])
    assert nn.sample(logits, 1e-300, rng=0).tolist() == nn.sample(logits, 0).tolist() == [0, 0]
    assert set(nn.sample(np.zeros((100, 2)), 1e300, rng=0).tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([0.0, np.nan], 1.0, 0), "without NaN"),
        (([0.0, np.inf], 1.0, 0), "without NaN and .inf"),
        (([-np.inf, -np.inf], 0.0), "one above -inf in every row"),
        (([0.0], -1.0, 0), "temperature >= 0, got -1.0"),
        (([0.0], np.nan, 0), "temperature >= 0, got nan"),
        (([0.0], 1.0), "sample needs rng as a np.random.Generator or a seed"),
        (([0.0], 1.0, 0, 0), "sample needs top as a whole number >= 1, got 0"),
        ((3.0, 0.0), "at least one class"),
        ((np.zeros((2, 0)), 0.0), "at least one class"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused(arguments, told):
    with pytest.raises(ValueError, match=told):
        nn.sample(*arguments)


# --- generate


class Speller(nn.Module):
    """Reads a symbol, and says what it finds likely next."""

    def __init__(self, seed=0, K=5):
        self.table, self.cell = nn.Embedding(K, 4, rng=seed), nn.GRUCell(4, 6, rng=seed)
        self.readout = nn.Linear(6, K, rng=seed)
        self.readout.W.data = self.readout.W.data * 5

    def step(self, ids, state):
        h, state = self.cell(self.table(ids), state)
        return self.readout(h), state


@pytest.mark.parametrize("seed", range(4))
def test_each_row_is_generated_as_it_is_alone_to_its_own_end(seed):
    speller, first = Speller(seed), np.array([0, 1, 2, 3])
    made = nn.generate(speller.step, first, speller.cell.initial_state((4,)), longest=8, end=4)
    assert len(made.ids) == made.lengths.max() <= 8
    for b in range(4):
        alone = nn.generate(speller.step, first[b : b + 1], speller.cell.initial_state((1,)), longest=8, end=4)
        assert made.ids[: made.lengths[b], b].tolist() == alone.ids[:, 0].tolist()
        assert (made.ids[made.lengths[b] :, b] == 4).all() and 4 not in made.ids[: made.lengths[b], b]


def test_generating_draws_from_its_seed_records_nothing_and_needs_no_end():
    speller = Speller()

    def run(seed):
        return nn.generate(speller.step, [0, 1], speller.cell.initial_state((2,)), longest=7, temperature=1.0, rng=seed)

    made = run(3)
    assert made.ids.shape == (7, 2) and made.lengths.tolist() == [7, 7] and not made.state.requires_grad
    assert np.array_equal(run(3).ids, made.ids) and not np.array_equal(run(4).ids, made.ids)
    nothing = nn.generate(speller.step, [0], speller.cell.initial_state((1,)), longest=0)
    assert nothing.ids.shape == (0, 1) and nothing.lengths.tolist() == [0]


def test_no_step_is_made_when_every_row_has_ended():
    calls = []

    def step(ids, state):
        calls.append(ids.tolist())
        return np.eye(3)[np.array([1, 2]) if len(calls) == 1 else [2, 2]], None

    made = nn.generate(step, [0, 0], longest=9, end=2)
    assert calls == [[0, 0], [1, 2]] and made.ids.tolist() == [[1, 2]] and made.lengths.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"first": 3}, ValueError, r"first as whole numbers, one for each row \(B,\)"),
        ({"first": [0.5]}, ValueError, "got .* float64"),
        ({"longest": -1}, ValueError, "longest as a whole number >= 0, got -1"),
        ({"temperature": 1.0}, ValueError, "generate needs rng"),
        ({"step": lambda ids, state: np.zeros((1, 3))}, TypeError, r"returns \(logits, state\), got ndarray"),
        ({"step": lambda ids, state: (np.zeros(3), None)}, ValueError, r"logits \(B, K\) for 1 rows, got shape"),
    ],
)
def test_what_cannot_generate_is_refused(options, error, told):
    given = {"step": lambda ids, state: (np.zeros((1, 3)), None), "first": [0], "longest": 2} | options
    with pytest.raises(error, match=told):
        nn.generate(**given)


# --- tied weights, and layers one after the other


def test_a_tied_readout_and_its_table_are_one_parameter_whose_gradient_is_that_of_both():
    words = nn.Embedding(4, 3, rng=0)
    model = nn.Module()
    model.words, model.readout = words, nn.Linear(tied=words, bias=False)
    assert list(model.named_parameters()) == ["words.table"] and set(model.state_dict()) == {"words.table", "readout.W"}
    ids, targets = np.array([0, 2, 2]), np.array([1, 3, 0])
    nn.cross_entropy(model.readout(words(ids)), targets).backward()
    mine, table = words.table.grad, words.table.data
    logits = table[ids] @ table.T
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    g = (p - np.eye(4)[targets]) / 3
    expected = g.T @ table[ids]
    np.add.at(expected, ids, g @ table)
    np.testing.assert_allclose(mine, expected, rtol=1e-12)
    tg.optim.SGD(model, 0.1).step()
    assert model.readout.W is words.table
    other = nn.Module()
    other.words = nn.Embedding(4, 3, rng=1)
    other.readout = nn.Linear(tied=other.words, bias=False)
    other.load_state_dict(model.state_dict())
    assert np.array_equal(other.readout.W.data, words.table.data)


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda words: nn.Linear(tied=words.table), TypeError, "tied to an Embedding, got Tensor"),
        (lambda words: nn.Linear(4, 3, tied=words), ValueError, r"Embedding\(4, 3\) has m=3 and d=4, got 4 and 3"),
        (lambda words: nn.Linear(3, tied=words), ValueError, "got 3 and None"),
        (lambda words: nn.Linear(), ValueError, "Linear needs m as a whole number >= 0, got None"),
        (lambda words: nn.Linear(tied=words)(np.ones(4)), ValueError, "inputs of width 3 .* got shape"),
        (lambda words: nn.Sequential([words]), TypeError, r"is a list: write Sequential\(a, b\)"),
        (lambda words: nn.Sequential(nn.Linear), TypeError, r"is the class Linear: make one, Linear\(\.\.\.\)"),
        (lambda words: nn.Sequential(nn.GRU(2, 3))(np.ones((4, 2))), TypeError, "of Tensor, list: call a recurrent"),
    ],
)
def test_layers_that_do_not_fit_are_refused(call, error, told):
    with pytest.raises(error, match=told):
        call(nn.Embedding(4, 3, rng=0))


def test_layers_one_after_the_other_are_their_composition_and_their_modes_are_set():
    a, drop, b = nn.Linear(2, 3, rng=0), nn.Dropout(0.5, rng=0), nn.Linear(3, 1, rng=1)
    net, x = nn.Sequential(a, tg.tanh, drop, b), np.ones((4, 2))
    assert np.array_equal(net.eval()(x).data, b(tg.tanh(a(x))).data) and not drop.training
    assert net[0] is a and len(net) == 4 and nn.Sequential()(x) is x
