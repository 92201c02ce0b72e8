"""Reading the tape: uses, cuts, crossings, chains, visibility, the walk, diagnosis; and the numbers of the sources."""

import contextlib
import copy
import functools
import io
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq.engine import ops
from tinygrad_seq.engine.backward import collect, sweep, times_rates

ROOT = Path(__file__).parents[2]
few = settings(max_examples=max(settings().max_examples // 2, 5))


def same(a, b):
    """Equal bit for bit, also in the sign of zero."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def folded(uses):
    """The contributions, added one by one in the order in which the pass met them."""
    contributions = [use.contribution for use in sorted(uses, key=lambda use: use.arrival)]
    return functools.reduce(np.add, contributions)


def carrying(tape):
    """Every tensor on the tape that has a gradient."""
    return [x for x in (*tape.leaves, *tape) if x.requires_grad]


def one_weight(w=0.5, cut=None):
    """Example 12.1: h = x + w h over 1, 0, 0, and half the squared distance of the last state from 1."""
    w = tg.Tensor(w, requires_grad=True, name="w")
    h = tg.Tensor(0.0, name="h")
    for t, x in enumerate([1.0, 0.0, 0.0], start=1):
        with tg.step(t):
            h = (x + w * h).named("h")
    return w, tg.Tape((0.5 * (h - 1.0) ** 2).named("L"))


# Random programs: shared tensors, many copies, zeros of both signs ---------------------------------------------------

MOVES = [
    lambda x: x.T,
    lambda x: x.reshape(-1, 2),
    lambda x: x[::-1],
    lambda x: x[1:],
    lambda x: x[..., :1],
    lambda x: x[0:2, ..., None].squeeze(-1),
    lambda x: x.swapaxes(0, 1)[..., None],
]
RATES = [
    tg.tanh,
    tg.relu,
    lambda x: -x,
    lambda x: x * 0.0,
    lambda x: x * x,
    lambda x: x.sum(0, keepdims=True),
    lambda x: tg.softmax(x),
    lambda x: x[[0, 0]],
]
PAIRS = [
    lambda a, b: a * b,
    lambda a, b: a - b,
    lambda a, b: a @ b,
    lambda a, b: tg.concat([a, b]),
    lambda a, b: tg.concat([a, b, a], axis=-1),
    lambda a, b: tg.stack([a, b])[0],
    lambda a, b: tg.stack([b, a], axis=-1),
    lambda a, b: tg.einsum("...i,...i->...", a, b),
    lambda a, b: tg.where(np.arange(a.shape[-1]) % 2 == 0, a, b),
]
picks = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 2, 2]), st.integers(0, 8), st.integers(1, 6), st.integers(1, 6)),
    min_size=2,
    max_size=14,
)


def program(steps, dtype, seed):
    """A tape of a random program; what does not fit the shapes is left out."""
    rng = np.random.default_rng(seed)

    def values(*shape):
        return rng.choice([0.1, 0.7, -1.3, -0.0, 0.0], shape).astype(dtype)

    found = [tg.Tensor(values(*shape), requires_grad=True) for shape in ((2, 2), (4, 2), (2, 2), (1, 2))]
    for kind, which, i, j in steps:
        a, b = found[-min(i, len(found))], found[-min(j, len(found))]
        with contextlib.suppress(ValueError, IndexError, TypeError):
            table = (MOVES, RATES, PAIRS)[kind]
            y = table[which % len(table)](*((a, b) if kind == 2 else (a,)))
            if y.size <= 200:
                found.append(y)
    results = found[-3:]
    loss = functools.reduce(lambda a, b: a + b, ((y * values(*y.shape)).sum() for y in results))
    tape = tg.Tape(loss, *(y for y in results[:1] if y.operation))
    seeds = [np.array(1.0, dtype), *(values(*y.shape) for y in tape.results[1:])]
    return tape, seeds if len(seeds) > 1 else seeds[0]


@settings(max_examples=4 * settings().max_examples)
@given(picks, st.sampled_from([np.float32, np.float64]), st.integers(0, 10**6))
def test_uses_add_up_to_the_gradient_of_every_tensor_bit_for_bit(steps, dtype, seed):
    tape, seeds = program(steps, dtype, seed)
    flow = tape.flow(seeds)
    for x in carrying(tape):
        uses = flow.uses(x)
        assert same(uses.total(), flow[x]), x.label()
        if uses:
            assert same(np.asarray(folded(uses)), flow[x]), x.label()
        for use in uses:
            assert use.contribution.shape == x.shape
            assert use.contribution.dtype == x.dtype


def test_zeros_that_a_join_sends_beside_a_use_take_the_sign_of_minus_zero():
    x, y = (tg.Tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    used = x * tg.Tensor([-0.0, 3.0])
    flow = tg.Tape(used.sum() + tg.stack([x, y])[1].sum()).flow()
    (use,) = flow.uses(x)  # the other reads y's part of the stack
    assert same(use.contribution, flow[x])
    assert not np.signbit(flow[x]).any()


def test_a_sum_made_at_a_copy_counts_as_one_use_where_it_would_not_add_up_otherwise():
    w = tg.Tensor(np.full((2, 2), 0.1), requires_grad=True, name="w")
    turned = w.T
    parts = [(turned * c).sum() for c in (0.1, 0.7, 1.3)]
    alone = tg.Tape(parts[0] + parts[1] + parts[2]).flow()
    assert [use.operation for use in alone.uses(w)] == ["multiply"] * 3
    beside = tg.Tape(parts[0] + parts[1] + parts[2] + (w * 0.3).sum()).flow()  # arrives first
    assert [use.operation for use in beside.uses(w)] == ["transpose", "multiply"]
    once = tg.Tape(parts[0] + (w * 0.3).sum()).flow()  # one contribution is its own sum
    assert [use.operation for use in once.uses(w)] == ["multiply", "multiply"]
    for flow in (alone, beside, once):
        assert same(folded(flow.uses(w)), flow[w])


def test_a_weight_that_enters_through_a_copy_shows_a_use_at_each_step():
    rng = np.random.default_rng(0)
    W, U, b = (tg.Tensor(rng.standard_normal(s), requires_grad=True) for s in ((2, 6), (3, 6), (6,)))
    A = tg.concat([W, U])  # joined once, sliced into gates once, one of them turned once
    left, right = A[:, :3], A[:, 3:].T
    h = tg.Tensor(np.zeros(3))
    for t in range(1, 5):
        with tg.step(t):
            u = tg.concat([rng.standard_normal(2), h])
            h = tg.tanh(u @ left + right @ u + b[:3] * b.reshape(2, 3)[1])
    flow = tg.Tape(h.sum()).flow()
    for w in (W, U):
        assert [(use.step, use.operation) for use in flow.uses(w)] == [(t, "matmul") for t in (1, 1, 2, 2, 3, 3, 4, 4)]
    assert [use.step for use in flow.uses(b)] == [1, 1, 2, 2, 3, 3, 4, 4]
    for w in (W, U, b):
        assert same(folded(flow.uses(w)), flow[w])


# Random recurrent networks -------------------------------------------------------------------------------------------


@st.composite
def networks(draw, **fixed):
    """A recurrent network over a few steps, in one or two directions; `carry(before, after, state)` between steps."""
    kind = fixed.get("kind") or draw(st.sampled_from(["rnn", "lstm", "gru"]))
    T, B = draw(st.integers(3, 6)), draw(st.integers(1, 3))
    m, d = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    seed = draw(st.integers(0, 10**6))
    both = fixed["both"] if "both" in fixed else draw(st.booleans())
    slices = draw(st.booleans())
    lossy = draw(st.lists(st.integers(0, T - 1), max_size=3))

    def build(carry=lambda before, after, state: state, untied=False):
        rng = np.random.default_rng(seed)
        make = {"rnn": tg.nn.RNNCell, "lstm": tg.nn.LSTMCell, "gru": tg.nn.GRUCell}[kind]
        cell = make(m, d, rng=rng, dtype=dtype, learned_state=True)
        values = rng.standard_normal((T, B, m)).astype(dtype)
        xs = tg.Tensor(values, requires_grad=True, name="x")
        inputs = list(xs) if slices else [tg.Tensor(v, requires_grad=True, name="x") for v in values]
        cells = [copy.deepcopy(cell) if untied else cell for _ in range(T)]
        outputs = []
        for order in (range(T), range(T)[::-1]) if both else (range(T),):
            state = cell.initial_state((B,))
            states, before = [None] * T, None
            for t in order:
                state = state if before is None else carry(before + 1, t + 1, state)
                with tg.step(t + 1), tg.scope("forward" if order[0] == 0 else "backward"):
                    states[t], state = cells[t](inputs[t], state)
                before = t
            outputs += [tg.stack(states), *(states[t] for t in lossy)]
        loss = functools.reduce(
            lambda a, b: a + b, ((y * rng.standard_normal(y.shape).astype(dtype)).sum() for y in outputs)
        )
        leaves = [*cell.parameters(), *([xs] if slices else inputs)]
        return SimpleNamespace(cell=cell, cells=cells, loss=loss.named("L"), leaves=leaves, T=T, tape=tg.Tape(loss))

    build.kind, build.T, build.both = kind, T, both
    return build


@given(networks())
def test_uses_of_parameters_states_and_inputs_add_up_bit_for_bit(build):
    net = build()
    flow = net.tape.flow()
    for x in carrying(net.tape):
        assert same(flow.uses(x).total(), flow[x]), x.label()
    for parameter in net.cell.parameters():
        if parameter.name in ("A", "b"):
            assert [use.step for use in flow.uses(parameter)] == sorted([*range(1, net.T + 1)] * (1 + build.both))


@given(networks(), st.data())
def test_a_cut_is_a_detach_of_all_that_crosses_bit_for_bit(build, data):
    t = data.draw(st.integers(1, build.T - 1))

    def carry(before, after, state):
        return tg.detach(state) if {before, after} == {t, t + 1} else state

    asked, detached = build(), build(carry)
    flow, reference = asked.tape.flow(cut=[(t, t + 1)]), detached.tape.flow()
    for x, y in zip(asked.leaves, detached.leaves, strict=True):
        assert same(flow[x], reference[y] if y in detached.tape else np.zeros(y.shape, y.dtype)), x.label()


@given(networks(), st.data())
def test_full_flow_is_cut_flow_and_what_crossed(build, data):
    t = data.draw(st.integers(1, build.T - 1))
    net = build()
    full, cut, credit = net.tape.flow(), net.tape.flow(cut=[(t, t + 1)]), net.tape.flow().crossing(t, t + 1)
    assert {x.step for x in credit} <= {t, t + 1}
    sent_on = tg.Tape(*credit)
    both = {t, t + 1} <= {x.step for x in sent_on}
    seeds = list(credit.values())
    rest = sent_on.flow(seeds if len(seeds) > 1 else seeds[0], cut=[(t, t + 1)] if both else [])
    for x in carrying(net.tape):
        crossed = rest[x] if x in sent_on else np.zeros(x.shape)
        assert np.allclose(full[x], cut[x] + crossed, rtol=2e-4, atol=2e-5), x.label()
        if not build.both and x.step is not None and x.step > t:  # beyond the boundary nothing is missing
            assert same(full[x], cut[x])


@few
@given(networks(kind="rnn", both=False), st.data())
def test_where_one_tensor_crosses_its_own_credit_is_the_entry(build, data):
    t = data.draw(st.integers(1, build.T - 1))
    net = build()
    full, cut = net.tape.flow(), net.tape.flow(cut=[(t, t + 1)])
    ((h, credit),) = full.crossing(t, t + 1).items()
    assert h.name == "h" and h.step == t
    assert np.allclose(full[h], cut[h] + credit, rtol=1e-4, atol=1e-5)
    kept = [use for use in full.uses(h) if use.step != t + 1]
    assert same(credit, folded([use for use in full.uses(h) if use.step == t + 1]))
    assert same(cut[h], np.asarray(folded(kept)) if kept else np.zeros(h.shape, h.dtype))


@few
@given(networks(both=False), st.data())
def test_reach_is_where_the_cut_is_and_the_whole_without(build, data):
    net = build()
    t = data.draw(st.integers(1, net.T - 1))
    w = net.cell.b
    assert net.tape.flow().reach(w) == 1
    last = tg.Tape((net.tape.find("h", net.T) ** 2).sum())
    assert last.flow(cut=[(t, t + 1)]).reach(w) == t + 1
    before = [x for x in (*last, *last.leaves) if x.name in ("h", "c") and x.step != net.T]
    assert last.flow(holding=before).reach(w) == net.T


@few
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 5), st.integers(1, 4))
def test_direct_and_second_route_of_an_lstm_are_the_total(seed, m, T, d):
    rng = np.random.default_rng(seed)
    cell = tg.nn.LSTMCell(m, d, rng=rng)
    _, (_, last) = tg.nn.unroll(cell, rng.standard_normal((T, m)))
    tape = tg.Tape(last)
    c = [x for x in tape.find("c") if x.step]
    hs = [x for x in tape.find("h") if x.step]
    gates = [tape.find("f", x.step).data for x in c]
    product = functools.reduce(np.multiply, gates[:0:-1])
    assert (tg.jacobian(last, c[0], holding=hs) == np.diag(product)).all()
    o = {x.step: x.data for x in tape.find("o")}
    for before, after, h in zip(c, c[1:], hs, strict=False):
        by_h = tg.jacobian(after, h) @ np.diag(o[before.step] * (1 - np.tanh(before.data) ** 2))
        assert np.allclose(tg.jacobian(after, before), np.diag(gates[after.step - 1]) + by_h, rtol=1e-10, atol=1e-14)
        # the closed formula of what h does to the next cell
        f, i, g = (tape.find(name, after.step).data for name in "fig")
        U = {name: cell.gate(name).U.T for name in "fig"}
        closed = np.diag(before.data * f * (1 - f)) @ U["f"] + np.diag(g * i * (1 - i)) @ U["i"]
        closed += np.diag(i * (1 - g * g)) @ U["g"]
        assert np.allclose(tg.jacobian(after, h), closed, rtol=1e-10, atol=1e-14)


@few
@given(networks(both=False))
def test_weights_of_their_own_at_each_step_get_the_contributions_of_the_uses(build):
    net, untied = build(), build(untied=True)
    flow, apart = net.tape.flow(), untied.tape.flow()
    for name, parameter in net.cell.named_parameters().items():
        for use in flow.uses(parameter) if parameter.name not in ("h0", "c0") else ():
            own = untied.cells[use.step - 1].named_parameters()[name]
            of_step = folded([other for other in flow.uses(parameter) if other.step == use.step])
            assert same(np.asarray(of_step), np.asarray(apart[own])), (name, use.step)


@few
@given(networks(kind="rnn", both=False))
def test_uses_are_those_of_bptt_by_hand(build):
    net = build()
    flow, tape, (A, b, m) = net.tape.flow(), net.tape, (net.cell.A, net.cell.b, net.cell.m)
    joined = [x for x in tape if x.operation == "concat"]
    recurrent = 0.0
    for t in range(net.T, 0, -1):
        h = tape.find("h", t)
        given_here = [use.contribution for use in flow.uses(h) if use.step is None]
        delta = (sum(given_here) + recurrent) * (1 - h.data**2)
        recurrent = (delta @ A.data.T)[..., m:]
        rows, back = joined[t - 1].data.reshape(-1, len(A)), delta.reshape(-1, b.size)
        (use_A,) = [use for use in flow.uses(A) if use.step == t]
        (use_b,) = [use for use in flow.uses(b) if use.step == t]
        assert np.allclose(use_A.contribution, rows.T @ back, rtol=1e-3, atol=1e-4)
        assert np.allclose(use_b.contribution, back.sum(0), rtol=1e-3, atol=1e-4)


# Who sees whom -------------------------------------------------------------------------------------------------------

# All values and all rates are positive, so nothing cancels: what can depend on an entry does.
POSITIVE = [
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, b: a @ b,
    lambda a, b: tg.concat([a, b]),
    lambda a, b: tg.stack([a, b], axis=1),
    lambda a, b: tg.where(np.arange(a.shape[-1]) % 2 == 0, a, b),
    lambda a, b: tg.einsum("ij,kj->ik", a, b),
    lambda a, b: tg.sqrt(a),
    lambda a, b: tg.cumsum(a, axis=-1),
    lambda a, b: a.T,
    lambda a, b: a[1:],
    lambda a, b: a[..., ::-2],
    lambda a, b: a[[1, 0, 1]],
    lambda a, b: a[0],
    lambda a, b: a.sum(-1),
    lambda a, b: a.reshape(-1),
    lambda a, b: tg.pad(a, 1, constant_values=0.5),
    lambda a, b: tg.norm(a, axis=0),
    lambda a, b: tg.embedding(a, np.array([[1, 0], [0, 0]])),
    lambda a, b: tg.broadcast_to(a, (2, *a.shape)),
]


@given(
    st.lists(
        st.tuples(st.integers(0, len(POSITIVE) - 1), st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=8
    ),
    st.integers(0, 10**6),
)
def test_visibility_is_the_pattern_of_the_jacobian(steps, seed):
    rng = np.random.default_rng(seed)
    leaves = [tg.Tensor(rng.uniform(0.2, 0.8, s), requires_grad=True) for s in ((2, 3), (3, 2), (3,))]
    found = [*leaves]
    for which, i, j in steps:
        with contextlib.suppress(ValueError, IndexError, TypeError):
            y = POSITIVE[which](found[-min(i, len(found))], found[-min(j, len(found))])
            if 0 < y.size <= 60:
                found.append(y)
    y = found[-1]
    assume(y.operation is not None)
    tape = tg.Tape((y * 1.0).sum())
    for x in leaves:
        if x in tape:
            seen = tape.visibility(y, x)
            pattern = tg.jacobian(y, x) != 0
            rows = pattern.reshape(len(y) if y.ndim else 1, -1, x.shape[0], x.size // x.shape[0]).any(axis=(1, 3))
            assert (np.asarray(seen) == rows).all()


@few
@given(st.sampled_from([tg.nn.RNN, tg.nn.LSTM, tg.nn.GRU]), st.booleans(), st.integers(1, 2), st.integers(0, 10**6))
def test_visibility_of_a_stack_of_layers_is_the_pattern_of_the_jacobian(make, both, layers, seed):
    rng = np.random.default_rng(seed)
    net = make(2, 2, layers=layers, bidirectional=both, residual=True, rng=rng)
    xs = tg.Tensor(rng.standard_normal((4, 2, 2)), requires_grad=True, name="x")
    outputs, _ = net(xs, lengths=[4, 2])
    seen = tg.Tape(outputs.sum()).visibility(outputs, xs)
    pattern = (tg.jacobian(outputs, xs) != 0).any(axis=(1, 2, 4, 5))
    assert (np.asarray(seen) == pattern).all()
    assert both or not np.triu(np.asarray(seen), 1).any()


def test_what_reads_one_step_of_a_stacked_sequence_does_not_see_the_others():
    xs = [tg.Tensor([float(t), 1.0], requires_grad=True, name="x") for t in range(4)]
    joined = tg.stack(xs)
    rows = tg.concat([joined, joined * 2.0], axis=1)
    outputs = [(rows[t] ** 2).sum().named("y") for t in range(4)]
    gathered = [rows[np.array([t, (t + 1) % 4])].sum() for t in range(4)]
    tape = tg.Tape(*outputs, *gathered)
    assert (np.asarray(tape.visibility(outputs, xs)) == np.eye(4, dtype=bool)).all()
    assert (np.asarray(tape.visibility(gathered, "x")) == np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool)
            | np.eye(4, k=-3, dtype=bool)).all()  # fmt: skip


def test_a_value_that_happens_to_be_zero_or_saturated_hides_nothing():
    x = tg.Tensor([0.0, -3.0, 400.0], requires_grad=True, name="x")
    y = tg.tanh(tg.relu(x) * x) * tg.Tensor([0.0, 0.0, 0.0])
    assert (np.asarray(tg.Tape(y.sum()).visibility(y, x)) == np.eye(3, dtype=bool)).all()
    assert not tg.jacobian(y, x).any()


def test_visibility_prints_who_sees_whom_by_name_and_step():
    w, tape = one_weight()
    assert str(tape.visibility("h", [tape.find("h", 2), w])).splitlines() == [
        "Who sees whom: ● where the row can depend on the column",
        "    h2  w",
        "──  ──  ─",
        "h1   ·  ●",
        "h2   ●  ●",
        "h3   ●  ●",
    ]


# Chains and credit ---------------------------------------------------------------------------------------------------


@few
@given(st.sampled_from(["rnn", "gru"]), st.integers(1, 3), st.integers(2, 6), st.integers(0, 10**6))
def test_a_chain_multiplies_to_the_jacobian_and_stays_within_its_bound(kind, d, T, seed):
    rng = np.random.default_rng(seed)
    cell = {"rnn": tg.nn.RNNCell, "gru": tg.nn.GRUCell}[kind](2, d, rng=rng)
    _, h = tg.nn.unroll(cell, rng.standard_normal((T, 2)), tg.Tensor(rng.standard_normal(d), name="h"))
    tape = tg.Tape((h * rng.standard_normal(d)).sum())
    first = tape.find("h", 1)
    chain, flow = tape.flow().chain("h"), tape.flow()
    J = tg.jacobian(h, first)
    assert chain.column("from → to") == tuple(f"{t} → {t - 1}" for t in range(T, 1, -1))
    left = np.linalg.norm(flow[first]) / np.linalg.norm(flow[h])
    assert np.isclose(chain.column("left")[-1], left, rtol=1e-9)
    if d == 1:
        assert np.isclose(chain.column("product")[-1], J.item(), rtol=1e-9)
    else:
        assert np.isclose(chain.column("‖product‖")[-1], np.linalg.norm(J, 2), rtol=1e-9)
        for row in chain.rows:
            assert row[4] <= row[3] * (1 + 1e-9) <= row[5] * (1 + 1e-9) ** 2
        entry = tape.flow().chain("h", entry=(1, 0))
        assert np.isclose(entry.column("product[1, 0]")[-1], J[1, 0], rtol=1e-9)
        one = tg.jacobian(h, tape.find("h", T - 1))
        assert np.isclose(entry.rows[0][1], one[1, 0], rtol=1e-12)
        assert np.isclose(entry.rows[0][2], np.linalg.norm(one, 2), rtol=1e-12)


@few
@given(st.sampled_from([tg.nn.RNNCell, tg.nn.LSTMCell, tg.nn.GRUCell]), st.integers(2, 5), st.integers(0, 10**6))
def test_the_credit_of_all_losses_is_the_gradient_and_each_row_that_of_its_loss(make, T, seed):
    rng = np.random.default_rng(seed)
    cell = make(1, 2, rng=rng)
    outputs, _ = tg.nn.unroll(cell, rng.standard_normal((T, 1)))
    losses, total = [], 0.0
    for t in range(T):
        with tg.step(t + 1):
            losses.append((tg.tanh(outputs[t] @ rng.standard_normal(2)) ** 2).named("loss"))
            total = total + losses[-1] * rng.standard_normal()
    flow = tg.Tape(total).flow()
    credit = flow.credit("loss", cell.A, entry=(2, 1))
    assert np.isclose(credit.sum(), flow[cell.A][2, 1], rtol=1e-9, atol=1e-12)
    assert "the sum is" in credit.title
    assert (np.asarray(credit) == np.tril(credit)).all()
    for loss, row in zip(losses, np.asarray(credit), strict=True):
        alone = tg.Tape(loss).flow(seed=flow[loss])
        assert np.isclose(row.sum(), alone[cell.A][2, 1], rtol=1e-9, atol=1e-12)
        by_step = {use.step: use.contribution[2, 1] for use in alone.uses(cell.A)}
        assert np.allclose(row, [by_step.get(t, 0) for t in range(1, T + 1)], rtol=1e-9, atol=1e-12)
    beside = tg.Tape(total + (cell.A**2).sum()).flow().credit("loss", cell.A)
    assert "some credit passes by" in beside.title


def test_a_chain_through_an_explosion_says_so():
    U = tg.Tensor(np.full((2, 2), 1e200), requires_grad=True, name="U")
    h = tg.Tensor([1e-300, 1e-300], name="h")
    with np.errstate(over="ignore", invalid="ignore"):
        for t in (1, 2, 3):
            with tg.step(t):
                h = (h @ U).named("h")
        chain = tg.Tape((h * 1e-300).sum()).flow().chain("h")
    assert np.isfinite(chain.rows[0][2])
    assert np.isnan(chain.rows[-1][3])


def test_credit_does_not_go_from_one_loss_into_another():
    w = tg.Tensor(2.0, requires_grad=True, name="w")
    with tg.step(1):
        first = (w * 3.0).named("loss")
    with tg.step(2):
        second = (first * w).named("loss")
    flow = tg.Tape(first + second).flow()
    assert np.asarray(flow.credit("loss", "w")).tolist() == [[9.0, 0.0], [0.0, 6.0]]  # the first has gradient 1 + w
    assert flow["w"] == 15


# The walk ------------------------------------------------------------------------------------------------------------


@few
@given(picks, st.integers(0, 10**6))
def test_the_walk_passes_every_gradient_and_sends_all_of_it(steps, seed):
    tape, seeds = program(steps, np.float64, seed)
    flow = tape.flow(seeds)
    received = {
        y: np.array(g) for y, g in zip(tape.results, seeds if isinstance(seeds, list) else [seeds], strict=True)
    }
    numbers = []
    for visit in flow.steps():
        numbers.append(visit.tensor._number)
        assert same(visit.incoming, flow[visit.tensor])
        assert np.allclose(
            received[visit.tensor], visit.incoming, rtol=1e-12, atol=1e-15
        )  # complete when its turn comes
        for sent in visit.sent:
            received[sent.to] = received.get(sent.to, 0) + sent.contribution
            assert np.isclose(np.linalg.norm(sent.contribution), np.linalg.norm(visit.incoming) * abs(sent.factor))
    assert numbers == sorted(numbers, reverse=True)
    for x in tape.leaves:
        assert np.allclose(received.get(x, 0), flow[x], rtol=1e-12, atol=1e-15)


def test_every_operation_of_the_table_has_its_rate_in_words():
    operations = [row.operation for row in ops.TABLE]
    assert not [f.__name__ for f in operations if (f.every or any(f.rules)) and not f.rate]
    assert not [f.__name__ for f in operations if f.rate and not (f.every or any(f.rules))]


def test_the_rate_of_a_second_input_is_that_of_the_first():
    a, b = tg.Tensor(3.0, requires_grad=True), tg.Tensor(2.0, requires_grad=True)
    for result, rates in [
        (a - b, ["1", "-1"]),
        (a / b, ["1 / divisor", "-y / divisor"]),
        (a**b, ["p x^(p-1)", "y log x"]),
    ]:
        (visit,) = tg.Tape(result).flow().steps()
        assert [sent.rate for sent in visit.sent] == rates
    joined = tg.concat([a[None], b[None], a[None]])  # the last words stand for all that follow
    assert {
        s.rate for visit in tg.Tape(joined.sum()).flow().steps() if visit.operation == "concat" for s in visit.sent
    } == {"1, its own part"}


def test_a_printed_flow_walks_back_from_the_loss():
    _, tape = one_weight()
    lines = str(tape.flow()).splitlines()
    assert " ".join(lines[3].split()) == "— L = multiply(0.5, %8) 1 0.5 the other factor 0.5 %8"
    assert " ".join(lines[-1].split()) == "gradient of w -0.75"


# Jacobians of a state ------------------------------------------------------------------------------------------------


def differences(cell, x, state):
    """The Jacobian of one step by central differences, the parts of the state side by side."""
    parts = list(state) if isinstance(state, tuple) else [state]
    sizes = [part.size for part in parts]

    def flat(values):
        arrays = [a.reshape(p.shape) for a, p in zip(np.split(values, np.cumsum(sizes)[:-1]), parts, strict=True)]
        tensors = [tg.Tensor(a) for a in arrays]
        new = cell(x, state._make(tensors) if isinstance(state, tuple) else tensors[0])[1]
        return np.concatenate([p.data.ravel() for p in (new if isinstance(new, tuple) else (new,))])

    start = np.concatenate([part.data.ravel() for part in parts])
    return np.stack([(flat(start + e) - flat(start - e)) / 2e-6 for e in np.eye(len(start)) * 1e-6], axis=1)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda rng: tg.nn.RNNCell(2, 3, rng=rng), "h"),
        (lambda rng: tg.nn.GRUCell(2, 3, rng=rng), "h"),
        (lambda rng: tg.nn.GRUCell(2, 3, update="write", reset="after", rng=rng), "h"),
        (lambda rng: tg.nn.LSTMCell(2, 3, rng=rng), "hc"),
        (lambda rng: tg.nn.LSTMCell(2, 3, projection=2, rng=rng), "hc"),
    ],
)
@pytest.mark.parametrize("rows", [(), (2,)])
def test_the_jacobian_of_a_state_is_that_of_central_differences(make, names, rows):
    rng = np.random.default_rng(4)
    cell, x = make(rng), tg.Tensor(rng.standard_normal((*rows, 2)))
    state = cell.initial_state(rows)
    filled = [tg.Tensor(rng.standard_normal(p.shape)) for p in (state if isinstance(state, tuple) else (state,))]
    state = state._make(filled) if isinstance(state, tuple) else filled[0]
    with tg.no_grad():
        jacobian = tg.state_jacobian(cell, x, state)
    assert jacobian.names == tuple(names)
    assert np.allclose(jacobian.matrix, differences(cell, x, state), atol=1e-8)
    assert np.array_equal(np.block([[jacobian[new, old] for old in names] for new in names]), jacobian.matrix)
    assert all(p.grad is None for p in cell.parameters())


def test_the_jacobian_of_an_lstm_state_has_the_forget_gate_on_the_diagonal_of_its_cell():
    rng = np.random.default_rng(4)
    cell = tg.nn.LSTMCell(2, 3, rng=rng)
    state = tg.nn.LSTMState(tg.Tensor(rng.standard_normal(3)), tg.Tensor(rng.standard_normal(3)))
    jacobian = tg.state_jacobian(cell, np.zeros(2), state)
    f = tg.Tape(cell(np.zeros(2), state)[1].c).find("f").pop().data
    assert (jacobian["c", "c"] == np.diag(f)).all()
    assert set(jacobian) == {("h", "h"), ("h", "c"), ("c", "h"), ("c", "c")}


# Diagnosis -----------------------------------------------------------------------------------------------------------


def small_rnn(T=3, mean=True, d=2):
    rng = np.random.default_rng(7)
    cell = tg.nn.RNNCell(1, d, rng=rng)
    outputs, _ = tg.nn.unroll(cell, rng.standard_normal((T, 1)), tg.Tensor(rng.standard_normal(d)))
    losses = (outputs * rng.standard_normal((T, d))).sum(1)
    return cell, tg.Tape(losses.mean() if mean else losses.sum())


def test_every_usual_mistake_is_recognised():
    cell, tape = small_rnn()
    flow, A = tape.flow(), cell.A
    uses, gradient = [use.contribution for use in flow.uses(A)], flow[A]
    slopes = [x.data for x in tape.find("h")]
    assert len(slopes) == len(uses) == 3
    claims = {
        "the sign is reversed": -gradient,
        "2 times the right gradient: counted twice (zero_grad forgotten, or a square's 2 left over)": 2 * gradient,
        "0.333333 times the right gradient: averaged over 3 where contributions are summed": gradient / 3,
        "only the last of 3 uses is counted (matmul at step 3)": uses[2],
        "only the first of 3 uses is counted (matmul at step 1)": uses[0],
        "the first of 3 uses is missing (matmul at step 1)": uses[1] + uses[2],
        "use 2 of 3 is missing (matmul at step 2)": uses[0] + uses[2],
        "the credit was cut between steps 2 and 3 (detached there)": tape.flow(cut=[(2, 3)])[A],
        "it is the gradient of the sum, not of the mean over 3": small_rnn(mean=False)[1].flow()["A"],
    }
    for said, claim in claims.items():
        assert said in flow.diagnose(A, claim), said
    assert flow.diagnose(A, gradient) == ["nothing is wrong: this is the gradient"]
    assert flow.diagnose(A, gradient * 1.37) == ["1.37 times the right gradient"]
    _, summed = small_rnn(mean=False)
    assert "it is the gradient of the mean over 3, not of the sum" in summed.flow().diagnose("A", gradient)


def test_a_transposed_gradient_is_recognised():
    w = tg.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    flow = tg.Tape((w @ np.array([1.0, 10.0])) @ np.array([1.0, 3.0])).flow()
    assert flow.diagnose(w, flow[w].T) == ["transposed"]


@pytest.mark.parametrize(
    ("said", "slope"),
    [
        ("the slope of tanh was forgotten", lambda y: np.ones_like(y)),
        ("the value of tanh was taken for its slope", lambda y: y),
    ],
)
def test_a_forgotten_or_mistaken_slope_is_recognised(said, slope):
    cell, tape = small_rnn()
    flow = tape.flow()
    U = cell.gate("h").U
    by_hand, recurrent = np.zeros(cell.A.shape), 0
    joined = [x._arrays[0] for x in tape if x.operation == "matmul"]
    for t in (3, 2, 1):
        h = tape.find("h", t)
        own = next(use.contribution for use in flow.uses(h) if use.step is None)
        delta = (own + recurrent) * slope(h.data)
        recurrent = delta @ U.T
        by_hand += np.outer(joined[t - 1], delta)
    assert flow.diagnose(cell.A, by_hand) == [said]
    assert same(flow[cell.A], tape.flow()[cell.A])  # asking changed nothing


def one_weight_flow(w):
    h = tg.Tensor(0.0)
    for t, x in enumerate([1.0, 0.0, 0.0], start=1):
        with tg.step(t):
            h = (x + w * h).named("h")
    return tg.Tape(0.5 * (h - 1.0) ** 2).flow()


def test_an_answer_with_few_digits_is_refused_or_a_wrong_one_passes():
    w = tg.Tensor(0.7321, requires_grad=True, name="w")
    flow = one_weight_flow(w)
    right = flow["w"].item()
    for digits in (3, 4, 6):
        assert flow.diagnose("w", float(f"{right:.{digits}g}")) == ["nothing is wrong: this is the gradient"]
    assert "the sign is reversed" in flow.diagnose("w", -float(f"{right:.4g}"))
    assert flow.diagnose("w", round(right, 3) + 0.002)[:1] != ["nothing is wrong: this is the gradient"]
    assert flow.diagnose("w", right + 1e-8)[:1] != ["nothing is wrong: this is the gradient"]
    assert flow.diagnose("w", None) == flow.diagnose("w", None) != []


def test_counting_the_earlier_dependence_again_is_not_recognised():
    found = one_weight_flow(tg.Tensor(0.5, requires_grad=True, name="w")).diagnose("w", -1.125)
    assert "in each use, what the earlier state owes to it was counted again" in found
    assert "3 times" in one_weight_flow(tg.Tensor(0.5, requires_grad=True, name="w")).diagnose("w", -2.25)[0]


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell"])
def test_recurrent_weights_that_were_not_transposed_are_not_recognised(kind):
    rng = np.random.default_rng(3)
    cell = getattr(tg.nn, kind)(2, 3, rng=rng)
    outputs, _ = tg.nn.unroll(cell, rng.standard_normal((3, 2)))
    loss = (outputs * rng.standard_normal((3, 3))).sum()
    flow, U = tg.Tape(loss).flow(), cell.A.data[2:]

    def rates(g, operation, y, values, options, places):
        sent = times_rates(g, operation, y, values, options, places)
        if operation is tg.matmul and 0 in places:
            back = sum(g[k : k + 3] @ U[:, k : k + 3] for k in range(0, U.shape[1], 3))
            sent[0] = np.concatenate([sent[0][:2], back])
        return sent

    order = collect([loss])
    by_hand = sweep(order, {loss: np.ones(())}, rates=rates)[cell.A]
    assert "U stands in place of its transpose" in flow.diagnose(cell.A, by_hand)


def test_a_path_of_a_module_finds_no_tensor_or_another_one():
    nets = {"encoder": tg.nn.GRU(1, 2, rng=0), "decoder": tg.nn.GRU(2, 2, rng=1)}
    outputs, _ = nets["encoder"](np.ones((3, 1)))
    outputs, _ = nets["decoder"](outputs)
    tape = tg.Tape(outputs.sum(), modules=nets)
    A = nets["decoder"].cells[0][0].A
    assert same(tape.flow()["decoder.cells.0.0.A"], tape.flow()[A])
    assert tape.flow().uses("decoder.cells.0.0.A").tensor is A
    with pytest.raises(ValueError, match=r"2 tensors are named 'A': pass the one that you mean.*its path"):
        tg.Tape(outputs.sum()).flow()["A"]
    alone = tg.Tape(outputs.sum(), modules=nets["decoder"])
    assert same(alone.flow()["cells.0.0.A"], tape.flow()[A])


def test_a_name_at_a_step_that_was_computed_twice_says_where_the_step_belongs():
    h = tg.Tensor(1.0, requires_grad=True)
    with tg.step(1):
        for _ in range(3):
            h = (h * 2.0).named("h")
    with pytest.raises(ValueError, match=r"step 1 computed 'h' 3 times: `with tg\.step\(t\):` belongs inside the loop"):
        tg.Tape(h).find("h", 1)


def test_one_tensor_for_a_whole_sequence_is_one_column_of_visibility():
    xs = tg.Tensor(np.ones((3, 1)), requires_grad=True, name="x")
    outputs, _ = tg.nn.unroll(tg.nn.RNNCell(1, 2, rng=0), xs)
    seen = tg.Tape(outputs.sum()).visibility("h", "x")
    assert seen.tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_held_tensors_are_not_in_time_order():
    h = tg.Tensor(1.0, requires_grad=True)
    for t in range(1, 12):
        with tg.step(t):
            h = (h * 0.5).named("h")
    tape = tg.Tape(h)
    told = repr(tape.flow(holding=[tape.find("h", t) for t in (10, 2, 9)]))
    assert told.index("step 2") < told.index("step 9") < told.index("step 10")


# Nothing is changed, nothing is kept ---------------------------------------------------------------------------------


def test_reading_is_pure_and_its_answers_cannot_be_written_to():
    cell, tape = small_rnn()
    flow = tape.flow()
    before = {x: flow[x].copy() for x in carrying(tape)}
    uses = flow.uses("A")
    for question in (
        lambda: flow.table("h", "A"), lambda: flow.chain("h"), lambda: list(flow.steps()), lambda: str(flow),
        lambda: flow.crossing(1, 2), lambda: flow.reach("A"), lambda: flow.diagnose("A", flow["A"] * 2),
        lambda: tape.visibility("h", "A"), lambda: str(uses), lambda: flow.credit([tape.results[0]], "A"),
    ):  # fmt: skip
        question()
    assert all(same(flow[x], before[x]) for x in before)
    assert all(x.grad is None for x in carrying(tape))
    for array in (flow["A"], uses[0].contribution, uses[0].incoming, next(flow.steps()).incoming):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    tape.results[0].backward()
    assert same(cell.A.grad, before[cell.A])


def test_uses_outlive_the_tape_and_a_ledger_asked_for_later_says_that_it_is_gone():
    _, tape = small_rnn()
    flow = tape.flow()
    gradient, uses = flow["A"].copy(), flow.uses("A")
    tape.results[0].backward()
    assert same(uses.total(), gradient)
    with pytest.raises(tg.TapeReleasedError, match="released"):
        flow.uses("b")
    for question in (
        lambda: tape.flow(), lambda: print(tape), lambda: list(flow.steps()), lambda: flow.crossing(1, 2),
        lambda: flow.chain("h"), lambda: tape.visibility("h", "A"),
    ):  # fmt: skip
        with pytest.raises(tg.TapeReleasedError, match="released"):
            question()


def test_a_join_of_many_parts_is_asked_once():
    asked = []

    def parts(g, y, *xs):
        asked.append(len(xs))
        return [g[i : i + 1] for i in range(len(xs))]

    joined = tg.primitive(lambda *xs: np.concatenate(xs), every=parts, name="joined")
    w = tg.Tensor([2.0], requires_grad=True)
    flow = tg.Tape((joined(*[w] * 50) * np.arange(50.0)).sum()).flow()
    asked.clear()
    assert [use.contribution.item() for use in flow.uses(w)] == [*range(50)]
    assert asked == [50]
    stacked = tg.Tape((tg.stack([w] * 50) * np.arange(50.0)[:, None]).sum()).flow()
    assert sorted(use.contribution.item() for use in stacked.uses(w)) == [*range(50)]


def test_a_sequence_that_grows_by_joining_is_followed_without_recursion():
    x = tg.Tensor([1.0], requires_grad=True)
    sequence, total = x * 2.0, 0.0
    first = sequence
    for t in range(1500):
        sequence = tg.concat([sequence, [float(t)]])
        if t % 100 == 0:
            total = total + (sequence * float(t + 1)).sum()
    flow = tg.Tape(total + sequence.sum()).flow()
    uses = flow.uses(first)
    assert same(uses.total(), flow[first])
    assert flow[first] == sum(range(1, 1500, 100)) + 1


# What cannot be answered ---------------------------------------------------------------------------------------------


def _nothing(*_):
    return None


@pytest.mark.parametrize(
    ("question", "kind", "words"),
    [
        (lambda tape: tape.flow()["v"], ValueError, ["'v'", "'L', 'h', 'w'"]),
        (lambda tape: tape.flow()["h"], ValueError, ["4 tensors", "steps 1 to 3", "tape.find('h', step)"]),
        (lambda tape: tape.flow()[tg.Tensor(1.0, requires_grad=True, name="v")], ValueError, ["v is not", "'w'"]),
        (lambda tape: tape.flow().uses(tape.find("h")[0]), ValueError, ["h is a constant", "requires_grad"]),
        (lambda tape: tape.flow(cut=[(3, 4)]), ValueError, ["(3, 4)", "steps 1 to 3"]),
        (lambda tape: tape.flow(cut=[(1, 3)]), ValueError, ["neighbouring", "(1, 3)"]),
        (lambda tape: tape.flow(cut=[(3, 2)]), ValueError, ["neighbouring", "(3, 2)"]),
        (lambda tape: tape.flow().crossing(0, 1), ValueError, ["(0, 1)", "steps 1 to 3"]),
        (lambda tape: tape.flow(holding=[tg.Tensor(1.0, name="v")]), ValueError, ["holding v", "not on this tape"]),
        (lambda tape: tape.flow().table("L", "w"), ValueError, ["'L'", "no step", "tg.step(t)"]),
        (lambda tape: tape.flow().table("k", "w"), ValueError, ["'k'", "'h'"]),
        (lambda tape: tape.flow().chain("w"), ValueError, ["'w'", "no step"]),
        (lambda tape: tape.flow().credit("loss", "w"), ValueError, ["'loss'", "'L'"]),
        (lambda tape: tape.visibility("h", [tape.leaves[1]]), ValueError, ["constant", "requires_grad"]),
        (lambda tape: tape.visibility([tg.Tensor(1.0, name="v")], "w"), ValueError, ["v is not", "'h'"]),
        (lambda tape: tape.flow().diagnose("w", [1.0, 2.0]), ValueError, ["()", "(2,)", "summed back"]),
        (lambda tape: tg.state_jacobian(_nothing, [1.0], {"h": 1}), TypeError, ["lists and dicts of tensors", "int"]),
        (lambda tape: tg.state_jacobian(tg.nn.RNNCell(1, 1), [1.0], tg.Tensor([0.0]))["c", "h"], KeyError, ["'c'"]),
    ],
)
def test_what_cannot_be_answered_is_refused_and_says_what_there_is(question, kind, words):
    _, tape = one_weight()
    with pytest.raises(kind) as error:
        question(tape)
    for word in words:
        assert word in str(error.value)


def test_a_tape_without_steps_says_how_to_label_them():
    w = tg.Tensor(2.0, requires_grad=True, name="w")
    flow = tg.Tape((w * w).named("h")).flow()
    for question in (lambda: flow.crossing(1, 2), lambda: flow.table("h", "w"), lambda: flow.chain("h")):
        with pytest.raises(ValueError, match=re.escape("label")):
            question()
    assert flow.reach("w") is None


def test_states_of_several_layers_are_told_apart_by_scope():
    net = tg.nn.RNN(1, 1, layers=2, rng=0)
    outputs, _ = net(np.ones((3, 1)))
    flow = tg.Tape(outputs.sum().named("L")).flow()
    with pytest.raises(ValueError, match=r"2 tensors are named 'A': say which, as one of layer0.A, layer1.A"):
        flow["A"]
    assert "Each use of layer0.A," in str(flow.table("layer0.h", "layer0.A"))
    with pytest.raises(ValueError, match=r"layer0\.h") as error:
        flow.table("h", net.cells[0][0].A)
    assert "layer1.h" in str(error.value)
    table = flow.table("layer1.h", net.cells[1][0].b)
    assert table.column("step") == (1, 2, 3, "sum")
    assert table.rows[-1][3] == "= ∂L/∂layer1.b"


def test_a_cut_between_labels_that_are_apart_is_between_neighbours():
    w, h = tg.Tensor(0.5, requires_grad=True), tg.Tensor(1.0)
    for t in (10, 20, 30):
        with tg.step(t):
            h = w * h
    tape = tg.Tape(h)
    assert tape.flow(cut=[(10, 20)])[w] == 0.5
    assert tape.flow(cut=[(20, 30)]).reach(w) == 30


# The numbers of the sources, on recorded graphs ----------------------------------------------------------------------


def test_one_weight_has_three_uses():
    w, tape = one_weight()
    flow = tape.flow()
    assert [flow[h] for h in tape.find("h")[1:]] == [-0.1875, -0.375, -0.75]
    assert [use.contribution for use in flow.uses("w")] == [0, -0.375, -0.375]
    assert [(use.step, use.name, use.operation, use.argument) for use in flow.uses(w)] == [
        (t, "h", "multiply", 0) for t in (1, 2, 3)
    ]
    assert [use.incoming for use in flow.uses(w)] == [-0.1875, -0.375, -0.75]
    assert (flow[w], tape.results[0].item()) == (-0.75, 0.28125)
    assert tape.flow(holding=[tape.find("h", 2)])[w] == -0.375
    assert tape.flow(cut=[(2, 3)])[w] == -0.375
    assert flow.crossing(2, 3) == {tape.find("h", 2): -0.375}
    assert [row[1:3] for row in flow.chain("h").rows] == [(0.5, 0.5), (0.5, 0.25)]


def test_gates_that_are_supplied_give_the_states_of_the_examples():
    def logit(p):
        return np.log(p / (1 - p))

    lstm = tg.nn.LSTMCell(1, 1)
    for gate, b in {"f": logit(0.9), "i": logit(0.2), "o": logit(0.75), "g": np.arctanh(0.5)}.items():
        lstm.set_gate(gate, W=0.0, U=0.0, b=b)
    h, (_, c) = lstm([0.0], tg.nn.LSTMState(tg.Tensor([0.0]), tg.Tensor([0.8])))
    tape = tg.Tape(h)
    kept, written = [x.item() for x in tape if x.operation == "multiply"][:2]
    assert np.allclose([kept, written, c.item()], [0.72, 0.10, 0.82], rtol=1e-14)
    assert np.isclose(h.item(), 0.5063024061289558, rtol=1e-14)

    for update, state in {"keep": 0.7397375320224905, "write": 0.2576377882024136}.items():
        gru = tg.nn.GRUCell(1, 1, update=update)
        for gate, b in {"z": logit(0.9), "r": logit(0.25)}.items():
            gru.set_gate(gate, W=0.0, U=0.0, b=b)
        gru.set_gate("g", W=0.0, U=1.0, b=0.0)
        h, _ = gru([0.0], tg.Tensor([0.8]))
        assert np.isclose(tg.Tape(h).find("g")[0].item(), 0.197375320224904, rtol=1e-14)
        assert np.isclose(h.item(), state, rtol=1e-14)


@pytest.mark.parametrize(("output", "hidden"), [(np.inf, 0.2913126124515909), (-np.inf, 0.0)])
def test_the_output_gate_exposes_the_cell_and_leaves_it_alone(output, hidden):
    lstm = tg.nn.LSTMCell(1, 1)
    for gate, b in {"f": np.inf, "i": -np.inf, "o": output, "g": 0.0}.items():
        lstm.set_gate(gate, W=0.0, U=0.0, b=b)
    h, (_, c) = lstm([0.0], tg.nn.LSTMState(tg.Tensor([0.0]), tg.Tensor([0.3])))
    assert (c.item(), h.item()) == (0.3, hidden)


def test_what_is_held_may_be_named_and_one_cut_needs_no_list():
    outputs, _state = tg.nn.LSTM(1, 2, rng=0)(np.ones((3, 1)))
    tape = tg.Tape(outputs.sum().named("L"))
    held = tape.flow(holding=list(tape.find("h")))
    for holding in ("h", ["h"], "layer0.h", [*tape.find("h")[:-1], tape.find("h", 3)]):
        assert (tape.flow(holding=holding)["A"] == held["A"]).all()
    assert not (held["A"] == tape.flow()["A"]).all()
    with pytest.raises(ValueError, match=r"no tensor on this tape is named 'z'"):
        tape.flow(holding=["z"])
    assert tape.flow(cut=(2, 3)).cut == tape.flow(cut=[(2, 3)]).cut == ((2, 3),)
    assert tape.flow(cut=((1, 2), (2, 3))).cut == ((1, 2), (2, 3))
    with pytest.raises(ValueError, match=r"as in \(2, 3\); got \(3, 4\)"):
        tape.flow(cut=(3, 4))


# Pages and examples --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["one_weight_three_uses", "distance_multiplies", "value_crosses_credit_does_not", "two_routes"],
)
def test_the_example_holds_what_it_asserts_on_any_terminal(name, monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="")
    monkeypatch.setattr("sys.stdout", terminal)
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    terminal.flush()
    printed = terminal.buffer.getvalue().decode()
    assert printed.count("\n") > 20
    assert not re.findall(r"-0\.0(?![\d.])", printed)


def test_the_page_on_reading_is_run():
    page = (ROOT / "docs" / "reading.md").read_text(
        encoding="utf-8"
    )  # and prints what it shows: see test_documentation
    assert page.count("```python\n") > 12


@pytest.mark.parametrize(
    "bounded",
    [lambda x: tg.minimum(x, 0.3), lambda x: tg.maximum(x, 2), lambda x: tg.clip(x, -0.1, 0.1), lambda x: x**0.5],
    ids=["minimum", "maximum", "clip", "power"],
)
def test_a_bound_hides_nothing_from_visibility(bounded):
    x = tg.Tensor([0.05, 0.2], requires_grad=True)
    y = bounded(x)
    assert np.array_equal(tg.Tape(y).visibility([y], [x]), [[True]])


def test_a_tape_and_a_flow_tell_in_one_line_what_they_are():
    w, h = tg.Tensor(0.5, requires_grad=True, name="w"), tg.Tensor(1.0, name="h")
    for t in (1, 2, 4):
        with tg.step(t):
            h = (w * h).named("h")
    tape = tg.Tape(h)
    assert repr(tape) == "Tape(h at step 4: 3 operations, steps 1 to 2, 4; print it to read them)"
    assert repr(tape.flow()) == f"Flow({tape!r})"
    asked = tape.flow(holding=tape.find("h", 1), cut=[(1, 2), (2, 4)])
    assert repr(asked) == f"Flow({tape!r}, holding h at step 1, cut at (1, 2), (2, 4))"
    assert repr(tg.Tape(-w)) == "Tape(the result of negative: 1 operations; print it to read them)"
    h.backward()
    assert repr(tape).startswith("Tape(h at step 4: 3 operations") and repr(asked).endswith("(2, 4))")


def test_a_state_jacobian_tells_in_one_line_what_it_is():
    cell = tg.nn.LSTMCell(1, 2, rng=0)
    found = tg.state_jacobian(cell, [1.0], cell.initial_state())
    assert repr(found) == "StateJacobian(h, c: matrix (4, 4); print it to read its blocks)"


def test_a_step_of_a_state_in_a_dict_and_lists_has_a_block_for_each_part() -> None:
    def cell(x, state):
        a, (b,) = state["a"], state["b"]
        return a, {"b": [2.0 * b], "a": a * b}  # another order than the state came in

    jacobian = tg.state_jacobian(cell, [1.0], {"a": tg.Tensor([3.0]), "b": [tg.Tensor([5.0])]})
    assert jacobian["a", "a"].tolist() == [[5.0]] and jacobian["a", "b.0"].tolist() == [[3.0]]
    assert jacobian["b.0", "a"].tolist() == [[0.0]] and jacobian["b.0", "b.0"].tolist() == [[2.0]]
