"""What arguments are taken for, each by one rule for the whole package, and what is said of those that do not fit."""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import index
from typing import Any

import numpy as np

from .signatures import Array, renamed


def whole_number(function: str, name: str, value: Any, least: int | None = None) -> int:
    """A whole number, Python's or NumPy's (no Boolean), of at least `least`.

    ValueError naming the function, the argument and what was given; TypeError where any whole number would do.
    """
    try:
        number = None if isinstance(value, (bool, np.bool_)) else index(value)
    except TypeError:
        number = None
    if least is None and number is None:
        raise TypeError(f"{function} needs {name} as a whole number, got {value!r}")
    if number is None or (least is not None and number < least):
        raise ValueError(f"{function} needs {name} as a whole number >= {least}, got {value!r}")
    return number


def generator(rng: Any, function: str | None = None) -> np.random.Generator:
    """A generator as it is, or a new one from a seed: a whole number >= 0, or what `np.random.default_rng` takes.

    None is a new one from fresh entropy, unless a `function` is named, which needs to know what it draws from. A
    ValueError for anything else.
    """
    if isinstance(rng, np.random.Generator):
        return rng
    try:
        if not isinstance(rng, (bool, np.bool_, float)) and (rng is not None or function is None):
            return np.random.default_rng(rng)
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"{function or 'drawing'} needs rng as a np.random.Generator or a seed (a whole number >= 0), got {rng!r}"
    )


def misfits(wanted: Mapping[str, Array], given: Mapping[str, Array]) -> list[str]:
    """What differs between arrays that should have the same names, shapes and dtypes, in words; [] where nothing does.

    The order of bytes does not count, and texts may have any length.
    """
    faults = [f"missing {name}" for name in wanted if name not in given]
    faults += [f"unknown {name}" for name in given if name not in wanted]
    for name in wanted:
        if name in given:
            want, got = wanted[name], given[name]
            alike = want.dtype.kind == got.dtype.kind == "U" or want.dtype.newbyteorder("=") == got.dtype.newbyteorder(
                "="
            )
            if want.shape != got.shape or not alike:
                faults.append(f"{name}: needs {want.shape} {want.dtype}, got {got.shape} {got.dtype}")
    return faults


# The generators that operations have drawn from within `drawing`, and their states before.
_DRAWN: ContextVar[dict[np.random.Generator, Any] | None] = ContextVar("tinygrad_seq draws", default=None)


@contextmanager
def drawing() -> Iterator[dict[np.random.Generator, Any]]:
    """Notes which generators operations draw from within, with their states before the first draw."""
    outer, drawn = _DRAWN.get(), dict[np.random.Generator, Any]()
    token = _DRAWN.set(drawn)
    try:
        yield drawn
    finally:
        _DRAWN.reset(token)
        if outer is not None:
            for rng, state in drawn.items():
                outer.setdefault(rng, state)


NUMBERS = "biufc"  # kinds of dtypes: Booleans, integers, floats, complex numbers


def array_from(given: Any, function: str = "Tensor", dtype: Any = None) -> Array:
    """A copy of what is given as an array of numbers, of which nothing else is known: the one door for lists, series,
    buffers and arrays of other kinds.

    TypeError for texts and objects, and for what would lose its meaning: the mask of a masked array, the product of a
    matrix. ValueError for ragged lists.
    """
    refuse_masked(given, function)
    try:
        array = np.array(given, dtype, order="C")
    except ValueError as error:
        raise ValueError(f"{function} needs a number or a rectangular array: {error}") from None
    if array.dtype.kind not in NUMBERS:
        kind = type(given).__name__
        raise TypeError(f"{function} needs numbers; {kind} gives dtype {array.dtype}: convert it first")
    return array


def operand(given: Any, function: str) -> Any:
    """What is no tensor and no number, as an operation takes it: numbers as an array of their own (the caller may still
    write to what was given), everything else as it is."""
    refuse_masked(given, function)
    array = np.array(given)
    return array if array.dtype.kind in NUMBERS else given


def indices_from(given: Any, function: str) -> Array:
    """Whole numbers, or Booleans, that say places: a copy; [] has no dtype and is taken for whole numbers."""
    array = array_from(given, function)
    return array if array.size or array.dtype.kind == "b" else array.astype(int)


def refuse_masked(given: Any, function: str) -> None:
    """TypeError for a masked array and a matrix, alone or in a list."""
    if type(given) in (list, tuple) and given and not isinstance(given[0], (int, float)):
        for part in given:
            refuse_masked(part, function)
    elif type(given) is not np.ndarray and isinstance(given, np.ndarray):
        if isinstance(given, np.matrix):
            raise TypeError(f"{function} was given a np.matrix, whose * is another product: take np.asarray(matrix)")
        if hasattr(given, "mask"):
            raise TypeError(
                f"{function} was given a masked array, whose mask would be lost: put numbers in the masked places with "
                ".filled(...), and leave them out with tg.where or lengths="
            )


PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def warn_caller(message: str) -> None:
    """A warning at the line of the caller's code that led here, the first outside the package: once for each line,
    unless the warning filters say otherwise."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def options_by_name(
    name: str, arity: int, further: list[str], inputs: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs, and the options by name: as in NumPy, they may stand by position after the inputs."""
    if len(inputs) > arity:
        if len(inputs) > arity + len(further):
            raise TypeError(f"{name} takes {arity} inputs and the options {further}, got {len(inputs)} arguments")
        options.update(zip(further, inputs[arity:], strict=False))
        inputs = inputs[:arity]
    if (drawn := _DRAWN.get()) is not None:
        for value in options.values():
            if isinstance(value, np.random.Generator):
                drawn.setdefault(value, value.bit_generator.state)
    if "out" in options:
        raise TypeError(f"{name} never writes into an array (out=): its result is a new one")
    return inputs, options


def explained(error: Exception, name: str, arity: int, values: Sequence[Any], options: dict[str, Any]) -> Exception:
    """An error of a forward function, with what it was called with."""
    if isinstance(error, TypeError) and len(values) < arity < sys.maxsize:
        return TypeError(f"{name} takes {arity} input{'s' * (arity > 1)}, got {len(values)}")
    told = [("", a) for a in values] + [(f"{key}=", value) for key, value in options.items()]
    given = [
        key + (f"{a.shape} {a.dtype}" if hasattr(a, "dtype") and not isinstance(a, type) else f"{a!r:.80}")
        for key, a in told
    ]
    said = re.sub(r"^[\w.<>]+\(\) (?=missing|got|takes)", f"{name}() ", str(error))  # its own name, not the function's
    kind = TypeError if isinstance(error, TypeError) else type(error)  # NumPy's own kinds take no message
    return kind(f"{name}({', '.join(given)}): {said}{renamed(error)}")


def checked_name(name: Any) -> str | None:
    """The name of a tensor: a text, or None."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"a tensor's name is a text, got {name!r}: write name={str(name)!r}")
    return name
