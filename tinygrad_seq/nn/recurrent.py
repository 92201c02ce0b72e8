"""Recurrent layers, written as their equations in ordinary operations.

A cell knows its equations and nothing of time: `h, state = cell(x, state)`. `unroll` knows time and nothing of
gates: it builds the graph of any such cell over a sequence. So backpropagation through time is the ordinary
backward pass over that graph, and every intermediate is on the tape by name and step.

Row vectors throughout: u = [x, h], a = u A + b, with x (..., m), h (..., d), A (m + d, gates·d), b (gates·d,).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .. import ops
from ..compositions import clip, concat, stack
from ..ops import relu, sigmoid, tanh, where
from ..primitive import scope, step
from ..signatures import Array
from ..tensor import Tensor
from .init import generator, glorot, orthogonal
from .layers import dropout_mask, probability, tensor
from .module import Module


class LSTMState(NamedTuple):
    """What an LSTM carries from step to step: the hidden row h (..., d or projection) and the cell row c (..., d)."""

    h: Tensor
    c: Tensor


class Gate(NamedTuple):
    """One gate's weights: σ or tanh of x W + h U + b, with W (m, d), U (d, d), b (d,)."""

    W: Array
    U: Array
    b: Array


class Cell(Module):
    """What the cells share: the widths m and d, the joined weights A and b, and their gates by name.

    A cell of your own needs no base class: `initial_state(batch_shape)` and `__call__(x, state) -> (h, state)` are
    enough for `unroll`, the stacks and the checks.
    """

    gates: tuple[str, ...] = ()

    def __init__(self, m: int, d: int, hidden: int, rng: Any, dtype: DTypeLike, learned_state: bool) -> None:
        """`hidden` is the width of h: d, or the projection's."""
        if m < 0 or d < 1 or hidden < 1:
            raise ValueError(f"{type(self).__name__} needs widths m >= 0 and d >= 1, got m={m}, d={d}")
        self.m, self.d, self.hidden = m, d, hidden
        rng = generator(rng)
        blocks = [np.vstack([glorot(rng, m, d, dtype), orthogonal(rng, hidden, d, dtype)]) for _ in self.gates]
        self.A = Tensor(np.hstack(blocks), requires_grad=True, name="A")
        self.b = Tensor(np.zeros(len(self.gates) * d, dtype), requires_grad=True, name="b")
        self.h0 = Tensor(np.zeros(hidden, dtype), requires_grad=True, name="h0") if learned_state else None

    def _block(self, gate: str) -> slice:
        if gate not in self.gates:
            raise ValueError(f"{type(self).__name__} has the gates {', '.join(self.gates)}; got {gate!r}")
        k = self.gates.index(gate)
        return slice(k * self.d, (k + 1) * self.d)

    def gate(self, name: str) -> Gate:
        """The weights W (m, d), U (d, d) and b (d,) of one gate, as copies to read."""
        block = self._block(name)
        A = self.A._array[:, block]
        return Gate(A[: self.m].copy(), A[self.m :].copy(), self.b._array[block].copy())

    def set_gate(self, name: str, W: Any = None, U: Any = None, b: Any = None) -> None:
        """Set the weights of one gate; numbers are spread over the whole block. ValueError for another shape."""
        block = self._block(name)
        A, bias = self.A._array.copy(), self.b._array.copy()
        for what, place, value in (("W", A[: self.m, block], W), ("U", A[self.m :, block], U), ("b", bias[block], b)):
            _fill(f"{what} of gate {name!r}", place, value)
        self.A.data, self.b.data = A, bias

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Any:
        """Zeros (or the learned start), for rows of this shape: h (*batch_shape, d)."""
        return self._start(self.h0, self.hidden, batch_shape)

    def _start(self, learned: Tensor | None, width: int, batch_shape: tuple[int, ...]) -> Tensor:
        shape = (*batch_shape, width)
        if learned is not None:
            return ops.broadcast_to(learned, shape)
        return Tensor(np.zeros(shape, self.A.dtype))

    def _joined(self, x: Any, h: Any, mask: Any) -> tuple[Tensor, Tensor, Tensor]:
        """(x, h as the gates see it, u = [x, h]), after a look at the shapes."""
        x = tensor(x)
        if x.dtype.kind not in "fc":
            raise TypeError(f"{type(self).__name__} needs floating-point inputs, got dtype {x.dtype}: embed ids first")
        if x.ndim == 0 or x.shape[-1] != self.m:
            raise ValueError(f"{type(self).__name__} needs inputs of width {self.m}, got shape {x.shape}")
        self._fits("h", h, x, self.hidden)
        if mask is not None:
            h = h * mask
        return x, h, concat([x, h], -1)

    def _fits(self, what: str, part: Any, x: Tensor, width: int) -> None:
        shape = (*x.shape[:-1], width)
        if getattr(part, "shape", None) != shape:
            given = getattr(part, "shape", type(part).__name__)
            raise ValueError(
                f"{type(self).__name__} needs {what} of shape {shape} for inputs of shape {x.shape}, got {given}; "
                "start from cell.initial_state(x.shape[:-1])"
            )

    def _options(self) -> str:
        return ""

    def __repr__(self) -> str:
        learned = ", learned_state=True" if self.h0 is not None else ""
        return f"{type(self).__name__}({self.m}, {self.d}{self._options()}{learned})"


def _fill(what: str, place: Array, value: Any) -> None:
    if value is None:
        return
    values = np.asarray(value)
    if values.ndim and values.shape != place.shape:
        raise ValueError(f"{what} has shape {place.shape}, got {values.shape}")
    place[...] = values


class RNNCell(Cell):
    """h = tanh(u A + b) with u = [x, h_prev] (Elman 1990); `activation` "tanh", "relu" or "linear".

    >>> import tinygrad_seq as tg
    >>> cell = tg.nn.RNNCell(1, 1)
    >>> cell.set_gate("h", W=1.0, U=0.8)
    >>> h, state = cell([1.0], cell.initial_state())
    >>> float(h)
    0.7615941559557649
    """

    gates = ("h",)

    def __init__(
        self,
        m: int,
        d: int,
        activation: str = "tanh",
        rng: Any = None,
        dtype: DTypeLike = np.float64,
        learned_state: bool = False,
    ) -> None:
        activations: dict[str, Callable[[Tensor], Tensor]] = {"tanh": tanh, "relu": relu, "linear": lambda a: a}
        if activation not in activations:
            raise ValueError(f"activation is one of {', '.join(activations)}, got {activation!r}")
        super().__init__(m, d, d, rng, dtype, learned_state)
        self.activation, self._activate = activation, activations[activation]

    def __call__(self, x: Any, state: Any, mask: Any = None) -> tuple[Tensor, Tensor]:
        x, h, u = self._joined(x, state, mask)
        h = self._activate(u @ self.A + self.b).named("h")
        return h, h

    def _options(self) -> str:
        return f", activation={self.activation!r}"


class LSTMCell(Cell):
    """The LSTM with a forget gate (Gers et al. 2000), gates in the order f, i, o, g:

        f, i, o = σ(u A_f + b_f), σ(u A_i + b_i), σ(u A_o + b_o)     g = tanh(u A_g + b_g)     u = [x, h_prev]
        c = f·c_prev + i·g                                           h = o·tanh(c)

    `forget_bias`: the initial b_f, a number or one per unit (log(T - 1) for memories of T steps), added once.
    `forget_gate=False`: c = c_prev + i·g, the constant error carousel of 1997. `projection` p: h = (o·tanh(c)) P of
    width p (Sak et al. 2014). `cell_clip`, `projection_clip`: c and the projected h are kept within ± this (ELMo).
    State: LSTMState(h, c).

    >>> import tinygrad_seq as tg
    >>> cell = tg.nn.LSTMCell(1, 1, forget_bias=0.0)
    >>> for gate in "fiog":
    ...     cell.set_gate(gate, W=0.0, U=0.0)
    >>> h, (_, c) = cell([0.0], tg.nn.LSTMState(tg.Tensor([0.0]), tg.Tensor([1.0])))
    >>> float(c)
    0.5
    """

    gates: tuple[str, ...] = ("f", "i", "o", "g")

    def __init__(
        self,
        m: int,
        d: int,
        forget_bias: Any = 1.0,
        forget_gate: bool = True,
        projection: int | None = None,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        rng: Any = None,
        dtype: DTypeLike = np.float64,
        learned_state: bool = False,
    ) -> None:
        rng = generator(rng)
        for name, bound in (("cell_clip", cell_clip), ("projection_clip", projection_clip)):
            if bound is not None and not bound > 0:
                raise ValueError(f"{name} is a positive bound, got {bound}")
        if projection_clip is not None and projection is None:
            raise ValueError("projection_clip needs a projection to clip")
        if not forget_gate:
            self.gates = ("i", "o", "g")
        super().__init__(m, d, d if projection is None else projection, rng, dtype, learned_state)
        self.P = None
        if projection is not None:
            self.P = Tensor(glorot(rng, d, projection, dtype), requires_grad=True, name="P")
        self.c0 = Tensor(np.zeros(d, dtype), requires_grad=True, name="c0") if learned_state else None
        self.forget_gate, self.cell_clip, self.projection_clip = forget_gate, cell_clip, projection_clip
        self.forget_bias = np.asarray(forget_bias).tolist()
        if forget_gate:
            self.set_gate("f", b=forget_bias)
        # Slices of the pre-activations: the sigmoid gates side by side, the candidate, and each gate of the former.
        n, d = len(self.gates) - 1, self.d
        self._sigmoid, self._candidate = (..., slice(0, n * d)), (..., slice(n * d, None))
        self._each = [(..., slice(k * d, (k + 1) * d)) for k in range(n)]

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> LSTMState:
        return LSTMState(
            self._start(self.h0, self.hidden, batch_shape).named("h"),
            self._start(self.c0, self.d, batch_shape).named("c"),
        )

    def __call__(self, x: Any, state: Any, mask: Any = None) -> tuple[Tensor, LSTMState]:
        if not isinstance(state, tuple) or len(state) != 2:
            raise ValueError(f"LSTMCell needs the state (h, c), got {type(state).__name__}; see initial_state()")
        h, c = state
        x, h, u = self._joined(x, h, mask)
        self._fits("c", c, x, self.d)
        if c._operation is not None and h._operation is None and not h._requires:
            warnings.warn("h was detached but c was not: credit still crosses by c. Use tg.detach(state)", stacklevel=2)

        a = u @ self.A + self.b
        s = sigmoid(ops.getitem(a, index=self._sigmoid))
        g = tanh(ops.getitem(a, index=self._candidate)).named("g")
        *keep, i, o = [ops.getitem(s, index=index) for index in self._each]
        if self.forget_gate:
            f = keep[0].named("f")
            c = f * c + i.named("i") * g
        else:
            c = c + i.named("i") * g
        if self.cell_clip is not None:
            c = clip(c, -self.cell_clip, self.cell_clip)
        h = o.named("o") * tanh(c.named("c"))
        if self.P is not None:
            h = h @ self.P
            if self.projection_clip is not None:
                h = clip(h, -self.projection_clip, self.projection_clip)
        return h.named("h"), LSTMState(h, c)

    def _options(self) -> str:
        text = f", forget_bias={self.forget_bias}" if self.forget_gate else ", forget_gate=False"
        text += f", projection={self.hidden}" if self.P is not None else ""
        text += f", cell_clip={self.cell_clip}" if self.cell_clip is not None else ""
        return text + (f", projection_clip={self.projection_clip}" if self.projection_clip is not None else "")


class GRUCell(Cell):
    """The gated recurrent unit (Cho et al. 2014, equations 5 to 8):

        r, z = σ(u A_r + b_r), σ(u A_z + b_z)                u = [x, h_prev]
        g = tanh(x W + (r·h_prev) U + b_g)                   reset="before" the product (the paper)
        g = tanh(x W + b_g + r·(h_prev U + b_u))             reset="after" it (PyTorch, cuDNN): one more bias
        h = z·h_prev + (1 - z)·g                             update="keep": z keeps the old state (the paper)
        h = (1 - z)·h_prev + z·g                             update="write": z admits the candidate

    Negating A_z and b_z turns one update convention into the other. `update_bias`: the initial b_z, a number or one
    per unit. Gates by name: r, z, g.

    >>> import tinygrad_seq as tg
    >>> cell = tg.nn.GRUCell(1, 1)
    >>> for gate, bias in (("r", -np.inf), ("z", np.inf), ("g", 0.0)):
    ...     cell.set_gate(gate, W=0.0, U=0.0, b=bias)
    >>> h, state = cell([0.0], tg.Tensor([0.8]))  # r = 0, z = 1: the old state is kept, not reset
    >>> float(h)
    0.8
    """

    gates = ("r", "z")

    def __init__(
        self,
        m: int,
        d: int,
        update: str = "keep",
        reset: str = "before",
        update_bias: Any = 0.0,
        rng: Any = None,
        dtype: DTypeLike = np.float64,
        learned_state: bool = False,
    ) -> None:
        if update not in ("keep", "write") or reset not in ("before", "after"):
            raise ValueError(
                f'update is "keep" or "write" and reset is "before" or "after", got {update!r} and {reset!r}'
            )
        rng = generator(rng)
        super().__init__(m, d, d, rng, dtype, learned_state)
        self.W = Tensor(glorot(rng, m, d, dtype), requires_grad=True, name="W")
        self.U = Tensor(orthogonal(rng, d, d, dtype), requires_grad=True, name="U")
        self.b_g = Tensor(np.zeros(d, dtype), requires_grad=True, name="b_g")
        self.b_u = Tensor(np.zeros(d, dtype), requires_grad=True, name="b_u") if reset == "after" else None
        self.update, self.reset, self.update_bias = update, reset, np.asarray(update_bias).tolist()
        super().set_gate("z", b=update_bias)

    def gate(self, name: str) -> Gate:
        """The weights W (m, d), U (d, d) and b (d,) of r, z or the candidate g, as copies to read."""
        if name == "g":
            return Gate(self.W._array.copy(), self.U._array.copy(), self.b_g._array.copy())
        return super().gate(name)

    def set_gate(self, name: str, W: Any = None, U: Any = None, b: Any = None) -> None:
        """Set the weights of r, z or the candidate g; numbers are spread. ValueError for another shape."""
        if name != "g":
            super().set_gate(name, W, U, b)
            return
        rebound = []
        for what, x, value in (("W", self.W, W), ("U", self.U, U), ("b", self.b_g, b)):
            array = x._array.copy()
            _fill(f"{what} of gate 'g'", array, value)
            rebound.append((x, array))
        for x, array in rebound:
            x.data = array

    def __call__(self, x: Any, state: Any, mask: Any = None) -> tuple[Tensor, Tensor]:
        x, h, u = self._joined(x, state, mask)
        d = self.d
        s = sigmoid(u @ self.A + self.b)
        r, z = s[..., :d].named("r"), s[..., d:].named("z")
        if self.reset == "before":
            g = tanh(x @ self.W + (r * h) @ self.U + self.b_g)
        else:
            g = tanh(x @ self.W + self.b_g + r * (h @ self.U + self.b_u))
        g = g.named("g")
        h = z * state + (1 - z) * g if self.update == "keep" else (1 - z) * state + z * g
        return h.named("h"), h

    def _block(self, gate: str) -> slice:
        if gate not in self.gates:
            raise ValueError(f"GRUCell has the gates r, z, g; got {gate!r}")
        return super()._block(gate)

    def _options(self) -> str:
        return f", update={self.update!r}, reset={self.reset!r}, update_bias={self.update_bias}"


# Over time -----------------------------------------------------------------------------------------------------------


def _leaves(state: Any) -> Iterator[Tensor]:
    """The tensors of a state: a tensor, or tuples, lists and dicts of states."""
    if isinstance(state, (tuple, list)):
        for part in state:
            yield from _leaves(part)
    elif isinstance(state, dict):
        for part in state.values():
            yield from _leaves(part)
    elif state is not None:
        yield state


def map_state(function: Callable[..., Any], state: Any, *others: Any) -> Any:
    """The same structure, with the function applied to each tensor (and the tensors in its place in the others)."""
    if isinstance(state, dict):
        return {key: map_state(function, part, *(o[key] for o in others)) for key, part in state.items()}
    if isinstance(state, (tuple, list)):
        parts = [map_state(function, part, *rest) for part, *rest in zip(state, *others, strict=True)]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    return None if state is None else function(state, *others)


def detach(state: Any) -> Any:
    """The same state (a tensor, or tuples, lists and dicts of them) without its history: the values cross, the credit
    does not. What truncated BPTT does between chunks.

    >>> import tinygrad_seq as tg
    >>> h = tg.Tensor(1.0, requires_grad=True) * 2
    >>> tg.detach((h, [h]))[1][0].requires_grad
    False
    """
    return map_state(lambda x: x.detach(), state)


def chunks(xs: Any, k: int) -> Iterator[Any]:
    """Pieces of at most k steps of a (T, ...) sequence, in order: what truncated BPTT trains on.

    >>> [len(piece) for piece in chunks(np.zeros((7, 2)), 3)]
    [3, 3, 1]
    """
    if k < 1:
        raise ValueError(f"chunks have at least one step, got k={k}")
    return (xs[start : start + k] for start in range(0, len(xs), k))


def _checked_lengths(lengths: Any, T: int, batch_shape: tuple[int, ...]) -> Array:
    lengths = np.asarray(lengths._array if isinstance(lengths, Tensor) else lengths)
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"lengths are whole numbers, got dtype {lengths.dtype}")
    if lengths.shape != batch_shape:
        raise ValueError(f"lengths need one entry for each row, shape {batch_shape}, got {lengths.shape}")
    if lengths.size and (lengths.min() < 1 or lengths.max() > T):
        raise ValueError(f"lengths lie in 1..{T}, got {lengths.min()}..{lengths.max()}")
    return lengths


def unroll(
    cell: Any, xs: Any, state: Any = None, lengths: Any = None, reverse: bool = False, mask: Any = None
) -> tuple[Tensor, Any]:
    """Build the graph of a cell over a sequence: xs (T, ..., m) gives outputs (T, ..., d) and the final state.

    `state`: where it starts (`cell.initial_state` if not given); passed in and returned, never stored.
    `lengths`: how many steps of each row are real. Padded steps leave state and gradients untouched, and their
    outputs are 0; a row's final state is that of its own last step. `reverse=True` reads from the end (each row's
    own end); the outputs stand in the order of the inputs. `mask`: multiplied into h where the gates read it
    (recurrent dropout). T = 0 gives empty outputs and the state unchanged. Steps are labelled 1 .. T.

    >>> import tinygrad_seq as tg
    >>> cell = tg.nn.RNNCell(1, 2, rng=0)
    >>> outputs, h = tg.nn.unroll(cell, np.ones((4, 3, 1)), lengths=[4, 2, 1])
    >>> outputs.shape, outputs.data[2:, 1].tolist()
    ((4, 3, 2), [[0.0, 0.0], [0.0, 0.0]])
    """
    xs = tensor(xs)
    if xs.ndim < 2:
        raise ValueError(f"unroll needs a sequence of rows, shape (T, ..., width), got {xs.shape}")
    T, batch_shape = len(xs), xs.shape[1:-1]
    if state is None:
        state = cell.initial_state(batch_shape)
    if T == 0:
        width = next(_leaves(state)).shape[-1]
        return Tensor(np.zeros((0, *batch_shape, width), xs.dtype)), state
    real = None
    if lengths is not None:
        lengths = _checked_lengths(lengths, T, batch_shape)
        real = (np.arange(T).reshape((T, *(1,) * len(batch_shape))) < lengths)[..., None]
        if not real.all():
            xs = where(real, xs, 0.0)  # whatever stands at padding cannot turn into 0 · inf on the way back
    further = () if mask is None else (mask,)
    outputs: list[Any] = [None] * T
    for t in reversed(range(T)) if reverse else range(T):
        with step(t + 1):
            h, new = cell(xs[t], state, *further)
            if real is not None and not real[t].all():
                state = map_state(lambda x, old, t=t: _padded(real[t], x, old), new, state)
                h = where(real[t], h, 0.0)
            else:
                state = new
            outputs[t] = h
    return stack(outputs), state


def _padded(real: Array, new: Tensor, old: Tensor) -> Tensor:
    """The new state in the rows that are still being read, the old one in the others; it carries the name on."""
    kept: Tensor = where(real, new, old)
    if new.name:
        kept.named(new.name)
        new.named(f"{new.name} before padding")
    return kept


class Stack(Module):
    """Layers of cells, each layer with one cell, or two for both directions: `outputs, states = net(xs)`.

    `cells[layer]` is a cell, or a pair (forward, backward), whose outputs are joined (..., 2d). Any cell will do.
    `dropout`: between layers. `recurrent_dropout`: on h where the gates read it, one mask for a whole sequence, a new
    one at each call; a cell of your own takes it as third argument. `residual`: from the second layer on, a layer's
    input is added to its output. Both draw in training mode only (`eval()` turns them off).

    Call: `net(xs, state=None, lengths=None, every_layer=False)` with xs (T, B, m), or (T, m) without a batch. Returns
    the last layer's outputs (T, B, d or 2d), or with `every_layer=True` the list of all layers' outputs, and the final
    states, `states[layer][direction]`, each as its cell's. `state` is given in the same structure.
    """

    def __init__(
        self,
        cells: Sequence[Any],
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        residual: bool = False,
        rng: Any = None,
    ) -> None:
        self.cells = [list(layer) if isinstance(layer, (tuple, list)) else [layer] for layer in cells]
        if not self.cells or not all(len(layer) in (1, 2) for layer in self.cells):
            raise ValueError("a stack needs at least one layer, and one or two cells (directions) in each")
        self.dropout = probability(dropout, "dropout")
        self.recurrent_dropout = probability(recurrent_dropout, "recurrent_dropout")
        self.residual, self.rng = residual, generator(rng)
        if dropout and len(self.cells) == 1:
            warnings.warn("dropout acts between layers, and there is one layer: it does nothing", stacklevel=3)

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> list[list[Any]]:
        """The start of every layer and direction: `states[layer][direction]`."""
        return [[cell.initial_state(batch_shape) for cell in layer] for layer in self.cells]

    def __call__(
        self, xs: Any, state: Any = None, lengths: Any = None, every_layer: bool = False
    ) -> tuple[Any, list[list[Any]]]:
        xs = tensor(xs)
        if xs.ndim < 2:
            raise ValueError(f"{type(self).__name__} needs inputs of shape (T, B, m) or (T, m), got {xs.shape}")
        structure = [len(layer) for layer in self.cells]
        if state is None:
            state = self.initial_state(xs.shape[1:-1])
        elif (
            not isinstance(state, (tuple, list))
            or [len(layer) if isinstance(layer, (tuple, list)) else 0 for layer in state] != structure
        ):
            raise ValueError(
                f"the state is a list of {len(structure)} layers with {structure[0]} direction(s) each, "
                "states[layer][direction]; pass on what the last call returned"
            )
        below, outputs, states = xs, [], []
        for k, (layer, starts) in enumerate(zip(self.cells, state, strict=True)):
            if k and self.dropout and self.training:
                below = below * dropout_mask(below, rng=self.rng, p=self.dropout)
            both, ends = [], []
            for cell, start, direction in zip(layer, starts, ("forward", "backward")[: len(layer)], strict=True):
                with scope(f"layer{k}"), scope(direction if len(layer) == 2 else ""):
                    mask = None
                    if self.recurrent_dropout and self.training:
                        mask = dropout_mask(next(_leaves(start)), rng=self.rng, p=self.recurrent_dropout)
                    out, end = unroll(cell, below, start, lengths, direction == "backward", mask)
                both.append(out)
                ends.append(end)
            out = both[0] if len(both) == 1 else concat(both, -1)
            if k and self.residual:
                if out.shape != below.shape:
                    raise ValueError(f"residual needs layers of one width, got {below.shape} below {out.shape}")
                out = out + below
            outputs.append(out)
            states.append(ends)
            below = out
        return (outputs if every_layer else below), states

    def __repr__(self) -> str:
        rows = "\n".join(f"  layer{k}: {' | '.join(map(repr, layer))}" for k, layer in enumerate(self.cells))
        return (
            f"{type(self).__name__}(dropout={self.dropout}, recurrent_dropout={self.recurrent_dropout}, "
            f"residual={self.residual}\n{rows})"
        )


def _layers(
    kind: Callable[..., Any], m: int, d: int, layers: int, bidirectional: bool, rng: np.random.Generator, options: Any
) -> list[list[Any]]:
    """`layers` layers of this kind of cell: the first reads width m, the others what the layer below puts out."""
    if layers < 1:
        raise ValueError(f"a stack has at least one layer, got layers={layers}")
    cells: list[list[Any]] = []
    for _ in range(layers):
        cells.append([kind(m, d, rng=rng, **options) for _ in range(2 if bidirectional else 1)])
        m = sum(cell.hidden for cell in cells[-1])
    return cells


class RNN(Stack):
    """Layers of RNNCell(m, d): options as the cell's and the stack's. xs (T, B, m) gives (T, B, d), or 2d in two
    directions; states[layer][direction] is h (B, d).

    >>> import tinygrad_seq as tg
    >>> outputs, states = tg.nn.RNN(3, 4, layers=2, bidirectional=True, rng=0)(np.ones((5, 2, 3)))
    >>> outputs.shape, states[1][0].shape
    ((5, 2, 8), (2, 4))
    """

    def __init__(
        self, m: int, d: int, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0,
        recurrent_dropout: float = 0.0, residual: bool = False, rng: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        rng = generator(rng)
        super().__init__(
            _layers(RNNCell, m, d, layers, bidirectional, rng, options), dropout, recurrent_dropout, residual, rng
        )


class LSTM(Stack):
    """Layers of LSTMCell(m, d): options as the cell's and the stack's. xs (T, B, m) gives (T, B, d), or 2d in two
    directions (with projection p: p or 2p); states[layer][direction] is LSTMState(h (B, d or p), c (B, d)).

    >>> import tinygrad_seq as tg
    >>> outputs, states = tg.nn.LSTM(3, 4, projection=2, rng=0)(np.ones((5, 2, 3)), lengths=[5, 3])
    >>> outputs.shape, states[0][0].h.shape, states[0][0].c.shape
    ((5, 2, 2), (2, 2), (2, 4))
    """

    def __init__(
        self, m: int, d: int, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0,
        recurrent_dropout: float = 0.0, residual: bool = False, rng: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        rng = generator(rng)
        super().__init__(
            _layers(LSTMCell, m, d, layers, bidirectional, rng, options), dropout, recurrent_dropout, residual, rng
        )


class GRU(Stack):
    """Layers of GRUCell(m, d): options as the cell's and the stack's. xs (T, B, m) gives (T, B, d), or 2d in two
    directions; states[layer][direction] is h (B, d).

    >>> import tinygrad_seq as tg
    >>> outputs, states = tg.nn.GRU(3, 4, update="write", reset="after", rng=0)(np.ones((5, 3)))
    >>> outputs.shape, states[0][0].shape
    ((5, 4), (4,))
    """

    def __init__(
        self, m: int, d: int, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0,
        recurrent_dropout: float = 0.0, residual: bool = False, rng: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        rng = generator(rng)
        super().__init__(
            _layers(GRUCell, m, d, layers, bidirectional, rng, options), dropout, recurrent_dropout, residual, rng
        )
