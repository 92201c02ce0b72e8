"""Recurrent layers: cells stacked in depth and run in one direction or both."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, overload

from ..engine.arguments import generator, warn_caller, whole_number
from ..engine.compositions import concat
from ..engine.recording import scope
from ..engine.tensor import Tensor
from ..engine.tree import leaves
from .cells import GRUCell, LSTMCell, RNNCell
from .layers import dropout_mask, probability
from .module import Module
from .unrolling import Padding, checked_cell, segment_length, sequence_of_rows, unrolled

DIRECTIONS = ("forward", "backward")


class Stack(Module):
    """Layers of cells, each layer with one cell, or two for both directions: `outputs, states = net(xs)`.

    `cells[layer]` is a cell, or a pair (forward, backward) whose outputs are joined (..., 2d). Any cell will do.
    `dropout`: between layers. `recurrent_dropout`: on h where the gates read it, one mask for a whole sequence, a new
    one at each call (Gal and Ghahramani 2016); a cell of your own takes it as its argument `mask`. `residual`: from
    the second layer on, a layer's input is added to its output. Both kinds of dropout draw in training mode only
    (`eval()` turns them off).

    Call: `net(xs, state=None, lengths=None, every_layer=False, recompute=None)` with xs (T, B, m), or (T, m) without a
    batch. Returns the last layer's outputs (T, B, d or 2d), or with `every_layer=True` the list of all layers' outputs,
    and the final states, `states[layer][direction]`, each as its cell's. `state` is given in the same structure; it is
    never stored. `lengths` (B,) and `recompute`: see `unroll`. On the tape, a name such as f or h at a step stands
    under `layer0`, or in two directions `layer0.forward` and `layer0.backward`.

    >>> import numpy as np
    >>> import tinygrad_seq as tg
    >>> class Sum(tg.nn.Module):  # a cell of your own: h = h_prev + x
    ...     def initial_state(self, batch_shape=()):
    ...         return tg.Tensor(np.zeros((*batch_shape, 1)))
    ...     def __call__(self, x, h):
    ...         h = (h + x).named("h")
    ...         return h, h
    >>> outputs, states = tg.nn.Stack([Sum(), (Sum(), Sum())])([[1.0], [2.0], [3.0]])
    >>> outputs.tolist()  # sums of the sums 1, 3, 6: from the beginning, and from the end
    [[1.0, 10.0], [4.0, 9.0], [10.0, 6.0]]
    >>> states[0][0].tolist(), [h.tolist() for h in states[1]]
    ([6.0], [[10.0], [10.0]])
    """

    def __init__(
        self,
        cells: Sequence[Any],
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        residual: bool = False,
        rng: Any = None,
    ) -> None:
        if not isinstance(cells, (tuple, list)):
            raise TypeError(f"a stack takes a list of layers, Stack([cell]), got {type(cells).__name__}")
        self.cells = [list(layer) if isinstance(layer, (tuple, list)) else [layer] for layer in cells]
        if not self.cells or not all(len(layer) in (1, 2) for layer in self.cells):
            raise ValueError("a stack needs at least one layer, and one or two cells (directions) in each")
        self.dropout = probability(dropout, "dropout")
        self.recurrent_dropout = probability(recurrent_dropout, "recurrent_dropout")
        self.residual, self.rng = residual, generator(rng)
        for layer in self.cells:
            for cell in layer:
                self._accept(cell)
        if dropout and len(self.cells) == 1:
            warn_caller("dropout acts between layers, and there is one layer: it does nothing")

    def _accept(self, cell: Any) -> None:
        kind = type(checked_cell(cell)).__name__
        own = () if isinstance(cell, Module) else getattr(cell, "__dict__", {}).values()
        if any(isinstance(x, Tensor) and x.requires_grad for x in own):
            raise TypeError(f"the parameters of {kind} would not be found: derive it from tg.nn.Module")
        if self.recurrent_dropout and "mask" not in inspect.signature(cell).parameters:
            raise TypeError(f"recurrent_dropout needs cells called as cell(x, state, mask=None); {kind} takes no mask")

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> list[list[Any]]:
        """The start of every layer and direction: `states[layer][direction]`."""
        return [[cell.initial_state(batch_shape) for cell in layer] for layer in self.cells]

    # fmt: off
    @overload
    def __call__(self, xs: Any, state: Any = None, lengths: Any = None, every_layer: Literal[False] = False,
                 recompute: int | None = None) -> tuple[Tensor, list[list[Any]]]: ...
    @overload
    def __call__(self, xs: Any, state: Any = None, lengths: Any = None, *, every_layer: Literal[True],
                 recompute: int | None = None) -> tuple[list[Tensor], list[list[Any]]]: ...
    # fmt: on
    def __call__(
        self,
        xs: Any,
        state: Any = None,
        lengths: Any = None,
        every_layer: bool = False,
        recompute: int | None = None,
    ) -> tuple[Any, list[list[Any]]]:
        xs = sequence_of_rows(type(self).__name__, xs)
        starts, segment = self._starts(state), segment_length(type(self).__name__, recompute)
        padding = None if lengths is None else Padding(lengths, len(xs), xs.shape[1:-1])
        below = xs if padding is None else padding.cleared(xs)
        outputs: list[Tensor] = []
        states = []
        for k, (layer, start) in enumerate(zip(self.cells, starts, strict=True)):
            if k and self.dropout and self.training:
                below = below * dropout_mask(below, rng=self.rng, p=self.dropout)
            with scope(f"layer{k}"):
                above, ends = self._layer(layer, below, start, padding, segment)
            if k and self.residual:
                if above.shape != below.shape:
                    raise ValueError(f"residual needs layers of one width, got {below.shape} below {above.shape}")
                above = above + below
            outputs.append(above)
            states.append(ends)
            below = above
        return (outputs if every_layer else below), states

    def _starts(self, state: Any) -> Any:
        """The given state, if it has the structure of this stack; None for each cell's own start."""
        if state is None:
            return [[None] * len(layer) for layer in self.cells]
        layered = isinstance(state, (tuple, list)) and all(isinstance(layer, (tuple, list)) for layer in state)
        if not layered or [len(layer) for layer in state] != [len(layer) for layer in self.cells]:
            directions = [len(layer) for layer in self.cells]
            raise ValueError(
                f"{type(self).__name__} needs its state as states[layer][direction], {len(self.cells)} layer(s) with "
                f"{directions} direction(s), got {type(state).__name__}; pass on what the last call returned, or start "
                "from initial_state(batch_shape)"
            )
        return state

    def _layer(
        self, layer: list[Any], xs: Tensor, starts: Any, padding: Padding | None, segment: int | None
    ) -> tuple[Tensor, list[Any]]:
        outputs, ends = [], []
        for cell, start, direction in zip(layer, starts, DIRECTIONS, strict=False):
            with scope(direction if len(layer) == 2 else ""):
                state = cell.initial_state(xs.shape[1:-1]) if start is None else start
                mask = None
                if self.recurrent_dropout and self.training:
                    mask = dropout_mask(next(leaves(state)), rng=self.rng, p=self.recurrent_dropout)
                output, end = unrolled(cell, xs, state, padding, direction == "backward", mask, segment)
            outputs.append(output)
            ends.append(end)
        return outputs[0] if len(outputs) == 1 else concat(outputs, -1), ends

    def _conventions(self) -> str:
        return f"dropout={self.dropout}, recurrent_dropout={self.recurrent_dropout}, residual={self.residual}"

    def __repr__(self) -> str:
        rows = [f"{type(self).__name__}({self._conventions()})"]
        for k, layer in enumerate(self.cells):
            for cell, direction in zip(layer, DIRECTIONS, strict=False):
                rows.append(f"  layer{k}{f'.{direction}' if len(layer) == 2 else ''}: {cell!r}")
        return "\n".join(rows)


class Layers(Stack):
    """A stack of `layers` layers of one kind of cell, in one direction or both.

    The first layer reads inputs of width m, the others what the layer below puts out. `options` are the cell's own.
    """

    cell: ClassVar[Any]

    def __init__(
        self,
        m: int,
        d: int,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        residual: bool = False,
        rng: Any = None,
        **options: Any,
    ) -> None:
        layers = whole_number(type(self).__name__, "layers", layers, 1)
        known = set(inspect.signature(self.cell).parameters) - {"m", "d", "rng"}
        if unknown := sorted(set(options) - known):
            raise TypeError(
                f"{type(self).__name__} has no option {', '.join(unknown)}; it has layers, bidirectional, dropout, "
                f"recurrent_dropout, residual, rng, {', '.join(sorted(known))}. Sequences are time first, (T, B, m)"
            )
        rng = generator(rng)
        cells: list[list[Any]] = []
        for k in range(layers):
            row = []
            for direction in DIRECTIONS if bidirectional else ("",):
                with scope(f"layer{k}"), scope(direction):  # the parameters' place on the tape
                    row.append(self.cell(m, d, rng=rng, **options))
            cells.append(row)
            m = sum(cell.hidden for cell in row)
        super().__init__(cells, dropout, recurrent_dropout, residual, rng)


class RNN(Layers):
    """Layers of RNNCell(m, d): `layers`, `bidirectional`, and the options of Stack and of the cell.

    xs (T, B, m) gives (T, B, d), or 2d in two directions; states[layer][direction] is h (B, d).

    >>> import numpy as np
    >>> import tinygrad_seq as tg
    >>> outputs, states = tg.nn.RNN(3, 4, layers=2, bidirectional=True, rng=0)(np.ones((5, 2, 3)))
    >>> outputs.shape, states[1][0].shape
    ((5, 2, 8), (2, 4))
    """

    cell = RNNCell


class LSTM(Layers):
    """Layers of LSTMCell(m, d): `layers`, `bidirectional`, and the options of Stack and of the cell.

    xs (T, B, m) gives (T, B, d), or 2d in two directions (with projection p: p or 2p); states[layer][direction] is
    LSTMState(h (B, d or p), c (B, d)).

    >>> import numpy as np
    >>> import tinygrad_seq as tg
    >>> outputs, states = tg.nn.LSTM(3, 4, projection=2, rng=0)(np.ones((5, 2, 3)), lengths=[5, 3])
    >>> outputs.shape, states[0][0].h.shape, states[0][0].c.shape
    ((5, 2, 2), (2, 2), (2, 4))
    """

    cell = LSTMCell


class GRU(Layers):
    """Layers of GRUCell(m, d): `layers`, `bidirectional`, and the options of Stack and of the cell.

    xs (T, B, m) gives (T, B, d), or 2d in two directions; states[layer][direction] is h (B, d).

    >>> import numpy as np
    >>> import tinygrad_seq as tg
    >>> outputs, states = tg.nn.GRU(3, 4, update="write", reset="after", rng=0)(np.ones((5, 3)))
    >>> outputs.shape, states[0][0].shape
    ((5, 4), (4,))
    """

    cell = GRUCell
