"""Text as batches of characters: the chunks that truncated BPTT trains on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.arguments import whole_number


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
    chunk = whole_number("text_chunks", "chunk", chunk, 1)
    batch = whole_number("text_chunks", "batch", batch, 1)
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
