"""hypothesis strategies for arrays, tensors, shapes, sequences, recurrent cells and whole random programs.

The numbers stay away from what makes a test fail that found nothing: no subnormals, nothing below 1e-3 in size (next
to the kinks of abs and relu, and to the ends of domains), float32 throughout, and distinct where ties would be kinks.
Empty and 0-d shapes are drawn unless they are excluded. Everything shrinks towards few, small, simple numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

try:
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as hnp
except ImportError:
    raise ImportError("tinygrad_seq.testing.strategies needs hypothesis: pip install 'tinygrad-seq[test]'") from None

from ..engine import compositions, ops
from ..engine.signatures import Array
from ..engine.tensor import Tensor
from ..nn import GRUCell, LSTMCell, RNNCell

Shape = tuple[int, ...]


def numbers(low: float = 1e-3, high: float = 4.0, positive: bool = False) -> st.SearchStrategy[float]:
    """Floats of size low..high, of both signs unless `positive`."""
    bounds = float(np.float32(low)), float(np.float32(high))
    sizes = st.floats(*bounds, width=32, allow_subnormal=False)
    return sizes if positive else sizes | sizes.map(lambda x: -x)


def shapes(min_dims: int = 0, max_dims: int = 3, min_side: int = 0, max_side: int = 3) -> st.SearchStrategy[Shape]:
    """Shapes, 0-d and empty ones among them."""
    return hnp.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=max_side)


@st.composite
def arrays(
    draw: st.DrawFn,
    shape: Any = None,
    dtype: DTypeLike = np.float64,
    elements: st.SearchStrategy[float] | None = None,
    positive: bool = False,
    distinct: bool = False,
) -> Array:
    """Arrays of this shape (or of a drawn one), of `numbers`; `distinct`: no two entries within 1/8 of each other."""
    if shape is None:
        shape = draw(shapes())
    elif isinstance(shape, st.SearchStrategy):
        shape = draw(shape)
    if distinct:
        places = st.integers(0, 96) if positive else st.integers(-48, 48)
        elements = places.map(lambda k: (k + 0.375) / 8)
    elif elements is None:
        elements = numbers(positive=positive)
    values: Array = draw(hnp.arrays(np.float64, shape, elements=elements, fill=st.nothing(), unique=distinct))
    return values.astype(dtype)


def tensors(
    shape: Any = None, dtype: DTypeLike = np.float64, requires_grad: bool = True, **options: Any
) -> st.SearchStrategy[Tensor]:
    """Leaf tensors; options as those of `arrays`. What `st.from_type(tg.Tensor)` draws."""
    return arrays(shape, dtype, **options).map(lambda values: Tensor(values, requires_grad=requires_grad))


def broadcastable(n: int = 2, max_dims: int = 3, min_side: int = 0, max_side: int = 3) -> st.SearchStrategy[Any]:
    """n shapes that broadcast together: missing axes, axes of length 1, 0-d and empty ones."""
    drawn = hnp.mutually_broadcastable_shapes(num_shapes=n, max_dims=max_dims, min_side=min_side, max_side=max_side)
    return drawn.map(lambda shapes: shapes.input_shapes)


def shapes_for(operation: Callable[..., Any], min_side: int = 0, max_side: int = 3) -> st.SearchStrategy[Any]:
    """Tuples of shapes, one for each input, that the operation takes.

    matmul and dot by their own rules; concat and stack for two to three parts; every other operation as elementwise
    in its inputs (one for each rule, or for each parameter without a default).
    """
    name = getattr(operation, "__name__", "")
    if name == "matmul":
        drawn = hnp.mutually_broadcastable_shapes(
            signature="(m?,n),(n,p?)->(m?,p?)", max_dims=2, min_side=min_side, max_side=max_side
        )
        return drawn.map(lambda shapes: shapes.input_shapes)
    if name == "dot":
        return shapes_for(ops.matmul, min_side, max_side).filter(lambda pair: max(map(len, pair)) <= 2)
    if name == "outer":
        return st.tuples(*(shapes(1, 1, min_side, max_side) for _ in range(2)))
    if name == "stack":
        return st.integers(2, 3).flatmap(lambda n: shapes(0, 3, min_side, max_side).map(lambda shape: (shape,) * n))
    if name == "concat":  # along the first axis
        rest = shapes(0, 2, min_side, max_side)
        rows = st.lists(st.integers(min_side, max_side), min_size=2, max_size=3)
        return st.builds(lambda rest, rows: tuple((n, *rest) for n in rows), rest, rows)
    rules = getattr(operation, "rules", None)
    if rules is None:
        parameters = inspect.signature(operation).parameters.values()
        n = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters)
    else:
        n = len(rules)
    if not n:
        raise TypeError(f"{name} takes any number of inputs: draw their shapes with broadcastable(n)")
    return broadcastable(n, min_side=min_side, max_side=max_side)


@st.composite
def lengths(draw: st.DrawFn, steps: int, batch: int) -> Array:
    """How many steps of each row are real: `batch` whole numbers in 1..steps."""
    return np.array(draw(st.lists(st.integers(1, steps), min_size=batch, max_size=batch)), dtype=int)


@st.composite
def sequences(
    draw: st.DrawFn,
    steps: st.SearchStrategy[int] | int | None = None,
    batch: st.SearchStrategy[int] | int | None = None,
    width: st.SearchStrategy[int] | int | None = None,
    lengths: bool = False,
    dtype: DTypeLike = np.float64,
) -> Any:
    """A (T, B, m) array of inputs; with `lengths=True` the pair of it and the length of each row."""
    T, B, m = (
        draw(size) if isinstance(size, st.SearchStrategy) else draw(default) if size is None else size
        for size, default in ((steps, st.integers(1, 5)), (batch, st.integers(1, 3)), (width, st.integers(1, 3)))
    )
    xs = draw(arrays((T, B, m), dtype, elements=numbers(high=2.0)))
    return (xs, draw(_lengths(T, B))) if lengths else xs


_lengths = lengths

CELLS: dict[Callable[..., Any], st.SearchStrategy[dict[str, Any]]] = {
    RNNCell: st.fixed_dictionaries({"activation": st.sampled_from(["tanh", "linear"])}),
    LSTMCell: st.fixed_dictionaries(
        {"projection": st.none() | st.integers(1, 4), "forget_bias": st.sampled_from([1.0, 0.0, 3.0])}
    )
    | st.just({"forget_gate": False}),
    GRUCell: st.fixed_dictionaries(
        {"update": st.sampled_from(["keep", "write"]), "reset": st.sampled_from(["before", "after"])}
    ),
}


@st.composite
def cells(draw: st.DrawFn, kinds: Sequence[Callable[..., Any]] = tuple(CELLS), dtype: DTypeLike = np.float64) -> Any:
    """Recurrent cells of any kind, width and option (the smooth ones), with random weights and biases.

    A kind of your own is called with (m, d, rng=…, dtype=…).
    """
    kind = draw(st.sampled_from(list(kinds)))
    options = draw(CELLS[kind]) | {"learned_state": draw(st.booleans())} if kind in CELLS else {}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cell = kind(draw(st.integers(1, 3)), draw(st.integers(1, 4)), rng=rng, dtype=dtype, **options)
    for x in cell.parameters():
        x.data = (x.data + 0.3 * rng.standard_normal(x.shape)).astype(dtype)
    return cell


# Random programs -----------------------------------------------------------------------------------------------------


class Program:
    """A random function of tensors (or arrays): a list of operations, each on earlier values, printed as Python.

    `inputs`: arrays to call it with. Called, it returns a tuple of all values that no operation reads, so that every
    one of them matters. `loss(*inputs)` is a number made of them with unequal weights.
    """

    def __init__(self, inputs: list[Array]) -> None:
        self.inputs = inputs
        self.lines: list[tuple[str, tuple[int, ...], dict[str, Any]]] = []

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        values = list(inputs)
        for name, operands, options in self.lines:
            values.append(INSTRUCTIONS[name](*(values[i] for i in operands), **options))
        read = {i for _, operands, _ in self.lines for i in operands}
        return tuple(value for i, value in enumerate(values) if i >= len(inputs) and i not in read)

    def loss(self, *inputs: Any) -> Any:
        total: Any = 0.0
        for k, y in enumerate(self(*inputs)):
            weights = np.cos(k + 1.0 + np.arange(y.size)).reshape(y.shape).astype(y.dtype)
            total = total + ops.sum(y * weights)
        return total

    def __str__(self) -> str:
        n = len(self.inputs)
        rows = [f"v{i} = input of shape {a.shape}, {a.dtype}" for i, a in enumerate(self.inputs)]
        for k, (name, operands, options) in enumerate(self.lines, start=n):
            given = [f"v{i}" for i in operands] + [f"{key}={value!r}" for key, value in options.items()]
            rows.append(f"v{k} = {name}({', '.join(given)})")
        return "\n".join(rows)

    def __repr__(self) -> str:
        return f"<a program of {len(self.lines)} operations\n{self}\n>"


# What programs are made of: bounded or tame, and smooth but for the last ones.
UNARY: dict[str, Callable[..., Any]] = {
    "tanh": ops.tanh, "sigmoid": ops.sigmoid, "sin": ops.sin, "cos": ops.cos, "negative": ops.negative,
    "square": ops.square, "softplus": compositions.softplus, "root": lambda x: ops.sqrt(x * x + 1),
    "half": lambda x: 0.5 * x, "log": lambda x: ops.log(x * x + 0.5),
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {
    "add": ops.add, "subtract": ops.subtract, "multiply": ops.multiply, "ratio": lambda a, b: a / (b * b + 1),
}  # fmt: skip
KINKED: dict[str, Callable[..., Any]] = {"relu": ops.relu, "abs": ops.abs, "largest": ops.max, "maximum": ops.maximum}
INSTRUCTIONS: dict[str, Callable[..., Any]] = UNARY | BINARY | KINKED | {
    "sum": ops.sum, "mean": compositions.mean, "softmax": ops.softmax, "logsumexp": ops.logsumexp,
    "cumsum": compositions.cumsum, "reshape": lambda x, shape: ops.reshape(x, shape), "transpose": ops.transpose,
    "expand_dims": ops.expand_dims, "broadcast_to": ops.broadcast_to, "flip": compositions.flip,
    "part": lambda x, index: ops.getitem(x, index=index), "rows": lambda x, ids: ops.embedding(x, np.array(ids)),
    "concat": lambda a, b, axis: compositions.concat([a, b], axis), "stack": lambda a, b: compositions.stack([a, b]),
    "matmul": ops.matmul, "choose": lambda a, b: ops.where(np.arange(a.size).reshape(a.shape) % 2 == 0, a, b),
}  # fmt: skip


def _fitting(a: Array, b: Array, kinks: bool) -> list[str]:
    """The operations that take these operands and give neither much more nor much larger numbers."""
    names = list(UNARY)
    if a.size:
        names += ["sum", "mean", "logsumexp", "reshape", "transpose"]
        names += ["softmax", "cumsum", "flip", "rows", "part"] if a.ndim else []
    if a.ndim < 3 and a.size <= 16:
        names += ["expand_dims", "broadcast_to"]
    try:
        size = int(np.prod(np.broadcast_shapes(a.shape, b.shape)))
    except ValueError:
        size = -1
    if 0 <= size <= 64:
        names += 2 * list(BINARY)
    if a.shape == b.shape:
        names += ["choose"] + (["stack"] if a.ndim < 3 and a.size <= 16 else [])
    if a.ndim and a.ndim == b.ndim and a.shape[1:] == b.shape[1:] and a.size + b.size <= 64:
        names.append("concat")
    if 1 <= a.ndim <= 2 and 1 <= b.ndim <= 2 and a.shape[-1] == b.shape[0]:
        names += 3 * ["matmul"]
    if kinks:
        names += ["relu", "abs"] + (["maximum"] if 0 <= size <= 64 else []) + (["largest"] if a.size else [])
    return names


def _options(draw: st.DrawFn, name: str, a: Array) -> dict[str, Any]:
    axis = st.integers(0, max(a.ndim - 1, 0))
    if name in ("sum", "mean", "largest"):
        return {"axis": draw(st.none() | axis) if a.ndim else None, "keepdims": draw(st.booleans())}
    if name == "logsumexp":
        return {"axis": draw(axis) if a.ndim else ()}
    if name in ("softmax", "cumsum", "flip"):
        return {"axis": draw(axis)}
    if name == "concat":
        return {"axis": 0}
    if name == "reshape":
        return {"shape": draw(st.sampled_from([(-1,), (-1, 1), (1, -1), a.shape[::-1]]))}
    if name == "transpose":
        return {"axes": tuple(draw(st.permutations(range(a.ndim))))}
    if name == "expand_dims":
        return {"axis": draw(st.integers(0, a.ndim))}
    if name == "broadcast_to":
        return {"shape": (draw(st.integers(1, 3)), *a.shape)}
    if name == "part":
        place = draw(
            st.integers(-len(a), len(a) - 1) | st.sampled_from([slice(None, None, -1), slice(0, 1), slice(1, None)])
        )
        return {"index": (place, ...)}
    if name == "rows":
        return {"ids": draw(st.lists(st.integers(0, len(a) - 1), min_size=1, max_size=3))}
    return {}


@st.composite
def programs(
    draw: st.DrawFn,
    min_operations: int = 1,
    max_operations: int = 12,
    dtypes: Sequence[DTypeLike] = (np.float64, np.float32),
    kinks: bool = False,
) -> Program:
    """Random well-formed graphs: shared nodes, broadcasting, parts, repeated rows, 0-d and empty values.

    All inputs of one program have one dtype. Without `kinks` the function is smooth, so differences can measure it.
    """
    dtype = draw(st.sampled_from(list(dtypes)))
    sides = st.integers(0, 3) if draw(st.integers(0, 9)) == 9 else st.integers(1, 3)
    shape = st.lists(sides, max_size=2).map(tuple)
    given = draw(st.lists(arrays(shape, dtype, elements=numbers(0.0625, 2.0)), min_size=1, max_size=3))
    program, values = Program(given), list(given)
    for _ in range(draw(st.integers(min_operations, max_operations))):
        i, j = (draw(st.integers(0, len(values) - 1)) for _ in range(2))
        a, b = values[i], values[j]
        name = draw(st.sampled_from(_fitting(a, b, kinks)))
        options = _options(draw, name, a)
        operands = (i, j) if name in BINARY or name in ("maximum", "choose", "stack", "concat", "matmul") else (i,)
        value = np.asarray(INSTRUCTIONS[name](*(values[k] for k in operands), **options))
        if np.abs(value).max(initial=0) > 8:
            name, operands, options, value = "tanh", (i,), {}, np.asarray(np.tanh(a))
        program.lines.append((name, operands, options))
        values.append(value)
    return program
