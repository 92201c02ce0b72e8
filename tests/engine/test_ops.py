"""Every operation: its value is NumPy's, its derivatives are those of its value, on arrays as on tensors."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinygrad_seq as tg
from tinygrad_seq.engine import compositions, ops
from tinygrad_seq.nn import loss, unrolling
from tinygrad_seq.testing import check_grads, check_primitive
from tinygrad_seq.testing.strategies import arrays, broadcastable, numbers, shapes, shapes_for

seeds = st.integers(0, 2**32 - 1)


class Call(NamedTuple):
    """One call of an operation: inputs (floats are differentiated; whole numbers and masks are not) and options."""

    operation: Callable[..., Any]
    inputs: list[Any]
    options: Mapping[str, Any] = MappingProxyType({})

    def floats(self):
        return [x for x in self.inputs if np.asarray(x).dtype.kind == "f"]

    def of_floats(self, *floats):
        """The operation with these in place of its floating-point inputs."""
        rest = iter(floats)
        inputs = [next(rest) if np.asarray(x).dtype.kind == "f" else x for x in self.inputs]
        return self.operation(*inputs, **self.options)


def check(call, rng):
    """What an operation is held to; the mutation tests show that no wrong rule gets by."""
    if hasattr(call.operation, "rules"):
        check_primitive(call.operation, *call.inputs, order=2, rng=rng, broadcast=False, **call.options)
    else:
        check_grads(call.of_floats, *call.floats(), order=2, rng=rng)
        check_grads(call.of_floats, *(x.astype(np.float32) for x in call.floats()), rng=rng)


# How the calls are drawn ---------------------------------------------------------------------------------------------


def elementwise(operation, *elements, min_side=0):
    """Inputs that broadcast together, each of these numbers (or of any)."""

    @st.composite
    def calls(draw):
        drawn = draw(shapes_for(operation, min_side=min_side))
        kinds = elements if len(elements) == len(drawn) else elements * len(drawn) or (None,) * len(drawn)
        return Call(operation, [draw(arrays(s, elements=e)) for s, e in zip(drawn, kinds, strict=True)])

    return calls()


def axes_of(x, several=True):
    """None, one axis (from either end), or some of the axes."""
    one = st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none()
    some = st.lists(st.integers(0, max(x.ndim - 1, 0)), unique=True, min_size=1, max_size=x.ndim).map(tuple)
    return st.none() | one | some if several and x.ndim else st.none() | one


@st.composite
def reduction(draw, operation, min_side=1, several=True, keepdims=True, elements=None, **options):
    x = draw(arrays(shapes(min_side=min_side), elements=elements, **options))
    chosen = {"axis": draw(axes_of(x, several))}
    if keepdims:
        chosen["keepdims"] = draw(st.booleans())
    return Call(operation, [x], chosen)


@st.composite
def along_axis(draw, operation, min_side=1, **options):
    """Operations with exactly one axis."""
    x = draw(arrays(shapes(min_dims=1, min_side=min_side), **options))
    return Call(operation, [x], {"axis": draw(st.integers(-x.ndim, x.ndim - 1))})


@st.composite
def spread(draw, operation):
    """var and std: at least two unequal entries along the axes."""
    x = draw(arrays(shapes(min_dims=1, min_side=2), distinct=True))
    return Call(
        operation, [x], {"axis": draw(axes_of(x)), "ddof": draw(st.integers(0, 1)), "keepdims": draw(st.booleans())}
    )


@st.composite
def power_of_number(draw):
    p = draw(st.sampled_from([-2, -1, 0, 1, 2, 3, 0.5, 1.5, -0.5, 2.0, 3.0]))
    x = draw(arrays(shapes(), elements=numbers(0.25, 2.0, positive=p != int(p))))
    return Call(lambda x, p: x**p, [x], {"p": p})


@st.composite
def choice(draw):
    condition, a, b = draw(broadcastable(3))
    return Call(ops.where, [draw(hnp.arrays(bool, condition)), draw(arrays(a)), draw(arrays(b))])


@st.composite
def at_padding(draw, operation, n):
    """Padded steps of some rows, and n arrays of which one is put there, or 0."""
    shape = draw(shapes(min_dims=1))
    padded = draw(hnp.arrays(bool, (*shape[:-1], 1)))
    return Call(operation, [padded, *(draw(arrays(shape)) for _ in range(n))])


@st.composite
def clipped(draw):
    low, high = draw(st.sampled_from([(-1.0, 1.5), (None, 1.0), (-1.0, None), (None, None)]))
    return Call(compositions.clip, [draw(arrays(distinct=True))], {"low": low, "high": high})


@st.composite
def reshaped(draw):
    x = draw(arrays())
    return Call(
        ops.reshape, [x], {"shape": draw(st.sampled_from([x.shape[::-1], (x.size,), (1, x.size), (*x.shape, 1)]))}
    )


@st.composite
def transposed(draw):
    x = draw(arrays())
    axes = draw(st.none() | st.permutations(range(x.ndim)).map(tuple))
    if axes is not None and draw(st.booleans()):
        axes = tuple(axis - x.ndim for axis in axes)
    return Call(ops.transpose, [x], {"axes": axes})


@st.composite
def swapped(draw):
    x = draw(arrays(shapes(min_dims=1)))
    axis = st.integers(-x.ndim, x.ndim - 1)
    return Call(ops.swapaxes, [x], {"axis1": draw(axis), "axis2": draw(axis)})


@st.composite
def expanded(draw):
    x = draw(arrays(shapes(max_dims=2)))
    one = st.integers(-x.ndim - 1, x.ndim)
    return Call(ops.expand_dims, [x], {"axis": draw(one | st.sampled_from([(0, 1), (0, -1)]))})


@st.composite
def squeezed(draw):
    x = draw(arrays(st.lists(st.sampled_from([1, 1, 2, 0]), max_size=3).map(tuple)))
    ones = [i for i, n in enumerate(x.shape) if n == 1]
    return Call(ops.squeeze, [x], {"axis": draw(st.sampled_from([None, tuple(ones), *ones]))})


@st.composite
def broadcasted(draw):
    small, other = draw(broadcastable(2))
    return Call(ops.broadcast_to, [draw(arrays(small))], {"shape": np.broadcast_shapes(small, other)})


@st.composite
def basic_part(draw):
    x = draw(arrays(shapes(min_dims=1)))
    index = draw(hnp.basic_indices(x.shape, allow_newaxis=True, allow_ellipsis=True))
    index = index if isinstance(index, tuple) else (index,)
    return Call(ops.getitem, [x], {"index": index if any(i is ... for i in index) else (*index, ...)})


@st.composite
def advanced_index(draw, shape):
    """(ids, template): one or two arrays of places, repeated ones too, between slices or beside them."""
    n = draw(st.integers(1, min(2, len(shape))))
    if n == 1 and draw(st.booleans()):
        return [draw(hnp.arrays(bool, shape))], (ops.ARRAY,)
    axes = sorted(draw(st.permutations(range(len(shape))))[:n])
    many = draw(shapes(max_dims=2))
    ids = [draw(hnp.arrays(int, many, elements=st.integers(-shape[axis], shape[axis] - 1))) for axis in axes]
    rest = st.sampled_from([slice(None), slice(None, None, -1), slice(1, None)])
    template = tuple(ops.ARRAY if axis in axes else draw(rest) for axis in range(max(axes) + 1))
    return ids, (*template, ...) if draw(st.booleans()) else template


@st.composite
def gathered(draw):
    x = draw(arrays(shapes(min_dims=1, min_side=1)))
    ids, template = draw(advanced_index(x.shape))
    return Call(ops.gather, [x, *ids], {"index": template})


@st.composite
def scattered(draw):
    shape = draw(shapes(min_dims=1, min_side=1))
    ids, template = draw(advanced_index(shape))
    values = draw(arrays(np.zeros(shape)[ops._fill(template, tuple(ids))].shape))
    return Call(ops.scatter, [values, *ids], {"index": template, "shape": shape})


@st.composite
def embedded(draw):
    table = draw(arrays(shapes(min_dims=2, max_dims=2, min_side=1)))
    ids = draw(hnp.arrays(int, shapes(max_dims=2), elements=st.integers(0, len(table) - 1)))
    return Call(ops.embedding, [table, ids])


@st.composite
def joined(draw, operation, new_axis):
    base = draw(shapes(min_dims=0 if new_axis else 1, max_dims=2))
    axis = draw(st.integers(0, len(base) - (not new_axis)))
    parts = [base] * draw(st.integers(1, 3))
    if not new_axis:
        parts = [(*base[:axis], draw(st.integers(0, 3)), *base[axis + 1 :]) for _ in parts]
    total = len(base) + new_axis
    return Call(
        operation, [draw(arrays(shape)) for shape in parts], {"axis": draw(st.sampled_from([axis, axis - total]))}
    )


@st.composite
def assembled(draw):
    shape = draw(shapes(min_dims=1, max_dims=2, min_side=1))
    indices = [(draw(st.sampled_from([0, -1, slice(None), slice(0, 1), slice(None, None, 2)])), ...) for _ in range(3)]
    values = [draw(arrays(np.zeros(shape)[index].shape)) for index in indices]
    return Call(ops.assemble, values, {"indices": indices, "shape": shape})


@st.composite
def sectioned(draw):
    x = draw(arrays(shapes(min_dims=1)))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    sections = [n for n in (1, 2, 3) if x.shape[axis] % n == 0]
    places = st.lists(st.integers(0, 3), max_size=2).map(sorted)
    return Call(compositions.split, [x], {"sections": draw(st.sampled_from(sections) | places), "axis": axis})


@st.composite
def padded(draw):
    x = draw(arrays())
    one = st.tuples(st.integers(0, 2), st.integers(0, 2))
    width = draw(st.integers(0, 2) | st.lists(one, min_size=x.ndim, max_size=x.ndim)) if x.ndim else 0
    return Call(compositions.pad, [x], {"pad_width": width, "constant_values": draw(st.sampled_from([0.0, 1.5]))})


@st.composite
def taken(draw):
    x = draw(arrays(shapes(min_dims=1, min_side=1)))
    axis = draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    n = x.size if axis is None else x.shape[axis]
    indices = draw(hnp.arrays(int, shapes(max_dims=2), elements=st.integers(-n, n - 1)))
    return Call(compositions.take, [x], {"indices": indices, "axis": axis})


@st.composite
def contracted(draw, compiled):
    """Sums of products over named axes; an operand that has an axis alone, and a repeated letter where it may be."""
    pairs = ["ij,jk->ik", "ij,ij->", "i,j->ij", "ij->j", "bij,bjk->bik", "ij,kl->il", "ij->ji", ",i->i"]
    forms = ["ij,j,jk->ki", ",i,ij->j"] if draw(st.booleans()) else pairs
    more = ["ii->i", "ij,ji", "...i,ij->...j", "ii,ij", "i...->..."]
    text = draw(st.sampled_from(forms if compiled else forms + more))
    size = {letter: draw(st.integers(1, 3)) for letter in "bijkl"}
    operands = []
    for labels in text.split("->")[0].split(","):
        front, dots, back = labels.partition("...")
        open_axes = (2, 1) if dots else ()
        operands.append(draw(arrays((*map(size.get, front), *open_axes, *map(size.get, back)))))
    if compiled:
        return Call(ops.einsum_, operands, {"subscripts": text})
    return Call(lambda *xs, subscripts: compositions.einsum(subscripts, *xs), operands, {"subscripts": text})


@st.composite
def rearranged(draw, operation, **drawn):
    """Values moved about, with these options."""
    x = draw(arrays(shapes(min_dims=2, max_dims=2, min_side=1)))
    return Call(operation, [x], {name: draw(option) for name, option in drawn.items()})


@st.composite
def of_axes(draw):
    x = draw(arrays(shapes(min_dims=1)))
    axis = st.integers(-x.ndim, x.ndim - 1)
    return Call(compositions.moveaxis, [x], {"source": draw(axis), "destination": draw(axis)})


@st.composite
def picked(draw):
    x = draw(arrays(shapes(min_dims=1, min_side=1)))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    indices = draw(hnp.arrays(int, x.shape, elements=st.integers(-n, n - 1)))
    return Call(compositions.take_along_axis, [x], {"indices": indices, "axis": axis})


@st.composite
def contracted_axes(draw):
    n, i, j = (draw(st.integers(0, 3)) for _ in range(3))
    forms = [((i, n), (n, j), 1), ((n, i), (j, n), ([0], [1])), ((i,), (j,), 0), ((i, n, j), (n, i), ((1, 0), (0, 1)))]
    a, b, axes = draw(st.sampled_from(forms))
    return Call(compositions.tensordot, [draw(arrays(a)), draw(arrays(b))], {"axes": axes})


@st.composite
def two_vectors_or_matrices(draw, operation):
    return Call(operation, [draw(arrays(shape)) for shape in draw(shapes_for(operation))])


@st.composite
def cast(draw, operation):
    return Call(operation, [draw(arrays())], {"dtype": np.dtype(np.float32)})


def apart(offset):
    """Numbers of which no two from unlike offsets are equal: max and min have kinks at ties."""
    return st.integers(-24, 24).map(lambda k: (k + offset) / 8)


# The operations: how their calls are drawn, and NumPy's word for them -------------------------------------------------

whole = st.integers(-2, 2)
mild, positive = numbers(0.0625, 2.0), numbers(0.0625, 4.0, positive=True)
factors = st.sampled_from([0.0, 0.5, -1.5, 2.0, 1.25, -0.75])


def named(*names):
    return {name: (elementwise(getattr(ops, name), mild), getattr(np, name)) for name in names}


def sigma(x):
    return 1 / (1 + np.exp(-x))


def shares(x, axis):
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


def put(values, *ids, index, shape):
    whole = np.zeros(shape)
    np.add.at(whole, ops._fill(index, ids), values)
    return whole


def put_parts(*values, indices, shape):
    return sum((put(v, index=i, shape=shape) for v, i in zip(values, indices, strict=True)), np.zeros(shape))


OPERATIONS: dict[str, tuple[Any, Callable[..., Any]]] = {
    **named("add", "subtract", "multiply", "negative", "exp", "expm1", "square", "sin", "cos", "tanh", "abs", "sign"),
    **named("sinh", "cosh", "arctan", "arcsinh", "exp2", "cbrt", "deg2rad", "rad2deg", "hypot", "arctan2", "logaddexp"),
    **named("logaddexp2", "copysign"),
    **{
        name: (elementwise(getattr(ops, name), apart(0.4)), getattr(np, name))
        for name in ("floor", "ceil", "trunc", "rint")
    },
    **{
        name: (elementwise(getattr(ops, name), apart(0.4), st.sampled_from([1.37, 0.71, -1.83])), getattr(np, name))
        for name in ("mod", "floor_divide")
    },
    **{
        name: (elementwise(getattr(ops, name), numbers(0.0625, 0.875)), getattr(np, name))
        for name in ("tan", "arcsin", "arccos", "arctanh")
    },
    "arccosh": (elementwise(ops.arccosh, numbers(1.25, 4.0, positive=True)), np.arccosh),
    "log2": (elementwise(ops.log2, positive), np.log2),
    "log10": (elementwise(ops.log10, positive), np.log10),
    "reciprocal": (elementwise(ops.reciprocal, numbers(0.25, 2.0)), np.reciprocal),
    "clip_": (elementwise(ops.clip_, apart(0.125), apart(0.375), apart(0.625)), np.clip),
    "elu": (elementwise(ops.elu, mild), lambda x: np.where(x > 0, x, np.exp(x) - 1)),
    "divide": (elementwise(ops.divide, mild, numbers(0.25, 2.0)), np.divide),
    "power": (elementwise(ops.power, numbers(0.25, 2.0, positive=True), mild), np.power),
    "power of a number": (power_of_number(), lambda x, p: np.power(x, p)),
    "maximum": (elementwise(ops.maximum, apart(0.125), apart(0.625)), np.maximum),
    "minimum": (elementwise(ops.minimum, apart(0.125), apart(0.625)), np.minimum),
    "xlogy": (elementwise(ops.xlogy, numbers(0.25, 2.0), positive), lambda x, z: x * np.log(z)),
    "weighted": (elementwise(ops.weighted, mild), np.multiply),
    "matmul": (two_vectors_or_matrices(ops.matmul), np.matmul),
    "where": (choice(), np.where),
    "log": (elementwise(ops.log, positive), np.log),
    "log1p": (elementwise(ops.log1p, numbers(0.0625, 0.875)), np.log1p),
    "sqrt": (elementwise(ops.sqrt, positive), np.sqrt),
    "sigmoid": (elementwise(ops.sigmoid), sigma),
    "logsigmoid": (elementwise(ops.logsigmoid), lambda x: np.log(sigma(x))),
    "relu": (elementwise(ops.relu, mild), lambda x: np.where(x > 0, x, 0)),
    "sum": (reduction(ops.sum, min_side=0), np.sum),
    "max": (reduction(ops.max, distinct=True), np.max),
    "min": (reduction(ops.min, distinct=True), np.min),
    "norm": (
        reduction(ops.norm, elements=mild),
        lambda x, axis, keepdims: np.sqrt((x * x).sum(axis=axis, keepdims=keepdims)),
    ),
    "logsumexp": (
        reduction(ops.logsumexp),
        lambda x, axis, keepdims: np.log(np.exp(x).sum(axis=axis, keepdims=keepdims)),
    ),
    "softmax": (along_axis(ops.softmax), shares),
    "log_softmax": (along_axis(ops.log_softmax), lambda x, axis: np.log(shares(x, axis))),
    "cumsum_": (along_axis(ops.cumsum_, min_side=0), np.cumsum),
    "reshape": (reshaped(), lambda x, shape: np.reshape(x, shape)),
    "transpose": (transposed(), np.transpose),
    "swapaxes": (swapped(), np.swapaxes),
    "expand_dims": (expanded(), np.expand_dims),
    "squeeze": (squeezed(), np.squeeze),
    "broadcast_to": (broadcasted(), np.broadcast_to),
    "astype": (cast(ops.astype), lambda x, dtype: x),
    "getitem": (basic_part(), lambda x, index: x[index]),
    "assemble": (assembled(), put_parts),
    "gather": (gathered(), lambda x, *ids, index: x[ops._fill(index, ids)]),
    "scatter": (scattered(), put),
    "embedding": (embedded(), lambda table, ids: table[ids]),
    "concat_": (joined(ops.concat_, False), lambda *parts, axis: np.concatenate(parts, axis)),
    "stack_": (joined(ops.stack_, True), lambda *parts, axis: np.stack(parts, axis)),
    "einsum_": (contracted(True), lambda *xs, subscripts: np.einsum(subscripts, *xs)),
    "clear": (at_padding(unrolling._clear, 1), lambda padded, x: np.where(padded, 0, x)),
    "hold": (at_padding(unrolling._hold, 2), lambda padded, new, old: np.where(padded, old, new)),
    "checked_targets": (
        elementwise(loss._checked_targets, numbers(0.0625, 0.875, positive=True)),
        lambda targets: targets,
    ),
    "softplus": (elementwise(compositions.softplus), lambda x: np.log(1 + np.exp(x))),
    "clip": (
        clipped(),
        lambda x, low, high: np.where(x < (low or -9), low or -9, np.where(x > (high or 9), high or 9, x)),
    ),
    "mean": (reduction(compositions.mean), np.mean),
    "var": (spread(compositions.var), np.var),
    "std": (spread(compositions.std), np.std),
    "prod": (reduction(compositions.prod, min_side=0, elements=factors), np.prod),
    "cumsum": (reduction(compositions.cumsum, min_side=0, several=False, keepdims=False), np.cumsum),
    "cumprod": (
        reduction(compositions.cumprod, min_side=0, several=False, keepdims=False, elements=factors),
        np.cumprod,
    ),
    "sort": (along_axis(compositions.sort, distinct=True), np.sort),
    "repeat": (
        rearranged(compositions.repeat, repeats=st.integers(0, 3), axis=st.sampled_from([None, 0, -1])),
        np.repeat,
    ),
    "tile": (rearranged(compositions.tile, reps=st.sampled_from([2, (2, 1), (0,), (2, 1, 2)])), np.tile),
    "roll": (rearranged(compositions.roll, shift=whole, axis=st.sampled_from([None, 0, -1])), np.roll),
    "diag": (rearranged(compositions.diag, k=whole), np.diag),
    "tril": (rearranged(compositions.tril, k=whole), np.tril),
    "triu": (rearranged(compositions.triu, k=whole), np.triu),
    "moveaxis": (of_axes(), np.moveaxis),
    "take_along_axis": (picked(), np.take_along_axis),
    "tensordot": (contracted_axes(), np.tensordot),
    "vstack": (
        joined(lambda *parts, axis: compositions.vstack(parts), True),
        lambda *parts, axis: np.vstack(parts),
    ),
    "hstack": (
        joined(lambda *parts, axis: compositions.hstack(parts), True),
        lambda *parts, axis: np.hstack(parts),
    ),
    "flip": (reduction(compositions.flip, min_side=0, keepdims=False), np.flip),
    "concat": (
        joined(lambda *parts, axis: compositions.concat(parts, axis), False),
        lambda *parts, axis: np.concatenate(parts, axis),
    ),
    "stack": (
        joined(lambda *parts, axis: compositions.stack(parts, axis), True),
        lambda *parts, axis: np.stack(parts, axis),
    ),
    "split": (sectioned(), lambda x, sections, axis: np.split(x, sections, axis)),
    "pad": (padded(), lambda x, pad_width, constant_values: np.pad(x, pad_width, constant_values=constant_values)),
    "take": (taken(), np.take),
    "dot": (two_vectors_or_matrices(compositions.dot), np.dot),
    "outer": (two_vectors_or_matrices(compositions.outer), np.outer),
    "einsum": (contracted(False), lambda *xs, subscripts: np.einsum(subscripts, *xs)),
    "astype to a named dtype": (cast(compositions.astype), lambda x, dtype: x),
}
CALLS = {name: calls for name, (calls, _) in OPERATIONS.items()}


def primitives():
    """Every primitive of the package that has a rule, by its name in the module that it stands in."""
    found = {}
    for module in walk_packages(tg.__path__, "tinygrad_seq."):
        # the two of recompute hand credit on, and are tested there
        if "testing" not in module.name and module.name != "tinygrad_seq.engine.recompute":
            for name, x in vars(import_module(module.name)).items():
                if isinstance(getattr(x, "rules", None), tuple) and (any(x.rules) or x.every):
                    found.setdefault(x, name.removeprefix("_"))
    assert len(set(found.values())) == len(found), "two primitives have one name"
    return {name: x for x, name in found.items()}


def test_no_operation_is_left_out():
    made_of_others = {
        name
        for name, f in vars(compositions).items()
        if getattr(f, "__module__", "") == compositions.__name__ and not name.startswith("_")
    }
    assert (primitives().keys() | made_of_others) - {"detach", "composed", "moved"} <= OPERATIONS.keys()


@pytest.mark.parametrize("name", CALLS)
@given(data=st.data(), seed=seeds)
def test_the_gradient_is_the_derivative(name, data, seed):
    check(data.draw(CALLS[name]), seed)


@pytest.mark.parametrize("name", OPERATIONS)
@given(data=st.data())
def test_the_value_is_numpys_on_arrays_as_on_tensors(name, data):
    calls, reference = OPERATIONS[name]
    call = data.draw(calls)
    plain, tensors = call.of_floats(*call.floats()), call.of_floats(*map(tg.Tensor, call.floats()))
    expected = reference(*call.inputs, **call.options)
    several = isinstance(plain, list)
    for a, t, e in zip(*((x if several else [x]) for x in (plain, tensors, expected)), strict=True):
        assert isinstance(t, tg.Tensor) and not isinstance(a, tg.Tensor)
        assert t.shape == np.shape(a) == np.shape(e)
        np.testing.assert_array_equal(t.data, a)
        np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-14)


@given(st.data())
def test_comparisons_are_plain_booleans_and_carry_no_gradient(data):
    a, b = (data.draw(arrays(shape)) for shape in data.draw(broadcastable(2)))
    x, y = tg.Tensor(a, requires_grad=True), tg.Tensor(b, requires_grad=True)
    for mine, numpys in (
        (x < y, a < b),
        (x <= y, a <= b),
        (x > y, a > b),
        (x >= y, a >= b),
        (x == y, a == b),
        (x != y, a != b),
    ):
        assert type(mine) is np.ndarray and mine.dtype == bool
        np.testing.assert_array_equal(mine, numpys)
    assert not ops.greater(x, y).requires_grad


@given(arrays(), st.sampled_from([np.float32, np.float64]), st.sampled_from([np.float32, np.float64]))
def test_a_cast_gradient_comes_back_in_the_dtype_it_left(values, first, second):
    x = tg.Tensor(values.astype(first), requires_grad=True)
    y = x.astype(second)
    seed = np.arange(1.0, x.size + 1).reshape(x.shape).astype(second)
    g = tg.grad(y, x, seed)
    assert y.dtype == second and g.dtype == first
    np.testing.assert_array_equal(g, seed.astype(first))
    assert not x.astype(int).requires_grad


@given(st.data())
def test_ties_share_the_gradient_equally(data):
    """No difference quotient settles this: the shares of max must add up to the whole along every direction."""
    x = data.draw(arrays(shapes(min_dims=1, min_side=1), elements=st.sampled_from([-1.0, 0.5, 2.0])))
    other = data.draw(arrays(x.shape, elements=st.sampled_from([-1.0, 0.5, 2.0])))
    axis = data.draw(st.none() | st.integers(0, x.ndim - 1))
    for operation in (ops.max, ops.min):
        check_grads(lambda x, operation=operation: operation(x, axis), x, kinks=True)
        t = tg.Tensor(x, requires_grad=True)
        y = operation(t, axis)
        g = tg.grad(y, t, np.ones(y.shape))
        np.testing.assert_allclose(g.sum(axis), 1, rtol=1e-15)
        winners = x == operation(x, axis, True)
        np.testing.assert_array_equal(g, winners / winners.sum(axis, keepdims=True))
    for operation in (ops.maximum, ops.minimum):
        check_grads(operation, x, other, kinks=True)


@given(arrays(elements=st.sampled_from([0.0, -1.0, 1.0])))
def test_abs_relu_and_norm_have_a_subgradient_at_their_kink(x):
    check_grads(ops.abs, x, kinks=True)
    check_grads(ops.relu, x, kinks=True)
    check_grads(ops.norm, x, kinks=True)
    t = tg.Tensor(x, requires_grad=True)
    for operation in (ops.abs, ops.relu):
        assert not tg.grad(operation(t), t, np.ones(x.shape))[x == 0].any()
