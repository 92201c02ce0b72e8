"""Modules, the layers without time, and initial weights."""

import copy
import pickle
from collections import deque
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq import nn


class Nest(nn.Module):
    """Tensors in every place where they are found, and two ties."""

    def __init__(self):
        self.w = tg.Tensor([1.0, 2.0], requires_grad=True)
        self.parts = [nn.Linear(2, 3, rng=0), (tg.Tensor(3), {"inner": tg.Tensor(4.0, requires_grad=True)})]
        self.again = self.w
        self.count = 7
        self.table = {"a": self.parts[0].W, "b": tg.Tensor([5.0])}
        self.whole = self


def test_every_tensor_among_the_attributes_is_found_in_the_order_of_definition():
    assert list(Nest().tensors()) == [
        "w", "parts.0.W", "parts.0.b", "parts.1.0", "parts.1.1.inner", "again", "table.a", "table.b",
    ]  # fmt: skip


def test_a_tied_parameter_is_listed_once_under_its_first_name():
    nest = Nest()
    assert list(nest.named_parameters()) == ["w", "parts.0.W", "parts.0.b", "parts.1.1.inner"]
    assert nest.parameters() == list(nest.named_parameters().values())
    assert nest.modules() == [nest, nest.parts[0]]


def test_a_recorded_result_in_an_attribute_is_no_part_of_the_state():
    nest = Nest()
    before = list(nest.state_dict())
    nest.last = nest.w * 2
    assert list(nest.state_dict()) == before
    nest.load_state_dict(nest.state_dict())


def test_two_tensors_under_one_name_are_refused():
    nest = Nest()
    nest.table = {"a.b": tg.Tensor(1.0), "a": {"b": tg.Tensor(2.0)}}
    with pytest.raises(ValueError, match=r"two tensors of Nest have the name table\.a\.b"):
        nest.state_dict()


def test_a_state_is_a_copy_and_training_on_does_not_change_it():
    line = nn.Linear(2, 1, rng=0)
    state = line.state_dict()
    before = copy.deepcopy(state)
    line(np.array([[1.0, 2.0]])).sum().backward()
    tg.optim.SGD(line.parameters(), lr=0.1).step()
    for name, x in state.items():
        np.testing.assert_array_equal(x, before[name])
        assert not np.array_equal(line.tensors()[name].data, x)
    state["b"][...] = 9.0
    assert line.b.data[0] != 9.0


def test_load_brings_back_every_value_and_a_graph_recorded_before_keeps_its_own():
    one, other = nn.Linear(2, 3, rng=0), nn.Linear(2, 3, rng=1)
    y = one(np.array([1.0, -2.0])).sum()
    W = one.W.data
    one.load_state_dict(other.state_dict())
    np.testing.assert_array_equal(one.W.data, other.W.data)
    assert one.W.requires_grad and not np.array_equal(W, one.W.data)
    y.backward()
    np.testing.assert_array_equal(one.W.grad, [[1.0] * 3, [-2.0] * 3])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda s: s.pop("b"), "missing b"),
        (lambda s: s.update(c=s["b"]), "unknown c"),
        (lambda s: s.update(b=np.zeros(1)), r"b: needs \(3,\) float64, got \(1,\) float64"),
        (lambda s: s.update(W=np.zeros((1, 3))), r"W: needs \(2, 3\) float64, got \(1, 3\)"),
        (lambda s: s.update(b=s["b"].astype("f4")), "b: needs .* float64, got .* float32"),
    ],
)
def test_a_state_that_does_not_fit_is_named_and_changes_nothing(change, told):
    line = nn.Linear(2, 3, rng=0)
    before, state = line.state_dict(), nn.Linear(2, 3, rng=1).state_dict()
    change(state)
    with pytest.raises(ValueError, match=told):
        line.load_state_dict(state)
    for name, x in line.state_dict().items():
        np.testing.assert_array_equal(x, before[name])


def test_every_difference_is_named_at_once_and_ties_must_agree():
    nest = Nest()
    state = nest.state_dict()
    state["again"] = state["again"] + 1
    del state["parts.0.b"]
    with pytest.raises(ValueError, match=r"missing parts\.0\.b; again is tied to w, but the values differ"):
        nest.load_state_dict(state)


def test_freeze_stops_and_restarts_training():
    line = nn.Linear(2, 3, rng=0).freeze()
    assert line.parameters() == [] and not line(np.ones((1, 2))).requires_grad
    assert len(line.freeze(False).parameters()) == 2


def test_unfreezing_makes_trainable_what_was_so_before_and_nothing_else():
    mix, nest = nn.ScalarMix(3, learn=False), Nest()
    assert not mix.freeze().freeze(False).parameters()  # neither s nor γ was learnt
    nest.parts.append(mix)
    before = list(nest.named_parameters())
    nest.freeze().freeze()
    assert nest.parameters() == []
    assert list(copy.deepcopy(nest).freeze(False).named_parameters()) == before
    assert list(nest.parts[0].freeze(False).named_parameters()) == ["W", "b"]  # one part alone
    assert list(nest.named_parameters()) == ["parts.0.W", "parts.0.b"]
    assert list(nest.freeze(False).named_parameters()) == before
    nest.parts[0].b.requires_grad = False  # by hand: no freeze has stopped it
    assert "parts.0.b" not in nest.freeze(False).named_parameters()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (lambda line, table: table.T, "the result of transpose"),
        (lambda line, table: line.W - 0.1 * line.W, "the result of subtract"),
        (lambda line, table: tg.Tensor(np.ones((2, 3)), name="c"), "c in its place"),
    ],
)
def test_a_parameter_is_not_replaced_by_what_would_not_be_trained(value, told):
    line, table = nn.Linear(2, 3, rng=0), tg.Tensor(np.ones((3, 2)), requires_grad=True)
    W = line.W
    with pytest.raises(TypeError, match=rf"Linear\.W is a parameter, .*{told}.*\.W\.data = .*h @ emb\.table\.T"):
        line.W = value(line, table)
    assert line.W is W and W in line.parameters()
    with pytest.raises(TypeError, match="is a parameter"), tg.no_grad():
        line.W = line.W - 0.1
    line.W = other = tg.Tensor(np.ones((2, 3)), requires_grad=True)
    line.b = None
    assert line.parameters() == [other]


def test_a_state_that_is_carried_in_an_attribute_may_be_replaced():
    line = nn.Linear(2, 2, rng=0)
    line.h = tg.Tensor(np.zeros(2))
    line.h = line(line.h)
    line.h = line.h.detach()
    assert list(line.state_dict()) == ["W", "b", "h"]


class Plain:
    """What somebody forgot to derive from Module."""

    def __init__(self, part):
        self.part = part


@pytest.mark.parametrize(
    ("hide", "kind"),
    [(lambda x: deque([x]), "deque"), (lambda x: {x}, "set"), (lambda x: frozenset([x]), "frozenset"), (Plain, "Plain"),
     (lambda x: [Plain(x)], "list"), (lambda x: {"a": (deque([x]),)}, "dict")],
)  # fmt: skip
@pytest.mark.parametrize("what", ["tensor", "module"])
def test_parameters_that_would_not_be_found_are_refused(hide, kind, what):
    model = nn.Module()
    model.hidden = hide(tg.Tensor(1.0, requires_grad=True) if what == "tensor" else nn.Linear(1, 1, rng=0))
    for ask in (model.parameters, model.state_dict, model.freeze):
        with pytest.raises(TypeError, match=rf"in Module\.hidden \({kind}\) would be neither trained nor saved"):
            ask()


def test_what_is_found_elsewhere_and_what_is_no_parameter_may_stand_anywhere():
    model = nn.Module()
    model.line = nn.Linear(1, 1, rng=0)
    model.again, model.kept = {model.line.W}, deque([tg.Tensor(1.0)])
    model.result, model.optimiser = Plain(model.line.W * 2), tg.optim.SGD(model.line, 0.1)
    model.step = tg.replay(lambda x: model.line(x).sum(), wrt=model)
    model.step(np.ones((1, 1)))
    assert list(model.state_dict()) == ["line.W", "line.b"]


def test_other_byte_orders_are_loaded():
    line = nn.Linear(2, 3, rng=0, dtype=">f8")
    state = nn.Linear(2, 3, rng=1).state_dict()
    line.load_state_dict(state)
    assert line.W.dtype == ">f8" and np.array_equal(line.W.data, state["W"])
    other = nn.Linear(2, 3, rng=2)
    other.load_state_dict(line.state_dict())
    assert other.W.dtype.isnative and np.array_equal(other.W.data, state["W"])


def test_train_and_eval_reach_every_part():
    outer = Nest()
    outer.drop = nn.Dropout(0.5, rng=0)
    outer.eval()
    assert not outer.training and not outer.drop.training
    outer.train()
    assert outer.training and outer.drop.training


def test_copies_and_pickles_keep_values_gradients_and_ties_and_drop_the_graph():
    nest = Nest()
    (nest.w.sum() * 2).backward()
    for other in (copy.deepcopy(nest), pickle.loads(pickle.dumps(nest))):
        assert other.again is other.w and other.whole is other
        np.testing.assert_array_equal(other.w.grad, nest.w.grad)
        other.w.grad[...] = 0
        other.w.data = [7.0, 8.0]
        assert nest.w.data.tolist() == [1.0, 2.0] and nest.w.grad.tolist() == [2.0, 2.0]


def test_a_module_shows_its_parts_even_where_one_refers_to_the_whole():
    assert "parts=[Linear(W=(2, 3), b=(3,)), (Tensor(3)" in repr(Nest())
    assert "whole=..." in repr(Nest())


def test_zero_grad_forgets_every_gradient():
    nest = Nest()
    (nest.w.sum() + nest.parts[0].b.sum()).backward()
    nest.zero_grad()
    assert all(x.grad is None for x in nest.tensors().values())


# --- initial weights


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (7, 3), (2, 6), (1, 1)])
def test_orthogonal_has_every_singular_value_one(rows, columns, dtype):
    q = nn.orthogonal(3, rows, columns, dtype)
    assert q.shape == (rows, columns) and q.dtype == dtype
    np.testing.assert_allclose(np.linalg.svd(q, compute_uv=False), 1, rtol=1e-6)


def test_orthogonal_is_uniform_over_rotations_and_reflections():
    draws = np.array([nn.orthogonal(seed, 2, 2) for seed in range(400)])
    determinants = np.linalg.det(draws)
    assert abs(determinants.mean()) < 0.2  # a QR factor without its signs would be of one kind
    assert abs(draws.mean(0)).max() < 0.15


def test_glorot_fills_its_bound_and_no_more():
    w = nn.glorot(0, 300, 200)
    bound = np.sqrt(6 / 500)
    assert w.shape == (300, 200) and 0.99 * bound < abs(w).max() <= bound
    assert abs(w.std() - bound / np.sqrt(3)) < 1e-3


@pytest.mark.parametrize(
    "build",
    [
        lambda rng: nn.Linear(3, 2, rng=rng),
        lambda rng: nn.Embedding(3, 2, rng=rng),
        lambda rng: nn.LSTM(3, 2, layers=2, bidirectional=True, projection=2, rng=rng),
        lambda rng: nn.GRU(3, 2, layers=2, rng=rng),
        lambda rng: nn.RNN(3, 2, layers=2, rng=rng),
    ],
)
def test_one_seed_gives_equal_builds_of_unlike_layers_and_leaves_numpys_generator_alone(build):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, other = build(0).state_dict(), build(0).state_dict(), build(1).state_dict()
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    drawn = [name for name, x in one.items() if np.ptp(x)]
    assert drawn and all(np.array_equal(one[name], two[name]) for name in one)
    assert not any(np.array_equal(one[name], other[name]) for name in drawn if "b" not in name.split(".")[-1])
    weights = [one[name] for name in drawn if name.endswith("A")]
    assert not any(a.shape == b.shape and np.array_equal(a, b) for a, b in pairwise(weights))


# --- layers


def test_linear_is_a_product_of_rows_and_a_bias():
    line = nn.Linear(2, 3, rng=0)
    x = np.random.default_rng(1).normal(size=(4, 5, 2))
    np.testing.assert_allclose(line(x).data, x @ line.W.data + line.b.data)
    assert nn.Linear(2, 3, bias=False).b is None
    with pytest.raises(ValueError, match=r"Linear needs inputs of width 2 on the last axis, got shape \(3,\)"):
        line(np.ones(3))


def test_embedding_adds_up_repeated_rows_and_gives_none_to_padding():
    table = nn.Embedding(3, 1, padding=0, rng=0)
    y = table(np.array([1, 1, 2, 0]))
    (y[:, 0] * np.array([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert table.table.grad.tolist() == [[0.0], [11.0], [100.0]] and y.data[3] == 0


@pytest.mark.parametrize("ids", [[-1, 2], [7], [3]])
def test_embedding_refuses_ids_outside_the_table(ids):
    with pytest.raises(IndexError, match=r"ids lie in 0\.\.2"):
        nn.Embedding(3, 2)(ids)


def test_embedding_refuses_what_is_no_id():
    with pytest.raises(TypeError, match="whole numbers"):
        nn.Embedding(3, 2)([0.5])
    with pytest.raises(ValueError, match=r"padding is an id in 0\.\.2, got 3"):
        nn.Embedding(3, 2, padding=3)


@settings(max_examples=max(1, settings().max_examples // 2))
@given(p=st.floats(0.05, 0.95), seed=st.integers(0, 1000))
def test_dropout_keeps_the_mean_and_draws_anew(p, seed):
    drop = nn.Dropout(p, rng=seed)
    x = tg.Tensor(np.full(20000, 3.0), requires_grad=True)
    y = drop(x)
    kept = y.data != 0
    np.testing.assert_allclose(y.data[kept], 3 / (1 - p))
    assert abs(kept.mean() - (1 - p)) < 6 * np.sqrt(p * (1 - p) / 20000)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, kept / (1 - p))
    assert not np.array_equal(drop(x).data, y.data)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_at_its_ends(p):
    x = tg.Tensor([1.0, -2.0], requires_grad=True)
    nn.Dropout(p, rng=0)(x).sum().backward()
    assert x.grad.tolist() == [1 - p, 1 - p]


def test_dropout_is_the_identity_in_eval_and_keeps_float32():
    drop = nn.Dropout(0.5, rng=0)
    x = tg.Tensor(np.ones(3, np.float32), requires_grad=True)
    assert drop(x).dtype == np.float32
    assert drop.eval()(x) is x
    with pytest.raises(ValueError, match=r"probability in 0\.\.1, got 1\.5"):
        nn.Dropout(1.5)


def test_layer_norm_refuses_another_width():
    with pytest.raises(ValueError, match="width 2"):
        nn.LayerNorm(2)(np.ones((2, 3)))


def test_a_state_that_is_no_dict_is_refused_with_the_call_that_reads_a_file():
    with pytest.raises(TypeError, match=r"got str; .*tg\.load\(path, model=net\)"):
        tg.nn.Linear(1, 1, rng=0).load_state_dict("run.npz")


def test_a_stack_of_a_bare_cell_is_told_to_be_a_list():
    with pytest.raises(TypeError, match=r"Stack\(\[cell\]\), got RNNCell"):
        tg.nn.Stack(tg.nn.RNNCell(1, 1, rng=0))
