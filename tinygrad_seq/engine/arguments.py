"""What arguments are taken for: whole numbers and random generators."""

from operator import index

import numpy as np


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
