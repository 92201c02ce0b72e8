"""Recurrent cells: their equations against the textbook's numbers, their gradients, options and refusals."""

import copy
import pickle
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq import nn
from tinygrad_seq.testing import check_grads

seeds = st.integers(0, 2**32 - 1)
properties = settings(max_examples=max(1, settings().max_examples // 3))

CELLS = {
    "rnn": lambda m, d, **o: nn.RNNCell(m, d, **o),
    "rnn relu": lambda m, d, **o: nn.RNNCell(m, d, "relu", **o),
    "rnn linear": lambda m, d, **o: nn.RNNCell(m, d, "linear", **o),
    "lstm": lambda m, d, **o: nn.LSTMCell(m, d, **o),
    "lstm 1997": lambda m, d, **o: nn.LSTMCell(m, d, forget_gate=False, **o),
    "lstm projection": lambda m, d, **o: nn.LSTMCell(m, d, projection=2, **o),
    "lstm clips": lambda m, d, **o: nn.LSTMCell(m, d, projection=2, cell_clip=0.4, projection_clip=0.04, **o),
    **{
        f"gru {update} {reset}": lambda m, d, update=update, reset=reset, **o: nn.GRUCell(m, d, update, reset, **o)
        for update, reset in product(("keep", "write"), ("before", "after"))
    },
}


def scrambled(make, seed, m=3, d=4, **options):
    """A cell with nothing at zero, so that no weight is without effect."""
    cell = make(m, d, rng=seed, **options)
    rng = np.random.default_rng(seed)
    for x in cell.parameters():
        x.data = (x.data + 0.4 * rng.normal(size=x.shape)).astype(x.dtype)
    return cell


def leaves(state):
    return list(state) if isinstance(state, tuple) else [state]


def drawn_state(cell, batch, rng):
    parts = [tg.Tensor(rng.normal(size=x.shape).astype(x.dtype)) for x in leaves(cell.initial_state(batch))]
    return nn.LSTMState(*parts) if len(parts) == 2 else parts[0]


def step_of(cell, kind):
    """The step as a function of the input, the state's parts and the parameters, to be differentiated."""
    names = list(cell.named_parameters())

    def step(x, *rest):
        parts, parameters = rest[: len(rest) - len(names)], rest[len(rest) - len(names) :]
        here = copy.copy(cell)
        for name, value in zip(names, parameters, strict=True):
            setattr(here, name, value)
        h, state = here(x, nn.LSTMState(*parts) if kind.startswith("lstm") else parts[0])
        return h, tuple(leaves(state))

    return step


@pytest.mark.parametrize("kind", CELLS)
def test_the_gradient_of_every_input_state_and_parameter_is_right(kind):
    cell, rng = scrambled(CELLS[kind], 1), np.random.default_rng(2)
    inputs = [rng.normal(size=(2, 3)), *(x.data for x in leaves(drawn_state(cell, (2,), rng)))]
    check_grads(step_of(cell, kind), *inputs, *(x.data for x in cell.parameters()), rng=3)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("batch", [(), (1,), (4,), (2, 3), (0,)])
def test_rows_of_any_leading_shape_are_what_they_are_alone(kind, batch):
    cell, rng = scrambled(CELLS[kind], 1), np.random.default_rng(2)
    x, state = rng.normal(size=(*batch, 3)), drawn_state(cell, batch, rng)
    h, new = cell(x, state)
    assert h.shape == (*batch, cell.hidden)
    assert [part.shape for part in leaves(new)] == [part.shape for part in leaves(state)]
    for row in np.ndindex(batch):
        alone = [part[row] for part in leaves(state)]
        h_row, _ = cell(x[row], nn.LSTMState(*alone) if len(alone) == 2 else alone[0])
        np.testing.assert_allclose(h_row.data, h.data[row], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("kind", CELLS)
def test_float32_stays_float32_forward_and_backward(kind):
    cell = scrambled(CELLS[kind], 1, dtype=np.float32, learned_state=True)
    x = tg.Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    h, state = cell(x, cell.initial_state((2,)))
    assert all(y.dtype == np.float32 for y in (h, *leaves(state)))
    tape = tg.Tape(h)
    assert all(y.dtype == np.float32 for y in tape)
    tape.flow(seed=np.ones(h.shape))
    h.sum().backward()
    assert all(y.grad.dtype == np.float32 for y in (x, *cell.parameters()) if y.grad is not None)


@pytest.mark.parametrize("kind", CELLS)
def test_a_learned_start_gets_the_gradient_of_every_row(kind):
    cell = scrambled(CELLS[kind], 5, learned_state=True)
    _, state = cell(np.random.default_rng(0).normal(size=(3, 3)), cell.initial_state((3,)))
    loss = sum((y * np.cos(np.arange(y.size)).reshape(y.shape)).sum() for y in leaves(state))
    starts = [cell.h0, *([cell.c0] if kind.startswith("lstm") else [])]
    tape = tg.Tape(loss)
    for name, start in zip("hc", starts, strict=False):
        spread = next(x for x in tape.find(name) if x.operation == "broadcast_to")
        g = tape.flow()[spread]
        assert g.any()
        np.testing.assert_allclose(tape.flow()[start], g.sum(0))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", CELLS)
def test_the_values_are_those_of_the_equations(kind, masked):
    """The equations again in NumPy, gate by gate, from the weights that `gate` reads."""
    cell, rng = scrambled(CELLS[kind], 1), np.random.default_rng(2)
    x, state = rng.normal(size=(2, 3)), drawn_state(cell, (2,), rng)
    h, *c = (part.data for part in leaves(state))
    mask = 2.0 * rng.integers(0, 2, h.shape) if masked else np.ones(h.shape)
    seen = h * mask

    def a(name):
        W, U, b, b_u = cell.gate(name)
        return x @ W + seen @ U + b + (0 if b_u is None else b_u)

    def sigma(a):
        return 1 / (1 + np.exp(-a))

    if kind.startswith("rnn"):
        h = {"tanh": np.tanh, "relu": lambda a: np.maximum(a, 0), "linear": lambda a: a}[cell.activation](a("h"))
    elif kind.startswith("gru"):
        r, z = sigma(a("r")), sigma(a("z"))
        W, U, b, b_u = cell.gate("g")
        g = np.tanh(x @ W + b + ((r * seen) @ U if cell.reset == "before" else r * (seen @ U + b_u)))
        h = z * h + (1 - z) * g if cell.update == "keep" else (1 - z) * h + z * g
    else:
        f = sigma(a("f")) if cell.forget_gate else 1
        c = [f * c[0] + sigma(a("i")) * np.tanh(a("g"))]
        if cell.cell_clip is not None:
            c = [np.clip(c[0], -cell.cell_clip, cell.cell_clip)]
        h = sigma(a("o")) * np.tanh(c[0])
        h = h if cell.P is None else h @ cell.P.data
        if cell.projection_clip is not None:
            h = np.clip(h, -cell.projection_clip, cell.projection_clip)
            assert (abs(h) == cell.projection_clip).any()
            assert (abs(c[0]) == cell.cell_clip).any()
            assert not (abs(h) == cell.projection_clip).all()
    output, new = cell(x, state, tg.Tensor(mask)) if masked else cell(x, state)
    np.testing.assert_allclose(output.data, h, rtol=1e-13, atol=1e-15)
    for mine, theirs in zip(leaves(new), [h, *c], strict=True):
        np.testing.assert_allclose(mine.data, theirs, rtol=1e-13, atol=1e-15)


def test_every_intermediate_has_its_name_on_the_tape():
    named = {"rnn": {"h"}, "lstm": set("fiogch"), "lstm 1997": set("iogch"), "gru keep before": set("rzgh")}
    for kind, names in named.items():
        cell = CELLS[kind](3, 4)
        h, _ = cell(np.ones(3), cell.initial_state())
        assert {x.name for x in tg.Tape(h) if x.name} == names, kind


# --- numbers of the texts


def one_unit(cell, **gates):
    """Set W, U, b of each gate: numbers in this order."""
    for name, (W, U, b) in gates.items():
        cell.set_gate(name, W=W, U=U, b=b)
    return cell


def test_two_steps_of_the_lstm_script():
    cell = nn.LSTMCell(3, 2)
    for gate in cell.gates:
        cell.set_gate(gate, W=0.1, U=0.1)
    state = cell.initial_state()
    expected = [
        (0.7558388990947971, 0.5324543063873187, 0.12927258360605834, 0.06883174383886047, 0.036591988051396074),
        (0.7571869534295608, 0.5342757567047486, 0.13646175075034062, 0.12502670355998372, 0.06645284051692966),
    ]
    for t, x in enumerate([[1.0, 0.5, -0.2], [0.8, -0.4, 0.9]]):
        with tg.step(t + 1):
            h, state = cell(x, state)
    tape = tg.Tape(h)
    for t, (f, i, g, c, h) in enumerate(expected, start=1):
        for name, value in {"f": f, "i": i, "o": i, "g": g, "c": c, "h": h}.items():
            np.testing.assert_allclose(tape.find(name, t).data, [value] * 2, rtol=1e-14, err_msg=f"{name} {t}")


def test_gates_supplied_by_hand_give_the_numbers_of_the_chapter():
    def logit(p):
        return np.log(p / (1 - p))

    lstm = one_unit(
        nn.LSTMCell(0, 1), f=(0, 0, logit(0.9)), i=(0, 0, logit(0.2)), o=(0, 0, logit(0.75)), g=(0, 0, np.arctanh(0.5))
    )
    h, (_, c) = lstm(np.zeros(0), nn.LSTMState(tg.Tensor([0.0]), tg.Tensor([0.8])))
    assert abs(c.item() - 0.82) < 1e-15 and abs(h.item() - 0.5063024061289558) < 1e-15

    for update, expected in (("keep", 0.7397375320224905), ("write", 0.2576377882024136)):
        gru = one_unit(nn.GRUCell(0, 1, update=update), r=(0, 0, logit(0.25)), z=(0, 0, logit(0.9)), g=(0, 1, 0))
        h, _ = gru(np.zeros(0), tg.Tensor([0.8]))
        assert abs(h.item() - expected) < 1e-15
        assert abs(tg.Tape(h).find("g")[0].item() - 0.197375320224904) < 1e-15


def test_the_lstm_of_the_four_step_figure_keeps_what_it_stored():
    cell = one_unit(nn.LSTMCell(1, 1), f=(0, 0, 7), i=(0, 0, 7), o=(0, 0, 0), g=(10, 0, 0))
    outputs, _ = nn.unroll(cell, np.array([[1.0], [0.0], [0.0], [0.0]]))
    tape = tg.Tape(outputs.sum())
    c = [tape.find("c", t) for t in (1, 2, 3, 4)]
    stored = [0.9990889446870478, 0.9981787235106783, 0.9972693315923986, 0.9963607681767123]
    np.testing.assert_allclose([x.item() for x in c], stored, rtol=1e-14)
    direct = tg.jacobian(c[3], c[0], holding=tape.find("h")[:-1]).item()
    assert abs(direct - 0.9972693357034491) < 1e-15 and direct == tg.jacobian(c[3], c[0]).item()


def test_the_cells_derivative_has_a_direct_and_a_second_route():
    cell = one_unit(nn.LSTMCell(1, 1), f=(0.5, 0.5, 1), i=(0.5, 0.5, 0), o=(0.5, 0.5, 0), g=(0.5, 0.5, 0))
    c = tg.Tensor([0.8], requires_grad=True)
    h = tg.Tensor([0.75]) * tg.tanh(c)
    _, (_, new) = cell([0.3], nn.LSTMState(h, c))
    total, direct = tg.jacobian(new, c).item(), tg.jacobian(new, c, holding=[h]).item()
    assert abs(direct - 0.8020273451) < 1e-10 and abs(total - 0.9551874373425185) < 1e-15
    assert abs(total - direct - 0.1531600922) < 1e-10


# Weights of one unit, (W, U, b) of f, i, g, o; what comes in, what is read where, and what it must be.
MACHINES = {
    "latch": (
        [(-20, 0, 10), (20, 0, -10), (10, 0, 0), (0, 0, 10)],
        [0, 1, 0, 0, 1, 1, 0, 0], "c", [0, 0.999955, 0.999909, 0.999864, 1, 1, 0.999955, 0.999909],
    ),
    "hold": (
        [(0, 0, 7), (0, 0, -20), (0, 0, 0), (0, 0, 10)],
        [3, -8, 0, 1], "c", [0.999089, 0.998179, 0.997269, 0.996361],
    ),
    "count": (
        [(0, 0, 20), (0, 0, 20), (10, 0, 0), (0, 0, 20)],
        [1, 0, 1, 1, 0, 1, 1, 0, 1, -1, -1], "c", [1, 1, 2, 3, 3, 4, 5, 5, 6, 5, 4],
    ),
    "toggle": (
        [(-20, 0, 10), (20, -40, -10), (10, 0, 0), (0, 0, 10)],
        [0, 1, 0, 0, 1, 1, 0, 1, 0], "h", [0, 0.7615, 0.7615, 0.7615, 0, 0.7615, 0.7615, 0, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_twelve_weights_make_a_machine(machine):
    weights, xs, name, expected = MACHINES[machine]
    cell = one_unit(nn.LSTMCell(1, 1), **dict(zip("figo", weights, strict=True)))
    start = nn.LSTMState(tg.Tensor([0.0]), tg.Tensor([1.0 if machine == "hold" else 0.0]))
    outputs, _ = nn.unroll(cell, np.array(xs, float)[:, None], start)
    states = [tg.Tape(outputs).find(name, t).item() for t in range(1, len(xs) + 1)]
    np.testing.assert_allclose(states, expected, atol=1e-4 if machine in ("count", "toggle") else 6e-7)


def test_holding_a_value_is_not_passing_its_credit():
    """W = (0, 20, 0, 0), U = (0, 40, 0, 0), b = (0, -10, 10, 10) for f, i, g, o: c stays 2, its derivative halves."""
    cell = one_unit(nn.LSTMCell(1, 1), f=(0, 0, 0), i=(20, 40, -10), g=(0, 0, 10), o=(0, 0, 10))
    c = tg.Tensor([2.0], requires_grad=True)
    outputs, (_, end) = nn.unroll(cell, np.zeros((1000, 1)), nn.LSTMState(tg.tanh(c), c))
    assert abs(end.item() - 2) < 1e-3
    cells = tg.Tape(outputs.sum() + end.sum()).find("c")
    assert abs(tg.jacobian(cells[-1], cells[-2]).item() - 0.5) < 1e-3


@properties
@given(w=st.floats(0.01, 5), h=st.floats(-0.99, 0.99), x=st.floats(-5, 5), b=st.floats(-5, 5))
def test_one_tanh_unit_cannot_toggle(w, h, x, b):
    """∂h/∂h_prev = w (1 - h²) keeps the sign of w: one input cannot send two states to each other."""
    for sign in (1, -1):
        cell = one_unit(nn.RNNCell(1, 1), h=(1, sign * w, b))
        start = tg.Tensor([h], requires_grad=True)
        new, _ = cell([x], start)
        assert sign * tg.jacobian(new, start).item() >= 0
        np.testing.assert_allclose(tg.jacobian(new, start), sign * w * (1 - new.data**2)[:, None], rtol=1e-12)


# --- cases that went wrong elsewhere


@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (3, True)])
def test_the_forget_bias_counts_once_in_every_layer_and_direction(layers, bidirectional):
    net = nn.LSTM(1, 1, layers=layers, bidirectional=bidirectional)
    for row in net.cells:
        for cell in row:
            assert cell.gate("f").b.tolist() == [1.0] and cell.b.data.tolist() == [1.0, 0.0, 0.0, 0.0]
            for gate in cell.gates:
                cell.set_gate(gate, W=0, U=0)
    one = tg.Tensor([1.0])
    start = [[nn.LSTMState(tg.Tensor([0.0]), one) for _ in row] for row in net.cells]
    _, ends = net(np.zeros((1, 1)), start)
    for h, c in (end for row in ends for end in row):
        assert abs(c.item() - 0.7310585786300049) < 1e-15 and abs(h.item() - 0.3118562749137912) < 1e-12


def two_unit_gru(**options):
    cell = nn.GRUCell(1, 2, **options)
    # in the case's convention columns multiply: U is transposed here
    cell.set_gate("r", W=[[1.0, -1.0]], U=np.array([[0.2, 0.1], [-0.3, 0.4]]).T)
    cell.set_gate("z", W=[[0.5, 0.5]], U=np.array([[0.1, 0.0], [0.0, 0.1]]).T)
    cell.set_gate("g", W=[[1.0, 2.0]], U=np.array([[0.5, -1.0], [2.0, 0.25]]).T)
    return cell


def test_reset_before_and_after_the_product_differ_and_a_swapped_z_is_another_thing():
    h0 = tg.Tensor([1.0, -1.0])
    after = two_unit_gru(reset="after")
    after.set_gate("g", b_u=[0.1, -0.2])
    h, _ = after([0.3], h0)
    np.testing.assert_allclose(h.data, [0.93453847, -0.13781061], atol=5e-9)
    np.testing.assert_allclose(tg.Tape(h).find("r")[0].data, [0.59868766, 0.26894142], atol=5e-9)
    np.testing.assert_allclose(tg.Tape(h).find("z")[0].data, [0.5621765, 0.5124974], atol=5e-8)

    swapped = two_unit_gru(reset="after", update="write")
    swapped.set_gate("g", b_u=[0.1, -0.2])
    h, _ = swapped([0.3], h0)
    np.testing.assert_allclose(h.data, [0.91594573, -0.09360521], atol=5e-9)

    before = two_unit_gru()
    before.set_gate("g", b=[0.1, -0.2])
    h, _ = before([0.3], h0)
    np.testing.assert_allclose(h.data, [0.88964649, -0.06865136], atol=5e-9)


def ifgo_lstm():
    return one_unit(nn.LSTMCell(1, 1), i=(0.1, 0.5, 0), f=(0.2, 0.6, 0), g=(0.3, 0.7, 0), o=(0.4, 0.8, 0))


def test_gates_go_by_name_whatever_their_order():
    h0, c0 = tg.Tensor([0.5], requires_grad=True), tg.Tensor([-1.0], requires_grad=True)
    outputs, _ = nn.unroll(ifgo_lstm(), np.array([[1.0], [-0.5]]), nn.LSTMState(h0, c0))
    np.testing.assert_allclose(outputs.data[:, 0], [-0.19282755, -0.10360235], atol=5e-9)
    first = tg.Tape(outputs).find("c", 1).item()
    assert abs(first - -0.287107679757) < 1e-12 and abs(outputs.data[0, 0] - -0.192827550901) < 1e-12


@pytest.mark.parametrize(
    ("loss", "dW", "dU", "dh0", "dc0"),
    [
        (
            lambda outputs, h, c: outputs[0].sum(),
            [0.08817948, -0.1494823, 0.25119443, -0.05978146], [0.04408974, -0.07474115, 0.12559722, -0.02989073],
            0.0824112907, 0.3959369556,
        ),
        (
            lambda outputs, h, c: outputs.sum() + h.sum() + c.sum(),
            [0.28517873, -0.31687192, 0.25901007, -0.01664052], [0.13559584, -0.16562631, 0.1728579, -0.01528181],
            0.2688434774, 1.0058649735,
        ),
    ],
)  # fmt: skip
def test_the_gradients_of_the_four_gates(loss, dW, dU, dh0, dc0):
    cell = ifgo_lstm()
    h0, c0 = tg.Tensor([0.5], requires_grad=True), tg.Tensor([-1.0], requires_grad=True)
    outputs, (h, c) = nn.unroll(cell, np.array([[1.0], [-0.5]]), nn.LSTMState(h0, c0))
    loss(outputs, h, c).backward()
    columns = [cell.gates.index(gate) for gate in "ifgo"]
    np.testing.assert_allclose(cell.A.grad[:, columns], [dW, dU], atol=6e-9)
    assert abs(h0.grad.item() - dh0) < 1e-10 and abs(c0.grad.item() - dc0) < 1e-10


# --- laws


@properties
@given(seed=seeds, reset=st.sampled_from(["before", "after"]), B=st.integers(1, 3))
def test_negating_the_update_gate_turns_keep_into_write(seed, reset, B):
    keep = scrambled(nn.GRUCell, seed, reset=reset)
    write = nn.GRUCell(3, 4, update="write", reset=reset)
    write.load_state_dict(keep.state_dict())
    W, U, b, _ = keep.gate("z")
    write.set_gate("z", W=-W, U=-U, b=-b)
    rng = np.random.default_rng(seed)
    x, h = rng.normal(size=(B, 3)), tg.Tensor(rng.normal(size=(B, 4)))
    np.testing.assert_allclose(keep(x, h)[0].data, write(x, h)[0].data, rtol=1e-12, atol=1e-14)


@properties
@given(seed=seeds, T=st.integers(2, 6))
def test_without_a_forget_gate_the_cell_path_is_exactly_one(seed, T):
    cell = scrambled(nn.LSTMCell, seed, forget_gate=False)
    outputs, _ = nn.unroll(cell, np.random.default_rng(seed).normal(size=(T, 3)))
    tape = tg.Tape(outputs.sum())
    direct = tg.jacobian(tape.find("c", T), tape.find("c", 1), holding=tape.find("h")[:-1])
    np.testing.assert_array_equal(direct, np.eye(4))


@properties
@given(seed=seeds, T=st.integers(2, 6))
def test_the_direct_cell_path_is_the_product_of_the_forget_gates(seed, T):
    cell = scrambled(nn.LSTMCell, seed)
    outputs, _ = nn.unroll(cell, np.random.default_rng(seed).normal(size=(T, 3)))
    tape = tg.Tape(outputs.sum())
    f = np.prod([tape.find("f", t).data for t in range(2, T + 1)], axis=0)
    direct = tg.jacobian(tape.find("c", T), tape.find("c", 1), holding=tape.find("h")[:-1])
    np.testing.assert_allclose(direct, np.diag(f), rtol=1e-13, atol=0)


@properties
@given(seed=seeds)
def test_a_gru_whose_update_gate_is_shut_keeps_or_replaces_its_state_exactly(seed):
    rng = np.random.default_rng(seed)
    x, h = rng.normal(size=3), tg.Tensor(rng.normal(size=4))
    for update, bias in (("keep", np.inf), ("write", -np.inf)):
        cell = scrambled(nn.GRUCell, seed, update=update)
        cell.set_gate("z", b=bias)
        new, _ = cell(x, h)
        np.testing.assert_array_equal(new.data, h.data)
        cell.set_gate("z", b=-bias)
        new, _ = cell(x, h)
        np.testing.assert_array_equal(new.data, tg.Tape(new).find("g")[0].data)


def test_the_output_gate_exposes_the_cell_and_does_not_change_it():
    def logit(p):
        return np.log(p / (1 - p))

    gates = {"f": (0, 0, logit(0.5)), "i": (0, 0, logit(0.25)), "g": (0, 0, np.arctanh(-0.4))}
    for b_o, expected in ((np.inf, 0.2913126124515909), (-np.inf, 0.0)):
        cell = one_unit(nn.LSTMCell(0, 1), o=(0, 0, b_o), **gates)
        h, (_, c) = cell(np.zeros(0), nn.LSTMState(tg.Tensor([0.0]), tg.Tensor([0.8])))
        assert abs(c.item() - 0.3) < 1e-15 and abs(h.item() - expected) < 1e-15


# --- weights and their beginnings


@pytest.mark.parametrize("kind", CELLS)
def test_initial_weights_are_orthogonal_per_gate_and_within_glorots_bound(kind):
    cell = CELLS[kind](5, 4, rng=0)
    for name in cell.gates:
        W, U, b, b_u = cell.gate(name)
        assert W.shape == (5, 4) and U.shape == (cell.hidden, 4) and b.shape == (4,)
        np.testing.assert_allclose(np.linalg.svd(U, compute_uv=False), 1, rtol=1e-12)
        assert 0 < abs(W).max() <= np.sqrt(6 / 9)
        assert (b == (1.0 if name == "f" else 0.0)).all() and (b_u is None or not b_u.any())


def test_initial_biases_are_numbers_or_one_per_unit():
    long = np.log([1.0, 9.0, 99.0])
    assert nn.LSTMCell(2, 3, forget_bias=long).gate("f").b.tolist() == long.tolist()
    assert nn.GRUCell(2, 3, update_bias=[1, 2, 3]).gate("z").b.tolist() == [1.0, 2.0, 3.0]
    assert nn.LSTMCell(2, 3, forget_bias=-2).gate("f").b.tolist() == [-2.0] * 3
    with pytest.raises(ValueError, match=r"b of gate 'f' has shape \(3,\), got \(2,\)"):
        nn.LSTMCell(2, 3, forget_bias=[1.0, 2.0])


@pytest.mark.parametrize("kind", CELLS)
def test_what_is_set_is_what_is_read_and_nothing_else_changes(kind):
    cell = scrambled(CELLS[kind], 1)
    for name in cell.gates:
        others = {other: cell.gate(other) for other in cell.gates if other != name}
        rng = np.random.default_rng(2)
        new = [None if part is None else rng.normal(size=part.shape) for part in cell.gate(name)]
        cell.set_gate(name, *new)
        for mine, theirs in zip(cell.gate(name), new, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        for other, gate in others.items():
            for mine, theirs in zip(cell.gate(other), gate, strict=True):
                np.testing.assert_array_equal(mine, theirs)
        W = cell.gate(name).W
        cell.gate(name).W[...] = 7  # a copy
        cell.set_gate(name, b=0.5)
        np.testing.assert_array_equal(cell.gate(name).W, W)
        assert (cell.gate(name).b == 0.5).all()


def test_setting_a_gate_does_not_disturb_a_recorded_graph():
    cell = nn.RNNCell(1, 1, activation="linear")
    cell.set_gate("h", W=2.0, U=3.0)
    x = tg.Tensor([1.0], requires_grad=True)
    h, _ = cell(x, cell.initial_state())
    cell.set_gate("h", W=100.0)
    h.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_a_gate_that_is_set_wrongly_is_left_as_it_was():
    cell = nn.LSTMCell(2, 3)
    before = cell.state_dict()
    with pytest.raises(ValueError, match=r"U of gate 'i' has shape \(3, 3\), got \(3,\)"):
        cell.set_gate("i", W=1.0, U=np.ones(3))
    with pytest.raises(ValueError, match=r"gate 'i' of LSTMCell\(2, 3, .*\) has W, U, b, no b_u"):
        cell.set_gate("i", W=1.0, b_u=0.0)
    with pytest.raises(ValueError, match="LSTMCell has the gates f, i, o, g; got 'z'"):
        cell.set_gate("z", W=1.0)
    with pytest.raises(ValueError, match="GRUCell has the gates r, z, g; got 'f'"):
        nn.GRUCell(2, 3).gate("f")
    for name, x in cell.state_dict().items():
        np.testing.assert_array_equal(x, before[name])


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (nn.RNNCell(3, 4), "RNNCell(3, 4, gates h, activation='tanh')"),
        (nn.LSTMCell(3, 4), "LSTMCell(3, 4, gates f i o g, forget_bias=1.0)"),
        (nn.LSTMCell(3, 4, forget_gate=False), "LSTMCell(3, 4, gates i o g, forget_gate=False)"),
        (
            nn.LSTMCell(3, 4, [1, 2, 3, 4.5], projection=2, cell_clip=3, projection_clip=1, learned_state=True),
            "LSTMCell(3, 4, gates f i o g, forget_bias='1 to 4.5', projection=2, cell_clip=3, projection_clip=1, "
            "learned_state=True)",
        ),
        (
            nn.GRUCell(3, 4, "write", "after", dtype=np.float32),
            "GRUCell(3, 4, gates r z g, update='write', reset='after', update_bias=0.0, dtype=float32)",
        ),
    ],
)
def test_a_repr_states_every_convention(cell, text):
    assert repr(cell) == text


@pytest.mark.parametrize("kind", CELLS)
def test_copies_and_pickles_of_a_cell_compute_the_same(kind):
    cell = scrambled(CELLS[kind], 1)
    x, state = np.ones((2, 3)), cell.initial_state((2,))
    for other in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
        np.testing.assert_array_equal(other(x, state)[0].data, cell(x, state)[0].data)


# --- half of a state


def test_detaching_h_alone_is_told_and_the_rest_is_silent():
    cell = scrambled(nn.LSTMCell, 1)
    x = np.ones(3)
    _, state = cell(x, cell.initial_state())
    with pytest.warns(UserWarning, match=r"h was detached and its c was not.*tg\.detach\(state\)"):
        cell(x, nn.LSTMState(state.h.detach(), state.c))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cell(x, tg.detach(state))
        cell(x, state)
        encoder = tg.tanh(tg.Tensor(np.ones(4), requires_grad=True))
        cell(x, nn.LSTMState(cell.initial_state().h, encoder))  # a start of one's own is no half-detached state
        learned = scrambled(nn.LSTMCell, 1, learned_state=True)
        learned(x, learned.initial_state())
        with tg.no_grad():
            _, state = cell(x, cell.initial_state())
        cell(x, state)


# --- refusals


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: nn.RNNCell(3, 4, "sigmoid"), ValueError, "activation is one of tanh, relu, linear; got 'sigmoid'"),
        (lambda: nn.RNNCell(3, 0), ValueError, "RNNCell needs d as a whole number >= 1, got 0"),
        (lambda: nn.GRUCell(-1, 4), ValueError, "GRUCell needs m as a whole number >= 0, got -1"),
        (lambda: nn.LSTMCell(3, 4.0), ValueError, "LSTMCell needs d as a whole number >= 1, got 4.0"),
        (lambda: nn.LSTMCell(3, 4, projection=0), ValueError, "projection as a whole number >= 1, got 0"),
        (lambda: nn.LSTMCell(3, 4, projection_clip=1.0), ValueError, "projection_clip needs a projection"),
        (lambda: nn.LSTMCell(3, 4, cell_clip=0.0), ValueError, "cell_clip is a positive bound, got 0.0"),
        (lambda: nn.LSTMCell(3, 4, 2.0, forget_gate=False), ValueError, "forget_bias=2.0 needs a forget gate"),
        (lambda: nn.GRUCell(3, 4, update="forget"), ValueError, 'update is "keep" .* or "write" .*, got \'forget\''),
        (lambda: nn.GRUCell(3, 4, reset="both"), ValueError, "reset is \"before\" or \"after\" .*, got 'both'"),
        (lambda: nn.RNNCell(3, 4, dtype=int), TypeError, "requires_grad needs floating-point numbers"),
    ],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(call, error, told):
    with pytest.raises(error, match=told):
        call()


@pytest.mark.parametrize("kind", CELLS)
def test_inputs_and_states_that_do_not_fit_are_refused(kind):
    cell = CELLS[kind](3, 4)
    name, state = type(cell).__name__, cell.initial_state((2,))
    x = np.ones((2, 3))
    with pytest.raises(TypeError, match=rf"{name} needs floating-point inputs, got dtype int64: embed ids"):
        cell(np.ones((2, 3), int), state)
    with pytest.raises(ValueError, match=rf"{name} needs inputs of width 3 on the last axis, got shape \(2, 4\)"):
        cell(np.ones((2, 4)), state)
    with pytest.raises(ValueError, match=rf"{name} needs inputs of width 3 on the last axis, got shape \(\)"):
        cell(1.0, state)
    for batch in ((), (1,), (3,), (1, 2)):  # nothing is broadcast
        with pytest.raises(ValueError, match=rf"{name} needs h of shape .* for inputs of shape \(2, 3\), got"):
            cell(x, cell.initial_state(batch))


def test_an_lstms_state_is_a_pair_that_fits():
    cell = nn.LSTMCell(3, 4, projection=2)
    x, (h, c) = np.ones((2, 3)), cell.initial_state((2,))
    with pytest.raises(ValueError, match=r"LSTMCell needs the state \(h, c\), got \(2, 2\)"):
        cell(x, h)
    with pytest.raises(
        ValueError, match=r"LSTMCell needs c of shape \(2, 4\) for inputs of shape \(2, 3\), got \(2, 2\)"
    ):
        cell(x, nn.LSTMState(h, h))
    with pytest.raises(ValueError, match=r"LSTMCell needs c of shape \(2, 4\) .*, got \(1, 4\)"):
        cell(x, (h, c[:1]))
    np.testing.assert_array_equal(cell(x, (h, c))[0].data, cell(x, [h.data, c.data])[0].data)
