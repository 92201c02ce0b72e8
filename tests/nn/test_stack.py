"""Cells over time and in stacks: laws, lengths, dropout, truncation, cells of one's own, refusals."""

import copy
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq import nn
from tinygrad_seq.nn.unrolling import map_state
from tinygrad_seq.testing import check_grads

seeds = st.integers(0, 2**32 - 1)
properties = settings(max_examples=max(1, settings().max_examples // 4))


# Two cells of one's own: all that it takes.


class Peephole(nn.Module):
    """The gates also see the cell, through one weight per unit (Gers and Schmidhuber 2000)."""

    def __init__(self, m, d, rng=None):
        self.A = tg.Tensor(nn.glorot(rng, m + d, 4 * d), requires_grad=True)
        self.b = tg.Tensor(np.zeros(4 * d), requires_grad=True)
        self.p = tg.Tensor(nn.glorot(rng, 3, d), requires_grad=True)

    def initial_state(self, batch_shape=()):
        return (tg.Tensor(np.zeros((*batch_shape, self.p.shape[1]))),) * 2

    def __call__(self, x, state):
        h, c = state
        f, i, o, g = tg.split(tg.concat([x, h], -1) @ self.A + self.b, 4, -1)
        c = tg.sigmoid(f + self.p[0] * c) * c + tg.sigmoid(i + self.p[1] * c) * tg.tanh(g)
        h = tg.sigmoid(o + self.p[2] * c) * tg.tanh(c)
        return h.named("h"), (h, c.named("c"))


class Coupled(nn.Module):
    """What is forgotten makes room for what is written: i = 1 - f (Greff et al. 2017). Its state is a dict."""

    def __init__(self, m, d, rng=None):
        self.A = tg.Tensor(nn.glorot(rng, m + d, 3 * d), requires_grad=True)
        self.b = tg.Tensor(np.zeros(3 * d), requires_grad=True)

    def initial_state(self, batch_shape=()):
        return {name: tg.Tensor(np.zeros((*batch_shape, len(self.b) // 3))) for name in "hc"}

    def __call__(self, x, state):
        f, o, g = tg.split(tg.concat([x, state["h"]], -1) @ self.A + self.b, 3, -1)
        f = tg.sigmoid(f)
        c = f * state["c"] + (1 - f) * tg.tanh(g)
        h = tg.sigmoid(o) * tg.tanh(c)
        return h, {"h": h, "c": c}


CELLS = {
    "rnn": nn.RNNCell,
    "lstm": nn.LSTMCell,
    "lstm projection": lambda m, d, rng: nn.LSTMCell(m, d, projection=2, learned_state=True, rng=rng),
    "gru": lambda m, d, rng: nn.GRUCell(m, d, learned_state=True, rng=rng),
    "gru write after": lambda m, d, rng: nn.GRUCell(m, d, "write", "after", rng=rng),
    "peephole": Peephole,
    "coupled": Coupled,
}
kinds = pytest.mark.parametrize("kind", CELLS)


def made(kind, seed, m=2, d=3):
    cell = CELLS[kind](m, d, rng=seed)
    rng = np.random.default_rng(seed)
    for x in cell.parameters():
        x.data = x.data + 0.3 * rng.normal(size=x.shape)
    return cell


def parts(state):
    found = []
    map_state(found.append, state)
    return found


def pulled(results, leaves, seed=0):
    """The gradients of the leaves, for random cotangents of all the results."""
    rng = np.random.default_rng(seed)
    loss = sum((y * rng.normal(size=y.shape)).sum() for y in results)
    return tg.grad(loss, leaves)


def assert_same(mine, theirs, **tolerance):
    for a, b in zip(mine, theirs, strict=True):
        a, b = (x.data if isinstance(x, tg.Tensor) else x for x in (a, b))
        np.testing.assert_allclose(a, b, **({"rtol": 0, "atol": 1e-12} | tolerance))


# --- one cell over time


@kinds
@properties
@given(seed=seeds, T=st.integers(1, 5), reverse=st.booleans())
def test_an_unroll_is_the_loop_that_one_would_write(kind, seed, T, reverse):
    cell, xs = made(kind, seed), np.random.default_rng(seed).normal(size=(T, 2, 2))
    outputs, end = nn.unroll(cell, xs, reverse=reverse)
    state, expected = cell.initial_state((2,)), [None] * T
    for t in reversed(range(T)) if reverse else range(T):
        expected[t], state = cell(xs[t], state)
    assert_same([outputs, *parts(end)], [tg.stack(expected), *parts(state)], atol=0)


@kinds
@properties
@given(seed=seeds, T=st.integers(2, 6), data=st.data())
def test_a_sequence_is_its_beginning_and_then_the_rest(kind, seed, T, data):
    k = data.draw(st.integers(0, T))
    cell, xs = made(kind, seed), np.random.default_rng(seed).normal(size=(T, 2, 2))
    outputs, end = nn.unroll(cell, xs)
    first, between = nn.unroll(cell, xs[:k])
    rest, last = nn.unroll(cell, xs[k:], between)
    assert_same([outputs, *parts(end)], [tg.concat([first, rest]), *parts(last)], atol=0)
    whole = pulled([outputs, *parts(end)], cell.parameters())
    assert_same(pulled([tg.concat([first, rest]), *parts(last)], cell.parameters()), whole)


@kinds
@properties
@given(seed=seeds, T=st.integers(1, 5))
def test_backwards_is_forwards_on_the_mirrored_sequence(kind, seed, T):
    cell, xs = made(kind, seed), np.random.default_rng(seed).normal(size=(T, 2, 2))
    outputs, end = nn.unroll(cell, xs, reverse=True)
    mirrored, other = nn.unroll(cell, xs[::-1])
    assert_same([outputs, *parts(end)], [tg.flip(mirrored, 0), *parts(other)], atol=0)


@kinds
@properties
@given(seed=seeds, T=st.integers(1, 5), B=st.integers(1, 4), reverse=st.booleans(), data=st.data())
def test_rows_of_unlike_lengths_are_what_each_is_alone(kind, seed, T, B, reverse, data):
    lengths = data.draw(st.lists(st.integers(1, T), min_size=B, max_size=B))
    cell, rng = made(kind, seed), np.random.default_rng(seed)
    xs = tg.Tensor(rng.normal(size=(T, B, 2)), requires_grad=True)
    start = map_state(lambda x: tg.Tensor(rng.normal(size=x.shape), requires_grad=True), cell.initial_state((B,)))
    outputs, end = nn.unroll(cell, xs, start, lengths, reverse)
    leaves = [xs, *parts(start), *(x for x in cell.parameters() if x.name not in ("h0", "c0"))]
    cotangents = [rng.normal(size=y.shape) for y in (outputs, *parts(end))]
    together = tg.grad(sum((y * g).sum() for y, g in zip((outputs, *parts(end)), cotangents, strict=True)), leaves)

    loss = 0
    for b, n in enumerate(lengths):
        row, last = nn.unroll(cell, xs[:n, b], map_state(lambda x, b=b: x[b], start), reverse=reverse)
        np.testing.assert_allclose(outputs.data[:n, b], row.data, rtol=0, atol=1e-13)
        assert not outputs.data[n:, b].any()
        assert_same([x.data[b] for x in parts(end)], parts(last), atol=1e-13)
        loss = loss + (row * cotangents[0][:n, b]).sum()
        loss = loss + sum((y * g[b]).sum() for y, g in zip(parts(last), cotangents[1:], strict=True))
    assert_same(together, tg.grad(loss, leaves))


@kinds
@pytest.mark.parametrize("reverse", [False, True])
def test_at_padding_the_state_on_the_tape_stays_what_it_was(kind, reverse):
    cell, lengths = made(kind, 1), [2, 4, 1]
    outputs, end = nn.unroll(cell, np.random.default_rng(0).normal(size=(4, 3, 2)), None, lengths, reverse)
    tape = tg.Tape(outputs.sum() + sum(x.sum() for x in parts(end)))
    if kind == "coupled":
        return  # names nothing
    for b, n in enumerate(lengths):
        for t in range(n + 1, 5):
            kept = parts(cell.initial_state((3,)))[0].data if reverse else tape.find("h", n).data
            np.testing.assert_array_equal(tape.find("h", t).data[b], kept[b])
    for t in (3, 4):
        assert not tape.flow()[tape.find("h before padding", t)][[0, 2]].any()


def test_garbage_at_padding_reaches_nothing_with_any_cell_or_stack():
    rng, lengths = np.random.default_rng(0), np.array([3, 1, 2])
    clean = rng.normal(size=(3, 3, 2))
    padding = np.arange(3)[:, None] >= lengths
    alone = made("peephole", 1)
    stack = nn.Stack([[made("peephole", 1), made("coupled", 2)], [made("gru", 3, m=6)]])
    for net in (nn.LSTM(2, 3, rng=0), stack, alone):
        outcomes = []
        for garbage in (0.0, np.nan, -np.inf, 1e300):
            xs = tg.Tensor(np.where(padding[..., None], garbage, clean), requires_grad=True)
            outputs, states = nn.unroll(net, xs, lengths=lengths) if net is alone else net(xs, lengths=lengths)
            gradients = pulled([outputs, *parts(states)], [xs, *net.parameters()])
            assert not gradients[0][padding].any()
            outcomes.append([outputs.data, *(x.data for x in parts(states)), *gradients])
        for other in outcomes[1:]:
            for a, b in zip(outcomes[0], other, strict=True):
                np.testing.assert_array_equal(a, b)


@kinds
def test_full_lengths_are_no_lengths(kind):
    cell, xs = made(kind, 1), np.random.default_rng(0).normal(size=(3, 2, 2))
    one, other = nn.unroll(cell, xs, lengths=np.array([3, 3])), nn.unroll(cell, xs)
    assert_same([one[0], *parts(one[1])], [other[0], *parts(other[1])], atol=0)


@kinds
@pytest.mark.parametrize("reverse", [False, True])
def test_a_sequence_of_no_steps_gives_no_outputs_and_the_state_unchanged(kind, reverse):
    cell = made(kind, 1)
    h, _ = cell(np.zeros((2, 2)), cell.initial_state((2,)))
    start = map_state(lambda x: tg.Tensor(np.ones(x.shape)), cell.initial_state((2,)))
    outputs, end = nn.unroll(cell, np.zeros((0, 2, 2)), start, reverse=reverse)
    assert outputs.shape == (0, *h.shape) and outputs.dtype == h.dtype
    assert all(mine is theirs for mine, theirs in zip(parts(end), parts(start), strict=True))


@kinds
def test_an_unbatched_sequence_is_a_batch_of_one(kind):
    cell, xs = made(kind, 1), np.random.default_rng(0).normal(size=(4, 2))
    alone, end = nn.unroll(cell, xs)
    batch, ends = nn.unroll(cell, xs[:, None])
    assert batch.shape == (4, 1, alone.shape[1]) and alone.ndim == 2
    assert_same([alone, *parts(end)], [batch[:, 0], *(x[0] for x in parts(ends))], atol=1e-15)
    short, end = nn.unroll(cell, xs, lengths=3)
    assert_same([short[:3], *parts(end)], [alone[:3], *parts(nn.unroll(cell, xs[:3])[1])], atol=0)


@kinds
def test_the_gradient_of_an_unroll_is_right(kind):
    """Through several steps, lengths, and both directions' carried states, against numerical derivatives."""
    cell, rng = made(kind, 1), np.random.default_rng(0)
    names = list(cell.named_parameters())
    xs, start = rng.normal(size=(3, 2, 2)), [rng.normal(size=x.shape) for x in parts(cell.initial_state((2,)))]

    def run(xs, *rest):
        here = copy.copy(cell)
        for name, value in zip(names, rest[len(start) :], strict=True):
            setattr(here, name, value)
        given = iter(rest)
        state = map_state(lambda _: next(given), cell.initial_state((2,)))
        outputs, end = nn.unroll(here, xs, state, lengths=[3, 2])
        return outputs, tuple(parts(end))

    check_grads(run, xs, *start, *(x.data for x in cell.parameters()), rng=1)


def test_steps_count_from_one_and_follow_the_position_in_both_directions():
    outputs, _ = nn.unroll(made("lstm", 1), np.ones((3, 2)))
    assert [x.step for x in tg.Tape(outputs.sum()).find("f")] == [1, 2, 3]
    outputs, _ = nn.unroll(made("lstm", 1), np.ones((3, 2)), reverse=True)
    tape = tg.Tape(outputs.sum())
    assert [x.step for x in sorted(tape.find("f"), key=lambda x: x._number)] == [3, 2, 1]
    np.testing.assert_array_equal(tape.find("h", 1).data, outputs.data[0])


def test_a_long_sequence_needs_no_recursion():
    cell = nn.RNNCell(1, 1)
    cell.set_gate("h", W=0.5, U=0.5)
    start = tg.Tensor([0.1], requires_grad=True)
    outputs, _ = nn.unroll(cell, np.ones((5000, 1)), start)
    outputs[0].sum().backward(retain_graph=True)
    assert abs(start.grad.item() - 0.5 * (1 - outputs.data[0, 0] ** 2)) < 1e-15
    outputs[-1].sum().backward()
    assert np.isfinite(cell.A.grad).all() and cell.A.grad.any()


# --- what went wrong elsewhere


def bidirectional_tanh():
    net = nn.RNN(1, 1, bidirectional=True)
    for cell in net.cells[0]:
        cell.set_gate("h", W=0.5, U=0.8, b=0.1)
    return net


def test_each_row_of_a_bidirectional_layer_ends_and_begins_at_its_own_end():
    xs = np.array([[1.0, 4.0], [2.0, np.nan], [3.0, np.nan]])[..., None]
    outputs, [[there, back]] = bidirectional_tanh()(xs, lengths=[3, 1])
    np.testing.assert_allclose(outputs.data[:, 0, 1], [0.876492978820, 0.950538669265, 0.921668554406], atol=1e-12)
    np.testing.assert_allclose(there.data[:, 0], [0.981180985853, 0.970451936614], atol=1e-12)
    np.testing.assert_allclose(back.data[:, 0], [0.876492978820, 0.970451936614], atol=1e-12)
    assert outputs.data[1:, 1].tolist() == [[0.0, 0.0]] * 2


def test_padding_before_a_row_would_be_read_as_zeros_and_is_not_what_lengths_are_for():
    """Left padding moves the state by the bias: .97768709 in place of .97045194. Lengths count from the start."""
    cell = bidirectional_tanh().cells[0][0]
    padded, _ = nn.unroll(cell, np.array([[0.0], [0.0], [4.0]]))
    assert abs(padded.data[-1, 0] - 0.97768709) < 1e-8
    for garbage in (0.0, -7.0, np.nan):
        _, h = nn.unroll(cell, np.array([[4.0], [garbage], [garbage]]), lengths=1)
        assert abs(h.item() - 0.970451936614) < 1e-12


@pytest.mark.parametrize(("k", "expected"), [(1, 0.036), (2, 0.072), (3, 0.108)])
def test_truncation_counts_each_use_within_reach_once(k, expected):
    """h ← w h three times, w = .2, h0 = .9: each use gives w² h0, and k of them are within reach."""
    cell = nn.RNNCell(0, 1, activation="linear")
    cell.set_gate("h", U=0.2)
    _, h = nn.unroll(cell, np.zeros((3 - k, 0)), tg.Tensor([0.9]))
    outputs, _ = nn.unroll(cell, np.zeros((k, 0)), tg.detach(h))
    outputs[-1].sum().backward()
    assert abs(cell.A.grad.item() - expected) < 1e-15
    if k < 3:
        outputs, _ = nn.unroll(cell, np.zeros((3, 0)), tg.Tensor([0.9]))
        flow = tg.Tape(outputs[-1].sum()).flow(cut=[(3 - k, 4 - k)])
        assert abs(flow[cell.A].item() - expected) < 1e-15


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_state_that_is_carried_on_detached_keeps_every_chunks_graph_alike(make):
    net, xs = make(2, 3, layers=2, rng=0), np.random.default_rng(0).normal(size=(60, 2, 2))
    state, sizes = None, []
    for piece in nn.chunks(xs, 3):
        outputs, state = net(piece, state)
        loss = outputs.square().sum()
        sizes.append(len(tg.Tape(loss)))
        loss.backward()
        state = tg.detach(state)
        assert not any(x.requires_grad for x in parts(state))
    assert len(sizes) == 20 and len(set(sizes[1:])) == 1


def test_a_state_that_is_carried_on_undetached_runs_into_released_ground_and_says_so():
    net, xs = nn.LSTM(2, 3, rng=0), np.ones((4, 2))
    outputs, state = net(xs)
    outputs.sum().backward()
    outputs, _ = net(xs, state)
    with pytest.raises(tg.TapeReleasedError, match=r"at step 4.*detach"):
        outputs.sum().backward()


def test_the_gradients_of_two_chunks_add_up():
    net, xs = nn.GRU(2, 3, rng=0), np.random.default_rng(0).normal(size=(6, 2))
    state, losses = None, []
    for piece in nn.chunks(xs, 3):
        outputs, state = net(piece, tg.detach(state))
        losses.append(outputs.square().sum())
        losses[-1].backward(retain_graph=True)
    for x, first, second in zip(net.parameters(), *(tg.grad(loss, net.parameters()) for loss in losses), strict=True):
        np.testing.assert_allclose(x.grad, first + second, rtol=1e-14)
        assert first.any() and second.any()


def test_at_the_first_step_the_given_state_is_read_and_the_last_is_not():
    cell, rng = made("lstm", 3), np.random.default_rng(0)
    h0, c0 = (tg.Tensor(rng.normal(size=3), requires_grad=True) for _ in "hc")
    xs = tg.Tensor(rng.normal(size=(4, 2)), requires_grad=True)
    outputs, _ = nn.unroll(cell, xs, nn.LSTMState(h0, c0))
    assert all(g.any() for g in tg.grad(outputs[0].sum(), [h0, c0]))
    last = tg.grad(outputs[0].sum(), xs)
    assert last[0].any() and not last[1:].any()


# --- stacks


def stacked(seed=0, **options):
    net = nn.LSTM(2, 3, layers=3, bidirectional=True, rng=seed, **options)
    return net, np.random.default_rng(seed).normal(size=(4, 2, 2))


def test_a_stack_is_its_cells_by_hand():
    net, xs = stacked()
    outputs, states = net(xs)
    below = xs
    for (there, back), ends in zip(net.cells, states, strict=True):
        one, end = nn.unroll(there, below)
        two, other = nn.unroll(back, below, reverse=True)
        assert_same([*parts(ends)], [*end, *other], atol=0)
        below = tg.concat([one, two], -1)
    assert_same([outputs], [below], atol=0)
    mine, theirs = (pulled([y], net.parameters()) for y in (outputs, below))
    assert_same(mine, theirs, atol=0)


@properties
@given(seed=seeds, lengths=st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_in_a_stack_too_each_row_is_what_it_is_alone(seed, lengths):
    net, _ = stacked(seed, projection=2)
    xs = np.random.default_rng(seed).normal(size=(4, 3, 2))
    outputs, states = net(xs, lengths=lengths, every_layer=True)
    for b, n in enumerate(lengths):
        alone, ends = net(xs[:n, b], every_layer=True)
        for mine, theirs in zip(outputs, alone, strict=True):
            np.testing.assert_allclose(mine.data[:n, b], theirs.data, rtol=0, atol=1e-13)
            assert not mine.data[n:, b].any()
        assert_same([x.data[b] for x in parts(states)], parts(ends), atol=1e-13)


def test_the_outputs_of_every_layer_are_to_be_had():
    net, xs = stacked()
    every, states = net(xs, every_layer=True)
    last, _ = net(xs)
    assert len(every) == len(states) == 3
    assert_same([every[-1]], [last], atol=0)
    one, _ = nn.Stack(net.cells[:1])(xs)
    assert_same([every[0]], [one], atol=0)


def test_residual_adds_a_layers_input_from_the_second_layer_on():
    plain, xs = stacked(5)
    residual, _ = stacked(5, residual=True)
    every, _ = residual(xs, every_layer=True)
    assert_same([every[0]], [plain(xs, every_layer=True)[0][0]], atol=0)
    for k in (1, 2):
        added, _ = nn.Stack([residual.cells[k]])(every[k - 1])
        assert_same([every[k]], [added + every[k - 1]], atol=0)
    with pytest.raises(ValueError, match=r"one width, got \(4, 2, 3\) below \(4, 2, 5\)"):
        nn.Stack([nn.RNNCell(2, 3), nn.RNNCell(3, 5)], residual=True)(xs)


def test_names_on_the_tape_stand_under_their_layer_and_direction():
    net, xs = stacked()
    outputs, _ = net(xs)
    tape = tg.Tape(outputs.sum())
    assert tape.find("layer2.backward.f", 3).shape == (2, 3)
    assert tape.find("layer0.forward.c", 4).step == 4
    assert tape.find("layer1.forward.A") == [net.cells[1][0].A]
    for name in "fiogch":
        assert len([x for x in tape.find(name) if x.step is not None]) == 4 * 6
    single, _ = nn.GRU(2, 3, rng=0)(xs)
    assert tg.Tape(single.sum()).find("layer0.z", 2).shape == (2, 3)
    with pytest.raises(ValueError, match=r"6 tensors at step 3 are named 'f': say which, as \['layer0\.backward\.f'"):
        tape.find("f", step=3)


def test_a_gate_table_is_read_off_the_tape():
    outputs, _ = nn.LSTM(2, 1, rng=0)(np.ones((3, 2)))
    tape = tg.Tape(outputs.sum())
    for t in (1, 2, 3):
        f, i, o, g, c = (tape.find(name, t).item() for name in "fiogc")
        before = tape.find("c", t - 1).item() if t > 1 else 0
        assert abs(c - (f * before + i * g)) < 1e-15
        assert abs(outputs.data[t - 1].item() - o * np.tanh(c)) < 1e-15


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_state_goes_on_where_the_last_call_ended(make):
    net, xs = make(2, 3, layers=2, rng=0), np.random.default_rng(0).normal(size=(6, 4, 2))
    outputs, end = net(xs)
    first, between = net(xs[:2])
    again, _ = net(xs[:2])
    rest, last = net(xs[2:], between)
    assert_same([first], [again], atol=0)  # nothing was remembered
    assert_same([outputs, *parts(end)], [tg.concat([first, rest]), *parts(last)], atol=1e-14)
    assert_same(parts(net(xs[:0], between)[1]), parts(between), atol=0)


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (4, 1), (4, 0), (0, 0), (3,), (0,)])
def test_the_smallest_sequences_and_batches_keep_their_axes(make, shape):
    net = make(2, 5, layers=2, bidirectional=True, rng=0)
    outputs, states = net(np.ones((*shape, 2)))
    assert outputs.shape == (*shape, 10)
    assert {x.shape for x in parts(states)} == {(*shape[1:], 5)}


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
def test_float32_stays_float32_in_a_stack_with_everything(make):
    net = make(2, 3, layers=2, bidirectional=True, dropout=0.5, recurrent_dropout=0.5, residual=True, rng=0, dtype="f4")
    outputs, states = net(np.ones((4, 2, 2), np.float32), lengths=[4, 2])
    tape = tg.Tape(outputs.sum() + sum(x.sum() for x in parts(states)))
    assert {x.dtype for x in tape} == {np.dtype(np.float32)}
    assert all(tape.flow()[p].dtype == np.float32 for p in net.parameters())
    empty, _ = net(np.ones((0, 2, 2), np.float32))
    assert empty.dtype == np.float32


def test_cells_of_ones_own_are_stacked_trained_and_saved_like_the_others():
    rng = np.random.default_rng(0)
    net = nn.Stack([[Peephole(2, 4, rng), Coupled(2, 4, rng)], nn.GRUCell(8, 4, rng=rng)], dropout=0.1, rng=0)
    assert len(net.parameters()) == 3 + 2 + 5
    xs, target = rng.normal(size=(5, 8, 2)), rng.normal(size=(8, 4))
    optimiser, losses = tg.optim.Adam(net.parameters(), lr=0.02), []
    for _ in range(60):
        _, states = net(xs, lengths=[5, 4, 3, 2, 1, 5, 5, 2])
        loss = nn.mse(states[1][0], target)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    other = nn.Stack([[Peephole(2, 4), Coupled(2, 4)], nn.GRUCell(8, 4)]).eval()
    other.load_state_dict(net.state_dict())
    assert_same([other(xs)[0]], [net.eval()(xs)[0]], atol=0)


def test_a_stack_states_its_conventions():
    net = nn.GRU(2, 3, layers=2, bidirectional=True, dropout=0.5, residual=True)
    assert repr(net) == (
        "GRU(dropout=0.5, recurrent_dropout=0.0, residual=True)\n"
        "  layer0.forward: GRUCell(2, 3, gates r z g, update='keep', reset='before', update_bias=0.0)\n"
        "  layer0.backward: GRUCell(2, 3, gates r z g, update='keep', reset='before', update_bias=0.0)\n"
        "  layer1.forward: GRUCell(6, 3, gates r z g, update='keep', reset='before', update_bias=0.0)\n"
        "  layer1.backward: GRUCell(6, 3, gates r z g, update='keep', reset='before', update_bias=0.0)"
    )
    assert repr(nn.RNN(2, 3)).splitlines()[1] == "  layer0: RNNCell(2, 3, gates h, activation='tanh')"


# --- dropout


def linear_stack(layers=2, m=1, d=60, **options):
    """Layers that copy their input: what dropout does to it can be read off the outputs."""
    net = nn.RNN(m, d, layers=layers, activation="linear", rng=0, **options)
    for k, (cell,) in enumerate(net.cells):
        cell.set_gate("h", W=np.eye(d) if k else 1.0, U=0.0)
    return net


def test_dropout_acts_between_layers_anew_at_each_step_and_call_in_training_only():
    net = linear_stack(dropout=0.25)
    every, _ = net(np.ones((3, 4, 1)), every_layer=True)
    assert (every[0].data == 1).all()  # not on the inputs
    assert set(np.unique(every[1].data)) == {0.0, 1 / 0.75}  # not on the outputs of the last
    kept = every[1].data != 0
    assert abs(kept.mean() - 0.75) < 6 * np.sqrt(0.75 * 0.25 / kept.size)
    assert not np.array_equal(kept[0], kept[1])
    assert not np.array_equal(net(np.ones((3, 4, 1)))[0].data, every[1].data)
    assert (net.eval()(np.ones((3, 1, 1)))[0].data == 1).all()
    assert (net.train()(np.ones((3, 1, 1)))[0].data != 1).all()


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_at_its_ends_is_the_identity_and_nothing(p):
    net = linear_stack(dropout=p)
    xs = tg.Tensor(np.ones((3, 1, 1)), requires_grad=True)
    outputs, _ = net(xs)
    assert (outputs.data == 1 - p).all()
    outputs.sum().backward()
    assert np.isfinite(xs.grad).all() and bool(xs.grad.any()) == (p == 0)


def test_recurrent_dropout_draws_one_mask_for_a_sequence_and_a_new_one_at_each_call():
    d = 120
    net = nn.RNN(0, d, activation="linear", recurrent_dropout=0.25, rng=0)
    net.cells[0][0].set_gate("h", U=np.eye(d))
    start = [[tg.Tensor(np.ones((1, d)))]]
    outputs, _ = net(np.zeros((3, 1, 0)), start)
    kept = outputs.data[0] != 0
    for t in range(3):
        np.testing.assert_allclose(outputs.data[t], np.where(kept, (1 / 0.75) ** (t + 1), 0))
    assert abs(kept.mean() - 0.75) < 6 * np.sqrt(0.75 * 0.25 / d)
    again, _ = net(np.zeros((3, 1, 0)), start)
    assert not np.array_equal(again.data[0] != 0, kept)
    np.testing.assert_array_equal(net.eval()(np.zeros((3, 1, 0)), start)[0].data, np.ones((3, 1, d)))


def test_recurrent_dropout_hides_the_state_from_the_gates_and_not_from_the_blend():
    """A GRU that keeps (z = 1) carries its state past any mask; an LSTM's cell is never masked."""
    gru = nn.GRU(1, 4, recurrent_dropout=0.5, rng=0)
    gru.cells[0][0].set_gate("z", W=0, U=0, b=np.inf)
    h = tg.Tensor(np.arange(1.0, 5.0))
    outputs, _ = gru(np.ones((3, 1)), [[h]])
    np.testing.assert_array_equal(outputs.data, [h.data] * 3)
    lstm = nn.LSTM(1, 4, recurrent_dropout=1.0, rng=0)
    xs, start = np.ones((3, 1)), [[nn.LSTMState(h, h)]]
    outputs, _ = lstm(xs, start)
    for gate in "fiog":
        lstm.cells[0][0].set_gate(gate, U=0.0)
    np.testing.assert_array_equal(lstm.eval()(xs, start)[0].data, outputs.data)


def test_one_seed_draws_the_same_masks_and_numpys_generator_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    runs = [nn.LSTM(2, 3, 2, dropout=0.5, recurrent_dropout=0.5, rng=4)(np.ones((3, 2)))[0].data for _ in "ab"]
    np.testing.assert_array_equal(*runs)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_dropout_in_one_layer_is_told_to_do_nothing():
    with pytest.warns(UserWarning, match="dropout acts between layers, and there is one layer"):
        nn.LSTM(2, 3, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.LSTM(2, 3, recurrent_dropout=0.5)
        nn.LSTM(2, 3, layers=2, dropout=0.5)


# --- replay: other lengths each time


def test_a_replayed_stack_reads_the_lengths_of_each_call():
    net = nn.LSTM(2, 3, layers=2, bidirectional=True, rng=0)
    rng = np.random.default_rng(0)

    def loss_of(xs, lengths):
        outputs, states = net(xs, lengths=lengths)
        return outputs.square().sum() + sum((x * x * x).sum() for x in parts(states))

    step = tg.replay(loss_of, wrt=net.parameters())
    for lengths in ([4, 4, 4], [1, 4, 2], [3, 3, 1], [4, 2, 4]):
        xs, lengths = rng.normal(size=(4, 3, 2)), np.array(lengths)
        net.zero_grad()
        replayed = step(xs, lengths).item()
        loss = loss_of(xs, lengths)
        assert abs(replayed - loss.item()) < 1e-12
        assert_same([x.grad for x in net.parameters()], tg.grad(loss, net.parameters()))
    with pytest.raises(ValueError, match=r"lengths lie in 0\.\.4.*got 2\.\.5"):
        step(xs, np.array([2, 5, 3]))


@pytest.mark.parametrize("replayed", [False, True])
def test_a_row_of_length_0_keeps_its_state_and_puts_out_zeros(replayed):
    (xs, lengths, _), *_ = tg.data.batch_by_length([np.ones((3, 2)), np.zeros((0, 2)), np.ones((1, 2))], batch=3)
    net = nn.LSTM(2, 3, layers=2, bidirectional=True, rng=0)
    start = [[nn.LSTMState(np.full((3, 3), 0.5), np.full((3, 3), -0.5))] * 2] * 2

    def run(xs, lengths):
        outputs, states = net(xs, start, lengths)
        return outputs.square().sum(), (outputs, states)

    loss, (outputs, states) = tg.replay(run, wrt=net)(xs, lengths) if replayed else run(xs, lengths)
    assert lengths.tolist() == [0, 1, 3] and not outputs.data[:, 0].any() and outputs.data[2, 2].all()
    for layer in states:
        for h, c in layer:
            assert (h.data[0] == 0.5).all() and (c.data[0] == -0.5).all() and (h.data[1] != 0.5).all()
    if not replayed:
        loss.backward()
    mine = net.cells[0][0].A.grad
    net.zero_grad()
    outputs, _ = net(xs[:, 1:], [[nn.LSTMState(h[1:], c[1:]) for h, c in layer] for layer in start], lengths[1:])
    outputs.square().sum().backward()
    np.testing.assert_allclose(mine, net.cells[0][0].A.grad, rtol=1e-12)


# --- refusals


@pytest.mark.parametrize(
    ("lengths", "error", "told"),
    [
        ([1, 4], ValueError, r"lengths lie in 0\.\.3, the number of steps, got 1\.\.4"),
        ([-1, 2], ValueError, r"got -1\.\.2"),
        ([1.0, 2.0], TypeError, "lengths are whole numbers, got dtype float64"),
        ([True, True], TypeError, "lengths are whole numbers, got dtype bool"),
        ([1, 2, 3], ValueError, r"one entry for each row, shape \(2,\), got \(3,\)"),
        (2, ValueError, r"one entry for each row, shape \(2,\), got \(\)"),
        ([[1], [2]], ValueError, r"shape \(2,\), got \(2, 1\)"),
    ],
)
@pytest.mark.parametrize("run", [lambda *a, **k: nn.unroll(nn.RNNCell(2, 3), *a, **k), nn.LSTM(2, 3)])
def test_lengths_that_do_not_fit_are_refused(run, lengths, error, told):
    with pytest.raises(error, match=told):
        run(np.ones((3, 2, 2)), lengths=lengths)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (tg.Tensor(np.zeros((2, 3))), r"states\[layer\]\[direction\], 2 layer\(s\) with \[1, 1\] .*, got Tensor"),
        ([[tg.Tensor(np.zeros((2, 3)))]], r"2 layer\(s\)"),
        ([[tg.Tensor(np.zeros((2, 3)))] * 2] * 2, r"2 layer\(s\)"),
        ([[tg.Tensor(np.zeros((1, 3)))]] * 2, r"a state of shape \(1, 3\) does not fit .* its rows are \(2,\)"),
        ([[tg.Tensor(np.zeros(3))]] * 2, r"a state of shape \(3,\) does not fit a sequence of shape \(4, 2, 2\)"),
        ([[tg.Tensor(np.zeros((2, 5)))]] * 2, r"RNNCell needs h of shape \(2, 3\) .* got \(2, 5\)"),
    ],
)  # fmt: skip
def test_a_stacks_state_that_does_not_fit_is_refused(state, told):
    with pytest.raises(ValueError, match=told):
        nn.RNN(2, 3, layers=2)(np.ones((4, 2, 2)), state)


def test_a_state_of_another_batch_is_refused_for_any_cell():
    for kind in CELLS:
        cell = made(kind, 1)
        for batch in ((), (1,), (3,)):
            with pytest.raises(ValueError, match=r"does not fit a sequence of shape \(4, 2, 2\)"):
                nn.unroll(cell, np.ones((4, 2, 2)), cell.initial_state(batch))


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: nn.LSTM(2, 3)(np.ones(2)), ValueError, r"LSTM needs a sequence of rows, .*got \(2,\)"),
        (lambda: nn.unroll(nn.RNNCell(2, 3), 1.0), ValueError, r"unroll needs a sequence of rows.*got \(\)"),
        (lambda: nn.LSTM(2, 3)(np.ones((4, 1, 3))), ValueError, r"LSTMCell needs inputs of width 2"),
        (lambda: nn.LSTM(2, 3)(np.ones((0, 1, 3))), ValueError, r"LSTMCell needs inputs of width 2"),
        (lambda: nn.LSTM(2, 3)(np.ones((4, 1, 2), int)), TypeError, "floating-point inputs, got dtype int64"),
        (lambda: nn.LSTM(2, 3, layers=0), ValueError, "LSTM needs layers as a whole number >= 1, got 0"),
        (lambda: nn.LSTM(2, 3, layers=2, dropout=-0.1), ValueError, r"dropout is a probability in 0\.\.1, got -0\.1"),
        (lambda: nn.GRU(2, 3, recurrent_dropout=2), ValueError, r"recurrent_dropout is a probability in 0\.\.1, got 2"),
        (lambda: nn.GRU(2, 3, forget_bias=1.0), TypeError, "forget_bias"),
        (lambda: nn.Stack([]), ValueError, "at least one layer"),
        (lambda: nn.Stack([[nn.RNNCell(2, 3)] * 3]), ValueError, r"one or two cells \(directions\)"),
        (lambda: nn.Stack([len]), TypeError, r"a cell has initial_state\(batch_shape\) and cell\(x, state\)"),
        (lambda: nn.Stack([Peephole(2, 3)], recurrent_dropout=0.1), TypeError, "Peephole takes no mask"),
        (lambda: nn.chunks(np.ones(5), 0), ValueError, "chunks needs k.* as a whole number >= 1, got 0"),
        (lambda: nn.chunks(np.ones(5), 2.0), ValueError, "got 2.0"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(call, error, told):
    with pytest.raises(error, match=told):
        call()


def test_a_cell_whose_parameters_would_not_be_found_is_refused():
    class Loose:
        def __init__(self):
            self.w = tg.Tensor(1.0, requires_grad=True)

        def initial_state(self, batch_shape=()):
            return tg.Tensor(np.zeros(batch_shape))

        def __call__(self, x, state):
            return self.w * x, state

    with pytest.raises(TypeError, match=r"the parameters of Loose would not be found: derive it from tg\.nn\.Module"):
        nn.Stack([Loose()])


def test_chunks_are_the_sequence_in_pieces():
    xs = np.arange(14.0).reshape(7, 2)
    pieces = list(nn.chunks(xs, 3))
    assert [len(piece) for piece in pieces] == [3, 3, 1]
    np.testing.assert_array_equal(np.concatenate(pieces), xs)
    assert list(nn.chunks(xs[:0], 3)) == []
    whole = tg.Tensor(xs, requires_grad=True)
    sum((k + 1) * piece.sum() for k, piece in enumerate(nn.chunks(whole, 3))).backward()
    assert whole.grad[:, 0].tolist() == [1, 1, 1, 2, 2, 2, 3]


def test_detach_goes_through_every_structure():
    h = tg.Tensor([1.0], requires_grad=True) * 2
    state = [[nn.LSTMState(h, h)], ({"c": h, "none": None},)]
    detached = tg.detach(state)
    assert isinstance(detached[0][0], nn.LSTMState) and detached[1][0]["none"] is None
    assert all(not x.requires_grad and x.data.tolist() == [2.0] for x in (*detached[0][0], detached[1][0]["c"]))
    assert tg.detach(None) is None
    zeros = np.zeros(2)
    assert tg.detach([0.5, zeros]) == [0.5, zeros]  # what has no history passes as it is


def test_what_is_no_cell_is_told_what_a_cell_needs():
    class Wordless(nn.Module):
        def __call__(self, x, state):
            return x  # two rows: they would pass for h and the new state

    class Rows(Wordless):
        def initial_state(self, batch_shape=()):
            return tg.Tensor(np.zeros((*batch_shape, 2)))

    xs = np.ones((3, 2, 2))
    needs = r"a cell has initial_state\(batch_shape\) and cell\(x, state\) -> \(h, state\); Wordless has not"
    for use in (lambda cell: nn.unroll(cell, xs), lambda cell: nn.Stack([cell])(xs)):
        with pytest.raises(TypeError, match=needs):
            use(Wordless())
        with pytest.raises(TypeError, match=r"Rows needs to return h and the new state, \(h, state\), got Tensor"):
            use(Rows())
        with pytest.raises(TypeError, match=r"RNNCell is a class, and a cell is needed: make one, RNNCell\(\.\.\.\)"):
            use(nn.RNNCell)
    Rows.__call__ = lambda self, x, state: (x, state, state)
    with pytest.raises(TypeError, match="got tuple of 3"):
        nn.unroll(Rows(), xs)


def test_a_layer_that_is_given_outputs_and_states_or_a_list_of_tensors_says_what_to_take():
    net, head = nn.RNN(1, 2, rng=0), nn.Linear(2, 1, rng=0)
    xs = np.ones((3, 2, 1))
    with pytest.raises(TypeError, match=r"got a tuple of Tensor, list: of \(outputs, states\).*take the outputs"):
        head(net(xs))
    with pytest.raises(TypeError, match=r"got a list of Tensor, Tensor, Tensor, …: .*tg\.stack"):
        net([tg.Tensor(x) for x in np.ones((4, 2, 1))])
    with pytest.raises(TypeError, match=r"requires a gradient.*tg\.stack or tg\.concat"):
        tg.Tensor([head.b, head.b])
    with pytest.raises(ValueError, match=r"got \(3,\); of a series of numbers take xs\[:, None\]"):
        net([1.0, 2.0, 3.0])


def test_bce_refuses_labels_outside_its_range_when_it_is_replayed_too_and_passes_gradients_to_soft_targets():
    w, p = tg.Tensor([0.5, -1.0], requires_grad=True), tg.Tensor([0.25, 1.0], requires_grad=True)
    step = tg.replay(lambda targets: nn.bce_with_logits(w, targets, reduction="sum"))
    for targets in (np.array([0.0, 1.0]), np.array([1.0, 0.5])):
        assert step(targets).item() == nn.bce_with_logits(w, targets, reduction="sum").item()
    with pytest.raises(ValueError, match=r"0\.\.1, got -1\.0\.\.1\.0"):
        step(np.array([-1.0, 1.0]))
    assert np.allclose(tg.grad(nn.bce_with_logits(w, p, reduction="sum"), p), -w.data)


@pytest.mark.parametrize("given", [2.0, "3", -1, True])
def test_a_layer_names_the_width_that_is_none(given):
    for make, what in (
        (lambda: nn.Linear(given, 2), "Linear needs m"),
        (lambda: nn.Linear(2, given), "Linear needs d"),
        (lambda: nn.Embedding(given, 2), "Embedding needs n"),
        (lambda: nn.RNN(2, given), "RNNCell needs d"),
    ):
        with pytest.raises(ValueError, match=f"{what} as a whole number >= [01], got {given!r}"):
            make()
