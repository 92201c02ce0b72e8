"""For gradients that were derived by hand: how near they are to the right ones, and which mistake they show."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..engine.signatures import Array
from ..engine.tensor import array_of
from ..reading.mistakes import of_numbers
from ..reading.tape import Flow


class Comparison(NamedTuple):
    """How two arrays compare: `exact` to the last bit, `approximate` within rounding; true if they are approximate.

    >>> found = compare("w", [1.0, 2.0], [1.0, 4.0])
    >>> bool(found), found.worst, found.mine, found.reference
    (False, (1,), 2.0, 4.0)
    >>> bool(compare("w", 0.1 + 0.2, 0.3)), compare("w", 0.1 + 0.2, 0.3).exact
    (True, False)
    """

    name: str
    exact: bool
    approximate: bool
    worst: tuple[int, ...]  # the entry that is farthest off
    mine: float
    reference: float
    mistakes: list[str]

    def __bool__(self) -> bool:
        return self.approximate

    def __str__(self) -> str:
        if self.exact:
            return f"{self.name}: exact"
        place = f" at {list(self.worst)}" if self.worst else ""
        numbers = f"{self.mine:.12g}, should be {self.reference:.12g}{place}"
        if self.approximate:
            return f"{self.name}: equal to rounding; farthest off {numbers}"
        found = "".join(f"\n  it looks like: {mistake}" for mistake in self.mistakes)
        return f"{self.name}: wrong; farthest off {numbers}{found}"


def compare(name: str, mine: Any, reference: Any = None, flow: Flow | None = None) -> Comparison:
    """Compare a gradient that you derived with the right one: `print(compare("w", dw, w.grad))`.

    With a `flow`, the tensor of that name on its tape is looked up: its gradient is the reference if none is given,
    and `flow.diagnose` says which mistakes, made on this very tape, give your number. Equal to rounding means within
    1e-9 (float32: 1e-5) of the largest entry.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor([3.0, 1.0], requires_grad=True, name="w")
    >>> (w * w).sum().backward()
    >>> print(compare("w", [6.0, 2.0], w.grad))
    w: exact
    >>> print(compare("w", [-6.0, -2.0], w.grad))
    w: wrong; farthest off -6, should be 6 at [0]
      it looks like: the sign is reversed

    ValueError without a reference and without a flow.
    """
    if reference is None:
        if flow is None:
            raise ValueError(f"compare needs something to compare {name} with: a reference or a flow")
        reference = flow[name]
    a, b = _array(mine), _array(reference)
    if a.shape != b.shape:
        return Comparison(name, False, False, (), np.nan, np.nan, of_numbers(a, b))
    exact = bool(np.array_equal(a, b))
    off = np.abs(a - b.astype(np.float64))
    single = any(x.dtype.kind == "f" and x.dtype.itemsize < 8 for x in (a, b))
    approximate = exact or bool((off <= (1e-5 if single else 1e-9) * np.abs(b).max(initial=0)).all())
    worst = (
        tuple(int(i) for i in np.unravel_index(np.argmax(np.nan_to_num(off, nan=np.inf)), a.shape)) if a.size else ()
    )
    numbers = (float(a[worst]), float(b[worst])) if a.size else (0.0, 0.0)
    found = [] if approximate else of_numbers(a, b) if flow is None else flow.diagnose(name, a)
    return Comparison(name, exact, approximate, worst, *numbers, found)


def _array(x: Any) -> Array:
    return np.asarray(array_of(x))
