"""The backward pass, one operation at a time: what came in, the local rate in words and numbers, what was sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.backward import Crosses
from ..engine.signatures import Array
from ..engine.tensor import Tensor, record_of
from .ledger import contributions, unwritable, whole
from .table import number


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
        record = record_of(t)
        needs = [i for i in record.needs if crosses is None or crosses(t, i)]
        sent = []
        for i, c in zip(needs, contributions(t, g, needs), strict=True):
            c = unwritable(whole(c, record.inputs[i], t))
            sent.append(Sent(record.inputs[i], i, rate_in_words(t, i), _factor(t, i, g, c), c))
        yield Visit(t, record.operation.__name__, t.step, g, tuple(sent))


def rate_in_words(t: Tensor, i: int) -> str:
    """What the operation that made t multiplies by to give its input i; x is the input, y the result."""
    operation = record_of(t).operation
    words = operation.rate or (f"the rate of {operation.__name__}",)
    return str(words[min(i, len(words) - 1)])


def _factor(t: Tensor, i: int, g: Array, c: Array) -> float:
    if g.size == c.size == 1:
        rate = whole(contributions(t, np.ones_like(g), [i])[0], record_of(t).inputs[i], t)
        return float(np.asarray(rate).reshape(-1)[0])
    length = float(np.linalg.norm(g))
    return float(np.linalg.norm(c)) / length if length else 0.0


def shown(array: Array) -> str:
    """A number, or the shape and norm of an array."""
    if array.size == 1:
        return number(array.reshape(-1)[0])
    return f"shape {array.shape}, norm {number(np.linalg.norm(array), 6)}"
