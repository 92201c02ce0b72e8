"""What a recurrent network learns from: tasks that need a gradient that survives.

The tasks are generated, so that there is no end of examples and the right answer is known exactly. Layout is
time first, (T, B, features), one-hot symbols and noise in float64, classes and indices as integers. Where
something is drawn, the caller says from what: a `np.random.Generator`, which moves on, or a seed, which gives
the same numbers each time. The global generator is never touched.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.arguments import generator, whole_number

TEMPORAL_ORDER_SYMBOLS = "abcdXYEB"
REBER_SYMBOLS = "BTPSXVE"
# Reber's grammar after its B: from each node, the symbols that may come and the node that each leads to.
_REBER_ARCS = (
    {"T": 1, "P": 2},
    {"S": 1, "X": 3},
    {"T": 2, "V": 4},
    {"X": 2, "S": 5},
    {"P": 3, "V": 5},
    {"E": 6},
)
_REBER_END = 6


class EmbeddedReber(NamedTuple):
    """Strings of the embedded Reber grammar, to predict the next symbol of; T is the largest length.

    >>> reber = embedded_reber(29, batch=2)
    >>> reber.xs.shape, reber.targets[:, 0].tolist(), reber.lengths.tolist()
    ((9, 2, 7), [2, 0, 1, 4, 3, 6, 2, 6, -1], [8, 9])
    """

    strings: list[str]
    """The B strings, whole."""
    xs: NDArray[np.float64]
    """(T, B, 7), every symbol but the last, one-hot in the order of REBER_SYMBOLS; zeros at padding."""
    following: NDArray[np.bool_]
    """(T, B, 7), the symbols that the grammar allows next; all False at padding."""
    targets: NDArray[np.intp]
    """(T, B), the symbol that does come next; -1 at padding."""
    lengths: NDArray[np.intp]
    """(B,), the number of symbols to read: one less than the string has."""


def adding_problem(
    rng: np.random.Generator | int, length: int, batch: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Add the two marked numbers of a sequence: target = Σ_t value_t · marker_t.

    Returns xs (length, batch, 2), a value from [0, 1) and a marker at each step, and targets (batch, 1). Two
    markers are 1, one in steps 1 to length // 2 and one after them, each step of a half equally likely; the
    others are 0. Always answering 1 costs the targets' variance, 2 · 1/12 = 1/6. Hochreiter & Schmidhuber
    (1997), section 5.4, in the form of Le, Jaitly & Hinton (2015), section 4.1. A length below 2 or a batch
    below 1 is a ValueError.

    With two steps both are marked:

    >>> xs, targets = adding_problem(0, length=2, batch=1)
    >>> xs[:, 0].round(2).tolist(), targets.round(2).tolist()
    ([[0.64, 1.0], [0.27, 1.0]], [[0.91]])
    """
    rng = generator(rng, "adding_problem")
    length = whole_number("adding_problem", "length", length, 2)
    rows = np.arange(whole_number("adding_problem", "batch", batch, 1))
    xs = np.zeros((length, len(rows), 2))
    xs[:, :, 0] = rng.random((length, len(rows)))
    xs[rng.integers(0, length // 2, len(rows)), rows, 1] = 1
    xs[rng.integers(length // 2, length, len(rows)), rows, 1] = 1
    return xs, (xs[:, :, 0] * xs[:, :, 1]).sum(0)[:, None]


def temporal_order(
    rng: np.random.Generator | int, length: int, batch: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Say in which order two symbols came: class = 2 · [first is Y] + [second is Y].

    Returns xs (length, batch, 8), one-hot in the order of TEMPORAL_ORDER_SYMBOLS, and the classes (batch,),
    0, 1, 2, 3 for XX, XY, YX, YY. A sequence begins with E, ends with B and is filled with a, b, c, d, but
    for an X or a Y at two places: after length // 10 to length // 5 others (at least after the E), and after
    length // 2 to 3 · length // 5. At length 100 these are the places of Hochreiter & Schmidhuber (1997),
    section 5.6, task 6a: 10 to 20 and 50 to 60. Everything is drawn uniformly. A length below 4 or a batch
    below 1 is a ValueError.

    Four steps leave no room for distractors:

    >>> xs, classes = temporal_order(0, length=4, batch=3)
    >>> symbols = xs.argmax(axis=-1)
    >>> ["".join(TEMPORAL_ORDER_SYMBOLS[s] for s in row) for row in symbols.T], classes.tolist()
    (['EYXB', 'EYXB', 'EYXB'], [2, 2, 2])
    """
    rng = generator(rng, "temporal_order")
    length = whole_number("temporal_order", "length", length, 4)
    rows = np.arange(whole_number("temporal_order", "batch", batch, 1))
    first_at = rng.integers(max(1, length // 10), max(1, length // 5), len(rows), endpoint=True)
    second_at = rng.integers(length // 2, 3 * length // 5, len(rows), endpoint=True)
    first, second = rng.integers(0, 2, (2, len(rows)))
    symbols = rng.integers(0, 4, (length, len(rows)))
    symbols[first_at, rows] = 4 + first
    symbols[second_at, rows] = 4 + second
    symbols[0], symbols[-1] = 6, 7
    return np.eye(8)[symbols], (2 * first + second).astype(np.intp)


def one_bit(rng: np.random.Generator | int, length: int, batch: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Keep one bit through noise: target = 1 where the first step showed +1, 0 where it showed -1.

    Returns xs (length, batch, 2), the signal (±1 with equal chances at step 1, then 0) and noise from N(0, 1)
    at every step, and targets (batch, 1). After the first step nothing tells the bit: answering without
    memory is right half of the time. After the two-sequence latching problem of Bengio, Simard & Frasconi
    (1994), with the noise on an input of its own. A length or a batch below 1 is a ValueError.

    >>> xs, targets = one_bit(0, length=3, batch=4)
    >>> xs[:, :, 0].tolist()
    [[1.0, 1.0, 1.0, -1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    >>> targets.tolist()
    [[1.0], [1.0], [1.0], [0.0]]
    """
    rng = generator(rng, "one_bit")
    length = whole_number("one_bit", "length", length, 1)
    batch = whole_number("one_bit", "batch", batch, 1)
    bits = rng.integers(0, 2, batch)
    xs = np.zeros((length, batch, 2))
    xs[0, :, 0] = 2 * bits - 1
    xs[:, :, 1] = rng.standard_normal((length, batch))
    return xs, bits.astype(np.float64)[:, None]


def embedded_reber(rng: np.random.Generator | int, batch: int) -> EmbeddedReber:
    """Predict what may follow in B (T … T | P … P) E, where … is a string of Reber's grammar (Reber 1967).

    To predict the last symbol but one, a model must remember the second through all of the inner string. At each
    fork both arcs have probability 1/2. A string has 9 symbols or more and 12 on average. Hochreiter &
    Schmidhuber (1997), section 5.1. A batch below 1 is a ValueError.

    >>> reber = embedded_reber(29, batch=2)
    >>> reber.strings, reber.lengths.tolist()
    (['BPBTXSEPE', 'BTBPVPSETE'], [8, 9])
    >>> ["".join(s for s, may in zip(REBER_SYMBOLS, row) if may) for row in reber.following[:, 0]]
    ['TP', 'B', 'TP', 'SX', 'SX', 'E', 'P', 'E', '']
    >>> "".join(REBER_SYMBOLS[i] for i in reber.targets[:8, 0])
    'PBTXSEPE'
    """
    rng = generator(rng, "embedded_reber")
    batch = whole_number("embedded_reber", "batch", batch, 1)
    drawn = [_embedded_reber_string(rng) for _ in range(batch)]
    lengths = np.array([len(string) - 1 for string, _ in drawn], dtype=np.intp)
    symbols = np.full((lengths.max() + 1, batch), -1, dtype=np.intp)
    following = np.zeros((lengths.max(), batch, len(REBER_SYMBOLS)), dtype=np.bool_)
    for row, (string, allowed) in enumerate(drawn):
        symbols[: len(string), row] = [REBER_SYMBOLS.index(symbol) for symbol in string]
        for step, symbols_allowed in enumerate(allowed):
            following[step, row, [REBER_SYMBOLS.index(symbol) for symbol in symbols_allowed]] = True
    targets = symbols[1:]
    xs = np.eye(len(REBER_SYMBOLS))[symbols[:-1]] * (targets >= 0)[:, :, None]
    return EmbeddedReber([string for string, _ in drawn], xs, following, targets, lengths)


def _embedded_reber_string(rng: np.random.Generator) -> tuple[str, list[str]]:
    """One string, and the symbols allowed after each of its symbols but the last."""
    outer = "TP"[rng.integers(2)]
    string, allowed, node = f"B{outer}B", ["TP", "B"], 0
    while node != _REBER_END:
        choices = "".join(_REBER_ARCS[node])
        symbol = choices[rng.integers(len(choices))]
        string, node = string + symbol, _REBER_ARCS[node][symbol]
        allowed.append(choices)
    return f"{string}{outer}E", [*allowed, outer, "E"]
