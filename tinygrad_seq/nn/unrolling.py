"""Time: the graph of a cell over a sequence, and the states that it carries.

Nothing here knows of gates. A cell is whatever has `initial_state(batch_shape)` and `cell(x, state) -> (h, state)`;
a state is a tensor, or tuples, lists and dicts of states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..engine.arguments import whole_number
from ..engine.compositions import concat, stack
from ..engine.context import CONTEXT, Context
from ..engine.ops import getitem, greater, less_equal, maximum, where
from ..engine.recompute import recompute
from ..engine.recording import no_grad, primitive
from ..engine.signatures import Array, Primitive
from ..engine.tensor import Tensor
from ..engine.tree import leaves, map_state
from .layers import tensor


def detach(state: Any) -> Any:
    """The same state (a tensor, or tuples, lists and dicts of them) without its history: the values cross, the credit
    does not. What truncated BPTT does between chunks.

    >>> import tinygrad_seq as tg
    >>> h = tg.Tensor(1.0, requires_grad=True) * 2
    >>> tg.detach((h, [h]))[1][0].requires_grad
    False
    """
    return map_state(lambda x: x.detach() if isinstance(x, Tensor) else x, state)


def chunks(xs: Any, k: int) -> Iterator[Any]:
    """Pieces of at most k steps of a (T, ...) sequence, in order: what truncated BPTT trains on.

    >>> [len(piece) for piece in chunks(np.zeros((7, 2)), 3)]
    [3, 3, 1]
    """
    k = whole_number("chunks", "k", k, 1)
    return (xs[start : start + k] for start in range(0, len(xs), k))


def _in_range(lengths: Array, T: int) -> Array:
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"lengths are whole numbers, got dtype {lengths.dtype}")
    if lengths.size and (lengths.min() < 0 or lengths.max() > T):
        raise ValueError(f"lengths lie in 0..{T}, the number of steps, got {lengths.min()}..{lengths.max()}")
    return lengths.copy()  # a view would be made once by a replay, and not looked at again


# An operation, so that a replay looks at the lengths of each call.
_checked_lengths = primitive(_in_range, None, name="lengths")


def _replaced(padded: Any, x: Any, other: Any, out: Any = None) -> Any:
    if out is None:
        out = x.copy()
    else:
        np.copyto(out, x)
    np.copyto(out, other, where=padded)
    return out


# At padding 0, elsewhere x. Its gradient at padding is 0 whatever stands there, a NaN or an infinity too.
_clear: Primitive = primitive(
    lambda padded, x, out=None: _replaced(padded, x, 0, out),
    None,
    lambda g, y, padded, x: _clear(padded, g),
    name="clear",
)
# At padding the old state, elsewhere the new one; the gradient is shared in the same way.
_hold = primitive(
    lambda *inputs, out=None: _replaced(inputs[0], inputs[1], inputs[2], out),
    every=lambda g, y, padded, new, old: (None, g - (back := g * padded), back),
    name="hold",
)


def last(outputs: Any, lengths: Any = None) -> Tensor:
    """Each row's output at its own last step: outputs (T, B, d) and lengths (B,) give (B, d); 0 for a row of length 0.

    Without `lengths` it is the last step. In two directions, the second half is what the backward direction put out
    there, having read one step only; what it holds after the whole row is in its final state.

    >>> last(np.array([[[1.0], [2.0]], [[3.0], [0.0]]]), [2, 1]).tolist()
    [[3.0], [2.0]]
    """
    outputs = tensor(outputs)
    if outputs.ndim < 2 or not len(outputs):
        raise ValueError(f"last needs outputs of at least one step, shape (T, B, d), got {outputs.shape}")
    if lengths is None:
        return getitem(outputs, index=(-1, ...))
    lengths = tensor(lengths)
    if lengths.shape != outputs.shape[1:-1]:
        raise ValueError(f"lengths need one entry for each row, shape {outputs.shape[1:-1]}, got {lengths.shape}")
    lengths = _checked_lengths(lengths, T=len(outputs))
    rows = np.indices(lengths.shape, sparse=True)
    found = outputs[(maximum(lengths - 1, 0), *rows)]
    return where(greater(lengths, 0)[..., None], found, 0.0)


class Padding:
    """Which steps of which rows are padding, for rows of different lengths.

    There the input is taken for 0, whatever it is, the output is 0, and the state stays what it was.
    """

    def __init__(self, lengths: Any, T: int, batch_shape: tuple[int, ...]) -> None:
        lengths = tensor(lengths)
        if lengths.shape != batch_shape:
            raise ValueError(f"lengths need one entry for each row, shape {batch_shape}, got {lengths.shape}")
        steps = np.arange(T).reshape((T, *(1 for _ in batch_shape)))
        self._padded = less_equal(_checked_lengths(lengths, T=T), steps)[..., None].named("padded")
        # Steps where no row is padded are held too: a replay has other lengths each time, and the same bits.

    def cleared(self, sequence: Tensor) -> Tensor:
        """The sequence with 0 at padding."""
        return _clear(self._padded, sequence)

    def held(self, t: int, new: Any, old: Any) -> Any:
        """The state after step t."""
        padded = getitem(self._padded, index=(t, ...)).named("padded")
        return map_state(partial(_held, padded), new, old)


def _held(padded: Tensor, new: Tensor, old: Tensor) -> Tensor:
    state: Tensor = _hold(padded, new, old)
    if new.name:  # what goes on carries the name
        state.name, new.name = new.name, new.name + " before padding"
    return state


def checked_cell(cell: Any) -> Any:
    """The cell, if it is one."""
    if isinstance(cell, type):
        raise TypeError(f"{cell.__name__} is a class, and a cell is needed: make one, {cell.__name__}(...)")
    if not callable(cell) or not hasattr(cell, "initial_state"):
        kind = type(cell).__name__
        raise TypeError(f"a cell has initial_state(batch_shape) and cell(x, state) -> (h, state); {kind} has not")
    return cell


def unroll(
    cell: Any,
    xs: Any,
    state: Any = None,
    lengths: Any = None,
    reverse: bool = False,
    mask: Any = None,
    recompute: int | None = None,
) -> tuple[Tensor, Any]:
    """Build the graph of a cell over a sequence: xs (T, ..., m) gives outputs (T, ..., d) and the final state.

    `state`: where it starts (`cell.initial_state` if not given); passed in and returned, never stored.
    `lengths`: how many steps of each row are real (0: none). Padded steps leave state and gradients untouched, and
    their outputs are 0; a row's final state is that of its own last step. `reverse=True` reads from the end (each row's
    own end); the outputs stand in the order of the inputs. `mask`: multiplied into h where the gates read it
    (recurrent dropout). `recompute=k`: the values inside segments of k steps are not kept but computed again on the
    way back (see `tg.recompute`): memory for T / k segments and one of k steps. T = 0 gives empty outputs and the
    state unchanged. Steps are labelled 1 .. T.

    >>> import tinygrad_seq as tg
    >>> cell = tg.nn.RNNCell(1, 2, rng=0)
    >>> outputs, h = tg.nn.unroll(cell, np.ones((4, 3, 1)), lengths=[4, 2, 1])
    >>> outputs.shape, outputs.data[2:, 1].tolist()
    ((4, 3, 2), [[0.0, 0.0], [0.0, 0.0]])
    """
    xs = sequence_of_rows("unroll", xs)
    padding = None if lengths is None else Padding(lengths, len(xs), xs.shape[1:-1])
    if padding is not None:
        xs = padding.cleared(xs)
    return unrolled(cell, xs, state, padding, reverse, mask, segment_length("unroll", recompute))


def segment_length(function: str, k: int | None) -> int | None:
    """The option `recompute` as a number of steps."""
    return None if k is None else whole_number(function, "recompute", k, 1)


def sequence_of_rows(what: str, xs: Any) -> Tensor:
    xs = tensor(xs)
    if xs.ndim < 2:
        raise ValueError(
            f"{what} needs a sequence of rows, shape (T, B, m), or (T, m) without a batch, got {xs.shape}"
            + ("; of a series of numbers take xs[:, None]" if xs.ndim else "")
        )
    return xs


def unrolled(
    cell: Any,
    xs: Tensor,
    state: Any,
    padding: Padding | None,
    reverse: bool,
    mask: Any,
    recompute_every: int | None = None,
) -> tuple[Tensor, Any]:
    """`unroll`, for inputs that have been looked at and are 0 at padding."""
    T, batch_shape = len(xs), xs.shape[1:-1]
    if state is None:
        state = checked_cell(cell).initial_state(batch_shape)
    for part in leaves(state):
        if part.shape[:-1] != batch_shape:
            raise ValueError(
                f"a state of shape {part.shape} does not fit a sequence of shape {xs.shape}: its rows are "
                f"{batch_shape}. Start from cell.initial_state({batch_shape})"
            )
    options = {} if mask is None else {"mask": mask}
    if T == 0:  # a step on zeros tells the width and the dtype of what is empty
        with no_grad():
            h, _ = cell(Tensor(np.zeros(xs.shape[1:], xs.dtype)), state, **options)
        return Tensor(np.zeros((0, *h.shape), h.dtype)), state
    places = range(T)[::-1] if reverse else range(T)

    def walked(state: Any, places: Sequence[int]) -> tuple[list[Tensor], Any]:
        """The outputs at these places, in this order, and the state after the last."""
        outputs, outside = [], CONTEXT.get()
        constant = not xs.requires_grad and outside.tracing is None  # drawings call it by its name
        try:
            for t in places:
                CONTEXT.set(Context(outside.recording, outside.tracing, t + 1, outside.scope))  # as `step` does, faster
                x = getitem(xs, index=(t, ...))
                if constant:
                    x.name = xs.name or "x"
                stepped = cell(x, state, **options)
                if not isinstance(stepped, tuple) or len(stepped) != 2:  # two rows of a tensor would pass for both
                    raise TypeError(
                        f"{type(cell).__name__} needs to return h and the new state, (h, state), got "
                        f"{type(stepped).__name__}{f' of {len(stepped)}' if isinstance(stepped, tuple) else ''}"
                    )
                output, new = stepped
                state = new if padding is None else padding.held(t, new, state)
                outputs.append(output)
        finally:
            CONTEXT.set(outside)
        return outputs, state

    if recompute_every is None:
        outputs, state = walked(state, places)
        joined = stack(outputs[::-1] if reverse else outputs)
    else:
        parts, state = _in_segments(walked, state, places, recompute_every)
        joined = concat(parts[::-1] if reverse else parts)
    return joined if padding is None else padding.cleared(joined), state


def _in_segments(walked: Any, state: Any, places: range, k: int) -> tuple[list[Tensor], Any]:
    """The outputs of segments of k steps, whose inner values are computed again on the way back.

    A segment gives its last output apart from the others: it goes on to the next segment as well, and what comes back
    to it is then added in the same order as without segments, bit for bit.
    """
    segments: list[tuple[Tensor | None, Tensor]] = []
    for start in range(0, len(places), k):
        segment = places[start : start + k]

        def run(state: Any, segment: range = segment) -> tuple[Any, Tensor, Any]:
            outputs, state = walked(state, segment)
            first = outputs[:-1] if segment.step > 0 else outputs[-2::-1]
            return stack(first) if first else None, outputs[-1], state

        first, last, state = recompute(run)(state)
        segments.append((first, last))
    parts = [part for first, last in segments for part in (first, last[None]) if part is not None]
    return parts, state
