"""Sequences of different lengths in one array: padded, with their lengths, and which steps are real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..engine.arguments import generator, whole_number
from ..engine.ops import greater
from ..engine.tensor import Tensor


def padded(*sequences: Sequence[ArrayLike], fill: Any = 0) -> tuple[NDArray[Any], ...]:
    """Sequences of shapes (T_i, ...) in one array (T, B, ...), filled up at the end, and their lengths (B,).

    Several that go together, as words and their tags, are padded at once: `padded(words, tags)` gives words, tags and
    the lengths, which must be the same for both. `fill`: what stands at padding, or one for each, `fill=(0, -1)`; with
    -1 at the targets, `cross_entropy(..., ignore_index=-1)` leaves padding out. A sequence may be empty. The dtype is
    NumPy's promotion of theirs.

    ValueError for no sequences, shapes that do not go together, lengths that differ between those that should go
    together, what is not numbers (of words take `vocabulary.ids(words)`), and a fill that the dtype cannot hold.

    >>> words, tags, lengths = padded([[5, 6, 7], [8]], [[1, 0, 1], [2]], fill=(0, -1))
    >>> words.T.tolist(), tags.T.tolist(), lengths.tolist()
    ([[5, 6, 7], [8, 0, 0]], [[1, 0, 1], [2, -1, -1]], [3, 1])
    """
    if not sequences:
        raise ValueError("padded got no sequences and needs at least one list of them")
    fills = fill if isinstance(fill, tuple) else (fill,) * len(sequences)
    if len(fills) != len(sequences):
        raise ValueError(f"padded got {len(fills)} fills for {len(sequences)} lists of sequences")
    groups = [_arrays("padded", group) for group in sequences]
    lengths = [np.array([len(array) for array in arrays], np.intp) for arrays in groups]
    for k, other in enumerate(lengths[1:], start=1):
        if len(other) != len(lengths[0]):
            raise ValueError(f"padded got {len(lengths[0])} sequences first and {len(other)} in list {k}")
        if (wrong := np.flatnonzero(other != lengths[0])).size:
            i = wrong[0]
            raise ValueError(
                f"padded needs sequences that go together to be of one length: sequence {i} has {lengths[0][i]} steps "
                f"first and {other[i]} in list {k}"
            )
    return (
        *(_filled(arrays, *_common("padded", "fill", arrays, x)) for arrays, x in zip(groups, fills, strict=True)),
        lengths[0],
    )


def mask(lengths: Any, T: int | None = None) -> Any:
    """Which steps of which rows are real: True at [t, b] where t < lengths[b], shape (T, B).

    T: the longest of the lengths, if it is not given. In a replayed step the lengths are an argument, and T has to be
    given. TypeError for lengths that are no whole numbers, ValueError for some outside 0..T.

    >>> mask([2, 0, 3]).T.tolist()
    [[True, True, False], [False, False, False], [True, True, True]]
    """
    if not isinstance(lengths, Tensor):
        lengths = np.asarray(lengths)
        if lengths.dtype.kind not in "iu" and lengths.size:
            raise TypeError(f"mask needs lengths as whole numbers, got dtype {lengths.dtype}")
        longest = int(lengths.max(initial=0))
        T = longest if T is None else whole_number("mask", "T", T, 0)
        if lengths.size and (lengths.min() < 0 or longest > T):
            raise ValueError(f"mask needs lengths in 0..{T}, the number of steps, got {lengths.min()}..{lengths.max()}")
    elif T is None:
        raise ValueError("mask needs T, the number of steps, where the lengths are a tensor")
    steps = np.arange(T).reshape(-1, *(1 for _ in lengths.shape))
    return greater(lengths, steps)


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
    """Put sequences of similar lengths into batches, so that little is padding.

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
    arrays = _arrays("batch_by_length", sequences)
    dtype, filler = _common("batch_by_length", "padding", arrays, padding)
    lengths = np.array([len(array) for array in arrays], dtype=np.intp)
    order = np.arange(len(arrays))
    if rng is not None:
        rng = generator(rng, "batch_by_length")
        order = rng.permutation(order)
    order = order[np.argsort(lengths[order], kind="stable")]
    groups = [order[start : start + batch] for start in range(0, len(order), batch)]
    if rng is not None:
        groups = [groups[i] for i in rng.permutation(len(groups))]

    return [Batch(_filled([arrays[i] for i in rows], dtype, filler), lengths[rows], rows) for rows in groups]


def _arrays(function: str, sequences: Sequence[ArrayLike]) -> list[NDArray[Any]]:
    """The sequences as arrays, whose shapes go together."""
    arrays = []
    for i, sequence in enumerate(sequences):
        try:
            array = np.asarray(sequence)
        except ValueError as error:
            raise ValueError(f"{function} got a ragged sequence {i}: {error}") from None
        if array.ndim < 1 or array.dtype.kind not in "biufc":
            words = "; of words take vocabulary.ids(words)" if array.dtype.kind in "UO" else ""
            raise ValueError(
                f"{function} needs sequences of numbers with time first, got sequence {i} of shape {array.shape} and "
                f"dtype {array.dtype}{words}"
            )
        arrays.append(array)
    if not arrays:
        raise ValueError(f"{function} got no sequences and needs at least one")
    for i, array in enumerate(arrays):
        if array.shape[1:] != arrays[0].shape[1:]:
            raise ValueError(
                f"{function} needs sequences of one shape after the first axis: sequence 0 has shape "
                f"{arrays[0].shape}, sequence {i} has shape {array.shape}"
            )
    return arrays


def _common(function: str, name: str, arrays: list[NDArray[Any]], fill: Any) -> tuple[np.dtype[Any], NDArray[Any]]:
    """The dtype of the sequences together, and what fills them up in it."""
    # An empty list has no numbers, and so no say in the dtype.
    dtype = np.result_type(*({array.dtype for array in arrays if array.size} or {arrays[0].dtype}))
    with np.errstate(invalid="ignore", over="ignore"):
        filler = np.asarray(fill).astype(dtype)
    if filler.ndim or not (filler == fill or (dtype.kind in "fc" and np.isnan(fill))):
        raise ValueError(f"{function} got {name} {fill!r}, which sequences of {dtype} cannot hold")
    return dtype, filler


def _filled(arrays: list[NDArray[Any]], dtype: np.dtype[Any], filler: NDArray[Any]) -> NDArray[Any]:
    """One array (T, B, ...), filled up at the end of each sequence."""
    xs = np.full((max(len(array) for array in arrays), len(arrays), *arrays[0].shape[1:]), filler, dtype=dtype)
    for column, array in enumerate(arrays):
        xs[: len(array), column] = array
    return xs
