"""What a recurrent network learns from: tasks that need a gradient that survives, and batches of sequences.

The tasks are generated, so that there is no end of examples and the right answer is known exactly. Layout is
time first, (T, B, features), one-hot symbols and noise in float64, classes and indices as integers. Where
something is drawn, the caller says from what: a `np.random.Generator`, which moves on, or a seed, which gives
the same numbers each time. The global generator is never touched.
"""

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


class Chunks(NamedTuple):
    """A text cut for truncated BPTT: chunk k of a row goes on where chunk k - 1 of that row ended.

    >>> chunks = text_chunks("abcab", chunk=2, batch=1)
    >>> chunks.vocabulary, chunks.inputs.tolist(), chunks.targets.tolist()
    ('abc', [[[0], [1]], [[2], [0]]], [[[1], [2]], [[0], [1]]])
    """

    inputs: NDArray[np.intp]
    """(K, chunk, B), the characters as positions in the vocabulary."""
    targets: NDArray[np.intp]
    """(K, chunk, B), the character after each of them."""
    vocabulary: str
    """The characters; `vocabulary[i]` is the one with number i."""


class Batch(NamedTuple):
    """Sequences of different lengths in one array.

    >>> (batch,) = batch_by_length([[1.0, 2.0, 3.0], [4.0]], batch=2)
    >>> batch.xs.T.tolist(), batch.lengths.tolist(), batch.numbers.tolist()
    ([[4.0, 0.0, 0.0], [1.0, 2.0, 3.0]], [1, 3], [1, 0])
    """

    xs: NDArray[Any]
    """(T, B, ...), T the longest length, padded at the end."""
    lengths: NDArray[np.intp]
    """(B,), how much of each row is real."""
    numbers: NDArray[np.intp]
    """(B,), which of the given sequences each row is."""


def adding_problem(
    rng: np.random.Generator | int, length: int, batch: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Add the two marked numbers of a sequence: target = Σ_t value_t · marker_t.

    Returns xs (length, batch, 2), a value from [0, 1) and a marker at each step, and targets (batch, 1). Two
    markers are 1, one in steps 1 to length // 2 and one after them, each step of a half alike likely; the
    others are 0. Always answering 1 costs the targets' variance, 2 · 1/12 = 1/6. Hochreiter & Schmidhuber
    (1997), section 5.4, in the form of Le, Jaitly & Hinton (2015), section 4.1. A length below 2 or a batch
    below 1 is a ValueError.

    With two steps both are marked:

    >>> xs, targets = adding_problem(0, length=2, batch=1)
    >>> xs[:, 0].round(2).tolist(), targets.round(2).tolist()
    ([[0.64, 1.0], [0.27, 1.0]], [[0.91]])
    """
    rng = _generator("adding_problem", rng)
    length = _count("adding_problem", "length", length, 2)
    rows = np.arange(_count("adding_problem", "batch", batch, 1))
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
    rng = _generator("temporal_order", rng)
    length = _count("temporal_order", "length", length, 4)
    rows = np.arange(_count("temporal_order", "batch", batch, 1))
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
    rng = _generator("one_bit", rng)
    length = _count("one_bit", "length", length, 1)
    batch = _count("one_bit", "batch", batch, 1)
    bits = rng.integers(0, 2, batch)
    xs = np.zeros((length, batch, 2))
    xs[0, :, 0] = 2 * bits - 1
    xs[:, :, 1] = rng.standard_normal((length, batch))
    return xs, bits.astype(np.float64)[:, None]


def embedded_reber(rng: np.random.Generator | int, batch: int) -> EmbeddedReber:
    """Predict what may follow in B (T … T | P … P) E, where … is a string of Reber's grammar (Reber 1967).

    Whoever predicts the last symbol but one must remember the second through all of the inner string. At each
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
    rng = _generator("embedded_reber", rng)
    batch = _count("embedded_reber", "batch", batch, 1)
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


def text_chunks(text: str, chunk: int, batch: int, vocabulary: str | None = None) -> Chunks:
    """Cut a text for truncated BPTT: every row of the batch reads its own part of it, chunk by chunk.

    Row b reads the K · chunk characters from b · K · chunk on, with K = (len(text) - 1) // (batch · chunk),
    so that the state after chunk k - 1 is the state to begin chunk k with (Williams & Peng 1990). Fewer than
    batch · chunk characters at the end of the text go unused, besides the last target. Returns inputs and
    targets (K, chunk, batch) and the vocabulary: the distinct characters in sorted order, unless one is given
    (a held-out text is read with that of the training text). ValueError for a text too short for one chunk
    per row, a character outside the given vocabulary, a vocabulary with repetitions, and a chunk or batch
    below 1.

    >>> chunks = text_chunks("abcdefghi", chunk=2, batch=2)
    >>> for inputs, targets in zip(chunks.inputs, chunks.targets):
    ...     print([chunks.vocabulary[i] for i in inputs[:, 0]], [chunks.vocabulary[i] for i in targets[:, 0]])
    ['a', 'b'] ['b', 'c']
    ['c', 'd'] ['d', 'e']
    >>> [chunks.vocabulary[i] for i in chunks.inputs[0, :, 1]]
    ['e', 'f']
    """
    chunk = _count("text_chunks", "chunk", chunk, 1)
    batch = _count("text_chunks", "batch", batch, 1)
    if not isinstance(text, str) or len(text) <= batch * chunk:
        given = f"{len(text)} characters" if isinstance(text, str) else type(text).__name__
        raise ValueError(
            f"text_chunks got {given}, and one chunk of {chunk} in each of {batch} rows needs a str of at least "
            f"{batch * chunk + 1} characters: give a longer text, or a smaller chunk or batch"
        )
    if vocabulary is None:
        vocabulary = "".join(sorted(set(text)))
    number = {character: i for i, character in enumerate(vocabulary)}
    if len(number) < len(vocabulary):
        raise ValueError(f"text_chunks needs a vocabulary of distinct characters, got {vocabulary!r}")
    if unknown := "".join(sorted(set(text) - set(vocabulary))):
        raise ValueError(
            f"text_chunks got a text with {unknown!r}, which the given vocabulary lacks: "
            f"replace them in the text, or build the vocabulary from all of the text"
        )
    count = (len(text) - 1) // (batch * chunk)
    used = count * batch * chunk
    codes = np.array([number[character] for character in text[: used + 1]], dtype=np.intp)
    inputs, targets = (
        np.ascontiguousarray(part.reshape(batch, count, chunk).transpose(1, 2, 0)) for part in (codes[:-1], codes[1:])
    )
    return Chunks(inputs, targets, vocabulary)


def batch_by_length(
    sequences: Sequence[ArrayLike],
    batch: int,
    padding: float = 0,
    rng: np.random.Generator | int | None = None,
) -> list[Batch]:
    """Put sequences of like lengths into batches, so that little is padding.

    Each sequence has shape (T_i, ...), time first, the same after the first axis; lengths may differ and may
    be 0. Sorted by length, every `batch` of them make one `Batch`, the last perhaps a smaller one; their
    common dtype is NumPy's promotion. Without `rng` the order is that of the lengths, equal ones as given.
    With it, sequences of equal length are shuffled, and so are the batches. ValueError for no sequences,
    shapes that do not go together, what is not numbers, padding that the dtype cannot hold, a batch below 1.

    >>> for xs, lengths, numbers in batch_by_length([[1, 2, 3], [4], [5, 6]], batch=2, padding=-1):
    ...     print(xs.T.tolist(), lengths.tolist(), numbers.tolist())
    [[4, -1], [5, 6]] [1, 2] [1, 2]
    [[1, 2, 3]] [3] [0]
    """
    batch = _count("batch_by_length", "batch", batch, 1)
    arrays = [_sequence(i, sequence) for i, sequence in enumerate(sequences)]
    if not arrays:
        raise ValueError("batch_by_length got no sequences and needs at least one")
    features = arrays[0].shape[1:]
    for i, array in enumerate(arrays):
        if array.shape[1:] != features:
            raise ValueError(
                f"batch_by_length needs sequences alike after the first axis: sequence 0 has shape "
                f"{arrays[0].shape}, sequence {i} has shape {array.shape}"
            )
    # An empty list has no numbers, and so no say in the dtype.
    dtype = np.result_type(*({array.dtype for array in arrays if array.size} or {arrays[0].dtype}))
    with np.errstate(invalid="ignore", over="ignore"):
        filler = np.asarray(padding).astype(dtype)
    if filler.ndim or not (filler == padding or (dtype.kind in "fc" and np.isnan(padding))):
        raise ValueError(f"batch_by_length got padding {padding!r}, which sequences of {dtype} cannot hold")

    lengths = np.array([len(array) for array in arrays], dtype=np.intp)
    order = np.arange(len(arrays))
    if rng is not None:
        rng = _generator("batch_by_length", rng)
        order = rng.permutation(order)
    order = order[np.argsort(lengths[order], kind="stable")]
    groups = [order[start : start + batch] for start in range(0, len(order), batch)]
    if rng is not None:
        groups = [groups[i] for i in rng.permutation(len(groups))]

    batches = []
    for rows in groups:
        xs = np.full((lengths[rows].max(), len(rows), *features), filler, dtype=dtype)
        for column, row in enumerate(rows):
            xs[: lengths[row], column] = arrays[row]
        batches.append(Batch(xs, lengths[rows], rows))
    return batches


def _sequence(i: int, sequence: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(sequence)
    except ValueError as error:
        raise ValueError(f"batch_by_length got a ragged sequence {i}: {error}") from None
    if array.ndim < 1 or array.dtype.kind not in "biufc":
        raise ValueError(
            f"batch_by_length needs sequences of numbers with time first, got sequence {i} of shape "
            f"{array.shape} and dtype {array.dtype}"
        )
    return array


def _generator(function: str, rng: np.random.Generator | int) -> np.random.Generator:
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(rng)
    raise ValueError(f"{function} needs rng as a np.random.Generator or a seed (an integer from 0 on), got {rng!r}")


def _count(function: str, name: str, value: int, least: int) -> int:
    try:
        number = least - 1 if isinstance(value, (bool, np.bool_)) else index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{function} needs {name} as an integer of at least {least}, got {value!r}")
    return number
