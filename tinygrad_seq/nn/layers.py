"""Layers without time: Linear, Embedding, Dropout, LayerNorm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..engine.arguments import generator, indices_from, whole_number
from ..engine.numerics import HALF, rounded, widened
from ..engine.ops import embedding, not_equal, unit, where
from ..engine.recording import primitive
from ..engine.signatures import Axis
from ..engine.tensor import Tensor
from .init import glorot
from .module import Module


def tensor(x: Any) -> Tensor:
    """x itself if it is a tensor, else a constant made of it."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, (tuple, list)) and any(isinstance(part, Tensor) for part in x):
        kinds = ", ".join([type(part).__name__ for part in x[:3]] + ["…"] * (len(x) > 3))
        raise TypeError(
            f"one tensor is needed, got a {type(x).__name__} of {kinds}: of (outputs, states), as a recurrent layer "
            "returns them, take the outputs; join a list of tensors with tg.stack"
        )
    return Tensor(x)


def width(module: object, what: str, given: Any, least: int = 1) -> int:
    """A number of units, as a whole number."""
    return whole_number(type(module).__name__, what, given, least)


class Linear(Module):
    """y = x W + b on the last axis: x (..., m), W (m, d), b (d,), y (..., d). Glorot W, zero b.

    `tied`: an Embedding (n, m) whose table is read the other way, y = x tableᵀ + b of n classes: one parameter for both
    (Press and Wolf 2017). It is `W` here too, and m and d are its.

    >>> import tinygrad_seq as tg
    >>> layer = tg.nn.Linear(2, 3, rng=0)
    >>> layer(np.ones((5, 2))).shape
    (5, 3)
    >>> words = tg.nn.Embedding(7, 4, rng=0)
    >>> readout = tg.nn.Linear(tied=words)
    >>> readout(np.ones((5, 4))).shape, readout.W is words.table
    ((5, 7), True)
    """

    tied = False

    def __init__(
        self,
        m: int | None = None,
        d: int | None = None,
        bias: bool = True,
        rng: Any = None,
        dtype: DTypeLike = np.float64,
        tied: Embedding | None = None,
    ) -> None:
        if tied is not None:
            self.tied = True
            if not isinstance(tied, Embedding):
                raise TypeError(f"Linear is tied to an Embedding, got {type(tied).__name__}")
            n, rows = tied.table.shape
            if (m, d) not in ((None, None), (rows, n)):
                raise ValueError(f"Linear tied to an Embedding({n}, {rows}) has m={rows} and d={n}, got {m} and {d}")
            m, d, dtype, self.W = rows, n, tied.table.dtype, tied.table
        else:
            m, d = width(self, "m", m, 0), width(self, "d", d, 0)
            self.W = Tensor(glorot(rng, m, d, dtype), requires_grad=True, name="W")
        self.b = Tensor(np.zeros(d, dtype), requires_grad=True, name="b") if bias else None

    def __call__(self, x: Any) -> Tensor:
        x = tensor(x)
        W = self.W.T if self.tied else self.W
        if x.ndim == 0 or x.shape[-1] != len(W):
            raise ValueError(f"Linear needs inputs of width {len(W)} on the last axis, got shape {x.shape}")
        y = x @ W
        return y if self.b is None else y + self.b


class Embedding(Module):
    """Row ids[...] of a table: ids of any shape, whole numbers 0..n-1, give (..., d). IndexError outside.

    `padding`: the id whose row begins as zeros and never gets a gradient. Rows from N(0, 1).

    >>> import tinygrad_seq as tg
    >>> table = tg.nn.Embedding(10, 4, padding=0, rng=0)
    >>> table([3, 0]).shape, table([0]).tolist()
    ((2, 4), [[0.0, 0.0, 0.0, 0.0]])
    """

    def __init__(
        self, n: int, d: int, padding: int | None = None, rng: Any = None, dtype: DTypeLike = np.float64
    ) -> None:
        n, d = width(self, "n", n, 0), width(self, "d", d, 0)
        if padding is not None and not 0 <= padding < n:
            raise ValueError(f"padding is an id in 0..{n - 1}, got {padding}")
        rows = generator(rng).standard_normal((n, d)).astype(dtype)
        if padding is not None:
            rows[padding] = 0
        self.table = Tensor(rows, requires_grad=True, name="table")
        self.padding = padding

    def __call__(self, ids: Any) -> Tensor:
        ids = ids if isinstance(ids, Tensor) else indices_from(ids, "Embedding")
        rows: Tensor = embedding(self.table, ids)
        if self.padding is None:
            return rows
        real = not_equal(ids, self.padding)
        return where(real[..., None], rows, rows.detach())


# Keeps each entry with probability 1 - p, scaled by 1/(1 - p). A draw at every call, and at every replay.
dropout_mask = primitive(
    lambda x, rng, p: ((rng.random(x.shape) >= p) / (1 - p if p < 1 else 1)).astype(x.dtype), None, name="dropout_mask"
)


def probability(p: float, what: str) -> float:
    if not 0 <= p <= 1:
        raise ValueError(f"{what} is a probability in 0..1, got {p}")
    return p


class Dropout(Module):
    """In training, each entry is 0 with probability p and else divided by 1 - p; the identity in `eval()` mode.

    >>> import tinygrad_seq as tg
    >>> drop = tg.nn.Dropout(0.5, rng=0)
    >>> sorted(set(drop(np.ones(100)).tolist())), drop.eval()(np.ones(3)).tolist()
    ([0.0, 2.0], [1.0, 1.0, 1.0])
    """

    def __init__(self, p: float, rng: Any = None) -> None:
        self.p = probability(p, "dropout")
        self.rng = generator(rng)

    def __call__(self, x: Any) -> Tensor:
        x = tensor(x)
        return x * dropout_mask(x, rng=self.rng, p=self.p) if self.training and self.p else x


class LayerNorm(Module):
    """(x - mean) / √(variance + eps) · gain + offset over the last axis (Ba, Kiros and Hinton 2016).

    >>> import tinygrad_seq as tg
    >>> tg.nn.LayerNorm(2, eps=0.0)([1.0, 3.0]).tolist()
    [-1.0, 1.0]
    """

    def __init__(self, width: int, eps: float = 1e-5, dtype: DTypeLike = np.float64) -> None:
        width = whole_number("LayerNorm", "width (of the last axis)", width, 1)
        self.gain = Tensor(np.ones(width, dtype), requires_grad=True, name="gain")
        self.offset = Tensor(np.zeros(width, dtype), requires_grad=True, name="offset")
        self.eps = eps

    def __call__(self, x: Any) -> Tensor:
        x = tensor(x)
        if x.ndim == 0 or x.shape[-1] != len(self.gain):
            raise ValueError(f"LayerNorm needs width {len(self.gain)} on the last axis, got shape {x.shape}")
        y = standardised(x, -1, len(self.gain), self.eps) * self.gain + self.offset
        return rounded(y, np.result_type(x.dtype, self.gain.dtype)) if x.dtype == HALF else y


def standardised(x: Tensor, axes: Axis, count: Any, eps: float, counted: Any = None) -> Tensor:
    """(x - mean) / √(variance + eps) over the `count` entries along axes, in float32 if x is float16.

    No square overflows or underflows. `counted`: False where an entry does not count for mean and variance.
    """
    x = widened(x)
    scale = unit(x, axis=axes, least=eps**0.5)  # a power of two: dividing by it rounds nothing
    x = x / scale
    kept = x if counted is None else where(counted, x, 0.0)
    centred = x - kept.sum(axes, keepdims=True) / count
    kept = centred if counted is None else where(counted, centred, 0.0)
    return centred / (kept.square().sum(axes, keepdims=True) / count + eps / scale / scale).sqrt()


class Sequential(Module):
    """Layers one after the other, `Sequential(a, b)(x)` is b(a(x)): modules, and functions of a tensor such as tg.tanh.

    `net[k]` is the k-th. A recurrent layer returns (outputs, states) and cannot stand among them.

    >>> import tinygrad_seq as tg
    >>> net = tg.nn.Sequential(tg.nn.Linear(2, 3, rng=0), tg.tanh, tg.nn.Linear(3, 1, rng=1))
    >>> net(np.ones((5, 2))).shape, list(net.named_parameters()), len(net)
    ((5, 1), ['parts.0.W', 'parts.0.b', 'parts.2.W', 'parts.2.b'], 3)
    """

    def __init__(self, *parts: Callable[[Any], Any]) -> None:
        for k, part in enumerate(parts):
            if isinstance(part, type):
                raise TypeError(f"part {k} of Sequential is the class {part.__name__}: make one, {part.__name__}(...)")
            if not callable(part):
                raise TypeError(f"part {k} of Sequential is a {type(part).__name__}: write Sequential(a, b), of layers")
        self.parts = list(parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, k: int) -> Callable[[Any], Any]:
        return self.parts[k]

    def __call__(self, x: Any) -> Any:
        for k, part in enumerate(self.parts):
            x = part(x)
            if isinstance(x, tuple):
                raise TypeError(
                    f"part {k} of Sequential returns a tuple of {', '.join(type(y).__name__ for y in x)}: call a "
                    "recurrent layer by itself, outputs, state = net(xs), and go on with the outputs"
                )
        return x
