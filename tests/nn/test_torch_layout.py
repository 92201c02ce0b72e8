"""Recurrent layers against recorded PyTorch values, and its layout of the parameters out and in."""

from pathlib import Path

import numpy as np
import pytest

import tinygrad_seq as tg

GOLDEN = Path(__file__).parents[1] / "golden"
LAYERS = {
    "rnn_tanh": (tg.nn.RNN, {}),
    "rnn_relu": (tg.nn.RNN, {"activation": "relu"}),
    "lstm": (tg.nn.LSTM, {}),
    "lstm_proj": (tg.nn.LSTM, {"projection": 2}),
    "gru": (tg.nn.GRU, {"reset": "after"}),
}
RECORDED = {kind: dict(np.load(GOLDEN / f"recurrent_{kind}.npz")) for kind in LAYERS}
CASES = sorted({key.split("/")[0] for arrays in RECORDED.values() for key in arrays if "/" in key})
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-5}


def recorded(case):
    """What was recorded of one case, and the layer that has its parameters."""
    kind, layers, directions, _, _ = case.split("-")
    arrays = {key.removeprefix(f"{case}/"): x for key, x in RECORDED[kind].items() if key.startswith(f"{case}/")}
    make, options = LAYERS[kind]
    net = make(3, 4, int(layers[0]), directions == "bi", dtype=arrays["x"].dtype, rng=0, **options)
    parameters = {key: x for key, x in arrays.items() if key.startswith(("weight_", "bias_"))}
    tg.nn.from_torch_state(net, parameters)
    return net, arrays, parameters


def by_layer(net, rows):
    """PyTorch's (layers · directions, B, width), as states[layer][direction]."""
    rows = iter(rows)
    return [[next(rows) for _ in layer] for layer in net.cells]


def assert_close(mine, theirs, what):
    assert mine.shape == theirs.shape and mine.dtype == theirs.dtype, what
    assert np.abs(mine - theirs).max(initial=0) <= TOLERANCE[theirs.dtype] * max(1, np.abs(theirs).max()), what


@pytest.mark.parametrize("case", CASES)
def test_outputs_states_and_every_gradient_are_those_of_pytorch(case):
    net, arrays, parameters = recorded(case)
    x, *starts = (tg.Tensor(arrays[k], requires_grad=True) for k in ("x", "h0", "c0") if k in arrays)
    state = [by_layer(net, start) for start in starts]
    if len(state) == 2:
        state = [[tg.nn.LSTMState(h, c) for h, c in zip(*rows, strict=True)] for rows in zip(*state, strict=True)]
    else:
        (state,) = state
    outputs, ends = net(x, state, lengths=arrays.get("lengths"))

    results = {"out": outputs}
    ends = [end for layer in ends for end in layer]
    for k, name in enumerate(("h_n", "c_n")[: len(starts)]):
        results[name] = tg.stack([end[k] if isinstance(end, tuple) else end for end in ends])
    for name, y in results.items():
        assert_close(y.data, arrays[name], name)

    (sum((y * arrays[f"cot/{name}"]).sum() for name, y in results.items())).backward()
    for name, leaf in zip(("x", "h0", "c0"), (x, *starts), strict=False):
        assert_close(leaf.grad, arrays[f"grad/{name}"], name)
    gradients = gradients_in_torch_layout(net)
    assert gradients.keys() == parameters.keys()
    for name, g in gradients.items():
        assert_close(g, arrays[f"grad/{name}"], name)


def gradients_in_torch_layout(net):
    """The layer's gradients where PyTorch has them. One bias has the gradient of each of the two that it sums."""
    for x in net.parameters():
        x.data = x.grad
    gradients = tg.nn.to_torch_state(net)
    for name in [name for name in gradients if name.startswith("bias_hh")]:
        summed, apart = gradients[name.replace("hh", "ih")], gradients[name]
        gradients[name] = np.where(apart == 0, summed, apart)
    return gradients


@pytest.mark.parametrize("case", [case for case in CASES if "-packed-" in case])
def test_what_stands_at_padding_changes_nothing(case):
    net, arrays, _ = recorded(case)
    lengths = arrays["lengths"]
    real = np.arange(len(arrays["x"]))[:, None] < lengths
    outcomes = []
    for padding in (np.nan, np.inf, 0.0):
        x = tg.Tensor(np.where(real[..., None], arrays["x"], padding).astype(arrays["x"].dtype), requires_grad=True)
        net.zero_grad()
        outputs, _ = net(x, lengths=lengths)
        (outputs * arrays["cot/out"]).sum().backward()
        outcomes.append([outputs.data, x.grad, *(p.grad for p in net.parameters())])
    for other in outcomes[1:]:
        for a, b in zip(outcomes[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert not outcomes[0][1][~real].any()


@pytest.mark.parametrize("case", [case for case in CASES if "-2layer-bi-full-" in case])
def test_out_and_in_again_is_the_identity(case):
    net, _, parameters = recorded(case)
    out = tg.nn.to_torch_state(net)
    assert list(out) == list(parameters)
    for name, x in parameters.items():
        if name.startswith("weight"):
            np.testing.assert_array_equal(out[name], x)
    again = type(net)(3, 4, 2, True, rng=1, **LAYERS[case.split("-")[0]][1])
    tg.nn.from_torch_state(again, out)
    for name, x in net.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name], x)


def test_a_gru_whose_z_writes_is_negated_on_the_way():
    _, arrays, parameters = recorded("gru-1layer-uni-full-f64")
    writes = tg.nn.GRU(3, 4, update="write", reset="after", rng=0)
    tg.nn.from_torch_state(writes, parameters)
    outputs, _ = writes(arrays["x"], [[arrays["h0"][0]]])
    assert_close(outputs.data, arrays["out"], "outputs")
    np.testing.assert_array_equal(tg.nn.to_torch_state(writes)["weight_hh_l0"], parameters["weight_hh_l0"])


@pytest.mark.parametrize("make", [tg.nn.RNNCell, tg.nn.LSTMCell, lambda *a: tg.nn.GRUCell(*a, reset="after")])
def test_a_cell_has_the_names_of_pytorchs_cells(make):
    cell, other = make(3, 4), make(3, 4)
    arrays = tg.nn.to_torch_state(cell)
    assert list(arrays) == ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
    tg.nn.from_torch_state(other, arrays)
    for name, x in cell.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], x)


def test_arrays_are_copies_on_the_way_out_and_in():
    layer = tg.nn.LSTM(3, 4, projection=2)
    before = layer.state_dict()
    arrays = tg.nn.to_torch_state(layer)
    tg.nn.from_torch_state(layer, arrays)
    for x in arrays.values():
        x[...] = 7
    for name, x in layer.state_dict().items():
        np.testing.assert_array_equal(x, before[name])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda a: a.pop("bias_hh_l0"), "missing bias_hh_l0"),
        (lambda a: a.update(weight_ih_l1=a["weight_ih_l0"]), "unknown weight_ih_l1"),
        (lambda a: a.update(weight_ih_l0=a["weight_ih_l0"].T), r"weight_ih_l0: needs \(16, 3\) float64, got \(3, 16\)"),
        (lambda a: a.update(bias_ih_l0=a["bias_ih_l0"][:1]), r"bias_ih_l0: needs \(16,\) float64, got \(1,\)"),
        (lambda a: a.update(weight_hh_l0=a["weight_hh_l0"].astype("f4")), "needs .* float64, got .* float32"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_whole(change, told):
    layer = tg.nn.LSTM(3, 4)
    before, arrays = layer.state_dict(), tg.nn.to_torch_state(tg.nn.LSTM(3, 4))
    change(arrays)
    with pytest.raises(ValueError, match=told):
        tg.nn.from_torch_state(layer, arrays)
    for name, x in layer.state_dict().items():
        np.testing.assert_array_equal(x, before[name])


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        (tg.nn.GRU(3, 4), "reset='before'"),
        (tg.nn.RNN(3, 4, activation="linear"), "activation='linear'"),
        (tg.nn.LSTM(3, 4, forget_gate=False), "forget_gate=False"),
        (tg.nn.LSTM(3, 4, cell_clip=3.0), "cell_clip"),
        (tg.nn.LSTM(3, 4, projection=2, projection_clip=3.0), "projection_clip"),
        (tg.nn.RNN(3, 4, learned_state=True), "learned_state"),
        (tg.nn.RNN(3, 4, layers=2, residual=True), "residual"),
    ],
)
def test_what_pytorch_cannot_be_is_refused(layer, told):
    with pytest.raises(ValueError, match=told):
        tg.nn.to_torch_state(layer)


def test_other_layers_are_refused():
    with pytest.raises(TypeError, match="RNN, LSTM and GRU"):
        tg.nn.to_torch_state(tg.nn.Linear(3, 4))
    with pytest.raises(TypeError, match="throughout"):
        tg.nn.to_torch_state(tg.nn.Stack([tg.nn.RNNCell(3, 4), tg.nn.LSTMCell(4, 4)]))
