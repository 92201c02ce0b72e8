"""Schedules: the learning rate as a function of the number of updates that were made before."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi

from ..engine.arguments import whole_number

Schedule = Callable[[int], float]


def constant(lr: float) -> Schedule:
    """The same rate at every update, as a function: what `warm_up` may lead to.

    >>> constant(0.1)(1000)
    0.1
    """
    return lambda update: lr


def warm_up(then: float | Schedule, updates: int) -> Schedule:
    """Rise in a line over so many updates, n/updates of `then` at the n-th, and from there follow `then`.

    >>> rate = warm_up(0.5, updates=4)
    >>> [rate(n) for n in range(6)]
    [0.125, 0.25, 0.375, 0.5, 0.5, 0.5]
    """
    updates = whole_number("warm_up", "updates", updates, 1)
    follow = then if callable(then) else constant(then)
    return lambda update: follow(update) * min(1.0, (update + 1) / updates)


def cosine(lr: float, updates: int, end: float = 0.0) -> Schedule:
    """Fall from lr to end over so many updates along half a cosine (Loshchilov and Hutter 2017, equation 5).

    >>> rate = cosine(1.0, updates=4)
    >>> [round(rate(n), 4) for n in (0, 1, 2, 3, 4, 5)]
    [1.0, 0.8536, 0.5, 0.1464, 0.0, 0.0]
    """
    updates = whole_number("cosine", "updates", updates, 1)
    return lambda update: end + (lr - end) * (1 + cos(pi * min(1.0, update / updates))) / 2


def step_decay(lr: float, every: int, factor: float = 0.5) -> Schedule:
    """Multiply the rate by `factor` after every so many updates.

    >>> rate = step_decay(1.0, every=2, factor=0.5)
    >>> [rate(n) for n in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    every = whole_number("step_decay", "every", every, 1)
    return lambda update: lr * factor ** (update // every)
