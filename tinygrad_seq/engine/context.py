"""What holds where an operation runs; and what is refused while a replay is recorded.

A replay plays operations again, and nothing else: a number that Python read while it was recorded would be the same one
for ever, and what Python set would be set once. Every way to do either comes through the doors in this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np


class Trace:
    """The recording of a replay. It records operations on constants too, and notes those that draw random numbers,
    which a replay makes anew although no result may need them."""

    __slots__ = ("draws",)

    def __init__(self) -> None:
        self.draws: list[Any] = []

    def note(self, result: Any, options: Mapping[str, Any]) -> None:
        """Note the result of an operation if it draws: one of its options is a generator."""
        if any(isinstance(value, np.random.Generator) for value in options.values()):
            self.draws.append(result)


class Context(NamedTuple):
    """What holds where an operation runs: is anything recorded, which step and which scope does it belong to."""

    recording: bool = True
    tracing: Trace | None = None  # the recording of a replay that runs here
    step: int | None = None
    scope: str = ""


# A context variable: every thread and every async task has its own.
CONTEXT: ContextVar[Context] = ContextVar("tinygrad_seq", default=Context())


# Whether a tensor requires a gradient, as it is looked at at every call of a replay.
requires_of = attrgetter("_requires")


def frozen(what: str) -> RuntimeError:
    """The error to raise where a value is read that a replay would not look at again."""
    return RuntimeError(
        f"{what} was read while a replay was recorded, and would be frozen in it: compute with the tensor instead (a "
        "mask of lengths is np.arange(T)[:, None] < lengths), choose with tg.where, or return it as an extra"
    )


def readable(x: Any) -> Any:
    """The array of a tensor, to be looked at: not while a replay is recorded, but for constants made meanwhile."""
    tracing = CONTEXT.get().tracing
    if tracing is not None and (x._number or x._where.tracing is not tracing):
        raise frozen(x.label())
    return x._array


def refuse_reading(what: str, xs: Any) -> None:
    """Refuse a reading of the way back, such as a gradient in numbers, while a replay is recorded."""
    if CONTEXT.get().tracing is not None:
        raise frozen(f"{what} of {xs[-1].label()}" if xs else what)


def refuse_backward() -> None:
    """Refuse `backward` while a replay is recorded."""
    if CONTEXT.get().tracing is not None:
        raise RuntimeError("a replayed step returns its loss; backward is part of the replay. Use tg.grad inside it")


def refuse_setting(what: str, x: Any) -> None:
    """Refuse to change a tensor while a replay is recorded."""
    if CONTEXT.get().tracing is not None:
        raise RuntimeError(
            f"the {what} of {x.label()} was set while a replay was recorded, and no replay would set it: set it before "
            "or after the step"
        )


def guarded(slot: str, text: str) -> Any:
    """An attribute that is neither read nor set while a replay is recorded."""

    def read(x: Any) -> Any:
        if CONTEXT.get().tracing is not None:
            raise frozen(f"the {slot.strip('_')} of {x.label()}")
        return getattr(x, slot)

    def rebind(x: Any, new: Any) -> None:
        refuse_setting(slot.strip("_"), x)
        setattr(x, slot, new)

    return property(read, rebind, doc=text)


def become(x: Any, computed: Any, requires_grad: bool, name: str | None) -> None:
    """Make a new tensor the result of an operation: `Tensor(argument)` is computed anew at every replay."""
    if requires_grad and computed.dtype.kind != "f":
        raise TypeError(f"requires_grad needs floating-point numbers, got dtype {computed.dtype}: write 1.0 for 1")
    for slot in type(computed).__slots__[1:]:
        setattr(x, slot, getattr(computed, slot))
    x.name, x._requires = name, bool(requires_grad)
