"""The parameters of recurrent layers in PyTorch's layout, out and in, as plain dicts of arrays.

PyTorch keeps columns where this package keeps rows, has the gates in an order of its own, and two biases where one is
enough. Nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..engine.signatures import Array
from ..engine.tensor import array_of
from .cells import Cell, Gate, GRUCell, LSTMCell, RNNCell
from .stack import Stack

# The gates in PyTorch's order. It calls the GRU's candidate n.
ORDER: dict[type, str] = {RNNCell: "h", LSTMCell: "ifgo", GRUCell: "rzg"}


def to_torch_state(layer: Any) -> dict[str, Array]:
    """The `state_dict` that PyTorch's nn.RNN, nn.LSTM (also with proj_size) or nn.GRU of this layer would have.

    `layer`: an RNN, LSTM or GRU of any number of layers and directions, or one cell (for nn.RNNCell and its like).
    The bias stands in `bias_ih`; `bias_hh` is 0, but for the candidate of a GRU, where r multiplies it. A GRU with
    update="write" has its update gate negated, since PyTorch's z keeps. ValueError for what PyTorch's layers cannot
    be: reset="before", the linear activation, no forget gate, clipping, a learned initial state, residual layers.

    In PyTorch: `net.load_state_dict({key: torch.tensor(a) for key, a in arrays.items()})`.

    >>> import tinygrad_seq as tg
    >>> arrays = tg.nn.to_torch_state(tg.nn.LSTM(3, 4, projection=2))
    >>> {key: array.shape for key, array in arrays.items()}
    {'weight_ih_l0': (16, 3), 'weight_hh_l0': (16, 2), 'bias_ih_l0': (16,), 'bias_hh_l0': (16,), 'weight_hr_l0': (2, 4)}
    """
    arrays: dict[str, Array] = {}
    for suffix, cell in _cells(layer).items():
        gates = [_as_kept(cell, name, cell.gate(name)) for name in ORDER[type(cell)]]
        arrays[f"weight_ih{suffix}"] = np.vstack([gate.W.T for gate in gates])
        arrays[f"weight_hh{suffix}"] = np.vstack([gate.U.T for gate in gates])
        arrays[f"bias_ih{suffix}"] = np.hstack([gate.b for gate in gates])
        arrays[f"bias_hh{suffix}"] = np.hstack([np.zeros_like(g.b) if g.b_u is None else g.b_u for g in gates])
        if isinstance(cell, LSTMCell) and cell.P is not None:
            arrays[f"weight_hr{suffix}"] = np.array(array_of(cell.P).T, order="C")
    return arrays


def from_torch_state(layer: Any, arrays: Mapping[str, Any]) -> None:
    """Load what `to_torch_state` describes, from the `state_dict` of PyTorch's layer of the same sizes.

    The two biases are summed, but for the candidate of a GRU, whose recurrent bias r multiplies. Strict: exactly the
    same names, shapes and dtypes, or ValueError naming each difference, and nothing is changed.

    From PyTorch: `arrays = {key: x.numpy() for key, x in net.state_dict().items()}`.

    >>> import tinygrad_seq as tg
    >>> layer = tg.nn.RNN(1, 1)
    >>> one = np.ones((1, 1))
    >>> names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    >>> tg.nn.from_torch_state(layer, dict(zip(names, (1 * one, 2 * one, 3 * one[0], 4 * one[0]))))
    >>> layer.cells[0][0].gate("h")
    Gate(W=array([[1.]]), U=array([[2.]]), b=array([7.]), b_u=None)
    """
    expected = to_torch_state(layer)
    given = {key: np.asarray(value) for key, value in arrays.items()}
    faults = [f"missing {key}" for key in expected if key not in given]
    faults += [f"unknown {key}" for key in given if key not in expected]
    for key in expected.keys() & given.keys():
        mine, theirs = expected[key], given[key]
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            faults.append(f"{key}: needs {mine.shape} {mine.dtype}, got {theirs.shape} {theirs.dtype}")
    if faults:
        raise ValueError(f"PyTorch's state does not fit {layer!r}: {'; '.join(sorted(faults))}")
    for suffix, cell in _cells(layer).items():
        for k, name in enumerate(ORDER[type(cell)]):
            rows = slice(k * cell.d, (k + 1) * cell.d)
            W, U, b, b_u = (given[f"{what}{suffix}"][rows] for what in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            two = name == "g" and isinstance(cell, GRUCell)
            gate = _as_kept(cell, name, Gate(W.T, U.T, b, b_u) if two else Gate(W.T, U.T, b + b_u))
            cell.set_gate(name, *gate)
        if isinstance(cell, LSTMCell) and cell.P is not None:
            cell.P.data = given[f"weight_hr{suffix}"].T


def _as_kept(cell: Cell, name: str, gate: Gate) -> Gate:
    """The gate, negated where z writes: z keeps in PyTorch. Its own inverse."""
    return Gate(-gate.W, -gate.U, -gate.b) if name == "z" and getattr(cell, "update", None) == "write" else gate


def _cells(layer: Any) -> dict[str, Cell]:
    """The cells by the ends of their names in PyTorch. ValueError where PyTorch has no such layer."""
    if isinstance(layer, Cell):
        cells: dict[str, Any] = {"": layer}
    elif isinstance(layer, Stack):
        cells = {f"_l{k}{'_reverse' * n}": cell for k, row in enumerate(layer.cells) for n, cell in enumerate(row)}
    else:
        raise TypeError(f"PyTorch's layout is that of RNN, LSTM and GRU, and their cells; got {type(layer).__name__}")
    for cell in cells.values():
        if type(cell) is not type(cells[min(cells)]) or type(cell) not in ORDER:
            raise TypeError(f"PyTorch's layers are RNN, LSTM or GRU throughout; got a {type(cell).__name__}")
        unlike = {
            "residual=True": getattr(layer, "residual", False),
            "learned_state=True": cell.h0 is not None,
            "activation='linear'": getattr(cell, "activation", "") == "linear",
            "forget_gate=False": not getattr(cell, "forget_gate", True),
            "cell_clip": getattr(cell, "cell_clip", None) is not None,
            "projection_clip": getattr(cell, "projection_clip", None) is not None,
            "reset='before'": getattr(cell, "reset", "") == "before",
        }
        if told := [what for what, is_so in unlike.items() if is_so]:
            raise ValueError(f"PyTorch has no layer with {', '.join(told)}: {cell!r}")
    return cells
