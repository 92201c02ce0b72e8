"""Batches of sequences of different lengths."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..engine.arguments import generator, whole_number


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
    batch = whole_number("batch_by_length", "batch", batch, 1)
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
        rng = generator(rng, "batch_by_length")
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
