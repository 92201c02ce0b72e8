"""What arguments are taken for, and what is said of those that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from .signatures import renamed


def generator(function: str, rng: np.random.Generator | int) -> np.random.Generator:
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(rng)
    raise ValueError(f"{function} needs rng as a np.random.Generator or a seed (an integer from 0 on), got {rng!r}")


def whole_number(function: str, name: str, value: int, least: int) -> int:
    try:
        number = least - 1 if isinstance(value, (bool, np.bool_)) else index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{function} needs {name} as an integer of at least {least}, got {value!r}")
    return number


def options_by_name(
    name: str, arity: int, further: list[str], inputs: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs, and the options by name: as in NumPy, they may stand by position after the inputs."""
    if len(inputs) > arity:
        if len(inputs) > arity + len(further):
            raise TypeError(f"{name} takes {arity} inputs and the options {further}, got {len(inputs)} arguments")
        options.update(zip(further, inputs[arity:], strict=False))
        inputs = inputs[:arity]
    if "out" in options:
        raise TypeError(f"{name} never writes into an array (out=): its result is a new one")
    return inputs, options


def explained(error: Exception, name: str, values: Sequence[Any], options: dict[str, Any]) -> Exception:
    """An error of a forward function, with what it was called with."""
    told = [("", a) for a in values] + [(f"{key}=", value) for key, value in options.items()]
    given = [key + (f"{a.shape} {a.dtype}" if hasattr(a, "dtype") else f"{a!r:.80}") for key, a in told]
    kind = TypeError if isinstance(error, TypeError) else type(error)  # NumPy's own kinds take no message
    return kind(f"{name}({', '.join(given)}): {error}{renamed(error)}")
