"""Products with a factor that is laid out once: the bits of BLAS, or BLAS."""

import ctypes
import itertools
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import tinygrad_seq as tg
from tests.replaying.test_recorder import eager, replayed
from tinygrad_seq.replaying import compiling, native, packing
from tinygrad_seq.replaying.lowering import Lowering, address


@pytest.fixture(scope="module", autouse=True)
def own():
    try:
        native.loops(None)
        return compiling.compiled("packed.c", *packing.FLAGS)
    except compiling.Unavailable as reason:
        pytest.skip(f"no native runs on this machine: {reason}")


@pytest.fixture(scope="module")
def plain(own, tmp_path_factory):
    """The same product in the stated order, as a plain loop in C."""
    target = tmp_path_factory.mktemp("plain") / "plain.so"
    source = Path(__file__).with_name("plain_product.c")
    command = own.compiler.split()[0]
    compiling.subprocess.run(
        [command, "-O2", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", "-o", target, source], check=True
    )
    return ctypes.CDLL(target).plain


def played(records):
    library, flags = native.loops(None), np.zeros(1, np.int64)
    words = packing._words(records)
    library.functions.run(address(words), 0, len(words), address(flags))


@given(
    m=st.integers(1, 20), k=st.integers(1, 150), n=st.integers(1, 80), most=st.sampled_from([0, 16, 33, 48]),
    turned=st.booleans(), add=st.booleans(), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_a_product_is_added_up_in_another_order_than_stated(plain, m, k, n, most, turned, add, seed):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((k, m), np.float32).T if turned else rng.standard_normal((m, k), np.float32)
    b, out = rng.standard_normal((k, n), np.float32), rng.standard_normal((m, n), np.float32)
    right, dims = out.copy(), np.array([m, k, n], np.int64)
    packed = packing.Packing(Lowering(native.loops(None)), native.loops(None), [], set(), {})
    panels, laid_out = packed._packed(b)
    played([laid_out, packed._record(a, panels, out, packing.COLUMNS, packing.COLUMNS * k, most, add)])
    a = np.ascontiguousarray(a)
    plain(*(ctypes.c_void_p(address(x)) for x in (a, b, right, dims)), ctypes.c_longlong(most), add)
    assert out.tobytes() == right.tobytes()


@pytest.fixture
def always(monkeypatch):
    """Every product that can be packed is, whatever BLAS computes: for whole numbers, whose sums do not round."""
    monkeypatch.setattr(packing.Packing, "_agrees", lambda *_: True)
    monkeypatch.setattr(packing.Packing, "_pays", lambda *_: True)


def whole(rng, *shape):
    return rng.integers(-3, 4, shape).astype(np.float32)


SIZES = [*itertools.product((1, 5, 16), (8, 32, 40))]


@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_a_packed_weight_or_a_sum_of_products_gives_other_gradients(always, rows, width):
    rng = np.random.default_rng(0)
    A = tg.Tensor(whole(rng, width, width), requires_grad=True)

    def function(xs, other):
        h, loss = xs[0], 0.0
        for t in range(6):
            h = tg.relu(xs[t] - h) * (0.0 * h + 1.0)
            product = h @ A
            loss = loss + (product * other).sum()
        return loss, (product,)

    step = tg.replay(function, wrt=[A])
    for _ in range(3):
        arguments = whole(rng, 6, rows, width), whole(rng, rows, width)
        assert replayed(step, arguments, [A]) == eager(function, tuple(map(tg.Tensor, arguments)), [A])
        A.data = whole(rng, width, width)
    program = step.program.stats()
    assert program["native"] + program["python"] == program["operations"]
    assert program["packed"] >= 6


def test_a_product_that_is_read_twice_is_lost_when_it_is_added(always):
    rng = np.random.default_rng(0)
    w = tg.Tensor(whole(rng, 32, 32), requires_grad=True)

    def function(x):
        total = w * 1.0
        for t in range(3):
            product = x[t].T @ x[t]
            total = total + product
            if t == 1:
                kept = product
        return (total * kept).sum()

    step = tg.replay(function, wrt=[w])
    for _ in range(3):
        x = whole(rng, 3, 4, 32)
        assert replayed(step, (x,), [w]) == eager(function, (tg.Tensor(x),), [w])


def test_the_switch_to_blas_alone_does_nothing(always, monkeypatch):
    monkeypatch.setenv("TINYGRAD_SEQ_NATIVE", "blas")
    w = tg.Tensor(np.ones((32, 32), np.float32), requires_grad=True)
    step = tg.replay(lambda x: sum((x[t] @ w).sum() for t in range(6)))
    for _ in range(2):
        step(np.ones((6, 2, 32), np.float32))
    assert step.program.stats()["packed"] == 0 < step.program.stats()["native"]


@pytest.mark.parametrize("cell", [tg.nn.LSTM, tg.nn.GRU, tg.nn.RNN])
@pytest.mark.parametrize("size", [(1, 4, 8), (16, 16, 32), (3, 30, 64)])
def test_packed_products_differ_in_a_bit_where_a_trial_allows_them(cell, size, monkeypatch):
    monkeypatch.setattr(packing.Packing, "_pays", lambda *_: True)
    B, m, d = size
    net, rng = cell(m, d, rng=0, dtype=np.float32), np.random.default_rng(1)
    parameters = list(net.parameters())
    cotangent = rng.standard_normal((9, B, d), np.float32)
    function = lambda xs: (net(xs)[0] * cotangent).sum()
    step = tg.replay(function, wrt=net)
    for _ in range(3):
        xs = rng.standard_normal((9, B, m), np.float32)
        assert replayed(step, (xs,), parameters) == eager(function, (tg.Tensor(xs),), parameters)
        for x in parameters:
            x.data = x.data + rng.standard_normal(x.shape, np.float32) * np.float32(0.1)
