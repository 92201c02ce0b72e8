"""Derivatives that are matrices: of tensors by tensors, of a gradient along a direction, of one step of a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..engine.backward import grad, seeded, sweep, towards
from ..engine.recording import enable_grad
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from ..engine.tree import map_state
from .chain import largest_singular_value
from .ledger import digits, look
from .table import Table


def jacobian(y: Tensor, x: Tensor, holding: Iterable[Tensor] = ()) -> Array:
    """∂y/∂x as an array of shape y.shape + x.shape; `holding` h: the partial derivative, not through h.

    One reading of the tape per entry of y.

    >>> import tinygrad_seq as tg
    >>> x = tg.Tensor([1.0, 2.0], requires_grad=True)
    >>> tg.jacobian(x * x, x)
    array([[2., 0.],
           [0., 4.]])
    """
    order, crosses = towards([y], [x], holding)
    rows = np.zeros((y.size, *x.shape), x.dtype)
    for k in range(y.size):
        seed = np.zeros(y.size, y.dtype)
        seed[k] = 1
        g = sweep(list(order), seeded([y], seed.reshape(y.shape)), crosses).get(x)
        if g is not None:
            rows[k] = g
    return rows.reshape(y.shape + x.shape)


def hvp(y: Tensor, x: Any, v: Any) -> Any:
    """The Hessian of the scalar y times v, ∂(∂y/∂x · v)/∂x, without ever forming the Hessian.

    x and v may be one tensor and one array, or sequences of both.

    >>> import tinygrad_seq as tg
    >>> x = tg.Tensor([1.0, 2.0], requires_grad=True)
    >>> tg.hvp((x**3).sum(), x, [1.0, 0.5])
    array([6., 6.])
    """
    xs, vs = ([x], [v]) if isinstance(x, Tensor) else (list(x), list(v))
    if y.size != 1:
        raise ValueError(f"hvp needs a scalar, got shape {y.shape}")
    firsts = grad(y, xs, create_graph=True)
    pairs = [(g, np.asarray(u)) for g, u in zip(firsts, vs, strict=True)]
    for xi, (g, u) in zip(xs, pairs, strict=True):
        if u.shape != g.shape:
            raise ValueError(f"v needs the shape {g.shape} of {xi.label()}, got {u.shape}")
    slopes = [(g * u).sum() for g, u in pairs if g.requires_grad]
    seconds = grad(slopes, xs) if slopes else [np.zeros(xi.shape, xi.dtype) for xi in xs]
    return seconds[0] if isinstance(x, Tensor) else seconds


class StateJacobian(Mapping[tuple[str, str], Array]):
    """The Jacobian of one step of a cell, new state by old state, in named blocks: `jacobian["c", "h"]` is ∂c/∂h_prev.

    `matrix` holds all blocks, in the order of `names`, which is that of the cell's state.
    """

    def __init__(self, names: Sequence[str], sizes: Sequence[int], matrix: Array) -> None:
        self.names, self.matrix = tuple(names), matrix
        ends = np.cumsum(sizes)
        self._place = {name: slice(end - n, end) for name, n, end in zip(names, sizes, ends.tolist(), strict=True)}

    def __getitem__(self, block: tuple[str, str]) -> Array:
        try:
            new, old = block
            return self.matrix[self._place[new], self._place[old]]
        except (KeyError, ValueError, TypeError):
            raise KeyError(f"the blocks are pairs (new, old) of {', '.join(self.names)}; got {block!r}") from None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((new, old) for new in self.names for old in self.names)

    def __len__(self) -> int:
        return len(self.names) ** 2

    def table(self, precision: int | None = None) -> Table:
        """The blocks: of a state of one unit the numbers, of more units the largest singular values."""
        ones = all(block.size == 1 for block in self.values())
        rows = [
            (
                f"∂{new}",
                *(look(self[new, old]) if ones else largest_singular_value(self[new, old]) for old in self.names),
            )
            for new in self.names
        ]
        title = "One step of the state" if ones else "One step of the state: the largest singular value of each block"
        heads = ("", *(f"∂{old} before" for old in self.names))
        return Table(heads, rows, title, precision=digits(precision, not ones))

    def __repr__(self) -> str:
        return f"StateJacobian({', '.join(self.names)}: matrix {self.matrix.shape}; print it to read its blocks)"

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().to_html()


def _named(state: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The parts of a state with their names, in the order in which `map_state` meets them."""
    if isinstance(state, dict):
        parts = [(str(key), part) for key, part in state.items()]
    elif isinstance(state, (tuple, list)):
        parts = list(zip(getattr(state, "_fields", map(str, range(len(state)))), state, strict=True))
    else:
        parts = []
        yield path or "h", state
    for name, part in parts:
        yield from _named(part, f"{path}.{name}" if path else name)


def state_jacobian(cell: Callable[[Any, Any], Any], x: Any, state: Any) -> StateJacobian:
    """∂(new state)/∂(old state) of one step of a cell, `h, state = cell(x, state)`, with x held fixed.

    The state is a tensor (RNN, GRU: d × d, one block) or a tuple of tensors (LSTM: 2d × 2d, four blocks), or lists and
    dicts of them. A state of rows is laid out row by row. The blocks take the names of the tuple's fields (h, c for an
    LSTM), the keys, or the places; a single state is called h. Neither the cell nor the state is changed. TypeError for
    a state of another kind.

    >>> import tinygrad_seq as tg
    >>> cell = tg.nn.LSTMCell(1, 1, forget_bias=0.0)
    >>> for gate in "fiog":
    ...     cell.set_gate(gate, W=0.0, U=0.0)
    >>> jacobian = tg.state_jacobian(cell, [1.0], tg.nn.LSTMState(tg.Tensor([0.5]), tg.Tensor([0.0])))
    >>> print(jacobian)  # c = ½ c_prev and h = ½ tanh(c), whatever h_prev was
    One step of the state
        ∂h before  ∂c before
    ──  ─────────  ─────────
    ∂h          0       0.25
    ∂c          0       0.5
    """
    named = list(_named(state, ""))
    if strangers := [type(part).__name__ for _, part in named if not isinstance(part, (Tensor, np.ndarray))]:
        raise TypeError(
            "the state of a cell is a tensor, or tuples, lists and dicts of tensors, as cell.initial_state() gives it; "
            f"got {', '.join(strangers)}"
        )
    names = ["h"] if type(state) is tuple and len(named) == 1 else [name for name, _ in named]
    olds = [Tensor(array_of(part), requires_grad=True, name=name) for name, (_, part) in zip(names, named, strict=True)]
    fresh, news = iter(olds), list[Tensor]()
    with enable_grad():
        _, new = cell(x, map_state(lambda _: next(fresh), state))
    map_state(lambda _, y: news.append(y), state, new)
    blocks = [
        [
            (jacobian(y, old) if y.requires_grad else np.zeros((y.size, old.size))).reshape(y.size, old.size)
            for old in olds
        ]
        for y in news
    ]
    return StateJacobian(names, [old.size for old in olds], np.block(blocks))
