"""From logits to symbols: one drawn at a time, and whole sequences, each row to its own end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..engine.arguments import generator, whole_number
from ..engine.recording import no_grad
from ..engine.signatures import Array
from ..engine.tensor import Tensor


def sample(logits: Any, temperature: float = 1.0, rng: Any = None, top: int | None = None) -> Array:
    """A class for each row of logits (..., K), drawn from softmax(logits / temperature): ids (...).

    Temperature 0 is the likeliest class (the first of equals), and draws nothing; below 1 the likely become likelier.
    `top`: only so many of the likeliest are drawn from. −inf never is. `rng`: a generator or a seed.

    ValueError for a temperature that is negative or not finite, logits that are NaN or +inf, a row of −inf alone.

    >>> sample([[0.0, 2.0, 1.0], [5.0, 5.0, 0.0]], temperature=0).tolist()
    [1, 0]
    >>> ids = sample(np.zeros((1000, 3)), rng=0, top=2)
    >>> sorted(set(ids.tolist())), bool(450 < (ids == 0).sum() < 550)
    ([0, 1], True)
    """
    values = np.asarray(logits.data if isinstance(logits, Tensor) else logits)
    if values.ndim < 1 or not values.shape[-1] or values.dtype.kind not in "iuf":
        raise ValueError(f"sample needs logits (..., K) of at least one class, got shape {values.shape} {values.dtype}")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"sample needs a finite temperature >= 0, got {temperature}")
    values = values.astype(np.float64)
    if not np.isfinite(largest := values.max(-1, keepdims=True)).all():
        raise ValueError("sample needs logits without NaN and +inf, and one above -inf in every row")
    if top is not None and (top := whole_number("sample", "top", top, 1)) < values.shape[-1]:
        kept = np.argsort(-values, axis=-1, kind="stable")[..., :top]
        chosen = np.full_like(values, -np.inf)
        np.put_along_axis(chosen, kept, np.take_along_axis(values, kept, -1), -1)
        values = chosen
    if temperature:
        # The largest of log p + Gumbel noise falls on each class with its probability.
        with np.errstate(over="ignore"):  # far below the largest, at a low temperature: never drawn
            values = (values - largest) / temperature
        values = values + generator(rng, "sample").gumbel(size=values.shape)
    return values.argmax(-1)


class Generated(NamedTuple):
    """Sequences that `generate` made, filled up with the symbol `end`.

    >>> import numpy as np
    >>> import tinygrad_seq as tg
    >>> made = tg.nn.generate(lambda ids, state: (np.eye(4)[(ids + 1) % 4], state), [0, 1], longest=5, end=3)
    >>> made.ids.T.tolist(), made.lengths.tolist()
    ([[1, 2], [2, 3]], [2, 1])
    """

    ids: Array
    """(T, B), T the longest row; without the end."""
    lengths: Array
    """(B,), how many symbols each row has before its end."""
    state: Any
    """What the last step carried on."""


def generate(
    step: Callable[[Array, Any], tuple[Any, Any]],
    first: Any,
    state: Any = None,
    *,
    longest: int,
    end: int | None = None,
    temperature: float = 0.0,
    rng: Any = None,
    top: int | None = None,
) -> Generated:
    """Generate a sequence for each row: `step(ids, state)` reads one symbol of each row, (B,), and returns the logits
    of the next (B, K) and the state to go on with. Nothing is recorded.

    `first` (B,): what is read first; it is not part of the result. A row ends with the symbol `end`, and all do after
    `longest` symbols; when every row has ended, no further step is made. Symbols are chosen by `sample`, which
    `temperature`, `rng` and `top` go to: at 0, the default, always the likeliest.

    >>> def count_down(ids, state):
    ...     return np.eye(5)[np.maximum(ids - 1, 0)], state
    >>> made = generate(count_down, [4, 2], longest=10, end=0)
    >>> made.ids.T.tolist(), made.lengths.tolist()
    ([[3, 2, 1], [1, 0, 0]], [3, 1])
    """
    ids = np.array(first)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError(f"generate needs first as whole numbers, one for each row (B,), got {ids.shape} {ids.dtype}")
    longest = whole_number("generate", "longest", longest, 0)
    rng = generator(rng, "generate") if temperature else None
    lengths, going = np.zeros(len(ids), np.intp), np.ones(len(ids), bool)
    made = list[Array]()
    with no_grad():
        while going.any() and len(made) < longest:
            result = step(ids, state)
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(f"the step of generate returns (logits, state), got {type(result).__name__}")
            logits, state = result
            ids = sample(logits, temperature, rng, top)
            if ids.shape != going.shape:
                raise ValueError(f"generate needs logits (B, K) for {len(going)} rows, got shape {logits.shape}")
            if end is not None:
                ids = np.where(going, ids, end)
                going = going & (ids != end)
                if not going.any():
                    break
            lengths += going
            made.append(ids)
    return Generated(np.array(made, np.intp).reshape(len(made), len(lengths)), lengths, state)
