"""Initial weights. All take an explicit generator (or seed); NumPy's global one is never touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..engine.arguments import generator
from ..engine.signatures import Array

_drawn = ContextVar("first weights are drawn", default=True)


@contextmanager
def undrawn() -> Iterator[None]:
    """Matrices made in this block are zeros: for modules whose weights are loaded next. An orthogonal start takes
    seconds where there are millions of weights."""
    token = _drawn.set(False)
    try:
        yield
    finally:
        _drawn.reset(token)


def glorot(rng: Any, fan_in: int, fan_out: int, dtype: DTypeLike = np.float64) -> Array:
    """A (fan_in, fan_out) matrix, uniform in ±√(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16).

    >>> bool(abs(glorot(0, 2, 4)).max() <= 1)
    True
    """
    if not _drawn.get():
        return np.broadcast_to(np.zeros((), dtype), (fan_in, fan_out))
    bound = np.sqrt(6 / max(fan_in + fan_out, 1))
    return generator(rng).uniform(-bound, bound, (fan_in, fan_out)).astype(dtype)


def orthogonal(rng: Any, rows: int, columns: int, dtype: DTypeLike = np.float64) -> Array:
    """A (rows, columns) matrix with orthonormal rows or columns, whichever are fewer (Saxe et al. 2014).

    Every singular value is 1: repeated multiplication neither shrinks nor grows a gradient. Uniform over all such
    matrices (the sign of each column of the QR factor is drawn with it).

    >>> q = orthogonal(0, 3, 3)
    >>> bool(np.allclose(q @ q.T, np.eye(3)))
    True
    """
    if not _drawn.get():
        return np.broadcast_to(np.zeros((), dtype), (rows, columns))
    tall = generator(rng).standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diagonal(r))
    return np.ascontiguousarray(q if rows >= columns else q.T, dtype)
