"""Nested tuples, lists and dicts of tensors or arrays: carried states, and what a step takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import numpy as np

from .arguments import refuse_masked
from .context import refuse_setting
from .signatures import Array
from .tensor import Tensor

_ADDING = Lock()


def leaves(state: Any) -> Iterator[Tensor]:
    """The tensors of a state, in order."""
    if isinstance(state, (tuple, list)):
        for part in state:
            yield from leaves(part)
    elif isinstance(state, dict):
        for part in state.values():
            yield from leaves(part)
    elif state is not None:
        yield state if isinstance(state, Tensor) else Tensor(state)


def accumulate(leaf: Tensor, g: Array, own: bool = False) -> None:
    """Add to the gradient of a leaf; threads that share it wait for one another, and nothing is lost. `own`: the array
    is given away, so that the first one needs no copy."""
    with _ADDING:
        if leaf.grad is not None:
            g = leaf.grad + g
        elif not own:
            g = np.array(g)
        leaf.grad = np.asarray(g, leaf.dtype)


def rebind(leaf: Tensor, array: Array) -> None:
    """Give a leaf another array of its own shape and dtype, without the copy that `leaf.data = array` makes: for an
    optimiser, whose new arrays nobody else holds."""
    refuse_setting("data", leaf)
    leaf._array = array


def map_state(function: Callable[..., Any], state: Any, *others: Any) -> Any:
    """The same structure, with the function applied to each tensor (and the tensors in its place in the others)."""
    if isinstance(state, Tensor):
        return function(state, *others)
    if isinstance(state, (tuple, list)):
        parts = [map_state(function, *in_place) for in_place in zip(state, *others, strict=True)]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    if isinstance(state, dict):
        return {key: map_state(function, part, *(o[key] for o in others)) for key, part in state.items()}
    return None if state is None else function(state, *others)


def flattened(value: Any, leaves: list[Any]) -> Any:
    """Append all arrays and tensors in `value` to `leaves`; return what remains, as a key that can be compared.

    The key holds the structure, the shape and dtype of each array, and every number, text and None as it is.
    TypeError for anything else.
    """
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        refuse_masked(value, "a step")
        leaves.append(value)
        return "array", value.shape, value.dtype.str
    if isinstance(value, (tuple, list)):
        return type(value), tuple(flattened(part, leaves) for part in value)
    if isinstance(value, dict):
        return dict, tuple((key, flattened(part, leaves)) for key, part in value.items())
    if value is None or isinstance(value, (bool, int, float, str)):
        return "constant", type(value), value, str(value)  # -0.0 equals 0.0, and is another number
    raise TypeError(
        "expected arrays, tensors, numbers, texts, None, or tuples, lists and dicts of them, got "
        f"{type(value).__name__}: of an object pass the numbers and arrays that it holds"
    )


def rebuilt(key: Any, leaves: Iterator[Any]) -> Any:
    """The structure that `flattened` took apart, with these leaves in order."""
    kind = key[0]
    if kind == "array":
        return next(leaves)
    if kind == "constant":
        return key[2]
    if kind is dict:
        return {name: rebuilt(part, leaves) for name, part in key[1]}
    parts = [rebuilt(part, leaves) for part in key[1]]
    make: Callable[..., Any] = kind
    return make(*parts) if hasattr(kind, "_fields") else make(parts)
