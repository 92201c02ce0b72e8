"""A row for a word, whatever its sentence: from its characters, or from a table of words.

The symbols of a word: nothing (padding), the 256 bytes, begin and end of word, the marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ...engine.arguments import generator
from ...engine.compositions import concat
from ...engine.ops import less, maximum, relu, sigmoid, where
from ...engine.signatures import Array
from ...engine.tensor import Tensor
from ..layers import Embedding, Linear, tensor
from ..module import Module
from .sentences import Mark, Vocabulary, Word, checked_word

# The symbols of a word: nothing (padding), the 256 bytes, begin and end of word, the marks.
BYTE, BEGIN_WORD, END_WORD, FIRST_MARK = 1, 257, 258, 259
SYMBOLS = FIRST_MARK + len(Mark)


class Highway(Module):
    """y = g·relu(x W + b) + (1 - g)·x with the gate g = σ(x W_g + b_g) (Srivastava et al. 2015): x, y (..., width).

    `carry_bias` is the initial b_g: negative, so that at first most of x is carried through.

    >>> layer = Highway(3, carry_bias=-np.inf, rng=0)
    >>> layer([1.0, -2.0, 3.0]).tolist()
    [1.0, -2.0, 3.0]
    """

    def __init__(self, width: int, carry_bias: float = -2.0, rng: Any = None, dtype: DTypeLike = np.float64) -> None:
        rng = generator(rng)
        self.transform = Linear(width, width, rng=rng, dtype=dtype)
        self.gate = Linear(width, width, rng=rng, dtype=dtype)
        assert self.gate.b is not None
        self.gate.b.data = np.full(width, carry_bias, dtype)

    def __call__(self, x: Any) -> Tensor:
        x = tensor(x)
        g = sigmoid(self.gate(x))
        return g * relu(self.transform(x)) + (1 - g) * x


class CharEncoder(Module):
    """A row for every word from its characters alone: `encoder(words)` is (len(words), width).

    The UTF-8 bytes of a word, between a begin and an end symbol, are embedded (n, `embedding`); for each
    (k, count) in `filters`, `count` filters of width k are products with all windows of k symbols, and each keeps its
    maximum over the windows that the word has; then relu, `highways` Highway layers, and a projection to `width`. A
    word shorter than k has one window, filled up with zeros. A mark (<s>, </s>, <unk>) is a symbol of its own, which
    no string can contain. Longer words count up to their symbol number `longest`, the end symbol among them, as in
    the original, which has longest=50, embedding=16, filters ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256),
    (6, 512), (7, 1024)) and width=512. No word is unknown, and none depends on the words beside it.

    >>> encoder = CharEncoder(4, filters=((1, 3), (2, 5)), rng=0)
    >>> encoder(["key", "schlüssel", ""]).shape
    (3, 4)
    """

    def __init__(
        self,
        width: int,
        filters: Sequence[tuple[int, int]] = ((1, 16), (2, 32), (3, 64), (4, 64)),
        embedding: int = 16,
        highways: int = 2,
        longest: int = 50,
        rng: Any = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        if not filters or any(k < 1 or count < 1 for k, count in filters):
            raise ValueError(f"filters are pairs (width >= 1, count >= 1), got {filters!r}")
        if longest < 3:
            raise ValueError(f"a word needs at least 3 symbols (begin, a byte, end), got longest={longest}")
        rng = generator(rng)
        self.width, self.longest, self.filters = width, longest, [(k, count) for k, count in filters]
        self.symbols = Embedding(SYMBOLS, embedding, padding=0, rng=rng, dtype=dtype)
        self.convolutions = [Linear(k * embedding, count, rng=rng, dtype=dtype) for k, count in self.filters]
        channels = sum(count for _, count in self.filters)
        self.highways = [Highway(channels, rng=rng, dtype=dtype) for _ in range(highways)]
        self.projection = Linear(channels, width, rng=rng, dtype=dtype)

    def spell(self, words: Sequence[Word]) -> tuple[Array, Array]:
        """The symbols of each word, (n, longest word) filled up with 0, and how many each has, (n,)."""
        spelled = []
        for word in words:
            if isinstance(word, Mark):
                inner = [FIRST_MARK + list(Mark).index(word)]
            else:
                inner = [
                    BYTE + byte for byte in checked_word(word).encode("utf-8", "surrogatepass")[: self.longest - 2]
                ]
            spelled.append([BEGIN_WORD, *inner, END_WORD])
        counts = np.array([len(symbols) for symbols in spelled], np.intp)
        widest = max(k for k, _ in self.filters)
        ids = np.zeros((len(spelled), max([widest, *counts.tolist()])), np.intp)
        for row, symbols in zip(ids, spelled, strict=True):
            row[: len(symbols)] = symbols
        return ids, counts

    def __call__(self, words: Sequence[Word]) -> Tensor:
        return self.rows(*self.spell(words))

    def rows(self, ids: Any, counts: Any) -> Tensor:
        """The rows of words that are spelled so, (n, width)."""
        n, length = ids.shape
        characters = self.symbols(ids)
        features = []
        for (k, count), convolution in zip(self.filters, self.convolutions, strict=True):
            starts = length - k + 1
            windows = concat([characters[:, j : j + starts] for j in range(k)], -1)
            found = convolution(windows.reshape(n * starts, -1)).reshape(n, starts, count)
            exists = less(np.arange(starts), maximum(counts - k + 1, 1)[:, None])
            features.append(where(exists[..., None], found, -np.inf).max(1))
        x = relu(concat(features, -1))
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)

    def __repr__(self) -> str:
        return (
            f"CharEncoder({self.width}, filters={self.filters}, embedding={self.symbols.table.shape[1]}, "
            f"highways={len(self.highways)}, longest={self.longest})"
        )


class WordEncoder(Module):
    """A row for every word from a table: `encoder(words)` is (len(words), width). Unknown words share one row.

    >>> encoder = WordEncoder(Vocabulary(["blue", "key"]), 4, rng=0)
    >>> bool((encoder(["lock"]).data == encoder(["door"]).data).all())
    True
    """

    def __init__(self, vocabulary: Vocabulary, width: int, rng: Any = None, dtype: DTypeLike = np.float64) -> None:
        self.vocabulary, self.width = vocabulary, width
        self.rows = Embedding(len(vocabulary), width, rng=rng, dtype=dtype)

    def spell(self, words: Sequence[Word]) -> tuple[Array]:
        """The number of each word, (n,): what `rows`, the table, looks up."""
        return (self.vocabulary.ids(words),)

    def __call__(self, words: Sequence[Word]) -> Tensor:
        return self.rows(*self.spell(words))
