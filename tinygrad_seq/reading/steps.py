"""The backward pass, one operation at a time: what came in, the local rate in words and numbers, what was sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.signatures import Array
from ..engine.tensor import Tensor
from .ledger import Crosses, contributions, unwritable, whole
from .table import number

# What each operation multiplies the incoming gradient by, one entry for each input (the last one for all that follow).
# x is the input, y the result.
RATES: dict[str, tuple[str, ...]] = {
    "add": ("1",), "subtract": ("1", "-1"), "multiply": ("the other factor",), "negative": ("-1",),
    "divide": ("1 / divisor", "-y / divisor"), "matmul": ("the other matrix, transposed",),
    "power": ("p x^(p-1)", "y log x"), "exp": ("y",), "expm1": ("y + 1",), "log": ("1 / x",), "log1p": ("1 / (1 + x)",),
    "sqrt": ("1 / (2 y)",), "square": ("2 x",), "abs": ("the sign of x",), "sign": ("0",), "sin": ("cos x",),
    "cos": ("-sin x",), "tanh": ("1 - y²",), "sigmoid": ("y (1 - y)",), "logsigmoid": ("sigmoid(-x)",),
    "relu": ("1 where x > 0, else 0",), "maximum": ("1 where it is the larger, ½ in a tie",),
    "minimum": ("1 where it is the smaller, ½ in a tie",), "where": ("nothing", "1 where it was taken"),
    "max": ("1 at the largest, shared in a tie",), "min": ("1 at the smallest, shared in a tie",),
    "sum": ("1, to every entry that was summed",), "norm": ("x / y",), "logsumexp": ("softmax of x",),
    "softmax": ("y (1 - y) and -y y'",), "log_softmax": ("1 - softmax of x",), "cumsum": ("1, to every entry before",),
    "broadcast_to": ("1, summed over the copies",), "astype": ("1",), "einsum": ("the other factors",),
    "assemble": ("1, its own part",), "scatter": ("1, from where it went",), "gather": ("1, to where it was",),
    "embedding": ("1, to the row that was read",), "concat": ("1, its own part",), "stack": ("1, its own part",),
    "getitem": ("1, to the part that was read",),
} | dict.fromkeys(("reshape", "transpose", "swapaxes", "expand_dims", "squeeze"), ("1, moved back",))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sent:
    """What one operation sent to one of its inputs.

    `to`: the input. `rate`: what the incoming gradient was multiplied by, in words. `factor`: the same as a number,
    where input and result are single numbers; else the ratio of the norms. `contribution`: what was sent.
    """

    to: Tensor
    argument: int
    rate: str
    factor: float
    contribution: Array


@dataclass(frozen=True, eq=False)
class Visit:
    """The backward pass at one operation: `tensor` is its result, `incoming` the whole gradient that had arrived there.

    `sent`: one entry for each input that the flow sends something to.
    """

    tensor: Tensor
    operation: str
    step: int | None
    incoming: Array
    sent: tuple[Sent, ...]


def walk(order: Sequence[Tensor], arrived: Mapping[Tensor, Any], crosses: Crosses) -> Iterator[Visit]:
    """Every operation that something arrived at, from the last to the first."""
    for t in reversed(order):
        g = arrived.get(t)
        if g is None:
            continue
        g = unwritable(g)
        needs = [i for i in t._needs if crosses is None or crosses(t, i)]
        sent = []
        for i, c in zip(needs, contributions(t, g, needs), strict=True):
            c = unwritable(whole(c, t._inputs[i], t))
            sent.append(Sent(t._inputs[i], i, rate_in_words(t, i), _factor(t, i, g, c), c))
        yield Visit(t, t._operation.__name__, t.step, g, tuple(sent))


def rate_in_words(t: Tensor, i: int) -> str:
    name = t._operation.__name__
    words = RATES.get(name, (f"the rate of {name}",))
    return words[min(i, len(words) - 1)]


def _factor(t: Tensor, i: int, g: Array, c: Array) -> float:
    if g.size == c.size == 1:
        rate = whole(contributions(t, np.ones_like(g), [i])[0], t._inputs[i], t)
        return float(np.asarray(rate).reshape(-1)[0])
    length = float(np.linalg.norm(g))
    return float(np.linalg.norm(c)) / length if length else 0.0


def shown(array: Array) -> str:
    """A number, or the shape and norm of an array."""
    if array.size == 1:
        return number(array.reshape(-1)[0])
    return f"shape {array.shape}, norm {number(np.linalg.norm(array), 6)}"
