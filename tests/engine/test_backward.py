"""The backward pass and what can be asked of a tape, on random programs with shared nodes and on graphs by hand."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tinygrad_seq as tg
from tinygrad_seq.engine import backward, ops

# Random programs -----------------------------------------------------------------------------------------------------

# Each operation runs on tensors and, for the reference, on complex arrays. What does not fit the shapes raises.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "tanh": tg.tanh,
    "sin": tg.sin,
    "cos": tg.cos,
    "sigmoid": tg.sigmoid,
    "logsigmoid": tg.logsigmoid,
    "bell": lambda x: tg.exp(-x * x),
    "negative": lambda x: -x,
    "square": tg.square,
    "cube": lambda x: x**3 / 2,
    "root": lambda x: tg.sqrt(x * x + 1),
    "log": lambda x: tg.log(x * x + 2),
    "power": lambda x: (x * x + 1) ** 1.5 / 4,
    "sum": lambda x: tg.sum(x, axis=0),
    "total": tg.sum,
    "mean": lambda x: tg.mean(x, axis=-1, keepdims=True),
    "variance": lambda x: tg.var(x, axis=-1),
    "largest": lambda x: tg.max(x, axis=-1),
    "norm": lambda x: tg.norm(x + 2, axis=-1),
    "product": lambda x: tg.prod(x, axis=0),
    "softmax": tg.softmax,
    "log_softmax": lambda x: tg.log_softmax(x) / 2,
    "logsumexp": lambda x: tg.logsumexp(x, axis=None),
    "cumsum": lambda x: tg.cumsum(x, axis=0),
    "transpose": tg.transpose,
    "flat": lambda x: tg.reshape(x, (-1,)),
    "row": lambda x: tg.expand_dims(x, 0),
    "flip": tg.flip,
    "spread": lambda x: tg.broadcast_to(x, (2, *x.shape)),
    "first": lambda x: x[0],
    "last": lambda x: x[..., -1],
    "rest": lambda x: x[1:],
    "backwards": lambda x: x[..., ::-1],
    "twice": lambda x: x[[0, -1, 0]],
    "masked": lambda x: x[np.arange(x.shape[0]) % 2 == 0],
    "pad": lambda x: tg.pad(x, 1),
    "half": lambda x: tg.split(x, [1])[0],
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / (b * b + 1),
    "exponent": lambda a, b: (a * a + 0.5) ** tg.tanh(b),
    "maximum": tg.maximum,
    "minimum": tg.minimum,
    "where": lambda a, b: tg.where(np.arange(a.size).reshape(a.shape) % 2 == 0, a, b),
    "matmul": lambda a, b: tg.matmul(a, tg.swapaxes(b, -1, -2) if b.ndim > 1 else b),
    "einsum": lambda a, b: tg.einsum("...i,i->...", a, b),
    "outer": tg.outer,
    "concat": lambda a, b: tg.concat([a, b, a]),
    "stack": lambda a, b: tg.stack([b, a, b], axis=-1),
}
BINARY = list(OPERATIONS).index("add")
LARGEST = 16  # entries, so that the Jacobians of the reference stay small


class Program(NamedTuple):
    """A straight line of operations: each reads earlier values, the leaves being the first of them."""

    leaves: list[Any]
    lines: list[tuple[str, tuple[int, ...]]]

    def run(self, leaves: Any, detached: int | None = None) -> list[Any]:
        """All values, of which one may be detached before anything reads it."""
        values: list[Any] = []
        for k in range(len(self.leaves) + len(self.lines)):
            if k < len(self.leaves):
                values.append(leaves[k])
            else:
                name, inputs = self.lines[k - len(self.leaves)]
                values.append(OPERATIONS[name](*(values[i] for i in inputs)))
            if k == detached:
                values[k] = values[k].detach()
        return values

    def tensors(self, dtype: Any = np.float64) -> list[tg.Tensor]:
        return self.run([tg.Tensor(leaf, requires_grad=True, dtype=dtype) for leaf in self.leaves])


def near_a_kink(name: str, inputs: list[Any]) -> bool:
    """Whether the entries that a maximum compares tie, or nearly: no reference knows the slope there."""
    if name in ("maximum", "minimum"):
        return bool((np.abs(np.subtract(*inputs)) < 1e-3).any())
    return name == "largest" and bool((np.diff(np.sort(np.atleast_1d(inputs[0]))) < 1e-3).any())


def fitting(name: str, inputs: list[Any]) -> Any:
    """What the operation gives, or None where the shapes do not fit or the numbers get out of hand."""
    try:
        value = np.asarray(OPERATIONS[name](*inputs))
    except (ValueError, IndexError, RuntimeWarning):  # the warning: a mean of nothing
        return None
    if near_a_kink(name, inputs) or any(value is x for x in inputs):  # nothing done: flip of a number, say
        return None
    return value if value.size <= LARGEST and np.abs(value).max(initial=0) < 10 else None


@st.composite
def programs(draw: Any) -> Program:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shapes = draw(st.lists(st.sampled_from([(), (3,), (2, 3), (2, 1), (1, 3)]), min_size=2, max_size=3))
    leaves = [np.asarray(rng.uniform(0.1, 1.5, shape) * rng.choice([-1, 1], shape)) for shape in shapes]
    values, lines = list(leaves), []
    for _ in range(draw(st.integers(5, 30))):
        name = draw(st.sampled_from(list(OPERATIONS)))
        arity = 1 + (list(OPERATIONS).index(name) >= BINARY)
        back = draw(st.lists(st.integers(1, min(5, len(values))), min_size=arity, max_size=arity))
        inputs = tuple(len(values) - k for k in back)
        value = fitting(name, [values[i] for i in inputs])
        if value is None:
            name, inputs, value = "tanh", inputs[:1], np.asarray(np.tanh(values[inputs[0]]))
        lines.append((name, inputs))
        values.append(value)
    return Program(leaves, lines)


def local_jacobians(program: Program) -> dict[tuple[int, int], Any]:
    """∂line/∂input of every edge, (entries of the output, entries of the input), by complex step."""
    values, rates = program.run(program.leaves), {}
    for k, (name, inputs) in enumerate(program.lines, start=len(program.leaves)):
        for position, source in enumerate(inputs):
            columns = []
            for entry in range(values[source].size):
                step = np.zeros(values[source].size, complex)
                step[entry] = 1e-100j
                moved = [np.asarray(values[i]) for i in inputs]
                moved[position] = moved[position] + step.reshape(values[source].shape)
                columns.append(np.imag(OPERATIONS[name](*moved)).ravel() / 1e-100)
            rates[k, position] = np.array(columns).reshape(values[source].size, values[k].size).T
    return rates


def sum_over_paths(program: Program, seed: Any) -> list[Any]:
    """Each leaf's gradient: for every path from the end to it, the seed times all rates on the way."""
    rates = local_jacobians(program)
    totals = [np.zeros(np.size(leaf)) for leaf in program.leaves]

    def walk(k: int, row: Any) -> None:
        if k < len(totals):
            totals[k] += row
        else:
            for position, source in enumerate(program.lines[k - len(totals)][1]):
                walk(source, row @ rates[k, position])

    walk(len(totals) + len(program.lines) - 1, seed.ravel())
    return [total.reshape(np.shape(leaf)) for total, leaf in zip(totals, program.leaves, strict=True)]


def number_of_paths(program: Program) -> int:
    paths = [1] * len(program.leaves)
    for _, inputs in program.lines:
        paths.append(sum(paths[i] for i in inputs))
    return paths[-1]


def seed_of(y: tg.Tensor) -> Any:
    return np.random.default_rng(y.size).uniform(-1, 1, y.shape).astype(y.dtype)


def same_bits(a: Any, b: Any) -> bool:
    """Equal to the last bit, the sign of zeros included."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@given(programs())
def test_a_gradient_is_the_sum_over_all_paths(program: Program) -> None:
    assume(number_of_paths(program) <= 1000)
    *_, y = values = program.tensors()
    seed = seed_of(y)
    y.backward(seed)
    for x, right in zip(values, sum_over_paths(program, seed), strict=False):
        given_back = np.zeros(x.shape) if x.grad is None else x.grad
        np.testing.assert_allclose(given_back, right, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(program=programs())
def test_create_graph_gives_the_array_pass_bit_for_bit(dtype: Any, program: Program) -> None:
    *_, y = values = program.tensors(dtype)
    seed = seed_of(y)
    arrays = tg.grad(y, values, seed)
    tensors = tg.grad(y, values, seed, create_graph=True)
    flow = tg.Tape(y).flow(seed)
    y.backward(seed)
    for k, (x, array, tensor) in enumerate(zip(values, arrays, tensors, strict=True)):
        assert same_bits(array, tensor.data), k
        assert x not in flow.tape or same_bits(array, flow[x]), k
        assert x.grad is None or same_bits(array, x.grad), k


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("place", [slice(0, 1), slice(0, 0)], ids=["one", "none"])
def test_zeros_have_one_sign_whatever_the_door(uses: int, place: slice) -> None:
    """-0.0 from whole contributions, and then a contribution to a part: 0.0 everywhere, as 0.0 + -0.0 is."""
    x = leaf([1.0, 2.0])
    loss = x[place].sum()
    for _ in range(uses):
        loss = loss + (x * -0.0).sum()
    array = tg.grad(loss, x)
    assert same_bits(array, tg.grad(loss, x, create_graph=True).data)
    assert same_bits(array, np.array([1.0 if place.stop else 0.0, 0.0]))


@given(programs(), st.data())
def test_holding_a_tensor_is_detaching_it(program: Program, data: Any) -> None:
    *_, y = values = program.tensors()
    held = data.draw(st.integers(0, len(values) - 2), label="held")
    seed, leaves = seed_of(y), values[: len(program.leaves)]
    partial = tg.grad(y, leaves, seed, holding=[values[held]] if values[held] in tg.Tape(y) else [])
    again = [tg.Tensor(leaf, requires_grad=True) for leaf in program.leaves]
    *_, z = program.run(again, detached=held)
    if z.requires_grad:
        for a, b in zip(partial, tg.grad(z, again, seed), strict=True):
            assert same_bits(a, b)
    else:
        assert not any(a.any() for a in partial)


@given(programs())
def test_the_hessian_is_symmetric_and_the_slope_of_the_gradient(program: Program) -> None:
    *_, y = values = program.tensors()
    leaves = values[: len(program.leaves)]
    loss = (y * seed_of(y)).sum()
    rng = np.random.default_rng(1)
    u, v = ([rng.uniform(-1, 1, x.shape) for x in leaves] for _ in range(2))

    def along(direction: list[Any], product: list[Any]) -> Any:
        return sum(np.vdot(a, b) for a, b in zip(direction, product, strict=True))

    hu, hv = tg.hvp(loss, leaves, u), tg.hvp(loss, leaves, v)
    size = along([np.abs(a) for a in u], [np.abs(b) for b in hv])
    np.testing.assert_allclose(along(u, hv), along(v, hu), rtol=1e-8, atol=1e-9 * (1 + size))

    def slope(h: float) -> Any:
        moved = Program([x + h * d for x, d in zip(program.leaves, u, strict=True)], program.lines).tensors()
        return along(v, tg.grad((moved[-1] * seed_of(y)).sum(), moved[: len(leaves)]))

    differences = (slope(1e-5) - slope(-1e-5)) / 2e-5
    np.testing.assert_allclose(along(v, hu), differences, rtol=1e-5, atol=1e-5 * (1 + size))


@given(programs())
def test_a_jacobian_stacks_the_gradients_of_the_entries(program: Program) -> None:
    *_, y = values = program.tensors()
    x = values[0]
    jacobian = tg.jacobian(y, x)
    assert jacobian.shape == y.shape + x.shape
    for entry in np.ndindex(y.shape):
        seed = np.zeros(y.shape)
        seed[entry] = 1
        assert same_bits(jacobian[entry], tg.grad(y, x, seed))


# Gradients -----------------------------------------------------------------------------------------------------------


def leaf(values: Any) -> tg.Tensor:
    return tg.Tensor(values, requires_grad=True)


def scalar(value: float, name: str | None = None) -> tg.Tensor:
    return tg.Tensor(value, requires_grad=True, name=name)


def example_12_1() -> tuple[tg.Tensor, tg.Tensor]:
    """One weight, three uses: h = x + w h at each of three steps."""
    w, h = scalar(0.5, "w"), tg.Tensor(0.0, name="h")
    for t, x in enumerate([1.0, 0.0, 0.0], start=1):
        with tg.step(t):
            h = (x + w * h).named("h")
    return w, (0.5 * (h - 1.0) ** 2).named("L")


def test_grad_touches_no_grad_and_releases_nothing() -> None:
    x, c = scalar(3.0), scalar(5.0)
    y = x * x
    assert tg.grad(y, x).item() == tg.grad(y, x).item() == 6
    assert [g.item() for g in tg.grad(y, [x, c])] == [6, 0]
    assert x.grad is None
    assert tg.grad(y, []) == []
    assert tg.grad(y, y).item() == 1
    (y * 2).backward()
    assert x.grad == 12


def test_a_gradient_of_several_results_is_that_of_their_sum() -> None:
    x = tg.Tensor([1.0, 2.0], requires_grad=True)
    y, z = x * x, x[0] * 3.0
    assert tg.grad([y, z], x, [[1.0, 10.0], 100.0]).tolist() == [302.0, 40.0]
    assert tg.grad([z, z], x).tolist() == [6.0, 0.0]
    with pytest.raises(ValueError, match="2 results need as many seeds, got 3"):
        tg.grad([y, z], x, [1.0, 1.0, 1.0])


def test_what_does_not_require_a_gradient_has_none() -> None:
    x = scalar(1.0)
    with pytest.raises(ValueError, match="c does not require a gradient"):
        tg.grad(x * 2, tg.Tensor(1.0, name="c"))


def test_higher_derivatives_of_a_polynomial_and_of_tanh() -> None:
    x = scalar(2.0)
    derivative, found = x**4, []
    for _ in range(5):
        derivative = tg.grad(derivative, x, create_graph=True)
        found.append(derivative.item())
    assert found == [32, 48, 48, 24, 0]
    x = scalar(0.7)
    first = tg.grad(tg.tanh(x), x, create_graph=True)
    second = tg.grad(first, x, create_graph=True)
    third = tg.grad(second, x)
    y = np.tanh(0.7)
    np.testing.assert_allclose(second.data, -2 * y * (1 - y * y), rtol=1e-14)
    np.testing.assert_allclose(third, (1 - y * y) * (6 * y * y - 2), rtol=1e-14)


def test_the_gradient_of_a_gradient_reaches_the_seed() -> None:
    """Which is how the forward mode comes out of the backward one: ∂(v·J)/∂v · u = J u."""
    x, u = tg.Tensor([1.0, 2.0], requires_grad=True), np.array([1.0, 10.0])
    seed = tg.Tensor([0.0, 0.0, 0.0], requires_grad=True)
    y = tg.stack([x[0] * x[1], x[0] ** 2, x[1] * 3.0])
    back = tg.grad(y, x, seed, create_graph=True)
    assert tg.grad(back, seed, u).tolist() == [12.0, 2.0, 30.0]
    assert tg.grad(y, x, tg.Tensor(2.0, requires_grad=True)).tolist() == [8.0, 8.0]


def test_hvp_of_one_tensor_of_several_and_of_a_linear_function() -> None:
    x, y = scalar(2.0), scalar(3.0)
    assert tg.hvp(x**3, x, 10.0).item() == 120
    assert [h.item() for h in tg.hvp(x * x * y, [x, y], [1.0, 10.0])] == [46.0, 4.0]
    assert tg.hvp(x * 3.0, x, 1.0).item() == 0
    xs = tg.Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"hvp needs a scalar, got shape \(2,\)"):
        tg.hvp(xs * 2, xs, [1.0, 1.0])
    with pytest.raises(ValueError, match=r"v needs the shape \(2,\)"):
        tg.hvp((xs * xs).sum(), xs, [1.0, 1.0, 1.0])


def test_a_partial_derivative_holds_what_it_is_told_to_hold() -> None:
    w, x = scalar(3.0), scalar(2.0)
    h = (w * x).named("h")
    y = h * x + h
    assert tg.jacobian(y, x).item() == 15
    assert tg.jacobian(y, x, holding=[h]).item() == tg.grad(y, x, holding=h).item() == 6
    assert tg.jacobian(y, w, holding=[h]).item() == 0
    assert tg.jacobian(y, x, holding=[w]).item() == 15
    assert tg.grad(y, x, holding=[x]).item() == tg.grad(y, x, holding=[y]).item() == 0
    assert tg.Tape(y).flow(holding=[x])[x].item() == tg.Tape(y).flow(holding=[y])[x].item() == 0
    with pytest.raises(ValueError, match="holding s: not on this tape"):
        tg.jacobian(y, x, holding=[scalar(1.0, "s")])


def test_create_graph_needs_the_inputs_that_were_used() -> None:
    x = scalar(2.0, "x")
    y = (x * x * x).named("y")
    x.data = 5.0
    assert tg.grad(y, x).item() == 12
    with pytest.raises(RuntimeError, match=r"x was given new data after .* was computed"):
        tg.grad(y, x, create_graph=True)


def test_create_graph_records_under_no_grad_and_labels_what_it_records() -> None:
    w, loss = example_12_1()
    with tg.no_grad():
        slope = tg.grad(loss, w, create_graph=True)
        assert not (w * 2).requires_grad
    assert slope.item() == -0.75
    assert tg.grad(slope, w).item() == -0.5
    assert {t.step for t in set(tg.Tape(slope)) - set(tg.Tape(loss))} == {None, 1, 2, 3}


def test_backward_under_no_grad_is_the_same() -> None:
    w, loss = example_12_1()
    with tg.no_grad():
        loss.backward()
    assert w.grad == -0.75


def test_gradients_accumulate_over_backward_passes_until_they_are_cleared() -> None:
    w, loss = example_12_1()
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad == -1.5
    w.zero_grad()
    assert w.grad is None
    w.backward()
    assert w.grad == 1


def test_only_leaves_get_a_grad() -> None:
    w, loss = example_12_1()
    tape_of_it = tg.Tape(loss)
    loss.backward()
    assert w.grad == -0.75
    assert all(t.grad is None for t in tape_of_it)


@pytest.mark.parametrize("kind", ["constant", "detached", "computed under no_grad", "of integers"])
def test_a_constant_has_no_backward_pass(kind: str) -> None:
    x = scalar(2.0)
    y = {"constant": tg.Tensor(1.0), "detached": (x * 2.0).detach(), "of integers": tg.Tensor([1, 2]).sum()}.get(kind)
    if y is None:
        with tg.no_grad():
            y = x * 2.0
    y.named("y")
    for ask in (
        y.backward,
        lambda: tg.grad(y, x),
        lambda: tg.jacobian(y, x),
        lambda: tg.Tape(y),
        lambda: tg.hvp(y, x, 1),
    ):
        with pytest.raises(
            ValueError, match=r"y is a constant.*no_grad, or detached.*by a replay.*requires_grad=True on a leaf"
        ):
            ask()
    assert x.grad is None


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (None, r"the result of multiply has shape \(3,\) and needs a seed"),
        ([1.0, 2.0], r"the seed of the result of multiply needs its shape \(3,\), got \(2,\)"),
        ([[1.0, 2.0, 3.0]], r"needs its shape \(3,\), got \(1, 3\)"),
        ([[1.0], [2.0, 3.0]], "rectangular"),
    ],
)
def test_a_seed_of_another_shape_changes_nothing(seed: Any, message: str) -> None:
    x = tg.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2.0
    for ask in (y.backward, lambda seed: tg.grad(y, x, seed), lambda seed: tg.Tape(y).flow(seed)):
        with pytest.raises(ValueError, match=message):
            ask(seed)
    assert x.grad is None
    y.backward([1.0, 10.0, 100.0])  # the tape is whole
    assert x.grad.tolist() == [2.0, 20.0, 200.0]


@pytest.mark.parametrize("seed", [1j, [1j, 0, 0], "one", object()])
def test_a_seed_that_is_no_real_number_is_refused(seed: Any) -> None:
    x = tg.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(TypeError, match="numbers"):
        (x * 2.0).backward(seed)
    assert x.grad is None


@pytest.mark.parametrize("seed", [2, 2.0, np.float32(2), np.array(2.0), True + 1, tg.Tensor(2.0)])
def test_a_number_as_seed_is_spread(seed: Any) -> None:
    x = tg.Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    (x * 3.0).backward(seed)
    assert x.grad.tolist() == [[6.0] * 3] * 2
    assert x.grad.dtype == np.float32


def test_a_seed_is_not_aliased() -> None:
    x = tg.Tensor([1.0, 2.0], requires_grad=True)
    seed = np.array([1.0, 10.0])
    (x + 0.0).backward(seed)
    flow = tg.Tape(x + 0.0).flow(seed)
    seed[0] = 100
    assert x.grad.tolist() == flow[x].tolist() == [1.0, 10.0]


def test_a_rule_that_fails_leaves_the_gradients_as_they_were() -> None:
    def breaks(g: Any, y: Any, x: Any) -> Any:
        raise ArithmeticError("no rate here")

    fragile = tg.primitive(lambda x: x * 1.0, breaks, name="fragile")
    x, z = scalar(1.0), scalar(2.0)
    loss = fragile(x) * z
    with pytest.raises(ArithmeticError, match="no rate here"):
        loss.backward()
    assert x.grad is None and z.grad is None


def test_a_rule_of_the_wrong_shape_is_named() -> None:
    wrong = tg.primitive(lambda x: x * 1.0, lambda g, y, x: g[:1], name="wrong")
    x = tg.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"a rule of wrong returned shape \(1,\) for an input of shape \(3,\)"):
        wrong(x).backward(1.0)
    assert x.grad is None


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda g, y, x: None, "'NoneType' object has no attribute 'shape'"),
        (lambda g, y, x: 2.0, "'float' object has no attribute 'shape'"),
        (lambda g, y, x: (g,), "'tuple' object has no attribute 'shape'"),
        (lambda g, y: g, "takes 2 positional arguments but 3 were given"),
    ],
)
def test_a_rule_that_is_no_rule_is_named_with_what_a_rule_is(rule: Any, said: str, graph: bool) -> None:
    wrong = tg.primitive(lambda x: x * 1.0, rule, name="wrong")
    y = wrong(scalar(1.0, "x")).named("y")
    with pytest.raises(TypeError, match=rf"backward at y: .*{said} \(rules take g, y, inputs; they return arrays\)"):
        tg.grad(y, list(tg.Tape(y).leaves), create_graph=graph)


def test_a_complex_gradient_for_a_real_tensor_is_refused() -> None:
    x = scalar(1.0, "x")
    with pytest.raises(TypeError, match="multiply sends a complex gradient to x"):
        (x * 1j).backward()
    assert x.grad is None


# The cost of slices --------------------------------------------------------------------------------------------------


class CountingNumPy:
    """NumPy, counting the entries that the backward pass makes or adds to."""

    def __init__(self) -> None:
        self.entries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        whole = np.zeros(shape, dtype)
        self.entries += whole.size
        return whole

    def add(self, a: Any, b: Any, out: Any) -> Any:
        self.entries += out.size
        return np.add(a, b, out)


def sliced(steps: int) -> tuple[tg.Tensor, tg.Tensor]:
    xs = tg.Tensor(np.linspace(-1, 1, steps * 8).reshape(steps, 8), requires_grad=True)
    loss = tg.Tensor(0.0)
    for t in range(steps):
        loss = loss + (xs[t] * (1.0 + t)).sum()
    return xs, loss


def test_slicing_a_sequence_step_by_step_costs_as_much_as_the_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(steps: int) -> int:
        xs, loss = sliced(steps)
        counting = CountingNumPy()

        def rule(g: Any, y: Any, x: Any, index: Any) -> Any:
            contribution = original(g, y, x, index=index)
            counting.entries += contribution.value.size if isinstance(contribution, tg.Part) else contribution.size
            return contribution

        (original,) = ops.getitem.rules
        with monkeypatch.context() as patch:
            patch.setattr(backward, "np", counting)
            patch.setattr(ops.getitem, "rules", (rule,))
            loss.backward()
        assert xs.grad.tolist() == [[1.0 + t] * 8 for t in range(steps)]
        return counting.entries

    assert work(50) > 8 * 50  # it does count
    assert work(400) == 2 * work(200)


def test_slicing_a_sequence_costs_no_more_with_create_graph() -> None:
    def recorded(steps: int) -> int:
        xs, loss = sliced(steps)
        loss = loss * loss
        return sum(t.size for t in tg.Tape(tg.grad(loss, xs, create_graph=True)))

    growth = [recorded(steps) for steps in (100, 200, 300)]
    assert growth[2] - growth[1] == growth[1] - growth[0] > 0


# Tapes ---------------------------------------------------------------------------------------------------------------


def test_a_tape_lists_what_was_recorded_in_order_and_once() -> None:
    w, loss = example_12_1()
    tape_of_it = tg.Tape(loss)
    assert [t.operation for t in tape_of_it] == ["multiply", "add"] * 3 + ["subtract", "square", "multiply"]
    assert len(tape_of_it) == 9 and tape_of_it[-1] is loss and list(tape_of_it[:2]) == list(tape_of_it)[:2]
    assert w in tape_of_it and loss in tape_of_it and scalar(1.0) not in tape_of_it and 0.5 not in tape_of_it
    assert w in tape_of_it.leaves and all(x.operation is None for x in tape_of_it.leaves)


@given(programs())
def test_a_tape_is_in_topological_order(program: Program) -> None:
    *_, y = program.tensors()
    tape_of_it = tg.Tape(y)
    place = {t: k for k, t in enumerate([*tape_of_it.leaves, *tape_of_it])}
    assert len(place) == len(tape_of_it) + len(tape_of_it.leaves)
    assert all(place[x] < place[t] for t in tape_of_it for x in t._inputs if isinstance(x, tg.Tensor) and x in place)


def test_a_tape_prints_one_line_for_each_operation() -> None:
    w, h = scalar(0.5, "w"), tg.Tensor([1.0, 2.0], name="h")
    with tg.step(1):
        h = (w * h).named("h")
    y = h[..., 1:] + 3.0
    assert str(tg.Tape(y)) == "\n".join(
        [
            "1  step 1  h = multiply(w, h)                shape (2,)",
            "2          %2 = getitem(h, index=[..., 1:])  shape (1,)",
            "3          %3 = add(%2, 3.0)                 shape (1,)",
        ]
    )


def test_find_knows_names_steps_and_scopes() -> None:
    w, h = scalar(0.5, "w"), tg.Tensor(1.0, name="h")
    for t in (1, 2):
        for layer in ("layer0", "layer1"):
            with tg.step(t), tg.scope(layer):
                h = (w * h).named("h")
    tape_of_it = tg.Tape(h)
    assert tape_of_it.find("w") == [w] and tape_of_it.find("layer1.h", 2) is h
    assert [x.step for x in tape_of_it.find("h")] == [None, 1, 1, 2, 2]
    assert [x.step for x in tape_of_it.find("layer0.h")] == [1, 2]
    for name, step, message in [
        ("q", None, r"no tensor on this tape is named 'q'; there are \['h', 'w'\]"),
        ("layer0.h", 7, r"'layer0.h' is not at step 7; it is at steps \[1, 2\]"),
        ("w", 1, "'w' is not at step 1; it is at no step"),
        ("h", 1, "2 tensors at step 1 are named 'h': say which, as .*'layer0.h', 'layer1.h'"),
    ]:
        with pytest.raises(ValueError, match=message):
            tape_of_it.find(name, step)
    with pytest.raises(ValueError, match=r"no names: use \.named"):
        tg.Tape(scalar(1.0) * 2).find("h")


def test_a_tape_needs_results_that_something_was_recorded_for() -> None:
    with pytest.raises(ValueError, match=r"tg\.Tape\(loss\)"):
        tg.Tape()
    with pytest.raises(ValueError, match="c is a constant"):
        tg.Tape(tg.Tensor(1.0, name="c"))
    x = scalar(2.0)
    assert len(tg.Tape(x)) == 0 and tg.Tape(x).leaves == [x] and tg.Tape(x).flow()[x] == 1


# Flows ---------------------------------------------------------------------------------------------------------------


def test_a_flow_is_a_pure_reading() -> None:
    w, loss = example_12_1()
    tape_of_it = tg.Tape(loss)
    printed = str(tape_of_it)
    first, second = tape_of_it.flow(), tape_of_it.flow(seed=2.0)
    assert [first[tape_of_it.find("h", t)].item() for t in (1, 2, 3)] == [-0.1875, -0.375, -0.75]
    assert first[w].item() == first["w"].item() == -0.75 and second[w].item() == -1.5
    assert first[loss] == 1 and w.grad is None and str(tape_of_it) == printed


def test_a_flow_hands_out_nothing_that_can_be_written() -> None:
    x = tg.Tensor([1.0, 2.0], requires_grad=True)
    y = x + 0.0
    flow = tg.Tape(y).flow([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        flow[y][0] = 5
    assert flow[x].tolist() == [1.0, 2.0]


def test_a_flow_gives_zeros_where_nothing_arrived_and_refuses_strangers() -> None:
    w, c = tg.Tensor([1.0, 2.0], requires_grad=True, name="w"), tg.Tensor(3.0, name="c")
    h = (w * c).named("h")
    flow = tg.Tape((h * 2.0).sum()).flow(holding=[h])
    assert flow[w].tolist() == [0.0, 0.0] and flow[w].dtype == np.float64
    with pytest.raises(ValueError, match="s is not on this tape"):
        flow[scalar(1.0, "s")]
    with pytest.raises(ValueError, match="c is a constant"):
        flow[c]
    with pytest.raises(ValueError, match="'nobody'"):
        flow["nobody"]


def test_no_credit_crosses_a_cut() -> None:
    w, loss = example_12_1()
    tape_of_it = tg.Tape(loss)
    cut = tape_of_it.flow(cut=[(2, 3)])
    assert cut[w].item() == -0.375 and cut[tape_of_it.find("h", 2)].item() == 0
    assert tape_of_it.flow(cut=[(1, 2)])[w].item() == -0.75  # the use at step 1 gives 0 anyway
    assert tape_of_it.flow(holding=[tape_of_it.find("h", 2)])[w].item() == -0.375
    for boundary in [(1, 3), (3, 4), (3, 2), (0, 1)]:
        with pytest.raises(ValueError, match=r"\(2, 3\)"):
            tape_of_it.flow(cut=[boundary])


def test_a_cut_stops_credit_in_both_directions_of_time() -> None:
    """A reverse direction reads step 2 after step 3."""
    w, h = scalar(0.5), scalar(1.0, "h0")
    for t in (3, 2, 1):
        with tg.step(t):
            h = w * h
    assert tg.Tape(h).flow(cut=[(2, 3)])[w].item() == 0.5 and tg.Tape(h).flow()[w].item() == 0.75


# Released tapes ------------------------------------------------------------------------------------------------------


def test_a_second_backward_says_where_it_ran_into_released_ground() -> None:
    w, h = scalar(0.5, "w"), tg.Tensor(1.0, name="h")
    for t in (1, 2):
        with tg.step(t):
            h = (w * h).named("h")
    tape_of_it = tg.Tape(h)
    (h * 2).backward()
    kept = w.grad.copy()
    with tg.step(3):
        further = w * h
    remedies = r"h at step 2 \(made by multiply\).*\.detach\(\).*sum of the losses.*retain_graph=True"
    for ask in (
        further.backward,
        lambda: tg.grad(further, w),
        lambda: tg.Tape(further),
        lambda: tg.jacobian(further, w),
        lambda: tg.hvp(further, w, 1.0),
        tape_of_it.flow,
        lambda: str(tape_of_it),
    ):
        with pytest.raises(tg.TapeReleasedError, match=remedies):
            ask()
    assert w.grad == kept
    (w * h.detach()).backward()
    assert w.grad == kept + h.data


def test_both_remedies_give_the_same_gradient() -> None:
    def losses() -> tuple[tg.Tensor, tg.Tensor, tg.Tensor]:
        w = scalar(1.5)
        h = w * w
        return w, h * 2.0, h * h

    w, first, second = losses()
    (first + second).backward()
    kept, first, second = losses()
    first.backward(retain_graph=True)
    second.backward()
    assert w.grad == kept.grad == 4 * 1.5 + 4 * 1.5**3


def test_a_released_result_keeps_its_value_and_label() -> None:
    x = scalar(2.0)
    y = (x * x).named("y")
    y.backward()
    assert y.item() == 4 and y.operation == "multiply" and y.requires_grad
    assert repr(y) == "Tensor(4., operation=multiply, name='y')"


# Threads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replayed", [False, True])
def test_threads_that_share_a_parameter_lose_no_gradient(replayed: bool) -> None:
    """Each thread has a step of its own. To add such long arrays, NumPy lets the other threads run."""
    w, x, rounds = tg.Tensor(np.ones(100_000), requires_grad=True), np.ones(100_000), 20
    steps = [tg.replay(lambda x: (w * x).sum()) if replayed else lambda: (w * x).sum().backward() for _ in range(8)]

    def work(step: Callable[..., Any]) -> None:
        for _ in range(rounds):
            step(x) if replayed else step()

    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (w.grad == 8 * rounds).all()
