"""Optimisers and clipping: against recorded PyTorch trajectories, laws that every rule obeys, and reported faults."""

from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq.optim import (
    SGD,
    Adagrad,
    Adam,
    AdamW,
    RMSprop,
    clip_grad_norm,
    clip_grad_value,
    constant,
    cosine,
    step_decay,
    warm_up,
)

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "optimisers.npz")
CASES = sorted({key.partition("/")[0] for key in GOLDEN.files if "/" in key})
KINDS = {"sgd": SGD, "adam": Adam, "adamw": AdamW, "rmsprop": RMSprop, "adagrad": Adagrad}
OPTION = {"initial_accumulator_value": "initial"}  # where the name is another one
EVERY_KIND = {
    "sgd": lambda ps: SGD(ps, 0.1),
    "momentum": lambda ps: SGD(ps, 0.1, momentum=0.9, weight_decay=0.1),
    "nesterov": lambda ps: SGD(ps, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda ps: Adam(ps, 0.1, weight_decay=0.1),
    "adamw": lambda ps: AdamW(ps, 0.1),
    "rmsprop": lambda ps: RMSprop(ps, 0.1, momentum=0.5, centered=True),
    "adagrad": lambda ps: Adagrad(ps, 0.1, weight_decay=0.1),
}
each_kind = pytest.mark.parametrize("make", EVERY_KIND.values(), ids=EVERY_KIND)
seeds = st.integers(0, 2**32)


def golden(case):
    """What was recorded under this case, as a dict (of dicts, where a name has two parts)."""
    found = {}
    for key in GOLDEN.files:
        head, _, rest = key.partition("/")
        if head == case:
            group, _, name = rest.partition("/")
            if name:
                found.setdefault(group, {})[name] = GOLDEN[key]
            else:
                found[group] = GOLDEN[key]
    return found


def leaves(*arrays, dtype=None):
    return [tg.Tensor(a, requires_grad=True, dtype=dtype, name=f"w{k}") for k, a in enumerate(arrays)]


def with_gradients(*gradients):
    parameters = leaves(*(np.zeros(np.shape(g)) for g in gradients))
    for x, g in zip(parameters, gradients, strict=True):
        x.grad = np.array(g, float)
    return parameters


def drawn(seed, dtype=np.float64):
    """Parameters of several shapes, and a stream of gradients for them."""
    rng = np.random.default_rng(seed)
    parameters = leaves(*(rng.standard_normal(shape).astype(dtype) for shape in ((2, 3), (4,), ())))

    def give():
        for x in parameters:
            x.grad = np.asarray(rng.standard_normal(x.shape), dtype)

    return parameters, give


# --- trajectories


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("clip")])
def test_fifty_updates_go_where_pytorchs_go(case):
    recorded = golden(case)
    options = {OPTION.get(name, name): value.tolist() for name, value in recorded["option"].items()}
    parameters = leaves(*recorded["start"].values())
    optimiser = KINDS[case.partition("-")[0]](parameters, **options)
    for update in range(50):
        for k, (name, x) in enumerate(zip(recorded["start"], parameters, strict=True)):
            x.grad = recorded["grads"][name][update] if recorded["given"][update, k] else None
        optimiser.step()
        for name, x in zip(recorded["start"], parameters, strict=True):
            np.testing.assert_allclose(x.data, recorded["after"][name][update], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("clip")])
def test_clipping_measures_the_norm_that_pytorch_measures_and_scales_to_the_bound_itself(case):
    recorded = golden(case)
    parameters = with_gradients(*recorded["grads"].values())
    bound, norm = recorded["max_norm"].item(), recorded["norm"].item()
    measured = clip_grad_norm(parameters, bound, recorded["p"].item())
    np.testing.assert_allclose(measured, norm, rtol=1e-12)
    scaled_there = min(1.0, bound / (norm + 1e-6))
    scaled_here = min(1.0, bound / norm) if norm else 1.0
    assert measured.scale == pytest.approx(scaled_here, rel=1e-12)
    for x, after in zip(parameters, recorded["after"].values(), strict=True):
        np.testing.assert_allclose(x.grad, after / scaled_there * scaled_here, rtol=1e-12, atol=0)


# --- laws of every optimiser


@each_kind
@given(seed=seeds)
def test_a_parameter_without_a_gradient_stays_and_so_do_its_memory_and_its_clock(make, seed):
    (a, b, c), give = drawn(seed)
    (a2, _, c2), give2 = drawn(seed)
    with_gaps, without = make([a, b, c]), make([a2, c2])
    start = b.data
    for _ in range(3):
        give(), give2()
        b.grad = None
        with_gaps.step(), without.step()
    assert np.array_equal(b.data, start) and with_gaps.memory["w1"] == {}
    assert np.array_equal(a.data, a2.data) and np.array_equal(c.data, c2.data)
    b.grad = np.ones(4)
    alone = leaves(start)
    alone[0].grad = np.ones(4)
    with_gaps.step(), make(alone).step()
    assert np.array_equal(b.data, alone[0].data)


@each_kind
@given(seed=seeds, dtype=st.sampled_from([np.float32, np.float64]))
def test_a_step_keeps_dtypes_and_writes_to_no_array_that_others_hold(make, seed, dtype):
    parameters, give = drawn(seed, dtype)
    optimiser = make(parameters)
    for _ in range(3):
        give()
        held = [(x.data, x.grad, x.data.copy(), x.grad.copy()) for x in parameters]
        optimiser.step()
        for x, (old, g, old_copy, g_copy) in zip(parameters, held, strict=True):
            assert np.array_equal(old, old_copy) and np.array_equal(g, g_copy)
            assert x.dtype == dtype and x.data.shape == old.shape
            assert not np.shares_memory(x.data, old) and not np.shares_memory(x.data, g)
    for x, memory in zip(parameters, optimiser.memory.values(), strict=True):
        for name in set(optimiser.remembers) - {"t"}:
            assert memory[name].dtype == dtype and not np.shares_memory(memory[name], x.grad)


@each_kind
@given(seed=seeds, updates=st.integers(0, 4))
def test_a_loaded_state_goes_on_bitwise_where_the_saved_one_would(make, seed, updates):
    parameters, give = drawn(seed)
    optimiser = make(parameters)
    for _ in range(updates):
        give()
        parameters[1].grad = None
        optimiser.step()
    saved = optimiser.state_dict()
    copies = leaves(*(x.data for x in parameters))
    resumed = make(copies)
    resumed.load_state_dict(saved)
    for _ in range(3):
        give()
        for x, copy in zip(parameters, copies, strict=True):
            copy.grad = x.grad
        optimiser.step(), resumed.step()
        for x, copy in zip(parameters, copies, strict=True):
            assert x.data.tobytes() == copy.data.tobytes()
    assert resumed.updates == updates + 3


@each_kind
def test_a_state_dict_is_a_copy_and_so_is_what_is_loaded(make):
    parameters, give = drawn(3)
    optimiser = make(parameters)
    give(), optimiser.step()
    saved = optimiser.state_dict()
    kept = {name: value.copy() for name, value in saved.items()}
    give(), optimiser.step()
    assert all(np.array_equal(saved[name], kept[name]) for name in kept)
    optimiser.load_state_dict(saved)
    for value in saved.values():
        value[...] = 7
    again = optimiser.state_dict()
    assert all(np.array_equal(again[name], kept[name]) for name in kept)


@each_kind
def test_a_step_that_fails_on_one_parameter_changes_none(make):
    (a, b, c), give = drawn(0)
    optimiser = make([a, b, c])
    give(), optimiser.step()
    before = [x.data.copy() for x in (a, b, c)], optimiser.state_dict()
    give()
    c.grad = np.ones((2, 2))
    with pytest.raises(ValueError, match=r"gradient of parameter w2 has shape \(2, 2\), not \(\)"):
        optimiser.step()
    assert all(np.array_equal(x.data, old) for x, old in zip((a, b, c), before[0], strict=True))
    after = optimiser.state_dict()
    assert after.keys() == before[1].keys() and all(np.array_equal(after[k], before[1][k]) for k in after)


@given(seeds, st.floats(0.01, 0.9))
def test_decoupled_decay_is_the_same_for_every_gradient_and_the_other_is_not(seed, decay):
    rng = np.random.default_rng(seed)
    w, g = rng.uniform(1, 2, 5), rng.uniform(1, 2, 5) * 10.0 ** rng.integers(-3, 3, 5)

    def moved(kind, weight_decay):
        (x,) = leaves(w)
        x.grad = g
        kind([x], lr=0.1, weight_decay=weight_decay).step()
        return x.data

    np.testing.assert_allclose(moved(AdamW, 0.0) - moved(AdamW, decay), 0.1 * decay * w, rtol=1e-9)
    # through the moving averages, a first step has the length lr whatever is added to the gradient
    np.testing.assert_allclose(moved(Adam, decay), moved(Adam, 0.0), rtol=1e-4)


@each_kind
def test_tied_weights_are_stepped_once(make):
    (w,), (v,) = leaves([1.0, 2.0]), leaves([1.0, 2.0])

    class Tied(tg.nn.Module):
        def __init__(self):
            self.into, self.out = w, [w]

    w.grad = v.grad = np.array([0.5, -0.25])
    make(Tied().parameters()).step(), make([v]).step()
    assert np.array_equal(w.data, v.data)


def test_an_optimiser_of_ones_own_is_one_rule():
    class SignDescent(tg.optim.Optimiser):
        def rule(self, w, g, memory, lr):
            return w - lr * np.sign(g), {}

    (w,) = leaves([1.0, 1.0])
    w.grad = np.array([3.0, -0.1])
    SignDescent([w], lr=0.5).step()
    assert w.data.tolist() == [0.5, 1.5]
    w.grad = np.ones(2)
    with pytest.raises(NotImplementedError, match=r"Optimiser defines no rule\(w, g, memory, lr\)"):
        tg.optim.Optimiser([w], 0.1).step()


def test_a_graph_recorded_before_a_step_keeps_its_gradient():
    (w,) = leaves([2.0])
    y = (w * w * w).sum()
    w.grad = np.ones(1)
    SGD([w], 1.0).step()
    assert tg.grad(y, w).tolist() == [12.0] and w.data.tolist() == [1.0]


# --- schedules


def test_a_schedule_is_asked_with_the_number_of_updates_made_before():
    (w,) = leaves(0.0)
    asked = []
    optimiser = SGD([w], lr=lambda update: asked.append(update) or 0.5**update)
    asked.clear()
    for _ in range(3):
        w.grad = np.array(1.0)
        optimiser.step()
    assert asked == [0, 1, 2] and w.item() == -1.75 and optimiser.rate == 0.125


@given(st.floats(0.001, 10), st.integers(1, 50), st.integers(1, 50))
def test_schedules_begin_and_end_where_they_say(lr, rise, fall):
    rate = warm_up(cosine(lr, fall), rise)
    ramp = [warm_up(lr, rise)(n) for n in range(rise)]
    np.testing.assert_allclose(np.diff(ramp), lr / rise)
    assert ramp[-1] == warm_up(constant(lr), rise)(rise + 7) == lr
    assert rate(rise + fall) == pytest.approx(0, abs=1e-15)
    assert cosine(lr, fall, end=0.5)(fall) == cosine(lr, fall, end=0.5)(fall + 9) == pytest.approx(0.5)
    falling = [cosine(lr, fall)(n) for n in range(fall + 1)]
    assert falling[0] == lr and sorted(falling, reverse=True) == falling
    assert step_decay(lr, fall, 0.1)(3 * fall) == lr * 0.1**3 and step_decay(lr, fall)(fall - 1) == lr


# --- clipping


@given(seeds, st.sampled_from([1.0, 2.0, 3.0, inf]), st.floats(0.01, 100), st.sampled_from([1e-200, 1.0, 1e200]))
def test_a_clipped_gradient_keeps_its_direction_and_meets_the_bound(seed, p, bound, size):
    rng = np.random.default_rng(seed)
    gradients = [size * rng.standard_normal(shape) for shape in ((3, 2), (), (4,))]
    parameters = with_gradients(*gradients)
    whole = np.concatenate([g.ravel() for g in gradients]) / size
    norm = clip_grad_norm(parameters, bound * size, p)
    assert norm == pytest.approx(size * np.linalg.norm(whole, p), rel=1e-12, abs=0)
    assert norm.scale == pytest.approx(min(1.0, bound * size / norm), rel=1e-12)
    for x, g in zip(parameters, gradients, strict=True):
        np.testing.assert_allclose(x.grad, g * norm.scale, rtol=1e-12)


def test_norms_of_single_precision_gradients_neither_overflow_nor_vanish():
    for size in (3e38, 1e-30):
        (w,) = leaves(np.zeros(4, np.float32))
        w.grad = np.full(4, size, np.float32)
        assert clip_grad_norm([w], 1.0) == pytest.approx(2 * float(np.float32(size)), rel=1e-12)
        assert w.grad.dtype == np.float32
        np.testing.assert_allclose(w.grad, min(0.5, size), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e-160, 1e-155, 1e155, 1e200])
def test_a_norm_whose_squares_no_float_can_hold_is_exact(size):
    norm = clip_grad_norm(with_gradients([3.0 * size], [4.0 * size]), 1.0)
    assert norm == pytest.approx(5.0 * size, rel=1e-14, abs=0)


def test_values_are_clipped_one_by_one_and_the_largest_is_reported():
    a, b = with_gradients([3.0, -0.5], [-4.0])
    largest = clip_grad_value([a, b], 2.0)
    assert (largest, largest.scale) == (4.0, 0.5)
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, -0.5], [-2.0])
    assert clip_grad_value([a, b], 2.0).scale == 1.0


def test_tied_parameters_count_once_in_the_norm_and_a_generator_is_listed_once():
    (w,) = with_gradients([3.0, 4.0])
    assert clip_grad_norm((x for x in [w, w]), 1.0) == 5.0
    np.testing.assert_allclose(w.grad, [0.6, 0.8])


@pytest.mark.parametrize("clip", [clip_grad_norm, clip_grad_value])
def test_nothing_to_clip_is_a_norm_of_zero(clip):
    zero, none = with_gradients([0.0, 0.0])[0], leaves([1.0])[0]
    for parameters in ([zero], [none], []):
        assert clip(parameters, 1.0) == 0.0 and clip(parameters, 1.0).scale == 1.0
    assert clip_grad_norm([none], 1.0, p=inf) == 0.0
    assert zero.grad.tolist() == [0.0, 0.0] and none.grad is None


@pytest.mark.parametrize("clip", [clip_grad_norm, clip_grad_value])
@pytest.mark.parametrize("bad", [inf, -inf, nan])
def test_a_gradient_that_is_not_finite_is_named_and_nothing_is_clipped(clip, bad):
    parameters = with_gradients([5.0, 1.0], [bad, 1.0])
    with pytest.raises(FloatingPointError, match=r"parameter w1 is not finite; nothing was clipped"):
        clip([parameters[0], *leaves(0.0), parameters[1]], 1.0)
    assert parameters[0].grad.tolist() == [5.0, 1.0]
    np.testing.assert_array_equal(parameters[1].grad, [bad, 1.0])


# --- faults that people reported elsewhere, by the numbers of tests/test_cases.py


def test_momentum_is_no_gradient_that_the_caller_empties():
    (p,) = leaves(0.0)
    optimiser, buffer, path = SGD([p], lr=1.0, momentum=0.9), np.array(0.0), []
    for g in (1.0, 2.0, 3.0):  # another one each time, else a memory in the caller's buffer would look right
        buffer[...] = g
        p.grad = buffer
        optimiser.step()
        buffer[...] = 0.0
        path.append(p.item())
    np.testing.assert_allclose(path, [-1, -3.9, -9.51], rtol=1e-15)


def test_each_parameter_has_a_clock_of_its_own():
    one, two = leaves(1.0, 1.0)
    optimiser = Adam([one, two], lr=0.1)
    for expected in (0.9, 0.8):
        one.grad = two.grad = np.array(0.5)
        optimiser.step()
        np.testing.assert_allclose([one.item(), two.item()], expected, rtol=1e-7)


def test_a_late_gradient_begins_at_the_first_tick_of_its_clock():
    (w,) = leaves(1.0)
    optimiser = Adam([w], lr=0.1)
    for _ in range(2):
        with pytest.warns(UserWarning, match="no parameter of this Adam has a gradient"):
            optimiser.step()
    assert w.item() == 1.0
    w.grad = np.array(0.5)
    optimiser.step()
    np.testing.assert_allclose(w.item(), 0.9, rtol=1e-7)


@pytest.mark.parametrize(
    ("kind", "start", "gradient", "options", "expected"),
    [
        (Adam, 2.0, 0.5, {"weight_decay": 0.1}, 1.9),
        (AdamW, 2.0, 0.5, {"weight_decay": 0.1}, 1.88),
        (Adam, 1.0, 1e-8, {}, 0.95),
    ],
)
def test_decay_and_eps_stand_where_the_papers_put_them(kind, start, gradient, options, expected):
    (w,) = leaves(start)
    w.grad = np.array(gradient)
    kind([w], lr=0.1, **options).step()
    np.testing.assert_allclose(w.item(), expected, rtol=1e-7)


def test_a_loss_over_two_chunks_counts_both_when_the_gradient_is_forgotten_after_the_update():
    h, (w,) = tg.Tensor(0.9), leaves(0.2)
    for _ in range(2):
        h = w * h
        h.backward()
        h = h.detach()
    assert w.grad == pytest.approx(0.9 + 0.18)


# --- bad input


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda w: Adam([]), ValueError, "needs parameters; the list is empty"),
        (lambda w: (used := iter([w]), list(used), Adam(used)), ValueError, "generator that was used up"),
        (lambda w: SGD([w, w], 0.1), ValueError, r"parameter 1 \(2,\) \(w0\) is given twice; module.parameters"),
        (lambda w: SGD([w * 2], 0.1), ValueError, r"parameter 0 \(2,\) is the result of multiply; only leaves"),
        (lambda w: SGD(w, 0.1), TypeError, r"parameters come as a module, .* a list of tensors, \[w\] .*got Tensor"),
        (lambda w: SGD(3, 0.1), TypeError, "parameters come as .*got int"),
        (lambda w: SGD({"a": {"b": w}, "a.b": w + 1}, 0.1), ValueError, "two parameters would be called a.b: rename"),
        (lambda w: SGD([{"params": [w]}], 0.1), TypeError, r'is a dict, {"parameters": net, .* got one with \[.params'),
        (lambda w: SGD([{"parameters": [w]}, w], 0.1), TypeError, "a group of parameters is a dict, .* got Tensor"),
        (
            lambda w: SGD([{"parameters": [w], "eps": 1}], 0.1),
            TypeError,
            "SGD has no option eps; .* lr, momentum, nest",
        ),
        (lambda w: SGD([{"parameters": [w], "lr": -1}], 0.1), ValueError, "learning rate .* got -1.0"),
        (lambda w: SGD([{"parameters": [w], "momentum": 2}], 0.1), ValueError, r"momentum in \[0, 1\) .* got 2"),
        (lambda w: SGD([{"parameters": [w]}, {"parameters": {"v": w}}], 0.1), ValueError, "parameter v .*given twice"),
        (lambda w: SGD([w.data], 0.1), TypeError, "parameters are tensors, got ndarray"),
        (lambda w: SGD([w], -0.1), ValueError, "learning rate .* got -0.1"),
        (lambda w: SGD([w], nan), ValueError, "learning rate .* got nan"),
        (lambda w: Adam([w], inf), ValueError, "learning rate .* got inf"),
        (lambda w: Adam([w], lambda update: -1.0), ValueError, "learning rate .* got -1.0 for update 0"),
        (lambda w: SGD([w], 0.1, momentum=1.0), ValueError, r"momentum in \[0, 1\) .* got 1.0"),
        (lambda w: SGD([w], 0.1, weight_decay=-1.0), ValueError, "weight_decay >= 0, got 0.0 and -1.0"),
        (lambda w: SGD([w], 0.1, nesterov=True), ValueError, "needs momentum > 0"),
        (lambda w: Adam([w], betas=(0.9, 1.0)), ValueError, r"Adam needs two betas in \[0, 1\)"),
        (lambda w: AdamW([w], eps=nan), ValueError, "AdamW needs .* eps >= 0 .* nan"),
        (lambda w: AdamW([w], weight_decay=inf), ValueError, "weight_decay >= 0, .* inf"),
        (lambda w: RMSprop([w], alpha=1.0), ValueError, r"RMSprop needs alpha and momentum in \[0, 1\), .* got 1.0"),
        (lambda w: RMSprop([w], momentum=-0.5), ValueError, r"RMSprop needs .* got 0.99, -0.5"),
        (lambda w: Adagrad([w], initial=-1.0), ValueError, r"initial >= 0, got 1e-10, 0.0 and -1.0"),
        (lambda w: clip_grad_norm([w], -1.0), ValueError, "max_norm >= 0 and p >= 1, got -1.0"),
        (lambda w: clip_grad_norm([w], nan), ValueError, "got nan"),
        (lambda w: clip_grad_norm([w], 1.0, p=0.5), ValueError, "p >= 1, got 1.0 and 0.5"),
        (lambda w: clip_grad_norm(w, 1.0), TypeError, "parameters come as a module"),
        (lambda w: clip_grad_value([w], nan), ValueError, "bound >= 0, got nan"),
        (lambda w: warm_up(0.1, 0), ValueError, "warm_up needs updates as a whole number >= 1, got 0"),
        (lambda w: cosine(0.1, 0), ValueError, "cosine needs updates"),
        (lambda w: step_decay(0.1, 0), ValueError, "step_decay needs every"),
        (lambda w: step_decay(0.1, 2.5), ValueError, "step_decay needs every as a whole number >= 1, got 2.5"),
    ],
)
def test_bad_input_is_refused_by_what_was_given_and_what_is_needed(call, error, message):
    (w,) = leaves([1.0, 2.0])
    with pytest.raises(error, match=message):
        call(w)


def test_a_rate_that_turns_bad_stops_the_update_before_anything_moved():
    (w,) = leaves(1.0)
    optimiser = SGD([w], lr=lambda update: nan if update else 0.5)
    for _ in range(2):
        w.grad = np.array(1.0)
        if optimiser.updates:
            with pytest.raises(ValueError, match="got nan for update 1"):
                optimiser.step()
        else:
            optimiser.step()
    assert w.item() == 0.5 and optimiser.updates == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("updates"), "missing updates"),
        (lambda state: state.pop("w0.v"), "missing w0.v"),
        (lambda state: state.update({"w2.m": np.zeros(1)}), "unknown w2.m"),
        (lambda state: state.update({"w0.m": np.zeros(1)}), r"w0.m: needs \(2,\) float64, got \(1,\) float64"),
        (lambda state: state.update({"w0.m": np.zeros(2, np.float32)}), r"w0.m: needs \(2,\) float64, got .* float32"),
        (lambda state: state.update({"w1.t": np.zeros(1, int)}), r"w1.t: needs \(\) int64, got \(1,\) int64"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_by_name_and_nothing_is_loaded(change, message):
    parameters = leaves([1.0, 2.0], 3.0)
    optimiser = Adam(parameters)
    for x in parameters:
        x.grad = np.ones(x.shape)
    optimiser.step()
    state = optimiser.state_dict()
    fresh = Adam(leaves([1.0, 2.0], 3.0))
    change(state)
    with pytest.raises(ValueError, match=f"does not fit Adam: .*{message}"):
        fresh.load_state_dict(state)
    assert fresh.updates == 0 and fresh.memory == {"w0": {}, "w1": {}}


def test_what_would_never_train_is_refused_with_the_remedy():
    net = tg.nn.Linear(2, 3, rng=0)
    with pytest.raises(TypeError, match=r"got Linear in the list: give a module itself, several as a dict"):
        SGD([net], 0.1)
    with pytest.raises(ValueError, match=r"parameter w1 \(w1\) requires no gradient .*requires_grad=True"):
        SGD([*leaves(1.0), tg.Tensor(1.0, name="w1")], 0.1)
    with pytest.raises(ValueError, match="a frozen module"):
        SGD(net.freeze().parameters(), 0.1)


def test_an_optimiser_tells_its_rate_how_many_parameters_it_has_and_its_updates():
    optimiser = Adam(with_gradients(1.0, [1.0, 2.0]), lr=step_decay(0.1, every=1))
    assert repr(optimiser) == "Adam(lr=0.1, parameters: 2, updates: 0)"
    optimiser.step()
    assert repr(optimiser) == "Adam(lr=0.05, parameters: 2, updates: 1)"


# --- names and groups


def momentum_over(*parameters):
    return SGD(parameters, lr=1.0, momentum=0.9)


def step_with(optimiser, gradients):
    for x, g in gradients.items():
        x.grad = np.array(g, x.dtype)
    optimiser.step()


def test_memory_goes_by_name_whatever_the_order_of_the_list():
    a, b = (tg.Tensor(1.0, requires_grad=True, name=name) for name in "ab")
    first = momentum_over(a, b)
    step_with(first, {a: 10.0, b: 1.0})
    second = momentum_over(b, a)
    second.load_state_dict(first.state_dict())
    step_with(second, {a: 10.0, b: 1.0})
    np.testing.assert_allclose([a.item(), b.item()], [-28.0, -1.9], rtol=1e-15)


def test_unnamed_parameters_go_by_place_and_shape_and_another_order_is_refused():
    a, b = tg.Tensor([1.0, 2.0], requires_grad=True), tg.Tensor(1.0, requires_grad=True)
    first = momentum_over(a, b)
    step_with(first, {a: [1.0, 1.0], b: 1.0})
    assert set(first.state_dict()) == {"updates", "0 (2,).m", "1 ().m"}
    with pytest.raises(ValueError, match=r"unknown 0 \(2,\).m; unknown 1 \(\).m"):
        momentum_over(b, a).load_state_dict(first.state_dict())


def test_names_that_differ_are_refused():
    a, c = (tg.Tensor(1.0, requires_grad=True, name=name) for name in "ac")
    first, other = momentum_over(a), momentum_over(c)
    step_with(first, {a: 1.0})
    with pytest.raises(ValueError, match=r"unknown a\.m"):
        other.load_state_dict(first.state_dict())
    assert other.memory == {"c": {}} and other.updates == 0


def test_a_state_of_version_0_1_which_goes_by_place_is_taken_by_place():
    net = tg.nn.Linear(2, 3, rng=0)
    old = {"updates": np.array(3), "0.m": np.ones((2, 3)), "1.m": np.ones(3)}
    optimiser = SGD(net, 0.1, momentum=0.5)
    optimiser.load_state_dict(old)
    assert optimiser.updates == 3 and optimiser.memory["W"]["m"].shape == (2, 3) and optimiser.memory["b"]["m"].all()
    with pytest.raises(ValueError, match=r"unknown 2\.m"):
        optimiser.load_state_dict(old | {"2.m": np.ones(1)})


def test_a_module_and_a_dict_of_modules_give_the_paths_and_a_tied_tensor_is_listed_once():
    decoder, w = tg.nn.Linear(2, 3, rng=0), tg.Tensor(1.0, requires_grad=True)
    assert list(Adam(decoder).named_parameters()) == ["W", "b"]
    optimiser = Adam({"decoder": decoder, "again": [decoder.W], "w": w, "both": {"w": w}})
    assert list(optimiser.named_parameters().items()) == [("decoder.W", decoder.W), ("decoder.b", decoder.b), ("w", w)]
    assert optimiser.parameters == [decoder.W, decoder.b, w]
    decoder.W.grad = np.full((2, 3), nan)
    with pytest.raises(FloatingPointError, match=r"the gradient of parameter decoder\.W is not finite"):
        clip_grad_norm({"decoder": decoder}, 1.0)
    decoder.W.grad = np.ones(3)
    with pytest.raises(ValueError, match=r"gradient of parameter decoder\.W has shape \(3,\), not \(2, 3\)"):
        optimiser.step()


def test_parameters_of_a_list_go_by_their_scope_too():
    net = tg.nn.LSTM(2, 3, layers=2, rng=0)
    assert list(Adam(net.parameters()).named_parameters()) == ["layer0.A", "layer0.b", "layer1.A", "layer1.b"]


def test_groups_have_options_of_their_own_and_the_optimisers_for_the_rest():
    a, b, c = leaves(1.0, 1.0, 1.0)
    alone = leaves(1.0, 1.0, 1.0)
    together = Adam([{"parameters": [a]}, {"parameters": [b], "lr": 0.5, "betas": (0.0, 0.5)},
                     {"parameters": [c], "weight_decay": 0.25}], lr=0.1)  # fmt: skip
    apart = [Adam(alone[:1], 0.1), Adam(alone[1:2], 0.5, (0.0, 0.5)), Adam(alone[2:], 0.1, weight_decay=0.25)]
    for update in range(4):
        if update == 2:
            together.lr = apart[0].lr = apart[2].lr = 0.2
            together.groups[1]["lr"] = apart[1].lr = lambda update: 0.1 * update
        step_with(together, {a: 1.0 + update, b: 2.0 - update, c: 0.5})
        for x, optimiser, g in zip(alone, apart, (1.0 + update, 2.0 - update, 0.5), strict=True):
            step_with(optimiser, {x: g})
        assert [x.item() for x in (a, b, c)] == [x.item() for x in alone]
    assert repr(together) == "Adam(lr=0.2, parameters: 3, groups: 3, updates: 4)"


def test_names_that_occur_in_several_groups_get_the_number_of_the_group():
    one, two = tg.nn.Linear(2, 3, rng=0), tg.nn.Linear(2, 3, rng=1)
    optimiser = Adam([{"parameters": one}, {"parameters": two, "lr": 0.1}])
    assert list(optimiser.named_parameters()) == ["0.W", "0.b", "1.W", "1.b"]
    apart = Adam([{"parameters": {"one": one}}, {"parameters": {"two": two}}])
    assert list(apart.named_parameters()) == ["one.W", "one.b", "two.W", "two.b"]


def test_a_group_without_momentum_remembers_nothing():
    a, b = leaves(1.0, 1.0)
    groups = [{"parameters": [a]}, {"parameters": [b], "momentum": 0.0}]
    first = SGD(groups, 0.1, momentum=0.5)
    step_with(first, {a: 1.0, b: 1.0})
    assert set(first.state_dict()) == {"updates", "w0.m"}
    second = SGD(groups, 0.1, momentum=0.5)
    second.load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match=r"unknown w1\.m"):
        second.load_state_dict(first.state_dict() | {"w1.m": np.array(1.0)})


@pytest.mark.parametrize(("path", "value"), [("updates", -1), ("w0.t", 0)])
def test_a_count_that_no_run_can_have_is_refused(path, value):
    (w,) = leaves(1.0)
    optimiser = Adam([w])
    step_with(optimiser, {w: 1.0})
    with pytest.raises(ValueError, match=f"{path} is {value}"):
        optimiser.load_state_dict(optimiser.state_dict() | {path: np.array(value)})


def test_other_bytes_order_in_a_state_is_the_same_state():
    (w,) = leaves([1.0, 2.0], dtype=">f8")
    optimiser = Adam([w], 0.1)
    step_with(optimiser, {w: [1.0, 2.0]})
    swapped = {name: array.astype(array.dtype.newbyteorder()) for name, array in optimiser.state_dict().items()}
    other = Adam(leaves([1.0, 2.0]), 0.1)
    other.load_state_dict(swapped)
    assert other.memory["w0"]["v"].tolist() == optimiser.memory["w0"]["v"].tolist() and w.dtype == ">f8"


def test_half_precision_is_updated_in_single():
    (w,) = leaves([1.0, 1.0], dtype=np.float16)
    optimiser = Adam([w], 0.25)
    step_with(optimiser, {w: [300.0, 1e-4]})  # squares that half precision cannot hold
    assert w.dtype == np.float16 and w.data.tolist() == [0.75, 0.75]
    other = Adam(leaves([1.0, 1.0], dtype=np.float16))
    other.load_state_dict(optimiser.state_dict())
    assert other.memory["w0"]["v"].dtype == np.float32


def test_a_step_without_any_gradient_is_heard():
    (w,) = leaves(1.0)
    with pytest.warns(UserWarning, match=r"no parameter of this SGD has a gradient.* call backward\(\) first"):
        SGD([w], 0.1).step()


def test_an_optimiser_may_count_on_itself():
    class Counting(tg.optim.Optimiser):
        calls = 0

        def rule(self, w, g, memory, lr):
            self.calls += 1
            return w - lr * g, {}

    (w,) = leaves(1.0)
    optimiser = Counting([w], 0.5)
    step_with(optimiser, {w: 1.0})
    assert optimiser.calls == 1 and w.item() == 0.5


def test_a_rule_that_gives_another_shape_changes_nothing():
    class Wrong(tg.optim.Optimiser):
        def rule(self, w, g, memory, lr):
            return (w - g if w.ndim == 1 else np.zeros(2)), {"m": g}

    a, b = leaves([1.0, 2.0], 3.0)
    optimiser = Wrong([a, b], 0.1)
    with pytest.raises(ValueError, match=r"the rule of Wrong gave parameter w1 \(\) the shape \(2,\)"):
        step_with(optimiser, {a: [1.0, 1.0], b: 1.0})
    assert a.data.tolist() == [1.0, 2.0] and optimiser.updates == 0 and optimiser.memory == {"w0": {}, "w1": {}}
