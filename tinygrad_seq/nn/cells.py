"""Recurrent cells: their equations, one step of time, and nothing else.

A cell is called with an input and a state and returns the hidden row and the new state, `h, state = cell(x, state)`.
It knows nothing of sequences: `unroll` does. Its equations are ordinary operations, so every gate, candidate and state
is on the tape by name, and backpropagation through time is the ordinary backward pass.

Row vectors throughout: u = [x, h_prev] is the joined row, a = u A + b the pre-activations of all gates, with
x (..., m), h (..., d), A (m + d, gates·d) and b (gates·d,).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ..engine.arguments import generator, warn_caller
from ..engine.compositions import clip, concat
from ..engine.ops import broadcast_to, getitem, relu, sigmoid, tanh
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from .init import glorot, orthogonal
from .layers import tensor, width
from .module import Module

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"tanh": tanh, "relu": relu, "linear": lambda a: a}


class LSTMState(NamedTuple):
    """What an LSTM carries from step to step: the hidden row h (..., d or projection) and the cell row c (..., d).

    >>> import tinygrad_seq as tg
    >>> h, c = tg.nn.LSTMCell(2, 3).initial_state((4,))
    >>> h.shape, c.shape, tg.nn.LSTMState(h, c).c is c
    ((4, 3), (4, 3), True)
    """

    h: Tensor
    c: Tensor


class Gate(NamedTuple):
    """One gate's weights, of x W + h U + b: W (m, d), U (d, d), b (d,). `b_u`: see GRUCell with reset="after".

    >>> import tinygrad_seq as tg
    >>> gate = tg.nn.LSTMCell(2, 3, forget_bias=1.0).gate("f")
    >>> gate.W.shape, gate.U.shape, gate.b.tolist(), gate.b_u
    ((2, 3), (3, 3), [1.0, 1.0, 1.0], None)
    """

    W: Array
    U: Array
    b: Array
    b_u: Array | None = None


class Cell(Module):
    """What the cells share: their widths, the joined weights A and b, and every gate's part of them by name.

    A cell of your own needs no base class but Module: `initial_state(batch_shape)` and `cell(x, state) -> (h, state)`
    are all that `unroll`, the stacks and the checks ask for. `mask`, where it is given, is multiplied into h_prev where
    the gates read it (recurrent dropout).

    For the cells here, `joined` are the gates whose weights stand side by side in A and b, and `hidden` is the width of
    h, d or less.
    """

    gates: tuple[str, ...] = ()

    def __init__(
        self, joined: tuple[str, ...], m: int, d: int, hidden: int, rng: Any, dtype: DTypeLike, learned_state: bool
    ) -> None:
        self.m, self.d, self.hidden = width(self, "m", m, 0), width(self, "d", d), width(self, "projection", hidden)
        # Where each gate stands on the last axis: of A, of b, and of the pre-activations.
        self._place = {gate: (..., slice(k * d, (k + 1) * d)) for k, gate in enumerate(joined)}
        A = np.empty((m + hidden, len(joined) * d), dtype)
        for place in self._place.values():
            A[:m][place], A[m:][place] = glorot(rng, m, d, dtype), orthogonal(rng, hidden, d, dtype)
        self.A = Tensor(A, requires_grad=True, name="A")
        self.b = Tensor(np.zeros(len(joined) * d, dtype), requires_grad=True, name="b")
        self.h0 = Tensor(np.zeros(hidden, dtype), requires_grad=True, name="h0") if learned_state else None

    def _weights(self, gate: str) -> dict[str, tuple[Tensor, Any]]:
        """A gate's weights: the tensor that each is part of, and the place in it."""
        if gate not in self.gates:
            raise ValueError(f"{type(self).__name__} has the gates {', '.join(self.gates)}; got {gate!r}")
        _, columns = place = self._place[gate]
        return {
            "W": (self.A, (slice(0, self.m), columns)),
            "U": (self.A, (slice(self.m, None), columns)),
            "b": (self.b, place),
        }

    def gate(self, name: str) -> Gate:
        """The weights of one gate, as copies to read: W (m, d), U (d, d), b (d,)."""
        return Gate(**{what: array_of(x)[place].copy() for what, (x, place) in self._weights(name).items()})

    def set_gate(self, name: str, W: Any = None, U: Any = None, b: Any = None, b_u: Any = None) -> None:
        """Set weights of one gate; a number is spread over the whole block. ValueError for another shape."""
        weights = self._weights(name)
        arrays: dict[Tensor, Array] = {}
        for what, value in {"W": W, "U": U, "b": b, "b_u": b_u}.items():
            if value is None:
                continue
            if what not in weights:
                raise ValueError(f"gate {name!r} of {self} has {', '.join(weights)}, no {what}")
            x, place = weights[what]
            if x not in arrays:
                arrays[x] = array_of(x).copy()
            block, values = arrays[x][place], np.asarray(value)
            if values.ndim and values.shape != block.shape:
                raise ValueError(f"{what} of gate {name!r} has shape {block.shape}, got {values.shape}")
            block[...] = values
        for x, array in arrays.items():
            x.data = array

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Any:
        """Zeros, or the learned start, for rows of this shape: h (*batch_shape, d)."""
        return self._start("h", self.h0, self.hidden, batch_shape)

    def _start(self, name: str, learned: Tensor | None, units: int, batch_shape: tuple[int, ...]) -> Tensor:
        shape = (*batch_shape, units)
        start = Tensor(np.zeros(shape, self.A.dtype)) if learned is None else broadcast_to(learned, shape)
        return start.named(name)

    def _checked(self, x: Any, h: Any) -> tuple[Tensor, Tensor]:
        x, h = tensor(x), tensor(h)
        shape = x.shape
        if shape[-1:] != (self.m,) or h.shape != (*shape[:-1], self.hidden) or x.dtype.kind not in "fc":
            raise self._misfit(x, "h", h, self.hidden)
        return x, h

    def _misfit(self, x: Tensor, what: str, part: Tensor, units: int) -> Exception:
        cell = type(self).__name__
        if x.dtype.kind not in "fc":
            return TypeError(f"{cell} needs floating-point inputs, got dtype {x.dtype}: embed ids, convert counts")
        if x.shape[-1:] != (self.m,):
            return ValueError(f"{cell} needs inputs of width {self.m} on the last axis, got shape {x.shape}")
        return ValueError(
            f"{cell} needs {what} of shape {(*x.shape[:-1], units)} for inputs of shape {x.shape}, got {part.shape}; "
            f"start from cell.initial_state({x.shape[:-1]})"
        )

    def _conventions(self) -> dict[str, Any]:
        """What somebody must know to read the cell's numbers, for its repr."""
        return {}

    def __repr__(self) -> str:
        told = [f"{self.m}, {self.d}", f"gates {' '.join(self.gates)}"]
        told += [f"{key}={value!r}" for key, value in self._conventions().items()]
        told += ["learned_state=True"] * (self.h0 is not None)
        told += [f"dtype={self.A.dtype}"] * (self.A.dtype != np.float64)
        return f"{type(self).__name__}({', '.join(told)})"


class RNNCell(Cell):
    """The simple recurrent cell (Elman 1990): h = tanh(u A + b), u = [x, h_prev].

    `activation`: "tanh", "relu" or "linear" (none). Its one gate is named "h": `cell.gate("h").U` is the recurrent
    matrix. `learned_state`: the initial state is a parameter, h0 (d,). State: h (..., d).

    >>> import tinygrad_seq as tg
    >>> cell = tg.nn.RNNCell(1, 1)
    >>> cell.set_gate("h", W=1.0, U=0.8)
    >>> h, state = cell([1.0], cell.initial_state())
    >>> h.item()
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
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation is one of {', '.join(ACTIVATIONS)}; got {activation!r}")
        super().__init__(self.gates, m, d, d, generator(rng), dtype, learned_state)
        self.activation = activation

    def __call__(self, x: Any, state: Any, mask: Any = None) -> tuple[Tensor, Tensor]:
        x, h = self._checked(x, state)
        u = _joined(x, h if mask is None else h * mask)

        h = ACTIVATIONS[self.activation](u @ self.A + self.b).named("h")
        return h, h

    def _conventions(self) -> dict[str, Any]:
        return {"activation": self.activation}


class LSTMCell(Cell):
    """The long short-term memory with a forget gate (Gers et al. 2000), its gates in the order f, i, o, g:

        f, i, o = σ(u A_f + b_f), σ(u A_i + b_i), σ(u A_o + b_o)     g = tanh(u A_g + b_g)     u = [x, h_prev]
        c = f·c_prev + i·g                                           h = o·tanh(c)

    `forget_bias`: the initial b_f, a number or one per unit (log(T - 1) for memories of T steps, Tallec and Ollivier
    2018); it is in b, and added nowhere else. `forget_gate=False`: c = c_prev + i·g, the constant error carousel
    (Hochreiter and Schmidhuber 1997). `projection` p: h = (o·tanh(c)) P of width p (Sak et al. 2014). `cell_clip`,
    `projection_clip`: c, and the projected h, are kept within ± this (as in ELMo). `learned_state`: the initial state
    is a parameter, h0 and c0. State: LSTMState(h (..., d or p), c (..., d)).

    >>> import tinygrad_seq as tg
    >>> cell = tg.nn.LSTMCell(1, 1, forget_bias=0.0)
    >>> for gate in "fiog":
    ...     cell.set_gate(gate, W=0.0, U=0.0)
    >>> h, (_, c) = cell([0.0], tg.nn.LSTMState(tg.Tensor([0.0]), tg.Tensor([1.0])))
    >>> c.item()
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
        for name, bound in (("cell_clip", cell_clip), ("projection_clip", projection_clip)):
            if bound is not None and not bound > 0:
                raise ValueError(f"{name} is a positive bound, got {bound}")
        if projection_clip is not None and projection is None:
            raise ValueError("projection_clip needs a projection to clip: give projection=..., or leave it out")
        if not forget_gate:
            if not np.array_equal(forget_bias, 1.0):
                raise ValueError(
                    f"forget_bias={forget_bias!r} needs a forget gate, and forget_gate=False leaves it out"
                )
            self.gates = self.gates[1:]
        rng = generator(rng)
        super().__init__(self.gates, m, d, d if projection is None else projection, rng, dtype, learned_state)
        self.P = None
        if projection is not None:
            self.P = Tensor(glorot(rng, d, projection, dtype), requires_grad=True, name="P")
        self.c0 = Tensor(np.zeros(d, dtype), requires_grad=True, name="c0") if learned_state else None
        self.forget_gate, self.cell_clip, self.projection_clip = forget_gate, cell_clip, projection_clip
        self.forget_bias = np.asarray(forget_bias).tolist()
        if forget_gate:
            self.set_gate("f", b=forget_bias)
        self._sigmoids = (..., slice(0, (len(self.gates) - 1) * d))  # side by side: one sigmoid for all of them

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> LSTMState:
        """Zeros, or the learned start, for rows of this shape: h (*batch_shape, d or p) and c (*batch_shape, d)."""
        return LSTMState(super().initial_state(batch_shape), self._start("c", self.c0, self.d, batch_shape))

    def __call__(self, x: Any, state: Any, mask: Any = None) -> tuple[Tensor, LSTMState]:
        x, h, c = self._checked_pair(x, state)
        u = _joined(x, h if mask is None else h * mask)
        f, i, o, g = self._gates(u @ self.A + self.b)

        c = f * c + i * g if self.forget_gate else c + i * g
        if self.cell_clip is not None:
            c = clip(c, -self.cell_clip, self.cell_clip)
        h = o * tanh(c.named("c"))
        if self.P is not None:
            h = h @ self.P
            if self.projection_clip is not None:
                h = clip(h, -self.projection_clip, self.projection_clip)
        return h.named("h"), LSTMState(h, c)

    def _gates(self, a: Tensor) -> tuple[Any, Tensor, Tensor, Tensor]:
        s, g = sigmoid(getitem(a, index=self._sigmoids)), tanh(getitem(a, index=self._place["g"])).named("g")
        *f, i, o = [getitem(s, index=self._place[gate]).named(gate) for gate in self.gates[:-1]]
        return f[0] if f else None, i, o, g

    def _checked_pair(self, x: Any, state: Any) -> tuple[Tensor, Tensor, Tensor]:
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            raise ValueError(
                f"LSTMCell needs the state (h, c), got {getattr(state, 'shape', type(state).__name__)}; start from "
                "cell.initial_state(batch_shape), or wrap the two in tg.nn.LSTMState(h, c)"
            )
        (x, h), c = self._checked(x, state[0]), tensor(state[1])
        if c.shape != (*h.shape[:-1], self.d):
            raise self._misfit(x, "c", c, self.d)
        if (
            h.operation is None
            and c.requires_grad
            and c.operation is not None
            and c.name == "c"
            and not h.requires_grad
        ):
            warn_caller(
                "the LSTM's h was detached and its c was not: credit still crosses by c. Detach the whole state with "
                "tg.detach(state)"
            )
        return x, h, c

    def _conventions(self) -> dict[str, Any]:
        options = {"projection": self.hidden if self.P is not None else None, "cell_clip": self.cell_clip}
        options |= {"projection_clip": self.projection_clip}
        told = {"forget_bias": _brief(self.forget_bias)} if self.forget_gate else {"forget_gate": False}
        return told | {key: value for key, value in options.items() if value is not None}


class GRUCell(Cell):
    """The gated recurrent unit (Cho et al. 2014, equations 5 to 8), in each of its conventions:

        r, z = σ(u A_r + b_r), σ(u A_z + b_z)                u = [x, h_prev]
        g = tanh(x W + (r·h_prev) U + b_g)                   reset="before" the recurrent product (the paper)
        g = tanh(x W + b_g + r·(h_prev U + b_u))             reset="after" it (PyTorch, cuDNN): one more bias
        h = z·h_prev + (1 - z)·g                             update="keep": z keeps the old state (the paper)
        h = (1 - z)·h_prev + z·g                             update="write": z writes the candidate

    Negating A_z and b_z turns one update convention into the other. `update_bias`: the initial b_z, a number or one
    per unit. `learned_state`: the initial state is a parameter, h0 (d,). State: h (..., d).

    >>> import tinygrad_seq as tg
    >>> cell = tg.nn.GRUCell(1, 1)
    >>> for gate, bias in (("r", -np.inf), ("z", np.inf), ("g", 0.0)):
    ...     cell.set_gate(gate, W=0.0, U=0.0, b=bias)
    >>> h, state = cell([0.0], tg.Tensor([0.8]))  # r = 0, z = 1: the old state is kept, not reset
    >>> h.item()
    0.8
    """

    gates = ("r", "z", "g")

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
        if update not in ("keep", "write"):
            raise ValueError(f'update is "keep" (z keeps the old state) or "write" (z writes), got {update!r}')
        if reset not in ("before", "after"):
            raise ValueError(f'reset is "before" or "after" the recurrent product, got {reset!r}')
        rng = generator(rng)
        super().__init__(self.gates[:2], m, d, d, rng, dtype, learned_state)
        self.W = Tensor(glorot(rng, m, d, dtype), requires_grad=True, name="W")
        self.U = Tensor(orthogonal(rng, d, d, dtype), requires_grad=True, name="U")
        self.b_g = Tensor(np.zeros(d, dtype), requires_grad=True, name="b_g")
        self.b_u = Tensor(np.zeros(d, dtype), requires_grad=True, name="b_u") if reset == "after" else None
        self.update, self.reset, self.update_bias = update, reset, np.asarray(update_bias).tolist()
        self.set_gate("z", b=update_bias)

    def _weights(self, gate: str) -> dict[str, tuple[Tensor, Any]]:
        if gate != "g":
            return super()._weights(gate)
        weights: dict[str, tuple[Tensor, Any]] = {"W": (self.W, ...), "U": (self.U, ...), "b": (self.b_g, ...)}
        return weights if self.b_u is None else weights | {"b_u": (self.b_u, ...)}

    def __call__(self, x: Any, state: Any, mask: Any = None) -> tuple[Tensor, Tensor]:
        x, h = self._checked(x, state)
        seen = h if mask is None else h * mask
        s = sigmoid(_joined(x, seen) @ self.A + self.b)
        r, z = (getitem(s, index=self._place[gate]).named(gate) for gate in "rz")

        if self.b_u is None:
            g = tanh(x @ self.W + (r * seen) @ self.U + self.b_g)
        else:
            g = tanh(x @ self.W + self.b_g + r * (seen @ self.U + self.b_u))
        g = g.named("g")
        h = z * h + (1 - z) * g if self.update == "keep" else (1 - z) * h + z * g
        return h.named("h"), h

    def _conventions(self) -> dict[str, Any]:
        return {"update": self.update, "reset": self.reset, "update_bias": _brief(self.update_bias)}


def _joined(x: Tensor, h: Tensor) -> Tensor:
    """u = [x, h]. Where both are constants, as at the start, nothing is recorded: its name says what it holds."""
    u = concat([x, h], -1)
    return u if u.requires_grad or u.record is not None else u.named(f"[{x.name or 'x'}, {h.name or 'h'}]")


def _brief(bias: Any) -> Any:
    """An initial bias as a repr shows it: the number, or the range of one per unit."""
    return bias if not isinstance(bias, list) else f"{min(bias):g} to {max(bias):g}"
